/*
 * Sorts contiguous runs, or computes their argsort. Sorting is stable, with NaN last and -0 equal
 * to 0.
 *
 * Elements become unsigned keys of the same order. Short runs are sorted several at once, in the
 * columns of vectors, or each by the ranks of its keys: the number of comparisons is quadratic, but
 * vectors make many at a time. Long runs are sorted by radix sort, the lowest digit first. Values
 * alone are sorted by quicksort where vectors are wide. There is only one stable order, so the split
 * of the work does not affect results.
 */
#include <stdlib.h>
#include <string.h>
#include "sort_columns.h"
#include "sort_context.h"
#include "sort_digits.h"
#include "sort_keys.h"
#include "sort_values.h"

static void sort_by_ranks(const sort_context *ctx, char *values, int32_t *indices) {
  const ptrdiff_t n = ctx->size;
  /* Room for whole vectors of 64 bytes. */
  union {
    uint32_t narrow[RANK_MAX + 16];
    uint64_t wide[RANK_MAX_64 + 8];
  } keys, ranks, copy;
  load_keys(ctx, values, n, &keys);
  memset((char *)&keys + n * (ctx->bytes == 8 ? 8 : 4), 0, 64);
  if (ctx->bytes == 8) rank_uint64_t(keys.wide, n, ranks.wide);
  else rank_uint32_t(keys.narrow, n, ranks.narrow);
  if (indices != NULL) {
    for (ptrdiff_t i = 0; i < n; i++) {
      indices[ctx->bytes == 8 ? (ptrdiff_t)ranks.wide[i] : (ptrdiff_t)ranks.narrow[i]] = (int32_t)i;
    }
    return;
  }
  memcpy(&copy, values, (size_t)(n * ctx->bytes));
  if (ctx->bytes == 8) scatter_uint64_t(copy.wide, ranks.wide, n, (uint64_t *)values);
  else BY_BYTES(ctx->bytes, scatter, (const void *)&copy, ranks.narrow, n, (void *)values);
}

/* The counts of all parts precede the other buffers. */
static size_t counts_size(const sort_workspace *workspace) {
  return (size_t)workspace->parts * sizeof(uint32_t[BUCKETS]);
}

/* Computes the argsort of a run. If keys have more than two digits, a 32-bit key and its index form
 * one number, which is sorted by its upper half. 64-bit keys are sorted by their lower halves first. */
static bool argsort_run(const sort_context *ctx, const char *values, uint32_t *indices,
                        sort_workspace *workspace) {
  const ptrdiff_t n = ctx->size, parts = workspace->parts;
  char *memory = workspace_reserve(workspace, counts_size(workspace) + 24 * (size_t)n);
  if (memory == NULL) return false;
  uint32_t(*counts)[BUCKETS] = (void *)memory;
  uint64_t *a = (void *)(memory + counts_size(workspace)), *b = a + n, *wide = b + n;
  uint32_t *narrow = (void *)wide;
  const bool is_wide = ctx->bytes == 8;
  load_keys(ctx, values, n, wide);
  uint64_t min_key, max_key;
  if (is_wide) {
    bounds_uint64_t(wide, n, &min_key, &max_key);
  } else {
    uint32_t low, high;
    bounds_uint32_t(narrow, n, &low, &high);
    min_key = low;
    max_key = high;
  }
  const int bits = bit_length(max_key - min_key), lower = bits < 32 ? bits : 32;
  if (argsort_two_digits(wide, is_wide, n, min_key, bits, (void *)a, indices, parts, counts)) {
    return true;
  }
  for (ptrdiff_t i = 0; i < n; i++) {
    a[i] = ((is_wide ? wide[i] : narrow[i]) - min_key) << 32 | (uint64_t)i;
  }
  uint64_t *order = radix_sort_uint64_t(a, b, n, 0, 32, 32 + lower, parts, counts);
  if (bits > 32) {
    for (ptrdiff_t i = 0; i < n; i++) {
      const uint32_t index = (uint32_t)order[i];
      order[i] = ((wide[index] - min_key) & ~(uint64_t)UINT32_MAX) | index;
    }
    order = radix_sort_uint64_t(order, order == a ? b : a, n, 0, 32, bits, parts, counts);
  }
  for (ptrdiff_t i = 0; i < n; i++) indices[i] = (uint32_t)order[i];
  return true;
}

