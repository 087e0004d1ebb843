/*
 * Sorts dense runs, or finds the order that would: stable, with NaN last and -0 equal to 0.
 *
 * Elements become unsigned keys that sort as they do. Of short runs several are sorted at once, side
 * by side in vectors, or each by the ranks of its keys: as many comparisons as there are pairs, but
 * many at a time. A long one is sorted by digits of the keys, the lowest first. There is one stable
 * order, so that how the work is cut changes nothing.
 */
#include <stdlib.h>
#include <string.h>
#include "sort_columns.h"
#include "sort_context.h"
#include "sort_digits.h"
#include "sort_keys.h"

/* Memory that grows on demand, forgetting what it held. */
typedef struct {
  void *memory;
  size_t size;
  ptrdiff_t parts;
} scratch;

static void *reserve(scratch *s, size_t size) {
  if (size > s->size) {
    free(s->memory);
    s->memory = malloc(size);
    s->size = s->memory == NULL ? 0 : size;
  }
  return s->memory;
}

static void sort_short(const job *j, char *values, int32_t *indices) {
  const ptrdiff_t n = j->size;
  /* Room for whole vectors of 64 bytes. */
  union {
    uint32_t narrow[SHORT + 16];
    uint64_t wide[SHORT_WIDE + 8];
  } keys, ranks, copy;
  load_keys(j, values, &keys);
  memset((char *)&keys + n * (j->bytes == 8 ? 8 : 4), 0, 64);
  if (j->bytes == 8) rank_uint64_t(keys.wide, n, ranks.wide);
  else rank_uint32_t(keys.narrow, n, ranks.narrow);
  if (indices != NULL) {
    for (ptrdiff_t i = 0; i < n; i++) {
      indices[j->bytes == 8 ? (ptrdiff_t)ranks.wide[i] : (ptrdiff_t)ranks.narrow[i]] = (int32_t)i;
    }
    return;
  }
  memcpy(&copy, values, (size_t)(n * j->bytes));
  if (j->bytes == 8) place_uint64_t(copy.wide, ranks.wide, n, (uint64_t *)values);
  else BY_BYTES(j->bytes, place, (const void *)&copy, ranks.narrow, n, (void *)values);
}

/* Counts for the parts of a run stand before the memory that sorting it takes. */
static size_t counts_size(const scratch *s) { return (size_t)s->parts * sizeof(uint32_t[BUCKETS]); }

/*
 * The order of a run, in the lower halves of the result; the upper halves are of no meaning. A key
 * of 32 bits and its index make one number, which is sorted by its upper half. Longer keys go by
 * their lower halves first. `copy` gets room for as many elements.
 */
static const uint64_t *find_order(const job *j, const char *values, scratch *s, void **copy) {
  const ptrdiff_t n = j->size;
  char *memory = reserve(s, counts_size(s) + 24 * (size_t)n);
  if (memory == NULL) return NULL;
  uint32_t(*counts)[BUCKETS] = (void *)memory;
  uint64_t *a = (void *)(memory + counts_size(s)), *b = a + n;
  void *keys = b + n;
  *copy = keys;
  load_keys(j, values, keys);
  if (j->bytes < 8) {
    const uint32_t *narrow = keys;
    uint32_t least, most;
    bounds_uint32_t(narrow, n, &least, &most);
    for (ptrdiff_t i = 0; i < n; i++) a[i] = (uint64_t)(narrow[i] - least) << 32 | (uint64_t)i;
    return radix_uint64_t(a, b, n, 0, 32, 32 + bit_length(most - least), s->parts, counts);
  }
  const uint64_t *wide = keys;
  uint64_t least, most;
  bounds_uint64_t(wide, n, &least, &most);
  for (ptrdiff_t i = 0; i < n; i++) a[i] = (wide[i] - least) << 32 | (uint64_t)i;
  const int bits = bit_length(most - least), lower = bits < 32 ? bits : 32;
  uint64_t *order = radix_uint64_t(a, b, n, 0, 32, 32 + lower, s->parts, counts);
  if (bits <= 32) return order;
  for (ptrdiff_t i = 0; i < n; i++) {
    const uint32_t index = (uint32_t)order[i];
    order[i] = ((wide[index] - least) & ~(uint64_t)UINT32_MAX) | index;
  }
  return radix_uint64_t(order, order == a ? b : a, n, 0, 32, bits, s->parts, counts);
}

