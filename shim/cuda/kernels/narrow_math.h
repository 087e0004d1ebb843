/*
 * Functions of 16-bit floats, computed in float32 with the device's approximations: results are
 * within one unit in the last place of the 16-bit float, most of them correctly rounded. Infinities,
 * NaN, signed zeros and denormals are as in vecmath.h.
 *
 * Denormals of bfloat16 are those of float32. float16 has none that are, so that its functions may
 * use instructions that flush them.
 */
#ifndef ROWMAJOR_CUDA_NARROW_MATH_H
#define ROWMAJOR_CUDA_NARROW_MATH_H

#include "device.h"
#include "vecmath.h"

#if defined(RM_EMULATED)
#define RM_APPROXIMATION(name, instruction, exact) \
  static inline float name(float x) { return exact; }
#else
#define RM_APPROXIMATION(name, instruction, exact) \
  static inline float name(float x) { \
    float result; \
    asm(instruction " %0, %1;" : "=f"(result) : "f"(x)); \
    return result; \
  }
#endif
/* Relative errors of about 2^-22; of logarithms near 1, absolute ones. */
RM_APPROXIMATION(rm_power_of_2, "ex2.approx.f32", rm_exp2_f32(x))
RM_APPROXIMATION(rm_power_of_2_flushed, "ex2.approx.ftz.f32", rm_exp2_f32(x))
RM_APPROXIMATION(rm_logarithm_of_2, "lg2.approx.f32", rm_log2_f32(x))
RM_APPROXIMATION(rm_inverse, "rcp.approx.ftz.f32", 1 / x)
RM_APPROXIMATION(rm_inverse_root, "rsqrt.approx.f32", 1 / rm_sqrt_f32(x))

#define RM_LOG2_E 0x1.715476p+0f

static inline float rm_exp2_f16(float x) { return rm_power_of_2_flushed(x); }
static inline float rm_exp2_bf16(float x) { return rm_power_of_2(x); }
static inline float rm_exp_f16(float x) { return rm_power_of_2_flushed(x * RM_LOG2_E); }
static inline float rm_exp_bf16(float x) { return rm_power_of_2(x * RM_LOG2_E); }

static inline float rm_expm1_narrow(float x) {
  const float near = x * RM_POLY_4(f32, x, 1.0f, 0.5f, 0.16666667f, 0.041666668f);
  const float far = rm_power_of_2_flushed(x * RM_LOG2_E) - 1;
  return __builtin_fabsf(x) < 0.125f ? near : far;
}

/* The logarithm of y = 1 + x, times scale. Near 1, where the approximation loses digits, a series. */
static inline float rm_log_narrow(float x, float y, float scale) {
  const float near = x * RM_POLY_4(f32, x, 1.0f, -0.5f, 0.33333334f, -0.25f);
  const float far = rm_logarithm_of_2(y);
  return __builtin_fabsf(x) < 0.0625f ? near * scale : far * (scale * 0.6931472f);
}

static inline float rm_tanh_narrow(float x) {
  const float near = x * rm_fma_f32(x * x, -0.33333334f, 1);
  const float above = rm_power_of_2_flushed(x * (2 * RM_LOG2_E)) + 1;
  return __builtin_fabsf(x) < 0.125f ? near : rm_fma_f32(-2, rm_inverse(above), 1);
}

static inline float rm_sigmoid_f16(float x) {
  return rm_inverse(1 + rm_power_of_2_flushed(x * -RM_LOG2_E));
}
static inline float rm_sigmoid_bf16(float x) {
  /* At most 1, so that small results may be denormal. */
  const float e = rm_power_of_2(__builtin_fabsf(x) * -RM_LOG2_E), inverse = rm_inverse(1 + e);
  return x < 0 ? e * inverse : inverse;
}

/* Near 0 a polynomial, elsewhere 1 - 2^p, where p falls without bounds. */
static inline float rm_erf_narrow(float x) {
  const float t = __builtin_fabsf(x);
  const float near = x * RM_POLY_4(f32, x * x, 1.1283648f, -0.37557152f, 0.10938518f,
                                   -0.019714543f);
  const float p = RM_POLY_4(f32, t, -0.037424007f, -1.4987433f, -1.0880837f, -0.04413817f);
  return t < 0.9f ? near : __builtin_copysignf(1 - rm_power_of_2_flushed(p), x);
}

/* max(x, 0) minus the lower tail, t e^(-t^2 / 2) v p(v), with t = |x| and v = 1 / (1 + 0.38 t).
 * Squares of 16-bit floats are exact in float32. */
static inline float rm_gelu_narrow(float x, float power, float t) {
  const float v = rm_inverse(rm_fma_f32(t, 0.38f, 1));
  const float p = RM_POLY_5(f32, v, 0.15122543f, 0.1578267f, 0.09198893f, 0.18886405f, -0.08992251f);
  /* NaN for -Infinity, and -0 for other negative numbers. */
  return rm_fma_f32(-(power * t * v), p, x < 0 ? x * 0 : x);
}
/* The power of numbers above 40 is 0. The product of infinity and 0 would be NaN. */
static inline float rm_gelu_f16(float x) {
  const float t = __builtin_fminf(__builtin_fabsf(x), 40);
  return rm_gelu_narrow(x, rm_power_of_2_flushed(t * t * (-0.5f * RM_LOG2_E)), t);
}
static inline float rm_gelu_bf16(float x) {
  const float t = __builtin_fminf(__builtin_fabsf(x), 40);
  return rm_gelu_narrow(x, rm_power_of_2(t * t * (-0.5f * RM_LOG2_E)), t);
}

#define RM_NARROW_FUNCTIONS(T) \
  static inline float rm_expm1_##T(float x) { return rm_expm1_narrow(x); } \
  static inline float rm_log_##T(float x) { return rm_log_narrow(x - 1, x, 1); } \
  static inline float rm_log2_##T(float x) { return rm_log_narrow(x - 1, x, RM_LOG2_E); } \
  static inline float rm_log10_##T(float x) { return rm_log_narrow(x - 1, x, 0.4342945f); } \
  static inline float rm_log1p_##T(float x) { return rm_log_narrow(x, x + 1, 1); } \
  static inline float rm_tanh_##T(float x) { return rm_tanh_narrow(x); } \
  static inline float rm_erf_##T(float x) { return rm_erf_narrow(x); } \
  static inline float rm_silu_##T(float x) { return x * rm_sigmoid_##T(x); }
RM_NARROW_FUNCTIONS(f16)
RM_NARROW_FUNCTIONS(bf16)

#endif
