/* The lexer of the IR text. */
#include "compiler/ir/lex.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NUMBER_LENGTH = 400 }; /* longer spellings are no number that the printer writes */

void ir_lexer_init(IrLexer *lexer, const Source *source) {
    *lexer = (IrLexer){.at = source->text, .end = source->text + source->length, .line_start = source->text, .line = 1};
}

static bool is_word_start(char c) {
    return isalpha((unsigned char)c) || c == '_';
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static char peek(const IrLexer *lexer, size_t ahead) {
    return (size_t)(lexer->end - lexer->at) > ahead ? lexer->at[ahead] : '\0';
}

/* Words are names, with points between them in ctx.block.x; the format's own name has a hyphen. */
static void lex_word(IrLexer *lexer) {
    static const char format[] = "phobos-ir";
    size_t length = sizeof format - 1;
    if ((size_t)(lexer->end - lexer->at) >= length && memcmp(lexer->at, format, length) == 0) {
        lexer->at += length;
        return;
    }
    while (is_word(peek(lexer, 0)) || (peek(lexer, 0) == '.' && is_word_start(peek(lexer, 1))))
        lexer->at++;
}

static void lex_digits(IrLexer *lexer) {
    while (isdigit((unsigned char)peek(lexer, 0)))
        lexer->at++;
}

/* `base` 10 or 16; false where 64 bits do not hold it. */
static bool parse_integer(const char *text, const char *end, unsigned base, uint64_t *value) {
    *value = 0;
    for (; text < end; text++) {
        unsigned digit = isdigit((unsigned char)*text) ? (unsigned)(*text - '0') : (unsigned)(tolower((unsigned char)*text) - 'a' + 10);
        if (__builtin_mul_overflow(*value, base, value) || __builtin_add_overflow(*value, digit, value))
            return false;
    }
    return true;
}

static const char *lex_hex(IrLexer *lexer, IrToken *token) {
    token->kind = IR_TOKEN_INT;
    token->is_hex = true;
    lexer->at += 2;
    const char *digits = lexer->at;
    while (isxdigit((unsigned char)peek(lexer, 0)))
        lexer->at++;
    if (digits == lexer->at)
        return "a number without digits";
    return parse_integer(digits, lexer->at, 16, &token->value) ? NULL : "the number needs more than 64 bits";
}

static const char *lex_decimal(IrLexer *lexer, IrToken *token) {
    const char *start = lexer->at;
    token->kind = IR_TOKEN_INT;
    lex_digits(lexer);
    if (peek(lexer, 0) == '.' && isdigit((unsigned char)peek(lexer, 1))) {
        token->kind = IR_TOKEN_FLOAT;
        lexer->at++;
        lex_digits(lexer);
    }
    size_t sign = peek(lexer, 1) == '+' || peek(lexer, 1) == '-';
    if (peek(lexer, 0) == 'e' && isdigit((unsigned char)peek(lexer, 1 + sign))) {
        token->kind = IR_TOKEN_FLOAT;
        lexer->at += 1 + sign;
        lex_digits(lexer);
    }
    char text[MAX_NUMBER_LENGTH + 1];
    size_t length = (size_t)(lexer->at - start);
    if (length > MAX_NUMBER_LENGTH)
        return "the number is too long";
    memcpy(text, start, length);
    text[length] = '\0';
    token->real = strtod(text, NULL);
    if (token->kind == IR_TOKEN_INT && !parse_integer(start, lexer->at, 10, &token->value))
        return "the number needs more than 64 bits";
    return NULL;
}

static const char *lex_number(IrLexer *lexer, IrToken *token) {
    bool is_hex = peek(lexer, 0) == '0' && peek(lexer, 1) == 'x';
    const char *error = is_hex ? lex_hex(lexer, token) : lex_decimal(lexer, token);
    return error ? error : is_word(peek(lexer, 0)) ? "a letter follows the number" : NULL;
}

static const char *lex_value(IrLexer *lexer, IrToken *token) {
    token->kind = IR_TOKEN_VALUE;
    lexer->at++;
    token->is_number = isdigit((unsigned char)peek(lexer, 0));
    const char *name = lexer->at;
    while (is_word(peek(lexer, 0)))
        lexer->at++;
    if (!token->is_number)
        return NULL;
    for (const char *digit = name; digit < lexer->at; digit++)
        if (!isdigit((unsigned char)*digit))
            return "a letter follows the number";
    return parse_integer(name, lexer->at, 10, &token->value) ? NULL : "the number needs more than 64 bits";
}

/* Every byte is printable ASCII; others are spelled \xNN. */
static const char *lex_string(IrLexer *lexer, IrToken *token) {
    token->kind = IR_TOKEN_STRING;
    for (lexer->at++; peek(lexer, 0) != '"'; lexer->at++) {
        unsigned char c = (unsigned char)peek(lexer, 0);
        if (c < 0x20 || c > 0x7e)
            return "the string does not end on its line";
        if (c != '\\')
            continue;
        bool is_escape = peek(lexer, 1) == 'x' && isxdigit((unsigned char)peek(lexer, 2)) && isxdigit((unsigned char)peek(lexer, 3));
        if (!is_escape || (peek(lexer, 2) == '0' && peek(lexer, 3) == '0'))
            return "'\\' in a string begins '\\xNN', not 0";
        lexer->at += 3;
    }
    lexer->at++;
    return NULL;
}

static const char *lex_symbol(IrLexer *lexer, IrToken *token) {
    static const char *const symbols[] = {
        ":+", "==", "!=", "<=", "&&", "||", "(", ")", "[", "]", "{", "}", "<", ">", ",", ":", "=", "+", "-", "*", "/", "%", "!"};
    token->kind = IR_TOKEN_SYMBOL;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        size_t length = strlen(symbols[i]);
        if ((size_t)(lexer->end - lexer->at) >= length && memcmp(lexer->at, symbols[i], length) == 0) {
            lexer->at += length;
            return NULL;
        }
    }
    lexer->at++;
    return "unexpected byte";
}

