/*
 * Sorts keys of one size by digits and by ranks.
 *
 * Included by sort.c once for 32-bit and once for 64-bit keys, with KEY. It has no include guard.
 */

#define NAME(name) RM_SUFFIXED(name, KEY)

static void NAME(bounds)(const KEY *keys, ptrdiff_t n, KEY *min_key, KEY *max_key) {
  KEY low = keys[0], high = keys[0];
  for (ptrdiff_t i = 1; i < n; i++) {
    low = keys[i] < low ? keys[i] : low;
    high = keys[i] > high ? keys[i] : high;
  }
  *min_key = low;
  *max_key = high;
}

static void NAME(count_digit)(void *context, ptrdiff_t index) {
  const digit_pass *p = context;
  const ptrdiff_t first = index * p->part;
  const ptrdiff_t end = rm_min(first + p->part, p->n);
  const KEY *from = p->from, min_key = (KEY)p->min_key, mask = ((KEY)1 << p->bits) - 1;
  uint32_t *counts = p->counts[index];
  memset(counts, 0, sizeof *counts << p->bits);
  UNROLL_4 for (ptrdiff_t i = first; i < end; i++) {
    counts[(KEY)(from[i] - min_key) >> p->shift & mask]++;
  }
}

static void NAME(scatter_digit)(void *context, ptrdiff_t index) {
  const digit_pass *p = context;
  const ptrdiff_t first = index * p->part;
  const ptrdiff_t end = rm_min(first + p->part, p->n);
  const KEY *from = p->from, min_key = (KEY)p->min_key, mask = ((KEY)1 << p->bits) - 1;
  KEY *to = p->to;
  uint32_t *positions = p->counts[index];
  UNROLL_4 for (ptrdiff_t i = first; i < end; i++) {
    const KEY key = from[i];
    to[positions[(KEY)(key - min_key) >> p->shift & mask]++] = key;
  }
}

/* Sorts a by the bits [low, high) of (key - min_key). b has room for as many keys, and counts for
 * each part. Returns the array that holds the result. */
static KEY *NAME(radix_sort)(KEY *a, KEY *b, ptrdiff_t n, KEY min_key, int low, int high,
                             ptrdiff_t parts, uint32_t (*counts)[BUCKETS]) {
  const int digit_bits = n < LONG_RUN ? SHORT_DIGIT_BITS : DIGIT_BITS;
  const int passes = (int)rm_ceil_div(high - low, digit_bits);
  if (passes == 0) return a;
  digit_pass p = {.min_key = min_key, .n = n, .part = rm_ceil_div(n, parts), .counts = counts};
  p.bits = (int)rm_ceil_div(high - low, passes);
  for (p.shift = low; p.shift < high; p.shift += p.bits) {
    p.from = a;
    p.to = b;
    run_parts(parts, NAME(count_digit), &p);
    if (!prefix_sum_buckets(&p, parts)) continue;
    run_parts(parts, NAME(scatter_digit), &p);
    KEY *swap = a;
    a = b;
    b = swap;
  }
  return a;
}

/* Orders indices by the lower digits of their keys. The upper digits go with the indices. */
static void NAME(scatter_index)(void *context, ptrdiff_t index) {
  const digit_pass *p = context;
  const ptrdiff_t first = index * p->part;
  const ptrdiff_t end = rm_min(first + p->part, p->n);
  const KEY *from = p->from, min_key = (KEY)p->min_key, mask = ((KEY)1 << p->bits) - 1;
  const int bits = p->bits, index_bits = p->index_bits;
  uint32_t *to = p->to, *positions = p->counts[index];
  UNROLL_4 for (ptrdiff_t i = first; i < end; i++) {
    const KEY key = from[i] - min_key;
    to[positions[key & mask]++] = (uint32_t)(key >> bits) << index_bits | (uint32_t)i;
  }
}

typedef KEY NAME(vector) __attribute__((vector_size(64)));

/* ranks[i] is the number of keys before key i. Both arrays have room for whole vectors. */
static void NAME(rank)(const KEY *keys, ptrdiff_t n, KEY *ranks) {
  enum { LANES = 64 / sizeof(KEY) };
  NAME(vector) lane;
  for (int l = 0; l < LANES; l++) lane[l] = (KEY)l;
  for (ptrdiff_t block = 0; block < n; block += LANES) {
    const ptrdiff_t end = rm_min(block + LANES, n);
    NAME(vector) own, before = {};
    memcpy(&own, keys + block, sizeof own);
    ptrdiff_t i = 0;
    for (; i < block; i++) before -= (NAME(vector))(keys[i] <= own);
    for (; i < end; i++) {
      before -= (NAME(vector))((keys[i] < own) | ((keys[i] == own) & ((KEY)(i - block) < lane)));
    }
    for (; i < n; i++) before -= (NAME(vector))(keys[i] < own);
    memcpy(ranks + block, &before, sizeof before);
  }
}

#undef NAME
#undef KEY
