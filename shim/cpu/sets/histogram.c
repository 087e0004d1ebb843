/*
 * Counts of integers and of elements in bins, and sums of their weights.
 */
#include <stdlib.h>
#include <string.h>
#include "sets.h"

/* Elements of one table, and the most tables. How many there are depends on sizes alone, so that sums
 * of weights do not depend on the number of threads. */
enum { TABLE_ELEMENTS = 128 * 1024, MOST_TABLES = 32, SMALL_BINS = 2048, LANES = 4 };

typedef struct {
  /* The elements. */
  int dtype;
  const char *x;
  ptrdiff_t n;
  /* The edges of bins, and one more, NaN; null for integers that are bins themselves. */
  const double *edges;
  ptrdiff_t bins;
  /* Bins of one width, by which distances are divided. */
  bool uniform;
  double scale;
  /* Weights of float64, float32 or int64; null for none. */
  const void *weights;
  int weight_dtype;
  bool sums_floats;
  /* The tables, `table_bytes` each. Counts of few bins have several lanes. */
  char *tables;
  ptrdiff_t table_bytes, table_elements;
  /* Indices of bins, if they are the result. */
  int32_t *indices;
} bin_context;

/* The bin of each value by the distance from the first edge, moved by one where rounding has put it on
 * the other side of an edge. `bins` for those outside. */
static void uniform_bins(const bin_context *ctx, const double *v, ptrdiff_t n, int32_t *at) {
  const double *edges = ctx->edges;
  const ptrdiff_t bins = ctx->bins;
  const double low = edges[0], high = edges[bins], scale = ctx->scale;
  const int32_t last = (int32_t)bins - 1;
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
    const bool inside = (v[i] >= low) & (v[i] <= high);
    const int32_t bin = (int32_t)(inside ? (v[i] - low) * scale : 0);
    at[i] = bin > last ? last : bin;
  }
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
    const bool inside = (v[i] >= low) & (v[i] <= high);
    const int32_t bin = at[i];
    const int32_t moved = bin - (v[i] < edges[bin]) + ((v[i] >= edges[bin + 1]) & (bin != last));
    at[i] = inside ? moved : (int32_t)bins;
  }
}

/* The bin of each value by binary searches side by side. */
static void searched_bins(const bin_context *ctx, const double *v, ptrdiff_t n, int32_t *at) {
  const double *edges = ctx->edges;
  const ptrdiff_t bins = ctx->bins;
  const int32_t last = (int32_t)bins - 1;
  for (ptrdiff_t i = 0; i < n; i++) at[i] = 0;
  for (ptrdiff_t length = bins + 1; length > 0;) {
    const ptrdiff_t half = (length + 1) / 2;
    const double *from = edges + half - 1;
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) at[i] += from[at[i]] <= v[i] ? (int32_t)half : 0;
    length -= half;
  }
  const double low = edges[0], high = edges[bins];
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
    const bool inside = (v[i] >= low) & (v[i] <= high);
    const int32_t bin = at[i] - 1 > last ? last : at[i] - 1;
    at[i] = inside ? bin : (int32_t)bins;
  }
}

/* The bins of n elements from `first` on. */
static void find_bins(const bin_context *ctx, ptrdiff_t first, ptrdiff_t n, int32_t *at) {
  const char *from = ctx->x + first * rm_itemsize(ctx->dtype);
  if (ctx->edges == NULL) {
    int64_t integers[SET_BLOCK];
    const int64_t bins = ctx->bins;
    rm_load_integers(ctx->dtype, from, n, integers);
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
      at[i] = (uint64_t)integers[i] < (uint64_t)bins ? (int32_t)integers[i] : (int32_t)bins;
    }
    return;
  }
  double values[SET_BLOCK];
  rm_load_doubles(ctx->dtype, from, n, values);
  if (ctx->uniform) uniform_bins(ctx, values, n, at);
  else searched_bins(ctx, values, n, at);
}

