#include "compiler/base/snippet.h"

#include <string.h>

#define TAB_WIDTH 8
#define LINE_WHOLE 160  /* a line of at most so many bytes is shown whole */
#define BYTES_BEFORE 60 /* else so many before the span's start */
#define BYTES_AFTER 90  /* and after it */

/* Finds line `line`; false where the text has fewer lines. */
static bool line_find(const Source *source, LineStart *near, uint32_t line) {
    LineStart at = *near;
    while (at.line > line) {
        do
            at.offset--;
        while (at.offset > 0 && source->text[at.offset - 1] != '\n');
        at.line--;
    }
    while (at.line < line) {
        const char *newline = memchr(source->text + at.offset, '\n', source->length - at.offset);
        if (!newline)
            return false;
        at.offset = (size_t)(newline - source->text) + 1;
        at.line++;
    }
    *near = at;
    return true;
}

size_t utf8_decode(const char *bytes, size_t length, uint32_t *code) {
    const unsigned char *text = (const unsigned char *)bytes;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = text[0] < 0x80 ? 1 : text[0] >= 0xF8 ? 0 : text[0] >= 0xF0 ? 4 : text[0] >= 0xE0 ? 3 : text[0] >= 0xC0 ? 2 : 0;
    if (size == 0 || size > length)
        return 0;
    *code = size == 1 ? text[0] : text[0] & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((text[i] & 0xC0) != 0x80)
            return 0;
        *code = *code << 6 | (text[i] & 0x3Fu);
    }
    return *code >= least[size] && *code <= 0x10FFFF && !(*code >= 0xD800 && *code <= 0xDFFF) ? size : 0;
}

/* Control characters, and those that reorder the text around them, would make the terminal show another program. */
static bool is_unprintable(uint32_t code) {
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x200E && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

/* Terminal columns of a printable character: 0 for those that combine with the one before, 2 for East Asian wide ones and pictures. */
static int code_width(uint32_t code) {
    static const struct {
        uint32_t first, last;
        int width;
    } ranges[] = {
        {0x0300, 0x036F, 0},
        {0x200B, 0x200D, 0},
        {0x20D0, 0x20FF, 0},
        {0xFE00, 0xFE0F, 0},
        {0x1100, 0x115F, 2},
        {0x2E80, 0xA4CF, 2},
        {0xAC00, 0xD7A3, 2},
        {0xF900, 0xFAFF, 2},
        {0xFE30, 0xFE6F, 2},
        {0xFF00, 0xFF60, 2},
        {0xFFE0, 0xFFE6, 2},
        {0x1F300, 0x1FAFF, 2},
        {0x20000, 0x3FFFD, 2},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return ranges[i].width;
    return 1;
}

/* Appends the character at `text`; gives its bytes, and in *column where it ends. */
static size_t character_print(Buffer *out, const char *text, size_t length, int *column) {
    if (*text == '\t') {
        int spaces = TAB_WIDTH - *column % TAB_WIDTH;
        buffer_printf(out, "%*s", spaces, "");
        *column += spaces;
        return 1;
    }
    uint32_t code = 0;
    size_t size = utf8_decode(text, length, &code);
    if (size > 0 && !is_unprintable(code)) {
        buffer_append(out, text, size);
        *column += code_width(code);
        return size;
    }
    char number[16];
    int width = snprintf(number, sizeof number, size > 1 ? "<U+%04X>" : "<%02X>", size ? code : (unsigned char)*text);
    buffer_puts(out, number);
    *column += width;
    return size ? size : 1;
}

static bool is_continuation_byte(char byte) {
    return ((unsigned char)byte & 0xC0) == 0x80;
}

/* Moves `at` back to the start of the character that it is in the middle of. */
static size_t character_start(const char *line, size_t at) {
    for (int i = 0; i < 3 && at > 0 && is_continuation_byte(line[at]); i++)
        at--;
    return at;
}

void snippet_print(Buffer *out, const Source *source, LineStart *near, Span span, const char *color) {
    if (!source->text || span.line == 0 || !line_find(source, near, span.line))
        return;
    const char *line = source->text + near->offset;
    size_t length = source->length - near->offset;
    const char *newline = memchr(line, '\n', length);
    if (newline)
        length = (size_t)(newline - line);
    if (length > 0 && line[length - 1] == '\r')
        length--;

    size_t start = span.column ? span.column - 1 : 0;
    if (start > length)
        start = length;
    size_t end = span.length < length - start ? start + span.length : length;
    size_t first = 0, last = length;
    if (length > LINE_WHOLE) {
        if (start > BYTES_BEFORE)
            first = character_start(line, start - BYTES_BEFORE);
        if (length - start > BYTES_AFTER)
            last = character_start(line, start + BYTES_AFTER);
        if (end > last)
            end = last;
    }

    int column = 0, caret = -1, underline_end = 0;
    buffer_printf(out, "%5u | ", span.line);
    if (first > 0) {
        buffer_puts(out, "...");
        column += 3;
    }
    for (size_t at = first; at < last;) {
        if (at >= start && caret < 0)
            caret = column;
        at += character_print(out, line + at, last - at, &column);
        if (at <= end)
            underline_end = column;
    }
    if (caret < 0)
        caret = column;
    if (last < length)
        buffer_puts(out, "...");

    buffer_printf(out, "\n      | %*s%s^", caret, "", color ? color : "");
    for (int i = caret + 1; i < underline_end; i++)
        buffer_puts(out, "~");
    buffer_puts(out, color ? "\033[0m\n" : "\n");
}
