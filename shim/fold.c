/*
 * Reductions, index reductions and scans of every dtype.
 *
 * One pipeline for all: a stretch of elements is brought into the form that kernels read (dense, of
 * few types; in place where it lies so already), and folded into cells, one for each output. An
 * output folds its own elements (along), or, where outputs are what lies side by side, whole rows
 * are folded into many cells at once (across). Work is cut by sizes alone, so that results do not
 * depend on the number of threads.
 *
 * Knows nothing of shapes or axes: only plans.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "half.h"
#include "internal.h"
#include "ops.def"
#include "vecmath.h"

enum {
  /* Elements that are converted at once, and cells that are folded side by side. */
  WIDTH = 1024,
  /* Elements that are folded plainly between two compensated additions; rows, likewise. */
  BLOCK = 1024,
  ROWS = 32,
  /* Elements among which an index is looked for. */
  PIECE = 2048,
  /* Elements of a task, which take 2 to 5 microseconds. */
  TASK = 1 << 15,
  /* With fewer outputs than this each one may be cut into as many parts. */
  PARTS = 64,
  /* Runs that are scanned side by side, since each is a chain of additions that wait. */
  RUNS = 8,
  /* Elements of each of those that are converted at once. */
  STRETCH = 256
};

/* What an element takes about, folded or scanned. */
static const double NANOSECONDS = 0.07, SCAN_NANOSECONDS = 0.5;

/* ---- vectors --------------------------------------------------------------------------------- */

#define VECTOR(T, name, count) typedef T name __attribute__((ext_vector_type(count)))
VECTOR(double, f64x8, 8);
VECTOR(float, f32x8, 8);
VECTOR(float, f32x16, 16);
VECTOR(int8_t, i8x16, 16);
VECTOR(uint8_t, u8x16, 16);
VECTOR(int16_t, i16x16, 16);
VECTOR(uint16_t, u16x16, 16);
VECTOR(int32_t, i32x8, 8);
VECTOR(uint32_t, u32x8, 8);
VECTOR(uint32_t, u32x16, 16);
VECTOR(int8_t, i8x64, 64);
VECTOR(int16_t, i16x32, 32);
VECTOR(int16_t, i16x64, 64);
VECTOR(int32_t, i32x16, 16);
VECTOR(int64_t, i64x8, 8);
VECTOR(int64_t, i64x16, 16);

/* Buffers are aligned to their elements at best. */
#define LOAD(V, from) \
  ({ \
    V loaded_; \
    memcpy(&loaded_, (from), sizeof loaded_); \
    loaded_; \
  })

/* A vector of truths, as bits, the first one lowest. */
typedef bool truth8 __attribute__((ext_vector_type(8)));
typedef bool truth16 __attribute__((ext_vector_type(16)));
typedef bool truth32 __attribute__((ext_vector_type(32)));
typedef bool truth64 __attribute__((ext_vector_type(64)));
#define BITS(truth) \
  ({ \
    const __typeof__(truth) truth_ = (truth); \
    uint64_t bits_ = 0; \
    memcpy(&bits_, &truth_, sizeof truth_); \
    bits_; \
  })
#define TRUTH(count, vector) __builtin_convertvector(vector, truth##count)

/* ---- what a fold is made of ------------------------------------------------------------------ */

/* Where count outputs are folded. A slot of acc is 8 bytes; what it holds is for the kernel. */
typedef struct {
  void *acc;
  /* The compensation of sums of float64, and what has been added since the last one. */
  double *error;
  double *part;
  /* Of index reductions: where the best element is, and the place of the next one to come. */
  int64_t *where;
  int64_t position;
} cells;

/* Arrays of 8 bytes for each cell; where takes the place of error. */
enum { SLOTS = 3 };

typedef struct job job;

/* Copies n elements, stride apart, to a dense array of the type that is worked in. */
typedef void (*loader)(ptrdiff_t n, const void *from, ptrdiff_t stride, void *to);

/* What is done to one element before it is folded. */
typedef enum { PLAIN, MAGNITUDE, SQUARE, DIFFERENCE, POWER, EXPONENTIAL } mapping;

struct job {
  const rm_walk *walk;
  int32_t opcode;
  int kept;
  bool across;
  /* Bytes of an element of a, and of b. */
  ptrdiff_t bytes;
  ptrdiff_t second_bytes;
  /* Dense elements need no loading. */
  bool direct;
  loader load;
  /* Of the second operand, to doubles; null where there is none. */
  loader load_second;
  /* What is done to elements, and the part of it that run leaves to the loading. */
  mapping map;
  mapping run_map;
  double attribute;
  /* Elements of one call of run. */
  ptrdiff_t step;
  /* True when a cell that is not 0 says all. */
  bool stops;
  /* Elements are compared, or tested, as (x & mask) ^ flip. */
  uint64_t mask;
  uint64_t flip;
  /* What cells begin with. */
  uint64_t start;
  /* Folds n dense elements into one cell; y is the second operand. */
  void (*run)(const job *j, ptrdiff_t n, const void *from, double y, cells *c);
  /* Folds rows of n dense elements each, step bytes apart, into n cells. */
  void (*columns)(const job *j, ptrdiff_t n, ptrdiff_t rows, const void *from, ptrdiff_t step,
                  cells *c);
  /* Ends what columns has begun, at least after every ROWS rows; may be null. */
  void (*flush)(ptrdiff_t n, cells *c);
  /* Folds n cells into others that come before them. */
  void (*combine)(const job *j, ptrdiff_t n, cells *to, const cells *from);
  /* Stores n cells. */
  void (*store)(const job *j, ptrdiff_t n, char *out, ptrdiff_t stride, const cells *c);
  /* Of out, and of the cells' accumulators: the bytes of one. */
  int out;
  int slot;
  /*
   * How work is cut: units of up to width outputs along the last kept axis, each one's elements in
   * parts, which take length positions of the first reduced axis each.
   */
  ptrdiff_t units;
  ptrdiff_t width;
  ptrdiff_t elements;
  ptrdiff_t group;
  ptrdiff_t parts;
  ptrdiff_t length;
  /* The cells of the parts. */
  char *memory;
  /* Whether one element has settled the only output, and how many parts were folded to see that. */
  atomic_bool settled;
  ptrdiff_t done;
};

/* ---- loading --------------------------------------------------------------------------------- */

#define SAME(x) (x)

/* The dense loop is apart, as only that one becomes vector code. */
#define LOADER(name, T, R, convert) \
  static void name(ptrdiff_t n, const void *from, ptrdiff_t stride, void *to) { \
    const T *p = from; \
    R *restrict q = to; \
    if (stride == 1) { \
      for (ptrdiff_t i = 0; i < n; i++) q[i] = (R)convert(p[i]); \
    } else { \
      for (ptrdiff_t i = 0; i < n; i++) q[i] = (R)convert(p[i * stride]); \
    } \
  }

