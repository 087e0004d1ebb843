/*
 * Convolutions of 3 x 3 of float32 by Winograd's F(4 x 4, 3 x 3) with the points 0, +-3/4, +-3/2 and
 * infinity; src/ops/conv/winograd.ts has its matrices.
 *
 * Tiles of 4 x 4 outputs meet 6 x 6 elements of each channel, which overlap. Their transforms are
 * 36 matrices [channels, tiles]; the product of each with its matrix of the weight gives 36 sums for
 * each output channel and tile, of which its outputs are made. Tiles are the pixels of a convolution
 * of 6 x 6 with stride 4, whose matrix conv_pack makes.
 */
#include <string.h>
#include "conv_context.h"

enum {
  /* The elements and the outputs along a side of a tile, and the matrices. */
  SIDE = 6,
  OUT_SIDE = 4,
  MATRICES = SIDE * SIDE,
  /* The transforms of a block of tiles take about so much, and stay in the L2 cache. */
  BLOCK_BYTES = 320 << 10,
  /* The transforms that several threads make together take about so much at most. */
  SHARED_BYTES = 8 << 20,
  /* The channels that a task transforms, and the least output channels that it computes. */
  TASK_CHANNELS = 16,
  LEAST_ROWS = 4 * MR,
  TASKS_PER_THREAD = 2,
  /* The most products of a sum in a pass, so that rows of the weight and a panel stay in the L1
   * cache. */
  PASS = DEPTH_BYTES / 4 * 5 / 4,
  /* The rows of sums of a matrix: those of a kernel, or of several small ones. */
  SUM_ROWS = (MR + SMALL_MR - 1) / SMALL_MR * SMALL_MR
};

/* The estimated nanoseconds per transformed element. */
static const double TRANSFORM_NS = 0.2;

/* The points, and their squares. */
static const float P = 0.75f, Q = 1.5f, P2 = 0.5625f, Q2 = 2.25f;

/* The numbers of a call. */
enum {
  IMAGES,
  CHANNELS,
  ROWS,
  FINISH,
  SPACE = FINISH + FINISH_NUMBERS,
  PER_AXIS = 4
};

typedef struct {
  /* The convolution of 6 x 6, whose pixels are tiles, and whose sums are not added. */
  conv_context conv;
  ptrdiff_t height, width, tiles_across;
  /* The blocks of tiles of an image, of the whole call, and those that are transformed together,
   * from `first_block` on. */
  ptrdiff_t image_blocks, blocks, first_block;
  /* The parts of the channels that tasks transform. */
  ptrdiff_t channel_parts;
  /* The floats of the transforms of a block, and of one matrix of them. */
  ptrdiff_t block_floats, matrix_floats;
  float *transforms;
} winograd_context;

/* A block of tiles of an image. */
typedef struct {
  ptrdiff_t image, first, count;
} tile_block;

static tile_block tile_block_at(const winograd_context *ctx, ptrdiff_t index) {
  const ptrdiff_t block = ctx->first_block + index, size = ctx->conv.block_pixels;
  const ptrdiff_t first = block % ctx->image_blocks * size;
  return (tile_block){block / ctx->image_blocks, first, rm_min(size, ctx->conv.pixels - first)};
}

/* The transform of six elements. */
static RM_ALWAYS_INLINE void transform_elements(const v_f32 *d, v_f32 *to) {
  const v_f32 a = FMA(v_f32, (v_f32)(-Q2), d[2], d[4]), b = FMA(v_f32, (v_f32)(-Q2), d[1], d[3]);
  const v_f32 c = FMA(v_f32, (v_f32)(-P2), d[2], d[4]), e = FMA(v_f32, (v_f32)(-P2), d[1], d[3]);
  to[0] = FMA(v_f32, (v_f32)(P2 * Q2), d[0], FMA(v_f32, (v_f32)(-(P2 + Q2)), d[2], d[4]));
  to[1] = FMA(v_f32, (v_f32)(P), b, a);
  to[2] = FMA(v_f32, (v_f32)(-P), b, a);
  to[3] = FMA(v_f32, (v_f32)(Q), e, c);
  to[4] = FMA(v_f32, (v_f32)(-Q), e, c);
  to[5] = FMA(v_f32, (v_f32)(P2 * Q2), d[1], FMA(v_f32, (v_f32)(-(P2 + Q2)), d[3], d[5]));
}

