/*
 * The largest and smallest numbers of one float type, which ignore NaN.
 *
 * Included by reduce_minmax.c once per type, after reduce_minmax_type.h, with ELEMENT, SUFFIX,
 * INTEGER (of the same size), VECTOR_OF and INTEGERS (vectors of COUNT of them). It has no include
 * guard.
 *
 * A maximum of keys, x ^ flip, as there. An accumulator begins with NaN, which every number replaces.
 */

#define NAME(name) RM_SUFFIXED(name, SUFFIX)
#define MAX_NUMBER(a, x) ((a) > (x) || (x) != (x) ? (a) : (x))

static inline ELEMENT NAME(flipped)(ELEMENT x, INTEGER flip) {
  INTEGER bits;
  memcpy(&bits, &x, sizeof bits);
  bits = (INTEGER)(bits ^ flip);
  memcpy(&x, &bits, sizeof x);
  return x;
}

static RM_KERNEL void NAME(max_number)(const reduce_context *ctx, ptrdiff_t n, const void *from,
                                       double y, accumulators *c) {
  const ELEMENT *p = from;
  ELEMENT *acc = c->acc, top = *acc;
  const INTEGER flip = (INTEGER)ctx->flip;
  ptrdiff_t i = 0;
  (void)y;
  if (n >= COUNT) {
    VECTOR_OF s = (VECTOR_OF)(ELEMENT)-INFINITY, t = s;
    INTEGERS numbers = 0;
    for (; i + 2 * COUNT <= n; i += 2 * COUNT) {
      const VECTOR_OF a = (VECTOR_OF)(LOAD(INTEGERS, p + i) ^ flip);
      const VECTOR_OF b = (VECTOR_OF)(LOAD(INTEGERS, p + i + COUNT) ^ flip);
      s = a > s ? a : s;
      t = b > t ? b : t;
      numbers |= (INTEGERS)(a == a) | (INTEGERS)(b == b);
    }
    for (; i + COUNT <= n; i += COUNT) {
      const VECTOR_OF a = (VECTOR_OF)(LOAD(INTEGERS, p + i) ^ flip);
      s = a > s ? a : s;
      numbers |= (INTEGERS)(a == a);
    }
    s = s > t ? s : t;
    ELEMENT lane[COUNT];
    memcpy(lane, &s, sizeof lane);
    ELEMENT best = lane[0];
    for (int l = 1; l < COUNT; l++) best = best > lane[l] ? best : lane[l];
    if (BITS(TRUTH(COUNT, numbers)) != 0) top = MAX_NUMBER(top, best);
  }
  for (; i < n; i++) {
    const ELEMENT x = NAME(flipped)(p[i], flip);
    top = MAX_NUMBER(top, x);
  }
  *acc = top;
}

static RM_KERNEL void NAME(columns_max_number)(const reduce_context *ctx, ptrdiff_t n,
                                               ptrdiff_t rows, const void *from, ptrdiff_t step,
                                               accumulators *c) {
  const INTEGER flip = (INTEGER)ctx->flip;
  ELEMENT *restrict acc = c->acc;
  for (ptrdiff_t r = 0; r < rows; r++) {
    const ELEMENT *restrict p = (const ELEMENT *)((const char *)from + r * step);
    for (ptrdiff_t i = 0; i < n; i++) {
      const ELEMENT x = NAME(flipped)(p[i], flip), a = acc[i];
      acc[i] = MAX_NUMBER(a, x);
    }
  }
}

static void NAME(combine_max_number)(const reduce_context *ctx, ptrdiff_t n, accumulators *to,
                                     const accumulators *from) {
  ELEMENT *acc = to->acc;
  const ELEMENT *other = from->acc;
  (void)ctx;
  for (ptrdiff_t i = 0; i < n; i++) acc[i] = MAX_NUMBER(acc[i], other[i]);
}

static void NAME(store_max_number)(const reduce_context *ctx, ptrdiff_t n, char *out,
                                   ptrdiff_t stride, const accumulators *c) {
  const ELEMENT *acc = c->acc;
  double result[WIDTH];
  for (ptrdiff_t i = 0; i < n; i++) result[i] = (double)NAME(flipped)(acc[i], (INTEGER)ctx->flip);
  RM_FOR_ISA(store_elements)(ctx->out, n, result, out, stride);
}

#undef NAME
#undef MAX_NUMBER
#undef ELEMENT
#undef SUFFIX
#undef INTEGER
#undef VECTOR_OF
#undef INTEGERS
#undef COUNT
