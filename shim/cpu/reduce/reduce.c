/*
 * Reductions, index reductions and scans of every dtype.
 *
 * All of them share one pipeline. A block of elements is loaded into the form that kernels read
 * (contiguous, of a few types) unless it already has that form. Kernels then reduce it into
 * accumulators, one per output. An output reduces its own elements (along). Where adjacent outputs
 * have adjacent elements, whole rows are reduced into many accumulators at once (across). Work is
 * split by sizes alone, so that results do not depend on the number of threads.
 *
 * This file knows plans only, not shapes or axes.
 */
#include <stdlib.h>
#include <string.h>
#include "reduce_context.h"

/* The estimated time per element. */
static const double NANOSECONDS = 0.07;

enum {
  /* Rows between two flushes of partial sums. */
  FLUSH_ROWS = 32,
  /* Contiguous runs of fewer elements are reduced across, as rows, although each run is contiguous:
   * for sums that start quickly, for kernels that need no loading, and for all others. */
#ifdef __wasm__
  FEW_SUMMED = 0,
#else
  FEW_SUMMED = 8,
#endif
  FEW_DIRECT = 15,
  FEW = 16,
  /* Narrow rows that are reduced as one. */
  ROWS_TOGETHER = 16,
  /* Fewer of them are reduced along columns. */
#ifdef __wasm__
  NARROW_ROWS = 10 * ROWS_TOGETHER,
#else
  NARROW_ROWS = 2 * ROWS_TOGETHER,
#endif
  /* A reduction of fewer units than half of this splits each unit into parts, up to this many in
   * all. */
  MAX_PARTS = 64
};

/* ---- iteration ------------------------------------------------------------------------------- */

static void layout_accumulators(accumulators *c, char *memory, ptrdiff_t width) {
  c->acc = memory;
  c->error = (double *)(memory + 8 * width);
  c->part = (double *)(memory + 16 * width);
  c->index = (int64_t *)c->error;
  c->position = 0;
}

static void init_accumulators(const reduce_context *ctx, accumulators *c, ptrdiff_t n) {
  uint64_t *restrict acc = c->acc;
  if (n == 1) {
    acc[0] = ctx->identity;
    c->error[0] = c->part[0] = 0;
    return;
  }
  for (ptrdiff_t i = 0; i < n; i++) acc[i] = ctx->identity;
  memset(c->error, 0, (size_t)n * sizeof(double));
  if (ctx->flush != NULL) memset(c->part, 0, (size_t)n * sizeof(double));
}

static bool stops(const reduce_context *ctx, const accumulators *c) {
  return ctx->short_circuits && *(const int64_t *)c->acc != 0;
}

/* Reduces a run of n elements into one accumulator. */
static void reduce_run(const reduce_context *ctx, ptrdiff_t n, const char *a, ptrdiff_t sa,
                       const char *b, ptrdiff_t sb, accumulators *c) {
  _Alignas(64) double buffer[WIDTH], second[WIDTH];
  double y = 0;
  if (ctx->load_second != NULL) ctx->load_second(1, b, 1, &y);
  const bool in_place = ctx->direct && sa == 1;
  const ptrdiff_t bytes = ctx->bytes, step = in_place ? ctx->step : WIDTH;
  for (ptrdiff_t i = 0; i < n; i += step) {
    const ptrdiff_t m = rm_min(n - i, step);
    const void *from = a + i * sa * bytes;
    if (!in_place) {
      ctx->load(m, from, sa, buffer);
      from = buffer;
      if (ctx->map != IDENTITY) {
        const double *with = &y;
        if (sb != 0) {
          ctx->load_second(m, b + i * sb * ctx->second_bytes, sb, second);
          with = second;
        }
        RM_FOR_ISA(map_elements)(ctx, ctx->map, m, buffer, with, sb != 0);
      }
    }
    ctx->run(ctx, m, from, y, c);
    c->position += m;
    if (stops(ctx, c)) return;
  }
}

