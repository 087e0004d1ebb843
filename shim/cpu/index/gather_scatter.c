/*
 * Moves elements by indexes: blocks to and from where they say, several of them to one, the places
 * of what is not zero.
 *
 * Elements are moved as they are: only their size counts, and for zeros their sign. Indexes, which
 * no plan bounds, are checked here, before anything is moved that they point to.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "half.h"
#include "internal.h"

/* Indexes, or elements, that are read into a buffer at a time. */
enum { BLOCK = RM_INDEX_BLOCK };

/* Bytes to a task: some microseconds of copying from memory. */
enum { TASK = 64 * 1024, BYTES_EACH_NANOSECOND = 12 };

/* ---- gather, scatter, sums --------------------------------------------------------------------- */

/* Where the first of the bad indexes is that have been seen, or beyond the last index. */
typedef _Atomic(ptrdiff_t) first_bad;

static void note_bad(first_bad *bad, ptrdiff_t at) {
  ptrdiff_t known = atomic_load(bad);
  while (at < known && !atomic_compare_exchange_weak(bad, &known, at)) {}
}

/* Copies n elements, or adds them; steps are in bytes. */
typedef void move_run(ptrdiff_t n, char *to, ptrdiff_t to_step, const char *from, ptrdiff_t from_step);

/*
 * Operand 0 of the walk is the target, 1 the source. One of them goes step[k] bytes further from
 * block to block, and has 0 in scale; the other one is scale[k] bytes times the index further, and
 * has 0 in step.
 */
typedef struct {
  rm_walk walk;
  const char *indexes;
  int dtype;
  int64_t size;
  first_bad *bad;
  /* What the indexes say, where that has been kept. */
  const int64_t *places;
  ptrdiff_t step[2], scale[2];
  ptrdiff_t bytes, count;
  /* The first axes of the block that are walked outside the loop over indexes, and their places. */
  int outside;
  ptrdiff_t positions;
  /* A task has so many of those, and of indexes. */
  ptrdiff_t task_positions, task_count;
  /* What blocks that are not copied as dense ones are moved by. */
  move_run *move;
  bool adds;
} blocks;

/* Reads n indexes from the one at `first` on as places; false, noting it, where one is bad. */
static bool read_places(const blocks *b, ptrdiff_t first, ptrdiff_t n, int64_t *places) {
  const ptrdiff_t width = rm_bytes(b->dtype);
  const char *from = b->indexes + first * width;
  const ptrdiff_t good = rm_level()->places(b->dtype, from, width, n, b->size, places);
  if (good < n) note_bad(b->bad, first + good);
  return good == n;
}

/* Goes from the places of block 0 at index 0 to those of block i at index `place`. */
static inline void go(const blocks *b, ptrdiff_t i, int64_t place, char *const *at, char **moved) {
  for (int k = 0; k < 2; k++) moved[k] = at[k] + i * b->step[k] + place * b->scale[k];
}

/* Copies n bytes for each of the places; a constant n makes its own loop. */
static inline __attribute__((always_inline)) void copy_runs(const blocks *b, const int64_t *places,
                                                            ptrdiff_t count, char *const *at,
                                                            ptrdiff_t n) {
  for (ptrdiff_t i = 0; i < count; i++) {
    char *moved[2];
    go(b, i, places[i], at, moved);
    rm_copy(moved[0], moved[1], n);
  }
}

/* The same of single elements. */
#define COPY_EACH(T)                                                                    \
  if (b->scale[0] == 0) {                                                               \
    _Pragma("clang loop unroll_count(2)") for (ptrdiff_t i = 0; i < count; i++) {       \
      *(T *)(at[0] + i * b->step[0]) = *(const T *)(at[1] + places[i] * b->scale[1]);   \
    }                                                                                   \
  } else {                                                                              \
    for (ptrdiff_t i = 0; i < count; i++) {                                             \
      *(T *)(at[0] + places[i] * b->scale[0]) = *(const T *)(at[1] + i * b->step[1]);   \
    }                                                                                   \
  }

