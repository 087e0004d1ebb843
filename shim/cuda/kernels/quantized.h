/*
 * Quantized weights: their numbers, and products of a few rows by them; src/ops/quantized/formats.ts defines
 * the formats.
 *
 * A thread takes cells of a block: 8 elements in two runs of 4, whose quants are in two words at
 * most. Quants become floats without a conversion: as bytes of the mantissa of a float whose other
 * bytes are constant. Products are sums of float32; a weight in them is q * a + b, rounded once.
 */
#ifndef ROWMAJOR_CUDA_QUANTIZED_H
#define ROWMAJOR_CUDA_QUANTIZED_H

#include "block.h"

/* Defined by the source that includes this header: see src/backend/cuda/source/constants.ts. */
#if !defined(RM_QUANT_COLUMNS) || !defined(RM_QUANT_SLOTS) || !defined(RM_QUANT_WARPS)
#error "quantized.h needs the constants of src/backend/cuda/source/constants.ts"
#endif

/* ---- formats --------------------------------------------------------------------------------- */

/* The words of a cell's quants, as they are in memory. */
struct rm_quant_words {
  uint32_t low, high;
};
/* Scales of a part of a block, and fifth bits of small blocks, as they are in memory. */
struct rm_quant_scale {
  uint32_t halves, bits;
};
/* The numbers of a part are scale * q - min. */
struct rm_quant_factors {
  float scale, min;
};

static inline uint32_t rm_half_at(const uint8_t *at) {
  return rm_load<1>((const uint16_t *)at).at[0];
}
/* The word at an address that is a multiple of ALIGNMENT. */
template <int ALIGNMENT>
static inline uint32_t rm_word_at(const uint8_t *at) {
  if constexpr (ALIGNMENT < 4) return rm_half_at(at) | rm_half_at(at + 2) << 16;
  else return rm_load<1>((const uint32_t *)at).at[0];
}
static inline uint32_t rm_rotate(uint32_t x, int by) {
  return __funnelshift_l(x, x, (unsigned)by);
}
static inline float rm_low_half(uint32_t x) { return rm_f16_to_f32((uint16_t)x); }
static inline float rm_high_half(uint32_t x) { return rm_f16_to_f32((uint16_t)(x >> 16)); }

/* Quants of BITS bits, less OFFSET: bytes are the upper bits of mantissas, below a bit that is set.
 * The floats are 1 + q / 2^BITS. */
template <int BITS, int OFFSET>
struct rm_quant_upper {
  /* q - OFFSET is unit * (float - zero). */
  static constexpr float unit = 1 << BITS;
  static constexpr float zero = 1 + (float)OFFSET / (1 << BITS);
  template <int I>
  static inline float number(uint32_t bytes) {
    return rm_from_bits_f32(__byte_perm(bytes, 0x3f000000u, 0x7044u | I << 8));
  }
};
/* Bytes that are 128 more than quants. The floats are 2^15 more than bytes. */
struct rm_quant_bytes {
  static constexpr float unit = 1;
  static constexpr float zero = 32768 + 128;
  template <int I>
  static inline float number(uint32_t bytes) {
    return rm_from_bits_f32(__byte_perm(bytes, 0x47000000u, 0x7404u | I << 4));
  }
};

/* Blocks of 32 elements: their bytes, where their quants begin, and whether they have a minimum and
 * fifth bits. */
