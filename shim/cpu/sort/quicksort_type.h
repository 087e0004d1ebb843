/*
 * Partitions, quicksort and selection.
 *
 * Included by quicksort.c once for each size of keys, with BITS, KEY, KEY_MIN, KEY_MAX and LANES. It
 * has no include guard.
 */

#define NAME(name) RM_SUFFIXED(name, KEY)
#define PUBLIC(name) RM_SUFFIXED(name, BITS)

/* Without AVX2, vectors gain nothing in partitions. */
#if defined(__AVX2__)

#if defined(__AVX512F__) && BITS == 32
#define MASK __mmask16
#define GREATER(v, p) _mm512_cmpgt_epi32_mask(v, p)
#define COMPRESS(mask, v) _mm512_maskz_compress_epi32(mask, v)
#define STORE(to, v) _mm512_storeu_si512(to, v)
#define STORE_SOME(to, mask, v) _mm512_mask_storeu_epi32(to, mask, v)
#define SPLAT(x) _mm512_set1_epi32(x)
#elif defined(__AVX512F__)
#define MASK __mmask8
#define GREATER(v, p) _mm512_cmpgt_epi64_mask(v, p)
#define COMPRESS(mask, v) _mm512_maskz_compress_epi64(mask, v)
#define STORE(to, v) _mm512_storeu_si512(to, v)
#define STORE_SOME(to, mask, v) _mm512_mask_storeu_epi64(to, mask, v)
#define SPLAT(x) _mm512_set1_epi64(x)
#elif BITS == 32
#define SPLAT(x) _mm256_set1_epi32(x)
#define GREATER(v, p) _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(v, p)))
#define ORDER(mask) lane_order(mask)
#else
#define SPLAT(x) _mm256_set1_epi64x(x)
#define GREATER(v, p) _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(v, p)))
/* Two lanes of 32 bits for each: the mask with each bit twice. */
#define ORDER(mask) lane_order(3 * (((mask) & 1) | ((mask) & 2) << 1 | ((mask) & 4) << 2 | ((mask) & 8) << 3))
#endif

/* Where a partition writes: at the end of the keys that are not greater than the pivot, and before
 * those that are. */
typedef struct {
  KEY *left, *right;
} NAME(cursors);

#if defined(__AVX512F__)
static RM_ALWAYS_INLINE NAME(cursors) NAME(split)(NAME(cursors) to, __m512i v, __m512i pivot) {
  const MASK greater = GREATER(v, pivot);
  const int count = __builtin_popcount(greater);
  STORE(to.left, COMPRESS((MASK)~greater, v));
  to.left += LANES - count;
  to.right -= count;
  STORE_SOME(to.right, (MASK)((1u << count) - 1), COMPRESS(greater, v));
  return to;
}

/* Some lanes of a vector into a gap of as many keys or more. */
static RM_ALWAYS_INLINE NAME(cursors) NAME(split_some)(NAME(cursors) to, __m512i v, __m512i pivot,
                                                       MASK lanes) {
  const MASK greater = (MASK)(GREATER(v, pivot) & lanes), other = (MASK)(~greater & lanes);
  const int count = __builtin_popcount(greater), rest = __builtin_popcount(other);
  STORE_SOME(to.left, (MASK)((1u << rest) - 1), COMPRESS(other, v));
  to.left += rest;
  to.right -= count;
  STORE_SOME(to.right, (MASK)((1u << count) - 1), COMPRESS(greater, v));
  return to;
}
#define VECTOR __m512i
#define LOAD(from) _mm512_loadu_si512(from)
#else
static RM_ALWAYS_INLINE NAME(cursors) NAME(split)(NAME(cursors) to, __m256i v, __m256i pivot) {
  const int greater = GREATER(v, pivot), count = __builtin_popcount((unsigned)greater);
  const __m256i ordered = _mm256_permutevar8x32_epi32(v, ORDER(greater));
  _mm256_storeu_si256((void *)to.left, ordered);
  _mm256_storeu_si256((void *)(to.right - LANES), ordered);
  to.left += LANES - count;
  to.right -= count;
  return to;
}
#define VECTOR __m256i
#define LOAD(from) _mm256_loadu_si256((const void *)(from))
#endif

/* Moves the keys that are not greater than the pivot before all others, and returns how many there
 * are. The keys at both edges, which are partitioned last, make room: a vector is read from the side
 * with less room, so that both sides have enough. n is more than 3 * BATCH * LANES. */
