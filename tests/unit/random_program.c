#include "tests/unit/random_program.h"
#include "tests/unit/job_files.h"
#include "tests/unit/random_job.h"

#include <stdlib.h>
#include <string.h>

/* Dims: D0 D1 D2, extents of the grid axes; B0 B1 B2, what cuts them; L0 L1, extents of the cluster loops; S0 S1, what cuts them; W0..W3, extents of
 * whole axes. */
enum { DIM_D = 0, DIM_B = 3, DIM_L = 6, DIM_S = 8, DIM_W = 10 };

/* Tensors: two inputs; an output on the grid's axes; one that a loop walks, too. */
enum { IN_A, IN_B, OUT, OUT_LOOP };

static const char *const tensor_names[PROGRAM_TENSORS] = {"a", "b", "out", "chunks"};
static const char *const state_names[PROGRAM_STATES] = {"s", "t"};
static const char *const dim_names[PROGRAM_DIMS] = {"D0", "D1", "D2", "B0", "B1", "B2", "L0", "L1", "S0", "S1", "W0", "W1", "W2", "W3"};

#define DIM_NODE(d)                                                                                                                                  \
    { PHB_EXPR_DIM, d, 0 }
static const PhbExprNode dim_nodes[PROGRAM_DIMS] = {DIM_NODE(0), DIM_NODE(1), DIM_NODE(2), DIM_NODE(3), DIM_NODE(4), DIM_NODE(5), DIM_NODE(6),
    DIM_NODE(7), DIM_NODE(8), DIM_NODE(9), DIM_NODE(10), DIM_NODE(11), DIM_NODE(12), DIM_NODE(13)};
static const PhbExprNode ceil_nodes[3][3] = {
    {DIM_NODE(0), DIM_NODE(3), {PHB_EXPR_CEILDIV, 0, 0}},
    {DIM_NODE(1), DIM_NODE(4), {PHB_EXPR_CEILDIV, 0, 0}},
    {DIM_NODE(2), DIM_NODE(5), {PHB_EXPR_CEILDIV, 0, 0}},
};

static PhbExpr dim_expr(int dim) {
    return (PhbExpr){&dim_nodes[dim], 1, dim_names[dim]};
}

static int64_t extent_of(const RandomProgram *program, const PhbTensor *tensor, int k) {
    return program->job.dims[tensor->axes[k].extent.nodes->index];
}

static int64_t halo_of(const PhbTensor *tensor, int k) {
    return tensor->axes[k].halo.count > 0 ? tensor->axes[k].halo.nodes->value : 0;
}

