/*
 * OpenBLAS: found and opened at run time, at most once per process, never closed; and the mapping
 * of strided matrices to its GEMM without copies.
 */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <dlfcn.h>
#else
#include <windows.h>
#endif
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"

/* Of cblas.h, which systems without development packages lack. */
enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
typedef void (*sgemm_function)(int order, int trans_a, int trans_b, int m, int n, int k,
                               float alpha, const float *a, int lda, const float *b, int ldb,
                               float beta, float *c, int ldc);
typedef void (*dgemm_function)(int order, int trans_a, int trans_b, int m, int n, int k,
                               double alpha, const double *a, int lda, const double *b, int ldb,
                               double beta, double *c, int ldc);

typedef struct {
  sgemm_function sgemm;
  dgemm_function dgemm;
  char info[1024];
} blas;

static blas opened;
/* Set once opened is complete, so that other threads read it without the lock. */
static _Atomic(const blas *) ready;
static atomic_flag opening = ATOMIC_FLAG_INIT;

#if defined(_WIN32)
static void *open_library(const char *path) { return (void *)LoadLibraryA(path); }
static void close_library(void *library) { FreeLibrary((HMODULE)library); }
static void *find_symbol(void *library, const char *name) {
  return (void *)(uintptr_t)GetProcAddress((HMODULE)library, name);
}
static const char *open_error(void) { return "LoadLibrary cannot open it"; }
static void path_of(void *library, void *symbol, char *path, size_t length) {
  (void)symbol;
  path[0] = 0;
  GetModuleFileNameA((HMODULE)library, path, (DWORD)length);
}
static void limit_spinning(void) {
  if (getenv("OPENBLAS_THREAD_TIMEOUT") == NULL) _putenv_s("OPENBLAS_THREAD_TIMEOUT", "20");
}
static const char *const usual_names[] = {"libopenblas.dll", "openblas.dll"};
#else
static void *open_library(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
static void close_library(void *library) { dlclose(library); }
static void *find_symbol(void *library, const char *name) { return dlsym(library, name); }
static const char *open_error(void) {
  const char *message = dlerror();
  return message == NULL ? "dlopen cannot open it" : message;
}
static void path_of(void *library, void *symbol, char *path, size_t length) {
  (void)library;
  Dl_info found;
  path[0] = 0;
  if (dladdr(symbol, &found) != 0 && found.dli_fname != NULL) {
    snprintf(path, length, "%s", found.dli_fname);
  }
}
/* The threads of OpenBLAS would otherwise spin for 100 ms after every call. It reads this when it
 * is opened, from the environment of the process, which not every runtime's own view reaches. */
static void limit_spinning(void) { setenv("OPENBLAS_THREAD_TIMEOUT", "20", 0); }
static const char *const usual_names[] = {
#if defined(__APPLE__)
    "libopenblas.dylib",
    "/opt/homebrew/opt/openblas/lib/libopenblas.dylib",
    "/usr/local/opt/openblas/lib/libopenblas.dylib",
#else
    "libopenblas.so.0",
    "libopenblas.so",
    "libopenblasp.so.0",
#if defined(__x86_64__)
    "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0",
#elif defined(__aarch64__)
    "/usr/lib/aarch64-linux-gnu/openblas-pthread/libopenblas.so.0",
#endif
#endif
};
#endif

static int32_t open_one(const char *path) {
  void *library = open_library(path);
  if (library == NULL) return rm_fail(RM_NOT_FOUND, "%s: %s", path, open_error());
  void *sgemm = find_symbol(library, "cblas_sgemm");
  void *dgemm = find_symbol(library, "cblas_dgemm");
  void *config = find_symbol(library, "openblas_get_config");
  if (sgemm == NULL || dgemm == NULL || config == NULL) {
    close_library(library);
    return rm_fail(RM_NOT_FOUND, "%s: it is not OpenBLAS with CBLAS", path);
  }
  char *(*get_config)(void);
  memcpy(&get_config, &config, sizeof config);
  const char *text = get_config();
  if (strstr(text, "USE64BITINT") != NULL) {
    close_library(library);
    return rm_fail(RM_NOT_FOUND, "%s: its integers have 64 bits", path);
  }
  memcpy(&opened.sgemm, &sgemm, sizeof sgemm);
  memcpy(&opened.dgemm, &dgemm, sizeof dgemm);
  char where[512];
  path_of(library, sgemm, where, sizeof where);
  snprintf(opened.info, sizeof opened.info, "%.480s\n%s", text, where[0] == 0 ? path : where);
  return RM_OK;
}

static int32_t open_any(const char *path) {
  limit_spinning();
  if (path == NULL) path = getenv("ROWMAJOR_OPENBLAS");
  /* Who names a library does not want another one. */
  if (path != NULL && path[0] != 0) return open_one(path);
  for (size_t i = 0; i < sizeof usual_names / sizeof usual_names[0]; i++) {
    if (open_one(usual_names[i]) == RM_OK) return RM_OK;
  }
  return rm_fail(RM_NOT_FOUND, "no OpenBLAS under the usual names (%s, ...)", usual_names[0]);
}

int32_t rm_blas_open(const void *path) {
  if (atomic_load(&ready) != NULL) return RM_OK;
  while (atomic_flag_test_and_set(&opening)) {
  }
  int32_t status = RM_OK;
  if (atomic_load(&ready) == NULL) {
    status = open_any(path);
    if (status == RM_OK) atomic_store(&ready, &opened);
  }
  atomic_flag_clear(&opening);
  return status;
}

int32_t rm_blas_info(void *buffer, int32_t length) {
  const blas *library = atomic_load(&ready);
  return library == NULL ? 0 : rm_copy_text(library->info, buffer, length);
}

/* A matrix as GEMM sees it. */
typedef struct {
  int trans;
  int leading;
} operand;

/* Plan fields: sizes, then the strides of c, a and b. */
enum { M, N, K, BATCH, STRIDES, MATRICES = STRIDES + 6 };

#define BLAS_INT_MAX 2147483647.0

/*
 * True when GEMM can read the matrix where it lies: one stride is 1 and the other at least a row
 * long. The stride along an axis of size 1 is never used, and may be anything.
 */
static bool describe(double rows, double columns, double row_stride, double column_stride,
                     operand *to) {
  bool by_rows = columns == 1 || column_stride == 1;
  double leading = rows == 1 ? columns : row_stride;
  if (by_rows && leading >= columns && leading <= BLAS_INT_MAX) {
    *to = (operand){NO_TRANS, (int)leading};
    return true;
  }
  bool by_columns = rows == 1 || row_stride == 1;
  leading = columns == 1 ? rows : column_stride;
  if (by_columns && leading >= rows && leading <= BLAS_INT_MAX) {
    *to = (operand){TRANS, (int)leading};
    return true;
  }
  return false;
}

static int other(int trans) { return trans == TRANS ? NO_TRANS : TRANS; }

int32_t rm_matmul(int32_t dtype, const double *plan, void *c, const void *a, const void *b) {
  const blas *library = atomic_load(&ready);
  const double m = plan[M], n = plan[N], k = plan[K], *s = plan + STRIDES;
  if (library == NULL || (dtype != RM_FLOAT32 && dtype != RM_FLOAT64)) return RM_UNSUPPORTED;
  if (m < 1 || n < 1 || k < 1) return RM_UNSUPPORTED;
  if (m > BLAS_INT_MAX || n > BLAS_INT_MAX || k > BLAS_INT_MAX) return RM_UNSUPPORTED;
  operand left, right, out;
  if (!describe(m, n, s[0], s[1], &out) || !describe(m, k, s[2], s[3], &left) ||
      !describe(k, n, s[4], s[5], &right)) {
    return RM_UNSUPPORTED;
  }
  if (a == NULL || b == NULL || c == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "an operand has no memory");
  }
  /* A column-major c is the row-major transpose: c' = b' a'. */
  const bool swap = out.trans == TRANS;
  const int ta = swap ? other(right.trans) : left.trans;
  const int tb = swap ? other(left.trans) : right.trans;
  const int la = swap ? right.leading : left.leading, lb = swap ? left.leading : right.leading;
  const int rows = (int)(swap ? n : m), columns = (int)(swap ? m : n);
  const ptrdiff_t batch = (ptrdiff_t)plan[BATCH];
  const double *at = plan + MATRICES;
  for (ptrdiff_t i = 0; i < batch; i++) {
    const ptrdiff_t ci = (ptrdiff_t)at[i];
    const ptrdiff_t ai = (ptrdiff_t)at[batch + i], bi = (ptrdiff_t)at[2 * batch + i];
    if (dtype == RM_FLOAT32) {
      const float *x = (const float *)a + ai, *y = (const float *)b + bi;
      library->sgemm(ROW_MAJOR, ta, tb, rows, columns, (int)k, 1, swap ? y : x, la, swap ? x : y,
                     lb, 0, (float *)c + ci, out.leading);
    } else {
      const double *x = (const double *)a + ai, *y = (const double *)b + bi;
      library->dgemm(ROW_MAJOR, ta, tb, rows, columns, (int)k, 1, swap ? y : x, la, swap ? x : y,
                     lb, 0, (double *)c + ci, out.leading);
    }
  }
  return RM_OK;
}