LOADER(copy_1, uint8_t, uint8_t, SAME)
LOADER(copy_2, uint16_t, uint16_t, SAME)
LOADER(copy_4, uint32_t, uint32_t, SAME)
LOADER(copy_8, uint64_t, uint64_t, SAME)
LOADER(f32_from_half, uint16_t, float, rm_from_half)
LOADER(f32_from_brain, uint16_t, float, rm_from_brain)
LOADER(i64_from_i8, int8_t, int64_t, SAME)
LOADER(i64_from_i16, int16_t, int64_t, SAME)
LOADER(i64_from_i32, int32_t, int64_t, SAME)
LOADER(i64_from_u8, uint8_t, int64_t, SAME)
LOADER(i64_from_u16, uint16_t, int64_t, SAME)
LOADER(i64_from_u32, uint32_t, int64_t, SAME)
LOADER(f64_from_i8, int8_t, double, SAME)
LOADER(f64_from_i16, int16_t, double, SAME)
LOADER(f64_from_i32, int32_t, double, SAME)
LOADER(f64_from_i64, int64_t, double, SAME)
LOADER(f64_from_u8, uint8_t, double, SAME)
LOADER(f64_from_u16, uint16_t, double, SAME)
LOADER(f64_from_u32, uint32_t, double, SAME)
LOADER(f64_from_u64, uint64_t, double, SAME)
LOADER(f64_from_half, uint16_t, double, rm_from_half)
LOADER(f64_from_brain, uint16_t, double, rm_from_brain)
LOADER(f64_from_f32, float, double, SAME)

static loader copier(int dtype) {
  static const loader by_bytes[9] = {[1] = copy_1, [2] = copy_2, [4] = copy_4, [8] = copy_8};
  return by_bytes[rm_bytes(dtype)];
}

static const loader to_i64[RM_DTYPE_COUNT] = {
    [RM_BOOL] = i64_from_u8,    [RM_INT8] = i64_from_i8,    [RM_INT16] = i64_from_i16,
    [RM_INT32] = i64_from_i32,  [RM_INT64] = copy_8,        [RM_UINT8] = i64_from_u8,
    [RM_UINT16] = i64_from_u16, [RM_UINT32] = i64_from_u32, [RM_UINT64] = copy_8,
};

static const loader to_f64[RM_DTYPE_COUNT] = {
    [RM_BOOL] = f64_from_u8,        [RM_INT8] = f64_from_i8,
    [RM_INT16] = f64_from_i16,      [RM_INT32] = f64_from_i32,
    [RM_INT64] = f64_from_i64,      [RM_UINT8] = f64_from_u8,
    [RM_UINT16] = f64_from_u16,     [RM_UINT32] = f64_from_u32,
    [RM_UINT64] = f64_from_u64,     [RM_FLOAT16] = f64_from_half,
    [RM_BFLOAT16] = f64_from_brain, [RM_FLOAT32] = f64_from_f32,
    [RM_FLOAT64] = copy_8,
};

/* What map makes of n doubles; y is 0 or step doubles apart. */
static void map_block(const job *j, mapping map, ptrdiff_t n, double *restrict x,
                      const double *restrict y, ptrdiff_t step) {
  if (map == DIFFERENCE || map == EXPONENTIAL) {
    if (step == 0) for (ptrdiff_t i = 0; i < n; i++) x[i] -= y[0];
    else for (ptrdiff_t i = 0; i < n; i++) x[i] -= y[i];
  }
  switch (map) {
    case PLAIN: break;
    case MAGNITUDE:
      for (ptrdiff_t i = 0; i < n; i++) x[i] = __builtin_fabs(x[i]);
      break;
    case SQUARE:
    case DIFFERENCE:
      for (ptrdiff_t i = 0; i < n; i++) x[i] *= x[i];
      break;
    case POWER: {
      const double order = j->attribute;
      for (ptrdiff_t i = 0; i < n; i++) x[i] = rm_pow_f64(__builtin_fabs(x[i]), order);
      break;
    }
    case EXPONENTIAL:
      for (ptrdiff_t i = 0; i < n; i++) x[i] = rm_exp_f64(x[i]);
      break;
  }
}

/* ---- storing --------------------------------------------------------------------------------- */

#define STORER(name, T, R, convert) \
  static void name(ptrdiff_t n, const void *from, void *to, ptrdiff_t stride) { \
    const T *restrict p = from; \
    R *q = to; \
    if (stride == 1) { \
      for (ptrdiff_t i = 0; i < n; i++) q[i] = (R)convert(p[i]); \
    } else { \
      for (ptrdiff_t i = 0; i < n; i++) q[i * stride] = (R)convert(p[i]); \
    } \
  }

STORER(half_from_f64, double, uint16_t, rm_double_to_half)
STORER(brain_from_f64, double, uint16_t, rm_double_to_brain)
STORER(f32_from_f64, double, float, SAME)
STORER(f64_as_it_is, double, double, SAME)
STORER(i8_from_i64, int64_t, int8_t, SAME)
STORER(i16_from_i64, int64_t, int16_t, SAME)
STORER(i32_from_i64, int64_t, int32_t, SAME)
STORER(i64_as_it_is, int64_t, int64_t, SAME)

/* Stores n dense doubles, or, for an out that is no float, int64s. */
static void put(int dtype, ptrdiff_t n, const void *from, void *to, ptrdiff_t stride) {
  switch (dtype) {
    case RM_FLOAT16: half_from_f64(n, from, to, stride); break;
    case RM_BFLOAT16: brain_from_f64(n, from, to, stride); break;
    case RM_FLOAT32: f32_from_f64(n, from, to, stride); break;
    case RM_FLOAT64: f64_as_it_is(n, from, to, stride); break;
    default:
      switch (rm_bytes(dtype)) {
        case 1: i8_from_i64(n, from, to, stride); break;
        case 2: i16_from_i64(n, from, to, stride); break;
        case 4: i32_from_i64(n, from, to, stride); break;
        default: i64_as_it_is(n, from, to, stride); break;
      }
  }
}

/* ---- sums and products of floats ------------------------------------------------------------- */

/* Knuth's TwoSum: the rounding error of sum + x goes to error. */
static inline void add_exactly(double *sum, double *error, double x) {
  double s = *sum + x, w = s - *sum;
  *error += (*sum - (s - w)) + (x - w);
  *sum = s;
}

/* After an infinity the error is NaN, and the plain sum is right. */
static inline double corrected(double sum, double error) {
  return error - error == 0 ? sum + error : sum;
}

#define ADD(a, x) ((a) + (x))
#define MULTIPLY(a, x) ((a) * (x))
#define MAP_PLAIN(x) (x)
#define MAP_MAGNITUDE(x) __builtin_elementwise_abs(x)
#define MAP_SQUARE(x) ((x) * (x))
#define MAP_DIFFERENCE(x) (((x) - y) * ((x) - y))

