/*
 * What products of matrices are made of: kernels of every dtype, how operands are packed for them,
 * and how elements come in and go out.
 *
 * Included by gemm.c. Knows nothing of plans, threads or batches.
 */
#include <string.h>
#include "half.h"
#include "internal.h"

/* ---- shapes of the kernels ------------------------------------------------------------------- */

/*
 * A kernel holds MR rows of 2 vectors of BYTES bytes in registers, and has a pointer for each SPAN
 * rows of a. It goes DEPTH_BYTES along them at a time: MR rows fit the first-level cache then, and
 * the columns of a block the second-level one.
 */
#if defined(__AVX512F__)
enum { BYTES = 64, MR = 12, SPAN = 3, DEPTH_BYTES = 2048 };
#elif defined(__AVX2__)
enum { BYTES = 32, MR = 6, SPAN = 3, DEPTH_BYTES = 1024 };
#elif defined(__aarch64__)
enum { BYTES = 16, MR = 8, SPAN = 2, DEPTH_BYTES = 1024 };
#else
enum { BYTES = 16, MR = 4, SPAN = 2, DEPTH_BYTES = 1024 };
#endif

enum {
  /* Rows that the kernels for the rest of a block take. */
  FEW = 4,
  WIDTH_COUNT = 4,
  /* A block has at most so many columns, in at most so many panels, and about so many rows. */
  BLOCK_COLUMNS = 256,
  BLOCK_PANELS = 32,
  BLOCK_ROWS = 256,
  /* Blocks that a product is cut into, if they are not too small. */
  MANY_BLOCKS = 8,
  /* Bytes that stay in the first-level cache, as far as the gaps between their rows allow. */
  NEAR_BYTES = 32 << 10,
  /* Bytes after which lines share places in the first-level cache, and how many there are for those
   * at least: more rows of a are copied, with gaps between them. */
  SET_BYTES = 4 << 10,
  WAYS = 8,
  GAP_BYTES = 64,
  /* Depth to which rows of a are copied before the next rows are. */
  STRIP = 16,
  /* Rows and columns of small matrices, which are not packed: as measured, up to there one vector
   * for each of four rows is no slower than more of them. */
  SMALL_SIDE = BYTES == 64 ? 32 : BYTES == 32 ? 15 : 8,
  /* Products that are added up one by one. */
  SMALL_SUM = 8,
  /* Working memory that a task has on its stack. */
  STACK_BYTES = 16 << 10,
  /* Larger working memory is let go after the call. */
  KEPT_BYTES = 32 << 20,
  ALIGNMENT = 64,
  /* Elements that a vector's product takes from its matrix for one task: rows (or columns) and how
   * far it goes along the sum. */
  RUN = 1024,
  DOT_DEPTH = 65536,
  DOT_ELEMENTS = 16384,
  SWEEP_DEPTH = 256,
  CHUNK = 512
};

/* About how many products of vectors a core makes in a nanosecond. */
static const double VECTORS_EACH_NANOSECOND = 4;
/* Products of vectors: those that a block has at least and at most, as long as that leaves it some
 * rows and columns. Products of elements that one task makes of small matrices, or of tall ones. */
static const double WORTH_A_BLOCK = 1 << 14, LARGE_BLOCK = 1 << 24, SMALL_WORK = 1 << 16;

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
#define ROLLED _Pragma("nounroll")

/*
 * The kernels of one kind of arithmetic: T, in vectors V of L elements.
 *
 * dot: out += the product of left and right.
 * sweep: y += x times four rows that lie step apart.
 */
#define KERNELS(name, T, V, L, MADD, TOTAL)                                                        \
  static void dot_##name(ptrdiff_t k, const void *left, const void *right, void *out) {            \
    const T *a = left, *b = right;                                                                 \
    T *to = out;                                                                                   \
    V sum[8];                                                                                      \
    UNROLL for (int i = 0; i < 8; i++) sum[i] = (V)(T)0;                                           \
    ptrdiff_t p = 0;                                                                               \
    ROLLED for (; p + 8 * (L) <= k; p += 8 * (L)) {                                                \
      UNROLL for (int i = 0; i < 8; i++) {                                                         \
        sum[i] = MADD(V, *(const V *)(a + p + i * (L)), *(const V *)(b + p + i * (L)), sum[i]);    \
      }                                                                                            \
    }                                                                                              \
    ROLLED for (; p + (L) <= k; p += (L)) {                                                        \
      sum[0] = MADD(V, *(const V *)(a + p), *(const V *)(b + p), sum[0]);                          \
    }                                                                                              \
    const V all = ((sum[0] + sum[1]) + (sum[2] + sum[3])) +                                        \
                  ((sum[4] + sum[5]) + (sum[6] + sum[7]));                                         \
    const T lanes = (T)TOTAL(all);                                                                 \
    T rest = 0;                                                                                    \
    RM_SCALAR for (; p < k; p++) rest = (T)(rest + a[p] * b[p]);                                   \
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

