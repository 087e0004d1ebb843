#include "internal.h"
int32_t RM_AT(softmax)(int32_t kind, int32_t dtype, const double *plan, void *out, const void *a);
int32_t RM_AT(softmax)(int32_t kind, int32_t dtype, const double *plan, void *out, const void *a) {
  (void)kind;
  (void)dtype;
  (void)plan;
  (void)out;
  (void)a;
  return RM_UNSUPPORTED;
}
