/*
 * Sums, products and counts of integers.
 */
#include <string.h>
#include "ops.def"
#include "reduce_context.h"
#include "reduce_vectors.h"

#define AS_IT_IS(x) (x)
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
#define SLOTS acc
#define MAP AS_IT_IS
#define FOLD MULTIPLY
#define UNROLL RM_ROLLED
#include "reduce_columns.h"

static RM_KERNEL void product_i64(const job *j, ptrdiff_t n, const void *from, double y, cells *c) {
  const int64_t *p = from;
  (void)j, (void)y;
  i64x8 s = 1, t = 1;
  ptrdiff_t i = 0;
  for (; i + 16 <= n; i += 16) s *= LOAD(i64x8, p + i), t *= LOAD(i64x8, p + i + 8);
  s *= t;
  int64_t product = 1;
  for (int l = 0; l < 8; l++) product *= s[l];
  for (; i < n; i++) product *= p[i];
  *(int64_t *)c->acc *= product;
}

static void combine_int_sum(const job *j, ptrdiff_t n, cells *to, const cells *from) {
  int64_t *sum = to->acc;
  const int64_t *other = from->acc;
  (void)j;
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) sum[i] += other[i];
}

static void combine_int_product(const job *j, ptrdiff_t n, cells *to, const cells *from) {
  int64_t *product = to->acc;
  const int64_t *other = from->acc;
  (void)j;
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) product[i] *= other[i];
}

static void store_int(const job *j, ptrdiff_t n, char *out, ptrdiff_t stride, const cells *c) {
  RM_AT(put)(j->out, n, c->acc, out, stride);
}

static void store_int_mean(const job *j, ptrdiff_t n, char *out, ptrdiff_t stride,
                           const cells *c) {
  const int64_t *sums = (const int64_t *)c->acc;
  double result[WIDTH];
  for (ptrdiff_t i = 0; i < n; i++) result[i] = (double)sums[i] / j->attribute;
  RM_AT(put)(j->out, n, result, out, stride);
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

static void store_count(const job *j, ptrdiff_t n, char *out, ptrdiff_t stride, const cells *c) {
  const int64_t *acc = c->acc;
  int64_t result[WIDTH];
  for (ptrdiff_t i = 0; i < n; i++) {
    result[i] = acc[i];
    if (j->opcode == RM_OP_any) result[i] = acc[i] != 0;
    if (j->opcode == RM_OP_all) result[i] = acc[i] == 0;
  }
  RM_AT(put)(j->out, n, result, out, stride);
}

bool RM_AT(choose_int_sum)(job *j, int a) {
  j->direct = true;
  j->load = RM_AT(copier)(a);
  switch (a) {
#define CASE(dtype, name) \
  case dtype: \
    j->run = sum_##name; \
    j->columns = columns_sum_##name; \
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
  j->combine = combine_int_sum;
  j->store = store_int;
  j->slot = 8;
  return true;
}

bool RM_AT(choose_int_mean)(job *j, int a) {
  const bool found = RM_AT(choose_int_sum)(j, a);
  j->store = store_int_mean;
  return found;
}

bool RM_AT(choose_int_product)(job *j, int a) {
  if (rm_is_float(a)) return false;
  j->direct = rm_bytes(a) == 8;
  j->load = RM_AT(to_i64)[a];
  j->start = 1;
  j->run = product_i64;
  j->columns = columns_product_i64;
  j->combine = combine_int_product;
  j->store = store_int;
  j->slot = 8;
  return true;
}

bool RM_AT(choose_count)(job *j, int a) {
  const int bytes = (int)rm_bytes(a);
  j->direct = true;
  j->load = RM_AT(copier)(a);
  j->mask = rm_is_float(a) ? ~(uint64_t)0 >> (65 - 8 * bytes) : ~(uint64_t)0;
  j->flip = j->opcode == RM_OP_all;
  j->stops = j->opcode != RM_OP_countNonzero;
  if (j->stops) j->step = 4 * PIECE;
  switch (bytes) {
#define CASE(bytes) \
  case bytes: \
    j->run = count_##bytes; \
    j->columns = columns_count_##bytes; \
    if (j->across) j->flush = flush_count_##bytes; \
    break;
    CASE(1)
    CASE(2)
    CASE(4)
    default:
    CASE(8)
#undef CASE
  }
  j->combine = combine_int_sum;
  j->store = store_count;
  j->slot = 8;
  return true;
}
