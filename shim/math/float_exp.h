/*
 * Exponentials and functions based on them: hyperbolic functions, sigmoid and silu.
 */
#ifndef ROWMAJOR_FLOAT_EXP_H
#define ROWMAJOR_FLOAT_EXP_H

#include "float_core.h"

/* e^(x + low) = 2^n (1 + *r + *r^2 q), where q is the result. Adding bias, which is 1.5 times a
 * power of two plus an exponent bias, rounds x / log(2) to an integer n. The low bits of *shifted
 * then hold n plus that exponent bias. */
static inline float rm_exp_series_f32(float x, float low, float bias, float *shifted, float *r) {
  *shifted = rm_fma_f32(x, 0x1.715476p+0f, bias);
  const float n = *shifted - bias;
  *r = rm_fma_f32(n, 2.12194440e-4f, rm_fma_f32(n, -0.693359375f, x)) + low;
  return RM_POLY_5(f32, *r, 4.9999994e-01f, 1.666652e-01f, 4.1668408e-02f, 8.3689215e-03f,
                   1.3814204e-03f);
}
#ifdef __wasm__
/* The constants of the function below, in memory: engines make vector constants anew for each use. */
extern const double rm_exp_constants[13];
static inline double rm_exp_series_f64(double x, double low, double bias, double *shifted,
                                       double *r) {
  const double *k = rm_exp_constants;
  *shifted = x * k[10] + bias;
  const double n = *shifted - bias;
  const double high = n * k[11] + x;
  const double z = *r = (n * k[12] + high) + low, z2 = z * z, z4 = z2 * z2;
  /* In parts: without fused operations, one chain would take twice as long. */
  const double first = (k[0] + k[1] * z) + (k[2] + k[3] * z) * z2;
  const double second = (k[4] + k[5] * z) + (k[6] + k[7] * z) * z2;
  return first + z4 * (second + z4 * (k[8] + k[9] * z));
}
#else
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
#endif

/* e^(x + low) = (1 + *r + *r^2 q) 2 *scale *rest, where q is the result. *rest is 1 unless e^x is
 * denormal, so that e^x is rounded once. For x in [-130, 89] and [-800, 710]. */
