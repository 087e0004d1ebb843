/*
 * Loads the elements of reductions and scans into the form that kernels read, and stores results.
 */
#include <string.h>
#include "float16.h"
#include "reduce_context.h"
#include "vecmath.h"

/* ---- loading --------------------------------------------------------------------------------- */

#define AS_IS(x) (x)

/* The contiguous loop is separate because only that one is vectorized. */
#define LOADER_BY(unroll, name, T, R, convert) \
  static RM_KERNEL void name(ptrdiff_t n, const void *from, ptrdiff_t stride, void *to) { \
    const T *p = from; \
    R *restrict q = to; \
    if (stride == 1) { \
      for (ptrdiff_t i = 0; i < n; i++) q[i] = (R)convert(p[i]); \
    } else { \
      unroll for (ptrdiff_t i = 0; i < n; i++) q[i] = (R)convert(p[i * stride]); \
    } \
  }
#define LOADER(...) LOADER_BY(RM_ROLLED, __VA_ARGS__)

/* Stride 2 is common, and vectorized too. */
#define COPIER(name, T) \
  LOADER(strided_##name, T, T, AS_IS) \
  static RM_KERNEL void name(ptrdiff_t n, const void *from, ptrdiff_t stride, void *to) { \
    const T *p = from; \
    T *restrict q = to; \
    if (stride == 2) RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) q[i] = p[2 * i]; \
    else strided_##name(n, from, stride, to); }

LOADER_BY(_Pragma("clang loop unroll_count(2)"), copy_1, uint8_t, uint8_t, AS_IS)
LOADER_BY(_Pragma("clang loop unroll_count(2)"), copy_2, uint16_t, uint16_t, AS_IS)
COPIER(copy_4, uint32_t)
COPIER(copy_8, uint64_t)
LOADER(f16_to_f32, uint16_t, float, rm_f16_to_f32)
LOADER(bf16_to_f32, uint16_t, float, rm_bf16_to_f32)
LOADER(i64_from_i8, int8_t, int64_t, AS_IS)
LOADER(i64_from_i16, int16_t, int64_t, AS_IS)
LOADER(i64_from_i32, int32_t, int64_t, AS_IS)
LOADER(i64_from_u8, uint8_t, int64_t, AS_IS)
LOADER(i64_from_u16, uint16_t, int64_t, AS_IS)
LOADER(i64_from_u32, uint32_t, int64_t, AS_IS)
LOADER(f64_from_i8, int8_t, double, AS_IS)
LOADER(f64_from_i16, int16_t, double, AS_IS)
LOADER(f64_from_i32, int32_t, double, AS_IS)
LOADER(f64_from_i64, int64_t, double, AS_IS)
LOADER(f64_from_u8, uint8_t, double, AS_IS)
LOADER(f64_from_u16, uint16_t, double, AS_IS)
LOADER(f64_from_u32, uint32_t, double, AS_IS)
LOADER(f64_from_u64, uint64_t, double, AS_IS)
LOADER(f64_from_f16, uint16_t, double, rm_f16_to_f32)
LOADER(f64_from_bf16, uint16_t, double, rm_bf16_to_f32)
LOADER(f64_from_f32, float, double, AS_IS)

loader RM_FOR_ISA(copy_loader)(int dtype) {
  static const loader by_bytes[9] = {[1] = copy_1, [2] = copy_2, [4] = copy_4, [8] = copy_8};
  return by_bytes[rm_itemsize(dtype)];
}

const loader RM_FOR_ISA(to_i64)[RM_DTYPE_COUNT] = {
    [RM_BOOL] = i64_from_u8,    [RM_INT8] = i64_from_i8,    [RM_INT16] = i64_from_i16,
    [RM_INT32] = i64_from_i32,  [RM_INT64] = copy_8,        [RM_UINT8] = i64_from_u8,
    [RM_UINT16] = i64_from_u16, [RM_UINT32] = i64_from_u32, [RM_UINT64] = copy_8,
};

const loader RM_FOR_ISA(to_f64)[RM_DTYPE_COUNT] = {
    [RM_BOOL] = f64_from_u8,     [RM_INT8] = f64_from_i8,       [RM_INT16] = f64_from_i16,
    [RM_INT32] = f64_from_i32,   [RM_INT64] = f64_from_i64,     [RM_UINT8] = f64_from_u8,
    [RM_UINT16] = f64_from_u16,  [RM_UINT32] = f64_from_u32,    [RM_UINT64] = f64_from_u64,
    [RM_FLOAT16] = f64_from_f16, [RM_BFLOAT16] = f64_from_bf16, [RM_FLOAT32] = f64_from_f32,
    [RM_FLOAT64] = copy_8,
};

bool RM_FOR_ISA(choose_float_loader)(reduce_context *ctx, int a) {
  ctx->direct = a == RM_FLOAT32 || a == RM_FLOAT64;
  ctx->load = ctx->direct        ? RM_FOR_ISA(copy_loader)(a)
              : a == RM_FLOAT16  ? f16_to_f32
              : a == RM_BFLOAT16 ? bf16_to_f32
                                 : RM_FOR_ISA(to_f64)[a];
  return a == RM_FLOAT64 || !rm_is_float(a);
}

static void exp_differences(ptrdiff_t n, float *restrict x, const float *restrict y,
                            ptrdiff_t step) {
  if (step == 0) RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) x[i] = rm_exp_f32(x[i] - y[0]);
  else RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) x[i] = rm_exp_f32(x[i] - y[i]);
}

