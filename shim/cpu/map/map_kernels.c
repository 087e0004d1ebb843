/*
 * The kernels of elementwise ops: one contiguous loop per line of ops.def and dtype. Those of narrow
 * integers and of special functions are in map_shared_kernels.c.
 */
#include <string.h>
#if defined(__AVX512F__)
#include "gelu.h"
#endif
#include "intmath.h"
#include "map_context.h"
#include "vecmath.h"

#define TYPE double
#define SUFFIX f64
#define FAMILY_FLOAT
#include "map_type.h"
#define TYPE float
#define SUFFIX f32
#define FAMILY_FLOAT
#define FAMILY_FLOAT32
#include "map_type.h"
#define TYPE uint64_t
#define SUFFIX u64
#define FAMILY_UNSIGNED
#include "map_type.h"
#define TYPE int64_t
#define SUFFIX i64
#define UNSIGNED u64
#include "map_type.h"

#if RM_HAS_F16_CONVERSION
#define TYPE uint16_t
#define SUFFIX f16
#define FAMILY_HALF
#define READ rm_f16_to_f32
#define WRITE rm_f32_to_f16
#include "map_type.h"
#define TYPE uint16_t
#define SUFFIX bf16
#define FAMILY_HALF
#define READ rm_bf16_to_f32
#define WRITE rm_f32_to_bf16
#include "map_type.h"
#else
/* Conversion by arithmetic would make long kernels. */
static map_function no_kernel(__attribute__((unused)) int opcode) { return NULL; }
#define kernel_of_f16 no_kernel
#define kernel_of_bf16 no_kernel
#endif

/* The neighbours of 16-bit floats cannot be computed in float32. */
#define NEXTAFTER(type) \
  KERNEL_NAMED(own_nextafter_##type) { \
    uint16_t *o = out; \
    const uint16_t *p = a, *q = b; \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) o[i] = rm_nextafter_##type(p[i], q[i]); \
  }
NEXTAFTER(f16)
NEXTAFTER(bf16)

/* Nor can the signs of bfloat16, which no supported processor converts directly. */
#define SIGN_BITS(name, expr) \
  KERNEL_NAMED(name) { \
    uint16_t *o = out; \
    const uint16_t *p = a; \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) o[i] = (uint16_t)(expr); \
  }
SIGN_BITS(own_neg_bf16, p[i] ^ 0x8000)
SIGN_BITS(own_abs_bf16, p[i] & 0x7fff)

#if RM_HAS_FMA
/* Returns how many of n quotients were short, and thus correct. */
typedef ptrdiff_t (RM_KERNEL *fast_division)(ptrdiff_t n, void *out, const void *a, const void *b);

__attribute__((noinline)) static void run_checked_division(ptrdiff_t n, char *out, const char *a,
                                                           const char *b, ptrdiff_t bytes,
                                                           fast_division fast_path,
                                                           map_function fallback) {
  _Alignas(64) uint64_t result[CHECKED_BLOCK];
  for (ptrdiff_t from = 0; from < n; from += CHECKED_BLOCK) {
    const ptrdiff_t m = rm_min(n - from, CHECKED_BLOCK), at = from * bytes;
    /* The output may be an input. */
    if (fast_path(m, result, a + at, b + at) == m) memcpy(out + at, result, (size_t)(m * bytes));
    else fallback(m, out + at, a + at, b + at, NULL, NULL);
  }
}
#endif

#define TYPE float
#define SUFFIX f32
#define KEY uint32_t
#include "map_float_type.h"
#define TYPE double
#define SUFFIX f64
#define KEY uint64_t
#include "map_float_type.h"

/* The same as in map_float_type.h, for logarithms of operands that are not positive and normal. */
__attribute__((noinline)) static void run_checked_log_f32(ptrdiff_t n, void *out, const void *a,
                                                          map_function fast_path,
                                                          map_function fallback) {
  for (ptrdiff_t from = 0; from < n; from += CHECKED_BLOCK) {
    const ptrdiff_t m = rm_min(n - from, CHECKED_BLOCK);
    const float *p = (const float *)a + from;
    uint32_t largest = 0;
    for (ptrdiff_t i = 0; i < m; i++) {
      const uint32_t key = rm_log_key_f32(p[i]);
      largest = key > largest ? key : largest;
    }
    const bool is_fast = !rm_log_needs_fallback_f32(largest);
    (is_fast ? fast_path : fallback)(m, (float *)out + from, p, NULL, NULL, NULL);
  }
}

