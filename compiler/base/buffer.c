#include "compiler/base/base.h"

#include <stdlib.h>
#include <string.h>

/* Makes room for `extra` more bytes and the final NUL. */
static void buffer_reserve(Buffer *buffer, size_t extra) {
    if (extra < buffer->capacity - buffer->length)
        return;
    size_t wanted = buffer->length + extra + 1;
    size_t capacity = buffer->capacity ? buffer->capacity : 128;
    while (capacity < wanted && capacity <= PTRDIFF_MAX / 2)
        capacity *= 2;
    char *data = wanted > buffer->length && wanted <= capacity ? realloc(buffer->data, capacity) : NULL;
    if (!data) {
        fputs("phobosc: error: out of memory\n", stderr);
        exit(1);
    }
    buffer->data = data;
    buffer->capacity = capacity;
}

void buffer_append(Buffer *buffer, const char *data, size_t length) {
    buffer_reserve(buffer, length);
    if (length)
        memcpy(buffer->data + buffer->length, data, length);
    buffer->length += length;
    buffer->data[buffer->length] = '\0';
}

void buffer_puts(Buffer *buffer, const char *text) {
    buffer_append(buffer, text, strlen(text));
}

void buffer_printf(Buffer *buffer, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length > 0) {
        buffer_reserve(buffer, (size_t)length);
        vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, again);
        buffer->length += (size_t)length;
    }
    va_end(again);
}

void buffer_free(Buffer *buffer) {
    free(buffer->data);
    *buffer = (Buffer){0};
}
