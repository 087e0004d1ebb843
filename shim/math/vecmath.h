/*
 * The float primitives of the op table's expressions, one element at a time, for float32 and
 * float64; what each means is said beside its namesake in src/backend/js/primitives.ts.
 *
 * Without branches, tables or calls, so that loops over them become vector code; the exceptions are
 * ffloordiv and fmod.
 *
 * rm_sin, rm_cos, rm_tan and rm_log_normal, rm_log2_normal, rm_log10_normal are for most operands
 * only, those whose rm_turn_key or rm_log_key is not rare: a loop over a block asks that first. For
 * what is rare there are the C library's sin, cos and tan of double, good enough for every float
 * too, and rm_log and its kin, which give the very same for the others.
 *
 * Knows nothing of ops, loops and dtypes. Needs -ffp-contract=off. Also part of the device code, which
 * includes cuda/device.h first.
 *
 * docs/architecture.md has the largest errors of float32. Those found in float64, in units in the
 * last place, against 80-bit and 128-bit libm at all levels, 1e5 points and more over all bit
 * patterns and over the ranges where results vary:
 *
 *   log1p 1.2  asinh 1.7  acosh 1.9  atanh 1.6  hypot 1.2  pow 1.2  sin 1.4  cos 1.5  tan 2.6
 *   exp 1.0  expm1 1.5  exp2 1.2  log 0.8  log2 1.8  log10 1.8  asin 1.7  acos 1.2  atan 1.2
 *   atan2 1.5  sinh 2.2  cosh 1.4  tanh 2.3  erf 1.3  sigmoid 1.6  silu 1.8  gelu 4.8
 *   logaddexp 1.3, of the larger operand
 */
#ifndef ROWMAJOR_VECMATH_H
#define ROWMAJOR_VECMATH_H

#if !defined(RM_DEVICE)
#include <math.h>
#include <stdint.h>
#include <string.h>
#endif
#include "half.h"

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

/* Polynomials in x, the lowest coefficient first; T is f32 or f64. */
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

static inline uint32_t rm_bits_of_f32(float x) { return rm_bits_of(x); }
static inline float rm_pattern_f32(uint32_t bits) { return rm_float_of(bits); }
static inline double rm_pattern_f64(uint64_t bits) { return rm_double_of(bits); }

/* ---- exact ones ------------------------------------------------------------------------------ */

#define RM_EXACT(T, type, c, uint, top) \
  static inline type rm_fabs_##T(type x) { return __builtin_fabs##c(x); } \
  static inline type rm_sqrt_##T(type x) { return __builtin_sqrt##c(x); } \
  static inline type rm_floor_##T(type x) { return __builtin_floor##c(x); } \
  static inline type rm_ceil_##T(type x) { return __builtin_ceil##c(x); } \
  static inline type rm_trunc_##T(type x) { return __builtin_trunc##c(x); } \
  static inline type rm_rint_##T(type x) { return __builtin_rint##c(x); } \
  static inline type rm_copysign_##T(type x, type y) { \
    /* The sign of NaN counts as positive. */ \
    return __builtin_copysign##c(x, y != y ? (type)0 : y); \
  } \
  static inline int rm_isnan_##T(type x) { return x != x; } \
  static inline int rm_isinf_##T(type x) { return __builtin_fabs##c(x) == (type)INFINITY; } \
  static inline int rm_isfinite_##T(type x) { return x - x == 0; } \
  static inline int rm_signbit_##T(type x) { \
    return (int)(rm_bits_of_##T(x) >> top) & (x == x); \
  } \
  static inline type rm_sign_##T(type x) { \
    const type unit = x > 0 ? (type)1 : (type)-1; \
    const type signed_unit = x == 0 ? (type)0 : unit; \
    return x != x ? x : signed_unit; \
  } \
  static inline type rm_maximum_##T(type x, type y) { return ((x > y) | (x != x)) ? x : y; } \
  static inline type rm_minimum_##T(type x, type y) { return ((x < y) | (x != x)) ? x : y; }

RM_EXACT(f32, float, f, uint32_t, 31)
RM_EXACT(f64, double, , uint64_t, 63)

/* By bits: one more is one step away from 0. nan is the first pattern of NaN, less 1. */
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
  return rm_float_of(rm_nextafter_bits_f32(rm_bits_of(x), rm_bits_of(y)));
}
static inline double rm_nextafter_f64(double x, double y) {
  return rm_double_of(rm_nextafter_bits_f64(rm_bits_of_f64(x), rm_bits_of_f64(y)));
}

/* ---- // and % -------------------------------------------------------------------------------- */

/* A call that stays one: the compiler would compute both sides of a branch around fmod. */
static inline __attribute__((noinline)) double rm_fmod_of_libm(double x, double y) {
  return fmod(x, y);
}

#if RM_HAS_FMA
static inline int rm_is_short_f64(double x, double y) {
  return (__builtin_fabs(x / y) < 0x1p51) & (y - y == 0);
}

/* C's fmod, which is exact. The fused product is too, and takes a tenth of the time. */
static inline double rm_rest_short_f64(double x, double y) {
  const double m = rm_fma_f64(-__builtin_trunc(x / y), y, x);
  /* The quotient may have been rounded up to the next integer. */
  return ((m != 0) & ((m < 0) != (x < 0))) ? m + __builtin_copysign(y, x) : m;
}
static inline double rm_fmod_short_f64(double x, double y) {
  const double m = rm_rest_short_f64(x, y);
  const double floored = (y < 0) != (m < 0) ? m + y : m;
  return m == 0 ? __builtin_copysign(0, y) : floored;
}
static inline double rm_ffloordiv_short_f64(double x, double y) {
  const double m = rm_rest_short_f64(x, y);
  const double quotient = __builtin_rint((x - m) / y);
  const double floored = ((m != 0) & ((y < 0) != (m < 0))) ? quotient - 1 : quotient;
  return floored == 0 ? __builtin_copysign(0, x / y) : floored;
}
#endif

static inline double rm_rest_f64(double x, double y) {
#if RM_HAS_FMA
  if (__builtin_expect(rm_is_short_f64(x, y), 1)) return rm_rest_short_f64(x, y);
#endif
  return rm_fmod_of_libm(x, y);
}

static inline double rm_fmod_f64(double x, double y) {
  const double m = rm_rest_f64(x, y);
  if (m == 0) return rm_copysign_f64(0, y);
  return (y < 0) != (m < 0) ? m + y : m;
}

static inline double rm_ffloordiv_f64(double x, double y) {
  if (y == 0) return x / y;
  const double m = rm_rest_f64(x, y);
  double q = (x - m) / y;
  if (m != 0 && (y < 0) != (m < 0)) q -= 1;
  if (q == 0) return rm_copysign_f64(0, x / y);
  /* (x - m) / y is an integer but for rounding. */
  const double low = __builtin_floor(q);
  return q - low > 0.5 ? low + 1 : low;
}

/* In double, x / y is rounded, but floor(x / y) is right, for operands of 24 bits and quotients
 * below 2^28, which are called short. */
