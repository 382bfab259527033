/* The tile plane: regions of every rank through a network that loses, repeats, damages and delays frames; what arrives is right, and nothing else is
 * touched. */
#include "runtime/pod/transfer.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state;

static uint64_t draw(uint64_t bound) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 20) % bound;
}

/* ---- a tile of random shape in memory of its own ---- */

typedef struct Tile {
    TileView view;
    uint8_t *bytes;
    size_t size;
} Tile;

static Tile tile_new(int rank, const int64_t *extent, int element, int64_t padding) {
    Tile tile = {.view = {.rank = rank, .element = element}};
    int64_t rows = 1;
    for (int k = 0; k < rank; k++)
        tile.view.extent[k] = extent[k];
    for (int k = 0; k < rank - 1; k++)
        rows *= extent[k];
    tile.view.pitch = extent[rank - 1] * element + padding;
    tile.size = (size_t)(rows * tile.view.pitch);
    tile.bytes = malloc(tile.size);
    ck_assert_ptr_nonnull(tile.bytes);
    for (size_t i = 0; i < tile.size; i++)
        tile.bytes[i] = (uint8_t)draw(256);
    tile.view.rows = tile.bytes;
    return tile;
}

static uint8_t *element_at(const Tile *tile, const int64_t index[4]) {
    int64_t row = 0;
    for (int k = 0; k < tile->view.rank - 1; k++)
        row = row * tile->view.extent[k] + index[k];
    return tile->bytes + row * tile->view.pitch + index[tile->view.rank - 1] * tile->view.element;
}

static bool next_index(const Region *region, int rank, int64_t index[4]) {
    for (int k = rank - 1; k >= 0; k--) {
        if (++index[k] < region->origin[k] + region->extent[k])
            return true;
        index[k] = region->origin[k];
    }
    return false;
}

/* `to` holds `from` in the region and `before` elsewhere. */
static void check_copied(const Tile *to, const Tile *from, const uint8_t *before, const Region *region) {
    uint8_t *expected = malloc(to->size);
    ck_assert_ptr_nonnull(expected);
    memcpy(expected, before, to->size);
    int64_t index[4] = {0};
    memcpy(index, region->origin, sizeof index);
    do {
        memcpy(expected + (element_at(to, index) - to->bytes), element_at(from, index), (size_t)to->view.element);
    } while (next_index(region, to->view.rank, index));
    ck_assert_mem_eq(expected, to->bytes, to->size);
    free(expected);
}

static void draw_case(int rank, int64_t limit, int64_t extent[4], Region *region) {
    *region = (Region){.extent = {1, 1, 1, 1}};
    for (int k = 0; k < rank; k++) {
        extent[k] = 1 + (int64_t)draw((uint64_t)limit);
        region->origin[k] = (int64_t)draw((uint64_t)extent[k]);
        region->extent[k] = 1 + (int64_t)draw((uint64_t)(extent[k] - region->origin[k]));
    }
}

/* ---- the network ---- */

typedef struct Frame {
    WireType type;
    uint64_t at_ms;
    Fetch fetch;
    Credit credit;
    Chunk chunk;
    FetchRefused refused;
    uint8_t *bulk;
    size_t length;
} Frame;

typedef struct Network {
    Frame frames[4096];
    int count;
    unsigned drop, repeat, damage; /* per cent */
    uint64_t delay_ms;
    uint64_t now_ms;
    uint64_t last_ms; /* when the last frame on its way arrives: none overtakes it */
} Network;

static void put(Network *network, const Frame *frame) {
    int copies = draw(100) < network->drop ? 0 : draw(100) < network->repeat ? 2 : 1;
    for (int i = 0; i < copies; i++) {
        ck_assert_int_lt(network->count, 4096);
        Frame *copy = &network->frames[network->count++];
        *copy = *frame;
        copy->at_ms = network->now_ms + draw(network->delay_ms + 1);
        if (copy->at_ms < network->last_ms)
            copy->at_ms = network->last_ms;
        network->last_ms = copy->at_ms;
        if (frame->length) {
            copy->bulk = malloc(frame->length);
            ck_assert_ptr_nonnull(copy->bulk);
            memcpy(copy->bulk, frame->bulk, frame->length);
            if (draw(100) < network->damage)
                copy->bulk[draw(frame->length)] ^= 0x40;
        }
    }
}

