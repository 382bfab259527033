/* What a job has come to, in a file beside its outputs: enough for --resume to keep what is stored and to finish a publication that was cut short.
 *
 * A file is a magic and records: a head of 16 bytes (kind, length, XXH3-64 of both and of the payload, seeded with the record's place in the file)
 * and a payload, all little-endian. The order is PLAN STORED* (PUBLISH DONE?)?. Where a record is cut off or does not have its checksum the journal
 * ends, so that what was not written to the end was not written. Whoever resumes writes the journal anew, in the next generation. */
#ifndef PHOBOS_JOURNAL_H
#define PHOBOS_JOURNAL_H

#include "runtime/runtime.h"

enum { JOURNAL_MAGIC_BYTES = 8, JOURNAL_HEAD_BYTES = 16, JOURNAL_RECORD_BYTES = 1 << 20 }; /* the last: of a record, at most */
#define JOURNAL_MAX_BYTES (INT64_C(1) << 30)                                               /* of a file */

typedef enum JournalKind { JOURNAL_PLAN = 1, JOURNAL_STORED, JOURNAL_PUBLISH, JOURNAL_DONE } JournalKind;

/* What the rest belongs to. */
typedef struct JournalPlan {
    uint8_t build_id[16];
    uint32_t generation; /* from 1: how many schedulers have worked on the job; the epoch of the last one */
    uint32_t dims_count, tensors_count;
    uint64_t job_hash; /* of kernel, dims, scalars and tensors, @cluster values apart */
    uint64_t units;
    int32_t variants[CLASS_COUNT]; /* the leaf of each class of devices, or -1 */
    int64_t dims[PHB_MAX_DIMS];    /* as PhbKernel.dims */
    struct {
        uint64_t seen;         /* of what is read: a hash of what tells its old contents from others; 0: it is not read */
        char staging[4096];    /* written: its staging file; "": it is only read */
    } tensors[PHB_MAX_PARAMS]; /* as PhbKernel.tensors */
} JournalPlan;

/* Units whose tiles are all in their staging files. */
typedef struct JournalStored {
    uint64_t first, count, step;
    uint64_t checksum; /* of the tiles: batch_checksum */
    uint8_t device;    /* DeviceClass of who computed them, */
    uint16_t arch;     /* and of a GPU its architecture */
} JournalStored;

/* The files that are about to take their targets' places; they hold all that they will. */
typedef struct JournalPublish {
    uint32_t tensors_count;
    struct {
        uint64_t inode; /* 0: it is only read */
        char staging[4096];
    } tensors[PHB_MAX_PARAMS];
} JournalPublish;

typedef struct JournalRecord {
    JournalKind kind;
    union {
        JournalPlan plan;
        JournalStored stored;
        JournalPublish publish;
    };
} JournalRecord;

/* Writes the record that begins at `offset` of a file and returns its bytes. `bytes` has room for JOURNAL_RECORD_BYTES. */
size_t journal_encode(const JournalRecord *record, int64_t offset, uint8_t *bytes);

typedef enum JournalResult {
    JOURNAL_FINE,
    JOURNAL_END, /* of what can be believed */
    JOURNAL_BAD, /* the checksum is right, and what stands there is no record: another version wrote it */
} JournalResult;

/* The record at *offset of a file of `size` bytes, which becomes that of the next one. Pure; unless the result is FINE nothing in `record` means
 * anything. */
JournalResult journal_decode(const uint8_t *file, size_t size, int64_t *offset, JournalRecord *record);

/* ---- a file, read ---- */

typedef struct JournalState {
    JournalPlan plan;
    JournalStored *stored;
    size_t stored_count;
    bool publishing, done;
    JournalPublish publish;
} JournalState;

char *journal_path(const TensorFile *output); /* of the journal of a job whose first output this is; a new string */
/* *state becomes NULL where there is no journal, or one that ends before its plan. False: it cannot be read, or was written by another version. */
bool journal_read(const char *path, JournalState **state, Error *error);
/* The same of a file's bytes; NULL and *fine where it ends before its plan. */
JournalState *journal_fold(const uint8_t *bytes, size_t size, bool *fine);
void journal_state_free(JournalState *state); /* NULL is nothing */

/* ---- a file, written ---- */

typedef struct Journal Journal;

/* In the place of an older one, with the plan and so many batches; all on the disk when it returns. */
Journal *journal_new(const char *path, const JournalPlan *plan, const JournalStored *stored, size_t count, Error *error);
/* That of an earlier run whose outputs are in place: there to be removed. */
Journal *journal_of_done(const char *path);
/* Left to the kernel to bring to the disk: what a crash of the host loses is done again. */
bool journal_stored(Journal *journal, const JournalStored *stored, Error *error);
/* On the disk when it returns: then outputs may be renamed. */
bool journal_publish(Journal *journal, const JournalPublish *publish, Error *error);
/* The outputs are in place. The file stays until nobody can end with another code than 0. */
void journal_done(Journal *journal);
bool journal_is_done(const Journal *journal);
void journal_remove(Journal *journal); /* all is said, or the job has failed and nothing is to be kept */
void journal_free(Journal *journal);   /* leaves the file; NULL is nothing */

#endif
