/*
 * Partitions of contiguous runs around the elements of given ranks, or their indices. They are
 * stable: elements less than one of a rank, equal to it, or greater keep their order.
 */
#include <stdlib.h>
#include <string.h>
#include "selection.h"

typedef struct {
  sort_context order;
  /* The ranks in ascending order. */
  const double *kth;
  ptrdiff_t count;
  char *out;
} partition_context;

/* A run in the making: the limits between classes of elements, and where the next element of each
 * class goes. Class 2i + 1 has the elements equal to limit i, the classes around it those between
 * limits. */
typedef struct {
  int64_t *limits;
  ptrdiff_t *next;
  ptrdiff_t count;
} classes;

#define ELEMENT uint8_t
#define KEY int32_t
#include "partition_type.h"
#define ELEMENT uint16_t
#define KEY int32_t
#include "partition_type.h"
#define ELEMENT uint32_t
#define KEY int32_t
#include "partition_type.h"
#define ELEMENT uint64_t
#define KEY int64_t
#include "partition_type.h"

/* The limits of a run and the first place of each class. `keys` is a copy of the keys. */
static void find_classes(const partition_context *ctx, void *keys, ptrdiff_t *ranks,
                         classes *to) {
  const sort_context *order = &ctx->order;
  const ptrdiff_t n = order->size;
  for (ptrdiff_t i = 0; i < ctx->count; i++) ranks[i] = (ptrdiff_t)ctx->kth[i];
  select_ranks(order, keys, n, ranks, ctx->count);
  to->count = 0;
  to->next[0] = 0;
  for (ptrdiff_t i = 0; i < ctx->count; i++) {
    const int64_t key = key_at(order, keys, ranks[i]);
    if (to->count > 0 && to->limits[to->count - 1] == key) continue;
    ptrdiff_t less, equal;
    count_keys(order, keys, n, key, &less, &equal);
    to->limits[to->count++] = key;
    to->next[2 * to->count - 1] = less;
    to->next[2 * to->count] = less + equal;
  }
}

static void partition_runs(void *context, ptrdiff_t index) {
  partition_context *ctx = context;
  const sort_context *order = &ctx->order;
  const ptrdiff_t first = index * order->runs_per_task, n = order->size, bytes = order->bytes;
  const ptrdiff_t end = rm_min(first + order->runs_per_task, order->runs);
  char *memory = malloc((size_t)(n * key_bytes(order) + 8 + 8 * (4 * ctx->count + 2)));
  if (memory == NULL) {
    ctx->order.failed = true;
    return;
  }
  int64_t *limits = (int64_t *)memory;
  classes split = {.limits = limits, .next = (ptrdiff_t *)(limits + ctx->count)};
  ptrdiff_t *ranks = split.next + 2 * ctx->count + 1;
  void *keys = ranks + ctx->count;
  for (ptrdiff_t run = first; run < end; run++) {
    const char *values = order->values + run * n * bytes;
    load_keys(order, values, n, keys);
    find_classes(ctx, keys, ranks, &split);
    int32_t *indices = order->indices == NULL ? NULL : order->indices + run * n;
    char *out = ctx->out == NULL ? NULL : ctx->out + run * n * bytes;
    if (bytes == 1) split_uint8_t(order, values, &split, out, indices);
    else if (bytes == 2) split_uint16_t(order, values, &split, out, indices);
    else if (bytes == 4) split_uint32_t(order, values, &split, out, indices);
    else split_uint64_t(order, values, &split, out, indices);
  }
  free(memory);
}

int32_t RM_FOR_ISA(partition)(const rm_call *call) {
  const bool finds_indices = call->op == RM_OP_argpartition;
  const int dtype = call->dtypes[1], out = call->dtypes[0];
  if (dtype >= RM_DTYPE_COUNT || out != (finds_indices ? (int)RM_INT32 : dtype)) {
    return rm_fail(RM_BAD_ARGUMENT, "partition: dtypes %d and %d", out, dtype);
  }
  partition_context ctx = {.kth = call->numbers + 4, .count = (ptrdiff_t)call->numbers[3]};
  sort_context *order = &ctx.order;
  set_selection(order, call, dtype);
  if (order->runs <= 0 || order->size <= 0 || call->buffers[1] == NULL) return RM_OK;
  if (order->size > INT32_MAX) {
    return rm_fail(RM_UNSUPPORTED, "partition: runs of %.0f elements", call->numbers[2]);
  }
  order->values = (char *)call->buffers[1] + (ptrdiff_t)call->numbers[0] * order->bytes;
  if (finds_indices) order->indices = call->buffers[0];
  else ctx.out = call->buffers[0];
  run_selection(order, 3, partition_runs, &ctx);
  return order->failed ? rm_fail(RM_OUT_OF_MEMORY, "partition: no memory for %.0f elements",
                                 call->numbers[2])
                       : RM_OK;
}
