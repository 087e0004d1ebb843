/*
 * x times a quantized weight, plus bias, through an activation, plus a residual.
 *
 * Rows of x are rounded to 8 bits, in parts of 32 elements with a scale each, so that products of
 * parts are sums of integers. The weight is packed, or its rows are interleaved in the cache, group by
 * group. The order of every sum depends on the depth alone: a row has the same result among any number
 * of rows, and with a packed weight.
 */
#include "group_output.h"

enum {
  /* The parts that are multiplied at once, so that a group and some rows of x fit the L1 cache; whole
   * blocks of every format. */
  STRIP_PARTS = 32,
  /* The rows of x that a group meets at once, and those of a task if there are many. */
  STRIP_ROWS = 64
};

/* The minimum work of a task, the bytes of the weight that a core reads per nanosecond, its
 * multiply-adds, and those that interleaving takes the time of. */
static const double TASK_NS = 8000, BYTES_PER_NS = 12, PRODUCTS_PER_NS = 80, INTERLEAVED = 2;

/* The numbers of a call, after those of products of rows. */
enum { FORMAT = ROW_NUMBERS, WEIGHT_OFFSET, IS_PACKED };

typedef struct {
  const quant_format *format;
  bool is_packed;
  ptrdiff_t rows, columns, depth, parts, row_bytes, groups;
  /* The bytes of a part of a rounded row. */
  ptrdiff_t part_bytes;
  const uint8_t *weight;
  const float *x;
  ptrdiff_t x_stride, row_blocks, groups_per_task;
  /* The rounded rows, tile after tile. */
  uint8_t *rounded;
  group_output output;
} quantized_context;

/* ---- x --------------------------------------------------------------------------------------- */

enum { PART_VECTORS = PART / LANES };

/* Rounds a part of row `r` of a tile, of `rows` rows. */
static RM_ALWAYS_INLINE void round_part(const float *from, int rows, int r, bool is_signed,
                                        uint8_t *tile) {
  v_f32 x[PART_VECTORS];
  /* Sizes are ordered as the integers of their bits; those that are not numbers are the largest. */
  v_s32 most = (v_s32)0;
  UNROLL for (int i = 0; i < PART_VECTORS; i++) {
    x[i] = *(const v_f32 *)(from + i * LANES);
    most = __builtin_elementwise_max(most, (v_s32)x[i] & (v_s32)0x7fffffff);
  }
  const int32_t bits = __builtin_reduce_max(most);
  float size;
  memcpy(&size, &bits, sizeof size);
  const float d = size / 127, inverse = d == 0 ? 0 : 1 / d;
  int32_t sums[2] = {0, 0};
  int8_t rounded[PART];
  UNROLL for (int i = 0; i < PART_VECTORS; i++) {
    v_f32 q = x[i] * inverse;
    /* Out of range only if d is not finite, which the sums then are not either. */
    q = (v_f32)((v_s32)q & (q >= (v_f32)-127.5f) & (q <= (v_f32)127.5f));
    /* The bits of this sum end with the integer that is nearest to q. */
    const v_s32 nearest = (v_s32)(q + 12582912.0f) - 0x4b400000;
    *(lane_s8 *)(rounded + i * LANES) = __builtin_convertvector(nearest, lane_s8);
    sums[i / (PART_VECTORS / 2)] += __builtin_reduce_add(nearest);
  }
  UNROLL for (int t = 0; t < WORDS; t++) {
    const int at = t * rows + r;
    if (is_signed) store_signed_word(tile + at * SIGNED_WORD_BYTES, rounded + t * 4);
    else memcpy(tile + at * 4, rounded + t * 4, 4);
  }
  float *scales = (float *)(tile + rows * rm_words_bytes(is_signed));
  scales[r] = d;
  scales[rows + r] = d * (float)sums[0];
  scales[2 * rows + r] = d * (float)sums[1];
}

static void round_rows(const quantized_context *ctx, ptrdiff_t first, ptrdiff_t last) {
  const bool is_signed = rm_is_signed(ctx->format->number);
  while (first < last) {
    const int rows = rm_tile_rows(ctx->rows - first);
    uint8_t *tile = ctx->rounded + first * ctx->parts * ctx->part_bytes;
    for (int r = 0; r < rows; r++) {
      const float *from = ctx->x + (first + r) * ctx->x_stride;
      ROLLED for (ptrdiff_t p = 0; p < ctx->parts; p++) {
        round_part(from + p * PART, rows, r, is_signed, tile + p * rows * ctx->part_bytes);
      }
    }
    first += rows;
  }
}

