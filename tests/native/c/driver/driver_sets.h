/*
 * Part of driver.c: sets, searches, histograms, folds into elements, and deviates, beside plain loops.
 */

static int32_t run_four(const char *name, int32_t dtypes, const double *values, int count,
                        attributes *numbers, void *out, void *a, void *b, void *c) {
  *numbers = with_attributes(count, values);
  return rm_run(kernel(name), dtypes, RM_INT32, numbers->at, out, a, b, c);
}

static int32_t at32(const buffer *b, ptrdiff_t i) { return ((const int32_t *)b->data)[i]; }

/* Sorts small numbers; NaN does not occur. */
static void sort_small_numbers(buffer *b, ptrdiff_t from, ptrdiff_t n) {
  for (ptrdiff_t i = 1; i < n; i++) {
    for (ptrdiff_t j = i; j > 0; j--) {
      const double x = get(b->dtype, b->data, from + j - 1), y = get(b->dtype, b->data, from + j);
      if (x <= y) break;
      put(b->dtype, b->data, from + j - 1, (int64_t)y);
      put(b->dtype, b->data, from + j, (int64_t)x);
    }
  }
  memcpy(b->before, b->data, b->bytes);
}

static void run_unique(int dtype, ptrdiff_t n) {
  snprintf(about, sizeof about, "unique of dtype %d, %td elements", dtype, n);
  const ptrdiff_t offset = below(MARGIN);
  buffer x = make(dtype, offset + n, SMALL), out = make(dtype, n, ANY_BITS);
  buffer starts = make(RM_INT32, n, ANY_BITS), found = make(RM_INT32, 1, ANY_BITS);
  attributes numbers;
  const double own[] = {(double)offset, (double)n, 1, 1};
  const bool is_wide = dtype >= RM_FLOAT16;
  if (!is_half(dtype)) sort_small_numbers(&x, offset, n);
  if (!is_served(run_four("uniqueRuns", pack(dtype, dtype, RM_INT32, RM_INT32), own, 4, &numbers,
                          out.data, x.data, starts.data, found.data))) {
    fail("it was not served");
  }
  check_unchanged(&x);
  const ptrdiff_t count = at32(&found, 0);
  if (count < 1 || count > n) fail("another number of runs");
  for (ptrdiff_t i = 0, run = 0; i < n && !is_half(dtype); i++) {
    const double one = get(dtype, x.data, offset + i);
    if (i > 0 && one != get(dtype, x.data, offset + i - 1)) run++;
    if (run >= count || get(dtype, out.data, run) != one || at32(&starts, run) > i) fail("a run");
  }
  /* The runs of an order, which is a permutation here. */
  buffer order = make(RM_INT32, n, ANY_BITS), runs = make(RM_INT32, n, ANY_BITS);
  for (ptrdiff_t i = 0; i < n; i++) put(RM_INT32, order.data, i, (i * 7 + 3) % n);
  const double places[] = {0, (double)n, 0, (double)count};
  if (!is_served(run_four("runIndices", pack(RM_INT32, RM_INT32, RM_INT32, RM_NONE), places, 4,
                          &numbers, runs.data, order.data, starts.data, NULL))) {
    fail("it was not served");
  }
  for (ptrdiff_t run = 0; run < count && n % 7 != 0; run++) {
    if (at32(&runs, at32(&order, at32(&starts, run))) != run) fail("the run of an element");
  }
  /* Of any starts and orders, nothing outside is written. */
  buffer wild = make(RM_INT32, n, ANY_BITS);
  if (!is_served(run_four("runIndices", pack(RM_INT32, RM_INT32, RM_INT32, RM_NONE), places, 4,
                          &numbers, runs.data, wild.data, wild.data, NULL))) {
    fail("it was not served");
  }
  if (!is_wide) {
    const bool is_signed = dtype >= RM_INT8 && dtype <= RM_INT64;
    buffer counts = make(RM_INT32, n < 16 ? n : 16, ANY_BITS), inverse = make(RM_INT32, n, ANY_BITS);
    buffer first = make(RM_INT32, n < 16 ? n : 16, ANY_BITS);
    buffer values = make(dtype, n < 16 ? n : 16, ANY_BITS);
    for (int full = 0; full < 2; full++) {
      const double table[] = {(double)offset, (double)n, is_signed ? -8 : 0, 16, full};
      numbers = with_attributes(5, table);
      if (!is_served(run_many(kernel("uniqueTable"), pack(dtype, dtype, RM_INT32, RM_INT32),
                                 pack(RM_INT32, RM_INT32, RM_NONE, RM_NONE), RM_INT32, numbers.at,
                                 values.data, x.data, counts.data, first.data, inverse.data,
                                 found.data, NULL, NULL))) {
        fail("it was not served");
      }
      if (at32(&found, 0) != count || memcmp(values.data, out.data, (size_t)(count * rm_itemsize(dtype)))) {
        fail("other values");
      }
    }
    for (ptrdiff_t i = 0; i < n; i++) {
      const double one = get(dtype, x.data, offset + i);
      if (get(dtype, values.data, at32(&inverse, i)) != one) fail("the index of a value");
    }
    drop(&counts);
    drop(&inverse);
    drop(&first);
    drop(&values);
  }
  compared++;
  drop(&x);
  drop(&out);
  drop(&starts);
  drop(&found);
  drop(&order);
  drop(&runs);
  drop(&wild);
}

