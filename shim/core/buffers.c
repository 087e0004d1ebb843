/*
 * Memory for large arrays of JavaScript, which comes back when a collector finds the array gone, and
 * is given out again: fresh memory costs several times what an op takes that fills it.
 *
 * Bun calls buffer_lost by itself; V8 has to be told through Node-API, of which Deno's own
 * functions are found in the process. Collectors call from threads of their own, and after the
 * worker that made the array has ended.
 */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <dlfcn.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"
#include "mutex.h"

enum {
  /* Buffers begin at lines of the caches. */
  LINE = 64,
  /* Bytes of a large page where others have 4 KiB; elsewhere nothing but an alignment. */
  LARGE_PAGE = 1 << 21,
  /* One that takes more nanoseconds than this is slow, as small ones would be there by then. Two fast
   * ones make up for it; from so many slow ones on no more are asked for. */
  SLOW_PAGE = 1000000,
  MOST_SLOW = 3,
  /* Bytes that are kept at most, unless more are in use: what a collector gives back at once may be
   * as much as there is besides, and is asked for again before it looks the next time. */
  MOST_KEPT = 1 << 28,
  /* Sizes from one power of 2 to the next. */
  STEPS = 8,
  CLASSES = 64 * STEPS,
  /* Nanoseconds from which on making an array of V8 must have collected. */
  COLLECTION = 50000,
  /* New bytes for which V8 goes on with its marking; and elements of an array that make it do so. */
  MARKING_STEP = 1 << 22,
  MARKING_ELEMENTS = 1 << 14
};

/* Who makes arrays: a thread of JavaScript. */
typedef struct {
  /* Bytes in use; JavaScript reads it whenever it likes. */
  double bytes;
  /* Bytes in arrays that lie elsewhere; JavaScript writes it. */
  _Atomic double others;
  /* What of that is in the sum over all owners. */
  double counted;
  /* Buffers in use, and one for the owner itself. */
  size_t references;
  /* New bytes since V8 has last gone on with its marking. */
  size_t unmarked;
} owner;

/* What stands before each buffer. */
typedef struct buffer buffer;
struct buffer {
  /* Kept buffers: of all sizes, by when they came back; and of the same one, the last one first. */
  buffer *newer, *older, *next, *previous;
  owner *of;
  /* What it has room for, and what was asked for. */
  size_t room, bytes;
  /* What it lies in, from where that begins. */
  void *memory;
};
_Static_assert(sizeof(buffer) <= LINE, "a buffer's head takes one line");

/* Guards all that follows, and every owner. */
static rm_lock guard = RM_LOCK_INIT;
static buffer *kept[CLASSES];
static buffer *newest, *oldest;
static size_t kept_bytes, used_bytes;
static double other_bytes;

/* What a buffer for so many bytes has room for, up to an eighth more, so that it serves others of
 * about that size too. */
static size_t room_for(size_t bytes) {
  const size_t step = (size_t)1 << (63 - __builtin_clzll(bytes | STEPS)) >> 3;
  return (bytes + step - 1) / step * step;
}

/* The list of kept buffers with that room. */
static buffer **list_of(size_t room) {
  const int high = 63 - __builtin_clzll(room | STEPS);
  return &kept[high * STEPS + (int)(room >> (high - 3)) - STEPS];
}

/* Takes a kept buffer out of the lists. */
static void take_out(buffer *b) {
  *(b->newer == NULL ? &newest : &b->newer->older) = b->older;
  *(b->older == NULL ? &oldest : &b->older->newer) = b->newer;
  *(b->previous == NULL ? list_of(b->room) : &b->previous->next) = b->next;
  if (b->next != NULL) b->next->previous = b->previous;
  kept_bytes -= b->room;
}

static void put_in(buffer *b) {
  b->newer = b->previous = NULL;
  b->older = newest;
  *(newest == NULL ? &oldest : &newest->newer) = b;
  newest = b;
  buffer **list = list_of(b->room);
  b->next = *list;
  if (b->next != NULL) b->next->previous = b;
  *list = b;
  kept_bytes += b->room;
}

/* Takes out the buffers that have been kept longest, until no more than so many bytes are; gives
 * them as a list. */