/* Reduces n contiguous runs, `step` bytes apart, each into an accumulator. */
static inline void reduce_runs(const reduce_context *ctx, ptrdiff_t n, ptrdiff_t length,
                               const char *from, ptrdiff_t step, accumulators c) {
  if (length <= FEW_MAX && ctx->few != NULL) {
    ctx->few(n, length, from, step, c.acc);
    return;
  }
  for (ptrdiff_t i = 0; i < n; i++) {
    ctx->run(ctx, length, from + i * step, 0, &c);
    c.acc = (char *)c.acc + ctx->accumulator_bytes;
    c.error++;
    c.part++;
    c.index++;
  }
}

/* Reduces all elements of n outputs, one output after another. */
static void reduce_along(const reduce_context *ctx, const rm_iterator *it, char *const *data,
                         ptrdiff_t n, const accumulators *all) {
  const int outer_axes = ctx->outer_axes, inner = it->rank - 1;
  const bool single_element = outer_axes == it->rank;
  const ptrdiff_t length = single_element ? 1 : it->shape[inner];
  const ptrdiff_t sa = single_element ? 1 : it->strides[inner][1] / ctx->bytes;
  const ptrdiff_t sb = single_element || it->operands < 3
                           ? 0
                           : it->strides[inner][2] / ctx->second_bytes;
  if (ctx->direct && sa == 1 && inner == outer_axes && length <= ctx->step && it->operands < 3) {
    /* Rows may be short and many. */
    const ptrdiff_t row = outer_axes > 0 ? it->strides[outer_axes - 1][1] : 0;
    reduce_runs(ctx, n, length, data[1], row, *all);
    return;
  }
  ptrdiff_t count[RM_MAX_RANK];
  for (int axis = outer_axes; axis < inner; axis++) count[axis] = 0;
  for (ptrdiff_t i = 0; i < n; i++) {
    accumulators one = {(char *)all->acc + i * ctx->accumulator_bytes, all->error + i,
                        all->part + i, all->index + i, all->position};
    char *at[RM_MAX_OPERANDS] = {NULL};
    for (int k = 1; k < it->operands; k++) {
      at[k] = data[k] + (outer_axes > 0 ? i * it->strides[outer_axes - 1][k] : 0);
    }
    do reduce_run(ctx, length, at[1], sa, at[2], sb, &one);
    while (!stops(ctx, &one) && rm_iterator_next(it, outer_axes, inner, count, at));
    if (ctx->short_circuits) {
      for (int axis = outer_axes; axis < inner; axis++) count[axis] = 0;
    }
  }
}

/* Reduces rows of less than a vector: several adjacent ones form a longer row, whose accumulators
 * are combined at the end. */
static void reduce_narrow(const reduce_context *ctx, ptrdiff_t n, ptrdiff_t rows, const char *from,
                          accumulators *c) {
  _Alignas(64) char memory[ACCUMULATOR_ARRAYS * 8 * NARROW_MAX * ROWS_TOGETHER];
  const ptrdiff_t width = n * ROWS_TOGETHER, bytes = n * ctx->bytes;
  accumulators all;
  layout_accumulators(&all, memory, width);
  init_accumulators(ctx, &all, width);
  for (ptrdiff_t m; rows >= ROWS_TOGETHER;
       rows -= m * ROWS_TOGETHER, from += m * ROWS_TOGETHER * bytes) {
    m = rm_min(rows / ROWS_TOGETHER, FLUSH_ROWS);
    ctx->columns(ctx, width, m, from, ROWS_TOGETHER * bytes, &all);
    if (ctx->flush != NULL) ctx->flush(width, &all);
  }
  ctx->columns(ctx, n, rows, from, bytes, c);
  if (ctx->flush != NULL) ctx->flush(n, c);
  for (ptrdiff_t i = 0; i < width; i += n) {
    const accumulators one = {(char *)all.acc + i * ctx->accumulator_bytes, all.error + i,
                              all.part + i, NULL, 0};
    ctx->combine(ctx, n, c, &one);
  }
}

