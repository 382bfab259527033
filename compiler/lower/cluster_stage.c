/* What runs in which leaf of a unit of work: the kernel cut at its cluster loops. Requires a kernel that the checks have accepted, and leaves it as it
 * is.
 *
 * The top of the kernel is parts: straight code, a cluster loop, straight code, .. A part becomes a stage if it stores or keeps anything. What a part
 * needs of an earlier one is computed again where that gives the same value: pure ops, and loads of tensors that nothing has stored to since. Other
 * values, results of control flow and what cluster loops carry, have a home: a state, or for a sum that is stored once, as it is, the output's own
 * super-tile. */
#include "compiler/lower/stage.h"

/* ---- parts ---- */

static void add_part(Staging *s, IrOp *first, IrOp *end, bool is_loop) {
    for (IrOp *op = first; op != end; op = op->next)
        for (int i = 0; i < op->results.count; i++)
            s->part_of[op->results.items[i]->id] = s->parts.count;
    int *homes = is_loop ? NEW_ARRAY(s->split->context->arena, int, first->results.count + 1) : NULL;
    vec_push(s->split->context->arena, &s->parts, (Part){.first = first, .end = end, .is_loop = is_loop, .homes = homes, .stage = -1});
}

static void find_parts(Staging *s) {
    IrOp *first = s->split->kernel->body->first;
    for (IrOp *op = first; op; op = op->next) {
        if (loop_axis(s->split, op) < 0)
            continue;
        add_part(s, first, op, false);
        add_part(s, op, op->next, true);
        first = op->next;
    }
    add_part(s, first, NULL, false);
}

static bool is_top(const IrValue *value) {
    return value->def && !value->def->parent->owner;
}

/* ---- which values are kept ---- */

static bool stores_to(const IrOp *op, const IrValue *tensor) {
    if ((op_info[op->kind].traits & TRAIT_WRITES) && op->operands.items[0] == tensor)
        return true;
    for (int i = 0; i < op->regions.count; i++)
        for (const IrOp *inner = op->regions.items[i]->first; inner; inner = inner->next)
            if (stores_to(inner, tensor))
                return true;
    return false;
}

/* A loop runs again after its own stores. */
static bool is_stored_before(const IrOp *load, const Part *part) {
    const IrOp *end = part->is_loop ? part->end : part->first;
    for (const IrOp *op = load; op != end; op = op->next)
        if (stores_to(op, load->operands.items[0]))
            return true;
    return false;
}

static bool is_recomputed(const Staging *s, const IrOp *op, int part) {
    return (op_info[op->kind].traits & TRAIT_PURE) ||
           (op->kind == OP_LOAD && ir_is_tensor_access(op) && !is_stored_before(op, &s->parts.items[part]));
}

/* `part` needs the value, which may be from before it. */
static void demand(Staging *s, const IrValue *value, int part) {
    if (!is_top(value) || s->part_of[value->id] == part || s->demanded[value->id] == part + 1)
        return;
    s->demanded[value->id] = part + 1;
    if (!is_recomputed(s, value->def, part)) {
        s->kept[value->id] = true;
        s->last_use[value->id] = part;
        return;
    }
    for (int i = 0; i < value->def->operands.count; i++)
        demand(s, value->def->operands.items[i], part);
}

static void demand_operands(Staging *s, const IrOp *op, int part) {
    for (int i = 0; i < op->operands.count; i++)
        demand(s, op->operands.items[i], part);
    for (int i = 0; i < op->regions.count; i++)
        for (const IrOp *inner = op->regions.items[i]->first; inner; inner = inner->next)
            demand_operands(s, inner, part);
}

/* The part before a loop needs what it begins with; its bounds are made anew. */
static void find_kept(Staging *s) {
    for (int part = 0; part < s->parts.count; part++) {
        const Part *at = &s->parts.items[part];
        if (at->is_loop) {
            for (const IrOp *op = at->first->regions.items[0]->first; op; op = op->next)
                demand_operands(s, op, part);
            continue;
        }
        for (const IrOp *op = at->first; op != at->end; op = op->next)
            demand_operands(s, op, part);
        const IrOp *loop = part + 1 < s->parts.count ? s->parts.items[part + 1].first : NULL;
        for (int i = 3; loop && i < loop->operands.count; i++)
            demand(s, loop->operands.items[i], part);
    }
}

/* ---- sums that live in an output ---- */

typedef struct Uses {
    const IrOp *op; /* the last one found */
    int operand, count;
} Uses;

static void find_uses(const IrBlock *block, const IrValue *value, Uses *uses) {
    for (const IrOp *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->operands.count; i++)
            if (op->operands.items[i] == value)
                *uses = (Uses){op, i, uses->count + 1};
        for (int i = 0; i < op->regions.count; i++)
            find_uses(op->regions.items[i], value, uses);
    }
}