static void run_among(int dtype, ptrdiff_t n, ptrdiff_t m, enum content content, int threads) {
  snprintf(about, sizeof about, "isAmong of dtype %d, %td among %td", dtype, n, m);
  const ptrdiff_t from = below(MARGIN), at = below(MARGIN);
  buffer x = make(dtype, from + n, content), tests = make(dtype, at + m, content);
  buffer out = make(RM_BOOL, n, ANY_BITS);
  const bool inverts = below(2);
  const double own[] = {(double)from, (double)n, (double)at, (double)m, inverts};
  attributes numbers;
  SAME_WITH_ONE_THREAD(threads, &out,
                       run_four("isAmong", pack(RM_BOOL, dtype, dtype, RM_NONE), own, 5, &numbers,
                                out.data, x.data, tests.data, NULL));
  check_unchanged(&x);
  check_unchanged(&tests);
  for (ptrdiff_t i = 0; i < n && (n < 200 || i < 100) && content == SMALL; i++) {
    bool is_there = false;
    for (ptrdiff_t j = 0; j < m; j++) {
      is_there |= get(dtype, tests.data, at + j) == get(dtype, x.data, from + i);
    }
    if (out.data[i] != (is_there != inverts)) fail("an element is, or is not, among others");
  }
  compared++;
  drop(&x);
  drop(&tests);
  drop(&out);
}

static void run_search(int dtype, ptrdiff_t n, ptrdiff_t m, int threads) {
  snprintf(about, sizeof about, "searchIndices of dtype %d, %td among %td", dtype, n, m);
  const ptrdiff_t at = below(MARGIN), from = below(MARGIN);
  buffer sorted = make(dtype, at + m, SMALL), x = make(dtype, from + n, SMALL);
  sort_small_numbers(&sorted, at, m);
  buffer out = make(RM_INT32, n, ANY_BITS);
  const bool right = below(2);
  const double own[] = {(double)at, (double)m, (double)from, (double)n, right};
  attributes numbers;
  SAME_WITH_ONE_THREAD(threads, &out,
                       run_four("searchIndices", pack(RM_INT32, dtype, dtype, RM_NONE), own, 5,
                                &numbers, out.data, sorted.data, x.data, NULL));
  check_unchanged(&sorted);
  check_unchanged(&x);
  for (ptrdiff_t i = 0; i < n && (n < 200 || i < 100); i++) {
    const double v = get(dtype, x.data, from + i);
    ptrdiff_t before = 0;
    for (ptrdiff_t j = 0; j < m; j++) {
      const double s = get(dtype, sorted.data, at + j);
      before += right ? s <= v : s < v;
    }
    if (at32(&out, i) != before) fail("a place is another one");
  }
  compared++;
  drop(&sorted);
  drop(&x);
  drop(&out);
}

/* Bins that are integers (0), between edges (1), or of one width (2), and their indices (3). `width` is
 * that of bins, from -8 on; bins of width 0 are at -8. */
