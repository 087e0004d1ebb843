/*
 * What the files of convolutions share: the context of a call, and staged rows.
 *
 * A plane is one channel of one group of one image, at one depth; the output has planes too. For
 * each plane of the output, a convolution is the product of the weight, [rows, sums], and a matrix
 * [sums, pixels], whose row (channel, depth, y, x) has the element that each output pixel meets
 * there. It is stored as a whole only if several tasks need it.
 */
#ifndef ROWMAJOR_CONV_CONTEXT_H
#define ROWMAJOR_CONV_CONTEXT_H

#include "gemm_vectors.h"
#include "map_context.h"

enum { LANES = VECTOR_BYTES / 4, PANEL = 2 * LANES, DEPTH_AXIS = 0, HEIGHT = 1, WIDTH = 2, AXES = 3 };

/* An axis of space. Padding is that before the first element. */
typedef struct {
  ptrdiff_t in, kernel, out, stride, padding, dilation;
} conv_axis;

typedef struct {
  const gemm_kernels *kernels;
  ptrdiff_t images, groups;
  /* The input channels and the output channels of a group. */
  ptrdiff_t channels, rows;
  conv_axis axes[AXES];
  /* The elements of a plane of x, and of a kernel in a plane. */
  ptrdiff_t plane, taps;
  /* The products of a sum, the pixels of an output plane, and those of all depths. */
  ptrdiff_t sums, pixels, all_pixels;
  const float *x, *w, *bias, *add;
  float *out;
  /* RM_ACTIVATION_..., its numbers, its function if it is of the table, and whether the residual comes
   * after it. */
  int activation;
  float low, high;
  map_op function;
  bool adds_last;
  /* Whether an output pixel meets one element of each channel, its own. */
  bool pointwise;

  /* Rows of x are staged with their padding, split by the stride along the width: element q of phase
   * f is element q * stride + f. */
  ptrdiff_t phases, phase_length;

  /* The pixels and rows of a task, and the sums of a pass. */
  ptrdiff_t block_pixels, block_rows, pass, pixel_blocks, row_blocks;
  /* The planes of a task of a depthwise convolution. */
  ptrdiff_t block_planes;
  /* The parts of a task's workspace, and the matrix that tasks share, in bytes. */
  ptrdiff_t stage_bytes, panels_bytes, workspace_bytes, matrix_bytes;
  char *workspace;
  /* The matrix, if tasks share it, or null: blocks of pixels, in each its passes. */
  float *matrix;
  atomic_flag *slot_taken;
  int slots;
} conv_context;

/* What finishes sums, and the operands, in the numbers of a call: the activation, its numbers, whether the
 * residual is added after it, the buffers of bias and residual, -1 for none, and the offsets of out, x,
 * the weight, bias and residual. */
enum { FINISH_OPTIONAL = 4, FINISH_OFFSETS = FINISH_OPTIONAL + 2, FINISH_NUMBERS = FINISH_OFFSETS + 5 };

/* Checks the operands of a call. Writes their places, the kernels and the activation. */
int32_t RM_FOR_ISA(conv_operands)(const rm_call *call, conv_context *ctx, const double *finish);

/* Adjacent rows of a plane of x, from `first` on, which may be padding. */
typedef struct {
  float *data;
  ptrdiff_t first, count;
} staged_rows;

/* The rows of x that output rows [begin, end) meet. */
static inline staged_rows rows_for(const conv_context *ctx, ptrdiff_t begin, ptrdiff_t end,
                                   float *data) {
  const conv_axis *y = &ctx->axes[HEIGHT];
  const ptrdiff_t reach = (end - 1 - begin) * y->stride + (y->kernel - 1) * y->dilation + 1;
  return (staged_rows){data, begin * y->stride - y->padding, reach};
}

