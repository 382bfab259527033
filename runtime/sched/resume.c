#include "runtime/sched/resume.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- whose journal it is ---- */

static void hash_text(XXH3_state_t *state, const char *text) {
    XXH3_64bits_update(state, text, strlen(text) + 1);
}

uint64_t job_hash(const Job *job) {
    const PhbKernel *kernel = job->kernel;
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    int64_t rounds = job_rounds(job);
    XXH3_64bits_update(&state, &rounds, sizeof rounds);
    for (int step = 0; step < job_step_count(job); step++) {
        const Job *part = job_step(job, step);
        hash_text(&state, part->kernel->name);
        for (int s = 0; s < part->kernel->scalar_count; s++)
            XXH3_64bits_update(&state, &part->scalars[s], sizeof part->scalars[s]);
        int64_t parts = part->split_k > 1 ? part->split_k : 1;
        XXH3_64bits_update(&state, &parts, sizeof parts);
        for (int d = 0; d < part->kernel->dim_count; d++)
            if (!part->kernel->dims[d].is_search)
                XXH3_64bits_update(&state, &part->dims[d], sizeof part->dims[d]);
    }
    for (int t = 0; t < kernel->tensor_count; t++) {
        const TensorFile *file = &job->tensors[t];
        hash_text(&state, file->path);
        XXH3_64bits_update(&state, file->shape, (size_t)file->rank * sizeof *file->shape);
    }
    return XXH3_64bits_digest(&state);
}

/* What tells the old contents of a file that is read from others; 0: it is not read. */
static uint64_t seen_hash(const TensorFile *file) {
    int64_t what[] = {file->file_size, file->mtime_ns, (int64_t)file->inode};
    return file->old_fd >= 0 ? XXH3_64bits(what, sizeof what) | 1 : 0;
}

static bool is_of_job(const JournalState *state, const Job *job, const char *path, Error *error) {
    const PhbKernel *kernel = job->kernel;
    const JournalPlan *plan = &state->plan;
    if (plan->dims_count != (uint32_t)kernel->dim_count || plan->tensors_count != (uint32_t)kernel->tensor_count || plan->job_hash != job_hash(job))
        return error_set(error, "\"%s\" is the journal of another job; without --resume this one begins anew", path);
    if (state->publishing)
        return true; /* its outputs are whole, and may be inputs, too, and in their places */
    if (memcmp(plan->build_id, job->program->build_id, sizeof plan->build_id) != 0)
        return error_set(error, "\"%s\" is the journal of another build of this program; without --resume the job begins anew", path);
    for (int d = 0; d < kernel->dim_count; d++)
        if (kernel->dims[d].is_search && !job_dim_is_free(job, d) && plan->dims[d] != job->dims[d])
            return error_set(error, "the job was begun with %s = %" PRId64 " and now says %" PRId64 "; without --resume it begins anew",
                kernel->dims[d].name, plan->dims[d], job->dims[d]);
    for (int t = 0; t < kernel->tensor_count; t++)
        if (plan->tensors[t].seen != seen_hash(&job->tensors[t]))
            return error_set(error, "\"%s\" has changed since the job was begun; without --resume it begins anew", job->tensors[t].path);
    return true;
}

/* ---- files that nobody will need ---- */

/* ".c.npy.0123456789abcdef.part" beside c.npy */
static bool is_staging_name(const char *name, const char *output) {
    size_t length = strlen(output);
    return name[0] == '.' && strncmp(name + 1, output, length) == 0 && name[1 + length] == '.' &&
           strspn(name + length + 2, "0123456789abcdef") == 16 && strcmp(name + length + 2 + 16, ".part") == 0;
}

/* Removes staging files of an output that this process has locked, `kept` apart: whoever wrote them is no more. */
static void sweep(const TensorFile *file, const char *kept) {
    const char *slash = strrchr(file->path, '/');
    char *folder = format_text("%.*s", slash == file->path ? 1 : (int)(slash - file->path), file->path);
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        if (!is_staging_name(entry->d_name, slash + 1))
            continue;
        char *path = format_text("%s/%s", strcmp(folder, "/") == 0 ? "" : folder, entry->d_name);
        if (strcmp(path, kept) != 0)
            unlink(path);
        free(path);
    }
    if (entries != NULL)
        closedir(entries);
    free(folder);
}

static void sweep_all(const Job *job, const JournalState *keep) {
    for (int t = 0; t < job->kernel->tensor_count; t++)
        if (job_writes(job, t))
            sweep(&job->tensors[t], keep == NULL ? "" : keep->publishing ? keep->publish.tensors[t].staging : keep->plan.tensors[t].staging);
}

/* ---- a publication that was cut short ---- */

/* Whether the file is still to be renamed. False: neither it nor its target is what was written. */
static bool still_staged(const TensorFile *file, const char *staging, uint64_t inode, bool *staged, Error *error) {
    struct stat status;
    *staged = lstat(staging, &status) == 0;
    if (*staged ? status.st_ino == inode : stat(file->path, &status) == 0 && status.st_ino == inode)
        return true;
    return error_set(error, "\"%s\" cannot be put in place: \"%s\" is not what the job wrote", file->path, *staged ? staging : file->path);
}

