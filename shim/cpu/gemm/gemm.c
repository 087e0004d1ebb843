/*
 * Matrix products of every dtype.
 *
 * Each task computes a block of the result. It packs its columns of b into panels unless the
 * kernels can read them in place, and multiplies the panels by rows of a, which usually stay in
 * place. Products with a vector and of small matrices have their own kernels.
 *
 * The compute dtype of narrow floats is float32. Integers of 8 and 16 bits are multiplied in 16
 * bits, because only the low bits of a sum count. The order of every sum depends on sizes and
 * strides alone. This file does not know BLAS.
 */
#include <stdlib.h>
#include <string.h>
#include "gemm_context.h"
#include "matmul_plan.h"

/* Packs a panel of any dtype. */
static void pack_panel(const gemm_context *ctx, pack_function *pack, char *to, const char *from,
                       ptrdiff_t lines, ptrdiff_t width, ptrdiff_t k, ptrdiff_t line_stride,
                       ptrdiff_t stride) {
  if (ctx->same_dtype) {
    pack(to, from, lines, k, line_stride, stride);
    return;
  }
  enum { STEP = 64 };
  /* The widest panel has 16-bit elements: VECTOR_BYTES lines. */
  char tile[STEP * VECTOR_BYTES * 2] __attribute__((aligned(64)));
  const ptrdiff_t size = ctx->kernels->size;
  for (ptrdiff_t p = 0; p < k; p += STEP) {
    const ptrdiff_t step = rm_min(STEP, k - p);
    const char *at = element_at(from, p * stride, ctx->bytes);
    char *panel = to + p * width * size;
    if (line_stride == 1) {
      for (ptrdiff_t q = 0; q < step; q++) {
        RM_FOR_ISA(load_run)(ctx->dtype, tile + q * lines * size,
                             element_at(at, q * stride, ctx->bytes), lines, 1);
      }
      pack(panel, tile, lines, step, 1, lines);
    } else {
      for (ptrdiff_t i = 0; i < lines; i++) {
        RM_FOR_ISA(load_run)(ctx->dtype, tile + i * step * size,
                             element_at(at, i * line_stride, ctx->bytes), step, stride);
      }
      pack(panel, tile, lines, step, step, 1);
    }
  }
}

/* ---- products of blocks ---------------------------------------------------------------------- */

/* A panel of adjacent columns of b: its first column in the block, its data, and the index of the
 * kernel width that reads it. */
typedef struct {
  ptrdiff_t column, columns, row_stride;
  const char *data;
  int width_index;
} panel;

/* Selects the narrowest kernel that covers all remaining columns, if the matrix has that
 * is_full_tile or is packed. */
static int width_for(const int *widths, ptrdiff_t remaining, ptrdiff_t columns) {
  int w = 0;
  while (w + 1 < WIDTH_COUNT && widths[w + 1] > 0 &&
         (widths[w + 1] >= remaining || widths[w] > columns)) {
    w++;
  }
  return w;
}

/* Packs whole panels of contiguous columns, row by row. */
static void pack_contiguous(const gemm_context *ctx, char *to, const char *from, ptrdiff_t panels,
                            ptrdiff_t depth) {
  char converted[BLOCK_PANELS * 2 * VECTOR_BYTES] __attribute__((aligned(64)));
  for (ptrdiff_t p = 0; p < depth; p++) {
    const char *row = element_at(from, p * ctx->b_strides.row, ctx->bytes);
    if (!ctx->same_dtype) {
      RM_FOR_ISA(load_run)(ctx->dtype, converted, row, panels * ctx->kernels->widths[0], 1);
      row = converted;
    }
    for (ptrdiff_t q = 0; q < panels; q++) {
      memcpy(to + (q * depth + p) * 2 * VECTOR_BYTES, row + q * 2 * VECTOR_BYTES, 2 * VECTOR_BYTES);
    }
  }
}

