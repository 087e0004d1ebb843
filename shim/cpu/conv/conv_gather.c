/*
 * The loops of conv_gather.h, and what reads the numbers of a call.
 */
#include "conv_gather.h"

#if defined(__x86_64__)
#define KEEP_ORDER(vector) __asm__ volatile("" : "+v"(vector))
#elif defined(__aarch64__)
#define KEEP_ORDER(vector) __asm__ volatile("" : "+w"(vector))
#else
#define KEEP_ORDER(vector) ((void)0)
#endif

static RM_ALWAYS_INLINE void multiply(const int vectors, ptrdiff_t k, const float *const *rows,
                                      const int32_t *offsets, const float *panel, float *c,
                                      ptrdiff_t stride) {
  const float *at[MR];
  v_f32 sum[MR][2];
  UNROLL for (int i = 0; i < MR; i++) {
    at[i] = rows[i];
    UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = (v_f32)0.0f;
  }
  ROLLED for (ptrdiff_t p = 0; p < k; p++, panel += PANEL) {
    const ptrdiff_t offset = offsets[p];
    v_f32 y[2];
    UNROLL for (int v = 0; v < vectors; v++) y[v] = *(const v_f32 *)(panel + v * LANES);
    UNROLL for (int i = 0; i < MR; i++) {
      const v_f32 x = (v_f32)(at[i][offset]);
      UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = FMA(v_f32, x, y[v], sum[i][v]);
      /* The compiler would load all elements first, and need registers for them. */
      UNROLL for (int v = 0; v < vectors; v++) KEEP_ORDER(sum[i][v]);
    }
  }
  UNROLL for (int i = 0; i < MR; i++, c += stride) {
    UNROLL for (int v = 0; v < vectors; v++) *(v_f32 *)(c + v * LANES) += sum[i][v];
  }
}

static void tile(ptrdiff_t k, const float *const *rows, const int32_t *offsets, const float *panel,
                 ptrdiff_t columns, float *c, ptrdiff_t stride) {
  if (columns > LANES) multiply(2, k, rows, offsets, panel, c, stride);
  else multiply(1, k, rows, offsets, panel, c, stride);
}

static RM_ALWAYS_INLINE void multiply_groups(const int vectors, ptrdiff_t pixels,
                                             const float *const *rows, const int32_t *offsets,
                                             const float *panel, float *sums) {
  v_f32 sum[GROUP_SUMS][2];
  UNROLL for (int k = 0; k < GROUP_SUMS; k++) {
    UNROLL for (int v = 0; v < vectors; v++) sum[k][v] = (v_f32)0.0f;
  }
  ROLLED for (ptrdiff_t p = 0; p < pixels; p++, panel += PANEL) {
    const ptrdiff_t offset = (ptrdiff_t)offsets[p] * PANEL;
    UNROLL for (int k = 0; k < GROUP_SUMS; k++) {
      UNROLL for (int v = 0; v < vectors; v++) {
        sum[k][v] = FMA(v_f32, *(const v_f32 *)(panel + v * LANES),
                        *(const v_f32 *)(rows[k] + offset + v * LANES), sum[k][v]);
      }
    }
  }
  UNROLL for (int k = 0; k < GROUP_SUMS; k++) {
    UNROLL for (int v = 0; v < vectors; v++) *(v_f32 *)(sums + k * PANEL + v * LANES) += sum[k][v];
  }
}

static void groups(ptrdiff_t pixels, const float *const *rows, const int32_t *offsets,
                   const float *panel, ptrdiff_t columns, float *sums) {
  if (columns > LANES) multiply_groups(2, pixels, rows, offsets, panel, sums);
  else multiply_groups(1, pixels, rows, offsets, panel, sums);
}

typedef struct {
  v_f32 low, high;
} limits;

static RM_ALWAYS_INLINE limits limits_of(const conv_context *ctx) {
  return (limits){(v_f32)(ctx->low), (v_f32)(ctx->high)};
}

/* One instruction for each limit; NaN stays. */
static RM_ALWAYS_INLINE v_f32 limited(limits to, v_f32 x) {
  const v_f32 above = to.low > x ? to.low : x;
  return to.high < above ? to.high : above;
}

static void finish(const conv_context *ctx, const float *sums, ptrdiff_t rows, ptrdiff_t columns,
                   const float *bias, const float *add, float *to, ptrdiff_t stride) {
  const limits within = limits_of(ctx);
  const ptrdiff_t add_stride = ctx->rows;
  for (ptrdiff_t j = 0;; j += LANES) {
    /* The last vector begins early enough to be whole. */
    if (j + LANES > columns) j = columns - LANES;
    const v_f32 shift = *(const v_f32 *)(bias + j);
    const float *from = sums + j, *more = add == NULL ? NULL : add + j;
    float *out = to + j;
    ROLLED for (ptrdiff_t r = 0; r < rows; r++) {
      v_f32 made = *(const v_f32 *)from + shift;
      if (add != NULL) made += *(const v_f32 *)more, more += add_stride;
      *(v_f32 *)out = limited(within, made);
      from += PANEL_COLUMNS, out += stride;
    }
    if (j + LANES >= columns) return;
  }
}

/* Adds the products of `width` adjacent taps of a row of a kernel to the sums of pixels, which are adjacent
 * too, unless there is one tap or one pixel. */
