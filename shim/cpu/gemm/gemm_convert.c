/*
 * Converts matrix elements between their storage and compute dtypes.
 */
#include "gemm_context.h"
#include "float16.h"

#define AS_IS(x) (x)
#define RUN_LOOP(T, S, CONVERT, to_step, from_step)                                                \
  {                                                                                                \
    T *restrict x = to;                                                                            \
    const S *restrict y = from;                                                                    \
    if (stride == 1) {                                                                             \
      RM_ANY_ORDER                                                                                 \
      for (ptrdiff_t i = 0; i < count; i++) x[i] = (T)CONVERT(y[i]);                               \
    } else {                                                                                       \
      for (ptrdiff_t i = 0; i < count; i++) x[i * (to_step)] = (T)CONVERT(y[i * (from_step)]);     \
    }                                                                                              \
    return;                                                                                        \
  }

void RM_FOR_ISA(load_run)(int dtype, void *to, const void *from, ptrdiff_t count,
                          ptrdiff_t stride) {
  switch (dtype) {
    case RM_INT8:
    case RM_UINT8: RUN_LOOP(uint16_t, uint8_t, AS_IS, 1, stride)
    case RM_FLOAT16: RUN_LOOP(float, uint16_t, rm_f16_to_f32, 1, stride)
    case RM_BFLOAT16: RUN_LOOP(float, uint16_t, rm_bf16_to_f32, 1, stride)
    case RM_INT16:
    case RM_UINT16: RUN_LOOP(uint16_t, uint16_t, AS_IS, 1, stride)
    case RM_INT32:
    case RM_UINT32:
    case RM_FLOAT32: RUN_LOOP(uint32_t, uint32_t, AS_IS, 1, stride)
    default: RUN_LOOP(uint64_t, uint64_t, AS_IS, 1, stride)
  }
}

void RM_FOR_ISA(store_run)(int dtype, void *to, const void *from, ptrdiff_t count,
                           ptrdiff_t stride) {
  switch (dtype) {
    case RM_INT8:
    case RM_UINT8: RUN_LOOP(uint8_t, uint16_t, AS_IS, stride, 1)
    case RM_FLOAT16: RUN_LOOP(uint16_t, float, rm_f32_to_f16, stride, 1)
    case RM_BFLOAT16: RUN_LOOP(uint16_t, float, rm_f32_to_bf16, stride, 1)
    case RM_INT16:
    case RM_UINT16: RUN_LOOP(uint16_t, uint16_t, AS_IS, stride, 1)
    case RM_INT32:
    case RM_UINT32:
    case RM_FLOAT32: RUN_LOOP(uint32_t, uint32_t, AS_IS, stride, 1)
    default: RUN_LOOP(uint64_t, uint64_t, AS_IS, stride, 1)
  }
}
