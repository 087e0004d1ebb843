/*
 * Fourier transforms of one type: T, with LANES numbers in a vector. Included once per type.
 */
#include "fft_lanes_type.h"

/* ---- one transform --------------------------------------------------------------------------- */

typedef struct {
  const fft_plan *plan;
  const T *in;
  T *out;
  /* Of imaginary parts, before and after: -1 for the inverse transform. */
  T sign;
  T scale;
  PAIR *middle;
  bool failed;
} NAME(steps);

/* Transforms of a block of columns, turned and transposed to blocks of rows. */
static void NAME(columns)(void *context, ptrdiff_t block) {
  NAME(steps) *ctx = context;
  const fft_plan *plan = ctx->plan;
  const ptrdiff_t length = plan->columns.length, others = plan->rows.length;
  const ptrdiff_t first = block * LANES, count = rm_min(LANES, others - first);
  PAIR small[FFT_SMALL / LANES * 2];
  PAIR *x = small, *y = small + length;
  void *workspace = NULL;
  if (2 * length > FFT_SMALL / LANES * 2) {
    workspace = rm_fft_workspace((size_t)(2 * length) * sizeof(PAIR));
    if (workspace == NULL) {
      ctx->failed = true;
      return;
    }
    x = workspace;
    y = x + length;
  }
  const T *from = ctx->in + 2 * first;
  const T sign = ctx->sign;
  if (count == LANES) {
    FFT_ROLLED for (ptrdiff_t i = 0; i < length; i++) {
      const PAIR a = NAME(load)(from + 2 * i * others);
      x[i] = (PAIR){a.re, a.im * sign};
    }
  } else {
    FFT_ROLLED for (ptrdiff_t i = 0; i < length; i++) {
      const PAIR a = NAME(load_some)(from + 2 * i * others, count);
      x[i] = (PAIR){a.re, a.im * sign};
    }
  }
  x = NAME(transform)(&plan->columns, x, y);
  const bool is_factored = plan->steps != NULL;
  const PAIR *w = (const PAIR *)plan->twiddles + (is_factored ? 0 : block * length);
  const T *step = is_factored ? (const T *)plan->steps + 2 * block * length : NULL;
  for (ptrdiff_t k = 0; k < length; k += LANES) {
    V re[LANES], im[LANES];
    const ptrdiff_t rows = rm_min(LANES, length - k);
    if (rows < LANES) {
      for (int i = 0; i < LANES; i++) re[i] = im[i] = (V){0};
    }
    FFT_ROLLED for (ptrdiff_t i = 0; i < rows; i++) {
      PAIR a = NAME(mul)(x[k + i], w[k + i]);
      if (is_factored) a = NAME(turn)(a, step + 2 * (k + i));
      re[i] = a.re;
      im[i] = a.im;
    }
    NAME(transpose)(re);
    NAME(transpose)(im);
    PAIR *to = ctx->middle + k / LANES * others + first;
    FFT_ROLLED for (ptrdiff_t i = 0; i < count; i++) to[i] = (PAIR){re[i], im[i]};
  }
  rm_fft_give_workspace(workspace);
}

/* Transforms of a block of rows, stored. */
static void NAME(rows)(void *context, ptrdiff_t block) {
  NAME(steps) *ctx = context;
  const fft_plan *plan = ctx->plan;
  const ptrdiff_t length = plan->columns.length, others = plan->rows.length;
  const ptrdiff_t first = block * LANES, count = rm_min(LANES, length - first);
  PAIR small[FFT_SMALL / LANES];
  PAIR *y = small;
  void *workspace = NULL;
  if (others > FFT_SMALL / LANES) {
    workspace = rm_fft_workspace((size_t)others * sizeof(PAIR));
    if (workspace == NULL) {
      ctx->failed = true;
      return;
    }
    y = workspace;
  }
  const PAIR *x = NAME(transform)(&plan->rows, ctx->middle + block * others, y);
  T *to = ctx->out + 2 * first;
  const T scale = ctx->scale, sign = ctx->sign * scale;
  if (count == LANES) {
    FFT_ROLLED for (ptrdiff_t i = 0; i < others; i++) {
      NAME(store)(to + 2 * i * length, (PAIR){x[i].re * scale, x[i].im * sign + ZERO});
    }
  } else {
    FFT_ROLLED for (ptrdiff_t i = 0; i < others; i++) {
      NAME(store_some)(to + 2 * i * length, (PAIR){x[i].re * scale, x[i].im * sign + ZERO}, count);
    }
  }
  rm_fft_give_workspace(workspace);
}

