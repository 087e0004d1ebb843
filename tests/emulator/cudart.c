/* The CUDA runtime: devices, memory, copies, streams, events, graphs. */
#include "emulator.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  int magic, device;
  bool timing, recorded, polled;
  /* The work after which it has happened. */
  stream *of;
  long long number;
  /* The graph in which it was recorded last, or null. */
  graph *capture;
  double *time;
} event;

typedef struct {
  int magic;
  work *first;
} executable;

/* ---- errors ---------------------------------------------------------------------------------- */

static const struct {
  int code;
  const char *runtime, *driver, *text;
} errors[] = {
    {0, "cudaSuccess", "CUDA_SUCCESS", "no error"},
    {1, "cudaErrorInvalidValue", "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "cudaErrorInitializationError", "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "cudaErrorInvalidDevice", "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "cudaErrorInvalidKernelImage", "CUDA_ERROR_INVALID_IMAGE",
     "device kernel image is invalid"},
    {201, "cudaErrorDeviceUninitialized", "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "cudaErrorNoKernelImageForDevice", "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {400, "cudaErrorInvalidResourceHandle", "CUDA_ERROR_INVALID_HANDLE",
     "invalid resource handle"},
    {500, "cudaErrorSymbolNotFound", "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "cudaErrorNotReady", "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "cudaErrorIllegalAddress", "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {701, "cudaErrorLaunchOutOfResources", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {704, "cudaErrorPeerAccessAlreadyEnabled", "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
     "peer access is already enabled"},
    {716, "cudaErrorMisalignedAddress", "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {719, "cudaErrorLaunchFailure", "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "cudaErrorNotSupported", "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "cudaErrorStreamCaptureUnsupported", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {901, "cudaErrorStreamCaptureInvalidated", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {905, "cudaErrorStreamCaptureIsolation", "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
};

static const char *word(int code, int which) {
  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
    if (errors[i].code != code) continue;
    return which == 0 ? errors[i].runtime : which == 1 ? errors[i].driver : errors[i].text;
  }
  return NULL;
}

EMU_API const char *cudaGetErrorName(int code) {
  const char *found = word(code, 0);
  return found == NULL ? "unrecognized error code" : found;
}

EMU_API const char *cudaGetErrorString(int code) {
  const char *found = word(code, 2);
  return found == NULL ? "unrecognized error code" : found;
}

EMU_API int cuGetErrorName(int code, const char **name) {
  *name = word(code, 1);
  return *name == NULL ? INVALID_VALUE : SUCCESS;
}

EMU_API int cuGetErrorString(int code, const char **text) {
  *text = word(code, 2);
  return *text == NULL ? INVALID_VALUE : SUCCESS;
}

static _Thread_local int last_error;

static int give(int error) {
  if (error != SUCCESS && error != NOT_READY) last_error = error;
  return error;
}

static int see(bool forget) {
  EMU_LOCK;
  int error = last_error, fault = emu_device_count() > 0 ? emu_device(emu_current)->fault : 0;
  if (forget) last_error = SUCCESS;
  return fault != SUCCESS ? fault : error;
}

EMU_API int cudaGetLastError(void) { return see(true); }
EMU_API int cudaPeekAtLastError(void) { return see(false); }

/* What a call needs: the lock, a device, a context on it, and that nothing went wrong before. */
static int begin(void) {
  if (emu_device_count() == 0) return NO_DEVICE;
  emu_has_context = true;
  return emu_device(emu_current)->fault;
}

#define BEGIN \
  EMU_LOCK; \
  do { \
    int begun = begin(); \
    if (begun != SUCCESS) return give(begun); \
  } while (0)

/* ---- devices --------------------------------------------------------------------------------- */

EMU_API int cudaGetDeviceCount(int *count) {
  EMU_LOCK;
  *count = emu_device_count();
  return give(*count == 0 ? NO_DEVICE : SUCCESS);
}

EMU_API int cudaSetDevice(int n) {
  EMU_LOCK;
  if (n < 0 || n >= emu_device_count()) return give(INVALID_DEVICE);
  emu_current = n;
  emu_has_context = true;
  return give(emu_device(n)->fault);
}

EMU_API int cudaGetDevice(int *n) {
  *n = emu_current;
  return SUCCESS;
}

EMU_API int cudaDeviceGetAttribute(int *value, int attribute, int n) {
  /* Of an H100, by the numbers of cudaDeviceAttr. */
  static const struct {
    int attribute, value;
  } known[] = {{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 0x7fffffff}, {6, 65535}, {7, 65535},
               {8, 49152}, {9, 65536}, {10, 32}, {12, 65536}, {13, 1785000}, {14, 512}, {15, 1},
               {17, 0}, {18, 0}, {19, 1}, {20, 0}, {31, 1}, {32, 1}, {33, 1}, {34, 0},
               {36, 2619000}, {37, 5120}, {38, 52428800}, {39, 2048}, {40, 3}, {41, 1}, {50, 0},
               {78, 1}, {79, 1}, {80, 1}, {81, 233472}, {82, 65536}, {83, 1}, {84, 0}, {95, 1},
               {97, 232448}, {106, 32}, {108, 33554432}, {115, 1}};
  EMU_LOCK;
  if (n < 0 || n >= emu_device_count()) return give(INVALID_DEVICE);
  if (attribute == 16) return *value = (int)emu_numbers[MULTIPROCESSORS], SUCCESS;
  if (attribute == 75) return *value = (int)emu_numbers[CAPABILITY] / 10, SUCCESS;
  if (attribute == 76) return *value = (int)emu_numbers[CAPABILITY] % 10, SUCCESS;
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (known[i].attribute == attribute) return *value = known[i].value, SUCCESS;
  }
  return give(INVALID_VALUE);
}

