/*
 * Discrete Fourier transforms along an axis (fft_plan.h).
 */
#include "fft_plan.h"
#include "isa.h"

/* Sums of products may be fused: results are within an error bound, not equal to other backends'. */
#pragma clang fp contract(fast)

#if defined(__AVX__)
#define FFT_VECTOR 32
#else
#define FFT_VECTOR 16
#endif

/* For what is used in several places, which makes a third of the code. */
#define FFT_OUTLINED __attribute__((noinline))
#define FFT_UNROLL _Pragma("clang loop unroll(full)")
#define FFT_ROLLED _Pragma("clang loop unroll(disable) vectorize(disable)")

enum {
  /* Numbers in the workspaces on the stack. */
  FFT_SMALL = 1024,
  /* The longest transform in one lane whose workspace is on the stack. */
  FFT_LONE = 32,
  /* From this number of elements on, several threads compute. */
  FFT_PARALLEL = 65536,
  /* The longest rows that are transposed to be transformed side by side. */
  FFT_LONGEST_STACKED = 2048,
  FFT_SHORT = 256,
  /* Columns that are copied at once. */
  FFT_COPIED = 8
};

typedef struct {
  fft_kind kind;
  bool inverse;
  /* Operands are [outer, length, inner], of so many numbers for an element. */
  ptrdiff_t n, outer, inner, in_length, out_length, given;
  int in_parts, out_parts;
  double scale;
  const fft_plan *plan;
  const void *in;
  void *out;
  /* Rows. */
  ptrdiff_t per_task;
  /* Whether a vector has numbers of several transforms. */
  bool is_side_by_side;
  bool failed;
} fft_call;

#define T float
#define NAME(name) RM_SUFFIXED(name, f32)
#define LANES (FFT_VECTOR / 4)
#include "fft_type.h"
#undef T
#undef NAME
#undef LANES

#define T double
#define NAME(name) RM_SUFFIXED(name, f64)
#define LANES (FFT_VECTOR / 8)
#include "fft_type.h"
#undef T
#undef NAME
#undef LANES

int32_t RM_FOR_ISA(fft)(const rm_call *call) {
  const double *numbers = call->numbers;
  const int bytes = (int)numbers[9];
  fft_call ctx = {
      .kind = (fft_kind)numbers[0],
      .inverse = numbers[1] != 0,
      .scale = numbers[2],
      .outer = (ptrdiff_t)numbers[3],
      .n = (ptrdiff_t)numbers[4],
      .inner = (ptrdiff_t)numbers[5],
      .in_length = (ptrdiff_t)numbers[6],
      .out_length = (ptrdiff_t)numbers[7],
  };
  ctx.in_parts = ctx.kind == FFT_FROM_REAL ? 1 : 2;
  ctx.out_parts = ctx.kind == FFT_TO_REAL ? 1 : 2;
  if ((bytes != 4 && bytes != 8) || ctx.n < 1 || ctx.in_length < 1) {
    return rm_fail(RM_BAD_ARGUMENT, "fft: %.0f numbers of %d bytes", numbers[4], bytes);
  }
  if (ctx.outer < 1 || ctx.inner < 1) return RM_OK;
  ctx.in = (const char *)call->buffers[1] + (ptrdiff_t)numbers[8] * ctx.in_parts * bytes;
  ctx.out = call->buffers[0];
  ctx.given = rm_min(ctx.in_length, ctx.kind == FFT_TO_REAL ? ctx.n / 2 + 1 : ctx.n);
  const int width = FFT_VECTOR / bytes;
  if (bytes == 4 ? is_side_by_side_f32(&ctx) : is_side_by_side_f64(&ctx)) {
    ctx.plan = rm_fft_plan(ctx.n, bytes, width, FFT_COMPLEX);
    ctx.is_side_by_side = ctx.plan != NULL && ctx.plan->form != FFT_CHIRP;
  }
  if (!ctx.is_side_by_side) {
    if (ctx.plan != NULL) rm_fft_give_plan(ctx.plan);
    ctx.plan = rm_fft_plan(ctx.n, bytes, width, ctx.n % 2 == 0 ? ctx.kind : FFT_COMPLEX);
  }
  if (ctx.plan == NULL) ctx.failed = true;
  else {
    if (bytes == 4) many_f32(&ctx);
    else many_f64(&ctx);
    rm_fft_give_plan(ctx.plan);
  }
  return ctx.failed ? rm_fail(RM_OUT_OF_MEMORY, "fft: no memory for a length of %.0f", numbers[4])
                    : RM_OK;
}
