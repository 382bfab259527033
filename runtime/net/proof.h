/* How a pod proves, before its first load, that it sees the job's files and not others of the same names: size, modification time and a fingerprint
 * of what is read; of what is written, a mark that the scheduler left behind the staging file's last element. */
#ifndef PHOBOS_PROOF_H
#define PHOBOS_PROOF_H

#include "runtime/net/wire.h"
#include "runtime/runtime.h"

/* What is seen at an opened tensor; old_errno and staging_errno say why a descriptor is -1 where it should not be, else 0. */
void proof_look(const TensorFile *file, int old_errno, int staging_errno, WireSeen *seen);

/* Leaves `nonce` behind the data of a staged tensor; takes it away again before publication. */
bool proof_mark(const TensorFile *file, uint64_t nonce, Error *error);
bool proof_unmark(const TensorFile *file, Error *error);

#endif
