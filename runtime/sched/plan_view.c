/* --plan: a plan as text; plan_json.c writes it for programs, plan_dot.c and plan_svg.c for the eye. */
#include "runtime/sched/plan_view.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- what all of them need ---- */

void plan_view_walk(PlanView *view, int64_t node, PlanVisit *visit, void *context) {
    const Problem *problem = view->plan->problem;
    int64_t units = placement_count(view->placement, node);
    unroll_reset(view->unroll);
    sources_reset(view->sources);
    for (int64_t done = 0; done < units;) {
        UnitRange run = placement_run(view->placement, node, done, units);
        for (int64_t i = 0; i < run.count; i++)
            for (int64_t step = 0; step < problem->steps; step++) {
                unroll_step(view->unroll, run.first + i * run.step, step, &view->code);
                int count = step_instructions(view->plan, &view->code, view->instructions);
                for (int n = 0; n < count; n++) {
                    Instruction *instruction = &view->instructions[n];
                    view->source = node;
                    if (instruction->kind == INSTRUCTION_LOAD)
                        instruction->kind =
                            sources_find(view->sources, view->placement, node, instruction->operand, view->code.step.at, &view->source);
                    visit(view, node, instruction, context);
                }
            }
        done += run.count;
    }
}

int64_t plan_view_steps(const PlanView *view) {
    return view->plan->problem->units * view->plan->problem->steps;
}

void plan_view_region(FILE *out, const Problem *problem, const Step *step, int operand) {
    Region region;
    tile_region(problem, step, operand, &region);
    if (problem->operands[operand].tensor != NULL)
        region_clip(&problem->operands[operand], &region);
    fprintf(out, "%s[", problem->operands[operand].name);
    for (int k = 0; k < problem->operands[operand].rank; k++)
        fprintf(out, "%s%" PRId64 ":%" PRId64, k > 0 ? ", " : "", region.origin[k], region.origin[k] + region.extent[k]);
    fputc(']', out);
}

int64_t plan_view_instructions(const NodeSums *sums) {
    int64_t total = 0;
    for (int k = 0; k < INSTRUCTION_KINDS; k++)
        total += sums->instructions[k];
    return total;
}

const char *plan_mode_name(int mode) {
    return mode == PHB_READ ? "read" : mode == PHB_WRITE ? "write" : "read-modify-write";
}

const char *plan_policy_name(PlacementPolicy policy) {
    static const char *const names[] = {"round-robin", "block", "near-data"};
    return names[policy];
}

/* ---- text ---- */

static void print_extents(FILE *out, int rank, const int64_t *extents) {
    for (int k = 0; k < rank; k++)
        fprintf(out, "%s%" PRId64, k > 0 ? ", " : "", extents[k]);
}

static const char *plural(int64_t count) {
    return count == 1 ? "" : "s";
}

static void print_head(const PlanView *view) {
    const Problem *problem = view->plan->problem;
    const PhbKernel *kernel = problem->kernel;
    FILE *out = view->out;
    fprintf(out, "kernel:      %s (%s)\n", kernel->name, kernel->source);
    fprintf(out, "super-tiles: %" PRId64 " = %" PRId64 " x %" PRId64 " x %" PRId64, problem->units, problem->supers[0], problem->supers[1],
        problem->supers[2]);
    fprintf(out, ", %" PRId64 " leaf launch%s each", problem->steps, problem->steps == 1 ? "" : "es");
    for (int d = 0, shown = 0; d < kernel->dim_count; d++)
        if (kernel->dims[d].cluster_count > 0)
            fprintf(out, "%s%s = %" PRId64, shown++ > 0 ? ", " : "; ", kernel->dims[d].name, problem->job->dims[d]);
    fprintf(out, "\nleaf:        ");
    for (int d = 0; d < kernel->dim_count; d++)
        if (kernel->dims[d].is_search)
            fprintf(out, "%s = %" PRId64 ", ", kernel->dims[d].name, problem->variant->values[d]);
    Step first = step_find(problem, 0, 0);
    const int64_t *grid = step_shape(problem, &first)->grid;
    fprintf(out, "%" PRId64 " x %" PRId64 " x %" PRId64 " CTAs\n", grid[0], grid[1], grid[2]);
}

