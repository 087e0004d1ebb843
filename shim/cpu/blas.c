/*
 * OpenBLAS, or Accelerate on macOS. The library is opened at run time, at most once per process,
 * and never closed. Its GEMM multiplies strided matrices without copies.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"
#include "library.h"
#include "mutex.h"
#include "matmul_plan.h"

/* From cblas.h, which systems without development packages lack. */
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
  /* Null if the library lacks the function. */
  void (*set_threads)(int threads);
  /* Whether BLAS is preferred even where own kernels are faster, for tests. */
  bool always;
  char info[1024];
} blas;

static blas open_blas;
/* Set once open_blas is complete, so that other threads can read it without locking. */
static _Atomic(const blas *) ready_blas;

/* Locked while the library is opened and while it runs: concurrent calls make it slower. */
static rm_mutex mutex = RM_MUTEX_INIT;

/* Set when the process exits. Products then use own kernels. */
static _Atomic(bool) exiting;

#if defined(_WIN32)
/* Windows ends all other threads before libraries learn of the exit; the mutex may stay locked. */
static void prepare_exit(void) {}
static void limit_spinning(void) {
  if (getenv("OPENBLAS_THREAD_TIMEOUT") == NULL) _putenv_s("OPENBLAS_THREAD_TIMEOUT", "20");
}
static const char *const default_names[] = {"libopenblas.dll", "openblas.dll"};
#else
/* OpenBLAS joins its threads when the process exits, and never returns if another thread is inside
 * a product. Exit handlers run in reverse order, so this one, which waits for the product and
 * admits no other, runs before. */
static void leave_library(void) {
  atomic_store(&exiting, true);
  rm_mutex_lock(&mutex);
  rm_mutex_unlock(&mutex);
}
/* Called after OpenBLAS was opened. Unloading this library would run the handler too early. */
static void prepare_exit(void) {
  rm_pin_library();
  atexit(leave_library);
}
/* The threads of OpenBLAS would otherwise spin for 100 ms after every call. It reads this variable
 * when it is opened, from the environment of the process, which some runtimes do not modify through
 * their own API. */