static inline int rm_is_short_f32(float x, float y) {
  return (__builtin_fabs((double)x / (double)y) < 0x1p28) & (y - y == 0);
}
static inline float rm_ffloordiv_short_f32(float x, float y) {
  return (float)__builtin_floor((double)x / (double)y);
}
static inline float rm_fmod_short_f32(float x, float y) {
  const double rest = (double)x - __builtin_floor((double)x / (double)y) * (double)y;
  return rest == 0 ? __builtin_copysignf(0, y) : (float)rest;
}

static inline float rm_ffloordiv_f32(float x, float y) {
  if (__builtin_expect(rm_is_short_f32(x, y), 1)) return rm_ffloordiv_short_f32(x, y);
  return (float)rm_ffloordiv_f64(x, y);
}
static inline float rm_fmod_f32(float x, float y) {
  if (__builtin_expect(rm_is_short_f32(x, y), 1)) return rm_fmod_short_f32(x, y);
  return (float)rm_fmod_f64(x, y);
}

/* ---- exp and what is made of it -------------------------------------------------------------- */

/*
 * e^(x + low) = 2^n (1 + *r + *r^2 q) for the result q. Adding bias, which is 1.5 times a power of
 * two and something, rounds x / log(2) to an integer n, and leaves n and that in the low bits of
 * *shifted, which become an exponent.
 */
static inline float rm_exp_series_f32(float x, float low, float bias, float *shifted, float *r) {
  *shifted = rm_fma_f32(x, 0x1.715476p+0f, bias);
  const float n = *shifted - bias;
  *r = rm_fma_f32(n, 2.12194440e-4f, rm_fma_f32(n, -0.693359375f, x)) + low;
  return RM_POLY_5(f32, *r, 4.9999994e-01f, 1.666652e-01f, 4.1668408e-02f, 8.3689215e-03f,
                   1.3814204e-03f);
}
static inline double rm_exp_series_f64(double x, double low, double bias, double *shifted,
                                       double *r) {
  *shifted = rm_fma_f64(x, 0x1.71547652b82fep+0, bias);
  const double n = *shifted - bias;
  const double high = rm_fma_f64(n, -0x1.62e42fee00000p-1, x);
  *r = rm_fma_f64(n, -0x1.a39ef35793c76p-33, high) + low;
  return RM_POLY_10(f64, *r, 0.5000000000000011, 0.16666666666666405, 0.04166666666652701,
                    0.008333333333498163, 0.0013888888944577113, 0.0001984126950082645,
                    2.4801492012725377e-05, 2.7557589415177705e-06, 2.7630668507379177e-07,
                    2.499977484493492e-08);
}

/* e^(x + low) = (1 + *r + *r^2 q) 2 *scale *rest for the result q. *rest is 1 but where e^x is less
 * than the least normal number: so that is rounded once. For x in [-130, 89] and [-800, 710]. */
static inline float rm_exp_parts_f32(float x, float low, float *r, float *scale, float *rest) {
  float shifted;
  const float q = rm_exp_series_f32(x, low, 0x1.8p23f + 126, &shifted, r);
  const int is_small = x < -86;
  *scale = rm_float_of((rm_bits_of(shifted) + (is_small ? 64 : 0)) << 23);
  *rest = is_small ? 0x1p-64f : 1;
  return q;
}
static inline double rm_exp_parts_f64(double x, double low, double *r, double *scale,
                                      double *rest) {
  double shifted;
  const double q = rm_exp_series_f64(x, low, 0x1.8p52 + 1022, &shifted, r);
  const int is_small = x < -706;
  *scale = rm_double_of((rm_bits_of_f64(shifted) + (is_small ? 256 : 0)) << 52);
  *rest = is_small ? 0x1p-256 : 1;
  return q;
}

/* e^(x + low) / *rest. */
static inline float rm_exp_scaled_f32(float x, float low, float *rest) {
  float r, scale;
  const float q = rm_exp_parts_f32(x, low, &r, &scale, rest), p = 1 + rm_fma_f32(r * r, q, r);
  return (p + p) * scale;
}
static inline double rm_exp_scaled_f64(double x, double low, double *rest) {
  double r, scale;
  const double q = rm_exp_parts_f64(x, low, &r, &scale, rest), p = 1 + rm_fma_f64(r * r, q, r);
  return (p + p) * scale;
}

/* NaN passes through. */
static inline float rm_clamp_f32(float x, float low, float high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}
static inline double rm_clamp_f64(double x, double low, double high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

/* What rounding has cut off r = x - n log(2). */
static inline float rm_exp_lost_f32(float x, float r) {
  const float n = rm_fma_f32(x, 0x1.715476p+0f, 0x1.8p23f + 126) - (0x1.8p23f + 126);
  return rm_fma_f32(n, 2.12194440e-4f, rm_fma_f32(n, -0.693359375f, x) - r);
}
static inline double rm_exp_lost_f64(double x, double r) {
  const double n = rm_fma_f64(x, 0x1.71547652b82fep+0, 0x1.8p52 + 1022) - (0x1.8p52 + 1022);
  return rm_fma_f64(n, -0x1.a39ef35793c76p-33, rm_fma_f64(n, -0x1.62e42fee00000p-1, x) - r);
}
/* e^x - 1 for x <= 89 and 710, and not far below 0; the sign of a zero is lost. */
#define RM_EXPM1_CORE(T, type) \
  static inline type rm_expm1_core_##T(type x) { \
    type r, half, rest; \
    const type q = rm_exp_parts_##T(x, (type)-0.0, &r, &half, &rest); \
    const type g = r + rm_fma_##T(r * r, q, rm_exp_lost_##T(x, r)); \
    const type result = rm_fma_##T(half, g, half - (type)0.5); \
    return result + result; \
  }
RM_EXPM1_CORE(f32, float)
RM_EXPM1_CORE(f64, double)

/*
 * e^r = 1 + even + odd; with 2^n and 2^-n the sums below lose nothing, and there is no division.
 * Halves of halves, as 2^n itself may overflow.
 */
#define RM_HYPERBOLIC_f32(a) \
  const float shifted = rm_fma_f32(a, 0x1.715476p+0f, 0x1.8p23f + 125); \
  const float n = shifted - (0x1.8p23f + 125); \
  const float r = rm_fma_f32(n, 2.12194440e-4f, rm_fma_f32(n, -0.693359375f, a)), z = r * r; \
  const float even = z * RM_POLY_3(f32, z, 5.e-01f, 4.166626e-02f, 1.3946564e-03f); \
  const float odd = rm_fma_f32( \
      r * z, RM_POLY_3(f32, z, 1.6666667e-01f, 8.333288e-03f, 1.990533e-04f), r); \
  const float up = rm_float_of(rm_bits_of(shifted) << 23); \
  const float down_n = n > 120 ? 120 : n; \
  const float down = rm_float_of(rm_bits_of((0x1.8p23f + 125) - down_n) << 23);
