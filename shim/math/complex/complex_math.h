/*
 * Functions of complex numbers in double precision, with the special values of C99's annex G, as
 * NumPy has them. src/ops/complex/math.ts has the same functions.
 *
 * Also part of device code, which includes device.h first.
 */
#ifndef ROWMAJOR_COMPLEX_MATH_H
#define ROWMAJOR_COMPLEX_MATH_H

#include "complex_double.h"
#include "vecmath.h"

/* Two floats: the real and the imaginary part. */
typedef struct {
  double re, im;
} rm_complex;

#define RM_COMPLEX_LN2 0.6931471805599453
#define RM_COMPLEX_PI 3.141592653589793
#define RM_COMPLEX_RECIPROCAL_EPSILON 0x1p52

static inline rm_complex rm_c(double re, double im) {
  rm_complex z;
  z.re = re;
  z.im = im;
  return z;
}

static inline int rm_is_finite(double x) { return x - x == 0; }
static inline double rm_c_copysign(double x, double y) { return __builtin_copysign(x, y); }
static inline double rm_c_abs1(double x) { return __builtin_fabs(x); }

static inline rm_complex rm_c_mul(rm_complex x, rm_complex y) {
  return rm_c(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re);
}

/* Smith's algorithm. */
static inline rm_complex rm_c_div(rm_complex x, rm_complex y) {
  const double ar = rm_c_abs1(y.re), ai = rm_c_abs1(y.im);
  if (ar >= ai) {
    if (ar == 0 && ai == 0) return rm_c(x.re / ar, x.im / ar);
    const double ratio = y.im / y.re, scale = 1 / (y.re + y.im * ratio);
    return rm_c((x.re + x.im * ratio) * scale, (x.im - x.re * ratio) * scale);
  }
  const double ratio = y.re / y.im, scale = 1 / (y.im + y.re * ratio);
  return rm_c((x.re * ratio + x.im) * scale, (x.im * ratio - x.re) * scale);
}

static inline double rm_c_abs(rm_complex z) {
  if (rm_isinf_f64(z.re) || rm_isinf_f64(z.im)) return INFINITY;
  return rm_hypot_f64(z.re, z.im);
}

/* exp(x) times re and im, and powers of two a and b, also where exp(x) alone overflows. */
static inline rm_complex rm_c_times_exp(double x, double re, double im, double a, double b) {
  if (x <= 709.782712893384) {
    const double e = rm_exp_f64(x);
    return rm_c(e * re * a, e * im * b);
  }
  const int parts = x < 1419 ? 2 : 4;
  const double part = rm_exp_f64(x / parts);
  /* Not before the first product: they may be subnormal. */
  for (int k = 0; k < parts; k++) {
    re *= k == 1 ? part * a : part;
    im *= k == 1 ? part * b : part;
  }
  return rm_c(re, im);
}

static inline rm_complex rm_c_exp(double x, double y) {
  if (y == 0) return rm_c(rm_exp_f64(x), y);
  if (x == 0) return rm_c(cos(y), sin(y));
  if (!rm_is_finite(y)) {
    if (x == -INFINITY) return rm_c(0, 0);
    if (x == INFINITY) return rm_c(INFINITY, NAN);
    return rm_c(NAN, NAN);
  }
  return rm_c_times_exp(x, cos(y), sin(y), 1, 1);
}

/* exp(x + iy), for finite numbers. */
static inline rm_complex rm_c_exp_of_sums(rm_double2 x, rm_double2 y) {
  if (y.high == 0) return rm_c(rm_exp_f64(x.high) * (1 + x.low), y.high);
  const double c = cos(y.high), s = sin(y.high);
  const int is_near = rm_c_abs1(y.low) < 1e-9;
  const double dc = is_near ? 1 : cos(y.low), ds = is_near ? y.low : sin(y.low);
  const double re = c * dc - s * ds, im = s * dc + c * ds;
  return rm_c_times_exp(x.high, re + re * x.low, im + im * x.low, 1, 1);
}

