/*
 * Numbers that stand for tickets, graphs and events.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdlib.h>

/* A number is the place of an entry and, above it, how often the place was used: no number of the
 * past stands for something new. */
enum { MOST_HANDLES = 1 << 20 };

typedef struct {
  rm_handle kind;
  uint32_t uses;
  const rm_device *device;
  void *thing;
  int32_t next_free;
} entry;

static rm_mutex handle_guard = RM_MUTEX_INIT;
static entry *entries;
static int32_t entry_count, entry_room, first_free = -1;

double rm_handle_for(rm_handle kind, const rm_device *device, void *thing) {
  rm_mutex_lock(&handle_guard);
  int32_t at = first_free;
  if (at < 0 && entry_count == entry_room && entry_room < MOST_HANDLES) {
    const int32_t room = entry_room == 0 ? 64 : entry_room * 2;
    entry *larger = realloc(entries, (size_t)room * sizeof *larger);
    if (larger != NULL) {
      entries = larger;
      entry_room = room;
    }
  }
  double number = 0;
  if (at >= 0) first_free = entries[at].next_free;
  else if (entry_count < entry_room) {
    at = entry_count++;
    entries[at].uses = 0;
  }
  if (at >= 0) {
    entries[at] = (entry){kind, entries[at].uses + 1, device, thing, -1};
    number = (double)entries[at].uses * MOST_HANDLES + at;
  }
  rm_mutex_unlock(&handle_guard);
  if (number == 0) rm_fail(RM_OUT_OF_MEMORY, "no memory for another handle");
  return number;
}

void *rm_handle_of(double number, rm_handle kind, const rm_device *device, bool last) {
  void *thing = NULL;
  rm_mutex_lock(&handle_guard);
  if (number >= MOST_HANDLES && number < 9007199254740992.0) {
    const int64_t bits = (int64_t)number;
    const int32_t at = (int32_t)(bits % MOST_HANDLES);
    if (at < entry_count && entries[at].kind == kind && entries[at].device == device &&
        entries[at].uses == bits / MOST_HANDLES) {
      thing = entries[at].thing;
      if (last) {
        entries[at].kind = RM_NO_HANDLE;
        entries[at].next_free = first_free;
        first_free = at;
      }
    }
  }
  rm_mutex_unlock(&handle_guard);
  if (thing == NULL) {
    static const char *const names[] = {"", "ticket", "graph", "event"};
    rm_fail(RM_BAD_ARGUMENT, "%.0f is no %s of CUDA device %d, or not any more", number,
            names[kind], device->index);
  }
  return thing;
}
#endif
