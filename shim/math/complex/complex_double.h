/*
 * Numbers as sums of two doubles, for powers of complex numbers: an exponent multiplies the rounding
 * error of a logarithm. src/ops/complex/double.ts has the same functions.
 *
 * Also part of device code, which includes device.h first.
 */
#ifndef ROWMAJOR_COMPLEX_DOUBLE_H
#define ROWMAJOR_COMPLEX_DOUBLE_H

#include "vecmath.h"

/* The number rounded to a double, and what it has beyond. */
typedef struct {
  double high, low;
} rm_double2;

/* For |high| >= |low|, or a rounding error of high. */
static inline rm_double2 rm_d2(double high, double low) {
  rm_double2 x;
  x.high = high + low;
  x.low = low - (x.high - high);
  return x;
}

static inline rm_double2 rm_d2_neg(rm_double2 x) { return rm_d2(-x.high, -x.low); }

static inline rm_double2 rm_d2_sum(rm_double2 a, rm_double2 b) {
  const double s = a.high + b.high, w = s - a.high;
  return rm_d2(s, ((a.high - (s - w)) + (b.high - w)) + (a.low + b.low));
}

/* a b, for a double b. */
static inline rm_double2 rm_d2_times(rm_double2 a, double b) {
  const double p = a.high * b;
  return rm_d2(p, rm_product_error(a.high, b, p) + a.low * b);
}

static inline rm_double2 rm_d2_quotient(rm_double2 a, rm_double2 b) {
  const double q = a.high / b.high, p = q * b.high;
  return rm_d2(q, (((a.high - p) - rm_product_error(q, b.high, p)) + (a.low - q * b.low)) / b.high);
}

static inline rm_double2 rm_d2_times_ln2(double x) {
  return rm_d2_times(rm_d2(0.6931471805599453, 2.3190468138462996e-17), x);
}

/* (a - c) / (1 + sign a c), or with `sums` (a - c) / (a + c). */
static inline rm_double2 rm_d2_reduced(rm_double2 a, double c, int sums) {
  const rm_double2 below = sums ? rm_d2_sum(a, rm_d2(c, 0)) : rm_d2_sum(rm_d2(1, 0), rm_d2_times(a, c));
  return rm_d2_quotient(rm_d2_sum(a, rm_d2(-c, 0)), below);
}

/* log |x + iy|, for finite numbers that are not both 0. */
static inline rm_double2 rm_d2_log_abs(double x, double y) {
  const double a = __builtin_fabs(x), b = __builtin_fabs(y), big = a > b ? a : b;
  /* So that squares are numbers, with all their digits. */
  const double exponent = big > 1e100 ? 600 : big < 1e-100 ? -600 : 0;
  const double by = big > 1e100 ? 0x1p-600 : big < 1e-100 ? 0x1p600 : 1;
  x *= by, y *= by;
  const double xx = x * x, yy = y * y;
  const rm_double2 squares = rm_d2_sum(rm_d2(xx, rm_product_error(x, x, xx)),
                                       rm_d2(yy, rm_product_error(y, y, yy)));
  double power;
  const double h = 1 + rm_split_f64(squares.high, &power);
  const double scale = rm_from_bits_f64((uint64_t)(1023 - (int)power) << 52);
  const double c = h < 0.875 ? 0.75 : h > 1.125 ? 1.25 : 1;
  const rm_double2 s = rm_d2_reduced(rm_d2(h, squares.low * scale), c, 1);
  /* The logarithm of (1 + s) / (1 - s), times c. */
  const double ss = s.high * s.high;
  const double rest =
      RM_POLY_7(f64, ss, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15);
  rm_double2 made = rm_d2_times_ln2(2 * exponent + power);
  if (c < 1) made = rm_d2_sum(made, rm_d2(-0.2876820724517809, -2.607160616442564e-17));
  if (c > 1) made = rm_d2_sum(made, rm_d2(0.22314355131420976, -9.091270597324799e-18));
  made = rm_d2_sum(made, rm_d2(2 * s.high, 2 * (s.low + s.high * ss * rest)));
  return rm_d2(made.high / 2, made.low / 2);
}

/* The angle of x + iy, for finite numbers that are not both 0. */
static inline rm_double2 rm_d2_angle(double x, double y) {
  const double a = __builtin_fabs(x), b = __builtin_fabs(y);
  const int is_steep = b > a;
  rm_double2 t = rm_d2_quotient(rm_d2(is_steep ? a : b, 0), rm_d2(is_steep ? b : a, 0));
  const double c = __builtin_floor(4 * t.high + 0.5) / 4;
  if (c > 0) t = rm_d2_reduced(t, c, 0);
  const double tt = t.high * t.high;
  const double rest = RM_POLY_9(f64, tt, 1.0 / 3, -1.0 / 5, 1.0 / 7, -1.0 / 9, 1.0 / 11, -1.0 / 13,
                                1.0 / 15, -1.0 / 17, 1.0 / 19);
  t.low -= t.high * tt * rest;
  /* The arc tangents of 1/4, 1/2, 3/4 and 1. */
  const rm_double2 arc = c == 0      ? rm_d2(0, 0)
                         : c == 0.25 ? rm_d2(0.24497866312686414, 1.0698755618734451e-17)
                         : c == 0.5  ? rm_d2(0.4636476090008061, 2.2698777452961687e-17)
                         : c == 0.75 ? rm_d2(0.6435011087932844, 1.5834785051444286e-17)
                                     : rm_d2(0.7853981633974483, 3.061616997868383e-17);
  t = rm_d2_sum(arc, t);
  const rm_double2 pi = rm_d2(3.141592653589793, 1.2246467991473532e-16);
  if (is_steep) t = rm_d2_sum(rm_d2(pi.high / 2, pi.low / 2), rm_d2_neg(t));
  if (rm_signbit_f64(x)) t = rm_d2_sum(pi, rm_d2_neg(t));
  return rm_signbit_f64(y) ? rm_d2_neg(t) : t;
}

#endif
