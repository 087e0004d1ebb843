/*
 * Convolutions of float32: products of the weight, which stays in place, and blocks of a matrix
 * that is made of x as it is needed.
 *
 * A task computes some pixels of some output channels of a plane. Sizes alone decide in which order
 * a sum adds its products, so that results depend neither on the tasks nor on the number of images.
 */
#include <string.h>
#include "conv_context.h"

enum {
  /* Planes are split into pixels, and then into output channels, until each thread has that many
   * tasks, of at least so many pixels and channels. */
  TASKS_PER_THREAD = 2,
  LEAST_PIXELS = 8 * PANEL,
  LEAST_ROWS = 4 * MR,
  /* The tasks that make one pass of a shared matrix. */
  PARTS_OF_PASS = 2,
  /* The most floats of a matrix that tasks share. */
  MOST_SHARED = 1 << 23,
  /* The most products of a sum in a pass, so that rows of the weight and a panel stay in the L1
   * cache. */
  PASS = DEPTH_BYTES / 4 * 5 / 4,
  /* The output pixels that a task of a depthwise convolution computes, if it has that many. */
  DEPTHWISE_PIXELS = 4096
};

/* The estimated nanoseconds per product of a depthwise convolution, and per byte of the matrix. */
static const double DEPTHWISE_NS = 0.1, PACK_NS = 0.1;

/* The numbers of a call. */
enum {
  IMAGES,
  GROUPS,
  CHANNELS,
  ROWS,
  FINISH,
  SPACE = FINISH + FINISH_NUMBERS,
  PER_AXIS = 6
};

/* Multiplies rows of the weight by a panel, into the output at `to`. */
static void multiply_panel(const conv_context *ctx, const float *w, ptrdiff_t rows, ptrdiff_t depth,
                           const float *panel, ptrdiff_t columns, float *to, bool add) {
  float tile[MR * PANEL] __attribute__((aligned(64)));
  const int index = columns <= LANES ? 1 : 0;
  const ptrdiff_t width = index == 1 ? LANES : PANEL;
  for (ptrdiff_t i = 0; i < rows;) {
    const ptrdiff_t count = rows - i >= MR ? MR : rm_min(SMALL_MR, rows - i);
    const bool direct = columns == width && (count == MR || count == SMALL_MR);
    float *out = direct ? to + i * ctx->all_pixels : tile;
    const ptrdiff_t stride = direct ? ctx->all_pixels : width;
    if (count == MR) {
      ctx->kernels->tile[index](depth, w + i * ctx->sums, ctx->sums, 1, panel, PANEL, out, stride,
                                add && direct);
    } else {
      const void *at[SMALL_MR];
      for (ptrdiff_t r = 0; r < SMALL_MR; r++) at[r] = w + (i + rm_min(r, count - 1)) * ctx->sums;
      ctx->kernels->rows4[index](depth, at, 1, panel, PANEL, out, stride, add && direct);
    }
    if (!direct) {
      for (ptrdiff_t r = 0; r < count; r++) {
        float *line = to + (i + r) * ctx->all_pixels;
        const float *from = tile + r * width;
        if (add) {
          RM_ROLLED for (ptrdiff_t j = 0; j < columns; j++) line[j] += from[j];
        } else {
          memcpy(line, from, (size_t)columns * sizeof *line);
        }
      }
    }
    i += count;
  }
}

/* Multiplies rows of the weight by the numbers of one pixel. */
static void multiply_column(const conv_context *ctx, const float *w, ptrdiff_t rows,
                            ptrdiff_t depth, const float *column, float *to, bool add) {
  float sums[MR] = {0};
  ctx->kernels->gemv_dot(rows, depth, w, ctx->sums, column, sums);
  for (ptrdiff_t i = 0; i < rows; i++) {
    to[i * ctx->all_pixels] = add ? to[i * ctx->all_pixels] + sums[i] : sums[i];
  }
}

/* The pixels of a task. */
typedef struct {
  ptrdiff_t image, group, depth, first, count;
} pixel_block;

