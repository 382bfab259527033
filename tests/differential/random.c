#include "tests/differential/differential.h"

uint64_t random_bits(Random *random) {
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int random_below(Random *random, int count) {
    return (int)(random_bits(random) % (uint64_t)count);
}

bool random_chance(Random *random, int percent) {
    return random_below(random, 100) < percent;
}

uint64_t random_seed_of(uint64_t seed, const char *name) {
    uint64_t state = seed ^ 0xcbf29ce484222325u;
    for (const char *c = name; *c; c++)
        state = (state ^ (unsigned char)*c) * 0x100000001b3u;
    return state;
}
