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
 *
 * Where groups have few output channels, vectors are of groups instead: x and the derivative by the
 * output are both packed with the groups last.
 */
#include <string.h>
#include "conv_gather.h"
#include "isa.h"

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

/* The least estimated time of a part. */
static const double PART_NS = 1 << 18;

/* A unit is some output rows of a plane, a block some units, a part some blocks. */
typedef struct {
  conv_context conv;
  const rm_conv_gather *gather;
  /* The columns of a panel. */
  ptrdiff_t panel_width;
  ptrdiff_t unit_rows, plane_units, units, block_units, part_units, parts;
  ptrdiff_t task_channels, channel_blocks, task_columns, column_blocks;
  /* The groups of a task: 1, or those of a panel. */
  ptrdiff_t task_groups, group_blocks;
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
  own.group = index % ctx->group_blocks * ctx->task_groups;
  own.part = index / ctx->group_blocks;
  own.columns = rm_min(ctx->task_columns, ctx->conv.rows - own.column);
  own.channels = rm_min(ctx->task_channels, ctx->conv.channels - own.channel);
  return own;
}

static void weight_task(void *context, ptrdiff_t index) {
  weight_context *ctx = context;
  conv_context *conv = &ctx->conv;
  const rm_conv_gather *gather = ctx->gather;
  const ptrdiff_t width = ctx->panel_width;
  const int slot = take_slot(conv->slot_taken, conv->slots);
  const weight_place own = weight_place_at(ctx, index);
  const conv_axis *y = &conv->axes[HEIGHT], *x = &conv->axes[WIDTH];
  const ptrdiff_t depths = conv->axes[DEPTH_AXIS].out, kernels = conv->axes[DEPTH_AXIS].kernel;
  const ptrdiff_t row_step = y->stride * conv->phases * conv->phase_length;
  const ptrdiff_t panels = rm_ceil_div(own.columns, width);
  const ptrdiff_t sums = own.channels * kernels * conv->taps;
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
        conv->kernels->pack_b(packed + j * ctx->panel_floats + pixels * width,
                              from + j * width * conv->all_pixels,
                              rm_min(width, own.columns - j * width), (last - first) * x->out,
                              conv->all_pixels, 1);
      }
      float *at = stage + u * ctx->unit_floats;
      for (ptrdiff_t row = first; row < last; row++) {
        const ptrdiff_t begin = at - stage + (row - first) * row_step;
        for (ptrdiff_t i = 0; i < x->out; i++) offsets[pixels++] = (int32_t)(begin + i);
      }
      for (ptrdiff_t k = 0; k < own.channels * kernels; k++, at += ctx->plane_floats) {
        const staged_rows rows = rows_for(conv, first, last, at);
        gather->stage(conv, &rows, plane_of(conv, image, own.group, own.channel + k / kernels, depth,
                                            k % kernels));
      }
    }
    for (ptrdiff_t j = 0; j < panels; j++) {
      for (ptrdiff_t m = 0; m < sums; m += gather->rows) {
        const float *rows[MOST_TILE_ROWS];
        for (ptrdiff_t i = 0; i < gather->rows; i++) {
          rows[i] = stage + ctx->row_at[rm_min(m + i, sums - 1)];
        }
        gather->tile(pixels, rows, offsets, packed + j * ctx->panel_floats, own.columns - j * width,
                     to + m * ctx->row_floats + j * width, ctx->row_floats);
      }
    }
  }
  atomic_flag_clear(&conv->slot_taken[slot]);
}