static void copy_each(const blocks *b, const int64_t *places, ptrdiff_t count, char *const *at) {
  switch (b->bytes) {
    case 1: COPY_EACH(uint8_t) break;
    case 2: COPY_EACH(uint16_t) break;
    case 4: COPY_EACH(uint32_t) break;
    default: COPY_EACH(uint64_t)
  }
}

#define RUN(name, T, TO, FROM, WRITE)                                                 \
  static void name(ptrdiff_t n, char *to, ptrdiff_t to_step, const char *from,        \
                   ptrdiff_t from_step) {                                             \
    RM_SCALAR for (; n > 0; n--, to += to_step, from += from_step) {                  \
      *(T *)to = WRITE(TO(*(T *)to) FROM(*(const T *)from));                          \
    }                                                                                 \
  }
#define NOTHING(v)
RUN(copy_8, uint8_t, NOTHING, , )
RUN(copy_16, uint16_t, NOTHING, , )
RUN(copy_32, uint32_t, NOTHING, , )
RUN(copy_64, uint64_t, NOTHING, , )
RUN(add_8, uint8_t, , +, (uint8_t))
RUN(add_16, uint16_t, , +, (uint16_t))
RUN(add_half, uint16_t, rm_from_half, +rm_from_half, rm_to_half)
RUN(add_brain, uint16_t, rm_from_brain, +rm_from_brain, rm_to_brain)

/* Those that have vectors for dense elements. */
#define DENSE_RUN(name, T)                                                            \
  RUN(name##_strided, T, , +, )                                                       \
  static void name(ptrdiff_t n, char *to, ptrdiff_t to_step, const char *from,        \
                   ptrdiff_t from_step) {                                             \
    if (to_step != sizeof(T) || from_step != sizeof(T)) {                             \
      name##_strided(n, to, to_step, from, from_step);                                \
      return;                                                                         \
    }                                                                                 \
    T *o = (T *)to;                                                                   \
    const T *p = (const T *)from;                                                     \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) o[i] += p[i];                      \
  }
DENSE_RUN(add_32, uint32_t)
DENSE_RUN(add_64, uint64_t)
DENSE_RUN(add_float, float)
DENSE_RUN(add_double, double)

static move_run *move_of(bool adds, int dtype) {
  static move_run *const copies[] = {copy_8, copy_16, copy_32, copy_64};
  static move_run *const sums[] = {add_8, add_16, add_32, add_64};
  static move_run *const floats[] = {add_half, add_brain, add_float, add_double};
  if (adds && dtype >= RM_FLOAT16) return floats[dtype - RM_FLOAT16];
  return (adds ? sums : copies)[__builtin_ctz((unsigned)rm_bytes(dtype))];
}

/* Adds single elements, of 4 or 8 bytes; false for others. */
#define ADD_EACH(T)                                                                \
  for (ptrdiff_t i = 0; i < count; i++) {                                          \
    *(T *)(at[0] + places[i] * b->scale[0]) += *(const T *)(at[1] + i * b->step[1]); \
  }

static bool add_each(const blocks *b, const int64_t *places, ptrdiff_t count, char *const *at) {
  if (b->move == add_float) ADD_EACH(float)
  else if (b->move == add_double) ADD_EACH(double)
  else if (b->move == add_32) ADD_EACH(uint32_t)
  else if (b->move == add_64) ADD_EACH(uint64_t)
  else return false;
  return true;
}

/* Moves the axes of a block from `outside` on, one place after the other. A function of its own would
 * take a nanosecond or two more for each. */
static inline __attribute__((always_inline)) void move_walks(const blocks *b, const int64_t *places,
                                                             ptrdiff_t count, char *const *at) {
  const rm_walk *walk = &b->walk;
  const int inner = walk->rank - 1;
  const bool one = inner < b->outside;
  const ptrdiff_t n = one ? 1 : walk->size[inner];
  const ptrdiff_t to_step = one ? 0 : walk->step[inner][0];
  const ptrdiff_t from_step = one ? 0 : walk->step[inner][1];
  ptrdiff_t counts[RM_MAX_RANK] = {0};
  for (ptrdiff_t i = 0; i < count; i++) {
    char *moved[RM_MAX_OPERANDS];
    go(b, i, places[i], at, moved);
    do b->move(n, moved[0], to_step, moved[1], from_step);
    while (rm_next(walk, b->outside, inner, counts, moved));
  }
}

