/*
 * Softmax, its logarithm, layer norm and RMS norm along dense rows of floats.
 *
 * A row of softmax is shifted by its largest element, so that the largest power is 1 and the sum
 * neither overflows nor vanishes. NaN, and an infinity that is the largest, make the whole row NaN:
 * the shifted row has a NaN then, and so has the sum.
 *
 * Layer norm sums, in double, the differences from something near the mean, and their squares: a
 * large mean costs the variance no digits, and what the mean loses when it is rounded is known.
 *
 * Rows of 16-bit floats are computed as float32 in a block that the cache holds, and rounded once.
 * Knows nothing of other axes or dtypes.
 */
#include "half.h"
#include "internal.h"
#include "vecmath.h"

/* What rm_rows does. */
enum { SOFTMAX, LOG_SOFTMAX, LAYER_NORM, RMS_NORM, KINDS };

/* Elements that are summed or whose powers are made at a time, in the first-level cache: several
 * short rows, or part of a long one. */
enum { BLOCK = 1024 };

/* Elements of 16-bit floats that are widened at a time; no row may have more. */
enum { WIDE = 8 * BLOCK };

/* Elements to a task, at least: some 10 microseconds of work. */
enum { TASK = 32 * BLOCK };

/* What an element takes about. */
static const double NANOSECONDS = 0.4;

typedef struct {
  int kind, dtype;
  ptrdiff_t rows, columns, rows_per_task;
  char *out;
  const char *a;
  /* Of the dtype that is computed in, or null. */
  const void *weight, *bias;
  double epsilon;
} job;

/* Vectors that may be anywhere in memory. No function takes or gives one: how depends on the
 * instruction set. */
typedef float floats __attribute__((vector_size(64), aligned(4)));
typedef float eight_floats __attribute__((vector_size(32), aligned(4)));
typedef double doubles __attribute__((vector_size(64), aligned(8)));

/* The long ones of what is called for each row: one copy of each. */
#define LOOP static __attribute__((noinline))

/* Products are added in one rounding where the machine can; a few units are promised anyway. */
#define FUSED _Pragma("clang fp contract(fast)")

/* Vectors are enough: no unrolling on top. */
#define SMALL _Pragma("clang loop unroll(disable)")

/* A loop that is written in vectors, or what is left after one. */
#define AS_IT_IS _Pragma("clang loop vectorize(disable) unroll(disable)")

/* The larger one of each lane; m where x is NaN. */
#define LARGER(m, x)                                            \
  ((__typeof__(m))(((__typeof__((x) > (m)))(x) & ((x) > (m))) | \
                   ((__typeof__((x) > (m)))(m) & ~((x) > (m)))))

/*
 * One copy for each dtype. T is the type, V a vector of LANES of it, E one of eight.
 *
 * largest_ ignores NaN, which the shift brings back. sum_ takes at most BLOCK elements, so that a
 * partial sum of T adds up some 20 (float32) or 40 (float64) of them.
 */
