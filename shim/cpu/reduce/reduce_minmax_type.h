/*
 * The largest and smallest elements of one type, and their indices.
 *
 * Included by reduce_minmax.c once per type, with ELEMENT, SUFFIX, INTEGER (of the same size),
 * VECTOR_OF and INTEGERS (vectors of COUNT of them) and KIND (INT, FLOAT or HALF). It has no
 * include guard.
 */

#define NAME(name) RM_SUFFIXED(name, SUFFIX)
#define KEY RM_SUFFIXED(KEY, KIND)
#define MAX_OF RM_SUFFIXED(MAX_OF, KIND)
#define IS_GREATER RM_SUFFIXED(IS_GREATER, KIND)
#define IS_NAN RM_SUFFIXED(IS_NAN, KIND)
#define NAN_OF RM_SUFFIXED(NAN_KEY, KIND)
#define EQUAL_ZEROS RM_SUFFIXED(EQUAL_ZEROS, KIND)

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

static inline ELEMENT NAME(max_key)(const reduce_context *ctx, ptrdiff_t n, const ELEMENT *p) {
  const INTEGER mask = (INTEGER)ctx->mask, flip = (INTEGER)ctx->flip,
                infinity = (INTEGER)~ctx->identity;
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
    /* The last vector may overlap the one before. */
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

static RM_KERNEL void NAME(minmax)(const reduce_context *ctx, ptrdiff_t n, const void *from,
                                   double y, accumulators *c) {
  ELEMENT *acc = c->acc;
  (void)y;
  const ELEMENT x = NAME(max_key)(ctx, n, from);
  *acc = MAX_OF(*acc, x);
}

static RM_KERNEL void NAME(columns_minmax)(const reduce_context *ctx, ptrdiff_t n, ptrdiff_t rows,
                                           const void *from, ptrdiff_t step, accumulators *c) {
  const INTEGER mask = (INTEGER)ctx->mask, flip = (INTEGER)ctx->flip,
                infinity = (INTEGER)~ctx->identity;
  ELEMENT *restrict acc = c->acc;
  for (ptrdiff_t r = 0; r < rows; r++) {
    const ELEMENT *restrict p = (const ELEMENT *)((const char *)from + r * step);
    for (ptrdiff_t i = 0; i < n; i++) {
      const ELEMENT x = NAME(key)(p[i], mask, flip, infinity), a = acc[i];
      acc[i] = MAX_OF(a, x);
    }
  }
}

static void NAME(combine_minmax)(const reduce_context *ctx, ptrdiff_t n, accumulators *to,
                                 const accumulators *from) {
  ELEMENT *acc = to->acc;
  const ELEMENT *other = from->acc;
  (void)ctx;
  for (ptrdiff_t i = 0; i < n; i++) acc[i] = MAX_OF(acc[i], other[i]);
}

/* The index of the first key that is at least top. */
static inline ptrdiff_t NAME(find_key)(const reduce_context *ctx, ptrdiff_t n, const ELEMENT *p,
                                       ELEMENT top) {
  const INTEGER mask = (INTEGER)ctx->mask, flip = (INTEGER)ctx->flip,
                infinity = (INTEGER)~ctx->identity;
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

static RM_KERNEL void NAME(arg_minmax)(const reduce_context *ctx, ptrdiff_t n, const void *from,
                                       double y, accumulators *c) {
  ELEMENT *acc = c->acc;
  (void)y;
  const ELEMENT top = NAME(max_key)(ctx, n, from), x = EQUAL_ZEROS(top);
  if (IS_GREATER(*acc, x)) {
    *acc = x;
    /* Shared elements may have changed since, so that none is found. */
    *c->index = c->position + rm_min(NAME(find_key)(ctx, n, from, x), n - 1);
  }
}

static RM_KERNEL void NAME(columns_arg_minmax)(const reduce_context *ctx, ptrdiff_t n,
                                               ptrdiff_t rows, const void *from, ptrdiff_t step,
                                               accumulators *c) {
  const INTEGER mask = (INTEGER)ctx->mask, flip = (INTEGER)ctx->flip,
                infinity = (INTEGER)~ctx->identity;
  ELEMENT *restrict acc = c->acc;
  int64_t *restrict index = c->index;
  for (ptrdiff_t r = 0; r < rows; r++) {
    const ELEMENT *restrict p = (const ELEMENT *)((const char *)from + r * step);
    const int64_t position = c->position + r;
    for (ptrdiff_t i = 0; i < n; i++) {
      const ELEMENT key = NAME(key)(p[i], mask, flip, infinity), x = EQUAL_ZEROS(key), a = acc[i];
      const bool better = IS_GREATER(a, x);
      acc[i] = better ? x : a;
      index[i] = better ? position : index[i];
    }
  }
}

static void NAME(combine_arg_minmax)(const reduce_context *ctx, ptrdiff_t n, accumulators *to,
                                     const accumulators *from) {
  ELEMENT *acc = to->acc;
  const ELEMENT *other = from->acc;
  (void)ctx;
  for (ptrdiff_t i = 0; i < n; i++) {
    if (!(IS_GREATER(acc[i], other[i]))) continue;
    acc[i] = other[i];
    to->index[i] = from->index[i];
  }
}

#undef NAME
#undef KEY
#undef MAX_OF
#undef IS_GREATER
#undef IS_NAN
#undef NAN_OF
#undef EQUAL_ZEROS
#undef KEYS
#undef ELEMENT
#undef SUFFIX
#undef INTEGER
#undef VECTOR_OF
#undef INTEGERS
#undef COUNT
#undef KIND
