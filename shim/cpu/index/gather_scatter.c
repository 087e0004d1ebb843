/*
 * Gather, scatter and add-at: moves blocks of elements to and from the positions that indices give.
 *
 * Elements are moved as they are; only their size matters. The shape of a plan does not bound
 * indices, so they are all checked here before any element moves.
 */
#include <stdlib.h>
#include <string.h>
#include "float16.h"
#include "index.h"

/* Bytes per task: some microseconds of copying from memory. */
enum { TASK_BYTES = 64 * 1024, BYTES_PER_NS = 12 };

/* Copies or adds n elements. Steps are in bytes. */
typedef void run_function(ptrdiff_t n, char *to, ptrdiff_t to_step, const char *from,
                          ptrdiff_t from_step);

/* Operand 0 of the iterator is the target, operand 1 the source. From block to block, one of them
 * advances by block_strides[k] bytes, and its index_strides[k] is 0. The other one advances by
 * index_strides[k] bytes times the index, and its block_strides[k] is 0. */
typedef struct {
  rm_iterator iterator;
  const char *raw_indices;
  int dtype;
  int64_t size;
  first_bad *bad;
  /* The normalized indices, if they have been kept. */
  const int64_t *indices;
  ptrdiff_t block_strides[2], index_strides[2];
  ptrdiff_t bytes, count;
  /* The first axes of a block, which are iterated outside the loop over indices, and the number of
   * their positions. */
  int outer_axes;
  ptrdiff_t outer_count;
  /* The outer positions and the indices per task. */
  ptrdiff_t task_outer, task_count;
  /* Moves the elements of blocks that are not simply copied. */
  run_function *move;
  bool adds;
} move_context;

/* Reads and normalizes n indices from `first` on. If one is out of range, it records that and
 * returns false. */
static bool read_indices(const move_context *ctx, ptrdiff_t first, ptrdiff_t n, int64_t *indices) {
  const ptrdiff_t width = rm_itemsize(ctx->dtype);
  const char *from = ctx->raw_indices + first * width;
  const ptrdiff_t good = rm_isa_kernels()->normalize_indices(ctx->dtype, from, width, n, ctx->size,
                                                             indices);
  if (good < n) record_bad_index(ctx->bad, first + good);
  return good == n;
}

/* Advances from block 0 at index 0 to block i at the given index. */
static inline void advance(const move_context *ctx, ptrdiff_t i, int64_t index, char *const *at,
                           char **moved) {
  for (int k = 0; k < 2; k++) {
    moved[k] = at[k] + i * ctx->block_strides[k] + index * ctx->index_strides[k];
  }
}

/* Copies n bytes per index. A constant n makes a loop of its own. */
static RM_ALWAYS_INLINE void copy_blocks(const move_context *ctx, const int64_t *indices,
                                         ptrdiff_t count, char *const *at, ptrdiff_t n) {
  for (ptrdiff_t i = 0; i < count; i++) {
    char *moved[2];
    advance(ctx, i, indices[i], at, moved);
    rm_copy(moved[0], moved[1], n);
  }
}

/* Copies single elements. */
#define COPY_ELEMENTS(T) \
  if (by_index[0] == 0) { \
    _Pragma("clang loop unroll_count(2)") for (ptrdiff_t i = 0; i < count; i++) { \
      *(T *)(at[0] + i * by_block[0]) = *(const T *)(at[1] + indices[i] * by_index[1]); \
    } \
  } else { \
    for (ptrdiff_t i = 0; i < count; i++) { \
      *(T *)(at[0] + indices[i] * by_index[0]) = *(const T *)(at[1] + i * by_block[1]); \
    } \
  }

static void copy_elements(const move_context *ctx, const int64_t *indices, ptrdiff_t count,
                          char *const *at) {
  const ptrdiff_t *by_block = ctx->block_strides, *by_index = ctx->index_strides;
  switch (ctx->bytes) {
    case 1: COPY_ELEMENTS(uint8_t) break;
    case 2: COPY_ELEMENTS(uint16_t) break;
    case 4: COPY_ELEMENTS(uint32_t) break;
    default: COPY_ELEMENTS(uint64_t)
  }
}

#define DEFINE_RUN(name, T, TO, FROM, WRITE) \
  static void name(ptrdiff_t n, char *to, ptrdiff_t to_step, const char *from, \
                   ptrdiff_t from_step) { \
    RM_SCALAR for (; n > 0; n--, to += to_step, from += from_step) { \
      *(T *)to = WRITE(TO(*(T *)to) FROM(*(const T *)from)); \
    } \
  }