/* Tables have a place for the elements outside, which is dropped. */
static void count_task(void *context, ptrdiff_t index) {
  const bin_context *ctx = context;
  const ptrdiff_t end = rm_min(ctx->n, (index + 1) * ctx->table_elements);
  char *table = ctx->tables + index * ctx->table_bytes;
  memset(table, 0, (size_t)ctx->table_bytes);
  const ptrdiff_t size = ctx->bins + 1;
  int32_t at[SET_BLOCK];
  for (ptrdiff_t i = index * ctx->table_elements; i < end; i += SET_BLOCK) {
    const ptrdiff_t n = rm_min(SET_BLOCK, end - i);
    find_bins(ctx, i, n, at);
    if (ctx->indices != NULL) {
      memcpy(ctx->indices + i, at, (size_t)n * sizeof *at);
    } else if (ctx->weights != NULL && ctx->sums_floats) {
      double weights[SET_BLOCK];
      const char *from = (const char *)ctx->weights + i * rm_itemsize(ctx->weight_dtype);
      rm_load_doubles(ctx->weight_dtype, from, n, weights);
      double *sums = (double *)table;
      ptrdiff_t k = 0;
      if (ctx->bins <= SMALL_BINS) {
        for (; k + LANES <= n; k += LANES) {
          sums[at[k]] += weights[k];
          sums[size + at[k + 1]] += weights[k + 1];
          sums[2 * size + at[k + 2]] += weights[k + 2];
          sums[3 * size + at[k + 3]] += weights[k + 3];
        }
      }
      for (; k < n; k++) sums[at[k]] += weights[k];
    } else if (ctx->weights != NULL) {
      const uint64_t *weights = (const uint64_t *)ctx->weights + i;
      uint64_t *sums = (uint64_t *)table;
      RM_SCALAR for (ptrdiff_t k = 0; k < n; k++) sums[at[k]] += weights[k];
    } else if (ctx->bins <= SMALL_BINS) {
      /* Neighbors often fall into one bin: each of four has a table of its own. */
      int32_t *counts = (int32_t *)table;
      ptrdiff_t k = 0;
      for (; k + LANES <= n; k += LANES) {
        counts[at[k]]++;
        counts[size + at[k + 1]]++;
        counts[2 * size + at[k + 2]]++;
        counts[3 * size + at[k + 3]]++;
      }
      for (; k < n; k++) counts[at[k]]++;
    } else {
      int32_t *counts = (int32_t *)table;
      RM_SCALAR for (ptrdiff_t k = 0; k < n; k++) counts[at[k]]++;
    }
  }
}

/* Adds up the tables, the first ones first. */
static void add_tables(const bin_context *ctx, ptrdiff_t tables, void *out) {
  const ptrdiff_t bins = ctx->bins;
  for (ptrdiff_t t = 0; t < tables; t++) {
    const char *table = ctx->tables + t * ctx->table_bytes;
    if (ctx->weights == NULL) {
      int32_t *to = out;
      const int lanes = bins <= SMALL_BINS ? LANES : 1;
      for (int lane = 0; lane < lanes; lane++) {
        const int32_t *from = (const int32_t *)table + lane * (bins + 1);
        RM_ROLLED for (ptrdiff_t i = 0; i < bins; i++) to[i] += from[i];
      }
    } else if (ctx->sums_floats) {
      double *to = out;
      const int lanes = bins <= SMALL_BINS ? LANES : 1;
      for (int lane = 0; lane < lanes; lane++) {
        const double *from = (const double *)table + lane * (bins + 1);
        RM_ROLLED for (ptrdiff_t i = 0; i < bins; i++) to[i] += from[i];
      }
    } else {
      uint64_t *to = out;
      const uint64_t *from = (const uint64_t *)table;
      RM_ROLLED for (ptrdiff_t i = 0; i < bins; i++) to[i] += from[i];
    }
  }
}

