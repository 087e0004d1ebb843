/*
 * Powers, shifts and common divisors of one integer type.
 *
 * Included by intmath.h once per type, with TYPE, SUFFIX, UNSIGNED (of the same size) and WIDE (of
 * at least 32 bits), in which everything is computed, because uint16 would be promoted to int. It
 * has no include guard.
 */

#define NAME_(name, suffix) name##_##suffix
#define NAME_OF(name, suffix) NAME_(name, suffix)
#define NAME(name) NAME_OF(name, SUFFIX)

static inline TYPE NAME(rm_ipow)(TYPE x, TYPE y) {
  const WIDE minus_one = (WIDE)0 - 1;
  if ((TYPE)-1 < (TYPE)1 && y < (TYPE)1 && y != 0) {
    return (TYPE)(x == 1 ? 1 : (WIDE)x == minus_one ? ((y & 1) != 0 ? minus_one : 1) : 0);
  }
  WIDE result = 1, power = (WIDE)x;
  for (WIDE n = (WIDE)(UNSIGNED)y; n != 0; n >>= 1) {
    result *= (n & 1) != 0 ? power : 1;
    power *= power;
  }
  return (TYPE)result;
}

static inline TYPE NAME(rm_shl)(TYPE x, TYPE n, int bits) {
  const WIDE count = (WIDE)(UNSIGNED)n;
  const WIDE shifted = (WIDE)x << (count & (WIDE)(bits - 1));
  return (TYPE)(count >= (WIDE)bits ? 0 : shifted);
}

static inline TYPE NAME(rm_shr)(TYPE x, TYPE n, int bits) {
  const WIDE count = (WIDE)(UNSIGNED)n;
  const TYPE shifted = (TYPE)(x >> (count & (WIDE)(bits - 1)));
  return (TYPE)(count >= (WIDE)bits ? 0 : shifted);
}

/* The greatest common divisor of the absolute values, by Euclid's algorithm. */
static inline WIDE NAME(rm_divisor)(TYPE x, TYPE y) {
  WIDE a = x < (TYPE)1 ? (WIDE)0 - (WIDE)x : (WIDE)x, b = y < (TYPE)1 ? (WIDE)0 - (WIDE)y : (WIDE)y;
  while (b != 0) {
    const WIDE rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static inline TYPE NAME(rm_igcd)(TYPE x, TYPE y) { return (TYPE)NAME(rm_divisor)(x, y); }

static inline TYPE NAME(rm_ilcm)(TYPE x, TYPE y) {
  const WIDE divisor = NAME(rm_divisor)(x, y);
  const WIDE a = x < (TYPE)1 ? (WIDE)0 - (WIDE)x : (WIDE)x, b = y < (TYPE)1 ? (WIDE)0 - (WIDE)y : (WIDE)y;
  return (TYPE)(divisor == 0 ? 0 : a / divisor * b);
}

#undef NAME_
#undef NAME_OF
#undef NAME
#undef TYPE
#undef SUFFIX
#undef UNSIGNED
#undef WIDE
