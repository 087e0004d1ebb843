/*
 * Copies between host and device through pinned memory, and copies between devices.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <string.h>
#include "pinned.h"

/* Kinds of copies, as numbered by the runtime. */
enum { TO_DEVICE = 1, TO_HOST = 2, ON_DEVICE = 3 };

typedef struct {
  char *to;
  const char *from;
  size_t bytes;
} span;

enum { PART_BYTES = 1 << 20 };

static void copy_part(void *context, ptrdiff_t i) {
  const span *s = context;
  const size_t begin = (size_t)i * PART_BYTES, left = s->bytes - begin;
  memcpy(s->to + begin, s->from + begin, left < PART_BYTES ? left : PART_BYTES);
}

void rm_copy_bytes(void *to, const void *from, size_t bytes) {
  span s = {to, from, bytes};
  if (bytes <= PART_BYTES) memcpy(to, from, bytes);
  else rm_parallel(rm_ceil_div((ptrdiff_t)bytes, PART_BYTES), (double)bytes / 10, copy_part, &s);
}

int32_t rm_memory_upload(rm_device *device, rm_address to, const void *from, size_t bytes) {
  rm_staging *staging = device->staging;
  RM_TRY(rm_cuda_not_capturing(device, "copy to the device"));
  for (size_t copied = 0; copied < bytes;) {
    const size_t part = bytes - copied < CHUNK ? bytes - copied : CHUNK;
    pinned *p;
    RM_TRY(rm_pinned_alloc(staging, part, true, &p));
    rm_copy_bytes(p->at, (const char *)from + copied, part);
    const char *call = "cudaMemcpyAsync";
    int code = rm_cu.cudaMemcpyAsync((void *)(uintptr_t)(to + copied), p->at, part, TO_DEVICE,
                                     device->stream);
    if (code == 0) {
      call = "cudaEventRecord";
      code = rm_cu.cudaEventRecord(p->event, device->stream);
      p->pending = true;
    }
    rm_pinned_free(staging, p);
    if (code != 0) return rm_cuda_error(call, code);
    copied += part;
  }
  return RM_OK;
}

int32_t rm_memory_start_download(rm_device *device, rm_address from, size_t bytes, bool wait,
                                 pinned **created) {
  rm_staging *staging = device->staging;
  RM_TRY(rm_pinned_alloc(staging, bytes, wait, created));
  const char *call = "cudaMemcpyAsync";
  int code = bytes == 0 ? 0
                        : rm_cu.cudaMemcpyAsync((*created)->at, (const void *)(uintptr_t)from,
                                                bytes, TO_HOST, device->stream);
  if (code == 0) {
    call = "cudaEventRecord";
    code = rm_cu.cudaEventRecord((*created)->event, device->stream);
    (*created)->pending = true;
  }
  if (code == 0) return RM_OK;
  rm_pinned_free(staging, *created);
  return rm_cuda_error(call, code);
}

/* While one part is copied out of pinned memory, the next one is being transferred. */
int32_t rm_memory_download(rm_device *device, rm_address from, char *to, size_t bytes) {
  RM_TRY(rm_cuda_not_capturing(device, "copy from the device"));
  pinned *now = NULL, *next = NULL;
  size_t part = bytes < CHUNK ? bytes : CHUNK;
  RM_TRY(rm_memory_start_download(device, from, part, true, &now));
  int32_t status = RM_OK;
  for (size_t copied = 0; status == RM_OK && now != NULL;) {
    const size_t begin = copied + part, left = bytes - begin,
                 following = left < CHUNK ? left : CHUNK;
    next = NULL;
    if (left > 0) status = rm_memory_start_download(device, from + begin, following, true, &next);
    if (status != RM_OK) next = NULL;
    const int code = rm_cu.cudaEventSynchronize(now->event);
    if (code == 0) {
      now->pending = false;
      rm_copy_bytes(to + copied, now->at, part);
    } else {
      status = rm_cuda_error("cudaEventSynchronize", code);
    }
    rm_pinned_free(device->staging, now);
    copied = begin;
    part = following;
    now = next;
  }
  if (now != NULL) rm_pinned_free(device->staging, now);
  rm_pinned_trim(device);
  return status;
}

/* Makes the stream of one device wait for the work that is queued on another device. */
static int32_t wait_for(rm_device *device, rm_device *other) {
  RM_TRY(rm_cuda_use(other->index, &other));
  rm_mutex_lock(&other->staging->mutex);
  int code = 0;
  const char *call = "cudaEventCreateWithFlags";
  void **event = &other->staging->order;
  if (*event == NULL) code = rm_cu.cudaEventCreateWithFlags(event, DISABLE_TIMING);
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
  rm_mutex_unlock(&other->staging->mutex);
  return status;
}

/* Enables direct access to the memory of another device, if possible; once per pair. */
static void enable_peer_access(rm_device *device, const rm_device *other) {
  static _Atomic uint64_t asked[64];
  const uint64_t bit = 1ull << other->index;
  if (atomic_fetch_or(&asked[device->index], bit) & bit) return;
  int can = 0;
  if (rm_cu.cudaDeviceCanAccessPeer(&can, device->index, other->index) == 0 && can &&
      rm_cu.cudaDeviceEnablePeerAccess(other->index, 0) == RM_CUDA_PEER_IS_ENABLED) {
    rm_cu.cudaGetLastError();
  }
}

int32_t rm_memory_copy(rm_device *device, const double *numbers) {
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
  enable_peer_access(device, other);
  RM_TRY(wait_for(device, other));
  RM_CU(cudaMemcpyPeerAsync, to, device->index, from, index, bytes, device->stream);
  /* The source memory may be reused as soon as this returns. */
  return wait_for(other, device);
}
#endif
