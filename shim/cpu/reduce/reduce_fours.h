/*
 * A sum of many floats of up to 32 bits: four at a time in float32, and those in double.
 *
 * Included by reduce_float.c once for each dtype and what its elements are mapped by, with FOURS for
 * the function's name, TYPE, WIDEN(p), which loads 16 of them as float32, MAP(x), and two of which a
 * comment there tells: LEAST and ALONE. No guard.
 */

static RM_KERNEL void FOURS(const job *j, ptrdiff_t n, const void *from, double y, cells *c) {
  const TYPE *p = from;
  f64x8 low = 0, high = 0;
  ptrdiff_t i = 0;
  (void)j;
  for (; i + 64 <= n; i += 64) {
    const f32x16 x = FOUR(MAP(WIDEN(p + i)), MAP(WIDEN(p + i + 16)), MAP(WIDEN(p + i + 32)),
                          MAP(WIDEN(p + i + 48)));
    low += DOUBLES(x.lo), high += DOUBLES(x.hi);
  }
  for (; i + 16 <= n; i += 16) {
    const f32x16 x = MAP(WIDEN(p + i));
    low += DOUBLES(x.lo), high += DOUBLES(x.hi);
  }
  if (i < n && n >= 16) {
    /* What is left over, as part of the sixteen that end with it. */
    const i32x16 bits = (i32x16)MAP(WIDEN(p + n - 16));
    const f32x16 x = (f32x16)(bits & (FIRST_16 >= (int32_t)(i + 16 - n)));
    low += DOUBLES(x.lo), high += DOUBLES(x.hi);
  }
  low += high;
  const f64x4 fours = low.lo + low.hi;
  const f64x2 twos = fours.lo + fours.hi;
  double sum = twos.x + twos.y;
  if (n < 16 || sum - sum != 0 || sum < LEAST * (double)n) sum = ALONE(n, p, y);
  *(double *)c->acc += sum;
}

#undef FOURS
#undef TYPE
#undef WIDEN
#undef MAP
#undef LEAST
#undef ALONE