/* Lists the panels of the given columns of b and packs those that kernels cannot read in place. */
static int list_panels(const gemm_context *ctx, const char *b, ptrdiff_t rows, ptrdiff_t columns,
                       ptrdiff_t depth, char *packed, panel *panels) {
  const gemm_kernels *kernels = ctx->kernels;
  const bool is_full_depth = ctx->depth >= ctx->k;
  /* The panels whose rows are contiguous. */
  const bool by_rows = !ctx->direct_b && ctx->b_strides.column == 1 &&
                       kernels->widths[0] * kernels->size == 2 * VECTOR_BYTES;
  const ptrdiff_t contiguous = by_rows ? columns / kernels->widths[0] : 0;
  if (contiguous > 0) pack_contiguous(ctx, packed, b, contiguous, depth);
  int count = 0;
  for (ptrdiff_t q = 0; q < columns;) {
    panel *to = &panels[count++];
    const bool direct = ctx->direct_b && (columns - q >= kernels->widths[0] || is_full_depth) &&
                        (rows < MR || columns >= kernels->widths[1]);
    to->width_index = width_for(kernels->widths, columns - q, direct ? columns : PTRDIFF_MAX);
    /* The kernel for MR rows is faster than the narrow ones for few rows. */
    if (to->width_index > 1 && rows >= MR) to->width_index = 1;
    const ptrdiff_t width = kernels->widths[to->width_index];
    to->column = q;
    to->columns = rm_min(width, columns - q);
    q += to->columns;
    if (direct && columns >= width) {
      /* The last panel starts early enough to be whole, so some columns are computed twice. */
      to->column = q - width;
      to->columns = width;
      to->data = element_at(b, to->column * ctx->b_strides.column, ctx->bytes);
      to->row_stride = ctx->b_strides.row;
      continue;
    }
    to->data = packed;
    to->row_stride = kernels->widths[0];
    if (count > contiguous) {
      pack_panel(ctx, kernels->pack_b, packed,
                 element_at(b, to->column * ctx->b_strides.column, ctx->bytes), to->columns,
                 to->row_stride, depth, ctx->b_strides.column, ctx->b_strides.row);
    }
    packed += to->row_stride * depth * kernels->size;
  }
  return count;
}

/* Rows of a as the kernels read them. */
typedef struct {
  const char *data;
  ptrdiff_t row_stride, column_stride;
} a_rows;

/* Packs adjacent rows of a, one strip of all rows at a time. */
static void pack_rows(const gemm_context *ctx, char *to, const char *a, ptrdiff_t rows,
                      ptrdiff_t depth) {
  for (ptrdiff_t p = 0; p < depth; p += STRIP) {
    for (ptrdiff_t i = 0; i < rows; i += MR) {
      pack_panel(ctx, ctx->kernels->pack_a, to + (i * depth + p * MR) * ctx->kernels->size,
                 element_at(a, i * ctx->a_strides.row + p * ctx->a_strides.column, ctx->bytes),
                 rm_min(MR, rows - i), MR, rm_min(STRIP, depth - p), ctx->a_strides.row,
                 ctx->a_strides.column);
    }
  }
}

/* Copies rows of a to contiguous rows, `pitch` elements apart. */
static void copy_rows(const gemm_context *ctx, char *to, ptrdiff_t pitch, const char *a,
                      ptrdiff_t rows, ptrdiff_t depth) {
  for (ptrdiff_t r = 0; r < rows; r++) {
    RM_FOR_ISA(load_run)(ctx->dtype, to + r * pitch * ctx->kernels->size,
                         element_at(a, r * ctx->a_strides.row, ctx->bytes), depth,
                         ctx->a_strides.column);
  }
}

/* The destination of a block: c, or sums until they are complete. */
typedef struct {
  char *data;
  matrix_strides strides;
  bool direct, holds_sums;
} target;

