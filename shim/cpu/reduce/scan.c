/*
 * Running sums and products along an axis.
 */
#include "ops.def"
#include "reduce_context.h"

#define ADD(a, x) ((a) + (x))
#define MULTIPLY(a, x) ((a) * (x))

/* What an element takes about. */
static const double NANOSECONDS = 0.5;

typedef struct {
  const rm_walk *walk;
  int kept;
  bool product;
  bool floats;
  /* Sums of 64 bits need no room between. */
  bool as_is;
  loader load;
  ptrdiff_t bytes;
  int out;
  ptrdiff_t out_bytes;
  /* Runs, or blocks of columns, and how many of them make a task. */
  ptrdiff_t units;
  ptrdiff_t group;
} scan;

#define TYPE double
#define SUFFIX f64_sum
#define FOLD ADD
#include "scan_type.h"
#define TYPE double
#define SUFFIX f64_product
#define FOLD MULTIPLY
#include "scan_type.h"
#define TYPE int64_t
#define SUFFIX i64_sum
#define FOLD ADD
#include "scan_type.h"
#define TYPE int64_t
#define SUFFIX i64_product
#define FOLD MULTIPLY
#include "scan_type.h"

/* One run of narrower floats, four at a time: each addition to the carry would wait for the one
 * before. The sums of the four are off by what doubles are, which their dtype does not show. */
static void scan_run_narrow_sum(ptrdiff_t n, double *restrict x, double *carry) {
  double a = *carry;
  ptrdiff_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const double two = x[i] + x[i + 1], three = two + x[i + 2];
    const double four = two + (x[i + 2] + x[i + 3]);
    x[i] += a;
    x[i + 1] = a + two;
    x[i + 2] = a + three;
    x[i + 3] = a += four;
  }
  for (; i < n; i++) x[i] = a += x[i];
  *carry = a;
}

/* What is scanned: doubles or integers, as the job says. Vectors that lie across two lines of the
 * cache take half as long again. */
typedef union {
  _Alignas(64) double f[RUNS][STRETCH];
  int64_t i[RUNS][STRETCH];
} stretches;

typedef union {
  _Alignas(64) double f[WIDTH];
  int64_t i[WIDTH];
} carries;

static void begin_scan(const scan *s, carries *c, ptrdiff_t n) {
  if (s->floats) for (ptrdiff_t i = 0; i < n; i++) c->f[i] = s->product;
  else for (ptrdiff_t i = 0; i < n; i++) c->i[i] = s->product;
}

/* Scans count runs, RUNS or 1, which begin at the given places. */
static void scan_some(const scan *s, int count, char *(*at)[2]) {
  const rm_walk *w = s->walk;
  const int axis = w->rank - 1;
  const bool single = s->kept == w->rank;
  const ptrdiff_t n = single ? 1 : w->size[axis];
  const ptrdiff_t to = single ? 1 : w->step[axis][0] / s->out_bytes;
  const ptrdiff_t from = single ? 1 : w->step[axis][1] / s->bytes;
  if (s->as_is && from == 1 && to == 1) {
    const int64_t *p = (const int64_t *)at[0][1];
    int64_t *o = (int64_t *)at[0][0], a = 0;
    for (ptrdiff_t i = 0; i < n; i++) o[i] = a += p[i];
    return;
  }
  stretches x;
  carries c;
  begin_scan(s, &c, count);
  for (ptrdiff_t i = 0; i < n; i += STRETCH) {
    const ptrdiff_t m = rm_least(n - i, STRETCH);
    for (int l = 0; l < count; l++) s->load(m, at[l][1] + i * from * s->bytes, from, x.f[l]);
    if (s->floats) {
      if (s->product) {
        if (count == 1) scan_run_f64_product(m, x.f[0], c.f);
        else scan_runs_f64_product(m, x.f, c.f);
      } else if (count > 1) scan_runs_f64_sum(m, x.f, c.f);
      else if (s->bytes < 8) scan_run_narrow_sum(m, x.f[0], c.f);
      else scan_run_f64_sum(m, x.f[0], c.f);
    } else if (s->product) {
      if (count == 1) scan_run_i64_product(m, x.i[0], c.i);
      else scan_runs_i64_product(m, x.i, c.i);
    } else scan_run_i64_sum(m, x.i[0], c.i);
    for (int l = 0; l < count; l++) {
      RM_AT(put)(s->out, m, x.f[l], at[l][0] + i * to * s->out_bytes, to);
    }
  }
}

/* The pointers of one of the runs, or of a block of columns when width is not 1. */
static ptrdiff_t seek_scan(const scan *s, ptrdiff_t unit, ptrdiff_t width, char **at) {
  const rm_walk *w = s->walk;
  for (int k = 0; k < 2; k++) at[k] = w->start[k];
  ptrdiff_t n = 1;
  for (int axis = s->kept - 1; axis >= 0; axis--) {
    const ptrdiff_t blocks = rm_parts(w->size[axis], width);
    const ptrdiff_t first = unit % blocks * width;
    for (int k = 0; k < 2; k++) at[k] += first * w->step[axis][k];
    if (axis == s->kept - 1) n = rm_least(w->size[axis] - first, width);
    unit /= blocks;
    width = 1;
  }
  return n;
}

