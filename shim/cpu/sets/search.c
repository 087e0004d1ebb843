/*
 * Where values belong among sorted ones.
 */
#include <string.h>
#include "sets.h"

#define T int32_t
#define IS_NAN(x) false
#define NAME(function) i32_##function
#include "search_type.h"
#define T int64_t
#define IS_NAN(x) false
#define NAME(function) i64_##function
#include "search_type.h"
#define T uint64_t
#define IS_NAN(x) false
#define NAME(function) u64_##function
#include "search_type.h"
#define T float
#define IS_NAN(x) ((x) != (x))
#define NAME(function) f32_##function
#include "search_type.h"
#define T double
#define IS_NAN(x) ((x) != (x))
#define NAME(function) f64_##function
#include "search_type.h"

enum { TASK_VALUES = 8192 };

typedef struct {
  int dtype;
  const char *sorted, *values;
  ptrdiff_t m, n;
  bool right;
  int32_t *out;
} search_context;

static void search_task(void *context, ptrdiff_t index) {
  const search_context *ctx = context;
  const ptrdiff_t width = rm_itemsize(ctx->dtype);
  const ptrdiff_t end = rm_min(ctx->n, (index + 1) * TASK_VALUES);
  for (ptrdiff_t i = index * TASK_VALUES; i < end; i += SET_BLOCK) {
    const ptrdiff_t count = rm_min(SET_BLOCK, end - i);
    const char *values = ctx->values + i * width;
    int32_t *out = ctx->out + i;
    switch (ctx->dtype) {
      case RM_INT32: i32_search(ctx->sorted, ctx->m, values, count, ctx->right, out); break;
      case RM_INT64: i64_search(ctx->sorted, ctx->m, values, count, ctx->right, out); break;
      case RM_UINT64: u64_search(ctx->sorted, ctx->m, values, count, ctx->right, out); break;
      case RM_FLOAT32: f32_search(ctx->sorted, ctx->m, values, count, ctx->right, out); break;
      default: f64_search(ctx->sorted, ctx->m, values, count, ctx->right, out);
    }
  }
}

int32_t RM_FOR_ISA(search_indices)(const rm_call *call) {
  const int dtype = call->dtypes[1];
  const double *attributes = rm_attributes(call);
  const bool known = dtype == RM_INT32 || dtype == RM_INT64 || dtype == RM_UINT64 ||
                     dtype == RM_FLOAT32 || dtype == RM_FLOAT64;
  if (!known || dtype != call->dtypes[2] || call->dtypes[0] != RM_INT32 ||
      attributes[1] > INT32_MAX) {
    return rm_fail(RM_BAD_ARGUMENT, "searchIndices: dtypes %d and %d", dtype, call->dtypes[2]);
  }
  search_context ctx = {
      .dtype = dtype,
      .sorted = rm_element(call, 1, attributes[0]),
      .m = (ptrdiff_t)attributes[1],
      .values = rm_element(call, 2, attributes[2]),
      .n = (ptrdiff_t)attributes[3],
      .right = attributes[4] != 0,
      .out = call->buffers[0],
  };
  int steps = 1;
  while (((ptrdiff_t)1 << steps) <= ctx.m) steps++;
  rm_parallel(rm_ceil_div(ctx.n, TASK_VALUES), (double)ctx.n * steps, search_task, &ctx);
  return RM_OK;
}