static void run_serve(Network *network, Serve *serve) {
    static uint8_t packed[WIRE_CHUNK_BYTES];
    ServeAction action;
    while (serve_next(serve, &action)) {
        Frame frame = {.type = action.kind == SERVE_CHUNK ? WIRE_CHUNK : WIRE_FETCH_REFUSED};
        if (action.kind == SERVE_CHUNK) {
            tile_pack(&action.tile, &action.region, action.offset, action.length, packed);
            frame.chunk = (Chunk){.transfer = action.transfer, .offset = action.offset, .total = action.total};
            frame.chunk.hash = XXH3_64bits(packed, action.length);
            frame.bulk = packed;
            frame.length = action.length;
        } else {
            frame.refused = (FetchRefused){.transfer = action.transfer, .code = (uint16_t)action.code};
        }
        put(network, &frame);
    }
}

/* DONE or FAILED, where there is one. */
static bool run_fetch(Network *network, FetchPlane *plane, FetchAction *end) {
    FetchAction action;
    while (fetch_next(plane, &action)) {
        if (action.kind == FETCH_SEND_FETCH)
            put(network, &(Frame){.type = WIRE_FETCH, .fetch = action.fetch});
        else if (action.kind == FETCH_SEND_CREDIT)
            put(network, &(Frame){.type = WIRE_CREDIT, .credit = action.credit});
        else {
            *end = action;
            return true;
        }
    }
    return false;
}

static void arrive(Network *network, Serve *serve, FetchPlane *plane, const Tile *source, FetchCode code) {
    while (network->count && network->frames[0].at_ms <= network->now_ms) {
        Frame frame = network->frames[0];
        memmove(network->frames, network->frames + 1, (size_t)--network->count * sizeof frame);
        if (frame.type == WIRE_FETCH)
            serve_fetch(serve, 7, &frame.fetch, source ? &source->view : NULL, code, network->now_ms);
        else if (frame.type == WIRE_CREDIT)
            serve_credit(serve, 7, &frame.credit, network->now_ms);
        else if (frame.type == WIRE_CHUNK)
            fetch_heard(plane, 0, network->now_ms), fetch_chunk(plane, 0, &frame.chunk, frame.bulk, frame.length, network->now_ms);
        else
            fetch_heard(plane, 0, network->now_ms), fetch_refused(plane, 0, &frame.refused, network->now_ms);
        free(frame.bulk);
    }
}

static FetchActionKind transfer(Network *network, const Tile *from, const Tile *to, const Region *region, FetchCode code, const char **why) {
    Serve *serve = serve_new();
    FetchPlane *plane = fetch_new(3, 1);
    FetchRequest request = {.tag = 5, .tensor = 1, .into = to->view, .region = *region};
    FetchAction end = {.kind = FETCH_FAILED, .why = "never ended"};
    ck_assert(fetch_start(plane, &request, network->now_ms));
    for (uint64_t stop = network->now_ms + 600000; network->now_ms < stop; network->now_ms += 10) {
        fetch_tick(plane, network->now_ms);
        serve_tick(serve, network->now_ms);
        arrive(network, serve, plane, from, code);
        run_serve(network, serve);
        if (run_fetch(network, plane, &end))
            break;
    }
    ck_assert_uint_eq(end.tag, 5);
    ck_assert(!fetch_busy(plane));
    while (network->count)
        free(network->frames[--network->count].bulk);
    serve_free(serve);
    fetch_free(plane);
    *why = end.why;
    return end.kind;
}

static Network network;

