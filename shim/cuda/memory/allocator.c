/*
 * The caching allocator of device memory.
 *
 * All work of a device is queued in order. So a block may be reused while queued work still uses
 * it: the work of the new owner is queued later. Graphs are the exception, because they run again.
 * Memory that was free or was freed during a capture belongs to that graph until the graph is
 * freed.
 *
 * With ROWMAJOR_CUDA_BLOCKS=1 every block is a driver allocation of exactly the requested size, so
 * that tools that watch allocations detect accesses outside of a block.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdlib.h>
#include <string.h>

/* Slabs come from the driver and are split into blocks. Adjacent free blocks are coalesced. Small
 * blocks have slabs of their own. Free blocks are sorted into bins by size, two per power of two. A
 * request takes the best fit among the first few candidates. */
enum { GRANULARITY = 512, BINS = 64, MAX_CANDIDATES = 32 };
enum {
  SMALL_MAX = 1 << 20,
  SMALL_SLAB = 2 << 20,
  /* Blocks up to MEDIUM_MAX share slabs. Larger ones start as slabs of their own. */
  MEDIUM_MAX = 10 << 20,
  MEDIUM_SLAB = 20 << 20,
  LARGE_GRANULARITY = 2 << 20
};

typedef struct block {
  rm_address address;
  uint64_t bytes;
  /* The adjacent blocks in the slab. */
  struct block *prev_in_slab, *next_in_slab;
  /* The neighbors in the list of a bin or, if the block is in use, of a hash table bucket. */
  struct block *previous, *next;
  /* The graph that may write to the block again, or 0. */
  int graph;
  bool used, small;
} block;

struct rm_allocator {
  rm_mutex mutex;
  /* Whether every block is a slab of the requested size. */
  bool exact_blocks;
  /* Free blocks, small and other ones, and which bins are not empty. */
  block *bins[2][BINS];
  uint64_t nonempty_bins[2];
  /* Free blocks that belong to graphs. */
  block *graph_blocks;
  /* A hash table of the blocks in use, by address. */
  block **table;
  size_t table_size, used_count;
  uint64_t used_bytes, peak_bytes, slab_bytes;
};

static int bin_of(uint64_t bytes) {
  const uint64_t granules = bytes / GRANULARITY;
  const int log = 63 - __builtin_clzll(granules);
  const int bin = 2 * log + (log > 0 ? (int)(granules >> (log - 1) & 1) : 0);
  return bin < BINS ? bin : BINS - 1;
}

static block **list_of(rm_allocator *allocator, const block *b) {
  return b->graph != 0 ? &allocator->graph_blocks : &allocator->bins[b->small][bin_of(b->bytes)];
}

static void link_block(rm_allocator *allocator, block *b) {
  block **list = list_of(allocator, b);
  b->previous = NULL;
  b->next = *list;
  if (*list != NULL) (*list)->previous = b;
  *list = b;
  if (b->graph == 0) allocator->nonempty_bins[b->small] |= 1ull << bin_of(b->bytes);
}

static void unlink_block(rm_allocator *allocator, block *b) {
  block **list = list_of(allocator, b);
  if (b->previous != NULL) b->previous->next = b->next;
  else *list = b->next;
  if (b->next != NULL) b->next->previous = b->previous;
  if (*list == NULL && b->graph == 0) {
    allocator->nonempty_bins[b->small] &= ~(1ull << bin_of(b->bytes));
  }
}

static size_t table_index(const rm_allocator *allocator, rm_address address) {
  return (size_t)((address / GRANULARITY * 0x9e3779b97f4a7c15ull) >> 20) &
         (allocator->table_size - 1);
}

static void insert_used(rm_allocator *allocator, block *b) {
  block **bucket = &allocator->table[table_index(allocator, b->address)];
  b->previous = NULL;
  b->next = *bucket;
  if (*bucket != NULL) (*bucket)->previous = b;
  *bucket = b;
}

