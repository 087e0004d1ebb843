/*
 * Part of driver.c: linear algebra, by the equations that the results satisfy.
 */

#include <complex.h>
#include "linalg.h"

typedef double _Complex number;

/* A batch of matrices in a buffer: the first element of each, in elements, and strides. */
typedef struct {
  const buffer *of;
  int dtype;
  bool is_complex;
  ptrdiff_t at, row, column;
} matrix;

static number element(const matrix *m, ptrdiff_t i, ptrdiff_t j) {
  const ptrdiff_t at = m->at + i * m->row + j * m->column;
  if (!m->is_complex) return get(m->dtype, m->of->data, at);
  number x = get(m->dtype, m->of->data, 2 * at);
  __imag__ x = get(m->dtype, m->of->data, 2 * at + 1);
  return x;
}

static number adjoint_element(const matrix *m, ptrdiff_t i, ptrdiff_t j) {
  return ~element(m, j, i);
}

typedef number element_of(const matrix *m, ptrdiff_t i, ptrdiff_t j);

static number dot_product(const matrix *a, element_of *of_a, const matrix *b, element_of *of_b,
                          ptrdiff_t i, ptrdiff_t j, ptrdiff_t count) {
  number sum = 0;
  for (ptrdiff_t k = 0; k < count; k++) sum += of_a(a, i, k) * of_b(b, k, j);
  return sum;
}

static void check_near(number x, number y, double error, const char *what) {
  const number d = x - y;
  if (!(fabs(__real__ d) + fabs(__imag__ d) <= error)) fail(what);
}

/* Which elements of a large matrix are compared. */
static bool compares(ptrdiff_t i, ptrdiff_t j, ptrdiff_t n) {
  return n <= 24 || (i * 31 + j * 17) % n < 20 * 24 / n;
}

typedef struct {
  int kind, dtype;
  bool is_complex, flag, unit;
  ptrdiff_t m, n, k, batch;
} linalg_case;

static const char *const linalg_names[] = {
    "cholesky", "lu",   "det",      "slogdet", "inv",     "solve", "solveTriangular", "qr",
    "eigh",     "eigvalsh", "svd", "svdvals", "eig",     "eigvals", "expm"};

/* Lays out a batch of matrices of m by n, and fills it: Hermitian with a large diagonal, or any. */
static buffer make_matrices(const linalg_case *c, ptrdiff_t m, ptrdiff_t n, bool is_hermitian,
                            double diagonal, double *at, double *row, double *column) {
  const int parts = c->is_complex ? 2 : 1;
  const bool by_columns = below(2), has_gaps = below(3) == 0;
  const ptrdiff_t gap = has_gaps ? 2 : 0, length = by_columns ? m + gap : n + gap;
  *row = by_columns ? 1 : (double)length;
  *column = by_columns ? (double)length : 1;
  const ptrdiff_t lines = by_columns ? n : m, each = lines * length, offset = below(MARGIN);
  /* The last line has no gap. */
  buffer b = make(c->dtype, (offset + c->batch * each - gap) * parts, SMALL);
  for (ptrdiff_t one = 0; one < c->batch; one++) {
    at[one] = (double)(offset + one * each);
    for (ptrdiff_t i = 0; i < m; i++) {
      for (ptrdiff_t j = 0; j < n; j++) {
        const ptrdiff_t to = (ptrdiff_t)at[one] + i * (ptrdiff_t)*row + j * (ptrdiff_t)*column;
        const ptrdiff_t other = (ptrdiff_t)at[one] + j * (ptrdiff_t)*row + i * (ptrdiff_t)*column;
        if (is_hermitian && j > i) continue;
        if (is_hermitian) {
          put_number(c->dtype, b.data, parts * other, get(c->dtype, b.data, parts * to));
          if (parts == 2) {
            const double im = i == j ? 0 : get(c->dtype, b.data, 2 * to + 1);
            put_number(c->dtype, b.data, 2 * to + 1, im);
            put_number(c->dtype, b.data, 2 * other + 1, -im);
          }
        }
        if (i == j) put_number(c->dtype, b.data, parts * to, get(c->dtype, b.data, parts * to) + diagonal);
      }
    }
  }
  memcpy(b.before, b.data, b.bytes);
  return b;
}

