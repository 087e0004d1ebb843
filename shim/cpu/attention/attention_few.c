/*
 * Attention of few query rows, as when a sequence grows by one: keys and values are read once, by
 * all rows.
 *
 * The keys of a task are added in blocks: their scores are dot products of rows, and the sums are
 * rows of values times their exponentials.
 */
#include "attention_context.h"
#include "vecmath.h"

/* The sums of lanes that leave four. */
#if defined(__AVX512F__)
#define NARROW_TO_4(x) ADD_HALVES(ADD_HALVES(x))
#elif defined(__AVX2__)
#define NARROW_TO_4(x) ADD_HALVES(x)
#else
#define NARROW_TO_4(x) (x)
#endif

/* The memory of a task. */
typedef struct {
  /* The queries, the scores of a block and the sums of each row. */
  float *queries, *scores, *sums;
  float *mask;
  /* Copied keys or values. */
  float *copies;
} few_memory;

static ptrdiff_t block_of(const attention_context *ctx) {
  return rm_round_up(rm_min(FEW_KEY_BLOCK, ctx->part_keys), LANES);
}

static few_memory few_memory_of(const attention_context *ctx, char **workspace) {
  few_memory memory;
  const ptrdiff_t block = block_of(ctx);
  const ptrdiff_t wider = ctx->k_pitch > ctx->v_pitch ? ctx->k_pitch : ctx->v_pitch;
  memory.queries = take_floats(workspace, ctx->rows * ctx->d);
  memory.scores = take_floats(workspace, ctx->rows * block);
  /* The kernel writes as many rows. */
  memory.sums = take_floats(workspace, SMALL_MR * ctx->v_pitch);
  memory.mask = take_floats(workspace, ctx->mask.data == NULL ? 0 : block);
  const bool direct = ctx->direct_k && ctx->direct_v;
  memory.copies = take_floats(workspace, direct ? 0 : FEW_KEY_STEP * wider);
  return memory;
}

ptrdiff_t RM_FOR_ISA(few_workspace)(const attention_context *ctx) {
  /* An address, as arithmetic on a null pointer is undefined. */
  char *const start = (char *)(uintptr_t)ALIGNMENT;
  char *end = start;
  few_memory_of(ctx, &end);
  return end - start;
}

/* The vector of the sums of the lanes of four vectors. */
static RM_ALWAYS_INLINE f32x4 sums_of(const v_f32 *x) {
  f32x4 narrow[4];
  UNROLL for (int i = 0; i < 4; i++) narrow[i] = NARROW_TO_4(x[i]);
  const f32x4 a = narrow[0], b = narrow[1], c = narrow[2], d = narrow[3];
  const f32x4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) +
                   __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const f32x4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) +
                   __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

/* The dot products of `rows` queries, d elements apart, and four keys. */
static RM_ALWAYS_INLINE void dot_four_keys(const int rows, ptrdiff_t d, const float *queries,
                                           const float *const *keys, float *scores,
                                           ptrdiff_t pitch) {
  v_f32 sum[3][4];
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int j = 0; j < 4; j++) sum[r][j] = SPLAT(0);
  }
  ptrdiff_t c = 0;
  ROLLED for (; c + LANES <= d; c += LANES) {
    v_f32 q[3];
    UNROLL for (int r = 0; r < rows; r++) q[r] = *(const v_f32 *)(queries + r * d + c);
    UNROLL for (int j = 0; j < 4; j++) {
      const v_f32 k = *(const v_f32 *)(keys[j] + c);
      UNROLL for (int r = 0; r < rows; r++) sum[r][j] = FMA(v_f32, q[r], k, sum[r][j]);
    }
  }
  UNROLL for (int r = 0; r < rows; r++) {
    f32x4 total = sums_of(sum[r]);
    RM_SCALAR for (ptrdiff_t i = c; i < d; i++) {
      const f32x4 k = {keys[0][i], keys[1][i], keys[2][i], keys[3][i]};
      total += k * queries[r * d + i];
    }
    *(f32x4 *)(scores + r * pitch) = total;
  }
}

/* The scores of up to three queries. Writes a multiple of four of them. */
static void dot_keys(const attention_context *ctx, ptrdiff_t rows, const float *queries,
                     const float *k, ptrdiff_t stride, ptrdiff_t keys, float *scores,
                     ptrdiff_t pitch) {
  if (rows == 1) {
    memset(scores, 0, (size_t)keys * sizeof *scores);
    ctx->kernels->gemv_dot(keys, ctx->d, k, stride, queries, scores);
    return;
  }
  for (ptrdiff_t j = 0; j < keys; j += 4) {
    const float *at[4];
    for (ptrdiff_t i = 0; i < 4; i++) at[i] = k + rm_min(j + i, keys - 1) * stride;
    if (rows == 2) dot_four_keys(2, ctx->d, queries, at, scores + j, pitch);
    else dot_four_keys(3, ctx->d, queries, at, scores + j, pitch);
  }
}

