/*
 * Products of small matrices, and of tall matrices by small ones, which are read in place.
 */
#include <stdlib.h>
#include "gemm_vectors.h"

/* A batch of matrices that are multiplied in place. Rows of b and of c are contiguous. */
typedef struct {
  ptrdiff_t m, n, k, a_row, a_step, b_row, c_row;
  const void *a, *b;
  void *c;
  const double *a_at, *b_at, *c_at;
} small_batch;

typedef void small_function(const small_batch *batch, ptrdiff_t from, ptrdiff_t to);

#define SMALL small_f32x2
#define TYPE float
#define VECTOR_OF f32x2
#define LANES 2
#include "gemm_small_type.h"
#define SMALL small_f32x4
#define TYPE float
#define VECTOR_OF f32x4
#define LANES 4
#include "gemm_small_type.h"
#define SMALL small_f64x2
#define TYPE double
#define VECTOR_OF f64x2
#define LANES 2
#include "gemm_small_type.h"
#if defined(__AVX2__)
#define SMALL small_f32x8
#define TYPE float
#define VECTOR_OF f32x8
#define LANES 8
#include "gemm_small_type.h"
#define SMALL small_f64x4
#define TYPE double
#define VECTOR_OF f64x4
#define LANES 4
#include "gemm_small_type.h"
#endif
#if defined(__AVX512F__)
#define SMALL small_f32x16
#define TYPE float
#define VECTOR_OF v_f32
#define LANES 16
#include "gemm_small_type.h"
#define SMALL small_f64x8
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

static small_function *small_3x3_for(int dtype) {
  return dtype == RM_FLOAT32 ? small_3x3_f32 : dtype == RM_FLOAT64 ? small_3x3_f64 : NULL;
}

static small_function *small_gemv_for(int dtype) {
  return dtype == RM_FLOAT32 ? small_gemv_f32 : dtype == RM_FLOAT64 ? small_gemv_f64 : NULL;
}

/* Selects the widest kernel for the columns, or null. */
static small_function *small_for(int dtype, ptrdiff_t columns) {
#if defined(__AVX512F__)
  if (dtype == RM_FLOAT32 && columns >= 16) return small_f32x16;
  if (dtype == RM_FLOAT64 && columns >= 8) return small_f64x8;
#endif
#if defined(__AVX2__)
  if (dtype == RM_FLOAT32 && columns >= 8) return small_f32x8;
  if (dtype == RM_FLOAT64 && columns >= 4) return small_f64x4;
#endif
  if (dtype == RM_FLOAT32 && columns >= 4) return small_f32x4;
  if (dtype == RM_FLOAT32 && columns >= 2) return small_f32x2;
  return dtype == RM_FLOAT64 && columns >= 2 ? small_f64x2 : NULL;
}

typedef struct {
  small_batch batch;
  small_function *multiply;
  ptrdiff_t count, bytes;
  /* The matrices per task, or the rows per task of a tall matrix. */
  ptrdiff_t per_task, rows;
} small_context;

static void small_task(void *context, ptrdiff_t index) {
  const small_context *ctx = context;
  const ptrdiff_t blocks = rm_ceil_div(ctx->batch.m, ctx->rows);
  if (blocks == 1) {
    const ptrdiff_t from = index * ctx->per_task;
    ctx->multiply(&ctx->batch, from, rm_min(ctx->count, from + ctx->per_task));
    return;
  }
  const ptrdiff_t item = index / blocks, top = index % blocks * ctx->rows;
  small_batch batch = ctx->batch;
  batch.m = rm_min(ctx->rows, ctx->batch.m - top);
  batch.a = element_at(batch.a, top * batch.a_row, ctx->bytes);
  batch.c = (char *)batch.c + top * batch.c_row * ctx->bytes;
  ctx->multiply(&batch, item, item + 1);
}

/* One product that is one task. */
typedef struct {
  rm_kept kept;
  small_function *multiply;
  small_batch batch;
  /* The bytes from the buffers to c, a and b. */
  ptrdiff_t offsets[3];
} kept_product;

static const double at_start = 0;

