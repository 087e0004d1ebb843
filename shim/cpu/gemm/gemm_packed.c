/*
 * x times a packed weight, plus bias, through an activation, plus a residual.
 *
 * A task computes some panels of some rows. It adds the products of a block of the depth at a time,
 * so that rows of a long panel stay in the cache, and applies the rest to the sums while they are in
 * the L1 cache. Rows of x are read in place, unless they have 16 bits or would evict each other.
 *
 * Sums are float32. Results are rounded once, after the residual. The order of every sum depends on
 * the depth alone: a row has the same result among any number of rows.
 */
#include "gemm_packed.h"
#include "map_context.h"
#include "row_product.h"

enum {
  /* The depth of a block: 64 KB of a panel of float32. */
  BLOCK_DEPTH = 512,
  MOST_BLOCK_ROWS = 128,
  PADDING = 16,
  /* With several blocks of rows, a task has up to SHARING_PANELS panels, if at least LEAST_TASKS tasks
   * remain. */
  SHARING_PANELS = 8,
  LEAST_TASKS = 32,
  /* Elements of x that a task converts. */
  CONVERTED = 1 << 16
};

/* The minimum work of a task, and how many bytes of the weight arrive per nanosecond. */
static const double TASK_NS = 4000, BYTES_PER_NS = 20;

typedef struct {
  ptrdiff_t rows, columns, depth, panels, panel_bytes;
  const float *x;
  ptrdiff_t x_stride;
  const char *weight;
  int weight_dtype;
  /* These, and x_source, in the dtype of the result. */
  char *out;
  const char *bias, *add;
  ptrdiff_t out_stride, add_stride;
  int dtype;
  map_function activation;
  ptrdiff_t row_blocks, panels_per_task;
  /* For the conversion of x. */
  const char *x_source;
  ptrdiff_t x_source_stride, rows_per_task;
} packed_context;

/* ---- the rest of the expression -------------------------------------------------------------- */

static RM_ALWAYS_INLINE float load(int dtype, const char *from, ptrdiff_t i) {
  if (dtype == RM_FLOAT32) return ((const float *)from)[i];
  const uint16_t bits = ((const uint16_t *)from)[i];
  return dtype == RM_FLOAT16 ? rm_f16_to_f32(bits) : rm_bf16_to_f32(bits);
}

static RM_ALWAYS_INLINE void store(int dtype, char *to, ptrdiff_t i, float x) {
  if (dtype == RM_FLOAT32) ((float *)to)[i] = x;
  else ((uint16_t *)to)[i] = dtype == RM_FLOAT16 ? rm_f32_to_f16(x) : rm_f32_to_bf16(x);
}

/* Adds a row of the residual, if there is one, and stores n columns. */
static RM_ALWAYS_INLINE void store_columns(int dtype, char *to, const float *sums, const char *add,
                                           ptrdiff_t n) {
  if (add == NULL) {
    RM_ANY_ORDER RM_ROLLED for (ptrdiff_t j = 0; j < n; j++) store(dtype, to, j, sums[j]);
  } else {
    RM_ANY_ORDER RM_ROLLED for (ptrdiff_t j = 0; j < n; j++) {
      store(dtype, to, j, sums[j] + load(dtype, add, j));
    }
  }
}

/* The same for a whole row of a panel and float32. */
static RM_ALWAYS_INLINE void store_vectors(char *to, const float *sums, const char *add) {
  UNROLL for (int at = 0; at < 4 * PANEL_COLUMNS; at += VECTOR_BYTES) {
    v_f32 x = *(const v_f32 *)((const char *)sums + at);
    if (add != NULL) x += *(const v_f32 *)(add + at);
    *(v_f32 *)(to + at) = x;
  }
}

