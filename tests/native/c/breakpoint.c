/*
 * One float32 addition of four elements. breakpoint_test.ts stops in it.
 */
#include <stdio.h>
#include "internal.h"
#include "ops.def"

int main(void) {
  const float a[4] = {1, 2, 3, 4}, b[4] = {10, 20, 30, 40};
  float out[4] = {0};
  /* One axis of four elements, contiguous in all operands. */
  const double plan[] = {1, 3, 0, 0, 0, 0, 0, 0, 0, 4, 1, 1, 1};
  const int32_t dtypes = RM_DTYPES(RM_FLOAT32, RM_FLOAT32, RM_FLOAT32, RM_FLOAT32, RM_NONE);
  const int32_t status = rm_map(RM_OP_add, dtypes, plan, out, a, b, NULL);
  printf("status %d: %g %g %g %g\n", (int)status, out[0], out[1], out[2], out[3]);
  return 0;
}
