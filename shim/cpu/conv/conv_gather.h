/*
 * What the derivative by a convolution's weight and transposed convolutions share: products of a matrix
 * whose rows are read where they are, in staged rows of x, and packed panels. Those loops are compiled for
 * each ISA (conv_gather.c); the rest, once.
 */
#ifndef ROWMAJOR_CONV_GATHER_H
#define ROWMAJOR_CONV_GATHER_H

#include "conv_context.h"

/* The most rows of a tile, and the sums that groups hold in registers. */
enum { MOST_TILE_ROWS = 12, GROUP_SUMS = 6 };

struct rm_conv_gather {
  /* The elements of a vector, and the rows of a tile. Panels have two vectors of columns. */
  ptrdiff_t lanes, rows;
  /* c[i][j] += the sum over p < k of rows[i][offsets[p]] * panel[p][j], for the rows i of a tile and the
   * columns of a panel, or of its first vector if there are no more. Rows of c are `stride` apart. */
  void (*tile)(ptrdiff_t k, const float *const *rows, const int32_t *offsets, const float *panel,
               ptrdiff_t columns, float *c, ptrdiff_t stride);
  /* sums[k][j] += the sum over p of rows[k][offsets[p]][j] * panel[p][j], for GROUP_SUMS rows k, all of
   * panels of columns j. */
  void (*groups)(ptrdiff_t pixels, const float *const *rows, const int32_t *offsets, const float *panel,
                 ptrdiff_t columns, float *sums);
  /* Reads the numbers and the operands of a call, those of conv without a residual. The second operand
   * becomes ctx->w. */
  int32_t (*operands)(const rm_call *call, conv_context *ctx);
  void (*stage)(const conv_context *ctx, const staged_rows *to, const float *plane);
  gemm_workspace *(*workspace_alloc)(size_t size, int slots);
  void (*workspace_free)(gemm_workspace *used);
};

/* Allocates the workspaces of all tasks and `more` bytes, which it returns; null without memory. */
static inline char *gather_workspace(const rm_conv_gather *gather, conv_context *ctx, ptrdiff_t more,
                                     gemm_workspace **workspace) {
  const ptrdiff_t own = ctx->slots * ctx->workspace_bytes;
  *workspace = gather->workspace_alloc((size_t)(own + more), ctx->slots);
  if (*workspace == NULL) return NULL;
  ctx->workspace = (*workspace)->data;
  ctx->slot_taken = (*workspace)->slot_taken;
  return ctx->workspace + own;
}

/* The estimated nanoseconds of a call. */
static inline double gather_ns(const rm_conv_gather *gather, const conv_context *ctx) {
  return (double)ctx->images * (double)ctx->groups * (double)ctx->rows * (double)ctx->all_pixels *
         (double)ctx->sums / (double)gather->lanes / VECTOR_FMAS_PER_NS;
}

#endif
