/* What thread code asks of the launch: warps that are full, room for shared memory, a grid of whole thread-block clusters. What search dims or the job
 * decide is asked again when the kernel is launched. Changes nothing. */
#include "compiler/sema/check.h"

#include <inttypes.h>
#include <string.h>

enum { WARP = 32, SHARED_MOST = 232448 /* bytes a CTA, on any GPU up to SM90 */ };

static Span attribute_span(const Checker *checker, const char *name) {
    for (int i = 0; i < checker->decl->attrs.count; i++)
        if (strcmp(checker->decl->attrs.items[i].name, name) == 0)
            return checker->decl->attrs.items[i].span;
    return (Span){0};
}

static void check_warps(Checker *checker) {
    int64_t threads = checker->signature->launch_threads;
    if (checker->warp_use.line == 0 || threads % WARP == 0)
        return;
    diag_error(checker->context->diag, checker->warp_use, "operations of warps need whole warps: %" PRId64 " threads are no multiple of 32", threads);
    diag_note(checker->context->diag, attribute_span(checker, "launch"), "the CTA's threads are set here");
}

/* ---- shared memory ---- */

static bool is_in_memory(const int64_t *values, int count) {
    return values[0] >= 0 && values[0] <= values[1] - (count == 3 ? values[2] : 1);
}

bool check_shared_subscript(Checker *checker, const Symbol *memory, int axis, Span span, const Dim *at, const Dim *extent) {
    const Dim *dims[3] = {at, memory->type->dims[axis], extent};
    if (!dim_is_static(checker, at) || leaf_ask(checker, dims, extent ? 3 : 2, is_in_memory, NULL) != LEAF_NEVER)
        return true;
    diag_error(checker->context->diag, span, "this lies outside of '%s', whose axis %d has extent '%s'; shared memory has no edge to reach over", memory->name,
        axis, dim_text(checker, memory->type->dims[axis]));
    diag_note(checker->context->diag, memory->span, "'%s' is declared here", memory->name);
    return false;
}

static const Dim *memory_bytes(Checker *checker, const Type *type) {
    DimPool *dims = checker->context->dims;
    const Dim *bytes = dim_int(dims, dtype_bits(type->scalar) / 8);
    for (int i = 0; bytes && i < type->rank; i++)
        bytes = dim_op(dims, PHB_EXPR_MUL, bytes, type->dims[i]);
    return bytes;
}

static bool fits(const int64_t *values, int count) {
    return count == 1 && values[0] <= SHARED_MOST;
}

/* Assignments that need more than there is are dropped; where all do, no code is left. */
static void check_shared_memory(Checker *checker) {
    DimPool *dims = checker->context->dims;
    const Dim *total = dim_int(dims, 0);
    for (int i = 0; i < checker->shared.count; i++) {
        const Symbol *memory = checker->shared.items[i];
        const Dim *bytes = memory_bytes(checker, memory->type);
        total = total && bytes ? dim_op(dims, PHB_EXPR_ADD, total, bytes) : NULL;
        if (total && leaf_ask(checker, &total, 1, fits, NULL) != LEAF_NEVER)
            continue;
        diag_error(checker->context->diag, memory->span, "with '%s' the kernel has %s bytes of shared memory; a CTA has at most %d", memory->name,
            total ? dim_text(checker, total) : "2^63 or more", SHARED_MOST);
        if (i > 0)
            diag_note(checker->context->diag, checker->shared.items[0]->span, "the first of its memories is declared here");
        return;
    }
}

/* ---- thread-block clusters ---- */

static bool is_rank(const int64_t *values, int count) {
    int64_t ctas = 1;
    for (int i = 1; i < count; i++)
        ctas *= values[i];
    return values[0] >= 0 && values[0] < ctas;
}

bool check_remote_rank(Checker *checker, Span span, const Dim *rank) {
    const Signature *signature = checker->signature;
    const Dim *dims[4] = {rank, signature->cluster_dims[0], signature->cluster_dims[1], signature->cluster_dims[2]};
    if (!dim_is_static(checker, rank) || leaf_ask(checker, dims, dims[1] ? 4 : 1, is_rank, NULL) != LEAF_NEVER)
        return true;
    diag_error(checker->context->diag, span, "the thread-block cluster has no CTA of rank '%s'; ranks count its CTAs from 0", dim_text(checker, rank));
    if (dims[1])
        diag_note(checker->context->diag, signature->cluster_dims_span, "its CTAs are set here");
    else
        diag_note(checker->context->diag, signature->span, "the kernel has no @cluster_dims, so that each CTA is a cluster");
    return false;
}

static bool is_whole(const int64_t *values, int count) {
    return count == 2 && values[0] % values[1] == 0;
}

static void check_cluster_grid(Checker *checker) {
    const Signature *signature = checker->signature;
    for (int axis = 0; axis < 3 && signature->cluster_dims[0]; axis++) {
        const GridAxis *grid = &signature->grid[axis];
        int count = grid->counts.count;
        for (int i = 0; i < (count ? count : 1); i++) {
            const Dim *dims[2] = {count ? grid->counts.items[i] : dim_int(checker->context->dims, 1), signature->cluster_dims[axis]};
            if (!dim_is_static(checker, dims[0]) || leaf_ask(checker, dims, 2, is_whole, NULL) != LEAF_NEVER)
                continue;
            diag_error(checker->context->diag, signature->cluster_dims_span,
                "the launch grid has '%s' CTAs along %c, which is no multiple of the thread-block cluster's '%s'", dim_text(checker, dims[0]), "xyz"[axis],
                dim_text(checker, dims[1]));
            diag_note(checker->context->diag, count ? grid->spans.items[i] : signature->span, "the grid's extent comes from here");
        }
    }
}

void check_thread_launch(Checker *checker) {
    check_warps(checker);
    check_shared_memory(checker);
    check_cluster_grid(checker);
}