template <int BYTES_OF_BLOCK, int QUANTS, bool MIN, bool FIFTH>
struct rm_small_blocks {
  static constexpr int SIZE = 32, BYTES = BYTES_OF_BLOCK;
  static constexpr int ALIGNMENT = BYTES % 4 == 0 ? 4 : 2;
  /* Cells of a block, the distance of their runs, and parts with scales of their own. */
  static constexpr int CELLS = 4, DISTANCE = 16, PARTS = 1;
  static constexpr bool HAS_BITS = FIFTH;
  /* Whether products of four rows need more than 80 registers. */
  static constexpr bool HEAVY = FIFTH;
  static inline int column(int cell) { return 4 * cell; }
  static inline int part(int, int) { return 0; }
  static inline rm_quant_words load(const uint8_t *block, int cell) {
    return {rm_word_at<ALIGNMENT>(block + QUANTS + 4 * cell), 0};
  }
  static inline rm_quant_scale load_scale(const uint8_t *block, int) {
    return {MIN ? rm_word_at<ALIGNMENT>(block) : rm_half_at(block),
            FIFTH ? rm_word_at<ALIGNMENT>(block + QUANTS - 4) : 0};
  }
  static inline rm_quant_factors factors(rm_quant_scale raw, int) {
    return {rm_low_half(raw.halves), MIN ? -rm_high_half(raw.halves) : 0};
  }
};

/* Each format writes the bytes of both runs of a cell; with `swap`, the second run comes first. */

static inline void rm_runs_of_4_bits(uint32_t quants, bool swap, uint32_t *bytes) {
  bytes[0] = (rm_rotate(quants, swap ? 31 : 3) & 0x78787878u) | 0x80808080u;
  bytes[1] = (rm_rotate(quants, swap ? 3 : 31) & 0x78787878u) | 0x80808080u;
}
struct rm_q4_0 : rm_small_blocks<18, 2, false, false>, rm_quant_upper<4, 8> {
  static inline void runs(rm_quant_words words, uint32_t, int, bool swap, uint32_t *bytes) {
    rm_runs_of_4_bits(words.low, swap, bytes);
  }
};
struct rm_q4_1 : rm_small_blocks<20, 4, true, false>, rm_quant_upper<4, 0> {
  static inline void runs(rm_quant_words words, uint32_t, int, bool swap, uint32_t *bytes) {
    rm_runs_of_4_bits(words.low, swap, bytes);
  }
};

/* Four of the fifth bits, from `first` on, in place. */
static inline uint32_t rm_fifth_bits(uint32_t bits, int first) {
  return ((bits >> first & 15) * 0x08102040u & 0x40404040u) | 0x80808080u;
}
static inline void rm_runs_of_5_bits(uint32_t quants, uint32_t bits, int cell, bool swap,
                                     uint32_t *bytes) {
  bytes[0] = (rm_rotate(quants, swap ? 30 : 2) & 0x3c3c3c3cu) |
             rm_fifth_bits(bits, 4 * cell + (swap ? 16 : 0));
  bytes[1] = (rm_rotate(quants, swap ? 2 : 30) & 0x3c3c3c3cu) |
             rm_fifth_bits(bits, 4 * cell + (swap ? 0 : 16));
}
struct rm_q5_0 : rm_small_blocks<22, 6, false, true>, rm_quant_upper<5, 16> {
  static inline void runs(rm_quant_words words, uint32_t bits, int cell, bool swap,
                          uint32_t *bytes) {
    rm_runs_of_5_bits(words.low, bits, cell, swap, bytes);
  }
};
struct rm_q5_1 : rm_small_blocks<24, 8, true, true>, rm_quant_upper<5, 0> {
  static inline void runs(rm_quant_words words, uint32_t bits, int cell, bool swap,
                          uint32_t *bytes) {
    rm_runs_of_5_bits(words.low, bits, cell, swap, bytes);
  }
};

struct rm_q8_0 : rm_small_blocks<34, 2, false, false>, rm_quant_bytes {
  static inline rm_quant_words load(const uint8_t *block, int cell) {
    return {rm_word_at<2>(block + 2 + 4 * cell), rm_word_at<2>(block + 18 + 4 * cell)};
  }
  static inline void runs(rm_quant_words words, uint32_t, int, bool swap, uint32_t *bytes) {
    bytes[0] = (swap ? words.high : words.low) ^ 0x80808080u;
    bytes[1] = (swap ? words.low : words.high) ^ 0x80808080u;
  }
};

