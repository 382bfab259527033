/* The wire codec: what is encoded comes back, what is damaged is refused, and nothing is copied before it was checked. */
#include "runtime/net/wire.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const uint16_t types[] = {WIRE_HELLO, WIRE_REJECT, WIRE_WELCOME, WIRE_PROOF, WIRE_SCHED_STATE, WIRE_POD_STATE, WIRE_BYE, WIRE_WHO, WIRE_FETCH,
    WIRE_CHUNK, WIRE_CREDIT, WIRE_FETCH_REFUSED};
enum { TYPE_COUNT = sizeof types / sizeof types[0], FRAME_BYTES = 2 << 20 };

static WireMessage message, back;
static uint8_t *frame, *again;

static void setup(void) {
    frame = malloc(FRAME_BYTES);
    again = malloc(FRAME_BYTES);
    ck_assert(frame && again);
}

static void teardown(void) {
    free(frame);
    free(again);
}

static uint64_t random_state = 42;

static uint64_t draw(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return random_state >> 11;
}

static void draw_text(char *text, size_t size) {
    size_t length = draw() % size;
    memset(text, 0, size);
    for (size_t i = 0; i < length; i++)
        text[i] = (char)(1 + draw() % 255);
}

/* Random numbers in every field, random texts, random counts. */
static void fill(uint16_t type) {
    uint8_t *bytes = (uint8_t *)&message;
    for (size_t i = 0; i < sizeof message; i++)
        bytes[i] = (uint8_t)draw();
    message.header.type = type;
    switch (type) {
    case WIRE_HELLO:
        draw_text(message.hello.node, sizeof message.hello.node);
        draw_text(message.hello.device, sizeof message.hello.device);
        draw_text(message.hello.tile_endpoint, sizeof message.hello.tile_endpoint);
        break;
    case WIRE_REJECT:
        draw_text(message.reject.text, sizeof message.reject.text);
        break;
    case WIRE_WELCOME:
        message.welcome.dims_count = (uint32_t)(draw() % (PHB_MAX_DIMS + 1));
        message.welcome.scalars_count = (uint32_t)(draw() % (PHB_MAX_PARAMS + 1));
        message.welcome.steps_count = (uint32_t)(draw() % (WIRE_MAX_STEPS + 1));
        message.welcome.step_dims_count = (uint32_t)(draw() % 300);
        message.welcome.step_scalars_count = (uint32_t)(draw() % 100);
        message.welcome.step_tensors_count = (uint32_t)(draw() % 100);
        message.welcome.tensors_count = (uint32_t)(draw() % (PHB_MAX_PARAMS + 1));
        for (uint32_t i = 0; i < message.welcome.tensors_count; i++) {
            draw_text(message.welcome.tensors[i].path, sizeof message.welcome.tensors[i].path);
            draw_text(message.welcome.tensors[i].staging, sizeof message.welcome.tensors[i].staging);
        }
        break;
    case WIRE_PROOF:
        message.proof.seen_count = (uint32_t)(draw() % (PHB_MAX_PARAMS + 1));
        break;
    case WIRE_SCHED_STATE:
        message.sched_state.batches_count = (uint32_t)(draw() % (WIRE_BATCH_WINDOW + 1));
        draw_text(message.sched_state.text, sizeof message.sched_state.text);
        break;
    case WIRE_POD_STATE:
        draw_text(message.pod_state.text, sizeof message.pod_state.text);
        message.pod_state.checksums_count = (uint32_t)(draw() % (WIRE_BATCH_WINDOW + 1));
        message.pod_state.counts_count = (uint32_t)(draw() % (WIRE_BATCH_WINDOW + 1));
        break;
    case WIRE_PEERS:
        message.peers.peers_count = (uint32_t)(draw() % (WIRE_MAX_PODS + 1));
        for (uint32_t i = 0; i < message.peers.peers_count; i++)
            draw_text(message.peers.peers[i].endpoint, sizeof message.peers.peers[i].endpoint);
        break;
    case WIRE_TRACE:
        message.trace.events_count = (uint32_t)(draw() % (WIRE_TRACE_EVENTS + 1));
        break;
    case WIRE_BYE:
        draw_text(message.bye.text, sizeof message.bye.text);
        break;
    default:
        break;
    }
}

