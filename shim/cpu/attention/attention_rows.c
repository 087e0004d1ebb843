/*
 * Reads rows of the operands of attention as float32, and writes rows of the result.
 */
#include <stdlib.h>

#include "attention_context.h"
#include "quant_formats.h"
#include "vecmath.h"

/* How many rows before they are read rows are prefetched. */
enum { AHEAD = 4 };

/* Prefetches a contiguous row. Hardware does not if rows are far apart. */
static void prefetch(const char *row, const head_operand *x, ptrdiff_t columns) {
  const ptrdiff_t bytes = columns * rm_itemsize(x->dtype);
  for (ptrdiff_t b = 0; b < bytes; b += ALIGNMENT) __builtin_prefetch(row + b);
}

/* Converts a row of blocks of q8_0. */
static void load_q8_0(float *restrict to, const uint8_t *restrict from, ptrdiff_t columns) {
  for (ptrdiff_t c = 0; c < columns; c += PART, from += Q8_0_BYTES) {
    const float d = rm_half_at(from);
    const int8_t *restrict q = (const int8_t *)from + 2;
    for (ptrdiff_t i = 0; i < PART; i++) to[c + i] = d * (float)q[i];
  }
}

/* Copies rows that are the row stride apart. */
static void copy_run(const head_operand *x, const char *from, ptrdiff_t rows, ptrdiff_t columns,
                     float *to, ptrdiff_t pitch) {
  const ptrdiff_t step = x->strides.row * rm_itemsize(x->dtype);
  for (ptrdiff_t j = 0; j < rows; j++, from += step, to += pitch) {
    if (j + AHEAD < rows) prefetch(from + AHEAD * step, x, columns);
    /* Of bytes, which only a cache has, offsets and strides are in bytes too. */
    if (x->dtype == RM_UINT8) load_q8_0(to, (const uint8_t *)from, columns);
    else RM_FOR_ISA(load_run)(x->dtype, to, from, columns, x->strides.column);
    for (ptrdiff_t c = columns; c < pitch; c++) to[c] = 0;
  }
}

/* Row `key` of a cache with pages. */
static const char *paged_key(const attention_context *ctx, const head_operand *x,
                             const attention_problem *p, ptrdiff_t key) {
  const ptrdiff_t given = p->pages[key / ctx->page_rows];
  const ptrdiff_t page = given < 0 ? 0 : rm_min(given, ctx->page_count - 1);
  return key_of(x, p, key % ctx->page_rows) + page * x->strides.page * rm_itemsize(x->dtype);
}

/* Copies rows of pages, whose first rows are prefetched while the page before is copied. */
static void copy_pages(const attention_context *ctx, const head_operand *x,
                       const attention_problem *p, ptrdiff_t key, ptrdiff_t keys, ptrdiff_t columns,
                       float *to, ptrdiff_t pitch) {
  const ptrdiff_t step = x->strides.row * rm_itemsize(x->dtype);
  const char *from = paged_key(ctx, x, p, key);
  while (keys > 0) {
    const ptrdiff_t rows = rm_min(keys, ctx->page_rows - key % ctx->page_rows);
    const char *next = from;
    if (rows < keys) {
      next = paged_key(ctx, x, p, key + rows);
      const ptrdiff_t ahead = rm_min(AHEAD, rm_min(ctx->page_rows, keys - rows));
      for (ptrdiff_t j = 0; j < ahead; j++) prefetch(next + j * step, x, columns);
    }
    copy_run(x, from, rows, columns, to, pitch);
    key += rows;
    keys -= rows;
    to += rows * pitch;
    from = next;
  }
}

static void copy_rows(const attention_context *ctx, const head_operand *x,
                      const head_operand *cached, const attention_problem *p, ptrdiff_t key,
                      ptrdiff_t keys, ptrdiff_t columns, float *to, ptrdiff_t pitch) {
  const ptrdiff_t hidden = rm_min(keys, p->first - key);
  if (hidden > 0) {
    memset(to, 0, (size_t)(hidden * pitch) * sizeof *to);
    key += hidden;
    keys -= hidden;
    to += hidden * pitch;
  }
  const ptrdiff_t count = rm_min(keys, p->before - key);
  if (count > 0) {
    if (p->pages != NULL) copy_pages(ctx, cached, p, key, count, columns, to, pitch);
    else copy_run(cached, key_of(cached, p, key), count, columns, to, pitch);
    key += count;
    keys -= count;
    to += count * pitch;
  }
  if (keys > 0) copy_run(x, key_of(x, p, key - p->before), keys, columns, to, pitch);
}

void RM_FOR_ISA(copy_keys)(const attention_context *ctx, const attention_problem *p, ptrdiff_t key,
                           ptrdiff_t keys, float *to) {
  copy_rows(ctx, &ctx->k, &ctx->cached_k, p, key, keys, ctx->d, to, ctx->k_pitch);
}

void RM_FOR_ISA(copy_values)(const attention_context *ctx, const attention_problem *p, ptrdiff_t key,
                             ptrdiff_t keys, float *to) {
  copy_rows(ctx, &ctx->v, &ctx->cached_v, p, key, keys, ctx->dv, to, ctx->v_pitch);
}

void RM_FOR_ISA(load_query)(const attention_context *ctx, const attention_problem *p, ptrdiff_t row,
                            float *to) {
  const char *from = row_of(ctx, &ctx->q, p, row);
  if (row + AHEAD < ctx->rows) {
    prefetch(row_of(ctx, &ctx->q, p, row + AHEAD), &ctx->q, ctx->d);
  }
  const float *x = to;
  if (ctx->q.dtype == RM_FLOAT32 && ctx->q.strides.column == 1) x = (const float *)from;
  else RM_FOR_ISA(load_run)(ctx->q.dtype, to, from, ctx->d, ctx->q.strides.column);
  RM_ANY_ORDER for (ptrdiff_t c = 0; c < ctx->d; c++) to[c] = x[c] * ctx->scale;
}

