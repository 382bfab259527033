/* splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): as a generator, and its finalizer as a hash of a
 * number. */
#ifndef PHOBOS_SPLITMIX_H
#define PHOBOS_SPLITMIX_H

#include <stdint.h>

#define SPLITMIX_STEP 0x9e3779b97f4a7c15u

static inline uint64_t splitmix_hash(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline uint64_t splitmix_next(uint64_t *state) {
    return splitmix_hash(*state += SPLITMIX_STEP);
}

#endif
