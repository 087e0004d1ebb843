/*
 * Vectors of bytes, and the sums of four adjacent products of them, which are integers.
 *
 * A vector holds four elements of the depth for each of LANES columns of the product. Some instructions
 * add pairs of products in 16 bits first: `byte_sums` are such sums, or those of four products where
 * the machine has them.
 */
#ifndef ROWMAJOR_QUANT_VECTORS_H
#define ROWMAJOR_QUANT_VECTORS_H

#include <string.h>
#if defined(__SSSE3__)
#include <immintrin.h>
#elif defined(__wasm__)
#include <wasm_simd128.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#include "gemm_vectors.h"
#include "float16.h"

enum { LANES = VECTOR_BYTES / 4 };

VECTOR(v_u8, uint8_t, VECTOR_BYTES);
VECTOR(v_s32, int32_t, LANES);

static RM_ALWAYS_INLINE v_u8 load_bytes(const void *from) { return *(const v_u8 *)from; }

/* Four bytes of a row of x for each column. */
static RM_ALWAYS_INLINE v_u8 repeat_word(const void *from) {
  int32_t word;
  memcpy(&word, from, sizeof word);
  return (v_u8)(v_s32)word;
}

/* (byte >> shift) & mask of each byte. */
static RM_ALWAYS_INLINE v_u8 bits_of(v_u8 x, int shift, int mask) {
  return (v_u8)((v_i32)x >> (uint32_t)shift) & (v_u8)(uint8_t)mask;
}

/* ---- sums of products ------------------------------------------------------------------------ */

#if defined(__AVX512BW__)
typedef __m512i byte_sums;
#define NO_SUMS _mm512_setzero_si512()
#define ADD_PAIRS(sums, w, x) \
  _mm512_add_epi16(sums, _mm512_maddubs_epi16((__m512i)(w), (__m512i)(x)))
#define WIDEN(sums) (v_s32)_mm512_madd_epi16(sums, _mm512_set1_epi16(1))
#define MULTIPLY_PAIRS(w, x) (v_s32)_mm512_madd_epi16((__m512i)(w), (__m512i)(x))
#define LOOK_UP(table, index) \
  (v_u8)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(table))), \
                            (__m512i)(index))
#elif defined(__AVX2__)
typedef __m256i byte_sums;
#define NO_SUMS _mm256_setzero_si256()
#define ADD_PAIRS(sums, w, x) \
  _mm256_add_epi16(sums, _mm256_maddubs_epi16((__m256i)(w), (__m256i)(x)))
#define WIDEN(sums) (v_s32)_mm256_madd_epi16(sums, _mm256_set1_epi16(1))
#define MULTIPLY_PAIRS(w, x) (v_s32)_mm256_madd_epi16((__m256i)(w), (__m256i)(x))
#define LOOK_UP(table, index) \
  (v_u8)_mm256_shuffle_epi8( \
      _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(table))), (__m256i)(index))
#elif defined(__SSSE3__)
typedef __m128i byte_sums;
#define NO_SUMS _mm_setzero_si128()
#define ADD_PAIRS(sums, w, x) _mm_add_epi16(sums, _mm_maddubs_epi16((__m128i)(w), (__m128i)(x)))
#define WIDEN(sums) (v_s32)_mm_madd_epi16(sums, _mm_set1_epi16(1))
#define MULTIPLY_PAIRS(w, x) (v_s32)_mm_madd_epi16((__m128i)(w), (__m128i)(x))
#define LOOK_UP(table, index) \
  (v_u8)_mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(table)), (__m128i)(index))
