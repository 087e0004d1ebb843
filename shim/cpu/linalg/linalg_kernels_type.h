/*
 * The vector kernels of one element type: TYPE with parts of REAL, named by SUFFIX; with COMPLEX if it
 * is complex.
 */
#define NAME(name) RM_SUFFIXED(name, SUFFIX)
#if defined(COMPLEX)
#define CONJ(x) (~(x))
#else
#define CONJ(x) (x)
#endif

#if defined(__AVX2__)
#define WIDTH (32 / (ptrdiff_t)sizeof(REAL))
#else
#define WIDTH (16 / (ptrdiff_t)sizeof(REAL))
#endif
typedef REAL NAME(lanes) __attribute__((vector_size(WIDTH * sizeof(REAL)), aligned(sizeof(REAL))));
#define LANES NAME(lanes)
#define AT(p) (*(LANES *)(p))
#define IN(p) (*(const LANES *)(p))

#if !defined(COMPLEX)
static REAL NAME(sum_lanes)(LANES x) {
  REAL sum = 0;
  for (int i = 0; i < WIDTH; i++) sum += x[i];
  return sum;
}

static void NAME(axpy)(ptrdiff_t n, TYPE a, const TYPE *x, TYPE *y) {
  ptrdiff_t i = 0;
  RM_ROLLED for (; i + WIDTH <= n; i += WIDTH) AT(y + i) += a * IN(x + i);
  RM_SCALAR for (; i < n; i++) y[i] += a * x[i];
}

static TYPE NAME(dot)(ptrdiff_t n, const TYPE *x, const TYPE *y) {
  LANES first = {0}, second = {0};
  ptrdiff_t i = 0;
  RM_ROLLED for (; i + 2 * WIDTH <= n; i += 2 * WIDTH) {
    first += IN(x + i) * IN(y + i);
    second += IN(x + i + WIDTH) * IN(y + i + WIDTH);
  }
  if (i + WIDTH <= n) {
    first += IN(x + i) * IN(y + i);
    i += WIDTH;
  }
  TYPE sum = NAME(sum_lanes)(first + second);
  RM_SCALAR for (; i < n; i++) sum += x[i] * y[i];
  return sum;
}

static void NAME(gemv)(ptrdiff_t m, ptrdiff_t n, const TYPE *a, ptrdiff_t ld, const TYPE *x,
                       TYPE *y) {
  ptrdiff_t j = 0;
  for (; j + 4 <= n; j += 4, a += 4 * ld) {
    const TYPE *b = a + ld, *c = b + ld, *d = c + ld;
    const TYPE p = x[j], q = x[j + 1], r = x[j + 2], s = x[j + 3];
    ptrdiff_t i = 0;
    RM_ROLLED for (; i + WIDTH <= m; i += WIDTH) {
      const LANES low = AT(y + i) + p * IN(a + i) + q * IN(b + i);
      AT(y + i) = low + (r * IN(c + i) + s * IN(d + i));
    }
    RM_SCALAR for (; i < m; i++) y[i] += (p * a[i] + q * b[i]) + (r * c[i] + s * d[i]);
  }
  for (; j < n; j++, a += ld) NAME(axpy)(m, x[j], a, y);
}

static void NAME(gemv_adjoint)(ptrdiff_t m, ptrdiff_t n, const TYPE *a, ptrdiff_t ld, const TYPE *x,
                               TYPE *y) {
  ptrdiff_t j = 0;
  for (; j + 4 <= n; j += 4, a += 4 * ld) {
    const TYPE *b = a + ld, *c = b + ld, *d = c + ld;
    LANES p = {0}, q = {0}, r = {0}, s = {0};
    ptrdiff_t i = 0;
    RM_ROLLED for (; i + WIDTH <= m; i += WIDTH) {
      const LANES one = IN(x + i);
      p += IN(a + i) * one;
      q += IN(b + i) * one;
      r += IN(c + i) * one;
      s += IN(d + i) * one;
    }
    TYPE w[4] = {NAME(sum_lanes)(p), NAME(sum_lanes)(q), NAME(sum_lanes)(r), NAME(sum_lanes)(s)};
    RM_SCALAR for (; i < m; i++) {
      w[0] += a[i] * x[i], w[1] += b[i] * x[i], w[2] += c[i] * x[i], w[3] += d[i] * x[i];
    }
    memcpy(y + j, w, sizeof w);
  }
  for (; j < n; j++, a += ld) y[j] = NAME(dot)(m, a, x);
}

