/*
 * Elementwise ops: dense kernels, one for each line of ops.def and dtype, and one walk for all.
 *
 * The walk cuts an op into blocks of rows and columns. An operand that is dense there and of the
 * dtype that the kernel takes is handed over as it lies; any other one is packed into a block in the
 * first-level cache and cast there, so that strides, broadcasts and mixed dtypes need no kernels of
 * their own. Knows nothing of what an op means: that is in ops.def.
 */
#include <string.h>
#include "blocks.h"
#include "cast.h"
#if defined(__AVX512F__)
#include "gelu.h"
#endif
#include "internal.h"
#include "intmath.h"
#include "ops.def"
#include "vecmath.h"

typedef void (RM_KERNEL *kernel)(ptrdiff_t n, void *out, const void *a, const void *b,
                                 const void *c, const double *attributes);

/* The head of a kernel, for operands a, b and c; most leave some out. */
#define KERNEL_NAMED(name) \
  static RM_KERNEL void name(ptrdiff_t n, void *out, const void *a, \
                             __attribute__((unused)) const void *b, \
                             __attribute__((unused)) const void *c, \
                             __attribute__((unused)) const double *attributes)

/* Elements that kernels take at a time where they leave none over. */
enum { VECTOR = 16 };

/* Rows of arithmetic: their ids follow each other. */
enum { ARITHMETIC = RM_OP_div - RM_OP_add + 1 };

#define TYPE float
#define SUFFIX f32
#define FAMILY_FLOAT
#include "map_type.h"
#define TYPE double
#define SUFFIX f64
#define FAMILY_FLOAT
#include "map_type.h"
#define TYPE uint8_t
#define SUFFIX u8
#define FAMILY_UNSIGNED
#include "map_type.h"
#define TYPE uint16_t
#define SUFFIX u16
#define FAMILY_UNSIGNED
#include "map_type.h"
#define TYPE uint32_t
#define SUFFIX u32
#define FAMILY_UNSIGNED
#include "map_type.h"
#define TYPE uint64_t
#define SUFFIX u64
#define FAMILY_UNSIGNED
#include "map_type.h"
#define TYPE int8_t
#define SUFFIX i8
#define UNSIGNED u8
#include "map_type.h"
#define TYPE int16_t
#define SUFFIX i16
#define UNSIGNED u16
#include "map_type.h"
#define TYPE int32_t
#define SUFFIX i32
#define UNSIGNED u32
#include "map_type.h"
#define TYPE int64_t
#define SUFFIX i64
#define UNSIGNED u64
#include "map_type.h"
#define TYPE uint8_t
#define SUFFIX b8
#define FAMILY_BOOL
#include "map_type.h"

#if RM_HALF_IN_HARDWARE
#define TYPE uint16_t
#define SUFFIX f16
#define FAMILY_HALF
#define READ rm_from_half
#define WRITE rm_to_half
#include "map_type.h"
#define TYPE uint16_t
#define SUFFIX bf16
#define FAMILY_HALF
#define READ rm_from_brain
#define WRITE rm_to_brain
#include "map_type.h"
#else
/* Conversions by arithmetic would make long kernels. */
static const kernel table_f16[RM_ROWS], table_bf16[RM_ROWS];
#endif

/* The neighbours of 16-bit floats are no matter of arithmetic in float32. */
#define NEXTAFTER(type) \
  KERNEL_NAMED(own_nextafter_##type) { \
    uint16_t *o = out; \
    const uint16_t *p = a, *q = b; \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) o[i] = rm_nextafter_##type(p[i], q[i]); \
  }
NEXTAFTER(f16)
NEXTAFTER(bf16)

/* Nor are the signs of bfloat16, which no processor here converts at once. */
#define SIGN_BITS(name, expr) \
  KERNEL_NAMED(name) { \
    uint16_t *o = out; \
    const uint16_t *p = a; \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) o[i] = (uint16_t)(expr); \
  }
SIGN_BITS(own_neg_bf16, p[i] ^ 0x8000)
SIGN_BITS(own_abs_bf16, p[i] & 0x7fff)

/* The vector code of some functions is for most operands, found by their keys; blocks that hold
 * others take a kernel for all. Blocks are short, so that the processor looks for keys in the next
 * one while it computes. Not inlined: kernels that are part of a longer function load their
 * constants for every vector. */
enum { KEYED = 128 };
#define BLOCKS(test, T, type, word) \
  __attribute__((noinline)) static void test##_blocks_##type( \
      ptrdiff_t n, void *out, const void *a, kernel usual, kernel any) { \
    for (ptrdiff_t from = 0; from < n; from += KEYED) { \
      const ptrdiff_t m = rm_least(n - from, KEYED); \
      const T *p = (const T *)a + from; \
      word most = 0; \
      for (ptrdiff_t i = 0; i < m; i++) { \
        const word key = rm_##test##_key_##type(p[i]); \
        most = key > most ? key : most; \
      } \
      const bool is_usual = !rm_##test##_is_rare_##type(most); \
      (is_usual ? usual : any)(m, (T *)out + from, p, NULL, NULL, NULL); \
    } \
  }
BLOCKS(turn, float, f32, uint32_t)
BLOCKS(turn, double, f64, uint64_t)
BLOCKS(log, float, f32, uint32_t)

#define KEYED_KERNEL(name, test, type, usual, any) \
  KERNEL_NAMED(keyed_##name##_##type) { \
    test##_blocks_##type(n, out, a, usual##_##type, any##_##type); \
  }

