/*
 * OpenBLAS, or Accelerate on macOS. The library is opened at run time, at most once per process,
 * and never closed. Its GEMM multiplies strided matrices without copies; cpu/linalg/lapack.c uses
 * its LAPACK.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"
#include "lapack.h"
#include "library.h"
#include "mutex.h"
#include "matmul_plan.h"

/* From cblas.h, which systems without development packages lack. */
enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
/* GEMM of one type and of one width of integers. */
#define GEMM_FUNCTION(name, TYPE, INTEGER)                                                         \
  typedef void name(int order, int trans_a, int trans_b, INTEGER m, INTEGER n, INTEGER k,          \
                    TYPE alpha, const TYPE *a, INTEGER lda, const TYPE *b, INTEGER ldb, TYPE beta, \
                    TYPE *c, INTEGER ldc)
GEMM_FUNCTION(sgemm_function, float, int);
GEMM_FUNCTION(dgemm_function, double, int);
GEMM_FUNCTION(sgemm64_function, float, int64_t);
GEMM_FUNCTION(dgemm64_function, double, int64_t);

typedef struct {
  union {
    void *symbol;
    sgemm_function *narrow;
    sgemm64_function *wide;
  } sgemm;
  union {
    void *symbol;
    dgemm_function *narrow;
    dgemm64_function *wide;
  } dgemm;
  /* Whether its integers have 64 bits. */
  bool is_wide;
  /* Null for what the library lacks. */
  void *lapack[RM_LAPACK_ROUTINES][RM_LINALG_TYPES];
  /* Null if the library lacks the function. */
  void (*set_threads)(int threads);
  /* Whether BLAS is preferred even where own kernels are faster, for tests. */
  bool always;
  char info[1024];
} blas;

static blas open_blas;
/* Set once open_blas is complete, so that other threads can read it without locking. */
static _Atomic(const blas *) ready_blas;

/* Held while the library is opened and while it runs: concurrent calls make it slower. The lock is
 * fair: threads get it in the order in which they ask, so that a thread with many products, or with
 * a large one in tiles, lets others in between. */
static struct {
  rm_mutex mutex;
  rm_condition served;
  /* The ticket of the next thread that asks, and that of the thread that has the lock. */
  unsigned next_ticket, serving;
} lock = {RM_MUTEX_INIT, RM_CONDITION_INIT, 0, 0};

static void take_turn(void) {
  rm_mutex_lock(&lock.mutex);
  const unsigned ticket = lock.next_ticket++;
  while (lock.serving != ticket) rm_condition_wait(&lock.served, &lock.mutex);
  rm_mutex_unlock(&lock.mutex);
}

static void end_turn(void) {
  rm_mutex_lock(&lock.mutex);
  const bool others_wait = ++lock.serving != lock.next_ticket;
  rm_mutex_unlock(&lock.mutex);
  if (others_wait) rm_condition_broadcast(&lock.served);
}

/* Set when the process exits. Products then use own kernels. */
static _Atomic(bool) exiting;

#if defined(_WIN32)
/* Windows ends all other threads before libraries learn of the exit; the lock may stay taken. */
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
  take_turn();
  end_turn();
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

/* Finds a function of the library, whose builds add to names: Accelerate, in place of the last
 * underscore; that for Python; those with integers of 64 bits, for which *is_wide is set. */
static void *find_symbol(void *library, const char *name, bool *is_wide) {
  static const char *const forms[][2] = {
      {"", "$NEWLAPACK"}, {"", ""}, {"scipy_", ""}, {"", "64_"}, {"scipy_", "64_"}};
  const size_t length = strlen(name);
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    char decorated[64];
    snprintf(decorated, sizeof decorated, "%s%.*s%s", forms[i][0],
             (int)(length - (i == 0 && name[length - 1] == '_')), name, forms[i][1]);
    void *symbol = rm_library_symbol(library, decorated);
    if (symbol == NULL) continue;
    *is_wide |= i >= 3;
    return symbol;
  }
  return NULL;
}

