/* A hand-made program of two kernels, and a folder of files, good and bad, for jobs on them. */
#ifndef PHOBOS_JOB_FIXTURE_H
#define PHOBOS_JOB_FIXTURE_H

#include "runtime/runtime.h"

/* add(a: tensor<f32>[N], b: tensor<f32>[N], c: tensor<f32>[N]), c written, BLOCK in @autotune [16, 32] and @cluster [1024, 4096];
 * mix(x: tensor<f32>[N + KW - 1], w: tensor<bf16>[KW], q: tensor<f32>[N, D], alpha: f32, on: bool, i: i8, u: u64, h: f16), q read and written, D in
 * @autotune [64, 128], N a multiple of 4. */
extern const PhbProgram fixture_program;

/* Makes a fresh folder with the files, and makes it the working folder; ends the process where it cannot. */
void fixture_enter(void);
void fixture_leave(void); /* removes it */
const char *fixture_folder(void);

void write_file(const char *path, const void *bytes, size_t size);
void write_npy(const char *path, int dtype, int rank, const int64_t *shape); /* elements count up from 0 in their bytes */

#endif