#define LOGARITHM(name) \
  KERNEL_NAMED(fast_##name##_f32) { unary_same_f32(n & -VECTOR, out, a, rm_##name##_normal_f32); } \
  KERNEL_NAMED(checked_##name##_f32) { \
    run_checked_log_f32(n, out, a, fast_##name##_f32, name##_f32); \
  }
LOGARITHM(log)
LOGARITHM(log2)
LOGARITHM(log10)

#if defined(__AVX512F__)
KERNEL_NAMED(avx512_gelu_f32) {
  float *o = out;
  const float *p = a;
  for (ptrdiff_t i = 0; i < n; i += VECTOR) {
    _mm512_storeu_ps(o + i, gelu_16(_mm512_loadu_ps(p + i)));
  }
}
#endif

static map_function (*const kernels_of[RM_DTYPE_COUNT])(int) = {
    [RM_INT64] = kernel_of_i64,     [RM_UINT64] = kernel_of_u64,   [RM_FLOAT16] = kernel_of_f16,
    [RM_BFLOAT16] = kernel_of_bf16, [RM_FLOAT32] = kernel_of_f32, [RM_FLOAT64] = kernel_of_f64,
};

/* Returns the kernel of the op or, if that is not for all operands, one that checks them. */
map_function RM_FOR_ISA(map_kernel)(int opcode, int compute) {
  const map_function own = kernels_of[compute] == NULL ? NULL : kernels_of[compute](opcode);
  const map_function fast_path = own != NULL ? own : RM_FOR_ISA(map_shared_kernel)(opcode, compute);
  if (compute == RM_FLOAT32) {
    switch (opcode) {
      case RM_OP_sin: return checked_sin_f32;
      case RM_OP_cos: return checked_cos_f32;
      case RM_OP_tan: return checked_tan_f32;
      case RM_OP_log: return checked_log_f32;
      case RM_OP_log2: return checked_log2_f32;
      case RM_OP_log10: return checked_log10_f32;
#if defined(__AVX512F__)
      case RM_OP_gelu: return avx512_gelu_f32;
#endif
#if RM_HAS_FMA
      case RM_OP_floorDivide: return checked_floorDivide_f32;
      case RM_OP_remainder: return checked_remainder_f32;
#endif
      default: return fast_path;
    }
  }
  if (compute == RM_FLOAT64) {
    switch (opcode) {
      case RM_OP_sin: return checked_sin_f64;
      case RM_OP_cos: return checked_cos_f64;
      case RM_OP_tan: return checked_tan_f64;
#if RM_HAS_FMA
      case RM_OP_floorDivide: return checked_floorDivide_f64;
      case RM_OP_remainder: return checked_remainder_f64;
#endif
      default: return fast_path;
    }
  }
  if (opcode == RM_OP_nextafter && compute == RM_FLOAT16) return own_nextafter_f16;
  if (compute == RM_BFLOAT16) {
    switch (opcode) {
      case RM_OP_nextafter: return own_nextafter_bf16;
      case RM_OP_neg: return own_neg_bf16;
      case RM_OP_abs: return own_abs_bf16;
      default: return fast_path;
    }
  }
  return fast_path;
}

/* The kernels for a scalar as first or second operand. */
static const map_function (*const scalar_table[RM_DTYPE_COUNT])[2] = {
    [RM_INT64] = scalar_table_u64,
    [RM_UINT64] = scalar_table_u64,
    [RM_FLOAT32] = scalar_table_f32,
    [RM_FLOAT64] = scalar_table_f64,
};

const map_function *RM_FOR_ISA(map_scalar_kernels)(int opcode, int compute) {
  if (opcode < RM_OP_add || opcode >= RM_OP_add + ARITHMETIC) return NULL;
  return scalar_table[compute] != NULL ? scalar_table[compute][opcode - RM_OP_add]
                                       : RM_FOR_ISA(map_shared_scalar_kernels)(opcode, compute);
}

void RM_FOR_ISA(pow_in_place)(ptrdiff_t n, double *x, double y) {
  double each[CHECKED_BLOCK];
  for (int i = 0; i < CHECKED_BLOCK; i++) each[i] = y;
  for (; n % VECTOR != 0; n++) x[n] = 1;
  for (ptrdiff_t i = 0; i < n; i += CHECKED_BLOCK) {
    pow_f64(rm_min(n - i, CHECKED_BLOCK), x + i, x + i, each, NULL, NULL);
  }
}
