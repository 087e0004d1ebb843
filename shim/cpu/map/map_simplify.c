/*
 * Elementwise ops whose second operand is one number, for which there are cheaper kernels: powers,
 * divisions of integers, clip.
 */
#include <string.h>
#include "cast_kernels.h"
#include "intmath.h"
#include "map_context.h"
#include "ops.def"
#include "vecmath.h"

/* x to the power of 1/2, which differs from the square root of -0 and of -Infinity. */
#define HALF_POWER(name, T, root) \
  KERNEL_NAMED(name) { \
    T *o = out; \
    const T *p = a; \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) { \
      const T x = p[i]; \
      o[i] = x == (T)-INFINITY ? (T)INFINITY : root(x) + 0; \
    } \
  }
HALF_POWER(half_power_f32, float, rm_sqrt_f32)
HALF_POWER(half_power_f64, double, rm_sqrt_f64)

/* Limits that are no NaN. */
#define LIMIT(T, type) \
  KERNEL_NAMED(limit_##type) { \
    T *o = out; \
    const T *p = a; \
    const T low = (T)attributes[0], high = (T)attributes[1]; \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) { \
      const T least = p[i] <= low ? low : p[i]; \
      o[i] = least >= high ? high : least; \
    } \
  }
LIMIT(float, f32)
LIMIT(double, f64)

/* Integers of a block. */
enum { INTEGERS = 512 };

/* floor(x / y + 1 / |2 y|) is floor(x / y), but at least 1 / |2 y| away from the next integer. 1 / y,
 * the product and the sum are rounded, to be off by 3 * 2^-53 |x / y| at most, which is less for
 * |x| <= 2^50; in float32 by 3 * 2^-24 |x / y|, for |x| < 2^16. */
#define QUOTIENTS(type, T, real, floor_of, bits_of) \
  KERNEL_NAMED(quotients_##type) { \
    T *o = out; \
    const T *p = a; \
    const by_integer *y = (const void *)attributes; \
    const real reciprocal = (real)y->reciprocal, half = (real)y->half; \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) { \
      o[i] = (T)bits_of(floor_of((real)p[i] * reciprocal + half)); \
    } \
  }
QUOTIENTS(i8, int8_t, float, __builtin_floorf, rm_low_bits_f32)
QUOTIENTS(u8, uint8_t, float, __builtin_floorf, rm_low_bits_f32)
QUOTIENTS(i16, int16_t, float, __builtin_floorf, rm_low_bits_f32)
QUOTIENTS(u16, uint16_t, float, __builtin_floorf, rm_low_bits_f32)
QUOTIENTS(i32, int32_t, double, __builtin_floor, rm_low_bits)
QUOTIENTS(u32, uint32_t, double, __builtin_floor, rm_low_bits)

/* By more than 2, in words of 16 bits: Granlund and Montgomery, "Division by Invariant Integers using
 * Multiplication", figure 4.1. The last shift is a product, as processors shift by what is not known
 * before in longer words. */
KERNEL_NAMED(short_quotients) {
  uint8_t *o = out;
  const uint8_t *p = a;
  const by_integer *y = (const void *)attributes;
  const uint16_t magic = y->magic, last = y->last;
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
    const uint8_t x = p[i], t = (uint8_t)((uint16_t)(x * magic) >> 8);
    const uint8_t sum = (uint8_t)(t + ((uint8_t)(x - t) >> 1));
    o[i] = (uint8_t)((uint16_t)(sum * last) >> 8);
  }
}

/* Integers of 51 bits are a float64's mantissa, on top of this one's. */
#define MANTISSA 0x1.8p52

KERNEL_NAMED(quotients_64) {
  const by_integer *y = (const void *)attributes;
  const double reciprocal = y->reciprocal, half = y->half;
  const uint64_t base = rm_bits_of_f64(MANTISSA);
  for (ptrdiff_t from = 0; from < n; from += KEYED) {
    const ptrdiff_t m = rm_least(n - from, KEYED);
    const int64_t *p = (const int64_t *)a + from;
    int64_t *o = (int64_t *)out + from;
    uint64_t bits = 0;
    for (ptrdiff_t i = 0; i < m; i++) bits |= (uint64_t)p[i] ^ ((uint64_t)(p[i] >> 63) & y->sign);
    if (bits >> 50 != 0) {
      uint64_t divisor[KEYED];
      for (int i = 0; i < KEYED; i++) divisor[i] = y->number;
      y->divide(m, o, p, divisor, NULL, NULL);
      continue;
    }
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < m; i++) {
      const double x = rm_double_of((uint64_t)p[i] + base) - MANTISSA;
      const double floored = __builtin_floor(x * reciprocal + half);
      o[i] = (int64_t)(rm_bits_of_f64(floored + MANTISSA) - base);
    }
  }
}