/* Multiplies n complex numbers. */
static void NAME(multiply)(const T *a, const T *b, T *to, ptrdiff_t n) {
  FFT_ROLLED for (ptrdiff_t i = 0; i < n; i += LANES) {
    const PAIR x = NAME(load_some)(a + 2 * i, n - i), y = NAME(load_some)(b + 2 * i, n - i);
    NAME(store_some)(to + 2 * i, NAME(mul)(x, y), n - i);
  }
}

/* Multiplies the imaginary parts of n complex numbers, and all parts. */
static void NAME(finish)(T *x, ptrdiff_t n, T scale, T sign) {
  FFT_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
    x[2 * i] *= scale;
    x[2 * i + 1] = x[2 * i + 1] * (scale * sign) + 0;
  }
}

/* One transform of n contiguous complex numbers, of which `given` are given; others are 0. `out` is
 * other memory. False without memory. */
static bool NAME(one)(const fft_plan *plan, const T *in, ptrdiff_t given, T *out, T sign, T scale) {
  const ptrdiff_t n = plan->n;
  void *padded = NULL;
  if (given < n) {
    padded = rm_fft_workspace((size_t)n * 2 * sizeof(T));
    if (padded == NULL) return false;
    memcpy(padded, in, (size_t)given * 2 * sizeof(T));
    memset((T *)padded + 2 * given, 0, (size_t)(n - given) * 2 * sizeof(T));
    in = padded;
  }
  bool done = true;
  if (plan->form == FFT_ONE) {
    PAIR small[2 * FFT_LONE];
    void *workspace = NULL;
    PAIR *x = small;
    if (n > FFT_LONE) x = workspace = rm_fft_workspace((size_t)(2 * n) * sizeof(PAIR));
    done = x != NULL;
    if (done) {
      FFT_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
        x[i] = (PAIR){(V){in[2 * i]}, (V){in[2 * i + 1] * sign}};
      }
      const PAIR *y = NAME(transform)(&plan->columns, x, x + n);
      FFT_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
        out[2 * i] = y[i].re[0] * scale;
        out[2 * i + 1] = y[i].im[0] * (scale * sign) + 0;
      }
    }
    rm_fft_give_workspace(workspace);
  } else if (plan->form == FFT_STEPS) {
    const ptrdiff_t length = plan->columns.length, others = plan->rows.length;
    const ptrdiff_t blocks = rm_ceil_div(length, LANES);
    NAME(steps) ctx = {plan, in, out, sign, scale, NULL, false};
    PAIR small[FFT_SMALL / LANES];
    void *workspace = NULL;
    if (blocks * others <= FFT_SMALL / LANES) ctx.middle = small;
    else ctx.middle = workspace = rm_fft_workspace((size_t)(blocks * others) * sizeof(PAIR));
    done = ctx.middle != NULL;
    if (done) {
      /* Estimated at half a nanosecond for a number in each step. */
      const double work = n >= FFT_PARALLEL ? (double)n : 0;
      rm_parallel(rm_ceil_div(others, LANES), work, NAME(columns), &ctx);
      rm_parallel(blocks, work, NAME(rows), &ctx);
      done = !ctx.failed;
    }
    rm_fft_give_workspace(workspace);
  } else {
    const ptrdiff_t m = plan->inner->n;
    T *x = rm_fft_workspace((size_t)(4 * m) * sizeof(T));
    done = x != NULL;
    if (done) {
      T *y = x + 2 * m;
      const T *chirp = plan->twiddles;
      if (sign < 0) {
        memcpy(y, in, (size_t)n * 2 * sizeof(T));
        NAME(finish)(y, n, 1, -1);
        in = y;
      }
      NAME(multiply)(in, chirp, x, n);
      memset(x + 2 * n, 0, (size_t)(m - n) * 2 * sizeof(T));
      done = NAME(one)(plan->inner, x, m, y, 1, 1);
      NAME(multiply)(y, plan->spectrum, x, m);
      done = done && NAME(one)(plan->inner, x, m, y, -1, 1);
      NAME(multiply)(y, chirp, out, n);
      NAME(finish)(out, n, scale, sign);
    }
    rm_fft_give_workspace(x);
  }
  rm_fft_give_workspace(padded);
  return done;
}

