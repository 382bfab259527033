#include "runtime/sched/sched.h"

#include <inttypes.h>
#include <stdlib.h>

/* A plan of more units than this is summed up and not listed. */
#define TEXT_LISTED_UNITS 16
#define JSON_LISTED_UNITS 1024
#define DOT_MAX_UNITS 256

/* What one node does. */
typedef struct NodeSums {
    int64_t units;
    int64_t instructions[INSTRUCTION_FREE + 1];
    int64_t loaded, stored; /* bytes */
} NodeSums;

typedef struct Printer {
    FILE *out;
    const Problem *problem;
    const Plan *plan;
    int nodes;
    NodeSums *sums;
    StepCode code; /* of the step at hand */
    Instruction *instructions;
} Printer;

typedef void VisitStep(Printer *printer, int node, int count, void *context);

/* Unrolls every step of a node, in order. */
static void visit_node(Printer *printer, int node, VisitStep *visit, void *context) {
    Unroll *unroll = unroll_new(printer->plan);
    UnitRange range = plan_deal(printer->problem, node, printer->nodes);
    for (int64_t i = 0; i < range.count; i++)
        for (int64_t step = 0; step < printer->problem->steps; step++) {
            unroll_step(unroll, range.first + i * range.step, step, &printer->code);
            visit(printer, node, step_instructions(printer->plan, &printer->code, printer->instructions), context);
        }
    unroll_free(unroll);
}

static void sum_step(Printer *printer, int node, int count, void *context) {
    (void)context;
    NodeSums *sums = &printer->sums[node];
    sums->units += printer->code.step.number == 0;
    for (int i = 0; i < count; i++) {
        const Instruction *instruction = &printer->instructions[i];
        sums->instructions[instruction->kind]++;
        if (instruction->kind != INSTRUCTION_LOAD && instruction->kind != INSTRUCTION_STORE)
            continue;
        Region region;
        const Operand *operand = &printer->problem->operands[instruction->operand];
        tile_region(printer->problem, &printer->code.step, instruction->operand, &region);
        region_clip(operand, &region);
        int64_t bytes = region_bytes(operand, &region);
        *(instruction->kind == INSTRUCTION_LOAD ? &sums->loaded : &sums->stored) += bytes;
    }
}

static void sum_nodes(Printer *printer) {
    for (int n = 0; n < printer->nodes; n++) {
        visit_node(printer, n, sum_step, NULL);
        NodeSums *sums = &printer->sums[n];
        /* Kept tiles that nobody displaced are freed at the end. */
        sums->instructions[INSTRUCTION_FREE] = sums->instructions[INSTRUCTION_ALLOC];
    }
}

static const char *mode_name(int mode) {
    static const char *const names[] = {"read", "write", "read-modify-write"};
    return names[mode];
}

static void print_extents(FILE *out, int rank, const int64_t *extents) {
    for (int k = 0; k < rank; k++)
        fprintf(out, "%s%" PRId64, k > 0 ? ", " : "", extents[k]);
}

static int64_t instruction_total(const NodeSums *sums) {
    int64_t total = 0;
    for (int k = INSTRUCTION_ALLOC; k <= INSTRUCTION_FREE; k++)
        total += sums->instructions[k];
    return total;
}

/* ---- text ---- */

static void list_step(Printer *printer, int node, int count, void *context) {
    (void)node, (void)context;
    for (int i = 0; i < count; i++) {
        const Instruction *instruction = &printer->instructions[i];
        fprintf(printer->out, "    %-7s ", instruction_name(instruction->kind));
        if (instruction->kind == INSTRUCTION_COMPUTE)
            fprintf(printer->out, "super-tile %" PRId64 " (%" PRId64 ", %" PRId64 ", %" PRId64 ")\n", printer->code.step.unit,
                printer->code.step.at[0], printer->code.step.at[1], printer->code.step.at[2]);
        else
            fprintf(printer->out, "%s tile %" PRId64 " slot %" PRId64 "\n", printer->problem->operands[instruction->operand].name,
                instruction->tile, instruction->slot);
    }
}

static void print_variant(const Printer *printer) {
    const PhbKernel *kernel = printer->problem->kernel;
    fprintf(printer->out, "leaf:        ");
    for (int d = 0, shown = 0; d < kernel->dim_count; d++)
        if (kernel->dims[d].is_search)
            fprintf(printer->out, "%s%s = %" PRId64, shown++ > 0 ? ", " : "", kernel->dims[d].name, printer->problem->variant->values[d]);
    Step first = step_find(printer->problem, 0, 0);
    const LeafShape *shape = step_shape(printer->problem, &first);
    fprintf(printer->out, "; %" PRId64 " x %" PRId64 " x %" PRId64 " CTAs\n", shape->grid[0], shape->grid[1], shape->grid[2]);
}

