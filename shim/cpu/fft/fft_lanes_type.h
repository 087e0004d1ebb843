/*
 * Fourier transforms in the lanes of vectors, of one type: T, with LANES numbers in a vector;
 * fft_type.h includes it.
 */
typedef T NAME(vec) __attribute__((vector_size(LANES * sizeof(T))));
typedef T NAME(loose) __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));
#define V NAME(vec)
/* Added to negated numbers, makes 0 of -0. */
#define ZERO ((V){0})

/* An element of LANES transforms. */
typedef struct {
  V re, im;
} NAME(pair);
#define PAIR NAME(pair)
/* The same at any address of numbers. */
typedef struct {
  NAME(loose) re, im;
} NAME(loose_pair);
#define LOOSE_PAIR NAME(loose_pair)

#if LANES == 2
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3)
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 2)
#define HIGH(a, b) __builtin_shufflevector(a, b, 1, 3)
#define LOW_PAIRS(a, b) (a)
#define HIGH_PAIRS(a, b) (b)
#define REVERSED(a) __builtin_shufflevector(a, a, 1, 0)
#elif LANES == 4
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define LOW_PAIRS(a, b) __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define HIGH_PAIRS(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
#define REVERSED(a) __builtin_shufflevector(a, a, 3, 2, 1, 0)
#elif LANES == 8
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW_PAIRS(a, b) __builtin_shufflevector(a, b, 0, 1, 8, 9, 2, 3, 10, 11)
#define HIGH_PAIRS(a, b) __builtin_shufflevector(a, b, 4, 5, 12, 13, 6, 7, 14, 15)
#define REVERSED(a) __builtin_shufflevector(a, a, 7, 6, 5, 4, 3, 2, 1, 0)
#else
#define EVEN(a, b) \
  __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD(a, b) \
  __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) \
  __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOW_PAIRS(a, b) \
  __builtin_shufflevector(a, b, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23)
#define HIGH_PAIRS(a, b) \
  __builtin_shufflevector(a, b, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31)
#define REVERSED(a) __builtin_shufflevector(a, a, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#endif

/* ---- loads and stores ------------------------------------------------------------------------ */

/* LANES complex numbers in memory. */
static RM_ALWAYS_INLINE PAIR NAME(load)(const T *from) {
  const V a = *(const NAME(loose) *)from, b = *(const NAME(loose) *)(from + LANES);
  return (PAIR){EVEN(a, b), ODD(a, b)};
}

static RM_ALWAYS_INLINE void NAME(store)(T *to, PAIR x) {
  *(NAME(loose) *)to = LOW(x.re, x.im);
  *(NAME(loose) *)(to + LANES) = HIGH(x.re, x.im);
}

/* The first `count` of them; others are 0. */
static RM_ALWAYS_INLINE PAIR NAME(load_some)(const T *from, ptrdiff_t count) {
  if (count >= LANES) return NAME(load)(from);
  T some[2 * LANES] = {0};
  RM_SCALAR for (ptrdiff_t i = 0; i < 2 * count; i++) some[i] = from[i];
  return NAME(load)(some);
}

static RM_ALWAYS_INLINE void NAME(store_some)(T *to, PAIR x, ptrdiff_t count) {
  if (count >= LANES) {
    NAME(store)(to, x);
    return;
  }
  T some[2 * LANES];
  NAME(store)(some, x);
  RM_SCALAR for (ptrdiff_t i = 0; i < 2 * count; i++) to[i] = some[i];
}

/* Makes lane i of element k of LANES elements lane k of element i. */
static RM_ALWAYS_INLINE void NAME(turn_block)(V *x) {
  V y[LANES];
  FFT_UNROLL for (int round = 1; round < LANES; round *= 2) {
    FFT_UNROLL for (int i = 0; i < LANES / 2; i++) {
      y[2 * i] = LOW(x[i], x[i + LANES / 2]);
      y[2 * i + 1] = HIGH(x[i], x[i + LANES / 2]);
    }
    FFT_UNROLL for (int i = 0; i < LANES; i++) x[i] = y[i];
  }
}

#if LANES > 4
FFT_OUTLINED
#else
RM_ALWAYS_INLINE
#endif
static void NAME(transpose)(V *x) { NAME(turn_block)(x); }