static void find_lapack(void *library) {
  /* For real and for complex matrices. */
  static const char *const names[RM_LAPACK_ROUTINES][2] = {
      [RM_POTRF] = {"potrf_", "potrf_"}, [RM_GESV] = {"gesv_", "gesv_"},
      [RM_GEQRF] = {"geqrf_", "geqrf_"}, [RM_ORGQR] = {"orgqr_", "ungqr_"},
      [RM_SYEVD] = {"syevd_", "heevd_"}, [RM_GESDD] = {"gesdd_", "gesdd_"},
      [RM_GEEV] = {"geev_", "geev_"}};
  for (int routine = 0; routine < RM_LAPACK_ROUTINES; routine++) {
    for (int type = 0; type < RM_LINALG_TYPES; type++) {
      char name[16];
      snprintf(name, sizeof name, "%c%s", "sdcz"[type], names[routine][type >= RM_LINALG_C64]);
      bool is_wide = false;
      open_blas.lapack[routine][type] = find_symbol(library, name, &is_wide);
    }
  }
}

/* Returns the configuration of an open library, which states the width of its integers, or null if
 * it is unknown. */
static const char *library_config(void *library, const char *path) {
  bool is_wide = false;
  void *symbol = find_symbol(library, "openblas_get_config", &is_wide);
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
  bool is_wide = false;
  void *sgemm = find_symbol(library, "cblas_sgemm", &is_wide);
  void *dgemm = find_symbol(library, "cblas_dgemm", &is_wide);
  const char *config = library_config(library, path);
  if (sgemm == NULL || dgemm == NULL || config == NULL) {
    rm_library_close(library);
    return rm_fail(RM_NOT_FOUND, "%s: it is not OpenBLAS with CBLAS", path);
  }
  void *set_threads = find_symbol(library, "openblas_set_num_threads", &is_wide);
  open_blas.sgemm.symbol = sgemm;
  open_blas.dgemm.symbol = dgemm;
  open_blas.is_wide = is_wide || strstr(config, "USE64BITINT") != NULL;
  memcpy(&open_blas.set_threads, &set_threads, sizeof set_threads);
  find_lapack(library);
  open_blas.always = rm_environment_value(RM_ENVIRONMENT_BLAS_ALWAYS, 0) == 1;
  if (open_blas.set_threads != NULL) open_blas.set_threads(rm_threads());
  char where[512];
  rm_library_path(library, sgemm, where, sizeof where);
  snprintf(open_blas.info, sizeof open_blas.info, "%.480s\n%s\n%s", config,
           where[0] == 0 ? path : where,
           open_blas.lapack[RM_GESDD][RM_LINALG_F64] == NULL ? "" : "LAPACK");
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

/* A function that runs on another thread. */
typedef struct {
  rm_mutex mutex;
  rm_condition ended;
  bool has_ended;
  void (*body)(void *data);
  void *data;
} run_below;

static void thread_below(void *data) {
  run_below *run = data;
  run->body(run->data);
  rm_mutex_lock(&run->mutex);
  run->has_ended = true;
  /* Before unlocking, since the waiting thread owns this memory. */
  rm_condition_signal(&run->ended);
  rm_mutex_unlock(&run->mutex);
}

/* Waits for a function on a new thread; false if there is none. */
static bool run_on_thread(void (*body)(void *data), void *data, size_t stack) {
  run_below run = {RM_MUTEX_INIT, RM_CONDITION_INIT, false, body, data};
  if (!rm_start_thread(thread_below, &run, stack)) return false;
  rm_mutex_lock(&run.mutex);
  while (!run.has_ended) rm_condition_wait(&run.ended, &run.mutex);
  rm_mutex_unlock(&run.mutex);
  return true;
}

typedef struct {
  int32_t status;
  char message[2048];
} opening;

static void open_below(void *data) {
  opening *o = data;
  rm_enter_background();
  o->status = open_default();
  if (o->status != RM_OK) rm_last_error(o->message, sizeof o->message);
}

/* The threads of OpenBLAS inherit the priority of the thread that opens it. In a process with a
 * queue thread it is low, so that products there do not keep other threads from the processor. */
static int32_t open_for_queue(void) {
  opening o = {RM_OK, ""};
  if (!run_on_thread(open_below, &o, 0)) return open_default();
  return o.status == RM_OK ? RM_OK : rm_fail(o.status, "%s", o.message);
}

int32_t rm_blas_open(void) {
  if (atomic_load(&ready_blas) != NULL) return RM_OK;
  take_turn();
  int32_t status = RM_OK;
  if (atomic_load(&ready_blas) == NULL) {
    status = rm_has_background() ? open_for_queue() : open_default();
    if (status == RM_OK) {
      prepare_exit();
      atomic_store(&ready_blas, &open_blas);
    }
  }
  end_turn();
  return status;
}

int32_t rm_blas_info(void *buffer, int32_t length) {
  const blas *library = atomic_load(&ready_blas);
  return library == NULL ? 0 : rm_copy_text(library->info, buffer, length);
}

void rm_blas_threads(int threads) {
  const blas *library = atomic_load(&ready_blas);
  if (library == NULL || library->set_threads == NULL) return;
  take_turn();
  if (!exiting) library->set_threads(threads);
  end_turn();
}

void *rm_lapack_routine(int routine, int type) {
  const blas *library = atomic_load(&ready_blas);
  return library == NULL ? NULL : library->lapack[routine][type];
}

bool rm_lapack_call(void (*body)(void *data), void *data, bool is_alone) {
  const blas *library = atomic_load(&ready_blas);
  take_turn();
  if (exiting) {
    end_turn();
    return false;
  }
  /* With several threads, each level of its recursions takes half a megabyte and more of the
   * stack; the threads of runtimes have two. */
  enum { DEEP_STACK = 64 << 20 };
  const int threads = rm_threads();
  const bool sets = library->set_threads != NULL && threads > 1;
  bool done = false;
  if (!is_alone && threads > 1) done = run_on_thread(body, data, DEEP_STACK);
  if (done && sets) rm_note_threads(threads);
  if (!done) {
    if (sets) library->set_threads(1);
    body(data);
    if (sets) library->set_threads(rm_threads());
  }
  end_turn();
  return true;
}

rm_blas_state rm_blas_status(void) {
  const blas *library = atomic_load(&ready_blas);
  return library == NULL ? RM_BLAS_CLOSED : library->always ? RM_BLAS_ALWAYS : RM_BLAS_OPEN;
}

/* The edges of tiles are multiples of this many rows or columns: with AVX-512, OpenBLAS then computes
 * the elements of tiles as it does those of the whole product. */
enum { TILE_EDGE = 512 };

/* The most multiplications of a tile, unless it is as small as tiles can be. Another thread waits
 * for a tile, some 50 ms on two cores; smaller tiles take longer in total. */
static double max_tile_work(void) { return rm_set_isa(-1) == 4 ? 0x1p33 : 0x1p32; }

/* The size of the tiles of a product. It does not depend on which other threads multiply, so that
 * results do not either. */
static void choose_tile(int rows, int columns, int k, double max_work, int *height, int *width) {
  *height = rows;
  *width = columns;
  while ((double)*height * *width * k > max_work) {
    int *longer = *height >= *width ? height : width;
    if (*longer <= TILE_EDGE) return;
    *longer = (int)rm_round_up(rm_ceil_div(*longer, 2), TILE_EDGE);
  }
}

/* The length of the tile that begins at `from`. Short remainders belong to the last tile. */
static int tile_length(int from, int length, int tile) {
  return length - from < tile + TILE_EDGE ? length - from : tile;
}

/* A product as CBLAS takes it. */
typedef struct {
  int32_t dtype;
  int trans_a, trans_b, rows, columns, k, lda, ldb, ldc;
} blas_call;

/* Multiplies a tile of the result, from a row and a column on. */
static void multiply_tile(const blas *library, const blas_call *p, char *c, const char *a,
                          const char *b, int row, int column, int rows, int columns) {
  const ptrdiff_t bytes = rm_itemsize(p->dtype);
  a += (ptrdiff_t)row * (p->trans_a == TRANS ? 1 : p->lda) * bytes;
  b += (ptrdiff_t)column * (p->trans_b == TRANS ? p->ldb : 1) * bytes;
  c += ((ptrdiff_t)row * p->ldc + column) * bytes;
#define MULTIPLY(gemm, TYPE)                                                                       \
  gemm(ROW_MAJOR, p->trans_a, p->trans_b, rows, columns, p->k, 1, (const TYPE *)a, p->lda,         \
       (const TYPE *)b, p->ldb, 0, (TYPE *)c, p->ldc)
  if (p->dtype == RM_FLOAT32) {
    if (library->is_wide) MULTIPLY(library->sgemm.wide, float);
    else MULTIPLY(library->sgemm.narrow, float);
  } else {
    if (library->is_wide) MULTIPLY(library->dgemm.wide, double);
    else MULTIPLY(library->dgemm.narrow, double);
  }
#undef MULTIPLY
}

bool rm_blas_multiply(int32_t dtype, const double *plan, const double *at, void *c, const void *a,
                      const void *b) {
  const blas *library = atomic_load(&ready_blas);
  rm_matrix out, left, right;
  if (!rm_blas_layouts(plan, &out, &left, &right)) return false;
  /* A column-major c is the row-major transpose: c' = b' a'. */
  const bool swap = out.by_columns;
  const rm_matrix first = swap ? right : left, second = swap ? left : right;
  const blas_call p = {
      .dtype = dtype,
      .trans_a = first.by_columns != swap ? TRANS : NO_TRANS,
      .trans_b = second.by_columns != swap ? TRANS : NO_TRANS,
      .rows = (int)plan[swap ? RM_N : RM_M],
      .columns = (int)plan[swap ? RM_M : RM_N],
      .k = (int)plan[RM_K],
      .lda = first.leading,
      .ldb = second.leading,
      .ldc = out.leading,
  };
  const ptrdiff_t batch = (ptrdiff_t)plan[RM_BATCH], bytes = rm_itemsize(dtype);
  const double *const offsets_a = at + (swap ? 2 : 1) * batch;
  const double *const offsets_b = at + (swap ? 1 : 2) * batch;
  int height, width;
  const double max_work = max_tile_work();
  choose_tile(p.rows, p.columns, p.k, max_work, &height, &width);
  /* OpenBLAS does not tell how many of them it uses. */
  if (library->set_threads != NULL) rm_note_threads(rm_threads());
  /* Multiplications since the turn began. */
  double work = 0;
  take_turn();
  for (ptrdiff_t i = 0; i < batch && !exiting; i++) {
    char *to = (char *)c + (ptrdiff_t)at[i] * bytes;
    const char *x = (const char *)(swap ? b : a) + (ptrdiff_t)offsets_a[i] * bytes;
    const char *y = (const char *)(swap ? a : b) + (ptrdiff_t)offsets_b[i] * bytes;
    for (int row = 0, rows; row < p.rows && !exiting; row += rows) {
      rows = tile_length(row, p.rows, height);
      for (int column = 0, columns; column < p.columns && !exiting; column += columns) {
        columns = tile_length(column, p.columns, width);
        if (work > 0 && work + (double)rows * columns * p.k > max_work) {
          end_turn();
          take_turn();
          work = 0;
          if (exiting) break;
        }
        multiply_tile(library, &p, to, x, y, row, column, rows, columns);
        work += (double)rows * columns * p.k;
      }
    }
  }
  const bool done = !exiting;
  end_turn();
  return done;
}