static const char *lex_newlines(IrLexer *lexer, IrToken *token) {
    token->kind = IR_TOKEN_NEWLINE;
    for (; peek(lexer, 0) == '\n' || peek(lexer, 0) == ' '; lexer->at++) {
        if (*lexer->at == '\n') {
            lexer->line++;
            lexer->line_start = lexer->at + 1;
        }
    }
    return NULL;
}

IrToken ir_lex(IrLexer *lexer) {
    while (peek(lexer, 0) == ' ')
        lexer->at++;
    IrToken token = {.text = lexer->at, .span = {lexer->line, (uint32_t)(lexer->at - lexer->line_start) + 1, 1}};
    if (lexer->at == lexer->end)
        return token;
    char first = peek(lexer, 0);
    if (first == '\n') {
        token.error = lex_newlines(lexer, &token);
        return token;
    }
    if (is_word_start(first)) {
        token.kind = IR_TOKEN_WORD;
        lex_word(lexer);
    } else if (isdigit((unsigned char)first)) {
        token.error = lex_number(lexer, &token);
    } else if (first == '%' && is_word(peek(lexer, 1))) {
        token.error = lex_value(lexer, &token);
    } else if (first == '"') {
        token.error = lex_string(lexer, &token);
    } else {
        token.error = lex_symbol(lexer, &token);
    }
    token.length = (size_t)(lexer->at - token.text);
    token.span.length = (uint32_t)token.length;
    if (token.error)
        token.kind = IR_TOKEN_ERROR;
    return token;
}

const char *ir_token_string(Arena *arena, const IrToken *token) {
    char *text = arena_strndup(arena, token->text + 1, token->length - 2), *to = text;
    for (const char *from = text; *from; to++) {
        unsigned byte = (unsigned char)*from++;
        if (byte == '\\') {
            byte = (unsigned)strtoul((const char[]){from[1], from[2], '\0'}, NULL, 16);
            from += 3;
        }
        *to = (char)byte;
    }
    *to = '\0';
    return text;
}