/* Four outputs of six sums. */
static RM_ALWAYS_INLINE void transform_sums(const v_f32 *m, v_f32 *to) {
  const v_f32 a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
  to[0] = m[0] + (a + c);
  to[1] = FMA(v_f32, (v_f32)(Q), d, (v_f32)(P) * b);
  to[2] = FMA(v_f32, (v_f32)(Q2), c, (v_f32)(P2) * a);
  to[3] = FMA(v_f32, (v_f32)(Q2 * Q), d, FMA(v_f32, (v_f32)(P2 * P), b, m[5]));
}

/* Transforms a vector of tiles: rows of `from` are PANEL apart, matrices of `to` so many floats. */
static void transform_tiles(const float *from, float *to, ptrdiff_t matrix_floats) {
  v_f32 half[SIDE][SIDE];
  ROLLED for (int x = 0; x < SIDE; x++) {
    v_f32 line[SIDE], made[SIDE];
    UNROLL for (int y = 0; y < SIDE; y++) line[y] = *(const v_f32 *)(from + (y * SIDE + x) * PANEL);
    transform_elements(line, made);
    UNROLL for (int y = 0; y < SIDE; y++) half[y][x] = made[y];
  }
  ROLLED for (int y = 0; y < SIDE; y++, to += SIDE * matrix_floats) {
    v_f32 made[SIDE];
    transform_elements(half[y], made);
    UNROLL for (int x = 0; x < SIDE; x++) *(v_f32 *)(to + x * matrix_floats) = made[x];
  }
}

/* Transforms some channels of a block. */
static void transform_task(void *context, ptrdiff_t index) {
  winograd_context *ctx = context;
  conv_context *conv = &ctx->conv;
  const int slot = take_slot(conv->slot_taken, conv->slots);
  float *panels = (float *)(conv->workspace + slot * conv->workspace_bytes);
  float *stage = panels + conv->panels_bytes / (ptrdiff_t)sizeof *panels;
  const ptrdiff_t block = index / ctx->channel_parts;
  const tile_block own = tile_block_at(ctx, block);
  const ptrdiff_t begin = index % ctx->channel_parts * TASK_CHANNELS;
  const ptrdiff_t end = rm_min(conv->channels, begin + TASK_CHANNELS);
  for (ptrdiff_t c = begin; c < end; c++) {
    RM_FOR_ISA(conv_pack)(conv, panels, stage, own.image, 0, 0, own.first, own.count, c * MATRICES,
                          (c + 1) * MATRICES, MATRICES * PANEL);
    float *to = ctx->transforms + block * ctx->block_floats + c * PANEL;
    for (ptrdiff_t i = 0; i < own.count; i += LANES) {
      const ptrdiff_t panel = i / PANEL, at = i % PANEL;
      transform_tiles(panels + panel * MATRICES * PANEL + at,
                      to + panel * conv->channels * PANEL + at, ctx->matrix_floats);
    }
  }
  atomic_flag_clear(&conv->slot_taken[slot]);
}

/* Multiplies at most MR rows of all matrices of the weight by a panel. Sums of a matrix are SUM_ROWS
 * rows of `width`. */
static void multiply_matrices(const winograd_context *ctx, const float *w, ptrdiff_t rows,
                              const float *panel, int index, float *sums, ptrdiff_t width) {
  const conv_context *conv = &ctx->conv;
  const gemm_kernels *kernels = conv->kernels;
  const ptrdiff_t depth = conv->channels;
  for (int m = 0; m < MATRICES; m++, sums += SUM_ROWS * width) {
    for (ptrdiff_t k = 0; k < depth; k += PASS) {
      const ptrdiff_t count = rm_min(PASS, depth - k);
      const float *left = w + m * conv->rows * depth + k;
      const float *right = panel + m * ctx->matrix_floats + k * PANEL;
      if (rows == MR) {
        kernels->tile[index](count, left, depth, 1, right, PANEL, sums, width, k > 0);
        continue;
      }
      for (ptrdiff_t i = 0; i < rows; i += SMALL_MR) {
        const void *at[SMALL_MR];
        for (ptrdiff_t r = 0; r < SMALL_MR; r++) at[r] = left + rm_min(i + r, rows - 1) * depth;
        kernels->rows4[index](count, at, 1, right, PANEL, sums + i * width, width, k > 0);
      }
    }
  }
}