#define RM_HYPERBOLIC_f64(a) \
  const double shifted = rm_fma_f64(a, 0x1.71547652b82fep+0, 0x1.8p52 + 1021); \
  const double n = shifted - (0x1.8p52 + 1021); \
  const double high = rm_fma_f64(n, -0x1.62e42fee00000p-1, a); \
  const double r = rm_fma_f64(n, -0x1.a39ef35793c76p-33, high), z = r * r; \
  const double even = \
      z * RM_POLY_6(f64, z, 0.5, 0.04166666666666668, 0.0013888888888878867, \
                    2.4801587337000407e-05, 2.755726267705492e-07, 2.0918361711027746e-09); \
  const double odd = rm_fma_f64( \
      r * z, RM_POLY_6(f64, z, 0.16666666666666666, 0.008333333333333333, 0.00019841269841263154, \
                       2.755731924760538e-06, 2.5052070679191666e-08, 1.6086781819540087e-10), r); \
  const double up = rm_double_of(rm_bits_of_f64(shifted) << 52); \
  const double down_n = n > 1000 ? 1000 : n; \
  const double down = rm_double_of(rm_bits_of_f64((0x1.8p52 + 1021) - down_n) << 52);

#define RM_EXP_FAMILY(T, type, c, least, most, saturated, hyperbolic) \
  static inline type rm_exp_##T(type x) { \
    type rest; \
    const type e = rm_exp_scaled_##T(rm_clamp_##T(x, least, most), (type)-0.0, &rest); \
    return e * rest; \
  } \
  static inline type rm_expm1_##T(type x) { \
    const type result = rm_expm1_core_##T(rm_clamp_##T(x, -2 * saturated, most)); \
    return __builtin_fabs##c(x) < (type)0x1p-60 ? x : result; \
  } \
  static inline type rm_sinh_##T(type x) { \
    const type a = __builtin_fabs##c(x), bounded = a > hyperbolic ? hyperbolic : a; \
    RM_HYPERBOLIC_##T(bounded) \
    const type half = (up - down) + rm_fma_##T(up - down, even, (up + down) * odd); \
    return __builtin_copysign##c(a < (type)0x1p-60 ? a : half + half, x); \
  } \
  static inline type rm_cosh_##T(type x) { \
    const type a = __builtin_fabs##c(x), bounded = a > hyperbolic ? hyperbolic : a; \
    RM_HYPERBOLIC_##T(bounded) \
    const type rest = rm_fma_##T(up + down, even, down); \
    const type half = up + rm_fma_##T(up - down, odd, rest); \
    return half + half; \
  }

/*
 * Near 0 the series t of tanh. Elsewhere a = n log(2) / 2 + r, t that of tanh(r), and tanh(a) =
 * 1 - 2 (1 - t) / (1 - t + 2^n (1 + t)).
 */
static inline float rm_tanh_f32(float x) {
  const float a = __builtin_fabsf(x), bounded = a > 9.1f ? 9.1f : a;
  const int is_far = a > 0.6f;
  const float shifted = rm_fma_f32(bounded, 0x1.715476p+1f, 0x1.8p23f + 126);
  const float n = is_far ? shifted - (0x1.8p23f + 126) : 0;
  const float r = rm_fma_f32(n, -0x1.62e43p-2f, bounded), z = r * r;
  const float p = RM_POLY_5(f32, z, -3.33333e-01f, 1.3331936e-01f, -5.3784717e-02f, 2.0798625e-02f,
                            -5.8979667e-03f);
  const float t = rm_fma_f32(r * z, p, r), half = rm_float_of(rm_bits_of(shifted) << 23);
  const float far = 1 - (1 - t) / rm_fma_f32(half - 0.5f, t, half + 0.5f);
  return __builtin_copysignf(is_far ? far : t, x);
}
static inline double rm_tanh_f64(double x) {
  const double a = __builtin_fabs(x), bounded = a > 19.1 ? 19.1 : a;
  /* 1 - e^(-2 |x|) over 1 + e^(-2 |x|). */
  const double e = rm_expm1_core_f64(-(bounded + bounded));
  const double below = e + 2, lost = e - (below - 2);
  const double quotient = -e / below;
  /* A line that is right for 1 and 2 is good enough for 1 / below. */
  const double inverse = rm_fma_f64(-0.5, below, 1.5);
  return __builtin_copysign(rm_fma_f64(-quotient * inverse, lost, quotient), x);
}

RM_EXP_FAMILY(f32, float, f, -105.0f, 89.0f, 9.1f, 89.5f)
RM_EXP_FAMILY(f64, double, , -750.0, 710.0, 19.1, 710.6)

#define RM_LOGISTIC(T, type, least, most, bias, bits, unit) \
  /* (1 + e^-x) unit, as e^-x may be larger than the largest number. */ \
  static inline type rm_logistic_below_##T(type x) { \
    type shifted, r; \
    const type bounded = rm_clamp_##T(x, least, most), none = (type)-0.0; \
    const type q = rm_exp_series_##T(-bounded, none, bias, &shifted, &r); \
    const type scale = rm_pattern_##T(rm_bits_of_##T(shifted) << bits); \
    const type sum = scale + unit, lost = sum == scale ? unit : 0; \
    return sum + rm_fma_##T(scale, rm_fma_##T(r * r, q, r), lost); \
  } \
  static inline type rm_sigmoid_##T(type x) { return 1 / rm_logistic_below_##T(x) * unit; } \
  static inline type rm_silu_##T(type x) { \
    /* Where this overflows, the result is x. */ \
    const type quotient = x / rm_logistic_below_##T(x) * unit, largest = x > 0 ? x : 0; \
    return x < least ? x * 0 : quotient > largest ? largest : quotient; \
  }
RM_LOGISTIC(f32, float, -109.0f, 66.0f, 0x1.8p23f + 97, 23, 0x1p-30f)
RM_LOGISTIC(f64, double, -755.0, 550.0, 0x1.8p52 + 823, 52, 0x1p-200)

/* x = n + r, exactly. */
static inline float rm_exp2_f32(float x) {
  const float bounded = rm_clamp_f32(x, -151.0f, 128.0f);
  const float shifted = bounded + (0x1.8p23f + 126), n = shifted - (0x1.8p23f + 126);
  const float r = bounded - n;
  const float q = RM_POLY_6(f32, r, 6.931472e-01f, 2.4022648e-01f, 5.5503324e-02f, 9.618443e-03f,
                            1.339909e-03f, 1.5352154e-04f);
  const float p = rm_fma_f32(r, q, 1);
  const int is_small = n < -124;
  const float scale = rm_float_of((rm_bits_of(shifted) + (is_small ? 64 : 0)) << 23);
  return (p + p) * scale * (is_small ? 0x1p-64f : 1.0f);
}
static inline double rm_exp2_f64(double x) {
  const double bounded = rm_clamp_f64(x, -1080.0, 1024.0);
  const double shifted = bounded + (0x1.8p52 + 1022), n = shifted - (0x1.8p52 + 1022);
  const double r = bounded - n;
  const double q = RM_POLY_11(
      f64, r, 0.6931471805599453, 0.24022650695910133, 0.05550410866482003, 0.009618129107593082,
      0.0013333558146785102, 0.0001540353045857223, 1.5252733485995163e-05, 1.321543449082595e-06,
      1.0178201316219406e-07, 7.073928727978769e-09, 4.434688759353851e-10);
  const double p = rm_fma_f64(r, q, 1);
  const int is_small = n < -1020;
  const double scale = rm_double_of((rm_bits_of_f64(shifted) + (is_small ? 256 : 0)) << 52);
  return (p + p) * scale * (is_small ? 0x1p-256 : 1.0);
}

