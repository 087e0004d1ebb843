/*
 * One pool of threads for the process: workers sleep while there are no tasks.
 *
 * Knows nothing of kernels.
 */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>
#endif
#include <stdatomic.h>
#include <stdlib.h>
#include "internal.h"
#include "mutex.h"

enum {
  MAX_THREADS = 256,
  /* Nanoseconds for which a thread looks for what it waits for before it sleeps, as ops often come
   * close upon each other and waking one takes as long as many of them. */
  PATIENCE = 50000,
  /* A job that is shorter than this is for one thread; so is one that is shorter than the other, as
   * long as nothing else has run of late: waking takes tens of microseconds. */
  SHORT_JOB = 8000,
  LONG_JOB = 100000,
  /* From this on a job may leave nothing of its beginning in the caches. */
  TURNING_JOB = 30000
};

#if defined(_WIN32)
typedef CONDITION_VARIABLE condition;
static void begin(condition *c) { InitializeConditionVariable(c); }
static void await(condition *c, rm_lock *l) { SleepConditionVariableSRW(c, l, INFINITE, 0); }
static void wake(condition *c) { WakeConditionVariable(c); }
void rm_yield(void) { SwitchToThread(); }
int64_t rm_nanoseconds(void) {
  LARGE_INTEGER count, each;
  QueryPerformanceCounter(&count);
  QueryPerformanceFrequency(&each);
  return (int64_t)((double)count.QuadPart / (double)each.QuadPart * 1e9);
}
static int machine_threads(void) {
  SYSTEM_INFO about;
  GetSystemInfo(&about);
  return (int)about.dwNumberOfProcessors;
}
#else
typedef pthread_cond_t condition;
static void begin(condition *c) { pthread_cond_init(c, NULL); }
static void await(condition *c, rm_lock *l) { pthread_cond_wait(c, l); }
static void wake(condition *c) { pthread_cond_signal(c); }
void rm_yield(void) { sched_yield(); }
int64_t rm_nanoseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static int machine_threads(void) {
#if defined(__linux__)
  /* What the process may use, which a container may have narrowed. */
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  return (int)sysconf(_SC_NPROCESSORS_ONLN);
}
#endif

/* Taken by the caller whose tasks are under way; another one finds it taken and works alone. */
static atomic_flag in_use = ATOMIC_FLAG_INIT;

/* When the last job ended; for whom the above is taken. */
static int64_t last_end;

static rm_lock guard = RM_LOCK_INIT;

/* Each thread of the pool, the caller first. */
static struct {
  /* The thread's share of the tasks of the job under way: how many of them are claimed, and how
   * many of these by others, who begin at its end. */
  _Alignas(64) _Atomic(ptrdiff_t) claimed;
  _Atomic(ptrdiff_t) stolen;
  ptrdiff_t first, end;
  /* Changes when the thread is called. */
  _Atomic(unsigned) calls;
  condition called;
} threads[MAX_THREADS];

/* Workers there are, threads [1, workers]; guarded. */
static int workers;

/* The job under way, and how many threads have a share in it; no worker may join where that is 0.
 * Guarded. */
static void (*job_task)(void *context, ptrdiff_t index);
static void *job_context;
static int job_threads;

/* Workers that are at work; guarded where it is changed. */
static _Atomic(int) working;

static _Atomic(int) wanted;

/* Long jobs run forwards and backwards by turns: what one has left in the caches, its result or
 * what the next one reads again, is what the next one begins with. What all fits there needs no
 * turns: it would be other tasks that a thread takes over each time. */
static _Atomic(unsigned) turn;
static bool job_backwards;

static bool claim(int of) {
  const ptrdiff_t size = threads[of].end - threads[of].first;
  return atomic_fetch_add_explicit(&threads[of].claimed, 1, memory_order_relaxed) < size;
}

/* Runs the i-th task of a share, from the end where its thread begins or from the other one. */
static void run_task(int of, ptrdiff_t i, bool from_end) {
  job_task(job_context, from_end ? threads[of].end - 1 - i : threads[of].first + i);
}

/* Runs the tasks of a thread's share, the same ones each time that the same job comes, so that
 * their data may still be in the caches of its core; then what is left of the others'. */
static void run_tasks(int self, int sharing) {
  const bool backwards = job_backwards;
  for (ptrdiff_t i = 0; claim(self); i++) run_task(self, i, backwards);
  for (int i = 1; i < sharing; i++) {
    const int of = self + i < sharing ? self + i : self + i - sharing;
    while (claim(of)) {
      run_task(of, atomic_fetch_add_explicit(&threads[of].stolen, 1, memory_order_relaxed),
               !backwards);
    }
  }
}

