/*
 * Random numbers that take a varying number of random words each: gamma, beta, Poisson, binomial,
 * truncated normal and categorical numbers.
 *
 * Element i uses the blocks with counter (i, attempt, lane), in the same steps as
 * src/backend/js/deviates.ts, which names the sources. The blocks of many elements are made at once:
 * first those of all, then those of the rejected ones. Those loops are compiled for each ISA
 * (deviate_loops.c); the rest, which is no code for vectors, once.
 */
#include <stdlib.h>
#include <string.h>
#include "internal.h"
#include "deviate_loops.h"
#include "vecmath.h"

enum { BLOCK = 256, TASK_ELEMENTS = 16 * BLOCK };

/* The third word of counters of the factor of a gamma whose shape is below 1. */
#define BOOST 0xffffffffu
#define LARGE_MEAN 10.0
enum { LANE = 2, SECOND_LANE = 3, LAST_COUNT = 200 };
/* No valid number is rejected that often: the probability is below 1e-100. Another thread may make a
 * parameter invalid after it was checked, with which all are. */
enum { MOST_ATTEMPTS = 256 };

typedef struct {
  const rm_deviate_loops *loops;
  uint32_t key[2];
  int kind, dtype;
  ptrdiff_t length;
  ptrdiff_t each_b, each_c;
  const double *b, *c;
  char *out;
} deviate_context;

/* Elements of a block, their words, and the results. */
typedef struct {
  ptrdiff_t start, n;
  uint32_t lane;
  /* The elements without a result yet, counted from the start. */
  int32_t pending[BLOCK];
  uint32_t words[4 * BLOCK];
  double normals[BLOCK];
  double values[BLOCK];
} block;

/* The words of an attempt of the first n pending elements. */
static void make_words(const deviate_context *ctx, block *b, ptrdiff_t n, uint32_t attempt) {
  ctx->loops->words(ctx->key, (const uint32_t[]){attempt, b->lane}, (uint64_t)b->start, b->pending,
                    n, b->words);
}

/* The upper 53 bits of two words. */
static inline double bits53(const uint32_t *words) {
  return (double)words[1] * 2097152 + (double)(int32_t)(words[0] >> 11);
}

/* A number in (0, 1]. */
static inline double unit(const uint32_t *words) {
  return (bits53(words) + 1) * 0x1p-53;
}

/* ---- gamma ----------------------------------------------------------------------------------- */

/* Gammas of shapes of at least 1; those of smaller ones for the shape plus 1. */
static void gammas_above(const deviate_context *ctx, block *b, const double *shapes,
                         ptrdiff_t each) {
  ptrdiff_t n = b->n;
  for (ptrdiff_t k = 0; k < n; k++) b->pending[k] = (int32_t)k;
  double last = -1, d = 0, c = 0;
  for (uint32_t attempt = 0; n > 0 && attempt < MOST_ATTEMPTS; attempt++) {
    make_words(ctx, b, n, attempt);
    ctx->loops->normals(n, b->words, b->normals);
    ptrdiff_t left = 0;
    for (ptrdiff_t j = 0; j < n; j++) {
      const int32_t k = b->pending[j];
      const double shape = shapes[k * each];
      if (shape != last) {
        last = shape;
        d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3;
        c = 1 / __builtin_sqrt(9 * d);
      }
      const double x = b->normals[j], root = 1 + c * x;
      const double v = root * root * root, xx = x * x;
      bool taken = false;
      if (root > 0) {
        const double u = unit(b->words + 4 * j + 2);
        taken = u < 1 - 0.0331 * xx * xx ||
                rm_log_f64(u) < 0.5 * xx + d * (1 - v + rm_log_f64(v));
      }
      if (taken) {
        b->values[k] = d * v;
      } else {
        b->pending[left++] = k;
      }
    }
    n = left;
  }
  for (ptrdiff_t j = 0; j < n; j++) b->values[b->pending[j]] = __builtin_nan("");
}

/* Makes the words of the factors of all elements, if any shape is below 1. */
static bool make_boosts(const deviate_context *ctx, block *b, const double *shapes,
                        ptrdiff_t each) {
  bool any = false;
  for (ptrdiff_t k = 0; k < b->n; k++) any |= shapes[k * each] < 1;
  if (!any) return false;
  for (ptrdiff_t k = 0; k < b->n; k++) b->pending[k] = (int32_t)k;
  make_words(ctx, b, b->n, BOOST);
  return true;
}

/* The logarithm of the factor that makes a gamma of a shape below 1 of one of the shape plus 1. */
static inline double log_boost(const block *b, ptrdiff_t k, double shape) {
  return rm_log_f64(unit(b->words + 4 * k + 2)) / shape;
}

