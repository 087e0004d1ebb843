/*
 * Logarithms and functions based on them: inverse hyperbolic functions and logaddexp.
 */
#ifndef ROWMAJOR_FLOAT_LOG_H
#define ROWMAJOR_FLOAT_LOG_H

#include "float_exp.h"

/* x = 2^k (1 + f), with 1 + f between sqrt(1/2) and sqrt(2), for positive normal x. */
static inline float rm_split_normal_f32(float x, float *k) {
  const uint32_t above = rm_bits_f32(x) - 0x3f3504f3u;
  *k = (float)((int32_t)above >> 23);
  return rm_from_bits_f32((above & 0x7fffffu) + 0x3f3504f3u) - 1;
}
/* For positive finite x. */
static inline float rm_split_f32(float x, float *k) {
  const int is_small = x < 0x1p-126f;
  const float f = rm_split_normal_f32(is_small ? x * 0x1p23f : x, k);
  *k -= is_small ? 23 : 0;
  return f;
}
/* For normal x. Only shifts and additions, because not all processors convert 64-bit integers. */
static inline double rm_split_normal_f64(double x, double *k) {
  const uint64_t bits = rm_bits_f64(x), above = bits - 0x3fe6a09e667f3bcdu;
  /* Shifted with 2048 added, so that it is positive. */
  const uint64_t biased = (above + 0x8000000000000000u) >> 52;
  *k = rm_from_bits_f64(biased | 0x4330000000000000u) - (0x1p52 + 2048);
  return rm_from_bits_f64(bits - (biased << 52) + 0x8000000000000000u) - 1;
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

/* Operands as integers. Those that are not positive normal numbers are the largest. */
static inline uint32_t rm_log_key_f32(float x) { return rm_bits_f32(x) - 0x00800000u; }
static inline int rm_log_needs_fallback_f32(uint32_t key) { return key >= 0x7f000000u; }

/* The logarithm of x that is not a positive finite number. */
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

/* log(1 + x + low) for x > -1 and much smaller low. */
static inline double rm_log1p_core(double x, double low) {
  const double u = 1 + x, one = u - x, back = u - one;
  /* The rounding error of u. */
  const double lost = (1 - one) + (x - back) + low;
  double k;
  const double f = rm_split_normal_f64(u, &k);
  const double bounded = k > 100 ? 100 : k;
  const double scale = rm_from_bits_f64(rm_bits_f64((0x1.8p52 + 1023) - bounded) << 52);
  return rm_log_core_f64(f + lost * scale, k);
}

static inline double rm_log1p_f64(double x) {
  const double result = rm_log_special_f64(x + 1, rm_log1p_core(x, 0));
  return x == 0 ? x : result;
}

/* log2 and 2^v to 10 digits in double: all that float32 results need. */
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
  return rm_fma_f64(r, q, 1) * rm_from_bits_f64(rm_bits_f64(shifted) << 52);
}

#define RM_LN2 0x1.62e42fefa39efp-1
#define RM_LOG2E 0x1.71547652b82fep+0

/* The linear terms are added last. The constant of log10 has two parts. */
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
  /* For positive normal x. */ \
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
  /* The rounding error of u. */
  const float lost = (1 - one) + (x - back);
  float k;
  const float f = rm_split_normal_f32(u, &k);
  const float bounded = k > 100 ? 100 : k;
  const float scale = rm_from_bits_f32((uint32_t)(127 - (int32_t)bounded) << 23);
  const float result = rm_log_special_f32(u, rm_log_core_f32(f + lost * scale, k));
  return x == 0 ? x : result;
}

/* In two parts, because the product of log(1 + f) and a constant would lose the last digits. */
static inline double rm_log2_f64(double x) {
  double k;
  const double f = rm_split_f64(x, &k);
  const double log = rm_log_core_f64(f, 0);
  /* log2(e) = 1 + c: the product with c is rounded to fewer digits. */
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

/* Below 2^-12 the series is used: 1 + a has too few digits of a. */
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

#endif
