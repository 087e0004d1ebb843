/*
 * cuSOLVER, and the functions of cuBLAS for batches of matrices and for triangles: plain loops in
 * double on column-major matrices.
 *
 * Arguments are checked as strictly as the real library documents, workspaces have to be as large as
 * was asked for and are overwritten, and numbers that are not finite are a fault where the real
 * library promises nothing for them.
 */
#include "../emulator.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, BAD_HANDLE = 1, NO_MEMORY = 2, BAD_VALUE = 3, FAILED = 6 };
enum { BLAS_BAD_VALUE = 7, BLAS_FAILED = 13 };
enum { R_32F = 0, R_64F = 1, C_32F = 4, C_64F = 5 };
enum { LEFT = 0, RIGHT = 1 };

typedef double _Complex number;

typedef enum { GETRF, GETRS, POTRF, GEQRF, ORGQR, SYEVD, GESVD, TRSM } what;

typedef struct {
  work head;
  what what;
  int type;
  int64_t m, n, k, lda, ldb, ldu, ldvt, batch;
  int upper, op, unit, side, vectors;
  char job;
  /* A matrix, or with a batch a list of addresses; the same for right sides. */
  char *a, *b;
  /* Numbers beside the matrix: factors of reflectors, eigenvalues or singular values. */
  char *values, *u, *vt;
  void *pivots;
  bool narrow_pivots;
  int *info;
  char *workspace, *host;
  size_t bytes, host_bytes;
} job;

static bool is_type(int type) {
  return type == R_32F || type == R_64F || type == C_32F || type == C_64F;
}
static bool is_complex(int type) { return type == C_32F || type == C_64F; }
static int real_of(int type) { return is_complex(type) ? type - 4 : type; }
static size_t bytes_of(int type) { return type == R_32F ? 4 : type == C_64F ? 16 : 8; }

static double real_at(int type, const char *at, int64_t i) {
  return real_of(type) == R_32F ? (double)((const float *)(const void *)at)[i]
                                : ((const double *)(const void *)at)[i];
}

static number load(int type, const char *at, int64_t i) {
  if (!is_complex(type)) return real_at(type, at, i);
  const double parts[2] = {real_at(type, at, 2 * i), real_at(type, at, 2 * i + 1)};
  number x;
  memcpy(&x, parts, sizeof x);
  return x;
}

static void store(int type, char *at, int64_t i, number x) {
  switch (type) {
    case R_32F: ((float *)(void *)at)[i] = (float)creal(x); break;
    case R_64F: ((double *)(void *)at)[i] = creal(x); break;
    case C_32F:
      ((float *)(void *)at)[2 * i] = (float)creal(x);
      ((float *)(void *)at)[2 * i + 1] = (float)cimag(x);
      break;
    default:
      ((double *)(void *)at)[2 * i] = creal(x);
      ((double *)(void *)at)[2 * i + 1] = cimag(x);
  }
}

/* A matrix without gaps, by columns. */
static number *take(int type, const char *at, int64_t m, int64_t n, int64_t ld) {
  number *x = malloc((size_t)(m * n + 1) * sizeof *x);
  for (int64_t j = 0; j < n; j++) {
    for (int64_t i = 0; i < m; i++) x[j * m + i] = load(type, at, j * ld + i);
  }
  return x;
}

static void give(int type, char *at, int64_t m, int64_t n, int64_t ld, const number *x) {
  for (int64_t j = 0; j < n; j++) {
    for (int64_t i = 0; i < m; i++) store(type, at, j * ld + i, x[j * m + i]);
  }
}

/* ---- LU -------------------------------------------------------------------------------------- */

static void set_pivot(const job *t, int64_t matrix, int64_t i, int64_t row) {
  if (t->narrow_pivots) ((int *)t->pivots)[matrix * t->n + i] = (int)row + 1;
  else ((int64_t *)t->pivots)[i] = row + 1;
}

static int64_t pivot_at(const job *t, int64_t matrix, int64_t i) {
  return (t->narrow_pivots ? ((int *)t->pivots)[matrix * t->n + i] : ((int64_t *)t->pivots)[i]) - 1;
}

static int getrf(const job *t, int64_t matrix, char *a) {
  const int64_t m = t->m, n = t->n, count = m < n ? m : n;
  number *x = take(t->type, a, m, n, t->lda);
  int info = 0;
  for (int64_t k = 0; k < count; k++) {
    int64_t best = k;
    for (int64_t i = k + 1; i < m; i++) {
      if (cabs(x[k * m + i]) > cabs(x[k * m + best])) best = i;
    }
    set_pivot(t, matrix, k, best);
    if (x[k * m + best] == 0) {
      if (info == 0) info = (int)k + 1;
      continue;
    }
    for (int64_t j = 0; j < n && best != k; j++) {
      const number other = x[j * m + best];
      x[j * m + best] = x[j * m + k];
      x[j * m + k] = other;
    }
    for (int64_t i = k + 1; i < m; i++) {
      const number factor = x[k * m + i] /= x[k * m + k];
      for (int64_t j = k + 1; j < n; j++) x[j * m + i] -= factor * x[j * m + k];
    }
  }
  give(t->type, a, m, n, t->lda, x);
  free(x);
  return info;
}

