/*
 * Sums and products of floats.
 */
#include <math.h>
#include <string.h>
#include "float16.h"
#include "reduce_context.h"
#include "reduce_vectors.h"
#include "two_sum.h"
#include "vecmath.h"

enum {
  /* The row length from which float32 is summed by fours. */
#ifdef __wasm__
  SUM4_MIN = 512,
#else
  SUM4_MIN = 64,
#endif
  /* How far ahead of a sum lines are prefetched, in bytes. */
  PREFETCH_BYTES = 2048
};

#define ADD(a, x) ((a) + (x))
#define MULTIPLY(a, x) ((a) * (x))
#define MAP_IDENTITY(x) (x)
#define MAP_ABS(x) __builtin_elementwise_abs(x)
#define MAP_SQUARE(x) ((x) * (x))
#define MAP_SQUARED_DIFFERENCE(x) (((x) - y) * ((x) - y))
/* For vectors and their elements. */
#define IF_NUMBER(x, then) \
  ({ \
    const __typeof__(x) x_ = (x), zero_ = {0}, then_ = (then); \
    x_ == x_ ? then_ : zero_; \
  })
#define MAP_NAN_TO_ZERO(x) IF_NUMBER(x, x_)
#define MAP_IS_NUMBER(x) IF_NUMBER(x, zero_ + 1)
#define MAP_NAN_SQUARED_DIFFERENCE(x) IF_NUMBER(x, (x_ - y) * (x_ - y))

/* Prefetching pays with AVX only: SSE has no registers to spare for it. An EPYC sums float64 faster
 * without it, in five sixths of the time. */
#if defined(__AVX__)
#define PREFETCH(p) \
  for (int line = 0; line < (sizeof *(p) == 4 ? 128 : 0); line += 64) { \
    __builtin_prefetch((const char *)(p) + PREFETCH_BYTES + line); \
  }
#else
#define PREFETCH(p)
#endif

#define SUFFIX IDENTITY
#define MAP MAP_IDENTITY
#include "reduce_map_type.h"
#define SUFFIX ABS
#define MAP MAP_ABS
#include "reduce_map_type.h"
#define SUFFIX SQUARE
#define MAP MAP_SQUARE
#include "reduce_map_type.h"
#define SUFFIX SQUARED_DIFFERENCE
#define MAP MAP_SQUARED_DIFFERENCE
#include "reduce_map_type.h"
#define SUFFIX NAN_TO_ZERO
#define MAP MAP_NAN_TO_ZERO
#include "reduce_map_type.h"
#define SUFFIX IS_NUMBER
#define MAP MAP_IS_NUMBER
#include "reduce_map_type.h"
#define SUFFIX NAN_SQUARED_DIFFERENCE
#define MAP MAP_NAN_SQUARED_DIFFERENCE
#include "reduce_map_type.h"

/*
 * Sums of many floats of up to 32 bits. Conversion to double takes most of the time, so four
 * elements are added in float32 and their sum is converted. An element is thus rounded twice at
 * most; 16-bit elements are never rounded unless some are more than 2^11 times as large as others.
 * Squares are rounded too.
 *
 * FALLBACK adds a run again in double if its sum overflows float32, or if its squares are so small
 * that float32 may have lost some: if the sum is less than MIN_PER_ELEMENT for each element.
 */
#define DOUBLES(x) __builtin_convertvector(x, f64x8)
#define SUM_OF_4(p, q, v, w) (((p) + (q)) + ((v) + (w)))
static const i32x16 FIRST_16 = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#define WIDEN_FLOAT(p) LOAD(f32x16, p)
#define SUM4 sum4_IDENTITY
#define TYPE float
#define WIDEN WIDEN_FLOAT
#define MAP MAP_IDENTITY
#define MIN_PER_ELEMENT -INFINITY
#define FALLBACK lanes_f32_IDENTITY
#include "reduce_sum4.h"
#define SUM4 sum4_ABS
#define TYPE float
#define WIDEN WIDEN_FLOAT
#define MAP MAP_ABS
#define MIN_PER_ELEMENT -INFINITY
#define FALLBACK lanes_f32_ABS
#include "reduce_sum4.h"
#define SUM4 sum4_NAN_TO_ZERO
#define TYPE float
#define WIDEN WIDEN_FLOAT
#define MAP MAP_NAN_TO_ZERO
#define MIN_PER_ELEMENT -INFINITY
#define FALLBACK lanes_f32_NAN_TO_ZERO
#include "reduce_sum4.h"
#define SUM4 sum4_IS_NUMBER
#define TYPE float
#define WIDEN WIDEN_FLOAT
#define MAP MAP_IS_NUMBER
#define MIN_PER_ELEMENT -INFINITY
#define FALLBACK lanes_f32_IS_NUMBER
#include "reduce_sum4.h"
#define SUM4 sum4_SQUARE
#define TYPE float
#define WIDEN WIDEN_FLOAT
#define MAP MAP_SQUARE
#define MIN_PER_ELEMENT 0x1p-120
#define FALLBACK lanes_f32_SQUARE
#include "reduce_sum4.h"