/* Reduces all elements of n adjacent outputs, row by row. */
static void reduce_across(const reduce_context *ctx, const rm_iterator *it, char *const *data,
                          ptrdiff_t n, accumulators *c) {
  const int outer_axes = ctx->outer_axes, inner = it->rank > outer_axes ? it->rank - 1 : outer_axes;
  const ptrdiff_t rows = it->rank > outer_axes ? it->shape[inner] : 1;
  const ptrdiff_t row = it->rank > outer_axes ? it->strides[inner][1] : 0;
  const ptrdiff_t second_row = it->rank > outer_axes ? it->strides[inner][2] : 0;
  const ptrdiff_t sa = it->strides[outer_axes - 1][1] / ctx->bytes;
  const ptrdiff_t sb = it->operands < 3 ? 0 : it->strides[outer_axes - 1][2] / ctx->second_bytes;
  const bool in_place = ctx->direct && sa == 1;
  if (ctx->narrow) {
    reduce_narrow(ctx, n, rows, data[1], c);
    return;
  }
  _Alignas(64) double buffer[WIDTH], second[WIDTH];
  ptrdiff_t count[RM_MAX_RANK], pending = 0;
  for (int axis = outer_axes; axis < inner; axis++) count[axis] = 0;
  char *at[RM_MAX_OPERANDS] = {NULL, data[1], data[2], NULL};
  do {
    for (ptrdiff_t r = 0, m = 1; r < rows; r += m) {
      const char *from = at[1] + r * row;
      if (in_place) {
        m = rm_min(rows - r, FLUSH_ROWS);
        ctx->columns(ctx, n, m, from, row, c);
      } else {
        ctx->load(n, from, sa, buffer);
        if (ctx->load_second != NULL) ctx->load_second(n, at[2] + r * second_row, sb, second);
        if (ctx->map != IDENTITY) RM_FOR_ISA(map_elements)(ctx, ctx->map, n, buffer, second, 1);
        ctx->columns(ctx, n, 1, buffer, 0, c);
      }
      c->position += m;
      pending += m;
      if (ctx->flush != NULL && pending >= FLUSH_ROWS) {
        ctx->flush(n, c);
        pending = 0;
      }
    }
  } while (rm_iterator_next(it, outer_axes, inner, count, at));
  if (ctx->flush != NULL) ctx->flush(n, c);
}

/* Sets the pointers of a unit and returns the number of its outputs. */
static ptrdiff_t seek_unit(const reduce_context *ctx, ptrdiff_t unit, char **at) {
  const rm_iterator *it = ctx->iterator;
  RM_ROLLED for (int k = 0; k < RM_MAX_OPERANDS; k++) at[k] = k < it->operands ? it->data[k] : NULL;
  if (ctx->outer_axes == 0) return 1;
  const int column = ctx->outer_axes - 1;
  if (unit == 0) return rm_min(it->shape[column], ctx->width);
  const ptrdiff_t blocks = rm_ceil_div(it->shape[column], ctx->width);
  const ptrdiff_t first = unit % blocks * ctx->width;
  RM_ROLLED for (int k = 0; k < it->operands; k++) at[k] += first * it->strides[column][k];
  unit /= blocks;
  for (int axis = column - 1; axis >= 0; axis--) {
    const ptrdiff_t position = unit % it->shape[axis];
    RM_ROLLED for (int k = 0; k < it->operands; k++) at[k] += position * it->strides[axis][k];
    unit /= it->shape[axis];
  }
  return rm_min(it->shape[column] - first, ctx->width);
}

static void reduce_unit(const reduce_context *ctx, const rm_iterator *it, char *const *at,
                        ptrdiff_t n, accumulators *c) {
  init_accumulators(ctx, c, n);
  if (ctx->across) reduce_across(ctx, it, at, n, c);
  else reduce_along(ctx, it, at, n, c);
}

static void store_unit(const reduce_context *ctx, char *const *at, ptrdiff_t n,
                       const accumulators *c) {
  const ptrdiff_t stride = ctx->outer_axes == 0 ? 1
                                                : ctx->iterator->strides[ctx->outer_axes - 1][0] /
                                                      rm_itemsize(ctx->out);
  ctx->store(ctx, n, at[0], stride, c);
}

