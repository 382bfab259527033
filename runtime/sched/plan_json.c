/* --plan --format=json. */
#include "runtime/sched/plan_view.h"

#include <inttypes.h>

/* A plan of more steps than this is summed up and not listed. */
#define LISTED_STEPS 4096

static void print_extents(FILE *out, const char *key, int rank, const int64_t *extents) {
    fprintf(out, "\"%s\": [", key);
    for (int k = 0; k < rank; k++)
        fprintf(out, "%s%" PRId64, k > 0 ? ", " : "", extents[k]);
    fputc(']', out);
}

static void print_instruction(PlanView *view, int64_t node, const Instruction *instruction, void *context) {
    bool *first = context;
    FILE *out = view->out;
    const Step *step = &view->code.step;
    fprintf(out, "%s\n    {\"node\": %" PRId64 ", \"op\": \"%s\", ", *first ? "" : ",", node, instruction_name(instruction->kind));
    *first = false;
    if (instruction->kind == INSTRUCTION_COMPUTE) {
        static const char *const kinds[] = {"stage", "clear", "merge"};
        fprintf(out, "\"super_tile\": %" PRId64 ", \"stage\": %d, \"chunk\": %" PRId64 ", \"kind\": \"%s\", \"level\": %d}", step->unit, step->stage,
            step->at[CHUNK], kinds[step->kind], step->level);
        return;
    }
    const Operand *operand = &view->plan->problem->operands[instruction->operand];
    fprintf(out, "\"tensor\": \"%s\", \"tile\": %" PRId64 ", \"slot\": %" PRId64, operand->name, instruction->tile, instruction->slot);
    if (instruction->kind == INSTRUCTION_FETCH)
        fprintf(out, ", \"from\": %" PRId64, view->source);
    if (instruction->kind == INSTRUCTION_LOAD || instruction->kind == INSTRUCTION_FETCH || instruction->kind == INSTRUCTION_COPY ||
        instruction->kind == INSTRUCTION_STORE) {
        Region region;
        tile_region(view->plan->problem, step, instruction->operand, &region);
        region_clip(operand, &region);
        fputs(", ", out);
        print_extents(out, "origin", operand->rank, region.origin);
        fputs(", ", out);
        print_extents(out, "extent", operand->rank, region.extent);
    }
    fputc('}', out);
}

static void print_operands(PlanView *view) {
    const Problem *problem = view->plan->problem;
    FILE *out = view->out;
    for (int t = 0; t < problem->operand_count; t++) {
        const Operand *operand = &problem->operands[t];
        bool state = operand->tensor == NULL || operand->level > 0;
        if (t == problem->kernel->tensor_count)
            fprintf(out, "\n  ],\n  \"states\": [");
        fprintf(out, "%s\n    {\"name\": \"%s\", ", t > 0 && t != problem->kernel->tensor_count ? "," : "", operand->name);
        if (!state) {
            fprintf(out, "\"dtype\": \"%s\", \"mode\": \"%s\", ", dtype_name(operand->tensor->dtype), plan_mode_name(operand->tensor->mode));
            print_extents(out, "shape", operand->rank, operand->whole);
            fputs(", ", out);
            print_extents(out, "tile", operand->rank, operand->size);
            fputs(", ", out);
            print_extents(out, "halo", operand->rank, operand->halo);
            fprintf(out, ", \"fetched\": %s, ", view->plan->fetched[t] ? "true" : "false");
        }
        if (operand->level > 0)
            fprintf(out, "\"level\": %d, ", operand->level);
        fprintf(out, "\"tiles\": %" PRId64 ", \"tile_bytes\": %" PRId64 ", \"slots\": %" PRId64 "}", operand->count, operand->bytes,
            view->plan->slots[t]);
    }
}

static void print_nodes(PlanView *view) {
    FILE *out = view->out;
    for (int64_t n = 0; n < view->placement->nodes; n++) {
        const NodeSums *sums = &view->sums[n];
        NodeTimes times = node_times(&view->model, sums);
        fprintf(out,
            "%s\n    {\"super_tiles\": %" PRId64 ", \"instructions\": %" PRId64 ", \"loads\": %" PRId64 ", \"loaded\": %" PRId64
            ", \"fetches\": %" PRId64 ", \"fetched\": %" PRId64 ", \"stores\": %" PRId64 ", \"stored\": %" PRId64 ", \"peak\": %" PRId64,
            n > 0 ? "," : "", sums->units, plan_view_instructions(sums), sums->instructions[INSTRUCTION_LOAD], sums->loaded,
            sums->instructions[INSTRUCTION_FETCH], sums->fetched, sums->instructions[INSTRUCTION_STORE], sums->stored, sums->peak);
        fprintf(out, ", \"storage_s\": %.9g, \"link_s\": %.9g, \"compute_s\": %.9g, \"launch_s\": %.9g, \"total_s\": %.9g}", times.storage,
            times.link, times.compute, times.launch, times.total);
    }
}

void plan_print_json(PlanView *view) {
    const Problem *problem = view->plan->problem;
    const PhbKernel *kernel = problem->kernel;
    FILE *out = view->out;
    fprintf(out, "{\n  \"kernel\": \"%s\",\n  \"super_tiles\": %" PRId64 ",\n  ", kernel->name, problem->units);
    print_extents(out, "grid", 3, problem->supers);
    fprintf(out, ",\n  \"launches\": %" PRId64 ",\n  \"memory\": %" PRId64 ",\n  \"in_flight\": %d,\n  \"cluster\": {", problem->steps,
        view->plan->bytes + view->plan->shelf_bytes, view->plan->window);
    for (int d = 0, shown = 0; d < kernel->dim_count; d++)
        if (kernel->dims[d].cluster_count > 0)
            fprintf(out, "%s\"%s\": %" PRId64, shown++ > 0 ? ", " : "", kernel->dims[d].name, problem->job->dims[d]);
    if (problem->job->split_k > 1)
        fprintf(out, "},\n  \"split_k\": %" PRId64 ",\n  \"leaf\": {", problem->job->split_k);
    else
        fprintf(out, "},\n  \"leaf\": {");
    for (int d = 0, shown = 0; d < kernel->dim_count; d++)
        if (kernel->dims[d].is_search)
            fprintf(out, "%s\"%s\": %" PRId64, shown++ > 0 ? ", " : "", kernel->dims[d].name, problem->variant->values[d]);
    fprintf(out, "},\n  \"placement\": \"%s\",\n", plan_policy_name(view->placement->policy));
    fprintf(out, "  \"model\": {\"read_bw\": %.9g, \"write_bw\": %.9g, \"link_bw\": %.9g, \"leaf_flops\": %.9g, \"launch_s\": %.9g,\n",
        view->model.read_bw, view->model.write_bw, view->model.link_bw, view->model.leaf_flops, view->model.launch);
    fprintf(out, "            \"link_from\": \"%s\", \"leaf_from\": \"%s\"},\n", figure_source_name(view->model.link_from),
        figure_source_name(view->model.leaf_from));
    fprintf(out, "  \"predicted_s\": %.9g,\n  \"tensors\": [", view->busiest_times.total);
    print_operands(view);
    fprintf(out, "\n  ],\n  \"nodes\": [");
    print_nodes(view);
    fprintf(out, "\n  ]");
    if (plan_view_steps(view) <= LISTED_STEPS) {
        bool first = true;
        fprintf(out, ",\n  \"instructions\": [");
        for (int64_t n = 0; n < view->placement->nodes; n++)
            plan_view_walk(view, n, print_instruction, &first);
        fprintf(out, "\n  ]");
    }
    fprintf(out, "\n}\n");
}