static const kernel quotients[RM_DTYPE_COUNT] = {
    [RM_INT8] = quotients_i8,   [RM_INT16] = quotients_i16,   [RM_INT32] = quotients_i32,
    [RM_INT64] = quotients_64,  [RM_UINT8] = quotients_u8,    [RM_UINT16] = quotients_u16,
    [RM_UINT32] = quotients_u32, [RM_UINT64] = quotients_64,
};

/* Powers by squares and products, all elements of a block at a time. */
KERNEL_NAMED(integer_powers) {
  const by_integer *y = (const void *)attributes;
  const ptrdiff_t bytes = y->bytes;
  for (ptrdiff_t from = 0; from < n; from += INTEGERS) {
    const ptrdiff_t m = rm_least(n - from, INTEGERS);
    char *o = (char *)out + from * bytes;
    uint64_t x[INTEGERS];
    memcpy(x, (const char *)a + from * bytes, (size_t)(m * bytes));
    const void *power = x;
    for (int bit = 62 - __builtin_clzll(y->number); bit >= 0; bit--) {
      y->multiply(m, o, power, power, NULL, NULL);
      if ((y->number >> bit & 1) != 0) y->multiply(m, o, o, x, NULL, NULL);
      power = o;
    }
  }
}

/* The kernel for x to the power of y, where one is cheaper: less code to run, and no more roundings.
 */
static kernel power_by(double y, int work) {
  if (y == 2) return RM_AT(map_kernel)(RM_OP_square, work);
  if (y == -1) return RM_AT(map_kernel)(RM_OP_reciprocal, work);
  return y != 0.5 ? NULL : work == RM_FLOAT32 ? half_power_f32 : half_power_f64;
}

/* The same for integers, and for x / y rounded down. */
static kernel integer_by(job *it, int opcode, int64_t y, int work) {
  const bool is_negative = y < 0 && work < RM_UINT8;
  const double divisor = work < RM_UINT8 ? (double)y : (double)(uint64_t)y;
  it->integer = (by_integer){.reciprocal = 1 / divisor,
                             .half = 0.5 / __builtin_fabs(divisor),
                             .number = (uint64_t)y,
                             .sign = work < RM_UINT8 ? UINT64_MAX : 0,
                             .bytes = rm_bytes(work),
                             .multiply = RM_AT(map_kernel)(RM_OP_mul, work),
                             .divide = RM_AT(map_kernel)(RM_OP_floorDivide, work)};
  it->attributes = (const void *)&it->integer;
  if (opcode == RM_OP_floorDivide) {
    if (work != RM_UINT8 || y <= 2) return y == 0 ? NULL : quotients[work];
    const int bits = 64 - __builtin_clzll((uint64_t)y - 1);
    it->integer.magic = (uint16_t)((((1 << bits) - y) << 8) / y + 1);
    it->integer.last = (uint16_t)(1 << (9 - bits));
    return short_quotients;
  }
  if (y == 2) return RM_AT(map_kernel)(RM_OP_square, work);
  return is_negative || y < 2 ? NULL : integer_powers;
}

/* The number that operand k is, or NaN. */
static double number_of(const job *it, int k) {
  for (int axis = 0; axis < it->walk.rank; axis++) if (it->walk.step[axis][k] != 0) return NAN;
  double y;
  RM_AT(casts)[it->stored[k]][RM_FLOAT64](1, &y, it->walk.start[k]);
  return y;
}

simplified RM_AT(map_simplify)(job *it, int opcode, int work) {
  const bool integer = work >= RM_INT8 && work <= RM_UINT64;
  const bool floats = work >= RM_FLOAT32;
  kernel run = NULL;
  if (floats && opcode == RM_OP_pow && rm_is_float(it->stored[2])) {
    run = power_by(number_of(it, 2), work);
  } else if (floats && opcode == RM_OP_clip && it->half == RM_NONE &&
             rm_is_float(it->stored[2]) && rm_is_float(it->stored[3])) {
    const double low = number_of(it, 2), high = number_of(it, 3);
    if (low == low && high == high) run = work == RM_FLOAT32 ? limit_f32 : limit_f64;
    it->limits[0] = low, it->limits[1] = high;
    it->attributes = it->limits;
  } else if (integer && (opcode == RM_OP_pow || opcode == RM_OP_floorDivide)) {
    const double y = number_of(it, 2);
    int64_t exact;
    RM_AT(casts)[it->stored[2]][work](1, &exact, it->walk.start[2]);
    RM_AT(casts)[work][RM_INT64](1, &exact, &exact);
    if (y == y) run = integer_by(it, opcode, exact, work);
  }
  if (run == NULL) return NOT_SIMPLIFIED;
  it->run = run;
  it->whole = false;
  it->walk.operands = 2;
  return run == integer_powers ? STILL_HEAVY : CHEAP;
}