/* The floats of as many staged rows, with room for a vector that begins at the last one. */
static inline ptrdiff_t staged_floats(const conv_context *ctx, ptrdiff_t count) {
  return count * ctx->phases * ctx->phase_length + 2 * LANES;
}

/* Where the elements at a tap begin, relative to those at tap 0. */
static inline ptrdiff_t tap_offset(const conv_context *ctx, ptrdiff_t ky, ptrdiff_t kx) {
  const ptrdiff_t x = kx * ctx->axes[WIDTH].dilation;
  return (ky * ctx->axes[HEIGHT].dilation * ctx->phases + x % ctx->phases) * ctx->phase_length +
         x / ctx->phases;
}

/* The plane of x for a plane of the output, or null for one that is padding. */
static inline const float *plane_of(const conv_context *ctx, ptrdiff_t image, ptrdiff_t group,
                                    ptrdiff_t channel, ptrdiff_t out_depth, ptrdiff_t kz) {
  const conv_axis *z = &ctx->axes[DEPTH_AXIS];
  const ptrdiff_t depth = out_depth * z->stride + kz * z->dilation - z->padding;
  if (depth < 0 || depth >= z->in) return NULL;
  return ctx->x + (((image * ctx->groups + group) * ctx->channels + channel) * z->in + depth) * ctx->plane;
}

/* The elements of a phase that are in a row of x: [begin, end), the first at `first`. */
typedef struct {
  ptrdiff_t begin, end, first;
} row_phase;

static inline row_phase phase_of(const conv_context *ctx, ptrdiff_t f) {
  const conv_axis *x = &ctx->axes[WIDTH];
  const ptrdiff_t length = ctx->phase_length, before = x->padding - f;
  ptrdiff_t begin = before <= 0 ? 0 : rm_ceil_div(before, x->stride);
  ptrdiff_t end = x->in + before <= 0 ? 0 : rm_ceil_div(x->in + before, x->stride);
  begin = rm_min(begin, length), end = rm_min(end, length);
  if (end < begin) end = begin;
  return (row_phase){begin, end, begin * x->stride - before};
}

/* Ones in the first `count` lanes. */
static RM_ALWAYS_INLINE v_i32 first_lanes(ptrdiff_t count) {
  v_i32 lane;
  UNROLL for (int i = 0; i < LANES; i++) lane[i] = (uint32_t)i;
  return (v_i32)(lane < (v_i32)(uint32_t)(count < 0 ? 0 : count));
}

/* Copies rows of a plane with their padding. */
void RM_FOR_ISA(conv_stage)(const conv_context *ctx, const staged_rows *to, const float *plane);

/* Writes the sums [begin, end) of pixels [first, first + count) to panels, a row of PANEL pixels for
 * each; the lanes of a vector beyond the last pixel are 0. */
void RM_FOR_ISA(conv_pack)(const conv_context *ctx, float *panels, float *stage, ptrdiff_t image,
                           ptrdiff_t group, ptrdiff_t out_depth, ptrdiff_t first, ptrdiff_t count,
                           ptrdiff_t begin, ptrdiff_t end, ptrdiff_t panel_stride);

/* Applies the activation to n elements. */
void RM_FOR_ISA(conv_activate)(const conv_context *ctx, ptrdiff_t n, float *to);

/* Completes `count` sums of an output channel: bias, residual and activation. */
void RM_FOR_ISA(finish_sums)(const conv_context *ctx, ptrdiff_t channel, ptrdiff_t at,
                             ptrdiff_t count);

/* The rows that a depthwise convolution computes at once. */
enum { RM_DEPTHWISE_ROWS = 4 };

/* The floats of as many staged rows of a plane, for a depthwise convolution. */
ptrdiff_t RM_FOR_ISA(conv_depthwise_floats)(const conv_context *ctx, ptrdiff_t rows);

/* A task of a convolution with one input channel in each group. */
void RM_FOR_ISA(conv_depthwise)(void *context, ptrdiff_t index);

#endif
