/*
 * What becomes of the sums of products of rows of x with groups of a weight: plus bias, through an
 * activation, plus a residual.
 */
#ifndef ROWMAJOR_GROUP_OUTPUT_H
#define ROWMAJOR_GROUP_OUTPUT_H

#include "map_context.h"
#include "row_product.h"
#include "quant_tiles.h"

typedef struct {
  ptrdiff_t columns, out_stride, add_stride;
  const float *bias, *add;
  float *out;
  map_function activation;
} group_output;

/* Reads it from a call of a product of rows; returns a status. */
static int32_t read_output(const rm_call *call, group_output *to) {
  const double *numbers = call->numbers;
  const int activation = (int)numbers[ACTIVATION];
  if (!has_activation(activation)) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no activation %d", activation);
  }
  for (int i = 0; i < 3; i++) {
    if (call->buffers[i] == NULL) return rm_fail(RM_BAD_ARGUMENT, "a product without operand %d", i);
  }
  if (!rm_optional_f32(call, numbers[BIAS_BUFFER], numbers[BIAS_OFFSET], &to->bias) ||
      !rm_optional_f32(call, numbers[ADD_BUFFER], numbers[ADD_OFFSET], &to->add)) {
    return rm_fail(RM_BAD_ARGUMENT, "a product without its bias or residual");
  }
  to->activation = NULL;
  if (activation != RM_ACTIVATION_NONE) {
    to->activation = RM_FOR_ISA(map_kernel)(activation_op(activation), RM_FLOAT32);
  }
  to->columns = (ptrdiff_t)numbers[COLUMNS];
  to->out = (float *)call->buffers[0] + (ptrdiff_t)numbers[OUT_OFFSET];
  to->out_stride = (ptrdiff_t)numbers[OUT_STRIDE];
  to->add_stride = (ptrdiff_t)numbers[ADD_STRIDE];
  return RM_OK;
}

/* to = a + b for columns of a group; b may be null. */
static RM_ALWAYS_INLINE void add_columns(float *to, const float *a, const float *b,
                                         ptrdiff_t columns) {
  if (columns == GROUP_ROWS) {
    UNROLL for (int j = 0; j < GROUP_ROWS; j += LANES) {
      const v_f32 x = *(const v_f32 *)(a + j);
      *(v_f32 *)(to + j) = b == NULL ? x : x + *(const v_f32 *)(b + j);
    }
  } else {
    RM_SCALAR for (ptrdiff_t j = 0; j < columns; j++) to[j] = b == NULL ? a[j] : a[j] + b[j];
  }
}

/* Completes the sums of rows and a group, and writes them to out. */
static void finish_group(const group_output *ctx, ptrdiff_t row, ptrdiff_t rows, ptrdiff_t group,
                         float *sums) {
  const ptrdiff_t column = group * GROUP_ROWS;
  const ptrdiff_t columns = rm_min(GROUP_ROWS, ctx->columns - column);
  if (ctx->bias != NULL) {
    for (ptrdiff_t i = 0; i < rows; i++) {
      float *to = sums + i * GROUP_ROWS;
      add_columns(to, to, ctx->bias + column, columns);
    }
  }
  if (ctx->activation != NULL) {
    ctx->activation(rows * GROUP_ROWS, sums, sums, NULL, NULL, NULL);
  }
  for (ptrdiff_t i = row; i < row + rows; i++, sums += GROUP_ROWS) {
    const float *add = ctx->add == NULL ? NULL : ctx->add + i * ctx->add_stride + column;
    add_columns(ctx->out + i * ctx->out_stride + column, sums, add, columns);
  }
}

#endif
