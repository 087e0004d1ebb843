/*
 * Dtypes, by the ids of abi_constants.h.
 */
#ifndef ROWMAJOR_DTYPE_H
#define ROWMAJOR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "rowmajor.h"

/* The bytes of an element. */
static inline ptrdiff_t rm_itemsize(int dtype) {
  static const uint8_t sizes[RM_DTYPE_COUNT] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  return dtype < RM_DTYPE_COUNT ? sizes[dtype] : 0;
}

static inline bool rm_is_float(int dtype) { return dtype >= RM_FLOAT16 && dtype <= RM_FLOAT64; }

/* Whether the dtype is a float of at most 32 bits, which float32 represents. */
static inline bool rm_fits_float32(int dtype) { return rm_is_float(dtype) && dtype != RM_FLOAT64; }

#endif
