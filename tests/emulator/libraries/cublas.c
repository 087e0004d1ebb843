/* cuBLAS and cuBLASLt: products in column-major order by plain loops. */
#include "../emulator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  BLAS_SUCCESS = 0,
  BLAS_NOT_INITIALIZED = 1,
  BLAS_INVALID_VALUE = 7,
  BLAS_EXECUTION_FAILED = 13,
  BLAS_NOT_SUPPORTED = 15,
};

enum { R_32F = 0, R_64F = 1, R_16F = 2, R_8I = 3, R_32I = 10, R_16BF = 14 };
enum {
  COMPUTE_16F = 64, COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_32I = 72,
  COMPUTE_32F_FAST_16F = 74, COMPUTE_32F_FAST_16BF = 75, COMPUTE_32F_FAST_TF32 = 77
};
enum { NO_TRANS = 0, TRANS = 1, CONJ_TRANS = 2 };
enum { EPILOGUE_DEFAULT = 1, EPILOGUE_RELU = 2, EPILOGUE_BIAS = 4, EPILOGUE_GELU = 32 };

/* ---- elements -------------------------------------------------------------------------------- */

static size_t bytes_of(int type) {
  return type == R_64F ? 8 : type == R_32F || type == R_32I ? 4 : type == R_8I ? 1 : 2;
}

static double load(int type, const void *at, int64_t i) {
  uint32_t bits;
  float wide;
  switch (type) {
    case R_32F: return ((const float *)at)[i];
    case R_64F: return ((const double *)at)[i];
    case R_16F: return (double)((const _Float16 *)at)[i];
    case R_8I: return ((const int8_t *)at)[i];
    case R_32I: return ((const int32_t *)at)[i];
    default:
      bits = (uint32_t)((const uint16_t *)at)[i] << 16;
      memcpy(&wide, &bits, sizeof wide);
      return wide;
  }
}

