#include "internal.h"
int32_t rm_move(int32_t what, int32_t dtype, int32_t wide, const double *plan, double *numbers,
                void *target, const void *source, const void *positions) {
  (void)what, (void)dtype, (void)wide, (void)plan, (void)numbers;
  (void)target, (void)source, (void)positions;
  return RM_UNSUPPORTED;
}