static void limit_spinning(void) { setenv("OPENBLAS_THREAD_TIMEOUT", "20", 0); }
static const char *const default_names[] = {
#if defined(__APPLE__)
    "/System/Library/Frameworks/Accelerate.framework/Accelerate",
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

/* Finds a function of the library. The build for Python prefixes all names. */
static void *find_symbol(void *library, const char *name) {
  void *symbol = rm_library_symbol(library, name);
  if (symbol != NULL) return symbol;
  char prefixed[64];
  snprintf(prefixed, sizeof prefixed, "scipy_%s", name);
  return rm_library_symbol(library, prefixed);
}

/* Returns the configuration of an open library, which states the width of its integers, or null if
 * it is unknown. */
static const char *library_config(void *library, const char *path) {
  void *symbol = find_symbol(library, "openblas_get_config");
  if (symbol == NULL) {
    return strstr(path, "/Accelerate.framework/") == NULL ? NULL : "Accelerate";
  }
  char *(*get_config)(void);
  memcpy(&get_config, &symbol, sizeof symbol);
  return get_config();
}

static int32_t open_library(const char *path) {
  void *library = rm_library_open(path, false);
  if (library == NULL) {
    char reason[1024];
    rm_library_error(reason, sizeof reason);
    return rm_fail(RM_NOT_FOUND, "%s: %s", path, reason);
  }
  void *sgemm = find_symbol(library, "cblas_sgemm");
  void *dgemm = find_symbol(library, "cblas_dgemm");
  const char *config = library_config(library, path);
  if (sgemm == NULL || dgemm == NULL || config == NULL) {
    rm_library_close(library);
    return rm_fail(RM_NOT_FOUND, "%s: it is not OpenBLAS with CBLAS", path);
  }
  if (strstr(config, "USE64BITINT") != NULL) {
    rm_library_close(library);
    return rm_fail(RM_NOT_FOUND, "%s: its integers have 64 bits", path);
  }
  void *set_threads = find_symbol(library, "openblas_set_num_threads");
  memcpy(&open_blas.sgemm, &sgemm, sizeof sgemm);
  memcpy(&open_blas.dgemm, &dgemm, sizeof dgemm);
  memcpy(&open_blas.set_threads, &set_threads, sizeof set_threads);
  open_blas.always = rm_environment_value(RM_ENVIRONMENT_BLAS_ALWAYS, 0) == 1;
  if (open_blas.set_threads != NULL) open_blas.set_threads(rm_threads());
  char where[512];
  rm_library_path(library, sgemm, where, sizeof where);
  snprintf(open_blas.info, sizeof open_blas.info, "%.480s\n%s", config,
           where[0] == 0 ? path : where);
  return RM_OK;
}

static int32_t open_default(void) {
  limit_spinning();
  const char *path = getenv("ROWMAJOR_OPENBLAS");
  /* A library that is set explicitly has no fallback. */
  if (path != NULL && path[0] != 0) return open_library(path);
  for (size_t i = 0; i < sizeof default_names / sizeof default_names[0]; i++) {
    if (open_library(default_names[i]) == RM_OK) return RM_OK;
  }
  return rm_fail(RM_NOT_FOUND, "no OpenBLAS under the usual names (%s, ...)", default_names[0]);
}

int32_t rm_blas_open(void) {
  if (atomic_load(&ready_blas) != NULL) return RM_OK;
  rm_mutex_lock(&mutex);
  int32_t status = RM_OK;
  if (atomic_load(&ready_blas) == NULL) {
    status = open_default();
    if (status == RM_OK) {
      prepare_exit();
      atomic_store(&ready_blas, &open_blas);
    }
  }
  rm_mutex_unlock(&mutex);
  return status;
}

int32_t rm_blas_info(void *buffer, int32_t length) {
  const blas *library = atomic_load(&ready_blas);
  return library == NULL ? 0 : rm_copy_text(library->info, buffer, length);
}

void rm_blas_threads(int threads) {
  const blas *library = atomic_load(&ready_blas);
  if (library == NULL || library->set_threads == NULL) return;
  rm_mutex_lock(&mutex);
  if (!exiting) library->set_threads(threads);
  rm_mutex_unlock(&mutex);
}

rm_blas_state rm_blas_status(void) {
  const blas *library = atomic_load(&ready_blas);
  return library == NULL ? RM_BLAS_CLOSED : library->always ? RM_BLAS_ALWAYS : RM_BLAS_OPEN;
}

bool rm_blas_multiply(int32_t dtype, const double *plan, const double *at, void *c, const void *a,
                      const void *b) {
  const blas *library = atomic_load(&ready_blas);
  rm_matrix out, left, right;
  if (!rm_blas_layouts(plan, &out, &left, &right)) return false;
  /* A column-major c is the row-major transpose: c' = b' a'. */
  const bool swap = out.by_columns;
  const rm_matrix first = swap ? right : left, second = swap ? left : right;
  const int ta = first.by_columns != swap ? TRANS : NO_TRANS;
  const int tb = second.by_columns != swap ? TRANS : NO_TRANS;
  const int la = first.leading, lb = second.leading, k = (int)plan[RM_K];
  const int rows = (int)plan[swap ? RM_N : RM_M], columns = (int)plan[swap ? RM_M : RM_N];
  const ptrdiff_t batch = (ptrdiff_t)plan[RM_BATCH];
  /* OpenBLAS does not tell how many of them it uses. */
  if (library->set_threads != NULL) rm_note_threads(rm_threads());
  rm_mutex_lock(&mutex);
  ptrdiff_t i = 0;
  for (; i < batch && !exiting; i++) {
    const ptrdiff_t ci = (ptrdiff_t)at[i];
    const ptrdiff_t ai = (ptrdiff_t)at[batch + i], bi = (ptrdiff_t)at[2 * batch + i];
    if (dtype == RM_FLOAT32) {
      const float *x = (const float *)a + ai, *y = (const float *)b + bi;
      library->sgemm(ROW_MAJOR, ta, tb, rows, columns, k, 1, swap ? y : x, la, swap ? x : y, lb, 0,
                     (float *)c + ci, out.leading);
    } else {
      const double *x = (const double *)a + ai, *y = (const double *)b + bi;
      library->dgemm(ROW_MAJOR, ta, tb, rows, columns, k, 1, swap ? y : x, la, swap ? x : y, lb, 0,
                     (double *)c + ci, out.leading);
    }
  }
  rm_mutex_unlock(&mutex);
  return i == batch;
}
