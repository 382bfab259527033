/* Tiles between pods under virtual time: shelves, servers and fetchers of several pods, the very code of the executables, over connections that lose,
 * repeat, damage and delay frames, with pods that die, are slow, or come late. One seed is one schedule and replays:
 *
 *     tile_sim --seed 1234 --verbose
 *     tile_sim --seeds 1000 [--first 0] [--until-violated]
 *
 * Checked: each tile that a living pod wants arrives with the right bytes, from its home, from who passes it on or from its file, and in bounded
 * time; where nothing is broken, each tile is loaded once in all, by its home, and soon, and nobody sends it to more than two; no more loads and
 * chunks are in flight than there may be. */
#include "runtime/pod/shelf.h"
#include "runtime/pod/transfer.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_NODES = 8,
    MAX_WANTS = 200,
    MAX_FRAMES = 4096,
    STEP_MS = 10,
    OPERANDS = 2,
    WINDOW = 6,
    PASSED_ON = 1000 /* and the place on the shelf: a fetch's tag */,
    END_MS = 400000
};

static uint64_t random_state;

static uint64_t draw(uint64_t bound) {
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % bound;
}

typedef struct Frame {
    int from, to;
    bool answer; /* of a server */
    WireType type;
    uint64_t at_ms;
    Fetch fetch;
    Credit credit;
    Chunk chunk;
    FetchRefused refused;
    uint8_t *bulk;
    size_t length;
} Frame;

typedef enum WantState { WANT_LATER, WANT_FETCHING, WANT_LOADING, WANT_SHELVED, WANT_DONE } WantState;

typedef struct Want {
    int operand;
    int64_t tile;
    WantState state;
    uint8_t *rows;
    uint64_t begun_ms, loaded_ms;
} Want;

typedef struct Load {
    int64_t place;
    uint64_t ends_ms;
} Load;

typedef struct Node {
    bool alive;
    uint64_t dies_ms, starts_ms, load_ms;
    Shelf *shelf;
    void *memory;
    Serve *serve;
    FetchPlane *fetches;
    Want wants[MAX_WANTS];
    int want_count, next;
    Load loads[SHELF_LANES];
    int load_count;
} Node;

typedef struct Sim {
    bool verbose;
    bool lossy;  /* frames are lost now and then, and nothing else is wrong: all is fetched in the end */
    bool broken; /* anything */
    uint64_t now_ms;
    unsigned lose, repeat, damage;
    uint64_t delay_ms, heal_ms;
    PhbKernel kernel;
    Operand operands[OPERANDS];
    Problem problem;
    Plan plan;
    bool fetched[OPERANDS];
    Readers *trees[OPERANDS];
    int64_t shelf[OPERANDS], slots[OPERANDS];
    Placement *placement;
    Node nodes[MAX_NODES + 1];
    int node_count; /* with one that came late */
    Frame frames[MAX_FRAMES];
    int frame_count;
    uint64_t last_ms[MAX_NODES + 1][MAX_NODES + 1][2]; /* when the last frame on a connection arrives: none overtakes it */
    int loads[OPERANDS][1024];
    unsigned sent[MAX_NODES + 1][OPERANDS][1024]; /* to whom each pod sends a tile, a bit a pod */
    const char *violation;
} Sim;

