/*
 * The vectors of the kernels of matrix products.
 */
#ifndef ROWMAJOR_GEMM_VECTORS_H
#define ROWMAJOR_GEMM_VECTORS_H

#include "gemm_context.h"

#if defined(__FMA__) || defined(__aarch64__)
#define FUSED(T, x, y, z) __builtin_elementwise_fma(x, y, z)
#else
#define FUSED(T, x, y, z) ((z) + (x) * (y))
#endif
#define WRAPPED(T, x, y, z) ((T)((z) + (x) * (y)))

/* The sum of all elements of a vector whose elements have 64, 32 or 16 bits. */
#define HALVES(x)            \
  __extension__({            \
    __auto_type all_ = (x);  \
    all_.lo + all_.hi;       \
  })
#if defined(__AVX512F__)
#define TOTAL_64(x) HALVES(HALVES(HALVES(x)))
#elif defined(__AVX2__)
#define TOTAL_64(x) HALVES(HALVES(x))
#else
#define TOTAL_64(x) HALVES(x)
#endif
#define TOTAL_32(x) HALVES(TOTAL_64(x))
#define TOTAL_16(x) HALVES(TOTAL_32(x))

#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("nounroll")

/* Vectors that may lie at any element. */
#define VECTOR(V, T, lanes) \
  typedef T V __attribute__((ext_vector_type(lanes), aligned(sizeof(T)), may_alias))


VECTOR(v_f32, float, BYTES / 4);
VECTOR(v_f64, double, BYTES / 8);
VECTOR(v_i32, uint32_t, BYTES / 4);
VECTOR(v_i16, uint16_t, BYTES / 2);
VECTOR(two_f32, float, 2);
VECTOR(four_f32, float, 4);
VECTOR(two_f64, double, 2);
#if defined(__AVX2__)
VECTOR(eight_f32, float, 8);
VECTOR(four_f64, double, 4);
#endif

#endif
