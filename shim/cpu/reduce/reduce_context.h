/*
 * What the files of reductions share: the context of a call, the accumulators, and the functions
 * that load and store elements.
 *
 * Only reduce.c and scan.c read iterators.
 */
#ifndef ROWMAJOR_REDUCE_CONTEXT_H
#define ROWMAJOR_REDUCE_CONTEXT_H

#include "internal.h"

enum {
  /* Elements that are converted at once, and outputs that are reduced side by side. */
  WIDTH = 1024,
  /* Elements between two compensated additions. */
#ifdef __wasm__
  SUM_BLOCK = 4096,
#else
  SUM_BLOCK = 1024,
#endif
  /* Elements of a block in which an index is searched for. */
  INDEX_BLOCK = 2048,
  /* Columns up to which rows are narrow: less than a vector. */
  NARROW_MAX = 15,
  /* Elements that sums add one after another. */
  FEW_MAX = 8,
  /* Elements per task. They take 2 to 5 microseconds. */
  TASK_ELEMENTS = 1 << 15
};

/* The accumulators of adjacent outputs. An element of acc has up to 8 bytes; its type depends on
 * the kernel. */
typedef struct {
  void *acc;
  /* For float64 sums: the compensation, and the partial sum since the last flush. */
  double *error;
  double *part;
  /* For index reductions: the index of the best element, and the position of the next element. */
  int64_t *index;
  int64_t position;
} accumulators;

/* Arrays of 8 bytes per output: acc, error (or index) and part. */
enum { ACCUMULATOR_ARRAYS = 3 };

typedef struct reduce_context reduce_context;

/* Loads n elements into a contiguous array of the type that kernels compute in. */
typedef void (RM_KERNEL *loader)(ptrdiff_t n, const void *from, ptrdiff_t stride, void *to);

/* The function applied to each element before it is reduced. */
typedef enum {
  IDENTITY,
  ABS,
  SQUARE,
  SQUARED_DIFFERENCE,
  /* NaN as 0 or 1, numbers as 1, and squared differences where they are numbers. */
  NAN_TO_ZERO,
  NAN_TO_ONE,
  IS_NUMBER,
  NAN_SQUARED_DIFFERENCE,
  POW,
  EXP,
  /* In float32, as both operands are loaded. */
  EXP_F32
} element_map;

struct reduce_context {
  const rm_iterator *iterator;
  int32_t opcode;
  int outer_axes;
  bool across;
  /* Whether rows are so short that several are reduced as one. */
  bool narrow;
  /* The size of an element of a, and of b. */
  ptrdiff_t bytes;
  ptrdiff_t second_bytes;
  /* Contiguous elements need no loading. */
  bool direct;
  loader load;
  /* Loads the second operand, in the type of the mapping. Null if there is none. */
  loader load_second;
  /* The function applied after loading, unless run and columns apply it. */
  element_map map;
  double attribute;
  /* The number of elements of one call of run. */
  ptrdiff_t step;
  /* Whether a nonzero accumulator settles the output. */
  bool short_circuits;
  /* Kernels compare or test elements as (x & mask) ^ flip. */
  uint64_t mask;
  uint64_t flip;
  /* The initial value of accumulators. */
  uint64_t identity;
  /* Reduces n contiguous elements into one accumulator. y is the second operand. */
  void (RM_KERNEL *run)(const reduce_context *ctx, ptrdiff_t n, const void *from, double y,
                       accumulators *c);
  /* Reduces n runs of up to FEW_MAX contiguous elements, step bytes apart, each into an accumulator
   * without an error. It may be null. */
  void (RM_KERNEL *few)(ptrdiff_t n, ptrdiff_t length, const void *from, ptrdiff_t step, void *acc);
  /* Reduces rows of n contiguous elements, step bytes apart, into n accumulators. */
  void (RM_KERNEL *columns)(const reduce_context *ctx, ptrdiff_t n, ptrdiff_t rows, const void *from,
                           ptrdiff_t step, accumulators *c);
  /* Completes columns. It is called at least after every FLUSH_ROWS rows and may be null. */
  void (*flush)(ptrdiff_t n, accumulators *c);
  /* Combines n accumulators with those of later elements. */
  void (*combine)(const reduce_context *ctx, ptrdiff_t n, accumulators *to,
                  const accumulators *from);
  /* Stores n outputs. */
  void (*store)(const reduce_context *ctx, ptrdiff_t n, char *out, ptrdiff_t stride,
                const accumulators *c);
  /* The dtype of the output, and the size of an accumulator. */
  int out;
  int accumulator_bytes;
  /* The partition of the work. A unit is up to width outputs along the last outer axis. Its
   * elements may be split into parts, each of which takes `length` positions of the first reduced
   * axis. */
  ptrdiff_t units;
  ptrdiff_t width;
  ptrdiff_t elements;
  ptrdiff_t units_per_task;
  ptrdiff_t parts;
  ptrdiff_t length;
  /* The accumulators of all parts. */
  char *memory;
  /* Whether one element has settled the only output, and the number of parts that ran before the
   * parallel ones. */
  atomic_bool is_settled;
  ptrdiff_t finished_parts;
};