static uint64_t cut(uint64_t value, int dtype) {
    int bits = 8 * dtype_size(dtype);
    return bits == 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

/* ---- what a stage computes, of one CTA's block: over whole tensors, or over what a launch is given ---- */

typedef struct View View;
struct View {
    uint64_t (*get)(const View *view, int tensor, const int64_t *index); /* by place in the whole tensor; 0 beyond it */
    void (*set)(const View *view, int tensor, const int64_t *index, uint64_t value);
    void *(*state)(const View *view, int state, int64_t element);
    const RandomProgram *program;
    const PhbLaunch *launch;
    int64_t cta;
    uint64_t *state_values[PROGRAM_STATES];
};

typedef struct Block {
    int64_t low[3], high[3]; /* of grid axes, in the whole problem */
    int64_t chunk_low, chunk_high;
} Block;

/* The next choice of counters below their limits; false after the last. */
static bool next_index(int rank, int64_t *index, const int64_t *limit) {
    int k = rank - 1;
    while (k >= 0 && ++index[k] == limit[k])
        index[k--] = 0;
    return k >= 0;
}

/* The sum over the whole axes, and over the halo, of what place g, k meets of a tensor. */
static uint64_t sum_at(const View *view, int t, const int64_t *g, int64_t k) {
    const PhbTensor *tensor = &view->program->tensors[t];
    int64_t limit[2 * PHB_MAX_RANK], counter[2 * PHB_MAX_RANK] = {0};
    for (int a = 0; a < tensor->rank; a++) {
        limit[a] = tensor->axes[a].kind == PHB_AXIS_WHOLE ? extent_of(view->program, tensor, a) : 1;
        limit[tensor->rank + a] = halo_of(tensor, a) > 0 ? 3 : 1;
    }
    uint64_t sum = 0;
    do {
        int64_t index[PHB_MAX_RANK];
        uint64_t weight = 1;
        for (int a = 0; a < tensor->rank; a++) {
            const PhbAxis *axis = &tensor->axes[a];
            int64_t at = axis->kind == PHB_AXIS_WHOLE ? counter[a] : axis->kind == PHB_AXIS_GRID ? g[axis->index] : k;
            int64_t side = limit[tensor->rank + a] == 3 ? counter[tensor->rank + a] - 1 : 0;
            index[a] = at + side * halo_of(tensor, a);
            weight = weight * 7 + (uint64_t)(counter[a] + counter[tensor->rank + a]);
        }
        sum += weight * view->get(view, t, index);
    } while (next_index(2 * tensor->rank, counter, limit));
    return sum;
}

static void write_at(const View *view, int t, int mode, const int64_t *g, int64_t k, uint64_t x) {
    const PhbTensor *tensor = &view->program->tensors[t];
    int64_t limit[PHB_MAX_RANK], counter[PHB_MAX_RANK] = {0};
    for (int a = 0; a < tensor->rank; a++)
        limit[a] = tensor->axes[a].kind == PHB_AXIS_WHOLE ? extent_of(view->program, tensor, a) : 1;
    do {
        int64_t index[PHB_MAX_RANK];
        uint64_t value = x;
        for (int a = 0; a < tensor->rank; a++) {
            const PhbAxis *axis = &tensor->axes[a];
            index[a] = axis->kind == PHB_AXIS_WHOLE ? counter[a] : axis->kind == PHB_AXIS_GRID ? g[axis->index] : k;
            value += (uint64_t)(counter[a] * (a + 3));
        }
        if (mode == PHB_READ_WRITE)
            value += 29 * view->get(view, t, index);
        view->set(view, t, index, value);
    } while (next_index(tensor->rank, counter, limit));
}

static int64_t state_elements(const RandomProgram *program, int s) {
    return program->values[DIM_B] * program->states[s].columns.nodes->value;
}

static uint64_t state_get(const View *view, int s, int64_t element) {
    uint64_t value = 0;
    memcpy(&value, view->state(view, s, element), (size_t)dtype_size(view->program->states[s].dtype));
    return value;
}

static void state_set(const View *view, int s, int64_t element, uint64_t value) {
    memcpy(view->state(view, s, element), &value, (size_t)dtype_size(view->program->states[s].dtype));
}

static void compute_place(const View *view, int stage, const Block *block, const int64_t *g, int64_t k) {
    const RandomProgram *program = view->program;
    const int8_t *modes = program->modes[stage];
    int tensors = program->kernel.tensor_count;
    uint64_t x = 17 * ((uint64_t)stage + 1) + 5 * (uint64_t)k + program->job.scalars[0];
    int64_t local = 0;
    for (int a = 0; a < 3; a++) {
        x = x * 3 + (uint64_t)g[a];
        local = local * (block->high[a] - block->low[a]) + g[a] - block->low[a];
    }
    for (int t = 0; t < tensors; t++)
        if (modes[t] == PHB_READ)
            x += (2 * (uint64_t)t + 3) * sum_at(view, t, g, k);
    for (int s = 0; s < program->kernel.state_count; s++)
        if (modes[tensors + s] == PHB_READ || modes[tensors + s] == PHB_READ_WRITE)
            x += 7 * state_get(view, s, local % state_elements(program, s));
    for (int s = 0; s < program->kernel.state_count; s++)
        if (modes[tensors + s] == PHB_WRITE || modes[tensors + s] == PHB_READ_WRITE)
            state_set(view, s, local % state_elements(program, s), x + 31 * state_get(view, s, local % state_elements(program, s)));
    for (int t = 0; t < tensors; t++)
        if (modes[t] == PHB_WRITE || modes[t] == PHB_READ_WRITE)
            write_at(view, t, modes[t], g, k, x);
}

static void compute_block(const View *view, int stage, const Block *block) {
    const RandomProgram *program = view->program;
    for (int s = 0; s < program->kernel.state_count; s++)
        for (int64_t e = 0; program->modes[stage][program->kernel.tensor_count + s] == PHB_WRITE && e < state_elements(program, s); e++)
            state_set(view, s, e, 0);
    int64_t g[3];
    for (int64_t k = block->chunk_low; k < block->chunk_high; k++)
        for (g[2] = block->low[2]; g[2] < block->high[2]; g[2]++)
            for (g[1] = block->low[1]; g[1] < block->high[1]; g[1]++)
                for (g[0] = block->low[0]; g[0] < block->high[0]; g[0]++)
                    compute_place(view, stage, block, g, k);
}

/* ---- the leaf ---- */

static const RandomProgram *running;

static char *element_of(const View *view, int t, const int64_t *index) {
    const PhbTensorArg *arg = &view->launch->tensors[t];
    const PhbTensor *tensor = &view->program->tensors[t];
    int64_t row = 0, last = tensor->rank - 1;
    must(arg->base != NULL);
    for (int k = 0; k <= last; k++) {
        int64_t at = index[k] - arg->origin[k];
        must(at >= 0 && at < arg->extent[k] && arg->whole[k] == extent_of(view->program, tensor, k));
        row = k < last ? row * arg->extent[k] + at : row;
    }
    return (char *)arg->base + row * arg->pitch + (index[last] - arg->origin[last]) * dtype_size(tensor->dtype);
}

static uint64_t launch_get(const View *view, int t, const int64_t *index) {
    uint64_t value = 0;
    memcpy(&value, element_of(view, t, index), (size_t)dtype_size(view->program->tensors[t].dtype));
    return value;
}

static void launch_set(const View *view, int t, const int64_t *index, uint64_t value) {
    const int64_t *supers = view->launch->supers;
    value += view->program->leaky ? (uint64_t)(supers[0] + 3 * supers[1] + 5 * supers[2]) : 0;
    memcpy(element_of(view, t, index), &value, (size_t)dtype_size(view->program->tensors[t].dtype));
}

static void *launch_state(const View *view, int s, int64_t element) {
    const PhbTensorArg *arg = &view->launch->tensors[view->program->kernel.tensor_count + s];
    int64_t columns = view->program->states[s].columns.nodes->value, row = view->cta * arg->extent[1] + element / columns;
    must(arg->base != NULL && arg->extent[2] == columns && arg->extent[1] == view->program->values[DIM_B] && view->cta < arg->extent[0]);
    return (char *)arg->base + row * arg->pitch + element % columns * dtype_size(view->program->states[s].dtype);
}

/* Where the launch's region of a grid axis or of its loop lies in the whole problem: told by super and dims alone. */
static Block block_of(const RandomProgram *program, int stage, const PhbLaunch *launch, const int64_t *cta, int64_t chunk) {
    Block block = {.chunk_high = 1};
    for (int a = 0; a < 3; a++) {
        int64_t super = a < program->axes ? program->job.dims[DIM_B + a] : 1, tile = program->values[DIM_B + a];
        int64_t origin = launch->super[a] * super, end = origin + launch->dims[DIM_D + a];
        must(end <= program->job.dims[DIM_D + a] || a >= program->axes);
        block.low[a] = origin + cta[a] * tile;
        block.high[a] = block.low[a] + tile < end ? block.low[a] + tile : end;
    }
    int loop = program->stages[stage].loop;
    for (int l = 0; l < program->kernel.loop_count; l++)
        must(l == loop || launch->dims[DIM_L + l] == program->job.dims[DIM_L + l]);
    if (loop < 0)
        return block;
    block.chunk_low = chunk * program->job.dims[DIM_S + loop];
    block.chunk_high = block.chunk_low + launch->dims[DIM_L + loop];
    must(block.chunk_high <= program->job.dims[DIM_L + loop]);
    return block;
}

/* The chunk at hand, as a tensor that the loop walks tells it; without one, every chunk is computed as if the first were as long. */
static int64_t chunk_of(const RandomProgram *program, int stage, const PhbLaunch *launch) {
    int loop = program->stages[stage].loop;
    for (int t = 0; t < program->kernel.tensor_count; t++)
        for (int k = 0; k < program->tensors[t].rank; k++)
            if (program->tensors[t].axes[k].kind == PHB_AXIS_LOOP && program->tensors[t].axes[k].index == loop &&
                program->modes[stage][t] != PHB_UNUSED)
                return (launch->tensors[t].origin[k] + halo_of(&program->tensors[t], k)) / program->job.dims[DIM_S + loop];
    must(loop < 0);
    return 0;
}

static void run_stage(int stage, const PhbLaunch *launch, int64_t first, int64_t last, void *scratch) {
    memset(scratch, 0xA5, 64);
    View view = {.get = launch_get, .set = launch_set, .state = launch_state, .program = running, .launch = launch};
    for (int t = 0; t < running->kernel.tensor_count + running->kernel.state_count; t++)
        must((launch->tensors[t].base != NULL) == (running->modes[stage][t] != PHB_UNUSED));
    for (view.cta = first; view.cta < last; view.cta++) {
        int64_t cta[3] = {view.cta % launch->grid[0], view.cta / launch->grid[0] % launch->grid[1], view.cta / launch->grid[0] / launch->grid[1]};
        Block block = block_of(running, stage, launch, cta, chunk_of(running, stage, launch));
        compute_block(&view, stage, &block);
    }
}

#define STAGE_RUN(n)                                                                                                                                 \
    static void run##n(const PhbLaunch *launch, int64_t first, int64_t last, void *scratch) {                                                        \
        run_stage(n, launch, first, last, scratch);                                                                                                  \
    }
