/*
 * Convolutions of rows by a short kernel, as sums of products.
 */
#include "fft_plan.h"
#include "isa.h"

/* Sums of products may be fused, as those of matrix products are. */
#pragma clang fp contract(fast)

#if defined(__AVX__)
#define FFT_VECTOR 32
#else
#define FFT_VECTOR 16
#endif

#define FFT_UNROLL _Pragma("clang loop unroll(full)")
#define FFT_ROLLED _Pragma("clang loop unroll(disable) vectorize(disable)")

/* Results of a task. */
enum { CONVOLVE_BLOCK = 4096 };

typedef struct {
  /* The lengths of rows of a, of the kernel v, and of rows of results, which begin at result `start` of
   * all n + m - 1. */
  ptrdiff_t rows, n, m, start, length;
  const void *a, *v;
  void *out;
  bool failed;
} convolve_call;

#define T float
#define NAME(name) RM_SUFFIXED(name, f32)
#define LANES (FFT_VECTOR / 4)
#include "convolve_type.h"
#undef T
#undef NAME
#define T int32_t
#define NAME(name) RM_SUFFIXED(name, i32)
#include "convolve_type.h"
#undef T
#undef NAME
#undef LANES

#define T double
#define NAME(name) RM_SUFFIXED(name, f64)
#define LANES (FFT_VECTOR / 8)
#include "convolve_type.h"
#undef T
#undef NAME
#define T int64_t
#define NAME(name) RM_SUFFIXED(name, i64)
#include "convolve_type.h"
#undef T
#undef NAME
#undef LANES

int32_t RM_FOR_ISA(convolve)(const rm_call *call) {
  const double *numbers = call->numbers;
  const int dtype = call->dtypes[0];
  const ptrdiff_t bytes = rm_itemsize(dtype);
  void (*task)(void *, ptrdiff_t);
  switch (dtype) {
    case RM_FLOAT32: task = convolve_f32; break;
    case RM_FLOAT64: task = convolve_f64; break;
    case RM_INT32: task = convolve_i32; break;
    case RM_INT64: task = convolve_i64; break;
    default: return rm_fail(RM_UNSUPPORTED, "convolve: dtype %d", dtype);
  }
  if (call->dtypes[1] != dtype || call->dtypes[2] != dtype) {
    return rm_fail(RM_BAD_ARGUMENT, "convolve: dtypes %d, %d and %d", dtype, call->dtypes[1],
                   call->dtypes[2]);
  }
  convolve_call ctx = {
      .rows = (ptrdiff_t)numbers[0],
      .n = (ptrdiff_t)numbers[1],
      .m = (ptrdiff_t)numbers[2],
      .start = (ptrdiff_t)numbers[3],
      .length = (ptrdiff_t)numbers[4],
      .a = (const char *)call->buffers[1] + (ptrdiff_t)numbers[5] * bytes,
      .v = (const char *)call->buffers[2] + (ptrdiff_t)numbers[6] * bytes,
      .out = call->buffers[0],
  };
  if (ctx.rows < 1 || ctx.length < 1 || ctx.m < 1) return RM_OK;
  /* Estimated at a twelfth of a nanosecond for a product. */
  const double work = (double)ctx.rows * (double)ctx.length * (double)ctx.m / 12;
  rm_parallel(ctx.rows * rm_ceil_div(ctx.length, CONVOLVE_BLOCK), work, task, &ctx);
  return ctx.failed ? rm_fail(RM_OUT_OF_MEMORY, "convolve: no memory for a kernel of %.0f", numbers[2])
                    : RM_OK;
}
