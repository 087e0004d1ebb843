/*
 * Attention of panels of query rows.
 *
 * Queries are the columns of the scores: a panel holds the transposed queries of PANEL rows, which
 * the kernels of matrix products multiply by rows of keys in place. So maxima and sums of all rows
 * of a panel are those of vectors, and the exponentials are, column by column, the rows by which
 * the kernels multiply the values in place.
 */
#include "attention_context.h"

/* The memory of a task. */
typedef struct {
  /* For each panel the queries, transposed; for each row its sums, its maximum and its sum of
   * exponentials. */
  float *queries, *sums, *max, *sum;
  /* Exponentials of the last block over those of the blocks before, for each row of a panel. */
  float *factor;
  /* [keys][PANEL]. */
  float *scores;
  /* Rows of queries or of the mask, and the mask in the layout of scores. */
  float *rows, *mask;
  /* Copied keys and values. */
  float *keys, *values;
} panel_memory;

static panel_memory panel_memory_of(const attention_context *ctx, char **workspace) {
  const ptrdiff_t rows = ctx->task_rows, block = rm_min(ctx->key_block, ctx->n);
  const bool masked = ctx->mask.data != NULL;
  panel_memory memory;
  memory.queries = take_floats(workspace, rows * ctx->d);
  /* Kernels for several rows may write beyond the last one. */
  memory.sums = take_floats(workspace, (rows + SMALL_MR) * ctx->v_pitch);
  memory.max = take_floats(workspace, rows);
  memory.sum = take_floats(workspace, rows);
  memory.factor = take_floats(workspace, PANEL);
  memory.scores = take_floats(workspace, (block + SMALL_MR) * PANEL);
  const ptrdiff_t longest = masked && block > ctx->d ? block : ctx->d;
  memory.rows = take_floats(workspace, PANEL * longest);
  memory.mask = take_floats(workspace, masked ? block * PANEL : 0);
  memory.keys = take_floats(workspace, ctx->direct_k ? 0 : block * ctx->k_pitch);
  memory.values = take_floats(workspace, ctx->direct_v ? 0 : block * ctx->v_pitch);
  return memory;
}

ptrdiff_t RM_FOR_ISA(panels_workspace)(const attention_context *ctx) {
  /* An address, as arithmetic on a null pointer is undefined. */
  char *const start = (char *)(uintptr_t)ALIGNMENT;
  char *end = start;
  panel_memory_of(ctx, &end);
  return end - start;
}

/* A panel of a task: its first row in the problem and in the task, its rows, and the vectors that
 * hold them. */
typedef struct {
  const attention_problem *problem;
  ptrdiff_t row, in_task, rows;
  int vectors;
} panel;

static void load_queries(const attention_context *ctx, const panel *p, panel_memory *memory) {
  for (ptrdiff_t i = 0; i < p->rows; i++) {
    RM_FOR_ISA(load_query)(ctx, p->problem, p->row + i, memory->rows + i * ctx->d);
  }
  ctx->kernels->pack_b(memory->queries + p->in_task * ctx->d, memory->rows, p->rows, ctx->d, ctx->d,
                       1);
}

/* Computes the scores of rows of keys. */
static void multiply_keys(const attention_context *ctx, const panel *p, panel_memory *memory,
                          const float *k, ptrdiff_t stride, ptrdiff_t keys) {
  const gemm_kernels *kernels = ctx->kernels;
  const float *queries = memory->queries + p->in_task * ctx->d;
  const int width = 2 - p->vectors;
  float *scores = memory->scores;
  ptrdiff_t j = 0;
  for (; j + MR <= keys; j += MR) {
    kernels->tile[width](ctx->d, k + j * stride, stride, 1, queries, PANEL, scores + j * PANEL,
                         PANEL, false);
  }
  for (; j < keys; j += SMALL_MR) {
    const void *at[SMALL_MR];
    for (ptrdiff_t i = 0; i < SMALL_MR; i++) at[i] = k + rm_min(j + i, keys - 1) * stride;
    kernels->rows4[width](ctx->d, at, 1, queries, PANEL, scores + j * PANEL, PANEL, false);
  }
}

/* Adds the products of exponentials and rows of values to the sums, or stores them there. */
static void multiply_values(const attention_context *ctx, const panel *p, panel_memory *memory,
                            const float *v, ptrdiff_t stride, ptrdiff_t keys, bool add) {
  const gemm_kernels *kernels = ctx->kernels;
  const ptrdiff_t pitch = ctx->v_pitch;
  const float *exponentials = memory->scores;
  for (ptrdiff_t c = 0; c < pitch; c += PANEL) {
    const int width = c + PANEL <= pitch ? 0 : 1;
    float *to = memory->sums + p->in_task * pitch + c;
    ptrdiff_t i = 0;
    for (; i + MR <= p->rows; i += MR) {
      kernels->tile[width](keys, exponentials + i, 1, PANEL, v + c, stride, to + i * pitch, pitch,
                           add);
    }
    for (; i < p->rows; i += SMALL_MR) {
      const void *at[SMALL_MR];
      for (ptrdiff_t r = 0; r < SMALL_MR; r++) at[r] = exponentials + rm_min(i + r, p->rows - 1);
      kernels->rows4[width](keys, at, PANEL, v + c, stride, to + i * pitch, pitch, add);
    }
  }
}

