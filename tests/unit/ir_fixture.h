/* A compilation on IR text, for tests: what it said goes to `messages`. */
#ifndef PHOBOS_TESTS_IR_FIXTURE_H
#define PHOBOS_TESTS_IR_FIXTURE_H

#include "compiler/ir/ir.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

typedef struct Fixture {
    Context context;
    Source source;
    FILE *out;
    char *messages; /* read after fixture_finish */
    size_t messages_length;
} Fixture;

static inline void fixture_open(Fixture *f, const char *text, size_t length) {
    memset(f, 0, sizeof *f);
    Arena *arena = arena_new();
    f->source = (Source){.path = "t.ir", .text = arena_strndup(arena, text, length), .length = length};
    f->out = open_memstream(&f->messages, &f->messages_length);
    f->context =
        (Context){.arena = arena, .interner = interner_new(arena), .dims = dim_pool_new(arena), .types = type_pool_new(arena), .source = &f->source};
    f->context.diag = diag_new(arena, &f->source, f->out, DIAG_TEXT, false);
}

static inline void fixture_finish(Fixture *f) {
    diag_finish(f->context.diag);
    fflush(f->out);
}

static inline void fixture_close(Fixture *f) {
    fclose(f->out);
    free(f->messages);
    arena_free(f->context.arena);
}

#endif