/* The fold of n elements, in double. */
#define LANES(name, T, V, map, fold, start) \
  static inline double name(ptrdiff_t n, const T *p, double y) { \
    const f64x8 first = start; \
    f64x8 s = first, t = first, u = first, v = first; \
    ptrdiff_t i = 0; \
    (void)y; \
    for (; i + 32 <= n; i += 32) { \
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
    double rest = start; \
    for (; i < n; i++) { \
      const double x = (double)p[i]; \
      rest = fold(rest, map(x)); \
    } \
    s = fold(fold(s, t), fold(u, v)); \
    const double half = fold(fold(s[0], s[4]), fold(s[1], s[5])); \
    return fold(fold(half, fold(fold(s[2], s[6]), fold(s[3], s[7]))), rest); \
  }

#define SUM_RUN(map) \
  LANES(lanes_f32_##map, float, f32x8, MAP_##map, ADD, 0.0) \
  LANES(lanes_f64_##map, double, f64x8, MAP_##map, ADD, 0.0) \
  static void sum_f32_##map(const job *j, ptrdiff_t n, const void *from, double y, cells *c) { \
    (void)j; \
    *(double *)c->acc += lanes_f32_##map(n, from, y); \
  } \
  static void sum_f64_##map(const job *j, ptrdiff_t n, const void *from, double y, cells *c) { \
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
 * Sums of 16-bit floats: four at a time in float32, which is exact unless some are more than
 * 2^11 times as large as others, and then in double, as conversions to that are what takes the time.
 * A block with sums that float32 does not hold is added in double alone.
 */
#define SUM_HALF(name, widen, load) \
  static void sum_##name(const job *j, ptrdiff_t n, const void *from, double y, cells *c) { \
    (void)j; \
    for (ptrdiff_t i = 0; i < n; i += BLOCK) { \
      const uint16_t *p = (const uint16_t *)from + i; \
      const ptrdiff_t m = rm_least(n - i, BLOCK), whole = m / 64 * 64; \
      f64x8 low = 0, high = 0; \
      for (ptrdiff_t k = 0; k < whole; k += 64) { \
        const f32x16 x = \
            (widen(p + k) + widen(p + k + 16)) + (widen(p + k + 32) + widen(p + k + 48)); \
        low += __builtin_convertvector(x.lo, f64x8); \
        high += __builtin_convertvector(x.hi, f64x8); \
      } \
      double lanes[8]; \
      float rest[BLOCK]; \
      low += high; \
      memcpy(lanes, &low, sizeof lanes); \
      double sum = lanes_f64_PLAIN(8, lanes, y); \
      const bool finite = sum - sum == 0; \
      const ptrdiff_t done = finite ? whole : 0; \
      load(m - done, p + done, 1, rest); \
      sum = (finite ? sum : 0) + lanes_f32_PLAIN(m - done, rest, y); \
      *(double *)c->acc += sum; \
    } \
  }
#define WIDEN_BRAIN(p) ((f32x16)(__builtin_convertvector(LOAD(u16x16, p), u32x16) << 16))
SUM_HALF(brain, WIDEN_BRAIN, f32_from_brain)
#if defined(__F16C__) || defined(__aarch64__)
VECTOR(_Float16, f16x16, 16);
#define WIDEN_HALF(p) __builtin_convertvector(LOAD(f16x16, p), f32x16)
SUM_HALF(half, WIDEN_HALF, f32_from_half)
#else
#define sum_half NULL
#endif

LANES(lanes_f32_product, float, f32x8, MAP_PLAIN, MULTIPLY, 1.0)
LANES(lanes_f64_product, double, f64x8, MAP_PLAIN, MULTIPLY, 1.0)

static void product_f32(const job *j, ptrdiff_t n, const void *from, double y, cells *c) {
  (void)j;
  *(double *)c->acc *= lanes_f32_product(n, from, y);
}

static void product_f64(const job *j, ptrdiff_t n, const void *from, double y, cells *c) {
  (void)j;
  *(double *)c->acc *= lanes_f64_product(n, from, y);
}

/* Folds rows into accumulators of type A. Pairs of rows halve the traffic of those. */
#define COLUMNS(name, T, A, slots, fold) \
  static void name(const job *j, ptrdiff_t n, ptrdiff_t rows, const void *from, ptrdiff_t step, \
                   cells *c) { \
    A *restrict acc = (A *)c->slots; \
    (void)j; \
    const char *row = from; \
    ptrdiff_t r = 0; \
    for (; r + 2 <= rows; r += 2, row += 2 * step) { \
      const T *restrict p = (const T *)row, *restrict q = (const T *)(row + step); \
      for (ptrdiff_t i = 0; i < n; i++) acc[i] = fold(acc[i], fold((A)p[i], (A)q[i])); \
    } \
    if (r < rows) { \
      const T *restrict p = (const T *)row; \
      for (ptrdiff_t i = 0; i < n; i++) acc[i] = fold(acc[i], (A)p[i]); \
    } \
  }

COLUMNS(columns_sum_f32, float, double, acc, ADD)
COLUMNS(columns_sum_f64, double, double, part, ADD)
COLUMNS(columns_product_f32, float, double, acc, MULTIPLY)
COLUMNS(columns_product_f64, double, double, acc, MULTIPLY)

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
  for (ptrdiff_t i = 0; i < n; i++) product[i] *= other[i];
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
      for (ptrdiff_t i = 0; i < n; i++) result[i] = rm_pow_f64(result[i], 1 / j->attribute);
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
  static void sum_##name(const job *j, ptrdiff_t n, const void *from, double y, cells *c) { \
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
  COLUMNS(columns_sum_##name, T, int64_t, acc, ADD)

SUM_INT(i8, int8_t, i8x16, int32_t, i32x16, i64x16, 16)
SUM_INT(i16, int16_t, i16x16, int32_t, i32x16, i64x16, 16)
SUM_INT(i32, int32_t, i32x8, int64_t, i64x8, i64x8, 8)
SUM_INT(i64, int64_t, i64x8, int64_t, i64x8, i64x8, 8)
SUM_INT(u8, uint8_t, u8x16, uint32_t, u32x16, i64x16, 16)
SUM_INT(u16, uint16_t, u16x16, uint32_t, u32x16, i64x16, 16)
SUM_INT(u32, uint32_t, u32x8, int64_t, i64x8, i64x8, 8)

COLUMNS(columns_product_i64, int64_t, int64_t, acc, MULTIPLY)

static void product_i64(const job *j, ptrdiff_t n, const void *from, double y, cells *c) {
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
  for (ptrdiff_t i = 0; i < n; i++) sum[i] += other[i];
}

static void combine_int_product(const job *j, ptrdiff_t n, cells *to, const cells *from) {
  int64_t *product = to->acc;
  const int64_t *other = from->acc;
  (void)j;
  for (ptrdiff_t i = 0; i < n; i++) product[i] *= other[i];
}

static void store_int(const job *j, ptrdiff_t n, char *out, ptrdiff_t stride, const cells *c) {
  put(j->out, n, c->acc, out, stride);
}

/*
 * Counts what is not zero, or, with flip 1, what is. The sign of a float is masked off. Lanes of T
 * count to 127 at least, and all lanes of a vector together to what S holds.
 */
#define COUNT(name, T, V, S, count) \
  static void count_##name(const job *j, ptrdiff_t n, const void *from, double y, cells *c) { \
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
  static void columns_count_##name(const job *j, ptrdiff_t n, ptrdiff_t rows, const void *from, \
                                   ptrdiff_t step, cells *c) { \
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

/* ---- largest and smallest -------------------------------------------------------------------- */

/*
 * All are maxima of keys, (x & mask) ^ flip: with other bits flipped signed integers become their
 * negative less one, unsigned ones signed, floats their negative; a mask makes magnitudes. Keys are
 * flipped back at the end. The macros by kind say what floats need beyond that: NaN wins.
 */
#define PREFER_INT(a, x) ((a) > (x) ? (a) : (x))
#define PREFER_FLOAT(a, x) ((a) > (x) || (a) != (a) ? (a) : (x))
#define BETTER_INT(a, x) ((x) > (a))
#define BETTER_FLOAT(a, x) ((x) > (a) || ((x) != (x) && (a) == (a)))
#define IS_NAN_INT(x) 0
#define IS_NAN_FLOAT(x) ((x) != (x))
#define NAN_INT(K) 0
#define NAN_FLOAT(K) ((K)NAN)

#define KEYS(V, I, from) \
  ({ \
    const I bits_ = (LOAD(I, from) & mask) ^ flip; \
    LOAD(V, &bits_); \
  })

#define EXTREME(K, T, B, V, I, count, kind) \
  static inline T key_##K(T x, B mask, B flip) { \
    B bits; \
    memcpy(&bits, &x, sizeof bits); \
    bits = (B)((bits & mask) ^ flip); \
    memcpy(&x, &bits, sizeof x); \
    return x; \
  } \
  static inline T highest_##K(const job *j, ptrdiff_t n, const T *p) { \
    const B mask = (B)j->mask, flip = (B)j->flip; \
    T top = key_##K(p[0], mask, flip); \
    bool nan = IS_NAN_##kind(top); \
    ptrdiff_t i = 0; \
    if (n >= count) { \
      V s = KEYS(V, I, p), t = s; \
      I unordered = (I)IS_NAN_##kind(s); \
      V u = s, v = s; \
      for (; i + 4 * count <= n; i += 4 * count) { \
        const V a = KEYS(V, I, p + i), b = KEYS(V, I, p + i + count); \
        const V c = KEYS(V, I, p + i + 2 * count), d = KEYS(V, I, p + i + 3 * count); \
        s = s > a ? s : a; \
        t = t > b ? t : b; \
        u = u > c ? u : c; \
        v = v > d ? v : d; \
        unordered |= (I)(IS_NAN_##kind(a) | IS_NAN_##kind(b)); \
        unordered |= (I)(IS_NAN_##kind(c) | IS_NAN_##kind(d)); \
      } \
      s = s > u ? s : u; \
      t = t > v ? t : v; \
      /* The last vector may hold some elements again. */ \
      for (; i + count < n; i += count) { \
        const V a = KEYS(V, I, p + i); \
        s = s > a ? s : a; \
        unordered |= (I)IS_NAN_##kind(a); \
      } \
      const V a = KEYS(V, I, p + n - count); \
      s = s > a ? s : a; \
      unordered |= (I)IS_NAN_##kind(a); \
      s = s > t ? s : t; \
      T lane[count]; \
      memcpy(lane, &s, sizeof lane); \
      for (int half = count / 2; half > 0; half /= 2) { \
        for (int l = 0; l < half; l++) { \
          lane[l] = lane[l] > lane[l + half] ? lane[l] : lane[l + half]; \
        } \
      } \
      top = lane[0]; \
      nan = BITS(TRUTH(count, unordered)) != 0; \
    } else { \
      for (i = 1; i < n; i++) { \
        const T x = key_##K(p[i], mask, flip); \
        nan |= IS_NAN_##kind(x); \
        top = top > x ? top : x; \
      } \
    } \
    return nan ? NAN_##kind(T) : top; \
  } \
  static void extreme_##K(const job *j, ptrdiff_t n, const void *from, double y, cells *c) { \
    T *acc = c->acc; \
    (void)y; \
    const T x = highest_##K(j, n, from); \
    *acc = PREFER_##kind(*acc, x); \
  } \
  static void columns_extreme_##K(const job *j, ptrdiff_t n, ptrdiff_t rows, const void *from, \
                                  ptrdiff_t step, cells *c) { \
    const B mask = (B)j->mask, flip = (B)j->flip; \
    T *restrict acc = c->acc; \
    for (ptrdiff_t r = 0; r < rows; r++) { \
      const T *restrict p = (const T *)((const char *)from + r * step); \
      for (ptrdiff_t i = 0; i < n; i++) { \
        const T x = key_##K(p[i], mask, flip), a = acc[i]; \
        acc[i] = PREFER_##kind(a, x); \
      } \
    } \
  } \
  static void combine_extreme_##K(const job *j, ptrdiff_t n, cells *to, const cells *from) { \
    T *acc = to->acc; \
    const T *other = from->acc; \
    (void)j; \
    for (ptrdiff_t i = 0; i < n; i++) acc[i] = PREFER_##kind(acc[i], other[i]); \
  } \
  /* The place of the first key that is top. */ \
  static inline ptrdiff_t first_##K(const job *j, ptrdiff_t n, const T *p, T top) { \
    const B mask = (B)j->mask, flip = (B)j->flip; \
    ptrdiff_t i = 0; \
    for (; i + count <= n; i += count) { \
      const V a = KEYS(V, I, p + i); \
      const I here = IS_NAN_##kind(top) ? (I)IS_NAN_##kind(a) : (I)(a == top); \
      const uint64_t bits = BITS(TRUTH(count, here)); \
      if (bits != 0) return i + __builtin_ctzll(bits); \
    } \
    for (; i < n; i++) { \
      const T x = key_##K(p[i], mask, flip); \
      if (x == top || (IS_NAN_##kind(x) && IS_NAN_##kind(top))) break; \
    } \
    return i; \
  } \
  static void index_##K(const job *j, ptrdiff_t n, const void *from, double y, cells *c) { \
    T *acc = c->acc; \
    (void)y; \
    const T x = highest_##K(j, n, from); \
    if (BETTER_##kind(*acc, x)) { \
      *acc = x; \
      *c->where = c->position + first_##K(j, n, from, x); \
    } \
  } \
  static void columns_index_##K(const job *j, ptrdiff_t n, ptrdiff_t rows, const void *from, \
                                ptrdiff_t step, cells *c) { \
    const B mask = (B)j->mask, flip = (B)j->flip; \
    T *restrict acc = c->acc; \
    int64_t *restrict where = c->where; \
    for (ptrdiff_t r = 0; r < rows; r++) { \
      const T *restrict p = (const T *)((const char *)from + r * step); \
      const int64_t position = c->position + r; \
      for (ptrdiff_t i = 0; i < n; i++) { \
        const T x = key_##K(p[i], mask, flip), a = acc[i]; \
        const bool better = BETTER_##kind(a, x); \
        acc[i] = better ? x : a; \
        where[i] = better ? position : where[i]; \
      } \
    } \
  } \
  static void combine_index_##K(const job *j, ptrdiff_t n, cells *to, const cells *from) { \
    T *acc = to->acc; \
    const T *other = from->acc; \
    (void)j; \
    for (ptrdiff_t i = 0; i < n; i++) { \
      if (!(BETTER_##kind(acc[i], other[i]))) continue; \
      acc[i] = other[i]; \
      to->where[i] = from->where[i]; \
    } \
  }

EXTREME(i8, int8_t, int8_t, i8x64, i8x64, 64, INT)
EXTREME(i16, int16_t, int16_t, i16x32, i16x32, 32, INT)
EXTREME(i32, int32_t, int32_t, i32x16, i32x16, 16, INT)
EXTREME(i64, int64_t, int64_t, i64x8, i64x8, 8, INT)
EXTREME(f32, float, int32_t, f32x16, i32x16, 16, FLOAT)
EXTREME(f64, double, int64_t, f64x8, i64x8, 8, FLOAT)

static void store_extreme(const job *j, ptrdiff_t n, char *out, ptrdiff_t stride, const cells *c) {
  union {
    double f[WIDTH];
    int64_t i[WIDTH];
    uint64_t bits[WIDTH];
  } result;
  const bool floats = j->columns == columns_extreme_f32 || j->columns == columns_extreme_f64;
  const bool from_f32 = j->columns == columns_extreme_f32;
  if (floats) {
    if (from_f32) f64_from_f32(n, c->acc, 1, result.f);
    else memcpy(result.f, c->acc, (size_t)n * sizeof(double));
    const uint64_t sign = j->flip != 0 ? (uint64_t)1 << 63 : 0;
    for (ptrdiff_t i = 0; i < n; i++) result.bits[i] ^= sign;
  } else {
    switch (j->slot) {
      case 1: i64_from_i8(n, c->acc, 1, result.i); break;
      case 2: i64_from_i16(n, c->acc, 1, result.i); break;
      case 4: i64_from_i32(n, c->acc, 1, result.i); break;
      default: memcpy(result.i, c->acc, (size_t)n * sizeof(int64_t)); break;
    }
    for (ptrdiff_t i = 0; i < n; i++) result.bits[i] ^= j->flip;
  }
  put(j->out, n, &result, out, stride);
}

static void store_where(const job *j, ptrdiff_t n, char *out, ptrdiff_t stride, const cells *c) {
  put(j->out, n, c->where, out, stride);
}

/* ---- walks ----------------------------------------------------------------------------------- */

static void make_cells(cells *c, char *memory, ptrdiff_t width) {
  c->acc = memory;
  c->error = (double *)(memory + 8 * width);
  c->part = (double *)(memory + 16 * width);
  c->where = (int64_t *)c->error;
  c->position = 0;
}

static void begin_cells(const job *j, cells *c, ptrdiff_t n) {
  uint64_t *restrict acc = c->acc;
  for (ptrdiff_t i = 0; i < n; i++) acc[i] = j->start;
  memset(c->error, 0, (size_t)n * sizeof(double));
  if (j->flush != NULL) memset(c->part, 0, (size_t)n * sizeof(double));
}

static bool stopped(const job *j, const cells *c) {
  return j->stops && *(const int64_t *)c->acc != 0;
}

/* Folds a run of n elements into one cell. */
static void fold_run(const job *j, ptrdiff_t n, const char *a, ptrdiff_t sa, const char *b,
                     ptrdiff_t sb, cells *c) {
  _Alignas(64) double buffer[WIDTH];
  double second[WIDTH];
  double y = 0;
  if (j->load_second != NULL) j->load_second(1, b, 1, &y);
  const bool in_place = j->direct && sa == 1;
  const ptrdiff_t bytes = j->bytes, step = in_place ? j->step : WIDTH;
  for (ptrdiff_t i = 0; i < n; i += step) {
    const ptrdiff_t m = rm_least(n - i, step);
    const void *from = a + i * sa * bytes;
    if (!in_place) {
      j->load(m, from, sa, buffer);
      from = buffer;
      if (j->run_map != PLAIN) {
        const double *with = &y;
        if (sb != 0) {
          j->load_second(m, b + i * sb * j->second_bytes, sb, second);
          with = second;
        }
        map_block(j, j->run_map, m, buffer, with, sb != 0);
      }
    }
    j->run(j, m, from, y, c);
    c->position += m;
    if (stopped(j, c)) return;
  }
}

/* Folds all elements of n outputs, one output after another. */
static void fold_along(const job *j, const rm_walk *w, char *const *start, ptrdiff_t n,
                       const cells *all) {
  const int kept = j->kept, inner = w->rank - 1;
  const bool single = kept == w->rank;
  const ptrdiff_t length = single ? 1 : w->size[inner];
  const ptrdiff_t sa = single ? 1 : w->step[inner][1] / j->bytes;
  const ptrdiff_t sb = single || w->operands < 3 ? 0 : w->step[inner][2] / j->second_bytes;
  ptrdiff_t count[RM_MAX_RANK];
  for (int axis = kept; axis < inner; axis++) count[axis] = 0;
  for (ptrdiff_t i = 0; i < n; i++) {
    cells one = {(char *)all->acc + i * j->slot, all->error + i, all->part + i, all->where + i,
                 all->position};
    char *at[RM_MAX_OPERANDS] = {NULL};
    for (int k = 1; k < w->operands; k++) {
      at[k] = start[k] + (kept > 0 ? i * w->step[kept - 1][k] : 0);
    }
    do fold_run(j, length, at[1], sa, at[2], sb, &one);
    while (!stopped(j, &one) && rm_next(w, kept, inner, count, at));
    if (j->stops) for (int axis = kept; axis < inner; axis++) count[axis] = 0;
  }
}

/* Folds all elements of n outputs that lie side by side, row by row. */
static void fold_across(const job *j, const rm_walk *w, char *const *start, ptrdiff_t n, cells *c) {
  const int kept = j->kept, inner = w->rank > kept ? w->rank - 1 : kept;
  const ptrdiff_t rows = w->rank > kept ? w->size[inner] : 1;
  const ptrdiff_t row = w->rank > kept ? w->step[inner][1] : 0;
  const ptrdiff_t second_row = w->rank > kept ? w->step[inner][2] : 0;
  const ptrdiff_t sa = w->step[kept - 1][1] / j->bytes;
  const ptrdiff_t sb = w->operands < 3 ? 0 : w->step[kept - 1][2] / j->second_bytes;
  const bool in_place = j->direct && sa == 1;
  _Alignas(64) double buffer[WIDTH];
  double second[WIDTH];
  ptrdiff_t count[RM_MAX_RANK], pending = 0;
  for (int axis = kept; axis < inner; axis++) count[axis] = 0;
  char *at[RM_MAX_OPERANDS] = {NULL, start[1], start[2], NULL};
  do {
    for (ptrdiff_t r = 0, m = 1; r < rows; r += m) {
      const char *from = at[1] + r * row;
      if (in_place) {
        m = rm_least(rows - r, ROWS);
        j->columns(j, n, m, from, row, c);
      } else {
        j->load(n, from, sa, buffer);
        if (j->load_second != NULL) j->load_second(n, at[2] + r * second_row, sb, second);
        if (j->map != PLAIN) map_block(j, j->map, n, buffer, second, 1);
        j->columns(j, n, 1, buffer, 0, c);
      }
      c->position += m;
      pending += m;
      if (j->flush != NULL && pending >= ROWS) {
        j->flush(n, c);
        pending = 0;
      }
    }
  } while (rm_next(w, kept, inner, count, at));
  if (j->flush != NULL) j->flush(n, c);
}

/* The pointers of a unit, and how many outputs it has. */
static ptrdiff_t seek(const job *j, ptrdiff_t unit, char **at) {
  const rm_walk *w = j->walk;
  for (int k = 0; k < RM_MAX_OPERANDS; k++) at[k] = k < w->operands ? w->start[k] : NULL;
  if (j->kept == 0) return 1;
  const int column = j->kept - 1;
  const ptrdiff_t blocks = (w->size[column] + j->width - 1) / j->width;
  const ptrdiff_t first = unit % blocks * j->width;
  for (int k = 0; k < w->operands; k++) at[k] += first * w->step[column][k];
  unit /= blocks;
  for (int axis = column - 1; axis >= 0; axis--) {
    const ptrdiff_t place = unit % w->size[axis];
    for (int k = 0; k < w->operands; k++) at[k] += place * w->step[axis][k];
    unit /= w->size[axis];
  }
  return rm_least(w->size[column] - first, j->width);
}

static void fold_unit(const job *j, const rm_walk *w, char *const *at, ptrdiff_t n, cells *c) {
  begin_cells(j, c, n);
  if (j->across) fold_across(j, w, at, n, c);
  else fold_along(j, w, at, n, c);
}

static void store_unit(const job *j, char *const *at, ptrdiff_t n, const cells *c) {
  const ptrdiff_t stride = j->kept == 0 ? 1 : j->walk->step[j->kept - 1][0] / rm_bytes(j->out);
  j->store(j, n, at[0], stride, c);
}

static void fold_group(void *context, ptrdiff_t index) {
  const job *j = context;
  _Alignas(64) char memory[SLOTS * 8 * WIDTH];
  const ptrdiff_t last = rm_least((index + 1) * j->group, j->units);
  for (ptrdiff_t unit = index * j->group; unit < last; unit++) {
    char *at[RM_MAX_OPERANDS];
    cells c;
    const ptrdiff_t n = seek(j, unit, at);
    make_cells(&c, memory, j->width);
    fold_unit(j, j->walk, at, n, &c);
    store_unit(j, at, n, &c);
  }
}

static void fold_part(void *context, ptrdiff_t index) {
  job *j = context;
  index += j->done;
  const int axis = j->kept;
  const ptrdiff_t first = index % j->parts * j->length;
  char *at[RM_MAX_OPERANDS];
  cells c;
  const ptrdiff_t n = seek(j, index / j->parts, at);
  make_cells(&c, j->memory + index * SLOTS * 8 * j->width, j->width);
  /* Where one element settles it, no more is looked at. */
  if (j->stops && atomic_load_explicit(&j->settled, memory_order_relaxed)) {
    begin_cells(j, &c, n);
    return;
  }
  rm_walk w = *j->walk;
  w.size[axis] = rm_least(w.size[axis] - first, j->length);
  for (int k = 1; k < w.operands; k++) at[k] += first * w.step[axis][k];
  c.position = j->elements / j->walk->size[axis] * first;
  fold_unit(j, &w, at, n, &c);
  if (j->units == 1 && stopped(j, &c)) {
    atomic_store_explicit(&j->settled, true, memory_order_relaxed);
  }
}

static int32_t run_job(job *j) {
  const rm_walk *w = j->walk;
  ptrdiff_t outer = 1;
  j->elements = 1;
  for (int axis = 0; axis < j->kept - 1; axis++) outer *= w->size[axis];
  for (int axis = j->kept; axis < w->rank; axis++) j->elements *= w->size[axis];
  const ptrdiff_t columns = j->kept == 0 ? 1 : w->size[j->kept - 1];
  j->width = rm_least(columns, WIDTH);
  if (!j->across && j->width * j->elements > TASK) {
    j->width = j->elements >= TASK ? 1 : TASK / j->elements;
  }
  j->units = outer * ((columns + j->width - 1) / j->width);
  const ptrdiff_t work = j->width * j->elements;
  const ptrdiff_t heavy = j->map >= POWER ? 8 : 1;
  const double time = NANOSECONDS * (double)(heavy * outer * columns * j->elements);
  j->parts = 1;
  if (j->units < PARTS / 2 && j->kept < w->rank) {
    const ptrdiff_t size = w->size[j->kept];
    const ptrdiff_t part = j->across ? 2 * TASK : TASK;
    const ptrdiff_t wanted = rm_least(rm_least(heavy * work / part, PARTS / j->units), size);
    if (wanted > 1) {
      j->length = (size + wanted - 1) / wanted;
      j->parts = (size + j->length - 1) / j->length;
    }
  }
  if (j->parts == 1) {
    j->group = heavy * work >= TASK ? 1 : TASK / (heavy * work);
    rm_parallel((j->units + j->group - 1) / j->group, time, fold_group, j);
    return RM_OK;
  }
  const ptrdiff_t tasks = j->units * j->parts, bytes = SLOTS * 8 * j->width;
  j->memory = malloc((size_t)(tasks * bytes));
  if (j->memory == NULL) return rm_fail(RM_BAD_ARGUMENT, "no memory for %d parts", (int)tasks);
  atomic_init(&j->settled, false);
  if (j->stops && j->units == 1) {
    /* The first part often says all. */
    fold_part(j, 0);
    j->done = 1;
  }
  if (atomic_load(&j->settled)) j->parts = 1;
  else rm_parallel(tasks - j->done, time, fold_part, j);
  for (ptrdiff_t unit = 0; unit < j->units; unit++) {
    char *at[RM_MAX_OPERANDS];
    cells to, from;
    const ptrdiff_t n = seek(j, unit, at);
    char *memory = j->memory + unit * j->parts * bytes;
    make_cells(&to, memory, j->width);
    for (ptrdiff_t part = 1; part < j->parts; part++) {
      make_cells(&from, memory + part * bytes, j->width);
      j->combine(j, n, &to, &from);
    }
    store_unit(j, at, n, &to);
  }
  free(j->memory);
  return RM_OK;
}

/* ---- the choice of kernels ------------------------------------------------------------------- */

static bool is_float(int dtype) { return dtype >= RM_FLOAT16 && dtype <= RM_FLOAT64; }
static bool is_signed(int dtype) { return dtype >= RM_INT8 && dtype <= RM_INT64; }

/* A value of the given bytes, in every place of a word. */
static uint64_t repeated(uint64_t bits, int bytes) {
  for (; bytes < 8; bytes *= 2) bits |= bits << (8 * bytes);
  return bits;
}

/* Elements are worked in as float32, or, where that does not hold them, as float64. */
static bool choose_floats(job *j, int a) {
  const bool wide = a == RM_FLOAT64 || !is_float(a);
  j->direct = a == RM_FLOAT32 || a == RM_FLOAT64;
  j->load = j->direct ? copier(a)
                      : a == RM_FLOAT16 ? f32_from_half
                                        : a == RM_BFLOAT16 ? f32_from_brain : to_f64[a];
  return wide;
}

static bool choose_float_sum(job *j, int a, mapping map, bool mapped) {
  typedef void (*run)(const job *j, ptrdiff_t n, const void *from, double y, cells *c);
  static const run runs[][2] = {
      [PLAIN] = {sum_f32_PLAIN, sum_f64_PLAIN},
      [MAGNITUDE] = {sum_f32_MAGNITUDE, sum_f64_MAGNITUDE},
      [SQUARE] = {sum_f32_SQUARE, sum_f64_SQUARE},
      [DIFFERENCE] = {sum_f32_DIFFERENCE, sum_f64_DIFFERENCE},
  };
  bool wide = choose_floats(j, a);
  j->map = map;
  if (mapped) {
    j->run_map = map;
    j->load = to_f64[a];
    j->direct = false;
    wide = true;
  }
  j->run = runs[mapped ? PLAIN : map][wide];
  const run half = a == RM_FLOAT16 ? sum_half : a == RM_BFLOAT16 ? sum_brain : NULL;
  if (half != NULL && map == PLAIN && !j->across) {
    j->run = half;
    j->load = copier(a);
    j->direct = true;
  }
  j->columns = wide ? columns_sum_f64 : columns_sum_f32;
  j->flush = j->across && wide ? flush_sum : NULL;
  j->combine = combine_sum;
  j->store = store_float;
  j->slot = 8;
  return true;
}

static bool choose_float_product(job *j, int a) {
  const bool wide = choose_floats(j, a);
  const double one = 1;
  memcpy(&j->start, &one, sizeof one);
  j->run = wide ? product_f64 : product_f32;
  j->columns = wide ? columns_product_f64 : columns_product_f32;
  j->combine = combine_product;
  j->store = store_float;
  j->slot = 8;
  return true;
}

static bool choose_int_sum(job *j, int a) {
  j->direct = true;
  j->load = copier(a);
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

static bool choose_int_product(job *j, int a) {
  if (is_float(a)) return false;
  j->direct = rm_bytes(a) == 8;
  j->load = to_i64[a];
  j->start = 1;
  j->run = product_i64;
  j->columns = columns_product_i64;
  j->combine = combine_int_product;
  j->store = store_int;
  j->slot = 8;
  return true;
}

static bool choose_count(job *j, int a) {
  const int bytes = (int)rm_bytes(a);
  j->direct = true;
  j->load = copier(a);
  j->mask = is_float(a) ? ~(uint64_t)0 >> (65 - 8 * bytes) : ~(uint64_t)0;
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

/* Largest or smallest elements, or magnitudes, or the indexes of such. */
static bool choose_extreme(job *j, int a, bool smallest, bool magnitudes, bool index) {
  bool floats = is_float(a) || magnitudes;
  int bytes = (int)rm_bytes(a);
  j->direct = true;
  j->load = copier(a);
  if (floats) bytes = choose_floats(j, a) ? 8 : 4;
  const uint64_t ones = ~(uint64_t)0, sign = (uint64_t)1 << (8 * bytes - 1);
  j->mask = magnitudes ? ~sign : ones;
  j->flip = floats || (is_signed(a) != smallest) ? 0 : sign;
  if (smallest) j->flip = floats ? sign : is_signed(a) ? ones : sign - 1;
  j->start = floats ? (bytes == 4 ? 0xff800000u : (uint64_t)0xfff << 52) : sign;
  j->start = repeated(j->start, bytes);
  j->slot = bytes;
  j->store = index ? store_where : store_extreme;
  if (index) j->step = PIECE;
#define CASE(K) \
  do { \
    j->run = index ? index_##K : extreme_##K; \
    j->columns = index ? columns_index_##K : columns_extreme_##K; \
    j->combine = index ? combine_index_##K : combine_extreme_##K; \
  } while (0)
  if (floats && bytes == 4) CASE(f32);
  else if (floats) CASE(f64);
  else if (bytes == 1) CASE(i8);
  else if (bytes == 2) CASE(i16);
  else if (bytes == 4) CASE(i32);
  else CASE(i64);
#undef CASE
  return true;
}

/* False where there is no kernel. */
static bool choose(job *j, int a, bool varies) {
  const bool floats = is_float(j->out);
  const bool across = j->across;
  switch (j->opcode) {
    case RM_OP_sum:
      if (floats) return choose_float_sum(j, a, PLAIN, false);
      return j->out != RM_BOOL && choose_int_sum(j, a);
    case RM_OP_prod:
      if (floats) return choose_float_product(j, a);
      return j->out != RM_BOOL && choose_int_product(j, a);
    case RM_OP_max: return j->out == a && choose_extreme(j, a, false, false, false);
    case RM_OP_min: return j->out == a && choose_extreme(j, a, true, false, false);
    case RM_OP_argmax:
    case RM_OP_argmin:
      return j->out == RM_INT32 && choose_extreme(j, a, j->opcode == RM_OP_argmin, false, true);
    case RM_OP_any:
    case RM_OP_all: return j->out == RM_BOOL && choose_count(j, a);
    case RM_OP_countNonzero: return j->out == RM_INT32 && choose_count(j, a);
    case RM_OP_mean: return floats && choose_float_sum(j, a, PLAIN, false);
    case RM_OP_norm1: return floats && choose_float_sum(j, a, MAGNITUDE, across);
    case RM_OP_norm2: return floats && choose_float_sum(j, a, SQUARE, across);
    case RM_OP_normP: return floats && choose_float_sum(j, a, POWER, true);
    case RM_OP_normMax: return floats && choose_extreme(j, a, false, true, false);
    case RM_OP_normMin: return floats && choose_extreme(j, a, true, true, false);
    case RM_OP_var:
    case RM_OP_std: return floats && choose_float_sum(j, a, DIFFERENCE, across || varies);
    case RM_OP_logSumExp: return floats && choose_float_sum(j, a, EXPONENTIAL, true);
    default: return false;
  }
}

/* True when folding whole rows reads memory in a better order, or saves many short runs. */
static bool runs_across(const rm_walk *w, int kept) {
  if (kept == 0) return false;
  if (kept == w->rank) return true;
  const int inner = w->rank - 1;
  if (w->size[kept - 1] < 16) return false;
  if (rm_magnitude(w->step[kept - 1][1]) < rm_magnitude(w->step[inner][1])) return true;
  return inner == kept && w->size[inner] <= 16;
}

/* ---- scans ----------------------------------------------------------------------------------- */

typedef struct {
  const rm_walk *walk;
  int kept;
  bool product;
  bool floats;
  loader load;
  ptrdiff_t bytes;
  int out;
  ptrdiff_t out_bytes;
  /* Runs, or blocks of columns, and how many of them make a task. */
  ptrdiff_t units;
  ptrdiff_t group;
} scan;

/* Scans RUNS stretches side by side, or one, in place; carries go from one stretch to the next. */
#define SCAN(name, T, fold) \
  static void scan_runs_##name(ptrdiff_t n, T (*restrict x)[STRETCH], T *carry) { \
    T a[RUNS]; \
    for (int l = 0; l < RUNS; l++) a[l] = carry[l]; \
    for (ptrdiff_t i = 0; i < n; i++) { \
      for (int l = 0; l < RUNS; l++) { \
        a[l] = fold(a[l], x[l][i]); \
        x[l][i] = a[l]; \
      } \
    } \
    for (int l = 0; l < RUNS; l++) carry[l] = a[l]; \
  } \
  static void scan_run_##name(ptrdiff_t n, T *restrict x, T *carry) { \
    T a = *carry; \
    for (ptrdiff_t i = 0; i < n; i++) x[i] = a = fold(a, x[i]); \
    *carry = a; \
  } \
  static void scan_columns_##name(ptrdiff_t n, const T *restrict x, T *restrict carry) { \
    for (ptrdiff_t i = 0; i < n; i++) carry[i] = fold(carry[i], x[i]); \
  }

