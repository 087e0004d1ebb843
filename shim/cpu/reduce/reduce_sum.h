/* Sums, products and counts: kernels of fold.c, which includes it. */
#include "reduce_common.h"

/* ---- sums and products of floats ------------------------------------------------------------- */

/* Knuth's TwoSum: the rounding error of sum + x goes to error. */
static inline void add_exactly(double *sum, double *error, double x) {
  double s = *sum + x, w = s - *sum;
  *error += (*sum - (s - w)) + (x - w);
  *sum = s;
}

/* After an infinity the error is NaN, and the plain sum is right; and so it is without an error:
 * a product of -0 keeps its sign. */
static inline double corrected(double sum, double error) {
  return error != 0 && error - error == 0 ? sum + error : sum;
}

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

/* The fold of n elements, in double. What lies further ahead is asked for before it is needed. */
#define LANES(name, T, V, map, fold, start) \
  static inline double name(ptrdiff_t n, const T *p, double y) { \
    const f64x8 first = start; \
    f64x8 s = first, t = first, u = first, v = first; \
    ptrdiff_t i = 0; \
    (void)y; \
    for (; i + 32 <= n; i += 32) { \
      FETCH_AHEAD(p + i) \
      const f64x8 a = __builtin_convertvector(LOAD(V, p + i), f64x8); \
      const f64x8 b = __builtin_convertvector(LOAD(V, p + i + 8), f64x8); \
      const f64x8 c = __builtin_convertvector(LOAD(V, p + i + 16), f64x8); \
      const f64x8 d = __builtin_convertvector(LOAD(V, p + i + 24), f64x8); \
      s = fold(s, map(a)), t = fold(t, map(b)), u = fold(u, map(c)), v = fold(v, map(d)); \
    } \
    for (; i + 8 <= n; i += 8) { \
      const f64x8 a = __builtin_convertvector(LOAD(V, p + i), f64x8); \
      s = fold(s, map(a)); \
    } \
    s = fold(fold(s, t), fold(u, v)); \
    const double half = fold(fold(s[0], s[4]), fold(s[1], s[5])); \
    const double sum = fold(half, fold(fold(s[2], s[6]), fold(s[3], s[7]))); \
    double rest = start; \
    for (; i < n; i++) { \
      const double x = (double)p[i]; \
      rest = fold(rest, map(x)); \
    } \
    return fold(sum, rest); \
  }

#define SUM_RUN(map) \
  LANES(lanes_f32_##map, float, f32x8, MAP_##map, ADD, 0.0) \
  LANES(lanes_f64_##map, double, f64x8, MAP_##map, ADD, 0.0) \
  static RM_KERNEL void sum_f32_##map(const job *j, ptrdiff_t n, const void *from, double y, \
                                      cells *c) { \
    (void)j; \
    *(double *)c->acc += lanes_f32_##map(n, from, y); \
  } \
  static RM_KERNEL void sum_f64_##map(const job *j, ptrdiff_t n, const void *from, double y, \
                                      cells *c) { \
    const double *p = from; \
    (void)j; \
    for (ptrdiff_t i = 0; i < n; i += BLOCK) { \
      const double sum = lanes_f64_##map(rm_least(n - i, BLOCK), p + i, y); \
      add_exactly(c->acc, c->error, sum); \
    } \
  }