/* 16-bit floats are converted to float32 first. */
static double lanes_bf16(ptrdiff_t n, const uint16_t *p, double y) {
  _Alignas(64) float block[SUM_BLOCK];
  double sum = 0;
  for (ptrdiff_t i = 0; i < n; i += SUM_BLOCK) {
    const ptrdiff_t m = rm_min(n - i, SUM_BLOCK);
    for (ptrdiff_t k = 0; k < m; k++) block[k] = rm_bf16_to_f32(p[i + k]);
    sum += lanes_f32_IDENTITY(m, block, y);
  }
  return sum;
}

#define WIDEN_BF16(p) ((f32x16)(__builtin_convertvector(LOAD(u16x16, p), u32x16) << 16))
#define SUM4 sum4_bf16
#define TYPE uint16_t
#define WIDEN WIDEN_BF16
#define MAP MAP_IDENTITY
#define MIN_PER_ELEMENT -INFINITY
#define FALLBACK lanes_bf16
#include "reduce_sum4.h"

#if defined(__F16C__) || defined(__aarch64__)
VECTOR(_Float16, f16x16, 16);

static double lanes_f16(ptrdiff_t n, const uint16_t *p, double y) {
  _Alignas(64) float block[SUM_BLOCK];
  double sum = 0;
  for (ptrdiff_t i = 0; i < n; i += SUM_BLOCK) {
    const ptrdiff_t m = rm_min(n - i, SUM_BLOCK);
    for (ptrdiff_t k = 0; k < m; k++) block[k] = rm_f16_to_f32(p[i + k]);
    sum += lanes_f32_IDENTITY(m, block, y);
  }
  return sum;
}

#define WIDEN_F16(p) __builtin_convertvector(LOAD(f16x16, p), f32x16)
#define SUM4 sum4_f16
#define TYPE uint16_t
#define WIDEN WIDEN_F16
#define MAP MAP_IDENTITY
#define MIN_PER_ELEMENT -INFINITY
#define FALLBACK lanes_f16
#include "reduce_sum4.h"
#else
#define sum4_f16 NULL
#endif

#define MAP MAP_IDENTITY
#define ACCUMULATE MULTIPLY
#define START 1.0
#define LANES lanes_f32_product
#define TYPE float
#define VECTOR_OF_8 f32x8
#include "reduce_lanes.h"
#define LANES lanes_f64_product
#define TYPE double
#define VECTOR_OF_8 f64x8
#include "reduce_lanes.h"
#undef MAP
#undef ACCUMULATE
#undef START

static RM_KERNEL void product_f32(const reduce_context *ctx, ptrdiff_t n, const void *from,
                                  double y, accumulators *c) {
  (void)ctx;
  *(double *)c->acc *= lanes_f32_product(n, from, y);
}

static RM_KERNEL void product_f64(const reduce_context *ctx, ptrdiff_t n, const void *from,
                                  double y, accumulators *c) {
  (void)ctx;
  *(double *)c->acc *= lanes_f64_product(n, from, y);
}

_Static_assert(FEW_MAX == 8, "SUM_FEW adds 8 elements without a loop");
#define SUM_FEW(name, TYPE) \
  static RM_KERNEL void name(ptrdiff_t n, ptrdiff_t length, const void *from, ptrdiff_t step, \
                             void *acc) { \
    double *restrict sum = acc; \
    const char *row = from; \
    for (ptrdiff_t i = 0; i < n; i++, row += step) { \
      const TYPE *p = (const TYPE *)row; \
      double a = 0; \
      if (length == FEW_MAX) { \
        a += (double)p[0], a += (double)p[1], a += (double)p[2], a += (double)p[3]; \
        a += (double)p[4], a += (double)p[5], a += (double)p[6], a += (double)p[7]; \
      } else { \
        RM_ROLLED for (ptrdiff_t k = 0; k < length; k++) a += (double)p[k]; \
      } \
      sum[i] += a; \
    } \
  }
SUM_FEW(few_f32, float)
SUM_FEW(few_f64, double)
#undef SUM_FEW

