/*
 * Pinned host memory, through which copies from and to a device go.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdlib.h>
#include "pinned.h"

static int size_class_of(size_t bytes) {
  int size_class = MIN_CLASS;
  while (size_class < CLASSES - 1 && ((size_t)1 << size_class) < bytes) size_class++;
  return size_class;
}

static void free_pinned(pinned *p) {
  if (p->pending) rm_cu.cudaEventSynchronize(p->event);
  if (p->event != NULL) rm_cu.cudaEventDestroy(p->event);
  if (p->at != NULL) rm_cu.cudaFreeHost(p->at);
  free(p);
}

static int32_t new_pinned(size_t bytes, pinned **created) {
  pinned *p = calloc(1, sizeof *p);
  if (p == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a copy");
  p->size_class = size_class_of(bytes);
  p->bytes = (size_t)1 << p->size_class;
  void *at = NULL;
  const int code = rm_cu.cudaHostAlloc(&at, p->bytes, 0);
  if (code == 0) {
    p->at = at;
    const int other = rm_cu.cudaEventCreateWithFlags(&p->event, DISABLE_TIMING);
    if (other == 0) {
      *created = p;
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

static pinned *pop(rm_staging *staging, int size_class) {
  pinned *p = staging->first[size_class];
  staging->first[size_class] = p->next;
  if (p->next == NULL) staging->last[size_class] = NULL;
  p->next = NULL;
  staging->cached_bytes -= p->bytes;
  return p;
}

static int32_t allocate(rm_staging *staging, size_t bytes, bool wait, pinned **allocated) {
  const int size_class = size_class_of(bytes);
  pinned *oldest = staging->first[size_class];
  if (oldest != NULL) {
    int code = oldest->pending ? rm_cu.cudaEventQuery(oldest->event) : 0;
    if (code == RM_CUDA_NOT_READY) {
      rm_cu.cudaGetLastError();
      const bool full = staging->cached_bytes + (1ull << size_class) > PINNED_CACHE_MAX;
      const int32_t status = wait && full ? RM_OUT_OF_MEMORY : new_pinned(bytes, allocated);
      if (status != RM_OUT_OF_MEMORY) return status;
      code = rm_cu.cudaEventSynchronize(oldest->event);
    }
    if (code != 0) return rm_cuda_error("cudaEventQuery", code);
    *allocated = pop(staging, size_class);
    (*allocated)->pending = false;
    return RM_OK;
  }
  const int32_t status = new_pinned(bytes, allocated);
  if (status != RM_OUT_OF_MEMORY) return status;
  /* Unused blocks of other sizes may take the memory. */
  for (int i = 0; i < CLASSES; i++) {
    while (staging->first[i] != NULL &&
           (!staging->first[i]->pending || rm_cu.cudaEventQuery(staging->first[i]->event) == 0)) {
      free_pinned(pop(staging, i));
    }
  }
  return new_pinned(bytes, allocated);
}

static void recycle(rm_staging *staging, pinned *p) {
  pinned **first = &staging->first[p->size_class], **last = &staging->last[p->size_class];
  p->next = NULL;
  staging->cached_bytes += p->bytes;
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

void rm_pinned_trim(rm_device *device) {
  /* Limits the time of a call. */
  enum { MAX_FREED = 4 };
  rm_staging *staging = device->staging;
  rm_mutex_lock(&staging->mutex);
  if (staging->cached_bytes > PINNED_CACHE_MAX && atomic_load(&device->graph) == 0) {
    const int code = rm_cu.cudaStreamQuery(device->stream);
    if (code == RM_CUDA_NOT_READY) rm_cu.cudaGetLastError();
    int freed = 0;
    for (int i = CLASSES - 1; code == 0 && i >= 0; i--) {
      while (freed < MAX_FREED && staging->cached_bytes > PINNED_CACHE_MAX &&
             staging->first[i] != NULL) {
        free_pinned(pop(staging, i));
        freed++;
      }
    }
  }
  rm_mutex_unlock(&staging->mutex);
}

int32_t rm_pinned_alloc(rm_staging *staging, size_t bytes, bool wait, pinned **allocated) {
  rm_mutex_lock(&staging->mutex);
  const int32_t status = allocate(staging, bytes, wait, allocated);
  rm_mutex_unlock(&staging->mutex);
  return status;
}

void rm_pinned_free(rm_staging *staging, pinned *p) {
  rm_mutex_lock(&staging->mutex);
  recycle(staging, p);
  rm_mutex_unlock(&staging->mutex);
}

void rm_pinned_release(rm_staging *staging) {
  rm_mutex_lock(&staging->mutex);
  for (int i = 0; i < CLASSES; i++) {
    while (staging->first[i] != NULL) free_pinned(pop(staging, i));
  }
  rm_mutex_unlock(&staging->mutex);
}

int32_t rm_staging_create(rm_device *device) {
  if (device->staging != NULL) return RM_OK;
  device->staging = calloc(1, sizeof *device->staging);
  if (device->staging == NULL) {
    return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a device");
  }
  device->staging->mutex = (rm_mutex)RM_MUTEX_INIT;
  return RM_OK;
}
#endif
