/*
 * What the files of matrix products share: the shapes of kernels, their tables, and the context of a
 * call.
 */
#ifndef ROWMAJOR_GEMM_CONTEXT_H
#define ROWMAJOR_GEMM_CONTEXT_H

#include <stdatomic.h>
#include "internal.h"

/* ---- shapes of the kernels ------------------------------------------------------------------- */

/*
 * A kernel holds MR rows of 2 vectors of BYTES bytes in registers, and has a pointer for each SPAN
 * rows of a. It goes DEPTH_BYTES along them at a time: MR rows fit the first-level cache then, and
 * the columns of a block the second-level one.
 */
#if defined(__AVX512F__)
enum { BYTES = 64, MR = 12, SPAN = 3, DEPTH_BYTES = 2048 };
#elif defined(__AVX2__)
enum { BYTES = 32, MR = 6, SPAN = 3, DEPTH_BYTES = 1024 };
#elif defined(__aarch64__)
enum { BYTES = 16, MR = 8, SPAN = 2, DEPTH_BYTES = 1024 };
#else
enum { BYTES = 16, MR = 4, SPAN = 2, DEPTH_BYTES = 1024 };
#endif

enum {
  /* Rows that the kernels for the rest of a block take. */
  FEW = 4,
  WIDTH_COUNT = 4,
  /* A block has at most so many columns, in at most so many panels, and about so many rows. */
  BLOCK_COLUMNS = 256,
  BLOCK_PANELS = 32,
  BLOCK_ROWS = 256,
  /* Blocks that a product is cut into, if they are not too small. */
  MANY_BLOCKS = 8,
  /* Bytes that stay in the first-level cache, as far as the gaps between their rows allow. */
  NEAR_BYTES = 32 << 10,
  /* Bytes after which lines share places in the first-level cache, and how many there are for those
   * at least: more rows of a are copied, with gaps between them. */
  SET_BYTES = 4 << 10,
  WAYS = 8,
  GAP_BYTES = 64,
  /* Depth to which rows of a are copied before the next rows are. */
  STRIP = 16,
  /* Rows and columns of small matrices, which are not packed: as measured, up to there one vector
   * for each of four rows is no slower than more of them. */
  SMALL_SIDE = BYTES == 64 ? 32 : BYTES == 32 ? 15 : 8,
  /* Products that are added up one by one. */
  SMALL_SUM = 8,
  /* Working memory that a task has on its stack. */
  STACK_BYTES = 16 << 10,
  /* Larger working memory is let go after the call. */
  KEPT_BYTES = 32 << 20,
  ALIGNMENT = 64,
  /* Elements that a vector's product takes from its matrix for one task: rows (or columns) and how
   * far it goes along the sum. */
  RUN = 1024,
  DOT_DEPTH = 65536,
  DOT_ELEMENTS = 16384,
  SWEEP_DEPTH = 256,
  CHUNK = 512
};

/* About how many products of vectors a core makes in a nanosecond. */
static const double VECTORS_EACH_NANOSECOND = 4;
/* Products of vectors: those that a block has at least and at most, as long as that leaves it some
 * rows and columns. Products of elements that one task makes of small matrices, or of tall ones. */
static const double WORTH_A_BLOCK = 1 << 14, LARGE_BLOCK = 1 << 24, SMALL_WORK = 1 << 16;

/* ---- kinds of arithmetic (gemm_kernels.c) ----------------------------------------------------- */

typedef void wide_function(ptrdiff_t k, const void *a, ptrdiff_t row, ptrdiff_t a_step,
                           const void *b, ptrdiff_t b_step, void *c, ptrdiff_t stride, bool add);
typedef void direct_function(ptrdiff_t k, const void *const *rows, ptrdiff_t a_step, const void *b,
                             ptrdiff_t b_step, void *c, ptrdiff_t stride, bool add);
typedef void pack_function(void *to, const void *from, ptrdiff_t lines, ptrdiff_t k,
                           ptrdiff_t line_stride, ptrdiff_t stride);

