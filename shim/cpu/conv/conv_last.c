/*
 * Convolutions of float32 images whose channels are last, [images, height, width, channels]: those of one
 * element and one group, and depthwise ones. Vectors are of channels. So nothing is staged or packed, and
 * taps on the padding are skipped. Others of one group make such images of images whose channels come
 * first: the same products as in conv.c, with panels of pixels as rows.
 *
 * Sizes alone decide in which order a sum adds its products, as in conv.c.
 */
#include <string.h>
#include "conv_gather.h"

enum {
  /* The most pixels of a task, so that they stay in the L2 cache while all panels meet them. */
  TASK_PIXELS = 112,
  /* The most pixels of a task that packs panels. */
  PACKED_PIXELS = 128,
  TASKS_PER_THREAD = 2,
  /* The depth of a block of the weight, and the most rows of a kernel of a packed weight. */
  BLOCK_DEPTH = 512,
  MOST_ROWS = 14,
  /* The most products of a sum of an image whose channels come first. */
  MOST_SUMS = 512,
  /* The number that tells whether the channels of x come first. */
  IS_FIRST = 4 + FINISH_NUMBERS + 6 * AXES
};

/* The estimated nanoseconds per product of a depthwise convolution. */
static const double DEPTHWISE_NS = 0.04;

typedef struct {
  conv_context conv;
  /* The same without limits. */
  conv_context plain;
  const rm_conv_gather *gather;
  /* Whether limits alone finish sums with their bias and residual. */
  bool has_limits;
} last_context;

/* Adds `columns` of rows of the residual, if there is one, to rows of PANEL_COLUMNS. */
static void add_rows(const conv_context *conv, ptrdiff_t rows, ptrdiff_t columns, const float *add,
                     float *to) {
  for (ptrdiff_t r = 0; add != NULL && r < rows; r++, to += PANEL_COLUMNS, add += conv->rows) {
    for (ptrdiff_t j = 0; j < columns; j++) to[j] += add[j];
  }
}

/* Completes the sums of some pixels, rows of PANEL_COLUMNS, and writes `columns` of each from `at` on. */
static void finish_tile(const last_context *ctx, const float *sums, ptrdiff_t rows, ptrdiff_t columns,
                        const float *bias, ptrdiff_t at) {
  static const float zeros[PANEL_COLUMNS];
  const rm_conv_gather *gather = ctx->gather;
  const conv_context *conv = &ctx->conv;
  const float *add = conv->add == NULL ? NULL : conv->add + at;
  float *out = conv->out + at, own[MOST_ROWS * PANEL_COLUMNS];
  const bool fits = columns >= gather->lanes;
  if (ctx->has_limits && fits) {
    gather->finish(conv, sums, rows, columns, bias, add, out, conv->rows);
    return;
  }
  gather->finish(&ctx->plain, sums, rows, PANEL_COLUMNS, bias, NULL, own, PANEL_COLUMNS);
  if (!conv->adds_last) add_rows(conv, rows, columns, add, own);
  if (conv->activation != RM_ACTIVATION_NONE) gather->activate(conv, rows * PANEL_COLUMNS, own);
  if (!conv->adds_last) add = NULL;
  if (fits) {
    gather->finish(&ctx->plain, own, rows, columns, zeros, add, out, conv->rows);
    return;
  }
  add_rows(conv, rows, columns, add, own);
  for (ptrdiff_t r = 0; r < rows; r++) {
    memcpy(out + r * conv->rows, own + r * PANEL_COLUMNS, (size_t)columns * sizeof *out);
  }
}