static RM_ALWAYS_INLINE void add_taps(const int pixels, const int width, const float *at, ptrdiff_t step,
                                      const float *factor, ptrdiff_t channels, v_f32 *sum) {
  v_f32 element[CHANNEL_PIXELS + 4];
  UNROLL for (int i = 0; i < pixels + width - 1; i++) element[i] = *(const v_f32 *)(at + i * step);
  UNROLL for (int x = 0; x < width; x++) {
    const v_f32 w = *(const v_f32 *)(factor + x * channels);
    UNROLL for (int i = 0; i < pixels; i++) sum[i] = FMA(v_f32, w, element[i + x], sum[i]);
  }
}

#if defined(__AVX2__) || defined(__aarch64__)
enum { SLIDES = 1 };
#else
enum { SLIDES = 0 };
#endif

static RM_ALWAYS_INLINE void sum_channels(const int pixels, const conv_context *ctx, const channel_taps *taps,
                                          ptrdiff_t step, float *to) {
  const limits within = limits_of(ctx);
  const channel_taps own = *taps;
  const ptrdiff_t count = ctx->groups;
  const float *bias = ctx->bias;
  /* Pixels that meet the elements of adjacent taps read them once. Machines without AVX get smaller code. */
  const ptrdiff_t sliding = SLIDES && pixels > 1 && step == own.column_step ? own.columns : 0;
  for (ptrdiff_t c = 0;; c += LANES) {
    if (c + LANES > count) c = count - LANES;
    v_f32 sum[CHANNEL_PIXELS];
    UNROLL for (int i = 0; i < pixels; i++) sum[i] = (v_f32)0.0f;
    const float *row = own.x + c, *factors = own.w + c;
    ROLLED for (ptrdiff_t y = 0; y < own.rows; y++) {
      if (sliding == 3) {
        add_taps(pixels, 3, row, step, factors, count, sum);
      } else if (sliding == 5) {
        add_taps(pixels, 5, row, step, factors, count, sum);
      } else {
        const float *at = row, *factor = factors;
        ROLLED for (ptrdiff_t x = 0; x < own.columns; x++) {
          add_taps(pixels, 1, at, step, factor, count, sum);
          at += own.column_step, factor += count;
        }
      }
      row += own.row_step, factors += own.factor_step;
    }
    const v_f32 shift = bias == NULL ? (v_f32)0.0f : *(const v_f32 *)(bias + c);
    UNROLL for (int i = 0; i < pixels; i++) {
      *(v_f32 *)(to + i * count + c) = limited(within, sum[i] + shift);
    }
    if (c + LANES >= count) return;
  }
}

static void channels(const conv_context *ctx, const channel_taps *taps, ptrdiff_t step, float *to) {
  sum_channels(CHANNEL_PIXELS, ctx, taps, step, to);
}

static void channel(const conv_context *ctx, const channel_taps *taps, float *to) {
  sum_channels(1, ctx, taps, 0, to);
}

static int32_t operands(const rm_call *call, conv_context *ctx) {
  enum { IMAGES, GROUPS, CHANNELS, ROWS, FINISH, SPACE = FINISH + FINISH_NUMBERS };
  const double *numbers = call->numbers, *axis = numbers + SPACE;
  *ctx = (conv_context){.images = (ptrdiff_t)numbers[IMAGES],
                        .groups = (ptrdiff_t)numbers[GROUPS],
                        .channels = (ptrdiff_t)numbers[CHANNELS],
                        .rows = (ptrdiff_t)numbers[ROWS]};
  const int32_t status = RM_FOR_ISA(conv_operands)(call, ctx, numbers + FINISH);
  if (status != RM_OK) return status;
  ctx->all_pixels = ctx->sums = 1;
  for (int i = 0; i < AXES; i++, axis += 6) {
    ctx->axes[i] = (conv_axis){(ptrdiff_t)axis[0], (ptrdiff_t)axis[1], (ptrdiff_t)axis[2],
                               (ptrdiff_t)axis[3], (ptrdiff_t)axis[4], (ptrdiff_t)axis[5]};
    ctx->all_pixels *= ctx->axes[i].out;
    ctx->sums *= ctx->axes[i].kernel;
  }
  const conv_axis *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  ctx->taps = y->kernel * x->kernel;
  ctx->sums *= ctx->channels;
  ctx->plane = y->in * x->in;
  ctx->pixels = y->out * x->out;
  ctx->phases = x->stride;
  ctx->phase_length = x->out - 1 + (x->kernel - 1) * x->dilation / x->stride + 1;
  return RM_OK;
}

_Static_assert(MR <= MOST_TILE_ROWS, "a tile has too many rows");

const rm_conv_gather RM_FOR_ISA(conv_gather) = {
    .lanes = LANES,
    .rows = MR,
    .tile = tile,
    .groups = groups,
    .strip = RM_FOR_ISA(packed_strip_kernel),
    .strip_rows = TILE_ROWS,
    .strip_columns = STRIP_COLUMNS,
    .finish = finish,
    .channels = channels,
    .channel = channel,
    .activate = RM_FOR_ISA(conv_activate),
    .operands = operands,
    .stage = RM_FOR_ISA(conv_stage),
    .pack = RM_FOR_ISA(conv_pack),
    .workspace_alloc = RM_FOR_ISA(workspace_alloc),
    .workspace_free = RM_FOR_ISA(workspace_free),
};
