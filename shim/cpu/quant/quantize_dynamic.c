/*
 * float32 rounded to unsigned bytes, with the scale and the zero point that its smallest and largest
 * elements give: one pass to find those, one to round.
 */
#include <math.h>
#include <string.h>
#include "byte_rounding.h"

enum { MOST_TASKS = 64, LEAST_ELEMENTS = 16384 };

static const double FOUND_PER_NS = 8, ROUNDED_PER_NS = 2;

/* The numbers of a call. */
enum { COUNT, OUT_AT, X_AT, SCALE_AT, ZERO_AT };

typedef struct {
  const float *x;
  uint8_t *out;
  ptrdiff_t count, per_task;
  float_range found[MOST_TASKS];
  byte_rounding rounding;
} dynamic_context;

static void find_task(void *context, ptrdiff_t index) {
  dynamic_context *ctx = context;
  const ptrdiff_t first = index * ctx->per_task;
  ctx->found[index] = range_of(ctx->x + first, rm_min(ctx->per_task, ctx->count - first));
}

static void round_task(void *context, ptrdiff_t index) {
  const dynamic_context *ctx = context;
  const ptrdiff_t first = index * ctx->per_task;
  round_bytes(ctx->rounding, ctx->x + first, rm_min(ctx->per_task, ctx->count - first),
              ctx->out + first);
}

int32_t RM_FOR_ISA(quantize_dynamic)(const rm_call *call) {
  const double *numbers = call->numbers;
  if (call->dtypes[0] != RM_UINT8 || call->dtypes[1] != RM_FLOAT32 ||
      call->dtypes[2] != RM_FLOAT32 || call->dtypes[3] != RM_UINT8) {
    return RM_UNSUPPORTED;
  }
  for (int i = 0; i < 4; i++) {
    if (call->buffers[i] == NULL) {
      return rm_fail(RM_BAD_ARGUMENT, "quantizeDynamic without operand %d", i);
    }
  }
  dynamic_context ctx = {
      .x = (const float *)call->buffers[1] + (ptrdiff_t)numbers[X_AT],
      .out = (uint8_t *)call->buffers[0] + (ptrdiff_t)numbers[OUT_AT],
      .count = (ptrdiff_t)numbers[COUNT],
  };
  if (ctx.count < 1) return RM_UNSUPPORTED;
  ctx.per_task = rm_ceil_div(ctx.count, MOST_TASKS);
  if (ctx.per_task < LEAST_ELEMENTS) ctx.per_task = LEAST_ELEMENTS;
  const ptrdiff_t tasks = rm_ceil_div(ctx.count, ctx.per_task);
  rm_parallel(tasks, (double)ctx.count / FOUND_PER_NS, find_task, &ctx);
  float_range all = ctx.found[0];
  for (ptrdiff_t i = 1; i < tasks; i++) all = both_ranges(all, ctx.found[i]);
  ctx.rounding = rounding_of(all);
  ((float *)call->buffers[2])[(ptrdiff_t)numbers[SCALE_AT]] = ctx.rounding.scale;
  ((uint8_t *)call->buffers[3])[(ptrdiff_t)numbers[ZERO_AT]] = (uint8_t)ctx.rounding.zero;
  rm_parallel(tasks, (double)ctx.count / ROUNDED_PER_NS, round_task, &ctx);
  return RM_OK;
}