START_TEST(packing_is_row_major) {
    random_state = (uint64_t)_i + 1;
    int rank = 1 + _i % 4;
    int64_t extent[4];
    Region region;
    draw_case(rank, 9, extent, &region);
    int element = 1 << draw(4);
    Tile tile = tile_new(rank, extent, element, (int64_t)draw(20));
    uint64_t bytes;
    ck_assert(tile_region_bytes(&tile.view, &region, &bytes));
    uint8_t *packed = malloc(bytes);
    ck_assert_ptr_nonnull(packed);
    for (uint64_t at = 0; at < bytes;) {
        size_t piece = 1 + draw(bytes - at);
        tile_pack(&tile.view, &region, at, piece, packed + at);
        at += piece;
    }
    int64_t index[4] = {0};
    memcpy(index, region.origin, sizeof index);
    uint8_t *at = packed;
    do {
        ck_assert_mem_eq(at, element_at(&tile, index), (size_t)element);
        at += element;
    } while (next_index(&region, rank, index));
    ck_assert_ptr_eq(at, packed + bytes);
    free(packed);
    free(tile.bytes);
}
END_TEST

START_TEST(arrives_whole_over_a_bad_network) {
    random_state = (uint64_t)_i * 77 + 5;
    int rank = 1 + _i % 4;
    int64_t extent[4];
    Region region;
    draw_case(rank, rank == 1 ? 3000000 : rank == 2 ? 2000 : rank == 3 ? 120 : 40, extent, &region);
    int element = 1 << draw(3);
    Tile from = tile_new(rank, extent, element, (int64_t)draw(200)), to = tile_new(rank, extent, element, (int64_t)draw(200));
    uint8_t *before = malloc(to.size);
    ck_assert_ptr_nonnull(before);
    memcpy(before, to.bytes, to.size);
    memset(&network, 0, sizeof network);
    network.now_ms = 1000;
    if (_i % 3) {
        network.drop = (unsigned)draw(25);
        network.repeat = (unsigned)draw(25);
        network.damage = (unsigned)draw(6);
        network.delay_ms = draw(300);
    }
    const char *why;
    ck_assert_msg(transfer(&network, &from, &to, &region, 0, &why) == FETCH_DONE, "case %d: %s", _i, why);
    check_copied(&to, &from, before, &region);
    free(before);
    free(from.bytes);
    free(to.bytes);
}
END_TEST

typedef struct Ending {
    FetchCode code;
    const char *why;
} Ending;

static const Ending endings[] = {
    {FETCH_GONE, "the peer no longer has the tile"}, {FETCH_STRANGER, "the peer does not know this pod"},
    {FETCH_BAD_REGION, "the peer refuses the region"}, {FETCH_NOT_YET, "the peer does not send the tile"}, /* for ever: given up */
};

START_TEST(a_refusal_ends_it) {
    random_state = 3;
    int64_t extent[4] = {100};
    Tile to = tile_new(1, extent, 4, 0);
    memset(&network, 0, sizeof network);
    const char *why;
    ck_assert_int_eq(transfer(&network, NULL, &to, &(Region){.extent = {100, 1, 1, 1}}, endings[_i].code, &why), FETCH_FAILED);
    ck_assert_str_eq(why, endings[_i].why);
    ck_assert_uint_le(network.now_ms, TRANSFER_GIVE_UP_MS + 100);
    free(to.bytes);
}
END_TEST

START_TEST(a_dead_peer_is_given_up) {
    int64_t extent[4] = {100};
    Tile from = tile_new(1, extent, 4, 0), to = tile_new(1, extent, 4, 0);
    memset(&network, 0, sizeof network);
    network.drop = 100;
    const char *why;
    ck_assert_int_eq(transfer(&network, &from, &to, &(Region){.extent = {100, 1, 1, 1}}, 0, &why), FETCH_FAILED);
    ck_assert_str_eq(why, "the peer is not to be reached");
    ck_assert_uint_le(network.now_ms, TRANSFER_REACH_MS + 100);
    free(from.bytes);
    free(to.bytes);
}
END_TEST