/* ---- log and what is made of it -------------------------------------------------------------- */

/* x = 2^k (1 + f), 1 + f between sqrt(1/2) and sqrt(2); for positive, normal x. */
static inline float rm_split_normal_f32(float x, float *k) {
  const uint32_t above = rm_bits_of(x) - 0x3f3504f3u;
  *k = (float)((int32_t)above >> 23);
  return rm_float_of((above & 0x7fffffu) + 0x3f3504f3u) - 1;
}
/* For positive, finite x. */
static inline float rm_split_f32(float x, float *k) {
  const int is_small = x < 0x1p-126f;
  const float f = rm_split_normal_f32(is_small ? x * 0x1p23f : x, k);
  *k -= is_small ? 23 : 0;
  return f;
}
/* For normal x. Only shifts and additions: not all processors have 64-bit conversions. */
static inline double rm_split_normal_f64(double x, double *k) {
  const uint64_t bits = rm_bits_of_f64(x), above = bits - 0x3fe6a09e667f3bcdu;
  /* Shifted with 2048 added, so that it is positive. */
  const uint64_t biased = (above + 0x8000000000000000u) >> 52;
  *k = rm_double_of(biased | 0x4330000000000000u) - (0x1p52 + 2048);
  return rm_double_of(bits - (biased << 52) + 0x8000000000000000u) - 1;
}
static inline double rm_split_f64(double x, double *k) {
  const int is_small = x < 0x1p-1022;
  const double f = rm_split_normal_f64(is_small ? x * 0x1p54 : x, k);
  *k -= is_small ? 54 : 0;
  return f;
}

/* log(2^k (1 + f)). */
static inline float rm_log_core_f32(float f, float k) {
  const float q =
      RM_POLY_8(f32, f, 3.333333e-01f, -2.5000823e-01f, 2.0001261e-01f, -1.6623278e-01f,
                1.4200845e-01f, -1.3160338e-01f, 1.2768824e-01f, -7.643169e-02f);
  const float low = rm_fma_f32(f * f, rm_fma_f32(f, q, -0.5f), k * -2.12194440e-4f);
  return rm_fma_f32(k, 0.693359375f, f + low);
}
static inline double rm_log_core_f64(double f, double k) {
  const double half = 0.5 * f * f, s = f / (2 + f), z = s * s;
  const double q =
      RM_POLY_7(f64, z, 0.666666666666667, 0.39999999999893565, 0.2857142862863842,
                0.22222210704504675, 0.18182920188613902, 0.1533069768959714, 0.14629007878559488);
  const double low = rm_fma_f64(s, rm_fma_f64(z, q, half), k * 0x1.a39ef35793c76p-33);
  return rm_fma_f64(k, 0x1.62e42fee00000p-1, f - (half - low));
}

/* Operands as integers, of which those that are no positive, normal numbers are the largest. */
static inline uint32_t rm_log_key_f32(float x) { return rm_bits_of(x) - 0x00800000u; }
static inline int rm_log_is_rare_f32(uint32_t key) { return key >= 0x7f000000u; }

/* The logarithm's value where x is no positive, finite number. */
#define RM_LOG_SPECIAL(T, type) \
  static inline type rm_log_special_##T(type x, type log) { \
    const type negative = x == 0 ? (type)-INFINITY : (type)NAN; \
    const type other = x <= 0 ? negative : x; \
    return ((x > 0) & (x < (type)INFINITY)) ? log : other; \
  }
RM_LOG_SPECIAL(f32, float)
RM_LOG_SPECIAL(f64, double)

static inline double rm_log_f64(double x) {
  double k;
  const double f = rm_split_f64(x, &k);
  return rm_log_special_f64(x, rm_log_core_f64(f, k));
}

/* log(1 + x + low), low being far smaller, for x > -1. */
static inline double rm_log1p_core(double x, double low) {
  const double u = 1 + x, one = u - x, back = u - one;
  /* What rounding u lost. */
  const double lost = (1 - one) + (x - back) + low;
  double k;
  const double f = rm_split_normal_f64(u, &k);
  const double bounded = k > 100 ? 100 : k;
  const double scale = rm_double_of(rm_bits_of_f64((0x1.8p52 + 1023) - bounded) << 52);
  return rm_log_core_f64(f + lost * scale, k);
}

static inline double rm_log1p_f64(double x) {
  const double result = rm_log_special_f64(x + 1, rm_log1p_core(x, 0));
  return x == 0 ? x : result;
}

/* log2 and 2^v to 10 digits, in double: all that results of float32 take. */
static inline double rm_log2_short_core(double x) {
  double k;
  const double f = rm_split_normal_f64(x, &k);
  const double q = RM_POLY_14(
      f64, f, 1.4426950408865344, -0.7213475203249088, 0.48089834882744176, -0.36067379377191505,
      0.2885387937340841, -0.2404463906961005, 0.20610715446954692, -0.18043793109886183,
      0.16021744071295888, -0.1424847482795105, 0.1302529363952675, -0.1346813083436567,
      0.13265448944700706, -0.06981746309231791);
  return rm_fma_f64(f, q, k);
}
static inline double rm_log2_short(double x) {
  return rm_log_special_f64(x, rm_log2_short_core(x));
}
static inline double rm_exp2_short(double v) {
  const double bounded = rm_clamp_f64(v, -200.0, 200.0);
  const double shifted = bounded + (0x1.8p52 + 1023), r = bounded - (shifted - (0x1.8p52 + 1023));
  const double q = RM_POLY_7(f64, r, 0.6931471807051499, 0.24022651068201975, 0.05550410363793249,
                             0.009618037837699123, 0.0013333936281029702, 0.00015466863826152802,
                             1.5196058887855929e-05);
  return rm_fma_f64(r, q, 1) * rm_double_of(rm_bits_of_f64(shifted) << 52);
}

#define RM_LN2 0x1.62e42fefa39efp-1
#define RM_LOG2E 0x1.71547652b82fep+0

/* The linear terms come last; that of log10 has a constant of two parts. */
static inline float rm_log2_core_f32(float f, float k) {
  const float q = RM_POLY_9(f32, f, -7.2134733e-01f, 4.808982e-01f, -3.60697e-01f, 2.8856936e-01f,
                            -2.396094e-01f, 2.0455562e-01f, -1.910878e-01f, 1.864929e-01f,
                            -1.1028761e-01f);
  return k + (f + rm_fma_f32(f, 0.44269505f, f * f * q));
}
static inline float rm_log10_core_f32(float f, float k) {
  const float q = RM_POLY_9(f32, f, -2.1714719e-01f, 1.4476478e-01f, -1.0858062e-01f, 8.686803e-02f,
                            -7.2129615e-02f, 6.1577376e-02f, -5.752316e-02f, 5.6139957e-02f,
                            -3.319988e-02f);
  const float square = rm_fma_f32(k, 0x1.3509f8p-18f, f * f * q);
  const float low = rm_fma_f32(f, -0x1.5b235ep-27f, square);
  return rm_fma_f32(k, 0x1.344p-2f, rm_fma_f32(f, 0x1.bcb7b2p-2f, low));
}

