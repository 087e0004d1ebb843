/*
 * Asynchronous reads, identified by tickets.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdlib.h>
#include "pinned.h"

/* A pending read: the parts that have not been copied out yet, and the bytes that have. */
typedef struct {
  pinned *first, *last;
  size_t bytes, copied;
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
  while (t->first != NULL) rm_pinned_free(device->staging, take_part(t));
  free(t);
  rm_pinned_trim(device);
}

int32_t rm_read_begin(rm_device *device, rm_address from, size_t bytes, double *number) {
  RM_TRY(rm_cuda_not_capturing(device, "copy from the device"));
  ticket *created = calloc(1, sizeof *created);
  if (created == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a ticket");
  created->bytes = bytes;
  int32_t status = RM_OK;
  /* An empty read waits for previously queued work too. */
  for (size_t begin = 0; status == RM_OK && (begin < bytes || begin == 0); begin += CHUNK) {
    const size_t left = bytes - begin;
    pinned *part;
    status = rm_memory_start_download(device, from + begin, left < CHUNK ? left : CHUNK, false,
                                      &part);
    if (status == RM_OK) add_part(created, part);
  }
  if (status == RM_OK) {
    *number = rm_handle_create(RM_TICKET, device, created);
    if (*number != 0) return RM_OK;
    status = RM_OUT_OF_MEMORY;
  }
  end_parts(device, created);
  return status;
}

int32_t rm_read_end(rm_device *device, double *numbers, char *host) {
  ticket *known = rm_handle_lookup(numbers[0], RM_TICKET, device, false);
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
      const size_t left = known->bytes - known->copied, length = left < CHUNK ? left : CHUNK;
      part->pending = false;
      rm_copy_bytes(host + (size_t)numbers[1] + known->copied, part->at, length);
      known->copied += length;
      rm_pinned_free(device->staging, part);
      if (known->first != NULL) {
        numbers[0] = RM_CUDA_READ_MOVES;
        return RM_OK;
      }
    }
  }
  ticket *used = rm_handle_lookup(numbers[0], RM_TICKET, device, true);
  if (used == NULL) return RM_BAD_ARGUMENT;
  end_parts(device, used);
  if (code != 0) return rm_cuda_error("cudaEventQuery", code);
  numbers[0] = RM_CUDA_READ_ENDED;
  return RM_OK;
}
#endif
