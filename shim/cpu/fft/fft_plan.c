/*
 * Plans of Fourier transforms, the cache of plans, and workspaces.
 */
#include <stdlib.h>
#include "fft_plan.h"
#include "mutex.h"

enum { MAX_PLANS = 64, MAX_WORKSPACES = 16, ALIGNMENT = 64 };

/* The bytes that plans, and workspaces, keep at most. */
static const size_t MAX_KEPT = (size_t)64 << 20;

static const double PI = 3.14159265358979323846;

/* ---- roots of unity -------------------------------------------------------------------------- */

/* Taylor's series of sine and cosine in [0, pi / 4], to half a unit in the last place. */
static double sine(double x) {
  const double y = x * x;
  return x - x * y * (1.0 / 6 - y * (1.0 / 120 - y * (1.0 / 5040 - y * (1.0 / 362880 -
             y * (1.0 / 39916800 - y * (1.0 / 6227020800 - y * (1.0 / 1307674368000 -
             y / 355687428096000)))))));
}

static double cosine(double x) {
  const double y = x * x;
  return 1 - y * (0.5 - y * (1.0 / 24 - y * (1.0 / 720 - y * (1.0 / 40320 - y * (1.0 / 3628800 -
             y * (1.0 / 479001600 - y * (1.0 / 87178291200 - y / 20922789888000)))))));
}

/* exp(-2 pi i k / n), for 0 <= k < n, symmetric in all octants. */
static void root(ptrdiff_t k, ptrdiff_t n, double *re, double *im) {
  /* Eighths of the circle, and what is left, k / 8n of it. */
  k *= 8;
  const ptrdiff_t octant = k / n;
  ptrdiff_t rest = k - octant * n;
  if (octant & 1) rest = n - rest;
  const double angle = PI * (double)rest / (double)n / 4;
  double c = cosine(angle), s = sine(angle);
  if ((octant + 1) & 2) {
    const double swapped = c;
    c = s;
    s = swapped;
  }
  if (octant >= 2 && octant < 6) c = -c;
  if (octant >= 4) s = -s;
  *re = c;
  *im = -s;
}

/* Writes one number of `bytes` bytes. */
static void put(void *to, int bytes, ptrdiff_t at, double value) {
  if (bytes == 8) ((double *)to)[at] = value;
  else ((float *)to)[at] = (float)value;
}

