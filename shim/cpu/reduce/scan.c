/*
 * Cumulative sums and products along an axis.
 */
#include <math.h>
#include "reduce_context.h"

#define ADD(a, x) ((a) + (x))
#define MULTIPLY(a, x) ((a) * (x))
#define LARGER(a, x) ((a) > (x) || (a) != (a) ? (a) : (x))
#define SMALLER(a, x) ((a) < (x) || (a) != (a) ? (a) : (x))

/* The estimated time per element. */
static const double NANOSECONDS = 0.5;

enum {
  /* Runs that are scanned side by side: each is a chain of dependent additions. */
  SCAN_RUNS = 8,
  /* Elements of each of them that are converted at once. */
  SCAN_BLOCK = 256,
#ifdef __wasm__
  /* JavaScript, which scans few elements, adds one after another. */
  ADDS_BY_FOUR = 0
#else
  ADDS_BY_FOUR = 1
#endif
};

typedef enum { SUM, PRODUCT, MAX, MIN } scan_kind;

typedef struct {
  const rm_iterator *iterator;
  int outer_axes;
  scan_kind kind;
  bool floats;
  /* Cumulative sums of 64-bit elements need no buffer, nor of float32 that are added one by one. */
  bool in_place;
  loader load;
  ptrdiff_t bytes;
  int out;
  ptrdiff_t out_bytes;
  /* Runs or blocks of columns, and how many of them form a task. */
  ptrdiff_t units;
  ptrdiff_t units_per_task;
} scan_context;

#define TYPE double
#define SUFFIX f64_sum
#define ACCUMULATE ADD
#include "scan_type.h"
#define TYPE double
#define SUFFIX f64_product
#define ACCUMULATE MULTIPLY
#include "scan_type.h"
#define TYPE int64_t
#define SUFFIX i64_sum
#define ACCUMULATE ADD
#include "scan_type.h"
#define TYPE int64_t
#define SUFFIX i64_product
#define ACCUMULATE MULTIPLY
#include "scan_type.h"
#define TYPE double
#define SUFFIX f64_max
#define ACCUMULATE LARGER
#include "scan_type.h"
#define TYPE double
#define SUFFIX f64_min
#define ACCUMULATE SMALLER
#include "scan_type.h"
#define TYPE int64_t
#define SUFFIX i64_max
#define ACCUMULATE LARGER
#include "scan_type.h"
#define TYPE int64_t
#define SUFFIX i64_min
#define ACCUMULATE SMALLER
#include "scan_type.h"

/* Scans one run of narrow floats, four at a time, because each addition to the carry waits for the
 * previous one. The sums of four differ in the last bits of a double, which narrow results do not
 * show. */
static void scan_run_narrow_sum(ptrdiff_t n, double *restrict x, double *carry) {
  double a = *carry;
  ptrdiff_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const double two = x[i] + x[i + 1], three = two + x[i + 2];
    const double four = two + (x[i + 2] + x[i + 3]);
    x[i] += a;
    x[i + 1] = a + two;
    x[i + 2] = a + three;
    x[i + 3] = a += four;
  }
  for (; i < n; i++) x[i] = a += x[i];
  *carry = a;
}

/* Scans adjacent elements as they are. */
#define SCAN_RUN_IN_PLACE(name, TYPE, A) \
  static void name(ptrdiff_t n, const TYPE *x, TYPE *o) { \
    A a = 0; \
    for (ptrdiff_t i = 0; i < n; i++) { \
      a += (A)x[i]; \
      o[i] = (TYPE)a; \
    } \
  }
SCAN_RUN_IN_PLACE(scan_run_in_place_f32, float, double)
SCAN_RUN_IN_PLACE(scan_run_in_place_f64, double, double)
SCAN_RUN_IN_PLACE(scan_run_in_place_i64, int64_t, int64_t)

/* The loaded elements: doubles or integers, as the context says. Vectors that cross a cache line
 * cost half as much again. */
typedef union {
  _Alignas(64) double f[SCAN_RUNS][SCAN_BLOCK];
  int64_t i[SCAN_RUNS][SCAN_BLOCK];
} scan_blocks;

typedef union {
  _Alignas(64) double f[WIDTH];
  int64_t i[WIDTH];
} carries;

static void init_carries(const scan_context *ctx, carries *c, ptrdiff_t n) {
  static const double floats[] = {0, 1, -INFINITY, INFINITY};
  static const int64_t integers[] = {0, 1, INT64_MIN, INT64_MAX};
  if (ctx->floats) {
    for (ptrdiff_t i = 0; i < n; i++) c->f[i] = floats[ctx->kind];
  } else {
    for (ptrdiff_t i = 0; i < n; i++) c->i[i] = integers[ctx->kind];
  }
}

/* Calls the function of the kind of scan. */
#define RUN_KINDS(name, ...) \
  do { \
    switch (ctx->kind) { \
      case SUM: name##_sum(__VA_ARGS__); break; \
      case PRODUCT: name##_product(__VA_ARGS__); break; \
      case MAX: name##_max(__VA_ARGS__); break; \
      case MIN: name##_min(__VA_ARGS__); break; \
    } \
  } while (0)

