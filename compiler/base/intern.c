/* An open-addressing table of the names seen so far; the arena keeps their text. */
#include "compiler/base/base.h"

#include <string.h>

typedef struct Slot {
    const char *text; /* NULL: empty */
    size_t length;
    uint64_t hash;
} Slot;

struct Interner {
    Arena *arena;
    Slot *slots;
    size_t mask, count; /* mask + 1 slots, a power of two, at most half of them taken */
};

/* FNV-1a. */
static uint64_t hash_bytes(const char *text, size_t length) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash ^ (hash >> 32);
}

static Slot *slot_find(Slot *slots, size_t mask, const char *text, size_t length, uint64_t hash) {
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        Slot *slot = &slots[i];
        if (!slot->text || (slot->hash == hash && slot->length == length && memcmp(slot->text, text, length) == 0))
            return slot;
    }
}

static void interner_grow(Interner *interner) {
    size_t mask = interner->mask * 2 + 1;
    Slot *slots = NEW_ARRAY(interner->arena, Slot, mask + 1);
    for (size_t i = 0; i <= interner->mask; i++) {
        const Slot *old = &interner->slots[i];
        if (old->text)
            *slot_find(slots, mask, old->text, old->length, old->hash) = *old;
    }
    interner->slots = slots;
    interner->mask = mask;
}

Interner *interner_new(Arena *arena) {
    Interner *interner = NEW(arena, Interner);
    interner->arena = arena;
    interner->mask = 255;
    interner->slots = NEW_ARRAY(arena, Slot, interner->mask + 1);
    return interner;
}

const char *intern(Interner *interner, const char *text, size_t length) {
    uint64_t hash = hash_bytes(text, length);
    Slot *slot = slot_find(interner->slots, interner->mask, text, length, hash);
    if (slot->text)
        return slot->text;
    if (interner->count >= interner->mask / 2) {
        interner_grow(interner);
        slot = slot_find(interner->slots, interner->mask, text, length, hash);
    }
    *slot = (Slot){.text = arena_strndup(interner->arena, text, length), .length = length, .hash = hash};
    interner->count++;
    return slot->text;
}

const char *intern_cstr(Interner *interner, const char *text) {
    return intern(interner, text, strlen(text));
}