#define RM_LOG_f32(name) \
  /* For positive, normal x. */ \
  static inline float rm_##name##_normal_f32(float x) { \
    float k; \
    const float f = rm_split_normal_f32(x, &k); \
    return rm_##name##_core_f32(f, k); \
  } \
  static inline float rm_##name##_f32(float x) { \
    float k; \
    const float f = rm_split_f32(x, &k); \
    return rm_log_special_f32(x, rm_##name##_core_f32(f, k)); \
  }
RM_LOG_f32(log)
RM_LOG_f32(log2)
RM_LOG_f32(log10)

static inline float rm_log1p_f32(float x) {
  const float u = 1 + x, one = u - x, back = u - one;
  /* What rounding u lost. */
  const float lost = (1 - one) + (x - back);
  float k;
  const float f = rm_split_normal_f32(u, &k);
  const float bounded = k > 100 ? 100 : k;
  const float scale = rm_float_of((uint32_t)(127 - (int32_t)bounded) << 23);
  const float result = rm_log_special_f32(u, rm_log_core_f32(f + lost * scale, k));
  return x == 0 ? x : result;
}

/* In two parts, as the last digits of log(1 + f) times a constant would be lost. */
static inline double rm_log2_f64(double x) {
  double k;
  const double f = rm_split_f64(x, &k);
  const double log = rm_log_core_f64(f, 0);
  /* log2(e) is 1 and something: the product with that is rounded to fewer digits. */
  const double result = k + (log + log * 0x1.c551d94ae0bf8p-2);
  return rm_log_special_f64(x, result);
}
static inline double rm_log10_f64(double x) {
  double k;
  const double f = rm_split_f64(x, &k);
  const double log = rm_log_core_f64(f, 0);
  const double low = rm_fma_f64(log, 0x1.bcb7b1526e50ep-2, k * 0x1.f79fef311f12bp-34);
  return rm_log_special_f64(x, rm_fma_f64(k, 0x1.3441350800000p-2, low));
}

/* Below 2^-12 the series takes over: 1 + a has too few digits of a. */
static inline float rm_asinh_f32(float x) {
  const double a = __builtin_fabsf(x);
  const double log = rm_log2_short(a + __builtin_sqrt(a * a + 1)) * RM_LN2;
  const double result = a < 0x1p-12 ? a - a * a * a * (1.0 / 6) : log;
  return __builtin_copysignf((float)result, x);
}
static inline float rm_acosh_f32(float x) {
  const double wide = x, result = rm_log2_short(wide + __builtin_sqrt(wide * wide - 1)) * RM_LN2;
  return x < 1 ? NAN : (float)result;
}
static inline float rm_atanh_f32(float x) {
  const double a = __builtin_fabsf(x), log = rm_log2_short((1 + a) / (1 - a)) * (0.5 * RM_LN2);
  const double result = a < 0x1p-12 ? a + a * a * a * (1.0 / 3) : log;
  return __builtin_copysignf((float)result, x);
}

static inline double rm_asinh_f64(double x) {
  const double a = __builtin_fabs(x), aa = a * a;
  const int is_big = a > 0x1p28;
  const double small = a + aa / (1 + __builtin_sqrt(1 + aa)), argument = is_big ? a - 1 : small;
  const double log = rm_log1p_core(argument, 0) + (is_big ? RM_LN2 : 0);
  return __builtin_copysign(a < (double)INFINITY ? log : a, x);
}
static inline double rm_acosh_f64(double x) {
  const double t = x - 1, small = t + __builtin_sqrt(t * (2 + t));
  const int is_big = x > 0x1p28;
  const double log = rm_log1p_core(is_big ? t : small, 0) + (is_big ? RM_LN2 : 0);
  const double result = x == 1 ? 0 : log;
  const double valid = x < (double)INFINITY ? result : x;
  return x < 1 ? (double)NAN : valid;
}
static inline double rm_atanh_f64(double x) {
  const double a = __builtin_fabs(x), twice = a + a, low = 1 - a;
  const double argument = twice + twice * a / low;
  const double log = 0.5 * rm_log1p_core(argument, 0);
  const double result = a < 1 ? log : a == 1 ? (double)INFINITY : (double)NAN;
  return __builtin_copysign(a == 0 ? a : result, x);
}

static inline float rm_logaddexp_f32(float x, float y) {
  const double wide_x = x, wide_y = y, larger = rm_maximum_f64(wide_x, wide_y);
  const double e = rm_exp2_short(-__builtin_fabs(wide_x - wide_y) * RM_LOG2E);
  const double log = rm_log2_short_core(1 + e) * RM_LN2;
  const double sum = larger + (e < 0x1p-26 ? e : log);
  return (float)(x == y ? wide_x + RM_LN2 : x != x ? wide_x : y != y ? wide_y : sum);
}
static inline double rm_logaddexp_f64(double x, double y) {
  const double e = rm_exp_f64(-__builtin_fabs(x - y));
  const double log = rm_log1p_core(e, 0), sum = rm_maximum_f64(x, y) + (e < 0x1p-60 ? e : log);
  return x == y ? x + RM_LN2 : x != x ? x : y != y ? y : sum;
}

/* ---- pow ------------------------------------------------------------------------------------- */

