/*
 * Loops over complex numbers of one float type.
 *
 * Included by complex_map.c once for float32 and once for float64, with TYPE, SUFFIX, BUILTIN(name)
 * (the builtin function) and the bounds of common operands. It has no include guard.
 */

#define NAME(name) RM_SUFFIXED(name, SUFFIX)
/* Not inlined: some of them are called in several places. */
#define BLOCK_LOOP static __attribute__((noinline)) RM_KERNEL void
#define EACH RM_ANY_ORDER_SMALL for (ptrdiff_t i = 0; i < n; i++)
/* Short loops gain from two vectors at a time. */
#define EACH_LIGHT _Pragma("clang loop interleave_count(2)") EACH

/* Whether all of n are at most `most` in magnitude, and not NaN. */
static __attribute__((noinline)) bool NAME(all_within)(ptrdiff_t n, const TYPE *x, TYPE most) {
  int outside = 0;
  for (ptrdiff_t i = 0; i < n; i++) outside |= !(BUILTIN(fabs)(x[i]) <= most);
  return !outside;
}

/* Whether the larger part of each number is in the range in which squares are normal. */
static __attribute__((noinline)) bool NAME(squares_are_normal)(ptrdiff_t n, const TYPE *xr,
                                                               const TYPE *xi) {
  int outside = 0;
  for (ptrdiff_t i = 0; i < n; i++) {
    const TYPE a = BUILTIN(fabs)(xr[i]), b = BUILTIN(fabs)(xi[i]), big = a > b ? a : b;
    outside |= !((big >= SQUARE_LEAST) & (big <= SQUARE_MOST) & (a + b == a + b));
  }
  return !outside;
}

BLOCK_LOOP NAME(mul_block)(ptrdiff_t n, const TYPE *xr, const TYPE *xi, const TYPE *yr,
                           const TYPE *yi, TYPE *re, TYPE *im) {
  EACH_LIGHT {
    const TYPE a = xr[i], b = xi[i], c = yr[i], d = yi[i];
    re[i] = a * c - b * d;
    im[i] = a * d + b * c;
  }
}

BLOCK_LOOP NAME(div_block)(ptrdiff_t n, const TYPE *xr, const TYPE *xi, const TYPE *yr,
                           const TYPE *yi, TYPE *re, TYPE *im) {
  EACH {
    const TYPE a = xr[i], b = xi[i], c = yr[i], d = yi[i];
    const TYPE ac = BUILTIN(fabs)(c), ad = BUILTIN(fabs)(d);
    const int wide = ac >= ad, none = (ac == 0) & (ad == 0);
    const TYPE big = wide ? c : d, small = wide ? d : c;
    const TYPE ratio = small / big, scale = 1 / (big + small * ratio);
    const TYPE p = wide ? a : b, q = wide ? b : a;
    const TYPE x = (p + q * ratio) * scale, y = (q - p * ratio) * scale;
    re[i] = none ? a / ac : x;
    im[i] = none ? b / ac : wide ? y : -y;
  }
}

BLOCK_LOOP NAME(exp_block)(ptrdiff_t n, const TYPE *xr, const TYPE *xi, TYPE *re,
                           TYPE *im) {
  EACH {
    const TYPE e = NAME(rm_exp)(xr[i]), y = xi[i];
    re[i] = e * NAME(rm_cos)(y);
    im[i] = e * NAME(rm_sin)(y);
  }
}

/* sinh, or cosh for `even`: the products are those of the other one. */
BLOCK_LOOP NAME(sinh_block)(ptrdiff_t n, const TYPE *xr, const TYPE *xi, TYPE *re,
                            TYPE *im, bool even) {
  EACH {
    const TYPE x = xr[i], y = xi[i], s = NAME(rm_sinh)(x), c = NAME(rm_cosh)(x);
    re[i] = (even ? c : s) * NAME(rm_cos)(y);
    im[i] = (even ? s : c) * NAME(rm_sin)(y);
  }
}

