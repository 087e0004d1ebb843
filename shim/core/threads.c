/*
 * Two thread pools per process: one for all callers, and one of lower priority for the queue thread,
 * so that neither work in the foreground waits for a program in the background, nor the other way
 * round. Idle workers sleep.
 */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>
#endif
#if defined(__linux__)
#include <sys/resource.h>
#include <sys/syscall.h>
#elif defined(__APPLE__)
#include <pthread/qos.h>
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
  ALTERNATING_WORK_NS = 30000,
  /* How much nicer the queue thread and its workers are than the process. With 19 or as idle
   * threads, they would hardly run beside other processes. */
  BACKGROUND_NICE = 10
};

#if defined(_WIN32)
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

typedef struct pool pool;

/* A thread of a pool, the caller first. */
typedef struct {
  /* The partition of the tasks that this thread starts with: how many of them are claimed, and how
   * many of those by other threads, which start at its end. */
  _Alignas(64) _Atomic(ptrdiff_t) claimed;
  _Atomic(ptrdiff_t) stolen;
  ptrdiff_t first, end;
  /* Incremented to wake the thread. */
  _Atomic(unsigned) call_count;
  rm_condition called;
  pool *of;
} pool_thread;

struct pool {
  /* Set by the caller whose tasks run. Another caller finds it set and works alone. */
  atomic_flag in_use;
  /* When the last tasks ended; written only while in_use is held. */
  int64_t last_end;
  rm_mutex mutex;
  /* The number of workers, which are threads [1, workers]. Guarded by mutex. */
  int workers;
  /* The current tasks, and how many threads take part; 0 when no worker may join. Guarded by
   * mutex. */
  void (*task)(void *context, ptrdiff_t index);
  void *context;
  int participants;
  /* Workers that run tasks. Changed under mutex only. */
  _Atomic(int) active_workers;
  bool is_reversed;
  pool_thread *threads;
};

static pool_thread foreground_threads[MAX_THREADS], background_threads[MAX_THREADS];
static pool foreground = {
    .in_use = ATOMIC_FLAG_INIT, .mutex = RM_MUTEX_INIT, .threads = foreground_threads};
static pool background = {
    .in_use = ATOMIC_FLAG_INIT, .mutex = RM_MUTEX_INIT, .threads = background_threads};

/* Whether this is the queue thread or one of its workers. */
static _Thread_local bool in_background;

static _Atomic(int) thread_limit;

/* The most threads that took part in work of this thread since rm_used_threads. */
static _Thread_local int used_threads;

/* Long work alternates between forward and backward order: what one call leaves in the caches, its
 * result or what the next call reads again, is then what the next call starts with. Work that fits
 * in the caches keeps its order, since each thread would otherwise run other tasks each time. */
static _Atomic(unsigned) alternation;

static bool claim(pool_thread *of) {
  return atomic_fetch_add_explicit(&of->claimed, 1, memory_order_relaxed) < of->end - of->first;
}

/* Runs the i-th task of a partition, counted from its start or from its end. */
static void run_task(const pool *p, const pool_thread *of, ptrdiff_t i, bool from_end) {
  p->task(p->context, from_end ? of->end - 1 - i : of->first + i);
}

/* Runs the tasks of a thread's own partition first, the same ones whenever the same work comes
 * again, so that their data may still be in the caches of its core; then the remaining tasks of
 * other partitions. */
static void run_partitions(pool *p, int self, int participants) {
  const bool reversed = p->is_reversed;
  for (ptrdiff_t i = 0; claim(&p->threads[self]); i++) {
    run_task(p, &p->threads[self], i, reversed);
  }
  for (int i = 1; i < participants; i++) {
    pool_thread *of = &p->threads[self + i < participants ? self + i : self + i - participants];
    while (claim(of)) {
      run_task(p, of, atomic_fetch_add_explicit(&of->stolen, 1, memory_order_relaxed), !reversed);
    }
  }
}

/* The main loop of a worker. */
static void worker_loop(void *thread) {
  pool_thread *self = thread;
  pool *p = self->of;
  const int index = (int)(self - p->threads);
  unsigned last_call = 0;
  if (p == &background) rm_enter_background();
  for (;;) {
    const int64_t end = rm_nanoseconds() + SPIN_NS;
    while (atomic_load(&self->call_count) == last_call && rm_nanoseconds() < end) rm_yield();
    rm_mutex_lock(&p->mutex);
    while (self->call_count == last_call) rm_condition_wait(&self->called, &p->mutex);
    last_call = self->call_count;
    const int participants = p->participants;
    /* The worker may be late: other work may have started since. */
    const bool joins = index < participants;
    p->active_workers += joins;
    rm_mutex_unlock(&p->mutex);
    if (!joins) continue;
    run_partitions(p, index, participants);
    rm_mutex_lock(&p->mutex);
    if (--p->active_workers == 0) rm_condition_signal(&p->threads[0].called);
    rm_mutex_unlock(&p->mutex);
  }
}

