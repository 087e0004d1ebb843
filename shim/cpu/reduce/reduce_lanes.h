/*
 * The fold of n elements, in double.
 *
 * Included by reduce_float.c once for each type of elements, what they are mapped by and how they are
 * folded, with LANES for the function's name, TYPE and its vector of 8, MAP(x), FOLD(a, x) and START.
 * No guard.
 */

/* What lies further ahead is asked for before it is needed. */
static inline double LANES(ptrdiff_t n, const TYPE *p, double y) {
  const f64x8 first = START;
  f64x8 s = first, t = first, u = first, v = first;
  ptrdiff_t i = 0;
  (void)y;
  for (; i + 32 <= n; i += 32) {
    FETCH_AHEAD(p + i)
    const f64x8 a = __builtin_convertvector(LOAD(VECTOR_OF_8, p + i), f64x8);
    const f64x8 b = __builtin_convertvector(LOAD(VECTOR_OF_8, p + i + 8), f64x8);
    const f64x8 c = __builtin_convertvector(LOAD(VECTOR_OF_8, p + i + 16), f64x8);
    const f64x8 d = __builtin_convertvector(LOAD(VECTOR_OF_8, p + i + 24), f64x8);
    s = FOLD(s, MAP(a)), t = FOLD(t, MAP(b)), u = FOLD(u, MAP(c)), v = FOLD(v, MAP(d));
  }
  for (; i + 8 <= n; i += 8) {
    const f64x8 a = __builtin_convertvector(LOAD(VECTOR_OF_8, p + i), f64x8);
    s = FOLD(s, MAP(a));
  }
  s = FOLD(FOLD(s, t), FOLD(u, v));
  const double half = FOLD(FOLD(s[0], s[4]), FOLD(s[1], s[5]));
  const double sum = FOLD(half, FOLD(FOLD(s[2], s[6]), FOLD(s[3], s[7])));
  double rest = START;
  for (; i < n; i++) {
    const double x = (double)p[i];
    rest = FOLD(rest, MAP(x));
  }
  return FOLD(sum, rest);
}

#undef LANES
#undef TYPE
#undef VECTOR_OF_8
