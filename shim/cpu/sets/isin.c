/*
 * Which elements are among others: by a table of bits for integers of a small range, else by a hash
 * table.
 */
#include <stdlib.h>
#include <string.h>
#include "sets.h"

typedef struct {
  int dtype;
  const char *x;
  uint8_t *out;
  ptrdiff_t n;
  bool inverts;
  /* A table of bits for the integers from low on. */
  const uint64_t *bits;
  int64_t low;
  uint64_t range;
  /* A hash table of keys; 0 marks an empty place. */
  const uint64_t *keys;
  uint64_t factor;
  int shift;
  uint64_t mask;
  bool has_zero;
} isin_context;

enum { TASK_ELEMENTS = 32 * 1024 };

static inline ptrdiff_t hash_of(const isin_context *ctx, uint64_t key) {
  return (ptrdiff_t)((key * ctx->factor) >> ctx->shift);
}

/* The keys of n elements: their bits, -0 as 0. NaN, which equals nothing, becomes `nan`. */
static const uint64_t NAN_KEY = UINT64_C(0x7ff8dead0000beef);

static void load_set_keys(int dtype, const char *from, ptrdiff_t n, uint64_t *keys) {
  if (!rm_is_float(dtype)) {
    rm_load_integers(dtype, from, n, (int64_t *)keys);
    return;
  }
  double values[SET_BLOCK];
  rm_load_doubles(dtype, from, n, values);
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
    const double x = values[i] + 0.0;
    uint64_t key;
    memcpy(&key, &x, sizeof key);
    keys[i] = x != x ? NAN_KEY : key;
  }
}

static inline bool has_key(const isin_context *ctx, uint64_t key) {
  if (key == 0) return ctx->has_zero;
  for (ptrdiff_t at = hash_of(ctx, key);; at = (ptrdiff_t)((uint64_t)(at + 1) & ctx->mask)) {
    const uint64_t other = ctx->keys[at];
    if (other == key) return true;
    if (other == 0) return false;
  }
}

static void isin_task(void *context, ptrdiff_t index) {
  const isin_context *ctx = context;
  const ptrdiff_t width = rm_itemsize(ctx->dtype);
  const ptrdiff_t end = rm_min(ctx->n, (index + 1) * TASK_ELEMENTS);
  uint64_t keys[SET_BLOCK];
  for (ptrdiff_t i = index * TASK_ELEMENTS; i < end; i += SET_BLOCK) {
    const ptrdiff_t count = rm_min(SET_BLOCK, end - i);
    load_set_keys(ctx->dtype, ctx->x + i * width, count, keys);
    uint8_t *out = ctx->out + i;
    if (ctx->bits != NULL) {
      for (ptrdiff_t k = 0; k < count; k++) {
        const uint64_t at = keys[k] - (uint64_t)ctx->low;
        const uint64_t inside = at < ctx->range;
        const uint64_t place = inside ? at : 0;
        out[k] = (uint8_t)((inside & (ctx->bits[place >> 6] >> (place & 63))) ^ ctx->inverts);
      }
    } else {
      RM_SCALAR for (ptrdiff_t k = 0; k < count; k++) out[k] = has_key(ctx, keys[k]) ^ ctx->inverts;
    }
  }
}

/* Reads the smallest and the largest of n integers; the order of uint64 is that of int64 here, which is
 * enough to find a small range. */
static void find_range(int dtype, const char *from, ptrdiff_t n, int64_t *low, int64_t *high) {
  const ptrdiff_t width = rm_itemsize(dtype);
  int64_t values[SET_BLOCK], smallest = INT64_MAX, largest = INT64_MIN;
  for (ptrdiff_t i = 0; i < n; i += SET_BLOCK) {
    const ptrdiff_t count = rm_min(SET_BLOCK, n - i);
    rm_load_integers(dtype, from + i * width, count, values);
    RM_ROLLED for (ptrdiff_t k = 0; k < count; k++) {
      smallest = values[k] < smallest ? values[k] : smallest;
      largest = values[k] > largest ? values[k] : largest;
    }
  }
  *low = smallest;
  *high = largest;
}

