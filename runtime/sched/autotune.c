/* --autotune: plans every combination of @cluster values, drops what cannot run or leaves a node without work, and ranks the rest by what the model
 * says of the busiest node. */
#include "runtime/sched/sched.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COMBINATIONS 4096
#define SUMMED_STEPS (INT64_C(1) << 16) /* of a combination's busiest node; more are taken to be like these */

/* Another combination; false after the last. `choice` counts through the sets of the dims that are free. */
static bool next_choice(const Job *job, int *choice) {
    const PhbKernel *kernel = job->kernel;
    for (int d = 0; d < kernel->dim_count; d++) {
        if (!job_dim_is_free(job, d))
            continue;
        if (++choice[d] < kernel->dims[d].cluster_count)
            return true;
        choice[d] = 0;
    }
    return false;
}

static int64_t busiest_node(const Placement *placement) {
    int64_t busiest = 0;
    for (int64_t n = 1; n < placement->nodes; n++)
        if (placement_count(placement, n) > placement_count(placement, busiest))
            busiest = n;
    return busiest;
}

static bool idle_node(const Placement *placement) {
    for (int64_t n = 0; n < placement->nodes; n++)
        if (placement_count(placement, n) == 0)
            return true;
    return false;
}

NodeSums plan_busiest(Plan *plan, const Placement *placement, const Model *model) {
    int64_t node = busiest_node(placement);
    plan_share(plan, placement, model);
    Summing *summing = summing_new(plan);
    NodeSums sums = node_sum(summing, placement, node, SUMMED_STEPS);
    summing_free(summing);
    return sums;
}

/* Plans the job as its dims stand. */
static void try_candidate(const Job *job, int64_t nodes, const PlanOptions *options, const Model *model, Candidate *candidate) {
    Error error;
    candidate->verdict = CANDIDATE_REFUSED;
    Problem *problem = problem_bind(job, options->leaf, &candidate->why);
    if (problem == NULL)
        return;
    candidate->verdict = CANDIDATE_TOO_LARGE;
    Plan *plan = plan_make(problem, model->memory, &candidate->why);
    Placement *placement = plan != NULL ? placement_new(problem, options->placement, nodes) : NULL;
    if (placement != NULL && idle_node(placement)) {
        candidate->verdict = CANDIDATE_IDLE;
        error_set(&error, "%" PRId64 " super-tiles leave one of %" PRId64 " pods without work", problem->units, nodes);
        candidate->why = error;
    } else if (placement != NULL) {
        candidate->verdict = CANDIDATE_FINE;
        NodeSums sums = plan_busiest(plan, placement, model);
        candidate->times = node_times(model, &sums);
    }
    placement_free(placement);
    plan_free(plan);
    problem_free(problem);
}

