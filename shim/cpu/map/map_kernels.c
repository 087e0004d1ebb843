/*
 * The kernels of elementwise ops: dense loops, one for each line of ops.def and dtype.
 */
#include <string.h>
#if defined(__AVX512F__)
#include "gelu.h"
#endif
#include "intmath.h"
#include "map_context.h"
#include "ops.def"
#include "vecmath.h"

/* Rows of arithmetic: their ids follow each other. */
enum { ARITHMETIC = RM_OP_div - RM_OP_add + 1 };

#define TYPE float
#define SUFFIX f32
#define FAMILY_FLOAT
#include "map_type.h"
#define TYPE double
#define SUFFIX f64
#define FAMILY_FLOAT
#include "map_type.h"
#define TYPE uint8_t
#define SUFFIX u8
#define FAMILY_UNSIGNED
#include "map_type.h"
#define TYPE uint16_t
#define SUFFIX u16
#define FAMILY_UNSIGNED
#include "map_type.h"
#define TYPE uint32_t
#define SUFFIX u32
#define FAMILY_UNSIGNED
#include "map_type.h"
#define TYPE uint64_t
#define SUFFIX u64
#define FAMILY_UNSIGNED
#include "map_type.h"
#define TYPE int8_t
#define SUFFIX i8
#define UNSIGNED u8
#include "map_type.h"
#define TYPE int16_t
#define SUFFIX i16
#define UNSIGNED u16
#include "map_type.h"
#define TYPE int32_t
#define SUFFIX i32
#define UNSIGNED u32
#include "map_type.h"
#define TYPE int64_t
#define SUFFIX i64
#define UNSIGNED u64
#include "map_type.h"
#define TYPE uint8_t
#define SUFFIX b8
#define FAMILY_BOOL
#include "map_type.h"

#if RM_HALF_IN_HARDWARE
#define TYPE uint16_t
#define SUFFIX f16
#define FAMILY_HALF
#define READ rm_from_half
#define WRITE rm_to_half
#include "map_type.h"
#define TYPE uint16_t
#define SUFFIX bf16
#define FAMILY_HALF
#define READ rm_from_brain
#define WRITE rm_to_brain
#include "map_type.h"
#else
/* Conversions by arithmetic would make long kernels. */
static const kernel table_f16[RM_ROWS], table_bf16[RM_ROWS];
#endif

/* The neighbours of 16-bit floats are no matter of arithmetic in float32. */
#define NEXTAFTER(type) \
  KERNEL_NAMED(own_nextafter_##type) { \
    uint16_t *o = out; \
    const uint16_t *p = a, *q = b; \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) o[i] = rm_nextafter_##type(p[i], q[i]); \
  }
NEXTAFTER(f16)
NEXTAFTER(bf16)

/* Nor are the signs of bfloat16, which no processor here converts at once. */
#define SIGN_BITS(name, expr) \
  KERNEL_NAMED(name) { \
    uint16_t *o = out; \
    const uint16_t *p = a; \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) o[i] = (uint16_t)(expr); \
  }
SIGN_BITS(own_neg_bf16, p[i] ^ 0x8000)
SIGN_BITS(own_abs_bf16, p[i] & 0x7fff)

/* The vector code of some functions is for most operands, found by their keys; blocks that hold
 * others take a kernel for all. Blocks are short, so that the processor looks for keys in the next
 * one while it computes. Not inlined: kernels that are part of a longer function load their
 * constants for every vector. */
#define BLOCKS(test, T, type, word) \
  __attribute__((noinline)) static void test##_blocks_##type( \
      ptrdiff_t n, void *out, const void *a, kernel usual, kernel any) { \
    for (ptrdiff_t from = 0; from < n; from += KEYED) { \
      const ptrdiff_t m = rm_least(n - from, KEYED); \
      const T *p = (const T *)a + from; \
      word most = 0; \
      for (ptrdiff_t i = 0; i < m; i++) { \
        const word key = rm_##test##_key_##type(p[i]); \
        most = key > most ? key : most; \
      } \
      const bool is_usual = !rm_##test##_is_rare_##type(most); \
      (is_usual ? usual : any)(m, (T *)out + from, p, NULL, NULL, NULL); \
    } \
  }
