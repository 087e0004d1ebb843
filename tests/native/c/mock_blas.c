/*
 * A BLAS for tests. It computes with plain loops, counts calls and records the last arguments, so
 * that tests can check what was called and how. Build it as a shared library and set
 * ROWMAJOR_OPENBLAS to its path. It is not thread-safe.
 */
#include <stddef.h>

#if defined(_WIN32)
#define API __declspec(dllexport)
#else
#define API __attribute__((visibility("default")))
#endif

enum { ROW_MAJOR = 101, TRANS = 112 };
enum { SGEMM, DGEMM, SGEMV, DGEMV, SDOT, DDOT, SET_THREADS, FUNCTIONS };

static int calls[FUNCTIONS];
/* The function, then for GEMM: trans of a and b, m, n, k, lda and ldb, ldc; for GEMV: trans, 0, m,
 * n, 0, lda, and the steps of x and y; for dot: 0, 0, n, 0, 0, the steps of x and y, 0. */
static int last[9];

static void note(int function, int p, int q, int r, int s, int t, int u, int v, int w) {
  const int given[9] = {function, p, q, r, s, t, u, v, w};
  for (int i = 0; i < 9; i++) last[i] = given[i];
  calls[function]++;
}

/* Returns how often a function was called: 0 sgemm, 1 dgemm, 2 sgemv, 3 dgemv, 4 sdot, 5 ddot, 6
 * setting threads. Any other number resets all counts. */
API int mock_calls(int which) {
  if (which >= 0 && which < FUNCTIONS) return calls[which];
  for (int i = 0; i < FUNCTIONS; i++) calls[i] = 0;
  return 0;
}

/* The arguments of the last call: trans of a and b, m, n, k, lda, ldb, ldc. */
API void mock_last(int *out8) {
  for (int i = 0; i < 8; i++) out8[i] = last[i + 1];
}

API char *openblas_get_config(void) {
  static char config[] = "OpenBLAS mock";
  return config;
}

API void openblas_set_num_threads(int threads) { note(SET_THREADS, threads, 0, 0, 0, 0, 0, 0, 0); }

#define FUNCTIONS_OF(T, GEMM, GEMV, DOT, gemm, gemv, dot)                                          \
  API void cblas_##gemm(int order, int trans_a, int trans_b, int m, int n, int k, T alpha,         \
                        const T *a, int lda, const T *b, int ldb, T beta, T *c, int ldc) {         \
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
