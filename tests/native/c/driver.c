/*
 * Calls every kernel but the chain without JavaScript, over many dtypes, sizes, strides and
 * offsets, and compares results with plain loops where those are obvious; and the entry points of
 * versions, settings, messages and BLAS. loops.c makes and runs programs of stand-ins for kernels,
 * buffers.c and pages.c call rm_buffers, and buffers.c and queue.c are stand-ins for Node-API. Only
 * tests in TypeScript call the chain, rm_address_of, rm_program_copy, rm_program_set and the entry
 * points of CUDA.
 *
 * Every buffer is exactly as long as its operand reaches, so that valgrind and sanitizers detect
 * any access beyond it. No call may change an input, or memory between the elements of an output.
 * The driver uses rowmajor.h, internal.h and linalg.h only. Parts of it are in driver_....h.
 *
 * Arguments: the highest instruction set to try (a number; 0 is the best one of the machine), then
 * "short" for fewer and smaller cases, or "fenced" for buffers between inaccessible pages. Prints a
 * line of counts. The first failure ends the program.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "internal.h"

enum { MAX_AXES = 3, MARGIN = 3 };
/* The share of large cases that run. */
enum { LARGE_CASE_SHARE = 8 };

/* The number of calls, of calls that were served, and of compared results. */
static long calls, served, compared;
/* The current case, for messages. */
static char about[200];

