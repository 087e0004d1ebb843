/*
 * Versions, messages, the choice of an instruction set, the reading of plans. Knows nothing of ops.
 */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"
#include "ops.def"

/* As long as what it holds, since compilers say a lot; stays when its thread ends. */
static _Thread_local char *last_error;

int32_t rm_version(void) { return RM_VERSION; }

int32_t rm_table_hash(void) { return (int32_t)RM_TABLE_HASH; }

int32_t rm_fail(int32_t status, const char *format, ...) {
  va_list values;
  va_start(values, format);
  const int length = vsnprintf(NULL, 0, format, values);
  va_end(values);
  char *message = length < 0 ? NULL : malloc((size_t)length + 1);
  if (message != NULL) {
    va_start(values, format);
    vsnprintf(message, (size_t)length + 1, format, values);
    va_end(values);
  }
  /* Last, as the old message may be part of the new one. */
  free(last_error);
  last_error = message;
  return status;
}

int32_t rm_copy_text(const char *text, void *buffer, int32_t length) {
  size_t full = strlen(text);
  if (buffer != NULL && length > 0) {
    size_t part = full < (size_t)length ? full : (size_t)length - 1;
    memcpy(buffer, text, part);
    ((char *)buffer)[part] = 0;
  }
  return (int32_t)full;
}

int32_t rm_address_of(const void *memory, void *address) {
  const uint64_t number = (uintptr_t)memory;
  memcpy(address, &number, sizeof number);
  return RM_OK;
}

int32_t rm_last_error(void *buffer, int32_t length) {
  return rm_copy_text(last_error == NULL ? "" : last_error, buffer, length);
}

/* ---- instruction sets -------------------------------------------------------------------------- */

#if defined(__x86_64__)
#include <cpuid.h>

extern const rm_kernels rm_kernels_v2, rm_kernels_v3, rm_kernels_v4;
static const rm_kernels *const levels[] = {&rm_kernels_v2, &rm_kernels_v3, &rm_kernels_v4};
enum { LOWEST = 2 };

static bool has(unsigned bits, unsigned wanted) { return (bits & wanted) == wanted; }

/* The x86-64 level of this machine and its operating system, 2 to 4. */
static int highest_level(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 2;
  /* FMA, MOVBE, OSXSAVE, AVX, F16C. */
  if (!has(c, 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29)) return 2;
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if (!has(low, 6)) return 2;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 2;
  /* BMI1, AVX2, BMI2. */
  if (!has(b, 1u << 3 | 1u << 5 | 1u << 8)) return 2;
  /* AVX-512 F, DQ, CD, BW, VL, and registers that the system saves. */
  if (!has(b, 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31) || !has(low, 0xe6)) return 3;
  return 4;
}
#else
extern const rm_kernels rm_kernels_base;
static const rm_kernels *const levels[] = {&rm_kernels_base};
enum { LOWEST = 1 };
static int highest_level(void) { return LOWEST; }
#endif

static _Atomic(int) level;

/* 0 is the best level; one that the machine lacks leaves things as they are. */
static void set_level(int wanted) {
  int highest = highest_level();
  if (wanted == 0) wanted = highest;
  if (wanted >= LOWEST && wanted <= highest) atomic_store(&level, wanted);
}

static int current_level(void) {
  int now = atomic_load_explicit(&level, memory_order_relaxed);
  if (now != 0) return now;
  const char *text = getenv("ROWMAJOR_LEVEL");
  if (text != NULL && text[0] == 'v') set_level(atoi(text + 1));
  if (atomic_load(&level) == 0) set_level(0);
  return atomic_load(&level);
}

const rm_kernels *rm_level(void) { return levels[current_level() - LOWEST]; }

int32_t rm_configure(int32_t what, int32_t value) {
  switch (what) {
    case RM_THREADS:
      if (value >= 0) {
        rm_set_threads(value);
        rm_blas_threads(rm_threads());
      }
      return rm_threads();
    case RM_LEVEL_SET:
      if (value >= 0) set_level(value);
      return current_level();
    case RM_SHARE_ALL:
      return rm_share_all(value);
    default: return -1;
  }
}

int32_t rm_map(int32_t opcode, int32_t dtypes, const double *plan, void *out, const void *a,
               const void *b, const void *c) {
  return rm_level()->map(opcode, dtypes, plan, out, a, b, c);
}

int32_t rm_fold(int32_t opcode, int32_t dtypes, int32_t kept, const double *plan, void *out,
                const void *a, const void *b) {
  return rm_level()->fold(opcode, dtypes, kept, plan, out, a, b);
}

int32_t rm_rows(int32_t kind, int32_t dtype, const double *plan, void *out, const void *a,
                const void *weight, const void *bias) {
  return rm_level()->rows(kind, dtype, plan, out, a, weight, bias);
}

int32_t rm_sort(int32_t dtype, int32_t flags, const double *plan, void *values, void *indices) {
  return rm_level()->sort(dtype, flags, plan, values, indices);
}

int32_t rm_random(int32_t dtype, int32_t kind, const int32_t *words, double length, void *out) {
  return rm_level()->random(dtype, kind, words, length, out);
}

/* ---- plans ------------------------------------------------------------------------------------- */

int32_t rm_read_plan(rm_walk *walk, const double *plan, int operands, int32_t dtypes,
                     void *const *buffers) {
  int rank = (int)plan[0];
  if ((int)plan[1] != operands) {
    return rm_fail(RM_BAD_ARGUMENT, "the plan has %d operands, the op %d", (int)plan[1], operands);
  }
  if (rank < 0 || rank > RM_MAX_RANK) {
    return rm_fail(RM_UNSUPPORTED, "the plan has %d axes, more than %d", rank, RM_MAX_RANK);
  }
  walk->rank = rank;
  walk->operands = operands;
  walk->empty = false;
  const double *sizes = plan + RM_OFFSETS + operands;
  for (int j = 0; j < rank; j++) {
    walk->size[j] = (ptrdiff_t)sizes[j];
    if (walk->size[j] <= 0) walk->empty = true;
  }
  for (int k = 0; k < operands; k++) {
    if (buffers[k] == NULL) return rm_fail(RM_BAD_ARGUMENT, "operand %d has no memory", k);
    const double *strides = sizes + rank + (ptrdiff_t)k * rank;
    ptrdiff_t bytes = rm_bytes(rm_dtype_at(dtypes, k + 1));
    walk->start[k] = (char *)buffers[k] + (ptrdiff_t)plan[RM_OFFSETS + k] * bytes;
    walk->inner[k] = rank == 0 ? 0 : (ptrdiff_t)strides[rank - 1];
    for (int j = 0; j < rank; j++) walk->step[j][k] = (ptrdiff_t)strides[j] * bytes;
  }
  return RM_OK;
}
