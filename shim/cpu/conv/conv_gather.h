/*
 * What the derivative by a convolution's weight and transposed convolutions share: a product of a matrix
 * whose rows are read where they are, in staged rows of x, and packed panels.
 */
#ifndef ROWMAJOR_CONV_GATHER_H
#define ROWMAJOR_CONV_GATHER_H

#include "conv_context.h"

/* c[i][j] += the sum over p < k of rows[i][offsets[p]] * panel[p][j], for MR rows i and the columns of
 * a panel, or of its first half if there are no more than LANES columns. Rows of c are `stride` apart. */
void RM_FOR_ISA(gather_tile)(ptrdiff_t k, const float *const *rows, const int32_t *offsets,
                             const float *panel, ptrdiff_t columns, float *c, ptrdiff_t stride);

/* Reads the numbers and the operands of a call, those of conv without a residual. The second operand
 * becomes ctx->w. */
int32_t RM_FOR_ISA(gather_operands)(const rm_call *call, conv_context *ctx);

/* The products of a call. */
static inline double products_of(const conv_context *ctx) {
  return (double)ctx->images * (double)ctx->groups * (double)ctx->rows * (double)ctx->all_pixels *
         (double)ctx->sums;
}

#endif
