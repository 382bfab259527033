#define _GNU_SOURCE /* memfd_create, seals */
#include "runtime/sched/course.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_BYTES 4096 /* the least that memory is taken in */

/* ---- rounds ---- */

int course_step(const Course *course, int64_t round) {
    return (int)(round % course->step_count);
}

const StepPlan *course_plan(const Course *course, int64_t round) {
    return &course->steps[course_step(course, round)];
}

/* What a step does to a tensor of the job: a PhbMode, or PHB_UNUSED. */
static int step_mode(const Course *course, int step, int tensor) {
    const PhbKernel *kernel = job_step(course->job, step)->kernel;
    for (int t = 0; t < kernel->tensor_count; t++)
        if (job_tensor(course->job, step, t) == tensor)
            return kernel->tensors[t].mode;
    return PHB_UNUSED;
}

static bool writes(int mode) {
    return mode == PHB_WRITE || mode == PHB_READ_WRITE;
}

RoundUse round_use(const Course *course, int64_t round, int tensor) {
    int step = course_step(course, round), whole = job_tensor(course->job, step, tensor);
    int mode = job_step(course->job, step)->kernel->tensors[tensor].mode;
    bool in_file = whole < course->job->kernel->tensor_count;
    RoundUse use = {.to_file = in_file && writes(mode)};
    /* A step comes again after step_count rounds: farther there is nothing new. */
    int64_t before = round - course->step_count, after = round + course->step_count;
    for (int64_t r = round - 1; r >= 0 && r >= before; r--)
        use.from_pods |= mode != PHB_WRITE && writes(step_mode(course, course_step(course, r), whole));
    bool found = false;
    for (int64_t r = round + 1; r < course->rounds && r <= after; r++) {
        int later = step_mode(course, course_step(course, r), whole);
        use.to_file &= !writes(later);
        if (found || later == PHB_UNUSED)
            continue;
        found = true;
        use.to_pods = writes(mode) && later != PHB_WRITE;
    }
    return use;
}

void round_files(const Course *course, int64_t round, const TensorFile *kept, TileFiles *files) {
    int step = course_step(course, round);
    for (int t = 0; t < job_step(course->job, step)->kernel->tensor_count; t++) {
        int whole = job_tensor(course->job, step, t), count = 0;
        const TensorFile *file = &course->job->tensors[whole];
        RoundUse use = round_use(course, round, t);
        files[t] = (TileFiles){.source = use.from_pods ? &kept[whole] : file};
        if (use.to_file)
            files[t].targets[count++] = file;
        if (use.to_pods)
            files[t].targets[count++] = &kept[whole];
    }
}

/* ---- what is kept ---- */

/* What a tile of a written tensor takes of memory where the whole tensor has a place for each element. */
static __int128 tile_pages(const Operand *operand) {
    Region largest = {{0}, {1, 1, 1, 1}};
    memcpy(largest.extent, operand->size, sizeof largest.extent);
    int64_t runs = region_runs(operand, &largest), bytes = region_bytes(operand, &largest);
    return (__int128)runs * (bytes / runs / PAGE_BYTES + 2) * PAGE_BYTES;
}

/* The most that a node keeps of a tensor that step `step` writes. */
static __int128 kept_of_step(const Course *course, int step, int tensor) {
    const StepPlan *plan = &course->steps[step];
    const Operand *operand = &plan->problem->operands[tensor];
    int64_t most = 0, chunks = operand->loop >= 0 ? plan->problem->chunks[operand->loop] : 1;
    for (int64_t node = 0; node < plan->placement->nodes; node++) {
        int64_t units = placement_count(plan->placement, node);
        most = units > most ? units : most;
    }
    __int128 whole = operand->element, tiles = (__int128)most * chunks * tile_pages(operand);
    for (int k = 0; k < operand->rank; k++)
        whole *= operand->whole[k];
    whole += 2 * PAGE_BYTES;
    return tiles < whole ? tiles : whole;
}

static void mark_kept(Course *course) {
    int count = course->job->sequence != NULL ? course->job->sequence->tensor_count : course->job->kernel->tensor_count;
    course->kept = new_zeroed((size_t)count, sizeof *course->kept);
    for (int64_t round = 0; round < course->rounds && round < 2 * (int64_t)course->step_count; round++) {
        int step = course_step(course, round);
        for (int t = 0; t < job_step(course->job, step)->kernel->tensor_count; t++)
            if (round_use(course, round, t).to_pods)
                course->kept[job_tensor(course->job, step, t)] = true;
    }
}

static int64_t most_kept(const Course *course) {
    __int128 bytes = 0;
    int count = course->job->sequence != NULL ? course->job->sequence->tensor_count : 0;
    for (int whole = 0; whole < count; whole++) {
        __int128 most = 0;
        for (int s = 0; s < course->step_count; s++)
            for (int t = 0; course->kept[whole] && t < job_step(course->job, s)->kernel->tensor_count; t++)
                if (job_tensor(course->job, s, t) == whole && writes(job_step(course->job, s)->kernel->tensors[t].mode)) {
                    __int128 here = kept_of_step(course, s, t);
                    most = here > most ? here : most;
                }
        bytes += most;
    }
    return bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
}