#define ROWS_OF(T, V, LANES, E, EXP, SCALE, NEAR)                                                  \
  static T largest_##T(const T *x, ptrdiff_t n) {                                                  \
    T most = (T)-__builtin_inf();                                                                  \
    ptrdiff_t i = 0;                                                                               \
    if (n >= 4 * LANES) {                                                                          \
      V m0 = (V){} + most, m1 = m0, m2 = m0, m3 = m0;                                              \
      for (; i + 4 * LANES <= n; i += 4 * LANES) {                                                 \
        const V x0 = *(const V *)(x + i), x1 = *(const V *)(x + i + LANES);                        \
        const V x2 = *(const V *)(x + i + 2 * LANES), x3 = *(const V *)(x + i + 3 * LANES);        \
        m0 = LARGER(m0, x0);                                                                       \
        m1 = LARGER(m1, x1);                                                                       \
        m2 = LARGER(m2, x2);                                                                       \
        m3 = LARGER(m3, x3);                                                                       \
      }                                                                                            \
      m0 = LARGER(m0, m1);                                                                         \
      m2 = LARGER(m2, m3);                                                                         \
      m0 = LARGER(m0, m2);                                                                         \
      for (int l = 0; l < LANES; l++) most = m0[l] > most ? m0[l] : most;                          \
    }                                                                                              \
    for (; i < n; i++) most = x[i] > most ? x[i] : most;                                           \
    return most;                                                                                   \
  }                                                                                                \
                                                                                                   \
  LOOP double sum_##T(const T *x, ptrdiff_t n) {                                                   \
    double lanes[LANES] = {0};                                                                     \
    ptrdiff_t i = 0;                                                                               \
    if (n < LANES) {                                                                               \
      for (; i < n; i++) lanes[0] += x[i];                                                         \
      return lanes[0];                                                                             \
    }                                                                                              \
    V s0 = {}, s1 = {}, s2 = {}, s3 = {};                                                          \
    for (; i + 4 * LANES <= n; i += 4 * LANES) {                                                   \
      s0 += *(const V *)(x + i);                                                                   \
      s1 += *(const V *)(x + i + LANES);                                                           \
      s2 += *(const V *)(x + i + 2 * LANES);                                                       \
      s3 += *(const V *)(x + i + 3 * LANES);                                                       \
    }                                                                                              \
    for (; i + LANES <= n; i += LANES) s0 += *(const V *)(x + i);                                  \
    for (int l = 0; i < n; i++, l++) lanes[l] = x[i];                                              \
    s0 = (s0 + s1) + (s2 + s3);                                                                    \
    for (int l = 0; l < LANES; l++) lanes[l] += s0[l];                                             \
    for (int half = LANES / 2; half > 0; half /= 2) {                                              \
      for (int l = 0; l < half; l++) lanes[l] += lanes[l + half];                                  \
    }                                                                                              \
    return lanes[0];                                                                               \
  }                                                                                                \
                                                                                                   \
  /* out may be x, here and below. */                                                              \
  static void shift_##T(T *out, const T *x, ptrdiff_t n, T by, T then) {                           \
    RM_ANY_ORDER SMALL                                                                             \
    for (ptrdiff_t i = 0; i < n; i++) out[i] = x[i] - by - then;                                   \
  }                                                                                                \
                                                                                                   \
  static void scale_##T(T *out, ptrdiff_t n, double sum) {                                         \
    SCALE                                                                                          \
  }                                                                                                \
                                                                                                   \
  LOOP void powers_##T(T *out, const T *x, ptrdiff_t n, T by) {                                    \
    RM_ANY_ORDER                                                                                   \
    for (ptrdiff_t i = 0; i < n; i++) out[i] = EXP(x[i] - by);                                     \
  }                                                                                                \
                                                                                                   \
  /* Rows of which a block holds several: powers of short rows one by one would waste vectors. */  \
  LOOP void short_rows_##T(const job *j, ptrdiff_t row, ptrdiff_t end) {                           \
    const ptrdiff_t columns = j->columns, most = BLOCK / columns;                                  \
    const bool log = j->kind == LOG_SOFTMAX;                                                       \
    _Alignas(64) T powers[BLOCK];                                                                  \
    for (; row < end; row += most) {                                                               \
      const ptrdiff_t rows = rm_least(end - row, most);                                            \
      const T *a = (const T *)j->a + row * columns;                                                \
      T *out = (T *)j->out + row * columns;                                                        \
      for (ptrdiff_t r = 0; r < rows; r++) {                                                       \
        const T *x = a + r * columns;                                                              \
        shift_##T(out + r * columns, x, columns, largest_##T(x, columns), 0);                      \
      }                                                                                            \
      powers_##T(log ? powers : out, out, rows * columns, 0);                                      \
      for (ptrdiff_t r = 0; r < rows; r++) {                                                       \
        T *y = out + r * columns;                                                                  \
        const double sum = sum_##T((log ? powers : out) + r * columns, columns);                   \
        if (log) shift_##T(y, y, columns, 0, (T)rm_log_f64(sum));                                  \
        else scale_##T(y, columns, sum);                                                           \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
                                                                                                   \
  LOOP void long_row_##T(const job *j, ptrdiff_t row) {                                            \
    const ptrdiff_t columns = j->columns;                                                          \
    const T *a = (const T *)j->a + row * columns;                                                  \
    T *out = (T *)j->out + row * columns;                                                          \
    const bool log = j->kind == LOG_SOFTMAX;                                                       \
    _Alignas(64) T powers[BLOCK];                                                                  \
    const T most = largest_##T(a, columns);                                                        \
    double sum = 0;                                                                                \
    for (ptrdiff_t at = 0; at < columns; at += BLOCK) {                                            \
      const ptrdiff_t n = rm_least(columns - at, BLOCK);                                           \
      T *block = log ? powers : out + at;                                                          \
      powers_##T(block, a + at, n, most);                                                          \
      sum += sum_##T(block, n);                                                                    \
    }                                                                                              \
    if (log) shift_##T(out, a, columns, most, (T)rm_log_f64(sum));                                 \
    else scale_##T(out, columns, sum);                                                             \
  }                                                                                                \
                                                                                                   \
  /* What the mean of n elements is near to. */                                                    \
  LOOP double near_##T(const T *x, ptrdiff_t n) {                                                  \
    NEAR                                                                                           \
  }                                                                                                \
                                                                                                   \
  /* Adds the differences from by, and their squares, to two sums. */                              \
  LOOP void moments_##T(const T *x, ptrdiff_t n, double by, double *sums) {                        \
    FUSED                                                                                          \
    doubles s0 = {}, s1 = {}, q0 = {}, q1 = {};                                                    \
    double s = 0, q = 0;                                                                           \
    ptrdiff_t i = 0;                                                                               \
    AS_IT_IS                                                                                       \
    for (; i + 16 <= n; i += 16) {                                                                 \
      const doubles d0 = __builtin_convertvector(*(const E *)(x + i), doubles) - by;               \
      const doubles d1 = __builtin_convertvector(*(const E *)(x + i + 8), doubles) - by;           \
      s0 += d0;                                                                                    \
      q0 += d0 * d0;                                                                               \
      s1 += d1;                                                                                    \
      q1 += d1 * d1;                                                                               \
    }                                                                                              \
    AS_IT_IS                                                                                       \
    for (; i < n; i++) {                                                                           \
      const double d = x[i] - by;                                                                  \
      s += d;                                                                                      \
      q += d * d;                                                                                  \
    }                                                                                              \
    s0 += s1;                                                                                      \
    q0 += q1;                                                                                      \
    for (int l = 0; l < 8; l++) {                                                                  \
      s += s0[l];                                                                                  \
      q += q0[l];                                                                                  \
    }                                                                                              \
    sums[0] += s;                                                                                  \
    sums[1] += q;                                                                                  \
  }                                                                                                \
                                                                                                   \
  /* One pass, as rows wait for memory more than for arithmetic. */                                \
  LOOP void affine_##T(T *out, const T *x, const T *weight, const T *bias, ptrdiff_t n, T mean,    \
                       T rest, T scale) {                                                          \
    FUSED                                                                                          \
    ptrdiff_t i = 0;                                                                               \
    AS_IT_IS                                                                                       \
    for (; i + LANES <= n; i += LANES) {                                                           \
      V y = (*(const V *)(x + i) - mean - rest) * scale;                                           \
      if (weight != NULL && bias != NULL) {                                                        \
        y = y * *(const V *)(weight + i) + *(const V *)(bias + i);                                 \
      } else if (weight != NULL) y *= *(const V *)(weight + i);                                    \
      else if (bias != NULL) y += *(const V *)(bias + i);                                          \
      *(V *)(out + i) = y;                                                                         \
    }                                                                                              \
    AS_IT_IS                                                                                       \
    for (; i < n; i++) {                                                                           \
      T y = (x[i] - mean - rest) * scale;                                                          \
      if (weight != NULL && bias != NULL) y = y * weight[i] + bias[i];                             \
      else if (weight != NULL) y *= weight[i];                                                     \
      else if (bias != NULL) y += bias[i];                                                         \
      out[i] = y;                                                                                  \
    }                                                                                              \
  }                                                                                                \
                                                                                                   \
  LOOP void norm_row_##T(const job *j, ptrdiff_t row) {                                            \
    const ptrdiff_t columns = j->columns;                                                          \
    const T *a = (const T *)j->a + row * columns, *weight = j->weight, *bias = j->bias;            \
    T *out = (T *)j->out + row * columns;                                                          \
    const bool centred = j->kind == LAYER_NORM;                                                    \
    const double near = centred ? near_##T(a, columns) : 0;                                        \
    double sums[2] = {0, 0};                                                                       \
    for (ptrdiff_t at = 0; at < columns; at += BLOCK) {                                            \
      moments_##T(a + at, rm_least(columns - at, BLOCK), near, sums);                              \
    }                                                                                              \
    double square = sums[1] / (double)columns;                                                     \
    T mean = 0, rest = 0;                                                                          \
    if (centred) {                                                                                 \
      const double off = sums[0] / (double)columns;                                                \
      mean = (T)(near + off);                                                                      \
      rest = (T)(near - (double)mean + off);                                                       \
      /* Rounding may have left less than nothing of it. */                                        \
      square = square < off * off ? 0 : square - off * off;                                        \
    }                                                                                              \
    const T scale = (T)(1 / __builtin_sqrt((double)((T)square + (T)j->epsilon)));                  \
    affine_##T(out, a, weight, bias, columns, mean, rest, scale);                                  \
  }                                                                                                \
                                                                                                   \
  static void range_##T(const job *j, ptrdiff_t row, ptrdiff_t end) {                              \
    if (j->kind >= LAYER_NORM) for (; row < end; row++) norm_row_##T(j, row);                      \
    else if (2 * j->columns <= BLOCK) short_rows_##T(j, row, end);                                 \
    else for (; row < end; row++) long_row_##T(j, row);                                            \
  }                                                                                                \
                                                                                                   \
  static void rows_##T(void *context, ptrdiff_t index) {                                           \
    const job *j = context;                                                                        \
    const ptrdiff_t row = index * j->rows_per_task;                                                \
    range_##T(j, row, rm_least(row + j->rows_per_task, j->rows));                                  \
  }

