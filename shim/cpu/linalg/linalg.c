/*
 * Calls of linear algebra: batches as tasks, failures, and products by the kernels of matmul.
 */
#include "lapack.h"
#include "linalg.h"
#include "matmul_plan.h"

int rm_exponent(double x) {
  int exponent = 0;
  if (x - x == 0) frexp(x, &exponent);
  return exponent;
}

void rm_times(double *re, double *im, double x, double y) {
  /* Not by 0: of infinity that is NaN. */
  const bool is_real = y == 0 && *im == 0;
  const double p = is_real ? *re * x : *re * x - *im * y;
  *im = is_real ? 0 : *re * y + *im * x;
  *re = p;
}

int rm_times_scaled(double *re, double *im, double x, double y, int exponent) {
  double p = *re, q = *im;
  rm_times(&p, &q, x, y);
  const double size = fmax(fabs(p), fabs(q));
  if (!(size > 0x1p-900 && size < 0x1p900)) {
    const int own = rm_exponent(fmax(fabs(*re), fabs(*im))), other = rm_exponent(fmax(fabs(x), fabs(y)));
    p = ldexp(*re, -own), q = ldexp(*im, -own);
    rm_times(&p, &q, ldexp(x, -other), ldexp(y, -other));
    exponent += own + other;
  }
  *re = p, *im = q;
  return exponent;
}

void rm_linalg_fail(rm_linalg *ctx, ptrdiff_t matrix, ptrdiff_t pivot) {
  const double place = (double)matrix * ((double)ctx->m + 1) + (double)pivot;
  double before = atomic_load(&ctx->failure);
  while ((before < 0 || place < before) &&
         !atomic_compare_exchange_weak(&ctx->failure, &before, place)) {
  }
}

bool rm_linalg_product(int dtype, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, void *c, ptrdiff_t ldc,
                       const void *a, ptrdiff_t a_row, ptrdiff_t a_column, const void *b,
                       ptrdiff_t b_row, ptrdiff_t b_column) {
  /* The transpose, whose rows are contiguous: c' = b' a'. */
  double numbers[RM_MATMUL_FIELDS + 3] = {
      [RM_M] = (double)n,           [RM_N] = (double)m,          [RM_K] = (double)k,
      [RM_BATCH] = 1,               [RM_C_ROW] = (double)ldc,    [RM_C_COLUMN] = 1,
      [RM_A_ROW] = (double)b_column, [RM_A_COLUMN] = (double)b_row, [RM_B_ROW] = (double)a_column,
      [RM_B_COLUMN] = (double)a_row,
  };
  const int dtypes[RM_MAX_OPERANDS] = {dtype, dtype, dtype, RM_NONE};
  void *const buffers[RM_MAX_OPERANDS] = {c, (void *)b, (void *)a, NULL};
  const rm_call call = {.op = RM_OP_matmul,
                        .compute = dtype,
                        .operands = RM_MAX_OPERANDS,
                        .dtypes = dtypes,
                        .numbers = numbers,
                        .buffers = buffers};
  return rm_isa_kernels()->own_matmul(&call) == RM_OK;
}

static rm_linalg_task *const own_tasks[RM_LINALG_TYPES] = {rm_linalg_f32, rm_linalg_f64,
                                                           rm_linalg_c64, rm_linalg_c128};

/* A matrix by LAPACK, or by own code if that gives no result. */
static void run_lapack(void *context, ptrdiff_t index) {
  const rm_linalg *ctx = context;
  if (!rm_lapack_run(ctx, index)) own_tasks[ctx->type](context, index);
}

typedef struct {
  rm_linalg_task *task;
  rm_linalg *ctx;
  ptrdiff_t count;
  double work;
} tasks;

static void run_tasks(void *data) {
  const tasks *all = data;
  rm_parallel(all->count, all->work, all->task, all->ctx);
}

int32_t rm_linear_algebra(const rm_call *call) {
  const double *at = rm_attributes(call);
  const int dtype = call->dtypes[1];
  if (dtype != RM_FLOAT32 && dtype != RM_FLOAT64) {
    return rm_fail(RM_BAD_ARGUMENT, "linalg: dtype %d", dtype);
  }
  const bool is_complex = at[RM_LINALG_AT_COMPLEX] != 0;
  const int type = (dtype == RM_FLOAT64 ? RM_LINALG_F64 : RM_LINALG_F32) + (is_complex ? 2 : 0);
  const ptrdiff_t batch = (ptrdiff_t)at[RM_LINALG_AT_BATCH];
  rm_linalg ctx = {
      .call = call,
      .blas = (*rm_isa_kernels()->linalg)[type],
      .type = type,
      .kind = (int)at[RM_LINALG_AT_KIND],
      .dtype = dtype,
      .flag = at[RM_LINALG_AT_FLAG] != 0,
      .unit = at[RM_LINALG_AT_UNIT] != 0,
      .m = (ptrdiff_t)at[RM_LINALG_AT_M],
      .n = (ptrdiff_t)at[RM_LINALG_AT_N],
      .k = (ptrdiff_t)at[RM_LINALG_AT_K],
      .batch = batch,
      .a_row = (ptrdiff_t)at[RM_LINALG_AT_A_ROW],
      .a_column = (ptrdiff_t)at[RM_LINALG_AT_A_COLUMN],
      .b_row = (ptrdiff_t)at[RM_LINALG_AT_B_ROW],
      .b_column = (ptrdiff_t)at[RM_LINALG_AT_B_COLUMN],
      .a_at = at + RM_LINALG_AT_OFFSETS,
      .b_at = at + RM_LINALG_AT_OFFSETS + batch,
      .out_at = at + RM_LINALG_AT_OUT,
      .failure = -1,
  };
  const double size = (double)ctx.m * (double)ctx.n * (double)rm_min(ctx.m, ctx.n);
  /* A matrix per task, or as many as take some microseconds. */
  const double each = 200 + size * (ctx.kind >= RM_LINALG_QR ? 4 : 1);
  ctx.per_task = each >= 20000 ? 1 : (ptrdiff_t)(20000 / each);
  const bool by_lapack = rm_lapack_takes(&ctx);
  if (by_lapack) ctx.per_task = 1;
  tasks all = {by_lapack ? run_lapack : own_tasks[type], &ctx, rm_ceil_div(batch, ctx.per_task),
               each * (double)batch};
  /* Threads of LAPACK spin while they wait for each other, after each of many small steps. On a
   * busy machine they take many times as long as one thread, and smaller matrices gain little. A
   * product of complex numbers is four of real ones. */
  const bool is_alone = batch > 1 || size * (is_complex ? 4 : 1) < 0x1p28;
  if (!by_lapack || !rm_lapack_call(run_tasks, &all, is_alone)) {
    all.task = own_tasks[type];
    run_tasks(&all);
  }
  rm_attributes(call)[RM_LINALG_AT_FAILURE] = atomic_load(&ctx.failure);
  return atomic_load(&ctx.no_memory) ? rm_fail(RM_OUT_OF_MEMORY, "linalg: no memory") : RM_OK;
}
