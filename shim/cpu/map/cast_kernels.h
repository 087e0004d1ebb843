/*
 * Casts of contiguous elements between all dtypes.
 */
#ifndef ROWMAJOR_CAST_KERNELS_H
#define ROWMAJOR_CAST_KERNELS_H

#include "internal.h"

typedef void (RM_KERNEL *cast)(ptrdiff_t n, void *out, const void *in);

/* By source and target. */
extern const cast RM_FOR_ISA(casts)[RM_DTYPE_COUNT][RM_DTYPE_COUNT];

#endif
