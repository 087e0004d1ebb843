/*
 * Which threads may call a device while one of them captures a graph on it.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <time.h>

/*
 * Calls of other threads during a capture would be recorded into the graph. So calls are counted
 * per device. A thread that starts a capture registers itself, waits until the calls of others have
 * returned, and blocks new ones until its graph is complete. If the thread ends before that, as
 * workers may between any two calls, the next caller abandons the capture.
 */
static _Atomic int calls[RM_MAX_DEVICES];
static _Atomic uintptr_t capturers[RM_MAX_DEVICES];

/* Stands for a capturing thread that has ended. */
enum { ENDED = 1 };

/* Its address identifies the thread: it is unique among live threads, even and not 0. */
static _Thread_local uint64_t thread_mark;

static uintptr_t this_thread(void) { return (uintptr_t)&thread_mark; }

static void record_thread_end(uintptr_t thread) {
  for (int i = 0; i < RM_MAX_DEVICES; i++) {
    uintptr_t capturer = thread;
    atomic_compare_exchange_strong(&capturers[i], &capturer, ENDED);
  }
}

/* The system calls thread_ends with the value of the key when a thread ends. Waits time out after
 * ten seconds, or after MAX_WAITS milliseconds as Windows counts them. */
#if defined(_WIN32)
enum { MAX_WAITS = 10000 };
static void sleep_briefly(void) { Sleep(1); }
typedef DWORD end_key;
static void WINAPI thread_ends(void *thread) { record_thread_end((uintptr_t)thread); }
static bool create_key(end_key *key) {
  *key = FlsAlloc(thread_ends);
  return *key != FLS_OUT_OF_INDEXES;
}
static bool set_key(end_key key, uintptr_t thread) { return FlsSetValue(key, (void *)thread) != 0; }
#else
enum { MAX_WAITS = 100000 };
static void sleep_briefly(void) { nanosleep(&(struct timespec){0, 100000}, NULL); }
typedef pthread_key_t end_key;
static void thread_ends(void *thread) { record_thread_end((uintptr_t)thread); }
static bool create_key(end_key *key) { return pthread_key_create(key, thread_ends) == 0; }
static bool set_key(end_key key, uintptr_t thread) {
  return pthread_setspecific(key, (void *)thread) == 0;
}
#endif

/* Registers this thread to record its end. */
static bool register_thread_end(void) {
  static rm_mutex mutex = RM_MUTEX_INIT;
  static end_key key;
  static bool made;
  rm_mutex_lock(&mutex);
  if (!made) {
    rm_pin_library();
    made = create_key(&key);
  }
  const bool watched = made;
  rm_mutex_unlock(&mutex);
  return watched && set_key(key, this_thread());
}

/* Ends the capture of a thread that has ended, unless another thread already does. */
static void abandon_capture(int32_t index) {
  uintptr_t capturer = ENDED;
  if (!atomic_compare_exchange_strong(&capturers[index], &capturer, this_thread())) return;
  rm_device *device;
  if (rm_cuda_use(index, &device) == RM_OK) {
    const int number = atomic_load(&device->graph);
    void *description = NULL;
    if (rm_cu.cudaStreamEndCapture(device->stream, &description) != 0) rm_cu.cudaGetLastError();
    if (description != NULL) rm_cu.cudaGraphDestroy(description);
    atomic_store(&device->graph, 0);
    rm_release_graph_memory(device, number);
  }
  atomic_store(&capturers[index], 0);
}

static int32_t capture_timed_out(void) {
  return rm_fail(RM_BAD_ARGUMENT, "another thread does not finish the graph that it captures");
}

int32_t rm_capture_enter(int32_t index) {
  if (!register_thread_end()) {
    return rm_fail(RM_OUT_OF_MEMORY, "no memory to note when this thread ends");
  }
  for (int waits = 0; waits < MAX_WAITS; waits++) {
    uintptr_t capturer = 0;
    if (atomic_compare_exchange_strong(&capturers[index], &capturer, this_thread())) return RM_OK;
    if (capturer == this_thread()) {
      return rm_fail(RM_BAD_ARGUMENT, "a graph is being captured already");
    }
    if (capturer == ENDED) abandon_capture(index);
    sleep_briefly();
  }
  return capture_timed_out();
}

void rm_call_leave(int32_t index) {
  if (index >= 0 && index < RM_MAX_DEVICES) atomic_fetch_sub(&calls[index], 1);
}

/* Counts a call unless another thread is capturing. An index that is no device always succeeds. */
static bool try_enter(int32_t index) {
  if (index < 0 || index >= RM_MAX_DEVICES) return true;
  atomic_fetch_add(&calls[index], 1);
  const uintptr_t capturer = atomic_load(&capturers[index]);
  if (capturer == 0 || capturer == this_thread()) return true;
  rm_call_leave(index);
  if (capturer == ENDED) abandon_capture(index);
  return false;
}

int32_t rm_call_enter(int32_t index, int32_t other) {
  for (int waits = 0; waits < MAX_WAITS; waits++) {
    if (try_enter(index)) {
      if (try_enter(other)) return RM_OK;
      rm_call_leave(index);
    }
    sleep_briefly();
  }
  return capture_timed_out();
}

bool rm_capture_wait_alone(int32_t index) {
  for (int waits = 0; atomic_load(&calls[index]) > 1; waits++) {
    if (waits == MAX_WAITS) return false;
    sleep_briefly();
  }
  return true;
}

void rm_capture_leave(int32_t index) { atomic_store(&capturers[index], 0); }
#endif
