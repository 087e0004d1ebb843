#include "internal.h"
int32_t RM_AT(random)(int32_t dtype, int32_t kind, const int32_t *words, double length, void *out);
int32_t RM_AT(random)(int32_t dtype, int32_t kind, const int32_t *words, double length, void *out) {
  (void)dtype;
  (void)kind;
  (void)words;
  (void)length;
  (void)out;
  return RM_UNSUPPORTED;
}
