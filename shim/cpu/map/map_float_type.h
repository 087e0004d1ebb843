/*
 * Kernels of one float dtype whose vector code covers common operands only. Blocks with others take
 * a fallback.
 *
 * Included by map_kernels.c once for float32 and once for float64, with TYPE, SUFFIX and KEY (the
 * unsigned integer of the same size). It has no include guard.
 */

#define NAME(name) RM_SUFFIXED(name, SUFFIX)

/* Runs `fast` on blocks whose operands are all common, and `fallback` on the others. Blocks are
 * short, so that the processor checks the next block while it computes. It is not inlined: kernels
 * inside a longer function reload their constants for every vector. */
__attribute__((noinline)) static void NAME(run_checked_trig)(ptrdiff_t n, void *out, const void *a,
                                                             map_function fast_path,
                                                             map_function fallback) {
  for (ptrdiff_t from = 0; from < n; from += CHECKED_BLOCK) {
    const ptrdiff_t m = rm_min(n - from, CHECKED_BLOCK);
    const TYPE *p = (const TYPE *)a + from;
    KEY largest = 0;
    for (ptrdiff_t i = 0; i < m; i++) {
      const KEY key = NAME(rm_trig_key)(p[i]);
      largest = key > largest ? key : largest;
    }
    const bool is_fast = !NAME(rm_trig_needs_fallback)(largest);
    (is_fast ? fast_path : fallback)(m, (TYPE *)out + from, p, NULL, NULL, NULL);
  }
}

/* Huge operands are computed one by one by the C library. The output may be the input. */
#define TRIGONOMETRIC(name) \
  KERNEL_NAMED(NAME(fallback_##name)) { \
    TYPE *o = out, copy[CHECKED_BLOCK]; \
    memcpy(copy, a, (size_t)n * sizeof(TYPE)); \
    NAME(name)(n, o, copy, b, c, attributes); \
    for (ptrdiff_t i = 0; i < n; i++) { \
      if (NAME(rm_trig_needs_fallback)(NAME(rm_trig_key)(copy[i]))) o[i] = (TYPE)name(copy[i]); \
    } \
  } \
  KERNEL_NAMED(NAME(checked_##name)) { \
    NAME(run_checked_trig)(n, out, a, NAME(name), NAME(fallback_##name)); \
  }
TRIGONOMETRIC(sin)
TRIGONOMETRIC(cos)
TRIGONOMETRIC(tan)

#if RM_HAS_FMA
/* Vector code for short quotients, which nearly all are. Each kernel returns how many of n quotients
 * were short; n is a multiple of VECTOR. For float64 the limit is 2^51: x - m and the division by y
 * are rounded, which together are off by 3/8 of an integer at most. */
static RM_KERNEL ptrdiff_t NAME(fast_floorDivide)(ptrdiff_t n, void *out, const void *a,
                                                  const void *b) {
  TYPE *o = out;
  const TYPE *p = a, *q = b;
  int count = 0;
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < (n & -VECTOR); i++) {
    count += NAME(rm_has_short_quotient)(p[i], q[i]);
    o[i] = NAME(rm_ffloordiv_short)(p[i], q[i]);
  }
  return count;
}

static RM_KERNEL ptrdiff_t NAME(fast_remainder)(ptrdiff_t n, void *out, const void *a,
                                                const void *b) {
  TYPE *o = out;
  const TYPE *p = a, *q = b;
  int count = 0;
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < (n & -VECTOR); i++) {
    count += NAME(rm_has_short_quotient)(p[i], q[i]);
    o[i] = NAME(rm_fmod_short)(p[i], q[i]);
  }
  return count;
}

KERNEL_NAMED(NAME(checked_floorDivide)) {
  run_checked_division(n, out, a, b, sizeof(TYPE), NAME(fast_floorDivide), NAME(floorDivide));
}

KERNEL_NAMED(NAME(checked_remainder)) {
  run_checked_division(n, out, a, b, sizeof(TYPE), NAME(fast_remainder), NAME(remainder));
}
#endif

#undef NAME
#undef TRIGONOMETRIC
#undef TYPE
#undef SUFFIX
#undef KEY
