#include "runtime/net/wire.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string.h>

/* ---- tables ---- */

typedef enum FieldKind { FIELD_U8, FIELD_U16, FIELD_U32, FIELD_U64, FIELD_BYTES, FIELD_TEXT, FIELD_LIST, FIELD_BULK } FieldKind;

typedef struct Layout Layout;

typedef struct Field {
    FieldKind kind;
    size_t offset;
    size_t count;        /* BYTES, TEXT: bytes; LIST: records at most; numbers: how many in a row; BULK: bytes at most */
    size_t count_offset; /* LIST: of the u32 count */
    const Layout *record;
} Field;

struct Layout {
    const Field *fields;
    int field_count;
    size_t size; /* of the struct */
};

static const Field u64_fields[] = {{FIELD_U64, 0, 1, 0, NULL}};
static const Layout u64_layout = {u64_fields, 1, sizeof(uint64_t)};

#define RECORD_BEGIN(T) static const Field T##_fields[] = {
#define RECORD_END(T)                                                                                                                                \
    }                                                                                                                                                \
    ;                                                                                                                                                \
    static const Layout T##_layout = {T##_fields, sizeof T##_fields / sizeof T##_fields[0], sizeof(T)};
#define MESSAGE_BEGIN(T, id, number) RECORD_BEGIN(T)
#define MESSAGE_END(T) RECORD_END(T)
#define U8(T, f) {FIELD_U8, offsetof(T, f), 1, 0, NULL},
#define U16(T, f) {FIELD_U16, offsetof(T, f), 1, 0, NULL},
#define U32(T, f) {FIELD_U32, offsetof(T, f), 1, 0, NULL},
#define U64(T, f) {FIELD_U64, offsetof(T, f), 1, 0, NULL},
#define I64(T, f) U64(T, f)
#define I64S(T, f, n) {FIELD_U64, offsetof(T, f), n, 0, NULL},
#define BYTES(T, f, n) {FIELD_BYTES, offsetof(T, f), n, 0, NULL},
#define TEXT(T, f, n) {FIELD_TEXT, offsetof(T, f), n, 0, NULL},
#define LIST(T, f, C, E, n) {FIELD_LIST, offsetof(T, f), n, offsetof(T, f##_count), &u64_layout},
#define RECORDS(T, f, R, n) {FIELD_LIST, offsetof(T, f), n, offsetof(T, f##_count), &R##_layout},
#define BULK(T, n) {FIELD_BULK, 0, n, 0, NULL},
#include "runtime/net/messages_read.h"

typedef struct MessageInfo {
    int type;
    const char *name;
    const Layout *layout;
} MessageInfo;

static const MessageInfo messages[] = {
#define MESSAGE_BEGIN(T, id, number) {number, #id, &T##_layout},
#include "runtime/net/messages_read.h"
};

static const MessageInfo *message_info(int type) {
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++)
        if (messages[i].type == type)
            return &messages[i];
    return NULL;
}

const char *wire_type_name(int type) {
    const MessageInfo *info = message_info(type);
    return info ? info->name : NULL;
}

const char *wire_error_text(WireError error) {
    switch (error) {
    case WIRE_OK:
        return "no error";
    case WIRE_SHORT:
        return "truncated frame";
    case WIRE_LONG:
        return "trailing bytes";
    case WIRE_BAD_MAGIC:
        return "not a phobos frame";
    case WIRE_BAD_PROTOCOL:
        return "unknown protocol version";
    case WIRE_BAD_HEADER:
        return "malformed header";
    case WIRE_BAD_TYPE:
        return "unknown message type";
    case WIRE_BAD_CHECKSUM:
        return "checksum mismatch";
    case WIRE_BAD_COUNT:
        return "count or text out of bounds";
    }
    return "unknown error";
}

void welcome_copy(Welcome *to, const Welcome *from) {
    memcpy(to, from, offsetof(Welcome, tensors) + from->tensors_count * sizeof from->tensors[0]);
}

/* ---- numbers ---- */

