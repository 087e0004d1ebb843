/*
 * Exact primitives of one float type.
 *
 * Included by float_core.h once for float32 and once for float64, with TYPE, SUFFIX, BUILTIN(name)
 * (the builtin function) and SIGN_BIT. It has no include guard.
 */

#define NAME_(name, suffix) name##_##suffix
#define NAME_OF(name, suffix) NAME_(name, suffix)
#define NAME(name) NAME_OF(name, SUFFIX)

static inline TYPE NAME(rm_fabs)(TYPE x) { return BUILTIN(fabs)(x); }
static inline TYPE NAME(rm_sqrt)(TYPE x) { return BUILTIN(sqrt)(x); }
static inline TYPE NAME(rm_floor)(TYPE x) { return BUILTIN(floor)(x); }
static inline TYPE NAME(rm_ceil)(TYPE x) { return BUILTIN(ceil)(x); }
static inline TYPE NAME(rm_trunc)(TYPE x) { return BUILTIN(trunc)(x); }
static inline TYPE NAME(rm_rint)(TYPE x) { return BUILTIN(rint)(x); }
static inline TYPE NAME(rm_copysign)(TYPE x, TYPE y) {
  /* NaN counts as positive. */
  return BUILTIN(copysign)(x, y != y ? (TYPE)0 : y);
}
static inline int NAME(rm_isnan)(TYPE x) { return x != x; }
static inline int NAME(rm_isinf)(TYPE x) { return BUILTIN(fabs)(x) == (TYPE)INFINITY; }
static inline int NAME(rm_isfinite)(TYPE x) { return x - x == 0; }
static inline int NAME(rm_signbit)(TYPE x) {
  return (int)(NAME(rm_bits)(x) >> SIGN_BIT) & (x == x);
}
static inline TYPE NAME(rm_sign)(TYPE x) {
  const TYPE unit = x > 0 ? (TYPE)1 : (TYPE)-1;
  const TYPE signed_unit = x == 0 ? (TYPE)0 : unit;
  return x != x ? x : signed_unit;
}
static inline TYPE NAME(rm_maximum)(TYPE x, TYPE y) { return ((x > y) | (x != x)) ? x : y; }
static inline TYPE NAME(rm_minimum)(TYPE x, TYPE y) { return ((x < y) | (x != x)) ? x : y; }

#undef NAME_
#undef NAME_OF
#undef NAME
#undef TYPE
#undef SUFFIX
#undef BUILTIN
#undef SIGN_BIT
