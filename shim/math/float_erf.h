/*
 * The error function and gelu.
 */
#ifndef ROWMAJOR_FLOAT_ERF_H
#define ROWMAJOR_FLOAT_ERF_H

#include "float_exp.h"

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

/* Near 0: x (1/2 + x p(x^2)). Elsewhere: max(x, 0) minus the lower tail, exp(-t^2 / 2) p(v), with t
 * = |x| and v = (t - 3/2) / (t + 49/16). The coefficients absorb the factor 1/2 of t^2 = 2 n log(2)
 * + z, so that the square keeps all digits. */
static inline float rm_gelu_f32(float x) {
  const float a = __builtin_fabsf(x), t = a > 16 ? 16 : a, tt = t * t;
  const float near = rm_fma_f32(
      x, RM_POLY_4(f32, tt, 3.9894223e-01f, -6.648862e-02f, 9.954251e-03f, -1.1070163e-03f), 0.5f);
  const float v = (t - 1.5f) / (t + 3.0625f);
  const float p =
      RM_POLY_9(f32, v, 3.08671e-01f, 3.2108015e-01f, -4.5934704e-01f, 3.2175028e-01f,
                -7.92221e-02f, -3.488883e-02f, 1.7386558e-02f, 9.013038e-03f, -5.5333707e-03f);
  /* The low bits are 64 - n. They are added to the exponent of p, so that nothing is denormal. */
  const float bias = 0x1.8p23f + 64, shifted = rm_fma_f32(tt, -0.5f * 0x1.715476p+0f, bias);
  const float n = shifted - bias, whole = n * (2 * 0.693359375f);
#if RM_HAS_FMA
  const float high = rm_fma_f32(t, t, whole);
#else
  const float head = rm_from_bits_f32(rm_bits_f32(t) & 0xfffff000u);
  const float high = (head * head + whole) + (t - head) * (t + head);
#endif
  const float z = rm_fma_f32(n, -2 * 2.12194440e-4f, high);
  const float g = z * RM_POLY_6(f32, z, -0.5f, 4.9999994e-01f / 4, -1.666652e-01f / 8,
                                4.1668408e-02f / 16, -8.3689215e-03f / 32, 1.3814204e-03f / 64);
  const float scaled = rm_from_bits_f32(rm_bits_f32(p) + (rm_bits_f32(shifted) << 23));
  const float left = rm_fma_f32(scaled, g, scaled);
  /* -Infinity minus itself is NaN. For other negative numbers the result is -0. */
  const float far = rm_fma_f32(left, -0x1p-64f, -((x < 0 ? x : 0) - x));
  return a < 0.56f ? x * near : far;
}

/* For |x| <= 1. The coefficients are those of primitives.ts, here and in rm_erfcx, except for 1 of
 * the first one, which is added last. */
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
/* exp(c x^2) as two factors that compensate the rounding error of the square. */
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
  /* In this order, because e times erfcx alone would lose digits before the result does. */
  const double share = 0.5 * t * rm_erfcx(u), e = rm_exp_square(t, -0.5, &rest);
  const double far = (x > 0 ? x : -0.0) - share * e * rest;
  const double near = 0.5 * x * (1 + rm_erf_near(x * 0x1.6a09e667f3bcdp-1));
  const double result = u < 0.5 ? near : far;
  return x < -39.5 ? x * 0 : result;
}

#endif