/* Scans `count` runs at once, SCAN_RUNS or 1, that begin at the given pointers. */
static void scan_group(const scan_context *ctx, int count, char *(*at)[2]) {
  const rm_iterator *it = ctx->iterator;
  const int axis = it->rank - 1;
  const bool single_element = ctx->outer_axes == it->rank;
  const ptrdiff_t n = single_element ? 1 : it->shape[axis];
  const ptrdiff_t to = single_element ? 1 : it->strides[axis][0] / ctx->out_bytes;
  const ptrdiff_t from = single_element ? 1 : it->strides[axis][1] / ctx->bytes;
  if (ctx->in_place && from == 1 && to == 1 && count == 1) {
    const void *p = at[0][1];
    void *o = at[0][0];
    switch (ctx->out) {
      case RM_FLOAT32: scan_run_in_place_f32(n, p, o); break;
      case RM_FLOAT64: scan_run_in_place_f64(n, p, o); break;
      default: scan_run_in_place_i64(n, p, o);
    }
    return;
  }
  scan_blocks x;
  carries c;
  init_carries(ctx, &c, count);
  for (ptrdiff_t i = 0; i < n; i += SCAN_BLOCK) {
    const ptrdiff_t m = rm_min(n - i, SCAN_BLOCK);
    for (int l = 0; l < count; l++) ctx->load(m, at[l][1] + i * from * ctx->bytes, from, x.f[l]);
    if (ctx->floats) {
      if (ADDS_BY_FOUR && ctx->kind == SUM && count == 1 && ctx->bytes < 8) scan_run_narrow_sum(m, x.f[0], c.f);
      else if (count == 1) RUN_KINDS(scan_run_f64, m, x.f[0], c.f);
      else RUN_KINDS(scan_runs_f64, m, x.f, c.f);
    } else if (count == 1) {
      RUN_KINDS(scan_run_i64, m, x.i[0], c.i);
    } else {
      RUN_KINDS(scan_runs_i64, m, x.i, c.i);
    }
    for (int l = 0; l < count; l++) {
      RM_FOR_ISA(store_elements)(ctx->out, m, x.f[l], at[l][0] + i * to * ctx->out_bytes, to);
    }
  }
}

/* Sets the pointers of a run or, if width is not 1, of a block of columns. Returns its number of
 * columns. */
static ptrdiff_t seek_unit(const scan_context *ctx, ptrdiff_t unit, ptrdiff_t width, char **at) {
  const rm_iterator *it = ctx->iterator;
  for (int k = 0; k < 2; k++) at[k] = it->data[k];
  ptrdiff_t n = 1;
  for (int axis = ctx->outer_axes - 1; axis >= 0; axis--) {
    const ptrdiff_t blocks = rm_ceil_div(it->shape[axis], width);
    const ptrdiff_t first = unit % blocks * width;
    for (int k = 0; k < 2; k++) at[k] += first * it->strides[axis][k];
    if (axis == ctx->outer_axes - 1) n = rm_min(it->shape[axis] - first, width);
    unit /= blocks;
    width = 1;
  }
  return n;
}

static void scan_along(void *context, ptrdiff_t group) {
  const scan_context *ctx = context;
  const ptrdiff_t last = rm_min((group + 1) * ctx->units_per_task, ctx->units);
  for (ptrdiff_t unit = group * ctx->units_per_task; unit < last;) {
    const bool is_latency_bound = ctx->floats || ctx->kind != SUM;
    const int count = is_latency_bound && last - unit >= SCAN_RUNS ? SCAN_RUNS : 1;
    char *at[SCAN_RUNS][2];
    for (int l = 0; l < count; l++) seek_unit(ctx, unit + l, 1, at[l]);
    scan_group(ctx, count, at);
    unit += count;
  }
}

static void scan_across(void *context, ptrdiff_t block) {
  const scan_context *ctx = context;
  const rm_iterator *it = ctx->iterator;
  const int column = ctx->outer_axes - 1;
  const bool single_element = ctx->outer_axes == it->rank;
  const ptrdiff_t rows = single_element ? 1 : it->shape[it->rank - 1];
  const ptrdiff_t to = it->strides[column][0] / ctx->out_bytes,
                  from = it->strides[column][1] / ctx->bytes;
  carries x, c;
  char *at[2];
  const ptrdiff_t n = seek_unit(ctx, block, WIDTH, at);
  init_carries(ctx, &c, n);
  for (ptrdiff_t r = 0; r < rows; r++) {
    ctx->load(n, at[1] + (single_element ? 0 : r * it->strides[it->rank - 1][1]), from, &x);
    if (ctx->floats) {
      RUN_KINDS(scan_columns_f64, n, x.f, c.f);
    } else {
      RUN_KINDS(scan_columns_i64, n, x.i, c.i);
    }
    RM_FOR_ISA(store_elements)(ctx->out, n, &c,
                               at[0] + (single_element ? 0 : r * it->strides[it->rank - 1][0]), to);
  }
}

