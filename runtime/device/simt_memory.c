#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "runtime/device/planes.h"
#include "runtime/device/simt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { GRANULE_BYTES = 8, GRANULE_MIXED = 255, POISON = 0xa5 };

/* ---- what a launch touches ---- */

static Cell *map_cells(size_t bytes, Error *error) {
    void *cells = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (cells != MAP_FAILED)
        return cells;
    error_errno(error, "the simulator cannot take %zu bytes to watch memory with", bytes);
    return NULL;
}

bool simt_memory_open(SimtMemory *memory, const PhbKernel *kernel, int64_t shared_bytes, int ctas, bool weak, Error *error) {
    *memory = (SimtMemory){.weak = weak,
        .kernel = kernel,
        .tensor_count = kernel->tensor_count + kernel->state_count,
        .all_bytes = runner_shared_step(shared_bytes) * ctas};
    size_t bytes = (size_t)memory->all_bytes;
    memory->tensors = new_zeroed((size_t)memory->tensor_count * 2 + 1, sizeof *memory->tensors);
    memory->planes = new_zeroed((size_t)memory->tensor_count + 1, sizeof *memory->planes);
    memory->granules = malloc(bytes / GRANULE_BYTES);
    memory->shared = aligned_alloc(PHB_SHARED_ALIGN, bytes);
    memory->shared_cells = map_cells(bytes * sizeof(Cell), error);
    if (memory->shared_cells != NULL && memory->granules != NULL && memory->shared != NULL)
        return true;
    if (memory->shared_cells != NULL)
        error_set(error, "out of memory: the simulator needs %zu bytes for shared memory", bytes);
    simt_memory_close(memory);
    return false;
}

void simt_memory_close(SimtMemory *memory) {
    for (int t = 0; memory->tensors != NULL && t < memory->tensor_count; t++)
        if (memory->tensors[t].cells != NULL)
            munmap(memory->tensors[t].cells, memory->tensors[t].cell_bytes);
    if (memory->shared_cells != NULL)
        munmap(memory->shared_cells, (size_t)memory->all_bytes * sizeof(Cell));
    simt_lanes_close(memory);
    simt_bulks_close(memory);
    simt_groups_close(memory);
    free(memory->tensors);
    free(memory->planes);
    free(memory->granules);
    free(memory->shared);
    *memory = (SimtMemory){0};
}

static bool watch_tensor(SimtTensor *tensor, Error *error) {
    size_t bytes;
    if (__builtin_mul_overflow((size_t)(tensor->rows * tensor->columns), sizeof(Cell), &bytes))
        return error_set(error, "the simulator cannot watch a tensor of %" PRId64 " rows of %" PRId64 " elements", tensor->rows, tensor->columns);
    if (bytes <= tensor->cell_bytes)
        return true;
    if (tensor->cells != NULL)
        munmap(tensor->cells, tensor->cell_bytes);
    tensor->cell_bytes = bytes;
    return (tensor->cells = map_cells(bytes, error)) != NULL;
}

static void view_elements(SimtTensor *tensor, const PhbTensorArg *argument) {
    tensor->argument = argument;
    tensor->size = dtype_size(tensor->dtype);
    tensor->rows = 1;
    for (int a = 0; a + 1 < tensor->rank; a++)
        tensor->rows *= argument->extent[a];
    tensor->columns = argument->extent[tensor->rank - 1];
}

static void view_tensor(SimtTensor *tensor, const PhbKernel *kernel, int index, const PhbTensorArg *argument) {
    const PhbState *state = index >= kernel->tensor_count ? &kernel->states[index - kernel->tensor_count] : NULL;
    int whole = state && state->partial ? state->partial - 1 : index; /* what it is cut as */
    tensor->name = state ? state->name : kernel->tensors[index].name;
    tensor->dtype = state ? state->dtype : kernel->tensors[index].dtype;
    tensor->rank = whole >= kernel->tensor_count ? 3 : kernel->tensors[whole].rank;
    view_elements(tensor, argument);
}

/* Of those tensors that the stage has maps of planes of. */
static void view_planes(SimtMemory *memory, const PhbThreadStage *threads) {
    for (int m = 0; m < threads->map_count; m++) {
        int t = threads->maps[m].tensor;
        const SimtTensor *of = &memory->tensors[t];
        if (!planes_first(threads->maps, m))
            continue;
        memory->planes[t] = planes_of(of->argument, of->rank);
        memory->tensors[memory->tensor_count + t] = (SimtTensor){.name = of->name, .dtype = PHB_BF16, .rank = of->rank + 1};
        view_elements(&memory->tensors[memory->tensor_count + t], &memory->planes[t]);
    }
}

