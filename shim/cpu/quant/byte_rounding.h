/*
 * How floats are rounded to unsigned bytes by their smallest and largest element, as ONNX's
 * DynamicQuantizeLinear does.
 */
#ifndef ROWMAJOR_BYTE_ROUNDING_H
#define ROWMAJOR_BYTE_ROUNDING_H

#include <math.h>
#include <string.h>
#include "internal.h"

/* The least and the largest element, as integers with the order of floats: NaN is beyond infinity. */
typedef struct {
  int32_t least, most;
} float_range;

/* The integer of a float, and the other way round. */
static inline int32_t ordered_bits(int32_t bits) {
  return bits ^ (int32_t)((uint32_t)(bits >> 31) >> 1);
}

static inline float_range range_of(const float *from, ptrdiff_t n) {
  const int32_t *all = (const int32_t *)(const void *)from;
  float_range found = {0x7fffffff, -0x7fffffff - 1};
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
    const int32_t key = ordered_bits(all[i]);
    found.least = key < found.least ? key : found.least;
    found.most = key > found.most ? key : found.most;
  }
  return found;
}

static inline float_range both_ranges(float_range a, float_range b) {
  return (float_range){a.least < b.least ? a.least : b.least, a.most > b.most ? a.most : b.most};
}

/* Bytes are x / scale, rounded, plus zero. `divisor` is the scale, or 1 where all elements are 0. */
typedef struct {
  float scale, divisor, zero;
} byte_rounding;

static inline float float_of_key(int32_t key) {
  const int32_t bits = ordered_bits(key);
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* The nearest of the bytes; 0 for NaN. */
static RM_ALWAYS_INLINE float nearest_byte(float x) {
  x = x > 0 ? x : 0;
  return rintf(x < 255 ? x : 255);
}

static inline byte_rounding rounding_of(float_range range) {
  float low = float_of_key(range.least), high = float_of_key(range.most);
  low = low > 0 ? 0 : low;
  high = high < 0 ? 0 : high;
  const float scale = (high - low) / 255, divisor = scale == 0 ? 1 : scale;
  return (byte_rounding){scale, divisor, nearest_byte(-low / divisor)};
}

static inline void round_bytes(byte_rounding by, const float *from, ptrdiff_t n, uint8_t *to) {
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
    float q = rintf(from[i] / by.divisor) + by.zero;
    q = q > 0 ? q : 0;
    to[i] = (uint8_t)(int32_t)(q < 255 ? q : 255);
  }
}

#endif