static void fail(const char *what) {
  char message[256];
  rm_last_error(message, sizeof message);
  fprintf(stderr, "%s: %s (the last message: %s)\n", about, what, message);
  exit(1);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The number of a kernel that is no op of the table; those of ops are the ops. */
static int32_t kernel(const char *name) { return rm_find_kernel(name, 0); }

static int32_t pack(int out, int a, int b, int c) {
  return (int32_t)((uint32_t)out | (uint32_t)a << 8 | (uint32_t)b << 16 | (uint32_t)c << 24);
}

/* Numbers that have attributes, but no plan. */
typedef struct {
  double at[RM_OFFSETS];
} attributes;

static attributes with_attributes(int count, const double *values) {
  attributes numbers = {{0}};
  memcpy(numbers.at + RM_ATTRIBUTES, values, (size_t)count * sizeof *values);
  return numbers;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static uint64_t state = 88172645463325252u;

static uint32_t any(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)(state >> 32);
}

static ptrdiff_t below(ptrdiff_t n) { return (ptrdiff_t)(any() % (uint64_t)n); }

static bool is_half(int dtype) { return dtype == RM_FLOAT16 || dtype == RM_BFLOAT16; }

/* Element i as a number; 64-bit elements must be small. Not for 16-bit floats. */
static double get(int dtype, const void *base, ptrdiff_t i) {
  switch (dtype) {
    case RM_INT8: return ((const int8_t *)base)[i];
    case RM_INT16: return ((const int16_t *)base)[i];
    case RM_INT32: return ((const int32_t *)base)[i];
    case RM_INT64: return (double)((const int64_t *)base)[i];
    case RM_UINT16: return ((const uint16_t *)base)[i];
    case RM_UINT32: return ((const uint32_t *)base)[i];
    case RM_UINT64: return (double)((const uint64_t *)base)[i];
    case RM_FLOAT32: return (double)((const float *)base)[i];
    case RM_FLOAT64: return ((const double *)base)[i];
    default: return ((const uint8_t *)base)[i];
  }
}

static void put(int dtype, void *base, ptrdiff_t i, int64_t value) {
  switch (dtype) {
    case RM_INT16:
    case RM_UINT16: ((uint16_t *)base)[i] = (uint16_t)value; break;
    case RM_INT32:
    case RM_UINT32: ((uint32_t *)base)[i] = (uint32_t)value; break;
    case RM_INT64:
    case RM_UINT64: ((uint64_t *)base)[i] = (uint64_t)value; break;
    case RM_FLOAT32: ((float *)base)[i] = (float)value; break;
    case RM_FLOAT64: ((double *)base)[i] = (double)value; break;
    default: ((uint8_t *)base)[i] = (uint8_t)value;
  }
}

/* The value of an integer after it is stored in a dtype. */
static double wrap_integer(int dtype, int64_t value) {
  uint64_t element[1];
  put(dtype, element, 0, value);
  return get(dtype, element, 0);
}

/* ---- buffers --------------------------------------------------------------------------------- */

typedef struct {
  int dtype;
  size_t bytes;
  unsigned char *data;
  unsigned char *before;
  /* The allocation that contains data, including inaccessible pages. */
  unsigned char *region;
  size_t reserved;
} buffer;

static bool fenced;

/* Allocates memory that begins or ends at an inaccessible page if that is requested. */
static void allocate_region(buffer *b) {
  if (!fenced) {
    b->region = b->data = malloc(b->bytes);
    return;
  }
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (b->bytes + page - 1) / page * page;
  b->reserved = inside + 2 * page;
  b->region = mmap(NULL, b->reserved, PROT_NONE, MAP_PRIVATE | MAP_ANON, -1, 0);
  if (b->region == MAP_FAILED) fail("no memory");
  mprotect(b->region + page, inside, PROT_READ | PROT_WRITE);
  b->data = b->region + page + (below(4) > 0 ? inside - b->bytes : 0);
}

static void give_back(buffer *b) {
  if (fenced) munmap(b->region, b->reserved);
  else free(b->region);
}

enum content { ANY_BITS, SMALL };

/* A buffer of exactly that many elements, of random bits or of integers from -8 to 7. */
static buffer make(int dtype, ptrdiff_t length, enum content content) {
  buffer b = {.dtype = dtype, .bytes = (size_t)(length * rm_itemsize(dtype))};
  allocate_region(&b);
  b.before = malloc(b.bytes);
  if (b.data == NULL || b.before == NULL) fail("no memory");
  for (size_t i = 0; i < b.bytes; i += 4) {
    const uint32_t bits = any() & (dtype == RM_BOOL ? 0x01010101 : UINT32_MAX);
    memcpy(b.data + i, &bits, b.bytes - i < 4 ? b.bytes - i : 4);
  }
  if (content == SMALL && !is_half(dtype)) {
    const bool negative = (dtype >= RM_INT8 && dtype <= RM_INT64) || dtype >= RM_FLOAT32;
    for (ptrdiff_t i = 0; i < length; i++) {
      put(dtype, b.data, i, dtype == RM_BOOL ? below(2) : below(16) - (negative ? 8 : 0));
    }
  }
  memcpy(b.before, b.data, b.bytes);
  return b;
}

static void drop(buffer *b) {
  give_back(b);
  free(b->before);
}

static void check_unchanged(const buffer *b) {
  if (b->data != NULL && memcmp(b->data, b->before, b->bytes) != 0) fail("an input has changed");
}

/* ---- plans ----------------------------------------------------------------------------------- */

typedef struct {
  int rank, operands;
  ptrdiff_t size[MAX_AXES];
  ptrdiff_t stride[RM_MAX_OPERANDS][MAX_AXES];
  ptrdiff_t offset[RM_MAX_OPERANDS];
  ptrdiff_t length[RM_MAX_OPERANDS];
  double numbers[RM_OFFSETS + RM_MAX_OPERANDS + MAX_AXES * (1 + RM_MAX_OPERANDS)];
} layout;

/* The layout of an operand in its buffer. Outputs cannot have the last two. */
enum kind {
  CONTIGUOUS,
  COLUMNS,
  REVERSED,
  HALF_REVERSED,
  GAPS,
  OUTPUT_KINDS,
  REPEATED = OUTPUT_KINDS,
  SINGLE,
  KINDS
};

/* Lays out operand k. It has stride 0 along axes from the given number on. */
static void lay_out(layout *p, int k, enum kind kind, int axes) {
  ptrdiff_t step = kind == GAPS ? 2 : 1, low = 0, high = 0;
  for (int i = 0; i < p->rank; i++) p->stride[k][i] = 0;
  for (int i = axes - 1; i >= 0; i--) {
    const int axis = kind == COLUMNS ? axes - 1 - i : i;
    const bool back = kind == REVERSED || (kind == HALF_REVERSED && axis == 0);
    const bool still = kind == SINGLE || (kind == REPEATED && axis == 0);
    p->stride[k][axis] = still ? 0 : back ? -step : step;
    step = step * p->size[axis] + (kind == GAPS ? 3 : 0);
  }
  for (int i = 0; i < p->rank; i++) {
    const ptrdiff_t along = (p->size[i] - 1) * p->stride[k][i];
    if (along < 0) low += along;
    else high += along;
  }
  p->offset[k] = below(MARGIN + 1) - low;
  p->length[k] = p->offset[k] + high + 1;
}

/* Writes the plan in the format that the shim reads. */
static double *write_plan(layout *p) {
  p->numbers[RM_PLAN_RANK] = p->rank;
  p->numbers[RM_PLAN_OPERANDS] = p->operands;
  p->numbers[RM_PLAN_KEPT] = 0;
  /* Tolerances, counts and exponents. */
  for (int i = RM_ATTRIBUTES; i < RM_OFFSETS; i++) p->numbers[i] = 3 - (i - RM_ATTRIBUTES) % 4;
  double *to = p->numbers + RM_OFFSETS;
  for (int k = 0; k < p->operands; k++) *to++ = (double)p->offset[k];
  for (int i = 0; i < p->rank; i++) *to++ = (double)p->size[i];
  for (int k = 0; k < p->operands; k++) {
    for (int i = 0; i < p->rank; i++) *to++ = (double)p->stride[k][i];
  }
  return p->numbers;
}

/* Advances to the next index of the first axes. Returns false after the last one. */
static bool next(const layout *p, int axes, ptrdiff_t *index) {
  for (int i = axes - 1; i >= 0; i--) {
    if (++index[i] < p->size[i]) return true;
    index[i] = 0;
  }
  return false;
}

static ptrdiff_t place(const layout *p, int k, const ptrdiff_t *index) {
  ptrdiff_t at = p->offset[k];
  for (int i = 0; i < p->rank; i++) at += index[i] * p->stride[k][i];
  return at;
}

/* Fails if memory of an output other than its elements has changed. */
static void check_margins(const layout *p, const buffer *out) {
  const size_t bytes = (size_t)rm_itemsize(out->dtype);
  /* The elements themselves may change. */
  unsigned char *after = malloc(out->bytes);
  if (after == NULL) fail("no memory");
  memcpy(after, out->data, out->bytes);
  ptrdiff_t index[MAX_AXES] = {0};
  do {
    const size_t at = (size_t)place(p, 0, index) * bytes;
    memcpy(after + at, out->before + at, bytes);
  } while (next(p, p->rank, index));
  if (memcmp(after, out->before, out->bytes) != 0) fail("an output was written between elements");
  free(after);
}

/* Whether a call was served. A call that is not must be unsupported. */
static bool is_served(int32_t status) {
  calls++;
  if (status != RM_OK && status != RM_UNSUPPORTED) fail("a call has failed");
  if (status == RM_OK) served++;
  return status == RM_OK;
}

/* ---- maps ------------------------------------------------------------------------------------ */

#define RM_MAP_OP(name, operands, condition, flag, ...) \
  [RM_OP_##name] = {operands, condition, flag},
static const struct {
  int operands;
  bool condition, flag;
} rows[RM_OP_COUNT] = {
#include "ops.def"
};
#undef RM_MAP_OP

/* Runs an op. dtypes are the compute dtype and those of the output and the inputs. */
static void run_map(layout *p, int row, const int *dtypes, enum content content, int threads) {
  snprintf(about, sizeof about, "map %d of dtypes %d %d %d %d %d, [%td, %td, %td] of rank %d", row,
           dtypes[0], dtypes[1], dtypes[2], dtypes[3], dtypes[4], p->size[0], p->size[1],
           p->size[2], p->rank);
  buffer b[RM_MAX_OPERANDS] = {{0}};
  int own[RM_MAX_OPERANDS];
  for (int k = 0; k < RM_MAX_OPERANDS; k++) {
    own[k] = k < p->operands ? dtypes[k + 1] : RM_NONE;
    if (k < p->operands) b[k] = make(own[k], p->length[k], content);
  }
  const int32_t packed = pack(own[0], own[1], own[2], own[3]);
  double *plan = write_plan(p);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  const bool done =
      is_served(rm_run(row, packed, dtypes[0], plan, b[0].data, b[1].data, b[2].data, b[3].data));
  if (done && threads > 1) {
    /* The bits do not depend on the number of threads. */
    unsigned char *first = malloc(b[0].bytes);
    if (first == NULL) fail("no memory");
    memcpy(first, b[0].data, b[0].bytes);
    memcpy(b[0].data, b[0].before, b[0].bytes);
    rm_configure(RM_CONFIGURE_THREADS, 1);
    rm_run(row, packed, dtypes[0], plan, b[0].data, b[1].data, b[2].data, b[3].data);
    if (memcmp(first, b[0].data, b[0].bytes) != 0) fail("the number of threads shows");
    free(first);
    compared++;
  }
  if (done) check_margins(p, &b[0]);
  for (int k = 1; k < p->operands; k++) check_unchanged(&b[k]);
  if (done && row == RM_OP_add && content == SMALL) {
    ptrdiff_t index[MAX_AXES] = {0};
    do {
      const double sum = get(dtypes[2], b[1].data, place(p, 1, index)) +
                         get(dtypes[3], b[2].data, place(p, 2, index));
      if (get(dtypes[1], b[0].data, place(p, 0, index)) != wrap_integer(dtypes[1], (int64_t)sum)) {
        fail("a sum of two is wrong");
      }
    } while (next(p, p->rank, index));
    compared++;
  }
  for (int k = 0; k < p->operands; k++) drop(&b[k]);
}

static void shape(layout *p, int rank, ptrdiff_t x, ptrdiff_t y, ptrdiff_t z, int operands) {
  *p = (layout){.rank = rank, .operands = operands, .size = {x, y, z}};
}

/* Every op in every dtype, with a shape and layouts that differ from call to call. */
static void try_maps(ptrdiff_t n, bool all_contiguous, int threads) {
  for (int row = 0; row < RM_OP_COUNT; row++) {
    if (rows[row].operands == 0) continue;
    for (int dtype = 0; dtype < RM_DTYPE_COUNT; dtype++) {
      if (threads > 1 && below(LARGE_CASE_SHARE) > 0) continue;
      layout p;
      const int rank = all_contiguous ? 1 : 1 + (int)below(3);
      const ptrdiff_t other = 1 + below(5), third = 1 + below(3);
      if (rank == 1) shape(&p, 1, n, 1, 1, rows[row].operands + 1);
      else if (rank == 2) shape(&p, 2, below(2) ? other : n, n, 1, rows[row].operands + 1);
      else shape(&p, 3, third, n, other, rows[row].operands + 1);
      if (rank == 2 && p.size[0] == n && n > 70) p.size[0] = 17;
      int dtypes[5] = {dtype, rows[row].flag ? RM_BOOL : dtype, dtype, dtype, dtype};
      if (rows[row].condition) dtypes[2] = RM_BOOL;
      /* Some cases cast inputs and outputs. */
      if (!all_contiguous && below(4) == 0) dtypes[1] = (int)below(RM_DTYPE_COUNT);
      if (!all_contiguous && below(4) == 0) dtypes[p.operands] = (int)below(RM_DTYPE_COUNT);
      for (int k = 0; k < p.operands; k++) {
        lay_out(&p, k,
                all_contiguous ? CONTIGUOUS : (enum kind)below(k == 0 ? OUTPUT_KINDS : KINDS),
                p.rank);
      }
      run_map(&p, row, dtypes, ANY_BITS, threads);
    }
  }
  for (int dtype = RM_INT8; dtype < RM_DTYPE_COUNT; dtype++) {
    if (is_half(dtype)) continue;
    const int dtypes[5] = {dtype, dtype, dtype, dtype, RM_NONE};
    for (int kind = 0; kind < KINDS; kind++) {
      layout p;
      shape(&p, 2, n > 70 ? 3 : n, n, 1, 3);
      lay_out(&p, 0, (enum kind)(kind % OUTPUT_KINDS), 2);
      lay_out(&p, 1, (enum kind)kind, 2);
      lay_out(&p, 2, (enum kind)((kind * 3 + 1) % KINDS), 2);
      run_map(&p, RM_OP_add, dtypes, SMALL, 1);
    }
  }
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* Checks sums, cumulative sums and argmax of small integers. */
static void check_reduction(int row, const layout *p, int outer_axes, const buffer *out,
                            const buffer *a) {
  if ((row != RM_OP_sum && row != RM_OP_cumulativeSum && row != RM_OP_argmax) ||
      is_half(a->dtype) || is_half(out->dtype) || out->dtype == RM_BOOL) {
    return;
  }
  ptrdiff_t index[MAX_AXES] = {0}, walked = 0, count = 1;
  for (int i = outer_axes; i < p->rank; i++) count *= p->size[i];
  double sum = 0, most = 0;
  ptrdiff_t best = 0;
  do {
    const double x = get(a->dtype, a->data, place(p, 1, index));
    const ptrdiff_t at = walked++ % count;
    if (at == 0) sum = 0;
    sum += x;
    if (at == 0 || x > most) {
      most = x;
      best = at;
    }
    if (row != RM_OP_cumulativeSum && at < count - 1) continue;
    const double found = get(out->dtype, out->data, place(p, 0, index));
    const double expected = row == RM_OP_argmax ? (double)best
                                                : wrap_integer(out->dtype, (int64_t)sum);
    if (found != expected) fail("a fold is wrong");
  } while (next(p, p->rank, index));
  compared++;
}

static void run_reduction(layout *p, int row, int outer_axes, int to, int from, int second,
                          enum content content, int threads) {
  snprintf(about, sizeof about, "fold %d of dtype %d to %d, [%td, %td, %td] of rank %d, %d kept",
           row, from, to, p->size[0], p->size[1], p->size[2], p->rank, outer_axes);
  buffer out = make(to, p->length[0], ANY_BITS), a = make(from, p->length[1], content), b = {0};
  if (second != RM_NONE) b = make(second, p->length[2], content);
  const int32_t dtypes = pack(to, from, second, RM_NONE);
  double *plan = write_plan(p);
  plan[RM_PLAN_KEPT] = outer_axes;
  rm_configure(RM_CONFIGURE_THREADS, threads);
  const bool done = is_served(rm_run(row, dtypes, to, plan, out.data, a.data, b.data, NULL));
  if (done) {
    check_margins(p, &out);
    if (content == SMALL) check_reduction(row, p, outer_axes, &out, &a);
    if (threads > 1) {
      unsigned char *first = malloc(out.bytes);
      if (first == NULL) fail("no memory");
      memcpy(first, out.data, out.bytes);
      memcpy(out.data, out.before, out.bytes);
      rm_configure(RM_CONFIGURE_THREADS, 1);
      rm_run(row, dtypes, to, plan, out.data, a.data, b.data, NULL);
      if (memcmp(first, out.data, out.bytes) != 0) fail("the number of threads shows");
      free(first);
      compared++;
    }
  }
  check_unchanged(&a);
  check_unchanged(&b);
  drop(&out);
  drop(&a);
  drop(&b);
}

/* Every reduction of every dtype to every valid output dtype. */
static void try_reductions(ptrdiff_t n, bool all_contiguous, int threads) {
  static const int wide[] = {RM_BOOL, RM_INT32, RM_INT64, RM_UINT64, RM_FLOAT32, RM_FLOAT64};
  for (int row = RM_OP_sum; row < RM_OP_COUNT; row++) {
    const bool scan = row >= RM_OP_cumulativeSum, place_of = row >= RM_OP_argmax && !scan;
    const bool paired = row == RM_OP_var || row == RM_OP_std || row == RM_OP_logSumExp;
    for (int from = 0; from < RM_DTYPE_COUNT; from++) {
      for (int i = -1; i < (int)(sizeof wide / sizeof *wide); i++) {
        const int to = i < 0 ? from : wide[i];
        if (i >= 0 && to == from) continue;
        if (threads > 1 && n > 2000 && below(LARGE_CASE_SHARE) > 0) continue;
        if (place_of && to != RM_INT32) continue;
        layout p;
        const int rank = all_contiguous ? 1 + (int)below(2) : (int)below(4);
        const ptrdiff_t x = 1 + below(4), y = 1 + below(20);
        if (rank == 1) shape(&p, 1, n, 1, 1, 2);
        else if (rank == 2) shape(&p, 2, below(2) ? n : y, below(2) && n < 70 ? n : y, 1, 2);
        else shape(&p, rank, x, y, n < 70 ? n : 70, 2);
        const int outer_axes = scan ? (rank == 0 ? 0 : rank - 1) : (int)below(rank + 1);
        lay_out(&p, 0, all_contiguous ? CONTIGUOUS : (enum kind)below(OUTPUT_KINDS),
                scan ? rank : outer_axes);
        lay_out(&p, 1, all_contiguous ? CONTIGUOUS : (enum kind)below(KINDS), rank);
        int second = RM_NONE;
        if (paired) {
          p.operands = 3;
          second = from == RM_FLOAT32 || is_half(from) ? RM_FLOAT32 : RM_FLOAT64;
          lay_out(&p, 2, (enum kind)below(KINDS), outer_axes);
        }
        run_reduction(&p, row, outer_axes, to, from, second, below(2) ? SMALL : ANY_BITS, threads);
      }
    }
  }
}

/* ---- softmax and norms ----------------------------------------------------------------------- */

enum { SOFTMAX, LOG_SOFTMAX, LAYER_NORM, RMS_NORM, ROW_KERNELS };

/* Checks the sum of one row, or that it is NaN if it contains NaN. */
static void check_softmax_norm_row(int kind, int dtype, const void *out, ptrdiff_t at,
                                   ptrdiff_t columns, bool scaled) {
  double sum = 0, square = 0;
  for (ptrdiff_t i = 0; i < columns; i++) {
    double x = get(dtype, out, at + i);
    if (scaled) x = (x - 3) / 2;
    sum += kind == LOG_SOFTMAX ? exp(x) : x;
    square += x * x / (double)columns;
  }
  if (isnan(sum)) return;
  if (kind < LAYER_NORM && fabs(sum - 1) > 1e-4) fail("a row does not add up to 1");
  if (kind < LAYER_NORM) return;
  if (kind == LAYER_NORM && fabs(sum) > 1e-4 * (double)columns) fail("a row has a mean");
  /* Rows of a single value, and the epsilon of the others. */
  if (square > 1e-6 && fabs(square - 1) > 0.03) fail("a row has another mean square than 1");
}

static int32_t run_rows(int kind, int dtype, attributes numbers, buffer *out, buffer *a,
                        unsigned char *weight, unsigned char *bias) {
  static const char *const names[] = {"softmax", "logSoftmax", "layerNorm", "rmsNorm"};
  const int wide = dtype == RM_FLOAT64 ? RM_FLOAT64 : RM_FLOAT32;
  const int own = weight == NULL ? RM_NONE : wide;
  return rm_run(kernel(names[kind]), pack(dtype, dtype, own, own), dtype, numbers.at, out->data,
                a->data, weight, bias);
}

static void try_softmax_norm(ptrdiff_t count, ptrdiff_t columns, int threads) {
  for (int dtype = RM_FLOAT16; dtype <= RM_FLOAT64; dtype++) {
    for (int kind = 0; kind < ROW_KERNELS; kind++) {
      snprintf(about, sizeof about, "rows, kind %d of dtype %d, [%td, %td]", kind, dtype, count,
               columns);
      const ptrdiff_t from = below(MARGIN), n = count * columns;
      const int wide = dtype == RM_FLOAT64 ? RM_FLOAT64 : RM_FLOAT32;
      const bool any_bits = below(4) == 0, scaled = kind >= LAYER_NORM && below(2);
      buffer out = make(dtype, n, ANY_BITS), weight = make(wide, columns, ANY_BITS);
      buffer a = make(dtype, from + n, any_bits ? ANY_BITS : SMALL), bias = weight;
      if (scaled) {
        bias = make(wide, columns, ANY_BITS);
        for (ptrdiff_t i = 0; i < columns; i++) {
          put(wide, weight.data, i, 2);
          put(wide, bias.data, i, 3);
        }
        memcpy(weight.before, weight.data, weight.bytes);
        memcpy(bias.before, bias.data, bias.bytes);
      }
      const double plan[] = {(double)count, (double)columns, (double)from, 1e-5};
      unsigned char *const by = scaled ? weight.data : NULL, *const plus = scaled ? bias.data : NULL;
      rm_configure(RM_CONFIGURE_THREADS, threads);
      if (!is_served(run_rows(kind, dtype, with_attributes(4, plan), &out, &a, by, plus))) {
        fail("it was not served");
      }
      check_unchanged(&a);
      check_unchanged(&weight);
      check_unchanged(&bias);
      for (ptrdiff_t r = 0; r < count && !is_half(dtype) && !(any_bits && kind >= LAYER_NORM);
           r++) {
        check_softmax_norm_row(kind, dtype, out.data, r * columns, columns, scaled);
      }
      /* The output may be the input. */
      const double same[] = {(double)count, (double)columns, 0, 1e-5};
      memmove(a.data, a.data + from * rm_itemsize(dtype), out.bytes);
      if (!is_served(run_rows(kind, dtype, with_attributes(4, same), &a, &a, by, plus))) {
        fail("it was not served in place");
      }
      if (!any_bits && memcmp(a.data, out.data, out.bytes) != 0) fail("in place it is another");
      compared++;
      drop(&out);
      drop(&a);
      if (scaled) drop(&bias);
      drop(&weight);
    }
  }
}

/* ---- matrix products ------------------------------------------------------------------------- */

/* Lays out a matrix per batch item. step is the distance between items, 0 for one matrix. */
static ptrdiff_t lay_out_matrix(layout *p, int k, enum kind kind, bool shared, ptrdiff_t batch,
                                double *offsets) {
  lay_out(p, k, kind, 2);
  const ptrdiff_t length = p->length[k];
  for (ptrdiff_t i = 0; i < batch; i++) {
    offsets[i] = (double)(p->offset[k] + (shared ? 0 : i * length));
  }
  return shared ? length : length * batch;
}

static void run_matmul(int dtype, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, ptrdiff_t batch,
                       int threads) {
  enum { MOST = 5 };
  snprintf(about, sizeof about, "matmul of dtype %d, [%td, %td] @ [%td, %td] x %td", dtype, m, k, k,
           n, batch);
  layout c, a, b;
  shape(&c, 2, m, n, 1, 1);
  shape(&a, 2, m, k, 1, 1);
  shape(&b, 2, k, n, 1, 1);
  double plan[10 + 3 * MOST] = {(double)m, (double)n, (double)k, (double)batch};
  double *at = plan + 10;
  buffer to = make(dtype, lay_out_matrix(&c, 0, (enum kind)below(OUTPUT_KINDS), false, batch, at),
                   ANY_BITS);
  buffer left = make(
      dtype, lay_out_matrix(&a, 0, (enum kind)below(KINDS), below(2), batch, at + batch), SMALL);
  buffer right = make(
      dtype, lay_out_matrix(&b, 0, (enum kind)below(KINDS), below(2), batch, at + 2 * batch),
      SMALL);
  const layout *const each[] = {&c, &a, &b};
  for (int i = 0; i < 3; i++) {
    plan[4 + 2 * i] = (double)each[i]->stride[0][0];
    plan[5 + 2 * i] = (double)each[i]->stride[0][1];
  }
  rm_configure(RM_CONFIGURE_THREADS, threads);
  const bool done = is_served(rm_run(kernel("matmul"), pack(dtype, dtype, dtype, RM_NONE), dtype,
                                     plan, to.data, left.data, right.data, NULL));
  if (done != (dtype != RM_BOOL)) fail("served and not served are the wrong way round");
  check_unchanged(&left);
  check_unchanged(&right);
  const size_t bytes = (size_t)rm_itemsize(dtype);
  for (ptrdiff_t i = 0; done && i < batch; i++) {
    const ptrdiff_t c0 = (ptrdiff_t)at[i], a0 = (ptrdiff_t)at[batch + i];
    const ptrdiff_t b0 = (ptrdiff_t)at[2 * batch + i];
    for (ptrdiff_t r = 0; r < m; r++) {
      for (ptrdiff_t s = 0; s < n; s++) {
        const ptrdiff_t place = c0 + r * c.stride[0][0] + s * c.stride[0][1];
        int64_t sum = 0;
        /* Long products are compared now and then. */
        const bool compares = !is_half(dtype) && (m * n * k < 100000 || below(50) == 0);
        for (ptrdiff_t q = 0; compares && q < k; q++) {
          const double x = get(dtype, left.data, a0 + r * a.stride[0][0] + q * a.stride[0][1]);
          const double y = get(dtype, right.data, b0 + q * b.stride[0][0] + s * b.stride[0][1]);
          sum += (int64_t)x * (int64_t)y;
        }
        if (compares && get(dtype, to.data, place) != wrap_integer(dtype, sum)) {
          fail("a product is wrong");
        }
        memcpy(to.data + (size_t)place * bytes, to.before + (size_t)place * bytes, bytes);
      }
    }
  }
  if (memcmp(to.data, to.before, to.bytes) != 0) fail("the output was written between elements");
  compared += done;
  drop(&to);
  drop(&left);
  drop(&right);
}

static void try_matmul(ptrdiff_t most, int cases) {
  for (int dtype = RM_BOOL; dtype < RM_DTYPE_COUNT; dtype++) {
    for (int i = 0; i < cases; i++) {
      ptrdiff_t size[3];
      for (int j = 0; j < 3; j++) size[j] = below(4) == 0 ? 1 + below(3) : 1 + below(most);
      run_matmul(dtype, size[0], size[1], size[2], 1 + below(5), 1 + (int)below(3));
    }
  }
}

/* ---- attention ------------------------------------------------------------------------------- */

/* The operands of attention: out, queries, keys, values and a mask. */
enum {
  OUT,
  Q,
  K,
  V,
  MASK,
  ATTENTION_OPERANDS,
  ATTENTION_NUMBERS = 23,
  MOST_PROBLEMS = 4,
  /* The numbers of a cache before its offsets. */
  CACHE_NUMBERS = 5
};

typedef struct {
  ptrdiff_t problems, groups, m, n, d, dv;
  double scale;
  bool causal;
  layout at[ATTENTION_OPERANDS];
  buffer of[ATTENTION_OPERANDS];
  double numbers[ATTENTION_NUMBERS + (ATTENTION_OPERANDS + 2) * MOST_PROBLEMS + CACHE_NUMBERS];
} attention_case;

static ptrdiff_t head_place(const attention_case *c, int k, ptrdiff_t problem, ptrdiff_t group,
                            ptrdiff_t row, ptrdiff_t column) {
  const ptrdiff_t *stride = c->at[k].stride[0];
  return (ptrdiff_t)c->numbers[ATTENTION_NUMBERS + k * c->problems + problem] + group * stride[0] +
         row * stride[1] + column * stride[2];
}

static double head_element(const attention_case *c, int k, ptrdiff_t problem, ptrdiff_t group,
                           ptrdiff_t row, ptrdiff_t column) {
  return get(c->of[k].dtype, c->of[k].data, head_place(c, k, problem, group, row, column));
}

/* Compares a row of the result with sums in double precision. */
static void check_attention_row(const attention_case *c, ptrdiff_t problem, ptrdiff_t group,
                                ptrdiff_t row) {
  double scores[1024], total = 0, max = -INFINITY;
  for (ptrdiff_t j = 0; j < c->n; j++) {
    double sum = 0;
    for (ptrdiff_t i = 0; i < c->d; i++) {
      sum += head_element(c, Q, problem, group, row, i) * head_element(c, K, problem, 0, j, i);
    }
    sum *= c->scale;
    if (c->of[MASK].data != NULL) {
      const double mask = head_element(c, MASK, problem, group, row, j);
      if (c->of[MASK].dtype != RM_BOOL) sum += mask;
      else if (mask == 0) sum = -INFINITY;
    }
    scores[j] = c->causal && j > row + c->n - c->m ? -INFINITY : sum;
    if (scores[j] > max) max = scores[j];
  }
  for (ptrdiff_t j = 0; j < c->n; j++) total += exp(scores[j] - max);
  for (ptrdiff_t i = 0; i < c->dv; i++) {
    double sum = 0;
    for (ptrdiff_t j = 0; j < c->n; j++) {
      sum += exp(scores[j] - max) / total * head_element(c, V, problem, 0, j, i);
    }
    const double made = head_element(c, OUT, problem, group, row, i);
    if (isnan(sum) ? !isnan(made) : !(fabs(made - sum) < 1e-4)) fail("a result is wrong");
  }
}

/* Whether memory between the elements of the result is as before, which this restores. */
static bool keeps_margins(attention_case *c) {
  buffer *out = &c->of[OUT];
  const size_t bytes = (size_t)rm_itemsize(out->dtype);
  for (ptrdiff_t p = 0; p < c->problems; p++) {
    for (ptrdiff_t at = 0; at < c->groups * c->m * c->dv; at++) {
      const size_t to = (size_t)head_place(c, OUT, p, at / c->dv / c->m, at / c->dv % c->m,
                                           at % c->dv) *
                        bytes;
      memcpy(out->data + to, out->before + to, bytes);
    }
  }
  return memcmp(out->data, out->before, out->bytes) == 0;
}

/* Makes the operands and the numbers of a case; mask is RM_NONE for none. */
static void make_attention(attention_case *c, int dtype, int mask) {
  const ptrdiff_t sizes[ATTENTION_OPERANDS][3] = {
      {c->groups, c->m, c->dv}, {c->groups, c->m, c->d}, {1, c->n, c->d},
      {1, c->n, c->dv}, {c->groups, c->m, c->n}};
  const double head[] = {(double)c->problems, (double)c->groups, (double)c->m, (double)c->n,
                         (double)c->d, (double)c->dv, c->scale, c->causal};
  memcpy(c->numbers, head, sizeof head);
  for (int k = 0; k < ATTENTION_OPERANDS; k++) {
    c->of[k] = (buffer){.dtype = RM_NONE};
    if (k == MASK && mask == RM_NONE) break;
    layout *at = &c->at[k];
    shape(at, 3, sizes[k][0], sizes[k][1], sizes[k][2], 1);
    lay_out(at, 0, (enum kind)below(k == OUT ? OUTPUT_KINDS : KINDS), 3);
    for (ptrdiff_t p = 0; p < c->problems; p++) {
      c->numbers[ATTENTION_NUMBERS + k * c->problems + p] =
          (double)(at->offset[0] + p * at->length[0]);
    }
    for (int i = 0; i < 3; i++) c->numbers[8 + 3 * k + i] = (double)at->stride[0][i];
    c->of[k] = make(k == MASK ? mask : dtype, c->problems * at->length[0],
                    k == OUT ? ANY_BITS : SMALL);
  }
}

static void run_attention(attention_case *c, int dtype, int mask, int threads) {
  snprintf(about, sizeof about, "attention of dtype %d, mask %d, %td x %td heads, %td, %td, %td, %td",
           dtype, mask, c->problems, c->groups, c->m, c->n, c->d, c->dv);
  make_attention(c, dtype, mask);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  buffer *of = c->of;
  if (!is_served(rm_run_many(kernel("attention"), pack(dtype, dtype, dtype, dtype),
                             pack(of[MASK].dtype, RM_NONE, RM_NONE, RM_NONE), dtype, c->numbers,
                             of[OUT].data, of[Q].data, of[K].data, of[V].data, of[MASK].data, NULL,
                             NULL, NULL))) {
    fail("it was not served");
  }
  for (int k = Q; k < ATTENTION_OPERANDS; k++) check_unchanged(&of[k]);
  const bool compares = dtype == RM_FLOAT32 && !is_half(mask);
  for (ptrdiff_t p = 0; compares && p < c->problems; p++) {
    for (ptrdiff_t row = 0; row < c->groups * c->m; row++) {
      check_attention_row(c, p, row / c->m, row % c->m);
    }
  }
  compared += compares;
  if (!keeps_margins(c)) fail("an output was written between elements");
  for (int k = 0; k < ATTENTION_OPERANDS; k++) {
    if (of[k].dtype != RM_NONE) drop(&of[k]);
  }
}

static void try_attention(ptrdiff_t most, ptrdiff_t most_keys, int cases) {
  static const int masks[] = {RM_NONE, RM_BOOL, RM_FLOAT16, RM_BFLOAT16, RM_FLOAT32};
  for (int dtype = RM_FLOAT16; dtype <= RM_FLOAT32; dtype++) {
    for (int i = 0; i < cases; i++) {
      attention_case c = {
          .problems = 1 + below(MOST_PROBLEMS),
          .groups = below(2) ? 1 : 1 + below(4),
          .m = below(2) ? 1 + below(4) : 1 + below(most),
          .n = 1 + below(most_keys),
          .d = 1 + below(most),
          .dv = 1 + below(most),
          .causal = below(2),
      };
      /* Scores up to about 30, so that rounding changes exponentials little. */
      c.scale = 0.02 * (double)below(10) / sqrt((double)c.d);
      run_attention(&c, dtype, masks[below(5)], 1 + (int)below(3));
    }
  }
}

/* ---- sorts ----------------------------------------------------------------------------------- */

/* Whether element i may precede element j, in any dtype: by value, NaN last. */
static bool in_order(int dtype, const void *base, ptrdiff_t i, ptrdiff_t j, bool down,
                     bool *equal) {
  uint64_t key[2];
  for (int side = 0; side < 2; side++) {
    const ptrdiff_t at = side == 0 ? i : j, bytes = rm_itemsize(dtype);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)base + at * bytes, (size_t)bytes);
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "elements are read as if the lowest byte came first"
#endif
    const uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
    static const uint64_t infinity[] = {0x7c00, 0x7f80, 0x7f800000, 0x7ff0000000000000};
    if (dtype >= RM_FLOAT16) {
      const uint64_t magnitude = bits & (sign - 1);
      if (magnitude > infinity[dtype - RM_FLOAT16]) {
        key[side] = UINT64_MAX;
        continue;
      }
      bits = magnitude == 0 ? sign : bits & sign ? sign - magnitude : sign + magnitude;
    } else if (dtype >= RM_INT8 && dtype <= RM_INT64) {
      bits ^= sign;
    }
    key[side] = down ? UINT64_MAX - 1 - bits : bits;
  }
  *equal = key[0] == key[1];
  return key[0] <= key[1];
}

static void run_sort(int dtype, ptrdiff_t count, ptrdiff_t n, bool down, enum content content,
                     int threads) {
  snprintf(about, sizeof about, "sort of dtype %d, %td runs of %td, flags %d", dtype, count, n,
           down);
  const ptrdiff_t offset = below(MARGIN), bytes = rm_itemsize(dtype);
  buffer values = make(dtype, offset + count * n, content);
  buffer indices = make(RM_INT32, count * n, ANY_BITS);
  const double plan[] = {(double)offset, (double)count, (double)n, down};
  attributes numbers = with_attributes(4, plan);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  if (!is_served(rm_run(kernel("argsort"), pack(RM_INT32, dtype, RM_NONE, RM_NONE), RM_INT32,
                        numbers.at, indices.data, values.data, NULL, NULL))) {
    fail("it was not served");
  }
  check_unchanged(&values);
  const int32_t *order = (const int32_t *)indices.data;
  const unsigned char *first = values.data + offset * bytes;
  for (ptrdiff_t r = 0; r < count; r++) {
    unsigned char *seen = calloc((size_t)n, 1);
    if (seen == NULL) fail("no memory");
    for (ptrdiff_t i = 0; i < n; i++) {
      const int32_t at = order[r * n + i];
      if (at < 0 || at >= n || seen[at]++) fail("the order is no permutation");
      bool equal;
      if (i == 0) continue;
      const int32_t last = order[r * n + i - 1];
      if (!in_order(dtype, first + r * n * bytes, last, at, down, &equal) ||
          (equal && last > at)) {
        fail("the order is wrong");
      }
    }
    free(seen);
  }
  /* Sorted values have the same order as the argsort, except for the signs of zeros and the bits of
   * NaN. */
  if (!is_served(rm_run(kernel("sort"), pack(dtype, RM_NONE, RM_NONE, RM_NONE), dtype, numbers.at,
                        values.data, NULL, NULL, NULL))) {
    fail("it was not served");
  }
  const unsigned char *was = values.before + offset * bytes;
  for (ptrdiff_t i = 0; i < count * n; i++) {
    unsigned char pair[16];
    memcpy(pair, first + i * bytes, (size_t)bytes);
    memcpy(pair + bytes, was + (i / n * n + order[i]) * bytes, (size_t)bytes);
    bool equal;
    in_order(dtype, pair, 0, 1, down, &equal);
    if (!equal) fail("the sorted values are others");
  }
  if (memcmp(values.data, values.before, (size_t)(offset * bytes)) != 0) {
    fail("something before the values was written");
  }
  compared++;
  drop(&values);
  drop(&indices);
}

/* Of two elements of a run, whether topk takes the first before the second one. */
static bool is_taken_before(int dtype, const void *run, ptrdiff_t i, ptrdiff_t j, bool largest) {
  bool equal;
  const bool right = largest ? in_order(dtype, run, j, i, false, &equal)
                             : in_order(dtype, run, i, j, false, &equal);
  return equal ? i < j : right;
}

/* Each element that is taken is followed in order by the next one, and no other comes before the
 * last one. */
static void run_topk(int dtype, ptrdiff_t count, ptrdiff_t n, ptrdiff_t k, bool largest,
                     bool sorted, enum content content, int threads) {
  snprintf(about, sizeof about, "topk %td of dtype %d, %td runs of %td, flags %d %d", k, dtype,
           count, n, largest, sorted);
  const ptrdiff_t offset = below(MARGIN), bytes = rm_itemsize(dtype);
  buffer values = make(dtype, offset + count * n, content);
  buffer best = make(dtype, count * k, ANY_BITS), indices = make(RM_INT32, count * k, ANY_BITS);
  const double plan[] = {(double)offset, (double)count, (double)n, (double)k, largest, sorted};
  attributes numbers = with_attributes(6, plan);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  if (!is_served(rm_run(kernel("topk"), pack(dtype, dtype, RM_INT32, RM_NONE), dtype, numbers.at,
                        best.data, values.data, indices.data, NULL))) {
    fail("it was not served");
  }
  check_unchanged(&values);
  const int32_t *order = (const int32_t *)indices.data;
  for (ptrdiff_t r = 0; r < count; r++, order += k) {
    const unsigned char *run = values.data + (offset + r * n) * bytes;
    unsigned char *seen = calloc((size_t)n, 1);
    if (seen == NULL) fail("no memory");
    int32_t worst = order[0];
    for (ptrdiff_t i = 0; i < k; i++) {
      const int32_t at = order[i];
      if (at < 0 || at >= n || seen[at]++) fail("an index is none, or there twice");
      if (memcmp(best.data + (r * k + i) * bytes, run + at * bytes, (size_t)bytes) != 0) {
        fail("a value is not the element at its index");
      }
      if (i == 0) continue;
      const int32_t last = order[i - 1];
      if (!(sorted ? is_taken_before(dtype, run, last, at, largest) : last < at)) {
        fail("the order is wrong");
      }
      if (is_taken_before(dtype, run, worst, at, largest)) worst = at;
    }
    for (ptrdiff_t i = 0; i < n; i++) {
      if (!seen[i] && is_taken_before(dtype, run, i, worst, largest)) {
        fail("a better element was not taken");
      }
    }
    free(seen);
  }
  compared++;
  drop(&values);
  drop(&best);
  drop(&indices);
}

static void try_topk(ptrdiff_t count, ptrdiff_t n, int threads) {
  for (int dtype = RM_BOOL; dtype < RM_DTYPE_COUNT; dtype++) {
    const ptrdiff_t k = 1 + below(n < 100 ? n : 100);
    run_topk(dtype, count, n, k, below(2), below(2), below(2) ? SMALL : ANY_BITS, threads);
  }
}

static void try_sort(ptrdiff_t count, ptrdiff_t n, int threads) {
  for (int dtype = RM_BOOL; dtype < RM_DTYPE_COUNT; dtype++) {
    run_sort(dtype, count, n, below(2), below(2) ? SMALL : ANY_BITS, threads);
  }
}

/* ---- partitions, quantiles, modes ------------------------------------------------------------ */

/* Whether an element is less than another one, equal to it or greater: 0 to 2. */
static int relation(int dtype, const void *run, ptrdiff_t i, ptrdiff_t j) {
  bool equal;
  const bool before = in_order(dtype, run, i, j, false, &equal);
  return equal ? 1 : before ? 0 : 2;
}

/* Elements before one of rank k are not greater, those after it not less, and each class between two
 * ranks keeps its order. */
static void check_partition(int dtype, const void *run, const int32_t *order, ptrdiff_t n,
                            const ptrdiff_t *ranks, int count) {
  unsigned char *seen = calloc((size_t)n, 1);
  if (seen == NULL) fail("no memory");
  int last = 0;
  for (ptrdiff_t i = 0; i < n; i++) {
    if (order[i] < 0 || order[i] >= n || seen[order[i]]++) fail("the order is no permutation");
    int class = 0;
    for (int r = 0; r < count; r++) class += relation(dtype, run, order[i], order[ranks[r]]);
    for (int r = 0; r < count; r++) {
      const int found = relation(dtype, run, order[i], order[ranks[r]]);
      if (i < ranks[r] ? found == 2 : i > ranks[r] && found == 0) fail("the partition is wrong");
    }
    if (i > 0 && (class < last || (class == last && order[i] < order[i - 1]))) {
      fail("the order within a class is wrong");
    }
    last = class;
  }
  free(seen);
}

static void check_mode(int dtype, const void *run, ptrdiff_t n, const void *mode, int32_t count) {
  const ptrdiff_t bytes = rm_itemsize(dtype);
  int32_t most = 0;
  bool found = false;
  for (ptrdiff_t i = 0; i < n; i++) {
    int32_t same = 0;
    for (ptrdiff_t j = 0; j < n; j++) same += relation(dtype, run, i, j) == 1;
    if (same > most) most = same;
    found |= same == count && memcmp((const char *)run + i * bytes, mode, (size_t)bytes) == 0;
  }
  if (!found || count != most) fail("the mode is another one");
}

static void run_selection(int dtype, ptrdiff_t count, ptrdiff_t n, enum content content,
                          int threads) {
  snprintf(about, sizeof about, "selection of dtype %d, %td runs of %td", dtype, count, n);
  const ptrdiff_t offset = below(MARGIN), bytes = rm_itemsize(dtype);
  buffer values = make(dtype, offset + count * n, content);
  buffer indices = make(RM_INT32, count * n, ANY_BITS), parts = make(dtype, count * n, ANY_BITS);
  buffer nearest = make(RM_FLOAT64, count, ANY_BITS), modes = make(dtype, count, ANY_BITS);
  buffer counts = make(RM_INT32, count, ANY_BITS);
  ptrdiff_t ranks[2] = {below(n), below(n)};
  if (ranks[0] > ranks[1]) ranks[0] = ranks[1];
  const int several = ranks[0] < ranks[1] ? 2 : 1;
  double numbers[] = {(double)offset,   (double)count,    (double)n, several,
                      (double)ranks[0], (double)ranks[1]};
  rm_configure(RM_CONFIGURE_THREADS, threads);
  bool served = is_served(rm_run(kernel("argpartition"), pack(RM_INT32, dtype, RM_NONE, RM_NONE),
                                 RM_INT32, numbers, indices.data, values.data, NULL, NULL));
  served &= is_served(rm_run(kernel("partition"), pack(dtype, dtype, RM_NONE, RM_NONE), dtype,
                             numbers, parts.data, values.data, NULL, NULL));
  /* The nearest element, method 5, at the place of the first rank. */
  const double q = n > 1 ? (double)ranks[0] / (double)(n - 1) : 0;
  double quantiles[] = {(double)offset, (double)count, (double)n, 5, 0, 1, q};
  served &= is_served(rm_run(kernel("quantilesOfRows"),
                             pack(RM_FLOAT64, dtype, RM_NONE, RM_NONE), RM_FLOAT64, quantiles,
                             nearest.data, values.data, NULL, NULL));
  served &= is_served(rm_run(kernel("modesOfRows"), pack(dtype, dtype, RM_INT32, RM_NONE), dtype,
                             numbers, modes.data, values.data, counts.data, NULL));
  if (!served) fail("it was not served");
  check_unchanged(&values);
  for (ptrdiff_t r = 0; r < count; r++) {
    const unsigned char *run = values.data + (offset + r * n) * bytes;
    const int32_t *order = (const int32_t *)indices.data + r * n;
    check_partition(dtype, run, order, n, ranks, several);
    bool has_nan = false;
    for (ptrdiff_t i = 0; i < n; i++) {
      has_nan |= isnan(get(dtype, run, i));
      if (memcmp(parts.data + (r * n + i) * bytes, run + order[i] * bytes, (size_t)bytes) != 0) {
        fail("a value is not the element at its index");
      }
    }
    const double found = get(RM_FLOAT64, nearest.data, r);
    /* 16-bit floats are not read here. */
    const bool reads = dtype != RM_FLOAT16 && dtype != RM_BFLOAT16;
    if (reads && (has_nan ? !isnan(found) : found != get(dtype, run, order[ranks[0]]))) {
      fail("the quantile is another one");
    }
    if (n <= 100) {
      check_mode(dtype, run, n, modes.data + r * bytes, ((const int32_t *)counts.data)[r]);
    }
  }
  compared++;
  drop(&values);
  drop(&indices);
  drop(&parts);
  drop(&nearest);
  drop(&modes);
  drop(&counts);
}

static void try_selection(ptrdiff_t count, ptrdiff_t n, int threads) {
  for (int dtype = RM_BOOL; dtype < RM_DTYPE_COUNT; dtype++) {
    run_selection(dtype, count, n, below(2) ? SMALL : ANY_BITS, threads);
  }
}

/* ---- convolutions ---------------------------------------------------------------------------- */

/* A convolution of images of two axes. The bias and the residual are perhaps none. */
typedef struct {
  ptrdiff_t images, groups, channels, rows, size[2], kernel[2], stride[2], padding[2], dilation[2];
  ptrdiff_t out[2];
  buffer of[5];
} conv_case;

enum { CONV_OUT, CONV_X, CONV_WEIGHT, CONV_BIAS, CONV_ADD, CONV_OPERANDS };

static float conv_element(const conv_case *c, ptrdiff_t plane, ptrdiff_t y, ptrdiff_t x) {
  if (y < 0 || x < 0 || y >= c->size[0] || x >= c->size[1]) return 0;
  return ((const float *)c->of[CONV_X].data)[(plane * c->size[0] + y) * c->size[1] + x];
}

/* The sum of an output of a direct convolution, and the sum of the absolute products. */
static double direct_sum(const conv_case *c, ptrdiff_t image, ptrdiff_t row, ptrdiff_t y,
                         ptrdiff_t x, double *all) {
  const float *w = (const float *)c->of[CONV_WEIGHT].data;
  const ptrdiff_t taps = c->kernel[0] * c->kernel[1], group = row / c->rows;
  double sum = *all = 0;
  for (ptrdiff_t k = 0; k < c->channels * taps; k++) {
    const ptrdiff_t ky = k % taps / c->kernel[1], kx = k % c->kernel[1];
    const ptrdiff_t plane = (image * c->groups + group) * c->channels + k / taps;
    const float one = conv_element(c, plane, y * c->stride[0] + ky * c->dilation[0] - c->padding[0],
                                   x * c->stride[1] + kx * c->dilation[1] - c->padding[1]);
    sum += one * w[row * c->channels * taps + k];
    *all += fabs(one * w[row * c->channels * taps + k]);
  }
  return sum;
}

/* The same by Winograd's matrices, of a transformed weight. */
static double winograd_sum(const conv_case *c, ptrdiff_t image, ptrdiff_t row, ptrdiff_t y,
                           ptrdiff_t x, double *all) {
  static const double points[] = {0, 0.75, -0.75, 1.5, -1.5};
  static const double tile[6][6] = {
      {81. / 64, 0, -45. / 16, 0, 1, 0},       {0, -27. / 16, -9. / 4, 3. / 4, 1, 0},
      {0, 27. / 16, -9. / 4, -3. / 4, 1, 0},   {0, -27. / 32, -9. / 16, 3. / 2, 1, 0},
      {0, 27. / 32, -9. / 16, -3. / 2, 1, 0},  {0, 81. / 64, 0, -45. / 16, 0, 1}};
  const float *w = (const float *)c->of[CONV_WEIGHT].data;
  double sum = *all = 0;
  for (int m = 0; m < 36; m++) {
    double factor = 1;
    const ptrdiff_t place[] = {y % 4, x % 4}, side[] = {m / 6, m % 6};
    for (int i = 0; i < 2; i++) {
      factor *= side[i] == 5 ? place[i] == 3 : pow(points[side[i]], (double)place[i]);
    }
    if (factor == 0) continue;
    for (ptrdiff_t channel = 0; channel < c->channels; channel++) {
      double made = 0, most = 0;
      for (int e = 0; e < 36; e++) {
        const double one = conv_element(c, image * c->channels + channel,
                                        y / 4 * 4 + e / 6 - c->padding[0],
                                        x / 4 * 4 + e % 6 - c->padding[1]) *
                           tile[side[0]][e / 6] * tile[side[1]][e % 6];
        made += one;
        most += fabs(one);
      }
      const double by = factor * w[(m * c->rows + row) * c->channels + channel];
      sum += by * made;
      *all += fabs(by) * most;
    }
  }
  return sum;
}

/* Runs the case, by Winograd's matrices if `winograd`, and compares every output. */
static void run_conv(conv_case *c, bool winograd, bool with_bias, bool with_add, int threads) {
  snprintf(about, sizeof about,
           "%s of %td x %td x %td, %td x %td by %td of %td x %td, stride %td, %td, by %td, %td",
           winograd ? "winograd" : "conv", c->images, c->groups, c->channels, c->size[0], c->size[1],
           c->rows, c->kernel[0], c->kernel[1], c->stride[0], c->stride[1], c->dilation[0],
           c->dilation[1]);
  const ptrdiff_t outputs = c->groups * c->rows, pixels = c->out[0] * c->out[1];
  const ptrdiff_t taps = winograd ? 36 : c->kernel[0] * c->kernel[1];
  const ptrdiff_t lengths[CONV_OPERANDS] = {
      c->images * outputs * pixels, c->images * c->groups * c->channels * c->size[0] * c->size[1],
      outputs * c->channels * taps, with_bias ? outputs : 0,
      with_add ? c->images * outputs * pixels : 0};
  void *data[CONV_OPERANDS] = {NULL};
  int next = CONV_BIAS;
  double buffers[2] = {-1, -1};
  for (int i = 0; i < CONV_OPERANDS; i++) {
    if (lengths[i] == 0) continue;
    c->of[i] = make(RM_FLOAT32, lengths[i], i == CONV_OUT ? ANY_BITS : SMALL);
    if (i < CONV_BIAS) {
      data[i] = c->of[i].data;
      continue;
    }
    buffers[i - CONV_BIAS] = next;
    data[next++] = c->of[i].data;
  }
  double numbers[64] = {0}, *to = numbers;
  *to++ = (double)c->images;
  if (!winograd) *to++ = (double)c->groups;
  *to++ = (double)c->channels, *to++ = (double)c->rows, *to++ = RM_ACTIVATION_RELU;
  *to++ = buffers[0], *to++ = buffers[1];
  to += CONV_OPERANDS;
  if (!winograd) {
    const double no_axis[] = {1, 1, 1, 1, 0, 1};
    memcpy(to, no_axis, sizeof no_axis), to += 6;
  }
  for (int i = 0; i < 2; i++) {
    *to++ = (double)c->size[i];
    if (!winograd) *to++ = (double)c->kernel[i];
    *to++ = (double)c->out[i];
    if (!winograd) *to++ = (double)c->stride[i];
    *to++ = (double)c->padding[i];
    *to++ = (double)(winograd ? (c->out[i] + 3) / 4 : c->dilation[i]);
  }
  rm_configure(RM_CONFIGURE_THREADS, threads);
  const int F = RM_FLOAT32;
  if (!is_served(rm_run_many(kernel(winograd ? "winograd" : "conv"),
                             pack(F, F, F, next > 3 ? F : RM_NONE),
                             pack(next > 4 ? F : RM_NONE, RM_NONE, RM_NONE, RM_NONE), F, numbers,
                             data[0], data[1], data[2], data[3], data[4], NULL, NULL, NULL))) {
    fail("it was not served");
  }
  const float *made = (const float *)c->of[CONV_OUT].data;
  for (ptrdiff_t at = 0; at < lengths[CONV_OUT]; at++) {
    const ptrdiff_t image = at / pixels / outputs, row = at / pixels % outputs;
    const ptrdiff_t y = at % pixels / c->out[1], x = at % c->out[1];
    double all;
    double sum = winograd ? winograd_sum(c, image, row, y, x, &all)
                          : direct_sum(c, image, row, y, x, &all);
    if (with_bias) sum += ((const float *)c->of[CONV_BIAS].data)[row];
    if (with_add) sum += ((const float *)c->of[CONV_ADD].data)[at];
    if (fabs(made[at] - (sum > 0 ? sum : 0)) > (winograd ? 2e-6 * (all + 20) : 0)) {
      fail("a result is wrong");
    }
    compared++;
  }
  for (int i = 0; i < CONV_OPERANDS; i++) {
    if (lengths[i] == 0) continue;
    if (i > CONV_OUT) check_unchanged(&c->of[i]);
    drop(&c->of[i]);
  }
}

static void try_conv(ptrdiff_t most, int cases) {
  for (int i = 0; i < cases; i++) {
    const bool winograd = below(3) == 0, depthwise = !winograd && below(3) == 0;
    conv_case c = {.images = 1 + below(2),
                   .groups = winograd ? 1 : depthwise ? 1 + below(9) : 1 + below(2),
                   .channels = depthwise ? 1 : 1 + below(most),
                   .rows = 1 + below(depthwise ? 2 : most)};
    for (int k = 0; k < 2; k++) {
      c.kernel[k] = winograd ? 3 : 1 + below(4);
      c.stride[k] = winograd ? 1 : 1 + below(3);
      c.dilation[k] = winograd ? 1 : 1 + below(2);
      c.padding[k] = below(3);
      const ptrdiff_t window = (c.kernel[k] - 1) * c.dilation[k] + 1;
      const ptrdiff_t least = window > 2 * c.padding[k] ? window - 2 * c.padding[k] : 1;
      c.size[k] = least + below(most);
      c.out[k] = (c.size[k] + 2 * c.padding[k] - window) / c.stride[k] + 1;
    }
    run_conv(&c, winograd, below(2), below(2), 1 + (int)below(3));
  }
}

/* ---- quantized weights ----------------------------------------------------------------------- */

/* A format: its number, and the elements and bytes of a block, with float16 at `scales`. */
typedef struct {
  int number, size, bytes, scales[2];
} block_format;

static const block_format block_formats[] = {
    {2, 32, 18, {0, 0}},    {3, 32, 20, {0, 2}},    {6, 32, 22, {0, 0}},
    {7, 32, 24, {0, 2}},    {8, 32, 34, {0, 0}},    {12, 256, 144, {0, 2}},
    {13, 256, 176, {0, 2}}, {14, 256, 210, {208, 208}}, {20, 32, 18, {0, 0}}};

/* Random blocks whose scales are from 2^-14 to 1. */
static buffer make_blocks(const block_format *format, ptrdiff_t blocks) {
  buffer made = make(RM_UINT8, blocks * format->bytes, ANY_BITS);
  for (ptrdiff_t i = 0; i < blocks; i++) {
    for (int k = 0; k < 2; k++) {
      unsigned char *at = made.data + i * format->bytes + format->scales[k];
      at[1] = (unsigned char)((at[1] & 0x80) | (4 + below(56)));
    }
  }
  memcpy(made.before, made.data, made.bytes);
  return made;
}

/* The groups of rows of blocks, from which the rows are made again. */
static buffer make_groups(const block_format *format, const buffer *w, ptrdiff_t rows,
                          ptrdiff_t blocks) {
  buffer groups = make(RM_UINT8, (rows + 15) / 16 * 16 * blocks * format->bytes, ANY_BITS);
  buffer again = make(RM_UINT8, rows * blocks * format->bytes, ANY_BITS);
  double numbers[] = {format->number, (double)rows, (double)blocks, 0, 0, 0};
  const int32_t dtypes = pack(RM_UINT8, RM_UINT8, RM_NONE, RM_NONE);
  if (!is_served(rm_run(kernel("packBlocks"), dtypes, RM_UINT8, numbers, groups.data, w->data,
                        NULL, NULL))) {
    fail("it was not packed");
  }
  memcpy(groups.before, groups.data, groups.bytes);
  numbers[5] = 1;
  if (!is_served(rm_run(kernel("packBlocks"), dtypes, RM_UINT8, numbers, again.data, groups.data,
                        NULL, NULL))) {
    fail("it was not unpacked");
  }
  if (memcmp(again.data, w->data, w->bytes) != 0) fail("rows have changed in groups");
  drop(&again);
  return groups;
}

/* A product with a quantized weight against that of rows in 8 bits with its float32. */
static void run_quantized(const block_format *format, ptrdiff_t rows, ptrdiff_t columns,
                          ptrdiff_t blocks, bool with_bias, int threads) {
  const ptrdiff_t depth = blocks * format->size, stride = depth + below(3);
  snprintf(about, sizeof about, "blocks of format %d, %td rows of %td by %td", format->number, rows,
           depth, columns);
  buffer w = make_blocks(format, columns * blocks);
  buffer x = make(RM_FLOAT32, (rows - 1) * stride + depth, SMALL);
  buffer plain = make(RM_FLOAT32, columns * depth, ANY_BITS);
  buffer out = make(RM_FLOAT32, rows * columns, ANY_BITS), bias = make(RM_FLOAT32, columns, SMALL);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  const double all[] = {format->number, (double)(columns * blocks), 0, 0};
  if (!is_served(rm_run(kernel("dequantizeBlocks"), pack(RM_FLOAT32, RM_UINT8, RM_NONE, RM_NONE),
                        RM_FLOAT32, all, plain.data, w.data, NULL, NULL))) {
    fail("it was not dequantized");
  }
  double numbers[] = {(double)rows, (double)columns, (double)depth, RM_ACTIVATION_NONE, 0,
                      (double)columns, 0, (double)stride, with_bias ? 3 : -1, 0, -1, 0, 0,
                      format->number, 0, 0};
  if (!is_served(rm_run(kernel("linearQuantized"),
                        pack(RM_FLOAT32, RM_FLOAT32, RM_UINT8, with_bias ? RM_FLOAT32 : RM_NONE),
                        RM_FLOAT32, numbers, out.data, x.data, w.data,
                        with_bias ? bias.data : NULL))) {
    fail("it was not served");
  }
  buffer groups = make_groups(format, &w, columns, blocks);
  buffer same = make(RM_FLOAT32, rows * columns, ANY_BITS);
  numbers[15] = 1;
  if (!is_served(rm_run(kernel("linearQuantized"),
                        pack(RM_FLOAT32, RM_FLOAT32, RM_UINT8, with_bias ? RM_FLOAT32 : RM_NONE),
                        RM_FLOAT32, numbers, same.data, x.data, groups.data,
                        with_bias ? bias.data : NULL))) {
    fail("it was not served with a packed weight");
  }
  if (memcmp(out.data, same.data, out.bytes) != 0) fail("a packed weight gives something else");
  const float *left = (const float *)x.data, *right = (const float *)plain.data;
  for (ptrdiff_t at = 0; at < rows * columns; at++) {
    double sum = with_bias ? ((const float *)bias.data)[at % columns] : 0, most = 0;
    for (ptrdiff_t p = 0; p < depth; p += 32) {
      float size = 0;
      for (int i = 0; i < 32; i++) {
        const float one = fabsf(left[at / columns * stride + p + i]);
        if (one > size) size = one;
      }
      const float d = size / 127, inverse = d == 0 ? 0 : 1 / d;
      for (int i = 0; i < 32; i++) {
        const double rounded = d * rintf(left[at / columns * stride + p + i] * inverse);
        sum += rounded * right[at % columns * depth + p + i];
        most += fabs(rounded * right[at % columns * depth + p + i]);
      }
    }
    /* Shifts are added apart. */
    if (!(fabs(((const float *)out.data)[at] - sum) <= 1e-4 * (most + 1))) fail("a result is wrong");
    compared++;
  }
  check_unchanged(&w);
  check_unchanged(&x);
  check_unchanged(&bias);
  check_unchanged(&groups);
  drop(&w), drop(&x), drop(&plain), drop(&out), drop(&bias), drop(&groups), drop(&same);
}

/* Blocks of floats: their numbers are within a step of the floats, and blocks that are not finite NaN. */
static void run_quantize(const block_format *format, int steps, ptrdiff_t blocks, bool any,
                         int threads) {
  snprintf(about, sizeof about, "%td blocks of format %d", blocks, format->number);
  const ptrdiff_t count = blocks * format->size;
  buffer x = make(RM_FLOAT32, count, any ? ANY_BITS : SMALL);
  buffer made = make(RM_UINT8, blocks * format->bytes, ANY_BITS);
  buffer plain = make(RM_FLOAT32, count, ANY_BITS);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  const double numbers[] = {format->number, (double)blocks, 0, 0};
  if (!is_served(rm_run(kernel("quantize"), pack(RM_UINT8, RM_FLOAT32, RM_NONE, RM_NONE), RM_UINT8,
                        numbers, made.data, x.data, NULL, NULL)) ||
      !is_served(rm_run(kernel("dequantizeBlocks"), pack(RM_FLOAT32, RM_UINT8, RM_NONE, RM_NONE),
                        RM_FLOAT32, numbers, plain.data, made.data, NULL, NULL))) {
    fail("it was not served");
  }
  for (ptrdiff_t block = 0; block < count; block += format->size) {
    const float *from = (const float *)x.data + block, *back = (const float *)plain.data + block;
    float most = 0;
    bool finite = true;
    for (int i = 0; i < format->size; i++) {
      finite = finite && isfinite(from[i]);
      if (fabsf(from[i]) > most) most = fabsf(from[i]);
    }
    /* float16 has no larger scales. */
    if (finite && most > 65504.0f * (float)steps) continue;
    for (int i = 0; i < format->size; i++) {
      const bool near = fabsf(back[i] - from[i]) <= 1.01f * most / (float)steps + 1e-5f;
      if (finite ? !near : !isnan(back[i])) fail("a number is wrong");
      compared++;
    }
  }
  check_unchanged(&x);
  drop(&x), drop(&made), drop(&plain);
}

/* A product with a weight of int8: exact sums of rounded numbers, times the scales. */
static void run_int8(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, int threads) {
  const ptrdiff_t stride = depth + below(3), words = (depth + 3) / 4;
  const ptrdiff_t group = 64 * (1 + words);
  snprintf(about, sizeof about, "int8, %td rows of %td by %td", rows, depth, columns);
  buffer w = make(RM_FLOAT32, columns * depth, SMALL);
  buffer x = make(RM_FLOAT32, (rows - 1) * stride + depth, SMALL);
  buffer packed = make(RM_INT8, (columns + 15) / 16 * group, ANY_BITS);
  buffer out = make(RM_FLOAT32, rows * columns, ANY_BITS);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  double sizes[] = {(double)columns, (double)depth, 0, 0};
  if (!is_served(rm_run(kernel("quantizeInt8"), pack(RM_INT8, RM_FLOAT32, RM_NONE, RM_NONE),
                        RM_INT8, sizes, packed.data, w.data, NULL, NULL))) {
    fail("it was not quantized");
  }
  memcpy(packed.before, packed.data, packed.bytes);
  double numbers[] = {(double)rows, (double)columns, (double)depth, RM_ACTIVATION_NONE, 0,
                      (double)columns, 0, (double)stride, -1, 0, -1, 0, 0};
  if (!is_served(rm_run(kernel("linearInt8"), pack(RM_FLOAT32, RM_FLOAT32, RM_INT8, RM_NONE),
                        RM_FLOAT32, numbers, out.data, x.data, packed.data, NULL))) {
    fail("it was not served");
  }
  const float *left = (const float *)x.data, *right = (const float *)w.data;
  for (ptrdiff_t at = 0; at < rows * columns; at++) {
    const float *a = left + at / columns * stride, *b = right + at % columns * depth;
    const unsigned char *own = packed.data + at % columns / 16 * group + at % columns % 16 * 4;
    float scale;
    memcpy(&scale, own, sizeof scale);
    float most[2] = {0, 0};
    for (ptrdiff_t i = 0; i < depth; i++) {
      most[0] = fmaxf(most[0], fabsf(a[i])), most[1] = fmaxf(most[1], fabsf(b[i]));
    }
    if (scale != most[1] / 127) fail("a scale is wrong");
    const float d = most[0] / 127, inverse = d == 0 ? 0 : 1 / d;
    double sum = 0, all = 0;
    for (ptrdiff_t i = 0; i < depth; i++) {
      const int q = (signed char)own[64 + i / 4 * 64 + i % 4];
      if (fabs((double)b[i] - (double)q * scale) > 0.501 * scale) fail("a byte is wrong");
      sum += (double)rintf(a[i] * inverse) * q;
      all += fabs((double)rintf(a[i] * inverse) * q);
    }
    const double by = (double)d * scale;
    if (!(fabs(((const float *)out.data)[at] - sum * by) <= 1e-6 * (all + 1) * by)) {
      fail("a result is wrong");
    }
    compared++;
  }
  check_unchanged(&w), check_unchanged(&x), check_unchanged(&packed);
  drop(&w), drop(&x), drop(&packed), drop(&out);
}

/* The int32 product of int8 matrices. */
static void run_matmul_int8(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, int threads) {
  snprintf(about, sizeof about, "int8, [%td, %td] by [%td, %td]", m, k, k, n);
  buffer a = make(RM_INT8, m * k, ANY_BITS), b = make(RM_INT8, k * n, ANY_BITS);
  buffer out = make(RM_INT32, m * n, ANY_BITS);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  double numbers[] = {(double)m, (double)n, (double)k, 0, 0, 0};
  if (!is_served(rm_run(kernel("matmulInt8"), pack(RM_INT32, RM_INT8, RM_INT8, RM_NONE), RM_INT32,
                        numbers, out.data, a.data, b.data, NULL))) {
    fail("it was not served");
  }
  for (ptrdiff_t at = 0; at < m * n; at++) {
    int32_t sum = 0;
    for (ptrdiff_t i = 0; i < k; i++) {
      sum += (int)(signed char)a.data[at / n * k + i] * (signed char)b.data[i * n + at % n];
    }
    if (((const int32_t *)out.data)[at] != sum) fail("a result is wrong");
    compared++;
  }
  check_unchanged(&a), check_unchanged(&b);
  drop(&a), drop(&b), drop(&out);
}

static void try_quantized(ptrdiff_t most, int cases) {
  for (int i = 0; i < 3 * cases; i++) {
    run_matmul_int8(1 + below(i % 4 == 0 ? 70 : 9), 1 + below(most),
                    1 + below(i % 5 == 0 ? 1500 : 70), 1 + (int)below(3));
  }
  for (int i = 0; i < 3 * cases; i++) {
    run_int8(1 + below(i % 4 == 0 ? 70 : 9), 1 + below(most), 1 + below(i % 5 == 0 ? 1500 : 70),
             1 + (int)below(3));
  }
  for (int i = 0; i < cases; i++) {
    run_quantize(&block_formats[0], 8, 1 + below(20 * most), below(2), 1 + (int)below(3));
    run_quantize(&block_formats[4], 127, 1 + below(20 * most), below(2), 1 + (int)below(3));
  }
  for (size_t k = 0; k < sizeof block_formats / sizeof *block_formats; k++) {
    for (int i = 0; i < cases; i++) {
      const block_format *format = &block_formats[k];
      run_quantized(format, 1 + below(i % 4 == 0 ? 70 : 9), 1 + below(most), 1 + below(1 + 256 / format->size),
                    below(2), 1 + (int)below(3));
    }
  }
}

/* ---- attention to a cache, rotary positions -------------------------------------------------- */

/* Keys (0) and values (1) of a cache, and how many of the keys count for each sequence. */
typedef struct {
  attention_case own;
  ptrdiff_t capacity, per_length, lengths;
  ptrdiff_t row[2], size[2], columns[2];
  buffer of[2], length;
} cache_case;

/* Element `column` of a row of the cache of a problem. */
static double cached_element(const cache_case *c, int k, ptrdiff_t problem, ptrdiff_t row,
                             ptrdiff_t column) {
  const buffer *of = &c->of[k];
  const ptrdiff_t at = problem * c->size[k] + row * c->row[k];
  if (of->dtype != RM_UINT8) return get(of->dtype, of->data, at + column);
  const unsigned char *block = (const unsigned char *)of->data + at + column / 32 * 34;
  /* A float16 that is neither subnormal nor infinite. */
  const int bits = block[0] | block[1] << 8;
  const double scale = ldexp(1024 + (bits & 1023), (bits >> 10 & 31) - 25);
  return (bits & 0x8000 ? -scale : scale) * (signed char)block[2 + column % 32];
}

/* The keys of the cache that count for a problem, and the new ones that a row sees. */
static void check_cached_row(const cache_case *c, ptrdiff_t problem, ptrdiff_t group,
                             ptrdiff_t row) {
  const attention_case *own = &c->own;
  double scores[1024], total = 0, max = -INFINITY;
  const int32_t given = ((const int32_t *)c->length.data)[problem / c->per_length];
  const ptrdiff_t before = given < 0 ? 0 : given > c->capacity ? c->capacity : given;
  const ptrdiff_t n = before + row + 1;
  for (ptrdiff_t j = 0; j < n; j++) {
    double sum = 0;
    for (ptrdiff_t i = 0; i < own->d; i++) {
      const double key = j < before ? cached_element(c, 0, problem, j, i)
                                    : head_element(own, K, problem, 0, j - before, i);
      sum += head_element(own, Q, problem, group, row, i) * key;
    }
    scores[j] = sum * own->scale;
    if (scores[j] > max) max = scores[j];
  }
  for (ptrdiff_t j = 0; j < n; j++) total += exp(scores[j] - max);
  for (ptrdiff_t i = 0; i < own->dv; i++) {
    double sum = 0, largest = 1;
    for (ptrdiff_t j = 0; j < n; j++) {
      const double value = j < before ? cached_element(c, 1, problem, j, i)
                                      : head_element(own, V, problem, 0, j - before, i);
      sum += exp(scores[j] - max) / total * value;
      largest = fmax(largest, fabs(value));
    }
    const double made = head_element(own, OUT, problem, group, row, i);
    if (!(fabs(made - sum) < 1e-4 * largest)) fail("a result is wrong");
  }
}

/* Makes the cache and its numbers. */
static void make_cache(cache_case *c, int dtype) {
  attention_case *own = &c->own;
  double *numbers = own->numbers + ATTENTION_NUMBERS + ATTENTION_OPERANDS * own->problems;
  for (int k = 0; k < 2; k++) {
    const ptrdiff_t columns = k == 0 ? own->d : own->dv;
    if (dtype == RM_UINT8) {
      c->row[k] = columns / 32 * 34;
      c->of[k] = make_blocks(&block_formats[4], own->problems * c->capacity * columns / 32);
    } else {
      c->row[k] = columns;
      c->of[k] = make(dtype, own->problems * c->capacity * columns, SMALL);
    }
    c->size[k] = c->capacity * c->row[k];
    for (ptrdiff_t p = 0; p < own->problems; p++) {
      numbers[CACHE_NUMBERS + k * own->problems + p] = (double)(p * c->size[k]);
    }
  }
  /* The first ones are of another tensor. */
  const ptrdiff_t offset = below(3);
  c->length = make(RM_INT32, offset + c->lengths, ANY_BITS);
  int32_t *lengths = (int32_t *)c->length.data + offset;
  for (ptrdiff_t i = 0; i < c->lengths; i++) {
    const int32_t chosen[] = {0, -1, INT32_MIN, INT32_MAX, (int32_t)c->capacity,
                              (int32_t)c->capacity + 1};
    lengths[i] = below(2) ? chosen[below(6)] : (int32_t)below(c->capacity + 1);
  }
  memcpy(c->length.before, c->length.data, c->length.bytes);
  const double head[] = {(double)c->row[0], (double)c->row[1], (double)c->capacity,
                         (double)c->per_length, (double)offset};
  memcpy(numbers, head, sizeof head);
}

static void run_cached_attention(cache_case *c, int dtype, int cached, int threads) {
  attention_case *own = &c->own;
  snprintf(about, sizeof about,
           "cached attention of dtypes %d and %d, %td x %td heads, %td, %td, %td, %td", dtype, cached,
           own->problems, own->groups, own->m, c->capacity, own->d, own->dv);
  make_attention(own, dtype, RM_NONE);
  make_cache(c, cached);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  buffer *of = own->of;
  const double offset = own->numbers[ATTENTION_NUMBERS + ATTENTION_OPERANDS * own->problems + 4];
  if (!is_served(rm_run_many(kernel("cachedAttention"), pack(dtype, dtype, dtype, dtype),
                             pack(cached, cached, RM_INT32, RM_NONE), dtype, own->numbers,
                             of[OUT].data, of[Q].data, of[K].data, of[V].data, c->of[0].data,
                             c->of[1].data, c->length.data, NULL))) {
    fail("it was not served");
  }
  for (int k = Q; k <= V; k++) check_unchanged(&of[k]);
  for (int k = 0; k < 2; k++) check_unchanged(&c->of[k]);
  check_unchanged(&c->length);
  /* 16-bit floats of the cache are random bits. */
  const bool compares = dtype == RM_FLOAT32 && !is_half(cached);
  buffer whole = c->length;
  c->length.data = whole.data + (size_t)offset * sizeof(int32_t);
  for (ptrdiff_t p = 0; compares && p < own->problems; p++) {
    for (ptrdiff_t row = 0; row < own->groups * own->m; row++) {
      check_cached_row(c, p, row / own->m, row % own->m);
    }
  }
  compared += compares;
  if (!keeps_margins(own)) fail("an output was written between elements");
  for (int k = OUT; k <= V; k++) drop(&of[k]);
  for (int k = 0; k < 2; k++) drop(&c->of[k]);
  drop(&whole);
}

static void try_cached_attention(ptrdiff_t most, ptrdiff_t most_keys, int cases) {
  static const int caches[] = {RM_FLOAT16, RM_BFLOAT16, RM_FLOAT32, RM_UINT8};
  for (int dtype = RM_FLOAT16; dtype <= RM_FLOAT32; dtype++) {
    for (int i = 0; i < cases; i++) {
      const int cached = caches[below(4)];
      const ptrdiff_t step = cached == RM_UINT8 ? 32 : 1;
      cache_case c = {.capacity = 1 + below(most_keys), .lengths = 1 + below(2)};
      c.per_length = 1 + below(2);
      const ptrdiff_t m = below(2) ? 1 + below(4) : 1 + below(most);
      c.own = (attention_case){
          .problems = c.lengths * c.per_length,
          .groups = below(2) ? 1 : 1 + below(4),
          .m = m,
          .n = m,
          .d = step * (1 + below(most / step)),
          .dv = step * (1 + below(most / step)),
          .causal = true,
      };
      c.own.scale = 0.02 * (double)below(10) / sqrt((double)c.own.d);
      /* Numbers of blocks are up to 16 times as large as others. */
      if (cached == RM_UINT8) c.own.scale /= 16;
      run_cached_attention(&c, dtype, cached, 1 + (int)below(3));
    }
  }
}

static void run_rope(ptrdiff_t matrices, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t pairs,
                     bool interleaved, int threads) {
  snprintf(about, sizeof about, "rope of %td x [%td, %td], %td pairs", matrices, rows, columns, pairs);
  /* Rows before matrices, or after them, with gaps. */
  const bool swapped = below(2);
  const ptrdiff_t gap = columns + below(3);
  const ptrdiff_t row_stride = swapped ? gap * matrices : gap;
  const ptrdiff_t outer_stride = swapped ? gap : gap * rows;
  const ptrdiff_t x0 = below(4), out0 = below(4), cos0 = below(4), sin0 = below(4);
  buffer x = make(RM_FLOAT32, x0 + (matrices * rows - 1) * gap + columns, SMALL);
  buffer cosines = make(RM_FLOAT32, cos0 + rows * pairs, SMALL);
  buffer sines = make(RM_FLOAT32, sin0 + rows * pairs, SMALL);
  buffer out = make(RM_FLOAT32, out0 + matrices * rows * columns, ANY_BITS);
  double numbers[] = {(double)matrices, (double)rows, (double)columns, (double)pairs, interleaved,
                      (double)outer_stride, (double)row_stride, (double)out0, (double)x0,
                      (double)cos0, (double)sin0};
  rm_configure(RM_CONFIGURE_THREADS, threads);
  if (!is_served(rm_run(kernel("rope"), pack(RM_FLOAT32, RM_FLOAT32, RM_FLOAT32, RM_FLOAT32),
                        RM_FLOAT32, numbers, out.data, x.data, cosines.data, sines.data))) {
    fail("it was not served");
  }
  check_unchanged(&x);
  check_unchanged(&cosines);
  check_unchanged(&sines);
  const float *from = (const float *)x.data + x0, *made = (const float *)out.data + out0;
  for (ptrdiff_t i = 0; i < matrices * rows; i++) {
    const ptrdiff_t row = i % rows, at = i / rows * outer_stride + row * row_stride;
    for (ptrdiff_t j = 0; j < columns; j++) {
      float wanted = from[at + j];
      if (j < 2 * pairs) {
        const ptrdiff_t pair = interleaved ? j / 2 : j % pairs;
        const bool second = interleaved ? j % 2 : j >= pairs;
        const ptrdiff_t other = interleaved ? j ^ 1 : second ? j - pairs : j + pairs;
        const float c = ((const float *)cosines.data)[cos0 + row * pairs + pair];
        const float s = ((const float *)sines.data)[sin0 + row * pairs + pair];
        wanted = wanted * c + (second ? 1 : -1) * from[at + other] * s;
      }
      /* Products and sums of small integers are exact. */
      if (made[i * columns + j] != wanted) fail("a column is wrong");
    }
  }
  if (memcmp(out.data, out.before, (size_t)out0 * sizeof(float)) != 0) fail("it wrote before the result");
  compared++;
  drop(&x);
  drop(&cosines);
  drop(&sines);
  drop(&out);
}

static void try_rope(ptrdiff_t most, int cases) {
  for (int i = 0; i < cases; i++) {
    const ptrdiff_t columns = 2 + below(most);
    run_rope(1 + below(5), 1 + below(most), columns, 1 + below(columns / 2), below(2),
             1 + (int)below(3));
  }
}

/* ---- moves ----------------------------------------------------------------------------------- */

/* An index dtype. */
static int index_dtype(void) { return RM_INT8 + (int)below(RM_UINT64); }

/* A packed weight times rows, with relu and a residual, of small integers: exact sums. The residual
 * has a buffer of its own, or is the output, and there is a bias too. */
static void run_packed(int weight, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, bool in_place,
                       int threads) {
  enum { WIDTH = 32 };
  snprintf(about, sizeof about, "a packed weight of dtype %d, %td rows of %td by %td", weight, rows,
           depth, columns);
  const ptrdiff_t panels = (columns + WIDTH - 1) / WIDTH, stride = depth + below(3);
  const ptrdiff_t length = (rows - 1) * stride + depth;
  buffer out = make(RM_FLOAT32, rows * columns, SMALL), x = make(RM_FLOAT32, length, SMALL);
  buffer bias = make(RM_FLOAT32, columns, SMALL), add = make(RM_FLOAT32, rows * columns, SMALL);
  buffer w = make(weight, panels * depth * WIDTH, SMALL);
  if (weight == RM_BFLOAT16) {
    /* The upper halves of small float32. */
    for (ptrdiff_t i = 0; i < panels * depth * WIDTH; i++) {
      const float value = (float)(below(16) - 8);
      memcpy((uint16_t *)w.data + i, (const uint16_t *)&value + 1, sizeof(uint16_t));
    }
    memcpy(w.before, w.data, w.bytes);
  }
  const float *to = (const float *)out.data, *from = (const float *)x.data;
  double numbers[] = {(double)rows, (double)columns, (double)depth, RM_ACTIVATION_RELU, 0,
                      (double)columns, 0, (double)stride, in_place ? 3 : -1, 0,
                      in_place ? 0 : 3, 0, (double)columns};
  rm_configure(RM_CONFIGURE_THREADS, threads);
  if (!is_served(rm_run(kernel("linearPacked"), pack(RM_FLOAT32, RM_FLOAT32, weight, RM_FLOAT32),
                        RM_FLOAT32, numbers, out.data, x.data, w.data,
                        in_place ? bias.data : add.data))) {
    fail("it was not served");
  }
  const float *residual = (const float *)(in_place ? out.before : add.data);
  for (ptrdiff_t i = 0; i < rows; i++) {
    for (ptrdiff_t j = 0; j < columns; j++) {
      float sum = in_place ? ((const float *)bias.data)[j] : 0;
      for (ptrdiff_t p = 0; p < depth; p++) {
        const ptrdiff_t row = (j / WIDTH * depth + p) * WIDTH, q = j % WIDTH;
        float value = 0;
        if (weight == RM_FLOAT32) value = ((const float *)w.data)[row + q];
        else memcpy((uint16_t *)&value + 1, (uint16_t *)w.data + row + 2 * (q % 16) + q / 16, 2);
        sum += from[i * stride + p] * value;
      }
      const float expected = (sum > 0 ? sum : 0) + residual[i * columns + j];
      if (to[i * columns + j] != expected) fail("a result is wrong");
      compared++;
    }
  }
  check_unchanged(&x);
  check_unchanged(&w);
  check_unchanged(&bias);
  check_unchanged(&add);
  drop(&out);
  drop(&x);
  drop(&w);
  drop(&bias);
  drop(&add);
}

static void try_packed(ptrdiff_t rows, ptrdiff_t depth, int threads) {
  run_packed(RM_FLOAT32, rows, 1 + below(100), depth, below(2), threads);
  run_packed(RM_BFLOAT16, rows, 1 + below(100), depth, below(2), threads);
}

/* A random index in [0, size), possibly negative if the dtype allows it. */
static int64_t any_index(int dtype, ptrdiff_t size) {
  const ptrdiff_t one = below(size);
  return dtype >= RM_INT8 && dtype <= RM_INT64 && below(2) ? one - size : one;
}

/* Gathers, scatters or adds blocks of up to two axes and compares every element. */
static void run_blocks(int what, int dtype, int by, ptrdiff_t count, int rank, ptrdiff_t x,
                       ptrdiff_t y, int threads) {
  const bool scatter = what != RM_OP_gather, add = what == RM_OP_scatterAdd;
  snprintf(about, sizeof about, "move %d of dtype %d by %d, %td blocks [%td, %td] of rank %d",
           what, dtype, by, count, x, y, rank);
  /* One operand advances block by block, the other one by indices. */
  const int block_operand = scatter ? 1 : 0, indexed_operand = 1 - block_operand;
  const ptrdiff_t bytes = rm_itemsize(dtype), size = 1 + below(9);
  layout p;
  shape(&p, rank, x, y, 1, 2);
  lay_out(&p, block_operand, rank == 2 && below(2) ? COLUMNS : CONTIGUOUS, rank);
  lay_out(&p, indexed_operand, (enum kind)below(scatter ? OUTPUT_KINDS : KINDS), rank);
  const ptrdiff_t step = x * (rank == 2 ? y : 1);
  /* Scattered blocks are disjoint or identical. */
  const ptrdiff_t distance = scatter ? p.length[indexed_operand] : 1, room = (size - 1) * distance;
  const ptrdiff_t stride = below(2) ? -distance : distance;
  const enum content content = add ? SMALL : ANY_BITS;
  buffer to = make(dtype, p.length[0] + (scatter ? room : (count - 1) * step), content);
  buffer from = make(dtype, p.length[1] + (scatter ? (count - 1) * step : room), content);
  if (stride < 0) p.offset[indexed_operand] += room;
  const ptrdiff_t first = below(MARGIN);
  buffer indices = make(by, first + count, ANY_BITS);
  for (ptrdiff_t i = 0; i < count; i++) put(by, indices.data, first + i, any_index(by, size));
  memcpy(indices.before, indices.data, indices.bytes);
  double *plan = write_plan(&p), *numbers = plan + RM_ATTRIBUTES;
  const double own[] = {(double)first, (double)count, (double)size, (double)stride, (double)step};
  memcpy(numbers, own, sizeof own);
  const int32_t dtypes = pack(dtype, dtype, by, RM_NONE);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  if (!is_served(rm_run(what, dtypes, dtype, plan, to.data, from.data, indices.data, NULL))) {
    fail("it was not served");
  }
  if (numbers[0] != -1) fail("an index was refused");
  check_unchanged(&from);
  check_unchanged(&indices);
  for (ptrdiff_t i = 0; i < count; i++) {
    const ptrdiff_t index = (ptrdiff_t)get(by, indices.data, first + i);
    const ptrdiff_t at = (index < 0 ? index + size : index) * stride;
    ptrdiff_t element[MAX_AXES] = {0};
    do {
      const ptrdiff_t t = place(&p, 0, element) + (scatter ? at : i * step);
      const ptrdiff_t f = place(&p, 1, element) + (scatter ? i * step : at);
      if (!add) {
        memcpy(to.before + t * bytes, from.data + f * bytes, (size_t)bytes);
      } else if (is_half(dtype)) {
        /* Other tests check the sums. */
        memcpy(to.before + t * bytes, to.data + t * bytes, (size_t)bytes);
      } else {
        const double sum = get(dtype, to.before, t) + get(dtype, from.data, f);
        put(dtype, to.before, t, (int64_t)sum);
      }
    } while (next(&p, rank, element));
  }
  if (memcmp(to.data, to.before, to.bytes) != 0) fail("the moved elements are others");
  /* An index out of range is reported before anything is written. */
  put(by, indices.data, first + count - 1, by <= RM_INT64 && below(2) ? -size - 1 : size);
  numbers[0] = (double)first;
  if (!is_served(rm_run(what, dtypes, dtype, plan, to.data, from.data, indices.data, NULL)) ||
      numbers[0] != (double)(count - 1)) {
    fail("the index out of range is another one");
  }
  if (memcmp(to.data, to.before, to.bytes) != 0) fail("a refused move has written something");
  compared++;
  drop(&to);
  drop(&from);
  drop(&indices);
}

static void run_positions(int dtype, bool wide, int rank, ptrdiff_t x, ptrdiff_t y, bool bad) {
  const ptrdiff_t size = 7, stride = 3, n = rank == 0 ? 1 : rank == 1 ? x : x * y;
  snprintf(about, sizeof about, "positions by dtype %d, [%td, %td] of rank %d", dtype, x, y, rank);
  layout p;
  shape(&p, rank, x, y, 1, 2);
  lay_out(&p, 0, CONTIGUOUS, rank);
  lay_out(&p, 1, (enum kind)below(KINDS), rank);
  buffer to = make(wide ? RM_INT64 : RM_INT32, p.length[0], SMALL);
  buffer index = make(dtype, p.length[1], SMALL);
  const ptrdiff_t length = p.length[1];
  for (ptrdiff_t i = 0; i < length; i++) put(dtype, index.data, i, any_index(dtype, size));
  ptrdiff_t wrong = -1;
  if (bad) put(dtype, index.data, below(length), dtype <= RM_INT64 && below(2) ? -size - 1 : size);
  memcpy(index.before, index.data, index.bytes);
  double *plan = write_plan(&p), *numbers = plan + RM_ATTRIBUTES;
  numbers[0] = (double)size;
  numbers[1] = (double)stride;
  if (!is_served(rm_run(kernel("ravelIndex"), pack(to.dtype, dtype, RM_NONE, RM_NONE), to.dtype,
                        plan, to.data, index.data, NULL, NULL))) {
    fail("it was not served");
  }
  check_unchanged(&index);
  ptrdiff_t at[MAX_AXES] = {0}, walked = 0;
  do {
    const int64_t one = (int64_t)get(dtype, index.data, place(&p, 1, at));
    if (one < -size || one >= size) {
      wrong = walked;
      break;
    }
    const ptrdiff_t t = place(&p, 0, at);
    put(to.dtype, to.before, t,
        (int64_t)get(to.dtype, to.before, t) + (one < 0 ? one + size : one) * stride);
    walked++;
  } while (next(&p, rank, at) && walked < n);
  if (numbers[0] != (double)wrong) fail("the place of the first wrong index is another one");
  if (wrong < 0 && memcmp(to.data, to.before, to.bytes) != 0) fail("the positions are others");
  compared++;
  drop(&to);
  drop(&index);
}

static void run_take_along(int dtype, int by, int rank, ptrdiff_t x, ptrdiff_t y, bool bad) {
  const ptrdiff_t size = 7, stride = 3, n = rank == 0 ? 1 : rank == 1 ? x : x * y;
  const ptrdiff_t bytes = rm_itemsize(dtype);
  snprintf(about, sizeof about, "dtype %d taken by dtype %d, [%td, %td] of rank %d", dtype, by, x,
           y, rank);
  layout p;
  shape(&p, rank, x, y, 1, 3);
  lay_out(&p, 0, CONTIGUOUS, rank);
  for (int k = 1; k < 3; k++) lay_out(&p, k, (enum kind)below(KINDS), rank);
  buffer to = make(dtype, p.length[0], SMALL);
  buffer from = make(dtype, p.length[1] + (size - 1) * stride, SMALL);
  buffer index = make(by, p.length[2], SMALL);
  const ptrdiff_t length = p.length[2];
  for (ptrdiff_t i = 0; i < length; i++) put(by, index.data, i, any_index(by, size));
  if (bad) put(by, index.data, below(length), by <= RM_INT64 && below(2) ? -size - 1 : size);
  memcpy(index.before, index.data, index.bytes);
  double *plan = write_plan(&p), *numbers = plan + RM_ATTRIBUTES;
  numbers[0] = (double)size;
  numbers[1] = (double)stride;
  if (!is_served(rm_run(kernel("takeAlongAxis"), pack(dtype, dtype, by, RM_NONE), dtype, plan,
                        to.data, from.data, index.data, NULL))) {
    fail("it was not served");
  }
  check_unchanged(&index);
  check_unchanged(&from);
  ptrdiff_t at[MAX_AXES] = {0}, walked = 0, wrong = -1;
  do {
    const int64_t one = (int64_t)get(by, index.data, place(&p, 2, at));
    if (one < -size || one >= size) {
      wrong = walked;
      break;
    }
    memcpy(to.before + place(&p, 0, at) * bytes,
           from.data + (place(&p, 1, at) + (one < 0 ? one + size : one) * stride) * bytes,
           (size_t)bytes);
    walked++;
  } while (next(&p, rank, at) && walked < n);
  if (numbers[0] != (double)wrong) fail("the place of the first wrong index is another one");
  if (wrong < 0 && memcmp(to.data, to.before, to.bytes) != 0) fail("others are taken");
  compared++;
  drop(&to);
  drop(&from);
  drop(&index);
}

static void run_nonzero(int dtype, ptrdiff_t length) {
  snprintf(about, sizeof about, "nonzero of dtype %d, %td elements", dtype, length);
  const ptrdiff_t offset = below(MARGIN), bytes = rm_itemsize(dtype);
  buffer input = make(dtype, offset + length, SMALL);
  for (ptrdiff_t i = 0; i < length; i++) {
    if (below(3) == 0) memset(input.data + (offset + i) * bytes, 0, (size_t)bytes);
    /* -0 */
    if (dtype >= RM_FLOAT16 && below(5) == 0) {
      memset(input.data + (offset + i) * bytes, 0, (size_t)bytes);
      input.data[(offset + i + 1) * bytes - 1] = 0x80;
    }
  }
  memcpy(input.before, input.data, input.bytes);
  int32_t *places = malloc((size_t)length * sizeof *places);
  if (places == NULL) fail("no memory");
  ptrdiff_t count = 0;
  for (ptrdiff_t i = 0; i < length; i++) {
    unsigned char one[8];
    memcpy(one, input.data + (offset + i) * bytes, (size_t)bytes);
    if (dtype >= RM_FLOAT16) one[bytes - 1] &= 0x7f;
    bool zero = true;
    for (ptrdiff_t j = 0; j < bytes; j++) zero = zero && one[j] == 0;
    if (!zero) places[count++] = (int32_t)i;
  }
  if (count > 0) {
    buffer to = make(RM_INT32, count, ANY_BITS);
    const double own[] = {(double)offset, (double)length, (double)count};
    attributes numbers = with_attributes(3, own);
    if (!is_served(rm_run(kernel("nonzeroIndices"), pack(RM_INT32, dtype, RM_NONE, RM_NONE),
                          RM_INT32, numbers.at, to.data, input.data, NULL, NULL))) {
      fail("it was not served");
    }
    if (memcmp(to.data, places, to.bytes) != 0) fail("the places are others");
    check_unchanged(&input);
    compared++;
    drop(&to);
  }
  free(places);
  drop(&input);
}

static void try_moves(ptrdiff_t n) {
  for (int dtype = RM_BOOL; dtype < RM_DTYPE_COUNT; dtype++) {
    static const int kinds[] = {RM_OP_gather, RM_OP_scatter, RM_OP_scatterAdd};
    for (int i = 0; i < (dtype == RM_BOOL ? 2 : 3); i++) {
      run_blocks(kinds[i], dtype, index_dtype(), n, 1, 1, 1, 1);
      run_blocks(kinds[i], dtype, index_dtype(), 1 + below(9), 1, n, 1, 1);
      run_blocks(kinds[i], dtype, index_dtype(), 1 + below(9), 2, 1 + below(4), n,
                 1 + (int)below(2));
    }
    /* So many that sums are computed in tables. */
    if (n == 1 && dtype != RM_BOOL) {
      run_blocks(RM_OP_scatterAdd, dtype, index_dtype(), 40000, 1, 1 + below(4), 1,
                 1 + (int)below(2));
    }
    run_nonzero(dtype, n);
    if (dtype == RM_BOOL || dtype >= RM_FLOAT16) continue;
    run_positions(dtype, below(2), (int)below(2), n, 1, below(2));
    run_positions(dtype, below(2), 2, n, 1 + below(4), below(2));
    run_take_along((int)below(RM_DTYPE_COUNT), dtype, (int)below(2), n, 1, below(2));
    run_take_along((int)below(RM_DTYPE_COUNT), dtype, 2, n, 1 + below(4), below(2));
  }
}

/* ---- random numbers -------------------------------------------------------------------------- */

static int32_t run_random(int dtype, const uint32_t *words, int kind, ptrdiff_t length,
                          buffer *out) {
  double own[8] = {kind};
  for (int i = 0; i < 6; i++) own[i + 1] = words[i];
  own[7] = (double)length;
  attributes numbers = with_attributes(8, own);
  return rm_run(kernel("random"), pack(dtype, RM_NONE, RM_NONE, RM_NONE), dtype, numbers.at,
                out->data, NULL, NULL, NULL);
}

static void try_random(ptrdiff_t length, int threads) {
  for (int kind = 0; kind < 4; kind++) {
    for (int dtype = RM_BOOL; dtype < RM_DTYPE_COUNT; dtype++) {
      const bool takes = kind == 0 ? dtype == RM_UINT32 : (kind == 3) == (dtype < RM_FLOAT16);
      if (!takes) continue;
      snprintf(about, sizeof about, "random %d of dtype %d, %td elements", kind, dtype, length);
      const uint32_t words[] = {any(), any(), 0, 0, dtype == RM_BOOL ? 2 : 100, 0};
      buffer out = make(dtype, length, ANY_BITS);
      rm_configure(RM_CONFIGURE_THREADS, threads);
      if (!is_served(run_random(dtype, words, kind, length, &out))) {
        fail("it was not served");
      }
      for (ptrdiff_t i = 0; kind == 3 && i < length; i++) {
        const double x = get(dtype, out.data, i);
        if (x < 0 || x >= words[4]) fail("an integer is out of range");
      }
      /* A shorter request is a prefix of a longer one. */
      buffer part = make(dtype, 1 + below(length), ANY_BITS);
      const ptrdiff_t count = (ptrdiff_t)part.bytes / rm_itemsize(dtype);
      rm_configure(RM_CONFIGURE_THREADS, 1);
      if (!is_served(run_random(dtype, words, kind, count, &part)) ||
          memcmp(part.data, out.data, part.bytes) != 0) {
        fail("a shorter part is another one");
      }
      compared++;
      drop(&out);
      drop(&part);
    }
  }
}

#include "driver_fft.h"
#include "driver_linalg.h"
#include "driver_sets.h"

/* ---- the small entry points ------------------------------------------------------------------ */

static void try_others(void) {
  snprintf(about, sizeof about, "versions, messages, settings");
  if (rm_version() != RM_VERSION) fail("another version");
  if (rm_abi_hash() != (int32_t)RM_ABI_HASH) fail("other declarations");
  uint32_t table = 0;
#define RM_OP(name, hash, ...) \
  table ^= hash; \
  if (rm_find_kernel(#name, (int32_t)hash) != RM_OP_##name) fail("an op is another kernel"); \
  if (rm_find_kernel(#name, (int32_t)hash ^ 1) != -1) fail("an op of another meaning is found");
#include "ops.def"
#undef RM_OP
  if (rm_table_hash() != (int32_t)table) fail("another table");
  if (rm_find_kernel("nothing", 0) != -1) fail("a kernel that there is not");
  if (rm_configure(RM_CONFIGURE_THREADS, 2) != 2 || rm_configure(RM_CONFIGURE_THREADS, -1) != 2) {
    fail("not 2 threads");
  }
  if (rm_configure(RM_CONFIGURE_THREADS, 100000) > 256) fail("too many threads");
  if (rm_configure(RM_CONFIGURE_THREADS, 0) < 1) fail("no threads");
  if (rm_configure(99, 0) != -1) fail("an unknown setting");
  const int32_t level = rm_configure(RM_CONFIGURE_LEVEL, -1);
  if (rm_configure(RM_CONFIGURE_LEVEL, 77) != level) fail("an unknown instruction set");
  char text[8];
  if (rm_blas_info(text, sizeof text) != 0) fail("a BLAS that was not opened");
  setenv("ROWMAJOR_OPENBLAS", "/no/such/library", 1);
  if (rm_blas_open() != RM_NOT_FOUND) fail("a BLAS that is not there");
  const int32_t full = rm_last_error(text, sizeof text);
  if (full < 8 || strlen(text) != sizeof text - 1) fail("a message is not cut to length");
  if (rm_last_error(NULL, 0) != full) fail("the length of a message");
  double plan[RM_OFFSETS + 5] = {[RM_PLAN_RANK] = 1, [RM_PLAN_OPERANDS] = 2,
                                 [RM_OFFSETS + 2] = 1, [RM_OFFSETS + 3] = 1, [RM_OFFSETS + 4] = 1};
  float x[1] = {1}, y[1] = {2};
  const int32_t floats = pack(RM_FLOAT32, RM_FLOAT32, RM_NONE, RM_NONE);
  const int32_t ints = pack(RM_INT32, RM_INT32, RM_NONE, RM_NONE);
  enum { F = RM_FLOAT32 };
  if (rm_run(RM_OP_neg, floats, F, plan, x, NULL, NULL, NULL) != RM_BAD_ARGUMENT) fail("no memory");
  if (rm_run(RM_OP_add, floats, F, plan, x, y, NULL, NULL) == RM_OK) fail("too few operands");
  if (rm_run(-1, floats, F, plan, x, y, NULL, NULL) == RM_OK) fail("no kernel");
  if (rm_run(100000, floats, F, plan, x, y, NULL, NULL) == RM_OK) fail("no kernel");
  if (rm_run(RM_OP_sum, floats, F, plan, NULL, y, NULL, NULL) == RM_OK) fail("no memory");
  if (rm_run(RM_OP_neg, floats, 99, plan, x, y, NULL, NULL) == RM_OK) fail("no dtype");
  if (rm_run(kernel("sort"), pack(99, RM_NONE, RM_NONE, RM_NONE), F, plan, x, NULL, NULL, NULL) ==
      RM_OK) {
    fail("no dtype");
  }
  if (rm_run(kernel("softmax"), ints, RM_INT32, plan, x, y, NULL, NULL) == RM_OK) fail("no dtype");
  if (rm_run(kernel("gather"), pack(F, F, F, RM_NONE), F, plan, x, y, y, NULL) == RM_OK) {
    fail("no indices");
  }
  double none[ATTENTION_NUMBERS + ATTENTION_OPERANDS] = {1, 1, 1, 1, 1, 1};
  const int32_t four = pack(F, F, F, F), more = pack(RM_NONE, RM_NONE, RM_NONE, RM_NONE);
  const int32_t what = kernel("attention"), cached = kernel("cachedAttention");
  if (rm_run_many(what, four, more, F, none, x, y, y, NULL, NULL, NULL, NULL, NULL) == RM_OK) {
    fail("no values");
  }
  none[3] = 0;
  if (rm_run_many(what, four, more, F, none, x, y, y, y, NULL, NULL, NULL, NULL) == RM_OK) {
    fail("no keys");
  }
  if (rm_run_many(what, pack(RM_FLOAT64, F, F, F), more, F, none, x, y, y, y, NULL, NULL, NULL,
                  NULL) == RM_OK) {
    fail("no dtype");
  }
  double no_cache[ATTENTION_NUMBERS + ATTENTION_OPERANDS + CACHE_NUMBERS + 2] = {1, 1, 1, 1, 1, 1};
  no_cache[ATTENTION_NUMBERS + ATTENTION_OPERANDS + 2] = 1;
  const int32_t floats_of_cache = pack(F, F, RM_INT32, RM_NONE);
  int32_t length[1] = {1};
  if (rm_run_many(cached, four, more, F, no_cache, x, y, y, y, y, y, length, NULL) == RM_OK) {
    fail("no cache");
  }
  if (rm_run_many(cached, four, floats_of_cache, F, no_cache, x, y, y, y, y, y, NULL, NULL) == RM_OK) {
    fail("no lengths");
  }
  if (rm_run_many(cached, four, floats_of_cache, F, no_cache, x, y, y, y, y, y, length, NULL) == RM_OK) {
    fail("no problems for a length");
  }
  if (rm_run_many(cached, four, pack(F, F, F, RM_NONE), F, no_cache, x, y, y, y, y, y, length, NULL) ==
      RM_OK) {
    fail("lengths that are no integers");
  }
  double many[11] = {1, 1, 1, 1};
  if (rm_run(kernel("rope"), four, F, many, x, y, y, y) == RM_OK) fail("more pairs than columns");
  if (rm_run(kernel("rope"), pack(F, RM_FLOAT16, F, F), F, many, x, y, y, y) == RM_OK) {
    fail("no dtype");
  }
  if (rm_run_many(-1, four, more, F, none, x, y, y, y, NULL, NULL, NULL, NULL) == RM_OK) {
    fail("no kernel");
  }
  if (x[0] != 1) fail("a refused call has written something");
}

int main(int count, char **arguments) {
  if (rm_configure(RM_CONFIGURE_SHARE_ALL, 1) != 1 ||
      rm_configure(RM_CONFIGURE_SHARE_ALL, -1) != 1) {
    fail("not shared");
  }
  const int highest = count > 1 ? atoi(arguments[1]) : 0;
  const bool in_short = count > 2 && strcmp(arguments[2], "short") == 0;
  fenced = count > 2 && strcmp(arguments[2], "fenced") == 0;
  setvbuf(stdout, NULL, _IONBF, 0);
  /* Requesting an instruction set above the best one changes nothing. */
  const int best = highest > 0 ? highest : rm_configure(RM_CONFIGURE_LEVEL, 0);
  int levels = 0;
  for (int level = 1; level <= best; level++) {
    if (rm_configure(RM_CONFIGURE_LEVEL, level) != level) continue;
    levels++;
    static const ptrdiff_t few[] = {1, 7, 17, 65};
    for (ptrdiff_t n = 1; n <= 70; n++) {
      /* A third of the longer lengths per instruction set, another one for each. */
      bool chosen = !in_short && (n <= 18 || n % 3 == level % 3);
      for (size_t i = 0; in_short && i < sizeof few / sizeof *few; i++) chosen |= few[i] == n;
      if (!chosen) continue;
      try_maps(n, true, 1);
      try_maps(n, false, 1);
      try_reductions(n, n % 2, 1);
      try_softmax_norm(1 + below(20), n, 1);
      try_sort(1 + below(3), n, 1);
      try_topk(1 + below(3), n, 1);
      try_selection(1 + below(3), n, 1);
      try_packed(n, 1 + below(40), 1);
      try_moves(n);
      try_random(n, 1);
      try_fft(n, 20, 6, 1);
      try_convolve(n, 1 + below(40), 1);
      try_complex(n, 1);
      try_sets(n, 1);
      try_deviates(n, 1);
      if (n < 19 || n % 8 == 1) try_linalg(n, 1);
    }
    for (ptrdiff_t n = 1023; n <= 1025; n += in_short ? 2 : 1) {
      try_maps(n, n == 1023, 1);
      try_reductions(n, n == 1024, 2);
      try_softmax_norm(3, n, 1);
      try_sort(2, n, 1);
      try_topk(2, n, 1);
      try_selection(2, n, 1);
      try_packed(1 + below(20), n, 1);
      try_moves(n);
      try_random(n, 1);
      try_fft(n, 3, 3, 1);
      try_convolve(n, 1 + below(40), 1);
      try_complex(n, 1);
      try_sets(n, 1);
      try_deviates(n, 1);
    }
    /* Large primes, powers of two and products of primes. */
    static const ptrdiff_t lengths[] = {97, 128, 37 * 2, 101 * 3, 256, 1000, 31 * 29, 1009, 4096, 5003};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
      if (!in_short || i % 3 == 0) try_fft(lengths[i], in_short ? 3 : 20, 3, 1);
    }
    try_matmul(70, in_short ? 6 : 60);
    try_attention(in_short ? 24 : 70, in_short ? 70 : 300, in_short ? 10 : 60);
    try_conv(in_short ? 8 : 32, in_short ? 12 : 40);
    try_quantized(in_short ? 20 : 50, in_short ? 2 : 12);
    try_cached_attention(in_short ? 40 : 70, in_short ? 70 : 300, in_short ? 10 : 60);
    try_rope(in_short ? 20 : 70, in_short ? 10 : 60);
    if (!in_short) {
      try_matmul(300, 4);
      try_attention(20, 1024, 20);
      try_cached_attention(32, 900, 20);
      try_maps(40001, false, 3);
      try_reductions(150001, false, 3);
      try_softmax_norm(300, 1000, 3);
      try_sort(1, 200003, 3);
      try_topk(1, 200003, 3);
      try_sort(300, 1000, 3);
      try_topk(300, 1000, 3);
      try_selection(1, 20003, 3);
      try_selection(30, 1000, 3);
      try_packed(300, 600, 3);
      try_random(100003, 3);
      try_fft(65536, 2, 6, 3);
      try_fft(65537, 1, 3, 3);
      try_fft(120, 100, 6, 3);
      try_convolve(20003, 50, 3);
      try_convolve(5000, 5000, 3);
      try_complex(10007, 3);
      try_sets(140003, 3);
      try_deviates(10007, 3);
      try_linalg(110, 3);
      try_linalg(9, 3);
    }
  }
  if (levels == 0) fail("no instruction set was tried");
  try_others();
  printf("%d levels, %ld calls, %ld served, %ld compared\n", levels, calls, served, compared);
  return 0;
}