struct rm_iq4_nl : rm_small_blocks<18, 2, false, false>, rm_quant_bytes {
  static constexpr bool HEAVY = true;
  /* Of four quants of 4 bits: their values, plus 128, in the order of the quants. */
  static inline uint32_t look_up(uint32_t quants) {
    const uint32_t index = quants & 0x7777u, upper = (quants & 0x8888u) >> 1 | 0x3210u;
    return __byte_perm(__byte_perm(0x3f2d1801u, 0x766a5d4fu, index),
                       __byte_perm(0xa6998d81u, 0xf1d9c5b5u, index), upper);
  }
  static inline void runs(rm_quant_words words, uint32_t, int, bool swap, uint32_t *bytes) {
    const uint32_t left = look_up(words.low), right = look_up(words.low >> 16);
    bytes[0] = __byte_perm(left, right, swap ? 0x7531 : 0x6420);
    bytes[1] = __byte_perm(left, right, swap ? 0x6420 : 0x7531);
  }
};

/* Blocks of 256 elements: 8 parts have scales and minimums of 6 bits. A word of quants is of two
 * parts. */
template <int BYTES_OF_BLOCK, int QUANTS>
struct rm_large_blocks {
  static constexpr int SIZE = 256, BYTES = BYTES_OF_BLOCK;
  static constexpr int CELLS = 32, DISTANCE = 32, PARTS = 8;
  static constexpr bool HEAVY = false;
  static inline int column(int cell) { return 64 * (cell / 8) + 4 * (cell % 8); }
  static inline int part(int cell, int run) { return 2 * (cell / 8) + run; }
  static inline rm_quant_words load(const uint8_t *block, int cell) {
    return {rm_word_at<4>(block + QUANTS + 4 * cell),
            QUANTS == 16 ? 0 : rm_word_at<4>(block + 16 + 4 * (cell % 8))};
  }
  static inline rm_quant_scale load_scale(const uint8_t *block, int part) {
    const uint8_t *at = block + 4 + part % 4;
    return {rm_word_at<4>(block), at[0] | (uint32_t)at[4] << 8 | (uint32_t)at[8] << 16};
  }
  /* Of later parts, the last bytes have the lower bits, and the first ones the upper bits. */
  static inline rm_quant_factors factors(rm_quant_scale raw, int part) {
    const uint32_t bits = raw.bits;
    const uint32_t scale = part < 4 ? bits & 63 : (bits >> 16 & 15) | (bits >> 2 & 48);
    const uint32_t min = part < 4 ? bits >> 8 & 63 : (bits >> 20 & 15) | (bits >> 10 & 48);
    return {rm_low_half(raw.halves) * (float)(int)scale, rm_high_half(raw.halves) * (float)(int)min};
  }
};
struct rm_q4_k : rm_large_blocks<144, 16>, rm_quant_upper<4, 0> {
  static inline void runs(rm_quant_words words, uint32_t, int, bool, uint32_t *bytes) {
    rm_runs_of_4_bits(words.low, false, bytes);
  }
};
struct rm_q5_k : rm_large_blocks<176, 48>, rm_quant_upper<5, 0> {
  static inline void runs(rm_quant_words words, uint32_t, int cell, bool, uint32_t *bytes) {
    const int part = 2 * (cell / 8);
    bytes[0] = (rm_rotate(words.low, 2) & 0x3c3c3c3cu) |
               (rm_rotate(words.high, 6 - part) & 0x40404040u) | 0x80808080u;
    bytes[1] = (rm_rotate(words.low, 30) & 0x3c3c3c3cu) |
               (rm_rotate(words.high, 5 - part) & 0x40404040u) | 0x80808080u;
  }
};

