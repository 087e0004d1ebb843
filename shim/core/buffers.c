/*
 * Memory for large JavaScript arrays. A garbage collector returns it when an array is unreachable,
 * and it is reused, since fresh memory costs several times as much as an op that fills it.
 *
 * Bun calls finalize_buffer by itself. V8 has to be told through Node-API, whose functions Deno has
 * in the process. Collectors call from threads of their own, even after the worker that made the
 * array has ended.
 */
#if !defined(_WIN32)
#define _GNU_SOURCE
#endif
#if defined(_WIN32)
#include <windows.h>
#else
#include <sys/resource.h>
#include <unistd.h>
#endif
#if defined(__linux__)
#include <stdio.h>
#include <sys/mman.h>
#endif
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"
#include "mutex.h"
#include "node_api.h"

enum {
  /* Buffers are aligned to cache lines. */
  OP_LINE = 64,
  /* Bytes of a huge page where others have 4 KiB; elsewhere just an alignment. */
  LARGE_PAGE = 1 << 21,
  /* The most bytes in the cache, unless more are in use: a collector may free as much at once as
   * there is in use, and the program asks for it again before the next collection. */
  MAX_CACHED = 1 << 28,
  /* The part of the memory of the process that the cache holds at most: a quarter. */
  CACHED_PART = 4,
  /* Size classes between one power of 2 and the next. */
  CLASSES_PER_POWER = 8,
  CLASSES = 64 * CLASSES_PER_POWER,
  /* Making a V8 array takes longer than this only if it ran a collection. */
  COLLECTION_NS = 50000,
  /* The longest wait for what a collection frees. */
  MAX_WAIT_NS = 100000000,
  /* V8 continues marking after this many allocated bytes; an array of MARKING_ELEMENTS makes it do
   * so. */
  MARKING_STEP = 1 << 22,
  MARKING_ELEMENTS = 1 << 14
};

/* A JavaScript thread that makes arrays. */
typedef struct {
  /* Bytes in use. JavaScript reads it at any time. */
  double bytes;
  /* Buffers in use, plus one for the owner itself. */
  size_t reference_count;
  /* Bytes allocated since V8 last continued marking. */
  size_t unmarked_bytes;
} buffer_owner;

/* The header before each buffer. */
typedef struct buffer buffer;
struct buffer {
  /* Cached buffers: the list of all by age, and the list of one size class, newest first. */
  buffer *newer, *older, *next, *previous;
  buffer_owner *owner;
  /* How many bytes it can hold, and how many were requested. */
  size_t capacity, bytes;
  /* The start of its allocation. */
  void *memory;
};
_Static_assert(sizeof(buffer) <= OP_LINE, "a buffer's head takes one line");

/* Guards everything below, and every owner. */
static rm_mutex mutex = RM_MUTEX_INIT;
static buffer *cache[CLASSES];
static buffer *newest, *oldest;
static size_t cached_bytes, used_bytes;

/* ---- the memory of the process --------------------------------------------------------------- */

#if defined(__linux__)
/* The number in a file; infinite without one, as in "max". */
static double read_number(const char *path) {
  double number = INFINITY;
  FILE *file = fopen(path, "re");
  if (file == NULL) return number;
  if (fscanf(file, "%lf", &number) != 1) number = INFINITY;
  fclose(file);
  return number;
}

/* The least limit of a control group and of those around it. Changes `group`. In containers, the
 * group's path may not exist, and the first folder is the container's. */
static double limit_of_group(const char *folder, char *group, const char *name) {
  double limit = INFINITY;
  for (;;) {
    char path[1024];
    snprintf(path, sizeof path, "%s%s/%s", folder, group, name);
    limit = fmin(limit, read_number(path));
    char *last = strrchr(group, '/');
    if (last == NULL) return limit;
    *last = 0;
  }
}

