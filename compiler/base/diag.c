/* Messages in the form of cc, or as a JSON array. A message is put together as a whole, then written: what two threads' messages mix is lines, never
 * bytes. */
#include "compiler/base/base.h"
#include "compiler/base/snippet.h"

#include <string.h>

#define ERROR_LIMIT 100

#define BOLD "\033[1m"
#define RESET "\033[0m"
#define GREEN "\033[1;32m"

typedef enum Severity { SEVERITY_ERROR, SEVERITY_WARNING, SEVERITY_REMARK, SEVERITY_NOTE } Severity;

static const struct {
    const char *name, *color;
} severities[] = {
    [SEVERITY_ERROR] = {"error", "\033[1;31m"},
    [SEVERITY_WARNING] = {"warning", "\033[1;35m"},
    [SEVERITY_REMARK] = {"remark", "\033[1;34m"},
    [SEVERITY_NOTE] = {"note", "\033[1;36m"},
};

static const struct {
    const char *name;
    bool on;
} warnings[WARNING_COUNT] = {
#define X(id, name, on, what) [WARN_##id] = {name, on},
    DIAG_WARNINGS(X)
#undef X
};

static const char *const remark_names[REMARK_COUNT] = {
#define X(id, name, what) [REMARK_##id] = name,
    DIAG_REMARKS(X)
#undef X
};

/* A remark that is not said again. */
typedef struct Said {
    Span span;
    const char *message;
} Said;

struct Diag {
    Arena *arena;
    const Source *source;
    FILE *out;
    DiagFormat format;
    bool color;
    bool enabled[WARNING_COUNT], wanted[REMARK_COUNT];
    VEC(Said) said;
    bool werror, quiet;
    int errors, messages;
    bool hidden;         /* the last message was not shown, so its notes are not either */
    LineStart line;      /* JSON and text: see snippet.h */
    bool any, open;      /* JSON: an object was written; one still waits for its notes and end */
    bool open_has_notes; /* JSON */
    bool finished;
};

Diag *diag_new(Arena *arena, const Source *source, FILE *out, DiagFormat format, bool color) {
    Diag *diag = NEW(arena, Diag);
    *diag = (Diag){.arena = arena, .source = source, .out = out, .format = format, .color = color, .line = {1, 0}};
    for (int i = 0; i < WARNING_COUNT; i++)
        diag->enabled[i] = warnings[i].on;
    return diag;
}

void diag_set_warning(Diag *diag, WarningKind kind, bool on) {
    diag->enabled[kind] = on;
}

void diag_set_remark(Diag *diag, RemarkKind kind, bool on) {
    diag->wanted[kind] = on;
}

bool diag_wants_remark(const Diag *diag, RemarkKind kind) {
    return diag->wanted[kind];
}

void diag_set_werror(Diag *diag, bool on) {
    diag->werror = on;
}

void diag_set_quiet(Diag *diag, bool on) {
    diag->quiet = on;
}

int diag_error_count(const Diag *diag) {
    return diag->errors;
}

int diag_message_count(const Diag *diag) {
    return diag->messages;
}

/* ---- JSON ---- */

/* A string literal. What is not UTF-8, in a path or in a message that was cut, becomes U+FFFD. */
static void json_string(Buffer *out, const char *text) {
    buffer_puts(out, "\"");
    for (size_t left = strlen(text); left > 0;) {
        uint32_t code = 0;
        size_t size = utf8_decode(text, left, &code);
        if (size == 0 || code < 0x20)
            buffer_printf(out, "\\u%04x", size ? code : 0xFFFDu);
        else if (code == '"' || code == '\\')
            buffer_printf(out, "\\%c", (char)code);
        else
            buffer_append(out, text, size);
        text += size ? size : 1;
        left -= size ? size : 1;
    }
    buffer_puts(out, "\"");
}

static void json_place(Buffer *out, const Diag *diag, Span span) {
    buffer_puts(out, "{\"file\": ");
    json_string(out, diag->source->path);
    buffer_printf(out, ", \"line\": %u, \"column\": %u, \"length\": %u", span.line, span.column, span.length);
}

static void json_close_message(Buffer *out, Diag *diag) {
    if (diag->open)
        buffer_puts(out, diag->open_has_notes ? "\n  ]}" : "]}");
    diag->open = false;
}

static void json_message(Buffer *out, Diag *diag, Severity severity, const char *group, Span span, const char *message) {
    if (severity == SEVERITY_NOTE && diag->open) {
        buffer_puts(out, diag->open_has_notes ? ",\n    " : "\n    ");
        json_place(out, diag, span);
        buffer_puts(out, ", \"message\": ");
        json_string(out, message);
        buffer_puts(out, "}");
        diag->open_has_notes = true;
        return;
    }
    json_close_message(out, diag);
    buffer_puts(out, diag->any ? ",\n  " : "[\n  ");
    json_place(out, diag, span);
    buffer_printf(out, ", \"severity\": \"%s\", \"group\": ", severities[severity].name);
    if (group)
        json_string(out, group);
    else
        buffer_puts(out, "null");
    buffer_puts(out, ", \"message\": ");
    json_string(out, message);
    buffer_puts(out, ", \"notes\": [");
    diag->any = diag->open = true;
    diag->open_has_notes = false;
}

/* ---- text ---- */

