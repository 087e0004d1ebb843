/*
 * Convolutions with one input channel in each group: each output pixel is a sum of few products.
 *
 * Rows of x are staged with their padding, split by the strides along both axes, so that pixels below
 * one another meet elements that are a line apart, whatever the strides.
 */
#include <string.h>
#include "conv_context.h"

/* The rows that are computed at once, and the side of the squares whose sums have a loop of their own. */
enum { ROWS = RM_DEPTHWISE_ROWS, SIDE = 3 };

/* What is added to sums and their limits then; where rows of the output end, and how many pixels of how many
 * rows are wanted. */
typedef struct {
  float bias, low, high;
  const float *end;
  ptrdiff_t rows, columns;
} sum_finish;

/* Finishes and stores ROWS vectors. Beyond the end of a short row, the next one overwrites them. */
static RM_ALWAYS_INLINE void store_sums(const v_f32 *sum, const sum_finish *finish, float *to,
                                        ptrdiff_t step) {
  const v_f32 low = (v_f32)(finish->low), high = (v_f32)(finish->high);
  UNROLL for (int r = 0; r < ROWS; r++, to += step) {
    const v_f32 whole = sum[r] + (v_f32)(finish->bias), above = whole <= low ? low : whole;
    const v_f32 made = above >= high ? high : above;
    if (to + LANES <= finish->end) *(v_f32 *)to = made;
    else if (r < finish->rows) memcpy(to, &made, (size_t)finish->columns * sizeof *to);
  }
}