/* Runs a context over all elements into `out`. */
static int32_t count_all(bin_context *ctx, void *out) {
  const ptrdiff_t size = ctx->bins + 1;
  const ptrdiff_t lanes = ctx->bins <= SMALL_BINS ? LANES : 1;
  const ptrdiff_t width = ctx->weights != NULL ? 8 : 4;
  ctx->table_bytes = ctx->indices != NULL ? 0 : rm_round_up(size * lanes * width, 64);
  /* A table has fewer bins than elements, so that clearing and adding it costs little. */
  ptrdiff_t per_table = ctx->indices != NULL ? TABLE_ELEMENTS : rm_round_up(
      2 * size > TABLE_ELEMENTS ? 2 * size : TABLE_ELEMENTS, SET_BLOCK);
  if (ctx->indices == NULL && rm_ceil_div(ctx->n, per_table) > MOST_TABLES) {
    per_table = rm_round_up(rm_ceil_div(ctx->n, MOST_TABLES), SET_BLOCK);
  }
  const ptrdiff_t tables = rm_ceil_div(ctx->n, per_table);
  ctx->table_elements = per_table;
  ctx->tables = malloc((size_t)(tables * ctx->table_bytes + 64));
  if (ctx->tables == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for %.0f bins", (double)size);
  rm_parallel(tables, (double)ctx->n * 2, count_task, ctx);
  if (ctx->indices == NULL) {
    memset(out, 0, (size_t)(ctx->bins * (ctx->weights != NULL ? 8 : 4)));
    add_tables(ctx, tables, out);
  }
  free(ctx->tables);
  return RM_OK;
}

int32_t RM_FOR_ISA(bins)(const rm_call *call) {
  const int dtype = call->dtypes[1], weight_dtype = call->dtypes[3];
  const double *attributes = rm_attributes(call);
  const bool has_edges = call->op != RM_OP_binCounts, has_weights = attributes[5] != 0;
  const bool gives_indices = call->op == RM_OP_binIndices;
  const int sums = gives_indices || !has_weights ? RM_INT32
                   : rm_is_float(weight_dtype)   ? RM_FLOAT64
                                                 : weight_dtype;
  if (dtype >= RM_DTYPE_COUNT || dtype == RM_FLOAT16 || dtype == RM_BFLOAT16 ||
      (!has_edges && rm_is_float(dtype)) || call->dtypes[0] != sums ||
      (has_weights && weight_dtype != RM_INT64 && weight_dtype != RM_FLOAT64 &&
       weight_dtype != RM_FLOAT32) ||
      (has_edges && (call->dtypes[2] != RM_FLOAT64 || attributes[2] < 1)) ||
      attributes[2] > INT32_MAX - 1) {
    return rm_fail(RM_BAD_ARGUMENT, "bins: dtypes %d and %d", dtype, call->dtypes[0]);
  }
  bin_context ctx = {
      .dtype = dtype,
      .x = rm_element(call, 1, attributes[0]),
      .n = (ptrdiff_t)attributes[1],
      .bins = (ptrdiff_t)attributes[2],
      .uniform = attributes[4] != 0,
      .weights = has_weights ? rm_element(call, 3, attributes[6]) : NULL,
      .weight_dtype = weight_dtype,
      .sums_floats = rm_is_float(weight_dtype),
      .indices = gives_indices ? call->buffers[0] : NULL,
  };
  if (!has_edges) return count_all(&ctx, call->buffers[0]);
  /* Another thread may not change the edges meanwhile, nor does a bin end beyond the last one. */
  const size_t bytes = (size_t)(ctx.bins + 1) * sizeof(double);
  double *edges = malloc(bytes + sizeof(double));
  if (edges == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for %.0f bins", attributes[2]);
  memcpy(edges, rm_element(call, 2, attributes[3]), bytes);
  edges[ctx.bins + 1] = __builtin_nan("");
  ctx.edges = edges;
  /* The quotient of a distance must be a number from 0 to `bins`: bins may be too narrow for that. */
  ctx.scale = (double)ctx.bins / (edges[ctx.bins] - edges[0]);
  ctx.uniform &= ctx.scale > 0 && ctx.scale < __builtin_inf();
  const int32_t status = count_all(&ctx, call->buffers[0]);
  free(edges);
  return status;
}
