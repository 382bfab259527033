/* --plan --format=svg: what each node does and when, as the model has it, drawn as a trace is. A node's storage, link and processors work side by
 * side; each of them, and each step of a node, waits for the ones before, and a round for the round before. */
#include "runtime/sched/plan_view.h"

#include "runtime/trace.h"

#include <stdlib.h>

/* Of one node, in seconds. */
typedef struct NodeClock {
    double busy[TRACE_KINDS]; /* until when it does things of a kind */
    double *ended;            /* when steps were over, by their number in the round, as many as are in flight */
    int64_t steps;            /* of the round, before the one at hand */
    double loaded, computed;  /* when the tiles of the step at hand are there, and its leaf has ended */
} NodeClock;

typedef struct Drawing {
    const Course *course;
    int64_t round;
    double begun, ended; /* of the round */
    NodeClock *clocks;   /* by node */
    TraceLog *logs;
} Drawing;

static double greater(double a, double b) {
    return a > b ? a : b;
}

/* What lives in pods is copied. TRACE_KINDS: it takes no time. */
static TraceKind kind_of(const Drawing *drawing, const Instruction *instruction) {
    switch (instruction->kind) {
    case INSTRUCTION_LOAD:
        return round_use(drawing->course, drawing->round, instruction->operand).from_pods ? TRACE_COPY : TRACE_LOAD;
    case INSTRUCTION_FETCH:
        return TRACE_FETCH;
    case INSTRUCTION_COPY:
        return TRACE_COPY;
    case INSTRUCTION_COMPUTE:
        return TRACE_COMPUTE;
    case INSTRUCTION_STORE:
        return round_use(drawing->course, drawing->round, instruction->operand).to_file ? TRACE_STORE : TRACE_COPY;
    default:
        return TRACE_KINDS;
    }
}

static double compute_time(const PlanView *view) {
    const Model *model = &view->model;
    const Step *step = &view->code.step;
    double rate = model->stage_flops[stage_rate(step->stage)];
    return model->launch + step_work(view->plan->problem, step) / (rate > 0 ? rate : model->leaf_flops);
}

static double move_time(const PlanView *view, TraceKind kind, const Instruction *instruction, int64_t *bytes) {
    const Model *model = &view->model;
    const Operand *operand = &view->plan->problem->operands[instruction->operand];
    Region region;
    tile_region(view->plan->problem, &view->code.step, instruction->operand, &region);
    region_clip(operand, &region);
    *bytes = region_bytes(operand, &region);
    if (kind == TRACE_FETCH)
        return model->link_bw > 0 ? (double)*bytes / model->link_bw : 0;
    if (kind == TRACE_COPY)
        return (double)*bytes / (model->fresh_bw > 0 ? model->fresh_bw : model->read_bw);
    return (double)*bytes / (kind == TRACE_STORE ? model->write_bw : model->read_bw) + (double)region_runs(operand, &region) * model->call;
}

/* A step's tiles come, its leaf runs, then what it wrote goes. Its first tile comes when the step that had its place in flight is over. */
static void draw_instruction(PlanView *view, int64_t node, const Instruction *instruction, void *context) {
    Drawing *drawing = context;
    NodeClock *clock = &drawing->clocks[node];
    const Step *step = &view->code.step;
    int window = view->plan->window;
    TraceKind kind = kind_of(drawing, instruction);
    if (kind == TRACE_KINDS)
        return;
    int64_t bytes = 0;
    double took = kind == TRACE_COMPUTE ? compute_time(view) : move_time(view, kind, instruction, &bytes);
    double after = kind == TRACE_COMPUTE                    ? clock->loaded
                   : instruction->kind == INSTRUCTION_STORE ? clock->computed
                                                            : clock->ended[clock->steps % window];
    double begins = greater(greater(drawing->begun, clock->busy[kind]), after), ends = begins + took;
    clock->busy[kind] = ends;
    drawing->ended = greater(drawing->ended, ends);
    WireEvent event = {.kind = (uint8_t)kind, .begun_ns = (uint64_t)(begins * 1e9), .ended_ns = (uint64_t)(ends * 1e9), .bytes = (uint64_t)bytes};
    if (kind == TRACE_COMPUTE) {
        event.operand = (uint32_t)step_code(view->plan->problem, step);
        event.tile = (uint64_t)step->unit;
        event.chunk = (uint64_t)step->at[CHUNK];
        clock->computed = ends;
        clock->loaded = 0;
        clock->ended[clock->steps++ % window] = ends;
    } else {
        event.operand = (uint32_t)job_tensor(drawing->course->job, course_step(drawing->course, drawing->round), instruction->operand);
        event.tile = (uint64_t)instruction->tile;
        double *waited = instruction->kind == INSTRUCTION_STORE ? &clock->ended[(clock->steps - 1) % window] : &clock->loaded;
        *waited = greater(*waited, ends);
    }
    trace_add(&drawing->logs[node], &event);
}

static void draw_round(Drawing *drawing, PlanView *view) {
    drawing->begun = drawing->ended;
    for (int64_t node = 0; node < view->placement->nodes; node++) {
        NodeClock *clock = &drawing->clocks[node];
        free(clock->ended);
        clock->ended = new_zeroed((size_t)view->plan->window, sizeof *clock->ended);
        clock->steps = 0;
        clock->loaded = clock->computed = 0;
        plan_view_walk(view, node, draw_instruction, drawing);
    }
}

void plan_draw_svg(const Course *course, PlanView *views, FILE *out) {
    size_t nodes = (size_t)views[0].placement->nodes;
    Drawing drawing = {.course = course};
    drawing.clocks = new_zeroed(nodes, sizeof *drawing.clocks);
    drawing.logs = new_zeroed(nodes, sizeof *drawing.logs);
    TracePod *pods = new_zeroed(nodes, sizeof *pods);
    for (; drawing.round < course->rounds; drawing.round++)
        draw_round(&drawing, &views[course_step(course, drawing.round)]);
    for (size_t n = 0; n < nodes; n++)
        pods[n] = (TracePod){format_text("node %zu", n), &drawing.logs[n]};
    trace_sort(pods, nodes);
    trace_draw(out, course->job->kernel, pods, nodes);
    for (size_t n = 0; n < nodes; n++) {
        free((char *)pods[n].name);
        free(drawing.clocks[n].ended);
        trace_fini(&drawing.logs[n]);
    }
    free(pods);
    free(drawing.logs);
    free(drawing.clocks);
}