static buffer *take_oldest(size_t most) {
  buffer *list = NULL;
  while (kept_bytes > most) {
    buffer *b = oldest;
    take_out(b);
    b->next = list;
    list = b;
  }
  return list;
}

#if defined(__linux__)
/* How often large pages were slow of late, in halves. */
static _Atomic int slow_pages;

/*
 * Fresh memory in large pages, as far as the system has some to give, is there in a tenth of the
 * time that small ones take; unless a virtual machine has to ask its host for every one, which some
 * do, and then no more are asked for. The head has a page of its own before them.
 */
static buffer *map_buffer(size_t room) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = room + page + LARGE_PAGE;
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  const size_t before = (size_t)(-(uintptr_t)(memory + page) % LARGE_PAGE);
  char *data = memory + before + page;
  if (before > 0) munmap(memory, before);
  munmap(data + room, LARGE_PAGE - before);
  buffer *b = (buffer *)(data - LINE);
  b->memory = data - page;
  const int slow = atomic_load(&slow_pages);
  if (slow >= 2 * MOST_SLOW) {
    madvise(data - page, room + page, MADV_NOHUGEPAGE);
    return b;
  }
  /* With the head, so that it is one area to the system, of which a process has no more than 2^16. */
  madvise(data - page, room + page, MADV_HUGEPAGE);
  const int64_t begin = rm_nanoseconds();
  *(volatile char *)data = 0;
  const bool fast = rm_nanoseconds() - begin <= SLOW_PAGE;
  atomic_store(&slow_pages, !fast ? slow + 2 : slow > 0 ? slow - 1 : 0);
  return b;
}

static void unmap_buffer(buffer *b) {
  void *memory = b->memory;
  const size_t bytes = (size_t)((char *)b + LINE + b->room - (char *)memory);
  if (munmap(memory, bytes) != 0) madvise(memory, bytes, MADV_DONTNEED);
}

static const size_t LEAST_MAPPED = LARGE_PAGE;
#else
static buffer *map_buffer(size_t room) {
  (void)room;
  return NULL;
}

static void unmap_buffer(buffer *b) { (void)b; }

static const size_t LEAST_MAPPED = SIZE_MAX;
#endif

/* One that has room for so much, or null. What the system gives is zeros, of which calloc knows. */
static buffer *new_buffer(size_t room, bool zeroed) {
  buffer *b;
  if (room >= LEAST_MAPPED) {
    b = map_buffer(room);
    if (b == NULL) return NULL;
  } else {
    const size_t bytes = room + 2 * LINE;
    void *memory = zeroed ? calloc(1, bytes) : malloc(bytes);
    if (memory == NULL) return NULL;
    b = (buffer *)(((uintptr_t)memory + LINE - 1) / LINE * LINE);
    b->memory = memory;
  }
  b->room = room;
  return b;
}

static void free_all(buffer *list) {
  while (list != NULL) {
    buffer *b = list;
    list = b->next;
    if (b->room >= LEAST_MAPPED) unmap_buffer(b);
    else free(b->memory);
  }
}

static void let_go(owner *of) {
  if (--of->references == 0) free(of);
}

static owner *new_owner(void) {
  owner *of = calloc(1, sizeof *of);
  if (of != NULL) of->references = 1;
  return of;
}

/* Guarded. */
static void hand_to(owner *of, buffer *b, size_t bytes) {
  b->of = of;
  b->bytes = bytes;
  of->bytes += (double)bytes;
  of->references++;
  used_bytes += b->room;
}

/* A kept buffer, or null. */
static void *take_kept(owner *of, size_t bytes, bool zeroed) {
  rm_acquire(&guard);
  buffer *b = *list_of(room_for(bytes));
  if (b != NULL) {
    take_out(b);
    hand_to(of, b, bytes);
  }
  rm_release(&guard);
  if (b == NULL) return NULL;
  void *data = (char *)b + LINE;
  if (zeroed) memset(data, 0, bytes);
  return data;
}

static void release_kept(void) {
  rm_acquire(&guard);
  buffer *list = take_oldest(0);
  rm_release(&guard);
  free_all(list);
}

