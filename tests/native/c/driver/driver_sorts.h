/*
 * Part of driver.c: sorts, partitions, quantiles and modes.
 */

/* ---- sorts ----------------------------------------------------------------------------------- */

/* Whether element i may precede element j, in any dtype: by value, NaN last. */
static bool in_order(int dtype, const void *base, ptrdiff_t i, ptrdiff_t j, bool down,
                     bool *equal) {
  uint64_t key[2];
  for (int side = 0; side < 2; side++) {
    const ptrdiff_t at = side == 0 ? i : j, bytes = rm_itemsize(dtype);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)base + at * bytes, (size_t)bytes);
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "elements are read as if the lowest byte came first"
#endif
    const uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
    static const uint64_t infinity[] = {0x7c00, 0x7f80, 0x7f800000, 0x7ff0000000000000};
    if (dtype >= RM_FLOAT16) {
      const uint64_t magnitude = bits & (sign - 1);
      if (magnitude > infinity[dtype - RM_FLOAT16]) {
        key[side] = UINT64_MAX;
        continue;
      }
      bits = magnitude == 0 ? sign : bits & sign ? sign - magnitude : sign + magnitude;
    } else if (dtype >= RM_INT8 && dtype <= RM_INT64) {
      bits ^= sign;
    }
    key[side] = down ? UINT64_MAX - 1 - bits : bits;
  }
  *equal = key[0] == key[1];
  return key[0] <= key[1];
}

static void run_sort(int dtype, ptrdiff_t count, ptrdiff_t n, bool down, enum content content,
                     int threads) {
  snprintf(about, sizeof about, "sort of dtype %d, %td runs of %td, flags %d", dtype, count, n,
           down);
  const ptrdiff_t offset = below(MARGIN), bytes = rm_itemsize(dtype);
  buffer values = make(dtype, offset + count * n, content);
  buffer indices = make(RM_INT32, count * n, ANY_BITS);
  const double plan[] = {(double)offset, (double)count, (double)n, down};
  attributes numbers = with_attributes(4, plan);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  if (!is_served(rm_run(kernel("argsort"), pack(RM_INT32, dtype, RM_NONE, RM_NONE), RM_INT32,
                        numbers.at, indices.data, values.data, NULL, NULL))) {
    fail("it was not served");
  }
  check_unchanged(&values);
  const int32_t *order = (const int32_t *)indices.data;
  const unsigned char *first = values.data + offset * bytes;
  for (ptrdiff_t r = 0; r < count; r++) {
    unsigned char *seen = calloc((size_t)n, 1);
    if (seen == NULL) fail("no memory");
    for (ptrdiff_t i = 0; i < n; i++) {
      const int32_t at = order[r * n + i];
      if (at < 0 || at >= n || seen[at]++) fail("the order is no permutation");
      bool equal;
      if (i == 0) continue;
      const int32_t last = order[r * n + i - 1];
      if (!in_order(dtype, first + r * n * bytes, last, at, down, &equal) ||
          (equal && last > at)) {
        fail("the order is wrong");
      }
    }
    free(seen);
  }
  /* Sorted values have the same order as the argsort, except for the signs of zeros and the bits of
   * NaN. */
  if (!is_served(rm_run(kernel("sort"), pack(dtype, RM_NONE, RM_NONE, RM_NONE), dtype, numbers.at,
                        values.data, NULL, NULL, NULL))) {
    fail("it was not served");
  }
  const unsigned char *was = values.before + offset * bytes;
  for (ptrdiff_t i = 0; i < count * n; i++) {
    unsigned char pair[16];
    memcpy(pair, first + i * bytes, (size_t)bytes);
    memcpy(pair + bytes, was + (i / n * n + order[i]) * bytes, (size_t)bytes);
    bool equal;
    in_order(dtype, pair, 0, 1, down, &equal);
    if (!equal) fail("the sorted values are others");
  }
  if (memcmp(values.data, values.before, (size_t)(offset * bytes)) != 0) {
    fail("something before the values was written");
  }
  compared++;
  drop(&values);
  drop(&indices);
}

/* Of two elements of a run, whether topk takes the first before the second one. */
static bool is_taken_before(int dtype, const void *run, ptrdiff_t i, ptrdiff_t j, bool largest) {
  bool equal;
  const bool right = largest ? in_order(dtype, run, j, i, false, &equal)
                             : in_order(dtype, run, i, j, false, &equal);
  return equal ? i < j : right;
}

