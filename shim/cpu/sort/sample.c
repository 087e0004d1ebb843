/*
 * Tokens chosen by rows of logits, as src/backend/js/sampling.ts defines it.
 *
 * Weights are whole numbers in doubles, whose sums are exact: they may be added in any order, so that
 * no row has to be sorted. Each step of the weights is one rounding, without fused operations, so that
 * they are the same on all machines.
 */
#if defined(__AVX512F__)
#include <immintrin.h>
#endif
#include <math.h>
#include <stdlib.h>
#include "float_core.h"
#include "internal.h"
#include "quicksort.h"

/* Elements that are weighed at once, those whose largest is found at once, and sums that are kept. */
enum { BLOCK = 1024, GREATEST_BLOCK = 4096, GROUPS = 256 };

/* Ranges of logits by which candidates are counted, and candidates whose ranges are found at once. */
enum { BUCKETS = 512, RANGED = 256 };

/* The places of the numbers of a row. */
enum { INVERSE, TOP_K, TOP_P, MIN_P, PART, CHANGES, ROW_NUMBERS };

/* The numbers of a change: bias, factor, what is subtracted. */
enum { CHANGE_NUMBERS = 3 };

/* The largest weight and the largest sum, as powers of two; and weights of so many halvings are 0. */
enum { MOST_BITS = 40, SUM_BITS = 52, LEAST = -44 };

/* The estimated nanoseconds per logit. */
static const double NANOSECONDS = 0.8;

/* Vectors that are aligned to their elements only. */
typedef float f32x16 __attribute__((vector_size(64), aligned(4)));
typedef int32_t i32x16 __attribute__((vector_size(64), aligned(4)));
typedef double f64x8 __attribute__((vector_size(64), aligned(8)));
typedef bool bits16 __attribute__((ext_vector_type(16)));

static const i32x16 PLACES = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* The larger of each lane; m where x is NaN. */
#define MAX_LANES(m, x) \
  ((f32x16)(((i32x16)(x) & ((x) > (m))) | ((i32x16)(m) & ~((x) > (m)))))

typedef struct {
  const float *logits;
  const double *numbers;
  const int32_t *ids;
  const double *changes;
  /* Bits of tokens that are allowed; null for all. */
  const uint32_t *mask;
  int32_t *out;
  ptrdiff_t vocabulary, room;
  /* The largest weight is 2^bits. */
  int bits;
  _Atomic(bool) failed;
} sample_context;

/* The logits of a row, and what its weights depend on. */
typedef struct {
  const float *x;
  ptrdiff_t n;
  /* Weights are 2^((x - best) factor) 2^bits. */
  double best, factor;
  int bits;
} weighted_row;

/* Tokens that may be chosen, in the order of their ids, and memory for the keys of some. */
typedef struct {
  double *weights;
  int64_t *keys;
  float *x;
  int32_t *ids;
  ptrdiff_t n;
} candidates;

/* ---- the greatest -------------------------------------------------------------------------------- */

static float greatest_of(const float *x, ptrdiff_t n) {
  f32x16 most[4];
  for (int k = 0; k < 4; k++) most[k] = (f32x16){} - INFINITY;
  ptrdiff_t i = 0;
  for (; i + 64 <= n; i += 64) {
    RM_SCALAR for (int k = 0; k < 4; k++) {
      const f32x16 one = *(const f32x16 *)(x + i + 16 * k);
      most[k] = MAX_LANES(most[k], one);
    }
  }
  f32x16 all = most[0];
  for (int k = 1; k < 4; k++) all = MAX_LANES(all, most[k]);
  float best = -INFINITY;
  RM_SCALAR for (int k = 0; k < 16; k++) best = all[k] > best ? all[k] : best;
  RM_SCALAR for (; i < n; i++) best = x[i] > best ? x[i] : best;
  return best;
}

/* The first place of the greatest element; -1 if all are -Infinity or NaN. */
static ptrdiff_t first_greatest(const float *x, ptrdiff_t n) {
  float best = -INFINITY;
  ptrdiff_t block = -1;
  for (ptrdiff_t at = 0; at < n; at += GREATEST_BLOCK) {
    const float one = greatest_of(x + at, rm_min(GREATEST_BLOCK, n - at));
    if (one <= best) continue;
    best = one;
    block = at;
  }
  if (block < 0) return -1;
  while (x[block] != best) block++;
  return block;
}

