#include "compiler/parse/lexer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const token_texts[TOKEN_COUNT] = {
#define TOKEN(id, text) text,
#include "compiler/parse/tokens.def"
#define X(id, text, precedence) text,
    AST_BINARY_OPS(X)
#undef X
};

static const struct {
    TokenKind token;
    BinaryOp op;
} assigns[] = {
#define TOKEN(id, text)
#define ASSIGN(op, text) {TOKEN_ASSIGN_##op, BINARY_##op},
#include "compiler/parse/tokens.def"
};

static const TokenKind keywords[] = {
#define TOKEN(id, text)
#define ASSIGN(op, text)
#define KEYWORD(id, text) TOKEN_##id,
#include "compiler/parse/tokens.def"
};

const char *token_text(TokenKind kind) {
    return token_texts[kind];
}

bool token_binary(TokenKind kind, BinaryOp *op) {
    TokenKind first = TOKEN_LOGIC_OR;
    if (kind < first || kind >= TOKEN_COUNT)
        return false;
    *op = (BinaryOp)(kind - first);
    return true;
}

bool token_assign(TokenKind kind, bool *compound, BinaryOp *op) {
    *compound = kind != TOKEN_ASSIGN;
    if (kind == TOKEN_ASSIGN)
        return true;
    for (size_t i = 0; i < sizeof assigns / sizeof *assigns; i++) {
        if (assigns[i].token == kind) {
            *op = assigns[i].op;
            return true;
        }
    }
    return false;
}

/* ---- characters: <ctype.h> would ask the locale ---- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_hex_digit(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name_part(char c) {
    return is_name_start(c) || is_digit(c);
}

static bool is_ascii(char c) {
    return (unsigned char)c < 0x80;
}

/* The byte `ahead` of the next one; NUL beyond the end. */
static char peek(const Lexer *lexer, size_t ahead) {
    return ahead < lexer->length - lexer->at ? lexer->text[lexer->at + ahead] : '\0';
}

static bool at_end(const Lexer *lexer) {
    return lexer->at == lexer->length;
}

/* The span of `length` bytes from `offset`, on the current line. */
static Span span_at(const Lexer *lexer, size_t offset, size_t length) {
    return (Span){.line = lexer->line, .column = (uint32_t)(offset - lexer->line_offset) + 1, .length = (uint32_t)length};
}

static Span span_from(const Lexer *lexer, size_t offset) {
    return span_at(lexer, offset, lexer->at - offset);
}

/* ---- between tokens ---- */

static void newline_pass(Lexer *lexer) {
    lexer->at++;
    lexer->line++;
    lexer->line_offset = lexer->at;
}

static void nul_report(Lexer *lexer, size_t length) {
    diag_error(lexer->context->diag, span_at(lexer, lexer->at, length), "a NUL byte is not allowed in source text");
}

/* Skips a comment; gives whether it held a newline. A line comment ends before its newline. */
static bool comment_skip(Lexer *lexer) {
    Span opening = span_at(lexer, lexer->at, 2);
    bool block = peek(lexer, 1) == '*', newline = false, nul = false;
    lexer->at += 2;
    while (!at_end(lexer)) {
        char c = peek(lexer, 0);
        if (block && c == '*' && peek(lexer, 1) == '/') {
            lexer->at += 2;
            return newline;
        }
        if (c == '\n') {
            if (!block)
                return false;
            newline_pass(lexer);
            newline = true;
            continue;
        }
        if (c == '\0' && !nul) {
            nul_report(lexer, 1);
            nul = true;
        }
        lexer->at++;
    }
    if (block)
        diag_error(lexer->context->diag, opening, "this comment is not closed");
    lexer->comment_open = block;
    return newline;
}

/* Skips blanks, newlines and comments; gives whether there was a newline. */
static bool space_skip(Lexer *lexer) {
    bool newline = false;
    while (!at_end(lexer)) {
        char c = peek(lexer, 0);
        if (c == '\n') {
            newline_pass(lexer);
            newline = true;
        } else if (c == ' ' || c == '\t' || c == '\r') {
            lexer->at++;
        } else if (c == '/' && (peek(lexer, 1) == '/' || peek(lexer, 1) == '*')) {
            if (comment_skip(lexer))
                newline = true;
        } else {
            break;
        }
    }
    return newline;
}

