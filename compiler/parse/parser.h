/* Recursive descent, one token ahead: what parser.c, expr.c, stmt.c and decl.c share. A function that cannot go on reports what it expected and gives
 * NULL (or false); callers pass that on up to the statement or declaration, which is left out of the tree, and parsing goes on after it. No token is
 * reported twice, so that one mistake gives one message. */
#ifndef PHOBOS_PARSER_H
#define PHOBOS_PARSER_H

#include "compiler/parse/lexer.h"

typedef struct Parser {
    Context *context;
    Arena *arena;
    Lexer lexer;
    Token token;             /* the next one, not consumed yet */
    VEC(uint32_t) code_ends; /* by line: the column after the last token consumed there */
    int depth;
    bool has_reported;
    size_t reported; /* offset of the token last reported */
    bool gave_up;    /* nested too deep: nothing more is read, or reported */
} Parser;

/* ---- parser.c: tokens and errors ---- */

void parser_init(Parser *p, Context *context);
void parser_advance(Parser *p);
bool parser_at(const Parser *p, TokenKind kind);
bool parser_at_word(const Parser *p, const char *word);
/* The first token of the next declaration; in the middle of a line it is a mistake in this one. */
bool parser_at_declaration(const Parser *p);
bool parser_at_statement_end(const Parser *p);
bool parser_accept(Parser *p, TokenKind kind);
/* Like accept, but reports anything else: `expected` says what should stand there. */
bool parser_expect(Parser *p, TokenKind kind, const char *expected);

/* From the start of `start` to the end of the last token consumed, cut at the first line's end. */
Span parser_span(const Parser *p, Span start);

/* Whether nothing was said about the next token yet; from then on something is. */
bool parser_report_once(Parser *p);
/* Reports the next token where `expected` should stand; gives whether it did. */
bool parser_unexpected(Parser *p, const char *expected);
/* Reports a missing closing bracket, and where it was opened if that is on another line. */
void parser_unclosed(Parser *p, const char *expected, const Token *open);

/* Entered at each bracket, block, prefix operator and `else if`; left where all went well. Who goes on after an error puts the depth back. */
bool parser_enter(Parser *p);
void parser_leave(Parser *p);

/* After an item of a list: passes the comma before another item, or `close`, which may have a comma before it if `trailing`. */
typedef enum ListStep { LIST_MORE, LIST_END, LIST_ERROR } ListStep;
ListStep parser_list_step(Parser *p, TokenKind close, const Token *open, bool trailing);

/* ---- expr.c ---- */

Expr *parse_expr(Parser *p);
Expr *parse_primary(Parser *p);
TypeExpr *parse_type(Parser *p);

/* ---- stmt.c ---- */

/* '{' statements '}'. False where a brace is missing; mistakes within are dealt with. */
bool parse_block(Parser *p, Block *block);

#endif