/* Stores elements of four vectors in turn. */
static RM_ALWAYS_INLINE void store_in_turn(float *to, const v_f32 *from) {
  v_f32 even, odd, made;
  even.even = from[0].lo, even.odd = from[2].lo;
  odd.even = from[1].lo, odd.odd = from[3].lo;
  made.even = even.lo, made.odd = odd.lo;
  *(v_f32 *)to = made;
  made.even = even.hi, made.odd = odd.hi;
  *(v_f32 *)(to + LANES) = made;
  even.even = from[0].hi, even.odd = from[2].hi;
  odd.even = from[1].hi, odd.odd = from[3].hi;
  made.even = even.lo, made.odd = odd.lo;
  *(v_f32 *)(to + 2 * LANES) = made;
  made.even = even.hi, made.odd = odd.hi;
  *(v_f32 *)(to + 3 * LANES) = made;
}

/* Makes the outputs of a vector of tiles, plus bias: four lines. Matrices are `step` floats apart. */
static void finish_tiles(const float *sums, ptrdiff_t step, float bias, float *lines) {
  v_f32 half[OUT_SIDE][SIDE];
  ROLLED for (int x = 0; x < SIDE; x++) {
    v_f32 line[SIDE], made[OUT_SIDE];
    UNROLL for (int y = 0; y < SIDE; y++) line[y] = *(const v_f32 *)(sums + (y * SIDE + x) * step);
    transform_sums(line, made);
    UNROLL for (int y = 0; y < OUT_SIDE; y++) half[y][x] = made[y];
  }
  ROLLED for (int y = 0; y < OUT_SIDE; y++) {
    v_f32 made[OUT_SIDE];
    transform_sums(half[y], made);
    UNROLL for (int x = 0; x < OUT_SIDE; x++) made[x] += (v_f32)(bias);
    store_in_turn(lines + y * OUT_SIDE * PANEL, made);
  }
}

/* Copies the outputs of tiles of a channel between lines and out, or adds the residual to them. */
static void copy_lines(const winograd_context *ctx, ptrdiff_t plane, ptrdiff_t first,
                       ptrdiff_t count, float *lines, bool to_out) {
  const conv_context *conv = &ctx->conv;
  for (ptrdiff_t tile = first; tile < first + count;) {
    const ptrdiff_t row = tile / ctx->tiles_across, column = tile % ctx->tiles_across;
    const ptrdiff_t run = rm_min(ctx->tiles_across - column, first + count - tile);
    const ptrdiff_t x = column * OUT_SIDE, y = row * OUT_SIDE;
    const ptrdiff_t length = rm_min(run * OUT_SIDE, ctx->width - x);
    const ptrdiff_t bottom = rm_min(OUT_SIDE, ctx->height - y);
    for (ptrdiff_t i = 0; i < bottom; i++) {
      float *line = lines + i * OUT_SIDE * PANEL + (tile - first) * OUT_SIDE;
      const ptrdiff_t at = (plane * ctx->height + y + i) * ctx->width + x;
      if (to_out) {
        memcpy(conv->out + at, line, (size_t)length * sizeof *line);
      } else {
        RM_ANY_ORDER for (ptrdiff_t j = 0; j < length; j++) line[j] += conv->add[at + j];
      }
    }
    tile += run;
  }
}