static void round_task(void *context, ptrdiff_t index) {
  const quantized_context *ctx = context;
  round_rows(ctx, index * STRIP_ROWS, rm_min(ctx->rows, (index + 1) * STRIP_ROWS));
}

/* ---- products -------------------------------------------------------------------------------- */

/* Rows [first, last), at most STRIP_ROWS, times a group. */
static void multiply_group(const quantized_context *ctx, ptrdiff_t first, ptrdiff_t last,
                           ptrdiff_t group) {
  float sums[STRIP_ROWS * GROUP_ROWS] __attribute__((aligned(64)));
  uint8_t interleaved[STRIP_PARTS * Q8_0_BYTES * GROUP_ROWS] __attribute__((aligned(64)));
  const quant_format *format = ctx->format;
  const ptrdiff_t columns = rm_min(GROUP_ROWS, ctx->columns - group * GROUP_ROWS);
  for (ptrdiff_t p = 0; p < ctx->parts; p += STRIP_PARTS) {
    const ptrdiff_t parts = rm_min(STRIP_PARTS, ctx->parts - p);
    const ptrdiff_t bytes = p * PART / format->size * format->bytes;
    const uint8_t *weight = ctx->weight + group * GROUP_ROWS * ctx->row_bytes;
    if (ctx->is_packed) weight += bytes * GROUP_ROWS;
    else {
      RM_FOR_ISA(interleave_blocks)(format, columns, ctx->row_bytes, parts * PART / format->size,
                                    weight + bytes, interleaved);
      weight = interleaved;
    }
    for (ptrdiff_t row = first; row < last;) {
      const int rows = rm_tile_rows(ctx->rows - row);
      const uint8_t *x = ctx->rounded + (row * ctx->parts + p * rows) * ctx->part_bytes;
      RM_FOR_ISA(quant_tile)(format->number, rows)(parts, x, weight,
                                                   sums + (row - first) * GROUP_ROWS, p > 0);
      row += rows;
    }
  }
  finish_group(&ctx->output, first, last - first, group, sums);
}

