/*
 * Real Fourier transforms side by side, of one type; fft_type.h includes it. A complex transform
 * computes those of two real numbers: one is the real part, the other one the imaginary part.
 */

/* Up to LANES numbers; others are 0. */
static RM_ALWAYS_INLINE V NAME(load_numbers)(const T *from, ptrdiff_t count) {
  if (count >= LANES) return *(const NAME(loose) *)from;
  T some[LANES] = {0};
  RM_SCALAR for (ptrdiff_t i = 0; i < count; i++) some[i] = from[i];
  return *(const NAME(loose) *)some;
}

static RM_ALWAYS_INLINE void NAME(store_numbers)(T *to, V x, ptrdiff_t count) {
  if (count >= LANES) {
    *(NAME(loose) *)to = x;
    return;
  }
  RM_SCALAR for (ptrdiff_t i = 0; i < count; i++) to[i] = x[i];
}

/* Sets elements k and n - k of the conjugate of a + i b, for the transforms of real numbers. */
static RM_ALWAYS_INLINE void NAME(merge)(PAIR *x, ptrdiff_t n, ptrdiff_t k, T sign, PAIR a, PAIR b) {
  if (k == 0 || 2 * k == n) {
    x[k] = (PAIR){a.re, -b.re};
    return;
  }
  a.im *= sign;
  b.im *= sign;
  x[k] = (PAIR){a.re - b.im, -a.im - b.re};
  x[n - k] = (PAIR){a.re + b.im, a.im - b.re};
}

/* Real transforms of two blocks of columns. */
static void NAME(across_real)(void *context, ptrdiff_t index) {
  fft_call *ctx = context;
  const ptrdiff_t blocks = rm_ceil_div(ctx->inner, 2 * LANES), n = ctx->n, inner = ctx->inner;
  const ptrdiff_t first = index % blocks * 2 * LANES, half = n / 2;
  const ptrdiff_t count = rm_min(LANES, inner - first);
  const ptrdiff_t others = rm_min(LANES, inner - first - count);
  const T *in = (const T *)ctx->in + ctx->in_parts * (index / blocks * ctx->in_length * inner + first);
  T *out = (T *)ctx->out + ctx->out_parts * (index / blocks * ctx->out_length * inner + first);
  PAIR *x = rm_fft_workspace((size_t)(2 * n) * sizeof(PAIR));
  if (x == NULL) {
    ctx->failed = true;
    return;
  }
  const T scale = (T)ctx->scale, sign = ctx->inverse ? -1 : 1;
  if (ctx->kind == FFT_FROM_REAL) {
    FFT_ROLLED for (ptrdiff_t i = 0; i < ctx->given; i++) {
      const T *from = in + i * inner;
      x[i] = (PAIR){NAME(load_numbers)(from, count), NAME(load_numbers)(from + count, others)};
    }
    for (ptrdiff_t i = ctx->given; i < n; i++) x[i] = (PAIR){(V){0}, (V){0}};
    const PAIR *y = NAME(transform)(rm_fft_side_by_side(ctx->plan), x, x + n);
    FFT_ROLLED for (ptrdiff_t k = 0; k <= half; k++) {
      PAIR a, b;
      NAME(separate)(y, n, k, scale / 2, sign, &a, &b);
      NAME(store_some)(out + 2 * k * inner, a, count);
      NAME(store_some)(out + 2 * (k * inner + count), b, others);
    }
  } else {
    FFT_ROLLED for (ptrdiff_t k = 0; k <= half; k++) {
      const ptrdiff_t left = k < ctx->given ? count : 0, right = k < ctx->given ? others : 0;
      const PAIR a = NAME(load_some)(in + 2 * k * inner, left);
      const PAIR b = NAME(load_some)(in + 2 * (k * inner + count), right);
      NAME(merge)(x, n, k, -sign, a, b);
    }
    const PAIR *y = NAME(transform)(rm_fft_side_by_side(ctx->plan), x, x + n);
    FFT_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
      T *to = out + i * inner;
      NAME(store_numbers)(to, y[i].re * scale, count);
      NAME(store_numbers)(to + count, y[i].im * -scale, others);
    }
  }
  rm_fft_give_workspace(x);
}

