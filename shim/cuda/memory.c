/*
 * Memory of CUDA devices: an allocator that keeps what it has, copies from and to the host through
 * pinned memory, copies between devices.
 *
 * All work of a device is in one order, so that a block may have a new owner while queued work
 * still uses it: whatever the new owner queues comes later. Graphs are the exception, as they run
 * again: what was free or became free while one was captured serves that graph only, for as long as
 * it lives.
 *
 * With ROWMAJOR_CUDA_BLOCKS=1 each block is an allocation of the driver's, of the very bytes that
 * were asked for, so that tools which watch allocations see what leaves a block.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdlib.h>
#include <string.h>

/* ---- the allocator --------------------------------------------------------------------------- */

/*
 * Slabs come from the driver and are cut into blocks; neighbours that are free become one. Small
 * blocks come from slabs of their own. Free blocks are sorted into bins by size, two for each power
 * of two, and a request takes the smallest of the first few that fit.
 */
enum { GRAIN = 512, BINS = 64, LOOKED_AT = 32 };
enum {
  SMALL_MOST = 1 << 20,
  SMALL_SLAB = 2 << 20,
  /* Up to MIDDLE_MOST blocks share slabs; larger ones begin as slabs of their own. */
  MIDDLE_MOST = 10 << 20,
  MIDDLE_SLAB = 20 << 20,
  LARGE_STEP = 2 << 20
};

typedef struct block {
  rm_address address;
  uint64_t bytes;
  /* The neighbours in the slab. */
  struct block *before, *after;
  /* The others of its bin, or, where it is in use, of its place in the table. */
  struct block *previous, *next;
  /* The graph that may write to it again, or 0. */
  int graph;
  bool used, small;
} block;

struct rm_allocator {
  rm_lock lock;
  /* Whether each block is a slab. */
  bool apart;
  /* Free blocks, of small ones and others, and which bins have any. */
  block *bins[2][BINS];
  uint64_t filled[2];
  /* Free blocks of graphs. */
  block *held;
  /* Blocks in use, by address. */
  block **table;
  size_t table_size, used_count;
  uint64_t used_bytes, most_bytes, slab_bytes;
};

static int bin_of(uint64_t bytes) {
  const uint64_t grains = bytes / GRAIN;
  const int log = 63 - __builtin_clzll(grains);
  const int bin = 2 * log + (log > 0 ? (int)(grains >> (log - 1) & 1) : 0);
  return bin < BINS ? bin : BINS - 1;
}

static block **list_of(rm_allocator *in, const block *b) {
  return b->graph != 0 ? &in->held : &in->bins[b->small][bin_of(b->bytes)];
}

static void link_block(rm_allocator *in, block *b) {
  block **list = list_of(in, b);
  b->previous = NULL;
  b->next = *list;
  if (*list != NULL) (*list)->previous = b;
  *list = b;
  if (b->graph == 0) in->filled[b->small] |= 1ull << bin_of(b->bytes);
}

static void unlink_block(rm_allocator *in, block *b) {
  block **list = list_of(in, b);
  if (b->previous != NULL) b->previous->next = b->next;
  else *list = b->next;
  if (b->next != NULL) b->next->previous = b->previous;
  if (*list == NULL && b->graph == 0) in->filled[b->small] &= ~(1ull << bin_of(b->bytes));
}

static size_t place_of(const rm_allocator *in, rm_address address) {
  return (size_t)((address / GRAIN * 0x9e3779b97f4a7c15ull) >> 20) & (in->table_size - 1);
}

static void put_in_table(rm_allocator *in, block *b) {
  block **place = &in->table[place_of(in, b->address)];
  b->previous = NULL;
  b->next = *place;
  if (*place != NULL) (*place)->previous = b;
  *place = b;
}

/* Makes room in the table for one block more. */
static bool grow_table(rm_allocator *in) {
  if (in->used_count < in->table_size) return true;
  const size_t old_size = in->table_size, size = old_size == 0 ? 1024 : 2 * old_size;
  block **old = in->table, **table = calloc(size, sizeof *table);
  if (table == NULL) return false;
  in->table = table;
  in->table_size = size;
  for (size_t i = 0; i < old_size; i++) {
    for (block *b = old[i], *next; b != NULL; b = next) {
      next = b->next;
      put_in_table(in, b);
    }
  }
  free(old);
  return true;
}

