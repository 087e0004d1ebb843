/*
 * Softmax and norms along rows of one dtype.
 *
 * Included by softmax_norm.c once for float32 and once for float64, with TYPE; VECTOR, one of LANES
 * of them; EIGHT, one of eight; RM_EXP, their exponential; and RECIPROCAL for float32, which double is
 * so much more exact than. No guard.
 *
 * largest_ ignores NaN, which the shift brings back. sum_ takes at most BLOCK elements, so that a
 * partial sum of TYPE adds up some 20 (float32) or 40 (float64) of them.
 */

#define NAME_(name, type) name##_##type
#define NAME_OF(name, type) NAME_(name, type)
#define NAME(name) NAME_OF(name, TYPE)

static TYPE NAME(largest)(const TYPE *x, ptrdiff_t n) {
  TYPE most = (TYPE)-__builtin_inf();
  ptrdiff_t i = 0;
  if (n >= 4 * LANES) {
    VECTOR m0 = (VECTOR){} + most, m1 = m0, m2 = m0, m3 = m0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
      const VECTOR x0 = *(const VECTOR *)(x + i), x1 = *(const VECTOR *)(x + i + LANES);
      const VECTOR x2 = *(const VECTOR *)(x + i + 2 * LANES), x3 = *(const VECTOR *)(x + i + 3 * LANES);
      m0 = LARGER(m0, x0);
      m1 = LARGER(m1, x1);
      m2 = LARGER(m2, x2);
      m3 = LARGER(m3, x3);
    }
    m0 = LARGER(m0, m1);
    m2 = LARGER(m2, m3);
    m0 = LARGER(m0, m2);
    for (int l = 0; l < LANES; l++) most = m0[l] > most ? m0[l] : most;
  }
  for (; i < n; i++) most = x[i] > most ? x[i] : most;
  return most;
}

