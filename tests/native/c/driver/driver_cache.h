/*
 * Part of driver.c: attention to a cache, rotary positions.
 */

/* ---- attention to a cache, rotary positions -------------------------------------------------- */

/* Keys (0) and values (1) of a cache, and how many of the keys count for each sequence. With pages,
 * per_table problems share a table of capacity / page_rows of them, and size is that of a head in a
 * page. */
typedef struct {
  attention_case own;
  ptrdiff_t capacity, per_length, lengths, window;
  ptrdiff_t page_rows, pages, per_table;
  ptrdiff_t row[2], size[2], page[2], columns[2];
  buffer of[2], length, table;
  bool stepwise;
} cache_case;

/* Element `column` of a row of the cache of a problem. */
static double cached_element(const cache_case *c, int k, ptrdiff_t problem, ptrdiff_t row,
                             ptrdiff_t column) {
  const buffer *of = &c->of[k];
  ptrdiff_t at = problem * c->size[k] + row * c->row[k];
  if (c->pages > 0) {
    const ptrdiff_t count = c->capacity / c->page_rows;
    const int32_t given = ((const int32_t *)c->table.data)[problem / c->per_table * count +
                                                           row / c->page_rows];
    const ptrdiff_t page = given < 0 ? 0 : given < c->pages ? given : c->pages - 1;
    at = problem % c->per_length * c->size[k] + page * c->page[k] + row % c->page_rows * c->row[k];
  }
  if (of->dtype != RM_UINT8) return get(of->dtype, of->data, at + column);
  const unsigned char *block = (const unsigned char *)of->data + at + column / 32 * 34;
  /* A float16 that is neither subnormal nor infinite. */
  const int bits = block[0] | block[1] << 8;
  const double scale = ldexp(1024 + (bits & 1023), (bits >> 10 & 31) - 25);
  return (bits & 0x8000 ? -scale : scale) * (signed char)block[2 + column % 32];
}

/* The keys of the cache that count for a problem, and the new ones that a row sees. */
static void check_cached_row(const cache_case *c, ptrdiff_t problem, ptrdiff_t group,
                             ptrdiff_t row) {
  const attention_case *own = &c->own;
  double scores[1024], total = 0, max = -INFINITY;
  const int32_t given = ((const int32_t *)c->length.data)[problem / c->per_length];
  const ptrdiff_t before = given < 0 ? 0 : given > c->capacity ? c->capacity : given;
  const ptrdiff_t n = before + row + 1;
  const ptrdiff_t first = c->window == 0 || n < c->window ? 0 : n - c->window;
  for (ptrdiff_t j = first; j < n; j++) {
    double sum = 0;
    for (ptrdiff_t i = 0; i < own->d; i++) {
      const double key = j < before ? cached_element(c, 0, problem, j, i)
                                    : head_element(own, K, problem, 0, j - before, i);
      sum += head_element(own, Q, problem, group, row, i) * key;
    }
    scores[j] = sum * own->scale;
    if (scores[j] > max) max = scores[j];
  }
  for (ptrdiff_t j = first; j < n; j++) total += exp(scores[j] - max);
  for (ptrdiff_t i = 0; i < own->dv; i++) {
    double sum = 0, largest = 1;
    for (ptrdiff_t j = first; j < n; j++) {
      const double value = j < before ? cached_element(c, 1, problem, j, i)
                                      : head_element(own, V, problem, 0, j - before, i);
      sum += exp(scores[j] - max) / total * value;
      largest = fmax(largest, fabs(value));
    }
    const double made = head_element(own, OUT, problem, group, row, i);
    if (!(fabs(made - sum) < 1e-4 * largest)) fail("a result is wrong");
  }
}

/* Makes a table of pages, some of which do not exist. */
static void make_table(cache_case *c, ptrdiff_t offset) {
  const ptrdiff_t count = c->own.problems / c->per_table * (c->capacity / c->page_rows);
  c->table = make(RM_INT32, offset + count, ANY_BITS);
  int32_t *pages = (int32_t *)c->table.data + offset;
  for (ptrdiff_t i = 0; i < count; i++) {
    const int32_t chosen[] = {-5, INT32_MIN, INT32_MAX, (int32_t)c->pages};
    pages[i] = below(8) ? (int32_t)below(c->pages) : chosen[below(4)];
  }
  memcpy(c->table.before, c->table.data, c->table.bytes);
}