/* What the size of the power leaves out: signs, and IEEE's special cases. */
#define RM_POW_SIGNED(T, type, c) \
  static inline type rm_pow_signed_##T(type size, type x, type y) { \
    const type ax = __builtin_fabs##c(x), half = y * (type)0.5; \
    const int is_integer = __builtin_rint##c(y) == y; \
    const int is_odd = is_integer & (__builtin_rint##c(half) != half); \
    type result = is_odd ? __builtin_copysign##c(size, x) : size; \
    result = ((x < 0) & (ax < (type)INFINITY) & !is_integer) ? (type)NAN : result; \
    const int is_one = (y == 0) | (x == 1) | \
        ((ax == 1) & (__builtin_fabs##c(y) == (type)INFINITY)); \
    result = ((x != x) | (y != y)) ? (type)NAN : result; \
    return is_one ? (type)1 : result; \
  }
RM_POW_SIGNED(f32, float, f)
RM_POW_SIGNED(f64, double, )

static inline float rm_pow_f32(float x, float y) {
  const double ax = __builtin_fabsf(x), log = rm_log_special_f64(ax, rm_log2_short_core(ax));
  return rm_pow_signed_f32((float)rm_exp2_short((double)y * log), x, y);
}

/* x * y - product, the rounded one. */
static inline double rm_product_error(double x, double y, double product) {
#if RM_HAS_FMA
  return rm_fma_f64(x, y, -product);
#else
  const double cx = 0x1.0000002p27 * x, cy = 0x1.0000002p27 * y;
  const double xh = cx - (cx - x), yh = cy - (cy - y), xl = x - xh, yl = y - yh;
  return xl * yl - (((product - xh * yh) - xl * yh) - xh * yl);
#endif
}

/* The logarithm in two doubles: multiplied by y, its error becomes that of the result. */
static inline double rm_pow_f64(double x, double y) {
  const double ax = __builtin_fabs(x);
  double k;
  const double f = rm_split_f64(ax, &k);
  /* s = f / (2 + f); log(1 + f) = 2 s + s^3 (2/3 + ...). */
  const double below = 2 + f, below_low = f - (below - 2), inverse = 1 / below, s = f * inverse;
  const double back = s * below, back_low = rm_product_error(s, below, back) + s * below_low;
  const double s_low = ((f - back) - back_low) * inverse;
  const double z = s * s, z_low = rm_product_error(s, s, z) + 2 * s * s_low;
  const double cube = s * z, cube_low = rm_product_error(s, z, cube) + s * z_low + s_low * z;
  const double tail =
      z * RM_POLY_7(f64, z, 0.4000000000000003, 0.2857142857133335, 0.22222222273419423,
                    0.18181807872413314, 0.15385601920182965, 0.13285062230754516,
                    0.12924609096008427);
  const double third = 0x1.5555555555555p-1, q = third + tail;
  const double q_low = ((third - q) + tail) + 0x1.5555555555555p-55;
  const double w = cube * q, w_low = rm_product_error(cube, q, w) + cube * q_low + cube_low * q;
  const double whole = k * 0x1.62e42fee00000p-1;
  const double a = whole + 2 * s, a_low = (whole - a) + 2 * s;
  const double b = a + w, b_low = (a - b) + w;
  const double low = a_low + b_low + 2 * s_low + w_low + k * 0x1.a39ef35793c76p-33;
  const double log = b + low, log_low = (b - log) + low;
  const double checked = rm_log_special_f64(ax, log), v = y * checked;
  const double bounded = rm_clamp_f64(v, -760.0, 710.0);
  const double v_low = rm_product_error(y, log, v) + y * log_low;
  /* A larger y makes the result 0, 1 or infinity, and its product with 2^27 might be too. */
  const int is_fine = (bounded == v) & (__builtin_fabs(y) < 0x1p100);
  double rest;
  const double e = rm_exp_scaled_f64(bounded, is_fine ? v_low : 0, &rest);
  return rm_pow_signed_f64(e * rest, x, y);
}

static inline float rm_hypot_f32(float x, float y) {
  const double result = __builtin_sqrt((double)x * x + (double)y * y);
  return (rm_isinf_f32(x) | rm_isinf_f32(y)) ? INFINITY : (float)result;
}
static inline double rm_hypot_f64(double x, double y) {
  const double a = __builtin_fabs(x), b = __builtin_fabs(y), most = a > b ? a : b;
  /* Powers of two, so that scaling is exact. */
  const double not_big = most < 1e-100 ? 0x1p700 : 1, back_not_big = most < 1e-100 ? 0x1p-700 : 1;
  const double scale = most > 1e100 ? 0x1p-700 : not_big;
  const double back = most > 1e100 ? 0x1p700 : back_not_big;
  const double u = a * scale, v = b * scale;
  const double result = __builtin_sqrt(u * u + v * v) * back;
  return (rm_isinf_f64(x) | rm_isinf_f64(y)) ? (double)INFINITY : result;
}

/* ---- sin, cos, tan --------------------------------------------------------------------------- */

/* Operands as integers, of which those that are too large for rm_sin, rm_cos and rm_tan are the
 * largest; infinities and NaN are not. */
static inline uint32_t rm_turn_key_f32(float x) { return (rm_bits_of(x) << 1) - 0xff000000u; }
static inline uint64_t rm_turn_key_f64(double x) {
  return (rm_bits_of_f64(x) << 1) - 0xffe0000000000000u;
}
/* Above 2^20. */
static inline int rm_turn_is_rare_f32(uint32_t key) { return key > 0x94000000u; }
static inline int rm_turn_is_rare_f64(uint64_t key) { return key > 0x8280000000000000u; }

/*
 * x - n pi / 2^t. The leading parts have 32 bits, so that their products with n, of 20 bits, are
 * exact, and differences of neighbours too: only the last step rounds.
 */
static inline double rm_reduce_short(double x, double n, double unit) {
  const double head = rm_fma_f64(-n, 0x1.921fb54400000p+1 * unit, x);
  return rm_fma_f64(-n, 0x1.0b4611a626331p-33 * unit, head);
}
static inline double rm_reduce(double x, double n, double unit, double *low) {
  const double first = rm_fma_f64(-n, 0x1.921fb54400000p+1 * unit, x);
  const double head = rm_fma_f64(-n, 0x1.0b4611a600000p-33 * unit, first);
  const double third = n * (0x1.3198a2e000000p-68 * unit), middle = head - third;
  const double fourth = n * (0x1.b839a252049c1p-103 * unit), r = middle - fourth;
  const double back = middle - head;
  *low = (middle - r) - fourth + ((head - (middle - back)) - (third + back));
  return r;
}

/* sin(r) for |r| <= pi/2, with the sign changed where the lowest bit of n is set. */
static inline float rm_sine_f32(double r, uint64_t n) {
  const double z = r * r;
  const double q = RM_POLY_4(f64, z, -0.16666659550429652, 0.008333066246162278,
                             -0.00019809602907896722, 2.605780650770188e-06);
  return (float)rm_double_of(rm_bits_of_f64(r * rm_fma_f64(z, q, 1)) ^ n << 63);
}
#define RM_ONE_OVER_PI 0x1.45f306dc9c883p-2

static inline float rm_sin_f32(float x) {
  const double shifted = rm_fma_f64(x, RM_ONE_OVER_PI, 0x1.8p52), n = shifted - 0x1.8p52;
  return rm_sine_f32(rm_reduce_short(x, n, 1), rm_bits_of_f64(shifted));
}
/* x = (n + 1/2) pi + r. */
static inline float rm_cos_f32(float x) {
  const double shifted = rm_fma_f64(x, RM_ONE_OVER_PI, -0.5) + 0x1.8p52;
  const double n = shifted - 0x1.8p52 + 0.5;
  return rm_sine_f32(rm_reduce_short(x, n, 1), rm_bits_of_f64(shifted) + 1);
}

/* x = n pi/2 + r; the result is sin(r), and n is in the low bits of *turns. */
static inline double rm_sin_cos_f64(double x, double *cosine, uint64_t *turns) {
  const double shifted = rm_fma_f64(x, 2 * RM_ONE_OVER_PI, 0x1.8p52);
  double low;
  const double r = rm_reduce(x, shifted - 0x1.8p52, 0.5, &low), z = r * r;
  const double s = RM_POLY_6(f64, z, -0.1666666666666663, 0.008333333333322005,
                             -0.0001984126982949558, 2.755731358763148e-06, -2.505074230783073e-08,
                             1.589590465406632e-10);
  const double c = RM_POLY_6(f64, z, 0.0416666666666666, -0.001388888888887399,
                             2.4801587289395018e-05, -2.755731432604957e-07, 2.0875719560266215e-09,
                             -1.135944871265548e-11);
  const double half = 0.5 * z, most = 1 - half, lost = (1 - most) - half;
  *turns = rm_bits_of_f64(shifted);
  *cosine = most + rm_fma_f64(z * z, c, lost - r * low);
  const double sine = r + rm_fma_f64(r * z, s, low);
  return r == 0 ? x : sine;
}
static inline double rm_sin_f64(double x) {
  double c;
  uint64_t turns;
  const double s = rm_sin_cos_f64(x, &c, &turns), side = (turns & 1) != 0 ? c : s;
  return rm_double_of(rm_bits_of_f64(side) ^ (turns >> 1) << 63);
}
static inline double rm_cos_f64(double x) {
  double c;
  uint64_t turns;
  const double s = rm_sin_cos_f64(x, &c, &turns), side = (turns & 1) != 0 ? s : c;
  return rm_double_of(rm_bits_of_f64(side) ^ ((turns + 1) >> 1) << 63);
}
static inline double rm_tan_f64(double x) {
  double c;
  uint64_t turns;
  const double s = rm_sin_cos_f64(x, &c, &turns);
  const int is_odd = (turns & 1) != 0;
  return (is_odd ? -c : s) / (is_odd ? s : c);
}

static inline float rm_tan_f32(float x) {
  const double shifted = rm_fma_f64(x, 2 * RM_ONE_OVER_PI, 0x1.8p52);
  const double r = rm_reduce_short(x, shifted - 0x1.8p52, 0.5), z = r * r;
  const double s = r * rm_fma_f64(z, RM_POLY_3(f64, z, -0.16666654537407152, 0.008332156078838604,
                                               -0.0001951463350911245), 1);
  const double c = rm_fma_f64(
      z, rm_fma_f64(z, RM_POLY_3(f64, z, 0.041666646749884746, -0.001388736154794142,
                                 2.4437740207938207e-05), -0.5), 1);
  const int is_odd = (int)(rm_bits_of_f64(shifted) & 1);
  const float numerator = (float)(is_odd ? -c : s), denominator = (float)(is_odd ? s : c);
  return numerator / denominator;
}

/* ---- asin, acos, atan ------------------------------------------------------------------------ */

/* asin(s) / s - 1 over z, for z = s^2 <= 1/4. */
static inline float rm_asin_series_f32(float z) {
  return RM_POLY_5(f32, z, 1.6666754e-01f, 7.495233e-02f, 4.5478296e-02f, 2.4141226e-02f,
                   4.223016e-02f);
}
static inline double rm_asin_series_f64(double z) {
  return RM_POLY_12(f64, z, 0.16666666666665406, 0.0750000000033976, 0.044642856825330764,
                    0.03038195927863076, 0.022371754376650378, 0.0173597629460979,
                    0.013884642031134178, 0.012173193234476383, 0.006510497528186234,
                    0.019576590447062094, -0.016300627574529075, 0.03196487758716468);
}
/* atan(t) / t - 1 over z, for z = t^2 and |t| <= 1/2 and sqrt(2) - 1. */
static inline float rm_atan_series_f32(float z) {
  return RM_POLY_5(f32, z, -3.3333236e-01f, 1.9994296e-01f, -1.4175811e-01f, 1.0163618e-01f,
                   -5.138169e-02f);
}
static inline double rm_atan_series_f64(double z) {
  return RM_POLY_11(f64, z, -0.33333333333333204, 0.19999999999954465, -0.1428571428027007,
                    0.11111110786629967, -0.09090897838082912, 0.07692061491497224,
                    -0.06663117109718379, 0.058479752102663186, -0.05039655452784607,
                    0.038072645581493064, -0.01791524370179596);
}

#define RM_PI_f32 0x1.921fb6p+1f
#define RM_PI_LOW_f32 (-0x1.777a5cp-24f)
#define RM_PI_f64 0x1.921fb54442d18p+1
#define RM_PI_LOW_f64 0x1.1a62633145c07p-53

#define RM_ARC(T, type, c, flat, steep, big, tiny) \
  /* Above 1/2: asin(a) = pi/2 - 2 asin(s), s^2 = (1 - a) / 2. */ \
  static inline type rm_asin_##T(type x) { \
    const type a = __builtin_fabs##c(x); \
    const int is_large = a > (type)0.5; \
    const type z = is_large ? (1 - a) * (type)0.5 : a * a; \
    const type s = is_large ? __builtin_sqrt##c(z) : a; \
    const type cube = s * z, q = rm_asin_series_##T(z); \
    const type angle = s + rm_fma_##T(cube, q, -RM_PI_LOW_##T / 4); \
    const type large = RM_PI_##T / 2 - (angle + angle); \
    return __builtin_copysign##c(is_large ? large : rm_fma_##T(cube, q, s), x); \
  } \
  static inline type rm_acos_##T(type x) { \
    const type a = __builtin_fabs##c(x); \
    const int is_large = a > (type)0.5; \
    const type z = is_large ? (1 - a) * (type)0.5 : a * a; \
    const type s = is_large ? __builtin_sqrt##c(z) : __builtin_copysign##c(a, x); \
    const type angle = rm_fma_##T(s * z, rm_asin_series_##T(z), s); \
    const type right = RM_PI_##T / 2 - (angle - RM_PI_LOW_##T / 2), twice = angle + angle; \
    const type far = x < 0 ? RM_PI_##T - (twice - RM_PI_LOW_##T) : twice; \
    return is_large ? far : right; \
  } \
  /* The angle of (x, y), neither negative: one division, whichever octant it is. */ \
  static inline type rm_angle_##T(type y, type x) { \
    const int is_steep = y > x * steep; \
    const int is_flat = y <= x * flat; \
    const type middle_n = y - x, middle_d = y + x; \
    const type n = is_flat ? y : is_steep ? -x : middle_n; \
    const type d = is_flat ? x : is_steep ? y : middle_d; \
    const type base = is_flat ? 0 : is_steep ? RM_PI_##T / 2 : RM_PI_##T / 4; \
    const type base_low = is_flat ? 0 : is_steep ? RM_PI_LOW_##T / 2 : RM_PI_LOW_##T / 4; \
    const type t = n / d, z = t * t; \
    return base + (t + rm_fma_##T(t * z, rm_atan_series_##T(z), base_low)); \
  } \
  static inline type rm_atan_##T(type x) { \
    const type a = __builtin_fabs##c(x); \
    return __builtin_copysign##c(rm_angle_##T(a > big ? big : a, 1), x); \
  } \
  /* Scaled, so that sums do not overflow. */ \
  static inline type rm_atan2_##T(type y, type x) { \
    const type ay = __builtin_fabs##c(y), ax = __builtin_fabs##c(x); \
    const int both_infinite = (ax == (type)INFINITY) & (ay == (type)INFINITY); \
    const type scale = ((ay > big) | (ax > big)) ? tiny : 1; \
    const type v = both_infinite ? 1 : ay * scale, u = both_infinite ? 1 : ax * scale; \
    const int is_origin = (ax == 0) & (ay == 0); \
    const type angle = rm_angle_##T(v, is_origin ? 1 : u); \
    /* By the sign bit of x, as -0 counts. */ \
    const int is_left = __builtin_copysign##c(1, x) < 0; \
    const type left = RM_PI_##T - (angle - RM_PI_LOW_##T); \
    const type result = is_left ? left : angle; \
    return __builtin_copysign##c(((x != x) | (y != y)) ? (type)NAN : result, y); \
  }