/* Adds the mask to a vector of scores; false in a bool mask replaces them. */
#define WITH_MASK(s, m, replaces) ((replaces) ? ((m) < 0 ? (m) : (s)) : (s) + (m))

static void apply_mask(const attention_context *ctx, const panel *p, panel_memory *memory,
                       ptrdiff_t key, ptrdiff_t keys) {
  const head_strides *strides = &ctx->mask.strides;
  const bool replaces = ctx->mask.dtype == RM_BOOL;
  float *scores = memory->scores;
  /* One row for all queries. */
  if ((strides->row == 0 || ctx->m == 1) && (strides->group == 0 || ctx->group_size == 1)) {
    RM_FOR_ISA(load_mask)(ctx, p->problem, p->row, key, keys, memory->rows);
    for (ptrdiff_t j = 0; j < keys; j++) {
      const v_f32 m = SPLAT(memory->rows[j]);
      UNROLL for (int v = 0; v < 2; v++) {
        v_f32 *s = (v_f32 *)(scores + j * PANEL + v * LANES);
        *s = WITH_MASK(*s, m, replaces);
      }
    }
    return;
  }
  for (ptrdiff_t i = 0; i < p->rows; i++) {
    RM_FOR_ISA(load_mask)(ctx, p->problem, p->row + i, key, keys, memory->rows + i * keys);
  }
  ctx->kernels->pack_b(memory->mask, memory->rows, p->rows, keys, keys, 1);
  for (ptrdiff_t j = 0; j < keys * PANEL; j += LANES) {
    v_f32 *s = (v_f32 *)(scores + j);
    const v_f32 m = *(const v_f32 *)(memory->mask + j);
    *s = WITH_MASK(*s, m, replaces);
  }
}

/* Hides keys beyond the causal limit of each row. */
static void apply_causal_limit(const attention_context *ctx, const panel *p, panel_memory *memory,
                               ptrdiff_t key, ptrdiff_t keys) {
  for (ptrdiff_t i = 0; i < p->rows; i++) {
    ptrdiff_t j = keys_seen(ctx, p->problem, p->row + i) - key;
    for (j = j < 0 ? 0 : j; j < keys; j++) memory->scores[j * PANEL + i] = -__builtin_inff();
  }
}

/* Hides keys before the window of each row. */
static void apply_window(const attention_context *ctx, const panel *p, panel_memory *memory,
                         ptrdiff_t key, ptrdiff_t keys) {
  for (ptrdiff_t i = 0; i < p->rows; i++) {
    const ptrdiff_t before = rm_min(keys, first_seen(ctx, p->problem, p->row + i) - key);
    for (ptrdiff_t j = 0; j < before; j++) memory->scores[j * PANEL + i] = -__builtin_inff();
  }
}

/* Hides keys up to the next multiple of four, so that the order in which exponentials are added does
 * not depend on where a block ends. */
static void hide_rest(panel_memory *memory, ptrdiff_t keys) {
  for (ptrdiff_t j = keys * PANEL; j < rm_round_up(keys, 4) * PANEL; j += LANES) {
    *(v_f32 *)(memory->scores + j) = SPLAT(-__builtin_inff());
  }
}

/* Replaces scores, those of a multiple of four keys, by exponentials of their differences from the
 * maximum so far, and updates the maximum, the sum and the factor of each row. */
static void exponentials_of(const panel *p, panel_memory *memory, ptrdiff_t keys) {
  for (int v = 0; v < p->vectors; v++) {
    float *scores = memory->scores + v * LANES;
    v_f32 *max = (v_f32 *)(memory->max + p->in_task + v * LANES);
    v_f32 *sum = (v_f32 *)(memory->sum + p->in_task + v * LANES);
    const v_f32 before = *max;
    v_f32 m[4] = {before, before, before, before};
    for (ptrdiff_t j = 0; j < keys; j += 4) {
      UNROLL for (int u = 0; u < 4; u++) {
        const v_f32 s = *(const v_f32 *)(scores + (j + u) * PANEL);
        m[u] = MAX_OF(m[u], s);
      }
    }
    m[0] = MAX_OF(m[0], m[1]);
    m[2] = MAX_OF(m[2], m[3]);
    const v_f32 now = MAX_OF(m[0], m[2]), by = subtrahend(now);
    v_f32 total = SPLAT(0);
    for (ptrdiff_t j = 0; j < keys; j += 4) {
      v_f32 e[4];
      UNROLL for (int u = 0; u < 4; u++) {
        v_f32 *s = (v_f32 *)(scores + (j + u) * PANEL);
        *s = e[u] = exp_nonpositive(*s - by);
      }
      total += (e[0] + e[1]) + (e[2] + e[3]);
    }
    const v_f32 factor = exp_nonpositive(before - by);
    *(v_f32 *)(memory->factor + v * LANES) = factor;
    *max = now;
    *sum = *sum * factor + total;
  }
}