EMU_API int cudaDeviceGetPCIBusId(char *text, int length, int n) {
  if (n < 0 || n >= emu_device_count()) return give(INVALID_DEVICE);
  snprintf(text, (size_t)length, "0000:%02X:00.0", n + 1);
  return SUCCESS;
}

EMU_API int cudaDriverGetVersion(int *version) { return *version = 13000, SUCCESS; }
EMU_API int cudaRuntimeGetVersion(int *version) { return *version = 13000, SUCCESS; }

EMU_API int cudaDeviceSynchronize(void) {
  BEGIN;
  int error = emu_disturbs_capture(NULL);
  return give(error != SUCCESS ? error : emu_drain_device(emu_current, false));
}

EMU_API int cudaDeviceCanAccessPeer(int *can, int n, int peer) {
  int count = emu_device_count();
  if (n < 0 || n >= count || peer < 0 || peer >= count) return give(INVALID_DEVICE);
  *can = n != peer;
  return SUCCESS;
}

EMU_API int cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  BEGIN;
  if (flags != 0 || peer == emu_current) return give(INVALID_VALUE);
  if (peer < 0 || peer >= emu_device_count()) return give(INVALID_DEVICE);
  bool *enabled = &emu_device(emu_current)->peers[peer];
  if (*enabled) return give(PEER_ALREADY_ENABLED);
  *enabled = true;
  return SUCCESS;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Pages of the host that devices read and write by themselves. */
static struct {
  char *start;
  size_t bytes;
} pinned[4096];
static int pinned_count;

static bool is_pinned(const void *address, size_t bytes) {
  const char *at = address;
  for (int i = 0; i < pinned_count; i++) {
    if (at >= pinned[i].start && at + bytes <= pinned[i].start + pinned[i].bytes) return true;
  }
  return false;
}

EMU_API int cudaMalloc(void **address, size_t bytes) {
  BEGIN;
  int error = emu_disturbs_capture(NULL);
  return give(error != SUCCESS ? error : emu_allocate(emu_current, bytes, address));
}

