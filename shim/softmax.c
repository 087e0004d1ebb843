/*
 * Softmax and its logarithm along dense rows of float32 or float64.
 *
 * A row is shifted by its largest element, so that the largest power is 1 and the sum neither
 * overflows nor vanishes. NaN, and an infinity that is the largest, make the whole row NaN: the
 * shifted row has a NaN then, and so has the sum. Knows nothing of other axes or dtypes.
 */
#include "internal.h"
#include "vecmath.h"

enum { SOFTMAX, LOG_SOFTMAX };

/* Elements whose powers are made at a time, in the first-level cache: several short rows, or part
 * of a long one. */
enum { BLOCK = 1024 };

/* Elements to a task, at least: some 10 microseconds of work. */
enum { TASK = 32 * BLOCK };

/* What an element takes about. */
static const double NANOSECONDS = 0.4;

typedef struct {
  bool log;
  ptrdiff_t rows, columns, rows_per_task;
  char *out;
  const char *a;
} job;

/* Vectors that may be anywhere in memory. No function takes or gives one: how depends on the
 * instruction set. */
typedef float floats __attribute__((vector_size(64), aligned(4)));
typedef double doubles __attribute__((vector_size(64), aligned(8)));

/* The larger one of each lane; m where x is NaN. */
#define LARGER(m, x)                                            \
  ((__typeof__(m))(((__typeof__((x) > (m)))(x) & ((x) > (m))) | \
                   ((__typeof__((x) > (m)))(m) & ~((x) > (m)))))

/*
 * One copy for each dtype. T is the type, V a vector of LANES of it.
 *
 * largest_ ignores NaN, which the shift brings back. sum_ takes at most BLOCK elements, so that a
 * partial sum of T adds up some 20 (float32) or 40 (float64) of them.
 */
#define SOFTMAX_OF(T, V, LANES, EXP, SCALE)                                                        \
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
  static double sum_##T(const T *x, ptrdiff_t n) {                                                 \
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
    RM_ANY_ORDER                                                                                   \
    for (ptrdiff_t i = 0; i < n; i++) out[i] = x[i] - by - then;                                   \
  }                                                                                                \
                                                                                                   \
  static void scale_##T(T *out, ptrdiff_t n, double sum) {                                         \
    SCALE                                                                                          \
  }                                                                                                \
                                                                                                   \
  static void powers_##T(T *out, const T *x, ptrdiff_t n, T by) {                                  \
    RM_ANY_ORDER                                                                                   \
    for (ptrdiff_t i = 0; i < n; i++) out[i] = EXP(x[i] - by);                                     \
  }                                                                                                \
                                                                                                   \
  /* Rows of which a block holds several: powers of short rows one by one would waste vectors. */  \
  static void short_rows_##T(const job *j, ptrdiff_t row, ptrdiff_t end) {                         \
    const ptrdiff_t columns = j->columns, most = BLOCK / columns;                                  \
    T powers[BLOCK];                                                                               \
    for (; row < end; row += most) {                                                               \
      const ptrdiff_t rows = end - row < most ? end - row : most;                                  \
      const T *a = (const T *)j->a + row * columns;                                                \
      T *out = (T *)j->out + row * columns;                                                        \
      for (ptrdiff_t r = 0; r < rows; r++) {                                                       \
        const T *x = a + r * columns;                                                              \
        shift_##T(out + r * columns, x, columns, largest_##T(x, columns), 0);                      \
      }                                                                                            \
      powers_##T(j->log ? powers : out, out, rows * columns, 0);                                   \
      for (ptrdiff_t r = 0; r < rows; r++) {                                                       \
        T *y = out + r * columns;                                                                  \
        const double sum = sum_##T((j->log ? powers : out) + r * columns, columns);                \
        if (j->log) shift_##T(y, y, columns, 0, (T)rm_log_f64(sum));                               \
        else scale_##T(y, columns, sum);                                                           \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
                                                                                                   \
  static void long_row_##T(const job *j, ptrdiff_t row) {                                          \
    const ptrdiff_t columns = j->columns;                                                          \
    const T *a = (const T *)j->a + row * columns;                                                  \
    T *out = (T *)j->out + row * columns;                                                          \
    T powers[BLOCK];                                                                               \
    const T most = largest_##T(a, columns);                                                        \
    double sum = 0;                                                                                \
    for (ptrdiff_t at = 0; at < columns; at += BLOCK) {                                            \
      const ptrdiff_t n = columns - at < BLOCK ? columns - at : BLOCK;                             \
      T *block = j->log ? powers : out + at;                                                       \
      powers_##T(block, a + at, n, most);                                                          \
      sum += sum_##T(block, n);                                                                    \
    }                                                                                              \
    if (j->log) shift_##T(out, a, columns, most, (T)rm_log_f64(sum));                              \
    else scale_##T(out, columns, sum);                                                             \
  }                                                                                                \
                                                                                                   \
  static void rows_##T(void *context, ptrdiff_t index) {                                           \
    const job *j = context;                                                                        \
    const ptrdiff_t row = index * j->rows_per_task;                                                \
    const ptrdiff_t end = row + j->rows_per_task < j->rows ? row + j->rows_per_task : j->rows;     \
    if (2 * j->columns <= BLOCK) short_rows_##T(j, row, end);                                      \
    else for (ptrdiff_t r = row; r < end; r++) long_row_##T(j, r);                                 \
  }

/* The reciprocal is exact to half a unit, and costs a third of the divisions. */
#define SCALE_FLOATS                 \
  const float by = (float)(1 / sum); \
  for (ptrdiff_t i = 0; i < n; i++) out[i] *= by;

#define SCALE_DOUBLES \
  for (ptrdiff_t i = 0; i < n; i++) out[i] /= sum;

SOFTMAX_OF(float, floats, 16, rm_exp_f32, SCALE_FLOATS)
SOFTMAX_OF(double, doubles, 8, rm_exp_f64, SCALE_DOUBLES)

int32_t RM_AT(softmax)(int32_t kind, int32_t dtype, const double *plan, void *out, const void *a) {
  if ((kind != SOFTMAX && kind != LOG_SOFTMAX) || (dtype != RM_FLOAT32 && dtype != RM_FLOAT64)) {
    return rm_fail(RM_BAD_ARGUMENT, "softmax: no kind %d of dtype %d", (int)kind, (int)dtype);
  }
  const ptrdiff_t rows = (ptrdiff_t)plan[0], columns = (ptrdiff_t)plan[1];
  if (rows <= 0 || columns <= 0 || out == NULL || a == NULL) return RM_OK;
  const ptrdiff_t bytes = rm_bytes(dtype);
  job j = {
      .log = kind == LOG_SOFTMAX,
      .rows = rows,
      .columns = columns,
      .rows_per_task = columns >= TASK ? 1 : TASK / columns,
      .out = (char *)out + (ptrdiff_t)plan[2] * bytes,
      .a = (const char *)a + (ptrdiff_t)plan[3] * bytes,
  };
  rm_parallel((rows + j.rows_per_task - 1) / j.rows_per_task,
              NANOSECONDS * (double)rows * (double)columns,
              dtype == RM_FLOAT32 ? rows_float : rows_double, &j);
  return RM_OK;
}
