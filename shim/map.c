/*
 * Elementwise ops: one strided row kernel per line of ops.def and dtype, one walk for all of them.
 *
 * Knows nothing of what an op means: that is in ops.def.
 */
#include "internal.h"

/* Runs n elements; strides in elements, the output's first. */
typedef void (*row_kernel)(ptrdiff_t n, void *out, const void *a, const void *b, const void *c,
                           const ptrdiff_t *strides);

typedef struct {
  row_kernel kernel;
  int operands;
  int32_t dtypes;
} entry;

#define ROW(name) \
  static void name(ptrdiff_t n, void *out, const void *a, const void *b, const void *c, \
                   const ptrdiff_t *strides)

#define EACH(R, expr, at, x_at, y_at, z_at) \
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) { \
    x_at; y_at; z_at; \
    o[at] = (R)(expr); \
  }

/* Dense, one element for all, anything. Names that an expression leaves out must not warn. */
#define KERNEL_1(name, T, R, expr) \
  ROW(name) { \
    R *o = out; \
    const T *p = a; \
    const ptrdiff_t so = strides[0], sa = strides[1]; \
    (void)b, (void)c; \
    if (so == 1 && sa == 1) EACH(R, expr, i, const T x = p[i]; (void)x, , ) \
    else if (so == 1 && sa == 0) { \
      const T x = p[0]; \
      (void)x; \
      EACH(R, expr, i, , , ) \
    } else EACH(R, expr, i * so, const T x = p[i * sa]; (void)x, , ) \
  }

#define KERNEL_2(name, T, R, expr) \
  ROW(name) { \
    R *o = out; \
    const T *p = a, *q = b; \
    const ptrdiff_t so = strides[0], sa = strides[1], sb = strides[2]; \
    (void)c; \
    if (so == 1 && sa == 1 && sb == 1) EACH(R, expr, i, const T x = p[i], const T y = q[i], ) \
    else if (so == 1 && sa == 1 && sb == 0) { \
      const T y = q[0]; \
      EACH(R, expr, i, const T x = p[i], , ) \
    } else if (so == 1 && sa == 0 && sb == 1) { \
      const T x = p[0]; \
      EACH(R, expr, i, , const T y = q[i], ) \
    } else EACH(R, expr, i * so, const T x = p[i * sa], const T y = q[i * sb], ) \
  }

#define KERNEL_THREE(name, X, T, R, expr) \
  ROW(name) { \
    R *o = out; \
    const X *p = a; \
    const T *q = b, *r = c; \
    const ptrdiff_t so = strides[0], sa = strides[1], sb = strides[2], sc = strides[3]; \
    if (so == 1 && sa == 1 && sb == 1 && sc == 1) \
      EACH(R, expr, i, const X x = p[i], const T y = q[i], const T z = r[i]) \
    else \
      EACH(R, expr, i * so, const X x = p[i * sa], const T y = q[i * sb], const T z = r[i * sc]) \
  }
#define KERNEL_3(name, T, R, expr) KERNEL_THREE(name, T, T, R, expr)
#define KERNEL_3c(name, T, R, expr) KERNEL_THREE(name, uint8_t, T, R, expr)

#define RESULT_same(T) T
#define RESULT_bool(T) uint8_t

#define RM_FLOAT_MAP(id, name, arity, result, expr) \
  KERNEL_##arity(name##_f32, float, RESULT_##result(float), expr) \
  KERNEL_##arity(name##_f64, double, RESULT_##result(double), expr)
#define RM_INT_MAP(id, name, arity, result, expr) \
  KERNEL_##arity(name##_i32, int32_t, RESULT_##result(int32_t), expr)
#include "ops.def"
#undef RM_FLOAT_MAP
#undef RM_INT_MAP

#define OUT_same(T) T
#define OUT_bool(T) RM_BOOL
#define DTYPES_1(T, out) 2, RM_DTYPES(T, out, T, RM_NONE, RM_NONE)
#define DTYPES_2(T, out) 3, RM_DTYPES(T, out, T, T, RM_NONE)
#define DTYPES_3(T, out) 4, RM_DTYPES(T, out, T, T, T)
#define DTYPES_3c(T, out) 4, RM_DTYPES(T, out, RM_BOOL, T, T)