static void text_message(Buffer *out, Diag *diag, Severity severity, const char *group, Span span, const char *message) {
    const char *bold = diag->color ? BOLD : "", *reset = diag->color ? RESET : "";
    buffer_printf(out, "%s%s:", bold, diag->source->path);
    if (span.line > 0)
        buffer_printf(out, "%u:%u:", span.line, span.column);
    buffer_printf(out, "%s %s%s:%s %s%s%s", reset, diag->color ? severities[severity].color : "", severities[severity].name, reset,
        severity == SEVERITY_NOTE ? "" : bold, message, severity == SEVERITY_NOTE ? "" : reset);
    if (group)
        buffer_printf(out, " [-%s%s]", severity == SEVERITY_REMARK ? "R" : severity == SEVERITY_ERROR ? "Werror=" : "W", group);
    buffer_puts(out, "\n");
    snippet_print(out, diag->source, &diag->line, span, diag->color ? GREEN : NULL);
}

/* ---- both ---- */

static void diag_write(Diag *diag, Severity severity, const char *group, Span span, const char *message) {
    Buffer out = {0};
    diag->messages += severity != SEVERITY_NOTE;
    if (diag->format == DIAG_JSON)
        json_message(&out, diag, severity, group, span, message);
    else
        text_message(&out, diag, severity, group, span, message);
    fwrite(out.data, 1, out.length, diag->out);
    buffer_free(&out);
}

static void diag_vreport(Diag *diag, Severity severity, const char *group, Span span, const char *format, va_list args) {
    if (severity == SEVERITY_ERROR && diag->errors++ >= ERROR_LIMIT) {
        if (diag->errors == ERROR_LIMIT + 1)
            diag_write(diag, SEVERITY_ERROR, NULL, (Span){0}, "more than 100 errors: the rest is not shown");
        diag->hidden = true;
    } else if (severity != SEVERITY_NOTE) {
        diag->hidden = false;
    }
    if (diag->hidden)
        return;
    char message[4096]; /* names in a message may be as long as the source; what is beyond this helps nobody */
    int length = vsnprintf(message, sizeof message, format, args);
    if (length >= (int)sizeof message)
        memcpy(message + sizeof message - 4, "...", 4);
    diag_write(diag, severity, group, span, message);
}

void diag_error(Diag *diag, Span span, const char *format, ...) {
    va_list args;
    va_start(args, format);
    diag_vreport(diag, SEVERITY_ERROR, NULL, span, format, args);
    va_end(args);
}

void diag_warning(Diag *diag, WarningKind kind, Span span, const char *format, ...) {
    if (diag->quiet || !diag->enabled[kind]) {
        diag->hidden = true;
        return;
    }
    va_list args;
    va_start(args, format);
    diag_vreport(diag, diag->werror ? SEVERITY_ERROR : SEVERITY_WARNING, warnings[kind].name, span, format, args);
    va_end(args);
}

void diag_remark(Diag *diag, Span span, const char *format, ...) {
    va_list args;
    va_start(args, format);
    diag_vreport(diag, SEVERITY_REMARK, NULL, span, format, args);
    va_end(args);
}

static bool was_said(const Diag *diag, Span span, const char *message) {
    for (int i = 0; i < diag->said.count; i++) {
        const Said *said = &diag->said.items[i];
        if (said->span.line == span.line && said->span.column == span.column && strcmp(said->message, message) == 0)
            return true;
    }
    return false;
}

void diag_remark_once(Diag *diag, RemarkKind kind, Span span, const char *format, ...) {
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    diag->hidden = (diag->quiet && !diag->wanted[kind]) || was_said(diag, span, message);
    if (diag->hidden)
        return;
    vec_push(diag->arena, &diag->said, (Said){span, arena_strndup(diag->arena, message, strlen(message))});
    diag_write(diag, SEVERITY_REMARK, remark_names[kind], span, message);
}

void diag_note(Diag *diag, Span span, const char *format, ...) {
    va_list args;
    va_start(args, format);
    diag_vreport(diag, SEVERITY_NOTE, NULL, span, format, args);
    va_end(args);
}

void diag_finish(Diag *diag) {
    if (diag->format == DIAG_JSON && !diag->finished) {
        Buffer out = {0};
        json_close_message(&out, diag);
        buffer_puts(&out, diag->any ? "\n]\n" : "[]\n");
        fwrite(out.data, 1, out.length, diag->out);
        buffer_free(&out);
    }
    diag->finished = true;
    fflush(diag->out);
}

/* ---- names ---- */

#define NAME_LIMIT 40 /* longer ones are not compared */

/* Insertions, deletions, replacements and swaps of neighbours between two names (Damerau-Levenshtein, restricted). */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t rows[3][NAME_LIMIT + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++)
        above[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (best > above[j] + 1)
                best = above[j] + 1;
            if (best > row[j - 1] + 1)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && best > before[j - 2] + 1)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        size_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[b_length];
}

const char *nearest_name(const char *name, const char *const *names, int count) {
    size_t length = strlen(name);
    if (length > NAME_LIMIT)
        return NULL;
    size_t best = (length < 2 ? 0 : length < 3 ? 1 : length / 3) + 1; /* up to a third of the name may be wrong */
    const char *nearest = NULL;
    for (int i = 0; i < count; i++) {
        size_t other = strlen(names[i]);
        if (other > NAME_LIMIT)
            continue;
        size_t distance = edit_distance(name, length, names[i], other);
        if (distance < best) {
            nearest = names[i];
            best = distance;
        }
    }
    return nearest;
}