#if defined(_WIN32)
static void pin_library(void) {
  HMODULE self;
  GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                     (LPCSTR)&foreground, &self);
}
#else
static void pin_library(void) {
  Dl_info self;
  if (dladdr((const void *)&foreground, &self) != 0) {
    dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  }
}
#endif

void rm_pin_library(void) {
  static _Atomic(bool) pinned;
  if (atomic_load(&pinned)) return;
  pin_library();
  atomic_store(&pinned, true);
}

/* What a new thread runs. */
typedef struct {
  void (*body)(void *argument);
  void *argument;
} thread_start;

static void run_thread(void *start) {
  const thread_start own = *(thread_start *)start;
  free(start);
  own.body(own.argument);
}

#if defined(_WIN32)
static DWORD WINAPI thread_main(LPVOID start) {
  run_thread(start);
  return 0;
}
static bool create_thread(thread_start *start, size_t stack) {
  HANDLE thread = CreateThread(NULL, stack, thread_main, start, STACK_SIZE_PARAM_IS_A_RESERVATION,
                               NULL);
  if (thread == NULL) return false;
  CloseHandle(thread);
  return true;
}
#else
static void *thread_main(void *start) {
  run_thread(start);
  return NULL;
}
static bool create_thread(thread_start *start, size_t stack) {
  pthread_attr_t attributes;
  pthread_t thread;
  if (pthread_attr_init(&attributes) != 0) return false;
  if (stack > 0) pthread_attr_setstacksize(&attributes, stack);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  const bool started = pthread_create(&thread, &attributes, thread_main, start) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}
#endif

bool rm_start_thread(void (*body)(void *argument), void *argument, size_t stack) {
  thread_start *start = malloc(sizeof *start);
  if (start == NULL) return false;
  *start = (thread_start){body, argument};
  rm_pin_library();
  if (create_thread(start, stack)) return true;
  free(start);
  return false;
}

#if defined(_WIN32)
static void lower_priority(void) {
  SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_BELOW_NORMAL);
}
#elif defined(__linux__)
static void lower_priority(void) {
  const int nice = getpriority(PRIO_PROCESS, (id_t)getpid()) + BACKGROUND_NICE;
  setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), nice > 19 ? 19 : nice);
}
#else
static void lower_priority(void) { pthread_set_qos_class_self_np(QOS_CLASS_UTILITY, 0); }
#endif

static _Atomic(bool) has_background;

void rm_expect_background(void) { atomic_store(&has_background, true); }

bool rm_has_background(void) { return atomic_load(&has_background); }

void rm_enter_background(void) {
  in_background = true;
  lower_priority();
}

/* Starts workers [1, last], as far as the system allows. */
static void start_workers(pool *p, int last) {
  if (p->workers == 0) rm_condition_init(&p->threads[0].called);
  while (p->workers < last) {
    pool_thread *thread = &p->threads[p->workers + 1];
    thread->of = p;
    rm_condition_init(&thread->called);
    if (!rm_start_thread(worker_loop, thread, 0)) return;
    p->workers++;
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
  if (limit <= 1 || work < SHORT_WORK_NS) {
    run_serially(tasks, task, context, reversed);
    return;
  }
  pool *p = in_background ? &background : &foreground;
  if (atomic_flag_test_and_set(&p->in_use)) {
    run_serially(tasks, task, context, reversed);
    return;
  }
  if (work < LONG_WORK_NS && rm_nanoseconds() - p->last_end > SPIN_NS) {
    run_serially(tasks, task, context, reversed);
    p->last_end = rm_nanoseconds();
    atomic_flag_clear(&p->in_use);
    return;
  }
  rm_mutex_lock(&p->mutex);
  start_workers(p, limit - 1);
  const int participants = p->workers < limit - 1 ? p->workers + 1 : limit;
  p->task = task;
  p->context = context;
  p->is_reversed = reversed;
  p->participants = participants;
  for (int i = 0; i < participants; i++) {
    pool_thread *thread = &p->threads[i];
    thread->claimed = thread->stolen = 0;
    thread->first = tasks / participants * i + rm_min(i, tasks % participants);
    thread->end = tasks / participants * (i + 1) + rm_min(i + 1, tasks % participants);
    thread->call_count++;
  }
  for (int i = 1; i < participants; i++) rm_condition_signal(&p->threads[i].called);
  rm_mutex_unlock(&p->mutex);
  rm_note_threads(participants);
  run_partitions(p, 0, participants);
  rm_mutex_lock(&p->mutex);
  /* A worker that has not joined yet has nothing left to do. */
  p->participants = 0;
  rm_mutex_unlock(&p->mutex);
  const int64_t end = rm_nanoseconds() + SPIN_NS;
  while (atomic_load(&p->active_workers) > 0 && rm_nanoseconds() < end) rm_yield();
  rm_mutex_lock(&p->mutex);
  while (p->active_workers > 0) rm_condition_wait(&p->threads[0].called, &p->mutex);
  rm_mutex_unlock(&p->mutex);
  p->last_end = rm_nanoseconds();
  atomic_flag_clear(&p->in_use);
}