/* The reciprocal is exact to half a unit, and costs a third of the divisions. */
#define SCALE_FLOATS                 \
  const float by = (float)(1 / sum); \
  SMALL                              \
  for (ptrdiff_t i = 0; i < n; i++) out[i] *= by;

#define SCALE_DOUBLES \
  for (ptrdiff_t i = 0; i < n; i++) out[i] /= sum;

/*
 * Sums of squares around any element are at most so many times those around the mean as there are
 * elements: nothing to what double has more than float32. In float64 the mean itself is needed, up
 * to its rounding.
 */
#define NEAR_FLOATS \
  (void)n;          \
  return x[0];

#define NEAR_DOUBLES                                                                               \
  double sum = 0;                                                                                  \
  for (ptrdiff_t at = 0; at < n; at += BLOCK) sum += sum_double(x + at, rm_least(n - at, BLOCK));  \
  return sum / (double)n;

ROWS_OF(float, floats, 16, eight_floats, rm_exp_f32, SCALE_FLOATS, NEAR_FLOATS)
ROWS_OF(double, doubles, 8, doubles, rm_exp_f64, SCALE_DOUBLES, NEAR_DOUBLES)

/* As many rows as the block holds at a time. */
static void rows_half(void *context, ptrdiff_t index) {
  const job *j = context;
  float block[WIDE];
  job wide = *j;
  wide.a = wide.out = (char *)block;
  const ptrdiff_t most = WIDE / j->columns;
  const ptrdiff_t end = rm_least((index + 1) * j->rows_per_task, j->rows);
  for (ptrdiff_t row = index * j->rows_per_task; row < end; row += most) {
    const ptrdiff_t rows = rm_least(end - row, most), n = rows * j->columns;
    const uint16_t *a = (const uint16_t *)j->a + row * j->columns;
    uint16_t *out = (uint16_t *)j->out + row * j->columns;
    if (j->dtype == RM_FLOAT16) {
      SMALL
      for (ptrdiff_t i = 0; i < n; i++) block[i] = rm_from_half(a[i]);
      range_float(&wide, 0, rows);
      SMALL
      for (ptrdiff_t i = 0; i < n; i++) out[i] = rm_to_half(block[i]);
    } else {
      SMALL
      for (ptrdiff_t i = 0; i < n; i++) block[i] = rm_from_brain(a[i]);
      range_float(&wide, 0, rows);
      SMALL
      for (ptrdiff_t i = 0; i < n; i++) out[i] = rm_to_brain(block[i]);
    }
  }
}