LOOP double NAME(sum)(const TYPE *x, ptrdiff_t n) {
  double lanes[LANES] = {0};
  ptrdiff_t i = 0;
  if (n < LANES) {
    for (; i < n; i++) lanes[0] += x[i];
    return lanes[0];
  }
  VECTOR s0 = {}, s1 = {}, s2 = {}, s3 = {};
  for (; i + 4 * LANES <= n; i += 4 * LANES) {
    s0 += *(const VECTOR *)(x + i);
    s1 += *(const VECTOR *)(x + i + LANES);
    s2 += *(const VECTOR *)(x + i + 2 * LANES);
    s3 += *(const VECTOR *)(x + i + 3 * LANES);
  }
  for (; i + LANES <= n; i += LANES) s0 += *(const VECTOR *)(x + i);
  for (int l = 0; i < n; i++, l++) lanes[l] = x[i];
  s0 = (s0 + s1) + (s2 + s3);
  for (int l = 0; l < LANES; l++) lanes[l] += s0[l];
  for (int half = LANES / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; l++) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

/* out may be x, here and below. */
static void NAME(shift)(TYPE *out, const TYPE *x, ptrdiff_t n, TYPE by, TYPE then) {
  RM_ANY_ORDER SMALL
  for (ptrdiff_t i = 0; i < n; i++) out[i] = x[i] - by - then;
}

static void NAME(scale)(TYPE *out, ptrdiff_t n, double sum) {
#if defined(RECIPROCAL)
  /* The reciprocal is exact to half a unit, and costs a third of the divisions. */
  const TYPE by = (TYPE)(1 / sum);
  SMALL
  for (ptrdiff_t i = 0; i < n; i++) out[i] *= by;
#else
  for (ptrdiff_t i = 0; i < n; i++) out[i] /= sum;
#endif
}

LOOP void NAME(powers)(TYPE *out, const TYPE *x, ptrdiff_t n, TYPE by) {
  RM_ANY_ORDER
  for (ptrdiff_t i = 0; i < n; i++) out[i] = RM_EXP(x[i] - by);
}

/* Rows of which a block holds several: powers of short rows one by one would waste vectors. */
LOOP void NAME(short_rows)(const job *j, ptrdiff_t row, ptrdiff_t end) {
  const ptrdiff_t columns = j->columns, most = BLOCK / columns;
  const bool log = j->kind == RM_ROWS_LOG_SOFTMAX;
  _Alignas(64) TYPE powers[BLOCK];
  for (; row < end; row += most) {
    const ptrdiff_t rows = rm_least(end - row, most);
    const TYPE *a = (const TYPE *)j->a + row * columns;
    TYPE *out = (TYPE *)j->out + row * columns;
    for (ptrdiff_t r = 0; r < rows; r++) {
      const TYPE *x = a + r * columns;
      NAME(shift)(out + r * columns, x, columns, NAME(largest)(x, columns), 0);
    }
    NAME(powers)(log ? powers : out, out, rows * columns, 0);
    for (ptrdiff_t r = 0; r < rows; r++) {
      TYPE *y = out + r * columns;
      const double sum = NAME(sum)((log ? powers : out) + r * columns, columns);
      if (log) NAME(shift)(y, y, columns, 0, (TYPE)rm_log_f64(sum));
      else NAME(scale)(y, columns, sum);
    }
  }
}

LOOP void NAME(long_row)(const job *j, ptrdiff_t row) {
  const ptrdiff_t columns = j->columns;
  const TYPE *a = (const TYPE *)j->a + row * columns;
  TYPE *out = (TYPE *)j->out + row * columns;
  const bool log = j->kind == RM_ROWS_LOG_SOFTMAX;
  _Alignas(64) TYPE powers[BLOCK];
  const TYPE most = NAME(largest)(a, columns);
  double sum = 0;
  for (ptrdiff_t at = 0; at < columns; at += BLOCK) {
    const ptrdiff_t n = rm_least(columns - at, BLOCK);
    TYPE *block = log ? powers : out + at;
    NAME(powers)(block, a + at, n, most);
    sum += NAME(sum)(block, n);
  }
  if (log) NAME(shift)(out, a, columns, most, (TYPE)rm_log_f64(sum));
  else NAME(scale)(out, columns, sum);
}

/*
 * What the mean of n elements is near to. Sums of squares around any element are at most so many times
 * those around the mean as there are elements: nothing to what double has more than float32. In
 * float64 the mean itself is needed, up to its rounding.
 */
LOOP double NAME(near)(const TYPE *x, ptrdiff_t n) {
#if defined(RECIPROCAL)
  (void)n;
  return x[0];
#else
  double sum = 0;
  for (ptrdiff_t at = 0; at < n; at += BLOCK) {
    sum += NAME(sum)(x + at, rm_least(n - at, BLOCK));
  }
  return sum / (double)n;
#endif
}

/* Adds the differences from by, and their squares, to two sums. */
LOOP void NAME(moments)(const TYPE *x, ptrdiff_t n, double by, double *sums) {
  FUSED
  doubles s0 = {}, s1 = {}, q0 = {}, q1 = {};
  double s = 0, q = 0;
  ptrdiff_t i = 0;
  AS_IT_IS
  for (; i + 16 <= n; i += 16) {
    const doubles d0 = __builtin_convertvector(*(const EIGHT *)(x + i), doubles) - by;
    const doubles d1 = __builtin_convertvector(*(const EIGHT *)(x + i + 8), doubles) - by;
    s0 += d0;
    q0 += d0 * d0;
    s1 += d1;
    q1 += d1 * d1;
  }
  AS_IT_IS
  for (; i < n; i++) {
    const double d = x[i] - by;
    s += d;
    q += d * d;
  }
  s0 += s1;
  q0 += q1;
  for (int l = 0; l < 8; l++) {
    s += s0[l];
    q += q0[l];
  }
  sums[0] += s;
  sums[1] += q;
}

/* One pass, as rows wait for memory more than for arithmetic. */
LOOP void NAME(affine)(TYPE *out, const TYPE *x, const TYPE *weight, const TYPE *bias, ptrdiff_t n, TYPE mean,
                     TYPE rest, TYPE scale) {
  FUSED
  ptrdiff_t i = 0;
  AS_IT_IS
  for (; i + LANES <= n; i += LANES) {
    VECTOR y = (*(const VECTOR *)(x + i) - mean - rest) * scale;
    if (weight != NULL && bias != NULL) {
      y = y * *(const VECTOR *)(weight + i) + *(const VECTOR *)(bias + i);
    } else if (weight != NULL) y *= *(const VECTOR *)(weight + i);
    else if (bias != NULL) y += *(const VECTOR *)(bias + i);
    *(VECTOR *)(out + i) = y;
  }
  AS_IT_IS
  for (; i < n; i++) {
    TYPE y = (x[i] - mean - rest) * scale;
    if (weight != NULL && bias != NULL) y = y * weight[i] + bias[i];
    else if (weight != NULL) y *= weight[i];
    else if (bias != NULL) y += bias[i];
    out[i] = y;
  }
}

LOOP void NAME(norm_row)(const job *j, ptrdiff_t row) {
  const ptrdiff_t columns = j->columns;
  const TYPE *a = (const TYPE *)j->a + row * columns, *weight = j->weight, *bias = j->bias;
  TYPE *out = (TYPE *)j->out + row * columns;
  const bool centred = j->kind == RM_ROWS_LAYER_NORM;
  const double near = centred ? NAME(near)(a, columns) : 0;
  double sums[2] = {0, 0};
  for (ptrdiff_t at = 0; at < columns; at += BLOCK) {
    NAME(moments)(a + at, rm_least(columns - at, BLOCK), near, sums);
  }
  double square = sums[1] / (double)columns;
  TYPE mean = 0, rest = 0;
  if (centred) {
    const double off = sums[0] / (double)columns;
    mean = (TYPE)(near + off);
    rest = (TYPE)(near - (double)mean + off);
    /* Rounding may have left less than nothing of it. */
    square = square < off * off ? 0 : square - off * off;
  }
  const TYPE scale = (TYPE)(1 / __builtin_sqrt((double)((TYPE)square + (TYPE)j->epsilon)));
  NAME(affine)(out, a, weight, bias, columns, mean, rest, scale);
}

static void NAME(range)(const job *j, ptrdiff_t row, ptrdiff_t end) {
  if (j->kind >= RM_ROWS_LAYER_NORM) for (; row < end; row++) NAME(norm_row)(j, row);
  else if (2 * j->columns <= BLOCK) NAME(short_rows)(j, row, end);
  else for (; row < end; row++) NAME(long_row)(j, row);
}

static void NAME(rows)(void *context, ptrdiff_t index) {
  const job *j = context;
  const ptrdiff_t row = index * j->rows_per_task;
  NAME(range)(j, row, rm_least(row + j->rows_per_task, j->rows));
}

#undef NAME_
#undef NAME_OF
#undef NAME
#undef TYPE
#undef VECTOR
#undef LANES
#undef EIGHT
#undef RM_EXP
#undef RECIPROCAL
