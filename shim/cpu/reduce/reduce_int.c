/*
 * Sums, products and counts of integers.
 */
#include <string.h>
#include "reduce_context.h"
#include "reduce_vectors.h"

#define AS_IS(x) (x)
#define ADD(a, x) ((a) + (x))
#define MULTIPLY(a, x) ((a) * (x))

#define SUFFIX i8
#define ELEMENT int8_t
#define VECTOR_OF i8x16
#define LANE int32_t
#define SUM i32x16
#define TOTAL i64x16
#define COUNT 16
#include "reduce_int_type.h"
#define SUFFIX i16
#define ELEMENT int16_t
#define VECTOR_OF i16x16
#define LANE int32_t
#define SUM i32x16
#define TOTAL i64x16
#define COUNT 16
#include "reduce_int_type.h"
#define SUFFIX i32
#define ELEMENT int32_t
#define VECTOR_OF i32x8
#define LANE int64_t
#define SUM i64x8
#define TOTAL i64x8
#define COUNT 8
#include "reduce_int_type.h"
#define SUFFIX i64
#define ELEMENT int64_t
#define VECTOR_OF i64x8
#define LANE int64_t
#define SUM i64x8
#define TOTAL i64x8
#define COUNT 8
#include "reduce_int_type.h"
#define SUFFIX u8
#define ELEMENT uint8_t
#define VECTOR_OF u8x16
#define LANE uint32_t
#define SUM u32x16
#define TOTAL i64x16
#define COUNT 16
#include "reduce_int_type.h"
#define SUFFIX u16
#define ELEMENT uint16_t
#define VECTOR_OF u16x16
#define LANE uint32_t
#define SUM u32x16
#define TOTAL i64x16
#define COUNT 16
#include "reduce_int_type.h"
#define SUFFIX u32
#define ELEMENT uint32_t
#define VECTOR_OF u32x8
#define LANE int64_t
#define SUM i64x8
#define TOTAL i64x8
#define COUNT 8
#include "reduce_int_type.h"

#define COLUMNS columns_product_i64
#define TYPE int64_t
#define ACCUMULATOR int64_t
#define ARRAY acc
#define MAP AS_IS
#define ACCUMULATE MULTIPLY
#define UNROLL RM_ROLLED
#include "reduce_columns.h"

static RM_KERNEL void product_i64(const reduce_context *ctx, ptrdiff_t n, const void *from,
                                  double y, accumulators *c) {
  const int64_t *p = from;
  (void)ctx, (void)y;
  i64x8 s = 1, t = 1;
  ptrdiff_t i = 0;
  for (; i + 16 <= n; i += 16) s *= LOAD(i64x8, p + i), t *= LOAD(i64x8, p + i + 8);
  s *= t;
  int64_t product = 1;
  for (int l = 0; l < 8; l++) product *= s[l];
  for (; i < n; i++) product *= p[i];
  *(int64_t *)c->acc *= product;
}

static void combine_int_sum(const reduce_context *ctx, ptrdiff_t n, accumulators *to,
                            const accumulators *from) {
  int64_t *sum = to->acc;
  const int64_t *other = from->acc;
  (void)ctx;
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) sum[i] += other[i];
}

static void combine_int_product(const reduce_context *ctx, ptrdiff_t n, accumulators *to,
                                const accumulators *from) {
  int64_t *product = to->acc;
  const int64_t *other = from->acc;
  (void)ctx;
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) product[i] *= other[i];
}

static void store_int(const reduce_context *ctx, ptrdiff_t n, char *out, ptrdiff_t stride,
                      const accumulators *c) {
  RM_FOR_ISA(store_elements)(ctx->out, n, c->acc, out, stride);
}

static void store_int_mean(const reduce_context *ctx, ptrdiff_t n, char *out, ptrdiff_t stride,
                           const accumulators *c) {
  const int64_t *sums = (const int64_t *)c->acc;
  double result[WIDTH];
  for (ptrdiff_t i = 0; i < n; i++) result[i] = (double)sums[i] / ctx->attribute;
  RM_FOR_ISA(store_elements)(ctx->out, n, result, out, stride);
}

