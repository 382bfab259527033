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

void tile_copy(const TileView *from, const Region *region, const TileView *to, const Region *place) {
    size_t run, rows = 1;
    for (int k = 0; k < from->rank - 1; k++)
        rows *= (size_t)region->extent[k];
    size_t bytes = rows * (size_t)(region->extent[from->rank - 1] * from->element);
    RowWalk source = walk_begin(from, region, 0, bytes), target = walk_begin(to, place, 0, bytes);
    for (char *at; (at = walk_next(&target, &run));)
        memcpy(at, walk_next(&source, &run), run);
}

/* ---- serving ---- */

typedef struct Served {
    bool active, refused;
    bool coming;  /* the tile is, to `place`; `there` of its bytes are there */
    bool blocked; /* until the next tick */
    FetchCode code;
    uint64_t connection, transfer;
    uint32_t tensor; /* with `tile_at`: what was asked for */
    int64_t tile_at[PHB_MAX_RANK];
    int64_t place;
    uint64_t there;
    TileView tile;
    Region region;
    uint64_t offset, total; /* total: 0 as long as the tile is not known */
    uint32_t credit, chunk;
    uint64_t heard_ms;
} Served;

/* The last slot is for a refusal that found no other, so that it is still said. */
enum { SERVED_SLOTS = TRANSFER_SERVED + 1 };

