/*
 * Floored division of floats, and its remainder.
 */
#ifndef ROWMAJOR_FLOAT_DIVISION_H
#define ROWMAJOR_FLOAT_DIVISION_H

#include "float_core.h"

/* Not inlined: the compiler would compute both sides of a branch around fmod. */
static inline __attribute__((noinline)) double rm_libm_fmod(double x, double y) {
  return fmod(x, y);
}

#if RM_HAS_FMA
static inline int rm_has_short_quotient_f64(double x, double y) {
  return (__builtin_fabs(x / y) < 0x1p51) & (y - y == 0);
}

/* C's fmod, which is exact. So is the fused multiply-add, which takes a tenth of the time. */
static inline double rm_remainder_short_f64(double x, double y) {
  const double m = rm_fma_f64(-__builtin_trunc(x / y), y, x);
  /* The quotient may have been rounded up to the next integer. */
  return ((m != 0) & ((m < 0) != (x < 0))) ? m + __builtin_copysign(y, x) : m;
}
static inline double rm_fmod_short_f64(double x, double y) {
  const double m = rm_remainder_short_f64(x, y);
  const double floored = (y < 0) != (m < 0) ? m + y : m;
  return m == 0 ? __builtin_copysign(0, y) : floored;
}
static inline double rm_ffloordiv_short_f64(double x, double y) {
  const double m = rm_remainder_short_f64(x, y);
  const double quotient = __builtin_rint((x - m) / y);
  const double floored = ((m != 0) & ((y < 0) != (m < 0))) ? quotient - 1 : quotient;
  return floored == 0 ? __builtin_copysign(0, x / y) : floored;
}
#endif

static inline double rm_remainder_f64(double x, double y) {
#if RM_HAS_FMA
  if (__builtin_expect(rm_has_short_quotient_f64(x, y), 1)) return rm_remainder_short_f64(x, y);
#endif
  return rm_libm_fmod(x, y);
}

/* C's fmod. */
static inline double rm_frem_f64(double x, double y) {
  const double m = rm_remainder_f64(x, y);
  return m == 0 ? rm_copysign_f64(0, x) : m;
}
static inline float rm_frem_f32(float x, float y) { return (float)rm_frem_f64(x, y); }

/* x 2^n for n that is truncated to an integer. The factors are at most 2^1023, and two factors for
 * small results, the first of which leaves a normal number, so that the result is rounded once. */
static inline double rm_power_of_2(double n) {
  return rm_from_bits_f64(rm_bits_f64(n + (0x1.8p52 + 1023)) << 52);
}
static inline double rm_ldexp_f64(double x, double n) {
  double left = __builtin_trunc(n), value = x;
  left = left < -4000 ? -4000 : left;
  left = left > 4000 ? 4000 : left;
  for (int i = 0; i < 3; i++) {
    const double step = left > 1023 ? 1023 : left < -1022 ? -969 : 0;
    value *= rm_power_of_2(step);
    left -= step;
  }
  left = left < -1022 ? -1022 : left > 1023 ? 1023 : left;
  return n != n ? n : value * rm_power_of_2(left);
}
static inline float rm_ldexp_f32(float x, float n) { return (float)rm_ldexp_f64(x, n); }

static inline double rm_fmod_f64(double x, double y) {
  const double m = rm_remainder_f64(x, y);
  if (m == 0) return rm_copysign_f64(0, y);
  return (y < 0) != (m < 0) ? m + y : m;
}

static inline double rm_ffloordiv_f64(double x, double y) {
  if (y == 0) return x / y;
  const double m = rm_remainder_f64(x, y);
  double q = (x - m) / y;
  if (m != 0 && (y < 0) != (m < 0)) q -= 1;
  if (q == 0) return rm_copysign_f64(0, x / y);
  /* (x - m) / y is an integer up to rounding. */
  const double low = __builtin_floor(q);
  return q - low > 0.5 ? low + 1 : low;
}

/* x / y in double is rounded, but floor(x / y) is correct for operands of 24 bits and quotients
 * below 2^28, which are called short. */
static inline int rm_has_short_quotient_f32(float x, float y) {
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
  if (__builtin_expect(rm_has_short_quotient_f32(x, y), 1)) return rm_ffloordiv_short_f32(x, y);
  return (float)rm_ffloordiv_f64(x, y);
}
static inline float rm_fmod_f32(float x, float y) {
  if (__builtin_expect(rm_has_short_quotient_f32(x, y), 1)) return rm_fmod_short_f32(x, y);
  return (float)rm_fmod_f64(x, y);
}

#endif
