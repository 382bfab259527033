/* The base protocol: headers, a blank line, JSON. */
#include "compiler/lsp/lsp.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_MESSAGE (64u << 20)
#define MAX_HEADER 1024

/* False at the end of the input, or where a line is no header's. */
static bool read_headers(FILE *in, size_t *length, bool *any) {
    static const char name[] = "Content-Length:";
    char line[MAX_HEADER];
    *length = 0;
    *any = false;
    while (fgets(line, sizeof line, in)) {
        size_t end = strcspn(line, "\r\n");
        if (!line[end])
            return false; /* cut off, or too long */
        if (end == 0)
            return true;
        *any = true;
        if (strncasecmp(line, name, sizeof name - 1) == 0)
            *length = strtoull(line + sizeof name - 1, NULL, 10);
        else if (!strchr(line, ':'))
            return false;
    }
    return false;
}

ReadStatus message_read(FILE *in, json_t **message) {
    size_t length;
    bool any;
    if (!read_headers(in, &length, &any))
        return any || !feof(in) ? READ_BROKEN : READ_END;
    if (length == 0 || length > MAX_MESSAGE)
        return READ_BROKEN;
    char *text = malloc(length);
    ReadStatus status = READ_BROKEN;
    if (text && fread(text, 1, length, in) == length) {
        *message = json_loadb(text, length, 0, NULL);
        status = *message ? READ_MESSAGE : READ_NO_JSON;
    }
    free(text);
    return status;
}

void message_write(FILE *out, json_t *message) {
    char *text = json_dumps(message, JSON_COMPACT);
    if (text) {
        fprintf(out, "Content-Length: %zu\r\n\r\n%s", strlen(text), text);
        fflush(out);
    }
    free(text);
    json_decref(message);
}