static void put(uint8_t *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static int number_bytes(FieldKind kind) {
    return kind == FIELD_U8 ? 1 : kind == FIELD_U16 ? 2 : kind == FIELD_U32 ? 4 : 8;
}

static uint64_t number_load(const uint8_t *at, int bytes) {
    switch (bytes) {
    case 1:
        return *at;
    case 2: {
        uint16_t value;
        memcpy(&value, at, sizeof value);
        return value;
    }
    case 4: {
        uint32_t value;
        memcpy(&value, at, sizeof value);
        return value;
    }
    default: {
        uint64_t value;
        memcpy(&value, at, sizeof value);
        return value;
    }
    }
}

static void number_store(uint8_t *at, uint64_t value, int bytes) {
    uint8_t one = (uint8_t)value;
    uint16_t two = (uint16_t)value;
    uint32_t four = (uint32_t)value;
    memcpy(at, bytes == 1 ? (void *)&one : bytes == 2 ? (void *)&two : bytes == 4 ? (void *)&four : (void *)&value, (size_t)bytes);
}

/* ---- encoding: with `out` NULL it only counts ---- */

static size_t encode_record(const Layout *layout, const uint8_t *record, uint8_t *out) {
    size_t at = 0;
    for (int i = 0; i < layout->field_count; i++) {
        const Field *field = &layout->fields[i];
        const uint8_t *source = record + field->offset;
        switch (field->kind) {
        case FIELD_BYTES:
            if (out)
                memcpy(out + at, source, field->count);
            at += field->count;
            break;
        case FIELD_TEXT: {
            size_t length = strnlen((const char *)source, field->count - 1);
            if (out) {
                put(out + at, length, 2);
                memcpy(out + at + 2, source, length);
            }
            at += 2 + length;
            break;
        }
        case FIELD_LIST: {
            uint32_t count;
            memcpy(&count, record + field->count_offset, sizeof count);
            if (out)
                put(out + at, count, 4);
            at += 4;
            for (uint32_t k = 0; k < count; k++)
                at += encode_record(field->record, source + k * field->record->size, out ? out + at : NULL);
            break;
        }
        case FIELD_BULK:
            break;
        default: {
            int bytes = number_bytes(field->kind);
            for (size_t k = 0; k < field->count; k++) {
                if (out)
                    put(out + at, number_load(source + k * (size_t)bytes, bytes), bytes);
                at += (size_t)bytes;
            }
        }
        }
    }
    return at;
}

static const uint8_t *message_body(const WireMessage *message) {
    return (const uint8_t *)&message->hello; /* all members of the union begin there */
}

size_t wire_size(const WireMessage *message) {
    return WIRE_HEADER_BYTES + encode_record(message_info(message->header.type)->layout, message_body(message), NULL);
}

enum {
    AT_PROTOCOL = 4,
    AT_TYPE = 6,
    AT_FLAGS = 8,
    AT_HEADER_LENGTH = 10,
    AT_PAYLOAD_LENGTH = 12,
    AT_JOB = 16,
    AT_SCHED_EPOCH = 32,
    AT_PLAN_EPOCH = 36,
    AT_SEQ = 40,
    AT_ACK = 48,
    AT_CHECKSUM = 56
};

/* Over the header before the checksum, then the payload but for its bulk, which has a checksum of its own among the fields. */
static uint64_t frame_checksum(const uint8_t *frame, size_t length) {
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, frame, AT_CHECKSUM);
    XXH3_64bits_update(&state, frame + WIRE_HEADER_BYTES, length - WIRE_HEADER_BYTES);
    return XXH3_64bits_digest(&state);
}

size_t wire_encode(const WireMessage *message, const void *bulk, size_t bulk_length, uint8_t *frame) {
    const WireHeader *header = &message->header;
    size_t payload = encode_record(message_info(header->type)->layout, message_body(message), frame + WIRE_HEADER_BYTES);
    if (bulk_length && bulk != frame + WIRE_HEADER_BYTES + payload)
        memcpy(frame + WIRE_HEADER_BYTES + payload, bulk, bulk_length);
    size_t covered = WIRE_HEADER_BYTES + payload;
    payload += bulk_length;
    put(frame, WIRE_MAGIC, 4);
    put(frame + AT_PROTOCOL, WIRE_PROTOCOL, 2);
    put(frame + AT_TYPE, header->type, 2);
    put(frame + AT_FLAGS, 0, 2);
    put(frame + AT_HEADER_LENGTH, WIRE_HEADER_BYTES, 2);
    put(frame + AT_PAYLOAD_LENGTH, payload, 4);
    memcpy(frame + AT_JOB, header->job_id, 16);
    put(frame + AT_SCHED_EPOCH, header->sched_epoch, 4);
    put(frame + AT_PLAN_EPOCH, header->plan_epoch, 4);
    put(frame + AT_SEQ, header->seq, 8);
    put(frame + AT_ACK, header->ack, 8);
    put(frame + AT_CHECKSUM, frame_checksum(frame, covered), 8);
    return WIRE_HEADER_BYTES + payload;
}

/* Of a frame, what its checksum is taken over: what stands before a bulk is numbers alone. */
static size_t covered_bytes(const Layout *layout, size_t length) {
    if (layout->fields[layout->field_count - 1].kind != FIELD_BULK)
        return length;
    size_t covered = WIRE_HEADER_BYTES;
    for (int i = 0; i < layout->field_count - 1; i++)
        covered += (size_t)number_bytes(layout->fields[i].kind) * layout->fields[i].count;
    return covered < length ? covered : length;
}