/* Sums of `taps` products for a vector of pixels in each of ROWS rows. */
static void sum_taps(const float *from, ptrdiff_t line, const ptrdiff_t *offsets, const float *w,
                     ptrdiff_t taps, const sum_finish *finish, float *to, ptrdiff_t step) {
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
static void sum_square(const float *from, ptrdiff_t line, const float *w, const sum_finish *finish,
                       float *to, ptrdiff_t step) {
  v_f32 sum[ROWS];
  UNROLL for (int r = 0; r < ROWS; r++) sum[r] = (v_f32)0.0f;
  UNROLL for (int y = 0; y < ROWS + SIDE - 1; y++) {
    UNROLL for (int x = 0; x < SIDE; x++) {
      const v_f32 element = *(const v_f32 *)(from + y * line + x);
      UNROLL for (int r = 0; r < ROWS; r++) {
        const int ky = y - r;
        if (ky < 0 || ky >= SIDE) continue;
        sum[r] = FMA(v_f32, (v_f32)(w[ky * SIDE + x]), element, sum[r]);
      }
    }
  }
  store_sums(sum, finish, to, step);
}

/* A vector of a row of `left` elements, zeros beyond the last one. Reads up to `end` only. */
static RM_ALWAYS_INLINE v_i32 load_rest(const float *from, ptrdiff_t left, const float *end) {
  if (left >= LANES) return *(const v_i32 *)from;
  if (from + LANES <= end) return *(const v_i32 *)from & first_lanes(left);
  v_i32 made = (v_i32)(uint32_t)0;
  if (left > 0) memcpy(&made, from, (size_t)left * sizeof *from);
  return made;
}

/* Writes zeros to [from, to), and up to a vector more. */
static RM_ALWAYS_INLINE void store_zeros(float *line, ptrdiff_t from, ptrdiff_t to) {
  for (ptrdiff_t q = from; q < to; q += LANES) *(v_f32 *)(line + q) = (v_f32)0.0f;
}

/* How rows of planes are staged: rows, the floats of an area, the lines of a phase of both axes with room
 * for a vector at the last one, and the elements of the first phases along the width. */
typedef struct {
  staged_rows rows;
  ptrdiff_t area;
  row_phase phases[2];
} stage_plan;

static ptrdiff_t area_floats(const conv_context *ctx, ptrdiff_t rows) {
  return rm_ceil_div(rows, ctx->axes[HEIGHT].stride) * ctx->phase_length + 2 * LANES;
}

ptrdiff_t RM_FOR_ISA(conv_depthwise_floats)(const conv_context *ctx, ptrdiff_t rows) {
  return ctx->axes[HEIGHT].stride * ctx->phases * area_floats(ctx, rows);
}

/* Stages a row, or zeros if it is null: each phase is a line of `length`, `area` floats after the one
 * before. A line may write up to a vector more, which the next one overwrites. */
static RM_ALWAYS_INLINE void stage_row(const conv_context *ctx, const stage_plan *plan,
                                       const float *from, const float *end, float *to) {
  const conv_axis *x = &ctx->axes[WIDTH];
  const ptrdiff_t length = ctx->phase_length, area = plan->area;
  if (from == NULL) {
    for (ptrdiff_t f = 0; f < ctx->phases; f++) store_zeros(to + f * area, 0, length);
    return;
  }
  if (x->stride == 1) {
    const row_phase own = plan->phases[0];
    const ptrdiff_t count = own.end - own.begin;
    store_zeros(to, 0, own.begin);
    ptrdiff_t q = 0;
    for (; q < count; q += LANES) {
      *(v_i32 *)(to + own.begin + q) = load_rest(from + own.first + q, count - q, end);
    }
    store_zeros(to, own.begin + q, length);
    return;
  }
  const int even = (int)(x->padding & 1);
  const row_phase a = plan->phases[even], b = plan->phases[1 - even];
  if (x->stride == 2 && a.first == 0 && b.first == 1) {
    float *evens = to + even * area, *odds = to + (1 - even) * area;
    store_zeros(evens, 0, a.begin);
    store_zeros(odds, 0, b.begin);
    const ptrdiff_t evens_count = a.end - a.begin, odds_count = b.end - b.begin;
    const ptrdiff_t count = evens_count > odds_count ? evens_count : odds_count;
    ptrdiff_t q = 0;
    for (; q < count; q += LANES) {
      const v_i32 low = load_rest(from + 2 * q, x->in - 2 * q, end);
      const v_i32 high = load_rest(from + 2 * q + LANES, x->in - 2 * q - LANES, end);
      v_i32 first, second;
      first.lo = low.even, first.hi = high.even;
      second.lo = low.odd, second.hi = high.odd;
      *(v_i32 *)(evens + a.begin + q) = first;
      *(v_i32 *)(odds + b.begin + q) = second;
    }
    store_zeros(evens, a.begin + q, length);
    store_zeros(odds, b.begin + q, length);
    return;
  }
  for (ptrdiff_t f = 0; f < ctx->phases; f++) {
    const row_phase own = phase_of(ctx, f);
    float *line = to + f * area;
    store_zeros(line, 0, length);
    RM_ROLLED for (ptrdiff_t q = own.begin; q < own.end; q++) {
      line[q] = from[own.first + (q - own.begin) * x->stride];
    }
  }
}

/* Stages rows of a plane, which may be null: row r is line r / stride of the areas of r % stride. */
static RM_ALWAYS_INLINE void stage_rows(const conv_context *ctx, const stage_plan *plan, const float *plane,
                       float *to) {
  const conv_axis *y = &ctx->axes[HEIGHT];
  const float *end = plane + ctx->plane;
  ptrdiff_t line = 0, own = 0;
  for (ptrdiff_t r = 0; r < plan->rows.count; r++) {
    const ptrdiff_t row = plan->rows.first + r;
    const bool inside = plane != NULL && row >= 0 && row < y->in;
    stage_row(ctx, plan, inside ? plane + row * ctx->axes[WIDTH].in : NULL, end,
              to + own * ctx->phases * plan->area + line);
    if (++own == y->stride) own = 0, line += ctx->phase_length;
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
static void sum_rows(const conv_context *ctx, bool is_square, const float *stage,
                     const ptrdiff_t *offsets, const float *w, sum_finish *finish, ptrdiff_t count,
                     float *out) {
  const ptrdiff_t width = ctx->axes[WIDTH].out, line = ctx->phase_length;
  finish->end = out + count * width;
  for (ptrdiff_t next = 0; next < count; next += ROWS) {
    /* The last block begins early enough to be whole, and so does the last vector of a row. */
    const ptrdiff_t row = count < ROWS ? 0 : rm_min(next, count - ROWS);
    for (ptrdiff_t j = 0;; j += LANES) {
      if (j + LANES > width) j = width < LANES ? 0 : width - LANES;
      const float *from = stage + row * line + j;
      float *to = out + row * width + j;
      if (is_square) sum_square(from, line, w, finish, to, width);
      else sum_taps(from, line, offsets, w, ctx->sums, finish, to, width);
      if (j + LANES >= width) break;
    }
  }
}

/* Whether sum_square computes the sums. */
static bool meets_square(const conv_context *ctx) {
  const conv_axis *z = &ctx->axes[DEPTH_AXIS], *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  return z->kernel == 1 && y->kernel == SIDE && x->kernel == SIDE && y->stride == 1 && x->stride == 1 &&
         y->dilation == 1 && x->dilation == 1;
}

/* Zeros are single vectors, and no calls. */
__attribute__((no_builtin("memset"))) void RM_FOR_ISA(conv_depthwise)(void *context, ptrdiff_t index) {
  conv_context *ctx = context;
  const int slot = take_slot(ctx->slot_taken, ctx->slots);
  const bool is_square = meets_square(ctx);
  const conv_axis *z = &ctx->axes[DEPTH_AXIS], *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  const ptrdiff_t first = index % ctx->row_blocks * ctx->block_rows;
  const ptrdiff_t count = rm_min(y->out - first, ctx->block_rows);
  ptrdiff_t *offsets = (ptrdiff_t *)(ctx->workspace + slot * ctx->workspace_bytes);
  float *stage = (float *)(offsets + ctx->sums);
  /* Rows that are missing to a whole block are computed, but not wanted. */
  stage_plan plan = {.rows = rows_for(ctx, first, first + (count < ROWS ? ROWS : count), NULL)};
  plan.area = area_floats(ctx, plan.rows.count);
  for (int f = 0; f < 2; f++) plan.phases[f] = phase_of(ctx, f);
  const ptrdiff_t floats = y->stride * ctx->phases * plan.area;
  write_offsets(ctx, plan.area, offsets);
  for (ptrdiff_t tap = ctx->taps; tap < ctx->sums; tap++) {
    offsets[tap] = floats + offsets[tap - ctx->taps];
  }
  /* Limits alone are part of a sum. */
  const bool is_limited = ctx->activation == RM_ACTIVATION_CLIP;
  const bool whole = ctx->add == NULL && (is_limited || ctx->activation == RM_ACTIVATION_NONE);
  const float infinity = __builtin_inff();
  sum_finish finish = {0, whole && is_limited ? ctx->low : -infinity,
                       whole && is_limited ? ctx->high : infinity,
                       NULL, rm_min(count, ROWS), rm_min(x->out, LANES)};
  const ptrdiff_t begin = index / ctx->row_blocks * ctx->block_planes;
  const ptrdiff_t end = rm_min(begin + ctx->block_planes, ctx->images * ctx->groups * z->out);
  ptrdiff_t depth = begin % z->out, group = begin / z->out % ctx->groups;
  ptrdiff_t image = begin / z->out / ctx->groups;
  for (ptrdiff_t plane = begin; plane < end; plane++) {
    for (ptrdiff_t kz = 0; kz < z->kernel; kz++) {
      stage_rows(ctx, &plan, plane_of(ctx, image, group, 0, depth, kz), stage + kz * floats);
    }
    for (ptrdiff_t i = 0; i < ctx->rows; i++) {
      const ptrdiff_t channel = group * ctx->rows + i;
      const ptrdiff_t at = (image * ctx->groups * ctx->rows + channel) * ctx->all_pixels +
                           depth * ctx->pixels + first * x->out;
      if (whole && ctx->bias != NULL) finish.bias = ctx->bias[channel];
      sum_rows(ctx, is_square, stage, offsets, ctx->w + channel * ctx->sums, &finish, count,
               ctx->out + at);
      if (!whole) RM_FOR_ISA(finish_sums)(ctx, channel, at, count * x->out);
    }
    if (++depth == z->out) depth = 0, group++;
    if (group == ctx->groups) group = 0, image++;
  }
  atomic_flag_clear(&ctx->slot_taken[slot]);
}
