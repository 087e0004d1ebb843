/*
 * Reads rows of the operands of attention as float32, and writes rows of the result.
 */
#include "attention_context.h"
#include "quant_formats.h"

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

static void copy_run(const head_operand *x, ptrdiff_t problem, ptrdiff_t key, ptrdiff_t keys,
                     ptrdiff_t columns, float *to, ptrdiff_t pitch) {
  for (ptrdiff_t j = 0; j < keys; j++, to += pitch) {
    if (j + AHEAD < keys) prefetch(key_of(x, problem, key + j + AHEAD), x, columns);
    const char *from = key_of(x, problem, key + j);
    /* Of bytes, which only a cache has, offsets and strides are in bytes too. */
    if (x->dtype == RM_UINT8) load_q8_0(to, (const uint8_t *)from, columns);
    else RM_FOR_ISA(load_run)(x->dtype, to, from, columns, x->strides.column);
    for (ptrdiff_t c = columns; c < pitch; c++) to[c] = 0;
  }
}

static void copy_rows(const attention_context *ctx, const head_operand *x,
                      const head_operand *cached, ptrdiff_t problem, ptrdiff_t key, ptrdiff_t keys,
                      ptrdiff_t columns, float *to, ptrdiff_t pitch) {
  const ptrdiff_t before = cached_keys(ctx, problem);
  if (key < before) {
    const ptrdiff_t count = rm_min(keys, before - key);
    copy_run(cached, problem, key, count, columns, to, pitch);
    key += count;
    keys -= count;
    to += count * pitch;
  }
  if (keys > 0) copy_run(x, problem, key - before, keys, columns, to, pitch);
}

void RM_FOR_ISA(copy_keys)(const attention_context *ctx, ptrdiff_t problem, ptrdiff_t key,
                           ptrdiff_t keys, float *to) {
  copy_rows(ctx, &ctx->k, &ctx->cached_k, problem, key, keys, ctx->d, to, ctx->k_pitch);
}

void RM_FOR_ISA(copy_values)(const attention_context *ctx, ptrdiff_t problem, ptrdiff_t key,
                             ptrdiff_t keys, float *to) {
  copy_rows(ctx, &ctx->v, &ctx->cached_v, problem, key, keys, ctx->dv, to, ctx->v_pitch);
}

void RM_FOR_ISA(load_query)(const attention_context *ctx, ptrdiff_t problem, ptrdiff_t row,
                            float *to) {
  const char *from = row_of(ctx, &ctx->q, problem, row);
  if (row + AHEAD < ctx->rows) {
    prefetch(row_of(ctx, &ctx->q, problem, row + AHEAD), &ctx->q, ctx->d);
  }
  const float *x = to;
  if (ctx->q.dtype == RM_FLOAT32 && ctx->q.strides.column == 1) x = (const float *)from;
  else RM_FOR_ISA(load_run)(ctx->q.dtype, to, from, ctx->d, ctx->q.strides.column);
  RM_ANY_ORDER for (ptrdiff_t c = 0; c < ctx->d; c++) to[c] = x[c] * ctx->scale;
}

void RM_FOR_ISA(load_mask)(const attention_context *ctx, ptrdiff_t problem, ptrdiff_t row,
                           ptrdiff_t key, ptrdiff_t keys, float *to) {
  const head_operand *mask = &ctx->mask;
  const ptrdiff_t column = mask->strides.column;
  const char *from = row_of(ctx, mask, problem, row) + key * column * rm_itemsize(mask->dtype);
  if (mask->dtype != RM_BOOL) {
    RM_FOR_ISA(load_run)(mask->dtype, to, from, keys, column);
    return;
  }
  for (ptrdiff_t j = 0; j < keys; j++) to[j] = from[j * column] != 0 ? 0 : -__builtin_inff();
}

void RM_FOR_ISA(store_result)(const attention_context *ctx, ptrdiff_t problem, ptrdiff_t row,
                              float *sums, float sum) {
  char *to = row_of(ctx, &ctx->out, problem, row);
  const bool direct = ctx->out.dtype == RM_FLOAT32 && ctx->out.strides.column == 1;
  float *scaled = direct ? (float *)to : sums;
  const float by = 1 / sum;
  if (sum != 0) {
    RM_ANY_ORDER for (ptrdiff_t c = 0; c < ctx->dv; c++) scaled[c] = sums[c] * by;
  } else {
    /* No key was seen: the sums may not even have been written. */
    for (ptrdiff_t c = 0; c < ctx->dv; c++) scaled[c] = __builtin_nanf("");
  }
  if (direct) return;
  RM_FOR_ISA(store_run)(ctx->out.dtype, to, sums, ctx->dv, ctx->out.strides.column);
}