SCAN(f64_sum, double, ADD)
SCAN(f64_product, double, MULTIPLY)
SCAN(i64_sum, int64_t, ADD)
SCAN(i64_product, int64_t, MULTIPLY)

/* One run of narrower floats, four at a time: each addition to the carry would wait for the one
 * before. The sums of the four are off by what doubles are, which their dtype does not show. */
static void scan_run_narrow_sum(ptrdiff_t n, double *restrict x, double *carry) {
  double a = *carry;
  ptrdiff_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const double two = x[i] + x[i + 1], three = two + x[i + 2];
    const double four = two + (x[i + 2] + x[i + 3]);
    x[i] += a;
    x[i + 1] = a + two;
    x[i + 2] = a + three;
    x[i + 3] = a += four;
  }
  for (; i < n; i++) x[i] = a += x[i];
  *carry = a;
}

/* What is scanned: doubles or integers, as the job says. */
typedef union {
  double f[RUNS][STRETCH];
  int64_t i[RUNS][STRETCH];
} stretches;

typedef union {
  double f[WIDTH];
  int64_t i[WIDTH];
} carries;

static void begin_scan(const scan *s, carries *c, ptrdiff_t n) {
  if (s->floats) for (ptrdiff_t i = 0; i < n; i++) c->f[i] = s->product;
  else for (ptrdiff_t i = 0; i < n; i++) c->i[i] = s->product;
}

