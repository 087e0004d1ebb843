/*
 * Elementwise ops: contiguous kernels, one per line of ops.def and dtype, and one strided iterator
 * for all of them.
 *
 * The iterator splits an op into blocks of rows and columns. An operand that is contiguous in a
 * block and has the compute dtype is passed to the kernel in place. Any other operand is packed
 * into a block in the L1 cache and cast there, so that strides, broadcasting and mixed dtypes need
 * no kernels of their own. This file does not know what an op computes: ops.def does.
 */
#include <stdlib.h>
#include <string.h>
#include "block_load.h"
#include "map_context.h"

enum {
  /* Elements of a block. */
  BLOCK = 1024,
  /* Rows and columns of a block with an operand that runs across the others. */
  TILE_ROWS = 16,
  TILE_COLUMNS = 64,
  TILE_MIN = 16,
  /* Contiguous rows with fewer elements do not align to cache lines. */
  ALIGN_MIN = 4096,
  /* Shorter rows are combined in blocks. */
  SHORT_ROW = 128,
  /* Up to this many of them, arithmetic takes less time row by row. */
  FEW_ROWS = 16,
  /* An element that a kernel takes with each element of a row is written this often: once per row,
   * or once for all rows. */
  REPEATS = 128,
  REPEATS_SHARED = 1024,
  /* For memory-bound ops: the maximum bytes of an operand per task. For compute-bound ops: the
   * maximum elements per task, the minimum tasks per thread, and the estimated time per element. */
  MEMORY_BOUND_BYTES = 1 << 17,
  COMPUTE_BOUND_TASK = 1 << 13,
  MIN_TASKS = 2,
  TASK_NS = 6000,
  /* Any dtype fills whole cache lines with this many elements. */
  LINE_ELEMENTS = 64,
  /* The output size from which stores are non-temporal, because the caches could not hold it, and
   * the elements between two turns of reading and writing, which should be short. */
  NON_TEMPORAL_MIN = 1 << 24,
  NON_TEMPORAL_CHUNK = 128
};

/* The blocks of the operands, as they were packed and as the kernel reads them. */
typedef struct {
  _Alignas(64) char packed[RM_MAX_OPERANDS][BLOCK * 8];
  _Alignas(64) char computed[RM_MAX_OPERANDS][BLOCK * 8];
  block_cache cache[RM_MAX_OPERANDS];
} map_workspace;

/* ---- one block ------------------------------------------------------------------------------- */

static bool is_native(const map_context *ctx, int k) {
  return is_native_dtype(ctx->storage_dtype[k], ctx->op.compute_dtype[k], ctx->op.rounding_dtype);
}

/* Returns input k of a block as the kernel reads it. */
static const char *load_input(const map_context *ctx, map_workspace *workspace, int k,
                              const char *at, ptrdiff_t rows, ptrdiff_t columns) {
  const block_operand operand = {
      .storage_dtype = ctx->storage_dtype[k],
      .compute_dtype = ctx->op.compute_dtype[k],
      .rounding_dtype = ctx->op.rounding_dtype,
      .column_stride = ctx->iterator.inner_strides[k],
      .row_stride = ctx->row_strides[k],
  };
  /* The block of the output is unused until the kernel runs. */
  return load_block(&operand, &workspace->cache[k], workspace->computed[k], workspace->packed[k],
                    workspace->packed[0], at, rows, columns);
}

/* A block of a tiled op whose rows are written in place one by one. Only operands that run across
 * them are packed. */
static void run_tile_rows(const map_context *ctx, map_workspace *workspace, char *const *at,
                          ptrdiff_t rows, ptrdiff_t columns) {
  const char *in[3] = {NULL, NULL, NULL};
  ptrdiff_t strides[3] = {0, 0, 0};
  for (int k = 1; k < ctx->iterator.operands; k++) {
    const bool direct = ctx->iterator.inner_strides[k] == 1 && is_native(ctx, k);
    in[k - 1] = direct ? at[k] : load_input(ctx, workspace, k, at[k], rows, columns);
    strides[k - 1] = direct ? ctx->row_strides[k] : columns * rm_itemsize(ctx->op.compute_dtype[k]);
  }
  for (ptrdiff_t i = 0; i < rows; i++) {
    run_function(&ctx->op, columns, at[0] + i * ctx->row_strides[0], in[0] + i * strides[0],
                 in[1] + i * strides[1], in[2] + i * strides[2]);
  }
}

