/*
 * Softmax, log softmax, layer norm and RMS norm along contiguous rows of floats.
 *
 * Softmax subtracts the maximum of a row, so that the largest exponential is 1 and the sum neither
 * overflows nor underflows. A NaN, or a maximum that is infinite, makes the whole row NaN: the
 * difference contains a NaN, and so does the sum.
 *
 * Layer norm sums, in double, the differences from a value close to the mean, and their squares. A
 * large mean therefore costs the variance no digits, and the rounding error of the mean is known.
 *
 * Rows of 16-bit floats are computed as float32 in a block that fits the cache and rounded once.
 * This file knows contiguous rows only, not other axes or dtypes.
 */
#include "float16.h"
#include "internal.h"
#include "vecmath.h"

/* Elements whose sum or exponentials are computed at once, in the L1 cache: several short rows, or
 * part of a long one. */
enum { BLOCK = 1024 };

/* 16-bit floats that are widened at once. Rows may not be longer. */
enum { WIDENED_BLOCK = 8 * BLOCK };

/* The minimum elements per task: about 10 microseconds of work. */
enum { TASK_ELEMENTS = 32 * BLOCK };

/* The estimated time per element. */
static const double NANOSECONDS = 0.4;

typedef struct {
  int kind, dtype;
  ptrdiff_t rows, columns, rows_per_task;
  char *out;
  const char *a;
  /* In the compute dtype, or null. */
  const void *weight, *bias;
  double epsilon;
} softmax_norm_context;

/* Vectors that are aligned to their elements only. They must not be parameters or results: the
 * calling convention depends on the instruction set. */
typedef float f32x16 __attribute__((vector_size(64), aligned(4)));
typedef float f32x8 __attribute__((vector_size(32), aligned(4)));
typedef double f64x8 __attribute__((vector_size(64), aligned(8)));

/* For the long functions that run once per row: one copy of each. */
#define STATIC_NOINLINE static __attribute__((noinline))

/* Allows fused multiply-add. Results are documented to a few ulp either way. */
#define FP_CONTRACT _Pragma("clang fp contract(fast)")

/* Loops over vectors need no unrolling on top. */
#define NO_UNROLL _Pragma("clang loop unroll(disable)")

/* The maximum of each lane; m where x is NaN. */
#define MAX_LANES(m, x) \
  ((__typeof__(m))(((__typeof__((x) > (m)))(x) & ((x) > (m))) | \
                   ((__typeof__((x) > (m)))(m) & ~((x) > (m)))))

#define TYPE float
#define VECTOR f32x16
#define LANES 16
#define VECTOR_OF_8 f32x8
#define RM_EXP rm_exp_f32
#define HAS_RECIPROCAL
#include "softmax_norm_type.h"
#define TYPE double
#define VECTOR f64x8
#define LANES 8
#define VECTOR_OF_8 f64x8
#define RM_EXP rm_exp_f64
#include "softmax_norm_type.h"

/* Processes as many rows at once as a block holds. */
static void task_16_bit(void *context, ptrdiff_t index) {
  const softmax_norm_context *ctx = context;
  float block[WIDENED_BLOCK];
  softmax_norm_context widened = *ctx;
  widened.a = widened.out = (char *)block;
  const ptrdiff_t block_rows = WIDENED_BLOCK / ctx->columns;
  const ptrdiff_t end = rm_min((index + 1) * ctx->rows_per_task, ctx->rows);
  for (ptrdiff_t row = index * ctx->rows_per_task; row < end; row += block_rows) {
    const ptrdiff_t rows = rm_min(end - row, block_rows), n = rows * ctx->columns;
    const uint16_t *a = (const uint16_t *)ctx->a + row * ctx->columns;
    uint16_t *out = (uint16_t *)ctx->out + row * ctx->columns;
    if (ctx->dtype == RM_FLOAT16) {
      NO_UNROLL for (ptrdiff_t i = 0; i < n; i++) block[i] = rm_f16_to_f32(a[i]);
      process_rows_float(&widened, 0, rows);
      NO_UNROLL for (ptrdiff_t i = 0; i < n; i++) out[i] = rm_f32_to_f16(block[i]);
    } else {
      NO_UNROLL for (ptrdiff_t i = 0; i < n; i++) block[i] = rm_bf16_to_f32(a[i]);
      process_rows_float(&widened, 0, rows);
      NO_UNROLL for (ptrdiff_t i = 0; i < n; i++) out[i] = rm_f32_to_bf16(block[i]);
    }
  }
}

int32_t RM_FOR_ISA(softmax_norm)(const rm_call *call) {
  const int dtype = call->dtypes[0];
  if (!rm_is_float(dtype)) return rm_fail(RM_BAD_ARGUMENT, "no rows of dtype %d", dtype);
  const double *attributes = rm_attributes(call);
  const ptrdiff_t rows = (ptrdiff_t)attributes[0], columns = (ptrdiff_t)attributes[1];
  if (rows <= 0 || columns <= 0 || call->buffers[0] == NULL || call->buffers[1] == NULL) {
    return RM_OK;
  }
  const bool half = dtype < RM_FLOAT32;
  if (half && columns > WIDENED_BLOCK) {
    return rm_fail(RM_UNSUPPORTED, "rows of 16-bit floats have at block_rows %d elements",
                   WIDENED_BLOCK);
  }
  softmax_norm_context ctx = {
      .kind = call->op,
      .dtype = dtype,
      .rows = rows,
      .columns = columns,
      .rows_per_task = columns >= TASK_ELEMENTS ? 1 : TASK_ELEMENTS / columns,
      .out = call->buffers[0],
      .a = (const char *)call->buffers[1] + (ptrdiff_t)attributes[2] * rm_itemsize(dtype),
      .weight = call->buffers[2],
      .bias = call->buffers[3],
      .epsilon = attributes[3],
  };
  void (*task)(void *, ptrdiff_t) = dtype == RM_FLOAT32 ? task_float : task_double;
  if (half) task = task_16_bit;
  rm_parallel(rm_ceil_div(rows, ctx.rows_per_task), NANOSECONDS * (double)rows * (double)columns,
              task, &ctx);
  return RM_OK;
}