/* ---- real transforms ------------------------------------------------------------------------- */

static RM_ALWAYS_INLINE PAIR NAME(load_reversed)(const T *from) {
  const PAIR a = NAME(load)(from);
  return (PAIR){REVERSED(a.re), REVERSED(a.im)};
}

/*
 * Makes the transform z of h pairs of numbers the first h + 1 elements of the transform of 2h numbers,
 * or (inverse) the reverse, without the factor 1 / 2. to[k] and to[h - k] depend on z[k] and z[h - k];
 * to may be z.
 */
static RM_ALWAYS_INLINE void NAME(combine)(const bool inverse, const T *z, T *to, ptrdiff_t h,
                                           const T *twiddles, T sign) {
  const T half = inverse ? (T)1 : (T)0.5;
  ptrdiff_t k = 1;
  for (; k + LANES <= h / 2; k += LANES) {
    const ptrdiff_t other = h - k - LANES + 1;
    PAIR a = NAME(load)(z + 2 * k), b = NAME(load_reversed)(z + 2 * other);
    const PAIR w = NAME(load)(twiddles + 2 * k);
    if (inverse) {
      a.im *= sign;
      b.im *= sign;
    }
    /* s = a + conj(b), d = a - conj(b), turned by -i w, or by i conj(w). */
    const PAIR s = {(a.re + b.re) * half, (a.im - b.im) * half};
    const PAIR d = {(a.re - b.re) * half, (a.im + b.im) * half};
    const PAIR t = inverse ? (PAIR){w.im * d.re - w.re * d.im, w.re * d.re + w.im * d.im}
                           : (PAIR){w.im * d.re + w.re * d.im, w.im * d.im - w.re * d.re};
    PAIR low = {s.re + t.re, s.im + t.im}, high = {s.re - t.re, t.im - s.im};
    if (!inverse) {
      low.im *= sign;
      high.im *= sign;
    }
    NAME(store)(to + 2 * k, low);
    NAME(store)(to + 2 * other, (PAIR){REVERSED(high.re), REVERSED(high.im)});
  }
  RM_SCALAR for (; 2 * k <= h; k++) {
    const ptrdiff_t other = h - k;
    const T ar = z[2 * k], br = z[2 * other];
    const T ai = inverse ? z[2 * k + 1] * sign : z[2 * k + 1];
    const T bi = inverse ? z[2 * other + 1] * sign : z[2 * other + 1];
    const T wr = twiddles[2 * k], wi = twiddles[2 * k + 1];
    const T sr = (ar + br) * half, si = (ai - bi) * half, dr = (ar - br) * half, di = (ai + bi) * half;
    const T tr = inverse ? wi * dr - wr * di : wi * dr + wr * di;
    const T ti = inverse ? wr * dr + wi * di : wi * di - wr * dr;
    const T low = si + ti, high = ti - si;
    to[2 * k] = sr + tr;
    to[2 * k + 1] = inverse ? low : low * sign;
    to[2 * other] = sr - tr;
    to[2 * other + 1] = inverse ? high : high * sign;
  }
}

#include "fft_columns_type.h"

/* From n real numbers, of which `given` are given, to n / 2 + 1 complex ones. */
static bool NAME(from_real)(const fft_plan *plan, const T *in, ptrdiff_t given, T *out, T sign,
                            T scale) {
  const ptrdiff_t n = plan->n, h = n / 2;
  T *x = NULL;
  bool done;
  if (plan->kind == FFT_COMPLEX) {
    x = rm_fft_workspace((size_t)(4 * n) * sizeof(T));
    if (x == NULL) return false;
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
      x[2 * i] = i < given ? in[i] : 0;
      x[2 * i + 1] = 0;
    }
    done = NAME(one)(plan, x, n, x + 2 * n, 1, scale);
    memcpy(out, x + 2 * n, (size_t)(n / 2 + 1) * 2 * sizeof(T));
    NAME(finish)(out, n / 2 + 1, 1, sign);
  } else {
    if (given < n) {
      x = rm_fft_workspace((size_t)n * sizeof(T));
      if (x == NULL) return false;
      memcpy(x, in, (size_t)given * sizeof(T));
      memset(x + given, 0, (size_t)(n - given) * sizeof(T));
      in = x;
    }
    if (plan->form == FFT_STEPS) {
      done = NAME(real_steps)(plan, in, out, sign, scale);
    } else {
      done = NAME(one)(plan->inner, in, h, out, 1, scale);
      const T re = out[0], im = out[1];
      out[0] = re + im;
      out[2 * h] = re - im;
      NAME(combine)(false, out, out, h, plan->twiddles, sign);
    }
    out[1] = out[2 * h + 1] = 0;
  }
  rm_fft_give_workspace(x);
  return done;
}

