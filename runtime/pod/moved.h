/* What a pod has moved: tiles, and the bytes of their elements. */
#ifndef PHOBOS_POD_MOVED_H
#define PHOBOS_POD_MOVED_H

#include <stdint.h>

typedef struct PodMoved {
    uint64_t loads, loaded;    /* from files */
    uint64_t fetches, fetched; /* from peers */
    uint64_t stores, stored;
} PodMoved;

static inline uint64_t moved_bytes(const PodMoved *moved) {
    return moved->loaded + moved->fetched + moved->stored;
}

#endif