#define IGNORE(v)
DEFINE_RUN(copy_8, uint8_t, IGNORE, , )
DEFINE_RUN(copy_16, uint16_t, IGNORE, , )
DEFINE_RUN(copy_32, uint32_t, IGNORE, , )
DEFINE_RUN(copy_64, uint64_t, IGNORE, , )
DEFINE_RUN(add_8, uint8_t, , +, (uint8_t))
DEFINE_RUN(add_16, uint16_t, , +, (uint16_t))
DEFINE_RUN(add_f16, uint16_t, rm_f16_to_f32, +rm_f16_to_f32, rm_f32_to_f16)
DEFINE_RUN(add_bf16, uint16_t, rm_bf16_to_f32, +rm_bf16_to_f32, rm_f32_to_bf16)

/* Types that are vectorized if elements are contiguous. */
#define DEFINE_CONTIGUOUS_RUN(name, T) \
  DEFINE_RUN(name##_strided, T, , +, ) \
  static void name(ptrdiff_t n, char *to, ptrdiff_t to_step, const char *from, \
                   ptrdiff_t from_step) { \
    if (to_step != sizeof(T) || from_step != sizeof(T)) { \
      name##_strided(n, to, to_step, from, from_step); \
      return; \
    } \
    T *o = (T *)to; \
    const T *p = (const T *)from; \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) o[i] += p[i]; \
  }
DEFINE_CONTIGUOUS_RUN(add_32, uint32_t)
DEFINE_CONTIGUOUS_RUN(add_64, uint64_t)
DEFINE_CONTIGUOUS_RUN(add_f32, float)
DEFINE_CONTIGUOUS_RUN(add_f64, double)

static run_function *choose_run(bool adds, int dtype) {
  static run_function *const copies[] = {copy_8, copy_16, copy_32, copy_64};
  static run_function *const sums[] = {add_8, add_16, add_32, add_64};
  static run_function *const floats[] = {add_f16, add_bf16, add_f32, add_f64};
  if (adds && dtype >= RM_FLOAT16) return floats[dtype - RM_FLOAT16];
  return (adds ? sums : copies)[__builtin_ctz((unsigned)rm_itemsize(dtype))];
}

/* Adds single elements of 4 or 8 bytes. Returns false for others. */
#define ADD_ELEMENTS(T) \
  for (ptrdiff_t i = 0; i < count; i++) { \
    *(T *)(at[0] + indices[i] * by_index[0]) += *(const T *)(at[1] + i * by_block[1]); \
  }

static bool add_elements(const move_context *ctx, const int64_t *indices, ptrdiff_t count,
                         char *const *at) {
  const ptrdiff_t *by_block = ctx->block_strides, *by_index = ctx->index_strides;
  if (ctx->move == add_f32) ADD_ELEMENTS(float)
  else if (ctx->move == add_f64) ADD_ELEMENTS(double)
  else if (ctx->move == add_32) ADD_ELEMENTS(uint32_t)
  else if (ctx->move == add_64) ADD_ELEMENTS(uint64_t)
  else return false;
  return true;
}

/* Moves the axes of blocks from outer_axes on, one block after another. A call of its own would
 * cost a nanosecond or two more per block. */
static RM_ALWAYS_INLINE void move_blocks(const move_context *ctx, const int64_t *indices,
                                         ptrdiff_t count, char *const *at) {
  const rm_iterator *it = &ctx->iterator;
  const int inner = it->rank - 1;
  const bool is_element = inner < ctx->outer_axes;
  const ptrdiff_t n = is_element ? 1 : it->shape[inner];
  const ptrdiff_t to_step = is_element ? 0 : it->strides[inner][0];
  const ptrdiff_t from_step = is_element ? 0 : it->strides[inner][1];
  ptrdiff_t counts[RM_MAX_RANK] = {0};
  for (ptrdiff_t i = 0; i < count; i++) {
    char *moved[RM_MAX_OPERANDS];
    advance(ctx, i, indices[i], at, moved);
    do ctx->move(n, moved[0], to_step, moved[1], from_step);
    while (rm_iterator_next(it, ctx->outer_axes, inner, counts, moved));
  }
}