/* By opcode, then float32, float64, int32. */
static const entry entries[RM_ROWS][3] = {
#define RM_FLOAT_MAP(id, name, arity, result, expr) \
  [id][0] = {name##_f32, DTYPES_##arity(RM_FLOAT32, OUT_##result(RM_FLOAT32))}, \
  [id][1] = {name##_f64, DTYPES_##arity(RM_FLOAT64, OUT_##result(RM_FLOAT64))},
#define RM_INT_MAP(id, name, arity, result, expr) \
  [id][2] = {name##_i32, DTYPES_##arity(RM_INT32, OUT_##result(RM_INT32))},
#include "ops.def"
#undef RM_FLOAT_MAP
#undef RM_INT_MAP
};

static const entry *find(int32_t opcode, int32_t dtypes) {
  int32_t compute = dtypes & 15;
  int slot = compute == RM_FLOAT32 ? 0 : compute == RM_FLOAT64 ? 1 : compute == RM_INT32 ? 2 : -1;
  if (opcode < 0 || opcode >= RM_ROWS || slot < 0) return NULL;
  const entry *found = &entries[opcode][slot];
  return found->kernel != NULL && found->dtypes == dtypes ? found : NULL;
}

enum { TILE = 32, TILE_LEAST = 16 };

static ptrdiff_t magnitude(ptrdiff_t step) { return step < 0 ? -step : step; }

/* True when an operand is denser along the last axis but one, so that whole rows would waste most
 * of each cache line. */
static bool wants_tiles(const rm_walk *walk) {
  int v = walk->rank - 1, u = v - 1;
  if (u < 0 || walk->size[u] < TILE_LEAST || walk->size[v] < TILE_LEAST) return false;
  for (int k = 1; k < walk->operands; k++) {
    ptrdiff_t along = magnitude(walk->step[u][k]);
    if (along != 0 && along < magnitude(walk->step[v][k])) return true;
  }
  return false;
}

static void run_tiles(const rm_walk *walk, row_kernel kernel, char *const *at) {
  int v = walk->rank - 1, u = v - 1;
  ptrdiff_t rows = walk->size[u], columns = walk->size[v];
  for (ptrdiff_t i = 0; i < rows; i += TILE) {
    ptrdiff_t end = i + TILE < rows ? i + TILE : rows;
    for (ptrdiff_t j = 0; j < columns; j += TILE) {
      ptrdiff_t width = columns - j < TILE ? columns - j : TILE;
      for (ptrdiff_t row = i; row < end; row++) {
        char *p[RM_MAX_OPERANDS] = {NULL};
        for (int k = 0; k < walk->operands; k++) {
          p[k] = at[k] + row * walk->step[u][k] + j * walk->step[v][k];
        }
        kernel(width, p[0], p[1], p[2], p[3], walk->inner);
      }
    }
  }
}

int32_t RM_AT(map)(int32_t opcode, int32_t dtypes, const double *plan, void *out, const void *a,
               const void *b, const void *c);
int32_t RM_AT(map)(int32_t opcode, int32_t dtypes, const double *plan, void *out, const void *a,
               const void *b, const void *c) {
  const entry *op = find(opcode, dtypes);
  if (op == NULL) return RM_UNSUPPORTED;
  void *const buffers[RM_MAX_OPERANDS] = {out, (void *)a, (void *)b, (void *)c};
  rm_walk walk;
  int32_t status = rm_read_plan(&walk, plan, op->operands, dtypes, buffers);
  if (status != RM_OK || walk.empty) return status;
  char *at[RM_MAX_OPERANDS] = {NULL};
  for (int k = 0; k < walk.operands; k++) at[k] = walk.start[k];
  if (walk.rank <= 1) {
    op->kernel(walk.rank == 0 ? 1 : walk.size[0], at[0], at[1], at[2], at[3], walk.inner);
    return RM_OK;
  }
  ptrdiff_t count[RM_MAX_RANK] = {0};
  if (wants_tiles(&walk)) {
    do run_tiles(&walk, op->kernel, at);
    while (rm_next(&walk, 0, walk.rank - 2, count, at));
    return RM_OK;
  }
  ptrdiff_t n = walk.size[walk.rank - 1];
  do op->kernel(n, at[0], at[1], at[2], at[3], walk.inner);
  while (rm_next(&walk, 0, walk.rank - 1, count, at));
  return RM_OK;
}
