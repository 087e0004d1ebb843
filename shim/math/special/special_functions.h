/*
 * Special functions: the gamma family, the inverses of the error functions, Bessel functions, zeta.
 *
 * All of them are computed in double, those of float32 too, without branches, so that loops over
 * them are vectorized. src/backend/js/special/functions.ts has the same algorithms.
 */
#ifndef ROWMAJOR_SPECIAL_FUNCTIONS_H
#define ROWMAJOR_SPECIAL_FUNCTIONS_H

#include "special_coefficients.h"
#include "float_erf.h"
#include "float_exp.h"
#include "float_log.h"
#include "float_pow.h"
#include "float_trig.h"

/* Loops are unrolled so that those around them are vectorized. */
#if defined(RM_DEVICE)
#define RM_UNROLLED
#define RM_SPECIAL static inline
#define RM_INLINE_CALL
#else
#define RM_UNROLLED _Pragma("clang loop unroll(full)")
#if defined(__x86_64__) && !defined(__AVX__)
/* Two lanes gain less than their constants take. */
#define RM_SPECIAL static inline __attribute__((noinline))
#define RM_INLINE_CALL
#else
/* A call would keep the loop around it from being vectorized. */
#define RM_SPECIAL static inline __attribute__((always_inline))
#define RM_INLINE_CALL [[clang::always_inline]]
#endif
#endif

#define RM_PI 0x1.921fb54442d18p+1


/* sin(pi x), exactly 0 for integers. The series of sin is for [0, pi / 2]. */
RM_SPECIAL double rm_sin_pi(double x) {
  const double r = x - 2 * __builtin_rint(0.5 * x), a = __builtin_fabs(r);
  const double t = RM_PI * (a > 0.5 ? 1 - a : a);
  return __builtin_copysign(rm_sin_f64(t), r);
}

/* The argument of gamma is reduced to 1 + t in [1, 2), for a < 8: *product is the product of the
 * factors that were taken away. */
RM_SPECIAL double rm_reduce_gamma(double a, double *product) {
  double y = a, p = 1;
  RM_UNROLLED for (int i = 0; i < 6; i++) {
    const int is_large = y >= 2;
    y = is_large ? y - 1 : y;
    p = is_large ? p * y : p;
  }
  *product = p;
  return a < 1 ? a : y - 1;
}

RM_SPECIAL double rm_stirling_tail(double a) {
  const double z = 1 / a, zz = z * z;
  return z * RM_POLY_OF_STIRLING(zz);
}

/* log(gamma(1 + t)). */
RM_SPECIAL double rm_lgamma_near(double t) {
  const double u = 2 * t - 1;
  return t * (t - 1) * RM_POLY_OF_LGAMMA(u);
}

RM_SPECIAL double rm_lgamma_f64(double x) {
  const double a = __builtin_fabs(x);
  const int is_large = a >= 8;
  double product;
  const double t = rm_reduce_gamma(is_large ? 1.5 : a, &product);
  const double log = rm_log_f64(is_large || a < 1 ? a : product);
  const double stirling =
      (a - 0.5) * (log - 1) + (0.9189385332046728 - 0.5) + rm_stirling_tail(is_large ? a : 8);
  const double near = rm_lgamma_near(t) + (a < 1 ? -log : log);
  const double positive = is_large ? stirling : near;
  const double sin = __builtin_fabs(rm_sin_pi(a));
  const double log_a = rm_log_f64(a);
  const double reflected = (-rm_log_f64(sin / RM_PI) - log_a) - positive;
  const double result = x > 0 ? positive : reflected;
  const int is_pole = (x <= 0) & (x == __builtin_floor(x));
  const double infinite = ((x - x != 0) | is_pole) ? (double)INFINITY : result;
  return x != x ? x : infinite;
}

RM_SPECIAL double rm_gamma_f64(double x) {
  const double a = __builtin_fabs(x);
  const int is_large = a >= 8;
  double product;
  const double t = rm_reduce_gamma(is_large ? 1.5 : a, &product);
  const double bounded = !is_large ? 8 : a > 172 ? 172 : a;
  double root;
  RM_INLINE_CALL root = rm_pow_f64(bounded, 0.5 * bounded - 0.25);
  const double e = rm_exp_f64(is_large ? -bounded : rm_lgamma_near(t));
  const double tail = rm_stirling_tail(bounded);
  /* exp of the tail, which is at most 0.0104. */
  const double exp_tail =
      1 + tail * RM_POLY_6(f64, tail, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720);
  const double large = 2.5066282746310002 * root * e * root * exp_tail;
  const double near = a < 1 ? e / a : e * product;
  const double positive = !is_large ? near : a > 171.7 ? (double)INFINITY : large;
  const double reflected = -RM_PI / (a * rm_sin_pi(a)) / positive;
  const double result = x < 0 ? reflected : positive;
  const double valid = ((x < 0) & (x == __builtin_floor(x))) ? (double)NAN : result;
  return a < 1e-300 ? 1 / x : x != x ? x : valid;
}