/* Scans count runs, RUNS or 1, which begin at the given places. */
static void scan_some(const scan *s, int count, char *(*at)[2]) {
  const rm_walk *w = s->walk;
  const int axis = w->rank - 1;
  const bool single = s->kept == w->rank;
  const ptrdiff_t n = single ? 1 : w->size[axis];
  const ptrdiff_t to = single ? 1 : w->step[axis][0] / s->out_bytes;
  const ptrdiff_t from = single ? 1 : w->step[axis][1] / s->bytes;
  stretches x;
  carries c;
  begin_scan(s, &c, count);
  for (ptrdiff_t i = 0; i < n; i += STRETCH) {
    const ptrdiff_t m = rm_least(n - i, STRETCH);
    for (int l = 0; l < count; l++) s->load(m, at[l][1] + i * from * s->bytes, from, x.f[l]);
    if (s->floats) {
      if (s->product) {
        if (count == 1) scan_run_f64_product(m, x.f[0], c.f);
        else scan_runs_f64_product(m, x.f, c.f);
      } else if (count > 1) scan_runs_f64_sum(m, x.f, c.f);
      else if (s->bytes < 8) scan_run_narrow_sum(m, x.f[0], c.f);
      else scan_run_f64_sum(m, x.f[0], c.f);
    } else if (s->product) {
      if (count == 1) scan_run_i64_product(m, x.i[0], c.i);
      else scan_runs_i64_product(m, x.i, c.i);
    } else if (count == 1) scan_run_i64_sum(m, x.i[0], c.i);
    else scan_runs_i64_sum(m, x.i, c.i);
    for (int l = 0; l < count; l++) {
      put(s->out, m, x.f[l], at[l][0] + i * to * s->out_bytes, to);
    }
  }
}

