/*
 * Chains of elementwise ops in one pass: the steps run one after the other over a block of elements
 * that stays in the first-level cache, by the kernels that run the ops alone.
 */
#include <string.h>
#include "chain_strip.h"

enum {
  /* Rows of a block with an operand that runs across the others. */
  TILE_ROWS = 16,
  /* Shorter rows are combined in blocks. */
  SHORT_ROW = 128,
  /* As in map.c: the bytes of the widest operand, or the elements, of a task, the fewest tasks for
   * several threads, the estimated time of a task, and the output size from which stores are
   * non-temporal. */
  MEMORY_BOUND_BYTES = 1 << 17,
  COMPUTE_BOUND_TASK = 1 << 13,
  MIN_TASKS = 2,
  TASK_NS = 6000,
  NON_TEMPORAL_MIN = 1 << 24,
  LINE_ELEMENTS = 64
};

/* ---- one block ------------------------------------------------------------------------------- */

/* Writes `value`, with strides, to an output. */
static void store_output(const chain_context *chain, const chain_block *part, int output,
                         const char *value, ptrdiff_t row_stride, ptrdiff_t column_stride) {
  const ptrdiff_t bytes = rm_itemsize(chain->dtypes[output]);
  const block target = {part->at[output], chain->row_strides[output],
                        chain->inner_strides[output] * bytes};
  RM_FOR_ISA(copy_block)(target, (block){(char *)value, row_stride, column_stride}, part->rows,
                         part->columns, bytes);
}

static bool is_contiguous(const chain_context *chain, const chain_block *part, int k) {
  return chain->inner_strides[k] == 1 &&
         (part->rows == 1 ||
          chain->row_strides[k] == part->columns * rm_itemsize(chain->dtypes[k]));
}

/* Prefetches what the next block reads in place at the elements [from, to) of this one. */
static void prefetch_next(const chain_workspace *workspace, const chain_block *part, ptrdiff_t from,
                          ptrdiff_t to) {
  const chain_context *chain = workspace->chain;
  for (int i = 0; i < chain->loads; i++) {
    const chain_load *load = &chain->load[i];
    if (load->operand.column_stride != 1) continue;
    const ptrdiff_t bytes = rm_itemsize(load->operand.storage_dtype);
    const char *next = part->at[load->position] + part->rows * part->columns * bytes;
    for (ptrdiff_t at = from * bytes; at < to * bytes; at += CACHE_LINE) {
      __builtin_prefetch(next + at);
    }
  }
}

/* Runs a kernel that takes long on parts of a block, so that memory has something to do. It costs
 * more than it gains if the operands are in a cache. */
static void run_compute_bound(chain_workspace *workspace, const chain_block *part,
                              const map_op *op, char *result, const char *const *in) {
  const ptrdiff_t total = part->rows * part->columns;
  ptrdiff_t bytes[RM_MAX_OPERANDS] = {0};
  for (int k = 0; k < op->operands; k++) bytes[k] = rm_itemsize(op->compute_dtype[k]);
  for (ptrdiff_t from = 0; from < total; from += CHECKED_BLOCK) {
    const ptrdiff_t n = rm_min(total - from, CHECKED_BLOCK);
    prefetch_next(workspace, part, from, from + n);
    run_function(op, n, result + from * bytes[0], in[0] + from * bytes[1], in[1] + from * bytes[2],
                 in[2] + from * bytes[3]);
  }
}

