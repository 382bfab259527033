/* A test oracle: a plain C program that knows what a job is to compute. oracle.c has main(): `oracle make JOB.json` writes the inputs that the job
 * has, `oracle check JOB.json` makes the same data again, computes, and compares every output; with --tensor-cores after that, what matrix
 * instructions may have summed up may be off as far as the language allows. It shares no code with the runtime. Everything ends
 * the process with a message on failure. */
#ifndef PHOBOS_TESTS_ORACLE_H
#define PHOBOS_TESTS_ORACLE_H

#include "tests/tools/element.h"

#include <stdbool.h>

typedef struct Oracle Oracle;

/* What the job says. */
const char *oracle_kernel(const Oracle *oracle); /* "" where the job names none */
int64_t oracle_dim(const Oracle *oracle, const char *name);
double oracle_scalar(const Oracle *oracle, const char *name);
int64_t oracle_repeat(const Oracle *oracle); /* of the steps; 1 where the job says nothing */
bool oracle_tensor_cores(const Oracle *oracle);

/* Bits: elements of a tensor in row-major order, compared bit by bit (any NaN equals any NaN); freed by main. An input is random: floats of many
 * magnitudes, zeros, infinities, NaN and subnormals among them. An output starts as zeros where the job has no such file yet, and is the oracle's to
 * fill. An in-out tensor starts as an input. */
void *oracle_input(Oracle *oracle, const char *name, ElementType type, int rank, const int64_t *shape);
void *oracle_output(Oracle *oracle, const char *name, ElementType type, int rank, const int64_t *shape);
void *oracle_inout(Oracle *oracle, const char *name, ElementType type, int rank, const int64_t *shape);

/* Numbers: the same in double precision, whatever the type. An input element is fill(context, index) rounded to the type, or where `fill` is NULL a
 * random number: a float in [-1, 1), an int of most of the type. An output element is right if it is what some number in value +- bound rounds to:
 * with the bound 0 that it starts with, the nearest number of the type. */
typedef double OracleFill(const void *context, const int64_t *index);
typedef struct OracleResult {
    double *value, *bound;
} OracleResult;
const double *oracle_numbers(
    Oracle *oracle, const char *name, ElementType type, int rank, const int64_t *shape, OracleFill *fill, const void *context);
OracleResult oracle_result(Oracle *oracle, const char *name, ElementType type, int rank, const int64_t *shape);
OracleResult oracle_update(Oracle *oracle, const char *name, ElementType type, int rank, const int64_t *shape, OracleFill *fill, const void *context);

/* A published figure that the oracle's own numbers have to give: it fails where they do not. */
void oracle_expect(const Oracle *oracle, const char *what, double expected, double found, double bound);

/* Written by each test: asks for the tensors, then fills the outputs. */
void oracle_run(Oracle *oracle);

#endif