/* Reads LANES elements from each of `count` rows of real numbers, as vectors of rows. */
FFT_OUTLINED static void NAME(gather_numbers)(const T *from, ptrdiff_t row, ptrdiff_t count,
                                                  ptrdiff_t left, V *to) {
  for (ptrdiff_t k = 0; k < LANES; k++) {
    to[k] = k < count ? NAME(load_numbers)(from + k * row, left) : (V){0};
  }
  NAME(transpose)(to);
}

/* The same of complex numbers. */
FFT_OUTLINED static void NAME(gather_pairs)(const T *from, ptrdiff_t row, ptrdiff_t count,
                                                ptrdiff_t left, V *re, V *im) {
  for (ptrdiff_t k = 0; k < LANES; k++) {
    const PAIR a = NAME(load_some)(from + k * row, k < count ? left : 0);
    re[k] = a.re;
    im[k] = a.im;
  }
  NAME(transpose)(re);
  NAME(transpose)(im);
}

FFT_OUTLINED static void NAME(scatter_numbers)(T *to, ptrdiff_t row, ptrdiff_t count,
                                                   ptrdiff_t left, V *from) {
  NAME(transpose)(from);
  for (ptrdiff_t k = 0; k < count; k++) NAME(store_numbers)(to + k * row, from[k], left);
}

FFT_OUTLINED static void NAME(scatter_pairs)(T *to, ptrdiff_t row, ptrdiff_t count,
                                                 ptrdiff_t left, V *re, V *im) {
  NAME(transpose)(re);
  NAME(transpose)(im);
  for (ptrdiff_t k = 0; k < count; k++) NAME(store_some)(to + k * row, (PAIR){re[k], im[k]}, left);
}

/* Sets the real or imaginary parts of LANES elements of x from LANES elements of LANES rows. */
static RM_ALWAYS_INLINE void NAME(gather_block)(const T *from, ptrdiff_t row, PAIR *x, const int part) {
  V rows[LANES];
  FFT_UNROLL for (int k = 0; k < LANES; k++) rows[k] = *(const NAME(loose) *)(from + k * row);
  NAME(turn_block)(rows);
  FFT_UNROLL for (int k = 0; k < LANES; k++) *(part == 0 ? &x[k].re : &x[k].im) = rows[k];
}

/* Elements from k on, LANES of them, of the transforms of one of both parts, written to LANES rows. */
static RM_ALWAYS_INLINE void NAME(scatter_block)(const PAIR *y, ptrdiff_t n, ptrdiff_t k, T half, T sign,
                                                 const int part, T *to, ptrdiff_t row) {
  FFT_UNROLL for (int first = 0; first < LANES; first += LANES / 2) {
    PAIR some[LANES / 2];
    FFT_UNROLL for (int i = 0; i < LANES / 2; i++) {
      PAIR both[2];
      NAME(separate)(y, n, k + first + i, half, sign, both, both + 1);
      some[i] = both[part];
    }
    NAME(store_rows)(some, to + 2 * first, row);
  }
}

/* The spectra of two blocks of rows of real numbers. */
static void NAME(stack_from_real)(const fft_call *ctx, const T *in, T *out, ptrdiff_t count, PAIR *x,
                                  PAIR *room) {
  const ptrdiff_t n = ctx->n, given = ctx->given, half = n / 2, row = 2 * ctx->out_length;
  const ptrdiff_t others = count > LANES ? count - LANES : 0;
  const T scale = (T)ctx->scale, sign = ctx->inverse ? -1 : 1;
  V re[LANES], im[LANES], re2[LANES], im2[LANES];
  count -= others;
  const bool is_full = others == LANES;
  ptrdiff_t i = 0;
  if (is_full) {
    FFT_ROLLED for (; i + LANES <= rm_min(n, given); i += LANES) {
      NAME(gather_block)(in + i, ctx->in_length, x + i, 0);
      NAME(gather_block)(in + LANES * ctx->in_length + i, ctx->in_length, x + i, 1);
    }
  }
  for (; i < n; i += LANES) {
    const ptrdiff_t left = i < given ? given - i : 0;
    NAME(gather_numbers)(in + i, ctx->in_length, count, left, re);
    NAME(gather_numbers)(in + LANES * ctx->in_length + i, ctx->in_length, others, left, im);
    for (int k = 0; k < LANES; k++) x[i + k] = (PAIR){re[k], im[k]};
  }
  const PAIR *y = NAME(transform)(rm_fft_side_by_side(ctx->plan), x, room);
  i = 0;
  if (is_full) {
    FFT_ROLLED for (; i + LANES <= half + 1; i += LANES) {
      NAME(scatter_block)(y, n, i, scale / 2, sign, 0, out + 2 * i, row);
      NAME(scatter_block)(y, n, i, scale / 2, sign, 1, out + LANES * row + 2 * i, row);
    }
    if (i == half) {
      PAIR both[2];
      NAME(separate)(y, n, i, scale / 2, sign, both, both + 1);
      RM_SCALAR for (ptrdiff_t k = 0; k < 2 * LANES; k++) {
        out[k * row + 2 * i] = both[k / LANES].re[k % LANES];
        out[k * row + 2 * i + 1] = both[k / LANES].im[k % LANES];
      }
      return;
    }
  }
  for (; i <= half; i += LANES) {
    const ptrdiff_t left = rm_min(LANES, half + 1 - i);
    for (ptrdiff_t k = 0; k < LANES; k++) {
      PAIR a, b;
      NAME(separate)(y, n, rm_min(i + k, half), scale / 2, sign, &a, &b);
      re[k] = a.re;
      im[k] = a.im;
      re2[k] = b.re;
      im2[k] = b.im;
    }
    NAME(scatter_pairs)(out + 2 * i, row, count, left, re, im);
    NAME(scatter_pairs)(out + LANES * row + 2 * i, row, others, left, re2, im2);
  }
}

