#include "runtime/pod/transfer.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdlib.h>
#include <string.h>

/* ---- regions ---- */

bool tile_region_bytes(const TileView *tile, const Region *region, uint64_t *bytes) {
    *bytes = (uint64_t)tile->element;
    for (int k = 0; k < tile->rank; k++) {
        int64_t origin = region->origin[k], extent = region->extent[k];
        if (origin < 0 || extent < 1 || origin > tile->extent[k] || extent > tile->extent[k] - origin)
            return false;
        *bytes *= (uint64_t)extent; /* at most the tile's own size */
    }
    return true;
}

/* Walks the rows that packed bytes [offset, offset + length) touch. */
typedef struct RowWalk {
    const TileView *tile;
    const Region *region;
    uint64_t row_bytes; /* of the region */
    uint64_t row, at;   /* the row's number in the region, the byte in it */
    size_t left;
} RowWalk;

static RowWalk walk_begin(const TileView *tile, const Region *region, uint64_t offset, size_t length) {
    RowWalk walk = {.tile = tile, .region = region, .left = length};
    walk.row_bytes = (uint64_t)region->extent[tile->rank - 1] * (uint64_t)tile->element;
    walk.row = offset / walk.row_bytes;
    walk.at = offset % walk.row_bytes;
    return walk;
}

/* The next run of bytes; NULL at the end. */
static char *walk_next(RowWalk *walk, size_t *run) {
    if (walk->left == 0)
        return NULL;
    const TileView *tile = walk->tile;
    const Region *region = walk->region;
    int last = tile->rank - 1;
    uint64_t rest = walk->row;
    int64_t row = 0, stride = 1;
    for (int k = last - 1; k >= 0; k--) {
        uint64_t extent = (uint64_t)region->extent[k];
        row += (region->origin[k] + (int64_t)(rest % extent)) * stride;
        rest /= extent;
        stride *= tile->extent[k];
    }
    char *start = (char *)tile->rows + row * tile->pitch + region->origin[last] * tile->element + (int64_t)walk->at;
    uint64_t in_row = walk->row_bytes - walk->at;
    *run = in_row < walk->left ? (size_t)in_row : walk->left;
    walk->left -= *run;
    walk->row++;
    walk->at = 0;
    return start;
}

void tile_pack(const TileView *tile, const Region *region, uint64_t offset, size_t length, void *packed) {
    RowWalk walk = walk_begin(tile, region, offset, length);
    char *to = packed;
    size_t run;
    for (const char *from; (from = walk_next(&walk, &run)); to += run)
        memcpy(to, from, run);
}

void tile_unpack(const TileView *tile, const Region *region, uint64_t offset, size_t length, const void *packed) {
    RowWalk walk = walk_begin(tile, region, offset, length);
    const char *from = packed;
    size_t run;
    for (char *to; (to = walk_next(&walk, &run)); from += run)
        memcpy(to, from, run);
}

/* ---- serving ---- */

typedef struct Served {
    bool active, refused, waits;
    FetchCode code;
    uint64_t connection, transfer;
    uint32_t tensor; /* with `tile_at`: what was asked for */
    int64_t tile_at[PHB_MAX_RANK];
    int64_t place; /* waits: for what */
    TileView tile;
    Region region;
    uint64_t offset, total;
    uint32_t credit;
    uint64_t heard_ms;
} Served;

struct Serve {
    Served transfers[TRANSFER_SERVED];
    int turn;
    Served overflow; /* one refusal that found no room, so that it is still said */
};

Serve *serve_new(void) {
    return new_zeroed(1, sizeof(Serve));
}

void serve_free(Serve *serve) {
    free(serve);
}

static Served *served_find(Serve *serve, uint64_t connection, uint64_t transfer) {
    for (int i = 0; i < TRANSFER_SERVED; i++) {
        Served *served = &serve->transfers[i];
        if (served->active && served->connection == connection && served->transfer == transfer)
            return served;
    }
    return NULL;
}

/* An asking for the same tile is an earlier one of the same fetcher, who has given that up. */
static Served *served_take(Serve *serve, uint64_t connection, const Fetch *fetch) {
    Served *unused = NULL;
    for (int i = 0; i < TRANSFER_SERVED; i++) {
        Served *served = &serve->transfers[i];
        if (!served->active)
            unused = unused ? unused : served;
        else if (served->connection == connection && served->tensor == fetch->tensor &&
                 memcmp(served->tile_at, fetch->tile, sizeof served->tile_at) == 0)
            return served;
    }
    return unused;
}

