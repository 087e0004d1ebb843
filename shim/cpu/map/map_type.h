/*
 * The elementwise kernels of one dtype: one contiguous loop per line of ops.def, and the function
 * that finds them.
 *
 * Included by map_kernels.c and map_shared_kernels.c once per dtype, with TYPE, SUFFIX, FAMILY_..., for
 * 16-bit floats, which compute as float32, READ and WRITE, and for the special functions of floats
 * SPECIAL_LINE, the kernel of one. It has no include guard.
 */

#define NAME(name) RM_SUFFIXED(name, SUFFIX)

#define KERNEL(name) KERNEL_NAMED(NAME(name))

#if !defined(FAMILY_HALF)
#define READ(v) ((COMPUTE)(v))
#define WRITE(v) ((TYPE)(v))
#endif

#define VALUE_same COMPUTE
#define VALUE_flag uint8_t

/* Loops over whole vectors have no remainder, which would duplicate their code. */
#define ALL(n) (n)
#define WHOLE_VECTORS(n) ((n) & -VECTOR)

/* A function of one element, and the kernel that calls it. Unused names in an expression must not
 * warn. */
#define APPLY(name, result, expr, ...) \
  MAP_APPLY VALUE_##result NAME(apply_##name)(__VA_ARGS__) { return (VALUE_##result)(expr); }
