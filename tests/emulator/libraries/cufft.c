/* cuFFT: transforms of rows by plain sums, in double. */
#include "../emulator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  FFT_SUCCESS = 0,
  FFT_INVALID_PLAN = 1,
  FFT_INVALID_VALUE = 4,
  FFT_INTERNAL_ERROR = 5,
  FFT_EXEC_FAILED = 6,
  FFT_INVALID_SIZE = 8,
  FFT_NO_WORKSPACE = 13,
};
enum { R_32F = 0, R_64F = 1, C_32F = 4, C_64F = 5 };
enum { WORKSPACE = 64, MAX_PLANS = 1024 };

typedef struct {
  bool made, planned, allocates;
  int device, type_from, type_to;
  long long n, rows, step_from, step_to;
  void *stream, *workspace;
} plan;

static plan plans[MAX_PLANS];

typedef struct {
  work head;
  plan of;
  char *from, *to;
  int sign;
} transform;

static bool is_wide(int type) { return type == R_64F || type == C_64F; }
static bool is_real(int type) { return type == R_32F || type == R_64F; }

static double load(bool wide, const char *at, long long i) {
  return wide ? ((const double *)at)[i] : (double)((const float *)at)[i];
}

static void store(bool wide, char *at, long long i, double x) {
  if (wide) ((double *)at)[i] = x;
  else ((float *)at)[i] = (float)x;
}

/* The whole row as pairs. */
static void read_row(const transform *t, long long row, double *x) {
  const plan *p = &t->of;
  const bool wide = is_wide(p->type_from), real = is_real(p->type_from);
  const bool half = is_real(p->type_to);
  for (long long i = 0; i < p->n; i++) {
    const bool mirrored = half && i > p->n / 2;
    const long long at = row * p->step_from + (mirrored ? p->n - i : i);
    x[2 * i] = load(wide, t->from, real ? at : 2 * at);
    x[2 * i + 1] = real ? 0 : load(wide, t->from, 2 * at + 1) * (mirrored ? -1 : 1);
  }
}

static void transform_row(const transform *t, long long row, const double *x, const double *turns) {
  const plan *p = &t->of;
  const bool wide = is_wide(p->type_to), real = is_real(p->type_to);
  const long long results = is_real(p->type_from) ? p->n / 2 + 1 : p->n;
  for (long long k = 0; k < results; k++) {
    double re = 0, im = 0;
    for (long long i = 0, turn = 0; i < p->n; i++, turn = (turn + k) % p->n) {
      const double c = turns[2 * turn], s = turns[2 * turn + 1] * t->sign;
      re += x[2 * i] * c - x[2 * i + 1] * s;
      im += x[2 * i] * s + x[2 * i + 1] * c;
    }
    const long long at = row * p->step_to + k;
    store(wide, t->to, real ? at : 2 * at, re);
    if (!real) store(wide, t->to, 2 * at + 1, im);
  }
}

/* The bytes of rows of `length` elements. */
static size_t span(const plan *p, int type, long long length, long long step) {
  const size_t element = (is_wide(type) ? 8 : 4) * (is_real(type) ? 1 : 2);
  return (size_t)((p->rows - 1) * step + length) * element;
}

static int run_transform(work *w) {
  const transform *t = (const transform *)w;
  const plan *p = &t->of;
  const bool from_real = is_real(p->type_from), to_real = is_real(p->type_to);
  const long long half = p->n / 2 + 1;
  const size_t read = span(p, p->type_from, to_real ? half : p->n, p->step_from);
  emu_open_memory(-1);
  int error = SUCCESS;
  if (!emu_holds(t->from, read) ||
      !emu_holds(t->to, span(p, p->type_to, from_real ? half : p->n, p->step_to)) ||
      !emu_holds(p->workspace, WORKSPACE)) {
    emu_note("%lld transforms of length %lld reach beyond their memory", p->rows, p->n);
    error = ILLEGAL_ADDRESS;
  } else {
    double *x = malloc((size_t)p->n * 4 * sizeof *x), *turns = x + 2 * p->n;
    for (long long i = 0; i < p->n; i++) {
      const double angle = 2 * M_PI * (double)i / (double)p->n;
      turns[2 * i] = cos(angle);
      turns[2 * i + 1] = sin(angle);
    }
    for (long long row = 0; row < p->rows; row++) {
      read_row(t, row, x);
      transform_row(t, row, x, turns);
    }
    free(x);
    memset(p->workspace, 0xff, WORKSPACE);
    /* The library may write to what it transforms to real numbers. */
    if (to_real) memset(t->from, 0xff, read);
  }
  emu_close_memory();
  emu_numbers[TRANSFORMS]++;
  return error;
}

