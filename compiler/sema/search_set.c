/* The sets of @autotune and @cluster. */
#include "compiler/sema/check.h"

int64_t *search_set_expand(Arena *arena, const int64_t *values, int count, int *expanded_count) {
    VEC(int64_t) set = {0};
    if (count == 2 && values[0] < values[1]) {
        int64_t value = values[0];
        for (; value < values[1] && value <= INT64_MAX / 2; value *= 2)
            vec_push(arena, &set, value);
        if (value < values[1])
            vec_push(arena, &set, value);
        vec_push(arena, &set, values[1]);
    } else {
        for (int i = 0; i < count; i++)
            vec_push(arena, &set, values[i]);
    }
    *expanded_count = set.count;
    return set.items;
}