/*
 * quad: to[i] += the product of row i of four and x.
 * lines: the same for any number of rows.
 *
 * What is left of a row after whole vectors is taken by narrower ones: short rows are many.
 */
VECTOR(two_f32, float, 2);
VECTOR(four_f32, float, 4);
VECTOR(two_f64, double, 2);
#if defined(__AVX2__)
VECTOR(eight_f32, float, 8);
VECTOR(four_f64, double, 4);
#endif

/* Adds up products of whole vectors of four rows, which come out folded to FOLD of them. */
#define WHOLE(T, V, L, MADD, FOLD, to)                                                             \
  if (k < (L)) {                                                                                   \
    memset(to, 0, sizeof to);                                                                      \
  } else {                                                                                         \
    V sum[FEW][2];                                                                                 \
    UNROLL for (int i = 0; i < FEW; i++) sum[i][0] = sum[i][1] = (V)(T)0;                          \
    ROLLED for (; p + 2 * (L) <= k; p += 2 * (L)) {                                                \
      const V x0 = *(const V *)(x + p), x1 = *(const V *)(x + p + (L));                            \
      UNROLL for (int i = 0; i < FEW; i++) {                                                       \
        sum[i][0] = MADD(V, *(const V *)(a + i * row + p), x0, sum[i][0]);                         \
        sum[i][1] = MADD(V, *(const V *)(a + i * row + p + (L)), x1, sum[i][1]);                   \
      }                                                                                            \
    }                                                                                              \
    if (p + (L) <= k) {                                                                            \
      const V x0 = *(const V *)(x + p);                                                            \
      UNROLL for (int i = 0; i < FEW; i++) {                                                       \
        sum[i][0] = MADD(V, *(const V *)(a + i * row + p), x0, sum[i][0]);                         \
      }                                                                                            \
      p += (L);                                                                                    \
    }                                                                                              \
    UNROLL for (int i = 0; i < FEW; i++) to[i] = FOLD(sum[i][0] + sum[i][1]);                      \
  }
/* The same for one vector of a narrower kind. */
#define NARROW(V, L, to)                                                                           \
  if (p + (L) <= k) {                                                                              \
    const V x0 = *(const V *)(x + p);                                                              \
    UNROLL for (int i = 0; i < FEW; i++) {                                                         \
      to[i] = FUSED(V, *(const V *)(a + i * row + p), x0, to[i]);                                  \
    }                                                                                              \
    p += (L);                                                                                      \
  }
#define UNFOLDED(x) (x)
static inline __attribute__((always_inline)) void quad_f32(ptrdiff_t k, const float *a,
                                                           ptrdiff_t row, const float *x,
                                                           float *to) {
  ptrdiff_t p = 0;
  four_f32 s[FEW];
#if defined(__AVX512F__)
  eight_f32 e[FEW];
  WHOLE(float, v_f32, 16, FUSED, HALVES, e)
  NARROW(eight_f32, 8, e)
  UNROLL for (int i = 0; i < FEW; i++) s[i] = HALVES(e[i]);
  NARROW(four_f32, 4, s)
#elif defined(__AVX2__)
  WHOLE(float, v_f32, 8, FUSED, HALVES, s)
  NARROW(four_f32, 4, s)
#else
  WHOLE(float, v_f32, 4, FUSED, UNFOLDED, s)
#endif
  const four_f32 low = __builtin_shufflevector(s[0], s[1], 0, 4, 1, 5) +
                       __builtin_shufflevector(s[0], s[1], 2, 6, 3, 7);
  const four_f32 high = __builtin_shufflevector(s[2], s[3], 0, 4, 1, 5) +
                        __builtin_shufflevector(s[2], s[3], 2, 6, 3, 7);
  four_f32 sum = __builtin_shufflevector(low, high, 0, 1, 4, 5) +
                 __builtin_shufflevector(low, high, 2, 3, 6, 7);
  RM_SCALAR for (; p < k; p++) {
    const four_f32 column = {a[p], a[row + p], a[2 * row + p], a[3 * row + p]};
    sum = FUSED(four_f32, column, (four_f32)(x[p]), sum);
  }
  *(four_f32 *)to += sum;
}

