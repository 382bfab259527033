/* `phobosc fmt`: the same tokens and comments in one layout. Line breaks stay where the author put them, but for those before '{' and 'else';
 * indentation, the space between tokens, blank lines and the places of trailing comments are the formatter's. Formatting twice changes nothing. */
#include "compiler/parse/lexer.h"

#include <string.h>

#define INDENT 4

/* A token with what it means for its surroundings. */
typedef struct Piece {
    TokenKind kind;
    size_t offset, end;
    bool ends_statement; /* a NEWLINE stands before it */
    bool is_angle;       /* '<' or '>' around an element type or 'unroll' */
    bool is_unary;
    bool in_brackets; /* the innermost open bracket is '[' */
} Piece;

/* A line of the result. */
typedef struct Line {
    int indent;
    size_t code, code_end; /* in Formatter.code */
    const char *comment;   /* trailing, or alone on its line; NULL: none */
    size_t comment_length;
} Line;

/* An open bracket. */
typedef struct Open {
    TokenKind kind;
    int inner, outer; /* indentation of lines within, and of a line that starts with the closing one */
} Open;

typedef struct Formatter {
    Arena *arena;
    const char *text;
    VEC(Piece) pieces;
    VEC(Line) lines;
    VEC(Open) open;
    Buffer code;
    bool at_start; /* nothing on the last line yet */
} Formatter;

/* ---- tokens ---- */

static bool ends_operand(TokenKind kind) {
    return kind == TOKEN_NAME || kind == TOKEN_INT || kind == TOKEN_FLOAT || kind == TOKEN_RPAREN || kind == TOKEN_RBRACKET || kind == TOKEN_TRUE ||
           kind == TOKEN_FALSE;
}

static bool piece_is(const Formatter *f, int at, const char *word) {
    const Piece *piece = at < f->pieces.count ? &f->pieces.items[at] : NULL;
    return piece && piece->end - piece->offset == strlen(word) && memcmp(f->text + piece->offset, word, strlen(word)) == 0;
}

/* Marks the angles of tile<f32> and for<unroll 4>. */
static void mark_angles(Formatter *f) {
    for (int i = 1; i + 2 < f->pieces.count; i++) {
        if (f->pieces.items[i].kind != TOKEN_LT)
            continue;
        bool type = piece_is(f, i - 1, "tensor") || piece_is(f, i - 1, "tile") || piece_is(f, i - 1, "shared");
        bool unroll = f->pieces.items[i - 1].kind == TOKEN_FOR && piece_is(f, i + 1, "unroll");
        int close = i + (unroll ? 3 : 2);
        if ((type || unroll) && close < f->pieces.count && f->pieces.items[close].kind == TOKEN_GT)
            f->pieces.items[i].is_angle = f->pieces.items[close].is_angle = true;
    }
}

static void mark_unary(Formatter *f) {
    for (int i = 0; i < f->pieces.count; i++) {
        Piece *piece = &f->pieces.items[i];
        bool starts = i == 0 || piece->ends_statement || !ends_operand(piece[-1].kind);
        piece->is_unary = piece->kind == TOKEN_NOT || piece->kind == TOKEN_BITNOT || (piece->kind == TOKEN_SUB && starts);
    }
}

static void mark_brackets(Formatter *f) {
    VEC(TokenKind) open = {0};
    for (int i = 0; i < f->pieces.count; i++) {
        Piece *piece = &f->pieces.items[i];
        piece->in_brackets = open.count && open.items[open.count - 1] == TOKEN_LBRACKET;
        if (piece->kind == TOKEN_LPAREN || piece->kind == TOKEN_LBRACKET || piece->kind == TOKEN_LBRACE)
            vec_push(f->arena, &open, piece->kind);
        else if ((piece->kind == TOKEN_RPAREN || piece->kind == TOKEN_RBRACKET || piece->kind == TOKEN_RBRACE) && open.count)
            open.count--;
    }
}

static void read_pieces(Formatter *f, Context *context) {
    Lexer lexer;
    lexer_init(&lexer, context);
    bool ends_statement = false;
    for (Token token = lexer_next(&lexer); token.kind != TOKEN_END; token = lexer_next(&lexer)) {
        bool newline = token.kind == TOKEN_NEWLINE;
        if (!newline)
            vec_push(f->arena, &f->pieces,
                ((Piece){.kind = token.kind, .offset = token.offset, .end = token.offset + token.span.length, .ends_statement = ends_statement}));
        ends_statement = newline;
    }
    vec_push(f->arena, &f->pieces, ((Piece){.kind = TOKEN_END, .offset = context->source->length, .end = context->source->length}));
    mark_angles(f);
    mark_unary(f);
    mark_brackets(f);
}

/* ---- the space between two tokens of a line ---- */

