/*
 * What the files of matrix products share: the shapes of the kernels, their table, and the context
 * of a call.
 */
#ifndef ROWMAJOR_GEMM_CONTEXT_H
#define ROWMAJOR_GEMM_CONTEXT_H

#include <stdatomic.h>
#include "internal.h"

/* ---- the shapes of the kernels --------------------------------------------------------------- */

/* A kernel holds MR rows of 2 vectors of VECTOR_BYTES in registers, and one pointer for every
 * ROWS_PER_POINTER rows of a. A pass covers DEPTH_BYTES of each row, so that MR rows fit the L1
 * cache and the columns of a block fit the L2 cache. Matrices with sides up to SMALL_MAX are not
 * packed: up to there, four rows of one vector each were measured to be no slower than more. */
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, MR = 12, ROWS_PER_POINTER = 3, DEPTH_BYTES = 2048, SMALL_MAX = 32 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32, MR = 6, ROWS_PER_POINTER = 3, DEPTH_BYTES = 1024, SMALL_MAX = 15 };
#elif defined(__aarch64__)
enum { VECTOR_BYTES = 16, MR = 8, ROWS_PER_POINTER = 2, DEPTH_BYTES = 1024, SMALL_MAX = 8 };
#elif defined(__wasm__)
enum { VECTOR_BYTES = 16, MR = 4, ROWS_PER_POINTER = 4, DEPTH_BYTES = 2048, SMALL_MAX = 8 };
#else
enum { VECTOR_BYTES = 16, MR = 4, ROWS_PER_POINTER = 2, DEPTH_BYTES = 1024, SMALL_MAX = 8 };
#endif

enum {
  /* The rows of the kernels for the rest of a block. */
  SMALL_MR = 4,
  WIDTH_COUNT = 4,
  /* A block has at most this many columns and panels, and about this many rows. */
  BLOCK_COLUMNS = 256,
  BLOCK_PANELS = 32,
  BLOCK_ROWS = 256,
  /* Products are split into this many blocks unless those would be too small. */
  TARGET_BLOCKS = 8,
  /* Bytes that stay in the L1 cache if their rows are not too far apart. */
  L1_BYTES = 32 << 10,
  /* Lines this many bytes apart share a set of the L1 cache, which has at least L1_WAYS of them.
   * More rows of a are copied, with padding between them. */
  L1_WAY_BYTES = 4 << 10,
  L1_WAYS = 8,
  PADDING_BYTES = 64,
  /* The depth to which all rows of a are packed before packing continues. */
  STRIP = 16,
  /* The longest sum that is added sequentially. */
  SMALL_SUM_MAX = 8,
  /* The workspace that a task has on its stack. */
  STACK_WORKSPACE_BYTES = 16 << 10,
  /* A larger workspace is freed after the call. */
  CACHED_WORKSPACE_BYTES = 32 << 20,
  ALIGNMENT = 64,
  /* The matrix elements per task of a product with a vector: rows (or columns), and the depth along
   * the sum. */
  GEMV_ROWS = 1024,
  DOT_DEPTH = 65536,
  DOT_ELEMENTS = 16384,
  AXPY_DEPTH = 256,
  DOT_CHUNK = 512
};

/* About how many multiply-adds of vectors a core executes per nanosecond. */
static const double VECTOR_FMAS_PER_NS = 4;
/* The minimum and maximum work of a block in multiply-adds of vectors, as far as its rows and
 * columns allow, and the work per task of small or tall matrices in multiply-adds of elements. */
static const double MIN_BLOCK_WORK = 1 << 14, MAX_BLOCK_WORK = 1 << 24, TASK_WORK = 1 << 16;

/* ---- kernels per compute dtype (gemm_kernels.c) ---------------------------------------------- */

typedef void tile_function(ptrdiff_t k, const void *a, ptrdiff_t row, ptrdiff_t a_step,
                           const void *b, ptrdiff_t b_step, void *c, ptrdiff_t stride, bool add);
typedef void rows4_function(ptrdiff_t k, const void *const *rows, ptrdiff_t a_step, const void *b,
                            ptrdiff_t b_step, void *c, ptrdiff_t stride, bool add);
typedef void pack_function(void *to, const void *from, ptrdiff_t lines, ptrdiff_t k,
                           ptrdiff_t line_stride, ptrdiff_t stride);

