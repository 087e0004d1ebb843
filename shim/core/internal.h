/*
 * What the files of the shim share. Not part of the interface: callers see only rowmajor.h.
 */
#ifndef ROWMAJOR_INTERNAL_H
#define ROWMAJOR_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include "dtype.h"
#include "isa.h"
#include "iterator.h"
#include "rowmajor.h"

static inline ptrdiff_t rm_min(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
static inline ptrdiff_t rm_abs(ptrdiff_t x) { return x < 0 ? -x : x; }
static inline ptrdiff_t rm_ceil_div(ptrdiff_t a, ptrdiff_t b) { return (a + b - 1) / b; }
static inline ptrdiff_t rm_round_up(ptrdiff_t a, ptrdiff_t multiple) {
  return rm_ceil_div(a, multiple) * multiple;
}

/*
 * memcpy. Where the target is 1 to 31 bytes above the source, modulo the page size, Zen 4 takes up
 * to thirty times as long for the instruction by which the C library copies 2 KiB and more.
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

/* ---- errors (error.c) ------------------------------------------------------------------------ */

/* Leaves a message for rm_last_error and returns status. */
int32_t rm_fail(int32_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Copies text into a buffer of the caller as rm_last_error does. */
int32_t rm_copy_text(const char *text, void *buffer, int32_t length);

/* ---- environment (environment.c) ------------------------------------------------------------- */

typedef enum {
  RM_ENVIRONMENT_THREADS,
  RM_ENVIRONMENT_LEVEL,
  RM_ENVIRONMENT_BLAS_ALWAYS,
  RM_ENVIRONMENT_CUDA_BLOCKS,
  RM_ENVIRONMENT_COUNT
} rm_environment;

/* The number in an environment variable; `unset` if there is none, or no valid one. */
int rm_environment_value(rm_environment variable, int unset);

/* Fails if one of these variables has a value that it does not take; has_level tells which
 * instruction sets this machine has. */
int32_t rm_check_environment(bool (*has_level)(int level));

/* False for a path that exists and is no regular file: to open a FIFO may take for ever. */
bool rm_may_open(const char *path);

/* ---- threads (threads.c) --------------------------------------------------------------------- */

/*
 * Runs task(context, i) for every i in [0, tasks), in any order, on the calling thread and the
 * workers, and returns when all have run. The calling thread runs them alone where the workers are
 * busy for another caller, where there are none, or where `work`, the estimated nanoseconds of all
 * tasks, is too short. The split into tasks must not depend on the number of threads, so that
 * results do not either. Within a task it runs alone, unless the call around the task did.
 */
void rm_parallel(ptrdiff_t tasks, double work, void (*task)(void *context, ptrdiff_t index),
                 void *context);

/* The most threads that rm_parallel uses, the calling one included. */
int rm_threads(void);

/* Sets that number, from 1 to 256; 0 means as many as the machine has. */
void rm_set_threads(int threads);

/* Notes that count threads took part in work of this thread. */
void rm_note_threads(int count);

/* The most threads that took part in work of this thread since the last call; at least 1. */
int rm_used_threads(void);

/* Whether short work runs on several threads too: 0 or 1 to set it, a negative value to ask. */
int rm_always_parallel(int value);

/* Starts a detached thread with a stack of so many bytes, 0 for the usual one; false if the system
 * allows no more. Keeps this library loaded. */
bool rm_start_thread(void (*body)(void *argument), void *argument, size_t stack);

/* Lets other threads of this process run before the calling thread, which cannot be undone.
 * rm_parallel uses workers of low priority for it from then on. */
void rm_enter_background(void);

/* Says that a thread is about to enter the background. */
void rm_expect_background(void);

/* Whether one was. */
bool rm_has_background(void);

/* A monotonic clock. */
int64_t rm_nanoseconds(void);

/* Yields the processor to another thread. */
void rm_yield(void);

/*
 * Keeps this library loaded for good. A runtime unloads it when the worker that opened it ends;
 * threads that sleep in it, garbage collectors and thread destructors would then run unmapped code.
 */
void rm_pin_library(void);

/* The least limit of the control groups that a file names, as /proc/self/cgroup does, with their
 * folders under `folder`; infinite without one. Only on Linux. */
double rm_group_limit(const char *groups, const char *folder);

/* ---- BLAS (cpu/blas.c) ----------------------------------------------------------------------- */

typedef enum {
  RM_BLAS_CLOSED,
  RM_BLAS_OPEN,
  /* Preferred even where own kernels are faster, for tests. */
  RM_BLAS_ALWAYS
} rm_blas_state;

rm_blas_state rm_blas_status(void);

/* Sets the number of threads of the open BLAS, if any. */
void rm_blas_threads(int threads);

/* The product of float32 or float64 by the open BLAS; `at` holds the offsets of c, a and b. False
 * if BLAS cannot read a matrix in place, or the process exits. */
bool rm_blas_multiply(int32_t dtype, const double *plan, const double *at, void *c, const void *a,
                      const void *b);

#endif