/* Completes the sums of rows of a panel, and writes them to out. */
static void finish(const packed_context *ctx, float *sums, ptrdiff_t row, ptrdiff_t rows,
                   ptrdiff_t panel) {
  const ptrdiff_t column = panel * PANEL_COLUMNS, bytes = rm_itemsize(ctx->dtype);
  const ptrdiff_t columns = rm_min(PANEL_COLUMNS, ctx->columns - column);
  if (ctx->bias != NULL) {
    float bias[PANEL_COLUMNS] = {0};
    RM_ROLLED for (ptrdiff_t j = 0; j < columns; j++) {
      bias[j] = load(ctx->dtype, ctx->bias, column + j);
    }
    for (ptrdiff_t i = 0; i < rows; i++) {
      char *to = (char *)(sums + i * PANEL_COLUMNS);
      store_vectors(to, sums + i * PANEL_COLUMNS, (const char *)bias);
    }
  }
  if (ctx->activation != NULL) {
    ctx->activation(rows * PANEL_COLUMNS, sums, sums, NULL, NULL, NULL);
  }
  for (ptrdiff_t i = 0; i < rows; i++, sums += PANEL_COLUMNS) {
    char *to = ctx->out + ((row + i) * ctx->out_stride + column) * bytes;
    const char *add = NULL;
    if (ctx->add != NULL) add = ctx->add + ((row + i) * ctx->add_stride + column) * bytes;
    if (ctx->dtype == RM_FLOAT16) store_columns(RM_FLOAT16, to, sums, add, columns);
    else if (ctx->dtype == RM_BFLOAT16) store_columns(RM_BFLOAT16, to, sums, add, columns);
    else if (columns == PANEL_COLUMNS) store_vectors(to, sums, add);
    else store_columns(RM_FLOAT32, to, sums, add, columns);
  }
}

/* ---- products -------------------------------------------------------------------------------- */

/* All rows, which are few, times panels [panel, end). False if there is no kernel. */
static bool multiply_few(const packed_context *ctx, ptrdiff_t panel, ptrdiff_t end) {
  float sums[2 * FEW_ROWS * PANEL_COLUMNS] __attribute__((aligned(64)));
  const ptrdiff_t rows = ctx->rows;
  const ptrdiff_t row_bytes = PANEL_COLUMNS * rm_itemsize(ctx->weight_dtype);
  for (int panels; panel < end; panel += panels) {
    panels = rows <= PAIR_ROWS && panel + 1 < end ? 2 : 1;
    packed_panel_kernel *kernel = RM_FOR_ISA(packed_panel_kernel)(ctx->weight_dtype, rows, panels);
    if (kernel == NULL) return false;
    const char *from = ctx->weight + panel * ctx->panel_bytes;
    ptrdiff_t p = 0;
    do {
      kernel(rm_min(BLOCK_DEPTH, ctx->depth - p), ctx->x + p, ctx->x_stride, from + p * row_bytes,
             sums, p > 0, ctx->panel_bytes);
      p += BLOCK_DEPTH;
    } while (p < ctx->depth);
    for (int q = 0; q < panels; q++) {
      finish(ctx, sums + q * rows * PANEL_COLUMNS, 0, rows, panel + q);
    }
  }
  return true;
}

/* Rows [first, last) times a panel. The passes of the first tile over a block of it also ask for
 * memory: for their own strips, shortly before they read them, or, where those are copies, for parts
 * of the next block. */
static void multiply_rows(const packed_context *ctx, ptrdiff_t first, ptrdiff_t last,
                          ptrdiff_t panel, float *widened) {
  enum { STRIPS = PANEL_COLUMNS / STRIP_COLUMNS };
  float sums[MOST_BLOCK_ROWS * PANEL_COLUMNS] __attribute__((aligned(64)));
  const ptrdiff_t rows = last - first, tiles = rm_ceil_div(rows, TILE_ROWS);
  const ptrdiff_t row_bytes = PANEL_COLUMNS * rm_itemsize(ctx->weight_dtype);
  ptrdiff_t p = 0;
  do {
    const ptrdiff_t depth = rm_min(BLOCK_DEPTH, ctx->depth - p);
    const char *block = ctx->weight + panel * ctx->panel_bytes + p * row_bytes;
    const float *from = (const float *)block;
    const char *ahead = block + AHEAD_BYTES;
    ptrdiff_t strip_bytes = row_bytes / STRIPS, step = row_bytes;
    if (ctx->weight_dtype != RM_FLOAT32) {
      RM_FOR_ISA(packed_widen)(ctx->weight_dtype, depth, block, widened);
      from = widened;
      ahead = block + depth * row_bytes;
      step = row_bytes / STRIPS;
      strip_bytes = depth * step;
    }
    for (ptrdiff_t tile = 0, row = 0; tile < tiles; tile++) {
      const ptrdiff_t next = (tile + 1) * rows / tiles;
      for (int strip = 0; strip < STRIPS; strip++) {
        RM_FOR_ISA(packed_strip_kernel)(next - row)(
            depth, ctx->x + (first + row) * ctx->x_stride + p, ctx->x_stride,
            from + strip * STRIP_COLUMNS, sums + row * PANEL_COLUMNS + strip * STRIP_COLUMNS, p > 0,
            ahead + strip * strip_bytes, step);
      }
      if (p + depth >= ctx->depth) {
        finish(ctx, sums + row * PANEL_COLUMNS, first + row, next - row, panel);
      }
      row = next;
      ahead = block, strip_bytes = step = 0;
    }
    p += BLOCK_DEPTH;
  } while (p < ctx->depth);
}

