/*
 * Copies between the host and a device, through pinned memory, and between devices.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <string.h>
#include "pinned.h"

/* Kinds of copies, as the runtime numbers them. */
enum { TO_DEVICE = 1, TO_HOST = 2, ON_DEVICE = 3 };

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

void rm_copy_bytes(void *to, const void *from, size_t bytes) {
  span s = {to, from, bytes};
  if (bytes <= PART) memcpy(to, from, bytes);
  else rm_parallel(rm_ceil_div((ptrdiff_t)bytes, PART), (double)bytes / 10, copy_part, &s);
}

int32_t rm_memory_upload(rm_device *device, rm_address to, const void *from, size_t bytes) {
  rm_staging *in = device->staging;
  RM_TRY(rm_cuda_not_capturing(device, "copy to the device"));
  for (size_t done = 0; done < bytes;) {
    const size_t part = bytes - done < CHUNK ? bytes - done : CHUNK;
    pinned *p;
    RM_TRY(rm_staging_take(in, part, true, &p));
    rm_copy_bytes(p->at, (const char *)from + done, part);
    const char *call = "cudaMemcpyAsync";
    int code = rm_cu.cudaMemcpyAsync((void *)(uintptr_t)(to + done), p->at, part, TO_DEVICE,
                                     device->stream);
    if (code == 0) {
      call = "cudaEventRecord";
      code = rm_cu.cudaEventRecord(p->event, device->stream);
      p->pending = true;
    }
    rm_staging_give(in, p);
    if (code != 0) return rm_cuda_error(call, code);
    done += part;
  }
  return RM_OK;
}

int32_t rm_memory_begin_read(rm_device *device, rm_address from, size_t bytes, bool wait,
                             pinned **made) {
  rm_staging *in = device->staging;
  RM_TRY(rm_staging_take(in, bytes, wait, made));
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
  rm_staging_give(in, *made);
  return rm_cuda_error(call, code);
}

/* The next part is on its way while one is copied out of pinned memory. */
int32_t rm_memory_download(rm_device *device, rm_address from, char *to, size_t bytes) {
  RM_TRY(rm_cuda_not_capturing(device, "copy from the device"));
  pinned *now = NULL, *next = NULL;
  size_t part = bytes < CHUNK ? bytes : CHUNK;
  RM_TRY(rm_memory_begin_read(device, from, part, true, &now));
  int32_t status = RM_OK;
  for (size_t done = 0; status == RM_OK && now != NULL;) {
    const size_t begin = done + part, left = bytes - begin, following = left < CHUNK ? left : CHUNK;
    next = NULL;
    if (left > 0) status = rm_memory_begin_read(device, from + begin, following, true, &next);
    if (status != RM_OK) next = NULL;
    const int code = rm_cu.cudaEventSynchronize(now->event);
    if (code == 0) {
      now->pending = false;
      rm_copy_bytes(to + done, now->at, part);
    } else {
      status = rm_cuda_error("cudaEventSynchronize", code);
    }
    rm_staging_give(device->staging, now);
    done = begin;
    part = following;
    now = next;
  }
  if (now != NULL) rm_staging_give(device->staging, now);
  rm_staging_trim(device);
  return status;
}

/* Waits, on the stream of one device, for what is queued on that of another. */
static int32_t wait_for(rm_device *device, rm_device *other) {
  RM_TRY(rm_cuda_use(other->index, &other));
  rm_mutex_lock(&other->staging->lock);
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
  rm_mutex_unlock(&other->staging->lock);
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
  reach(device, other);
  RM_TRY(wait_for(device, other));
  RM_CU(cudaMemcpyPeerAsync, to, device->index, from, index, bytes, device->stream);
  /* The memory may have a new owner there once this returns. */
  return wait_for(other, device);
}
#endif