static void run_bins(int what, int dtype, int weights, ptrdiff_t n, ptrdiff_t bins, double width,
                     enum content content, int threads) {
  snprintf(about, sizeof about, "bins %d of dtype %d, weights %d, %td in %td of %g", what, dtype,
           weights, n, bins, width);
  const ptrdiff_t from = below(MARGIN), at = below(MARGIN), heavy = below(MARGIN);
  const bool gives_indices = what == 3, has_weights = weights != RM_NONE && !gives_indices;
  const int to = !has_weights ? RM_INT32 : weights == RM_INT64 ? RM_INT64 : RM_FLOAT64;
  buffer x = make(dtype, from + n, content), edges = {0}, w = {0};
  if (what > 0) {
    edges = make(RM_FLOAT64, at + bins + 1, SMALL);
    for (ptrdiff_t i = 0; i <= bins; i++) {
      ((double *)edges.data)[at + i] = -8 + (i == bins ? (double)bins * width : (double)i * width);
    }
    memcpy(edges.before, edges.data, edges.bytes);
  }
  if (has_weights) w = make(weights, heavy + n, SMALL);
  buffer out = make(to, gives_indices ? n : bins, ANY_BITS);
  const double own[] = {(double)from,  (double)n,   (double)bins, (double)at,
                        what >= 2,     has_weights, (double)heavy};
  const char *const names[] = {"binCounts", "histogramCounts", "histogramCounts", "binIndices"};
  const int32_t dtypes = pack(to, dtype, what > 0 ? RM_FLOAT64 : RM_NONE, has_weights ? weights : RM_NONE);
  attributes numbers;
  SAME_WITH_ONE_THREAD(threads, &out,
                       run_four(names[what], dtypes, own, 7, &numbers, out.data, x.data, edges.data,
                                w.data));
  check_unchanged(&x);
  check_unchanged(&edges);
  check_unchanged(&w);
  double *sums = calloc((size_t)bins + 1, sizeof *sums);
  if (sums == NULL) fail("no memory");
  for (ptrdiff_t i = 0; i < n && content == SMALL; i++) {
    const double v = get(dtype, x.data, from + i);
    ptrdiff_t bin = bins;
    if (what == 0 && v >= 0 && v < (double)bins) bin = (ptrdiff_t)v;
    const double *edge = what > 0 ? (const double *)edges.data + at : NULL;
    for (ptrdiff_t j = 0; what > 0 && j < bins; j++) {
      if (v >= edge[j] && (v < edge[j + 1] || (j == bins - 1 && v == edge[bins]))) bin = j;
    }
    if (gives_indices && at32(&out, i) != bin) fail("the bin of an element");
    sums[bin] += has_weights ? get(weights, w.data, heavy + i) : 1;
  }
  for (ptrdiff_t j = 0; j < bins && content == SMALL && !gives_indices; j++) {
    if (get(to, out.data, j) != sums[j]) fail("a count is another one");
  }
  free(sums);
  compared++;
  drop(&x);
  if (what > 0) drop(&edges);
  if (has_weights) drop(&w);
  drop(&out);
}

static void run_fold(int dtype, int by, ptrdiff_t size, ptrdiff_t n, bool is_bad) {
  snprintf(about, sizeof about, "scatterFold of dtype %d by %d, %td into %td", dtype, by, n, size);
  const ptrdiff_t offset = below(MARGIN), from = below(MARGIN), at = below(MARGIN);
  const int reduce = (int)below(4);
  const bool resets = below(2);
  buffer out = make(dtype, offset + size, SMALL), x = make(dtype, from + n, SMALL);
  buffer indices = make(by, at + n, ANY_BITS);
  for (ptrdiff_t i = 0; i < n; i++) {
    const bool back = by <= RM_INT64 && by >= RM_INT8 && below(2);
    const ptrdiff_t most = size > 100 ? 100 : size;
    put(by, indices.data, at + i, back ? -1 - below(most) : below(most));
  }
  const ptrdiff_t bad = below(n);
  if (is_bad) put(by, indices.data, at + bad, size > 120 ? size : 120);
  memcpy(indices.before, indices.data, indices.bytes);
  const double own[] = {(double)offset, (double)size, (double)from, (double)at,
                        (double)n,      reduce,       resets};
  attributes numbers;
  if (!is_served(run_four("scatterFold", pack(dtype, dtype, by, RM_NONE), own, 7, &numbers, out.data,
                          x.data, indices.data, NULL))) {
    fail("it was not served");
  }
  check_unchanged(&x);
  check_unchanged(&indices);
  const double first = numbers.at[RM_ATTRIBUTES];
  if (is_bad) {
    if (first != (double)bad) fail("another index is bad");
    check_unchanged(&out);
  } else if (first != -1) fail("an index is bad");
  /* Sums and extremes of small integers are exact. */
  for (ptrdiff_t k = 0; k < size && !is_bad && reduce != 1 && !is_half(dtype); k++) {
    bool any_value = !resets;
    double sum = get(dtype, out.before, offset + k);
    for (ptrdiff_t i = 0; i < n; i++) {
      const double place = get(by, indices.data, at + i);
      if ((place < 0 ? place + (double)size : place) != (double)k) continue;
      const double v = get(dtype, x.data, from + i);
      if (!any_value) sum = v;
      else if (reduce == 0) sum = wrap_integer(dtype, (int64_t)(sum + v));
      else if (reduce == 2 ? v > sum : v < sum) sum = v;
      any_value = true;
    }
    if (get(dtype, out.data, offset + k) != sum) fail("an element is another one");
  }
  compared++;
  drop(&out);
  drop(&x);
  drop(&indices);
}