#define OPERAND __attribute__((unused)) const COMPUTE
#define KERNEL_1(name, result, expr, ...) \
  APPLY(name, result, expr, OPERAND x) \
  KERNEL(name) { LOOP(unary_##result)(COUNT(n), out, a, NAME(apply_##name)); }
#define KERNEL_2(name, result, expr, ...) \
  APPLY(name, result, expr, OPERAND x, OPERAND y) \
  KERNEL(name) { LOOP(binary_##result)(COUNT(n), out, a, b, NAME(apply_##name)); }
#define KERNEL_2a(name, result, expr, ...) \
  MAP_APPLY VALUE_##result NAME(apply_##name)(COMPUTE x, COMPUTE y, const double *attributes) { \
    __VA_ARGS__ \
    return (VALUE_##result)(expr); \
  } \
  KERNEL(name) { \
    LOOP(binary_##result##_with)(COUNT(n), out, a, b, attributes, NAME(apply_##name)); \
  }
#define KERNEL_3(name, result, expr, ...) \
  APPLY(name, result, expr, OPERAND x, OPERAND y, OPERAND z) \
  KERNEL(name) { LOOP(ternary_##result)(COUNT(n), out, a, b, c, NAME(apply_##name)); }
#define KERNEL_3c(name, result, expr, ...) \
  APPLY(name, result, expr, uint8_t x, OPERAND y, OPERAND z) \
  KERNEL(name) { LOOP(conditional_##result)(COUNT(n), out, a, b, c, NAME(apply_##name)); }
#define OP_LINE(name, arity, ...) KERNEL_##arity(name, __VA_ARGS__)
#define SCALAR_KERNELS(name, expr) \
  KERNEL(name##_first) { LOOP(binary_first)(n, out, a, b, NAME(apply_##name)); } \
  KERNEL(name##_second) { LOOP(binary_second)(n, out, a, b, NAME(apply_##name)); }

/* The number of bits of an element, for shifts. */
#define bits (8 * (int)sizeof(TYPE))

#define LOOP(name) NAME(name)
#define RM_CALL(f) NAME(rm_##f)
#define COUNT ALL
#if defined(FAMILY_HALF)
#define COMPUTE float
#include "map_loops.h"
#undef RM_CALL
#define RM_CALL(f) rm_##f##_f32
#define RM_NUM(n) ((float)n)
#undef COUNT
#define COUNT WHOLE_VECTORS
#define RM_FLOAT_MAP OP_LINE
#else
#define COMPUTE TYPE
#define RM_NUM(n) ((TYPE)n)
#include "map_loops.h"
#if defined(FAMILY_FLOAT)
#define RM_FLOAT_MAP OP_LINE
#define RM_FLOAT_ARITHMETIC SCALAR_KERNELS
#define RM_ROUND_MAP OP_LINE
#include "ops.def"
#undef RM_FLOAT_MAP
#undef RM_FLOAT_ARITHMETIC
#undef RM_ROUND_MAP
#undef COUNT
#define COUNT WHOLE_VECTORS
#define RM_COMPUTE_BOUND_MAP OP_LINE
#include "ops.def"
#undef RM_COMPUTE_BOUND_MAP
#undef COUNT
#define COUNT ALL
#undef RM_NUM
#undef RM_CALL
#undef COMPUTE
#undef LOOP
#define COMPUTE double
#define LOOP(name) NAME(name##_in_double)
#include "map_loops.h"
#define RM_CALL(f) rm_##f##_f64
#define RM_NUM(n) n
#define RM_DOUBLE_MAP OP_LINE
#elif defined(FAMILY_SPECIAL)
#undef COUNT
#define COUNT WHOLE_VECTORS
#define RM_SPECIAL_MAP SPECIAL_LINE
#elif defined(FAMILY_BOOL)
#define RM_BOOL_MAP OP_LINE
#else
#define RM_INT_MAP OP_LINE
#if defined(FAMILY_UNSIGNED)
#define RM_BITS_MAP OP_LINE
#define RM_BITS_ARITHMETIC SCALAR_KERNELS
#endif
#endif
#endif
#include "ops.def"
#undef RM_FLOAT_MAP
#undef RM_DOUBLE_MAP
#undef RM_SPECIAL_MAP
#undef RM_BOOL_MAP
#undef RM_INT_MAP
#undef RM_BITS_MAP
#undef RM_BITS_ARITHMETIC

#if defined(FAMILY_FLOAT)
#define RM_FLOAT_MAP ENTRY
#define RM_ROUND_MAP ENTRY
#define RM_COMPUTE_BOUND_MAP ENTRY
#define RM_DOUBLE_MAP ENTRY
#elif defined(FAMILY_SPECIAL)
#define RM_SPECIAL_MAP ENTRY
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

/* The kernel of an op, or null. Offsets of labels take a third of what a table of functions takes
 * with its relocations. Kernels that do not depend on signedness exist once for both. */
__attribute__((noinline)) static map_function NAME(kernel_of)(int opcode) {
#define ENTRY(name, ...) [RM_OP_##name] = (int16_t)(&&of_##name - &&none),
#define UNSIGNED_ENTRY ENTRY
  static const int16_t offsets[RM_OP_COUNT] = {
#include "ops.def"
  };
#undef ENTRY
#undef UNSIGNED_ENTRY
  goto *(&&none + offsets[opcode]);
#define ENTRY(name, ...) of_##name: return NAME(name);
#define UNSIGNED_ENTRY(name, ...) of_##name: return RM_SUFFIXED(name, UNSIGNED);
#include "ops.def"
none:
  return NULL;
}
#undef RM_FLOAT_MAP
#undef RM_ROUND_MAP
#undef RM_COMPUTE_BOUND_MAP
#undef RM_SPECIAL_MAP
#undef RM_DOUBLE_MAP
#undef RM_BOOL_MAP
#undef RM_INT_MAP
#undef RM_BITS_MAP

#if defined(FAMILY_FLOAT)
#define RM_FLOAT_ARITHMETIC SCALAR_ENTRY
#elif defined(FAMILY_UNSIGNED)
#define RM_BITS_ARITHMETIC SCALAR_ENTRY
#endif
#if defined(FAMILY_FLOAT) || defined(FAMILY_UNSIGNED)
#define SCALAR_ENTRY(name, expr) \
  [RM_OP_##name - RM_OP_add] = {NAME(name##_first), NAME(name##_second)},
static const map_function NAME(scalar_table)[ARITHMETIC][2] = {
#include "ops.def"
};
#undef SCALAR_ENTRY
#undef RM_FLOAT_ARITHMETIC
#undef RM_BITS_ARITHMETIC
#endif

#undef NAME
#undef KERNEL
#undef READ
#undef WRITE
#undef VALUE_same
#undef VALUE_flag
#undef ALL
#undef WHOLE_VECTORS
#undef COUNT
#undef APPLY
#undef OPERAND
#undef KERNEL_1
#undef KERNEL_2
#undef KERNEL_2a
#undef KERNEL_3
#undef KERNEL_3c
#undef OP_LINE
#undef SCALAR_KERNELS
#undef bits
#undef LOOP
#undef COMPUTE
#undef RM_CALL
#undef RM_NUM
#undef ENTRY
#undef UNSIGNED_ENTRY
#undef TYPE
#undef SUFFIX
#undef UNSIGNED
#undef SPECIAL_LINE
#undef FAMILY_FLOAT
#undef FAMILY_FLOAT32
#undef FAMILY_NARROW
#undef FAMILY_SPECIAL
#undef FAMILY_HALF
#undef FAMILY_BOOL
#undef FAMILY_UNSIGNED
