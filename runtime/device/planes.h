/* Planes of tiles: of f32 factors that tensor cores multiply as sums of bf16. */
#ifndef PHOBOS_PLANES_H
#define PHOBOS_PLANES_H

#include "runtime/runtime.h"

/* The launch that computes a tile's planes; its pointers are into itself. */
typedef struct PlanesPass {
    PhbTensorArg tensors[2]; /* the tile as a matrix of all its rows, its planes */
    int64_t dims[2];
    PhbLaunch launch;
} PlanesPass;

PhbTensorArg planes_of(const PhbTensorArg *tile, int rank);
bool planes_pass(const PhbTensorArg *tile, int rank, PlanesPass *pass);          /* false: there is nothing to compute */
bool planes_bytes(int rank, const int64_t extent[PHB_MAX_RANK], int64_t *bytes); /* behind a tile; false: more than 2^63 */
bool planes_first(const PhbTensorMap *maps, int number);                         /* the first of the maps that is of those planes */

#endif