/* 16 parts have scales of 8 bits; a word of lower bits is of two runs of 32 elements. */
struct rm_q6_k : rm_quant_upper<6, 32> {
  static constexpr int SIZE = 256, BYTES = 210;
  static constexpr int CELLS = 32, DISTANCE = 64, PARTS = 16;
  static constexpr bool HEAVY = false;
  static inline int column(int cell) {
    return 128 * (cell / 16) + 32 * (cell / 8 % 2) + 4 * (cell % 8);
  }
  static inline int part(int cell, int run) {
    return 8 * (cell / 16) + 2 * (cell / 8 % 2) + cell % 8 / 4 + 4 * run;
  }
  static inline rm_quant_words load(const uint8_t *block, int cell) {
    return {rm_word_at<2>(block + 4 * cell),
            rm_word_at<2>(block + 128 + 32 * (cell / 16) + 4 * (cell % 8))};
  }
  static inline void runs(rm_quant_words words, uint32_t, int cell, bool, uint32_t *bytes) {
    const int run = 2 * (cell / 8 % 2);
    bytes[0] = (rm_rotate(words.low, 1) & 0x1e1e1e1eu) |
               (rm_rotate(words.high, 5 - run) & 0x60606060u) | 0x80808080u;
    bytes[1] = (rm_rotate(words.low, 29) & 0x1e1e1e1eu) |
               (rm_rotate(words.high, 1 - run) & 0x60606060u) | 0x80808080u;
  }
  /* The scales of two parts. */
  static inline rm_quant_scale load_scale(const uint8_t *block, int part) {
    return {rm_half_at(block + 208) | rm_half_at(block + 192 + part / 2 * 2) << 16, 0};
  }
  static inline rm_quant_factors factors(rm_quant_scale raw, int part) {
    const int scale = (int8_t)(raw.halves >> (16 + part % 2 * 8));
    return {rm_low_half(raw.halves) * (float)scale, 0};
  }
};

/* ---- numbers --------------------------------------------------------------------------------- */

/* Writes the numbers of a cell, in the arithmetic and the order of the definition. */
template <class F, class D>
static inline void rm_dequantize(typename D::stored *out, const uint8_t *blocks, int64_t cells) {
  const int64_t i = rm_global_index();
  if (i >= cells) return;
  const int cell = (int)(i % F::CELLS);
  const uint8_t *block = blocks + i / F::CELLS * F::BYTES;
  typename D::stored *to = out + i / F::CELLS * F::SIZE + F::column(cell);
  const rm_quant_words words = F::load(block, cell);
  const rm_quant_scale scales[2] = {F::load_scale(block, F::part(cell, 0)),
                                    F::load_scale(block, F::part(cell, 1))};
  uint32_t bytes[2];
  F::runs(words, scales[0].bits, cell, false, bytes);
  RM_UNROLL for (int run = 0; run < 2; run++) {
    const rm_quant_factors by = F::factors(scales[run], F::part(cell, run));
    const uint32_t four = bytes[run];
    const float numbers[4] = {F::template number<0>(four), F::template number<1>(four),
                              F::template number<2>(four), F::template number<3>(four)};
    rm_pack<typename D::stored, 4> pack;
    RM_UNROLL for (int e = 0; e < 4; e++) {
      const float q = (numbers[e] - F::zero) * F::unit;
      pack.at[e] = D::put(by.scale * q - by.min);
    }
    rm_store(to + run * F::DISTANCE, pack);
  }
}

#define RM_DEQUANTIZE(name, F, D) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) \
      name(D::stored *out, const uint8_t *blocks, long long cells) { \
    rm_dequantize<F, D>(out, blocks, cells); \
  }

/* ---- products -------------------------------------------------------------------------------- */

/* Adds up each of C numbers over the lanes of a warp, C a power of two up to 32: lane l has the sum
 * of number l / (32 / C). */