/* float32 to bfloat16, to nearest, ties to even. */
static uint16_t narrow(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (x != x) return (uint16_t)(bits >> 16 | 64);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void store(int type, void *at, int64_t i, double x) {
  switch (type) {
    case R_32F: ((float *)at)[i] = (float)x; break;
    case R_64F: ((double *)at)[i] = x; break;
    case R_16F: ((_Float16 *)at)[i] = (_Float16)(float)x; break;
    case R_8I: ((int8_t *)at)[i] = (int8_t)x; break;
    case R_32I: ((int32_t *)at)[i] = (int32_t)x; break;
    default: ((uint16_t *)at)[i] = narrow((float)x);
  }
}

/* What TF32 keeps of a float32: 10 bits of the mantissa. */
static float round_tf32(float x) {
  uint32_t bits;
  if (x - x != 0) return x;
  memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x1000) & ~0x1fffu;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* ---- one product ----------------------------------------------------------------------------- */

typedef struct {
  int type;
  char *at;
  int64_t ld, step;
  /* Addresses of the matrices of a batch, in device memory, in place of steps. */
  void **list;
  bool transposed;
} matrix;

typedef struct {
  work head;
  int64_t m, n, k, batch;
  int compute;
  double alpha, beta;
  matrix a, b, c, d;
  int epilogue;
  const char *bias;
  int bias_type;
} product;

static char *matrix_of(const matrix *x, int64_t i) {
  if (x->list != NULL) return x->list[i];
  return x->at + i * x->step * (int64_t)bytes_of(x->type);
}

/* An operand as rows of its own: what is summed over lies together. */
static float *packed(const matrix *x, const char *at, int64_t lines, int64_t k, bool by_columns,
                     bool tf32) {
  float *to = malloc((size_t)(lines * k + 1) * sizeof *to);
  for (int64_t i = 0; i < lines; i++) {
    for (int64_t j = 0; j < k; j++) {
      float value = (float)load(x->type, at, by_columns ? j + i * x->ld : i + j * x->ld);
      to[i * k + j] = tf32 ? round_tf32(value) : value;
    }
  }
  return to;
}

static double finish(const product *p, double sum, int64_t row) {
  if (p->epilogue & EPILOGUE_BIAS) sum += load(p->bias_type, p->bias, row);
  if (p->epilogue & EPILOGUE_RELU) sum = sum < 0 ? 0 : sum;
  if (p->epilogue & EPILOGUE_GELU) {
    float x = (float)sum;
    sum = 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
  }
  return sum;
}

static void write_one(const product *p, char *d, const char *c, int64_t i, int64_t j, double sum) {
  double value = p->alpha * sum;
  /* Where beta is 0, what is there may be NaN. */
  if (p->beta != 0) value += p->beta * load(p->c.type, c, i + j * p->c.ld);
  store(p->d.type, d, i + j * p->d.ld, finish(p, value, i));
}

static void multiply_wide(const product *p, const char *a, const char *b, const char *c, char *d) {
  for (int64_t j = 0; j < p->n; j++) {
    for (int64_t i = 0; i < p->m; i++) {
      double sum = 0;
      for (int64_t l = 0; l < p->k; l++) {
        sum += load(p->a.type, a, p->a.transposed ? l + i * p->a.ld : i + l * p->a.ld) *
               load(p->b.type, b, p->b.transposed ? j + l * p->b.ld : l + j * p->b.ld);
      }
      write_one(p, d, c, i, j, sum);
    }
  }
}

static void multiply(const product *p, const char *a, const char *b, const char *c, char *d) {
  bool tf32 = p->compute == COMPUTE_32F_FAST_TF32;
  float *rows = packed(&p->a, a, p->m, p->k, p->a.transposed, tf32);
  float *columns = packed(&p->b, b, p->n, p->k, !p->b.transposed, tf32);
  for (int64_t j = 0; j < p->n; j++) {
    for (int64_t i = 0; i < p->m; i++) {
      float sum = 0;
      for (int64_t l = 0; l < p->k; l++) sum += rows[i * p->k + l] * columns[j * p->k + l];
      write_one(p, d, c, i, j, sum);
    }
  }
  free(rows);
  free(columns);
}

static size_t span(const matrix *x, int64_t rows, int64_t columns) {
  if (rows == 0 || columns == 0) return 0;
  return (size_t)((columns - 1) * x->ld + rows) * bytes_of(x->type);
}

static int run_product(work *w) {
  const product *p = (const product *)w;
  emu_open_memory(-1);
  int error = SUCCESS;
  for (int64_t i = 0; i < p->batch && error == SUCCESS; i++) {
    const char *a = matrix_of(&p->a, i), *b = matrix_of(&p->b, i), *c = matrix_of(&p->c, i);
    char *d = matrix_of(&p->d, i);
    size_t of_a = p->a.transposed ? span(&p->a, p->k, p->m) : span(&p->a, p->m, p->k);
    size_t of_b = p->b.transposed ? span(&p->b, p->n, p->k) : span(&p->b, p->k, p->n);
    if ((of_a > 0 && !emu_holds(a, of_a)) || (of_b > 0 && !emu_holds(b, of_b)) ||
        !emu_holds(d, span(&p->d, p->m, p->n)) ||
        (p->beta != 0 && !emu_holds(c, span(&p->c, p->m, p->n))) ||
        ((p->epilogue & EPILOGUE_BIAS) &&
         !emu_holds(p->bias, (size_t)p->m * bytes_of(p->bias_type)))) {
      emu_note("a product of %lld x %lld x %lld reaches beyond its matrices", (long long)p->m,
               (long long)p->n, (long long)p->k);
      error = ILLEGAL_ADDRESS;
    } else if ((p->epilogue & EPILOGUE_BIAS) && ((uintptr_t)p->bias & 15) != 0) {
      emu_note("a bias of a product is not at a multiple of 16 bytes");
      error = MISALIGNED_ADDRESS;
    } else if (p->compute == COMPUTE_64F || p->compute == COMPUTE_32I) {
      multiply_wide(p, a, b, c, d);
    } else multiply(p, a, b, c, d);
  }
  emu_close_memory();
  emu_numbers[PRODUCTS]++;
  return error;
}

/* Whether types go together, as the real library's tables say; some rare ones are left out. */
static bool is_supported(int a, int b, int c, int compute) {
  if (a != b) return false;
  if (compute == COMPUTE_64F) return a == R_64F && c == R_64F;
  if (compute == COMPUTE_32I) return a == R_8I && c == R_32I;
  if (compute == COMPUTE_16F) return a == R_16F && c == R_16F;
  if (compute == COMPUTE_32F) {
    return (a == R_32F && c == R_32F) || ((a == R_16F || a == R_16BF) && (c == a || c == R_32F)) ||
           (a == R_8I && c == R_32F);
  }
  return compute >= COMPUTE_32F_FAST_16F && compute <= COMPUTE_32F_FAST_TF32 && a == R_32F &&
         c == R_32F;
}

/* A scalar of the type that goes with the computation. */
static double scalar(int compute, const void *at) {
  int type = compute == COMPUTE_64F ? R_64F : compute == COMPUTE_16F ? R_16F : R_32F;
  return load(compute == COMPUTE_32I ? R_32I : type, at, 0);
}

static bool has_stride(int64_t ld, bool transposed, int64_t rows, int64_t columns) {
  int64_t lines = transposed ? columns : rows;
  return ld >= (lines > 1 ? lines : 1);
}

/* Checks what is asked for, and queues a copy of it. */
static int submit(const product *p, stream *s) {
  if (p->m < 0 || p->n < 0 || p->k < 0 || p->batch < 0 ||
      !has_stride(p->a.ld, p->a.transposed, p->m, p->k) ||
      !has_stride(p->b.ld, p->b.transposed, p->k, p->n) ||
      !has_stride(p->c.ld, false, p->m, p->n) || !has_stride(p->d.ld, false, p->m, p->n)) {
    return BLAS_INVALID_VALUE;
  }
  if (!is_supported(p->a.type, p->b.type, p->c.type, p->compute)) return BLAS_NOT_SUPPORTED;
  /* Words of four bytes. */
  if (p->compute == COMPUTE_32I &&
      ((p->a.ld | p->b.ld | p->a.step | p->b.step) % 4 != 0 ||
       (((uintptr_t)p->a.at | (uintptr_t)p->b.at) & 3) != 0)) {
    return BLAS_INVALID_VALUE;
  }
  if (s == NULL) return BLAS_INVALID_VALUE;
  if (emu_device(s->device)->fault != SUCCESS) return BLAS_EXECUTION_FAILED;
  if (p->m == 0 || p->n == 0 || p->batch == 0) return BLAS_SUCCESS;
  product *w = malloc(sizeof *w);
  *w = *p;
  w->head = (work){.run = run_product};
  emu_queue(s, &w->head);
  return BLAS_SUCCESS;
}

/* ---- cuBLAS ---------------------------------------------------------------------------------- */

#define BLAS_MAGIC 0x626c6173

typedef struct {
  int magic, device, mode;
  void *stream;
} handle;

/* The handle, whose device has to be the current one. */
#define BEGIN(h) \
  EMU_LOCK; \
  do { \
    if ((h) == NULL || (h)->magic != BLAS_MAGIC) return BLAS_NOT_INITIALIZED; \
    if ((h)->device != emu_current) return BLAS_INVALID_VALUE; \
  } while (0)

EMU_API int cublasCreate_v2(handle **made) {
  EMU_LOCK;
  if (emu_device_count() == 0 || emu_fails(FAIL_BLAS)) return BLAS_NOT_INITIALIZED;
  /* It may wait for the device, which is not allowed then. */
  for (const stream *s = emu_device(emu_current)->streams; s != NULL; s = s->next) {
    if (s->capture != NULL) return BLAS_NOT_INITIALIZED;
  }
  emu_has_context = true;
  handle *h = calloc(1, sizeof *h);
  *h = (handle){.magic = BLAS_MAGIC, .device = emu_current};
  *made = h;
  return BLAS_SUCCESS;
}

EMU_API int cublasDestroy_v2(handle *h) {
  BEGIN(h);
  h->magic = 0;
  return BLAS_SUCCESS;
}

EMU_API int cublasSetStream_v2(handle *h, void *to) {
  BEGIN(h);
  stream *s = emu_stream(to);
  if (s == NULL || s->device != h->device) return BLAS_INVALID_VALUE;
  if (emu_fails(FAIL_BLAS)) return BLAS_EXECUTION_FAILED;
  h->stream = to;
  return BLAS_SUCCESS;
}

EMU_API int cublasGetStream_v2(handle *h, void **stream) {
  BEGIN(h);
  return *stream = h->stream, BLAS_SUCCESS;
}

EMU_API int cublasSetMathMode(handle *h, int mode) {
  BEGIN(h);
  if (emu_fails(FAIL_BLAS)) return BLAS_EXECUTION_FAILED;
  return h->mode = mode, BLAS_SUCCESS;
}

EMU_API int cublasSetWorkspace_v2(handle *h, void *workspace, size_t bytes) {
  BEGIN(h);
  if (emu_fails(FAIL_BLAS)) return BLAS_EXECUTION_FAILED;
  return bytes == 0 || emu_holds(workspace, bytes) ? BLAS_SUCCESS : BLAS_INVALID_VALUE;
}

EMU_API int cublasGetVersion_v2(handle *h, int *version) {
  (void)h;
  return *version = 130000, BLAS_SUCCESS;
}

EMU_API int cublasGetProperty(int which, int *value) {
  return *value = which == 0 ? 13 : 0, BLAS_SUCCESS;
}

EMU_API int cublasLtGetProperty(int which, int *value) { return cublasGetProperty(which, value); }

static const char *status_name(int status) {
  switch (status) {
    case BLAS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case BLAS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case BLAS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case BLAS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case BLAS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "unknown";
  }
}

EMU_API const char *cublasGetStatusName(int status) { return status_name(status); }
EMU_API const char *cublasGetStatusString(int status) { return status_name(status); }
EMU_API const char *cublasLtGetStatusName(int status) { return status_name(status); }
EMU_API const char *cublasLtGetStatusString(int status) { return status_name(status); }

static bool is_operation(int operation) { return operation >= NO_TRANS && operation <= CONJ_TRANS; }

EMU_API int cublasGemmStridedBatchedEx(handle *h, int of_a, int of_b, int m, int n, int k,
                                       const void *alpha, const void *a, int a_type, int lda,
                                       long long a_step, const void *b, int b_type, int ldb,
                                       long long b_step, const void *beta, void *c, int c_type,
                                       int ldc, long long c_step, int batch, int compute,
                                       int algorithm) {
  (void)algorithm;
  BEGIN(h);
  enum { TF32_MODE = 3 };
  if (!is_operation(of_a) || !is_operation(of_b) || alpha == NULL || beta == NULL) {
    return BLAS_INVALID_VALUE;
  }
  matrix to = {.type = c_type, .at = c, .ld = ldc, .step = c_step};
  product p = {.m = m, .n = n, .k = k, .batch = batch, .compute = compute,
               .alpha = scalar(compute, alpha), .beta = scalar(compute, beta),
               .a = {a_type, (char *)a, lda, a_step, NULL, of_a != NO_TRANS},
               .b = {b_type, (char *)b, ldb, b_step, NULL, of_b != NO_TRANS},
               .c = to, .d = to, .epilogue = EPILOGUE_DEFAULT};
  if (h->mode == TF32_MODE && compute == COMPUTE_32F && a_type == R_32F) {
    p.compute = COMPUTE_32F_FAST_TF32;
  }
  return submit(&p, emu_stream(h->stream));
}

EMU_API int cublasGemmEx(handle *h, int of_a, int of_b, int m, int n, int k, const void *alpha,
                         const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
                         const void *beta, void *c, int c_type, int ldc, int compute,
                         int algorithm) {
  return cublasGemmStridedBatchedEx(h, of_a, of_b, m, n, k, alpha, a, a_type, lda, 0, b, b_type,
                                    ldb, 0, beta, c, c_type, ldc, 0, 1, compute, algorithm);
}

EMU_API int cublasGemmBatchedEx(handle *h, int of_a, int of_b, int m, int n, int k,
                                const void *alpha, const void *const *a, int a_type, int lda,
                                const void *const *b, int b_type, int ldb, const void *beta,
                                void *const *c, int c_type, int ldc, int batch, int compute,
                                int algorithm) {
  (void)algorithm;
  BEGIN(h);
  if (!is_operation(of_a) || !is_operation(of_b) || alpha == NULL || beta == NULL || batch < 0) {
    return BLAS_INVALID_VALUE;
  }
  /* The lists of addresses are in device memory themselves. */
  size_t bytes = (size_t)batch * sizeof *a;
  if (!emu_holds(a, bytes) || !emu_holds(b, bytes) || !emu_holds(c, bytes)) {
    return BLAS_INVALID_VALUE;
  }
  matrix to = {.type = c_type, .ld = ldc, .list = (void **)c};
  product p = {.m = m, .n = n, .k = k, .batch = batch, .compute = compute,
               .alpha = scalar(compute, alpha), .beta = scalar(compute, beta),
               .a = {a_type, NULL, lda, 0, (void **)a, of_a != NO_TRANS},
               .b = {b_type, NULL, ldb, 0, (void **)b, of_b != NO_TRANS},
               .c = to, .d = to, .epilogue = EPILOGUE_DEFAULT};
  return submit(&p, emu_stream(h->stream));
}

EMU_API int cublasSgemm_v2(handle *h, int of_a, int of_b, int m, int n, int k, const float *alpha,
                           const float *a, int lda, const float *b, int ldb, const float *beta,
                           float *c, int ldc) {
  return cublasGemmEx(h, of_a, of_b, m, n, k, alpha, a, R_32F, lda, b, R_32F, ldb, beta, c, R_32F,
                      ldc, COMPUTE_32F, -1);
}

EMU_API int cublasDgemm_v2(handle *h, int of_a, int of_b, int m, int n, int k, const double *alpha,
                           const double *a, int lda, const double *b, int ldb, const double *beta,
                           double *c, int ldc) {
  return cublasGemmEx(h, of_a, of_b, m, n, k, alpha, a, R_64F, lda, b, R_64F, ldb, beta, c, R_64F,
                      ldc, COMPUTE_64F, -1);
}

/* ---- cuBLASLt -------------------------------------------------------------------------------- */

#define LT_MAGIC 0x6c74626c

/* Attributes lie under their numbers. */
enum { ATTRIBUTES = 40 };
typedef struct {
  int magic;
  uint64_t values[ATTRIBUTES];
} attributes;

enum { DESC_COMPUTE = 0, DESC_TRANSA = 3, DESC_TRANSB = 4, DESC_TRANSC = 5, DESC_EPILOGUE = 7,
       DESC_BIAS = 8, DESC_BIAS_TYPE = 26 };
enum { LAYOUT_TYPE, LAYOUT_ORDER, LAYOUT_ROWS, LAYOUT_COLUMNS, LAYOUT_LD, LAYOUT_BATCH,
       LAYOUT_STEP };
enum { PREFERENCE_WORKSPACE = 1, PREFERENCE_ALIGNMENT_A = 5 };

static int make_attributes(attributes **made) {
  *made = calloc(1, sizeof **made);
  (*made)->magic = LT_MAGIC;
  return BLAS_SUCCESS;
}

static int set_attribute(attributes *of, int which, const void *value, size_t bytes) {
  if (of == NULL || of->magic != LT_MAGIC || which < 0 || which >= ATTRIBUTES || bytes > 8) {
    return BLAS_INVALID_VALUE;
  }
  of->values[which] = 0;
  memcpy(&of->values[which], value, bytes);
  return BLAS_SUCCESS;
}

static int drop_attributes(attributes *of) {
  if (of == NULL || of->magic != LT_MAGIC) return BLAS_INVALID_VALUE;
  of->magic = 0;
  free(of);
  return BLAS_SUCCESS;
}

EMU_API int cublasLtCreate(handle **made) { return cublasCreate_v2(made); }
EMU_API int cublasLtDestroy(handle *h) { return cublasDestroy_v2(h); }
EMU_API size_t cublasLtGetVersion(void) { return 130000; }

EMU_API int cublasLtMatmulDescCreate(attributes **made, int compute, int scale) {
  make_attributes(made);
  (*made)->values[DESC_COMPUTE] = (uint64_t)compute;
  (*made)->values[1] = (uint64_t)scale;
  (*made)->values[DESC_EPILOGUE] = EPILOGUE_DEFAULT;
  (*made)->values[DESC_BIAS_TYPE] = UINT64_MAX;
  return BLAS_SUCCESS;
}

EMU_API int cublasLtMatmulDescSetAttribute(attributes *d, int which, const void *value,
                                           size_t bytes) {
  return set_attribute(d, which, value, bytes);
}

EMU_API int cublasLtMatmulDescDestroy(attributes *d) { return drop_attributes(d); }

EMU_API int cublasLtMatrixLayoutCreate(attributes **made, int type, uint64_t rows,
                                       uint64_t columns, int64_t ld) {
  make_attributes(made);
  const uint64_t values[] = {(uint64_t)type, 0, rows, columns, (uint64_t)ld, 1, 0};
  memcpy((*made)->values, values, sizeof values);
  return BLAS_SUCCESS;
}

EMU_API int cublasLtMatrixLayoutSetAttribute(attributes *l, int which, const void *value,
                                             size_t bytes) {
  return set_attribute(l, which, value, bytes);
}

EMU_API int cublasLtMatrixLayoutDestroy(attributes *l) { return drop_attributes(l); }

EMU_API int cublasLtMatmulPreferenceCreate(attributes **made) {
  make_attributes(made);
  for (int i = 0; i < 4; i++) (*made)->values[PREFERENCE_ALIGNMENT_A + i] = 256;
  return BLAS_SUCCESS;
}

EMU_API int cublasLtMatmulPreferenceSetAttribute(attributes *p, int which, const void *value,
                                                 size_t bytes) {
  return set_attribute(p, which, value, bytes);
}

EMU_API int cublasLtMatmulPreferenceDestroy(attributes *p) { return drop_attributes(p); }

/* What an algorithm was chosen for: the sizes, the alignment of a, b, c and d, the workspace. */
typedef struct {
  uint64_t sizes, alignment[4], workspace, rest[2];
} algorithm;

typedef struct {
  algorithm chosen;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} heuristic;

/* What the descriptions ask for; an error when they do not go together. */
static int describe(product *p, const attributes *d, attributes *const layouts[4]) {
  if (d == NULL || d->magic != LT_MAGIC) return BLAS_INVALID_VALUE;
  matrix *const matrices[] = {&p->a, &p->b, &p->c, &p->d};
  for (int i = 0; i < 4; i++) {
    const attributes *l = layouts[i];
    if (l == NULL || l->magic != LT_MAGIC) return BLAS_INVALID_VALUE;
    if (l->values[LAYOUT_ORDER] != 0) return BLAS_NOT_SUPPORTED;
    *matrices[i] = (matrix){.type = (int)l->values[LAYOUT_TYPE],
                            .ld = (int64_t)l->values[LAYOUT_LD],
                            .step = (int64_t)l->values[LAYOUT_STEP]};
  }
  const uint64_t *v = d->values, *a = layouts[0]->values, *b = layouts[1]->values;
  const uint64_t *c = layouts[2]->values, *to = layouts[3]->values;
  p->a.transposed = v[DESC_TRANSA] != NO_TRANS;
  p->b.transposed = v[DESC_TRANSB] != NO_TRANS;
  p->compute = (int)v[DESC_COMPUTE];
  p->m = (int64_t)to[LAYOUT_ROWS];
  p->n = (int64_t)to[LAYOUT_COLUMNS];
  p->k = (int64_t)a[p->a.transposed ? LAYOUT_ROWS : LAYOUT_COLUMNS];
  p->batch = (int64_t)(uint32_t)to[LAYOUT_BATCH];
  int64_t a_rows = (int64_t)a[p->a.transposed ? LAYOUT_COLUMNS : LAYOUT_ROWS];
  int64_t b_rows = (int64_t)b[p->b.transposed ? LAYOUT_COLUMNS : LAYOUT_ROWS];
  int64_t b_columns = (int64_t)b[p->b.transposed ? LAYOUT_ROWS : LAYOUT_COLUMNS];
  if (a_rows != p->m || b_rows != p->k || b_columns != p->n || c[LAYOUT_ROWS] != to[LAYOUT_ROWS] ||
      c[LAYOUT_COLUMNS] != to[LAYOUT_COLUMNS] || v[DESC_TRANSC] != NO_TRANS ||
      a[LAYOUT_BATCH] != to[LAYOUT_BATCH] || b[LAYOUT_BATCH] != to[LAYOUT_BATCH] ||
      c[LAYOUT_BATCH] != to[LAYOUT_BATCH]) {
    return BLAS_INVALID_VALUE;
  }
  p->epilogue = (int)v[DESC_EPILOGUE];
  if (p->epilogue & ~(EPILOGUE_DEFAULT | EPILOGUE_RELU | EPILOGUE_BIAS | EPILOGUE_GELU)) {
    return BLAS_NOT_SUPPORTED;
  }
  memcpy(&p->bias, &v[DESC_BIAS], sizeof p->bias);
  p->bias_type = v[DESC_BIAS_TYPE] == UINT64_MAX ? p->d.type : (int)v[DESC_BIAS_TYPE];
  return is_supported(p->a.type, p->b.type, p->c.type, p->compute) && p->c.type == p->d.type
             ? BLAS_SUCCESS
             : BLAS_NOT_SUPPORTED;
}

static uint64_t sizes_of(const product *p) {
  return ((uint64_t)p->m * 1000003 + (uint64_t)p->n) * 1000003 + (uint64_t)p->k + 1;
}

EMU_API int cublasLtMatmulAlgoGetHeuristic(handle *h, attributes *d, attributes *a, attributes *b,
                                           attributes *c, attributes *to, attributes *preference,
                                           int most, heuristic *results, int *found) {
  BEGIN(h);
  if (most < 1 || preference == NULL || preference->magic != LT_MAGIC) return BLAS_INVALID_VALUE;
  product p = {0};
  *found = 0;
  int error = describe(&p, d, (attributes *[]){a, b, c, to});
  if (error != BLAS_SUCCESS) return error;
  heuristic *one = results;
  *one = (heuristic){.chosen = {.sizes = sizes_of(&p)}, .state = BLAS_SUCCESS, .waves = 1};
  memcpy(one->chosen.alignment, &preference->values[PREFERENCE_ALIGNMENT_A],
         sizeof one->chosen.alignment);
  /* It wants some workspace where there may be some. */
  uint64_t allowed = preference->values[PREFERENCE_WORKSPACE];
  one->workspace = one->chosen.workspace = allowed < 4096 ? 0 : 4096;
  *found = 1;
  return BLAS_SUCCESS;
}

EMU_API int cublasLtMatmul(handle *h, attributes *d, const void *alpha, const void *a,
                           attributes *a_layout, const void *b, attributes *b_layout,
                           const void *beta, const void *c, attributes *c_layout, void *to,
                           attributes *to_layout, const algorithm *chosen, void *workspace,
                           size_t workspace_bytes, void *where) {
  BEGIN(h);
  product p = {0};
  int error = describe(&p, d, (attributes *[]){a_layout, b_layout, c_layout, to_layout});
  if (error != BLAS_SUCCESS) return error;
  if (alpha == NULL || beta == NULL) return BLAS_INVALID_VALUE;
  p.alpha = scalar(p.compute, alpha);
  p.beta = scalar(p.compute, beta);
  p.a.at = (char *)a;
  p.b.at = (char *)b;
  p.c.at = (char *)c;
  p.d.at = to;
  /* cuBLASLt refuses what an algorithm was not chosen for. */
  if (chosen != NULL) {
    const void *const at[] = {a, b, c, to};
    if (chosen->sizes != sizes_of(&p)) return BLAS_INVALID_VALUE;
    for (int i = 0; i < 4; i++) {
      if (chosen->alignment[i] > 1 && (uintptr_t)at[i] % chosen->alignment[i] != 0) {
        return BLAS_NOT_SUPPORTED;
      }
    }
    if (chosen->workspace > workspace_bytes) return BLAS_INVALID_VALUE;
  }
  if (workspace_bytes > 0 && !emu_holds(workspace, workspace_bytes)) return BLAS_INVALID_VALUE;
  return submit(&p, emu_stream(where));
}