STAGE_RUN(0)
STAGE_RUN(1)
STAGE_RUN(2)
STAGE_RUN(3)
STAGE_RUN(4)
static PhbCtaRange *const runs[PROGRAM_STAGES] = {run0, run1, run2, run3, run4};

/* ---- the whole problem, plainly ---- */

static int64_t place_in(const View *view, int t, const int64_t *index) {
    const PhbTensor *tensor = &view->program->tensors[t];
    int64_t place = 0;
    for (int k = 0; k < tensor->rank; k++) {
        int64_t extent = extent_of(view->program, tensor, k);
        if (index[k] < 0 || index[k] >= extent)
            return -1;
        place = place * extent + index[k];
    }
    return place;
}

static uint64_t whole_get(const View *view, int t, const int64_t *index) {
    int64_t place = place_in(view, t, index);
    return place < 0 ? 0 : view->program->after[t][place];
}

static void whole_set(const View *view, int t, const int64_t *index, uint64_t value) {
    view->program->after[t][place_in(view, t, index)] = cut(value, view->program->tensors[t].dtype);
}

static void *whole_state(const View *view, int s, int64_t element) {
    return &view->state_values[s][element];
}

/* Every CTA of the one-node reading from its first stage to its last. */
static void compute_whole(RandomProgram *program) {
    View view = {.get = whole_get, .set = whole_set, .state = whole_state, .program = program};
    for (int s = 0; s < program->kernel.state_count; s++)
        view.state_values[s] = new_zeroed((size_t)state_elements(program, s), sizeof(uint64_t));
    int64_t cta[3] = {0, 0, 0}, grid[3];
    const int64_t *dims = program->job.dims;
    for (int a = 0; a < 3; a++)
        grid[a] = (dims[DIM_D + a] + program->values[DIM_B + a] - 1) / program->values[DIM_B + a];
    do {
        for (int stage = 0; stage < program->kernel.stage_count; stage++) {
            int loop = program->stages[stage].loop;
            Block block = {.chunk_high = loop < 0 ? 1 : dims[DIM_L + loop]};
            for (int a = 0; a < 3; a++) {
                block.low[a] = cta[a] * program->values[DIM_B + a];
                block.high[a] = block.low[a] + program->values[DIM_B + a];
                if (block.high[a] > dims[DIM_D + a])
                    block.high[a] = dims[DIM_D + a];
            }
            compute_block(&view, stage, &block);
        }
    } while (next_index(3, cta, grid));
    for (int s = 0; s < program->kernel.state_count; s++)
        free(view.state_values[s]);
}