static void NAME(hemv)(ptrdiff_t n, const TYPE *a, ptrdiff_t ld, const TYPE *x, TYPE *y) {
  memset(y, 0, (size_t)n * sizeof *y);
  ptrdiff_t j = 0;
  for (; j + 2 <= n; j += 2) {
    const TYPE *p = a + j * ld, *q = p + ld;
    const TYPE u = x[j], v = x[j + 1];
    LANES first = {0}, second = {0};
    ptrdiff_t i = j + 2;
    RM_ROLLED for (; i + WIDTH <= n; i += WIDTH) {
      AT(y + i) += u * IN(p + i) + v * IN(q + i);
      first += IN(p + i) * IN(x + i);
      second += IN(q + i) * IN(x + i);
    }
    TYPE low = NAME(sum_lanes)(first), high = NAME(sum_lanes)(second);
    RM_SCALAR for (; i < n; i++) {
      y[i] += u * p[i] + v * q[i];
      low += p[i] * x[i];
      high += q[i] * x[i];
    }
    y[j] += low + p[j] * u + p[j + 1] * v;
    y[j + 1] += high + p[j + 1] * u + q[j + 1] * v;
  }
  if (j < n) y[j] += a[j * ld + j] * x[j];
}
#else
static void NAME(axpy)(ptrdiff_t n, TYPE a, const TYPE *x, TYPE *y) {
  const REAL p = __real__ a, q = __imag__ a;
  const REAL *from = (const REAL *)x;
  REAL *to = (REAL *)y;
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
    const REAL u = from[2 * i], v = from[2 * i + 1];
    to[2 * i] += p * u - q * v;
    to[2 * i + 1] += p * v + q * u;
  }
}

static TYPE NAME(dot)(ptrdiff_t n, const TYPE *x, const TYPE *y) {
  const REAL *p = (const REAL *)x, *q = (const REAL *)y;
  /* Sums of four, so that the additions do not wait for each other. */
  REAL re[4] = {0}, im[4] = {0};
  ptrdiff_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int k = 0; k < 4; k++) {
      const REAL a = p[2 * (i + k)], b = p[2 * (i + k) + 1];
      const REAL c = q[2 * (i + k)], d = q[2 * (i + k) + 1];
      re[k] += a * c + b * d;
      im[k] += a * d - b * c;
    }
  }
  for (; i < n; i++) {
    re[0] += p[2 * i] * q[2 * i] + p[2 * i + 1] * q[2 * i + 1];
    im[0] += p[2 * i] * q[2 * i + 1] - p[2 * i + 1] * q[2 * i];
  }
  TYPE sum = 0;
  __real__ sum = (re[0] + re[1]) + (re[2] + re[3]);
  __imag__ sum = (im[0] + im[1]) + (im[2] + im[3]);
  return sum;
}

static void NAME(gemv)(ptrdiff_t m, ptrdiff_t n, const TYPE *a, ptrdiff_t ld, const TYPE *x,
                       TYPE *y) {
  for (ptrdiff_t j = 0; j < n; j++) NAME(axpy)(m, x[j], a + j * ld, y);
}

static void NAME(gemv_adjoint)(ptrdiff_t m, ptrdiff_t n, const TYPE *a, ptrdiff_t ld, const TYPE *x,
                               TYPE *y) {
  for (ptrdiff_t j = 0; j < n; j++) y[j] = NAME(dot)(m, a + j * ld, x);
}

static void NAME(hemv)(ptrdiff_t n, const TYPE *a, ptrdiff_t ld, const TYPE *x, TYPE *y) {
  memset(y, 0, (size_t)n * sizeof *y);
  for (ptrdiff_t j = 0; j < n; j++) {
    const TYPE *p = a + j * ld;
    NAME(axpy)(n - j - 1, x[j], p + j + 1, y + j + 1);
    y[j] += NAME(dot)(n - j - 1, p + j + 1, x + j + 1) + __real__ p[j] * x[j];
  }
}
#endif

/* In blocks, so that neither side leaves the cache. */
static void NAME(copy)(ptrdiff_t m, ptrdiff_t n, const TYPE *from, ptrdiff_t row, ptrdiff_t column,
                       TYPE *to, ptrdiff_t to_row, ptrdiff_t to_column) {
  enum { BLOCK = 16, BYTES = sizeof(TYPE) };
  for (ptrdiff_t q = 0; q < n; q += BLOCK) {
    for (ptrdiff_t p = 0; p < m; p += BLOCK) {
      const ptrdiff_t rows = rm_min(m - p, BLOCK), columns = rm_min(n - q, BLOCK);
      TYPE *y = to + p * to_row + q * to_column;
      const TYPE *x = from + p * row + q * column;
      if (BYTES <= 8) {
        RM_FOR_ISA(copy_block)((block){(char *)y, to_row * BYTES, to_column * BYTES},
                               (block){(char *)x, row * BYTES, column * BYTES}, rows, columns,
                               BYTES);
        continue;
      }
      for (ptrdiff_t j = 0; j < columns; j++) {
        RM_SCALAR for (ptrdiff_t i = 0; i < rows; i++) {
          y[i * to_row + j * to_column] = x[i * row + j * column];
        }
      }
    }
  }
}

static void NAME(rank1)(ptrdiff_t m, ptrdiff_t n, const TYPE *x, const TYPE *c, TYPE *a,
                        ptrdiff_t ld) {
  for (ptrdiff_t j = 0; j < n; j++) NAME(axpy)(m, c[j], x, a + j * ld);
}

