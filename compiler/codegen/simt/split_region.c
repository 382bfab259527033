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

/* One turn of the loop in each thread of the open loop. `part`: NULL, or which threads take it. */
static void walk_turn(Simt *s, const IrOp *op, LLVMValueRef turn, LLVMValueRef takes_part, const CarriedList *carried) {
    LLVMBuilderRef builder = s->e->builder;
    const IrBlock *body = op->regions.items[0];
    LLVMValueRef step = simt_scalar(s, op->operands.items[2]);
    SimtBranch branch = simt_branch_begin(s, takes_part);
    simt_set(s, body->args.items[0], LLVMBuildAdd(builder, simt_scalar(s, op->operands.items[0]), LLVMBuildMul(builder, turn, step, ""), ""));
    get_carried(s, carried, body->args.items + 1);
    s->depth++;
    simt_block(s, body);
    s->depth--;
    put_carried(s, carried, body->last->operands.items);
    simt_branch_end(s, &branch, NULL);
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
    for (int part = 0; part < 2; part++) {
        Loop loop = loop_begin(e, bounds[part], bounds[part + 1]);
        split_open(s);
        LLVMValueRef takes_part = part ? LLVMBuildICmp(e->builder, LLVMIntSLT, loop.index, turns, "") : NULL;
        walk_turn(s, op, loop.index, takes_part, &carried);
        split_close(s);
        loop_end(e, &loop, LOOP_SCALAR);
    }
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

static bool has_walk(const IrOp *op) {
    for (int r = 0; r < op->regions.count; r++)
        if (split_has_walk(op->regions.items[r]))
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
    else if (meeting != MEETS_NONE || (has_uniform_control(s, op) && has_walk(op)))
        split_control(s, op);
    else if (split_is_walk(op))
        walk(s, op);
    else
        return false;
    return true;
}
