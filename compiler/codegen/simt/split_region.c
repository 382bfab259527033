/* Loops and branches around loops over threads. Their control is the same in all threads that run now, and stands outside of those loops; what they
 * carry lies in a variable where all threads have the same, else in a slot. A `for` without meetings in which threads walk memory side by side is
 * turned inside out: the threads take a turn, then the next one, so that neighbours become lanes of vectors. */
#include "compiler/codegen/simt/split.h"

/* ---- carried values ---- */

/* A value, by register: where it lies between turns, or from a branch to what follows. */
typedef struct Carried {
    const IrValue *value;
    bool uniform;
    LLVMTypeRef type;
    LLVMValueRef *places; /* variables or slots */
} Carried;

typedef struct CarriedList {
    Carried *items;
    int count;
} CarriedList;

static CarriedList carry(Simt *s, IrValue *const *values, int count, bool in_slots) {
    CarriedList list = {NEW_ARRAY(s->e->context->arena, Carried, count + 1), count};
    for (int i = 0; i < count; i++) {
        Carried *carried = &list.items[i];
        *carried = (Carried){
            .value = values[i], .uniform = !in_slots && s->split->uniform[values[i]->id], .type = value_type(s->e, values[i]->type->scalar)};
        carried->places = simt_registers(s, simt_count(values[i]->type));
        for (int r = 0; r < simt_count(values[i]->type); r++)
            carried->places[r] = carried->uniform ? split_variable(s, carried->type) : split_slot(s, carried->type);
    }
    return list;
}

static LLVMValueRef register_of(const Simt *s, const IrValue *value, int index) {
    return value->type->kind == TYPE_TILE ? simt_tile(s, value)[index] : simt_scalar(s, value);
}

/* In the open loop. */
static void put_carried(Simt *s, const CarriedList *list, IrValue *const *sources) {
    for (int i = 0; i < list->count; i++)
        for (int r = 0; r < simt_count(list->items[i].value->type); r++) {
            LLVMValueRef value = register_of(s, sources[i], r);
            if (list->items[i].uniform)
                LLVMBuildStore(s->e->builder, value, list->items[i].places[r]);
            else
                split_put(s, list->items[i].places[r], value);
        }
}

/* In the open loop, which is new; `values` take them over. */
static void get_carried(Simt *s, const CarriedList *list, IrValue *const *values) {
    for (int i = 0; i < list->count; i++) {
        const Carried *carried = &list->items[i];
        int count = simt_count(carried->value->type);
        LLVMValueRef *registers = simt_registers(s, count);
        for (int r = 0; r < count; r++) {
            if (!carried->uniform) {
                registers[r] = split_get(s, carried->places[r], carried->type);
                continue;
            }
            split_step_out(s);
            registers[r] = LLVMBuildLoad2(s->e->builder, carried->type, carried->places[r], "");
            split_step_in(s);
        }
        s->values[values[i]->id] = registers;
    }
}

/* A value of the open loop that all its threads have: a variable, for use outside. */
static LLVMValueRef common(Simt *s, LLVMValueRef value) {
    LLVMValueRef variable = split_variable(s, LLVMTypeOf(value));
    LLVMBuildStore(s->e->builder, value, variable);
    return variable;
}

static LLVMValueRef load(Simt *s, LLVMTypeRef type, LLVMValueRef variable) {
    return LLVMBuildLoad2(s->e->builder, type, variable, "");
}

/* ---- with meetings ---- */