/* Adds a tile to the target, or stores it there. */
static void store_tile(const gemm_context *ctx, const target *out, ptrdiff_t row, ptrdiff_t column,
                       const char *tile, ptrdiff_t width, ptrdiff_t rows, ptrdiff_t columns,
                       bool add) {
  const ptrdiff_t bytes = out->holds_sums ? ctx->kernels->size : ctx->bytes;
  for (ptrdiff_t r = 0; r < rows; r++, tile += width * ctx->kernels->size) {
    char *to = out->data + ((row + r) * out->strides.row + column * out->strides.column) * bytes;
    if (add) accumulate(ctx->kernels, to, tile, columns);
    else if (out->direct) memcpy(to, tile, (size_t)(columns * bytes));
    else RM_FOR_ISA(store_run)(ctx->dtype, to, tile, columns, out->strides.column);
  }
}

/* Multiplies rows of a by a panel. Stores the result in the target from `row` on, or adds it. */
static void multiply_panel(const gemm_context *ctx, const target *out, ptrdiff_t row,
                           ptrdiff_t rows, const a_rows *a, const panel *b, ptrdiff_t depth,
                           bool add) {
  char tile[MR * 2 * VECTOR_BYTES] __attribute__((aligned(64)));
  const gemm_kernels *kernels = ctx->kernels;
  const ptrdiff_t size = kernels->size, width = kernels->widths[b->width_index];
  const bool is_full_tile = rows == MR && b->width_index < 2;
  const ptrdiff_t group = is_full_tile ? MR : SMALL_MR;
  for (ptrdiff_t i = 0; i < rows; i += group) {
    const ptrdiff_t row_count = rm_min(group, rows - i);
    const bool direct = out->direct && row_count == group && b->columns == width;
    char *to = direct ? out->data + ((row + i) * out->strides.row + b->column) * size : tile;
    const ptrdiff_t stride = direct ? out->strides.row : width;
    const char *from = a->data + i * a->row_stride * size;
    if (is_full_tile) {
      kernels->tile[b->width_index](depth, from, a->row_stride, a->column_stride, b->data,
                                    b->row_stride, to, stride, add && direct);
    } else {
      const void *at[SMALL_MR];
      for (ptrdiff_t r = 0; r < SMALL_MR; r++) {
        at[r] = from + rm_min(r, row_count - 1) * a->row_stride * size;
      }
      kernels->rows4[b->width_index](depth, at, a->column_stride, b->data, b->row_stride, to,
                                     stride, add && direct);
    }
    if (!direct) store_tile(ctx, out, row + i, b->column, tile, width, row_count, b->columns, add);
  }
}