/* The same of pairs of lanes, of LANES / 2 elements. */
static RM_ALWAYS_INLINE void NAME(turn_pairs)(V *x) {
  V y[LANES / 2];
  FFT_UNROLL for (int round = 1; round < LANES / 2; round *= 2) {
    FFT_UNROLL for (int i = 0; i < LANES / 4; i++) {
      y[2 * i] = LOW_PAIRS(x[i], x[i + LANES / 4]);
      y[2 * i + 1] = HIGH_PAIRS(x[i], x[i + LANES / 4]);
    }
    FFT_UNROLL for (int i = 0; i < LANES / 2; i++) x[i] = y[i];
  }
}

/* LANES / 2 complex numbers of each of LANES rows. */
static RM_ALWAYS_INLINE void NAME(load_rows)(const T *from, ptrdiff_t row, PAIR *x) {
  /* Pairs of numbers of the first rows, and of the others. */
  V low[LANES / 2], high[LANES / 2];
  FFT_UNROLL for (int i = 0; i < LANES / 2; i++) {
    low[i] = *(const NAME(loose) *)(from + i * row);
    high[i] = *(const NAME(loose) *)(from + (i + LANES / 2) * row);
  }
  NAME(turn_pairs)(low);
  NAME(turn_pairs)(high);
  FFT_UNROLL for (int i = 0; i < LANES / 2; i++) {
    x[i] = (PAIR){EVEN(low[i], high[i]), ODD(low[i], high[i])};
  }
}

static RM_ALWAYS_INLINE void NAME(store_rows)(const PAIR *x, T *to, ptrdiff_t row) {
  V low[LANES / 2], high[LANES / 2];
  FFT_UNROLL for (int i = 0; i < LANES / 2; i++) {
    low[i] = LOW(x[i].re, x[i].im);
    high[i] = HIGH(x[i].re, x[i].im);
  }
  NAME(turn_pairs)(low);
  NAME(turn_pairs)(high);
  FFT_UNROLL for (int i = 0; i < LANES / 2; i++) {
    *(NAME(loose) *)(to + i * row) = low[i];
    *(NAME(loose) *)(to + (i + LANES / 2) * row) = high[i];
  }
}

/* ---- butterflies ----------------------------------------------------------------------------- */

