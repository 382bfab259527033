/* Runs a fuzz target over a corpus without libFuzzer: every file as it is, cut short, and with bytes changed in a fixed pseudo-random way. */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CHANGES_A_FILE = 200, MAX_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t random_state;

static uint64_t next_random(void) {
    random_state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* A copy of its own size on the heap, so that AddressSanitizer sees a read past the end. */
static void run(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void replay(const char *path, const uint8_t *data, size_t size) {
    fprintf(stderr, "%s\n", path);
    run(data, size);
    uint8_t *changed = malloc(size ? size : 1);
    if (!changed)
        abort();
    random_state = size;
    for (int i = 0; i < CHANGES_A_FILE && size > 0; i++) {
        memcpy(changed, data, size);
        size_t length = i % 4 == 0 ? (size_t)(next_random() % size) : size;
        for (uint64_t edits = 1 + next_random() % 3; edits > 0; edits--) {
            uint64_t bits = next_random();
            size_t at = (size_t)(bits % size);
            changed[at] = bits & (1u << 30) ? data[(bits >> 32) % size] : (uint8_t)(bits >> 40);
        }
        run(changed, length);
    }
    free(changed);
}

static int replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    uint8_t *data = malloc(MAX_BYTES);
    if (!data)
        abort();
    size_t size = fread(data, 1, MAX_BYTES, file);
    fclose(file);
    replay(path, data, size);
    free(data);
    return 0;
}

int main(int argc, char **argv) {
    int files = 0, failed = 0;
    for (int i = 1; i < argc; i++) {
        struct dirent **entries;
        int count = scandir(argv[i], &entries, NULL, alphasort);
        if (count < 0) {
            failed |= replay_file(argv[i]);
            files++;
            continue;
        }
        for (int k = 0; k < count; k++) {
            if (entries[k]->d_name[0] != '.') {
                char path[4096];
                snprintf(path, sizeof path, "%s/%s", argv[i], entries[k]->d_name);
                failed |= replay_file(path);
                files++;
            }
            free(entries[k]);
        }
        free(entries);
    }
    if (files == 0)
        fputs("no corpus\n", stderr);
    return failed || files == 0;
}