void RM_FOR_ISA(pow_block)(double order, ptrdiff_t n, double *restrict x) {
  if (order == 3) {
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] = __builtin_fabs(x[i]) * (x[i] * x[i]);
  } else if (order == 0.5) {
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] = __builtin_sqrt(__builtin_fabs(x[i]));
  } else {
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] = __builtin_fabs(x[i]);
    RM_FOR_ISA(pow_in_place)(n, x, order);
  }
}

void RM_FOR_ISA(map_elements)(const reduce_context *ctx, element_map map, ptrdiff_t n,
                              double *restrict x, const double *restrict y, ptrdiff_t step) {
  if (map == SQUARED_DIFFERENCE || map == EXP) {
    if (step == 0) RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] -= y[0];
    else RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] -= y[i];
  }
  switch (map) {
    case IDENTITY:
    case SQUARE: break;
    case ABS:
      RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] = __builtin_fabs(x[i]);
      break;
    case SQUARED_DIFFERENCE:
      RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] *= x[i];
      break;
    case NAN_TO_ZERO:
      RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] = x[i] == x[i] ? x[i] : 0;
      break;
    case NAN_TO_ONE:
      RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] = x[i] == x[i] ? x[i] : 1;
      break;
    case IS_NUMBER:
      RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] = x[i] == x[i] ? 1 : 0;
      break;
    case NAN_SQUARED_DIFFERENCE:
      RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
        const double difference = x[i] - y[step == 0 ? 0 : i];
        x[i] = x[i] == x[i] ? difference * difference : 0;
      }
      break;
    case POW: RM_FOR_ISA(pow_block)(ctx->attribute, n, x); break;
    case EXP:
      RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) x[i] = rm_exp_f64(x[i]);
      break;
    case EXP_F32: exp_differences(n, (float *)x, (const float *)y, step); break;
  }
}

/* ---- storing --------------------------------------------------------------------------------- */

#define STORER(name, T, R, convert) \
  static void name(ptrdiff_t n, const void *from, void *to, ptrdiff_t stride) { \
    const T *restrict p = from; \
    R *q = to; \
    if (stride == 1) { \
      RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) q[i] = (R)convert(p[i]); \
    } else { \
      RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) q[i * stride] = (R)convert(p[i]); \
    } \
  }

STORER(f16_from_f64, double, uint16_t, rm_f64_to_f16)
STORER(bf16_from_f64, double, uint16_t, rm_f64_to_bf16)
STORER(f32_from_f64, double, float, AS_IS)
STORER(f64_as_is, double, double, AS_IS)
STORER(i8_from_i64, int64_t, int8_t, AS_IS)
STORER(i16_from_i64, int64_t, int16_t, AS_IS)
STORER(i32_from_i64, int64_t, int32_t, AS_IS)
STORER(i64_as_is, int64_t, int64_t, AS_IS)

void RM_FOR_ISA(store_elements)(int dtype, ptrdiff_t n, const void *from, void *to,
                                ptrdiff_t stride) {
  switch (dtype) {
    case RM_FLOAT16: f16_from_f64(n, from, to, stride); break;
    case RM_BFLOAT16: bf16_from_f64(n, from, to, stride); break;
    case RM_FLOAT32: f32_from_f64(n, from, to, stride); break;
    case RM_FLOAT64: f64_as_is(n, from, to, stride); break;
    default:
      switch (rm_itemsize(dtype)) {
        case 1: i8_from_i64(n, from, to, stride); break;
        case 2: i16_from_i64(n, from, to, stride); break;
        case 4: i32_from_i64(n, from, to, stride); break;
        default: i64_as_is(n, from, to, stride); break;
      }
  }
}