RM_ARC(f32, float, f, 0.5f, 2.0f, 0x1p100f, 0x1p-30f)
RM_ARC(f64, double, , 0.41421356237309503, 2.414213562373095, 0x1p1000, 0x1p-60)

/* ---- erf, gelu ------------------------------------------------------------------------------- */

static inline float rm_erf_f32(float x) {
  const float a = __builtin_fabsf(x), t = a > 4 ? 4 : a, z = t * t;
  const float near = rm_fma_f32(
      t, RM_POLY_7(f32, z, 1.2837917e-01f, -3.7612626e-01f, 1.12835854e-01f, -2.6853811e-02f,
                   5.1883273e-03f, -8.010189e-04f, 7.853844e-05f), t);
  /* log(1 - erf(t)). */
  const float log = RM_POLY_7(f32, t, -1.7752942e-04f, -1.1277494e+00f, -6.3706005e-01f,
                              -1.0403707e-01f, 2.2276932e-02f, -3.0555655e-03f, 1.9717708e-04f);
  float rest;
  const float far = 1 - rm_exp_scaled_f32(log, -0.0f, &rest);
  return __builtin_copysignf(t < 0.95f ? near : far, x);
}

/*
 * Near 0, x (1/2 + x p(x^2)). Elsewhere max(x, 0) less what there is on the left of 0, t = |x|:
 * exp(-t^2 / 2) p(v), v = (t - 3/2) / (t + 49/16). t^2 = 2 n log(2) + z is halved in coefficients, so
 * that nothing of the square is lost.
 */
