/*
 * What the files of the shim share: dtypes, walks over strided axes, threads, the kernels of an
 * instruction set.
 *
 * Knows nothing of ops. Not part of the interface: callers see rowmajor.h only.
 */
#ifndef ROWMAJOR_INTERNAL_H
#define ROWMAJOR_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include "rowmajor.h"

/* Windows has functions keep ten of the vector registers, which takes code at each beginning and
 * end: 40 KB in all. Kernels, which hardly call anything, follow the rules of other systems there. */
#if defined(_WIN32) && defined(__x86_64__)
#define RM_KERNEL __attribute__((sysv_abi))
#else
#define RM_KERNEL
#endif

static inline ptrdiff_t rm_least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
static inline ptrdiff_t rm_magnitude(ptrdiff_t step) { return step < 0 ? -step : step; }
/* How many parts a whole is cut into, of which the last one may be shorter. */
static inline ptrdiff_t rm_parts(ptrdiff_t whole, ptrdiff_t part) {
  return (whole + part - 1) / part;
}
/* The whole, or as much as it takes to be a multiple of the part. */
static inline ptrdiff_t rm_round_up(ptrdiff_t whole, ptrdiff_t part) {
  return rm_parts(whole, part) * part;
}

/*
 * Copies what does not overlap. Where the target lies 1 to 31 bytes above the source, whole pages
 * aside, AMD's Zen 4 takes up to thirty times as long for the instruction that the C library copies
 * 2 KiB and more by.
 */
static inline void rm_copy(void *to, const void *from, ptrdiff_t bytes) {
  typedef uint64_t line __attribute__((vector_size(64)));
  const char *p = from;
  char *o = to;
  if (bytes >= 2048 && (((uintptr_t)o - (uintptr_t)p) & 4095) - 1 < 31) {
    for (; bytes >= 256; bytes -= 256, o += 256, p += 256) {
      line four[4];
      memcpy(four, p, sizeof four);
      memcpy(o, four, sizeof four);
    }
  }
  memcpy(o, p, (size_t)bytes);
}

/* Bytes of an element. */
static inline ptrdiff_t rm_bytes(int dtype) {
  static const uint8_t bytes[16] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  return bytes[dtype & 15];
}

static inline bool rm_is_float(int dtype) { return dtype >= RM_FLOAT16 && dtype <= RM_FLOAT64; }

#define RM_DTYPES(compute, out, a, b, c) \
  ((compute) | (out) << 4 | (a) << 8 | (b) << 12 | (c) << 16)

/* Dtype k of a packed set: 0 is that of the arithmetic, 1 the output's, 2 that of a, ... */
static inline int rm_dtype_at(int32_t dtypes, int k) { return dtypes >> (4 * k) & 15; }

/* Axes of size 1 are gone from a plan, so that no plan with work in it has as many axes as this. */
enum { RM_MAX_RANK = 64, RM_MAX_OPERANDS = 4 };

/* A plan, read. Steps are in bytes; element strides of the innermost axis stand beside them. */
typedef struct {
  int rank;
  int operands;
  bool empty;
  ptrdiff_t size[RM_MAX_RANK];
  ptrdiff_t step[RM_MAX_RANK][RM_MAX_OPERANDS];
  /* fold.c copies no further than step. */
  ptrdiff_t inner[RM_MAX_OPERANDS];
  char *start[RM_MAX_OPERANDS];
} rm_walk;

/* Reads a plan whose operands have the given number; null buffers count as no data at all. */
int32_t rm_read_plan(rm_walk *walk, const double *plan, int operands, int32_t dtypes,
                     void *const *buffers);

/* Goes from the first position of the first so many axes to another one, the last fastest. */
static inline void rm_seek(const rm_walk *walk, int axes, ptrdiff_t position, ptrdiff_t *count,
                           char **at) {
  for (int axis = axes - 1; axis >= 0; axis--) {
    count[axis] = position % walk->size[axis];
    position /= walk->size[axis];
    for (int k = 0; k < walk->operands; k++) at[k] += count[axis] * walk->step[axis][k];
  }
}

/*
 * Goes to the next position of the axes [first, last), the last one fastest; false after the last
 * position, when all is back where it began.
 */
static inline bool rm_next(const rm_walk *walk, int first, int last, ptrdiff_t *count, char **at) {
  for (int axis = last - 1; axis >= first; axis--) {
    const ptrdiff_t *step = walk->step[axis];
    if (++count[axis] < walk->size[axis]) {
      for (int k = 0; k < walk->operands; k++) at[k] += step[k];
      return true;
    }
    count[axis] = 0;
    for (int k = 0; k < walk->operands; k++) at[k] -= step[k] * (walk->size[axis] - 1);
  }
  return false;
}

