/*
 * Matrix products of every dtype: blocks of both matrices are packed into panels, and one kernel
 * multiplies panels. Small products go without packing; those with a vector have kernels of their
 * own.
 *
 * Floats narrower than float32 are converted as they are read and summed in float32; integers of 8
 * and 16 bits are multiplied in 16 bits, as only the low bits of a sum count. Every element of a
 * result is summed in an order that the sizes alone decide. Knows nothing of BLAS.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "half.h"
#include "internal.h"

/* ---- shapes of the kernels ------------------------------------------------------------------- */

/* A kernel holds MR rows of 2 vectors of BYTES bytes in registers. */
#if defined(__AVX512F__)
enum { BYTES = 64, MR = 12 };
#elif defined(__AVX2__)
enum { BYTES = 32, MR = 6 };
#elif defined(__aarch64__)
enum { BYTES = 16, MR = 8 };
#else
enum { BYTES = 16, MR = 4 };
#endif

enum {
  /* Rows that a product without packing takes at once, from where they lie. */
  FEW = 4,
  WIDTH_COUNT = 4,
  /* Elements of a, and half of those of b, that a product without packing has at most. */
  SMALL = 4096,
  /* Depth of a panel: one of b then fits the first-level cache. */
  DEPTH = 256,
  /* What a task multiplies: its rows fit the second-level cache, its columns are shared. */
  TASK_ROWS = 96,
  TASK_COLUMNS = 256,
  /* What is packed at a time. */
  BLOCK = 2048,
  /* Larger working memory is let go after the call. */
  KEPT_BYTES = 16 << 20,
  ALIGNMENT = 64,
  /* Panels that a task packs. */
  TASK_PANELS = 8,
  /* Elements that a vector's product takes from its matrix for one task: rows (or columns) and how
   * far it goes along the sum. */
  RUN = 1024,
  DOT_DEPTH = 65536,
  DOT_ELEMENTS = 65536,
  SWEEP_DEPTH = 256,
  CHUNK = 512
};

/* About, on one thread; less with narrow vectors and for wide numbers. */
static const double PRODUCTS_EACH_NANOSECOND = 50;

#if defined(__FMA__) || defined(__aarch64__)
#define FUSED(T, x, y, z) __builtin_elementwise_fma(x, y, z)
#else
#define FUSED(T, x, y, z) ((z) + (x) * (y))
#endif
#define WRAPPED(T, x, y, z) ((T)((z) + (x) * (y)))

/* The sum of all elements of a vector whose elements have 64, 32 or 16 bits. */
#define HALVES(x)            \
  __extension__({            \
    __auto_type all_ = (x);  \
    all_.lo + all_.hi;       \
  })
#if defined(__AVX512F__)
#define TOTAL_64(x) HALVES(HALVES(HALVES(x)))
#elif defined(__AVX2__)
#define TOTAL_64(x) HALVES(HALVES(x))
#else
#define TOTAL_64(x) HALVES(x)
#endif
#define TOTAL_32(x) HALVES(TOTAL_64(x))
#define TOTAL_16(x) HALVES(TOTAL_32(x))

#define UNROLL _Pragma("unroll")

/*
 * The kernels of one kind of arithmetic: T, in vectors V of L elements.
 *
 * multiply: c[rows, columns] (+)= packed a times packed b.
 * dots: sum[i] += the product of row i of four and x.
 * sweep: y += x times four rows that lie step apart.
 */