/* Products of numbers below this have a rounding error that is a number. */
static inline int rm_c_can_double(double x, double y) {
  return rm_c_abs1(x) < 1e150 && rm_c_abs1(y) < 1e150;
}

/* Unless `wide`, to the digits of floats. */
static inline rm_complex rm_c_exp2(double x, double y, int wide) {
  if (y == 0) return rm_c(rm_exp2_f64(x), y);
  if (!wide || !rm_c_can_double(x, y)) return rm_c_exp(x * RM_COMPLEX_LN2, y * RM_COMPLEX_LN2);
  return rm_c_exp_of_sums(rm_d2_times_ln2(x), rm_d2_times_ln2(y));
}

static inline rm_complex rm_c_expm1(double x, double y) {
  if (y == 0) return rm_c(rm_expm1_f64(x), y);
  if (!rm_is_finite(x) || x > 40) {
    /* 1 is less than a rounding error, or there is no number to subtract it from. */
    const rm_complex z = rm_c_exp(x, y);
    return rm_c(z.re - 1, z.im);
  }
  const double a = sin(y / 2);
  return rm_c(rm_expm1_f64(x) * cos(y) - 2 * a * a, rm_exp_f64(x) * sin(y));
}

/* x^2 + y^2 - 1 near the unit circle, for x >= y >= 0 and x >= 0.5. */
static inline double rm_c_squares_minus_one(double x, double y) {
  const double xx = x * x, yy = y * y, one = xx - 1, sum = one + yy;
  const double rest = rm_c_abs1(one) >= yy ? (one - sum) + yy : (yy - sum) + one;
  return sum + (rest + rm_product_error(x, x, xx) + rm_product_error(y, y, yy));
}

/* log |z|. */
static inline double rm_c_log_abs(double x, double y) {
  const double a = rm_c_abs1(x), b = rm_c_abs1(y), big = a >= b ? a : b, small = a >= b ? b : a;
  if (!rm_is_finite(a) || !rm_is_finite(b)) {
    return a == INFINITY || b == INFINITY ? INFINITY : NAN;
  }
  if (big == 0) return -INFINITY;
  if (big > 0.5 && big < 2) {
    const double squares = big * big + small * small;
    if (squares > 0.5 && squares < 3) {
      return rm_log1p_f64(rm_c_squares_minus_one(big, small)) / 2;
    }
  }
  if (big > 1e300) return rm_log_f64(rm_hypot_f64(big / 4, small / 4)) + 2 * RM_COMPLEX_LN2;
  if (big < 1e-300) return rm_log_f64(rm_hypot_f64(big * 0x1p60, small * 0x1p60)) - 60 * RM_COMPLEX_LN2;
  return rm_log_f64(rm_hypot_f64(big, small));
}

static inline rm_complex rm_c_log(double x, double y) {
  return rm_c(rm_c_log_abs(x, y), rm_atan2_f64(y, x));
}

static inline rm_complex rm_c_log1p(double x, double y) {
  const int near = rm_c_abs1(x) < 0.5 && rm_c_abs1(y) < 0.5;
  const double re = near ? rm_log1p_f64(x * (2 + x) + y * y) / 2 : rm_c_log_abs(1 + x, y);
  return rm_c(re, rm_atan2_f64(y, 1 + x));
}

