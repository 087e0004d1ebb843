/*
 * float16 and bfloat16 to and from float32 and float64, rounding once, to nearest even.
 *
 * Without branches, so that loops over these become vector code. Also part of the device code, which
 * includes cuda/device.h first.
 */
#ifndef ROWMAJOR_HALF_H
#define ROWMAJOR_HALF_H

#if !defined(RM_DEVICE)
#include <stdint.h>
#include <string.h>
#endif

static inline uint32_t rm_bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float rm_float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline uint64_t rm_bits_of_f64(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline double rm_double_of(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* x without its last 29 bits, the last one that is left set when something was cut off: rounding that
 * once more gives what rounding x itself would. For results that are 0, infinite or normal float32. */
static inline float rm_odd_float(double x) {
  const uint64_t bits = rm_bits_of_f64(x), cut = (1 << 29) - 1;
  return (float)rm_double_of((bits | ((bits & cut) + cut)) & ~cut);
}

/* Whether processors of this level convert float16 by themselves. */
#if !defined(RM_DEVICE) && (defined(__F16C__) || defined(__aarch64__))
#define RM_HALF_IN_HARDWARE 1
#else
#define RM_HALF_IN_HARDWARE 0
#endif

#if RM_HALF_IN_HARDWARE

static inline float rm_from_half(uint16_t bits) {
  _Float16 x;
  memcpy(&x, &bits, sizeof x);
  return (float)x;
}

static inline uint16_t rm_to_half(float x) {
  const _Float16 h = (_Float16)x;
  uint16_t bits;
  memcpy(&bits, &h, sizeof bits);
  return bits;
}

#elif defined(RM_DEVICE) && !defined(RM_EMULATED)

static inline float rm_from_half(uint16_t bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}

static inline uint16_t rm_to_half(float x) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

#else

static inline float rm_from_half(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = (uint32_t)(bits & 0x7fff) << 13;
  /* The product moves the exponent, and makes denormals normal, exactly. */
  const float scaled = rm_float_of(rest) * 0x1p112f;
  const uint32_t special = rest >= 0x0f800000u ? 0x7f800000u : 0;
  return rm_float_of(rm_bits_of(scaled) | special | sign);
}

static inline uint16_t rm_to_half(float x) {
  const uint32_t bits = rm_bits_of(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  /* Below 2^-14 the sum rounds to units of 2^-24. */
  const uint32_t small = rm_bits_of(rm_float_of(rest) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (rest - 0x38000000u + 0xfff + (rest >> 13 & 1)) >> 13;
  uint32_t result = rest < 0x38800000u ? small : normal;
  result = rest >= 0x477ff000u ? 0x7c00 : result;
  result = rest > 0x7f800000u ? 0x7e00 : result;
  return (uint16_t)(sign | result);
}

#endif

static inline uint16_t rm_double_to_half(double x) { return rm_to_half(rm_odd_float(x)); }

static inline float rm_from_brain(uint16_t bits) { return rm_float_of((uint32_t)bits << 16); }

#if defined(RM_DEVICE) && !defined(RM_EMULATED) && __CUDA_ARCH__ >= 800

static inline uint16_t rm_to_brain(float x) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

#else

static inline uint16_t rm_to_brain(float x) {
  const uint32_t bits = rm_bits_of(x);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return (uint16_t)(x != x ? (bits >> 16 | 0x40) : rounded);
}

#endif

/* Below the normal float32 the sum rounds to units of 2^-133. */
static inline uint16_t rm_double_to_brain(double x) {
  const double a = __builtin_fabs(x), rounded = __builtin_copysign((a + 0x1p-81) - 0x1p-81, x);
  return rm_to_brain(rm_odd_float(a < 0x1p-126 ? rounded : x));
}

#endif