/* The sums of a panel of groups: rows of a panel for each output channel of a group and each sum. */
static void groups_task(void *context, ptrdiff_t index) {
  weight_context *ctx = context;
  conv_context *conv = &ctx->conv;
  const rm_conv_gather *gather = ctx->gather;
  const ptrdiff_t width = ctx->panel_width;
  const int slot = take_slot(conv->slot_taken, conv->slots);
  const weight_place own = weight_place_at(ctx, index);
  const conv_axis *y = &conv->axes[HEIGHT], *x = &conv->axes[WIDTH];
  const ptrdiff_t depths = conv->axes[DEPTH_AXIS].out, kernels = conv->axes[DEPTH_AXIS].kernel;
  const ptrdiff_t groups = rm_min(ctx->task_groups, conv->groups - own.group);
  const ptrdiff_t row_step = y->stride * conv->phases * conv->phase_length;
  float *const stage = (float *)(conv->workspace + slot * conv->workspace_bytes);
  float *const elements = stage + width * ctx->plane_floats;
  float *const packed = stage + conv->stage_bytes / 4;
  int32_t *const offsets = (int32_t *)(packed + conv->panels_bytes / 4);
  float *const to = ctx->sums + index * ctx->sums_floats;
  memset(to, 0, (size_t)ctx->sums_floats * sizeof *to);
  const ptrdiff_t end = rm_min(ctx->units, (own.part + 1) * ctx->part_units);
  for (ptrdiff_t unit = own.part * ctx->part_units; unit < end; unit++) {
    const ptrdiff_t plane = unit / ctx->plane_units, first = unit % ctx->plane_units * ctx->unit_rows;
    const ptrdiff_t image = plane / depths, depth = plane % depths;
    const ptrdiff_t last = rm_min(first + ctx->unit_rows, y->out), pixels = (last - first) * x->out;
    for (ptrdiff_t i = 0; i < pixels; i++) {
      offsets[i] = (int32_t)(i / x->out * row_step + i % x->out);
    }
    for (ptrdiff_t k = 0; k < conv->channels * kernels; k++) {
      staged_rows rows = rows_for(conv, first, last, stage);
      for (ptrdiff_t i = 0; i < groups; i++, rows.data += ctx->plane_floats) {
        gather->stage(conv, &rows,
                      plane_of(conv, image, own.group + i, k / kernels, depth, k % kernels));
      }
      conv->kernels->pack_b(elements + k * ctx->plane_floats * width, stage, groups,
                            rows.count * conv->phases * conv->phase_length, ctx->plane_floats, 1);
    }
    for (ptrdiff_t r = 0; r < conv->rows; r++) {
      const ptrdiff_t channel = (image * conv->groups + own.group) * conv->rows + r;
      const float *from = conv->w + channel * conv->all_pixels + depth * conv->pixels + first * x->out;
      conv->kernels->pack_b(packed, from, groups, pixels, conv->rows * conv->all_pixels, 1);
      for (ptrdiff_t m = 0; m < conv->sums; m += GROUP_SUMS) {
        const float *rows[GROUP_SUMS];
        for (ptrdiff_t k = 0; k < GROUP_SUMS; k++) {
          rows[k] = elements + ctx->row_at[rm_min(m + k, conv->sums - 1)] * width;
        }
        float *sums = to + (r * rm_round_up(conv->sums, GROUP_SUMS) + m) * width;
        gather->groups(pixels, rows, offsets, packed, groups, sums);
      }
    }
  }
  atomic_flag_clear(&conv->slot_taken[slot]);
}

/* Adds the parts of some sums and writes them, an output channel after the other. */
static void finish_task(void *context, ptrdiff_t index) {
  const weight_context *ctx = context;
  const conv_context *conv = &ctx->conv;
  const ptrdiff_t tasks = ctx->group_blocks * ctx->channel_blocks * ctx->column_blocks;
  const weight_place own = weight_place_at(ctx, index);
  const ptrdiff_t taps = conv->axes[DEPTH_AXIS].kernel * conv->taps, sums = own.channels * taps;
  float *from = ctx->sums + index * ctx->sums_floats;
  for (ptrdiff_t part = 1; part < ctx->parts; part++) {
    accumulate(conv->kernels, from, from + part * tasks * ctx->sums_floats, ctx->sums_floats);
  }
  const ptrdiff_t groups = rm_min(ctx->task_groups, conv->groups - own.group);
  for (ptrdiff_t i = 0; i < groups * own.columns; i++) {
    const ptrdiff_t group = i / own.columns, column = i % own.columns;
    float *to = conv->out + ((own.group + group) * conv->rows + own.column + column) * conv->sums +
                own.channel * taps;
    const ptrdiff_t panel = column * rm_round_up(sums, GROUP_SUMS) * ctx->panel_width;
    const float *at = from + (ctx->task_groups == 1 ? column : panel + group);
    for (ptrdiff_t m = 0; m < sums; m++) to[m] = at[m * ctx->row_floats];
  }
}

