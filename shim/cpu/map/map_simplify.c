/*
 * Elementwise ops whose second operand is a scalar with a cheaper kernel: powers, integer
 * divisions, clip.
 */
#include <string.h>
#include "cast_kernels.h"
#include "intmath.h"
#include "map_context.h"
#include "vecmath.h"

/* x to the power of 1/2, which differs from the square root for -0 and -Infinity. */
#define SQRT_POWER(name, T, root) \
  KERNEL_NAMED(name) { \
    T *o = out; \
    const T *p = a; \
    RM_ANY_ORDER_SMALL for (ptrdiff_t i = 0; i < n; i++) { \
      const T x = p[i]; \
      o[i] = x == (T) - INFINITY ? (T)INFINITY : root(x) + 0; \
    } \
  }
SQRT_POWER(sqrt_power_f32, float, rm_sqrt_f32)
SQRT_POWER(sqrt_power_f64, double, rm_sqrt_f64)

/* The bounds are not NaN. */
#define CLAMP(T, type) \
  KERNEL_NAMED(clamp_##type) { \
    T *o = out; \
    const T *p = a; \
    const T low = (T)attributes[0], high = (T)attributes[1]; \
    RM_ANY_ORDER_SMALL for (ptrdiff_t i = 0; i < n; i++) { \
      const T lower = p[i] <= low ? low : p[i]; \
      o[i] = lower >= high ? high : lower; \
    } \
  }
CLAMP(float, f32)
CLAMP(double, f64)

/* Integers of a block. */
enum { POW_BLOCK = 512 };

/* floor(x / y + 1 / |2 y|) equals floor(x / y), but its argument is at least 1 / |2 y| away from
 * the next integer. The roundings of 1 / y, the product and the sum are off by at most 3 * 2^-53 |x
 * / y|, which is less for |x| <= 2^50; in float32 by 3 * 2^-24 |x / y|, for |x| < 2^16. */
#define DIVIDE_BY_CONSTANT(type, T, real, floor_of, bits_of) \
  KERNEL_NAMED(divide_##type##_by_constant) { \
    T *o = out; \
    const T *p = a; \
    const integer_operand *y = (const void *)attributes; \
    const real reciprocal = (real)y->reciprocal, half = (real)y->half; \
    RM_ANY_ORDER_SMALL for (ptrdiff_t i = 0; i < n; i++) { \
      o[i] = (T)bits_of(floor_of((real)p[i] * reciprocal + half)); \
    } \
  }
DIVIDE_BY_CONSTANT(i8, int8_t, float, __builtin_floorf, rm_low_bits_f32)
DIVIDE_BY_CONSTANT(u8, uint8_t, float, __builtin_floorf, rm_low_bits_f32)
DIVIDE_BY_CONSTANT(i16, int16_t, float, __builtin_floorf, rm_low_bits_f32)
DIVIDE_BY_CONSTANT(u16, uint16_t, float, __builtin_floorf, rm_low_bits_f32)
DIVIDE_BY_CONSTANT(i32, int32_t, double, __builtin_floor, rm_low_bits)
DIVIDE_BY_CONSTANT(u32, uint32_t, double, __builtin_floor, rm_low_bits)

/* Divisors above 2, in 16-bit words: Granlund and Montgomery, "Division by Invariant Integers using
 * Multiplication", figure 4.1. The last shift is a multiplication, because vectors can shift by a
 * variable amount in longer words only. */
KERNEL_NAMED(divide_u8_by_large_constant) {
  uint8_t *o = out;
  const uint8_t *p = a;
  const integer_operand *y = (const void *)attributes;
  const uint16_t magic = y->magic, last = y->last;
  RM_ANY_ORDER_SMALL for (ptrdiff_t i = 0; i < n; i++) {
    const uint8_t x = p[i], t = (uint8_t)((uint16_t)(x * magic) >> 8);
    const uint8_t sum = (uint8_t)(t + ((uint8_t)(x - t) >> 1));
    o[i] = (uint8_t)((uint16_t)(sum * last) >> 8);
  }
}

/* A 51-bit integer is the mantissa of a float64 when added to this one. */
#define MANTISSA 0x1.8p52

KERNEL_NAMED(divide_64_by_constant) {
  const integer_operand *y = (const void *)attributes;
  const double reciprocal = y->reciprocal, half = y->half;
  const uint64_t base = rm_bits_f64(MANTISSA);
  for (ptrdiff_t from = 0; from < n; from += CHECKED_BLOCK) {
    const ptrdiff_t m = rm_min(n - from, CHECKED_BLOCK);
    const int64_t *p = (const int64_t *)a + from;
    int64_t *o = (int64_t *)out + from;
    uint64_t bits = 0;
    for (ptrdiff_t i = 0; i < m; i++) bits |= (uint64_t)p[i] ^ ((uint64_t)(p[i] >> 63) & y->sign);
    if (bits >> 50 != 0) {
      uint64_t divisor[CHECKED_BLOCK];
      for (int i = 0; i < CHECKED_BLOCK; i++) divisor[i] = y->number;
      y->divide(m, o, p, divisor, NULL, NULL);
      continue;
    }
    RM_ANY_ORDER_SMALL for (ptrdiff_t i = 0; i < m; i++) {
      const double x = rm_from_bits_f64((uint64_t)p[i] + base) - MANTISSA;
      const double floored = __builtin_floor(x * reciprocal + half);
      o[i] = (int64_t)(rm_bits_f64(floored + MANTISSA) - base);
    }
  }
}