static bool finish_publishing(const Job *job, const JournalState *state, Error *error) {
    const JournalPublish *publish = &state->publish;
    bool staged;
    for (int t = 0; t < job->kernel->tensor_count; t++)
        if (job_writes(job, t) && !still_staged(&job->tensors[t], publish->tensors[t].staging, publish->tensors[t].inode, &staged, error))
            return state->done ? error_set(error, "the job is done, and \"%s\" is no more what it wrote; without --resume it begins anew",
                                     job->tensors[t].path)
                               : false;
    for (int t = 0; t < job->kernel->tensor_count; t++) {
        const char *from = publish->tensors[t].staging, *to = job->tensors[t].path;
        if (!job_writes(job, t) || !still_staged(&job->tensors[t], from, publish->tensors[t].inode, &staged, error) || !staged)
            continue;
        if (rename(from, to) != 0 || !folder_sync(to))
            return error_errno(error, "cannot rename \"%s\" to \"%s\"", from, to);
    }
    return true;
}

/* ---- the start ---- */

static bool take_journal(Resume *resume, Job *job, bool wanted, const char *path, Error *error) {
    JournalState *state = resume->state;
    if (state->publishing && !state->done && !wanted)
        return error_set(error, "an earlier run was cut short while it put its outputs in place: --resume finishes that; or remove \"%s\"", path);
    if (!wanted) {
        if (!state->done)
            snprintf(resume->said, sizeof resume->said, "what an earlier run left is removed%s",
                job->sequence == NULL ? "; --resume would have gone on from there" : "");
        unlink(path);
        journal_state_free(state);
        resume->state = NULL;
        return true;
    }
    if (!is_of_job(state, job, path, error))
        return false;
    if (state->publishing) {
        resume->published = finish_publishing(job, state, error);
        if (resume->published)
            job->journal = journal_of_done(path);
        return resume->published;
    }
    resume->generation = state->plan.generation + 1;
    for (int d = 0; d < job->kernel->dim_count; d++)
        if (job_dim_is_free(job, d))
            job->dims[d] = state->plan.dims[d];
    return true;
}

static char *path_of(const Job *job) {
    for (int t = 0; t < job->kernel->tensor_count; t++)
        if (job_writes(job, t))
            return journal_path(&job->tensors[t]);
    return NULL;
}

bool resume_open(Resume *resume, Job *job, bool wanted, Error *error) {
    *resume = (Resume){.generation = 1};
    for (int t = 0; t < job->kernel->tensor_count; t++)
        if (job_writes(job, t) && !tensor_file_lock(&job->tensors[t], error))
            return false;
    char *path = path_of(job);
    bool fine =
        path == NULL || (journal_read(path, &resume->state, error) && (resume->state == NULL || take_journal(resume, job, wanted, path, error)));
    free(path);
    if (fine)
        sweep_all(job, resume->state);
    return fine;
}

/* ---- what is kept ---- */

Journal *resume_begin(const Job *job, int64_t units, const int variants[CLASS_COUNT], const Resume *resume, Error *error) {
    const PhbKernel *kernel = job->kernel;
    char *path = path_of(job);
    if (path == NULL) {
        error_set(error, "kernel '%s' writes nothing", kernel->name);
        return NULL;
    }
    JournalPlan *plan = new_zeroed(1, sizeof *plan);
    memcpy(plan->build_id, job->program->build_id, sizeof plan->build_id);
    plan->generation = resume->generation;
    plan->dims_count = (uint32_t)kernel->dim_count;
    plan->tensors_count = (uint32_t)kernel->tensor_count;
    plan->job_hash = job_hash(job);
    plan->units = (uint64_t)units;
    memcpy(plan->variants, variants, sizeof plan->variants);
    memcpy(plan->dims, job->dims, sizeof *job->dims * (size_t)kernel->dim_count);
    for (int t = 0; t < kernel->tensor_count; t++) {
        plan->tensors[t].seen = seen_hash(&job->tensors[t]);
        if (job_writes(job, t))
            snprintf(plan->tensors[t].staging, sizeof plan->tensors[t].staging, "%s", job->tensors[t].staging_path);
    }
    Journal *journal = journal_new(path, plan, resume->stored, resume->stored_count, error);
    free(plan);
    free(path);
    return journal;
}

/* Of each tensor that is written the earlier run's staging file, as one that is read. */
static bool open_old(const Job *job, const JournalPlan *plan, TensorFile *old) {
    bool fine = true;
    for (int t = 0; t < job->kernel->tensor_count; t++) {
        old[t] = job->tensors[t];
        old[t].path = (char *)(uintptr_t)plan->tensors[t].staging; /* for messages */
        old[t].old_fd = job_writes(job, t) ? open(plan->tensors[t].staging, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW) : -1;
        fine &= old[t].old_fd >= 0 || !job_writes(job, t);
    }
    return fine;
}