static bool is_separated(const Piece *left, const Piece *right) {
    if (left->is_angle)
        return left->kind == TOKEN_GT && right->kind != TOKEN_LBRACKET && right->kind != TOKEN_RPAREN && right->kind != TOKEN_COMMA;
    if (right->is_angle || left->is_unary)
        return false;
    switch (right->kind) {
    case TOKEN_COMMA:
    case TOKEN_SEMICOLON:
    case TOKEN_RPAREN:
    case TOKEN_RBRACKET:
    case TOKEN_DOT:
        return false;
    case TOKEN_COLON:
        return left->kind == TOKEN_COMMA;
    case TOKEN_RBRACE:
        return left->kind != TOKEN_LBRACE;
    case TOKEN_LPAREN:
    case TOKEN_LBRACKET:
        if (left->kind == TOKEN_NAME || left->kind == TOKEN_RPAREN || left->kind == TOKEN_RBRACKET)
            return false;
        break;
    default:
        break;
    }
    switch (left->kind) {
    case TOKEN_LPAREN:
    case TOKEN_LBRACKET:
    case TOKEN_DOT:
    case TOKEN_AT:
        return false;
    case TOKEN_COLON:
        return !left->in_brackets;
    default:
        return true;
    }
}

/* ---- lines ---- */

static Line *last_line(Formatter *f) {
    return &f->lines.items[f->lines.count - 1];
}

static void begin_line(Formatter *f, int indent) {
    vec_push(f->arena, &f->lines, ((Line){.indent = indent, .code = f->code.length, .code_end = f->code.length}));
    f->at_start = true;
}

static void put_code(Formatter *f, const char *text, size_t length, bool separated) {
    if (!f->at_start && separated)
        buffer_puts(&f->code, " ");
    buffer_append(&f->code, text, length);
    last_line(f)->code_end = f->code.length;
    f->at_start = false;
}

static int inner_indent(const Formatter *f) {
    return f->open.count ? f->open.items[f->open.count - 1].inner : 0;
}

/* Of the innermost block's lines. */
static int block_indent(const Formatter *f) {
    for (int i = f->open.count; i-- > 0;)
        if (f->open.items[i].kind == TOKEN_LBRACE)
            return f->open.items[i].inner;
    return 0;
}

/* Of a line that begins with piece `at`. */
static int line_indent(const Formatter *f, int at) {
    const Piece *piece = &f->pieces.items[at];
    bool closes = piece->kind == TOKEN_RPAREN || piece->kind == TOKEN_RBRACKET || piece->kind == TOKEN_RBRACE;
    if (closes && f->open.count)
        return f->open.items[f->open.count - 1].outer;
    bool in_block = f->open.count && f->open.items[f->open.count - 1].kind == TOKEN_LBRACE;
    bool goes_on = in_block && at > 0 && !piece->ends_statement && token_continues(piece[-1].kind) && piece->kind != TOKEN_END;
    return inner_indent(f) + (goes_on ? INDENT : 0);
}

static void track_brackets(Formatter *f, const Piece *piece) {
    int line = last_line(f)->indent;
    switch (piece->kind) {
    case TOKEN_LBRACE: {
        int block = block_indent(f);
        vec_push(f->arena, &f->open, ((Open){TOKEN_LBRACE, block + INDENT, block}));
        break;
    }
    case TOKEN_LPAREN:
    case TOKEN_LBRACKET:
        vec_push(f->arena, &f->open, ((Open){piece->kind, line + INDENT, line}));
        break;
    case TOKEN_RPAREN:
    case TOKEN_RBRACKET:
    case TOKEN_RBRACE:
        if (f->open.count)
            f->open.count--;
        break;
    default:
        break;
    }
}

/* ---- what stands between two tokens ---- */

/* A comment, and the newlines before it since the last thing. */
typedef struct Comment {
    const char *text;
    size_t length;
    int newlines;
    bool to_line_end;
} Comment;

typedef struct Gap {
    VEC(Comment) comments;
    int newlines; /* before the token */
} Gap;

static Gap read_gap(Formatter *f, size_t from, size_t to) {
    Gap gap = {0};
    for (const char *at = f->text + from, *end = f->text + to; at < end;) {
        if (*at != '/') {
            gap.newlines += *at == '\n';
            at++;
            continue;
        }
        bool to_line_end = at[1] == '/';
        const char *stop = to_line_end ? memchr(at, '\n', (size_t)(end - at)) : strstr(at + 2, "*/");
        stop = !stop ? end : to_line_end ? stop : stop + 2;
        size_t length = (size_t)(stop - at);
        while (to_line_end && length && (at[length - 1] == ' ' || at[length - 1] == '\t' || at[length - 1] == '\r'))
            length--;
        vec_push(f->arena, &gap.comments, ((Comment){at, length, gap.newlines, to_line_end}));
        gap.newlines = 0;
        at = stop;
    }
    return gap;
}

