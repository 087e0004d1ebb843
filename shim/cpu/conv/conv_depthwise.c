/*
 * Convolutions with one input channel in each group: each output pixel is a sum of few products.
 *
 * Rows of x are staged with their padding, split by the strides along both axes, so that pixels below
 * one another meet elements that are a line apart, whatever the strides.
 */
#include <string.h>
#include "conv_context.h"

enum { ROWS = RM_DEPTHWISE_ROWS };

/* What is added to sums, and their limits then. */
typedef struct {
  float bias, low, high;
} sum_finish;

/* Finishes and stores ROWS vectors. */
static RM_ALWAYS_INLINE void store_sums(const v_f32 *sum, sum_finish finish, float *to,
                                        ptrdiff_t step) {
  const v_f32 low = (v_f32)(finish.low), high = (v_f32)(finish.high);
  UNROLL for (int r = 0; r < ROWS; r++) {
    const v_f32 whole = sum[r] + (v_f32)(finish.bias), above = whole <= low ? low : whole;
    *(v_f32 *)(to + r * step) = above >= high ? high : above;
  }
}

/* Sums of `taps` products for a vector of pixels in each of ROWS rows. */
static void sum_taps(const float *from, ptrdiff_t line, const ptrdiff_t *offsets, const float *w,
                     ptrdiff_t taps, sum_finish finish, float *to, ptrdiff_t step) {
  v_f32 sum[ROWS];
  UNROLL for (int r = 0; r < ROWS; r++) sum[r] = (v_f32)0.0f;
  ROLLED for (ptrdiff_t k = 0; k < taps; k++) {
    const float *at = from + offsets[k];
    const v_f32 factor = (v_f32)(w[k]);
    UNROLL for (int r = 0; r < ROWS; r++) {
      sum[r] = FMA(v_f32, factor, *(const v_f32 *)(at + r * line), sum[r]);
    }
  }
  store_sums(sum, finish, to, step);
}

/* The same for a square of adjacent elements: rows meet the same elements, which are read once. */
static RM_ALWAYS_INLINE void sum_square(const int side, const float *from, ptrdiff_t line,
                                        const float *w, sum_finish finish, float *to,
                                        ptrdiff_t step) {
  v_f32 sum[ROWS];
  UNROLL for (int r = 0; r < ROWS; r++) sum[r] = (v_f32)0.0f;
  UNROLL for (int y = 0; y < ROWS + side - 1; y++) {
    UNROLL for (int x = 0; x < side; x++) {
      const v_f32 element = *(const v_f32 *)(from + y * line + x);
      UNROLL for (int r = 0; r < ROWS; r++) {
        const int ky = y - r;
        if (ky < 0 || ky >= side) continue;
        sum[r] = FMA(v_f32, (v_f32)(w[ky * side + x]), element, sum[r]);
      }
    }
  }
  store_sums(sum, finish, to, step);
}

/* A vector of a row of `left` elements, zeros beyond the last one. Reads up to `end` only. */
static RM_ALWAYS_INLINE v_i32 load_rest(const float *from, ptrdiff_t left, const float *end) {
  if (from + LANES <= end) return *(const v_i32 *)from & first_lanes(left);
  v_i32 made = (v_i32)(uint32_t)0;
  if (left > 0) memcpy(&made, from, (size_t)rm_min(left, LANES) * sizeof *from);
  return made;
}

