/*
 * Sorts several runs side by side in vectors. Part of sort.c.
 */
#ifndef ROWMAJOR_SORT_COLUMNS_H
#define ROWMAJOR_SORT_COLUMNS_H

#include "sort_keys.h"

/* The loops that fill columns are RM_SCALAR: vectorized, they would gather and scatter. */
#define KEY uint32_t
#include "sort_columns_type.h"
#define KEY uint64_t
#include "sort_columns_type.h"

/* The argsort of COLUMN_RUNS runs of 32-bit keys. Each key and its index form one number. */
static void argsort_by_columns(const sort_context *ctx, const char *values, int32_t *indices,
                               void *columns, uint32_t *keys) {
  const ptrdiff_t n = ctx->size;
  uint64_t (*column)[COLUMN_RUNS] = columns;
  for (int run = 0; run < COLUMN_RUNS; run++) {
    load_keys(ctx, values + run * n * ctx->bytes, keys);
    RM_SCALAR for (ptrdiff_t i = 0; i < n; i++) {
      column[i][run] = (uint64_t)keys[i] << 32 | (uint64_t)i;
    }
  }
  sort_columns_uint64_t(columns, n);
  for (int run = 0; run < COLUMN_RUNS; run++) {
    RM_SCALAR for (ptrdiff_t i = 0; i < n; i++) *indices++ = (int32_t)(uint32_t)column[i][run];
  }
}

#endif