/* Computes the scores of a block of keys. */
static void multiply_keys(const attention_context *ctx, few_memory *memory, ptrdiff_t problem,
                          ptrdiff_t key, ptrdiff_t keys) {
  const ptrdiff_t block = block_of(ctx), at_once = ctx->rows == 4 ? 2 : ctx->rows;
  for (ptrdiff_t j = 0; j < keys; j += FEW_KEY_STEP) {
    const ptrdiff_t step = rm_min(FEW_KEY_STEP, keys - j);
    const float *k = memory->copies;
    ptrdiff_t stride = ctx->k_pitch;
    if (ctx->direct_k) {
      k = (const float *)key_of(&ctx->k, problem, key + j);
      stride = ctx->k.strides.row;
    } else RM_FOR_ISA(copy_keys)(ctx, problem, key + j, step, memory->copies);
    for (ptrdiff_t row = 0; row < ctx->rows; row += at_once) {
      dot_keys(ctx, at_once, memory->queries + row * ctx->d, k, stride, step,
               memory->scores + row * block + j, block);
    }
  }
}

/* Adds the products of exponentials and values of a block to the sums. */
static void multiply_values(const attention_context *ctx, few_memory *memory, ptrdiff_t problem,
                            ptrdiff_t key, ptrdiff_t keys) {
  const ptrdiff_t block = block_of(ctx), pitch = ctx->v_pitch;
  for (ptrdiff_t j = 0; j < keys; j += FEW_KEY_STEP) {
    const ptrdiff_t step = rm_min(FEW_KEY_STEP, keys - j);
    const float *v = memory->copies;
    ptrdiff_t stride = pitch;
    if (ctx->direct_v) {
      v = (const float *)key_of(&ctx->v, problem, key + j);
      stride = ctx->v.strides.row;
    } else RM_FOR_ISA(copy_values)(ctx, problem, key + j, step, memory->copies);
    const float *exponentials = memory->scores + j;
    if (ctx->rows == 1) {
      for (ptrdiff_t i = 0; i < step; i += SMALL_MR) {
        ctx->kernels->gemv_axpy(ctx->dv, (int)rm_min(SMALL_MR, step - i), v + i * stride, stride,
                                exponentials + i, memory->sums);
      }
      continue;
    }
    const void *at[SMALL_MR];
    for (ptrdiff_t r = 0; r < SMALL_MR; r++) at[r] = exponentials + rm_min(r, ctx->rows - 1) * block;
    for (ptrdiff_t c = 0; c < pitch; c += PANEL) {
      const int width = c + PANEL <= pitch ? 0 : 1;
      ctx->kernels->rows4[width](step, at, 1, v + c, stride, memory->sums + c, pitch, true);
    }
  }
}

static void apply_mask(const attention_context *ctx, few_memory *memory, ptrdiff_t problem,
                       ptrdiff_t row, ptrdiff_t key, ptrdiff_t keys) {
  float *restrict scores = memory->scores + row * block_of(ctx);
  const float *restrict mask = memory->mask;
  RM_FOR_ISA(load_mask)(ctx, problem, row, key, keys, memory->mask);
  if (ctx->mask.dtype == RM_BOOL) {
    for (ptrdiff_t j = 0; j < keys; j++) scores[j] = mask[j] < 0 ? mask[j] : scores[j];
  } else {
    for (ptrdiff_t j = 0; j < keys; j++) scores[j] += mask[j];
  }
}

/* Replaces scores, a whole number of vectors, by exponentials of their differences from the maximum
 * so far. Updates the maximum and the sum; returns the factor of what was summed before. */
static float exponentials_of(float *scores, ptrdiff_t count, float *max, float *sum) {
  const float before = *max;
  v_f32 m = SPLAT(before), total = SPLAT(0);
  for (ptrdiff_t j = 0; j < count; j += LANES) {
    const v_f32 s = *(const v_f32 *)(scores + j);
    m = MAX_OF(m, s);
  }
  float now = before;
  for (int l = 0; l < LANES; l++) now = m[l] > now ? m[l] : now;
  const float by = now == -__builtin_inff() ? 0 : now;
  for (ptrdiff_t j = 0; j < count; j += LANES) {
    v_f32 *s = (v_f32 *)(scores + j);
    const v_f32 e = *s = exp_nonpositive(*s - by);
    total += e;
  }
  const float factor = exp_nonpositive(SPLAT(before - by))[0];
  *max = now;
  *sum = *sum * factor + (float)SUM_LANES_32(total);
  return factor;
}