bool simt_memory_begin_launch(SimtMemory *memory, const PhbStage *stage, const PhbThreadStage *threads, const PhbLaunch *launch, Error *error) {
    const int32_t *size = memory->kernel->cluster_dims;
    int count = size[0] * size[1] * size[2] * threads->threads;
    if (!simt_lanes_open(memory, count) || !simt_groups_open(memory, count))
        return error_set(error, "out of memory: the simulator needs a place for each of %d threads", count);
    memory->threads = threads;
    memory->shared_step = runner_shared_step(threads->shared);
    memory->launch = memory->cluster + 1;
    for (int t = 0; t < memory->tensor_count; t++) {
        int mode = stage->modes[t];
        view_tensor(&memory->tensors[t], memory->kernel, t, &launch->tensors[t]);
        memory->tensors[t].written = mode == PHB_WRITE || mode == PHB_READ_WRITE;
        if (launch->tensors[t].base != NULL && memory->tensors[t].written && !watch_tensor(&memory->tensors[t], error))
            return false;
    }
    view_planes(memory, threads);
    return true;
}

void simt_memory_begin_cluster(SimtMemory *memory) {
    size_t bytes = (size_t)memory->all_bytes;
    memory->cluster++;
    simt_lanes_begin(memory);
    simt_bulks_begin(memory);
    simt_groups_begin(memory);
    memset(memory->granules, 0, bytes / GRANULE_BYTES);
    memset(memory->shared, POISON, bytes);
}

/* ---- finding the cell ---- */

static uint64_t read_bits(const void *address, int bytes) {
    uint64_t bits = 0;
    memcpy(&bits, address, (size_t)bytes);
    return bits;
}

static Place find_element(SimtMemory *memory, CtaThread *thread, const char *address, int bytes, Access access, int index, uint64_t site) {
    SimtTensor *tensor = &memory->tensors[index];
    int64_t offset = address - (const char *)tensor->argument->base, pitch = tensor->argument->pitch;
    int who = (int)thread->code.thread, rank = thread->cta->rank;
    if (tensor->argument->base == NULL || (access_info[access].writes && !tensor->written))
        thread_trap(thread, site, "thread %d of CTA %d %s '%s', which this stage %s", who, rank, access_info[access].verb, tensor->name,
            tensor->argument->base == NULL ? "does not touch" : "only reads");
    if (offset < 0 || offset >= tensor->rows * pitch)
        thread_trap(thread, site,
            "thread %d of CTA %d %s %" PRId64 " bytes from the start of '%s', which has %" PRId64 " rows of %" PRId64 " elements", who, rank,
            access_info[access].verb, offset, tensor->name, tensor->rows, tensor->columns);
    int64_t row = tensor->rows == 1 ? 0 : offset / pitch, byte = offset - row * pitch;
    if (byte + bytes > tensor->columns * tensor->size)
        thread_trap(thread, site, "thread %d of CTA %d %s column %" PRId64 " of row %" PRId64 " of '%s', which has %" PRId64 " columns", who, rank,
            access_info[access].verb, byte / tensor->size, row, tensor->name, tensor->columns);
    if (bytes != tensor->size || byte % bytes != 0)
        thread_trap(thread, site, "thread %d of CTA %d %s %d bytes at byte %" PRId64 " of row %" PRId64 " of '%s', which are no element", who, rank,
            access_info[access].verb, bytes, byte, row, tensor->name);
    return (Place){.memory = memory, .tensor = tensor, .element = row * tensor->columns + byte / tensor->size, .bytes = bytes};
}

/* Bytes of shared memory that were elements of one size become bytes, each with its element's cell. */
static void mix_granule(Cell *cells, int size) {
    for (int base = GRANULE_BYTES - size; base >= 0; base -= size)
        for (int b = size - 1; b >= 0; b--) {
            cells[base + b] = cells[base];
            cells[base + b].stale = cells[base].stale >> 8 * b & 0xff;
        }
}

/* Cells that an access to shared memory falls into: one, or one a byte. */
static int open_granule(SimtMemory *memory, int64_t offset, int bytes) {
    uint8_t *size = &memory->granules[offset / GRANULE_BYTES];
    Cell *cells = &memory->shared_cells[offset / GRANULE_BYTES * GRANULE_BYTES];
    if (*size == 0) {
        memset(cells, 0, GRANULE_BYTES * sizeof *cells);
        *size = (uint8_t)bytes;
    }
    if (*size != bytes && *size != GRANULE_MIXED) {
        mix_granule(cells, *size);
        *size = GRANULE_MIXED;
    }
    return *size == GRANULE_MIXED ? bytes : 1;
}