/* ---- tables ---- */

static void make_dims(RandomProgram *program, uint64_t *state) {
    program->axes = (int)random_below(state, 4);
    for (int d = 0; d < PROGRAM_DIMS; d++)
        program->dims[d] = (PhbDim){.name = dim_names[d], .grid_axis = d < 3 ? d : -1, .loop = d == DIM_L || d == DIM_L + 1 ? d - DIM_L : -1};
    static const int searches[] = {DIM_B, DIM_B + 1, DIM_B + 2, DIM_S, DIM_S + 1};
    for (int i = 0; i < 5; i++) {
        int d = searches[i];
        bool cluster = d >= DIM_S || d - DIM_B < program->axes;
        program->values[d] = cluster ? 1 + random_below(state, 2) : 1;
        program->dims[d].is_search = 1;
        program->dims[d].leaf = &program->values[d];
        program->dims[d].leaf_count = 1;
        program->dims[d].cluster_count = cluster;
        program->dims[d].cluster = &program->job.dims[d];
    }
    for (int a = 0; a < 3; a++) {
        program->job.dims[DIM_D + a] = a < program->axes ? 1 + random_below(state, 11) : 1;
        program->kernel.grid[a] = (PhbGridAxis){.dim = -1};
        if (a < program->axes)
            program->kernel.grid[a] = (PhbGridAxis){DIM_B + a, dim_expr(DIM_D + a), {ceil_nodes[a], 3, "ceildiv(D, B)"}};
    }
    for (int l = 0; l < PROGRAM_LOOPS; l++) {
        program->job.dims[DIM_L + l] = 1 + random_below(state, 9);
        program->loops[l] = (PhbLoop){DIM_S + l, dim_expr(DIM_L + l)};
    }
    for (int w = 0; w < 4; w++)
        program->job.dims[DIM_W + w] = 1 + random_below(state, 4);
}