static inline rm_complex rm_c_sqrt(double a, double b) {
  if (a == 0 && b == 0) return rm_c(0, b);
  if (rm_isinf_f64(b)) return rm_c(INFINITY, b);
  if (a != a) return rm_c(a, NAN);
  if (rm_isinf_f64(a)) {
    if (a < 0) return rm_c(rm_c_abs1(b - b), rm_c_copysign(a, b));
    return rm_c(a, rm_c_copysign(b - b, b));
  }
  if (b != b) return rm_c(NAN, NAN);
  double scale = 1, x = a, y = b;
  if (rm_c_abs1(x) >= 4.49423283715579e307 || rm_c_abs1(y) >= 4.49423283715579e307) {
    x /= 4;
    y /= 4;
    scale = 2;
  } else if (rm_c_abs1(x) < 1e-290 && rm_c_abs1(y) < 1e-290) {
    x *= 0x1p108;
    y *= 0x1p108;
    scale = 0x1p-54;
  }
  if (x >= 0) {
    const double t = __builtin_sqrt((x + rm_hypot_f64(x, y)) * 0.5);
    return rm_c(t * scale, y / (2 * t) * scale);
  }
  const double t = __builtin_sqrt((-x + rm_hypot_f64(x, y)) * 0.5);
  return rm_c(rm_c_abs1(y) / (2 * t) * scale, rm_c_copysign(t, y) * scale);
}

static inline rm_complex rm_c_sinh(double x, double y) {
  if (rm_is_finite(x) && rm_is_finite(y)) {
    if (y == 0) return rm_c(rm_sinh_f64(x), y);
    if (rm_c_abs1(x) < 700) return rm_c(rm_sinh_f64(x) * cos(y), rm_cosh_f64(x) * sin(y));
    return rm_c_times_exp(rm_c_abs1(x), cos(y), sin(y), rm_c_copysign(0.5, x), 0.5);
  }
  if (x == 0) return rm_c(x, NAN);
  if (y == 0) return rm_c(x, y);
  if (rm_is_finite(x)) return rm_c(NAN, NAN);
  if (rm_isinf_f64(x)) {
    if (!rm_is_finite(y)) return rm_c(x, NAN);
    return rm_c(x * cos(y), INFINITY * sin(y));
  }
  return rm_c(NAN, NAN);
}

static inline rm_complex rm_c_cosh(double x, double y) {
  if (rm_is_finite(x) && rm_is_finite(y)) {
    if (y == 0) return rm_c(rm_cosh_f64(x), x * y);
    if (rm_c_abs1(x) < 700) return rm_c(rm_cosh_f64(x) * cos(y), rm_sinh_f64(x) * sin(y));
    return rm_c_times_exp(rm_c_abs1(x), cos(y), sin(y), 0.5, rm_c_copysign(0.5, x));
  }
  if (x == 0) return rm_c(NAN, x * rm_c_copysign(0, y));
  if (y == 0) return rm_c(x * x, rm_c_copysign(0, x) * y);
  if (rm_is_finite(x)) return rm_c(NAN, NAN);
  if (rm_isinf_f64(x)) {
    if (!rm_is_finite(y)) return rm_c(INFINITY, NAN);
    return rm_c(INFINITY * cos(y), x * sin(y));
  }
  return rm_c(NAN, NAN);
}

/* Kahan's algorithm. */
static inline rm_complex rm_c_tanh(double x, double y) {
  if (!rm_is_finite(x)) {
    if (x != x) return rm_c(x, y == 0 ? y : NAN);
    return rm_c(rm_c_copysign(1, x), rm_c_copysign(0, rm_is_finite(y) ? sin(y) * cos(y) : y));
  }
  if (!rm_is_finite(y)) return rm_c(x == 0 ? x : NAN, NAN);
  if (rm_c_abs1(x) >= 22) {
    const double e = rm_exp_f64(-rm_c_abs1(x));
    return rm_c(rm_c_copysign(1, x), 4 * sin(y) * cos(y) * e * e);
  }
  const double t = tan(y), beta = 1 + t * t, s = rm_sinh_f64(x), rho = __builtin_sqrt(1 + s * s);
  if (!rm_is_finite(t)) return rm_c(rho / s, 1 / t);
  const double denominator = 1 + beta * s * s;
  return rm_c(beta * rho * s / denominator, t / denominator);
}

/* z times i, without its sign: f(iz) = i g(z) for sin, tan, asin and atan. */
static inline rm_complex rm_c_swap(rm_complex z) { return rm_c(z.im, z.re); }

/* ---- inverse functions: Hull, Fairgrieve and Tang, as in FreeBSD ------------------------------ */

