/*
 * Pinned memory of the host, through which copies from and to a device go.
 */
#ifndef ROWMAJOR_CUDA_PINNED_H
#define ROWMAJOR_CUDA_PINNED_H

#include "cuda_internal.h"

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

/* Events without time stamps, which cost less. */
enum { WITHOUT_TIME = 2 };

struct rm_staging {
  rm_mutex lock;
  pinned *first[LEVELS], *last[LEVELS];
  /* Bytes of those. */
  uint64_t kept;
  /* Orders the streams of devices in copies between them. */
  void *order;
};

/* A block that nothing uses. With wait, the oldest is waited for before there are too many. */
int32_t rm_staging_take(rm_staging *in, size_t bytes, bool wait, pinned **taken);

/* The way back. */
void rm_staging_give(rm_staging *in, pinned *p);

/* Frees some of what is kept beyond PINNED_MOST, the largest first, if nothing is queued. */
void rm_staging_trim(rm_device *device);

/* Frees all that is kept. */
void rm_staging_release(rm_staging *in);

/* Queues a copy to pinned memory, which is given; without wait however much is in use. */
int32_t rm_memory_begin_read(rm_device *device, rm_address from, size_t bytes, bool wait,
                             pinned **made);

/* memcpy, on several threads where it is long: one does not keep up with the bus of a device. */
void rm_copy_bytes(void *to, const void *from, size_t bytes);

#endif