static void scan_along(void *context, ptrdiff_t index) {
  const scan *s = context;
  const ptrdiff_t last = rm_least((index + 1) * s->group, s->units);
  for (ptrdiff_t unit = index * s->group; unit < last;) {
    const bool waits = s->floats || s->product;
    const int count = waits && last - unit >= RUNS ? RUNS : 1;
    char *at[RUNS][2];
    for (int l = 0; l < count; l++) seek_scan(s, unit + l, 1, at[l]);
    scan_some(s, count, at);
    unit += count;
  }
}

static void scan_across(void *context, ptrdiff_t index) {
  const scan *s = context;
  const rm_walk *w = s->walk;
  const int column = s->kept - 1;
  const bool single = s->kept == w->rank;
  const ptrdiff_t rows = single ? 1 : w->size[w->rank - 1];
  const ptrdiff_t to = w->step[column][0] / s->out_bytes, from = w->step[column][1] / s->bytes;
  carries x, c;
  char *at[2];
  const ptrdiff_t n = seek_scan(s, index, WIDTH, at);
  begin_scan(s, &c, n);
  for (ptrdiff_t r = 0; r < rows; r++) {
    s->load(n, at[1] + (single ? 0 : r * w->step[w->rank - 1][1]), from, &x);
    if (s->floats) {
      if (s->product) scan_columns_f64_product(n, x.f, c.f);
      else scan_columns_f64_sum(n, x.f, c.f);
    } else if (s->product) scan_columns_i64_product(n, x.i, c.i);
    else scan_columns_i64_sum(n, x.i, c.i);
    RM_AT(put)(s->out, n, &c, at[0] + (single ? 0 : r * w->step[w->rank - 1][0]), to);
  }
}

/* Sums of columns of few elements, whose rows lie one after another. */
static void scan_narrow(void *context, ptrdiff_t index) {
  const scan *s = context;
  const rm_walk *w = s->walk;
  const ptrdiff_t n = w->size[s->kept - 1], rows = w->size[w->rank - 1];
  stretches x;
  carries c;
  char *at[2];
  seek_scan(s, index, WIDTH, at);
  begin_scan(s, &c, n);
  const ptrdiff_t step = RUNS * STRETCH / n;
  for (ptrdiff_t r = 0; r < rows; r += step) {
    const ptrdiff_t m = rm_least(step, rows - r), first = r * n;
    double *f = x.f[0];
    s->load(m * n, at[1] + first * s->bytes, 1, f);
    if (s->floats) scan_rows_f64_sum(n, m, f, c.f);
    else scan_rows_i64_sum(n, m, x.i[0], c.i);
    RM_AT(put)(s->out, m * n, f, at[0] + first * s->out_bytes, 1);
  }
}

/* True for sums of columns of few elements, whose rows lie one after another wherever they are. */
static bool is_narrow_scan(const scan *s) {
  const rm_walk *w = s->walk;
  const int kept = s->kept;
  if (s->product || kept == 0 || kept == w->rank) return false;
  const ptrdiff_t n = w->size[kept - 1];
  return n > 1 && n <= NARROW && w->step[kept - 1][0] == s->out_bytes &&
         w->step[kept - 1][1] == s->bytes && w->step[kept][0] == n * s->out_bytes &&
         w->step[kept][1] == n * s->bytes;
}

int32_t RM_AT(scan)(int32_t opcode, const rm_walk *w, int kept, int out, int a) {
  scan s = {.walk = w, .kept = kept, .product = opcode == RM_OP_cumulativeProd};
  s.floats = rm_is_float(out);
  if (rm_is_float(a) != s.floats || out == RM_BOOL) return RM_UNSUPPORTED;
  if (w->rank > kept + 1) {
    return rm_fail(RM_BAD_ARGUMENT, "a scan runs along 1 axis, not %d", w->rank - kept);
  }
  s.load = s.floats ? RM_AT(to_f64)[a] : RM_AT(to_i64)[a];
  s.bytes = rm_bytes(a);
  s.out = out;
  s.out_bytes = rm_bytes(out);
  s.as_is = !s.floats && !s.product && s.bytes == 8 && s.out_bytes == 8;
  ptrdiff_t outer = 1;
  for (int axis = 0; axis < kept; axis++) outer *= w->size[axis];
  const ptrdiff_t n = kept == w->rank ? 1 : w->size[w->rank - 1];
  const double time = NANOSECONDS * (double)(outer * n);
  if (is_narrow_scan(&s)) {
    rm_parallel(outer / w->size[kept - 1], time, scan_narrow, &s);
    return RM_OK;
  }
  bool across = kept > 0;
  if (across && kept < w->rank) {
    const ptrdiff_t aside = rm_magnitude(w->step[kept - 1][1]);
    across = w->size[kept - 1] >= 16 && aside < rm_magnitude(w->step[kept][1]);
  }
  if (across) {
    s.units = outer / w->size[kept - 1] * rm_parts(w->size[kept - 1], WIDTH);
    rm_parallel(s.units, time, scan_across, &s);
    return RM_OK;
  }
  s.units = outer;
  s.group = n >= TASK / RUNS ? RUNS : TASK / n;
  rm_parallel(rm_parts(outer, s.group), time, scan_along, &s);
  return RM_OK;
}