RM_SPECIAL double rm_digamma_f64(double x) {
  const double a = __builtin_fabs(x);
  const int is_large = a >= 8;
  double y = is_large ? 1.5 : a, above = 0, below = 1;
  RM_UNROLLED for (int i = 0; i < 6; i++) {
    const int reduces = y >= 2;
    y = reduces ? y - 1 : y;
    above = reduces ? above * y + below : above;
    below = reduces ? below * y : below;
  }
  const double t = a < 1 ? a : y - 1, u = 2 * t - 1;
  const double share = a < 1 ? -1 / a : above / below;
  const double near = (t - RM_DIGAMMA_ZERO - RM_DIGAMMA_ZERO_LOW) * RM_POLY_OF_DIGAMMA(u) + share;
  const double z = 1 / (is_large ? a : 8), zz = z * z;
  const double far = rm_log_f64(a) - (0.5 * z + zz * RM_POLY_OF_DIGAMMA_TAIL(zz));
  const double positive = is_large ? far : near;
  const double r = a - __builtin_rint(a);
  const double cotangent = rm_cos_f64(RM_PI * r) / rm_sin_f64(RM_PI * r);
  const double reflected = positive + 1 / a + RM_PI * cotangent;
  const double result = x < 0 ? reflected : positive;
  const double valid = ((x < 0) & (x == __builtin_floor(x))) ? (double)NAN : result;
  return a < 1e-300 ? -1 / x : x == (double)INFINITY ? x : valid;
}

RM_SPECIAL double rm_erfc_f64(double x) {
  const double a = __builtin_fabs(x), t = rm_clamp_f64(a, 0.5, 27.5);
  double rest;
  const double e = rm_exp_square(t, -1, &rest);
  const double tail = a >= 27.5 ? 0 : e * rm_erfcx(t) * rest;
  const double far = x > 0 ? tail : 2 - tail;
  const double near = 1 - rm_erf_near(x);
  return x != x ? x : a < 0.5 ? near : far;
}

RM_SPECIAL double rm_ndtr_f64(double x) {
  const double a = __builtin_fabs(x), t = rm_clamp_f64(a, 0.5, 38.75);
  const double u = t * 0x1.6a09e667f3bcdp-1, scaled = x * 0x1.6a09e667f3bcdp-1;
  double rest;
  const double e = rm_exp_square(t, -0.5, &rest);
  const double tail = a >= 38.75 ? 0 : 0.5 * (e * rm_erfcx(u < 0.5 ? 0.5 : u)) * rest;
  const double far = x > 0 ? 1 - tail : tail;
  const double near = 0.5 + 0.5 * rm_erf_near(scaled);
  return x != x ? x : __builtin_fabs(scaled) < 0.5 ? near : far;
}

/* erfinv(y) / y by w = -log(1 - y^2). */
RM_SPECIAL double rm_erfinv_share(double w) {
  const double s = __builtin_sqrt(w), r = 1 / s, high = 1 / 4.25, low = 0.1, least = 1.0 / 28;
  const double at_a = (w - 3.125) / 3.125, at_b = (s - 3.375) / 0.875;
  const double at_c = (2 * r - (low + high)) / (high - low);
  const double at_d = (2 * r - (low + least)) / (low - least);
  const double tail = s * (r >= low ? RM_POLY_OF_ERFINV_C(at_c) : RM_POLY_OF_ERFINV_D(at_d));
  const double far = s < 4.25 ? RM_POLY_OF_ERFINV_B(at_b) : tail;
  return w < 6.25 ? RM_POLY_OF_ERFINV_A(at_a) : far;
}

RM_SPECIAL double rm_erfinv_f64(double y) {
  const double a = __builtin_fabs(y);
  const double result = y * rm_erfinv_share(-rm_log_f64((1 - a) * (1 + a)));
  const double infinite = __builtin_copysign((double)INFINITY, y);
  return a < 1 ? result : a == 1 ? infinite : (double)NAN;
}

RM_SPECIAL double rm_erfcinv_f64(double q) {
  const double p = q < 1 ? q : 2 - q;
  const double x = (1 - p) * rm_erfinv_share(-rm_log_f64(p * (2 - p)));
  const double result = p == 0 ? (double)INFINITY : x;
  return p >= 0 ? (q <= 1 ? result : -result) : (double)NAN;
}

