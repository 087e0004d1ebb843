/*
 * The largest element of each window of planes, and where it is; the derivative by the planes.
 *
 * Without places, the largest elements of columns come first, in a row with padding on both sides.
 */
#include "gemm_vectors.h"

enum { LANES = VECTOR_BYTES / 4, AXES = 3, PER_AXIS = 6, TASK_ELEMENTS = 16384 };

/* The most elements of a row whose derivative may be written over it. */
enum { ROW_IN_PLACE = 1024 };

/* The numbers of a call: planes, then for depth, height and width [size, windows, elements of a window,
 * stride, padding before, dilation]. */
enum { PLANES, AXIS, OFFSETS = AXIS + AXES * PER_AXIS };

static const double ELEMENT_NS = 1;

typedef struct {
  ptrdiff_t size, out, kernel, stride, padding, dilation;
} pool_axis;

typedef struct {
  pool_axis axes[AXES];
  ptrdiff_t planes, plane, windows, rows_per_task;
  const float *x;
  /* The derivative by the results, or null. */
  const float *g;
  float *out;
  /* Null without places. */
  int64_t *indices;
  /* The elements of a row with its padding, and the rows of the tasks that run at once. */
  ptrdiff_t row_length;
  float *room;
  atomic_flag *slot_taken;
  int slots;
} pool_context;

/* The first element of a window that is inside, and how many there are. */
static ptrdiff_t inside(const pool_axis *axis, ptrdiff_t window, ptrdiff_t *first) {
  const ptrdiff_t begin = window * axis->stride - axis->padding;
  /* Without a division, which takes as long as a row. */
  if (begin >= 0 && begin + (axis->kernel - 1) * axis->dilation < axis->size) {
    *first = begin;
    return axis->kernel;
  }
  const ptrdiff_t skipped = begin < 0 ? rm_ceil_div(-begin, axis->dilation) : 0;
  *first = begin + skipped * axis->dilation;
  if (*first >= axis->size) return 0;
  return rm_min(axis->kernel - skipped, rm_ceil_div(axis->size - *first, axis->dilation));
}

/* A row of the output: its number, its plane, and its places along depth and height. */
typedef struct {
  ptrdiff_t number, plane, z, y;
} pool_row_place;

static pool_row_place place_of(const pool_context *ctx, ptrdiff_t row) {
  const ptrdiff_t height = ctx->axes[1].out, rows = ctx->axes[0].out * height;
  return (pool_row_place){row, row / rows, row % rows / height, row % height};
}

static void next_row(const pool_context *ctx, pool_row_place *row) {
  row->number++;
  if (++row->y < ctx->axes[1].out) return;
  row->y = 0;
  if (++row->z < ctx->axes[0].out) return;
  row->z = 0;
  row->plane++;
}

/* Passes on the largest elements of the windows of one row of the output, and where they are. */
static void pool_row(const pool_context *ctx, const pool_row_place *row) {
  const pool_axis *z = &ctx->axes[0], *y = &ctx->axes[1], *w = &ctx->axes[2];
  const float *x = ctx->x + row->plane * ctx->plane;
  ptrdiff_t top, left, front;
  const ptrdiff_t depth = inside(z, row->z, &front);
  const ptrdiff_t height = inside(y, row->y, &top);
  for (ptrdiff_t i = 0; i < w->out; i++) {
    const ptrdiff_t width = inside(w, i, &left), window = row->number * w->out + i;
    float most = -__builtin_inff();
    ptrdiff_t at = -1;
    for (ptrdiff_t p = 0; p < depth; p++) {
      for (ptrdiff_t q = 0; q < height; q++) {
        const ptrdiff_t line = ((front + p * z->dilation) * y->size + top + q * y->dilation) * w->size;
        for (ptrdiff_t r = 0; r < width; r++) {
          const ptrdiff_t here = line + left + r * w->dilation;
          const float value = x[here];
          /* The first of equal ones, and NaN before all. */
          if (value > most || at < 0 || (value != value && most == most)) {
            most = value;
            at = here;
          }
        }
      }
    }
    if (ctx->g == NULL) {
      ctx->out[window] = most;
      ctx->indices[window] = at;
    } else if (at >= 0) {
      ctx->out[row->plane * ctx->plane + at] += ctx->g[window];
    }
  }
}

typedef int32_t i32x4 __attribute__((ext_vector_type(4)));