/* ---- decoding: with `record` NULL it only checks ---- */

typedef struct Cursor {
    const uint8_t *at, *end;
    const uint8_t *bulk;
    size_t bulk_length;
} Cursor;

static WireError decode_record(const Layout *layout, Cursor *cursor, uint8_t *record) {
    for (int i = 0; i < layout->field_count; i++) {
        const Field *field = &layout->fields[i];
        uint8_t *target = record ? record + field->offset : NULL;
        size_t left = (size_t)(cursor->end - cursor->at);
        switch (field->kind) {
        case FIELD_BYTES:
            if (left < field->count)
                return WIRE_SHORT;
            if (target)
                memcpy(target, cursor->at, field->count);
            cursor->at += field->count;
            break;
        case FIELD_TEXT: {
            if (left < 2)
                return WIRE_SHORT;
            size_t length = get(cursor->at, 2);
            if (length >= field->count)
                return WIRE_BAD_COUNT;
            if (left - 2 < length)
                return WIRE_SHORT;
            if (memchr(cursor->at + 2, 0, length))
                return WIRE_BAD_COUNT;
            if (target) {
                memset(target, 0, field->count);
                memcpy(target, cursor->at + 2, length);
            }
            cursor->at += 2 + length;
            break;
        }
        case FIELD_LIST: {
            if (left < 4)
                return WIRE_SHORT;
            uint32_t count = (uint32_t)get(cursor->at, 4);
            if (count > field->count)
                return WIRE_BAD_COUNT;
            cursor->at += 4;
            if (record)
                memcpy(record + field->count_offset, &count, sizeof count);
            for (uint32_t k = 0; k < count; k++) {
                WireError error = decode_record(field->record, cursor, target ? target + k * field->record->size : NULL);
                if (error)
                    return error;
            }
            break;
        }
        case FIELD_BULK:
            if (left > field->count)
                return WIRE_BAD_COUNT;
            cursor->bulk = cursor->at;
            cursor->bulk_length = left;
            cursor->at = cursor->end;
            break;
        default: {
            size_t bytes = (size_t)number_bytes(field->kind);
            if (left < bytes * field->count)
                return WIRE_SHORT;
            for (size_t k = 0; k < field->count; k++, cursor->at += bytes)
                if (target)
                    number_store(target + k * bytes, get(cursor->at, (int)bytes), (int)bytes);
        }
        }
    }
    return WIRE_OK;
}

WireError wire_decode(const uint8_t *frame, size_t length, WireMessage *message, const uint8_t **bulk, size_t *bulk_length) {
    if (length < WIRE_HEADER_BYTES)
        return length >= 4 && get(frame, 4) != WIRE_MAGIC ? WIRE_BAD_MAGIC : WIRE_SHORT;
    if (get(frame, 4) != WIRE_MAGIC)
        return WIRE_BAD_MAGIC;
    if (get(frame + AT_PROTOCOL, 2) != WIRE_PROTOCOL)
        return WIRE_BAD_PROTOCOL;
    if (get(frame + AT_FLAGS, 2) != 0 || get(frame + AT_HEADER_LENGTH, 2) != WIRE_HEADER_BYTES)
        return WIRE_BAD_HEADER;
    if (get(frame + AT_PAYLOAD_LENGTH, 4) != length - WIRE_HEADER_BYTES)
        return WIRE_BAD_HEADER;
    const MessageInfo *info = message_info((int)get(frame + AT_TYPE, 2));
    if (!info)
        return WIRE_BAD_TYPE;
    if (get(frame + AT_CHECKSUM, 8) != frame_checksum(frame, covered_bytes(info->layout, length)))
        return WIRE_BAD_CHECKSUM;
    Cursor cursor = {frame + WIRE_HEADER_BYTES, frame + length, NULL, 0};
    WireError error = decode_record(info->layout, &cursor, NULL);
    if (error)
        return error;
    if (cursor.at != cursor.end)
        return WIRE_LONG;
    message->header.type = (uint16_t)info->type;
    memcpy(message->header.job_id, frame + AT_JOB, 16);
    message->header.sched_epoch = (uint32_t)get(frame + AT_SCHED_EPOCH, 4);
    message->header.plan_epoch = (uint32_t)get(frame + AT_PLAN_EPOCH, 4);
    message->header.seq = get(frame + AT_SEQ, 8);
    message->header.ack = get(frame + AT_ACK, 8);
    cursor.at = frame + WIRE_HEADER_BYTES;
    (void)decode_record(info->layout, &cursor, (uint8_t *)&message->hello);
    if (bulk)
        *bulk = cursor.bulk;
    if (bulk_length)
        *bulk_length = cursor.bulk_length;
    return WIRE_OK;
}
