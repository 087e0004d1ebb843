/*
 * The matrix of a convolution, [sums, pixels], block by block.
 *
 * Rows of x are staged once for all taps of a kernel: with their padding, so that no tap needs a
 * check, and split by the stride, so that adjacent pixels meet adjacent elements. Output rows follow
 * one another in a panel. A vector of pixels is therefore adjacent elements, or the end of one row
 * and the beginning of the next.
 */
#include <string.h>
#include "conv_context.h"

/* Copies the first `evens` elements at even places, and `odds` at odd ones, of adjacent ones. */
static void split_pairs(const float *from, float *even, ptrdiff_t evens, float *odd,
                        ptrdiff_t odds) {
  const ptrdiff_t both = rm_min(evens, odds);
  ptrdiff_t q = 0;
  for (; q + LANES <= both; q += LANES) {
    const v_f32 low = *(const v_f32 *)(from + 2 * q), high = *(const v_f32 *)(from + 2 * q + LANES);
    v_f32 first, second;
    first.lo = low.even, first.hi = high.even;
    second.lo = low.odd, second.hi = high.odd;
    *(v_f32 *)(even + q) = first;
    *(v_f32 *)(odd + q) = second;
  }
  RM_ROLLED for (ptrdiff_t i = q; i < evens; i++) even[i] = from[2 * i];
  RM_ROLLED for (ptrdiff_t i = q; i < odds; i++) odd[i] = from[2 * i + 1];
}

static void fill_zeros(float *line, ptrdiff_t length, row_phase phase) {
  RM_ROLLED for (ptrdiff_t q = 0; q < phase.begin; q++) line[q] = 0;
  RM_ROLLED for (ptrdiff_t q = phase.end; q < length; q++) line[q] = 0;
}

void RM_FOR_ISA(conv_stage)(const conv_context *ctx, const staged_rows *to, const float *plane) {
  const conv_axis *x = &ctx->axes[WIDTH];
  const ptrdiff_t height = ctx->axes[HEIGHT].in, length = ctx->phase_length;
  const ptrdiff_t row_floats = ctx->phases * length;
  /* The rows [top, bottom) are in the plane. */
  const ptrdiff_t top = plane == NULL ? to->count : rm_min(to->count, to->first < 0 ? -to->first : 0);
  ptrdiff_t bottom = rm_min(to->count, height - to->first);
  if (bottom < top) bottom = top;
  memset(to->data, 0, (size_t)(top * row_floats) * sizeof *to->data);
  memset(to->data + bottom * row_floats, 0,
         (size_t)((to->count - bottom) * row_floats) * sizeof *to->data);
  if (top == bottom) return;
  const float *from = plane + (to->first + top) * x->in;
  float *line = to->data + top * row_floats;
  if (x->stride == 2) {
    const row_phase phases[2] = {phase_of(ctx, 0), phase_of(ctx, 1)};
    const int even = (int)(x->padding & 1);
    const row_phase a = phases[even], b = phases[1 - even];
    if (a.first == 0 && b.first == 1) {
      for (ptrdiff_t r = top; r < bottom; r++, line += row_floats, from += x->in) {
        float *evens = line + even * length, *odds = line + (1 - even) * length;
        fill_zeros(evens, length, a);
        fill_zeros(odds, length, b);
        split_pairs(from, evens + a.begin, a.end - a.begin, odds + b.begin, b.end - b.begin);
      }
      return;
    }
  }
  /* Rows are short, divisions long. */
  for (ptrdiff_t f = 0; f < ctx->phases; f++) {
    const row_phase own = phase_of(ctx, f);
    for (ptrdiff_t r = 0; r < bottom - top; r++) {
      float *at = line + r * row_floats + f * length;
      const float *first = from + r * x->in + own.first;
      const ptrdiff_t count = own.end - own.begin;
      fill_zeros(at, length, own);
      if (x->stride == 1) memcpy(at + own.begin, first, (size_t)count * sizeof *at);
      else for (ptrdiff_t q = 0; q < count; q++) at[own.begin + q] = first[q * x->stride];
    }
  }
}

/* Pixels of a block: where each vector of pixels begins in staged rows, and how many of its lanes
 * are before the end of an output row. */
typedef struct {
  int32_t offset, before_end;
} vector_place;

enum { MOST_VECTORS = BLOCK_COLUMNS / LANES };

/* Copies the elements of `count` pixels at a tap to the panels; those of a vector beyond the end of
 * an output row are `jump` further on. Lanes beyond the last pixel get zeros: if what memory has there
 * is subnormal, products with it take many times as long. */