BLOCKS(turn, float, f32, uint32_t)
BLOCKS(turn, double, f64, uint64_t)
BLOCKS(log, float, f32, uint32_t)

#define KEYED_KERNEL(name, test, type, usual, any) \
  KERNEL_NAMED(keyed_##name##_##type) { \
    test##_blocks_##type(n, out, a, usual##_##type, any##_##type); \
  }

/* Huge operands take the C library's functions, one by one. */
#define TRIGONOMETRIC(name, T, type) \
  KERNEL_NAMED(any_##name##_##type) { \
    T *o = out; \
    T copy[KEYED]; \
    /* The output may be the input. */ \
    memcpy(copy, a, (size_t)n * sizeof(T)); \
    name##_##type(n, o, copy, b, c, attributes); \
    for (ptrdiff_t i = 0; i < n; i++) { \
      if (rm_turn_is_rare_##type(rm_turn_key_##type(copy[i]))) o[i] = (T)name(copy[i]); \
    } \
  } \
  KEYED_KERNEL(name, turn, type, name, any_##name)
TRIGONOMETRIC(sin, float, f32)
TRIGONOMETRIC(cos, float, f32)
TRIGONOMETRIC(tan, float, f32)
TRIGONOMETRIC(sin, double, f64)
TRIGONOMETRIC(cos, double, f64)
TRIGONOMETRIC(tan, double, f64)

#define LOGARITHM(name) \
  KERNEL_NAMED(normal_##name##_f32) { \
    float *o = out; \
    const float *p = a; \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < (n & -VECTOR); i++) o[i] = rm_##name##_normal_f32(p[i]); \
  } \
  KEYED_KERNEL(name, log, f32, normal_##name, name)
LOGARITHM(log)
LOGARITHM(log2)
LOGARITHM(log10)

#if RM_HAS_FMA
/* There is vector code for short quotients of floats, which nearly all are. Gives how many of n were
 * short; n is a multiple of VECTOR. In float64 that is below 2^51: x - m and what is divided by y are
 * rounded, which together are off by 3/8 of an integer at most. */
typedef ptrdiff_t (RM_KERNEL *division)(ptrdiff_t n, void *out, const void *a, const void *b);
#define DIVISION(name, function, T, type) \
  static RM_KERNEL ptrdiff_t short_##name##_##type(ptrdiff_t n, void *out, const void *a, \
                                                   const void *b) { \
    T *o = out; \
    const T *p = a, *q = b; \
    int count = 0; \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < (n & -VECTOR); i++) { \
      count += rm_is_short_##type(p[i], q[i]); \
      o[i] = rm_##function##_short_##type(p[i], q[i]); \
    } \
    return count; \
  } \
  KERNEL_NAMED(checked_##name##_##type) { \
    divide_blocks(n, out, a, b, sizeof(T), short_##name##_##type, name##_##type); \
  }

__attribute__((noinline)) static void divide_blocks(ptrdiff_t n, char *out, const char *a,
                                                    const char *b, ptrdiff_t bytes, division usual,
                                                    kernel any) {
  _Alignas(64) uint64_t result[KEYED];
  for (ptrdiff_t from = 0; from < n; from += KEYED) {
    const ptrdiff_t m = rm_least(n - from, KEYED), at = from * bytes;
    /* The output may be an input. */
    if (usual(m, result, a + at, b + at) == m) memcpy(out + at, result, (size_t)(m * bytes));
    else any(m, out + at, a + at, b + at, NULL, NULL);
  }
}
DIVISION(floorDivide, ffloordiv, float, f32)
DIVISION(remainder, fmod, float, f32)
DIVISION(floorDivide, ffloordiv, double, f64)
DIVISION(remainder, fmod, double, f64)
#endif

#if defined(__AVX512F__)
KERNEL_NAMED(pieced_gelu_f32) {
  float *o = out;
  const float *p = a;
  for (ptrdiff_t i = 0; i < n; i += VECTOR) {
    _mm512_storeu_ps(o + i, gelu_of(_mm512_loadu_ps(p + i)));
  }
}
#endif

static const kernel *const tables[RM_DTYPE_COUNT] = {
    table_b8,  table_i8,  table_i16, table_i32,  table_i64, table_u8, table_u16,
    table_u32, table_u64, table_f16, table_bf16, table_f32, table_f64,
};

/* The kernel of a row for a dtype as it is, or null. Where the table's is not for all operands, it
 * is another one. */
kernel RM_AT(map_kernel)(int opcode, int compute) {
  const kernel usual = tables[compute][opcode];
  if (compute == RM_FLOAT32) {
    switch (opcode) {
      case RM_OP_sin: return keyed_sin_f32;
      case RM_OP_cos: return keyed_cos_f32;
      case RM_OP_tan: return keyed_tan_f32;
      case RM_OP_log: return keyed_log_f32;
      case RM_OP_log2: return keyed_log2_f32;
      case RM_OP_log10: return keyed_log10_f32;
#if defined(__AVX512F__)
      case RM_OP_gelu: return pieced_gelu_f32;
#endif
#if RM_HAS_FMA
      case RM_OP_floorDivide: return checked_floorDivide_f32;
      case RM_OP_remainder: return checked_remainder_f32;
#endif
      default: return usual;
    }
  }
  if (compute == RM_FLOAT64) {
    switch (opcode) {
      case RM_OP_sin: return keyed_sin_f64;
      case RM_OP_cos: return keyed_cos_f64;
      case RM_OP_tan: return keyed_tan_f64;
#if RM_HAS_FMA
      case RM_OP_floorDivide: return checked_floorDivide_f64;
      case RM_OP_remainder: return checked_remainder_f64;
#endif
      default: return usual;
    }
  }
  if (opcode == RM_OP_nextafter && compute == RM_FLOAT16) return own_nextafter_f16;
  if (compute == RM_BFLOAT16) {
    switch (opcode) {
      case RM_OP_nextafter: return own_nextafter_bf16;
      case RM_OP_neg: return own_neg_bf16;
      case RM_OP_abs: return own_abs_bf16;
      default: return usual;
    }
  }
  return usual;
}

/* Those for the first or the second operand being one element. */
static const kernel (*const with_element[RM_DTYPE_COUNT])[2] = {
    [RM_INT8] = with_element_u8,     [RM_INT16] = with_element_u16,
    [RM_INT32] = with_element_u32,   [RM_INT64] = with_element_u64,
    [RM_UINT8] = with_element_u8,    [RM_UINT16] = with_element_u16,
    [RM_UINT32] = with_element_u32,  [RM_UINT64] = with_element_u64,
    [RM_FLOAT32] = with_element_f32, [RM_FLOAT64] = with_element_f64,
};

/* The kernels of a row for either being one, or null; they may be null themselves. */
const kernel *RM_AT(map_element_kernels)(int opcode, int compute) {
  const bool arithmetic = opcode >= RM_OP_add && opcode < RM_OP_add + ARITHMETIC;
  return arithmetic && with_element[compute] != NULL ? with_element[compute][opcode - RM_OP_add]
                                                     : NULL;
}

void RM_AT(powers)(ptrdiff_t n, double *x, double y) {
  double each[KEYED];
  for (int i = 0; i < KEYED; i++) each[i] = y;
  for (; n % VECTOR != 0; n++) x[n] = 1;
  for (ptrdiff_t i = 0; i < n; i += KEYED) {
    pow_f64(rm_least(n - i, KEYED), x + i, x + i, each, NULL, NULL);
  }
}
