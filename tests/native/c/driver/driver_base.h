/*
 * Part of driver.c: calls, numbers, buffers and plans, which all parts use.
 */

enum { MAX_AXES = 3, MARGIN = 3 };
/* The share of large cases that run. */
enum { LARGE_CASE_SHARE = 8 };

/* The number of calls, of calls that were served, and of compared results. */
static long calls, served, compared;
/* The current case, for messages. */
static char about[200];

static void fail(const char *what) {
  char message[256];
  rm_last_error(message, sizeof message);
  fprintf(stderr, "%s: %s (the last message: %s)\n", about, what, message);
  exit(1);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The number of a kernel that is no op of the table; those of ops are the ops. */
static int32_t kernel(const char *name) { return rm_find_kernel(name, 0); }

static int32_t pack(int out, int a, int b, int c) {
  return (int32_t)((uint32_t)out | (uint32_t)a << 8 | (uint32_t)b << 16 | (uint32_t)c << 24);
}

/* rm_run_many without its last buffer. */
static int32_t run_many(int32_t kernel, int32_t dtypes, int32_t more, int32_t compute,
                        double *numbers, void *out, void *a, void *b, void *c, void *d, void *e,
                        void *f, void *g) {
  return rm_run_many(kernel, dtypes, more, RM_NONE, compute, numbers, out, a, b, c, d, e, f, g, NULL);
}

/* Numbers that have attributes, but no plan. */
typedef struct {
  double at[RM_OFFSETS];
} attributes;

static attributes with_attributes(int count, const double *values) {
  attributes numbers = {{0}};
  memcpy(numbers.at + RM_ATTRIBUTES, values, (size_t)count * sizeof *values);
  return numbers;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static uint64_t state = 88172645463325252u;

static uint32_t any(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)(state >> 32);
}

static ptrdiff_t below(ptrdiff_t n) { return (ptrdiff_t)(any() % (uint64_t)n); }

static bool is_half(int dtype) { return dtype == RM_FLOAT16 || dtype == RM_BFLOAT16; }

/* Element i as a number; 64-bit elements must be small. Not for 16-bit floats. */
static double get(int dtype, const void *base, ptrdiff_t i) {
  switch (dtype) {
    case RM_INT8: return ((const int8_t *)base)[i];
    case RM_INT16: return ((const int16_t *)base)[i];
    case RM_INT32: return ((const int32_t *)base)[i];
    case RM_INT64: return (double)((const int64_t *)base)[i];
    case RM_UINT16: return ((const uint16_t *)base)[i];
    case RM_UINT32: return ((const uint32_t *)base)[i];
    case RM_UINT64: return (double)((const uint64_t *)base)[i];
    case RM_FLOAT32: return (double)((const float *)base)[i];
    case RM_FLOAT64: return ((const double *)base)[i];
    default: return ((const uint8_t *)base)[i];
  }
}

static void put(int dtype, void *base, ptrdiff_t i, int64_t value) {
  switch (dtype) {
    case RM_INT16:
    case RM_UINT16: ((uint16_t *)base)[i] = (uint16_t)value; break;
    case RM_INT32:
    case RM_UINT32: ((uint32_t *)base)[i] = (uint32_t)value; break;
    case RM_INT64:
    case RM_UINT64: ((uint64_t *)base)[i] = (uint64_t)value; break;
    case RM_FLOAT32: ((float *)base)[i] = (float)value; break;
    case RM_FLOAT64: ((double *)base)[i] = (double)value; break;
    default: ((uint8_t *)base)[i] = (uint8_t)value;
  }
}

/* The value of an integer after it is stored in a dtype. */
static double wrap_integer(int dtype, int64_t value) {
  uint64_t element[1];
  put(dtype, element, 0, value);
  return get(dtype, element, 0);
}

/* ---- buffers --------------------------------------------------------------------------------- */

typedef struct {
  int dtype;
  size_t bytes;
  unsigned char *data;
  unsigned char *before;
  /* The allocation that contains data, including inaccessible pages. */
  unsigned char *region;
  size_t reserved;
} buffer;

static bool fenced;

/* Allocates memory that begins or ends at an inaccessible page if that is requested. */
static void allocate_region(buffer *b) {
  if (!fenced) {
    b->region = b->data = malloc(b->bytes);
    return;
  }
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (b->bytes + page - 1) / page * page;
  b->reserved = inside + 2 * page;
  b->region = mmap(NULL, b->reserved, PROT_NONE, MAP_PRIVATE | MAP_ANON, -1, 0);
  if (b->region == MAP_FAILED) fail("no memory");
  mprotect(b->region + page, inside, PROT_READ | PROT_WRITE);
  b->data = b->region + page + (below(4) > 0 ? inside - b->bytes : 0);
}

static void give_back(buffer *b) {
  if (fenced) munmap(b->region, b->reserved);
  else free(b->region);
}

enum content { ANY_BITS, SMALL };

/* A buffer of exactly that many elements, of random bits or of integers from -8 to 7. */
static buffer make(int dtype, ptrdiff_t length, enum content content) {
  buffer b = {.dtype = dtype, .bytes = (size_t)(length * rm_itemsize(dtype))};
  allocate_region(&b);
  b.before = malloc(b.bytes);
  if (b.data == NULL || b.before == NULL) fail("no memory");
  for (size_t i = 0; i < b.bytes; i += 4) {
    const uint32_t bits = any() & (dtype == RM_BOOL ? 0x01010101 : UINT32_MAX);
    memcpy(b.data + i, &bits, b.bytes - i < 4 ? b.bytes - i : 4);
  }
  if (content == SMALL && !is_half(dtype)) {
    const bool negative = (dtype >= RM_INT8 && dtype <= RM_INT64) || dtype >= RM_FLOAT32;
    for (ptrdiff_t i = 0; i < length; i++) {
      put(dtype, b.data, i, dtype == RM_BOOL ? below(2) : below(16) - (negative ? 8 : 0));
    }
  }
  memcpy(b.before, b.data, b.bytes);
  return b;
}

static void drop(buffer *b) {
  give_back(b);
  free(b->before);
}

static void check_unchanged(const buffer *b) {
  if (b->data != NULL && memcmp(b->data, b->before, b->bytes) != 0) fail("an input has changed");
}

/* ---- plans ----------------------------------------------------------------------------------- */

typedef struct {
  int rank, operands;
  ptrdiff_t size[MAX_AXES];
  ptrdiff_t stride[RM_MAX_OPERANDS][MAX_AXES];
  ptrdiff_t offset[RM_MAX_OPERANDS];
  ptrdiff_t length[RM_MAX_OPERANDS];
  double numbers[RM_OFFSETS + RM_MAX_OPERANDS + MAX_AXES * (1 + RM_MAX_OPERANDS)];
} layout;

/* The layout of an operand in its buffer. Outputs cannot have the last two. */
enum kind {
  CONTIGUOUS,
  COLUMNS,
  REVERSED,
  HALF_REVERSED,
  GAPS,
  OUTPUT_KINDS,
  REPEATED = OUTPUT_KINDS,
  SINGLE,
  KINDS
};

/* Lays out operand k. It has stride 0 along axes from the given number on. */
static void lay_out(layout *p, int k, enum kind kind, int axes) {
  ptrdiff_t step = kind == GAPS ? 2 : 1, low = 0, high = 0;
  for (int i = 0; i < p->rank; i++) p->stride[k][i] = 0;
  for (int i = axes - 1; i >= 0; i--) {
    const int axis = kind == COLUMNS ? axes - 1 - i : i;
    const bool back = kind == REVERSED || (kind == HALF_REVERSED && axis == 0);
    const bool still = kind == SINGLE || (kind == REPEATED && axis == 0);
    p->stride[k][axis] = still ? 0 : back ? -step : step;
    step = step * p->size[axis] + (kind == GAPS ? 3 : 0);
  }
  for (int i = 0; i < p->rank; i++) {
    const ptrdiff_t along = (p->size[i] - 1) * p->stride[k][i];
    if (along < 0) low += along;
    else high += along;
  }
  p->offset[k] = below(MARGIN + 1) - low;
  p->length[k] = p->offset[k] + high + 1;
}

/* Writes the plan in the format that the shim reads. */
static double *write_plan(layout *p) {
  p->numbers[RM_PLAN_RANK] = p->rank;
  p->numbers[RM_PLAN_OPERANDS] = p->operands;
  p->numbers[RM_PLAN_KEPT] = 0;
  /* Tolerances, counts and exponents. */
  for (int i = RM_ATTRIBUTES; i < RM_OFFSETS; i++) p->numbers[i] = 3 - (i - RM_ATTRIBUTES) % 4;
  double *to = p->numbers + RM_OFFSETS;
  for (int k = 0; k < p->operands; k++) *to++ = (double)p->offset[k];
  for (int i = 0; i < p->rank; i++) *to++ = (double)p->size[i];
  for (int k = 0; k < p->operands; k++) {
    for (int i = 0; i < p->rank; i++) *to++ = (double)p->stride[k][i];
  }
  return p->numbers;
}

/* Advances to the next index of the first axes. Returns false after the last one. */
static bool next(const layout *p, int axes, ptrdiff_t *index) {
  for (int i = axes - 1; i >= 0; i--) {
    if (++index[i] < p->size[i]) return true;
    index[i] = 0;
  }
  return false;
}

static ptrdiff_t place(const layout *p, int k, const ptrdiff_t *index) {
  ptrdiff_t at = p->offset[k];
  for (int i = 0; i < p->rank; i++) at += index[i] * p->stride[k][i];
  return at;
}

/* Fails if memory of an output other than its elements has changed. */
static void check_margins(const layout *p, const buffer *out) {
  const size_t bytes = (size_t)rm_itemsize(out->dtype);
  /* The elements themselves may change. */
  unsigned char *after = malloc(out->bytes);
  if (after == NULL) fail("no memory");
  memcpy(after, out->data, out->bytes);
  ptrdiff_t index[MAX_AXES] = {0};
  do {
    const size_t at = (size_t)place(p, 0, index) * bytes;
    memcpy(after + at, out->before + at, bytes);
  } while (next(p, p->rank, index));
  if (memcmp(after, out->before, out->bytes) != 0) fail("an output was written between elements");
  free(after);
}

/* Fills the stack below the caller with subnormal floats. */
__attribute__((noinline)) static void leave_subnormals(void) {
  volatile uint32_t bits[1 << 15];
  for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) bits[i] = 0x00007fff;
}

#if defined(__x86_64__)
enum { SUBNORMAL_OPERAND = 2 };
#endif

/* Before a call of normal floats: some kernels compute with lanes beyond their operands. */
static void expect_normal_operands(void) {
  leave_subnormals();
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() & ~(unsigned)SUBNORMAL_OPERAND);
#endif
}

/* After it: fails if this thread computed with a subnormal float, which may take a hundred times as
 * long. Other processors keep no flag of that. */
static void check_normal_operands(void) {
#if defined(__x86_64__)
  if ((__builtin_ia32_stmxcsr() & SUBNORMAL_OPERAND) != 0) {
    fail("it computes with what memory has beyond its operands");
  }
#endif
}

/* Whether a call was served. A call that is not must be unsupported. */
static bool is_served(int32_t status) {
  calls++;
  if (status != RM_OK && status != RM_UNSUPPORTED) fail("a call has failed");
  if (status == RM_OK) served++;
  return status == RM_OK;
}
