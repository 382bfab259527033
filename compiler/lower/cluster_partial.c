/* Loops whose range may be divided into parts, each with a sum of its own: --split-k. All that such a loop carries are sums that start at 0. Two more
 * kernels, helpers, begin a partial sum and add one to another; the planner says which buffer stands for which argument. */
#include "compiler/lower/stage.h"

/* Every bit of every element is 0. */
static bool is_zero(const IrValue *value) {
    while (value->def && value->def->kind == OP_BROADCAST)
        value = value->def->operands.items[0];
    return value->def && value->def->kind == OP_CONST && value->def->bits == 0;
}

static const char *home_name(const Staging *s, int home) {
    const Home *at = &s->homes.items[home];
    if (!at->store)
        return s->split->result->states.items[at->state].name;
    return split_text(s->split, "the sum in '%s'", s->split->kernel->signature.params.items[at->store->operands.items[0]->index].name);
}

static const char *why_whole(const Staging *s, const Part *part) {
    const ClusterKernel *result = s->split->result;
    for (int i = 0; i < part->first->results.count; i++) {
        const char *name = home_name(s, part->homes[i]);
        if (!is_sum(part->first, i))
            return split_text(s->split, "%s is no sum", name);
        if (!is_zero(part->first->operands.items[3 + i]))
            return split_text(s->split, "%s does not start at 0", name);
    }
    if (result->tensors.count + result->states.count + part->first->results.count > PHB_MAX_PARAMS)
        return split_text(s->split, "the kernel has no more than %d tensors and states, partial sums among them", PHB_MAX_PARAMS);
    return NULL;
}

void find_partial_sums(Staging *s, int part) {
    Context *context = s->split->context;
    ClusterKernel *result = s->split->result;
    Part *at = &s->parts.items[part];
    at->is_divisible = at->first->results.count > 0 && !why_whole(s, at);
    if (!at->is_divisible)
        return;
    for (int i = 0; i < at->first->results.count; i++) {
        Home *home = &s->homes.items[at->homes[i]];
        int param = home->store ? home->store->operands.items[0]->index : -1, of = result->tensors.count + home->state;
        ClusterState state = {.name = arena_printf(context->arena, "partial sums of %s", home_name(s, at->homes[i]))};
        state.type = home->store ? s->split->kernel->signature.params.items[param].type : result->states.items[home->state].type;
        for (int t = 0; home->store && t < result->tensors.count; t++)
            of = result->tensors.items[t].param == param ? t : of;
        state.partial_of = of;
        home->partial = s->homes.count;
        Home partial = {.store = home->store, .state = result->states.count, .is_partial = true};
        vec_push(context->arena, &result->states, state);
        vec_push(context->arena, &s->homes, partial);
    }
}

/* ---- helpers ---- */

static int add_helper(Staging *s, IrKernel *kernel, const Part *part, bool merges) {
    Context *context = s->split->context;
    ClusterKernel *result = s->split->result;
    int count = result->tensors.count + result->states.count;
    ClusterStage helper = {.loop = -1, .kernel = kernel, .modes = NEW_ARRAY(context->arena, int8_t, count + 1)};
    ir_dce(context, kernel);
    for (int k = 0; k < count; k++)
        helper.modes[k] = PHB_UNUSED;
    for (int i = 0; i < part->first->results.count; i++) {
        int partial = s->homes.items[s->homes.items[part->homes[i]].partial].state;
        helper.modes[result->states.items[partial].partial_of] = merges ? PHB_READ_WRITE : PHB_WRITE;
        if (merges)
            helper.modes[result->tensors.count + partial] = PHB_READ;
    }
    vec_push(context->arena, &result->stages, helper);
    result->helper_count++;
    return result->stages.count - 1;
}

void add_helpers(Staging *s, int part) {
    const Part *at = &s->parts.items[part];
    ClusterKernel *result = s->split->result;
    if (at->stage < 0)
        return;
    if (!at->is_divisible) {
        result->stages.items[at->stage].whole = why_whole(s, at);
        return;
    }
    int clear = add_helper(s, leaf_make_clear(s, part), at, false), merge = add_helper(s, leaf_make_merge(s, part), at, true);
    result->stages.items[at->stage].clear = clear;
    result->stages.items[at->stage].merge = merge;
}
