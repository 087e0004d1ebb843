/*
 * Exponentials of one float type, and functions based on them.
 *
 * Included by float_exp.h once for float32 and once for float64, with TYPE, SUFFIX, BUILTIN(name)
 * (the builtin function), the bounds beyond which results are 0, infinite or saturated, and the
 * constants of the logistic function. It has no include guard.
 */

#define NAME_(name, suffix) name##_##suffix
#define NAME_OF(name, suffix) NAME_(name, suffix)
#define NAME(name) NAME_OF(name, SUFFIX)

/* e^x - 1 for x up to 89 and 710, and not far below 0. The sign of zero is lost. */
static inline TYPE NAME(rm_expm1_core)(TYPE x) {
  TYPE r, half, rest;
  const TYPE q = NAME(rm_exp_parts)(x, (TYPE)-0.0, &r, &half, &rest);
  const TYPE g = r + NAME(rm_fma)(r * r, q, NAME(rm_exp_rounding_error)(x, r));
  const TYPE result = NAME(rm_fma)(half, g, half - (TYPE)0.5);
  return result + result;
}

static inline TYPE NAME(rm_exp)(TYPE x) {
  TYPE rest;
  const TYPE e = NAME(rm_exp_scaled)(NAME(rm_clamp)(x, EXP_MIN, EXP_MAX), (TYPE)-0.0, &rest);
  return e * rest;
}
static inline TYPE NAME(rm_expm1)(TYPE x) {
  const TYPE result = NAME(rm_expm1_core)(NAME(rm_clamp)(x, -2 * SATURATED, EXP_MAX));
  return BUILTIN(fabs)(x) < (TYPE)0x1p-60 ? x : result;
}
static inline TYPE NAME(rm_sinh)(TYPE x) {
  const TYPE a = BUILTIN(fabs)(x), bounded = a > HYPERBOLIC_MAX ? HYPERBOLIC_MAX : a;
  NAME(RM_HYPERBOLIC)(bounded)
  const TYPE half = (up - down) + NAME(rm_fma)(up - down, even, (up + down) * odd);
  return BUILTIN(copysign)(a < (TYPE)0x1p-60 ? a : half + half, x);
}
static inline TYPE NAME(rm_cosh)(TYPE x) {
  const TYPE a = BUILTIN(fabs)(x), bounded = a > HYPERBOLIC_MAX ? HYPERBOLIC_MAX : a;
  NAME(RM_HYPERBOLIC)(bounded)
  const TYPE rest = NAME(rm_fma)(up + down, even, down);
  const TYPE half = up + NAME(rm_fma)(up - down, odd, rest);
  return half + half;
}

/* (1 + e^-x) LOGISTIC_UNIT, because e^-x may overflow. */
static inline TYPE NAME(rm_logistic_below)(TYPE x) {
  TYPE shifted, r;
  const TYPE bounded = NAME(rm_clamp)(x, LOGISTIC_MIN, LOGISTIC_MAX), none = (TYPE)-0.0;
  const TYPE q = NAME(rm_exp_series)(-bounded, none, LOGISTIC_BIAS, &shifted, &r);
  const TYPE scale = NAME(rm_from_bits)(NAME(rm_bits)(shifted) << MANTISSA_BITS);
  const TYPE sum = scale + LOGISTIC_UNIT, lost = sum == scale ? LOGISTIC_UNIT : 0;
  return sum + NAME(rm_fma)(scale, NAME(rm_fma)(r * r, q, r), lost);
}
static inline TYPE NAME(rm_sigmoid)(TYPE x) {
  return 1 / NAME(rm_logistic_below)(x) * LOGISTIC_UNIT;
}
static inline TYPE NAME(rm_silu)(TYPE x) {
  /* If this overflows, the result is x. */
  const TYPE quotient = x / NAME(rm_logistic_below)(x) * LOGISTIC_UNIT, largest = x > 0 ? x : 0;
  return x < LOGISTIC_MIN ? x * 0 : quotient > largest ? largest : quotient;
}

#undef NAME_
#undef NAME_OF
#undef NAME
#undef TYPE
#undef SUFFIX
#undef BUILTIN
#undef EXP_MIN
#undef EXP_MAX
#undef SATURATED
#undef HYPERBOLIC_MAX
#undef LOGISTIC_MIN
#undef LOGISTIC_MAX
#undef LOGISTIC_BIAS
#undef LOGISTIC_UNIT
#undef MANTISSA_BITS