/* Scans few columns whose rows follow each other in memory. */
static void scan_narrow(void *context, ptrdiff_t plane) {
  const scan_context *ctx = context;
  const rm_iterator *it = ctx->iterator;
  const ptrdiff_t n = it->shape[ctx->outer_axes - 1], rows = it->shape[it->rank - 1];
  scan_blocks x;
  carries c;
  char *at[2];
  seek_unit(ctx, plane, WIDTH, at);
  init_carries(ctx, &c, n);
  const ptrdiff_t step = SCAN_RUNS * SCAN_BLOCK / n;
  for (ptrdiff_t r = 0; r < rows; r += step) {
    const ptrdiff_t m = rm_min(step, rows - r), first = r * n;
    double *f = x.f[0];
    ctx->load(m * n, at[1] + first * ctx->bytes, 1, f);
    if (ctx->floats) scan_rows_f64_sum(n, m, f, c.f);
    else scan_rows_i64_sum(n, m, x.i[0], c.i);
    RM_FOR_ISA(store_elements)(ctx->out, m * n, f, at[0] + first * ctx->out_bytes, 1);
  }
}

/* Whether scan_narrow applies: sums of few columns, with adjacent rows in both buffers. */
static bool is_narrow_scan(const scan_context *ctx) {
  const rm_iterator *it = ctx->iterator;
  const int outer_axes = ctx->outer_axes;
  if (ctx->kind != SUM || outer_axes == 0 || outer_axes == it->rank) return false;
  const ptrdiff_t n = it->shape[outer_axes - 1];
  return n > 1 && n <= NARROW_MAX && it->strides[outer_axes - 1][0] == ctx->out_bytes &&
         it->strides[outer_axes - 1][1] == ctx->bytes &&
         it->strides[outer_axes][0] == n * ctx->out_bytes &&
         it->strides[outer_axes][1] == n * ctx->bytes;
}

int32_t RM_FOR_ISA(scan)(int32_t opcode, const rm_iterator *it, int outer_axes, int out, int a) {
  scan_context ctx = {
      .iterator = it, .outer_axes = outer_axes, .kind = opcode == RM_OP_cumulativeProd  ? PRODUCT
                                                : opcode == RM_OP_cumulativeMax ? MAX
                                                : opcode == RM_OP_cumulativeMin ? MIN
                                                                                : SUM};
  ctx.floats = rm_is_float(out);
  if (rm_is_float(a) != ctx.floats || (out == RM_BOOL && ctx.kind < MAX)) return RM_UNSUPPORTED;
  /* Integers are compared as int64. */
  if (ctx.kind >= MAX && (out != a || out == RM_UINT64)) return RM_UNSUPPORTED;
  if (it->rank > outer_axes + 1) {
    return rm_fail(RM_BAD_ARGUMENT, "a scan runs along 1 axis, not %d", it->rank - outer_axes);
  }
  ctx.load = ctx.floats ? RM_FOR_ISA(to_f64)[a] : RM_FOR_ISA(to_i64)[a];
  ctx.bytes = rm_itemsize(a);
  /* The largest and smallest of 0 and 1 are bytes as they are. */
  ctx.out = out == RM_BOOL ? RM_UINT8 : out;
  ctx.out_bytes = rm_itemsize(out);
  const ptrdiff_t least = ctx.floats && !ADDS_BY_FOUR ? 4 : 8;
  ctx.in_place = ctx.kind == SUM && ctx.bytes >= least && ctx.out_bytes == ctx.bytes;
  ptrdiff_t outer = 1;
  for (int axis = 0; axis < outer_axes; axis++) outer *= it->shape[axis];
  const ptrdiff_t n = outer_axes == it->rank ? 1 : it->shape[it->rank - 1];
  const double time = NANOSECONDS * (double)(outer * n);
  if (is_narrow_scan(&ctx)) {
    rm_parallel(outer / it->shape[outer_axes - 1], time, scan_narrow, &ctx);
    return RM_OK;
  }
  bool across = outer_axes > 0;
  if (across && outer_axes < it->rank) {
    const ptrdiff_t column_stride = rm_abs(it->strides[outer_axes - 1][1]);
    across = it->shape[outer_axes - 1] >= 16 && column_stride < rm_abs(it->strides[outer_axes][1]);
  }
  if (across) {
    ctx.units = outer / it->shape[outer_axes - 1] * rm_ceil_div(it->shape[outer_axes - 1], WIDTH);
    rm_parallel(ctx.units, time, scan_across, &ctx);
    return RM_OK;
  }
  ctx.units = outer;
  ctx.units_per_task = n >= TASK_ELEMENTS / SCAN_RUNS ? SCAN_RUNS : TASK_ELEMENTS / n;
  rm_parallel(rm_ceil_div(outer, ctx.units_per_task), time, scan_along, &ctx);
  return RM_OK;
}