/* Solves op(A) y = c in place for a triangle of A [n, n]. */
static void solve_one(const number *a, int64_t n, bool upper, int op, bool unit, number *y) {
  const bool down = upper == (op != 0);
  for (int64_t step = 0; step < n; step++) {
    const int64_t i = down ? step : n - 1 - step;
    number sum = y[i];
    for (int64_t l = 0; l < step; l++) {
      const int64_t j = down ? l : n - 1 - l;
      const number x = op == 0 ? a[j * n + i] : a[i * n + j];
      sum -= (op == 2 ? conj(x) : x) * y[j];
    }
    const number d = op == 2 ? conj(a[i * n + i]) : a[i * n + i];
    y[i] = unit ? sum : sum / d;
  }
}

static void getrs(const job *t, int64_t matrix, const char *a, char *b) {
  const int64_t n = t->n;
  number *lu = take(t->type, a, n, n, t->lda), *x = take(t->type, b, n, t->k, t->ldb);
  for (int64_t j = 0; j < t->k; j++) {
    number *y = x + j * n;
    for (int64_t step = 0; step < 2; step++) {
      const bool exchanges = step == (t->op == 0 ? 0 : 1);
      if (step == 1) solve_one(lu, n, t->op == 0, t->op, t->op != 0, y);
      for (int64_t l = 0; l < n && exchanges; l++) {
        const int64_t i = t->op == 0 ? l : n - 1 - l, row = pivot_at(t, matrix, i);
        const number other = y[row];
        y[row] = y[i];
        y[i] = other;
      }
      if (step == 0) solve_one(lu, n, t->op != 0, t->op, t->op == 0, y);
    }
  }
  give(t->type, b, n, t->k, t->ldb, x);
  free(lu);
  free(x);
}

static void trsm(const job *t, const char *a, char *b) {
  const int64_t n = t->n, k = t->m;
  number *x = take(t->type, a, n, n, t->lda), *c = take(t->type, b, k, n, t->ldb);
  number *y = malloc((size_t)n * sizeof *y);
  for (int64_t i = 0; i < k; i++) {
    /* x A = c is Aᵀ xᵀ = cᵀ. */
    for (int64_t j = 0; j < n; j++) y[j] = c[j * k + i];
    solve_one(x, n, t->upper, 1, t->unit, y);
    for (int64_t j = 0; j < n; j++) c[j * k + i] = y[j];
  }
  give(t->type, b, k, n, t->ldb, c);
  free(x);
  free(c);
  free(y);
}

/* ---- Cholesky and QR ------------------------------------------------------------------------- */

static int potrf(const job *t, char *a) {
  const int64_t n = t->n;
  number *x = take(t->type, a, n, n, t->lda);
  int info = 0;
#define LOWER(i, j) x[t->upper ? (i) * n + (j) : (j) * n + (i)]
  /* The upper triangle has the conjugates of the lower one. */
  for (int64_t j = 0; j < n && info == 0; j++) {
    double d = creal(LOWER(j, j));
    for (int64_t l = 0; l < j; l++) d -= creal(LOWER(j, l) * conj(LOWER(j, l)));
    if (d <= 0) {
      info = (int)j + 1;
      break;
    }
    d = sqrt(d);
    LOWER(j, j) = d;
    for (int64_t i = j + 1; i < n; i++) {
      number sum = LOWER(i, j);
      for (int64_t l = 0; l < j; l++) {
        const number p = LOWER(i, l), q = LOWER(j, l);
        sum -= t->upper ? conj(q) * p : p * conj(q);
      }
      LOWER(i, j) = sum / d;
    }
  }
#undef LOWER
  give(t->type, a, n, n, t->lda, x);
  free(x);
  return info;
}

/* Applies 1 - tau v vᴴ to a column, from row k on, where v is 1. */
static void reflect(const number *v, number tau, int64_t k, int64_t m, number *column) {
  number sum = column[k];
  for (int64_t i = k + 1; i < m; i++) sum += conj(v[i]) * column[i];
  sum *= tau;
  column[k] -= sum;
  for (int64_t i = k + 1; i < m; i++) column[i] -= v[i] * sum;
}