static char *kept_text(const Course *course) {
    char *text = NULL;
    for (int whole = 0; whole < course->job->sequence->tensor_count; whole++)
        if (course->kept[whole])
            text = text_append(text, "%s%s", text != NULL ? ", " : "", course->job->kernel->tensors[whole].name);
    return text;
}

/* ---- the course ---- */

static bool name_step(const Course *course, int step, Error *error) {
    if (course->job->sequence == NULL)
        return false;
    Error why = *error;
    return error_set(error, "step %d: %s", step + 1, why.text);
}

static bool bind_steps(Course *course, LeafChoice leaf, Error *error) {
    __int128 units = 0;
    for (int s = 0; s < course->step_count; s++) {
        course->steps[s].problem = problem_bind(job_step(course->job, s), leaf, error);
        if (course->steps[s].problem == NULL)
            return name_step(course, s, error);
        units += (__int128)course->steps[s].problem->units * (course->rounds / course->step_count);
    }
    if (units > PLAN_MAX_UNITS)
        return error_set(error, "%" PRId64 " rounds have more than %" PRId64 " super-tiles in all; choose larger ones, or fewer repetitions",
            course->rounds, PLAN_MAX_UNITS);
    course->units = (int64_t)units;
    return true;
}

Course *course_bind(Job *job, LeafChoice leaf, Error *error) {
    Course *course = new_zeroed(1, sizeof *course);
    *course = (Course){.job = job, .step_count = job_step_count(job), .rounds = job_rounds(job)};
    course->steps = new_zeroed((size_t)course->step_count, sizeof *course->steps);
    mark_kept(course);
    if (bind_steps(course, leaf, error))
        return course;
    course_free(course);
    return NULL;
}

/* Of what an earlier step writes and this one reads, the largest tile. */
static bool find_near(const Course *course, int step, Near *near) {
    const StepPlan *plan = &course->steps[step];
    *near = (Near){.writer = NULL};
    for (int t = 0; t < plan->problem->kernel->tensor_count; t++) {
        const Operand *read = &plan->problem->operands[t];
        int whole = job_tensor(course->job, step, t);
        if (read->tensor->mode == PHB_WRITE || (near->read != NULL && near->read->bytes >= read->bytes))
            continue;
        for (int s = step - 1; s >= 0; s--) {
            const Problem *writer = course->steps[s].problem;
            int w = 0;
            while (w < writer->kernel->tensor_count && (job_tensor(course->job, s, w) != whole || writer->kernel->tensors[w].mode == PHB_READ))
                w++;
            if (w == writer->kernel->tensor_count)
                continue;
            *near = (Near){course->steps[s].placement, &writer->operands[w], read};
            break;
        }
    }
    return near->writer != NULL;
}

void course_place(Course *course, PlacementPolicy policy, int64_t nodes) {
    for (int s = 0; s < course->step_count; s++) {
        StepPlan *step = &course->steps[s];
        Near near;
        placement_free(step->placement);
        step->placement = policy == PLACE_NEAR && find_near(course, s, &near) ? placement_new_near(step->problem, &near, nodes) :
                                                                                placement_new(step->problem, policy, nodes);
    }
    course->kept_bytes = most_kept(course);
}

void course_deal(Course *course, int64_t nodes) {
    for (int s = 0; s < course->step_count; s++)
        placement_deal(course->steps[s].placement, nodes);
    course->kept_bytes = most_kept(course);
}

/* An equal part for each step, or the least that there is a plan for; what one leaves is there for the next. */
static bool fit_steps(Course *course, int64_t memory, Error *error) {
    int64_t part = memory / course->step_count, *least = new_zeroed((size_t)course->step_count, sizeof *least), owed = 0;
    __int128 all = 0;
    for (int s = 0; s < course->step_count; s++)
        all += least[s] = plan_least(course->steps[s].problem);
    bool even = true;
    for (int s = 0; s < course->step_count; s++)
        even &= least[s] <= part;
    bool fits = all <= memory ||
                error_set(error,
                    "the tiles at work of %d steps need %" PRId64 " bytes, and a pod has %" PRId64 "; choose smaller super-tiles or more --memory",
                    course->step_count, all > INT64_MAX ? INT64_MAX : (int64_t)all, memory);
    for (int s = 1; s < course->step_count; s++)
        owed += even ? part : least[s];
    for (int s = 0; fits && s < course->step_count; s++) {
        course->steps[s].plan = plan_make(course->steps[s].problem, max64(memory - owed, least[s]), error);
        fits = course->steps[s].plan != NULL || name_step(course, s, error);
        memory -= fits ? course->steps[s].plan->bytes : 0;
        owed -= s + 1 == course->step_count ? 0 : even ? part : least[s + 1];
    }
    free(least);
    return fits;
}

int64_t course_least(const Course *course) {
    __int128 bytes = course->kept_bytes;
    for (int s = 0; s < course->step_count; s++)
        bytes += plan_least(course->steps[s].problem);
    return bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
}