/* Writes the elements of a phase of a row of x between zeros, `length` in all, and up to a vector more. */
static void stage_line(const float *from, row_phase phase, ptrdiff_t step, ptrdiff_t length,
                       const float *end, float *to) {
  const ptrdiff_t count = phase.end - phase.begin;
  for (ptrdiff_t q = 0; q < phase.begin; q += LANES) *(v_f32 *)(to + q) = (v_f32)0.0f;
  float *own = to + phase.begin;
  ptrdiff_t q = 0;
  from += phase.first;
  if (step == 1) {
    for (; q < count; q += LANES) *(v_i32 *)(own + q) = load_rest(from + q, count - q, end);
  } else if (step == 2) {
    for (; q < count; q += LANES) {
      const float *at = from + 2 * q;
      const ptrdiff_t left = 2 * (count - q) - 1;
      const v_i32 low = load_rest(at, left, end);
      const v_i32 high = left > LANES ? load_rest(at + LANES, left - LANES, end)
                                      : (v_i32)(uint32_t)0;
      v_i32 even;
      even.lo = low.even, even.hi = high.even;
      *(v_i32 *)(own + q) = even;
    }
  } else {
    RM_ROLLED for (; q < count; q++) own[q] = from[q * step];
  }
  for (q += phase.begin; q < length; q += LANES) *(v_f32 *)(to + q) = (v_f32)0.0f;
}

/* The floats of the staged rows of a phase of both axes, with room for a vector at the last one. */
static ptrdiff_t area_floats(const conv_context *ctx, ptrdiff_t rows) {
  return rm_ceil_div(rows, ctx->axes[HEIGHT].stride) * ctx->phase_length + 2 * LANES;
}

ptrdiff_t RM_FOR_ISA(conv_depthwise_floats)(const conv_context *ctx, ptrdiff_t rows) {
  return ctx->axes[HEIGHT].stride * ctx->phases * area_floats(ctx, rows);
}

/* Stages rows of a plane, which may be null: row r is line r / stride of the areas of r % stride. */
static void stage_rows(const conv_context *ctx, const staged_rows *rows, const float *plane) {
  const conv_axis *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  const ptrdiff_t area = area_floats(ctx, rows->count), length = ctx->phase_length;
  const float *end = plane + ctx->plane;
  for (ptrdiff_t f = 0; f < ctx->phases; f++) {
    const row_phase phase = phase_of(ctx, f);
    const row_phase none = {length, length, 0};
    ptrdiff_t line = 0, own = 0;
    for (ptrdiff_t r = 0; r < rows->count; r++) {
      const ptrdiff_t row = rows->first + r;
      const bool inside = plane != NULL && row >= 0 && row < y->in;
      float *to = rows->data + (own * ctx->phases + f) * area + line * length;
      stage_line(inside ? plane + row * x->in : plane, inside ? phase : none, x->stride, length, end,
                 to);
      if (++own == y->stride) own = 0, line++;
    }
  }
}

/* Writes where the elements at each tap of a kernel begin. */
static void write_offsets(const conv_context *ctx, ptrdiff_t area, ptrdiff_t *to) {
  const conv_axis *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  ptrdiff_t line = 0, row = 0;
  for (ptrdiff_t ky = 0; ky < y->kernel; ky++) {
    ptrdiff_t column = 0, phase = 0;
    for (ptrdiff_t kx = 0; kx < x->kernel; kx++) {
      *to++ = (row * ctx->phases + phase) * area + line * ctx->phase_length + column;
      for (phase += x->dilation; phase >= ctx->phases; phase -= ctx->phases) column++;
    }
    for (row += y->dilation; row >= y->stride; row -= y->stride) line++;
  }
}

/* Computes `count` rows of a channel. */
static void sum_rows(const conv_context *ctx, const int side, const float *stage,
                     const ptrdiff_t *offsets, const float *w, sum_finish finish, ptrdiff_t count,
                     float *out) {
  const ptrdiff_t width = ctx->axes[WIDTH].out, line = ctx->phase_length;
  for (ptrdiff_t next = 0; next < count; next += ROWS) {
    /* The last block begins early enough to be whole, and so does the last vector of a row. Of a
     * shorter row, the next one overwrites what is beyond its end. */
    const ptrdiff_t row = count < ROWS ? 0 : rm_min(next, count - ROWS);
    const ptrdiff_t last = (row + ROWS - 1) * width + (width < LANES ? LANES : width);
    const bool direct = count >= ROWS && last <= count * width;
    float tile[ROWS * LANES];
    const ptrdiff_t step = direct ? width : LANES;
    for (ptrdiff_t j = 0;; j += LANES) {
      if (j + LANES > width) j = width < LANES ? 0 : width - LANES;
      const float *from = stage + row * line + j;
      float *to = out + row * width + j, *target = direct ? to : tile;
      if (side == 3) sum_square(3, from, line, w, finish, target, step);
      else if (side == 5) sum_square(5, from, line, w, finish, target, step);
      else sum_taps(from, line, offsets, w, ctx->sums, finish, target, step);
      for (ptrdiff_t r = 0; !direct && r < rm_min(count, ROWS); r++) {
        memcpy(to + r * width, tile + r * LANES, (size_t)rm_min(width, LANES) * sizeof *to);
      }
      if (j + LANES >= width) break;
    }
  }
}