SUM_RUN(PLAIN)
SUM_RUN(MAGNITUDE)
SUM_RUN(SQUARE)
SUM_RUN(DIFFERENCE)

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
#define SUM_FOURS(name, T, widen, map, least, alone) \
  static RM_KERNEL void fours_##name(const job *j, ptrdiff_t n, const void *from, double y, \
                                     cells *c) { \
    const T *p = from; \
    f64x8 low = 0, high = 0; \
    ptrdiff_t i = 0; \
    (void)j; \
    for (; i + 64 <= n; i += 64) { \
      const f32x16 x = FOUR(map(widen(p + i)), map(widen(p + i + 16)), map(widen(p + i + 32)), \
                            map(widen(p + i + 48))); \
      low += DOUBLES(x.lo), high += DOUBLES(x.hi); \
    } \
    for (; i + 16 <= n; i += 16) { \
      const f32x16 x = map(widen(p + i)); \
      low += DOUBLES(x.lo), high += DOUBLES(x.hi); \
    } \
    if (i < n && n >= 16) { \
      /* What is left over, as part of the sixteen that end with it. */ \
      const i32x16 bits = (i32x16)map(widen(p + n - 16)); \
      const f32x16 x = (f32x16)(bits & (FIRST_16 >= (int32_t)(i + 16 - n))); \
      low += DOUBLES(x.lo), high += DOUBLES(x.hi); \
    } \
    low += high; \
    const f64x4 fours = low.lo + low.hi; \
    const f64x2 twos = fours.lo + fours.hi; \
    double sum = twos.x + twos.y; \
    if (n < 16 || sum - sum != 0 || sum < least * (double)n) sum = alone(n, p, y); \
    *(double *)c->acc += sum; \
  }
#define WIDEN_FLOAT(p) LOAD(f32x16, p)
SUM_FOURS(PLAIN, float, WIDEN_FLOAT, MAP_PLAIN, -INFINITY, lanes_f32_PLAIN)
SUM_FOURS(MAGNITUDE, float, WIDEN_FLOAT, MAP_MAGNITUDE, -INFINITY, lanes_f32_MAGNITUDE)
SUM_FOURS(SQUARE, float, WIDEN_FLOAT, MAP_SQUARE, 0x1p-120, lanes_f32_SQUARE)

/* The same of 16-bit floats, which are made float32 first. */
#define SUM_HALF(name, widen, load) \
  static double lanes_##name(ptrdiff_t n, const uint16_t *p, double y) { \
    _Alignas(64) float block[BLOCK]; \
    double sum = 0; \
    for (ptrdiff_t i = 0; i < n; i += BLOCK) { \
      const ptrdiff_t m = rm_least(n - i, BLOCK); \
      load(m, p + i, 1, block); \
      sum += lanes_f32_PLAIN(m, block, y); \
    } \
    return sum; \
  } \
  SUM_FOURS(name, uint16_t, widen, MAP_PLAIN, -INFINITY, lanes_##name)
#define WIDEN_BRAIN(p) ((f32x16)(__builtin_convertvector(LOAD(u16x16, p), u32x16) << 16))
SUM_HALF(brain, WIDEN_BRAIN, f32_from_brain)
#if defined(__F16C__) || defined(__aarch64__)
VECTOR(_Float16, f16x16, 16);
#define WIDEN_HALF(p) __builtin_convertvector(LOAD(f16x16, p), f32x16)
SUM_HALF(half, WIDEN_HALF, f32_from_half)
#else
#define fours_half NULL
#endif

LANES(lanes_f32_product, float, f32x8, MAP_PLAIN, MULTIPLY, 1.0)
LANES(lanes_f64_product, double, f64x8, MAP_PLAIN, MULTIPLY, 1.0)

static RM_KERNEL void product_f32(const job *j, ptrdiff_t n, const void *from, double y, cells *c) {
  (void)j;
  *(double *)c->acc *= lanes_f32_product(n, from, y);
}

static RM_KERNEL void product_f64(const job *j, ptrdiff_t n, const void *from, double y, cells *c) {
  (void)j;
  *(double *)c->acc *= lanes_f64_product(n, from, y);
}

/* Folds rows into accumulators of type A. Fours of rows quarter the traffic of those; where rows have
 * to be loaded there is one at a time. */
#define COLUMNS(name, T, A, slots, map, fold, unroll) \
  static RM_KERNEL void name(const job *j, ptrdiff_t n, ptrdiff_t rows, const void *from, \
                             ptrdiff_t step, cells *c) { \
    A *restrict acc = (A *)c->slots; \
    (void)j; \
    const char *row = from; \
    ptrdiff_t r = 0; \
    for (; r + 4 <= rows; r += 4, row += 4 * step) { \
      const T *restrict p = (const T *)row, *restrict q = (const T *)(row + step); \
      const T *restrict v = (const T *)(row + 2 * step), *restrict w = (const T *)(row + 3 * step); \
      RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) { \
        const A x = (A)p[i], y = (A)q[i], z = (A)v[i], t = (A)w[i]; \
        acc[i] = fold(acc[i], fold(fold(map(x), map(y)), fold(map(z), map(t)))); \
      } \
    } \
    for (; r < rows; r++, row += step) { \
      const T *restrict p = (const T *)row; \
      unroll for (ptrdiff_t i = 0; i < n; i++) { \
        const A x = (A)p[i]; \
        acc[i] = fold(acc[i], map(x)); \
      } \
    } \
  }