static void print_stages(const PlanView *view) {
    const Problem *problem = view->plan->problem;
    const PhbKernel *kernel = problem->kernel;
    FILE *out = view->out;
    for (int s = 0; s < kernel->stage_count && kernel->stage_count > 1; s++) {
        int loop = kernel->stages[s].loop;
        fprintf(out, "stage %d:     ", s);
        if (loop < 0)
            fprintf(out, "once");
        else
            fprintf(out, "%" PRId64 " chunk%s of %s = %" PRId64, problem->chunks[loop], plural(problem->chunks[loop]),
                kernel->dims[kernel->loops[loop].dim].name, problem->loop_super[loop]);
        if (loop >= 0 && problem->divisions[loop].parts > 1)
            fprintf(out, " in %" PRId64 " parts", problem->divisions[loop].parts);
        fputc(':', out);
        static const char *const verbs[] = {"reads", "writes", "updates"};
        for (int t = 0, shown = 0; t < problem->argument_count; t++)
            if (kernel->stages[s].modes[t] != PHB_UNUSED)
                fprintf(out, "%s %s %s", shown++ > 0 ? "," : "", verbs[kernel->stages[s].modes[t]], problem->operands[t].name);
        fputs(stage_is_divided(problem, s) ? "; partial sums are added in a tree\n" : "\n", out);
    }
}

static void print_operand(const PlanView *view, int index) {
    const Operand *operand = &view->plan->problem->operands[index];
    FILE *out = view->out;
    bool halo = false;
    if ((operand->tensor == NULL || operand->level > 0) && operand->sweeps == 0) /* partial sums of a range that is whole */
        return;
    for (int k = 0; k < operand->rank; k++)
        halo = halo || operand->halo[k] > 0;
    if (operand->level > 0) {
        fprintf(out, "state:       %s (level %d)", operand->name, operand->level);
    } else if (operand->tensor == NULL) {
        fprintf(out, "state:       %s", operand->name);
    } else {
        fprintf(out, "tensor:      %s: %s[", operand->name, dtype_name(operand->tensor->dtype));
        print_extents(out, operand->rank, operand->whole);
        fprintf(out, "] %s, %" PRId64 " tile%s of [", plan_mode_name(operand->tensor->mode), operand->count, plural(operand->count));
        print_extents(out, operand->rank, operand->size);
        fputc(']', out);
    }
    if (halo) {
        fprintf(out, " with a halo of [");
        print_extents(out, operand->rank, operand->halo);
        fputc(']', out);
    }
    int64_t slots = view->plan->slots[index];
    fprintf(out, ", %" PRId64 " bytes each, %" PRId64 " slot%s%s%s%s\n", operand->bytes, slots, plural(slots),
        view->plan->kept[index] && slots >= operand->count ? ", stays" : "", view->plan->fetched[index] ? ", fetched from peers" : "",
        view->plan->trees[index] != NULL ? ", which pass it on" : "");
}

static void list_instruction(PlanView *view, int64_t node, const Instruction *instruction, void *context) {
    (void)context;
    const Problem *problem = view->plan->problem;
    const Step *step = &view->code.step;
    FILE *out = view->out;
    fprintf(out, "    %-7s ", instruction_name(instruction->kind));
    if (instruction->kind == INSTRUCTION_COMPUTE) {
        fprintf(out, "super-tile %" PRId64 " (%" PRId64 ", %" PRId64 ", %" PRId64 ")", step->unit, step->at[0], step->at[1], step->at[2]);
        if (problem->kernel->stage_count > 1)
            fprintf(out, " stage %d", step->stage);
        if (problem->kernel->stages[step->stage].loop >= 0)
            fprintf(out, step->kind == STEP_STAGE ? " chunk %" PRId64 : step->kind == STEP_CLEAR ? " begins before chunk %" PRId64 : " adds after chunk %" PRId64,
                step->at[CHUNK]);
        if (step->level > 0)
            fprintf(out, step->kind == STEP_MERGE ? " level %d to %d" : " level %d", step->level, step->level - 1);
    } else {
        const char *name = problem->operands[instruction->operand].name;
        fprintf(out, "%s tile %" PRId64 " slot %" PRId64, name, instruction->tile, instruction->slot);
        if (instruction->kind == INSTRUCTION_FETCH)
            fprintf(out, " from node %" PRId64, view->source);
        if (instruction->kind != INSTRUCTION_ALLOC && instruction->kind != INSTRUCTION_FREE) {
            fputs("  ", out);
            plan_view_region(out, problem, step, instruction->operand);
        }
    }
    (void)node;
    fputc('\n', out);
}

