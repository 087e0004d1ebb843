/*
 * Softmax and norms along rows of one dtype.
 *
 * Included by softmax_norm.c once for float32 and once for float64, with TYPE, VECTOR (LANES
 * elements), VECTOR_OF_8 (8 elements), RM_EXP (the exponential) and, for float32, HAS_RECIPROCAL:
 * double is much more precise than float32. It has no include guard.
 *
 * NAME(max) ignores NaN, which the subtraction brings back. NAME(sum) takes at most BLOCK elements,
 * so that a partial sum of TYPE adds some 20 (float32) or 40 (float64) of them.
 */

#define NAME(name) RM_SUFFIXED(name, TYPE)

static TYPE NAME(max)(const TYPE *x, ptrdiff_t n) {
  TYPE max = (TYPE)-__builtin_inf();
  ptrdiff_t i = 0;
  if (n >= 4 * LANES) {
    VECTOR m0 = (VECTOR){} + max, m1 = m0, m2 = m0, m3 = m0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
      const VECTOR x0 = *(const VECTOR *)(x + i), x1 = *(const VECTOR *)(x + i + LANES);
      const VECTOR x2 = *(const VECTOR *)(x + i + 2 * LANES),
                   x3 = *(const VECTOR *)(x + i + 3 * LANES);
      m0 = MAX_LANES(m0, x0);
      m1 = MAX_LANES(m1, x1);
      m2 = MAX_LANES(m2, x2);
      m3 = MAX_LANES(m3, x3);
    }
    m0 = MAX_LANES(m0, m1);
    m2 = MAX_LANES(m2, m3);
    m0 = MAX_LANES(m0, m2);
    for (int l = 0; l < LANES; l++) max = m0[l] > max ? m0[l] : max;
  }
  for (; i < n; i++) max = x[i] > max ? x[i] : max;
  return max;
}

STATIC_NOINLINE double NAME(sum)(const TYPE *x, ptrdiff_t n) {
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
  RM_ANY_ORDER
  NO_UNROLL for (ptrdiff_t i = 0; i < n; i++) out[i] = x[i] - by - then;
}

static void NAME(scale)(TYPE *out, ptrdiff_t n, double sum) {
#if defined(HAS_RECIPROCAL)
  /* Multiplying by the reciprocal adds half an ulp of error and costs a third of dividing. */
  const TYPE by = (TYPE)(1 / sum);
  NO_UNROLL for (ptrdiff_t i = 0; i < n; i++) out[i] *= by;
#else
  for (ptrdiff_t i = 0; i < n; i++) out[i] /= sum;
#endif
}

STATIC_NOINLINE void NAME(exp_block)(TYPE *out, const TYPE *x, ptrdiff_t n, TYPE by) {
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) out[i] = RM_EXP(x[i] - by);
}

/* A block holds several rows: exponentials of single short rows would waste vectors. */
STATIC_NOINLINE void NAME(softmax_short_rows)(const softmax_norm_context *ctx, ptrdiff_t row,
                                              ptrdiff_t end) {
  const ptrdiff_t columns = ctx->columns, block_rows = BLOCK / columns;
  const bool log = ctx->kind == RM_OP_logSoftmax;
  _Alignas(64) TYPE exps[BLOCK];
  for (; row < end; row += block_rows) {
    const ptrdiff_t rows = rm_min(end - row, block_rows);
    const TYPE *a = (const TYPE *)ctx->a + row * columns;
    TYPE *out = (TYPE *)ctx->out + row * columns;
    for (ptrdiff_t r = 0; r < rows; r++) {
      const TYPE *x = a + r * columns;
      NAME(shift)(out + r * columns, x, columns, NAME(max)(x, columns), 0);
    }
    NAME(exp_block)(log ? exps : out, out, rows * columns, 0);
    for (ptrdiff_t r = 0; r < rows; r++) {
      TYPE *y = out + r * columns;
      const double sum = NAME(sum)((log ? exps : out) + r * columns, columns);
      if (log) NAME(shift)(y, y, columns, 0, (TYPE)rm_log_f64(sum));
      else NAME(scale)(y, columns, sum);
    }
  }
}

STATIC_NOINLINE void NAME(softmax_long_row)(const softmax_norm_context *ctx, ptrdiff_t row) {
  const ptrdiff_t columns = ctx->columns;
  const TYPE *a = (const TYPE *)ctx->a + row * columns;
  TYPE *out = (TYPE *)ctx->out + row * columns;
  const bool log = ctx->kind == RM_OP_logSoftmax;
  _Alignas(64) TYPE exps[BLOCK];
  const TYPE max = NAME(max)(a, columns);
  double sum = 0;
  for (ptrdiff_t at = 0; at < columns; at += BLOCK) {
    const ptrdiff_t n = rm_min(columns - at, BLOCK);
    TYPE *block = log ? exps : out + at;
    NAME(exp_block)(block, a + at, n, max);
    sum += NAME(sum)(block, n);
  }
  if (log) NAME(shift)(out, a, columns, max, (TYPE)rm_log_f64(sum));
  else NAME(scale)(out, columns, sum);
}

/* A value close to the mean of n elements. The sum of squares around any element is at most n times
 * the sum around the mean, which is nothing compared to the digits that double has more than
 * float32. float64 needs the mean itself, up to rounding. */