static void move_task(void *context, ptrdiff_t index) {
  const move_context *ctx = context;
  const rm_iterator *it = &ctx->iterator;
  const ptrdiff_t parts = rm_ceil_div(ctx->count, ctx->task_count);
  const ptrdiff_t first = index % parts * ctx->task_count;
  const ptrdiff_t position = index / parts * ctx->task_outer;
  ptrdiff_t remaining = rm_min(ctx->task_outer, ctx->outer_count - position);
  ptrdiff_t count = rm_min(ctx->task_count, ctx->count - first);
  int64_t buffer[BLOCK];
  const int64_t *indices = buffer;
  if (ctx->indices != NULL) {
    indices = ctx->indices + first;
  } else {
    /* All indices were in range when they were checked. They may be in shared memory, though, where
     * another thread may have changed them: the ones from the first bad one on move nothing. */
    const ptrdiff_t width = rm_itemsize(ctx->dtype);
    const ptrdiff_t good = rm_isa_kernels()->normalize_indices(
        ctx->dtype, ctx->raw_indices + first * width, width, count, ctx->size, buffer);
    if (good < count) record_bad_index(ctx->bad, first + good);
    count = good;
  }
  const int inner_axes = it->rank - ctx->outer_axes, inner = it->rank - 1;
  const bool contiguous = inner_axes == 0 ||
                          (inner_axes == 1 &&
                           (it->shape[inner] == 1 ||
                            (it->inner_strides[0] == 1 && it->inner_strides[1] == 1)));
  const ptrdiff_t run = inner_axes == 0 ? ctx->bytes : it->shape[inner] * ctx->bytes;
  char *at[RM_MAX_OPERANDS];
  for (int k = 0; k < 2; k++) at[k] = it->data[k] + first * ctx->block_strides[k];
  ptrdiff_t counts[RM_MAX_RANK] = {0};
  rm_iterator_seek(it, ctx->outer_axes, position, counts, at);
  for (; remaining > 0; remaining--, rm_iterator_next(it, 0, ctx->outer_axes, counts, at)) {
    const bool is_element = contiguous && run == ctx->bytes;
    if (ctx->adds && is_element && add_elements(ctx, indices, count, at)) continue;
    if (ctx->adds || !contiguous) move_blocks(ctx, indices, count, at);
    else if (is_element) copy_elements(ctx, indices, count, at);
    else if (run == 2) copy_blocks(ctx, indices, count, at, 2);
    else if (run == 4) copy_blocks(ctx, indices, count, at, 4);
    else if (run == 8) copy_blocks(ctx, indices, count, at, 8);
    else if (run == 16) copy_blocks(ctx, indices, count, at, 16);
    else copy_blocks(ctx, indices, count, at, run);
  }
}

/* A task processes all indices in order, so that no two tasks add to the same element. */
static void add_task(void *context, ptrdiff_t index) {
  const move_context *ctx = context;
  const ptrdiff_t parts = rm_ceil_div(ctx->count, ctx->task_count);
  for (ptrdiff_t i = 0; i < parts; i++) move_task(context, index * parts + i);
}

/* Splits the innermost axis of blocks into equal parts, if possible one per thread. The parts
 * become the first outer axis. The order of additions stays the same. */
enum { MIN_COLUMNS = 16 };

static void split_columns(move_context *ctx) {
  rm_iterator *it = &ctx->iterator;
  if (ctx->outer_axes == it->rank || it->rank == RM_MAX_RANK) return;
  const ptrdiff_t columns = it->shape[it->rank - 1];
  ptrdiff_t parts = rm_min(rm_threads(), columns / MIN_COLUMNS);
  while (parts > 1 && columns % parts != 0) parts--;
  if (parts <= 1) return;
  memmove(it->shape + 1, it->shape, (size_t)it->rank * sizeof *it->shape);
  memmove(it->strides + 1, it->strides, (size_t)it->rank * sizeof *it->strides);
  const int inner = it->rank++;
  it->shape[0] = parts;
  it->shape[inner] /= parts;
  for (int k = 0; k < 2; k++) it->strides[0][k] = it->strides[inner][k] * it->shape[inner];
  ctx->outer_axes++;
}

/* If blocks have few columns to split and there are many more blocks than target positions, equal
 * shares of the blocks are added up in one table each, and the tables are added to the target. The
 * number of tables does not depend on the number of threads. */
enum {
  TABLE_BLOCKS = 16 * 1024,
  BLOCKS_PER_INDEX = 4,
  MAX_TABLES = 64,
  MAX_TABLE_BYTES = 64 << 20
};