/* Half of hypot(a, b) - b. */
static inline double rm_c_half_difference(double a, double b, double h) {
  if (b < 0) return (h - b) / 2;
  return b == 0 ? a / 2 : a * a / (h + b) / 2;
}

/* What asinh and acos of x + iy have in common, for x, y >= 0. */
typedef struct {
  double rx, b, root, y;
  int usable;
} rm_c_arc_parts;

static inline rm_c_arc_parts rm_c_arc(double x, double y) {
  const double epsilon = 0x1p-52, scale = 2 / epsilon;
  const double r = rm_hypot_f64(x, y + 1), s = rm_hypot_f64(x, y - 1), half = (r + s) / 2;
  const double a = half < 1 ? 1 : half;
  rm_c_arc_parts parts;
  if (a < 10) {
    if (y == 1 && x < epsilon * epsilon / 128) parts.rx = __builtin_sqrt(x);
    else if (x >= epsilon * rm_c_abs1(y - 1)) {
      const double am1 = rm_c_half_difference(x, 1 + y, r) + rm_c_half_difference(x, 1 - y, s);
      parts.rx = rm_log1p_f64(am1 + __builtin_sqrt(am1 * (a + 1)));
    } else if (y < 1) parts.rx = x / __builtin_sqrt((1 - y) * (1 + y));
    else parts.rx = rm_log1p_f64(y - 1 + __builtin_sqrt((y - 1) * (y + 1)));
  } else parts.rx = rm_log_f64(a + __builtin_sqrt(a * a - 1));
  parts.usable = 0;
  parts.y = y;
  parts.b = 0;
  parts.root = 0;
  if (y < 5.966672584960165e-154) {
    parts.root = a * scale;
    parts.y = y * scale;
    return parts;
  }
  parts.b = y / a;
  if (parts.b <= 0.6417) {
    parts.usable = 1;
    return parts;
  }
  if (y == 1 && x < epsilon / 128) parts.root = __builtin_sqrt(x) * __builtin_sqrt((a + y) / 2);
  else if (x >= epsilon * rm_c_abs1(y - 1)) {
    const double amy = rm_c_half_difference(x, y + 1, r) + rm_c_half_difference(x, y - 1, s);
    parts.root = __builtin_sqrt(amy * (a + y));
  } else if (y > 1) {
    parts.root = x * scale * scale * y / __builtin_sqrt((y + 1) * (y - 1));
    parts.y = y * scale * scale;
  } else parts.root = __builtin_sqrt((1 - y) * (1 + y));
  return parts;
}

static inline rm_complex rm_c_asinh(double re, double im) {
  const double x = rm_c_abs1(re), y = rm_c_abs1(im);
  if (x != x || y != y) {
    if (x == INFINITY) return rm_c(re, im + im);
    if (y == INFINITY) return rm_c(im, re + re);
    if (im == 0) return rm_c(re + re, im);
    return rm_c(NAN, NAN);
  }
  if (x > RM_COMPLEX_RECIPROCAL_EPSILON || y > RM_COMPLEX_RECIPROCAL_EPSILON) {
    const double far = rm_c_log_abs(x, y) + RM_COMPLEX_LN2;
    return rm_c(rm_c_copysign(far, re), rm_c_copysign(rm_atan2_f64(y, x), im));
  }
  if ((x == 0 && y == 0) || (x < 9e-9 && y < 9e-9)) return rm_c(re, im);
  const rm_c_arc_parts p = rm_c_arc(x, y);
  const double angle = p.usable ? rm_asin_f64(p.b) : rm_atan2_f64(p.y, p.root);
  return rm_c(rm_c_copysign(p.rx, re), rm_c_copysign(angle, im));
}

