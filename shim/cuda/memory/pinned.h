/*
 * Pinned host memory, through which copies from and to a device go.
 */
#ifndef ROWMAJOR_CUDA_PINNED_H
#define ROWMAJOR_CUDA_PINNED_H

#include "cuda_internal.h"

/*
 * Pinned blocks have sizes of powers of two up to CHUNK. Longer copies use several. A freed block
 * may still be accessed by queued work; its event tells when that is done. Blocks of a size are
 * reused in the order in which they were freed, unused ones first.
 *
 * Freeing pinned memory waits for all work of the device. So even blocks beyond PINNED_CACHE_MAX
 * are cached until a copy to the host ends while nothing is queued.
 */
enum { MIN_CLASS = 16, MAX_CLASS = 23, CLASSES = MAX_CLASS + 1, CHUNK = 1 << MAX_CLASS };
static const uint64_t PINNED_CACHE_MAX = 64 << 20;

typedef struct pinned {
  struct pinned *next;
  char *at;
  size_t bytes;
  void *event;
  int size_class;
  /* Whether queued work may use it: its event was recorded and has not completed yet. */
  bool pending;
} pinned;

/* Events without time stamps are cheaper. */
enum { DISABLE_TIMING = 2 };

struct rm_staging {
  rm_mutex mutex;
  pinned *first[CLASSES], *last[CLASSES];
  /* The size of these. */
  uint64_t cached_bytes;
  /* Orders the streams of two devices in copies between them. */
  void *order;
};

/* Allocates an unused block. With `wait`, waits for the oldest one before the cache exceeds its
 * limit. */
int32_t rm_pinned_alloc(rm_staging *staging, size_t bytes, bool wait, pinned **allocated);

/* Frees a block. */
void rm_pinned_free(rm_staging *staging, pinned *p);

/* Frees cached blocks beyond PINNED_CACHE_MAX, the largest first, if nothing is queued. */
void rm_pinned_trim(rm_device *device);

/* Frees all cached blocks. */
void rm_pinned_release(rm_staging *staging);

/* Queues a copy to a new pinned block. Without `wait` the cache may exceed its limit. */
int32_t rm_memory_start_download(rm_device *device, rm_address from, size_t bytes, bool wait,
                                 pinned **created);

/* memcpy, on several threads if it is long: one thread is slower than the bus of a device. */
void rm_copy_bytes(void *to, const void *from, size_t bytes);

#endif
