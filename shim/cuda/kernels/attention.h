/*
 * Attention of 16-bit floats by tensor cores: no score is ever in memory.
 *
 * A block computes WARPS * TILES * 16 queries of one head: each warp TILES tiles of 16 queries
 * against KEYS keys at a time, which pass through shared memory. Its lanes keep the queries, the
 * scores of these keys and the sums of values in registers. Weights are relative to the greatest
 * score so far: if a greater one comes, what was summed is scaled down.
 *
 * Rows of q, k and v have SIZE columns here: those beyond the real ones are 0.
 */
#ifndef ROWMAJOR_CUDA_ATTENTION_H
#define ROWMAJOR_CUDA_ATTENTION_H

#include "mma.h"
#include "narrow_math.h"

/* Defined by the source that includes this header: see src/backend/cuda/source/constants.ts. */
#if !defined(RM_ATTENTION_AXES)
#error "attention.h needs the constants of src/backend/cuda/source/constants.ts"
#endif

/* The matrices of an operand, with strides in elements: of rows, columns, and axes of the batch. */
struct rm_heads {
  const void *at;
  long long row, column, step[RM_ATTENTION_AXES];
  template <class T>
  inline T *start(const unsigned *place) const {
    long long first = 0;
    RM_UNROLL for (int i = 0; i < RM_ATTENTION_AXES; i++) first += place[i] * step[i];
    return (T *)at + first;
  }
};

/* What a call computes. The batch has `size` matrices along each of its axes. */
struct rm_attention {
  long long m, n, d, dv, causal, mask_dtype, size[RM_ATTENTION_AXES];
  double scale;
};

/* Begins to copy KEYS rows, from row `first` on, to shared memory. There they are one chunk longer,
 * so that eight of them begin in different banks. Those from `rows` on, and columns from `columns`
 * on, are 0. Rows are so close that the offsets of these fit into 32 bits, which saves registers. */
template <int SIZE, int KEYS, int THREADS>
static inline void rm_fetch_rows(rm_chunk *to, const uint16_t *from, long long row, int first,
                                 int rows, int columns) {
  enum { CHUNKS = SIZE / 8 };
  /* Threads of a row: a power of two, so that each keeps its column. */
  enum { LANES = CHUNKS <= 4 ? 4 : CHUNKS <= 8 ? 8 : 16, STEP = THREADS / LANES };
  static_assert(KEYS % STEP == 0, "all threads copy as many rows");
  const int chunk = (int)threadIdx.x % LANES, line = (int)threadIdx.x / LANES;
  if (chunk >= CHUNKS) return;
  from += first * row;
  RM_UNROLL for (int i = 0; i < KEYS / STEP; i++) {
    const int key = line + i * STEP;
    rm_copy_async(to + key * (CHUNKS + 1) + chunk,
                  (const rm_chunk *)(from + (key * (int)row + 8 * chunk)),
                  first + key < rows && 8 * chunk < columns);
  }
}

/* Adds a mask to the scores of one lane, after scaling them. Rows and columns as in rm_mma. */
template <class M, int TILES, int KEYS>
static inline void rm_add_mask(float (&s)[TILES][KEYS / 8][4], const rm_heads &mask,
                               const typename M::stored *from, int row, int key, int rows, int keys,
                               float scale) {
  RM_UNROLL for (int tile = 0; tile < TILES; tile++) {
    RM_UNROLL for (int half = 0; half < 2; half++) {
      const int y = row + 16 * tile + 8 * half;
      const typename M::stored *at = from + y * mask.row + key * mask.column;
      RM_UNROLL for (int i = 0; i < KEYS / 8; i++) {
        RM_UNROLL for (int j = 0; j < 2; j++) {
          float &score = s[tile][i][2 * half + j];
          score *= scale;
          if (y >= rows || key + 8 * i + j >= keys) continue;
          const typename M::stored stored = at[j * mask.column];
          if constexpr (M::is_float) score += M::get(stored);
          else if (!stored) score = -INFINITY;
        }
        at += 8 * mask.column;
      }
    }
  }
}

/* Loads the queries of a warp from row `row` on; those from `m` on, and columns from `d` on, are 0.
 * `sign` flips the signs of both halves of a word. */