static bool sort_by_order(const job *j, char *values, scratch *s) {
  void *copy;
  const uint64_t *order = find_order(j, values, s, &copy);
  if (order == NULL) return false;
  memcpy(copy, values, (size_t)(j->size * j->bytes));
  if (j->bytes == 8) permute_uint64_t(copy, order, j->size, (uint64_t *)values);
  else BY_BYTES(j->bytes, permute, copy, order, j->size, (void *)values);
  return true;
}

/* Sorts the keys alone, from which the elements come back. */
static bool sort_by_keys(const job *j, char *values, scratch *s) {
  const ptrdiff_t n = j->size;
  const size_t key = j->bytes == 8 ? 8 : 4;
  char *memory = reserve(s, counts_size(s) + 2 * key * (size_t)n);
  if (memory == NULL) return false;
  uint32_t(*counts)[BUCKETS] = (void *)memory;
  void *keys = memory + counts_size(s);
  load_keys(j, values, keys);
  if (key == 8) {
    uint64_t *a = keys;
    store_keys(j, sort_wide(a, a + n, n, s->parts, counts), values);
  } else {
    uint32_t *a = keys, least, most;
    bounds_uint32_t(a, n, &least, &most);
    a = radix_uint32_t(a, a + n, n, least, 0, bit_length(most - least), s->parts, counts);
    store_keys(j, a, values);
  }
  return true;
}

/* Whether a run's keys are so near each other that their few digits are sorted faster than vectors
 * of 64 bits. */
static bool has_few_digits(const job *j, const char *values, void *keys) {
  const ptrdiff_t n = j->size;
  if (n <= (j->bytes == 8 ? SHORT_WIDE : SHORT)) return false;
  uint64_t range;
  load_keys(j, values, keys);
  if (j->bytes == 8) {
    uint64_t least, most;
    bounds_uint64_t(keys, n, &least, &most);
    range = most - least;
  } else {
    uint32_t least, most;
    bounds_uint32_t(keys, n, &least, &most);
    range = most - least;
  }
  return bit_length(range) <= 2 * SHORT_DIGIT;
}

/* Sorts BESIDE runs, unless their keys do not tell all apart or have few digits, or memory is out. */
static bool sort_beside(const job *j, ptrdiff_t run, scratch *s) {
  const ptrdiff_t n = j->size, wide = j->bytes == 8 || j->indices != NULL;
  const ptrdiff_t all = BESIDE * n * (wide ? 8 : 4);
  char *values = j->values + run * n * j->bytes;
  if (j->indices == NULL && is_special(j, values, BESIDE * n)) return false;
  char *memory = reserve(s, (size_t)(all + 8 * n + 128));
  if (memory == NULL) return false;
  char *columns = (char *)(((uintptr_t)memory + 127) & ~(uintptr_t)127);
  void *keys = columns + all;
  if (wide && has_few_digits(j, values, keys)) return false;
  if (j->indices != NULL) order_beside(j, values, j->indices + run * n, columns, keys);
  else if (wide) sort_beside_uint64_t(j, values, columns, keys);
  else sort_beside_uint32_t(j, values, columns, keys);
  return true;
}