/* One blank line at most, and none at the beginning of a file or block. */
static void break_line(Formatter *f, int newlines, int indent, bool opens) {
    if (newlines > 1 && !opens && f->lines.count)
        begin_line(f, 0);
    begin_line(f, indent);
}

/* Comments before piece `at`; gives whether the piece must begin a line. */
static bool put_comments(Formatter *f, const Gap *gap, int at) {
    bool breaks = false;
    bool opens = at == 0 || f->pieces.items[at - 1].kind == TOKEN_LBRACE;
    TokenKind next = f->pieces.items[at].kind;
    int indent = next == TOKEN_RBRACE ? inner_indent(f) : line_indent(f, at);
    for (int i = 0; i < gap->comments.count; i++) {
        const Comment *comment = &gap->comments.items[i];
        if (!f->lines.count || comment->newlines || breaks)
            break_line(f, comment->newlines, indent, opens && i == 0);
        if (comment->to_line_end) {
            last_line(f)->comment = comment->text;
            last_line(f)->comment_length = comment->length;
        } else {
            put_code(f, comment->text, comment->length, true);
        }
        breaks = comment->to_line_end;
    }
    return breaks;
}

/* A ';' that a line's or block's end makes idle. */
static bool is_idle(const Formatter *f, int at, const Gap *after) {
    if (f->pieces.items[at].kind != TOKEN_SEMICOLON)
        return false;
    TokenKind next = f->pieces.items[at + 1].kind;
    bool breaks = after->newlines || (after->comments.count && after->comments.items[0].to_line_end);
    for (int i = 0; i < after->comments.count; i++)
        breaks |= after->comments.items[i].newlines > 0;
    return breaks || next == TOKEN_RBRACE || next == TOKEN_END || next == TOKEN_SEMICOLON;
}

static void format_pieces(Formatter *f) {
    size_t from = 0;
    const Piece *left = NULL;
    for (int i = 0; i < f->pieces.count; i++) {
        const Piece *piece = &f->pieces.items[i];
        Gap gap = read_gap(f, from, piece->offset);
        from = piece->end;
        bool must_break = put_comments(f, &gap, i) || !f->lines.count;
        bool joins = (piece->kind == TOKEN_LBRACE || (piece->kind == TOKEN_ELSE && left && left->kind == TOKEN_RBRACE)) && !gap.comments.count;
        if (piece->kind == TOKEN_END)
            break;
        bool opens = !gap.comments.count && (!left || left->kind == TOKEN_LBRACE);
        if (must_break || (gap.newlines && !joins))
            break_line(f, gap.newlines, line_indent(f, i), opens || piece->kind == TOKEN_RBRACE);
        Gap after = piece->kind == TOKEN_SEMICOLON ? read_gap(f, piece->end, f->pieces.items[i + 1].offset) : (Gap){0};
        if (!is_idle(f, i, &after)) {
            put_code(f, f->text + piece->offset, piece->end - piece->offset, !left || is_separated(left, piece));
            left = piece;
        }
        track_brackets(f, piece);
    }
}

/* ---- the result ---- */

static int code_width(const Line *line) {
    return line->indent + (int)(line->code_end - line->code);
}

static bool has_trailing(const Line *line) {
    return line->comment && line->code_end > line->code;
}

/* The column of the trailing comments of lines that follow one another, the first of which is `first`. */
static int comment_column(const Formatter *f, int first) {
    int column = 0;
    for (int i = first; i < f->lines.count && has_trailing(&f->lines.items[i]); i++)
        column = code_width(&f->lines.items[i]) + 1 > column ? code_width(&f->lines.items[i]) + 1 : column;
    return column;
}

static void print_lines(const Formatter *f, Buffer *out) {
    int column = 0;
    for (int i = 0; i < f->lines.count; i++) {
        const Line *line = &f->lines.items[i];
        bool has_code = line->code_end > line->code;
        if (has_trailing(line) && (i == 0 || !has_trailing(line - 1)))
            column = comment_column(f, i);
        if (has_code || line->comment)
            buffer_printf(out, "%*s", line->indent, "");
        if (has_code)
            buffer_append(out, f->code.data + line->code, line->code_end - line->code);
        if (has_code && line->comment)
            buffer_printf(out, "%*s", column - code_width(line), "");
        if (line->comment)
            buffer_append(out, line->comment, line->comment_length);
        buffer_puts(out, "\n");
    }
}

void source_format(Context *context, Buffer *out) {
    Formatter formatter = {.arena = context->arena, .text = context->source->text};
    read_pieces(&formatter, context);
    format_pieces(&formatter);
    print_lines(&formatter, out);
    buffer_free(&formatter.code);
}
