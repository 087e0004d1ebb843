/*
 * Sorting keys of one size: by digits, and by ranks.
 *
 * Included by sort.c once for keys of 32 bits and once for those of 64, with KEY. No guard.
 */

#define NAME_(name, type) name##_##type
#define NAME_OF(name, type) NAME_(name, type)
#define NAME(name) NAME_OF(name, KEY)

static void NAME(bounds)(const KEY *keys, ptrdiff_t n, KEY *least, KEY *most) {
  KEY low = keys[0], high = keys[0];
  for (ptrdiff_t i = 1; i < n; i++) {
    low = keys[i] < low ? keys[i] : low;
    high = keys[i] > high ? keys[i] : high;
  }
  *least = low;
  *most = high;
}

static void NAME(count)(void *context, ptrdiff_t index) {
  const digit_pass *p = context;
  const ptrdiff_t first = index * p->part;
  const ptrdiff_t end = rm_least(first + p->part, p->n);
  const KEY *from = p->from, least = (KEY)p->least, mask = ((KEY)1 << p->bits) - 1;
  uint32_t *counts = p->counts[index];
  memset(counts, 0, sizeof *counts << p->bits);
  BY_FOURS for (ptrdiff_t i = first; i < end; i++) {
    counts[(KEY)(from[i] - least) >> p->shift & mask]++;
  }
}

static void NAME(spread)(void *context, ptrdiff_t index) {
  const digit_pass *p = context;
  const ptrdiff_t first = index * p->part;
  const ptrdiff_t end = rm_least(first + p->part, p->n);
  const KEY *from = p->from, least = (KEY)p->least, mask = ((KEY)1 << p->bits) - 1;
  KEY *to = p->to;
  uint32_t *places = p->counts[index];
  BY_FOURS for (ptrdiff_t i = first; i < end; i++) {
    const KEY key = from[i];
    to[places[(KEY)(key - least) >> p->shift & mask]++] = key;
  }
}

/* Sorts a by the bits of (key - least) from `low` to `high`, with b as room for as many and
 * counts for each part; gives the one that the result is in. */
static KEY *NAME(radix)(KEY *a, KEY *b, ptrdiff_t n, KEY least, int low, int high, ptrdiff_t parts,
                    uint32_t (*counts)[BUCKETS]) {
  const int most = n < LONG ? SHORT_DIGIT : DIGIT;
  const int passes = (int)rm_parts(high - low, most);
  if (passes == 0) return a;
  digit_pass p = {.least = least, .n = n, .part = rm_parts(n, parts), .counts = counts};
  p.bits = (int)rm_parts(high - low, passes);
  for (p.shift = low; p.shift < high; p.shift += p.bits) {
    p.from = a;
    p.to = b;
    each_part(parts, NAME(count), &p);
    if (!place_buckets(&p, parts)) continue;
    each_part(parts, NAME(spread), &p);
    KEY *swap = a;
    a = b;
    b = swap;
  }
  return a;
}

typedef KEY NAME(vector) __attribute__((vector_size(64)));

/* ranks[i] is how many keys come before key i. Both have room for whole vectors. */
static void NAME(rank)(const KEY *keys, ptrdiff_t n, KEY *ranks) {
  enum { LANES = 64 / sizeof(KEY) };
  NAME(vector) lane;
  for (int l = 0; l < LANES; l++) lane[l] = (KEY)l;
  for (ptrdiff_t block = 0; block < n; block += LANES) {
    const ptrdiff_t end = rm_least(block + LANES, n);
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

#undef NAME_
#undef NAME_OF
#undef NAME
#undef KEY