/* Two blocks of rows of real numbers from their spectra. */
static void NAME(stack_to_real)(const fft_call *ctx, const T *in, T *out, ptrdiff_t count, PAIR *x,
                                PAIR *room) {
  const ptrdiff_t n = ctx->n, half = n / 2, row = 2 * ctx->in_length;
  const ptrdiff_t others = count > LANES ? count - LANES : 0;
  const T scale = (T)ctx->scale, sign = ctx->inverse ? 1 : -1;
  V re[LANES], im[LANES], re2[LANES], im2[LANES];
  count -= others;
  for (ptrdiff_t i = 0; i <= half; i += LANES) {
    const ptrdiff_t left = i < ctx->given ? ctx->given - i : 0;
    NAME(gather_pairs)(in + 2 * i, row, count, left, re, im);
    NAME(gather_pairs)(in + LANES * row + 2 * i, row, others, left, re2, im2);
    for (ptrdiff_t k = 0; k < LANES && i + k <= half; k++) {
      NAME(merge)(x, n, i + k, sign, (PAIR){re[k], im[k]}, (PAIR){re2[k], im2[k]});
    }
  }
  const PAIR *y = NAME(transform)(rm_fft_side_by_side(ctx->plan), x, room);
  for (ptrdiff_t i = 0; i < n; i += LANES) {
    const ptrdiff_t left = rm_min(LANES, n - i);
    for (ptrdiff_t k = 0; k < LANES; k++) {
      const PAIR z = y[rm_min(i + k, n - 1)];
      re[k] = z.re * scale;
      im[k] = z.im * -scale;
    }
    NAME(scatter_numbers)(out + i, n, count, left, re);
    NAME(scatter_numbers)(out + LANES * n + i, n, others, left, im);
  }
}

/* Real transforms of short contiguous rows, two blocks at a time. */
static void NAME(stacked_real)(void *context, ptrdiff_t index) {
  fft_call *ctx = context;
  const ptrdiff_t whole = rm_round_up(ctx->n, LANES);
  PAIR *x = rm_fft_workspace((size_t)(2 * whole) * sizeof(PAIR));
  if (x == NULL) {
    ctx->failed = true;
    return;
  }
  const ptrdiff_t end = rm_min((index + 1) * ctx->per_task, ctx->outer);
  for (ptrdiff_t row = index * ctx->per_task; row < end; row += 2 * LANES) {
    const ptrdiff_t count = rm_min(2 * LANES, end - row);
    const T *in = (const T *)ctx->in + ctx->in_parts * row * ctx->in_length;
    T *out = (T *)ctx->out + ctx->out_parts * row * ctx->out_length;
    if (ctx->kind == FFT_FROM_REAL) NAME(stack_from_real)(ctx, in, out, count, x, x + whole);
    else NAME(stack_to_real)(ctx, in, out, count, x, x + whole);
  }
  rm_fft_give_workspace(x);
}