static void NAME(her2)(ptrdiff_t n, const TYPE *x, const TYPE *y, TYPE *a, ptrdiff_t ld) {
  for (ptrdiff_t j = 0; j < n; j++) {
    TYPE *to = a + j * ld;
#if defined(COMPLEX)
    NAME(axpy)(n - j, -CONJ(y[j]), x + j, to + j);
    NAME(axpy)(n - j, -CONJ(x[j]), y + j, to + j);
#else
    const TYPE p = y[j], q = x[j];
    ptrdiff_t i = j;
    RM_ROLLED for (; i + WIDTH <= n; i += WIDTH) AT(to + i) -= p * IN(x + i) + q * IN(y + i);
    RM_SCALAR for (; i < n; i++) to[i] -= p * x[i] + q * y[i];
#endif
  }
}

static void NAME(rotate)(ptrdiff_t rows, ptrdiff_t count, const REAL *cs, REAL *z, ptrdiff_t ld) {
  ptrdiff_t i = 0;
  RM_ROLLED for (; i + 4 * WIDTH <= rows; i += 4 * WIDTH) {
    REAL *at = z + i;
    LANES p = IN(at), q = IN(at + WIDTH), r = IN(at + 2 * WIDTH), s = IN(at + 3 * WIDTH);
    RM_ROLLED for (ptrdiff_t k = 0; k < count; k++, at += ld) {
      const REAL c = cs[2 * k], t = cs[2 * k + 1];
      REAL *next = at + ld;
      const LANES e = IN(next), f = IN(next + WIDTH), g = IN(next + 2 * WIDTH),
                  h = IN(next + 3 * WIDTH);
      AT(at) = c * p + t * e;
      AT(at + WIDTH) = c * q + t * f;
      AT(at + 2 * WIDTH) = c * r + t * g;
      AT(at + 3 * WIDTH) = c * s + t * h;
      p = c * e - t * p, q = c * f - t * q, r = c * g - t * r, s = c * h - t * s;
    }
    AT(at) = p, AT(at + WIDTH) = q, AT(at + 2 * WIDTH) = r, AT(at + 3 * WIDTH) = s;
  }
  RM_ROLLED for (; i + WIDTH <= rows; i += WIDTH) {
    REAL *at = z + i;
    LANES p = IN(at);
    RM_ROLLED for (ptrdiff_t k = 0; k < count; k++, at += ld) {
      const LANES e = IN(at + ld);
      AT(at) = cs[2 * k] * p + cs[2 * k + 1] * e;
      p = cs[2 * k] * e - cs[2 * k + 1] * p;
    }
    AT(at) = p;
  }
  RM_ROLLED for (; i < rows; i++) {
    REAL *at = z + i;
    REAL p = *at;
    RM_ROLLED for (ptrdiff_t k = 0; k < count; k++, at += ld) {
      const REAL e = at[ld];
      *at = cs[2 * k] * p + cs[2 * k + 1] * e;
      p = cs[2 * k] * e - cs[2 * k + 1] * p;
    }
    *at = p;
  }
}

#if !defined(COMPLEX)
static void NAME(reflect)(ptrdiff_t rows, int count, REAL b, REAL c, REAL tau, REAL *x,
                          ptrdiff_t ld) {
  REAL *y = x + ld, *z = y + ld;
  ptrdiff_t i = 0;
  if (count == 2) {
    RM_ROLLED for (; i + WIDTH <= rows; i += WIDTH) {
      const LANES sum = tau * (IN(x + i) + b * IN(y + i));
      AT(x + i) -= sum;
      AT(y + i) -= sum * b;
    }
    RM_SCALAR for (; i < rows; i++) {
      const REAL sum = tau * (x[i] + b * y[i]);
      x[i] -= sum;
      y[i] -= sum * b;
    }
    return;
  }
  RM_ROLLED for (; i + WIDTH <= rows; i += WIDTH) {
    const LANES sum = tau * (IN(x + i) + b * IN(y + i) + c * IN(z + i));
    AT(x + i) -= sum;
    AT(y + i) -= sum * b;
    AT(z + i) -= sum * c;
  }
  RM_SCALAR for (; i < rows; i++) {
    const REAL sum = tau * (x[i] + b * y[i] + c * z[i]);
    x[i] -= sum;
    y[i] -= sum * b;
    z[i] -= sum * c;
  }
}

#include "cholesky_type.h"
#include "jacobi_type.h"
#endif

static const NAME(rm_blas) NAME(blas) = {
    NAME(copy),  NAME(dot),  NAME(axpy), NAME(gemv), NAME(gemv_adjoint),
    NAME(rank1), NAME(hemv), NAME(her2), NAME(rotate),
#if defined(COMPLEX)
    NULL,          0,     NULL,                 NULL,         NULL,
#else
    NAME(reflect), WIDTH, NAME(cholesky_lanes),
#if defined(NARROW)
    NULL,
#else
    NAME(jacobi),
#endif
    NAME(cholesky_columns),
#endif
};

#undef NAME
#undef TYPE
#undef REAL
#undef SUFFIX
#undef COMPLEX
#undef NARROW
#undef CONJ
#undef WIDTH
#undef LANES
#undef AT
#undef IN