#define COLUMNS columns_sum_f32
#define TYPE float
#define ACCUMULATOR double
#define ARRAY acc
#define MAP MAP_IDENTITY
#define ACCUMULATE ADD
#define UNROLL
#include "reduce_columns.h"
#define COLUMNS columns_sum_f64
#define TYPE double
#define ACCUMULATOR double
#define ARRAY part
#define MAP MAP_IDENTITY
#define ACCUMULATE ADD
#define UNROLL RM_ROLLED
#include "reduce_columns.h"
#define COLUMNS columns_squares_f32
#define TYPE float
#define ACCUMULATOR double
#define ARRAY acc
#define MAP MAP_SQUARE
#define ACCUMULATE ADD
#define UNROLL
#include "reduce_columns.h"
#define COLUMNS columns_squares_f64
#define TYPE double
#define ACCUMULATOR double
#define ARRAY part
#define MAP MAP_SQUARE
#define ACCUMULATE ADD
#define UNROLL RM_ROLLED
#include "reduce_columns.h"
#define COLUMNS columns_product_f32
#define TYPE float
#define ACCUMULATOR double
#define ARRAY acc
#define MAP MAP_IDENTITY
#define ACCUMULATE MULTIPLY
#define UNROLL RM_ROLLED
#include "reduce_columns.h"
#define COLUMNS columns_product_f64
#define TYPE double
#define ACCUMULATOR double
#define ARRAY acc
#define MAP MAP_IDENTITY
#define ACCUMULATE MULTIPLY
#define UNROLL RM_ROLLED
#include "reduce_columns.h"

/* The sums of four rows. Columns whose sum overflows float32 are added in double. */
#define SUM4_COLUMNS(count, V, D) \
  for (; i + count <= n; i += count) { \
    const V x = LOAD(V, p + i), y = LOAD(V, q + i), z = LOAD(V, v + i), t = LOAD(V, w + i); \
    const V narrow = SUM_OF_4(x, y, z, t); \
    D sum, four = __builtin_convertvector(narrow, D); \
    if (BITS(TRUTH(count, narrow - narrow != 0)) != 0) { \
      four = four - four == 0 \
                 ? four \
                 : SUM_OF_4(__builtin_convertvector(x, D), __builtin_convertvector(y, D), \
                            __builtin_convertvector(z, D), __builtin_convertvector(t, D)); \
    } \
    memcpy(&sum, acc + i, sizeof sum); \
    sum += four; \
    memcpy(acc + i, &sum, sizeof sum); \
  }
static RM_KERNEL void columns_sum4(const reduce_context *ctx, ptrdiff_t n, ptrdiff_t rows,
                                   const void *from, ptrdiff_t step, accumulators *c) {
  double *restrict acc = c->acc;
  const char *row = from;
  ptrdiff_t r = 0;
  for (; r + 4 <= rows; r += 4, row += 4 * step) {
    const float *restrict p = (const float *)row, *restrict q = (const float *)(row + step);
    const float *restrict v = (const float *)(row + 2 * step);
    const float *restrict w = (const float *)(row + 3 * step);
    ptrdiff_t i = 0;
    SUM4_COLUMNS(16, f32x16, f64x16)
    SUM4_COLUMNS(8, f32x8, f64x8)
    for (; i < n; i++) {
      const float four = SUM_OF_4(p[i], q[i], v[i], w[i]);
      acc[i] += four - four == 0 ? (double)four
                                 : SUM_OF_4((double)p[i], (double)q[i], (double)v[i], (double)w[i]);
    }
  }
  columns_sum_f32(ctx, n, rows - r, row, step, c);
}

static void flush_sum(ptrdiff_t n, accumulators *c) {
  double *restrict sum = c->acc, *restrict error = c->error, *restrict part = c->part;
  for (ptrdiff_t i = 0; i < n; i++) {
    two_sum(&sum[i], &error[i], part[i]);
    part[i] = 0;
  }
}

static void combine_sum(const reduce_context *ctx, ptrdiff_t n, accumulators *to,
                        const accumulators *from) {
  double *sum = to->acc;
  const double *other = from->acc;
  (void)ctx;
  for (ptrdiff_t i = 0; i < n; i++) {
    two_sum(&sum[i], &to->error[i], other[i]);
    to->error[i] += from->error[i];
  }
}

static void combine_product(const reduce_context *ctx, ptrdiff_t n, accumulators *to,
                            const accumulators *from) {
  double *product = to->acc;
  const double *other = from->acc;
  (void)ctx;
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) product[i] *= other[i];
}