/* Soon, however it goes on. */
START_TEST(a_source_of_wrong_bytes_is_given_up) {
    int64_t extent[4] = {100};
    Tile from = tile_new(1, extent, 4, 0), to = tile_new(1, extent, 4, 0);
    memset(&network, 0, sizeof network);
    network.damage = 100;
    const char *why;
    ck_assert_int_eq(transfer(&network, &from, &to, &(Region){.extent = {100, 1, 1, 1}}, 0, &why), FETCH_FAILED);
    ck_assert_str_eq(why, "the peer sends wrong bytes");
    ck_assert_uint_le(network.now_ms, 200);
    free(from.bytes);
    free(to.bytes);
}
END_TEST

/* What a hostile fetcher may ask: nothing outside the tile is read, never more than the credit is sent. */
START_TEST(regions_outside_are_refused) {
    static const Region outside[] = {
        {{-1, 0, 0, 0}, {1, 1, 1, 1}},
        {{0, 0, 0, 0}, {0, 1, 1, 1}},
        {{0, 0, 0, 0}, {11, 1, 1, 1}},
        {{10, 0, 0, 0}, {1, 1, 1, 1}},
        {{5, 0, 0, 0}, {6, 1, 1, 1}},
        {{0, 5, 0, 0}, {1, INT64_MAX, 1, 1}},
        {{INT64_MIN, 0, 0, 0}, {INT64_MAX, 1, 1, 1}},
        {{INT64_MAX, 0, 0, 0}, {1, 1, 1, 1}},
    };
    int64_t extent[4] = {10, 20};
    Tile tile = tile_new(2, extent, 4, 0);
    Serve *serve = serve_new();
    ServeAction action;
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        Fetch fetch = {.transfer = i, .credit = 1};
        memcpy(fetch.origin, outside[i].origin, sizeof fetch.origin);
        memcpy(fetch.extent, outside[i].extent, sizeof fetch.extent);
        serve_fetch(serve, 1, &fetch, &tile.view, 0, 0);
        ck_assert(serve_next(serve, &action));
        ck_assert_int_eq(action.kind, SERVE_REFUSE);
        ck_assert_int_eq(action.code, FETCH_BAD_REGION);
        ck_assert(!serve_next(serve, &action));
    }
    Fetch beyond = {.transfer = 99, .extent = {10, 20, 1, 1}, .offset = 800, .credit = 1}; /* all of it: nobody asks so */
    serve_fetch(serve, 1, &beyond, &tile.view, 0, 0);
    ck_assert(serve_next(serve, &action));
    ck_assert_int_eq(action.code, FETCH_BAD_REGION);
    serve_free(serve);
    free(tile.bytes);
}
END_TEST

START_TEST(credit_bounds_what_is_sent) {
    int64_t extent[4] = {(int64_t)WIRE_CHUNK_BYTES * 40};
    Tile tile = tile_new(1, extent, 1, 0);
    Serve *serve = serve_new();
    ServeAction action;
    Fetch fetch = {.transfer = 1, .extent = {extent[0], 1, 1, 1}, .credit = UINT32_MAX, .chunk = UINT32_MAX};
    serve_fetch(serve, 1, &fetch, &tile.view, 0, 0);
    int sent = 0;
    while (serve_next(serve, &action))
        sent++;
    ck_assert_int_eq(sent, TRANSFER_CREDIT);
    serve_credit(serve, 2, &(Credit){.transfer = 1, .credit = 5}, 0); /* another connection's */
    ck_assert(!serve_next(serve, &action));
    serve_credit(serve, 1, &(Credit){.transfer = 1, .credit = 3, .chunk = 1000}, 0); /* less than there is */
    for (sent = 0; serve_next(serve, &action); sent++)
        ck_assert_uint_eq(action.offset, TRANSFER_CREDIT * WIRE_CHUNK_BYTES + (uint64_t)sent * WIRE_CHUNK_LEAST);
    ck_assert_int_eq(sent, 3);
    serve_tick(serve, TRANSFER_GIVE_UP_MS + 1); /* nobody is heard: forgotten */
    serve_credit(serve, 1, &(Credit){.transfer = 1, .credit = 3}, 0);
    ck_assert(!serve_next(serve, &action));
    serve_free(serve);
    free(tile.bytes);
}
END_TEST