/* A plan of more steps than this is summed up and not listed. */
#define TEXT_LISTED_STEPS 64

static void print_node(PlanView *view, int64_t node) {
    const NodeSums *sums = &view->sums[node];
    fprintf(view->out,
        "node %" PRId64 ": %" PRId64 " super-tiles, %" PRId64 " instructions, %" PRId64 " tiles loaded (%" PRId64 " bytes), %" PRId64
        " fetched (%" PRId64 "), %" PRId64 " stored (%" PRId64 "), peak %" PRId64 " bytes, %.3g s%s\n",
        node, sums->units, plan_view_instructions(sums), sums->instructions[INSTRUCTION_LOAD], sums->loaded, sums->instructions[INSTRUCTION_FETCH],
        sums->fetched, sums->instructions[INSTRUCTION_STORE], sums->stored, sums->peak, node_times(&view->model, sums).total,
        sums->estimated ? ", by a part of them" : "");
    if (plan_view_steps(view) <= TEXT_LISTED_STEPS)
        plan_view_walk(view, node, list_instruction, NULL);
}

static void print_text(PlanView *view) {
    FILE *out = view->out;
    print_head(view);
    print_stages(view);
    for (int t = 0; t < view->plan->problem->operand_count; t++)
        print_operand(view, t);
    fprintf(out, "memory:      %" PRId64 " bytes of tiles a node, %d leaf launches in flight\n", view->plan->bytes + view->plan->shelf_bytes,
        view->plan->window);
    fprintf(out, "placement:   %s over %" PRId64 " node%s\n", plan_policy_name(view->placement->policy), view->placement->nodes,
        plural(view->placement->nodes));
    char *model = model_describe(&view->model);
    fprintf(out, "model:       %s\n", model);
    free(model);
    const NodeTimes *times = &view->busiest_times;
    fprintf(out, "predicted:   %.3g s; the busiest is node %" PRId64 ": storage %.3g s, link %.3g s, compute %.3g s, launches %.3g s\n", times->total,
        view->busiest, times->storage, times->link, times->compute, times->launch);
    for (int64_t n = 0; n < view->placement->nodes; n++)
        print_node(view, n);
}

/* ---- the whole ---- */

/* Of a plan of more steps than this a part of each node's is looked at: seconds. */
#define SUMMED_STEPS (INT64_C(1) << 27)

static void sum_up(PlanView *view) {
    int64_t nodes = view->placement->nodes;
    Summing *summing = summing_new(view->plan);
    view->sums = new_zeroed((size_t)nodes, sizeof *view->sums);
    for (int64_t n = 0; n < nodes; n++) {
        view->sums[n] = node_sum(summing, view->placement, n, SUMMED_STEPS / nodes + 1);
        NodeTimes times = node_times(&view->model, &view->sums[n]);
        if (n > 0 && times.total <= view->busiest_times.total)
            continue;
        view->busiest = n;
        view->busiest_times = times;
    }
    summing_free(summing);
}

static void open_view(PlanView *view) {
    size_t operands = (size_t)view->plan->problem->operand_count;
    view->unroll = unroll_new(view->plan);
    view->code.uses = new_zeroed(operands, sizeof *view->code.uses);
    view->instructions = new_zeroed(5 * operands + 1, sizeof *view->instructions);
    view->sources = sources_new(view->plan);
}

static void close_view(PlanView *view) {
    unroll_free(view->unroll);
    sources_free(view->sources);
    free(view->sums);
    free(view->code.uses);
    free(view->instructions);
}

static void print(PlanView *view, PlanFormat format) {
    sum_up(view);
    (format == PLAN_TEXT ? print_text : format == PLAN_JSON ? plan_print_json : plan_print_dot)(view);
}

/* The @cluster values by the model, where that is asked for: what it took and dropped goes to stderr. */
static bool tune(Job *job, int nodes, const PlanOptions *options, const Model *model, Error *error) {
    if (options->autotune == AUTOTUNE_NONE)
        return true;
    if (options->autotune == AUTOTUNE_MEASURE)
        return error_set(error, "--plan measures nothing: --autotune=model plans with what is assumed or given");
    Candidates candidates;
    bool found = candidates_rank(job, nodes, options, model, &candidates, error);
    if (found) {
        char *text = candidates_describe(job, &candidates);
        fprintf(stderr, "%s\n", text);
        free(text);
    }
    candidates_free(&candidates);
    return found;
}

