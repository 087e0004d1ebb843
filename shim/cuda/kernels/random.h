/*
 * Random numbers by Philox4x32-10, as in shim/cpu/random.c: word w of a key is lane w % 4 of the
 * block with counter w / 4, so each thread generates only the blocks that its elements need. Bits,
 * integers and uniform numbers are equal on all backends.
 */
#ifndef ROWMAJOR_CUDA_RANDOM_H
#define ROWMAJOR_CUDA_RANDOM_H

#include "block.h"
typedef uint32_t rm_philox_word;
typedef uint64_t rm_philox_wide;
#include "philox.h"

static inline uint64_t rm_word_pair(const uint32_t *words) {
  return words[0] | (uint64_t)words[1] << 32;
}

/* rm_normal_pair_f64 in float32, because double is slow on many devices. Over all 2^24 values of u
 * and v, the relative error of the radius is at most 0.83 * 2^-23, of the sine 0.87 and of the
 * cosine 0.72 of that unit; products are within 4 ulp. */
static inline void rm_normal_pair_f32(float u, float v, float *x, float *y) {
  const float radius = rm_sqrt_f32(-2 * rm_log_normal_f32(u));
  const float quarter = rm_floor_f32(4 * v + 0.5f);
  const float g = v - quarter * 0.25f, t = g * g;
  const float q = RM_POLY_5(f32, t, -41.341702240399634f, 81.60524927594804f, -76.70585970427454f,
                            42.058685020160894f, -15.093804209987114f);
  /* 2 pi in two parts. */
  const float s = rm_fma_f32(t, q, -1.7484555e-07f) + 6.2831855f;
  const float c = RM_POLY_6(f32, t, 1.0f, -19.73920880217842f, 64.93939402236538f,
                            -85.45681709034115f, 60.24462008593029f, -26.42425703488269f);
  const int quadrant = (int)quarter;
  const float sine = radius * (g * s), cosine = radius * c;
  const float first = (quadrant & 1) != 0 ? sine : cosine,
              second = (quadrant & 1) != 0 ? cosine : sine;
  *x = ((quadrant + 1) & 2) != 0 ? -first : first;
  *y = (quadrant & 2) != 0 ? -second : second;
}

/* What a distribution computes from the words of a block: ELEMENTS elements from WORDS words
 * each. */
struct rm_bits_u32 {
  typedef uint32_t stored;
  enum { WORDS = 4, ELEMENTS = 4 };
  inline void make(const uint32_t *words, stored *out) const {
    for (int i = 0; i < 4; i++) out[i] = words[i];
  }
};

/* Uses only as many upper bits as a uniform number of the dtype has, so that none rounds up to
 * 1. */
template <class D, int BITS>
struct rm_uniform {
  typedef typename D::stored stored;
  enum { WORDS = 1, ELEMENTS = 1 };
  inline void make(const uint32_t *words, stored *out) const {
    *out = D::put((float)(int)(words[0] >> (32 - BITS)) * (1.0f / (float)(1 << BITS)));
  }
};
struct rm_uniform_f64 {
  typedef double stored;
  enum { WORDS = 2, ELEMENTS = 1 };
  inline void make(const uint32_t *words, stored *out) const {
    *out = (double)(long long)(rm_word_pair(words) >> 11) * 0x1p-53;
  }
};

template <class D>
struct rm_normal {
  typedef typename D::stored stored;
  enum { WORDS = 2, ELEMENTS = 2 };
  inline void make(const uint32_t *words, stored *out) const {
    float x, y;
    const float u = (float)(int)((words[0] >> 8) + 1), v = (float)(int)(words[1] >> 8);
    rm_normal_pair_f32(u * 0x1p-24f, v * 0x1p-24f, &x, &y);
    out[0] = D::put(x);
    out[1] = D::put(y);
  }
};
struct rm_normal_f64 {
  typedef double stored;
  enum { WORDS = 4, ELEMENTS = 2 };
  inline void make(const uint32_t *words, stored *out) const {
    const double u = (double)(long long)((rm_word_pair(words) >> 11) + 1);
    const double v = (double)(long long)(rm_word_pair(words + 2) >> 11);
    rm_normal_pair_f64(u * 0x1p-53, v * 0x1p-53, out, out + 1);
  }
};

/* low + the upper half of bits * range. bits are one word for ranges up to 2^16, else two. A range
 * of 0 stands for 2^64. */
template <class T>
struct rm_narrow_integers {
  typedef T stored;
  enum { WORDS = 1, ELEMENTS = 1 };
  uint64_t low, range;
  inline void make(const uint32_t *words, stored *out) const {
    *out = (T)(low + (words[0] * range >> 32));
  }
};
template <class T>
struct rm_wide_integers {
  typedef T stored;
  enum { WORDS = 2, ELEMENTS = 1 };
  uint64_t low, range;
  inline void make(const uint32_t *words, stored *out) const {
    const uint64_t bits = rm_word_pair(words);
    *out = (T)(low + (range == 0 ? bits : __umul64hi(bits, range)));
  }
};

/* Each thread generates at least 16 bytes at a time, and at least the elements of one block. */
template <class M>
static inline void rm_random_fill(typename M::stored *out, long long length, uint32_t key0,
                                  uint32_t key1, M maker) {
  typedef typename M::stored T;
  enum {
    OF_BLOCK = 4 / M::WORDS * M::ELEMENTS,
    OF_BYTES = 16 / sizeof(T),
    COUNT = (int)OF_BLOCK > (int)OF_BYTES ? (int)OF_BLOCK : (int)OF_BYTES,
    BLOCKS = COUNT / OF_BLOCK
  };
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i * COUNT < length;
       i += step) {
    T made[COUNT];
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
      const uint64_t counter = (uint64_t)i * BLOCKS + b;
      uint32_t words[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
      rm_philox(words, key0, key1);
#pragma unroll
      for (int k = 0; k < 4 / M::WORDS; k++) {
        maker.make(words + k * M::WORDS, made + b * OF_BLOCK + k * M::ELEMENTS);
      }
    }
    T *to = out + i * COUNT;
    if ((i + 1) * COUNT <= length) {
#pragma unroll
      for (int p = 0; p < COUNT; p += OF_BYTES) {
        rm_pack<T, OF_BYTES> pack;
#pragma unroll
        for (int e = 0; e < OF_BYTES; e++) pack.at[e] = made[p + e];
        rm_store(to + p, pack);
      }
    } else {
#pragma unroll
      for (int e = 0; e < COUNT; e++) {
        if (i * COUNT + e < length) to[e] = made[e];
      }
    }
  }
}

#define RM_RANDOM_KERNEL(name, T, ...) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) \
      name(T *out, long long length, uint64_t key, uint64_t low, uint64_t range) { \
    (void)low; \
    (void)range; \
    rm_random_fill(out, length, (uint32_t)key, (uint32_t)(key >> 32), __VA_ARGS__); \
  }

#endif
