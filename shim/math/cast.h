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

#if !defined(RM_DEVICE)
#include "internal.h"

typedef void (RM_KERNEL *cast)(ptrdiff_t n, void *out, const void *in);

#define LOOP(from, to, expr) \
  static RM_KERNEL void cast_##from##_##to(ptrdiff_t n, void *out, const void *in) { \
    STORED_##to *o = out; \
    const STORED_##from *p = in; \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) { \
      const STORED_##from v = p[i]; \
      o[i] = (STORED_##to)(expr); \
    } \
  }

/* To the 16-bit floats from what float32 holds exactly, from what double does, and from 64 bits. */
#define TO_HALVES(from, read, half, brain) \
  LOOP(from, f16, half(read)) \
  LOOP(from, bf16, brain(read))
#define FROM_INT(from) \
  LOOP(from, b8, NONZERO(v)) \
  LOOP(from, u8, v) \
  LOOP(from, u16, v) \
  LOOP(from, u32, v) \
  LOOP(from, u64, v) \
  LOOP(from, f32, v) \
  LOOP(from, f64, v)
#define FROM_FLOAT(from, read) \
  LOOP(from, b8, NONZERO(read(v))) \
  LOOP(from, i8, F_i8(read(v))) \
  LOOP(from, i16, F_i16(read(v))) \
  LOOP(from, i32, F_i32(read(v))) \
  LOOP(from, i64, F_i64(read(v))) \
  LOOP(from, u8, F_u8(read(v))) \
  LOOP(from, u16, F_u16(read(v))) \
  LOOP(from, u32, F_u32(read(v))) \
  LOOP(from, u64, F_u64(read(v))) \
  LOOP(from, f32, read(v)) \
  LOOP(from, f64, read(v))

FROM_INT(b8)
FROM_INT(i8)
FROM_INT(i16)
FROM_INT(i32)
FROM_INT(i64)
FROM_INT(u8)
FROM_INT(u16)
FROM_INT(u32)
FROM_INT(u64)
TO_HALVES(b8, (float)v, rm_to_half, rm_to_brain)
TO_HALVES(i8, (float)v, rm_to_half, rm_to_brain)
TO_HALVES(i16, (float)v, rm_to_half, rm_to_brain)
TO_HALVES(u8, (float)v, rm_to_half, rm_to_brain)
TO_HALVES(u16, (float)v, rm_to_half, rm_to_brain)
TO_HALVES(i32, (double)v, rm_double_to_half, rm_double_to_brain)
TO_HALVES(u32, (double)v, rm_double_to_half, rm_double_to_brain)
TO_HALVES(i64, sticky_i64(v), rm_double_to_half, rm_double_to_brain)
TO_HALVES(u64, sticky_u64(v), rm_double_to_half, rm_double_to_brain)
FROM_FLOAT(f16, READ_f16)
FROM_FLOAT(bf16, READ_bf16)
FROM_FLOAT(f32, PLAIN)
FROM_FLOAT(f64, PLAIN)
TO_HALVES(f16, READ_f16(v), rm_to_half, rm_to_brain)
TO_HALVES(bf16, READ_bf16(v), rm_to_half, rm_to_brain)
TO_HALVES(f32, v, rm_to_half, rm_to_brain)
TO_HALVES(f64, v, rm_double_to_half, rm_double_to_brain)

/* Integers wrap, so that signed targets take the bits that unsigned ones do. */
#define INT_ROW(from) \
  {cast_##from##_b8, cast_##from##_u8,  cast_##from##_u16, cast_##from##_u32, \
   cast_##from##_u64,  cast_##from##_u8,  cast_##from##_u16, cast_##from##_u32, \
   cast_##from##_u64,  cast_##from##_f16, cast_##from##_bf16, cast_##from##_f32, \
   cast_##from##_f64}
#define FLOAT_ROW(from) \
  {cast_##from##_b8, cast_##from##_i8,  cast_##from##_i16, cast_##from##_i32, \
   cast_##from##_i64,  cast_##from##_u8,  cast_##from##_u16, cast_##from##_u32, \
   cast_##from##_u64,  cast_##from##_f16, cast_##from##_bf16, cast_##from##_f32, \
   cast_##from##_f64}

/* By source and target. */
static const cast casts[RM_DTYPE_COUNT][RM_DTYPE_COUNT] = {
    INT_ROW(b8), INT_ROW(i8),    INT_ROW(i16),   INT_ROW(i32),     INT_ROW(i64),
    INT_ROW(u8),   INT_ROW(u16),   INT_ROW(u32),   INT_ROW(u64),     FLOAT_ROW(f16),
    FLOAT_ROW(bf16), FLOAT_ROW(f32), FLOAT_ROW(f64),
};

#endif

#endif
