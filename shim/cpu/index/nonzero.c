/*
 * Finds the elements that are not zero.
 */
#include <string.h>
#include "index.h"

/* Whether elements are not zero: all of their bits in `mask`. */
#define FLAG(T)                                                                            \
  {                                                                                        \
    const T *x = (const T *)source + offset + at;                                          \
    _Pragma("clang loop vectorize_width(16)") for (ptrdiff_t i = 0; i < n; i++) {          \
      flags[i] = (x[i] & (T)mask) != 0;                                                    \
    }                                                                                      \
  }

/*
 * Of floats all bits but the sign count: -0 is zero, NaN is not. False when there are more than
 * target has room for, up to end. Eight flags make a byte, and for each byte it is known which of
 * the eight they are; what is written behind those is written over.
 */
static bool find_nonzero(int dtype, ptrdiff_t offset, ptrdiff_t length, int32_t *target,
                         const int32_t *end, const void *source) {
  const uint64_t sign = rm_is_float(dtype) ? UINT64_C(1) << (8 * rm_bytes(dtype) - 1) : 0;
  const uint64_t mask = ~sign;
  uint64_t eights[256] = {0};
  for (unsigned bits = 1; bits < 256; bits++) {
    eights[bits] = eights[bits & (bits - 1)] << 8 | (unsigned)__builtin_ctz(bits);
  }
  for (ptrdiff_t at = 0; at < length; at += BLOCK) {
    const ptrdiff_t n = rm_least(length - at, BLOCK);
    uint8_t flags[BLOCK + 8];
    int32_t found[BLOCK + 8];
    switch (rm_bytes(dtype)) {
      case 1: FLAG(uint8_t) break;
      case 2: FLAG(uint16_t) break;
      case 4: FLAG(uint32_t) break;
      default: FLAG(uint64_t)
    }
    memset(flags + n, 0, 8);
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < n; i += 8) {
      uint64_t eight;
      memcpy(&eight, flags + i, 8);
      const unsigned bits = (unsigned)(eight * UINT64_C(0x0102040810204080) >> 56);
      const uint8_t *which = (const uint8_t *)&eights[bits];
      _Pragma("clang loop unroll(full)")
      for (int k = 0; k < 8; k++) found[count + k] = (int32_t)(at + i) + which[k];
      count += __builtin_popcount(bits);
    }
    if (count > end - target) return false;
    memcpy(target, found, (size_t)count * sizeof *found);
    target += count;
  }
  return true;
}

int32_t rm_nonzero(int dtype, double *numbers, void *target, const void *source) {
  if (target == NULL || source == NULL) return RM_OK;
  if (find_nonzero(dtype, (ptrdiff_t)numbers[0], (ptrdiff_t)numbers[1], target,
                   (int32_t *)target + (ptrdiff_t)numbers[2], source)) {
    return RM_OK;
  }
  return rm_fail(RM_BAD_ARGUMENT, "more than %.0f elements are not zero", numbers[2]);
}