static void print_text(Printer *printer) {
    const Problem *problem = printer->problem;
    FILE *out = printer->out;
    fprintf(out, "kernel:      %s (%s)\n", problem->kernel->name, problem->kernel->source);
    fprintf(out, "super-tiles: %" PRId64 " = %" PRId64 " x %" PRId64 " x %" PRId64 "\n", problem->units, problem->supers[0], problem->supers[1],
        problem->supers[2]);
    print_variant(printer);
    for (int t = 0; t < problem->kernel->tensor_count; t++) {
        const Operand *tiles = &problem->operands[t];
        fprintf(out, "tensor:      %s: %s[", tiles->tensor->name, dtype_name(tiles->tensor->dtype));
        print_extents(out, tiles->tensor->rank, tiles->whole);
        fprintf(out, "] %s, %" PRId64 " tile%s of [", mode_name(tiles->tensor->mode), tiles->count, tiles->count == 1 ? "" : "s");
        print_extents(out, tiles->tensor->rank, tiles->size);
        fprintf(
            out, "], %" PRId64 " bytes each, %" PRId64 " slot%s\n", tiles->bytes, printer->plan->slots[t], printer->plan->slots[t] == 1 ? "" : "s");
    }
    fprintf(out, "memory:      %" PRId64 " bytes of tiles a node, %d super-tiles in flight\n", printer->plan->bytes, printer->plan->window);
    for (int n = 0; n < printer->nodes; n++) {
        const NodeSums *sums = &printer->sums[n];
        fprintf(out, "node %d: %" PRId64 " super-tiles, %" PRId64 " instructions, %" PRId64 " bytes loaded, 0 fetched, %" PRId64 " stored\n", n,
            sums->units, instruction_total(sums), sums->loaded, sums->stored);
        if (problem->units <= TEXT_LISTED_UNITS)
            visit_node(printer, n, list_step, NULL);
    }
}

/* ---- JSON ---- */

static void print_json_extents(FILE *out, const char *key, int rank, const int64_t *extents) {
    fprintf(out, "\"%s\": [", key);
    print_extents(out, rank, extents);
    fputc(']', out);
}

static void print_json_step(Printer *printer, int node, int count, void *context) {
    bool *first = context;
    for (int i = 0; i < count; i++) {
        const Instruction *instruction = &printer->instructions[i];
        fprintf(printer->out, "%s\n    {\"node\": %d, \"op\": \"%s\", ", *first ? "" : ",", node, instruction_name(instruction->kind));
        *first = false;
        if (instruction->kind == INSTRUCTION_COMPUTE)
            fprintf(printer->out, "\"super_tile\": %" PRId64 "}", printer->code.step.unit);
        else
            fprintf(printer->out, "\"tensor\": \"%s\", \"tile\": %" PRId64 ", \"slot\": %" PRId64 "}",
                printer->problem->operands[instruction->operand].name, instruction->tile, instruction->slot);
    }
}

static void print_json(Printer *printer) {
    const Problem *problem = printer->problem;
    FILE *out = printer->out;
    fprintf(out, "{\n  \"kernel\": \"%s\",\n  \"super_tiles\": %" PRId64 ",\n  ", problem->kernel->name, problem->units);
    print_json_extents(out, "grid", 3, problem->supers);
    fprintf(out, ",\n  \"memory\": %" PRId64 ",\n  \"in_flight\": %d,\n  \"leaf\": {", printer->plan->bytes, printer->plan->window);
    for (int d = 0, shown = 0; d < problem->kernel->dim_count; d++)
        if (problem->kernel->dims[d].is_search)
            fprintf(out, "%s\"%s\": %" PRId64, shown++ > 0 ? ", " : "", problem->kernel->dims[d].name, problem->variant->values[d]);
    fprintf(out, "},\n  \"tensors\": [");
    for (int t = 0; t < problem->kernel->tensor_count; t++) {
        const Operand *tiles = &problem->operands[t];
        fprintf(out, "%s\n    {\"name\": \"%s\", \"dtype\": \"%s\", \"mode\": \"%s\", ", t > 0 ? "," : "", tiles->tensor->name,
            dtype_name(tiles->tensor->dtype), mode_name(tiles->tensor->mode));
        print_json_extents(out, "shape", tiles->tensor->rank, tiles->whole);
        fputs(", ", out);
        print_json_extents(out, "tile", tiles->tensor->rank, tiles->size);
        fprintf(out, ", \"tiles\": %" PRId64 ", \"tile_bytes\": %" PRId64 ", \"slots\": %" PRId64 "}", tiles->count, tiles->bytes,
            printer->plan->slots[t]);
    }
    fprintf(out, "\n  ],\n  \"nodes\": [");
    for (int n = 0; n < printer->nodes; n++) {
        const NodeSums *sums = &printer->sums[n];
        fprintf(out,
            "%s\n    {\"super_tiles\": %" PRId64 ", \"instructions\": %" PRId64 ", \"loaded\": %" PRId64 ", \"fetched\": 0, \"stored\": %" PRId64 "}",
            n > 0 ? "," : "", sums->units, instruction_total(sums), sums->loaded, sums->stored);
    }
    fprintf(out, "\n  ]");
    if (problem->units <= JSON_LISTED_UNITS) {
        bool first = true;
        fprintf(out, ",\n  \"instructions\": [");
        for (int n = 0; n < printer->nodes; n++)
            visit_node(printer, n, print_json_step, &first);
        fprintf(out, "\n  ]");
    }
    fprintf(out, "\n}\n");
}