static void geqrf(const job *t, char *a) {
  const int64_t m = t->m, n = t->n, count = m < n ? m : n;
  number *x = take(t->type, a, m, n, t->lda);
  for (int64_t k = 0; k < count; k++) {
    number *v = x + k * m, alpha = v[k], tau = 0;
    double rest = 0;
    for (int64_t i = k + 1; i < m; i++) rest += creal(v[i] * conj(v[i]));
    if (rest != 0 || cimag(alpha) != 0) {
      const double size = sqrt(rest + creal(alpha * conj(alpha)));
      const double beta = creal(alpha) > 0 ? -size : size;
      tau = (beta - alpha) / beta;
      for (int64_t i = k + 1; i < m; i++) v[i] /= alpha - beta;
      for (int64_t j = k + 1; j < n; j++) reflect(v, conj(tau), k, m, x + j * m);
      v[k] = beta;
    }
    store(t->type, t->values, k, tau);
  }
  give(t->type, a, m, n, t->lda, x);
  free(x);
}

static void orgqr(const job *t, char *a) {
  const int64_t m = t->m, n = t->n;
  number *v = take(t->type, a, m, t->k, t->lda), *q = calloc((size_t)(m * n), sizeof *q);
  for (int64_t j = 0; j < n; j++) q[j * m + j] = 1;
  for (int64_t k = t->k - 1; k >= 0; k--) {
    const number tau = load(t->type, t->values, k);
    for (int64_t j = 0; j < n; j++) reflect(v + k * m, tau, k, m, q + j * m);
  }
  give(t->type, a, m, n, t->lda, q);
  free(v);
  free(q);
}

/* ---- eigenvalues and singular values: rotations of pairs of columns --------------------------- */

/* Makes columns of x orthogonal by rotations, which are applied to v too: x becomes U S. */
static void orthogonalize(number *x, int64_t m, int64_t n, number *v) {
  for (int sweep = 0, turned = 1; sweep < 60 && turned; sweep++) {
    turned = 0;
    for (int64_t p = 0; p < n; p++) {
      for (int64_t q = p + 1; q < n; q++) {
        number *a = x + p * m, *b = x + q * m, dot = 0;
        double aa = 0, bb = 0;
        for (int64_t i = 0; i < m; i++) {
          aa += creal(a[i] * conj(a[i]));
          bb += creal(b[i] * conj(b[i]));
          dot += conj(a[i]) * b[i];
        }
        const double size = cabs(dot);
        if (size <= 1e-15 * sqrt(aa) * sqrt(bb) || size < 1e-300) continue;
        turned = 1;
        const double zeta = (bb - aa) / (2 * size);
        const double t = (zeta >= 0 ? 1 : -1) / (fabs(zeta) + hypot(1, zeta));
        const double c = 1 / hypot(1, t);
        const number phase = dot / size, s = c * t * phase;
        for (int64_t part = 0; part < 2; part++) {
          number *y = part == 0 ? a : v + p * n, *z = part == 0 ? b : v + q * n;
          for (int64_t i = 0; i < (part == 0 ? m : n); i++) {
            const number old = y[i];
            y[i] = c * old - conj(s) * z[i];
            z[i] = s * old + c * z[i];
          }
        }
      }
    }
  }
}

/* Fills columns from `have` on with unit vectors that are orthogonal to all before. */
static void complete(number *u, int64_t m, int64_t have, int64_t columns) {
  int64_t next = 0;
  for (int64_t j = have; j < columns; j++) {
    number *x = u + j * m;
    for (double size = 0; size < 0.5 / sqrt((double)m); next++) {
      memset(x, 0, (size_t)m * sizeof *x);
      x[next % m] = 1;
      for (int round = 0; round < 2; round++) {
        for (int64_t p = 0; p < j; p++) {
          number dot = 0;
          for (int64_t i = 0; i < m; i++) dot += conj(u[p * m + i]) * x[i];
          for (int64_t i = 0; i < m; i++) x[i] -= dot * u[p * m + i];
        }
        size = 0;
        for (int64_t i = 0; i < m; i++) size += creal(x[i] * conj(x[i]));
        size = sqrt(size);
        if (size < 0.5 / sqrt((double)m)) break;
        for (int64_t i = 0; i < m; i++) x[i] /= size;
      }
    }
  }
}

static bool is_finite(const number *x, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    if (!isfinite(creal(x[i])) || !isfinite(cimag(x[i]))) return false;
  }
  return true;
}

