/*
 * Transposed convolutions of float32, which are also the derivatives of convolutions by their input.
 *
 * The output pixels along an axis fall into as many phases as its stride has elements: those of a phase
 * meet the same taps of the kernel, and adjacent ones adjacent elements of x. For each phase, the output
 * is the product of a matrix [pixels, channels x taps of the phase], which is never made, and the weight,
 * [channels x taps, output channels], in panels. Rows of that matrix are staged rows of x, read at the
 * offsets of channels and taps.
 */
#include <stdlib.h>
#include <string.h>
#include "conv_gather.h"
#include "isa.h"

enum {
  /* The pixels of a block, if images have that many, and the most output channels of a task. */
  BLOCK_PIXELS = 256,
  TASK_COLUMNS = 128,
  /* The products of a sum in a pass, if a channel has no more. */
  PASS = 576
};

/* A tap of the kernel in a plane, and the phase of the pixels that meet it. */
typedef struct {
  ptrdiff_t y, x, phase;
} phase_tap;

/* A unit is some output rows of a plane, a block some units. */
typedef struct {
  /* Its axes are those of staged rows. */
  conv_context conv;
  const rm_conv_gather *gather;
  /* The columns of a panel. */
  ptrdiff_t panel_width;
  conv_axis axes[AXES];
  /* How far back of its own element of x a pixel reaches, along height and width. */
  ptrdiff_t shift[AXES];
  ptrdiff_t unit_rows, plane_units, units, block_units, blocks;
  ptrdiff_t task_columns, column_blocks, pass_channels, phases;
  /* The taps by their phases, and where those of each phase begin. */
  phase_tap *taps;
  ptrdiff_t *begin;
  /* The staged floats of a plane of x and of a unit; those of a pixel's sums; panels of a group. */
  ptrdiff_t plane_floats, unit_floats, row_floats, panels, panel_floats;
  float *weight;
} transpose_context;

/* Output rows [first, last) of a plane. */
typedef struct {
  ptrdiff_t image, depth, first, last;
} transpose_unit;

static transpose_unit unit_at(const transpose_context *ctx, ptrdiff_t unit) {
  const ptrdiff_t plane = unit / ctx->plane_units, depths = ctx->axes[DEPTH_AXIS].out;
  const ptrdiff_t first = unit % ctx->plane_units * ctx->unit_rows;
  return (transpose_unit){plane / depths, plane % depths, first,
                          rm_min(first + ctx->unit_rows, ctx->axes[HEIGHT].out)};
}

/* The first place of a phase from `from` on. */
static ptrdiff_t next_of(const conv_axis *axis, ptrdiff_t phase, ptrdiff_t from) {
  const ptrdiff_t beyond = (from + axis->padding - phase) % axis->stride;
  return beyond == 0 ? from : beyond < 0 ? from - beyond : from + axis->stride - beyond;
}

/* The element of x that a place meets at tap 0, if it meets that. */
static ptrdiff_t element_of(const conv_axis *axis, ptrdiff_t place) {
  return (place + axis->padding) / axis->stride;
}

/* Where the rows of a panel begin that the taps of a phase meet, of a kernel's plane. */
static ptrdiff_t panel_at(const transpose_context *ctx, ptrdiff_t kernel, ptrdiff_t phase, ptrdiff_t panel) {
  const ptrdiff_t begin = ctx->begin[phase], taps = ctx->begin[phase + 1] - begin;
  const ptrdiff_t before = (kernel * ctx->conv.taps + begin) * ctx->panels + panel * taps;
  return before * ctx->conv.channels * ctx->panel_width;
}

/* Packs the weight of a panel of output channels of a group. */
static void pack_task(void *context, ptrdiff_t index) {
  const transpose_context *ctx = context;
  const conv_context *conv = &ctx->conv;
  const ptrdiff_t group = index / ctx->panels, panel = index % ctx->panels;
  const ptrdiff_t kernels = ctx->axes[DEPTH_AXIS].kernel, width = ctx->axes[WIDTH].kernel;
  float *own = ctx->weight + group * ctx->panels * ctx->panel_floats;
  for (ptrdiff_t t = 0; t < kernels * conv->taps; t++) {
    const ptrdiff_t kernel = t / conv->taps;
    const phase_tap tap = ctx->taps[t % conv->taps];
    const ptrdiff_t begin = ctx->begin[tap.phase], taps = ctx->begin[tap.phase + 1] - begin;
    float *to = own + panel_at(ctx, kernel, tap.phase, panel) + (t % conv->taps - begin) * ctx->panel_width;
    for (ptrdiff_t c = 0; c < conv->channels; c++, to += taps * ctx->panel_width) {
      const ptrdiff_t row = (group * conv->channels + c) * conv->rows + panel * ctx->panel_width;
      const float *from = conv->w + (row * kernels + kernel) * conv->taps + tap.y * width + tap.x;
      for (ptrdiff_t o = 0; o < ctx->panel_width; o++) {
        to[o] = panel * ctx->panel_width + o < conv->rows ? from[o * kernels * conv->taps] : 0;
      }
    }
  }
}