static inline __attribute__((always_inline)) void quad_f64(ptrdiff_t k, const double *a,
                                                           ptrdiff_t row, const double *x,
                                                           double *to) {
  ptrdiff_t p = 0;
  two_f64 s[FEW];
#if defined(__AVX512F__)
  four_f64 e[FEW];
  WHOLE(double, v_f64, 8, FUSED, HALVES, e)
  NARROW(four_f64, 4, e)
  UNROLL for (int i = 0; i < FEW; i++) s[i] = HALVES(e[i]);
  NARROW(two_f64, 2, s)
#elif defined(__AVX2__)
  WHOLE(double, v_f64, 4, FUSED, HALVES, s)
  NARROW(two_f64, 2, s)
#else
  WHOLE(double, v_f64, 2, FUSED, UNFOLDED, s)
#endif
  UNROLL for (int i = 0; i < FEW; i += 2) {
    const two_f64 x0 = __builtin_shufflevector(s[i], s[i + 1], 0, 2);
    two_f64 sum = x0 + __builtin_shufflevector(s[i], s[i + 1], 1, 3);
    const double *left = a + i * row + p;
    if (p < k) sum = FUSED(two_f64, ((two_f64){left[0], left[row]}), (two_f64)(x[p]), sum);
    *(two_f64 *)(to + i) += sum;
  }
}

#define QUAD(name, T, V, L, TOTAL)                                                                 \
  static inline __attribute__((always_inline)) void quad_##name(ptrdiff_t k, const T *a,           \
                                                                ptrdiff_t row, const T *x,         \
                                                                T *to) {                           \
    ptrdiff_t p = 0;                                                                               \
    V s[FEW];                                                                                      \
    WHOLE(T, V, L, WRAPPED, UNFOLDED, s)                                                           \
    UNROLL for (int i = 0; i < FEW; i++) {                                                         \
      T sum = (T)TOTAL(s[i]);                                                                      \
      RM_SCALAR for (ptrdiff_t q = p; q < k; q++) sum = (T)(sum + a[i * row + q] * x[q]);          \
      to[i] = (T)(to[i] + sum);                                                                    \
    }                                                                                              \
  }
QUAD(i32, uint32_t, v_i32, BYTES / 4, TOTAL_32)
QUAD(i16, uint16_t, v_i16, BYTES / 2, TOTAL_16)
QUAD(i64, uint64_t, v_i64, I64_LANES, TOTAL_I64)

/* The same for rows of K elements that lie one after another: where compilers know K, they have
 * vectors for them. */
#define SHORT(T, K)                                                                                \
  if (k == (K) && row == (K)) {                                                                    \
    T *restrict sum = sums;                                                                        \
    const T *restrict b = x;                                                                       \
    RM_ROLLED for (ptrdiff_t i = 0; i < rows; i++) {                                               \
      UNROLL for (int p = 0; p < (K); p++) sum[i] = FUSED(T, a[i * (K) + p], b[p], sum[i]);        \
    }                                                                                              \
    return;                                                                                        \
  }
#define NO_SHORTS(T)
#if defined(__AVX2__) || defined(__aarch64__)
#define SHORTS(T) SHORT(T, 2) SHORT(T, 3) SHORT(T, 4)
#else
#define SHORTS NO_SHORTS
#endif

#define LINES(name, T, SHORTER)                                                                    \
  static void lines_##name(ptrdiff_t rows, ptrdiff_t k, const void *from, ptrdiff_t row,           \
                           const void *x, void *sums) {                                            \
    const T *a = from;                                                                             \
    SHORTER(T)                                                                                     \
    T *to = sums;                                                                                  \
    ptrdiff_t i = 0;                                                                               \
    for (; i + FEW <= rows; i += FEW) quad_##name(k, a + i * row, row, x, to + i);                 \
    for (; i < rows; i++) dot_##name(k, a + i * row, x, to + i);                                   \
  }