static block *find_used(rm_allocator *in, rm_address address) {
  if (in->table_size == 0) return NULL;
  block *b = in->table[place_of(in, address)];
  while (b != NULL && b->address != address) b = b->next;
  return b;
}

/* Makes one free block of a free block and its neighbours that are free too; it is in no list. */
static block *join(rm_allocator *in, block *b) {
  block *other = b->before;
  if (other != NULL && !other->used && other->graph == b->graph) {
    unlink_block(in, other);
    other->bytes += b->bytes;
    other->after = b->after;
    if (b->after != NULL) b->after->before = other;
    free(b);
    b = other;
  }
  other = b->after;
  if (other != NULL && !other->used && other->graph == b->graph) {
    unlink_block(in, other);
    b->bytes += other->bytes;
    b->after = other->after;
    if (other->after != NULL) other->after->before = b;
    free(other);
  }
  return b;
}

static block *smallest(block *list, uint64_t bytes, int graph, bool small, int most) {
  block *best = NULL;
  for (block *b = list; b != NULL && most-- > 0; b = b->next) {
    if (b->bytes >= bytes && b->graph == graph && b->small == small &&
        (best == NULL || b->bytes < best->bytes)) {
      best = b;
    }
  }
  return best;
}

/* A free block that fits, or null. */
static block *find_free(rm_allocator *in, uint64_t bytes, bool small, int graph) {
  if (graph != 0) {
    block *own = smallest(in->held, bytes, graph, small, 1 << 30);
    if (own != NULL) return own;
  }
  const int bin = bin_of(bytes);
  block *found = smallest(in->bins[small][bin], bytes, 0, small, LOOKED_AT);
  const uint64_t above = bin == BINS - 1 ? 0 : in->filled[small] & ~0ull << (bin + 1);
  if (found != NULL || above == 0) return found;
  return smallest(in->bins[small][__builtin_ctzll(above)], bytes, 0, small, LOOKED_AT);
}

/* Gives a slab, which is in no list, back to the driver. */
static int give_back(rm_allocator *in, block *b) {
  const int code = rm_cu.cudaFree((void *)(uintptr_t)b->address);
  in->slab_bytes -= b->bytes;
  free(b);
  return code;
}

/* Gives whole slabs that are free back to the driver; the code of a failure. */
static int release_free(rm_allocator *in) {
  int code = 0;
  for (int i = 0; i < 2 * BINS; i++) {
    for (block *b = in->bins[i / BINS][i % BINS], *next; b != NULL; b = next) {
      next = b->next;
      if (b->before != NULL || b->after != NULL) continue;
      unlink_block(in, b);
      const int one = give_back(in, b);
      if (one != 0) code = one;
    }
  }
  return code;
}

/* Calls, and once more after all that is free has been given back; the lock is held. */
static int try_twice(rm_device *device, int (*call)(void *context), void *context, int no_memory) {
  int code = call(context);
  if (code != no_memory) return code;
  rm_cu.cudaGetLastError();
  /* Work that is being captured cannot be waited for. */
  if (atomic_load(&device->graph) != 0) return code;
  if (rm_cu.cudaStreamSynchronize(device->stream) != 0) return code;
  release_free(device->allocator);
  code = call(context);
  if (code == no_memory) rm_cu.cudaGetLastError();
  return code;
}

int rm_memory_try(rm_device *device, int (*call)(void *context), void *context, int no_memory) {
  rm_acquire(&device->allocator->lock);
  const int code = try_twice(device, call, context, no_memory);
  rm_release(&device->allocator->lock);
  return code;
}

typedef struct {
  void *address;
  size_t bytes;
} slab;

static int call_malloc(void *context) {
  slab *wanted = context;
  return rm_cu.cudaMalloc(&wanted->address, wanted->bytes);
}

static int allocate_slab(rm_device *device, uint64_t bytes, void **address) {
  slab wanted = {NULL, bytes};
  const int code = try_twice(device, call_malloc, &wanted, RM_CUDA_NO_MEMORY);
  *address = wanted.address;
  return code;
}