static ptrdiff_t NAME(partition)(KEY *x, ptrdiff_t n, KEY pivot) {
  enum { STEP = BATCH * LANES };
  const VECTOR p = SPLAT(pivot);
  const ptrdiff_t rest = n % STEP, edges = 2 * STEP + rest;
  KEY edge[3 * STEP];
  memcpy(edge, x, STEP * sizeof *x);
  memcpy(edge + STEP, x + n - STEP - rest, (size_t)(STEP + rest) * sizeof *x);
  KEY *next = x + STEP, *end = x + n - STEP - rest;
  NAME(cursors) to = {x, x + n};
  while (next < end) {
    const bool at_left = next - to.left <= to.right - end;
    KEY *const from = at_left ? next : end - STEP;
    next += at_left ? STEP : 0;
    end -= at_left ? 0 : STEP;
    const VECTOR a = LOAD(from), b = LOAD(from + LANES), c = LOAD(from + 2 * LANES),
                 d = LOAD(from + 3 * LANES);
    to = NAME(split)(to, a, p);
    to = NAME(split)(to, b, p);
    to = NAME(split)(to, c, p);
    to = NAME(split)(to, d, p);
  }
  ptrdiff_t i = 0;
#if defined(__AVX512F__)
  RM_SCALAR for (; i < edges; i += LANES) {
    const ptrdiff_t count = rm_min(edges - i, LANES);
    const MASK lanes = (MASK)((1u << count) - 1);
    VECTOR v;
    memcpy(&v, edge + i, sizeof v);
    to = NAME(split_some)(to, v, p, lanes);
  }
#else
  RM_SCALAR for (; edges - i >= 2 * LANES; i += LANES) to = NAME(split)(to, LOAD(edge + i), p);
  RM_SCALAR for (; i < edges; i++) {
    const KEY key = edge[i];
    const bool greater = key > pivot;
    *to.left = key;
    to.right[-1] = key;
    to.left += !greater;
    to.right -= greater;
  }
#endif
  return to.left - x;
}

#undef MASK
#undef GREATER
#undef COMPRESS
#undef STORE
#undef STORE_SOME
#undef SPLAT
#undef ORDER
#undef VECTOR
#undef LOAD

#else

static ptrdiff_t NAME(partition)(KEY *x, ptrdiff_t n, KEY pivot) {
  ptrdiff_t at = 0;
  RM_SCALAR for (ptrdiff_t i = 0; i < n; i++) {
    const KEY key = x[i];
    x[i] = x[at];
    x[at] = key;
    at += key <= pivot;
  }
  return at;
}

#endif

/* Sorts in n log n steps, whatever the keys. */
static void NAME(heap_sort)(KEY *x, ptrdiff_t n) {
  for (ptrdiff_t start = n / 2, end = n; end > 1;) {
    KEY moved;
    if (start > 0) moved = x[--start];
    else {
      moved = x[--end];
      x[end] = x[0];
    }
    ptrdiff_t at = start;
    for (ptrdiff_t child; (child = 2 * at + 1) < end; at = child) {
      child += child + 1 < end && x[child + 1] > x[child];
      if (x[child] <= moved) break;
      x[at] = x[child];
    }
    x[at] = moved;
  }
}

enum { NAME(SAMPLE_MAX) = SAMPLE < ROWS * LANES ? SAMPLE : ROWS * LANES };

/* Takes a sorted sample of a run, of keys at random places of equal parts; returns their number. */
static int NAME(take_sample)(const KEY *x, ptrdiff_t n, uint64_t *state, KEY *sample) {
  const int count = n < LONG_SAMPLED ? SHORT_SAMPLE : NAME(SAMPLE_MAX);
  const ptrdiff_t part = n / count;
  for (int i = 0; i < count; i++) sample[i] = x[i * part + next_below(state, part)];
  NAME(sort_small)(sample, count);
  return count;
}

/* How often a run may be partitioned. */
static int NAME(depth)(ptrdiff_t n) { return 2 * (64 - __builtin_clzll((uint64_t)n | 1)); }

/* Partitions a run around the pivot, an element of it. *done tells that the other keys are equal. */
static ptrdiff_t NAME(divide)(KEY *x, ptrdiff_t n, KEY pivot, bool *done) {
  const ptrdiff_t less = NAME(partition)(x, n, pivot);
  *done = less == n;
  /* All keys equal to the pivot are the greatest ones. */
  return less < n ? less : pivot == KEY_MIN ? 0 : NAME(partition)(x, n, pivot - 1);
}

static void NAME(sort)(KEY *x, ptrdiff_t n, int depth, uint64_t *state) {
  while (n > ROWS * LANES) {
    if (depth-- == 0) {
      NAME(heap_sort)(x, n);
      return;
    }
    KEY sample[SAMPLE];
    const int count = NAME(take_sample)(x, n, state, sample);
    bool done;
    const ptrdiff_t less = NAME(divide)(x, n, sample[(count - 1) / 2], &done);
    if (done) n = less;
    else if (less < n - less) {
      NAME(sort)(x, less, depth, state);
      x += less;
      n -= less;
    } else {
      NAME(sort)(x + less, n - less, depth, state);
      n = less;
    }
  }
  NAME(sort_small)(x, n);
}

void PUBLIC(quicksort)(KEY *keys, ptrdiff_t n) {
  uint64_t state = (uint64_t)n;
  make_lane_orders();
  NAME(sort)(keys, n, NAME(depth)(n), &state);
}

