/*
 * Part of driver.c: matrix products and attention.
 */

/* ---- matrix products ------------------------------------------------------------------------- */

/* Lays out a matrix per batch item. step is the distance between items, 0 for one matrix. */
static ptrdiff_t lay_out_matrix(layout *p, int k, enum kind kind, bool shared, ptrdiff_t batch,
                                double *offsets) {
  lay_out(p, k, kind, 2);
  const ptrdiff_t length = p->length[k];
  for (ptrdiff_t i = 0; i < batch; i++) {
    offsets[i] = (double)(p->offset[k] + (shared ? 0 : i * length));
  }
  return shared ? length : length * batch;
}

static void run_matmul(int dtype, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, ptrdiff_t batch,
                       int threads) {
  enum { MOST = 5 };
  snprintf(about, sizeof about, "matmul of dtype %d, [%td, %td] @ [%td, %td] x %td", dtype, m, k, k,
           n, batch);
  layout c, a, b;
  shape(&c, 2, m, n, 1, 1);
  shape(&a, 2, m, k, 1, 1);
  shape(&b, 2, k, n, 1, 1);
  double plan[10 + 3 * MOST] = {(double)m, (double)n, (double)k, (double)batch};
  double *at = plan + 10;
  buffer to = make(dtype, lay_out_matrix(&c, 0, (enum kind)below(OUTPUT_KINDS), false, batch, at),
                   ANY_BITS);
  buffer left = make(
      dtype, lay_out_matrix(&a, 0, (enum kind)below(KINDS), below(2), batch, at + batch), SMALL);
  buffer right = make(
      dtype, lay_out_matrix(&b, 0, (enum kind)below(KINDS), below(2), batch, at + 2 * batch),
      SMALL);
  const layout *const each[] = {&c, &a, &b};
  for (int i = 0; i < 3; i++) {
    plan[4 + 2 * i] = (double)each[i]->stride[0][0];
    plan[5 + 2 * i] = (double)each[i]->stride[0][1];
  }
  rm_configure(RM_CONFIGURE_THREADS, threads);
  expect_normal_operands();
  const bool done = is_served(rm_run(kernel("matmul"), pack(dtype, dtype, dtype, RM_NONE), dtype,
                                     plan, to.data, left.data, right.data, NULL));
  if (!is_half(dtype)) check_normal_operands();
  if (done != (dtype != RM_BOOL)) fail("served and not served are the wrong way round");
  check_unchanged(&left);
  check_unchanged(&right);
  const size_t bytes = (size_t)rm_itemsize(dtype);
  for (ptrdiff_t i = 0; done && i < batch; i++) {
    const ptrdiff_t c0 = (ptrdiff_t)at[i], a0 = (ptrdiff_t)at[batch + i];
    const ptrdiff_t b0 = (ptrdiff_t)at[2 * batch + i];
    for (ptrdiff_t r = 0; r < m; r++) {
      for (ptrdiff_t s = 0; s < n; s++) {
        const ptrdiff_t place = c0 + r * c.stride[0][0] + s * c.stride[0][1];
        int64_t sum = 0;
        /* Long products are compared now and then. */
        const bool compares = !is_half(dtype) && (m * n * k < 100000 || below(50) == 0);
        for (ptrdiff_t q = 0; compares && q < k; q++) {
          const double x = get(dtype, left.data, a0 + r * a.stride[0][0] + q * a.stride[0][1]);
          const double y = get(dtype, right.data, b0 + q * b.stride[0][0] + s * b.stride[0][1]);
          sum += (int64_t)x * (int64_t)y;
        }
        if (compares && get(dtype, to.data, place) != wrap_integer(dtype, sum)) {
          fail("a product is wrong");
        }
        memcpy(to.data + (size_t)place * bytes, to.before + (size_t)place * bytes, bytes);
      }
    }
  }
  if (memcmp(to.data, to.before, to.bytes) != 0) fail("the output was written between elements");
  compared += done;
  drop(&to);
  drop(&left);
  drop(&right);
}

