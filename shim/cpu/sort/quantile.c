/*
 * Quantiles and modes of contiguous runs.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cast.h"
#include "selection.h"

/* How a quantile follows from the elements around its place; src/ops/sort/quantile.ts has the same order. */
enum {
  MEDIAN,
  LINEAR,
  LOWER,
  HIGHER,
  MIDPOINT,
  NEAREST,
  INVERTED_CDF,
  AVERAGED_INVERTED_CDF,
  CLOSEST_OBSERVATION,
  INTERPOLATED_INVERTED_CDF,
  HAZEN,
  WEIBULL,
  MEDIAN_UNBIASED,
  NORMAL_UNBIASED,
};

typedef struct {
  sort_context order;
  int dtype, out_dtype, method;
  bool ignores_nan;
  ptrdiff_t count;
  const double *quantiles;
  char *out;
} quantile_context;

/* The ranks of the elements around a quantile, and the weight of the second one. */
typedef struct {
  ptrdiff_t first, second;
  double weight;
} place;

/* Ranks of whole numbers: an element, without interpolation. */
static place place_of(double n, double rank) {
  const ptrdiff_t at = (ptrdiff_t)(rank < 0 ? 0 : rank > n - 1 ? n - 1 : rank);
  return (place){at, at, 0};
}

/* The arithmetic is that of NumPy, which src/backend/js/selection.ts repeats. */
static place find_place(int method, double n, double q) {
  double at = (n - 1) * q;
  switch (method) {
    case LOWER: return place_of(n, floor(at));
    case HIGHER: return place_of(n, ceil(at));
    case NEAREST: return place_of(n, __builtin_rint(at));
    case INVERTED_CDF: return place_of(n, ceil(n * q - 1));
    case CLOSEST_OBSERVATION: {
      at = n * q - 1 - 0.5;
      const double below = floor(at);
      const bool is_odd = below - 2 * floor(below / 2) == 1;
      return place_of(n, at == below && is_odd ? below : below + 1);
    }
    case AVERAGED_INVERTED_CDF: at = n * q - 1; break;
    case MIDPOINT: at = 0.5 * (floor(at) + ceil(at)); break;
    case INTERPOLATED_INVERTED_CDF: at = n * q + (0 + q * (1 - 0.0 - 1)) - 1; break;
    case HAZEN: at = n * q + (0.5 + q * (1 - 0.5 - 0.5)) - 1; break;
    case WEIBULL: at = n * q + (0 + q * (1 - 0.0 - 0)) - 1; break;
    case MEDIAN_UNBIASED: at = n * q + (1 / 3.0 + q * (1 - 1 / 3.0 - 1 / 3.0)) - 1; break;
    case NORMAL_UNBIASED: at = n * q + (3 / 8.0 + q * (1 - 3 / 8.0 - 3 / 8.0)) - 1; break;
  }
  if (at < 0 || at >= n - 1) return place_of(n, at);
  const double below = floor(at);
  double weight = at - below;
  if (method == AVERAGED_INVERTED_CDF) weight = weight == 0 ? 0.5 : 1;
  return (place){(ptrdiff_t)below, (ptrdiff_t)below + 1, weight};
}

static double value_of(const quantile_context *ctx, const void *keys, ptrdiff_t rank) {
  union {
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    float f32;
    double f64;
  } x;
  store_keys(&ctx->order, (const char *)keys + rank * key_bytes(&ctx->order), 1, &x);
  switch (ctx->dtype) {
    case RM_INT8: return x.i8;
    case RM_INT16: return x.i16;
    case RM_INT32: return x.i32;
    case RM_INT64: return (double)x.i64;
    case RM_UINT16: return x.u16;
    case RM_UINT32: return x.u32;
    case RM_UINT64: return (double)x.u64;
    case RM_FLOAT16: return rm_f16_to_f32(x.u16);
    case RM_BFLOAT16: return rm_bf16_to_f32(x.u16);
    case RM_FLOAT32: return x.f32;
    case RM_FLOAT64: return x.f64;
    default: return x.u8;
  }
}