/* The value that a read gives. */
static uint64_t access_shared(
    SimtMemory *memory, CtaThread *thread, char *address, int bytes, Access access, const PhbSharedArray *array, uint64_t site) {
    int64_t offset = address - memory->shared, within = offset % memory->shared_step;
    bool inside = offset >= 0 && offset < memory->all_bytes && within + bytes <= memory->threads->shared;
    if (!inside || within % bytes != 0)
        thread_trap(thread, site, "thread %d of CTA %d %s %d bytes at byte %" PRId64 " of shared memory, %s %d", (int)thread->code.thread,
            thread->cta->rank, access_info[access].verb, bytes, inside ? within : address - thread->cta->shared,
            inside ? "which is no multiple of" : "which has", inside ? bytes : memory->threads->shared);
    Place place = {.memory = memory, .array = array, .rank = (int)(offset / memory->shared_step), .offset = within, .bytes = bytes};
    uint64_t bits = read_bits(address, bytes);
    int cells = open_granule(memory, offset, bytes);
    for (int c = 0; c < cells; c++) {
        Cell *cell = &memory->shared_cells[offset + c];
        if ((!access_info[access].writes || access == ACCESS_ATOMIC) && cell->write.cluster != memory->cluster) {
            char *where = place_text(&place);
            char *text = format_text("thread %d of CTA %d reads %s, which nobody has written", (int)thread->code.thread, thread->cta->rank, where);
            free(where);
            thread_trap_text(thread, site, text);
        }
        uint64_t part = cells == 1 ? bits : bits >> 8 * c & 0xff, mask = cells == 1 ? UINT64_MAX : (uint64_t)0xff << 8 * c;
        if (cell_access(cell, thread, access, site, &place, part))
            bits = (bits & ~mask) | (cells == 1 ? cell->stale : cell->stale << 8 * c);
    }
    return bits;
}

static const PhbSharedArray *find_array(const SimtMemory *memory, int tensor) {
    return tensor == PHB_SHARED_UNNAMED ? NULL : &memory->threads->arrays[PHB_SHARED_ARRAY(tensor)];
}

uint64_t simt_access(CtaThread *thread, char *address, int bytes, Access access, int tensor, uint64_t site) {
    SimtMemory *memory = thread->cta->runner->setup.context;
    if (tensor < 0)
        return access_shared(memory, thread, address, bytes, access, find_array(memory, tensor), site);
    Place place = find_element(memory, thread, address, bytes, access, tensor, site);
    uint64_t bits = read_bits(address, bytes);
    Cell *cell = place.tensor->written ? &place.tensor->cells[place.element] : NULL;
    return cell != NULL && cell_access(cell, thread, access, site, &place, bits) ? cell->stale : bits;
}

uint64_t phb_simt_load(PhbSimtThread *thread, const void *address, int32_t bytes, int32_t tensor, uint64_t site) {
    return simt_access((CtaThread *)thread, (char *)(uintptr_t)address, bytes, ACCESS_READ, tensor, site);
}

void phb_simt_store(PhbSimtThread *thread, void *address, uint64_t value, int32_t bytes, int32_t tensor, uint64_t site) {
    simt_access((CtaThread *)thread, address, bytes, ACCESS_WRITE, tensor, site);
    memcpy(address, &value, (size_t)bytes);
}

void phb_simt_outside(PhbSimtThread *code, int32_t tensor, uint64_t site) {
    CtaThread *thread = (CtaThread *)code;
    const PhbSharedArray *array = find_array(thread->cta->runner->setup.context, tensor);
    char *text = format_text("thread %d of CTA %d: a subscript lies outside of '%s', which is [", (int)code->thread, thread->cta->rank, array->name);
    for (int a = 0; a < array->rank; a++)
        text = text_append(text, "%s%d", a > 0 ? ", " : "", array->extent[a]);
    thread_trap_text(thread, site, text_append(text, "]"));
}

void phb_simt_atomic(PhbSimtThread *thread, void *address, int32_t bytes, int32_t tensor, uint64_t site) {
    simt_access((CtaThread *)thread, address, bytes, ACCESS_ATOMIC, tensor, site);
}

void simt_thread_ends(CtaThread *thread) {
    simt_copies_end(thread);
    simt_products_end(thread);
    simt_bulks_end(thread);
}
