/*
 * What a WebAssembly module has in place of threads, the environment, BLAS, LAPACK and MPI: one
 * thread, and nothing of the others.
 */
#include "internal.h"
#include "kernel.h"
#include "linalg.h"
#include "lapack.h"

/* ---- threads --------------------------------------------------------------------------------- */

/* The clock of the host, in milliseconds. */
__attribute__((import_module("env"), import_name("now"))) double host_now(void);

void rm_yield(void) {}
int64_t rm_nanoseconds(void) { return (int64_t)(host_now() * 1e6); }

void rm_parallel(ptrdiff_t tasks, double work, void (*task)(void *context, ptrdiff_t index),
                 void *context) {
  (void)work;
  for (ptrdiff_t i = 0; i < tasks; i++) task(context, i);
}

int rm_threads(void) { return 1; }
void rm_set_threads(int threads) { (void)threads; }
void rm_note_threads(int count) { (void)count; }
int rm_used_threads(void) { return 1; }

int rm_always_parallel(int value) {
  (void)value;
  return 0;
}

bool rm_start_thread(void (*body)(void *argument), void *argument, size_t stack) {
  (void)body, (void)argument, (void)stack;
  return false;
}

void rm_enter_background(void) {}
void rm_expect_background(void) {}
bool rm_has_background(void) { return false; }
void rm_pin_library(void) {}

/* ---- environment ----------------------------------------------------------------------------- */

int rm_environment_value(rm_environment variable, int unset) {
  (void)variable;
  return unset;
}

int32_t rm_check_environment(bool (*has_level)(int level)) {
  (void)has_level;
  return RM_OK;
}

/* ---- BLAS, LAPACK and MPI -------------------------------------------------------------------- */

rm_blas_state rm_blas_status(void) { return RM_BLAS_CLOSED; }
void rm_blas_threads(int threads) { (void)threads; }

bool rm_blas_multiply(int32_t dtype, const double *plan, const double *at, void *c, const void *a,
                      const void *b) {
  (void)dtype, (void)plan, (void)at, (void)c, (void)a, (void)b;
  return false;
}

bool rm_lapack_call(void (*body)(void *data), void *data, bool is_alone) {
  (void)is_alone;
  body(data);
  return true;
}

bool rm_lapack_takes(const rm_linalg *ctx) {
  (void)ctx;
  return false;
}

bool rm_lapack_run(const rm_linalg *ctx, ptrdiff_t index) {
  (void)ctx, (void)index;
  return false;
}

int32_t rm_collective(const rm_call *call) {
  (void)call;
  return RM_UNSUPPORTED;
}
