/*
 * Large matrices by LAPACK of OpenBLAS: one function for all element types, as Fortran takes
 * addresses.
 *
 * Integers are handed over as 64 bits, of which libraries with integers of 32 bits read the low
 * half (every target is little-endian). The lengths of strings follow all arguments. No argument is
 * wrong and no number NaN or infinite, so that LAPACK never calls xerbla, which may end the
 * process. Matrices that it rejects go to own code, which finds the reason.
 */
#include <stdlib.h>
#include "lapack.h"

typedef const void *arg;
typedef void potrf(arg, arg, void *, arg, int64_t *, size_t);
typedef void gesv(arg, arg, void *, arg, void *, void *, arg, int64_t *);
typedef void geqrf(arg, arg, void *, arg, void *, void *, arg, int64_t *);
typedef void orgqr(arg, arg, arg, void *, arg, void *, void *, arg, int64_t *);
typedef void syevd(arg, arg, arg, void *, arg, void *, void *, arg, void *, arg, int64_t *, size_t,
                   size_t);
typedef void heevd(arg, arg, arg, void *, arg, void *, void *, arg, void *, arg, void *, arg,
                   int64_t *, size_t, size_t);
typedef void gesdd_real(arg, arg, arg, void *, arg, void *, void *, arg, void *, arg, void *, arg,
                        void *, int64_t *, size_t);
typedef void gesdd_complex(arg, arg, arg, void *, arg, void *, void *, arg, void *, arg, void *,
                           arg, void *, void *, int64_t *, size_t);
typedef void geev(arg, arg, arg, void *, arg, void *, void *, void *, arg, void *, arg, void *, arg,
                  int64_t *, size_t, size_t);
typedef void geev_complex(arg, arg, arg, void *, arg, void *, void *, arg, void *, arg, void *, arg,
                          void *, int64_t *, size_t, size_t);

/* The routines of the kinds of calls, and the smallest sizes for which they are faster than own
 * code, for each element type; 0 for never. Floats of up to 128 go there as doubles. */
static const struct {
  signed char first, second;
  short least[RM_LINALG_TYPES];
} routines[] = {
    [RM_LINALG_CHOLESKY] = {RM_POTRF, -1, {0, 700, 48, 48}},
    [RM_LINALG_INV] = {RM_GESV, -1, {0, 0, 24, 24}},
    [RM_LINALG_SOLVE] = {RM_GESV, -1, {0, 0, 24, 24}},
    [RM_LINALG_QR] = {RM_GEQRF, RM_ORGQR, {1500, 1500, 24, 24}},
    [RM_LINALG_EIGH] = {RM_SYEVD, -1, {144, 144, 129, 48}},
    [RM_LINALG_EIGVALSH] = {RM_SYEVD, -1, {129, 128, 129, 100}},
    [RM_LINALG_SVD] = {RM_GESDD, -1, {129, 128, 129, 32}},
    [RM_LINALG_SVDVALS] = {RM_GESDD, -1, {129, 100, 129, 64}},
    [RM_LINALG_EIG] = {RM_GEEV, -1, {250, 250, 150, 150}},
    [RM_LINALG_EIGVALS] = {RM_GEEV, -1, {300, 300, 200, 200}},
};

/* A matrix in the workspace. */
typedef struct {
  const rm_linalg *ctx;
  int kind;
  bool is_complex, is_double;
  /* Rows and columns of the matrix as LAPACK sees it; columns of the solution or of q. */
  int64_t m, n, k;
  ptrdiff_t bytes;
  /* The matrix; a solution, factors of reflections or eigenvectors; reals; integers. */
  char *a, *b, *reals, *integers;
  /* The outputs of the matrix. */
  char *out[3];
} problem;

static RM_ALWAYS_INLINE void copy_as(ptrdiff_t bytes, ptrdiff_t m, ptrdiff_t n, const char *from,
                                     ptrdiff_t row, ptrdiff_t column, char *to, ptrdiff_t to_row,
                                     ptrdiff_t to_column) {
  enum { BLOCK = 16 };
  for (ptrdiff_t q = 0; q < n; q += BLOCK) {
    for (ptrdiff_t p = 0; p < m; p += BLOCK) {
      for (ptrdiff_t j = q; j < rm_min(n, q + BLOCK); j++) {
        for (ptrdiff_t i = p; i < rm_min(m, p + BLOCK); i++) {
          memcpy(to + (i * to_row + j * to_column) * bytes, from + (i * row + j * column) * bytes,
                 (size_t)bytes);
        }
      }
    }
  }
}

