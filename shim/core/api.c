/*
 * The exported functions, except those of kernels, BLAS, buffers and CUDA.
 */
#include <string.h>
#include "internal.h"

int32_t rm_version(void) { return RM_VERSION; }

int32_t rm_abi_hash(void) { return (int32_t)RM_ABI_HASH; }

int32_t rm_address_of(const void *memory, void *address) {
  const uint64_t number = (uintptr_t)memory;
  memcpy(address, &number, sizeof number);
  return RM_OK;
}

int32_t rm_configure(int32_t what, int32_t value) {
  switch (what) {
    case RM_CONFIGURE_THREADS:
      if (value >= 0) {
        rm_set_threads(value);
        rm_blas_threads(rm_threads());
      }
      return rm_threads();
    case RM_CONFIGURE_LEVEL: return rm_set_isa(value);
    case RM_CONFIGURE_SHARE_ALL: return rm_always_parallel(value);
    case RM_CONFIGURE_ENVIRONMENT: return rm_check_environment(rm_has_isa);
    case RM_CONFIGURE_USED_THREADS: return rm_used_threads();
    default: return -1;
  }
}
