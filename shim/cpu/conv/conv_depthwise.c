/*
 * Convolutions with one input channel in each group: each output pixel is a sum of few products.
 */
#include "conv_context.h"

enum { VECTORS = 4 };

/* Sums of `taps` products for VECTORS vectors of pixels, or one. */
static RM_ALWAYS_INLINE void sum_taps(const int vectors, const float *from, const ptrdiff_t *offsets,
                                      const float *w, ptrdiff_t taps, float *to) {
  v_f32 sum[VECTORS];
  UNROLL for (int v = 0; v < vectors; v++) sum[v] = (v_f32)0.0f;
  ROLLED for (ptrdiff_t k = 0; k < taps; k++) {
    const float *at = from + offsets[k];
    const v_f32 factor = (v_f32)(w[k]);
    UNROLL for (int v = 0; v < vectors; v++) {
      sum[v] = FMA(v_f32, factor, *(const v_f32 *)(at + v * LANES), sum[v]);
    }
  }
  UNROLL for (int v = 0; v < vectors; v++) *(v_f32 *)(to + v * LANES) = sum[v];
}

static void sum_row(const float *from, const ptrdiff_t *offsets, const float *w, ptrdiff_t taps,
                    float *to, ptrdiff_t count) {
  ptrdiff_t i = 0;
  for (; i + VECTORS * LANES <= count; i += VECTORS * LANES) {
    sum_taps(VECTORS, from + i, offsets, w, taps, to + i);
  }
  if (count >= VECTORS * LANES && i < count) {
    /* The last vectors begin early enough to be whole, so that some sums are computed twice. */
    const ptrdiff_t rest = rm_ceil_div(count - i, LANES);
    i = count - rest * LANES;
    from += i, to += i, i = count;
    if (rest == 1) sum_taps(1, from, offsets, w, taps, to);
    else if (rest == 2) sum_taps(2, from, offsets, w, taps, to);
    else if (rest == 3) sum_taps(3, from, offsets, w, taps, to);
    else sum_taps(VECTORS, from, offsets, w, taps, to);
  }
  for (; i + LANES <= count; i += LANES) sum_taps(1, from + i, offsets, w, taps, to + i);
  for (; i < count; i++) {
    float sum = 0;
    RM_ROLLED for (ptrdiff_t k = 0; k < taps; k++) sum = FMA(float, w[k], from[offsets[k] + i], sum);
    to[i] = sum;
  }
}

void RM_FOR_ISA(conv_depthwise)(void *context, ptrdiff_t index) {
  conv_context *ctx = context;
  const int slot = take_slot(ctx->slot_taken, ctx->slots);
  const conv_axis *z = &ctx->axes[DEPTH_AXIS], *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  const ptrdiff_t block = index % ctx->row_blocks, plane = index / ctx->row_blocks;
  const ptrdiff_t depth = plane % z->out, group = plane / z->out % ctx->groups;
  const ptrdiff_t image = plane / z->out / ctx->groups;
  const ptrdiff_t first = block * ctx->block_rows;
  const ptrdiff_t end = rm_min(y->out, first + ctx->block_rows);
  ptrdiff_t *offsets = (ptrdiff_t *)(ctx->workspace + slot * ctx->workspace_bytes);
  staged_rows rows = rows_for(ctx, first, end, (float *)(offsets + ctx->sums));
  const ptrdiff_t row_floats = ctx->phases * ctx->phase_length;
  ptrdiff_t *to = offsets;
  for (ptrdiff_t kz = 0; kz < z->kernel; kz++) {
    for (ptrdiff_t tap = 0; tap < ctx->taps; tap++) {
      *to++ = kz * rows.count * row_floats + tap_offset(ctx, tap / x->kernel, tap % x->kernel);
    }
    RM_FOR_ISA(conv_stage)(ctx, &rows, plane_of(ctx, image, group, 0, depth, kz));
    rows.data += rows.count * row_floats;
  }
  const float *stage = (const float *)(offsets + ctx->sums);
  for (ptrdiff_t i = 0; i < ctx->rows; i++) {
    const ptrdiff_t channel = group * ctx->rows + i;
    const ptrdiff_t at = (image * ctx->groups * ctx->rows + channel) * ctx->all_pixels +
                         depth * ctx->pixels + first * x->out;
    for (ptrdiff_t row = 0; row < end - first; row++) {
      sum_row(stage + row * y->stride * row_floats, offsets, ctx->w + channel * ctx->sums, ctx->sums,
              ctx->out + at + row * x->out, x->out);
    }
    finish_sums(ctx, channel, at, (end - first) * x->out);
  }
  atomic_flag_clear(&ctx->slot_taken[slot]);
}
