/*
 * Reductions, index reductions and scans of every dtype.
 *
 * One pipeline for all: a stretch of elements is brought into the form that kernels read (dense, of
 * few types; in place where it lies so already), and folded into cells, one for each output. An
 * output folds its own elements (along), or, where outputs are what lies side by side, whole rows
 * are folded into many cells at once (across). Work is cut by sizes alone, so that results do not
 * depend on the number of threads.
 *
 * Knows nothing of shapes or axes: only plans.
 */
#include <stdlib.h>
#include <string.h>
#include "ops.def"
#include "reduce_context.h"

/* What an element takes about. */
static const double NANOSECONDS = 0.07;

/* ---- walks ----------------------------------------------------------------------------------- */

static void make_cells(cells *c, char *memory, ptrdiff_t width) {
  c->acc = memory;
  c->error = (double *)(memory + 8 * width);
  c->part = (double *)(memory + 16 * width);
  c->where = (int64_t *)c->error;
  c->position = 0;
}

static void begin_cells(const job *j, cells *c, ptrdiff_t n) {
  uint64_t *restrict acc = c->acc;
  for (ptrdiff_t i = 0; i < n; i++) acc[i] = j->start;
  memset(c->error, 0, (size_t)n * sizeof(double));
  if (j->flush != NULL) memset(c->part, 0, (size_t)n * sizeof(double));
}

static bool stopped(const job *j, const cells *c) {
  return j->stops && *(const int64_t *)c->acc != 0;
}

/* Folds a run of n elements into one cell. */
static void fold_run(const job *j, ptrdiff_t n, const char *a, ptrdiff_t sa, const char *b,
                     ptrdiff_t sb, cells *c) {
  _Alignas(64) double buffer[WIDTH], second[WIDTH];
  double y = 0;
  if (j->load_second != NULL) j->load_second(1, b, 1, &y);
  const bool in_place = j->direct && sa == 1;
  const ptrdiff_t bytes = j->bytes, step = in_place ? j->step : WIDTH;
  for (ptrdiff_t i = 0; i < n; i += step) {
    const ptrdiff_t m = rm_least(n - i, step);
    const void *from = a + i * sa * bytes;
    if (!in_place) {
      j->load(m, from, sa, buffer);
      from = buffer;
      if (j->map != PLAIN) {
        const double *with = &y;
        if (sb != 0) {
          j->load_second(m, b + i * sb * j->second_bytes, sb, second);
          with = second;
        }
        RM_AT(map_block)(j, j->map, m, buffer, with, sb != 0);
      }
    }
    j->run(j, m, from, y, c);
    c->position += m;
    if (stopped(j, c)) return;
  }
}

/* Folds all elements of n outputs, one output after another. */
static void fold_along(const job *j, const rm_walk *w, char *const *start, ptrdiff_t n,
                       const cells *all) {
  const int kept = j->kept, inner = w->rank - 1;
  const bool single = kept == w->rank;
  const ptrdiff_t length = single ? 1 : w->size[inner];
  const ptrdiff_t sa = single ? 1 : w->step[inner][1] / j->bytes;
  const ptrdiff_t sb = single || w->operands < 3 ? 0 : w->step[inner][2] / j->second_bytes;
  if (j->direct && sa == 1 && inner == kept && length <= j->step && w->operands < 3) {
    /* Rows may be short, and many. */
    const ptrdiff_t row = kept > 0 ? w->step[kept - 1][1] : 0;
    cells one = *all;
    for (ptrdiff_t i = 0; i < n; i++) {
      j->run(j, length, start[1] + i * row, 0, &one);
      one.acc = (char *)one.acc + j->slot;
      one.error++;
      one.part++;
      one.where++;
    }
    return;
  }
  ptrdiff_t count[RM_MAX_RANK];
  for (int axis = kept; axis < inner; axis++) count[axis] = 0;
  for (ptrdiff_t i = 0; i < n; i++) {
    cells one = {(char *)all->acc + i * j->slot, all->error + i, all->part + i, all->where + i,
                 all->position};
    char *at[RM_MAX_OPERANDS] = {NULL};
    for (int k = 1; k < w->operands; k++) {
      at[k] = start[k] + (kept > 0 ? i * w->step[kept - 1][k] : 0);
    }
    do fold_run(j, length, at[1], sa, at[2], sb, &one);
    while (!stopped(j, &one) && rm_next(w, kept, inner, count, at));
    if (j->stops) for (int axis = kept; axis < inner; axis++) count[axis] = 0;
  }
}