/* Element by element, the loop adds to the carried value and does nothing else with it: nobody misses what the output's edge drops of it. */
bool is_sum(const IrOp *loop, int carried) {
    const IrBlock *body = loop->regions.items[0];
    const IrValue *value = body->args.items[1 + carried];
    for (;;) {
        Uses uses = {0};
        find_uses(body, value, &uses);
        if (uses.count != 1 || uses.op->parent != body)
            return false;
        if (uses.op->kind == OP_YIELD)
            return uses.operand == carried;
        if (uses.op->kind == OP_FOR && uses.operand >= 3 && is_sum(uses.op, uses.operand - 3)) {
            value = uses.op->results.items[uses.operand - 3];
            continue;
        }
        bool is_dot = (uses.op->kind == OP_DOT || uses.op->kind == OP_DOT_T) && uses.operand == 2;
        if (uses.op->kind != OP_ADD && !is_dot)
            return false;
        value = uses.op->results.items[0];
    }
}

/* Computed from positions alone, so that every stage can. */
static bool is_position(const IrValue *value) {
    if (!value->def)
        return ir_is_param(value);
    if (!(op_info[value->def->kind].traits & TRAIT_PURE))
        return false;
    for (int i = 0; i < value->def->operands.count; i++)
        if (!is_position(value->def->operands.items[i]))
            return false;
    return true;
}

static bool is_whole_output(const Split *split, const IrOp *store) {
    for (int i = 0; i < split->accesses.count; i++)
        if (split->accesses.items[i].param == store->operands.items[0]->index && split->accesses.items[i].op != store)
            return false;
    for (int k = 0; k < store->operands.items[0]->type->rank; k++)
        if (!is_position(store->operands.items[1 + k]))
            return false;
    return true;
}

/* The store that takes the carried value as it is, through further loops that add to it, and is the output's only access; or NULL. */
static const IrOp *find_output(const Staging *s, const IrOp *loop, int carried) {
    for (;;) {
        Uses uses = {0};
        find_uses(s->split->kernel->body, loop->results.items[carried], &uses);
        if (uses.count != 1 || uses.op->parent->owner || !is_sum(loop, carried))
            return NULL;
        if (uses.op->kind == OP_STORE)
            return uses.operand == uses.op->operands.count - 1 && is_whole_output(s->split, uses.op) ? uses.op : NULL;
        if (loop_axis(s->split, uses.op) < 0 || uses.operand < 3)
            return NULL;
        loop = uses.op;
        carried = uses.operand - 3;
    }
}

/* ---- homes ---- */

static int new_home(Staging *s, const Type *type, Span span, const IrOp *store) {
    Context *context = s->split->context;
    ClusterKernel *result = s->split->result;
    Home home = {.store = store, .state = result->states.count};
    if (!store) {
        const char *name = arena_printf(context->arena, "state %d (line %u)", home.state, span.line);
        vec_push(context->arena, &result->states, (ClusterState){name, state_type(s, type), -1});
    }
    vec_push(context->arena, &s->homes, home);
    return s->homes.count - 1;
}

static bool is_claimed(const Part *part, int carried, int home) {
    for (int i = 0; i < carried; i++)
        if (part->homes[i] == home)
            return true;
    return false;
}

/* A loop that begins with what an earlier one left goes on in the same home, if nobody needs the old value any more. */
static int home_of_carried(Staging *s, int part, int carried) {
    const Part *at = &s->parts.items[part];
    const IrValue *initial = at->first->operands.items[3 + carried];
    int inherited = is_top(initial) && s->parts.items[s->part_of[initial->id]].is_loop ? s->home[initial->id] : -1;
    if (inherited >= 0 && s->last_use[initial->id] < part && !is_claimed(at, carried, inherited))
        return inherited;
    return new_home(s, initial->type, at->first->span, find_output(s, at->first, carried));
}

static void find_homes(Staging *s) {
    for (int part = 0; part < s->parts.count; part++) {
        const Part *at = &s->parts.items[part];
        if (at->is_loop) {
            for (int i = 0; i < at->first->results.count; i++)
                s->home[at->first->results.items[i]->id] = at->homes[i] = home_of_carried(s, part, i);
            continue;
        }
        for (const IrOp *op = at->first; op != at->end; op = op->next)
            for (int i = 0; i < op->results.count; i++)
                if (s->kept[op->results.items[i]->id])
                    s->home[op->results.items[i]->id] = new_home(s, op->results.items[i]->type, op->span, NULL);
    }
}

/* ---- stages ---- */