__attribute__((format(printf, 2, 3))) static void say(const Sim *sim, const char *format, ...) {
    if (!sim->verbose)
        return;
    printf("%8llu ms  ", (unsigned long long)sim->now_ms);
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

static void violated(Sim *sim, const char *rule) {
    if (!sim->violation)
        sim->violation = rule;
    say(sim, "VIOLATION: %s", rule);
}

/* ---- tiles: runs of bytes that tell which they are ---- */

static int64_t length_of(const Sim *sim, int operand) {
    return sim->operands[operand].size[0];
}

static uint8_t byte_of(int operand, int64_t tile, int64_t i) {
    return (uint8_t)(i * 7 + tile * 31 + operand * 101 + (i >> 9));
}

static void load(Sim *sim, int operand, int64_t tile, uint8_t *rows) {
    for (int64_t i = 0; i < length_of(sim, operand); i++)
        rows[i] = byte_of(operand, tile, i);
    sim->loads[operand][tile]++;
}

static TileView view_of(const Sim *sim, int operand, uint8_t *rows) {
    int64_t length = length_of(sim, operand);
    return (TileView){.rows = rows, .pitch = length, .rank = 1, .element = 1, .extent = {length, 1, 1, 1}};
}

static void want_ends(Sim *sim, Want *want) {
    if (want->state == WANT_DONE)
        violated(sim, "a tile arrived twice");
    if (!sim->broken && !sim->lossy && sim->now_ms - want->begun_ms >= TRANSFER_RETRY_MS)
        violated(sim, "a tile came late though nothing was broken");
    want->state = WANT_DONE;
    for (int64_t i = 0; i < length_of(sim, want->operand); i++)
        if (want->rows[i] != byte_of(want->operand, want->tile, i)) {
            violated(sim, "a tile arrived with other bytes");
            break;
        }
    free(want->rows);
    want->rows = NULL;
}

/* ---- the network ---- */

static void put(Sim *sim, Frame frame) {
    bool well = sim->now_ms >= sim->heal_ms;
    int copies = !well && draw(100) < sim->lose ? 0 : !well && draw(100) < sim->repeat ? 2 : 1;
    uint64_t *last = &sim->last_ms[frame.from][frame.to][frame.answer];
    for (int i = 0; i < copies; i++) {
        if (sim->frame_count == MAX_FRAMES) {
            violated(sim, "more frames on their way than credit allows");
            return;
        }
        Frame *copy = &sim->frames[sim->frame_count++];
        *copy = frame;
        copy->at_ms = sim->now_ms + 1 + (well ? 0 : draw(sim->delay_ms + 1));
        if (copy->at_ms < *last)
            copy->at_ms = *last;
        *last = copy->at_ms;
        if (frame.length == 0)
            continue;
        copy->bulk = malloc(frame.length);
        if (!copy->bulk)
            abort();
        memcpy(copy->bulk, frame.bulk, frame.length);
        if (!well && draw(100) < sim->damage)
            copy->bulk[draw(frame.length)] ^= 0x40;
    }
}

/* ---- what a pod passes on ---- */

/* From its home, where who passes it on is not to be asked. */
static bool start_fetch(Sim *sim, Node *node, int operand, int64_t tile, FetchRequest request) {
    request.tensor = (uint32_t)operand;
    request.home = (uint32_t)shelf_home(node->shelf, operand, tile);
    request.peer = (uint32_t)shelf_source(node->shelf, operand, tile);
    request.region.extent[0] = length_of(sim, operand);
    for (int k = 1; k < PHB_MAX_RANK; k++)
        request.region.extent[k] = 1;
    tile_coordinates(&sim->problem, operand, tile, request.tile);
    if (fetch_start(node->fetches, &request, sim->now_ms))
        return true;
    bool other = request.peer != request.home;
    request.peer = request.home;
    return other && fetch_start(node->fetches, &request, sim->now_ms);
}

static void load_shelf(Sim *sim, Node *node, int64_t place) {
    int operand;
    int64_t tile;
    void *rows;
    shelf_tile(node->shelf, place, &operand, &tile, &rows);
    memset(rows, 0, (size_t)length_of(sim, operand)); /* as a halo is read */
    node->loads[node->load_count++] = (Load){place, sim->now_ms + 1 + draw(node->load_ms)};
}

static void begin_passing_on(Sim *sim, int index) {
    Node *node = &sim->nodes[index];
    int64_t place, tile;
    while (shelf_next(node->shelf, SHELF_BY_FETCH, &place)) {
        int operand;
        void *rows;
        shelf_tile(node->shelf, place, &operand, &tile, &rows);
        FetchRequest request = {.tag = PASSED_ON + (uint64_t)place, .passed_on = true, .place = place, .into = view_of(sim, operand, rows)};
        if (!start_fetch(sim, node, operand, tile, request))
            load_shelf(sim, node, place);
    }
}

/* A tile has come to the shelf. */
static void shelve(Sim *sim, Node *node, int64_t place) {
    int operand;
    int64_t tile;
    void *rows;
    uint32_t waiter;
    shelf_tile(node->shelf, place, &operand, &tile, &rows);
    TileView view = view_of(sim, operand, rows);
    if (shelf_ended(node->shelf, place, true, &waiter)) {
        Want *want = &node->wants[waiter];
        if (want->state != WANT_SHELVED || want->tile != tile || want->operand != operand)
            violated(sim, "a tile came for one that does not wait for it");
        memcpy(want->rows, rows, (size_t)length_of(sim, operand));
        want_ends(sim, want);
    }
    serve_ready(node->serve, place, &view);
}

/* ---- frames ---- */

static void take_fetch(Sim *sim, Node *node, const Frame *frame) {
    const Fetch *fetch = &frame->fetch;
    uint64_t connection = (uint64_t)frame->from + 1;
    int64_t place, tile = tile_number(&sim->problem, (int)fetch->tensor, fetch->tile);
    ShelfState state = shelf_want(node->shelf, (int)fetch->tensor, tile, &place);
    sim->sent[frame->to][fetch->tensor][tile] |= 1U << frame->from;
    begin_passing_on(sim, frame->to);
    if (state == SHELF_COMING && !shelf_promises(node->shelf, place)) {
        serve_fetch(node->serve, connection, fetch, NULL, FETCH_GONE, sim->now_ms);
        return;
    }
    switch (state) {
    case SHELF_HERE: {
        int operand;
        void *rows;
        shelf_tile(node->shelf, place, &operand, &tile, &rows);
        TileView view = view_of(sim, operand, rows);
        serve_fetch(node->serve, connection, fetch, &view, FETCH_GONE, sim->now_ms);
        break;
    }
    case SHELF_COMING:
        serve_await(node->serve, connection, fetch, place, sim->now_ms);
        break;
    default:
        if (!sim->broken)
            violated(sim, "a pod asks one that neither is the tile's home nor passes it on");
        serve_fetch(node->serve, connection, fetch, NULL, FETCH_GONE, sim->now_ms);
    }
}

static void arrive(Sim *sim, const Frame *frame) {
    Node *node = &sim->nodes[frame->to];
    if (!node->alive)
        return;
    if (frame->answer)
        fetch_heard(node->fetches, (uint32_t)frame->from, sim->now_ms);
    if (frame->type == WIRE_FETCH)
        take_fetch(sim, node, frame);
    else if (frame->type == WIRE_CREDIT)
        serve_credit(node->serve, (uint64_t)frame->from + 1, &frame->credit, sim->now_ms);
    else if (frame->type == WIRE_CHUNK)
        fetch_chunk(node->fetches, (uint32_t)frame->from, &frame->chunk, frame->bulk, frame->length, sim->now_ms);
    else
        fetch_refused(node->fetches, (uint32_t)frame->from, &frame->refused, sim->now_ms);
}

static void arrive_all(Sim *sim) {
    int left = 0, count = sim->frame_count;
    for (int i = 0; i < count; i++) {
        Frame frame = sim->frames[i];
        if (frame.at_ms > sim->now_ms) {
            sim->frames[left++] = frame;
            continue;
        }
        arrive(sim, &frame);
        free(frame.bulk);
    }
    sim->frame_count = left;
}

/* ---- a pod's shell ---- */

static void begin_want(Sim *sim, int index, Want *want) {
    Node *node = &sim->nodes[index];
    int64_t place;
    want->rows = malloc((size_t)length_of(sim, want->operand));
    if (!want->rows)
        abort();
    memset(want->rows, 0xEE, (size_t)length_of(sim, want->operand));
    want->begun_ms = sim->now_ms;
    want->loaded_ms = sim->now_ms + 1 + draw(node->load_ms);
    want->state = WANT_LOADING;
    switch (shelf_want(node->shelf, want->operand, want->tile, &place)) {
    case SHELF_HERE: {
        int operand;
        int64_t tile;
        void *rows;
        shelf_tile(node->shelf, place, &operand, &tile, &rows);
        memcpy(want->rows, rows, (size_t)length_of(sim, operand));
        want_ends(sim, want);
        break;
    }
    case SHELF_COMING:
        want->state = WANT_SHELVED;
        shelf_await(node->shelf, place, (uint32_t)(want - node->wants));
        begin_passing_on(sim, index);
        break;
    default: {
        FetchRequest request = {.tag = (uint64_t)(want - node->wants), .into = view_of(sim, want->operand, want->rows)};
        if (start_fetch(sim, node, want->operand, want->tile, request))
            want->state = WANT_FETCHING;
    }
    }
}

static void run_loads(Sim *sim, Node *node) {
    int64_t place;
    while (shelf_next(node->shelf, SHELF_BY_LOAD, &place)) {
        if (node->load_count >= SHELF_LANES) {
            violated(sim, "more loads at once than there may be");
            return;
        }
        load_shelf(sim, node, place);
    }
    for (int i = 0; i < node->load_count; i++) {
        Load ended = node->loads[i];
        if (ended.ends_ms > sim->now_ms)
            continue;
        node->loads[i--] = node->loads[--node->load_count];
        int operand;
        int64_t tile;
        void *rows;
        shelf_tile(node->shelf, ended.place, &operand, &tile, &rows);
        load(sim, operand, tile, rows);
        shelve(sim, node, ended.place);
    }
}

static void fetch_elsewhere(Sim *sim, Node *node, const FetchAction *action) {
    FetchRequest request = action->request;
    request.peer = request.home;
    if (action->peer != request.home && fetch_start(node->fetches, &request, sim->now_ms))
        return;
    if (request.passed_on) {
        serve_grow(node->serve, request.place, &request.into, 0);
        load_shelf(sim, node, request.place);
        return;
    }
    node->wants[action->tag].state = WANT_LOADING;
    node->wants[action->tag].loaded_ms = sim->now_ms + 1 + draw(node->load_ms);
}

static void run_fetches(Sim *sim, int index) {
    Node *node = &sim->nodes[index];
    FetchAction action;
    fetch_tick(node->fetches, sim->now_ms);
    while (fetch_next(node->fetches, &action)) {
        Frame frame = {.from = index, .to = (int)action.peer, .type = WIRE_FETCH, .fetch = action.fetch, .credit = action.credit};
        switch (action.kind) {
        case FETCH_SEND_CREDIT:
            frame.type = WIRE_CREDIT;
            /* fall through */
        case FETCH_SEND_FETCH:
            put(sim, frame);
            break;
        case FETCH_GREW:
            serve_grow(node->serve, action.request.place, &action.request.into, action.request.got);
            break;
        case FETCH_DONE:
            if (action.tag >= PASSED_ON)
                shelve(sim, node, action.request.place);
            else
                want_ends(sim, &node->wants[action.tag]);
            break;
        case FETCH_FAILED:
            say(sim, "pod %d: from %u: %s", index, action.peer, action.why);
            if (!sim->broken)
                violated(sim, "a fetch failed though nothing was broken");
            fetch_elsewhere(sim, node, &action);
            break;
        }
    }
}

static void run_serve(Sim *sim, int index) {
    static uint8_t packed[WIRE_CHUNK_BYTES];
    Node *node = &sim->nodes[index];
    ServeAction action;
    serve_tick(node->serve, sim->now_ms);
    while (serve_next(node->serve, &action)) {
        Frame frame = {.from = index, .to = (int)action.connection - 1, .answer = true, .type = WIRE_FETCH_REFUSED};
        if (action.kind == SERVE_CHUNK) {
            tile_pack(&action.tile, &action.region, action.offset, action.length, packed);
            frame.type = WIRE_CHUNK;
            frame.chunk = (Chunk){.transfer = action.transfer, .offset = action.offset, .total = action.total};
            frame.chunk.hash = XXH3_64bits(packed, action.length);
            frame.bulk = packed;
            frame.length = action.length;
        } else {
            frame.refused = (FetchRefused){.transfer = action.transfer, .code = (uint16_t)action.code};
        }
        put(sim, frame);
    }
}

/* A tile is on its way to one slot at a time. */
static bool is_under_way(const Node *node, const Want *want) {
    for (const Want *before = node->wants; before < want; before++)
        if (before->operand == want->operand && before->tile == want->tile && before->state != WANT_DONE)
            return true;
    return false;
}

/* True: it has all that it wants, or is dead. */
static bool run_node(Sim *sim, int index) {
    Node *node = &sim->nodes[index];
    if (!node->alive || sim->now_ms >= node->dies_ms) {
        if (node->alive)
            say(sim, "pod %d dies", index);
        node->alive = false;
        return true;
    }
    int running = 0;
    bool done = true;
    for (int w = 0; w < node->next; w++) {
        Want *want = &node->wants[w];
        if (want->state == WANT_LOADING && want->loaded_ms <= sim->now_ms) {
            load(sim, want->operand, want->tile, want->rows);
            want_ends(sim, want);
        }
        running += want->state != WANT_DONE;
    }
    while (sim->now_ms >= node->starts_ms && node->next < node->want_count && running < WINDOW && !is_under_way(node, &node->wants[node->next])) {
        begin_want(sim, index, &node->wants[node->next]);
        running += node->wants[node->next++].state != WANT_DONE;
    }
    run_loads(sim, node);
    run_fetches(sim, index);
    run_serve(sim, index);
    done = node->next == node->want_count && running == 0;
    return done;
}

/* ---- one schedule ---- */

/* Two operands of a grid: one cut along y, one along x, as a product's factors are; both walked by a loop. */
static void make_problem(Sim *sim, int nodes) {
    Problem *problem = &sim->problem;
    sim->kernel.tensor_count = OPERANDS;
    problem->kernel = &sim->kernel;
    problem->operands = sim->operands;
    problem->operand_count = OPERANDS;
    for (int a = 0; a < 3; a++)
        problem->supers[a] = a < 2 ? 1 + (int64_t)draw(nodes > 5 ? 8 : 5) : 1;
    problem->units = problem->supers[0] * problem->supers[1];
    problem->chunks[0] = 1 + (int64_t)draw(4);
    for (int t = 0; t < OPERANDS; t++) {
        Operand *operand = &sim->operands[t];
        int axis = 1 - t;
        *operand = (Operand){.load = true, .rank = 1, .element = 1, .loop = 0, .sweeps = 1};
        operand->stride[CHUNK] = 1;
        operand->stride[axis] = problem->chunks[0];
        operand->count = problem->chunks[0] * problem->supers[axis];
        operand->size[0] = draw(100) < 8 ? (int64_t)WIRE_CHUNK_BYTES * 2 + 100 : 1 + (int64_t)draw(3000);
        operand->bytes = (operand->size[0] + PHB_BASE_ALIGN - 1) / PHB_BASE_ALIGN * PHB_BASE_ALIGN;
    }
    bool kept[OPERANDS] = {true, true};
    sim->plan = (Plan){.problem = problem,
        .memory = INT64_MAX / 2,
        .slots = sim->slots,
        .kept = kept,
        .fetched = sim->fetched,
        .trees = sim->trees,
        .shelf = sim->shelf};
    sim->placement = placement_new(problem, draw(2) ? PLACE_BLOCK : PLACE_ROUND_ROBIN, nodes);
    if (!plan_fetch(&sim->plan, sim->placement, 3))
        violated(sim, "there is no room for shelves");
    sim->plan.kept = NULL;
}

static void make_node(Sim *sim, int index, int homes) {
    Node *node = &sim->nodes[index];
    node->alive = true;
    node->dies_ms = UINT64_MAX;
    node->starts_ms = draw(500);
    node->load_ms = 1 + draw(60);
    node->memory = aligned_alloc(PHB_BASE_ALIGN, (size_t)sim->plan.shelf_bytes);
    if (!node->memory)
        abort();
    node->shelf = shelf_new(&sim->plan, sim->placement, index, node->memory);
    node->serve = serve_new();
    node->fetches = fetch_new(WINDOW + SHELF_FETCHES, (uint32_t)homes);
    for (int64_t unit = 0; unit < sim->problem.units; unit++) {
        int64_t at[COORDINATES];
        unit_coordinates(&sim->problem, unit, at);
        if (index < homes ? placement_node(sim->placement, at) != index : draw(3) != 0) /* late: anything */
            continue;
        for (at[CHUNK] = 0; at[CHUNK] < sim->problem.chunks[0]; at[CHUNK]++)
            for (int t = 0; t < OPERANDS && node->want_count < MAX_WANTS; t++) {
                int64_t tile = tile_number(&sim->problem, t, at);
                bool wanted = false;
                for (int w = 0; w < node->want_count; w++)
                    wanted |= node->wants[w].operand == t && node->wants[w].tile == tile;
                if (!wanted || draw(4) == 0) /* some come back after they were displaced */
                    node->wants[node->want_count++] = (Want){.operand = t, .tile = tile};
            }
    }
}

static void break_things(Sim *sim, int homes) {
    if (draw(4) == 0) {
        sim->lossy = true;
        sim->lose = 2;
        sim->heal_ms = UINT64_MAX;
        return;
    }
    sim->broken = true;
    sim->lose = (unsigned)draw(30);
    sim->repeat = (unsigned)draw(30);
    sim->damage = (unsigned)draw(20);
    sim->delay_ms = draw(draw(4) ? 100 : 3000);
    sim->heal_ms = draw(60000);
    if (draw(3) == 0)
        sim->nodes[draw((uint64_t)homes)].dies_ms = draw(2000);
    if (draw(4) == 0)
        sim->nodes[draw((uint64_t)homes)].load_ms = 1 + draw(30000);
}

static void check_calm(Sim *sim) {
    for (int t = 0; t < OPERANDS; t++)
        for (int64_t tile = 0; tile < sim->operands[t].count; tile++)
            if (sim->loads[t][tile] > 1)
                violated(sim, "a tile was loaded twice though nothing was broken");
    unsigned homes = (1U << sim->placement->nodes) - 1; /* without who came late */
    for (int n = 0; n < sim->node_count; n++)
        for (int t = 0; t < OPERANDS; t++)
            for (int64_t tile = 0; tile < sim->operands[t].count; tile++)
                if (__builtin_popcount(sim->sent[n][t][tile] & homes) > 2)
                    violated(sim, "a pod sends a tile to more than two others");
}

static void hang(Sim *sim) {
    static const char *const states[] = {"not begun", "fetched", "loaded from its file", "loaded to the shelf"};
    for (int n = 0; n < sim->node_count; n++)
        for (int w = 0; w < sim->nodes[n].want_count && sim->nodes[n].alive; w++) {
            const Want *want = &sim->nodes[n].wants[w];
            if (want->state != WANT_DONE)
                say(sim, "pod %d: tile %lld of %d is %s", n, (long long)want->tile, want->operand, states[want->state]);
        }
    violated(sim, "a pod waits for a tile for ever");
}

static const char *run_seed(uint64_t seed, bool verbose) {
    Sim *sim = calloc(1, sizeof *sim);
    if (!sim)
        abort();
    random_state = seed * 0x632be59bd9b4e019u + 1;
    sim->verbose = verbose;
    int homes = 1 + (int)draw(draw(5) ? 5 : MAX_NODES);
    sim->node_count = homes + (draw(4) == 0);
    make_problem(sim, homes);
    for (int n = 0; n < sim->node_count; n++)
        make_node(sim, n, homes);
    if (draw(3))
        break_things(sim, homes);
    for (bool done = false; !done && !sim->violation; sim->now_ms += STEP_MS) {
        arrive_all(sim);
        done = true;
        for (int n = 0; n < sim->node_count; n++)
            done &= run_node(sim, n);
        if (sim->now_ms > END_MS)
            hang(sim);
    }
    if (!sim->broken)
        check_calm(sim);
    const char *violation = sim->violation;
    for (int n = 0; n < sim->node_count; n++) {
        Node *node = &sim->nodes[n];
        for (int w = 0; w < node->want_count; w++)
            free(node->wants[w].rows);
        shelf_free(node->shelf);
        serve_free(node->serve);
        fetch_free(node->fetches);
        free(node->memory);
    }
    for (int i = 0; i < sim->frame_count; i++)
        free(sim->frames[i].bulk);
    for (int t = 0; t < OPERANDS; t++)
        readers_free(sim->trees[t]);
    placement_free(sim->placement);
    free(sim);
    return violation;
}

int main(int argc, char **argv) {
    uint64_t first = 0, count = 1000, failures = 0;
    bool verbose = false, stops = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            first = strtoull(argv[++i], NULL, 0), count = 1;
        else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
            count = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--first") == 0 && i + 1 < argc)
            first = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--verbose") == 0)
            verbose = true;
        else if (strcmp(argv[i], "--until-violated") == 0)
            stops = true;
        else {
            fprintf(stderr, "usage: tile_sim [--seed N | --seeds N [--first N] [--until-violated]] [--verbose]\n");
            return 2;
        }
    }
    for (uint64_t seed = first; seed < first + count && !(stops && failures > 0); seed++) {
        const char *violation = run_seed(seed, verbose);
        if (violation && failures++ == 0)
            printf("seed %llu: %s\n  replay: tile_sim --seed %llu --verbose\n", (unsigned long long)seed, violation, (unsigned long long)seed);
    }
    printf("%llu schedules, %llu violations\n", (unsigned long long)count, (unsigned long long)failures);
    return failures != 0;
}
