/*
 * A BLAS for tests. It computes with plain loops, counts calls and records the last arguments, so
 * that tests can check what was called and how. Build it as a shared library and set
 * ROWMAJOR_OPENBLAS to its path. It is not thread-safe.
 *
 * PREFIX, SUFFIX and FORTRAN_SUFFIX are what names have around them; with WIDE, integers have 64
 * bits. With LAPACK it has potrf of real matrices, and gesdd of float64, which never converges.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(_WIN32)
#define API __declspec(dllexport)
#else
#define API __attribute__((visibility("default")))
#endif

#if !defined(PREFIX)
#define PREFIX
#define SUFFIX
#define FORTRAN_SUFFIX _
#endif
#define JOIN(a, b, c) a##b##c
#define DECORATED(prefix, name, suffix) JOIN(prefix, name, suffix)
#define NAMED(name) DECORATED(PREFIX, name, SUFFIX)
#define FORTRAN(name) DECORATED(PREFIX, name, FORTRAN_SUFFIX)
#if defined(WIDE)
typedef int64_t integer;
#else
typedef int integer;
#endif

enum { ROW_MAJOR = 101, TRANS = 112 };
enum { SGEMM, DGEMM, SGEMV, DGEMV, SDOT, DDOT, SET_THREADS, POTRF, GESDD, FUNCTIONS };

static int calls[FUNCTIONS];
/* The function, then for GEMM: trans of a and b, m, n, k, lda and ldb, ldc; for GEMV: trans, 0, m,
 * n, 0, lda, and the steps of x and y; for dot: 0, 0, n, 0, 0, the steps of x and y, 0. */
static int last[9];

static void note(int function, integer p, integer q, integer r, integer s, integer t, integer u,
                 integer v, integer w) {
  const int given[9] = {function, (int)p, (int)q, (int)r, (int)s, (int)t, (int)u, (int)v, (int)w};
  for (int i = 0; i < 9; i++) last[i] = given[i];
  calls[function]++;
}

/* Returns how often a function was called: 0 sgemm, 1 dgemm, 2 sgemv, 3 dgemv, 4 sdot, 5 ddot, 6
 * setting threads, 7 potrf, 8 gesdd. Any other number resets all counts. */
API int mock_calls(int which) {
  if (which >= 0 && which < FUNCTIONS) return calls[which];
  for (int i = 0; i < FUNCTIONS; i++) calls[i] = 0;
  return 0;
}

/* The arguments of the last call: trans of a and b, m, n, k, lda, ldb, ldc. */
API void mock_last(int *out8) {
  for (int i = 0; i < 8; i++) out8[i] = last[i + 1];
}

API char *NAMED(openblas_get_config)(void) {
#if defined(WIDE)
  static char config[] = "OpenBLAS mock USE64BITINT";
#else
  static char config[] = "OpenBLAS mock";
#endif
  return config;
}

API void NAMED(openblas_set_num_threads)(int threads) {
  note(SET_THREADS, threads, 0, 0, 0, 0, 0, 0, 0);
}