EMU_API int cudaFree(void *address) {
  BEGIN;
  int error = emu_disturbs_capture(NULL);
  if (error != SUCCESS || address == NULL) return give(error);
  int owner = emu_owner(address);
  if (owner < 0) return give(INVALID_VALUE);
  error = emu_drain_device(owner, false);
  int freed = emu_free(address);
  return give(error != SUCCESS ? error : freed);
}

typedef struct {
  work head;
  void *address;
} release;

static int run_release(work *w) { return emu_free(((release *)w)->address); }

EMU_API int cudaMallocAsync(void **address, size_t bytes, void *handle) {
  BEGIN;
  stream *s = emu_stream(handle);
  return give(s == NULL ? INVALID_HANDLE : emu_allocate(s->device, bytes, address));
}

EMU_API int cudaFreeAsync(void *address, void *handle) {
  BEGIN;
  stream *s = emu_stream(handle);
  if (s == NULL) return give(INVALID_HANDLE);
  if (!emu_holds(address, 0)) return give(INVALID_VALUE);
  release *w = calloc(1, sizeof *w);
  w->head.run = run_release;
  w->address = address;
  return emu_queue(s, &w->head);
}

EMU_API int cudaMemGetInfo(size_t *available, size_t *total) {
  BEGIN;
  size_t used = emu_device(emu_current)->used;
  *total = (size_t)emu_numbers[MEMORY];
  *available = *total > used ? *total - used : 0;
  return SUCCESS;
}

EMU_API int cudaHostAlloc(void **address, size_t bytes, unsigned flags) {
  (void)flags;
  BEGIN;
  int error = emu_disturbs_capture(NULL);
  if (error != SUCCESS) return give(error);
  if (emu_fails(FAIL_MALLOC) || pinned_count == sizeof pinned / sizeof pinned[0]) {
    return give(OUT_OF_MEMORY);
  }
  char *pages = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return give(OUT_OF_MEMORY);
  pinned[pinned_count].start = *address = pages;
  pinned[pinned_count++].bytes = bytes;
  return SUCCESS;
}

EMU_API int cudaMallocHost(void **address, size_t bytes) {
  return cudaHostAlloc(address, bytes, 0);
}

EMU_API int cudaFreeHost(void *address) {
  BEGIN;
  int error = emu_disturbs_capture(NULL);
  if (error != SUCCESS || address == NULL) return give(error);
  for (int i = 0; i < pinned_count; i++) {
    if (pinned[i].start != address) continue;
    for (int n = 0; n < emu_device_count(); n++) emu_drain_device(n, false);
    munmap(address, pinned[i].bytes + 1);
    pinned[i] = pinned[--pinned_count];
    return SUCCESS;
  }
  return give(INVALID_VALUE);
}

/* ---- copies ---------------------------------------------------------------------------------- */

typedef struct {
  work head;
  char *to;
  const char *from;
  size_t bytes;
  /* Bytes of the host that were taken along, or the value that fills. */
  bool fills;
  int value;
  char taken[];
} copy;

static bool is_there(const void *address, size_t bytes) {
  return emu_owner(address) < 0 || emu_holds(address, bytes);
}

static int run_copy(work *w) {
  copy *c = (copy *)w;
  if (!is_there(c->to, c->bytes) || (!c->fills && !is_there(c->from, c->bytes))) {
    emu_note("a copy of %zu bytes to %p uses device memory that is freed", c->bytes, c->to);
    return ILLEGAL_ADDRESS;
  }
  emu_numbers[COPIES]++;
  emu_open_memory(-1);
  if (c->fills) memset(c->to, c->value, c->bytes);
  else memmove(c->to, c->from, c->bytes);
  emu_close_memory();
  return SUCCESS;
}

/* What memory has to be where, by kind: 1 for the device, 0 for the host, -1 for any. */
static const struct {
  int to, from;
} kinds[] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {-1, -1}};