/* Computes a step into `target`, which has its dtype. */
static void compute_step(chain_workspace *workspace, const chain_block *part,
                         const chain_step *step, char *target) {
  const ptrdiff_t total = part->rows * part->columns;
  const map_op *op = &step->op;
  if (step->convert != NULL) {
    step->convert(total, target, RM_FOR_ISA(load_operand)(workspace, part, step, 0));
    return;
  }
  char *result = step->native ? target : block_at(workspace, RESULT);
  bool done = false;
  if (op->scalar_functions != NULL && step->arity == 2) {
    char values[2][8];
    const char *first = RM_FOR_ISA(scalar_operand)(workspace, part, step, 0, values[0]);
    const char *second = RM_FOR_ISA(scalar_operand)(workspace, part, step, 1, values[1]);
    const map_function function = op->scalar_functions[first == NULL];
    if ((first == NULL) != (second == NULL) && function != NULL) {
      if (first == NULL) first = RM_FOR_ISA(load_operand)(workspace, part, step, 0);
      else second = RM_FOR_ISA(load_operand)(workspace, part, step, 1);
      function(total, result, first, second, NULL, NULL);
      done = true;
    }
  }
  if (!done) {
    const char *in[3] = {NULL, NULL, NULL};
    for (int k = 0; k < step->arity; k++) {
      in[k] = RM_FOR_ISA(load_operand)(workspace, part, step, k);
    }
    const bool in_parts = op->compute_bound && workspace->chain->streams;
    if (in_parts) run_compute_bound(workspace, part, op, result, in);
    else run_function(op, total, result, in[0], in[1], in[2]);
  }
  if (step->native) return;
  const int from = op->compute_dtype[0];
  cast_via(total, target, step->dtype, from == RM_BOOL ? RM_NONE : op->rounding_dtype, from, result,
           block_at(workspace, BETWEEN));
}

/* Where a step writes its block. */
static char *step_target(chain_workspace *workspace, const chain_block *part,
                         const chain_step *step) {
  const chain_context *chain = workspace->chain;
  const int output = step->output;
  const bool in_place =
      output >= 0 && is_contiguous(chain, part, output) && !chain->non_temporal[output];
  return in_place ? part->at[output] : block_at(workspace, step->block);
}

/* Writes the block of a step to its output, unless it is there. */
static void store_step(const chain_workspace *workspace, const chain_block *part, int s) {
  const chain_context *chain = workspace->chain;
  const chain_step *step = &chain->step[s];
  const int output = step->output;
  const char *result = workspace->result[s];
  if (output < 0 || result == part->at[output]) return;
  const ptrdiff_t bytes = rm_itemsize(step->dtype);
  if (is_contiguous(chain, part, output)) {
    RM_FOR_ISA(store_non_temporal)(part->at[output], result, part->rows * part->columns * bytes);
  } else {
    store_output(chain, part, output, result, part->columns * bytes, bytes);
  }
}

static void run_block(chain_workspace *workspace, const chain_block *part) {
  const chain_context *chain = workspace->chain;
  for (int i = 0; i < chain->loads; i++) workspace->ready[i] = NULL;
  for (int i = 0; i < chain->loads; i++) {
    if (chain->load[i].copied) RM_FOR_ISA(load_input)(workspace, part, i);
  }
  for (int s = 0; s < chain->steps;) {
    const chain_step *step = &chain->step[s];
    const int first = s, last = step->strip_end > s ? step->strip_end : s + 1;
    if (step->is_scalar) {
      if (step->output >= 0) store_output(chain, part, step->output, step->value, 0, 0);
      s++;
      continue;
    }
    for (int i = first; i < last; i++) {
      workspace->result[i] = step_target(workspace, part, &chain->step[i]);
    }
    const bool done = last > first + 1 && RM_FOR_ISA(run_strips)(workspace, part, first, last);
    for (; s < last; s++) {
      if (!done) compute_step(workspace, part, &chain->step[s], workspace->result[s]);
      store_step(workspace, part, s);
    }
  }
}

/* ---- all blocks ------------------------------------------------------------------------------ */

static void seek(const chain_context *chain, ptrdiff_t position, ptrdiff_t *index, char **at) {
  for (int axis = chain->outer_axes - 1; axis >= 0; axis--) {
    index[axis] = position % chain->shape[axis];
    position /= chain->shape[axis];
    for (int k = 0; k < chain->operands; k++) at[k] += index[axis] * chain->strides[axis][k];
  }
}