static void multiply_task(void *context, ptrdiff_t index) {
  const quantized_context *ctx = context;
  const ptrdiff_t first = index % ctx->row_blocks * STRIP_ROWS;
  const ptrdiff_t last = rm_min(ctx->rows, first + STRIP_ROWS);
  const ptrdiff_t group = index / ctx->row_blocks * ctx->groups_per_task;
  const ptrdiff_t end = rm_min(ctx->groups, group + ctx->groups_per_task);
  for (ptrdiff_t g = group; g < end; g++) multiply_group(ctx, first, last, g);
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Reads the operands of a call; returns a status. */
static int32_t read_call(const rm_call *call, quantized_context *ctx) {
  const double *numbers = call->numbers;
  ctx->format = rm_quant_format((int)numbers[FORMAT]);
  if (ctx->format == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no block format %d", (int)numbers[FORMAT]);
  }
  const int32_t status = read_output(call, &ctx->output);
  if (status != RM_OK) return status;
  ctx->is_packed = numbers[IS_PACKED] != 0;
  ctx->parts = ctx->depth / PART;
  ctx->part_bytes = rm_part_bytes(rm_is_signed(ctx->format->number));
  ctx->groups = rm_ceil_div(ctx->columns, GROUP_ROWS);
  ctx->row_bytes = ctx->depth / ctx->format->size * ctx->format->bytes;
  ctx->weight = (const uint8_t *)call->buffers[2] + (ptrdiff_t)numbers[WEIGHT_OFFSET];
  ctx->x = (const float *)call->buffers[1] + (ptrdiff_t)numbers[X_OFFSET];
  return RM_OK;
}

int32_t RM_FOR_ISA(linear_quantized)(const rm_call *call) {
  const double *numbers = call->numbers;
  if (call->dtypes[0] != RM_FLOAT32 || call->dtypes[1] != RM_FLOAT32 ||
      call->dtypes[2] != RM_UINT8) {
    return RM_UNSUPPORTED;
  }
  quantized_context ctx = {.rows = (ptrdiff_t)numbers[ROWS],
                           .columns = (ptrdiff_t)numbers[COLUMNS],
                           .depth = (ptrdiff_t)numbers[DEPTH],
                           .x_stride = (ptrdiff_t)numbers[X_STRIDE]};
  if (ctx.rows < 1 || ctx.columns < 1) return RM_OK;
  if (ctx.depth < 1) return RM_UNSUPPORTED;
  const int32_t status = read_call(call, &ctx);
  if (status != RM_OK) return status;
  gemm_workspace *workspace =
      RM_FOR_ISA(workspace_alloc)((size_t)(ctx.rows * ctx.parts * ctx.part_bytes), 0);
  if (workspace == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a matrix product");
  ctx.rounded = (uint8_t *)workspace->data;
  ctx.row_blocks = rm_ceil_div(ctx.rows, STRIP_ROWS);
  rm_parallel(ctx.row_blocks, (double)ctx.rows * (double)ctx.depth, round_task, &ctx);
  const double products = (double)ctx.depth * GROUP_ROWS / PRODUCTS_PER_NS;
  const double bytes_ns = (double)ctx.row_bytes * GROUP_ROWS / BYTES_PER_NS;
  double group_ns = products * ((double)ctx.rows + (ctx.is_packed ? 0 : INTERLEAVED));
  if (group_ns < bytes_ns) group_ns = bytes_ns;
  const double per_task = 1 + TASK_NS * (double)ctx.row_blocks / (group_ns + 1);
  ctx.groups_per_task = rm_min(ctx.groups, (ptrdiff_t)per_task);
  rm_parallel(ctx.row_blocks * rm_ceil_div(ctx.groups, ctx.groups_per_task),
              group_ns * (double)ctx.groups, multiply_task, &ctx);
  RM_FOR_ISA(workspace_free)(workspace);
  return RM_OK;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* The numbers of a call that packs. */
enum { PACKED_FORMAT, PACKED_ROWS, PACKED_BLOCKS, TO_OFFSET, FROM_OFFSET, UNPACKS };

typedef struct {
  const quant_format *format;
  ptrdiff_t rows, blocks;
  const uint8_t *from;
  uint8_t *to;
  bool unpacks;
} pack_context;

static void pack_task(void *context, ptrdiff_t index) {
  const pack_context *ctx = context;
  const ptrdiff_t row = index * GROUP_ROWS, row_bytes = ctx->blocks * ctx->format->bytes;
  const ptrdiff_t rows = rm_min(GROUP_ROWS, ctx->rows - row), at = row * row_bytes;
  if (ctx->unpacks) {
    RM_FOR_ISA(separate_blocks)(ctx->format, rows, row_bytes, ctx->blocks, ctx->from + at,
                                ctx->to + at);
  } else {
    RM_FOR_ISA(interleave_blocks)(ctx->format, rows, row_bytes, ctx->blocks, ctx->from + at,
                                  ctx->to + at);
  }
}

int32_t RM_FOR_ISA(pack_blocks)(const rm_call *call) {
  const double *numbers = call->numbers;
  if (call->dtypes[0] != RM_UINT8 || call->dtypes[1] != RM_UINT8) return RM_UNSUPPORTED;
  pack_context ctx = {.format = rm_quant_format((int)numbers[PACKED_FORMAT]),
                      .rows = (ptrdiff_t)numbers[PACKED_ROWS],
                      .blocks = (ptrdiff_t)numbers[PACKED_BLOCKS]};
  if (ctx.format == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no block format %d", (int)numbers[PACKED_FORMAT]);
  }
  if (ctx.rows < 1 || ctx.blocks < 1) return RM_OK;
  if (call->buffers[0] == NULL || call->buffers[1] == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "packBlocks without an operand");
  }
  ctx.to = (uint8_t *)call->buffers[0] + (ptrdiff_t)numbers[TO_OFFSET];
  ctx.from = (const uint8_t *)call->buffers[1] + (ptrdiff_t)numbers[FROM_OFFSET];
  ctx.unpacks = numbers[UNPACKS] != 0;
  const ptrdiff_t groups = rm_ceil_div(ctx.rows, GROUP_ROWS);
  const double bytes = (double)(groups * GROUP_ROWS * ctx.blocks * ctx.format->bytes);
  rm_parallel(groups, bytes / 4, pack_task, &ctx);
  return RM_OK;
}