/* ---- weights ------------------------------------------------------------------------------------- */

/* Weighs n logits of a row. */
static void weigh(const weighted_row *row, const float *x, ptrdiff_t n, double *weights) {
  const double best = row->best, factor = row->factor, round = 0x1.8p52;
  const uint64_t bias = (uint64_t)(1023 + row->bits) - rm_bits_f64(round);
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
    const double all = ((double)x[i] - best) * factor, exponent = all > LEAST ? all : LEAST;
    const double shifted = exponent + round, r = exponent - (shifted - round);
    double q = 1.5352154e-4 * r + 1.339909e-3;
    q = q * r + 9.618443e-3;
    q = q * r + 5.5503324e-2;
    q = q * r + 2.4022648e-1;
    q = q * r + 6.931472e-1;
    const double power = rm_from_bits_f64((rm_bits_f64(shifted) + bias) << 52);
    weights[i] = ((q * r + 1) * power + round) - round;
  }
}

/* Makes weights below `least` 0. */
static void drop(double *weights, ptrdiff_t n, double least) {
  if (least == 0) return;
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) weights[i] = weights[i] >= least ? weights[i] : 0;
}

static double sum_of(const double *weights, ptrdiff_t n) {
  f64x8 sums = {};
  ptrdiff_t i = 0;
  for (; i + 8 <= n; i += 8) sums += *(const f64x8 *)(weights + i);
  double sum = 0;
  RM_SCALAR for (int k = 0; k < 8; k++) sum += sums[k];
  RM_SCALAR for (; i < n; i++) sum += weights[i];
  return sum;
}

/* The sum of the weights of the logits from `first` to before `end`. */
static double weight_of(const weighted_row *row, ptrdiff_t first, ptrdiff_t end, double least) {
  double weights[BLOCK], sum = 0;
  for (ptrdiff_t at = first; at < end; at += BLOCK) {
    const ptrdiff_t count = rm_min(BLOCK, end - at);
    weigh(row, row->x + at, count, weights);
    drop(weights, count, least);
    sum += sum_of(weights, count);
  }
  return sum;
}

/* The first of n weights up to which *sum exceeds the target; n if there is none. Advances *sum. */
static ptrdiff_t reach(const double *weights, ptrdiff_t n, double target, double *sum) {
  ptrdiff_t i = 0;
  for (ptrdiff_t count; i < n; i += count) {
    count = rm_min(64, n - i);
    const double more = sum_of(weights + i, count);
    if (*sum + more > target) break;
    *sum += more;
  }
  RM_SCALAR for (; i < n; i++) {
    *sum += weights[i];
    if (*sum > target) break;
  }
  return i;
}

/* The token at which the sum of weights exceeds a part of all of them. */
static ptrdiff_t choose_of_all(const weighted_row *row, double least, double part) {
  double sums[GROUPS], weights[BLOCK], total = 0;
  const ptrdiff_t n = row->n, size = rm_round_up(rm_ceil_div(n, GROUPS), BLOCK);
  const ptrdiff_t groups = rm_ceil_div(n, size);
  for (ptrdiff_t g = 0; g < groups; g++) {
    sums[g] = weight_of(row, g * size, rm_min((g + 1) * size, n), least);
    total += sums[g];
  }
  const double target = part * total;
  double sum = 0;
  ptrdiff_t g = 0;
  for (; g < groups - 1 && sum + sums[g] <= target; g++) sum += sums[g];
  for (ptrdiff_t at = g * size; at < n; at += BLOCK) {
    const ptrdiff_t count = rm_min(BLOCK, n - at);
    weigh(row, row->x + at, count, weights);
    drop(weights, count, least);
    const ptrdiff_t i = reach(weights, count, target, &sum);
    if (i < count) return at + i;
  }
  return -1;
}

/* ---- candidates ---------------------------------------------------------------------------------- */

/* A bit for each lane of 16 that holds. */
static inline uint16_t bits_of(const i32x16 *lanes) {
  const bits16 each = __builtin_convertvector(*lanes, bits16);
  uint16_t bits;
  memcpy(&bits, &each, sizeof bits);
  return bits;
}

