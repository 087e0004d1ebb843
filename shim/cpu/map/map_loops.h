/*
 * The loops of the elementwise kernels of one dtype, each around a function of one element.
 *
 * The function is a constant that compilers inline, so every kernel gets its own loop, and a
 * breakpoint in these lines can stop in every kernel.
 *
 * Included by map_type.h once per storage and compute type, with TYPE, COMPUTE, LOOP(name) (the
 * functions' names), and READ and WRITE (conversions between TYPE and COMPUTE). It has no include
 * guard.
 */

#if defined(FAMILY_HALF)
#define EACH _Pragma("clang loop vectorize_width(16)") RM_ANY_ORDER
#elif defined(FAMILY_FLOAT32) || defined(FAMILY_NARROW)
#define EACH RM_ANY_ORDER
#else
#define EACH RM_ANY_ORDER_SMALL
#endif

MAP_LOOP LOOP(unary_same)(ptrdiff_t n, void *out, const void *a, COMPUTE (*f)(COMPUTE)) {
  TYPE *o = out;
  const TYPE *p = a;
  EACH for (ptrdiff_t i = 0; i < n; i++) {
    const COMPUTE x = READ(p[i]);
    o[i] = WRITE(f(x));
  }
}

MAP_LOOP LOOP(unary_flag)(ptrdiff_t n, void *out, const void *a, uint8_t (*f)(COMPUTE)) {
  uint8_t *o = out;
  const TYPE *p = a;
  EACH for (ptrdiff_t i = 0; i < n; i++) {
    const COMPUTE x = READ(p[i]);
    o[i] = f(x);
  }
}

MAP_LOOP LOOP(binary_same)(ptrdiff_t n, void *out, const void *a, const void *b,
                           COMPUTE (*f)(COMPUTE, COMPUTE)) {
  TYPE *o = out;
  const TYPE *p = a, *q = b;
  EACH for (ptrdiff_t i = 0; i < n; i++) {
    const COMPUTE x = READ(p[i]), y = READ(q[i]);
    o[i] = WRITE(f(x, y));
  }
}

MAP_LOOP LOOP(binary_flag)(ptrdiff_t n, void *out, const void *a, const void *b,
                           uint8_t (*f)(COMPUTE, COMPUTE)) {
  uint8_t *o = out;
  const TYPE *p = a, *q = b;
  EACH for (ptrdiff_t i = 0; i < n; i++) {
    const COMPUTE x = READ(p[i]), y = READ(q[i]);
    o[i] = f(x, y);
  }
}

MAP_LOOP LOOP(binary_flag_with)(ptrdiff_t n, void *out, const void *a, const void *b,
                                const double *attributes,
                                uint8_t (*f)(COMPUTE, COMPUTE, const double *)) {
  uint8_t *o = out;
  const TYPE *p = a, *q = b;
  double own[RM_OFFSETS - RM_ATTRIBUTES];
  memcpy(own, attributes, sizeof own);
  EACH for (ptrdiff_t i = 0; i < n; i++) {
    const COMPUTE x = READ(p[i]), y = READ(q[i]);
    o[i] = f(x, y, own);
  }
}

MAP_LOOP LOOP(ternary_same)(ptrdiff_t n, void *out, const void *a, const void *b, const void *c,
                            COMPUTE (*f)(COMPUTE, COMPUTE, COMPUTE)) {
  TYPE *o = out;
  const TYPE *p = a, *q = b, *r = c;
  EACH for (ptrdiff_t i = 0; i < n; i++) {
    const COMPUTE x = READ(p[i]), y = READ(q[i]), z = READ(r[i]);
    o[i] = WRITE(f(x, y, z));
  }
}

/* The first operand is a bool condition. */
MAP_LOOP LOOP(conditional_same)(ptrdiff_t n, void *out, const void *a, const void *b, const void *c,
                                COMPUTE (*f)(uint8_t, COMPUTE, COMPUTE)) {
  TYPE *o = out;
  const uint8_t *p = a;
  const TYPE *q = b, *r = c;
  EACH for (ptrdiff_t i = 0; i < n; i++) {
    const uint8_t x = p[i];
    const COMPUTE y = READ(q[i]), z = READ(r[i]);
    o[i] = WRITE(f(x, y, z));
  }
}

/* One of two operands is a scalar, which stays in a register. */
MAP_LOOP LOOP(binary_first)(ptrdiff_t n, void *out, const void *a, const void *b,
                            COMPUTE (*f)(COMPUTE, COMPUTE)) {
  TYPE *o = out;
  const TYPE *q = b;
  const COMPUTE x = READ(*(const TYPE *)a);
  EACH for (ptrdiff_t i = 0; i < n; i++) {
    const COMPUTE y = READ(q[i]);
    o[i] = WRITE(f(x, y));
  }
}

MAP_LOOP LOOP(binary_second)(ptrdiff_t n, void *out, const void *a, const void *b,
                             COMPUTE (*f)(COMPUTE, COMPUTE)) {
  TYPE *o = out;
  const TYPE *p = a;
  const COMPUTE y = READ(*(const TYPE *)b);
  EACH for (ptrdiff_t i = 0; i < n; i++) {
    const COMPUTE x = READ(p[i]);
    o[i] = WRITE(f(x, y));
  }
}

#undef EACH