/* Each element that is taken is followed in order by the next one, and no other comes before the
 * last one. */
static void run_topk(int dtype, ptrdiff_t count, ptrdiff_t n, ptrdiff_t k, bool largest,
                     bool sorted, enum content content, int threads) {
  snprintf(about, sizeof about, "topk %td of dtype %d, %td runs of %td, flags %d %d", k, dtype,
           count, n, largest, sorted);
  const ptrdiff_t offset = below(MARGIN), bytes = rm_itemsize(dtype);
  buffer values = make(dtype, offset + count * n, content);
  buffer best = make(dtype, count * k, ANY_BITS), indices = make(RM_INT32, count * k, ANY_BITS);
  const double plan[] = {(double)offset, (double)count, (double)n, (double)k, largest, sorted};
  attributes numbers = with_attributes(6, plan);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  if (!is_served(rm_run(kernel("topk"), pack(dtype, dtype, RM_INT32, RM_NONE), dtype, numbers.at,
                        best.data, values.data, indices.data, NULL))) {
    fail("it was not served");
  }
  check_unchanged(&values);
  const int32_t *order = (const int32_t *)indices.data;
  for (ptrdiff_t r = 0; r < count; r++, order += k) {
    const unsigned char *run = values.data + (offset + r * n) * bytes;
    unsigned char *seen = calloc((size_t)n, 1);
    if (seen == NULL) fail("no memory");
    int32_t worst = order[0];
    for (ptrdiff_t i = 0; i < k; i++) {
      const int32_t at = order[i];
      if (at < 0 || at >= n || seen[at]++) fail("an index is none, or there twice");
      if (memcmp(best.data + (r * k + i) * bytes, run + at * bytes, (size_t)bytes) != 0) {
        fail("a value is not the element at its index");
      }
      if (i == 0) continue;
      const int32_t last = order[i - 1];
      if (!(sorted ? is_taken_before(dtype, run, last, at, largest) : last < at)) {
        fail("the order is wrong");
      }
      if (is_taken_before(dtype, run, worst, at, largest)) worst = at;
    }
    for (ptrdiff_t i = 0; i < n; i++) {
      if (!seen[i] && is_taken_before(dtype, run, i, worst, largest)) {
        fail("a better element was not taken");
      }
    }
    free(seen);
  }
  compared++;
  drop(&values);
  drop(&best);
  drop(&indices);
}

static void try_topk(ptrdiff_t count, ptrdiff_t n, int threads) {
  for (int dtype = RM_BOOL; dtype < RM_DTYPE_COUNT; dtype++) {
    const ptrdiff_t k = 1 + below(n < 100 ? n : 100);
    run_topk(dtype, count, n, k, below(2), below(2), below(2) ? SMALL : ANY_BITS, threads);
  }
}

static void try_sort(ptrdiff_t count, ptrdiff_t n, int threads) {
  for (int dtype = RM_BOOL; dtype < RM_DTYPE_COUNT; dtype++) {
    run_sort(dtype, count, n, below(2), below(2) ? SMALL : ANY_BITS, threads);
  }
}

/* ---- partitions, quantiles, modes ------------------------------------------------------------ */

/* Whether an element is less than another one, equal to it or greater: 0 to 2. */
static int relation(int dtype, const void *run, ptrdiff_t i, ptrdiff_t j) {
  bool equal;
  const bool before = in_order(dtype, run, i, j, false, &equal);
  return equal ? 1 : before ? 0 : 2;
}

/* Elements before one of rank k are not greater, those after it not less, and each class between two
 * ranks keeps its order. */
static void check_partition(int dtype, const void *run, const int32_t *order, ptrdiff_t n,
                            const ptrdiff_t *ranks, int count) {
  unsigned char *seen = calloc((size_t)n, 1);
  if (seen == NULL) fail("no memory");
  int last = 0;
  for (ptrdiff_t i = 0; i < n; i++) {
    if (order[i] < 0 || order[i] >= n || seen[order[i]]++) fail("the order is no permutation");
    int class = 0;
    for (int r = 0; r < count; r++) class += relation(dtype, run, order[i], order[ranks[r]]);
    for (int r = 0; r < count; r++) {
      const int found = relation(dtype, run, order[i], order[ranks[r]]);
      if (i < ranks[r] ? found == 2 : i > ranks[r] && found == 0) fail("the partition is wrong");
    }
    if (i > 0 && (class < last || (class == last && order[i] < order[i - 1]))) {
      fail("the order within a class is wrong");
    }
    last = class;
  }
  free(seen);
}

