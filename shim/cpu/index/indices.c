/*
 * Reads indices of any integer dtype and normalizes them to positions within an axis.
 */
#include "internal.h"

/* An index below 0 or past the end sets the sign of `bad`. */
#define NORMALIZE_EACH(INDEX) \
  for (ptrdiff_t i = 0; i < n; i++) { \
    const int64_t raw = (INDEX); \
    const int64_t index = raw + (raw >> 63 & size); \
    bad |= index | (size - 1 - index); \
    out[i] = index; \
  }

#define NORMALIZE(T, AS_INT64) \
  if (step == sizeof(T)) { \
    NORMALIZE_EACH(AS_INT64(((const T *)from)[i])) \
  } else { \
    _Pragma("clang loop vectorize(disable)") \
        NORMALIZE_EACH(AS_INT64(*(const T *)(from + i * step))) \
  }

/* Values that int64 cannot hold become a negative index that is out of range for every size. */
static inline int64_t from_uint64(uint64_t x) { return x > INT64_MAX ? INT64_MIN : (int64_t)x; }

ptrdiff_t RM_FOR_ISA(normalize_indices)(int dtype, const char *from, ptrdiff_t step, ptrdiff_t n,
                                        int64_t size, int64_t *out) {
  int64_t bad = 0;
  switch (dtype) {
    case RM_INT8: NORMALIZE(int8_t, (int64_t)) break;
    case RM_INT16: NORMALIZE(int16_t, (int64_t)) break;
    case RM_INT32: NORMALIZE(int32_t, (int64_t)) break;
    case RM_UINT16: NORMALIZE(uint16_t, (int64_t)) break;
    case RM_UINT32: NORMALIZE(uint32_t, (int64_t)) break;
    case RM_UINT64: NORMALIZE(uint64_t, from_uint64) break;
    case RM_INT64: NORMALIZE(int64_t, (int64_t)) break;
    default: NORMALIZE(uint8_t, (int64_t))
  }
  if (bad >= 0) return n;
  ptrdiff_t good = 0;
  while (out[good] >= 0 && out[good] < size) good++;
  return good;
}
