/* --plan --format=dot: a frame for each node; in it a row for each unit of work, its leaf launches from left to right, with what is loaded on the
 * left and stored on the right; files outside, and dashed lines where a tile comes from a peer's. */
#include "runtime/sched/plan_view.h"

#include <inttypes.h>

static const char *const tensor_colours[] = {"#cfe2f3", "#d9ead3", "#fff2cc", "#ead1dc", "#d0e0e3", "#fce5cd", "#d9d2e9", "#f4cccc"};

static const char *colour_of(int operand) {
    return tensor_colours[operand % (int)(sizeof tensor_colours / sizeof tensor_colours[0])];
}

static bool is_shelved(const PlanView *view, int64_t node, int operand, int64_t tile) {
    int64_t at[COORDINATES];
    tile_coordinates(view->plan->problem, operand, tile, at);
    return tile_is_shelved(view->plan, view->placement, node, operand, at);
}

static void print_shelf_name(FILE *out, int64_t node, int operand, int64_t tile) {
    fprintf(out, "h%" PRId64 "_%d_%" PRId64, node, operand, tile);
}

/* A tile in a node's memory: by the use that brought it, or where it is on the node's shelf, once for all of them. */
static void print_tile_name(const PlanView *view, int64_t node, int operand, const TileUse *use) {
    if (is_shelved(view, node, operand, use->tile))
        print_shelf_name(view->out, node, operand, use->tile);
    else
        fprintf(view->out, "t%" PRId64 "_%d_%" PRId64 "_%" PRId64, node, operand, use->slot, use->made);
}

static void print_step_name(FILE *out, const Step *step) {
    fprintf(out, "u%" PRId64 "_%" PRId64, step->unit, step->number);
}

static void print_compute(PlanView *view, int64_t node) {
    const Problem *problem = view->plan->problem;
    const PhbKernel *kernel = problem->kernel;
    const StepCode *code = &view->code;
    FILE *out = view->out;
    fputs("    ", out);
    print_step_name(out, &code->step);
    fprintf(out, " [shape=ellipse, fillcolor=white, label=\"%s (%" PRId64 ", %" PRId64 ", %" PRId64 ")", kernel->name, code->step.at[0],
        code->step.at[1], code->step.at[2]);
    if (kernel->stages[code->step.stage].loop >= 0)
        fprintf(out, "\\n%sstage %d, chunk %" PRId64,
            code->step.kind == STEP_STAGE ? "" : code->step.kind == STEP_CLEAR ? "a partial sum of " : "its sum is added: ", code->step.stage,
            code->step.at[CHUNK]);
    else if (kernel->stage_count > 1)
        fprintf(out, "\\nstage %d", code->step.stage);
    fputs("\"];\n", out);
    for (int t = 0; t < problem->operand_count; t++) {
        if (!code->uses[t].how.used || !problem->operands[t].load)
            continue;
        fputs("    ", out);
        print_tile_name(view, node, t, &code->uses[t]);
        fputs(" -> ", out);
        print_step_name(out, &code->step);
        fputs(";\n", out);
    }
    if (code->step.number == 0)
        return;
    Step before = step_find(problem, code->step.unit, code->step.number - 1);
    fputs("    ", out);
    print_step_name(out, &before);
    fputs(" -> ", out);
    print_step_name(out, &code->step);
    fputs(" [color=\"#444444\", penwidth=2];\n", out);
}

static bool is_move(const Instruction *instruction) {
    return instruction->kind == INSTRUCTION_LOAD || instruction->kind == INSTRUCTION_FETCH || instruction->kind == INSTRUCTION_STORE;
}

/* What lies in the node's frame. */
static void print_inside(PlanView *view, int64_t node, const Instruction *instruction, void *context) {
    (void)context;
    const StepCode *code = &view->code;
    FILE *out = view->out;
    if (instruction->kind == INSTRUCTION_COMPUTE)
        print_compute(view, node);
    if (!is_move(instruction))
        return;
    const TileUse *use = &code->uses[instruction->operand];
    bool store = instruction->kind == INSTRUCTION_STORE, fetch = instruction->kind == INSTRUCTION_FETCH;
    fputs(store ? "    s" : "    ", out);
    print_tile_name(view, node, instruction->operand, use);
    fprintf(out, " [fillcolor=\"%s\", label=\"%s ", colour_of(instruction->operand), instruction_name(instruction->kind));
    plan_view_region(out, view->plan->problem, &code->step, instruction->operand);
    if (fetch)
        fprintf(out, "\\nfrom node %" PRId64, view->source);
    fprintf(out, "\"%s];\n", fetch ? ", style=\"filled,dashed\"" : "");
    if (!store)
        return;
    fputs("    ", out);
    print_step_name(out, &code->step);
    fputs(" -> s", out);
    print_tile_name(view, node, instruction->operand, use);
    fputs(";\n", out);
}

/* Lines to files and to other nodes: outside of the frames, or what they lead to would be drawn inside. */
static void print_outside(PlanView *view, int64_t node, const Instruction *instruction, void *context) {
    (void)context;
    FILE *out = view->out;
    if (!is_move(instruction))
        return;
    const TileUse *use = &view->code.uses[instruction->operand];
    bool store = instruction->kind == INSTRUCTION_STORE, fetch = instruction->kind == INSTRUCTION_FETCH;
    if (fetch) {
        fputs("  ", out);
        print_shelf_name(out, view->source, instruction->operand, instruction->tile);
        fputs(" -> ", out);
    } else if (!store) {
        fprintf(out, "  in%d -> ", instruction->operand);
    } else {
        fputs("  s", out);
    }
    print_tile_name(view, node, instruction->operand, use);
    if (store)
        fprintf(out, " -> out%d", instruction->operand);
    fprintf(out, " [color=\"%s];\n", fetch ? "#3366aa\", style=dashed, constraint=false" : "#999999\"");
}

void plan_print_dot(PlanView *view) {
    const Problem *problem = view->plan->problem;
    FILE *out = view->out;
    fprintf(out, "digraph \"%s\" {\n  rankdir=LR;\n  newrank=true;\n", problem->kernel->name);
    fputs("  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n  edge [arrowsize=0.6];\n", out);
    for (int t = 0; t < problem->kernel->tensor_count; t++)
        for (int written = 0; written < 2; written++)
            if (written ? problem->operands[t].store : problem->operands[t].load)
                fprintf(out, "  %s%d [shape=cylinder, fillcolor=\"%s\", label=\"%s%s\"];\n", written ? "out" : "in", t, colour_of(t),
                    problem->operands[t].name, written ? " (new)" : "");
    for (int64_t n = 0; n < view->placement->nodes; n++) {
        const NodeSums *sums = &view->sums[n];
        fprintf(out,
            "  subgraph cluster_%" PRId64 " {\n    label=\"node %" PRId64 ": %" PRId64 " super-tiles, %" PRId64 " B loaded, %" PRId64
            " B fetched, %" PRId64 " B stored, %.3g s\";\n    style=\"rounded,filled\"; fillcolor=\"#f7f7f7\"; fontname=\"sans-serif\";\n",
            n, n, sums->units, sums->loaded, sums->fetched, sums->stored, node_times(&view->model, sums).total);
        plan_view_walk(view, n, print_inside, NULL);
        fputs("  }\n", out);
    }
    for (int64_t n = 0; n < view->placement->nodes; n++)
        plan_view_walk(view, n, print_outside, NULL);
    fputs("}\n", out);
}
