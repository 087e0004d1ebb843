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

/* Functions of one element, and the loops around them, become part of every kernel. */
#define MAP_APPLY static inline __attribute__((always_inline))
#define MAP_LOOP static inline __attribute__((always_inline)) void

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

#if RM_HAS_FMA
/* Gives how many quotients of n were short, and right. */
typedef ptrdiff_t (RM_KERNEL *division)(ptrdiff_t n, void *out, const void *a, const void *b);

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
#endif

#define TYPE float
#define SUFFIX f32
#define KEY uint32_t
#include "map_float_type.h"
#define TYPE double
#define SUFFIX f64
#define KEY uint64_t
#include "map_float_type.h"

/* The same as in map_float_type.h, for operands of logarithms that are no positive, normal numbers. */
__attribute__((noinline)) static void log_blocks_f32(ptrdiff_t n, void *out, const void *a,
                                                     kernel usual, kernel any) {
  for (ptrdiff_t from = 0; from < n; from += KEYED) {
    const ptrdiff_t m = rm_least(n - from, KEYED);
    const float *p = (const float *)a + from;
    uint32_t most = 0;
    for (ptrdiff_t i = 0; i < m; i++) {
      const uint32_t key = rm_log_key_f32(p[i]);
      most = key > most ? key : most;
    }
    const bool is_usual = !rm_log_is_rare_f32(most);
    (is_usual ? usual : any)(m, (float *)out + from, p, NULL, NULL, NULL);
  }
}

#define LOGARITHM(name) \
  KERNEL_NAMED(normal_##name##_f32) { \
    unary_same_f32(n & -VECTOR, out, a, rm_##name##_normal_f32); \
  } \
  KERNEL_NAMED(keyed_##name##_f32) { \
    log_blocks_f32(n, out, a, normal_##name##_f32, name##_f32); \
  }
LOGARITHM(log)
LOGARITHM(log2)
LOGARITHM(log10)

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
