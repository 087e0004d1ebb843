/*
 * x times a weight of four bits, plus bias, in float32: (q - p) s for numbers q from 0 to 15, with a
 * scale s and a zero point p for each block of a row.
 *
 * 16 rows of the weight are a group. A block of it is 16 scales, 16 zero points, both float32, then words
 * of 32 bits, eight numbers of each row, the first one lowest. The sum of a block is s times that of q x,
 * less s p times the sum of x.
 */
#include <math.h>
#include "quant_vectors.h"

enum {
  GROUP_ROWS = 16,
  GROUP_VECTORS = GROUP_ROWS / LANES,
  PER_WORD = 8,
  HEAD_FLOATS = 2 * GROUP_ROWS,
  /* The rows of x that share a word: their sums are in registers. */
  MOST_ROWS = 8,
  STRIP_ROWS = 64
};

/* The numbers of packNibbles, and of linearNibbles. */
enum { PACK_ROWS, PACK_BLOCKS, PACK_SIZE, PACK_OFFSETS };
enum { ROWS, COLUMNS, DEPTH, BLOCK, OFFSETS, BIAS_BUFFER = OFFSETS + 3, BIAS_OFFSET };

static const double PRODUCTS_PER_NS = 12, TASK_NS = 8000;

static ptrdiff_t block_words(ptrdiff_t block) {
  return HEAD_FLOATS + block / PER_WORD * GROUP_ROWS;
}

/* ---- packing --------------------------------------------------------------------------------- */

typedef struct {
  ptrdiff_t rows, blocks, block;
  const uint8_t *from;
  const float *scales, *zeros;
  uint32_t *to;
} pack_context;

static void pack_task(void *context, ptrdiff_t index) {
  const pack_context *ctx = context;
  const ptrdiff_t words = ctx->block / PER_WORD, all = block_words(ctx->block);
  uint32_t *group = ctx->to + index * ctx->blocks * all;
  const ptrdiff_t first = index * GROUP_ROWS, rows = rm_min(GROUP_ROWS, ctx->rows - first);
  if (rows < GROUP_ROWS) memset(group, 0, (size_t)(ctx->blocks * all) * sizeof *group);
  for (ptrdiff_t r = 0; r < rows; r++) {
    for (ptrdiff_t b = 0; b < ctx->blocks; b++) {
      uint32_t *to = group + b * all + r;
      const ptrdiff_t at = (first + r) * ctx->blocks + b;
      memcpy(to, ctx->scales + at, sizeof *to);
      memcpy(to + GROUP_ROWS, ctx->zeros + at, sizeof *to);
      const uint8_t *from = ctx->from + at * (ctx->block / 2);
      for (ptrdiff_t t = 0; t < words; t++) {
        memcpy(to + HEAD_FLOATS + t * GROUP_ROWS, from + 4 * t, sizeof *to);
      }
    }
  }
}

int32_t RM_FOR_ISA(pack_nibbles)(const rm_call *call) {
  const double *numbers = call->numbers, *at = numbers + PACK_OFFSETS;
  for (int i = 0; i < 4; i++) {
    if (call->dtypes[i] != (i < 2 ? RM_UINT8 : RM_FLOAT32)) return RM_UNSUPPORTED;
    if (call->buffers[i] == NULL) return rm_fail(RM_BAD_ARGUMENT, "packNibbles without operand %d", i);
  }
  pack_context ctx = {
      .rows = (ptrdiff_t)numbers[PACK_ROWS],
      .blocks = (ptrdiff_t)numbers[PACK_BLOCKS],
      .block = (ptrdiff_t)numbers[PACK_SIZE],
      .to = (uint32_t *)(void *)((uint8_t *)call->buffers[0] + (ptrdiff_t)at[0]),
      .from = (const uint8_t *)call->buffers[1] + (ptrdiff_t)at[1],
      .scales = (const float *)call->buffers[2] + (ptrdiff_t)at[2],
      .zeros = (const float *)call->buffers[3] + (ptrdiff_t)at[3],
  };
  if (ctx.rows < 1 || ctx.blocks < 1 || ctx.block < PER_WORD) return RM_OK;
  rm_parallel(rm_ceil_div(ctx.rows, GROUP_ROWS),
              (double)ctx.rows * (double)ctx.blocks * (double)ctx.block, pack_task, &ctx);
  return RM_OK;
}

/* ---- products -------------------------------------------------------------------------------- */

typedef struct {
  ptrdiff_t rows, columns, depth, block, blocks, row_blocks, groups_per_task;
  const float *x, *weight, *bias;
  float *out;
  /* Rows of x with zeros up to a whole block, and the sums of their blocks. */
  float *padded, *sums;
} nibbles_context;