static void try_sets(ptrdiff_t n, int threads) {
  static const int sought[] = {RM_INT32, RM_INT64, RM_UINT64, RM_FLOAT32, RM_FLOAT64};
  static const int weights[] = {RM_NONE, RM_INT64, RM_FLOAT32, RM_FLOAT64};
  for (int dtype = RM_BOOL; dtype < RM_DTYPE_COUNT; dtype++) {
    if (threads > 1 && below(4) > 0) continue;
    if (n < 2000) run_unique(dtype, n);
    if (is_half(dtype)) continue;
    run_among(dtype, n, 1 + below(40), below(2) ? SMALL : ANY_BITS, threads);
    const enum content content = below(3) ? SMALL : ANY_BITS;
    const ptrdiff_t many = below(4) == 0 && n < 2000 ? 3000 : 1 + below(20);
    if (dtype < RM_FLOAT16) run_bins(0, dtype, weights[below(4)], n, many, 1, content, threads);
    run_bins(1 + (int)below(3), dtype, weights[below(4)], n, 1 + below(20), 0.5, content, threads);
    run_bins(1 + (int)below(3), dtype, weights[below(4)], n, many, 1e-310, content, threads);
    run_bins(1 + (int)below(3), dtype, weights[below(4)], n, many, 0, content, threads);
  }
  for (int i = 0; i < 5; i++) run_search(sought[i], n, 1 + below(70), threads);
  for (int dtype = RM_INT8; dtype < RM_DTYPE_COUNT; dtype++) {
    if (threads > 1) break;
    const int by = RM_INT8 + (int)below(RM_FLOAT16 - RM_INT8);
    run_fold(dtype, by, 1 + below(60), n, below(4) == 0);
  }
}

/* ---- deviates -------------------------------------------------------------------------------- */

static void run_deviates(int kind, int dtype, ptrdiff_t n, int threads) {
  snprintf(about, sizeof about, "deviates %d of dtype %d, %td elements", kind, dtype, n);
  const ptrdiff_t key_at = below(MARGIN), b_at = below(MARGIN), c_at = below(MARGIN);
  const bool many_b = below(2), many_c = below(2), is_bad = below(6) == 0 && kind != RM_DEVIATE_TRUNCATED_NORMAL;
  const ptrdiff_t b_count = many_b ? n : 1, c_count = many_c ? n : 1;
  buffer key = make(RM_UINT32, key_at + 2, ANY_BITS), out = make(dtype, n, ANY_BITS);
  buffer b = make(RM_FLOAT64, b_at + b_count, SMALL), c = make(RM_FLOAT64, c_at + c_count, SMALL);
  for (ptrdiff_t i = 0; i < b_count; i++) {
    const double some[] = {0.01 + 0.1 * (double)below(100), 0.5, (double)below(90), (double)below(200),
                           0.01 * (double)below(50)};
    ((double *)b.data)[b_at + i] = some[kind];
  }
  for (ptrdiff_t i = 0; i < c_count; i++) ((double *)c.data)[c_at + i] = 0.01 * (double)(1 + below(50));
  const ptrdiff_t bad = below(b_count);
  if (is_bad) ((double *)b.data)[b_at + bad] = below(2) ? -1 : (double)NAN;
  memcpy(b.before, b.data, b.bytes);
  memcpy(c.before, c.data, c.bytes);
  const double own[] = {kind, (double)n, many_b, many_c, (double)key_at, (double)b_at, (double)c_at};
  attributes numbers;
  const int32_t dtypes = pack(dtype, RM_UINT32, RM_FLOAT64, RM_FLOAT64);
  SAME_WITH_ONE_THREAD(threads, &out,
                       run_four("deviates", dtypes, own, 7, &numbers, out.data, key.data, b.data, c.data));
  check_unchanged(&key);
  check_unchanged(&b);
  check_unchanged(&c);
  if (is_bad) {
    if (numbers.at[RM_ATTRIBUTES] != (double)bad) fail("another parameter is bad");
    check_unchanged(&out);
  } else {
    if (numbers.at[RM_ATTRIBUTES] != -1) fail("a parameter is bad");
    for (ptrdiff_t i = 0; i < n; i++) {
      const double x = get(dtype, out.data, i), most = ((double *)b.data)[b_at + (many_b ? i : 0)];
      if (kind <= RM_DEVIATE_BINOMIAL && !(x >= 0)) fail("a number is negative");
      if (kind == RM_DEVIATE_BINOMIAL && x > most) fail("more successes than trials");
      if (kind == RM_DEVIATE_BETA && x > 1) fail("a number is above 1");
    }
  }
  compared++;
  drop(&key);
  drop(&out);
  drop(&b);
  drop(&c);
}

