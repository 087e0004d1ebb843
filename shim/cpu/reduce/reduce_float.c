/*
 * Sums and products of floats.
 */
#include <math.h>
#include <string.h>
#include "ops.def"
#include "reduce_context.h"
#include "reduce_vectors.h"
#include "two_sum.h"
#include "vecmath.h"

#define ADD(a, x) ((a) + (x))
#define MULTIPLY(a, x) ((a) * (x))
#define MAP_PLAIN(x) (x)
#define MAP_MAGNITUDE(x) __builtin_elementwise_abs(x)
#define MAP_SQUARE(x) ((x) * (x))
#define MAP_DIFFERENCE(x) (((x) - y) * ((x) - y))

/* Where it pays: with registers of 16 bytes there are none left for it, and an EPYC sums float64 in
 * five sixths of the time without it. */
#if defined(__AVX__)
#define FETCH_AHEAD(p) \
  for (int line = 0; line < (sizeof *(p) == 4 ? 128 : 0); line += 64) { \
    __builtin_prefetch((const char *)(p) + AHEAD + line); \
  }
#else
#define FETCH_AHEAD(p)
#endif

#define SUFFIX PLAIN
#define MAP MAP_PLAIN
#include "reduce_map_type.h"
#define SUFFIX MAGNITUDE
#define MAP MAP_MAGNITUDE
#include "reduce_map_type.h"
#define SUFFIX SQUARE
#define MAP MAP_SQUARE
#include "reduce_map_type.h"
#define SUFFIX DIFFERENCE
#define MAP MAP_DIFFERENCE
#include "reduce_map_type.h"

/*
 * Sums of many floats of up to 32 bits: four at a time in float32, and those in double, as
 * conversions to that are what takes the time. So an element is rounded twice at most, or, if it has
 * 16 bits, never, unless some are more than 2^11 times as large as others; squares are rounded, too.
 * A run with a sum that float32 does not hold, or of squares so small that it does not hold them
 * all, is added once more, in double: by alone.
 */
#define DOUBLES(x) __builtin_convertvector(x, f64x8)
#define FOUR(p, q, v, w) (((p) + (q)) + ((v) + (w)))
static const i32x16 FIRST_16 = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#define WIDEN_FLOAT(p) LOAD(f32x16, p)
#define FOURS fours_PLAIN
#define TYPE float
#define WIDEN WIDEN_FLOAT
#define MAP MAP_PLAIN
#define LEAST -INFINITY
#define ALONE lanes_f32_PLAIN
#include "reduce_fours.h"
#define FOURS fours_MAGNITUDE
#define TYPE float
#define WIDEN WIDEN_FLOAT
#define MAP MAP_MAGNITUDE
#define LEAST -INFINITY
#define ALONE lanes_f32_MAGNITUDE
#include "reduce_fours.h"
#define FOURS fours_SQUARE
#define TYPE float
#define WIDEN WIDEN_FLOAT
#define MAP MAP_SQUARE
#define LEAST 0x1p-120
#define ALONE lanes_f32_SQUARE
#include "reduce_fours.h"

/* The same of 16-bit floats, which are made float32 first. */
static double lanes_brain(ptrdiff_t n, const uint16_t *p, double y) {
  _Alignas(64) float block[BLOCK];
  double sum = 0;
  for (ptrdiff_t i = 0; i < n; i += BLOCK) {
    const ptrdiff_t m = rm_least(n - i, BLOCK);
    RM_AT(f32_from_brain)(m, p + i, block);
    sum += lanes_f32_PLAIN(m, block, y);
  }
  return sum;
}

#define WIDEN_BRAIN(p) ((f32x16)(__builtin_convertvector(LOAD(u16x16, p), u32x16) << 16))
#define FOURS fours_brain
#define TYPE uint16_t
#define WIDEN WIDEN_BRAIN
#define MAP MAP_PLAIN
#define LEAST -INFINITY
#define ALONE lanes_brain
#include "reduce_fours.h"

#if defined(__F16C__) || defined(__aarch64__)
VECTOR(_Float16, f16x16, 16);

static double lanes_half(ptrdiff_t n, const uint16_t *p, double y) {
  _Alignas(64) float block[BLOCK];
  double sum = 0;
  for (ptrdiff_t i = 0; i < n; i += BLOCK) {
    const ptrdiff_t m = rm_least(n - i, BLOCK);
    RM_AT(f32_from_half)(m, p + i, block);
    sum += lanes_f32_PLAIN(m, block, y);
  }
  return sum;
}