static void pad_task(void *context, ptrdiff_t index) {
  const nibbles_context *ctx = context;
  const ptrdiff_t whole = ctx->blocks * ctx->block;
  const ptrdiff_t last = rm_min(ctx->rows, (index + 1) * STRIP_ROWS);
  for (ptrdiff_t row = index * STRIP_ROWS; row < last; row++) {
    float *to = ctx->padded + row * whole;
    memcpy(to, ctx->x + row * ctx->depth, (size_t)ctx->depth * sizeof *to);
    memset(to + ctx->depth, 0, (size_t)(whole - ctx->depth) * sizeof *to);
    for (ptrdiff_t b = 0; b < ctx->blocks; b++) {
      float sums[PER_WORD] = {0};
      const float *from = to + b * ctx->block;
      for (ptrdiff_t i = 0; i < ctx->block; i += PER_WORD) {
        for (int k = 0; k < PER_WORD; k++) sums[k] += from[i + k];
      }
      ctx->sums[row * ctx->blocks + b] = ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
                                         ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    }
  }
}

/* The numbers in the lowest four bits of words. */
static RM_ALWAYS_INLINE v_f32 low_numbers(v_i32 words) {
#if defined(__AVX512F__)
  /* An instruction that chooses among 16 numbers reads no other bits. */
  return (v_f32)_mm512_permutexvar_ps(
      (__m512i)words, _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
#else
  return __builtin_convertvector((v_s32)(words & 15), v_f32);
#endif
}

/* Rows of x by a group, to out. */
static RM_ALWAYS_INLINE void multiply(const nibbles_context *ctx, const int rows, ptrdiff_t row,
                                      ptrdiff_t group) {
  const ptrdiff_t whole = ctx->blocks * ctx->block, words = ctx->block / PER_WORD;
  const ptrdiff_t all = block_words(ctx->block);
  const float *x = ctx->padded + row * whole, *sums = ctx->sums + row * ctx->blocks;
  /* Sums of few rows are several, as each addition waits for the one before. */
  const int chains = rows == 1 ? 4 : rows == 2 ? 2 : 1;
  v_f32 total[MOST_ROWS][GROUP_VECTORS];
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int v = 0; v < GROUP_VECTORS; v++) total[r][v] = (v_f32)0;
  }
  const float *weight = ctx->weight + group * ctx->blocks * all;
  for (ptrdiff_t b = 0; b < ctx->blocks; b++, weight += all) {
    v_f32 part[MOST_ROWS][GROUP_VECTORS];
    UNROLL for (int r = 0; r < rows * chains; r++) {
      UNROLL for (int v = 0; v < GROUP_VECTORS; v++) part[r][v] = (v_f32)0;
    }
    const float *word = weight + HEAD_FLOATS, *from = x + b * ctx->block;
    ROLLED for (ptrdiff_t t = 0; t < words; t++, word += GROUP_ROWS, from += PER_WORD) {
      __builtin_prefetch(word + 1024);
      UNROLL for (int k = 0; k < PER_WORD; k++) {
        v_f32 q[GROUP_VECTORS];
        UNROLL for (int v = 0; v < GROUP_VECTORS; v++) {
          q[v] = low_numbers(*(const v_i32 *)(const void *)(word + v * LANES) >> (uint32_t)(4 * k));
        }
        UNROLL for (int r = 0; r < rows; r++) {
          const v_f32 own = (v_f32)from[r * whole + k];
          const int at = r * chains + k % chains;
          UNROLL for (int v = 0; v < GROUP_VECTORS; v++) {
            part[at][v] = FMA(v_f32, own, q[v], part[at][v]);
          }
        }
      }
    }
    UNROLL for (int v = 0; v < GROUP_VECTORS; v++) {
      const v_f32 scale = *(const v_f32 *)(weight + v * LANES);
      const v_f32 zero = *(const v_f32 *)(weight + GROUP_ROWS + v * LANES);
      UNROLL for (int r = 0; r < rows; r++) {
        v_f32 all = part[r * chains][v];
        UNROLL for (int c = 1; c < chains; c++) all += part[r * chains + c][v];
        const v_f32 sum = all - zero * (v_f32)sums[r * ctx->blocks + b];
        total[r][v] = FMA(v_f32, scale, sum, total[r][v]);
      }
    }
  }
  const ptrdiff_t column = group * GROUP_ROWS;
  const ptrdiff_t columns = rm_min(GROUP_ROWS, ctx->columns - column);
  UNROLL for (int r = 0; r < rows; r++) {
    float made[GROUP_ROWS] __attribute__((aligned(64)));
    UNROLL for (int v = 0; v < GROUP_VECTORS; v++) *(v_f32 *)(made + v * LANES) = total[r][v];
    float *to = ctx->out + (row + r) * ctx->columns + column;
    for (ptrdiff_t j = 0; j < columns; j++) {
      to[j] = ctx->bias == NULL ? made[j] : made[j] + ctx->bias[column + j];
    }
  }
}

