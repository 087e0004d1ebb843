/*
 * The k largest or smallest elements of contiguous runs, and their indices.
 *
 * A heap keeps the best elements so far, the worst of them at its root. Most others are worse, which
 * vectors of keys find out.
 */
#include <stdlib.h>
#include <string.h>
#include "sort_context.h"

/* Keys that are made at once, those that are compared at once, and heaps on the stack. */
enum { KEYS = 1024, COMPARED = 64, SMALL_HEAP = 64 };

typedef struct {
  uint64_t key;
  ptrdiff_t index;
} entry;

typedef struct {
  sort_context order;
  ptrdiff_t k;
  bool largest, sorted;
  char *out;
} topk_context;

/* Equal elements keep the order of their indices. */
static bool comes_after(entry a, entry b) {
  return a.key > b.key || (a.key == b.key && a.index > b.index);
}

/* Puts `moved` where it belongs in the heap of n entries below the hole at `at`. */
__attribute__((noinline)) static void sift_down(entry *heap, ptrdiff_t n, ptrdiff_t at,
                                                entry moved) {
  for (ptrdiff_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && comes_after(heap[child + 1], heap[child])) child++;
    if (!comes_after(heap[child], moved)) break;
    heap[at] = heap[child];
  }
  heap[at] = moved;
}

__attribute__((noinline)) static void make_heap(entry *heap, ptrdiff_t n) {
  for (ptrdiff_t i = n / 2 - 1; i >= 0; i--) sift_down(heap, n, i, heap[i]);
}

static void sort_heap(entry *heap, ptrdiff_t n) {
  for (ptrdiff_t end = n - 1; end > 0; end--) {
    const entry last = heap[end];
    heap[end] = heap[0];
    sift_down(heap, end, 0, last);
  }
}

/* The keys of n elements as 32 or 64 bits, the best element's the smallest. NaN is the largest. */
__attribute__((noinline)) static void load_ordered(const topk_context *ctx, const char *values,
                                                   ptrdiff_t n, void *keys) {
  load_keys(&ctx->order, values, n, keys);
  if (!ctx->largest) return;
  if (ctx->order.bytes == 8) {
    uint64_t *wide = keys;
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) wide[i] = ~wide[i];
  } else {
    uint32_t *narrow = keys;
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) narrow[i] = ~narrow[i];
  }
}

static bool has_below_32(const uint32_t *keys, ptrdiff_t n, uint32_t limit) {
  uint32_t found = 0;
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) found |= keys[i] < limit;
  return found != 0;
}

static bool has_below_64(const uint64_t *keys, ptrdiff_t n, uint64_t limit) {
  uint64_t found = 0;
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) found |= keys[i] < limit;
  return found != 0;
}

/* Puts those of n elements, the first of them the one at `first`, into the full heap that are better
 * than its worst one. */
static void offer(const topk_context *ctx, const void *keys, ptrdiff_t n, ptrdiff_t first,
                  entry *heap) {
  const bool is_wide = ctx->order.bytes == 8;
  const uint32_t *narrow = keys;
  const uint64_t *wide = keys;
  for (ptrdiff_t from = 0; from < n; from += COMPARED) {
    const ptrdiff_t end = rm_min(from + COMPARED, n);
    const bool found = is_wide ? has_below_64(wide + from, end - from, heap->key)
                               : has_below_32(narrow + from, end - from, (uint32_t)heap->key);
    if (!found) continue;
    for (ptrdiff_t i = from; i < end; i++) {
      const entry one = {is_wide ? wide[i] : narrow[i], first + i};
      if (one.key < heap->key) sift_down(heap, ctx->k, 0, one);
    }
  }
}

/* Sorts the k best elements of a run into the heap. */
static void select_best(const topk_context *ctx, const char *values, entry *heap) {
  const ptrdiff_t n = ctx->order.size, bytes = ctx->order.bytes, k = ctx->k;
  uint64_t keys[KEYS];
  for (ptrdiff_t at = 0, count; at < n; at += count) {
    count = rm_min(KEYS, (at < k ? k : n) - at);
    load_ordered(ctx, values + at * bytes, count, keys);
    if (at >= k) {
      offer(ctx, keys, count, at, heap);
      continue;
    }
    RM_SCALAR for (ptrdiff_t i = 0; i < count; i++) {
      heap[at + i] = (entry){bytes == 8 ? keys[i] : ((const uint32_t *)keys)[i], at + i};
    }
    if (at + count == k) make_heap(heap, k);
  }
  if (!ctx->sorted) {
    RM_SCALAR for (ptrdiff_t i = 0; i < k; i++) heap[i].key = 0;
    make_heap(heap, k);
  }
  sort_heap(heap, k);
}

static void select_runs(void *context, ptrdiff_t index) {
  topk_context *ctx = context;
  const sort_context *order = &ctx->order;
  const ptrdiff_t first = index * order->runs_per_task, k = ctx->k, bytes = order->bytes;
  const ptrdiff_t end = rm_min(first + order->runs_per_task, order->runs);
  entry small[SMALL_HEAP];
  entry *heap = k <= SMALL_HEAP ? small : malloc((size_t)k * sizeof *heap);
  if (heap == NULL) {
    ctx->order.failed = true;
    return;
  }
  for (ptrdiff_t run = first; run < end; run++) {
    const char *values = order->values + run * order->size * bytes;
    char *out = ctx->out + run * k * bytes;
    select_best(ctx, values, heap);
    for (ptrdiff_t i = 0; i < k; i++) {
      memcpy(out + i * bytes, values + heap[i].index * bytes, (size_t)bytes);
      order->indices[run * k + i] = (int32_t)heap[i].index;
    }
  }
  if (heap != small) free(heap);
}

int32_t RM_FOR_ISA(topk)(const rm_call *call) {
  const int dtype = call->dtypes[1];
  const double *attributes = rm_attributes(call);
  if (dtype >= RM_DTYPE_COUNT || dtype != call->dtypes[0] || call->dtypes[2] != RM_INT32) {
    return rm_fail(RM_BAD_ARGUMENT, "topk: dtypes %d, %d and %d", dtype, call->dtypes[0],
                   call->dtypes[2]);
  }
  topk_context ctx = {
      .order = {.runs = (ptrdiff_t)attributes[1], .size = (ptrdiff_t)attributes[2]},
      .k = (ptrdiff_t)attributes[3],
      .largest = attributes[4] != 0,
      .sorted = attributes[5] != 0,
      .out = call->buffers[0],
  };
  sort_context *order = &ctx.order;
  if (order->runs <= 0 || ctx.k <= 0 || ctx.k > order->size || call->buffers[1] == NULL) {
    return RM_OK;
  }
  if (order->size > INT32_MAX) {
    return rm_fail(RM_UNSUPPORTED, "topk: runs of %.0f elements", attributes[2]);
  }
  set_key_order(order, dtype);
  order->values = (char *)call->buffers[1] + (ptrdiff_t)attributes[0] * order->bytes;
  order->indices = call->buffers[2];
  order->runs_per_task = order->size >= TASK_ELEMENTS ? 1 : TASK_ELEMENTS / order->size;
  rm_parallel(rm_ceil_div(order->runs, order->runs_per_task),
              (double)order->runs * (double)order->size, select_runs, &ctx);
  return order->failed ? rm_fail(RM_OUT_OF_MEMORY, "topk: no memory for %.0f elements",
                                 attributes[3])
                       : RM_OK;
}
