/*
 * The elementwise kernels of one dtype: one dense loop for each line of ops.def, and their table.
 *
 * Included by map.c once for each dtype, with TYPE, SUFFIX and FAMILY_... defined; for 16-bit
 * floats, which compute as float32, with READ and WRITE. No guard.
 */

#define NAME_(name, suffix) name##_##suffix
#define NAME(name, suffix) NAME_(name, suffix)

#define KERNEL(name) KERNEL_NAMED(NAME(name, SUFFIX))

#define RESULT_same TYPE
#define RESULT_flag uint8_t

#if defined(FAMILY_HALF)
#define RESULT_OF_same(v) WRITE(v)
#else
#define READ(v) ((WORK)(v))
#define RESULT_OF_same(v) ((TYPE)(v))
#endif
#define RESULT_OF_flag(v) ((uint8_t)(v))

/* Loops over whole vectors leave nothing over, for which there would be the same code once more. */
#define OVER_ALL RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++)
#define OVER_VECTORS RM_ANY_ORDER for (ptrdiff_t i = 0; i < (n & -VECTOR); i++)

/* Names that an expression leaves out must not warn. */
#define KERNEL_1(name, result, expr, ...) \
  KERNEL(name) { \
    RESULT_##result *o = out; \
    const TYPE *p = a; \
    (void)p; \
    __VA_ARGS__ \
    EACH { \
      const WORK x = READ(p[i]); \
      (void)x; \
      o[i] = RESULT_OF_##result(expr); \
    } \
  }
#define KERNEL_2(name, result, expr, ...) \
  KERNEL(name) { \
    RESULT_##result *o = out; \
    const TYPE *p = a, *q = b; \
    const int bits = 8 * (int)sizeof(TYPE); \
    (void)bits; \
    __VA_ARGS__ \
    EACH { \
      const WORK x = READ(p[i]), y = READ(q[i]); \
      o[i] = RESULT_OF_##result(expr); \
    } \
  }
#define KERNEL_THREE(name, FIRST, SEEN, SEE, result, expr, ...) \
  KERNEL(name) { \
    RESULT_##result *o = out; \
    const FIRST *p = a; \
    const TYPE *q = b, *r = c; \
    __VA_ARGS__ \
    EACH { \
      const SEEN x = SEE(p[i]); \
      const WORK y = READ(q[i]), z = READ(r[i]); \
      o[i] = RESULT_OF_##result(expr); \
    } \
  }
#define KERNEL_3(name, ...) KERNEL_THREE(name, TYPE, WORK, READ, __VA_ARGS__)
#define KERNEL_3c(name, ...) KERNEL_THREE(name, uint8_t, uint8_t, , __VA_ARGS__)
#define LINE(name, arity, ...) KERNEL_##arity(name, __VA_ARGS__)

/* One of the operands is one element, which a register holds. */
#define KERNEL_ELEMENT(name, element, at, other, from, expr) \
  KERNEL(name) { \
    TYPE *o = out; \
    const TYPE *p = from; \
    const WORK element = *(const TYPE *)at; \
    OVER_ALL { \
      const WORK other = p[i]; \
      o[i] = (TYPE)(expr); \
    } \
  }
