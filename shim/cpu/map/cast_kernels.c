/*
 * Casts of contiguous elements between all dtypes: one loop per pair.
 */
#include "cast.h"
#include "cast_kernels.h"

#define LOOP(from, to, expr) \
  static RM_KERNEL void cast_##from##_##to(ptrdiff_t n, void *out, const void *in) { \
    STORAGE_##to *o = out; \
    const STORAGE_##from *p = in; \
    RM_ANY_ORDER_SMALL for (ptrdiff_t i = 0; i < n; i++) { \
      const STORAGE_##from v = p[i]; \
      o[i] = (STORAGE_##to)(expr); \
    } \
  }

/* Casts to the 16-bit floats from types that float32 holds exactly, that double holds exactly, and
 * from 64-bit integers. */
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
  LOOP(from, i8, SATURATE_i8(read(v))) \
  LOOP(from, i16, SATURATE_i16(read(v))) \
  LOOP(from, i32, SATURATE_i32(read(v))) \
  LOOP(from, i64, SATURATE_i64(read(v))) \
  LOOP(from, u8, SATURATE_u8(read(v))) \
  LOOP(from, u16, SATURATE_u16(read(v))) \
  LOOP(from, u32, SATURATE_u32(read(v))) \
  LOOP(from, u64, SATURATE_u64(read(v))) \
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
TO_HALVES(b8, (float)v, rm_f32_to_f16, rm_f32_to_bf16)
TO_HALVES(i8, (float)v, rm_f32_to_f16, rm_f32_to_bf16)
TO_HALVES(i16, (float)v, rm_f32_to_f16, rm_f32_to_bf16)
TO_HALVES(u8, (float)v, rm_f32_to_f16, rm_f32_to_bf16)
TO_HALVES(u16, (float)v, rm_f32_to_f16, rm_f32_to_bf16)
TO_HALVES(i32, (double)v, rm_f64_to_f16, rm_f64_to_bf16)
TO_HALVES(u32, (double)v, rm_f64_to_f16, rm_f64_to_bf16)
TO_HALVES(i64, round_sticky_i64(v), rm_f64_to_f16, rm_f64_to_bf16)
TO_HALVES(u64, round_sticky_u64(v), rm_f64_to_f16, rm_f64_to_bf16)
FROM_FLOAT(f16, READ_f16)
FROM_FLOAT(bf16, READ_bf16)
FROM_FLOAT(f32, AS_IS)
FROM_FLOAT(f64, AS_IS)
TO_HALVES(f16, READ_f16(v), rm_f32_to_f16, rm_f32_to_bf16)
TO_HALVES(bf16, READ_bf16(v), rm_f32_to_f16, rm_f32_to_bf16)
TO_HALVES(f32, v, rm_f32_to_f16, rm_f32_to_bf16)
TO_HALVES(f64, v, rm_f64_to_f16, rm_f64_to_bf16)

/* Integers wrap, so signed targets receive the same bits as unsigned ones. */
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

const cast RM_FOR_ISA(casts)[RM_DTYPE_COUNT][RM_DTYPE_COUNT] = {
    INT_ROW(b8),     INT_ROW(i8),    INT_ROW(i16),   INT_ROW(i32), INT_ROW(i64),
    INT_ROW(u8),     INT_ROW(u16),   INT_ROW(u32),   INT_ROW(u64), FLOAT_ROW(f16),
    FLOAT_ROW(bf16), FLOAT_ROW(f32), FLOAT_ROW(f64),
};