static void run_block(const map_context *ctx, map_workspace *workspace, char *const *at,
                      ptrdiff_t rows, ptrdiff_t columns) {
  const int storage_dtype = ctx->storage_dtype[0], compute_dtype = ctx->op.compute_dtype[0];
  const ptrdiff_t bytes = rm_itemsize(storage_dtype), total = rows * columns;
  const ptrdiff_t column_stride = ctx->iterator.inner_strides[0] * bytes,
                  row_stride = ctx->row_strides[0];
  const block target = {at[0], row_stride, column_stride};
  const bool contiguous = column_stride == bytes && (rows == 1 || row_stride == columns * bytes);
  if (ctx->op.function == NULL) {
    const ptrdiff_t size = rm_itemsize(ctx->storage_dtype[1]);
    const block source = {at[1], ctx->row_strides[1], ctx->iterator.inner_strides[1] * size};
    if (ctx->storage_dtype[1] == storage_dtype) {
      RM_FOR_ISA(copy_block)(target, source, rows, columns, bytes);
      return;
    }
    const bool source_contiguous = source.column_stride == size &&
                                   (rows == 1 || source.row_stride == columns * size);
    if (!source_contiguous) {
      RM_FOR_ISA(copy_block)((block){workspace->packed[1], columns * size, size}, source, rows,
                             columns, size);
    }
    const cast convert = RM_FOR_ISA(casts)[ctx->storage_dtype[1]][storage_dtype];
    convert(total, contiguous ? at[0] : workspace->packed[0],
            source_contiguous ? at[1] : workspace->packed[1]);
    if (!contiguous) {
      RM_FOR_ISA(copy_block)(target, (block){workspace->packed[0], columns * bytes, bytes}, rows,
                             columns, bytes);
    }
    return;
  }
  const bool native = is_native(ctx, 0);
  if (ctx->tiled && native && column_stride == bytes && !contiguous) {
    run_tile_rows(ctx, workspace, at, rows, columns);
    return;
  }
  const char *in[3] = {NULL, NULL, NULL};
  for (int k = 1; k < ctx->iterator.operands; k++) {
    in[k - 1] = load_input(ctx, workspace, k, at[k], rows, columns);
  }
  char *result = contiguous && native && !ctx->non_temporal ? at[0] : workspace->computed[0];
  run_function(&ctx->op, total, result, in[0], in[1], in[2]);
  if (result == at[0]) return;
  if (!native) {
    char *cast_to = contiguous ? at[0] : workspace->packed[0];
    cast_via(total, cast_to, storage_dtype,
             compute_dtype == RM_BOOL ? RM_NONE : ctx->op.rounding_dtype, compute_dtype, result,
             workspace->packed[1]);
    result = cast_to;
  }
  if (result == at[0]) return;
  if (contiguous && ctx->non_temporal) {
    RM_FOR_ISA(store_non_temporal)(at[0], result, total * bytes);
  } else {
    RM_FOR_ISA(copy_block)(target, (block){result, columns * bytes, bytes}, rows, columns, bytes);
  }
}

/* Whether whole rows are read and written in place, except for inputs with one element per row if
 * the kernel allows those. Casts do not. */
static bool takes_rows_in_place(const map_context *ctx, bool allow_scalars) {
  const bool casts = ctx->op.function == NULL && ctx->storage_dtype[0] != ctx->storage_dtype[1];
  for (int k = 0; k < ctx->iterator.operands; k++) {
    const bool is_scalar = allow_scalars && !casts && k > 0 && ctx->iterator.inner_strides[k] == 0;
    if (ctx->iterator.inner_strides[k] != 1 && !is_scalar) return false;
    if (ctx->op.function != NULL && !is_native(ctx, k)) return false;
  }
  return true;
}

/* Writes an element repeatedly. */
static inline void fill_repeated(char *to, const char *element, ptrdiff_t bytes, ptrdiff_t times) {
  const cache_line all = repeat_bytes(element, bytes) - (cache_line){0};
  for (ptrdiff_t i = 0; i < times * bytes; i += CACHE_LINE) memcpy(to + i, &all, CACHE_LINE);
}