static plan *plan_of(int number) {
  if (number < 1 || number >= MAX_PLANS || !plans[number].made) return NULL;
  return &plans[number];
}

EMU_API int cufftCreate(int *made) {
  EMU_LOCK;
  if (emu_fails(FAIL_FFT)) return FFT_INTERNAL_ERROR;
  for (int i = 1; i < MAX_PLANS; i++) {
    if (plans[i].made) continue;
    plans[i] = (plan){.made = true, .allocates = true, .device = emu_current};
    *made = i;
    return FFT_SUCCESS;
  }
  return FFT_INTERNAL_ERROR;
}

EMU_API int cufftDestroy(int number) {
  EMU_LOCK;
  plan *p = plan_of(number);
  if (p == NULL) return FFT_INVALID_PLAN;
  p->made = false;
  return FFT_SUCCESS;
}

EMU_API int cufftSetAutoAllocation(int number, int allocates) {
  EMU_LOCK;
  plan *p = plan_of(number);
  if (p == NULL || p->planned) return FFT_INVALID_PLAN;
  p->allocates = allocates != 0;
  return FFT_SUCCESS;
}

EMU_API int cufftSetStream(int number, void *stream) {
  EMU_LOCK;
  plan *p = plan_of(number);
  if (p == NULL) return FFT_INVALID_PLAN;
  if (emu_fails(FAIL_FFT) || emu_stream(stream) == NULL) return FFT_INVALID_VALUE;
  p->stream = stream;
  return FFT_SUCCESS;
}

EMU_API int cufftSetWorkArea(int number, void *workspace) {
  EMU_LOCK;
  plan *p = plan_of(number);
  if (p == NULL) return FFT_INVALID_PLAN;
  if (emu_fails(FAIL_FFT) || !emu_holds(workspace, WORKSPACE)) return FFT_INVALID_VALUE;
  p->workspace = workspace;
  return FFT_SUCCESS;
}

EMU_API int cufftXtMakePlanMany(int number, int rank, long long *lengths, long long *sizes_from,
                                long long stride_from, long long step_from, int type_from,
                                long long *sizes_to, long long stride_to, long long step_to,
                                int type_to, long long rows, size_t *workspace, int compute) {
  EMU_LOCK;
  plan *p = plan_of(number);
  if (p == NULL || p->planned) return FFT_INVALID_PLAN;
  if (emu_fails(FAIL_FFT)) return FFT_INTERNAL_ERROR;
  /* A plan with space of its own, strides, or more axes is left out. */
  if (rank != 1 || p->allocates || stride_from != 1 || stride_to != 1 || sizes_from == NULL ||
      sizes_to == NULL || rows < 1 || (is_real(type_from) && is_real(type_to)) ||
      is_wide(type_from) != is_wide(type_to) || compute != (is_wide(type_to) ? C_64F : C_32F)) {
    return FFT_INVALID_VALUE;
  }
  /* As some lengths in the library. */
  if (lengths[0] < 1 || lengths[0] > 1 << 20) return FFT_INVALID_SIZE;
  p->planned = true;
  p->n = lengths[0];
  p->rows = rows;
  p->step_from = step_from;
  p->step_to = step_to;
  p->type_from = type_from;
  p->type_to = type_to;
  *workspace = WORKSPACE;
  emu_numbers[PLANS]++;
  return FFT_SUCCESS;
}

EMU_API int cufftXtExec(int number, void *from, void *to, int direction) {
  EMU_LOCK;
  plan *p = plan_of(number);
  if (p == NULL || !p->planned) return FFT_INVALID_PLAN;
  stream *s = emu_stream(p->stream);
  if (s == NULL || s->device != emu_current || p->device != emu_current) return FFT_INVALID_VALUE;
  if (p->workspace == NULL) return FFT_NO_WORKSPACE;
  if (emu_fails(FAIL_FFT) || emu_device(s->device)->fault != SUCCESS) return FFT_EXEC_FAILED;
  /* Exponents are negative for transforms of real numbers, and positive for real results: cuFFT
   * refuses the other direction. */
  const int sign = is_real(p->type_from) ? -1 : is_real(p->type_to) ? 1 : direction;
  if (direction != sign) return FFT_INVALID_VALUE;
  transform *t = malloc(sizeof *t);
  *t = (transform){.head = {.run = run_transform}, .of = *p, .from = from, .to = to, .sign = sign};
  emu_queue(s, &t->head);
  return FFT_SUCCESS;
}

EMU_API int cufftGetProperty(int which, int *value) {
  return *value = which == 0 ? 12 : 0, FFT_SUCCESS;
}

EMU_API int cufftGetVersion(int *version) { return *version = 12000, FFT_SUCCESS; }
