/*
 * The loops of the derivative by a convolution's weight, of transposed convolutions and of those with
 * channels last: products of a matrix whose rows are read where they are and packed panels, and sums of
 * channels. These loops are compiled for each ISA (conv_gather.c); the rest, once.
 */
#ifndef ROWMAJOR_CONV_GATHER_H
#define ROWMAJOR_CONV_GATHER_H

#include "conv_context.h"
#include "gemm_packed.h"

/* The most rows of a tile, and the sums that groups hold in registers. */
enum { MOST_TILE_ROWS = 12, GROUP_SUMS = 6 };

/* The pixels that sums of channels compute at once. */
enum { CHANNEL_PIXELS = 4 };

/* The taps of a kernel that meet elements of x: their number along both axes, the steps to the next ones,
 * and the first element and factor. A factor of a row is followed by the factors of the other channels. */
typedef struct {
  ptrdiff_t rows, columns, row_step, column_step, factor_step;
  const float *x, *w;
} channel_taps;

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
  /* The kernels of products with a packed weight, by the number of rows, and how many columns they take. */
  packed_strip_kernel *(*strip)(ptrdiff_t rows);
  ptrdiff_t strip_rows, strip_columns;
  /* Adds bias, [columns], and the residual, rows like those of the output, unless it is null, to sums, rows
   * of PANEL_COLUMNS, and stores them within the context's limits: rows `stride` apart. There are at least
   * `lanes` columns. */
  void (*finish)(const conv_context *ctx, const float *sums, ptrdiff_t rows, ptrdiff_t columns,
                 const float *bias, const float *add, float *to, ptrdiff_t stride);
  /* Writes the sums of all channels of CHANNEL_PIXELS adjacent pixels, which are `step` elements of x apart,
   * with bias and within the context's limits; and those of one pixel. */
  void (*channels)(const conv_context *ctx, const channel_taps *taps, ptrdiff_t step, float *to);
  void (*channel)(const conv_context *ctx, const channel_taps *taps, float *to);
  void (*activate)(const conv_context *ctx, ptrdiff_t n, float *to);
  /* Reads the numbers and the operands of a call, those of conv. The second operand becomes ctx->w. */
  int32_t (*operands)(const rm_call *call, conv_context *ctx);
  void (*stage)(const conv_context *ctx, const staged_rows *to, const float *plane);
  /* Makes panels of two vectors of pixels; see conv_pack. */
  void (*pack)(const conv_context *ctx, float *panels, float *stage, ptrdiff_t image, ptrdiff_t group,
               ptrdiff_t out_depth, ptrdiff_t first, ptrdiff_t count, ptrdiff_t begin, ptrdiff_t end,
               ptrdiff_t panel_stride);
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