START_TEST(a_flood_of_fetches_is_told_busy) {
    int64_t extent[4] = {10};
    Tile tile = tile_new(1, extent, 1, 0);
    Serve *serve = serve_new();
    ServeAction action;
    for (uint64_t i = 0; i < TRANSFER_SERVED + 10; i++) {
        Fetch fetch = {.transfer = i, .tile = {(int64_t)i}, .extent = {10, 1, 1, 1}, .credit = 0};
        serve_fetch(serve, 1, &fetch, &tile.view, 0, 0);
        bool refused = serve_next(serve, &action);
        ck_assert(refused == (i >= TRANSFER_SERVED));
        if (refused)
            ck_assert_int_eq(action.code, FETCH_BUSY);
    }
    serve_free(serve);
    free(tile.bytes);
}
END_TEST

/* What is passed on goes in chunks that are there, while the rest comes; a part of a tile waits for all of it. */
START_TEST(a_tile_that_comes_is_passed_on) {
    int64_t extent[4] = {3 * WIRE_CHUNK_LEAST};
    Tile tile = tile_new(1, extent, 1, 0);
    Serve *serve = serve_new();
    ServeAction action;
    Fetch fetch = {.transfer = 1, .extent = {extent[0], 1, 1, 1}, .credit = 3}, part = {.transfer = 2, .extent = {10, 1, 1, 1}, .credit = 1};
    serve_await(serve, 1, &fetch, 5, 0);
    serve_await(serve, 2, &part, 5, 0);
    serve_grow(serve, 5, &tile.view, WIRE_CHUNK_LEAST - 1);
    ck_assert(!serve_next(serve, &action));
    serve_grow(serve, 6, &tile.view, (uint64_t)extent[0]); /* of another */
    ck_assert(!serve_next(serve, &action));
    serve_grow(serve, 5, &tile.view, WIRE_CHUNK_LEAST + 1);
    ck_assert(serve_next(serve, &action));
    ck_assert_uint_eq(action.transfer, 1);
    ck_assert_uint_eq(action.offset, 0);
    ck_assert_uint_eq(action.length, WIRE_CHUNK_LEAST);
    ck_assert_uint_eq(action.total, (uint64_t)extent[0]);
    ck_assert(!serve_next(serve, &action));
    serve_grow(serve, 5, &tile.view, 0); /* it is loaded instead */
    ck_assert(!serve_next(serve, &action));
    serve_ready(serve, 5, &tile.view);
    int sent = 0;
    for (; serve_next(serve, &action); sent++)
        ck_assert(action.transfer == 2 || action.offset >= WIRE_CHUNK_LEAST);
    ck_assert_int_eq(sent, 3);
    serve_free(serve);
    free(tile.bytes);
}
END_TEST

/* A fetch of a tile on its way is answered when it is there, and a second asking takes the place of the first. */
START_TEST(a_tile_on_its_way_is_waited_for) {
    int64_t extent[4] = {10};
    Tile tile = tile_new(1, extent, 1, 0);
    Serve *serve = serve_new();
    ServeAction action;
    Fetch fetch = {.transfer = 1, .tile = {3}, .extent = {10, 1, 1, 1}, .credit = 1};
    serve_await(serve, 1, &fetch, 5, 0);
    serve_await(serve, 2, &fetch, 5, 0);
    fetch.transfer = 2;
    serve_await(serve, 1, &fetch, 5, 0);
    fetch.tile[0] = 4;
    fetch.transfer = 3;
    serve_await(serve, 1, &fetch, 6, 0);
    ck_assert(!serve_next(serve, &action));
    serve_ready(serve, 5, &tile.view);
    uint64_t sum = 0;
    for (int i = 0; i < 2; i++) {
        ck_assert(serve_next(serve, &action));
        ck_assert_int_eq(action.kind, SERVE_CHUNK);
        sum += action.connection * 100 + action.transfer;
    }
    ck_assert_uint_eq(sum, 102 + 201);
    ck_assert(!serve_next(serve, &action));
    serve_ready(serve, 6, NULL); /* it will not come */
    ck_assert(serve_next(serve, &action));
    ck_assert_int_eq(action.kind, SERVE_REFUSE);
    ck_assert_int_eq(action.code, FETCH_GONE);
    ck_assert_uint_eq(action.transfer, 3);
    serve_free(serve);
    free(tile.bytes);
}
END_TEST

