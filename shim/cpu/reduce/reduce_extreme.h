/* Largest and smallest elements, and where they are: kernels of fold.c, which includes it. */
#include "reduce_common.h"

/* ---- largest and smallest -------------------------------------------------------------------- */

/*
 * All are maxima of keys, (x & mask) ^ flip: with other bits flipped signed integers become their
 * negative less one, unsigned ones signed, floats their negative; a mask makes magnitudes. Keys are
 * flipped back at the end. The macros by kind say what floats need beyond that: NaN wins. Those of
 * 16 bits become integers of the same order, one for all NaN, so that nothing is converted.
 */
#define KEY_INT(I, bits, infinity) (bits)
#define KEY_FLOAT(I, bits, infinity) (bits)
#define KEY_HALF(I, bits, infinity) \
  (((bits) & 0x7fff) > (infinity) ? (I)((infinity) | (infinity) >> 1) \
                                  : (bits) ^ ((bits) >> 15 & 0x7fff))
#define PREFER_INT(a, x) ((a) > (x) ? (a) : (x))
#define PREFER_FLOAT(a, x) ((a) > (x) || (a) != (a) ? (a) : (x))
#define PREFER_HALF PREFER_INT
#define BETTER_INT(a, x) ((x) > (a))
#define BETTER_FLOAT(a, x) ((x) > (a) || ((x) != (x) && (a) == (a)))
#define BETTER_HALF BETTER_INT
#define IS_NAN_INT(x) 0
#define IS_NAN_FLOAT(x) ((x) != (x))
#define IS_NAN_HALF IS_NAN_INT
#define NAN_INT(K) 0
#define NAN_FLOAT(K) ((K)NAN)
#define NAN_HALF NAN_INT
/* Indexes take zeros of both signs for equal: the key of -0 is -1, and so is 0's for them. */
#define TIED_INT(x) (x)
#define TIED_FLOAT(x) (x)
#define TIED_HALF(x) ((x) == 0 ? -1 : (x))

#define KEYS(V, I, from, kind) \
  ({ \
    const I bits_ = (LOAD(I, from) & mask) ^ flip; \
    const I key_ = KEY_##kind(I, bits_, infinity); \
    LOAD(V, &key_); \
  })

