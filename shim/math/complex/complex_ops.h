/*
 * The ops on complex numbers by their numbers, RM_COMPLEX_..., which the file that includes this header
 * has as constants. Also part of device code.
 */
#ifndef ROWMAJOR_COMPLEX_OPS_H
#define ROWMAJOR_COMPLEX_OPS_H

#include "complex_math.h"

/* Op RM_COMPLEX_... of x and y; floats and bools are the real part. Unless `wide`, the result will be
 * rounded to floats. */
static inline rm_complex rm_complex_value(int op, rm_complex x, rm_complex y, int wide) {
  const double re = x.re, im = x.im;
  rm_complex z;
  switch (op) {
    case RM_COMPLEX_MUL: return rm_c_mul(x, y);
    case RM_COMPLEX_DIV: return rm_c_div(x, y);
    case RM_COMPLEX_CONJ: return rm_c(re, -im);
    case RM_COMPLEX_SQUARE: return rm_c_mul(x, x);
    case RM_COMPLEX_RECIPROCAL: return rm_c_div(rm_c(1, 0), x);
    case RM_COMPLEX_SIGN: return rm_c_sign(re, im);
    case RM_COMPLEX_SQRT: return rm_c_sqrt(re, im);
    case RM_COMPLEX_RSQRT: return rm_c_div(rm_c(1, 0), rm_c_sqrt(re, im));
    case RM_COMPLEX_EXP: return rm_c_exp(re, im);
    case RM_COMPLEX_EXPM1: return rm_c_expm1(re, im);
    case RM_COMPLEX_EXP2: return rm_c_exp2(re, im, wide);
    case RM_COMPLEX_LOG: return rm_c_log(re, im);
    case RM_COMPLEX_LOG1P: return rm_c_log1p(re, im);
    case RM_COMPLEX_LOG2:
      z = rm_c_log(re, im);
      return rm_c(z.re * 1.4426950408889634, z.im * 1.4426950408889634);
    case RM_COMPLEX_LOG10:
      z = rm_c_log(re, im);
      return rm_c(z.re * 0.4342944819032518, z.im * 0.4342944819032518);
    case RM_COMPLEX_SIN: return rm_c_swap(rm_c_sinh(im, re));
    case RM_COMPLEX_COS: return rm_c_cosh(-im, re);
    case RM_COMPLEX_TAN: return rm_c_swap(rm_c_tanh(im, re));
    case RM_COMPLEX_ASIN: return rm_c_swap(rm_c_asinh(im, re));
    case RM_COMPLEX_ACOS: return rm_c_acos(re, im);
    case RM_COMPLEX_ATAN: return rm_c_swap(rm_c_atanh(im, re));
    case RM_COMPLEX_SINH: return rm_c_sinh(re, im);
    case RM_COMPLEX_COSH: return rm_c_cosh(re, im);
    case RM_COMPLEX_TANH: return rm_c_tanh(re, im);
    case RM_COMPLEX_ASINH: return rm_c_asinh(re, im);
    case RM_COMPLEX_ACOSH: return rm_c_acosh(re, im);
    case RM_COMPLEX_ATANH: return rm_c_atanh(re, im);
    case RM_COMPLEX_POW: return rm_c_pow(x, y, wide);
    case RM_COMPLEX_ABS: return rm_c(rm_c_abs(x), 0);
    case RM_COMPLEX_ANGLE: return rm_c(rm_atan2_f64(im, re), 0);
    case RM_COMPLEX_EQUAL: return rm_c(re == y.re && im == y.im, 0);
    case RM_COMPLEX_NOT_EQUAL: return rm_c(re != y.re || im != y.im, 0);
    case RM_COMPLEX_ISNAN: return rm_c(re != re || im != im, 0);
    case RM_COMPLEX_ISINF: return rm_c(rm_isinf_f64(re) || rm_isinf_f64(im), 0);
    default: return rm_c(rm_is_finite(re) && rm_is_finite(im), 0);
  }
}

#endif
