/* A list of zeroed chunks; an allocation takes the next bytes of the newest, or a chunk of its own where it is large. */
#include "compiler/base/base.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_ALIGN 16u
#define ARENA_CHUNK_BYTES (64u << 10)
#define ARENA_LARGE_BYTES (ARENA_CHUNK_BYTES / 4)

typedef struct Chunk {
    struct Chunk *older;
    _Alignas(ARENA_ALIGN) char data[];
} Chunk;

struct Arena {
    Chunk *newest; /* every chunk hangs here, large ones included */
    char *free;    /* in the chunk that small allocations come from */
    size_t left;
};

static _Noreturn void out_of_memory(void) {
    fputs("phobosc: error: out of memory\n", stderr);
    exit(1);
}

static char *chunk_new(Arena *arena, size_t size) {
    Chunk *chunk = calloc(1, sizeof(Chunk) + size);
    if (!chunk)
        out_of_memory();
    chunk->older = arena->newest;
    arena->newest = chunk;
    return chunk->data;
}

Arena *arena_new(void) {
    Arena *arena = calloc(1, sizeof(Arena));
    if (!arena)
        out_of_memory();
    return arena;
}

void arena_free(Arena *arena) {
    if (!arena)
        return;
    for (Chunk *chunk = arena->newest; chunk;) {
        Chunk *older = chunk->older;
        free(chunk);
        chunk = older;
    }
    free(arena);
}

void *arena_alloc(Arena *arena, size_t size) {
    if (size > PTRDIFF_MAX)
        out_of_memory();
    size = ((size ? size : 1) + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    if (size >= ARENA_LARGE_BYTES)
        return chunk_new(arena, size);
    if (size > arena->left) {
        arena->free = chunk_new(arena, ARENA_CHUNK_BYTES);
        arena->left = ARENA_CHUNK_BYTES;
    }
    void *result = arena->free;
    arena->free += size;
    arena->left -= size;
    return result;
}

char *arena_strndup(Arena *arena, const char *text, size_t length) {
    char *copy = arena_alloc(arena, length + 1);
    if (length)
        memcpy(copy, text, length);
    return copy;
}

char *arena_printf(Arena *arena, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        out_of_memory();
    char *text = arena_alloc(arena, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

void *vec_grow(Arena *arena, void *items, int count, int *capacity, size_t item_size) {
    if (*capacity > INT32_MAX / 2)
        out_of_memory();
    int grown = *capacity ? *capacity * 2 : 4;
    void *bigger = arena_alloc(arena, (size_t)grown * item_size);
    if (count)
        memcpy(bigger, items, (size_t)count * item_size);
    *capacity = grown;
    return bigger;
}