COLUMNS(columns_sum_f32, float, double, acc, MAP_PLAIN, ADD, )
COLUMNS(columns_sum_f64, double, double, part, MAP_PLAIN, ADD, RM_ROLLED)
COLUMNS(columns_squares_f32, float, double, acc, MAP_SQUARE, ADD, )
COLUMNS(columns_squares_f64, double, double, part, MAP_SQUARE, ADD, RM_ROLLED)
COLUMNS(columns_product_f32, float, double, acc, MAP_PLAIN, MULTIPLY, RM_ROLLED)
COLUMNS(columns_product_f64, double, double, acc, MAP_PLAIN, MULTIPLY, RM_ROLLED)

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
      power_block(1 / j->attribute, n, result);
      break;
    case RM_OP_logSumExp:
      for (ptrdiff_t i = 0; i < n; i++) result[i] = rm_log_f64(result[i]);
      break;
    default: break;
  }
  if (j->opcode == RM_OP_std || j->opcode == RM_OP_norm2) {
    for (ptrdiff_t i = 0; i < n; i++) result[i] = __builtin_sqrt(result[i]);
  }
  put(j->out, n, result, out, stride);
}

/* ---- sums, products and counts of integers --------------------------------------------------- */

/* Lanes of type S are emptied before they can overflow. */
#define SUM_INT(name, T, V, S, L, W, count) \
  static RM_KERNEL void sum_##name(const job *j, ptrdiff_t n, const void *from, double y, \
                                   cells *c) { \
    const T *p = from; \
    (void)j, (void)y; \
    int64_t total = 0; \
    for (ptrdiff_t i = 0; i < n;) { \
      const ptrdiff_t end = sizeof(S) == 8 ? n : i + rm_least(n - i, (ptrdiff_t)count << 15); \
      L s = 0, t = 0, u = 0, v = 0; \
      for (; i + 4 * count <= end; i += 4 * count) { \
        s += __builtin_convertvector(LOAD(V, p + i), L); \
        t += __builtin_convertvector(LOAD(V, p + i + count), L); \
        u += __builtin_convertvector(LOAD(V, p + i + 2 * count), L); \
        v += __builtin_convertvector(LOAD(V, p + i + 3 * count), L); \
      } \
      for (; i + count <= end; i += count) s += __builtin_convertvector(LOAD(V, p + i), L); \
      s += t + (u + v); \
      total += __builtin_reduce_add(__builtin_convertvector(s, W)); \
      for (; i < end; i++) total += (int64_t)p[i]; \
    } \
    *(int64_t *)c->acc += total; \
  } \
  COLUMNS(columns_sum_##name, T, int64_t, acc, MAP_PLAIN, ADD, RM_ROLLED)

SUM_INT(i8, int8_t, i8x16, int32_t, i32x16, i64x16, 16)
SUM_INT(i16, int16_t, i16x16, int32_t, i32x16, i64x16, 16)
SUM_INT(i32, int32_t, i32x8, int64_t, i64x8, i64x8, 8)
SUM_INT(i64, int64_t, i64x8, int64_t, i64x8, i64x8, 8)
SUM_INT(u8, uint8_t, u8x16, uint32_t, u32x16, i64x16, 16)
SUM_INT(u16, uint16_t, u16x16, uint32_t, u32x16, i64x16, 16)
SUM_INT(u32, uint32_t, u32x8, int64_t, i64x8, i64x8, 8)

COLUMNS(columns_product_i64, int64_t, int64_t, acc, MAP_PLAIN, MULTIPLY, RM_ROLLED)

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
  put(j->out, n, c->acc, out, stride);
}