/* A new one, or null where there is no memory. */
static void *take_fresh(owner *of, size_t bytes, bool zeroed) {
  const size_t room = room_for(bytes);
  buffer *b = new_buffer(room, zeroed);
  if (b == NULL) {
    release_kept();
    b = new_buffer(room, zeroed);
  }
  if (b == NULL) return NULL;
  rm_acquire(&guard);
  hand_to(of, b, bytes);
  rm_release(&guard);
  return (char *)b + LINE;
}

/* Guarded. */
static void count_others(owner *of, double bytes) {
  other_bytes += bytes - of->counted;
  of->counted = bytes;
}

static void give(void *data) {
  buffer *b = (buffer *)((char *)data - LINE);
  rm_acquire(&guard);
  count_others(b->of, atomic_load_explicit(&b->of->others, memory_order_relaxed));
  b->of->bytes -= (double)b->bytes;
  let_go(b->of);
  used_bytes -= b->room;
  put_in(b);
  const size_t alive = used_bytes + (size_t)other_bytes;
  buffer *list = take_oldest(alive > MOST_KEPT ? alive : MOST_KEPT);
  rm_release(&guard);
  free_all(list);
}

static void forget(owner *of) {
  rm_acquire(&guard);
  count_others(of, 0);
  atomic_store_explicit(&of->others, 0, memory_order_relaxed);
  let_go(of);
  rm_release(&guard);
}

/* What JavaScriptCore calls: for an array, and for the view of an owner. */
static void buffer_lost(void *data, void *context) {
  (void)context;
  give(data);
}
static void owner_lost(void *of, void *context) {
  (void)context;
  forget(of);
}

/* How often Node-API is to find this copy of the library. */
static _Atomic int expected;