static Served *served_begin(Serve *serve, uint64_t connection, const Fetch *fetch, uint64_t now_ms) {
    Served *served = served_take(serve, connection, fetch);
    bool refused = served == NULL;
    if (refused)
        served = &serve->overflow;
    *served = (Served){.active = true,
        .connection = connection,
        .transfer = fetch->transfer,
        .tensor = fetch->tensor,
        .offset = fetch->offset,
        .credit = fetch->credit < TRANSFER_CREDIT ? fetch->credit : TRANSFER_CREDIT,
        .heard_ms = now_ms,
        .refused = refused,
        .code = FETCH_BUSY};
    memcpy(served->tile_at, fetch->tile, sizeof served->tile_at);
    memcpy(served->region.origin, fetch->origin, sizeof served->region.origin);
    memcpy(served->region.extent, fetch->extent, sizeof served->region.extent);
    return served;
}

/* The region was not looked at before: the tile's extents were not known. */
static void served_answer(Served *served, const TileView *tile, FetchCode code) {
    served->waits = false;
    if (served->refused)
        return;
    served->code = code;
    served->refused = tile == NULL;
    if (tile == NULL)
        return;
    served->tile = *tile;
    if (!tile_region_bytes(tile, &served->region, &served->total) || served->offset >= served->total) {
        served->refused = true;
        served->code = FETCH_BAD_REGION;
    }
}

void serve_fetch(Serve *serve, uint64_t connection, const Fetch *fetch, const TileView *tile, FetchCode code, uint64_t now_ms) {
    served_answer(served_begin(serve, connection, fetch, now_ms), tile, code);
}

void serve_await(Serve *serve, uint64_t connection, const Fetch *fetch, int64_t place, uint64_t now_ms) {
    Served *served = served_begin(serve, connection, fetch, now_ms);
    served->waits = !served->refused;
    served->place = place;
}

void serve_ready(Serve *serve, int64_t place, const TileView *tile) {
    for (int i = 0; i < TRANSFER_SERVED; i++) {
        Served *served = &serve->transfers[i];
        if (served->active && served->waits && served->place == place)
            served_answer(served, tile, FETCH_GONE);
    }
}

void serve_credit(Serve *serve, uint64_t connection, const Credit *credit, uint64_t now_ms) {
    Served *served = served_find(serve, connection, credit->transfer);
    if (!served)
        return;
    served->heard_ms = now_ms;
    served->credit = credit->credit > TRANSFER_CREDIT - served->credit ? TRANSFER_CREDIT : served->credit + credit->credit;
}

void serve_tick(Serve *serve, uint64_t now_ms) {
    for (int i = 0; i < TRANSFER_SERVED; i++)
        if (serve->transfers[i].active && now_ms - serve->transfers[i].heard_ms > TRANSFER_GIVE_UP_MS)
            serve->transfers[i].active = false;
}

static void refuse_one(Served *served, ServeAction *action) {
    *action = (ServeAction){.kind = SERVE_REFUSE, .connection = served->connection, .transfer = served->transfer, .code = served->code};
    served->active = false;
}

bool serve_next(Serve *serve, ServeAction *action) {
    if (serve->overflow.active) {
        refuse_one(&serve->overflow, action);
        return true;
    }
    for (int n = 0; n < TRANSFER_SERVED; n++) {
        Served *served = &serve->transfers[serve->turn];
        serve->turn = (serve->turn + 1) % TRANSFER_SERVED;
        if (!served->active)
            continue;
        if (served->refused) {
            refuse_one(served, action);
            return true;
        }
        if (served->waits || served->credit == 0)
            continue;
        uint64_t left = served->total - served->offset;
        size_t length = left < WIRE_CHUNK_BYTES ? (size_t)left : WIRE_CHUNK_BYTES;
        *action = (ServeAction){
            .kind = SERVE_CHUNK,
            .connection = served->connection,
            .transfer = served->transfer,
            .tile = served->tile,
            .region = served->region,
            .offset = served->offset,
            .total = served->total,
            .length = length,
        };
        served->credit--;
        served->offset += length;
        served->active = served->offset < served->total; /* who has lost some of it asks again */
        return true;
    }
    return false;
}

/* ---- fetching ---- */

/* Each asking has a number of its own, so that chunks of an earlier one are nobody's. */
typedef struct Fetching {
    bool active, waits; /* waits: for its turn */
    FetchRequest request;
    uint64_t order; /* of those that wait */
    uint64_t transfer;
    uint64_t got, total;
    uint32_t owed; /* credit not yet given back */
    uint64_t asked_ms, got_ms;
    bool ask, ended, well; /* actions that are due */
    const char *why;
} Fetching;

typedef struct Peer {
    bool heard, silent;
    uint64_t heard_ms;  /* last */
    uint64_t silent_ms; /* since when it is taken to be */
} Peer;

struct FetchPlane {
    Fetching *transfers;
    int capacity, running; /* running: neither waiting nor over */
    Peer *peers;
    uint32_t peer_count;
    uint64_t next_transfer, next_order;
    int turn;
};

