/*
 * Largest and smallest elements, and where they are.
 */
#include <math.h>
#include <string.h>
#include "ops.def"
#include "reduce_context.h"
#include "reduce_vectors.h"

/*
 * All are maxima of keys, (x & mask) ^ flip: with other bits flipped signed integers become their
 * negative less one, unsigned ones signed, floats their negative; a mask makes magnitudes. Keys are
 * flipped back at the end. The macros by kind say what floats need beyond that: NaN wins. Those of
 * 16 bits become integers of the same order, one for all NaN, so that nothing is converted.
 */
#define KEY_INT(I, bits, infinity) (bits)
#define KEY_FLOAT(I, bits, infinity) (bits)
#define KEY_HALF(I, bits, infinity) \
  (((bits) & 0x7fff) > (infinity) ? (I)((infinity) | (infinity) >> 1) \
                                  : (bits) ^ ((bits) >> 15 & 0x7fff))
#define PREFER_INT(a, x) ((a) > (x) ? (a) : (x))
#define PREFER_FLOAT(a, x) ((a) > (x) || (a) != (a) ? (a) : (x))
#define PREFER_HALF PREFER_INT
#define BETTER_INT(a, x) ((x) > (a))
#define BETTER_FLOAT(a, x) ((x) > (a) || ((x) != (x) && (a) == (a)))
#define BETTER_HALF BETTER_INT
#define IS_NAN_INT(x) 0
#define IS_NAN_FLOAT(x) ((x) != (x))
#define IS_NAN_HALF IS_NAN_INT
#define NAN_KEY_INT(K) 0
#define NAN_KEY_FLOAT(K) ((K)NAN)
#define NAN_KEY_HALF NAN_KEY_INT
/* Indexes take zeros of both signs for equal: the key of -0 is -1, and so is 0's for them. */
#define TIED_INT(x) (x)
#define TIED_FLOAT(x) (x)
#define TIED_HALF(x) ((x) == 0 ? -1 : (x))

#define SUFFIX i8
#define ELEMENT int8_t
#define INTEGER int8_t
#define VECTOR_OF i8x64
#define INTEGERS i8x64
#define COUNT 64
#define KIND INT
#include "reduce_extreme_type.h"
#define SUFFIX i16
#define ELEMENT int16_t
#define INTEGER int16_t
#define VECTOR_OF i16x32
#define INTEGERS i16x32
#define COUNT 32
#define KIND INT
#include "reduce_extreme_type.h"
#define SUFFIX half
#define ELEMENT int16_t
#define INTEGER int16_t
#define VECTOR_OF i16x32
#define INTEGERS i16x32
#define COUNT 32
#define KIND HALF
#include "reduce_extreme_type.h"
#define SUFFIX i32
#define ELEMENT int32_t
#define INTEGER int32_t
#define VECTOR_OF i32x16
#define INTEGERS i32x16
#define COUNT 16
#define KIND INT
#include "reduce_extreme_type.h"
#define SUFFIX i64
#define ELEMENT int64_t
#define INTEGER int64_t
#define VECTOR_OF i64x8
#define INTEGERS i64x8
#define COUNT 8
#define KIND INT
#include "reduce_extreme_type.h"
#define SUFFIX f32
#define ELEMENT float
#define INTEGER int32_t
#define VECTOR_OF f32x16
#define INTEGERS i32x16
#define COUNT 16
#define KIND FLOAT
#include "reduce_extreme_type.h"
#define SUFFIX f64
#define ELEMENT double
#define INTEGER int64_t
#define VECTOR_OF f64x8
#define INTEGERS i64x8
#define COUNT 8
#define KIND FLOAT
#include "reduce_extreme_type.h"

static void store_extreme(const job *j, ptrdiff_t n, char *out, ptrdiff_t stride, const cells *c) {
  union {
    double f[WIDTH];
    int64_t i[WIDTH];
    uint64_t bits[WIDTH];
  } result;
  const bool floats = j->columns == columns_extreme_f32 || j->columns == columns_extreme_f64;
  const bool halves = j->columns == columns_extreme_half;
  const bool from_f32 = j->columns == columns_extreme_f32;
  if (floats) {
    if (from_f32) RM_AT(to_f64)[RM_FLOAT32](n, c->acc, 1, result.f);
    else memcpy(result.f, c->acc, (size_t)n * sizeof(double));
    const uint64_t sign = j->flip != 0 ? (uint64_t)1 << 63 : 0;
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) result.bits[i] ^= sign;
  } else {
    switch (j->slot) {
      case 1: RM_AT(to_i64)[RM_INT8](n, c->acc, 1, result.i); break;
      case 2: RM_AT(to_i64)[RM_INT16](n, c->acc, 1, result.i); break;
      case 4: RM_AT(to_i64)[RM_INT32](n, c->acc, 1, result.i); break;
      default: memcpy(result.i, c->acc, (size_t)n * sizeof(int64_t)); break;
    }
    const int64_t order = halves ? 0x7fff : 0;
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) result.i[i] ^= result.i[i] >> 63 & order;
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) result.bits[i] ^= j->flip;
  }
  RM_AT(put)(halves ? RM_INT16 : j->out, n, &result, out, stride);
}

static void store_where(const job *j, ptrdiff_t n, char *out, ptrdiff_t stride, const cells *c) {
  RM_AT(put)(j->out, n, c->where, out, stride);
}

static bool is_signed(int dtype) { return dtype >= RM_INT8 && dtype <= RM_INT64; }

/* A value of the given bytes, in every place of a word. */
static uint64_t repeated(uint64_t bits, int bytes) {
  for (; bytes < 8; bytes *= 2) bits |= bits << (8 * bytes);
  return bits;
}

bool RM_AT(choose_extreme)(job *j, int a, bool smallest, bool magnitudes, bool index) {
  bool floats = rm_is_float(a) || magnitudes;
  int bytes = (int)rm_bytes(a);
  j->direct = true;
  j->load = RM_AT(copier)(a);
  const bool halves = rm_is_float(a) && bytes == 2 && (index || j->out == a);
  if (floats && !halves) bytes = RM_AT(choose_float_loader)(j, a) ? 8 : 4;
  const uint64_t ones = ~(uint64_t)0, sign = (uint64_t)1 << (8 * bytes - 1);
  j->mask = magnitudes ? ~sign : ones;
  j->flip = floats || (is_signed(a) != smallest) ? 0 : sign;
  if (smallest) j->flip = floats ? sign : is_signed(a) ? ones : sign - 1;
  j->start = floats ? (bytes == 4 ? 0xff800000u : (uint64_t)0xfff << 52) : sign;
  /* The key of -Infinity, all bits of Infinity flipped. */
  if (halves) j->start = a == RM_FLOAT16 ? 0x83ff : 0x807f;
  j->start = repeated(j->start, bytes);
  j->slot = bytes;
  j->store = index ? store_where : store_extreme;
  if (index) j->step = PIECE;
#define CASE(K) \
  do { \
    j->run = index ? index_##K : extreme_##K; \
    j->columns = index ? columns_index_##K : columns_extreme_##K; \
    j->combine = index ? combine_index_##K : combine_extreme_##K; \
  } while (0)
  if (halves) CASE(half);
  else if (floats && bytes == 4) CASE(f32);
  else if (floats) CASE(f64);
  else if (bytes == 1) CASE(i8);
  else if (bytes == 2) CASE(i16);
  else if (bytes == 4) CASE(i32);
  else CASE(i64);
#undef CASE
  return true;
}