#define KERNELS(name, T, V, L, MADD, TOTAL)                                                        \
  static void multiply_##name(ptrdiff_t k, const void *restrict left, const void *restrict right,  \
                              void *restrict out, ptrdiff_t stride, int rows, int columns,         \
                              bool add) {                                                          \
    const T *a = left, *b = right;                                                                 \
    T *c = out;                                                                                    \
    V sum[MR][2];                                                                                  \
    UNROLL for (int i = 0; i < MR; i++) sum[i][0] = sum[i][1] = (V)(T)0;                           \
    for (ptrdiff_t p = 0; p < k; p++, a += MR, b += 2 * (L)) {                                     \
      const V b0 = *(const V *)b, b1 = *(const V *)(b + (L));                                      \
      UNROLL for (int i = 0; i < MR; i++) {                                                        \
        const V x = (V)(a[i]);                                                                     \
        sum[i][0] = MADD(V, x, b0, sum[i][0]);                                                     \
        sum[i][1] = MADD(V, x, b1, sum[i][1]);                                                     \
      }                                                                                            \
    }                                                                                              \
    if (rows == MR && columns == 2 * (L)) {                                                        \
      UNROLL for (int i = 0; i < MR; i++, c += stride) {                                           \
        if (add) {                                                                                 \
          sum[i][0] += *(V *)c;                                                                    \
          sum[i][1] += *(V *)(c + (L));                                                            \
        }                                                                                          \
        *(V *)c = sum[i][0];                                                                       \
        *(V *)(c + (L)) = sum[i][1];                                                               \
      }                                                                                            \
      return;                                                                                      \
    }                                                                                              \
    T tile[MR][2 * (L)];                                                                           \
    memcpy(tile, sum, sizeof tile);                                                                \
    for (int i = 0; i < rows; i++, c += stride) {                                                  \
      if (add) {                                                                                   \
        for (int j = 0; j < columns; j++) c[j] = (T)(c[j] + tile[i][j]);                           \
      } else {                                                                                     \
        for (int j = 0; j < columns; j++) c[j] = tile[i][j];                                       \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  static void dots_##name(ptrdiff_t k, const void *const *rows, const void *with, void *out) {     \
    const T *x = with;                                                                             \
    T *to = out;                                                                                   \
    const T *at[FEW] = {rows[0], rows[1], rows[2], rows[3]};                                       \
    V sum[FEW][2];                                                                                 \
    UNROLL for (int i = 0; i < FEW; i++) sum[i][0] = sum[i][1] = (V)(T)0;                          \
    ptrdiff_t p = 0;                                                                               \
    for (; p + 2 * (L) <= k; p += 2 * (L)) {                                                       \
      const V x0 = *(const V *)(x + p), x1 = *(const V *)(x + p + (L));                            \
      UNROLL for (int i = 0; i < FEW; i++) {                                                       \
        sum[i][0] = MADD(V, *(const V *)(at[i] + p), x0, sum[i][0]);                               \
        sum[i][1] = MADD(V, *(const V *)(at[i] + p + (L)), x1, sum[i][1]);                         \
      }                                                                                            \
    }                                                                                              \
    UNROLL for (int i = 0; i < FEW; i++) {                                                         \
      const T lanes = (T)TOTAL(sum[i][0] + sum[i][1]);                                             \
      T rest = 0;                                                                                  \
      for (ptrdiff_t q = p; q < k; q++) rest = (T)(rest + at[i][q] * x[q]);                        \
      to[i] = (T)(to[i] + (T)(lanes + rest));                                                      \
    }                                                                                              \
  }                                                                                                \
  static void dot_##name(ptrdiff_t k, const void *left, const void *right, void *out) {            \
    const T *a = left, *b = right;                                                                 \
    T *to = out;                                                                                   \
    V sum[8];                                                                                      \
    UNROLL for (int i = 0; i < 8; i++) sum[i] = (V)(T)0;                                           \
    ptrdiff_t p = 0;                                                                               \
    for (; p + 8 * (L) <= k; p += 8 * (L)) {                                                       \
      UNROLL for (int i = 0; i < 8; i++) {                                                         \
        sum[i] = MADD(V, *(const V *)(a + p + i * (L)), *(const V *)(b + p + i * (L)), sum[i]);    \
      }                                                                                            \
    }                                                                                              \
    for (; p + (L) <= k; p += (L)) {                                                               \
      sum[0] = MADD(V, *(const V *)(a + p), *(const V *)(b + p), sum[0]);                          \
    }                                                                                              \
    const V all = ((sum[0] + sum[1]) + (sum[2] + sum[3])) +                                        \
                  ((sum[4] + sum[5]) + (sum[6] + sum[7]));                                         \
    const T lanes = (T)TOTAL(all);                                                                 \
    T rest = 0;                                                                                    \
    for (; p < k; p++) rest = (T)(rest + a[p] * b[p]);                                             \
    *to = (T)(*to + (T)(lanes + rest));                                                            \
  }                                                                                                \
  static void sweep_##name(ptrdiff_t columns, int rows, const void *from, ptrdiff_t step,          \
                           const void *with, void *out) {                                          \
    const T *a = from, *x = with;                                                                  \
    T *restrict y = out;                                                                           \
    const T *a1 = a + (rows > 1 ? step : 0), *a2 = a + (rows > 2 ? 2 * step : 0);                  \
    const T *a3 = a + (rows > 3 ? 3 * step : 0);                                                   \
    if (rows == FEW) {                                                                             \
      const V x0 = (V)(x[0]), x1 = (V)(x[1]), x2 = (V)(x[2]), x3 = (V)(x[3]);                      \
      ptrdiff_t j = 0;                                                                             \
      for (; j + (L) <= columns; j += (L)) {                                                       \
        V low = MADD(V, *(const V *)(a + j), x0, *(const V *)(y + j));                             \
        V high = *(const V *)(a1 + j) * x1;                                                        \
        low = MADD(V, *(const V *)(a2 + j), x2, low);                                              \
        high = MADD(V, *(const V *)(a3 + j), x3, high);                                            \
        *(V *)(y + j) = low + high;                                                                \
      }                                                                                            \
      for (; j < columns; j++) {                                                                   \
        y[j] = (T)((y[j] + a[j] * x[0] + a2[j] * x[2]) + (a1[j] * x[1] + a3[j] * x[3]));           \
      }                                                                                            \
      return;                                                                                      \
    }                                                                                              \
    for (int i = 0; i < rows; i++) {                                                               \
      for (ptrdiff_t j = 0; j < columns; j++) y[j] = (T)(y[j] + a[i * step + j] * x[i]);           \
    }                                                                                              \
  }

/* Vectors that may lie at any element. */
#define VECTOR(V, T, lanes) \
  typedef T V __attribute__((ext_vector_type(lanes), aligned(sizeof(T)), may_alias))

VECTOR(v_f32, float, BYTES / 4);
VECTOR(v_f64, double, BYTES / 8);
VECTOR(v_i32, uint32_t, BYTES / 4);
VECTOR(v_i16, uint16_t, BYTES / 2);
KERNELS(f32, float, v_f32, BYTES / 4, FUSED, TOTAL_32)
KERNELS(f64, double, v_f64, BYTES / 8, FUSED, TOTAL_64)
KERNELS(i32, uint32_t, v_i32, BYTES / 4, WRAPPED, TOTAL_32)
KERNELS(i16, uint16_t, v_i16, BYTES / 2, WRAPPED, TOTAL_16)
/* Vectors of 16 bytes have no product of 64 bits: one at a time is faster. */
#if defined(__AVX2__)
enum { I64_LANES = BYTES / 8 };
VECTOR(v_i64, uint64_t, BYTES / 8);
#define TOTAL_I64 TOTAL_64
#else
enum { I64_LANES = 1 };
typedef uint64_t v_i64;
#define TOTAL_I64(x) (x)
#endif
KERNELS(i64, uint64_t, v_i64, I64_LANES, WRAPPED, TOTAL_I64)

