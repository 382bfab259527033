/* A test oracle: a plain C program that knows what a job is to compute. oracle.c has main(): `oracle make JOB.json` writes random inputs where the
 * job has them, `oracle check JOB.json` makes the same data again, computes, and compares every output bit by bit (any NaN equals any NaN). It shares
 * no code with the runtime. Everything ends the process with a message on failure. */
#ifndef PHOBOS_TESTS_ORACLE_H
#define PHOBOS_TESTS_ORACLE_H

#include <stdint.h>

typedef enum OracleType { ORACLE_F32, ORACLE_F64, ORACLE_I8, ORACLE_U8, ORACLE_I32, ORACLE_U32, ORACLE_I64, ORACLE_U64 } OracleType;

typedef struct Oracle Oracle;

/* What the job says. */
int64_t oracle_dim(const Oracle *oracle, const char *name);
double oracle_scalar(const Oracle *oracle, const char *name);

/* Elements of a tensor in row-major order; freed by main. An input is random: floats of many magnitudes, zeros, infinities, NaN and subnormals among
 * them. An output starts as zeros where the job has no such file yet, and is the oracle's to fill. An in-out tensor starts as an input. */
void *oracle_input(Oracle *oracle, const char *name, OracleType type, int rank, const int64_t *shape);
void *oracle_output(Oracle *oracle, const char *name, OracleType type, int rank, const int64_t *shape);
void *oracle_inout(Oracle *oracle, const char *name, OracleType type, int rank, const int64_t *shape);

/* Written by each test: asks for the tensors, then fills the outputs. */
void oracle_run(Oracle *oracle);

#endif
