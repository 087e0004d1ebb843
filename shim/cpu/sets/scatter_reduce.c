/*
 * Sums, products and extremes of values in the elements at indices.
 */
#include <math.h>
#include "float16.h"
#include "index.h"

enum { SCATTER_SUM, SCATTER_PROD, SCATTER_MAX, SCATTER_MIN };

#define SAME(x) (x)
#define NEVER(x) false
#define IS_NUMBER_NAN(x) ((x) != (x))

#define T int8_t
#define C int8_t
#define LOAD SAME
#define STORE SAME
#define LOWEST INT8_MIN
#define HIGHEST INT8_MAX
#define IS_NAN NEVER
#define NAME(function) i8_##function
#include "scatter_reduce_type.h"
#define T int16_t
#define C int16_t
#define LOAD SAME
#define STORE SAME
#define LOWEST INT16_MIN
#define HIGHEST INT16_MAX
#define IS_NAN NEVER
#define NAME(function) i16_##function
#include "scatter_reduce_type.h"
#define T int32_t
#define C int32_t
#define LOAD SAME
#define STORE SAME
#define LOWEST INT32_MIN
#define HIGHEST INT32_MAX
#define IS_NAN NEVER
#define NAME(function) i32_##function
#include "scatter_reduce_type.h"
#define T int64_t
#define C int64_t
#define LOAD SAME
#define STORE SAME
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#define IS_NAN NEVER
#define NAME(function) i64_##function
#include "scatter_reduce_type.h"
#define T uint8_t
#define C uint8_t
#define LOAD SAME
#define STORE SAME
#define LOWEST 0
#define HIGHEST UINT8_MAX
#define IS_NAN NEVER
#define NAME(function) u8_##function
#include "scatter_reduce_type.h"
#define T uint16_t
#define C uint16_t
#define LOAD SAME
#define STORE SAME
#define LOWEST 0
#define HIGHEST UINT16_MAX
#define IS_NAN NEVER
#define NAME(function) u16_##function
#include "scatter_reduce_type.h"
#define T uint32_t
#define C uint32_t
#define LOAD SAME
#define STORE SAME
#define LOWEST 0
#define HIGHEST UINT32_MAX
#define IS_NAN NEVER
#define NAME(function) u32_##function
#include "scatter_reduce_type.h"
#define T uint64_t
#define C uint64_t
#define LOAD SAME
#define STORE SAME
#define LOWEST 0
#define HIGHEST UINT64_MAX
#define IS_NAN NEVER
#define NAME(function) u64_##function
#include "scatter_reduce_type.h"
#define T uint16_t
#define C float
#define LOAD rm_f16_to_f32
#define STORE rm_f32_to_f16
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#define IS_NAN IS_NUMBER_NAN
#define NAME(function) f16_##function
#include "scatter_reduce_type.h"
#define T uint16_t
#define C float
#define LOAD rm_bf16_to_f32
#define STORE rm_f32_to_bf16
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#define IS_NAN IS_NUMBER_NAN
#define NAME(function) bf16_##function
#include "scatter_reduce_type.h"
#define T float
#define C float
#define LOAD SAME
#define STORE SAME
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#define IS_NAN IS_NUMBER_NAN
#define NAME(function) f32_##function
#include "scatter_reduce_type.h"
#define T double
#define C double
#define LOAD SAME
#define STORE SAME
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#define IS_NAN IS_NUMBER_NAN
#define NAME(function) f64_##function
#include "scatter_reduce_type.h"

typedef void fold_function(void *target, const void *source, const int64_t *at, ptrdiff_t n, int reduce);
typedef void reset_function(void *target, const int64_t *at, ptrdiff_t n, int reduce);

static fold_function *fold_of(int dtype) {
  switch (dtype) {
    case RM_INT8: return i8_fold;
    case RM_INT16: return i16_fold;
    case RM_INT32: return i32_fold;
    case RM_INT64: return i64_fold;
    case RM_UINT8: return u8_fold;
    case RM_UINT16: return u16_fold;
    case RM_UINT32: return u32_fold;
    case RM_UINT64: return u64_fold;
    case RM_FLOAT16: return f16_fold;
    case RM_BFLOAT16: return bf16_fold;
    case RM_FLOAT32: return f32_fold;
    case RM_FLOAT64: return f64_fold;
    default: return NULL;
  }
}

static reset_function *reset_of(int dtype) {
  switch (dtype) {
    case RM_INT8: return i8_reset;
    case RM_INT16: return i16_reset;
    case RM_INT32: return i32_reset;
    case RM_INT64: return i64_reset;
    case RM_UINT8: return u8_reset;
    case RM_UINT16: return u16_reset;
    case RM_UINT32: return u32_reset;
    case RM_UINT64: return u64_reset;
    case RM_FLOAT16: return f16_reset;
    case RM_BFLOAT16: return bf16_reset;
    case RM_FLOAT32: return f32_reset;
    default: return f64_reset;
  }
}

int32_t rm_scatter_reduce(const rm_call *call) {
  const int dtype = call->dtypes[0], index_dtype = call->dtypes[2];
  double *numbers = rm_attributes(call);
  const ptrdiff_t n = (ptrdiff_t)numbers[4], width = rm_itemsize(dtype);
  const ptrdiff_t index_width = rm_itemsize(index_dtype);
  const int64_t size = (int64_t)numbers[1];
  const int reduce = (int)numbers[5];
  fold_function *const fold = fold_of(dtype);
  if (fold == NULL || dtype != call->dtypes[1] || index_dtype >= RM_FLOAT16) {
    return rm_fail(RM_BAD_ARGUMENT, "scatterReduce: dtypes %d and %d", dtype, index_dtype);
  }
  char *const x = (char *)call->buffers[0] + (ptrdiff_t)numbers[0] * width;
  const char *const values = (const char *)call->buffers[1] + (ptrdiff_t)numbers[2] * width;
  const char *const indices = (const char *)call->buffers[2] + (ptrdiff_t)numbers[3] * index_width;
  const bool resets = numbers[6] != 0;
  numbers[0] = -1;
  int64_t at[BLOCK];
  /* Nothing is written if an index is out of range. */
  for (int pass = 0; pass < 3; pass++) {
    if (pass == 1 && !resets) continue;
    for (ptrdiff_t i = 0; i < n; i += BLOCK) {
      const ptrdiff_t count = rm_min(BLOCK, n - i);
      const ptrdiff_t good = rm_isa_kernels()->normalize_indices(
          index_dtype, indices + i * index_width, index_width, count, size, at);
      if (good < count) {
        numbers[0] = (double)(i + good);
        return RM_OK;
      }
      if (pass == 1) reset_of(dtype)(x, at, count, reduce);
      else if (pass == 2) fold(x, values + i * width, at, count, reduce);
    }
  }
  return RM_OK;
}