/* Computes the block that starts at the given row and column. */
static void multiply_block(const gemm_context *ctx, ptrdiff_t item, ptrdiff_t first_row,
                           ptrdiff_t first_column, char *workspace) {
  char copy[MR * (DEPTH_BYTES + PADDING_BYTES)] __attribute__((aligned(64)));
  panel panels[BLOCK_PANELS + WIDTH_COUNT];
  const ptrdiff_t size = ctx->kernels->size;
  const ptrdiff_t rows = rm_min(ctx->block_rows, ctx->m - first_row);
  const ptrdiff_t columns = rm_min(ctx->block_columns, ctx->n - first_column);
  const char *a = element_at(ctx->a, (ptrdiff_t)ctx->a_at[item] + first_row * ctx->a_strides.row,
                             ctx->bytes);
  const char *b = element_at(
      ctx->b, (ptrdiff_t)ctx->b_at[item] + first_column * ctx->b_strides.column, ctx->bytes);
  char *c = ctx->c + ((ptrdiff_t)ctx->c_at[item] + first_row * ctx->c_strides.row +
                      first_column * ctx->c_strides.column) *
                         ctx->bytes;
  char *packed_rows = workspace + ctx->packed_b_bytes, *sums = packed_rows + ctx->packed_a_bytes;
  target out = {c, ctx->c_strides, ctx->direct_c, false};
  if (ctx->sums_bytes > 0) out = (target){sums, {ctx->block_columns, 1}, true, true};
  ptrdiff_t p = 0;
  do {
    const ptrdiff_t depth = rm_min(ctx->depth, ctx->k - p);
    const char *right = element_at(b, p * ctx->b_strides.row, ctx->bytes);
    const int count = list_panels(ctx, right, rows, columns, depth, workspace, panels);
    const char *at = element_at(a, p * ctx->a_strides.column, ctx->bytes);
    if (ctx->packed_a_bytes > 0) pack_rows(ctx, packed_rows, at, rows, depth);
    for (ptrdiff_t i = 0; i < rows;) {
      ptrdiff_t row_count = rows - i >= MR ? MR : rm_min(SMALL_MR, rows - i);
      a_rows from;
      if (ctx->packed_a_bytes > 0) {
        from = (a_rows){packed_rows + (i / MR * MR * depth + i % MR) * size, 1, MR};
      } else {
        /* The last rows start early enough to fill the kernel. */
        if (row_count < SMALL_MR && rows >= SMALL_MR && ctx->depth >= ctx->k) {
          i = rows - SMALL_MR, row_count = SMALL_MR;
        }
        from = (a_rows){element_at(at, i * ctx->a_strides.row, ctx->bytes), ctx->a_strides.row,
                        ctx->a_strides.column};
        if (!ctx->direct_a) {
          const ptrdiff_t pitch = depth + PADDING_BYTES / size;
          copy_rows(ctx, copy, pitch, from.data, row_count, depth);
          from = (a_rows){copy, pitch, 1};
        }
      }
      for (int q = 0; q < count; q++) {
        multiply_panel(ctx, &out, i, row_count, &from, &panels[q], depth, p > 0);
      }
      i += row_count;
    }
    p += ctx->depth;
  } while (p < ctx->k);
  if (!out.holds_sums) return;
  for (ptrdiff_t i = 0; i < rows; i++) {
    RM_FOR_ISA(store_run)(ctx->dtype, c + i * ctx->c_strides.row * ctx->bytes,
                          sums + i * ctx->block_columns * size, columns, ctx->c_strides.column);
  }
}

static void block_task(void *context, ptrdiff_t index) {
  const gemm_context *ctx = context;
  char small[STACK_WORKSPACE_BYTES] __attribute__((aligned(64)));
  const ptrdiff_t bytes = ctx->packed_b_bytes + ctx->packed_a_bytes + ctx->sums_bytes;
  const ptrdiff_t blocks = ctx->row_blocks * ctx->column_blocks;
  const ptrdiff_t end = rm_min(ctx->batch * blocks, (index + 1) * ctx->per_task);
  const int slot = ctx->workspace == NULL ? 0 : take_slot(ctx->slot_taken, ctx->slots);
  char *workspace = ctx->workspace == NULL ? small : ctx->workspace + slot * bytes;
  for (ptrdiff_t i = index * ctx->per_task; i < end; i++) {
    if (blocks == 1) {
      multiply_block(ctx, i, 0, 0, workspace);
      continue;
    }
    const ptrdiff_t block = i % blocks;
    multiply_block(ctx, i / blocks, block % ctx->row_blocks * ctx->block_rows,
                   block / ctx->row_blocks * ctx->block_columns, workspace);
  }
  if (ctx->workspace != NULL) atomic_flag_clear(&ctx->slot_taken[slot]);
}

/* The maximum number of columns of a block. */
static ptrdiff_t max_columns(const gemm_context *ctx) {
  return rm_min(BLOCK_COLUMNS, BLOCK_PANELS * ctx->kernels->widths[0]);
}

/* Splits a product into blocks by the sizes alone. Blocks have all columns, or fewer if there would
 * be too few blocks. Rows are split last, because each block packs its own columns. */
