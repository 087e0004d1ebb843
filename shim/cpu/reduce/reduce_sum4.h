/*
 * The sum of many floats of up to 32 bits: four at a time in float32, their sums in double.
 *
 * Included by reduce_float.c once per dtype and mapping, with SUM4 (the function's name), TYPE,
 * WIDEN(p) (loads 16 elements as float32), MAP(x), and MIN_PER_ELEMENT and FALLBACK, which
 * reduce_float.c explains. It has no include guard.
 */

static RM_KERNEL void SUM4(const reduce_context *ctx, ptrdiff_t n, const void *from, double y,
                           accumulators *c) {
  const TYPE *p = from;
  f64x8 low = 0, high = 0;
  ptrdiff_t i = 0;
  (void)ctx;
  for (; i + 64 <= n; i += 64) {
    const f32x16 x = SUM_OF_4(MAP(WIDEN(p + i)), MAP(WIDEN(p + i + 16)), MAP(WIDEN(p + i + 32)),
                              MAP(WIDEN(p + i + 48)));
    low += DOUBLES(x.lo), high += DOUBLES(x.hi);
  }
  for (; i + 16 <= n; i += 16) {
    const f32x16 x = MAP(WIDEN(p + i));
    low += DOUBLES(x.lo), high += DOUBLES(x.hi);
  }
  if (i < n && n >= 16) {
    /* The last elements, as part of the last 16. */
    const i32x16 bits = (i32x16)MAP(WIDEN(p + n - 16));
    const f32x16 x = (f32x16)(bits & (FIRST_16 >= (int32_t)(i + 16 - n)));
    low += DOUBLES(x.lo), high += DOUBLES(x.hi);
  }
  low += high;
  const f64x4 fours = low.lo + low.hi;
  const f64x2 twos = fours.lo + fours.hi;
  double sum = twos.x + twos.y;
  if (n < 16 || sum - sum != 0 || sum < MIN_PER_ELEMENT * (double)n) sum = FALLBACK(n, p, y);
  *(double *)c->acc += sum;
}

#undef SUM4
#undef TYPE
#undef WIDEN
#undef MAP
#undef MIN_PER_ELEMENT
#undef FALLBACK
