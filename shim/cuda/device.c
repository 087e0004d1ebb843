/*
 * CUDA devices: opening, what they are, launches, graphs, time stamps, and errors in words.
 *
 * Each device has one stream that waits for no other, on which all work is queued. Knows nothing of
 * what kernels do.
 */
#include "cuda_internal.h"
#if defined(__APPLE__)

static int32_t none(void) { return rm_fail(RM_NOT_FOUND, "CUDA does not exist on macOS"); }

int32_t rm_cuda_open(const void *folder, double *numbers) {
  (void)folder, (void)numbers;
  return none();
}
int32_t rm_cuda_info(int32_t device, void *buffer, int32_t length) {
  (void)device;
  none();
  return rm_copy_text("", buffer, length);
}
int32_t rm_cuda_memory(int32_t what, int32_t device, double *numbers, void *host) {
  (void)what, (void)device, (void)numbers, (void)host;
  return none();
}
int32_t rm_cuda_compile(int32_t device, const void *source, const void *names, double *handles) {
  (void)device, (void)source, (void)names, (void)handles;
  return none();
}
int32_t rm_cuda_launch(int32_t device, const double *call, const void *arguments) {
  (void)device, (void)call, (void)arguments;
  return none();
}
int32_t rm_cuda_matmul(int32_t device, int32_t dtype, const double *plan) {
  (void)device, (void)dtype, (void)plan;
  return none();
}
int32_t rm_cuda_control(int32_t what, int32_t device, double *numbers) {
  (void)what, (void)device, (void)numbers;
  return none();
}

#else
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- errors ---------------------------------------------------------------------------------- */

/* Whether nothing works after an error until the process ends. */
static bool is_final(int code) {
  return code == 214 || code == 220 || code == 700 || code == 702 || code == 709 || code == 710 ||
         (code >= 714 && code <= 719) || code == 721;
}

/* Kernels run later than they are queued, and so tell of their errors at some other call. */
int32_t rm_cuda_error(const char *call, int code) {
  const char *name = NULL, *words = NULL;
  if (strncmp(call, "cuda", 4) == 0) {
    name = rm_cu.cudaGetErrorName(code);
    words = rm_cu.cudaGetErrorString(code);
  } else {
    rm_cu.cuGetErrorName(code, &name);
    rm_cu.cuGetErrorString(code, &words);
  }
  return rm_fail(RM_DEVICE_ERROR, "%s: %s (%d): %s%s", call, name == NULL ? "error" : name, code,
                 words == NULL ? "" : words,
                 is_final(code) ? "; the work that was queued is lost, and no device works until "
                                  "this process is started again"
                                : "");
}

/* ---- devices --------------------------------------------------------------------------------- */

enum { MOST_DEVICES = 64 };

/* Held while devices are prepared. */
static rm_lock guard = RM_LOCK_INIT;
static rm_device devices[MOST_DEVICES];
/* Those that are prepared. */
static _Atomic bool is_ready[MOST_DEVICES];
static _Atomic int device_count;
/* The devices that this thread has used, a bit each. */
static _Thread_local uint64_t known_here;

/* Attributes of devices, as the runtime numbers them. */
enum { MAJOR = 75, MINOR = 76 };

int32_t rm_cuda_open(const void *folder, double *numbers) {
  RM_TRY(rm_cuda_open_runtime(folder));
  if (atomic_load(&device_count) == 0) {
    int count = 0;
    const int code = rm_cu.cudaGetDeviceCount(&count);
    if (code != 0) {
      return rm_fail(RM_NOT_FOUND, "no usable CUDA device: cudaGetDeviceCount: %s (%d): %s",
                     rm_cu.cudaGetErrorName(code), code, rm_cu.cudaGetErrorString(code));
    }
    if (count == 0) return rm_fail(RM_NOT_FOUND, "there is a driver, but no CUDA device");
    atomic_store(&device_count, count < MOST_DEVICES ? count : MOST_DEVICES);
  }
  if (numbers == NULL) return RM_OK;
  int version = 0;
  RM_CU(cudaRuntimeGetVersion, &version);
  numbers[0] = atomic_load(&device_count);
  numbers[1] = rm_cuda_driver_version();
  numbers[2] = version;
  return RM_OK;
}