static bool gesvd(const job *t, char *a) {
  const int64_t m = t->m, n = t->n, columns = t->job == 'A' ? m : n;
  number *x = take(t->type, a, m, n, t->lda), *v = calloc((size_t)(n * n), sizeof *v);
  number *u = calloc((size_t)(m * m), sizeof *u);
  double *s = malloc((size_t)n * sizeof *s);
  const bool finite = is_finite(x, m * n);
  for (int64_t j = 0; j < n; j++) v[j * n + j] = 1;
  if (finite) orthogonalize(x, m, n, v);
  for (int64_t j = 0; j < n; j++) {
    s[j] = 0;
    for (int64_t i = 0; i < m; i++) s[j] += creal(x[j * m + i] * conj(x[j * m + i]));
    s[j] = sqrt(s[j]);
  }
  int64_t have = 0;
  double most = 0;
  for (int64_t j = 0; j < n; j++) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) best = s[i] > s[best] ? i : best;
    if (j == 0) most = s[best];
    store(real_of(t->type), t->values, j, s[best]);
    if (s[best] > most * 1e-14) {
      for (int64_t i = 0; i < m; i++) u[j * m + i] = x[best * m + i] / s[best];
      have = j + 1;
    }
    for (int64_t i = 0; i < n && t->job != 'N'; i++) {
      store(t->type, t->vt, i * t->ldvt + j, conj(v[best * n + i]));
    }
    s[best] = -1;
  }
  if (t->job != 'N') {
    complete(u, m, have, columns);
    give(t->type, t->u, m, columns, t->ldu, u);
  }
  for (int64_t i = 0; i < m * n; i++) x[i] = NAN;
  give(t->type, a, m, n, t->lda, x);
  free(x);
  free(v);
  free(u);
  free(s);
  return finite;
}

static bool syevd(const job *t, char *a) {
  const int64_t n = t->n;
  number *x = take(t->type, a, n, n, t->lda), *v = calloc((size_t)(n * n), sizeof *v);
  for (int64_t j = 0; j < n; j++) {
    for (int64_t i = 0; i < j; i++) {
      if (t->upper) x[i * n + j] = conj(x[j * n + i]);
      else x[j * n + i] = conj(x[i * n + j]);
    }
    x[j * n + j] = creal(x[j * n + j]);
    v[j * n + j] = 1;
  }
  const bool finite = is_finite(x, n * n);
  for (int sweep = 0, turned = 1; finite && sweep < 60 && turned; sweep++) {
    turned = 0;
    for (int64_t p = 0; p < n; p++) {
      for (int64_t q = p + 1; q < n; q++) {
        const number off = x[q * n + p];
        const double size = cabs(off), aa = creal(x[p * n + p]), bb = creal(x[q * n + q]);
        if (size < 1e-300 || size <= 1e-17 * (fabs(aa) + fabs(bb))) continue;
        turned = 1;
        const double zeta = (bb - aa) / (2 * size);
        const double tan = (zeta >= 0 ? 1 : -1) / (fabs(zeta) + hypot(1, zeta));
        const double c = 1 / hypot(1, tan);
        const number s = c * tan * (off / size);
        for (int64_t part = 0; part < 2; part++) {
          number *y = (part == 0 ? x : v) + p * n, *z = (part == 0 ? x : v) + q * n;
          for (int64_t i = 0; i < n; i++) {
            const number old = y[i];
            y[i] = c * old - conj(s) * z[i];
            z[i] = s * old + c * z[i];
          }
        }
        for (int64_t i = 0; i < n; i++) {
          const number old = x[i * n + p];
          x[i * n + p] = c * old - s * x[i * n + q];
          x[i * n + q] = conj(s) * old + c * x[i * n + q];
        }
      }
    }
  }
  number *sorted = malloc((size_t)(n * n) * sizeof *sorted);
  bool *used = calloc((size_t)n, sizeof *used);
  for (int64_t j = 0; j < n; j++) {
    int64_t least = -1;
    for (int64_t i = 0; i < n; i++) {
      if (!used[i] && (least < 0 || creal(x[i * n + i]) < creal(x[least * n + least]))) least = i;
    }
    used[least] = true;
    store(real_of(t->type), t->values, j, x[least * n + least]);
    for (int64_t i = 0; i < n; i++) sorted[j * n + i] = t->vectors ? v[least * n + i] : NAN;
  }
  give(t->type, a, n, n, t->lda, sorted);
  free(x);
  free(v);
  free(sorted);
  free(used);
  return finite;
}

/* ---- running --------------------------------------------------------------------------------- */

static bool holds_matrix(const job *t, const char *at, int64_t m, int64_t n, int64_t ld) {
  return emu_holds(at, (size_t)((n - 1) * ld + m) * bytes_of(t->type));
}

