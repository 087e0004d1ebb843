/*
 * Sorts COLUMN_RUNS runs of keys of one size side by side.
 *
 * Included by sort.c once for 32-bit and once for 64-bit keys, with KEY. It has no include guard.
 */

#define NAME(name) RM_SUFFIXED(name, KEY)

typedef KEY NAME(key_row) __attribute__((vector_size(sizeof(KEY) * COLUMN_RUNS), may_alias));

/* Sorts n keys of each of COLUMN_RUNS runs by Batcher's odd-even merge sort. x[i] holds key i of
 * all runs. The comparisons depend on n alone. */
static void NAME(sort_columns)(NAME(key_row) * x, ptrdiff_t n) {
  for (ptrdiff_t sorted = 1; sorted < n; sorted *= 2) {
    const ptrdiff_t block = -2 * sorted;
    for (ptrdiff_t distance = sorted; distance > 0; distance /= 2) {
      for (ptrdiff_t first = distance % sorted; first + distance < n; first += 2 * distance) {
        const ptrdiff_t end = rm_min(first + distance, n - distance);
        RM_SCALAR for (ptrdiff_t i = first; i < end; i++) {
          if (((i ^ (i + distance)) & block) != 0) continue;
          const NAME(key_row) a = x[i], b = x[i + distance];
          x[i] = __builtin_elementwise_min(a, b);
          x[i + distance] = __builtin_elementwise_max(a, b);
        }
      }
    }
  }
}

/* Copies runs to columns and back one by one. */
static void NAME(sort_by_columns)(const sort_context *ctx, char *values, void *columns, KEY *keys) {
  const ptrdiff_t n = ctx->size, bytes = n * ctx->bytes;
  KEY(*column)[COLUMN_RUNS] = columns;
  for (int run = 0; run < COLUMN_RUNS; run++) {
    load_keys(ctx, values + run * bytes, n, keys);
    RM_SCALAR for (ptrdiff_t i = 0; i < n; i++) column[i][run] = keys[i];
  }
  NAME(sort_columns)(columns, n);
  for (int run = 0; run < COLUMN_RUNS; run++) {
    RM_SCALAR for (ptrdiff_t i = 0; i < n; i++) keys[i] = column[i][run];
    store_keys(ctx, keys, n, values + run * bytes);
  }
}

#undef NAME
#undef KEY