/* Long rows that are processed in place: in blocks, if elements have to be repeated or if stores
 * are non-temporal. */
__attribute__((noinline)) static void run_rows_in_place(const map_context *ctx,
                                                        map_workspace *workspace, char *const *at,
                                                        ptrdiff_t rows, ptrdiff_t columns) {
  const int operands = ctx->iterator.operands;
  const ptrdiff_t *inner = ctx->iterator.inner_strides;
  const ptrdiff_t size = rm_itemsize(ctx->op.compute_dtype[0]);
  const int shift = __builtin_ctz((unsigned)size);
  map_function scalar_function = NULL;
  if (ctx->op.scalar_functions != NULL && inner[1] != inner[2]) {
    scalar_function = ctx->op.scalar_functions[inner[2] == 0];
  }
  ptrdiff_t bytes[RM_MAX_OPERANDS], strides[RM_MAX_OPERANDS] = {0};
  ptrdiff_t times[RM_MAX_OPERANDS] = {0}, limit = columns;
  for (int k = 1; k < operands; k++) {
    bytes[k] = rm_itemsize(ctx->op.compute_dtype[k]);
    strides[k] = inner[k] * bytes[k];
    if (strides[k] != 0 || scalar_function != NULL) continue;
    times[k] = ctx->row_strides[k] == 0 ? REPEATS_SHARED : REPEATS;
    limit = rm_min(limit, times[k]);
  }
  if (ctx->non_temporal) limit = rm_min(limit, NON_TEMPORAL_CHUNK);
  for (ptrdiff_t row = 0; row < rows; row++) {
    const char *in[RM_MAX_OPERANDS] = {NULL};
    for (int k = 1; k < operands; k++) {
      in[k] = at[k] + row * ctx->row_strides[k];
      if (times[k] == 0) continue;
      if (workspace->cache[k].source != in[k]) {
        fill_repeated(workspace->computed[k], in[k], bytes[k], times[k]);
      }
      workspace->cache[k].source = in[k];
      in[k] = workspace->computed[k];
    }
    char *out = at[0] + row * ctx->row_strides[0];
    /* Vectors that cross cache lines cost a sixth more time in the caches, most of all for stores.
     * So the first few elements of long rows are computed separately. */
    const bool aligns = columns >= ALIGN_MIN || ctx->non_temporal;
    const ptrdiff_t ahead = aligns ? (ptrdiff_t)(-(uintptr_t)out % CACHE_LINE) >> shift : 0;
    ptrdiff_t part = ahead == 0 || (ctx->op.whole_vectors && !ctx->non_temporal) ? limit : ahead;
    for (ptrdiff_t left = columns; left > 0; left -= part, part = limit) {
      if (part > left) part = left;
      char *to = ctx->non_temporal ? workspace->computed[0] : out;
      if (scalar_function != NULL) scalar_function(part, to, in[1], in[2], NULL, NULL);
      else run_function(&ctx->op, part, to, in[1], in[2], in[3]);
      if (ctx->non_temporal) RM_FOR_ISA(store_non_temporal)(out, to, part * size);
      out += part * size;
      for (int k = 1; k < operands; k++) in[k] += part * strides[k];
    }
  }
}

/* ---- all blocks ------------------------------------------------------------------------------ */

/* Whether an operand's row stride is smaller than its column stride. Several such rows are copied
 * column by column. */
static bool is_column_major(const map_context *ctx) {
  if (ctx->rows == 1) return false;
  for (int k = 0; k < ctx->iterator.operands; k++) {
    const ptrdiff_t along = rm_abs(ctx->iterator.inner_strides[k]) *
                            rm_itemsize(ctx->storage_dtype[k]);
    if (rm_abs(ctx->row_strides[k]) < along) return true;
  }
  return false;
}

/* Computes rows [from, to) of all outer positions, columns [first, last). It is not inlined,
 * because its blocks would take stack space in small ops too. */
