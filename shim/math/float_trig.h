/*
 * sin, cos and tan for operands that are not huge.
 */
#ifndef ROWMAJOR_FLOAT_TRIG_H
#define ROWMAJOR_FLOAT_TRIG_H

#include "float_core.h"

/* Operands as integers. Those that are too large for rm_sin, rm_cos and rm_tan are the largest;
 * infinities and NaN are not. */
static inline uint32_t rm_trig_key_f32(float x) { return (rm_bits_f32(x) << 1) - 0xff000000u; }
static inline uint64_t rm_trig_key_f64(double x) {
  return (rm_bits_f64(x) << 1) - 0xffe0000000000000u;
}
/* Above 2^20. */
static inline int rm_trig_needs_fallback_f32(uint32_t key) { return key > 0x94000000u; }
static inline int rm_trig_needs_fallback_f64(uint64_t key) { return key > 0x8280000000000000u; }

/* x - n pi / 2^t. The leading parts of pi have 32 bits, so that their products with n, which has 20
 * bits, and the differences of close numbers are exact. Only the last step rounds. */
static inline double rm_reduce_angle_short(double x, double n, double unit) {
  const double head = rm_fma_f64(-n, 0x1.921fb54400000p+1 * unit, x);
  return rm_fma_f64(-n, 0x1.0b4611a626331p-33 * unit, head);
}
static inline double rm_reduce_angle(double x, double n, double unit, double *low) {
  const double first = rm_fma_f64(-n, 0x1.921fb54400000p+1 * unit, x);
  const double head = rm_fma_f64(-n, 0x1.0b4611a600000p-33 * unit, first);
  const double third = n * (0x1.3198a2e000000p-68 * unit), middle = head - third;
  const double fourth = n * (0x1.b839a252049c1p-103 * unit), r = middle - fourth;
  const double back = middle - head;
  *low = (middle - r) - fourth + ((head - (middle - back)) - (third + back));
  return r;
}

/* sin(r) for |r| <= pi/2, negated if the lowest bit of n is set. */
static inline float rm_sine_f32(double r, uint64_t n) {
  const double z = r * r;
  const double q = RM_POLY_4(f64, z, -0.16666659550429652, 0.008333066246162278,
                             -0.00019809602907896722, 2.605780650770188e-06);
  return (float)rm_from_bits_f64(rm_bits_f64(r * rm_fma_f64(z, q, 1)) ^ n << 63);
}
#define RM_ONE_OVER_PI 0x1.45f306dc9c883p-2

static inline float rm_sin_f32(float x) {
  const double shifted = rm_fma_f64(x, RM_ONE_OVER_PI, 0x1.8p52), n = shifted - 0x1.8p52;
  return rm_sine_f32(rm_reduce_angle_short(x, n, 1), rm_bits_f64(shifted));
}
/* x = (n + 1/2) pi + r. */
static inline float rm_cos_f32(float x) {
  const double shifted = rm_fma_f64(x, RM_ONE_OVER_PI, -0.5) + 0x1.8p52;
  const double n = shifted - 0x1.8p52 + 0.5;
  return rm_sine_f32(rm_reduce_angle_short(x, n, 1), rm_bits_f64(shifted) + 1);
}

/* x = n pi/2 + r. Returns sin(r). The low bits of *quadrants are n. */
static inline double rm_sin_cos_f64(double x, double *cosine, uint64_t *quadrants) {
  const double shifted = rm_fma_f64(x, 2 * RM_ONE_OVER_PI, 0x1.8p52);
  double low;
  const double r = rm_reduce_angle(x, shifted - 0x1.8p52, 0.5, &low), z = r * r;
  const double s = RM_POLY_6(f64, z, -0.1666666666666663, 0.008333333333322005,
                             -0.0001984126982949558, 2.755731358763148e-06, -2.505074230783073e-08,
                             1.589590465406632e-10);
  const double c = RM_POLY_6(f64, z, 0.0416666666666666, -0.001388888888887399,
                             2.4801587289395018e-05, -2.755731432604957e-07, 2.0875719560266215e-09,
                             -1.135944871265548e-11);
  const double half = 0.5 * z, high = 1 - half, error = (1 - high) - half;
  *quadrants = rm_bits_f64(shifted);
  *cosine = high + rm_fma_f64(z * z, c, error - r * low);
  const double sine = r + rm_fma_f64(r * z, s, low);
  return r == 0 ? x : sine;
}
static inline double rm_sin_f64(double x) {
  double c;
  uint64_t quadrants;
  const double s = rm_sin_cos_f64(x, &c, &quadrants), side = (quadrants & 1) != 0 ? c : s;
  return rm_from_bits_f64(rm_bits_f64(side) ^ (quadrants >> 1) << 63);
}
static inline double rm_cos_f64(double x) {
  double c;
  uint64_t quadrants;
  const double s = rm_sin_cos_f64(x, &c, &quadrants), side = (quadrants & 1) != 0 ? s : c;
  return rm_from_bits_f64(rm_bits_f64(side) ^ ((quadrants + 1) >> 1) << 63);
}
static inline double rm_tan_f64(double x) {
  double c;
  uint64_t quadrants;
  const double s = rm_sin_cos_f64(x, &c, &quadrants);
  const int is_odd = (quadrants & 1) != 0;
  return (is_odd ? -c : s) / (is_odd ? s : c);
}

static inline float rm_tan_f32(float x) {
  const double shifted = rm_fma_f64(x, 2 * RM_ONE_OVER_PI, 0x1.8p52);
  const double r = rm_reduce_angle_short(x, shifted - 0x1.8p52, 0.5), z = r * r;
  const double s = r * rm_fma_f64(z, RM_POLY_3(f64, z, -0.16666654537407152, 0.008332156078838604,
                                               -0.0001951463350911245), 1);
  const double c = rm_fma_f64(
      z, rm_fma_f64(z, RM_POLY_3(f64, z, 0.041666646749884746, -0.001388736154794142,
                                 2.4437740207938207e-05), -0.5), 1);
  const int is_odd = (int)(rm_bits_f64(shifted) & 1);
  const float numerator = (float)(is_odd ? -c : s), denominator = (float)(is_odd ? s : c);
  return numerator / denominator;
}

#endif