FetchPlane *fetch_new(int capacity, uint32_t peers) {
    FetchPlane *plane = new_zeroed(1, sizeof *plane);
    plane->transfers = new_zeroed((size_t)capacity, sizeof *plane->transfers);
    plane->peers = new_zeroed(peers, sizeof *plane->peers);
    plane->capacity = capacity;
    plane->peer_count = peers;
    plane->next_transfer = 1;
    return plane;
}

void fetch_free(FetchPlane *plane) {
    if (plane == NULL)
        return;
    free(plane->transfers);
    free(plane->peers);
    free(plane);
}

bool fetch_busy(const FetchPlane *plane) {
    for (int i = 0; i < plane->capacity; i++)
        if (plane->transfers[i].active)
            return true;
    return false;
}

static void ask_again(FetchPlane *plane, Fetching *fetching, uint64_t now_ms) {
    fetching->transfer = plane->next_transfer++;
    fetching->owed = 0;
    fetching->ask = true;
    fetching->asked_ms = now_ms;
}

static void begin(FetchPlane *plane, Fetching *fetching, uint64_t now_ms) {
    plane->running++;
    fetching->waits = false;
    fetching->got_ms = now_ms;
    ask_again(plane, fetching, now_ms);
}

/* The ones that have waited longest go first. */
static void begin_waiting(FetchPlane *plane, uint64_t now_ms) {
    while (plane->running < TRANSFER_FETCHED) {
        Fetching *first = NULL;
        for (int i = 0; i < plane->capacity; i++) {
            Fetching *fetching = &plane->transfers[i];
            if (fetching->active && fetching->waits && !fetching->ended && (!first || fetching->order < first->order))
                first = fetching;
        }
        if (!first)
            return;
        begin(plane, first, now_ms);
    }
}

/* Where the region goes. */
static Region landing(const FetchRequest *request) {
    Region region = request->region;
    if (request->apart)
        memset(region.origin, 0, sizeof region.origin);
    return region;
}

bool fetch_start(FetchPlane *plane, const FetchRequest *request, uint64_t now_ms) {
    Fetching *fetching = NULL;
    for (int i = 0; i < plane->capacity && !fetching; i++)
        if (!plane->transfers[i].active)
            fetching = &plane->transfers[i];
    if (!fetching || request->peer >= plane->peer_count)
        return false;
    Peer *peer = &plane->peers[request->peer];
    if (peer->silent && now_ms - peer->silent_ms < TRANSFER_SILENT_MS)
        return false;
    if (peer->silent)
        *peer = (Peer){.heard = false};
    uint64_t total;
    Region place = landing(request);
    if (!tile_region_bytes(&request->into, &place, &total))
        return false;
    *fetching = (Fetching){.active = true, .waits = true, .request = *request, .order = plane->next_order++, .total = total};
    begin_waiting(plane, now_ms);
    return true;
}

void fetch_heard(FetchPlane *plane, uint32_t peer, uint64_t now_ms) {
    plane->peers[peer].heard = true;
    plane->peers[peer].heard_ms = now_ms;
}

static Fetching *fetching_find(FetchPlane *plane, uint64_t transfer) {
    for (int i = 0; i < plane->capacity; i++) {
        Fetching *fetching = &plane->transfers[i];
        if (fetching->active && !fetching->waits && !fetching->ended && fetching->transfer == transfer)
            return fetching;
    }
    return NULL;
}

static void end(FetchPlane *plane, Fetching *fetching, bool well, const char *why) {
    plane->running -= !fetching->waits;
    fetching->ended = true;
    fetching->well = well;
    fetching->why = why;
    fetching->ask = false;
}

void fetch_chunk(FetchPlane *plane, const Chunk *chunk, const void *bulk, size_t bulk_length, uint64_t now_ms) {
    Fetching *fetching = fetching_find(plane, chunk->transfer);
    if (!fetching)
        return;
    bool sound = chunk->total == fetching->total && chunk->offset == fetching->got && bulk_length > 0 &&
                 bulk_length <= fetching->total - fetching->got && XXH3_64bits(bulk, bulk_length) == chunk->hash;
    if (!sound) {
        ask_again(plane, fetching, now_ms);
        return;
    }
    Region place = landing(&fetching->request);
    tile_unpack(&fetching->request.into, &place, fetching->got, bulk_length, bulk);
    fetching->got += bulk_length;
    fetching->got_ms = fetching->asked_ms = now_ms;
    fetching->owed++;
    if (fetching->got == fetching->total)
        end(plane, fetching, true, NULL);
}