static inline float rm_gelu_f32(float x) {
  const float a = __builtin_fabsf(x), t = a > 16 ? 16 : a, tt = t * t;
  const float near = rm_fma_f32(
      x, RM_POLY_4(f32, tt, 3.9894223e-01f, -6.648862e-02f, 9.954251e-03f, -1.1070163e-03f), 0.5f);
  const float v = (t - 1.5f) / (t + 3.0625f);
  const float p =
      RM_POLY_9(f32, v, 3.08671e-01f, 3.2108015e-01f, -4.5934704e-01f, 3.2175028e-01f,
                -7.92221e-02f, -3.488883e-02f, 1.7386558e-02f, 9.013038e-03f, -5.5333707e-03f);
  /* Its low bits are 64 - n, which is added to the exponent of p: so nothing is denormal. */
  const float bias = 0x1.8p23f + 64, shifted = rm_fma_f32(tt, -0.5f * 0x1.715476p+0f, bias);
  const float n = shifted - bias, whole = n * (2 * 0.693359375f);
#if RM_HAS_FMA
  const float high = rm_fma_f32(t, t, whole);
#else
  const float head = rm_float_of(rm_bits_of(t) & 0xfffff000u);
  const float high = (head * head + whole) + (t - head) * (t + head);
#endif
  const float z = rm_fma_f32(n, -2 * 2.12194440e-4f, high);
  const float g = z * RM_POLY_6(f32, z, -0.5f, 4.9999994e-01f / 4, -1.666652e-01f / 8,
                                4.1668408e-02f / 16, -8.3689215e-03f / 32, 1.3814204e-03f / 64);
  const float scaled = rm_float_of(rm_bits_of(p) + (rm_bits_of(shifted) << 23));
  const float left = rm_fma_f32(scaled, g, scaled);
  /* -infinity from itself is NaN; what is left of other negative numbers, -0. */
  const float far = rm_fma_f32(left, -0x1p-64f, -((x < 0 ? x : 0) - x));
  return a < 0.56f ? x * near : far;
}

/* For |x| <= 1; the coefficients are those of primitives.ts, here and in rm_erfcx, but for 1 of the
 * first one, which is added last. */
static inline double rm_erf_near(double x) {
  const double t = x * x, tt = t * t;
  const double even =
      RM_POLY_6(f64, tt, 0.1283791670955126, 0.11283791670945006, 0.0052239776071164225,
                0.00012055294904839707, 1.6447424703317362e-06, 1.3720064546777686e-08);
  const double odd =
      RM_POLY_6(f64, tt, -0.37612638903183543, -0.02686617064323777, -0.0008548325975389692,
                -1.492473690741966e-05, -1.6208483801871705e-07, -7.795898827002142e-10);
  return rm_fma_f64(x, rm_fma_f64(t, odd, even), x);
}
/* exp(x^2) erfc(x) for x in [0.5, 28]. */
static inline double rm_erfcx(double x) {
  const double t = (x - 4) / (x + 4), tt = t * t;
  const double even =
      RM_POLY_11(f64, tt, 1.2329951186255526, 0.015379652102614858, -0.10103906603599298,
                 -0.0663303658198799, -0.016197733962200932, -0.0007577739752266992,
                 0.0001506247026512128, -1.1230434994851926e-05, 3.0842678654442027e-07,
                 5.941337955131871e-08, -9.455982939872743e-09);
  const double odd =
      RM_POLY_10(f64, tt, -0.1396211168405616, 0.06809705425457811, 0.09373283500259434,
                 0.03716751546515809, 0.005031970657505758, -0.000199260546967223,
                 -2.4385454299846383e-05, 5.678446518677392e-06, -7.811785785175153e-07,
                 7.389680444833914e-08);
  return rm_fma_f64(t, odd, even) / (1 + 2 * x);
}
/* exp(c x^2) in two factors, with the rounding error of the square put back. */
static inline double rm_exp_square(double x, double c, double *rest) {
  const double high = (double)(float)x, low = (x - high) * (x + high);
  return rm_exp_scaled_f64(c * high * high, c * low, rest);
}

static inline double rm_erf_f64(double x) {
  const double a = __builtin_fabs(x), t = a > 6 ? 6 : a;
  double rest;
  const double e = rm_exp_square(t, -1, &rest);
  const double far = 1 - e * rm_erfcx(t);
  return __builtin_copysign(t <= 1 ? rm_erf_near(t) : far, x);
}
static inline double rm_gelu_f64(double x) {
  const double a = __builtin_fabs(x), t = a > 39.5 ? 39.5 : a, u = t * 0x1.6a09e667f3bcdp-1;
  double rest;
  /* In this order, as e times erfcx alone would lose digits before the result does. */
  const double share = 0.5 * t * rm_erfcx(u), e = rm_exp_square(t, -0.5, &rest);
  const double far = (x > 0 ? x : -0.0) - share * e * rest;
  const double near = 0.5 * x * (1 + rm_erf_near(x * 0x1.6a09e667f3bcdp-1));
  const double result = u < 0.5 ? near : far;
  return x < -39.5 ? x * 0 : result;
}

#endif
