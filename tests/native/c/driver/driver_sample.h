/*
 * Part of driver.c: tokens of rows of logits, beside a definition that sorts.
 */

enum { SAMPLE_NUMBERS = 6 };

static const float *ordered_logits;

static int compare_logits(const void *a, const void *b) {
  const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
  const float x = ordered_logits[i], y = ordered_logits[j];
  return x > y ? -1 : x < y ? 1 : i < j ? -1 : 1;
}

/* A weight as src/backend/js/sampling.ts defines it. */
static double weight_of_logit(float x, float best, double inverse, int bits) {
#pragma STDC FP_CONTRACT OFF
  const double exponent = ((double)x - (double)best) * (inverse * 0x1.71547652b82fep+0);
  if (!(exponent > -44)) return 0;
  const double n = rint(exponent), r = exponent - n;
  double q = 1.5352154e-4 * r + 1.339909e-3;
  q = q * r + 9.618443e-3;
  q = q * r + 5.5503324e-2;
  q = q * r + 2.4022648e-1;
  q = q * r + 6.931472e-1;
  return rint(ldexp(q * r + 1, (int)n + bits));
}

/* The token of logits by the numbers of its row. */
static int32_t token_of(const float *x, ptrdiff_t n, const double *numbers) {
  const double inverse = numbers[0], top_k = numbers[1], top_p = numbers[2], part = numbers[4];
  int32_t *order = malloc((size_t)n * sizeof *order), best = -1, count = 0;
  double *weights = calloc((size_t)n, sizeof *weights);
  if (order == NULL || weights == NULL) fail("no memory");
  int bits = 52;
  for (ptrdiff_t size = 1; size < n; size *= 2) bits--;
  if (bits > 40) bits = 40;
  for (int32_t i = 0; i < n; i++) {
    if (!(x[i] > -INFINITY)) continue;
    order[count++] = i;
    if (best < 0 || x[i] > x[best]) best = i;
  }
  if (best >= 0 && inverse != 0 && x[best] < INFINITY) {
    ordered_logits = x;
    qsort(order, (size_t)count, sizeof *order, compare_logits);
    if (top_k > 0 && top_k < count) count = (int32_t)top_k;
    double all = 0, sum = 0, total = 0;
    for (int32_t k = 0; k < count; k++) all += weight_of_logit(x[order[k]], x[best], inverse, bits);
    for (int32_t k = 0; k < count; k++) {
      const double weight = weight_of_logit(x[order[k]], x[best], inverse, bits);
      weights[order[k]] = weight >= ldexp(numbers[3], bits) ? weight : 0;
      total += weights[order[k]];
      sum += weight;
      if (top_p < 1 && sum >= top_p * all) break;
    }
    sum = 0;
    for (int32_t i = 0; i < n; i++) {
      if (weights[i] == 0) continue;
      best = i;
      sum += weights[i];
      if (sum > part * total) break;
    }
  }
  free(order);
  free(weights);
  return best;
}

static void run_sample(ptrdiff_t rows, ptrdiff_t n, bool wide, int threads) {
  const ptrdiff_t room = 1 + below(20), words = (n + 31) / 32;
  const ptrdiff_t at = below(MARGIN), from = below(MARGIN), offset = below(MARGIN);
  buffer x = make(RM_FLOAT32, at + rows * n, wide ? ANY_BITS : SMALL);
  buffer numbers = make(RM_FLOAT64, from + rows * SAMPLE_NUMBERS, SMALL);
  buffer ids = make(RM_INT32, offset + rows * room, ANY_BITS);
  buffer changes = make(RM_FLOAT64, 3 * (offset + rows * room), SMALL);
  buffer mask = make(RM_INT32, offset + rows * words, ANY_BITS);
  buffer out = make(RM_INT32, rows, ANY_BITS);
  const bool masked = below(2);
  snprintf(about, sizeof about, "tokens of %td rows of %td, %s", rows, n, masked ? "masked" : "all");
  static const double inverses[] = {0, 1, 0.3, 100}, top_ps[] = {1, 0.5, 0.95, 1e-3};
  static const double top_ks[] = {0, 1, 5, 300}, min_ps[] = {0, 0, 0.2, 1};
  float *own = (float *)x.data + at, *expected = malloc((size_t)n * sizeof *expected);
  if (expected == NULL) fail("no memory");
  for (ptrdiff_t i = 0; i < rows * n && !wide; i++) own[i] += (float)below(1000) * 1e-3f;
  for (ptrdiff_t row = 0; row < rows; row++) {
    const double part = (double)any() / 4294967296.0;
    const double made[] = {inverses[below(4)], top_ks[below(4)], top_ps[below(4)],
                           min_ps[below(4)],   part,             below(3) ? 0 : (double)below(30)};
    memcpy((double *)numbers.data + from + row * SAMPLE_NUMBERS, made, sizeof made);
    for (ptrdiff_t k = 0; k < room; k++) {
      /* Some ids are out of range, some occur twice. */
      if (below(4)) ((int32_t *)ids.data)[offset + row * room + k] = (int32_t)below(n);
      ((double *)changes.data)[3 * (offset + row * room + k) + 1] = 1.5;
    }
  }
  memcpy(x.before, x.data, x.bytes);
  memcpy(numbers.before, numbers.data, numbers.bytes);
  memcpy(ids.before, ids.data, ids.bytes);
  memcpy(changes.before, changes.data, changes.bytes);
  const double places[] = {(double)rows,   (double)n,          (double)room,  (double)at,
                           (double)from,   (double)offset,     (double)(3 * offset), (double)offset};
  attributes plan = with_attributes(8, places);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  const int32_t more = pack(RM_FLOAT64, masked ? RM_INT32 : RM_NONE, RM_NONE, RM_NONE);
  if (!is_served(rm_run_many(kernel("sampleRows"),
                             pack(RM_INT32, RM_FLOAT32, RM_FLOAT64, RM_INT32), more, RM_NONE,
                             RM_FLOAT32, plan.at, out.data, x.data, numbers.data, ids.data,
                             changes.data, masked ? mask.data : NULL, NULL, NULL, NULL))) {
    fail("it was not served");
  }
  for (ptrdiff_t row = 0; row < rows; row++) {
    const double *row_numbers = (double *)numbers.data + from + row * SAMPLE_NUMBERS;
    memcpy(expected, own + row * n, (size_t)n * sizeof *expected);
    for (ptrdiff_t i = 0; i < n && masked; i++) {
      const uint32_t word = ((uint32_t *)mask.data)[offset + row * words + i / 32];
      if ((word >> i % 32 & 1) == 0) expected[i] = -INFINITY;
    }
    for (ptrdiff_t k = 0; k < room && k < row_numbers[5]; k++) {
      const int32_t id = at32(&ids, offset + row * room + k);
      const double *change = (double *)changes.data + 3 * (offset + row * room + k);
      if (id < 0 || id >= n) continue;
      const double biased = (double)expected[id] + change[0];
      expected[id] = (float)((biased > 0 ? biased / change[1] : biased * change[1]) - change[2]);
    }
    compared++;
    if (at32(&out, row) != token_of(expected, n, row_numbers)) fail("another token");
  }
  check_unchanged(&x);
  check_unchanged(&numbers);
  check_unchanged(&ids);
  check_unchanged(&changes);
  check_unchanged(&mask);
  free(expected);
  drop(&x);
  drop(&numbers);
  drop(&ids);
  drop(&changes);
  drop(&mask);
  drop(&out);
}

static void try_sample(ptrdiff_t n, int threads) {
  for (int trial = 0; trial < 4; trial++) run_sample(1 + below(5), n, trial == 3, threads);
}
