/*
 * Reduces n elements in double.
 *
 * Included by reduce_float.c once per type, mapping and operation, with LANES (the function's
 * name), TYPE, VECTOR_OF_8 (8 elements), MAP(x), ACCUMULATE(a, x) and START. It has no include
 * guard.
 */

static inline double LANES(ptrdiff_t n, const TYPE *p, double y) {
  const f64x8 first = START;
  f64x8 s = first, t = first;
  ptrdiff_t i = 0;
  double rest = START;
  (void)y;
  if (n <= FEW_MAX) {
    /* The order of columns, as which such rows are reduced if there are many. */
    for (; i < n; i++) {
      const double x = (double)p[i];
      rest = ACCUMULATE(rest, MAP(x));
    }
    return rest;
  }
#ifdef __wasm__
  /* More do not fit registers: from memory, they take half as long again. JavaScript's loops have the
   * same order. */
  for (; i + 16 <= n; i += 16) {
    s = ACCUMULATE(s, MAP(__builtin_convertvector(LOAD(VECTOR_OF_8, p + i), f64x8)));
    t = ACCUMULATE(t, MAP(__builtin_convertvector(LOAD(VECTOR_OF_8, p + i + 8), f64x8)));
  }
#else
  f64x8 u = first, v = first;
  for (; i + 32 <= n; i += 32) {
    PREFETCH(p + i)
    const f64x8 a = __builtin_convertvector(LOAD(VECTOR_OF_8, p + i), f64x8);
    const f64x8 b = __builtin_convertvector(LOAD(VECTOR_OF_8, p + i + 8), f64x8);
    const f64x8 c = __builtin_convertvector(LOAD(VECTOR_OF_8, p + i + 16), f64x8);
    const f64x8 d = __builtin_convertvector(LOAD(VECTOR_OF_8, p + i + 24), f64x8);
    s = ACCUMULATE(s, MAP(a)), t = ACCUMULATE(t, MAP(b)), u = ACCUMULATE(u, MAP(c)),
    v = ACCUMULATE(v, MAP(d));
  }
  u = ACCUMULATE(u, v);
#endif
  for (; i + 8 <= n; i += 8) {
    const f64x8 a = __builtin_convertvector(LOAD(VECTOR_OF_8, p + i), f64x8);
    s = ACCUMULATE(s, MAP(a));
  }
  s = ACCUMULATE(s, t);
#ifndef __wasm__
  s = ACCUMULATE(s, u);
#endif
  const double half = ACCUMULATE(ACCUMULATE(s[0], s[4]), ACCUMULATE(s[1], s[5]));
  const double sum = ACCUMULATE(half, ACCUMULATE(ACCUMULATE(s[2], s[6]), ACCUMULATE(s[3], s[7])));
  for (; i < n; i++) {
    const double x = (double)p[i];
    rest = ACCUMULATE(rest, MAP(x));
  }
  return ACCUMULATE(sum, rest);
}

#undef LANES
#undef TYPE
#undef VECTOR_OF_8
