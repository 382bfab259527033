/* The tile plane: regions of resident tiles from pod to pod, in chunks, under credit, checksummed, resumable. Two pure machines, the one that serves
 * and the one that fetches; the shell moves their frames. Neither allocates after it was made, nor trusts a number that came over the wire. How large
 * chunks are and how many are asked for at once follows from how fast a peer's come: what is on its way should never take many seconds. */
#ifndef PHOBOS_POD_TRANSFER_H
#define PHOBOS_POD_TRANSFER_H

#include "runtime/net/wire.h"
#include "runtime/runtime.h"

enum {
    TRANSFER_CREDIT = 8,         /* chunks in flight of one transfer, at most */
    TRANSFER_SERVED = 256,       /* transfers served at once; further ones are told BUSY */
    TRANSFER_FETCHED = 64,       /* fetched at once; further ones wait */
    TRANSFER_RETRY_MS = 2000,    /* without a chunk: ask again from where it stopped */
    TRANSFER_WAIT_MS = 100,      /* before asking again for a tile that is not there yet */
    TRANSFER_GIVE_UP_MS = 10000, /* without a chunk: the tile is to be had elsewhere */
    TRANSFER_REACH_MS = 5000,    /* a peer that was never heard in so long is not to be reached */
    TRANSFER_SPOILT = 3,         /* wrong chunks in a row, after each of which it is asked again; with one more the tile is to be had elsewhere */
    TRANSFER_SILENT_MS = 60000,  /* a peer that sends nothing is not asked again for so long */
};

/* A tile in memory, laid out as the leaf ABI says. Regions are relative to it. */
typedef struct TileView {
    void *rows;
    int64_t pitch;
    int rank, element;
    int64_t extent[PHB_MAX_RANK];
} TileView;

/* Bytes [offset, offset + length) of a region whose elements are packed in row-major order. */
void tile_pack(const TileView *tile, const Region *region, uint64_t offset, size_t length, void *packed);
void tile_unpack(const TileView *tile, const Region *region, uint64_t offset, size_t length, const void *packed);
/* A region of one tile to one of the same extents of another. */
void tile_copy(const TileView *from, const Region *region, const TileView *to, const Region *place);
/* False where the region does not lie in the tile. */
bool tile_region_bytes(const TileView *tile, const Region *region, uint64_t *bytes);

/* ---- serving ---- */

typedef struct Serve Serve;

typedef enum ServeActionKind { SERVE_CHUNK, SERVE_REFUSE } ServeActionKind;

typedef struct ServeAction {
    ServeActionKind kind;
    uint64_t connection;
    uint64_t transfer;
    FetchCode code; /* REFUSE */
    TileView tile;  /* CHUNK: bytes [offset, offset + length) of `region` of it */
    Region region;
    uint64_t offset, total;
    size_t length;
    int slot; /* the server's own */
} ServeAction;

Serve *serve_new(void);
void serve_free(Serve *serve);
/* `tile` is what the fetch asks for, or NULL with the reason in `code`; its memory stays as it is. A fetch of a tile that the same peer has asked for
 * before takes the place of the earlier one. */
void serve_fetch(Serve *serve, uint64_t connection, const Fetch *fetch, const TileView *tile, FetchCode code, uint64_t now_ms);
/* The tile that the fetch asks for is coming: it is answered by serve_ready of the same place, and before that as far as serve_grow says. */
void serve_await(Serve *serve, uint64_t connection, const Fetch *fetch, int64_t place, uint64_t now_ms);
void serve_grow(
    Serve *serve, int64_t place, const TileView *tile, uint64_t there); /* so many of its bytes are there, row after row; 0: none any more */
void serve_ready(Serve *serve, int64_t place, const TileView *tile); /* NULL: it will not come */
void serve_credit(Serve *serve, uint64_t connection, const Credit *credit, uint64_t now_ms);
/* Forgets whom nothing was heard from for long; who could not take a chunk is tried again. */
void serve_tick(Serve *serve, uint64_t now_ms);
/* The next frame to send, a transfer at a time in turn; false: none. */
bool serve_next(Serve *serve, ServeAction *action);
/* That frame found no room on its way: it is sent again, and nothing more goes to its connection until the next tick. At once after serve_next. */
void serve_blocked(Serve *serve, const ServeAction *action);

/* ---- fetching ---- */

typedef struct FetchPlane FetchPlane;

typedef struct FetchRequest {
    uint64_t tag;  /* the caller's name for it */
    uint32_t peer; /* whom to ask */
    uint32_t home; /* whom the caller asks where that one fails */
    uint32_t tensor;
    int64_t tile[PHB_MAX_RANK];
    TileView into; /* the whole of `region` goes here, at its origin */
    Region region;
    uint64_t got;   /* bytes that are there already */
    bool apart;     /* it goes to the start of `into` instead */
    bool passed_on; /* from `place` of the shelf, while it comes: it is asked for at once, since others wait */
    int64_t place;
} FetchRequest;

typedef enum FetchActionKind { FETCH_SEND_FETCH, FETCH_SEND_CREDIT, FETCH_GREW, FETCH_DONE, FETCH_FAILED } FetchActionKind;

typedef struct FetchAction {
    FetchActionKind kind;
    uint64_t tag; /* DONE, FAILED */
    uint32_t peer;
    Fetch fetch; /* its token is the shell's to fill in */
    Credit credit;
    const char *why;      /* FAILED */
    FetchRequest request; /* FAILED, and GREW, of what is passed on: `got` says how far it came */
} FetchAction;

/* For at most `capacity` requests at a time, to `peers` peers. */
FetchPlane *fetch_new(int capacity, uint32_t peers);
void fetch_free(FetchPlane *plane);
/* False: the peer is not to be asked now, or there is no room. */
bool fetch_start(FetchPlane *plane, const FetchRequest *request, uint64_t now_ms);
void fetch_heard(FetchPlane *plane, uint32_t peer, uint64_t now_ms); /* any frame of a peer */
void fetch_chunk(FetchPlane *plane, uint32_t peer, const Chunk *chunk, const void *bulk, size_t bulk_length, uint64_t now_ms);
void fetch_refused(FetchPlane *plane, uint32_t peer, const FetchRefused *refused, uint64_t now_ms);
void fetch_tick(FetchPlane *plane, uint64_t now_ms);
bool fetch_next(FetchPlane *plane, FetchAction *action);
/* The peer could not be sent what was due to it, and now it can: it is asked again. */
void fetch_reached(FetchPlane *plane, uint32_t peer, uint64_t now_ms);
/* Ends what is under way: each as FAILED. */
void fetch_abandon(FetchPlane *plane);
void fetch_lose(FetchPlane *plane, uint32_t peer); /* the same of one peer alone */
bool fetch_busy(const FetchPlane *plane);

#endif
