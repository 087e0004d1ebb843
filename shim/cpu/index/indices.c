/* Reads indexes, which no plan bounds, as places that are within an axis. */
#include "internal.h"

/* The sign of `bad` is set by places below 0, and by those above the last one. */
#define READ_EACH(INDEX)                                \
  for (ptrdiff_t i = 0; i < n; i++) {                   \
    const int64_t index = (INDEX);                      \
    const int64_t place = index + (index >> 63 & size); \
    bad |= place | (size - 1 - place);                  \
    out[i] = place;                                     \
  }

#define READ_INDEXES(T, AS_INT64)                                              \
  if (step == sizeof(T)) {                                                     \
    READ_EACH(AS_INT64(((const T *)from)[i]))                                  \
  } else {                                                                     \
    _Pragma("clang loop vectorize(disable)")                                   \
        READ_EACH(AS_INT64(*(const T *)(from + i * step)))                     \
  }

/* What int64 does not hold becomes a negative index that no size reaches. */
static inline int64_t from_uint64(uint64_t x) { return x > INT64_MAX ? INT64_MIN : (int64_t)x; }

ptrdiff_t RM_AT(places)(int dtype, const char *from, ptrdiff_t step, ptrdiff_t n, int64_t size,
                        int64_t *out) {
  int64_t bad = 0;
  switch (dtype) {
    case RM_INT8: READ_INDEXES(int8_t, (int64_t)) break;
    case RM_INT16: READ_INDEXES(int16_t, (int64_t)) break;
    case RM_INT32: READ_INDEXES(int32_t, (int64_t)) break;
    case RM_UINT16: READ_INDEXES(uint16_t, (int64_t)) break;
    case RM_UINT32: READ_INDEXES(uint32_t, (int64_t)) break;
    case RM_UINT64: READ_INDEXES(uint64_t, from_uint64) break;
    case RM_INT64: READ_INDEXES(int64_t, (int64_t)) break;
    default: READ_INDEXES(uint8_t, (int64_t))
  }
  if (bad >= 0) return n;
  ptrdiff_t good = 0;
  while (out[good] >= 0 && out[good] < size) good++;
  return good;
}