static void try_matmul(ptrdiff_t most, int cases) {
  for (int dtype = RM_BOOL; dtype < RM_DTYPE_COUNT; dtype++) {
    for (int i = 0; i < cases; i++) {
      ptrdiff_t size[3];
      for (int j = 0; j < 3; j++) size[j] = below(4) == 0 ? 1 + below(3) : 1 + below(most);
      run_matmul(dtype, size[0], size[1], size[2], 1 + below(5), 1 + (int)below(3));
    }
  }
}

/* ---- attention ------------------------------------------------------------------------------- */

/* The operands of attention: out, queries, keys, values and a mask. */
enum {
  OUT,
  Q,
  K,
  V,
  MASK,
  ATTENTION_OPERANDS,
  ATTENTION_NUMBERS = RM_ATTENTION_AT_NUMBERS,
  MOST_PROBLEMS = 4,
  /* The numbers of a cache before its offsets. */
  CACHE_NUMBERS = RM_CACHED_ATTENTION_AT_NUMBERS
};

typedef struct {
  ptrdiff_t problems, groups, m, n, d, dv;
  double scale;
  bool causal;
  layout at[ATTENTION_OPERANDS];
  buffer of[ATTENTION_OPERANDS];
  double numbers[ATTENTION_NUMBERS + (ATTENTION_OPERANDS + 2) * MOST_PROBLEMS + CACHE_NUMBERS];
} attention_case;

static ptrdiff_t head_place(const attention_case *c, int k, ptrdiff_t problem, ptrdiff_t group,
                            ptrdiff_t row, ptrdiff_t column) {
  const ptrdiff_t *stride = c->at[k].stride[0];
  return (ptrdiff_t)c->numbers[ATTENTION_NUMBERS + k * c->problems + problem] + group * stride[0] +
         row * stride[1] + column * stride[2];
}

static double head_element(const attention_case *c, int k, ptrdiff_t problem, ptrdiff_t group,
                           ptrdiff_t row, ptrdiff_t column) {
  return get(c->of[k].dtype, c->of[k].data, head_place(c, k, problem, group, row, column));
}

/* Compares a row of the result with sums in double precision. */
static void check_attention_row(const attention_case *c, ptrdiff_t problem, ptrdiff_t group,
                                ptrdiff_t row) {
  double scores[1024], total = 0, max = -INFINITY;
  for (ptrdiff_t j = 0; j < c->n; j++) {
    double sum = 0;
    for (ptrdiff_t i = 0; i < c->d; i++) {
      sum += head_element(c, Q, problem, group, row, i) * head_element(c, K, problem, 0, j, i);
    }
    sum *= c->scale;
    if (c->of[MASK].data != NULL) {
      const double mask = head_element(c, MASK, problem, group, row, j);
      if (c->of[MASK].dtype != RM_BOOL) sum += mask;
      else if (mask == 0) sum = -INFINITY;
    }
    scores[j] = c->causal && j > row + c->n - c->m ? -INFINITY : sum;
    if (scores[j] > max) max = scores[j];
  }
  for (ptrdiff_t j = 0; j < c->n; j++) total += exp(scores[j] - max);
  for (ptrdiff_t i = 0; i < c->dv; i++) {
    double sum = 0;
    for (ptrdiff_t j = 0; j < c->n; j++) {
      sum += exp(scores[j] - max) / total * head_element(c, V, problem, 0, j, i);
    }
    const double made = head_element(c, OUT, problem, group, row, i);
    if (isnan(sum) ? !isnan(made) : !(fabs(made - sum) < 1e-4)) fail("a result is wrong");
  }
}

/* Whether memory between the elements of the result is as before, which this restores. */
static bool keeps_margins(attention_case *c) {
  buffer *out = &c->of[OUT];
  const size_t bytes = (size_t)rm_itemsize(out->dtype);
  for (ptrdiff_t p = 0; p < c->problems; p++) {
    for (ptrdiff_t at = 0; at < c->groups * c->m * c->dv; at++) {
      const size_t to = (size_t)head_place(c, OUT, p, at / c->dv / c->m, at / c->dv % c->m,
                                           at % c->dv) *
                        bytes;
      memcpy(out->data + to, out->before + to, bytes);
    }
  }
  return memcmp(out->data, out->before, out->bytes) == 0;
}