static void split_for(Simt *s, const IrOp *op) {
    Emitter *e = s->e;
    const IrBlock *body = op->regions.items[0];
    int count = op->results.count;
    LLVMValueRef start = simt_scalar(s, op->operands.items[0]), step = simt_scalar(s, op->operands.items[2]);
    LLVMValueRef kept[3] = {common(s, start), common(s, step), common(s, emit_trip_count(e, start, simt_scalar(s, op->operands.items[1]), step))};
    CarriedList carried = carry(s, body->args.items + 1, count, false);
    put_carried(s, &carried, op->operands.items + 3);
    split_close(s);
    for (int i = 0; i < 3; i++)
        kept[i] = load(s, e->i64, kept[i]);
    Loop turns = loop_begin(e, emit_int_const(e, 0), kept[2]);
    LLVMValueRef index = LLVMBuildAdd(e->builder, kept[0], LLVMBuildMul(e->builder, turns.index, kept[1], ""), "");
    split_open(s);
    simt_set(s, body->args.items[0], index);
    get_carried(s, &carried, body->args.items + 1);
    simt_block(s, body);
    put_carried(s, &carried, body->last->operands.items);
    split_close(s);
    loop_end(e, &turns, LOOP_SCALAR);
    split_open(s);
    get_carried(s, &carried, op->results.items);
}

static void split_while(Simt *s, const IrOp *op) {
    Emitter *e = s->e;
    const IrBlock *test = op->regions.items[0], *body = op->regions.items[1];
    CarriedList carried = carry(s, body->args.items, op->results.count, false);
    put_carried(s, &carried, op->operands.items);
    split_close(s);
    LLVMBasicBlockRef header = block_append(e, "while"), inside = block_append(e, "do"), after = block_append(e, "end");
    LLVMBuildBr(e->builder, header);

    LLVMPositionBuilderAtEnd(e->builder, header);
    split_open(s);
    get_carried(s, &carried, test->args.items);
    simt_block(s, test);
    LLVMValueRef goes_on = common(s, simt_scalar(s, test->last->operands.items[0]));
    split_close(s);
    LLVMBuildCondBr(e->builder, load(s, e->i1, goes_on), inside, after);

    LLVMPositionBuilderAtEnd(e->builder, inside);
    split_open(s);
    get_carried(s, &carried, body->args.items);
    simt_block(s, body);
    put_carried(s, &carried, body->last->operands.items);
    split_close(s);
    loop_close(e, header, LOOP_SCALAR);

    LLVMPositionBuilderAtEnd(e->builder, after);
    split_open(s);
    get_carried(s, &carried, op->results.items);
}

static void split_if(Simt *s, const IrOp *op) {
    Emitter *e = s->e;
    LLVMValueRef condition = common(s, simt_scalar(s, op->operands.items[0]));
    CarriedList results = carry(s, op->results.items, op->results.count, false);
    split_close(s);
    LLVMBasicBlockRef branches[2] = {block_append(e, "then"), block_append(e, "else")}, after = block_append(e, "end");
    LLVMBuildCondBr(e->builder, load(s, e->i1, condition), branches[0], branches[1]);
    for (int r = 0; r < 2; r++) {
        LLVMPositionBuilderAtEnd(e->builder, branches[r]);
        split_open(s);
        simt_block(s, op->regions.items[r]);
        put_carried(s, &results, op->regions.items[r]->last->operands.items);
        split_close(s);
        LLVMBuildBr(e->builder, after);
    }
    LLVMPositionBuilderAtEnd(e->builder, after);
    split_open(s);
    get_carried(s, &results, op->results.items);
}

static void split_control(Simt *s, const IrOp *op) {
    if (op->kind == OP_FOR)
        split_for(s, op);
    else if (op->kind == OP_WHILE)
        split_while(s, op);
    else
        split_if(s, op);
}

/* Warp by warp, as each may take another way. */
static void split_by_warps(Simt *s, const IrOp *op) {
    Emitter *e = s->e;
    Split *split = s->split;
    split_close(s);
    Loop warps = loop_begin(e, emit_int_const(e, 0), emit_int_const(e, s->warps));
    int count = split->count;
    LLVMValueRef first = split->first;
    split->count = 1 << LAYOUT_LANES;
    split->first = LLVMBuildMul(e->builder, LLVMBuildTrunc(e->builder, warps.index, e->i32, ""), simt_int(s, split->count), "");
    split->in_warp = true;
    split_open(s);
    CarriedList results = carry(s, op->results.items, op->results.count, true);
    split_control(s, op);
    put_carried(s, &results, op->results.items);
    split_close(s);
    split->in_warp = false;
    split->count = count;
    split->first = first;
    loop_end(e, &warps, LOOP_SCALAR);
    split_open(s);
    get_carried(s, &results, op->results.items);
}

