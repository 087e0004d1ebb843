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

#define TYPE float
#define VECTOR floats
#define LANES 16
#define EIGHT eight_floats
#define RM_EXP rm_exp_f32
#define RECIPROCAL
#include "softmax_norm_type.h"
#define TYPE double
#define VECTOR doubles
#define LANES 8
#define EIGHT doubles
#define RM_EXP rm_exp_f64
#include "softmax_norm_type.h"

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
  if (kind < 0 || kind > RM_ROWS_RMS_NORM || !rm_is_float(dtype)) {
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