/* From n / 2 + 1 complex numbers, of which `given` are given, to n real ones. */
static bool NAME(to_real)(const fft_plan *plan, const T *in, ptrdiff_t given, T *out, T sign,
                          T scale) {
  const ptrdiff_t n = plan->n, h = n / 2;
  T *x = rm_fft_workspace((size_t)(4 * n + 8) * sizeof(T));
  if (x == NULL) return false;
  bool done;
  if (given < h + 1) {
    T *padded = x + 2 * n + 2;
    memcpy(padded, in, (size_t)given * 2 * sizeof(T));
    memset(padded + 2 * given, 0, (size_t)(h + 1 - given) * 2 * sizeof(T));
    in = padded;
  }
  if (plan->kind == FFT_COMPLEX) {
    /* Element n, which is not used, is that of the first one. */
    RM_ROLLED for (ptrdiff_t k = 0; k <= h; k++) {
      x[2 * k] = x[2 * (n - k)] = in[2 * k];
      x[2 * k + 1] = in[2 * k + 1];
      x[2 * (n - k) + 1] = -in[2 * k + 1];
    }
    x[1] = 0;
    T *y = x + 2 * n + 2;
    done = NAME(one)(plan, x, n, y, -sign, scale);
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) out[i] = y[2 * i];
  } else {
    const T first = in[0], last = in[2 * h];
    NAME(combine)(true, in, x, h, plan->twiddles, sign);
    x[0] = first + last;
    x[1] = first - last;
    done = NAME(one)(plan->inner, x, h, out, -1, scale);
  }
  rm_fft_give_workspace(x);
  return done;
}

/* ---- many transforms ------------------------------------------------------------------------- */

/* One transform of contiguous numbers, of any kind. */
static bool NAME(line)(const fft_call *ctx, const T *in, T *out) {
  const T sign = ctx->inverse ? -1 : 1, scale = (T)ctx->scale;
  switch (ctx->kind) {
    case FFT_FROM_REAL: return NAME(from_real)(ctx->plan, in, ctx->given, out, sign, scale);
    case FFT_TO_REAL: return NAME(to_real)(ctx->plan, in, ctx->given, out, -sign, scale);
    default: return NAME(one)(ctx->plan, in, ctx->given, out, sign, scale);
  }
}

/* Transforms of some contiguous rows. */
static void NAME(lines)(void *context, ptrdiff_t index) {
  fft_call *ctx = context;
  const ptrdiff_t end = rm_min((index + 1) * ctx->per_task, ctx->outer);
  for (ptrdiff_t i = index * ctx->per_task; i < end; i++) {
    const T *in = (const T *)ctx->in + i * ctx->in_length * ctx->in_parts;
    T *out = (T *)ctx->out + i * ctx->out_length * ctx->out_parts;
    if (!NAME(line)(ctx, in, out)) ctx->failed = true;
  }
}

