/*
 * Working memory of matrix products, kept from one call to the next.
 */
#include <stdlib.h>
#include "gemm_context.h"

/* What the last call left. */
static _Atomic(workspace *) kept;

workspace *RM_AT(take_workspace)(size_t size, int flags) {
  workspace *found = atomic_exchange(&kept, NULL);
  if (found == NULL || found->size < size || found->flags < flags) {
    free(found);
    found = malloc(sizeof *found + (size_t)flags * sizeof(atomic_flag) + ALIGNMENT + size);
    if (found == NULL) return NULL;
    found->size = size;
    found->flags = flags;
    found->data = (char *)(((uintptr_t)(found->taken + flags) + ALIGNMENT - 1) / ALIGNMENT *
                           ALIGNMENT);
  }
  for (int i = 0; i < flags; i++) atomic_flag_clear(&found->taken[i]);
  return found;
}

void RM_AT(leave_workspace)(workspace *used) {
  if (used->size > KEPT_BYTES) free(used);
  else free(atomic_exchange(&kept, used));
}