BLOCK_LOOP NAME(sqrt_block)(ptrdiff_t n, const TYPE *xr, const TYPE *xi, TYPE *re,
                            TYPE *im) {
  EACH {
    const TYPE x = xr[i], y = xi[i], size = BUILTIN(sqrt)(x * x + y * y);
    const TYPE t = BUILTIN(sqrt)((BUILTIN(fabs)(x) + size) * (TYPE)0.5);
    const TYPE other = BUILTIN(fabs)(y) / (t + t);
    re[i] = x >= 0 ? t : other;
    im[i] = BUILTIN(copysign)(x >= 0 ? other : t, y);
  }
}

/* In double: squares of float32 are exact, so that their sum is rounded once. */
BLOCK_LOOP NAME(log_block)(ptrdiff_t n, const TYPE *xr, const TYPE *xi, TYPE *re,
                           TYPE *im, TYPE scale) {
  EACH {
    const TYPE x = xr[i], y = xi[i];
    const double a = __builtin_fabs((double)x), b = __builtin_fabs((double)y);
    const double big = a > b ? a : b, small = a > b ? b : a, squares = big * big + small * small;
    const double beyond = sizeof(TYPE) == 4 ? (big - 1) * (big + 1) + small * small
                                            : rm_c_squares_minus_one(big, small);
    const int near = (squares > 0.5) & (squares < 3);
    const double log = near ? rm_log1p_f64(near ? beyond : 0) : rm_log_f64(squares);
    re[i] = (TYPE)(0.5 * log) * scale;
    im[i] = NAME(rm_atan2)(y, x) * scale;
  }
}

BLOCK_LOOP NAME(abs_block)(ptrdiff_t n, const TYPE *xr, const TYPE *xi, TYPE *re) {
  EACH {
    const TYPE x = xr[i], y = xi[i];
    const int infinite = (BUILTIN(fabs)(x) == (TYPE)INFINITY) | (BUILTIN(fabs)(y) == (TYPE)INFINITY);
    re[i] = infinite ? (TYPE)INFINITY : NAME(rm_hypot)(x, y);
  }
}

BLOCK_LOOP NAME(angle_block)(ptrdiff_t n, const TYPE *xr, const TYPE *xi, TYPE *re) {
  EACH re[i] = NAME(rm_atan2)(xi[i], xr[i]);
}

