/* Frames of the control and tile planes: one ZeroMQ part each, little-endian, a 64-byte header and a payload laid out by messages.def. Decoding checks everything
 * before it copies anything and leaves no pointer into the frame; encode(decode(frame)) gives the frame back. Pure: no I/O, no allocation. */
#ifndef PHOBOS_WIRE_H
#define PHOBOS_WIRE_H

#include "runtime/program.h"

#include <stdbool.h>
#include <stddef.h>

#define WIRE_MAGIC 0x31424850u /* "PHB1" */
#define WIRE_PROTOCOL 1
#define WIRE_HEADER_BYTES 64
#define WIRE_BATCH_WINDOW 16           /* batches of units that a pod may hold */
#define WIRE_MAX_PODS 1024             /* of a job */
#define WIRE_MAX_STEPS 64              /* of a job */
#define WIRE_STEP_VALUES 4096          /* dims of all steps of a job, and as many scalars and tensors */
#define WIRE_TRACE_EVENTS 4096         /* of one frame */
#define WIRE_CHUNK_BYTES (512u << 10)  /* bulk of one CHUNK */
#define WIRE_CHUNK_LEAST (4u << 10)    /* nobody asks for smaller ones */
#define WIRE_REQUEST_BYTES (4u << 10)  /* a frame to who serves tiles is never longer */
#define WIRE_PROBE_TENSOR UINT32_MAX   /* of a FETCH: a tile that every pod has, for the doctor */
#define WIRE_PROBE_ROWS 16             /* of it, each a chunk long, u8 */
#define WIRE_CONTROL_BYTES (4u << 20)  /* a control frame is never longer */
#define WIRE_TILE_BYTES (WIRE_CHUNK_BYTES + 1024) /* nor a tile frame */

typedef enum RejectCode {
    REJECT_BUILD = 1,
    REJECT_PROTOCOL,
    REJECT_FULL,
    REJECT_JOB_OVER,
    REJECT_FENCED,
    REJECT_DEVICE,
    REJECT_NAME,
    REJECT_FILES
} RejectCode;
typedef enum SchedPhase { SCHED_PROVE = 1, SCHED_RUN, SCHED_OVER } SchedPhase;
typedef enum PodPhase { POD_PROVING = 1, POD_READY, POD_LEAVING, POD_FAILED } PodPhase;
typedef enum WayState { WAY_FINE, WAY_UNREACHED, WAY_REFUSED, WAY_FOREIGN, WAY_SILENT, WAY_DAMAGED, WAY_KEYLESS } WayState;
typedef enum FetchCode { FETCH_NOT_YET = 1, FETCH_GONE, FETCH_BAD_REGION, FETCH_BUSY, FETCH_STRANGER } FetchCode;

/* The structs. */
#define RECORD_BEGIN(T) typedef struct T {
#define RECORD_END(T) } T;
#define MESSAGE_BEGIN(T, id, number) typedef struct T {
#define MESSAGE_END(T) } T;
#define U8(T, f) uint8_t f;
#define U16(T, f) uint16_t f;
#define U32(T, f) uint32_t f;
#define U64(T, f) uint64_t f;
#define I64(T, f) int64_t f;
#define I64S(T, f, n) int64_t f[n];
#define BYTES(T, f, n) uint8_t f[n];
#define TEXT(T, f, n) char f[n]; /* NUL-terminated: at most n - 1 bytes */
#define LIST(T, f, C, E, n) uint32_t f##_count; C f[n];
#define RECORDS(T, f, R, n) uint32_t f##_count; R f[n];
#include "runtime/net/messages_read.h"

typedef enum WireType {
#define MESSAGE_BEGIN(T, id, number) WIRE_##id = number,
#include "runtime/net/messages_read.h"
} WireType;

typedef struct WireHeader {
    uint16_t type; /* WireType */
    uint8_t job_id[16];
    uint32_t sched_epoch, plan_epoch;
    uint64_t seq; /* of the sender in this session, ascending */
    uint64_t ack; /* the highest seq seen from the receiver */
} WireHeader;

/* Any message; large, so it lives in the shell that owns the socket and not on stacks. */
typedef struct WireMessage {
    WireHeader header;
    union {
        Hello hello;
        Reject reject;
        Welcome welcome;
        Proof proof;
        SchedState sched_state;
        PodState pod_state;
        Bye bye;
        Peers peers;
        Clock clock;
        Trace trace;
        Who who;
        Examine examine;
        Examined examined;
        Fetch fetch;
        Chunk chunk;
        Credit credit;
        FetchRefused fetch_refused;
    };
} WireMessage;

/* Copies the tensors that there are: room for all takes half a megabyte. */
void welcome_copy(Welcome *to, const Welcome *from);

typedef enum WireError {
    WIRE_OK,
    WIRE_SHORT,        /* fewer bytes than the header or a field needs */
    WIRE_LONG,         /* bytes left over */
    WIRE_BAD_MAGIC,
    WIRE_BAD_PROTOCOL,
    WIRE_BAD_HEADER,   /* reserved bits, header length, payload length */
    WIRE_BAD_TYPE,
    WIRE_BAD_CHECKSUM,
    WIRE_BAD_COUNT,    /* a list or text beyond its bound, a NUL in a text */
} WireError;

const char *wire_error_text(WireError error);
const char *wire_type_name(int type); /* "HELLO"; NULL for no type */

/* Bytes that the frame of `message` takes, without bulk. */
size_t wire_size(const WireMessage *message);
/* Writes the frame; `frame` has room for wire_size + bulk_length bytes, and the bulk may be in its place already. Returns the bytes written. */
size_t wire_encode(const WireMessage *message, const void *bulk, size_t bulk_length, uint8_t *frame);
/* On success *bulk points into `frame` (NULL and 0 for messages without); whoever uses it compares its checksum, which is in the message. `message`
 * is left alone before the checksum of all the rest has been verified. */
WireError wire_decode(const uint8_t *frame, size_t length, WireMessage *message, const uint8_t **bulk, size_t *bulk_length);

#endif