/* The largest kernel whose sums sum_square computes, or 0. */
static int square_side(const conv_context *ctx) {
  const conv_axis *z = &ctx->axes[DEPTH_AXIS], *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  const bool adjacent = z->kernel == 1 && y->kernel == x->kernel && y->stride == 1 &&
                        x->stride == 1 && y->dilation == 1 && x->dilation == 1;
  return adjacent ? (int)x->kernel : 0;
}

void RM_FOR_ISA(conv_depthwise)(void *context, ptrdiff_t index) {
  conv_context *ctx = context;
  const int slot = take_slot(ctx->slot_taken, ctx->slots), side = square_side(ctx);
  const conv_axis *z = &ctx->axes[DEPTH_AXIS], *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  const ptrdiff_t first = index % ctx->row_blocks * ctx->block_rows;
  const ptrdiff_t count = rm_min(y->out - first, ctx->block_rows);
  ptrdiff_t *offsets = (ptrdiff_t *)(ctx->workspace + slot * ctx->workspace_bytes);
  float *stage = (float *)(offsets + ctx->sums);
  /* Rows that are missing to a whole block are computed, but not wanted. */
  const staged_rows all = rows_for(ctx, first, first + (count < ROWS ? ROWS : count), stage);
  const ptrdiff_t floats = RM_FOR_ISA(conv_depthwise_floats)(ctx, all.count);
  write_offsets(ctx, area_floats(ctx, all.count), offsets);
  for (ptrdiff_t tap = ctx->taps; tap < ctx->sums; tap++) {
    offsets[tap] = floats + offsets[tap - ctx->taps];
  }
  /* Limits alone are part of a sum. */
  const bool is_limited = ctx->activation == RM_ACTIVATION_CLIP;
  const bool whole = ctx->add == NULL && (is_limited || ctx->activation == RM_ACTIVATION_NONE);
  const float infinity = __builtin_inff();
  sum_finish finish = {0, whole && is_limited ? ctx->low : -infinity,
                       whole && is_limited ? ctx->high : infinity};
  const ptrdiff_t begin = index / ctx->row_blocks * ctx->block_planes;
  const ptrdiff_t end = rm_min(begin + ctx->block_planes, ctx->images * ctx->groups * z->out);
  for (ptrdiff_t plane = begin; plane < end; plane++) {
    const ptrdiff_t depth = plane % z->out, group = plane / z->out % ctx->groups;
    const ptrdiff_t image = plane / z->out / ctx->groups;
    staged_rows rows = all;
    for (ptrdiff_t kz = 0; kz < z->kernel; kz++) {
      stage_rows(ctx, &rows, plane_of(ctx, image, group, 0, depth, kz));
      rows.data += floats;
    }
    for (ptrdiff_t i = 0; i < ctx->rows; i++) {
      const ptrdiff_t channel = group * ctx->rows + i;
      const ptrdiff_t at = (image * ctx->groups * ctx->rows + channel) * ctx->all_pixels +
                           depth * ctx->pixels + first * x->out;
      if (whole && ctx->bias != NULL) finish.bias = ctx->bias[channel];
      sum_rows(ctx, side, stage, offsets, ctx->w + channel * ctx->sums, finish, count,
               ctx->out + at);
      if (!whole) finish_sums(ctx, channel, at, count * x->out);
    }
  }
  atomic_flag_clear(&ctx->slot_taken[slot]);
}