/* Of a batch the units from number `from` on that `audit` picks, or does not. */
static JournalStored cut_batch(const JournalStored *stored, const AuditChoice *audit, uint64_t from, bool *picked) {
    JournalStored part = *stored;
    part.first = stored->first + from * stored->step;
    *picked = audit_picks(audit, part.first);
    part.count = 1;
    while (from + part.count < stored->count && audit_picks(audit, part.first + part.count * part.step) == *picked)
        part.count++;
    return part;
}

static void keep_batch(Resume *resume, size_t *capacity, const JournalStored *stored) {
    if (resume->stored_count == *capacity) {
        JournalStored *more = new_zeroed(*capacity = 2 * *capacity + 16, sizeof *more);
        if (resume->stored_count > 0)
            memcpy(more, resume->stored, resume->stored_count * sizeof *more);
        free(resume->stored);
        resume->stored = more;
    }
    resume->stored[resume->stored_count++] = *stored;
    resume->units += (int64_t)stored->count;
}

static bool copy_stored(Resume *resume, const Job *job, const Problem *problem, const AuditChoice *audit, const TensorFile *old, Error *error) {
    const JournalState *state = resume->state;
    size_t capacity = 0;
    for (size_t i = 0; i < state->stored_count; i++) {
        const JournalStored *stored = &state->stored[i];
        size_t count = resume->stored_count;
        int64_t units = resume->units;
        uint64_t checksum = 0;
        BatchResult result = BATCH_FINE;
        for (uint64_t from = 0; result == BATCH_FINE && from < stored->count;) {
            bool picked;
            JournalStored part = cut_batch(stored, audit, from, &picked);
            UnitRange range = {.first = (int64_t)part.first, .count = (int64_t)part.count, .step = (int64_t)part.step};
            result = batch_checksum(problem, range, old, job->tensors, &part.checksum, error);
            checksum += part.checksum;
            from += part.count;
            if (!picked)
                keep_batch(resume, &capacity, &part);
        }
        if (result == BATCH_UNWRITABLE)
            return false;
        if (result == BATCH_UNREADABLE ||
            checksum != stored->checksum) { /* not all of it came to the disk, or somebody wrote there: it is done again */
            resume->stored_count = count;
            resume->units = units;
        }
    }
    return true;
}

static bool same_leaves(const JournalState *state, const Job *job, const int variants[CLASS_COUNT], Error *error) {
    for (size_t i = 0; i < state->stored_count; i++) {
        int class = state->stored[i].device, before = state->plan.variants[class];
        if (before != variants[class])
            return error_set(error, "kernel '%s': the job was begun with leaf %d and now would go on with %d; give the --leaf that it was begun with",
                job->kernel->name, before, variants[class]);
    }
    return true;
}

static bool take_old(
    Resume *resume, const Job *job, const Problem *problem, const int variants[CLASS_COUNT], const AuditChoice *audit, Error *error) {
    const JournalState *state = resume->state;
    if (state->plan.units != (uint64_t)problem->units)
        return error_set(error, "the job was begun with %" PRIu64 " tiles and now has %" PRId64, state->plan.units, problem->units);
    if (!same_leaves(state, job, variants, error))
        return false;
    TensorFile *old = new_zeroed((size_t)job->kernel->tensor_count, sizeof *old);
    bool there = open_old(job, &state->plan, old), fine = !there || copy_stored(resume, job, problem, audit, old, error);
    for (int t = 0; t < job->kernel->tensor_count; t++)
        if (old[t].old_fd >= 0)
            close(old[t].old_fd);
    free(old);
    if (!there)
        snprintf(resume->said, sizeof resume->said, "a staging file of the earlier run is gone: the job begins anew");
    else
        snprintf(resume->said, sizeof resume->said, "%" PRId64 " of %" PRId64 " tiles are kept from the earlier run", resume->units, problem->units);
    return fine;
}

static void remove_old(const Resume *resume, const Job *job) {
    for (int t = 0; resume->state != NULL && t < job->kernel->tensor_count; t++)
        if (job_writes(job, t))
            unlink(resume->state->plan.tensors[t].staging);
}

bool resume_take(Resume *resume, Job *job, const Problem *problem, const int variants[CLASS_COUNT], const AuditChoice *audit, Error *error) {
    if (resume->state != NULL && !take_old(resume, job, problem, variants, audit, error))
        return false;
    job->journal = resume_begin(job, problem->units, variants, resume, error);
    if (job->journal == NULL)
        return false;
    remove_old(resume, job);
    return true;
}

void resume_drop(Resume *resume, const Job *job) {
    if (resume->state != NULL)
        snprintf(resume->said, sizeof resume->said, "a job of several steps begins anew: what lived in its pods is lost");
    remove_old(resume, job);
}

void resume_close(Resume *resume) {
    journal_state_free(resume->state);
    free(resume->stored);
    *resume = (Resume){.state = NULL};
}