double rm_group_limit(const char *groups, const char *folder) {
  double limit = INFINITY;
  FILE *file = fopen(groups, "re");
  if (file == NULL) return limit;
  char line[1024], path[256];
  while (fgets(line, sizeof line, file) != NULL) {
    /* "hierarchy:controllers:/path"; version 2 names no controllers. */
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':');
    char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (group == NULL) continue;
    *controllers++ = 0;
    *group++ = 0;
    if (controllers[0] == 0) {
      limit = fmin(limit, limit_of_group(folder, group, "memory.max"));
    } else if (strstr(controllers, "memory") != NULL) {
      snprintf(path, sizeof path, "%s/memory", folder);
      limit = fmin(limit, limit_of_group(path, group, "memory.limit_in_bytes"));
    }
  }
  fclose(file);
  return limit;
}
#endif

/* The most bytes that this process may use; infinite if unknown. */
static double find_memory_limit(void) {
  double limit = INFINITY;
#if defined(_WIN32)
  MEMORYSTATUSEX status = {.dwLength = sizeof status};
  if (GlobalMemoryStatusEx(&status)) limit = (double)status.ullTotalPhys;
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION job;
  if (QueryInformationJobObject(NULL, JobObjectExtendedLimitInformation, &job, sizeof job, NULL)) {
    const DWORD set = job.BasicLimitInformation.LimitFlags;
    if (set & JOB_OBJECT_LIMIT_JOB_MEMORY) limit = fmin(limit, (double)job.JobMemoryLimit);
    if (set & JOB_OBJECT_LIMIT_PROCESS_MEMORY) limit = fmin(limit, (double)job.ProcessMemoryLimit);
  }
#else
  const long pages = sysconf(_SC_PHYS_PAGES);
  if (pages > 0) limit = (double)pages * (double)sysconf(_SC_PAGESIZE);
  struct rlimit space;
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    limit = fmin(limit, (double)space.rlim_cur);
  }
#endif
#if defined(__linux__)
  limit = fmin(limit, rm_group_limit("/proc/self/cgroup", "/sys/fs/cgroup"));
#endif
  return limit;
}

/* Guarded. */
static double memory_limit(void) {
  static double limit;
  if (limit == 0) limit = find_memory_limit();
  return limit;
}

/* ---- the cache ------------------------------------------------------------------------------- */

/* The most bytes to cache while so many are in use. Guarded. */
static size_t most_cached(size_t used) {
  const double limit = memory_limit();
  const double most = used > MAX_CACHED ? (double)used : MAX_CACHED;
  /* The last quarter of the memory is left to others. */
  const double room = fmax(0, limit / CACHED_PART * (CACHED_PART - 1) - (double)used);
  const double allowed = fmin(fmin(most, limit / CACHED_PART), room);
  return allowed < (double)SIZE_MAX ? (size_t)allowed : SIZE_MAX;
}

/* The capacity of a buffer for so many bytes: up to an eighth more, so that it fits similar sizes
 * later. */
static size_t capacity_for(size_t bytes) {
  const size_t step = (size_t)1 << (63 - __builtin_clzll(bytes | CLASSES_PER_POWER)) >> 3;
  return (bytes + step - 1) / step * step;
}

/* The list of cached buffers of that capacity. */
static buffer **size_class_of(size_t capacity) {
  const int high = 63 - __builtin_clzll(capacity | CLASSES_PER_POWER);
  return &cache[high * CLASSES_PER_POWER + (int)(capacity >> (high - 3)) - CLASSES_PER_POWER];
}

/* Removes a cached buffer from the lists. */
static void unlink_cached(buffer *b) {
  *(b->newer == NULL ? &newest : &b->newer->older) = b->older;
  *(b->older == NULL ? &oldest : &b->older->newer) = b->newer;
  *(b->previous == NULL ? size_class_of(b->capacity) : &b->previous->next) = b->next;
  if (b->next != NULL) b->next->previous = b->previous;
  cached_bytes -= b->capacity;
}