/* Gathers the tokens from `at` to before at + 16 with logits of `least` or more. */
static inline void gather_16(const float *from, ptrdiff_t at, float least, candidates *to) {
  const f32x16 x = *(const f32x16 *)(from + at);
  const i32x16 fits = x >= least, ids = PLACES + (int32_t)at;
  uint16_t bits = bits_of(&fits);
#if defined(__AVX512F__)
  /* Without a branch, as no processor foretells which lanes fit. */
  _mm512_storeu_ps(to->x + to->n, _mm512_maskz_compress_ps(bits, (__m512)x));
  _mm512_storeu_si512(to->ids + to->n, _mm512_maskz_compress_epi32(bits, (__m512i)ids));
  to->n += __builtin_popcount(bits);
#else
  if (bits == UINT16_MAX) {
    *(f32x16 *)(to->x + to->n) = x;
    *(i32x16 *)(to->ids + to->n) = ids;
    to->n += 16;
    return;
  }
  for (; bits != 0; bits &= (uint16_t)(bits - 1)) {
    const ptrdiff_t i = at + __builtin_ctz(bits);
    to->x[to->n] = from[i];
    to->ids[to->n++] = (int32_t)i;
  }
#endif
}

/* Gathers the tokens of a row with logits of `least` or more, and their weights. */
static void gather(const weighted_row *row, float least, candidates *to) {
  const ptrdiff_t n = row->n;
  const float *x = row->x;
  ptrdiff_t at = 0;
  to->n = 0;
  for (; at + 64 <= n; at += 64) {
    i32x16 any = *(const f32x16 *)(x + at) >= least;
    for (int k = 16; k < 64; k += 16) any |= *(const f32x16 *)(x + at + k) >= least;
    if (bits_of(&any) == 0) continue;
    for (int k = 0; k < 64; k += 16) gather_16(x, at + k, least, to);
  }
  RM_SCALAR for (; at < n; at++) {
    if (!(x[at] >= least)) continue;
    to->x[to->n] = x[at];
    to->ids[to->n++] = (int32_t)at;
  }
  weigh(row, to->x, to->n, to->weights);
}

/* The ranges of n logits: greater ones have no higher range. */
static void find_buckets(double best, double factor, const float *x, ptrdiff_t n, int32_t *buckets) {
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
    const double range = (best - (double)x[i]) * factor;
    buckets[i] = (int32_t)(range < BUCKETS - 1 ? range : BUCKETS - 1);
  }
}

/* The key of a candidate: those of greater logits are less, and of equal ones those of lower ids. */
static inline int64_t key_of(const candidates *of, ptrdiff_t i) {
  /* Zero has no sign. */
  const int32_t bits = (int32_t)rm_bits_f32(of->x[i] + 0.0f);
  const int32_t rising = bits ^ ((bits >> 31) & INT32_MAX);
  return (int64_t)((uint64_t)(uint32_t)~rising << 32 | (uint64_t)i);
}

/* Keeps the weights of the greatest logits until there are `most`, or until they reach `wanted`; those
 * of all others become 0. */
static void narrow(const weighted_row *row, double factor, double most, double wanted,
                   const candidates *of) {
  double sums[BUCKETS] = {0}, counts[BUCKETS] = {0};
  int32_t buckets[RANGED];
  for (ptrdiff_t at = 0; at < of->n; at += RANGED) {
    const ptrdiff_t count = rm_min(RANGED, of->n - at);
    find_buckets(row->best, factor, of->x + at, count, buckets);
    RM_SCALAR for (ptrdiff_t i = 0; i < count; i++) {
      sums[buckets[i]] += of->weights[at + i];
      counts[buckets[i]]++;
    }
  }
  double sum = 0, count = 0;
  int last = 0;
  for (; last < BUCKETS; last++) {
    if (sum + sums[last] >= wanted || count + counts[last] >= most) break;
    sum += sums[last];
    count += counts[last];
  }
  if (last == BUCKETS) return;
  ptrdiff_t keys = 0;
  for (ptrdiff_t at = 0; at < of->n; at += RANGED) {
    const ptrdiff_t count = rm_min(RANGED, of->n - at);
    find_buckets(row->best, factor, of->x + at, count, buckets);
    RM_SCALAR for (ptrdiff_t i = 0; i < count; i++) {
      of->keys[keys] = at + i;
      keys += buckets[i] == last;
    }
  }
  for (ptrdiff_t k = 0; k < keys; k++) of->keys[k] = key_of(of, of->keys[k]);
  quicksort_64(of->keys, keys);
  ptrdiff_t end = 0;
  for (ptrdiff_t k = 0; k < keys; k++) {
    end = (uint32_t)of->keys[k];
    sum += of->weights[end];
    if (sum >= wanted || ++count >= most) break;
  }
  const float x = of->x[end];
  for (ptrdiff_t at = 0; at < of->n; at += RANGED) {
    const ptrdiff_t count = rm_min(RANGED, of->n - at);
    const float *from = of->x + at;
    double *weights = of->weights + at;
    /* Of equal logits, the first ones are kept. */
    const ptrdiff_t equal = end - at < 0 ? 0 : rm_min(end - at + 1, count);
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < equal; i++) weights[i] = from[i] >= x ? weights[i] : 0;
    RM_ANY_ORDER for (ptrdiff_t i = equal; i < count; i++) weights[i] = from[i] > x ? weights[i] : 0;
  }
}