__attribute__((noinline)) static void run_range(const map_context *ctx, ptrdiff_t from,
                                                ptrdiff_t to, ptrdiff_t first, ptrdiff_t last) {
  map_workspace workspace;
  const rm_iterator *iterator = &ctx->iterator;
  const int operands = iterator->operands;
  ptrdiff_t strides[RM_MAX_OPERANDS] = {0}, count[RM_MAX_RANK] = {0};
  char *at[RM_MAX_OPERANDS] = {NULL};
  for (int k = 0; k < operands; k++) {
    workspace.cache[k].source = NULL;
    strides[k] = iterator->inner_strides[k] * rm_itemsize(ctx->storage_dtype[k]);
    at[k] = iterator->data[k] + first * strides[k];
  }
  const ptrdiff_t width = last - first;
  rm_iterator_seek(iterator, ctx->outer_axes, from / ctx->rows, count, at);
  /* Whether rows are processed in place. */
  bool in_place = false;
  ptrdiff_t block_rows = 1, block_columns = BLOCK;
  if (ctx->tiled) {
    block_rows = TILE_ROWS;
    block_columns = TILE_COLUMNS;
  } else if (ctx->interleaves) {
    block_rows = ctx->rows;
    if (ctx->storage_dtype[0] != ctx->storage_dtype[1]) {
      block_columns = BLOCK / ctx->rows / LINE_ELEMENTS * LINE_ELEMENTS;
    }
  } else if (ctx->op.function == NULL && ctx->storage_dtype[0] == ctx->storage_dtype[1] &&
             !is_column_major(ctx)) {
    /* Copies need no buffers. */
    block_rows = PTRDIFF_MAX;
    block_columns = width;
  } else if (width < SHORT_ROW) {
    block_rows = BLOCK / width;
    /* Whole vectors, if there is a choice. */
    if (block_rows > VECTOR) block_rows -= block_rows % VECTOR;
  } else if (takes_rows_in_place(ctx, true)) {
    in_place = ctx->op.function != NULL;
    if (in_place) block_rows = PTRDIFF_MAX;
    block_columns = width;
  }
  for (ptrdiff_t row = from % ctx->rows; from < to;) {
    const ptrdiff_t end = rm_min(row + (to - from), ctx->rows);
    from += end - row;
    for (ptrdiff_t rows; row < end; row += rows) {
      rows = rm_min(end - row, block_rows);
      for (ptrdiff_t column = 0; column < width; column += block_columns) {
        const ptrdiff_t columns = rm_min(width - column, block_columns);
        char *part[RM_MAX_OPERANDS] = {NULL};
        for (int k = 0; k < operands; k++) {
          part[k] = at[k] + row * ctx->row_strides[k] + column * strides[k];
        }
        if (in_place) run_rows_in_place(ctx, &workspace, part, rows, columns);
        else run_block(ctx, &workspace, part, rows, columns);
      }
    }
    row = 0;
    rm_iterator_next(iterator, 0, ctx->outer_axes, count, at);
  }
  if (ctx->non_temporal) fence_non_temporal();
}

static void run_task(void *context, ptrdiff_t index) {
  const map_context *ctx = context;
  const ptrdiff_t rows = ctx->rows * ctx->outer_positions;
  const ptrdiff_t from = index / ctx->column_chunks * ctx->task_rows;
  const ptrdiff_t first = index % ctx->column_chunks * ctx->task_columns;
  run_range(ctx, from, rm_min(from + ctx->task_rows, rows), first,
            rm_min(first + ctx->task_columns, ctx->columns));
}

/* Rows that a kernel takes in place. */
typedef struct {
  rm_kept kept;
  map_function function;
  const double *attributes;
  ptrdiff_t rows, columns;
  /* The bytes from a buffer to the first element, and from one row to the next. */
  ptrdiff_t offsets[RM_MAX_OPERANDS], strides[RM_MAX_OPERANDS];
} kept_rows;

static void run_kept_rows(const rm_kept *kept, void *const *buffers) {
  const kept_rows *own = (const kept_rows *)kept;
  char *at[RM_MAX_OPERANDS];
  for (int k = 0; k < RM_MAX_OPERANDS; k++) at[k] = (char *)buffers[k] + own->offsets[k];
  for (ptrdiff_t row = 0; row < own->rows; row++) {
    own->function(own->columns, at[0], at[1], at[2], at[3], own->attributes);
    for (int k = 0; k < RM_MAX_OPERANDS; k++) at[k] += own->strides[k];
  }
}

