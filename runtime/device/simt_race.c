/* Which accesses are ordered, and what to say of those that are not.
 *
 * All threads of a CTA come to the same barriers, and all of a thread-block cluster to the same arrives and waits, in one order. So whether an access
 * A of thread t comes before an access B of thread u needs no vector clocks: a barrier of their CTA since A, or an arrive of t after A that publishes
 * and whose wait u has passed. So with mbarriers of all threads, at which they arrive in one order. Nothing orders different clusters of a launch. */
#include "runtime/device/simt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const AccessInfo access_info[] = {
    [ACCESS_READ] = {"reads", "read"},
    [ACCESS_WRITE] = {"writes", "wrote", .writes = true},
    [ACCESS_ATOMIC] = {"changes", "changed", .writes = true},
    [ACCESS_COPY] = {"copies to", NULL, .writes = true, .running = true},
    [ACCESS_LAND] = {"copies to", NULL, .writes = true, .ends = true},
    [ACCESS_BULK_COPY] = {"copies to", NULL, .writes = true, .running = true, .bulk = true},
    [ACCESS_BULK_LAND] = {"copies to", NULL, .writes = true, .ends = true, .bulk = true},
    [ACCESS_BULK_READ] = {"stores", NULL, .running = true, .bulk = true},
    [ACCESS_BULK_READ_DONE] = {"stores", NULL, .ends = true, .bulk = true},
    [ACCESS_PRODUCT] = {"multiplies by", NULL, .running = true, .bulk = true},
    [ACCESS_PRODUCT_DONE] = {"multiplies by", NULL, .ends = true, .bulk = true},
};

static int rank_of(const CtaRunner *runner, const Stamp *stamp) {
    return stamp->thread / runner->setup.threads;
}

static bool is_ordered(const Stamp *stamp, const CtaThread *thread, uint32_t cluster) {
    const CtaRunner *runner = thread->cta->runner;
    if (stamp->cluster != cluster || stamp->running)
        return false;
    if (stamp->mbarrier)
        return bulk_is_ordered(stamp, thread);
    if (stamp->thread == (uint16_t)(thread - runner->thread))
        return true;
    if (rank_of(runner, stamp) == thread->cta->rank && stamp->barriers < thread->cta->barriers)
        return true;
    const SimtMemory *memory = runner->setup.context;
    if (rank_of(runner, stamp) == thread->cta->rank && stamp->releases < memory->lanes[thread - runner->thread].released)
        return true;
    for (uint32_t phase = stamp->arrives; phase < thread->waits; phase++)
        if (!runner->relaxed[phase])
            return true;
    return false;
}

/* ---- messages ---- */

char *value_text(const Place *place, uint64_t bits) {
    int dtype = place->tensor ? place->tensor->dtype : place->array && place->bytes == dtype_size(place->array->dtype) ? place->array->dtype : -1;
    float single;
    double wide;
    uint32_t low = (uint32_t)bits;
    memcpy(&single, &low, sizeof single);
    memcpy(&wide, &bits, sizeof wide);
    switch (dtype) {
    case PHB_F32:
        return format_text("%.9g", (double)single);
    case PHB_F64:
        return format_text("%.17g", wide);
    case PHB_I8:
        return format_text("%d", (int)(int8_t)bits);
    case PHB_I16:
        return format_text("%d", (int)(int16_t)bits);
    case PHB_I32:
        return format_text("%" PRId32, (int32_t)bits);
    case PHB_I64:
        return format_text("%" PRId64, (int64_t)bits);
    case PHB_U8:
    case PHB_U16:
    case PHB_U32:
    case PHB_U64:
    case PHB_BOOL:
        return format_text("%" PRIu64, bits);
    default:
        return format_text("0x%0*" PRIx64, 2 * place->bytes, bits);
    }
}

