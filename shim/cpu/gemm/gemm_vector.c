/*
 * Products of a matrix and a vector. The matrix is read once, in place.
 */
#include <string.h>
#include "gemm_context.h"

/* sums += a part of the rows times the vector. The rows are contiguous or gathered. */
static void dot_rows(const gemm_context *ctx, const char *matrix, const char *vector,
                     ptrdiff_t rows, ptrdiff_t depth, char *sums) {
  const gemm_kernels *kernels = ctx->kernels;
  const ptrdiff_t size = kernels->size;
  const bool contiguous_rows = ctx->same_dtype && (ctx->stride == 1 || depth == 1);
  const bool contiguous_vector = ctx->same_dtype && (ctx->vector_stride == 1 || depth == 1);
  char x[DOT_CHUNK * 8] __attribute__((aligned(64))),
      gathered[SMALL_MR * DOT_CHUNK * 8] __attribute__((aligned(64)));
  const ptrdiff_t chunk = contiguous_rows && contiguous_vector ? depth : DOT_CHUNK;
  for (ptrdiff_t p = 0; p < depth; p += chunk) {
    const ptrdiff_t step = rm_min(chunk, depth - p);
    const char *with = element_at(vector, p * ctx->vector_stride, ctx->bytes);
    if (!contiguous_vector) {
      RM_FOR_ISA(load_run)(ctx->dtype, x, with, step, ctx->vector_stride);
      with = x;
    }
    const char *from = element_at(matrix, p * ctx->stride, ctx->bytes);
    if (contiguous_rows) {
      kernels->gemv_dot(rows, step, from, ctx->line_stride, with, sums);
      continue;
    }
    for (ptrdiff_t i = 0; i < rows; i += SMALL_MR) {
      const ptrdiff_t few = rm_min(SMALL_MR, rows - i);
      for (ptrdiff_t r = 0; r < few; r++) {
        RM_FOR_ISA(load_run)(ctx->dtype, gathered + r * DOT_CHUNK * size,
                             element_at(from, (i + r) * ctx->line_stride, ctx->bytes), step,
                             ctx->stride);
      }
      kernels->gemv_dot(few, step, gathered, DOT_CHUNK, with, sums + i * size);
    }
  }
}

/* The same where adjacent rows have adjacent elements. */
static void axpy_rows(const gemm_context *ctx, const char *matrix, const char *vector,
                      ptrdiff_t rows, ptrdiff_t depth, char *sums) {
  const gemm_kernels *kernels = ctx->kernels;
  const ptrdiff_t size = kernels->size;
  char x[AXPY_DEPTH * 2 * 8] __attribute__((aligned(64)));
  char converted[SMALL_MR * GEMV_ROWS * 4] __attribute__((aligned(64)));
  RM_FOR_ISA(load_run)(ctx->dtype, x, vector, depth, ctx->vector_stride);
  for (ptrdiff_t p = 0; p < depth; p += SMALL_MR) {
    const ptrdiff_t few = rm_min(SMALL_MR, depth - p);
    const char *from = element_at(matrix, p * ctx->stride, ctx->bytes);
    ptrdiff_t step = ctx->stride;
    if (!ctx->same_dtype) {
      for (ptrdiff_t r = 0; r < few; r++) {
        RM_FOR_ISA(load_run)(ctx->dtype, converted + r * GEMV_ROWS * size,
                             element_at(from, r * ctx->stride, ctx->bytes), rows, 1);
      }
      from = converted;
      step = GEMV_ROWS;
    }
    kernels->gemv_axpy(rows, (int)few, from, step, x + p * size, sums);
  }
}