/* The pointers of one of the runs, or of a block of columns when width is not 1. */
static ptrdiff_t seek_scan(const scan *s, ptrdiff_t unit, ptrdiff_t width, char **at) {
  const rm_walk *w = s->walk;
  for (int k = 0; k < 2; k++) at[k] = w->start[k];
  ptrdiff_t n = 1;
  for (int axis = s->kept - 1; axis >= 0; axis--) {
    const ptrdiff_t blocks = (w->size[axis] + width - 1) / width;
    const ptrdiff_t first = unit % blocks * width;
    for (int k = 0; k < 2; k++) at[k] += first * w->step[axis][k];
    if (axis == s->kept - 1) n = rm_least(w->size[axis] - first, width);
    unit /= blocks;
    width = 1;
  }
  return n;
}

static void scan_along(void *context, ptrdiff_t index) {
  const scan *s = context;
  const ptrdiff_t last = rm_least((index + 1) * s->group, s->units);
  for (ptrdiff_t unit = index * s->group; unit < last;) {
    const int count = last - unit >= RUNS ? RUNS : 1;
    char *at[RUNS][2];
    for (int l = 0; l < count; l++) seek_scan(s, unit + l, 1, at[l]);
    scan_some(s, count, at);
    unit += count;
  }
}

static void scan_across(void *context, ptrdiff_t index) {
  const scan *s = context;
  const rm_walk *w = s->walk;
  const int column = s->kept - 1;
  const bool single = s->kept == w->rank;
  const ptrdiff_t rows = single ? 1 : w->size[w->rank - 1];
  const ptrdiff_t to = w->step[column][0] / s->out_bytes, from = w->step[column][1] / s->bytes;
  carries x, c;
  char *at[2];
  const ptrdiff_t n = seek_scan(s, index, WIDTH, at);
  begin_scan(s, &c, n);
  for (ptrdiff_t r = 0; r < rows; r++) {
    s->load(n, at[1] + (single ? 0 : r * w->step[w->rank - 1][1]), from, &x);
    if (s->floats) {
      if (s->product) scan_columns_f64_product(n, x.f, c.f);
      else scan_columns_f64_sum(n, x.f, c.f);
    } else if (s->product) scan_columns_i64_product(n, x.i, c.i);
    else scan_columns_i64_sum(n, x.i, c.i);
    put(s->out, n, &c, at[0] + (single ? 0 : r * w->step[w->rank - 1][0]), to);
  }
}