/* What all steps together are, and the head of each one's plan. */
static void begin_course(const Course *course, PlanFormat format, FILE *out) {
    const Sequence *sequence = course->job->sequence;
    const PhbKernel *whole = course->job->kernel;
    bool json = format == PLAN_JSON;
    if (sequence == NULL || format == PLAN_DOT || format == PLAN_SVG)
        return;
    fprintf(out,
        json ? "{\n\"repeat\": %" PRId64 ",\n\"rounds\": %" PRId64 ",\n\"kept_bytes\": %" PRId64 ",\n\"kept\": ["
             : "job:         %" PRId64 " times all steps, %" PRId64 " rounds\nin the pods: %" PRId64 " bytes of a node at most:",
        sequence->repeat, course->rounds, course->kept_bytes);
    for (int t = 0, shown = 0; t < sequence->tensor_count; t++)
        if (course->kept[t])
            fprintf(out, json ? "%s\"%s\"" : "%s %s", shown++ > 0 ? "," : "", whole->tensors[t].name);
    fputs(json ? "],\n\"steps\": [\n" : "\n", out);
}

static void begin_step(const Course *course, int step, PlanFormat format, FILE *out) {
    const PhbKernel *kernel = job_step(course->job, step)->kernel;
    if (course->job->sequence == NULL || format == PLAN_DOT || format == PLAN_SVG)
        return;
    if (format == PLAN_JSON) {
        fputs(step > 0 ? ",\n" : "", out);
        return;
    }
    fprintf(out, "\nstep %d:     ", step + 1);
    for (int t = 0; t < kernel->tensor_count; t++)
        fprintf(out, " %s = %s%s", kernel->tensors[t].name, course->job->kernel->tensors[job_tensor(course->job, step, t)].name,
            t + 1 < kernel->tensor_count ? "," : "\n");
}

static bool draws_too_much(const Course *course, PlanFormat format, Error *error) {
    __int128 all = 0;
    for (int s = 0; s < course->step_count; s++) {
        int64_t launches = course->steps[s].problem->units * course->steps[s].problem->steps;
        all += (__int128)launches * (course->rounds / course->step_count);
        if (format == PLAN_SVG && all > SVG_MAX_STEPS)
            return !error_set(error, "the picture would be of more than %d leaf launches; --format=svg draws no more", SVG_MAX_STEPS);
        if (format == PLAN_DOT && launches > DOT_MAX_STEPS)
            return !error_set(error, "a picture of %" PRId64 " leaf launches says nothing; --format=dot draws at most %d", launches, DOT_MAX_STEPS);
    }
    return false;
}

static void print_course(Course *course, const Model *model, PlanFormat format, FILE *out) {
    PlanView *views = new_zeroed((size_t)course->step_count, sizeof *views);
    begin_course(course, format, out);
    for (int s = 0; s < course->step_count; s++) {
        views[s] = (PlanView){.out = out, .model = *model, .plan = course->steps[s].plan, .placement = course->steps[s].placement};
        if (course->job->sequence == NULL)
            plan_share(views[s].plan, views[s].placement, &views[s].model);
        open_view(&views[s]);
        begin_step(course, s, format, out);
        if (format != PLAN_SVG)
            print(&views[s], format);
    }
    if (format == PLAN_SVG)
        plan_draw_svg(course, views, out);
    for (int s = 0; s < course->step_count; s++)
        close_view(&views[s]);
    free(views);
    if (course->job->sequence != NULL && format == PLAN_JSON)
        fputs("]\n}\n", out);
}

int plan_print(Job *job, int nodes, const PlanOptions *options, PlanFormat format, FILE *out) {
    Error error;
    int exit_code = EXIT_USAGE;
    Model model = model_assumed(options);
    bool tuned = true;
    for (int s = 0; tuned && s < job_step_count(job); s++)
        tuned = tune(job_step(job, s), nodes, options, &model, &error);
    Course *course = tuned ? course_bind(job, options->leaf, &error) : NULL;
    if (course != NULL && !draws_too_much(course, format, &error)) {
        exit_code = EXIT_FAILED;
        course_place(course, options->placement, nodes);
        if (course_fit(course, model.memory, &error)) {
            print_course(course, &model, format, out);
            exit_code = EXIT_DONE;
        }
    }
    if (exit_code != EXIT_DONE)
        fprintf(stderr, "error: %s\n", error.text);
    course_free(course);
    return exit_code;
}
