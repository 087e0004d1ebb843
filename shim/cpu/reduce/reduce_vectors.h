/*
 * The vectors of reduction kernels.
 */
#ifndef ROWMAJOR_REDUCE_VECTORS_H
#define ROWMAJOR_REDUCE_VECTORS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define VECTOR(T, name, count) typedef T name __attribute__((ext_vector_type(count)))
VECTOR(double, f64x16, 16);
VECTOR(double, f64x8, 8);
VECTOR(double, f64x4, 4);
VECTOR(double, f64x2, 2);
VECTOR(float, f32x8, 8);
VECTOR(float, f32x16, 16);
VECTOR(int8_t, i8x16, 16);
VECTOR(uint8_t, u8x16, 16);
VECTOR(int16_t, i16x16, 16);
VECTOR(uint16_t, u16x16, 16);
VECTOR(int32_t, i32x8, 8);
VECTOR(uint32_t, u32x8, 8);
VECTOR(uint32_t, u32x16, 16);
VECTOR(int8_t, i8x64, 64);
VECTOR(int16_t, i16x32, 32);
VECTOR(int16_t, i16x64, 64);
VECTOR(int32_t, i32x16, 16);
VECTOR(int64_t, i64x8, 8);
VECTOR(int64_t, i64x16, 16);

/* Buffers are aligned to their elements only. */
#define LOAD(V, from) \
  ({ \
    V loaded_; \
    memcpy(&loaded_, (from), sizeof loaded_); \
    loaded_; \
  })

/* Vectors of bool are bit masks. The first element is the lowest bit. */
typedef bool truth8 __attribute__((ext_vector_type(8)));
typedef bool truth16 __attribute__((ext_vector_type(16)));
typedef bool truth32 __attribute__((ext_vector_type(32)));
typedef bool truth64 __attribute__((ext_vector_type(64)));
#define BITS(truth) \
  ({ \
    const __typeof__(truth) truth_ = (truth); \
    uint64_t bits_ = 0; \
    memcpy(&bits_, &truth_, sizeof truth_); \
    bits_; \
  })
#define TRUTH_(count, vector) __builtin_convertvector(vector, truth##count)
#define TRUTH(count, vector) TRUTH_(count, vector)

#endif