static size_t encode(size_t bulk_length) {
    static uint8_t bulk[WIRE_CHUNK_BYTES];
    for (size_t i = 0; i < bulk_length; i++)
        bulk[i] = (uint8_t)draw();
    size_t length = wire_encode(&message, bulk, bulk_length, frame);
    ck_assert_uint_eq(length, wire_size(&message) + bulk_length);
    return length;
}

/* Makes the checksum right again, so that the checks behind it are reached. */
static void reseal(size_t length) {
    XXH3_state_t *state = XXH3_createState();
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, frame, 56);
    bool has_bulk = frame[6] == WIRE_CHUNK && length > WIRE_HEADER_BYTES + 32; /* which is not covered */
    XXH3_64bits_update(state, frame + WIRE_HEADER_BYTES, has_bulk ? 32 : length - WIRE_HEADER_BYTES);
    uint64_t hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    for (int i = 0; i < 8; i++)
        frame[56 + i] = (uint8_t)(hash >> (8 * i));
}

static WireError decode(size_t length) {
    const uint8_t *bulk;
    size_t bulk_length;
    return wire_decode(frame, length, &back, &bulk, &bulk_length);
}

START_TEST(every_message_comes_back) {
    for (int round = 0; round < 5; round++) {
        fill(types[_i]);
        size_t bulk_length = types[_i] == WIRE_CHUNK ? draw() % WIRE_CHUNK_BYTES : 0, bulk_back;
        size_t length = encode(bulk_length);
        const uint8_t *bulk;
        ck_assert_int_eq(wire_decode(frame, length, &back, &bulk, &bulk_back), WIRE_OK);
        ck_assert_uint_eq(bulk_back, bulk_length);
        ck_assert_uint_eq(wire_encode(&back, bulk, bulk_back, again), length);
        ck_assert_mem_eq(frame, again, length);
    }
}
END_TEST

START_TEST(every_cut_is_refused) {
    fill(types[_i]);
    size_t length = encode(0);
    for (size_t cut = 0; cut < length; cut += 1 + length / 100)
        ck_assert_int_ne(decode(cut), WIRE_OK);
}
END_TEST

START_TEST(every_damaged_byte_is_refused) {
    fill(types[_i]);
    size_t length = encode(0);
    for (size_t at = 0; at < length; at += 1 + length / 100) {
        frame[at] ^= (uint8_t)(1 + draw() % 255);
        ck_assert_int_ne(decode(length), WIRE_OK);
        size_t undone = encode(0);
        ck_assert_uint_eq(undone, length);
    }
}
END_TEST

/* With a right checksum any byte may hold 0, 1 or 255: the decoder refuses, or gives a message whose frame is the same. */
START_TEST(every_field_at_its_ends) {
    fill(types[_i]);
    size_t length = encode(types[_i] == WIRE_CHUNK ? 100 : 0);
    uint8_t *copy = malloc(length);
    ck_assert(copy != NULL);
    memcpy(copy, frame, length);
    for (size_t at = 0; at < length; at += at < 512 ? 1 : 1 + length / 100) {
        static const uint8_t ends[] = {0, 1, 127, 128, 255};
        for (size_t k = 0; k < sizeof ends; k++) {
            memcpy(frame, copy, length);
            frame[at] = ends[k];
            if (at < 56 || at >= WIRE_HEADER_BYTES)
                reseal(length);
            const uint8_t *bulk;
            size_t bulk_length;
            if (wire_decode(frame, length, &back, &bulk, &bulk_length) != WIRE_OK)
                continue;
            ck_assert_uint_eq(wire_encode(&back, bulk, bulk_length, again), length);
            ck_assert_mem_eq(frame, again, length);
        }
    }
    free(copy);
}
END_TEST

START_TEST(a_refused_frame_leaves_the_message_alone) {
    fill(WIRE_BYE);
    size_t length = encode(0);
    memset(&back, 0x5a, sizeof back);
    frame[length - 1] ^= 1;
    ck_assert_int_eq(decode(length), WIRE_BAD_CHECKSUM);
    for (size_t i = 0; i < sizeof back; i++)
        ck_assert_uint_eq(((uint8_t *)&back)[i], 0x5a);
}
END_TEST

typedef struct BadFrame {
    const char *what;
    size_t at;
    int bytes;
    uint64_t value;
    WireError error;
} BadFrame;