/* Whether all that a matrix needs lies in memory of the device. */
static bool is_held(const job *t, const char *a, const char *b) {
  const int64_t least = t->m < t->n ? t->m : t->n;
  const size_t size = bytes_of(t->type), real = bytes_of(real_of(t->type));
  const bool right = t->what == TRSM;
  const int64_t rows = right || t->what == GETRS ? t->n : t->m;
  bool held = holds_matrix(t, a, rows, t->what == ORGQR && t->k > t->n ? t->k : t->n, t->lda);
  if (t->what == GETRS) held = held && holds_matrix(t, b, t->n, t->k, t->ldb);
  if (right) held = held && holds_matrix(t, b, t->m, t->n, t->ldb);
  if (t->what == GEQRF) held = held && emu_holds(t->values, (size_t)least * size);
  if (t->what == ORGQR) held = held && emu_holds(t->values, (size_t)t->k * size);
  if (t->what == SYEVD || t->what == GESVD) held = held && emu_holds(t->values, (size_t)t->n * real);
  if (t->what == GESVD && t->job != 'N') {
    held = held && holds_matrix(t, t->u, t->m, t->job == 'A' ? t->m : t->n, t->ldu) &&
           holds_matrix(t, t->vt, t->n, t->n, t->ldvt);
  }
  return held;
}

static int run_job(work *w) {
  const job *t = (const job *)w;
  const int64_t count = t->batch < 1 ? 1 : t->batch, least = t->m < t->n ? t->m : t->n;
  const size_t pivots = t->narrow_pivots ? (size_t)(t->n * count) * 4 : (size_t)least * 8;
  const bool has_pivots = t->what == GETRF || t->what == GETRS;
  int error = SUCCESS;
  emu_open_memory(-1);
  if ((t->info != NULL && !emu_holds(t->info, (size_t)count * sizeof(int))) ||
      (has_pivots && !emu_holds(t->pivots, pivots)) ||
      (t->bytes > 0 && !emu_holds(t->workspace, t->bytes)) ||
      (t->batch > 0 && !emu_holds(t->a, (size_t)count * sizeof(void *)))) {
    emu_note("a step of linear algebra has a list, pivots or a workspace that is no memory");
    error = ILLEGAL_ADDRESS;
  }
  /* Memory of the host that is gone would be a fault here. */
  if (error == SUCCESS && t->host_bytes > 0) memset(t->host, 0xff, t->host_bytes);
  if (error == SUCCESS && t->bytes > 0) memset(t->workspace, 0xff, t->bytes);
  for (int64_t i = 0; i < count && error == SUCCESS; i++) {
    char *a = t->batch > 0 ? ((char **)(void *)t->a)[i] : t->a;
    char *b = t->batch > 0 && t->b != NULL ? ((char **)(void *)t->b)[i] : t->b;
    if (!is_held(t, a, b)) {
      emu_note("linear algebra of %lld x %lld reaches beyond its matrices", (long long)t->m,
               (long long)t->n);
      error = ILLEGAL_ADDRESS;
      break;
    }
    int info = 0;
    bool finite = true;
    switch (t->what) {
      case GETRF: info = getrf(t, i, a); break;
      case GETRS: getrs(t, i, a, b); break;
      case POTRF: info = potrf(t, a); break;
      case GEQRF: geqrf(t, a); break;
      case ORGQR: orgqr(t, a); break;
      case SYEVD: finite = syevd(t, a); break;
      case GESVD: finite = gesvd(t, a); break;
      case TRSM: trsm(t, a, b); break;
    }
    if (!finite) {
      emu_note("numbers of a decomposition are not finite");
      error = ILLEGAL_ADDRESS;
    }
    if (t->info != NULL) t->info[i] = info;
  }
  emu_close_memory();
  emu_numbers[FACTORS]++;
  return error;
}

/* Queues a step that has been checked. */
static int queue(stream *s, const job *of, int failure) {
  if (emu_fails(FAIL_SOLVER) || emu_device(s->device)->fault != SUCCESS || s->capture != NULL) {
    return failure;
  }
  job *t = malloc(sizeof *t);
  *t = *of;
  t->head = (work){.run = run_job};
  emu_queue(s, &t->head);
  return OK;
}

/* ---- cuSOLVER -------------------------------------------------------------------------------- */

#define SOLVER_MAGIC 0x736f6c76
#define PARAMS_MAGIC 0x70617261

typedef struct {
  int magic, device;
  void *stream;
} handle;

EMU_API int cusolverGetProperty(int which, int *value) {
  return *value = which == 0 ? 12 : 0, OK;
}

EMU_API int cusolverDnCreate(handle **made) {
  EMU_LOCK;
  if (emu_device_count() == 0 || emu_fails(FAIL_SOLVER)) return BAD_HANDLE;
  handle *h = calloc(1, sizeof *h);
  *h = (handle){.magic = SOLVER_MAGIC, .device = emu_current};
  *made = h;
  return OK;
}

EMU_API int cusolverDnCreateParams(int **made) {
  EMU_LOCK;
  if (emu_fails(FAIL_SOLVER)) return NO_MEMORY;
  *made = malloc(sizeof **made);
  **made = PARAMS_MAGIC;
  return OK;
}

EMU_API int cusolverDnSetStream(handle *h, void *to) {
  EMU_LOCK;
  if (h == NULL || h->magic != SOLVER_MAGIC) return BAD_HANDLE;
  stream *s = emu_stream(to);
  if (s == NULL || s->device != h->device || emu_fails(FAIL_SOLVER)) return BAD_VALUE;
  h->stream = to;
  return OK;
}

