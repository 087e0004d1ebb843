/*
 * The float primitives of the op table's expressions, one element at a time, for float32 and
 * float64. src/backend/js/primitives.ts documents each of them.
 *
 * The functions have no branches, tables or calls, so that loops over them are vectorized. The
 * exceptions are ffloordiv and fmod.
 *
 * rm_sin, rm_cos, rm_tan, rm_log_normal, rm_log2_normal and rm_log10_normal are valid for most
 * operands only: those whose rm_trig_key or rm_log_key does not need the fallback. Loops check the
 * keys of a block first. The fallbacks are the C library's sin, cos and tan of double, which are
 * accurate for all floats, and rm_log, rm_log2 and rm_log10, which give equal results for all other
 * operands.
 *
 * Needs -ffp-contract=off. Also part of device code, which includes device.h first.
 *
 * docs/architecture.md lists the maximum errors of float32. The maximum errors found in float64, in
 * ulp, against 80-bit and 128-bit libm with all instruction sets, for at least 1e5 points over all
 * bit patterns and over the ranges where results vary:
 *
 *   log1p 1.2  asinh 1.7  acosh 1.9  atanh 1.6  hypot 1.2  pow 1.2  sin 1.4  cos 1.5  tan 2.6
 *   exp 1.0  expm1 1.5  exp2 1.2  log 0.8  log2 1.8  log10 1.8  asin 1.7  acos 1.2  atan 1.2
 *   atan2 1.5  sinh 2.2  cosh 1.4  tanh 2.3  erf 1.3  sigmoid 1.6  silu 1.8  gelu 4.8
 *   logaddexp 1.3, of the larger operand
 */
#ifndef ROWMAJOR_VECMATH_H
#define ROWMAJOR_VECMATH_H

#include "float_arc.h"
#include "float_core.h"
#include "float_division.h"
#include "float_erf.h"
#include "float_exp.h"
#include "float_log.h"
#include "float_pow.h"
#include "float_trig.h"
#include "special_functions.h"

#endif
