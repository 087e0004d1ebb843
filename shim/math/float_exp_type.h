/*
 * Exponentials of one float type, and what is made of them.
 *
 * Included by float_exp.h once for float32 and once for float64, with TYPE, SUFFIX, BUILTIN(name),
 * the compiler's function, the bounds of operands beyond which results are 0, infinite or saturated,
 * and numbers of the logistic function. No guard.
 */

#define NAME_(name, suffix) name##_##suffix
#define NAME_OF(name, suffix) NAME_(name, suffix)
#define NAME(name) NAME_OF(name, SUFFIX)

/* e^x - 1 for x <= 89 and 710, and not far below 0; the sign of a zero is lost. */
static inline TYPE NAME(rm_expm1_core)(TYPE x) {
  TYPE r, half, rest;
  const TYPE q = NAME(rm_exp_parts)(x, (TYPE)-0.0, &r, &half, &rest);
  const TYPE g = r + NAME(rm_fma)(r * r, q, NAME(rm_exp_lost)(x, r));
  const TYPE result = NAME(rm_fma)(half, g, half - (TYPE)0.5);
  return result + result;
}

static inline TYPE NAME(rm_exp)(TYPE x) {
  TYPE rest;
  const TYPE e = NAME(rm_exp_scaled)(NAME(rm_clamp)(x, EXP_LEAST, EXP_MOST), (TYPE)-0.0, &rest);
  return e * rest;
}
static inline TYPE NAME(rm_expm1)(TYPE x) {
  const TYPE result = NAME(rm_expm1_core)(NAME(rm_clamp)(x, -2 * SATURATED, EXP_MOST));
  return BUILTIN(fabs)(x) < (TYPE)0x1p-60 ? x : result;
}
static inline TYPE NAME(rm_sinh)(TYPE x) {
  const TYPE a = BUILTIN(fabs)(x), bounded = a > HYPERBOLIC_MOST ? HYPERBOLIC_MOST : a;
  NAME(RM_HYPERBOLIC)(bounded)
  const TYPE half = (up - down) + NAME(rm_fma)(up - down, even, (up + down) * odd);
  return BUILTIN(copysign)(a < (TYPE)0x1p-60 ? a : half + half, x);
}
static inline TYPE NAME(rm_cosh)(TYPE x) {
  const TYPE a = BUILTIN(fabs)(x), bounded = a > HYPERBOLIC_MOST ? HYPERBOLIC_MOST : a;
  NAME(RM_HYPERBOLIC)(bounded)
  const TYPE rest = NAME(rm_fma)(up + down, even, down);
  const TYPE half = up + NAME(rm_fma)(up - down, odd, rest);
  return half + half;
}

/* (1 + e^-x) LOGISTIC_UNIT, as e^-x may be larger than the largest number. */
static inline TYPE NAME(rm_logistic_below)(TYPE x) {
  TYPE shifted, r;
  const TYPE bounded = NAME(rm_clamp)(x, LOGISTIC_LEAST, LOGISTIC_MOST), none = (TYPE)-0.0;
  const TYPE q = NAME(rm_exp_series)(-bounded, none, LOGISTIC_BIAS, &shifted, &r);
  const TYPE scale = NAME(rm_pattern)(NAME(rm_bits_of)(shifted) << MANTISSA_BITS);
  const TYPE sum = scale + LOGISTIC_UNIT, lost = sum == scale ? LOGISTIC_UNIT : 0;
  return sum + NAME(rm_fma)(scale, NAME(rm_fma)(r * r, q, r), lost);
}
static inline TYPE NAME(rm_sigmoid)(TYPE x) { return 1 / NAME(rm_logistic_below)(x) * LOGISTIC_UNIT; }
static inline TYPE NAME(rm_silu)(TYPE x) {
  /* Where this overflows, the result is x. */
  const TYPE quotient = x / NAME(rm_logistic_below)(x) * LOGISTIC_UNIT, largest = x > 0 ? x : 0;
  return x < LOGISTIC_LEAST ? x * 0 : quotient > largest ? largest : quotient;
}

#undef NAME_
#undef NAME_OF
#undef NAME
#undef TYPE
#undef SUFFIX
#undef BUILTIN
#undef EXP_LEAST
#undef EXP_MOST
#undef SATURATED
#undef HYPERBOLIC_MOST
#undef LOGISTIC_LEAST
#undef LOGISTIC_MOST
#undef LOGISTIC_BIAS
#undef LOGISTIC_UNIT
#undef MANTISSA_BITS
