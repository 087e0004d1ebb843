/*
 * Kernels of one float dtype whose vector code is for most operands only: blocks that hold others
 * take another kernel.
 *
 * Included by map_kernels.c once for float32 and once for float64, with TYPE, SUFFIX and KEY, the
 * unsigned integer of as many bits. No guard.
 */

#define NAME_(name, suffix) name##_##suffix
#define NAME_OF(name, suffix) NAME_(name, suffix)
#define NAME(name) NAME_OF(name, SUFFIX)

/* Runs `usual` on blocks none of whose operands is rare, and `any` on the others. Blocks are short, so
 * that the processor looks for keys in the next one while it computes. Not inlined: kernels that are
 * part of a longer function load their constants for every vector. */
__attribute__((noinline)) static void NAME(turn_blocks)(ptrdiff_t n, void *out, const void *a,
                                                        kernel usual, kernel any) {
  for (ptrdiff_t from = 0; from < n; from += KEYED) {
    const ptrdiff_t m = rm_least(n - from, KEYED);
    const TYPE *p = (const TYPE *)a + from;
    KEY most = 0;
    for (ptrdiff_t i = 0; i < m; i++) {
      const KEY key = NAME(rm_turn_key)(p[i]);
      most = key > most ? key : most;
    }
    const bool is_usual = !NAME(rm_turn_is_rare)(most);
    (is_usual ? usual : any)(m, (TYPE *)out + from, p, NULL, NULL, NULL);
  }
}

/* Huge operands take the C library's functions, one by one. The output may be the input. */
#define TRIGONOMETRIC(name) \
  KERNEL_NAMED(NAME(any_##name)) { \
    TYPE *o = out, copy[KEYED]; \
    memcpy(copy, a, (size_t)n * sizeof(TYPE)); \
    NAME(name)(n, o, copy, b, c, attributes); \
    for (ptrdiff_t i = 0; i < n; i++) { \
      if (NAME(rm_turn_is_rare)(NAME(rm_turn_key)(copy[i]))) o[i] = (TYPE)name(copy[i]); \
    } \
  } \
  KERNEL_NAMED(NAME(keyed_##name)) { \
    NAME(turn_blocks)(n, out, a, NAME(name), NAME(any_##name)); \
  }
TRIGONOMETRIC(sin)
TRIGONOMETRIC(cos)
TRIGONOMETRIC(tan)

#if RM_HAS_FMA
/* There is vector code for short quotients of floats, which nearly all are. These give how many of n
 * were short; n is a multiple of VECTOR. In float64 that is below 2^51: x - m and what is divided by y
 * are rounded, which together are off by 3/8 of an integer at most. */
static RM_KERNEL ptrdiff_t NAME(short_floorDivide)(ptrdiff_t n, void *out, const void *a,
                                                   const void *b) {
  TYPE *o = out;
  const TYPE *p = a, *q = b;
  int count = 0;
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < (n & -VECTOR); i++) {
    count += NAME(rm_is_short)(p[i], q[i]);
    o[i] = NAME(rm_ffloordiv_short)(p[i], q[i]);
  }
  return count;
}

static RM_KERNEL ptrdiff_t NAME(short_remainder)(ptrdiff_t n, void *out, const void *a,
                                                 const void *b) {
  TYPE *o = out;
  const TYPE *p = a, *q = b;
  int count = 0;
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < (n & -VECTOR); i++) {
    count += NAME(rm_is_short)(p[i], q[i]);
    o[i] = NAME(rm_fmod_short)(p[i], q[i]);
  }
  return count;
}

KERNEL_NAMED(NAME(checked_floorDivide)) {
  divide_blocks(n, out, a, b, sizeof(TYPE), NAME(short_floorDivide), NAME(floorDivide));
}

KERNEL_NAMED(NAME(checked_remainder)) {
  divide_blocks(n, out, a, b, sizeof(TYPE), NAME(short_remainder), NAME(remainder));
}
#endif

#undef NAME_
#undef NAME_OF
#undef NAME
#undef TRIGONOMETRIC
#undef TYPE
#undef SUFFIX
#undef KEY