#define WIDEN_HALF(p) __builtin_convertvector(LOAD(f16x16, p), f32x16)
#define FOURS fours_half
#define TYPE uint16_t
#define WIDEN WIDEN_HALF
#define MAP MAP_PLAIN
#define LEAST -INFINITY
#define ALONE lanes_half
#include "reduce_fours.h"
#else
#define fours_half NULL
#endif

#define MAP MAP_PLAIN
#define FOLD MULTIPLY
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
#undef FOLD
#undef START

static RM_KERNEL void product_f32(const job *j, ptrdiff_t n, const void *from, double y, cells *c) {
  (void)j;
  *(double *)c->acc *= lanes_f32_product(n, from, y);
}

static RM_KERNEL void product_f64(const job *j, ptrdiff_t n, const void *from, double y, cells *c) {
  (void)j;
  *(double *)c->acc *= lanes_f64_product(n, from, y);
}

#define COLUMNS columns_sum_f32
#define TYPE float
#define ACCUMULATOR double
#define SLOTS acc
#define MAP MAP_PLAIN
#define FOLD ADD
#define UNROLL
#include "reduce_columns.h"
#define COLUMNS columns_sum_f64
#define TYPE double
#define ACCUMULATOR double
#define SLOTS part
#define MAP MAP_PLAIN
#define FOLD ADD
#define UNROLL RM_ROLLED
#include "reduce_columns.h"
#define COLUMNS columns_squares_f32
#define TYPE float
#define ACCUMULATOR double
#define SLOTS acc
#define MAP MAP_SQUARE
#define FOLD ADD
#define UNROLL
#include "reduce_columns.h"
#define COLUMNS columns_squares_f64
#define TYPE double
#define ACCUMULATOR double
#define SLOTS part
#define MAP MAP_SQUARE
#define FOLD ADD
#define UNROLL RM_ROLLED
#include "reduce_columns.h"
#define COLUMNS columns_product_f32
#define TYPE float
#define ACCUMULATOR double
#define SLOTS acc
#define MAP MAP_PLAIN
#define FOLD MULTIPLY
#define UNROLL RM_ROLLED
#include "reduce_columns.h"
#define COLUMNS columns_product_f64
#define TYPE double
#define ACCUMULATOR double
#define SLOTS acc
#define MAP MAP_PLAIN
#define FOLD MULTIPLY
#define UNROLL RM_ROLLED
#include "reduce_columns.h"

/* Of many rows, likewise. Each column for itself is made in double where float32 does not hold it. */
#define FOURS_BY(count, V, D) \
  for (; i + count <= n; i += count) { \
    const V x = LOAD(V, p + i), y = LOAD(V, q + i), z = LOAD(V, v + i), t = LOAD(V, w + i); \
    const V narrow = FOUR(x, y, z, t); \
    D sum, four = __builtin_convertvector(narrow, D); \
    if (BITS(TRUTH(count, narrow - narrow != 0)) != 0) { \
      four = four - four == 0 ? four \
                              : FOUR(__builtin_convertvector(x, D), __builtin_convertvector(y, D), \
                                     __builtin_convertvector(z, D), __builtin_convertvector(t, D)); \
    } \
    memcpy(&sum, acc + i, sizeof sum); \
    sum += four; \
    memcpy(acc + i, &sum, sizeof sum); \
  }
static RM_KERNEL void columns_fours(const job *j, ptrdiff_t n, ptrdiff_t rows, const void *from,
                                    ptrdiff_t step, cells *c) {
  double *restrict acc = c->acc;
  const char *row = from;
  ptrdiff_t r = 0;
  for (; r + 4 <= rows; r += 4, row += 4 * step) {
    const float *restrict p = (const float *)row, *restrict q = (const float *)(row + step);
    const float *restrict v = (const float *)(row + 2 * step);
    const float *restrict w = (const float *)(row + 3 * step);
    ptrdiff_t i = 0;
    FOURS_BY(16, f32x16, f64x16)
    FOURS_BY(8, f32x8, f64x8)
    for (; i < n; i++) {
      const float four = FOUR(p[i], q[i], v[i], w[i]);
      acc[i] += four - four == 0 ? (double)four
                                 : FOUR((double)p[i], (double)q[i], (double)v[i], (double)w[i]);
    }
  }
  columns_sum_f32(j, n, rows - r, row, step, c);
}

