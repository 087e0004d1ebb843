/*
 * The classes of elements of one size.
 *
 * Included by partition.c once for each size, with ELEMENT and KEY. It has no include guard.
 */

#define NAME(name) RM_SUFFIXED(name, ELEMENT)

/* Writes a run class by class: its elements to `out`, or their indices. */
static void NAME(split)(const sort_context *ctx, const void *values, const classes *split,
                        void *out, int32_t *indices) {
  const ptrdiff_t n = ctx->size, count = split->count;
  const ELEMENT *x = values;
  ELEMENT *to = out;
  ptrdiff_t *next = split->next, less = next[0], equal = next[1], greater = next[2];
  const KEY limit = (KEY)split->limits[0];
  for (ptrdiff_t first = 0; first < n; first += KEY_BLOCK) {
    const ptrdiff_t length = rm_min(KEY_BLOCK, n - first);
    KEY keys[KEY_BLOCK];
    load_keys(ctx, x + first, length, keys);
    RM_SCALAR for (ptrdiff_t i = 0; i < length; i++) {
      const KEY key = keys[i];
      ptrdiff_t at;
      if (count == 1) {
        const bool not_less = key >= limit, is_greater = key > limit;
        at = is_greater ? greater : not_less ? equal : less;
        less += !not_less;
        equal += not_less & !is_greater;
        greater += is_greater;
      } else {
        ptrdiff_t which = 0;
        RM_SCALAR for (ptrdiff_t l = 0; l < count; l++) {
          which += (key >= (KEY)split->limits[l]) + (key > (KEY)split->limits[l]);
        }
        at = next[which]++;
      }
      /* Another thread may have changed values since they were counted. */
      at = rm_min(at, n - 1);
      if (indices != NULL) indices[at] = (int32_t)(first + i);
      else to[at] = x[first + i];
    }
  }
}

#undef NAME
#undef ELEMENT
#undef KEY