/* Keeps a call unless its kernel takes something of the context. */
static void keep_rows(const map_context *ctx, const rm_call *call, map_function function) {
  if (call->kept == NULL || may_simplify(call->op)) return;
  kept_rows *kept = malloc(sizeof *kept);
  if (kept == NULL) return;
  *kept = (kept_rows){.kept = {run_kept_rows},
                      .function = function,
                      .attributes = ctx->op.attributes,
                      .rows = ctx->rows,
                      .columns = ctx->columns};
  for (int k = 0; k < ctx->iterator.operands; k++) {
    kept->offsets[k] = ctx->iterator.data[k] - (char *)call->buffers[k];
    kept->strides[k] = ctx->row_strides[k];
  }
  *call->kept = &kept->kept;
}

/* Computes one row or a few short ones in place, without blocks. Returns false if that is not
 * possible. */
static bool run_few_rows(const map_context *ctx, const rm_call *call) {
  if (ctx->op.function == NULL || ctx->outer_positions > 1) return false;
  char *const *at = ctx->iterator.data;
  if (ctx->rows == 1 && ctx->columns < ALIGN_MIN && takes_rows_in_place(ctx, false)) {
    run_function(&ctx->op, ctx->columns, at[0], at[1], at[2], at[3]);
    const bool pads = ctx->op.whole_vectors && ctx->columns % VECTOR != 0;
    if (!pads) keep_rows(ctx, call, ctx->op.function);
    return true;
  }
  const ptrdiff_t *inner = ctx->iterator.inner_strides, *strides = ctx->row_strides;
  /* Other kernels than arithmetic may choose how they compute an element by its neighbours. */
  if (ctx->rows > FEW_ROWS || ctx->columns >= SHORT_ROW || ctx->op.scalar_functions == NULL ||
      (inner[1] == 0 && inner[2] == 0) || !takes_rows_in_place(ctx, true)) {
    return false;
  }
  const map_function function = inner[1] == inner[2] ? ctx->op.function
                                                     : ctx->op.scalar_functions[inner[2] == 0];
  if (function == NULL) return false;
  for (ptrdiff_t row = 0; row < ctx->rows; row++) {
    function(ctx->columns, at[0] + row * strides[0], at[1] + row * strides[1],
             at[2] + row * strides[2], NULL, NULL);
  }
  keep_rows(ctx, call, function);
  return true;
}

/* Whether operand k has a smaller stride along the second last axis than along the last, so that
 * whole rows would waste most of each cache line. */
static bool runs_across(const map_context *ctx, int k) {
  const ptrdiff_t along = rm_abs(ctx->row_strides[k]);
  const ptrdiff_t across = rm_abs(ctx->iterator.inner_strides[k]) *
                           rm_itemsize(ctx->storage_dtype[k]);
  return along != 0 && along < across;
}

/* An output that overwrites an input is in the caches anyway, and copies choose their stores
 * themselves. */
static bool uses_non_temporal(const map_context *ctx, double elements) {
  const rm_iterator *iterator = &ctx->iterator;
  if (ctx->op.function == NULL ||
      elements * (double)rm_itemsize(ctx->storage_dtype[0]) < NON_TEMPORAL_MIN) {
    return false;
  }
  for (int k = 1; k < iterator->operands; k++) {
    if (iterator->data[k] == iterator->data[0]) return false;
  }
  return true;
}

/* Returns about `chunk`, so that threads get equal shares and do not steal tasks whose data are in
 * other caches. */
static ptrdiff_t even_chunk(ptrdiff_t total, ptrdiff_t chunk) {
  const ptrdiff_t chunks = rm_round_up(rm_ceil_div(total, chunk), 8);
  return rm_round_up(rm_ceil_div(total, chunks), LINE_ELEMENTS);
}