static pixel_block pixel_block_at(const conv_context *ctx, ptrdiff_t index) {
  const ptrdiff_t depths = ctx->axes[DEPTH_AXIS].out, plane = index / ctx->pixel_blocks;
  const ptrdiff_t first = index % ctx->pixel_blocks * ctx->block_pixels;
  return (pixel_block){plane / depths / ctx->groups, plane / depths % ctx->groups, plane % depths,
                       first, rm_min(ctx->block_pixels, ctx->pixels - first)};
}

/* The floats of a block of pixels in the whole matrix. */
static ptrdiff_t matrix_block(const conv_context *ctx) {
  return ctx->block_pixels * ctx->sums;
}

/* The tasks that make a block of pixels of the matrix, all its passes. */
static ptrdiff_t block_parts(const conv_context *ctx) {
  return rm_ceil_div(ctx->sums, ctx->pass) * PARTS_OF_PASS;
}

/* Makes a part of a pass of the matrix for all tasks that need it. */
static void matrix_task(void *context, ptrdiff_t index) {
  conv_context *ctx = context;
  const int slot = take_slot(ctx->slot_taken, ctx->slots);
  float *stage = (float *)(ctx->workspace + slot * ctx->workspace_bytes);
  const ptrdiff_t parts = block_parts(ctx);
  const ptrdiff_t pass = index % parts / PARTS_OF_PASS * ctx->pass;
  const ptrdiff_t depth = rm_min(ctx->pass, ctx->sums - pass);
  const ptrdiff_t length = rm_ceil_div(depth, PARTS_OF_PASS);
  const ptrdiff_t begin = index % PARTS_OF_PASS * length, end = rm_min(begin + length, depth);
  const pixel_block own = pixel_block_at(ctx, index / parts);
  float *panels = ctx->matrix + index / parts * matrix_block(ctx) + pass * ctx->block_pixels;
  if (begin < end) {
    RM_FOR_ISA(conv_pack)(ctx, panels + begin * PANEL, stage, own.image, own.group, own.depth,
                          own.first, own.count, pass + begin, pass + end, depth * PANEL);
  }
  atomic_flag_clear(&ctx->slot_taken[slot]);
}

static void block_task(void *context, ptrdiff_t index) {
  conv_context *ctx = context;
  const int slot = take_slot(ctx->slot_taken, ctx->slots);
  float *own_panels = (float *)(ctx->workspace + slot * ctx->workspace_bytes);
  float *stage = own_panels + ctx->panels_bytes / (ptrdiff_t)sizeof *own_panels;
  const ptrdiff_t row = index % ctx->row_blocks * ctx->block_rows, block = index / ctx->row_blocks;
  const pixel_block own = pixel_block_at(ctx, block);
  const ptrdiff_t rows = rm_min(ctx->block_rows, ctx->rows - row), count = own.count;
  const ptrdiff_t channel = own.group * ctx->rows + row;
  const ptrdiff_t at = (own.image * ctx->groups * ctx->rows + channel) * ctx->all_pixels +
                       own.depth * ctx->pixels + own.first;
  const float *w = ctx->w + channel * ctx->sums;
  /* The last pixel of a plane may be alone in a vector, whatever the number of blocks. */
  const bool is_alone = count % LANES == 1;
  const ptrdiff_t in_panels = is_alone ? count - 1 : count;
  for (ptrdiff_t begin = 0; begin < ctx->sums; begin += ctx->pass) {
    const ptrdiff_t end = rm_min(ctx->sums, begin + ctx->pass);
    const float *panels = own_panels;
    if (ctx->matrix != NULL) {
      panels = ctx->matrix + block * matrix_block(ctx) + begin * ctx->block_pixels;
    } else {
      RM_FOR_ISA(conv_pack)(ctx, own_panels, stage, own.image, own.group, own.depth, own.first,
                            count, begin, end, (end - begin) * PANEL);
    }
    float column[PASS];
    if (is_alone) {
      const ptrdiff_t lane = in_panels % PANEL;
      const float *from = panels + (in_panels - lane) * (end - begin) + lane;
      RM_ROLLED for (ptrdiff_t k = 0; k < end - begin; k++) column[k] = from[k * PANEL];
    }
    /* Rows that are in the L1 cache meet all panels, which are in the L2 cache. */
    for (ptrdiff_t i = 0; i < rows; i += MR) {
      const float *left = w + i * ctx->sums + begin;
      const ptrdiff_t left_rows = rm_min(MR, rows - i);
      float *to = ctx->out + at + i * ctx->all_pixels;
      for (ptrdiff_t j = 0; j < in_panels; j += PANEL) {
        multiply_panel(ctx, left, left_rows, end - begin, panels + j * (end - begin),
                       rm_min(PANEL, in_panels - j), to + j, begin > 0);
      }
      if (is_alone) {
        multiply_column(ctx, left, left_rows, end - begin, column, to + in_panels, begin > 0);
      }
      for (ptrdiff_t r = i; end == ctx->sums && r < i + left_rows; r++) {
        RM_FOR_ISA(finish_sums)(ctx, channel + r, at + r * ctx->all_pixels, count);
      }
    }
  }
  atomic_flag_clear(&ctx->slot_taken[slot]);
}

