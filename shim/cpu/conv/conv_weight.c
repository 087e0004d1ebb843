/*
 * The derivative of a convolution of float32 by its weight.
 *
 * For each group it is the product of a matrix [sums, pixels of all images], with the element that each
 * output pixel meets, and the derivative by the output, [pixels, output channels]. The first one is
 * never made: its rows are staged rows of x, read at the offsets of the pixels. The second one is
 * packed into panels, a block of pixels at a time.
 *
 * A task adds up some of the pixels for some input and output channels. Sizes alone decide how pixels
 * are split, so that results do not depend on the number of threads.
 */
#include <string.h>
#include "conv_gather.h"

enum {
  /* The pixels of a block, whose panel and rows stay in the cache, if images have that many. */
  BLOCK_PIXELS = 192,
  /* The most sums and output channels of a task. */
  TASK_SUMS = 1152,
  TASK_COLUMNS = 128,
  /* The most parts of all pixels, and the most floats of their sums. */
  MOST_PARTS = 16,
  MOST_PART_FLOATS = 1 << 21
};

/* The fewest products of a part. */
static const double PART_PRODUCTS = 1 << 24;

/* A unit is some output rows of a plane, a block some units, a part some blocks. */
typedef struct {
  conv_context conv;
  ptrdiff_t unit_rows, plane_units, units, block_units, part_units, parts;
  ptrdiff_t task_channels, channel_blocks, task_columns, column_blocks;
  /* The staged floats of a plane of x, and of all those that a unit needs. */
  ptrdiff_t plane_floats, unit_floats;
  /* The floats of a panel, and those of a task's sums, rows of `row_floats`. */
  ptrdiff_t panel_floats, row_floats, sums_floats;
  ptrdiff_t *row_at;
  float *sums;
} weight_context;

/* The part of the sums that a task computes. */
typedef struct {
  ptrdiff_t part, group, channel, channels, column, columns;
} weight_place;

static weight_place weight_place_at(const weight_context *ctx, ptrdiff_t index) {
  weight_place own;
  own.column = index % ctx->column_blocks * ctx->task_columns, index /= ctx->column_blocks;
  own.channel = index % ctx->channel_blocks * ctx->task_channels, index /= ctx->channel_blocks;
  own.group = index % ctx->conv.groups;
  own.part = index / ctx->conv.groups;
  own.columns = rm_min(ctx->task_columns, ctx->conv.rows - own.column);
  own.channels = rm_min(ctx->task_channels, ctx->conv.channels - own.channel);
  return own;
}

