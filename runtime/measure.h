/* --leaf=measure: the embedded leaves of a kernel timed on a device. */
#ifndef PHOBOS_MEASURE_H
#define PHOBOS_MEASURE_H

#include "runtime/device/device.h"

/* Runs each leaf that the job admits on the job's first unit: on copies of its tiles, with outputs that hold no number before. One that differs from the
 * first by more than rounding is dropped, and a warning says so; the fastest stays, the others are barred from the job. What was found is kept in the user's
 * cache folder, by build, device and extents. False with the reason where no leaf can be run. */
bool leaf_measure(Job *job, const DeviceChoice *device, int threads, LogLevel log, FILE *messages, Error *error);

/* ---- leaf_cache.c: the leaf that was fastest, in $XDG_CACHE_HOME/phobos or ~/.cache/phobos ---- */

/* `key` says what was measured, on one line. -1: nothing is known. */
int leaf_cache_find(const char *key, int leaf_count);
bool leaf_cache_keep(const char *key, int leaf, Error *error);

/* ---- element.c ---- */

double element_real(int dtype, const void *bytes); /* ints beyond 2^53 are rounded */

#endif
