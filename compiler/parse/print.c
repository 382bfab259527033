/* The syntax tree as source text in one canonical layout, with the fewest parentheses. */
#include "compiler/parse/ast.h"

#define INDENT 4

/* How tightly an expression holds together; binary operators are below, with the precedence of AST_BINARY_OPS. */
#define PRECEDENCE_UNARY 11
#define PRECEDENCE_POSTFIX 12

static const char *const unary_texts[] = {[UNARY_NEG] = "-", [UNARY_NOT] = "!", [UNARY_BITNOT] = "~"};

static const struct {
    const char *text;
    int precedence;
} binary_ops[BINARY_OP_COUNT] = {
#define X(id, text, precedence) [BINARY_##id] = {text, precedence},
    AST_BINARY_OPS(X)
#undef X
};

static const char *const shaped_texts[] = {
#define X(id, name) [TYPE_##id] = name,
    AST_SHAPED_TYPES(X)
#undef X
};

const char *binary_op_text(BinaryOp op) {
    return binary_ops[op].text;
}

/* ---- expressions ---- */

static int expr_precedence(const Expr *expr) {
    return expr->kind == EXPR_BINARY ? binary_ops[expr->binary].precedence : expr->kind == EXPR_UNARY ? PRECEDENCE_UNARY : PRECEDENCE_POSTFIX;
}

/* Prints an operand that must hold together at least as tightly as `precedence`. */
static void operand_print(Buffer *out, const Expr *expr, int precedence) {
    bool parentheses = expr_precedence(expr) < precedence;
    buffer_puts(out, parentheses ? "(" : "");
    expr_print(out, expr);
    buffer_puts(out, parentheses ? ")" : "");
}

static void exprs_print(Buffer *out, Expr *const *exprs, int count) {
    for (int i = 0; i < count; i++) {
        buffer_puts(out, i ? ", " : "");
        expr_print(out, exprs[i]);
    }
}

static void sub_print(Buffer *out, const Sub *sub) {
    if (sub->a)
        expr_print(out, sub->a);
    if (sub->kind != SUB_POINT)
        buffer_puts(out, sub->kind == SUB_COUNT ? " :+ " : ":");
    if (sub->b)
        expr_print(out, sub->b);
}

static void subs_print(Buffer *out, const Sub *subs, int count) {
    for (int i = 0; i < count; i++) {
        buffer_puts(out, i ? ", " : "");
        sub_print(out, &subs[i]);
    }
}

/* The point after a number would be read as part of it. */
static void field_print(Buffer *out, const Expr *expr) {
    bool number = expr->left->kind == EXPR_INT || expr->left->kind == EXPR_FLOAT;
    buffer_puts(out, number ? "(" : "");
    operand_print(out, expr->left, PRECEDENCE_POSTFIX);
    buffer_puts(out, number ? ")." : ".");
    buffer_puts(out, expr->text);
}

void expr_print(Buffer *out, const Expr *expr) {
    switch (expr->kind) {
    case EXPR_INT:
    case EXPR_FLOAT:
    case EXPR_NAME:
        buffer_puts(out, expr->text);
        break;
    case EXPR_BOOL:
        buffer_puts(out, expr->bool_value ? "true" : "false");
        break;
    case EXPR_UNARY:
        buffer_puts(out, unary_texts[expr->unary]);
        operand_print(out, expr->left, PRECEDENCE_UNARY);
        break;
    case EXPR_BINARY: {
        int precedence = binary_ops[expr->binary].precedence;
        operand_print(out, expr->left, precedence);
        buffer_puts(out, " ");
        buffer_puts(out, binary_ops[expr->binary].text);
        buffer_puts(out, " ");
        operand_print(out, expr->right, precedence + 1);
        break;
    }
    case EXPR_CALL:
    case EXPR_INLINE:
        operand_print(out, expr->left, PRECEDENCE_POSTFIX);
        buffer_puts(out, "(");
        exprs_print(out, expr->args.items, expr->args.count);
        buffer_puts(out, ")");
        break;
    case EXPR_INDEX:
        operand_print(out, expr->left, PRECEDENCE_POSTFIX);
        buffer_puts(out, "[");
        subs_print(out, expr->subs.items, expr->subs.count);
        buffer_puts(out, "]");
        break;
    case EXPR_FIELD:
        field_print(out, expr);
        break;
    case EXPR_CONVERT: /* sema's, not in the source */
        expr_print(out, expr->left);
        break;
    }
}

void type_expr_print(Buffer *out, const TypeExpr *type) {
    if (type->kind == TYPE_SCALAR) {
        buffer_puts(out, dtype_name(type->scalar));
        return;
    }
    buffer_printf(out, "%s<%s>[", shaped_texts[type->kind], dtype_name(type->scalar));
    exprs_print(out, type->dims.items, type->dims.count);
    buffer_puts(out, "]");
}

/* ---- statements ---- */

static void stmt_print(Buffer *out, const Stmt *stmt, int indent);

