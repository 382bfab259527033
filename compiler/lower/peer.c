/* The barriers that keep a CTA's shared memory there while its peers access it. Requires a kernel as lowered, without its `return`, in which arrive and
 * wait alternate on every path and end in step; leaves one in which every remote access has a cluster_wait before it and a cluster_arrive with its wait
 * after it: until a CTA runs it has no memory to access, and when it has ended none that is its own. */
#include "compiler/lower/ast_to_ir.h"

/* What may be true where the walk stands, on some path. */
typedef struct Peers {
    bool alone;    /* no cluster_wait has been passed: a peer may not have begun */
    bool accessed; /* remote accesses that no cluster_arrive has followed */
    Span span;     /* of one */
} Peers;

typedef struct PeerWalk {
    Span early; /* a remote access that a peer may not be there for; line 0: none */
} PeerWalk;

static Peers join(Peers a, Peers b) {
    return (Peers){a.alone || b.alone, a.accessed || b.accessed, a.accessed ? a.span : b.span};
}

static Peers walk_block(PeerWalk *walk, const IrBlock *block, Peers peers);

static Peers walk_access(PeerWalk *walk, const IrOp *op, Peers peers) {
    bool is_remote = false;
    ir_memory(op, &is_remote);
    if (!is_remote)
        return peers;
    if (peers.alone && walk->early.line == 0)
        walk->early = op->span;
    return (Peers){peers.alone, true, op->span};
}

/* Once round is enough for a later iteration: what a body leaves true, it leaves so again. */
static Peers walk_regions(PeerWalk *walk, const IrOp *op, Peers peers) {
    if (op->kind == OP_IF)
        return join(walk_block(walk, op->regions.items[0], peers), walk_block(walk, op->regions.items[1], peers));
    Peers after = peers;
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < op->regions.count; i++)
            after = join(after, walk_block(walk, op->regions.items[i], after));
    return after;
}

static Peers walk_block(PeerWalk *walk, const IrBlock *block, Peers peers) {
    for (const IrOp *op = block->first; op; op = op->next) {
        if (op->regions.count > 0)
            peers = walk_regions(walk, op, peers);
        else if (op_info[op->kind].attr == ATTR_SLICE)
            peers = walk_access(walk, op, peers);
        else if (op->kind == OP_CLUSTER_ARRIVE)
            peers.accessed = false;
        else if (op->kind == OP_CLUSTER_WAIT)
            peers.alone = false;
    }
    return peers;
}

static IrOp *append_meeting(Context *context, IrBlock *body, Span span) {
    IrOp *arrive = ir_append(context, body, OP_CLUSTER_ARRIVE, span, NULL, 0, NULL, 0);
    ir_append(context, body, OP_CLUSTER_WAIT, span, NULL, 0, NULL, 0);
    return arrive;
}

void add_peer_barriers(Context *context, IrKernel *kernel) {
    IrBlock *body = kernel->body;
    PeerWalk walk = {{0}};
    IrOp *first = body->first;
    Peers end = walk_block(&walk, body, (Peers){.alone = true});
    if (end.accessed)
        append_meeting(context, body, end.span);
    if (walk.early.line == 0)
        return;
    IrOp *arrive = append_meeting(context, body, walk.early), *wait = arrive->next;
    ir_insert_before(first, arrive);
    ir_insert_before(first, wait);
}
