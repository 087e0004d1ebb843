/*
 * The kernels of matrix products, for every kind of arithmetic. Knows nothing of plans, threads or
 * batches.
 */
#include <string.h>
#include "gemm_vectors.h"

#if defined(__AVX2__)
/* Vectors of half the length. */
VECTOR(half_f32, float, BYTES / 8);
VECTOR(half_f64, double, BYTES / 16);
VECTOR(half_i32, uint32_t, BYTES / 8);
VECTOR(half_i16, uint16_t, BYTES / 4);
VECTOR(half_i64, uint64_t, BYTES / 16);
#endif
#if defined(__AVX512F__)
VECTOR(quarter_f32, float, BYTES / 16);
VECTOR(quarter_f64, double, BYTES / 32);
VECTOR(quarter_i32, uint32_t, BYTES / 16);
VECTOR(quarter_i16, uint16_t, BYTES / 8);
VECTOR(quarter_i64, uint64_t, BYTES / 32);
#endif

/* Vectors of 16 bytes have no product of 64 bits: one at a time is faster. */
#if defined(__AVX2__)
enum { I64_LANES = BYTES / 8 };
VECTOR(v_i64, uint64_t, BYTES / 8);
#define TOTAL_I64 TOTAL_64
#else
enum { I64_LANES = 1 };
typedef uint64_t v_i64;
#define TOTAL_I64(x) (x)
#endif

/* ---- packing --------------------------------------------------------------------------------- */

#define SUFFIX 16
#define TYPE uint16_t
#define WIDTH BYTES
#include "gemm_pack_type.h"
#define SUFFIX 32
#define TYPE uint32_t
#define WIDTH (BYTES / 2)
#include "gemm_pack_type.h"
#define SUFFIX 64
#define TYPE uint64_t
#define WIDTH (BYTES / 4)
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

/* Rows of K elements that lie one after another: where compilers know K, they have
 * vectors for them. */
#define SHORT(T, K) \
  if (k == (K) && row == (K)) { \
    T *restrict sum = sums; \
    const T *restrict b = x; \
    RM_ROLLED for (ptrdiff_t i = 0; i < rows; i++) { \
      UNROLL for (int p = 0; p < (K); p++) sum[i] = FUSED(T, a[i * (K) + p], b[p], sum[i]); \
    } \
    return; \
  }

#define SUFFIX f32
#define TYPE float
#define VECTOR_OF v_f32
#define HALF_OF half_f32
#define QUARTER_OF quarter_f32
#define LANES (BYTES / 4)
#define MADD FUSED
#define TOTAL TOTAL_32
#define PACK_A pack_a_32
#define PACK_B pack_b_32
#if defined(__AVX2__) || defined(__aarch64__)
#define SHORT_ROWS
#endif
#include "gemm_type.h"
#define SUFFIX f64
#define TYPE double
#define VECTOR_OF v_f64
#define HALF_OF half_f64
#define QUARTER_OF quarter_f64
#define LANES (BYTES / 8)
#define MADD FUSED
#define TOTAL TOTAL_64
#define PACK_A pack_a_64
#define PACK_B pack_b_64
#if defined(__AVX2__) || defined(__aarch64__)
#define SHORT_ROWS
#endif
#include "gemm_type.h"
#define SUFFIX i16
#define TYPE uint16_t
#define VECTOR_OF v_i16
#define HALF_OF half_i16
#define QUARTER_OF quarter_i16
#define LANES (BYTES / 2)
#define MADD WRAPPED
#define TOTAL TOTAL_16
#define PACK_A pack_a_16
#define PACK_B pack_b_16
#include "gemm_type.h"
#define SUFFIX i32
#define TYPE uint32_t
#define VECTOR_OF v_i32
#define HALF_OF half_i32
#define QUARTER_OF quarter_i32
#define LANES (BYTES / 4)
#define MADD WRAPPED
#define TOTAL TOTAL_32
#define PACK_A pack_a_32
#define PACK_B pack_b_32
#include "gemm_type.h"
#define SUFFIX i64
#define TYPE uint64_t
#define VECTOR_OF v_i64
#define HALF_OF half_i64
#define QUARTER_OF quarter_i64
#define LANES I64_LANES
#define MADD WRAPPED
#define TOTAL TOTAL_I64
#define PACK_A pack_a_i64
#define PACK_B pack_b_i64
#include "gemm_type.h"

/* Products of whole vectors of four rows, which come out folded to FOLD of them. */
#define WHOLE(V, L, suffix, FOLD, to) \
  if (k < L) { \
    memset(to, 0, sizeof to); \
  } else { \
    V whole[FEW][2]; \
    p = whole_##suffix(k, a, row, x, whole); \
    UNROLL for (int i = 0; i < FEW; i++) to[i] = FOLD(whole[i][0] + whole[i][1]); \
  }