/* Rows of an array lie a pitch apart, whatever its rank. */
static char *array_text(const Place *place) {
    const PhbSharedArray *array = place->array;
    int64_t offset = place->offset - array->offset, row = offset / array->pitch;
    int64_t at[3] = {row / array->extent[1], row % array->extent[1], offset % array->pitch / dtype_size(array->dtype)};
    int64_t flat[3] = {row, at[2], 0};
    const int64_t *subscripts = array->rank == 3 ? at : array->rank == 2 ? flat : &at[2];
    char *text = format_text("'%s'[", array->name);
    for (int a = 0; a < array->rank; a++)
        text = text_append(text, "%s%" PRId64, a > 0 ? ", " : "", subscripts[a]);
    return text_append(text, "] of CTA %d", place->rank);
}

char *place_text(const Place *place) {
    if (place->array != NULL)
        return array_text(place);
    if (place->tensor == NULL)
        return format_text("shared memory of CTA %d at byte %" PRId64, place->rank, place->offset);
    const SimtTensor *tensor = place->tensor;
    int64_t at[PHB_MAX_RANK], left = place->element;
    for (int a = tensor->rank - 1; a >= 0; a--) {
        int64_t extent = tensor->argument->extent[a];
        at[a] = a > 0 ? left % extent : left;
        left /= extent;
    }
    char *text = format_text("'%s'[", tensor->name);
    for (int a = 0; a < tensor->rank; a++)
        text = text_append(text, "%s%" PRId64, a > 0 ? ", " : "", at[a]);
    return text_append(text, "]");
}

/* Why nothing orders them. */
static char *reason_text(const Stamp *other, const CtaThread *thread, uint32_t cluster) {
    const CtaRunner *runner = thread->cta->runner;
    if (other->cluster != cluster)
        return format_text("nothing orders CTAs of a launch%s", runner->ctas > 1 ? " that are not of one cluster" : "");
    if (other->running)
        return format_text("nobody has waited for that");
    if (other->mbarrier)
        return format_text("it has not waited for the mbarrier of that copy, nor passed a barrier with a thread that has");
    if (rank_of(runner, other) == thread->cta->rank)
        return format_text("no barrier is between them");
    if (other->arrives < thread->waits)
        return format_text("the cluster_arrive_relaxed between them publishes nothing");
    if (other->pending && other->arrives == thread->waits)
        return format_text("it came after its thread's cluster_arrive, so the cluster_wait does not publish it");
    return format_text("no cluster_arrive and cluster_wait are between them");
}

static char *thread_text(const CtaRunner *runner, const Stamp *stamp, uint32_t cluster) {
    int thread = stamp->thread % runner->setup.threads, rank = rank_of(runner, stamp);
    if (stamp->cluster == cluster)
        return format_text("thread %d of CTA %d", thread, rank);
    return format_text("thread %d of %s", thread, runner->ctas > 1 ? "another cluster" : "another CTA");
}

_Noreturn static void report_race(
    CtaThread *thread, Access access, uint64_t site, const Stamp *other, bool other_reads, const Place *place, uint64_t bits) {
    uint32_t cluster = place->memory->cluster;
    char *where = place_text(place), *what = value_text(place, bits), *who = thread_text(thread->cta->runner, other, cluster);
    char *why = reason_text(other, thread, cluster);
    char *text = format_text("race on %s, which holds %s: thread %d of CTA %d %s it, %s %s it at %d:%d, and %s", where, what,
        (int)thread->code.thread, thread->cta->rank, access_info[access].verb, who,
        other->atomic     ? "changed"
        : other->running  ? access_info[other->access].verb
        : other_reads     ? "read"
        : other->mbarrier ? "copied to"
                          : "wrote",
        site_line(other->site), site_column(other->site), why);
    free(where);
    free(what);
    free(who);
    free(why);
    thread_trap_text(thread, site, text);
}

/* ---- cells ---- */

static bool is_of_launch(const Stamp *stamp, const Place *place) {
    uint32_t first = place->tensor ? place->memory->launch : place->memory->cluster;
    return stamp->cluster >= first;
}