static void reduce_group(void *context, ptrdiff_t group) {
  const reduce_context *ctx = context;
  _Alignas(64) char memory[ACCUMULATOR_ARRAYS * 8 * WIDTH];
  const ptrdiff_t last = rm_min((group + 1) * ctx->units_per_task, ctx->units);
  for (ptrdiff_t unit = group * ctx->units_per_task; unit < last; unit++) {
    char *at[RM_MAX_OPERANDS];
    accumulators c;
    const ptrdiff_t n = seek_unit(ctx, unit, at);
    layout_accumulators(&c, memory, ctx->width);
    reduce_unit(ctx, ctx->iterator, at, n, &c);
    store_unit(ctx, at, n, &c);
  }
}

static void reduce_part(void *context, ptrdiff_t part) {
  reduce_context *ctx = context;
  part += ctx->finished_parts;
  const int axis = ctx->outer_axes;
  const ptrdiff_t first = part % ctx->parts * ctx->length;
  char *at[RM_MAX_OPERANDS];
  accumulators c;
  const ptrdiff_t n = seek_unit(ctx, part / ctx->parts, at);
  layout_accumulators(&c, ctx->memory + part * ACCUMULATOR_ARRAYS * 8 * ctx->width, ctx->width);
  /* Another part has settled the only output. */
  if (ctx->short_circuits && atomic_load_explicit(&ctx->is_settled, memory_order_relaxed)) {
    init_accumulators(ctx, &c, n);
    return;
  }
  /* Copies the fields that reductions read, without the room for unused axes. */
  rm_iterator it;
  memcpy(&it, ctx->iterator,
         offsetof(rm_iterator, strides) + (size_t)ctx->iterator->rank * sizeof *it.strides);
  it.shape[axis] = rm_min(it.shape[axis] - first, ctx->length);
  for (int k = 1; k < it.operands; k++) at[k] += first * it.strides[axis][k];
  c.position = ctx->elements / ctx->iterator->shape[axis] * first;
  reduce_unit(ctx, &it, at, n, &c);
  if (ctx->units == 1 && stops(ctx, &c)) {
    atomic_store_explicit(&ctx->is_settled, true, memory_order_relaxed);
  }
}

/* Contiguous runs that are one task. */
typedef struct {
  rm_kept kept;
  reduce_context ctx;
  ptrdiff_t outputs, length;
  /* The bytes from the buffers to the first elements, and from one run to the next; the elements
   * from one output to the next. */
  ptrdiff_t offsets[2], step, stride;
} kept_runs;

static void run_kept_runs(const rm_kept *kept, void *const *buffers) {
  const kept_runs *own = (const kept_runs *)kept;
  _Alignas(64) char memory[ACCUMULATOR_ARRAYS * 8 * WIDTH];
  accumulators c;
  layout_accumulators(&c, memory, own->outputs);
  init_accumulators(&own->ctx, &c, own->outputs);
  reduce_runs(&own->ctx, own->outputs, own->length, (const char *)buffers[1] + own->offsets[1],
              own->step, c);
  own->ctx.store(&own->ctx, own->outputs, (char *)buffers[0] + own->offsets[0], own->stride, &c);
}

/* Keeps a call of one unit if its runs are read in place. */
static void keep_runs(const reduce_context *ctx, const rm_call *call) {
  const rm_iterator *it = ctx->iterator;
  const int outer_axes = ctx->outer_axes;
  if (call->kept == NULL || ctx->across || !ctx->direct || it->operands > 2 || outer_axes > 1 ||
      it->rank != outer_axes + 1 || it->inner_strides[1] != 1 ||
      it->shape[outer_axes] > ctx->step) {
    return;
  }
  kept_runs *kept = malloc(sizeof *kept);
  if (kept == NULL) return;
  *kept = (kept_runs){.kept = {run_kept_runs}, .ctx = *ctx, .outputs = 1, .stride = 1};
  /* Kernels do not read it. */
  kept->ctx.iterator = NULL;
  kept->length = it->shape[outer_axes];
  for (int k = 0; k < 2; k++) kept->offsets[k] = it->data[k] - (char *)call->buffers[k];
  if (outer_axes == 1) {
    kept->outputs = it->shape[0];
    kept->step = it->strides[0][1];
    kept->stride = it->strides[0][0] / rm_itemsize(ctx->out);
  }
  *call->kept = &kept->kept;
}