/* Rows of less than a vector's elements that follow each other make longer ones, whose cells are put
 * together in the end. */
static void fold_narrow(const job *j, ptrdiff_t n, ptrdiff_t rows, const char *from, cells *c) {
  _Alignas(64) char memory[SLOTS * 8 * NARROW * TOGETHER];
  const ptrdiff_t wide = n * TOGETHER, bytes = n * j->bytes;
  cells all;
  make_cells(&all, memory, wide);
  begin_cells(j, &all, wide);
  for (ptrdiff_t m; rows >= TOGETHER; rows -= m * TOGETHER, from += m * TOGETHER * bytes) {
    m = rm_least(rows / TOGETHER, ROWS);
    j->columns(j, wide, m, from, TOGETHER * bytes, &all);
    if (j->flush != NULL) j->flush(wide, &all);
  }
  j->columns(j, n, rows, from, bytes, c);
  if (j->flush != NULL) j->flush(n, c);
  for (ptrdiff_t i = 0; i < wide; i += n) {
    const cells one = {(char *)all.acc + i * j->slot, all.error + i, all.part + i, NULL, 0};
    j->combine(j, n, c, &one);
  }
}

/* Folds all elements of n outputs that lie side by side, row by row. */
static void fold_across(const job *j, const rm_walk *w, char *const *start, ptrdiff_t n, cells *c) {
  const int kept = j->kept, inner = w->rank > kept ? w->rank - 1 : kept;
  const ptrdiff_t rows = w->rank > kept ? w->size[inner] : 1;
  const ptrdiff_t row = w->rank > kept ? w->step[inner][1] : 0;
  const ptrdiff_t second_row = w->rank > kept ? w->step[inner][2] : 0;
  const ptrdiff_t sa = w->step[kept - 1][1] / j->bytes;
  const ptrdiff_t sb = w->operands < 3 ? 0 : w->step[kept - 1][2] / j->second_bytes;
  const bool in_place = j->direct && sa == 1;
  if (j->narrow) {
    fold_narrow(j, n, rows, start[1], c);
    return;
  }
  _Alignas(64) double buffer[WIDTH], second[WIDTH];
  ptrdiff_t count[RM_MAX_RANK], pending = 0;
  for (int axis = kept; axis < inner; axis++) count[axis] = 0;
  char *at[RM_MAX_OPERANDS] = {NULL, start[1], start[2], NULL};
  do {
    for (ptrdiff_t r = 0, m = 1; r < rows; r += m) {
      const char *from = at[1] + r * row;
      if (in_place) {
        m = rm_least(rows - r, ROWS);
        j->columns(j, n, m, from, row, c);
      } else {
        j->load(n, from, sa, buffer);
        if (j->load_second != NULL) j->load_second(n, at[2] + r * second_row, sb, second);
        if (j->map != PLAIN) RM_AT(map_block)(j, j->map, n, buffer, second, 1);
        j->columns(j, n, 1, buffer, 0, c);
      }
      c->position += m;
      pending += m;
      if (j->flush != NULL && pending >= ROWS) {
        j->flush(n, c);
        pending = 0;
      }
    }
  } while (rm_next(w, kept, inner, count, at));
  if (j->flush != NULL) j->flush(n, c);
}

/* The pointers of a unit, and how many outputs it has. */
static ptrdiff_t seek(const job *j, ptrdiff_t unit, char **at) {
  const rm_walk *w = j->walk;
  RM_ROLLED for (int k = 0; k < RM_MAX_OPERANDS; k++) at[k] = k < w->operands ? w->start[k] : NULL;
  if (j->kept == 0) return 1;
  const int column = j->kept - 1;
  const ptrdiff_t blocks = rm_parts(w->size[column], j->width);
  const ptrdiff_t first = unit % blocks * j->width;
  RM_ROLLED for (int k = 0; k < w->operands; k++) at[k] += first * w->step[column][k];
  unit /= blocks;
  for (int axis = column - 1; axis >= 0; axis--) {
    const ptrdiff_t place = unit % w->size[axis];
    RM_ROLLED for (int k = 0; k < w->operands; k++) at[k] += place * w->step[axis][k];
    unit /= w->size[axis];
  }
  return rm_least(w->size[column] - first, j->width);
}