static bool sort_run(const job *j, ptrdiff_t run, scratch *s) {
  const ptrdiff_t n = j->size;
  char *values = j->values + run * n * j->bytes;
  int32_t *indices = j->indices == NULL ? NULL : j->indices + run * n;
  if (n <= (j->bytes == 8 ? SHORT_WIDE : SHORT)) {
    sort_short(j, values, indices);
    return true;
  }
  if (indices != NULL) {
    void *copy;
    const uint64_t *order = find_order(j, values, s, &copy);
    for (ptrdiff_t i = 0; order != NULL && i < n; i++) indices[i] = (int32_t)order[i];
    return order != NULL;
  }
  return is_special(j, values, n) ? sort_by_order(j, values, s) : sort_by_keys(j, values, s);
}

static void sort_runs(void *context, ptrdiff_t index) {
  job *j = context;
  const ptrdiff_t first = index * j->runs_per_task;
  const ptrdiff_t end = rm_least(first + j->runs_per_task, j->runs);
  scratch s = {.parts = 1};
  for (ptrdiff_t run = first; run < end;) {
    const ptrdiff_t last = j->beside && run + BESIDE <= end ? run + BESIDE : run + 1;
    if (last > run + 1 && sort_beside(j, run, &s)) run = last;
    for (; run < last; run++) if (!sort_run(j, run, &s)) j->failed = true;
  }
  free(s.memory);
}

int32_t RM_AT(sort)(int32_t dtype, int32_t flags, const double *plan, void *values, void *indices) {
  if (dtype < 0 || dtype >= RM_DTYPE_COUNT) {
    return rm_fail(RM_BAD_ARGUMENT, "sort: no dtype %d", (int)dtype);
  }
  const ptrdiff_t bytes = rm_bytes(dtype);
  const int bits = 8 * (int)bytes;
  job j = {.bytes = bytes, .runs = (ptrdiff_t)plan[1], .size = (ptrdiff_t)plan[2]};
  if (j.runs <= 0 || j.size <= 0 || values == NULL) return RM_OK;
  if (j.size > UINT32_MAX || (indices != NULL && j.size > INT32_MAX)) {
    return rm_fail(RM_UNSUPPORTED, "sort: runs of %.0f elements", plan[2]);
  }
  j.values = (char *)values + (ptrdiff_t)plan[0] * bytes;
  j.indices = indices;
  j.floating = rm_is_float(dtype);
  const uint64_t sign = (uint64_t)1 << (bits - 1);
  if (j.floating || (dtype >= RM_INT8 && dtype <= RM_INT64)) j.flip = sign;
  if (flags & 1) j.flip = ~j.flip;
  if (j.floating) {
    static const uint64_t infinities[] = {0x7c00, 0x7f80, 0x7f800000, 0x7ff0000000000000};
    j.keep_sign = sign - 1;
    j.negative_zero = sign;
    j.infinity = infinities[dtype - RM_FLOAT16];
  }
  const ptrdiff_t parts = rm_least(j.size / PART, MAX_PARTS);
  if (parts > 1 && j.runs < parts && rm_threads() > 1) {
    scratch s = {.parts = parts};
    for (ptrdiff_t run = 0; run < j.runs && !j.failed; run++) j.failed = !sort_run(&j, run, &s);
    free(s.memory);
  } else {
    j.runs_per_task = j.size >= TASK ? 1 : TASK / j.size;
    const ptrdiff_t longest = BESIDE_LONGEST / 4 * bytes;
    j.beside = j.size > 1 && (bytes < 8 || indices == NULL) &&
               j.size <= (bytes == 8 || indices != NULL ? rm_least(longest, BESIDE_WIDE) : longest);
    if (j.beside) j.runs_per_task = rm_round_up(j.runs_per_task, BESIDE);
    rm_parallel(rm_parts(j.runs, j.runs_per_task), NANOSECONDS * (double)(j.runs * j.size),
                sort_runs, &j);
  }
  return j.failed ? rm_fail(RM_BAD_ARGUMENT, "sort: no memory for %.0f elements", plan[2]) : RM_OK;
}