void RM_FOR_ISA(load_mask)(const attention_context *ctx, const attention_problem *p, ptrdiff_t row,
                           ptrdiff_t key, ptrdiff_t keys, float *to) {
  const head_operand *mask = &ctx->mask;
  const ptrdiff_t column = mask->strides.column;
  const char *from = row_of(ctx, mask, p, row) + key * column * rm_itemsize(mask->dtype);
  if (mask->dtype != RM_BOOL) {
    RM_FOR_ISA(load_run)(mask->dtype, to, from, keys, column);
    return;
  }
  for (ptrdiff_t j = 0; j < keys; j++) to[j] = from[j * column] != 0 ? 0 : -__builtin_inff();
}

void RM_FOR_ISA(cap_scores)(const attention_context *ctx, float *scores, ptrdiff_t count) {
  const float cap = ctx->soft_cap, by = 1 / cap;
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < count; i++) scores[i] = cap * rm_tanh_f32(scores[i] * by);
}

/* The sink of a row. */
static float sink_of(const attention_context *ctx, const attention_problem *p, ptrdiff_t row) {
  const ptrdiff_t group = ctx->group_size;
  return ctx->sinks[p->index % ctx->key_heads * group + row % group];
}

float RM_FOR_ISA(with_sink)(const attention_context *ctx, const attention_problem *p, ptrdiff_t row,
                            float max, float sum, float *sums) {
  if (ctx->sinks == NULL) return sum;
  const float sink = sink_of(ctx, p, row);
  if (sink <= max) return sum + rm_exp_f32(sink - max);
  const float factor = rm_exp_f32(max - sink);
  RM_ANY_ORDER for (ptrdiff_t c = 0; c < ctx->dv; c++) sums[c] *= factor;
  return sum * factor + 1;
}

static bool has_nan(const float *x, ptrdiff_t count) {
  bool found = false;
  for (ptrdiff_t i = 0; i < count; i++) found |= x[i] != x[i];
  return found;
}

/* Computes a row from the keys that it sees, one by one. Leaves the row as it is without memory. Rare,
 * hence small. */
__attribute__((minsize, noinline)) static void attend_seen(const attention_context *ctx,
                                                           const attention_problem *p,
                                                           ptrdiff_t row, float *to) {
  float *query = malloc((size_t)(ctx->d + ctx->k_pitch + ctx->v_pitch) * sizeof *query);
  if (query == NULL) return;
  float *key = query + ctx->d, *value = key + ctx->k_pitch;
  RM_FOR_ISA(load_query)(ctx, p, row, query);
  const ptrdiff_t seen = rm_min(ctx->n, keys_seen(ctx, p, row));
  const ptrdiff_t first = first_seen(ctx, p, row);
  float max = ctx->sinks == NULL ? -__builtin_inff() : sink_of(ctx, p, row), sum = 0;
  for (ptrdiff_t c = 0; c < ctx->dv; c++) to[c] = 0;
  for (int adds = 0; adds < 2; adds++) {
    const float by = max == -__builtin_inff() ? 0 : max;
    if (adds && ctx->sinks != NULL) sum = rm_exp_f32(sink_of(ctx, p, row) - by);
    for (ptrdiff_t j = first; j < seen; j++) {
      float score = 0;
      if (ctx->mask.data != NULL) RM_FOR_ISA(load_mask)(ctx, p, row, j, 1, &score);
      if (score == -__builtin_inff()) continue;
      RM_FOR_ISA(copy_keys)(ctx, p, j, 1, key);
      RM_SCALAR for (ptrdiff_t c = 0; c < ctx->d; c++) score += query[c] * key[c];
      /* There is no mask beside it. */
      if (ctx->soft_cap > 0) RM_FOR_ISA(cap_scores)(ctx, &score, 1);
      if (!adds) {
        max = score > max ? score : max;
        continue;
      }
      const float weight = rm_exp_f32(score - by);
      sum += weight;
      RM_FOR_ISA(copy_values)(ctx, p, j, 1, value);
      RM_SCALAR for (ptrdiff_t c = 0; c < ctx->dv; c++) to[c] += weight * value[c];
    }
  }
  RM_SCALAR for (ptrdiff_t c = 0; c < ctx->dv; c++) to[c] = sum == 0 ? 0 : to[c] / sum;
  free(query);
}

void RM_FOR_ISA(store_result)(const attention_context *ctx, const attention_problem *p, ptrdiff_t row,
                              float *sums, float sum) {
  char *to = row_of(ctx, &ctx->out, p, row);
  const bool direct = ctx->out.dtype == RM_FLOAT32 && ctx->out.strides.column == 1;
  float *scaled = direct ? (float *)to : sums;
  const float by = 1 / sum;
  if (sum != 0) {
    RM_ANY_ORDER for (ptrdiff_t c = 0; c < ctx->dv; c++) scaled[c] = sums[c] * by;
  } else {
    /* No key was seen: the sums may not even have been written. */
    const float none = ctx->hides ? 0 : __builtin_nanf("");
    for (ptrdiff_t c = 0; c < ctx->dv; c++) scaled[c] = none;
  }
  if (ctx->hides && has_nan(scaled, ctx->dv)) attend_seen(ctx, p, row, scaled);
  if (direct) return;
  RM_FOR_ISA(store_run)(ctx->out.dtype, to, sums, ctx->dv, ctx->out.strides.column);
}
