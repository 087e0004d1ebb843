/*
 * Tests the loops of programs with the pool of threads: each tile runs once on its own rows, the
 * first failure stops the loop with its own message, and kernels in tiles of a background program
 * leave the workers of the foreground alone. This program is a stand-in for the kernels.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#include "check.h"
#include "internal.h"
#include "mutex.h"
#include "program.h"

enum { TILES = 64, CALLS = 2, ROUNDS = 20 };

/* ---- kernels ----------------------------------------------------------------------------------- */

/* Kernel 0 runs tasks of its own, kernel 1 fails on all threads but one. */
static pthread_t healthy;
static _Atomic(int) on_workers;

static void nothing(void *context, ptrdiff_t i) {
  (void)context;
  (void)i;
}

int32_t rm_run_call(const rm_call *call) {
  const bool is_worker = !pthread_equal(pthread_self(), healthy);
  atomic_fetch_add(&on_workers, is_worker);
  ++*(double *)call->buffers[0];
  /* Long enough for workers to join. */
  usleep(200);
  if (call->op == 1) return is_worker ? rm_fail(RM_BAD_ARGUMENT, "a worker's tile") : RM_OK;
  rm_used_threads();
  rm_parallel(8, 1e9, nothing, NULL);
  CHECK(rm_used_threads() == 1);
  return RM_OK;
}

/* What kernels keep depends on these. */
const rm_kernels *_Atomic rm_active_kernels;
const rm_kernels *rm_choose_isa(void) { return NULL; }
rm_blas_state rm_blas_status(void) { return RM_BLAS_CLOSED; }

const char *rm_kernel_name(int kernel) { return kernel == 0 ? "first" : "second"; }

/* ---- programs ---------------------------------------------------------------------------------- */

/* A program of two calls of `kernel` on one bound buffer, which are a loop as often as `loops`. */
static double program_of(int kernel, int loops) {
  double numbers[128];
  int n = 1;
  const double head[] = {1, CALLS, 0, 0, RM_PROGRAM_BOUND, 0, TILES * sizeof(double)};
  for (size_t i = 0; i < sizeof head / sizeof *head; i++) numbers[n++] = head[i];
  for (int i = 0; i < CALLS; i++) {
    const double call[] = {kernel, RM_NONE, 0, RM_MAX_OPERANDS, 0, RM_FLOAT64, RM_NONE, RM_NONE,
                           RM_NONE, 0, -1, -1, -1};
    for (size_t k = 0; k < sizeof call / sizeof *call; k++) numbers[n++] = call[k];
  }
  numbers[n++] = loops;
  for (int i = 0; i < loops; i++) {
    const double loop[] = {0, CALLS, 0, TILES, 4, 1e9};
    for (size_t k = 0; k < sizeof loop / sizeof *loop; k++) numbers[n++] = loop[k];
    for (int k = 0; k < CALLS * RM_MAX_OPERANDS; k++) {
      numbers[n++] = k % RM_MAX_OPERANDS == 0 ? sizeof(double) : 0;
      numbers[n++] = 0;
    }
  }
  numbers[0] = n;
  return rm_program(RM_PROGRAM_MAKE, numbers) == RM_OK ? numbers[0] : 0;
}

static double frame_of(double program, double *rows) {
  double numbers[2] = {program};
  CHECK(rm_program(RM_PROGRAM_MAKE_FRAME, numbers) == RM_OK);
  CHECK(rm_program_bind(numbers[0], 0, rows, NULL, NULL, NULL) == RM_OK);
  return numbers[0];
}

static void free_both(double frame, double program) {
  CHECK(rm_program(RM_PROGRAM_FREE_FRAME, &frame) == RM_OK);
  CHECK(rm_program(RM_PROGRAM_FREE, &program) == RM_OK);
}

/* ---- runs -------------------------------------------------------------------------------------- */

static rm_mutex mutex = RM_MUTEX_INIT;
static rm_condition changed = RM_CONDITION_INIT;
static bool has_ended;

static void run_in_background(void *unused) {
  (void)unused;
  rm_enter_background();
  healthy = pthread_self();
  double rows[TILES] = {0};
  const double program = program_of(0, 1), frame = frame_of(program, rows);
  for (int round = 1; round <= ROUNDS; round++) {
    CHECK(rm_program_run(frame, 0, CALLS) == RM_OK);
    for (int i = 0; i < TILES; i++) CHECK(rows[i] == CALLS * round);
  }
  CHECK(on_workers > 0);
  free_both(frame, program);
  rm_mutex_lock(&mutex);
  has_ended = true;
  rm_condition_signal(&changed);
  rm_mutex_unlock(&mutex);
}

static void check_failures(void) {
  healthy = pthread_self();
  double rows[TILES] = {0}, numbers[2];
  char text[512];
  const double program = program_of(1, 1), frame = frame_of(program, rows);
  rm_fail(RM_BAD_ARGUMENT, "an older message of this thread");
  CHECK(rm_program_run(frame, 0, CALLS) == RM_BAD_ARGUMENT);
  CHECK(rm_program_fault(frame, numbers, text, sizeof text) > 0);
  CHECK(strcmp(text, "second\na worker's tile") == 0);
  /* A part of a loop is not run. */
  memset(rows, 0, sizeof rows);
  CHECK(rm_program_run(frame, 0, 1) == RM_BAD_ARGUMENT);
  CHECK(rm_program_run(frame, 1, CALLS) == RM_BAD_ARGUMENT);
  for (int i = 0; i < TILES; i++) CHECK(rows[i] == 0);
  free_both(frame, program);
  /* No call is a part of two loops. */
  CHECK(program_of(1, 2) == 0);
  double none = 0;
  CHECK(rm_program(RM_PROGRAM_FREE, &none) == RM_BAD_ARGUMENT);
}

int main(void) {
  rm_set_threads(4);
  CHECK(rm_start_thread(run_in_background, NULL, 0));
  rm_mutex_lock(&mutex);
  while (!has_ended) rm_condition_wait(&changed, &mutex);
  rm_mutex_unlock(&mutex);
  check_failures();
  printf("%d tiles\n", ROUNDS * TILES);
  return 0;
}
