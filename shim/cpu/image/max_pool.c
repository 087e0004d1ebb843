/*
 * The largest element of each window of planes, and where it is.
 */
#include "internal.h"

enum { AXES = 3, PER_AXIS = 6, TASK_ELEMENTS = 16384 };

/* The numbers of a call: planes, then for depth, height and width [size, windows, elements of a window,
 * stride, padding before, dilation]. */
enum { PLANES, AXIS, OFFSETS = AXIS + AXES * PER_AXIS };

static const double ELEMENT_NS = 1;

typedef struct {
  ptrdiff_t size, out, kernel, stride, padding, dilation;
} pool_axis;

typedef struct {
  pool_axis axes[AXES];
  ptrdiff_t planes, plane, windows, rows_per_task;
  const float *x;
  float *out;
  int64_t *indices;
} pool_context;

/* The first element of a window that is inside, and how many there are. */
static ptrdiff_t inside(const pool_axis *axis, ptrdiff_t window, ptrdiff_t *first) {
  const ptrdiff_t begin = window * axis->stride - axis->padding;
  const ptrdiff_t skipped = begin < 0 ? rm_ceil_div(-begin, axis->dilation) : 0;
  *first = begin + skipped * axis->dilation;
  if (*first >= axis->size) return 0;
  return rm_min(axis->kernel - skipped, rm_ceil_div(axis->size - *first, axis->dilation));
}

/* The windows of one row of the output. */
static void pool_row(const pool_context *ctx, ptrdiff_t row) {
  const pool_axis *z = &ctx->axes[0], *y = &ctx->axes[1], *w = &ctx->axes[2];
  const ptrdiff_t rows = z->out * y->out, plane = row / rows;
  const float *x = ctx->x + plane * ctx->plane;
  ptrdiff_t top, left, front;
  const ptrdiff_t depth = inside(z, row % rows / y->out, &front);
  const ptrdiff_t height = inside(y, row % y->out, &top);
  for (ptrdiff_t i = 0; i < w->out; i++) {
    const ptrdiff_t width = inside(w, i, &left);
    float most = -__builtin_inff();
    ptrdiff_t at = -1;
    for (ptrdiff_t p = 0; p < depth; p++) {
      for (ptrdiff_t q = 0; q < height; q++) {
        const ptrdiff_t line = ((front + p * z->dilation) * y->size + top + q * y->dilation) * w->size;
        for (ptrdiff_t r = 0; r < width; r++) {
          const ptrdiff_t here = line + left + r * w->dilation;
          const float value = x[here];
          /* The first of equal ones, and NaN before all. */
          if (value > most || at < 0 || (value != value && most == most)) {
            most = value;
            at = here;
          }
        }
      }
    }
    ctx->out[row * w->out + i] = most;
    ctx->indices[row * w->out + i] = at;
  }
}

static void pool_task(void *context, ptrdiff_t index) {
  const pool_context *ctx = context;
  const ptrdiff_t all = ctx->planes * ctx->axes[0].out * ctx->axes[1].out;
  const ptrdiff_t end = rm_min((index + 1) * ctx->rows_per_task, all);
  for (ptrdiff_t row = index * ctx->rows_per_task; row < end; row++) pool_row(ctx, row);
}

int32_t RM_FOR_ISA(max_pool)(const rm_call *call) {
  const double *numbers = call->numbers, *at = numbers + OFFSETS;
  if (call->dtypes[0] != RM_FLOAT32 || call->dtypes[1] != RM_FLOAT32 || call->dtypes[2] != RM_INT64) {
    return RM_UNSUPPORTED;
  }
  for (int i = 0; i < 3; i++) {
    if (call->buffers[i] == NULL) return rm_fail(RM_BAD_ARGUMENT, "maxPool without operand %d", i);
  }
  pool_context ctx = {
      .planes = (ptrdiff_t)numbers[PLANES],
      .plane = 1,
      .out = (float *)call->buffers[0] + (ptrdiff_t)at[0],
      .x = (const float *)call->buffers[1] + (ptrdiff_t)at[1],
      .indices = (int64_t *)call->buffers[2] + (ptrdiff_t)at[2],
  };
  double elements = (double)ctx.planes;
  for (int i = 0; i < AXES; i++) {
    const double *own = numbers + AXIS + i * PER_AXIS;
    ctx.axes[i] = (pool_axis){(ptrdiff_t)own[0], (ptrdiff_t)own[1], (ptrdiff_t)own[2],
                              (ptrdiff_t)own[3], (ptrdiff_t)own[4], (ptrdiff_t)own[5]};
    ctx.plane *= ctx.axes[i].size;
    elements *= own[1] * own[2];
  }
  const ptrdiff_t rows = ctx.planes * ctx.axes[0].out * ctx.axes[1].out;
  if (rows < 1 || ctx.axes[2].out < 1) return RM_OK;
  ctx.rows_per_task = rm_ceil_div(TASK_ELEMENTS, rm_ceil_div((ptrdiff_t)elements, rows));
  rm_parallel(rm_ceil_div(rows, ctx.rows_per_task), elements * ELEMENT_NS, pool_task, &ctx);
  return RM_OK;
}