/* Whether an element comes before the largest one so far. */
static RM_ALWAYS_INLINE i32x4 is_larger(f32x4 x, f32x4 most) {
  return (i32x4)(x > most) | ((i32x4)(x != x) & (i32x4)(most == most));
}

/* The derivative by two rows of x, `size` elements each, of at least 4 windows of 2 x 2. */
static void spread_pairs(const float *x, ptrdiff_t size, const float *g, ptrdiff_t n, float *to) {
  for (ptrdiff_t i = 0;; i += 4) {
    if (i + 4 > n) i = n - 4;
    f32x4 of[4];
    UNROLL for (int row = 0; row < 2; row++) {
      const float *at = x + row * size + 2 * i;
      const f32x4 low = *(const f32x4 *)at, high = *(const f32x4 *)(at + 4);
      of[2 * row] = __builtin_shufflevector(low, high, 0, 2, 4, 6);
      of[2 * row + 1] = __builtin_shufflevector(low, high, 1, 3, 5, 7);
    }
    f32x4 most = of[0];
    i32x4 has[4] = {(i32x4)-1};
    UNROLL for (int k = 1; k < 4; k++) {
      has[k] = is_larger(of[k], most);
      most = has[k] ? of[k] : most;
      UNROLL for (int before = 0; before < k; before++) has[before] &= ~has[k];
    }
    const i32x4 own = (i32x4)*(const f32x4 *)(g + i);
    UNROLL for (int row = 0; row < 2; row++) {
      float *at = to + row * size + 2 * i;
      const i32x4 even = own & has[2 * row], odd = own & has[2 * row + 1];
      *(f32x4 *)at = (f32x4)__builtin_shufflevector(even, odd, 0, 4, 1, 5);
      *(f32x4 *)(at + 4) = (f32x4)__builtin_shufflevector(even, odd, 2, 6, 3, 7);
    }
    if (i + 4 >= n) return;
  }
}

/* Whether rows have 4 windows of 2 x 2 or more, each beside the one before. */
static bool has_pairs(const pool_context *ctx) {
  bool pairs = ctx->axes[0].size == 1 && ctx->axes[0].kernel == 1 && ctx->axes[2].out >= 4;
  for (int i = 1; i < AXES; i++) {
    const pool_axis *own = &ctx->axes[i];
    pairs = pairs && own->kernel == 2 && own->stride == 2 && own->dilation == 1 && own->padding == 0 &&
            2 * own->out <= own->size;
  }
  return pairs;
}

/* Whether windows of 2 x 2 cover all of x, whose rows are short enough to be copied. */
static bool covers(const pool_context *ctx) {
  const pool_axis *y = &ctx->axes[1], *w = &ctx->axes[2];
  return has_pairs(ctx) && 2 * y->out == y->size && 2 * w->out == w->size && w->size <= ROW_IN_PLACE;
}

/* The derivative by some planes. It may be written over x where windows of 2 x 2 cover all of it: a pair
 * of rows is copied first, as vectors of windows overlap. */
static void spread_task(void *context, ptrdiff_t index) {
  const pool_context *ctx = context;
  const pool_axis *y = &ctx->axes[1], *w = &ctx->axes[2];
  const ptrdiff_t rows = ctx->axes[0].out * y->out;
  const ptrdiff_t end = rm_min((index + 1) * ctx->rows_per_task, ctx->planes * rows);
  pool_row_place row = place_of(ctx, index * ctx->rows_per_task);
  const ptrdiff_t planes = rm_ceil_div(end - row.number, rows);
  const bool in_place = ctx->out == ctx->x;
  float rows_of_x[2 * ROW_IN_PLACE];
  if (!in_place) {
    memset(ctx->out + row.plane * ctx->plane, 0, (size_t)(planes * ctx->plane) * sizeof *ctx->out);
  }
  const bool pairs = has_pairs(ctx);
  for (; row.number < end; next_row(ctx, &row)) {
    const ptrdiff_t at = row.plane * ctx->plane + 2 * row.y * w->size;
    const float *x = ctx->x + at;
    if (in_place) x = memcpy(rows_of_x, x, (size_t)(2 * w->size) * sizeof *x);
    if (pairs) spread_pairs(x, w->size, ctx->g + row.number * w->out, w->out, ctx->out + at);
    else pool_row(ctx, &row);
  }
}

