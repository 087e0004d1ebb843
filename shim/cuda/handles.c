/*
 * Handles of tickets, graphs and events.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdlib.h>

/* A handle contains the index of an entry and the number of its uses, so that stale handles never
 * match a new object. */
enum { MAX_HANDLES = 1 << 20 };

typedef struct {
  rm_handle kind;
  uint32_t uses;
  const rm_device *device;
  void *object;
  int32_t next_free;
} entry;

static rm_mutex handle_mutex = RM_MUTEX_INIT;
static entry *entries;
static int32_t entry_count, entry_capacity, first_free = -1;

double rm_handle_create(rm_handle kind, const rm_device *device, void *object) {
  rm_mutex_lock(&handle_mutex);
  int32_t at = first_free;
  if (at < 0 && entry_count == entry_capacity && entry_capacity < MAX_HANDLES) {
    const int32_t capacity = entry_capacity == 0 ? 64 : entry_capacity * 2;
    entry *larger = realloc(entries, (size_t)capacity * sizeof *larger);
    if (larger != NULL) {
      entries = larger;
      entry_capacity = capacity;
    }
  }
  double number = 0;
  if (at >= 0) first_free = entries[at].next_free;
  else if (entry_count < entry_capacity) {
    at = entry_count++;
    entries[at].uses = 0;
  }
  if (at >= 0) {
    entries[at] = (entry){kind, entries[at].uses + 1, device, object, -1};
    number = (double)entries[at].uses * MAX_HANDLES + at;
  }
  rm_mutex_unlock(&handle_mutex);
  if (number == 0) rm_fail(RM_OUT_OF_MEMORY, "no memory for another handle");
  return number;
}

void *rm_handle_lookup(double number, rm_handle kind, const rm_device *device, bool remove) {
  void *object = NULL;
  rm_mutex_lock(&handle_mutex);
  if (number >= MAX_HANDLES && number < 9007199254740992.0) {
    const int64_t bits = (int64_t)number;
    const int32_t at = (int32_t)(bits % MAX_HANDLES);
    if (at < entry_count && entries[at].kind == kind && entries[at].device == device &&
        entries[at].uses == bits / MAX_HANDLES) {
      object = entries[at].object;
      if (remove) {
        entries[at].kind = RM_NO_HANDLE;
        entries[at].next_free = first_free;
        first_free = at;
      }
    }
  }
  rm_mutex_unlock(&handle_mutex);
  if (object == NULL) {
    static const char *const names[] = {"", "ticket", "graph", "event"};
    rm_fail(RM_BAD_ARGUMENT, "%.0f is no %s of CUDA device %d, or not any more", number,
            names[kind], device->index);
  }
  return object;
}
#endif