/* What a connection does not take is sent again from there, the last chunk of a tile too; others go on. */
START_TEST(a_full_connection_is_tried_again) {
    int64_t extent[4] = {WIRE_CHUNK_LEAST + 10};
    Tile tile = tile_new(1, extent, 1, 0);
    Serve *serve = serve_new();
    ServeAction action;
    for (uint64_t connection = 1; connection <= 2; connection++)
        for (int64_t t = 0; t < 2; t++) {
            Fetch fetch = {.transfer = (uint64_t)t, .tile = {t}, .extent = {extent[0], 1, 1, 1}, .credit = 2};
            serve_fetch(serve, connection, &fetch, &tile.view, 0, 0);
        }
    uint64_t got[2][2] = {{0}};
    for (uint64_t now_ms = 0; now_ms < 100; now_ms++, serve_tick(serve, now_ms)) {
        int room = now_ms % 3 == 0; /* chunks that the first connection takes */
        bool full = false;
        while (serve_next(serve, &action)) {
            uint64_t *at = &got[action.connection - 1][action.transfer];
            ck_assert(action.connection == 2 || !full);
            full = action.connection == 1 && room-- == 0;
            if (full) {
                serve_blocked(serve, &action);
                continue;
            }
            ck_assert_uint_eq(action.offset, *at);
            *at += action.length;
        }
        ck_assert(got[1][0] == (uint64_t)extent[0] && got[1][1] == (uint64_t)extent[0]); /* the second one's are sent at once */
    }
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(got[i / 2][i % 2], (uint64_t)extent[0]);
    serve_free(serve);
    free(tile.bytes);
}
END_TEST

/* A refusal is tried again as well; and what has ended does not begin again because another fetch had its number. */
START_TEST(what_was_not_taken_alone_is_tried_again) {
    int64_t extent[4] = {10};
    Tile tile = tile_new(1, extent, 1, 0);
    Serve *serve = serve_new();
    ServeAction action;
    Fetch fetch = {.transfer = 7, .extent = {10, 1, 1, 1}, .credit = 1};
    for (; fetch.tile[0] < 3; fetch.tile[0]++)
        serve_fetch(serve, 1, &fetch, &tile.view, 0, 0);
    for (int i = 0; i < 3; i++)
        ck_assert(serve_next(serve, &action));
    serve_fetch(serve, 1, &fetch, &tile.view, 0, 0);
    fetch = (Fetch){.transfer = 8, .tile = {4}};
    serve_fetch(serve, 1, &fetch, NULL, FETCH_GONE, 0);
    for (uint64_t now_ms = 1; now_ms <= 2; now_ms++) {
        ck_assert(serve_next(serve, &action));
        ck_assert_int_eq(action.kind, now_ms == 1 ? SERVE_CHUNK : SERVE_REFUSE);
        serve_blocked(serve, &action);
        ck_assert(!serve_next(serve, &action)); /* nothing overtakes it on its connection */
        serve_tick(serve, now_ms);
    }
    int chunks = 0, refused = 0;
    while (serve_next(serve, &action)) {
        chunks += action.kind == SERVE_CHUNK;
        refused += action.kind == SERVE_REFUSE && action.code == FETCH_GONE && action.transfer == 8;
    }
    ck_assert_int_eq(chunks, 1);
    ck_assert_int_eq(refused, 1);
    for (uint64_t i = 0; i <= TRANSFER_SERVED; i++) { /* the one more has no room, and is told so until that is taken */
        fetch = (Fetch){.transfer = 100 + i, .tile = {100 + (int64_t)i}, .extent = {10, 1, 1, 1}};
        serve_fetch(serve, 2, &fetch, &tile.view, 0, 0);
    }
    for (int i = 0; i < 2; i++) {
        ck_assert(serve_next(serve, &action));
        ck_assert_int_eq(action.code, FETCH_BUSY);
        if (i == 0)
            serve_blocked(serve, &action);
        ck_assert(!serve_next(serve, &action));
        serve_tick(serve, 3);
    }
    serve_free(serve);
    free(tile.bytes);
}
END_TEST

