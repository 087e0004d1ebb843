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
  /* What makes unsigned bytes of those of a result, and the lower limit so. */
  uint8_t flip, lowest;
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
      .flip = dtype == RM_INT8 ? 0x80 : 0,
  };
  to->lowest = (uint8_t)(int32_t)numbers[3] ^ to->flip;
  if (call->dtypes[OUTPUT_BIAS] == RM_NONE || call->buffers[OUTPUT_BIAS] == NULL) return RM_OK;
  if (call->dtypes[OUTPUT_BIAS] != RM_INT32) return RM_UNSUPPORTED;
  to->bias = (const int32_t *)call->buffers[OUTPUT_BIAS] + (ptrdiff_t)numbers[0];
  return RM_OK;
}

/* Sums as integers within the limits. Sizes are small after the limits, so that an addition rounds: the
 * lowest bits of 1.5 * 2^23 + x are those of the integer. */
static RM_ALWAYS_INLINE v_s32 rounded_sums(v_s32 sums, v_f32 factors, const byte_output *to) {
  v_f32 x = floats_of(sums) * factors;
  const v_f32 low = (v_f32){0} + to->low, high = (v_f32){0} + to->high;
  x = x > low ? x : low;
  x = (x < high ? x : high) + 12582912.0f;
  return (v_s32)x + to->zero;
}

/* The bytes of sums. */
static RM_ALWAYS_INLINE lane_u8 bytes_of_sums(v_s32 sums, v_f32 factors, const byte_output *to) {
  return __builtin_convertvector(rounded_sums(sums, factors, to), lane_u8);
}

#if defined(__AVX512BW__)
/* Four vectors of sums as bytes, without the lower limit: in lanes of 16 bytes, four of each. The conversion
 * rounds, and the narrower integers saturate; only what is beyond int32 needs a limit before. NaN becomes the
 * least byte. */
static RM_ALWAYS_INLINE __m512i packed_bytes_of_sums(const v_s32 *sums, float factor,
                                                     const byte_output *to) {
  const __m512 factors = _mm512_set1_ps(factor), high = _mm512_set1_ps(to->high);
  const __m512i zero = _mm512_set1_epi16((int16_t)(to->zero + to->flip));
  __m512i x[4];
  UNROLL for (int v = 0; v < 4; v++) {
    const __m512 product = _mm512_mul_ps(_mm512_cvtepi32_ps((__m512i)sums[v]), factors);
    x[v] = _mm512_cvtps_epi32(_mm512_min_ps(high, product));
  }
  return _mm512_packus_epi16(_mm512_adds_epi16(_mm512_packs_epi32(x[0], x[1]), zero),
                             _mm512_adds_epi16(_mm512_packs_epi32(x[2], x[3]), zero));
}

/* The bytes of packed_bytes_of_sums, or the lower limit, of the dtype of the result. */
static RM_ALWAYS_INLINE __m512i limited_bytes(__m512i bytes, const byte_output *to) {
  return _mm512_xor_si512(_mm512_max_epu8(bytes, _mm512_set1_epi8((char)to->lowest)),
                          _mm512_set1_epi8((char)to->flip));
}
#endif

#endif
