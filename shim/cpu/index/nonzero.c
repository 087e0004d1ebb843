/*
 * Finds the elements that are not zero.
 */
#include <string.h>
#include "index.h"

/* Flags elements that have a bit of `mask`. */
#define FLAG_NONZERO(T) \
  { \
    const T *x = (const T *)source + offset + at; \
    _Pragma("clang loop vectorize_width(16)") for (ptrdiff_t i = 0; i < n; i++) { \
      flags[i] = (x[i] & (T)mask) != 0; \
    } \
  }

/* For floats all bits but the sign count: -0 is zero, NaN is not. Eight flags make a byte, and a
 * table gives the positions of the set bits of every byte. Excess positions are overwritten.
 * Returns the end of the written positions, at most `end`. */
static int32_t *find_nonzero(int dtype, ptrdiff_t offset, ptrdiff_t length, int32_t *target,
                             const int32_t *end, const void *source) {
  const uint64_t sign = rm_is_float(dtype) ? UINT64_C(1) << (8 * rm_itemsize(dtype) - 1) : 0;
  const uint64_t mask = ~sign;
  uint64_t byte_positions[256] = {0};
  for (unsigned bits = 1; bits < 256; bits++) {
    byte_positions[bits] = byte_positions[bits & (bits - 1)] << 8 | (unsigned)__builtin_ctz(bits);
  }
  for (ptrdiff_t at = 0; at < length; at += BLOCK) {
    const ptrdiff_t n = rm_min(length - at, BLOCK);
    uint8_t flags[BLOCK + 8];
    int32_t found[BLOCK + 8];
    switch (rm_itemsize(dtype)) {
      case 1: FLAG_NONZERO(uint8_t) break;
      case 2: FLAG_NONZERO(uint16_t) break;
      case 4: FLAG_NONZERO(uint32_t) break;
      default: FLAG_NONZERO(uint64_t)
    }
    memset(flags + n, 0, 8);
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < n; i += 8) {
      uint64_t eight;
      memcpy(&eight, flags + i, 8);
      const unsigned bits = (unsigned)(eight * UINT64_C(0x0102040810204080) >> 56);
      const uint8_t *which = (const uint8_t *)&byte_positions[bits];
      _Pragma("clang loop unroll(full)")
      for (int k = 0; k < 8; k++) found[count + k] = (int32_t)(at + i) + which[k];
      count += __builtin_popcount(bits);
    }
    count = rm_min(count, end - target);
    memcpy(target, found, (size_t)count * sizeof *found);
    target += count;
  }
  return target;
}

int32_t rm_nonzero(const rm_call *call) {
  void *const target = call->buffers[0], *const source = call->buffers[1];
  const int dtype = call->dtypes[1];
  if (dtype >= RM_DTYPE_COUNT) return rm_fail(RM_BAD_ARGUMENT, "nonzero: no dtype %d", dtype);
  const double *numbers = rm_attributes(call);
  if (target == NULL || source == NULL) return RM_OK;
  /* Another thread may have changed shared elements since the caller counted them. */
  int32_t *const end = (int32_t *)target + (ptrdiff_t)numbers[2];
  int32_t *const written = find_nonzero(dtype, (ptrdiff_t)numbers[0], (ptrdiff_t)numbers[1], target,
                                        end, source);
  memset(written, 0, (size_t)(end - written) * sizeof *written);
  return RM_OK;
}
