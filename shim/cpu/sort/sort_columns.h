/*
 * Sorting several runs side by side, in vectors. Part of sort.c.
 */
#ifndef ROWMAJOR_SORT_COLUMNS_H
#define ROWMAJOR_SORT_COLUMNS_H

#include "sort_keys.h"

/* Vectors of what lies in columns would be gathered and scattered. */
#define AS_IT_IS _Pragma("clang loop unroll(disable) vectorize(disable)")

#define KEY uint32_t
#include "sort_columns_type.h"
#define KEY uint64_t
#include "sort_columns_type.h"

/* The order of BESIDE runs of keys of 32 bits, each of which makes one number with its index. */
static void order_beside(const job *j, const char *values, int32_t *indices, void *columns,
                         uint32_t *keys) {
  const ptrdiff_t n = j->size;
  uint64_t(*column)[BESIDE] = columns;
  for (int run = 0; run < BESIDE; run++) {
    load_keys(j, values + run * n * j->bytes, keys);
    AS_IT_IS for (ptrdiff_t i = 0; i < n; i++) {
      column[i][run] = (uint64_t)keys[i] << 32 | (uint64_t)i;
    }
  }
  sort_columns_uint64_t(columns, n);
  for (int run = 0; run < BESIDE; run++) {
    AS_IT_IS for (ptrdiff_t i = 0; i < n; i++) *indices++ = (int32_t)(uint32_t)column[i][run];
  }
}

#endif