static void move_task(void *context, ptrdiff_t index) {
  const blocks *b = context;
  const rm_walk *walk = &b->walk;
  const ptrdiff_t parts = rm_parts(b->count, b->task_count);
  const ptrdiff_t first = index % parts * b->task_count;
  const ptrdiff_t position = index / parts * b->task_positions;
  ptrdiff_t left = rm_least(b->task_positions, b->positions - position);
  ptrdiff_t count = rm_least(b->task_count, b->count - first);
  int64_t buffer[BLOCK];
  const int64_t *places = buffer;
  if (b->places != NULL) {
    places = b->places + first;
  } else {
    /* All were in range when they were checked. They may lie in shared memory, though, and another
     * thread may have changed them: nothing is moved by those that are not any more. */
    const ptrdiff_t width = rm_bytes(b->dtype);
    count = rm_level()->places(b->dtype, b->indexes + first * width, width, count, b->size, buffer);
  }
  const int inside = walk->rank - b->outside, inner = walk->rank - 1;
  const bool dense = inside == 0 ||
                     (inside == 1 && (walk->size[inner] == 1 ||
                                      (walk->inner[0] == 1 && walk->inner[1] == 1)));
  const ptrdiff_t run = inside == 0 ? b->bytes : walk->size[inner] * b->bytes;
  char *at[RM_MAX_OPERANDS];
  for (int k = 0; k < 2; k++) at[k] = walk->start[k] + first * b->step[k];
  ptrdiff_t counts[RM_MAX_RANK] = {0};
  rm_seek(walk, b->outside, position, counts, at);
  for (; left > 0; left--, rm_next(walk, 0, b->outside, counts, at)) {
    const bool single = dense && run == b->bytes;
    if (b->adds && single && add_each(b, places, count, at)) continue;
    if (b->adds || !dense) move_walks(b, places, count, at);
    else if (single) copy_each(b, places, count, at);
    else if (run == 2) copy_runs(b, places, count, at, 2);
    else if (run == 4) copy_runs(b, places, count, at, 4);
    else if (run == 8) copy_runs(b, places, count, at, 8);
    else if (run == 16) copy_runs(b, places, count, at, 16);
    else copy_runs(b, places, count, at, run);
  }
}

/* A task has all indexes, in their order, so that no two tasks add to one element. */
static void add_task(void *context, ptrdiff_t index) {
  const blocks *b = context;
  const ptrdiff_t parts = rm_parts(b->count, b->task_count);
  for (ptrdiff_t i = 0; i < parts; i++) move_task(context, index * parts + i);
}

/* Cuts the innermost axis of blocks into equal parts, one for each thread where that can be, which
 * become the first of the axes that are walked outside. What is added to what stays the same. */
enum { COLUMNS = 16 };

static void cut_columns(blocks *b) {
  rm_walk *walk = &b->walk;
  if (b->outside == walk->rank || walk->rank == RM_MAX_RANK) return;
  const ptrdiff_t columns = walk->size[walk->rank - 1];
  ptrdiff_t parts = rm_least(rm_threads(), columns / COLUMNS);
  while (parts > 1 && columns % parts != 0) parts--;
  if (parts <= 1) return;
  memmove(walk->size + 1, walk->size, (size_t)walk->rank * sizeof *walk->size);
  memmove(walk->step + 1, walk->step, (size_t)walk->rank * sizeof *walk->step);
  const int inner = walk->rank++;
  walk->size[0] = parts;
  walk->size[inner] /= parts;
  for (int k = 0; k < 2; k++) walk->step[0][k] = walk->step[inner][k] * walk->size[inner];
  b->outside++;
}