RM_SPECIAL double rm_ndtri_f64(double p) {
  return 0 - 0x1.6a09e667f3bcdp+0 * rm_erfcinv_f64(2 * p);
}

/* The share of I0 or I1: *e is what it is multiplied by for large arguments. */
#define RM_BESSEL(name, SERIES, TAIL, odd) \
  RM_SPECIAL double rm_##name##e_f64(double x) { \
    const double a = __builtin_fabs(x), b = a > 8 ? 8 : a, z = 0.25 * b * b; \
    const double far = 16 / a - 1, u = far < 1 ? far : 1; \
    const double near = SERIES(z) * rm_exp_f64(-b) * (odd ? 0.5 * b : 1); \
    const double value = a > 8 ? TAIL(u) / __builtin_sqrt(a) : near; \
    const double result = odd ? __builtin_copysign(value, x) : value; \
    return x != x ? x : odd && x == 0 ? x : result; \
  } \
  RM_SPECIAL double rm_##name##_f64(double x) { \
    const double a = __builtin_fabs(x), b = a > 8 ? 8 : a, z = 0.25 * b * b; \
    const double far = 16 / a - 1, u = far < 1 ? far : 1; \
    const double half = rm_exp_f64(0.5 * a); \
    const double large = half * (TAIL(u) / __builtin_sqrt(a)) * half; \
    const double near = SERIES(z) * (odd ? 0.5 * b : 1); \
    const double finite = a > 8 ? large : near; \
    const double value = a == (double)INFINITY ? a : finite; \
    const double result = odd ? __builtin_copysign(value, x) : value; \
    return x != x ? x : odd && x == 0 ? x : result; \
  }
RM_BESSEL(i0, RM_POLY_OF_I0_SERIES, RM_POLY_OF_I0, 0)
RM_BESSEL(i1, RM_POLY_OF_I1_SERIES, RM_POLY_OF_I1, 1)

RM_SPECIAL double rm_sinc_f64(double x) {
  return x == 0 ? 1 : rm_sin_pi(x) / (RM_PI * x);
}

/* The Euler-Maclaurin formula after ten terms. */
static inline double rm_zeta_f64(double x, double q) {
  double sum = 0;
  for (int k = 0; k < 10; k++) sum += rm_pow_f64(q + k, -x);
  const double w = q + 10, power = rm_pow_f64(w, -x), inverse = 1 / w;
  double term = power * x * inverse, tail = 0, next = x + 1;
#define RM_ZETA_STEP(coefficient) \
  tail += term * (coefficient); \
  term *= next * inverse * ((next + 1) * inverse); \
  next += 2;
  RM_ZETA_STEP(RM_ZETA_1)
  RM_ZETA_STEP(RM_ZETA_2)
  RM_ZETA_STEP(RM_ZETA_3)
  RM_ZETA_STEP(RM_ZETA_4)
  RM_ZETA_STEP(RM_ZETA_5)
  RM_ZETA_STEP(RM_ZETA_6)
  RM_ZETA_STEP(RM_ZETA_7)
  RM_ZETA_STEP(RM_ZETA_8)
  RM_ZETA_STEP(RM_ZETA_9)
  RM_ZETA_STEP(RM_ZETA_10)
  RM_ZETA_STEP(RM_ZETA_11)
  RM_ZETA_STEP(RM_ZETA_12)
  const double whole = power == 0 ? sum : sum + (power * w / (x - 1) + 0.5 * power) + tail;
  const double positive = x > 1 ? whole : (double)NAN;
  const double pole = ((x > 1) & (q == __builtin_floor(q))) ? (double)INFINITY : (double)NAN;
  const double result = q > 0 ? positive : pole;
  return q != q ? q : x == 1 ? (double)INFINITY : result;
}

#define RM_SPECIAL_F32(name) \
  RM_SPECIAL float rm_##name##_f32(float x) { return (float)rm_##name##_f64(x); }
RM_SPECIAL_F32(lgamma)
RM_SPECIAL_F32(gamma)
RM_SPECIAL_F32(digamma)
RM_SPECIAL_F32(erfc)
RM_SPECIAL_F32(ndtr)
RM_SPECIAL_F32(erfinv)
RM_SPECIAL_F32(erfcinv)
RM_SPECIAL_F32(ndtri)
RM_SPECIAL_F32(i0)
RM_SPECIAL_F32(i0e)
RM_SPECIAL_F32(i1)
RM_SPECIAL_F32(i1e)
RM_SPECIAL_F32(sinc)
static inline float rm_zeta_f32(float x, float q) { return (float)rm_zeta_f64(x, q); }

#endif