static void add_axis(PhbTensor *tensor, int kind, int index, int dim) {
    tensor->axes[tensor->rank++] = (PhbAxis){dim_expr(dim), kind, index, {0}};
}

static void shuffle_axes(PhbTensor *tensor, uint64_t *state) {
    for (int k = tensor->rank - 1; k > 0; k--) {
        int64_t other = random_below(state, k + 1);
        PhbAxis axis = tensor->axes[k];
        tensor->axes[k] = tensor->axes[other];
        tensor->axes[other] = axis;
    }
}

/* The loop that walks a tensor, or -1. */
static int loop_of(const PhbTensor *tensor) {
    for (int k = 0; k < tensor->rank; k++)
        if (tensor->axes[k].kind == PHB_AXIS_LOOP)
            return tensor->axes[k].index;
    return -1;
}

static void make_tensors(RandomProgram *program, uint64_t *state) {
    static const int dtypes[] = {PHB_U8, PHB_U16, PHB_U32, PHB_U64};
    for (int t = 0; t < program->kernel.tensor_count; t++) {
        PhbTensor *tensor = &program->tensors[t];
        bool output = t >= OUT;
        for (int a = 0; a < program->axes; a++)
            if (output || random_below(state, 2))
                add_axis(tensor, PHB_AXIS_GRID, a, DIM_D + a);
        if (t == OUT_LOOP)
            add_axis(tensor, PHB_AXIS_LOOP, 0, DIM_L);
        int64_t loop = random_below(state, 3);
        if (!output && loop < PROGRAM_LOOPS && tensor->rank < PHB_MAX_RANK)
            add_axis(tensor, PHB_AXIS_LOOP, (int)loop, DIM_L + (int)loop);
        while (tensor->rank < PHB_MAX_RANK && (tensor->rank == 0 || random_below(state, 3) == 0))
            add_axis(tensor, PHB_AXIS_WHOLE, 0, DIM_W + tensor->rank);
        shuffle_axes(tensor, state);
        tensor->name = tensor_names[t];
        tensor->dtype = dtypes[random_below(state, 4)];
        for (int k = 0; k < tensor->rank && !output; k++) {
            program->halos[t][k] = (PhbExprNode){PHB_EXPR_INT, 0, random_below(state, 3)};
            if (random_below(state, 3) == 0)
                tensor->axes[k].halo = (PhbExpr){&program->halos[t][k], 1, "w"};
        }
    }
}

static int random_mode(uint64_t *state, const int *modes, int count) {
    return modes[random_below(state, count)];
}

/* Inputs are read here and there. A state is first written by a stage outside of loops, an output at the latest by the last stage that may. */
static void make_modes(RandomProgram *program, uint64_t *state) {
    static const int reads[] = {PHB_UNUSED, PHB_READ}, any[] = {PHB_UNUSED, PHB_READ, PHB_READ_WRITE, PHB_WRITE};
    int tensors = program->kernel.tensor_count;
    for (int t = 0; t < tensors + program->kernel.state_count; t++) {
        int loop = t < tensors ? loop_of(&program->tensors[t]) : -1, last = -1, first_mode = PHB_UNUSED;
        bool written = false;
        for (int s = 0; s < program->kernel.stage_count; s++) {
            int8_t *mode = &program->modes[s][t];
            bool once = program->stages[s].loop < 0;
            *mode = PHB_UNUSED;
            if (loop >= 0 && program->stages[s].loop != loop)
                continue;
            if (t < OUT)
                *mode = (int8_t)random_mode(state, reads, 2);
            else if (t < tensors)
                *mode = (int8_t)random_mode(state, any, once || loop >= 0 ? 4 : 3);
            else if (written)
                *mode = (int8_t)random_mode(state, any, once ? 4 : 3);
            else if (once)
                *mode = random_below(state, 3) ? PHB_WRITE : PHB_UNUSED;
            written |= *mode == PHB_WRITE || *mode == PHB_READ_WRITE;
            last = s;
        }
        if (t >= OUT && t < tensors && !written && last >= 0)
            program->modes[last][t] = PHB_READ_WRITE;
        for (int s = program->kernel.stage_count - 1; s >= 0; s--)
            if (program->modes[s][t] != PHB_UNUSED)
                first_mode = program->modes[s][t];
        if (t < tensors)
            program->tensors[t].mode = t < OUT ? PHB_READ : first_mode == PHB_WRITE ? PHB_WRITE : PHB_READ_WRITE;
    }
}