struct Serve {
    Served transfers[SERVED_SLOTS];
    int turn;
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

static uint32_t chunk_bytes(uint32_t wanted) {
    return wanted < WIRE_CHUNK_LEAST ? WIRE_CHUNK_LEAST : wanted < WIRE_CHUNK_BYTES ? wanted : WIRE_CHUNK_BYTES;
}

static Served *served_begin(Serve *serve, uint64_t connection, const Fetch *fetch, uint64_t now_ms) {
    Served *served = served_take(serve, connection, fetch);
    bool refused = served == NULL;
    if (refused)
        served = &serve->transfers[TRANSFER_SERVED];
    *served = (Served){.active = true,
        .connection = connection,
        .transfer = fetch->transfer,
        .tensor = fetch->tensor,
        .offset = fetch->offset,
        .credit = fetch->credit < TRANSFER_CREDIT ? fetch->credit : TRANSFER_CREDIT,
        .chunk = chunk_bytes(fetch->chunk),
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
    served->coming = !served->refused;
    served->place = place;
}

void serve_grow(Serve *serve, int64_t place, const TileView *tile, uint64_t there) {
    for (int i = 0; i < TRANSFER_SERVED; i++) {
        Served *served = &serve->transfers[i];
        if (!served->active || !served->coming || served->place != place || served->refused)
            continue;
        if (memcmp(served->region.extent, tile->extent, sizeof tile->extent[0] * (size_t)tile->rank) != 0)
            continue; /* what is there of a part of it nobody knows */
        if (served->total == 0)
            served_answer(served, tile, FETCH_GONE);
        served->there = there;
    }
}

void serve_ready(Serve *serve, int64_t place, const TileView *tile) {
    for (int i = 0; i < TRANSFER_SERVED; i++) {
        Served *served = &serve->transfers[i];
        if (!served->active || !served->coming || served->place != place)
            continue;
        served->coming = false;
        served_answer(served, tile, FETCH_GONE);
    }
}

void serve_credit(Serve *serve, uint64_t connection, const Credit *credit, uint64_t now_ms) {
    Served *served = served_find(serve, connection, credit->transfer);
    if (!served)
        return;
    served->heard_ms = now_ms;
    served->chunk = chunk_bytes(credit->chunk);
    served->credit = credit->credit > TRANSFER_CREDIT - served->credit ? TRANSFER_CREDIT : served->credit + credit->credit;
}

void serve_tick(Serve *serve, uint64_t now_ms) {
    for (int i = 0; i < SERVED_SLOTS; i++) {
        Served *served = &serve->transfers[i];
        served->blocked = false;
        if (served->active && now_ms - served->heard_ms > TRANSFER_GIVE_UP_MS)
            served->active = false;
    }
}

void serve_blocked(Serve *serve, const ServeAction *action) {
    for (int i = 0; i < SERVED_SLOTS; i++)
        serve->transfers[i].blocked |= serve->transfers[i].connection == action->connection;
    Served *served = &serve->transfers[action->slot];
    served->active = true;
    if (action->kind == SERVE_REFUSE)
        return;
    served->offset = action->offset;
    served->credit++;
}

static void refuse(Served *served, ServeAction *action) {
    *action = (ServeAction){.kind = SERVE_REFUSE, .connection = served->connection, .transfer = served->transfer, .code = served->code};
    served->active = false;
}

bool serve_next(Serve *serve, ServeAction *action) {
    for (int n = 0; n < SERVED_SLOTS; n++) {
        int slot = serve->turn;
        Served *served = &serve->transfers[slot];
        serve->turn = (serve->turn + 1) % SERVED_SLOTS;
        if (!served->active || served->blocked)
            continue;
        if (served->refused) {
            refuse(served, action);
            action->slot = slot;
            return true;
        }
        if (served->credit == 0)
            continue;
        uint64_t left = served->total - served->offset;
        size_t length = left < served->chunk ? (size_t)left : served->chunk;
        if (served->coming && (served->total == 0 || served->there < served->offset + length))
            continue;
        *action = (ServeAction){
            .kind = SERVE_CHUNK,
            .connection = served->connection,
            .transfer = served->transfer,
            .tile = served->tile,
            .region = served->region,
            .offset = served->offset,
            .total = served->total,
            .length = length,
            .slot = slot,
        };
        served->credit--;
        served->offset += length;
        served->active = served->offset < served->total; /* who has lost some of it asks again */
        return true;
    }
    return false;
}

/* ---- fetching ---- */

/* What is asked of a peer, slow ones first: where so much has come in a tenth of a second, what the next has on its way comes in about a second. */
typedef struct Pace {
    uint32_t chunk, credit;
    int running;    /* transfers at once */
    uint64_t quick; /* bytes */
} Pace;

enum { PACE_AT_FIRST = 1, PACE_QUICK_MS = 100, PACE_SLOW_MS = 1000 }; /* slow: without a chunk */
static const Pace paces[] = {
    {16 << 10, 1, 1, 32 << 10},
    {32 << 10, 2, 2, 96 << 10},
    {128 << 10, 2, 4, 768 << 10},
    {256 << 10, 4, 8, 2 << 20},
    {WIRE_CHUNK_BYTES, TRANSFER_CREDIT, TRANSFER_FETCHED, UINT64_MAX},
};

/* A transfer's number is that of the request and, in its low bits, the how manieth asking it is: chunks of earlier askings are as good. */
enum { ASKING_BITS = 16 };

typedef struct Fetching {
    bool active, waits; /* waits: for its turn */
    FetchRequest request;
    uint64_t order;    /* of those that wait */
    uint64_t transfer; /* of the last asking */
    uint64_t got, total;
    uint32_t credit, owed;     /* chunks that may be on their way, and those of them that have come */
    uint64_t again_ms, got_ms; /* again: when it is to be asked for once more */
    int spoilt;                /* chunks that were wrong since one was right */
    bool refused;              /* at the last asking */
    bool grew;                 /* since the last action that says so */
    bool ask, ended, well;     /* actions that are due */
    const char *why;
} Fetching;

typedef struct Peer {
    bool heard, silent;
    uint64_t heard_ms;  /* last */
    uint64_t silent_ms; /* since when it is taken to be */
    int pace, running;
    uint64_t chunk_ms;              /* the last chunk, or when the first of those that run was asked for */
    uint64_t paced_ms;              /* the same, or when something was asked for again */
    uint64_t quick_bytes, quick_ms; /* what has come since then */
} Peer;

struct FetchPlane {
    Fetching *transfers;
    int capacity, running; /* running: neither waiting nor over */
    Peer *peers;
    uint32_t peer_count;
    uint64_t next_request, next_order;
    int turn;
};

FetchPlane *fetch_new(int capacity, uint32_t peers) {
    FetchPlane *plane = new_zeroed(1, sizeof *plane);
    plane->transfers = new_zeroed((size_t)capacity, sizeof *plane->transfers);
    plane->peers = new_zeroed(peers, sizeof *plane->peers);
    plane->capacity = capacity;
    plane->peer_count = peers;
    plane->next_request = 1;
    for (uint32_t p = 0; p < peers; p++)
        plane->peers[p].pace = PACE_AT_FIRST;
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
    uint64_t askings = UINT64_C(1) << ASKING_BITS;
    fetching->transfer = fetching->transfer / askings * askings + (fetching->transfer + 1) % askings;
    fetching->credit = paces[plane->peers[fetching->request.peer].pace].credit;
    fetching->owed = 0;
    fetching->refused = false;
    fetching->ask = true;
    fetching->again_ms = now_ms + TRANSFER_RETRY_MS;
}

static void begin(FetchPlane *plane, Fetching *fetching, uint64_t now_ms) {
    Peer *peer = &plane->peers[fetching->request.peer];
    plane->running++;
    if (peer->running++ == 0) {
        peer->chunk_ms = peer->paced_ms = peer->quick_ms = now_ms;
        peer->quick_bytes = 0;
    }
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
            const Peer *peer = &plane->peers[fetching->request.peer];
            if (fetching->active && fetching->waits && !fetching->ended && peer->running < paces[peer->pace].running &&
                (!first || fetching->order < first->order))
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
        *peer = (Peer){.pace = PACE_AT_FIRST, .running = peer->running};
    uint64_t total;
    Region place = landing(request);
    if (!tile_region_bytes(&request->into, &place, &total))
        return false;
    *fetching = (Fetching){.active = true,
        .waits = true,
        .request = *request,
        .order = plane->next_order++,
        .transfer = plane->next_request++ << ASKING_BITS,
        .got = request->got,
        .total = total};
    if (request->passed_on)
        begin(plane, fetching, now_ms);
    begin_waiting(plane, now_ms);
    return true;
}

void fetch_heard(FetchPlane *plane, uint32_t peer, uint64_t now_ms) {
    plane->peers[peer].heard = true;
    plane->peers[peer].heard_ms = now_ms;
}

/* Of any asking. */
static Fetching *fetching_find(FetchPlane *plane, uint32_t peer, uint64_t transfer) {
    for (int i = 0; i < plane->capacity; i++) {
        Fetching *fetching = &plane->transfers[i];
        if (fetching->active && !fetching->waits && !fetching->ended && fetching->request.peer == peer &&
            fetching->transfer >> ASKING_BITS == transfer >> ASKING_BITS)
            return fetching;
    }
    return NULL;
}

static void end(FetchPlane *plane, Fetching *fetching, bool well, const char *why) {
    plane->running -= !fetching->waits;
    plane->peers[fetching->request.peer].running -= !fetching->waits;
    fetching->ended = true;
    fetching->well = well;
    fetching->why = why;
    fetching->ask = false;
}

/* The peer goes at the pace that its chunks come at. */
static void set_pace(Peer *peer, size_t length, uint64_t now_ms) {
    if (now_ms - peer->paced_ms > PACE_SLOW_MS && peer->pace > 0)
        peer->pace--;
    bool quick = now_ms - peer->quick_ms <= PACE_QUICK_MS;
    peer->quick_bytes = quick ? peer->quick_bytes + length : 0;
    if (!quick)
        peer->quick_ms = now_ms;
    if (peer->quick_bytes >= paces[peer->pace].quick) {
        peer->pace++;
        peer->quick_bytes = 0;
    }
    peer->chunk_ms = peer->paced_ms = now_ms;
}

void fetch_chunk(FetchPlane *plane, uint32_t peer, const Chunk *chunk, const void *bulk, size_t bulk_length, uint64_t now_ms) {
    Fetching *fetching = fetching_find(plane, peer, chunk->transfer);
    set_pace(&plane->peers[peer], bulk_length, now_ms);
    if (!fetching)
        return;
    bool late = chunk->transfer != fetching->transfer; /* of an earlier asking */
    bool fits =
        chunk->total == fetching->total && bulk_length > 0 && chunk->offset < fetching->total && bulk_length <= fetching->total - chunk->offset;
    bool sound = fits && XXH3_64bits(bulk, bulk_length) == chunk->hash;
    if (!sound || chunk->offset > fetching->got) {
        if (!late && !sound && ++fetching->spoilt > TRANSFER_SPOILT)
            end(plane, fetching, false, "the peer sends wrong bytes");
        else if (!late)
            ask_again(plane, fetching, now_ms);
        return;
    }
    fetching->owed += !late;
    uint64_t had = fetching->got - chunk->offset; /* of its bytes, from an earlier asking */
    if (had >= bulk_length)
        return;
    Region place = landing(&fetching->request);
    tile_unpack(&fetching->request.into, &place, fetching->got, bulk_length - had, (const char *)bulk + had);
    fetching->got += bulk_length - had;
    fetching->grew = fetching->request.passed_on;
    fetching->got_ms = now_ms;
    fetching->spoilt = 0;
    fetching->again_ms = now_ms + TRANSFER_RETRY_MS;
    if (fetching->got == fetching->total)
        end(plane, fetching, true, NULL);
}

void fetch_refused(FetchPlane *plane, uint32_t peer, const FetchRefused *refused, uint64_t now_ms) {
    Fetching *fetching = fetching_find(plane, peer, refused->transfer);
    if (!fetching || fetching->transfer != refused->transfer)
        return;
    switch (refused->code) {
    case FETCH_NOT_YET:
    case FETCH_BUSY:
        fetching->refused = true;
        fetching->again_ms = now_ms + TRANSFER_WAIT_MS;
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

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Nothing at all has been heard of the peer while this waited for it. */
static bool is_silent(const Peer *peer, const Fetching *fetching, uint64_t now_ms) {
    return now_ms - later(peer->heard_ms, fetching->got_ms) >= (peer->heard ? TRANSFER_GIVE_UP_MS : TRANSFER_REACH_MS);
}

/* The peer sends, and what this waits for may well come after it: nothing overtakes on a connection. */
static bool is_queued(const Peer *peer, const Fetching *fetching, uint64_t now_ms) {
    return !fetching->refused && now_ms - peer->chunk_ms < TRANSFER_RETRY_MS && now_ms - fetching->got_ms < TRANSFER_GIVE_UP_MS / 2;
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
        } else if (now_ms - later(fetching->got_ms, peer->chunk_ms) >= TRANSFER_GIVE_UP_MS) {
            end(plane, fetching, false, "the peer does not send the tile");
        } else if (now_ms >= fetching->again_ms && !is_queued(peer, fetching, now_ms)) {
            peer->paced_ms = now_ms; /* what is lost does not make a peer slow */
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

static void make_fetch(const FetchPlane *plane, const Fetching *fetching, FetchAction *action) {
    const FetchRequest *request = &fetching->request;
    *action = (FetchAction){.kind = FETCH_SEND_FETCH, .tag = request->tag, .peer = request->peer};
    action->fetch = (Fetch){.transfer = fetching->transfer, .tensor = request->tensor, .offset = fetching->got, .credit = fetching->credit};
    action->fetch.chunk = paces[plane->peers[request->peer].pace].chunk;
    memcpy(action->fetch.tile, request->tile, sizeof action->fetch.tile);
    memcpy(action->fetch.origin, request->region.origin, sizeof action->fetch.origin);
    memcpy(action->fetch.extent, request->region.extent, sizeof action->fetch.extent);
}

/* As much as the pace allows now: what a slower one does not is not given back. */
static bool make_credit(const FetchPlane *plane, Fetching *fetching, FetchAction *action) {
    const Pace *pace = &paces[plane->peers[fetching->request.peer].pace];
    uint32_t out = fetching->credit - fetching->owed;
    if (fetching->owed == 0 || out > pace->credit / 2)
        return false;
    *action = (FetchAction){.kind = FETCH_SEND_CREDIT,
        .peer = fetching->request.peer,
        .credit = {.transfer = fetching->transfer, .credit = pace->credit - out, .chunk = pace->chunk}};
    fetching->credit = pace->credit;
    fetching->owed = 0;
    return true;
}

static void make_told(const Fetching *fetching, FetchActionKind kind, FetchAction *action) {
    *action =
        (FetchAction){.kind = kind, .tag = fetching->request.tag, .peer = fetching->request.peer, .why = fetching->why, .request = fetching->request};
    action->request.got = fetching->got;
}

bool fetch_next(FetchPlane *plane, FetchAction *action) {
    for (int n = 0; n < plane->capacity; n++) {
        Fetching *fetching = &plane->transfers[plane->turn];
        plane->turn = (plane->turn + 1) % plane->capacity;
        if (!fetching->active)
            continue;
        if (fetching->grew) {
            fetching->grew = false;
            make_told(fetching, FETCH_GREW, action);
            return true;
        }
        if (fetching->ended) {
            make_told(fetching, fetching->well ? FETCH_DONE : FETCH_FAILED, action);
            fetching->active = false;
            return true;
        }
        if (fetching->ask) {
            fetching->ask = false;
            make_fetch(plane, fetching, action);
            return true;
        }
        if (make_credit(plane, fetching, action))
            return true;
    }
    return false;
}
