/* How many registers the tiles of a kernel take that are alive at once. An estimate: code generation and assembler reorder, and keep scalars and
 * addresses beside them. Requires layouts. */
#include "compiler/layout/layout.h"

typedef struct Life {
    const IrValue *value;
    int first, last, uses; /* positions of the op that makes it and of the last that uses it; how many use it */
    bool is_stored;        /* one of these is a store */
} Life;

typedef struct Lives {
    Context *context;
    VEC(Life) lives;
    int *of; /* by IrValue.id: index into lives, -1: none */
    int next;
} Lives;

/* Not what a thread computes anew where it is needed, from scalars and its own place. */
static bool takes_registers(const Lives *l, const IrValue *value) {
    const IrOp *op = value->def;
    if (value->type->kind != TYPE_TILE || !value->type->layout)
        return false;
    if (!op || op->regions.count || !(op_info[op->kind].traits & TRAIT_PURE))
        return true;
    for (int i = 0; i < op->operands.count; i++)
        if (!ir_is_param(op->operands.items[i]) && l->of[op->operands.items[i]->id] >= 0)
            return op->kind != OP_BROADCAST;
    return false;
}

static void begin_life(Lives *l, const IrValue *value) {
    l->of[value->id] = -1;
    if (!takes_registers(l, value))
        return;
    l->of[value->id] = l->lives.count;
    Life life = {value, l->next, l->next, 0, false};
    vec_push(l->context->arena, &l->lives, life);
}

static void note_block(Lives *l, const IrBlock *block) {
    for (int i = 0; block->owner && i < block->args.count; i++)
        begin_life(l, block->args.items[i]);
    for (const IrOp *op = block->first; op; op = op->next) {
        int first = ++l->next, outside = l->lives.count;
        for (int i = 0; i < op->operands.count; i++)
            if (!ir_is_param(op->operands.items[i]) && l->of[op->operands.items[i]->id] >= 0) {
                Life *life = &l->lives.items[l->of[op->operands.items[i]->id]];
                life->last = first;
                life->uses++;
                life->is_stored |= op->kind == OP_STORE;
            }
        for (int r = 0; r < op->regions.count; r++)
            note_block(l, op->regions.items[r]);
        if (op->kind == OP_FOR || op->kind == OP_WHILE) /* what the loop uses of what was there before is used in its last turn, too */
            for (int i = 0; i < outside; i++)
                if (l->lives.items[i].last > first)
                    l->lives.items[i].last = l->next;
        for (int i = 0; i < op->results.count; i++)
            begin_life(l, op->results.items[i]);
    }
}

int layout_registers(const Type *type) {
    int bits = (1 << type->layout->registers) * dtype_bits(type->scalar);
    return bits > 32 ? bits / 32 : 1;
}

/* Without loops, what is loaded or computed element by element to be used once comes a few vectors at a time. But stores stay behind all loads before
 * them, of other tensors too: what is stored is there as a whole by then, and where it is much, leaves little beside it. */
static int registers_of(const Life *life, bool is_straight) {
    enum { STREAMED = 8, MUCH = 64 };
    const IrOp *op = life->value->def;
    int registers = layout_registers(life->value->type);
    bool by_element = op && (op->kind == OP_LOAD || (op->kind >= OP_ADD && op->kind <= OP_CONVERT)); /* as ops.def groups them */
    bool is_streamed = is_straight && life->uses == 1 && by_element && !(life->is_stored && registers >= MUCH);
    return is_streamed && registers > STREAMED ? STREAMED : registers;
}

static bool is_straight(const IrKernel *kernel) {
    bool is_straight = true;
    for (const IrOp *op = kernel->body->first; is_straight && op; op = op->next)
        is_straight = !op->regions.count;
    return is_straight;
}

int layout_pressure(Context *context, IrKernel *kernel) {
    bool straight = is_straight(kernel);
    Lives lives = {.context = context};
    lives.of = NEW_ARRAY(context->arena, int, ir_number(kernel) + 1);
    note_block(&lives, kernel->body);
    int *change = NEW_ARRAY(context->arena, int, lives.next + 2), most = 0, alive = 0;
    for (int i = 0; i < lives.lives.count; i++) {
        const Life *life = &lives.lives.items[i];
        change[life->first + 1] += registers_of(life, straight); /* an op's operands make room for its result */
        change[life->last + 1] -= registers_of(life, straight);
    }
    for (int at = 0; at <= lives.next; at++) {
        alive += change[at];
        most = alive > most ? alive : most;
    }
    return most;
}

int64_t layout_ctas(int registers, int threads) {
    enum { REGISTERS = 65536, MOST_OF_A_THREAD = 256, SCALARS = 32 };
    int64_t needed = registers + registers / 6 + SCALARS; /* tiles, values on their way, addresses and bounds */
    if (needed > MOST_OF_A_THREAD)
        needed = MOST_OF_A_THREAD;
    return needed * threads < REGISTERS ? REGISTERS / (needed * threads) : 1;
}
