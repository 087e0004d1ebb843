/*
 * Part of driver.c: Fourier transforms and convolutions, beside sums, and maps of complex numbers.
 */

static void put_number(int dtype, void *base, ptrdiff_t i, double value) {
  if (dtype == RM_FLOAT32) ((float *)base)[i] = (float)value;
  else ((double *)base)[i] = value;
}

/* Runs a call with 1 thread after one with several; its bits are the same. */
#define SAME_WITH_ONE_THREAD(threads, out, run) \
  do { \
    rm_configure(RM_CONFIGURE_THREADS, threads); \
    if (!is_served(run)) fail("it was not served"); \
    if ((threads) > 1) { \
      unsigned char *first = malloc((out)->bytes); \
      if (first == NULL) fail("no memory"); \
      memcpy(first, (out)->data, (out)->bytes); \
      memcpy((out)->data, (out)->before, (out)->bytes); \
      rm_configure(RM_CONFIGURE_THREADS, 1); \
      if (!is_served(run)) fail("it was not served by one thread"); \
      if (memcmp(first, (out)->data, (out)->bytes) != 0) fail("the number of threads shows"); \
      free(first); \
    } \
  } while (0)

/* ---- Fourier transforms ---------------------------------------------------------------------- */

enum { TO_COMPLEX, FROM_REAL, TO_REAL };

typedef struct {
  int kind, dtype;
  bool inverse;
  ptrdiff_t outer, n, inner, given_length;
  double scale;
} fft_case;

/* Element k of a line of the result, as a sum. */
static void sum_line(const fft_case *c, const buffer *a, ptrdiff_t at, ptrdiff_t k, double *re,
                     double *im) {
  const ptrdiff_t most = c->kind == TO_REAL ? c->n / 2 + 1 : c->n;
  const ptrdiff_t count = c->given_length < most ? c->given_length : most;
  const double sign = c->inverse ? 1 : -1;
  *re = *im = 0;
  for (ptrdiff_t j = 0; j < count; j++) {
    const ptrdiff_t from = at + j * c->inner;
    const double x = get(c->dtype, a->data, c->kind == FROM_REAL ? from : 2 * from);
    double y = c->kind == FROM_REAL ? 0 : get(c->dtype, a->data, 2 * from + 1);
    /* Beside its conjugate, an element counts twice. */
    const bool is_own = j == 0 || 2 * j == c->n;
    const double times = c->kind == TO_REAL && !is_own ? 2 : 1;
    if (c->kind == TO_REAL && is_own) y = 0;
    const double angle = sign * 2 * 3.14159265358979323846 * (double)(j * k % c->n) / (double)c->n;
    *re += times * (x * cos(angle) - y * sin(angle));
    *im += times * (x * sin(angle) + y * cos(angle));
  }
  *re *= c->scale;
  *im *= c->kind == TO_REAL ? 0 : c->scale;
}

static void run_fft(fft_case c, int threads) {
  snprintf(about, sizeof about, "fft of kind %d, dtype %d, [%td, %td of %td, %td]", c.kind, c.dtype,
           c.outer, c.given_length, c.n, c.inner);
  const ptrdiff_t made = c.kind == FROM_REAL ? c.n / 2 + 1 : c.n, offset = below(MARGIN);
  const int in_parts = c.kind == FROM_REAL ? 1 : 2, out_parts = c.kind == TO_REAL ? 1 : 2;
  buffer a = make(c.dtype, (offset + c.outer * c.given_length * c.inner) * in_parts, SMALL);
  buffer out = make(c.dtype, c.outer * made * c.inner * out_parts, ANY_BITS);
  double numbers[] = {c.kind, c.inverse, c.scale, (double)c.outer, (double)c.n, (double)c.inner,
                      (double)c.given_length, (double)made, (double)offset, rm_itemsize(c.dtype)};
  SAME_WITH_ONE_THREAD(threads, &out,
                       rm_run(kernel("fft"), pack(c.dtype, c.dtype, RM_NONE, RM_NONE), c.dtype,
                              numbers, out.data, a.data, NULL, NULL));
  check_unchanged(&a);
  const double error = (c.dtype == RM_FLOAT32 ? 2e-5 : 1e-13) * (double)(c.n + 20) * fabs(c.scale);
  const ptrdiff_t results = c.outer * made * c.inner;
  const bool all = results * c.n < 3000;
  for (ptrdiff_t i = 0; i < (all ? results : 6); i++) {
    const ptrdiff_t at = all ? i : below(results), column = at % c.inner, line = at / c.inner / made;
    double re, im;
    sum_line(&c, &a, offset + line * c.given_length * c.inner + column, at / c.inner % made, &re, &im);
    const double x = get(c.dtype, out.data, out_parts * at);
    const double y = out_parts == 1 ? 0 : get(c.dtype, out.data, 2 * at + 1);
    if (!(fabs(x - re) <= error && fabs(y - im) <= error)) fail("an element is another one");
  }
  compared++;
  drop(&a);
  drop(&out);
}