static bool sort_by_order(const sort_context *ctx, char *values, sort_workspace *workspace) {
  const ptrdiff_t n = ctx->size;
  const size_t size = (size_t)(n * ctx->bytes);
  uint32_t *order = malloc(sizeof *order * (size_t)n + size);
  if (order == NULL) return false;
  void *copy = order + n;
  const bool done = argsort_run(ctx, values, order, workspace);
  memcpy(copy, values, size);
  if (!done) {}
  else if (ctx->bytes == 8) permute_uint64_t(copy, order, n, (uint64_t *)values);
  else BY_BYTES(ctx->bytes, permute, copy, order, n, (void *)values);
  free(order);
  return done;
}

/* Sorts the keys alone and converts them back to elements. */
static bool sort_by_keys(const sort_context *ctx, char *values, sort_workspace *workspace) {
  const ptrdiff_t n = ctx->size;
  const size_t key = ctx->bytes == 8 ? 8 : 4;
  char *memory = workspace_reserve(workspace, counts_size(workspace) + 2 * key * (size_t)n);
  if (memory == NULL) return false;
  uint32_t(*counts)[BUCKETS] = (void *)memory;
  void *keys = memory + counts_size(workspace);
  load_keys(ctx, values, n, keys);
  if (key == 8) {
    uint64_t *a = keys;
    store_keys(ctx, sort_keys_64(a, a + n, n, workspace->parts, counts), n, values);
  } else {
    uint32_t *a = keys, min_key, max_key;
    bounds_uint32_t(a, n, &min_key, &max_key);
    a = radix_sort_uint32_t(a, a + n, n, min_key, 0, bit_length(max_key - min_key),
                            workspace->parts, counts);
    store_keys(ctx, a, n, values);
  }
  return true;
}

/* Whether the keys of a run are in such a small range that radix sort is faster than 64-bit
 * vectors. */
static bool has_few_digits(const sort_context *ctx, const char *values, void *keys) {
  const ptrdiff_t n = ctx->size;
  if (n <= (ctx->bytes == 8 ? RANK_MAX_64 : RANK_MAX)) return false;
  uint64_t range;
  load_keys(ctx, values, n, keys);
  if (ctx->bytes == 8) {
    uint64_t min_key, max_key;
    bounds_uint64_t(keys, n, &min_key, &max_key);
    range = max_key - min_key;
  } else {
    uint32_t min_key, max_key;
    bounds_uint32_t(keys, n, &min_key, &max_key);
    range = max_key - min_key;
  }
  return bit_length(range) <= 2 * SHORT_DIGIT_BITS;
}

/* Sorts COLUMN_RUNS runs. Returns false if some keys are ambiguous, if keys have few digits, or if
 * memory is exhausted. */
static bool sort_by_columns(const sort_context *ctx, ptrdiff_t run, sort_workspace *workspace) {
  const ptrdiff_t n = ctx->size, wide = ctx->bytes == 8 || ctx->indices != NULL;
  const ptrdiff_t all = COLUMN_RUNS * n * (wide ? 8 : 4);
  char *values = ctx->values + run * n * ctx->bytes;
  if (ctx->indices == NULL && has_ambiguous_keys(ctx, values, COLUMN_RUNS * n)) return false;
  char *memory = workspace_reserve(workspace, (size_t)(all + 8 * n + 128));
  if (memory == NULL) return false;
  char *columns = (char *)(((uintptr_t)memory + 127) & ~(uintptr_t)127);
  void *keys = columns + all;
  if (wide && has_few_digits(ctx, values, keys)) return false;
  if (ctx->indices != NULL) argsort_by_columns(ctx, values, ctx->indices + run * n, columns, keys);
  else if (wide) sort_by_columns_uint64_t(ctx, values, columns, keys);
  else sort_by_columns_uint32_t(ctx, values, columns, keys);
  return true;
}

