/*
 * What the files of attention share: the context of a call, and softmax on vectors.
 *
 * A problem is the attention of all queries that use one head of keys and values: of `group_size`
 * heads with m queries each. Query row r of a problem is query r / group_size of head
 * r % group_size, so that rows with about the same causal limit are neighbors.
 */
#ifndef ROWMAJOR_ATTENTION_CONTEXT_H
#define ROWMAJOR_ATTENTION_CONTEXT_H

#include <math.h>
#include "float_core.h"
#include "gemm_vectors.h"

enum {
  LANES = VECTOR_BYTES / 4,
  /* The query rows of a panel: the columns of the widest kernels of matrix products. */
  PANEL = 2 * LANES,
  /* Up to this many query rows, scores are dot products. */
  FEW_ROWS = SMALL_MR,
  /* The keys whose scores are computed before their softmax, for panels and for few rows. */
  KEY_BLOCK = 256,
  FEW_KEY_BLOCK = 512,
  /* The keys that stay in the L1 cache while all of the few rows use them. */
  FEW_KEY_STEP = 64
};

/* Strides in elements. Keys and values have no groups; only those of a cache may have pages. */
typedef struct {
  ptrdiff_t group, row, column, page;
} head_strides;

/* An operand: its dtype, data, strides and the offset of each problem. */
typedef struct {
  int dtype;
  char *data;
  head_strides strides;
  const double *at;
} head_operand;

typedef struct {
  const gemm_kernels *kernels;
  ptrdiff_t group_size, m, n, d, dv;
  /* The problems of the operands, and the steps that each of them consists of: its m queries, if they
   * are computed one by one, or 1. The problems of the context are their product. */
  ptrdiff_t batch, steps, problems;
  /* The query rows of a problem. */
  ptrdiff_t rows;
  float scale;
  bool causal;
  /* Whether keys that a row does not see leave no trace: a row that sees none is 0, and values that are
   * not finite do not make NaN with weights of 0. */
  bool hides;
  /* mask.data is null for no mask. */
  head_operand out, q, k, v, mask;
  /* Keys and values that come before those of k and v, of which the problems of a sequence have
   * lengths[sequence]; data is null for none. n counts those of the longest sequence. */
  head_operand cached_k, cached_v;
  const int32_t *lengths;
  ptrdiff_t problems_per_length, capacity, new_keys;
  /* The numbers of the pages of each sequence, of page_rows rows each, or null; page_count pages
   * exist. */
  const int32_t *pages;
  ptrdiff_t problems_per_table, page_rows, page_count;
  /* The keys that a row sees at most, its own included; 0 for all. */
  ptrdiff_t window;
  /* c of c tanh(score / c); 0 for none. */
  float soft_cap;
  /* A score of each head that takes part in the softmax and has no value, or null. The heads of keys,
   * whose groups follow each other. */
  const float *sinks;
  ptrdiff_t key_heads;
  /* Whether kernels read keys and values in place. */
  bool direct_k, direct_v;

  /* The query rows and key blocks of a task of panels; the distances between rows of copied keys,
   * and of sums and copied values. */
  ptrdiff_t task_rows, row_tasks, key_block, k_pitch, v_pitch;
  /* For few rows: the keys of a part, the most parts of a problem, and those of a task: 1 or all. The
   * results of tasks of one part, if there are several: the sums, the maximum and the sum of
   * exponentials of each row. */
  ptrdiff_t part_keys, parts, task_parts;
  float *partial;

  /* The workspaces of all tasks that run at once, and flags for those in use. */
  ptrdiff_t workspace_bytes;
  char *workspace;
  atomic_flag *slot_taken;
  int slots;
} attention_context;

/* A problem: its place in the operands, its first query, the keys of the cache that count, the first
 * key that a query of it sees, and the numbers of its pages. */
typedef struct {
  ptrdiff_t index, query, before, first;
  const int32_t *pages;
} attention_problem;

/* Element (row, 0) of a problem of an operand. */
static inline char *row_of(const attention_context *ctx, const head_operand *x,
                           const attention_problem *p, ptrdiff_t row) {
  const ptrdiff_t at = (ptrdiff_t)x->at[p->index] +
                       (p->query + row / ctx->group_size) * x->strides.row +
                       row % ctx->group_size * x->strides.group;
  return x->data + at * rm_itemsize(x->dtype);
}

/* Element (key, 0) of a problem of keys or values. */
static inline char *key_of(const head_operand *x, const attention_problem *p, ptrdiff_t key) {
  return x->data + ((ptrdiff_t)x->at[p->index] + key * x->strides.row) * rm_itemsize(x->dtype);
}

/* The keys of a problem of the operands that are cached. */
static inline ptrdiff_t cached_keys(const attention_context *ctx, ptrdiff_t index) {
  if (ctx->lengths == NULL) return 0;
  const int32_t length = ctx->lengths[index / ctx->problems_per_length];
  return length < 0 ? 0 : rm_min((ptrdiff_t)length, ctx->capacity);
}

/* The keys that a query row sees: the first ones. */
static inline ptrdiff_t keys_seen(const attention_context *ctx, const attention_problem *p,
                                  ptrdiff_t row) {
  if (!ctx->causal) return ctx->n;
  const ptrdiff_t query = p->query + row / ctx->group_size;
  const ptrdiff_t seen = p->before + ctx->new_keys - ctx->m + query + 1;
  return seen < 0 ? 0 : seen;
}