static inline float rm_exp_parts_f32(float x, float low, float *r, float *scale, float *rest) {
  float shifted;
  const float q = rm_exp_series_f32(x, low, 0x1.8p23f + 126, &shifted, r);
  const int is_small = x < -86;
  *scale = rm_from_bits_f32((rm_bits_f32(shifted) + (is_small ? 64 : 0)) << 23);
  *rest = is_small ? 0x1p-64f : 1;
  return q;
}
static inline double rm_exp_parts_f64(double x, double low, double *r, double *scale,
                                      double *rest) {
  double shifted;
  const double q = rm_exp_series_f64(x, low, 0x1.8p52 + 1022, &shifted, r);
  const int is_small = x < -706;
  *scale = rm_from_bits_f64((rm_bits_f64(shifted) + (is_small ? 256 : 0)) << 52);
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

/* The rounding error of r = x - n log(2). */
static inline float rm_exp_rounding_error_f32(float x, float r) {
  const float n = rm_fma_f32(x, 0x1.715476p+0f, 0x1.8p23f + 126) - (0x1.8p23f + 126);
  return rm_fma_f32(n, 2.12194440e-4f, rm_fma_f32(n, -0.693359375f, x) - r);
}
static inline double rm_exp_rounding_error_f64(double x, double r) {
  const double n = rm_fma_f64(x, 0x1.71547652b82fep+0, 0x1.8p52 + 1022) - (0x1.8p52 + 1022);
  return rm_fma_f64(n, -0x1.a39ef35793c76p-33, rm_fma_f64(n, -0x1.62e42fee00000p-1, x) - r);
}
/* e^r = 1 + even + odd. With 2^n and 2^-n the sums below lose no digits, and there is no division.
 * The factors are quarters, because 2^n itself may overflow. */
#define RM_HYPERBOLIC_f32(a) \
  const float shifted = rm_fma_f32(a, 0x1.715476p+0f, 0x1.8p23f + 125); \
  const float n = shifted - (0x1.8p23f + 125); \
  const float r = rm_fma_f32(n, 2.12194440e-4f, rm_fma_f32(n, -0.693359375f, a)), z = r * r; \
  const float even = z * RM_POLY_3(f32, z, 5.e-01f, 4.166626e-02f, 1.3946564e-03f); \
  const float odd = rm_fma_f32( \
      r * z, RM_POLY_3(f32, z, 1.6666667e-01f, 8.333288e-03f, 1.990533e-04f), r); \
  const float up = rm_from_bits_f32(rm_bits_f32(shifted) << 23); \
  const float down_n = n > 120 ? 120 : n; \
  const float down = rm_from_bits_f32(rm_bits_f32((0x1.8p23f + 125) - down_n) << 23);
#define RM_HYPERBOLIC_f64(a) \
  const double shifted = rm_fma_f64(a, 0x1.71547652b82fep+0, 0x1.8p52 + 1021); \
  const double n = shifted - (0x1.8p52 + 1021); \
  const double high = rm_fma_f64(n, -0x1.62e42fee00000p-1, a); \
  const double r = rm_fma_f64(n, -0x1.a39ef35793c76p-33, high), z = r * r; \
  const double even = z * RM_POLY_6(f64, z, 0.5, 0.04166666666666668, 0.0013888888888878867, \
                                    2.4801587337000407e-05, 2.755726267705492e-07, \
                                    2.0918361711027746e-09); \
  const double odd = rm_fma_f64(r * z, \
                                RM_POLY_6(f64, z, 0.16666666666666666, 0.008333333333333333, \
                                          0.00019841269841263154, 2.755731924760538e-06, \
                                          2.5052070679191666e-08, 1.6086781819540087e-10), \
                                r); \
  const double up = rm_from_bits_f64(rm_bits_f64(shifted) << 52); \
  const double down_n = n > 1000 ? 1000 : n; \
  const double down = rm_from_bits_f64(rm_bits_f64((0x1.8p52 + 1021) - down_n) << 52);

#define TYPE float
#define SUFFIX f32
#define BUILTIN(name) __builtin_##name##f
#define EXP_MIN (-105.0f)
#define EXP_MAX 89.0f
#define SATURATED 9.1f
#define HYPERBOLIC_MAX 89.5f
#define LOGISTIC_MIN (-109.0f)
#define LOGISTIC_MAX 66.0f
#define LOGISTIC_BIAS (0x1.8p23f + 97)
#define LOGISTIC_UNIT 0x1p-30f
#define MANTISSA_BITS 23
#include "float_exp_type.h"
#define TYPE double
#define SUFFIX f64
#define BUILTIN(name) __builtin_##name
#define EXP_MIN (-750.0)
#define EXP_MAX 710.0
#define SATURATED 19.1
#define HYPERBOLIC_MAX 710.6
#define LOGISTIC_MIN (-755.0)
#define LOGISTIC_MAX 550.0
#define LOGISTIC_BIAS (0x1.8p52 + 823)
#define LOGISTIC_UNIT 0x1p-200
#define MANTISSA_BITS 52
#include "float_exp_type.h"

/* Near 0: the series t of tanh. Elsewhere: a = n log(2) / 2 + r, t = tanh(r), and tanh(a) = 1 - 2
 * (1 - t) / (1 - t + 2^n (1 + t)). */
static inline float rm_tanh_f32(float x) {
  const float a = __builtin_fabsf(x), bounded = a > 9.1f ? 9.1f : a;
  const int is_far = a > 0.6f;
  const float shifted = rm_fma_f32(bounded, 0x1.715476p+1f, 0x1.8p23f + 126);
  const float n = is_far ? shifted - (0x1.8p23f + 126) : 0;
  const float r = rm_fma_f32(n, -0x1.62e43p-2f, bounded), z = r * r;
  const float p = RM_POLY_5(f32, z, -3.33333e-01f, 1.3331936e-01f, -5.3784717e-02f, 2.0798625e-02f,
                            -5.8979667e-03f);
  const float t = rm_fma_f32(r * z, p, r), half = rm_from_bits_f32(rm_bits_f32(shifted) << 23);
  const float far = 1 - (1 - t) / rm_fma_f32(half - 0.5f, t, half + 0.5f);
  return __builtin_copysignf(is_far ? far : t, x);
}
static inline double rm_tanh_f64(double x) {
  const double a = __builtin_fabs(x), bounded = a > 19.1 ? 19.1 : a;
  /* (1 - e^(-2 |x|)) / (1 + e^(-2 |x|)). */
  const double e = rm_expm1_core_f64(-(bounded + bounded));
  const double below = e + 2, lost = e - (below - 2);
  const double quotient = -e / below;
  /* A line that is exact for 1 and 2 approximates 1 / below well enough. */
  const double inverse = rm_fma_f64(-0.5, below, 1.5);
  return __builtin_copysign(rm_fma_f64(-quotient * inverse, lost, quotient), x);
}

/* x = n + r, exactly. */
static inline float rm_exp2_f32(float x) {
  const float bounded = rm_clamp_f32(x, -151.0f, 128.0f);
  const float shifted = bounded + (0x1.8p23f + 126), n = shifted - (0x1.8p23f + 126);
  const float r = bounded - n;
  const float q = RM_POLY_6(f32, r, 6.931472e-01f, 2.4022648e-01f, 5.5503324e-02f, 9.618443e-03f,
                            1.339909e-03f, 1.5352154e-04f);
  const float p = rm_fma_f32(r, q, 1);
  const int is_small = n < -124;
  const float scale = rm_from_bits_f32((rm_bits_f32(shifted) + (is_small ? 64 : 0)) << 23);
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
  const double scale = rm_from_bits_f64((rm_bits_f64(shifted) + (is_small ? 256 : 0)) << 52);
  return (p + p) * scale * (is_small ? 0x1p-256 : 1.0);
}

#endif
