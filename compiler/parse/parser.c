#include "compiler/parse/parser.h"

#include <string.h>

/* ---- tokens ---- */

void parser_init(Parser *p, Context *context) {
    *p = (Parser){.context = context, .arena = context->arena};
    lexer_init(&p->lexer, context);
    p->token = lexer_next(&p->lexer);
}

void parser_advance(Parser *p) {
    const Token *token = &p->token;
    if (token->kind != TOKEN_NEWLINE && token->kind != TOKEN_END) {
        while ((uint32_t)p->code_ends.count < token->span.line)
            vec_push(p->arena, &p->code_ends, 0);
        p->code_ends.items[token->span.line - 1] = token->span.column + token->span.length;
    }
    if (!p->gave_up)
        p->token = lexer_next(&p->lexer);
}

bool parser_at(const Parser *p, TokenKind kind) {
    return p->token.kind == kind;
}

bool parser_accept(Parser *p, TokenKind kind) {
    bool found = parser_at(p, kind);
    if (found)
        parser_advance(p);
    return found;
}

bool parser_at_word(const Parser *p, const char *word) {
    return parser_at(p, TOKEN_NAME) && strcmp(p->token.text, word) == 0;
}

bool parser_at_declaration(const Parser *p) {
    return p->token.line_start && (parser_at(p, TOKEN_KERNEL) || parser_at(p, TOKEN_FN) || parser_at(p, TOKEN_AT));
}

bool parser_at_statement_end(const Parser *p) {
    return parser_at(p, TOKEN_NEWLINE) || parser_at(p, TOKEN_SEMICOLON) || parser_at(p, TOKEN_RBRACE) || parser_at(p, TOKEN_END) ||
           parser_at_declaration(p);
}

Span parser_span(const Parser *p, Span start) {
    start.length = p->code_ends.items[start.line - 1] - start.column;
    return start;
}

/* ---- errors ---- */

bool parser_report_once(Parser *p) {
    if (p->gave_up || parser_at(p, TOKEN_ERROR) || (parser_at(p, TOKEN_END) && p->lexer.comment_open) ||
        (p->has_reported && p->reported == p->token.offset))
        return false;
    p->has_reported = true;
    p->reported = p->token.offset;
    return true;
}

static void report_found(Parser *p, const char *expected) {
    const char *found = p->token.text, *ours = foreign_find(FOREIGN_TOKEN, found);
    if (p->token.line_start && parser_at(p, TOKEN_AT))
        ours = NULL; /* an attribute */
    diag_error(p->context->diag, p->token.span, "expected %s, found '%.60s'%s%s%s", expected, found, ours ? "; write '" : "", ours ? ours : "",
        ours ? "'" : "");
}

bool parser_unexpected(Parser *p, const char *expected) {
    if (parser_at(p, TOKEN_NEWLINE) && token_continues(lexer_after_newline(&p->lexer)->kind))
        parser_advance(p);
    if (!parser_report_once(p))
        return false;
    const Token *token = &p->token;
    if (token->line_start && token_continues(token->kind) && p->lexer.brackets == 0)
        diag_error(p->context->diag, token->span, "a line cannot start with '%s': end the line before with it", token->text);
    else if (token->kind == TOKEN_NEWLINE || token->kind == TOKEN_END)
        diag_error(p->context->diag, token->span, "expected %s, found %s", expected, token_text(token->kind));
    else
        report_found(p, expected);
    return true;
}

bool parser_expect(Parser *p, TokenKind kind, const char *expected) {
    if (parser_accept(p, kind))
        return true;
    parser_unexpected(p, expected);
    return false;
}

void parser_unclosed(Parser *p, const char *expected, const Token *open) {
    Span found = p->token.span;
    if (parser_unexpected(p, expected) && found.line != open->span.line)
        diag_note(p->context->diag, open->span, "to match this '%s'", open->text);
}

bool parser_enter(Parser *p) {
    if (p->depth++ < PARSE_MAX_DEPTH)
        return true;
    if (parser_report_once(p))
        diag_error(p->context->diag, p->token.span, "nesting deeper than %d", PARSE_MAX_DEPTH);
    p->gave_up = true;
    p->token = (Token){.kind = TOKEN_END, .span = p->token.span, .offset = p->token.offset};
    return false;
}

void parser_leave(Parser *p) {
    p->depth--;
}

ListStep parser_list_step(Parser *p, TokenKind close, const Token *open, bool trailing) {
    bool comma = parser_accept(p, TOKEN_COMMA);
    if (comma && !(trailing && parser_at(p, close)))
        return LIST_MORE;
    if (parser_accept(p, close))
        return LIST_END;
    parser_unclosed(p, close == TOKEN_RPAREN ? "',' or ')'" : "',' or ']'", open);
    return LIST_ERROR;
}