/* Multiplies the sums of the blocks before by the factors. */
static void rescale(const attention_context *ctx, const panel *p, panel_memory *memory) {
  for (ptrdiff_t i = 0; i < p->rows; i++) {
    const float factor = memory->factor[i];
    if (factor == 1) continue;
    float *restrict sums = memory->sums + (p->in_task + i) * ctx->v_pitch;
    for (ptrdiff_t c = 0; c < ctx->v_pitch; c++) sums[c] *= factor;
  }
}

/* Adds a block of keys to the sums of a panel, or stores them if it is the panel's first. */
static void attend_block(const attention_context *ctx, const panel *p, panel_memory *memory,
                         const float *k, ptrdiff_t k_stride, const float *v, ptrdiff_t v_stride,
                         ptrdiff_t key, ptrdiff_t keys, bool is_first) {
  multiply_keys(ctx, p, memory, k, k_stride, keys);
  if (ctx->soft_cap > 0) RM_FOR_ISA(cap_scores)(ctx, memory->scores, keys * PANEL);
  if (ctx->mask.data != NULL) apply_mask(ctx, p, memory, key, keys);
  if (keys_seen(ctx, p->problem, p->row) < key + keys) apply_causal_limit(ctx, p, memory, key, keys);
  if (first_seen(ctx, p->problem, p->row + p->rows - 1) > key) apply_window(ctx, p, memory, key, keys);
  hide_rest(memory, keys);
  exponentials_of(p, memory, rm_round_up(keys, 4));
  if (!is_first) rescale(ctx, p, memory);
  multiply_values(ctx, p, memory, v, v_stride, keys, !is_first);
}

static panel panel_at(const attention_problem *problem, ptrdiff_t first, ptrdiff_t in_task,
                      ptrdiff_t rows) {
  const ptrdiff_t left = rm_min(PANEL, rows - in_task);
  return (panel){problem, first + in_task, in_task, left, left > LANES ? 2 : 1};
}

/* Where the block of keys with a key begins. */
static ptrdiff_t block_at(const attention_context *ctx, ptrdiff_t key) {
  return key / ctx->key_block * ctx->key_block;
}

void RM_FOR_ISA(attend_panels)(void *context, ptrdiff_t index) {
  const attention_context *ctx = context;
  const int slot = take_slot(ctx->slot_taken, ctx->slots);
  char *workspace = ctx->workspace + slot * ctx->workspace_bytes;
  panel_memory memory = panel_memory_of(ctx, &workspace);
  const attention_problem own_problem = problem_at(ctx, index / ctx->row_tasks);
  const attention_problem *problem = &own_problem;
  const ptrdiff_t first = index % ctx->row_tasks * ctx->task_rows;
  const ptrdiff_t rows = rm_min(ctx->task_rows, ctx->rows - first);
  for (ptrdiff_t i = 0; i < rows; i += PANEL) {
    const panel p = panel_at(problem, first, i, rows);
    load_queries(ctx, &p, &memory);
  }
  for (ptrdiff_t i = 0; i < ctx->task_rows; i++) {
    memory.max[i] = -__builtin_inff();
    memory.sum[i] = 0;
  }
  const ptrdiff_t seen = keys_seen(ctx, problem, first + rows - 1);
  const ptrdiff_t begin = block_at(ctx, first_seen(ctx, problem, first));
  for (ptrdiff_t key = begin; key < seen; key += ctx->key_block) {
    const ptrdiff_t keys = rm_min(ctx->key_block, seen - key);
    const float *k = memory.keys, *v = memory.values;
    ptrdiff_t k_stride = ctx->k_pitch, v_stride = ctx->v_pitch;
    if (ctx->direct_k) {
      k = (const float *)key_of(&ctx->k, problem, key);
      k_stride = ctx->k.strides.row;
    } else RM_FOR_ISA(copy_keys)(ctx, problem, key, keys, memory.keys);
    if (ctx->direct_v) {
      v = (const float *)key_of(&ctx->v, problem, key);
      v_stride = ctx->v.strides.row;
    } else RM_FOR_ISA(copy_values)(ctx, problem, key, keys, memory.values);
    for (ptrdiff_t i = 0; i < rows; i += PANEL) {
      const panel p = panel_at(problem, first, i, rows);
      const ptrdiff_t own = rm_min(keys, keys_seen(ctx, problem, p.row + p.rows - 1) - key);
      const ptrdiff_t start = block_at(ctx, first_seen(ctx, problem, p.row));
      if (own < 1 || key < start) continue;
      attend_block(ctx, &p, &memory, k, k_stride, v, v_stride, key, own, key == start);
    }
  }
  for (ptrdiff_t i = 0; i < rows; i++) {
    float *sums = memory.sums + i * ctx->v_pitch;
    const float sum = RM_FOR_ISA(with_sink)(ctx, problem, first + i, memory.max[i], memory.sum[i],
                                            sums);
    RM_FOR_ISA(store_result)(ctx, problem, first + i, sums, sum);
  }
  atomic_flag_clear(&ctx->slot_taken[slot]);
}
