/*
 * A transform of many real numbers in two steps, of one type; fft_type.h includes it. The columns have
 * real numbers, and one complex transform computes those of two. Half of the rows are left, whose
 * transforms are the result and conjugates of it: no pass over the result follows, as it would after a
 * complex transform of half the length.
 */

#if LANES > 4
#define FFT_SOME FFT_ROLLED
#else
#define FFT_SOME FFT_UNROLL
#endif

/* Transforms of two vectors of columns, turned and transposed to blocks of rows. */
static void NAME(real_columns)(void *context, ptrdiff_t block) {
  NAME(steps) *ctx = context;
  const fft_plan *plan = ctx->plan;
  const ptrdiff_t length = plan->columns.length, others = plan->rows.length, first = 2 * LANES * block;
  PAIR small[FFT_SMALL / LANES * 2];
  PAIR *x = small;
  void *workspace = NULL;
  if (2 * length > FFT_SMALL / LANES * 2) {
    x = workspace = rm_fft_workspace((size_t)(2 * length) * sizeof(PAIR));
    if (x == NULL) {
      ctx->failed = true;
      return;
    }
  }
  const LOOSE_PAIR *from = (const LOOSE_PAIR *)(ctx->in + first);
  const ptrdiff_t step = others / (2 * LANES);
  const PAIR *z = NAME(passes)(&plan->columns, plan->columns.stages, from, step, x, x + length);
  const ptrdiff_t elements = length / 2 + 1;
  const PAIR *w = (const PAIR *)plan->twiddles + 2 * block * elements;
  PAIR *to = ctx->middle + first;
  for (ptrdiff_t k = 0; k < elements; k += LANES, to += others) {
    V re[2 * LANES], im[2 * LANES];
    const ptrdiff_t rows = rm_min(LANES, elements - k);
    FFT_SOME for (int i = 0; i < LANES; i++) {
      PAIR a = {(V){0}, (V){0}}, b = a;
      if (i < rows) {
        NAME(separate)(z, length, k + i, 1, 1, &a, &b);
        a = NAME(mul)(a, w[2 * (k + i)]);
        b = NAME(mul)(b, w[2 * (k + i) + 1]);
      }
      re[i] = a.re;
      im[i] = a.im;
      re[LANES + i] = b.re;
      im[LANES + i] = b.im;
    }
    NAME(transpose)(re);
    NAME(transpose)(im);
    NAME(transpose)(re + LANES);
    NAME(transpose)(im + LANES);
    FFT_SOME for (int i = 0; i < 2 * LANES; i++) to[i] = (PAIR){re[i], im[i]};
  }
  rm_fft_give_workspace(workspace);
}

/* The last pass of rows `row` and those after it, stored, and those of which they are conjugates. */
static RM_ALWAYS_INLINE void NAME(last)(const int r, const NAME(steps) *ctx, const PAIR *x, ptrdiff_t row) {
  const ptrdiff_t length = ctx->plan->columns.length, others = ctx->plan->rows.length, s = others / r;
  T *low = ctx->out + 2 * row, *high = ctx->out + 2 * (length * others - row - LANES + 1);
  const T scale = ctx->scale, sign = ctx->sign * scale;
  PAIR t[8];
  FFT_ROLLED for (ptrdiff_t q = 0; q < s; q++, low += 2 * length, high -= 2 * length) {
    FFT_UNROLL for (int j = 0; j < r; j++) t[j] = x[q + s * j];
    NAME(butterfly)(r, t);
    FFT_UNROLL for (int k = 0; k < r; k++) {
      const V re = t[k].re * scale;
      if (2 * k < r) {
        NAME(store)(low + 2 * length * s * k, (PAIR){re, t[k].im * sign + ZERO});
      } else {
        const V im = ZERO - t[k].im * sign;
        NAME(store)(high - 2 * length * s * k, (PAIR){REVERSED(re), REVERSED(im)});
      }
    }
  }
}

/* Powers of 2 have a last pass of radix 4 or of this one (fft_plan.c). */
#define OTHER_LAST (FFT_VECTOR == 32 ? 2 : 8)
FFT_OUTLINED static void NAME(last_four)(const NAME(steps) *ctx, const PAIR *x, ptrdiff_t row) {
  NAME(last)(4, ctx, x, row);
}
FFT_OUTLINED static void NAME(last_other)(const NAME(steps) *ctx, const PAIR *x, ptrdiff_t row) {
  NAME(last)(OTHER_LAST, ctx, x, row);
}
#undef OTHER_LAST

/* Transforms of a block of rows, stored. */
static void NAME(real_rows)(void *context, ptrdiff_t block) {
  NAME(steps) *ctx = context;
  const fft_plan *plan = ctx->plan;
  const fft_lanes *rows = &plan->rows;
  const ptrdiff_t length = plan->columns.length, others = rows->length, n = plan->n;
  const ptrdiff_t first = block * LANES;
  PAIR small[FFT_SMALL / LANES];
  PAIR *y = small;
  void *workspace = NULL;
  if (others > FFT_SMALL / LANES) {
    y = workspace = rm_fft_workspace((size_t)others * sizeof(PAIR));
    if (y == NULL) {
      ctx->failed = true;
      return;
    }
  }
  PAIR *middle = ctx->middle + block * others;
  /* The conjugates of rows 0 and length / 2 are in these rows themselves. */
  const bool is_inner = first > 0 && first + LANES <= length / 2;
  const int passes = rows->stages - (is_inner ? 1 : 0);
  const PAIR *x = NAME(passes)(rows, passes, (const LOOSE_PAIR *)middle, 1, y, middle);
  if (is_inner) {
    if (rows->radix[passes] == 4) NAME(last_four)(ctx, x, first);
    else NAME(last_other)(ctx, x, first);
  } else {
    const T scale = ctx->scale, sign = ctx->sign * scale;
    for (ptrdiff_t lane = 0; lane < LANES && first + lane <= length / 2; lane++) {
      const ptrdiff_t row = first + lane;
      RM_SCALAR for (ptrdiff_t i = 0; i < others; i++) {
        const ptrdiff_t k = row + i * length;
        const bool is_low = 2 * k <= n;
        if (!is_low && (row == 0 || 2 * row == length)) break;
        T *to = ctx->out + 2 * (is_low ? k : n - k);
        to[0] = x[i].re[lane] * scale;
        to[1] = x[i].im[lane] * (is_low ? sign : -sign) + 0;
      }
    }
  }
  rm_fft_give_workspace(workspace);
}

/* The first n / 2 + 1 elements of the transform of n real numbers. False without memory. */
static bool NAME(real_steps)(const fft_plan *plan, const T *in, T *out, T sign, T scale) {
  const ptrdiff_t others = plan->rows.length;
  const ptrdiff_t blocks = rm_ceil_div(plan->columns.length / 2 + 1, LANES);
  NAME(steps) ctx = {plan, in, out, sign, scale, NULL, false};
  ctx.middle = rm_fft_workspace((size_t)(blocks * others) * sizeof(PAIR));
  if (ctx.middle == NULL) return false;
  /* Estimated at half a nanosecond for two numbers in each step. */
  const double work = plan->n >= FFT_PARALLEL ? (double)plan->n / 2 : 0;
  rm_parallel(others / (2 * LANES), work, NAME(real_columns), &ctx);
  rm_parallel(blocks, work, NAME(real_rows), &ctx);
  rm_fft_give_workspace(ctx.middle);
  return !ctx.failed;
}

#undef FFT_SOME