static void copy_tap(const float *from, const vector_place *places, ptrdiff_t count,
                     ptrdiff_t jump, float *to, ptrdiff_t panel_stride) {
  const ptrdiff_t vectors = rm_ceil_div(count, LANES);
  for (ptrdiff_t v = 0; v < vectors; v++) {
    const float *at = from + places[v].offset;
    v_i32 bits = *(const v_i32 *)at;
    if (places[v].before_end < LANES) {
      const v_i32 next = *(const v_i32 *)(at + jump), mask = first_lanes(places[v].before_end);
      bits = (bits & mask) | (next & ~mask);
    }
    *(v_i32 *)(to + v / 2 * panel_stride + v % 2 * LANES) = bits;
  }
  if (count % LANES == 0) return;
  const ptrdiff_t last = vectors - 1;
  *(v_i32 *)(to + last / 2 * panel_stride + last % 2 * LANES) &= first_lanes(count % LANES);
}

/* The same for output rows shorter than a vector: `skipped` pixels of the first one are not wanted. */
static void copy_rows(const float *from, ptrdiff_t row_step, ptrdiff_t length, ptrdiff_t skipped,
                      ptrdiff_t count, float *to, ptrdiff_t panel_stride) {
  float line[BLOCK_COLUMNS + 2 * PANEL];
  /* A vector of each row; the next row overwrites what is beyond its end. */
  for (ptrdiff_t at = 0; at < skipped + count; at += length, from += row_step) {
    *(v_f32 *)(line + at) = *(const v_f32 *)from;
  }
  for (ptrdiff_t i = 0; i < count; i += PANEL, to += panel_stride) {
    v_i32 first = *(const v_i32 *)(line + skipped + i);
    v_i32 second = *(const v_i32 *)(line + skipped + i + LANES);
    if (count - i < PANEL) {
      first &= first_lanes(count - i);
      second &= first_lanes(count - i - LANES);
    }
    *(v_i32 *)to = first;
    *(v_i32 *)(to + LANES) = second;
  }
}

/* Pixels that meet one element of each channel: rows of the matrix are rows of x. */
static void pack_pointwise(const float *from, ptrdiff_t stride, ptrdiff_t sums, ptrdiff_t count,
                           float *panels, ptrdiff_t panel_stride) {
  for (ptrdiff_t k = 0; k < sums; k++, from += stride, panels += PANEL) {
    float *to = panels;
    ptrdiff_t i = 0;
    for (; i + PANEL <= count; i += PANEL, to += panel_stride) {
      memcpy(to, from + i, PANEL * sizeof *to);
    }
    if (i < count) {
      memcpy(to, from + i, (size_t)(count - i) * sizeof *to);
      memset(to + count - i, 0, (size_t)(PANEL - count + i) * sizeof *to);
    }
  }
}

void RM_FOR_ISA(conv_pack)(const conv_context *ctx, float *panels, float *stage, ptrdiff_t image,
                           ptrdiff_t group, ptrdiff_t out_depth, ptrdiff_t first, ptrdiff_t count,
                           ptrdiff_t begin, ptrdiff_t end, ptrdiff_t panel_stride) {
  const conv_axis *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  if (ctx->pointwise) {
    pack_pointwise(plane_of(ctx, image, group, begin, out_depth, 0) + first, ctx->plane, end - begin,
                   count, panels, panel_stride);
    return;
  }
  const ptrdiff_t first_row = first / x->out;
  const staged_rows rows = rows_for(ctx, first_row, (first + count - 1) / x->out + 1, stage);
  const ptrdiff_t row_step = y->stride * ctx->phases * ctx->phase_length;
  const bool by_vectors = x->out >= LANES;
  vector_place places[MOST_VECTORS];
  const ptrdiff_t vectors = by_vectors ? rm_ceil_div(count, LANES) : 0;
  for (ptrdiff_t v = 0; v < vectors; v++) {
    const ptrdiff_t pixel = first + v * LANES, column = pixel % x->out;
    /* Pixels beyond the last one need no further row, which may not be there. */
    const ptrdiff_t own = x->out - column, needed = rm_min(LANES, count - v * LANES);
    const ptrdiff_t offset = (pixel / x->out - first_row) * row_step + column;
    places[v] = (vector_place){(int32_t)offset, (int32_t)(own < needed ? own : LANES)};
  }
  ptrdiff_t staged = -1;
  for (ptrdiff_t k = begin; k < end; k++) {
    const ptrdiff_t plane = k / ctx->taps, tap = k % ctx->taps;
    if (plane != staged) {
      const ptrdiff_t depths = ctx->axes[DEPTH_AXIS].kernel;
      const float *source = plane_of(ctx, image, group, plane / depths, out_depth, plane % depths);
      RM_FOR_ISA(conv_stage)(ctx, &rows, source);
      staged = plane;
    }
    const float *from = stage + tap_offset(ctx, tap / x->kernel, tap % x->kernel);
    float *to = panels + (k - begin) * PANEL;
    if (by_vectors) copy_tap(from, places, count, row_step - x->out, to, panel_stride);
    else copy_rows(from, row_step, x->out, first % x->out, count, to, panel_stride);
  }
}