/* ---- numbers ---- */

/* Passes digits and single underscores between them; false where an underscore stands elsewhere. */
static bool digits_pass(Lexer *lexer, bool hex) {
    bool (*is)(char) = hex ? is_hex_digit : is_digit;
    bool ok = true;
    for (;; lexer->at++) {
        char c = peek(lexer, 0);
        if (c == '_')
            ok = ok && is(lexer->text[lexer->at - 1]) && is(peek(lexer, 1));
        else if (!is(c))
            return ok;
    }
}

/* Passes what cannot belong to a number but touches it, so that one mistake gives one message. */
static void number_tail_pass(Lexer *lexer) {
    while (is_name_part(peek(lexer, 0)) || (peek(lexer, 0) == '.' && is_name_part(peek(lexer, 1))))
        lexer->at++;
}

/* The value of the digits in text[0, length), which may hold underscores; false above 2^64 - 1. */
static bool int_value(const char *text, size_t length, unsigned base, uint64_t *value) {
    *value = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '_')
            continue;
        unsigned digit = is_digit(text[i]) ? (unsigned)(text[i] - '0') : (unsigned)((text[i] | 0x20) - 'a') + 10;
        if (__builtin_mul_overflow(*value, (uint64_t)base, value) || __builtin_add_overflow(*value, (uint64_t)digit, value))
            return false;
    }
    return true;
}

static double float_value(const char *text, size_t length) {
    Buffer plain = {0};
    for (size_t i = 0; i < length; i++)
        if (text[i] != '_')
            buffer_append(&plain, text + i, 1);
    double value = strtod(plain.data, NULL);
    buffer_free(&plain);
    return value;
}

/* Passes the parts of a number after its first digits. Gives what is wrong with it, or NULL; *is_float says which kind it is. */
static const char *number_pass(Lexer *lexer, bool hex, bool *is_float) {
    static const char *const underscore = "an underscore in a number stands between two digits";
    static const char *const point = "a number needs a digit on both sides of its point";
    size_t first = lexer->at;
    if (!digits_pass(lexer, hex))
        return underscore;
    if (lexer->at == first)
        return "a hexadecimal number needs a digit after '0x'";
    bool fraction = false;
    if (peek(lexer, 0) == '.') {
        lexer->at++;
        first = lexer->at;
        if (!digits_pass(lexer, hex))
            return underscore;
        if (lexer->at == first)
            return point;
        fraction = true;
    }
    char c = peek(lexer, 0);
    bool exponent = hex ? c == 'p' || c == 'P' : c == 'e' || c == 'E';
    if (exponent) {
        lexer->at++;
        if (peek(lexer, 0) == '+' || peek(lexer, 0) == '-')
            lexer->at++;
        first = lexer->at;
        if (!digits_pass(lexer, false))
            return underscore;
        if (lexer->at == first)
            return "an exponent needs a digit";
    } else if (hex && fraction) {
        return "a hexadecimal number with a point needs an exponent such as 'p0'";
    }
    *is_float = fraction || exponent;
    if (peek(lexer, 0) == '.')
        return point;
    return is_name_part(peek(lexer, 0)) ? "letters or digits that do not belong to the number follow it" : NULL;
}

static void number_scan(Lexer *lexer, Token *token) {
    bool hex = peek(lexer, 0) == '0' && (peek(lexer, 1) == 'x' || peek(lexer, 1) == 'X');
    if (hex)
        lexer->at += 2;
    bool is_float = false;
    const char *error = number_pass(lexer, hex, &is_float);
    if (error)
        number_tail_pass(lexer);
    const char *text = lexer->text + token->offset;
    size_t length = lexer->at - token->offset;
    token->kind = is_float ? TOKEN_FLOAT : TOKEN_INT;
    token->text = intern(lexer->context->interner, text, length);
    if (!error && is_float) {
        token->float_value = float_value(text, length);
        if (isinf(token->float_value))
            error = "this number is too large for f64; infinity is written 'inf'";
    } else if (!error && !int_value(hex ? text + 2 : text, hex ? length - 2 : length, hex ? 16 : 10, &token->int_value)) {
        error = "this integer is larger than 2^64 - 1";
    }
    if (error) {
        token->int_value = 0;
        token->float_value = 0;
        diag_error(lexer->context->diag, span_from(lexer, token->offset), "%s", error);
    }
}