static void weight_task(void *context, ptrdiff_t index) {
  weight_context *ctx = context;
  conv_context *conv = &ctx->conv;
  const int slot = take_slot(conv->slot_taken, conv->slots);
  const weight_place own = weight_place_at(ctx, index);
  const conv_axis *y = &conv->axes[HEIGHT], *x = &conv->axes[WIDTH];
  const ptrdiff_t depths = conv->axes[DEPTH_AXIS].out, kernels = conv->axes[DEPTH_AXIS].kernel;
  const ptrdiff_t row_step = y->stride * conv->phases * conv->phase_length;
  const ptrdiff_t panels = rm_ceil_div(own.columns, PANEL), sums = own.channels * kernels * conv->taps;
  float *const stage = (float *)(conv->workspace + slot * conv->workspace_bytes);
  float *const packed = stage + conv->stage_bytes / 4;
  int32_t *const offsets = (int32_t *)(packed + conv->panels_bytes / 4);
  float *const to = ctx->sums + index * ctx->sums_floats;
  memset(to, 0, (size_t)ctx->sums_floats * sizeof *to);
  const ptrdiff_t end = rm_min(ctx->units, (own.part + 1) * ctx->part_units);
  for (ptrdiff_t unit = own.part * ctx->part_units; unit < end;) {
    ptrdiff_t pixels = 0;
    for (ptrdiff_t u = 0; u < ctx->block_units && unit < end; u++, unit++) {
      const ptrdiff_t plane = unit / ctx->plane_units, first = unit % ctx->plane_units * ctx->unit_rows;
      const ptrdiff_t image = plane / depths, depth = plane % depths;
      const ptrdiff_t last = rm_min(first + ctx->unit_rows, y->out);
      const ptrdiff_t channel = (image * conv->groups + own.group) * conv->rows + own.column;
      const float *from = conv->w + channel * conv->all_pixels + depth * conv->pixels + first * x->out;
      for (ptrdiff_t j = 0; j < panels; j++) {
        conv->kernels->pack_b(packed + j * ctx->panel_floats + pixels * PANEL,
                              from + j * PANEL * conv->all_pixels, rm_min(PANEL, own.columns - j * PANEL),
                              (last - first) * x->out, conv->all_pixels, 1);
      }
      float *at = stage + u * ctx->unit_floats;
      for (ptrdiff_t row = first; row < last; row++) {
        const ptrdiff_t begin = at - stage + (row - first) * row_step;
        for (ptrdiff_t i = 0; i < x->out; i++) offsets[pixels++] = (int32_t)(begin + i);
      }
      for (ptrdiff_t k = 0; k < own.channels * kernels; k++, at += ctx->plane_floats) {
        const staged_rows rows = rows_for(conv, first, last, at);
        RM_FOR_ISA(conv_stage)(conv, &rows, plane_of(conv, image, own.group, own.channel + k / kernels,
                                                     depth, k % kernels));
      }
    }
    for (ptrdiff_t j = 0; j < panels; j++) {
      for (ptrdiff_t m = 0; m < sums; m += MR) {
        const float *rows[MR];
        for (int i = 0; i < MR; i++) rows[i] = stage + ctx->row_at[rm_min(m + i, sums - 1)];
        RM_FOR_ISA(gather_tile)(pixels, rows, offsets, packed + j * ctx->panel_floats,
                                own.columns - j * PANEL, to + m * ctx->row_floats + j * PANEL,
                                ctx->row_floats);
      }
    }
  }
  atomic_flag_clear(&conv->slot_taken[slot]);
}

/* Adds the parts of some sums and writes them, an output channel after the other. */
static void finish_task(void *context, ptrdiff_t index) {
  const weight_context *ctx = context;
  const conv_context *conv = &ctx->conv;
  const ptrdiff_t tasks = conv->groups * ctx->channel_blocks * ctx->column_blocks;
  const weight_place own = weight_place_at(ctx, index);
  const ptrdiff_t taps = conv->axes[DEPTH_AXIS].kernel * conv->taps, sums = own.channels * taps;
  float *from = ctx->sums + index * ctx->sums_floats;
  for (ptrdiff_t part = 1; part < ctx->parts; part++) {
    accumulate(conv->kernels, from, from + part * tasks * ctx->sums_floats, sums * ctx->row_floats);
  }
  for (ptrdiff_t i = 0; i < own.columns; i++) {
    float *to = conv->out + (own.group * conv->rows + own.column + i) * conv->sums + own.channel * taps;
    for (ptrdiff_t m = 0; m < sums; m++) to[m] = from[m * ctx->row_floats + i];
  }
}

