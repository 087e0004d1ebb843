/*
 * Matrix products on CUDA devices: by cuBLAS, or by cublasLt if a bias or function is applied to
 * the result.
 *
 * Both expect column-major matrices, so a row-major c = a b is computed as c' = b' a'. 16-bit
 * floats are summed in float32, never in less.
 */
#if !defined(__APPLE__)
#include "cuda_blas.h"
#include "matmul_plan.h"
#include <stdlib.h>

/* Plan fields that follow the strides. */
enum { TO = RM_MATMUL_FIELDS, FROM_A, FROM_B, FLAGS, BIAS, OFFSETS };

/* From NVIDIA's headers: CUBLAS_OP_.., CUDA_R_.., CUBLAS_COMPUTE_... */
enum { OP_N = 0, OP_T = 1 };
enum { R_32F = 0, R_64F = 1, R_16F = 2, R_8I = 3, R_32I = 10, R_16BF = 14 };
enum { COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_32I = 72, COMPUTE_32F_FAST_TF32 = 77 };
/* The maximum batch size of cublasLt. */
enum { MAX_LT_BATCH = 65535 };

/* ---- the product ----------------------------------------------------------------------------- */

/* A column-major product: c[i] = op(a[i]) op(b[i]). Steps are those of the batch, in elements. */
typedef struct {
  int type, type_c, compute, size, size_c;
  int op_a, op_b, rows, columns, inner;
  int leading_a, leading_b, leading_c;
  rm_address a, b, c, bias;
  ptrdiff_t batch;
  double step_a, step_b, step_c;
  int flags;
} matmul_call;

static const float one_f32 = 1, zero_f32 = 0;
static const double one_f64 = 1, zero_f64 = 0;
static const int32_t one_i32 = 1;
static const void *one_of(const matmul_call *p) {
  return p->type == R_64F  ? (const void *)&one_f64
         : p->type == R_8I ? (const void *)&one_i32
                           : (const void *)&one_f32;
}
/* The bits of 0 are 0 in every type. */
static const void *zero_of(const matmul_call *p) {
  return p->type == R_64F ? (const void *)&zero_f64 : (const void *)&zero_f32;
}

static void *pointer(rm_address address) { return (void *)(uintptr_t)address; }

/* ---- cuBLAS ---------------------------------------------------------------------------------- */

/* The codes with which versions report that they have no kernel for a product. Invalid arguments
 * have been ruled out before. */
static bool is_unsupported(int code) {
  return code == BLAS_NOT_SUPPORTED || code == BLAS_INVALID_VALUE || code == BLAS_ARCH_MISMATCH;
}

static int32_t result_of(const char *call, int code) {
  if (code == 0) return RM_OK;
  return is_unsupported(code) ? rm_fail(RM_UNSUPPORTED, "%s has no kernel for this product", call)
                              : rm_blas_error(call, code);
}

static int32_t multiply_one(rm_blas_context *blas, const matmul_call *p, rm_address c, rm_address a,
                            rm_address b) {
  return result_of("cublasGemmEx",
                   rm_cu.cublasGemmEx(blas->handle, p->op_a, p->op_b, p->rows, p->columns, p->inner,
                                      one_of(p), pointer(a), p->type, p->leading_a, pointer(b),
                                      p->type, p->leading_b, zero_of(p), pointer(c), p->type_c,
                                      p->leading_c, p->compute, -1));
}

static int32_t multiply_strided(rm_blas_context *blas, const matmul_call *p) {
  return result_of("cublasGemmStridedBatchedEx",
                   rm_cu.cublasGemmStridedBatchedEx(
                       blas->handle, p->op_a, p->op_b, p->rows, p->columns, p->inner, one_of(p),
                       pointer(p->a), p->type, p->leading_a, (long long)p->step_a, pointer(p->b),
                       p->type, p->leading_b, (long long)p->step_b, zero_of(p), pointer(p->c),
                       p->type_c, p->leading_c, (long long)p->step_c, (int)p->batch, p->compute,
                       -1));
}