void PUBLIC(quickselect)(KEY *x, ptrdiff_t n, ptrdiff_t rank) {
  uint64_t state = (uint64_t)n;
  make_lane_orders();
  for (int depth = NAME(depth)(n); n > ROWS * LANES;) {
    if (depth-- == 0) {
      NAME(heap_sort)(x, n);
      return;
    }
    KEY sample[SAMPLE];
    const int count = NAME(take_sample)(x, n, &state, sample), margin = count / 16;
    /* The key of this rank, or one a little farther from the nearer end, so that the rank stays in
     * the shorter part. */
    const int at = (int)((double)rank / (double)n * count) + (2 * rank < n ? margin : -margin);
    bool done;
    const ptrdiff_t less =
        NAME(divide)(x, n, sample[rm_min(count - 1, at < 0 ? 0 : at)], &done);
    if (rank < less) n = less;
    else if (done) return;
    else {
      x += less;
      n -= less;
      rank -= less;
    }
  }
  NAME(sort_small)(x, n);
}

/* A run of which threads partition a chunk each. */
typedef struct {
  KEY *keys;
  ptrdiff_t n, chunk;
  KEY pivot;
  ptrdiff_t less[MAX_CHUNKS];
} NAME(shared);

static void NAME(partition_chunk)(void *context, ptrdiff_t index) {
  NAME(shared) *run = context;
  const ptrdiff_t first = index * run->chunk, n = rm_min(run->chunk, run->n - first);
  run->less[index] = NAME(partition)(run->keys + first, n, run->pivot);
}

/* NAME(partition) by several threads. Each partitions a chunk, whose parts then change places. */
static ptrdiff_t NAME(partition_shared)(KEY *x, ptrdiff_t n, KEY pivot) {
  NAME(shared) run = {.keys = x, .n = n, .chunk = rm_ceil_div(n, MAX_CHUNKS), .pivot = pivot};
  rm_parallel(MAX_CHUNKS, (double)n, NAME(partition_chunk), &run);
  ptrdiff_t less = 0;
  for (int i = 0; i < MAX_CHUNKS; i++) less += run.less[i];
  /* The next greater key before `less`, the next other key after it, and their chunks. */
  int i = 0, j = 0;
  ptrdiff_t a = run.less[0], b = 0;
  for (;;) {
    while (i < MAX_CHUNKS && a >= rm_min((i + 1) * run.chunk, less)) {
      i++;
      if (i < MAX_CHUNKS) a = i * run.chunk + run.less[i];
    }
    while (j < MAX_CHUNKS && (b < less || b >= j * run.chunk + run.less[j])) {
      if (b < less && less < j * run.chunk + run.less[j]) b = less;
      else if (++j < MAX_CHUNKS) b = j * run.chunk;
    }
    if (i == MAX_CHUNKS || j == MAX_CHUNKS) return less;
    const ptrdiff_t count = rm_min(rm_min((i + 1) * run.chunk, less) - a,
                                   j * run.chunk + run.less[j] - b);
    for (ptrdiff_t k = 0; k < count; k++) {
      const KEY key = x[a + k];
      x[a + k] = x[b + k];
      x[b + k] = key;
    }
    a += count;
    b += count;
  }
}

typedef struct {
  KEY *keys[MAX_SEGMENTS];
  ptrdiff_t n[MAX_SEGMENTS];
} NAME(segments);

static void NAME(sort_segment)(void *context, ptrdiff_t index) {
  const NAME(segments) *all = context;
  PUBLIC(quicksort)(all->keys[index], all->n[index]);
}

void PUBLIC(quicksort_parallel)(KEY *keys, ptrdiff_t n) {
  const int threads = rm_threads();
  if (n < PARALLEL_MIN || threads < 2) {
    PUBLIC(quicksort)(keys, n);
    return;
  }
  make_lane_orders();
  uint64_t state = (uint64_t)n;
  const ptrdiff_t longest = rm_min(n, rm_ceil_div(n, 3 * threads) + PARALLEL_MIN / 8);
  NAME(segments) all = {.keys = {keys}, .n = {n}};
  int count = 1;
  for (int i = 0, tries = 0; i < count && tries < 2 * MAX_SEGMENTS; tries++) {
    KEY *const x = all.keys[i];
    const ptrdiff_t length = all.n[i];
    if (length <= longest || count == MAX_SEGMENTS) {
      i++;
      continue;
    }
    KEY sample[SAMPLE];
    const KEY pivot = sample[(NAME(take_sample)(x, length, &state, sample) - 1) / 2];
    const ptrdiff_t less = NAME(partition_shared)(x, length, pivot);
    all.n[i] = less;
    if (less == length) {
      all.n[i] = pivot == KEY_MIN ? 0 : NAME(partition_shared)(x, length, pivot - 1);
    } else {
      all.keys[count] = x + less;
      all.n[count++] = length - less;
    }
  }
  rm_parallel(count, 3 * (double)n, NAME(sort_segment), &all);
}

#undef NAME
#undef PUBLIC