/* ---- a line that takes some bytes a millisecond, each after those before it ---- */

typedef struct Line {
    struct {
        ServeAction action;
        uint64_t at_ms;
    } chunks[8192];
    int first, count;
    uint64_t bytes_a_ms, free_ms, carried;
} Line;

static void line_put(Line *line, const ServeAction *action, uint64_t now_ms) {
    ck_assert_int_lt(line->count, 8192);
    line->free_ms = (line->free_ms > now_ms ? line->free_ms : now_ms) + action->length / line->bytes_a_ms;
    line->carried += action->length;
    line->chunks[line->count].action = *action;
    line->chunks[line->count++].at_ms = line->free_ms;
}

static void line_take(Line *line, FetchPlane *plane, const TileView *from, uint64_t now_ms) {
    static uint8_t packed[WIRE_CHUNK_BYTES];
    for (; line->first < line->count && line->chunks[line->first].at_ms <= now_ms; line->first++) {
        const ServeAction *action = &line->chunks[line->first].action;
        tile_pack(from, &action->region, action->offset, action->length, packed);
        Chunk chunk = {action->transfer, action->offset, action->total, XXH3_64bits(packed, action->length)};
        fetch_heard(plane, 0, now_ms);
        fetch_chunk(plane, 0, &chunk, packed, action->length, now_ms);
    }
}

/* Bytes a millisecond of a line, tiles and their bytes, how long they may take at most beyond what they need, and how many bytes may come twice. */
static const struct {
    uint64_t bytes_a_ms;
    int tiles;
    int64_t bytes;
    uint64_t late_ms, again;
} lines[] = {
    {125, 1, 300000, 100, 0}, /* 1 Mbit/s */
    {125, 40, 100000, 1000, 0},
    {125, 3, 3000000, 1000, 0},
    {20, 10, 100000, 20000, 1 << 20}, /* 160 kbit/s, for which the first asking is too much */
    {1250, 40, 1000000, 1000, 0},     /* 10 Mbit/s */
    {1250000, 40, 1000000, 1000, 0},  /* 10 Gbit/s */
    {1250000, 2, 40000000, 1000, 0},
};

/* Nothing fails, is late or sent again because the line is slow; and a fast one is full. */
START_TEST(slow_lines_are_kept_busy) {
    int tiles = lines[_i].tiles;
    int64_t extent[4] = {lines[_i].bytes};
    Tile from = tile_new(1, extent, 1, 0), to = tile_new(1, extent, 1, 0);
    Line *line = new_zeroed(1, sizeof *line);
    Serve *serve = serve_new();
    FetchPlane *plane = fetch_new(tiles, 1);
    line->bytes_a_ms = lines[_i].bytes_a_ms;
    uint64_t now_ms = 1000, all = (uint64_t)tiles * (uint64_t)lines[_i].bytes, most_ms = all / lines[_i].bytes_a_ms + lines[_i].late_ms;
    for (int t = 0; t < tiles; t++)
        ck_assert(fetch_start(
            plane, &(FetchRequest){.tag = (uint64_t)t, .tile = {t}, .into = to.view, .region = {.extent = {extent[0], 1, 1, 1}}}, now_ms));
    for (; fetch_busy(plane) && now_ms < 1000 + most_ms; now_ms++) {
        FetchAction asked;
        ServeAction sent;
        line_take(line, plane, &from.view, now_ms);
        fetch_tick(plane, now_ms);
        serve_tick(serve, now_ms);
        while (fetch_next(plane, &asked)) {
            ck_assert_msg(asked.kind != FETCH_FAILED, "line %d: after %llu ms: %s", _i, (unsigned long long)now_ms - 1000, asked.why);
            if (asked.kind == FETCH_SEND_FETCH)
                serve_fetch(serve, 7, &asked.fetch, &from.view, 0, now_ms);
            else if (asked.kind == FETCH_SEND_CREDIT)
                serve_credit(serve, 7, &asked.credit, now_ms);
        }
        while (serve_next(serve, &sent))
            line_put(line, &sent, now_ms);
    }
    ck_assert_msg(!fetch_busy(plane), "line %d: more than %llu ms", _i, (unsigned long long)most_ms);
    ck_assert_msg(
        line->carried <= all + lines[_i].again, "line %d: %llu bytes of %llu", _i, (unsigned long long)line->carried, (unsigned long long)all);
    ck_assert_mem_eq(from.bytes, to.bytes, from.size);
    fetch_free(plane);
    serve_free(serve);
    free(line);
    free(from.bytes);
    free(to.bytes);
}
END_TEST

