/*
 * Powers and hypot.
 */
#ifndef ROWMAJOR_FLOAT_POW_H
#define ROWMAJOR_FLOAT_POW_H

#include "float_exp.h"
#include "float_log.h"

/* Handles what the absolute value of the power leaves out: signs and the special cases of IEEE
 * 754. */
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

/* The rounding error of product = x * y. */
static inline double rm_product_error(double x, double y, double product) {
#if RM_HAS_FMA
  return rm_fma_f64(x, y, -product);
#else
  const double cx = 0x1.0000002p27 * x, cy = 0x1.0000002p27 * y;
  const double xh = cx - (cx - x), yh = cy - (cy - y), xl = x - xh, yl = y - yh;
  return xl * yl - (((product - xh * yh) - xl * yh) - xh * yl);
#endif
}

/* The logarithm as the sum of two doubles, because y multiplies its error. */
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
  /* A larger y makes the result 0, 1 or infinity, and its product with 2^27 could overflow. */
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
  const double a = __builtin_fabs(x), b = __builtin_fabs(y), larger = a > b ? a : b;
  /* Powers of two, so that scaling is exact. */
  const double not_big = larger < 1e-100 ? 0x1p700 : 1, back_not_big = larger < 1e-100 ? 0x1p-700 : 1;
  const double scale = larger > 1e100 ? 0x1p-700 : not_big;
  const double back = larger > 1e100 ? 0x1p700 : back_not_big;
  const double u = a * scale, v = b * scale;
  const double result = __builtin_sqrt(u * u + v * v) * back;
  return (rm_isinf_f64(x) | rm_isinf_f64(y)) ? (double)INFINITY : result;
}

#endif