static void fold_unit(const job *j, const rm_walk *w, char *const *at, ptrdiff_t n, cells *c) {
  begin_cells(j, c, n);
  if (j->across) fold_across(j, w, at, n, c);
  else fold_along(j, w, at, n, c);
}

static void store_unit(const job *j, char *const *at, ptrdiff_t n, const cells *c) {
  const ptrdiff_t stride = j->kept == 0 ? 1 : j->walk->step[j->kept - 1][0] / rm_bytes(j->out);
  j->store(j, n, at[0], stride, c);
}

static void fold_group(void *context, ptrdiff_t index) {
  const job *j = context;
  _Alignas(64) char memory[SLOTS * 8 * WIDTH];
  const ptrdiff_t last = rm_least((index + 1) * j->group, j->units);
  for (ptrdiff_t unit = index * j->group; unit < last; unit++) {
    char *at[RM_MAX_OPERANDS];
    cells c;
    const ptrdiff_t n = seek(j, unit, at);
    make_cells(&c, memory, j->width);
    fold_unit(j, j->walk, at, n, &c);
    store_unit(j, at, n, &c);
  }
}

static void fold_part(void *context, ptrdiff_t index) {
  job *j = context;
  index += j->done;
  const int axis = j->kept;
  const ptrdiff_t first = index % j->parts * j->length;
  char *at[RM_MAX_OPERANDS];
  cells c;
  const ptrdiff_t n = seek(j, index / j->parts, at);
  make_cells(&c, j->memory + index * SLOTS * 8 * j->width, j->width);
  /* Where one element settles it, no more is looked at. */
  if (j->stops && atomic_load_explicit(&j->settled, memory_order_relaxed)) {
    begin_cells(j, &c, n);
    return;
  }
  /* Only the part of it that folds read: there is room for many axes. */
  rm_walk w;
  memcpy(&w, j->walk, offsetof(rm_walk, step) + (size_t)j->walk->rank * sizeof *w.step);
  w.size[axis] = rm_least(w.size[axis] - first, j->length);
  for (int k = 1; k < w.operands; k++) at[k] += first * w.step[axis][k];
  c.position = j->elements / j->walk->size[axis] * first;
  fold_unit(j, &w, at, n, &c);
  if (j->units == 1 && stopped(j, &c)) {
    atomic_store_explicit(&j->settled, true, memory_order_relaxed);
  }
}