static void store_int_mean(const job *j, ptrdiff_t n, char *out, ptrdiff_t stride,
                           const cells *c) {
  const int64_t *sums = (const int64_t *)c->acc;
  double result[WIDTH];
  for (ptrdiff_t i = 0; i < n; i++) result[i] = (double)sums[i] / j->attribute;
  put(j->out, n, result, out, stride);
}

/*
 * Counts what is not zero, or, with flip 1, what is. The sign of a float is masked off. Lanes of T
 * count to 127 at least, and all lanes of a vector together to what S holds.
 */
#define COUNT(name, T, V, S, count) \
  static RM_KERNEL void count_##name(const job *j, ptrdiff_t n, const void *from, double y, \
                                     cells *c) { \
    const T *p = from; \
    const T mask = (T)j->mask; \
    (void)y; \
    int64_t zeros = 0; \
    for (ptrdiff_t i = 0; i < n;) { \
      const ptrdiff_t end = i + rm_least(n - i, 127 * 2 * count); \
      V s = 0, t = 0; \
      for (; i + 2 * count <= end; i += 2 * count) { \
        s -= (V)((LOAD(V, p + i) & mask) == 0); \
        t -= (V)((LOAD(V, p + i + count) & mask) == 0); \
      } \
      const S both = __builtin_convertvector(s, S) + __builtin_convertvector(t, S); \
      zeros += __builtin_reduce_add(both); \
      for (; i < end; i++) zeros += (p[i] & mask) == 0; \
    } \
    *(int64_t *)c->acc += j->flip ? zeros : n - zeros; \
  } \
  static RM_KERNEL void columns_count_##name(const job *j, ptrdiff_t n, ptrdiff_t rows, \
                                             const void *from, ptrdiff_t step, cells *c) { \
    T *restrict part = (T *)c->part; \
    const T mask = (T)j->mask; \
    const bool zeros = j->flip; \
    for (ptrdiff_t r = 0; r < rows; r++) { \
      const T *restrict p = (const T *)((const char *)from + r * step); \
      for (ptrdiff_t i = 0; i < n; i++) part[i] = (T)(part[i] + (((p[i] & mask) == 0) == zeros)); \
    } \
  } \
  static void flush_count_##name(ptrdiff_t n, cells *c) { \
    int64_t *restrict acc = c->acc; \
    T *restrict part = (T *)c->part; \
    for (ptrdiff_t i = 0; i < n; i++) acc[i] += part[i]; \
    memset(part, 0, (size_t)n * sizeof(T)); \
  }

COUNT(1, int8_t, i8x64, i16x64, 64)
COUNT(2, int16_t, i16x32, i16x32, 32)
COUNT(4, int32_t, i32x16, i32x16, 16)
COUNT(8, int64_t, i64x8, i64x8, 8)

static void store_count(const job *j, ptrdiff_t n, char *out, ptrdiff_t stride, const cells *c) {
  const int64_t *acc = c->acc;
  int64_t result[WIDTH];
  for (ptrdiff_t i = 0; i < n; i++) {
    result[i] = acc[i];
    if (j->opcode == RM_OP_any) result[i] = acc[i] != 0;
    if (j->opcode == RM_OP_all) result[i] = acc[i] == 0;
  }
  put(j->out, n, result, out, stride);
}