/* ---- without ---- */

/* Emits `value` and what it needs of the loop's body. */
static void need(Simt *s, const IrOp *loop, const IrValue *value) {
    if (!value->def || !ir_is_inside(value, loop))
        return;
    for (int i = 0; i < value->def->operands.count; i++)
        need(s, loop, value->def->operands.items[i]);
    simt_op(s, value->def);
}

static bool is_access(const IrOp *op) {
    return op->kind == OP_LOAD || op->kind == OP_STORE;
}

/* i1: the elements that the thread at hand accesses in this turn exist, those under branches not counted. */
static LLVMValueRef all_exist(Simt *s, const IrOp *loop) {
    Emitter *e = s->e;
    LLVMValueRef exist = LLVMConstInt(e->i1, 1, false);
    for (const IrOp *op = loop->regions.items[0]->first; op; op = op->next) {
        if (!is_access(op))
            continue;
        bool is_remote;
        const IrValue *memory = ir_is_tensor_access(op) ? op->operands.items[0] : ir_memory(op, &is_remote);
        for (int axis = 0; axis < memory->type->rank; axis++) {
            const IrValue *offset = op->operands.items[1 + axis];
            need(s, loop, offset);
            LLVMValueRef extent =
                ir_is_tensor_access(op) ? s->launch.tensors[access_param(op)].extent[axis] : emit_int_const(e, tile_extent(memory->type, axis));
            exist = LLVMBuildAnd(e->builder, exist, LLVMBuildICmp(e->builder, LLVMIntULT, simt_scalar(s, offset), extent, ""), "");
        }
    }
    return exist;
}

static void set_index(Simt *s, const IrOp *op, LLVMValueRef turn) {
    LLVMBuilderRef builder = s->e->builder;
    LLVMValueRef way = LLVMBuildMul(builder, turn, simt_scalar(s, op->operands.items[2]), "");
    simt_set(s, op->regions.items[0]->args.items[0], LLVMBuildAdd(builder, simt_scalar(s, op->operands.items[0]), way, ""));
}

/* Outside of loops, i1: do the elements exist that the threads access in this turn? Where they do for the first and the last thread they do for all,
 * as offsets stay or grow by one from thread to thread. Loads under a mask are slow: the processor does not fetch ahead of them. */
static LLVMValueRef ends_exist(Simt *s, const IrOp *op, LLVMValueRef turn) {
    Emitter *e = s->e;
    Split *split = s->split;
    LLVMValueRef exist = split_variable(s, e->i1), first = split->first;
    int count = split->count;
    split->count = 1;
    LLVMBuildStore(e->builder, LLVMConstInt(e->i1, 1, false), exist);
    for (int end = 0; end < 2; end++) {
        split->first = end ? LLVMBuildAdd(e->builder, first, simt_int(s, count - 1), "") : first;
        split_open(s);
        set_index(s, op, turn);
        LLVMBuildStore(e->builder, LLVMBuildAnd(e->builder, load(s, e->i1, exist), all_exist(s, op), ""), exist);
        split_close(s);
    }
    split->first = first;
    split->count = count;
    return load(s, e->i1, exist);
}

/* One turn of the loop in each thread, by a loop over them. `turns`: NULL, or how many the thread at hand takes. */
static void walk_turn(Simt *s, const IrOp *op, LLVMValueRef turn, LLVMValueRef turns, bool in_bounds, const CarriedList *carried) {
    const IrBlock *body = op->regions.items[0];
    split_open(s);
    SimtBranch branch = simt_branch_begin(s, turns ? LLVMBuildICmp(s->e->builder, LLVMIntSLT, turn, turns, "") : NULL);
    set_index(s, op, turn);
    get_carried(s, carried, body->args.items + 1);
    s->depth++;
    s->in_bounds = in_bounds ? s->depth : 0;
    simt_block(s, body);
    s->in_bounds = 0;
    s->depth--;
    put_carried(s, carried, body->last->operands.items);
    simt_branch_end(s, &branch, NULL);
    split_close(s);
}