#elif defined(__wasm__)
typedef v128_t byte_sums;
#define NO_SUMS wasm_i32x4_splat(0)
#define MULTIPLY_PAIRS(w, x) (v_s32)wasm_i32x4_dot_i16x8((v128_t)(w), (v128_t)(x))
static RM_ALWAYS_INLINE v128_t add_pairs(v128_t sums, v128_t w, v128_t x) {
  const v128_t even = wasm_i32x4_dot_i16x8(wasm_i16x8_shr(wasm_i16x8_shl(w, 8), 8),
                                           wasm_i16x8_shr(wasm_i16x8_shl(x, 8), 8));
  const v128_t odd = wasm_i32x4_dot_i16x8(wasm_i16x8_shr(w, 8), wasm_i16x8_shr(x, 8));
  return wasm_i32x4_add(sums, wasm_i32x4_add(even, odd));
}
#define ADD_PAIRS(sums, w, x) add_pairs(sums, (v128_t)(w), (v128_t)(x))
#define WIDEN(sums) (v_s32)(sums)
#define LOOK_UP(table, index) (v_u8)wasm_i8x16_swizzle(wasm_v128_load(table), (v128_t)(index))
#else
#define LOOK_UP(table, index) \
  (v_u8)vqtbl1q_u8(vld1q_u8((const uint8_t *)(table)), (uint8x16_t)(index))
#if defined(__ARM_FEATURE_DOTPROD)
typedef int32x4_t byte_sums;
#define NO_SUMS vdupq_n_s32(0)
#define ADD_PAIRS(sums, w, x) vdotq_s32(sums, (int8x16_t)(w), (int8x16_t)(x))
#define WIDEN(sums) (v_s32)(sums)
#else
typedef int16x8_t byte_sums;
#define NO_SUMS vdupq_n_s16(0)
static RM_ALWAYS_INLINE int16x8_t add_pairs(int16x8_t sums, int8x16_t w, int8x16_t x) {
  const int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(x));
  return vaddq_s16(sums, vpaddq_s16(low, vmull_high_s8(w, x)));
}
#define ADD_PAIRS(sums, w, x) add_pairs(sums, (int8x16_t)(w), (int8x16_t)(x))
#define WIDEN(sums) (v_s32) vpaddlq_s16(sums)
#endif
#endif

/*
 * Words of x that meet signed bytes of a weight. x86-64 multiplies unsigned by signed bytes only, and
 * WebAssembly no bytes, so these words have 16 bits per element there, the even ones first, and bytes
 * of the weight are widened.
 */
#if defined(MULTIPLY_PAIRS)
enum { SIGNED_WORD_BYTES = 8 };
#else
enum { SIGNED_WORD_BYTES = 4 };
#endif

static RM_ALWAYS_INLINE void store_signed_word(uint8_t *to, const int8_t *from) {
#if defined(MULTIPLY_PAIRS)
  const int16_t wide[] = {from[0], from[2], from[1], from[3]};
  memcpy(to, wide, sizeof wide);
#else
  memcpy(to, from, 4);
#endif
}

/* As many words of bytes, of which some bits are flipped, `step` bytes apart. */
static inline void store_signed_words(uint8_t *to, ptrdiff_t step, const uint8_t *from,
                                      ptrdiff_t words, uint8_t flip) {
  ptrdiff_t t = 0;
#if defined(MULTIPLY_PAIRS)
  VECTOR(v_part, int8_t, 16);
  VECTOR(v_wide, int16_t, 16);
  for (; t + 4 <= words; t += 4) {
    v_part x;
    memcpy(&x, from + 4 * t, sizeof x);
    x ^= (v_part)(int8_t)flip;
    x = __builtin_shufflevector(x, x, 0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
    const v_wide wide = __builtin_convertvector(x, v_wide);
    UNROLL for (int i = 0; i < 4; i++) {
      memcpy(to + (t + i) * step, (const char *)&wide + i * SIGNED_WORD_BYTES, SIGNED_WORD_BYTES);
    }
  }
#endif
  ROLLED for (; t < words; t++) {
    int8_t word[4];
    for (int i = 0; i < 4; i++) word[i] = (int8_t)(from[4 * t + i] ^ flip);
    store_signed_word(to + t * step, word);
  }
}

/* Four numbers from 0 to 255, less WORD_SHIFT: ARM multiplies signed bytes only. */
#if defined(MULTIPLY_PAIRS)
enum { WORD_SHIFT = 0 };
#else
enum { WORD_SHIFT = 128 };
#endif

static RM_ALWAYS_INLINE void store_unsigned_word(uint8_t *to, const int16_t *from) {
#if defined(MULTIPLY_PAIRS)
  const int16_t wide[] = {from[0], from[2], from[1], from[3]};
  memcpy(to, wide, sizeof wide);
#else
  for (int i = 0; i < 4; i++) to[i] = (uint8_t)(from[i] - WORD_SHIFT);
#endif
}

/* Vectors of VNNI: sum plus the products of unsigned bytes x and signed bytes w. The files of an ISA
 * are compiled without it; rm_has_byte_products tells whether the processor has it. */
#if defined(__AVX512BW__)
#define MULTIPLY_BYTES(sum, x, w) \
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w))
#elif defined(__AVX2__)
#define MULTIPLY_BYTES(sum, x, w) \
  __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(x), "x"(w))