void fetch_refused(FetchPlane *plane, const FetchRefused *refused, uint64_t now_ms) {
    Fetching *fetching = fetching_find(plane, refused->transfer);
    if (!fetching)
        return;
    switch (refused->code) {
    case FETCH_NOT_YET:
    case FETCH_BUSY:
        fetching->asked_ms = now_ms - TRANSFER_RETRY_MS + TRANSFER_WAIT_MS; /* ask again soon */
        break;
    case FETCH_GONE:
        end(plane, fetching, false, "the peer no longer has the tile");
        break;
    case FETCH_STRANGER:
        end(plane, fetching, false, "the peer does not know this pod");
        break;
    default:
        end(plane, fetching, false, "the peer refuses the region");
    }
}

/* Nothing at all has been heard of the peer while this waited for it. */
static bool is_silent(const Peer *peer, const Fetching *fetching, uint64_t now_ms) {
    uint64_t since = peer->heard_ms > fetching->got_ms ? peer->heard_ms : fetching->got_ms;
    return now_ms - since >= (peer->heard ? TRANSFER_GIVE_UP_MS : TRANSFER_REACH_MS);
}

void fetch_tick(FetchPlane *plane, uint64_t now_ms) {
    for (int i = 0; i < plane->capacity; i++) {
        Fetching *fetching = &plane->transfers[i];
        if (!fetching->active || fetching->ended)
            continue;
        Peer *peer = &plane->peers[fetching->request.peer];
        bool silent = peer->silent || (!fetching->waits && is_silent(peer, fetching, now_ms));
        if (silent) {
            if (!peer->silent)
                peer->silent_ms = now_ms;
            peer->silent = true;
            end(plane, fetching, false, peer->heard ? "the peer sends nothing" : "the peer is not to be reached");
        } else if (fetching->waits) {
            continue;
        } else if (now_ms - fetching->got_ms >= TRANSFER_GIVE_UP_MS) {
            end(plane, fetching, false, "the peer does not send the tile");
        } else if (now_ms - fetching->asked_ms >= TRANSFER_RETRY_MS) {
            ask_again(plane, fetching, now_ms);
        }
    }
    begin_waiting(plane, now_ms);
}

void fetch_reached(FetchPlane *plane, uint32_t peer, uint64_t now_ms) {
    for (int i = 0; i < plane->capacity; i++) {
        Fetching *fetching = &plane->transfers[i];
        if (fetching->active && !fetching->waits && !fetching->ended && fetching->request.peer == peer)
            ask_again(plane, fetching, now_ms);
    }
}

void fetch_abandon(FetchPlane *plane) {
    for (int i = 0; i < plane->capacity; i++)
        if (plane->transfers[i].active && !plane->transfers[i].ended)
            end(plane, &plane->transfers[i], false, "nobody waits for it any more");
}

void fetch_lose(FetchPlane *plane, uint32_t peer) {
    for (int i = 0; i < plane->capacity; i++)
        if (plane->transfers[i].active && !plane->transfers[i].ended && plane->transfers[i].request.peer == peer)
            end(plane, &plane->transfers[i], false, "the peer is lost");
}

static void make_fetch(const Fetching *fetching, FetchAction *action) {
    const FetchRequest *request = &fetching->request;
    *action = (FetchAction){.kind = FETCH_SEND_FETCH, .tag = request->tag, .peer = request->peer};
    action->fetch = (Fetch){.transfer = fetching->transfer, .tensor = request->tensor, .offset = fetching->got, .credit = TRANSFER_CREDIT};
    memcpy(action->fetch.tile, request->tile, sizeof action->fetch.tile);
    memcpy(action->fetch.origin, request->region.origin, sizeof action->fetch.origin);
    memcpy(action->fetch.extent, request->region.extent, sizeof action->fetch.extent);
}

bool fetch_next(FetchPlane *plane, FetchAction *action) {
    for (int n = 0; n < plane->capacity; n++) {
        Fetching *fetching = &plane->transfers[plane->turn];
        plane->turn = (plane->turn + 1) % plane->capacity;
        if (!fetching->active)
            continue;
        if (fetching->ended) {
            *action = (FetchAction){.kind = fetching->well ? FETCH_DONE : FETCH_FAILED,
                .tag = fetching->request.tag,
                .peer = fetching->request.peer,
                .why = fetching->why,
                .request = fetching->request};
            fetching->active = false;
            return true;
        }
        if (fetching->ask) {
            fetching->ask = false;
            make_fetch(fetching, action);
            return true;
        }
        if (fetching->owed >= TRANSFER_CREDIT / 2) {
            *action = (FetchAction){
                .kind = FETCH_SEND_CREDIT, .peer = fetching->request.peer, .credit = {.transfer = fetching->transfer, .credit = fetching->owed}};
            fetching->owed = 0;
            return true;
        }
    }
    return false;
}