static void put_root(void *to, int bytes, ptrdiff_t at, ptrdiff_t k, ptrdiff_t n) {
  double re, im;
  root(k % n, n, &re, &im);
  put(to, bytes, 2 * at, re);
  put(to, bytes, 2 * at + 1, im);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void *allocate(size_t bytes) {
  char *raw = malloc(bytes + ALIGNMENT + sizeof(void *));
  if (raw == NULL) return NULL;
  const uintptr_t at = ((uintptr_t)raw + sizeof(void *) + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
  ((void **)at)[-1] = raw;
  return (void *)at;
}

static void release(void *aligned) {
  if (aligned != NULL) free(((void **)aligned)[-1]);
}

typedef struct {
  size_t bytes;
  void *memory;
} kept_workspace;

static rm_mutex workspace_mutex = RM_MUTEX_INIT;
static kept_workspace workspaces[MAX_WORKSPACES];

/* The bytes of a workspace are in the cache line before it. */
static size_t *bytes_of(void *workspace) { return (size_t *)((char *)workspace - ALIGNMENT); }

void *rm_fft_workspace(size_t bytes) {
  kept_workspace found = {0, NULL};
  rm_mutex_lock(&workspace_mutex);
  int best = -1;
  for (int i = 0; i < MAX_WORKSPACES; i++) {
    if (workspaces[i].memory == NULL || workspaces[i].bytes < bytes) continue;
    if (best < 0 || workspaces[i].bytes < workspaces[best].bytes) best = i;
  }
  if (best >= 0) {
    found = workspaces[best];
    workspaces[best].memory = NULL;
  }
  rm_mutex_unlock(&workspace_mutex);
  if (found.memory != NULL) return found.memory;
  char *made = allocate(bytes + ALIGNMENT);
  if (made == NULL) return NULL;
  made += ALIGNMENT;
  *bytes_of(made) = bytes;
  return made;
}

void rm_fft_give_workspace(void *workspace) {
  if (workspace == NULL) return;
  kept_workspace dropped = {*bytes_of(workspace), workspace};
  rm_mutex_lock(&workspace_mutex);
  int place = -1;
  size_t total = 0;
  for (int i = 0; i < MAX_WORKSPACES; i++) {
    if (workspaces[i].memory == NULL) place = i;
    else total += workspaces[i].bytes;
  }
  if (place >= 0 && total + dropped.bytes <= MAX_KEPT) {
    workspaces[place] = dropped;
    dropped.memory = NULL;
  }
  rm_mutex_unlock(&workspace_mutex);
  if (dropped.memory != NULL) release((char *)dropped.memory - ALIGNMENT);
}

/* ---- passes ---------------------------------------------------------------------------------- */

static bool is_smooth(ptrdiff_t n) {
  for (ptrdiff_t p = 2; p <= FFT_MAX_RADIX; p++) {
    while (n % p == 0) n /= p;
  }
  return n == 1;
}

/* Whether passes have radix 8, which takes 16 vectors and more: AVX2 has too few of 32 bytes. */
static bool takes_eights(int vector) { return vector != 32; }

/* The radices of passes with vectors of so many bytes. */
static int split_radices(ptrdiff_t n, int vector, int *radix) {
  int count = 0, twos = 0;
  for (; n % 2 == 0; n /= 2) twos++;
  for (; takes_eights(vector) && twos >= 3 && twos != 4; twos -= 3) radix[count++] = 8;
  for (; twos >= 2; twos -= 2) radix[count++] = 4;
  if (twos == 1) radix[count++] = 2;
  for (int p = 3; p <= FFT_MAX_RADIX; p += 2) {
    for (; n % p == 0; n /= p) radix[count++] = p;
  }
  return count;
}

/* Whether a pass has the roots of unity of its radix in a table. */
static bool has_table(int radix) { return radix > 5 && radix != 8; }

/* Estimated operations of the passes for one element. */
static double cost_of(ptrdiff_t n, int vector) {
  int radix[FFT_MAX_STAGES];
  const int count = split_radices(n, vector, radix);
  double sum = 6;
  for (int i = 0; i < count; i++) {
    const int r = radix[i];
    sum += r == 2 ? 6 : r == 3 ? 9 : r == 4 ? 10 : r == 5 ? 13 : r == 8 ? 15 : 2.0 * r + 6;
  }
  return sum;
}

static bool plan_lanes(fft_lanes *lanes, ptrdiff_t n, const fft_plan *plan, size_t *size) {
  const int bytes = plan->bytes;
  lanes->length = n;
  lanes->stages = split_radices(n, bytes * plan->width, lanes->radix);
  ptrdiff_t pairs = 0, m = n;
  for (int i = 0; i < lanes->stages; i++) {
    const int r = lanes->radix[i];
    m /= r;
    if (has_table(r)) pairs += r;
    if (m > 1) pairs += m * (r - 1);
  }
  *size += (size_t)pairs * 2 * (size_t)bytes;
  lanes->factors = allocate((size_t)(pairs + 1) * 2 * (size_t)bytes);
  if (lanes->factors == NULL) return false;
  ptrdiff_t at = 0;
  m = n;
  for (int i = 0; i < lanes->stages; i++) {
    const int r = lanes->radix[i];
    const ptrdiff_t whole = m;
    m /= r;
    if (has_table(r)) {
      for (int k = 0; k < r; k++) put_root(lanes->factors, bytes, at++, k, r);
    }
    if (m == 1) continue;
    for (ptrdiff_t p = 0; p < m; p++) {
      for (int k = 1; k < r; k++) put_root(lanes->factors, bytes, at++, p * k, whole);
    }
  }
  return true;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static fft_plan *make_plan(ptrdiff_t n, int bytes, int width, fft_kind kind);

static void free_plan(fft_plan *plan) {
  if (plan == NULL) return;
  release(plan->columns.factors);
  release(plan->rows.factors);
  release(plan->whole.factors);
  release(plan->twiddles);
  release(plan->steps);
  release(plan->spectrum);
  free_plan(plan->inner);
  free(plan);
}

/* The length of columns that takes the fewest operations; 0 for a transform in one lane. */
static ptrdiff_t choose_columns(ptrdiff_t n, int width, int bytes) {
  const int vector = width * bytes;
  double best = cost_of(n, vector) * (double)n;
  ptrdiff_t chosen = 0;
  for (ptrdiff_t factor = 2; factor * factor <= n; factor++) {
    if (n % factor != 0) continue;
    for (int i = 0; i < 2; i++) {
      const ptrdiff_t columns = i == 0 ? factor : n / factor, rows = n / columns;
      /* Passes are fast while their elements are in the caches. */
      const double penalty = (double)(columns > rows ? columns : rows) * width > 32768 ? 1.5 : 1;
      const double cost = penalty * (cost_of(columns, vector) * (double)(rm_ceil_div(rows, width) * columns) +
                                 cost_of(rows, vector) * (double)(rm_ceil_div(columns, width) * rows) + 24);
      if (cost < best) {
        best = cost;
        chosen = columns;
      }
    }
  }
  return chosen;
}

/* The length of columns of real numbers, whose rows are powers of 2 that fill pairs of vectors; 0 for
 * a transform of half the length. */
static ptrdiff_t choose_real_columns(ptrdiff_t n, int width, int bytes) {
  const int vector = width * bytes;
  if (n < FFT_REAL_LEAST || n > FFT_REAL_MOST || !is_smooth(n)) return 0;
  /* Lanes are empty where few rows are left. */
  if (n < 16 * width * width) return 0;
  double best = 0;
  ptrdiff_t chosen = 0;
  for (ptrdiff_t rows = 2 * width; n % (2 * rows) == 0; rows *= 2) {
    const ptrdiff_t columns = n / rows;
    const double cost = cost_of(columns, vector) * (double)(rows / 2 / width * columns) +
                        cost_of(rows, vector) * (double)(rm_ceil_div(columns / 2 + 1, width) * rows);
    if (chosen != 0 && cost >= best) continue;
    best = cost;
    chosen = columns;
  }
  return chosen;
}

static bool plan_steps(fft_plan *plan, ptrdiff_t length) {
  const ptrdiff_t n = plan->n, width = plan->width, others = n / length;
  const int bytes = plan->bytes;
  if (!plan_lanes(&plan->columns, length, plan, &plan->size) ||
      !plan_lanes(&plan->rows, others, plan, &plan->size)) {
    return false;
  }
  const bool is_real = plan->kind == FFT_FROM_REAL;
  if (!is_real && n <= FFT_LONGEST_ACROSS && !plan_lanes(&plan->whole, n, plan, &plan->size)) return false;
  const ptrdiff_t vectors = is_real ? 2 : 1, elements = is_real ? length / 2 + 1 : length;
  const ptrdiff_t blocks = rm_ceil_div(others, vectors * width);
  const bool is_factored = !is_real && n >= FFT_FACTORED;
  const ptrdiff_t kept = is_factored ? 1 : blocks;
  const size_t room = (size_t)(kept * elements * vectors * 2 * width * bytes);
  plan->twiddles = allocate(room);
  plan->size += room;
  if (plan->twiddles == NULL) return false;
  const double half = is_real ? 0.5 : 1;
  ptrdiff_t at = 0;
  for (ptrdiff_t block = 0; block < kept; block++) {
    for (ptrdiff_t k = 0; k < elements; k++) {
      for (ptrdiff_t vector = 0; vector < vectors; vector++, at += 2 * width) {
        for (ptrdiff_t lane = 0; lane < width; lane++) {
          double re, im;
          root(k * ((block * vectors + vector) * width + lane) % n, n, &re, &im);
          put(plan->twiddles, bytes, at + lane, re * half);
          put(plan->twiddles, bytes, at + width + lane, im * half);
        }
      }
    }
  }
  if (!is_factored) return true;
  plan->steps = allocate((size_t)(blocks * length * 2 * bytes));
  plan->size += (size_t)(blocks * length * 2 * bytes);
  if (plan->steps == NULL) return false;
  for (ptrdiff_t block = 0; block < blocks; block++) {
    for (ptrdiff_t k = 0; k < length; k++) {
      put_root(plan->steps, bytes, block * length + k, k * block * width, n);
    }
  }
  return true;
}

/* The transform of m pairs in double precision, by passes of one lane each. Overwrites x; the result
 * is in the array that it returns. */
static double *transform(double *x, double *y, ptrdiff_t m) {
  int radix[FFT_MAX_STAGES];
  const int stages = split_radices(m, 64, radix);
  ptrdiff_t rest = m, s = 1;
  for (int stage = 0; stage < stages; stage++) {
    const int r = radix[stage];
    const ptrdiff_t whole = rest;
    rest /= r;
    double roots[2 * FFT_MAX_RADIX];
    for (int k = 0; k < r; k++) root(k, r, roots + 2 * k, roots + 2 * k + 1);
    for (ptrdiff_t p = 0; p < rest; p++) {
      for (int k = 0; k < r; k++) {
        double wr, wi;
        root(p * k % whole, whole, &wr, &wi);
        for (ptrdiff_t q = 0; q < s; q++) {
          double re = 0, im = 0;
          for (int j = 0; j < r; j++) {
            const double *a = x + 2 * (q + s * (p + rest * j)), *w = roots + 2 * (j * k % r);
            re += a[0] * w[0] - a[1] * w[1];
            im += a[0] * w[1] + a[1] * w[0];
          }
          double *to = y + 2 * (q + s * (r * p + k));
          to[0] = re * wr - im * wi;
          to[1] = re * wi + im * wr;
        }
      }
    }
    s *= r;
    double *swapped = x;
    x = y;
    y = swapped;
  }
  return x;
}

/* A length of at least `least` whose transform is fast. */
static ptrdiff_t convolution_length(ptrdiff_t least) {
  static const int odd[] = {1, 3, 5, 7, 9, 15};
  ptrdiff_t best = 0;
  for (int i = 0; i < 6; i++) {
    ptrdiff_t m = 16 * odd[i];
    while (m < least) m *= 2;
    if (best == 0 || m < best) best = m;
  }
  return best;
}

static bool plan_chirp(fft_plan *plan) {
  const ptrdiff_t n = plan->n, m = convolution_length(2 * n - 1);
  const int bytes = plan->bytes;
  plan->inner = make_plan(m, bytes, plan->width, FFT_COMPLEX);
  plan->twiddles = allocate((size_t)(2 * n * bytes));
  plan->spectrum = allocate((size_t)(2 * m * bytes));
  if (plan->inner == NULL || plan->twiddles == NULL || plan->spectrum == NULL) return false;
  plan->size += (size_t)(2 * (n + m) * bytes) + plan->inner->size;
  double *x = calloc((size_t)(4 * m), sizeof *x);
  if (x == NULL) return false;
  ptrdiff_t square = 0;
  for (ptrdiff_t k = 0; k < n; k++) {
    double re, im;
    root(square, 2 * n, &re, &im);
    put(plan->twiddles, bytes, 2 * k, re);
    put(plan->twiddles, bytes, 2 * k + 1, im);
    double *const to[] = {x + 2 * k, x + 2 * ((m - k) % m)};
    for (int i = 0; i < 2; i++) {
      to[i][0] = re / (double)m;
      to[i][1] = -im / (double)m;
    }
    square = (square + 2 * k + 1) % (2 * n);
  }
  const double *spectrum = transform(x, x + 2 * m, m);
  for (ptrdiff_t i = 0; i < 2 * m; i++) put(plan->spectrum, bytes, i, spectrum[i]);
  free(x);
  return true;
}

static bool plan_half(fft_plan *plan) {
  const ptrdiff_t n = plan->n;
  plan->form = FFT_HALF;
  plan->inner = make_plan(n / 2, plan->bytes, plan->width, FFT_COMPLEX);
  plan->twiddles = allocate((size_t)((n / 4 + 1 + plan->width) * 2 * plan->bytes));
  if (plan->inner == NULL || plan->twiddles == NULL) return false;
  plan->size += (size_t)((n / 4 + 1) * 2 * plan->bytes) + plan->inner->size;
  for (ptrdiff_t k = 0; k <= n / 4 + plan->width; k++) put_root(plan->twiddles, plan->bytes, k, k, n);
  return true;
}

static fft_plan *make_plan(ptrdiff_t n, int bytes, int width, fft_kind kind) {
  fft_plan *plan = calloc(1, sizeof *plan);
  if (plan == NULL) return NULL;
  plan->n = n;
  plan->bytes = bytes;
  plan->width = width;
  plan->kind = kind;
  plan->size = sizeof *plan;
  bool done;
  const ptrdiff_t real_columns = kind == FFT_FROM_REAL ? choose_real_columns(n, width, bytes) : 0;
  if (real_columns != 0) {
    plan->form = FFT_STEPS;
    done = plan_steps(plan, real_columns);
  } else if (kind != FFT_COMPLEX) done = plan_half(plan);
  else if (!is_smooth(n)) {
    plan->form = FFT_CHIRP;
    done = plan_chirp(plan);
  } else {
    const ptrdiff_t columns = choose_columns(n, width, bytes);
    plan->form = columns == 0 ? FFT_ONE : FFT_STEPS;
    done = columns == 0 ? plan_lanes(&plan->columns, n, plan, &plan->size)
                        : plan_steps(plan, columns);
  }
  if (done) return plan;
  free_plan(plan);
  return NULL;
}

/* ---- the cache ------------------------------------------------------------------------------- */

static rm_mutex plan_mutex = RM_MUTEX_INIT;
static fft_plan *plans[MAX_PLANS];
static size_t kept_bytes;
static uint64_t uses;

static fft_plan *find_plan(ptrdiff_t n, int bytes, int width, fft_kind kind) {
  for (int i = 0; i < MAX_PLANS; i++) {
    fft_plan *plan = plans[i];
    if (plan == NULL || plan->n != n || plan->bytes != bytes || plan->width != width ||
        plan->kind != kind) {
      continue;
    }
    plan->users++;
    plan->used = ++uses;
    return plan;
  }
  return NULL;
}

/* Drops the plan that was not used for the longest time; false if there is none. */
static bool evict_plan(void) {
  int oldest = -1;
  for (int i = 0; i < MAX_PLANS; i++) {
    if (plans[i] != NULL && (oldest < 0 || plans[i]->used < plans[oldest]->used)) oldest = i;
  }
  if (oldest < 0) return false;
  fft_plan *plan = plans[oldest];
  plans[oldest] = NULL;
  kept_bytes -= plan->size;
  plan->is_cached = false;
  if (plan->users == 0) free_plan(plan);
  return true;
}

static void keep_plan(fft_plan *plan) {
  if (plan->size > MAX_KEPT) return;
  while (kept_bytes + plan->size > MAX_KEPT && evict_plan()) continue;
  for (int tries = 0; tries < 2; tries++) {
    for (int i = 0; i < MAX_PLANS; i++) {
      if (plans[i] != NULL) continue;
      plans[i] = plan;
      plan->is_cached = true;
      plan->used = ++uses;
      kept_bytes += plan->size;
      return;
    }
    evict_plan();
  }
}

const fft_plan *rm_fft_plan(ptrdiff_t n, int bytes, int width, fft_kind kind) {
  rm_mutex_lock(&plan_mutex);
  fft_plan *found = find_plan(n, bytes, width, kind);
  rm_mutex_unlock(&plan_mutex);
  if (found != NULL) return found;
  fft_plan *made = make_plan(n, bytes, width, kind);
  if (made == NULL) return NULL;
  rm_mutex_lock(&plan_mutex);
  /* Another thread may have made it meanwhile. */
  found = find_plan(n, bytes, width, kind);
  if (found == NULL) {
    made->users = 1;
    keep_plan(made);
  }
  rm_mutex_unlock(&plan_mutex);
  if (found == NULL) return made;
  free_plan(made);
  return found;
}

void rm_fft_give_plan(const fft_plan *given) {
  fft_plan *plan = (fft_plan *)given;
  rm_mutex_lock(&plan_mutex);
  const bool is_last = --plan->users == 0 && !plan->is_cached;
  rm_mutex_unlock(&plan_mutex);
  if (is_last) free_plan(plan);
}