static void link_cached(buffer *b) {
  b->newer = b->previous = NULL;
  b->older = newest;
  *(newest == NULL ? &oldest : &newest->newer) = b;
  newest = b;
  buffer **list = size_class_of(b->capacity);
  b->next = *list;
  if (b->next != NULL) b->next->previous = b;
  *list = b;
  cached_bytes += b->capacity;
}

/* Removes the oldest cached buffers until at most so many bytes remain; returns them as a list. */
static buffer *evict_oldest(size_t max_bytes) {
  buffer *list = NULL;
  while (cached_bytes > max_bytes) {
    buffer *b = oldest;
    unlink_cached(b);
    b->next = list;
    list = b;
  }
  return list;
}

#if defined(__linux__)
/* Maps fresh memory in huge pages, which are ready in a tenth of the time of small ones. The header
 * gets a page of its own before them. */
static buffer *map_buffer(size_t capacity) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = capacity + page + LARGE_PAGE;
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  const size_t before = (size_t)(-(uintptr_t)(memory + page) % LARGE_PAGE);
  char *data = memory + before + page;
  if (before > 0) munmap(memory, before);
  munmap(data + capacity, LARGE_PAGE - before);
  buffer *b = (buffer *)(data - OP_LINE);
  b->memory = data - page;
  /* Including the header's page, so that it stays one mapping: a process has at most 2^16. */
  madvise(data - page, capacity + page, MADV_HUGEPAGE);
  return b;
}

static void unmap_buffer(buffer *b) {
  void *memory = b->memory;
  const size_t bytes = (size_t)((char *)b + OP_LINE + b->capacity - (char *)memory);
  if (munmap(memory, bytes) != 0) madvise(memory, bytes, MADV_DONTNEED);
}

static const size_t MIN_MAPPED = LARGE_PAGE;
#else
static buffer *map_buffer(size_t capacity) {
  (void)capacity;
  return NULL;
}

static void unmap_buffer(buffer *b) { (void)b; }

static const size_t MIN_MAPPED = SIZE_MAX;
#endif

/* A buffer of that capacity, or null. Fresh memory of the system is zero, which calloc knows. */
static buffer *new_buffer(size_t capacity, bool zeroed) {
  buffer *b;
  if (capacity >= MIN_MAPPED) {
    b = map_buffer(capacity);
    if (b == NULL) return NULL;
  } else {
    const size_t bytes = capacity + 2 * OP_LINE;
    void *memory = zeroed ? calloc(1, bytes) : malloc(bytes);
    if (memory == NULL) return NULL;
    b = (buffer *)(((uintptr_t)memory + OP_LINE - 1) / OP_LINE * OP_LINE);
    b->memory = memory;
  }
  b->capacity = capacity;
  return b;
}

static void free_list(buffer *list) {
  while (list != NULL) {
    buffer *b = list;
    list = b->next;
    if (b->capacity >= MIN_MAPPED) unmap_buffer(b);
    else free(b->memory);
  }
}

static void release_owner(buffer_owner *owner) {
  if (--owner->reference_count == 0) free(owner);
}

static buffer_owner *new_owner(void) {
  buffer_owner *owner = calloc(1, sizeof *owner);
  if (owner != NULL) owner->reference_count = 1;
  return owner;
}

/* Guarded. */
static void assign_to(buffer_owner *owner, buffer *b, size_t bytes) {
  b->owner = owner;
  b->bytes = bytes;
  owner->bytes += (double)bytes;
  owner->reference_count++;
  used_bytes += b->capacity;
}

/* A cached buffer, or null. */
static void *allocate_cached(buffer_owner *owner, size_t bytes, bool zeroed) {
  rm_mutex_lock(&mutex);
  buffer *b = *size_class_of(capacity_for(bytes));
  if (b != NULL) {
    unlink_cached(b);
    assign_to(owner, b, bytes);
  }
  rm_mutex_unlock(&mutex);
  if (b == NULL) return NULL;
  void *data = (char *)b + OP_LINE;
  if (zeroed) memset(data, 0, bytes);
  return data;
}