template <int TILES, int SIZE>
static inline void rm_load_queries(uint32_t (&queries)[TILES][SIZE / 16][4], const uint16_t *from_q,
                                   long long q_row, int row, int m, int d, uint32_t sign) {
  const int g = rm_lane() / 4, t = 2 * (rm_lane() % 4);
  RM_UNROLL for (int tile = 0; tile < TILES; tile++) {
    RM_UNROLL for (int i = 0; i < SIZE / 16; i++) {
      RM_UNROLL for (int j = 0; j < 4; j++) {
        const int y = row + 16 * tile + g + 8 * (j % 2), x = 16 * i + t + 8 * (j / 2);
        rm_pack<uint16_t, 2> both = {};
        if (y < m && x < d) both = rm_load<2>(from_q + y * q_row + x);
        memcpy(&queries[tile][i][j], &both, sizeof both);
        queries[tile][i][j] ^= sign;
      }
    }
  }
}

/* The scores of a warp's queries and the keys in shared memory. */
template <class D, int SIZE, int KEYS, int TILES>
static inline void rm_multiply_keys(float (&s)[TILES][KEYS / 8][4],
                                    const uint32_t (&queries)[TILES][SIZE / 16][4],
                                    const rm_chunk *keys) {
  enum { LINE = SIZE / 8 + 1 };
  const int lane_row = rm_lane() % 8, lane_matrix = rm_lane() / 8;
  RM_UNROLL for (int tile = 0; tile < TILES; tile++) {
    RM_UNROLL for (int i = 0; i < KEYS / 8; i++) {
      RM_UNROLL for (int j = 0; j < 4; j++) s[tile][i][j] = 0;
    }
  }
  RM_UNROLL for (int x = 0; x < SIZE / 16; x++) {
    RM_UNROLL for (int i = 0; i < KEYS / 16; i++) {
      uint32_t b[4];
      const int line = 16 * i + lane_matrix / 2 * 8 + lane_row;
      rm_load_matrices(b, &keys[line * LINE + 2 * x + lane_matrix % 2], false);
      RM_UNROLL for (int tile = 0; tile < TILES; tile++) {
        rm_mma<D>(s[tile][2 * i], queries[tile][x], b[0], b[1]);
        rm_mma<D>(s[tile][2 * i + 1], queries[tile][x], b[2], b[3]);
      }
    }
  }
}

/* Makes weights of scores, 2^(factor * (score - most)), adds them to totals, and scales totals and
 * sums down where a greater score has come. A row that has seen no key has a maximum of -infinity,
 * which the weights leave out, so that they are 0. NaN takes part in no maximum, but is a weight. */
template <int SIZE, bool MASKED, int KEYS, int TILES>
static inline void rm_weigh_scores(float (&s)[TILES][KEYS / 8][4], float (&most)[TILES][2],
                                   float (&total)[TILES][2], float (&sums)[TILES][SIZE / 8][4],
                                   float factor) {
  bool grows = false;
  float before[TILES][2];
  RM_UNROLL for (int tile = 0; tile < TILES; tile++) {
    RM_UNROLL for (int half = 0; half < 2; half++) {
      float x = most[tile][half];
      RM_UNROLL for (int i = 0; i < KEYS / 8; i++) {
        x = fmaxf(x, fmaxf(s[tile][i][2 * half], s[tile][i][2 * half + 1]));
      }
      x = rm_lanes_max<4>(x);
      before[tile][half] = most[tile][half];
      grows |= x != most[tile][half];
      most[tile][half] = x;
    }
  }
  if (__ballot_sync(RM_ALL_LANES, grows) != 0) {
    RM_UNROLL for (int tile = 0; tile < TILES; tile++) {
      RM_UNROLL for (int half = 0; half < 2; half++) {
        const float x = most[tile][half], reference = x == -INFINITY ? 0 : x;
        const float less = rm_power_of_2_flushed((before[tile][half] - reference) * factor);
        total[tile][half] *= less;
        RM_UNROLL for (int i = 0; i < SIZE / 8; i++) {
          sums[tile][i][2 * half] *= less;
          sums[tile][i][2 * half + 1] *= less;
        }
      }
    }
  }
  RM_UNROLL for (int tile = 0; tile < TILES; tile++) {
    RM_UNROLL for (int half = 0; half < 2; half++) {
      const float x = most[tile][half], reference = x == -INFINITY ? 0 : x;
      const float shifted = -reference * factor;
      RM_UNROLL for (int i = 0; i < KEYS / 8; i++) {
        RM_UNROLL for (int j = 2 * half; j < 2 * half + 2; j++) {
          float &score = s[tile][i][j];
          /* A mask may be so far from 0 that its product with the factor overflows. */
          score = rm_power_of_2_flushed(MASKED ? (score - reference) * factor
                                        : fmaf(score, factor, shifted));
          total[tile][half] += score;
        }
      }
    }
  }
}