/* Splits products into tasks; returns their number. */
static ptrdiff_t split_blocks(conv_context *ctx) {
  const ptrdiff_t planes = ctx->images * ctx->groups * ctx->axes[DEPTH_AXIS].out;
  const ptrdiff_t threads = rm_threads(), target = threads > 1 ? TASKS_PER_THREAD * threads : 1;
  /* Passes are about equally long. */
  ctx->pass = rm_ceil_div(ctx->sums, rm_ceil_div(ctx->sums, PASS));
  ptrdiff_t blocks = rm_ceil_div(ctx->pixels, BLOCK_COLUMNS), row_blocks = 1;
  while (planes * blocks < target && ctx->pixels / (blocks + 1) >= LEAST_PIXELS) blocks++;
  /* Several tasks that need the same pixels share a matrix. */
  const bool can_share = planes * (ctx->pixels + blocks * PANEL) * ctx->sums <= MOST_SHARED;
  while (can_share && planes * blocks * row_blocks < target &&
         ctx->rows / (2 * row_blocks) >= LEAST_ROWS) {
    row_blocks *= 2;
  }
  ctx->block_pixels = rm_min(BLOCK_COLUMNS, rm_round_up(rm_ceil_div(ctx->pixels, blocks), PANEL));
  ctx->block_rows = rm_round_up(rm_ceil_div(ctx->rows, row_blocks), MR);
  ctx->pixel_blocks = rm_ceil_div(ctx->pixels, ctx->block_pixels);
  ctx->row_blocks = rm_ceil_div(ctx->rows, ctx->block_rows);
  const ptrdiff_t size = (ptrdiff_t)sizeof(float);
  if (ctx->row_blocks > 1) ctx->matrix_bytes = planes * ctx->pixel_blocks * matrix_block(ctx) * size;
  else ctx->panels_bytes = ctx->block_pixels * ctx->pass * size;
  if (!ctx->pointwise) {
    /* A block that begins within a row meets one row more. */
    const ptrdiff_t out_rows = rm_min(ctx->axes[HEIGHT].out,
                                      (ctx->block_pixels - 1) / ctx->axes[WIDTH].out + 2);
    const ptrdiff_t count = rows_for(ctx, 0, out_rows, NULL).count;
    ctx->stage_bytes = staged_floats(ctx, count) * (ptrdiff_t)sizeof(float);
  }
  return planes * ctx->pixel_blocks * ctx->row_blocks;
}

/* Splits a depthwise convolution into tasks of some output rows. */
static ptrdiff_t split_depthwise(conv_context *ctx) {
  const conv_axis *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  ctx->block_rows = rm_min(y->out, 1 + DEPTHWISE_PIXELS / x->out);
  ctx->row_blocks = rm_ceil_div(y->out, ctx->block_rows);
  const ptrdiff_t rows = ctx->block_rows < RM_DEPTHWISE_ROWS ? RM_DEPTHWISE_ROWS : ctx->block_rows;
  const ptrdiff_t floats = RM_FOR_ISA(conv_depthwise_floats)(ctx, rows_for(ctx, 0, rows, NULL).count);
  ctx->stage_bytes = ctx->axes[DEPTH_AXIS].kernel * floats * (ptrdiff_t)sizeof(float) +
                     ctx->sums * (ptrdiff_t)sizeof(ptrdiff_t);
  const ptrdiff_t planes = ctx->images * ctx->groups * ctx->axes[DEPTH_AXIS].out;
  ctx->block_planes = ctx->row_blocks > 1 ? 1 : rm_ceil_div(DEPTHWISE_PIXELS, ctx->pixels);
  return rm_ceil_div(planes, ctx->block_planes) * ctx->row_blocks;
}

