/*
 * One pool of threads for the process: workers sleep until there are tasks, and never spin.
 *
 * Knows nothing of kernels.
 */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#else
#include <windows.h>
#endif
#include <stdatomic.h>
#include <stdlib.h>
#include "internal.h"

enum { MAX_THREADS = 256 };

#if defined(_WIN32)
typedef SRWLOCK lock;
typedef CONDITION_VARIABLE condition;
#define LOCK_INIT SRWLOCK_INIT
#define CONDITION_INIT CONDITION_VARIABLE_INIT
static void acquire(lock *l) { AcquireSRWLockExclusive(l); }
static void release(lock *l) { ReleaseSRWLockExclusive(l); }
static void await(condition *c, lock *l) { SleepConditionVariableSRW(c, l, INFINITE, 0); }
static void wake_all(condition *c) { WakeAllConditionVariable(c); }
static void wake_one(condition *c) { WakeConditionVariable(c); }
static void yield(void) { SwitchToThread(); }
static int machine_threads(void) {
  SYSTEM_INFO about;
  GetSystemInfo(&about);
  return (int)about.dwNumberOfProcessors;
}
#else
typedef pthread_mutex_t lock;
typedef pthread_cond_t condition;
#define LOCK_INIT PTHREAD_MUTEX_INITIALIZER
#define CONDITION_INIT PTHREAD_COND_INITIALIZER
static void acquire(lock *l) { pthread_mutex_lock(l); }
static void release(lock *l) { pthread_mutex_unlock(l); }
static void await(condition *c, lock *l) { pthread_cond_wait(c, l); }
static void wake_all(condition *c) { pthread_cond_broadcast(c); }
static void wake_one(condition *c) { pthread_cond_signal(c); }
static void yield(void) { sched_yield(); }
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

static lock guard = LOCK_INIT;
static condition begun = CONDITION_INIT;
static condition ended = CONDITION_INIT;

/* Guarded: the number of the job, how many workers may still join it, and how many are at work. */
static unsigned long job;
static int openings;
static int working;
static int workers;

/* The job under way. */
static void (*job_task)(void *context, ptrdiff_t index);
static void *job_context;
static ptrdiff_t job_tasks;
static _Atomic(ptrdiff_t) next_task;

static _Atomic(int) wanted;

static void run_tasks(void) {
  for (;;) {
    ptrdiff_t i = atomic_fetch_add_explicit(&next_task, 1, memory_order_relaxed);
    if (i >= job_tasks) return;
    job_task(job_context, i);
  }
}

static void work(void) {
  unsigned long seen = 0;
  acquire(&guard);
  for (;;) {
    while (job == seen || openings == 0) {
      if (job != seen && openings == 0) seen = job;
      await(&begun, &guard);
    }
    seen = job;
    openings--;
    working++;
    release(&guard);
    run_tasks();
    acquire(&guard);
    if (--working == 0) wake_one(&ended);
  }
}

/*
 * Keeps this library in memory for good. A runtime closes it when the worker that opened it ends,
 * and the threads that sleep in it would wake where nothing, or another copy of it, is.
 */
#if defined(_WIN32)
static void stay_loaded(void) {
  HMODULE self;
  GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                     (LPCSTR)&job, &self);
}
#else
static void stay_loaded(void) {
  Dl_info self;
  if (dladdr((const void *)&job, &self) != 0) {
    dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  }
}
#endif

#if defined(_WIN32)
static DWORD WINAPI thread_main(LPVOID nothing) {
  (void)nothing;
  work();
  return 0;
}
static bool start_worker(void) {
  HANDLE thread = CreateThread(NULL, 0, thread_main, NULL, 0, NULL);
  if (thread == NULL) return false;
  CloseHandle(thread);
  return true;
}
#else
static void *thread_main(void *nothing) {
  work();
  return nothing;
}
static bool start_worker(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, thread_main, NULL) != 0) return false;
  pthread_detach(thread);
  return true;
}
#endif

int rm_threads(void) {
  int n = atomic_load_explicit(&wanted, memory_order_relaxed);
  if (n > 0) return n;
  const char *text = getenv("ROWMAJOR_THREADS");
  rm_set_threads(text == NULL ? 0 : atoi(text));
  return atomic_load(&wanted);
}

void rm_set_threads(int threads) {
  if (threads <= 0) threads = machine_threads();
  if (threads < 1) threads = 1;
  atomic_store(&wanted, threads > MAX_THREADS ? MAX_THREADS : threads);
}

void rm_parallel(ptrdiff_t tasks, void (*task)(void *context, ptrdiff_t index), void *context) {
  int threads = rm_threads();
  if (tasks <= 1 || threads == 1 || atomic_flag_test_and_set(&in_use)) {
    for (ptrdiff_t i = 0; i < tasks; i++) task(context, i);
    return;
  }
  int helpers = threads - 1 < tasks - 1 ? threads - 1 : (int)(tasks - 1);
  acquire(&guard);
  if (workers == 0) stay_loaded();
  while (workers < helpers && start_worker()) workers++;
  job_task = task;
  job_context = context;
  job_tasks = tasks;
  atomic_store(&next_task, 0);
  openings = helpers < workers ? helpers : workers;
  job++;
  if (openings == 1) wake_one(&begun);
  else if (openings > 1) wake_all(&begun);
  release(&guard);
  run_tasks();
  acquire(&guard);
  /* Who has not come yet has nothing left to do. */
  openings = 0;
  if (working > 0) {
    /* The last tasks are often about to end: sleeping costs more than letting others run. */
    for (int i = 0; i < 64 && working > 0; i++) {
      release(&guard);
      yield();
      acquire(&guard);
    }
    while (working > 0) await(&ended, &guard);
  }
  release(&guard);
  atomic_flag_clear(&in_use);
}
