/*
 * The basis of the float primitives: fused multiply-add, polynomials, and the exact primitives.
 */
#ifndef ROWMAJOR_FLOAT_CORE_H
#define ROWMAJOR_FLOAT_CORE_H

#if !defined(RM_DEVICE)
#include <math.h>
#include <stdint.h>
#include <string.h>
#endif
#include "float16.h"

#if defined(__FMA__) || defined(__aarch64__) || defined(RM_DEVICE)
#define RM_HAS_FMA 1
#define RM_FMA_f32(a, b, c) __builtin_fmaf(a, b, c)
#define RM_FMA_f64(a, b, c) __builtin_fma(a, b, c)
#else
#define RM_HAS_FMA 0
#define RM_FMA_f32(a, b, c) ((a) * (b) + (c))
#define RM_FMA_f64(a, b, c) ((a) * (b) + (c))
#endif

static inline float rm_fma_f32(float a, float b, float c) { return RM_FMA_f32(a, b, c); }
static inline double rm_fma_f64(double a, double b, double c) { return RM_FMA_f64(a, b, c); }

/* Polynomials in x, the lowest coefficient first. T is f32 or f64. */
#define RM_POLY_2(T, x, a, b) rm_fma_##T(b, x, a)
#define RM_POLY_3(T, x, a, ...) rm_fma_##T(RM_POLY_2(T, x, __VA_ARGS__), x, a)
#define RM_POLY_4(T, x, a, ...) rm_fma_##T(RM_POLY_3(T, x, __VA_ARGS__), x, a)
#define RM_POLY_5(T, x, a, ...) rm_fma_##T(RM_POLY_4(T, x, __VA_ARGS__), x, a)
#define RM_POLY_6(T, x, a, ...) rm_fma_##T(RM_POLY_5(T, x, __VA_ARGS__), x, a)
#define RM_POLY_7(T, x, a, ...) rm_fma_##T(RM_POLY_6(T, x, __VA_ARGS__), x, a)
#define RM_POLY_8(T, x, a, ...) rm_fma_##T(RM_POLY_7(T, x, __VA_ARGS__), x, a)
#define RM_POLY_9(T, x, a, ...) rm_fma_##T(RM_POLY_8(T, x, __VA_ARGS__), x, a)
#define RM_POLY_10(T, x, a, ...) rm_fma_##T(RM_POLY_9(T, x, __VA_ARGS__), x, a)
#define RM_POLY_11(T, x, a, ...) rm_fma_##T(RM_POLY_10(T, x, __VA_ARGS__), x, a)
#define RM_POLY_12(T, x, a, ...) rm_fma_##T(RM_POLY_11(T, x, __VA_ARGS__), x, a)
#define RM_POLY_13(T, x, a, ...) rm_fma_##T(RM_POLY_12(T, x, __VA_ARGS__), x, a)
#define RM_POLY_14(T, x, a, ...) rm_fma_##T(RM_POLY_13(T, x, __VA_ARGS__), x, a)


#define TYPE float
#define SUFFIX f32
#define BUILTIN(name) __builtin_##name##f
#define SIGN_BIT 31
#include "float_core_type.h"
#define TYPE double
#define SUFFIX f64
#define BUILTIN(name) __builtin_##name
#define SIGN_BIT 63
#include "float_core_type.h"

/* Steps through bit patterns: adding 1 moves away from 0. nan is the bit pattern of NaN. */
#define RM_NEXTAFTER(T, uint, infinity, nan, top) \
  static inline uint rm_nextafter_bits_##T(uint x, uint y) { \
    const uint sign = (uint)1 << top; \
    const uint ax = (uint)(x & (uint)(sign - 1)), ay = (uint)(y & (uint)(sign - 1)); \
    const uint outward = (uint)(x + 1), inward = (uint)(x - 1); \
    uint result = ((ax > ay) | ((x ^ y) >> top != 0)) ? inward : outward; \
    result = ax == 0 ? (uint)((y & sign) | 1) : result; \
    result = ((x == y) | ((ax | ay) == 0)) ? y : result; \
    return ((ax > infinity) | (ay > infinity)) ? (uint)(nan) : result; \
  }

RM_NEXTAFTER(f16, uint16_t, 0x7c00, 0x7e00, 15)
RM_NEXTAFTER(bf16, uint16_t, 0x7f80, 0x7fc0, 15)
RM_NEXTAFTER(f32, uint32_t, 0x7f800000u, 0x7fc00000u, 31)
RM_NEXTAFTER(f64, uint64_t, 0x7ff0000000000000u, 0x7ff8000000000000u, 63)

static inline uint16_t rm_nextafter_f16(uint16_t x, uint16_t y) {
  return rm_nextafter_bits_f16(x, y);
}
static inline uint16_t rm_nextafter_bf16(uint16_t x, uint16_t y) {
  return rm_nextafter_bits_bf16(x, y);
}
static inline float rm_nextafter_f32(float x, float y) {
  return rm_from_bits_f32(rm_nextafter_bits_f32(rm_bits_f32(x), rm_bits_f32(y)));
}
static inline double rm_nextafter_f64(double x, double y) {
  return rm_from_bits_f64(rm_nextafter_bits_f64(rm_bits_f64(x), rm_bits_f64(y)));
}

#endif
