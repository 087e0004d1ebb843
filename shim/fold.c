/*
 * Reductions of floats: accumulators are doubles whatever the dtype, compensated where ops.def
 * asks for it and the elements are doubles themselves.
 *
 * Knows nothing of what an op means: that is in ops.def.
 */
#include <math.h>
#include "internal.h"

/* Lanes that fold side by side, so that the compiler can use vectors without reordering. */
enum { LANES = 16 };
/* Elements that are folded plainly between two compensated additions. */
enum { BLOCK = 256 };
/* Columns of a reduction across rows that have their accumulators at once. */
enum { COLUMNS = 256 };

typedef struct {
  double sum;
  double error;
} accumulator;

typedef struct {
  /* Folds n elements into one accumulator. */
  void (*run)(ptrdiff_t n, const void *a, ptrdiff_t sa, const void *b, ptrdiff_t sb,
              accumulator *to);
  /* Folds one element into each of n accumulators. */
  void (*columns)(ptrdiff_t n, const void *a, ptrdiff_t sa, const void *b, ptrdiff_t sb,
                  double *sums, double *errors);
  /* Stores n finished accumulators; the stride is in elements. */
  void (*store)(ptrdiff_t n, void *out, ptrdiff_t stride, const double *sums, const double *errors,
                const double *attributes);
  double start;
  int operands;
  int32_t dtypes;
} entry;

/* Knuth's TwoSum: the rounding error of sum + x goes to error. */
static inline void add_exactly(double *sum, double *error, double x) {
  double s = *sum + x, w = s - *sum;
  *error += (*sum - (s - w)) + (x - w);
  *sum = s;
}

/* After an infinity the error is NaN, and the plain sum is right. */
static inline double corrected(double sum, double error) {
  return error - error == 0 ? sum + error : sum;
}

#define SECOND_1(i) 0
#define SECOND_2(i) (double)q[i]
#define ELEMENT(name, arity, i, ia, ib) map_##name((double)p[ia], SECOND_##arity(ib))

/* Folds whole groups of LANES elements from i on. */
#define FOLD_LANES(name, arity, ia, ib) \
  for (; i + LANES <= end; i += LANES) { \
    for (ptrdiff_t l = 0; l < LANES; l++) { \
      lane[l] = fold_##name(lane[l], ELEMENT(name, arity, i, ia, ib)); \
    } \
  }

#define REDUCE_KERNELS(name, suffix, T, arity, start, compensated) \
  static void run_##name##suffix(ptrdiff_t n, const void *a, ptrdiff_t sa, const void *b, \
                                 ptrdiff_t sb, accumulator *to) { \
    const T *p = a, *q = b; \
    (void)q, (void)sb; \
    for (ptrdiff_t i = 0; i < n;) { \
      const ptrdiff_t end = compensated && n - i > BLOCK ? i + BLOCK : n; \
      double lane[LANES]; \
      for (int l = 0; l < LANES; l++) lane[l] = start; \
      if (sa == 1 && sb == 1) FOLD_LANES(name, arity, i + l, i + l) \
      else FOLD_LANES(name, arity, (i + l) * sa, (i + l) * sb) \
      for (; i < end; i++) lane[0] = fold_##name(lane[0], ELEMENT(name, arity, i, i * sa, i * sb)); \
      for (int half = LANES / 2; half > 0; half /= 2) { \
        for (int l = 0; l < half; l++) lane[l] = fold_##name(lane[l], lane[l + half]); \
      } \
      if (compensated) add_exactly(&to->sum, &to->error, lane[0]); \
      else to->sum = fold_##name(to->sum, lane[0]); \
    } \
  } \
  static void columns_##name##suffix(ptrdiff_t n, const void *a, ptrdiff_t sa, const void *b, \
                                     ptrdiff_t sb, double *sums, double *errors) { \
    const T *p = a, *q = b; \
    (void)q, (void)sb, (void)errors; \
    for (ptrdiff_t i = 0; i < n; i++) { \
      const double x = ELEMENT(name, arity, i, i * sa, i * sb); \
      if (compensated) add_exactly(&sums[i], &errors[i], x); \
      else sums[i] = fold_##name(sums[i], x); \
    } \
  } \
  static void store_##name##suffix(ptrdiff_t n, void *out, ptrdiff_t stride, const double *sums, \
                                   const double *errors, const double *attributes) { \
    T *o = out; \
    (void)errors; \
    for (ptrdiff_t i = 0; i < n; i++) { \
      const double sum = compensated ? corrected(sums[i], errors[i]) : sums[i]; \
      o[i * stride] = (T)finish_##name(sum, attributes); \
    } \
  }

#define RM_FLOAT_REDUCE(id, name, arity, start, compensated, map, fold, finish, ...) \
  static inline double map_##name(double x, double y) { \
    (void)y; \
    return map; \
  } \
  static inline double fold_##name(double a, double x) { return fold; } \
  static inline double finish_##name(double a, const double *attributes) { \
    (void)attributes; \
    __VA_ARGS__ \
    return finish; \
  } \
  REDUCE_KERNELS(name, _f32, float, arity, start, 0) \
  REDUCE_KERNELS(name, _f64, double, arity, start, compensated)
#include "ops.def"
#undef RM_FLOAT_REDUCE