/* What a worker does all its life. */
static void work(int self) {
  unsigned seen = 0;
  for (;;) {
    const int64_t end = rm_nanoseconds() + PATIENCE;
    while (atomic_load(&threads[self].calls) == seen && rm_nanoseconds() < end) rm_yield();
    rm_acquire(&guard);
    while (threads[self].calls == seen) await(&threads[self].called, &guard);
    seen = threads[self].calls;
    const int sharing = job_threads;
    /* Late, maybe for a job that another has followed. */
    const bool joins = self < sharing;
    working += joins;
    rm_release(&guard);
    if (!joins) continue;
    run_tasks(self, sharing);
    rm_acquire(&guard);
    if (--working == 0) wake(&threads[0].called);
    rm_release(&guard);
  }
}

#if defined(_WIN32)
void rm_stay_loaded(void) {
  HMODULE self;
  GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                     (LPCSTR)&workers, &self);
}
#else
void rm_stay_loaded(void) {
  Dl_info self;
  if (dladdr((const void *)&workers, &self) != 0) {
    dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  }
}
#endif

#if defined(_WIN32)
static DWORD WINAPI thread_main(LPVOID self) {
  work((int)(intptr_t)self);
  return 0;
}
static bool start_thread(int self) {
  HANDLE thread = CreateThread(NULL, 0, thread_main, (LPVOID)(intptr_t)self, 0, NULL);
  if (thread == NULL) return false;
  CloseHandle(thread);
  return true;
}
#else
static void *thread_main(void *self) {
  work((int)(intptr_t)self);
  return NULL;
}
static bool start_thread(int self) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, thread_main, (void *)(intptr_t)self) != 0) return false;
  pthread_detach(thread);
  return true;
}
#endif

/* Makes the workers [1, last] as far as the system lets it. */
static void start_workers(int last) {
  if (workers == 0) {
    rm_stay_loaded();
    begin(&threads[0].called);
  }
  while (workers < last) {
    begin(&threads[workers + 1].called);
    if (!start_thread(workers + 1)) return;
    workers++;
  }
}

static int allowed(int count) {
  if (count <= 0) count = machine_threads();
  return count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : count;
}

int rm_threads(void) {
  int n = atomic_load_explicit(&wanted, memory_order_relaxed);
  if (n > 0) return n;
  const char *text = getenv("ROWMAJOR_THREADS");
  int none = 0;
  /* Unless somebody has set it meanwhile. */
  atomic_compare_exchange_strong(&wanted, &none, allowed(text == NULL ? 0 : atoi(text)));
  return atomic_load(&wanted);
}

void rm_set_threads(int count) { atomic_store(&wanted, allowed(count)); }

int rm_share_all(int value) {
  static _Atomic(int) share_all;
  if (value >= 0) atomic_store(&share_all, value != 0);
  return atomic_load_explicit(&share_all, memory_order_relaxed);
}

static void run_alone(ptrdiff_t tasks, void (*task)(void *context, ptrdiff_t index), void *context,
                      bool backwards) {
  for (ptrdiff_t i = 0; i < tasks; i++) task(context, backwards ? tasks - 1 - i : i);
}

void rm_parallel(ptrdiff_t tasks, double work, void (*task)(void *context, ptrdiff_t index),
                 void *context) {
  const bool backwards =
      work >= TURNING_JOB && (atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed) & 1);
  const int most = (int)rm_least(rm_threads(), tasks);
  if (rm_share_all(-1)) work = LONG_JOB;
  if (most <= 1 || work < SHORT_JOB || atomic_flag_test_and_set(&in_use)) {
    run_alone(tasks, task, context, backwards);
    return;
  }
  if (work < LONG_JOB && rm_nanoseconds() - last_end > PATIENCE) {
    run_alone(tasks, task, context, backwards);
    last_end = rm_nanoseconds();
    atomic_flag_clear(&in_use);
    return;
  }
  rm_acquire(&guard);
  start_workers(most - 1);
  const int sharing = workers < most - 1 ? workers + 1 : most;
  job_task = task;
  job_context = context;
  job_backwards = backwards;
  job_threads = sharing;
  for (int i = 0; i < sharing; i++) {
    threads[i].claimed = threads[i].stolen = 0;
    threads[i].first = tasks / sharing * i + rm_least(i, tasks % sharing);
    threads[i].end = tasks / sharing * (i + 1) + rm_least(i + 1, tasks % sharing);
    threads[i].calls++;
  }
  for (int i = 1; i < sharing; i++) wake(&threads[i].called);
  rm_release(&guard);
  run_tasks(0, sharing);
  rm_acquire(&guard);
  /* Who has not come yet has nothing left to do. */
  job_threads = 0;
  rm_release(&guard);
  const int64_t end = rm_nanoseconds() + PATIENCE;
  while (atomic_load(&working) > 0 && rm_nanoseconds() < end) rm_yield();
  rm_acquire(&guard);
  while (working > 0) await(&threads[0].called, &guard);
  rm_release(&guard);
  last_end = rm_nanoseconds();
  atomic_flag_clear(&in_use);
}