static bool sort_run(const sort_context *ctx, ptrdiff_t run, sort_workspace *workspace) {
  const ptrdiff_t n = ctx->size;
  char *values = ctx->values + run * n * ctx->bytes;
  int32_t *indices = ctx->indices == NULL ? NULL : ctx->indices + run * n;
  if (QUICKSORTS && indices == NULL) return sort_values(ctx, values, workspace);
  if (n <= (ctx->bytes == 8 ? RANK_MAX_64 : RANK_MAX)) {
    sort_by_ranks(ctx, values, indices);
    return true;
  }
  if (indices != NULL) return argsort_run(ctx, values, (uint32_t *)indices, workspace);
  return has_ambiguous_keys(ctx, values, n) ? sort_by_order(ctx, values, workspace)
                                            : sort_by_keys(ctx, values, workspace);
}

static void sort_runs(void *context, ptrdiff_t index) {
  sort_context *ctx = context;
  const ptrdiff_t first = index * ctx->runs_per_task;
  const ptrdiff_t end = rm_min(first + ctx->runs_per_task, ctx->runs);
  sort_workspace workspace = {.parts = 1};
  for (ptrdiff_t run = first; run < end;) {
    const ptrdiff_t last = ctx->by_columns && run + COLUMN_RUNS <= end ? run + COLUMN_RUNS
                                                                       : run + 1;
    if (last > run + 1 && sort_by_columns(ctx, run, &workspace)) run = last;
    for (; run < last; run++) {
      if (!sort_run(ctx, run, &workspace)) ctx->failed = true;
    }
  }
  free(workspace.memory);
}

int32_t RM_FOR_ISA(sort)(const rm_call *call) {
  const bool is_argsort = call->op == RM_OP_argsort;
  const int dtype = call->dtypes[is_argsort ? 1 : 0];
  if (dtype >= RM_DTYPE_COUNT) return rm_fail(RM_BAD_ARGUMENT, "sort: no dtype %d", dtype);
  const double *attributes = rm_attributes(call);
  void *const indices = is_argsort ? call->buffers[0] : NULL;
  void *const values = call->buffers[is_argsort ? 1 : 0];
  sort_context ctx = {.runs = (ptrdiff_t)attributes[1], .size = (ptrdiff_t)attributes[2]};
  if (ctx.runs <= 0 || ctx.size <= 0 || values == NULL) return RM_OK;
  if ((uint64_t)ctx.size > UINT32_MAX || (indices != NULL && ctx.size > INT32_MAX)) {
    return rm_fail(RM_UNSUPPORTED, "sort: runs of %.0f elements", attributes[2]);
  }
  set_key_order(&ctx, dtype);
  const ptrdiff_t bytes = ctx.bytes;
  ctx.values = (char *)values + (ptrdiff_t)attributes[0] * bytes;
  ctx.indices = indices;
  if (attributes[3] != 0) ctx.flip = ~ctx.flip;
  const bool quicksorts = QUICKSORTS && indices == NULL;
  const ptrdiff_t part = quicksorts ? QUICKSORT_PART : PART_ELEMENTS;
  const ptrdiff_t parts = rm_min(ctx.size / part, MAX_PARTS);
  if (quicksorts) set_signed_keys(&ctx);
  if (parts > 1 && ctx.runs < parts && rm_threads() > 1) {
    sort_workspace workspace = {.parts = parts};
    for (ptrdiff_t run = 0; run < ctx.runs && !ctx.failed; run++) {
      ctx.failed = !sort_run(&ctx, run, &workspace);
    }
    free(workspace.memory);
  } else {
    ctx.runs_per_task = ctx.size >= TASK_ELEMENTS ? 1 : TASK_ELEMENTS / ctx.size;
    const ptrdiff_t longest = COLUMN_MAX / 4 * bytes;
    ctx.by_columns = ctx.size > 1 && (indices == NULL ? !QUICKSORTS : bytes < 8) &&
                     ctx.size <=
                         (bytes == 8 || indices != NULL ? rm_min(longest, COLUMN_MAX_64) : longest);
    if (ctx.by_columns) ctx.runs_per_task = rm_round_up(ctx.runs_per_task, COLUMN_RUNS);
    rm_parallel(rm_ceil_div(ctx.runs, ctx.runs_per_task),
                NANOSECONDS * (double)(ctx.runs * ctx.size), sort_runs, &ctx);
  }
  return ctx.failed ? rm_fail(RM_OUT_OF_MEMORY, "sort: no memory for %.0f elements", attributes[2])
                    : RM_OK;
}