int32_t RM_FOR_ISA(conv)(const rm_call *call) {
  const double *numbers = call->numbers;
  conv_context ctx = {.images = (ptrdiff_t)numbers[IMAGES],
                      .groups = (ptrdiff_t)numbers[GROUPS],
                      .channels = (ptrdiff_t)numbers[CHANNELS],
                      .rows = (ptrdiff_t)numbers[ROWS]};
  const int32_t status = RM_FOR_ISA(conv_operands)(call, &ctx, numbers + FINISH);
  if (status != RM_OK) return status;
  bool strided = false;
  ctx.all_pixels = ctx.sums = 1;
  for (int i = 0; i < AXES; i++) {
    const double *axis = numbers + SPACE + i * PER_AXIS;
    ctx.axes[i] = (conv_axis){(ptrdiff_t)axis[0], (ptrdiff_t)axis[1], (ptrdiff_t)axis[2],
                              (ptrdiff_t)axis[3], (ptrdiff_t)axis[4], (ptrdiff_t)axis[5]};
    const conv_axis *own = &ctx.axes[i];
    strided |= own->kernel != 1 || own->stride != 1 || own->padding != 0 || own->in != own->out;
    ctx.all_pixels *= own->out;
    ctx.sums *= own->kernel;
  }
  const conv_axis *y = &ctx.axes[HEIGHT], *x = &ctx.axes[WIDTH];
  ctx.taps = y->kernel * x->kernel;
  ctx.sums *= ctx.channels;
  ctx.plane = y->in * x->in;
  ctx.pixels = y->out * x->out;
  if (ctx.images < 1 || ctx.groups < 1 || ctx.rows < 1 || ctx.all_pixels < 1) return RM_OK;
  if (ctx.sums < 1) return RM_UNSUPPORTED;
  ctx.pointwise = !strided && ctx.axes[DEPTH_AXIS].in == 1;
  ctx.phases = x->stride;
  ctx.phase_length = x->out - 1 + (x->kernel - 1) * x->dilation / x->stride + 1;
  const bool depthwise = ctx.channels == 1 && !ctx.pointwise && ctx.rows <= SMALL_MR;
  const ptrdiff_t tasks = depthwise ? split_depthwise(&ctx) : split_blocks(&ctx);
  ctx.workspace_bytes = rm_round_up(ctx.panels_bytes + ctx.stage_bytes, ALIGNMENT);
  const ptrdiff_t parts = ctx.matrix_bytes == 0 ? 0 : tasks / ctx.row_blocks * block_parts(&ctx);
  ctx.slots = (int)rm_min(rm_threads(), parts > tasks ? parts : tasks);
  const ptrdiff_t own_bytes = ctx.slots * ctx.workspace_bytes;
  gemm_workspace *workspace =
      RM_FOR_ISA(workspace_alloc)((size_t)(own_bytes + ctx.matrix_bytes), ctx.slots);
  if (workspace == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a convolution");
  ctx.workspace = workspace->data;
  ctx.slot_taken = workspace->slot_taken;
  const double products = (double)ctx.images * (double)ctx.groups * (double)ctx.rows *
                          (double)ctx.all_pixels * (double)ctx.sums;
  if (depthwise) rm_parallel(tasks, products * DEPTHWISE_NS, RM_FOR_ISA(conv_depthwise), &ctx);
  else {
    if (ctx.matrix_bytes > 0) {
      ctx.matrix = (float *)(ctx.workspace + own_bytes);
      rm_parallel(parts, PACK_NS * (double)ctx.matrix_bytes, matrix_task, &ctx);
    }
    rm_parallel(tasks, products / LANES / VECTOR_FMAS_PER_NS, block_task, &ctx);
  }
  RM_FOR_ISA(workspace_free)(workspace);
  return RM_OK;
}
