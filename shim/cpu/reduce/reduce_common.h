/*
 * What the folds share: vectors, cells, and how elements are brought into the form that kernels
 * read, and results into the one that is stored.
 *
 * Included by fold.c and its parts. Knows nothing of walks.
 */
#ifndef ROWMAJOR_FOLD_H
#define ROWMAJOR_FOLD_H

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
  /* Elements of a run, or rows, from which on float32 is summed by fours. */
  MANY = 64,
  /* Elements of runs that are folded across, though they lie one behind the other: sums that begin
   * quickly, what needs no loading, and all else. */
  FEW_SUMMED = 8,
  FEW_DIRECT = 15,
  FEW = 16,
  /* Elements of a dense row, at most, for TOGETHER rows to be folded as one. */
  NARROW = 15,
  TOGETHER = 16,
  /* Elements among which an index is looked for. */
  PIECE = 2048,
  /* Elements of a task, which take 2 to 5 microseconds. */
  TASK = 1 << 15,
  /* With fewer outputs than this each one may be cut into as many parts. */
  PARTS = 64,
  /* Bytes ahead of where a sum is at that are fetched into the first-level cache. */
  AHEAD = 2048,
  /* Runs that are scanned side by side, since each is a chain of additions that wait. */
  RUNS = 8,
  /* Elements of each of those that are converted at once. */
  STRETCH = 256
};

/* What an element takes about, folded or scanned. */
static const double NANOSECONDS = 0.07, SCAN_NANOSECONDS = 0.5;

/* ---- vectors --------------------------------------------------------------------------------- */

#define VECTOR(T, name, count) typedef T name __attribute__((ext_vector_type(count)))
VECTOR(double, f64x16, 16);
VECTOR(double, f64x8, 8);
VECTOR(double, f64x4, 4);
VECTOR(double, f64x2, 2);
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
typedef void (RM_KERNEL *loader)(ptrdiff_t n, const void *from, ptrdiff_t stride, void *to);

/* What is done to one element before it is folded. */
typedef enum {
  PLAIN,
  MAGNITUDE,
  SQUARE,
  DIFFERENCE,
  POWER,
  EXPONENTIAL,
  /* In float32, as both operands are loaded. */
  EXPONENTIAL_F32
} mapping;

struct job {
  const rm_walk *walk;
  int32_t opcode;
  int kept;
  bool across;
  /* Rows across, of which several are folded as one. */
  bool narrow;
  /* Bytes of an element of a, and of b. */
  ptrdiff_t bytes;
  ptrdiff_t second_bytes;
  /* Dense elements need no loading. */
  bool direct;
  loader load;
  /* Of the second operand, to what it is mapped in; null where there is none. */
  loader load_second;
  /* What is done to elements once they are loaded, and not by run or columns. */
  mapping map;
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
  void (RM_KERNEL *run)(const job *j, ptrdiff_t n, const void *from, double y, cells *c);
  /* Folds rows of n dense elements each, step bytes apart, into n cells. */
  void (RM_KERNEL *columns)(const job *j, ptrdiff_t n, ptrdiff_t rows, const void *from,
                            ptrdiff_t step, cells *c);
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
#define LOADER_BY(unroll, name, T, R, convert) \
  static RM_KERNEL void name(ptrdiff_t n, const void *from, ptrdiff_t stride, void *to) { \
    const T *p = from; \
    R *restrict q = to; \
    if (stride == 1) { \
      for (ptrdiff_t i = 0; i < n; i++) q[i] = (R)convert(p[i]); \
    } else { \
      unroll for (ptrdiff_t i = 0; i < n; i++) q[i] = (R)convert(p[i * stride]); \
    } \
  }
#define LOADER(...) LOADER_BY(RM_ROLLED, __VA_ARGS__)

/* Every second element is common, and vector code, too. */
#define COPIER(name, T) \
  LOADER(any_##name, T, T, SAME) \
  static RM_KERNEL void name(ptrdiff_t n, const void *from, ptrdiff_t stride, void *to) { \
    const T *p = from; \
    T *restrict q = to; \
    if (stride == 2) RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) q[i] = p[2 * i]; \
    else any_##name(n, from, stride, to); \
  }

LOADER_BY(_Pragma("clang loop unroll_count(2)"), copy_1, uint8_t, uint8_t, SAME)
LOADER_BY(_Pragma("clang loop unroll_count(2)"), copy_2, uint16_t, uint16_t, SAME)
COPIER(copy_4, uint32_t)
COPIER(copy_8, uint64_t)
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

static void exponentials(ptrdiff_t n, float *restrict x, const float *restrict y, ptrdiff_t step) {
  if (step == 0) RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) x[i] = rm_exp_f32(x[i] - y[0]);
  else RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) x[i] = rm_exp_f32(x[i] - y[i]);
}

/* The magnitudes of elements, of which there is room for WIDTH, to the power of order; 3 and 1/2 need
 * none. */
static void power_block(double order, ptrdiff_t n, double *restrict x) {
  if (order == 3) {
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] = __builtin_fabs(x[i]) * (x[i] * x[i]);
  } else if (order == 0.5) {
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] = __builtin_sqrt(__builtin_fabs(x[i]));
  } else {
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] = __builtin_fabs(x[i]);
    RM_AT(powers)(n, x, order);
  }
}

/* What map makes of n elements as they were loaded; y is 0 or step elements apart. */
static void map_block(const job *j, mapping map, ptrdiff_t n, double *restrict x,
                      const double *restrict y, ptrdiff_t step) {
  if (map == DIFFERENCE || map == EXPONENTIAL) {
    if (step == 0) RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] -= y[0];
    else RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] -= y[i];
  }
  switch (map) {
    case PLAIN:
    case SQUARE: break;
    case MAGNITUDE:
      RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] = __builtin_fabs(x[i]);
      break;
    case DIFFERENCE:
      RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] *= x[i];
      break;
    case POWER: power_block(j->attribute, n, x); break;
    case EXPONENTIAL:
      RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] = rm_exp_f64(x[i]);
      break;
    case EXPONENTIAL_F32: exponentials(n, (float *)x, (const float *)y, step); break;
  }
}

/* ---- storing --------------------------------------------------------------------------------- */

#define STORER(name, T, R, convert) \
  static void name(ptrdiff_t n, const void *from, void *to, ptrdiff_t stride) { \
    const T *restrict p = from; \
    R *q = to; \
    if (stride == 1) { \
      RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) q[i] = (R)convert(p[i]); \
    } else { \
      RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) q[i * stride] = (R)convert(p[i]); \
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

#endif