/* ---- loading and storing (reduce_load.c) ----------------------------------------------------- */

/* Loaders by the dtype of the elements. */
extern const loader RM_FOR_ISA(to_i64)[RM_DTYPE_COUNT], RM_FOR_ISA(to_f64)[RM_DTYPE_COUNT];

/* The loader that keeps the dtype. */
loader RM_FOR_ISA(copy_loader)(int dtype);

/* Selects a loader to float32 or, if that is inexact, to float64. Returns true for float64. */
bool RM_FOR_ISA(choose_float_loader)(reduce_context *ctx, int a);

/* Raises the absolute values of elements to the power of order. x must have room for WIDTH elements
 * unless order is 3 or 1/2. */
void RM_FOR_ISA(pow_block)(double order, ptrdiff_t n, double *restrict x);

/* Applies map to n loaded elements. Elements of y are 0 or `step` apart. */
void RM_FOR_ISA(map_elements)(const reduce_context *ctx, element_map map, ptrdiff_t n,
                              double *restrict x, const double *restrict y, ptrdiff_t step);

/* Stores n contiguous float64, or int64 if dtype is not a float. */
void RM_FOR_ISA(store_elements)(int dtype, ptrdiff_t n, const void *from, void *to,
                                ptrdiff_t stride);

/* ---- the choice of kernels ------------------------------------------------------------------- */

/* Each selects the kernels for elements of dtype a and returns false if there are none. */
bool RM_FOR_ISA(choose_float_sum)(reduce_context *ctx, int a, element_map map, bool mapped);
bool RM_FOR_ISA(choose_float_product)(reduce_context *ctx, int a, element_map map);
bool RM_FOR_ISA(choose_int_sum)(reduce_context *ctx, int a);
bool RM_FOR_ISA(choose_int_mean)(reduce_context *ctx, int a);
bool RM_FOR_ISA(choose_int_product)(reduce_context *ctx, int a);
bool RM_FOR_ISA(choose_count)(reduce_context *ctx, int a);
/* The largest or smallest elements or absolute values, or their indices. */
bool RM_FOR_ISA(choose_minmax)(reduce_context *ctx, int a, bool smallest, bool magnitudes,
                               bool arg);

/* The largest or smallest numbers, without NaN. */
bool RM_FOR_ISA(choose_nan_minmax)(reduce_context *ctx, int a, bool smallest);

/* ---- scans (scan.c) -------------------------------------------------------------------------- */

int32_t RM_FOR_ISA(scan)(int32_t opcode, const rm_iterator *it, int outer_axes, int out, int a);

#endif
