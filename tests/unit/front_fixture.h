/* A compilation of a text in memory, whose messages are collected: what the tests of lexer and parser start from. */
#ifndef PHOBOS_FRONT_FIXTURE_H
#define PHOBOS_FRONT_FIXTURE_H

#include "compiler/base/base.h"

#include <stdlib.h>

typedef struct Front {
    Context context;
    Source source;
    FILE *stream;
    char *messages; /* valid after front_finish */
    size_t messages_length;
} Front;

static inline void front_init(Front *front, const char *text, size_t length) {
    *front = (Front){.source = {.path = "t.phb", .text = text, .length = length}};
    front->stream = open_memstream(&front->messages, &front->messages_length);
    Arena *arena = arena_new();
    front->context = (Context){
        .arena = arena,
        .interner = interner_new(arena),
        .diag = diag_new(arena, &front->source, front->stream, DIAG_TEXT, false),
        .source = &front->source,
    };
}

/* No more messages come; gives the number of errors. */
static inline int front_finish(Front *front) {
    diag_finish(front->context.diag);
    return diag_error_count(front->context.diag);
}

static inline void front_fini(Front *front) {
    fclose(front->stream);
    free(front->messages);
    arena_free(front->context.arena);
}

#endif