/* The larger of two numbers or vectors; NaN if one is. */
#define LARGER(most, x) ((x) > (most) || (x) != (x) ? (x) : (most))

static RM_ALWAYS_INLINE v_f32 larger(v_f32 most, v_f32 x) {
  return ((x > most) | (x != x)) ? x : most;
}

/* to[i] becomes the larger of itself and from[i]. The last vector may overlap the one before. */
static void add_row(float *to, const float *from, ptrdiff_t n) {
  ptrdiff_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    *(v_f32 *)(to + i) = larger(*(const v_f32 *)(to + i), *(const v_f32 *)(from + i));
  }
  if (i < n && n >= LANES) {
    i = n - LANES;
    *(v_f32 *)(to + i) = larger(*(const v_f32 *)(to + i), *(const v_f32 *)(from + i));
    return;
  }
  RM_SCALAR for (; i < n; i++) to[i] = LARGER(to[i], from[i]);
}

/* LANES elements, each or every second one. */
static RM_ALWAYS_INLINE v_f32 load_windows(const float *from, const int stride) {
  const v_f32 low = *(const v_f32 *)from;
  if (stride == 1) return low;
  const v_f32 high = *(const v_f32 *)(from + LANES);
#if defined(__AVX512F__)
  return __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#elif defined(__AVX2__)
  return __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
#else
  return __builtin_shufflevector(low, high, 0, 2, 4, 6);
#endif
}

/* The largest elements of windows of a row; `stride` is 1 or 2, and n at least LANES. */
static RM_ALWAYS_INLINE void reduce_windows(const float *from, const int stride, ptrdiff_t size,
                                            ptrdiff_t dilation, ptrdiff_t n, float *out) {
  for (ptrdiff_t i = 0;; i += LANES) {
    if (i + LANES > n) i = n - LANES;
    v_f32 most = load_windows(from + i * stride, stride);
    for (ptrdiff_t k = 1; k < size; k++) {
      most = larger(most, load_windows(from + i * stride + k * dilation, stride));
    }
    *(v_f32 *)(out + i) = most;
    if (i + LANES >= n) return;
  }
}

/* The windows of one row of the output, from the largest elements of columns. */
static void reduce_row(const pool_context *ctx, const pool_row_place *row, float *columns) {
  const pool_axis *z = &ctx->axes[0], *y = &ctx->axes[1], *w = &ctx->axes[2];
  const float *x = ctx->x + row->plane * ctx->plane;
  ptrdiff_t top, front;
  const ptrdiff_t depth = inside(z, row->z, &front);
  const ptrdiff_t height = inside(y, row->y, &top);
  float *own = columns + w->padding;
  bool is_first = true;
  for (ptrdiff_t p = 0; p < depth; p++) {
    for (ptrdiff_t q = 0; q < height; q++) {
      const float *line =
          x + ((front + p * z->dilation) * y->size + top + q * y->dilation) * w->size;
      if (is_first) memcpy(own, line, (size_t)w->size * sizeof *own);
      else add_row(own, line, w->size);
      is_first = false;
    }
  }
  if (is_first) {
    for (ptrdiff_t i = 0; i < w->size; i++) own[i] = -__builtin_inff();
  }
  float *out = ctx->out + row->number * w->out;
  if (w->out >= LANES && w->stride == 1) {
    reduce_windows(columns, 1, w->kernel, w->dilation, w->out, out);
  } else if (w->out >= LANES && w->stride == 2) {
    reduce_windows(columns, 2, w->kernel, w->dilation, w->out, out);
  } else {
    RM_SCALAR for (ptrdiff_t i = 0; i < w->out; i++) {
      const float *from = columns + i * w->stride;
      float most = from[0];
      for (ptrdiff_t k = 1; k < w->kernel; k++) most = LARGER(most, from[k * w->dilation]);
      out[i] = most;
    }
  }
}

static void pool_task(void *context, ptrdiff_t index) {
  const pool_context *ctx = context;
  const ptrdiff_t all = ctx->planes * ctx->axes[0].out * ctx->axes[1].out;
  const ptrdiff_t end = rm_min((index + 1) * ctx->rows_per_task, all);
  pool_row_place row = place_of(ctx, index * ctx->rows_per_task);
  if (ctx->indices != NULL) {
    for (; row.number < end; next_row(ctx, &row)) pool_row(ctx, &row);
    return;
  }
  const int slot = take_slot(ctx->slot_taken, ctx->slots);
  float *columns = ctx->room + slot * ctx->row_length;
  for (ptrdiff_t i = 0; i < ctx->row_length; i++) columns[i] = -__builtin_inff();
  for (; row.number < end; next_row(ctx, &row)) reduce_row(ctx, &row, columns);
  atomic_flag_clear(&ctx->slot_taken[slot]);
}