/* Makes the cache and its numbers. */
static void make_cache(cache_case *c, int dtype) {
  attention_case *own = &c->own;
  double *numbers = own->numbers + ATTENTION_NUMBERS + ATTENTION_OPERANDS * own->problems;
  for (int k = 0; k < 2; k++) {
    const ptrdiff_t columns = k == 0 ? own->d : own->dv;
    const ptrdiff_t rows = c->pages > 0 ? c->pages * c->per_length * c->page_rows
                                        : own->problems * c->capacity;
    if (dtype == RM_UINT8) {
      c->row[k] = columns / 32 * 34;
      c->of[k] = make_blocks(&block_formats[4], rows * columns / 32);
    } else {
      c->row[k] = columns;
      c->of[k] = make(dtype, rows * columns, SMALL);
    }
    c->size[k] = (c->pages > 0 ? c->page_rows : c->capacity) * c->row[k];
    c->page[k] = c->per_length * c->size[k];
    for (ptrdiff_t p = 0; p < own->problems; p++) {
      const ptrdiff_t head = c->pages > 0 ? p % c->per_length : p;
      numbers[CACHE_NUMBERS + k * own->problems + p] = (double)(head * c->size[k]);
    }
  }
  /* The first ones are of another tensor. */
  const ptrdiff_t offset = below(3);
  c->length = make(RM_INT32, offset + c->lengths, ANY_BITS);
  int32_t *lengths = (int32_t *)c->length.data + offset;
  for (ptrdiff_t i = 0; i < c->lengths; i++) {
    const int32_t chosen[] = {0, -1, INT32_MIN, INT32_MAX, (int32_t)c->capacity,
                              (int32_t)c->capacity + 1};
    lengths[i] = below(2) ? chosen[below(6)] : (int32_t)below(c->capacity + 1);
  }
  memcpy(c->length.before, c->length.data, c->length.bytes);
  if (c->pages > 0) make_table(c, offset);
  memset(numbers, 0, CACHE_NUMBERS * sizeof *numbers);
  numbers[RM_CACHED_ATTENTION_AT_KEY_STRIDE] = (double)c->row[0];
  numbers[RM_CACHED_ATTENTION_AT_VALUE_STRIDE] = (double)c->row[1];
  numbers[RM_CACHED_ATTENTION_AT_CAPACITY] = (double)c->capacity;
  numbers[RM_CACHED_ATTENTION_AT_PROBLEMS_PER_LENGTH] = (double)c->per_length;
  numbers[RM_CACHED_ATTENTION_AT_LENGTH_OFFSET] = (double)offset;
  numbers[RM_CACHED_ATTENTION_AT_WINDOW] = (double)c->window;
  numbers[RM_CACHED_ATTENTION_AT_KEY_HEADS] = (double)c->per_length;
  numbers[RM_CACHED_ATTENTION_AT_STEPWISE] = c->stepwise;
  numbers[RM_CACHED_ATTENTION_AT_PAGE_ROWS] = (double)c->page_rows;
  numbers[RM_CACHED_ATTENTION_AT_PAGE_COUNT] = (double)c->pages;
  numbers[RM_CACHED_ATTENTION_AT_KEY_PAGE_STRIDE] = (double)c->page[0];
  numbers[RM_CACHED_ATTENTION_AT_VALUE_PAGE_STRIDE] = (double)c->page[1];
  numbers[RM_CACHED_ATTENTION_AT_PROBLEMS_PER_TABLE] = (double)c->per_table;
  numbers[RM_CACHED_ATTENTION_AT_TABLE_OFFSET] = (double)offset;
}

static void run_cached_attention(cache_case *c, int dtype, int cached, int threads) {
  attention_case *own = &c->own;
  snprintf(about, sizeof about,
           "cached attention of dtypes %d and %d, %td x %td heads, %td, %td, %td, %td, %td pages of %td "
           "rows, window %td, stepwise %d",
           dtype, cached, own->problems, own->groups, own->m, c->capacity, own->d, own->dv, c->pages,
           c->page_rows, c->window, c->stepwise);
  make_attention(own, dtype, RM_NONE);
  make_cache(c, cached);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  buffer *of = own->of;
  const double offset = own->numbers[ATTENTION_NUMBERS + ATTENTION_OPERANDS * own->problems +
                                     RM_CACHED_ATTENTION_AT_LENGTH_OFFSET];
  if (!is_served(rm_run_many(kernel("cachedAttention"), pack(dtype, dtype, dtype, dtype),
                             pack(cached, cached, RM_INT32, RM_NONE),
                             c->pages > 0 ? RM_INT32 : RM_NONE, dtype, own->numbers, of[OUT].data,
                             of[Q].data, of[K].data, of[V].data, c->of[0].data, c->of[1].data,
                             c->length.data, NULL, c->table.data))) {
    fail("it was not served");
  }
  for (int k = Q; k <= V; k++) check_unchanged(&of[k]);
  for (int k = 0; k < 2; k++) check_unchanged(&c->of[k]);
  check_unchanged(&c->length);
  if (c->pages > 0) check_unchanged(&c->table);
  /* 16-bit floats of the cache are random bits. */
  const bool compares = dtype == RM_FLOAT32 && !is_half(cached);
  buffer whole = c->length, all = c->table;
  c->length.data = whole.data + (size_t)offset * sizeof(int32_t);
  if (c->pages > 0) c->table.data = all.data + (size_t)offset * sizeof(int32_t);
  for (ptrdiff_t p = 0; compares && p < own->problems; p++) {
    for (ptrdiff_t row = 0; row < own->groups * own->m; row++) {
      check_cached_row(c, p, row / own->m, row % own->m);
    }
  }
  compared += compares;
  if (!keeps_margins(own)) fail("an output was written between elements");
  for (int k = OUT; k <= V; k++) drop(&of[k]);
  for (int k = 0; k < 2; k++) drop(&c->of[k]);
  drop(&whole);
  if (c->pages > 0) drop(&all);
}