/* Transforms of a block of columns, side by side. */
static void NAME(across)(void *context, ptrdiff_t index) {
  fft_call *ctx = context;
  const ptrdiff_t blocks = rm_ceil_div(ctx->inner, LANES), n = ctx->n, inner = ctx->inner;
  const ptrdiff_t first = index % blocks * LANES, count = rm_min(LANES, inner - first);
  const T *in = (const T *)ctx->in + 2 * (index / blocks * ctx->in_length * inner + first);
  T *out = (T *)ctx->out + 2 * (index / blocks * ctx->out_length * inner + first);
  PAIR *x = rm_fft_workspace((size_t)(2 * n) * sizeof(PAIR));
  if (x == NULL) {
    ctx->failed = true;
    return;
  }
  const T scale = (T)ctx->scale, sign = ctx->inverse ? -1 : 1;
  FFT_ROLLED for (ptrdiff_t i = 0; i < ctx->given; i++) {
    const PAIR a = NAME(load_some)(in + 2 * i * inner, count);
    x[i] = (PAIR){a.re, a.im * sign};
  }
  for (ptrdiff_t i = ctx->given; i < n; i++) x[i] = (PAIR){(V){0}, (V){0}};
  const PAIR *y = NAME(transform)(rm_fft_side_by_side(ctx->plan), x, x + n);
  FFT_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
    NAME(store_some)(out + 2 * i * inner, (PAIR){y[i].re * scale, y[i].im * (sign * scale) + ZERO}, count);
  }
  rm_fft_give_workspace(x);
}

/* Transforms of a block of short contiguous rows, side by side. */
static void NAME(stacked)(void *context, ptrdiff_t index) {
  fft_call *ctx = context;
  const ptrdiff_t n = ctx->n, whole = rm_round_up(n, LANES), given = ctx->given;
  PAIR *x = rm_fft_workspace((size_t)(2 * whole) * sizeof(PAIR));
  if (x == NULL) {
    ctx->failed = true;
    return;
  }
  const T scale = (T)ctx->scale, sign = ctx->inverse ? -1 : 1;
  const ptrdiff_t end = rm_min((index + 1) * ctx->per_task, ctx->outer);
  for (ptrdiff_t row = index * ctx->per_task; row < end; row += LANES) {
    const ptrdiff_t count = rm_min(LANES, end - row);
    const T *in = (const T *)ctx->in + 2 * row * ctx->in_length;
    T *out = (T *)ctx->out + 2 * row * n;
    V re[LANES], im[LANES];
    ptrdiff_t i = 0;
    if (count == LANES) {
      FFT_ROLLED for (; i + LANES / 2 <= given; i += LANES / 2) {
        PAIR some[LANES / 2];
        NAME(load_rows)(in + 2 * i, 2 * ctx->in_length, some);
        FFT_UNROLL for (int k = 0; k < LANES / 2; k++) {
          x[i + k] = (PAIR){some[k].re, some[k].im * sign};
        }
      }
    }
    for (; i < n; i += LANES) {
      for (ptrdiff_t k = 0; k < LANES; k++) {
        const ptrdiff_t left = k < count && i < given ? given - i : 0;
        const PAIR a = NAME(load_some)(in + 2 * (k * ctx->in_length + i), left);
        re[k] = a.re;
        im[k] = a.im * sign;
      }
      NAME(transpose)(re);
      NAME(transpose)(im);
      for (int k = 0; k < LANES; k++) x[i + k] = (PAIR){re[k], im[k]};
    }
    const PAIR *y = NAME(transform)(rm_fft_side_by_side(ctx->plan), x, x + whole);
    i = 0;
    if (count == LANES) {
      FFT_ROLLED for (; i + LANES / 2 <= n; i += LANES / 2) {
        PAIR some[LANES / 2];
        FFT_UNROLL for (int k = 0; k < LANES / 2; k++) {
          some[k] = (PAIR){y[i + k].re * scale, y[i + k].im * (sign * scale) + ZERO};
        }
        NAME(store_rows)(some, out + 2 * i, 2 * n);
      }
    }
    for (; i < n; i += LANES) {
      const ptrdiff_t left = rm_min(LANES, n - i);
      for (ptrdiff_t k = 0; k < LANES; k++) {
        re[k] = k < left ? y[i + k].re * scale : (V){0};
        im[k] = k < left ? y[i + k].im * (sign * scale) + ZERO : (V){0};
      }
      NAME(transpose)(re);
      NAME(transpose)(im);
      for (ptrdiff_t k = 0; k < count; k++) {
        NAME(store_some)(out + 2 * (k * n + i), (PAIR){re[k], im[k]}, left);
      }
    }
  }
  rm_fft_give_workspace(x);
}

