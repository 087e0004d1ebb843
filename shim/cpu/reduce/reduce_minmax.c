/*
 * The largest and smallest elements, and their indices.
 */
#include <math.h>
#include <string.h>
#include "reduce_context.h"
#include "reduce_vectors.h"

/*
 * Every kernel computes a maximum of keys, (x & mask) ^ flip. Flipping bits negates signed integers
 * (less one), makes unsigned integers signed, and negates floats. The mask makes absolute values.
 * The result is flipped back at the end.
 *
 * The macros per kind handle NaN, which wins. 16-bit floats become integers of the same order, with
 * a single NaN, so that they need no conversion.
 */
#define KEY_INT(I, bits, infinity) (bits)
#define KEY_FLOAT(I, bits, infinity) (bits)
#define KEY_HALF(I, bits, infinity) \
  (((bits) & 0x7fff) > (infinity) ? (I)((infinity) | (infinity) >> 1) \
                                  : (bits) ^ ((bits) >> 15 & 0x7fff))
#define MAX_OF_INT(a, x) ((a) > (x) ? (a) : (x))
#define MAX_OF_FLOAT(a, x) ((a) > (x) || (a) != (a) ? (a) : (x))
#define MAX_OF_HALF MAX_OF_INT
#define IS_GREATER_INT(a, x) ((x) > (a))
#define IS_GREATER_FLOAT(a, x) ((x) > (a) || ((x) != (x) && (a) == (a)))
#define IS_GREATER_HALF IS_GREATER_INT
#define IS_NAN_INT(x) 0
#define IS_NAN_FLOAT(x) ((x) != (x))
#define IS_NAN_HALF IS_NAN_INT
#define NAN_KEY_INT(K) 0
#define NAN_KEY_FLOAT(K) ((K)NAN)
#define NAN_KEY_HALF NAN_KEY_INT
/* Index reductions treat zeros of both signs as equal: the key of both is -1. */
#define EQUAL_ZEROS_INT(x) (x)
#define EQUAL_ZEROS_FLOAT(x) (x)
#define EQUAL_ZEROS_HALF(x) ((x) == 0 ? -1 : (x))

#define SUFFIX i8
#define ELEMENT int8_t
#define INTEGER int8_t
#define VECTOR_OF i8x64
#define INTEGERS i8x64
#define COUNT 64
#define KIND INT
#include "reduce_minmax_type.h"
#define SUFFIX i16
#define ELEMENT int16_t
#define INTEGER int16_t
#define VECTOR_OF i16x32
#define INTEGERS i16x32
#define COUNT 32
#define KIND INT
#include "reduce_minmax_type.h"
#define SUFFIX half
#define ELEMENT int16_t
#define INTEGER int16_t
#define VECTOR_OF i16x32
#define INTEGERS i16x32
#define COUNT 32
#define KIND HALF
#include "reduce_minmax_type.h"
#define SUFFIX i32
#define ELEMENT int32_t
#define INTEGER int32_t
#define VECTOR_OF i32x16
#define INTEGERS i32x16
#define COUNT 16
#define KIND INT
#include "reduce_minmax_type.h"
#define SUFFIX i64
#define ELEMENT int64_t
#define INTEGER int64_t
#define VECTOR_OF i64x8
#define INTEGERS i64x8
#define COUNT 8
#define KIND INT
#include "reduce_minmax_type.h"
#define SUFFIX f32
#define ELEMENT float
#define INTEGER int32_t
#define VECTOR_OF f32x16
#define INTEGERS i32x16
#define COUNT 16
#define KIND FLOAT
#include "reduce_minmax_type.h"
#define SUFFIX f64
#define ELEMENT double
#define INTEGER int64_t
#define VECTOR_OF f64x8
#define INTEGERS i64x8
#define COUNT 8
#define KIND FLOAT
#include "reduce_minmax_type.h"

#define SUFFIX f32
#define ELEMENT float
#define INTEGER int32_t
#define VECTOR_OF f32x16
#define INTEGERS i32x16
#define COUNT 16
#include "reduce_nan_type.h"
#define SUFFIX f64
#define ELEMENT double
#define INTEGER int64_t
#define VECTOR_OF f64x8
#define INTEGERS i64x8
#define COUNT 8
#include "reduce_nan_type.h"

