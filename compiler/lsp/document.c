/* A source in an editor: its text, and positions in the protocol's way of counting. */
#include "compiler/lsp/lsp.h"

#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

static void *allocated(void *memory) {
    if (!memory)
        abort();
    return memory;
}

static void index_lines(Document *document) {
    size_t capacity = document->line_count;
    document->line_count = 0;
    for (const char *line = document->text, *end; line; line = end ? end + 1 : NULL) {
        if (document->line_count == capacity) {
            capacity = capacity ? 2 * capacity : 256;
            document->lines = allocated(realloc(document->lines, capacity * sizeof *document->lines));
        }
        document->lines[document->line_count++] = (size_t)(line - document->text);
        end = strchr(line, '\n');
    }
}

/* Puts `text` in the place of bytes `from` to `to`. */
static void replace_text(Document *document, size_t from, size_t to, const char *text) {
    size_t length = strlen(text), after = document->length - to;
    char *whole = allocated(malloc(from + length + after + 1));
    memcpy(whole, document->text, from);
    memcpy(whole + from, text, length);
    memcpy(whole + from + length, document->text + to, after + 1);
    free(document->text);
    document->text = whole;
    document->length = from + length + after;
    index_lines(document);
}

Document *document_new(const char *uri, const char *text, bool utf16) {
    Document *document = allocated(calloc(1, sizeof *document));
    document->uri = allocated(strdup(uri));
    document->text = allocated(strdup(text));
    document->length = strlen(text);
    document->utf16 = utf16;
    index_lines(document);
    document_analyse(document);
    return document;
}

void document_free(Document *document) {
    document_forget(document);
    free(document->passed);
    free(document->lines);
    free(document->text);
    free(document->uri);
    free(document);
}

/* ---- positions ---- */

/* Line `number`, from 0; the last one where there are fewer. */
static const char *find_line(const Document *document, size_t number, size_t *length, size_t *found) {
    *found = number < document->line_count ? number : document->line_count - 1;
    size_t start = document->lines[*found], end = *found + 1 < document->line_count ? document->lines[*found + 1] - 1 : document->length;
    *length = end - start;
    return document->text + start;
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

/* ---- changes ---- */

/* Bytes before a position; all of the text where it has fewer lines. */
static size_t offset_of(const Document *document, const json_t *position) {
    size_t number = natural(position, "line"), length, found;
    const char *line = find_line(document, number, &length, &found);
    return found < number ? document->length : (size_t)(line - document->text) + bytes_of(document, line, length, natural(position, "character"));
}

bool document_change(Document *document, const json_t *changes) {
    bool changed = false;
    size_t index;
    json_t *change;
    json_array_foreach(changes, index, change) {
        const char *text = json_string_value(json_object_get(change, "text"));
        const json_t *range = json_object_get(change, "range");
        if (!text)
            continue;
        size_t from = range ? offset_of(document, json_object_get(range, "start")) : 0;
        size_t to = range ? offset_of(document, json_object_get(range, "end")) : document->length;
        replace_text(document, from, to < from ? from : to, text);
        changed = true;
    }
    if (changed)
        document_analyse(document);
    return changed;
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