static int32_t check_index(int32_t index) {
  if (atomic_load_explicit(&device_count, memory_order_acquire) == 0) {
    RM_TRY(rm_cuda_open(NULL, NULL));
  }
  const int count = atomic_load(&device_count);
  if (index < 0 || index >= count) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no CUDA device %d: the first is 0, and there %s %d",
                   index, count == 1 ? "is" : "are", count);
  }
  return RM_OK;
}

static int32_t prepare(rm_device *device) {
  int major, minor;
  RM_CU(cudaDeviceGetAttribute, &major, MAJOR, device->index);
  RM_CU(cudaDeviceGetAttribute, &minor, MINOR, device->index);
  device->capability = major * 10 + minor;
  enum { NON_BLOCKING = 1 };
  if (device->stream == NULL) RM_CU(cudaStreamCreateWithFlags, &device->stream, NON_BLOCKING);
  RM_TRY(rm_memory_begin(device));
  return rm_products_begin(device);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/*
 * What other threads ask for while one captures a graph would get into that graph. So calls on a
 * device are counted; a thread that is going to capture names itself, waits for the calls of
 * others that are under way, and keeps new ones waiting until its graph is complete. Where it ends
 * before, as workers may between any two calls, the next who comes gives that graph up.
 */
static _Atomic int calls[MOST_DEVICES];
static _Atomic uintptr_t recorders[MOST_DEVICES];

/* Stands for a recorder that has ended. */
enum { ENDED = 1 };

/* Differs between threads that live, is even and not 0. */
static uintptr_t this_thread(void) { return (uintptr_t)&known_here; }

static void note_end(uintptr_t thread) {
  for (int i = 0; i < MOST_DEVICES; i++) {
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
  static end_key key;
  static bool made;
  rm_acquire(&guard);
  if (!made) {
    rm_stay_loaded();
    made = make_key(&key);
  }
  const bool watched = made;
  rm_release(&guard);
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

/* Makes this thread the one that captures, once no other does. */
static int32_t become_recorder(int32_t index) {
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

static void leave(int32_t index) {
  if (index >= 0 && index < MOST_DEVICES) atomic_fetch_sub(&calls[index], 1);
}

/* Counts a call, unless another thread captures; those on no device need not be. */
static bool try_to_enter(int32_t index) {
  if (index < 0 || index >= MOST_DEVICES) return true;
  atomic_fetch_add(&calls[index], 1);
  const uintptr_t recorder = atomic_load(&recorders[index]);
  if (recorder == 0 || recorder == this_thread()) return true;
  leave(index);
  if (recorder == ENDED) give_up_graph(index);
  return false;
}

/* Begins a call on one or two devices; while it waits for one of them it holds up neither. */
static int32_t enter(int32_t index, int32_t other) {
  for (int waits = 0; waits < MOST_WAITS; waits++) {
    if (try_to_enter(index)) {
      if (try_to_enter(other)) return RM_OK;
      leave(index);
    }
    sleep_briefly();
  }
  return waited_in_vain();
}

/* Waits until this call is the only one on its device; false where that takes too long. */
static bool is_alone(int32_t index) {
  for (int waits = 0; atomic_load(&calls[index]) > 1; waits++) {
    if (waits == MOST_WAITS) return false;
    sleep_briefly();
  }
  return true;
}

int32_t rm_cuda_use(int32_t index, rm_device **device) {
  const bool known = index >= 0 && index < MOST_DEVICES &&
                     atomic_load_explicit(&is_ready[index], memory_order_acquire);
  if (!known) RM_TRY(check_index(index));
  if (known_here & 1ull << index) {
    /* Other code that uses CUDA may have chosen another one since. Where nothing works any more, that
     * is for the call to say that needs it: memory can be given back all the same. */
    const int code = rm_cu.cudaSetDevice(index);
    if (code != 0 && !is_final(code)) return rm_cuda_error("cudaSetDevice", code);
  } else {
    RM_CU(cudaSetDevice, index);
    /* Older runtimes make the context current only with the first call that needs it. */
    RM_CU(cudaFree, NULL);
    known_here |= 1ull << index;
  }
  *device = &devices[index];
  if (known) return RM_OK;
  rm_acquire(&guard);
  int32_t status = RM_OK;
  if (!atomic_load(&is_ready[index])) {
    devices[index].index = index;
    status = prepare(&devices[index]);
    if (status == RM_OK) atomic_store_explicit(&is_ready[index], true, memory_order_release);
  }
  rm_release(&guard);
  return status;
}

int32_t rm_cuda_not_capturing(const rm_device *device, const char *what) {
  if (atomic_load(&device->graph) == 0) return RM_OK;
  return rm_fail(RM_BAD_ARGUMENT, "cannot %s while a graph is being captured: do it before", what);
}

/* ---- what there is --------------------------------------------------------------------------- */

/* Adds a line of "key<tab>value". */
static void __attribute__((format(printf, 4, 5))) add_line(char **at, size_t *room,
                                                           const char *key, const char *format,
                                                           ...) {
  int length = snprintf(*at, *room, "%s\t", key);
  for (int i = 0; i < 2; i++) {
    const size_t moved = (size_t)length < *room ? (size_t)length : *room - 1;
    *at += moved;
    *room -= moved;
    if (i == 1) break;
    va_list values;
    va_start(values, format);
    length = vsnprintf(*at, *room, format, values);
    va_end(values);
  }
  if (*room > 1) {
    *(*at)++ = '\n';
    **at = 0;
    --*room;
  }
}

static void describe_libraries(char *at, size_t room) {
  static const char *const keys[RM_LIBRARIES] = {"driver", "cudart", "nvrtc", "cublas"};
  char text[6144];
  for (int i = 0; i < RM_LIBRARIES; i++) {
    rm_cuda_describe(i, text, sizeof text);
    add_line(&at, &room, keys[i], "%s", text);
  }
  rm_cache_describe(text, sizeof text);
  add_line(&at, &room, "cache", "%s", text);
}

static int32_t describe_device(int32_t index, char *at, size_t room) {
  RM_TRY(check_index(index));
  char name[256] = "";
  int device, major, minor;
  size_t bytes = 0;
  RM_CU(cuDeviceGet, &device, index);
  RM_CU(cuDeviceGetName, name, sizeof name, device);
  RM_CU(cuDeviceTotalMem_v2, &bytes, device);
  RM_CU(cudaDeviceGetAttribute, &major, MAJOR, index);
  RM_CU(cudaDeviceGetAttribute, &minor, MINOR, index);
  add_line(&at, &room, "name", "%s", name);
  add_line(&at, &room, "capability", "%d.%d", major, minor);
  add_line(&at, &room, "memory", "%llu", (unsigned long long)bytes);
  return RM_OK;
}

int32_t rm_cuda_info(int32_t device, void *buffer, int32_t length) {
  enum { ROOM = 32768 };
  char *text = calloc(1, ROOM);
  if (text == NULL) return 0;
  if (device < 0) describe_libraries(text, ROOM);
  else if (describe_device(device, text, ROOM) != RM_OK) text[0] = 0;
  const int32_t full = rm_copy_text(text, buffer, length);
  free(text);
  return full;
}

/* ---- handles --------------------------------------------------------------------------------- */

/* A number is the place of an entry and, above it, how often the place was used: no number of the
 * past stands for something new. */
enum { MOST_HANDLES = 1 << 20 };

typedef struct {
  rm_handle kind;
  uint32_t uses;
  const rm_device *device;
  void *thing;
  int32_t next_free;
} entry;

static rm_lock handle_guard = RM_LOCK_INIT;
static entry *entries;
static int32_t entry_count, entry_room, first_free = -1;

double rm_handle_for(rm_handle kind, const rm_device *device, void *thing) {
  rm_acquire(&handle_guard);
  int32_t at = first_free;
  if (at < 0 && entry_count == entry_room && entry_room < MOST_HANDLES) {
    const int32_t room = entry_room == 0 ? 64 : entry_room * 2;
    entry *larger = realloc(entries, (size_t)room * sizeof *larger);
    if (larger != NULL) {
      entries = larger;
      entry_room = room;
    }
  }
  double number = 0;
  if (at >= 0) first_free = entries[at].next_free;
  else if (entry_count < entry_room) {
    at = entry_count++;
    entries[at].uses = 0;
  }
  if (at >= 0) {
    entries[at] = (entry){kind, entries[at].uses + 1, device, thing, -1};
    number = (double)entries[at].uses * MOST_HANDLES + at;
  }
  rm_release(&handle_guard);
  if (number == 0) rm_fail(RM_OUT_OF_MEMORY, "no memory for another handle");
  return number;
}

void *rm_handle_of(double number, rm_handle kind, const rm_device *device, bool last) {
  void *thing = NULL;
  rm_acquire(&handle_guard);
  if (number >= MOST_HANDLES && number < 9007199254740992.0) {
    const int64_t bits = (int64_t)number;
    const int32_t at = (int32_t)(bits % MOST_HANDLES);
    if (at < entry_count && entries[at].kind == kind && entries[at].device == device &&
        entries[at].uses == bits / MOST_HANDLES) {
      thing = entries[at].thing;
      if (last) {
        entries[at].kind = RM_NO_HANDLE;
        entries[at].next_free = first_free;
        first_free = at;
      }
    }
  }
  rm_release(&handle_guard);
  if (thing == NULL) {
    static const char *const names[] = {"", "ticket", "graph", "event"};
    rm_fail(RM_BAD_ARGUMENT, "%.0f is no %s of CUDA device %d, or not any more", number,
            names[kind], device->index);
  }
  return thing;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* What the driver is asked for: it may need memory for a kernel's stack, or a graph. */
typedef struct {
  rm_kernel *kernel;
  const double *call;
  void **extra;
  void *stream;
} wanted_launch;

static int call_launch(void *context) {
  const wanted_launch *wanted = context;
  const double *call = wanted->call;
  return rm_cu.cuLaunchKernel(wanted->kernel->function, (unsigned)call[1], (unsigned)call[2],
                              (unsigned)call[3], (unsigned)call[4], (unsigned)call[5],
                              (unsigned)call[6], 0, wanted->stream, NULL, wanted->extra);
}

static int32_t launch(int32_t index, const double *call, const void *arguments) {
  rm_device *device;
  RM_TRY(rm_cuda_use(index, &device));
  rm_kernel *kernel = rm_kernel_of(call[0]);
  if (kernel == NULL || kernel->device != index) {
    return rm_fail(RM_BAD_ARGUMENT, "%.0f is no kernel of CUDA device %d", call[0], index);
  }
  size_t bytes = (size_t)call[7];
  /* CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE, _END. */
  void *extra[] = {(void *)1, (void *)arguments, (void *)2, &bytes, NULL};
  wanted_launch wanted = {kernel, call, bytes == 0 ? NULL : extra, device->stream};
  int code = call_launch(&wanted);
  if (code == RM_CUDA_NO_MEMORY) code = rm_memory_try(device, call_launch, &wanted, code);
  if (code == 0) return RM_OK;
  rm_cuda_error("cuLaunchKernel", code);
  char reason[512];
  rm_last_error(reason, sizeof reason);
  return rm_fail(RM_DEVICE_ERROR, "kernel %s, %.0f x %.0f x %.0f blocks of %.0f x %.0f x %.0f "
                 "threads: %s", kernel->name, call[1], call[2], call[3], call[4], call[5], call[6],
                 reason);
}

/* ---- graphs and time ------------------------------------------------------------------------- */

typedef struct {
  void *executable;
  int number;
} graph;

typedef struct {
  void **executable;
  void *description;
} wanted_graph;

static int call_instantiate(void *context) {
  const wanted_graph *wanted = context;
  return rm_cu.cudaGraphInstantiateWithFlags(wanted->executable, wanted->description, 0);
}

static int32_t begin_capture(rm_device *device) {
  static _Atomic int last;
  /* Others may allocate meanwhile, even by functions that would not be allowed in a graph. */
  enum { RELAXED = 2 };
  if (!is_alone(device->index)) {
    return rm_fail(RM_DEVICE_ERROR, "other threads do not end their calls");
  }
  rm_products_prepare(device);
  RM_CU(cudaStreamBeginCapture, device->stream, RELAXED);
  atomic_store(&device->graph, atomic_fetch_add(&last, 1) + 1);
  return RM_OK;
}

static int32_t end_capture(rm_device *device, double *numbers) {
  graph *made = malloc(sizeof *made);
  if (made == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a graph");
  const int number = atomic_load(&device->graph);
  if (number == 0) {
    free(made);
    return rm_fail(RM_BAD_ARGUMENT, "no graph is being captured");
  }
  *made = (graph){NULL, number};
  void *description = NULL;
  const char *call = "cudaStreamEndCapture";
  int code = rm_cu.cudaStreamEndCapture(device->stream, &description);
  atomic_store(&device->graph, 0);
  atomic_store(&recorders[device->index], 0);
  if (code == 0) {
    call = "cudaGraphInstantiateWithFlags";
    wanted_graph wanted = {&made->executable, description};
    code = rm_memory_try(device, call_instantiate, &wanted, RM_CUDA_NO_MEMORY);
  }
  if (description != NULL) rm_cu.cudaGraphDestroy(description);
  int32_t status = code == 0 ? RM_OK : rm_cuda_error(call, code);
  if (status == RM_OK) {
    numbers[0] = rm_handle_for(RM_GRAPH, device, made);
    if (numbers[0] != 0) return RM_OK;
    rm_cu.cudaGraphExecDestroy(made->executable);
    status = RM_OUT_OF_MEMORY;
  } else {
    rm_cu.cudaGetLastError();
  }
  rm_memory_end_graph(device, number);
  free(made);
  return status;
}

static int32_t free_graph(rm_device *device, double number) {
  graph *gone = rm_handle_of(number, RM_GRAPH, device, true);
  if (gone == NULL) return RM_BAD_ARGUMENT;
  const int code = rm_cu.cudaGraphExecDestroy(gone->executable);
  rm_memory_end_graph(device, gone->number);
  free(gone);
  return code == 0 ? RM_OK : rm_cuda_error("cudaGraphExecDestroy", code);
}

static int32_t record_event(rm_device *device, double *numbers) {
  RM_TRY(rm_cuda_not_capturing(device, "take the time"));
  void *event = NULL;
  RM_CU(cudaEventCreateWithFlags, &event, 0);
  const int code = rm_cu.cudaEventRecord(event, device->stream);
  if (code == 0) numbers[0] = rm_handle_for(RM_EVENT, device, event);
  if (code == 0 && numbers[0] != 0) return RM_OK;
  rm_cu.cudaEventDestroy(event);
  return code == 0 ? RM_OUT_OF_MEMORY : rm_cuda_error("cudaEventRecord", code);
}

static int32_t elapsed(rm_device *device, double *numbers) {
  /* Looked at first, so that nothing is used up by a call that is wrong. */
  if (rm_handle_of(numbers[0], RM_EVENT, device, false) == NULL ||
      rm_handle_of(numbers[1], RM_EVENT, device, false) == NULL) {
    return RM_BAD_ARGUMENT;
  }
  if (numbers[0] == numbers[1]) return rm_fail(RM_BAD_ARGUMENT, "the two events are one");
  void *event = rm_handle_of(numbers[0], RM_EVENT, device, true);
  void *later = rm_handle_of(numbers[1], RM_EVENT, device, true);
  if (event == NULL || later == NULL) return RM_BAD_ARGUMENT;
  float milliseconds = 0;
  const char *call = "cudaEventSynchronize";
  int code = rm_cu.cudaEventSynchronize(event);
  if (code == 0) code = rm_cu.cudaEventSynchronize(later);
  if (code == 0) {
    call = "cudaEventElapsedTime";
    code = rm_cu.cudaEventElapsedTime(&milliseconds, event, later);
  }
  rm_cu.cudaEventDestroy(event);
  rm_cu.cudaEventDestroy(later);
  if (code != 0) return rm_cuda_error(call, code);
  numbers[0] = milliseconds;
  return RM_OK;
}

static int32_t control(int32_t what, int32_t index, double *numbers) {
  rm_device *device;
  RM_TRY(rm_cuda_use(index, &device));
  if (what != RM_CUDA_SYNCHRONIZE && what != RM_CUDA_CAPTURE_BEGIN && numbers == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "there are no numbers");
  }
  switch (what) {
    case RM_CUDA_SYNCHRONIZE:
      RM_TRY(rm_cuda_not_capturing(device, "wait"));
      RM_CU(cudaStreamSynchronize, device->stream);
      return RM_OK;
    case RM_CUDA_CAPTURE_BEGIN: return begin_capture(device);
    case RM_CUDA_CAPTURE_END: return end_capture(device, numbers);
    case RM_CUDA_GRAPH_LAUNCH: {
      RM_TRY(rm_cuda_not_capturing(device, "launch a graph"));
      const graph *known = rm_handle_of(numbers[0], RM_GRAPH, device, false);
      if (known == NULL) return RM_BAD_ARGUMENT;
      RM_CU(cudaGraphLaunch, known->executable, device->stream);
      return RM_OK;
    }
    case RM_CUDA_GRAPH_FREE: return free_graph(device, numbers[0]);
    case RM_CUDA_EVENT_RECORD: return record_event(device, numbers);
    case RM_CUDA_EVENT_ELAPSED: return elapsed(device, numbers);
    default: return rm_fail(RM_BAD_ARGUMENT, "control %d does not exist", what);
  }
}

/* ---- the interface --------------------------------------------------------------------------- */

/* Calls `call` as one on a device and another one, or none. */
#define RM_WITHIN(index, other, call) \
  do { \
    const int32_t other_ = (other); \
    RM_TRY(enter(index, other_)); \
    const int32_t status_ = (call); \
    leave(index); \
    leave(other_); \
    return status_; \
  } while (0)

enum { NO_OTHER = -1 };

int32_t rm_cuda_memory(int32_t what, int32_t index, double *numbers, void *host) {
  const bool copies = what == RM_CUDA_COPY && numbers != NULL;
  RM_WITHIN(index, copies ? (int32_t)numbers[3] : NO_OTHER,
            rm_cuda_memory_within(what, index, numbers, host));
}

int32_t rm_cuda_compile(int32_t index, const void *source, const void *names, double *handles) {
  RM_WITHIN(index, NO_OTHER, rm_cuda_compile_within(index, source, names, handles));
}

int32_t rm_cuda_launch(int32_t index, const double *call, const void *arguments) {
  RM_WITHIN(index, NO_OTHER, launch(index, call, arguments));
}

int32_t rm_cuda_matmul(int32_t index, int32_t dtype, const double *plan) {
  RM_WITHIN(index, NO_OTHER, rm_cuda_matmul_within(index, dtype, plan));
}

static int32_t control_within(int32_t what, int32_t index, double *numbers) {
  RM_WITHIN(index, NO_OTHER, control(what, index, numbers));
}

int32_t rm_cuda_control(int32_t what, int32_t index, double *numbers) {
  if (what != RM_CUDA_CAPTURE_BEGIN) return control_within(what, index, numbers);
  RM_TRY(check_index(index));
  /* Before the call is counted: who waits for a turn must not hold up who has it. */
  RM_TRY(become_recorder(index));
  const int32_t status = control_within(what, index, numbers);
  if (status != RM_OK) atomic_store(&recorders[index], 0);
  return status;
}
#endif
