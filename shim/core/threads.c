/*
 * One thread pool per process. Idle workers sleep.
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
  /* Nanoseconds that a thread spins before it sleeps: ops often follow each other closely, and
   * waking a thread takes as long as many of them. */
  SPIN_NS = 50000,
  /* Work shorter than SHORT_WORK_NS runs on one thread. So does work shorter than LONG_WORK_NS if
   * nothing has run recently, since waking workers takes tens of microseconds. */
  SHORT_WORK_NS = 8000,
  LONG_WORK_NS = 100000,
  /* Work longer than this may evict the data of its first tasks from the caches. */
  ALTERNATING_WORK_NS = 30000
};

#if defined(_WIN32)
typedef CONDITION_VARIABLE condition;
static void condition_init(condition *c) { InitializeConditionVariable(c); }
static void condition_wait(condition *c, rm_mutex *l) {
  SleepConditionVariableSRW(c, l, INFINITE, 0);
}
static void condition_signal(condition *c) { WakeConditionVariable(c); }
void rm_yield(void) { SwitchToThread(); }
int64_t rm_nanoseconds(void) {
  LARGE_INTEGER count, each;
  QueryPerformanceCounter(&count);
  QueryPerformanceFrequency(&each);
  return (int64_t)((double)count.QuadPart / (double)each.QuadPart * 1e9);
}
static int hardware_threads(void) {
  SYSTEM_INFO about;
  GetSystemInfo(&about);
  return (int)about.dwNumberOfProcessors;
}
#else
typedef pthread_cond_t condition;
static void condition_init(condition *c) { pthread_cond_init(c, NULL); }
static void condition_wait(condition *c, rm_mutex *l) { pthread_cond_wait(c, l); }
static void condition_signal(condition *c) { pthread_cond_signal(c); }
void rm_yield(void) { sched_yield(); }
int64_t rm_nanoseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static int hardware_threads(void) {
#if defined(__linux__)
  /* The processors that the process may use, which a container may limit. */
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  return (int)sysconf(_SC_NPROCESSORS_ONLN);
}
#endif

/* Set by the caller whose tasks run. Another caller finds it set and works alone. */
static atomic_flag pool_in_use = ATOMIC_FLAG_INIT;

/* When the last tasks ended; written only while pool_in_use is held. */
static int64_t last_end;

static rm_mutex mutex = RM_MUTEX_INIT;

/* The threads of the pool, the caller first. */
static struct {
  /* The partition of the tasks that this thread starts with: how many of them are claimed, and how
   * many of those by other threads, which start at its end. */
  _Alignas(64) _Atomic(ptrdiff_t) claimed;
  _Atomic(ptrdiff_t) stolen;
  ptrdiff_t first, end;
  /* Incremented to wake the thread. */
  _Atomic(unsigned) call_count;
  condition called;
} threads[MAX_THREADS];

/* The number of workers, which are threads [1, workers]. Guarded by mutex. */
static int workers;

/* The current tasks, and how many threads take part; 0 when no worker may join. Guarded by
 * mutex. */
static void (*current_task)(void *context, ptrdiff_t index);
static void *current_context;
static int current_threads;

/* Workers that run tasks. Changed under mutex only. */
static _Atomic(int) active_workers;

static _Atomic(int) thread_limit;

/* The most threads that took part in work of this thread since rm_used_threads. */
static _Thread_local int used_threads;

/* Long work alternates between forward and backward order: what one call leaves in the caches, its
 * result or what the next call reads again, is then what the next call starts with. Work that fits
 * in the caches keeps its order, since each thread would otherwise run other tasks each time. */
static _Atomic(unsigned) alternation;
static bool is_reversed;

static bool claim(int of) {
  const ptrdiff_t size = threads[of].end - threads[of].first;
  return atomic_fetch_add_explicit(&threads[of].claimed, 1, memory_order_relaxed) < size;
}

/* Runs the i-th task of a partition, counted from its start or from its end. */
static void run_task(int of, ptrdiff_t i, bool from_end) {
  current_task(current_context, from_end ? threads[of].end - 1 - i : threads[of].first + i);
}

/* Runs the tasks of a thread's own partition first, the same ones whenever the same work comes
 * again, so that their data may still be in the caches of its core; then the remaining tasks of
 * other partitions. */
static void run_partitions(int self, int participants) {
  const bool reversed = is_reversed;
  for (ptrdiff_t i = 0; claim(self); i++) run_task(self, i, reversed);
  for (int i = 1; i < participants; i++) {
    const int of = self + i < participants ? self + i : self + i - participants;
    while (claim(of)) {
      run_task(of, atomic_fetch_add_explicit(&threads[of].stolen, 1, memory_order_relaxed),
               !reversed);
    }
  }
}