#define FUNCTIONS_OF(T, GEMM, GEMV, DOT, gemm, gemv, dot)                                          \
  API void NAMED(cblas_##gemm)(int order, int trans_a, int trans_b, integer m, integer n,          \
                               integer k, T alpha, const T *a, integer lda, const T *b,            \
                               integer ldb, T beta, T *c, integer ldc) {                           \
    note(GEMM, trans_a, trans_b, m, n, k, lda, ldb, ldc);                                          \
    if (order != ROW_MAJOR) return;                                                                \
    for (ptrdiff_t i = 0; i < m; i++) {                                                            \
      for (ptrdiff_t j = 0; j < n; j++) {                                                          \
        T sum = 0;                                                                                 \
        for (ptrdiff_t p = 0; p < k; p++) {                                                        \
          sum += (trans_a == TRANS ? a[p * lda + i] : a[i * lda + p]) *                            \
                 (trans_b == TRANS ? b[j * ldb + p] : b[p * ldb + j]);                             \
        }                                                                                          \
        T *to = c + i * ldc + j;                                                                   \
        *to = alpha * sum + (beta == 0 ? 0 : beta * *to);                                          \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  API void cblas_##gemv(int order, int trans, int m, int n, T alpha, const T *a, int lda,          \
                        const T *x, int x_step, T beta, T *y, int y_step) {                        \
    note(GEMV, trans, 0, m, n, 0, lda, x_step, y_step);                                            \
    if (order != ROW_MAJOR) return;                                                                \
    const int rows = trans == TRANS ? n : m, columns = trans == TRANS ? m : n;                     \
    for (ptrdiff_t i = 0; i < rows; i++) {                                                         \
      T sum = 0;                                                                                   \
      for (ptrdiff_t p = 0; p < columns; p++) {                                                    \
        sum += (trans == TRANS ? a[p * lda + i] : a[i * lda + p]) * x[p * x_step];                 \
      }                                                                                            \
      T *to = y + i * y_step;                                                                      \
      *to = alpha * sum + (beta == 0 ? 0 : beta * *to);                                            \
    }                                                                                              \
  }                                                                                                \
  API T cblas_##dot(int n, const T *x, int x_step, const T *y, int y_step) {                       \
    note(DOT, 0, 0, n, 0, 0, x_step, y_step, 0);                                                   \
    T sum = 0;                                                                                     \
    for (ptrdiff_t i = 0; i < n; i++) sum += x[i * x_step] * y[i * y_step];                        \
    return sum;                                                                                    \
  }

FUNCTIONS_OF(float, SGEMM, SGEMV, SDOT, sgemm, sgemv, sdot)
FUNCTIONS_OF(double, DGEMM, DGEMV, DDOT, dgemm, dgemv, ddot)

#if defined(LAPACK)
/* What LAPACK calls for wrong arguments. */
static void require(int condition) {
  if (!condition) abort();
}

#define POTRF_OF(T, potrf)                                                                         \
  API void FORTRAN(potrf)(const char *triangle, const integer *size, T *a, const integer *lda,     \
                          integer *info, size_t length) {                                          \
    const ptrdiff_t n = *size, row = *triangle == 'L' ? 1 : *lda, column = *lda + 1 - row;         \
    note(POTRF, *triangle, 0, *size, 0, 0, *lda, 0, 0);                                            \
    require((*triangle == 'L' || *triangle == 'U') && length == 1 && n > 0 && *lda >= n);          \
    *info = 0;                                                                                     \
    for (ptrdiff_t j = 0; j < n; j++) {                                                            \
      for (ptrdiff_t i = j; i < n; i++) {                                                          \
        T sum = a[i * row + j * column];                                                           \
        for (ptrdiff_t p = 0; p < j; p++) {                                                        \
          sum -= a[i * row + p * column] * a[j * row + p * column];                                \
        }                                                                                          \
        if (i == j && !(sum > 0)) {                                                                \
          *info = (integer)j + 1;                                                                  \
          return;                                                                                  \
        }                                                                                          \
        a[i * row + j * column] = i == j ? (T)sqrt((double)sum) : sum / a[j * row + j * column];   \
      }                                                                                            \
    }                                                                                              \
  }

POTRF_OF(float, spotrf)
POTRF_OF(double, dpotrf)

/* Asked for its workspace, it wants some; otherwise it spoils its results. */
API void FORTRAN(dgesdd)(const char *job, const integer *m, const integer *n, double *a,
                         const integer *lda, double *s, double *u, const integer *ldu, double *vt,
                         const integer *ldvt, double *work, const integer *work_length,
                         integer *integers, integer *info, size_t length) {
  note(GESDD, *job, 0, *m, *n, 0, *lda, *ldu, *ldvt);
  require(length == 1 && *m > 0 && *n > 0 && *lda >= *m && *ldu >= *m && *ldvt > 0 && a != NULL);
  *info = *work_length == -1 ? 0 : 1;
  if (*work_length == -1) {
    work[0] = 100;
    return;
  }
  require(*work_length >= 100);
  for (int i = 0; i < 100; i++) work[i] = i;
  integers[0] = 7;
  s[0] = u[0] = vt[0] = -1;
}
#endif
