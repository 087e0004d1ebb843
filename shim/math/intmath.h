/*
 * The integer primitives of the op table's expressions, one element at a time, for each dtype.
 *
 * Results wrap. Division by 0 yields 0, as do shifts by negative counts or by at least the number
 * of bits. Quotients are rounded down, and remainders have the sign of the divisor, as in Python. A
 * negative exponent yields the exact power, truncated, and 0 for a base of 0.
 *
 * Loops over these functions are vectorized, except for pow and 64-bit division. Also part of
 * device code, which includes device.h first.
 */
#ifndef ROWMAJOR_INTMATH_H
#define ROWMAJOR_INTMATH_H

#if !defined(RM_DEVICE)
#include <stdint.h>
#include <string.h>
#endif

/* The low 32 bits of an integer with magnitude below 2^51: a conversion that wraps. */
static inline uint32_t rm_low_bits(double x) {
  const double shifted = x + 0x1.8p52;
  uint64_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  return (uint32_t)bits;
}

static inline uint32_t rm_low_bits_f32(float x) {
  const float shifted = x + 0x1.8p23f;
  uint32_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  return bits;
}

/* Processors divide vectors of floats, but integers one by one. The quotient of n-bit integers,
 * rounded in a float, never reaches the next integer if the float has n + 1 bits: 16 in float32, 32
 * in float64. */
#define RM_DIVIDE_NARROW(T, type, real, floor_of, bits_of) \
  static inline type rm_ifloordiv_##T(type x, type y) { \
    const real quotient = floor_of((real)x / (real)y); \
    return (type)(y == 0 ? 0 : bits_of(quotient)); \
  } \
  static inline type rm_imod_##T(type x, type y) { \
    const uint32_t floored = (uint32_t)rm_ifloordiv_##T(x, y) * (uint32_t)y; \
    return (type)(y == 0 ? 0 : (uint32_t)x - floored); \
  }

RM_DIVIDE_NARROW(i8, int8_t, float, __builtin_floorf, rm_low_bits_f32)
RM_DIVIDE_NARROW(u8, uint8_t, float, __builtin_floorf, rm_low_bits_f32)
RM_DIVIDE_NARROW(i16, int16_t, float, __builtin_floorf, rm_low_bits_f32)
RM_DIVIDE_NARROW(u16, uint16_t, float, __builtin_floorf, rm_low_bits_f32)
RM_DIVIDE_NARROW(i32, int32_t, double, __builtin_floor, rm_low_bits)
RM_DIVIDE_NARROW(u32, uint32_t, double, __builtin_floor, rm_low_bits)

/* The remainder with the sign of x. */
#define RM_REMAINDER(T, type, wide) \
  static inline type rm_irem_##T(type x, type y) { \
    const wide m = (wide)rm_imod_##T(x, y); \
    return (type)(((m != 0) & ((m < 0) != (x < 0))) ? m - (wide)y : m); \
  }

static inline uint64_t rm_ifloordiv_u64(uint64_t x, uint64_t y) { return y == 0 ? 0 : x / y; }
static inline uint64_t rm_imod_u64(uint64_t x, uint64_t y) { return y == 0 ? 0 : x % y; }

/* The smallest x / -1 traps on some processors. */
static inline int64_t rm_ifloordiv_i64(int64_t x, int64_t y) {
  if (y == 0) return 0;
  if (y == -1) return (int64_t)(0 - (uint64_t)x);
  const int64_t quotient = x / y;
  return quotient - ((x < 0) != (y < 0) && quotient * y != x);
}
static inline int64_t rm_imod_i64(int64_t x, int64_t y) {
  if (y == 0 || y == -1) return 0;
  const int64_t rest = x % y;
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

RM_REMAINDER(i8, int8_t, int32_t)
RM_REMAINDER(u8, uint8_t, int32_t)
RM_REMAINDER(i16, int16_t, int32_t)
RM_REMAINDER(u16, uint16_t, int32_t)
RM_REMAINDER(i32, int32_t, int64_t)
RM_REMAINDER(u32, uint32_t, int64_t)
RM_REMAINDER(i64, int64_t, int64_t)
static inline uint64_t rm_irem_u64(uint64_t x, uint64_t y) { return rm_imod_u64(x, y); }

#define SUFFIX i8
#define TYPE int8_t
#define UNSIGNED uint8_t
#define WIDE uint32_t
#include "intmath_type.h"
#define SUFFIX u8
#define TYPE uint8_t
#define UNSIGNED uint8_t
#define WIDE uint32_t
#include "intmath_type.h"
#define SUFFIX i16
#define TYPE int16_t
#define UNSIGNED uint16_t
#define WIDE uint32_t
#include "intmath_type.h"
#define SUFFIX u16
#define TYPE uint16_t
#define UNSIGNED uint16_t
#define WIDE uint32_t
#include "intmath_type.h"
#define SUFFIX i32
#define TYPE int32_t
#define UNSIGNED uint32_t
#define WIDE uint32_t
#include "intmath_type.h"
#define SUFFIX u32
#define TYPE uint32_t
#define UNSIGNED uint32_t
#define WIDE uint32_t
#include "intmath_type.h"
#define SUFFIX i64
#define TYPE int64_t
#define UNSIGNED uint64_t
#define WIDE uint64_t
#include "intmath_type.h"
#define SUFFIX u64
#define TYPE uint64_t
#define UNSIGNED uint64_t
#define WIDE uint64_t
#include "intmath_type.h"

#endif
