/* A source in an editor: its analysis, and positions in the protocol's way of counting. */
#include "compiler/lsp/lsp.h"

#include <stdlib.h>
#include <string.h>

/* ---- analysis ---- */

/* The first part of a URI's path, as messages show it; the whole URI where it names no file. */
static const char *shown_path(Arena *arena, const char *uri) {
    const char *slash = strrchr(uri, '/');
    return arena_printf(arena, "%s", slash ? slash + 1 : uri);
}

static void analyse(Document *document) {
    Arena *arena = document->arena = arena_new();
    document->source = (Source){shown_path(arena, document->uri), document->text, document->length};
    char *said = NULL;
    size_t size;
    FILE *stream = open_memstream(&said, &size);
    if (!stream)
        abort();
    Diag *diag = diag_new(arena, &document->source, stream, DIAG_JSON, false);
    document->context = (Context){arena, interner_new(arena), dim_pool_new(arena), type_pool_new(arena), diag, &document->source};
    document->ast = parse_source(&document->context);
    document->cluster = NULL;
    static const SemaOptions options;
    /* What the parser left out would be missed. */
    document->program = diag_error_count(diag) ? NULL : sema_check(&document->context, document->ast, &options);
    if (!diag_error_count(diag)) {
        IrModule *module = lower_program(&document->context, document->program, document->source.path);
        if (!diag_error_count(diag))
            document->cluster = cluster_split(&document->context, module);
        if (diag_error_count(diag))
            document->cluster = NULL;
    }
    diag_finish(diag);
    fclose(stream);
    document->messages = json_loadb(said, size, 0, NULL);
    free(said);
}

static void forget_analysis(Document *document) {
    json_decref(document->messages);
    arena_free(document->arena);
}

Document *document_new(const char *uri, const char *text, bool utf16) {
    Document *document = calloc(1, sizeof *document);
    if (!document)
        abort();
    document->uri = strdup(uri);
    document->text = strdup(text);
    if (!document->uri || !document->text)
        abort();
    document->length = strlen(text);
    document->utf16 = utf16;
    analyse(document);
    return document;
}

void document_set_text(Document *document, const char *text) {
    forget_analysis(document);
    free(document->text);
    document->text = strdup(text);
    if (!document->text)
        abort();
    document->length = strlen(text);
    analyse(document);
}

void document_free(Document *document) {
    forget_analysis(document);
    free(document->text);
    free(document->uri);
    free(document);
}

/* ---- positions ---- */

/* Line `number`, from 0; the last one where there are fewer. */
static const char *find_line(const Document *document, size_t number, size_t *length, size_t *found) {
    const char *line = document->text;
    size_t at = 0;
    for (const char *next; at < number && (next = strchr(line, '\n')); at++)
        line = next + 1;
    *length = strcspn(line, "\n");
    *found = at;
    return line;
}

/* How many units of the protocol the first `bytes` of a line are. */
static size_t units_of(const Document *document, const char *line, size_t bytes) {
    if (!document->utf16)
        return bytes;
    size_t units = 0;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)line[i];
        units += (byte & 0xC0) != 0x80;
        units += byte >= 0xF0; /* beyond the basic plane: a pair */
    }
    return units;
}

static size_t bytes_of(const Document *document, const char *line, size_t length, size_t units) {
    size_t bytes = 0;
    while (bytes < length && units_of(document, line, bytes) < units)
        do
            bytes++;
        while (bytes < length && ((unsigned char)line[bytes] & 0xC0) == 0x80);
    return bytes;
}

static size_t natural(const json_t *object, const char *key) {
    json_int_t value = json_integer_value(json_object_get(object, key));
    return value > 0 ? (size_t)value : 0;
}

Span document_place(const Document *document, const json_t *position) {
    size_t length, number;
    const char *line = find_line(document, natural(position, "line"), &length, &number);
    size_t bytes = bytes_of(document, line, length, natural(position, "character"));
    return (Span){.line = (uint32_t)number + 1, .column = (uint32_t)bytes + 1};
}

static json_t *position_of(const Document *document, size_t line_number, size_t bytes) {
    size_t length, number;
    const char *line = find_line(document, line_number, &length, &number);
    size_t units = units_of(document, line, bytes < length ? bytes : length);
    return json_pack("{s:I, s:I}", "line", (json_int_t)number, "character", (json_int_t)units);
}

json_t *document_range(const Document *document, Span span) {
    size_t line = span.line ? span.line - 1 : 0, from = span.column ? span.column - 1 : 0;
    return json_pack("{s:o, s:o}", "start", position_of(document, line, from), "end", position_of(document, line, from + span.length));
}

json_t *document_whole(const Document *document) {
    return json_pack("{s:o, s:o}", "start", position_of(document, 0, 0), "end", position_of(document, SIZE_MAX, SIZE_MAX));
}

const char *document_before(const Document *document, Span place, size_t *length) {
    size_t line_length, number;
    const char *line = find_line(document, place.line - 1, &line_length, &number);
    *length = place.column - 1 < line_length ? place.column - 1 : line_length;
    return line;
}

/* ---- messages of the compiler ---- */

static Span span_of(const json_t *message) {
    return (Span){(uint32_t)natural(message, "line"), (uint32_t)natural(message, "column"), (uint32_t)natural(message, "length")};
}

static json_t *notes_of(const Document *document, const json_t *message) {
    json_t *notes = json_array();
    size_t index;
    json_t *note;
    json_array_foreach(json_object_get(message, "notes"), index, note) {
        json_t *place = json_pack("{s:s, s:o}", "uri", document->uri, "range", document_range(document, span_of(note)));
        json_array_append_new(notes, json_pack("{s:o, s:O}", "location", place, "message", json_object_get(note, "message")));
    }
    return notes;
}

json_t *document_diagnostics(const Document *document) {
    enum { ERROR = 1, WARNING = 2, INFORMATION = 3 };
    json_t *result = json_array();
    size_t index;
    json_t *message;
    json_array_foreach(document->messages, index, message) {
        const char *severity = json_string_value(json_object_get(message, "severity"));
        int level = !severity || strcmp(severity, "error") == 0 ? ERROR : strcmp(severity, "warning") == 0 ? WARNING : INFORMATION;
        json_t *item = json_pack("{s:o, s:i, s:s, s:O}", "range", document_range(document, span_of(message)), "severity", level, "source", "phobosc",
            "message", json_object_get(message, "message"));
        json_t *group = json_object_get(message, "group");
        if (json_is_string(group))
            json_object_set(item, "code", group);
        json_object_set_new(item, "relatedInformation", notes_of(document, message));
        json_array_append_new(result, item);
    }
    return result;
}