/* Adds the products of weights and the values in shared memory to sums. */
template <class D, int SIZE, int KEYS, int TILES>
static inline void rm_add_values(float (&sums)[TILES][SIZE / 8][4],
                                 const float (&s)[TILES][KEYS / 8][4], const rm_chunk *values) {
  enum { LINE = SIZE / 8 + 1 };
  const int lane_row = rm_lane() % 8, lane_matrix = rm_lane() / 8;
  RM_UNROLL for (int x = 0; x < KEYS / 16; x++) {
    uint32_t weights[TILES][4];
    RM_UNROLL for (int tile = 0; tile < TILES; tile++) {
      RM_UNROLL for (int j = 0; j < 4; j++) {
        const float *both = &s[tile][2 * x + j / 2][j % 2 * 2];
        weights[tile][j] = rm_pack_pair<D>(both[0], both[1]);
      }
    }
    RM_UNROLL for (int i = 0; i < SIZE / 16; i++) {
      uint32_t b[4];
      const int line = 16 * x + lane_matrix % 2 * 8 + lane_row;
      rm_load_matrices(b, &values[line * LINE + 2 * i + lane_matrix / 2], true);
      RM_UNROLL for (int tile = 0; tile < TILES; tile++) {
        rm_mma<D>(sums[tile][2 * i], weights[tile], b[0], b[1]);
        rm_mma<D>(sums[tile][2 * i + 1], weights[tile], b[2], b[3]);
      }
    }
  }
}

/* Writes the sums of a warp's queries, divided by their totals. */
template <class D, int TILES, int SIZE>
static inline void rm_store_rows(uint16_t *to, long long out_row, const float (&sums)[TILES][SIZE / 8][4],
                                 const float (&total)[TILES][2], int row, int m, int dv) {
  const int g = rm_lane() / 4, t = 2 * (rm_lane() % 4);
  /* 0 / 0 is NaN where a query has seen no key; see rm_attend_seen. */
  RM_UNROLL for (int tile = 0; tile < TILES; tile++) {
    RM_UNROLL for (int half = 0; half < 2; half++) {
      const float all = rm_lanes_sum<4>(total[tile][half]);
      const float by = 1 / all;
      const int y = row + 16 * tile + 8 * half + g;
      RM_UNROLL for (int i = 0; i < SIZE / 8; i++) {
        const float *both = &sums[tile][i][2 * half];
        const uint32_t bits = rm_pack_pair<D>(both[0] * by, both[1] * by);
        rm_pack<uint16_t, 2> made;
        memcpy(&made, &bits, sizeof made);
        if (y < m && 8 * i < dv) rm_store<2>(to + y * out_row + 8 * i + t, made);
      }
    }
  }
}