template <int C, int STEP = RM_WARP / 2>
static inline float rm_sum_each(float *x) {
  if constexpr (STEP == 0) return x[0];
  else if constexpr (C == 1) {
    x[0] += __shfl_xor_sync(RM_ALL_LANES, x[0], STEP);
    return rm_sum_each<1, STEP / 2>(x);
  } else {
    const bool upper = (rm_lane() & STEP) != 0;
    RM_UNROLL for (int i = 0; i < C / 2; i++) {
      const float sent = upper ? x[i] : x[i + C / 2], kept = upper ? x[i + C / 2] : x[i];
      x[i] = kept + __shfl_xor_sync(RM_ALL_LANES, sent, STEP);
    }
    return rm_sum_each<C / 2, STEP / 2>(x);
  }
}

/* What a lane loads of a step: the quants of its cell in each of the columns, and the scales of one
 * of 8 slots of one of the columns, which the lanes give each other. Slots are the small blocks of a
 * step, the parts of a block, or pairs of 16 parts. */
template <class F>
struct rm_quant_step {
  rm_quant_words words[RM_QUANT_COLUMNS];
  rm_quant_scale own;
  /* What becomes of a float in the lane's slot, for 8 parts. */
  float line[2];

  /* A weight is a float of `number` times by[0] plus by[1]. */
  static inline void line_of(rm_quant_scale raw, int part, float *by) {
    const rm_quant_factors factors = F::factors(raw, part);
    by[0] = factors.scale * F::unit;
    by[1] = fmaf(factors.scale, -F::zero * F::unit, -factors.min);
  }

  /* Writes the bytes of the cell in column n, and the lines of both runs. */
  inline void column(int n, int cell, bool swap, uint32_t *bytes, float (*by)[2]) const {
    if constexpr (F::PARTS == 1) {
      const int slot = RM_QUANT_SLOTS * n + rm_lane() / F::CELLS;
      rm_quant_scale raw = {__shfl_sync(RM_ALL_LANES, own.halves, slot), 0};
      if constexpr (F::HAS_BITS) raw.bits = __shfl_sync(RM_ALL_LANES, own.bits, slot);
      line_of(raw, 0, by[0]);
      by[1][0] = by[0][0];
      by[1][1] = by[0][1];
      F::runs(words[n], raw.bits, cell, swap, bytes);
    } else {
      RM_UNROLL for (int run = 0; run < 2; run++) {
        const int part = F::part(cell, run), slot = part * RM_QUANT_SLOTS / F::PARTS;
        const int from = RM_QUANT_SLOTS * n + slot;
        if constexpr (F::PARTS == RM_QUANT_SLOTS) {
          by[run][0] = __shfl_sync(RM_ALL_LANES, line[0], from);
          by[run][1] = __shfl_sync(RM_ALL_LANES, line[1], from);
        } else {
          line_of({__shfl_sync(RM_ALL_LANES, own.halves, from), 0}, part, by[run]);
        }
      }
      F::runs(words[n], 0, cell, swap, bytes);
    }
  }

  inline void weights(int n, int cell, bool swap, float *w) const {
    uint32_t bytes[2];
    float by[2][2];
    column(n, cell, swap, bytes, by);
    RM_UNROLL for (int run = 0; run < 2; run++) {
      w[4 * run] = fmaf(F::template number<0>(bytes[run]), by[run][0], by[run][1]);
      w[4 * run + 1] = fmaf(F::template number<1>(bytes[run]), by[run][0], by[run][1]);
      w[4 * run + 2] = fmaf(F::template number<2>(bytes[run]), by[run][0], by[run][1]);
      w[4 * run + 3] = fmaf(F::template number<3>(bytes[run]), by[run][0], by[run][1]);
    }
  }
};

/* An address that is computed once: compilers would rather do so in each step. */
template <typename T>
static inline T *rm_keep(T *at) {
#if !defined(RM_EMULATED)
  asm("" : "+l"(at));
#if defined(__CUDACC_RTC__)
  __builtin_assume(__isGlobal(at));
#endif
#endif
  return at;
}