#define DTYPES_1(T) 2, RM_DTYPES(T, T, T, RM_NONE, RM_NONE)
#define DTYPES_2(T) 3, RM_DTYPES(T, T, T, T, RM_NONE)
#define ENTRY(name, suffix, T, arity, start) \
  {run_##name##suffix, columns_##name##suffix, store_##name##suffix, start, DTYPES_##arity(T)}

/* By opcode, then float32, float64. */
static const entry entries[RM_ROWS][2] = {
#define RM_FLOAT_REDUCE(id, name, arity, start, compensated, map, fold, finish, ...) \
  [id][0] = ENTRY(name, _f32, RM_FLOAT32, arity, start), \
  [id][1] = ENTRY(name, _f64, RM_FLOAT64, arity, start),
#include "ops.def"
#undef RM_FLOAT_REDUCE
};

static const entry *find(int32_t opcode, int32_t dtypes) {
  int32_t compute = dtypes & 15;
  int slot = compute == RM_FLOAT32 ? 0 : compute == RM_FLOAT64 ? 1 : -1;
  if (opcode < 0 || opcode >= RM_ROWS || slot < 0) return NULL;
  const entry *found = &entries[opcode][slot];
  return found->run != NULL && found->dtypes == dtypes ? found : NULL;
}

static ptrdiff_t magnitude(ptrdiff_t step) { return step < 0 ? -step : step; }

/* Each output folds its own elements, runs of the innermost axis at a time. */
static void reduce_along(const rm_walk *walk, const entry *op, int kept, const double *attributes) {
  int inner = walk->rank - 1;
  ptrdiff_t n = kept == walk->rank ? 1 : walk->size[inner];
  ptrdiff_t count[RM_MAX_RANK] = {0};
  char *at[RM_MAX_OPERANDS] = {walk->start[0], walk->start[1], walk->start[2], NULL};
  /* Without a second operand its stride must not keep the dense loop from running. */
  ptrdiff_t sb = walk->operands == 3 ? walk->inner[2] : walk->inner[1];
  do {
    accumulator to = {op->start, 0};
    do op->run(n, at[1], walk->inner[1], at[2], sb, &to);
    while (rm_next(walk, kept, inner, count, at));
    op->store(1, at[0], 1, &to.sum, &to.error, attributes);
  } while (rm_next(walk, 0, kept, count, at));
}

/* Rows of the input are read whole, one accumulator per column. */
static void reduce_across(const rm_walk *walk, const entry *op, int kept,
                          const ptrdiff_t *strides, const double *attributes) {
  int column = kept - 1;
  ptrdiff_t width = walk->size[column];
  ptrdiff_t count[RM_MAX_RANK] = {0};
  char *at[RM_MAX_OPERANDS] = {walk->start[0], walk->start[1], walk->start[2], NULL};
  do {
    for (ptrdiff_t i = 0; i < width; i += COLUMNS) {
      ptrdiff_t n = width - i < COLUMNS ? width - i : COLUMNS;
      double sums[COLUMNS], errors[COLUMNS];
      for (ptrdiff_t j = 0; j < n; j++) {
        sums[j] = op->start;
        errors[j] = 0;
      }
      char *part[RM_MAX_OPERANDS] = {NULL};
      for (int k = 0; k < walk->operands; k++) part[k] = at[k] + i * walk->step[column][k];
      do op->columns(n, part[1], strides[1], part[2], strides[2], sums, errors);
      while (rm_next(walk, kept, walk->rank, count, part));
      op->store(n, part[0], strides[0], sums, errors, attributes);
    }
  } while (rm_next(walk, 0, column, count, at));
}

int32_t RM_AT(fold)(int32_t opcode, int32_t dtypes, int32_t kept, const double *plan, void *out,
                  const void *a, const void *b);
int32_t RM_AT(fold)(int32_t opcode, int32_t dtypes, int32_t kept, const double *plan, void *out,
                  const void *a, const void *b) {
  const entry *op = find(opcode, dtypes);
  if (op == NULL) return RM_UNSUPPORTED;
  void *const buffers[RM_MAX_OPERANDS] = {out, (void *)a, (void *)b, NULL};
  rm_walk walk = {.start = {NULL}};
  int32_t status = rm_read_plan(&walk, plan, op->operands, dtypes, buffers);
  if (status != RM_OK) return status;
  if (kept < 0 || kept > walk.rank) {
    return rm_fail(RM_BAD_ARGUMENT, "%d of %d axes are kept", (int)kept, walk.rank);
  }
  /* What an empty reduction gives is for the caller to say. */
  if (walk.empty) return RM_UNSUPPORTED;
  const double *attributes = plan + RM_ATTRIBUTES;
  bool across = kept > 0 && kept < walk.rank && walk.size[kept - 1] >= 16 &&
                magnitude(walk.step[kept - 1][1]) < magnitude(walk.step[walk.rank - 1][1]);
  if (!across) {
    reduce_along(&walk, op, kept, attributes);
    return RM_OK;
  }
  ptrdiff_t strides[RM_MAX_OPERANDS] = {0};
  const double *elements = plan + RM_OFFSETS + walk.operands + walk.rank + kept - 1;
  for (int k = 0; k < walk.operands; k++) strides[k] = (ptrdiff_t)elements[k * walk.rank];
  reduce_across(&walk, op, kept, strides, attributes);
  return RM_OK;
}