/* ---- the other tokens ---- */

static void name_scan(Lexer *lexer, Token *token) {
    while (is_name_part(peek(lexer, 0)))
        lexer->at++;
    const char *text = lexer->text + token->offset;
    size_t length = lexer->at - token->offset;
    token->kind = TOKEN_NAME;
    token->text = intern(lexer->context->interner, text, length);
    if (strcmp(token->text, "inf") == 0 || strcmp(token->text, "nan") == 0) {
        token->kind = TOKEN_FLOAT;
        token->float_value = *text == 'i' ? (double)INFINITY : (double)NAN;
    }
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        const char *keyword = token_texts[keywords[i]];
        if (*keyword == *text && strcmp(keyword, token->text) == 0)
            token->kind = keywords[i];
    }
}

/* The longest punctuation mark or operator at the next byte, or ERROR. */
static TokenKind punctuation_find(const Lexer *lexer, size_t *length) {
    TokenKind found = TOKEN_ERROR;
    *length = 0;
    for (TokenKind kind = TOKEN_LPAREN; kind < TOKEN_COUNT; kind++) {
        const char *text = token_texts[kind];
        size_t size = 0;
        while (text[size] && text[size] == peek(lexer, size))
            size++;
        if (!text[size] && size > *length) {
            found = kind;
            *length = size;
        }
    }
    return found;
}

static void report_character(Lexer *lexer, size_t offset, char c) {
    const char *ours = foreign_find(FOREIGN_TOKEN, (const char[]){c, 0});
    diag_error(lexer->context->diag, span_from(lexer, offset), "unexpected character '%c'%s%s%s", c, ours ? "; write '" : "", ours ? ours : "",
        ours ? "'" : "");
}

/* Reports what is no token and passes it: a run of bytes that are wrong for the same reason gives one message. */
static void error_scan(Lexer *lexer) {
    Diag *diag = lexer->context->diag;
    size_t offset = lexer->at;
    char c = peek(lexer, 0);
    if (!is_ascii(c)) {
        while (!at_end(lexer) && !is_ascii(peek(lexer, 0)))
            lexer->at++;
        diag_error(diag, span_from(lexer, offset), "a character that is not ASCII may stand only in a comment");
    } else if (c == '\0') {
        size_t length = 0;
        while (length < lexer->length - lexer->at && lexer->text[lexer->at + length] == '\0')
            length++;
        nul_report(lexer, length);
        lexer->at += length;
    } else if (c == '"' || c == '\'') {
        size_t length = 1;
        while (peek(lexer, length) != c && peek(lexer, length) != '\n' && length < lexer->length - lexer->at)
            length++;
        lexer->at += peek(lexer, length) == c ? length + 1 : 1;
        diag_error(diag, span_from(lexer, offset), "the language has no strings or characters");
    } else {
        lexer->at++;
        if (c >= ' ' && c <= '~')
            report_character(lexer, offset, c);
        else
            diag_error(diag, span_from(lexer, offset), "unexpected character 0x%02x", (unsigned)c);
    }
}

static Token token_scan(Lexer *lexer) {
    bool newline = space_skip(lexer);
    Token token = {.offset = lexer->at, .line_start = newline || lexer->last_end == 0};
    if (at_end(lexer)) {
        token.kind = TOKEN_END;
        token.offset = lexer->last_end;
        token.span = lexer->last_end_span;
        return token;
    }
    char c = peek(lexer, 0);
    size_t length = 0;
    if (is_digit(c)) {
        number_scan(lexer, &token);
    } else if (is_name_start(c)) {
        name_scan(lexer, &token);
    } else if (c == '.' && is_digit(peek(lexer, 1))) {
        number_tail_pass(lexer);
        token.kind = TOKEN_ERROR;
        diag_error(lexer->context->diag, span_from(lexer, token.offset), "a number needs a digit on both sides of its point");
    } else if ((token.kind = punctuation_find(lexer, &length)) != TOKEN_ERROR) {
        lexer->at += length;
        token.text = token_texts[token.kind];
    } else {
        error_scan(lexer);
    }
    token.span = span_from(lexer, token.offset);
    return token;
}