static void vector_task(void *context, ptrdiff_t index) {
  const gemm_context *ctx = context;
  const ptrdiff_t size = ctx->kernels->size, part = index % ctx->parts;
  const ptrdiff_t first = index / ctx->parts % ctx->row_tasks * ctx->task_rows,
                  item = index / ctx->parts / ctx->row_tasks;
  const ptrdiff_t rows = rm_min(ctx->task_rows, ctx->matrix_rows - first),
                  start = part * ctx->part_depth;
  const ptrdiff_t depth = part == ctx->parts - 1 ? ctx->k - start : ctx->part_depth;
  const char *matrix = element_at(
      ctx->matrix, (ptrdiff_t)ctx->matrix_at[item] + first * ctx->line_stride + start * ctx->stride,
      ctx->bytes);
  const char *vector = element_at(
      ctx->vector, (ptrdiff_t)ctx->vector_at[item] + start * ctx->vector_stride, ctx->bytes);
  char own[GEMV_ROWS * 8] __attribute__((aligned(64)));
  char *sums = ctx->parts == 1
                   ? own
                   : ctx->sums + ((item * ctx->parts + part) * ctx->matrix_rows + first) * size;
  memset(sums, 0, (size_t)(rows * size));
  if (ctx->uses_axpy) axpy_rows(ctx, matrix, vector, rows, depth, sums);
  else dot_rows(ctx, matrix, vector, rows, depth, sums);
  if (ctx->parts > 1) return;
  RM_FOR_ISA(store_run)(
      ctx->dtype, ctx->c + ((ptrdiff_t)ctx->c_at[item] + first * ctx->out_stride) * ctx->bytes,
      sums, rows, ctx->out_stride);
}

/* Adds the parts of each sum to the first part. */
static void add_parts(const gemm_context *ctx, char *sums) {
  for (ptrdiff_t part = 1; part < ctx->parts; part++) {
    accumulate(ctx->kernels, sums, sums + part * ctx->matrix_rows * ctx->kernels->size,
               ctx->matrix_rows);
  }
}

int32_t RM_FOR_ISA(multiply_vector)(gemm_context *ctx) {
  if (ctx->n == 1) {
    ctx->matrix = ctx->a, ctx->matrix_at = ctx->a_at, ctx->vector = ctx->b,
    ctx->vector_at = ctx->b_at;
    ctx->matrix_rows = ctx->m, ctx->line_stride = ctx->a_strides.row,
    ctx->stride = ctx->a_strides.column;
    ctx->vector_stride = ctx->b_strides.row, ctx->out_stride = ctx->c_strides.row;
  } else {
    ctx->matrix = ctx->b, ctx->matrix_at = ctx->b_at, ctx->vector = ctx->a,
    ctx->vector_at = ctx->a_at;
    ctx->matrix_rows = ctx->n, ctx->line_stride = ctx->b_strides.column,
    ctx->stride = ctx->b_strides.row;
    ctx->vector_stride = ctx->a_strides.column, ctx->out_stride = ctx->c_strides.column;
  }
  ctx->uses_axpy = ctx->matrix_rows > 1 && ctx->line_stride == 1 && ctx->stride != 1;
  ctx->part_depth = ctx->uses_axpy ? AXPY_DEPTH : DOT_DEPTH;
  /* The last part takes the rest, so that a slightly longer sum is not split. */
  ctx->parts = ctx->k < 2 * ctx->part_depth ? 1 : ctx->k / ctx->part_depth;
  const ptrdiff_t depth = rm_min(ctx->k, ctx->part_depth);
  const ptrdiff_t dot_rows = SMALL_MR * (1 + DOT_ELEMENTS / SMALL_MR / (depth < 1 ? 1 : depth));
  ctx->task_rows = ctx->uses_axpy ? GEMV_ROWS : rm_min(GEMV_ROWS, dot_rows);
  ctx->row_tasks = rm_ceil_div(ctx->matrix_rows, ctx->task_rows);
  gemm_workspace *workspace = NULL;
  if (ctx->parts > 1) {
    workspace = RM_FOR_ISA(workspace_alloc)(
        (size_t)(ctx->batch * ctx->parts * ctx->matrix_rows * ctx->kernels->size), 0);
    if (workspace == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a matrix product");
    ctx->sums = workspace->data;
  }
  /* Reading a matrix element takes as long as 8 multiply-adds of packed ones. */
  run_parallel(ctx->batch * ctx->row_tasks * ctx->parts, vector_task, ctx,
               8.0 * (double)ctx->batch * (double)ctx->matrix_rows * (double)ctx->k);
  if (workspace == NULL) return RM_OK;
  for (ptrdiff_t item = 0; item < ctx->batch; item++) {
    char *sums = ctx->sums + item * ctx->parts * ctx->matrix_rows * ctx->kernels->size;
    add_parts(ctx, sums);
    RM_FOR_ISA(store_run)(ctx->dtype, ctx->c + (ptrdiff_t)ctx->c_at[item] * ctx->bytes, sums,
                          ctx->matrix_rows, ctx->out_stride);
  }
  RM_FOR_ISA(workspace_free)(workspace);
  return RM_OK;
}
