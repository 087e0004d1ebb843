/* Settings, the lock, devices and their memory, queues of work. */
#include "emulator.h"

#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- settings, counters, messages ------------------------------------------------------------ */

static const char *const names[NUMBERS] = {
    "order", "seed", "strict", "exact", "memory", "devices", "multiprocessors", "capability",
    "builtins", "failMalloc", "failLaunch", "failKernel", "failCompile", "failDriver",
    "failBlas", "failFft", "failSolver", "failNccl", "launches", "kernels", "compiles", "cached", "mallocs",
    "copies", "products", "transforms", "plans", "factors", "collectives", "used"};

double emu_numbers[NUMBERS] = {[SEED] = 1, [MEMORY] = 4294967296.0, [DEVICES] = 2,
                               [MULTIPROCESSORS] = 8, [CAPABILITY] = 90, [BUILTINS] = 1};

static char last_fault[512];

/* Settings come from ROWMAJOR_EMULATOR_ORDER and so on. */
__attribute__((constructor)) static void read_environment(void) {
  for (int i = 0; i < LAUNCHES; i++) {
    char name[64] = "ROWMAJOR_EMULATOR_", *to = name + strlen(name);
    for (const char *from = names[i]; *from != 0; from++) *to++ = (char)toupper(*from);
    *to = 0;
    const char *value = getenv(name);
    if (value != NULL && value[0] != 0) emu_numbers[i] = atof(value);
  }
}

static int number_of(const char *name) {
  for (int i = 0; i < NUMBERS; i++) {
    if (strcmp(names[i], name) == 0) return i;
  }
  return -1;
}

double emu_get(const char *name) {
  EMU_LOCK;
  int i = number_of(name);
  return i < 0 ? -1 : emu_numbers[i];
}

int emu_set(const char *name, double value) {
  EMU_LOCK;
  int i = number_of(name);
  if (i < 0) return INVALID_VALUE;
  emu_numbers[i] = value;
  return SUCCESS;
}

int emu_setenv(const char *name, const char *value) { return setenv(name, value, 1); }

bool emu_fails(int setting) { return emu_numbers[setting] > 0 && --emu_numbers[setting] == 0; }

int emu_last_fault(char *buffer, int length) {
  EMU_LOCK;
  if (length > 0) snprintf(buffer, (size_t)length, "%s", last_fault);
  return (int)strlen(last_fault);
}

void emu_note(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(last_fault, sizeof last_fault, format, arguments);
  va_end(arguments);
  const char *path = getenv("ROWMAJOR_EMULATOR_LOG");
  FILE *log = path == NULL || path[0] == 0 ? NULL : fopen(path, "a");
  if (log == NULL) return;
  fprintf(log, "%s\n", last_fault);
  fclose(log);
}

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
/* How often this thread holds it. */
static _Thread_local int depth;
int emu_lock(void) {
  const int error = pthread_mutex_lock(&lock);
  depth++;
  return error;
}
void emu_unlock(const int *held) {
  (void)held;
  depth--;
  pthread_mutex_unlock(&lock);
}

/* ---- devices --------------------------------------------------------------------------------- */

static device devices[MAX_DEVICES];
_Thread_local int emu_current;
_Thread_local bool emu_has_context;

enum { PAGE = 4096 };

int emu_device_count(void) {
  double count = emu_numbers[DEVICES];
  return count < 0 ? 0 : count > MAX_DEVICES ? MAX_DEVICES : (int)count;
}

