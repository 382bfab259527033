/* lexer.c: source text to tokens, and newlines to statement ends. Private to the parser and its tests. */
#ifndef PHOBOS_LEXER_H
#define PHOBOS_LEXER_H

#include "compiler/parse/ast.h"

typedef enum TokenKind {
#define TOKEN(id, text) TOKEN_##id,
#include "compiler/parse/tokens.def"
#define X(id, text, precedence) TOKEN_##id,
    AST_BINARY_OPS(X) /* in the order of BinaryOp: see token_binary */
#undef X
    TOKEN_COUNT
} TokenKind;

typedef struct Token {
    TokenKind kind;
    Span span;        /* NEWLINE and END: just after the token before */
    size_t offset;    /* of its first byte in the text */
    bool line_start;  /* first on its line */
    const char *text; /* NAME, INT, FLOAT: as spelled, interned; a keyword or operator: its spelling */
    uint64_t int_value;
    double float_value;
} Token;

typedef struct Lexer {
    Context *context;
    const char *text;
    size_t length, at;  /* `at`: the next byte to read */
    size_t line_offset; /* of the line that `at` is on */
    uint32_t line;
    int braces, brackets; /* open '{'; open '(' and '[' in the innermost of them */
    Token held;           /* the token that a NEWLINE was put before; valid while has_held */
    bool has_held;
    bool comment_open; /* the text ends in a comment that is not closed, which is reported */
    TokenKind last;    /* the token given last, NEWLINE apart, and where it ends */
    size_t last_end;
    Span last_end_span;
} Lexer;

void lexer_init(Lexer *lexer, Context *context);

/* The next token; END for ever at the end. A malformed number is reported and given as the number 0, anything else that is no token is reported and
 * given as ERROR. NEWLINE stands only where a newline ends a statement. */
Token lexer_next(Lexer *lexer);

/* The token after the NEWLINE that was just given. */
const Token *lexer_after_newline(const Lexer *lexer);

/* The spelling of a token, or what it is: "end of line". */
const char *token_text(TokenKind kind);

/* Whether `kind` is a binary operator, and which. */
bool token_binary(TokenKind kind, BinaryOp *op);
/* Whether `kind` assigns. *compound: it is `op=`, with *op set. */
bool token_assign(TokenKind kind, bool *compound, BinaryOp *op);
/* Whether a statement goes on after a line that ends with `kind`; such a token cannot start a line. */
bool token_continues(TokenKind kind);

#endif
