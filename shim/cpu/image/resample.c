/*
 * Weighted sums of a few elements along an axis: what resizes an image. Tasks have whole rows of the
 * output.
 */
#include "internal.h"

/* The elements of a task: several short rows, or a part of a long one. */
enum { TASK_ELEMENTS = 16384 };

/* The numbers of a call: the sizes before, of and after the axis, and those offsets. */
enum { OUTER, FROM, TO, INNER, TAPS, OFFSETS };

static const double ELEMENT_NS = 0.3;

typedef struct {
  ptrdiff_t outer, from, to, inner, taps, rows_per_task;
  /* [taps, to]. */
  const int32_t *indices;
  const float *weights, *x;
  float *out;
  /* Whether each element is taken twice. */
  bool doubles;
} resample_context;

/* One row of `inner` elements. */
static void wide_row(const resample_context *ctx, const float *x, ptrdiff_t i, float *out) {
  const ptrdiff_t n = ctx->inner;
  const float *weights = ctx->weights + i;
  const int32_t *indices = ctx->indices + i;
  ptrdiff_t k = 0;
  if (ctx->taps == 1 && weights[0] == 1) {
    memcpy(out, x + indices[0] * n, (size_t)n * sizeof *out);
    return;
  }
  if (ctx->taps == 1) {
    const float *a = x + indices[0] * n, p = weights[0];
    RM_ANY_ORDER for (ptrdiff_t j = 0; j < n; j++) out[j] = a[j] * p;
    return;
  }
  for (; k + 2 <= ctx->taps; k += 2) {
    const float *a = x + indices[k * ctx->to] * n, *b = x + indices[(k + 1) * ctx->to] * n;
    const float p = weights[k * ctx->to], q = weights[(k + 1) * ctx->to];
    if (k == 0) {
      RM_ANY_ORDER for (ptrdiff_t j = 0; j < n; j++) out[j] = a[j] * p + b[j] * q;
    } else {
      RM_ANY_ORDER for (ptrdiff_t j = 0; j < n; j++) out[j] = out[j] + a[j] * p + b[j] * q;
    }
  }
  if (k < ctx->taps) {
    const float *a = x + indices[k * ctx->to] * n, p = weights[k * ctx->to];
    RM_ANY_ORDER for (ptrdiff_t j = 0; j < n; j++) out[j] += a[j] * p;
  }
}

/* All elements of a row along the axis, which is the last one. */
static void narrow_row(const resample_context *ctx, const float *x, float *out) {
  const ptrdiff_t n = ctx->to;
  const int32_t *indices = ctx->indices;
  const float *weights = ctx->weights;
  ptrdiff_t k = 0;
  if (ctx->doubles) {
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < ctx->from; i++) out[2 * i] = out[2 * i + 1] = x[i];
    return;
  }
  if (ctx->taps == 1) {
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) out[i] = x[indices[i]] * weights[i];
    return;
  }
  for (; k + 2 <= ctx->taps; k += 2) {
    const int32_t *a = indices + k * n, *b = a + n;
    const float *p = weights + k * n, *q = p + n;
    if (k == 0) {
      RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) out[i] = x[a[i]] * p[i] + x[b[i]] * q[i];
    } else {
      RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
        out[i] = out[i] + x[a[i]] * p[i] + x[b[i]] * q[i];
      }
    }
  }
  if (k < ctx->taps) {
    const int32_t *a = indices + k * n;
    const float *p = weights + k * n;
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) out[i] += x[a[i]] * p[i];
  }
}

static void resample_task(void *context, ptrdiff_t index) {
  const resample_context *ctx = context;
  const ptrdiff_t all = ctx->inner == 1 ? ctx->outer : ctx->outer * ctx->to;
  const ptrdiff_t end = rm_min((index + 1) * ctx->rows_per_task, all);
  for (ptrdiff_t row = index * ctx->rows_per_task; row < end; row++) {
    if (ctx->inner == 1) {
      narrow_row(ctx, ctx->x + row * ctx->from, ctx->out + row * ctx->to);
      continue;
    }
    wide_row(ctx, ctx->x + row / ctx->to * ctx->from * ctx->inner, row % ctx->to,
             ctx->out + row * ctx->inner);
  }
}

int32_t RM_FOR_ISA(resample)(const rm_call *call) {
  const double *numbers = call->numbers, *at = numbers + OFFSETS;
  for (int i = 0; i < 4; i++) {
    if (call->dtypes[i] != (i == 2 ? RM_INT32 : RM_FLOAT32)) return RM_UNSUPPORTED;
    if (call->buffers[i] == NULL) return rm_fail(RM_BAD_ARGUMENT, "resample without operand %d", i);
  }
  resample_context ctx = {
      .outer = (ptrdiff_t)numbers[OUTER],
      .from = (ptrdiff_t)numbers[FROM],
      .to = (ptrdiff_t)numbers[TO],
      .inner = (ptrdiff_t)numbers[INNER],
      .taps = (ptrdiff_t)numbers[TAPS],
      .out = (float *)call->buffers[0] + (ptrdiff_t)at[0],
      .x = (const float *)call->buffers[1] + (ptrdiff_t)at[1],
      .indices = (const int32_t *)call->buffers[2] + (ptrdiff_t)at[2],
      .weights = (const float *)call->buffers[3] + (ptrdiff_t)at[3],
  };
  if (ctx.outer < 1 || ctx.to < 1 || ctx.inner < 1 || ctx.taps < 1) return RM_OK;
  ctx.doubles = ctx.taps == 1 && ctx.to == 2 * ctx.from;
  for (ptrdiff_t i = 0; i < ctx.taps * ctx.to; i++) {
    ctx.doubles = ctx.doubles && ctx.indices[i] == i / 2 && ctx.weights[i] == 1;
    if (ctx.indices[i] >= 0 && ctx.indices[i] < ctx.from) continue;
    return rm_fail(RM_BAD_ARGUMENT, "resample: index %d of %td", (int)ctx.indices[i], ctx.from);
  }
  const ptrdiff_t length = ctx.inner == 1 ? ctx.to : ctx.inner;
  const ptrdiff_t rows = ctx.inner == 1 ? ctx.outer : ctx.outer * ctx.to;
  ctx.rows_per_task = rm_ceil_div(TASK_ELEMENTS, length);
  rm_parallel(rm_ceil_div(rows, ctx.rows_per_task),
              (double)rows * (double)length * (double)ctx.taps * ELEMENT_NS, resample_task, &ctx);
  return RM_OK;
}
