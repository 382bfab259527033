/* A job as a pod has it: from the scheduler's welcome, with the files opened here. */
#ifndef PHOBOS_POD_ATTACH_H
#define PHOBOS_POD_ATTACH_H

#include "runtime/net/wire.h"
#include "runtime/runtime.h"

/* Puts the scheduler's job into a welcome; `variant` is the leaf's. False where a path is too long to travel. */
bool job_describe(const Job *job, int variant, Welcome *welcome, Error *error);

/* The same job, with its files opened as they are here; NULL where the welcome does not fit the program, or a file is outside of `roots` (NULL: anywhere). `seen` gets an entry a tensor: what could
 * not be opened stands in it, for the scheduler to compare. To be freed by job_free, which leaves the scheduler's staging files alone. */
Job *job_attach(const PhbProgram *program, const Welcome *welcome, const Roots *roots, WireSeen *seen, Error *error);

#endif