static void next_position(const chain_context *chain, ptrdiff_t *index, char **at) {
  for (int axis = chain->outer_axes - 1; axis >= 0; axis--) {
    const ptrdiff_t *strides = chain->strides[axis];
    if (++index[axis] < chain->shape[axis]) {
      for (int k = 0; k < chain->operands; k++) at[k] += strides[k];
      return;
    }
    index[axis] = 0;
    for (int k = 0; k < chain->operands; k++) at[k] -= strides[k] * (chain->shape[axis] - 1);
  }
}

/* Computes rows [from, to) of all outer positions, columns [first, last). */
static void run_range(const chain_context *chain, ptrdiff_t from, ptrdiff_t to, ptrdiff_t first,
                      ptrdiff_t last) {
  _Alignas(64) char space[chain->blocks * (chain->block_bytes + BLOCK_MARGIN)];
  chain_workspace workspace;
  workspace.chain = chain;
  workspace.space = space;
  memset(workspace.repeated, 0, (size_t)chain->blocks);
  memset(workspace.written, 0, (size_t)chain->steps);
  for (int i = 0; i < chain->loads; i++) workspace.cache[i].source = NULL;
  ptrdiff_t strides[RM_CHAIN_OPERANDS], count[RM_MAX_RANK] = {0};
  char *at[RM_CHAIN_OPERANDS];
  for (int k = 0; k < chain->operands; k++) {
    strides[k] = chain->inner_strides[k] * rm_itemsize(chain->dtypes[k]);
    at[k] = chain->data[k] + first * strides[k];
  }
  seek(chain, from / chain->rows, count, at);
  chain_block part;
  for (ptrdiff_t row = from % chain->rows; from < to;) {
    const ptrdiff_t end = rm_min(row + (to - from), chain->rows);
    from += end - row;
    for (; row < end; row += part.rows) {
      part.rows = rm_min(end - row, chain->block_rows);
      for (ptrdiff_t column = first; column < last; column += part.columns) {
        part.columns = rm_min(last - column, chain->block_columns);
        for (int k = 0; k < chain->operands; k++) {
          part.at[k] = at[k] + row * chain->row_strides[k] + (column - first) * strides[k];
        }
        run_block(&workspace, &part);
      }
    }
    row = 0;
    next_position(chain, count, at);
  }
  for (int k = 0; k < chain->outputs; k++) {
    if (chain->non_temporal[k]) fence_non_temporal();
  }
}

static void run_task(void *context, ptrdiff_t index) {
  const chain_context *chain = context;
  const ptrdiff_t rows = chain->rows * chain->outer_positions;
  const ptrdiff_t from = index / chain->column_chunks * chain->task_rows;
  const ptrdiff_t first = index % chain->column_chunks * chain->task_columns;
  run_range(chain, from, rm_min(from + chain->task_rows, rows), first,
            rm_min(first + chain->task_columns, chain->columns));
}

/* Whether operand k has a smaller stride along the second last axis than along the last. */
static bool runs_across(const chain_context *chain, int k) {
  const ptrdiff_t along = rm_abs(chain->row_strides[k]);
  return along != 0 && along < rm_abs(chain->inner_strides[k]) * rm_itemsize(chain->dtypes[k]);
}

/* Large outputs that overwrite no input do not fit the caches. */
static void choose_stores(chain_context *chain, double elements) {
  chain->streams = false;
  for (int k = 0; k < chain->outputs; k++) {
    bool large = elements * (double)rm_itemsize(chain->dtypes[k]) >= NON_TEMPORAL_MIN;
    for (int i = chain->outputs; i < chain->operands; i++) {
      large &= chain->data[i] != chain->data[k];
    }
    chain->non_temporal[k] = large;
    chain->streams |= large;
  }
}