static void write_float(int dtype, char *to, double x) {
  if (dtype == RM_FLOAT64) memcpy(to, &x, sizeof x);
  else if (dtype == RM_FLOAT32) memcpy(to, &(float){(float)x}, sizeof(float));
  else memcpy(to, &(uint16_t){dtype == RM_FLOAT16 ? rm_f64_to_f16(x) : rm_f64_to_bf16(x)}, 2);
}

static double interpolate(const quantile_context *ctx, double a, double b, double weight) {
  if (a == b || weight == 0) return a;
  if (ctx->method == MEDIAN) return (a + b) * 0.5;
  const double difference = b - a;
  return weight >= 0.5 ? b - difference * (1 - weight) : a + difference * weight;
}

static int compare_ranks(const void *a, const void *b) {
  const ptrdiff_t x = *(const ptrdiff_t *)a, y = *(const ptrdiff_t *)b;
  return (x > y) - (x < y);
}

/* The quantiles of one run. `places` and `ranks` have room for them. */
static void find_quantiles(const quantile_context *ctx, const char *values, void *keys,
                           place *places, ptrdiff_t *ranks, char *out) {
  const sort_context *order = &ctx->order;
  const ptrdiff_t n = order->size, bytes = rm_itemsize(ctx->out_dtype);
  load_keys(order, values, n, keys);
  ptrdiff_t below = n, nans = 0;
  if (order->is_float) count_keys(order, keys, n, nan_key(order), &below, &nans);
  if (below == 0 || (nans > 0 && !ctx->ignores_nan)) {
    for (ptrdiff_t i = 0; i < ctx->count; i++) write_float(ctx->out_dtype, out + i * bytes, NAN);
    return;
  }
  for (ptrdiff_t i = 0; i < ctx->count; i++) {
    places[i] = find_place(ctx->method, (double)below, ctx->quantiles[i]);
    ranks[2 * i] = places[i].first;
    ranks[2 * i + 1] = places[i].second;
  }
  if (ctx->count > 1) qsort(ranks, 2 * (size_t)ctx->count, sizeof *ranks, compare_ranks);
  select_ranks(order, keys, n, ranks, 2 * ctx->count);
  for (ptrdiff_t i = 0; i < ctx->count; i++) {
    const double a = value_of(ctx, keys, places[i].first);
    const double b = value_of(ctx, keys, places[i].second);
    write_float(ctx->out_dtype, out + i * bytes, interpolate(ctx, a, b, places[i].weight));
  }
}

static void quantile_runs(void *context, ptrdiff_t index) {
  quantile_context *ctx = context;
  const sort_context *order = &ctx->order;
  const ptrdiff_t first = index * order->runs_per_task, n = order->size;
  const ptrdiff_t end = rm_min(first + order->runs_per_task, order->runs);
  const size_t each = sizeof(place) + 2 * sizeof(ptrdiff_t);
  char *memory = malloc((size_t)ctx->count * each + (size_t)(n * key_bytes(order)));
  if (memory == NULL) {
    ctx->order.failed = true;
    return;
  }
  place *places = (place *)memory;
  ptrdiff_t *ranks = (ptrdiff_t *)(places + ctx->count);
  void *keys = ranks + 2 * ctx->count;
  for (ptrdiff_t run = first; run < end; run++) {
    find_quantiles(ctx, order->values + run * n * order->bytes, keys, places, ranks,
                   ctx->out + run * ctx->count * rm_itemsize(ctx->out_dtype));
  }
  free(memory);
}

int32_t RM_FOR_ISA(quantile)(const rm_call *call) {
  const double *numbers = call->numbers;
  quantile_context ctx = {
      .dtype = call->dtypes[1],
      .out_dtype = call->dtypes[0],
      .method = (int)numbers[3],
      .ignores_nan = numbers[4] != 0,
      .count = (ptrdiff_t)numbers[5],
      .quantiles = numbers + 6,
      .out = call->buffers[0],
  };
  sort_context *order = &ctx.order;
  if (ctx.dtype >= RM_DTYPE_COUNT || !rm_is_float(ctx.out_dtype)) {
    return rm_fail(RM_BAD_ARGUMENT, "quantile: dtypes %d and %d", ctx.out_dtype, ctx.dtype);
  }
  set_selection(order, call, ctx.dtype);
  if (order->runs <= 0 || order->size <= 0 || ctx.count <= 0 || ctx.out == NULL) return RM_OK;
  order->values = (char *)call->buffers[1] + (ptrdiff_t)numbers[0] * order->bytes;
  run_selection(order, 2, quantile_runs, &ctx);
  return order->failed ? rm_fail(RM_OUT_OF_MEMORY, "quantile: no memory for %.0f elements",
                                 numbers[2])
                       : RM_OK;
}