static void block_print(Buffer *out, const Block *block, int indent) {
    buffer_puts(out, "{\n");
    for (int i = 0; i < block->count; i++) {
        buffer_printf(out, "%*s", indent + INDENT, "");
        stmt_print(out, block->items[i], indent + INDENT);
        buffer_puts(out, "\n");
    }
    buffer_printf(out, "%*s}", indent, "");
}

static void declaration_print(Buffer *out, const Stmt *stmt) {
    buffer_puts(out, stmt->kind == STMT_LET ? "let " : "var ");
    buffer_puts(out, stmt->name);
    if (stmt->declared) {
        buffer_puts(out, ": ");
        type_expr_print(out, stmt->declared);
    }
    if (stmt->value) {
        buffer_puts(out, " = ");
        expr_print(out, stmt->value);
    }
}

static void for_print(Buffer *out, const Stmt *stmt, int indent) {
    buffer_puts(out, "for");
    if (stmt->unroll) {
        buffer_puts(out, "<unroll ");
        expr_print(out, stmt->unroll);
        buffer_puts(out, ">");
    }
    buffer_puts(out, " ");
    buffer_puts(out, stmt->name);
    buffer_puts(out, " in range(");
    exprs_print(out, stmt->range.items, stmt->range.count);
    buffer_puts(out, ") ");
    block_print(out, &stmt->body, indent);
}

static void if_print(Buffer *out, const Stmt *stmt, int indent) {
    buffer_puts(out, "if ");
    expr_print(out, stmt->value);
    buffer_puts(out, " ");
    block_print(out, &stmt->body, indent);
    if (!stmt->has_else)
        return;
    buffer_puts(out, " else ");
    if (stmt->otherwise.count == 1 && stmt->otherwise.items[0]->kind == STMT_IF)
        if_print(out, stmt->otherwise.items[0], indent);
    else
        block_print(out, &stmt->otherwise, indent);
}

static void stmt_print(Buffer *out, const Stmt *stmt, int indent) {
    switch (stmt->kind) {
    case STMT_LET:
    case STMT_VAR:
        declaration_print(out, stmt);
        break;
    case STMT_ASSIGN:
        expr_print(out, stmt->target);
        buffer_printf(out, " %s= ", stmt->compound ? binary_ops[stmt->op].text : "");
        expr_print(out, stmt->value);
        break;
    case STMT_FOR:
        for_print(out, stmt, indent);
        break;
    case STMT_WHILE:
        buffer_puts(out, "while ");
        expr_print(out, stmt->value);
        buffer_puts(out, " ");
        block_print(out, &stmt->body, indent);
        break;
    case STMT_IF:
        if_print(out, stmt, indent);
        break;
    case STMT_BREAK:
        buffer_puts(out, "break");
        break;
    case STMT_CONTINUE:
        buffer_puts(out, "continue");
        break;
    case STMT_RETURN:
        buffer_puts(out, stmt->value ? "return " : "return");
        if (stmt->value)
            expr_print(out, stmt->value);
        break;
    case STMT_CALL:
        expr_print(out, stmt->value);
        break;
    }
}

/* ---- declarations ---- */

static void attr_arg_print(Buffer *out, const AttrArg *arg) {
    if (arg->name) {
        buffer_puts(out, arg->name);
        buffer_puts(out, arg->is_in ? " in " : " = ");
    }
    if (arg->is_list) {
        buffer_puts(out, "[");
        exprs_print(out, arg->items.items, arg->items.count);
        buffer_puts(out, "]");
    } else {
        expr_print(out, arg->value);
    }
}

static void attr_print(Buffer *out, const Attr *attr) {
    buffer_puts(out, "@");
    buffer_puts(out, attr->name);
    for (int i = 0; i < attr->args.count; i++) {
        buffer_puts(out, i ? ", " : "(");
        attr_arg_print(out, &attr->args.items[i]);
    }
    buffer_puts(out, attr->args.count ? ")\n" : "\n");
}

static void params_print(Buffer *out, const Decl *decl) {
    buffer_puts(out, "(");
    for (int i = 0; i < decl->params.count; i++) {
        const ParamDecl *param = &decl->params.items[i];
        buffer_puts(out, i ? ", " : "");
        buffer_puts(out, param->name);
        if (param->type) {
            buffer_puts(out, ": ");
            type_expr_print(out, param->type);
        }
    }
    buffer_puts(out, ")");
}

static void decl_print(Buffer *out, const Decl *decl) {
    for (int i = 0; i < decl->attrs.count; i++)
        attr_print(out, &decl->attrs.items[i]);
    buffer_puts(out, decl->is_kernel ? "kernel " : "fn ");
    buffer_puts(out, decl->name);
    params_print(out, decl);
    if (decl->result) {
        buffer_puts(out, " -> ");
        type_expr_print(out, decl->result);
    }
    buffer_puts(out, " ");
    block_print(out, &decl->body, 0);
    buffer_puts(out, "\n");
}

void ast_print(Buffer *out, const Ast *ast) {
    for (int i = 0; i < ast->decls.count; i++) {
        buffer_puts(out, i ? "\n" : "");
        decl_print(out, ast->decls.items[i]);
    }
}
