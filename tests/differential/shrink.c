/* Makes a failing text small: tries every way to leave out a statement or to put a part of an expression in the place of the whole, keeps what fails
 * in the same way, and starts again until nothing more can go. Works on the tree before sema, printed as source. */
#include "tests/differential/differential.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ATTEMPTS = 600 };

/* Counts the possible edits in the order of the walk and makes the one whose turn it is. */
typedef struct Edit {
    Arena *arena;
    int turn; /* edits still to pass over */
    bool done;
} Edit;

static bool is_turn(Edit *edit) {
    if (edit->done || edit->turn-- > 0)
        return false;
    edit->done = true;
    return true;
}

static void edit_expr(Edit *edit, Expr **at) {
    Expr *expr = *at;
    if (!expr || edit->done)
        return;
    switch (expr->kind) {
    case EXPR_UNARY:
        if (is_turn(edit))
            *at = expr->left;
        edit_expr(edit, &expr->left);
        break;
    case EXPR_BINARY: /* a chain `a + b + c` leans to the left: the right side is the greater step */
        if (is_turn(edit))
            *at = expr->right;
        else if (is_turn(edit))
            *at = expr->left;
        edit_expr(edit, &expr->left);
        edit_expr(edit, &expr->right);
        break;
    case EXPR_CALL:
        for (int i = 0; i < expr->args.count; i++)
            if (is_turn(edit))
                *at = expr->args.items[i];
        for (int i = 0; i < expr->args.count; i++)
            edit_expr(edit, &expr->args.items[i]);
        break;
    case EXPR_INDEX:
        for (int i = 0; i < expr->subs.count; i++)
            edit_expr(edit, &expr->subs.items[i].a);
        break;
    default:
        break;
    }
}

static void remove_stmt(Block *block, int at) {
    memmove(&block->items[at], &block->items[at + 1], sizeof *block->items * (size_t)(block->count - at - 1));
    block->count--;
}

/* Puts the statements of `inner` in the place of one. */
static void replace_stmt(Edit *edit, Block *block, int at, const Block *inner) {
    Block result = {0};
    for (int i = 0; i < block->count; i++)
        if (i != at)
            vec_push(edit->arena, &result, block->items[i]);
        else
            for (int k = 0; k < inner->count; k++)
                vec_push(edit->arena, &result, inner->items[k]);
    *block = result;
}

/* The last first: what it uses may go then. */
static void edit_block(Edit *edit, Block *block) {
    for (int i = block->count - 1; i >= 0 && !edit->done; i--)
        if (is_turn(edit))
            remove_stmt(block, i);
    for (int i = block->count - 1; i >= 0 && !edit->done; i--) {
        Stmt *stmt = block->items[i];
        if (stmt->body.count && is_turn(edit))
            replace_stmt(edit, block, i, &stmt->body);
        else if (stmt->otherwise.count && is_turn(edit))
            replace_stmt(edit, block, i, &stmt->otherwise);
        edit_block(edit, &stmt->body);
        edit_block(edit, &stmt->otherwise);
        edit_expr(edit, &stmt->value);
        if (stmt->target)
            edit_expr(edit, &stmt->target);
        for (int k = 0; k < stmt->range.count; k++)
            edit_expr(edit, &stmt->range.items[k]);
    }
}

static void edit_decls(Edit *edit, Ast *ast) {
    for (int i = 0; i < ast->decls.count && !edit->done; i++)
        if (!ast->decls.items[i]->is_kernel && is_turn(edit)) {
            memmove(&ast->decls.items[i], &ast->decls.items[i + 1], sizeof *ast->decls.items * (size_t)(ast->decls.count - i - 1));
            ast->decls.count--;
        }
    for (int i = 0; i < ast->decls.count && !edit->done; i++) {
        Decl *decl = ast->decls.items[i];
        for (int k = 0; k < decl->attrs.count && !edit->done; k++)
            if (is_turn(edit)) {
                memmove(&decl->attrs.items[k], &decl->attrs.items[k + 1], sizeof *decl->attrs.items * (size_t)(decl->attrs.count - k - 1));
                decl->attrs.count--;
            }
        for (int k = 0; decl->is_kernel && k < decl->params.count && !edit->done; k++)
            if (is_turn(edit)) {
                memmove(&decl->params.items[k], &decl->params.items[k + 1], sizeof *decl->params.items * (size_t)(decl->params.count - k - 1));
                decl->params.count--;
            }
        edit_block(edit, &decl->body);
    }
}

/* The text with edit number `turn`; NULL: there are fewer. */
static char *edited(const char *text, int turn) {
    Subject subject;
    subject_open(&subject, text, false);
    Edit edit = {subject.arena, turn, false};
    edit_decls(&edit, subject.ast);
    Buffer result = {0};
    const char *line = strstr(text, "// differential "), *end = line ? strchr(line, '\n') : NULL;
    if (edit.done && end) {
        buffer_append(&result, line, (size_t)(end - line) + 1);
        ast_print(&result, subject.ast);
    }
    subject_close(&subject);
    return result.data;
}

/* One round through all edits; whether any was kept. What an edit leaves is edited further at the same turn. */
static bool shrink_once(const Tools *tools, char **best, Verdict verdict, int *attempts) {
    bool changed = false;
    int turn = 0;
    for (char *candidate; *attempts < MOST_ATTEMPTS && (candidate = edited(*best, turn)) != NULL;) {
        Buffer log = {0};
        Verdict found = strcmp(candidate, *best) == 0 ? VERDICT_SAME : judge(tools, candidate, &log);
        buffer_free(&log);
        *attempts += found != VERDICT_INVALID;
        if (found == verdict) {
            free(*best);
            *best = candidate;
            changed = true;
        } else {
            free(candidate);
            turn++;
        }
    }
    return changed;
}

static bool still_fails(const Tools *tools, const char *text, Verdict verdict) {
    Buffer log = {0};
    bool fails = judge(tools, text, &log) == verdict;
    buffer_free(&log);
    return fails;
}

char *shrink(const Tools *tools, const char *text, Verdict verdict) {
    Tools quick = *tools;
    if (verdict == VERDICT_WRONG && tools->builds == BUILDS_ALL) { /* which one executable decides alone */
        quick.builds = BUILDS_O0;
        if (!still_fails(&quick, text, verdict))
            quick.builds = BUILDS_FIRST;
    }
    char *best = strdup(text);
    int attempts = 0;
    while (shrink_once(&quick, &best, verdict, &attempts))
        ;
    return best;
}
