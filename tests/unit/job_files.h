/* Tensor files of hand-made jobs: raw integers of a random width, held here as 64 bits each. */
#ifndef PHOBOS_JOB_FILES_H
#define PHOBOS_JOB_FILES_H

#include "runtime/runtime.h"

void must(bool holds); /* aborts: what a test needs before it can begin */

char *job_folder_new(void);           /* under /tmp; the caller's */
bool job_folder_remove(char *folder); /* frees the name; false: something was left behind */

/* FOLDER/NAME.bin with `elements`, opened as the runtime opens it. */
void job_file_make(
    const char *folder, const char *name, int mode, int dtype, int rank, const int64_t *shape, const uint64_t *elements, TensorFile *file);
/* Whether it holds `elements` and no byte more. */
bool job_file_is(const char *folder, const char *name, const TensorFile *file, const uint64_t *elements);
/* Closes and deletes it; false: it was not there. */
bool job_file_remove(const char *folder, const char *name, TensorFile *file);
void job_journal_remove(Job *job); /* as job_free does where all went well; where there is one */

#endif