static int32_t run_reduction(reduce_context *ctx, const rm_call *call) {
  const rm_iterator *it = ctx->iterator;
  ptrdiff_t outer = 1;
  ctx->elements = 1;
  for (int axis = 0; axis < ctx->outer_axes - 1; axis++) outer *= it->shape[axis];
  for (int axis = ctx->outer_axes; axis < it->rank; axis++) ctx->elements *= it->shape[axis];
  const ptrdiff_t columns = ctx->outer_axes == 0 ? 1 : it->shape[ctx->outer_axes - 1];
  const ptrdiff_t cost = ctx->map >= POW ? 8 : 1, each = cost * ctx->elements;
  if (columns <= WIDTH && outer * columns * each <= TASK_ELEMENTS) {
    /* One task, without the divisions that find it. */
    ctx->width = columns;
    ctx->units = ctx->units_per_task = outer;
    reduce_group(ctx, 0);
    keep_runs(ctx, call);
    return RM_OK;
  }
  ctx->width = rm_min(columns, WIDTH);
  if (!ctx->across && ctx->width * each > TASK_ELEMENTS) {
    ctx->width = each >= TASK_ELEMENTS ? 1 : TASK_ELEMENTS / each;
  }
  ctx->units = outer * rm_ceil_div(columns, ctx->width);
  const ptrdiff_t work = ctx->width * each;
  const double time = NANOSECONDS * (ctx->bytes > 4 ? 2 : 1) * (double)(outer * columns * each);
  ctx->parts = 1;
  if (ctx->units < MAX_PARTS / 2 && ctx->outer_axes < it->rank) {
    const ptrdiff_t size = it->shape[ctx->outer_axes];
    /* Combining parts of many accumulators is costly, so there are fewer of them, in multiples of
     * four. */
    ptrdiff_t wanted = work / TASK_ELEMENTS;
    if (ctx->across && wanted > 4) wanted = rm_ceil_div(wanted, 32) * 4;
    wanted = rm_min(rm_min(wanted, MAX_PARTS / ctx->units), size);
    if (wanted > 1) {
      ctx->length = rm_ceil_div(size, wanted);
      /* Parts of an aligned run begin at cache lines. */
      if (!ctx->across && ctx->outer_axes == it->rank - 1) {
        ctx->length = rm_round_up(ctx->length, 64);
      }
      ctx->parts = rm_ceil_div(size, ctx->length);
    }
  }
  if (ctx->parts == 1) {
    ctx->units_per_task = work >= TASK_ELEMENTS ? 1 : TASK_ELEMENTS / work;
    rm_parallel(rm_ceil_div(ctx->units, ctx->units_per_task), time, reduce_group, ctx);
    return RM_OK;
  }
  const ptrdiff_t tasks = ctx->units * ctx->parts, bytes = ACCUMULATOR_ARRAYS * 8 * ctx->width;
  ctx->memory = malloc((size_t)(tasks * bytes));
  if (ctx->memory == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for %d parts", (int)tasks);
  atomic_init(&ctx->is_settled, false);
  if (ctx->short_circuits && ctx->units == 1) {
    /* The first part often settles the output. */
    reduce_part(ctx, 0);
    ctx->finished_parts = 1;
  }
  if (atomic_load(&ctx->is_settled)) ctx->parts = 1;
  else rm_parallel(tasks - ctx->finished_parts, time, reduce_part, ctx);
  for (ptrdiff_t unit = 0; unit < ctx->units; unit++) {
    char *at[RM_MAX_OPERANDS];
    accumulators to, from;
    const ptrdiff_t n = seek_unit(ctx, unit, at);
    char *memory = ctx->memory + unit * ctx->parts * bytes;
    layout_accumulators(&to, memory, ctx->width);
    for (ptrdiff_t part = 1; part < ctx->parts; part++) {
      layout_accumulators(&from, memory + part * bytes, ctx->width);
      ctx->combine(ctx, n, &to, &from);
    }
    store_unit(ctx, at, n, &to);
  }
  free(ctx->memory);
  return RM_OK;
}

/* ---- the choice of kernels ------------------------------------------------------------------- */

/* Returns false if there is no kernel. */
static bool choose_kernels(reduce_context *ctx, int a, int second, bool varies) {
  const bool floats = rm_is_float(ctx->out);
  const bool across = ctx->across;
  switch (ctx->opcode) {
    case RM_OP_sum:
      if (floats) return RM_FOR_ISA(choose_float_sum)(ctx, a, IDENTITY, false);
      return ctx->out != RM_BOOL && RM_FOR_ISA(choose_int_sum)(ctx, a);
    case RM_OP_prod:
      if (floats) return RM_FOR_ISA(choose_float_product)(ctx, a, IDENTITY);
      return ctx->out != RM_BOOL && RM_FOR_ISA(choose_int_product)(ctx, a);
    case RM_OP_max: return ctx->out == a && RM_FOR_ISA(choose_minmax)(ctx, a, false, false, false);
    case RM_OP_min: return ctx->out == a && RM_FOR_ISA(choose_minmax)(ctx, a, true, false, false);
    case RM_OP_argmax:
    case RM_OP_argmin:
      return ctx->out == RM_INT32 &&
             RM_FOR_ISA(choose_minmax)(ctx, a, ctx->opcode == RM_OP_argmin, false, true);
    case RM_OP_any:
    case RM_OP_all: return ctx->out == RM_BOOL && RM_FOR_ISA(choose_count)(ctx, a);
    case RM_OP_countNonzero: return ctx->out == RM_INT32 && RM_FOR_ISA(choose_count)(ctx, a);
    case RM_OP_mean:
      if (!floats || rm_is_float(a) || rm_itemsize(a) == 8) {
        return floats && RM_FOR_ISA(choose_float_sum)(ctx, a, IDENTITY, false);
      }
      /* Sums of narrow integers are exact and do not overflow. */
      return RM_FOR_ISA(choose_int_mean)(ctx, a);
    case RM_OP_norm1: return floats && RM_FOR_ISA(choose_float_sum)(ctx, a, ABS, across);
    case RM_OP_norm2: return floats && RM_FOR_ISA(choose_float_sum)(ctx, a, SQUARE, false);
    case RM_OP_normP: return floats && RM_FOR_ISA(choose_float_sum)(ctx, a, POW, true);
    case RM_OP_normMax: return floats && RM_FOR_ISA(choose_minmax)(ctx, a, false, true, false);
    case RM_OP_normMin: return floats && RM_FOR_ISA(choose_minmax)(ctx, a, true, true, false);
    case RM_OP_var:
    case RM_OP_std:
      return floats && RM_FOR_ISA(choose_float_sum)(ctx, a, SQUARED_DIFFERENCE, across || varies);
    case RM_OP_logSumExp: {
      /* The largest element contributes 1 to the sum, so the error of the log does not exceed that
       * of the terms. */
      const bool narrow = rm_is_float(a) && a != RM_FLOAT64 && second == a;
      return floats && RM_FOR_ISA(choose_float_sum)(ctx, a, narrow ? EXP_F32 : EXP, true);
    }
    case RM_OP_nansum: return floats && RM_FOR_ISA(choose_float_sum)(ctx, a, NAN_TO_ZERO, across);
    case RM_OP_nanprod: return floats && RM_FOR_ISA(choose_float_product)(ctx, a, NAN_TO_ONE);
    case RM_OP_nanmax: return RM_FOR_ISA(choose_nan_minmax)(ctx, a, false);
    case RM_OP_nanmin: return RM_FOR_ISA(choose_nan_minmax)(ctx, a, true);
    case RM_OP_countNumbers:
      return ctx->out == RM_INT32 && rm_is_float(a) &&
             RM_FOR_ISA(choose_float_sum)(ctx, a, IS_NUMBER, across);
    case RM_OP_nanSquares:
      return floats && RM_FOR_ISA(choose_float_sum)(ctx, a, NAN_SQUARED_DIFFERENCE,
                                                    across || varies);
    default: return false;
  }
}

/* Whether rows are contiguous and so short that several are reduced as one. */
static bool is_narrow(const rm_iterator *it, int outer_axes, ptrdiff_t bytes) {
  return outer_axes > 0 && outer_axes + 1 == it->rank && it->shape[outer_axes - 1] <= NARROW_MAX &&
         it->shape[outer_axes] >= NARROW_ROWS && it->strides[outer_axes - 1][1] == bytes &&
         it->strides[outer_axes][1] == it->shape[outer_axes - 1] * bytes;
}

/* Whether reducing whole rows reads memory in a better order or saves many short runs. */
static bool reduces_across(const rm_iterator *it, int outer_axes, ptrdiff_t few) {
  if (outer_axes == 0) return false;
  if (outer_axes == it->rank) return true;
  const int inner = it->rank - 1;
  if (it->shape[outer_axes - 1] <= NARROW_MAX) return false;
  if (rm_abs(it->strides[outer_axes - 1][1]) < rm_abs(it->strides[inner][1])) return true;
  return inner == outer_axes && it->shape[inner] <= few;
}

/* ---- the entry point ------------------------------------------------------------------------- */

int32_t RM_FOR_ISA(reduce)(const rm_call *call) {
  const int opcode = call->op, outer_axes = (int)call->numbers[RM_PLAN_KEPT];
  const int to = call->dtypes[0], from = call->dtypes[1], second = call->dtypes[2];
  const bool has_second = opcode == RM_OP_var || opcode == RM_OP_std ||
                          opcode == RM_OP_logSumExp || opcode == RM_OP_nanSquares;
  if (to >= RM_DTYPE_COUNT || from >= RM_DTYPE_COUNT) return RM_UNSUPPORTED;
  if (has_second ? second >= RM_DTYPE_COUNT : second != RM_NONE) return RM_UNSUPPORTED;
  /* Not initialized as a whole: the room for all axes takes longer to clear than a short row. */
  rm_iterator iterator;
  iterator.data[2] = iterator.data[3] = NULL;
  iterator.inner_strides[2] = iterator.inner_strides[3] = 0;
  const int32_t status = rm_read_call(&iterator, call, has_second ? 3 : 2);
  if (status != RM_OK) return status;
  if (outer_axes < 0 || outer_axes > iterator.rank) {
    return rm_fail(RM_BAD_ARGUMENT, "%d of %d axes are kept", outer_axes, iterator.rank);
  }
  /* The caller defines what an empty reduction yields. */
  if (iterator.empty) return RM_UNSUPPORTED;
  if (opcode == RM_OP_cumulativeSum || opcode == RM_OP_cumulativeProd ||
      opcode == RM_OP_cumulativeMax || opcode == RM_OP_cumulativeMin) {
    return RM_FOR_ISA(scan)(opcode, &iterator, outer_axes, to, from);
  }
  const bool sums = opcode == RM_OP_sum || opcode == RM_OP_mean || opcode == RM_OP_norm2;
  const bool is_minmax = opcode == RM_OP_max || opcode == RM_OP_min;
  const bool direct = rm_itemsize(from) >= 4 && !has_second;
  /* Kernels that read these elements in place, without loading. */
  const bool int_sum = opcode == RM_OP_sum ? !rm_is_float(to)
                                           : opcode == RM_OP_mean && rm_itemsize(from) < 8;
  const bool is_direct = rm_is_float(from) ? direct && (sums || is_minmax || opcode == RM_OP_prod)
                                           : int_sum || is_minmax;
  const bool narrow = is_direct && is_narrow(&iterator, outer_axes, rm_itemsize(from));
  ptrdiff_t few = direct ? FEW_DIRECT : FEW;
  if (sums && (direct || from == RM_FLOAT16)) few = FEW_SUMMED;
  reduce_context ctx = {.iterator = &iterator,
                        .opcode = opcode,
                        .outer_axes = outer_axes,
                        .narrow = narrow,
                        .across = narrow || reduces_across(&iterator, outer_axes, few),
                        .out = to,
                        .bytes = rm_itemsize(from),
                        .second_bytes = has_second ? rm_itemsize(second) : 1,
                        .load_second = has_second ? RM_FOR_ISA(to_f64)[second] : NULL,
                        .attribute = rm_attributes(call)[0],
                        .step = PTRDIFF_MAX};
  const bool varies = has_second && outer_axes < iterator.rank && iterator.inner_strides[2] != 0;
  if (!choose_kernels(&ctx, from, second, varies)) return RM_UNSUPPORTED;
  return run_reduction(&ctx, call);
}