/* Splits channels, and then pixels; returns the number of tasks. */
static ptrdiff_t split_weight(weight_context *ctx) {
  conv_context *conv = &ctx->conv;
  const conv_axis *y = &conv->axes[HEIGHT], *x = &conv->axes[WIDTH];
  const ptrdiff_t kernels = conv->axes[DEPTH_AXIS].kernel, taps = kernels * conv->taps;
  ctx->task_channels = rm_min(conv->channels, 1 + (TASK_SUMS - 1) / taps);
  ctx->channel_blocks = rm_ceil_div(conv->channels, ctx->task_channels);
  ctx->task_columns = rm_min(conv->rows, TASK_COLUMNS);
  ctx->column_blocks = rm_ceil_div(conv->rows, ctx->task_columns);
  ctx->unit_rows = rm_min(y->out, 1 + (BLOCK_PIXELS - 1) / x->out);
  /* Units are about equally long. */
  ctx->unit_rows = rm_ceil_div(y->out, rm_ceil_div(y->out, ctx->unit_rows));
  ctx->plane_units = rm_ceil_div(y->out, ctx->unit_rows);
  ctx->units = conv->images * conv->axes[DEPTH_AXIS].out * ctx->plane_units;
  const ptrdiff_t unit_pixels = ctx->unit_rows * x->out;
  ctx->block_units = rm_min(ctx->units, 1 + (BLOCK_PIXELS - 1) / unit_pixels);
  ctx->row_floats = rm_round_up(ctx->task_columns, LANES);
  ctx->sums_floats = rm_round_up(ctx->task_channels * taps, MR) * ctx->row_floats;
  const ptrdiff_t tasks = conv->groups * ctx->channel_blocks * ctx->column_blocks;
  ptrdiff_t parts = rm_min((ptrdiff_t)(products_of(conv) / PART_PRODUCTS), MOST_PARTS);
  parts = rm_min(parts, MOST_PART_FLOATS / (tasks * ctx->sums_floats));
  if (parts < 1) parts = 1;
  const ptrdiff_t blocks = rm_ceil_div(ctx->units, ctx->block_units);
  ctx->part_units = rm_ceil_div(blocks, parts) * ctx->block_units;
  ctx->parts = rm_ceil_div(ctx->units, ctx->part_units);
  ctx->plane_floats = staged_floats(conv, rows_for(conv, 0, ctx->unit_rows, NULL).count);
  ctx->unit_floats = ctx->task_channels * kernels * ctx->plane_floats;
  ctx->panel_floats = ctx->block_units * unit_pixels * PANEL;
  conv->stage_bytes = ctx->block_units * ctx->unit_floats * 4;
  conv->panels_bytes = rm_ceil_div(ctx->task_columns, PANEL) * ctx->panel_floats * 4;
  const ptrdiff_t offset_bytes = ctx->block_units * unit_pixels * (ptrdiff_t)sizeof(int32_t);
  conv->stage_bytes = rm_round_up(conv->stage_bytes, ALIGNMENT);
  conv->workspace_bytes =
      rm_round_up(conv->stage_bytes + conv->panels_bytes + offset_bytes, ALIGNMENT);
  return tasks * ctx->parts;
}

int32_t RM_FOR_ISA(conv_weight)(const rm_call *call) {
  weight_context ctx = {0};
  conv_context *conv = &ctx.conv;
  const int32_t status = RM_FOR_ISA(gather_operands)(call, conv);
  if (status != RM_OK) return status;
  if (conv->groups < 1 || conv->rows < 1 || conv->sums < 1) return RM_OK;
  if (conv->images < 1 || conv->all_pixels < 1) return RM_UNSUPPORTED;
  const ptrdiff_t tasks = split_weight(&ctx);
  conv->slots = (int)rm_min(rm_threads(), tasks);
  const ptrdiff_t own_bytes = conv->slots * conv->workspace_bytes;
  const ptrdiff_t sums_bytes = tasks * ctx.sums_floats * 4;
  const ptrdiff_t kernels = conv->axes[DEPTH_AXIS].kernel, rows = ctx.task_channels * kernels * conv->taps;
  gemm_workspace *workspace = RM_FOR_ISA(workspace_alloc)(
      (size_t)(own_bytes + rm_round_up(sums_bytes, ALIGNMENT) + rows * (ptrdiff_t)sizeof *ctx.row_at),
      conv->slots);
  if (workspace == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for the derivative of a convolution");
  conv->workspace = workspace->data;
  conv->slot_taken = workspace->slot_taken;
  ctx.sums = (float *)(void *)(workspace->data + own_bytes);
  ctx.row_at = (ptrdiff_t *)(void *)(workspace->data + own_bytes + rm_round_up(sums_bytes, ALIGNMENT));
  for (ptrdiff_t m = 0; m < rows; m++) {
    const ptrdiff_t tap = m % conv->taps, width = conv->axes[WIDTH].kernel;
    ctx.row_at[m] = m / conv->taps * ctx.plane_floats + tap_offset(conv, tap / width, tap % width);
  }
  rm_parallel(tasks, products_of(conv) / LANES / VECTOR_FMAS_PER_NS, weight_task, &ctx);
  rm_parallel(tasks / ctx.parts, (double)(sums_bytes / 4), finish_task, &ctx);
  RM_FOR_ISA(workspace_free)(workspace);
  return RM_OK;
}