int32_t rm_buffers(int32_t what, double *numbers) {
  switch (what) {
    case RM_BUFFERS_OPEN: {
      owner *of = new_owner();
      if (of == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for an owner of buffers");
      rm_stay_loaded();
      numbers[0] = (double)(uintptr_t)of;
      numbers[1] = (double)(uintptr_t)owner_lost;
      numbers[2] = (double)(uintptr_t)buffer_lost;
      return RM_OK;
    }
    case RM_BUFFERS_TAKE:
    case RM_BUFFERS_TAKE_KEPT: {
      owner *of = (owner *)(uintptr_t)numbers[0];
      const size_t bytes = (size_t)numbers[1];
      const bool zeroed = numbers[2] != 0;
      void *data = take_kept(of, bytes, zeroed);
      if (what == RM_BUFFERS_TAKE) {
        if (data == NULL) data = take_fresh(of, bytes, zeroed);
        if (data == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a buffer");
      }
      numbers[0] = (double)(uintptr_t)data;
      return RM_OK;
    }
    case RM_BUFFERS_KEPT:
      rm_acquire(&guard);
      numbers[0] = (double)kept_bytes;
      rm_release(&guard);
      return RM_OK;
    case RM_BUFFERS_RELEASE:
      release_kept();
      return RM_OK;
    case RM_BUFFERS_GIVE:
      give((void *)(uintptr_t)numbers[0]);
      return RM_OK;
    case RM_BUFFERS_EXPECT:
      atomic_fetch_add(&expected, 1);
      return RM_OK;
    default: return rm_fail(RM_BAD_ARGUMENT, "rm_buffers does not do %d", what);
  }
}

/* ---- Node-API --------------------------------------------------------------------------------- */

/* Of node_api.h: what a process that runs JavaScript has. */
typedef void *(*callback)(void *env, void *info);
typedef void (*finalizer)(void *env, void *data, void *hint);
#define FUNCTIONS(F) \
  F(napi_create_function, (void *env, const char *name, size_t length, callback function, \
                           void *data, void **result)) \
  F(napi_set_named_property, (void *env, void *object, const char *name, void *value)) \
  F(napi_get_cb_info, (void *env, void *info, size_t *count, void **arguments, void **self, \
                       void **data)) \
  F(napi_get_value_double, (void *env, void *value, double *result)) \
  F(napi_create_array_with_length, (void *env, size_t length, void **result)) \
  F(napi_create_arraybuffer, (void *env, size_t bytes, void **data, void **result)) \
  F(napi_create_external_arraybuffer, (void *env, void *data, size_t bytes, finalizer lost, \
                                       void *hint, void **result))

static struct {
#define FIELD(name, parameters) int(*name) parameters;
  FUNCTIONS(FIELD)
#undef FIELD
} api;

static void *find_in_process(const char *name) {
#if defined(_WIN32)
  return (void *)(uintptr_t)GetProcAddress(GetModuleHandleA(NULL), name);
#else
  return dlsym(RTLD_DEFAULT, name);
#endif
}

static bool find_api(void) {
  bool found = true;
#define FIND(name, parameters) \
  *(void **)&api.name = find_in_process(#name); \
  found = found && api.name != NULL;
  FUNCTIONS(FIND)
#undef FIND
  return found;
}

static void api_buffer_lost(void *env, void *data, void *hint) {
  (void)env;
  (void)hint;
  give(data);
}

static void api_owner_lost(void *env, void *data, void *hint) {
  (void)env;
  (void)hint;
  forget(data);
}

/*
 * Makes V8 collect, if it is worth it: it looks at how much its young arrays hold when it makes one,
 * but not when it is handed one. Another of its threads then gives back what is lost; while that is
 * faster than fresh memory, of some 4 GB/s, waits for the first.
 */
static void *take_collected(void *env, owner *of, size_t bytes, bool zeroed) {
  void *ignored, *array;
  const int64_t begin = rm_nanoseconds();
  api.napi_create_arraybuffer(env, LINE, &ignored, &array);
  const int64_t end = rm_nanoseconds();
  void *data;
  do {
    data = take_kept(of, bytes, zeroed);
    if (data != NULL || end - begin < COLLECTION) return data;
    rm_yield();
  } while (rm_nanoseconds() - end < (int64_t)(bytes / 4));
  return NULL;
}

/*
 * V8 marks what is alive, once all arrays together hold much, in steps for so many bytes of objects,
 * and only its last one gives back what had lived for a while. Arrays bring few bytes of objects:
 * without more of them, gigabytes pass from step to step.
 */
static void help_marking(void *env, owner *of, size_t bytes) {
  void *array;
  of->unmarked += bytes;
  if (of->unmarked < MARKING_STEP) return;
  of->unmarked = 0;
  api.napi_create_array_with_length(env, MARKING_ELEMENTS, &array);
}

/* take(bytes, zeroed): an ArrayBuffer, or undefined where there is no memory. */
static void *api_take(void *env, void *info) {
  size_t count = 2;
  void *arguments[2], *of, *result = NULL;
  double bytes, zeroed;
  if (api.napi_get_cb_info(env, info, &count, arguments, NULL, &of) != 0 || count < 2 ||
      api.napi_get_value_double(env, arguments[0], &bytes) != 0 ||
      api.napi_get_value_double(env, arguments[1], &zeroed) != 0) {
    return NULL;
  }
  void *data = take_kept(of, (size_t)bytes, zeroed != 0);
  if (data == NULL) data = take_collected(env, of, (size_t)bytes, zeroed != 0);
  if (data == NULL) {
    help_marking(env, of, (size_t)bytes);
    data = take_fresh(of, (size_t)bytes, zeroed != 0);
  }
  if (data == NULL) return NULL;
  if (api.napi_create_external_arraybuffer(env, data, (size_t)bytes, api_buffer_lost, NULL,
                                           &result) != 0) {
    give(data);
    return NULL;
  }
  return result;
}

void *napi_register_module_v1(void *env, void *exports) {
  void *bytes, *take;
  if (atomic_fetch_sub(&expected, 1) <= 0) {
    atomic_fetch_add(&expected, 1);
    return exports;
  }
  if (!find_api()) return exports;
  owner *of = new_owner();
  if (of == NULL) return exports;
  rm_stay_loaded();
  if (api.napi_create_external_arraybuffer(env, of, 2 * sizeof(double), api_owner_lost, NULL,
                                           &bytes) != 0) {
    forget(of);
    return exports;
  }
  if (api.napi_create_function(env, "take", 4, api_take, of, &take) == 0 &&
      api.napi_set_named_property(env, exports, "take", take) == 0) {
    api.napi_set_named_property(env, exports, "bytes", bytes);
  }
  return exports;
}
