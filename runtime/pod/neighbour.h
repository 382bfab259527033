/* Pods of one host hand each other the memory that tiles live in, a file without a name, by a socket that has none in a file system: of a process
 * that dies nothing stays. Only processes of the same user that know the job are answered. Nothing here waits. */
#ifndef PHOBOS_NEIGHBOUR_H
#define PHOBOS_NEIGHBOUR_H

#include "runtime/runtime.h"

/* Where a pod is to be asked: it may have joined the job several times. */
typedef struct NeighbourName {
    uint8_t job_id[16];
    uint32_t plan_epoch, node;
} NeighbourName;

int neighbour_listen(const NeighbourName *name); /* a descriptor; -1: the system has no such sockets */
/* Gives what `memory` is to those who have asked since the last call, not to too many at once. */
void neighbour_answer(int listener, const NeighbourName *name, int memory);

/* A descriptor on which the answer comes; -1: there is nobody of that name yet, or not on this host. */
int neighbour_ask(const NeighbourName *name);
typedef enum NeighbourAnswer { NEIGHBOUR_WAITS, NEIGHBOUR_GIVES, NEIGHBOUR_REFUSES } NeighbourAnswer;
NeighbourAnswer neighbour_take(int asked, int *memory);

#endif