typedef struct {
  /* Moves to a table instead of the target. */
  move_context move;
  char *memory;
  /* The size of a table, and the blocks per table. */
  ptrdiff_t bytes, table_blocks;
  /* 8 bytes of -0, or of the integer 0: the neutral element of addition. */
  uint64_t zero;
} table_context;

static void table_task(void *context, ptrdiff_t index) {
  const table_context *t = context;
  const move_context *ctx = &t->move;
  const ptrdiff_t first = index * t->table_blocks;
  const ptrdiff_t end = rm_min(ctx->count, first + t->table_blocks);
  char *table = t->memory + index * t->bytes;
  for (ptrdiff_t i = 0; i < t->bytes; i += 8) memcpy(table + i, &t->zero, 8);
  int64_t indices[BLOCK];
  for (ptrdiff_t i = first; i < end; i += BLOCK) {
    const ptrdiff_t n = rm_min(BLOCK, end - i);
    if (!read_indices(ctx, i, n, indices)) return;
    char *at[] = {table, ctx->iterator.data[1] + i * ctx->block_strides[1]};
    if (ctx->index_strides[0] > ctx->bytes || !add_elements(ctx, indices, n, at)) {
      move_blocks(ctx, indices, n, at);
    }
  }
}

/* Returns false if tables do not pay or if memory is exhausted. Adds nothing if an index is out of
 * range. */
static bool add_in_tables(const move_context *ctx, int dtype) {
  table_context t = {.move = *ctx};
  t.move.outer_axes = 0;
  /* Iterates from a block of a table to one of the target. */
  rm_iterator sum = ctx->iterator;
  ptrdiff_t size = ctx->bytes;
  bool same_layout = true;
  for (int axis = sum.rank - 1; axis >= 0; axis--) {
    same_layout &= sum.shape[axis] == 1 || sum.strides[axis][0] == size;
    sum.strides[axis][1] = t.move.iterator.strides[axis][0] = size;
    size *= sum.shape[axis];
  }
  if (size >= 2 * MIN_COLUMNS * ctx->bytes || ctx->size == 0) return false;
  same_layout &= ctx->index_strides[0] == size;
  t.move.index_strides[0] = size;
  t.bytes = rm_round_up(ctx->size * size, 8);
  const ptrdiff_t min_blocks = ctx->size * BLOCKS_PER_INDEX;
  const ptrdiff_t max_tables = rm_min(MAX_TABLES, MAX_TABLE_BYTES / t.bytes);
  const ptrdiff_t count = rm_min(
      ctx->count / (min_blocks > TABLE_BLOCKS ? min_blocks : TABLE_BLOCKS), max_tables);
  if (count < 2) return false;
  t.memory = malloc((size_t)(count * t.bytes));
  if (t.memory == NULL) return false;
  t.table_blocks = rm_ceil_div(ctx->count, count);
  if (rm_is_float(dtype)) {
    t.zero = UINT64_C(1) << 63;
    for (ptrdiff_t remaining = 8; remaining > ctx->bytes; remaining -= ctx->bytes) {
      t.zero |= t.zero >> 8 * ctx->bytes;
    }
  }
  rm_parallel(count, (double)(ctx->count * size / ctx->bytes), table_task, &t);
  for (ptrdiff_t i = 0; i < count && *ctx->bad == ctx->count; i++) {
    char *at[RM_MAX_OPERANDS] = {sum.data[0], t.memory + i * t.bytes};
    ptrdiff_t counts[RM_MAX_RANK] = {0};
    if (same_layout) {
      ctx->move(ctx->size * size / ctx->bytes, at[0], ctx->bytes, at[1], ctx->bytes);
      continue;
    }
    do ctx->move(ctx->size, at[0], ctx->index_strides[0], at[1], size);
    while (rm_iterator_next(&sum, 0, sum.rank, counts, at));
  }
  free(t.memory);
  return true;
}

typedef struct {
  const move_context *move;
  /* Keeps the normalized indices if they are few. */
  int64_t *indices;
} check_context;

/* Indices per task. */
enum { CHECK_INDICES = 16 * BLOCK };

static void check_task(void *context, ptrdiff_t index) {
  const check_context *c = context;
  const ptrdiff_t count = c->move->count, end = rm_min(count, (index + 1) * CHECK_INDICES);
  int64_t own[BLOCK];
  for (ptrdiff_t i = index * CHECK_INDICES; i < end; i += BLOCK) {
    int64_t *indices = count <= BLOCK ? c->indices : own;
    if (!read_indices(c->move, i, rm_min(BLOCK, end - i), indices)) return;
  }
}

