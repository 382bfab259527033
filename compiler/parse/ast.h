/* The syntax tree of a .phb file. The parser fills the first part of each node; sema the fields below "sema". */
#ifndef PHOBOS_AST_H
#define PHOBOS_AST_H

#include "compiler/base/base.h"

#define PARSE_MAX_DEPTH 200   /* nesting of expressions, types and blocks */
#define PARSE_MAX_HEIGHT 1000 /* of an expression's tree, which a chain `a + a + ..` makes high without nesting: bounds every recursive walk */

typedef struct Expr Expr;
typedef struct Stmt Stmt;
typedef struct Symbol Symbol;   /* sema.h */
typedef struct Inlined Inlined; /* sema.h */

/* Binary operators, loosest first: enumerator, spelling, precedence. */
#define AST_BINARY_OPS(X) \
    X(LOGIC_OR, "||", 1)  \
    X(LOGIC_AND, "&&", 2) \
    X(OR, "|", 3)         \
    X(XOR, "^", 4)        \
    X(AND, "&", 5)        \
    X(EQ, "==", 6)        \
    X(NE, "!=", 6)        \
    X(LT, "<", 7)         \
    X(LE, "<=", 7)        \
    X(GT, ">", 7)         \
    X(GE, ">=", 7)        \
    X(SHL, "<<", 8)       \
    X(SHR, ">>", 8)       \
    X(ADD, "+", 9)        \
    X(SUB, "-", 9)        \
    X(MUL, "*", 10)       \
    X(DIV, "/", 10)       \
    X(REM, "%", 10)

typedef enum BinaryOp {
#define X(id, text, precedence) BINARY_##id,
    AST_BINARY_OPS(X)
#undef X
        BINARY_OP_COUNT
} BinaryOp;

typedef enum UnaryOp { UNARY_NEG, UNARY_NOT, UNARY_BITNOT } UnaryOp; /* - ! ~ */

typedef enum ExprKind {
    EXPR_INT,   /* 42 */
    EXPR_FLOAT, /* 1.0 0x1p-3 inf nan */
    EXPR_BOOL,
    EXPR_NAME,
    EXPR_UNARY,
    EXPR_BINARY,
    EXPR_CALL,    /* callee(args): callee is a NAME in all that sema accepts */
    EXPR_INDEX,   /* base[subs] */
    EXPR_FIELD,   /* base.name */
    EXPR_CONVERT, /* made by sema: `left` converted to `type` (same shape) */
    EXPR_INLINE,  /* made by sema of a CALL of a fn: `inlined` */
} ExprKind;

typedef enum SubKind {
    SUB_POINT, /* a */
    SUB_ALL,   /* : */
    SUB_TO,    /* :b */
    SUB_FROM,  /* a: */
    SUB_RANGE, /* a:b */
    SUB_COUNT, /* a :+ n */
} SubKind;

typedef struct Sub {
    SubKind kind;
    Span span;
    Expr *a, *b; /* b: the end of RANGE and TO, the count of COUNT */
    /* sema */
    const Dim *extent; /* of the axis that this subscript leaves; NULL for a point */
} Sub;

struct Expr {
    ExprKind kind;
    int height; /* of the tree from here down; a leaf's is 1 */
    Span span; /* the whole expression with its parentheses, cut at its first line's end */
    Span op_span; /* BINARY, UNARY: the operator; FIELD: the name after the point */
    uint64_t int_value;
    double float_value;
    bool bool_value;
    const char *text; /* INT, FLOAT: as spelled; NAME, FIELD: the name, interned */
    UnaryOp unary;
    BinaryOp binary;
    Expr *left, *right; /* UNARY, CALL, INDEX, FIELD, CONVERT: left is the operand, callee or base */
    VEC(Expr *) args;
    VEC(Sub) subs;
    /* sema */
    const Type *type;
    const Dim *dim;     /* the value, where it is an expression over dims and integers alone */
    Symbol *symbol;     /* NAME: what it names */
    int builtin;        /* CALL, FIELD: Builtin of sema.h, else 0 */
    bool is_once;       /* an element that is stored to, CALL of an atomic: once per CTA, else once per thread */
    Inlined *inlined;   /* INLINE */
};

typedef enum StmtKind {
    STMT_LET,
    STMT_VAR,
    STMT_ASSIGN, /* target = value, or target op= value */
    STMT_FOR,
    STMT_WHILE,
    STMT_IF,
    STMT_BREAK,
    STMT_CONTINUE,
    STMT_RETURN,
    STMT_CALL,
} StmtKind;

/* Types with a shape: TypeKind and name in the source. */
#define AST_SHAPED_TYPES(X) \
    X(TENSOR, "tensor")     \
    X(TILE, "tile")         \
    X(SHARED, "shared")

typedef struct TypeExpr {
    Span span;
    TypeKind kind; /* SCALAR, TENSOR, TILE or SHARED; POISON: missing, and reported */
    PhbDType scalar;
    VEC(Expr *) dims;
} TypeExpr;

typedef VEC(Stmt *) Block;

struct Stmt {
    StmtKind kind;
    Span span; /* the whole statement's first line */
    const char *name; /* LET, VAR, FOR: interned */
    Span name_span;
    TypeExpr *declared; /* LET, VAR: may be NULL */
    Expr *target;       /* ASSIGN */
    bool compound;      /* ASSIGN: `op` counts */
    BinaryOp op;
    Expr *value; /* LET, VAR (may be NULL), ASSIGN, RETURN (may be NULL), CALL; WHILE, IF: the condition */
    VEC(Expr *) range; /* FOR: one to three */
    Expr *unroll;      /* FOR: INT or NAME, may be NULL */
    Block body;        /* FOR, WHILE, IF */
    Block otherwise;   /* IF: `else if` is one IF statement in here */
    bool has_else;
    /* sema */
    Symbol *symbol; /* LET, VAR, FOR: what is declared */
};

typedef struct AttrArg {
    Span span;
    const char *name;  /* `name in list` and `name = value`: interned; else NULL */
    Span name_span;
    bool is_in;        /* name in [..] */
    bool is_list;      /* items count, else value */
    Expr *value;
    VEC(Expr *) items;
} AttrArg;

typedef struct Attr {
    Span span; /* from '@' through the name */
    const char *name;
    VEC(AttrArg) args;
} Attr;

typedef struct ParamDecl {
    const char *name;
    Span span;
    TypeExpr *type; /* NULL: left out (fn only) */
} ParamDecl;

typedef struct Decl {
    bool is_kernel; /* else fn */
    Span span;      /* of the keyword */
    const char *name;
    Span name_span;
    VEC(Attr) attrs;
    VEC(ParamDecl) params;
    TypeExpr *result; /* fn: may be NULL */
    Block body;
} Decl;

typedef struct Ast {
    VEC(Decl *) decls;
} Ast;

/* decl.c (over stmt.c, expr.c, parser.c, lexer.c): parses the whole file; syntax errors go to the diagnostics and the parser goes on at the next statement or
 * declaration; what is left out of the tree is whole statements and declarations. Never NULL. */
Ast *parse_source(Context *context);

/* print.c: source text that parses to the same tree; one canonical layout. */
void ast_print(Buffer *buffer, const Ast *ast);
void expr_print(Buffer *buffer, const Expr *expr);
void type_expr_print(Buffer *buffer, const TypeExpr *type);
const char *binary_op_text(BinaryOp op);

/* format.c: appends the source, which parses, in the formatter's layout. */
void source_format(Context *context, Buffer *out);

#endif