static inline rm_complex rm_c_acos(double re, double im) {
  const double x = rm_c_abs1(re), y = rm_c_abs1(im);
  const int left = rm_signbit_f64(re) != 0, below = rm_signbit_f64(im) != 0;
  if (x != x || y != y) {
    if (x == INFINITY) return rm_c(y + y, -INFINITY);
    if (y == INFINITY) return rm_c(x + x, -im);
    if (re == 0) return rm_c(RM_COMPLEX_PI / 2, y + y);
    return rm_c(NAN, NAN);
  }
  if (x > RM_COMPLEX_RECIPROCAL_EPSILON || y > RM_COMPLEX_RECIPROCAL_EPSILON) {
    const double far = rm_c_log_abs(x, y) + RM_COMPLEX_LN2;
    return rm_c(rm_c_abs1(rm_atan2_f64(im, re)), below ? far : -far);
  }
  if (x == 1 && y == 0) return rm_c(left ? RM_COMPLEX_PI : 0, -im);
  if (x < 9e-9 && y < 9e-9) return rm_c(RM_COMPLEX_PI / 2 - re, -im);
  const rm_c_arc_parts p = rm_c_arc(y, x);
  const double angle = p.usable ? rm_acos_f64(left ? -p.b : p.b)
                                : rm_atan2_f64(p.root, left ? -p.y : p.y);
  return rm_c(angle, below ? p.rx : -p.rx);
}

static inline rm_complex rm_c_acosh(double x, double y) {
  const rm_complex z = rm_c_acos(x, y);
  if (z.re != z.re && z.im != z.im) return rm_c(z.im, z.re);
  if (z.re != z.re) return rm_c(rm_c_abs1(z.im), z.re);
  if (z.im != z.im) return rm_c(z.im, z.re);
  return rm_c(rm_c_abs1(z.im), rm_c_copysign(z.re, y));
}

/* The real part of 1 / (x + iy) for large parts. */
static inline double rm_c_real_reciprocal(double x, double y) {
  if (x == INFINITY || y == INFINITY) return 0;
  const double a = x * 0x1p-512, b = y * 0x1p-512, big = a >= b ? a : b, small = a >= b ? b : a;
  const double ratio = small / big;
  return a / big / (big * (1 + ratio * ratio)) * 0x1p-512;
}

static inline rm_complex rm_c_atanh(double re, double im) {
  const double x = rm_c_abs1(re), y = rm_c_abs1(im);
  if (y == 0 && x <= 1) return rm_c(rm_atanh_f64(re), im);
  if (x == 0) return rm_c(re, rm_atan_f64(im));
  if (x != x || y != y) {
    if (x == INFINITY) return rm_c(rm_c_copysign(0, re), im + im);
    if (y == INFINITY) return rm_c(rm_c_copysign(0, re), rm_c_copysign(RM_COMPLEX_PI / 2, im));
    return rm_c(NAN, NAN);
  }
  if (x > RM_COMPLEX_RECIPROCAL_EPSILON || y > RM_COMPLEX_RECIPROCAL_EPSILON) {
    return rm_c(rm_c_copysign(rm_c_real_reciprocal(x, y), re), rm_c_copysign(RM_COMPLEX_PI / 2, im));
  }
  if (x < 1.29e-8 && y < 1.29e-8) return rm_c(re, im);
  const double epsilon = 0x1p-52;
  const double rx = x == 1 && y < epsilon
                        ? (RM_COMPLEX_LN2 - rm_log_f64(y)) / 2
                        : rm_log1p_f64(4 * x / ((x - 1) * (x - 1) + y * y)) / 4;
  const double across = (1 - x) * (1 + x) - (y < epsilon ? 0 : y * y);
  const double ry = x == 1 ? rm_atan2_f64(2, -y) / 2 : rm_atan2_f64(2 * y, across) / 2;
  return rm_c(rm_c_copysign(rx, re), rm_c_copysign(ry, im));
}

