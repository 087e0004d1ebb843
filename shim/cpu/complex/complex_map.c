/*
 * Elementwise ops on complex numbers: floats in pairs.
 *
 * Blocks of numbers are taken apart into real and imaginary parts, whose loops are vectorized. Loops
 * cover common operands; blocks with others are computed one number after the other.
 */
#include "complex.h"
#include "complex_math.h"
#include "internal.h"

/* The numbers of a task, and the estimated nanoseconds of one. */
enum { TASK = 8192 };
static const double CHEAP_NS = 0.5, EXPENSIVE_NS = 8;

typedef struct {
  rm_iterator iterator;
  ptrdiff_t size;
  int op, operands;
  void (*run)(int op, ptrdiff_t n, char *const *at, const ptrdiff_t *strides, bool binary);
} complex_context;

/* Whether the results are bools, or floats. */
static bool gives_bool(int op) { return op >= RM_COMPLEX_EQUAL; }
static bool gives_float(int op) { return op == RM_COMPLEX_ABS || op == RM_COMPLEX_ANGLE; }

/* The bytes of a vector, and orders of its elements, which are parts of numbers: each first or second
 * part twice, the parts of each number swapped, and elements of two vectors in turns. */
#if defined(__AVX__)
#define VECTOR_BYTES 32
#define F32_LANES 8
#define F64_LANES 4
#else
#define VECTOR_BYTES 16
#define F32_LANES 4
#define F64_LANES 2
#endif
#define ORDER_OF_(name, lanes) name##_##lanes
#define ORDER_OF(name, lanes) ORDER_OF_(name, lanes)
#define FIRSTS_2 0, 0
#define SECONDS_2 1, 1
#define SWAPPED_2 1, 0
#define IN_TURNS_2 0, 3
#define FIRSTS_4 0, 0, 2, 2
#define SECONDS_4 1, 1, 3, 3
#define SWAPPED_4 1, 0, 3, 2
#define IN_TURNS_4 0, 5, 2, 7
#define FIRSTS_8 0, 0, 2, 2, 4, 4, 6, 6
#define SECONDS_8 1, 1, 3, 3, 5, 5, 7, 7
#define SWAPPED_8 1, 0, 3, 2, 5, 4, 7, 6
#define IN_TURNS_8 0, 9, 2, 11, 4, 13, 6, 15

#define TYPE float
#define SUFFIX f32
#define LANES F32_LANES
#define BUILTIN(name) __builtin_##name##f
/* Beyond them, exponentials may overflow; squares are normal between them; the limit of angles. */
#define EXP_BOUND 80.0f
#define SQUARE_LEAST 1e-15f
#define SQUARE_MOST 1e15f
#define ANGLE_BOUND 0x1p20f
#include "complex_type.h"

#define TYPE double
#define SUFFIX f64
#define LANES F64_LANES
#define BUILTIN(name) __builtin_##name
#define EXP_BOUND 700.0
#define SQUARE_LEAST 1e-140
#define SQUARE_MOST 1e140
#define ANGLE_BOUND 0x1p20
#include "complex_type.h"

static void run_task(void *context, ptrdiff_t task) {
  const complex_context *ctx = context;
  const rm_iterator *iterator = &ctx->iterator;
  const int last = iterator->rank - 1;
  const ptrdiff_t n = iterator->shape[last];
  const ptrdiff_t end = rm_min(ctx->size, (task + 1) * TASK);
  for (ptrdiff_t at = task * TASK; at < end;) {
    const ptrdiff_t row = at / n, column = at - row * n, count = rm_min(n - column, end - at);
    ptrdiff_t index[RM_MAX_RANK];
    char *places[RM_MAX_OPERANDS];
    for (int k = 0; k < ctx->operands; k++) {
      places[k] = iterator->data[k] + column * iterator->strides[last][k];
    }
    if (last > 0) rm_iterator_seek(iterator, last, row, index, places);
    ctx->run(ctx->op, count, places, iterator->strides[last], ctx->operands == 3);
    at += count;
  }
}

int32_t RM_FOR_ISA(complex_map)(const rm_call *call) {
  const double *attributes = rm_attributes(call);
  const int operands = (int)call->numbers[RM_PLAN_OPERANDS], dtype = call->dtypes[1];
  if (operands < 2 || operands > 3) return rm_fail(RM_BAD_ARGUMENT, "complex of %d operands", operands);
  if (dtype != RM_FLOAT32 && dtype != RM_FLOAT64) return RM_UNSUPPORTED;
  /* Not cleared: that would take as long as a few hundred numbers. */
  complex_context ctx;
  ctx.op = (int)attributes[0];
  ctx.operands = operands;
  ctx.run = dtype == RM_FLOAT32 ? run_f32 : run_f64;
  const int out = gives_bool(ctx.op) ? RM_BOOL : dtype;
  if (call->dtypes[0] != out || (operands == 3 && call->dtypes[2] != dtype)) return RM_UNSUPPORTED;
  const int32_t status = rm_read_call(&ctx.iterator, call, operands);
  if (status != RM_OK) return status;
  if (ctx.iterator.empty) return RM_OK;
  ctx.size = 1;
  for (int axis = 0; axis < ctx.iterator.rank; axis++) ctx.size *= ctx.iterator.shape[axis];
  const bool cheap = ctx.op <= RM_COMPLEX_RECIPROCAL || gives_bool(ctx.op);
  const double work = (double)ctx.size * (cheap ? CHEAP_NS : EXPENSIVE_NS);
  rm_parallel(rm_ceil_div(ctx.size, TASK), work, run_task, &ctx);
  return RM_OK;
}
