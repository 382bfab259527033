/* Any bytes as a journal: what can be believed of it, and no more. Each record that is read encodes to the same bytes, and no state breaks what a
 * scheduler counts on. The first byte says whether magic and checksums are to be made right, so that what lies behind them is reached. */
#include "runtime/sched/journal.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t number_at(const uint8_t *bytes, int count) {
    uint64_t value = 0;
    for (int i = 0; i < count; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

/* Every record that is there as a whole gets its checksum; lengths count only so far that files of a few records are found. */
static void seal(uint8_t *file, size_t size) {
    if (size >= JOURNAL_MAGIC_BYTES)
        memcpy(file, "PHBJRN1", JOURNAL_MAGIC_BYTES);
    for (size_t at = JOURNAL_MAGIC_BYTES; at + JOURNAL_HEAD_BYTES <= size;) {
        file[at + 6] = file[at + 7] = 0;
        size_t length = (size_t)number_at(file + at + 4, 4);
        if (length > size - at - JOURNAL_HEAD_BYTES)
            return;
        XXH3_state_t state;
        XXH3_INITSTATE(&state);
        XXH3_64bits_reset_withSeed(&state, at);
        XXH3_64bits_update(&state, file + at, 8);
        XXH3_64bits_update(&state, file + at + JOURNAL_HEAD_BYTES, length);
        uint64_t hash = XXH3_64bits_digest(&state);
        for (int i = 0; i < 8; i++)
            file[at + 8 + (size_t)i] = (uint8_t)(hash >> (8 * i));
        at += JOURNAL_HEAD_BYTES + length;
    }
}

static void check_records(const uint8_t *file, size_t size) {
    static JournalRecord record;
    static uint8_t again[JOURNAL_RECORD_BYTES];
    int64_t offset = JOURNAL_MAGIC_BYTES, before = offset;
    while (journal_decode(file, size, &offset, &record) == JOURNAL_FINE) {
        if (offset <= before || offset > (int64_t)size || journal_encode(&record, before, again) != (size_t)(offset - before) ||
            memcmp(again, file + before, (size_t)(offset - before)) != 0)
            abort();
        before = offset;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return 0;
    uint8_t *file = malloc(size);
    if (file == NULL)
        abort();
    memcpy(file, data + 1, --size);
    if (data[0] & 1)
        seal(file, size);
    check_records(file, size);
    bool fine;
    JournalState *state = journal_fold(file, size, &fine);
    if (state != NULL && (!fine || state->plan.generation == 0 || (state->done && !state->publishing) ||
                             (state->publishing && state->publish.tensors_count != state->plan.tensors_count)))
        abort();
    for (size_t i = 0; state != NULL && i < state->stored_count; i++) {
        const JournalStored *stored = &state->stored[i];
        if (stored->count == 0 || (stored->count - 1) * stored->step + stored->first >= state->plan.units || stored->device >= CLASS_COUNT)
            abort();
    }
    journal_state_free(state);
    free(file);
    return 0;
}
