#include "internal.h"
int32_t RM_AT(sort)(int32_t dtype, int32_t flags, const double *plan, void *values, void *indices);
int32_t RM_AT(sort)(int32_t dtype, int32_t flags, const double *plan, void *values, void *indices) {
  (void)dtype;
  (void)flags;
  (void)plan;
  (void)values;
  (void)indices;
  return RM_UNSUPPORTED;
}