/* Transforms of a block of columns that are copied to rows, and back. */
static void NAME(copied)(void *context, ptrdiff_t index) {
  fft_call *ctx = context;
  const ptrdiff_t blocks = rm_ceil_div(ctx->inner, FFT_COPIED), inner = ctx->inner;
  const ptrdiff_t first = index % blocks * FFT_COPIED, count = rm_min(FFT_COPIED, inner - first);
  const int from_parts = ctx->in_parts, to_parts = ctx->out_parts;
  const ptrdiff_t room = ctx->given * from_parts, made = ctx->out_length * to_parts;
  const T *in = (const T *)ctx->in + from_parts * (index / blocks * ctx->in_length * inner + first);
  T *out = (T *)ctx->out + to_parts * (index / blocks * ctx->out_length * inner + first);
  T *x = rm_fft_workspace((size_t)((room + made) * FFT_COPIED) * sizeof(T));
  if (x == NULL) {
    ctx->failed = true;
    return;
  }
  T *y = x + room * FFT_COPIED;
  for (ptrdiff_t i = 0; i < ctx->given; i++) {
    const T *from = in + i * inner * from_parts;
    RM_SCALAR for (ptrdiff_t k = 0; k < count; k++) {
      for (int part = 0; part < from_parts; part++) {
        x[k * room + i * from_parts + part] = from[k * from_parts + part];
      }
    }
  }
  for (ptrdiff_t k = 0; k < count; k++) {
    if (!NAME(line)(ctx, x + k * room, y + k * made)) ctx->failed = true;
  }
  for (ptrdiff_t i = 0; i < ctx->out_length; i++) {
    T *to = out + i * inner * to_parts;
    RM_SCALAR for (ptrdiff_t k = 0; k < count; k++) {
      for (int part = 0; part < to_parts; part++) {
        to[k * to_parts + part] = y[k * made + i * to_parts + part];
      }
    }
  }
  rm_fft_give_workspace(x);
}

#include "fft_real_type.h"

/* Whether the call has enough transforms of a length that is computed side by side. */
static bool NAME(is_side_by_side)(const fft_call *ctx) {
  if (ctx->inner > 1) return 2 * ctx->inner >= LANES && ctx->n <= FFT_LONGEST_ACROSS;
  if (ctx->outer < LANES || ctx->n > FFT_LONGEST_STACKED) return false;
  /* With wide vectors, multiples of one are faster by themselves from some length on. */
  const ptrdiff_t few = ctx->kind == FFT_TO_REAL ? FFT_SHORT : 2 * FFT_SHORT;
  return LANES < 8 || ctx->n < few || ctx->n % LANES != 0;
}

/* Chooses how the transforms of a call are computed, and computes them. */
static void NAME(many)(fft_call *ctx) {
  const ptrdiff_t n = ctx->n, outer = ctx->outer, inner = ctx->inner;
  const double total = (double)n * (double)outer * (double)inner;
  /* Estimated nanoseconds; short work runs on one thread. */
  const double work = total >= FFT_PARALLEL ? 2 * total : 0;
  const bool is_complex = ctx->kind == FFT_COMPLEX;
  const int lanes = is_complex ? LANES : 2 * LANES;
  if (ctx->is_side_by_side && inner > 1) {
    rm_parallel(outer * rm_ceil_div(inner, lanes), work,
                is_complex ? NAME(across) : NAME(across_real), ctx);
  } else if (inner > 1) {
    rm_parallel(outer * rm_ceil_div(inner, FFT_COPIED), work, NAME(copied), ctx);
  } else if (ctx->is_side_by_side) {
    ctx->per_task = lanes * rm_ceil_div(4096, lanes * n);
    rm_parallel(rm_ceil_div(outer, ctx->per_task), work,
                is_complex ? NAME(stacked) : NAME(stacked_real), ctx);
  } else {
    ctx->per_task = n >= 4096 ? 1 : 4096 / n;
    rm_parallel(rm_ceil_div(outer, ctx->per_task), outer == 1 ? 0 : work, NAME(lines), ctx);
  }
}

#undef V
#undef ZERO
#undef PAIR
#undef LOOSE_PAIR
#undef EVEN
#undef ODD
#undef LOW
#undef HIGH
#undef LOW_PAIRS
#undef HIGH_PAIRS
#undef REVERSED
