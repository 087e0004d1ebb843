/*
 * The workspace of matrix products, which is cached between calls.
 */
#include <stdlib.h>
#include "gemm_context.h"

/* The workspace of the last call. */
static _Atomic(gemm_workspace *) cached;

gemm_workspace *RM_FOR_ISA(workspace_alloc)(size_t size, int slots) {
  gemm_workspace *found = atomic_exchange(&cached, NULL);
  if (found == NULL || found->size < size || found->slots < slots) {
    free(found);
    found = malloc(sizeof *found + (size_t)slots * sizeof(atomic_flag) + ALIGNMENT + size);
    if (found == NULL) return NULL;
    found->size = size;
    found->slots = slots;
    found->data = (char *)(((uintptr_t)(found->slot_taken + slots) + ALIGNMENT - 1) / ALIGNMENT *
                           ALIGNMENT);
  }
  for (int i = 0; i < slots; i++) atomic_flag_clear(&found->slot_taken[i]);
  return found;
}

void RM_FOR_ISA(workspace_free)(gemm_workspace *used) {
  if (used->size > CACHED_WORKSPACE_BYTES) free(used);
  else free(atomic_exchange(&cached, used));
}
