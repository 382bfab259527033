#include "runtime/keep.h"
#include "runtime/crash.h"

#include <stdlib.h>
#include <string.h>

static void say(const Keep *keep, const char *text) {
    if (keep->options->log >= LOG_WARNING && text[0] != '\0')
        fprintf(keep->options->messages, "%s\n", text);
}

bool keep_open(Keep *keep, Job *job, const RunOptions *options, Error *error) {
    *keep = (Keep){.job = job, .options = options};
    pthread_mutex_init(&keep->mutex, NULL);
    return resume_open(&keep->resume, job, options->resume, error);
}

static void variants_of(const Keep *keep, int variants[CLASS_COUNT]) {
    const Problem *problem = keep->course->steps[0].problem;
    for (int class = 0; class < CLASS_COUNT; class ++)
        variants[class] = -1;
    variants[keep->devices->class] = (int)(problem->variant - problem->kernel->variants);
}

/* What is kept of an earlier run has the bits of the devices that computed it. */
static bool same_devices(const Keep *keep, Error *error) {
    const JournalState *state = keep->resume.state;
    const DeviceSet *devices = keep->devices;
    for (size_t i = 0; state != NULL && !keep->options->mixed && i < state->stored_count; i++) {
        const JournalStored *stored = &state->stored[i];
        if (stored->device == devices->class && stored->arch == devices->arch)
            continue;
        char before[32], now[32];
        class_describe((DeviceClass)stored->device, stored->arch, before);
        class_describe(devices->class, devices->arch, now);
        return error_set(error, "the job was begun on %s and now would go on on %s: other devices give other bits; --mixed takes them", before, now);
    }
    return true;
}

bool keep_take(Keep *keep, const Course *course, const DeviceSet *devices, const AuditChoice *audit, Error *error) {
    int variants[CLASS_COUNT];
    keep->course = course;
    keep->devices = devices;
    variants_of(keep, variants);
    bool wanted = keep->options->resume && keep->job->sequence == NULL;
    if (!same_devices(keep, error) || (wanted && !resume_take(&keep->resume, keep->job, course->steps[0].problem, variants, audit, error)))
        return false;
    if (!wanted)
        resume_drop(&keep->resume, keep->job);
    say(keep, keep->resume.said);
    if (keep->resume.stored_count > 0)
        keep->stored = new_zeroed((size_t)course->units, sizeof *keep->stored);
    for (size_t i = 0; i < keep->resume.stored_count; i++) {
        const JournalStored *stored = &keep->resume.stored[i];
        for (uint64_t u = 0; u < stored->count; u++)
            keep->stored[stored->first + u * stored->step] = true;
    }
    return true;
}

bool keep_journals(const Keep *keep) {
    return keep->job->journal != NULL;
}

UnitRange keep_missing(const Keep *keep, UnitRange range, int64_t *passed) {
    int64_t skipped = 0, count = range.count;
    if (keep->stored != NULL) {
        while (skipped < range.count && keep->stored[range.first + skipped * range.step])
            skipped++;
        for (count = 0; skipped + count < range.count && !keep->stored[range.first + (skipped + count) * range.step];)
            count++;
    }
    *passed = skipped + count;
    return (UnitRange){.first = range.first + skipped * range.step, .count = count, .step = range.step};
}

void keep_batch(Keep *keep, UnitRange range, uint64_t checksum) {
    JournalStored stored = {
        .first = (uint64_t)range.first,
        .count = (uint64_t)range.count,
        .step = (uint64_t)range.step,
        .checksum = checksum,
        .device = (uint8_t)keep->devices->class,
        .arch = (uint16_t)keep->devices->arch,
    };
    Error error;
    pthread_mutex_lock(&keep->mutex);
    crash_point(CRASH_BATCH, CRASH_BEGIN);
    bool fine = journal_stored(keep->job->journal, &stored, &error);
    crash_point(CRASH_BATCH, CRASH_END);
    if (!fine && !keep->failed) {
        keep->failed = true; /* the job goes on: it loses no more than what a crash would cost */
        say(keep, error.text);
    }
    pthread_mutex_unlock(&keep->mutex);
}

/* Several outputs take their places one after another: what a crash in between leaves, --resume finishes. */
bool keep_publish(Keep *keep, Error *error) {
    Job *job = keep->job;
    int variants[CLASS_COUNT], written = 0;
    variants_of(keep, variants);
    for (int t = 0; t < job->kernel->tensor_count; t++)
        written += job_writes(job, t);
    if (!outputs_finish(job, error))
        return false;
    bool needs_journal = written > 1 || keep->options->resume;
    if (job->journal == NULL && needs_journal)
        job->journal = resume_begin(job, keep->course->units, variants, &keep->resume, error);
    return (job->journal != NULL || !needs_journal) && outputs_publish(job, false, error);
}

void keep_close(Keep *keep) {
    resume_close(&keep->resume);
    free(keep->stored);
    pthread_mutex_destroy(&keep->mutex);
}