/* The logarithm of the magnitude of a determinant, and its angle as a number, by elimination. */
static double naive_determinant(const matrix *a, ptrdiff_t n, number *sign) {
  number *x = malloc((size_t)(n * n) * sizeof *x);
  if (x == NULL) fail("no memory");
  for (ptrdiff_t i = 0; i < n * n; i++) x[i] = element(a, i / n, i % n);
  double size = 0;
  *sign = 1;
  for (ptrdiff_t p = 0; p < n; p++) {
    ptrdiff_t best = p;
    for (ptrdiff_t i = p; i < n; i++) {
      if (hypot(__real__ x[i * n + p], __imag__ x[i * n + p]) >
          hypot(__real__ x[best * n + p], __imag__ x[best * n + p])) {
        best = i;
      }
    }
    if (best != p) *sign = -*sign;
    for (ptrdiff_t j = 0; j < n; j++) {
      const number one = x[p * n + j];
      x[p * n + j] = x[best * n + j], x[best * n + j] = one;
    }
    const number pivot = x[p * n + p];
    const double most = hypot(__real__ pivot, __imag__ pivot);
    if (most < 1e-9) size = -INFINITY;
    if (most < 1e-9) break;
    size += log(most);
    *sign *= pivot / most;
    for (ptrdiff_t i = p + 1; i < n; i++) {
      const number factor = x[i * n + p] / pivot;
      for (ptrdiff_t j = p; j < n; j++) x[i * n + j] -= factor * x[p * n + j];
    }
  }
  free(x);
  return size;
}