static int queue_copy(void *to, const void *from, size_t bytes, int kind, stream *s) {
  if (s == NULL) return INVALID_HANDLE;
  if (kind < 0 || kind > 4) return 21; /* cudaErrorInvalidMemcpyDirection */
  int to_device = emu_owner(to) >= 0, from_device = emu_owner(from) >= 0;
  if (kinds[kind].to >= 0 && (kinds[kind].to != to_device || kinds[kind].from != from_device)) {
    return INVALID_VALUE;
  }
  if (!is_there(to, bytes) || !is_there(from, bytes)) return INVALID_VALUE;
  if (bytes == 0) return SUCCESS;
  /* Bytes of ordinary memory are read before the call returns; those of pinned memory when their
   * turn comes. */
  bool takes = !from_device && !is_pinned(from, bytes);
  copy *c = calloc(1, sizeof *c + (takes ? bytes : 0));
  *c = (copy){.head = {.run = run_copy}, .to = to, .from = from, .bytes = bytes};
  if (takes) c->from = memcpy(c->taken, from, bytes);
  emu_queue(s, &c->head);
  /* Ordinary memory is written before the call returns too. */
  if (to_device || is_pinned(to, bytes) || s->capture != NULL) return SUCCESS;
  return emu_drain(s, s->queued);
}

EMU_API int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *handle) {
  BEGIN;
  return give(queue_copy(to, from, bytes, kind, emu_stream(handle)));
}

/* Waits for streams that are ordered with the default one, and for itself. */
EMU_API int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
  BEGIN;
  stream *s = emu_stream(NULL);
  int error = emu_disturbs_capture(NULL);
  if (error == SUCCESS) error = emu_drain_device(emu_current, true);
  if (error == SUCCESS) error = queue_copy(to, from, bytes, kind, s);
  return give(error != SUCCESS ? error : emu_drain(s, s->queued));
}

EMU_API int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t bytes, void *handle) {
  BEGIN;
  if (bytes == 0) return SUCCESS;
  if (emu_owner(to) != to_device || emu_owner(from) != from_device) return give(INVALID_VALUE);
  return give(queue_copy(to, from, bytes, 3, emu_stream(handle)));
}

EMU_API int cudaMemsetAsync(void *to, int value, size_t bytes, void *handle) {
  BEGIN;
  stream *s = emu_stream(handle);
  if (s == NULL) return give(INVALID_HANDLE);
  if (bytes == 0) return SUCCESS;
  if (!emu_holds(to, bytes)) return give(INVALID_VALUE);
  copy *c = calloc(1, sizeof *c);
  *c = (copy){.head = {.run = run_copy}, .to = to, .bytes = bytes, .fills = true, .value = value};
  return emu_queue(s, &c->head);
}

EMU_API int cudaMemset(void *to, int value, size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, NULL);
}

/* ---- streams --------------------------------------------------------------------------------- */

EMU_API int cudaStreamCreateWithPriority(void **handle, unsigned flags, int priority) {
  (void)priority;
  BEGIN;
  *handle = emu_new_stream(emu_current, (flags & 1) == 0);
  return SUCCESS;
}

EMU_API int cudaStreamCreateWithFlags(void **handle, unsigned flags) {
  return cudaStreamCreateWithPriority(handle, flags, 0);
}

EMU_API int cudaStreamCreate(void **handle) { return cudaStreamCreateWithFlags(handle, 0); }

EMU_API int cudaStreamDestroy(void *handle) {
  BEGIN;
  stream *s = emu_stream(handle);
  if (s == NULL || handle == NULL) return give(INVALID_HANDLE);
  int error = emu_drain(s, s->queued);
  /* Handles stay known as what is no more. */
  s->magic = 0;
  return give(error);
}

EMU_API int cudaStreamSynchronize(void *handle) {
  BEGIN;
  stream *s = emu_stream(handle);
  if (s == NULL) return give(INVALID_HANDLE);
  int error = emu_disturbs_capture(s);
  return give(error != SUCCESS ? error : emu_drain(s, s->queued));
}