/* The main loop of a worker. */
static void worker_loop(int self) {
  unsigned last_call = 0;
  for (;;) {
    const int64_t end = rm_nanoseconds() + SPIN_NS;
    while (atomic_load(&threads[self].call_count) == last_call && rm_nanoseconds() < end) {
      rm_yield();
    }
    rm_mutex_lock(&mutex);
    while (threads[self].call_count == last_call) condition_wait(&threads[self].called, &mutex);
    last_call = threads[self].call_count;
    const int participants = current_threads;
    /* The worker may be late: other work may have started since. */
    const bool joins = self < participants;
    active_workers += joins;
    rm_mutex_unlock(&mutex);
    if (!joins) continue;
    run_partitions(self, participants);
    rm_mutex_lock(&mutex);
    if (--active_workers == 0) condition_signal(&threads[0].called);
    rm_mutex_unlock(&mutex);
  }
}

#if defined(_WIN32)
void rm_pin_library(void) {
  HMODULE self;
  GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                     (LPCSTR)&workers, &self);
}
#else
void rm_pin_library(void) {
  Dl_info self;
  if (dladdr((const void *)&workers, &self) != 0) {
    dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  }
}
#endif

#if defined(_WIN32)
static DWORD WINAPI thread_main(LPVOID self) {
  worker_loop((int)(intptr_t)self);
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
  worker_loop((int)(intptr_t)self);
  return NULL;
}
static bool start_thread(int self) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, thread_main, (void *)(intptr_t)self) != 0) return false;
  pthread_detach(thread);
  return true;
}
#endif

/* Starts workers [1, last], as far as the system allows. */
static void start_workers(int last) {
  if (workers == 0) {
    rm_pin_library();
    condition_init(&threads[0].called);
  }
  while (workers < last) {
    condition_init(&threads[workers + 1].called);
    if (!start_thread(workers + 1)) return;
    workers++;
  }
}

static int clamp_threads(int count) {
  if (count <= 0) count = hardware_threads();
  return count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : count;
}

int rm_threads(void) {
  int n = atomic_load_explicit(&thread_limit, memory_order_relaxed);
  if (n > 0) return n;
  const int count = clamp_threads(rm_environment_value(RM_ENVIRONMENT_THREADS, 0));
  int unset = 0;
  /* Unless another thread has set it meanwhile. */
  atomic_compare_exchange_strong(&thread_limit, &unset, count);
  return atomic_load(&thread_limit);
}

void rm_note_threads(int count) {
  if (count > used_threads) used_threads = count;
}

int rm_used_threads(void) {
  const int most = used_threads;
  used_threads = 0;
  return most < 1 ? 1 : most;
}

void rm_set_threads(int count) { atomic_store(&thread_limit, clamp_threads(count)); }

int rm_always_parallel(int value) {
  static _Atomic(int) always_parallel;
  if (value >= 0) atomic_store(&always_parallel, value != 0);
  return atomic_load_explicit(&always_parallel, memory_order_relaxed);
}

static void run_serially(ptrdiff_t tasks, void (*task)(void *context, ptrdiff_t index),
                         void *context, bool reversed) {
  for (ptrdiff_t i = 0; i < tasks; i++) task(context, reversed ? tasks - 1 - i : i);
}

void rm_parallel(ptrdiff_t tasks, double work, void (*task)(void *context, ptrdiff_t index),
                 void *context) {
  const bool reversed = work >= ALTERNATING_WORK_NS &&
                        (atomic_fetch_add_explicit(&alternation, 1, memory_order_relaxed) & 1);
  const int limit = (int)rm_min(rm_threads(), tasks);
  if (rm_always_parallel(-1)) work = LONG_WORK_NS;
  if (limit <= 1 || work < SHORT_WORK_NS || atomic_flag_test_and_set(&pool_in_use)) {
    run_serially(tasks, task, context, reversed);
    return;
  }
  if (work < LONG_WORK_NS && rm_nanoseconds() - last_end > SPIN_NS) {
    run_serially(tasks, task, context, reversed);
    last_end = rm_nanoseconds();
    atomic_flag_clear(&pool_in_use);
    return;
  }
  rm_mutex_lock(&mutex);
  start_workers(limit - 1);
  const int participants = workers < limit - 1 ? workers + 1 : limit;
  current_task = task;
  current_context = context;
  is_reversed = reversed;
  current_threads = participants;
  for (int i = 0; i < participants; i++) {
    threads[i].claimed = threads[i].stolen = 0;
    threads[i].first = tasks / participants * i + rm_min(i, tasks % participants);
    threads[i].end = tasks / participants * (i + 1) + rm_min(i + 1, tasks % participants);
    threads[i].call_count++;
  }
  for (int i = 1; i < participants; i++) condition_signal(&threads[i].called);
  rm_mutex_unlock(&mutex);
  rm_note_threads(participants);
  run_partitions(0, participants);
  rm_mutex_lock(&mutex);
  /* A worker that has not joined yet has nothing left to do. */
  current_threads = 0;
  rm_mutex_unlock(&mutex);
  const int64_t end = rm_nanoseconds() + SPIN_NS;
  while (atomic_load(&active_workers) > 0 && rm_nanoseconds() < end) rm_yield();
  rm_mutex_lock(&mutex);
  while (active_workers > 0) condition_wait(&threads[0].called, &mutex);
  rm_mutex_unlock(&mutex);
  last_end = rm_nanoseconds();
  atomic_flag_clear(&pool_in_use);
}