/* The token of a row that keeps its most likely ones only. */
static ptrdiff_t choose_of_best(const weighted_row *row, const double *numbers, candidates *of) {
  const double inverse = numbers[INVERSE], top_k = numbers[TOP_K], top_p = numbers[TOP_P];
  const bool counts = top_k > 0 && top_k < (double)row->n;
  double wanted = counts ? INFINITY : top_p * weight_of(row, 0, row->n, 0);
  /* How far logits are below the greatest, in exponents: most rows need the first ones only. */
  static const double depths[] = {3, 5, 7, 9, 10.5, 12, 15, 20, INFINITY};
  int level = 0;
  for (;; level++) {
    gather(row, (float)(row->best - depths[level] / inverse), of);
    const bool enough = counts ? (double)of->n >= top_k : sum_of(of->weights, of->n) >= wanted;
    if (enough || depths[level] == INFINITY) break;
  }
  /* All weights below e^-31 are 0. */
  const double factor = inverse * (BUCKETS / (depths[level] < 31 ? depths[level] : 31));
  if (counts) {
    narrow(row, factor, top_k, INFINITY, of);
    wanted = top_p * sum_of(of->weights, of->n);
  }
  if (top_p < 1) narrow(row, factor, INFINITY, wanted, of);
  drop(of->weights, of->n, ldexp(numbers[MIN_P], row->bits));
  double sum = 0;
  const double target = numbers[PART] * sum_of(of->weights, of->n);
  const ptrdiff_t place = reach(of->weights, of->n, target, &sum);
  return place < of->n ? of->ids[place] : -1;
}

/* ---- rows ---------------------------------------------------------------------------------------- */

/* Copies the logits that bits of a mask allow; all others become -Infinity. */
static void copy_allowed(const uint32_t *mask, const float *x, ptrdiff_t n, float *to) {
  for (ptrdiff_t at = 0; at < n; at += 32) {
    const uint32_t word = mask[at / 32];
    const ptrdiff_t count = rm_min(32, n - at);
    for (ptrdiff_t k = 0; k < count; k++) to[at + k] = word >> k & 1 ? x[at + k] : -INFINITY;
  }
}

/* Copies the logits of a row, changes them, and bans those that its mask does not allow. */
static void change_logits(const sample_context *ctx, ptrdiff_t row, float *to) {
  const ptrdiff_t n = ctx->vocabulary;
  const float *x = ctx->logits + row * n;
  if (ctx->mask == NULL) rm_copy(to, x, n * (ptrdiff_t)sizeof *to);
  else copy_allowed(ctx->mask + row * rm_ceil_div(n, 32), x, n, to);
  const double changes = ctx->numbers[row * ROW_NUMBERS + CHANGES];
  const ptrdiff_t count = changes < (double)ctx->room ? (ptrdiff_t)changes : ctx->room;
  for (ptrdiff_t k = row * ctx->room; k < row * ctx->room + count; k++) {
    const int32_t id = ctx->ids[k];
    if (id < 0 || id >= n) continue;
    const double *change = ctx->changes + k * CHANGE_NUMBERS;
    const double biased = (double)to[id] + change[0];
    to[id] = (float)((biased > 0 ? biased / change[1] : biased * change[1]) - change[2]);
  }
}

