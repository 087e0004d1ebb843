/*
 * Gathers along an axis by an array of indexes that is as long as the result along the others.
 */
#include "index.h"

/* Elements of a task. */
enum { TAKEN = 8192 };

typedef struct {
  rm_walk walk;
  int by;
  ptrdiff_t bytes, rows, columns;
  int64_t size;
  ptrdiff_t scale;
  /* How the work is cut: rows for each task, and parts of a row. */
  ptrdiff_t task_rows, parts;
  /* The first element whose index is out of range. */
  first_bad bad;
} takes;

#define TAKE_EACH(T, to_step, from_step)                                                     \
  for (ptrdiff_t i = 0; i < n; i++) {                                                        \
    *(T *)(to + i * (to_step)) = *(const T *)(from + i * (from_step) + places[i] * t->scale); \
  }
#define TAKE(T)                                                                        \
  if (step[0] == sizeof(T) && step[1] == 0 && t->scale == sizeof(T)) {                 \
    T *o = (T *)to;                                                                    \
    const T *p = (const T *)from;                                                      \
    for (ptrdiff_t i = 0; i < n; i++) o[i] = p[places[i]];                             \
  } else TAKE_EACH(T, step[0], step[1])

/* One part of a row; gives how many places there are before the first that is out of range. */
static ptrdiff_t take_run(const takes *t, ptrdiff_t n, char *to, const char *from,
                          const char *indexes, const ptrdiff_t *step) {
  int64_t places[BLOCK];
  n = rm_level()->places(t->by, indexes, step[2], n, t->size, places);
  switch (t->bytes) {
    case 1: TAKE(uint8_t) break;
    case 2: TAKE(uint16_t) break;
    case 4: TAKE(uint32_t) break;
    default: TAKE(uint64_t)
  }
  return n;
}

static void take_task(void *context, ptrdiff_t index) {
  takes *t = context;
  const rm_walk *walk = &t->walk;
  const int inner = walk->rank - 1;
  ptrdiff_t row = index / t->parts * t->task_rows;
  const ptrdiff_t last = rm_least(row + t->task_rows, t->rows);
  const ptrdiff_t begin = index % t->parts * TAKEN;
  const ptrdiff_t end = t->parts == 1 ? t->columns : rm_least(begin + TAKEN, t->columns);
  static const ptrdiff_t none[RM_MAX_OPERANDS] = {0};
  const ptrdiff_t *step = inner < 0 ? none : walk->step[inner];
  char *at[RM_MAX_OPERANDS] = {walk->start[0], walk->start[1], walk->start[2]};
  ptrdiff_t count[RM_MAX_RANK] = {0};
  rm_seek(walk, inner, row, count, at);
  for (; row < last; row++, rm_next(walk, 0, inner, count, at)) {
    for (ptrdiff_t i = begin; i < end; i += BLOCK) {
      const ptrdiff_t n = rm_least(BLOCK, end - i);
      const ptrdiff_t good = take_run(t, n, at[0] + i * step[0], at[1] + i * step[1],
                                      at[2] + i * step[2], step);
      if (good == n) continue;
      note_bad(&t->bad, row * t->columns + i + good);
      return;
    }
  }
}

int32_t rm_take_along_axis(int dtype, int by, const double *plan, double *numbers, void *target,
                           const void *source, const void *indexes) {
  takes t = {.by = by, .bytes = rm_bytes(dtype), .size = (int64_t)numbers[0], .bad = PTRDIFF_MAX};
  t.scale = (ptrdiff_t)numbers[1] * t.bytes;
  numbers[0] = -1;
  void *const buffers[] = {target, (void *)source, (void *)indexes};
  const int32_t status =
      rm_read_plan(&t.walk, plan, 3, RM_DTYPES(dtype, dtype, dtype, by, RM_NONE), buffers);
  if (status != RM_OK || t.walk.empty) return status;
  const int inner = t.walk.rank - 1;
  t.columns = inner < 0 ? 1 : t.walk.size[inner];
  t.rows = 1;
  for (int axis = 0; axis < inner; axis++) t.rows *= t.walk.size[axis];
  t.parts = t.rows >= 64 ? 1 : rm_parts(t.columns, TAKEN);
  t.task_rows = t.columns >= TAKEN ? 1 : TAKEN / t.columns;
  const ptrdiff_t tasks = rm_parts(t.rows, t.task_rows) * t.parts;
  rm_parallel(tasks, (double)(t.rows * t.columns), take_task, &t);
  if (t.bad != PTRDIFF_MAX) numbers[0] = (double)t.bad;
  return RM_OK;
}