/* A parameter that another thread makes invalid during each call. */
typedef struct {
  _Atomic(double) *at;
  _Atomic int begun, ended;
} changing;

enum { CHANGING_CALLS = 60 };

static void *change_parameter(void *context) {
  changing *c = context;
  const double invalid[] = {(double)NAN, -5, (double)INFINITY, (double)-INFINITY, 1e300, -1e300};
  enum { COUNT = sizeof invalid / sizeof *invalid };
  for (int call = 1; call <= CHANGING_CALLS; call++) {
    while (atomic_load(&c->begun) < call) sched_yield();
    for (volatile int wait = 0; wait < call * 1500; wait++) continue;
    atomic_store(c->at, invalid[call % COUNT]);
    atomic_store(&c->ended, call);
  }
  return NULL;
}

/* Calls end with any parameters, also with those that become invalid after they were checked. */
static void try_changing_parameters(ptrdiff_t seed) {
  static const double valid[] = {2, 2, 50, 100, 0.2};
  static const int dtypes[] = {RM_FLOAT32, RM_FLOAT64, RM_INT32, RM_INT64, RM_FLOAT64};
  enum { COUNT = 3000, SECONDS = 120 };
  for (int kind = 0; kind <= RM_DEVIATE_TRUNCATED_NORMAL; kind++) {
    snprintf(about, sizeof about, "deviates %d of parameters that change", kind);
    buffer key = make(RM_UINT32, 2, ANY_BITS), out = make(dtypes[kind], COUNT, ANY_BITS);
    buffer b = make(RM_FLOAT64, COUNT, SMALL), c = make(RM_FLOAT64, COUNT, SMALL);
    for (int i = 0; i < COUNT; i++) {
      ((double *)b.data)[i] = valid[kind];
      ((double *)c.data)[i] = 0.4;
    }
    const bool is_second = seed % 2 && (kind == RM_DEVIATE_BETA || kind == RM_DEVIATE_BINOMIAL);
    changing those = {(_Atomic(double) *)(is_second ? &c : &b)->data + COUNT - 1, 0, 0};
    const double first = *those.at;
    pthread_t thread;
    if (pthread_create(&thread, NULL, change_parameter, &those) != 0) fail("no thread");
    /* Ends the program if a call does not end. */
    alarm(SECONDS);
    for (int call = 1; call <= CHANGING_CALLS; call++) {
      const double own[] = {kind, COUNT, 1, 1, 0, 0, 0};
      attributes numbers;
      atomic_store(those.at, first);
      atomic_store(&those.begun, call);
      run_four("deviates", pack(dtypes[kind], RM_UINT32, RM_FLOAT64, RM_FLOAT64), own, 7, &numbers,
               out.data, key.data, b.data, c.data);
      while (atomic_load(&those.ended) < call) sched_yield();
    }
    alarm(0);
    pthread_join(thread, NULL);
    drop(&key);
    drop(&out);
    drop(&b);
    drop(&c);
  }
}

/* Numbers of trials that become huge after they were checked, as another thread could make them: the
 * results of the first block of elements are stored where the trials of the second one are. Their
 * counts are those of a Poisson distribution. */