/* Computes some output channels of a block. */
static void multiply_task(void *context, ptrdiff_t index) {
  winograd_context *ctx = context;
  const conv_context *conv = &ctx->conv;
  const int slot = take_slot(conv->slot_taken, conv->slots);
  float *sums = (float *)(conv->workspace + slot * conv->workspace_bytes);
  float lines[OUT_SIDE * OUT_SIDE * PANEL] __attribute__((aligned(64)));
  const ptrdiff_t block = index / conv->row_blocks;
  const tile_block own = tile_block_at(ctx, block);
  const ptrdiff_t begin = index % conv->row_blocks * conv->block_rows;
  const ptrdiff_t end = rm_min(conv->rows, begin + conv->block_rows);
  const float *transforms = ctx->transforms + block * ctx->block_floats;
  for (ptrdiff_t row = begin; row < end; row += MR) {
    const ptrdiff_t rows = rm_min(MR, end - row);
    for (ptrdiff_t i = 0; i < own.count; i += PANEL) {
      const ptrdiff_t count = rm_min(PANEL, own.count - i);
      const int kernel = count <= LANES ? 1 : 0;
      const ptrdiff_t width = kernel == 1 ? LANES : PANEL;
      multiply_matrices(ctx, conv->w + row * conv->channels, rows, transforms + i * conv->channels,
                        kernel, sums, width);
      for (ptrdiff_t r = 0; r < rows; r++) {
        const float bias = conv->bias == NULL ? 0 : conv->bias[row + r];
        for (ptrdiff_t j = 0; j < count; j += LANES) {
          finish_tiles(sums + r * width + j, SUM_ROWS * width, bias, lines + j * OUT_SIDE);
        }
        const ptrdiff_t plane = own.image * conv->rows + row + r;
        const bool adds = conv->add != NULL;
        if (adds && !conv->adds_last) copy_lines(ctx, plane, own.first + i, count, lines, false);
        for (int y = 0; conv->activation != RM_ACTIVATION_NONE && y < OUT_SIDE; y++) {
          /* Of the vectors of tiles that were made, not of what the stack has beyond them. */
          RM_FOR_ISA(conv_activate)(conv, rm_round_up(count, LANES) * OUT_SIDE,
                                    lines + y * OUT_SIDE * PANEL);
        }
        if (adds && conv->adds_last) copy_lines(ctx, plane, own.first + i, count, lines, false);
        copy_lines(ctx, plane, own.first + i, count, lines, true);
      }
    }
  }
  atomic_flag_clear(&conv->slot_taken[slot]);
}

/* Splits the call into blocks and tasks; returns the blocks that are transformed together. */
static ptrdiff_t split_winograd(winograd_context *ctx) {
  conv_context *conv = &ctx->conv;
  const ptrdiff_t size = (ptrdiff_t)sizeof(float);
  const ptrdiff_t panel_bytes = MATRICES * conv->channels * PANEL * size;
  const ptrdiff_t most = rm_min(BLOCK_COLUMNS / PANEL, BLOCK_BYTES / panel_bytes);
  const ptrdiff_t panels = rm_ceil_div(conv->pixels, PANEL);
  ctx->image_blocks = rm_ceil_div(panels, most < 1 ? 1 : most);
  const ptrdiff_t block_panels = rm_ceil_div(panels, ctx->image_blocks);
  conv->block_pixels = block_panels * PANEL;
  ctx->image_blocks = rm_ceil_div(conv->pixels, conv->block_pixels);
  ctx->blocks = conv->images * ctx->image_blocks;
  ctx->channel_parts = rm_ceil_div(conv->channels, TASK_CHANNELS);
  /* A line between matrices, whose lines would share sets of the caches. */
  ctx->matrix_floats = block_panels * conv->channels * PANEL + PANEL;
  ctx->block_floats = MATRICES * ctx->matrix_floats;
  const ptrdiff_t threads = rm_threads(), target = threads > 1 ? TASKS_PER_THREAD * threads : 1;
  /* One thread transforms a block while it is in its cache; several wait less for each other. */
  const ptrdiff_t shared = SHARED_BYTES / (ctx->block_floats * size);
  const ptrdiff_t together = rm_min(ctx->blocks, threads > 1 && shared > target ? shared : target);
  ptrdiff_t row_blocks = 1;
  while (together * row_blocks < target && conv->rows / (2 * row_blocks) >= LEAST_ROWS) {
    row_blocks *= 2;
  }
  conv->block_rows = rm_round_up(rm_ceil_div(conv->rows, row_blocks), MR);
  conv->row_blocks = rm_ceil_div(conv->rows, conv->block_rows);
  conv->panels_bytes = block_panels * MATRICES * PANEL * size;
  const ptrdiff_t tile_rows = rm_min(conv->axes[HEIGHT].out,
                                     (conv->block_pixels - 1) / ctx->tiles_across + 2);
  conv->stage_bytes = staged_floats(conv, rows_for(conv, 0, tile_rows, NULL).count) * size;
  const ptrdiff_t sums_bytes = MATRICES * SUM_ROWS * PANEL * size;
  const ptrdiff_t both = conv->panels_bytes + conv->stage_bytes;
  conv->workspace_bytes = rm_round_up(both > sums_bytes ? both : sums_bytes, ALIGNMENT);
  return together;
}

