/*
 * Moves elements by positions: blocks to and from them, indexes to positions, the places of what is
 * not zero.
 *
 * Elements are moved as they are: only their size counts, and for zeros their sign. Positions and
 * indexes, which no plan bounds, are checked here, before anything is moved.
 */
#include <string.h>
#include "internal.h"

/* Elements that are read into a buffer at a time. */
enum { BLOCK = 256 };

/* Bytes to a task: some 20 microseconds of copying from memory. */
enum { TASK = 256 * 1024, BYTES_EACH_NANOSECOND = 12 };

/* ---- gather and scatter ------------------------------------------------------------------------ */

/*
 * Operand 0 of the walk is the target, 1 the source. One of them goes step[k] bytes further from
 * block to block, and has 0 in scale; the other one is scale[k] bytes times the position further,
 * and has 0 in step.
 */
typedef struct {
  rm_walk walk;
  const void *positions;
  bool wide;
  ptrdiff_t step[2], scale[2];
  ptrdiff_t bytes, count, per_task;
  /* The first axes of the block that are walked outside the loop over positions. */
  int outside;
} blocks;

/* Places of block i, given those of position 0. */
static inline void place(const blocks *b, ptrdiff_t i, char *const *at, char **moved) {
  const ptrdiff_t position = b->wide ? (ptrdiff_t)((const double *)b->positions)[i]
                                     : ((const int32_t *)b->positions)[i];
  for (int k = 0; k < 2; k++) moved[k] = at[k] + i * b->step[k] + position * b->scale[k];
}

/* Copies n bytes for each position from first to end; a constant n makes its own loop. */
static inline __attribute__((always_inline)) void copy_runs(const blocks *b, ptrdiff_t first,
                                                            ptrdiff_t end, char *const *at,
                                                            size_t n) {
  for (ptrdiff_t i = first; i < end; i++) {
    char *moved[2];
    place(b, i, at, moved);
    memcpy(moved[0], moved[1], n);
  }
}

#define COPY_STRIDED(T)                                            \
  for (ptrdiff_t i = 0; i < n; i++) {                              \
    *(T *)(to + i * to_step) = *(const T *)(from + i * from_step); \
  }

static void copy_strided(ptrdiff_t bytes, ptrdiff_t n, char *to, ptrdiff_t to_step,
                         const char *from, ptrdiff_t from_step) {
  switch (bytes) {
    case 1: COPY_STRIDED(uint8_t) break;
    case 2: COPY_STRIDED(uint16_t) break;
    case 4: COPY_STRIDED(uint32_t) break;
    default: COPY_STRIDED(uint64_t)
  }
}

/* Copies the axes of a block from `outside` on, one position after the other. */
static void copy_walks(const blocks *b, ptrdiff_t first, ptrdiff_t end, char *const *at) {
  const rm_walk *walk = &b->walk;
  const int inner = walk->rank - 1;
  const ptrdiff_t n = walk->size[inner];
  const ptrdiff_t to_step = walk->step[inner][0], from_step = walk->step[inner][1];
  ptrdiff_t count[RM_MAX_RANK] = {0};
  for (ptrdiff_t i = first; i < end; i++) {
    char *moved[RM_MAX_OPERANDS];
    place(b, i, at, moved);
    do copy_strided(b->bytes, n, moved[0], to_step, moved[1], from_step);
    while (rm_next(walk, b->outside, inner, count, moved));
  }
}

static void copy_task(void *context, ptrdiff_t index) {
  const blocks *b = context;
  const rm_walk *walk = &b->walk;
  const ptrdiff_t first = index * b->per_task;
  const ptrdiff_t end = first + b->per_task < b->count ? first + b->per_task : b->count;
  const int inside = walk->rank - b->outside, inner = walk->rank - 1;
  const bool dense = inside == 0 ||
                     (inside == 1 && (walk->size[inner] == 1 ||
                                      (walk->inner[0] == 1 && walk->inner[1] == 1)));
  const ptrdiff_t run = inside == 0 ? b->bytes : walk->size[inner] * b->bytes;
  char *at[RM_MAX_OPERANDS] = {walk->start[0], walk->start[1]};
  ptrdiff_t count[RM_MAX_RANK] = {0};
  do {
    if (!dense) copy_walks(b, first, end, at);
    else if (run == 1) copy_runs(b, first, end, at, 1);
    else if (run == 2) copy_runs(b, first, end, at, 2);
    else if (run == 4) copy_runs(b, first, end, at, 4);
    else if (run == 8) copy_runs(b, first, end, at, 8);
    else copy_runs(b, first, end, at, (size_t)run);
  } while (rm_next(walk, 0, b->outside, count, at));
}