/* Fine ones by their time, the rest behind; what is equal stays as declared. */
static int compare(const void *left, const void *right) {
    const Candidate *a = left, *b = right;
    if (a->verdict != b->verdict)
        return a->verdict < b->verdict ? -1 : 1;
    if (a->verdict == CANDIDATE_FINE && a->times.total != b->times.total)
        return a->times.total < b->times.total ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

bool candidates_rank(Job *job, int64_t nodes, const PlanOptions *options, const Model *model, Candidates *candidates, Error *error) {
    const PhbKernel *kernel = job->kernel;
    size_t dims = (size_t)kernel->dim_count;
    int *choice = new_zeroed(dims, sizeof *choice);
    int64_t combinations = 1;
    *candidates = (Candidates){.dims = kernel->dim_count};
    for (int d = 0; d < kernel->dim_count; d++)
        if (job_dim_is_free(job, d) && __builtin_mul_overflow(combinations, kernel->dims[d].cluster_count, &combinations))
            combinations = INT64_MAX;
    if (combinations > MAX_COMBINATIONS) {
        free(choice);
        return error_set(error,
            "kernel '%s': %" PRId64 " combinations of @cluster values are more than --autotune tries (%d); name some under \"cluster\"", kernel->name,
            combinations, MAX_COMBINATIONS);
    }
    candidates->items = new_zeroed((size_t)combinations, sizeof *candidates->items);
    do {
        Candidate *candidate = &candidates->items[candidates->count];
        candidate->number = candidates->count++;
        candidate->values = new_zeroed(dims, sizeof *candidate->values);
        for (int d = 0; d < kernel->dim_count; d++)
            if (job_dim_is_free(job, d))
                job->dims[d] = kernel->dims[d].cluster[choice[d]];
        memcpy(candidate->values, job->dims, dims * sizeof *candidate->values);
        try_candidate(job, nodes, options, model, candidate);
        candidates->fine += candidate->verdict == CANDIDATE_FINE;
    } while (next_choice(job, choice));
    free(choice);
    qsort(candidates->items, (size_t)candidates->count, sizeof *candidates->items, compare);
    candidate_take(job, &candidates->items[0]);
    return candidates->fine > 0 || error_set(error, "kernel '%s': none of %d combinations of @cluster values can run: %s", kernel->name,
                                       candidates->count, candidates->items[0].why.text);
}

bool candidates_any(Job *job, int64_t nodes, const PlanOptions *options, const Model *model) {
    const PhbKernel *kernel = job->kernel;
    int *choice = new_zeroed((size_t)kernel->dim_count, sizeof *choice);
    Candidate candidate = {.verdict = CANDIDATE_REFUSED};
    int tried = 0;
    do {
        for (int d = 0; d < kernel->dim_count; d++)
            if (job_dim_is_free(job, d))
                job->dims[d] = kernel->dims[d].cluster[choice[d]];
        try_candidate(job, nodes, options, model, &candidate);
    } while (candidate.verdict != CANDIDATE_FINE && ++tried < MAX_COMBINATIONS && next_choice(job, choice));
    free(choice);
    return candidate.verdict == CANDIDATE_FINE;
}

void candidate_take(Job *job, const Candidate *candidate) {
    memcpy(job->dims, candidate->values, sizeof *job->dims * (size_t)job->kernel->dim_count);
}

void candidates_free(Candidates *candidates) {
    for (int c = 0; c < candidates->count; c++)
        free(candidates->items[c].values);
    free(candidates->items);
    *candidates = (Candidates){.items = NULL};
}

char *candidates_describe(const Job *job, const Candidates *candidates) {
    const Candidate *best = &candidates->items[0];
    char *text = format_text("autotune: ");
    for (int d = 0, shown = 0; d < candidates->dims; d++)
        if (job->kernel->dims[d].cluster_count > 0)
            text = text_append(text, "%s%s = %" PRId64, shown++ > 0 ? ", " : "", job->kernel->dims[d].name, best->values[d]);
    int large = 0, idle = 0, refused = 0;
    for (int c = 0; c < candidates->count; c++) {
        large += candidates->items[c].verdict == CANDIDATE_TOO_LARGE;
        idle += candidates->items[c].verdict == CANDIDATE_IDLE;
        refused += candidates->items[c].verdict == CANDIDATE_REFUSED;
    }
    return text_append(text,
        "; predicted %.3g s (storage %.3g, link %.3g, compute %.3g, launches %.3g, start %.3g); of %d combinations %d do not fit, %d leave a pod "
        "without work, "
        "%d are "
        "not legal",
        best->times.total, best->times.storage, best->times.link, best->times.compute, best->times.launch, best->times.start, candidates->count,
        large, idle, refused);
}

Model model_assumed(const PlanOptions *options) {
    return (Model){
        .memory = options->memory > 0 ? options->memory : machine_memory(),
        .read_bw = 2e9,
        .write_bw = 1e9,
        .link_from = options->link_bw > 0 ? FIGURE_GIVEN : FIGURE_ASSUMED,
        .link_bw = options->link_bw > 0 ? options->link_bw : 1.25e9,
        .leaf_from = options->leaf_flops > 0 ? FIGURE_GIVEN : FIGURE_ASSUMED,
        .leaf_flops = options->leaf_flops > 0 ? options->leaf_flops : 16e9 * machine_processors(),
        .launch = 5e-6,
    };
}

const char *figure_source_name(FigureSource source) {
    static const char *const names[] = {"assumed", "given", "measured"};
    return names[source];
}

char *model_describe(const Model *model) {
    char *text = format_text("storage %.3g B/s read (%s) and %.3g B/s written (%s), ", model->read_bw, figure_source_name(model->read_from),
        model->write_bw, figure_source_name(model->write_from));
    if (model->link_bw > 0)
        text = text_append(text, "link %.3g B/s (%s), leaf", model->link_bw, figure_source_name(model->link_from));
    else
        text = text_append(text, "no link, leaf");
    int shown = 0;
    for (int r = 0; r < PLAN_RATES; r++)
        if (model->stage_flops[r] > 0)
            text = text_append(text, "%s %.3g", shown++ > 0 ? "," : "", model->stage_flops[r]);
    if (shown == 0)
        text = text_append(text, " %.3g", model->leaf_flops);
    return text_append(
        text, " F/s (%s), %.3g s a launch (%s)", figure_source_name(model->leaf_from), model->launch, figure_source_name(model->launch_from));
}
