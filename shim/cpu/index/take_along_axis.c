/*
 * Gathers along an axis by indices that have the shape of the result.
 */
#include "index.h"

/* Elements per task. */
enum { TASK_ELEMENTS = 8192 };

typedef struct {
  rm_iterator iterator;
  int index_dtype;
  ptrdiff_t bytes, rows, columns;
  int64_t size;
  ptrdiff_t index_stride;
  /* The partition of the work: rows per task, and parts per row. */
  ptrdiff_t task_rows, parts;
  /* The first element whose index is out of range. */
  first_bad bad;
} take_context;

#define TAKE_ELEMENTS(T, to_step, from_step) \
  for (ptrdiff_t i = 0; i < n; i++) { \
    *(T *)(to + i * (to_step)) = *(const T *)(from + i * (from_step) + \
                                              indices[i] * ctx->index_stride); \
  }
#define TAKE(T) \
  if (step[0] == sizeof(T) && step[1] == 0 && ctx->index_stride == sizeof(T)) { \
    T *o = (T *)to; \
    const T *p = (const T *)from; \
    for (ptrdiff_t i = 0; i < n; i++) o[i] = p[indices[i]]; \
  } else TAKE_ELEMENTS(T, step[0], step[1])

/* Gathers one part of a row. Returns the number of indices before the first one that is out of
 * range. */
static ptrdiff_t take_run(const take_context *ctx, ptrdiff_t n, char *to, const char *from,
                          const char *raw_indices, const ptrdiff_t *step) {
  int64_t indices[BLOCK];
  n = rm_isa_kernels()->normalize_indices(ctx->index_dtype, raw_indices, step[2], n, ctx->size,
                                          indices);
  switch (ctx->bytes) {
    case 1: TAKE(uint8_t) break;
    case 2: TAKE(uint16_t) break;
    case 4: TAKE(uint32_t) break;
    default: TAKE(uint64_t)
  }
  return n;
}

static void take_task(void *context, ptrdiff_t index) {
  take_context *ctx = context;
  const rm_iterator *it = &ctx->iterator;
  const int inner = it->rank - 1;
  ptrdiff_t row = index / ctx->parts * ctx->task_rows;
  const ptrdiff_t last = rm_min(row + ctx->task_rows, ctx->rows);
  const ptrdiff_t begin = index % ctx->parts * TASK_ELEMENTS;
  const ptrdiff_t end = ctx->parts == 1 ? ctx->columns
                                        : rm_min(begin + TASK_ELEMENTS, ctx->columns);
  static const ptrdiff_t none[RM_MAX_OPERANDS] = {0};
  const ptrdiff_t *step = inner < 0 ? none : it->strides[inner];
  char *at[RM_MAX_OPERANDS] = {it->data[0], it->data[1], it->data[2]};
  ptrdiff_t count[RM_MAX_RANK] = {0};
  rm_iterator_seek(it, inner, row, count, at);
  for (; row < last; row++, rm_iterator_next(it, 0, inner, count, at)) {
    for (ptrdiff_t i = begin; i < end; i += BLOCK) {
      const ptrdiff_t n = rm_min(BLOCK, end - i);
      const ptrdiff_t good = take_run(ctx, n, at[0] + i * step[0], at[1] + i * step[1],
                                      at[2] + i * step[2], step);
      if (good == n) continue;
      record_bad_index(&ctx->bad, row * ctx->columns + i + good);
      return;
    }
  }
}

int32_t rm_take_along_axis(const rm_call *call) {
  const int dtype = call->dtypes[1], index_dtype = call->dtypes[2];
  double *numbers = rm_attributes(call);
  int32_t status = rm_check_moved(dtype, index_dtype);
  if (status != RM_OK) return status;
  take_context ctx = {.index_dtype = index_dtype,
                      .bytes = rm_itemsize(dtype),
                      .size = (int64_t)numbers[0],
                      .bad = PTRDIFF_MAX};
  ctx.index_stride = (ptrdiff_t)numbers[1] * ctx.bytes;
  numbers[0] = -1;
  status = rm_read_call(&ctx.iterator, call, 3);
  if (status != RM_OK || ctx.iterator.empty) return status;
  const int inner = ctx.iterator.rank - 1;
  ctx.columns = inner < 0 ? 1 : ctx.iterator.shape[inner];
  ctx.rows = 1;
  for (int axis = 0; axis < inner; axis++) ctx.rows *= ctx.iterator.shape[axis];
  ctx.parts = ctx.rows >= 64 ? 1 : rm_ceil_div(ctx.columns, TASK_ELEMENTS);
  ctx.task_rows = ctx.columns >= TASK_ELEMENTS ? 1 : TASK_ELEMENTS / ctx.columns;
  const ptrdiff_t tasks = rm_ceil_div(ctx.rows, ctx.task_rows) * ctx.parts;
  rm_parallel(tasks, (double)(ctx.rows * ctx.columns), take_task, &ctx);
  if (ctx.bad != PTRDIFF_MAX) numbers[0] = (double)ctx.bad;
  return RM_OK;
}