/* Frames of SCHED_STATE: token u64, phase u8, exit_code u8, base u64, count u32, .. */
static const BadFrame bad_frames[] = {
    {"magic", 0, 4, 0x32424850, WIRE_BAD_MAGIC},
    {"magic of HTTP", 0, 4, 0x20544547, WIRE_BAD_MAGIC},
    {"protocol 0", 4, 2, 0, WIRE_BAD_PROTOCOL},
    {"next protocol", 4, 2, WIRE_PROTOCOL + 1, WIRE_BAD_PROTOCOL},
    {"type 0", 6, 2, 0, WIRE_BAD_TYPE},
    {"unknown type", 6, 2, 31, WIRE_BAD_TYPE},
    {"largest type", 6, 2, 0xffff, WIRE_BAD_TYPE},
    {"a flag", 8, 2, 1, WIRE_BAD_HEADER},
    {"a short header", 10, 2, 63, WIRE_BAD_HEADER},
    {"a long header", 10, 2, 65, WIRE_BAD_HEADER},
    {"no payload", 12, 4, 0, WIRE_BAD_HEADER},
    {"a payload of 4 GiB", 12, 4, 0xffffffff, WIRE_BAD_HEADER},
    {"one batch more than there is", 82, 4, 3, WIRE_SHORT},
    {"one batch less than there is", 82, 4, 1, WIRE_BAD_COUNT}, /* what is left reads as a text far too long */
    {"a window too large", 82, 4, WIRE_BATCH_WINDOW + 1, WIRE_BAD_COUNT},
    {"2^32 - 1 batches", 82, 4, 0xffffffff, WIRE_BAD_COUNT},
};

START_TEST(each_bad_header_is_named) {
    const BadFrame *bad = &bad_frames[_i];
    memset(&message, 0xff, sizeof message);
    message.header.type = WIRE_SCHED_STATE;
    message.sched_state.batches_count = 2;
    memset(message.sched_state.text, 0, sizeof message.sched_state.text);
    size_t length = encode(0);
    for (int i = 0; i < bad->bytes; i++)
        frame[bad->at + (size_t)i] = (uint8_t)(bad->value >> (8 * i));
    reseal(length);
    ck_assert_msg(decode(length) == bad->error, "%s: %s", bad->what, wire_error_text(decode(length)));
}
END_TEST

START_TEST(a_text_with_nul_is_refused) {
    memset(&message, 0, sizeof message);
    message.header.type = WIRE_BYE;
    strcpy(message.bye.text, "goodbye");
    size_t length = encode(0);
    frame[length - 3] = 0;
    reseal(length);
    ck_assert_int_eq(decode(length), WIRE_BAD_COUNT);
}
END_TEST

START_TEST(bulk_beyond_a_chunk_is_refused) {
    memset(&message, 0, sizeof message);
    message.header.type = WIRE_CHUNK;
    size_t length = encode(WIRE_CHUNK_BYTES);
    ck_assert_int_eq(decode(length), WIRE_OK);
    length++;
    frame[length - 1] = 0;
    size_t payload = length - WIRE_HEADER_BYTES;
    for (int i = 0; i < 4; i++)
        frame[12 + i] = (uint8_t)(payload >> (8 * i));
    reseal(length);
    ck_assert_int_eq(decode(length), WIRE_BAD_COUNT);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("wire");
    TCase *codec = tcase_create("codec");
    tcase_set_timeout(codec, 60);
    tcase_add_checked_fixture(codec, setup, teardown);
    tcase_add_loop_test(codec, every_message_comes_back, 0, TYPE_COUNT);
    tcase_add_loop_test(codec, every_cut_is_refused, 0, TYPE_COUNT);
    tcase_add_loop_test(codec, every_damaged_byte_is_refused, 0, TYPE_COUNT);
    tcase_add_loop_test(codec, every_field_at_its_ends, 0, TYPE_COUNT);
    tcase_add_test(codec, a_refused_frame_leaves_the_message_alone);
    tcase_add_loop_test(codec, each_bad_header_is_named, 0, sizeof bad_frames / sizeof bad_frames[0]);
    tcase_add_test(codec, a_text_with_nul_is_refused);
    tcase_add_test(codec, bulk_beyond_a_chunk_is_refused);
    suite_add_tcase(suite, codec);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
