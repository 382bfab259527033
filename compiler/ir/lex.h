/* Tokens of the IR text; the reader alone uses them. */
#ifndef PHOBOS_IR_LEX_H
#define PHOBOS_IR_LEX_H

#include "compiler/base/base.h"

typedef enum IrTokenKind {
    IR_TOKEN_END,
    IR_TOKEN_NEWLINE, /* one or more, with what is blank around them */
    IR_TOKEN_WORD,    /* add, ctx.block.x, phobos-ir */
    IR_TOKEN_VALUE,   /* %7, %a */
    IR_TOKEN_INT,     /* 42, 0x2a */
    IR_TOKEN_FLOAT,   /* 1.5, 1e-30 */
    IR_TOKEN_STRING,
    IR_TOKEN_SYMBOL,
    IR_TOKEN_ERROR,
} IrTokenKind;

typedef struct IrToken {
    IrTokenKind kind;
    const char *text; /* in the source, `length` bytes */
    size_t length;
    Span span;
    uint64_t value; /* INT, VALUE called by a number */
    double real;    /* FLOAT; INT too */
    bool is_hex;    /* INT */
    bool is_number; /* VALUE */
    const char *error;
} IrToken;

typedef struct IrLexer {
    const char *at, *end, *line_start;
    uint32_t line;
} IrLexer;

void ir_lexer_init(IrLexer *lexer, const Source *source);
IrToken ir_lex(IrLexer *lexer);                                  /* END again and again at the end */
const char *ir_token_string(Arena *arena, const IrToken *token); /* what a STRING spells */

#endif
