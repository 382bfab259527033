/* Copies of a fn's body, one for each call, of what the parser made: sema writes into the copies alone. */
#include "compiler/sema/check.h"

typedef struct Copier {
    Arena *arena;
    int nodes; /* copied so far */
} Copier;

static Expr *copy_expr(Copier *copier, const Expr *expr);

static Sub copy_sub(Copier *copier, const Sub *sub) {
    Sub copy = *sub;
    copy.a = copy_expr(copier, sub->a);
    copy.b = copy_expr(copier, sub->b);
    return copy;
}

static Expr *copy_expr(Copier *copier, const Expr *expr) {
    if (!expr)
        return NULL;
    Expr *copy = NEW(copier->arena, Expr);
    copier->nodes++;
    *copy = *expr;
    copy->left = copy_expr(copier, expr->left);
    copy->right = copy_expr(copier, expr->right);
    copy->args.items = NULL;
    copy->args.count = copy->args.capacity = 0;
    for (int i = 0; i < expr->args.count; i++)
        vec_push(copier->arena, &copy->args, copy_expr(copier, expr->args.items[i]));
    copy->subs.items = NULL;
    copy->subs.count = copy->subs.capacity = 0;
    for (int i = 0; i < expr->subs.count; i++)
        vec_push(copier->arena, &copy->subs, copy_sub(copier, &expr->subs.items[i]));
    return copy;
}

static TypeExpr *copy_type(Copier *copier, const TypeExpr *type) {
    if (!type)
        return NULL;
    TypeExpr *copy = NEW(copier->arena, TypeExpr);
    *copy = (TypeExpr){.span = type->span, .kind = type->kind, .scalar = type->scalar};
    for (int i = 0; i < type->dims.count; i++)
        vec_push(copier->arena, &copy->dims, copy_expr(copier, type->dims.items[i]));
    return copy;
}

static Block copy_block(Copier *copier, const Block *block);

static Stmt *copy_stmt(Copier *copier, const Stmt *stmt) {
    Stmt *copy = NEW(copier->arena, Stmt);
    copier->nodes++;
    *copy = *stmt;
    copy->declared = copy_type(copier, stmt->declared);
    copy->target = copy_expr(copier, stmt->target);
    copy->value = copy_expr(copier, stmt->value);
    copy->range.items = NULL;
    copy->range.count = copy->range.capacity = 0;
    for (int i = 0; i < stmt->range.count; i++)
        vec_push(copier->arena, &copy->range, copy_expr(copier, stmt->range.items[i]));
    copy->unroll = copy_expr(copier, stmt->unroll);
    copy->body = copy_block(copier, &stmt->body);
    copy->otherwise = copy_block(copier, &stmt->otherwise);
    return copy;
}

static Block copy_block(Copier *copier, const Block *block) {
    Block copy = {0};
    for (int i = 0; i < block->count; i++)
        vec_push(copier->arena, &copy, copy_stmt(copier, block->items[i]));
    return copy;
}

Block block_copy(Arena *arena, const Block *block, int *nodes) {
    Copier copier = {.arena = arena};
    Block copy = copy_block(&copier, block);
    *nodes = copier.nodes;
    return copy;
}

TypeExpr *type_expr_copy(Arena *arena, const TypeExpr *type) {
    Copier copier = {.arena = arena};
    return copy_type(&copier, type);
}
