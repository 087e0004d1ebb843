/*
 * Pinned memory of the host, through which copies from and to a device go.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdlib.h>
#include "pinned.h"

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

static int32_t take(rm_staging *in, size_t bytes, bool wait, pinned **taken) {
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

static void give(rm_staging *in, pinned *p) {
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

void rm_staging_trim(rm_device *device) {
  /* So that no call takes long. */
  enum { FREED_AT_ONCE = 4 };
  rm_staging *in = device->staging;
  rm_mutex_lock(&in->lock);
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
  rm_mutex_unlock(&in->lock);
}

int32_t rm_staging_take(rm_staging *in, size_t bytes, bool wait, pinned **taken) {
  rm_mutex_lock(&in->lock);
  const int32_t status = take(in, bytes, wait, taken);
  rm_mutex_unlock(&in->lock);
  return status;
}

void rm_staging_give(rm_staging *in, pinned *p) {
  rm_mutex_lock(&in->lock);
  give(in, p);
  rm_mutex_unlock(&in->lock);
}

void rm_staging_release(rm_staging *in) {
  rm_mutex_lock(&in->lock);
  for (int i = 0; i < LEVELS; i++) {
    while (in->first[i] != NULL) free_pinned(pop(in, i));
  }
  rm_mutex_unlock(&in->lock);
}

int32_t rm_staging_begin(rm_device *device) {
  if (device->staging != NULL) return RM_OK;
  device->staging = calloc(1, sizeof *device->staging);
  if (device->staging == NULL) {
    return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a device");
  }
  device->staging->lock = (rm_mutex)RM_MUTEX_INIT;
  return RM_OK;
}
#endif
