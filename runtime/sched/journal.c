/* Records of the journal as bytes. */
#include "runtime/sched/journal.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- bytes out: the caller has room for the longest record ---- */

static uint8_t *put(uint8_t *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        *at++ = (uint8_t)(value >> (8 * i));
    return at;
}

static uint8_t *put_text(uint8_t *at, const char *text) {
    size_t length = strlen(text);
    at = put(at, length, 2);
    memcpy(at, text, length);
    return at + length;
}

static uint8_t *put_plan(uint8_t *at, const JournalPlan *plan) {
    memcpy(at, plan->build_id, sizeof plan->build_id);
    at = put(at + sizeof plan->build_id, plan->generation, 4);
    at = put(at, plan->dims_count, 4);
    at = put(at, plan->tensors_count, 4);
    at = put(at, plan->job_hash, 8);
    at = put(at, plan->units, 8);
    for (int class = 0; class < CLASS_COUNT; class ++)
        at = put(at, (uint32_t)plan->variants[class], 4);
    for (uint32_t d = 0; d < plan->dims_count; d++)
        at = put(at, (uint64_t)plan->dims[d], 8);
    for (uint32_t t = 0; t < plan->tensors_count; t++) {
        at = put(at, plan->tensors[t].seen, 8);
        at = put_text(at, plan->tensors[t].staging);
    }
    return at;
}

static uint8_t *put_stored(uint8_t *at, const JournalStored *stored) {
    at = put(at, stored->first, 8);
    at = put(at, stored->count, 8);
    at = put(at, stored->step, 8);
    at = put(at, stored->checksum, 8);
    at = put(at, stored->device, 1);
    return put(at, stored->arch, 2);
}

static uint8_t *put_publish(uint8_t *at, const JournalPublish *publish) {
    at = put(at, publish->tensors_count, 4);
    for (uint32_t t = 0; t < publish->tensors_count; t++) {
        at = put(at, publish->tensors[t].inode, 8);
        at = put_text(at, publish->tensors[t].staging);
    }
    return at;
}

static uint64_t checksum(const uint8_t *head, const uint8_t *payload, size_t length, int64_t offset) {
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset_withSeed(&state, (uint64_t)offset);
    XXH3_64bits_update(&state, head, 8);
    XXH3_64bits_update(&state, payload, length);
    return XXH3_64bits_digest(&state);
}

size_t journal_encode(const JournalRecord *record, int64_t offset, uint8_t *bytes) {
    uint8_t *payload = bytes + JOURNAL_HEAD_BYTES, *end = payload;
    switch (record->kind) {
    case JOURNAL_PLAN:
        end = put_plan(payload, &record->plan);
        break;
    case JOURNAL_STORED:
        end = put_stored(payload, &record->stored);
        break;
    case JOURNAL_PUBLISH:
        end = put_publish(payload, &record->publish);
        break;
    case JOURNAL_DONE:
        break;
    }
    size_t length = (size_t)(end - payload);
    put(bytes, record->kind, 4);
    put(bytes + 4, length, 4);
    put(bytes + 8, checksum(bytes, payload, length, offset), 8);
    return JOURNAL_HEAD_BYTES + length;
}

/* ---- bytes in ---- */

/* What is left of a payload; after a read beyond its end nothing is right any more. */
typedef struct Reader {
    const uint8_t *at, *end;
    bool broken;
} Reader;

static uint64_t take(Reader *reader, int bytes) {
    uint64_t value = 0;
    if (reader->end - reader->at < bytes) {
        reader->broken = true;
        reader->at = reader->end;
        return 0;
    }
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)*reader->at++ << (8 * i);
    return value;
}

static uint32_t take_count(Reader *reader, uint32_t most) {
    uint32_t count = (uint32_t)take(reader, 4);
    reader->broken |= count > most;
    return reader->broken ? 0 : count;
}

static void take_text(Reader *reader, char *text, size_t capacity) {
    size_t length = (size_t)take(reader, 2);
    if (length >= capacity || (size_t)(reader->end - reader->at) < length || memchr(reader->at, 0, length) != NULL) {
        reader->broken = true;
        return;
    }
    memcpy(text, reader->at, length);
    text[length] = '\0';
    reader->at += length;
}

static void take_plan(Reader *reader, JournalPlan *plan) {
    for (size_t i = 0; i < sizeof plan->build_id; i++)
        plan->build_id[i] = (uint8_t)take(reader, 1);
    plan->generation = (uint32_t)take(reader, 4);
    plan->dims_count = take_count(reader, PHB_MAX_DIMS);
    plan->tensors_count = take_count(reader, PHB_MAX_PARAMS);
    plan->job_hash = take(reader, 8);
    plan->units = take(reader, 8);
    for (int class = 0; class < CLASS_COUNT; class ++)
        plan->variants[class] = (int32_t)(uint32_t)take(reader, 4);
    for (uint32_t d = 0; d < plan->dims_count; d++)
        plan->dims[d] = (int64_t)take(reader, 8);
    for (uint32_t t = 0; t < plan->tensors_count; t++) {
        plan->tensors[t].seen = take(reader, 8);
        take_text(reader, plan->tensors[t].staging, sizeof plan->tensors[t].staging);
    }
}

static void take_stored(Reader *reader, JournalStored *stored) {
    stored->first = take(reader, 8);
    stored->count = take(reader, 8);
    stored->step = take(reader, 8);
    stored->checksum = take(reader, 8);
    stored->device = (uint8_t)take(reader, 1);
    stored->arch = (uint16_t)take(reader, 2);
    reader->broken |= stored->device >= CLASS_COUNT;
}

static void take_publish(Reader *reader, JournalPublish *publish) {
    publish->tensors_count = take_count(reader, PHB_MAX_PARAMS);
    for (uint32_t t = 0; t < publish->tensors_count; t++) {
        publish->tensors[t].inode = take(reader, 8);
        take_text(reader, publish->tensors[t].staging, sizeof publish->tensors[t].staging);
    }
}

JournalResult journal_decode(const uint8_t *file, size_t size, int64_t *offset, JournalRecord *record) {
    size_t at = (size_t)*offset;
    if (at > size || size - at < JOURNAL_HEAD_BYTES)
        return JOURNAL_END;
    Reader head = {.at = file + at, .end = file + at + JOURNAL_HEAD_BYTES};
    uint32_t kind = (uint32_t)take(&head, 4), length = (uint32_t)take(&head, 4);
    uint64_t expected = take(&head, 8);
    const uint8_t *payload = file + at + JOURNAL_HEAD_BYTES;
    if (length > JOURNAL_RECORD_BYTES - JOURNAL_HEAD_BYTES || length > size - at - JOURNAL_HEAD_BYTES ||
        checksum(file + at, payload, length, *offset) != expected)
        return JOURNAL_END;
    Reader reader = {.at = payload, .end = payload + length};
    record->kind = (JournalKind)kind;
    switch (kind) {
    case JOURNAL_PLAN:
        take_plan(&reader, &record->plan);
        break;
    case JOURNAL_STORED:
        take_stored(&reader, &record->stored);
        break;
    case JOURNAL_PUBLISH:
        take_publish(&reader, &record->publish);
        break;
    case JOURNAL_DONE:
        break;
    default:
        return JOURNAL_BAD;
    }
    if (reader.broken || reader.at != reader.end)
        return JOURNAL_BAD;
    *offset += (int64_t)(JOURNAL_HEAD_BYTES + length);
    return JOURNAL_FINE;
}