/* The stream of a handle, which belongs to the current device and has been set; else null. */
static stream *stream_of(const handle *h) {
  if (h == NULL || h->magic != SOLVER_MAGIC || h->device != emu_current || h->stream == NULL) {
    return NULL;
  }
  stream *s = emu_stream(h->stream);
  return s == NULL || s->device != emu_current ? NULL : s;
}

/* The bytes of workspaces: those of one size suit no other. */
static size_t device_bytes(const job *t) {
  return bytes_of(t->type) * (size_t)(t->m * t->n + 3 * t->n + 7 + t->what);
}
static size_t host_bytes(const job *t) { return t->what == GETRF ? 0 : 64 + (size_t)(8 * t->n); }

static bool is_stride(int64_t ld, int64_t rows) { return ld >= (rows > 1 ? rows : 1); }
static bool is_flag(int x) { return x == 0 || x == 1; }

/* Checks what all steps have in common, then tells the sizes of workspaces or queues the step. */
static int perform(const handle *h, const int *params, job t, int compute, bool sound,
                   size_t *tells, size_t *tells_host) {
  EMU_LOCK;
  stream *s = stream_of(h);
  if (s == NULL || params == NULL || *params != PARAMS_MAGIC) return BAD_HANDLE;
  if (!sound || !is_type(t.type) || compute != t.type || t.m < 1 || t.n < 1 || t.a == NULL ||
      !is_stride(t.lda, t.m)) {
    return BAD_VALUE;
  }
  if (tells != NULL) {
    if (emu_fails(FAIL_SOLVER)) return FAILED;
    *tells = device_bytes(&t);
    *tells_host = host_bytes(&t);
    return OK;
  }
  const bool works = t.what != GETRS;
  if (t.info == NULL || (works && (t.bytes < device_bytes(&t) || t.host_bytes < host_bytes(&t) ||
                                   t.workspace == NULL || (host_bytes(&t) > 0 && t.host == NULL)))) {
    return BAD_VALUE;
  }
  return queue(s, &t, FAILED);
}

#define PARAMS handle *h, int *params
#define ASKS size_t *bytes, size_t *host_bytes
#define WORKS void *work, size_t bytes, void *host, size_t host_bytes, int *info
#define WITH .workspace = work, .bytes = bytes, .host = host, .host_bytes = host_bytes, .info = info

#define GETRF_JOB .what = GETRF, .type = type, .m = m, .n = n, .lda = lda
EMU_API int cusolverDnXgetrf_bufferSize(PARAMS, int64_t m, int64_t n, int type, void *a, int64_t lda,
                                        int compute, ASKS) {
  return perform(h, params, (job){GETRF_JOB, .a = a}, compute, true, bytes, host_bytes);
}
EMU_API int cusolverDnXgetrf(PARAMS, int64_t m, int64_t n, int type, void *a, int64_t lda,
                             int64_t *pivots, int compute, WORKS) {
  return perform(h, params, (job){GETRF_JOB, .a = a, .pivots = pivots, WITH}, compute,
                 pivots != NULL, NULL, NULL);
}

EMU_API int cusolverDnXgetrs(PARAMS, int op, int64_t n, int64_t k, int type, void *a, int64_t lda,
                             int64_t *pivots, int type_b, void *b, int64_t ldb, int *info) {
  const job t = {.what = GETRS, .type = type, .m = n, .n = n, .k = k, .lda = lda, .ldb = ldb,
                 .op = op, .a = a, .b = b, .pivots = pivots, .info = info};
  const bool sound = op >= 0 && op <= 2 && k >= 1 && pivots != NULL && type_b == type &&
                     b != NULL && is_stride(ldb, n);
  return perform(h, params, t, type, sound, NULL, NULL);
}

#define POTRF_JOB .what = POTRF, .type = type, .m = n, .n = n, .lda = lda, .upper = uplo, .a = a
EMU_API int cusolverDnXpotrf_bufferSize(PARAMS, int uplo, int64_t n, int type, void *a, int64_t lda,
                                        int compute, ASKS) {
  return perform(h, params, (job){POTRF_JOB}, compute, is_flag(uplo), bytes, host_bytes);
}
EMU_API int cusolverDnXpotrf(PARAMS, int uplo, int64_t n, int type, void *a, int64_t lda,
                             int compute, WORKS) {
  return perform(h, params, (job){POTRF_JOB, WITH}, compute, is_flag(uplo), NULL, NULL);
}

