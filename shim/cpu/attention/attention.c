/*
 * Attention: softmax(scale q k' + mask) v for each head, without a matrix of all scores.
 *
 * The scores of a block of keys are computed, then their softmax, then its product with the values;
 * blocks are combined as in flash attention: each row has its maximum and its sum so far, and sums
 * are rescaled when the maximum grows. Up to one block of keys, this is a plain softmax.
 *
 * Two ways: panels of query rows, by the kernels of matrix products, or few query rows, where
 * reading keys and values once is what takes time. Both compute in float32. Tasks are cut by sizes
 * alone. Keys that the causal limit hides from all rows of a panel are not read.
 */
#include "attention_context.h"

enum {
  /* Query rows of a task. Tasks that copy keys or values have more, so that the copy takes under a
   * twentieth of the time. Tasks are halved while there are fewer than TARGET_TASKS. */
  TASK_ROWS = 128,
  COPYING_TASK_ROWS = 512,
  TARGET_TASKS = 16,
  /* Few rows of this many problems need no parts of their keys. */
  ENOUGH_PROBLEMS = 32
};

/* The estimated nanoseconds per exponential, and per element of keys and values that is read. */
static const double EXP_NS = 0.3, READ_NS = 0.1;

/* The strides of an operand, and the operands of attention. */
enum { STRIDES_PER_OPERAND = 3, OPERANDS = 5 };

_Static_assert(RM_ATTENTION_AT_NUMBERS ==
                   RM_ATTENTION_AT_STRIDES + STRIDES_PER_OPERAND * OPERANDS,
               "numbers of attention");

static head_operand operand_of(const rm_call *call, int i) {
  const double *strides = call->numbers + RM_ATTENTION_AT_STRIDES + i * STRIDES_PER_OPERAND;
  const double *offsets = call->numbers + RM_ATTENTION_AT_NUMBERS;
  return (head_operand){
      .dtype = call->dtypes[i],
      .data = call->buffers[i],
      .strides = {.group = (ptrdiff_t)strides[0],
                  .row = (ptrdiff_t)strides[1],
                  .column = (ptrdiff_t)strides[2]},
      .at = offsets + i * (ptrdiff_t)call->numbers[RM_ATTENTION_AT_BATCH],
  };
}

/* Whether rows of keys or values can be read as vectors of float32 in place. Rows in one set of the
 * L1 cache, which has fewer lines, are copied if they are read again. */
static bool is_direct(const head_operand *x, ptrdiff_t columns, ptrdiff_t query_rows) {
  const bool has_conflicts = query_rows > 1 &&
                             x->strides.row * (ptrdiff_t)sizeof(float) % L1_WAY_BYTES == 0;
  return x->dtype == RM_FLOAT32 && (x->strides.column == 1 || columns == 1) && !has_conflicts;
}

/* Splits problems into tasks of query rows, fewer of them if there would be too few tasks. */
static ptrdiff_t split_panels(attention_context *ctx) {
  const ptrdiff_t most = ctx->direct_k && ctx->direct_v ? TASK_ROWS : COPYING_TASK_ROWS;
  ptrdiff_t task_rows = rm_min(most, rm_round_up(ctx->rows, PANEL));
  while (task_rows > PANEL && ctx->problems * rm_ceil_div(ctx->rows, task_rows) < TARGET_TASKS) {
    task_rows = rm_round_up(task_rows / 2, PANEL);
  }
  ctx->task_rows = task_rows;
  ctx->row_tasks = rm_ceil_div(ctx->rows, task_rows);
  const bool cached = ctx->lengths != NULL;
  ctx->key_block = cached ? KEY_BLOCK : rm_ceil_div(ctx->n, rm_ceil_div(ctx->n, KEY_BLOCK));
  ctx->workspace_bytes = RM_FOR_ISA(panels_workspace)(ctx);
  return ctx->problems * ctx->row_tasks;
}

