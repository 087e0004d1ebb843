/*
 * Matrix products: by OpenBLAS, or by own kernels where those are faster.
 */
#include "internal.h"
#include "matmul_plan.h"

/*
 * Whether own kernels are at least as fast as OpenBLAS, as measured. Products with a vector are
 * memory-bound in both; GEMM has no fast path for them. Tiny products cost less than the call of
 * GEMM, and products with a tiny right matrix cost less than its packing. For matrices that are not
 * thin, OpenBLAS is faster only above a size that depends on the instruction set; the limit is
 * lower where own kernels copy rows of the left matrix. Batches of small products run on all
 * threads, whereas OpenBLAS would compute each with one thread.
 */
static bool own_is_faster(const double *plan) {
  const double products = plan[RM_M] * plan[RM_N] * plan[RM_K], batch = plan[RM_BATCH];
  if (plan[RM_M] == 1 || plan[RM_N] == 1) return true;
  if (products <= (batch > 1 ? 16 * 16 * 16 : 8 * 8 * 8)) return true;
  if (plan[RM_N] <= 8 && plan[RM_K] <= 8 && plan[RM_C_COLUMN] == 1 &&
      (plan[RM_B_COLUMN] == 1 || (batch == 1 && plan[RM_M] > 32))) {
    return true;
  }
  const double stride = plan[RM_C_COLUMN] == 1 ? plan[RM_A_COLUMN] : plan[RM_B_ROW];
  const double limit = rm_isa_kernels()->max_own_matmul / (stride == 1 ? 1 : 8);
  if (plan[RM_M] >= 24 && plan[RM_N] >= 24 && products <= limit) return true;
  return batch > 1 && products <= 128 * 128 * 128 && products * batch >= 1 << 20 &&
         rm_threads() > 1;
}

int32_t rm_matmul(const rm_call *call) {
  void *const *buffers = call->buffers;
  if (buffers[0] == NULL || buffers[1] == NULL || buffers[2] == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "an operand has no memory");
  }
  const int dtype = call->dtypes[0];
  rm_call collapsed = *call;
  double one[RM_MATMUL_FIELDS + 3];
  const double *plan = call->numbers, *at = plan + RM_MATMUL_FIELDS;
  if (rm_collapse_batch(plan, at, one)) {
    const ptrdiff_t batch = (ptrdiff_t)plan[RM_BATCH];
    for (int i = 0; i < 3; i++) one[RM_MATMUL_FIELDS + i] = at[i * batch];
    plan = collapsed.numbers = one;
    at = one + RM_MATMUL_FIELDS;
  }
  const rm_blas_state state = rm_blas_status();
  if (state != RM_BLAS_CLOSED && (dtype == RM_FLOAT32 || dtype == RM_FLOAT64) &&
      (state == RM_BLAS_ALWAYS || !own_is_faster(plan)) &&
      rm_blas_multiply(dtype, plan, at, buffers[0], buffers[1], buffers[2])) {
    return RM_OK;
  }
  return rm_isa_kernels()->matmul(&collapsed);
}