bool course_fit(Course *course, int64_t memory, Error *error) {
    course->memory = memory;
    for (int s = 0; s < course->step_count; s++) {
        plan_free(course->steps[s].plan);
        course->steps[s].plan = NULL;
    }
    if (course->step_count == 1 && course->kept_bytes == 0)
        return (course->steps[0].plan = plan_make(course->steps[0].problem, memory, error)) != NULL;
    if (course->kept_bytes < memory)
        return fit_steps(course, memory - course->kept_bytes, error);
    char *names = kept_text(course);
    error_set(error,
        "what lives in the pods between steps (%s) takes up to %" PRId64 " bytes of a pod, which has %" PRId64 "; take more pods or more --memory",
        names, course->kept_bytes, memory);
    free(names);
    return false;
}

void course_free(Course *course) {
    if (course == NULL)
        return;
    for (int s = 0; s < course->step_count; s++) {
        plan_free(course->steps[s].plan);
        placement_free(course->steps[s].placement);
        problem_free(course->steps[s].problem);
    }
    free(course->steps);
    free(course->kept);
    free(course);
}

int64_t course_bytes(const Course *course) {
    int64_t bytes = course->kept_bytes;
    for (int s = 0; s < course->step_count; s++)
        bytes += course->steps[s].plan->bytes + course->steps[s].plan->shelf_bytes;
    return bytes;
}

/* ---- kept tensors ---- */

/* What nobody who has the file may do to it: change its size, or, but for its owner, what is in it. */
#define KEPT_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

/* Where each of them lies, the same in every pod. */
static void lay_out(Kept *kept, const Course *course, char *memory) {
    const Sequence *sequence = course->job->sequence;
    int64_t at = 0;
    for (int t = 0; sequence != NULL && t < sequence->tensor_count; t++) {
        const TensorFile *like = &course->job->tensors[t];
        kept->tensors[t] = (TensorFile){.dtype = like->dtype, .rank = like->rank, .old_fd = -1, .staging_fd = -1, .lock_fd = -1};
        memcpy(kept->tensors[t].shape, like->shape, sizeof kept->tensors[t].shape);
        if (!course->kept[t])
            continue;
        kept->tensors[t].memory = memory != NULL ? memory + at : NULL;
        if (__builtin_add_overflow(at, (tensor_file_bytes(like) - 1) / PAGE_BYTES * PAGE_BYTES + PAGE_BYTES, &at))
            at = INT64_MAX; /* which no address space has */
    }
    kept->bytes = at;
}

static void kept_new(Kept *kept, const Course *course) {
    const Sequence *sequence = course->job->sequence;
    *kept = (Kept){.fd = -1, .tensors = new_zeroed(sequence != NULL ? (size_t)sequence->tensor_count : 1, sizeof *kept->tensors)};
    lay_out(kept, course, NULL);
}

/* MAP_FAILED: the system does not have that, and others fetch what they need. */
static void *map_shared(Kept *kept) {
    int fd = memfd_create("phobos", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *memory =
        fd >= 0 && ftruncate(fd, kept->bytes) == 0 ? mmap(NULL, (size_t)kept->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (memory != MAP_FAILED && fcntl(fd, F_ADD_SEALS, KEPT_SEALS) == 0) {
        kept->fd = fd;
        return memory;
    }
    kept->unshared = errno;
    if (memory != MAP_FAILED)
        munmap(memory, (size_t)kept->bytes);
    if (fd >= 0)
        close(fd);
    return MAP_FAILED;
}

bool kept_open(Kept *kept, const Course *course, bool shared, Error *error) {
    kept_new(kept, course);
    if (kept->bytes == 0)
        return true;
    /* Of the address space all of it, of memory what is written to. */
    void *memory = shared ? map_shared(kept) : MAP_FAILED;
    if (memory == MAP_FAILED)
        memory = mmap(NULL, (size_t)kept->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    kept->memory = memory != MAP_FAILED ? memory : NULL;
    if (kept->memory == NULL) {
        char *names = kept_text(course);
        error_errno(error, "cannot take %" PRId64 " bytes for what lives in the pods between steps (%s)", kept->bytes, names);
        free(names);
        kept_close(kept);
        return false;
    }
    lay_out(kept, course, kept->memory);
    return true;
}

bool kept_map(Kept *kept, const Course *course, int fd) {
    struct stat status;
    kept_new(kept, course);
    int seals = fcntl(fd, F_GET_SEALS);
    bool fine = kept->bytes > 0 && seals >= 0 && (seals & KEPT_SEALS) == KEPT_SEALS && fstat(fd, &status) == 0 && status.st_size == kept->bytes;
    void *memory = fine ? mmap(NULL, (size_t)kept->bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (memory == MAP_FAILED) {
        kept_close(kept);
        return false;
    }
    kept->memory = memory;
    lay_out(kept, course, memory);
    return true;
}

void kept_close(Kept *kept) {
    if (kept->memory != NULL)
        munmap(kept->memory, (size_t)kept->bytes);
    if (kept->tensors != NULL && kept->fd >= 0)
        close(kept->fd);
    free(kept->tensors);
    *kept = (Kept){.fd = -1};
}