/* Multiplies some pixels by some panels of the weight. */
static void pointwise_task(void *context, ptrdiff_t index) {
  const last_context *ctx = context;
  const rm_conv_gather *gather = ctx->gather;
  const conv_context *conv = &ctx->conv;
  float sums[MOST_ROWS * PANEL_COLUMNS] __attribute__((aligned(64))) = {0};
  const ptrdiff_t depth = conv->channels, block = index / conv->row_blocks;
  const ptrdiff_t first = block * conv->all_pixels / conv->pixel_blocks;
  const ptrdiff_t count = (block + 1) * conv->all_pixels / conv->pixel_blocks - first;
  const ptrdiff_t begin = index % conv->row_blocks * conv->block_rows;
  const ptrdiff_t end = rm_min(begin + conv->block_rows, conv->rows);
  for (ptrdiff_t column = begin; column < end; column += PANEL_COLUMNS) {
    const float *panel = conv->w + column * depth;
    const ptrdiff_t columns = rm_min(PANEL_COLUMNS, end - column);
    float bias[PANEL_COLUMNS] = {0};
    if (conv->bias != NULL) memcpy(bias, conv->bias + column, (size_t)columns * sizeof *bias);
    /* Kernels of one vector have a fixed number of rows: the last ones may be computed twice. */
    const bool narrow = columns <= gather->lanes && count >= gather->rows;
    const ptrdiff_t tiles = rm_ceil_div(count, narrow ? gather->rows : gather->strip_rows);
    for (ptrdiff_t tile = 0; tile < tiles; tile++) {
      ptrdiff_t row = tile * count / tiles, rows = (tile + 1) * count / tiles - row;
      if (narrow) rows = gather->rows, row = rm_min(tile * rows, count - rows);
      row += first;
      packed_strip_kernel *strip = gather->strip(rows);
      /* Sums of columns beyond the last strip stay 0. */
      for (ptrdiff_t p = 0; p < depth; p += BLOCK_DEPTH) {
        const ptrdiff_t length = rm_min(BLOCK_DEPTH, depth - p);
        const float *x = conv->x + row * depth + p, *factors = panel + p * PANEL_COLUMNS;
        if (narrow) {
          conv->kernels->tile[1](length, x, depth, 1, factors, PANEL_COLUMNS, sums, PANEL_COLUMNS, p > 0);
          continue;
        }
        for (ptrdiff_t j = 0; j < columns; j += gather->strip_columns) {
          strip(length, x, depth, factors + j, sums + j, p > 0, (const char *)factors, 0);
        }
      }
      finish_tile(ctx, sums, rows, columns, bias, row * conv->rows + column);
    }
  }
}

/* Multiplies panels of some pixels of an image whose channels come first by the weight. */
static void packed_task(void *context, ptrdiff_t index) {
  last_context *ctx = context;
  const rm_conv_gather *gather = ctx->gather;
  const conv_context *conv = &ctx->conv;
  /* Sums of columns beyond the last vector stay 0. */
  float sums[MOST_ROWS * PANEL_COLUMNS] __attribute__((aligned(64))) = {0};
  const int slot = take_slot(conv->slot_taken, conv->slots);
  float *panels = (float *)(void *)(conv->workspace + slot * conv->workspace_bytes);
  float *stage = panels + conv->panels_bytes / (ptrdiff_t)sizeof *panels;
  const ptrdiff_t image = index / conv->pixel_blocks, width = 2 * gather->lanes;
  const ptrdiff_t first = index % conv->pixel_blocks * conv->block_pixels;
  const ptrdiff_t count = rm_min(conv->block_pixels, conv->pixels - first);
  /* Tiles meet all lanes of the last panel. */
  const ptrdiff_t panel_floats = conv->sums * width;
  if (count % width > 0) memset(panels + count / width * panel_floats, 0, (size_t)panel_floats * 4);
  gather->pack(conv, panels, stage, image, 0, 0, first, count, 0, conv->sums, panel_floats);
  for (ptrdiff_t column = 0; column < conv->rows; column += PANEL_COLUMNS) {
    const float *factors = conv->w + column * conv->sums;
    const ptrdiff_t columns = rm_min(PANEL_COLUMNS, conv->rows - column);
    float bias[PANEL_COLUMNS] = {0};
    if (conv->bias != NULL) memcpy(bias, conv->bias + column, (size_t)columns * sizeof *bias);
    for (ptrdiff_t i = 0, rows; i < count; i += rows) {
      /* The last tile of a panel begins early enough to be whole. */
      const ptrdiff_t lane = rm_min(i % width, width - gather->rows), row = i - i % width + lane;
      const float *panel = panels + i / width * panel_floats + lane;
      for (ptrdiff_t j = 0; j < columns; j += width) {
        const int index = columns - j <= gather->lanes ? 1 : 0;
        conv->kernels->tile[index](conv->sums, panel, 1, width, factors + j, PANEL_COLUMNS, sums + j,
                                   PANEL_COLUMNS, false);
      }
      rows = row + gather->rows - i;
      const ptrdiff_t at = (image * conv->pixels + first + row) * conv->rows + column;
      finish_tile(ctx, sums, rm_min(gather->rows, count - row), columns, bias, at);
    }
  }
  atomic_flag_clear(&conv->slot_taken[slot]);
}

