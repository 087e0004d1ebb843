/*
 * Converts float16 and bfloat16 to and from float32 and float64. Rounds once, to nearest even.
 *
 * The functions have no branches, so that loops over them are vectorized. Also part of device code,
 * which includes device.h first.
 */
#ifndef ROWMAJOR_FLOAT16_H
#define ROWMAJOR_FLOAT16_H

#if !defined(RM_DEVICE)
#include <stdint.h>
#include <string.h>
#endif

static inline uint32_t rm_bits_f32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float rm_from_bits_f32(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline uint64_t rm_bits_f64(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline double rm_from_bits_f64(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Rounds to odd: clears the last 29 bits and sets the last remaining bit if any of them was set.
 * Rounding the result again equals rounding x itself, if it is 0, infinite or a normal float32. */
static inline float rm_round_to_odd(double x) {
  const uint64_t bits = rm_bits_f64(x), cut = (1 << 29) - 1;
  return (float)rm_from_bits_f64((bits | ((bits & cut) + cut)) & ~cut);
}

/* Whether processors of this instruction set convert float16. */
#if !defined(RM_DEVICE) && (defined(__F16C__) || defined(__aarch64__))
#define RM_HAS_F16_CONVERSION 1
#else
#define RM_HAS_F16_CONVERSION 0
#endif

#if RM_HAS_F16_CONVERSION

static inline float rm_f16_to_f32(uint16_t bits) {
  _Float16 x;
  memcpy(&x, &bits, sizeof x);
  return (float)x;
}

static inline uint16_t rm_f32_to_f16(float x) {
  const _Float16 h = (_Float16)x;
  uint16_t bits;
  memcpy(&bits, &h, sizeof bits);
  return bits;
}

#elif defined(RM_DEVICE) && !defined(RM_EMULATED)

static inline float rm_f16_to_f32(uint16_t bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}

static inline uint16_t rm_f32_to_f16(float x) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

#else

static inline float rm_f16_to_f32(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = (uint32_t)(bits & 0x7fff) << 13;
  /* The multiplication adjusts the exponent and normalizes denormals, exactly. */
  const float scaled = rm_from_bits_f32(rest) * 0x1p112f;
  const uint32_t special = rest >= 0x0f800000u ? 0x7f800000u : 0;
  return rm_from_bits_f32(rm_bits_f32(scaled) | special | sign);
}

static inline uint16_t rm_f32_to_f16(float x) {
  const uint32_t bits = rm_bits_f32(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  /* Below 2^-14 the sum rounds to units of 2^-24. */
  const uint32_t small = rm_bits_f32(rm_from_bits_f32(rest) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (rest - 0x38000000u + 0xfff + (rest >> 13 & 1)) >> 13;
  uint32_t result = rest < 0x38800000u ? small : normal;
  result = rest >= 0x477ff000u ? 0x7c00 : result;
  result = rest > 0x7f800000u ? 0x7e00 : result;
  return (uint16_t)(sign | result);
}

#endif

static inline uint16_t rm_f64_to_f16(double x) { return rm_f32_to_f16(rm_round_to_odd(x)); }

static inline float rm_bf16_to_f32(uint16_t bits) { return rm_from_bits_f32((uint32_t)bits << 16); }

#if defined(RM_DEVICE) && !defined(RM_EMULATED) && __CUDA_ARCH__ >= 800

static inline uint16_t rm_f32_to_bf16(float x) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

#else

static inline uint16_t rm_f32_to_bf16(float x) {
  const uint32_t bits = rm_bits_f32(x);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return (uint16_t)(x != x ? (bits >> 16 | 0x40) : rounded);
}

#endif

/* Below the normal float32 the sum rounds to units of 2^-133. */
static inline uint16_t rm_f64_to_bf16(double x) {
  const double a = __builtin_fabs(x), rounded = __builtin_copysign((a + 0x1p-81) - 0x1p-81, x);
  return rm_f32_to_bf16(rm_round_to_odd(a < 0x1p-126 ? rounded : x));
}

#endif