/* A length in all kinds and dtypes: a line, several lines, columns, and fewer or more given. */
static void try_fft(ptrdiff_t n, ptrdiff_t lines, int cases, int threads) {
  for (int i = 0; i < cases; i++) {
    fft_case c = {.kind = i % 3, .dtype = i % 2 ? RM_FLOAT64 : RM_FLOAT32, .inverse = below(2)};
    c.n = n;
    c.outer = below(2) ? 1 : 1 + below(lines);
    c.inner = below(2) ? 1 : 1 + below(lines);
    c.scale = below(2) ? 1 : 0.25;
    const ptrdiff_t whole = c.kind == TO_REAL ? n / 2 + 1 : n;
    c.given_length = below(2) ? whole : 1 + below(whole + 4);
    run_fft(c, threads);
  }
}

/* ---- convolutions ---------------------------------------------------------------------------- */

static void run_convolve(int dtype, ptrdiff_t rows, ptrdiff_t n, ptrdiff_t m, int threads) {
  const ptrdiff_t start = below(n + m - 1), length = 1 + below(n + m - 1 - start);
  const ptrdiff_t offset = below(MARGIN), at = below(MARGIN);
  snprintf(about, sizeof about, "convolve of dtype %d, [%td, %td] by %td, %td from %td on", dtype,
           rows, n, m, length, start);
  buffer a = make(dtype, offset + rows * n, SMALL), v = make(dtype, at + m, SMALL);
  buffer out = make(dtype, rows * length, ANY_BITS);
  double numbers[] = {(double)rows,  (double)n,      (double)m, (double)start,
                      (double)length, (double)offset, (double)at};
  SAME_WITH_ONE_THREAD(threads, &out,
                       rm_run(kernel("convolve"), pack(dtype, dtype, dtype, RM_NONE), dtype, numbers,
                              out.data, a.data, v.data, NULL));
  check_unchanged(&a);
  check_unchanged(&v);
  for (ptrdiff_t i = 0; i < rows * length; i++) {
    if (rows * length * m > 20000 && below(rows * length) > 20) continue;
    double sum = 0;
    for (ptrdiff_t j = 0; j < m; j++) {
      const ptrdiff_t from = start + i % length - j;
      if (from < 0 || from >= n) continue;
      sum += get(dtype, a.data, offset + i / length * n + from) * get(dtype, v.data, at + j);
    }
    if (get(dtype, out.data, i) != sum) fail("a sum is another one");
  }
  compared++;
  drop(&a);
  drop(&v);
  drop(&out);
}

static void try_convolve(ptrdiff_t n, ptrdiff_t m, int threads) {
  static const int dtypes[] = {RM_FLOAT32, RM_FLOAT64, RM_INT32, RM_INT64};
  for (int i = 0; i < 4; i++) run_convolve(dtypes[i], 1 + below(4), n, m, threads);
}

/* ---- maps of complex numbers ----------------------------------------------------------------- */

static bool takes_two(int op) {
  return op <= RM_COMPLEX_DIV || op == RM_COMPLEX_POW || op == RM_COMPLEX_EQUAL ||
         op == RM_COMPLEX_NOT_EQUAL;
}