/* Cuts `total` into equal parts of at most `largest`, in whole lines. */
static ptrdiff_t even_part(ptrdiff_t total, ptrdiff_t largest) {
  return rm_round_up(rm_ceil_div(total, rm_ceil_div(total, largest)), LINE_ELEMENTS);
}

static void choose_blocks(chain_context *chain) {
  const int rank = chain->rank;
  chain->columns = rank == 0 ? 1 : chain->shape[rank - 1];
  chain->rows = rank < 2 ? 1 : chain->shape[rank - 2];
  chain->outer_axes = rank < 2 ? 0 : rank - 2;
  chain->outer_positions = 1;
  for (int axis = 0; axis < chain->outer_axes; axis++) chain->outer_positions *= chain->shape[axis];
  chain->block_bytes = chain->blocks <= FEW_BLOCKS ? BLOCK_BYTES : SMALL_BLOCK_BYTES;
  const ptrdiff_t most = chain->block_bytes / chain->widest;
  chain->tiled = false;
  if (chain->rows >= TILE_ROWS && chain->columns >= TILE_ROWS) {
    for (int k = 0; k < chain->operands; k++) chain->tiled |= runs_across(chain, k);
  }
  chain->block_rows = 1;
  chain->block_columns = most;
  if (chain->tiled) {
    chain->block_rows = TILE_ROWS;
    chain->block_columns = most / TILE_ROWS;
  } else if (chain->rows > 1 && chain->columns < SHORT_ROW) {
    chain->block_rows = most / chain->columns;
    /* Whole vectors, if there is a choice. */
    if (chain->block_rows > VECTOR) chain->block_rows -= chain->block_rows % VECTOR;
    chain->block_columns = chain->columns;
  } else if (chain->columns > most && chain->rows > 1) {
    chain->block_columns = even_part(chain->columns, most);
  }
  for (int i = 0; i < chain->loads; i++) {
    chain_load *load = &chain->load[i];
    const block_operand *operand = &load->operand;
    load->in_place = chain->block_rows == 1 && operand->column_stride == 1 && !load->copied &&
                     is_native_dtype(operand->storage_dtype, operand->compute_dtype,
                                     operand->rounding_dtype);
  }
}

static void run_chain(chain_context *chain) {
  choose_blocks(chain);
  RM_FOR_ISA(find_strips)(chain);
  const ptrdiff_t rows = chain->rows * chain->outer_positions;
  const double elements = (double)rows * (double)chain->columns;
  choose_stores(chain, elements);
  const bool compute_bound = chain->compute_bound > 0;
  const ptrdiff_t task = compute_bound ? COMPUTE_BOUND_TASK : MEMORY_BOUND_BYTES / chain->widest;
  if (elements < (double)(MIN_TASKS * task)) {
    run_range(chain, 0, rows, 0, chain->columns);
    return;
  }
  chain->task_columns = chain->columns;
  if (chain->columns >= 2 * task) {
    /* Threads with equal shares do not take each other's tasks. */
    const ptrdiff_t chunks = rm_round_up(rm_ceil_div(chain->columns, task), 8);
    chain->task_columns = rm_round_up(rm_ceil_div(chain->columns, chunks), chain->block_columns);
  }
  chain->column_chunks = rm_ceil_div(chain->columns, chain->task_columns);
  chain->task_rows = rm_round_up(rm_ceil_div(task, chain->task_columns), chain->block_rows);
  const int cost = compute_bound ? chain->compute_bound : 1;
  rm_parallel(rm_ceil_div(rows, chain->task_rows) * chain->column_chunks,
              elements / (double)task * TASK_NS * cost, run_task, chain);
}

int32_t RM_FOR_ISA(chain)(const rm_call *call) {
  chain_context chain;
  const int32_t status = RM_FOR_ISA(read_chain)(&chain, call);
  if (status != RM_OK || chain.empty) return status;
  run_chain(&chain);
  return RM_OK;
}
