/*
 * Rotary position embedding: pairs of columns, turned by an angle for each row.
 */
#include "internal.h"

/* The numbers of a call. */
enum {
  OUTER,
  ROWS,
  COLUMNS,
  PAIRS,
  INTERLEAVED,
  OUTER_STRIDE,
  ROW_STRIDE,
  OUT_OFFSET,
  X_OFFSET,
  COS_OFFSET,
  SIN_OFFSET
};

/* The estimated nanoseconds per element. */
static const double ELEMENT_NS = 0.3;

typedef struct {
  const float *x, *cos, *sin;
  float *out;
  ptrdiff_t rows, columns, pairs, outer_stride, row_stride;
  bool interleaved;
} rope_context;

static void turn_row(void *context, ptrdiff_t index) {
  const rope_context *ctx = context;
  const ptrdiff_t row = index % ctx->rows, pairs = ctx->pairs;
  const float *restrict x = ctx->x + index / ctx->rows * ctx->outer_stride + row * ctx->row_stride;
  const float *restrict cosine = ctx->cos + row * pairs, *restrict sine = ctx->sin + row * pairs;
  float *restrict out = ctx->out + index * ctx->columns;
  if (ctx->interleaved) {
    for (ptrdiff_t i = 0; i < pairs; i++) {
      const float a = x[2 * i], b = x[2 * i + 1];
      out[2 * i] = a * cosine[i] - b * sine[i];
      out[2 * i + 1] = a * sine[i] + b * cosine[i];
    }
  } else {
    for (ptrdiff_t i = 0; i < pairs; i++) {
      const float a = x[i], b = x[i + pairs];
      out[i] = a * cosine[i] - b * sine[i];
      out[i + pairs] = a * sine[i] + b * cosine[i];
    }
  }
  for (ptrdiff_t i = 2 * pairs; i < ctx->columns; i++) out[i] = x[i];
}

int32_t RM_FOR_ISA(rope)(const rm_call *call) {
  const double *numbers = call->numbers;
  for (int i = 0; i < 4; i++) {
    if (call->dtypes[i] != RM_FLOAT32) return RM_UNSUPPORTED;
    if (call->buffers[i] == NULL) return rm_fail(RM_BAD_ARGUMENT, "rope without operand %d", i);
  }
  rope_context ctx = {
      .out = (float *)call->buffers[0] + (ptrdiff_t)numbers[OUT_OFFSET],
      .x = (const float *)call->buffers[1] + (ptrdiff_t)numbers[X_OFFSET],
      .cos = (const float *)call->buffers[2] + (ptrdiff_t)numbers[COS_OFFSET],
      .sin = (const float *)call->buffers[3] + (ptrdiff_t)numbers[SIN_OFFSET],
      .rows = (ptrdiff_t)numbers[ROWS],
      .columns = (ptrdiff_t)numbers[COLUMNS],
      .pairs = (ptrdiff_t)numbers[PAIRS],
      .outer_stride = (ptrdiff_t)numbers[OUTER_STRIDE],
      .row_stride = (ptrdiff_t)numbers[ROW_STRIDE],
      .interleaved = numbers[INTERLEAVED] != 0,
  };
  const ptrdiff_t count = (ptrdiff_t)numbers[OUTER] * ctx.rows;
  if (2 * ctx.pairs > ctx.columns) return rm_fail(RM_BAD_ARGUMENT, "rope of too many pairs");
  if (count < 1) return RM_OK;
  rm_parallel(count, (double)count * (double)ctx.columns * ELEMENT_NS, turn_row, &ctx);
  return RM_OK;
}
