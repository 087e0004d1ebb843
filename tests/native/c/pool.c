/*
 * Three threads use the pool of threads.c at once while the number of its threads changes. Every
 * task must run once. For the thread sanitizer.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
#include "internal.h"

enum { CALLERS = 3, JOBS = 3000, MOST = 40 };

static _Atomic(int) jobs, wrong;

static void run_one(void *done, ptrdiff_t i) { ((int *)done)[i]++; }

static void *call(void *seed) {
  uint32_t random = *(const uint32_t *)seed;
  for (int job = 0; job < JOBS; job++) {
    random = random * 1664525 + 1013904223;
    const ptrdiff_t tasks = 1 + (random >> 16) % MOST;
    int done[MOST] = {0};
    if (job % 100 == 0) rm_set_threads(1 + (int)(random >> 20) % 8);
    rm_parallel(tasks, job % 3 == 0 ? 1e6 : 2e4, run_one, done);
    for (ptrdiff_t i = 0; i < MOST; i++) wrong += done[i] != (i < tasks);
    jobs++;
    /* Long enough for the pool to sleep. */
    if ((random >> 8) % 50 == 0) usleep(100);
  }
  return NULL;
}

int main(void) {
  pthread_t callers[CALLERS];
  uint32_t seeds[CALLERS] = {1, 20, 300};
  for (int i = 0; i < CALLERS; i++) pthread_create(&callers[i], NULL, call, &seeds[i]);
  for (int i = 0; i < CALLERS; i++) pthread_join(callers[i], NULL);
  printf("%d jobs\n", jobs);
  return wrong != 0;
}