/* True when every position is one from least to most. */
static bool lie_within(const blocks *b, double least, double most) {
  int outside = 0;
  if (b->wide) {
    const double *at = b->positions;
    for (ptrdiff_t i = 0; i < b->count; i++) outside |= !(at[i] >= least && at[i] <= most);
  } else {
    const int32_t *at = b->positions;
    /* What int32 does not hold bounds nothing. */
    if (least > INT32_MAX || most < INT32_MIN) return b->count == 0;
    const int32_t low = least < INT32_MIN ? INT32_MIN : (int32_t)least;
    const int32_t high = most > INT32_MAX ? INT32_MAX : (int32_t)most;
    for (ptrdiff_t i = 0; i < b->count; i++) outside |= (at[i] < low) | (at[i] > high);
  }
  return outside == 0;
}

static int32_t move_blocks(bool scatter, int dtype, bool wide, const double *plan,
                           const double *numbers, void *target, const void *source,
                           const void *positions) {
  const int dense = scatter ? 1 : 0;
  blocks b = {.positions = positions, .wide = wide};
  void *const buffers[] = {target, (void *)source};
  const int32_t status =
      rm_read_plan(&b.walk, plan, 2, RM_DTYPES(dtype, dtype, dtype, RM_NONE, RM_NONE), buffers);
  if (status != RM_OK || b.walk.empty || numbers[0] <= 0 || positions == NULL) return status;
  b.bytes = rm_bytes(dtype);
  b.count = (ptrdiff_t)numbers[0];
  if (!lie_within(&b, numbers[2], numbers[3])) {
    return rm_fail(RM_BAD_ARGUMENT, "a position leaves [%.0f, %.0f]", numbers[2], numbers[3]);
  }
  b.step[dense] = (ptrdiff_t)numbers[1] * b.bytes;
  b.scale[1 - dense] = b.bytes;
  /* Axes that are longer steps for the dense operand than positions are go outside, so that it is
   * walked from one end to the other. */
  const ptrdiff_t step = b.step[dense] < 0 ? -b.step[dense] : b.step[dense];
  for (; b.outside < b.walk.rank; b.outside++) {
    const ptrdiff_t stride = b.walk.step[b.outside][dense];
    if ((stride < 0 ? -stride : stride) <= step) break;
  }
  ptrdiff_t size = b.bytes;
  for (int axis = 0; axis < b.walk.rank; axis++) size *= b.walk.size[axis];
  /* Positions may be equal: what is scattered stays in order, on one thread. */
  b.per_task = scatter ? b.count : size >= TASK ? 1 : TASK / size;
  const double work = (double)(b.count * size) / BYTES_EACH_NANOSECOND;
  rm_parallel((b.count + b.per_task - 1) / b.per_task, work, copy_task, &b);
  return RM_OK;
}

/* ---- positions --------------------------------------------------------------------------------- */

#define READ_INDEXES(T)                                                                  \
  if (step == sizeof(T)) {                                                               \
    for (ptrdiff_t i = 0; i < n; i++) out[i] = (int64_t)((const T *)from)[i];            \
  } else {                                                                               \
    for (ptrdiff_t i = 0; i < n; i++) out[i] = (int64_t)*(const T *)(from + i * step);   \
  }

/* Those of uint64 that int64 does not hold become negative ones that no size reaches. */
static void read_indexes(int dtype, const char *from, ptrdiff_t step, ptrdiff_t n, int64_t *out) {
  switch (dtype) {
    case RM_INT8: READ_INDEXES(int8_t) break;
    case RM_INT16: READ_INDEXES(int16_t) break;
    case RM_INT32: READ_INDEXES(int32_t) break;
    case RM_UINT16: READ_INDEXES(uint16_t) break;
    case RM_UINT32: READ_INDEXES(uint32_t) break;
    case RM_INT64: READ_INDEXES(int64_t) break;
    case RM_UINT64:
      READ_INDEXES(uint64_t)
      for (ptrdiff_t i = 0; i < n; i++) {
        out[i] = *(const uint64_t *)(from + i * step) > INT64_MAX ? INT64_MIN : out[i];
      }
      break;
    default: READ_INDEXES(uint8_t)
  }
}