/* Makes room for another block in the table. */
static bool grow_table(rm_allocator *allocator) {
  if (allocator->used_count < allocator->table_size) return true;
  const size_t old_size = allocator->table_size, size = old_size == 0 ? 1024 : 2 * old_size;
  block **old = allocator->table, **table = calloc(size, sizeof *table);
  if (table == NULL) return false;
  allocator->table = table;
  allocator->table_size = size;
  for (size_t i = 0; i < old_size; i++) {
    for (block *b = old[i], *next; b != NULL; b = next) {
      next = b->next;
      insert_used(allocator, b);
    }
  }
  free(old);
  return true;
}

static block *find_used(rm_allocator *allocator, rm_address address) {
  if (allocator->table_size == 0) return NULL;
  block *b = allocator->table[table_index(allocator, address)];
  while (b != NULL && b->address != address) b = b->next;
  return b;
}

/* Coalesces a free block with adjacent free ones. The result is in no list. */
static block *coalesce(rm_allocator *allocator, block *b) {
  block *other = b->prev_in_slab;
  if (other != NULL && !other->used && other->graph == b->graph) {
    unlink_block(allocator, other);
    other->bytes += b->bytes;
    other->next_in_slab = b->next_in_slab;
    if (b->next_in_slab != NULL) b->next_in_slab->prev_in_slab = other;
    free(b);
    b = other;
  }
  other = b->next_in_slab;
  if (other != NULL && !other->used && other->graph == b->graph) {
    unlink_block(allocator, other);
    b->bytes += other->bytes;
    b->next_in_slab = other->next_in_slab;
    if (other->next_in_slab != NULL) other->next_in_slab->prev_in_slab = b;
    free(other);
  }
  return b;
}

static block *best_fit(block *list, uint64_t bytes, int graph, bool small, int max_candidates) {
  block *best = NULL;
  for (block *b = list; b != NULL && max_candidates-- > 0; b = b->next) {
    if (b->bytes >= bytes && b->graph == graph && b->small == small &&
        (best == NULL || b->bytes < best->bytes)) {
      best = b;
    }
  }
  return best;
}

/* Finds a free block that fits, or returns null. */
static block *find_free(rm_allocator *allocator, uint64_t bytes, bool small, int graph) {
  if (graph != 0) {
    block *own = best_fit(allocator->graph_blocks, bytes, graph, small, 1 << 30);
    if (own != NULL) return own;
  }
  const int bin = bin_of(bytes);
  block *found = best_fit(allocator->bins[small][bin], bytes, 0, small, MAX_CANDIDATES);
  const uint64_t above = bin == BINS - 1 ? 0 : allocator->nonempty_bins[small] & ~0ull << (bin + 1);
  if (found != NULL || above == 0) return found;
  return best_fit(allocator->bins[small][__builtin_ctzll(above)], bytes, 0, small, MAX_CANDIDATES);
}

/* Returns a slab, which is in no list, to the driver. */
static int free_slab(rm_allocator *allocator, block *b) {
  const int code = rm_cu.cudaFree((void *)(uintptr_t)b->address);
  allocator->slab_bytes -= b->bytes;
  free(b);
  return code;
}

/* Returns whole free slabs to the driver. Returns the code of a failure. */
static int release_free(rm_allocator *allocator) {
  int code = 0;
  for (int i = 0; i < 2 * BINS; i++) {
    for (block *b = allocator->bins[i / BINS][i % BINS], *next; b != NULL; b = next) {
      next = b->next;
      if (b->prev_in_slab != NULL || b->next_in_slab != NULL) continue;
      unlink_block(allocator, b);
      const int one = free_slab(allocator, b);
      if (one != 0) code = one;
    }
  }
  return code;
}

/* Calls a function, and again after freeing cached memory if the first call ran out of memory. The
 * mutex is locked. */