/* More requests than may run at once take their turns; a silent peer ends its own only, and is not asked again for a while. */
START_TEST(fetches_take_turns) {
    int64_t extent[4] = {10};
    Tile to = tile_new(1, extent, 1, 0);
    FetchPlane *plane = fetch_new(TRANSFER_FETCHED + 10, 2);
    FetchAction action;
    FetchRequest request = {.into = to.view, .region = {.extent = {10, 1, 1, 1}}};
    for (uint64_t i = 0; i < TRANSFER_FETCHED + 10; i++) {
        request.tag = i;
        request.peer = i % 2;
        ck_assert(fetch_start(plane, &request, 1000));
    }
    ck_assert(!fetch_start(plane, &request, 1000));
    int asked = 0, failed = 0;
    for (; fetch_next(plane, &action); asked++)
        ck_assert_int_eq(action.kind, FETCH_SEND_FETCH);
    ck_assert_int_eq(asked, 4); /* two of each, as long as nobody knows how fast they are */
    fetch_heard(plane, 1, 1000 + TRANSFER_REACH_MS);
    fetch_tick(plane, 1000 + TRANSFER_REACH_MS);
    asked = 0;
    while (fetch_next(plane, &action)) {
        asked += action.kind == FETCH_SEND_FETCH;
        failed += action.kind == FETCH_FAILED;
        ck_assert(action.kind != FETCH_FAILED || action.peer == 0);
    }
    ck_assert_int_eq(failed, (TRANSFER_FETCHED + 10) / 2);
    ck_assert_int_eq(asked, 2); /* those of the other peer, again */
    request.peer = 0;
    ck_assert(!fetch_start(plane, &request, 2000 + TRANSFER_REACH_MS));
    ck_assert(fetch_start(plane, &request, 2000 + TRANSFER_REACH_MS + TRANSFER_SILENT_MS));
    fetch_abandon(plane);
    while (fetch_next(plane, &action))
        continue;
    ck_assert(!fetch_busy(plane));
    fetch_free(plane);
    free(to.bytes);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("transfer");
    TCase *cases = tcase_create("transfer");
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, packing_is_row_major, 0, 40);
    tcase_add_loop_test(cases, arrives_whole_over_a_bad_network, 0, 40);
    tcase_add_loop_test(cases, a_refusal_ends_it, 0, sizeof endings / sizeof endings[0]);
    tcase_add_test(cases, a_dead_peer_is_given_up);
    tcase_add_test(cases, a_source_of_wrong_bytes_is_given_up);
    tcase_add_test(cases, regions_outside_are_refused);
    tcase_add_test(cases, credit_bounds_what_is_sent);
    tcase_add_test(cases, a_flood_of_fetches_is_told_busy);
    tcase_add_test(cases, a_tile_that_comes_is_passed_on);
    tcase_add_test(cases, a_tile_on_its_way_is_waited_for);
    tcase_add_test(cases, what_was_not_taken_alone_is_tried_again);
    tcase_add_test(cases, a_full_connection_is_tried_again);
    tcase_add_loop_test(cases, slow_lines_are_kept_busy, 0, sizeof lines / sizeof lines[0]);
    tcase_add_test(cases, fetches_take_turns);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
