/*
 * The elementwise kernels of one dtype: one dense loop for each line of ops.def, and their table.
 *
 * Included by map.c once for each dtype, with TYPE, SUFFIX and FAMILY_... defined. No guard.
 */

#define NAME_(name, suffix) name##_##suffix
#define NAME(name, suffix) NAME_(name, suffix)

#define KERNEL(name) \
  static void NAME(name, SUFFIX)(ptrdiff_t n, void *out, const void *a, const void *b, \
                                 const void *c, const double *attributes)

#define RESULT_same TYPE
#define RESULT_flag uint8_t

/* Names that an expression leaves out must not warn. */
#define KERNEL_1(name, result, expr, ...) \
  KERNEL(name) { \
    RESULT_##result *o = out; \
    const TYPE *p = a; \
    (void)p, (void)b, (void)c, (void)attributes; \
    __VA_ARGS__ \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) { \
      const WORK x = (WORK)p[i]; \
      (void)x; \
      o[i] = (RESULT_##result)(expr); \
    } \
  }
#define KERNEL_2(name, result, expr, ...) \
  KERNEL(name) { \
    RESULT_##result *o = out; \
    const TYPE *p = a, *q = b; \
    const int bits = 8 * (int)sizeof(TYPE); \
    (void)c, (void)attributes, (void)bits; \
    __VA_ARGS__ \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) { \
      const WORK x = (WORK)p[i], y = (WORK)q[i]; \
      o[i] = (RESULT_##result)(expr); \
    } \
  }
#define KERNEL_THREE(name, FIRST, result, expr, ...) \
  KERNEL(name) { \
    RESULT_##result *o = out; \
    const FIRST *p = a; \
    const TYPE *q = b, *r = c; \
    (void)attributes; \
    __VA_ARGS__ \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) { \
      const FIRST x = p[i]; \
      const WORK y = (WORK)q[i], z = (WORK)r[i]; \
      o[i] = (RESULT_##result)(expr); \
    } \
  }
#define KERNEL_3(name, ...) KERNEL_THREE(name, TYPE, __VA_ARGS__)
#define KERNEL_3c(name, ...) KERNEL_THREE(name, uint8_t, __VA_ARGS__)
#define LINE(name, arity, ...) KERNEL_##arity(name, __VA_ARGS__)

#if defined(FAMILY_FLOAT)
#define WORK TYPE
#define RM_CALL(f) NAME(rm_##f, SUFFIX)
#define RM_NUM(n) ((TYPE)n)
#define RM_FLOAT_MAP LINE
#include "ops.def"
#undef RM_FLOAT_MAP
#undef RM_NUM
#undef RM_CALL
#undef WORK
#define WORK double
#define RM_CALL(f) rm_##f##_f64
#define RM_NUM(n) n
#define RM_DOUBLE_MAP LINE
#include "ops.def"
#undef RM_DOUBLE_MAP
#else
#define WORK TYPE
#define RM_CALL(f) NAME(rm_##f, SUFFIX)
#define RM_NUM(n) ((TYPE)n)
#if defined(FAMILY_BOOL)
#define RM_BOOL_MAP LINE
#else
#define RM_INT_MAP LINE
#if defined(FAMILY_UNSIGNED)
#define RM_BITS_MAP LINE
#endif
#endif
#include "ops.def"
#undef RM_BOOL_MAP
#undef RM_INT_MAP
#undef RM_BITS_MAP
#endif

/* What does not depend on the sign is there once for both. */
#define ENTRY(name, ...) [RM_OP_##name] = NAME(name, SUFFIX),
#define UNSIGNED_ENTRY(name, ...) [RM_OP_##name] = NAME(name, UNSIGNED),
static const kernel NAME(table, SUFFIX)[RM_ROWS] = {
#if defined(FAMILY_FLOAT)
#define RM_FLOAT_MAP ENTRY
#define RM_DOUBLE_MAP ENTRY
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
#undef RM_DOUBLE_MAP
#undef RM_BOOL_MAP
#undef RM_INT_MAP
#undef RM_BITS_MAP

#undef NAME_
#undef NAME
#undef KERNEL
#undef RESULT_same
#undef RESULT_flag
#undef KERNEL_1
#undef KERNEL_2
#undef KERNEL_THREE
#undef KERNEL_3
#undef KERNEL_3c
#undef LINE
#undef WORK
#undef RM_CALL
#undef RM_NUM
#undef ENTRY
#undef UNSIGNED_ENTRY
#undef TYPE
#undef SUFFIX
#undef UNSIGNED
#undef FAMILY_FLOAT
#undef FAMILY_BOOL
#undef FAMILY_UNSIGNED
