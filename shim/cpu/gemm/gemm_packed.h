/*
 * Products with a packed weight: the panels, and their kernels.
 *
 * A weight of [columns, depth] is packed into panels of PANEL_COLUMNS of its columns of the product.
 * A panel has `depth` rows of PANEL_COLUMNS elements; columns beyond the last one are 0. All
 * instruction sets and src/ops/linear/panels.ts read these bytes. Rows of bfloat16 are interleaved: the
 * elements 2 j and 2 j + 1 are columns j and j + 16, so that a vector of 32-bit words becomes two
 * vectors of float32 by a shift and a mask.
 */
#ifndef ROWMAJOR_GEMM_PACKED_H
#define ROWMAJOR_GEMM_PACKED_H

#include "gemm_vectors.h"
#include "float16.h"

/*
 * Kernels hold the sums of all their rows in registers. Those of a strip, STRIP_VECTORS vectors of
 * float32 of a panel, take up to TILE_ROWS rows. The others take whole panels of any dtype and at most
 * FEW_ROWS rows, or two panels for at most PAIR_ROWS rows: one has too few sums to hide the latency
 * of the additions.
 */
enum {
  PANEL_COLUMNS = 32,
#if defined(__AVX512F__)
  STRIP_VECTORS = 2, TILE_ROWS = 14, FEW_ROWS = 4, PAIR_ROWS = 2,
#elif defined(__AVX2__)
  STRIP_VECTORS = 2, TILE_ROWS = 6, FEW_ROWS = 2, PAIR_ROWS = 1,
#elif defined(__aarch64__)
  STRIP_VECTORS = 4, TILE_ROWS = 6, FEW_ROWS = 2, PAIR_ROWS = 1,
#else
  STRIP_VECTORS = 2, TILE_ROWS = 4, FEW_ROWS = 1, PAIR_ROWS = 0,
#endif
  STRIP_COLUMNS = STRIP_VECTORS * VECTOR_BYTES / 4,
  /* How far ahead of its loads a kernel asks for lines of a weight that is not in the cache.
   * Processors that notice the pattern by themselves stop at the end of each page. */
  AHEAD_BYTES = 2048
};

/*
 * Both kinds write sums[PANEL_COLUMNS * i + j] of `depth` elements of row i of x, which are `stride`
 * elements apart, and as many rows of the panel, or add to them. Each product is added to the one
 * accumulator of its sum, in order. So results depend neither on the number of rows nor on the choice
 * of the kernel.
 */

/* Each step asks the cache for as many bytes of the row at `ahead` as it reads of its own, and then
 * advances `ahead` by `step` bytes. */
typedef RM_KERNEL void packed_strip_kernel(ptrdiff_t depth, const float *x, ptrdiff_t stride,
                                           const void *panel, float *sums, bool add,
                                           const char *ahead, ptrdiff_t step);

/* The second panel is `pair` bytes after the first one; its sums follow those of the first. */
typedef RM_KERNEL void packed_panel_kernel(ptrdiff_t depth, const float *x, ptrdiff_t stride,
                                           const void *panel, float *sums, bool add,
                                           ptrdiff_t pair);

packed_strip_kernel *RM_FOR_ISA(packed_strip_kernel)(ptrdiff_t rows);

/* For one panel or two; null if there is none. */
packed_panel_kernel *RM_FOR_ISA(packed_panel_kernel)(int dtype, ptrdiff_t rows, int panels);

/* Widens `depth` rows of a panel of 16-bit floats. */
void RM_FOR_ISA(packed_widen)(int dtype, ptrdiff_t depth, const void *panel, float *to);

#endif