static int32_t run_scan(int32_t opcode, const rm_walk *w, int kept, int out, int a) {
  scan s = {.walk = w, .kept = kept, .product = opcode == RM_OP_cumulativeProd};
  s.floats = is_float(out);
  if (is_float(a) != s.floats || out == RM_BOOL) return RM_UNSUPPORTED;
  if (w->rank > kept + 1) {
    return rm_fail(RM_BAD_ARGUMENT, "a scan runs along 1 axis, not %d", w->rank - kept);
  }
  s.load = s.floats ? to_f64[a] : to_i64[a];
  s.bytes = rm_bytes(a);
  s.out = out;
  s.out_bytes = rm_bytes(out);
  ptrdiff_t outer = 1;
  for (int axis = 0; axis < kept; axis++) outer *= w->size[axis];
  const ptrdiff_t n = kept == w->rank ? 1 : w->size[w->rank - 1];
  const double time = SCAN_NANOSECONDS * (double)(outer * n);
  const bool across = kept > 0 && (kept == w->rank || (w->size[kept - 1] >= 16 &&
                                   rm_magnitude(w->step[kept - 1][1]) < rm_magnitude(w->step[kept][1])));
  if (across) {
    s.units = outer / w->size[kept - 1] * ((w->size[kept - 1] + WIDTH - 1) / WIDTH);
    rm_parallel(s.units, time, scan_across, &s);
    return RM_OK;
  }
  s.units = outer;
  s.group = n >= TASK / RUNS ? RUNS : TASK / n;
  rm_parallel((outer + s.group - 1) / s.group, time, scan_along, &s);
  return RM_OK;
}