static void run_kept_product(const rm_kept *kept, void *const *buffers) {
  const kept_product *own = (const kept_product *)kept;
  small_batch batch = own->batch;
  batch.c = (char *)buffers[0] + own->offsets[0];
  batch.a = (char *)buffers[1] + own->offsets[1];
  batch.b = (char *)buffers[2] + own->offsets[2];
  own->multiply(&batch, 0, 1);
}

static void keep_product(const gemm_context *ctx, const small_context *small, rm_kept **kept) {
  kept_product *to = malloc(sizeof *to);
  if (to == NULL) return;
  *to = (kept_product){.kept = {run_kept_product},
                       .multiply = small->multiply,
                       .batch = small->batch,
                       .offsets = {(ptrdiff_t)*ctx->c_at * ctx->bytes,
                                   (ptrdiff_t)*ctx->a_at * ctx->bytes,
                                   (ptrdiff_t)*ctx->b_at * ctx->bytes}};
  to->batch.c_at = to->batch.a_at = to->batch.b_at = &at_start;
  *kept = &to->kept;
}

bool RM_FOR_ISA(multiply_small)(const gemm_context *ctx, rm_kept **kept) {
  if (ctx->n > SMALL_MAX || ctx->k > SMALL_MAX) return false;
  small_function *multiply = NULL;
  /* Copying b pays for many rows. */
  const bool contiguous_b = ctx->b_strides.column == 1,
             copies_b = ctx->batch == 1 && ctx->m > SMALL_MAX;
  if (ctx->n == 1 && ctx->k <= SMALL_SUM_MAX && ctx->m <= SMALL_MAX) {
    multiply = small_gemv_for(ctx->dtype);
  } else if (ctx->c_strides.column == 1 && (contiguous_b || copies_b)) {
    multiply = small_for(ctx->dtype, ctx->n);
  }
  if (multiply == NULL) return false;
  if (ctx->n == 3 && ctx->k == 3 && ctx->a_strides.column == 1 && ctx->a_strides.row == 3 &&
      ctx->c_strides.row == 3) {
    multiply = small_3x3_for(ctx->dtype);
  }
  const double row = (double)(ctx->n * ctx->k) + 16, each = (double)ctx->m * row;
  small_context small = {
      .batch = {ctx->m, ctx->n, ctx->k, ctx->a_strides.row, ctx->a_strides.column,
                ctx->b_strides.row, ctx->c_strides.row, ctx->a, ctx->b, ctx->c, ctx->a_at,
                ctx->b_at, ctx->c_at},
      .multiply = multiply,
      .count = ctx->batch,
      .bytes = ctx->bytes,
  };
  double packed[SMALL_MAX * SMALL_MAX];
  if (ctx->n > 1 && !contiguous_b) {
    for (ptrdiff_t p = 0; p < ctx->k; p++) {
      RM_FOR_ISA(load_run)(
          ctx->dtype, (char *)packed + p * ctx->n * ctx->bytes,
          element_at(ctx->b, (ptrdiff_t)ctx->b_at[0] + p * ctx->b_strides.row, ctx->bytes), ctx->n,
          ctx->b_strides.column);
    }
    small.batch.b = packed, small.batch.b_at = &at_start, small.batch.b_row = ctx->n;
  }
  if ((double)ctx->batch * each <= TASK_WORK) {
    /* One task. */
    multiply(&small.batch, 0, ctx->batch);
    if (kept != NULL && ctx->batch == 1 && small.batch.b == ctx->b) keep_product(ctx, &small, kept);
    return true;
  }
  small.per_task = 1 + (ptrdiff_t)(TASK_WORK / each);
  small.rows = rm_round_up(1 + (ptrdiff_t)(TASK_WORK / row), SMALL_MR);
  const ptrdiff_t blocks = rm_ceil_div(small.batch.m, small.rows);
  rm_parallel(blocks == 1 ? rm_ceil_div(small.count, small.per_task) : small.count * blocks,
              (double)ctx->batch * each / ctx->kernels->lanes / VECTOR_FMAS_PER_NS, small_task,
              &small);
  return true;
}