#define EXTREME(K, T, B, V, I, count, kind) \
  static inline T key_##K(T x, B mask, B flip, B infinity) { \
    B bits; \
    memcpy(&bits, &x, sizeof bits); \
    (void)infinity; \
    bits = (B)((bits & mask) ^ flip); \
    bits = (B)KEY_##kind(B, bits, infinity); \
    memcpy(&x, &bits, sizeof x); \
    return x; \
  } \
  static inline T highest_##K(const job *j, ptrdiff_t n, const T *p) { \
    const B mask = (B)j->mask, flip = (B)j->flip, infinity = (B)~j->start; \
    T top = key_##K(p[0], mask, flip, infinity); \
    bool nan = IS_NAN_##kind(top); \
    ptrdiff_t i = 0; \
    if (n >= count) { \
      V s = KEYS(V, I, p, kind), t = s; \
      I unordered = (I)IS_NAN_##kind(s); \
      V u = s, v = s; \
      for (; i + 4 * count <= n; i += 4 * count) { \
        const V a = KEYS(V, I, p + i, kind), b = KEYS(V, I, p + i + count, kind); \
        const V c = KEYS(V, I, p + i + 2 * count, kind), d = KEYS(V, I, p + i + 3 * count, kind); \
        s = s > a ? s : a; \
        t = t > b ? t : b; \
        u = u > c ? u : c; \
        v = v > d ? v : d; \
        unordered |= (I)(IS_NAN_##kind(a) | IS_NAN_##kind(b)); \
        unordered |= (I)(IS_NAN_##kind(c) | IS_NAN_##kind(d)); \
      } \
      s = s > u ? s : u; \
      t = t > v ? t : v; \
      /* The last vector may hold some elements again. */ \
      for (; i + count < n; i += count) { \
        const V a = KEYS(V, I, p + i, kind); \
        s = s > a ? s : a; \
        unordered |= (I)IS_NAN_##kind(a); \
      } \
      const V a = KEYS(V, I, p + n - count, kind); \
      s = s > a ? s : a; \
      unordered |= (I)IS_NAN_##kind(a); \
      s = s > t ? s : t; \
      T lane[count]; \
      memcpy(lane, &s, sizeof lane); \
      for (int half = count / 2; half > 0; half /= 2) { \
        for (int l = 0; l < half; l++) { \
          lane[l] = lane[l] > lane[l + half] ? lane[l] : lane[l + half]; \
        } \
      } \
      top = lane[0]; \
      nan = BITS(TRUTH(count, unordered)) != 0; \
    } else { \
      for (i = 1; i < n; i++) { \
        const T x = key_##K(p[i], mask, flip, infinity); \
        nan |= IS_NAN_##kind(x); \
        top = top > x ? top : x; \
      } \
    } \
    return nan ? NAN_##kind(T) : top; \
  } \
  static RM_KERNEL void extreme_##K(const job *j, ptrdiff_t n, const void *from, double y, \
                                    cells *c) { \
    T *acc = c->acc; \
    (void)y; \
    const T x = highest_##K(j, n, from); \
    *acc = PREFER_##kind(*acc, x); \
  } \
  static RM_KERNEL void columns_extreme_##K(const job *j, ptrdiff_t n, ptrdiff_t rows, \
                                            const void *from, ptrdiff_t step, cells *c) { \
    const B mask = (B)j->mask, flip = (B)j->flip, infinity = (B)~j->start; \
    T *restrict acc = c->acc; \
    for (ptrdiff_t r = 0; r < rows; r++) { \
      const T *restrict p = (const T *)((const char *)from + r * step); \
      for (ptrdiff_t i = 0; i < n; i++) { \
        const T x = key_##K(p[i], mask, flip, infinity), a = acc[i]; \
        acc[i] = PREFER_##kind(a, x); \
      } \
    } \
  } \
  static void combine_extreme_##K(const job *j, ptrdiff_t n, cells *to, const cells *from) { \
    T *acc = to->acc; \
    const T *other = from->acc; \
    (void)j; \
    for (ptrdiff_t i = 0; i < n; i++) acc[i] = PREFER_##kind(acc[i], other[i]); \
  } \
  /* The place of the first key that is no less than top. */ \
  static inline ptrdiff_t first_##K(const job *j, ptrdiff_t n, const T *p, T top) { \
    const B mask = (B)j->mask, flip = (B)j->flip, infinity = (B)~j->start; \
    ptrdiff_t i = 0; \
    for (; i + count <= n; i += count) { \
      const V a = KEYS(V, I, p + i, kind); \
      const I here = IS_NAN_##kind(top) ? (I)IS_NAN_##kind(a) : (I)(a >= top); \
      const uint64_t bits = BITS(TRUTH(count, here)); \
      if (bits != 0) return i + __builtin_ctzll(bits); \
    } \
    for (; i < n; i++) { \
      const T x = key_##K(p[i], mask, flip, infinity); \
      if (x >= top || (IS_NAN_##kind(x) && IS_NAN_##kind(top))) break; \
    } \
    return i; \
  } \
  static RM_KERNEL void index_##K(const job *j, ptrdiff_t n, const void *from, double y, \
                                  cells *c) { \
    T *acc = c->acc; \
    (void)y; \
    const T top = highest_##K(j, n, from), x = TIED_##kind(top); \
    if (BETTER_##kind(*acc, x)) { \
      *acc = x; \
      *c->where = c->position + first_##K(j, n, from, x); \
    } \
  } \
  static RM_KERNEL void columns_index_##K(const job *j, ptrdiff_t n, ptrdiff_t rows, \
                                          const void *from, ptrdiff_t step, cells *c) { \
    const B mask = (B)j->mask, flip = (B)j->flip, infinity = (B)~j->start; \
    T *restrict acc = c->acc; \
    int64_t *restrict where = c->where; \
    for (ptrdiff_t r = 0; r < rows; r++) { \
      const T *restrict p = (const T *)((const char *)from + r * step); \
      const int64_t position = c->position + r; \
      for (ptrdiff_t i = 0; i < n; i++) { \
        const T key = key_##K(p[i], mask, flip, infinity), x = TIED_##kind(key), a = acc[i]; \
        const bool better = BETTER_##kind(a, x); \
        acc[i] = better ? x : a; \
        where[i] = better ? position : where[i]; \
      } \
    } \
  } \
  static void combine_index_##K(const job *j, ptrdiff_t n, cells *to, const cells *from) { \
    T *acc = to->acc; \
    const T *other = from->acc; \
    (void)j; \
    for (ptrdiff_t i = 0; i < n; i++) { \
      if (!(BETTER_##kind(acc[i], other[i]))) continue; \
      acc[i] = other[i]; \
      to->where[i] = from->where[i]; \
    } \
  }

EXTREME(i8, int8_t, int8_t, i8x64, i8x64, 64, INT)
EXTREME(i16, int16_t, int16_t, i16x32, i16x32, 32, INT)
EXTREME(half, int16_t, int16_t, i16x32, i16x32, 32, HALF)
EXTREME(i32, int32_t, int32_t, i32x16, i32x16, 16, INT)
EXTREME(i64, int64_t, int64_t, i64x8, i64x8, 8, INT)
EXTREME(f32, float, int32_t, f32x16, i32x16, 16, FLOAT)
EXTREME(f64, double, int64_t, f64x8, i64x8, 8, FLOAT)

static void store_extreme(const job *j, ptrdiff_t n, char *out, ptrdiff_t stride, const cells *c) {
  union {
    double f[WIDTH];
    int64_t i[WIDTH];
    uint64_t bits[WIDTH];
  } result;
  const bool floats = j->columns == columns_extreme_f32 || j->columns == columns_extreme_f64;
  const bool halves = j->columns == columns_extreme_half;
  const bool from_f32 = j->columns == columns_extreme_f32;
  if (floats) {
    if (from_f32) f64_from_f32(n, c->acc, 1, result.f);
    else memcpy(result.f, c->acc, (size_t)n * sizeof(double));
    const uint64_t sign = j->flip != 0 ? (uint64_t)1 << 63 : 0;
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) result.bits[i] ^= sign;
  } else {
    switch (j->slot) {
      case 1: i64_from_i8(n, c->acc, 1, result.i); break;
      case 2: i64_from_i16(n, c->acc, 1, result.i); break;
      case 4: i64_from_i32(n, c->acc, 1, result.i); break;
      default: memcpy(result.i, c->acc, (size_t)n * sizeof(int64_t)); break;
    }
    const int64_t order = halves ? 0x7fff : 0;
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) result.i[i] ^= result.i[i] >> 63 & order;
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) result.bits[i] ^= j->flip;
  }
  put(halves ? RM_INT16 : j->out, n, &result, out, stride);
}

static void store_where(const job *j, ptrdiff_t n, char *out, ptrdiff_t stride, const cells *c) {
  put(j->out, n, c->where, out, stride);
}