static void run_huge_trials(void) {
  snprintf(about, sizeof about, "binomial counts of huge numbers of trials");
  /* Pairs of results are one number of trials each. */
  enum { BLOCK = 256, PAIRS = BLOCK / 2, COUNT = 2 * BLOCK };
  const double mean = 5;
  buffer key = make(RM_UINT32, 2, SMALL);
  buffer b = make(RM_FLOAT64, COUNT, SMALL), c = make(RM_FLOAT64, COUNT, SMALL);
  double *trials = (double *)b.data, *p = (double *)c.data;
  /* Two float32 of about 0.9 * 2^31 are a float64 of about 1.4 * 2^239. */
  for (int i = 0; i < COUNT; i++) {
    trials[i] = i < BLOCK ? 0x1p31 - 1 : 1;
    p[i] = i < BLOCK ? 0.9 : mean / 1.4 * 0x1p-239;
  }
  const double own[] = {RM_DEVIATE_BINOMIAL, COUNT, 1, 1, 0, 0, 0};
  attributes numbers;
  const float *out = (const float *)(trials + BLOCK);
  if (!is_served(run_four("deviates", pack(RM_FLOAT32, RM_UINT32, RM_FLOAT64, RM_FLOAT64), own, 7,
                          &numbers, trials + BLOCK, key.data, trials, p))) {
    fail("it was not served");
  }
  double sum = 0;
  for (int i = BLOCK; i < BLOCK + PAIRS; i++) {
    if (!(trials[i] > 0x1p200)) fail("the trials are not huge");
    const double x = (double)out[i];
    if (!(x >= 0 && x <= 200)) fail("a count is not in the range of a search");
    sum += x;
  }
  if (!(sum > mean / 2 * PAIRS && sum < mean * 2 * PAIRS)) fail("the counts have another mean");
  compared++;
  drop(&key);
  drop(&b);
  drop(&c);
}

static void run_categorical(ptrdiff_t draws, ptrdiff_t rows, ptrdiff_t n) {
  snprintf(about, sizeof about, "categorical, %td draws of %td rows of %td", draws, rows, n);
  const ptrdiff_t key_at = below(MARGIN), at = below(MARGIN);
  const bool is_logits = below(2), is_bad = below(5) == 0;
  buffer key = make(RM_UINT32, key_at + 2, ANY_BITS), out = make(RM_INT32, draws * rows, ANY_BITS);
  buffer weights = make(RM_FLOAT64, at + rows * n, SMALL);
  double *w = (double *)weights.data + at;
  for (ptrdiff_t i = 0; i < rows * n; i++) {
    if (!is_logits) w[i] = i % n == 0 ? 1 : w[i] < 0 ? 0 : w[i];
  }
  const ptrdiff_t bad = below(rows);
  if (is_bad) w[bad * n + below(n)] = is_logits || below(2) ? (double)NAN : -1;
  memcpy(weights.before, weights.data, weights.bytes);
  const double own[] = {(double)draws, (double)rows, (double)n, is_logits, (double)key_at, (double)at};
  attributes numbers;
  if (!is_served(run_four("categorical", pack(RM_INT32, RM_UINT32, RM_FLOAT64, RM_NONE), own, 6,
                          &numbers, out.data, key.data, weights.data, NULL))) {
    fail("it was not served");
  }
  check_unchanged(&key);
  check_unchanged(&weights);
  if (numbers.at[RM_ATTRIBUTES] != (is_bad ? (double)bad : -1)) fail("another row is bad");
  if (is_bad) check_unchanged(&out);
  for (ptrdiff_t i = 0; i < draws * rows && !is_bad; i++) {
    const int32_t place = at32(&out, i);
    if (place < 0 || place >= n || (!is_logits && w[i % rows * n + place] == 0)) {
      fail("a place without a weight");
    }
  }
  compared++;
  drop(&key);
  drop(&out);
  drop(&weights);
}

static void try_deviates(ptrdiff_t n, int threads) {
  static const int dtypes[] = {RM_FLOAT32, RM_FLOAT64, RM_INT32, RM_INT64};
  for (int kind = 0; kind <= RM_DEVIATE_TRUNCATED_NORMAL; kind++) {
    const bool counts = kind == RM_DEVIATE_POISSON || kind == RM_DEVIATE_BINOMIAL;
    for (int i = 0; i < (counts ? 4 : 2); i++) run_deviates(kind, dtypes[i], n, threads);
  }
  run_categorical(1 + below(4), 1 + below(3), 1 + below(n));
}