static void sample_row(void *context, ptrdiff_t index) {
  sample_context *ctx = context;
  const ptrdiff_t n = ctx->vocabulary;
  const double *numbers = ctx->numbers + index * ROW_NUMBERS;
  const double inverse = numbers[INVERSE], top_k = numbers[TOP_K];
  const bool changes = ctx->mask != NULL || numbers[CHANGES] > 0;
  const bool selects =
      inverse != 0 && ((top_k > 0 && top_k < (double)n) || numbers[TOP_P] < 1);
  const size_t each = (selects ? 2 * sizeof(double) + 2 * sizeof(float) : 0) +
                      (changes ? sizeof(float) : 0);
  char *memory = NULL;
  if (each > 0 && (memory = malloc(each * (size_t)n)) == NULL) {
    ctx->failed = true;
    return;
  }
  candidates of = {0};
  float *changed = (float *)memory;
  if (selects) {
    of.weights = (double *)memory;
    of.keys = (int64_t *)(of.weights + n);
    of.x = (float *)(of.keys + n);
    of.ids = (int32_t *)(of.x + n);
    changed = (float *)(of.ids + n);
  }
  if (changes) change_logits(ctx, index, changed);
  const float *x = changes ? changed : ctx->logits + index * n;
  ptrdiff_t chosen = first_greatest(x, n);
  if (chosen >= 0 && inverse != 0 && x[chosen] != INFINITY) {
    const weighted_row row = {x, n, x[chosen], inverse * 0x1.71547652b82fep+0, ctx->bits};
    chosen = selects ? choose_of_best(&row, numbers, &of)
                     : choose_of_all(&row, ldexp(numbers[MIN_P], ctx->bits), numbers[PART]);
  }
  free(memory);
  ctx->out[index] = (int32_t)chosen;
}

int32_t RM_FOR_ISA(sample_rows)(const rm_call *call) {
  static const int dtypes[] = {RM_INT32, RM_FLOAT32, RM_FLOAT64, RM_INT32, RM_FLOAT64};
  for (int i = 0; i < 5; i++) {
    if (i < call->operands && call->dtypes[i] == dtypes[i] && call->buffers[i] != NULL) continue;
    return rm_fail(RM_BAD_ARGUMENT, "sampleRows: buffer %d is missing, or of another dtype", i);
  }
  const bool masked = call->operands > 5 && call->dtypes[5] != RM_NONE;
  if (masked && (call->dtypes[5] != RM_INT32 || call->buffers[5] == NULL)) {
    return rm_fail(RM_BAD_ARGUMENT, "sampleRows: a mask of dtype %d", call->dtypes[5]);
  }
  const double *attributes = rm_attributes(call);
  const ptrdiff_t rows = (ptrdiff_t)attributes[0];
  sample_context ctx = {
      .vocabulary = (ptrdiff_t)attributes[1],
      .room = (ptrdiff_t)attributes[2],
      .logits = (const float *)call->buffers[1] + (ptrdiff_t)attributes[3],
      .numbers = (const double *)call->buffers[2] + (ptrdiff_t)attributes[4],
      .ids = (const int32_t *)call->buffers[3] + (ptrdiff_t)attributes[5],
      .changes = (const double *)call->buffers[4] + (ptrdiff_t)attributes[6],
      .mask = masked ? (const uint32_t *)call->buffers[5] + (ptrdiff_t)attributes[7] : NULL,
      .out = call->buffers[0],
      .bits = SUM_BITS,
  };
  if (rows <= 0 || ctx.vocabulary <= 0) return RM_OK;
  if (ctx.vocabulary > INT32_MAX) {
    return rm_fail(RM_UNSUPPORTED, "sampleRows: rows of %.0f logits", attributes[1]);
  }
  for (ptrdiff_t size = 1; size < ctx.vocabulary; size *= 2) ctx.bits--;
  if (ctx.bits > MOST_BITS) ctx.bits = MOST_BITS;
  rm_parallel(rows, NANOSECONDS * (double)rows * (double)ctx.vocabulary, sample_row, &ctx);
  return ctx.failed ? rm_fail(RM_OUT_OF_MEMORY, "sampleRows: no memory for %.0f logits",
                              attributes[1])
                    : RM_OK;
}