/* The first question after new work is answered before that has run. */
EMU_API int cudaStreamQuery(void *handle) {
  BEGIN;
  stream *s = emu_stream(handle);
  if (s == NULL) return give(INVALID_HANDLE);
  int error = emu_disturbs_capture(s);
  if (error != SUCCESS) return give(error);
  if (s->done < s->queued && !s->polled) {
    s->polled = true;
    return NOT_READY;
  }
  return give(emu_advance(s, s->queued));
}

/* ---- events ---------------------------------------------------------------------------------- */

EMU_API int cudaEventCreateWithFlags(void **handle, unsigned flags) {
  BEGIN;
  event *made = calloc(1, sizeof *made);
  *made = (event){.magic = EVENT_MAGIC, .device = emu_current, .timing = (flags & 2) == 0};
  made->time = calloc(1, sizeof *made->time);
  *handle = made;
  return SUCCESS;
}

EMU_API int cudaEventCreate(void **handle) { return cudaEventCreateWithFlags(handle, 0); }

static event *as_event(void *handle) {
  event *e = handle;
  return e == NULL || e->magic != EVENT_MAGIC ? NULL : e;
}

EMU_API int cudaEventDestroy(void *handle) {
  BEGIN;
  event *e = as_event(handle);
  if (e == NULL) return give(INVALID_HANDLE);
  e->magic = 0;
  return SUCCESS;
}

typedef struct {
  work head;
  double *time;
} stamp;

static int run_stamp(work *w) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  *((stamp *)w)->time = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
  return SUCCESS;
}

EMU_API int cudaEventRecord(void *handle, void *to) {
  BEGIN;
  event *e = as_event(handle);
  stream *s = emu_stream(to);
  if (e == NULL || s == NULL || e->device != s->device) return give(INVALID_HANDLE);
  stamp *w = calloc(1, sizeof *w);
  *w = (stamp){.head = {.run = run_stamp}, .time = e->time};
  emu_queue(s, &w->head);
  e->recorded = true;
  e->polled = false;
  e->of = s;
  e->number = s->queued;
  e->capture = s->capture;
  return SUCCESS;
}

/* Errors of events that cannot be waited for. */
static int refuse_event(const event *e) {
  if (e == NULL) return INVALID_HANDLE;
  if (e->capture == NULL) return SUCCESS;
  e->capture->broken = true;
  return CAPTURE_UNSUPPORTED;
}

EMU_API int cudaEventQuery(void *handle) {
  BEGIN;
  event *e = as_event(handle);
  int error = refuse_event(e);
  if (error != SUCCESS) return give(error);
  if (!e->recorded) return SUCCESS;
  if (e->of->done < e->number && !e->polled) {
    e->polled = true;
    return NOT_READY;
  }
  return give(emu_advance(e->of, e->number));
}

EMU_API int cudaEventSynchronize(void *handle) {
  BEGIN;
  event *e = as_event(handle);
  int error = refuse_event(e);
  return give(error != SUCCESS || !e->recorded ? error : emu_drain(e->of, e->number));
}

EMU_API int cudaEventElapsedTime(float *milliseconds, void *first, void *last) {
  BEGIN;
  const event *a = as_event(first), *b = as_event(last);
  if (a == NULL || b == NULL || !a->timing || !b->timing || !a->recorded || !b->recorded) {
    return give(INVALID_HANDLE);
  }
  if (a->of->done < a->number || b->of->done < b->number) return NOT_READY;
  *milliseconds = (float)(*b->time - *a->time);
  return SUCCESS;
}

typedef struct {
  work head;
  stream *of;
  long long number;
} await;

static int run_await(work *w) {
  const await *a = (const await *)w;
  return emu_advance(a->of, a->number) == NOT_READY ? WAITS : SUCCESS;
}