/* The same for one vector of a narrower kind. */
#define NARROW(V, L, to) \
  if (p + (L) <= k) { \
    const V x0 = *(const V *)(x + p); \
    UNROLL for (int i = 0; i < FEW; i++) { \
      to[i] = FUSED(V, *(const V *)(a + i * row + p), x0, to[i]); \
    } \
    p += (L); \
  }
#define UNFOLDED(x) (x)
static inline __attribute__((always_inline)) void quad_f32(ptrdiff_t k, const float *a,
                                                           ptrdiff_t row, const float *x,
                                                           float *to) {
  ptrdiff_t p = 0;
  four_f32 s[FEW];
#if defined(__AVX512F__)
  eight_f32 e[FEW];
  WHOLE(v_f32, 16, f32, HALVES, e)
  NARROW(eight_f32, 8, e)
  UNROLL for (int i = 0; i < FEW; i++) s[i] = HALVES(e[i]);
  NARROW(four_f32, 4, s)
#elif defined(__AVX2__)
  WHOLE(v_f32, 8, f32, HALVES, s)
  NARROW(four_f32, 4, s)
#else
  WHOLE(v_f32, 4, f32, UNFOLDED, s)
#endif
  const four_f32 low = __builtin_shufflevector(s[0], s[1], 0, 4, 1, 5) +
                       __builtin_shufflevector(s[0], s[1], 2, 6, 3, 7);
  const four_f32 high = __builtin_shufflevector(s[2], s[3], 0, 4, 1, 5) +
                        __builtin_shufflevector(s[2], s[3], 2, 6, 3, 7);
  four_f32 sum = __builtin_shufflevector(low, high, 0, 1, 4, 5) +
                 __builtin_shufflevector(low, high, 2, 3, 6, 7);
  RM_SCALAR for (; p < k; p++) {
    const four_f32 column = {a[p], a[row + p], a[2 * row + p], a[3 * row + p]};
    sum = FUSED(four_f32, column, (four_f32)(x[p]), sum);
  }
  *(four_f32 *)to += sum;
}

static inline __attribute__((always_inline)) void quad_f64(ptrdiff_t k, const double *a,
                                                           ptrdiff_t row, const double *x,
                                                           double *to) {
  ptrdiff_t p = 0;
  two_f64 s[FEW];
#if defined(__AVX512F__)
  four_f64 e[FEW];
  WHOLE(v_f64, 8, f64, HALVES, e)
  NARROW(four_f64, 4, e)
  UNROLL for (int i = 0; i < FEW; i++) s[i] = HALVES(e[i]);
  NARROW(two_f64, 2, s)
#elif defined(__AVX2__)
  WHOLE(v_f64, 4, f64, HALVES, s)
  NARROW(two_f64, 2, s)
#else
  WHOLE(v_f64, 2, f64, UNFOLDED, s)
#endif
  UNROLL for (int i = 0; i < FEW; i += 2) {
    const two_f64 x0 = __builtin_shufflevector(s[i], s[i + 1], 0, 2);
    two_f64 sum = x0 + __builtin_shufflevector(s[i], s[i + 1], 1, 3);
    const double *left = a + i * row + p;
    if (p < k) sum = FUSED(two_f64, ((two_f64){left[0], left[row]}), (two_f64)(x[p]), sum);
    *(two_f64 *)(to + i) += sum;
  }
}

/* Of integers. */
#define QUAD(suffix, T, V, L, TOTAL_OF) \
  static inline __attribute__((always_inline)) void quad_##suffix(ptrdiff_t k, const T *a, \
                                                                  ptrdiff_t row, const T *x, \
                                                                  T *to) { \
    ptrdiff_t p = 0; \
    V s[FEW]; \
    WHOLE(V, L, suffix, UNFOLDED, s) \
    UNROLL for (int i = 0; i < FEW; i++) { \
      T sum = (T)TOTAL_OF(s[i]); \
      RM_SCALAR for (ptrdiff_t q = p; q < k; q++) sum = (T)(sum + a[i * row + q] * x[q]); \
      to[i] = (T)(to[i] + sum); \
    } \
  }
QUAD(i32, uint32_t, v_i32, (BYTES / 4), TOTAL_32)
QUAD(i16, uint16_t, v_i16, (BYTES / 2), TOTAL_16)
QUAD(i64, uint64_t, v_i64, I64_LANES, TOTAL_I64)

const kind *RM_AT(gemm_kind)(int dtype) {
  switch (dtype) {
    case RM_FLOAT16:
    case RM_BFLOAT16:
    case RM_FLOAT32: return &kind_f32;
    case RM_FLOAT64: return &kind_f64;
    case RM_INT8:
    case RM_UINT8:
    case RM_INT16:
    case RM_UINT16: return &kind_i16;
    case RM_INT32:
    case RM_UINT32: return &kind_i32;
    case RM_INT64:
    case RM_UINT64: return &kind_i64;
    default: return NULL;
  }
}