static void try_cached_attention(ptrdiff_t most, ptrdiff_t most_keys, int cases) {
  static const int caches[] = {RM_FLOAT16, RM_BFLOAT16, RM_FLOAT32, RM_UINT8};
  for (int dtype = RM_FLOAT16; dtype <= RM_FLOAT32; dtype++) {
    for (int i = 0; i < cases; i++) {
      const int cached = caches[below(4)];
      const ptrdiff_t step = cached == RM_UINT8 ? 32 : 1;
      cache_case c = {.capacity = 1 + below(most_keys), .lengths = 1 + below(2)};
      c.per_length = 1 + below(2);
      const ptrdiff_t m = below(2) ? 1 + below(4) : 1 + below(most);
      c.own = (attention_case){
          .problems = c.lengths * c.per_length,
          .groups = below(2) ? 1 : 1 + below(4),
          .m = m,
          .n = m,
          .d = step * (1 + below(most / step)),
          .dv = step * (1 + below(most / step)),
          .causal = true,
      };
      c.stepwise = below(4) == 0;
      if (below(3) == 0) c.window = 1 + below(2 * c.capacity);
      if (below(2)) {
        c.page_rows = 1 + below(c.capacity < 20 ? c.capacity : 20);
        c.capacity -= c.capacity % c.page_rows;
        c.pages = 1 + below(30);
        c.per_table = below(2) ? c.per_length : c.own.problems;
      }
      c.own.scale = 0.02 * (double)below(10) / sqrt((double)c.own.d);
      /* Numbers of blocks are up to 16 times as large as others. */
      if (cached == RM_UINT8) c.own.scale /= 16;
      run_cached_attention(&c, dtype, cached, 1 + (int)below(3));
    }
  }
}

static void run_rope(ptrdiff_t matrices, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t pairs,
                     bool interleaved, int threads) {
  snprintf(about, sizeof about, "rope of %td x [%td, %td], %td pairs", matrices, rows, columns, pairs);
  /* Rows before matrices, or after them, with gaps. */
  const bool swapped = below(2);
  const ptrdiff_t gap = columns + below(3);
  const ptrdiff_t row_stride = swapped ? gap * matrices : gap;
  const ptrdiff_t outer_stride = swapped ? gap : gap * rows;
  const ptrdiff_t x0 = below(4), out0 = below(4), cos0 = below(4), sin0 = below(4);
  buffer x = make(RM_FLOAT32, x0 + (matrices * rows - 1) * gap + columns, SMALL);
  buffer cosines = make(RM_FLOAT32, cos0 + rows * pairs, SMALL);
  buffer sines = make(RM_FLOAT32, sin0 + rows * pairs, SMALL);
  buffer out = make(RM_FLOAT32, out0 + matrices * rows * columns, ANY_BITS);
  double numbers[] = {(double)matrices, (double)rows, (double)columns, (double)pairs, interleaved,
                      (double)outer_stride, (double)row_stride, (double)out0, (double)x0,
                      (double)cos0, (double)sin0};
  rm_configure(RM_CONFIGURE_THREADS, threads);
  if (!is_served(rm_run(kernel("rope"), pack(RM_FLOAT32, RM_FLOAT32, RM_FLOAT32, RM_FLOAT32),
                        RM_FLOAT32, numbers, out.data, x.data, cosines.data, sines.data))) {
    fail("it was not served");
  }
  check_unchanged(&x);
  check_unchanged(&cosines);
  check_unchanged(&sines);
  const float *from = (const float *)x.data + x0, *made = (const float *)out.data + out0;
  for (ptrdiff_t i = 0; i < matrices * rows; i++) {
    const ptrdiff_t row = i % rows, at = i / rows * outer_stride + row * row_stride;
    for (ptrdiff_t j = 0; j < columns; j++) {
      float wanted = from[at + j];
      if (j < 2 * pairs) {
        const ptrdiff_t pair = interleaved ? j / 2 : j % pairs;
        const bool second = interleaved ? j % 2 : j >= pairs;
        const ptrdiff_t other = interleaved ? j ^ 1 : second ? j - pairs : j + pairs;
        const float c = ((const float *)cosines.data)[cos0 + row * pairs + pair];
        const float s = ((const float *)sines.data)[sin0 + row * pairs + pair];
        wanted = wanted * c + (second ? 1 : -1) * from[at + other] * s;
      }
      /* Products and sums of small integers are exact. */
      if (made[i * columns + j] != wanted) fail("a column is wrong");
    }
  }
  if (memcmp(out.data, out.before, (size_t)out0 * sizeof(float)) != 0) fail("it wrote before the result");
  compared++;
  drop(&x);
  drop(&cosines);
  drop(&sines);
  drop(&out);
}

static void try_rope(ptrdiff_t most, int cases) {
  for (int i = 0; i < cases; i++) {
    const ptrdiff_t columns = 2 + below(most);
    run_rope(1 + below(5), 1 + below(most), columns, 1 + below(columns / 2), below(2),
             1 + (int)below(3));
  }
}