static int32_t add_positions(int dtype, bool wide, const double *plan, double *numbers,
                             void *target, const void *source) {
  const int64_t size = (int64_t)numbers[0], stride = (int64_t)numbers[1];
  numbers[0] = -1;
  rm_walk walk;
  void *const buffers[] = {target, (void *)source};
  const int positions = wide ? RM_FLOAT64 : RM_INT32;
  const int32_t status =
      rm_read_plan(&walk, plan, 2, RM_DTYPES(dtype, positions, dtype, RM_NONE, RM_NONE), buffers);
  if (status != RM_OK || walk.empty) return status;
  const int inner = walk.rank - 1;
  const ptrdiff_t n = walk.rank == 0 ? 1 : walk.size[inner];
  const ptrdiff_t to_step = walk.rank == 0 ? 0 : walk.step[inner][0];
  const ptrdiff_t from_step = walk.rank == 0 ? 0 : walk.step[inner][1];
  char *at[RM_MAX_OPERANDS] = {walk.start[0], walk.start[1]};
  ptrdiff_t count[RM_MAX_RANK] = {0}, done = 0;
  do {
    for (ptrdiff_t first = 0; first < n; first += BLOCK) {
      ptrdiff_t length = n - first < BLOCK ? n - first : BLOCK;
      int64_t indexes[BLOCK];
      read_indexes(dtype, at[1] + first * from_step, from_step, length, indexes);
      int bad = 0;
      for (ptrdiff_t i = 0; i < length; i++) bad |= (indexes[i] < -size) | (indexes[i] >= size);
      if (bad) {
        for (length = 0; indexes[length] >= -size && indexes[length] < size;) length++;
        numbers[0] = (double)(done + first + length);
      }
      char *to = at[0] + first * to_step;
      if (wide) {
        for (ptrdiff_t i = 0; i < length; i++) {
          const int64_t index = indexes[i] + (indexes[i] < 0 ? size : 0);
          *(double *)(to + i * to_step) += (double)(index * stride);
        }
      } else {
        for (ptrdiff_t i = 0; i < length; i++) {
          const int32_t near = (int32_t)indexes[i];
          const int32_t index = near + (near < 0 ? (int32_t)size : 0);
          *(int32_t *)(to + i * to_step) += index * (int32_t)stride;
        }
      }
      if (bad) return RM_OK;
    }
    done += n;
  } while (rm_next(&walk, 0, inner, count, at));
  return RM_OK;
}

/* ---- what is not zero -------------------------------------------------------------------------- */

/* Every place is written, and those of zeros written over: into a buffer, as the target has no
 * room for the last of them. */
#define FIND(T, MASK)                                              \
  for (ptrdiff_t at = 0; at < length; at += BLOCK) {               \
    const T *x = (const T *)source + offset + at;                  \
    const ptrdiff_t n = length - at < BLOCK ? length - at : BLOCK; \
    int32_t found[BLOCK];                                          \
    ptrdiff_t count = 0;                                           \
    for (ptrdiff_t i = 0; i < n; i++) {                            \
      found[count] = (int32_t)(at + i);                            \
      count += (x[i] & (T)(MASK)) != 0;                            \
    }                                                              \
    if (count > end - target) return false;                        \
    memcpy(target, found, (size_t)count * sizeof *found);          \
    target += count;                                               \
  }

/* Of floats all bits but the sign count: -0 is zero, NaN is not. False when there are more than
 * target has room for, up to end. */
static bool find_nonzero(int dtype, ptrdiff_t offset, ptrdiff_t length, int32_t *target,
                         const int32_t *end, const void *source) {
  const uint64_t sign = dtype >= RM_FLOAT16 ? UINT64_C(1) << (8 * rm_bytes(dtype) - 1) : 0;
  const uint64_t mask = ~sign;
  switch (rm_bytes(dtype)) {
    case 1: FIND(uint8_t, mask) break;
    case 2: FIND(uint16_t, mask) break;
    case 4: FIND(uint32_t, mask) break;
    default: FIND(uint64_t, mask)
  }
  return true;
}

int32_t rm_move(int32_t what, int32_t dtype, int32_t wide, const double *plan, double *numbers,
                void *target, const void *source, const void *positions) {
  if (dtype < 0 || dtype >= RM_DTYPE_COUNT || (what == RM_POSITION && dtype >= RM_FLOAT16)) {
    return rm_fail(RM_BAD_ARGUMENT, "move: no kind %d of dtype %d", (int)what, (int)dtype);
  }
  switch (what) {
    case RM_GATHER:
    case RM_SCATTER:
      return move_blocks(what == RM_SCATTER, dtype, wide != 0, plan, numbers, target, source,
                         positions);
    case RM_POSITION: return add_positions(dtype, wide != 0, plan, numbers, target, source);
    case RM_NONZERO:
      if (target == NULL || source == NULL) return RM_OK;
      if (find_nonzero(dtype, (ptrdiff_t)numbers[0], (ptrdiff_t)numbers[1], target,
                       (int32_t *)target + (ptrdiff_t)numbers[2], source)) {
        return RM_OK;
      }
      return rm_fail(RM_BAD_ARGUMENT, "more than %.0f elements are not zero", numbers[2]);
    default: return rm_fail(RM_BAD_ARGUMENT, "move: no kind %d", (int)what);
  }
}