#define GEQRF_JOB .what = GEQRF, .type = type, .m = m, .n = n, .lda = lda, .a = a, .values = tau
EMU_API int cusolverDnXgeqrf_bufferSize(PARAMS, int64_t m, int64_t n, int type, void *a, int64_t lda,
                                        int type_tau, void *tau, int compute, ASKS) {
  return perform(h, params, (job){GEQRF_JOB}, compute, tau != NULL && type_tau == type, bytes,
                 host_bytes);
}
EMU_API int cusolverDnXgeqrf(PARAMS, int64_t m, int64_t n, int type, void *a, int64_t lda,
                             int type_tau, void *tau, int compute, WORKS) {
  return perform(h, params, (job){GEQRF_JOB, WITH}, compute, tau != NULL && type_tau == type, NULL,
                 NULL);
}

#define SYEVD_JOB \
  .what = SYEVD, .type = type, .m = n, .n = n, .lda = lda, .a = a, .values = w, .upper = uplo, \
  .vectors = vectors
#define SYEVD_SOUND is_flag(vectors) && is_flag(uplo) && w != NULL && type_w == real_of(type)
EMU_API int cusolverDnXsyevd_bufferSize(PARAMS, int vectors, int uplo, int64_t n, int type, void *a,
                                        int64_t lda, int type_w, void *w, int compute, ASKS) {
  return perform(h, params, (job){SYEVD_JOB}, compute, SYEVD_SOUND, bytes, host_bytes);
}
EMU_API int cusolverDnXsyevd(PARAMS, int vectors, int uplo, int64_t n, int type, void *a,
                             int64_t lda, int type_w, void *w, int compute, WORKS) {
  return perform(h, params, (job){SYEVD_JOB, WITH}, compute, SYEVD_SOUND, NULL, NULL);
}

#define GESVD_JOB \
  .what = GESVD, .type = type, .m = m, .n = n, .lda = lda, .ldu = ldu, .ldvt = ldvt, .a = a, \
  .values = s, .u = u, .vt = vt, .job = (char)job_u
/* Other pairs of jobs are left out. */
#define GESVD_SOUND \
  m >= n && job_u == job_vt && (job_u == 'N' || job_u == 'S' || job_u == 'A') && s != NULL && \
      type_s == real_of(type) && type_u == type && type_vt == type && \
      (job_u == 'N' || (u != NULL && vt != NULL && is_stride(ldu, m) && is_stride(ldvt, n)))
EMU_API int cusolverDnXgesvd_bufferSize(PARAMS, signed char job_u, signed char job_vt, int64_t m,
                                        int64_t n, int type, void *a, int64_t lda, int type_s,
                                        void *s, int type_u, void *u, int64_t ldu, int type_vt,
                                        void *vt, int64_t ldvt, int compute, ASKS) {
  return perform(h, params, (job){GESVD_JOB}, compute, GESVD_SOUND, bytes, host_bytes);
}
EMU_API int cusolverDnXgesvd(PARAMS, signed char job_u, signed char job_vt, int64_t m, int64_t n,
                             int type, void *a, int64_t lda, int type_s, void *s, int type_u,
                             void *u, int64_t ldu, int type_vt, void *vt, int64_t ldvt,
                             int compute, WORKS) {
  return perform(h, params, (job){GESVD_JOB, WITH}, compute, GESVD_SOUND, NULL, NULL);
}

/* ---- functions of one type ------------------------------------------------------------------- */

static int make_q(const handle *h, int type, int m, int n, int k, void *a, int lda, void *tau,
                  void *workspace, int count, int *tells, int *info) {
  EMU_LOCK;
  stream *s = stream_of(h);
  if (s == NULL) return BAD_HANDLE;
  const int least = n * 5 + k;
  if (m < 1 || n < 1 || n > m || k < 0 || k > n || a == NULL || tau == NULL || !is_stride(lda, m)) {
    return BAD_VALUE;
  }
  if (tells != NULL) {
    if (emu_fails(FAIL_SOLVER)) return FAILED;
    return *tells = least, OK;
  }
  if (count < least || workspace == NULL || info == NULL) return BAD_VALUE;
  const job t = {.what = ORGQR, .type = type, .m = m, .n = n, .k = k, .lda = lda, .a = a,
                 .values = tau, .workspace = workspace, .info = info,
                 .bytes = (size_t)least * bytes_of(type)};
  return queue(s, &t, FAILED);
}

static int factor_definite(const handle *h, int type, int uplo, int n, void *a, int lda, int *info,
                           int batch) {
  EMU_LOCK;
  stream *s = stream_of(h);
  if (s == NULL) return BAD_HANDLE;
  if (!is_flag(uplo) || n < 1 || a == NULL || !is_stride(lda, n) || info == NULL || batch < 1) {
    return BAD_VALUE;
  }
  const job t = {.what = POTRF, .type = type, .m = n, .n = n, .lda = lda, .upper = uplo, .a = a,
                 .info = info, .batch = batch};
  return queue(s, &t, FAILED);
}

