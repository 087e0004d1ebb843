/*
 * Error messages of the CUDA runtime and driver.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <string.h>

bool rm_cuda_is_fatal(int code) {
  return code == 214 || code == 220 || code == 226 || code == 700 || code == 702 || code == 709 ||
         code == 710 || (code >= 714 && code <= 719) || code == 721;
}

/* Kernels run asynchronously, so a later call may report their errors. */
int32_t rm_cuda_error(const char *call, int code) {
  const char *name = NULL, *words = NULL;
  if (strncmp(call, "cuda", 4) == 0) {
    name = rm_cu.cudaGetErrorName(code);
    words = rm_cu.cudaGetErrorString(code);
  } else {
    rm_cu.cuGetErrorName(code, &name);
    rm_cu.cuGetErrorString(code, &words);
  }
  return rm_fail(RM_DEVICE_ERROR, "%s: %s (%d): %s%s", call, name == NULL ? "error" : name, code,
                 words == NULL ? "" : words,
                 rm_cuda_is_fatal(code)
                     ? "; the work that was queued is lost, and no device works until "
                       "this process is started again"
                     : "");
}
#endif