/* Writes the sums of `n` pixels, `step` elements apart in the planes of `columns` output channels. */
static void write_pixels(const transpose_context *ctx, const float *sums, ptrdiff_t n, ptrdiff_t channel,
                         ptrdiff_t columns, float *to, ptrdiff_t step) {
  enum { SIDE = 4 };
  const ptrdiff_t row = ctx->row_floats, plane = ctx->conv.all_pixels;
  for (ptrdiff_t o = 0; o < columns; o += SIDE) {
    const ptrdiff_t lines = rm_min(SIDE, columns - o);
    float bias[SIDE] = {0};
    for (ptrdiff_t k = 0; ctx->conv.bias != NULL && k < lines; k++) bias[k] = ctx->conv.bias[channel + o + k];
    const f32x4 shift = {bias[0], bias[1], bias[2], bias[3]};
    float *own = to + o * plane;
    ptrdiff_t i = 0;
    for (; step == 1 && lines == SIDE && i + SIDE <= n; i += SIDE) {
      const float *at = sums + i * row + o;
      const f32x4 a = *(const f32x4 *)at + shift, b = *(const f32x4 *)(at + row) + shift;
      const f32x4 c = *(const f32x4 *)(at + 2 * row) + shift, d = *(const f32x4 *)(at + 3 * row) + shift;
      const f32x4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      const f32x4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
      const f32x4 ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const f32x4 cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      *(f32x4 *)(own + i) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
      *(f32x4 *)(own + plane + i) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
      *(f32x4 *)(own + 2 * plane + i) = __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5);
      *(f32x4 *)(own + 3 * plane + i) = __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7);
    }
    RM_ROLLED for (; i < n; i++) {
      for (ptrdiff_t k = 0; k < lines; k++) own[k * plane + i * step] = sums[i * row + o + k] + bias[k];
    }
  }
}