static void walk_all(Simt *s, const IrOp *op, LLVMValueRef turn, const CarriedList *carried) {
    Emitter *e = s->e;
    LLVMBasicBlockRef inside = block_append(e, "inside"), edge = block_append(e, "edge"), next = NULL;
    LLVMBuildCondBr(e->builder, ends_exist(s, op, turn), inside, edge);
    for (int in_bounds = 1; in_bounds >= 0; in_bounds--) {
        LLVMPositionBuilderAtEnd(e->builder, in_bounds ? inside : edge);
        walk_turn(s, op, turn, NULL, in_bounds, carried);
        next = next ? next : block_append(e, "next");
        LLVMBuildBr(e->builder, next);
    }
    LLVMPositionBuilderAtEnd(e->builder, next);
}

/* As many turns as every thread takes, then those that some do not. */
static void walk(Simt *s, const IrOp *op) {
    Emitter *e = s->e;
    LLVMValueRef start = simt_scalar(s, op->operands.items[0]), step = simt_scalar(s, op->operands.items[2]);
    LLVMValueRef turns = emit_trip_count(e, start, simt_scalar(s, op->operands.items[1]), step);
    CarriedList carried = carry(s, op->regions.items[0]->args.items + 1, op->results.count, true);
    LLVMValueRef least = split_variable(s, e->i64), most = split_variable(s, e->i64);
    split_step_out(s);
    LLVMBuildStore(e->builder, emit_int_const(e, INT64_MAX), least);
    LLVMBuildStore(e->builder, emit_int_const(e, 0), most);
    split_step_in(s);
    LLVMBuildStore(e->builder, emit_min(e, load(s, e->i64, least), turns), least);
    LLVMBuildStore(e->builder, emit_max(e, load(s, e->i64, most), turns), most);
    put_carried(s, &carried, op->operands.items + 3);
    split_close(s);

    LLVMValueRef bounds[3] = {emit_int_const(e, 0), load(s, e->i64, least), load(s, e->i64, most)};
    Loop all = loop_begin(e, bounds[0], bounds[1]);
    walk_all(s, op, all.index, &carried);
    loop_end(e, &all, LOOP_SCALAR);
    Loop some = loop_begin(e, bounds[1], bounds[2]);
    walk_turn(s, op, some.index, turns, false, &carried);
    loop_end(e, &some, LOOP_SCALAR);
    split_open(s);
    get_carried(s, &carried, op->results.items);
}

/* ---- which ---- */

static bool has_uniform_control(const Simt *s, const IrOp *op) {
    const bool *uniform = s->split->uniform;
    int count = op->kind == OP_FOR ? 3 : 1;
    if (op->kind == OP_WHILE)
        return uniform[op->regions.items[0]->last->operands.items[0]->id];
    for (int i = 0; i < count; i++)
        if (!ir_is_param(op->operands.items[i]) && !uniform[op->operands.items[i]->id])
            return false;
    return true;
}

static bool has_walk(const Simt *s, const IrOp *op) {
    for (int r = 0; r < op->regions.count; r++)
        if (split_has_walk(s->split->uniform, op->regions.items[r]))
            return true;
    return false;
}

bool split_region(Simt *s, const IrOp *op) {
    Meeting meeting = MEETS_NONE;
    for (int r = 0; r < op->regions.count; r++) {
        Meeting inside = split_meeting(op->regions.items[r]);
        meeting = inside > meeting ? inside : meeting;
    }
    bool uniform = s->split->in_warp || has_uniform_control(s, op);
    if (meeting == MEETS_WARP && !uniform)
        split_by_warps(s, op);
    else if (meeting != MEETS_NONE || (has_uniform_control(s, op) && has_walk(s, op)))
        split_control(s, op);
    else if (split_is_walk(s->split->uniform, op))
        walk(s, op);
    else
        return false;
    return true;
}
