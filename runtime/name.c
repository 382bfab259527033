/* Suggestions for mistyped names: edit distance with transpositions (optimal string alignment). */
#include "runtime/runtime.h"

#include <string.h>
#include <strings.h>

enum { MAX_NAME = 64 };

static int smallest(int a, int b, int c) {
    int least = a < b ? a : b;
    return least < c ? least : c;
}

static int distance(const char *a, int a_length, const char *b, int b_length) {
    int rows[3][MAX_NAME + 1];
    int *before = rows[0], *previous = rows[1], *row = rows[2];
    for (int j = 0; j <= b_length; j++)
        previous[j] = j;
    for (int i = 1; i <= a_length; i++) {
        row[0] = i;
        for (int j = 1; j <= b_length; j++) {
            row[j] = smallest(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (a[i - 1] != b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && before[j - 2] + 1 < row[j])
                row[j] = before[j - 2] + 1;
        }
        int *oldest = before;
        before = previous;
        previous = row;
        row = oldest;
    }
    return previous[b_length];
}

const char *name_nearest(const char *name, const char *const *names, int count) {
    size_t length = strlen(name);
    if (length > MAX_NAME)
        return NULL;
    /* A third of the letters may be wrong, one in a short name; a name of one letter can only be another case's. */
    int limit = length < 2 ? 0 : length < 6 ? 1 : (int)(length / 3);
    const char *nearest = NULL;
    for (int i = 0; i < count; i++) {
        size_t other = strlen(names[i]);
        if (other > MAX_NAME)
            continue;
        if (strcasecmp(name, names[i]) == 0)
            return names[i];
        int edits = distance(name, (int)length, names[i], (int)other);
        if (edits <= limit && edits < (int)other) {
            limit = edits - 1;
            nearest = names[i];
        }
    }
    return nearest;
}