/* ---- the call -------------------------------------------------------------------------------- */

int32_t RM_AT(fold)(int32_t opcode, int32_t dtypes, int32_t kept, const double *plan, void *out,
                    const void *a, const void *b) {
  const int to = rm_dtype_at(dtypes, 1), from = rm_dtype_at(dtypes, 2);
  const int second = rm_dtype_at(dtypes, 3);
  const bool paired = opcode == RM_OP_var || opcode == RM_OP_std || opcode == RM_OP_logSumExp;
  if (to >= RM_DTYPE_COUNT || from >= RM_DTYPE_COUNT) return RM_UNSUPPORTED;
  if (paired ? second >= RM_DTYPE_COUNT : second != RM_NONE) return RM_UNSUPPORTED;
  void *const buffers[RM_MAX_OPERANDS] = {out, (void *)a, (void *)b, NULL};
  rm_walk walk = {.start = {NULL}};
  const int32_t status = rm_read_plan(&walk, plan, paired ? 3 : 2, dtypes, buffers);
  if (status != RM_OK) return status;
  if (kept < 0 || kept > walk.rank) {
    return rm_fail(RM_BAD_ARGUMENT, "%d of %d axes are kept", (int)kept, walk.rank);
  }
  /* What an empty reduction gives is for the caller to say. */
  if (walk.empty) return RM_UNSUPPORTED;
  if (opcode == RM_OP_cumulativeSum || opcode == RM_OP_cumulativeProd) {
    return run_scan(opcode, &walk, kept, to, from);
  }
  job j = {.walk = &walk,
           .opcode = opcode,
           .kept = kept,
           .across = runs_across(&walk, kept),
           .out = to,
           .bytes = rm_bytes(from),
           .second_bytes = paired ? rm_bytes(second) : 1,
           .load_second = paired ? to_f64[second] : NULL,
           .attribute = plan[RM_ATTRIBUTES],
           .step = PTRDIFF_MAX};
  const bool varies = paired && kept < walk.rank && walk.inner[2] != 0;
  if (!choose(&j, from, varies)) return RM_UNSUPPORTED;
  return run_job(&j);
}