#define WITH_ELEMENT(name, expr) \
  KERNEL_ELEMENT(name##_first, x, a, y, b, expr) \
  KERNEL_ELEMENT(name##_second, y, b, x, a, expr)

#if defined(FAMILY_FLOAT)
#define WORK TYPE
#define RM_FLOAT_ARITHMETIC WITH_ELEMENT
#define RM_CALL(f) NAME(rm_##f, SUFFIX)
#define RM_NUM(n) ((TYPE)n)
#define EACH OVER_ALL
#define RM_FLOAT_MAP LINE
#define RM_ROUND_MAP LINE
#include "ops.def"
#undef RM_FLOAT_MAP
#undef RM_FLOAT_ARITHMETIC
#undef RM_ROUND_MAP
#undef EACH
#define EACH OVER_VECTORS
#define RM_HEAVY_MAP LINE
#include "ops.def"
#undef RM_HEAVY_MAP
#undef EACH
#undef RM_NUM
#undef RM_CALL
#undef WORK
#define WORK double
#define RM_CALL(f) rm_##f##_f64
#define RM_NUM(n) n
#define EACH OVER_ALL
#define RM_DOUBLE_MAP LINE
#elif defined(FAMILY_HALF)
#define WORK float
#define RM_CALL(f) rm_##f##_f32
#define RM_NUM(n) ((float)n)
#define EACH _Pragma("clang loop vectorize_width(16)") OVER_VECTORS
#define RM_FLOAT_MAP LINE
#else
#define WORK TYPE
#define RM_CALL(f) NAME(rm_##f, SUFFIX)
#define RM_NUM(n) ((TYPE)n)
#define EACH OVER_ALL
#if defined(FAMILY_BOOL)
#define RM_BOOL_MAP LINE
#else
#define RM_INT_MAP LINE
#if defined(FAMILY_UNSIGNED)
#define RM_BITS_MAP LINE
#define RM_BITS_ARITHMETIC WITH_ELEMENT
#endif
#endif
#endif
#include "ops.def"
#undef RM_FLOAT_MAP
#undef RM_DOUBLE_MAP
#undef RM_BOOL_MAP
#undef RM_INT_MAP
#undef RM_BITS_MAP
#undef RM_BITS_ARITHMETIC

/* What does not depend on the sign is there once for both. */
#define ENTRY(name, ...) [RM_OP_##name] = NAME(name, SUFFIX),
#define UNSIGNED_ENTRY(name, ...) [RM_OP_##name] = NAME(name, UNSIGNED),
static const kernel NAME(table, SUFFIX)[RM_ROWS] = {
#if defined(FAMILY_FLOAT)
#define RM_FLOAT_MAP ENTRY
#define RM_ROUND_MAP ENTRY
#define RM_HEAVY_MAP ENTRY
#define RM_DOUBLE_MAP ENTRY
#elif defined(FAMILY_HALF)
#define RM_FLOAT_MAP ENTRY
#elif defined(FAMILY_BOOL)
#define RM_BOOL_MAP ENTRY
#else
#define RM_INT_MAP ENTRY
#if defined(FAMILY_UNSIGNED)
#define RM_BITS_MAP ENTRY
#else
#define RM_BITS_MAP UNSIGNED_ENTRY
#endif
#endif
#include "ops.def"
};
#undef RM_FLOAT_MAP
#undef RM_ROUND_MAP
#undef RM_HEAVY_MAP
#undef RM_DOUBLE_MAP
#undef RM_BOOL_MAP
#undef RM_INT_MAP
#undef RM_BITS_MAP

#if defined(FAMILY_FLOAT)
#define RM_FLOAT_ARITHMETIC ELEMENT_ENTRY
#elif defined(FAMILY_UNSIGNED)
#define RM_BITS_ARITHMETIC ELEMENT_ENTRY
#endif
#if defined(FAMILY_FLOAT) || defined(FAMILY_UNSIGNED)
#define ELEMENT_ENTRY(name, expr) \
  [RM_OP_##name - RM_OP_add] = {NAME(name##_first, SUFFIX), NAME(name##_second, SUFFIX)},
static const kernel NAME(with_element, SUFFIX)[ARITHMETIC][2] = {
#include "ops.def"
};
#undef ELEMENT_ENTRY
#undef RM_FLOAT_ARITHMETIC
#undef RM_BITS_ARITHMETIC
#endif

#undef NAME_
#undef NAME
#undef KERNEL
#undef RESULT_same
#undef RESULT_flag
#undef RESULT_OF_same
#undef RESULT_OF_flag
#undef READ
#undef WRITE
#undef OVER_ALL
#undef OVER_VECTORS
#undef EACH
#undef KERNEL_1
#undef KERNEL_2
#undef KERNEL_THREE
#undef KERNEL_3
#undef KERNEL_3c
#undef LINE
#undef KERNEL_ELEMENT
#undef WITH_ELEMENT
#undef WORK
#undef RM_CALL
#undef RM_NUM
#undef ENTRY
#undef UNSIGNED_ENTRY
#undef TYPE
#undef SUFFIX
#undef UNSIGNED
#undef FAMILY_FLOAT
#undef FAMILY_HALF
#undef FAMILY_BOOL
#undef FAMILY_UNSIGNED