template <class D, int SIZE, bool MASKED, int KEYS, int WARPS, int TILES>
static inline void rm_attend(const rm_heads &out, const rm_heads &q, const rm_heads &k,
                             const rm_heads &v, const rm_heads &mask, const rm_attention &about) {
  enum {
    THREADS = WARPS * RM_WARP,
    QUERIES = WARPS * TILES * 16,
    LINE = SIZE / 8 + 1
  };
  /* While a block computes with some keys and values, it fetches the next ones. */
  __shared__ rm_chunk keys[2][KEYS * LINE], values[2][KEYS * LINE];
  static_assert(sizeof keys + sizeof values <= 49152, "more shared memory has to be asked for");
  const int m = (int)about.m, n = (int)about.n, d = (int)about.d, dv = (int)about.dv;
  const unsigned blocks = (unsigned)(m + QUERIES - 1) / QUERIES;
  unsigned rest = blockIdx.x / blocks, place[RM_ATTENTION_AXES];
  RM_UNROLL for (int i = RM_ATTENTION_AXES - 1; i >= 0; i--) {
    place[i] = rest % (unsigned)about.size[i];
    rest /= (unsigned)about.size[i];
  }
  /* With a causal limit, the last queries take longest: they begin. */
  const bool causal = about.causal != 0;
  const unsigned block = blockIdx.x % blocks;
  const int begin = (int)(causal ? blocks - 1 - block : block) * QUERIES;
  const int row = begin + rm_warp() * 16 * TILES;
  /* Query i sees the keys up to i + shift. */
  const int shift = n - m, last = rm_min(m, begin + (int)QUERIES) - 1;
  const int seen = causal ? last + shift + 1 : n;
  const int count = seen <= 0 ? 0 : (seen + KEYS - 1) / KEYS;
  const uint16_t *from_k = k.start<const uint16_t>(place), *from_v = v.start<const uint16_t>(place);
  const int g = rm_lane() / 4, t = 2 * (rm_lane() % 4);

  if (count > 0) {
    rm_fetch_rows<SIZE, KEYS, THREADS>(keys[0], from_k, k.row, 0, n, d);
    rm_fetch_rows<SIZE, KEYS, THREADS>(values[0], from_v, v.row, 0, n, dv);
  }

  /* Scores are compared before they are scaled: the sign of the scale goes to the queries. */
  const float scale = (float)(about.scale < 0 ? -about.scale : about.scale);
  const float factor = MASKED ? 1.44269504f : (float)(scale * 1.4426950408889634);
  const uint32_t sign = about.scale < 0 ? 0x80008000u : 0;
  uint32_t queries[TILES][SIZE / 16][4];
  rm_load_queries<TILES, SIZE>(queries, q.start<const uint16_t>(place), q.row, row, m, d, sign);

  float sums[TILES][SIZE / 8][4], most[TILES][2], total[TILES][2];
  RM_UNROLL for (int tile = 0; tile < TILES; tile++) {
    RM_UNROLL for (int i = 0; i < 2; i++) most[tile][i] = -INFINITY, total[tile][i] = 0;
    RM_UNROLL for (int i = 0; i < SIZE / 8; i++) {
      RM_UNROLL for (int j = 0; j < 4; j++) sums[tile][i][j] = 0;
    }
  }

#pragma unroll 1
  for (int round = 0; round < count; round++) {
    const int key = round * KEYS, next = key + KEYS, stage = round % 2;
    rm_wait_copies();
    __syncthreads();
    if (round + 1 < count) {
      rm_fetch_rows<SIZE, KEYS, THREADS>(keys[1 - stage], from_k, k.row, next, n, d);
      rm_fetch_rows<SIZE, KEYS, THREADS>(values[1 - stage], from_v, v.row, next, n, dv);
    }
    /* Warps without queries, or whose queries see none of these keys, only fetch. */
    if (row >= m || (causal && key > row + 16 * TILES - 1 + shift)) continue;

    float s[TILES][KEYS / 8][4];
    rm_multiply_keys<D, SIZE, KEYS>(s, queries, keys[stage]);
    if constexpr (MASKED) {
#define RM_ADD_MASK(M) \
  rm_add_mask<M, TILES, KEYS>(s, mask, mask.start<const typename M::stored>(place), row + g, \
                              key + t, m, n, scale);
      switch (about.mask_dtype) {
        case RM_BOOL: RM_ADD_MASK(rm_b8) break;
        case RM_FLOAT32: RM_ADD_MASK(rm_f32) break;
        default: RM_ADD_MASK(D) break;
      }
#undef RM_ADD_MASK
    }
    if (next > n || (causal && next - 1 > row + shift)) {
      RM_UNROLL for (int tile = 0; tile < TILES; tile++) {
        RM_UNROLL for (int j = 0; j < 4; j++) {
          const int end = row + 16 * tile + g + 8 * (j / 2) + shift + 1;
          const int limit = (causal ? rm_min(end, n) : n) - key - t - j % 2;
          RM_UNROLL for (int i = 0; i < KEYS / 8; i++) {
            if (8 * i >= limit) s[tile][i][j] = -INFINITY;
          }
        }
      }
    }

    rm_weigh_scores<SIZE, MASKED, KEYS>(s, most, total, sums, factor);
    rm_add_values<D, SIZE, KEYS>(sums, s, values[stage]);
  }

  rm_store_rows<D, TILES, SIZE>(out.start<uint16_t>(place), out.row, sums, total, row, m, dv);
}

/* ---- rows with NaN ----------------------------------------------------------------------------- */

/* The score of a key that query `i` sees; false for one that it does not see. */
template <class D, class W>
static inline bool rm_seen_score(W *score, const typename D::stored *q, const typename D::stored *k,
                                 const rm_heads &q_heads, const rm_heads &k_heads,
                                 const rm_heads &mask, const unsigned *place,
                                 const rm_attention &about, long long i, long long j) {
  W given = 0;
  if (mask.at != nullptr) {
    long long at = i * mask.row + j * mask.column;
    RM_UNROLL for (int a = 0; a < RM_ATTENTION_AXES; a++) at += place[a] * mask.step[a];
    given = (W)rm_load_as<rm_f64>((int)about.mask_dtype, mask.at, at);
    if (about.mask_dtype == RM_BOOL) {
      if (given == 0) return false;
      given = 0;
    } else if (given == -INFINITY) return false;
  }
  W sum = 0;
  for (long long c = 0; c < about.d; c++) {
    sum += D::get(q[c * q_heads.column]) * D::get(k[j * k_heads.row + c * k_heads.column]);
  }
  *score = sum * (W)about.scale + given;
  return true;
}

