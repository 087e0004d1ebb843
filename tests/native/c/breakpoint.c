/*
 * One float32 addition of four elements. breakpoint_test.ts stops in it.
 */
#include <stdio.h>
#include "internal.h"

int main(void) {
  const float a[4] = {1, 2, 3, 4}, b[4] = {10, 20, 30, 40};
  float out[4] = {0};
  /* One axis of four elements, contiguous in all operands. */
  double plan[RM_OFFSETS + 7] = {[RM_PLAN_RANK] = 1, [RM_PLAN_OPERANDS] = 3, [RM_OFFSETS + 3] = 4,
                                 [RM_OFFSETS + 4] = 1, [RM_OFFSETS + 5] = 1, [RM_OFFSETS + 6] = 1};
  const int32_t dtypes = RM_FLOAT32 | RM_FLOAT32 << 8 | RM_FLOAT32 << 16 | (int32_t)(255u << 24);
  const int32_t status =
      rm_run(RM_OP_add, dtypes, RM_FLOAT32, plan, out, (void *)a, (void *)b, NULL);
  printf("status %d: %g %g %g %g\n", (int)status, out[0], out[1], out[2], out[3]);
  return 0;
}