static int retry_after_release(rm_device *device, int (*call)(void *context), void *context,
                               int no_memory) {
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

int rm_retry_after_release(rm_device *device, int (*call)(void *context), void *context,
                           int no_memory) {
  rm_mutex_lock(&device->allocator->mutex);
  const int code = retry_after_release(device, call, context, no_memory);
  rm_mutex_unlock(&device->allocator->mutex);
  return code;
}

typedef struct {
  void *address;
  size_t bytes;
} slab;

static int call_malloc(void *context) {
  slab *request = context;
  return rm_cu.cudaMalloc(&request->address, request->bytes);
}

static int allocate_slab(rm_device *device, uint64_t bytes, void **address) {
  slab request = {NULL, bytes};
  const int code = retry_after_release(device, call_malloc, &request, RM_CUDA_NO_MEMORY);
  *address = request.address;
  return code;
}

/* Sets the message of a failed allocation. */
static int32_t out_of_memory(const rm_device *device, uint64_t bytes) {
  const rm_allocator *allocator = device->allocator;
  size_t left = 0, total = 0;
  rm_cu.cudaMemGetInfo(&left, &total);
  const double unit = 1 << 20;
  return rm_fail(RM_OUT_OF_MEMORY,
                 "CUDA device %d has no %.1f MiB: of its %.1f MiB, %.1f are free, %.1f in use here "
                 "and %.1f kept in pieces between those",
                 device->index, (double)bytes / unit, (double)total / unit, (double)left / unit,
                 (double)allocator->used_bytes / unit,
                 (double)(allocator->slab_bytes - allocator->used_bytes) / unit);
}

/* Allocates a slab for a request. Its only block is in no list. */
static int32_t allocate_slab_for(rm_device *device, uint64_t bytes, bool small, block **created) {
  rm_allocator *allocator = device->allocator;
  const uint64_t large = (bytes + LARGE_GRANULARITY - 1) / LARGE_GRANULARITY * LARGE_GRANULARITY;
  uint64_t slab_size = allocator->exact_blocks ? bytes
                       : small                 ? SMALL_SLAB
                       : bytes < MEDIUM_MAX    ? MEDIUM_SLAB
                                               : large;
  block *b = calloc(1, sizeof *b);
  if (b == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a block");
  void *address;
  int code = allocate_slab(device, slab_size, &address);
  if (code == RM_CUDA_NO_MEMORY && large < slab_size) {
    slab_size = large;
    code = allocate_slab(device, slab_size, &address);
  }
  if (code != 0) {
    free(b);
    return code == RM_CUDA_NO_MEMORY ? out_of_memory(device, bytes)
                                     : rm_cuda_error("cudaMalloc", code);
  }
  b->address = (rm_address)(uintptr_t)address;
  b->bytes = slab_size;
  b->small = small;
  allocator->slab_bytes += slab_size;
  *created = b;
  return RM_OK;
}

/* Allocates a block. The mutex is locked. */
static int32_t allocate(rm_device *device, uint64_t bytes, rm_address *address) {
  rm_allocator *allocator = device->allocator;
  const bool small = bytes <= SMALL_MAX;
  const int graph = atomic_load(&device->graph);
  block *rest = calloc(1, sizeof *rest);
  if (rest == NULL || !grow_table(allocator)) {
    free(rest);
    return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a block");
  }
  block *b = allocator->exact_blocks ? NULL : find_free(allocator, bytes, small, graph);
  if (b != NULL) {
    unlink_block(allocator, b);
  } else {
    const int32_t status = allocate_slab_for(device, bytes, small, &b);
    if (status != RM_OK) {
      free(rest);
      return status;
    }
  }
  const uint64_t left = b->bytes - bytes;
  if (!allocator->exact_blocks && left >= (small ? GRANULARITY : SMALL_MAX)) {
    *rest = *b;
    rest->address += bytes;
    rest->bytes = left;
    rest->prev_in_slab = b;
    if (b->next_in_slab != NULL) b->next_in_slab->prev_in_slab = rest;
    b->next_in_slab = rest;
    b->bytes = bytes;
    link_block(allocator, rest);
  } else {
    free(rest);
  }
  b->used = true;
  if (graph != 0) b->graph = graph;
  insert_used(allocator, b);
  allocator->used_count++;
  allocator->used_bytes += b->bytes;
  if (allocator->used_bytes > allocator->peak_bytes) allocator->peak_bytes = allocator->used_bytes;
  *address = b->address;
  return RM_OK;
}

int32_t rm_device_alloc(rm_device *device, double bytes, rm_address *address) {
  /* More than any device has. */
  if (!(bytes >= 0 && bytes <= 0x1p50)) {
    return rm_fail(RM_BAD_ARGUMENT, "%g is no number of bytes", bytes);
  }
  const uint64_t granularity = device->allocator->exact_blocks ? 1 : GRANULARITY;
  const uint64_t granules = ((uint64_t)bytes + granularity - 1) / granularity;
  rm_mutex_lock(&device->allocator->mutex);
  const int32_t status = allocate(device, (granules == 0 ? 1 : granules) * granularity, address);
  rm_mutex_unlock(&device->allocator->mutex);
  return status;
}

/* Removes a block from the table of blocks in use. */
static void remove_used(rm_allocator *allocator, block *b) {
  if (b->previous != NULL) b->previous->next = b->next;
  else allocator->table[table_index(allocator, b->address)] = b->next;
  if (b->next != NULL) b->next->previous = b->previous;
  b->used = false;
  allocator->used_count--;
  allocator->used_bytes -= b->bytes;
}

/* Caches a free block, which is in no list, or returns it to the driver. Returns the code of a
 * failure. */
static int release_block(rm_allocator *allocator, block *b) {
  if (allocator->exact_blocks && b->graph == 0) return free_slab(allocator, b);
  link_block(allocator, coalesce(allocator, b));
  return 0;
}

int32_t rm_device_free(rm_device *device, rm_address address) {
  rm_allocator *allocator = device->allocator;
  rm_mutex_lock(&allocator->mutex);
  block *b = find_used(allocator, address);
  int code = 0;
  if (b != NULL) {
    const int graph = atomic_load(&device->graph);
    remove_used(allocator, b);
    if (graph != 0) b->graph = graph;
    code = release_block(allocator, b);
  }
  rm_mutex_unlock(&allocator->mutex);
  if (code != 0) return rm_cuda_error("cudaFree", code);
  if (b != NULL) return RM_OK;
  return rm_fail(RM_BAD_ARGUMENT, "no memory in use on CUDA device %d begins at %llu",
                 device->index, address);
}

void rm_release_graph_memory(rm_device *device, int graph) {
  rm_allocator *allocator = device->allocator;
  rm_mutex_lock(&allocator->mutex);
  for (size_t i = 0; i < allocator->table_size; i++) {
    for (block *b = allocator->table[i]; b != NULL; b = b->next) {
      if (b->graph == graph) b->graph = 0;
    }
  }
  for (block *b = allocator->graph_blocks, *next; b != NULL; b = next) {
    next = b->next;
    if (b->graph != graph) continue;
    unlink_block(allocator, b);
    b->graph = 0;
    release_block(allocator, b);
  }
  rm_mutex_unlock(&allocator->mutex);
}

int32_t rm_device_alloc_uncached(rm_device *device, size_t bytes, void **address) {
  rm_mutex_lock(&device->allocator->mutex);
  const int code = allocate_slab(device, bytes, address);
  const int32_t status = code == 0                    ? RM_OK
                         : code == RM_CUDA_NO_MEMORY ? out_of_memory(device, bytes)
                                                      : rm_cuda_error("cudaMalloc", code);
  rm_mutex_unlock(&device->allocator->mutex);
  return status;
}

int32_t rm_allocator_create(rm_device *device) {
  if (device->allocator != NULL) return RM_OK;
  device->allocator = calloc(1, sizeof *device->allocator);
  if (device->allocator == NULL) {
    return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a device");
  }
  device->allocator->mutex = (rm_mutex)RM_MUTEX_INIT;
  device->allocator->exact_blocks = rm_environment_value(RM_ENVIRONMENT_CUDA_BLOCKS, 0) == 1;
  return RM_OK;
}

void rm_allocator_usage(rm_device *device, double *numbers) {
  rm_allocator *allocator = device->allocator;
  rm_mutex_lock(&allocator->mutex);
  numbers[0] = (double)allocator->used_bytes;
  numbers[1] = (double)(allocator->slab_bytes - allocator->used_bytes);
  numbers[2] = (double)allocator->peak_bytes;
  rm_mutex_unlock(&allocator->mutex);
}

int rm_allocator_release(rm_device *device) {
  rm_mutex_lock(&device->allocator->mutex);
  const int code = release_free(device->allocator);
  rm_mutex_unlock(&device->allocator->mutex);
  return code;
}
#endif