/* Computes a convolution of images whose channels come first. */
static int32_t run_packed(last_context *ctx) {
  conv_context *conv = &ctx->conv;
  const ptrdiff_t threads = rm_threads(), width = 2 * ctx->gather->lanes;
  if (conv->groups != 1 || conv->sums > MOST_SUMS) return RM_UNSUPPORTED;
  conv->block_pixels = rm_min(PACKED_PIXELS, rm_round_up(conv->pixels, width));
  conv->pixel_blocks = rm_ceil_div(conv->pixels, conv->block_pixels);
  conv->panels_bytes = conv->block_pixels * conv->sums * 4;
  const conv_axis *y = &conv->axes[HEIGHT], *x = &conv->axes[WIDTH];
  const ptrdiff_t out_rows = rm_min(y->out, (conv->block_pixels - 1) / x->out + 2);
  conv->stage_bytes = 4 * staged_floats(conv, rows_for(conv, 0, out_rows, NULL).count);
  conv->workspace_bytes = rm_round_up(conv->panels_bytes + conv->stage_bytes, ALIGNMENT);
  const ptrdiff_t tasks = conv->images * conv->pixel_blocks;
  conv->slots = (int)rm_min(threads, tasks);
  gemm_workspace *workspace;
  if (gather_workspace(ctx->gather, conv, 0, &workspace) == NULL) {
    return rm_fail(RM_OUT_OF_MEMORY, "no memory for a convolution");
  }
  rm_parallel(tasks, gather_ns(ctx->gather, conv), packed_task, ctx);
  ctx->gather->workspace_free(workspace);
  return RM_OK;
}

/* The taps [begin, end) of an axis that meet elements of x, for an output element. */
typedef struct {
  ptrdiff_t begin, end;
} tap_range;

static tap_range taps_inside(const conv_axis *axis, ptrdiff_t out) {
  const ptrdiff_t first = out * axis->stride - axis->padding;
  const ptrdiff_t begin = first >= 0 ? 0 : rm_ceil_div(-first, axis->dilation);
  const ptrdiff_t end = first >= axis->in ? 0 : rm_ceil_div(axis->in - first, axis->dilation);
  return (tap_range){begin, rm_min(end, axis->kernel)};
}

