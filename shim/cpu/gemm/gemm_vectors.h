/*
 * The vectors of the kernels of matrix products.
 */
#ifndef ROWMAJOR_GEMM_VECTORS_H
#define ROWMAJOR_GEMM_VECTORS_H

#include "gemm_context.h"

#if defined(__FMA__) || defined(__aarch64__)
#define FMA(T, x, y, z) __builtin_elementwise_fma(x, y, z)
#else
#define FMA(T, x, y, z) ((z) + (x) * (y))
#endif
#define MULTIPLY_ADD(T, x, y, z) ((T)((z) + (x) * (y)))

/* The sum of the lanes of a vector with elements of 64, 32 or 16 bits. */
#define ADD_HALVES(x) \
  __extension__({ \
    __auto_type all_ = (x); \
    all_.lo + all_.hi; \
  })
#if defined(__AVX512F__)
#define SUM_LANES_64(x) ADD_HALVES(ADD_HALVES(ADD_HALVES(x)))
#elif defined(__AVX2__)
#define SUM_LANES_64(x) ADD_HALVES(ADD_HALVES(x))
#else
#define SUM_LANES_64(x) ADD_HALVES(x)
#endif
#define SUM_LANES_32(x) ADD_HALVES(SUM_LANES_64(x))
#define SUM_LANES_16(x) ADD_HALVES(SUM_LANES_32(x))

#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("nounroll")

/* Vectors that are aligned to their elements only. */
#define VECTOR(V, T, lanes) \
  typedef T V __attribute__((ext_vector_type(lanes), aligned(sizeof(T)), may_alias))

VECTOR(v_f32, float, VECTOR_BYTES / 4);
VECTOR(v_f64, double, VECTOR_BYTES / 8);
VECTOR(v_i32, uint32_t, VECTOR_BYTES / 4);
VECTOR(v_i16, uint16_t, VECTOR_BYTES / 2);
VECTOR(f32x2, float, 2);
VECTOR(f32x4, float, 4);
VECTOR(f64x2, double, 2);
#if defined(__AVX2__)
VECTOR(f32x8, float, 8);
VECTOR(f64x4, double, 4);
#endif

#endif
