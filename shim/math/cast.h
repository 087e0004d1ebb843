/*
 * Casts between all dtypes, as `astype` does them: floats to integers truncate and saturate, NaN
 * gives 0; integers wrap; to bool, everything but 0 is 1; floats round once, to nearest even.
 *
 * One dense loop for each pair of dtypes, for map.c; device code takes what is said of one element,
 * and includes cuda/device.h first. Knows nothing of strides.
 */
#ifndef ROWMAJOR_CAST_H
#define ROWMAJOR_CAST_H

#include "half.h"

/* How each dtype is stored, and what it is read as: 16-bit floats as float32. */
#define STORED_b8 uint8_t
#define STORED_i8 int8_t
#define STORED_i16 int16_t
#define STORED_i32 int32_t
#define STORED_i64 int64_t
#define STORED_u8 uint8_t
#define STORED_u16 uint16_t
#define STORED_u32 uint32_t
#define STORED_u64 uint64_t
#define STORED_f16 uint16_t
#define STORED_bf16 uint16_t
#define STORED_f32 float
#define STORED_f64 double

#define PLAIN(v) (v)
#define READ_f16(v) rm_from_half(v)
#define READ_bf16(v) rm_from_brain(v)

/* What a double cannot hold of 64 bits is kept in the last bit that it can: enough to round by. */
static inline double sticky_i64(int64_t x) {
  const int64_t cut = (int64_t)((uint64_t)((x >> 11) | ((x & 2047) != 0)) << 11);
  return (double)(x >= -(INT64_C(1) << 53) && x <= INT64_C(1) << 53 ? x : cut);
}
static inline double sticky_u64(uint64_t x) {
  const uint64_t cut = ((x >> 11) | ((x & 2047) != 0)) << 11;
  return (double)(x <= UINT64_C(1) << 53 ? x : cut);
}

/* From floats to integers: limits are powers of two, exact in every float type. */
#define SATURATE(v, T, LOW, HIGH, LOWEST, HIGHEST) \
  ((v) >= (HIGH) ? (HIGHEST) : (v) > (LOW) ? (T)(v) : (v) <= (LOW) ? (LOWEST) : 0)
#define F_i8(v) SATURATE(v, int8_t, -0x1p7f, 0x1p7f, INT8_MIN, INT8_MAX)
#define F_i16(v) SATURATE(v, int16_t, -0x1p15f, 0x1p15f, INT16_MIN, INT16_MAX)
#define F_i32(v) SATURATE(v, int32_t, -0x1p31f, 0x1p31f, INT32_MIN, INT32_MAX)
#define F_i64(v) SATURATE(v, int64_t, -0x1p63f, 0x1p63f, INT64_MIN, INT64_MAX)
#define F_u8(v) SATURATE(v, uint8_t, 0, 0x1p8f, 0, UINT8_MAX)
#define F_u16(v) SATURATE(v, uint16_t, 0, 0x1p16f, 0, UINT16_MAX)
#define F_u32(v) SATURATE(v, uint32_t, 0, 0x1p32f, 0, UINT32_MAX)
#define F_u64(v) SATURATE(v, uint64_t, 0, 0x1p64f, 0, UINT64_MAX)
#define NONZERO(v) ((v) != 0)

#endif