static void trim_cache(size_t max_bytes) {
  rm_mutex_lock(&mutex);
  buffer *list = evict_oldest(max_bytes);
  rm_mutex_unlock(&mutex);
  free_list(list);
}

/* A new buffer, or null if memory is exhausted. Evicts what would take too much beside it. */
static void *allocate_fresh(buffer_owner *owner, size_t bytes, bool zeroed) {
  const size_t capacity = capacity_for(bytes);
  rm_mutex_lock(&mutex);
  buffer *list = evict_oldest(most_cached(used_bytes + capacity));
  rm_mutex_unlock(&mutex);
  free_list(list);
  buffer *b = new_buffer(capacity, zeroed);
  if (b == NULL) {
    trim_cache(0);
    b = new_buffer(capacity, zeroed);
  }
  if (b == NULL) return NULL;
  rm_mutex_lock(&mutex);
  assign_to(owner, b, bytes);
  rm_mutex_unlock(&mutex);
  return (char *)b + OP_LINE;
}

static void free_buffer(void *data) {
  buffer *b = (buffer *)((char *)data - OP_LINE);
  rm_mutex_lock(&mutex);
  b->owner->bytes -= (double)b->bytes;
  release_owner(b->owner);
  used_bytes -= b->capacity;
  link_cached(b);
  buffer *list = evict_oldest(most_cached(used_bytes));
  rm_mutex_unlock(&mutex);
  free_list(list);
}

static void close_owner(buffer_owner *owner) {
  rm_mutex_lock(&mutex);
  release_owner(owner);
  rm_mutex_unlock(&mutex);
}

/* Finalizers for JavaScriptCore: of an array, and of the view on an owner. */
static void finalize_buffer(void *data, void *context) {
  (void)context;
  free_buffer(data);
}
static void finalize_owner(void *owner, void *context) {
  (void)context;
  close_owner(owner);
}

