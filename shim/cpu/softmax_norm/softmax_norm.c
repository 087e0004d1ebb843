/*
 * Softmax, log softmax, layer norm and RMS norm along contiguous rows of floats, and the derivatives of
 * norms.
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
#include <stdlib.h>
#include <string.h>
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

/* ---- derivatives of norms --------------------------------------------------------------------- */

/* AVX-512 uses the copy of AVX2. */
#if !defined(rm_norm_backward_v4)

#if defined(__x86_64__) && !defined(__AVX__)

/* Machines without AVX are not worth a third copy (docs/adr/0028-room-in-the-packages.md). */
int32_t RM_FOR_ISA(norm_backward)(const rm_call *call) {
  (void)call;
  return RM_UNSUPPORTED;
}

#else

/* The elements of a vector. Rows are whole vectors. */
enum { LANES = 16 };

typedef struct {
  ptrdiff_t rows, columns, rows_per_task;
  float *out;
  const float *x, *weight, *given;
  /* For each task, the sums over its rows: the derivatives by weight, then those by bias. */
  float *sums;
  double epsilon;
  bool centered;
} norm_backward_context;

/* Both loops over a row read a vector of each operand before they write one there: out may be x or the
 * given derivative. */
__attribute__((minsize, noinline)) static void differentiate_row(const norm_backward_context *ctx,
                                                                 ptrdiff_t row, float *sums) {
  FP_CONTRACT
  const ptrdiff_t n = ctx->columns;
  const float *x = ctx->x + row * n, *given = ctx->given + row * n;
  float *out = ctx->out + row * n;
  float mean, mean_error, scale;
  measure_float(x, n, ctx->centered, ctx->epsilon, &mean, &mean_error, &scale);
  double total = 0, product = 0;
  for (ptrdiff_t at = 0; at < n; at += BLOCK) {
    const ptrdiff_t end = rm_min(n, at + BLOCK);
    f32x16 s = {}, p = {};
    NO_UNROLL for (ptrdiff_t i = at; i < end; i += LANES) {
      const f32x16 h = *(const f32x16 *)(given + i) * *(const f32x16 *)(ctx->weight + i);
      s += h;
      p += h * (*(const f32x16 *)(x + i) - mean - mean_error);
    }
    total += sum_float((const float *)&s, LANES);
    product += sum_float((const float *)&p, LANES);
  }
  const float by_mean = ctx->centered ? (float)(total / (double)n) : 0;
  const float by_scale = (float)(product * scale / (double)n);
  NO_UNROLL for (ptrdiff_t i = 0; i < n; i += LANES) {
    const f32x16 g = *(const f32x16 *)(given + i);
    const f32x16 normed = (*(const f32x16 *)(x + i) - mean - mean_error) * scale;
    const f32x16 h = g * *(const f32x16 *)(ctx->weight + i);
    *(f32x16 *)(sums + i) += g * normed;
    *(f32x16 *)(sums + n + i) += g;
    *(f32x16 *)(out + i) = (h - normed * by_scale - by_mean) * scale;
  }
}

static void norm_backward_task(void *context, ptrdiff_t index) {
  const norm_backward_context *ctx = context;
  float *sums = ctx->sums + index * 2 * ctx->columns;
  memset(sums, 0, (size_t)(2 * ctx->columns) * sizeof *sums);
  const ptrdiff_t row = index * ctx->rows_per_task;
  const ptrdiff_t end = rm_min(row + ctx->rows_per_task, ctx->rows);
  for (ptrdiff_t r = row; r < end; r++) differentiate_row(ctx, r, sums);
}

__attribute__((minsize)) int32_t RM_FOR_ISA(norm_backward)(const rm_call *call) {
  const double *attributes = rm_attributes(call);
  const ptrdiff_t rows = (ptrdiff_t)attributes[0], columns = (ptrdiff_t)attributes[1];
  if (call->operands < 4 || rows <= 0 || columns <= 0 || columns % LANES != 0) return RM_UNSUPPORTED;
  for (int i = 0; i < call->operands; i++) {
    const bool is_optional = i == 2 || i > 3;
    if (call->buffers[i] == NULL ? !is_optional : call->dtypes[i] != RM_FLOAT32) return RM_UNSUPPORTED;
  }
  norm_backward_context ctx = {
      .rows = rows,
      .columns = columns,
      .rows_per_task = columns >= TASK_ELEMENTS ? 1 : TASK_ELEMENTS / columns,
      .out = call->buffers[0],
      .x = (const float *)call->buffers[1] + (ptrdiff_t)attributes[2],
      .weight = call->buffers[2],
      .given = (const float *)call->buffers[3] + (ptrdiff_t)attributes[3],
      .epsilon = attributes[4],
      .centered = attributes[5] != 0,
  };
  const ptrdiff_t tasks = rm_ceil_div(rows, ctx.rows_per_task);
  float *memory = malloc((size_t)((2 * tasks + 1) * columns) * sizeof *memory);
  if (memory == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for normBackward");
  ctx.sums = memory + columns;
  if (ctx.weight == NULL) {
    for (ptrdiff_t i = 0; i < columns; i++) memory[i] = 1;
    ctx.weight = memory;
  }
  rm_parallel(tasks, 3 * NANOSECONDS * (double)rows * (double)columns, norm_backward_task, &ctx);
  for (int k = 4; k < call->operands && k < 6; k++) {
    float *out = call->buffers[k];
    if (out == NULL) continue;
    const float *from = ctx.sums + (k - 4) * columns;
    memcpy(out, from, (size_t)columns * sizeof *out);
    for (ptrdiff_t task = 1; task < tasks; task++) {
      from += 2 * columns;
      NO_UNROLL for (ptrdiff_t i = 0; i < columns; i += LANES) {
        *(f32x16 *)(out + i) += *(const f32x16 *)(from + i);
      }
    }
  }
  free(memory);
  return RM_OK;
}

#endif

#endif