static void transpose_task(void *context, ptrdiff_t index) {
  transpose_context *ctx = context;
  conv_context *conv = &ctx->conv;
  const conv_axis *z = &ctx->axes[DEPTH_AXIS], *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  const rm_conv_gather *gather = ctx->gather;
  const ptrdiff_t width = ctx->panel_width;
  const int slot = take_slot(conv->slot_taken, conv->slots);
  float *const stage = (float *)(conv->workspace + slot * conv->workspace_bytes);
  float *const sums = stage + conv->stage_bytes / 4;
  int32_t *const pixel_at = (int32_t *)(sums + conv->panels_bytes / 4);
  int32_t *const offsets =
      pixel_at + rm_round_up(ctx->block_units * ctx->unit_rows * x->out, gather->rows);
  const ptrdiff_t column = index % ctx->column_blocks * ctx->task_columns;
  const ptrdiff_t group = index / ctx->column_blocks % conv->groups;
  const ptrdiff_t first = index / ctx->column_blocks / conv->groups * ctx->block_units;
  const ptrdiff_t units = rm_min(ctx->block_units, ctx->units - first);
  const ptrdiff_t columns = rm_min(ctx->task_columns, conv->rows - column);
  const float *weight = ctx->weight + group * ctx->panels * ctx->panel_floats;
  memset(sums, 0, (size_t)conv->panels_bytes);
  for (ptrdiff_t kernel = 0; kernel < z->kernel; kernel++) {
    /* Units of a block are at the same depth. */
    const ptrdiff_t reach = unit_at(ctx, first).depth + z->padding - kernel * z->dilation;
    if (reach < 0 || reach % z->stride != 0 || reach / z->stride >= z->in) continue;
    for (ptrdiff_t c = 0; c < conv->channels; c += ctx->pass_channels) {
      const ptrdiff_t channels = rm_min(ctx->pass_channels, conv->channels - c);
      for (ptrdiff_t u = 0; u < units; u++) {
        const transpose_unit own = unit_at(ctx, first + u);
        const ptrdiff_t low = element_of(y, own.first), high = element_of(y, own.last - 1);
        staged_rows rows = {stage + u * ctx->unit_floats, low - ctx->shift[HEIGHT],
                            high - low + 1 + ctx->shift[HEIGHT]};
        const ptrdiff_t channel = (own.image * conv->groups + group) * conv->channels + c;
        for (ptrdiff_t k = 0; k < channels; k++, rows.data += ctx->plane_floats) {
          gather->stage(conv, &rows,
                        conv->x + ((channel + k) * z->in + reach / z->stride) * conv->plane);
        }
      }
      float *to = sums;
      for (ptrdiff_t phase = 0; phase < ctx->phases; phase++) {
        ptrdiff_t pixels = 0, depth = 0;
        for (ptrdiff_t u = 0; u < units; u++) {
          const transpose_unit own = unit_at(ctx, first + u);
          const ptrdiff_t low = element_of(y, own.first);
          for (ptrdiff_t i = next_of(y, phase / x->stride, own.first); i < own.last; i += y->stride) {
            const ptrdiff_t line = u * ctx->unit_floats + (element_of(y, i) - low) * conv->phase_length;
            for (ptrdiff_t j = next_of(x, phase % x->stride, 0); j < x->out; j += x->stride) {
              pixel_at[pixels++] = (int32_t)(line + element_of(x, j));
            }
          }
        }
        const ptrdiff_t taps = ctx->begin[phase + 1] - ctx->begin[phase];
        for (ptrdiff_t k = 0; k < channels; k++) {
          for (ptrdiff_t t = 0; t < taps; t++) {
            const phase_tap tap = ctx->taps[ctx->begin[phase] + t];
            const ptrdiff_t down = (phase / x->stride - tap.y * y->dilation) / y->stride;
            const ptrdiff_t right = (phase % x->stride - tap.x * x->dilation) / x->stride;
            offsets[depth++] =
                (int32_t)(k * ctx->plane_floats + (ctx->shift[HEIGHT] + down) * conv->phase_length +
                          ctx->shift[WIDTH] + right);
          }
        }
        for (ptrdiff_t j = 0; depth > 0 && j < columns; j += width) {
          const float *panel =
              weight + panel_at(ctx, kernel, phase, (column + j) / width) + c * taps * width;
          for (ptrdiff_t i = 0; i < pixels; i += gather->rows) {
            const float *rows[MOST_TILE_ROWS];
            for (ptrdiff_t k = 0; k < gather->rows; k++) {
              rows[k] = stage + pixel_at[rm_min(i + k, pixels - 1)];
            }
            gather->tile(depth, rows, offsets, panel, columns - j, to + i * ctx->row_floats + j,
                         ctx->row_floats);
          }
        }
        to += rm_round_up(pixels, gather->rows) * ctx->row_floats;
      }
    }
  }
  const float *from = sums;
  for (ptrdiff_t phase = 0; phase < ctx->phases; phase++) {
    ptrdiff_t pixels = 0;
    const ptrdiff_t left = next_of(x, phase % x->stride, 0);
    const ptrdiff_t row = left < x->out ? (x->out - 1 - left) / x->stride + 1 : 0;
    for (ptrdiff_t u = 0; u < units; u++) {
      const transpose_unit own = unit_at(ctx, first + u);
      const ptrdiff_t channel = group * conv->rows + column;
      float *to = conv->out + (own.image * conv->groups * conv->rows + channel) * conv->all_pixels +
                  own.depth * conv->pixels;
      for (ptrdiff_t i = next_of(y, phase / x->stride, own.first); i < own.last; i += y->stride) {
        /* Without a stride all rows are one. */
        const ptrdiff_t n = ctx->phases == 1 ? (own.last - own.first) * row : row;
        write_pixels(ctx, from + pixels * ctx->row_floats, n, channel, columns, to + i * x->out + left,
                     x->stride);
        pixels += n;
        if (ctx->phases == 1) break;
      }
    }
    from += rm_round_up(pixels, gather->rows) * ctx->row_floats;
  }
  atomic_flag_clear(&conv->slot_taken[slot]);
}

/* Lists the taps of a plane by their phases; returns the most of one. */
static ptrdiff_t list_taps(transpose_context *ctx) {
  const conv_axis *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  ptrdiff_t count = 0, most = 0;
  for (ptrdiff_t phase = 0; phase < ctx->phases; phase++) {
    ctx->begin[phase] = count;
    for (ptrdiff_t t = 0; t < ctx->conv.taps; t++) {
      const phase_tap tap = {t / x->kernel, t % x->kernel, phase};
      const bool meets = tap.y * y->dilation % y->stride == phase / x->stride &&
                         tap.x * x->dilation % x->stride == phase % x->stride;
      if (meets) ctx->taps[count++] = tap;
    }
    if (count - ctx->begin[phase] > most) most = count - ctx->begin[phase];
  }
  ctx->begin[ctx->phases] = count;
  return most;
}