int32_t rm_buffers(int32_t what, double *numbers) {
  switch (what) {
    case RM_BUFFERS_OPEN: {
      buffer_owner *owner = new_owner();
      if (owner == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for an owner of buffers");
      rm_pin_library();
      numbers[0] = (double)(uintptr_t)owner;
      numbers[1] = (double)(uintptr_t)finalize_owner;
      numbers[2] = (double)(uintptr_t)finalize_buffer;
      return RM_OK;
    }
    case RM_BUFFERS_TAKE:
    case RM_BUFFERS_TAKE_KEPT: {
      buffer_owner *owner = (buffer_owner *)(uintptr_t)numbers[0];
      const size_t bytes = (size_t)numbers[1];
      const bool zeroed = numbers[2] != 0;
      void *data = allocate_cached(owner, bytes, zeroed);
      if (what == RM_BUFFERS_TAKE) {
        if (data == NULL) data = allocate_fresh(owner, bytes, zeroed);
        if (data == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a buffer");
      }
      numbers[0] = (double)(uintptr_t)data;
      return RM_OK;
    }
    case RM_BUFFERS_KEPT:
      rm_mutex_lock(&mutex);
      numbers[0] = (double)cached_bytes;
      numbers[1] = (double)used_bytes;
      numbers[2] = memory_limit();
      rm_mutex_unlock(&mutex);
      return RM_OK;
    case RM_BUFFERS_RELEASE: trim_cache((size_t)numbers[0]); return RM_OK;
    case RM_BUFFERS_GIVE: free_buffer((void *)(uintptr_t)numbers[0]); return RM_OK;
    default: return rm_fail(RM_BAD_ARGUMENT, "rm_buffers does not do %d", what);
  }
}

/* ---- Node-API -------------------------------------------------------------------------------- */

#define FUNCTIONS(F) \
  NODE_API_FUNCTIONS(F) \
  F(napi_create_array_with_length, (void *env, size_t length, void **result)) \
  F(napi_create_arraybuffer, (void *env, size_t bytes, void **data, void **result)) \
  F(napi_create_external_arraybuffer, (void *env, void *data, size_t bytes, napi_finalizer lost, \
                                       void *hint, void **result))

RM_NODE_API(FUNCTIONS)

static void api_finalize_buffer(void *env, void *data, void *hint) {
  (void)env;
  (void)hint;
  free_buffer(data);
}

static void api_finalize_owner(void *env, void *data, void *hint) {
  (void)env;
  (void)hint;
  close_owner(data);
}

/* Triggers a V8 collection if that is worth it: V8 checks how much its young arrays hold when it
 * makes one, but not when it is given one. Another thread of V8 then frees unreachable buffers;
 * waits for the first one as long as fresh memory, at some 4 GB/s, would take. The wait has a limit:
 * fresh memory of any size may be requested, and a collection may free nothing. */
static void *allocate_collected(void *env, buffer_owner *owner, size_t bytes, bool zeroed) {
  void *ignored, *array;
  const int64_t begin = rm_nanoseconds();
  api.napi_create_arraybuffer(env, OP_LINE, &ignored, &array);
  const int64_t end = rm_nanoseconds();
  const int64_t wait = bytes / 4 < MAX_WAIT_NS ? (int64_t)(bytes / 4) : MAX_WAIT_NS;
  void *data;
  do {
    data = allocate_cached(owner, bytes, zeroed);
    if (data != NULL || end - begin < COLLECTION_NS) return data;
    rm_yield();
  } while (rm_nanoseconds() - end < wait);
  return NULL;
}

/* Once arrays hold much memory, V8 marks live objects in steps, after so many bytes of objects
 * each, and only the last step frees what had lived for a while. Arrays bring few bytes of objects:
 * without more of them, gigabytes pass between steps. */
static void help_marking(void *env, buffer_owner *owner, size_t bytes) {
  void *array;
  owner->unmarked_bytes += bytes;
  if (owner->unmarked_bytes < MARKING_STEP) return;
  owner->unmarked_bytes = 0;
  api.napi_create_array_with_length(env, MARKING_ELEMENTS, &array);
}

/* take(bytes, zeroed): an ArrayBuffer, or undefined if memory is exhausted. */
static void *api_allocate(void *env, void *info) {
  size_t count = 2;
  void *arguments[2], *owner, *result = NULL;
  double bytes, zeroed;
  if (api.napi_get_cb_info(env, info, &count, arguments, NULL, &owner) != 0 || count < 2 ||
      api.napi_get_value_double(env, arguments[0], &bytes) != 0 ||
      api.napi_get_value_double(env, arguments[1], &zeroed) != 0) {
    return NULL;
  }
  void *data = allocate_cached(owner, (size_t)bytes, zeroed != 0);
  if (data == NULL) data = allocate_collected(env, owner, (size_t)bytes, zeroed != 0);
  if (data == NULL) {
    help_marking(env, owner, (size_t)bytes);
    data = allocate_fresh(owner, (size_t)bytes, zeroed != 0);
  }
  if (data == NULL) return NULL;
  if (api.napi_create_external_arraybuffer(env, data, (size_t)bytes, api_finalize_buffer, NULL,
                                           &result) != 0) {
    free_buffer(data);
    return NULL;
  }
  return result;
}

void rm_export_buffers(void *env, void *exports) {
  void *bytes, *take;
  if (!find_api(&mutex)) return;
  buffer_owner *owner = new_owner();
  if (owner == NULL) return;
  rm_pin_library();
  if (api.napi_create_external_arraybuffer(env, owner, sizeof(double), api_finalize_owner, NULL,
                                           &bytes) != 0) {
    close_owner(owner);
    return;
  }
  if (api.napi_create_function(env, "take", 4, api_allocate, owner, &take) == 0 &&
      api.napi_set_named_property(env, exports, "take", take) == 0) {
    api.napi_set_named_property(env, exports, "bytes", bytes);
  }
}
