/*
 * Exact int32 sums as results: as they are, or as bytes round(sum * factor) + zero point, within limits.
 */
#ifndef ROWMAJOR_BYTE_OUTPUT_H
#define ROWMAJOR_BYTE_OUTPUT_H

#include "quant_vectors.h"

enum { OUTPUT_BIAS = 4, OUTPUT_FACTORS = 5, OUTPUT_NUMBERS = 5 };

typedef struct {
  /* The bytes of a result. */
  ptrdiff_t size;
  /* What is added to the sums of each channel, null for nothing, and the factor of each. */
  const int32_t *bias;
  const float *factors;
  /* The limits, less the zero point. */
  float low, high;
  int32_t zero;
} byte_output;

/* Reads how sums become results: numbers are [offsets of bias and factors, zero point, limits]. */
static inline int32_t read_byte_output(const rm_call *call, const double *numbers, byte_output *to) {
  const int dtype = call->dtypes[0];
  *to = (byte_output){.size = 4};
  if (dtype == RM_INT32) return RM_OK;
  if (dtype != RM_INT8 && dtype != RM_UINT8) return RM_UNSUPPORTED;
  if (call->operands <= OUTPUT_FACTORS || call->dtypes[OUTPUT_FACTORS] != RM_FLOAT32 ||
      call->buffers[OUTPUT_FACTORS] == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "bytes of sums without factors");
  }
  *to = (byte_output){
      .size = 1,
      .factors = (const float *)call->buffers[OUTPUT_FACTORS] + (ptrdiff_t)numbers[1],
      .zero = (int32_t)numbers[2],
      .low = (float)(numbers[3] - numbers[2]),
      .high = (float)(numbers[4] - numbers[2]),
  };
  if (call->dtypes[OUTPUT_BIAS] == RM_NONE || call->buffers[OUTPUT_BIAS] == NULL) return RM_OK;
  if (call->dtypes[OUTPUT_BIAS] != RM_INT32) return RM_UNSUPPORTED;
  to->bias = (const int32_t *)call->buffers[OUTPUT_BIAS] + (ptrdiff_t)numbers[0];
  return RM_OK;
}

/* The bytes of sums. Sizes are small after the limits, so that an addition rounds: the lowest bits of
 * 1.5 * 2^23 + x are those of the integer. */
static RM_ALWAYS_INLINE lane_u8 bytes_of_sums(v_s32 sums, v_f32 factors, const byte_output *to) {
  v_f32 x = floats_of(sums) * factors;
  const v_f32 low = (v_f32){0} + to->low, high = (v_f32){0} + to->high;
  x = x > low ? x : low;
  x = (x < high ? x : high) + 12582912.0f;
  return __builtin_convertvector((v_s32)x + to->zero, lane_u8);
}

#endif