/* Copies m by n elements. */
static void copy(ptrdiff_t bytes, ptrdiff_t m, ptrdiff_t n, const void *from, ptrdiff_t row,
                 ptrdiff_t column, void *to, ptrdiff_t to_row, ptrdiff_t to_column) {
  if (row == 1 && to_row == 1) {
    for (ptrdiff_t j = 0; j < n; j++) {
      rm_copy((char *)to + j * to_column * bytes, (const char *)from + j * column * bytes,
              m * bytes);
    }
  } else if (bytes == 4) copy_as(4, m, n, from, row, column, to, to_row, to_column);
  else if (bytes == 8) copy_as(8, m, n, from, row, column, to, to_row, to_column);
  else copy_as(16, m, n, from, row, column, to, to_row, to_column);
}

static double load(const problem *p, const void *x, ptrdiff_t i) {
  return p->is_double ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static void store(const problem *p, void *x, ptrdiff_t i, double value) {
  if (p->is_double) ((double *)x)[i] = value;
  else ((float *)x)[i] = (float)value;
}

/* Whether the largest part is a number with which no step overflows or loses digits. Compares the
 * exponents and the first digits, as integers. */
static bool has_usual_numbers(const problem *p) {
  typedef int32_t words __attribute__((vector_size(16)));
  const words kept = {p->is_double ? 0 : 0x7fffffff, 0x7fffffff, p->is_double ? 0 : 0x7fffffff,
                      0x7fffffff};
  const ptrdiff_t bytes = (ptrdiff_t)(p->m * p->n) * p->bytes;
  words most = {0, 0, 0, 0};
  for (ptrdiff_t at = 0; at < bytes; at += (ptrdiff_t)sizeof most) {
    words next = {0, 0, 0, 0};
    if (bytes - at >= (ptrdiff_t)sizeof next) memcpy(&next, p->a + at, sizeof next);
    else memcpy(&next, p->a + at, (size_t)(bytes - at));
    next &= kept;
    const words is_larger = next > most;
    most = (next & is_larger) | (most & ~is_larger);
  }
  int32_t largest = 0;
  for (int i = 0; i < 4; i++) largest = most[i] > largest ? most[i] : largest;
  /* From 2^-300 to 2^300, or from 2^-30 to 2^30. */
  if (p->is_double) return largest > (1023 - 300) << 20 && largest < (1023 + 300) << 20;
  return largest > (127 - 30) << 23 && largest < (127 + 30) << 23;
}

/* Calls the routine of a kind; with a length of -1, only stores the workspace that it needs. */
static int64_t call_routine(const problem *p, void *function, void *work, int64_t length) {
  int64_t info = 0;
  const bool has_vectors = p->kind == RM_LINALG_EIGH || p->kind == RM_LINALG_SVD ||
                           p->kind == RM_LINALG_EIG;
  const char *const job = has_vectors ? "V" : "N", *const triangle = p->ctx->flag ? "U" : "L";
  const int64_t n = p->n, of_reals = 5 * n + 1 + 2 * n * n, of_integers = 5 * n + 3;
  switch (p->kind) {
    case RM_LINALG_CHOLESKY:
      /* By rows, the lower triangle of the matrix is the upper one of the transpose. */
      ((potrf *)function)(p->ctx->flag ? "L" : "U", &n, p->a, &n, &info, 1);
      break;
    case RM_LINALG_QR:
      ((geqrf *)function)(&p->m, &n, p->a, &p->m, p->b, work, &length, &info);
      break;
    case RM_LINALG_EIGH:
    case RM_LINALG_EIGVALSH:
      if (p->is_complex) {
        ((heevd *)function)(job, triangle, &n, p->a, &n, p->out[0], work, &length, p->reals,
                            &of_reals, p->integers, &of_integers, &info, 1, 1);
      } else {
        ((syevd *)function)(job, triangle, &n, p->a, &n, p->out[0], work, &length, p->integers,
                            &of_integers, &info, 1, 1);
      }
      break;
    case RM_LINALG_SVD:
    case RM_LINALG_SVDVALS: {
      /* The factors of the transpose are the transposes of u and vh, in the other order. */
      const char *const which = !has_vectors ? "N" : p->ctx->flag ? "A" : "S";
      void *const values = p->out[has_vectors];
      char *const u = has_vectors ? p->out[2] : p->b, *const vh = has_vectors ? p->out[0] : p->b;
      if (p->is_complex) {
        ((gesdd_complex *)function)(which, &p->m, &n, p->a, &p->m, values, u, &p->m, vh, &p->k,
                                    work, &length, p->reals, p->integers, &info, 1);
      } else {
        ((gesdd_real *)function)(which, &p->m, &n, p->a, &p->m, values, u, &p->m, vh, &p->k, work,
                                 &length, p->integers, &info, 1);
      }
      break;
    }
    case RM_LINALG_EIG:
    case RM_LINALG_EIGVALS:
      if (p->is_complex) {
        ((geev_complex *)function)("N", job, &n, p->a, &n, p->out[0], p->b, &n, p->b, &n, work,
                                   &length, p->reals, &info, 1, 1);
      } else {
        char *const imaginary = p->reals + n * p->bytes;
        ((geev *)function)("N", job, &n, p->a, &n, p->reals, imaginary, p->b, &n, p->b, &n, work,
                           &length, &info, 1, 1);
      }
      break;
    default: ((gesv *)function)(&n, &p->k, p->a, &n, p->integers, p->b, &n, &info); break;
  }
  /* Its low half, if the library stores no more. */
  return (int32_t)info;
}

/* Replaces the factored matrix by q. */
static int64_t make_q(const problem *p, void *function, void *work, int64_t length) {
  int64_t info = 0;
  const int64_t reflections = p->m < p->n ? p->m : p->n;
  ((orgqr *)function)(&p->m, &p->k, &reflections, p->a, &p->m, p->b, work, &length, &info);
  return (int32_t)info;
}

/* Writes the eigenvalues and eigenvectors of a real matrix: two columns for each pair. */
static void write_eigen(const problem *p) {
  const ptrdiff_t n = (ptrdiff_t)p->n;
  copy(p->bytes, n, 2, p->reals, 1, n, p->out[0], 2, 1);
  for (ptrdiff_t j = 0; j < n && p->kind == RM_LINALG_EIG; j++) {
    const double imaginary = load(p, p->reals, n + j);
    /* The second column of a pair is the conjugate of the first. */
    const ptrdiff_t re = imaginary < 0 ? j - 1 : j;
    const double sign = imaginary == 0 ? 0 : imaginary < 0 ? -1 : 1;
    for (ptrdiff_t i = 0; i < n; i++) {
      store(p, p->out[1], 2 * (i * n + j), load(p, p->b, re * n + i));
      store(p, p->out[1], 2 * (i * n + j) + 1,
            sign == 0 ? 0 : sign * load(p, p->b, (re + 1) * n + i));
    }
  }
}

/* Reads the matrix as LAPACK takes it. */
static void read(const problem *p, ptrdiff_t index) {
  const rm_linalg *ctx = p->ctx;
  const ptrdiff_t m = (ptrdiff_t)p->m, n = (ptrdiff_t)p->n, k = (ptrdiff_t)p->k;
  const char *const from =
      (const char *)ctx->call->buffers[1] + (ptrdiff_t)ctx->a_at[index] * p->bytes;
  if (p->kind == RM_LINALG_CHOLESKY) {
    /* The rows of one triangle, and zeros. */
    memset(p->a, 0, (size_t)(n * n * p->bytes));
    for (ptrdiff_t i = 0; i < n; i++) {
      const ptrdiff_t first = ctx->flag ? i : 0, end = ctx->flag ? n : i + 1;
      copy(p->bytes, end - first, 1, from + (i * ctx->a_row + first * ctx->a_column) * p->bytes,
           ctx->a_column, 1, p->a + (i * n + first) * p->bytes, 1, 1);
    }
    return;
  }
  const bool by_rows = p->kind == RM_LINALG_SVD || p->kind == RM_LINALG_SVDVALS;
  copy(p->bytes, m, n, from, by_rows ? ctx->a_column : ctx->a_row,
       by_rows ? ctx->a_row : ctx->a_column, p->a, 1, m);
  if (p->kind == RM_LINALG_SOLVE) {
    copy(p->bytes, n, k,
         (const char *)ctx->call->buffers[2] + (ptrdiff_t)ctx->b_at[index] * p->bytes, ctx->b_row,
         ctx->b_column, p->b, 1, n);
  } else if (p->kind == RM_LINALG_INV) {
    memset(p->b, 0, (size_t)(n * n * p->bytes));
    for (ptrdiff_t i = 0; i < n; i++) store(p, p->b, i * (n + 1) * (p->is_complex ? 2 : 1), 1);
  }
}

/* Writes what LAPACK has left in the workspace. */
static void write(const problem *p) {
  const ptrdiff_t m = (ptrdiff_t)p->m, n = (ptrdiff_t)p->n, k = (ptrdiff_t)p->k;
  switch (p->kind) {
    case RM_LINALG_EIGH: copy(p->bytes, n, n, p->a, 1, n, p->out[1], n, 1); break;
    case RM_LINALG_EIG:
    case RM_LINALG_EIGVALS:
      if (!p->is_complex) write_eigen(p);
      else if (p->kind == RM_LINALG_EIG) copy(p->bytes, n, n, p->b, 1, n, p->out[1], n, 1);
      break;
    case RM_LINALG_QR: copy(p->bytes, m, k, p->a, 1, m, p->out[0], k, 1); break;
    case RM_LINALG_SOLVE:
    case RM_LINALG_INV: copy(p->bytes, n, k, p->b, 1, n, p->out[0], k, 1); break;
    default: break;
  }
}

/* Writes r, the upper triangle of the factored matrix. */
static void write_r(const problem *p) {
  const ptrdiff_t m = (ptrdiff_t)p->m, n = (ptrdiff_t)p->n, k = (ptrdiff_t)p->k;
  copy(p->bytes, rm_min(k, m), n, p->a, 1, m, p->out[1], n, 1);
  for (ptrdiff_t i = 1; i < k; i++) {
    memset(p->out[1] + i * n * p->bytes, 0, (size_t)(rm_min(i, n) * p->bytes));
  }
}

bool rm_lapack_takes(const rm_linalg *ctx) {
  const int kind = ctx->kind, type = ctx->type;
  if (rm_blas_status() == RM_BLAS_CLOSED ||
      kind >= (int)(sizeof routines / sizeof routines[0]) ||
      routines[kind].least[RM_LINALG_C64] == 0) {
    return false;
  }
  const double m = (double)ctx->m, n = (double)ctx->n;
  const double most = m > n ? m : n, least = m < n ? m : n;
  /* Lengths of workspaces stay in 32 bits. */
  if (most * (ctx->flag ? most : least) > 0x1p27 || (double)ctx->k > 0x1p27) return false;
  const int second = routines[kind].second;
  if (rm_lapack_routine(routines[kind].first, type) == NULL ||
      (second >= 0 && rm_lapack_routine(second, type) == NULL)) {
    return false;
  }
  return rm_blas_status() == RM_BLAS_ALWAYS ||
         (routines[kind].least[type] > 0 && least >= routines[kind].least[type]);
}

static bool run(problem *p, ptrdiff_t index, int type) {
  read(p, index);
  if (!has_usual_numbers(p)) return false;
  void *const function = rm_lapack_routine(routines[p->kind].first, type);
  if (p->kind == RM_LINALG_CHOLESKY || p->kind == RM_LINALG_INV || p->kind == RM_LINALG_SOLVE) {
    if (call_routine(p, function, NULL, 0) != 0) return false;
    write(p);
    return true;
  }
  double needed[2] = {0, 0};
  if (call_routine(p, function, needed, -1) != 0) return false;
  double length = load(p, needed, 0);
  void *const second =
      p->kind == RM_LINALG_QR ? rm_lapack_routine(routines[p->kind].second, type) : NULL;
  if (second != NULL) {
    if (make_q(p, second, needed, -1) != 0) return false;
    if (load(p, needed, 0) > length) length = load(p, needed, 0);
  }
  /* A float may be less than the number that it stands for. */
  length = ceil(length * (1 + 0x1p-22)) + 1;
  void *work = malloc((size_t)length * (size_t)p->bytes);
  if (work == NULL) return false;
  bool done = call_routine(p, function, work, (int64_t)length) == 0;
  if (done && second != NULL) {
    write_r(p);
    done = make_q(p, second, work, (int64_t)length) == 0;
  }
  free(work);
  if (done) write(p);
  return done;
}

bool rm_lapack_run(const rm_linalg *ctx, ptrdiff_t index) {
  const bool is_svd = ctx->kind == RM_LINALG_SVD || ctx->kind == RM_LINALG_SVDVALS;
  const bool is_eigh = ctx->kind == RM_LINALG_EIGH || ctx->kind == RM_LINALG_EIGVALSH;
  const bool is_eig = ctx->kind == RM_LINALG_EIG || ctx->kind == RM_LINALG_EIGVALS;
  const bool is_complex = ctx->type >= RM_LINALG_C64;
  const ptrdiff_t real = ctx->dtype == RM_FLOAT64 ? 8 : 4, bytes = is_complex ? 2 * real : real;
  const ptrdiff_t m = ctx->m, n = ctx->n, least = rm_min(m, n), most = m + n - least;
  ptrdiff_t k = ctx->kind == RM_LINALG_SOLVE || ctx->kind == RM_LINALG_INV ? ctx->k : n;
  /* The columns of q and u. */
  if (ctx->kind == RM_LINALG_QR || is_svd) k = ctx->flag ? m : least;
  problem p = {.ctx = ctx,
               .kind = ctx->kind,
               .is_complex = is_complex,
               .is_double = real == 8,
               .m = is_svd ? n : m,
               .n = is_svd ? m : n,
               .k = k,
               .bytes = bytes};
  /* The sizes and element sizes of the outputs. */
  ptrdiff_t sizes[3] = {m * k, n * k, 0}, widths[3] = {bytes, bytes, bytes};
  if (is_eigh) {
    sizes[0] = n, sizes[1] = n * n, widths[0] = real;
  } else if (is_eig) {
    sizes[0] = n, sizes[1] = n * n, widths[0] = widths[1] = 2 * real;
  } else if (is_svd) {
    const int values = ctx->kind == RM_LINALG_SVD;
    sizes[values] = least, sizes[2] = n * (ctx->flag ? n : least), widths[values] = real;
  }
  for (int i = 0; i < 3; i++) {
    char *const buffer = ctx->call->buffers[i == 0 ? 0 : i + 2];
    if (i > 0 && ctx->call->operands <= i + 2) break;
    if (buffer != NULL) {
      p.out[i] = buffer + ((ptrdiff_t)ctx->out_at[i] + index * sizes[i]) * widths[i];
    }
  }
  /* The factor is computed where it belongs. */
  const bool is_cholesky = ctx->kind == RM_LINALG_CHOLESKY;
  const ptrdiff_t second = is_cholesky || is_eigh || is_svd ? 1
                           : ctx->kind == RM_LINALG_QR      ? least
                                                            : n * k;
  const ptrdiff_t elements = is_cholesky ? 0 : m * (k > n ? k : n);
  const ptrdiff_t reals = is_eig    ? 2 * n
                          : is_eigh ? 2 * n * n + 5 * n + 1
                          : is_svd  ? 2 * most * least + 5 * least * least + 7 * least
                                    : 0;
  const ptrdiff_t integers = (8 * most + 8) * (ptrdiff_t)sizeof(int64_t);
  const ptrdiff_t reals_at = rm_round_up((elements + second) * bytes, 64);
  const ptrdiff_t integers_at =
      reals_at + (is_complex || is_eig ? rm_round_up(reals * real, 64) : 0);
  char *memory = malloc((size_t)(integers_at + integers));
  if (memory == NULL) return false;
  p.a = is_cholesky ? p.out[0] : memory;
  p.b = memory + elements * bytes;
  p.reals = memory + reals_at;
  p.integers = memory + integers_at;
  const bool done = run(&p, index, ctx->type);
  free(memory);
  return done;
}
