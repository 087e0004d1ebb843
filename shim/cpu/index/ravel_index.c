/*
 * Adds indexes along one axis to flat indexes.
 */
#include "index.h"

#define ADD_PLACES(T)                                                                          \
  if (one) {                                                                                   \
    T *o = (T *)to;                                                                            \
    const T by = (T)places[0] * (T)stride;                                                     \
    for (ptrdiff_t i = 0; i < good; i++) o[i] += by;                                           \
  } else if (to_step == sizeof(T)) {                                                           \
    T *o = (T *)to;                                                                            \
    for (ptrdiff_t i = 0; i < good; i++) o[i] += (T)places[i] * (T)stride;                     \
  } else {                                                                                     \
    for (ptrdiff_t i = 0; i < good; i++) *(T *)(to + i * to_step) += (T)places[i] * (T)stride; \
  }

int32_t rm_ravel_index(int dtype, int index_dtype, const double *plan, double *numbers,
                       void *target, const void *indexes) {
  const int64_t size = (int64_t)numbers[0], stride = (int64_t)numbers[1];
  numbers[0] = -1;
  rm_walk walk;
  void *const buffers[] = {target, (void *)indexes};
  const int32_t status = rm_read_plan(
      &walk, plan, 2, RM_DTYPES(index_dtype, dtype, index_dtype, RM_NONE, RM_NONE), buffers);
  if (status != RM_OK || walk.empty) return status;
  const int inner = walk.rank - 1;
  const ptrdiff_t n = walk.rank == 0 ? 1 : walk.size[inner];
  const ptrdiff_t to_step = walk.rank == 0 ? 0 : walk.step[inner][0];
  const ptrdiff_t from_step = walk.rank == 0 ? 0 : walk.step[inner][1];
  char *at[RM_MAX_OPERANDS] = {walk.start[0], walk.start[1]};
  ptrdiff_t count[RM_MAX_RANK] = {0}, done = 0;
  do {
    for (ptrdiff_t first = 0; first < n; first += BLOCK) {
      const ptrdiff_t length = rm_least(BLOCK, n - first);
      int64_t places[BLOCK];
      const char *from = at[1] + first * from_step;
      const bool one = from_step == 0 && to_step == rm_bytes(dtype);
      ptrdiff_t good =
          rm_level()->places(index_dtype, from, from_step, one ? 1 : length, size, places);
      if (one && good == 1) good = length;
      char *to = at[0] + first * to_step;
      if (dtype == RM_INT64) ADD_PLACES(int64_t)
      else ADD_PLACES(int32_t)
      if (good < length) {
        numbers[0] = (double)(done + first + good);
        return RM_OK;
      }
    }
    done += n;
  } while (rm_next(&walk, 0, inner, count, at));
  return RM_OK;
}