/* Splits the output into tasks; returns their number. */
static ptrdiff_t split_transpose(transpose_context *ctx, ptrdiff_t most_taps) {
  conv_context *conv = &ctx->conv;
  const conv_axis *z = &ctx->axes[DEPTH_AXIS], *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  ctx->task_columns = rm_min(conv->rows, TASK_COLUMNS);
  ctx->column_blocks = rm_ceil_div(conv->rows, ctx->task_columns);
  ctx->unit_rows = rm_min(y->out, 1 + (BLOCK_PIXELS - 1) / x->out);
  ctx->unit_rows = rm_ceil_div(y->out, rm_ceil_div(y->out, ctx->unit_rows));
  ctx->plane_units = rm_ceil_div(y->out, ctx->unit_rows);
  ctx->units = conv->images * z->out * ctx->plane_units;
  const ptrdiff_t unit_pixels = ctx->unit_rows * x->out;
  ctx->block_units = z->out > 1 ? 1 : rm_min(ctx->units, 1 + (BLOCK_PIXELS - 1) / unit_pixels);
  ctx->blocks = rm_ceil_div(ctx->units, ctx->block_units);
  ctx->pass_channels = rm_min(conv->channels, 1 + (PASS - 1) / most_taps);
  ctx->row_floats = rm_round_up(ctx->task_columns, ctx->gather->lanes);
  const ptrdiff_t rows = (ctx->unit_rows - 1 + y->stride - 1) / y->stride + 1 + ctx->shift[HEIGHT];
  ctx->plane_floats = rows * conv->phase_length;
  ctx->unit_floats = ctx->pass_channels * ctx->plane_floats;
  const ptrdiff_t pixels = ctx->block_units * unit_pixels;
  conv->stage_bytes = rm_round_up(ctx->block_units * ctx->unit_floats * 4, ALIGNMENT);
  /* The pixels of each phase fill tiles. */
  const ptrdiff_t places = rm_round_up(pixels, ctx->gather->rows);
  conv->panels_bytes = (places + (ctx->phases - 1) * ctx->gather->rows) * ctx->row_floats * 4;
  const ptrdiff_t offsets = places + ctx->pass_channels * most_taps;
  conv->workspace_bytes =
      rm_round_up(conv->stage_bytes + conv->panels_bytes + offsets * 4, ALIGNMENT);
  return ctx->blocks * conv->groups * ctx->column_blocks;
}

int32_t rm_conv_transpose(const rm_call *call) {
  transpose_context ctx = {.gather = rm_isa_kernels()->conv_gather};
  conv_context *conv = &ctx.conv;
  const int32_t status = ctx.gather->operands(call, conv);
  if (status != RM_OK) return status;
  if (conv->images < 1 || conv->groups < 1 || conv->rows < 1 || conv->all_pixels < 1) return RM_OK;
  if (conv->sums < 1) return RM_UNSUPPORTED;
  memcpy(ctx.axes, conv->axes, sizeof ctx.axes);
  for (int i = HEIGHT; i < AXES; i++) {
    conv_axis *own = &conv->axes[i];
    ctx.shift[i] = (own->kernel - 1) * own->dilation / own->stride;
    own->padding = ctx.shift[i];
    own->stride = 1;
  }
  const conv_axis *x = &ctx.axes[WIDTH];
  conv->phases = 1;
  conv->phase_length = element_of(x, x->out - 1) + 1 + ctx.shift[WIDTH];
  ctx.phases = ctx.axes[HEIGHT].stride * x->stride;
  ctx.panel_width = 2 * ctx.gather->lanes;
  ctx.panels = rm_ceil_div(conv->rows, ctx.panel_width);
  ctx.panel_floats = conv->sums * ctx.panel_width;
  ctx.taps = malloc((size_t)conv->taps * sizeof *ctx.taps +
                    (size_t)(ctx.phases + 1) * sizeof *ctx.begin);
  if (ctx.taps == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a transposed convolution");
  ctx.begin = (ptrdiff_t *)(void *)(ctx.taps + conv->taps);
  const ptrdiff_t tasks = split_transpose(&ctx, list_taps(&ctx));
  conv->slots = (int)rm_min(rm_threads(), tasks);
  const ptrdiff_t weight_bytes = conv->groups * ctx.panels * ctx.panel_floats * 4;
  gemm_workspace *workspace;
  char *more = gather_workspace(ctx.gather, conv, weight_bytes, &workspace);
  if (more == NULL) {
    free(ctx.taps);
    return rm_fail(RM_OUT_OF_MEMORY, "no memory for a transposed convolution");
  }
  ctx.weight = (float *)(void *)more;
  rm_parallel(conv->groups * ctx.panels, (double)weight_bytes / 4, pack_task, &ctx);
  rm_parallel(tasks, gather_ns(ctx.gather, conv) / (double)ctx.phases, transpose_task, &ctx);
  ctx.gather->workspace_free(workspace);
  free(ctx.taps);
  return RM_OK;
}