/* ---- newlines ---- */

bool token_continues(TokenKind kind) {
    bool compound;
    BinaryOp op;
    return token_binary(kind, &op) || token_assign(kind, &compound, &op) || kind == TOKEN_COMMA || kind == TOKEN_ARROW;
}

static bool starts_statement(TokenKind kind) {
    switch (kind) {
    case TOKEN_LET:
    case TOKEN_VAR:
    case TOKEN_IF:
    case TOKEN_FOR:
    case TOKEN_WHILE:
    case TOKEN_BREAK:
    case TOKEN_CONTINUE:
    case TOKEN_RETURN:
        return true;
    default:
        return false;
    }
}

/* A token that cannot stand inside brackets, or not inside braces, closes those that a mistake left open when it starts a line: what follows is read
 * as meant. */
static void brackets_resync(Lexer *lexer, TokenKind kind) {
    bool declaration = kind == TOKEN_KERNEL || kind == TOKEN_FN || kind == TOKEN_AT;
    if (declaration)
        lexer->braces = 0;
    if (declaration || starts_statement(kind) || kind == TOKEN_ELSE || kind == TOKEN_LBRACE || kind == TOKEN_RBRACE || kind == TOKEN_END)
        lexer->brackets = 0;
}

static void brackets_count(Lexer *lexer, TokenKind kind) {
    switch (kind) {
    case TOKEN_LPAREN:
    case TOKEN_LBRACKET:
        lexer->brackets++;
        break;
    case TOKEN_RPAREN:
    case TOKEN_RBRACKET:
        if (lexer->brackets > 0)
            lexer->brackets--;
        break;
    case TOKEN_LBRACE:
        lexer->braces++;
        lexer->brackets = 0;
        break;
    case TOKEN_RBRACE:
        if (lexer->braces > 0)
            lexer->braces--;
        lexer->brackets = 0;
        break;
    default:
        break;
    }
}

/* A line that ends with an operator goes on, but not into a keyword that can only start a statement: there the operand is missing. */
static bool newline_ends_statement(const Lexer *lexer, const Token *next) {
    if (lexer->braces == 0 || lexer->brackets > 0 || next->kind == TOKEN_LBRACE || next->kind == TOKEN_ELSE)
        return false;
    return !token_continues(lexer->last) || starts_statement(next->kind);
}

static Token token_give(Lexer *lexer, Token token) {
    if (token.kind == TOKEN_END)
        return token;
    brackets_count(lexer, token.kind);
    lexer->last = token.kind;
    lexer->last_end = token.offset + token.span.length;
    lexer->last_end_span = (Span){.line = token.span.line, .column = token.span.column + token.span.length, .length = 1};
    return token;
}

Token lexer_next(Lexer *lexer) {
    if (lexer->has_held) {
        lexer->has_held = false;
        return token_give(lexer, lexer->held);
    }
    Token token = token_scan(lexer);
    if (token.line_start) {
        brackets_resync(lexer, token.kind);
        if (newline_ends_statement(lexer, &token)) {
            lexer->held = token;
            lexer->has_held = true;
            return (Token){.kind = TOKEN_NEWLINE, .span = lexer->last_end_span, .offset = lexer->last_end};
        }
    }
    return token_give(lexer, token);
}

const Token *lexer_after_newline(const Lexer *lexer) {
    return &lexer->held;
}

void lexer_init(Lexer *lexer, Context *context) {
    *lexer = (Lexer){
        .context = context,
        .text = context->source->text,
        .length = context->source->length,
        .line = 1,
        .last = TOKEN_END,
        .last_end_span = {.line = 1, .column = 1, .length = 1},
    };
}