static int32_t run_job(job *j) {
  const rm_walk *w = j->walk;
  ptrdiff_t outer = 1;
  j->elements = 1;
  for (int axis = 0; axis < j->kept - 1; axis++) outer *= w->size[axis];
  for (int axis = j->kept; axis < w->rank; axis++) j->elements *= w->size[axis];
  const ptrdiff_t columns = j->kept == 0 ? 1 : w->size[j->kept - 1];
  const ptrdiff_t heavy = j->map >= POWER ? 8 : 1, each = heavy * j->elements;
  j->width = rm_least(columns, WIDTH);
  if (!j->across && j->width * each > TASK) j->width = each >= TASK ? 1 : TASK / each;
  j->units = outer * rm_parts(columns, j->width);
  const ptrdiff_t work = j->width * each;
  const double time = NANOSECONDS * (j->bytes > 4 ? 2 : 1) * (double)(outer * columns * each);
  j->parts = 1;
  if (j->units < PARTS / 2 && j->kept < w->rank) {
    const ptrdiff_t size = w->size[j->kept];
    /* Parts of many cells each are costly to put together, so there are fewer, in fours. */
    ptrdiff_t wanted = work / TASK;
    if (j->across && wanted > 4) wanted = rm_parts(wanted, 32) * 4;
    wanted = rm_least(rm_least(wanted, PARTS / j->units), size);
    if (wanted > 1) {
      j->length = rm_parts(size, wanted);
      /* Parts of a run begin at lines of the caches, if the run does. */
      if (!j->across && j->kept == w->rank - 1) j->length = rm_round_up(j->length, 64);
      j->parts = rm_parts(size, j->length);
    }
  }
  if (j->parts == 1) {
    j->group = work >= TASK ? 1 : TASK / work;
    rm_parallel(rm_parts(j->units, j->group), time, fold_group, j);
    return RM_OK;
  }
  const ptrdiff_t tasks = j->units * j->parts, bytes = SLOTS * 8 * j->width;
  j->memory = malloc((size_t)(tasks * bytes));
  if (j->memory == NULL) return rm_fail(RM_BAD_ARGUMENT, "no memory for %d parts", (int)tasks);
  atomic_init(&j->settled, false);
  if (j->stops && j->units == 1) {
    /* The first part often says all. */
    fold_part(j, 0);
    j->done = 1;
  }
  if (atomic_load(&j->settled)) j->parts = 1;
  else rm_parallel(tasks - j->done, time, fold_part, j);
  for (ptrdiff_t unit = 0; unit < j->units; unit++) {
    char *at[RM_MAX_OPERANDS];
    cells to, from;
    const ptrdiff_t n = seek(j, unit, at);
    char *memory = j->memory + unit * j->parts * bytes;
    make_cells(&to, memory, j->width);
    for (ptrdiff_t part = 1; part < j->parts; part++) {
      make_cells(&from, memory + part * bytes, j->width);
      j->combine(j, n, &to, &from);
    }
    store_unit(j, at, n, &to);
  }
  free(j->memory);
  return RM_OK;
}

/* ---- the choice of kernels ------------------------------------------------------------------- */

/* False where there is no kernel. */
static bool choose(job *j, int a, int second, bool varies) {
  const bool floats = rm_is_float(j->out);
  const bool across = j->across;
  switch (j->opcode) {
    case RM_OP_sum:
      if (floats) return RM_AT(choose_float_sum)(j, a, PLAIN, false);
      return j->out != RM_BOOL && RM_AT(choose_int_sum)(j, a);
    case RM_OP_prod:
      if (floats) return RM_AT(choose_float_product)(j, a);
      return j->out != RM_BOOL && RM_AT(choose_int_product)(j, a);
    case RM_OP_max: return j->out == a && RM_AT(choose_extreme)(j, a, false, false, false);
    case RM_OP_min: return j->out == a && RM_AT(choose_extreme)(j, a, true, false, false);
    case RM_OP_argmax:
    case RM_OP_argmin:
      return j->out == RM_INT32 && RM_AT(choose_extreme)(j, a, j->opcode == RM_OP_argmin, false, true);
    case RM_OP_any:
    case RM_OP_all: return j->out == RM_BOOL && RM_AT(choose_count)(j, a);
    case RM_OP_countNonzero: return j->out == RM_INT32 && RM_AT(choose_count)(j, a);
    case RM_OP_mean:
      if (!floats || rm_is_float(a) || rm_bytes(a) == 8) {
        return floats && RM_AT(choose_float_sum)(j, a, PLAIN, false);
      }
      /* Sums of those do not overflow, and are exact. */
      return RM_AT(choose_int_mean)(j, a);
    case RM_OP_norm1: return floats && RM_AT(choose_float_sum)(j, a, MAGNITUDE, across);
    case RM_OP_norm2: return floats && RM_AT(choose_float_sum)(j, a, SQUARE, false);
    case RM_OP_normP: return floats && RM_AT(choose_float_sum)(j, a, POWER, true);
    case RM_OP_normMax: return floats && RM_AT(choose_extreme)(j, a, false, true, false);
    case RM_OP_normMin: return floats && RM_AT(choose_extreme)(j, a, true, true, false);
    case RM_OP_var:
    case RM_OP_std: return floats && RM_AT(choose_float_sum)(j, a, DIFFERENCE, across || varies);
    case RM_OP_logSumExp: {
      /* One of them is 1, of the largest element, so that the log's error is no larger than theirs. */
      const bool narrow = rm_is_float(a) && a != RM_FLOAT64 && second == a;
      return floats && RM_AT(choose_float_sum)(j, a, narrow ? EXPONENTIAL_F32 : EXPONENTIAL, true);
    }
    default: return false;
  }
}