static void store_float(const reduce_context *ctx, ptrdiff_t n, char *out, ptrdiff_t stride,
                        const accumulators *c) {
  const double *acc = c->acc;
  double result[WIDTH];
  for (ptrdiff_t i = 0; i < n; i++) result[i] = compensated_sum(acc[i], c->error[i]);
  switch (ctx->opcode) {
    case RM_OP_mean:
    case RM_OP_var:
    case RM_OP_std:
      for (ptrdiff_t i = 0; i < n; i++) result[i] /= ctx->attribute;
      break;
    case RM_OP_normP: RM_FOR_ISA(pow_block)(1 / ctx->attribute, n, result); break;
    case RM_OP_logSumExp:
      for (ptrdiff_t i = 0; i < n; i++) result[i] = rm_log_f64(result[i]);
      break;
    default: break;
  }
  if (ctx->opcode == RM_OP_std || ctx->opcode == RM_OP_norm2) {
    for (ptrdiff_t i = 0; i < n; i++) result[i] = __builtin_sqrt(result[i]);
  }
  if (!rm_is_float(ctx->out)) {
    int64_t counts[WIDTH];
    for (ptrdiff_t i = 0; i < n; i++) counts[i] = (int64_t)result[i];
    RM_FOR_ISA(store_elements)(ctx->out, n, counts, out, stride);
    return;
  }
  RM_FOR_ISA(store_elements)(ctx->out, n, result, out, stride);
}

bool RM_FOR_ISA(choose_float_sum)(reduce_context *ctx, int a, element_map map, bool mapped) {
  typedef void (RM_KERNEL * run)(const reduce_context *ctx, ptrdiff_t n, const void *from, double y,
                                accumulators *c);
  static const run runs[][2] = {
      [IDENTITY] = {sum_f32_IDENTITY, sum_f64_IDENTITY},
      [ABS] = {sum_f32_ABS, sum_f64_ABS},
      [SQUARE] = {sum_f32_SQUARE, sum_f64_SQUARE},
      [SQUARED_DIFFERENCE] = {sum_f32_SQUARED_DIFFERENCE, sum_f64_SQUARED_DIFFERENCE},
      [NAN_TO_ZERO] = {sum_f32_NAN_TO_ZERO, sum_f64_NAN_TO_ZERO},
      [IS_NUMBER] = {sum_f32_IS_NUMBER, sum_f64_IS_NUMBER},
      [NAN_SQUARED_DIFFERENCE] = {sum_f32_NAN_SQUARED_DIFFERENCE, sum_f64_NAN_SQUARED_DIFFERENCE},
  };
  bool wide = RM_FOR_ISA(choose_float_loader)(ctx, a);
  if (map == EXP_F32) {
    ctx->load_second = ctx->load;
  } else if (mapped) {
    ctx->load = RM_FOR_ISA(to_f64)[a];
    wide = true;
  }
  if (mapped) {
    ctx->map = map;
    ctx->direct = false;
  }
  ctx->run = runs[mapped ? IDENTITY : map][wide];
  if (map == IDENTITY) ctx->few = wide ? few_f64 : few_f32;
  if (map == SQUARE) ctx->columns = wide ? columns_squares_f64 : columns_squares_f32;
  else ctx->columns = wide ? columns_sum_f64 : columns_sum_f32;
  const run half = a == RM_FLOAT16 ? sum4_f16 : a == RM_BFLOAT16 ? sum4_bf16 : NULL;
  if (half != NULL && map == IDENTITY && !ctx->across) {
    ctx->run = half;
    ctx->few = NULL;
    ctx->load = RM_FOR_ISA(copy_loader)(a);
    ctx->direct = true;
  }
  const int inner = ctx->iterator->rank - 1;
  if (a == RM_FLOAT32 && !mapped && inner >= ctx->outer_axes &&
      ctx->iterator->shape[inner] >= SUM4_MIN) {
    if (map == IDENTITY) ctx->run = sum4_IDENTITY, ctx->columns = columns_sum4;
    if (map == ABS) ctx->run = sum4_ABS;
    if (map == NAN_TO_ZERO) ctx->run = sum4_NAN_TO_ZERO;
    if (map == IS_NUMBER) ctx->run = sum4_IS_NUMBER;
    if (map == SQUARE) ctx->run = sum4_SQUARE;
  }
  ctx->flush = ctx->across && wide ? flush_sum : NULL;
  ctx->combine = combine_sum;
  ctx->store = store_float;
  ctx->accumulator_bytes = 8;
  return true;
}

bool RM_FOR_ISA(choose_float_product)(reduce_context *ctx, int a, element_map map) {
  bool wide = RM_FOR_ISA(choose_float_loader)(ctx, a);
  if (map != IDENTITY) {
    ctx->map = map;
    ctx->load = RM_FOR_ISA(to_f64)[a];
    ctx->direct = false;
    wide = true;
  }
  const double one = 1;
  memcpy(&ctx->identity, &one, sizeof one);
  ctx->run = wide ? product_f64 : product_f32;
  ctx->columns = wide ? columns_product_f64 : columns_product_f32;
  ctx->combine = combine_product;
  ctx->store = store_float;
  ctx->accumulator_bytes = 8;
  return true;
}
