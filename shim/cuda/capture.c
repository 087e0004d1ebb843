/*
 * Which threads may call a device while one of them captures a graph on it.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <time.h>

/*
 * What other threads ask for while one captures a graph would get into that graph. So calls on a
 * device are counted; a thread that is going to capture names itself, waits for the calls of
 * others that are under way, and keeps new ones waiting until its graph is complete. Where it ends
 * before, as workers may between any two calls, the next who comes gives that graph up.
 */
static _Atomic int calls[RM_MOST_DEVICES];
static _Atomic uintptr_t recorders[RM_MOST_DEVICES];

/* Stands for a recorder that has ended. */
enum { ENDED = 1 };

/* Its address differs between threads that live, is even and not 0. */
static _Thread_local uint64_t mark;

static uintptr_t this_thread(void) { return (uintptr_t)&mark; }

static void note_end(uintptr_t thread) {
  for (int i = 0; i < RM_MOST_DEVICES; i++) {
    uintptr_t recorder = thread;
    atomic_compare_exchange_strong(&recorders[i], &recorder, ENDED);
  }
}

/* The system calls thread_ends with what a thread has put under the key, when the thread ends. All
 * waits together are ten seconds, or what Windows makes of so many milliseconds. */
#if defined(_WIN32)
enum { MOST_WAITS = 10000 };
static void sleep_briefly(void) { Sleep(1); }
typedef DWORD end_key;
static void WINAPI thread_ends(void *thread) { note_end((uintptr_t)thread); }
static bool make_key(end_key *key) {
  *key = FlsAlloc(thread_ends);
  return *key != FLS_OUT_OF_INDEXES;
}
static bool put(end_key key, uintptr_t thread) { return FlsSetValue(key, (void *)thread) != 0; }
#else
enum { MOST_WAITS = 100000 };
static void sleep_briefly(void) { nanosleep(&(struct timespec){0, 100000}, NULL); }
typedef pthread_key_t end_key;
static void thread_ends(void *thread) { note_end((uintptr_t)thread); }
static bool make_key(end_key *key) { return pthread_key_create(key, thread_ends) == 0; }
static bool put(end_key key, uintptr_t thread) {
  return pthread_setspecific(key, (void *)thread) == 0;
}
#endif

/* Has the end of this thread noted. */
static bool watch_this_thread(void) {
  static rm_mutex guard = RM_MUTEX_INIT;
  static end_key key;
  static bool made;
  rm_mutex_lock(&guard);
  if (!made) {
    rm_pin_library();
    made = make_key(&key);
  }
  const bool watched = made;
  rm_mutex_unlock(&guard);
  return watched && put(key, this_thread());
}

/* Ends the capture of a thread that has ended, unless another one does already. */
static void give_up_graph(int32_t index) {
  uintptr_t recorder = ENDED;
  if (!atomic_compare_exchange_strong(&recorders[index], &recorder, this_thread())) return;
  rm_device *device;
  if (rm_cuda_use(index, &device) == RM_OK) {
    const int number = atomic_load(&device->graph);
    void *description = NULL;
    if (rm_cu.cudaStreamEndCapture(device->stream, &description) != 0) rm_cu.cudaGetLastError();
    if (description != NULL) rm_cu.cudaGraphDestroy(description);
    atomic_store(&device->graph, 0);
    rm_memory_end_graph(device, number);
  }
  atomic_store(&recorders[index], 0);
}

static int32_t waited_in_vain(void) {
  return rm_fail(RM_BAD_ARGUMENT, "another thread does not finish the graph that it captures");
}

int32_t rm_capture_enter(int32_t index) {
  if (!watch_this_thread()) {
    return rm_fail(RM_OUT_OF_MEMORY, "no memory to note when this thread ends");
  }
  for (int waits = 0; waits < MOST_WAITS; waits++) {
    uintptr_t recorder = 0;
    if (atomic_compare_exchange_strong(&recorders[index], &recorder, this_thread())) return RM_OK;
    if (recorder == this_thread()) {
      return rm_fail(RM_BAD_ARGUMENT, "a graph is being captured already");
    }
    if (recorder == ENDED) give_up_graph(index);
    sleep_briefly();
  }
  return waited_in_vain();
}

void rm_call_leave(int32_t index) {
  if (index >= 0 && index < RM_MOST_DEVICES) atomic_fetch_sub(&calls[index], 1);
}

/* Counts a call, unless another thread captures; those on no device need not be. */
static bool try_to_enter(int32_t index) {
  if (index < 0 || index >= RM_MOST_DEVICES) return true;
  atomic_fetch_add(&calls[index], 1);
  const uintptr_t recorder = atomic_load(&recorders[index]);
  if (recorder == 0 || recorder == this_thread()) return true;
  rm_call_leave(index);
  if (recorder == ENDED) give_up_graph(index);
  return false;
}

int32_t rm_call_enter(int32_t index, int32_t other) {
  for (int waits = 0; waits < MOST_WAITS; waits++) {
    if (try_to_enter(index)) {
      if (try_to_enter(other)) return RM_OK;
      rm_call_leave(index);
    }
    sleep_briefly();
  }
  return waited_in_vain();
}

bool rm_capture_alone(int32_t index) {
  for (int waits = 0; atomic_load(&calls[index]) > 1; waits++) {
    if (waits == MOST_WAITS) return false;
    sleep_briefly();
  }
  return true;
}

void rm_capture_leave(int32_t index) { atomic_store(&recorders[index], 0); }
#endif