/* Huge operands take the C library's functions, one by one. */
#define TRIGONOMETRIC(name, T, type) \
  KERNEL_NAMED(any_##name##_##type) { \
    T *o = out; \
    T copy[KEYED]; \
    /* The output may be the input. */ \
    memcpy(copy, a, (size_t)n * sizeof(T)); \
    name##_##type(n, o, copy, b, c, attributes); \
    for (ptrdiff_t i = 0; i < n; i++) { \
      if (rm_turn_is_rare_##type(rm_turn_key_##type(copy[i]))) o[i] = (T)name(copy[i]); \
    } \
  } \
  KEYED_KERNEL(name, turn, type, name, any_##name)
TRIGONOMETRIC(sin, float, f32)
TRIGONOMETRIC(cos, float, f32)
TRIGONOMETRIC(tan, float, f32)
TRIGONOMETRIC(sin, double, f64)
TRIGONOMETRIC(cos, double, f64)
TRIGONOMETRIC(tan, double, f64)

#define LOGARITHM(name) \
  KERNEL_NAMED(normal_##name##_f32) { \
    float *o = out; \
    const float *p = a; \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < (n & -VECTOR); i++) o[i] = rm_##name##_normal_f32(p[i]); \
  } \
  KEYED_KERNEL(name, log, f32, normal_##name, name)
LOGARITHM(log)
LOGARITHM(log2)
LOGARITHM(log10)

/* x to the power of 1/2, which differs from the square root of -0 and of -Infinity. */
#define HALF_POWER(name, T, root) \
  KERNEL_NAMED(name) { \
    T *o = out; \
    const T *p = a; \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) { \
      const T x = p[i]; \
      o[i] = x == (T)-INFINITY ? (T)INFINITY : root(x) + 0; \
    } \
  }
HALF_POWER(half_power_f32, float, rm_sqrt_f32)
HALF_POWER(half_power_f64, double, rm_sqrt_f64)

#if RM_HAS_FMA
/* There is vector code for short quotients of floats, which nearly all are. Gives how many of n were
 * short; n is a multiple of VECTOR. In float64 that is below 2^51: x - m and what is divided by y are
 * rounded, which together are off by 3/8 of an integer at most. */
typedef ptrdiff_t (RM_KERNEL *division)(ptrdiff_t n, void *out, const void *a, const void *b);
#define DIVISION(name, function, T, type) \
  static RM_KERNEL ptrdiff_t short_##name##_##type(ptrdiff_t n, void *out, const void *a, \
                                                   const void *b) { \
    T *o = out; \
    const T *p = a, *q = b; \
    int count = 0; \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < (n & -VECTOR); i++) { \
      count += rm_is_short_##type(p[i], q[i]); \
      o[i] = rm_##function##_short_##type(p[i], q[i]); \
    } \
    return count; \
  } \
  KERNEL_NAMED(checked_##name##_##type) { \
    divide_blocks(n, out, a, b, sizeof(T), short_##name##_##type, name##_##type); \
  }

__attribute__((noinline)) static void divide_blocks(ptrdiff_t n, char *out, const char *a,
                                                    const char *b, ptrdiff_t bytes, division usual,
                                                    kernel any) {
  _Alignas(64) uint64_t result[KEYED];
  for (ptrdiff_t from = 0; from < n; from += KEYED) {
    const ptrdiff_t m = rm_least(n - from, KEYED), at = from * bytes;
    /* The output may be an input. */
    if (usual(m, result, a + at, b + at) == m) memcpy(out + at, result, (size_t)(m * bytes));
    else any(m, out + at, a + at, b + at, NULL, NULL);
  }
}
DIVISION(floorDivide, ffloordiv, float, f32)
DIVISION(remainder, fmod, float, f32)
DIVISION(floorDivide, ffloordiv, double, f64)
DIVISION(remainder, fmod, double, f64)
#endif

/* Limits that are no NaN. */
#define LIMIT(T, type) \
  KERNEL_NAMED(limit_##type) { \
    T *o = out; \
    const T *p = a; \
    const T low = (T)attributes[0], high = (T)attributes[1]; \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) { \
      const T least = p[i] <= low ? low : p[i]; \
      o[i] = least >= high ? high : least; \
    } \
  }
LIMIT(float, f32)
LIMIT(double, f64)

/* ---- by one integer --------------------------------------------------------------------------- */

/* Integers of a block. */
enum { INTEGERS = 512 };

/* The integer that all elements of a row are divided by, or its power that is taken. */
typedef struct {
  /* 1 / y and 1 / |2 y|. */
  double reciprocal, half;
  uint64_t number;
  /* Of a byte: x / y is the upper half of (t + (x - t) / 2) last, t being that of x magic. */
  uint16_t magic, last;
  /* All ones where elements may be negative. */
  uint64_t sign;
  ptrdiff_t bytes;
  /* Of the dtype. */
  kernel multiply, divide;
} by_integer;

/* floor(x / y + 1 / |2 y|) is floor(x / y), but at least 1 / |2 y| away from the next integer. 1 / y,
 * the product and the sum are rounded, to be off by 3 * 2^-53 |x / y| at most, which is less for
 * |x| <= 2^50; in float32 by 3 * 2^-24 |x / y|, for |x| < 2^16. */
#define QUOTIENTS(type, T, real, floor_of, bits_of) \
  KERNEL_NAMED(quotients_##type) { \
    T *o = out; \
    const T *p = a; \
    const by_integer *y = (const void *)attributes; \
    const real reciprocal = (real)y->reciprocal, half = (real)y->half; \
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) { \
      o[i] = (T)bits_of(floor_of((real)p[i] * reciprocal + half)); \
    } \
  }
QUOTIENTS(i8, int8_t, float, __builtin_floorf, rm_low_bits_f32)
QUOTIENTS(u8, uint8_t, float, __builtin_floorf, rm_low_bits_f32)
QUOTIENTS(i16, int16_t, float, __builtin_floorf, rm_low_bits_f32)
QUOTIENTS(u16, uint16_t, float, __builtin_floorf, rm_low_bits_f32)
QUOTIENTS(i32, int32_t, double, __builtin_floor, rm_low_bits)
QUOTIENTS(u32, uint32_t, double, __builtin_floor, rm_low_bits)