static void split_blocks(gemm_context *ctx, double products) {
  const ptrdiff_t width = ctx->kernels->widths[0];
  const double vector_fmas = products / ctx->kernels->lanes;
  /* Blocks that copy rows of a have fewer rows and more columns. */
  const ptrdiff_t narrowest = ctx->direct_a ? width : BLOCK_COLUMNS;
  const ptrdiff_t least_rows = ctx->direct_a ? BLOCK_ROWS : BLOCK_ROWS / 2;
  ptrdiff_t columns = rm_min(max_columns(ctx), ctx->block_columns);
  ptrdiff_t row_blocks = rm_ceil_div(ctx->m, 2 * BLOCK_ROWS);
  for (;;) {
    const double blocks = (double)(ctx->batch * row_blocks * rm_ceil_div(ctx->n, columns));
    if (vector_fmas <= blocks * (blocks < TARGET_BLOCKS ? 2 * MIN_BLOCK_WORK : MAX_BLOCK_WORK)) {
      break;
    }
    if (columns > narrowest) columns = rm_round_up(columns / 2, width);
    else if (ctx->m > row_blocks * least_rows) row_blocks *= 2;
    else break;
  }
  ctx->block_rows = rm_round_up(rm_ceil_div(ctx->m, row_blocks), MR), ctx->block_columns = columns;
  ctx->row_blocks = rm_ceil_div(ctx->m, ctx->block_rows),
  ctx->column_blocks = rm_ceil_div(ctx->n, columns);
}