/* One kind of arithmetic. */
typedef struct {
  ptrdiff_t size;
  int lanes;
  /* The number 1. */
  const void *one;
  void (*lines)(ptrdiff_t rows, ptrdiff_t k, const void *a, ptrdiff_t row, const void *x,
                void *sums);
  void (*sweep)(ptrdiff_t columns, int rows, const void *a, ptrdiff_t step, const void *x, void *y);
  pack_function *pack_a, *pack_b;
  /* The kernels for MR rows and two vectors, or one. */
  wide_function *wide[2];
  /* Columns that each of the direct kernels takes, from the widest on; 0 where there is none. */
  int widths[WIDTH_COUNT];
  direct_function *direct[WIDTH_COUNT];
} kind;

/* Null where there is none. */
const kind *RM_AT(gemm_kind)(int dtype);

/* ---- elements in and out of the arithmetic (gemm_convert.c) ----------------------------------- */

/* to[i] = from[i * stride], converted from dtype to that of its arithmetic. */
void RM_AT(load_run)(int dtype, void *to, const void *from, ptrdiff_t count, ptrdiff_t stride);

/* to[i * stride] = from[i], converted back. */
void RM_AT(store_run)(int dtype, void *to, const void *from, ptrdiff_t count, ptrdiff_t stride);

/* ---- the call -------------------------------------------------------------------------------- */

typedef struct {
  ptrdiff_t row, column;
} strides;

/* A call, and the part of it that is under way. Sizes and strides are in elements. */
typedef struct {
  int dtype;
  const kind *kind;
  /* Bytes of an element in memory; raw when that is also what the arithmetic takes. */
  ptrdiff_t bytes;
  bool raw;
  ptrdiff_t m, n, k, batch;
  strides of_c, of_a, of_b;
  char *c;
  const char *a, *b;
  const double *c_at, *a_at, *b_at;

  /* The blocks that tasks take, how deep they go at a time, and small matrices for one task. */
  ptrdiff_t rows, columns, depth, row_blocks, column_blocks, per_task;
  /* Whether kernels write where c lies, and whether they read a and b where those lie. */
  bool direct_c, direct_a, direct_b;
  /* Bytes of packed columns of b, of packed rows of a and of sums, where a task needs them. */
  ptrdiff_t packed_bytes, rows_bytes, sums_bytes;
  /* Working memory of as many tasks as run at a time, and which of it is in use. */
  char *work;
  atomic_flag *taken;
  int places;

  /* With a vector: the rows of the matrix, how they are cut, and the sums of the parts. */
  const char *matrix, *vector;
  const double *matrix_at, *vector_at;
  ptrdiff_t lines, line_stride, stride, vector_stride, out_stride;
  ptrdiff_t run, part, runs, parts;
  char *sums;
  bool sweeps;
} job;

static inline const char *place(const char *base, ptrdiff_t offset, ptrdiff_t bytes) {
  return base + offset * bytes;
}

static inline void run_tasks(ptrdiff_t tasks, void (*task)(void *context, ptrdiff_t index), job *j,
                      double products) {
  rm_parallel(tasks, products / j->kind->lanes / VECTORS_EACH_NANOSECOND, task, j);
}

/* to += from. */
static inline void add_run(const kind *of, void *to, const void *from, ptrdiff_t count) {
  of->sweep(count, 1, from, 0, of->one, to);
}

/* Working memory that the last call left: data is aligned for the widest vectors. */
typedef struct {
  size_t size;
  char *data;
  int flags;
  atomic_flag taken[];
} workspace;

/* So many bytes, and flags that are clear; null where there is no memory. */
workspace *RM_AT(take_workspace)(size_t size, int flags);
void RM_AT(leave_workspace)(workspace *used);

/* ---- parts of the product -------------------------------------------------------------------- */

/* Multiplies small matrices, and tall ones by small ones, where they lie; false when others have
 * to. */
bool RM_AT(multiply_small)(const job *j);

/* Products with a vector: the matrix is read once, where it lies. */
int32_t RM_AT(multiply_vector)(job *j);

#endif
