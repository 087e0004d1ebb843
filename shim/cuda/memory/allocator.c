/*
 * The allocator of device memory, which keeps what it has.
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
  rm_mutex lock;
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
  rm_mutex_lock(&device->allocator->lock);
  const int code = try_twice(device, call, context, no_memory);
  rm_mutex_unlock(&device->allocator->lock);
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
  rm_mutex_lock(&device->allocator->lock);
  const int32_t status = take(device, (grains == 0 ? 1 : grains) * grain, address);
  rm_mutex_unlock(&device->allocator->lock);
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
  rm_mutex_lock(&in->lock);
  block *b = find_used(in, address);
  int code = 0;
  if (b != NULL) {
    const int graph = atomic_load(&device->graph);
    remove_used(in, b);
    if (graph != 0) b->graph = graph;
    code = settle(in, b);
  }
  rm_mutex_unlock(&in->lock);
  if (code != 0) return rm_cuda_error("cudaFree", code);
  if (b != NULL) return RM_OK;
  return rm_fail(RM_BAD_ARGUMENT, "no memory in use on CUDA device %d begins at %llu",
                 device->index, address);
}

void rm_memory_end_graph(rm_device *device, int graph) {
  rm_allocator *in = device->allocator;
  rm_mutex_lock(&in->lock);
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
  rm_mutex_unlock(&in->lock);
}

int32_t rm_memory_raw(rm_device *device, size_t bytes, void **address) {
  rm_mutex_lock(&device->allocator->lock);
  const int code = allocate_slab(device, bytes, address);
  const int32_t status = code == 0                    ? RM_OK
                         : code == RM_CUDA_NO_MEMORY ? out_of_memory(device, bytes)
                                                      : rm_cuda_error("cudaMalloc", code);
  rm_mutex_unlock(&device->allocator->lock);
  return status;
}

int32_t rm_allocator_begin(rm_device *device) {
  if (device->allocator != NULL) return RM_OK;
  device->allocator = calloc(1, sizeof *device->allocator);
  if (device->allocator == NULL) {
    return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a device");
  }
  const char *apart = getenv("ROWMAJOR_CUDA_BLOCKS");
  device->allocator->lock = (rm_mutex)RM_MUTEX_INIT;
  device->allocator->apart = apart != NULL && strcmp(apart, "1") == 0;
  return RM_OK;
}

void rm_allocator_usage(rm_device *device, double *numbers) {
  rm_allocator *in = device->allocator;
  rm_mutex_lock(&in->lock);
  numbers[0] = (double)in->used_bytes;
  numbers[1] = (double)(in->slab_bytes - in->used_bytes);
  numbers[2] = (double)in->most_bytes;
  rm_mutex_unlock(&in->lock);
}

int rm_allocator_release(rm_device *device) {
  rm_mutex_lock(&device->allocator->lock);
  const int code = release_free(device->allocator);
  rm_mutex_unlock(&device->allocator->lock);
  return code;
}
#endif