int32_t rm_check_moved(int dtype, int index_dtype) {
  if (dtype < RM_DTYPE_COUNT && index_dtype < RM_FLOAT16) return RM_OK;
  return rm_fail(RM_BAD_ARGUMENT, "no moves of dtype %d by indices of %d", dtype, index_dtype);
}

int32_t rm_gather(const rm_call *call) {
  const int kind = call->op, dtype = call->dtypes[0], index_dtype = call->dtypes[2];
  const char *raw_indices = call->buffers[2];
  double *numbers = rm_attributes(call);
  move_context ctx;
  int32_t status = rm_check_moved(dtype, index_dtype);
  if (status == RM_OK && kind == RM_OP_scatterAdd && dtype == RM_BOOL) {
    status = rm_fail(RM_BAD_ARGUMENT, "no sums of bool");
  }
  if (status == RM_OK) status = rm_read_call(&ctx.iterator, call, 2);
  if (status != RM_OK || raw_indices == NULL) return status;
  const ptrdiff_t width = rm_itemsize(index_dtype);
  ctx.raw_indices = raw_indices + (ptrdiff_t)numbers[0] * width;
  ctx.dtype = index_dtype;
  ctx.adds = kind == RM_OP_scatterAdd;
  ctx.move = choose_run(ctx.adds, dtype);
  ctx.count = (ptrdiff_t)numbers[1];
  ctx.size = (int64_t)numbers[2];
  ctx.bytes = rm_itemsize(dtype);
  const int block_operand = kind == RM_OP_gather ? 0 : 1;
  ctx.index_strides[block_operand] = ctx.block_strides[1 - block_operand] = 0;
  ctx.index_strides[1 - block_operand] = (ptrdiff_t)numbers[3] * ctx.bytes;
  ctx.block_strides[block_operand] = (ptrdiff_t)numbers[4] * ctx.bytes;
  first_bad bad = ctx.count;
  ctx.bad = &bad;
  const bool is_empty = ctx.iterator.empty || ctx.count == 0;
  const bool added = ctx.adds && !is_empty && add_in_tables(&ctx, dtype);
  int64_t indices[BLOCK];
  if (!added) {
    check_context c = {&ctx, indices};
    const double work = (double)(ctx.count * width) / BYTES_PER_NS;
    rm_parallel(rm_ceil_div(ctx.count, CHECK_INDICES), work, check_task, &c);
  }
  numbers[0] = bad < ctx.count ? (double)bad : -1;
  if (bad < ctx.count || added || is_empty) return RM_OK;
  ctx.indices = ctx.count <= BLOCK ? indices : NULL;
  /* Axes with longer steps in the operand that advances block by block become outer axes, so that
   * it is accessed in order. */
  for (ctx.outer_axes = 0; ctx.outer_axes < ctx.iterator.rank; ctx.outer_axes++) {
    if (rm_abs(ctx.iterator.strides[ctx.outer_axes][block_operand]) <=
        rm_abs(ctx.block_strides[block_operand])) {
      break;
    }
  }
  if (ctx.adds) split_columns(&ctx);
  ptrdiff_t size = ctx.bytes;
  ctx.outer_count = 1;
  for (int axis = 0; axis < ctx.iterator.rank; axis++) {
    if (axis < ctx.outer_axes) ctx.outer_count *= ctx.iterator.shape[axis];
    else size *= ctx.iterator.shape[axis];
  }
  ctx.task_count = size >= TASK_BYTES ? 1 : rm_min(rm_min(BLOCK, TASK_BYTES / size), ctx.count);
  ctx.task_outer = size * ctx.task_count >= TASK_BYTES ? 1 : TASK_BYTES / (size * ctx.task_count);
  const ptrdiff_t parts = rm_ceil_div(ctx.count, ctx.task_count);
  const ptrdiff_t groups = rm_ceil_div(ctx.outer_count, ctx.task_outer);
  const double work = (double)(ctx.count * ctx.outer_count) * (double)size / BYTES_PER_NS;
  if (ctx.adds) {
    rm_parallel(groups, work, add_task, &ctx);
  } else if (kind == RM_OP_scatter) {
    /* With equal indices the last one must win, so tasks run in order. */
    for (ptrdiff_t i = 0; i < parts * groups; i++) move_task(&ctx, i);
  } else {
    rm_parallel(parts * groups, work, move_task, &ctx);
  }
  if (bad < ctx.count) numbers[0] = (double)bad;
  return RM_OK;
}