static int32_t multiply_blocks(gemm_context *ctx) {
  const ptrdiff_t size = ctx->kernels->size, width = ctx->kernels->widths[0];
  const double each = (double)ctx->m * (double)ctx->n * (double)ctx->k;
  const double products = (double)ctx->batch * each;
  const matrix_strides a_strides = ctx->a_strides, b_strides = ctx->b_strides;
  ctx->depth = ctx->k < 1 ? 1 : ctx->k;
  /* The parts of a sum are about equally long. */
  if (ctx->k * size > DEPTH_BYTES) {
    ctx->depth = rm_ceil_div(ctx->k, rm_ceil_div(ctx->k * size, DEPTH_BYTES));
  }
  ctx->direct_c = ctx->same_dtype && ctx->c_strides.column == 1;
  const bool has_conflicts = MR > L1_WAYS && ctx->m >= MR &&
                             a_strides.row * size % L1_WAY_BYTES == 0;
  /* Adjacent rows are read in place unless the steps along them are too far apart. */
  ctx->direct_a = ctx->same_dtype &&
                  ((a_strides.column == 1 && !has_conflicts) || ctx->n < 4 * width ||
                   (a_strides.row == 1 &&
                    rm_abs(a_strides.column) * size * ctx->depth <= 4 * L1_BYTES));
  ctx->direct_b = ctx->same_dtype && b_strides.column == 1 &&
                  (ctx->m <= 2 * MR || rm_abs(b_strides.row) * size * ctx->depth <= L1_BYTES);
  ctx->block_rows = ctx->m;
  ctx->block_columns = (ctx->n + width - 1) & -width;
  ctx->row_blocks = ctx->column_blocks = ctx->per_task = 1;
  if (each > TASK_WORK || ctx->block_columns > max_columns(ctx)) split_blocks(ctx, products);
  else if (ctx->batch > 1) ctx->per_task += (ptrdiff_t)(TASK_WORK / (each + 64));
  const bool packs_b = !ctx->direct_b || (ctx->n & (width - 1)) != 0;
  const bool packs_a = !ctx->direct_a && a_strides.row == 1 && a_strides.column != 1;
  const bool sums = !ctx->direct_c && ctx->depth < ctx->k;
  ctx->packed_b_bytes = packs_b ? rm_round_up(ctx->block_columns * ctx->depth * size, ALIGNMENT)
                                : 0;
  ctx->packed_a_bytes = packs_a ? rm_round_up(rm_round_up(ctx->block_rows, MR) * ctx->depth * size,
                                              ALIGNMENT)
                                : 0;
  ctx->sums_bytes = sums ? rm_round_up(ctx->block_rows * ctx->block_columns * size, ALIGNMENT) : 0;
  const ptrdiff_t bytes = ctx->packed_b_bytes + ctx->packed_a_bytes + ctx->sums_bytes;
  const ptrdiff_t blocks = ctx->batch * ctx->row_blocks * ctx->column_blocks;
  const ptrdiff_t tasks = ctx->per_task == 1 ? blocks : rm_ceil_div(blocks, ctx->per_task);
  gemm_workspace *workspace = NULL;
  if (bytes > STACK_WORKSPACE_BYTES) {
    ctx->slots = (int)rm_min(rm_threads(), tasks);
    workspace = RM_FOR_ISA(workspace_alloc)((size_t)(ctx->slots * bytes), ctx->slots);
    if (workspace == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a matrix product");
    ctx->workspace = workspace->data;
    ctx->slot_taken = workspace->slot_taken;
  }
  run_parallel(tasks, block_task, ctx, products);
  if (workspace != NULL) RM_FOR_ISA(workspace_free)(workspace);
  return RM_OK;
}

int32_t RM_FOR_ISA(own_matmul)(const rm_call *call) {
  const int dtype = call->dtypes[0];
  const gemm_kernels *kernels = RM_FOR_ISA(gemm_kernels)(dtype);
  if (kernels == NULL) return RM_UNSUPPORTED;
  const double *plan = call->numbers;
  const ptrdiff_t batch = (ptrdiff_t)plan[RM_BATCH];
  gemm_context ctx = {
      .dtype = dtype,
      .kernels = kernels,
      .bytes = rm_itemsize(dtype),
      .same_dtype = rm_itemsize(dtype) == kernels->size,
      .m = (ptrdiff_t)plan[RM_M],
      .n = (ptrdiff_t)plan[RM_N],
      .k = (ptrdiff_t)plan[RM_K],
      .batch = batch,
      .c_strides = {(ptrdiff_t)plan[RM_C_ROW], (ptrdiff_t)plan[RM_C_COLUMN]},
      .a_strides = {(ptrdiff_t)plan[RM_A_ROW], (ptrdiff_t)plan[RM_A_COLUMN]},
      .b_strides = {(ptrdiff_t)plan[RM_B_ROW], (ptrdiff_t)plan[RM_B_COLUMN]},
      .c = call->buffers[0],
      .a = call->buffers[1],
      .b = call->buffers[2],
      .c_at = plan + RM_MATMUL_FIELDS,
      .a_at = plan + RM_MATMUL_FIELDS + batch,
      .b_at = plan + RM_MATMUL_FIELDS + 2 * batch,
  };
  if (ctx.m < 1 || ctx.n < 1 || ctx.batch < 1) return RM_OK;
  if (RM_FOR_ISA(multiply_small)(&ctx, call->kept)) return RM_OK;
  if (ctx.m == 1 || ctx.n == 1) return RM_FOR_ISA(multiply_vector)(&ctx);
  if (ctx.c_strides.column != 1 && ctx.c_strides.row == 1) {
    /* The transpose has contiguous rows: c' = b' a'. */
    const gemm_context t = ctx;
    ctx.m = t.n, ctx.n = t.m;
    ctx.c_strides = (matrix_strides){t.c_strides.column, t.c_strides.row};
    ctx.a_strides = (matrix_strides){t.b_strides.column, t.b_strides.row};
    ctx.b_strides = (matrix_strides){t.a_strides.column, t.a_strides.row};
    ctx.a = t.b, ctx.b = t.a, ctx.a_at = t.b_at, ctx.b_at = t.a_at;
    if (RM_FOR_ISA(multiply_small)(&ctx, NULL)) return RM_OK;
  }
  return multiply_blocks(&ctx);
}