EMU_API int cudaStreamWaitEvent(void *handle, void *what, unsigned flags) {
  (void)flags;
  BEGIN;
  stream *s = emu_stream(handle);
  event *e = as_event(what);
  if (s == NULL || e == NULL) return give(INVALID_HANDLE);
  if (!e->recorded) return SUCCESS;
  if (e->capture != NULL) {
    /* The stream becomes part of the graph, until that ends. */
    if (s->capture == NULL) s->capture = e->capture;
    return SUCCESS;
  }
  if (s->capture != NULL) {
    s->capture->broken = true;
    return give(905);
  }
  await *w = calloc(1, sizeof *w);
  *w = (await){.head = {.run = run_await}, .of = e->of, .number = e->number};
  return emu_queue(s, &w->head);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

EMU_API int cudaStreamBeginCapture(void *handle, int mode) {
  BEGIN;
  stream *s = emu_stream(handle);
  if (s == NULL) return give(INVALID_HANDLE);
  if (handle == NULL) return give(CAPTURE_UNSUPPORTED);
  if (s->capture != NULL || mode < 0 || mode > 2) return give(INVALID_VALUE);
  s->capture = calloc(1, sizeof *s->capture);
  s->capture->origin = s;
  s->capture->mode = mode;
  s->capture->thread = (unsigned long long)pthread_self();
  return SUCCESS;
}

EMU_API int cudaStreamEndCapture(void *handle, void **made) {
  BEGIN;
  stream *s = emu_stream(handle);
  *made = NULL;
  if (s == NULL) return give(INVALID_HANDLE);
  graph *g = s->capture;
  if (g == NULL || g->origin != s) return give(INVALID_VALUE);
  for (int i = 0; i < emu_device_count(); i++) {
    for (stream *t = emu_device(i)->streams; t != NULL; t = t->next) {
      if (t->capture == g) t->capture = NULL;
    }
  }
  if (g->broken) return give(CAPTURE_INVALIDATED);
  *made = g;
  return SUCCESS;
}

EMU_API int cudaStreamIsCapturing(void *handle, int *status) {
  BEGIN;
  stream *s = emu_stream(handle);
  if (s == NULL) return give(INVALID_HANDLE);
  *status = s->capture == NULL ? 0 : s->capture->broken ? 2 : 1;
  return SUCCESS;
}

/* The works of the graph go over: launching, they run as they are. */
EMU_API int cudaGraphInstantiate(void **made, void *from, unsigned long long flags) {
  (void)flags;
  BEGIN;
  graph *g = from;
  if (g == NULL) return give(INVALID_VALUE);
  if (emu_fails(FAIL_DRIVER)) return give(OUT_OF_MEMORY);
  executable *e = calloc(1, sizeof *e);
  *e = (executable){.magic = GRAPH_MAGIC, .first = g->first};
  *made = e;
  return SUCCESS;
}

EMU_API int cudaGraphInstantiateWithFlags(void **made, void *from, unsigned long long flags) {
  return cudaGraphInstantiate(made, from, flags);
}

EMU_API int cudaGraphDestroy(void *which) { return give(which == NULL ? INVALID_VALUE : SUCCESS); }

typedef struct {
  work head;
  executable *what;
} replay;

static int run_replay(work *w) {
  for (work *each = ((replay *)w)->what->first; each != NULL; each = each->next) {
    int error = each->run(each);
    if (error != SUCCESS) return error;
  }
  return SUCCESS;
}

EMU_API int cudaGraphLaunch(void *which, void *handle) {
  BEGIN;
  executable *e = which;
  stream *s = emu_stream(handle);
  if (e == NULL || e->magic != GRAPH_MAGIC) return give(INVALID_VALUE);
  if (s == NULL) return give(INVALID_HANDLE);
  replay *w = calloc(1, sizeof *w);
  *w = (replay){.head = {.run = run_replay}, .what = e};
  return emu_queue(s, &w->head);
}

EMU_API int cudaGraphExecDestroy(void *which) {
  BEGIN;
  executable *e = which;
  if (e == NULL || e->magic != GRAPH_MAGIC) return give(INVALID_VALUE);
  for (int i = 0; i < emu_device_count(); i++) emu_drain_device(i, false);
  e->magic = 0;
  return SUCCESS;
}