LINES(f32, float, SHORTS)
LINES(f64, double, SHORTS)
LINES(i32, uint32_t, NO_SHORTS)
LINES(i16, uint16_t, NO_SHORTS)
LINES(i64, uint64_t, NO_SHORTS)

/* MR rows of c (+)= rows of a, row apart, times VECTORS vectors of each row of b. */
#define WIDE(name, T, V, L, VECTORS, MADD)                                                         \
  static void wide_##name(ptrdiff_t k, const void *left, ptrdiff_t row, ptrdiff_t a_step,          \
                          const void *right, ptrdiff_t b_step, void *out, ptrdiff_t stride,        \
                          bool add) {                                                              \
    const T *a = left, *b = right;                                                                 \
    T *c = out;                                                                                    \
    const T *first[MR / SPAN];                                                                     \
    UNROLL for (int i = 0; i < MR; i += SPAN) {                                                    \
      first[i / SPAN] = a + i * row;                                                               \
      /* Kept in registers, not computed from one another again and again. */                      \
      __asm__("" : "+r"(first[i / SPAN]));                                                         \
    }                                                                                              \
    V sum[MR][VECTORS];                                                                            \
    UNROLL for (int i = 0; i < MR; i++) {                                                          \
      UNROLL for (int v = 0; v < VECTORS; v++) sum[i][v] = (V)(T)0;                                \
    }                                                                                              \
    for (ptrdiff_t p = 0; p < k; p++, b += b_step) {                                               \
      V y[VECTORS];                                                                                \
      UNROLL for (int v = 0; v < VECTORS; v++) y[v] = *(const V *)(b + v * (L));                   \
      UNROLL for (int i = 0; i < MR; i++) {                                                        \
        const V x = (V)(first[i / SPAN][p * a_step + i % SPAN * row]);                             \
        UNROLL for (int v = 0; v < VECTORS; v++) sum[i][v] = MADD(V, x, y[v], sum[i][v]);          \
      }                                                                                            \
    }                                                                                              \
    UNROLL for (int i = 0; i < MR; i++, c += stride) {                                             \
      UNROLL for (int v = 0; v < VECTORS; v++) {                                                   \
        V *to = (V *)(c + v * (L));                                                                \
        *to = add ? *to + sum[i][v] : sum[i][v];                                                   \
      }                                                                                            \
    }                                                                                              \
  }

/* The same for FEW rows of a at their own places. */
#define DIRECT(name, T, V, L, VECTORS, MADD)                                                       \
  static void direct_##name(ptrdiff_t k, const void *const *rows, ptrdiff_t a_step,                \
                            const void *right, ptrdiff_t b_step, void *out, ptrdiff_t stride,      \
                            bool add) {                                                            \
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
      UNROLL for (int v = 0; v < VECTORS; v++) {                                                   \
        V *to = (V *)(c + v * (L));                                                                \
        *to = add ? *to + sum[i][v] : sum[i][v];                                                   \
      }                                                                                            \
    }                                                                                              \
  }