static void multiply_task(void *context, ptrdiff_t index) {
  const packed_context *ctx = context;
  float widened[BLOCK_DEPTH * PANEL_COLUMNS] __attribute__((aligned(64)));
  const ptrdiff_t block = index % ctx->row_blocks;
  const ptrdiff_t panel = index / ctx->row_blocks * ctx->panels_per_task;
  const ptrdiff_t end = rm_min(ctx->panels, panel + ctx->panels_per_task);
  if (ctx->rows <= FEW_ROWS && multiply_few(ctx, panel, end)) return;
  const ptrdiff_t first = block * ctx->rows / ctx->row_blocks;
  const ptrdiff_t last = (block + 1) * ctx->rows / ctx->row_blocks;
  for (ptrdiff_t q = panel; q < end; q++) multiply_rows(ctx, first, last, q, widened);
}

/* ---- the call -------------------------------------------------------------------------------- */

static void convert_task(void *context, ptrdiff_t index) {
  const packed_context *ctx = context;
  const ptrdiff_t first = index * ctx->rows_per_task;
  const ptrdiff_t last = rm_min(ctx->rows, first + ctx->rows_per_task);
  for (ptrdiff_t i = first; i < last; i++) {
    RM_FOR_ISA(load_run)(ctx->dtype, (float *)ctx->x + i * ctx->x_stride,
                         element_at(ctx->x_source, i * ctx->x_source_stride,
                                    rm_itemsize(ctx->dtype)),
                         ctx->depth, 1);
  }
}

/* Copies x to rows of float32 that do not share sets of the L1 cache; null without memory. */
static gemm_workspace *convert(packed_context *ctx) {
  ptrdiff_t stride = rm_round_up(ctx->depth, PADDING);
  if (stride * 4 % L1_WAY_BYTES == 0) stride += PADDING;
  gemm_workspace *workspace =
      RM_FOR_ISA(workspace_alloc)((size_t)(ctx->rows * stride) * sizeof(float), 0);
  if (workspace == NULL) return NULL;
  ctx->x = (const float *)workspace->data;
  ctx->x_stride = stride;
  ctx->rows_per_task = 1 + CONVERTED / (ctx->depth + 1);
  rm_parallel(rm_ceil_div(ctx->rows, ctx->rows_per_task),
              0.25 * (double)ctx->rows * (double)ctx->depth, convert_task, ctx);
  return workspace;
}

/* Whether an optional operand is one of `dtype`, or not given. */
static bool is_operand_of(const rm_call *call, int buffer, int dtype) {
  return buffer < 0 || (buffer < call->operands && call->buffers[buffer] != NULL &&
                        call->dtypes[buffer] == dtype);
}