/* FEW rows of c = rows of a, at their own places, times VECTORS vectors of each row of b. */
#define DIRECT(name, T, V, L, VECTORS, MADD)                                                       \
  static void direct_##name(ptrdiff_t k, const void *const *rows, ptrdiff_t a_step,                \
                            const void *right, ptrdiff_t b_step, void *out, ptrdiff_t stride) {    \
    const T *a0 = rows[0], *a1 = rows[1], *a2 = rows[2], *a3 = rows[3], *b = right;                \
    T *c = out;                                                                                    \
    V sum[FEW][VECTORS];                                                                           \
    UNROLL for (int i = 0; i < FEW; i++) {                                                         \
      UNROLL for (int v = 0; v < VECTORS; v++) sum[i][v] = (V)(T)0;                                \
    }                                                                                              \
    for (ptrdiff_t p = 0, at = 0; p < k; p++, at += a_step, b += b_step) {                         \
      UNROLL for (int v = 0; v < VECTORS; v++) {                                                   \
        const V y = *(const V *)(b + v * (L));                                                     \
        sum[0][v] = MADD(V, (V)(a0[at]), y, sum[0][v]);                                            \
        sum[1][v] = MADD(V, (V)(a1[at]), y, sum[1][v]);                                            \
        sum[2][v] = MADD(V, (V)(a2[at]), y, sum[2][v]);                                            \
        sum[3][v] = MADD(V, (V)(a3[at]), y, sum[3][v]);                                            \
      }                                                                                            \
    }                                                                                              \
    UNROLL for (int i = 0; i < FEW; i++, c += stride) {                                            \
      UNROLL for (int v = 0; v < VECTORS; v++) *(V *)(c + v * (L)) = sum[i][v];                    \
    }                                                                                              \
  }

