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
  static const uint8_t sizes[16] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  return sizes[dtype & 15];
}

static inline bool rm_is_float(int dtype) { return dtype >= RM_FLOAT16 && dtype <= RM_FLOAT64; }

#define RM_DTYPES(compute, out, a, b, c) \
  ((compute) | (out) << 4 | (a) << 8 | (b) << 12 | (c) << 16)

/* Dtype k of a packed set: 0 is that of the arithmetic, 1 that of the output, 2 that of a, ... */
static inline int rm_dtype_at(int32_t dtypes, int k) { return dtypes >> (4 * k) & 15; }

#endif
