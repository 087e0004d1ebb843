/*
 * What gathers, scatters and the other functions by indexes share.
 */
#ifndef ROWMAJOR_INDEX_H
#define ROWMAJOR_INDEX_H

#include <stdatomic.h>
#include "internal.h"

/* Indexes, or elements, that are read into a buffer at a time. */
enum { BLOCK = RM_INDEX_BLOCK };

/* Where the first of the bad indexes is that have been seen, or beyond the last index. */
typedef _Atomic(ptrdiff_t) first_bad;

static inline void note_bad(first_bad *bad, ptrdiff_t at) {
  ptrdiff_t known = atomic_load(bad);
  while (at < known && !atomic_compare_exchange_weak(bad, &known, at)) {}
}

/* Each does one part of rm_move, whose declaration says what the parameters are. */
int32_t rm_gather_scatter(int what, int dtype, int index_dtype, const double *plan, double *numbers,
                          void *target, const void *source, const void *indexes);
int32_t rm_ravel_index(int dtype, int index_dtype, const double *plan, double *numbers,
                       void *target, const void *indexes);
int32_t rm_take_along_axis(int dtype, int index_dtype, const double *plan, double *numbers,
                           void *target, const void *source, const void *indexes);
int32_t rm_nonzero(int dtype, double *numbers, void *target, const void *source);

#endif
