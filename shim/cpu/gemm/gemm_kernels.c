/*
 * The kernels of matrix products for every compute dtype. This file does not know plans, threads or
 * batches.
 */
#include <string.h>
#include "gemm_vectors.h"

#if defined(__AVX2__)
/* Vectors of half the length. */
VECTOR(half_vector_f32, float, VECTOR_BYTES / 8);
VECTOR(half_vector_f64, double, VECTOR_BYTES / 16);
VECTOR(half_vector_i32, uint32_t, VECTOR_BYTES / 8);
VECTOR(half_vector_i16, uint16_t, VECTOR_BYTES / 4);
VECTOR(half_vector_i64, uint64_t, VECTOR_BYTES / 16);
#endif
#if defined(__AVX512F__)
VECTOR(quarter_vector_f32, float, VECTOR_BYTES / 16);
VECTOR(quarter_vector_f64, double, VECTOR_BYTES / 32);
VECTOR(quarter_vector_i32, uint32_t, VECTOR_BYTES / 16);
VECTOR(quarter_vector_i16, uint16_t, VECTOR_BYTES / 8);
VECTOR(quarter_vector_i64, uint64_t, VECTOR_BYTES / 32);
#endif

/* SSE has no 64-bit product, so one element at a time is faster. */
#if defined(__AVX2__)
enum { I64_LANES = VECTOR_BYTES / 8 };
VECTOR(v_i64, uint64_t, VECTOR_BYTES / 8);
#define SUM_LANES_I64 SUM_LANES_64
#else
enum { I64_LANES = 1 };
typedef uint64_t v_i64;
#define SUM_LANES_I64(x) (x)
#endif

/* ---- packing --------------------------------------------------------------------------------- */

#define SUFFIX 16
#define TYPE uint16_t
#define WIDTH VECTOR_BYTES
#include "gemm_pack_type.h"
#define SUFFIX 32
#define TYPE uint32_t
#define WIDTH (VECTOR_BYTES / 2)
#include "gemm_pack_type.h"
#define SUFFIX 64
#define TYPE uint64_t
#define WIDTH (VECTOR_BYTES / 4)
#include "gemm_pack_type.h"
#if defined(__AVX2__)
#define pack_a_i64 pack_a_64
#define pack_b_i64 pack_b_64
#else
#define SUFFIX i64
#define TYPE uint64_t
#define WIDTH (2 * I64_LANES)
#include "gemm_pack_type.h"
#endif

/* ---- products -------------------------------------------------------------------------------- */

/* Adjacent rows of K elements. With a constant K, compilers vectorize the loop. */
#define SHORT_ROWS_CASE(T, K) \
  if (k == (K) && row == (K)) { \
    T *restrict sum = sums; \
    const T *restrict b = x; \
    RM_ROLLED for (ptrdiff_t i = 0; i < rows; i++) { \
      UNROLL for (int p = 0; p < (K); p++) sum[i] = FMA(T, a[i * (K) + p], b[p], sum[i]); \
    } \
    return; \
  }

#define SUFFIX f32
#define TYPE float
#define VECTOR_OF v_f32
#define HALF_VECTOR_OF half_vector_f32
#define QUARTER_VECTOR_OF quarter_vector_f32
#define LANES (VECTOR_BYTES / 4)
#define MADD FMA
#define SUM_LANES SUM_LANES_32
#define PACK_A pack_a_32
#define PACK_B pack_b_32
#if defined(__AVX2__) || defined(__aarch64__)
#define HAS_SHORT_ROWS
#endif
#include "gemm_type.h"
#define SUFFIX f64
#define TYPE double
#define VECTOR_OF v_f64
#define HALF_VECTOR_OF half_vector_f64
#define QUARTER_VECTOR_OF quarter_vector_f64
#define LANES (VECTOR_BYTES / 8)
#define MADD FMA
#define SUM_LANES SUM_LANES_64
#define PACK_A pack_a_64
#define PACK_B pack_b_64
#if defined(__AVX2__) || defined(__aarch64__)
#define HAS_SHORT_ROWS
#endif
#include "gemm_type.h"
#define SUFFIX i16
#define TYPE uint16_t
#define VECTOR_OF v_i16
#define HALF_VECTOR_OF half_vector_i16
#define QUARTER_VECTOR_OF quarter_vector_i16
#define LANES (VECTOR_BYTES / 2)
#define MADD MULTIPLY_ADD
#define SUM_LANES SUM_LANES_16
#define PACK_A pack_a_16
#define PACK_B pack_b_16
#include "gemm_type.h"
#define SUFFIX i32
#define TYPE uint32_t
#define VECTOR_OF v_i32
#define HALF_VECTOR_OF half_vector_i32
#define QUARTER_VECTOR_OF quarter_vector_i32
#define LANES (VECTOR_BYTES / 4)
#define MADD MULTIPLY_ADD
#define SUM_LANES SUM_LANES_32
#define PACK_A pack_a_32
#define PACK_B pack_b_32
#include "gemm_type.h"
#define SUFFIX i64
#define TYPE uint64_t
#define VECTOR_OF v_i64
#define HALF_VECTOR_OF half_vector_i64
#define QUARTER_VECTOR_OF quarter_vector_i64
#define LANES I64_LANES
#define MADD MULTIPLY_ADD
#define SUM_LANES SUM_LANES_I64
#define PACK_A pack_a_i64
#define PACK_B pack_b_i64
#include "gemm_type.h"