int32_t RM_FOR_ISA(max_pool)(const rm_call *call) {
  const double *numbers = call->numbers, *at = numbers + OFFSETS;
  const bool has_places = call->op == RM_OP_maxPoolIndices, spreads = call->op == RM_OP_maxPoolGrad;
  if (call->dtypes[0] != RM_FLOAT32 || call->dtypes[1] != RM_FLOAT32) return RM_UNSUPPORTED;
  if (has_places && call->dtypes[2] != RM_INT64) return RM_UNSUPPORTED;
  if (spreads && call->dtypes[2] != RM_FLOAT32) return RM_UNSUPPORTED;
  for (int i = 0; i < (has_places || spreads ? 3 : 2); i++) {
    if (call->buffers[i] == NULL) return rm_fail(RM_BAD_ARGUMENT, "maxPool without operand %d", i);
  }
  pool_context ctx = {
      .planes = (ptrdiff_t)numbers[PLANES],
      .plane = 1,
      .out = (float *)call->buffers[0] + (ptrdiff_t)at[0],
      .x = (const float *)call->buffers[1] + (ptrdiff_t)at[1],
      .g = spreads ? (const float *)call->buffers[2] + (ptrdiff_t)at[2] : NULL,
      .indices = has_places ? (int64_t *)call->buffers[2] + (ptrdiff_t)at[2] : NULL,
  };
  double elements = (double)ctx.planes;
  for (int i = 0; i < AXES; i++) {
    const double *own = numbers + AXIS + i * PER_AXIS;
    ctx.axes[i] = (pool_axis){(ptrdiff_t)own[0], (ptrdiff_t)own[1], (ptrdiff_t)own[2],
                              (ptrdiff_t)own[3], (ptrdiff_t)own[4], (ptrdiff_t)own[5]};
    ctx.plane *= ctx.axes[i].size;
    elements *= own[1] * own[2];
  }
  const ptrdiff_t rows = ctx.planes * ctx.axes[0].out * ctx.axes[1].out;
  if (rows < 1 || ctx.axes[2].out < 1) return RM_OK;
  ctx.rows_per_task = rm_ceil_div(TASK_ELEMENTS, rm_ceil_div((ptrdiff_t)elements, rows));
  if (spreads) ctx.rows_per_task = rm_round_up(ctx.rows_per_task, rows / ctx.planes);
  const ptrdiff_t tasks = rm_ceil_div(rows, ctx.rows_per_task);
  if (spreads) {
    if (ctx.out == ctx.x && !covers(&ctx)) {
      return rm_fail(RM_BAD_ARGUMENT, "windows of maxPoolGrad do not allow it in place");
    }
    rm_parallel(tasks, elements * ELEMENT_NS, spread_task, &ctx);
    return RM_OK;
  }
  if (has_places) {
    rm_parallel(tasks, elements * ELEMENT_NS, pool_task, &ctx);
    return RM_OK;
  }
  const pool_axis *w = &ctx.axes[2];
  /* All windows, also those that reach beyond the padding. */
  const ptrdiff_t reach = (w->out - 1) * w->stride + (w->kernel - 1) * w->dilation + 1;
  const ptrdiff_t needed = w->padding + w->size > reach ? w->padding + w->size : reach;
  /* Vectors of every second element begin with one more than they have. */
  ctx.row_length = rm_round_up(needed + 1, ALIGNMENT / 4);
  ctx.slots = (int)rm_min(rm_threads(), tasks);
  gemm_workspace *workspace =
      RM_FOR_ISA(workspace_alloc)((size_t)(ctx.slots * ctx.row_length * 4), ctx.slots);
  if (workspace == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for windows");
  ctx.room = (float *)(void *)workspace->data;
  ctx.slot_taken = workspace->slot_taken;
  rm_parallel(tasks, elements * ELEMENT_NS / 8, pool_task, &ctx);
  RM_FOR_ISA(workspace_free)(workspace);
  return RM_OK;
}
