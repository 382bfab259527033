/* What may stand at a place, by the text before it: the source is seldom whole while it is being typed. */
#include "compiler/lsp/lsp.h"
#include "compiler/parse/lexer.h"

#include <ctype.h>
#include <string.h>

enum { ITEM_FUNCTION = 3, ITEM_FIELD = 5, ITEM_VARIABLE = 6, ITEM_PROPERTY = 10, ITEM_KEYWORD = 14, ITEM_CONSTANT = 21, ITEM_TYPE = 25 };

typedef struct Items {
    json_t *array;
    const char *prefix; /* what is typed of the name */
    size_t prefix_length;
} Items;

static void offer_text(Items *items, const char *name, int kind, const char *detail) {
    size_t index;
    json_t *item;
    if (strncmp(name, items->prefix, items->prefix_length) != 0)
        return;
    json_array_foreach(items->array, index, item) if (strcmp(json_string_value(json_object_get(item, "label")), name) == 0) return;
    item = json_pack("{s:s, s:i}", "label", name, "kind", kind);
    if (detail)
        json_object_set_new(item, "detail", json_string(detail));
    json_array_append_new(items->array, item);
}

static void offer(Items *items, const char *name, int kind) {
    offer_text(items, name, kind, NULL);
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* Whether `path`, such as "ctx.block.", stands before the name that is being typed; the rest of builtins that begin so are its fields. */
static bool path_before(const char *line, size_t length, char path[64]) {
    size_t start = length;
    while (start && (is_word(line[start - 1]) || line[start - 1] == '.'))
        start--;
    if (length == start || line[length - 1] != '.' || length - start >= 64)
        return false;
    memcpy(path, line + start, length - start);
    path[length - start] = '\0';
    return true;
}

static const char *const builtin_names[] = {
#define BUILTIN(id, text, least, most, operands, result) text,
#include "compiler/sema/builtins.def"
#undef BUILTIN
};
#define BUILTIN_NAMES (sizeof builtin_names / sizeof *builtin_names)

static void offer_fields(Items *items, const char *path) {
    size_t length = strlen(path);
    bool exact = false;
    for (size_t i = 0; i < BUILTIN_NAMES; i++) {
        const char *name = builtin_names[i];
        exact |= strlen(name) + 1 == length && strncmp(name, path, length - 1) == 0;
        if (strncmp(name, path, length) != 0)
            continue;
        char field[64];
        size_t end = strcspn(name + length, ".");
        if (end >= sizeof field)
            continue;
        memcpy(field, name + length, end);
        field[end] = '\0';
        offer(items, field, ITEM_FIELD);
    }
    static const char *const axes[] = {"x", "y", "z"};
    for (int i = 0; exact && i < 3; i++)
        offer(items, axes[i], ITEM_FIELD);
}

static void offer_attributes(Items *items) {
    for (int i = 0; attribute_name(i); i++)
        offer(items, attribute_name(i), ITEM_PROPERTY);
}

static void offer_language(Items *items) {
    for (int kind = 0; kind < TOKEN_COUNT; kind++)
        if (kind >= TOKEN_KERNEL && kind <= TOKEN_FALSE)
            offer(items, token_text((TokenKind)kind), ITEM_KEYWORD);
    for (size_t i = 0; i < BUILTIN_NAMES; i++)
        if (builtin_names[i][0] && !strchr(builtin_names[i], '.'))
            offer(items, builtin_names[i], ITEM_FUNCTION);
    for (int type = 0; type < PHB_DTYPE_COUNT; type++)
        offer(items, dtype_name((PhbDType)type), ITEM_TYPE);
#define X(id, name) offer(items, name, ITEM_TYPE);
    AST_SHAPED_TYPES(X)
#undef X
    offer(items, "ctx", ITEM_VARIABLE);
    offer(items, "range", ITEM_FUNCTION);
}

/* What `block` declares before a line, and blocks around that line. */
static void offer_block(Items *items, const Block *block, uint32_t line) {
    for (int i = 0; i < block->count; i++) {
        const Stmt *stmt = block->items[i];
        if (stmt->span.line > line)
            return;
        if (stmt->name)
            offer(items, stmt->name, ITEM_VARIABLE);
        bool last = i + 1 == block->count || block->items[i + 1]->span.line > line;
        if (last) {
            offer_block(items, &stmt->body, line);
            offer_block(items, &stmt->otherwise, line);
        }
    }
}

static void offer_dims(Items *items, Expr *const *exprs, int count) {
    for (int i = 0; i < count; i++) {
        if (exprs[i]->kind == EXPR_NAME)
            offer(items, exprs[i]->text, ITEM_CONSTANT);
        Expr *operands[] = {exprs[i]->left, exprs[i]->right};
        for (int k = 0; k < 2; k++)
            if (operands[k])
                offer_dims(items, &operands[k], 1);
    }
}

static void offer_decl(Items *items, const Decl *decl, uint32_t line) {
    for (int i = 0; i < decl->params.count; i++) {
        const ParamDecl *param = &decl->params.items[i];
        Buffer type = {0};
        if (param->type) {
            type_expr_print(&type, param->type);
            offer_dims(items, param->type->dims.items, param->type->dims.count);
        }
        offer_text(items, param->name, ITEM_VARIABLE, type.data);
        buffer_free(&type);
    }
    for (int i = 0; i < decl->attrs.count; i++)
        for (int k = 0; k < decl->attrs.items[i].args.count; k++)
            if (decl->attrs.items[i].args.items[k].is_in)
                offer(items, decl->attrs.items[i].args.items[k].name, ITEM_CONSTANT);
    offer_block(items, &decl->body, line);
}

/* The declaration that the line stands in: the last one that starts before it. */
static void offer_names(Items *items, const Ast *ast, uint32_t line) {
    const Decl *around = NULL;
    for (int d = 0; d < ast->decls.count; d++) {
        const Decl *decl = ast->decls.items[d];
        if (decl->span.line <= line)
            around = decl;
        if (!decl->is_kernel)
            offer(items, decl->name, ITEM_FUNCTION);
    }
    if (around)
        offer_decl(items, around, line);
}

json_t *complete_at(const Document *document, Span place) {
    size_t length;
    const char *line = document_before(document, place, &length);
    size_t start = length;
    while (start && is_word(line[start - 1]))
        start--;
    Items items = {json_array(), line + start, length - start};
    char path[64];
    if (start && line[start - 1] == '@') {
        offer_attributes(&items);
    } else if (path_before(line, start, path)) {
        offer_fields(&items, path);
    } else {
        offer_names(&items, document->ast, place.line);
        offer_language(&items);
    }
    return items.array;
}