/* The first key that a query row sees. */
static inline ptrdiff_t first_seen(const attention_context *ctx, const attention_problem *p,
                                   ptrdiff_t row) {
  if (ctx->window == 0) return 0;
  const ptrdiff_t first = keys_seen(ctx, p, row) - ctx->window;
  return first < 0 ? 0 : first;
}

static inline attention_problem problem_at(const attention_context *ctx, ptrdiff_t i) {
  const ptrdiff_t index = i / ctx->steps;
  attention_problem p = {.index = index, .query = i % ctx->steps, .before = cached_keys(ctx, index)};
  p.first = first_seen(ctx, &p, 0);
  if (ctx->pages != NULL) {
    p.pages = ctx->pages + index / ctx->problems_per_table * (ctx->capacity / ctx->page_rows);
  }
  return p;
}

/* Takes memory for `count` floats from a workspace. */
static inline float *take_floats(char **workspace, ptrdiff_t count) {
  float *taken = (float *)*workspace;
  *workspace += rm_round_up(count * (ptrdiff_t)sizeof(float), ALIGNMENT);
  return taken;
}

/* Copies `keys` rows of keys, from `key` on, as float32 to rows k_pitch elements apart. Keys that no
 * query of the problem sees become 0. */
void RM_FOR_ISA(copy_keys)(const attention_context *ctx, const attention_problem *p, ptrdiff_t key,
                           ptrdiff_t keys, float *to);
/* The same of values, to rows v_pitch elements apart. */
void RM_FOR_ISA(copy_values)(const attention_context *ctx, const attention_problem *p, ptrdiff_t key,
                             ptrdiff_t keys, float *to);

/* Copies a query row of q as float32, times the scale. */
void RM_FOR_ISA(load_query)(const attention_context *ctx, const attention_problem *p, ptrdiff_t row,
                            float *to);

/* Copies `keys` elements of a row of the mask, from `key` on, as float32. Of bool, false becomes
 * -Infinity and true 0. */
void RM_FOR_ISA(load_mask)(const attention_context *ctx, const attention_problem *p, ptrdiff_t row,
                           ptrdiff_t key, ptrdiff_t keys, float *to);

/* Limits scores by the soft cap. */
void RM_FOR_ISA(cap_scores)(const attention_context *ctx, float *scores, ptrdiff_t count);

/* Adds the sink of a row to its sum of exponentials, whose maximum is `max`; returns the sum. */
float RM_FOR_ISA(with_sink)(const attention_context *ctx, const attention_problem *p, ptrdiff_t row,
                            float max, float sum, float *sums);

/* Writes a row of the result: the sums over the sum of exponentials. Changes the sums. Where that gives
 * NaN and keys are hidden, computes the row again, from the keys that it sees. */
void RM_FOR_ISA(store_result)(const attention_context *ctx, const attention_problem *p, ptrdiff_t row,
                              float *sums, float sum);

/* Tasks of panels: task i is i % row_tasks of problem i / row_tasks. */
void RM_FOR_ISA(attend_panels)(void *context, ptrdiff_t index);
/* The bytes of their workspace. */
ptrdiff_t RM_FOR_ISA(panels_workspace)(const attention_context *ctx);

/* Tasks of few rows: task i is a part of a problem, or all of its parts. */
void RM_FOR_ISA(attend_few)(void *context, ptrdiff_t index);
ptrdiff_t RM_FOR_ISA(few_workspace)(const attention_context *ctx);
/* Combines the parts of problems whose tasks were parts. */
void RM_FOR_ISA(combine_parts)(const attention_context *ctx);

/* ---- softmax on vectors ---------------------------------------------------------------------- */

/* What polynomials of vectors use. */
#define rm_fma_v32(a, b, c) FMA(v_f32, a, b, c)
#define SPLAT(x) ((v_f32)(float)(x))

/* x, or the limit if it is larger. NaN passes through. */
#define AT_LEAST(x, limit) ((x) < (limit) ? (limit) : (x))
/* The larger one; max where x is NaN, which the subtraction brings back. */
#define MAX_OF(max, x) ((x) > (max) ? (x) : (max))

/* exp(x) for x up to 0. The coefficients are those of rm_exp_f32, but r = x - n log(2) is rounded
 * once more: the relative error grows to 3e-7 at the lower bound, where exponentials do not count
 * next to the 1 of the maximum. Exponentials below 2^-126 are 0, because denormals are slow: below
 * -126.5 log(2) the exponent is that of 0. */
static RM_ALWAYS_INLINE v_f32 exp_nonpositive(v_f32 x) {
  x = AT_LEAST(x, SPLAT(-88));
  const v_f32 shifted = rm_fma_v32(x, SPLAT(0x1.715476p+0f), SPLAT(0x1.8p23f + 127));
  const v_f32 n = shifted - SPLAT(0x1.8p23f + 127);
  const v_f32 r = rm_fma_v32(n, SPLAT(-0x1.62e430p-1f), x);
  const v_f32 p = RM_POLY_7(v32, r, SPLAT(1), SPLAT(1), SPLAT(4.9999994e-01f), SPLAT(1.666652e-01f),
                            SPLAT(4.1668408e-02f), SPLAT(8.3689215e-03f), SPLAT(1.3814204e-03f));
  return p * (v_f32)((v_i32)shifted << 23);
}

/* What to subtract from the scores of rows with that maximum: 0 for rows that no key was seen by, so
 * that their exponentials are 0. */
static RM_ALWAYS_INLINE v_f32 subtrahend(v_f32 max) {
  return max == SPLAT(-__builtin_inff()) ? SPLAT(0) : max;
}

#endif