#define OF_SOLVER(letter, q, code) \
  EMU_API int cusolverDn##letter##q##_bufferSize(handle *h, int m, int n, int k, void *a, int lda, \
                                                 void *tau, int *count) { \
    return make_q(h, code, m, n, k, a, lda, tau, NULL, 0, count, NULL); \
  } \
  EMU_API int cusolverDn##letter##q(handle *h, int m, int n, int k, void *a, int lda, void *tau, \
                                    void *work, int count, int *info) { \
    return make_q(h, code, m, n, k, a, lda, tau, work, count, NULL, info); \
  } \
  EMU_API int cusolverDn##letter##potrfBatched(handle *h, int uplo, int n, void *a, int lda, \
                                               int *info, int batch) { \
    return factor_definite(h, code, uplo, n, a, lda, info, batch); \
  }
OF_SOLVER(S, orgqr, R_32F)
OF_SOLVER(D, orgqr, R_64F)
OF_SOLVER(C, ungqr, C_32F)
OF_SOLVER(Z, ungqr, C_64F)

/* ---- cuBLAS ---------------------------------------------------------------------------------- */

extern int cublasGetStream_v2(void *handle, void **stream);

/* Queues a step of cuBLAS. */
static int perform_blas(void *blas, job t, bool sound) {
  EMU_LOCK;
  void *to;
  const int code = cublasGetStream_v2(blas, &to);
  if (code != OK) return code;
  stream *s = emu_stream(to);
  if (s == NULL || !sound || t.n < 1 || t.a == NULL || !is_stride(t.lda, t.n)) {
    return BLAS_BAD_VALUE;
  }
  return queue(s, &t, BLAS_FAILED);
}

static int solve_triangle(void *blas, int type, int side, int uplo, int op, int diagonal, int m,
                          int n, const void *alpha, void *a, int lda, void *b, int ldb, int batch) {
  const job t = {.what = TRSM, .type = type, .m = m, .n = n, .lda = lda, .ldb = ldb, .upper = uplo,
                 .unit = diagonal, .a = a, .b = b, .batch = batch};
  /* The left side, transposes and factors are left out. */
  const bool sound = side == RIGHT && is_flag(uplo) && op == 0 && is_flag(diagonal) && m >= 1 &&
                     alpha != NULL && load(type, alpha, 0) == 1 && b != NULL && is_stride(ldb, m);
  return perform_blas(blas, t, sound);
}

static int solve_factored(void *blas, int type, int op, int n, int k, void *a, int lda, int *pivots,
                          void *b, int ldb, int *info, int batch) {
  const job t = {.what = GETRS, .type = type, .m = n, .n = n, .k = k, .lda = lda, .ldb = ldb,
                 .op = op, .a = a, .b = b, .pivots = pivots, .narrow_pivots = true, .batch = batch};
  if (info == NULL) return BLAS_BAD_VALUE;
  *info = 0;
  return perform_blas(blas, t, op >= 0 && op <= 2 && k >= 1 && pivots != NULL && b != NULL &&
                                   batch >= 1 && is_stride(ldb, n));
}

#define OF_BLAS(letter, code) \
  EMU_API int cublas##letter##trsm_v2(void *h, int side, int uplo, int op, int diagonal, int m, \
                                      int n, void *alpha, void *a, int lda, void *b, int ldb) { \
    return solve_triangle(h, code, side, uplo, op, diagonal, m, n, alpha, a, lda, b, ldb, 0); \
  } \
  EMU_API int cublas##letter##trsmBatched(void *h, int side, int uplo, int op, int diagonal, \
                                          int m, int n, void *alpha, void *a, int lda, void *b, \
                                          int ldb, int batch) { \
    if (batch < 1) return BLAS_BAD_VALUE; \
    return solve_triangle(h, code, side, uplo, op, diagonal, m, n, alpha, a, lda, b, ldb, batch); \
  } \
  EMU_API int cublas##letter##getrfBatched(void *h, int n, void *a, int lda, int *pivots, \
                                           int *info, int batch) { \
    const job t = {.what = GETRF, .type = code, .m = n, .n = n, .lda = lda, .a = a, \
                   .pivots = pivots, .narrow_pivots = true, .info = info, .batch = batch}; \
    return perform_blas(h, t, pivots != NULL && info != NULL && batch >= 1); \
  } \
  EMU_API int cublas##letter##getrsBatched(void *h, int op, int n, int k, void *a, int lda, \
                                           int *pivots, void *b, int ldb, int *info, int batch) { \
    return solve_factored(h, code, op, n, k, a, lda, pivots, b, ldb, info, batch); \
  }
OF_BLAS(S, R_32F)
OF_BLAS(D, R_64F)
OF_BLAS(C, C_32F)
OF_BLAS(Z, C_64F)