STATIC_NOINLINE double NAME(reference)(const TYPE *x, ptrdiff_t n) {
#if defined(HAS_RECIPROCAL)
  (void)n;
  return x[0];
#else
  double sum = 0;
  for (ptrdiff_t at = 0; at < n; at += BLOCK) {
    sum += NAME(sum)(x + at, rm_min(n - at, BLOCK));
  }
  return sum / (double)n;
#endif
}

/* Adds the differences from `by` and their squares to two sums. */
STATIC_NOINLINE void NAME(moments)(const TYPE *x, ptrdiff_t n, double by, double *sums) {
  FP_CONTRACT
  f64x8 s0 = {}, s1 = {}, q0 = {}, q1 = {};
  double s = 0, q = 0;
  ptrdiff_t i = 0;
  RM_SCALAR for (; i + 16 <= n; i += 16) {
    const f64x8 d0 = __builtin_convertvector(*(const VECTOR_OF_8 *)(x + i), f64x8) - by;
    const f64x8 d1 = __builtin_convertvector(*(const VECTOR_OF_8 *)(x + i + 8), f64x8) - by;
    s0 += d0;
    q0 += d0 * d0;
    s1 += d1;
    q1 += d1 * d1;
  }
  RM_SCALAR for (; i < n; i++) {
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

/* One pass, because rows are memory-bound. */
STATIC_NOINLINE void NAME(normalize)(TYPE *out, const TYPE *x, const TYPE *weight, const TYPE *bias,
                                     ptrdiff_t n, TYPE mean, TYPE mean_error, TYPE scale) {
  FP_CONTRACT
  ptrdiff_t i = 0;
  RM_SCALAR for (; i + LANES <= n; i += LANES) {
    VECTOR y = (*(const VECTOR *)(x + i) - mean - mean_error) * scale;
    if (weight != NULL && bias != NULL) {
      y = y * *(const VECTOR *)(weight + i) + *(const VECTOR *)(bias + i);
    } else if (weight != NULL) y *= *(const VECTOR *)(weight + i);
    else if (bias != NULL) y += *(const VECTOR *)(bias + i);
    *(VECTOR *)(out + i) = y;
  }
  RM_SCALAR for (; i < n; i++) {
    TYPE y = (x[i] - mean - mean_error) * scale;
    if (weight != NULL && bias != NULL) y = y * weight[i] + bias[i];
    else if (weight != NULL) y *= weight[i];
    else if (bias != NULL) y += bias[i];
    out[i] = y;
  }
}

/* The mean of a row and its rounding error, both 0 unless `centered`, and the inverse of the root of the
 * variance. */
STATIC_NOINLINE void NAME(measure)(const TYPE *a, ptrdiff_t columns, bool centered, double epsilon,
                                   TYPE *mean, TYPE *mean_error, TYPE *scale) {
  const double reference = centered ? NAME(reference)(a, columns) : 0;
  double sums[2] = {0, 0};
  for (ptrdiff_t at = 0; at < columns; at += BLOCK) {
    NAME(moments)(a + at, rm_min(columns - at, BLOCK), reference, sums);
  }
  double variance = sums[1] / (double)columns;
  *mean = *mean_error = 0;
  if (centered) {
    const double offset = sums[0] / (double)columns;
    *mean = (TYPE)(reference + offset);
    *mean_error = (TYPE)(reference - (double)*mean + offset);
    /* Rounding may have made the difference negative. */
    variance = variance < offset * offset ? 0 : variance - offset * offset;
  }
  *scale = (TYPE)(1 / __builtin_sqrt((double)((TYPE)variance + (TYPE)epsilon)));
}

STATIC_NOINLINE void NAME(norm_row)(const softmax_norm_context *ctx, ptrdiff_t row) {
  const ptrdiff_t columns = ctx->columns;
  const TYPE *a = (const TYPE *)ctx->a + row * columns;
  TYPE mean, mean_error, scale;
  NAME(measure)(a, columns, ctx->kind == RM_OP_layerNorm, ctx->epsilon, &mean, &mean_error, &scale);
  NAME(normalize)((TYPE *)ctx->out + row * columns, a, ctx->weight, ctx->bias, columns, mean,
                  mean_error, scale);
}

static void NAME(process_rows)(const softmax_norm_context *ctx, ptrdiff_t row, ptrdiff_t end) {
  if (ctx->kind == RM_OP_layerNorm || ctx->kind == RM_OP_rmsNorm) {
    for (; row < end; row++) NAME(norm_row)(ctx, row);
  } else if (2 * ctx->columns <= BLOCK) {
    NAME(softmax_short_rows)(ctx, row, end);
  } else {
    for (; row < end; row++) NAME(softmax_long_row)(ctx, row);
  }
}

static void NAME(task)(void *context, ptrdiff_t index) {
  const softmax_norm_context *ctx = context;
  const ptrdiff_t row = index * ctx->rows_per_task;
  NAME(process_rows)(ctx, row, rm_min(row + ctx->rows_per_task, ctx->rows));
}

#undef NAME
#undef TYPE
#undef VECTOR
#undef LANES
#undef VECTOR_OF_8
#undef RM_EXP
#undef HAS_RECIPROCAL