/* Matrices with irregular spacing: cuBLAS reads their addresses from device memory. at_c, at_a and
 * at_b are their offsets, in the order of p. */
static int32_t multiply_pointers(rm_device *device, const matmul_call *p, const double *at_c,
                                 const double *at_a, const double *at_b) {
  const ptrdiff_t batch = p->batch;
  rm_address *list = malloc((size_t)batch * 3 * sizeof *list);
  if (list == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a product");
  rm_address address_bits = 0;
  for (ptrdiff_t i = 0; i < batch; i++) {
    list[i] = p->c + (rm_address)at_c[i] * (rm_address)p->size_c;
    list[batch + i] = p->a + (rm_address)at_a[i] * (rm_address)p->size;
    list[2 * batch + i] = p->b + (rm_address)at_b[i] * (rm_address)p->size;
    address_bits |= list[i] | list[batch + i] | list[2 * batch + i];
  }
  rm_blas_context *blas = device->blas;
  int32_t status = RM_OK;
  /* Tensor cores need matrices aligned to 16 bytes, which cuBLAS does not check for a list of
   * addresses. */
  const bool unaligned = (address_bits & 15) != 0 && p->type != R_64F;
  if (unaligned || atomic_load(&device->graph) != 0) {
    /* A graph stores arguments, but not a copy of the list. */
    for (ptrdiff_t i = 0; i < batch && status == RM_OK; i++) {
      status = multiply_one(blas, p, list[i], list[batch + i], list[2 * batch + i]);
    }
    free(list);
    return status;
  }
  rm_address device_list = 0;
  const size_t bytes = (size_t)batch * 3 * sizeof *list;
  status = rm_device_alloc(device, (double)bytes, &device_list);
  if (status == RM_OK) {
    status = rm_memory_upload(device, device_list, list, bytes);
    const rm_address step = (rm_address)batch * sizeof *list;
    if (status == RM_OK) {
      const int code = rm_cu.cublasGemmBatchedEx(
          blas->handle, p->op_a, p->op_b, p->rows, p->columns, p->inner, one_of(p),
          pointer(device_list + step), p->type, p->leading_a, pointer(device_list + 2 * step),
          p->type, p->leading_b, zero_of(p), pointer(device_list), p->type_c, p->leading_c,
          (int)batch, p->compute, -1);
      if (code != 0) status = rm_blas_error("cublasGemmBatchedEx", code);
    }
    rm_device_free(device, device_list);
  }
  free(list);
  return status;
}

/* ---- cublasLt -------------------------------------------------------------------------------- */

/* The alignment of an address, up to 256. */
static int alignment_of(rm_address address) {
  const rm_address bit = address & (~address + 1);
  return bit == 0 || bit > 256 ? 256 : (int)bit;
}

static lt_problem lt_problem_of(const matmul_call *p, int epilogue) {
  lt_problem s;
  memset(&s, 0, sizeof s);
  s.rows = p->rows;
  s.columns = p->columns;
  s.inner = p->inner;
  s.leading[0] = p->leading_a;
  s.leading[1] = p->leading_b;
  s.leading[2] = p->leading_c;
  s.batch = p->batch;
  s.step[0] = (int64_t)p->step_a;
  s.step[1] = (int64_t)p->step_b;
  s.step[2] = (int64_t)p->step_c;
  s.type = p->type;
  s.compute = p->compute;
  s.transposed[0] = p->op_a;
  s.transposed[1] = p->op_b;
  s.epilogue = epilogue;
  s.alignment[0] = alignment_of(p->a);
  s.alignment[1] = alignment_of(p->b);
  s.alignment[2] = alignment_of(p->c);
  s.alignment[3] = p->bias == 0 ? 0 : alignment_of(p->bias);
  return s;
}

static int make_layout(void **layout, const matmul_call *p, int rows, int columns, int leading,
                       double step) {
  enum { BATCH_COUNT = 5, BATCH_STEP = 6 };
  const int32_t batch = (int32_t)p->batch;
  const int64_t elements = (int64_t)step;
  int code = rm_cu.cublasLtMatrixLayoutCreate(layout, p->type, (uint64_t)rows, (uint64_t)columns,
                                              leading);
  if (code == 0 && batch > 1) {
    code = rm_cu.cublasLtMatrixLayoutSetAttribute(*layout, BATCH_COUNT, &batch, sizeof batch);
    if (code == 0) {
      code = rm_cu.cublasLtMatrixLayoutSetAttribute(*layout, BATCH_STEP, &elements,
                                                    sizeof elements);
    }
  }
  return code;
}

/* Queries the best algorithm. Returns the code of a failure. */
static int choose_algorithm(const rm_blas_context *blas, const lt_problem *s, void *description,
                            void *const *layouts, lt_algorithm *to) {
  enum { MAX_WORKSPACE = 1, REDUCTIONS = 3, ALIGNMENT_A = 5 };
  /* Partial sums have the type of the sums, never that of the result. */
  const uint32_t reductions = 2;
  void *preference = NULL;
  int found = 0, code = rm_cu.cublasLtMatmulPreferenceCreate(&preference);
  if (code != 0) return code;
  code = rm_cu.cublasLtMatmulPreferenceSetAttribute(preference, MAX_WORKSPACE, &WORKSPACE_BYTES,
                                                    sizeof WORKSPACE_BYTES);
  if (code == 0) {
    code = rm_cu.cublasLtMatmulPreferenceSetAttribute(preference, REDUCTIONS, &reductions,
                                                      sizeof reductions);
  }
  /* c is also d, the result. */
  static const int operands[4] = {0, 1, 2, 2};
  for (int i = 0; i < 4 && code == 0; i++) {
    const uint32_t bytes = (uint32_t)s->alignment[operands[i]];
    code = rm_cu.cublasLtMatmulPreferenceSetAttribute(preference, ALIGNMENT_A + i, &bytes,
                                                      sizeof bytes);
  }
  if (code == 0) {
    code = rm_cu.cublasLtMatmulAlgoGetHeuristic(blas->lt_handle, description, layouts[0],
                                                layouts[1], layouts[2], layouts[2], preference, 1,
                                                to, &found);
  }
  rm_cu.cublasLtMatmulPreferenceDestroy(preference);
  if (code == 0) code = found == 0 ? BLAS_NOT_SUPPORTED : to->state;
  return code;
}

/* Multiplies and applies the epilogue. Returns RM_UNSUPPORTED if cublasLt has no kernel. */
static int32_t multiply_with_epilogue(rm_device *device, const matmul_call *p) {
  enum { OP_A = 3, OP_B = 4, EPILOGUE = 7, BIAS_POINTER = 8 };
  rm_blas_context *blas = device->blas;
  const int32_t epilogue = (p->flags & RM_CUDA_MATMUL_GELU   ? 32
                            : p->flags & RM_CUDA_MATMUL_RELU ? 2
                                                             : 0) |
                           (p->flags & RM_CUDA_MATMUL_ADD_BIAS ? 4 : 0);
  void *description = NULL, *layouts[3] = {NULL, NULL, NULL}, *bias = pointer(p->bias);
  const bool ta = p->op_a == OP_T, tb = p->op_b == OP_T;
  const char *call = "cublasLtMatmulDescCreate";
  int code = rm_cu.cublasLtMatmulDescCreate(&description, p->compute, p->type == R_64F ? R_64F
                                                                                       : R_32F);
  const struct {
    int what;
    const void *value;
    size_t bytes;
  } attributes[] = {{OP_A, &p->op_a, 4}, {OP_B, &p->op_b, 4}, {EPILOGUE, &epilogue, 4},
                    {BIAS_POINTER, &bias, sizeof bias}};
  for (int i = 0; i < (p->flags & RM_CUDA_MATMUL_ADD_BIAS ? 4 : 3) && code == 0; i++) {
    call = "cublasLtMatmulDescSetAttribute";
    code = rm_cu.cublasLtMatmulDescSetAttribute(description, attributes[i].what,
                                                attributes[i].value, attributes[i].bytes);
  }
  if (code == 0) {
    call = "cublasLtMatrixLayoutCreate";
    code = make_layout(&layouts[0], p, ta ? p->inner : p->rows, ta ? p->rows : p->inner,
                       p->leading_a, p->step_a);
  }
  if (code == 0) {
    code = make_layout(&layouts[1], p, tb ? p->columns : p->inner, tb ? p->inner : p->columns,
                       p->leading_b, p->step_b);
  }
  if (code == 0) code = make_layout(&layouts[2], p, p->rows, p->columns, p->leading_c, p->step_c);
  if (code == 0) {
    const lt_problem s = lt_problem_of(p, epilogue);
    const size_t at = rm_hash_of((rm_hash){0, 0}, &s, sizeof s).a % CACHED_ALGORITHMS;
    if (memcmp(&blas->problems[at], &s, sizeof s) != 0) {
      lt_algorithm found;
      memset(&found, 0, sizeof found);
      call = "cublasLtMatmulAlgoGetHeuristic";
      code = choose_algorithm(blas, &s, description, layouts, &found);
      if (code == 0) {
        blas->problems[at] = s;
        blas->algorithms[at] = found;
      }
    }
    if (code == 0) {
      call = "cublasLtMatmul";
      code = rm_cu.cublasLtMatmul(
          blas->lt_handle, description, one_of(p), pointer(p->a), layouts[0], pointer(p->b),
          layouts[1], zero_of(p), pointer(p->c), layouts[2], pointer(p->c), layouts[2],
          blas->algorithms[at].algorithm, blas->workspace, WORKSPACE_BYTES, device->stream);
    }
  }
  for (int i = 0; i < 3; i++) {
    if (layouts[i] != NULL) rm_cu.cublasLtMatrixLayoutDestroy(layouts[i]);
  }
  if (description != NULL) rm_cu.cublasLtMatmulDescDestroy(description);
  return result_of(call, code);
}

/* ---- the entry point ------------------------------------------------------------------------- */

static bool set_type(matmul_call *p, int32_t dtype) {
  p->size = p->size_c = (int)rm_itemsize(dtype);
  p->compute = dtype == RM_FLOAT64                       ? COMPUTE_64F
               : dtype == RM_FLOAT32 && p->flags & RM_CUDA_MATMUL_TF32 ? COMPUTE_32F_FAST_TF32
                                                         : COMPUTE_32F;
  switch (dtype) {
    case RM_FLOAT16: p->type = p->type_c = R_16F; return true;
    case RM_BFLOAT16: p->type = p->type_c = R_16BF; return true;
    case RM_FLOAT32: p->type = p->type_c = R_32F; return true;
    case RM_FLOAT64: p->type = p->type_c = R_64F; return true;
    case RM_INT8:
      p->type = R_8I;
      p->type_c = R_32I;
      p->size_c = 4;
      p->compute = COMPUTE_32I;
      return true;
    default: return false;
  }
}

/* int8 elements are loaded four at a time. */
static bool are_whole_words(const matmul_call *p) {
  return ((int64_t)p->leading_a | (int64_t)p->leading_b | (int64_t)(p->a & 3) |
          (int64_t)(p->b & 3) | (int64_t)p->step_a | (int64_t)p->step_b) % 4 == 0;
}

int32_t rm_cuda_matmul_locked(int32_t index, int32_t dtype, const double *plan) {
  matmul_call p = {.flags = (int)plan[FLAGS], .bias = (rm_address)plan[BIAS]};
  const double *at = plan + OFFSETS;
  const ptrdiff_t offsets = (ptrdiff_t)plan[RM_BATCH];
  const bool has_epilogue = (p.flags & (RM_CUDA_MATMUL_ADD_BIAS | RM_CUDA_MATMUL_RELU |
                                        RM_CUDA_MATMUL_GELU)) != 0;
  if (!set_type(&p, dtype)) return rm_fail(RM_UNSUPPORTED, "cuBLAS is for floats and int8");
  if ((p.flags & (RM_CUDA_MATMUL_RELU | RM_CUDA_MATMUL_GELU)) ==
      (RM_CUDA_MATMUL_RELU | RM_CUDA_MATMUL_GELU)) {
    return rm_fail(RM_UNSUPPORTED, "cublasLt applies one function");
  }
  if (offsets < 1) return RM_OK;
  double one[RM_MATMUL_FIELDS];
  const double *sizes = plan;
  /* A collapsed batch with more columns would need a longer bias. */
  if (rm_collapse_batch(plan, at, one) &&
      !(p.flags & RM_CUDA_MATMUL_ADD_BIAS && one[RM_N] != plan[RM_N])) {
    sizes = one;
  }
  rm_matrix c, a, b;
  if (!rm_blas_layouts(sizes, &c, &a, &b) || sizes[RM_BATCH] > RM_BLAS_INT_MAX) {
    return rm_fail(RM_UNSUPPORTED, "cuBLAS cannot read these matrices where they lie");
  }
  /* A row-major matrix is the column-major transpose. A row-major result is b' a'. */
  const bool swap = !c.by_columns;
  if (p.flags & RM_CUDA_MATMUL_ADD_BIAS && !swap) {
    return rm_fail(RM_UNSUPPORTED, "cublasLt adds a bias to results that lie by rows");
  }
  const double *at_c = at, *at_a = at + offsets, *at_b = at + 2 * offsets;
  const double *first = swap ? at_b : at_a, *second = swap ? at_a : at_b;
  const rm_matrix left = swap ? b : a, right = swap ? a : b;
  p.op_a = left.by_columns != swap ? OP_N : OP_T;
  p.op_b = right.by_columns != swap ? OP_N : OP_T;
  p.rows = (int)sizes[swap ? RM_N : RM_M];
  p.columns = (int)sizes[swap ? RM_M : RM_N];
  p.inner = (int)sizes[RM_K];
  p.leading_a = left.leading;
  p.leading_b = right.leading;
  p.leading_c = c.leading;
  p.batch = (ptrdiff_t)sizes[RM_BATCH];
  p.c = (rm_address)plan[TO];
  p.a = (rm_address)plan[swap ? FROM_B : FROM_A];
  p.b = (rm_address)plan[swap ? FROM_A : FROM_B];
  const bool is_strided = p.batch == 1 || (rm_batch_stride(at_c, p.batch, &p.step_c) &&
                                           rm_batch_stride(first, p.batch, &p.step_a) &&
                                           rm_batch_stride(second, p.batch, &p.step_b) &&
                                           p.step_c >= 0 && p.step_a >= 0 && p.step_b >= 0);
  if (!is_strided && has_epilogue) {
    return rm_fail(RM_UNSUPPORTED, "cublasLt takes matrices that are evenly spaced");
  }
  if (has_epilogue && p.batch > MAX_LT_BATCH) {
    return rm_fail(RM_UNSUPPORTED, "cublasLt takes %d matrices at most", MAX_LT_BATCH);
  }
  if (is_strided) {
    p.c += (rm_address)at_c[0] * (rm_address)p.size_c;
    p.a += (rm_address)first[0] * (rm_address)p.size;
    p.b += (rm_address)second[0] * (rm_address)p.size;
  }
  if (dtype == RM_INT8 && (!is_strided || has_epilogue || !are_whole_words(&p))) {
    return rm_fail(RM_UNSUPPORTED, "cuBLAS cannot read these bytes where they lie");
  }
  rm_device *device;
  RM_TRY(rm_cuda_use(index, &device));
  RM_TRY(rm_cuda_library(RM_CUBLAS));
  rm_mutex_lock(&device->blas->mutex);
  int32_t status = rm_blas_initialize(device);
  if (status == RM_OK) {
    if (has_epilogue) status = multiply_with_epilogue(device, &p);
    else if (!is_strided) status = multiply_pointers(device, &p, at_c, first, second);
    else if (p.batch == 1) status = multiply_one(device->blas, &p, p.c, p.a, p.b);
    else status = multiply_strided(device->blas, &p);
  }
  rm_mutex_unlock(&device->blas->mutex);
  return status;
}

#endif
