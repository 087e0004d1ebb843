/*
 * What gather, scatter and the other functions with indices share.
 */
#ifndef ROWMAJOR_INDEX_H
#define ROWMAJOR_INDEX_H

#include <stdatomic.h>
#include "internal.h"

/* Indices or elements that are read into a buffer at once. */
enum { BLOCK = RM_INDEX_BLOCK };

/* The position of the first index that was found to be out of range, or the number of indices. */
typedef _Atomic(ptrdiff_t) first_bad;

static inline void record_bad_index(first_bad *bad, ptrdiff_t at) {
  ptrdiff_t known = atomic_load(bad);
  while (at < known && !atomic_compare_exchange_weak(bad, &known, at)) {}
}

rm_cpu_kernel rm_gather, rm_ravel_index, rm_take_along_axis, rm_nonzero;

/* Fails unless elements of `dtype` can be moved by indices of `index_dtype`. */
int32_t rm_check_moved(int dtype, int index_dtype);

#endif