/* Splits the keys of problems into parts. With a cache, parts and blocks of keys begin at the same keys
 * for any length, and many problems have the same parts as few: a sequence has the same bits alone and
 * among others. */
static ptrdiff_t split_few(attention_context *ctx) {
  const bool is_enough = ctx->problems >= ENOUGH_PROBLEMS;
  const ptrdiff_t blocks = rm_ceil_div(ctx->n, FEW_KEY_BLOCK);
  if (ctx->lengths != NULL) {
    ctx->parts = blocks;
    ctx->part_keys = FEW_KEY_BLOCK;
  } else {
    ctx->parts = is_enough ? 1 : blocks;
    ctx->part_keys = rm_ceil_div(ctx->n, ctx->parts);
  }
  ctx->task_parts = is_enough ? ctx->parts : 1;
  ctx->workspace_bytes = RM_FOR_ISA(few_workspace)(ctx);
  return ctx->problems * (ctx->parts / ctx->task_parts);
}

/* The context of a call without its keys of a cache. */
static attention_context context_of(const rm_call *call) {
  const double *numbers = call->numbers;
  return (attention_context){
      .kernels = RM_FOR_ISA(gemm_kernels)(RM_FLOAT32),
      .batch = (ptrdiff_t)numbers[RM_ATTENTION_AT_BATCH],
      .steps = 1,
      .group_size = (ptrdiff_t)numbers[RM_ATTENTION_AT_GROUP_SIZE],
      .m = (ptrdiff_t)numbers[RM_ATTENTION_AT_QUERIES],
      .n = (ptrdiff_t)numbers[RM_ATTENTION_AT_KEYS],
      .new_keys = (ptrdiff_t)numbers[RM_ATTENTION_AT_KEYS],
      .d = (ptrdiff_t)numbers[RM_ATTENTION_AT_DEPTH],
      .dv = (ptrdiff_t)numbers[RM_ATTENTION_AT_VALUE_DEPTH],
      .scale = (float)numbers[RM_ATTENTION_AT_SCALE],
      /* 1 for causal, 2 for hidden keys that leave no trace. */
      .causal = ((int)numbers[RM_ATTENTION_AT_FLAGS] & 1) != 0,
      .hides = ((int)numbers[RM_ATTENTION_AT_FLAGS] & 2) != 0,
      .soft_cap = (float)numbers[RM_ATTENTION_AT_SOFT_CAP],
      .out = operand_of(call, 0),
      .q = operand_of(call, 1),
      .k = operand_of(call, 2),
      .v = operand_of(call, 3),
  };
}

/* Checks the operands that all calls have; RM_OK if they can be read. */
static int32_t check_operands(const rm_call *call) {
  for (int i = 0; i < 4; i++) {
    if (!rm_fits_float32(call->dtypes[i])) return RM_UNSUPPORTED;
    if (call->buffers[i] == NULL) return rm_fail(RM_BAD_ARGUMENT, "attention without operand %d", i);
  }
  return RM_OK;
}