/* Computes some output rows of all channels. */
static void depthwise_task(void *context, ptrdiff_t index) {
  const last_context *ctx = context;
  const conv_context *conv = &ctx->conv;
  const conv_axis *y = &conv->axes[HEIGHT], *x = &conv->axes[WIDTH];
  const ptrdiff_t channels = conv->groups, image = index / conv->row_blocks;
  const ptrdiff_t first = index % conv->row_blocks * conv->block_rows;
  const ptrdiff_t last = rm_min(first + conv->block_rows, y->out);
  /* The pixels [begin, end) meet all taps. */
  const ptrdiff_t begin = rm_ceil_div(x->padding, x->stride);
  const ptrdiff_t room = x->in + x->padding - (x->kernel - 1) * x->dilation;
  const ptrdiff_t end = room < 1 ? 0 : rm_min(x->out, (room - 1) / x->stride + 1);
  for (ptrdiff_t row = first; row < last; row++) {
    const tap_range rows = taps_inside(y, row);
    const ptrdiff_t top = row * y->stride - y->padding + rows.begin * y->dilation;
    float *out = conv->out + (image * conv->pixels + row * x->out) * channels;
    for (ptrdiff_t column = 0; column < x->out;) {
      /* The last pixels of a block may be computed twice. */
      const bool whole = column >= begin && column < end && end - begin >= CHANNEL_PIXELS;
      if (whole) column = rm_min(column, end - CHANNEL_PIXELS);
      const tap_range columns = taps_inside(x, column);
      const ptrdiff_t left = column * x->stride - x->padding + columns.begin * x->dilation;
      const channel_taps taps = {
          .rows = rows.end - rows.begin,
          .columns = columns.end - columns.begin,
          .row_step = y->dilation * x->in * channels,
          .column_step = x->dilation * channels,
          .factor_step = x->kernel * channels,
          .x = conv->x + (image * conv->plane + top * x->in + left) * channels,
          .w = conv->w + (rows.begin * x->kernel + columns.begin) * channels,
      };
      const conv_context *own = ctx->has_limits ? conv : &ctx->plain;
      float *to = out + column * channels;
      if (whole) ctx->gather->channels(own, &taps, x->stride * channels, to);
      else ctx->gather->channel(own, &taps, to);
      column += whole ? CHANNEL_PIXELS : 1;
    }
    if (!ctx->has_limits) ctx->gather->activate(conv, x->out * channels, out);
  }
}

int32_t rm_conv_last(const rm_call *call) {
  last_context ctx = {.gather = rm_isa_kernels()->conv_gather};
  conv_context *conv = &ctx.conv;
  const int32_t status = ctx.gather->operands(call, conv);
  if (status != RM_OK) return status;
  if (conv->images < 1 || conv->groups < 1 || conv->rows < 1 || conv->all_pixels < 1) return RM_OK;
  ctx.plain = *conv;
  ctx.plain.low = -__builtin_inff();
  ctx.plain.high = __builtin_inff();
  if (conv->activation == RM_ACTIVATION_NONE) *conv = ctx.plain, ctx.has_limits = true;
  else ctx.has_limits = conv->activation == RM_ACTIVATION_CLIP && (conv->add == NULL || !conv->adds_last);
  if (conv->axes[DEPTH_AXIS].in != 1) return RM_UNSUPPORTED;
  if (call->numbers[IS_FIRST] != 0) return run_packed(&ctx);
  const double products = (double)conv->images * (double)conv->groups * (double)conv->rows *
                          (double)conv->pixels * (double)conv->sums;
  const ptrdiff_t target = TASKS_PER_THREAD * rm_threads();
  if (conv->groups > 1) {
    const bool is_depthwise = conv->channels == 1 && conv->rows == 1;
    if (!is_depthwise || conv->groups < ctx.gather->lanes || conv->add != NULL) return RM_UNSUPPORTED;
    const ptrdiff_t height = conv->axes[HEIGHT].out;
    conv->block_rows = rm_ceil_div(height, target);
    conv->row_blocks = rm_ceil_div(height, conv->block_rows);
    rm_parallel(conv->images * conv->row_blocks, products * DEPTHWISE_NS, depthwise_task, &ctx);
    return RM_OK;
  }
  if (conv->taps != 1 || conv->plane != conv->pixels) return RM_UNSUPPORTED;
  conv->all_pixels = conv->images * conv->pixels;
  conv->pixel_blocks = rm_ceil_div(conv->all_pixels, TASK_PIXELS);
  const ptrdiff_t panels = rm_ceil_div(conv->rows, PANEL_COLUMNS);
  const ptrdiff_t parts = rm_min(panels, rm_ceil_div(target, conv->pixel_blocks));
  conv->block_rows = rm_ceil_div(panels, parts) * PANEL_COLUMNS;
  conv->row_blocks = rm_ceil_div(conv->rows, conv->block_rows);
  rm_parallel(conv->pixel_blocks * conv->row_blocks, gather_ns(ctx.gather, conv), pointwise_task, &ctx);
  return RM_OK;
}