static inline float rm_weight(float x) { return rm_exp_f32(x); }
static inline double rm_weight(double x) { return rm_exp_f64(x); }

/* Computes rows with NaN again, from the keys that they see: a weight of 0 makes NaN of values that are
 * not finite. A warp has a row; lanes have keys, then columns. */
template <class D>
static inline void rm_attend_seen(const rm_heads &out, const rm_heads &q, const rm_heads &k,
                                  const rm_heads &v, const rm_heads &mask,
                                  const rm_attention &about) {
  typedef typename D::value W;
  long long rest = (long long)blockIdx.x * rm_warps() + rm_warp();
  const long long i = rest % about.m;
  rest /= about.m;
  unsigned place[RM_ATTENTION_AXES];
  RM_UNROLL for (int a = RM_ATTENTION_AXES - 1; a >= 0; a--) {
    place[a] = (unsigned)(rest % about.size[a]);
    rest /= about.size[a];
  }
  if (rest > 0) return;
  typename D::stored *to = out.start<typename D::stored>(place) + i * out.row;
  bool bad = false;
  for (long long c = rm_lane(); c < about.dv; c += RM_WARP) {
    const W x = D::get(to[c * out.column]);
    bad |= x != x;
  }
  if (__ballot_sync(RM_ALL_LANES, bad) == 0) return;

  const typename D::stored *from_q = q.start<const typename D::stored>(place) + i * q.row;
  const typename D::stored *from_k = k.start<const typename D::stored>(place);
  const typename D::stored *from_v = v.start<const typename D::stored>(place);
  const long long limit = about.causal != 0 ? i + about.n - about.m + 1 : about.n;
  W most = -INFINITY;
  for (long long j = rm_lane(); j < limit; j += RM_WARP) {
    W score;
    if (!rm_seen_score<D, W>(&score, from_q, from_k, q, k, mask, place, about, i, j)) continue;
    most = score > most ? score : most;
  }
  most = rm_lanes_max<RM_WARP>(most);
  if (most == -INFINITY) most = 0;
  for (long long c = 0; c < about.dv; c += RM_WARP) {
    const long long column = c + rm_lane();
    W sum = 0, total = 0;
    for (long long first = 0; first < limit; first += RM_WARP) {
      const long long j = first + rm_lane();
      W score = 0;
      const bool seen = j < limit &&
                        rm_seen_score<D, W>(&score, from_q, from_k, q, k, mask, place, about, i, j);
      const unsigned all = __ballot_sync(RM_ALL_LANES, seen);
      const W weight = seen ? rm_weight(score - most) : 0;
      for (int lane = 0; lane < RM_WARP; lane++) {
        const W one = __shfl_sync(RM_ALL_LANES, weight, lane);
        if ((all >> lane & 1) == 0) continue;
        total += one;
        if (column < about.dv) {
          sum += one * D::get(from_v[(first + lane) * v.row + column * v.column]);
        }
      }
    }
    if (column < about.dv) to[column * out.column] = D::put(total == 0 ? 0 : sum / total);
  }
}

#define RM_ATTENTION_SEEN(name, D) \
  extern "C" __global__ void __launch_bounds__(128) \
      name(rm_heads out, rm_heads q, rm_heads k, rm_heads v, rm_heads mask, rm_attention about) { \
    rm_attend_seen<D>(out, q, k, v, mask, about); \
  }

/* Older devices have no such products: they are not asked for these kernels. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define RM_ATTENTION(name, D, SIZE, MASKED, KEYS, WARPS, TILES, BLOCKS) \
  extern "C" __global__ void name(void) {}
#else
#define RM_ATTENTION(name, D, SIZE, MASKED, KEYS, WARPS, TILES, BLOCKS) \
  extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS) \
      name(rm_heads out, rm_heads q, rm_heads k, rm_heads v, rm_heads mask, rm_attention about) { \
    rm_attend<D, SIZE, MASKED, KEYS, WARPS, TILES>(out, q, k, v, mask, about); \
  }
#endif

#endif