/* Checks what is exact for small integers. */
static void check_complex(int op, int dtype, const layout *p, const buffer *out, const buffer *x,
                          const buffer *y) {
  ptrdiff_t index[MAX_AXES] = {0};
  do {
    const ptrdiff_t o = place(p, 0, index), i = place(p, 1, index);
    const double a = get(dtype, x->data, i), b = get(dtype, x->data, i + 1);
    const ptrdiff_t j = p->operands == 3 ? place(p, 2, index) : 0;
    const double c = p->operands == 3 ? get(dtype, y->data, j) : 0;
    const double d = p->operands == 3 ? get(dtype, y->data, j + 1) : 0;
    double re = get(out->dtype, out->data, o), im = 0, error = 0;
    switch (op) {
      case RM_COMPLEX_MUL: re -= a * c - b * d, im = a * d + b * c; break;
      case RM_COMPLEX_CONJ: re -= a, im = -b; break;
      case RM_COMPLEX_SQUARE: re -= a * a - b * b, im = 2 * a * b; break;
      case RM_COMPLEX_ABS: re -= hypot(a, b), error = 1e-5; break;
      case RM_COMPLEX_ANGLE: re -= atan2(b, a), error = 1e-5; break;
      case RM_COMPLEX_EQUAL: re -= a == c && b == d; break;
      case RM_COMPLEX_ISFINITE: re -= 1; break;
      default: return;
    }
    if (out->dtype != RM_BOOL && op < RM_COMPLEX_ABS) im -= get(dtype, out->data, o + 1);
    if (!(fabs(re) <= error && im == 0)) fail("a complex number is another one");
  } while (next(p, p->rank, index));
  compared++;
}

static void run_complex(layout *p, int op, int dtype, enum content content, int threads) {
  snprintf(about, sizeof about, "complex map %d of dtype %d, [%td, %td] of rank %d", op, dtype,
           p->size[0], p->size[1], p->rank);
  const int to = op >= RM_COMPLEX_EQUAL ? RM_BOOL : dtype;
  const bool gives_pairs = op < RM_COMPLEX_ABS;
  for (int k = gives_pairs ? 0 : 1; k < p->operands; k++) {
    for (int i = 0; i < p->rank; i++) p->stride[k][i] *= 2;
    p->offset[k] *= 2;
    p->length[k] *= 2;
  }
  buffer b[3] = {{0}};
  for (int k = 0; k < p->operands; k++) b[k] = make(k == 0 ? to : dtype, p->length[k], content);
  double *plan = write_plan(p);
  plan[RM_ATTRIBUTES] = op;
  SAME_WITH_ONE_THREAD(threads, &b[0],
                       rm_run(kernel("complexMap"),
                              pack(to, dtype, p->operands == 3 ? dtype : RM_NONE, RM_NONE), dtype,
                              plan, b[0].data, b[1].data, b[2].data, NULL));
  for (int k = 1; k < p->operands; k++) check_unchanged(&b[k]);
  if (content == SMALL) check_complex(op, dtype, p, &b[0], &b[1], &b[2]);
  /* All but the results is as before. */
  const size_t bytes = (size_t)rm_itemsize(to) * (gives_pairs ? 2 : 1);
  ptrdiff_t index[MAX_AXES] = {0};
  do {
    const size_t at = (size_t)(place(p, 0, index) * rm_itemsize(to));
    memcpy(b[0].data + at, b[0].before + at, bytes);
  } while (next(p, p->rank, index));
  if (memcmp(b[0].data, b[0].before, b[0].bytes) != 0) fail("it has written between elements");
  for (int k = 0; k < p->operands; k++) drop(&b[k]);
}

static void try_complex(ptrdiff_t n, int threads) {
  for (int op = 0; op <= RM_COMPLEX_ISFINITE; op++) {
    for (int dtype = RM_FLOAT32; dtype <= RM_FLOAT64; dtype++) {
      layout p;
      const int rank = 1 + (int)below(2);
      shape(&p, rank, rank == 1 ? n : 1 + below(4), n, 1, takes_two(op) ? 3 : 2);
      for (int k = 0; k < p.operands; k++) {
        lay_out(&p, k, (enum kind)below(k == 0 ? OUTPUT_KINDS : KINDS), rank);
      }
      run_complex(&p, op, dtype, below(2) ? SMALL : ANY_BITS, threads);
    }
  }
}
