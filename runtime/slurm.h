/* Slurm's environment. Each function says on `out` what it has found, and gives NULL or 0 outside of a Slurm job; texts are the caller's. */
#ifndef PHOBOS_SLURM_H
#define PHOBOS_SLURM_H

#include <stdio.h>

int slurm_pods(FILE *out);                /* that a scheduler waits for: the tasks, else the nodes of the job */
char *slurm_node_name(FILE *out);         /* of a pod in a step: the node's, with the task's number where that is not the node's first */
char *slurm_scheduler(FILE *out);         /* for a pod in a step: where the batch script runs */
char *slurm_first_host(const char *list); /* "n[03-07,9],m" gives "n03" */

#endif
