/*
 * Products of small matrices, and of tall ones by small ones, which are read where they lie.
 */
#include "gemm_vectors.h"

/* A batch of matrices that are multiplied where they lie; rows of b and of c are dense. */
typedef struct {
  ptrdiff_t m, n, k, a_row, a_step, b_row, c_row;
  const void *a, *b;
  void *c;
  const double *a_at, *b_at, *c_at;
} batch;

typedef void small_function(const batch *j, ptrdiff_t from, ptrdiff_t to);

#define SMALL small_two_f32
#define TYPE float
#define VECTOR_OF two_f32
#define LANES 2
#include "gemm_small_type.h"
#define SMALL small_four_f32
#define TYPE float
#define VECTOR_OF four_f32
#define LANES 4
#include "gemm_small_type.h"
#define SMALL small_two_f64
#define TYPE double
#define VECTOR_OF two_f64
#define LANES 2
#include "gemm_small_type.h"
#if defined(__AVX2__)
#define SMALL small_eight_f32
#define TYPE float
#define VECTOR_OF eight_f32
#define LANES 8
#include "gemm_small_type.h"
#define SMALL small_four_f64
#define TYPE double
#define VECTOR_OF four_f64
#define LANES 4
#include "gemm_small_type.h"
#endif
#if defined(__AVX512F__)
#define SMALL small_sixteen_f32
#define TYPE float
#define VECTOR_OF v_f32
#define LANES 16
#include "gemm_small_type.h"
#define SMALL small_eight_f64
#define TYPE double
#define VECTOR_OF v_f64
#define LANES 8
#include "gemm_small_type.h"
#endif

#define TYPE float
#define SUFFIX f32
#include "gemm_small_float_type.h"
#define TYPE double
#define SUFFIX f64
#include "gemm_small_float_type.h"

static small_function *small_three_for(int dtype) {
  return dtype == RM_FLOAT32 ? small_three_f32 : dtype == RM_FLOAT64 ? small_three_f64 : NULL;
}

static small_function *small_sums_for(int dtype) {
  return dtype == RM_FLOAT32 ? small_sums_f32 : dtype == RM_FLOAT64 ? small_sums_f64 : NULL;
}

/* The widest of these for so many columns, or null. */
static small_function *small_for(int dtype, ptrdiff_t columns) {
#if defined(__AVX512F__)
  if (dtype == RM_FLOAT32 && columns >= 16) return small_sixteen_f32;
  if (dtype == RM_FLOAT64 && columns >= 8) return small_eight_f64;
#endif
#if defined(__AVX2__)
  if (dtype == RM_FLOAT32 && columns >= 8) return small_eight_f32;
  if (dtype == RM_FLOAT64 && columns >= 4) return small_four_f64;
#endif
  if (dtype == RM_FLOAT32 && columns >= 4) return small_four_f32;
  if (dtype == RM_FLOAT32 && columns >= 2) return small_two_f32;
  return dtype == RM_FLOAT64 && columns >= 2 ? small_two_f64 : NULL;
}

typedef struct {
  batch of;
  small_function *multiply;
  ptrdiff_t count, bytes;
  /* Matrices that a task takes, or of a tall one rows. */
  ptrdiff_t per_task, rows;
} small_job;

static void small_task(void *context, ptrdiff_t index) {
  const small_job *j = context;
  const ptrdiff_t blocks = rm_parts(j->of.m, j->rows);
  if (blocks == 1) {
    const ptrdiff_t from = index * j->per_task;
    j->multiply(&j->of, from, rm_least(j->count, from + j->per_task));
    return;
  }
  const ptrdiff_t item = index / blocks, top = index % blocks * j->rows;
  batch of = j->of;
  of.m = rm_least(j->rows, j->of.m - top);
  of.a = place(of.a, top * of.a_row, j->bytes);
  of.c = (char *)of.c + top * of.c_row * j->bytes;
  j->multiply(&of, item, item + 1);
}

bool RM_AT(multiply_small)(const job *j) {
  if (j->n > SMALL_SIDE || j->k > SMALL_SIDE) return false;
  small_function *multiply = NULL;
  /* To copy b is worth it for many rows. */
  const bool dense_b = j->of_b.column == 1, copies_b = j->batch == 1 && j->m > SMALL_SIDE;
  if (j->n == 1 && j->k <= SMALL_SUM && j->m <= SMALL_SIDE) multiply = small_sums_for(j->dtype);
  else if (j->of_c.column == 1 && (dense_b || copies_b)) multiply = small_for(j->dtype, j->n);
  if (multiply == NULL) return false;
  if (j->n == 3 && j->k == 3 && j->of_a.column == 1 && j->of_a.row == 3 && j->of_c.row == 3) {
    multiply = small_three_for(j->dtype);
  }
  const double row = (double)(j->n * j->k) + 16, each = (double)j->m * row;
  small_job of = {
      .of = {j->m, j->n, j->k, j->of_a.row, j->of_a.column, j->of_b.row, j->of_c.row, j->a, j->b,
             j->c, j->a_at, j->b_at, j->c_at},
      .multiply = multiply,
      .count = j->batch,
      .bytes = j->bytes,
      .per_task = 1 + (ptrdiff_t)(SMALL_WORK / each),
      .rows = rm_round_up(1 + (ptrdiff_t)(SMALL_WORK / row), FEW),
  };
  double packed[SMALL_SIDE * SMALL_SIDE];
  static const double at_start = 0;
  if (j->n > 1 && !dense_b) {
    for (ptrdiff_t p = 0; p < j->k; p++) {
      RM_AT(load_run)(j->dtype, (char *)packed + p * j->n * j->bytes,
               place(j->b, (ptrdiff_t)j->b_at[0] + p * j->of_b.row, j->bytes), j->n,
               j->of_b.column);
    }
    of.of.b = packed, of.of.b_at = &at_start, of.of.b_row = j->n;
  }
  const ptrdiff_t blocks = rm_parts(of.of.m, of.rows);
  rm_parallel(blocks == 1 ? rm_parts(of.count, of.per_task) : of.count * blocks,
              (double)j->batch * each / j->kind->lanes / VECTORS_EACH_NANOSECOND, small_task, &of);
  return true;
}