/*
 * Where blocks have few columns to share out, and are many more than the places they go to, equal
 * shares of them are added up in a table each, and the tables added to the target. How many there
 * are does not depend on threads.
 */
enum { SHARE = 16 * 1024, BLOCKS_A_PLACE = 4, MOST_TABLES = 64, MOST_BYTES = 64 << 20 };

typedef struct {
  /* The target is a table. */
  blocks into;
  char *memory;
  /* Of a table; blocks of a share. */
  ptrdiff_t bytes, share;
  /* 8 bytes of -0, or of the integer 0, to which all can be added. */
  uint64_t nothing;
} tables;

static void table_task(void *context, ptrdiff_t index) {
  const tables *t = context;
  const blocks *b = &t->into;
  const ptrdiff_t first = index * t->share, end = rm_least(b->count, first + t->share);
  char *table = t->memory + index * t->bytes;
  for (ptrdiff_t i = 0; i < t->bytes; i += 8) memcpy(table + i, &t->nothing, 8);
  int64_t places[BLOCK];
  for (ptrdiff_t i = first; i < end; i += BLOCK) {
    const ptrdiff_t n = rm_least(BLOCK, end - i);
    if (!read_places(b, i, n, places)) return;
    char *at[] = {table, b->walk.start[1] + i * b->step[1]};
    if (b->scale[0] > b->bytes || !add_each(b, places, n, at)) move_walks(b, places, n, at);
  }
}

/* False where it does not pay, and where there is no memory. Nothing is added if an index is bad. */
static bool add_in_tables(const blocks *b, int dtype) {
  tables t = {.into = *b};
  t.into.outside = 0;
  /* From a block of a table to one of the target. */
  rm_walk sum = b->walk;
  ptrdiff_t size = b->bytes;
  bool same = true;
  for (int axis = sum.rank - 1; axis >= 0; axis--) {
    same &= sum.size[axis] == 1 || sum.step[axis][0] == size;
    sum.step[axis][1] = t.into.walk.step[axis][0] = size;
    size *= sum.size[axis];
  }
  if (size >= 2 * COLUMNS * b->bytes || b->size == 0) return false;
  same &= b->scale[0] == size;
  t.into.scale[0] = size;
  t.bytes = rm_round_up(b->size * size, 8);
  const ptrdiff_t least = b->size * BLOCKS_A_PLACE;
  const ptrdiff_t most = rm_least(MOST_TABLES, MOST_BYTES / t.bytes);
  const ptrdiff_t count = rm_least(b->count / (least > SHARE ? least : SHARE), most);
  if (count < 2) return false;
  t.memory = malloc((size_t)(count * t.bytes));
  if (t.memory == NULL) return false;
  t.share = rm_parts(b->count, count);
  if (rm_is_float(dtype)) {
    t.nothing = UINT64_C(1) << 63;
    for (ptrdiff_t left = 8; left > b->bytes; left -= b->bytes) t.nothing |= t.nothing >> 8 * b->bytes;
  }
  rm_parallel(count, (double)(b->count * size / b->bytes), table_task, &t);
  for (ptrdiff_t i = 0; i < count && *b->bad == b->count; i++) {
    char *at[RM_MAX_OPERANDS] = {sum.start[0], t.memory + i * t.bytes};
    ptrdiff_t counts[RM_MAX_RANK] = {0};
    if (same) {
      b->move(b->size * size / b->bytes, at[0], b->bytes, at[1], b->bytes);
      continue;
    }
    do b->move(b->size, at[0], b->scale[0], at[1], size);
    while (rm_next(&sum, 0, sum.rank, counts, at));
  }
  free(t.memory);
  return true;
}

typedef struct {
  const blocks *b;
  /* What few indexes say is kept here. */
  int64_t *places;
} checks;

/* Indexes to a task. */
enum { CHECKED = 16 * BLOCK };

