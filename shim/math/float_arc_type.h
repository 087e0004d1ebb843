/*
 * Inverse trigonometric functions of one float type.
 *
 * Included by float_arc.h once for float32 and once for float64, with TYPE, SUFFIX, BUILTIN(name)
 * (the builtin function), FLAT and STEEP (the slopes between octants), BIG (the limit from which
 * operands are scaled) and TINY (the scale). It has no include guard.
 */

#define NAME_(name, suffix) name##_##suffix
#define NAME_OF(name, suffix) NAME_(name, suffix)
#define NAME(name) NAME_OF(name, SUFFIX)

/* Above 1/2: asin(a) = pi/2 - 2 asin(s), s^2 = (1 - a) / 2. */
static inline TYPE NAME(rm_asin)(TYPE x) {
  const TYPE a = BUILTIN(fabs)(x);
  const int is_large = a > (TYPE)0.5;
  const TYPE z = is_large ? (1 - a) * (TYPE)0.5 : a * a;
  const TYPE s = is_large ? BUILTIN(sqrt)(z) : a;
  const TYPE cube = s * z, q = NAME(rm_asin_series)(z);
  const TYPE angle = s + NAME(rm_fma)(cube, q, -NAME(RM_PI_LOW) / 4);
  const TYPE large = NAME(RM_PI) / 2 - (angle + angle);
  return BUILTIN(copysign)(is_large ? large : NAME(rm_fma)(cube, q, s), x);
}
static inline TYPE NAME(rm_acos)(TYPE x) {
  const TYPE a = BUILTIN(fabs)(x);
  const int is_large = a > (TYPE)0.5;
  const TYPE z = is_large ? (1 - a) * (TYPE)0.5 : a * a;
  const TYPE s = is_large ? BUILTIN(sqrt)(z) : BUILTIN(copysign)(a, x);
  const TYPE angle = NAME(rm_fma)(s * z, NAME(rm_asin_series)(z), s);
  const TYPE right = NAME(RM_PI) / 2 - (angle - NAME(RM_PI_LOW) / 2), twice = angle + angle;
  const TYPE far = x < 0 ? NAME(RM_PI) - (twice - NAME(RM_PI_LOW)) : twice;
  return is_large ? far : right;
}
/* The angle of (x, y) for nonnegative x and y, with a single division for all octants. */
static inline TYPE NAME(rm_angle)(TYPE y, TYPE x) {
  const int is_steep = y > x * STEEP;
  const int is_flat = y <= x * FLAT;
  const TYPE middle_n = y - x, middle_d = y + x;
  const TYPE n = is_flat ? y : is_steep ? -x : middle_n;
  const TYPE d = is_flat ? x : is_steep ? y : middle_d;
  const TYPE base = is_flat ? 0 : is_steep ? NAME(RM_PI) / 2 : NAME(RM_PI) / 4;
  const TYPE base_low = is_flat ? 0 : is_steep ? NAME(RM_PI_LOW) / 2 : NAME(RM_PI_LOW) / 4;
  const TYPE t = n / d, z = t * t;
  return base + (t + NAME(rm_fma)(t * z, NAME(rm_atan_series)(z), base_low));
}
static inline TYPE NAME(rm_atan)(TYPE x) {
  const TYPE a = BUILTIN(fabs)(x);
  return BUILTIN(copysign)(NAME(rm_angle)(a > BIG ? BIG : a, 1), x);
}
/* Scaled, so that sums do not overflow. */
static inline TYPE NAME(rm_atan2)(TYPE y, TYPE x) {
  const TYPE ay = BUILTIN(fabs)(y), ax = BUILTIN(fabs)(x);
  const int both_infinite = (ax == (TYPE)INFINITY) & (ay == (TYPE)INFINITY);
  const TYPE scale = ((ay > BIG) | (ax > BIG)) ? TINY : 1;
  const TYPE v = both_infinite ? 1 : ay * scale, u = both_infinite ? 1 : ax * scale;
  const int is_origin = (ax == 0) & (ay == 0);
  const TYPE angle = NAME(rm_angle)(v, is_origin ? 1 : u);
  /* Tests the sign bit of x, because -0 counts as negative. */
  const int is_left = BUILTIN(copysign)(1, x) < 0;
  const TYPE left = NAME(RM_PI) - (angle - NAME(RM_PI_LOW));
  const TYPE result = is_left ? left : angle;
  return BUILTIN(copysign)(((x != x) | (y != y)) ? (TYPE)NAN : result, y);
}

#undef NAME_
#undef NAME_OF
#undef NAME
#undef TYPE
#undef SUFFIX
#undef BUILTIN
#undef FLAT
#undef STEEP
#undef BIG
#undef TINY
