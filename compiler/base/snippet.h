/* snippet.c: the line of source that a message shows, with its underline. Private to diag.c. */
#ifndef PHOBOS_SNIPPET_H
#define PHOBOS_SNIPPET_H

#include "compiler/base/base.h"

/* Where a line starts. Messages mostly come in source order, so the search for a line goes on from the last one found. Starts as {1, 0}. */
typedef struct LineStart {
    uint32_t line;
    size_t offset;
} LineStart;

/* Appends two lines, the source and the underline below it, or nothing where the text or the line is not there. Tabs are expanded, what a terminal
 * must not get is written as a number, and of a long line only the part around the span is shown. `color`: escape sequence for the underline, or
 * NULL. */
void snippet_print(Buffer *out, const Source *source, LineStart *near, Span span, const char *color);

/* Decodes the character at the start of `length` > 0 bytes; gives its bytes, or 0 where they are not well-formed UTF-8. */
size_t utf8_decode(const char *bytes, size_t length, uint32_t *code);

#endif
