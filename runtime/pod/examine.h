/* What a pod tries for --role=doctor: the ways to its peers, and the job's files. */
#ifndef PHOBOS_EXAMINE_H
#define PHOBOS_EXAMINE_H

#include "runtime/net/keys.h"
#include "runtime/net/wire.h"

typedef struct Examination Examination;

/* Of a pod whose sockets belong to `context`; all are borrowed. */
Examination *examination_new(void *context, const Keys *keys, const Roots *roots);
void examination_free(Examination *examination);
/* Begins with it, on a thread, unless one runs or it is the last one: false where no thread can be had. Once it is done, examination_fd is readable.
 */
bool examination_begin(Examination *examination, const Examine *request, Error *error);
int examination_fd(const Examination *examination); /* -1: none runs */
void examination_stop(Examination *examination); /* what runs ends as soon as it can, */
bool examination_ends(const Examination *examination, uint64_t until_ms); /* and whether by then: clock_ms */
/* Waits for what runs. False: there is nothing to tell. */
bool examination_result(Examination *examination, Examined *result);

#endif