int32_t RM_FOR_ISA(winograd)(const rm_call *call) {
  const double *numbers = call->numbers;
  winograd_context ctx = {.conv = {.images = (ptrdiff_t)numbers[IMAGES],
                                   .groups = 1,
                                   .channels = (ptrdiff_t)numbers[CHANNELS],
                                   .rows = (ptrdiff_t)numbers[ROWS],
                                   .taps = MATRICES}};
  conv_context *conv = &ctx.conv;
  const int32_t status = RM_FOR_ISA(conv_operands)(call, conv, numbers + FINISH);
  if (status != RM_OK) return status;
  conv->axes[DEPTH_AXIS] = (conv_axis){1, 1, 1, 1, 0, 1};
  for (int i = 0; i < 2; i++) {
    /* [size, output size, padding before, tiles] */
    const double *axis = numbers + SPACE + i * PER_AXIS;
    conv->axes[HEIGHT + i] = (conv_axis){.in = (ptrdiff_t)axis[0],
                                         .kernel = SIDE,
                                         .out = (ptrdiff_t)axis[3],
                                         .stride = OUT_SIDE,
                                         .padding = (ptrdiff_t)axis[2],
                                         .dilation = 1};
  }
  ctx.height = (ptrdiff_t)numbers[SPACE + 1];
  ctx.width = (ptrdiff_t)numbers[SPACE + PER_AXIS + 1];
  const conv_axis *y = &conv->axes[HEIGHT], *x = &conv->axes[WIDTH];
  ctx.tiles_across = x->out;
  conv->plane = y->in * x->in;
  conv->pixels = y->out * x->out;
  conv->phases = OUT_SIDE;
  conv->phase_length = x->out - 1 + (SIDE - 1) / OUT_SIDE + 1;
  if (conv->images < 1 || conv->rows < 1 || conv->pixels < 1) return RM_OK;
  if (conv->channels < 1) return RM_UNSUPPORTED;
  const ptrdiff_t together = split_winograd(&ctx);
  conv->slots = rm_threads();
  const ptrdiff_t own_bytes = conv->slots * conv->workspace_bytes;
  const size_t bytes = (size_t)own_bytes + (size_t)(together * ctx.block_floats) * sizeof(float);
  gemm_workspace *workspace = RM_FOR_ISA(workspace_alloc)(bytes, conv->slots);
  if (workspace == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a convolution");
  conv->workspace = workspace->data;
  conv->slot_taken = workspace->slot_taken;
  ctx.transforms = (float *)(conv->workspace + own_bytes);
  for (ctx.first_block = 0; ctx.first_block < ctx.blocks; ctx.first_block += together) {
    const ptrdiff_t blocks = rm_min(together, ctx.blocks - ctx.first_block);
    const double elements = (double)blocks * (double)conv->block_pixels * MATRICES;
    rm_parallel(blocks * ctx.channel_parts, elements * (double)conv->channels * TRANSFORM_NS,
                transform_task, &ctx);
    const double products = elements * (double)conv->channels * (double)conv->rows;
    rm_parallel(blocks * conv->row_blocks, products / LANES / VECTOR_FMAS_PER_NS, multiply_task,
                &ctx);
  }
  RM_FOR_ISA(workspace_free)(workspace);
  return RM_OK;
}