/* Leaves a message for rm_last_error and gives status back. */
int32_t rm_fail(int32_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Copies text into a caller's buffer as rm_last_error does. */
int32_t rm_copy_text(const char *text, void *buffer, int32_t length);

/* ---- threads (threads.c) ---------------------------------------------------------------------- */

/*
 * Runs task(context, i) once for every i in [0, tasks), on the calling thread and those of the
 * pool, in any order, and returns when all have run. Where the pool is busy with another caller's
 * tasks, or has one thread, or where it would not pay, the calling thread runs them all: work is
 * about how many nanoseconds that takes. How work is cut into tasks must not depend on the number
 * of threads, so that no result does. Not to be called from within a task.
 */
void rm_parallel(ptrdiff_t tasks, double work, void (*task)(void *context, ptrdiff_t index),
                 void *context);

/* How many threads rm_parallel uses at most, the calling one included. */
int rm_threads(void);

/* Sets that number, from 1 to 256; 0 is what the machine has. */
void rm_set_threads(int threads);

/* Whether short jobs are shared too: 0, 1, or a negative value that only asks. */
int rm_share_all(int value);

/* A clock that only goes forwards. */
int64_t rm_nanoseconds(void);

/* Lets another thread run, if one waits for the processor. */
void rm_yield(void);

/*
 * Keeps this library in memory for good. A runtime closes it when the worker that opened it ends,
 * and threads that sleep in it would wake where nothing, or another copy of it, is; collectors, and
 * systems where a thread ends, would call what is not there.
 */
void rm_stay_loaded(void);

/* ---- BLAS (blas.c) ---------------------------------------------------------------------------- */

typedef enum {
  RM_BLAS_CLOSED,
  RM_BLAS_OPEN,
  /* Tests want it even where own kernels are faster. */
  RM_BLAS_ALWAYS
} rm_blas_state;

rm_blas_state rm_blas_status(void);

/* Tells the open BLAS, if any, how many threads to use. */
void rm_blas_threads(int threads);

/* The product of float32 or float64 by the open BLAS; `at` holds the offsets of c, a and b. False
 * when it cannot read a matrix where it lies. */
bool rm_blas_multiply(int32_t dtype, const double *plan, const double *at, void *c, const void *a,
                      const void *b);

/* ---- instruction sets -------------------------------------------------------------------------- */

/*
 * The files that hold kernels are compiled once for each instruction set, RM_LEVEL being its name
 * (v2, v3, v4 on x86-64, base elsewhere); their functions have names made by RM_AT.
 */
#define RM_JOIN_(name, level) rm_##name##_##level
#define RM_JOIN(name, level) RM_JOIN_(name, level)
#define RM_AT(name) RM_JOIN(name, RM_LEVEL)

enum { RM_INDEX_BLOCK = 1024 };

/* Reads n indexes, at most RM_INDEX_BLOCK, as places from 0 to size - 1, where those below 0 count
 * from size. Gives how many there are before the first that is out of range. */
typedef ptrdiff_t rm_places(int dtype, const char *from, ptrdiff_t step, ptrdiff_t n, int64_t size,
                            int64_t *out);

/* The kernels of one instruction set; what each does is said in rowmajor.h. */
typedef struct {
  /* Multiplications in the largest matrix product for which OpenBLAS is not faster; 0 where that
   * has not been measured. */
  double most_products;
  __typeof__(rm_map) *map;
  __typeof__(rm_fold) *fold;
  __typeof__(rm_rows) *rows;
  __typeof__(rm_matmul) *matmul;
  __typeof__(rm_sort) *sort;
  __typeof__(rm_random) *random;
  rm_places *places;
} rm_kernels;

/* The ones in use; null before the first call. */
extern const rm_kernels *_Atomic rm_active_kernels;

/* Chooses them: the best that the machine has, or what ROWMAJOR_LEVEL says. */
const rm_kernels *rm_choose_level(void);

static inline const rm_kernels *rm_level(void) {
  const rm_kernels *active = atomic_load_explicit(&rm_active_kernels, memory_order_relaxed);
  return active != NULL ? active : rm_choose_level();
}

/* Sets the level, 0 for the best one; a negative value only asks. Gives the level in use. */
int rm_set_level(int level);

#if defined(RM_LEVEL)
__typeof__(rm_map) RM_AT(map);
__typeof__(rm_fold) RM_AT(fold);
__typeof__(rm_rows) RM_AT(rows);
__typeof__(rm_matmul) RM_AT(matmul);
__typeof__(rm_sort) RM_AT(sort);
__typeof__(rm_random) RM_AT(random);
rm_places RM_AT(places);
/* Replaces x by x to the power of y; there is room for a multiple of 16. */
void RM_AT(powers)(ptrdiff_t n, double *x, double y);
#endif

/* How loops are compiled. With RM_DEBUG, debuggers find one element after the other in them. */
#if defined(RM_DEBUG)
#define RM_ANY_ORDER
#define RM_ROLLED
#define RM_SCALAR
#else
/* Elements may be read and written in any order: operands are apart, or the same element for
 * element. */
#define RM_ANY_ORDER _Pragma("clang loop vectorize(assume_safety)")

/* For loops that have enough to do in one round, or that run once for many rounds of others: unrolled
 * they would be a twentieth of the library. */
#define RM_ROLLED _Pragma("clang loop unroll(disable) interleave(disable)")
/* The same without vectors, before loops that are over soon. */
#define RM_SCALAR _Pragma("clang loop vectorize(disable) unroll(disable)")
#endif

#endif