/* By more than 2, in words of 16 bits: Granlund and Montgomery, "Division by Invariant Integers using
 * Multiplication", figure 4.1. The last shift is a product, as processors shift by what is not known
 * before in longer words. */
KERNEL_NAMED(short_quotients) {
  uint8_t *o = out;
  const uint8_t *p = a;
  const by_integer *y = (const void *)attributes;
  const uint16_t magic = y->magic, last = y->last;
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
    const uint8_t x = p[i], t = (uint8_t)((uint16_t)(x * magic) >> 8);
    const uint8_t sum = (uint8_t)(t + ((uint8_t)(x - t) >> 1));
    o[i] = (uint8_t)((uint16_t)(sum * last) >> 8);
  }
}

/* Integers of 51 bits are a float64's mantissa, on top of this one's. */
#define MANTISSA 0x1.8p52

KERNEL_NAMED(quotients_64) {
  const by_integer *y = (const void *)attributes;
  const double reciprocal = y->reciprocal, half = y->half;
  const uint64_t base = rm_bits_of_f64(MANTISSA);
  for (ptrdiff_t from = 0; from < n; from += KEYED) {
    const ptrdiff_t m = rm_least(n - from, KEYED);
    const int64_t *p = (const int64_t *)a + from;
    int64_t *o = (int64_t *)out + from;
    uint64_t bits = 0;
    for (ptrdiff_t i = 0; i < m; i++) bits |= (uint64_t)p[i] ^ ((uint64_t)(p[i] >> 63) & y->sign);
    if (bits >> 50 != 0) {
      uint64_t divisor[KEYED];
      for (int i = 0; i < KEYED; i++) divisor[i] = y->number;
      y->divide(m, o, p, divisor, NULL, NULL);
      continue;
    }
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < m; i++) {
      const double x = rm_double_of((uint64_t)p[i] + base) - MANTISSA;
      const double floored = __builtin_floor(x * reciprocal + half);
      o[i] = (int64_t)(rm_bits_of_f64(floored + MANTISSA) - base);
    }
  }
}

static const kernel quotients[RM_DTYPE_COUNT] = {
    [RM_INT8] = quotients_i8,   [RM_INT16] = quotients_i16,   [RM_INT32] = quotients_i32,
    [RM_INT64] = quotients_64,  [RM_UINT8] = quotients_u8,    [RM_UINT16] = quotients_u16,
    [RM_UINT32] = quotients_u32, [RM_UINT64] = quotients_64,
};

/* Powers by squares and products, all elements of a block at a time. */
KERNEL_NAMED(integer_powers) {
  const by_integer *y = (const void *)attributes;
  const ptrdiff_t bytes = y->bytes;
  for (ptrdiff_t from = 0; from < n; from += INTEGERS) {
    const ptrdiff_t m = rm_least(n - from, INTEGERS);
    char *o = (char *)out + from * bytes;
    uint64_t x[INTEGERS];
    memcpy(x, (const char *)a + from * bytes, (size_t)(m * bytes));
    const void *power = x;
    for (int bit = 62 - __builtin_clzll(y->number); bit >= 0; bit--) {
      y->multiply(m, o, power, power, NULL, NULL);
      if ((y->number >> bit & 1) != 0) y->multiply(m, o, o, x, NULL, NULL);
      power = o;
    }
  }
}

#if defined(__AVX512F__)
KERNEL_NAMED(pieced_gelu_f32) {
  float *o = out;
  const float *p = a;
  for (ptrdiff_t i = 0; i < n; i += VECTOR) {
    _mm512_storeu_ps(o + i, gelu_of(_mm512_loadu_ps(p + i)));
  }
}
#endif

static const kernel *const tables[RM_DTYPE_COUNT] = {
    table_b8,  table_i8,  table_i16, table_i32,  table_i64, table_u8, table_u16,
    table_u32, table_u64, table_f16, table_bf16, table_f32, table_f64,
};

/* The kernel of a row for a dtype as it is, or null. Where the table's is not for all operands, it
 * is another one. */
static kernel kernel_of(int opcode, int compute) {
  const kernel usual = tables[compute][opcode];
  if (compute == RM_FLOAT32) {
    switch (opcode) {
      case RM_OP_sin: return keyed_sin_f32;
      case RM_OP_cos: return keyed_cos_f32;
      case RM_OP_tan: return keyed_tan_f32;
      case RM_OP_log: return keyed_log_f32;
      case RM_OP_log2: return keyed_log2_f32;
      case RM_OP_log10: return keyed_log10_f32;
#if defined(__AVX512F__)
      case RM_OP_gelu: return pieced_gelu_f32;
#endif
#if RM_HAS_FMA
      case RM_OP_floorDivide: return checked_floorDivide_f32;
      case RM_OP_remainder: return checked_remainder_f32;
#endif
      default: return usual;
    }
  }
  if (compute == RM_FLOAT64) {
    switch (opcode) {
      case RM_OP_sin: return keyed_sin_f64;
      case RM_OP_cos: return keyed_cos_f64;
      case RM_OP_tan: return keyed_tan_f64;
#if RM_HAS_FMA
      case RM_OP_floorDivide: return checked_floorDivide_f64;
      case RM_OP_remainder: return checked_remainder_f64;
#endif
      default: return usual;
    }
  }
  if (opcode == RM_OP_nextafter && compute == RM_FLOAT16) return own_nextafter_f16;
  if (compute == RM_BFLOAT16) {
    switch (opcode) {
      case RM_OP_nextafter: return own_nextafter_bf16;
      case RM_OP_neg: return own_neg_bf16;
      case RM_OP_abs: return own_abs_bf16;
      default: return usual;
    }
  }
  return usual;
}