/* ---- modes ----------------------------------------------------------------------------------- */

typedef struct {
  sort_context order;
  char *out;
} mode_context;

/* The rank of the first of the most frequent among sorted keys. */
static ptrdiff_t most_frequent(const sort_context *ctx, const void *keys, int32_t *count) {
  const ptrdiff_t n = ctx->size;
  ptrdiff_t best = 0, most = 0, first = 0;
  RM_SCALAR for (ptrdiff_t i = 1; i <= n; i++) {
    if (i < n && key_at(ctx, keys, i) == key_at(ctx, keys, first)) continue;
    if (i - first > most) {
      most = i - first;
      best = first;
    }
    first = i;
  }
  *count = (int32_t)most;
  return best;
}

/* The first element of a run with a key. */
static const char *find_key(const sort_context *ctx, const char *values, int64_t key) {
  for (ptrdiff_t first = 0; first < ctx->size; first += KEY_BLOCK) {
    const ptrdiff_t length = rm_min(KEY_BLOCK, ctx->size - first);
    int64_t block[KEY_BLOCK];
    load_keys(ctx, values + first * ctx->bytes, length, block);
    RM_SCALAR for (ptrdiff_t i = 0; i < length; i++) {
      if (key_at(ctx, block, i) == key) return values + (first + i) * ctx->bytes;
    }
  }
  return values;
}

static void mode_runs(void *context, ptrdiff_t index) {
  mode_context *ctx = context;
  const sort_context *order = &ctx->order;
  const ptrdiff_t first = index * order->runs_per_task, n = order->size, bytes = order->bytes;
  const ptrdiff_t end = rm_min(first + order->runs_per_task, order->runs);
  void *keys = malloc((size_t)(n * key_bytes(order)));
  if (keys == NULL) {
    ctx->order.failed = true;
    return;
  }
  for (ptrdiff_t run = first; run < end; run++) {
    const char *values = order->values + run * n * bytes;
    load_keys(order, values, n, keys);
    if (bytes == 8) quicksort_64(keys, n);
    else quicksort_32(keys, n);
    const ptrdiff_t rank = most_frequent(order, keys, order->indices + run);
    memcpy(ctx->out + run * bytes, find_key(order, values, key_at(order, keys, rank)),
           (size_t)bytes);
  }
  free(keys);
}

int32_t RM_FOR_ISA(mode)(const rm_call *call) {
  const int dtype = call->dtypes[1];
  if (dtype >= RM_DTYPE_COUNT || dtype != call->dtypes[0] || call->dtypes[2] != RM_INT32) {
    return rm_fail(RM_BAD_ARGUMENT, "mode: dtypes %d, %d and %d", dtype, call->dtypes[0],
                   call->dtypes[2]);
  }
  mode_context ctx = {.out = call->buffers[0]};
  sort_context *order = &ctx.order;
  set_selection(order, call, dtype);
  if (order->runs <= 0 || order->size <= 0 || call->buffers[1] == NULL) return RM_OK;
  if (order->size > INT32_MAX) {
    return rm_fail(RM_UNSUPPORTED, "mode: runs of %.0f elements", call->numbers[2]);
  }
  order->values = (char *)call->buffers[1] + (ptrdiff_t)call->numbers[0] * order->bytes;
  order->indices = call->buffers[2];
  run_selection(order, 10, mode_runs, &ctx);
  return order->failed ? rm_fail(RM_OUT_OF_MEMORY, "mode: no memory for %.0f elements",
                                 call->numbers[2])
                       : RM_OK;
}