static RM_ALWAYS_INLINE PAIR NAME(add)(PAIR a, PAIR b) { return (PAIR){a.re + b.re, a.im + b.im}; }
static RM_ALWAYS_INLINE PAIR NAME(sub)(PAIR a, PAIR b) { return (PAIR){a.re - b.re, a.im - b.im}; }
/* a - i b, and a + i b. */
static RM_ALWAYS_INLINE PAIR NAME(sub_i)(PAIR a, PAIR b) {
  return (PAIR){a.re + b.im, a.im - b.re};
}
static RM_ALWAYS_INLINE PAIR NAME(add_i)(PAIR a, PAIR b) {
  return (PAIR){a.re - b.im, a.im + b.re};
}
/* By a number that all lanes share. */
static RM_ALWAYS_INLINE PAIR NAME(turn)(PAIR a, const T *w) {
  return (PAIR){a.re * w[0] - a.im * w[1], a.re * w[1] + a.im * w[0]};
}
static RM_ALWAYS_INLINE PAIR NAME(mul)(PAIR a, PAIR b) {
  return (PAIR){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static RM_ALWAYS_INLINE void NAME(four)(PAIR *a, PAIR *b, PAIR *c, PAIR *d) {
  const PAIR s = NAME(add)(*a, *c), t = NAME(sub)(*a, *c), u = NAME(add)(*b, *d);
  const PAIR v = NAME(sub)(*b, *d);
  *a = NAME(add)(s, u);
  *b = NAME(sub_i)(t, v);
  *c = NAME(sub)(s, u);
  *d = NAME(add_i)(t, v);
}

static RM_ALWAYS_INLINE void NAME(butterfly)(const int r, PAIR *t) {
  if (r == 2) {
    const PAIR a = t[0];
    t[0] = NAME(add)(a, t[1]);
    t[1] = NAME(sub)(a, t[1]);
  } else if (r == 3) {
    const T half = (T)0.5, sine = (T)0.86602540378443864676;
    const PAIR s = NAME(add)(t[1], t[2]), d = NAME(sub)(t[1], t[2]);
    const PAIR m = {t[0].re - s.re * half, t[0].im - s.im * half};
    const PAIR n = {d.re * sine, d.im * sine};
    t[0] = NAME(add)(t[0], s);
    t[1] = NAME(sub_i)(m, n);
    t[2] = NAME(add_i)(m, n);
  } else if (r == 4) {
    NAME(four)(t, t + 1, t + 2, t + 3);
  } else if (r == 5) {
    const T c1 = (T)0.30901699437494742410, c2 = (T)-0.80901699437494742410;
    const T s1 = (T)0.95105651629515357212, s2 = (T)0.58778525229247312917;
    const PAIR p = NAME(add)(t[1], t[4]), q = NAME(add)(t[2], t[3]);
    const PAIR d = NAME(sub)(t[1], t[4]), e = NAME(sub)(t[2], t[3]);
    const PAIR a = {t[0].re + p.re * c1 + q.re * c2, t[0].im + p.im * c1 + q.im * c2};
    const PAIR b = {t[0].re + p.re * c2 + q.re * c1, t[0].im + p.im * c2 + q.im * c1};
    const PAIR f = {d.re * s1 + e.re * s2, d.im * s1 + e.im * s2};
    const PAIR g = {d.re * s2 - e.re * s1, d.im * s2 - e.im * s1};
    t[0] = NAME(add)(t[0], NAME(add)(p, q));
    t[1] = NAME(sub_i)(a, f);
    t[4] = NAME(add_i)(a, f);
    t[2] = NAME(sub_i)(b, g);
    t[3] = NAME(add_i)(b, g);
  } else {
    const T h = (T)0.70710678118654752440;
    NAME(four)(t, t + 2, t + 4, t + 6);
    NAME(four)(t + 1, t + 3, t + 5, t + 7);
    const PAIR one = {(t[3].re + t[3].im) * h, (t[3].im - t[3].re) * h};
    const PAIR two = {t[5].im, -t[5].re};
    const PAIR three = {(t[7].im - t[7].re) * h, -(t[7].re + t[7].im) * h};
    const PAIR e0 = t[0], e1 = t[2], e2 = t[4], e3 = t[6], o0 = t[1];
    t[0] = NAME(add)(e0, o0);
    t[4] = NAME(sub)(e0, o0);
    t[1] = NAME(add)(e1, one);
    t[5] = NAME(sub)(e1, one);
    t[2] = NAME(add)(e2, two);
    t[6] = NAME(sub)(e2, two);
    t[3] = NAME(add)(e3, three);
    t[7] = NAME(sub)(e3, three);
  }
}

static RM_ALWAYS_INLINE PAIR NAME(pair_at)(const LOOSE_PAIR *x) { return (PAIR){x->re, x->im}; }

/* A pass: y[q + s (r p + k)] is output k of the transform of x[q + step (p + m j)] over j, turned. The
 * step is s, except in the first pass, where s is 1. */
static RM_ALWAYS_INLINE void NAME(pass)(const int r, const LOOSE_PAIR *x, ptrdiff_t step, PAIR *y,
                                        ptrdiff_t m, ptrdiff_t s, const T *w) {
  PAIR t[8];
  if (m == 1) {
    FFT_ROLLED for (ptrdiff_t q = 0; q < s; q++) {
      FFT_UNROLL for (int j = 0; j < r; j++) t[j] = NAME(pair_at)(x + q + step * j);
      NAME(butterfly)(r, t);
      FFT_UNROLL for (int k = 0; k < r; k++) y[q + s * k] = t[k];
    }
    return;
  }
  FFT_ROLLED for (ptrdiff_t p = 0; p < m; p++, w += 2 * (r - 1), x += step, y += s * r) {
    FFT_ROLLED for (ptrdiff_t q = 0; q < s; q++) {
      FFT_UNROLL for (int j = 0; j < r; j++) t[j] = NAME(pair_at)(x + q + step * m * j);
      NAME(butterfly)(r, t);
      y[q] = t[0];
      FFT_UNROLL for (int k = 1; k < r; k++) y[q + s * k] = NAME(turn)(t[k], w + 2 * (k - 1));
    }
  }
}

#define PASS(r)                                                                             \
  FFT_OUTLINED static void NAME(pass##r)(const LOOSE_PAIR *x, ptrdiff_t step, PAIR *y,      \
                                         ptrdiff_t m, ptrdiff_t s, const T *w) {            \
    NAME(pass)(r, x, step, y, m, s, w);                                                     \
  }
PASS(2)
PASS(3)
PASS(4)
PASS(5)
PASS(8)
#undef PASS

/* Of any odd radix, whose roots of unity are in front of the factors. */
FFT_OUTLINED static void NAME(pass_odd)(int r, const LOOSE_PAIR *x, ptrdiff_t step, PAIR *y,
                                         ptrdiff_t m, ptrdiff_t s, const T *roots) {
  const T *w = roots + 2 * r;
  const int half = r / 2;
  PAIR sum[FFT_MAX_RADIX / 2], difference[FFT_MAX_RADIX / 2];
  FFT_ROLLED for (ptrdiff_t p = 0; p < m; p++, w += m > 1 ? 2 * (r - 1) : 0, x += step, y += s * r) {
    FFT_ROLLED for (ptrdiff_t q = 0; q < s; q++) {
      const PAIR first = NAME(pair_at)(x + q);
      PAIR total = first;
      FFT_ROLLED for (int j = 0; j < half; j++) {
        const PAIR a = NAME(pair_at)(x + q + step * m * (j + 1));
        const PAIR b = NAME(pair_at)(x + q + step * m * (r - 1 - j));
        sum[j] = NAME(add)(a, b);
        difference[j] = NAME(sub)(a, b);
        total = NAME(add)(total, sum[j]);
      }
      y[q] = total;
      FFT_ROLLED for (int k = 1; k <= half; k++) {
        PAIR a = first, b = {(V){0}, (V){0}};
        int at = 0;
        FFT_ROLLED for (int j = 0; j < half; j++) {
          at += k;
          if (at >= r) at -= r;
          const T c = roots[2 * at], d = -roots[2 * at + 1];
          a.re += sum[j].re * c;
          a.im += sum[j].im * c;
          b.re += difference[j].re * d;
          b.im += difference[j].im * d;
        }
        PAIR low = NAME(sub_i)(a, b), high = NAME(add_i)(a, b);
        if (m > 1) {
          low = NAME(turn)(low, w + 2 * (k - 1));
          high = NAME(turn)(high, w + 2 * (r - k - 1));
        }
        y[q + s * k] = low;
        y[q + s * (r - k)] = high;
      }
    }
  }
}

/*
 * The first passes of a transform, all of them or all but the last. Reads x[step i] for element i,
 * writes y and z in turn, and returns the one that was written last.
 */
static PAIR *NAME(passes)(const fft_lanes *plan, int passes, const LOOSE_PAIR *x, ptrdiff_t step, PAIR *y,
                          PAIR *z) {
  const T *w = plan->factors;
  ptrdiff_t m = plan->length, s = 1;
  for (int stage = 0; stage < passes; stage++) {
    const int r = plan->radix[stage];
    m /= r;
    switch (r) {
      case 2: NAME(pass2)(x, step, y, m, s, w); break;
      case 3: NAME(pass3)(x, step, y, m, s, w); break;
      case 4: NAME(pass4)(x, step, y, m, s, w); break;
      case 5: NAME(pass5)(x, step, y, m, s, w); break;
      case 8: NAME(pass8)(x, step, y, m, s, w); break;
      default:
        NAME(pass_odd)(r, x, step, y, m, s, w);
        w += 2 * r;
    }
    if (m > 1) w += 2 * m * (r - 1);
    s *= r;
    step = s;
    x = (const LOOSE_PAIR *)y;
    y = z;
    z = (PAIR *)x;
  }
  return z;
}

/* The transforms of x in LANES lanes. Overwrites x, uses y, and returns the one with the result. */
static PAIR *NAME(transform)(const fft_lanes *plan, PAIR *x, PAIR *y) {
  return NAME(passes)(plan, plan->stages, (const LOOSE_PAIR *)x, 1, y, x);
}

/* Element k of the transforms of both parts, from the transform y of length n. */
static RM_ALWAYS_INLINE void NAME(separate)(const PAIR *y, ptrdiff_t n, ptrdiff_t k, T half, T sign,
                                            PAIR *a, PAIR *b) {
  const PAIR z = y[k], c = y[k == 0 ? 0 : n - k];
  *a = (PAIR){(z.re + c.re) * half, (z.im - c.im) * (half * sign)};
  *b = (PAIR){(z.im + c.im) * half, (c.re - z.re) * (half * sign)};
}