/* Two full vectors, one, and narrower ones, with few rows, for narrow matrices. */
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
  WIDE(name##_two, T, V, L, 2, MADD)                                                               \
  WIDE(name##_one, T, V, L, 1, MADD)                                                               \
  DIRECT(name##_two, T, V, L, 2, MADD)                                                             \
  DIRECT(name##_one, T, V, L, 1, MADD)                                                             \
  NARROWER(name, T, MADD)

DIRECTS(f32, float, v_f32, BYTES / 4, FUSED)
DIRECTS(f64, double, v_f64, BYTES / 8, FUSED)
DIRECTS(i32, uint32_t, v_i32, BYTES / 4, WRAPPED)
DIRECTS(i16, uint16_t, v_i16, BYTES / 2, WRAPPED)
DIRECTS(i64, uint64_t, v_i64, I64_LANES, WRAPPED)

/* ---- small matrices -------------------------------------------------------------------------- */

/* A batch of matrices that are multiplied where they lie; rows of b and of c are dense. */
typedef struct {
  ptrdiff_t m, n, k, a_row, a_step, b_row, c_row;
  const void *a, *b;
  void *c;
  const double *a_at, *b_at, *c_at;
} batch;

typedef void small_function(const batch *j, ptrdiff_t from, ptrdiff_t to);

/*
 * The matrices [from, to) of a batch, by vectors of L columns, where there are as many. The last
 * columns begin early enough to be whole, and so do the last four rows; of fewer rows the last one
 * is computed several times.
 */
#define SMALL(name, T, V, L, MADD)                                                                 \
  static void small_##name(const batch *j, ptrdiff_t from, ptrdiff_t to) {                         \
    const ptrdiff_t m = j->m, n = j->n, k = j->k, row = j->a_row, step = j->a_step;                \
    const ptrdiff_t b_row = j->b_row, c_row = j->c_row;                                            \
    for (ptrdiff_t item = from; item < to; item++) {                                               \
      const T *const left = (const T *)j->a + (ptrdiff_t)j->a_at[item];                            \
      const T *const right = (const T *)j->b + (ptrdiff_t)j->b_at[item];                           \
      T *const out = (T *)j->c + (ptrdiff_t)j->c_at[item];                                         \
      for (ptrdiff_t q = 0; q < n; q += (L)) {                                                     \
        const ptrdiff_t column = rm_least(q, n - (L));                                             \
        const T *const b = right + column;                                                         \
        for (ptrdiff_t i = 0; i < m; i += FEW) {                                                   \
          const T *a[FEW];                                                                         \
          T *to[FEW];                                                                              \
          V sum[FEW];                                                                              \
          UNROLL for (int r = 0; r < FEW; r++) {                                                   \
            const ptrdiff_t line = rm_least(m < FEW ? r : rm_least(i, m - FEW) + r, m - 1);        \
            a[r] = left + line * row;                                                              \
            to[r] = out + line * c_row + column;                                                   \
            sum[r] = (V)(T)0;                                                                      \
          }                                                                                        \
          ROLLED for (ptrdiff_t p = 0; p < k; p++) {                                               \
            const V y = *(const V *)(b + p * b_row);                                               \
            UNROLL for (int r = 0; r < FEW; r++) sum[r] = MADD(V, (V)(a[r][p * step]), y, sum[r]); \
          }                                                                                        \
          UNROLL for (int r = 0; r < FEW; r++) *(V *)to[r] = sum[r];                               \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }

SMALL(two_f32, float, two_f32, 2, FUSED)
SMALL(four_f32, float, four_f32, 4, FUSED)
SMALL(two_f64, double, two_f64, 2, FUSED)
#if defined(__AVX2__)
SMALL(eight_f32, float, eight_f32, 8, FUSED)
SMALL(four_f64, double, four_f64, 4, FUSED)
#endif
#if defined(__AVX512F__)
SMALL(sixteen_f32, float, v_f32, 16, FUSED)
SMALL(eight_f64, double, v_f64, 8, FUSED)
#endif

/* The same for b of one column: a sum for each row of a. */
#define SMALL_SUMS(name, T, MADD)                                                                  \
  static void small_sums_##name(const batch *j, ptrdiff_t from, ptrdiff_t to) {                    \
    const ptrdiff_t m = j->m, k = j->k, row = j->a_row, step = j->a_step, b_row = j->b_row;        \
    for (ptrdiff_t item = from; item < to; item++) {                                               \
      const T *a = (const T *)j->a + (ptrdiff_t)j->a_at[item];                                     \
      const T *const b = (const T *)j->b + (ptrdiff_t)j->b_at[item];                               \
      T *const c = (T *)j->c + (ptrdiff_t)j->c_at[item];                                           \
      for (ptrdiff_t i = 0; i < m; i++, a += row) {                                                \
        T sum = 0;                                                                                 \
        RM_SCALAR for (ptrdiff_t p = 0; p < k; p++) sum = MADD(T, a[p * step], b[p * b_row], sum); \
        c[i * j->c_row] = sum;                                                                     \
      }                                                                                            \
    }                                                                                              \
  }
SMALL_SUMS(f32, float, FUSED)
SMALL_SUMS(f64, double, FUSED)

/* The same for b of 3 by 3, where rows of a and of c lie one after another, which vectors do not
 * fit. */
#define SMALL_THREE(name, T)                                                                       \
  static void small_three_##name(const batch *j, ptrdiff_t from, ptrdiff_t to) {                   \
    for (ptrdiff_t item = from; item < to; item++) {                                               \
      const T *restrict const a = (const T *)j->a + (ptrdiff_t)j->a_at[item];                      \
      const T *const b = (const T *)j->b + (ptrdiff_t)j->b_at[item];                               \
      T *restrict const c = (T *)j->c + (ptrdiff_t)j->c_at[item];                                  \
      const T *const b1 = b + j->b_row, *const b2 = b1 + j->b_row;                                 \
      const T y[9] = {b[0], b1[0], b2[0], b[1], b1[1], b2[1], b[2], b1[2], b2[2]};                 \
      const ptrdiff_t m = j->m;                                                                    \
      RM_ROLLED for (ptrdiff_t i = 0; i < m; i++) {                                                \
        UNROLL for (int q = 0; q < 3; q++) {                                                       \
          T sum = FUSED(T, a[3 * i], y[3 * q], (T)0);                                              \
          sum = FUSED(T, a[3 * i + 1], y[3 * q + 1], sum);                                         \
          c[3 * i + q] = FUSED(T, a[3 * i + 2], y[3 * q + 2], sum);                                \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }
SMALL_THREE(f32, float)
SMALL_THREE(f64, double)

static small_function *small_three_for(int dtype) {
  return dtype == RM_FLOAT32 ? small_three_f32 : dtype == RM_FLOAT64 ? small_three_f64 : NULL;
}

static small_function *small_sums_for(int dtype) {
  return dtype == RM_FLOAT32 ? small_sums_f32 : dtype == RM_FLOAT64 ? small_sums_f64 : NULL;
}

/* The widest of these for so many columns, or null. */
static small_function *small_for(int dtype, ptrdiff_t columns) {
#if defined(__AVX512F__)
  if (dtype == RM_FLOAT32 && columns >= 16) return small_sixteen_f32;
  if (dtype == RM_FLOAT64 && columns >= 8) return small_eight_f64;
#endif
#if defined(__AVX2__)
  if (dtype == RM_FLOAT32 && columns >= 8) return small_eight_f32;
  if (dtype == RM_FLOAT64 && columns >= 4) return small_four_f64;
#endif
  if (dtype == RM_FLOAT32 && columns >= 4) return small_four_f32;
  if (dtype == RM_FLOAT32 && columns >= 2) return small_two_f32;
  return dtype == RM_FLOAT64 && columns >= 2 ? small_two_f64 : NULL;
}

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
    if (lines < width) memset(to, 0, sizeof(T) * (size_t)(k * width));                             \
    if (stride == 1 && k > 16) {                                                                   \
      /* Few at a time, so that what is written stays near until a row of it is whole. */          \
      for (ptrdiff_t p = 0; p < k; p += 16) {                                                      \
        pack_##bits(to + p * width, from + p, lines, rm_least(16, k - p), line_stride, 1, width);  \
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

typedef void wide_function(ptrdiff_t k, const void *a, ptrdiff_t row, ptrdiff_t a_step,
                           const void *b, ptrdiff_t b_step, void *c, ptrdiff_t stride, bool add);
typedef void direct_function(ptrdiff_t k, const void *const *rows, ptrdiff_t a_step, const void *b,
                             ptrdiff_t b_step, void *c, ptrdiff_t stride, bool add);
typedef void pack_function(void *to, const void *from, ptrdiff_t lines, ptrdiff_t k,
                           ptrdiff_t line_stride, ptrdiff_t stride);

/* One kind of arithmetic. */
typedef struct {
  ptrdiff_t size;
  int lanes;
  void (*lines)(ptrdiff_t rows, ptrdiff_t k, const void *a, ptrdiff_t row, const void *x,
                void *sums);
  void (*sweep)(ptrdiff_t columns, int rows, const void *a, ptrdiff_t step, const void *x, void *y);
  pack_function *pack_a, *pack_b;
  /* The kernels for MR rows and two vectors, or one. */
  wide_function *wide[2];
  /* Columns that each of the direct kernels takes, from the widest on; 0 where there is none. */
  int widths[WIDTH_COUNT];
  direct_function *direct[WIDTH_COUNT];
} kind;

#define KIND(name, T, L, a, b)                                                                     \
  {sizeof(T), L, lines_##name, sweep_##name, a, b,                                                 \
   {wide_##name##_two, wide_##name##_one}, WIDTHS(name, L)}

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