/* What straight code leaves for later parts, and for the loop behind it. */
static SavedList saved_by(const Staging *s, int part) {
    Arena *arena = s->split->context->arena;
    const Part *at = &s->parts.items[part], *next = part + 1 < s->parts.count ? at + 1 : NULL;
    SavedList saved = {0};
    for (const IrOp *op = at->first; op != at->end; op = op->next)
        for (int i = 0; i < op->results.count; i++)
            if (s->kept[op->results.items[i]->id])
                vec_push(arena, &saved, (Saved){op->results.items[i], s->home[op->results.items[i]->id]});
    for (int i = 0; next && i < next->first->results.count; i++) {
        const IrValue *initial = next->first->operands.items[3 + i];
        bool is_there = is_top(initial) && s->parts.items[s->part_of[initial->id]].is_loop && s->home[initial->id] == next->homes[i];
        if (!is_there)
            vec_push(arena, &saved, (Saved){initial, next->homes[i]});
    }
    return saved;
}

static void find_accesses(const IrBlock *block, bool *loaded, bool *stored) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (ir_is_tensor_access(op)) {
            loaded[op->operands.items[0]->index] |= op->kind != OP_STORE;
            stored[op->operands.items[0]->index] |= is_store(op);
        }
        for (int i = 0; i < op->regions.count; i++)
            find_accesses(op->regions.items[i], loaded, stored);
    }
}

/* A tensor that the kernel writes is first touched by a store; from then on a stage that stores adds to what is there. */
static PhbMode stage_mode(const Staging *s, PhbMode whole, int tensor, bool loads, bool stores) {
    if (!stores)
        return loads ? PHB_READ : (PhbMode)PHB_UNUSED;
    if (whole != PHB_WRITE)
        return PHB_READ_WRITE;
    const ClusterKernel *result = s->split->result;
    for (int i = 0; i < result->stages.count; i++)
        if (result->stages.items[i].modes[tensor] != PHB_UNUSED)
            return PHB_READ_WRITE;
    return PHB_WRITE;
}

static void add_stage(Staging *s, int part) {
    Context *context = s->split->context;
    ClusterKernel *result = s->split->result;
    const Part *at = &s->parts.items[part];
    SavedList saved = {0};
    if (!at->is_loop)
        saved = saved_by(s, part);
    ClusterStage stage = {.loop = at->is_loop ? loop_axis(s->split, at->first) - FIRST_LOOP : -1, .kernel = leaf_make(s, part, &saved)};
    ir_dce(context, stage.kernel);
    int params = stage.kernel->signature.params.count, index = 0;
    bool *loaded = NEW_ARRAY(context->arena, bool, params), *stored = NEW_ARRAY(context->arena, bool, params), any = false;
    find_accesses(stage.kernel->body, loaded, stored);
    stage.modes = NEW_ARRAY(context->arena, int8_t, result->tensors.count + result->states.count + 1);
    for (int i = 0; i < params; i++) {
        any |= stored[i];
        if (stage.kernel->signature.params.items[i].type->kind != TYPE_TENSOR)
            continue;
        PhbMode whole = index < result->tensors.count ? result->tensors.items[index].mode : PHB_WRITE;
        stage.modes[index] = (int8_t)stage_mode(s, whole, index, loaded[i], stored[i]);
        index++;
    }
    if (!any && s->parts.count > 1)
        return;
    s->parts.items[part].stage = result->stages.count;
    vec_push(context->arena, &result->stages, stage);
}

static void refuse_states(Split *split, const IrOp *loop, int tensors, int states) {
    Refusal refusal = {
        .at = loop->span,
        .rule = split_text(split, "what cluster loops keep makes %d states, and a kernel has at most %d of them and tensors", states, PHB_MAX_PARAMS),
        .other = split->kernel->signature.span,
        .other_text = split_text(split, "it has %d tensors", tensors),
        .node = "variables live in the CTA, however many",
        .cluster = "each of them is a tensor of its own between stages",
        .edit = split_text(split, "carry %d fewer across the loop", tensors + states - PHB_MAX_PARAMS),
    };
    refuse(split, &refusal);
}

void make_stages(Split *split) {
    Arena *arena = split->context->arena;
    int count = split->value_count + 1;
    Staging s = {.split = split};
    s.part_of = NEW_ARRAY(arena, int, count);
    s.kept = NEW_ARRAY(arena, bool, count);
    s.home = NEW_ARRAY(arena, int, count);
    s.last_use = NEW_ARRAY(arena, int, count);
    s.demanded = NEW_ARRAY(arena, int, count);
    for (int i = 0; i < count; i++)
        s.home[i] = -1;
    find_threads(&s);
    find_parts(&s);
    find_kept(&s);
    find_homes(&s);
    int tensors = split->result->tensors.count, states = split->result->states.count;
    if (tensors + states > PHB_MAX_PARAMS) {
        refuse_states(split, s.parts.items[1].first, tensors, states);
        return;
    }
    for (int part = 0; part < s.parts.count; part++)
        if (s.parts.items[part].is_loop)
            find_partial_sums(&s, part);
    for (int part = 0; part < s.parts.count; part++)
        add_stage(&s, part);
    for (int part = 0; part < s.parts.count; part++)
        if (s.parts.items[part].is_loop)
            add_helpers(&s, part);
}