static void check_task(void *context, ptrdiff_t index) {
  const checks *c = context;
  const ptrdiff_t count = c->b->count, end = rm_least(count, (index + 1) * CHECKED);
  int64_t own[BLOCK];
  for (ptrdiff_t i = index * CHECKED; i < end; i += BLOCK) {
    int64_t *places = count <= BLOCK ? c->places : own;
    if (!read_places(c->b, i, rm_least(BLOCK, end - i), places)) return;
  }
}

static int32_t move_blocks(int what, int dtype, int index_dtype, const double *plan,
                           double *numbers, void *target, const void *source,
                           const void *indexes) {
  blocks b;
  void *const buffers[] = {target, (void *)source};
  const int32_t status =
      rm_read_plan(&b.walk, plan, 2, RM_DTYPES(dtype, dtype, dtype, RM_NONE, RM_NONE), buffers);
  if (status != RM_OK || indexes == NULL) return status;
  const ptrdiff_t width = rm_bytes(index_dtype);
  b.indexes = (const char *)indexes + (ptrdiff_t)numbers[0] * width;
  b.dtype = index_dtype;
  b.adds = what == RM_ADD_AT;
  b.move = move_of(b.adds, dtype);
  b.count = (ptrdiff_t)numbers[1];
  b.size = (int64_t)numbers[2];
  b.bytes = rm_bytes(dtype);
  const int dense = what == RM_GATHER ? 0 : 1;
  b.scale[dense] = b.step[1 - dense] = 0;
  b.scale[1 - dense] = (ptrdiff_t)numbers[3] * b.bytes;
  b.step[dense] = (ptrdiff_t)numbers[4] * b.bytes;
  first_bad bad = b.count;
  b.bad = &bad;
  const bool nothing = b.walk.empty || b.count == 0;
  const bool added = b.adds && !nothing && add_in_tables(&b, dtype);
  int64_t places[BLOCK];
  if (!added) {
    checks c = {&b, places};
    const double work = (double)(b.count * width) / BYTES_EACH_NANOSECOND;
    rm_parallel(rm_parts(b.count, CHECKED), work, check_task, &c);
  }
  numbers[0] = bad < b.count ? (double)bad : -1;
  if (bad < b.count || added || nothing) return RM_OK;
  b.places = b.count <= BLOCK ? places : NULL;
  /* Axes that are longer steps for the dense operand than indexes are go outside, so that it is
   * walked from one end to the other. */
  for (b.outside = 0; b.outside < b.walk.rank; b.outside++) {
    if (rm_magnitude(b.walk.step[b.outside][dense]) <= rm_magnitude(b.step[dense])) break;
  }
  if (b.adds) cut_columns(&b);
  ptrdiff_t size = b.bytes;
  b.positions = 1;
  for (int axis = 0; axis < b.walk.rank; axis++) {
    if (axis < b.outside) b.positions *= b.walk.size[axis];
    else size *= b.walk.size[axis];
  }
  b.task_count = size >= TASK ? 1 : rm_least(rm_least(BLOCK, TASK / size), b.count);
  b.task_positions = size * b.task_count >= TASK ? 1 : TASK / (size * b.task_count);
  const ptrdiff_t parts = rm_parts(b.count, b.task_count);
  const ptrdiff_t groups = rm_parts(b.positions, b.task_positions);
  const double work = (double)(b.count * b.positions) * (double)size / BYTES_EACH_NANOSECOND;
  if (b.adds) {
    rm_parallel(groups, work, add_task, &b);
  } else if (what == RM_SCATTER) {
    /* Indexes may be equal: the last one has to win. */
    for (ptrdiff_t i = 0; i < parts * groups; i++) move_task(&b, i);
  } else {
    rm_parallel(parts * groups, work, move_task, &b);
  }
  return RM_OK;
}

/* ---- positions --------------------------------------------------------------------------------- */

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