void RM_FOR_ISA(attend_few)(void *context, ptrdiff_t index) {
  const attention_context *ctx = context;
  const int slot = take_slot(ctx->slot_taken, ctx->slots);
  char *workspace = ctx->workspace + slot * ctx->workspace_bytes;
  few_memory memory = few_memory_of(ctx, &workspace);
  const ptrdiff_t problem = index / ctx->parts, first = index % ctx->parts * ctx->part_keys;
  const ptrdiff_t rows = ctx->rows, dv = ctx->dv, pitch = ctx->v_pitch;
  ptrdiff_t end = rm_min(ctx->n, first + ctx->part_keys);
  end = rm_min(end, keys_seen(ctx, problem, rows - 1));
  float max[FEW_ROWS], sum[FEW_ROWS];
  for (ptrdiff_t row = 0; row < rows; row++) {
    RM_FOR_ISA(load_query)(ctx, problem, row, memory.queries + row * ctx->d);
    max[row] = -__builtin_inff();
    sum[row] = 0;
  }
  memset(memory.sums, 0, (size_t)(SMALL_MR * pitch) * sizeof *memory.sums);
  const ptrdiff_t hidden = first_seen(ctx, problem, 0), begin = hidden > first ? hidden : first;
  for (ptrdiff_t key = begin; key < end; key += FEW_KEY_BLOCK) {
    const ptrdiff_t keys = rm_min(FEW_KEY_BLOCK, end - key), whole = rm_round_up(keys, LANES);
    multiply_keys(ctx, &memory, problem, key, keys);
    for (ptrdiff_t row = 0; row < rows; row++) {
      float *scores = memory.scores + row * block_of(ctx);
      if (ctx->soft_cap > 0) RM_FOR_ISA(cap_scores)(ctx, scores, keys);
      if (ctx->mask.data != NULL) apply_mask(ctx, &memory, problem, row, key, keys);
      ptrdiff_t j = rm_min(keys, keys_seen(ctx, problem, row) - key);
      for (j = j < 0 ? 0 : j; j < whole; j++) scores[j] = -__builtin_inff();
      const ptrdiff_t before = rm_min(keys, first_seen(ctx, problem, row) - key);
      for (j = 0; j < before; j++) scores[j] = -__builtin_inff();
      const float factor = exponentials_of(scores, whole, &max[row], &sum[row]);
      if (factor == 1 || key == begin) continue;
      float *restrict sums = memory.sums + row * pitch;
      for (ptrdiff_t c = 0; c < dv; c++) sums[c] *= factor;
    }
    multiply_values(ctx, &memory, problem, key, keys);
  }
  for (ptrdiff_t row = 0; row < rows; row++) {
    float *sums = memory.sums + row * pitch;
    if (ctx->parts == 1) {
      const float all = RM_FOR_ISA(with_sink)(ctx, problem, row, max[row], sum[row], sums);
      RM_FOR_ISA(store_result)(ctx, problem, row, sums, all);
      continue;
    }
    float *partial = ctx->partial + (index * rows + row) * (dv + 2);
    memcpy(partial, sums, (size_t)dv * sizeof *sums);
    partial[dv] = max[row];
    partial[dv + 1] = sum[row];
  }
  atomic_flag_clear(&ctx->slot_taken[slot]);
}

/* Adds the parts of a row to the first one. */
static void combine_row(const attention_context *ctx, ptrdiff_t problem, ptrdiff_t row) {
  const ptrdiff_t dv = ctx->dv, step = ctx->rows * (dv + 2);
  float *first = ctx->partial + (problem * ctx->parts * ctx->rows + row) * (dv + 2);
  float max = -__builtin_inff();
  for (ptrdiff_t p = 0; p < ctx->parts; p++) {
    const float other = first[p * step + dv];
    max = other > max ? other : max;
  }
  const float by = max == -__builtin_inff() ? 0 : max;
  float sum = 0;
  for (ptrdiff_t p = 0; p < ctx->parts; p++) {
    const float *restrict part = first + p * step;
    const float factor = rm_exp_f32(part[dv] - by);
    float *restrict to = first;
    sum += part[dv + 1] * factor;
    if (p == 0) {
      for (ptrdiff_t c = 0; c < dv; c++) to[c] *= factor;
    } else {
      for (ptrdiff_t c = 0; c < dv; c++) to[c] += part[c] * factor;
    }
  }
  sum = RM_FOR_ISA(with_sink)(ctx, problem, row, by, sum, first);
  RM_FOR_ISA(store_result)(ctx, problem, row, first, sum);
}

void RM_FOR_ISA(combine_parts)(const attention_context *ctx) {
  for (ptrdiff_t problem = 0; problem < ctx->batch; problem++) {
    for (ptrdiff_t row = 0; row < ctx->rows; row++) combine_row(ctx, problem, row);
  }
}
