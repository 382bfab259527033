/* phobos-tensor: tensors on disk, looked at, made, compared, converted and drawn. */
#ifndef PHOBOS_TENSOR_H
#define PHOBOS_TENSOR_H

#include "runtime/runtime.h"

/* A tensor in memory, of a file or of our own making. */
typedef struct Tensor {
    char *path;
    bool is_npy;
    int dtype, rank;
    int64_t shape[PHB_MAX_RANK];
    int64_t count; /* of elements */
    const unsigned char *data;
    void *mapping; /* NULL: `data` is not a file's */
    size_t mapped;
} Tensor;

/* ---- file.c ---- */

/* "x.npy", "x.bin:f32[4,5]", "x.npy:bf16": what the header does not say, or says in another way, stands behind the name. The last ":" counts only
 * where what follows is a type, so that other names may have one. */
bool tensor_open(Tensor *tensor, const char *spec, Error *error);
/* Where to write: a name, and the type behind it or else `like`'s. Opens nothing. */
bool tensor_target(Tensor *tensor, const char *spec, const Tensor *like, Error *error);
/* Writes `bytes` as the tensor's elements into a new file that takes the place of an old one when it is whole. */
bool tensor_write(const Tensor *tensor, const void *bytes, Error *error);
void tensor_close(Tensor *tensor);
int64_t tensor_bytes(const Tensor *tensor);
double tensor_real(const Tensor *tensor, int64_t index);
/* The place of an element: "[3, 17]". */
void tensor_place(const Tensor *tensor, int64_t index, char text[96]);
void tensor_describe(const Tensor *tensor, char text[160]); /* "f32[4, 5]" */

/* ---- create.c ---- */

/* zeros, ones, iota, uniform (0 to 1), normal, or a number, in the tensor's type; `seed` draws. NULL: the fill is none of these. For free(). */
void *tensor_fill(const Tensor *tensor, const char *fill, uint64_t seed, Error *error);
/* Each element converted as the language does: floats round to nearest even, to an integer they truncate and saturate; integers wrap. For free(). */
void *tensor_convert(const Tensor *tensor, int dtype, Error *error);

/* ---- compare.c ---- */

typedef struct Tolerance {
    double ulp, absolute, relative; /* an element is the same within any of them */
} Tolerance;

typedef struct Comparison {
    int64_t differing; /* elements beyond the tolerance */
    int64_t first;     /* of them; -1: none */
    double max_ulp;    /* over all elements; infinite where a NaN or infinity meets another number */
    double max_absolute;
    int64_t worst; /* where max_ulp is */
} Comparison;

/* False where types or shapes differ. */
bool tensor_compare(const Tensor *left, const Tensor *right, const Tolerance *tolerance, Comparison *result, Error *error);

/* ---- draw.c ---- */

/* A matrix of a tensor as a picture: of more than two axes the leading ones are at `at`. To a PNG file, or in the terminal where `path` is NULL,
 * `columns` wide. */
bool tensor_draw(const Tensor *tensor, const int64_t *at, const char *path, int columns, Error *error);

#endif
