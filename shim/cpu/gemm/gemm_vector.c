/*
 * Products with a vector: the matrix is read once, where it lies.
 */
#include <string.h>
#include "gemm_context.h"

/* sums += a part of the rows times the vector, the rows being dense or gathered. */
static void dot_rows(const job *j, const char *matrix, const char *vector, ptrdiff_t rows,
                     ptrdiff_t depth, char *sums) {
  const kind *of = j->kind;
  const ptrdiff_t size = of->size;
  const bool dense_rows = j->raw && (j->stride == 1 || depth == 1);
  const bool dense_vector = j->raw && (j->vector_stride == 1 || depth == 1);
  char x[CHUNK * 8] __attribute__((aligned(64))), gathered[FEW * CHUNK * 8]
      __attribute__((aligned(64)));
  const ptrdiff_t chunk = dense_rows && dense_vector ? depth : CHUNK;
  for (ptrdiff_t p = 0; p < depth; p += chunk) {
    const ptrdiff_t step = rm_least(chunk, depth - p);
    const char *with = place(vector, p * j->vector_stride, j->bytes);
    if (!dense_vector) {
      RM_AT(load_run)(j->dtype, x, with, step, j->vector_stride);
      with = x;
    }
    const char *from = place(matrix, p * j->stride, j->bytes);
    if (dense_rows) {
      of->lines(rows, step, from, j->line_stride, with, sums);
      continue;
    }
    for (ptrdiff_t i = 0; i < rows; i += FEW) {
      const ptrdiff_t few = rm_least(FEW, rows - i);
      for (ptrdiff_t r = 0; r < few; r++) {
        RM_AT(load_run)(j->dtype, gathered + r * CHUNK * size,
                 place(from, (i + r) * j->line_stride, j->bytes), step, j->stride);
      }
      of->lines(few, step, gathered, CHUNK, with, sums + i * size);
    }
  }
}

/* The same where the lines of the matrix lie side by side. */
static void sweep_rows(const job *j, const char *matrix, const char *vector, ptrdiff_t rows,
                       ptrdiff_t depth, char *sums) {
  const kind *of = j->kind;
  const ptrdiff_t size = of->size;
  char x[SWEEP_DEPTH * 2 * 8] __attribute__((aligned(64)));
  char converted[FEW * RUN * 4] __attribute__((aligned(64)));
  RM_AT(load_run)(j->dtype, x, vector, depth, j->vector_stride);
  for (ptrdiff_t p = 0; p < depth; p += FEW) {
    const ptrdiff_t few = rm_least(FEW, depth - p);
    const char *from = place(matrix, p * j->stride, j->bytes);
    ptrdiff_t step = j->stride;
    if (!j->raw) {
      for (ptrdiff_t r = 0; r < few; r++) {
        RM_AT(load_run)(j->dtype, converted + r * RUN * size, place(from, r * j->stride, j->bytes), rows,
                 1);
      }
      from = converted;
      step = RUN;
    }
    of->sweep(rows, (int)few, from, step, x + p * size, sums);
  }
}

static void vector_task(void *context, ptrdiff_t index) {
  const job *j = context;
  const ptrdiff_t size = j->kind->size, part = index % j->parts;
  const ptrdiff_t first = index / j->parts % j->runs * j->run, item = index / j->parts / j->runs;
  const ptrdiff_t rows = rm_least(j->run, j->lines - first), start = part * j->part;
  const ptrdiff_t depth = part == j->parts - 1 ? j->k - start : j->part;
  const char *matrix = place(j->matrix,
                             (ptrdiff_t)j->matrix_at[item] + first * j->line_stride +
                                 start * j->stride, j->bytes);
  const char *vector = place(j->vector, (ptrdiff_t)j->vector_at[item] + start * j->vector_stride,
                             j->bytes);
  char own[RUN * 8] __attribute__((aligned(64)));
  char *sums = j->parts == 1 ? own : j->sums + ((item * j->parts + part) * j->lines + first) * size;
  memset(sums, 0, (size_t)(rows * size));
  if (j->sweeps) sweep_rows(j, matrix, vector, rows, depth, sums);
  else dot_rows(j, matrix, vector, rows, depth, sums);
  if (j->parts > 1) return;
  RM_AT(store_run)(j->dtype, j->c + ((ptrdiff_t)j->c_at[item] + first * j->out_stride) * j->bytes, sums,
            rows, j->out_stride);
}

/* Adds the parts of a sum, which lie lines apart, to the first one. */
static void add_parts(const job *j, char *sums) {
  for (ptrdiff_t part = 1; part < j->parts; part++) {
    add_run(j->kind, sums, sums + part * j->lines * j->kind->size, j->lines);
  }
}

int32_t RM_AT(multiply_vector)(job *j) {
  if (j->n == 1) {
    j->matrix = j->a, j->matrix_at = j->a_at, j->vector = j->b, j->vector_at = j->b_at;
    j->lines = j->m, j->line_stride = j->of_a.row, j->stride = j->of_a.column;
    j->vector_stride = j->of_b.row, j->out_stride = j->of_c.row;
  } else {
    j->matrix = j->b, j->matrix_at = j->b_at, j->vector = j->a, j->vector_at = j->a_at;
    j->lines = j->n, j->line_stride = j->of_b.column, j->stride = j->of_b.row;
    j->vector_stride = j->of_a.column, j->out_stride = j->of_c.column;
  }
  j->sweeps = j->lines > 1 && j->line_stride == 1 && j->stride != 1;
  j->part = j->sweeps ? SWEEP_DEPTH : DOT_DEPTH;
  /* The last part takes the rest, so that a sum a little longer than a part is not cut. */
  j->parts = j->k < 2 * j->part ? 1 : j->k / j->part;
  const ptrdiff_t depth = rm_least(j->k, j->part);
  const ptrdiff_t dot_rows = FEW * (1 + DOT_ELEMENTS / FEW / (depth < 1 ? 1 : depth));
  j->run = j->sweeps ? RUN : rm_least(RUN, dot_rows);
  j->runs = rm_parts(j->lines, j->run);
  workspace *work = NULL;
  if (j->parts > 1) {
    work = RM_AT(take_workspace)((size_t)(j->batch * j->parts * j->lines * j->kind->size), 0);
    if (work == NULL) return rm_fail(RM_BAD_ARGUMENT, "no memory for a matrix product");
    j->sums = work->data;
  }
  /* Reading an element of the matrix takes as long as 8 products of packed ones. */
  run_tasks(j->batch * j->runs * j->parts, vector_task, j,
            8.0 * (double)j->batch * (double)j->lines * (double)j->k);
  if (work == NULL) return RM_OK;
  for (ptrdiff_t item = 0; item < j->batch; item++) {
    char *sums = j->sums + item * j->parts * j->lines * j->kind->size;
    add_parts(j, sums);
    RM_AT(store_run)(j->dtype, j->c + (ptrdiff_t)j->c_at[item] * j->bytes, sums, j->lines, j->out_stride);
  }
  RM_AT(leave_workspace)(work);
  return RM_OK;
}