static void run_map(map_context *ctx, const rm_call *call, ptrdiff_t task) {
  const rm_iterator *iterator = &ctx->iterator;
  const int rank = iterator->rank;
  ctx->columns = rank == 0 ? 1 : iterator->shape[rank - 1];
  ctx->rows = rank < 2 ? 1 : iterator->shape[rank - 2];
  ctx->outer_axes = rank < 2 ? 0 : rank - 2;
  ctx->outer_positions = 1;
  for (int axis = 0; axis < ctx->outer_axes; axis++) ctx->outer_positions *= iterator->shape[axis];
  memset(ctx->row_strides, 0, sizeof ctx->row_strides);
  for (int k = 0; k < iterator->operands && rank >= 2; k++) {
    ctx->row_strides[k] = iterator->strides[rank - 2][k];
  }
  bool crossing = false;
  for (int k = 0; k < iterator->operands && ctx->rows > 1; k++) crossing |= runs_across(ctx, k);
  ctx->tiled = crossing && ctx->rows >= TILE_MIN && ctx->columns >= TILE_MIN;
  /* Casts write whole rows if they can. */
  ctx->interleaves = crossing && ctx->rows < TILE_MIN && ctx->columns >= SHORT_ROW &&
                     ctx->op.function == NULL &&
                     (ctx->storage_dtype[0] == ctx->storage_dtype[1] || runs_across(ctx, 0));
  const ptrdiff_t rows = ctx->rows * ctx->outer_positions;
  const double elements = (double)rows * (double)ctx->columns;
  ctx->non_temporal = uses_non_temporal(ctx, elements);
  if (elements < (double)(MIN_TASKS * task)) {
    if (run_few_rows(ctx, call)) return;
    run_range(ctx, 0, rows, 0, ctx->columns);
    return;
  }
  ctx->task_columns = ctx->columns < 2 * task ? ctx->columns : even_chunk(ctx->columns, task);
  ctx->column_chunks = rm_ceil_div(ctx->columns, ctx->task_columns);
  ctx->task_rows = rm_ceil_div(task, ctx->task_columns);
  /* Tiles and interleaved rows are not split. */
  if (ctx->tiled) ctx->task_rows = rm_round_up(ctx->task_rows, TILE_ROWS);
  if (ctx->interleaves) ctx->task_rows = rm_round_up(ctx->task_rows, ctx->rows);
  rm_parallel(rm_ceil_div(rows, ctx->task_rows) * ctx->column_chunks,
              elements / (double)task * TASK_NS, run_task, ctx);
}

/* Whether all strides of operand k are 0. */
static bool is_scalar_operand(const rm_iterator *iterator, int k) {
  for (int axis = 0; axis < iterator->rank; axis++) {
    if (iterator->strides[axis][k] != 0 && iterator->shape[axis] > 1) return false;
  }
  return true;
}

/* Takes a cheaper kernel if operands after the first are scalars. */
static void simplify(map_context *ctx, int opcode) {
  map_scalar scalars[RM_MAX_OPERANDS] = {0};
  for (int k = 2; k < ctx->op.operands; k++) {
    const bool is_scalar = is_scalar_operand(&ctx->iterator, k);
    scalars[k] = (map_scalar){is_scalar ? ctx->iterator.data[k] : NULL, ctx->storage_dtype[k]};
  }
  RM_FOR_ISA(map_simplify)(&ctx->op, opcode, scalars);
  ctx->iterator.operands = ctx->op.operands;
}

int32_t RM_FOR_ISA(map)(const rm_call *call) {
  const int dtype = call->compute, opcode = call->op;
  map_context ctx;
  int32_t status = RM_FOR_ISA(find_map_op)(&ctx.op, opcode, dtype, rm_attributes(call));
  if (status != RM_OK) return status;
  const int operands = ctx.op.operands;
  /* 16-bit floats take as long as their compute dtype. */
  ptrdiff_t widest = dtype == RM_FLOAT16 || dtype == RM_BFLOAT16 ? 4 : 1;
  for (int k = 0; k < operands; k++) {
    ctx.storage_dtype[k] = call->dtypes[k];
    if (ctx.storage_dtype[k] >= RM_DTYPE_COUNT) return RM_UNSUPPORTED;
    if (rm_itemsize(ctx.storage_dtype[k]) > widest) widest = rm_itemsize(ctx.storage_dtype[k]);
  }
  if (opcode == RM_OP_copy && ctx.storage_dtype[1] == dtype) ctx.op.function = NULL;
  ctx.iterator.data[2] = ctx.iterator.data[3] = NULL;
  status = rm_read_call(&ctx.iterator, call, operands);
  if (status != RM_OK || ctx.iterator.empty) return status;
  if (may_simplify(opcode)) simplify(&ctx, opcode);
  const ptrdiff_t memory_bound = MEMORY_BOUND_BYTES >> __builtin_ctzll((unsigned long long)widest);
  run_map(&ctx, call, ctx.op.compute_bound ? COMPUTE_BOUND_TASK : memory_bound);
  return RM_OK;
}