/* ---- DOT: a box a tensor file's tile, an ellipse a leaf ---- */

static void print_dot_step(Printer *printer, int node, int count, void *context) {
    (void)context;
    FILE *out = printer->out;
    const PhbKernel *kernel = printer->problem->kernel;
    fprintf(out, "    u%" PRId64 " [label=\"%s %" PRId64 "\", shape=ellipse];\n", printer->code.step.unit, kernel->name, printer->code.step.unit);
    for (int i = 0; i < count; i++) {
        const Instruction *instruction = &printer->instructions[i];
        int t = instruction->operand;
        if (instruction->kind == INSTRUCTION_LOAD)
            fprintf(out, "    n%d_%d_%" PRId64 "_%" PRId64 " [label=\"LOAD %s %" PRId64 "\"];\n", node, t, instruction->tile,
                printer->code.uses[t].made, kernel->tensors[t].name, instruction->tile);
        if (instruction->kind == INSTRUCTION_STORE)
            fprintf(out, "    s%d_%" PRId64 " [label=\"STORE %s %" PRId64 "\"];\n    u%" PRId64 " -> s%d_%" PRId64 ";\n", t, instruction->tile,
                kernel->tensors[t].name, instruction->tile, printer->code.step.unit, t, instruction->tile);
    }
    for (int t = 0; t < kernel->tensor_count; t++)
        if (printer->code.uses[t].how.used && printer->problem->operands[t].load)
            fprintf(out, "    n%d_%d_%" PRId64 "_%" PRId64 " -> u%" PRId64 ";\n", node, t, printer->code.uses[t].tile, printer->code.uses[t].made,
                printer->code.step.unit);
}

static void print_dot(Printer *printer) {
    fprintf(printer->out, "digraph \"%s\" {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n", printer->problem->kernel->name);
    for (int n = 0; n < printer->nodes; n++) {
        fprintf(printer->out, "  subgraph cluster_%d {\n    label=\"node %d\";\n", n, n);
        visit_node(printer, n, print_dot_step, NULL);
        fprintf(printer->out, "  }\n");
    }
    fprintf(printer->out, "}\n");
}

/* ---- the whole ---- */

static void print(Printer *printer, PlanFormat format) {
    size_t operands = (size_t)printer->problem->operand_count;
    printer->sums = new_zeroed((size_t)printer->nodes, sizeof *printer->sums);
    printer->code.uses = new_zeroed(operands, sizeof *printer->code.uses);
    printer->instructions = new_zeroed(5 * operands + 1, sizeof *printer->instructions);
    if (format == PLAN_DOT) {
        print_dot(printer);
    } else {
        sum_nodes(printer);
        if (format == PLAN_TEXT)
            print_text(printer);
        else
            print_json(printer);
    }
    free(printer->sums);
    free(printer->code.uses);
    free(printer->instructions);
}

int plan_print(const Job *job, int nodes, int64_t memory, PlanFormat format, FILE *out) {
    Error error;
    int exit_code = EXIT_USAGE;
    Problem *problem = problem_bind(job, LEAF_MODEL, &error);
    Plan *plan = NULL;
    if (problem != NULL && format == PLAN_DOT && problem->units > DOT_MAX_UNITS) {
        error_set(&error, "a picture of %" PRId64 " super-tiles says nothing; --format=dot draws at most %d", problem->units, DOT_MAX_UNITS);
    } else if (problem != NULL) {
        exit_code = EXIT_FAILED;
        plan = plan_make(problem, memory > 0 ? memory : machine_memory(), &error);
    }
    if (plan != NULL) {
        print(&(Printer){.out = out, .problem = problem, .plan = plan, .nodes = nodes > 0 ? nodes : 1}, format);
        exit_code = EXIT_DONE;
    } else {
        fprintf(stderr, "error: %s\n", error.text);
    }
    plan_free(plan);
    problem_free(problem);
    return exit_code;
}