static void nibbles_task(void *context, ptrdiff_t index) {
  const nibbles_context *ctx = context;
  const ptrdiff_t first = index % ctx->row_blocks * STRIP_ROWS;
  const ptrdiff_t last = rm_min(ctx->rows, first + STRIP_ROWS);
  const ptrdiff_t begin = index / ctx->row_blocks * ctx->groups_per_task;
  const ptrdiff_t end =
      rm_min(rm_ceil_div(ctx->columns, GROUP_ROWS), begin + ctx->groups_per_task);
  for (ptrdiff_t group = begin; group < end; group++) {
    for (ptrdiff_t row = first; row < last;) {
      const ptrdiff_t left = last - row;
#if defined(__AVX512F__)
      if (left >= 8) {
        multiply(ctx, 8, row, group);
        row += 8;
        continue;
      }
#endif
#if defined(__AVX2__) || defined(__aarch64__)
      if (left >= 4) {
        multiply(ctx, 4, row, group);
        row += 4;
        continue;
      }
#endif
      if (left >= 2) {
        multiply(ctx, 2, row, group);
        row += 2;
        continue;
      }
      multiply(ctx, 1, row, group);
      row++;
    }
  }
}

int32_t RM_FOR_ISA(linear_nibbles)(const rm_call *call) {
  const double *numbers = call->numbers, *at = numbers + OFFSETS;
  if (call->dtypes[0] != RM_FLOAT32 || call->dtypes[1] != RM_FLOAT32 || call->dtypes[2] != RM_UINT8) {
    return RM_UNSUPPORTED;
  }
  for (int i = 0; i < 3; i++) {
    if (call->buffers[i] == NULL) return rm_fail(RM_BAD_ARGUMENT, "a product without operand %d", i);
  }
  nibbles_context ctx = {
      .rows = (ptrdiff_t)numbers[ROWS],
      .columns = (ptrdiff_t)numbers[COLUMNS],
      .depth = (ptrdiff_t)numbers[DEPTH],
      .block = (ptrdiff_t)numbers[BLOCK],
      .out = (float *)call->buffers[0] + (ptrdiff_t)at[0],
      .x = (const float *)call->buffers[1] + (ptrdiff_t)at[1],
      .weight = (const float *)(const void *)((const uint8_t *)call->buffers[2] + (ptrdiff_t)at[2]),
  };
  if (!rm_optional_f32(call, numbers[BIAS_BUFFER], numbers[BIAS_OFFSET], &ctx.bias)) {
    return rm_fail(RM_BAD_ARGUMENT, "a product without its bias");
  }
  if (ctx.block < PER_WORD || ctx.block % PER_WORD != 0) {
    return rm_fail(RM_BAD_ARGUMENT, "linearNibbles of blocks of %td", ctx.block);
  }
  if (ctx.rows < 1 || ctx.columns < 1 || ctx.depth < 1) return RM_OK;
  ctx.blocks = rm_ceil_div(ctx.depth, ctx.block);
  const ptrdiff_t padded = rm_round_up(ctx.rows * ctx.blocks * ctx.block * 4, 64);
  gemm_workspace *workspace =
      RM_FOR_ISA(workspace_alloc)((size_t)(padded + ctx.rows * ctx.blocks * 4), 0);
  if (workspace == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a matrix product");
  ctx.padded = (float *)(void *)workspace->data;
  ctx.sums = (float *)(void *)(workspace->data + padded);
  ctx.row_blocks = rm_ceil_div(ctx.rows, STRIP_ROWS);
  rm_parallel(ctx.row_blocks, (double)ctx.rows * (double)ctx.depth / 4, pad_task, &ctx);
  const ptrdiff_t groups = rm_ceil_div(ctx.columns, GROUP_ROWS);
  const double group_ns =
      ((double)rm_min(ctx.rows, STRIP_ROWS) + 1) * (double)ctx.depth * GROUP_ROWS / PRODUCTS_PER_NS / 2;
  ctx.groups_per_task = rm_min(groups, (ptrdiff_t)(1 + TASK_NS / (group_ns + 1)));
  rm_parallel(ctx.row_blocks * rm_ceil_div(groups, ctx.groups_per_task),
              group_ns * (double)groups * (double)ctx.row_blocks, nibbles_task, &ctx);
  RM_FOR_ISA(workspace_free)(workspace);
  return RM_OK;
}
