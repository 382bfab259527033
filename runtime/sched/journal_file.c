/* The journal on the disk: read as a whole, written record by record. */
#define _GNU_SOURCE
#include "runtime/sched/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t magic[JOURNAL_MAGIC_BYTES] = "PHBJRN1";

char *journal_path(const TensorFile *output) {
    return format_text("%s.phobos-journal", output->path);
}

/* ---- reading ---- */

static bool read_all(int fd, const char *path, uint8_t *bytes, size_t size, Error *error) {
    for (size_t at = 0; at < size;) {
        ssize_t got = pread(fd, bytes + at, size - at, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return error_errno(error, "cannot read the journal \"%s\"", path);
        at += (size_t)got;
    }
    return true;
}

/* The whole file, NULL where there is none or an error is set. */
static uint8_t *load(const char *path, size_t *size, bool *fine, Error *error) {
    struct stat status;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    *fine = fd >= 0 || errno == ENOENT || error_errno(error, "cannot open the journal \"%s\"", path);
    if (fd < 0)
        return NULL;
    uint8_t *bytes = NULL;
    if (fstat(fd, &status) != 0)
        *fine = error_errno(error, "cannot open the journal \"%s\"", path);
    else if (!S_ISREG(status.st_mode) || status.st_size > JOURNAL_MAX_BYTES)
        *fine = error_set(error, "\"%s\" is no journal", path);
    else if ((bytes = malloc((size_t)status.st_size + 1)) == NULL)
        *fine = error_set(error, "out of memory for the journal \"%s\"", path);
    else
        *fine = read_all(fd, path, bytes, *size = (size_t)status.st_size, error);
    close(fd);
    if (*fine)
        return bytes;
    free(bytes);
    return NULL;
}

static bool batch_fits(const JournalStored *stored, uint64_t units) {
    uint64_t last;
    return stored->count > 0 && stored->step > 0 && stored->first < units && !__builtin_mul_overflow(stored->count - 1, stored->step, &last) &&
           last < units - stored->first;
}

static void add_stored(JournalState *state, size_t *capacity, const JournalStored *stored) {
    if (state->stored_count == *capacity) {
        *capacity = *capacity > 0 ? 2 * *capacity : 64;
        JournalStored *more = new_zeroed(*capacity, sizeof *more);
        if (state->stored_count > 0)
            memcpy(more, state->stored, state->stored_count * sizeof *more);
        free(state->stored);
        state->stored = more;
    }
    state->stored[state->stored_count++] = *stored;
}

/* The next record into the state; false: it must not come there, or says what cannot be. */
static bool take_record(JournalState *state, size_t *capacity, bool first, const JournalRecord *record) {
    switch (record->kind) {
    case JOURNAL_PLAN:
        state->plan = record->plan;
        return first && record->plan.generation > 0;
    case JOURNAL_STORED:
        if (first || state->publishing || !batch_fits(&record->stored, state->plan.units))
            return false;
        add_stored(state, capacity, &record->stored);
        return true;
    case JOURNAL_PUBLISH:
        state->publish = record->publish;
        if (first || state->publishing)
            return false;
        return state->publishing = record->publish.tensors_count == state->plan.tensors_count;
    case JOURNAL_DONE:
        return state->publishing && !state->done && (state->done = true);
    }
    return false;
}

JournalState *journal_fold(const uint8_t *bytes, size_t size, bool *fine) {
    JournalRecord *record = new_zeroed(1, sizeof *record);
    JournalState *state = new_zeroed(1, sizeof *state);
    JournalResult result = JOURNAL_END;
    int64_t offset = JOURNAL_MAGIC_BYTES;
    size_t capacity = 0, count = 0;
    *fine = size < JOURNAL_MAGIC_BYTES || memcmp(bytes, magic, sizeof magic) == 0;
    while (*fine && (result = journal_decode(bytes, size, &offset, record)) == JOURNAL_FINE)
        *fine = take_record(state, &capacity, count++ == 0, record);
    *fine &= result == JOURNAL_END;
    free(record);
    if (*fine && count > 0)
        return state;
    journal_state_free(state);
    return NULL;
}

bool journal_read(const char *path, JournalState **state, Error *error) {
    size_t size = 0;
    bool fine;
    uint8_t *bytes = load(path, &size, &fine, error);
    *state = NULL;
    if (bytes == NULL)
        return fine;
    *state = journal_fold(bytes, size, &fine);
    free(bytes);
    return fine || error_set(error, "\"%s\" is no journal of this version", path);
}

void journal_state_free(JournalState *state) {
    if (state == NULL)
        return;
    free(state->stored);
    free(state);
}

/* ---- writing ---- */

struct Journal {
    char *path, *new_path;
    int fd;
    bool in_place; /* renamed from new_path to path */
    bool done;
    int64_t end;
    JournalRecord *record; /* the one that is written, */
    uint8_t *bytes;        /* and its bytes */
};

static bool fail(const Journal *journal, Error *error) {
    return error_errno(error, "cannot write the journal \"%s\"", journal->path);
}

/* All of it, or nothing that a reader would see. */
static bool append_bytes(Journal *journal, const uint8_t *bytes, size_t size, Error *error) {
    for (size_t at = 0; at < size;) {
        ssize_t written = pwrite(journal->fd, bytes + at, size - at, (off_t)journal->end + (off_t)at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return fail(journal, error);
        at += (size_t)written;
    }
    journal->end += (int64_t)size;
    return true;
}

/* What stands in journal->record. */
static bool append(Journal *journal, JournalKind kind, Error *error) {
    journal->record->kind = kind;
    if (journal->end > JOURNAL_MAX_BYTES - JOURNAL_RECORD_BYTES)
        return error_set(error, "the journal \"%s\" is full", journal->path);
    return append_bytes(journal, journal->bytes, journal_encode(journal->record, journal->end, journal->bytes), error);
}

static bool write_start(Journal *journal, const JournalPlan *plan, const JournalStored *stored, size_t count, Error *error) {
    journal->record->plan = *plan;
    if (!append_bytes(journal, magic, sizeof magic, error) || !append(journal, JOURNAL_PLAN, error))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!journal_stored(journal, &stored[i], error))
            return false;
    journal->in_place = fdatasync(journal->fd) == 0 && rename(journal->new_path, journal->path) == 0;
    return (journal->in_place && folder_sync(journal->path)) || fail(journal, error);
}

Journal *journal_new(const char *path, const JournalPlan *plan, const JournalStored *stored, size_t count, Error *error) {
    Journal *journal = new_zeroed(1, sizeof *journal);
    journal->record = new_zeroed(1, sizeof *journal->record);
    journal->path = format_text("%s", path);
    journal->new_path = format_text("%s.new", path);
    journal->bytes = new_zeroed(1, JOURNAL_RECORD_BYTES);
    unlink(journal->new_path); /* of one who was killed here; the outputs are locked */
    journal->fd = open(journal->new_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool fine = journal->fd >= 0 || fail(journal, error);
    if (fine && write_start(journal, plan, stored, count, error))
        return journal;
    unlink(journal->new_path);
    if (journal->in_place)
        unlink(path);
    journal_free(journal);
    return NULL;
}

Journal *journal_of_done(const char *path) {
    Journal *journal = new_zeroed(1, sizeof *journal);
    journal->path = format_text("%s", path);
    journal->fd = -1;
    journal->done = true;
    return journal;
}

bool journal_stored(Journal *journal, const JournalStored *stored, Error *error) {
    journal->record->stored = *stored;
    return append(journal, JOURNAL_STORED, error);
}

bool journal_publish(Journal *journal, const JournalPublish *publish, Error *error) {
    journal->record->publish = *publish;
    return append(journal, JOURNAL_PUBLISH, error) && (fdatasync(journal->fd) == 0 || fail(journal, error));
}

void journal_done(Journal *journal) {
    Error ignored; /* whoever finds the journal sees that every file is in place */
    append(journal, JOURNAL_DONE, &ignored);
    journal->done = true;
}

bool journal_is_done(const Journal *journal) {
    return journal->done;
}

void journal_remove(Journal *journal) {
    unlink(journal->path);
}

void journal_free(Journal *journal) {
    if (journal == NULL)
        return;
    if (journal->fd >= 0)
        close(journal->fd);
    free(journal->path);
    free(journal->new_path);
    free(journal->record);
    free(journal->bytes);
    free(journal);
}
