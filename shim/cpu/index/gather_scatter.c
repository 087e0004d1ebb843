/*
 * Moves elements by indexes: blocks to and from where they say, several of them to one, the places
 * of what is not zero.
 *
 * Elements are moved as they are: only their size counts, and for zeros their sign. Indexes, which
 * no plan bounds, are checked here, before anything is moved that they point to.
 */
#include <stdlib.h>
#include <string.h>
#include "half.h"
#include "index.h"

/* Bytes to a task: some microseconds of copying from memory. */
enum { TASK = 64 * 1024, BYTES_EACH_NANOSECOND = 12 };

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

int32_t rm_gather_scatter(int what, int dtype, int index_dtype, const double *plan, double *numbers,
                          void *target, const void *source, const void *indexes) {
  blocks b;
  void *const buffers[] = {target, (void *)source};
  const int32_t status =
      rm_read_plan(&b.walk, plan, 2, RM_DTYPES(dtype, dtype, dtype, RM_NONE, RM_NONE), buffers);
  if (status != RM_OK || indexes == NULL) return status;
  const ptrdiff_t width = rm_bytes(index_dtype);
  b.indexes = (const char *)indexes + (ptrdiff_t)numbers[0] * width;
  b.dtype = index_dtype;
  b.adds = what == RM_MOVE_ADD_AT;
  b.move = move_of(b.adds, dtype);
  b.count = (ptrdiff_t)numbers[1];
  b.size = (int64_t)numbers[2];
  b.bytes = rm_bytes(dtype);
  const int dense = what == RM_MOVE_GATHER ? 0 : 1;
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
  } else if (what == RM_MOVE_SCATTER) {
    /* Indexes may be equal: the last one has to win. */
    for (ptrdiff_t i = 0; i < parts * groups; i++) move_task(&b, i);
  } else {
    rm_parallel(parts * groups, work, move_task, &b);
  }
  return RM_OK;
}