/* The dot products of whole vectors of four rows, narrowed by REDUCE. */
#define DOT4_VECTORS(V, L, suffix, REDUCE, to) \
  if (k < L) { \
    memset(to, 0, sizeof to); \
  } else { \
    V pairs[SMALL_MR][2]; \
    p = dot4_vectors_##suffix(k, a, row, x, pairs); \
    UNROLL for (int i = 0; i < SMALL_MR; i++) to[i] = REDUCE(pairs[i][0] + pairs[i][1]); \
  }
/* The same for one narrower vector. */
#define DOT4_NARROW(V, L, to) \
  if (p + (L) <= k) { \
    const V x0 = *(const V *)(x + p); \
    UNROLL for (int i = 0; i < SMALL_MR; i++) { \
      to[i] = FMA(V, *(const V *)(a + i * row + p), x0, to[i]); \
    } \
    p += (L); \
  }
#define UNREDUCED(x) (x)
static RM_ALWAYS_INLINE void dot4_f32(ptrdiff_t k, const float *a, ptrdiff_t row, const float *x,
                                      float *to) {
  ptrdiff_t p = 0;
  f32x4 s[SMALL_MR];
#if defined(__AVX512F__)
  f32x8 e[SMALL_MR];
  DOT4_VECTORS(v_f32, 16, f32, ADD_HALVES, e)
  DOT4_NARROW(f32x8, 8, e)
  UNROLL for (int i = 0; i < SMALL_MR; i++) s[i] = ADD_HALVES(e[i]);
  DOT4_NARROW(f32x4, 4, s)
#elif defined(__AVX2__)
  DOT4_VECTORS(v_f32, 8, f32, ADD_HALVES, s)
  DOT4_NARROW(f32x4, 4, s)
#else
  DOT4_VECTORS(v_f32, 4, f32, UNREDUCED, s)
#endif
  const f32x4 low = __builtin_shufflevector(s[0], s[1], 0, 4, 1, 5) +
                    __builtin_shufflevector(s[0], s[1], 2, 6, 3, 7);
  const f32x4 high = __builtin_shufflevector(s[2], s[3], 0, 4, 1, 5) +
                     __builtin_shufflevector(s[2], s[3], 2, 6, 3, 7);
  f32x4 sum = __builtin_shufflevector(low, high, 0, 1, 4, 5) +
              __builtin_shufflevector(low, high, 2, 3, 6, 7);
  RM_SCALAR for (; p < k; p++) {
    const f32x4 column = {a[p], a[row + p], a[2 * row + p], a[3 * row + p]};
    sum = FMA(f32x4, column, (f32x4)(x[p]), sum);
  }
  *(f32x4 *)to += sum;
}

static RM_ALWAYS_INLINE void dot4_f64(ptrdiff_t k, const double *a, ptrdiff_t row, const double *x,
                                      double *to) {
  ptrdiff_t p = 0;
  f64x2 s[SMALL_MR];
#if defined(__AVX512F__)
  f64x4 e[SMALL_MR];
  DOT4_VECTORS(v_f64, 8, f64, ADD_HALVES, e)
  DOT4_NARROW(f64x4, 4, e)
  UNROLL for (int i = 0; i < SMALL_MR; i++) s[i] = ADD_HALVES(e[i]);
  DOT4_NARROW(f64x2, 2, s)
#elif defined(__AVX2__)
  DOT4_VECTORS(v_f64, 4, f64, ADD_HALVES, s)
  DOT4_NARROW(f64x2, 2, s)
#else
  DOT4_VECTORS(v_f64, 2, f64, UNREDUCED, s)
#endif
  UNROLL for (int i = 0; i < SMALL_MR; i += 2) {
    const f64x2 x0 = __builtin_shufflevector(s[i], s[i + 1], 0, 2);
    f64x2 sum = x0 + __builtin_shufflevector(s[i], s[i + 1], 1, 3);
    const double *left = a + i * row + p;
    if (p < k) sum = FMA(f64x2, ((f64x2){left[0], left[row]}), (f64x2)(x[p]), sum);
    *(f64x2 *)(to + i) += sum;
  }
}

/* Integers. */
#define DOT4(suffix, T, V, L, SUM_LANES_OF) \
  static RM_ALWAYS_INLINE void dot4_##suffix(ptrdiff_t k, const T *a, ptrdiff_t row, const T *x, \
                                             T *to) { \
    ptrdiff_t p = 0; \
    V s[SMALL_MR]; \
    DOT4_VECTORS(V, L, suffix, UNREDUCED, s) \
    UNROLL for (int i = 0; i < SMALL_MR; i++) { \
      T sum = (T)SUM_LANES_OF(s[i]); \
      RM_SCALAR for (ptrdiff_t q = p; q < k; q++) sum = (T)(sum + a[i * row + q] * x[q]); \
      to[i] = (T)(to[i] + sum); \
    } \
  }
DOT4(i32, uint32_t, v_i32, (VECTOR_BYTES / 4), SUM_LANES_32)
DOT4(i16, uint16_t, v_i16, (VECTOR_BYTES / 2), SUM_LANES_16)
DOT4(i64, uint64_t, v_i64, I64_LANES, SUM_LANES_I64)

const gemm_kernels *RM_FOR_ISA(gemm_kernels)(int dtype) {
  switch (dtype) {
    case RM_FLOAT16:
    case RM_BFLOAT16:
    case RM_FLOAT32: return &kernels_f32;
    case RM_FLOAT64: return &kernels_f64;
    case RM_INT8:
    case RM_UINT8:
    case RM_INT16:
    case RM_UINT16: return &kernels_i16;
    case RM_INT32:
    case RM_UINT32: return &kernels_i32;
    case RM_INT64:
    case RM_UINT64: return &kernels_i64;
    default: return NULL;
  }
}