/* Each loop's stage has a tensor that it walks, so that leaves know their place: input A serves where nothing else does. */
static bool loops_are_walked(const RandomProgram *program) {
    for (int s = 0; s < program->kernel.stage_count; s++) {
        bool walked = program->stages[s].loop < 0;
        for (int t = 0; t < program->kernel.tensor_count; t++)
            walked |= loop_of(&program->tensors[t]) == program->stages[s].loop && program->modes[s][t] != PHB_UNUSED;
        if (!walked)
            return false;
    }
    return true;
}

static void make_stages(RandomProgram *program, uint64_t *state) {
    PhbKernel *kernel = &program->kernel;
    kernel->stage_count = 1 + (int)random_below(state, PROGRAM_STAGES);
    kernel->state_count = (int)random_below(state, PROGRAM_STATES + 1);
    kernel->loop_count = PROGRAM_LOOPS;
    bool first_loop = false;
    for (int s = 0; s < kernel->stage_count; s++) {
        int64_t kind = random_below(state, 5);
        program->stages[s] = (PhbStage){.loop = kind < 2 ? -1 : kind < 4 ? 0 : 1, .modes = program->modes[s]};
        first_loop |= program->stages[s].loop == 0;
    }
    kernel->tensor_count = first_loop ? PROGRAM_TENSORS : PROGRAM_TENSORS - 1;
    for (int s = 0; s < kernel->state_count; s++) {
        program->columns[s] = (PhbExprNode){PHB_EXPR_INT, 0, 1 + random_below(state, 40)};
        program->states[s] =
            (PhbState){state_names[s], random_below(state, 2) ? PHB_U32 : PHB_U64, dim_expr(DIM_B), {&program->columns[s], 1, "c"}, .partial = 0};
    }
}

/* ---- data ---- */

static int64_t elements_of(const RandomProgram *program, int t) {
    int64_t count = 1;
    for (int k = 0; k < program->tensors[t].rank; k++)
        count *= extent_of(program, &program->tensors[t], k);
    return count;
}

static void make_data(RandomProgram *program, uint64_t *state) {
    for (int t = 0; t < program->kernel.tensor_count; t++) {
        int64_t count = elements_of(program, t);
        program->before[t] = new_zeroed((size_t)count, sizeof(uint64_t));
        program->after[t] = new_zeroed((size_t)count, sizeof(uint64_t));
        for (int64_t i = 0; i < count; i++)
            program->after[t][i] = program->before[t][i] = cut(random_next(state), program->tensors[t].dtype);
    }
    compute_whole(program);
}

static void make_files(RandomProgram *program) {
    for (int t = 0; t < program->kernel.tensor_count; t++) {
        const PhbTensor *tensor = &program->tensors[t];
        int64_t shape[PHB_MAX_RANK];
        for (int k = 0; k < tensor->rank; k++)
            shape[k] = extent_of(program, tensor, k);
        job_file_make(
            program->folder, tensor_names[t], tensor->mode, tensor->dtype, tensor->rank, shape, program->before[t], &program->job.tensors[t]);
    }
}

/* ---- the whole ---- */

/* Whether no halo is wider than the last super-tile along its axis, where there are several. */
static bool halos_fit(const RandomProgram *program) {
    for (int t = 0; t < program->kernel.tensor_count; t++)
        for (int k = 0; k < program->tensors[t].rank; k++) {
            const PhbAxis *axis = &program->tensors[t].axes[k];
            int dim = axis->kind == PHB_AXIS_GRID ? DIM_B + axis->index : axis->kind == PHB_AXIS_LOOP ? DIM_S + axis->index : -1;
            int64_t whole = extent_of(program, &program->tensors[t], k), super = dim < 0 ? whole : program->job.dims[dim];
            int64_t last = whole > super ? (whole - 1) % super + 1 : whole;
            if (dim >= 0 && whole > super && halo_of(&program->tensors[t], k) > last)
                return false;
        }
    return true;
}

