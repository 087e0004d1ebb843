/*
 * Calls of linear algebra: batches as tasks, failures, and products by the kernels of matmul.
 */
#include <stdlib.h>
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

/* Whether own code computes a call of floats in double. */
static bool is_widened(const rm_linalg *ctx) {
  return ctx->dtype == RM_FLOAT32 && ctx->kind >= RM_LINALG_EIGH && ctx->kind <= RM_LINALG_SVDVALS;
}

/* Matrices of floats as doubles, and their results as floats. */
static void run_wide(void *context, ptrdiff_t task) {
  rm_linalg *ctx = context;
  const ptrdiff_t m = ctx->m, n = ctx->n, least = rm_min(m, n);
  const ptrdiff_t first = task * ctx->per_task, count = rm_min(ctx->per_task, ctx->batch - first);
  const ptrdiff_t parts = ctx->type == RM_LINALG_C64 ? 2 : 1;
  const bool is_svd = ctx->kind == RM_LINALG_SVD, is_eigh = ctx->kind == RM_LINALG_EIGH;
  /* The numbers of a matrix, and of its results. */
  const ptrdiff_t sizes[4] = {m * n * parts,
                              is_svd ? m * (ctx->flag ? m : least) * parts : least,
                              is_svd ? least : is_eigh ? n * n * parts : 0,
                              is_svd ? n * (ctx->flag ? n : least) * parts : 0};
  const ptrdiff_t all = sizes[0] + sizes[1] + sizes[2] + sizes[3] + 1;
  double *const memory = malloc((size_t)(count * all) * sizeof *memory);
  if (memory == NULL) {
    atomic_store(&ctx->no_memory, true);
    return;
  }
  double *at = memory + count, *const results = at + count * sizes[0];
  const float *const from = ctx->call->buffers[1];
  for (ptrdiff_t k = 0; k < count; k++) {
    const float *x = from + (ptrdiff_t)ctx->a_at[first + k] * parts;
    memory[k] = (double)(k * m * n);
    for (ptrdiff_t j = 0; j < n; j++) {
      for (ptrdiff_t i = 0; i < m * parts; i++) {
        *at++ = (double)x[(i / parts * ctx->a_row + j * ctx->a_column) * parts + i % parts];
      }
    }
  }
  double *const second = results + count * sizes[1];
  void *const buffers[RM_MAX_BUFFERS] = {results, memory + count, NULL, second, second + count * sizes[2]};
  rm_call call = *ctx->call;
  call.buffers = buffers;
  const double starts[3] = {0, 0, 0};
  rm_linalg wide = {.call = &call,
                    .blas = (*rm_isa_kernels()->linalg)[ctx->type + 1],
                    .type = ctx->type + 1,
                    .kind = ctx->kind,
                    .dtype = RM_FLOAT64,
                    .flag = ctx->flag,
                    .m = m,
                    .n = n,
                    .batch = count,
                    .per_task = ctx->wide_lapack ? 1 : count,
                    .a_row = 1,
                    .a_column = m,
                    .a_at = memory,
                    .out_at = starts,
                    .failure = -1};
  for (ptrdiff_t k = 0; k * wide.per_task < count; k++) {
    if (!ctx->wide_lapack || !rm_lapack_run(&wide, k)) own_tasks[wide.type](&wide, k);
  }
  for (int i = 0; i < 3; i++) {
    if (sizes[i + 1] == 0) continue;
    const double *x = i == 0 ? results : buffers[i + 2];
    /* Singular values and eigenvalues are real. */
    const ptrdiff_t offset = (ptrdiff_t)ctx->out_at[i] * (i == is_svd ? 1 : parts);
    float *to = (float *)ctx->call->buffers[i == 0 ? 0 : i + 2] + offset + first * sizes[i + 1];
    for (ptrdiff_t k = 0; k < count * sizes[i + 1]; k++) to[k] = (float)x[k];
  }
  const double failure = atomic_load(&wide.failure);
  if (failure >= 0) {
    const ptrdiff_t place = (ptrdiff_t)failure;
    rm_linalg_fail(ctx, first + place / (m + 1), place % (m + 1));
  }
  if (atomic_load(&wide.no_memory)) atomic_store(&ctx->no_memory, true);
  free(memory);
}

static rm_linalg_task *own_task(const rm_linalg *ctx) {
  return is_widened(ctx) ? run_wide : own_tasks[ctx->type];
}

/* A matrix by LAPACK, or by own code if that gives no result. */
static void run_lapack(void *context, ptrdiff_t index) {
  const rm_linalg *ctx = context;
  if (!rm_lapack_run(ctx, index)) own_task(ctx)(context, index);
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
  /* As doubles, or as they are. */
  const bool is_wide = is_widened(&ctx) && rm_min(ctx.m, ctx.n) <= RM_LINALG_WIDE;
  ctx.type += is_wide;
  const bool by_lapack = rm_lapack_takes(&ctx);
  ctx.type = type;
  ctx.wide_lapack = is_wide && by_lapack;
  if (by_lapack) ctx.per_task = 1;
  tasks all = {by_lapack && !is_wide ? run_lapack : own_task(&ctx), &ctx, rm_ceil_div(batch, ctx.per_task),
               each * (double)batch};
  /* Threads of LAPACK spin while they wait for each other, after each of many small steps. On a
   * busy machine they take many times as long as one thread, and smaller matrices gain little. A
   * product of complex numbers is four of real ones. */
  const bool is_alone = batch > 1 || size * (is_complex ? 4 : 1) < 0x1p28;
  if (!by_lapack || !rm_lapack_call(run_tasks, &all, is_alone)) {
    all.task = own_task(&ctx);
    ctx.wide_lapack = false;
    run_tasks(&all);
  }
  rm_attributes(call)[RM_LINALG_AT_FAILURE] = atomic_load(&ctx.failure);
  return atomic_load(&ctx.no_memory) ? rm_fail(RM_OUT_OF_MEMORY, "linalg: no memory") : RM_OK;
}