/* Splits channels, and then pixels; returns the number of tasks. */
static ptrdiff_t split_weight(weight_context *ctx) {
  conv_context *conv = &ctx->conv;
  const conv_axis *y = &conv->axes[HEIGHT], *x = &conv->axes[WIDTH];
  const ptrdiff_t kernels = conv->axes[DEPTH_AXIS].kernel, taps = kernels * conv->taps;
  /* Vectors of groups are full where those of output channels are not. */
  const bool by_groups = 2 * conv->rows <= ctx->gather->lanes && conv->groups > conv->rows;
  ctx->task_groups = by_groups ? ctx->panel_width : 1;
  ctx->group_blocks = rm_ceil_div(conv->groups, ctx->task_groups);
  ctx->task_channels = by_groups ? conv->channels : rm_min(conv->channels, 1 + (TASK_SUMS - 1) / taps);
  ctx->channel_blocks = rm_ceil_div(conv->channels, ctx->task_channels);
  ctx->task_columns = rm_min(conv->rows, TASK_COLUMNS);
  ctx->column_blocks = rm_ceil_div(conv->rows, ctx->task_columns);
  ctx->unit_rows = rm_min(y->out, 1 + (BLOCK_PIXELS - 1) / x->out);
  /* Units are about equally long. */
  ctx->unit_rows = rm_ceil_div(y->out, rm_ceil_div(y->out, ctx->unit_rows));
  ctx->plane_units = rm_ceil_div(y->out, ctx->unit_rows);
  ctx->units = conv->images * conv->axes[DEPTH_AXIS].out * ctx->plane_units;
  const ptrdiff_t unit_pixels = ctx->unit_rows * x->out;
  ctx->block_units = by_groups ? 1 : rm_min(ctx->units, 1 + (BLOCK_PIXELS - 1) / unit_pixels);
  ctx->row_floats = by_groups ? ctx->panel_width : rm_round_up(ctx->task_columns, ctx->gather->lanes);
  ctx->sums_floats = by_groups
                         ? conv->rows * rm_round_up(conv->sums, GROUP_SUMS) * ctx->panel_width
                         : rm_round_up(ctx->task_channels * taps, ctx->gather->rows) * ctx->row_floats;
  const ptrdiff_t tasks = ctx->group_blocks * ctx->channel_blocks * ctx->column_blocks;
  ptrdiff_t parts = rm_min((ptrdiff_t)(gather_ns(ctx->gather, conv) / PART_NS), MOST_PARTS);
  parts = rm_min(parts, MOST_PART_FLOATS / (tasks * ctx->sums_floats));
  if (parts < 1) parts = 1;
  const ptrdiff_t blocks = rm_ceil_div(ctx->units, ctx->block_units);
  ctx->part_units = rm_ceil_div(blocks, parts) * ctx->block_units;
  ctx->parts = rm_ceil_div(ctx->units, ctx->part_units);
  ctx->plane_floats =
      rows_for(conv, 0, ctx->unit_rows, NULL).count * conv->phases * conv->phase_length;
  ctx->unit_floats = ctx->task_channels * kernels * ctx->plane_floats;
  ctx->panel_floats = ctx->block_units * unit_pixels * ctx->panel_width;
  const ptrdiff_t staged = by_groups ? (ctx->plane_floats + ctx->unit_floats) * ctx->panel_width
                                     : ctx->block_units * ctx->unit_floats;
  conv->stage_bytes = rm_round_up(staged * 4, ALIGNMENT);
  const ptrdiff_t panels = by_groups ? 1 : rm_ceil_div(ctx->task_columns, ctx->panel_width);
  conv->panels_bytes = panels * ctx->panel_floats * 4;
  const ptrdiff_t offset_bytes = ctx->block_units * unit_pixels * (ptrdiff_t)sizeof(int32_t);
  conv->workspace_bytes =
      rm_round_up(conv->stage_bytes + conv->panels_bytes + offset_bytes, ALIGNMENT);
  return tasks * ctx->parts;
}

int32_t rm_conv_weight(const rm_call *call) {
  weight_context ctx = {.gather = rm_isa_kernels()->conv_gather};
  conv_context *conv = &ctx.conv;
  const int32_t status = ctx.gather->operands(call, conv);
  if (status != RM_OK) return status;
  if (conv->groups < 1 || conv->rows < 1 || conv->sums < 1) return RM_OK;
  if (conv->images < 1 || conv->all_pixels < 1) return RM_UNSUPPORTED;
  ctx.panel_width = 2 * ctx.gather->lanes;
  const ptrdiff_t tasks = split_weight(&ctx);
  conv->slots = (int)rm_min(rm_threads(), tasks);
  const ptrdiff_t sums_bytes = rm_round_up(tasks * ctx.sums_floats * 4, ALIGNMENT);
  const ptrdiff_t rows = ctx.task_channels * conv->axes[DEPTH_AXIS].kernel * conv->taps;
  gemm_workspace *workspace;
  char *more = gather_workspace(ctx.gather, conv, sums_bytes + rows * (ptrdiff_t)sizeof *ctx.row_at,
                                &workspace);
  if (more == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for the derivative of a convolution");
  ctx.sums = (float *)(void *)more;
  ctx.row_at = (ptrdiff_t *)(void *)(more + sums_bytes);
  for (ptrdiff_t m = 0; m < rows; m++) {
    const ptrdiff_t tap = m % conv->taps, width = conv->axes[WIDTH].kernel;
    ctx.row_at[m] = m / conv->taps * ctx.plane_floats + tap_offset(conv, tap / width, tap % width);
  }
  rm_parallel(tasks, gather_ns(ctx.gather, conv), ctx.task_groups > 1 ? groups_task : weight_task, &ctx);
  rm_parallel(tasks / ctx.parts, (double)sums_bytes / 4, finish_task, &ctx);
  ctx.gather->workspace_free(workspace);
  return RM_OK;
}