#define SUFFIX 1
#define ELEMENT int8_t
#define VECTOR_OF i8x64
#define SUM i16x64
#define COUNT 64
#include "reduce_count_type.h"
#define SUFFIX 2
#define ELEMENT int16_t
#define VECTOR_OF i16x32
#define SUM i16x32
#define COUNT 32
#include "reduce_count_type.h"
#define SUFFIX 4
#define ELEMENT int32_t
#define VECTOR_OF i32x16
#define SUM i32x16
#define COUNT 16
#include "reduce_count_type.h"
#define SUFFIX 8
#define ELEMENT int64_t
#define VECTOR_OF i64x8
#define SUM i64x8
#define COUNT 8
#include "reduce_count_type.h"

static void store_count(const reduce_context *ctx, ptrdiff_t n, char *out, ptrdiff_t stride,
                        const accumulators *c) {
  const int64_t *acc = c->acc;
  int64_t result[WIDTH];
  for (ptrdiff_t i = 0; i < n; i++) {
    result[i] = acc[i];
    if (ctx->opcode == RM_OP_any) result[i] = acc[i] != 0;
    if (ctx->opcode == RM_OP_all) result[i] = acc[i] == 0;
  }
  RM_FOR_ISA(store_elements)(ctx->out, n, result, out, stride);
}

bool RM_FOR_ISA(choose_int_sum)(reduce_context *ctx, int a) {
  ctx->direct = true;
  ctx->load = RM_FOR_ISA(copy_loader)(a);
  switch (a) {
#define CASE(dtype, name) \
  case dtype: \
    ctx->run = sum_##name; \
    ctx->columns = columns_sum_##name; \
    break;
    CASE(RM_BOOL, u8)
    CASE(RM_INT8, i8)
    CASE(RM_INT16, i16)
    CASE(RM_INT32, i32)
    CASE(RM_INT64, i64)
    CASE(RM_UINT8, u8)
    CASE(RM_UINT16, u16)
    CASE(RM_UINT32, u32)
    CASE(RM_UINT64, i64)
#undef CASE
    default: return false;
  }
  ctx->combine = combine_int_sum;
  ctx->store = store_int;
  ctx->accumulator_bytes = 8;
  return true;
}

bool RM_FOR_ISA(choose_int_mean)(reduce_context *ctx, int a) {
  const bool found = RM_FOR_ISA(choose_int_sum)(ctx, a);
  ctx->store = store_int_mean;
  return found;
}

bool RM_FOR_ISA(choose_int_product)(reduce_context *ctx, int a) {
  if (rm_is_float(a)) return false;
  ctx->direct = rm_itemsize(a) == 8;
  ctx->load = RM_FOR_ISA(to_i64)[a];
  ctx->identity = 1;
  ctx->run = product_i64;
  ctx->columns = columns_product_i64;
  ctx->combine = combine_int_product;
  ctx->store = store_int;
  ctx->accumulator_bytes = 8;
  return true;
}

bool RM_FOR_ISA(choose_count)(reduce_context *ctx, int a) {
  const int bytes = (int)rm_itemsize(a);
  ctx->direct = true;
  ctx->load = RM_FOR_ISA(copy_loader)(a);
  ctx->mask = rm_is_float(a) ? ~(uint64_t)0 >> (65 - 8 * bytes) : ~(uint64_t)0;
  ctx->flip = ctx->opcode == RM_OP_all;
  ctx->short_circuits = ctx->opcode != RM_OP_countNonzero;
  if (ctx->short_circuits) ctx->step = 4 * INDEX_BLOCK;
  switch (bytes) {
#define CASE(bytes) \
  case bytes: \
    ctx->run = count_##bytes; \
    ctx->columns = columns_count_##bytes; \
    if (ctx->across) ctx->flush = flush_count_##bytes; \
    break;
    CASE(1)
    CASE(2)
    CASE(4)
    default:
    CASE(8)
#undef CASE
  }
  ctx->combine = combine_int_sum;
  ctx->store = store_count;
  ctx->accumulator_bytes = 8;
  return true;
}