int32_t RM_FOR_ISA(linear_packed)(const rm_call *call) {
  const double *numbers = call->numbers;
  const int dtype = call->dtypes[0], weight_dtype = call->dtypes[2];
  const int activation = (int)numbers[ACTIVATION];
  const int bias = (int)numbers[BIAS_BUFFER], add = (int)numbers[ADD_BUFFER];
  if (!rm_fits_float32(dtype) || !rm_fits_float32(weight_dtype) || call->dtypes[1] != dtype) {
    return rm_fail(RM_UNSUPPORTED, "no product of dtypes %d and %d", dtype, weight_dtype);
  }
  const ptrdiff_t bytes = rm_itemsize(dtype);
  packed_context ctx = {
      .rows = (ptrdiff_t)numbers[ROWS],
      .columns = (ptrdiff_t)numbers[COLUMNS],
      .depth = (ptrdiff_t)numbers[DEPTH],
      .weight = call->buffers[2],
      .weight_dtype = weight_dtype,
      .out = (char *)call->buffers[0] + (ptrdiff_t)numbers[OUT_OFFSET] * bytes,
      .out_stride = (ptrdiff_t)numbers[OUT_STRIDE],
      .dtype = dtype,
      .x_source = element_at(call->buffers[1], (ptrdiff_t)numbers[X_OFFSET], bytes),
      .x_source_stride = (ptrdiff_t)numbers[X_STRIDE],
  };
  if (ctx.rows <= 0 || ctx.columns <= 0) return RM_OK;
  if (call->buffers[0] == NULL ||
      (ctx.depth > 0 && (call->buffers[1] == NULL || call->buffers[2] == NULL))) {
    return rm_fail(RM_BAD_ARGUMENT, "a packed product without an operand");
  }
  if (!is_operand_of(call, bias, dtype) || !is_operand_of(call, add, dtype)) {
    return rm_fail(RM_BAD_ARGUMENT, "a packed product without its bias or residual");
  }
  if (!has_activation(activation)) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no activation %d", activation);
  }
  ctx.panels = rm_ceil_div(ctx.columns, PANEL_COLUMNS);
  ctx.panel_bytes = ctx.depth * PANEL_COLUMNS * rm_itemsize(weight_dtype);
  if (bias >= 0) {
    ctx.bias = element_at(call->buffers[bias], (ptrdiff_t)numbers[BIAS_OFFSET], bytes);
  }
  if (add >= 0) {
    ctx.add = element_at(call->buffers[add], (ptrdiff_t)numbers[ADD_OFFSET], bytes);
    ctx.add_stride = (ptrdiff_t)numbers[ADD_STRIDE];
  }
  if (activation != RM_ACTIVATION_NONE) {
    ctx.activation = RM_FOR_ISA(map_kernel)(activation_op(activation), RM_FLOAT32);
  }
  gemm_workspace *workspace = NULL;
  const bool has_conflicts = ctx.rows > L1_WAYS && TILE_ROWS > L1_WAYS &&
                             ctx.x_source_stride * bytes % L1_WAY_BYTES == 0;
  if (dtype == RM_FLOAT32 && !has_conflicts) {
    ctx.x = (const float *)ctx.x_source;
    ctx.x_stride = ctx.x_source_stride;
  } else {
    workspace = convert(&ctx);
    if (workspace == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a matrix product");
  }
  ctx.row_blocks = rm_ceil_div(ctx.rows, MOST_BLOCK_ROWS);
  const double products = (double)ctx.rows * PANEL_COLUMNS * (double)ctx.depth;
  const double panel_ns = products / (VECTOR_BYTES / 4) / VECTOR_FMAS_PER_NS +
                          (double)ctx.panel_bytes / BYTES_PER_NS;
  const double per_task = 1 + TASK_NS * (double)ctx.row_blocks / (panel_ns + 1);
  ctx.panels_per_task = rm_min(ctx.panels, (ptrdiff_t)per_task);
  if (ctx.row_blocks > 1) {
    /* Rows that have arrived in the cache are used several times. */
    const ptrdiff_t shared = rm_min(SHARING_PANELS, ctx.panels * ctx.row_blocks / LEAST_TASKS);
    if (shared > ctx.panels_per_task) ctx.panels_per_task = shared;
  }
  if (ctx.rows <= PAIR_ROWS) ctx.panels_per_task += ctx.panels_per_task & 1;
  rm_parallel(ctx.row_blocks * rm_ceil_div(ctx.panels, ctx.panels_per_task),
              panel_ns * (double)ctx.panels, multiply_task, &ctx);
  if (workspace != NULL) RM_FOR_ISA(workspace_free)(workspace);
  return RM_OK;
}