/* Computes a block; false if it has other than common operands, or the op has no loop. */
static bool NAME(fast_block)(int op, ptrdiff_t n, const TYPE *xr, const TYPE *xi, const TYPE *yr,
                             const TYPE *yi, TYPE *re, TYPE *im) {
  switch (op) {
    case RM_COMPLEX_MUL: NAME(mul_block)(n, xr, xi, yr, yi, re, im); return true;
    case RM_COMPLEX_SQUARE: NAME(mul_block)(n, xr, xi, xr, xi, re, im); return true;
    case RM_COMPLEX_DIV: NAME(div_block)(n, xr, xi, yr, yi, re, im); return true;
    case RM_COMPLEX_RECIPROCAL: {
      TYPE one[RM_COMPLEX_BLOCK], zero[RM_COMPLEX_BLOCK];
      for (ptrdiff_t i = 0; i < n; i++) one[i] = 1, zero[i] = 0;
      NAME(div_block)(n, one, zero, xr, xi, re, im);
      return true;
    }
    case RM_COMPLEX_CONJ:
      EACH {
        re[i] = xr[i];
        im[i] = -xi[i];
      }
      return true;
    case RM_COMPLEX_EXP:
      if (!NAME(all_within)(n, xr, EXP_BOUND) || !NAME(all_within)(n, xi, ANGLE_BOUND)) return false;
      NAME(exp_block)(n, xr, xi, re, im);
      return true;
    case RM_COMPLEX_SINH:
    case RM_COMPLEX_COSH:
      if (!NAME(all_within)(n, xr, EXP_BOUND) || !NAME(all_within)(n, xi, ANGLE_BOUND)) return false;
      NAME(sinh_block)(n, xr, xi, re, im, op == RM_COMPLEX_COSH);
      return true;
    case RM_COMPLEX_SIN:
      if (!NAME(all_within)(n, xi, EXP_BOUND) || !NAME(all_within)(n, xr, ANGLE_BOUND)) return false;
      NAME(sinh_block)(n, xi, xr, im, re, false);
      return true;
    case RM_COMPLEX_COS: {
      if (!NAME(all_within)(n, xi, EXP_BOUND) || !NAME(all_within)(n, xr, ANGLE_BOUND)) return false;
      TYPE negative[RM_COMPLEX_BLOCK];
      for (ptrdiff_t i = 0; i < n; i++) negative[i] = -xi[i];
      NAME(sinh_block)(n, negative, xr, re, im, true);
      return true;
    }
    case RM_COMPLEX_SQRT:
      if (!NAME(squares_are_normal)(n, xr, xi)) return false;
      NAME(sqrt_block)(n, xr, xi, re, im);
      return true;
    case RM_COMPLEX_LOG:
    case RM_COMPLEX_LOG2:
    case RM_COMPLEX_LOG10: {
      if (!NAME(squares_are_normal)(n, xr, xi)) return false;
      const double scale = op == RM_COMPLEX_LOG    ? 1
                           : op == RM_COMPLEX_LOG2 ? 1.4426950408889634
                                                   : 0.4342944819032518;
      NAME(log_block)(n, xr, xi, re, im, (TYPE)scale);
      return true;
    }
    case RM_COMPLEX_ABS: NAME(abs_block)(n, xr, xi, re); return true;
    case RM_COMPLEX_ANGLE: NAME(angle_block)(n, xr, xi, re); return true;
    default: return false;
  }
}

typedef TYPE NAME(vector) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(TYPE)), may_alias));

#define ORDER(name) ORDER_OF(name, LANES)
/* Products of the numbers of two vectors. */
static RM_ALWAYS_INLINE NAME(vector) NAME(mul_vectors)(NAME(vector) x, NAME(vector) y) {
  const NAME(vector) first = __builtin_shufflevector(x, x, ORDER(FIRSTS)) * y;
  const NAME(vector) second = __builtin_shufflevector(x, x, ORDER(SECONDS)) *
                              __builtin_shufflevector(y, y, ORDER(SWAPPED));
  return __builtin_shufflevector(first - second, first + second, ORDER(IN_TURNS));
}

/* Products of contiguous numbers, or with one number q. */
static void NAME(mul_dense)(ptrdiff_t n, TYPE *o, const TYPE *p, const TYPE *q, bool one) {
  const ptrdiff_t parts = 2 * n;
  NAME(vector) y = {0};
  for (int i = 0; one && i < LANES; i++) y[i] = q[i % 2];
  ptrdiff_t i = 0;
  for (; i + LANES <= parts; i += LANES) {
    if (!one) y = *(const NAME(vector) *)(q + i);
    *(NAME(vector) *)(o + i) = NAME(mul_vectors)(*(const NAME(vector) *)(p + i), y);
  }
  for (; i < parts; i += 2) {
    const TYPE *const by = one ? q : q + i;
    const TYPE a = p[i], b = p[i + 1], c = by[0], d = by[1];
    o[i] = a * c - b * d;
    o[i + 1] = a * d + b * c;
  }
}
#undef ORDER