static void gammas(const deviate_context *ctx, block *b) {
  const double *shapes = ctx->b + b->start * ctx->each_b;
  gammas_above(ctx, b, shapes, ctx->each_b);
  if (!make_boosts(ctx, b, shapes, ctx->each_b)) return;
  for (ptrdiff_t k = 0; k < b->n; k++) {
    const double shape = shapes[k * ctx->each_b];
    if (shape == 0) {
      b->values[k] = 0;
    } else if (shape < 1) {
      b->values[k] *= rm_exp_f64(log_boost(b, k, shape));
    }
  }
}

static void log_gammas(const deviate_context *ctx, block *b, const double *shapes,
                       ptrdiff_t each) {
  gammas_above(ctx, b, shapes, each);
  const bool boosts = make_boosts(ctx, b, shapes, each);
  for (ptrdiff_t k = 0; k < b->n; k++) {
    const double shape = shapes[k * each];
    b->values[k] = rm_log_f64(b->values[k]);
    if (boosts && shape < 1) b->values[k] += log_boost(b, k, shape);
  }
}

static void betas(const deviate_context *ctx, block *b) {
  double second[BLOCK];
  b->lane = SECOND_LANE;
  log_gammas(ctx, b, ctx->c + b->start * ctx->each_c, ctx->each_c);
  memcpy(second, b->values, (size_t)b->n * sizeof *second);
  b->lane = LANE;
  log_gammas(ctx, b, ctx->b + b->start * ctx->each_b, ctx->each_b);
  for (ptrdiff_t k = 0; k < b->n; k++) {
    b->values[k] = 1 / (1 + rm_exp_f64(second[k] - b->values[k]));
  }
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* ln k! - ((k + 1/2) ln(k + 1) - (k + 1) + ln(2 pi) / 2). */
static double stirling_tail(double k) {
  static const double tails[] = {
      0.08106146679532726, 0.0413406959554093,   0.02767792568499834, 0.02079067210376509,
      0.0166446911898212,  0.01387612882307075,  0.0118967099458917,  0.01041126526197209,
      0.009255462182712733, 0.008330563433362871,
  };
  if (k < 10) return tails[(int)k];
  const double s = 1 / ((k + 1) * (k + 1));
  return (1.0 / 12 - (1.0 / 360 - s / 1260) * s) / (k + 1);
}

/* The numbers that depend on the parameters of a count alone. */
typedef struct {
  /* The given parameters. */
  double first, second;
  /* The mean, and for binomial counts the trials and the probability of at most 1/2. */
  double mean, n, p, r;
  bool is_binomial, is_flipped;
  /* The probability of 0, for small means. */
  double none;
  double a, b, fast, inverse, log_mean, deviation, mode;
} count_setup;

static void set_up(count_setup *s, bool is_binomial, double first, double second) {
  s->first = first;
  s->second = second;
  s->is_binomial = is_binomial;
  if (is_binomial) {
    s->is_flipped = second > 0.5;
    s->n = first;
    s->p = s->is_flipped ? 1 - second : second;
    s->r = s->p / (1 - s->p);
    s->mean = s->n * s->p;
  } else {
    s->is_flipped = false;
    s->mean = first;
  }
  if (s->mean < LARGE_MEAN) {
    s->none = is_binomial ? rm_exp_f64(s->n * rm_log1p_f64(-s->p)) : rm_exp_f64(-s->mean);
  } else if (is_binomial) {
    s->deviation = __builtin_sqrt(s->mean * (1 - s->p));
    s->b = 1.15 + 2.53 * s->deviation;
    s->a = -0.0873 + 0.0248 * s->b + 0.01 * s->p;
    s->fast = 0.92 - 4.2 / s->b;
    s->mode = __builtin_floor((s->n + 1) * s->p);
  } else {
    s->b = 0.931 + 2.53 * __builtin_sqrt(s->mean);
    s->a = -0.059 + 0.02483 * s->b;
    s->fast = 0.9277 - 3.6224 / (s->b - 2);
    s->inverse = 1.1239 + 1.1328 / (s->b - 3.4);
    s->log_mean = rm_log_f64(s->mean);
  }
}

/* The count of a small mean: a search from 0. */
static double search(const count_setup *s, double u) {
  double p = s->none, k = 0;
  /* Not rm_min: n may be beyond all integers, if another thread changed it after its check. */
  const double last = s->is_binomial && s->n < LAST_COUNT ? s->n : LAST_COUNT;
  if (s->is_binomial) {
    while (u > p && k < last) {
      u -= p;
      k++;
      p *= s->r * ((s->n - k + 1) / k);
    }
  } else {
    while (u > p && k < last) {
      u -= p;
      k++;
      p *= s->mean / k;
    }
  }
  return k;
}

/* The exact test of a count. */
static bool is_taken(const count_setup *s, double k, double us, double v) {
  const double mean = s->mean;
  if (!s->is_binomial) {
    if (k < 0 || (us < 0.013 && v > us)) return false;
    const double left = rm_log_f64(v * s->inverse / (s->a / (us * us) + s->b));
    const double factorial =
        (k + 0.5) * rm_log_f64(k + 1) - (k + 1) + 0.9189385332046728 + stirling_tail(k);
    return left <= k * s->log_mean - mean - factorial;
  }
  const double n = s->n, m = s->mode;
  if (k < 0 || k > n) return false;
  const double left =
      rm_log_f64(v * (2.83 + 5.1 / s->b) * s->deviation / (s->a / (us * us) + s->b));
  const double right =
      (m + 0.5) * rm_log_f64((m + 1) / (s->r * (n - m + 1))) +
      (n + 1) * rm_log_f64((n - m + 1) / (n - k + 1)) +
      (k + 0.5) * rm_log_f64(s->r * (n - k + 1) / (k + 1)) +
      (stirling_tail(m) + stirling_tail(n - m) - stirling_tail(k) - stirling_tail(n - k));
  return left <= right;
}

static void counts(const deviate_context *ctx, block *b) {
  const bool is_binomial = ctx->kind == RM_DEVIATE_BINOMIAL;
  const double *first = ctx->b + b->start * ctx->each_b;
  const double *second = ctx->c + b->start * ctx->each_c;
  count_setup s = {.first = -1};
  ptrdiff_t n = b->n;
  for (ptrdiff_t k = 0; k < n; k++) b->pending[k] = (int32_t)k;
  for (uint32_t attempt = 0; n > 0 && attempt < MOST_ATTEMPTS; attempt++) {
    make_words(ctx, b, n, attempt);
    ptrdiff_t left = 0;
    for (ptrdiff_t j = 0; j < n; j++) {
      const int32_t at = b->pending[j];
      const double p1 = first[at * ctx->each_b], p2 = second[at * ctx->each_c];
      if (p1 != s.first || p2 != s.second) set_up(&s, is_binomial, p1, p2);
      const uint32_t *words = b->words + 4 * j;
      double k;
      if (s.mean < LARGE_MEAN) {
        k = search(&s, bits53(words + 2) * 0x1p-53);
      } else {
        const double u = bits53(words) * 0x1p-53 - 0.5, v = unit(words + 2);
        const double us = 0.5 - __builtin_fabs(u) + 0x1p-54;
        k = __builtin_floor((2 * s.a / us + s.b) * u + s.mean + (is_binomial ? 0.5 : 0.43));
        if (!(us >= 0.07 && v <= s.fast) && !is_taken(&s, k, us, v)) {
          b->pending[left++] = at;
          continue;
        }
      }
      b->values[at] = s.is_flipped ? s.n - k : k;
    }
    n = left;
  }
  for (ptrdiff_t j = 0; j < n; j++) b->values[b->pending[j]] = __builtin_nan("");
}

/* ---- truncated normal numbers ---------------------------------------------------------------- */

/* The ratio of two polynomials of degree 7; the denominator's last coefficient is 1. */
static inline double ratio(const double *c, double x) {
  double above = c[0], below = c[8];
  for (int k = 1; k < 8; k++) above = above * x + c[k];
  for (int k = 9; k < 15; k++) below = below * x + c[k];
  return above / (below * x + 1);
}

static double normal_quantile(double p) {
  static const double central[] = {
      2509.0809287301227, 33430.575583588128, 67265.770927008701, 45921.953931549871,
      13731.693765509461, 1971.5909503065514, 133.14166789178438, 3.3871328727963666,
      5226.4952788528545, 28729.085735721943, 39307.895800092711, 21213.794301586596,
      5394.1960214247511, 687.18700749205790, 42.313330701600911,
  };
  static const double middle[] = {
      7.7454501427834141e-4, 0.022723844989269184, 0.24178072517745061,  1.2704582524523684,
      3.6478483247632045,    5.7694972214606914,   4.6303378461565456,   1.4234371107496835,
      1.0507500716444169e-9, 5.475938084995345e-4, 0.015198666563616457, 0.14810397642748008,
      0.68976733498510001,   1.6763848301838038,   2.053191626637759,
  };
  static const double far[] = {
      2.0103343992922881e-7,  2.7115555687434876e-5, 0.0012426609473880784, 0.026532189526576124,
      0.29656057182850489,    1.7848265399172913,    5.4637849111641144,    6.6579046435011038,
      2.0442631033899397e-15, 1.4215117583164459e-7, 1.8463183175100547e-5, 7.8686913114561325e-4,
      0.014875361290850615,   0.13692988092273581,   0.59983220655588794,
  };
  const double q = p - 0.5;
  if (__builtin_fabs(q) <= 0.425) return q * ratio(central, 0.180625 - q * q);
  const double r = __builtin_sqrt(-rm_log_f64(q < 0 ? p : 1 - p));
  const double x = r <= 5 ? ratio(middle, r - 1.6) : ratio(far, r - 5);
  return q < 0 ? -x : x;
}

static void truncated(const deviate_context *ctx, block *b) {
  for (ptrdiff_t k = 0; k < b->n; k++) b->pending[k] = (int32_t)k;
  make_words(ctx, b, b->n, 0);
  for (ptrdiff_t k = 0; k < b->n; k++) {
    const double low = ctx->b[(b->start + k) * ctx->each_b];
    const double width = ctx->c[(b->start + k) * ctx->each_c];
    const double u = (__builtin_floor(bits53(b->words + 4 * k + 2) / 2) + 0.5) * 0x1p-52;
    b->values[k] = normal_quantile(low + u * width);
  }
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* What an integer can hold; 0 for what it cannot, which invalid parameters make. */
static inline double integer(double x, double limit) { return x > -limit && x < limit ? x : 0; }

static void store(const deviate_context *ctx, const block *b) {
  char *out = ctx->out + b->start * rm_itemsize(ctx->dtype);
  switch (ctx->dtype) {
    case RM_FLOAT32:
      for (ptrdiff_t k = 0; k < b->n; k++) ((float *)out)[k] = (float)b->values[k];
      break;
    case RM_INT32:
      for (ptrdiff_t k = 0; k < b->n; k++) ((int32_t *)out)[k] = (int32_t)integer(b->values[k], 0x1p31);
      break;
    case RM_INT64:
      for (ptrdiff_t k = 0; k < b->n; k++) ((int64_t *)out)[k] = (int64_t)integer(b->values[k], 0x1p63);
      break;
    default: memcpy(out, b->values, (size_t)b->n * 8);
  }
}

static void deviate_task(void *context, ptrdiff_t index) {
  const deviate_context *ctx = context;
  block b;
  const ptrdiff_t end = rm_min((index + 1) * TASK_ELEMENTS, ctx->length);
  for (ptrdiff_t at = index * TASK_ELEMENTS; at < end; at += BLOCK) {
    b.start = at;
    b.n = rm_min(end - at, BLOCK);
    b.lane = LANE;
    switch (ctx->kind) {
      case RM_DEVIATE_GAMMA: gammas(ctx, &b); break;
      case RM_DEVIATE_BETA: betas(ctx, &b); break;
      case RM_DEVIATE_TRUNCATED_NORMAL: truncated(ctx, &b); break;
      default: counts(ctx, &b);
    }
    store(ctx, &b);
  }
}

/* NaN fails every comparison. */
static bool is_valid(int kind, double b, double c) {
  switch (kind) {
    case RM_DEVIATE_GAMMA: return b >= 0 && b < __builtin_inf();
    /* The logarithms of gammas of smaller parameters are infinite. */
    case RM_DEVIATE_BETA:
      return b > 0 && b < __builtin_inf() && c > 0 && c < __builtin_inf() && (b >= 1e-300 || c >= 1e-300);
    case RM_DEVIATE_POISSON: return b >= 0 && b <= 1e9;
    case RM_DEVIATE_BINOMIAL:
      return b >= 0 && b < 0x1p31 && __builtin_floor(b) == b && c >= 0 && c <= 1;
    default: return true;
  }
}

int32_t rm_deviates(const rm_call *call) {
  double *attributes = call->numbers + RM_ATTRIBUTES;
  const uint32_t *key = (const uint32_t *)call->buffers[1] + (ptrdiff_t)attributes[4];
  deviate_context ctx = {
      .loops = rm_isa_kernels()->deviate_loops,
      .key = {key[0], key[1]},
      .kind = (int)attributes[0],
      .dtype = call->dtypes[0],
      .length = (ptrdiff_t)attributes[1],
      .each_b = (ptrdiff_t)attributes[2],
      .each_c = (ptrdiff_t)attributes[3],
      .b = (const double *)call->buffers[2] + (ptrdiff_t)attributes[5],
      .c = (const double *)call->buffers[3] + (ptrdiff_t)attributes[6],
      .out = call->buffers[0],
  };
  const int dtype = ctx.dtype;
  if (call->dtypes[1] != RM_UINT32 || call->dtypes[2] != RM_FLOAT64 ||
      call->dtypes[3] != RM_FLOAT64 || ctx.kind < 0 || ctx.kind > RM_DEVIATE_TRUNCATED_NORMAL ||
      (dtype != RM_FLOAT32 && dtype != RM_FLOAT64 && dtype != RM_INT32 && dtype != RM_INT64)) {
    return rm_fail(RM_BAD_ARGUMENT, "deviates: no kind %d of dtype %d", ctx.kind, dtype);
  }
  const ptrdiff_t checked = ctx.each_b || ctx.each_c ? ctx.length : 1;
  for (ptrdiff_t i = 0; i < checked; i++) {
    if (is_valid(ctx.kind, ctx.b[i * ctx.each_b], ctx.c[i * ctx.each_c])) continue;
    attributes[0] = (double)i;
    return RM_OK;
  }
  rm_parallel(rm_ceil_div(ctx.length, TASK_ELEMENTS), 20.0 * (double)ctx.length, deviate_task,
              &ctx);
  attributes[0] = -1;
  return RM_OK;
}

/* ---- categorical numbers --------------------------------------------------------------------- */

/* Writes the running sums of the weights of a row; false if they have no finite positive sum. */
static bool make_sums(const rm_deviate_loops *loops, const double *row, ptrdiff_t n, bool is_logits,
                      double *sums) {
  double sum = 0;
  if (!is_logits) {
    for (ptrdiff_t k = 0; k < n; k++) {
      if (!(row[k] >= 0)) return false;
      sums[k] = sum += row[k];
    }
    return sum > 0 && sum < __builtin_inf();
  }
  double max = -__builtin_inf();
  for (ptrdiff_t k = 0; k < n; k++) {
    if (row[k] != row[k]) return false;
    if (row[k] > max) max = row[k];
  }
  if (__builtin_fabs(max) == __builtin_inf()) return false;
  loops->exps(n, row, max, sums);
  for (ptrdiff_t k = 0; k < n; k++) sums[k] = sum += sums[k];
  return true;
}

static int32_t place_of(const double *sums, ptrdiff_t n, double value) {
  ptrdiff_t low = 0, high = n - 1;
  while (low < high) {
    const ptrdiff_t middle = (low + high) >> 1;
    if (sums[middle] > value) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return (int32_t)low;
}

int32_t rm_categorical(const rm_call *call) {
  double *attributes = call->numbers + RM_ATTRIBUTES;
  const ptrdiff_t draws = (ptrdiff_t)attributes[0], rows = (ptrdiff_t)attributes[1];
  const ptrdiff_t n = (ptrdiff_t)attributes[2];
  const bool is_logits = attributes[3] != 0;
  const uint32_t *key = (const uint32_t *)call->buffers[1] + (ptrdiff_t)attributes[4];
  const double *weights = (const double *)call->buffers[2] + (ptrdiff_t)attributes[5];
  int32_t *out = call->buffers[0];
  if (call->dtypes[0] != RM_INT32 || call->dtypes[1] != RM_UINT32 ||
      call->dtypes[2] != RM_FLOAT64) {
    return rm_fail(RM_BAD_ARGUMENT, "categorical: no numbers of dtype %d", call->dtypes[0]);
  }
  double *sums = malloc((size_t)n * sizeof *sums);
  if (sums == NULL) return rm_fail(RM_OUT_OF_MEMORY, "categorical: no memory for %.0f sums", (double)n);
  const rm_deviate_loops *loops = rm_isa_kernels()->deviate_loops;
  const int32_t first = 0;
  ptrdiff_t bad = -1;
  /* In two passes, so that nothing is written if a row is invalid. */
  for (int pass = rows == 1; pass < 2 && bad < 0; pass++) {
    for (ptrdiff_t r = 0; r < rows && bad < 0; r++) {
      if (!make_sums(loops, weights + r * n, n, is_logits, sums)) {
        bad = r;
      } else if (pass == 1) {
        for (ptrdiff_t s = 0; s < draws; s++) {
          uint32_t words[4];
          loops->words(key, (const uint32_t[]){0, LANE}, (uint64_t)(s * rows + r), &first, 1, words);
          out[s * rows + r] = place_of(sums, n, bits53(words + 2) * 0x1p-53 * sums[n - 1]);
        }
      }
    }
  }
  free(sums);
  attributes[0] = (double)bad;
  return RM_OK;
}