/* Two full vectors, one, and narrower ones for narrow matrices. */
#if defined(__AVX512F__)
#define NARROWER(name, T, MADD)                                                                    \
  VECTOR(half_##name, T, BYTES / 2 / sizeof(T));                                                   \
  VECTOR(quarter_##name, T, BYTES / 4 / sizeof(T));                                                \
  DIRECT(name##_half, T, half_##name, BYTES / 2 / sizeof(T), 1, MADD)                              \
  DIRECT(name##_quarter, T, quarter_##name, BYTES / 4 / sizeof(T), 1, MADD)
#define WIDTHS(name, L)                                                                            \
  {2 * (L), L, (L) / 2, (L) / 4}, {                                                                \
    direct_##name##_two, direct_##name##_one, direct_##name##_half, direct_##name##_quarter        \
  }
#elif defined(__AVX2__)
#define NARROWER(name, T, MADD)                                                                    \
  VECTOR(half_##name, T, BYTES / 2 / sizeof(T));                                                   \
  DIRECT(name##_half, T, half_##name, BYTES / 2 / sizeof(T), 1, MADD)
#define WIDTHS(name, L)                                                                            \
  {2 * (L), L, (L) / 2}, { direct_##name##_two, direct_##name##_one, direct_##name##_half }
#else
#define NARROWER(name, T, MADD)
#define WIDTHS(name, L) {2 * (L), L}, { direct_##name##_two, direct_##name##_one }
#endif
#define DIRECTS(name, T, V, L, MADD)                                                               \
  DIRECT(name##_two, T, V, L, 2, MADD)                                                             \
  DIRECT(name##_one, T, V, L, 1, MADD)                                                             \
  NARROWER(name, T, MADD)

DIRECTS(f32, float, v_f32, BYTES / 4, FUSED)
DIRECTS(f64, double, v_f64, BYTES / 8, FUSED)
DIRECTS(i32, uint32_t, v_i32, BYTES / 4, WRAPPED)
DIRECTS(i16, uint16_t, v_i16, BYTES / 2, WRAPPED)
DIRECTS(i64, uint64_t, v_i64, I64_LANES, WRAPPED)

/* ---- packing --------------------------------------------------------------------------------- */

/*
 * Packs a panel: to[p * width + i] = from[i * line_stride + p * stride] for every line i and p < k;
 * lines that are missing are 0.
 */
#define PACK(bits, T, V4)                                                                          \
  VECTOR(V4, T, 4);                                                                                \
  static inline __attribute__((always_inline)) void pack_##bits(                                   \
      T *restrict to, const T *restrict from, ptrdiff_t lines, ptrdiff_t k, ptrdiff_t line_stride, \
      ptrdiff_t stride, const int width) {                                                         \
    if (line_stride == 1 && lines == width) {                                                      \
      for (ptrdiff_t p = 0; p < k; p++, to += width, from += stride) {                             \
        memcpy(to, from, sizeof(T) * width);                                                       \
      }                                                                                            \
      return;                                                                                      \
    }                                                                                              \
    if (line_stride == 1) {                                                                        \
      for (ptrdiff_t p = 0; p < k; p++, to += width, from += stride) {                             \
        memset(to, 0, sizeof(T) * width);                                                          \
        memcpy(to, from, sizeof(T) * (size_t)lines);                                               \
      }                                                                                            \
      return;                                                                                      \
    }                                                                                              \
    ptrdiff_t i = 0;                                                                               \
    for (; stride == 1 && i + 4 <= lines; i += 4) {                                                \
      const T *a = from + i * line_stride, *b = a + line_stride, *c = b + line_stride;             \
      const T *d = c + line_stride;                                                                \
      T *at = to + i;                                                                              \
      ptrdiff_t p = 0;                                                                             \
      for (; p + 4 <= k; p += 4, at += 4 * width) {                                                \
        const V4 x = *(const V4 *)(a + p), y = *(const V4 *)(b + p), z = *(const V4 *)(c + p);     \
        const V4 w = *(const V4 *)(d + p);                                                         \
        const V4 xz = __builtin_shufflevector(x, z, 0, 4, 1, 5);                                   \
        const V4 yw = __builtin_shufflevector(y, w, 0, 4, 1, 5);                                   \
        const V4 xz2 = __builtin_shufflevector(x, z, 2, 6, 3, 7);                                  \
        const V4 yw2 = __builtin_shufflevector(y, w, 2, 6, 3, 7);                                  \
        *(V4 *)at = __builtin_shufflevector(xz, yw, 0, 4, 1, 5);                                   \
        *(V4 *)(at + width) = __builtin_shufflevector(xz, yw, 2, 6, 3, 7);                         \
        *(V4 *)(at + 2 * width) = __builtin_shufflevector(xz2, yw2, 0, 4, 1, 5);                   \
        *(V4 *)(at + 3 * width) = __builtin_shufflevector(xz2, yw2, 2, 6, 3, 7);                   \
      }                                                                                            \
      for (; p < k; p++, at += width) at[0] = a[p], at[1] = b[p], at[2] = c[p], at[3] = d[p];      \
    }                                                                                              \
    for (; i < lines; i++) {                                                                       \
      for (ptrdiff_t p = 0; p < k; p++) to[p * width + i] = from[i * line_stride + p * stride];    \
    }                                                                                              \
    for (; i < width; i++) {                                                                       \
      for (ptrdiff_t p = 0; p < k; p++) to[p * width + i] = 0;                                     \
    }                                                                                              \
  }

#define PACK_WIDTH(bits, T, name, width)                                                           \
  static void pack_##name(void *to, const void *from, ptrdiff_t lines, ptrdiff_t k,                \
                          ptrdiff_t line_stride, ptrdiff_t stride) {                               \
    pack_##bits(to, from, lines, k, line_stride, stride, width);                                   \
  }

PACK(16, uint16_t, four_16)
PACK(32, uint32_t, four_32)
PACK(64, uint64_t, four_64)
PACK_WIDTH(16, uint16_t, a16, MR)
PACK_WIDTH(32, uint32_t, a32, MR)
PACK_WIDTH(64, uint64_t, a64, MR)
PACK_WIDTH(16, uint16_t, b16, BYTES)
PACK_WIDTH(32, uint32_t, b32, BYTES / 2)
PACK_WIDTH(64, uint64_t, b64, BYTES / 4)
#if defined(__AVX2__)
#define pack_b_i64 pack_b64
#else
PACK_WIDTH(64, uint64_t, b_i64, 2 * I64_LANES)
#endif

typedef void direct_function(ptrdiff_t k, const void *const *rows, ptrdiff_t a_step, const void *b,
                             ptrdiff_t b_step, void *c, ptrdiff_t stride);
typedef void pack_function(void *to, const void *from, ptrdiff_t lines, ptrdiff_t k,
                           ptrdiff_t line_stride, ptrdiff_t stride);

/* One kind of arithmetic. */
typedef struct {
  ptrdiff_t size;
  int lanes;
  void (*multiply)(ptrdiff_t k, const void *a, const void *b, void *c, ptrdiff_t stride, int rows,
                   int columns, bool add);
  void (*dots)(ptrdiff_t k, const void *const *rows, const void *x, void *sums);
  void (*dot)(ptrdiff_t k, const void *a, const void *b, void *sum);
  void (*sweep)(ptrdiff_t columns, int rows, const void *a, ptrdiff_t step, const void *x, void *y);
  pack_function *pack_a, *pack_b;
  /* Columns that each of the direct kernels takes, from the widest on; 0 where there is none. */
  int widths[WIDTH_COUNT];
  direct_function *direct[WIDTH_COUNT];
} kind;

#define KIND(name, T, L, a, b)                                                                     \
  {sizeof(T), L, multiply_##name, dots_##name, dot_##name, sweep_##name, a, b, WIDTHS(name, L)}

static const kind kinds[] = {
    KIND(f32, float, BYTES / 4, pack_a32, pack_b32),
    KIND(f64, double, BYTES / 8, pack_a64, pack_b64),
    KIND(i16, uint16_t, BYTES / 2, pack_a16, pack_b16),
    KIND(i32, uint32_t, BYTES / 4, pack_a32, pack_b32),
    KIND(i64, uint64_t, I64_LANES, pack_a64, pack_b_i64),
};

static const kind *kind_of(int dtype) {
  switch (dtype) {
    case RM_FLOAT16:
    case RM_BFLOAT16:
    case RM_FLOAT32: return &kinds[0];
    case RM_FLOAT64: return &kinds[1];
    case RM_INT8:
    case RM_UINT8:
    case RM_INT16:
    case RM_UINT16: return &kinds[2];
    case RM_INT32:
    case RM_UINT32: return &kinds[3];
    case RM_INT64:
    case RM_UINT64: return &kinds[4];
    default: return NULL;
  }
}

/* ---- elements in and out of the arithmetic --------------------------------------------------- */

#define SAME(x) (x)
#define RUN_LOOP(T, S, CONVERT, to_step, from_step)                                                \
  {                                                                                                \
    T *restrict x = to;                                                                            \
    const S *restrict y = from;                                                                    \
    if (stride == 1) {                                                                             \
      RM_ANY_ORDER                                                                                 \
      for (ptrdiff_t i = 0; i < count; i++) x[i] = (T)CONVERT(y[i]);                               \
    } else {                                                                                       \
      for (ptrdiff_t i = 0; i < count; i++) x[i * (to_step)] = (T)CONVERT(y[i * (from_step)]);     \
    }                                                                                              \
    return;                                                                                        \
  }

/* to[i] = from[i * stride], converted from dtype to that of its arithmetic. */
static void load_run(int dtype, void *to, const void *from, ptrdiff_t count, ptrdiff_t stride) {
  switch (dtype) {
    case RM_INT8:
    case RM_UINT8: RUN_LOOP(uint16_t, uint8_t, SAME, 1, stride)
    case RM_FLOAT16: RUN_LOOP(float, uint16_t, rm_from_half, 1, stride)
    case RM_BFLOAT16: RUN_LOOP(float, uint16_t, rm_from_brain, 1, stride)
    case RM_INT16:
    case RM_UINT16: RUN_LOOP(uint16_t, uint16_t, SAME, 1, stride)
    case RM_INT32:
    case RM_UINT32:
    case RM_FLOAT32: RUN_LOOP(uint32_t, uint32_t, SAME, 1, stride)
    default: RUN_LOOP(uint64_t, uint64_t, SAME, 1, stride)
  }
}

/* to[i * stride] = from[i], converted back. */
static void store_run(int dtype, void *to, const void *from, ptrdiff_t count, ptrdiff_t stride) {
  switch (dtype) {
    case RM_INT8:
    case RM_UINT8: RUN_LOOP(uint8_t, uint16_t, SAME, stride, 1)
    case RM_FLOAT16: RUN_LOOP(uint16_t, float, rm_to_half, stride, 1)
    case RM_BFLOAT16: RUN_LOOP(uint16_t, float, rm_to_brain, stride, 1)
    case RM_INT16:
    case RM_UINT16: RUN_LOOP(uint16_t, uint16_t, SAME, stride, 1)
    case RM_INT32:
    case RM_UINT32:
    case RM_FLOAT32: RUN_LOOP(uint32_t, uint32_t, SAME, stride, 1)
    default: RUN_LOOP(uint64_t, uint64_t, SAME, stride, 1)
  }
}

/* ---- the call -------------------------------------------------------------------------------- */

typedef struct {
  ptrdiff_t row, column;
} strides;

/* A call, and the part of it that is under way. Sizes and strides are in elements. */
typedef struct {
  int dtype;
  const kind *kind;
  /* Bytes of an element in memory; raw when that is also what the arithmetic takes. */
  ptrdiff_t bytes;
  bool raw;
  ptrdiff_t m, n, k, batch;
  strides of_c, of_a, of_b;
  char *c;
  const char *a, *b;
  const double *c_at, *a_at, *b_at;

  /* Matrices that a task of a batch takes. */
  ptrdiff_t per_task;

  /* Packed: where this block begins and its size, the matrices it spans, and working memory. */
  ptrdiff_t i0, j0, p0, rows, columns, depth, first, count;
  ptrdiff_t a_panels, b_panels, a_tasks, b_tasks, row_tasks, column_tasks;
  char *packed_a, *packed_b, *sums;
  ptrdiff_t a_size, b_size, sums_size, sums_stride;
  bool last;

  /* With a vector: the rows of the matrix, how they are cut, and the sums of the parts. */
  const char *matrix, *vector;
  const double *matrix_at, *vector_at;
  ptrdiff_t lines, line_stride, stride, vector_stride, out_stride;
  ptrdiff_t run, part, runs, parts;
  bool sweeps;
} job;

static const char *place(const char *base, ptrdiff_t offset, ptrdiff_t bytes) {
  return base + offset * bytes;
}

static ptrdiff_t parts_of(ptrdiff_t size, ptrdiff_t part) { return (size + part - 1) / part; }

static void run_tasks(ptrdiff_t tasks, void (*task)(void *context, ptrdiff_t index), job *j,
                      double products) {
  rm_parallel(tasks, products / PRODUCTS_EACH_NANOSECOND, task, j);
}

/* Packs a panel of elements of any dtype. */
static void pack_panel(const job *j, pack_function *pack, char *to, const char *from,
                       ptrdiff_t lines, ptrdiff_t width, ptrdiff_t k, ptrdiff_t line_stride,
                       ptrdiff_t stride) {
  if (j->raw) {
    pack(to, from, lines, k, line_stride, stride);
    return;
  }
  enum { STEP = 64 };
  /* The widest panel is one of 16 bits: BYTES lines. */
  char tile[STEP * BYTES * 2] __attribute__((aligned(64)));
  const ptrdiff_t size = j->kind->size;
  for (ptrdiff_t p = 0; p < k; p += STEP) {
    const ptrdiff_t step = rm_least(STEP, k - p);
    const char *at = place(from, p * stride, j->bytes);
    char *panel = to + p * width * size;
    if (line_stride == 1) {
      for (ptrdiff_t q = 0; q < step; q++) {
        load_run(j->dtype, tile + q * lines * size, place(at, q * stride, j->bytes), lines, 1);
      }
      pack(panel, tile, lines, step, 1, lines);
    } else {
      for (ptrdiff_t i = 0; i < lines; i++) {
        load_run(j->dtype, tile + i * step * size, place(at, i * line_stride, j->bytes), step,
                 stride);
      }
      pack(panel, tile, lines, step, step, 1);
    }
  }
}

/* ---- small products: a where it lies, b too where its rows are dense ------------------------- */

/* Products whose matrices stay in the first-level cache. */
static bool is_small(const job *j) {
  return j->m * j->k <= SMALL && j->n * j->k <= 2 * SMALL && j->k * 2 * BYTES <= 4 * SMALL;
}

/* The kernel for the columns from some place on: the narrowest that takes all that remain, if n
 * has as many columns as that. */
static int width_for(const int *widths, ptrdiff_t remaining, ptrdiff_t n) {
  int w = 0;
  while (w + 1 < WIDTH_COUNT && widths[w + 1] > 0 &&
         (widths[w + 1] >= remaining || widths[w] > n)) {
    w++;
  }
  return w;
}

static void multiply_small(const job *j, ptrdiff_t item) {
  /* Converted elements have at most 4 bytes. */
  char left[4 * SMALL] __attribute__((aligned(64)));
  char panel[4 * SMALL] __attribute__((aligned(64)));
  char tile[FEW * 2 * BYTES] __attribute__((aligned(64)));
  const kind *of = j->kind;
  const ptrdiff_t size = of->size, m = j->m, n = j->n, k = j->k;
  const char *a = place(j->a, (ptrdiff_t)j->a_at[item], j->bytes);
  const char *b = place(j->b, (ptrdiff_t)j->b_at[item], j->bytes);
  char *c = j->c + (ptrdiff_t)j->c_at[item] * j->bytes;
  strides of_a = j->of_a;
  if (!j->raw) {
    for (ptrdiff_t i = 0; i < m; i++) {
      load_run(j->dtype, left + i * k * size, place(a, i * of_a.row, j->bytes), k, of_a.column);
    }
    a = left;
    of_a = (strides){k, 1};
  }
  const bool straight_b = j->raw && j->of_b.column == 1, straight_c = j->raw && j->of_c.column == 1;
  for (ptrdiff_t q = 0; q < n;) {
    const int w = width_for(of->widths, n - q, n);
    const ptrdiff_t width = of->widths[w], columns = rm_least(width, n);
    /* The last columns and rows begin early enough to be whole; some are computed twice. */
    if (q > n - columns) q = n - columns;
    const char *right = place(b, q * j->of_b.column, j->bytes);
    ptrdiff_t b_step = j->of_b.row;
    if (!straight_b || columns < width) {
      b_step = 2 * of->lanes;
      pack_panel(j, of->pack_b, panel, right, columns, b_step, k, j->of_b.column, j->of_b.row);
      right = panel;
    }
    for (ptrdiff_t next = 0; next < m; next += FEW) {
      const ptrdiff_t rows = rm_least(FEW, m), i = rm_least(next, m - rows);
      const void *at[FEW];
      for (ptrdiff_t r = 0; r < FEW; r++) {
        at[r] = place(a, (i + rm_least(r, rows - 1)) * of_a.row, size);
      }
      char *out = c + (i * j->of_c.row + q * j->of_c.column) * j->bytes;
      if (straight_c && rows == FEW && columns == width) {
        of->direct[w](k, at, of_a.column, right, b_step, out, j->of_c.row);
        continue;
      }
      of->direct[w](k, at, of_a.column, right, b_step, tile, width);
      for (ptrdiff_t r = 0; r < rows; r++) {
        store_run(j->dtype, out + r * j->of_c.row * j->bytes, tile + r * width * size, columns,
                  j->of_c.column);
      }
    }
    q += columns;
  }
}

static void small_task(void *context, ptrdiff_t index) {
  const job *j = context;
  const ptrdiff_t end = rm_least(j->batch, (index + 1) * j->per_task);
  for (ptrdiff_t i = index * j->per_task; i < end; i++) multiply_small(j, i);
}

/* ---- packed products ------------------------------------------------------------------------- */

/* Working memory that the last call left: data is aligned for the widest vectors. */
typedef struct {
  size_t size;
  char *data;
} workspace;
static _Atomic(workspace *) kept;

static workspace *take_workspace(size_t size) {
  workspace *found = atomic_exchange(&kept, NULL);
  if (found != NULL && found->size >= size) return found;
  free(found);
  found = malloc(sizeof *found + ALIGNMENT + size);
  if (found == NULL) return NULL;
  found->size = size;
  found->data = (char *)(((uintptr_t)(found + 1) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  return found;
}

static void leave_workspace(workspace *used) {
  if (used->size > KEPT_BYTES) free(used);
  else free(atomic_exchange(&kept, used));
}

static void pack_task(void *context, ptrdiff_t index) {
  const job *j = context;
  const ptrdiff_t size = j->kind->size, tasks = j->a_tasks + j->b_tasks;
  const ptrdiff_t item = index / tasks;
  ptrdiff_t task = index % tasks;
  const bool left = task < j->a_tasks;
  if (!left) task -= j->a_tasks;
  const ptrdiff_t width = left ? MR : 2 * j->kind->lanes, lines = left ? j->rows : j->columns;
  const strides of = left ? j->of_a : (strides){j->of_b.column, j->of_b.row};
  const double *at = left ? j->a_at : j->b_at;
  const ptrdiff_t start = (ptrdiff_t)at[j->first + item] + (left ? j->i0 : j->j0) * of.row +
                          j->p0 * of.column;
  /* A matrix that is the same for the whole batch is packed once. */
  if ((left ? j->a_size : j->b_size) == 0 && item > 0) return;
  const char *from = place(left ? j->a : j->b, start, j->bytes);
  char *to = left ? j->packed_a + item * j->a_size : j->packed_b + item * j->b_size;
  const ptrdiff_t end = rm_least(left ? j->a_panels : j->b_panels, (task + 1) * TASK_PANELS);
  for (ptrdiff_t panel = task * TASK_PANELS; panel < end; panel++) {
    pack_panel(j, left ? j->kind->pack_a : j->kind->pack_b, to + panel * width * j->depth * size,
               place(from, panel * width * of.row, j->bytes), rm_least(width, lines - panel * width),
               width, j->depth, of.row, of.column);
  }
}

static void multiply_task(void *context, ptrdiff_t index) {
  const job *j = context;
  const ptrdiff_t size = j->kind->size, width = 2 * j->kind->lanes;
  const ptrdiff_t tasks = j->row_tasks * j->column_tasks, item = index / tasks;
  const ptrdiff_t top = index % tasks / j->column_tasks * TASK_ROWS;
  const ptrdiff_t left = index % tasks % j->column_tasks * TASK_COLUMNS;
  const ptrdiff_t bottom = rm_least(top + TASK_ROWS, j->rows);
  const ptrdiff_t right = rm_least(left + TASK_COLUMNS, j->columns);
  const char *a = j->packed_a + item * j->a_size, *b = j->packed_b + item * j->b_size;
  char *c = j->c + ((ptrdiff_t)j->c_at[j->first + item] + j->i0 * j->of_c.row +
                    j->j0 * j->of_c.column) * j->bytes;
  const bool straight = j->sums == NULL;
  char *to = straight ? c : j->sums + item * j->sums_size;
  const ptrdiff_t stride = straight ? j->of_c.row : j->sums_stride;
  for (ptrdiff_t q = left; q < right; q += width) {
    for (ptrdiff_t i = top; i < bottom; i += MR) {
      j->kind->multiply(j->depth, a + i * j->depth * size, b + q * j->depth * size,
                        to + (i * stride + q) * size, stride, (int)rm_least(MR, bottom - i),
                        (int)rm_least(width, right - q), j->p0 > 0);
    }
  }
  if (straight || !j->last) return;
  for (ptrdiff_t i = top; i < bottom; i++) {
    store_run(j->dtype, c + (i * j->of_c.row + left * j->of_c.column) * j->bytes,
              to + (i * stride + left) * size, right - left, j->of_c.column);
  }
}

/* True when all matrices of a batch are one. */
static bool is_shared(const double *at, ptrdiff_t batch) {
  for (ptrdiff_t i = 1; i < batch; i++) {
    if (at[i] != at[0]) return false;
  }
  return true;
}

static int32_t multiply_packed(job *j) {
  const ptrdiff_t size = j->kind->size, width = 2 * j->kind->lanes;
  const ptrdiff_t rows = rm_least(j->m, BLOCK), columns = rm_least(j->n, BLOCK);
  const ptrdiff_t depth = rm_least(j->k, DEPTH);
  const bool shared_a = is_shared(j->a_at, j->batch), shared_b = is_shared(j->b_at, j->batch);
  /* The kernels write floats and wide integers to dense rows; others by way of a block of sums. */
  const bool straight = j->raw && j->of_c.column == 1;
  j->a_size = parts_of(rows, MR) * MR * depth * size;
  j->b_size = parts_of(columns, width) * width * depth * size;
  j->sums_stride = columns;
  j->sums_size = straight ? 0 : rows * columns * size;
  /* As many matrices at a time as one block holds elements. */
  const ptrdiff_t each = j->a_size + j->b_size + j->sums_size;
  const ptrdiff_t count = rm_least(j->batch, 1 + (ptrdiff_t)BLOCK * DEPTH * size / each);
  const ptrdiff_t a_total = j->a_size * (shared_a ? 1 : count);
  const ptrdiff_t b_total = j->b_size * (shared_b ? 1 : count);
  const ptrdiff_t total = a_total + b_total + j->sums_size * count + 2 * ALIGNMENT;
  workspace *work = take_workspace((size_t)total);
  if (work == NULL) return rm_fail(RM_BAD_ARGUMENT, "no memory for a matrix product");
  j->packed_a = work->data;
  j->packed_b = j->packed_a + parts_of(a_total, ALIGNMENT) * ALIGNMENT;
  j->sums = straight ? NULL : j->packed_b + parts_of(b_total, ALIGNMENT) * ALIGNMENT;
  if (shared_a) j->a_size = 0;
  if (shared_b) j->b_size = 0;
  for (j->first = 0; j->first < j->batch; j->first += count) {
    j->count = rm_least(count, j->batch - j->first);
    for (j->j0 = 0; j->j0 < j->n; j->j0 += BLOCK) {
      j->columns = rm_least(BLOCK, j->n - j->j0);
      for (j->i0 = 0; j->i0 < j->m; j->i0 += BLOCK) {
        j->rows = rm_least(BLOCK, j->m - j->i0);
        for (j->p0 = 0; j->p0 < j->k; j->p0 += DEPTH) {
          j->depth = rm_least(DEPTH, j->k - j->p0);
          j->last = j->p0 + j->depth == j->k;
          j->a_panels = parts_of(j->rows, MR);
          j->b_panels = parts_of(j->columns, width);
          j->a_tasks = parts_of(j->a_panels, TASK_PANELS);
          j->b_tasks = parts_of(j->b_panels, TASK_PANELS);
          j->row_tasks = parts_of(j->rows, TASK_ROWS);
          j->column_tasks = parts_of(j->columns, TASK_COLUMNS);
          const double products = (double)j->rows * j->columns * j->depth * j->count;
          const double moved = (double)(j->rows + j->columns) * j->depth * j->count;
          /* An element takes as long to pack as 16 products. */
          run_tasks(j->count * (j->a_tasks + j->b_tasks), pack_task, j, 16 * moved);
          run_tasks(j->count * j->row_tasks * j->column_tasks, multiply_task, j, products);
        }
      }
    }
  }
  leave_workspace(work);
  return RM_OK;
}

/* ---- products with a vector: the matrix is read once, where it lies -------------------------- */

/* sums += a part of the rows [from, to) times the vector, the rows being dense or gathered. */
static void dot_rows(const job *j, const char *matrix, const char *vector, ptrdiff_t rows,
                     ptrdiff_t depth, char *sums) {
  const kind *of = j->kind;
  const ptrdiff_t size = of->size;
  const bool dense_rows = j->raw && (j->stride == 1 || depth == 1);
  const bool dense_vector = j->raw && (j->vector_stride == 1 || depth == 1);
  char x[CHUNK * 8] __attribute__((aligned(64))), gathered[FEW * CHUNK * 8]
      __attribute__((aligned(64)));
  const ptrdiff_t chunk = dense_rows && dense_vector ? depth : CHUNK;
  for (ptrdiff_t p = 0; p < depth; p += chunk) {
    const ptrdiff_t step = rm_least(chunk, depth - p);
    const char *with = place(vector, p * j->vector_stride, j->bytes);
    if (!dense_vector) {
      load_run(j->dtype, x, with, step, j->vector_stride);
      with = x;
    }
    for (ptrdiff_t i = 0; i < rows; i += FEW) {
      const ptrdiff_t few = rm_least(FEW, rows - i);
      const void *at[FEW];
      for (ptrdiff_t r = 0; r < few; r++) {
        const char *from = place(matrix, (i + r) * j->line_stride + p * j->stride, j->bytes);
        if (!dense_rows) {
          load_run(j->dtype, gathered + r * CHUNK * size, from, step, j->stride);
          from = gathered + r * CHUNK * size;
        }
        at[r] = from;
      }
      if (few == FEW) {
        of->dots(step, at, with, sums + i * size);
      } else {
        for (ptrdiff_t r = 0; r < few; r++) of->dot(step, at[r], with, sums + (i + r) * size);
      }
    }
  }
}

/* The same where the lines of the matrix lie side by side. */
static void sweep_rows(const job *j, const char *matrix, const char *vector, ptrdiff_t rows,
                       ptrdiff_t depth, char *sums) {
  const kind *of = j->kind;
  const ptrdiff_t size = of->size;
  char x[SWEEP_DEPTH * 2 * 8] __attribute__((aligned(64)));
  char converted[FEW * RUN * 4] __attribute__((aligned(64)));
  load_run(j->dtype, x, vector, depth, j->vector_stride);
  for (ptrdiff_t p = 0; p < depth; p += FEW) {
    const ptrdiff_t few = rm_least(FEW, depth - p);
    const char *from = place(matrix, p * j->stride, j->bytes);
    ptrdiff_t step = j->stride;
    if (!j->raw) {
      for (ptrdiff_t r = 0; r < few; r++) {
        load_run(j->dtype, converted + r * RUN * size, place(from, r * j->stride, j->bytes), rows,
                 1);
      }
      from = converted;
      step = RUN;
    }
    of->sweep(rows, (int)few, from, step, x + p * size, sums);
  }
}

static void vector_task(void *context, ptrdiff_t index) {
  const job *j = context;
  const ptrdiff_t size = j->kind->size, part = index % j->parts;
  const ptrdiff_t first = index / j->parts % j->runs * j->run, item = index / j->parts / j->runs;
  const ptrdiff_t rows = rm_least(j->run, j->lines - first), start = part * j->part;
  const ptrdiff_t depth = part == j->parts - 1 ? j->k - start : j->part;
  const char *matrix = place(j->matrix,
                             (ptrdiff_t)j->matrix_at[item] + first * j->line_stride +
                                 start * j->stride, j->bytes);
  const char *vector = place(j->vector, (ptrdiff_t)j->vector_at[item] + start * j->vector_stride,
                             j->bytes);
  char own[RUN * 8] __attribute__((aligned(64)));
  char *sums = j->parts == 1 ? own : j->sums + ((item * j->parts + part) * j->lines + first) * size;
  memset(sums, 0, (size_t)(rows * size));
  if (j->sweeps) sweep_rows(j, matrix, vector, rows, depth, sums);
  else dot_rows(j, matrix, vector, rows, depth, sums);
  if (j->parts > 1) return;
  store_run(j->dtype, j->c + ((ptrdiff_t)j->c_at[item] + first * j->out_stride) * j->bytes, sums,
            rows, j->out_stride);
}

/* Adds the parts of a sum, which lie lines apart, to the first one. */
static void add_parts(const job *j, char *sums) {
  static const uint64_t one[2] = {1};
  static const float one_f32 = 1;
  static const double one_f64 = 1;
  const void *x = j->kind == &kinds[0]   ? (const void *)&one_f32
                  : j->kind == &kinds[1] ? (const void *)&one_f64
                                         : (const void *)one;
  for (ptrdiff_t part = 1; part < j->parts; part++) {
    j->kind->sweep(j->lines, 1, sums + part * j->lines * j->kind->size, 0, x, sums);
  }
}

static int32_t multiply_vector(job *j) {
  if (j->n == 1) {
    j->matrix = j->a, j->matrix_at = j->a_at, j->vector = j->b, j->vector_at = j->b_at;
    j->lines = j->m, j->line_stride = j->of_a.row, j->stride = j->of_a.column;
    j->vector_stride = j->of_b.row, j->out_stride = j->of_c.row;
  } else {
    j->matrix = j->b, j->matrix_at = j->b_at, j->vector = j->a, j->vector_at = j->a_at;
    j->lines = j->n, j->line_stride = j->of_b.column, j->stride = j->of_b.row;
    j->vector_stride = j->of_a.column, j->out_stride = j->of_c.column;
  }
  j->sweeps = j->lines > 1 && j->line_stride == 1 && j->stride != 1;
  j->part = j->sweeps ? SWEEP_DEPTH : DOT_DEPTH;
  /* The last part takes the rest, so that a sum a little longer than a part is not cut. */
  j->parts = j->k < 2 * j->part ? 1 : j->k / j->part;
  const ptrdiff_t depth = rm_least(j->k, j->part);
  j->run = j->sweeps ? RUN : rm_least(RUN, FEW * (1 + DOT_ELEMENTS / FEW / (depth < 1 ? 1 : depth)));
  j->runs = parts_of(j->lines, j->run);
  workspace *work = NULL;
  if (j->parts > 1) {
    work = take_workspace((size_t)(j->batch * j->parts * j->lines * j->kind->size));
    if (work == NULL) return rm_fail(RM_BAD_ARGUMENT, "no memory for a matrix product");
    j->sums = work->data;
  }
  /* Reading an element of the matrix takes as long as 8 products of packed ones. */
  run_tasks(j->batch * j->runs * j->parts, vector_task, j,
            8.0 * (double)j->batch * (double)j->lines * (double)j->k);
  if (work == NULL) return RM_OK;
  for (ptrdiff_t item = 0; item < j->batch; item++) {
    char *sums = j->sums + item * j->parts * j->lines * j->kind->size;
    add_parts(j, sums);
    store_run(j->dtype, j->c + (ptrdiff_t)j->c_at[item] * j->bytes, sums, j->lines, j->out_stride);
  }
  leave_workspace(work);
  return RM_OK;
}

int32_t RM_AT(matmul)(int32_t dtype, const double *plan, void *c, const void *a, const void *b) {
  const kind *of = kind_of(dtype);
  if (of == NULL) return RM_UNSUPPORTED;
  if (a == NULL || b == NULL || c == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "an operand has no memory");
  }
  const ptrdiff_t batch = (ptrdiff_t)plan[3];
  job j = {
      .dtype = dtype,
      .kind = of,
      .bytes = rm_bytes(dtype),
      .raw = rm_bytes(dtype) == of->size,
      .m = (ptrdiff_t)plan[0],
      .n = (ptrdiff_t)plan[1],
      .k = (ptrdiff_t)plan[2],
      .batch = batch,
      .of_c = {(ptrdiff_t)plan[4], (ptrdiff_t)plan[5]},
      .of_a = {(ptrdiff_t)plan[6], (ptrdiff_t)plan[7]},
      .of_b = {(ptrdiff_t)plan[8], (ptrdiff_t)plan[9]},
      .c = c,
      .a = a,
      .b = b,
      .c_at = plan + 10,
      .a_at = plan + 10 + batch,
      .b_at = plan + 10 + 2 * batch,
  };
  if (j.m < 1 || j.n < 1 || j.batch < 1) return RM_OK;
  if (j.m == 1 || j.n == 1) return multiply_vector(&j);
  if (j.of_c.column != 1 && j.of_c.row == 1) {
    /* The transpose has dense rows: c' = b' a'. */
    const job t = j;
    j.m = t.n, j.n = t.m;
    j.of_c = (strides){t.of_c.column, t.of_c.row};
    j.of_a = (strides){t.of_b.column, t.of_b.row};
    j.of_b = (strides){t.of_a.column, t.of_a.row};
    j.a = t.b, j.b = t.a, j.a_at = t.b_at, j.b_at = t.a_at;
  }
  if (j.k < 1 || is_small(&j)) {
    const double products = (double)j.m * j.n * j.k + 64;
    j.per_task = 1 + (ptrdiff_t)(65536 / products);
    run_tasks(parts_of(j.batch, j.per_task), small_task, &j, products * (double)j.batch);
    return RM_OK;
  }
  return multiply_packed(&j);
}
