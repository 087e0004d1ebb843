/*
 * Casts between all dtypes, as `astype` does them: floats to integers truncate and saturate, NaN
 * becomes 0; integers wrap; nonzero becomes true; floats round once, to nearest even.
 *
 * These are the definitions for one element, for cast_kernels.c and for device code, which includes
 * device.h first.
 */
#ifndef ROWMAJOR_CAST_H
#define ROWMAJOR_CAST_H

#include "float16.h"

/* The storage type of each dtype. 16-bit floats are read as float32. */
#define STORAGE_b8 uint8_t
#define STORAGE_i8 int8_t
#define STORAGE_i16 int16_t
#define STORAGE_i32 int32_t
#define STORAGE_i64 int64_t
#define STORAGE_u8 uint8_t
#define STORAGE_u16 uint16_t
#define STORAGE_u32 uint32_t
#define STORAGE_u64 uint64_t
#define STORAGE_f16 uint16_t
#define STORAGE_bf16 uint16_t
#define STORAGE_f32 float
#define STORAGE_f64 double

#define AS_IS(v) (v)
#define READ_f16(v) rm_f16_to_f32(v)
#define READ_bf16(v) rm_bf16_to_f32(v)

/* Rounds 64-bit integers to double with a sticky last bit, so that a second rounding gives the
 * correct result. */
static inline double round_sticky_i64(int64_t x) {
  const int64_t cut = (int64_t)((uint64_t)((x >> 11) | ((x & 2047) != 0)) << 11);
  return (double)(x >= -(INT64_C(1) << 53) && x <= INT64_C(1) << 53 ? x : cut);
}
static inline double round_sticky_u64(uint64_t x) {
  const uint64_t cut = ((x >> 11) | ((x & 2047) != 0)) << 11;
  return (double)(x <= UINT64_C(1) << 53 ? x : cut);
}

/* Floats to integers. Limits are powers of two, which every float type holds exactly. */
#define SATURATE(v, T, LOW, HIGH, LOWEST, HIGHEST) \
  ((v) >= (HIGH) ? (HIGHEST) : (v) > (LOW) ? (T)(v) : (v) <= (LOW) ? (LOWEST) : 0)
#define SATURATE_i8(v) SATURATE(v, int8_t, -0x1p7f, 0x1p7f, INT8_MIN, INT8_MAX)
#define SATURATE_i16(v) SATURATE(v, int16_t, -0x1p15f, 0x1p15f, INT16_MIN, INT16_MAX)
#define SATURATE_i32(v) SATURATE(v, int32_t, -0x1p31f, 0x1p31f, INT32_MIN, INT32_MAX)
#define SATURATE_i64(v) SATURATE(v, int64_t, -0x1p63f, 0x1p63f, INT64_MIN, INT64_MAX)
#define SATURATE_u8(v) SATURATE(v, uint8_t, 0, 0x1p8f, 0, UINT8_MAX)
#define SATURATE_u16(v) SATURATE(v, uint16_t, 0, 0x1p16f, 0, UINT16_MAX)
#define SATURATE_u32(v) SATURATE(v, uint32_t, 0, 0x1p32f, 0, UINT32_MAX)
#define SATURATE_u64(v) SATURATE(v, uint64_t, 0, 0x1p64f, 0, UINT64_MAX)
#define NONZERO(v) ((v) != 0)

#endif