static const map_function divide_by_constant[RM_DTYPE_COUNT] = {
    [RM_INT8] = divide_i8_by_constant,    [RM_INT16] = divide_i16_by_constant,
    [RM_INT32] = divide_i32_by_constant,  [RM_INT64] = divide_64_by_constant,
    [RM_UINT8] = divide_u8_by_constant,   [RM_UINT16] = divide_u16_by_constant,
    [RM_UINT32] = divide_u32_by_constant, [RM_UINT64] = divide_64_by_constant,
};

/* Powers by squaring, all elements of a block at a time. */
KERNEL_NAMED(pow_by_integer) {
  const integer_operand *y = (const void *)attributes;
  const ptrdiff_t bytes = y->bytes;
  for (ptrdiff_t from = 0; from < n; from += POW_BLOCK) {
    const ptrdiff_t m = rm_min(n - from, POW_BLOCK);
    char *o = (char *)out + from * bytes;
    uint64_t x[POW_BLOCK];
    memcpy(x, (const char *)a + from * bytes, (size_t)(m * bytes));
    const void *power = x;
    for (int bit = 62 - __builtin_clzll(y->number); bit >= 0; bit--) {
      y->multiply(m, o, power, power, NULL, NULL);
      if ((y->number >> bit & 1) != 0) y->multiply(m, o, o, x, NULL, NULL);
      power = o;
    }
  }
}

/* The cheaper kernel for x to the power of y, or null. It is no less precise. */
static map_function pow_function(double y, int compute) {
  if (y == 2) return RM_FOR_ISA(map_kernel)(RM_OP_square, compute);
  if (y == -1) return RM_FOR_ISA(map_kernel)(RM_OP_reciprocal, compute);
  return y != 0.5 ? NULL : compute == RM_FLOAT32 ? sqrt_power_f32 : sqrt_power_f64;
}

/* The same for integers, and for floor(x / y). */
static map_function integer_function(map_op *op, int opcode, int64_t y, int compute) {
  const bool is_negative = y < 0 && compute < RM_UINT8;
  const double divisor = compute < RM_UINT8 ? (double)y : (double)(uint64_t)y;
  op->divisor = (integer_operand){.reciprocal = 1 / divisor,
                                   .half = 0.5 / __builtin_fabs(divisor),
                                   .number = (uint64_t)y,
                                   .sign = compute < RM_UINT8 ? UINT64_MAX : 0,
                                   .bytes = rm_itemsize(compute),
                                   .multiply = RM_FOR_ISA(map_kernel)(RM_OP_mul, compute),
                                   .divide = RM_FOR_ISA(map_kernel)(RM_OP_floorDivide, compute)};
  op->attributes = (const void *)&op->divisor;
  if (opcode == RM_OP_floorDivide) {
    if (compute != RM_UINT8 || y <= 2) return y == 0 ? NULL : divide_by_constant[compute];
    const int bits = 64 - __builtin_clzll((uint64_t)y - 1);
    op->divisor.magic = (uint16_t)((((1 << bits) - y) << 8) / y + 1);
    op->divisor.last = (uint16_t)(1 << (9 - bits));
    return divide_u8_by_large_constant;
  }
  if (y == 2) return RM_FOR_ISA(map_kernel)(RM_OP_square, compute);
  return is_negative || y < 2 ? NULL : pow_by_integer;
}

/* The value of a scalar, or NaN if the operand is none. */
static double scalar_value(map_scalar scalar) {
  if (scalar.data == NULL) return NAN;
  double y;
  RM_FOR_ISA(casts)[scalar.dtype][RM_FLOAT64](1, &y, scalar.data);
  return y;
}

void RM_FOR_ISA(map_simplify)(map_op *op, int opcode, const map_scalar scalars[RM_MAX_OPERANDS]) {
  const int compute = op->compute_dtype[1];
  const bool is_int = compute >= RM_INT8 && compute <= RM_UINT64;
  const bool floats = compute >= RM_FLOAT32;
  map_function function = NULL;
  if (floats && opcode == RM_OP_pow && rm_is_float(scalars[2].dtype)) {
    function = pow_function(scalar_value(scalars[2]), compute);
  } else if (floats && opcode == RM_OP_clip && op->rounding_dtype == RM_NONE &&
             rm_is_float(scalars[2].dtype) && rm_is_float(scalars[3].dtype)) {
    const double low = scalar_value(scalars[2]), high = scalar_value(scalars[3]);
    if (low == low && high == high) function = compute == RM_FLOAT32 ? clamp_f32 : clamp_f64;
    op->bounds[0] = low, op->bounds[1] = high;
    op->attributes = op->bounds;
  } else if (is_int && (opcode == RM_OP_pow || opcode == RM_OP_floorDivide)) {
    const double y = scalar_value(scalars[2]);
    if (y == y) {
      int64_t exact;
      RM_FOR_ISA(casts)[scalars[2].dtype][compute](1, &exact, scalars[2].data);
      RM_FOR_ISA(casts)[compute][RM_INT64](1, &exact, &exact);
      function = integer_function(op, opcode, exact, compute);
    }
  }
  if (function == NULL) return;
  op->function = function;
  op->whole_vectors = false;
  op->operands = 2;
  op->compute_bound = function == pow_by_integer;
}