/* The 8 elements of x in a cell. */
template <class D>
static inline void rm_cell_of_x(const typename D::stored *at, int apart, float *x) {
  const rm_pack<typename D::stored, 4> first = rm_load<4>(at), second = rm_load<4>(at + apart);
  RM_UNROLL for (int e = 0; e < 4; e++) {
    x[e] = D::get(first.at[e]);
    x[4 + e] = D::get(second.at[e]);
  }
}

static inline float rm_dot_cell(const float *x, const float *w, float sum) {
  RM_UNROLL for (int e = 0; e < 8; e++) sum = fmaf(x[e], w[e], sum);
  return sum;
}

/* Steps that a warp loads at a time: about a kilobyte, or what registers have room for. */
template <class F>
static constexpr int rm_quant_ahead(int rows) {
  return rows > 2 || F::BYTES * (256 / F::SIZE) > 200 ? 1 : 2;
}
/* R rows of x by RM_QUANT_COLUMNS columns per block. Warps take turns at steps of 32 cells each. */
template <class F, class D, int R>
static inline void rm_linear_quantized(typename D::stored *out, const typename D::stored *x,
                                       const uint8_t *weight, const typename D::stored *bias,
                                       const typename D::stored *add, int64_t width, int64_t depth,
                                       int64_t rows) {
  constexpr int N = RM_QUANT_COLUMNS, SUMS = R * N, AHEAD = rm_quant_ahead<F>(R);
  static_assert(N * RM_QUANT_SLOTS == RM_WARP, "a lane for each slot of each column");
  __shared__ float sums[RM_QUANT_WARPS][SUMS];
  const int64_t first = (int64_t)blockIdx.x * N, top = (int64_t)blockIdx.y * R;
  const int64_t column_bytes = depth / F::SIZE * F::BYTES;
  const int lane = rm_lane(), cell = lane % F::CELLS, within = lane / F::CELLS;
  const int slot = lane % RM_QUANT_SLOTS;
  /* So that 8 lanes load 128 bytes of x from different banks. */
  const bool swap = F::CELLS < RM_QUANT_SLOTS && within % 2 != 0;
  /* Missing columns and rows are the last ones again. */
  const uint8_t *columns[N];
  RM_UNROLL for (int n = 0; n < N; n++) {
    columns[n] = rm_keep(weight + rm_min(first + n, width - 1) * column_bytes);
  }
  const uint8_t *scales =
      rm_keep(weight + rm_min(first + lane / RM_QUANT_SLOTS, width - 1) * column_bytes);
  uint32_t later[R];
  RM_UNROLL for (int r = 0; r < R; r++) {
    later[r] = r == 0 ? 0 : (uint32_t)(rm_min((int64_t)r, rows - 1 - top) * depth);
  }
  const typename D::stored *from =
      rm_keep(x + top * depth + F::column(cell) + (swap ? F::DISTANCE : 0));
  const int apart = swap ? -F::DISTANCE : F::DISTANCE;
  constexpr int each = RM_WARP / F::CELLS;
  const int blocks = (int)(depth / F::SIZE), warps = rm_warps();

  float acc[SUMS];
  RM_UNROLL for (int i = 0; i < SUMS; i++) acc[i] = 0;
  rm_quant_step<F> loaded[AHEAD];
  const auto load = [&](int ahead, int step, bool partial = false) {
    rm_quant_step<F> &to = loaded[ahead];
    const auto limit = [&](int block) {
      return (uint32_t)(partial ? rm_min(block, blocks - 1) : block);
    };
    const uint32_t block = limit(step * each + within);
    RM_UNROLL for (int n = 0; n < N; n++) {
      to.words[n] = F::load(columns[n] + (uint64_t)block * (uint32_t)F::BYTES, cell);
    }
    const uint32_t own = limit(step * each + (each > 1 ? slot : 0));
    to.own = F::load_scale(scales + (uint64_t)own * (uint32_t)F::BYTES, slot * F::PARTS / 8);
  };
  const auto multiply = [&](int ahead, int step, bool partial = false) {
    rm_quant_step<F> &of = loaded[ahead];
    if constexpr (F::PARTS == RM_QUANT_SLOTS) of.line_of(of.own, slot, of.line);
    const int block = step * each + within;
    const bool exists = !partial || block < blocks;
    const typename D::stored *at = from + (uint64_t)(exists ? block : 0) * (uint32_t)F::SIZE;
    const auto add_cell = [&](int r, int n, const float *values, const float *w) {
      const float sum = rm_dot_cell(values, w, acc[r * N + n]);
      acc[r * N + n] = exists ? sum : acc[r * N + n];
    };
    /* The order that needs fewer registers; sums are the same. */
    if constexpr (R <= 4) {
      float values[R][8], w[8];
      RM_UNROLL for (int r = 0; r < R; r++) rm_cell_of_x<D>(at + later[r], apart, values[r]);
      RM_UNROLL for (int n = 0; n < N; n++) {
        of.weights(n, cell, swap, w);
        RM_UNROLL for (int r = 0; r < R; r++) add_cell(r, n, values[r], w);
      }
    } else {
      float w[N][8], values[8];
      RM_UNROLL for (int n = 0; n < N; n++) of.weights(n, cell, swap, w[n]);
      RM_UNROLL for (int r = 0; r < R; r++) {
        rm_cell_of_x<D>(at + later[r], apart, values);
        RM_UNROLL for (int n = 0; n < N; n++) add_cell(r, n, values, w[n]);
      }
    }
  };
  const int whole = blocks / each;
  int step = rm_warp();
  for (; step + (AHEAD - 1) * warps < whole; step += AHEAD * warps) {
    RM_UNROLL for (int i = 0; i < AHEAD; i++) load(i, step + i * warps);
    RM_UNROLL for (int i = 0; i < AHEAD; i++) multiply(i, step + i * warps);
  }
  if (AHEAD > 1 && step < whole) {
    load(0, step);
    multiply(0, step);
    step += warps;
  }
  /* The last blocks of a column, where they are no whole step. */
  if (each > 1 && step == whole && whole * each < blocks) {
    load(0, step, true);
    multiply(0, step, true);
  }

  const float sum = rm_sum_each<SUMS>(acc);
  constexpr int lanes = RM_WARP / SUMS;
  if (lane % lanes == 0) sums[rm_warp()][lane / lanes] = sum;
  __syncthreads();
  if (threadIdx.x >= SUMS) return;
  const int64_t column = first + threadIdx.x % N, row = top + threadIdx.x / N;
  if (column >= width || row >= rows) return;
  float total = sums[0][threadIdx.x];
  for (int warp = 1; warp < rm_warps(); warp++) total += sums[warp][threadIdx.x];
  if (bias != nullptr) total += D::get(bias[column]);
  if (add != nullptr) total += D::get(add[row * width + column]);
  out[row * width + column] = D::put(total);
}

/* Blocks for whose registers a multiprocessor has room. */
#define RM_QUANT_BLOCKS(F, R) (R == 1 ? 4 : R == 8 || (R == 4 && F::HEAVY) ? 2 : 3)
#define RM_LINEAR_QUANTIZED(name, F, D, R) \
  extern "C" __global__ void __launch_bounds__(32 * RM_QUANT_WARPS, RM_QUANT_BLOCKS(F, R)) \
      name(D::stored *out, const D::stored *x, const uint8_t *weight, const D::stored *bias, \
           const D::stored *add, long long width, long long depth, long long rows) { \
    rm_linear_quantized<F, D, R>(out, x, weight, bias, add, width, depth, rows); \
  }

#endif
