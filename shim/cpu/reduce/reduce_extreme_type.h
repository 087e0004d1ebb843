/*
 * Largest and smallest elements of one type, and where they are.
 *
 * Included by reduce_extreme.c once for each type, with ELEMENT and SUFFIX; INTEGER of as many bits;
 * VECTOR_OF and INTEGERS, vectors of COUNT of those; and KIND, which is INT, FLOAT or HALF. No guard.
 */

#define NAME_(name, suffix) name##_##suffix
#define NAME_OF(name, suffix) NAME_(name, suffix)
#define NAME(name) NAME_OF(name, SUFFIX)
#define KEY NAME_OF(KEY, KIND)
#define PREFER NAME_OF(PREFER, KIND)
#define BETTER NAME_OF(BETTER, KIND)
#define IS_NAN NAME_OF(IS_NAN, KIND)
#define NAN_OF NAME_OF(NAN_KEY, KIND)
#define TIED NAME_OF(TIED, KIND)

#define KEYS(from) \
  ({ \
    const INTEGERS bits_ = (LOAD(INTEGERS, from) & mask) ^ flip; \
    const INTEGERS key_ = KEY(INTEGERS, bits_, infinity); \
    LOAD(VECTOR_OF, &key_); \
  })

static inline ELEMENT NAME(key)(ELEMENT x, INTEGER mask, INTEGER flip, INTEGER infinity) {
  INTEGER bits;
  memcpy(&bits, &x, sizeof bits);
  (void)infinity;
  bits = (INTEGER)((bits & mask) ^ flip);
  bits = (INTEGER)KEY(INTEGER, bits, infinity);
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline ELEMENT NAME(highest)(const job *j, ptrdiff_t n, const ELEMENT *p) {
  const INTEGER mask = (INTEGER)j->mask, flip = (INTEGER)j->flip, infinity = (INTEGER)~j->start;
  ELEMENT top = NAME(key)(p[0], mask, flip, infinity);
  bool nan = IS_NAN(top);
  ptrdiff_t i = 0;
  if (n >= COUNT) {
    VECTOR_OF s = KEYS(p), t = s;
    INTEGERS unordered = (INTEGERS)IS_NAN(s);
    VECTOR_OF u = s, v = s;
    for (; i + 4 * COUNT <= n; i += 4 * COUNT) {
      const VECTOR_OF a = KEYS(p + i), b = KEYS(p + i + COUNT);
      const VECTOR_OF c = KEYS(p + i + 2 * COUNT), d = KEYS(p + i + 3 * COUNT);
      s = s > a ? s : a;
      t = t > b ? t : b;
      u = u > c ? u : c;
      v = v > d ? v : d;
      unordered |= (INTEGERS)(IS_NAN(a) | IS_NAN(b));
      unordered |= (INTEGERS)(IS_NAN(c) | IS_NAN(d));
    }
    s = s > u ? s : u;
    t = t > v ? t : v;
    /* The last vector may hold some elements again. */
    for (; i + COUNT < n; i += COUNT) {
      const VECTOR_OF a = KEYS(p + i);
      s = s > a ? s : a;
      unordered |= (INTEGERS)IS_NAN(a);
    }
    const VECTOR_OF a = KEYS(p + n - COUNT);
    s = s > a ? s : a;
    unordered |= (INTEGERS)IS_NAN(a);
    s = s > t ? s : t;
    ELEMENT lane[COUNT];
    memcpy(lane, &s, sizeof lane);
    for (int half = COUNT / 2; half > 0; half /= 2) {
      for (int l = 0; l < half; l++) {
        lane[l] = lane[l] > lane[l + half] ? lane[l] : lane[l + half];
      }
    }
    top = lane[0];
    nan = BITS(TRUTH(COUNT, unordered)) != 0;
  } else {
    for (i = 1; i < n; i++) {
      const ELEMENT x = NAME(key)(p[i], mask, flip, infinity);
      nan |= IS_NAN(x);
      top = top > x ? top : x;
    }
  }
  return nan ? NAN_OF(ELEMENT) : top;
}

static RM_KERNEL void NAME(extreme)(const job *j, ptrdiff_t n, const void *from, double y,
                                  cells *c) {
  ELEMENT *acc = c->acc;
  (void)y;
  const ELEMENT x = NAME(highest)(j, n, from);
  *acc = PREFER(*acc, x);
}

static RM_KERNEL void NAME(columns_extreme)(const job *j, ptrdiff_t n, ptrdiff_t rows,
                                          const void *from, ptrdiff_t step, cells *c) {
  const INTEGER mask = (INTEGER)j->mask, flip = (INTEGER)j->flip, infinity = (INTEGER)~j->start;
  ELEMENT *restrict acc = c->acc;
  for (ptrdiff_t r = 0; r < rows; r++) {
    const ELEMENT *restrict p = (const ELEMENT *)((const char *)from + r * step);
    for (ptrdiff_t i = 0; i < n; i++) {
      const ELEMENT x = NAME(key)(p[i], mask, flip, infinity), a = acc[i];
      acc[i] = PREFER(a, x);
    }
  }
}

static void NAME(combine_extreme)(const job *j, ptrdiff_t n, cells *to, const cells *from) {
  ELEMENT *acc = to->acc;
  const ELEMENT *other = from->acc;
  (void)j;
  for (ptrdiff_t i = 0; i < n; i++) acc[i] = PREFER(acc[i], other[i]);
}

/* The place of the first key that is no less than top. */
static inline ptrdiff_t NAME(first)(const job *j, ptrdiff_t n, const ELEMENT *p, ELEMENT top) {
  const INTEGER mask = (INTEGER)j->mask, flip = (INTEGER)j->flip, infinity = (INTEGER)~j->start;
  ptrdiff_t i = 0;
  for (; i + COUNT <= n; i += COUNT) {
    const VECTOR_OF a = KEYS(p + i);
    const INTEGERS here = IS_NAN(top) ? (INTEGERS)IS_NAN(a) : (INTEGERS)(a >= top);
    const uint64_t bits = BITS(TRUTH(COUNT, here));
    if (bits != 0) return i + __builtin_ctzll(bits);
  }
  for (; i < n; i++) {
    const ELEMENT x = NAME(key)(p[i], mask, flip, infinity);
    if (x >= top || (IS_NAN(x) && IS_NAN(top))) break;
  }
  return i;
}

static RM_KERNEL void NAME(index)(const job *j, ptrdiff_t n, const void *from, double y,
                                cells *c) {
  ELEMENT *acc = c->acc;
  (void)y;
  const ELEMENT top = NAME(highest)(j, n, from), x = TIED(top);
  if (BETTER(*acc, x)) {
    *acc = x;
    *c->where = c->position + NAME(first)(j, n, from, x);
  }
}

static RM_KERNEL void NAME(columns_index)(const job *j, ptrdiff_t n, ptrdiff_t rows,
                                        const void *from, ptrdiff_t step, cells *c) {
  const INTEGER mask = (INTEGER)j->mask, flip = (INTEGER)j->flip, infinity = (INTEGER)~j->start;
  ELEMENT *restrict acc = c->acc;
  int64_t *restrict where = c->where;
  for (ptrdiff_t r = 0; r < rows; r++) {
    const ELEMENT *restrict p = (const ELEMENT *)((const char *)from + r * step);
    const int64_t position = c->position + r;
    for (ptrdiff_t i = 0; i < n; i++) {
      const ELEMENT key = NAME(key)(p[i], mask, flip, infinity), x = TIED(key), a = acc[i];
      const bool better = BETTER(a, x);
      acc[i] = better ? x : a;
      where[i] = better ? position : where[i];
    }
  }
}

static void NAME(combine_index)(const job *j, ptrdiff_t n, cells *to, const cells *from) {
  ELEMENT *acc = to->acc;
  const ELEMENT *other = from->acc;
  (void)j;
  for (ptrdiff_t i = 0; i < n; i++) {
    if (!(BETTER(acc[i], other[i]))) continue;
    acc[i] = other[i];
    to->where[i] = from->where[i];
  }
}

#undef NAME_
#undef NAME_OF
#undef NAME
#undef KEY
#undef PREFER
#undef BETTER
#undef IS_NAN
#undef NAN_OF
#undef TIED
#undef KEYS
#undef ELEMENT
#undef SUFFIX
#undef INTEGER
#undef VECTOR_OF
#undef INTEGERS
#undef COUNT
#undef KIND