/* Those for the first or the second operand being one element. */
static const kernel (*const with_element[RM_DTYPE_COUNT])[2] = {
    [RM_INT8] = with_element_u8,     [RM_INT16] = with_element_u16,
    [RM_INT32] = with_element_u32,   [RM_INT64] = with_element_u64,
    [RM_UINT8] = with_element_u8,    [RM_UINT16] = with_element_u16,
    [RM_UINT32] = with_element_u32,  [RM_UINT64] = with_element_u64,
    [RM_FLOAT32] = with_element_f32, [RM_FLOAT64] = with_element_f64,
};

/* The kernels of a row for either being one, or null; they may be null themselves. */
static const kernel *elements_of(int opcode, int compute) {
  const bool arithmetic = opcode >= RM_OP_add && opcode < RM_OP_add + ARITHMETIC;
  return arithmetic && with_element[compute] != NULL ? with_element[compute][opcode - RM_OP_add]
                                                     : NULL;
}

typedef struct {
  uint8_t operands;
  bool condition;
  bool gives_bool;
  bool heavy;
} row_facts;

#define RM_MAP_ROW(name, arity, condition, gives_bool, heavy) \
  [RM_OP_##name] = {(arity) + 1, condition, gives_bool, heavy},
static const row_facts facts[RM_ROWS] = {
#include "ops.def"
};
#undef RM_MAP_ROW

/* Rows whose kernels for float32 and float64 take whole vectors only. */
#define RM_HEAVY_MAP(name, ...) [RM_OP_##name] = true,
static const bool by_vectors[RM_ROWS] = {
#include "ops.def"
};
#undef RM_HEAVY_MAP

/* ---- what is to be done ------------------------------------------------------------------------ */

typedef struct {
  rm_walk walk;
  /* Null for a copy, which casts at most. */
  kernel run;
  /* Kernels for one of two operands being one element; null where there are none. */
  const kernel *elements;
  const double *attributes;
  /* The attributes of kernels for one integer, or for two limits. */
  by_integer integer;
  double limits[2];
  /* Whether the kernel takes whole vectors only. */
  bool whole;
  /* The dtypes as stored and as the kernel sees them, the output's first. */
  int stored[RM_MAX_OPERANDS];
  int seen[RM_MAX_OPERANDS];
  /* The 16-bit dtype whose values float32 computes, to which results are rounded; or RM_NONE. */
  int half;
  /* Rows and columns are the last two axes; a plan of one axis has one row. */
  ptrdiff_t rows, columns, positions;
  ptrdiff_t down[RM_MAX_OPERANDS];
  int outer_axes;
  bool tiled;
  /* Whether few rows are copied to or from elements that take turns. */
  bool merges;
  /* Whether the output is so large that it should pass by the caches. */
  bool streams;
  /* How the work is cut: rows and columns for each task, and cuts of a row. */
  ptrdiff_t task_rows, task_columns, cuts;
} job;

enum {
  /* Elements of a block. */
  BLOCK = 1024,
  /* Rows and columns of a block where an operand runs across the others. */
  TILE_ROWS = 16,
  TILE_COLUMNS = 64,
  TILE_LEAST = 16,
  /* Elements of a dense op that are worth beginning at a line of the caches. */
  ALIGN_LEAST = 4096,
  /* Rows shorter than this are put together in blocks. */
  SHORT_ROW = 128,
  /* How often an element is written for a kernel that takes it with each of a row's: once for each
   * row, or once for all of them. */
  REPEATS = 128,
  REPEATS_KEPT = 1024,
  /* Bytes of an operand for a task of a cheap op at most, and elements for one of a costly op; how
   * many of those make a thread worth its while, and how long each takes about. */
  CHEAP_BYTES = 1 << 17,
  HEAVY_TASK = 1 << 13,
  TASKS_LEAST = 2,
  TASK_NANOSECONDS = 6000,
  /* Elements that end where lines of the caches do, whatever their size. */
  LINE_ELEMENTS = 64,
  /* Bytes of an output that pass by the caches, as it would not be found there again; and elements
   * between two turns of reading and writing, of which memory wants short ones. */
  STREAM_LEAST = 1 << 24,
  STREAM_PIECE = 128
};

/* Blocks of the operands as they were packed and as the kernel sees them. */
typedef struct {
  _Alignas(64) char packed[RM_MAX_OPERANDS][BLOCK * 8];
  _Alignas(64) char seen[RM_MAX_OPERANDS][BLOCK * 8];
  /* What `seen` was made from, where the next block may need the same. */
  const char *source[RM_MAX_OPERANDS];
  ptrdiff_t filled[RM_MAX_OPERANDS], pitch[RM_MAX_OPERANDS];
} scratch;

/* ---- one block --------------------------------------------------------------------------------- */

/* Casts n dense elements on their way from one dtype to another by way of a 16-bit one, if any. */
static void cast_by(ptrdiff_t n, void *out, int to, int half, int from, const void *in,
                    void *between) {
  if (half == RM_NONE || half == from || half == to) {
    casts[from][to](n, out, in);
    return;
  }
  casts[from][half](n, between, in);
  casts[half][to](n, out, between);
}

/* True when operand k is stored as the kernel takes or gives it, values included. */
static bool is_plain(const job *it, int k) {
  return it->stored[k] == it->seen[k] &&
         (it->half == RM_NONE || it->seen[k] == RM_BOOL || it->seen[k] == it->half);
}

/* Input k of a block, as the kernel takes it. */
static const char *input(const job *it, scratch *s, int k, const char *at, ptrdiff_t rows,
                         ptrdiff_t columns) {
  const int stored = it->stored[k], seen = it->seen[k];
  const ptrdiff_t bytes = rm_bytes(stored), total = rows * columns;
  const ptrdiff_t right = it->walk.inner[k] * bytes, down = rows == 1 ? 0 : it->down[k];
  const bool dense = right == bytes && (rows == 1 || down == columns * bytes);
  const bool plain = is_plain(it, k);
  if (dense && plain) return at;
  /* Rows that are all the same, or all one element, may have been made already. */
  const bool one = right == 0 && down == 0, same = it->down[k] == 0;
  if (same && s->source[k] == at && s->filled[k] >= total && (one || s->pitch[k] == columns)) {
    return s->seen[k];
  }
  s->source[k] = same ? at : NULL;
  s->filled[k] = total;
  s->pitch[k] = columns;
  const int half = it->half;
  char *packed = plain ? s->seen[k] : s->packed[k];
  if (one) {
    char cast_one[8], between[8];
    const char *value = at;
    if (!plain) {
      cast_by(1, cast_one, seen, half, stored, at, between);
      value = cast_one;
    }
    const ptrdiff_t size = rm_bytes(seen);
    move_block((piece){s->seen[k], 0, size}, (piece){(char *)value, 0, 0}, 1, total, size);
    return s->seen[k];
  }
  if (!dense) {
    move_block((piece){packed, columns * bytes, bytes}, (piece){(char *)at, down, right}, rows,
               columns, bytes);
    if (plain) return packed;
  }
  /* The block of the output is free until the kernel runs. */
  cast_by(total, s->seen[k], seen, half, stored, dense ? at : packed, s->packed[0]);
  return s->seen[k];
}

/* Runs a kernel that takes whole vectors only: what is left over makes another one, together with
 * the elements before, or, where there are too few, with numbers that nothing is special about. */
__attribute__((noinline)) static void run_vectors(const job *it, ptrdiff_t n, char *out,
                                                  const char *a, const char *b, const char *c) {
  const ptrdiff_t rest = n % VECTOR, most = n - rest, used = rm_least(n, VECTOR);
  const char *const operands[RM_MAX_OPERANDS] = {out, a, b, c};
  _Alignas(64) uint64_t part[RM_MAX_OPERANDS][VECTOR];
  for (int k = 1; k < it->walk.operands; k++) {
    const ptrdiff_t size = rm_bytes(it->seen[k]);
    /* Small and positive in every float dtype. */
    for (int i = 0; i < VECTOR; i++) part[k][i] = 0x3f803f803f803f80;
    memcpy(part[k], operands[k] + (n - used) * size, (size_t)(used * size));
  }
  if (most > 0) it->run(most, out, a, b, c, it->attributes);
  it->run(VECTOR, part[0], part[1], part[2], part[3], it->attributes);
  const ptrdiff_t size = rm_bytes(it->seen[0]);
  memcpy(out + most * size, (char *)part[0] + (used - rest) * size, (size_t)(rest * size));
}

static inline void run_any(const job *it, ptrdiff_t n, char *out, const char *a, const char *b,
                           const char *c) {
  if (it->whole && n % VECTOR != 0) run_vectors(it, n, out, a, b, c);
  else it->run(n, out, a, b, c, it->attributes);
}

/* A block of a tiled op whose rows are written where they lie, one by one: only what runs across
 * them has to be packed. */
static void run_rows(const job *it, scratch *s, char *const *at, ptrdiff_t rows,
                     ptrdiff_t columns) {
  const char *in[3] = {NULL, NULL, NULL};
  ptrdiff_t pitch[3] = {0, 0, 0};
  for (int k = 1; k < it->walk.operands; k++) {
    const bool direct = it->walk.inner[k] == 1 && is_plain(it, k);
    in[k - 1] = direct ? at[k] : input(it, s, k, at[k], rows, columns);
    pitch[k - 1] = direct ? it->down[k] : columns * rm_bytes(it->seen[k]);
  }
  for (ptrdiff_t i = 0; i < rows; i++) {
    run_any(it, columns, at[0] + i * it->down[0], in[0] + i * pitch[0], in[1] + i * pitch[1],
            in[2] + i * pitch[2]);
  }
}

static void run_block(const job *it, scratch *s, char *const *at, ptrdiff_t rows,
                      ptrdiff_t columns) {
  const int stored = it->stored[0], seen = it->seen[0];
  const ptrdiff_t bytes = rm_bytes(stored), total = rows * columns;
  const ptrdiff_t right = it->walk.inner[0] * bytes, down = it->down[0];
  const piece target = {at[0], down, right};
  const bool dense = right == bytes && (rows == 1 || down == columns * bytes);
  if (it->run == NULL) {
    const ptrdiff_t size = rm_bytes(it->stored[1]);
    const piece source = {at[1], it->down[1], it->walk.inner[1] * size};
    if (it->stored[1] == stored) {
      move_block(target, source, rows, columns, bytes);
      return;
    }
    const bool ready = source.right == size && (rows == 1 || source.down == columns * size);
    if (!ready) {
      move_block((piece){s->packed[1], columns * size, size}, source, rows, columns, size);
    }
    casts[it->stored[1]][stored](total, dense ? at[0] : s->packed[0],
                                 ready ? at[1] : s->packed[1]);
    if (!dense) {
      move_block(target, (piece){s->packed[0], columns * bytes, bytes}, rows, columns, bytes);
    }
    return;
  }
  const bool plain = is_plain(it, 0);
  if (it->tiled && plain && right == bytes && !dense) {
    run_rows(it, s, at, rows, columns);
    return;
  }
  const char *in[3] = {NULL, NULL, NULL};
  for (int k = 1; k < it->walk.operands; k++) in[k - 1] = input(it, s, k, at[k], rows, columns);
  char *result = dense && plain && !it->streams ? at[0] : s->seen[0];
  run_any(it, total, result, in[0], in[1], in[2]);
  if (result == at[0]) return;
  if (!plain) {
    char *cast_to = dense ? at[0] : s->packed[0];
    cast_by(total, cast_to, stored, seen == RM_BOOL ? RM_NONE : it->half, seen, result,
            s->packed[1]);
    result = cast_to;
  }
  if (result == at[0]) return;
  if (dense && it->streams) stream(at[0], result, total * bytes);
  else move_block(target, (piece){result, columns * bytes, bytes}, rows, columns, bytes);
}

/* True when whole rows are taken as they lie, except for inputs that are one element for a row, if
 * those may be: casts take none. */
static bool takes_rows(const job *it, bool elements) {
  const bool casts = it->run == NULL && it->stored[0] != it->stored[1];
  for (int k = 0; k < it->walk.operands; k++) {
    const bool element = elements && !casts && k > 0 && it->walk.inner[k] == 0;
    if (it->walk.inner[k] != 1 && !element) return false;
    if (it->run != NULL && !is_plain(it, k)) return false;
  }
  return true;
}

/* Writes an element so often. */
static inline void repeat(char *to, const char *element, ptrdiff_t bytes, ptrdiff_t times) {
  const line all = repeated(element, bytes) - (line){0};
  for (ptrdiff_t i = 0; i < times * bytes; i += LINE) memcpy(to + i, &all, LINE);
}

/* Long rows that are taken as they lie: in pieces, where elements have to be repeated, or what is
 * computed passes by the caches. */
__attribute__((noinline)) static void run_long_rows(const job *it, scratch *s, char *const *at,
                                                    ptrdiff_t rows, ptrdiff_t columns) {
  const int operands = it->walk.operands;
  const ptrdiff_t *inner = it->walk.inner;
  const ptrdiff_t size = rm_bytes(it->seen[0]);
  const int shift = __builtin_ctz((unsigned)size);
  kernel element = NULL;
  if (it->elements != NULL && inner[1] != inner[2]) element = it->elements[inner[2] == 0];
  ptrdiff_t bytes[RM_MAX_OPERANDS], step[RM_MAX_OPERANDS] = {0};
  ptrdiff_t times[RM_MAX_OPERANDS] = {0}, most = columns;
  for (int k = 1; k < operands; k++) {
    bytes[k] = rm_bytes(it->seen[k]);
    step[k] = inner[k] * bytes[k];
    if (step[k] != 0 || element != NULL) continue;
    times[k] = it->down[k] == 0 ? REPEATS_KEPT : REPEATS;
    most = rm_least(most, times[k]);
  }
  if (it->streams) most = rm_least(most, STREAM_PIECE);
  for (ptrdiff_t row = 0; row < rows; row++) {
    const char *in[RM_MAX_OPERANDS] = {NULL};
    for (int k = 1; k < operands; k++) {
      in[k] = at[k] + row * it->down[k];
      if (times[k] == 0) continue;
      if (s->source[k] != in[k]) repeat(s->seen[k], in[k], bytes[k], times[k]);
      s->source[k] = in[k];
      in[k] = s->seen[k];
    }
    char *out = at[0] + row * it->down[0];
    /* Vectors that cross lines cost a sixth of the time of what the caches hold, those that are
     * stored most: a few elements go ahead. */
    const ptrdiff_t ahead = (ptrdiff_t)(-(uintptr_t)out % LINE) >> shift;
    ptrdiff_t part = ahead == 0 || (it->whole && !it->streams) ? most : ahead;
    for (ptrdiff_t left = columns; left > 0; left -= part, part = most) {
      if (part > left) part = left;
      char *to = it->streams ? s->seen[0] : out;
      if (element != NULL) element(part, to, in[1], in[2], NULL, NULL);
      else run_any(it, part, to, in[1], in[2], in[3]);
      if (it->streams) stream(out, to, part * size);
      out += part * size;
      for (int k = 1; k < operands; k++) in[k] += part * step[k];
    }
  }
}

/* ---- all blocks -------------------------------------------------------------------------------- */

/* Whether an operand is denser down than along: rows of such are moved column by column, if several
 * are moved at once. */
static bool lies_sideways(const job *it) {
  if (it->rows == 1) return false;
  for (int k = 0; k < it->walk.operands; k++) {
    const ptrdiff_t along = rm_magnitude(it->walk.inner[k]) * rm_bytes(it->stored[k]);
    if (rm_magnitude(it->down[k]) < along) return true;
  }
  return false;
}

/* Rows [from, to) of all positions of the outer axes, columns [first, last). Not to be inlined where
 * small ops pass by, as its blocks take room on the stack. */
__attribute__((noinline)) static void run_part(const job *it, ptrdiff_t from, ptrdiff_t to,
                                               ptrdiff_t first, ptrdiff_t last) {
  scratch s;
  const rm_walk *walk = &it->walk;
  const int operands = walk->operands;
  ptrdiff_t step[RM_MAX_OPERANDS] = {0}, count[RM_MAX_RANK] = {0};
  char *at[RM_MAX_OPERANDS] = {NULL};
  for (int k = 0; k < operands; k++) {
    s.source[k] = NULL;
    step[k] = walk->inner[k] * rm_bytes(it->stored[k]);
    at[k] = walk->start[k] + first * step[k];
  }
  const ptrdiff_t width = last - first;
  rm_seek(walk, it->outer_axes, from / it->rows, count, at);
  /* Whether rows are taken as they lie. */
  bool as_is = false;
  ptrdiff_t high = 1, wide = BLOCK;
  if (it->tiled) {
    high = TILE_ROWS;
    wide = TILE_COLUMNS;
  } else if (it->merges) {
    high = it->rows;
    if (it->stored[0] != it->stored[1]) wide = BLOCK / it->rows / LINE_ELEMENTS * LINE_ELEMENTS;
  } else if (it->run == NULL && it->stored[0] == it->stored[1] && !lies_sideways(it)) {
    /* Copies need no room for blocks. */
    high = PTRDIFF_MAX;
    wide = width;
  } else if (width < SHORT_ROW) {
    high = BLOCK / width;
    /* Whole vectors, if there is a choice. */
    if (high > VECTOR) high -= high % VECTOR;
  } else if (takes_rows(it, true)) {
    as_is = it->run != NULL;
    if (as_is) high = PTRDIFF_MAX;
    wide = width;
  }
  for (ptrdiff_t row = from % it->rows; from < to;) {
    const ptrdiff_t end = rm_least(row + (to - from), it->rows);
    from += end - row;
    for (ptrdiff_t rows; row < end; row += rows) {
      rows = rm_least(end - row, high);
      for (ptrdiff_t column = 0; column < width; column += wide) {
        const ptrdiff_t columns = rm_least(width - column, wide);
        char *part[RM_MAX_OPERANDS] = {NULL};
        for (int k = 0; k < operands; k++) part[k] = at[k] + row * it->down[k] + column * step[k];
        if (as_is) run_long_rows(it, &s, part, rows, columns);
        else run_block(it, &s, part, rows, columns);
      }
    }
    row = 0;
    rm_next(walk, 0, it->outer_axes, count, at);
  }
  if (it->streams) end_stream();
}

static void run_task(void *context, ptrdiff_t index) {
  const job *it = context;
  const ptrdiff_t rows = it->rows * it->positions;
  const ptrdiff_t from = index / it->cuts * it->task_rows;
  const ptrdiff_t first = index % it->cuts * it->task_columns;
  run_part(it, from, rm_least(from + it->task_rows, rows), first,
           rm_least(first + it->task_columns, it->columns));
}

/* True when operand k is denser along the last axis but one, so that whole rows would waste most of
 * each cache line. */
static bool crosses(const job *it, int k) {
  const ptrdiff_t along = rm_magnitude(it->down[k]);
  const ptrdiff_t across = rm_magnitude(it->walk.inner[k]) * rm_bytes(it->stored[k]);
  return along != 0 && along < across;
}

/* What is written over an input is in the caches anyhow, and copies move whole rows themselves. */
static bool wants_stream(const job *it, double elements) {
  const rm_walk *walk = &it->walk;
  if (it->run == NULL || elements * (double)rm_bytes(it->stored[0]) < STREAM_LEAST) return false;
  for (int k = 1; k < walk->operands; k++) {
    if (walk->start[k] == walk->start[0]) return false;
  }
  return true;
}

/* About `part`, so that threads get shares of one size: then none takes from another's, whose data
 * are in other caches. */
static ptrdiff_t even_part(ptrdiff_t whole, ptrdiff_t part) {
  const ptrdiff_t parts = rm_round_up(rm_parts(whole, part), 8);
  return rm_round_up(rm_parts(whole, parts), LINE_ELEMENTS);
}

static void run_all(job *it, ptrdiff_t task) {
  const rm_walk *walk = &it->walk;
  const int rank = walk->rank;
  it->columns = rank == 0 ? 1 : walk->size[rank - 1];
  it->rows = rank < 2 ? 1 : walk->size[rank - 2];
  it->outer_axes = rank < 2 ? 0 : rank - 2;
  it->positions = 1;
  for (int axis = 0; axis < it->outer_axes; axis++) it->positions *= walk->size[axis];
  for (int k = 0; k < walk->operands; k++) it->down[k] = rank < 2 ? 0 : walk->step[rank - 2][k];
  bool crossing = false;
  for (int k = 0; k < walk->operands && it->rows > 1; k++) crossing |= crosses(it, k);
  it->tiled = crossing && it->rows >= TILE_LEAST && it->columns >= TILE_LEAST;
  /* Casts write whole rows where they can. */
  it->merges = crossing && it->rows < TILE_LEAST && it->columns >= SHORT_ROW && it->run == NULL &&
               (it->stored[0] == it->stored[1] || crosses(it, 0));
  const ptrdiff_t rows = it->rows * it->positions;
  const double elements = (double)rows * (double)it->columns;
  it->streams = wants_stream(it, elements);
  if (elements < (double)(TASKS_LEAST * task)) {
    char *const *at = walk->start;
    if (rows == 1 && elements < ALIGN_LEAST && it->run != NULL && takes_rows(it, false)) {
      run_any(it, it->columns, at[0], at[1], at[2], at[3]);
      return;
    }
    run_part(it, 0, rows, 0, it->columns);
    return;
  }
  it->task_columns = it->columns < 2 * task ? it->columns : even_part(it->columns, task);
  it->cuts = rm_parts(it->columns, it->task_columns);
  it->task_rows = rm_parts(task, it->task_columns);
  /* Tiles are not cut in two, nor rows apart that are merged. */
  if (it->tiled) it->task_rows = rm_round_up(it->task_rows, TILE_ROWS);
  if (it->merges) it->task_rows = rm_round_up(it->task_rows, it->rows);
  rm_parallel(rm_parts(rows, it->task_rows) * it->cuts,
              elements / (double)task * TASK_NANOSECONDS, run_task, it);
}

/* The kernel for x to the power of y, where one is cheaper: less code to run, and no more roundings.
 */
static kernel power_by(double y, int work) {
  if (y == 2) return kernel_of(RM_OP_square, work);
  if (y == -1) return kernel_of(RM_OP_reciprocal, work);
  return y != 0.5 ? NULL : work == RM_FLOAT32 ? half_power_f32 : half_power_f64;
}

/* The same for integers, and for x / y rounded down. */
static kernel integer_by(job *it, int opcode, int64_t y, int work) {
  const bool is_negative = y < 0 && work < RM_UINT8;
  const double divisor = work < RM_UINT8 ? (double)y : (double)(uint64_t)y;
  it->integer = (by_integer){.reciprocal = 1 / divisor,
                             .half = 0.5 / __builtin_fabs(divisor),
                             .number = (uint64_t)y,
                             .sign = work < RM_UINT8 ? UINT64_MAX : 0,
                             .bytes = rm_bytes(work),
                             .multiply = tables[work][RM_OP_mul],
                             .divide = tables[work][RM_OP_floorDivide]};
  it->attributes = (const void *)&it->integer;
  if (opcode == RM_OP_floorDivide) {
    if (work != RM_UINT8 || y <= 2) return y == 0 ? NULL : quotients[work];
    const int bits = 64 - __builtin_clzll((uint64_t)y - 1);
    it->integer.magic = (uint16_t)((((1 << bits) - y) << 8) / y + 1);
    it->integer.last = (uint16_t)(1 << (9 - bits));
    return short_quotients;
  }
  if (y == 2) return tables[work][RM_OP_square];
  return is_negative || y < 2 ? NULL : integer_powers;
}

/* The number that operand k is, or NaN. */
static double number_of(const job *it, int k) {
  for (int axis = 0; axis < it->walk.rank; axis++) if (it->walk.step[axis][k] != 0) return NAN;
  double y;
  casts[it->stored[k]][RM_FLOAT64](1, &y, it->walk.start[k]);
  return y;
}

/* An op whose operands but for the first are one number each that a cheaper kernel takes. False for
 * all others. */
static bool simplify(job *it, int opcode, int work) {
  const bool integer = work >= RM_INT8 && work <= RM_UINT64;
  const bool floats = work >= RM_FLOAT32;
  kernel run = NULL;
  if (floats && opcode == RM_OP_pow && rm_is_float(it->stored[2])) {
    run = power_by(number_of(it, 2), work);
  } else if (floats && opcode == RM_OP_clip && it->half == RM_NONE &&
             rm_is_float(it->stored[2]) && rm_is_float(it->stored[3])) {
    const double low = number_of(it, 2), high = number_of(it, 3);
    if (low == low && high == high) run = work == RM_FLOAT32 ? limit_f32 : limit_f64;
    it->limits[0] = low, it->limits[1] = high;
    it->attributes = it->limits;
  } else if (integer && (opcode == RM_OP_pow || opcode == RM_OP_floorDivide)) {
    const double y = number_of(it, 2);
    int64_t exact;
    casts[it->stored[2]][work](1, &exact, it->walk.start[2]);
    casts[work][RM_INT64](1, &exact, &exact);
    if (y == y) run = integer_by(it, opcode, exact, work);
  }
  if (run == NULL) return false;
  it->run = run;
  it->whole = false;
  it->walk.operands = 2;
  return true;
}

void RM_AT(powers)(ptrdiff_t n, double *x, double y) {
  double each[KEYED];
  for (int i = 0; i < KEYED; i++) each[i] = y;
  for (; n % VECTOR != 0; n++) x[n] = 1;
  for (ptrdiff_t i = 0; i < n; i += KEYED) {
    pow_f64(rm_least(n - i, KEYED), x + i, x + i, each, NULL, NULL);
  }
}

int32_t RM_AT(map)(int32_t opcode, int32_t dtypes, const double *plan, void *out, const void *a,
                   const void *b, const void *c) {
  const int compute = rm_dtype_at(dtypes, 0);
  if (opcode < 0 || opcode >= RM_ROWS || compute >= RM_DTYPE_COUNT) return RM_UNSUPPORTED;
  const row_facts row = facts[opcode];
  if (row.operands == 0) return RM_UNSUPPORTED;
  job it;
  int work = compute;
  it.half = RM_NONE;
  it.run = kernel_of(opcode, work);
  const bool half = compute == RM_FLOAT16 || compute == RM_BFLOAT16;
  it.whole = half || (by_vectors[opcode] && compute >= RM_FLOAT32);
  if (it.run == NULL && half) {
    work = RM_FLOAT32;
    it.half = compute;
    it.run = kernel_of(opcode, work);
    it.whole = by_vectors[opcode];
  }
  if (it.run == NULL) return RM_UNSUPPORTED;
  it.elements = elements_of(opcode, work);
  it.attributes = plan + RM_ATTRIBUTES;
  for (int k = 0; k < row.operands; k++) {
    it.stored[k] = rm_dtype_at(dtypes, k + 1);
    it.seen[k] = work;
    if (it.stored[k] >= RM_DTYPE_COUNT) return RM_UNSUPPORTED;
  }
  if (row.gives_bool) it.seen[0] = RM_BOOL;
  if (row.condition) it.seen[1] = RM_BOOL;
  if (opcode == RM_OP_copy && it.stored[1] == compute) it.run = NULL;
  void *const buffers[RM_MAX_OPERANDS] = {out, (void *)a, (void *)b, (void *)c};
  it.walk.start[2] = it.walk.start[3] = NULL;
  int32_t status = rm_read_plan(&it.walk, plan, row.operands, dtypes, buffers);
  if (status != RM_OK || it.walk.empty) return status;
  /* 16-bit floats take as long as what they are computed in. */
  ptrdiff_t widest = half ? 4 : 1;
  for (int k = 0; k < row.operands; k++) {
    if (rm_bytes(it.stored[k]) > widest) widest = rm_bytes(it.stored[k]);
  }
  const bool simple = simplify(&it, opcode, work);
  const bool heavy = row.heavy && (!simple || it.run == integer_powers);
  run_all(&it, heavy ? HEAVY_TASK : CHEAP_BYTES / widest);
  return RM_OK;
}