/* A product; unless `plain`, with its error. */
static inline rm_complex rm_c_product(rm_complex x, rm_complex y, int plain, rm_complex *error) {
  const double p = x.re * y.re, q = x.im * y.im, s = x.re * y.im, t = x.im * y.re;
  if (plain) return rm_c(p - q, s + t);
  const rm_double2 re = rm_d2_sum(rm_d2(p, rm_product_error(x.re, y.re, p)),
                                  rm_d2(-q, -rm_product_error(x.im, y.im, q)));
  const rm_double2 im = rm_d2_sum(rm_d2(s, rm_product_error(x.re, y.im, s)),
                                  rm_d2(t, rm_product_error(x.im, y.re, t)));
  *error = rm_c(re.low, im.low);
  return rm_c(re.high, im.high);
}

static inline rm_complex rm_c_add(rm_complex x, rm_complex y) {
  return rm_c(x.re + y.re, x.im + y.im);
}

/* x to the power n, from 1 on; plain, or with the errors of the products. */
static inline rm_complex rm_c_multiplied(rm_complex x, int n, int plain) {
  const rm_complex zero = rm_c(0, 0);
  rm_complex power = x, made = x, power_error = zero, made_error = zero, error = zero;
  for (int first = 1;;) {
    if (n & 1) {
      if (first) made = power, made_error = power_error;
      else {
        const rm_complex next = rm_c_product(made, power, plain, &error);
        made_error = rm_c_add(
            error, rm_c_add(rm_c_mul(made, power_error), rm_c_mul(made_error, power)));
        made = next;
      }
      first = 0;
    }
    n >>= 1;
    if (n == 0) return plain ? made : rm_c_add(made, made_error);
    const rm_complex next = rm_c_product(power, power, plain, &error), more = rm_c_mul(power, power_error);
    power_error = rm_c_add(error, rm_c_add(more, more));
    power = next;
  }
}

/* a p + b q */
static inline rm_double2 rm_c_sum_of_products(rm_double2 a, double p, rm_double2 b, double q) {
  return rm_d2_sum(rm_d2_times(a, p), rm_d2_times(b, q));
}

/* Unless `wide`, to the digits of floats. */
static inline rm_complex rm_c_pow(rm_complex x, rm_complex y, int wide) {
  if (y.re == 0 && y.im == 0) return rm_c(1, 0);
  if (x.re == 0 && x.im == 0) return y.re > 0 ? rm_c(0, 0) : rm_c(NAN, NAN);
  if (y.im == 0 && rm_c_abs1(y.re) < 100 && __builtin_floor(y.re) == y.re) {
    const int n = (int)rm_c_abs1(y.re);
    rm_complex made = rm_c_multiplied(x, n, !wide || n <= 4);
    /* Of numbers that overflow, or nearly do, errors are NaN. */
    if (!rm_is_finite(made.re) || !rm_is_finite(made.im)) made = rm_c_multiplied(x, n, 1);
    return y.re > 0 ? made : rm_c_div(rm_c(1, 0), made);
  }
  if (!wide || !rm_is_finite(x.re) || !rm_is_finite(x.im) || !rm_c_can_double(y.re, y.im)) {
    const double re = rm_c_log_abs(x.re, x.im), im = rm_atan2_f64(x.im, x.re);
    return rm_c_exp(y.re * re - y.im * im, y.re * im + y.im * re);
  }
  const rm_double2 log = rm_d2_log_abs(x.re, x.im), angle = rm_d2_angle(x.re, x.im);
  return rm_c_exp_of_sums(rm_c_sum_of_products(log, y.re, angle, -y.im),
                          rm_c_sum_of_products(angle, y.re, log, y.im));
}

static inline rm_complex rm_c_sign(double x, double y) {
  const double m = rm_c_abs(rm_c(x, y));
  if (m == 0) return rm_c(0, 0);
  if (m == INFINITY && x == x && y == y) {
    const double a = rm_is_finite(x) ? 0 : rm_c_copysign(1, x);
    const double b = rm_is_finite(y) ? 0 : rm_c_copysign(1, y), both = rm_hypot_f64(a, b);
    return rm_c(a / both, b / both);
  }
  return rm_c(x / m, y / m);
}

#endif
