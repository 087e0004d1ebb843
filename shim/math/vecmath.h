/*
 * The float primitives of the op table's expressions, one element at a time, for float32 and
 * float64; what each means is said beside its namesake in src/backend/js/primitives.ts.
 *
 * Without branches, tables or calls, so that loops over them become vector code; the exceptions are
 * ffloordiv and fmod.
 *
 * rm_sin, rm_cos, rm_tan and rm_log_normal, rm_log2_normal, rm_log10_normal are for most operands
 * only, those whose rm_turn_key or rm_log_key is not rare: a loop over a block asks that first. For
 * what is rare there are the C library's sin, cos and tan of double, good enough for every float
 * too, and rm_log and its kin, which give the very same for the others.
 *
 * Knows nothing of ops, loops and dtypes. Needs -ffp-contract=off. Also part of the device code, which
 * includes cuda/device.h first.
 *
 * docs/architecture.md has the largest errors of float32. Those found in float64, in units in the
 * last place, against 80-bit and 128-bit libm at all levels, 1e5 points and more over all bit
 * patterns and over the ranges where results vary:
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

#endif
