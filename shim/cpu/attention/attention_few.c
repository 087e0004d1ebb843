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
  /* The results of all parts of a problem. */
  float *partial;
} few_memory;

static ptrdiff_t block_of(const attention_context *ctx) {
  return rm_round_up(rm_min(FEW_KEY_BLOCK, rm_min(ctx->part_keys, ctx->n)), LANES);
}

/* The elements of the results of a part: the sums, the maximum and the sum of exponentials of rows. */
static ptrdiff_t part_size(const attention_context *ctx) { return ctx->rows * (ctx->dv + 2); }

/* Whether tasks have the results of all parts of a problem. */
static bool has_all_parts(const attention_context *ctx) {
  return ctx->task_parts == ctx->parts;
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
  const bool keeps = ctx->parts > 1 && has_all_parts(ctx);
  memory.partial = take_floats(workspace, keeps ? ctx->parts * part_size(ctx) : 0);
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
static void multiply_keys(const attention_context *ctx, few_memory *memory,
                          const attention_problem *p, ptrdiff_t key, ptrdiff_t keys) {
  const ptrdiff_t block = block_of(ctx), at_once = ctx->rows == 4 ? 2 : ctx->rows;
  for (ptrdiff_t j = 0; j < keys; j += FEW_KEY_STEP) {
    const ptrdiff_t step = rm_min(FEW_KEY_STEP, keys - j);
    const float *k = memory->copies;
    ptrdiff_t stride = ctx->k_pitch;
    if (ctx->direct_k) {
      k = (const float *)key_of(&ctx->k, p, key + j);
      stride = ctx->k.strides.row;
    } else RM_FOR_ISA(copy_keys)(ctx, p, key + j, step, memory->copies);
    for (ptrdiff_t row = 0; row < ctx->rows; row += at_once) {
      dot_keys(ctx, at_once, memory->queries + row * ctx->d, k, stride, step,
               memory->scores + row * block + j, block);
    }
  }
}

/* Adds the products of exponentials and values of a block to the sums. */
static void multiply_values(const attention_context *ctx, few_memory *memory,
                            const attention_problem *p, ptrdiff_t key, ptrdiff_t keys) {
  const ptrdiff_t block = block_of(ctx), pitch = ctx->v_pitch;
  for (ptrdiff_t j = 0; j < keys; j += FEW_KEY_STEP) {
    const ptrdiff_t step = rm_min(FEW_KEY_STEP, keys - j);
    const float *v = memory->copies;
    ptrdiff_t stride = pitch;
    if (ctx->direct_v) {
      v = (const float *)key_of(&ctx->v, p, key + j);
      stride = ctx->v.strides.row;
    } else RM_FOR_ISA(copy_values)(ctx, p, key + j, step, memory->copies);
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

static void apply_mask(const attention_context *ctx, few_memory *memory,
                       const attention_problem *p, ptrdiff_t row, ptrdiff_t key, ptrdiff_t keys) {
  float *restrict scores = memory->scores + row * block_of(ctx);
  const float *restrict mask = memory->mask;
  RM_FOR_ISA(load_mask)(ctx, p, row, key, keys, memory->mask);
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

/* The parts with keys that rows of a problem see; one part if there are none. */
typedef struct {
  ptrdiff_t first, end;
} part_range;

static part_range parts_of(const attention_context *ctx, const attention_problem *p) {
  const ptrdiff_t seen = rm_min(ctx->n, keys_seen(ctx, p, ctx->rows - 1));
  const ptrdiff_t first = p->first / ctx->part_keys, end = rm_ceil_div(seen, ctx->part_keys);
  return (part_range){first, end > first ? end : first + 1};
}

/* Computes the sums, and the maximum and the sum of exponentials of each row, for a part of the keys. */
static void attend_part(const attention_context *ctx, const attention_problem *p,
                        few_memory *memory, ptrdiff_t part, float *max, float *sum) {
  const ptrdiff_t rows = ctx->rows, dv = ctx->dv, pitch = ctx->v_pitch;
  const ptrdiff_t first = part * ctx->part_keys;
  ptrdiff_t end = rm_min(ctx->n, first + ctx->part_keys);
  end = rm_min(end, keys_seen(ctx, p, rows - 1));
  for (ptrdiff_t row = 0; row < rows; row++) {
    max[row] = -__builtin_inff();
    sum[row] = 0;
  }
  memset(memory->sums, 0, (size_t)(SMALL_MR * pitch) * sizeof *memory->sums);
  const ptrdiff_t begin = p->first > first ? p->first : first;
  for (ptrdiff_t key = begin; key < end; key += FEW_KEY_BLOCK) {
    const ptrdiff_t keys = rm_min(FEW_KEY_BLOCK, end - key), whole = rm_round_up(keys, LANES);
    multiply_keys(ctx, memory, p, key, keys);
    for (ptrdiff_t row = 0; row < rows; row++) {
      float *scores = memory->scores + row * block_of(ctx);
      if (ctx->soft_cap > 0) RM_FOR_ISA(cap_scores)(ctx, scores, keys);
      if (ctx->mask.data != NULL) apply_mask(ctx, memory, p, row, key, keys);
      ptrdiff_t j = rm_min(keys, keys_seen(ctx, p, row) - key);
      for (j = j < 0 ? 0 : j; j < whole; j++) scores[j] = -__builtin_inff();
      const ptrdiff_t before = rm_min(keys, first_seen(ctx, p, row) - key);
      for (j = 0; j < before; j++) scores[j] = -__builtin_inff();
      const float factor = exponentials_of(scores, whole, &max[row], &sum[row]);
      if (factor == 1 || key == begin) continue;
      float *restrict sums = memory->sums + row * pitch;
      for (ptrdiff_t c = 0; c < dv; c++) sums[c] *= factor;
    }
    multiply_values(ctx, memory, p, key, keys);
  }
}

/* Adds the parts of a row to the first one, and stores the row. */
static void combine_row(const attention_context *ctx, const attention_problem *p, ptrdiff_t row,
                        float *results, ptrdiff_t parts) {
  const ptrdiff_t dv = ctx->dv, step = part_size(ctx);
  float *first = results + row * (dv + 2);
  float max = -__builtin_inff();
  for (ptrdiff_t i = 0; i < parts; i++) {
    const float other = first[i * step + dv];
    max = other > max ? other : max;
  }
  const float by = max == -__builtin_inff() ? 0 : max;
  float sum = 0;
  for (ptrdiff_t i = 0; i < parts; i++) {
    const float *restrict part = first + i * step;
    const float factor = rm_exp_f32(part[dv] - by);
    float *restrict to = first;
    sum += part[dv + 1] * factor;
    if (i == 0) {
      for (ptrdiff_t c = 0; c < dv; c++) to[c] *= factor;
    } else {
      for (ptrdiff_t c = 0; c < dv; c++) to[c] += part[c] * factor;
    }
  }
  sum = RM_FOR_ISA(with_sink)(ctx, p, row, by, sum, first);
  RM_FOR_ISA(store_result)(ctx, p, row, first, sum);
}

void RM_FOR_ISA(attend_few)(void *context, ptrdiff_t index) {
  const attention_context *ctx = context;
  const ptrdiff_t per_problem = ctx->parts / ctx->task_parts, i = index / per_problem;
  const attention_problem p = problem_at(ctx, i);
  const part_range own = parts_of(ctx, &p);
  const ptrdiff_t from = index % per_problem * ctx->task_parts;
  const ptrdiff_t begin = own.first > from ? own.first : from;
  const ptrdiff_t end = rm_min(own.end, from + ctx->task_parts);
  if (begin >= end) return;
  const int slot = take_slot(ctx->slot_taken, ctx->slots);
  char *workspace = ctx->workspace + slot * ctx->workspace_bytes;
  few_memory memory = few_memory_of(ctx, &workspace);
  const ptrdiff_t rows = ctx->rows, dv = ctx->dv, parts = own.end - own.first;
  for (ptrdiff_t row = 0; row < rows; row++) {
    RM_FOR_ISA(load_query)(ctx, &p, row, memory.queries + row * ctx->d);
  }
  float *results = has_all_parts(ctx) ? memory.partial
                                      : ctx->partial + i * ctx->parts * part_size(ctx);
  for (ptrdiff_t part = begin; part < end; part++) {
    float max[FEW_ROWS], sum[FEW_ROWS];
    attend_part(ctx, &p, &memory, part, max, sum);
    for (ptrdiff_t row = 0; row < rows; row++) {
      float *sums = memory.sums + row * ctx->v_pitch;
      if (parts == 1) {
        const float all = RM_FOR_ISA(with_sink)(ctx, &p, row, max[row], sum[row], sums);
        RM_FOR_ISA(store_result)(ctx, &p, row, sums, all);
        continue;
      }
      float *result = results + (part - own.first) * part_size(ctx) + row * (dv + 2);
      memcpy(result, sums, (size_t)dv * sizeof *sums);
      result[dv] = max[row];
      result[dv + 1] = sum[row];
    }
  }
  if (parts > 1 && has_all_parts(ctx)) {
    for (ptrdiff_t row = 0; row < rows; row++) combine_row(ctx, &p, row, results, parts);
  }
  atomic_flag_clear(&ctx->slot_taken[slot]);
}

void RM_FOR_ISA(combine_parts)(const attention_context *ctx) {
  for (ptrdiff_t i = 0; i < ctx->problems; i++) {
    const attention_problem p = problem_at(ctx, i);
    const part_range own = parts_of(ctx, &p);
    if (own.end - own.first == 1) continue;
    float *results = ctx->partial + i * ctx->parts * part_size(ctx);
    for (ptrdiff_t row = 0; row < ctx->rows; row++) {
      combine_row(ctx, &p, row, results, own.end - own.first);
    }
  }
}
