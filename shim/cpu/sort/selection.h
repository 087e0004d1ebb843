/*
 * What kernels share that select among the keys of a run: a copy of the keys, and ranks.
 */
#ifndef ROWMAJOR_SELECTION_H
#define ROWMAJOR_SELECTION_H

#include "quicksort.h"
#include "sort_context.h"

/* Keys that are made at once. */
enum { KEY_BLOCK = 256 };

/* From this number of ranks on, sorting is faster. */
enum { MANY_RANKS = 16 };

/* Reads the numbers of a call: [offset of a, runs, size]. Keys are signed. */
static inline void set_selection(sort_context *ctx, const rm_call *call, int dtype) {
  const double *numbers = call->numbers;
  ctx->runs = (ptrdiff_t)numbers[1];
  ctx->size = (ptrdiff_t)numbers[2];
  set_key_order(ctx, dtype);
  set_signed_keys(ctx);
  ctx->runs_per_task = ctx->size >= TASK_ELEMENTS ? 1 : TASK_ELEMENTS / (ctx->size > 0 ? ctx->size : 1);
}

/* Runs the tasks of a selection, which take about `work` nanoseconds for an element. */
static inline void run_selection(sort_context *ctx, double work,
                                 void (*task)(void *context, ptrdiff_t index), void *context) {
  rm_parallel(rm_ceil_div(ctx->runs, ctx->runs_per_task),
              work * (double)ctx->runs * (double)ctx->size, task, context);
}

/* The size of a key in bytes. */
static inline ptrdiff_t key_bytes(const sort_context *ctx) { return ctx->bytes == 8 ? 8 : 4; }

static inline int64_t key_at(const sort_context *ctx, const void *keys, ptrdiff_t i) {
  return ctx->bytes == 8 ? ((const int64_t *)keys)[i] : ((const int32_t *)keys)[i];
}

/* The key of NaN. */
static inline int64_t nan_key(const sort_context *ctx) {
  return ctx->bytes == 8   ? INT64_MAX
         : ctx->bytes == 4 ? INT32_MAX
                           : (int32_t)(UINT32_C(0xffff) ^ UINT32_C(0x80000000));
}

/* The numbers of keys that are less than a key, and of those equal to it. */
static inline void count_keys(const sort_context *ctx, const void *keys, ptrdiff_t n, int64_t key,
                              ptrdiff_t *less, ptrdiff_t *equal) {
  ptrdiff_t all_below = 0, all_same = 0;
  if (ctx->bytes == 8) {
    const int64_t *wide = keys;
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
      all_below += wide[i] < key;
      all_same += wide[i] == key;
    }
  } else {
    const int32_t *narrow = keys, small = (int32_t)key;
    for (ptrdiff_t first = 0; first < n; first += KEY_BLOCK) {
      const ptrdiff_t end = rm_min(first + KEY_BLOCK, n);
      int32_t below = 0, same = 0;
      RM_ROLLED for (ptrdiff_t i = first; i < end; i++) {
        below += narrow[i] < small;
        same += narrow[i] == small;
      }
      all_below += below;
      all_same += same;
    }
  }
  *less = all_below;
  *equal = all_same;
}

/* Puts the keys of these ranks, which ascend, where they belong. */
static inline void select_ranks(const sort_context *ctx, void *keys, ptrdiff_t n,
                                const ptrdiff_t *ranks, ptrdiff_t count) {
  const bool wide = ctx->bytes == 8;
  if (count >= MANY_RANKS) {
    if (wide) quicksort_64(keys, n);
    else quicksort_32(keys, n);
    return;
  }
  for (ptrdiff_t i = 0, first = 0; i < count; i++) {
    const ptrdiff_t rank = ranks[i];
    if (rank < first) continue;
    if (wide) quickselect_64((int64_t *)keys + first, n - first, rank - first);
    else quickselect_32((int32_t *)keys + first, n - first, rank - first);
    first = rank + 1;
  }
}

#endif