device *emu_device(int n) {
  device *d = &devices[n];
  if (d->range != NULL) return d;
  /* Addresses are not used twice; where less may be reserved, half as many. */
  for (d->range_bytes = (size_t)1 << 40; d->range_bytes >= (size_t)1 << 30; d->range_bytes /= 2) {
    d->range = mmap(NULL, d->range_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (d->range != MAP_FAILED) break;
  }
  if (d->range == MAP_FAILED) d->range = NULL, d->range_bytes = 0;
  d->next = PAGE;
  d->null_stream = emu_new_stream(n, true);
  emu_watch_faults();
  return d;
}

void emu_reset(void) {
  EMU_LOCK;
  for (int i = 0; i < MAX_DEVICES; i++) devices[i].fault = SUCCESS;
  for (int i = FAIL_MALLOC; i <= FAIL_NCCL; i++) emu_numbers[i] = 0;
  last_fault[0] = 0;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Fresh memory has all bits set: NaN, or -1. Pages of a file serve until they are written to. */
static bool map_poison(char *at, size_t bytes) {
  enum { CHUNK = 4 << 20 };
  static int file = -1;
  if (file < 0) {
    file = memfd_create("poison", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, CHUNK) != 0) return false;
    void *pages = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (pages == MAP_FAILED) return false;
    memset(pages, 0xff, CHUNK);
    munmap(pages, CHUNK);
  }
  for (size_t done = 0; done < bytes; done += CHUNK) {
    size_t part = bytes - done < CHUNK ? bytes - done : CHUNK;
    if (mmap(at + done, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0) ==
        MAP_FAILED) {
      return false;
    }
  }
  return true;
}

bool emu_shared_pages(char *const *part, char **pages) {
  const uintptr_t first = ((uintptr_t)part[0] + PAGE - 1) / PAGE * PAGE;
  const uintptr_t last = (uintptr_t)part[1] / PAGE * PAGE;
  /* Few are filled sooner than given back. */
  if (last < first + 4 * PAGE) return false;
  pages[0] = (char *)first;
  pages[1] = (char *)last;
  return true;
}

bool emu_map_shared(char *const *part) {
  char *pages[2];
  return !emu_shared_pages(part, pages) || map_poison(pages[0], (size_t)(pages[1] - pages[0]));
}

static void take_away(const allocation *a) {
  mmap(a->pages, a->page_bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

int emu_allocate(int n, size_t bytes, void **address) {
  device *d = emu_device(n);
  *address = NULL;
  if (bytes == 0) return SUCCESS;
  emu_numbers[MALLOCS]++;
  if (emu_fails(FAIL_MALLOC) || (double)bytes + (double)d->used > emu_numbers[MEMORY]) {
    return OUT_OF_MEMORY;
  }
  size_t rounding = emu_numbers[EXACT] != 0 ? 16 : 512;
  size_t rounded = (bytes + rounding - 1) / rounding * rounding;
  size_t page_bytes = (rounded + PAGE - 1) / PAGE * PAGE;
  /* A protected page separates all of them. */
  if (d->next + page_bytes + PAGE > d->range_bytes) return OUT_OF_MEMORY;
  allocation a = {.bytes = bytes, .pages = d->range + d->next, .page_bytes = page_bytes};
  if (!map_poison(a.pages, page_bytes)) {
    take_away(&a);
    return OUT_OF_MEMORY;
  }
  a.start = a.pages + page_bytes - rounded;
  if (d->count == d->capacity) {
    d->capacity = 2 * d->capacity + 16;
    d->live = realloc(d->live, d->capacity * sizeof *d->live);
  }
  d->live[d->count++] = a;
  d->next += page_bytes + PAGE;
  d->used += bytes;
  emu_numbers[USED] += (double)bytes;
  if (emu_numbers[STRICT] != 0) mprotect(a.pages, a.page_bytes, PROT_NONE);
  *address = a.start;
  return SUCCESS;
}

int emu_owner(const void *address) {
  for (int i = 0; i < MAX_DEVICES; i++) {
    const char *at = address, *range = devices[i].range;
    if (range != NULL && at >= range && at < range + devices[i].range_bytes) return i;
  }
  return -1;
}

/* The last allocation that begins at the address or before, or null. */
static allocation *find(const device *d, const char *at) {
  size_t low = 0, high = d->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (d->live[middle].start <= at) low = middle + 1;
    else high = middle;
  }
  return low == 0 ? NULL : &d->live[low - 1];
}

/* Whether something was written to what lies between an allocation and the end of its pages. */
static bool is_overrun(const allocation *a) {
  if (emu_numbers[STRICT] != 0) mprotect(a->pages, a->page_bytes, PROT_READ);
  const unsigned char *at = (const unsigned char *)a->start + a->bytes;
  const unsigned char *end = (const unsigned char *)a->pages + a->page_bytes;
  while (at < end && *at == 0xff) at++;
  return at < end;
}

int emu_free(void *address) {
  int owner = emu_owner(address);
  if (owner < 0) return INVALID_VALUE;
  device *d = &devices[owner];
  allocation *a = find(d, address);
  if (a == NULL || a->start != address) return INVALID_VALUE;
  if (is_overrun(a)) {
    emu_note("bytes behind an allocation of %zu were written to", a->bytes);
    if (d->fault == SUCCESS) d->fault = ILLEGAL_ADDRESS;
  }
  take_away(a);
  d->used -= a->bytes;
  emu_numbers[USED] -= (double)a->bytes;
  memmove(a, a + 1, (size_t)(d->live + --d->count - a) * sizeof *a);
  return SUCCESS;
}

bool emu_holds(const void *address, size_t bytes) {
  int owner = emu_owner(address);
  const allocation *a = owner < 0 ? NULL : find(&devices[owner], address);
  return a != NULL && (const char *)address + bytes <= a->start + a->bytes;
}

void emu_describe(const void *address, char *text, size_t length) {
  const char *at = address;
  int owner = emu_owner(address);
  if (owner < 0) {
    snprintf(text, length, "outside of device memory");
    return;
  }
  const device *d = &devices[owner];
  const allocation *a = find(d, at);
  if (a != NULL && at < a->pages + a->page_bytes + PAGE) {
    snprintf(text, length, "byte %td of an allocation of %zu", at - a->start, a->bytes);
  } else if (a != d->live + d->count - 1 && at < d->range + d->next && d->count > 0 &&
             (a == NULL ? d->live : a + 1)->pages - at <= PAGE) {
    snprintf(text, length, "shortly before an allocation");
  } else snprintf(text, length, "in memory that is freed or was never there");
}

static void protect(int n, int how) {
  for (int i = 0; i < MAX_DEVICES; i++) {
    if (n >= 0 && i != n && !devices[n].peers[i]) continue;
    for (size_t j = 0; j < devices[i].count; j++) {
      mprotect(devices[i].live[j].pages, devices[i].live[j].page_bytes, how);
    }
  }
}

void emu_open_memory(int n) {
  if (emu_numbers[STRICT] != 0) protect(n, PROT_READ | PROT_WRITE);
}

void emu_close_memory(void) {
  if (emu_numbers[STRICT] != 0) protect(-1, PROT_NONE);
}

/* ---- queues ---------------------------------------------------------------------------------- */

stream *emu_new_stream(int n, bool blocking) {
  stream *made = calloc(1, sizeof *made);
  made->magic = STREAM_MAGIC;
  made->device = n;
  made->blocking = blocking;
  made->next = devices[n].streams;
  devices[n].streams = made;
  return made;
}

stream *emu_stream(void *handle) {
  /* 1 and 2 are names of the default stream too. */
  if ((uintptr_t)handle <= 2) return emu_device(emu_current)->null_stream;
  stream *s = handle;
  return s->magic == STREAM_MAGIC ? s : NULL;
}

int emu_queue(stream *to, work *what) {
  what->device = to->device;
  what->next = NULL;
  work **first = &to->first, **last = &to->last;
  if (to->capture != NULL) {
    first = &to->capture->first;
    last = &to->capture->last;
  } else {
    to->queued++;
    to->polled = false;
  }
  if (*first == NULL) *first = what;
  else (*last)->next = what;
  *last = what;
  return SUCCESS;
}

int emu_advance(stream *from, long long until) {
  device *d = &devices[from->device];
  while (from->done < until && from->first != NULL) {
    work *w = from->first;
    /* After a fault nothing runs any more. */
    int error = d->fault == SUCCESS ? w->run(w) : SUCCESS;
    if (error == WAITS) return NOT_READY;
    from->first = w->next;
    if (error != SUCCESS && d->fault == SUCCESS) d->fault = error;
    free(w);
    from->done++;
  }
  return d->fault;
}

int emu_drain(stream *from, long long until) {
  int error;
  while ((error = emu_advance(from, until)) == NOT_READY) {
    /* Other threads and processes go on meanwhile. */
    const int held = depth;
    for (int i = 0; i < held; i++) emu_unlock(&held);
    usleep(100);
    for (int i = 0; i < held; i++) emu_lock();
  }
  return error;
}

int emu_drain_device(int n, bool blocking_only) {
  device *d = emu_device(n);
  for (stream *s = d->streams; s != NULL; s = s->next) {
    if (s->blocking || !blocking_only) emu_drain(s, s->queued);
  }
  return d->fault;
}

int emu_disturbs_capture(stream *of) {
  if (of != NULL) {
    if (of->capture == NULL) return SUCCESS;
    of->capture->broken = true;
    return CAPTURE_UNSUPPORTED;
  }
  int error = SUCCESS;
  for (int i = 0; i < MAX_DEVICES; i++) {
    for (stream *s = devices[i].streams; s != NULL; s = s->next) {
      graph *g = s->capture;
      enum { GLOBAL, THREAD_LOCAL };
      if (g == NULL || g->mode > THREAD_LOCAL) continue;
      if (g->mode == THREAD_LOCAL && g->thread != (unsigned long long)pthread_self()) continue;
      g->broken = true;
      error = CAPTURE_UNSUPPORTED;
    }
  }
  return error;
}