static void check_mode(int dtype, const void *run, ptrdiff_t n, const void *mode, int32_t count) {
  const ptrdiff_t bytes = rm_itemsize(dtype);
  int32_t most = 0;
  bool found = false;
  for (ptrdiff_t i = 0; i < n; i++) {
    int32_t same = 0;
    for (ptrdiff_t j = 0; j < n; j++) same += relation(dtype, run, i, j) == 1;
    if (same > most) most = same;
    found |= same == count && memcmp((const char *)run + i * bytes, mode, (size_t)bytes) == 0;
  }
  if (!found || count != most) fail("the mode is another one");
}

static void run_selection(int dtype, ptrdiff_t count, ptrdiff_t n, enum content content,
                          int threads) {
  snprintf(about, sizeof about, "selection of dtype %d, %td runs of %td", dtype, count, n);
  const ptrdiff_t offset = below(MARGIN), bytes = rm_itemsize(dtype);
  buffer values = make(dtype, offset + count * n, content);
  buffer indices = make(RM_INT32, count * n, ANY_BITS), parts = make(dtype, count * n, ANY_BITS);
  buffer nearest = make(RM_FLOAT64, count, ANY_BITS), modes = make(dtype, count, ANY_BITS);
  buffer counts = make(RM_INT32, count, ANY_BITS);
  ptrdiff_t ranks[2] = {below(n), below(n)};
  if (ranks[0] > ranks[1]) ranks[0] = ranks[1];
  const int several = ranks[0] < ranks[1] ? 2 : 1;
  double numbers[] = {(double)offset,   (double)count,    (double)n, several,
                      (double)ranks[0], (double)ranks[1]};
  rm_configure(RM_CONFIGURE_THREADS, threads);
  bool served = is_served(rm_run(kernel("argpartition"), pack(RM_INT32, dtype, RM_NONE, RM_NONE),
                                 RM_INT32, numbers, indices.data, values.data, NULL, NULL));
  served &= is_served(rm_run(kernel("partition"), pack(dtype, dtype, RM_NONE, RM_NONE), dtype,
                             numbers, parts.data, values.data, NULL, NULL));
  /* The nearest element, method 5, at the place of the first rank. */
  const double q = n > 1 ? (double)ranks[0] / (double)(n - 1) : 0;
  double quantiles[] = {(double)offset, (double)count, (double)n, 5, 0, 1, q};
  served &= is_served(rm_run(kernel("quantilesOfRows"),
                             pack(RM_FLOAT64, dtype, RM_NONE, RM_NONE), RM_FLOAT64, quantiles,
                             nearest.data, values.data, NULL, NULL));
  served &= is_served(rm_run(kernel("modesOfRows"), pack(dtype, dtype, RM_INT32, RM_NONE), dtype,
                             numbers, modes.data, values.data, counts.data, NULL));
  if (!served) fail("it was not served");
  check_unchanged(&values);
  for (ptrdiff_t r = 0; r < count; r++) {
    const unsigned char *run = values.data + (offset + r * n) * bytes;
    const int32_t *order = (const int32_t *)indices.data + r * n;
    check_partition(dtype, run, order, n, ranks, several);
    bool has_nan = false;
    for (ptrdiff_t i = 0; i < n; i++) {
      has_nan |= isnan(get(dtype, run, i));
      if (memcmp(parts.data + (r * n + i) * bytes, run + order[i] * bytes, (size_t)bytes) != 0) {
        fail("a value is not the element at its index");
      }
    }
    const double found = get(RM_FLOAT64, nearest.data, r);
    /* 16-bit floats are not read here. */
    const bool reads = dtype != RM_FLOAT16 && dtype != RM_BFLOAT16;
    if (reads && (has_nan ? !isnan(found) : found != get(dtype, run, order[ranks[0]]))) {
      fail("the quantile is another one");
    }
    if (n <= 100) {
      check_mode(dtype, run, n, modes.data + r * bytes, ((const int32_t *)counts.data)[r]);
    }
  }
  compared++;
  drop(&values);
  drop(&indices);
  drop(&parts);
  drop(&nearest);
  drop(&modes);
  drop(&counts);
}

static void try_selection(ptrdiff_t count, ptrdiff_t n, int threads) {
  for (int dtype = RM_BOOL; dtype < RM_DTYPE_COUNT; dtype++) {
    run_selection(dtype, count, n, below(2) ? SMALL : ANY_BITS, threads);
  }
}