static void flush_sum(ptrdiff_t n, cells *c) {
  double *restrict sum = c->acc, *restrict error = c->error, *restrict part = c->part;
  for (ptrdiff_t i = 0; i < n; i++) {
    add_exactly(&sum[i], &error[i], part[i]);
    part[i] = 0;
  }
}

static void combine_sum(const job *j, ptrdiff_t n, cells *to, const cells *from) {
  double *sum = to->acc;
  const double *other = from->acc;
  (void)j;
  for (ptrdiff_t i = 0; i < n; i++) {
    add_exactly(&sum[i], &to->error[i], other[i]);
    to->error[i] += from->error[i];
  }
}

static void combine_product(const job *j, ptrdiff_t n, cells *to, const cells *from) {
  double *product = to->acc;
  const double *other = from->acc;
  (void)j;
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) product[i] *= other[i];
}

static void store_float(const job *j, ptrdiff_t n, char *out, ptrdiff_t stride, const cells *c) {
  const double *acc = c->acc;
  double result[WIDTH];
  for (ptrdiff_t i = 0; i < n; i++) result[i] = corrected(acc[i], c->error[i]);
  switch (j->opcode) {
    case RM_OP_mean:
    case RM_OP_var:
    case RM_OP_std:
      for (ptrdiff_t i = 0; i < n; i++) result[i] /= j->attribute;
      break;
    case RM_OP_normP:
      RM_AT(power_block)(1 / j->attribute, n, result);
      break;
    case RM_OP_logSumExp:
      for (ptrdiff_t i = 0; i < n; i++) result[i] = rm_log_f64(result[i]);
      break;
    default: break;
  }
  if (j->opcode == RM_OP_std || j->opcode == RM_OP_norm2) {
    for (ptrdiff_t i = 0; i < n; i++) result[i] = __builtin_sqrt(result[i]);
  }
  RM_AT(put)(j->out, n, result, out, stride);
}

bool RM_AT(choose_float_sum)(job *j, int a, mapping map, bool mapped) {
  typedef void (RM_KERNEL *run)(const job *j, ptrdiff_t n, const void *from, double y, cells *c);
  static const run runs[][2] = {
      [PLAIN] = {sum_f32_PLAIN, sum_f64_PLAIN},
      [MAGNITUDE] = {sum_f32_MAGNITUDE, sum_f64_MAGNITUDE},
      [SQUARE] = {sum_f32_SQUARE, sum_f64_SQUARE},
      [DIFFERENCE] = {sum_f32_DIFFERENCE, sum_f64_DIFFERENCE},
  };
  bool wide = RM_AT(choose_float_loader)(j, a);
  if (map == EXPONENTIAL_F32) {
    j->load_second = j->load;
  } else if (mapped) {
    j->load = RM_AT(to_f64)[a];
    wide = true;
  }
  if (mapped) {
    j->map = map;
    j->direct = false;
  }
  j->run = runs[mapped ? PLAIN : map][wide];
  if (map == SQUARE) j->columns = wide ? columns_squares_f64 : columns_squares_f32;
  else j->columns = wide ? columns_sum_f64 : columns_sum_f32;
  const run half = a == RM_FLOAT16 ? fours_half : a == RM_BFLOAT16 ? fours_brain : NULL;
  if (half != NULL && map == PLAIN && !j->across) {
    j->run = half;
    j->load = RM_AT(copier)(a);
    j->direct = true;
  }
  const int inner = j->walk->rank - 1;
  if (a == RM_FLOAT32 && !mapped && inner >= j->kept && j->walk->size[inner] >= MANY) {
    if (map == PLAIN) j->run = fours_PLAIN, j->columns = columns_fours;
    if (map == MAGNITUDE) j->run = fours_MAGNITUDE;
    if (map == SQUARE) j->run = fours_SQUARE;
  }
  j->flush = j->across && wide ? flush_sum : NULL;
  j->combine = combine_sum;
  j->store = store_float;
  j->slot = 8;
  return true;
}

bool RM_AT(choose_float_product)(job *j, int a) {
  const bool wide = RM_AT(choose_float_loader)(j, a);
  const double one = 1;
  memcpy(&j->start, &one, sizeof one);
  j->run = wide ? product_f64 : product_f32;
  j->columns = wide ? columns_product_f64 : columns_product_f32;
  j->combine = combine_product;
  j->store = store_float;
  j->slot = 8;
  return true;
}