static int32_t add_positions(int dtype, int index_dtype, const double *plan, double *numbers,
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

/* ---- along an axis ----------------------------------------------------------------------------- */

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

static int32_t take_along(int dtype, int by, const double *plan, double *numbers, void *target,
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

/* ---- what is not zero -------------------------------------------------------------------------- */

/* Whether elements are not zero: all of their bits in `mask`. */
#define FLAG(T)                                                                            \
  {                                                                                        \
    const T *x = (const T *)source + offset + at;                                          \
    _Pragma("clang loop vectorize_width(16)") for (ptrdiff_t i = 0; i < n; i++) {          \
      flags[i] = (x[i] & (T)mask) != 0;                                                    \
    }                                                                                      \
  }

/*
 * Of floats all bits but the sign count: -0 is zero, NaN is not. False when there are more than
 * target has room for, up to end. Eight flags make a byte, and for each byte it is known which of
 * the eight they are; what is written behind those is written over.
 */
static bool find_nonzero(int dtype, ptrdiff_t offset, ptrdiff_t length, int32_t *target,
                         const int32_t *end, const void *source) {
  const uint64_t sign = rm_is_float(dtype) ? UINT64_C(1) << (8 * rm_bytes(dtype) - 1) : 0;
  const uint64_t mask = ~sign;
  uint64_t eights[256] = {0};
  for (unsigned bits = 1; bits < 256; bits++) {
    eights[bits] = eights[bits & (bits - 1)] << 8 | (unsigned)__builtin_ctz(bits);
  }
  for (ptrdiff_t at = 0; at < length; at += BLOCK) {
    const ptrdiff_t n = rm_least(length - at, BLOCK);
    uint8_t flags[BLOCK + 8];
    int32_t found[BLOCK + 8];
    switch (rm_bytes(dtype)) {
      case 1: FLAG(uint8_t) break;
      case 2: FLAG(uint16_t) break;
      case 4: FLAG(uint32_t) break;
      default: FLAG(uint64_t)
    }
    memset(flags + n, 0, 8);
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < n; i += 8) {
      uint64_t eight;
      memcpy(&eight, flags + i, 8);
      const unsigned bits = (unsigned)(eight * UINT64_C(0x0102040810204080) >> 56);
      const uint8_t *which = (const uint8_t *)&eights[bits];
      _Pragma("clang loop unroll(full)")
      for (int k = 0; k < 8; k++) found[count + k] = (int32_t)(at + i) + which[k];
      count += __builtin_popcount(bits);
    }
    if (count > end - target) return false;
    memcpy(target, found, (size_t)count * sizeof *found);
    target += count;
  }
  return true;
}

int32_t rm_move(int32_t what, int32_t dtypes, const double *plan, double *numbers, void *target,
                const void *source, const void *indexes) {
  const int dtype = rm_dtype_at(dtypes, 0), by = rm_dtype_at(dtypes, 1);
  const bool moves = dtype < RM_DTYPE_COUNT && by < RM_FLOAT16;
  switch (what) {
    case RM_GATHER:
    case RM_SCATTER:
    case RM_ADD_AT:
      if (!moves || (what == RM_ADD_AT && dtype == RM_BOOL)) break;
      return move_blocks(what, dtype, by, plan, numbers, target, source, indexes);
    case RM_POSITION:
      if (!moves || (dtype != RM_INT32 && dtype != RM_INT64)) break;
      return add_positions(dtype, by, plan, numbers, target, indexes);
    case RM_TAKE_ALONG:
      if (!moves) break;
      return take_along(dtype, by, plan, numbers, target, source, indexes);
    case RM_NONZERO:
      if (dtype >= RM_DTYPE_COUNT) break;
      if (target == NULL || source == NULL) return RM_OK;
      if (find_nonzero(dtype, (ptrdiff_t)numbers[0], (ptrdiff_t)numbers[1], target,
                       (int32_t *)target + (ptrdiff_t)numbers[2], source)) {
        return RM_OK;
      }
      return rm_fail(RM_BAD_ARGUMENT, "more than %.0f elements are not zero", numbers[2]);
  }
  return rm_fail(RM_BAD_ARGUMENT, "move: no kind %d of dtype %d by %d", (int)what, dtype, by);
}
