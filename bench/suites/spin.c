/*
 * Threads that only compute: the control of the timer's lateness, as they show what the runtime and
 * the system give to a timer while cores are busy. Linux and macOS.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#if defined(__linux__)
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define MOST_THREADS 64

static pthread_t threads[MOST_THREADS];
static int32_t started, nice_value;
static atomic_int stopped;

static void *spin(void *unused) {
  (void)unused;
#if defined(__linux__)
  setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), nice_value);
#endif
  volatile float x = 1;
  while (!atomic_load_explicit(&stopped, memory_order_relaxed)) {
    for (int i = 0; i < 4096; i++) x = x * 0.5f + 1;
  }
  return NULL;
}

/* Starts `count` threads at a nice value; returns how many run. */
__attribute__((visibility("default"))) int32_t spin_start(int32_t count, int32_t nice) {
  atomic_store(&stopped, 0);
  nice_value = nice;
  for (started = 0; started < count && started < MOST_THREADS; started++) {
    if (pthread_create(&threads[started], NULL, spin, NULL) != 0) break;
  }
  return started;
}

/* Ends them. */
__attribute__((visibility("default"))) void spin_stop(void) {
  atomic_store(&stopped, 1);
  while (started > 0) pthread_join(threads[--started], NULL);
}