#endif

/* The same without VNNI, where two products of a word do not exceed 16 bits. */
#if defined(__AVX2__) && !defined(__AVX512F__)
#define MULTIPLY_SMALL(sum, x, w) \
  (sum) += WIDEN(_mm256_maddubs_epi16((__m256i)(x), (__m256i)(w)))
#endif

/* A word of a weight of signed bytes. */
typedef struct {
#if defined(MULTIPLY_PAIRS)
  v_u8 even, odd;
#else
  v_u8 all;
#endif
} signed_word;

static RM_ALWAYS_INLINE signed_word signed_word_of(v_u8 w) {
#if defined(MULTIPLY_PAIRS)
  VECTOR(v_s16, int16_t, VECTOR_BYTES / 2);
  return (signed_word){(v_u8)((v_s16)((v_i16)w << 8) >> 8), (v_u8)((v_s16)w >> 8)};
#else
  return (signed_word){w};
#endif
}

/* The sum plus the products of a word. */
static RM_ALWAYS_INLINE v_s32 add_signed(v_s32 sum, signed_word w, const uint8_t *x) {
#if defined(MULTIPLY_PAIRS)
  sum += MULTIPLY_PAIRS(w.even, repeat_word(x));
  return sum + MULTIPLY_PAIRS(w.odd, repeat_word(x + 4));
#elif defined(__ARM_FEATURE_DOTPROD)
  return (v_s32)ADD_PAIRS((int32x4_t)sum, w.all, repeat_word(x));
#else
  /* Two products of -128 by -128 do not fit 16 bits. */
  const int8x16_t left = (int8x16_t)w.all, right = (int8x16_t)repeat_word(x);
  const int16x8_t low = vmull_s8(vget_low_s8(left), vget_low_s8(right));
  const int16x8_t high = vmull_high_s8(left, right);
  return sum + (v_s32)vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
#endif
}

/* The compiler would reorder sums, and run out of registers. */
#if defined(__x86_64__)
#define IN_ORDER(x) __asm__("" : "+x"(x))
#elif defined(__wasm__)
#define IN_ORDER(x) (void)0
#else
#define IN_ORDER(x) __asm__("" : "+w"(x))
#endif

/* ---- scales ---------------------------------------------------------------------------------- */

/* float16 of LANES columns. */
static RM_ALWAYS_INLINE v_f32 load_halves(const uint8_t *from) {
#if RM_HAS_F16_CONVERSION
  VECTOR(v_f16, _Float16, LANES);
  return __builtin_convertvector(*(const v_f16 *)from, v_f32);
#else
  v_f32 made;
  for (int i = 0; i < LANES; i++) {
    uint16_t half;
    memcpy(&half, from + 2 * i, sizeof half);
    made[i] = rm_f16_to_f32(half);
  }
  return made;
#endif
}

static RM_ALWAYS_INLINE v_f32 floats_of(v_s32 x) { return __builtin_convertvector(x, v_f32); }

/* Bytes of LANES columns. */
VECTOR(lane_u8, uint8_t, LANES);
VECTOR(lane_s8, int8_t, LANES);
static RM_ALWAYS_INLINE lane_u8 load_lanes(const uint8_t *from) { return *(const lane_u8 *)from; }

#endif