/* The kernels of one compute dtype. */
typedef struct {
  ptrdiff_t size;
  int lanes;
  /* The number 1. */
  const void *one;
  void (*gemv_dot)(ptrdiff_t rows, ptrdiff_t k, const void *a, ptrdiff_t row, const void *x,
                   void *sums);
  void (*gemv_axpy)(ptrdiff_t columns, int rows, const void *a, ptrdiff_t step, const void *x,
                    void *y);
  pack_function *pack_a, *pack_b;
  /* The kernels for MR rows and two vectors or one. */
  tile_function *tile[2];
  /* The columns of each rows4 kernel, the widest first. 0 means none. */
  int widths[WIDTH_COUNT];
  rows4_function *rows4[WIDTH_COUNT];
} gemm_kernels;

/* Returns null if there are none. */
const gemm_kernels *RM_FOR_ISA(gemm_kernels)(int dtype);

/* ---- conversion between storage and compute dtype (gemm_convert.c) --------------------------- */

/* to[i] = from[i * stride], converted to the compute dtype. */
void RM_FOR_ISA(load_run)(int dtype, void *to, const void *from, ptrdiff_t count, ptrdiff_t stride);

/* to[i * stride] = from[i], converted to the storage dtype. */
void RM_FOR_ISA(store_run)(int dtype, void *to, const void *from, ptrdiff_t count,
                           ptrdiff_t stride);

/* ---- the call -------------------------------------------------------------------------------- */

typedef struct {
  ptrdiff_t row, column;
} matrix_strides;

/* The context of a call. Sizes and strides are in elements. */
typedef struct {
  int dtype;
  const gemm_kernels *kernels;
  /* The size of a stored element, and whether the storage dtype is the compute dtype. */
  ptrdiff_t bytes;
  bool same_dtype;
  ptrdiff_t m, n, k, batch;
  matrix_strides c_strides, a_strides, b_strides;
  char *c;
  const char *a, *b;
  const double *c_at, *a_at, *b_at;

  /* The blocks of the tasks, the depth of a pass, and the small matrices per task. */
  ptrdiff_t block_rows, block_columns, depth, row_blocks, column_blocks, per_task;
  /* Whether kernels access c, a and b in place. */
  bool direct_c, direct_a, direct_b;
  /* The sizes of packed columns of b, packed rows of a and sums in the workspace of a task. */
  ptrdiff_t packed_b_bytes, packed_a_bytes, sums_bytes;
  /* The workspaces of all tasks that run at once, and flags for those in use. */
  char *workspace;
  atomic_flag *slot_taken;
  int slots;

  /* For products with a vector: the matrix, how it is split, and the sums of the parts. */
  const char *matrix, *vector;
  const double *matrix_at, *vector_at;
  ptrdiff_t matrix_rows, line_stride, stride, vector_stride, out_stride;
  ptrdiff_t task_rows, part_depth, row_tasks, parts;
  char *sums;
  bool uses_axpy;
} gemm_context;

static inline const char *element_at(const char *base, ptrdiff_t offset, ptrdiff_t bytes) {
  return base + offset * bytes;
}

static inline void run_parallel(ptrdiff_t tasks, void (*task)(void *context, ptrdiff_t index),
                                gemm_context *ctx, double products) {
  rm_parallel(tasks, products / ctx->kernels->lanes / VECTOR_FMAS_PER_NS, task, ctx);
}

/* to += from. */
static inline void accumulate(const gemm_kernels *kernels, void *to, const void *from,
                              ptrdiff_t count) {
  kernels->gemv_axpy(count, 1, from, 0, kernels->one, to);
}

/* A workspace that is reused by the next call. data is aligned for the widest vectors. */
typedef struct {
  size_t size;
  char *data;
  int slots;
  atomic_flag slot_taken[];
} gemm_workspace;

/* Allocates a workspace with clear slots. Returns null if memory is exhausted. */
gemm_workspace *RM_FOR_ISA(workspace_alloc)(size_t size, int slots);
void RM_FOR_ISA(workspace_free)(gemm_workspace *used);

/* The part of a workspace for one task: at most `slots` tasks run at once. Each thread usually finds
 * the slot of its last task free. */
static inline int take_slot(atomic_flag *taken, int slots) {
  int slot = 0;
  while (atomic_flag_test_and_set(&taken[slot])) slot = (slot + 1) % slots;
  return slot;
}

/* ---- special products ------------------------------------------------------------------------ */

/* Multiplies small matrices, or tall ones by small ones, in place. Returns false if it does not
 * apply. May keep the call in `kept`, unless null; then a and b are the first and second operand. */
bool RM_FOR_ISA(multiply_small)(const gemm_context *ctx, rm_kept **kept);

/* Multiplies with a vector. The matrix is read once, in place. */
int32_t RM_FOR_ISA(multiply_vector)(gemm_context *ctx);

#endif