/* Runs a call; keys is the sum of the keys of all problems, about. */
static int32_t attend(attention_context *ctx, double keys) {
  if (ctx->steps < 1) return RM_OK;
  ctx->problems = ctx->batch * ctx->steps;
  ctx->rows = ctx->group_size * (ctx->m / ctx->steps);
  if (ctx->problems < 1 || ctx->rows < 1 || ctx->dv < 1) return RM_OK;
  if (ctx->n < 1 || ctx->d < 1) return RM_UNSUPPORTED;
  ctx->hides = ctx->hides && (ctx->causal || ctx->mask.data != NULL);
  const bool cached = ctx->lengths != NULL;
  ctx->k_pitch = ctx->d * (ptrdiff_t)sizeof(float) % L1_WAY_BYTES == 0 ? ctx->d + LANES : ctx->d;
  ctx->v_pitch = rm_round_up(ctx->dv, LANES);
  ctx->direct_k = !cached && is_direct(&ctx->k, ctx->d, ctx->rows);
  ctx->direct_v = !cached && is_direct(&ctx->v, ctx->dv, ctx->rows);
  const bool few = ctx->rows <= FEW_ROWS;
  /* The kernels for several rows read whole vectors of values. */
  if (ctx->rows > 1) ctx->direct_v = ctx->direct_v && ctx->dv % LANES == 0;
  const ptrdiff_t tasks = few ? split_few(ctx) : split_panels(ctx);
  ctx->slots = (int)rm_min(rm_threads(), tasks);
  const bool combines = few && ctx->parts > 1 && ctx->task_parts == 1;
  const ptrdiff_t partial = combines ? tasks * ctx->rows * (ctx->dv + 2) : 0;
  const size_t size = (size_t)(ctx->slots * ctx->workspace_bytes) +
                      (size_t)partial * sizeof *ctx->partial;
  gemm_workspace *workspace = RM_FOR_ISA(workspace_alloc)(size, ctx->slots);
  if (workspace == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for attention");
  ctx->workspace = workspace->data;
  ctx->slot_taken = workspace->slot_taken;
  ctx->partial = (float *)(ctx->workspace + ctx->slots * ctx->workspace_bytes);
  const double columns = (double)(ctx->d + ctx->dv);
  const double scores = keys * (double)ctx->rows;
  const double panels_ns = scores * (columns / LANES / VECTOR_FMAS_PER_NS + EXP_NS);
  const double few_ns = keys * columns * READ_NS;
  if (few) rm_parallel(tasks, few_ns, RM_FOR_ISA(attend_few), ctx);
  else rm_parallel(tasks, panels_ns, RM_FOR_ISA(attend_panels), ctx);
  if (combines) RM_FOR_ISA(combine_parts)(ctx);
  RM_FOR_ISA(workspace_free)(workspace);
  return RM_OK;
}

int32_t RM_FOR_ISA(attention)(const rm_call *call) {
  attention_context ctx = context_of(call);
  const int32_t status = check_operands(call);
  if (status != RM_OK) return status;
  const bool masked = call->operands >= OPERANDS && call->dtypes[4] != RM_NONE;
  if (masked) {
    ctx.mask = operand_of(call, 4);
    if (ctx.mask.dtype != RM_BOOL && !rm_fits_float32(ctx.mask.dtype)) return RM_UNSUPPORTED;
    if (ctx.mask.data == NULL) return rm_fail(RM_BAD_ARGUMENT, "attention without operand 4");
  }
  return attend(&ctx, (double)ctx.batch * (double)ctx.n);
}

/* The operand of a cache. */
static head_operand cached_of(const rm_call *call, int i, double row, double page, const double *at) {
  return (head_operand){
      .dtype = call->dtypes[i],
      .data = call->buffers[i],
      .strides = {.row = (ptrdiff_t)row, .column = 1, .page = (ptrdiff_t)page},
      .at = at,
  };
}

/* Reads where the pages of sequences are, if there are any. */
static int32_t read_pages(const rm_call *call, int i, const double *own, attention_context *ctx) {
  if (call->operands <= i || call->dtypes[i] == RM_NONE) return RM_OK;
  if (call->dtypes[i] != RM_INT32) return RM_UNSUPPORTED;
  ctx->page_rows = (ptrdiff_t)own[RM_CACHED_ATTENTION_AT_PAGE_ROWS];
  ctx->page_count = (ptrdiff_t)own[RM_CACHED_ATTENTION_AT_PAGE_COUNT];
  ctx->problems_per_table = (ptrdiff_t)own[RM_CACHED_ATTENTION_AT_PROBLEMS_PER_TABLE];
  if (call->buffers[i] == NULL || ctx->page_rows < 1 || ctx->page_count < 1 ||
      ctx->problems_per_table < 1 || ctx->capacity % ctx->page_rows != 0) {
    return rm_fail(RM_BAD_ARGUMENT, "attention without pages");
  }
  ctx->pages = (const int32_t *)call->buffers[i] + (ptrdiff_t)own[RM_CACHED_ATTENTION_AT_TABLE_OFFSET];
  return RM_OK;
}

int32_t RM_FOR_ISA(cached_attention)(const rm_call *call) {
  enum { CACHED_K = 4, CACHED_V, LENGTHS, CACHED_OPERANDS, SINKS = CACHED_OPERANDS, PAGES };
  attention_context ctx = context_of(call);
  const int32_t status = check_operands(call);
  if (status != RM_OK) return status;
  if (call->operands < CACHED_OPERANDS || call->dtypes[LENGTHS] != RM_INT32) return RM_UNSUPPORTED;
  for (int i = CACHED_K; i < CACHED_OPERANDS; i++) {
    const int dtype = call->dtypes[i];
    if (i != LENGTHS && dtype != RM_UINT8 && !rm_fits_float32(dtype)) return RM_UNSUPPORTED;
    if (call->buffers[i] == NULL) return rm_fail(RM_BAD_ARGUMENT, "attention without operand %d", i);
  }
  if (ctx.batch < 1) return RM_OK;
  const double *own = call->numbers + RM_ATTENTION_AT_NUMBERS + (ptrdiff_t)OPERANDS * ctx.batch;
  const double *at = own + RM_CACHED_ATTENTION_AT_NUMBERS;
  ctx.cached_k = cached_of(call, CACHED_K, own[RM_CACHED_ATTENTION_AT_KEY_STRIDE],
                           own[RM_CACHED_ATTENTION_AT_KEY_PAGE_STRIDE], at);
  ctx.cached_v = cached_of(call, CACHED_V, own[RM_CACHED_ATTENTION_AT_VALUE_STRIDE],
                           own[RM_CACHED_ATTENTION_AT_VALUE_PAGE_STRIDE], at + ctx.batch);
  ctx.lengths = (const int32_t *)call->buffers[LENGTHS] + (ptrdiff_t)own[RM_CACHED_ATTENTION_AT_LENGTH_OFFSET];
  ctx.problems_per_length = (ptrdiff_t)own[RM_CACHED_ATTENTION_AT_PROBLEMS_PER_LENGTH];
  ctx.capacity = (ptrdiff_t)own[RM_CACHED_ATTENTION_AT_CAPACITY];
  ctx.window = (ptrdiff_t)own[RM_CACHED_ATTENTION_AT_WINDOW];
  ctx.key_heads = (ptrdiff_t)own[RM_CACHED_ATTENTION_AT_KEY_HEADS];
  if (own[RM_CACHED_ATTENTION_AT_STEPWISE] != 0) ctx.steps = ctx.m;
  if (call->operands > SINKS && call->dtypes[SINKS] != RM_NONE) {
    if (call->dtypes[SINKS] != RM_FLOAT32) return RM_UNSUPPORTED;
    if (call->buffers[SINKS] == NULL || ctx.key_heads < 1) {
      return rm_fail(RM_BAD_ARGUMENT, "attention without sinks");
    }
    ctx.sinks = (const float *)call->buffers[SINKS] + (ptrdiff_t)own[RM_CACHED_ATTENTION_AT_SINK_OFFSET];
  }
  if (ctx.problems_per_length < 1) return rm_fail(RM_BAD_ARGUMENT, "attention without lengths");
  const int32_t paged = read_pages(call, PAGES, own, &ctx);
  if (paged != RM_OK) return paged;
  ptrdiff_t longest = 0;
  double keys = 0;
  for (ptrdiff_t i = 0; i < ctx.batch; i += ctx.problems_per_length) {
    const ptrdiff_t length = cached_keys(&ctx, i);
    longest = length > longest ? length : longest;
    keys += (double)ctx.problems_per_length * (double)(length + ctx.new_keys);
  }
  ctx.n += longest;
  return attend(&ctx, keys * (double)ctx.steps);
}