int32_t RM_AT(rows)(int32_t kind, int32_t dtype, const double *plan, void *out, const void *a,
                    const void *weight, const void *bias) {
  if (kind < 0 || kind >= KINDS || !rm_is_float(dtype)) {
    return rm_fail(RM_BAD_ARGUMENT, "rows: no kind %d of dtype %d", (int)kind, (int)dtype);
  }
  const ptrdiff_t rows = (ptrdiff_t)plan[0], columns = (ptrdiff_t)plan[1];
  if (rows <= 0 || columns <= 0 || out == NULL || a == NULL) return RM_OK;
  const bool half = dtype < RM_FLOAT32;
  if (half && columns > WIDE) {
    return rm_fail(RM_UNSUPPORTED, "rows of 16-bit floats have at most %d elements", WIDE);
  }
  job j = {
      .kind = kind,
      .dtype = dtype,
      .rows = rows,
      .columns = columns,
      .rows_per_task = columns >= TASK ? 1 : TASK / columns,
      .out = out,
      .a = (const char *)a + (ptrdiff_t)plan[2] * rm_bytes(dtype),
      .weight = weight,
      .bias = bias,
      .epsilon = plan[3],
  };
  rm_parallel(rm_parts(rows, j.rows_per_task), NANOSECONDS * (double)rows * (double)columns,
              half ? rows_half : dtype == RM_FLOAT32 ? rows_float : rows_double, &j);
  return RM_OK;
}
