#include "internal.h"
int32_t RM_AT(matmul)(int32_t dtype, const double *plan, void *c, const void *a, const void *b);
int32_t RM_AT(matmul)(int32_t dtype, const double *plan, void *c, const void *a, const void *b) {
  (void)dtype;
  (void)plan;
  (void)c;
  (void)a;
  (void)b;
  return RM_UNSUPPORTED;
}