/* Whether `stamp` stands in the way of the access, which then traps unless races are let pass. */
static bool races(const Stamp *stamp, bool stamp_reads, CtaThread *thread, Access access, uint64_t site, const Place *place, uint64_t bits) {
    if (!is_of_launch(stamp, place) || (stamp_reads && !access_info[access].writes && !stamp->atomic) || (stamp->atomic && access == ACCESS_ATOMIC) ||
        is_ordered(stamp, thread, place->memory->cluster))
        return false;
    if (!place->memory->weak)
        report_race(thread, access, site, stamp, stamp_reads, place, bits);
    return true;
}

static void note_read(Cell *cell, const Stamp *stamp, const CtaRunner *runner) {
    Stamp *reads = cell->reads;
    if (reads[0].cluster == stamp->cluster && reads[0].thread != stamp->thread && rank_of(runner, &reads[0]) == rank_of(runner, stamp))
        reads[1] = reads[0];
    else if (reads[0].cluster != stamp->cluster || rank_of(runner, &reads[0]) != rank_of(runner, stamp)) {
        reads[2] = reads[0];
        reads[1] = (Stamp){0};
    }
    reads[0] = *stamp;
}

/* What went on behind the thread's back in this cell is over. */
static void end_running(Cell *cell, bool writes, uint16_t thread) {
    if (writes)
        cell->write.running = false;
    for (int r = 0; !writes && r < CELL_READS; r++)
        if (cell->reads[r].thread == thread)
            cell->reads[r].running = false;
}

static void check_fence(const Cell *cell, CtaThread *thread, uint64_t site, const Place *place) {
    const Stamp *write = &cell->write;
    const SimtMemory *memory = place->memory;
    if (place->tensor != NULL || write->cluster != memory->cluster || write->running || write->mbarrier ||
        write->barriers < memory->fenced[place->rank] || write->barriers < memory->lanes[write->thread].written)
        return;
    char *where = place_text(place), *who = thread_text(thread->cta->runner, write, memory->cluster);
    char *text = format_text("%s, which %s wrote at %d:%d, is not there for what goes on behind threads' backs: no fence.proxy.async came after",
        where, who, site_line(write->site), site_column(write->site));
    free(where);
    free(who);
    thread_trap_text(thread, site, text);
}

bool cell_access(Cell *cell, CtaThread *thread, Access access, uint64_t site, const Place *place, uint64_t bits) {
    const CtaRunner *runner = thread->cta->runner;
    const AccessInfo *info = &access_info[access];
    Stamp stamp = {.site = site,
        .cluster = place->memory->cluster,
        .barriers = thread->cta->barriers,
        .arrives = thread->arrives,
        .thread = (uint16_t)(thread - runner->thread),
        .atomic = access == ACCESS_ATOMIC,
        .access = (uint8_t)access,
        .running = info->running,
        .releases = access == ACCESS_PRODUCT_DONE ? place->memory->product_releases : place->memory->lanes[thread - runner->thread].releases,
        .pending = thread->arrives != thread->waits};
    if (info->ends)
        end_running(cell, info->writes, stamp.thread);
    bool hidden = races(&cell->write, false, thread, access, site, place, bits);
    for (int r = 0; r < CELL_READS; r++)
        races(&cell->reads[r], true, thread, access, site, place, bits);
    if (info->bulk && info->running && !place->memory->weak)
        check_fence(cell, thread, site, place);
    if (access == ACCESS_BULK_LAND) {
        stamp.mbarrier = (uint8_t)(place->memory->landing + 1);
        stamp.barriers = place->memory->mbarriers[place->memory->landing].phase;
    }
    if (!info->writes) {
        note_read(cell, &stamp, runner);
        return hidden;
    }
    if (!hidden)
        cell->stale = bits;
    if (access != ACCESS_ATOMIC)
        memset(cell->reads, 0, sizeof cell->reads);
    else if (cell->write.atomic && is_of_launch(&cell->write, place))
        note_read(cell, &cell->write, runner);
    cell->write = stamp;
    return false;
}