/* to = a b */
static void naive_product(ptrdiff_t n, const number *a, const number *b, number *to) {
  for (ptrdiff_t i = 0; i < n; i++) {
    for (ptrdiff_t j = 0; j < n; j++) {
      number sum = 0;
      for (ptrdiff_t k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
      to[i * n + j] = sum;
    }
  }
}

/* Writes the exponential of a, and returns its largest element: the series for a / 2^squarings. */
static double naive_exponential(const matrix *a, ptrdiff_t n, number *x, number *work) {
  enum { TERMS = 20 };
  const ptrdiff_t size = n * n;
  number *term = work, *power = work + size, *other = work + 2 * size;
  double norm = 0;
  for (ptrdiff_t i = 0; i < size; i++) {
    const number one = element(a, i / n, i % n);
    norm += hypot(__real__ one, __imag__ one);
  }
  const int squarings = norm > 0.5 ? (int)ceil(log2(norm / 0.5)) : 0;
  for (ptrdiff_t i = 0; i < size; i++) {
    power[i] = element(a, i / n, i % n) * exp2(-squarings);
    x[i] = term[i] = i % (n + 1) == 0;
  }
  for (int k = 1; k < TERMS; k++) {
    naive_product(n, term, power, other);
    for (ptrdiff_t i = 0; i < size; i++) x[i] += term[i] = other[i] / k;
  }
  for (int k = 0; k < squarings; k++) {
    naive_product(n, x, x, other);
    memcpy(x, other, (size_t)size * sizeof *x);
  }
  double most = 0;
  for (ptrdiff_t i = 0; i < size; i++) most = fmax(most, hypot(__real__ x[i], __imag__ x[i]));
  return most;
}

static void check_exponential(const matrix *a, const matrix *e, ptrdiff_t n, double error) {
  number *x = malloc((size_t)(4 * n * n) * sizeof *x);
  if (x == NULL) fail("no memory");
  const double most = naive_exponential(a, n, x, x + n * n);
  for (ptrdiff_t i = 0; i < n * n && most < 1e30; i++) {
    check_near(element(e, i / n, i % n), x[i], most * error, "the exponential is another one");
  }
  free(x);
}

static matrix rows_of(const buffer *b, int dtype, bool is_complex, ptrdiff_t index, ptrdiff_t m,
                      ptrdiff_t n) {
  return (matrix){b, dtype, is_complex, index * m * n, n, 1};
}

/* Checks the results for matrix `index` of the batch, a and b. */
static void check_linalg(const linalg_case *c, ptrdiff_t index, const matrix *a, const matrix *b,
                         const buffer *out) {
  const ptrdiff_t m = c->m, n = c->n, k = c->k, least = rm_min(m, n), most = m > n ? m : n;
  const double eps = (c->dtype == RM_FLOAT32 ? 2e-6 : 1e-14) * (double)(most + 10);
  /* Elements are up to 8, and the diagonal of some about 20 times their number. */
  const double error = eps * 40 * (double)(most + 4);
  switch (c->kind) {
    case RM_LINALG_CHOLESKY: {
      const matrix l = rows_of(out, c->dtype, c->is_complex, index, n, n);
      for (ptrdiff_t i = 0; i < n; i++) {
        for (ptrdiff_t j = 0; j < n; j++) {
          if ((c->flag ? j < i : j > i) && element(&l, i, j) != 0) fail("the other triangle is not 0");
          if (!compares(i, j, n)) continue;
          check_near(c->flag ? dot_product(&l, adjoint_element, &l, element, i, j, n)
                             : dot_product(&l, element, &l, adjoint_element, i, j, n),
                     element(a, i, j), error, "the factor is another one");
        }
      }
      return;
    }
    case RM_LINALG_LU: {
      const matrix l = rows_of(out, c->dtype, c->is_complex, index, m, least);
      const matrix u = rows_of(out + 1, c->dtype, c->is_complex, index, least, n);
      for (ptrdiff_t i = 0; i < m; i++) {
        const int32_t from = ((const int32_t *)out[2].data)[index * m + i];
        if (from < 0 || from >= m) fail("no row");
        for (ptrdiff_t j = 0; j < n; j++) {
          if (!compares(i, j, most)) continue;
          check_near(dot_product(&l, element, &u, element, i, j, least), element(a, from, j), error,
                     "the factors are others");
        }
      }
      return;
    }
    case RM_LINALG_DET:
    case RM_LINALG_SLOGDET: {
      number sign;
      const double size = naive_determinant(a, n, &sign);
      const matrix d = rows_of(out, c->dtype, c->is_complex, index, 1, 1);
      const double by = c->kind == RM_LINALG_DET ? exp(size) : 1;
      if (!(by < 1e30) || size < -5) return;
      check_near(element(&d, 0, 0), sign * by, by * error, "the determinant is another one");
      if (c->kind == RM_LINALG_SLOGDET) {
        check_near(get(c->dtype, out[1].data, index), size, error, "its logarithm is another one");
      }
      return;
    }
    case RM_LINALG_INV:
    case RM_LINALG_SOLVE:
    case RM_LINALG_SOLVE_TRIANGULAR: {
      const matrix x = rows_of(out, c->dtype, c->is_complex, index, n, k);
      for (ptrdiff_t i = 0; i < n; i++) {
        for (ptrdiff_t j = 0; j < k; j++) {
          if (!compares(i, j, n)) continue;
          number sum = 0;
          for (ptrdiff_t p = 0; p < n; p++) {
            number one = element(a, i, p);
            if (c->kind == RM_LINALG_SOLVE_TRIANGULAR) {
              if (c->flag ? p < i : p > i) one = 0;
              if (c->unit && p == i) one = 1;
            }
            sum += one * element(&x, p, j);
          }
          check_near(sum, c->kind == RM_LINALG_INV ? (number)(i == j) : element(b, i, j), error,
                     "it is no solution");
        }
      }
      return;
    }
    case RM_LINALG_QR: {
      const ptrdiff_t count = c->flag ? m : least;
      const matrix q = rows_of(out, c->dtype, c->is_complex, index, m, count);
      const matrix r = rows_of(out + 1, c->dtype, c->is_complex, index, count, n);
      for (ptrdiff_t i = 0; i < most; i++) {
        for (ptrdiff_t j = 0; j < most; j++) {
          if (!compares(i, j, most)) continue;
          if (i < m && j < n) {
            check_near(dot_product(&q, element, &r, element, i, j, count), element(a, i, j), error,
                       "the factors are others");
          }
          if (i < count && j < count) {
            check_near(dot_product(&q, adjoint_element, &q, element, i, j, m), i == j, eps * 10,
                       "columns are not orthogonal");
          }
        }
      }
      return;
    }
    case RM_LINALG_EIGH: {
      const matrix v = rows_of(out + 1, c->dtype, c->is_complex, index, n, n);
      for (ptrdiff_t i = 0; i < n; i++) {
        for (ptrdiff_t j = 0; j < n; j++) {
          if (!compares(i, j, n)) continue;
          check_near(dot_product(a, element, &v, element, i, j, n),
                     element(&v, i, j) * get(c->dtype, out[0].data, index * n + j), error,
                     "it is no eigenvector");
          check_near(dot_product(&v, adjoint_element, &v, element, i, j, n), i == j, eps * 10,
                     "vectors are not orthogonal");
        }
      }
      return;
    }
    case RM_LINALG_EIGVALSH:
    case RM_LINALG_SVDVALS: {
      /* The sum, or that of squares. */
      double sum = 0, expected = 0;
      for (ptrdiff_t i = 0; i < m; i++) {
        for (ptrdiff_t j = 0; j < n; j++) {
          const number x = element(a, i, j);
          if (c->kind == RM_LINALG_SVDVALS) expected += __real__(x * ~x);
          else if (i == j) expected += __real__ x;
        }
      }
      for (ptrdiff_t i = 0; i < least; i++) {
        const double x = get(c->dtype, out[0].data, index * least + i);
        sum += c->kind == RM_LINALG_SVDVALS ? x * x : x;
      }
      check_near(sum, expected, eps * 10 * (fabs(expected) + 10), "the values are others");
      return;
    }
    case RM_LINALG_SVD: {
      const ptrdiff_t rows = c->flag ? m : least, columns = c->flag ? n : least;
      const matrix u = rows_of(out, c->dtype, c->is_complex, index, m, rows);
      const matrix v = rows_of(out + 2, c->dtype, c->is_complex, index, columns, n);
      for (ptrdiff_t i = 0; i < most; i++) {
        for (ptrdiff_t j = 0; j < most; j++) {
          if (!compares(i, j, most)) continue;
          number sum = 0;
          for (ptrdiff_t p = 0; p < least && i < m && j < n; p++) {
            sum += element(&u, i, p) * element(&v, p, j) * get(c->dtype, out[1].data, index * least + p);
          }
          if (i < m && j < n) check_near(sum, element(a, i, j), error, "the factors are others");
          if (i < rows && j < rows) {
            check_near(dot_product(&u, adjoint_element, &u, element, i, j, m), i == j, eps * 10,
                       "columns are not orthogonal");
          }
          if (i < columns && j < columns) {
            check_near(dot_product(&v, element, &v, adjoint_element, i, j, n), i == j, eps * 10,
                       "rows are not orthogonal");
          }
        }
      }
      return;
    }
    case RM_LINALG_EXPM: {
      const matrix e = rows_of(out, c->dtype, c->is_complex, index, n, n);
      if (n <= 12) check_exponential(a, &e, n, error);
      return;
    }
    case RM_LINALG_EIG:
    case RM_LINALG_EIGVALS: {
      const matrix values = rows_of(out, c->dtype, true, index, 1, n);
      const matrix v = rows_of(out + 1, c->dtype, true, index, n, n);
      number sum = 0;
      for (ptrdiff_t j = 0; j < n; j++) {
        sum += element(a, j, j) - element(&values, 0, j);
        for (ptrdiff_t i = 0; i < n && c->kind == RM_LINALG_EIG; i++) {
          if (!compares(i, j, n)) continue;
          check_near(dot_product(a, element, &v, element, i, j, n),
                     element(&v, i, j) * element(&values, 0, j), error, "it is no eigenvector");
        }
      }
      check_near(sum, 0, error * (double)n, "the values are others");
      return;
    }
  }
}

static void run_linalg(linalg_case c, enum content content, int threads) {
  snprintf(about, sizeof about, "%s of dtype %d, complex %d, flag %d, %td of [%td, %td], %td columns",
           linalg_names[c.kind], c.dtype, c.is_complex, c.flag, c.batch, c.m, c.n, c.k);
  enum { MOST = 8 };
  double numbers[RM_ATTRIBUTES + RM_LINALG_AT_OFFSETS + 2 * MOST] = {0}, *at = numbers + RM_ATTRIBUTES;
  const double own[] = {7,           c.kind,      c.is_complex, c.flag,         c.unit,
                        (double)c.m, (double)c.n, (double)c.k,  (double)c.batch};
  memcpy(at, own, sizeof own);
  const bool is_hermitian = c.kind == RM_LINALG_CHOLESKY || c.kind == RM_LINALG_EIGH ||
                            c.kind == RM_LINALG_EIGVALSH;
  const bool has_b = c.kind == RM_LINALG_SOLVE || c.kind == RM_LINALG_SOLVE_TRIANGULAR;
  /* Systems and Cholesky factors are of matrices with a large diagonal. */
  const bool is_definite = c.kind == RM_LINALG_CHOLESKY || c.kind == RM_LINALG_INV || has_b;
  buffer a = make_matrices(&c, c.m, c.n, is_hermitian, is_definite ? 18.0 * (double)c.n : 0,
                           at + RM_LINALG_AT_OFFSETS, at + RM_LINALG_AT_A_ROW,
                           at + RM_LINALG_AT_A_COLUMN);
  buffer b = {0};
  if (has_b) {
    b = make_matrices(&c, c.n, c.k, false, 0, at + RM_LINALG_AT_OFFSETS + c.batch,
                      at + RM_LINALG_AT_B_ROW, at + RM_LINALG_AT_B_COLUMN);
  }
  if (content == ANY_BITS) {
    for (size_t i = 0; i < a.bytes; i++) a.data[i] = (unsigned char)any();
    memcpy(a.before, a.data, a.bytes);
  }
  /* The sizes of the outputs, in numbers of a dtype. */
  const ptrdiff_t least = rm_min(c.m, c.n), rows = c.flag ? c.m : least, columns = c.flag ? c.n : least;
  const ptrdiff_t parts = c.is_complex ? 2 : 1, m = c.m, n = c.n;
  ptrdiff_t size[3] = {0};
  int dtypes[3] = {c.dtype, c.dtype, c.dtype};
  switch (c.kind) {
    case RM_LINALG_CHOLESKY: size[0] = n * n * parts; break;
    case RM_LINALG_LU:
      size[0] = m * least * parts, size[1] = least * n * parts, size[2] = m;
      dtypes[2] = RM_INT32;
      break;
    case RM_LINALG_DET: size[0] = parts; break;
    case RM_LINALG_SLOGDET: size[0] = parts, size[1] = 1; break;
    case RM_LINALG_QR: size[0] = m * rows * parts, size[1] = rows * n * parts; break;
    case RM_LINALG_EIGH: size[0] = n, size[1] = n * n * parts; break;
    case RM_LINALG_EIGVALSH:
    case RM_LINALG_SVDVALS: size[0] = least; break;
    case RM_LINALG_SVD:
      size[0] = m * rows * parts, size[1] = least, size[2] = columns * n * parts;
      break;
    case RM_LINALG_EIG: size[0] = 2 * n, size[1] = 2 * n * n; break;
    case RM_LINALG_EIGVALS: size[0] = 2 * n; break;
    default: size[0] = n * c.k * parts;
  }
  buffer out[3] = {{0}};
  for (int i = 0; i < 3; i++) {
    if (size[i] > 0) out[i] = make(dtypes[i], size[i] * c.batch, ANY_BITS);
  }
  const int32_t types = pack(c.dtype, c.dtype, has_b ? c.dtype : RM_NONE, size[1] ? dtypes[1] : RM_NONE);
  const int32_t more = pack(size[2] ? dtypes[2] : RM_NONE, RM_NONE, RM_NONE, RM_NONE);
  SAME_WITH_ONE_THREAD(threads, &out[0],
                       run_many(kernel(linalg_names[c.kind]), types, more, c.dtype, numbers,
                                   out[0].data, a.data, b.data, out[1].data, out[2].data, NULL, NULL,
                                   NULL));
  check_unchanged(&a);
  check_unchanged(&b);
  /* Integers may be singular; other results are then as they were. */
  const double failure = at[RM_LINALG_AT_FAILURE];
  if (content == SMALL && failure >= 0 && is_definite) fail("it has failed");
  if (content == SMALL && failure < 0) {
    for (ptrdiff_t i = 0; i < c.batch; i++) {
      const matrix own_a = {&a, c.dtype, c.is_complex, (ptrdiff_t)at[RM_LINALG_AT_OFFSETS + i],
                            (ptrdiff_t)at[RM_LINALG_AT_A_ROW], (ptrdiff_t)at[RM_LINALG_AT_A_COLUMN]};
      const matrix own_b = {&b, c.dtype, c.is_complex,
                            (ptrdiff_t)at[RM_LINALG_AT_OFFSETS + c.batch + i],
                            (ptrdiff_t)at[RM_LINALG_AT_B_ROW], (ptrdiff_t)at[RM_LINALG_AT_B_COLUMN]};
      check_linalg(&c, i, &own_a, &own_b, out);
    }
    compared++;
  }
  drop(&a);
  if (has_b) drop(&b);
  for (int i = 0; i < 3; i++) {
    if (size[i] > 0) drop(&out[i]);
  }
}

/* All kinds for matrices of up to n rows or columns. */
static void try_linalg(ptrdiff_t n, int threads) {
  for (int kind = 0; kind <= RM_LINALG_EXPM; kind++) {
    for (int type = 0; type < 4; type++) {
      if (n > 70 && below(4) > 0) continue;
      linalg_case c = {.kind = kind, .dtype = type % 2 ? RM_FLOAT64 : RM_FLOAT32, .is_complex = type > 1};
      const bool is_square = kind != RM_LINALG_LU && kind != RM_LINALG_QR && kind != RM_LINALG_SVD &&
                             kind != RM_LINALG_SVDVALS;
      c.n = n;
      c.m = is_square || below(3) == 0 ? n : 1 + below(n);
      if (!is_square && below(2)) c.n = c.m, c.m = n;
      const bool solves = kind == RM_LINALG_SOLVE || kind == RM_LINALG_SOLVE_TRIANGULAR;
      c.k = kind == RM_LINALG_INV || kind == RM_LINALG_EXPM ? n : solves ? 1 + below(below(2) ? 4 : n + 2) : 0;
      c.flag = below(2);
      c.unit = kind == RM_LINALG_SOLVE_TRIANGULAR && below(4) == 0 && n < 6;
      c.batch = n > 20 ? 1 : 1 + below(5);
      run_linalg(c, below(6) ? SMALL : ANY_BITS, threads);
    }
  }
}