/* What to say when there is not enough memory. */
static int32_t out_of_memory(const rm_device *device, uint64_t bytes) {
  const rm_allocator *in = device->allocator;
  size_t left = 0, total = 0;
  rm_cu.cudaMemGetInfo(&left, &total);
  const double unit = 1 << 20;
  return rm_fail(RM_OUT_OF_MEMORY,
                 "CUDA device %d has no %.1f MiB: of its %.1f MiB, %.1f are free, %.1f in use here "
                 "and %.1f kept in pieces between those",
                 device->index, (double)bytes / unit, (double)total / unit, (double)left / unit,
                 (double)in->used_bytes / unit, (double)(in->slab_bytes - in->used_bytes) / unit);
}

/* Adds a slab that the request fits; gives its one block, in no list. */
static int32_t add_slab(rm_device *device, uint64_t bytes, bool small, block **made) {
  rm_allocator *in = device->allocator;
  const uint64_t large = (bytes + LARGE_STEP - 1) / LARGE_STEP * LARGE_STEP;
  uint64_t whole = in->apart            ? bytes
                   : small               ? SMALL_SLAB
                   : bytes < MIDDLE_MOST ? MIDDLE_SLAB
                                         : large;
  block *b = calloc(1, sizeof *b);
  if (b == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a block");
  void *address;
  int code = allocate_slab(device, whole, &address);
  if (code == RM_CUDA_NO_MEMORY && large < whole) {
    whole = large;
    code = allocate_slab(device, whole, &address);
  }
  if (code != 0) {
    free(b);
    return code == RM_CUDA_NO_MEMORY ? out_of_memory(device, bytes)
                                     : rm_cuda_error("cudaMalloc", code);
  }
  b->address = (rm_address)(uintptr_t)address;
  b->bytes = whole;
  b->small = small;
  in->slab_bytes += whole;
  *made = b;
  return RM_OK;
}

/* Takes a block; the lock is held. */
static int32_t take(rm_device *device, uint64_t bytes, rm_address *address) {
  rm_allocator *in = device->allocator;
  const bool small = bytes <= SMALL_MOST;
  const int graph = atomic_load(&device->graph);
  block *rest = calloc(1, sizeof *rest);
  if (rest == NULL || !grow_table(in)) {
    free(rest);
    return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a block");
  }
  block *b = in->apart ? NULL : find_free(in, bytes, small, graph);
  if (b != NULL) {
    unlink_block(in, b);
  } else {
    const int32_t status = add_slab(device, bytes, small, &b);
    if (status != RM_OK) {
      free(rest);
      return status;
    }
  }
  const uint64_t left = b->bytes - bytes;
  if (!in->apart && left >= (small ? GRAIN : SMALL_MOST)) {
    *rest = *b;
    rest->address += bytes;
    rest->bytes = left;
    rest->before = b;
    if (b->after != NULL) b->after->before = rest;
    b->after = rest;
    b->bytes = bytes;
    link_block(in, rest);
  } else {
    free(rest);
  }
  b->used = true;
  if (graph != 0) b->graph = graph;
  put_in_table(in, b);
  in->used_count++;
  in->used_bytes += b->bytes;
  if (in->used_bytes > in->most_bytes) in->most_bytes = in->used_bytes;
  *address = b->address;
  return RM_OK;
}

int32_t rm_memory_take(rm_device *device, double bytes, rm_address *address) {
  /* More than any device has. */
  if (!(bytes >= 0 && bytes <= 0x1p50)) {
    return rm_fail(RM_BAD_ARGUMENT, "%g is no number of bytes", bytes);
  }
  const uint64_t grain = device->allocator->apart ? 1 : GRAIN;
  const uint64_t grains = ((uint64_t)bytes + grain - 1) / grain;
  rm_acquire(&device->allocator->lock);
  const int32_t status = take(device, (grains == 0 ? 1 : grains) * grain, address);
  rm_release(&device->allocator->lock);
  return status;
}

/* Takes a block in use out of the table. */
static void remove_used(rm_allocator *in, block *b) {
  if (b->previous != NULL) b->previous->next = b->next;
  else in->table[place_of(in, b->address)] = b->next;
  if (b->next != NULL) b->next->previous = b->previous;
  b->used = false;
  in->used_count--;
  in->used_bytes -= b->bytes;
}

/* Keeps a free block, which is in no list, or gives it back to the driver; the code of that. */
static int settle(rm_allocator *in, block *b) {
  if (in->apart && b->graph == 0) return give_back(in, b);
  link_block(in, join(in, b));
  return 0;
}

int32_t rm_memory_give(rm_device *device, rm_address address) {
  rm_allocator *in = device->allocator;
  rm_acquire(&in->lock);
  block *b = find_used(in, address);
  int code = 0;
  if (b != NULL) {
    const int graph = atomic_load(&device->graph);
    remove_used(in, b);
    if (graph != 0) b->graph = graph;
    code = settle(in, b);
  }
  rm_release(&in->lock);
  if (code != 0) return rm_cuda_error("cudaFree", code);
  if (b != NULL) return RM_OK;
  return rm_fail(RM_BAD_ARGUMENT, "no memory in use on CUDA device %d begins at %llu",
                 device->index, address);
}

void rm_memory_end_graph(rm_device *device, int graph) {
  rm_allocator *in = device->allocator;
  rm_acquire(&in->lock);
  for (size_t i = 0; i < in->table_size; i++) {
    for (block *b = in->table[i]; b != NULL; b = b->next) {
      if (b->graph == graph) b->graph = 0;
    }
  }
  for (block *b = in->held, *next; b != NULL; b = next) {
    next = b->next;
    if (b->graph != graph) continue;
    unlink_block(in, b);
    b->graph = 0;
    settle(in, b);
  }
  rm_release(&in->lock);
}

int32_t rm_memory_raw(rm_device *device, size_t bytes, void **address) {
  rm_acquire(&device->allocator->lock);
  const int code = allocate_slab(device, bytes, address);
  const int32_t status = code == 0                    ? RM_OK
                         : code == RM_CUDA_NO_MEMORY ? out_of_memory(device, bytes)
                                                      : rm_cuda_error("cudaMalloc", code);
  rm_release(&device->allocator->lock);
  return status;
}

/* ---- pinned memory --------------------------------------------------------------------------- */

enum { TO_DEVICE = 1, TO_HOST = 2, ON_DEVICE = 3, WITHOUT_TIME = 2 };

/*
 * Pinned blocks have sizes of powers of two up to CHUNK; longer copies go by several. One that is
 * given back may still be read or written by queued work, of which its event tells; those of a size
 * are taken in the order in which they were given, after those that nothing uses.
 *
 * To free one waits for all that the device does. So those beyond PINNED_MOST are kept too, until a
 * copy to the host ends while nothing is queued.
 */
enum { LEAST_LEVEL = 16, CHUNK_LEVEL = 23, LEVELS = CHUNK_LEVEL + 1, CHUNK = 1 << CHUNK_LEVEL };
static const uint64_t PINNED_MOST = 64 << 20;

typedef struct pinned {
  struct pinned *next;
  char *at;
  size_t bytes;
  void *event;
  int level;
  /* Whether queued work may use it: the event was recorded, and has not been seen to be past. */
  bool pending;
} pinned;

struct rm_staging {
  rm_lock lock;
  pinned *first[LEVELS], *last[LEVELS];
  /* Bytes of those. */
  uint64_t kept;
  /* Orders the streams of devices in copies between them. */
  void *order;
};

static int level_of(size_t bytes) {
  int level = LEAST_LEVEL;
  while (level < LEVELS - 1 && ((size_t)1 << level) < bytes) level++;
  return level;
}

static void free_pinned(pinned *p) {
  if (p->pending) rm_cu.cudaEventSynchronize(p->event);
  if (p->event != NULL) rm_cu.cudaEventDestroy(p->event);
  if (p->at != NULL) rm_cu.cudaFreeHost(p->at);
  free(p);
}

static int32_t new_pinned(size_t bytes, pinned **made) {
  pinned *p = calloc(1, sizeof *p);
  if (p == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a copy");
  p->level = level_of(bytes);
  p->bytes = (size_t)1 << p->level;
  void *at = NULL;
  const int code = rm_cu.cudaHostAlloc(&at, p->bytes, 0);
  if (code == 0) {
    p->at = at;
    const int other = rm_cu.cudaEventCreateWithFlags(&p->event, WITHOUT_TIME);
    if (other == 0) {
      *made = p;
      return RM_OK;
    }
    free_pinned(p);
    return rm_cuda_error("cudaEventCreateWithFlags", other);
  }
  free(p);
  if (code != RM_CUDA_NO_MEMORY) return rm_cuda_error("cudaHostAlloc", code);
  rm_cu.cudaGetLastError();
  return rm_fail(RM_OUT_OF_MEMORY, "the host has no %zu bytes of pinned memory", bytes);
}

static pinned *pop(rm_staging *in, int level) {
  pinned *p = in->first[level];
  in->first[level] = p->next;
  if (p->next == NULL) in->last[level] = NULL;
  p->next = NULL;
  in->kept -= p->bytes;
  return p;
}

/* A block that nothing uses. With wait, the oldest is waited for before there are too many. */
static int32_t take_pinned(rm_staging *in, size_t bytes, bool wait, pinned **taken) {
  const int level = level_of(bytes);
  pinned *oldest = in->first[level];
  if (oldest != NULL) {
    int code = oldest->pending ? rm_cu.cudaEventQuery(oldest->event) : 0;
    if (code == RM_CUDA_NOT_READY) {
      rm_cu.cudaGetLastError();
      const bool full = in->kept + (1ull << level) > PINNED_MOST;
      const int32_t status = wait && full ? RM_OUT_OF_MEMORY : new_pinned(bytes, taken);
      if (status != RM_OUT_OF_MEMORY) return status;
      code = rm_cu.cudaEventSynchronize(oldest->event);
    }
    if (code != 0) return rm_cuda_error("cudaEventQuery", code);
    *taken = pop(in, level);
    (*taken)->pending = false;
    return RM_OK;
  }
  const int32_t status = new_pinned(bytes, taken);
  if (status != RM_OUT_OF_MEMORY) return status;
  /* Blocks of other sizes that wait to be used may be in the way. */
  for (int i = 0; i < LEVELS; i++) {
    while (in->first[i] != NULL &&
           (!in->first[i]->pending || rm_cu.cudaEventQuery(in->first[i]->event) == 0)) {
      free_pinned(pop(in, i));
    }
  }
  return new_pinned(bytes, taken);
}

/* The way back. */
static void give_pinned(rm_staging *in, pinned *p) {
  pinned **first = &in->first[p->level], **last = &in->last[p->level];
  p->next = NULL;
  in->kept += p->bytes;
  if (*first == NULL) {
    *first = *last = p;
  } else if (p->pending) {
    (*last)->next = p;
    *last = p;
  } else {
    p->next = *first;
    *first = p;
  }
}

/* Frees some of what is kept beyond PINNED_MOST, the largest first, if nothing is queued. */
static void trim(rm_device *device) {
  /* So that no call takes long. */
  enum { FREED_AT_ONCE = 4 };
  rm_staging *in = device->staging;
  rm_acquire(&in->lock);
  if (in->kept > PINNED_MOST && atomic_load(&device->graph) == 0) {
    const int code = rm_cu.cudaStreamQuery(device->stream);
    if (code == RM_CUDA_NOT_READY) rm_cu.cudaGetLastError();
    int freed = 0;
    for (int i = LEVELS - 1; code == 0 && i >= 0; i--) {
      while (freed < FREED_AT_ONCE && in->kept > PINNED_MOST && in->first[i] != NULL) {
        free_pinned(pop(in, i));
        freed++;
      }
    }
  }
  rm_release(&in->lock);
}

/* ---- copies ---------------------------------------------------------------------------------- */

typedef struct {
  char *to;
  const char *from;
  size_t bytes;
} span;

enum { PART = 1 << 20 };

static void copy_part(void *context, ptrdiff_t i) {
  const span *s = context;
  const size_t begin = (size_t)i * PART, left = s->bytes - begin;
  memcpy(s->to + begin, s->from + begin, left < PART ? left : PART);
}

/* memcpy, on several threads where it is long: one does not keep up with the bus of a device. */
static void copy_bytes(void *to, const void *from, size_t bytes) {
  span s = {to, from, bytes};
  if (bytes <= PART) memcpy(to, from, bytes);
  else rm_parallel(rm_parts((ptrdiff_t)bytes, PART), (double)bytes / 10, copy_part, &s);
}

int32_t rm_memory_upload(rm_device *device, rm_address to, const void *from, size_t bytes) {
  rm_staging *in = device->staging;
  RM_TRY(rm_cuda_not_capturing(device, "copy to the device"));
  for (size_t done = 0; done < bytes;) {
    const size_t part = bytes - done < CHUNK ? bytes - done : CHUNK;
    pinned *p;
    rm_acquire(&in->lock);
    const int32_t status = take_pinned(in, part, true, &p);
    rm_release(&in->lock);
    if (status != RM_OK) return status;
    copy_bytes(p->at, (const char *)from + done, part);
    const char *call = "cudaMemcpyAsync";
    int code = rm_cu.cudaMemcpyAsync((void *)(uintptr_t)(to + done), p->at, part, TO_DEVICE,
                                     device->stream);
    if (code == 0) {
      call = "cudaEventRecord";
      code = rm_cu.cudaEventRecord(p->event, device->stream);
      p->pending = true;
    }
    rm_acquire(&in->lock);
    give_pinned(in, p);
    rm_release(&in->lock);
    if (code != 0) return rm_cuda_error(call, code);
    done += part;
  }
  return RM_OK;
}

/* Queues a copy to pinned memory, which is given; without wait however much is in use. */
static int32_t begin_read(rm_device *device, rm_address from, size_t bytes, bool wait,
                          pinned **made) {
  rm_staging *in = device->staging;
  rm_acquire(&in->lock);
  const int32_t status = take_pinned(in, bytes, wait, made);
  rm_release(&in->lock);
  if (status != RM_OK) return status;
  const char *call = "cudaMemcpyAsync";
  int code = bytes == 0 ? 0
                        : rm_cu.cudaMemcpyAsync((*made)->at, (const void *)(uintptr_t)from, bytes,
                                                TO_HOST, device->stream);
  if (code == 0) {
    call = "cudaEventRecord";
    code = rm_cu.cudaEventRecord((*made)->event, device->stream);
    (*made)->pending = true;
  }
  if (code == 0) return RM_OK;
  rm_acquire(&in->lock);
  give_pinned(in, *made);
  rm_release(&in->lock);
  return rm_cuda_error(call, code);
}

static void end_read(rm_device *device, pinned *p) {
  rm_acquire(&device->staging->lock);
  give_pinned(device->staging, p);
  rm_release(&device->staging->lock);
}

/* The next part is on its way while one is copied out of pinned memory. */
static int32_t download(rm_device *device, rm_address from, char *to, size_t bytes) {
  RM_TRY(rm_cuda_not_capturing(device, "copy from the device"));
  pinned *now = NULL, *next = NULL;
  size_t part = bytes < CHUNK ? bytes : CHUNK;
  RM_TRY(begin_read(device, from, part, true, &now));
  int32_t status = RM_OK;
  for (size_t done = 0; status == RM_OK && now != NULL;) {
    const size_t begin = done + part, left = bytes - begin, following = left < CHUNK ? left : CHUNK;
    next = NULL;
    if (left > 0) status = begin_read(device, from + begin, following, true, &next);
    if (status != RM_OK) next = NULL;
    const int code = rm_cu.cudaEventSynchronize(now->event);
    if (code == 0) {
      now->pending = false;
      copy_bytes(to + done, now->at, part);
    } else {
      status = rm_cuda_error("cudaEventSynchronize", code);
    }
    end_read(device, now);
    done = begin;
    part = following;
    now = next;
  }
  if (now != NULL) end_read(device, now);
  trim(device);
  return status;
}

/* A read that is under way: the parts that are not copied out yet, and how much of it is. */
typedef struct {
  pinned *first, *last;
  size_t bytes, done;
} ticket;

static void add_part(ticket *to, pinned *part) {
  if (to->first == NULL) to->first = part;
  else to->last->next = part;
  to->last = part;
}

static pinned *take_part(ticket *from) {
  pinned *part = from->first;
  from->first = part->next;
  return part;
}

static void end_parts(rm_device *device, ticket *t) {
  while (t->first != NULL) end_read(device, take_part(t));
  free(t);
  trim(device);
}

static int32_t begin_ticket(rm_device *device, rm_address from, size_t bytes, double *number) {
  RM_TRY(rm_cuda_not_capturing(device, "copy from the device"));
  ticket *made = calloc(1, sizeof *made);
  if (made == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a ticket");
  made->bytes = bytes;
  int32_t status = RM_OK;
  /* A read of nothing waits for what was queued before it, too. */
  for (size_t begin = 0; status == RM_OK && (begin < bytes || begin == 0); begin += CHUNK) {
    const size_t left = bytes - begin;
    pinned *part;
    status = begin_read(device, from + begin, left < CHUNK ? left : CHUNK, false, &part);
    if (status == RM_OK) add_part(made, part);
  }
  if (status == RM_OK) {
    *number = rm_handle_for(RM_TICKET, device, made);
    if (*number != 0) return RM_OK;
    status = RM_OUT_OF_MEMORY;
  }
  end_parts(device, made);
  return status;
}

/* Copies the next part to the host, where it has come: one, so that no call takes long. */
static int32_t end_ticket(rm_device *device, double *numbers, char *host) {
  ticket *known = rm_handle_of(numbers[0], RM_TICKET, device, false);
  if (known == NULL) return RM_BAD_ARGUMENT;
  int code = 0;
  if (host != NULL) {
    if (numbers[2] != (double)known->bytes) {
      return rm_fail(RM_BAD_ARGUMENT, "%.0f bytes are asked for, but %zu were read", numbers[2],
                     known->bytes);
    }
    code = rm_cu.cudaEventQuery(known->first->event);
    if (code == RM_CUDA_NOT_READY) {
      rm_cu.cudaGetLastError();
      numbers[0] = RM_CUDA_READ_WAITS;
      return RM_OK;
    }
    if (code == 0) {
      pinned *part = take_part(known);
      const size_t left = known->bytes - known->done, length = left < CHUNK ? left : CHUNK;
      part->pending = false;
      copy_bytes(host + (size_t)numbers[1] + known->done, part->at, length);
      known->done += length;
      end_read(device, part);
      if (known->first != NULL) {
        numbers[0] = RM_CUDA_READ_MOVES;
        return RM_OK;
      }
    }
  }
  ticket *used = rm_handle_of(numbers[0], RM_TICKET, device, true);
  if (used == NULL) return RM_BAD_ARGUMENT;
  end_parts(device, used);
  if (code != 0) return rm_cuda_error("cudaEventQuery", code);
  numbers[0] = RM_CUDA_READ_ENDED;
  return RM_OK;
}

/* Waits, on the stream of one device, for what is queued on that of another. */
static int32_t wait_for(rm_device *device, rm_device *other) {
  RM_TRY(rm_cuda_use(other->index, &other));
  rm_acquire(&other->staging->lock);
  int code = 0;
  const char *call = "cudaEventCreateWithFlags";
  void **event = &other->staging->order;
  if (*event == NULL) code = rm_cu.cudaEventCreateWithFlags(event, WITHOUT_TIME);
  if (code == 0) {
    call = "cudaEventRecord";
    code = rm_cu.cudaEventRecord(*event, other->stream);
  }
  rm_device *own = device;
  int32_t status = code == 0 ? rm_cuda_use(device->index, &own) : rm_cuda_error(call, code);
  if (status == RM_OK) {
    code = rm_cu.cudaStreamWaitEvent(device->stream, *event, 0);
    if (code != 0) status = rm_cuda_error("cudaStreamWaitEvent", code);
  }
  rm_release(&other->staging->lock);
  return status;
}

/* Lets a device reach the memory of another one by itself, where it can; once for each pair. */
static void reach(rm_device *device, const rm_device *other) {
  static _Atomic uint64_t asked[64];
  const uint64_t bit = 1ull << other->index;
  if (atomic_fetch_or(&asked[device->index], bit) & bit) return;
  int can = 0;
  if (rm_cu.cudaDeviceCanAccessPeer(&can, device->index, other->index) == 0 && can &&
      rm_cu.cudaDeviceEnablePeerAccess(other->index, 0) == RM_CUDA_PEER_IS_ENABLED) {
    rm_cu.cudaGetLastError();
  }
}

static int32_t copy(rm_device *device, const double *numbers) {
  void *to = (void *)(uintptr_t)numbers[0];
  const void *from = (const void *)(uintptr_t)numbers[1];
  const size_t bytes = (size_t)numbers[2];
  const int32_t index = (int32_t)numbers[3];
  if (bytes == 0) return RM_OK;
  if (index == device->index) {
    RM_CU(cudaMemcpyAsync, to, from, bytes, ON_DEVICE, device->stream);
    return RM_OK;
  }
  rm_device *other, *own;
  RM_TRY(rm_cuda_use(index, &other));
  RM_TRY(rm_cuda_use(device->index, &own));
  RM_TRY(rm_cuda_not_capturing(device, "copy from another device"));
  RM_TRY(rm_cuda_not_capturing(other, "copy to another device"));
  reach(device, other);
  RM_TRY(wait_for(device, other));
  RM_CU(cudaMemcpyPeerAsync, to, device->index, from, index, bytes, device->stream);
  /* The memory may have a new owner there once this returns. */
  return wait_for(other, device);
}

/* ---- the interface --------------------------------------------------------------------------- */

int32_t rm_memory_begin(rm_device *device) {
  if (device->allocator == NULL) {
    device->allocator = calloc(1, sizeof *device->allocator);
    if (device->allocator != NULL) {
      const char *apart = getenv("ROWMAJOR_CUDA_BLOCKS");
      device->allocator->lock = (rm_lock)RM_LOCK_INIT;
      device->allocator->apart = apart != NULL && strcmp(apart, "1") == 0;
    }
  }
  if (device->staging == NULL) {
    device->staging = calloc(1, sizeof *device->staging);
    if (device->staging != NULL) device->staging->lock = (rm_lock)RM_LOCK_INIT;
  }
  if (device->allocator != NULL && device->staging != NULL) return RM_OK;
  return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a device");
}

static int32_t tell_usage(rm_device *device, double *numbers) {
  size_t left = 0, total = 0;
  RM_CU(cudaMemGetInfo, &left, &total);
  rm_allocator *in = device->allocator;
  rm_acquire(&in->lock);
  numbers[0] = (double)in->used_bytes;
  numbers[1] = (double)(in->slab_bytes - in->used_bytes);
  numbers[2] = (double)in->most_bytes;
  rm_release(&in->lock);
  numbers[3] = (double)left;
  numbers[4] = (double)total;
  return RM_OK;
}

static int32_t release(rm_device *device) {
  RM_TRY(rm_cuda_not_capturing(device, "give memory back"));
  RM_CU(cudaStreamSynchronize, device->stream);
  rm_acquire(&device->allocator->lock);
  const int code = release_free(device->allocator);
  rm_release(&device->allocator->lock);
  rm_acquire(&device->staging->lock);
  for (int i = 0; i < LEVELS; i++) {
    while (device->staging->first[i] != NULL) free_pinned(pop(device->staging, i));
  }
  rm_release(&device->staging->lock);
  return code == 0 ? RM_OK : rm_cuda_error("cudaFree", code);
}

int32_t rm_cuda_memory_within(int32_t what, int32_t index, double *numbers, void *host) {
  rm_device *device;
  RM_TRY(rm_cuda_use(index, &device));
  if (numbers == NULL && what != RM_CUDA_RELEASE) {
    return rm_fail(RM_BAD_ARGUMENT, "there are no numbers");
  }
  const bool copies = what == RM_CUDA_UPLOAD || what == RM_CUDA_DOWNLOAD;
  if (copies && numbers[1] == 0) return RM_OK;
  if (copies && host == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no memory of the host");
  }
  switch (what) {
    case RM_CUDA_ALLOCATE: {
      rm_address address = 0;
      const int32_t status = rm_memory_take(device, numbers[0], &address);
      if (status == RM_OK) numbers[0] = (double)address;
      if (status == RM_OUT_OF_MEMORY) {
        size_t left = 0, total = 0;
        rm_cu.cudaMemGetInfo(&left, &total);
        numbers[1] = (double)left;
        numbers[2] = (double)total;
      }
      return status;
    }
    case RM_CUDA_FREE: return rm_memory_give(device, (rm_address)numbers[0]);
    case RM_CUDA_UPLOAD:
      return rm_memory_upload(device, (rm_address)numbers[0],
                              (const char *)host + (size_t)numbers[2], (size_t)numbers[1]);
    case RM_CUDA_DOWNLOAD:
      return download(device, (rm_address)numbers[0], (char *)host + (size_t)numbers[2],
                      (size_t)numbers[1]);
    case RM_CUDA_COPY: return copy(device, numbers);
    case RM_CUDA_ZERO:
      if (numbers[1] == 0) return RM_OK;
      RM_CU(cudaMemsetAsync, (void *)(uintptr_t)numbers[0], 0, (size_t)numbers[1],
            device->stream);
      return RM_OK;
    case RM_CUDA_USAGE: return tell_usage(device, numbers);
    case RM_CUDA_RELEASE: return release(device);
    case RM_CUDA_BEGIN_READ:
      return begin_ticket(device, (rm_address)numbers[0], (size_t)numbers[1], numbers);
    case RM_CUDA_END_READ: return end_ticket(device, numbers, host);
    default: return rm_fail(RM_BAD_ARGUMENT, "memory %d does not exist", what);
  }
}
#endif
