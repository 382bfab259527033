/* Changes of a text that leave most of it a text: tokens take another one's place, lines move, repeat or go. What only changes bytes seldom comes
 * past the parser. Part of libFuzzer's targets for source and IR. */
#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { MOST_TOKENS = 4096, MOST_CHANGES = 3 };

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned int seed);

typedef struct Part {
    size_t start, length;
} Part;

typedef struct Text {
    uint8_t *data;
    size_t size, most;
    uint64_t random;
} Text;

static size_t below(Text *text, size_t count) {
    text->random = text->random * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(text->random >> 33) % count;
}

/* ---- parts ---- */

static bool is_word(uint8_t c) {
    return isalnum(c) || c == '_' || c == '.' || c == '%';
}

static size_t find_tokens(const Text *text, Part *parts) {
    size_t count = 0;
    for (size_t at = 0; at < text->size && count < MOST_TOKENS;) {
        size_t start = at;
        bool word = is_word(text->data[at]);
        if (isspace(text->data[at++]))
            continue;
        while (word && at < text->size && is_word(text->data[at]))
            at++;
        parts[count++] = (Part){start, at - start};
    }
    return count;
}

static size_t find_lines(const Text *text, Part *parts) {
    size_t count = 0;
    for (size_t at = 0; at < text->size && count < MOST_TOKENS;) {
        const uint8_t *end = memchr(text->data + at, '\n', text->size - at);
        size_t next = end ? (size_t)(end - text->data) + 1 : text->size;
        parts[count++] = (Part){at, next - at};
        at = next;
    }
    return count;
}

/* Words stand for words, numbers for numbers, signs for signs. */
static int class_of(const Text *text, Part part) {
    uint8_t first = text->data[part.start];
    return isdigit(first) ? 0 : is_word(first) ? 1 : 2;
}

/* ---- changes ---- */

static void replace(Text *text, Part old, const uint8_t *by, size_t length) {
    if (text->size - old.length + length > text->most)
        return;
    uint8_t copy[256]; /* `by` may lie in the text */
    if (length > sizeof copy)
        return;
    memcpy(copy, by, length);
    memmove(text->data + old.start + length, text->data + old.start + old.length, text->size - old.start - old.length);
    memcpy(text->data + old.start, copy, length);
    text->size = text->size - old.length + length;
}

static void change_token(Text *text) {
    static const char *const numbers[] = {
        "0", "1", "2", "3", "7", "32", "1024", "2147483648", "9223372036854775807", "18446744073709551615", "0.5", "inf"};
    static Part parts[MOST_TOKENS];
    size_t count = find_tokens(text, parts);
    if (count == 0)
        return;
    Part old = parts[below(text, count)];
    int class = class_of(text, old);
    if (class == 0 && below(text, 2)) {
        const char *number = numbers[below(text, sizeof numbers / sizeof *numbers)];
        replace(text, old, (const uint8_t *)number, strlen(number));
        return;
    }
    for (size_t tries = 0; tries < 20; tries++) {
        Part by = parts[below(text, count)];
        if (class_of(text, by) == class) {
            replace(text, old, text->data + by.start, by.length);
            return;
        }
    }
}

/* A token goes, or comes from somewhere else. */
static void move_token(Text *text) {
    static Part parts[MOST_TOKENS];
    size_t count = find_tokens(text, parts);
    if (count == 0)
        return;
    Part at = parts[below(text, count)], from = parts[below(text, count)];
    if (below(text, 2))
        replace(text, at, text->data + at.start, 0);
    else
        replace(text, (Part){at.start, 0}, text->data + from.start, from.length);
}

static void move_line(Text *text) {
    static Part parts[MOST_TOKENS];
    size_t count = find_lines(text, parts);
    if (count == 0)
        return;
    Part at = parts[below(text, count)], from = parts[below(text, count)];
    if (below(text, 3) == 0)
        replace(text, at, text->data + at.start, 0);
    else
        replace(text, (Part){at.start, below(text, 2) ? at.length : 0}, text->data + from.start, from.length);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned int seed) {
    Text text = {data, size, most, seed};
    if (below(&text, 8) == 0)
        return LLVMFuzzerMutate(data, size, most);
    for (size_t changes = 1 + below(&text, MOST_CHANGES); changes > 0; changes--) {
        size_t kind = below(&text, 10);
        if (kind < 6)
            change_token(&text);
        else if (kind < 8)
            move_token(&text);
        else
            move_line(&text);
    }
    return text.size;
}