static void store_minmax(const reduce_context *ctx, ptrdiff_t n, char *out, ptrdiff_t stride,
                         const accumulators *c) {
  union {
    double f[WIDTH];
    int64_t i[WIDTH];
    uint64_t bits[WIDTH];
  } result;
  const bool floats = ctx->columns == columns_minmax_f32 || ctx->columns == columns_minmax_f64;
  const bool half_width = ctx->columns == columns_minmax_half;
  const bool from_f32 = ctx->columns == columns_minmax_f32;
  if (floats) {
    if (from_f32) RM_FOR_ISA(to_f64)[RM_FLOAT32](n, c->acc, 1, result.f);
    else memcpy(result.f, c->acc, (size_t)n * sizeof(double));
    const uint64_t sign = ctx->flip != 0 ? (uint64_t)1 << 63 : 0;
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) result.bits[i] ^= sign;
  } else {
    switch (ctx->accumulator_bytes) {
      case 1: RM_FOR_ISA(to_i64)[RM_INT8](n, c->acc, 1, result.i); break;
      case 2: RM_FOR_ISA(to_i64)[RM_INT16](n, c->acc, 1, result.i); break;
      case 4: RM_FOR_ISA(to_i64)[RM_INT32](n, c->acc, 1, result.i); break;
      default: memcpy(result.i, c->acc, (size_t)n * sizeof(int64_t)); break;
    }
    const int64_t order = half_width ? 0x7fff : 0;
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) result.i[i] ^= result.i[i] >> 63 & order;
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) result.bits[i] ^= ctx->flip;
  }
  RM_FOR_ISA(store_elements)(half_width ? RM_INT16 : ctx->out, n, &result, out, stride);
}

static void store_index(const reduce_context *ctx, ptrdiff_t n, char *out, ptrdiff_t stride,
                        const accumulators *c) {
  RM_FOR_ISA(store_elements)(ctx->out, n, c->index, out, stride);
}

static bool is_signed(int dtype) { return dtype >= RM_INT8 && dtype <= RM_INT64; }

/* Repeats a value of the given size in all parts of a word. */
static uint64_t repeated(uint64_t bits, int bytes) {
  for (; bytes < 8; bytes *= 2) bits |= bits << (8 * bytes);
  return bits;
}

bool RM_FOR_ISA(choose_minmax)(reduce_context *ctx, int a, bool smallest, bool magnitudes,
                               bool arg) {
  bool floats = rm_is_float(a) || magnitudes;
  int bytes = (int)rm_itemsize(a);
  ctx->direct = true;
  ctx->load = RM_FOR_ISA(copy_loader)(a);
  const bool half_width = rm_is_float(a) && bytes == 2 && (arg || ctx->out == a);
  if (floats && !half_width) bytes = RM_FOR_ISA(choose_float_loader)(ctx, a) ? 8 : 4;
  const uint64_t ones = ~(uint64_t)0, sign = (uint64_t)1 << (8 * bytes - 1);
  ctx->mask = magnitudes ? ~sign : ones;
  ctx->flip = floats || (is_signed(a) != smallest) ? 0 : sign;
  if (smallest) ctx->flip = floats ? sign : is_signed(a) ? ones : sign - 1;
  ctx->identity = floats ? (bytes == 4 ? 0xff800000u : (uint64_t)0xfff << 52) : sign;
  /* The key of -Infinity: Infinity with all bits flipped. */
  if (half_width) ctx->identity = a == RM_FLOAT16 ? 0x83ff : 0x807f;
  ctx->identity = repeated(ctx->identity, bytes);
  ctx->accumulator_bytes = bytes;
  ctx->store = arg ? store_index : store_minmax;
  if (arg) ctx->step = INDEX_BLOCK;
#define CASE(K) \
  do { \
    ctx->run = arg ? arg_minmax_##K : minmax_##K; \
    ctx->columns = arg ? columns_arg_minmax_##K : columns_minmax_##K; \
    ctx->combine = arg ? combine_arg_minmax_##K : combine_minmax_##K; \
  } while (0)
  if (half_width) CASE(half);
  else if (floats && bytes == 4) CASE(f32);
  else if (floats) CASE(f64);
  else if (bytes == 1) CASE(i8);
  else if (bytes == 2) CASE(i16);
  else if (bytes == 4) CASE(i32);
  else CASE(i64);
#undef CASE
  return true;
}

bool RM_FOR_ISA(choose_nan_minmax)(reduce_context *ctx, int a, bool smallest) {
  if (ctx->out != a || !rm_is_float(a)) return false;
  const bool wide = RM_FOR_ISA(choose_float_loader)(ctx, a);
  ctx->flip = !smallest ? 0 : wide ? (uint64_t)1 << 63 : 0x80000000u;
  ctx->identity = wide ? (uint64_t)0x7ff8 << 48 : repeated(0x7fc00000u, 4);
  ctx->accumulator_bytes = wide ? 8 : 4;
  ctx->run = wide ? max_number_f64 : max_number_f32;
  ctx->columns = wide ? columns_max_number_f64 : columns_max_number_f32;
  ctx->combine = wide ? combine_max_number_f64 : combine_max_number_f32;
  ctx->store = wide ? store_max_number_f64 : store_max_number_f32;
  return true;
}
