/*
 * The loops of the derivative by a convolution's weight and of transposed convolutions, and what these read
 * of a call.
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
    .operands = operands,
    .stage = RM_FOR_ISA(conv_stage),
    .workspace_alloc = RM_FOR_ISA(workspace_alloc),
    .workspace_free = RM_FOR_ISA(workspace_free),
};