/* Makes the operands and the numbers of a case; mask is RM_NONE for none. */
static void make_attention(attention_case *c, int dtype, int mask) {
  const ptrdiff_t sizes[ATTENTION_OPERANDS][3] = {
      {c->groups, c->m, c->dv}, {c->groups, c->m, c->d}, {1, c->n, c->d},
      {1, c->n, c->dv}, {c->groups, c->m, c->n}};
  const double head[] = {(double)c->problems, (double)c->groups, (double)c->m, (double)c->n,
                         (double)c->d, (double)c->dv, c->scale, c->causal};
  memcpy(c->numbers, head, sizeof head);
  for (int k = 0; k < ATTENTION_OPERANDS; k++) {
    c->of[k] = (buffer){.dtype = RM_NONE};
    if (k == MASK && mask == RM_NONE) break;
    layout *at = &c->at[k];
    shape(at, 3, sizes[k][0], sizes[k][1], sizes[k][2], 1);
    lay_out(at, 0, (enum kind)below(k == OUT ? OUTPUT_KINDS : KINDS), 3);
    for (ptrdiff_t p = 0; p < c->problems; p++) {
      c->numbers[ATTENTION_NUMBERS + k * c->problems + p] =
          (double)(at->offset[0] + p * at->length[0]);
    }
    for (int i = 0; i < 3; i++) c->numbers[RM_ATTENTION_AT_STRIDES + 3 * k + i] = (double)at->stride[0][i];
    c->of[k] = make(k == MASK ? mask : dtype, c->problems * at->length[0],
                    k == OUT ? ANY_BITS : SMALL);
  }
}

static void run_attention(attention_case *c, int dtype, int mask, int threads) {
  snprintf(about, sizeof about, "attention of dtype %d, mask %d, %td x %td heads, %td, %td, %td, %td",
           dtype, mask, c->problems, c->groups, c->m, c->n, c->d, c->dv);
  make_attention(c, dtype, mask);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  buffer *of = c->of;
  if (!is_served(run_many(kernel("attention"), pack(dtype, dtype, dtype, dtype),
                             pack(of[MASK].dtype, RM_NONE, RM_NONE, RM_NONE), dtype, c->numbers,
                             of[OUT].data, of[Q].data, of[K].data, of[V].data, of[MASK].data, NULL,
                             NULL, NULL))) {
    fail("it was not served");
  }
  for (int k = Q; k < ATTENTION_OPERANDS; k++) check_unchanged(&of[k]);
  const bool compares = dtype == RM_FLOAT32 && !is_half(mask);
  for (ptrdiff_t p = 0; compares && p < c->problems; p++) {
    for (ptrdiff_t row = 0; row < c->groups * c->m; row++) {
      check_attention_row(c, p, row / c->m, row % c->m);
    }
  }
  compared += compares;
  if (!keeps_margins(c)) fail("an output was written between elements");
  for (int k = 0; k < ATTENTION_OPERANDS; k++) {
    if (of[k].dtype != RM_NONE) drop(&of[k]);
  }
}

static void try_attention(ptrdiff_t most, ptrdiff_t most_keys, int cases) {
  static const int masks[] = {RM_NONE, RM_BOOL, RM_FLOAT16, RM_BFLOAT16, RM_FLOAT32};
  for (int dtype = RM_FLOAT16; dtype <= RM_FLOAT32; dtype++) {
    for (int i = 0; i < cases; i++) {
      attention_case c = {
          .problems = 1 + below(MOST_PROBLEMS),
          .groups = below(2) ? 1 : 1 + below(4),
          .m = below(2) ? 1 + below(4) : 1 + below(most),
          .n = 1 + below(most_keys),
          .d = 1 + below(most),
          .dv = 1 + below(most),
          .causal = below(2),
      };
      /* Scores up to about 30, so that rounding changes exponentials little. */
      c.scale = 0.02 * (double)below(10) / sqrt((double)c.d);
      run_attention(&c, dtype, masks[below(5)], 1 + (int)below(3));
    }
  }
}