void random_program_split(RandomProgram *program, uint64_t *state) {
    do {
        for (int d = 0; d < PROGRAM_DIMS; d++) {
            if (program->dims[d].cluster_count == 0)
                continue;
            int64_t whole = program->job.dims[d < DIM_S ? d - DIM_B + DIM_D : d - DIM_S + DIM_L];
            program->job.dims[d] = program->values[d] * (1 + random_below(state, 3));
            if (random_below(state, 6) == 0)
                program->job.dims[d] = whole + random_below(state, 3);
        }
    } while (!halos_fit(program));
}

RandomProgram *random_program_new(uint64_t seed, bool files) {
    static const PhbScalar scalar = {"scalar", PHB_U64};
    uint64_t state = seed;
    RandomProgram *program = new_zeroed(1, sizeof *program);
    PhbKernel *kernel = &program->kernel;
    Job *job = &program->job;
    job->dims = new_zeroed(PROGRAM_DIMS, sizeof(int64_t));
    job->leaf_values = new_zeroed(PROGRAM_DIMS, sizeof(int64_t));
    job->scalars = new_zeroed(1, sizeof(uint64_t));
    job->tensors = new_zeroed(PROGRAM_TENSORS, sizeof(TensorFile));
    job->scalars[0] = random_next(&state);
    make_dims(program, &state);
    do {
        memset(program->tensors, 0, sizeof program->tensors);
        make_stages(program, &state);
        make_tensors(program, &state);
        make_modes(program, &state);
    } while (!loops_are_walked(program));
    random_program_split(program, &state);
    make_data(program, &state);
    program->code = (PhbCpuCode){"native", runs};
    program->variant = (PhbVariant){.values = program->values, .scratch = 64, .cpu = &program->code, .cpu_count = 1};
    kernel->name = "staged";
    kernel->source = "staged.phb:1:1";
    kernel->dims = program->dims;
    kernel->dim_count = PROGRAM_DIMS;
    kernel->tensors = program->tensors;
    kernel->scalars = &scalar;
    kernel->scalar_count = 1;
    kernel->loops = program->loops;
    kernel->states = program->states;
    kernel->stages = program->stages;
    kernel->variants = &program->variant;
    kernel->variant_count = 1;
    for (int a = 0; a < 3; a++)
        kernel->cluster_dims[a] = 1;
    program->program = (PhbProgram){.abi_version = PHB_ABI_VERSION, .file = "staged.phb", .compiler = "hand", .kernels = kernel, .kernel_count = 1};
    job->program = &program->program;
    job->kernel = kernel;
    job->path = "job.json";
    running = program;
    if (files) {
        program->folder = job_folder_new();
        make_files(program);
    }
    return program;
}

void random_program_rewind(RandomProgram *program) {
    job_journal_remove(&program->job);
    for (int t = 0; t < program->kernel.tensor_count; t++)
        must(job_file_remove(program->folder, tensor_names[t], &program->job.tensors[t]));
    memset(program->job.tensors, 0, PROGRAM_TENSORS * sizeof(TensorFile));
    make_files(program);
}

const char *random_program_wrong(const RandomProgram *program) {
    for (int t = 0; t < program->kernel.tensor_count; t++)
        if (!job_file_is(program->folder, tensor_names[t], &program->job.tensors[t], program->after[t]))
            return tensor_names[t];
    return NULL;
}

bool random_program_free(RandomProgram *program) {
    bool clean = true;
    job_journal_remove(&program->job);
    for (int t = 0; t < program->kernel.tensor_count; t++) {
        free(program->before[t]);
        free(program->after[t]);
        if (program->folder != NULL)
            clean &= job_file_remove(program->folder, tensor_names[t], &program->job.tensors[t]);
    }
    if (program->folder != NULL)
        clean &= job_folder_remove(program->folder);
    free(program->job.dims);
    free(program->job.leaf_values);
    free(program->job.barred);
    free(program->job.scalars);
    free(program->job.tensors);
    free(program);
    return clean;
}