static void *make_bits(isin_context *ctx, const char *tests, ptrdiff_t m) {
  const ptrdiff_t width = rm_itemsize(ctx->dtype);
  uint64_t *bits = calloc((size_t)(ctx->range / 64 + 1), sizeof *bits);
  int64_t values[SET_BLOCK];
  if (bits == NULL) return NULL;
  for (ptrdiff_t i = 0; i < m; i += SET_BLOCK) {
    const ptrdiff_t count = rm_min(SET_BLOCK, m - i);
    rm_load_integers(ctx->dtype, tests + i * width, count, values);
    RM_SCALAR for (ptrdiff_t k = 0; k < count; k++) {
      const uint64_t at = (uint64_t)values[k] - (uint64_t)ctx->low;
      if (at < ctx->range) bits[at >> 6] |= UINT64_C(1) << (at & 63);
    }
  }
  ctx->bits = bits;
  return bits;
}

/* Attempts to find a factor whose hashes do not collide, and the steps for each key that are allowed. */
enum { MOST_FACTORS = 8, MOST_STEPS = 16 };

static void *make_hashes(isin_context *ctx, const char *tests, ptrdiff_t m) {
  const ptrdiff_t width = rm_itemsize(ctx->dtype);
  int log = 4;
  while (((ptrdiff_t)1 << log) < 2 * m) log++;
  ctx->shift = 64 - log;
  ctx->mask = (UINT64_C(1) << log) - 1;
  uint64_t *keys = calloc((size_t)1 << log, sizeof *keys), values[SET_BLOCK];
  if (keys == NULL) return NULL;
  const bool is_float = rm_is_float(ctx->dtype);
  ctx->factor = UINT64_C(0x9e3779b97f4a7c15);
  ptrdiff_t steps = 0;
  int factors = 1;
  for (ptrdiff_t i = 0; i < m; i += SET_BLOCK) {
    if (steps > MOST_STEPS * (i + SET_BLOCK) && factors < MOST_FACTORS) {
      /* The hashes of these keys collide: all begin anew with others. */
      memset(keys, 0, sizeof *keys << log);
      ctx->factor = ctx->factor * ctx->factor * ctx->factor + 2 * (uint64_t)factors++;
      i = steps = 0;
    }
    const ptrdiff_t count = rm_min(SET_BLOCK, m - i);
    load_set_keys(ctx->dtype, tests + i * width, count, values);
    RM_SCALAR for (ptrdiff_t k = 0; k < count; k++) {
      const uint64_t key = values[k];
      ctx->has_zero |= key == 0;
      if (key == 0 || (is_float && key == NAN_KEY)) continue;
      ptrdiff_t at = hash_of(ctx, key);
      for (; keys[at] != 0 && keys[at] != key; steps++) {
        at = (ptrdiff_t)((uint64_t)(at + 1) & ctx->mask);
      }
      keys[at] = key;
    }
  }
  ctx->keys = keys;
  return keys;
}

/* Tables of bits have at most so many bits, and so many for each element. */
enum { MOST_BITS = 1 << 30, BITS_PER_ELEMENT = 64 };

int32_t rm_is_among(const rm_call *call) {
  const int dtype = call->dtypes[1];
  const double *attributes = rm_attributes(call);
  const ptrdiff_t n = (ptrdiff_t)attributes[1], m = (ptrdiff_t)attributes[3];
  if (dtype >= RM_DTYPE_COUNT || dtype == RM_FLOAT16 || dtype == RM_BFLOAT16 ||
      dtype != call->dtypes[2] || call->dtypes[0] != RM_BOOL) {
    return rm_fail(RM_BAD_ARGUMENT, "isAmong: dtypes %d and %d", dtype, call->dtypes[2]);
  }
  isin_context ctx = {
      .dtype = dtype,
      .x = rm_element(call, 1, attributes[0]),
      .out = call->buffers[0],
      .n = n,
      .inverts = attributes[4] != 0,
  };
  const char *tests = rm_element(call, 2, attributes[2]);
  void *table = NULL;
  if (!rm_is_float(dtype)) {
    int64_t high;
    find_range(dtype, tests, m, &ctx.low, &high);
    const uint64_t range = (uint64_t)high - (uint64_t)ctx.low + 1;
    const uint64_t most = (uint64_t)(n + m) * BITS_PER_ELEMENT + 4096;
    if (range != 0 && range <= most && range <= MOST_BITS) {
      ctx.range = range;
      table = make_bits(&ctx, tests, m);
    } else {
      table = make_hashes(&ctx, tests, m);
    }
  } else {
    table = make_hashes(&ctx, tests, m);
  }
  if (table == NULL) return rm_fail(RM_OUT_OF_MEMORY, "isAmong: no memory for %.0f elements", (double)m);
  rm_parallel(rm_ceil_div(n, TASK_ELEMENTS), (double)n * (ctx.bits != NULL ? 1 : 4), isin_task, &ctx);
  free(table);
  return RM_OK;
}