BLOCK_LOOP NAME(compare_dense)(int op, ptrdiff_t n, uint8_t *o, const TYPE *p,
                               ptrdiff_t sx, const TYPE *q, ptrdiff_t sy, ptrdiff_t so) {
  switch (op) {
    case RM_COMPLEX_EQUAL:
      EACH_LIGHT o[i * so] = (p[i * sx] == q[i * sy]) & (p[i * sx + 1] == q[i * sy + 1]);
      return;
    case RM_COMPLEX_NOT_EQUAL:
      EACH_LIGHT o[i * so] = (p[i * sx] != q[i * sy]) | (p[i * sx + 1] != q[i * sy + 1]);
      return;
    case RM_COMPLEX_ISNAN:
      EACH o[i * so] = (p[i * sx] != p[i * sx]) | (p[i * sx + 1] != p[i * sx + 1]);
      return;
    case RM_COMPLEX_ISINF:
      EACH o[i * so] = (BUILTIN(fabs)(p[i * sx]) == (TYPE)INFINITY) |
                       (BUILTIN(fabs)(p[i * sx + 1]) == (TYPE)INFINITY);
      return;
    default:
      EACH o[i * so] = (p[i * sx] - p[i * sx] == 0) & (p[i * sx + 1] - p[i * sx + 1] == 0);
  }
}

BLOCK_LOOP NAME(take_apart)(ptrdiff_t n, const TYPE *from, ptrdiff_t stride, TYPE *re, TYPE *im) {
  if (stride == 2) {
    EACH {
      re[i] = from[2 * i];
      im[i] = from[2 * i + 1];
    }
  } else {
    for (ptrdiff_t i = 0; i < n; i++) {
      re[i] = from[i * stride];
      im[i] = from[i * stride + 1];
    }
  }
}

/* Runs an op along one axis. Strides are in bytes. */
static void NAME(run)(int op, ptrdiff_t n, char *const *at, const ptrdiff_t *strides, bool binary) {
  const ptrdiff_t size = (ptrdiff_t)sizeof(TYPE);
  const TYPE *x = (const TYPE *)at[1], *y = binary ? (const TYPE *)at[2] : NULL;
  const ptrdiff_t sx = strides[1] / size, sy = binary ? strides[2] / size : 0;
  if (gives_bool(op)) {
    NAME(compare_dense)(op, n, (uint8_t *)at[0], x, sx, y, sy, strides[0]);
    return;
  }
  TYPE *out = (TYPE *)at[0];
  const ptrdiff_t so = strides[0] / size;
  if (op == RM_COMPLEX_MUL && so == 2 && sx == 2 && (sy == 2 || sy == 0)) {
    NAME(mul_dense)(n, out, x, y, sy == 0);
    return;
  }
  const bool pairs = !gives_float(op);
  TYPE parts[6][RM_COMPLEX_BLOCK];
  TYPE *xr = parts[0], *xi = parts[1], *yr = binary ? parts[2] : NULL, *yi = parts[3];
  TYPE *re = parts[4], *im = parts[5];
  for (ptrdiff_t from = 0; from < n; from += RM_COMPLEX_BLOCK) {
    const ptrdiff_t m = rm_min(n - from, RM_COMPLEX_BLOCK);
    NAME(take_apart)(m, x + from * sx, sx, xr, xi);
    if (binary && (from == 0 || sy != 0)) {
      /* A number beside all others is taken apart once. */
      NAME(take_apart)(m, y + from * sy, sy, yr, yi);
    }
    if (!NAME(fast_block)(op, m, xr, xi, yr, yi, re, im)) {
      NAME(rm_complex_block)(op, m, xr, xi, yr, yi, re, im);
    }
    TYPE *o = out + from * so;
    if (!pairs) {
      for (ptrdiff_t i = 0; i < m; i++) o[i * so] = re[i];
    } else if (so == 2) {
      RM_ANY_ORDER_SMALL for (ptrdiff_t i = 0; i < m; i++) {
        o[2 * i] = re[i];
        o[2 * i + 1] = im[i];
      }
    } else {
      for (ptrdiff_t i = 0; i < m; i++) {
        o[i * so] = re[i];
        o[i * so + 1] = im[i];
      }
    }
  }
}

#undef LANES
#undef NAME
#undef BLOCK_LOOP
#undef EACH
#undef EACH_LIGHT
#undef TYPE
#undef SUFFIX
#undef BUILTIN
#undef EXP_BOUND
#undef SQUARE_LEAST
#undef SQUARE_MOST
#undef ANGLE_BOUND