/* True for dense rows of few elements, of which several are folded as one. */
static bool is_narrow(const rm_walk *w, int kept, ptrdiff_t bytes) {
  return kept > 0 && kept + 1 == w->rank && w->size[kept - 1] <= NARROW &&
         w->size[kept] >= 2 * TOGETHER && w->step[kept - 1][1] == bytes &&
         w->step[kept][1] == w->size[kept - 1] * bytes;
}

/* True when folding whole rows reads memory in a better order, or saves many short runs. */
static bool runs_across(const rm_walk *w, int kept, ptrdiff_t few) {
  if (kept == 0) return false;
  if (kept == w->rank) return true;
  const int inner = w->rank - 1;
  if (w->size[kept - 1] <= NARROW) return false;
  if (rm_magnitude(w->step[kept - 1][1]) < rm_magnitude(w->step[inner][1])) return true;
  return inner == kept && w->size[inner] <= few;
}

/* ---- the call -------------------------------------------------------------------------------- */

int32_t RM_AT(fold)(int32_t opcode, int32_t dtypes, int32_t kept, const double *plan, void *out,
                    const void *a, const void *b) {
  const int to = rm_dtype_at(dtypes, 1), from = rm_dtype_at(dtypes, 2);
  const int second = rm_dtype_at(dtypes, 3);
  const bool paired = opcode == RM_OP_var || opcode == RM_OP_std || opcode == RM_OP_logSumExp;
  if (to >= RM_DTYPE_COUNT || from >= RM_DTYPE_COUNT) return RM_UNSUPPORTED;
  if (paired ? second >= RM_DTYPE_COUNT : second != RM_NONE) return RM_UNSUPPORTED;
  void *const buffers[RM_MAX_OPERANDS] = {out, (void *)a, (void *)b, NULL};
  rm_walk walk = {.start = {NULL}};
  const int32_t status = rm_read_plan(&walk, plan, paired ? 3 : 2, dtypes, buffers);
  if (status != RM_OK) return status;
  if (kept < 0 || kept > walk.rank) {
    return rm_fail(RM_BAD_ARGUMENT, "%d of %d axes are kept", (int)kept, walk.rank);
  }
  /* What an empty reduction gives is for the caller to say. */
  if (walk.empty) return RM_UNSUPPORTED;
  if (opcode == RM_OP_cumulativeSum || opcode == RM_OP_cumulativeProd) {
    return RM_AT(scan)(opcode, &walk, kept, to, from);
  }
  const bool sums = opcode == RM_OP_sum || opcode == RM_OP_mean || opcode == RM_OP_norm2;
  const bool picks = opcode == RM_OP_max || opcode == RM_OP_min;
  const bool direct = rm_bytes(from) >= 4 && !paired;
  /* What kernels take as it lies. */
  const bool counted = opcode == RM_OP_sum ? !rm_is_float(to)
                                           : opcode == RM_OP_mean && rm_bytes(from) < 8;
  const bool as_is = rm_is_float(from) ? direct && (sums || picks || opcode == RM_OP_prod)
                                       : counted || picks;
  const bool narrow = as_is && is_narrow(&walk, kept, rm_bytes(from));
  const ptrdiff_t few = sums && (direct || from == RM_FLOAT16) ? FEW_SUMMED : direct ? FEW_DIRECT : FEW;
  job j = {.walk = &walk,
           .opcode = opcode,
           .kept = kept,
           .narrow = narrow,
           .across = narrow || runs_across(&walk, kept, few),
           .out = to,
           .bytes = rm_bytes(from),
           .second_bytes = paired ? rm_bytes(second) : 1,
           .load_second = paired ? RM_AT(to_f64)[second] : NULL,
           .attribute = plan[RM_ATTRIBUTES],
           .step = PTRDIFF_MAX};
  const bool varies = paired && kept < walk.rank && walk.inner[2] != 0;
  if (!choose(&j, from, second, varies)) return RM_UNSUPPORTED;
  return run_job(&j);
}
