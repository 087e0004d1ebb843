/*
 * Elementwise ops: dense kernels, one for each line of ops.def and dtype, and one walk for all.
 *
 * The walk cuts an op into blocks of rows and columns. An operand that is dense there and of the
 * dtype that the kernel takes is handed over as it lies; any other one is packed into a block in the
 * first-level cache and cast there, so that strides, broadcasts and mixed dtypes need no kernels of
 * their own. Knows nothing of what an op means: that is in ops.def.
 */
#include <string.h>
#include "block_copy.h"
#include "cast_kernels.h"
#include "map_context.h"
#include "ops.def"

typedef struct {
  uint8_t operands;
  bool condition;
  bool gives_bool;
  bool heavy;
} row_facts;

#define RM_MAP_ROW(name, arity, condition, gives_bool, heavy) \
  [RM_OP_##name] = {(arity) + 1, condition, gives_bool, heavy},
static const row_facts facts[RM_ROWS] = {
#include "ops.def"
};
#undef RM_MAP_ROW

/* Rows whose kernels for float32 and float64 take whole vectors only. */
#define RM_HEAVY_MAP(name, ...) [RM_OP_##name] = true,
static const bool by_vectors[RM_ROWS] = {
#include "ops.def"
};
#undef RM_HEAVY_MAP

enum {
  /* Elements of a block. */
  BLOCK = 1024,
  /* Rows and columns of a block where an operand runs across the others. */
  TILE_ROWS = 16,
  TILE_COLUMNS = 64,
  TILE_LEAST = 16,
  /* Elements of a dense op that are worth beginning at a line of the caches. */
  ALIGN_LEAST = 4096,
  /* Rows shorter than this are put together in blocks. */
  SHORT_ROW = 128,
  /* How often an element is written for a kernel that takes it with each of a row's: once for each
   * row, or once for all of them. */
  REPEATS = 128,
  REPEATS_KEPT = 1024,
  /* Bytes of an operand for a task of a cheap op at most, and elements for one of a costly op; how
   * many of those make a thread worth its while, and how long each takes about. */
  CHEAP_BYTES = 1 << 17,
  HEAVY_TASK = 1 << 13,
  TASKS_LEAST = 2,
  TASK_NANOSECONDS = 6000,
  /* Elements that end where lines of the caches do, whatever their size. */
  LINE_ELEMENTS = 64,
  /* Bytes of an output that pass by the caches, as it would not be found there again; and elements
   * between two turns of reading and writing, of which memory wants short ones. */
  STREAM_LEAST = 1 << 24,
  STREAM_PIECE = 128
};

/* Blocks of the operands as they were packed and as the kernel sees them. */
typedef struct {
  _Alignas(64) char packed[RM_MAX_OPERANDS][BLOCK * 8];
  _Alignas(64) char seen[RM_MAX_OPERANDS][BLOCK * 8];
  /* What `seen` was made from, where the next block may need the same. */
  const char *source[RM_MAX_OPERANDS];
  ptrdiff_t filled[RM_MAX_OPERANDS], pitch[RM_MAX_OPERANDS];
} scratch;

/* ---- one block --------------------------------------------------------------------------------- */

/* Casts n dense elements on their way from one dtype to another by way of a 16-bit one, if any. */
static void cast_by(ptrdiff_t n, void *out, int to, int half, int from, const void *in,
                    void *between) {
  if (half == RM_NONE || half == from || half == to) {
    RM_AT(casts)[from][to](n, out, in);
    return;
  }
  RM_AT(casts)[from][half](n, between, in);
  RM_AT(casts)[half][to](n, out, between);
}

/* True when operand k is stored as the kernel takes or gives it, values included. */
static bool is_plain(const job *it, int k) {
  return it->stored[k] == it->seen[k] &&
         (it->half == RM_NONE || it->seen[k] == RM_BOOL || it->seen[k] == it->half);
}

/* Input k of a block, as the kernel takes it. */
static const char *input(const job *it, scratch *s, int k, const char *at, ptrdiff_t rows,
                         ptrdiff_t columns) {
  const int stored = it->stored[k], seen = it->seen[k];
  const ptrdiff_t bytes = rm_bytes(stored), total = rows * columns;
  const ptrdiff_t right = it->walk.inner[k] * bytes, down = rows == 1 ? 0 : it->down[k];
  const bool dense = right == bytes && (rows == 1 || down == columns * bytes);
  const bool plain = is_plain(it, k);
  if (dense && plain) return at;
  /* Rows that are all the same, or all one element, may have been made already. */
  const bool one = right == 0 && down == 0, same = it->down[k] == 0;
  if (same && s->source[k] == at && s->filled[k] >= total && (one || s->pitch[k] == columns)) {
    return s->seen[k];
  }
  s->source[k] = same ? at : NULL;
  s->filled[k] = total;
  s->pitch[k] = columns;
  const int half = it->half;
  char *packed = plain ? s->seen[k] : s->packed[k];
  if (one) {
    char cast_one[8], between[8];
    const char *value = at;
    if (!plain) {
      cast_by(1, cast_one, seen, half, stored, at, between);
      value = cast_one;
    }
    const ptrdiff_t size = rm_bytes(seen);
    RM_AT(move_block)((piece){s->seen[k], 0, size}, (piece){(char *)value, 0, 0}, 1, total, size);
    return s->seen[k];
  }
  if (!dense) {
    RM_AT(move_block)((piece){packed, columns * bytes, bytes}, (piece){(char *)at, down, right}, rows,
               columns, bytes);
    if (plain) return packed;
  }
  /* The block of the output is free until the kernel runs. */
  cast_by(total, s->seen[k], seen, half, stored, dense ? at : packed, s->packed[0]);
  return s->seen[k];
}

/* Runs a kernel that takes whole vectors only: what is left over makes another one, together with
 * the elements before, or, where there are too few, with numbers that nothing is special about. */
__attribute__((noinline)) static void run_vectors(const job *it, ptrdiff_t n, char *out,
                                                  const char *a, const char *b, const char *c) {
  const ptrdiff_t rest = n % VECTOR, most = n - rest, used = rm_least(n, VECTOR);
  const char *const operands[RM_MAX_OPERANDS] = {out, a, b, c};
  _Alignas(64) uint64_t part[RM_MAX_OPERANDS][VECTOR];
  for (int k = 1; k < it->walk.operands; k++) {
    const ptrdiff_t size = rm_bytes(it->seen[k]);
    /* Small and positive in every float dtype. */
    for (int i = 0; i < VECTOR; i++) part[k][i] = 0x3f803f803f803f80;
    memcpy(part[k], operands[k] + (n - used) * size, (size_t)(used * size));
  }
  if (most > 0) it->run(most, out, a, b, c, it->attributes);
  it->run(VECTOR, part[0], part[1], part[2], part[3], it->attributes);
  const ptrdiff_t size = rm_bytes(it->seen[0]);
  memcpy(out + most * size, (char *)part[0] + (used - rest) * size, (size_t)(rest * size));
}

static inline void run_any(const job *it, ptrdiff_t n, char *out, const char *a, const char *b,
                           const char *c) {
  if (it->whole && n % VECTOR != 0) run_vectors(it, n, out, a, b, c);
  else it->run(n, out, a, b, c, it->attributes);
}

/* A block of a tiled op whose rows are written where they lie, one by one: only what runs across
 * them has to be packed. */
static void run_rows(const job *it, scratch *s, char *const *at, ptrdiff_t rows,
                     ptrdiff_t columns) {
  const char *in[3] = {NULL, NULL, NULL};
  ptrdiff_t pitch[3] = {0, 0, 0};
  for (int k = 1; k < it->walk.operands; k++) {
    const bool direct = it->walk.inner[k] == 1 && is_plain(it, k);
    in[k - 1] = direct ? at[k] : input(it, s, k, at[k], rows, columns);
    pitch[k - 1] = direct ? it->down[k] : columns * rm_bytes(it->seen[k]);
  }
  for (ptrdiff_t i = 0; i < rows; i++) {
    run_any(it, columns, at[0] + i * it->down[0], in[0] + i * pitch[0], in[1] + i * pitch[1],
            in[2] + i * pitch[2]);
  }
}

static void run_block(const job *it, scratch *s, char *const *at, ptrdiff_t rows,
                      ptrdiff_t columns) {
  const int stored = it->stored[0], seen = it->seen[0];
  const ptrdiff_t bytes = rm_bytes(stored), total = rows * columns;
  const ptrdiff_t right = it->walk.inner[0] * bytes, down = it->down[0];
  const piece target = {at[0], down, right};
  const bool dense = right == bytes && (rows == 1 || down == columns * bytes);
  if (it->run == NULL) {
    const ptrdiff_t size = rm_bytes(it->stored[1]);
    const piece source = {at[1], it->down[1], it->walk.inner[1] * size};
    if (it->stored[1] == stored) {
      RM_AT(move_block)(target, source, rows, columns, bytes);
      return;
    }
    const bool ready = source.right == size && (rows == 1 || source.down == columns * size);
    if (!ready) {
      RM_AT(move_block)((piece){s->packed[1], columns * size, size}, source, rows, columns, size);
    }
    RM_AT(casts)[it->stored[1]][stored](total, dense ? at[0] : s->packed[0],
                                 ready ? at[1] : s->packed[1]);
    if (!dense) {
      RM_AT(move_block)(target, (piece){s->packed[0], columns * bytes, bytes}, rows, columns, bytes);
    }
    return;
  }
  const bool plain = is_plain(it, 0);
  if (it->tiled && plain && right == bytes && !dense) {
    run_rows(it, s, at, rows, columns);
    return;
  }
  const char *in[3] = {NULL, NULL, NULL};
  for (int k = 1; k < it->walk.operands; k++) in[k - 1] = input(it, s, k, at[k], rows, columns);
  char *result = dense && plain && !it->streams ? at[0] : s->seen[0];
  run_any(it, total, result, in[0], in[1], in[2]);
  if (result == at[0]) return;
  if (!plain) {
    char *cast_to = dense ? at[0] : s->packed[0];
    cast_by(total, cast_to, stored, seen == RM_BOOL ? RM_NONE : it->half, seen, result,
            s->packed[1]);
    result = cast_to;
  }
  if (result == at[0]) return;
  if (dense && it->streams) RM_AT(stream)(at[0], result, total * bytes);
  else RM_AT(move_block)(target, (piece){result, columns * bytes, bytes}, rows, columns, bytes);
}

/* True when whole rows are taken as they lie, except for inputs that are one element for a row, if
 * those may be: casts take none. */
static bool takes_rows(const job *it, bool elements) {
  const bool casts = it->run == NULL && it->stored[0] != it->stored[1];
  for (int k = 0; k < it->walk.operands; k++) {
    const bool element = elements && !casts && k > 0 && it->walk.inner[k] == 0;
    if (it->walk.inner[k] != 1 && !element) return false;
    if (it->run != NULL && !is_plain(it, k)) return false;
  }
  return true;
}

/* Writes an element so often. */
static inline void repeat(char *to, const char *element, ptrdiff_t bytes, ptrdiff_t times) {
  const line all = repeated(element, bytes) - (line){0};
  for (ptrdiff_t i = 0; i < times * bytes; i += LINE) memcpy(to + i, &all, LINE);
}

/* Long rows that are taken as they lie: in pieces, where elements have to be repeated, or what is
 * computed passes by the caches. */
__attribute__((noinline)) static void run_long_rows(const job *it, scratch *s, char *const *at,
                                                    ptrdiff_t rows, ptrdiff_t columns) {
  const int operands = it->walk.operands;
  const ptrdiff_t *inner = it->walk.inner;
  const ptrdiff_t size = rm_bytes(it->seen[0]);
  const int shift = __builtin_ctz((unsigned)size);
  kernel element = NULL;
  if (it->elements != NULL && inner[1] != inner[2]) element = it->elements[inner[2] == 0];
  ptrdiff_t bytes[RM_MAX_OPERANDS], step[RM_MAX_OPERANDS] = {0};
  ptrdiff_t times[RM_MAX_OPERANDS] = {0}, most = columns;
  for (int k = 1; k < operands; k++) {
    bytes[k] = rm_bytes(it->seen[k]);
    step[k] = inner[k] * bytes[k];
    if (step[k] != 0 || element != NULL) continue;
    times[k] = it->down[k] == 0 ? REPEATS_KEPT : REPEATS;
    most = rm_least(most, times[k]);
  }
  if (it->streams) most = rm_least(most, STREAM_PIECE);
  for (ptrdiff_t row = 0; row < rows; row++) {
    const char *in[RM_MAX_OPERANDS] = {NULL};
    for (int k = 1; k < operands; k++) {
      in[k] = at[k] + row * it->down[k];
      if (times[k] == 0) continue;
      if (s->source[k] != in[k]) repeat(s->seen[k], in[k], bytes[k], times[k]);
      s->source[k] = in[k];
      in[k] = s->seen[k];
    }
    char *out = at[0] + row * it->down[0];
    /* Vectors that cross lines cost a sixth of the time of what the caches hold, those that are
     * stored most: a few elements go ahead. */
    const ptrdiff_t ahead = (ptrdiff_t)(-(uintptr_t)out % LINE) >> shift;
    ptrdiff_t part = ahead == 0 || (it->whole && !it->streams) ? most : ahead;
    for (ptrdiff_t left = columns; left > 0; left -= part, part = most) {
      if (part > left) part = left;
      char *to = it->streams ? s->seen[0] : out;
      if (element != NULL) element(part, to, in[1], in[2], NULL, NULL);
      else run_any(it, part, to, in[1], in[2], in[3]);
      if (it->streams) RM_AT(stream)(out, to, part * size);
      out += part * size;
      for (int k = 1; k < operands; k++) in[k] += part * step[k];
    }
  }
}

/* ---- all blocks -------------------------------------------------------------------------------- */

/* Whether an operand is denser down than along: rows of such are moved column by column, if several
 * are moved at once. */
static bool lies_sideways(const job *it) {
  if (it->rows == 1) return false;
  for (int k = 0; k < it->walk.operands; k++) {
    const ptrdiff_t along = rm_magnitude(it->walk.inner[k]) * rm_bytes(it->stored[k]);
    if (rm_magnitude(it->down[k]) < along) return true;
  }
  return false;
}

/* Rows [from, to) of all positions of the outer axes, columns [first, last). Not to be inlined where
 * small ops pass by, as its blocks take room on the stack. */
__attribute__((noinline)) static void run_part(const job *it, ptrdiff_t from, ptrdiff_t to,
                                               ptrdiff_t first, ptrdiff_t last) {
  scratch s;
  const rm_walk *walk = &it->walk;
  const int operands = walk->operands;
  ptrdiff_t step[RM_MAX_OPERANDS] = {0}, count[RM_MAX_RANK] = {0};
  char *at[RM_MAX_OPERANDS] = {NULL};
  for (int k = 0; k < operands; k++) {
    s.source[k] = NULL;
    step[k] = walk->inner[k] * rm_bytes(it->stored[k]);
    at[k] = walk->start[k] + first * step[k];
  }
  const ptrdiff_t width = last - first;
  rm_seek(walk, it->outer_axes, from / it->rows, count, at);
  /* Whether rows are taken as they lie. */
  bool as_is = false;
  ptrdiff_t high = 1, wide = BLOCK;
  if (it->tiled) {
    high = TILE_ROWS;
    wide = TILE_COLUMNS;
  } else if (it->merges) {
    high = it->rows;
    if (it->stored[0] != it->stored[1]) wide = BLOCK / it->rows / LINE_ELEMENTS * LINE_ELEMENTS;
  } else if (it->run == NULL && it->stored[0] == it->stored[1] && !lies_sideways(it)) {
    /* Copies need no room for blocks. */
    high = PTRDIFF_MAX;
    wide = width;
  } else if (width < SHORT_ROW) {
    high = BLOCK / width;
    /* Whole vectors, if there is a choice. */
    if (high > VECTOR) high -= high % VECTOR;
  } else if (takes_rows(it, true)) {
    as_is = it->run != NULL;
    if (as_is) high = PTRDIFF_MAX;
    wide = width;
  }
  for (ptrdiff_t row = from % it->rows; from < to;) {
    const ptrdiff_t end = rm_least(row + (to - from), it->rows);
    from += end - row;
    for (ptrdiff_t rows; row < end; row += rows) {
      rows = rm_least(end - row, high);
      for (ptrdiff_t column = 0; column < width; column += wide) {
        const ptrdiff_t columns = rm_least(width - column, wide);
        char *part[RM_MAX_OPERANDS] = {NULL};
        for (int k = 0; k < operands; k++) part[k] = at[k] + row * it->down[k] + column * step[k];
        if (as_is) run_long_rows(it, &s, part, rows, columns);
        else run_block(it, &s, part, rows, columns);
      }
    }
    row = 0;
    rm_next(walk, 0, it->outer_axes, count, at);
  }
  if (it->streams) end_stream();
}

static void run_task(void *context, ptrdiff_t index) {
  const job *it = context;
  const ptrdiff_t rows = it->rows * it->positions;
  const ptrdiff_t from = index / it->cuts * it->task_rows;
  const ptrdiff_t first = index % it->cuts * it->task_columns;
  run_part(it, from, rm_least(from + it->task_rows, rows), first,
           rm_least(first + it->task_columns, it->columns));
}

/* True when operand k is denser along the last axis but one, so that whole rows would waste most of
 * each cache line. */
static bool crosses(const job *it, int k) {
  const ptrdiff_t along = rm_magnitude(it->down[k]);
  const ptrdiff_t across = rm_magnitude(it->walk.inner[k]) * rm_bytes(it->stored[k]);
  return along != 0 && along < across;
}

/* What is written over an input is in the caches anyhow, and copies move whole rows themselves. */
static bool wants_stream(const job *it, double elements) {
  const rm_walk *walk = &it->walk;
  if (it->run == NULL || elements * (double)rm_bytes(it->stored[0]) < STREAM_LEAST) return false;
  for (int k = 1; k < walk->operands; k++) {
    if (walk->start[k] == walk->start[0]) return false;
  }
  return true;
}

/* About `part`, so that threads get shares of one size: then none takes from another's, whose data
 * are in other caches. */
static ptrdiff_t even_part(ptrdiff_t whole, ptrdiff_t part) {
  const ptrdiff_t parts = rm_round_up(rm_parts(whole, part), 8);
  return rm_round_up(rm_parts(whole, parts), LINE_ELEMENTS);
}

static void run_all(job *it, ptrdiff_t task) {
  const rm_walk *walk = &it->walk;
  const int rank = walk->rank;
  it->columns = rank == 0 ? 1 : walk->size[rank - 1];
  it->rows = rank < 2 ? 1 : walk->size[rank - 2];
  it->outer_axes = rank < 2 ? 0 : rank - 2;
  it->positions = 1;
  for (int axis = 0; axis < it->outer_axes; axis++) it->positions *= walk->size[axis];
  for (int k = 0; k < walk->operands; k++) it->down[k] = rank < 2 ? 0 : walk->step[rank - 2][k];
  bool crossing = false;
  for (int k = 0; k < walk->operands && it->rows > 1; k++) crossing |= crosses(it, k);
  it->tiled = crossing && it->rows >= TILE_LEAST && it->columns >= TILE_LEAST;
  /* Casts write whole rows where they can. */
  it->merges = crossing && it->rows < TILE_LEAST && it->columns >= SHORT_ROW && it->run == NULL &&
               (it->stored[0] == it->stored[1] || crosses(it, 0));
  const ptrdiff_t rows = it->rows * it->positions;
  const double elements = (double)rows * (double)it->columns;
  it->streams = wants_stream(it, elements);
  if (elements < (double)(TASKS_LEAST * task)) {
    char *const *at = walk->start;
    if (rows == 1 && elements < ALIGN_LEAST && it->run != NULL && takes_rows(it, false)) {
      run_any(it, it->columns, at[0], at[1], at[2], at[3]);
      return;
    }
    run_part(it, 0, rows, 0, it->columns);
    return;
  }
  it->task_columns = it->columns < 2 * task ? it->columns : even_part(it->columns, task);
  it->cuts = rm_parts(it->columns, it->task_columns);
  it->task_rows = rm_parts(task, it->task_columns);
  /* Tiles are not cut in two, nor rows apart that are merged. */
  if (it->tiled) it->task_rows = rm_round_up(it->task_rows, TILE_ROWS);
  if (it->merges) it->task_rows = rm_round_up(it->task_rows, it->rows);
  rm_parallel(rm_parts(rows, it->task_rows) * it->cuts,
              elements / (double)task * TASK_NANOSECONDS, run_task, it);
}

int32_t RM_AT(map)(int32_t opcode, int32_t dtypes, const double *plan, void *out, const void *a,
                   const void *b, const void *c) {
  const int compute = rm_dtype_at(dtypes, 0);
  if (opcode < 0 || opcode >= RM_ROWS || compute >= RM_DTYPE_COUNT) return RM_UNSUPPORTED;
  const row_facts row = facts[opcode];
  if (row.operands == 0) return RM_UNSUPPORTED;
  job it;
  int work = compute;
  it.half = RM_NONE;
  it.run = RM_AT(map_kernel)(opcode, work);
  const bool half = compute == RM_FLOAT16 || compute == RM_BFLOAT16;
  it.whole = half || (by_vectors[opcode] && compute >= RM_FLOAT32);
  if (it.run == NULL && half) {
    work = RM_FLOAT32;
    it.half = compute;
    it.run = RM_AT(map_kernel)(opcode, work);
    it.whole = by_vectors[opcode];
  }
  if (it.run == NULL) return RM_UNSUPPORTED;
  it.elements = RM_AT(map_element_kernels)(opcode, work);
  it.attributes = plan + RM_ATTRIBUTES;
  for (int k = 0; k < row.operands; k++) {
    it.stored[k] = rm_dtype_at(dtypes, k + 1);
    it.seen[k] = work;
    if (it.stored[k] >= RM_DTYPE_COUNT) return RM_UNSUPPORTED;
  }
  if (row.gives_bool) it.seen[0] = RM_BOOL;
  if (row.condition) it.seen[1] = RM_BOOL;
  if (opcode == RM_OP_copy && it.stored[1] == compute) it.run = NULL;
  void *const buffers[RM_MAX_OPERANDS] = {out, (void *)a, (void *)b, (void *)c};
  it.walk.start[2] = it.walk.start[3] = NULL;
  int32_t status = rm_read_plan(&it.walk, plan, row.operands, dtypes, buffers);
  if (status != RM_OK || it.walk.empty) return status;
  /* 16-bit floats take as long as what they are computed in. */
  ptrdiff_t widest = half ? 4 : 1;
  for (int k = 0; k < row.operands; k++) {
    if (rm_bytes(it.stored[k]) > widest) widest = rm_bytes(it.stored[k]);
  }
  const simplified simple = RM_AT(map_simplify)(&it, opcode, work);
  const bool heavy = row.heavy && simple != CHEAP;
  run_all(&it, heavy ? HEAVY_TASK : CHEAP_BYTES / widest);
  return RM_OK;
}
