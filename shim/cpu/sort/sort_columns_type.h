/*
 * Sorting BESIDE runs of keys of one size, side by side.
 *
 * Included by sort.c once for keys of 32 bits and once for those of 64, with KEY. No guard.
 */

#define NAME_(name, type) name##_##type
#define NAME_OF(name, type) NAME_(name, type)
#define NAME(name) NAME_OF(name, KEY)

typedef KEY NAME(beside) __attribute__((vector_size(sizeof(KEY) * BESIDE), may_alias));

/*
 * Sorts n keys of each of BESIDE runs, key i of all of them in x[i], by Batcher's odd-even merges:
 * what is compared depends on n alone.
 */
static void NAME(sort_columns)(NAME(beside) *x, ptrdiff_t n) {
  for (ptrdiff_t sorted = 1; sorted < n; sorted *= 2) {
    const ptrdiff_t block = -2 * sorted;
    for (ptrdiff_t apart = sorted; apart > 0; apart /= 2) {
      for (ptrdiff_t first = apart % sorted; first + apart < n; first += 2 * apart) {
        const ptrdiff_t end = rm_least(first + apart, n - apart);
        AS_IT_IS for (ptrdiff_t i = first; i < end; i++) {
          if (((i ^ (i + apart)) & block) != 0) continue;
          const NAME(beside) a = x[i], b = x[i + apart];
          x[i] = __builtin_elementwise_min(a, b);
          x[i + apart] = __builtin_elementwise_max(a, b);
        }
      }
    }
  }
}

/* Runs are put into columns, and taken out, one by one. */
static void NAME(sort_beside)(const job *j, char *values, void *columns, KEY *keys) {
  const ptrdiff_t n = j->size, bytes = n * j->bytes;
  KEY(*column)[BESIDE] = columns;
  for (int run = 0; run < BESIDE; run++) {
    load_keys(j, values + run * bytes, keys);
    AS_IT_IS for (ptrdiff_t i = 0; i < n; i++) column[i][run] = keys[i];
  }
  NAME(sort_columns)(columns, n);
  for (int run = 0; run < BESIDE; run++) {
    AS_IT_IS for (ptrdiff_t i = 0; i < n; i++) keys[i] = column[i][run];
    store_keys(j, keys, values + run * bytes);
  }
}

#undef NAME_
#undef NAME_OF
#undef NAME
#undef KEY
