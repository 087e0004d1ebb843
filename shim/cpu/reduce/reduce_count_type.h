/*
 * Counts the elements of one size that are nonzero or, with flip 1, zero.
 *
 * Included by reduce_int.c once per size, with ELEMENT, SUFFIX, VECTOR_OF (a vector of COUNT
 * elements) and SUM (a vector of COUNT wider integers that hold the counts of all lanes). It has no
 * include guard.
 */

#define NAME(name) RM_SUFFIXED(name, SUFFIX)

/* The mask clears the sign of floats. A lane can count to 127 at least. */
static RM_KERNEL void NAME(count)(const reduce_context *ctx, ptrdiff_t n, const void *from,
                                  double y, accumulators *c) {
  const ELEMENT *p = from;
  const ELEMENT mask = (ELEMENT)ctx->mask;
  (void)y;
  int64_t zeros = 0;
  for (ptrdiff_t i = 0; i < n;) {
    const ptrdiff_t end = i + rm_min(n - i, 127 * 2 * COUNT);
    VECTOR_OF s = 0, t = 0;
    for (; i + 2 * COUNT <= end; i += 2 * COUNT) {
      s -= (VECTOR_OF)((LOAD(VECTOR_OF, p + i) & mask) == 0);
      t -= (VECTOR_OF)((LOAD(VECTOR_OF, p + i + COUNT) & mask) == 0);
    }
    const SUM both = __builtin_convertvector(s, SUM) + __builtin_convertvector(t, SUM);
    zeros += __builtin_reduce_add(both);
    for (; i < end; i++) zeros += (p[i] & mask) == 0;
  }
  *(int64_t *)c->acc += ctx->flip ? zeros : n - zeros;
}

static RM_KERNEL void NAME(columns_count)(const reduce_context *ctx, ptrdiff_t n, ptrdiff_t rows,
                                          const void *from, ptrdiff_t step, accumulators *c) {
  ELEMENT *restrict part = (ELEMENT *)c->part;
  const ELEMENT mask = (ELEMENT)ctx->mask;
  const bool zeros = ctx->flip;
  for (ptrdiff_t r = 0; r < rows; r++) {
    const ELEMENT *restrict p = (const ELEMENT *)((const char *)from + r * step);
    for (ptrdiff_t i = 0; i < n; i++) {
      part[i] = (ELEMENT)(part[i] + (((p[i] & mask) == 0) == zeros));
    }
  }
}

static void NAME(flush_count)(ptrdiff_t n, accumulators *c) {
  int64_t *restrict acc = c->acc;
  ELEMENT *restrict part = (ELEMENT *)c->part;
  for (ptrdiff_t i = 0; i < n; i++) acc[i] += part[i];
  memset(part, 0, (size_t)n * sizeof(ELEMENT));
}

#undef NAME
#undef ELEMENT
#undef SUFFIX
#undef VECTOR_OF
#undef SUM
#undef COUNT
