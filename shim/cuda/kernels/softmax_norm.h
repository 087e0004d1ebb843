/*
 * Softmax, log softmax, layer norm and RMS norm along contiguous rows of floats, as in
 * shim/cpu/softmax_norm. Some lanes of a warp, or a block, hold a row in registers. Longer rows are
 * split into parts, one per block: one pass computes their sums, and a second pass reads them
 * again.
 *
 * Softmax subtracts the maximum of a row. Norms sum the differences from the mean of what a group
 * of threads holds and keep the rounding error of that mean, so a large mean costs the variance no
 * digits. Groups of lanes add up to some 40 numbers sequentially in the compute dtype. Everything
 * else is added in double.
 */
#ifndef ROWMAJOR_CUDA_SOFTMAX_NORM_H
#define ROWMAJOR_CUDA_SOFTMAX_NORM_H

#include "block.h"
#include "narrow_math.h"

/* Defined by the source that includes this header: see src/backend/cuda/source/constants.ts. */
#if !defined(RM_PART_BYTES)
#error "softmax_norm.h needs the constants of src/backend/cuda/source/constants.ts"
#endif

enum { RM_SOFTMAX, RM_LOG_SOFTMAX, RM_LAYER_NORM, RM_RMS_NORM };

static inline float rm_exp_as(rm_f16, float x) { return rm_exp_f16(x); }
static inline float rm_exp_as(rm_bf16, float x) { return rm_exp_bf16(x); }
static inline float rm_exp_as(rm_f32, float x) { return rm_exp_f32(x); }
static inline double rm_exp_as(rm_f64, double x) { return rm_exp_f64(x); }

static inline float rm_log_as(rm_f16, double x) { return rm_log_f32((float)x); }
static inline float rm_log_as(rm_bf16, double x) { return rm_log_f32((float)x); }
static inline float rm_log_as(rm_f32, double x) { return (float)rm_log_f64(x); }
static inline double rm_log_as(rm_f64, double x) { return rm_log_f64(x); }

/* Multiplying by the reciprocal adds an ulp of error, which only float64 cannot spare. 16-bit floats
 * have room for an approximation, too. */
static inline float rm_divide_by_sum(rm_f16, float x, double sum) {
  return x * rm_inverse((float)sum);
}
static inline float rm_divide_by_sum(rm_bf16, float x, double sum) {
  return x * rm_inverse((float)sum);
}
static inline float rm_divide_by_sum(rm_f32, float x, double sum) { return x * (1 / (float)sum); }
static inline double rm_divide_by_sum(rm_f64, double x, double sum) { return x / sum; }

static inline float rm_fma(float a, float b, float c) { return rm_fma_f32(a, b, c); }
static inline double rm_fma(double a, double b, double c) { return rm_fma_f64(a, b, c); }

static inline float rm_rsqrt_as(rm_f16, float x) { return rm_inverse_root(x); }
static inline float rm_rsqrt_as(rm_bf16, float x) { return rm_inverse_root(x); }
static inline float rm_rsqrt_as(rm_f32, float x) { return 1 / rm_sqrt_f32(x); }
static inline double rm_rsqrt_as(rm_f64, double x) { return 1 / rm_sqrt_f64(x); }

/* The threads of a row: LANES of a warp, or the block if LANES is 0. Blocks exchange numbers in
 * `shared`, which has an element per warp and sum: all threads have read it after the next barrier
 * only, so that successive calls need different arrays. */
template <int LANES>
struct rm_lane_group {
  static inline int size(void) { return LANES; }
  static inline int index(void) { return rm_lane() & (LANES - 1); }
  template <class W>
  static inline double sum(W x, double *) {
    return (double)rm_lanes_sum<LANES>(x);
  }
  template <class W>
  static inline void sum(W x, W y, double *, double *all_x, double *all_y) {
    *all_x = (double)rm_lanes_sum<LANES>(x);
    *all_y = (double)rm_lanes_sum<LANES>(y);
  }
  template <class W>
  static inline W max(W x, W *) {
    return rm_lanes_max<LANES>(x);
  }
};
template <>
struct rm_lane_group<0> {
  static inline int size(void) { return (int)blockDim.x; }
  static inline int index(void) { return (int)threadIdx.x; }
  template <class W>
  static inline double sum(W x, double *shared) {
    const W warp = rm_lanes_sum<RM_WARP>(x);
    if (rm_lane() == 0) shared[rm_warp()] = (double)warp;
    __syncthreads();
    double all = 0;
    for (int w = 0; w < rm_warps(); w++) all += shared[w];
    return all;
  }
  template <class W>
  static inline void sum(W x, W y, double *shared, double *all_x, double *all_y) {
    const W warp_x = rm_lanes_sum<RM_WARP>(x), warp_y = rm_lanes_sum<RM_WARP>(y);
    if (rm_lane() == 0) {
      shared[rm_warp()] = (double)warp_x;
      shared[RM_MAX_WARPS + rm_warp()] = (double)warp_y;
    }
    __syncthreads();
    *all_x = *all_y = 0;
    for (int w = 0; w < rm_warps(); w++) {
      *all_x += shared[w];
      *all_y += shared[RM_MAX_WARPS + w];
    }
  }
  template <class W>
  static inline W max(W x, W *shared) {
    const W warp = rm_lanes_max<RM_WARP>(x);
    if (rm_lane() == 0) shared[rm_warp()] = warp;
    __syncthreads();
    W max_value = shared[0];
    for (int w = 1; w < rm_warps(); w++) max_value = rm_larger(max_value, shared[w]);
    return max_value;
  }
};

/* The elements of a row that a thread holds: N groups of V adjacent elements. */
template <class D, int V, int N, int LANES>
struct rm_row_values {
  typedef typename D::stored stored;
  typedef typename D::value value;
  typedef rm_lane_group<LANES> group;
  value x[N * V];

  /* The first column of group n. */
  static inline int start(int n) { return (n * group::size() + group::index()) * V; }

  inline void load(const stored *row, int columns) {
    rm_pack<stored, V> packs[N];
#pragma unroll
    for (int n = 0; n < N; n++) {
      if (start(n) < columns) packs[n] = rm_load<V>(row + start(n));
    }
#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
      for (int v = 0; v < V; v++) {
        x[n * V + v] = start(n) < columns ? D::get(packs[n].at[v]) : (value)0;
      }
    }
  }

  inline void store(stored *row, int columns) const {
#pragma unroll
    for (int n = 0; n < N; n++) {
      if (start(n) >= columns) continue;
      rm_pack<stored, V> pack;
#pragma unroll
      for (int v = 0; v < V; v++) pack.at[v] = D::put(x[n * V + v]);
      rm_store(row + start(n), pack);
    }
  }

  /* Ignores NaN, which the subtraction brings back. Several chains, because one would be long. */
  inline value max(int columns, value *shared) const {
    value most[4] = {(value)-INFINITY, (value)-INFINITY, (value)-INFINITY, (value)-INFINITY};
#pragma unroll
    for (int n = 0; n < N; n++) {
      if (start(n) >= columns) continue;
#pragma unroll
      for (int v = 0; v < V; v++) most[n & 3] = rm_larger(most[n & 3], x[n * V + v]);
    }
    return group::max(rm_larger(rm_larger(most[0], most[1]), rm_larger(most[2], most[3])), shared);
  }

  /* The sum that f(x, sum) makes of each element and the sum so far. f may change the element. */
  template <class F>
  inline double sum(int columns, double *shared, F f) {
    value sums[4] = {0, 0, 0, 0};
#pragma unroll
    for (int n = 0; n < N; n++) {
      if (start(n) >= columns) continue;
#pragma unroll
      for (int v = 0; v < V; v++) {
        value &sum = sums[(n * V + v) & 3];
        sum = f(x[n * V + v], sum);
      }
    }
    return group::sum((sums[0] + sums[1]) + (sums[2] + sums[3]), shared);
  }

  /* The sums of the differences from by and of their squares. */
  inline void moments(value by, int columns, double *shared, double *sum, double *squares) const {
    value sums[2] = {0, 0}, seconds[2] = {0, 0};
#pragma unroll
    for (int n = 0; n < N; n++) {
      if (start(n) >= columns) continue;
#pragma unroll
      for (int v = 0; v < V; v++) {
        const int k = (n * V + v) & 1;
        const value difference = x[n * V + v] - by;
        sums[k] += difference;
        seconds[k] = rm_fma(difference, difference, seconds[k]);
      }
    }
    group::sum(sums[0] + sums[1], seconds[0] + seconds[1], shared, sum, squares);
  }
};

/* The mean of a row in two parts, so that it has more digits than one number, and the reciprocal of
 * the standard deviation. */
template <class W>
struct rm_moments {
  W mean, mean_error, scale;
};

/* offset and variance are the means of the differences from reference and of their squares. */
template <class D>
static inline rm_moments<typename D::value> rm_moments_of(bool centered, double reference, double offset,
                                                          double variance, double epsilon) {
  typedef typename D::value W;
  rm_moments<W> m = {0, 0, 0};
  if (centered) {
    m.mean = (W)(reference + offset);
    m.mean_error = (W)(reference - (double)m.mean + offset);
    /* Rounding may have made the difference negative. */
    variance = variance < offset * offset ? 0 : variance - offset * offset;
  }
  m.scale = rm_rsqrt_as(D(), (W)variance + (W)epsilon);
  return m;
}

/* Sums the differences from reference and their squares. reference is the rounded mean, or 0 if the
 * norm has none; share is 1 / columns. `first` and `second` are arrays for groups. */
template <class H>
static inline void rm_sum_moments(H &row_values, bool centered, int columns, double share,
                                  double *first, double *second, typename H::value *reference,
                                  double *sum, double *squares) {
  typedef typename H::value W;
  *reference = 0;
  *sum = 0;
  if (centered) {
    /* Times 2^-11, so that the sums of lanes overflow only if the mean does. */
    const auto add = [](W &x, W sum) { return rm_fma(x, (W)0x1p-11, sum); };
    *reference = (W)(row_values.sum(columns, first, add) * share * 0x1p11);
    row_values.moments(*reference, columns, second, sum, squares);
  } else {
    const auto add = [](W &x, W sum) { return rm_fma(x, x, sum); };
    *squares = row_values.sum(columns, second, add);
  }
}

/* Keeps the compiler from moving later loads up, where they would take registers. */
static inline void rm_load_fence(void) {
#if !defined(RM_EMULATED)
  asm volatile("" ::: "memory");
#endif
}

/* weight and bias start at the first column of row_values. */
template <class D, int V, int N, int LANES>
static inline void rm_normalize(rm_row_values<D, V, N, LANES> &row_values, bool centered,
                                rm_moments<typename D::value> m, const typename D::value *weight,
                                const typename D::value *bias, int columns) {
  typedef typename D::value W;
  /* At most 16 bytes at a time. */
  constexpr int PART = V * sizeof(W) > 16 ? 16 / (int)sizeof(W) : V;
  typedef rm_pack<W, PART> pack;
  const W shift = -m.mean_error * m.scale;
#pragma unroll
  for (int n = 0; n < N; n++) {
    const int start = row_values.start(n);
    rm_load_fence();
    if (start >= columns) continue;
#pragma unroll
    for (int part = 0; part < V; part += PART) {
      /* -0 is what keeps the sign of 0. */
      pack w = rm_broadcast<PART>((W)1), b = rm_broadcast<PART>((W)-0.0);
      if (weight != nullptr) w = rm_load<PART>(weight + start + part);
      if (bias != nullptr) b = rm_load<PART>(bias + start + part);
#pragma unroll
      for (int v = 0; v < PART; v++) {
        W &x = row_values.x[n * V + part + v];
        const W y = centered ? rm_fma(x - m.mean, m.scale, shift) : x * m.scale;
        x = rm_fma(y, w.at[v], b.at[v]);
      }
    }
  }
}

/* ---- rows that fit registers ----------------------------------------------------------------- */

template <int KIND, class D, int V, int N, int LANES>
static inline void rm_softmax_norm(typename D::stored *out, const typename D::stored *a,
                                   const typename D::value *weight, const typename D::value *bias,
                                   long long rows, long long columns, double epsilon) {
  typedef typename D::value W;
  __shared__ W most[RM_MAX_WARPS];
  __shared__ double first[RM_MAX_WARPS], second[2 * RM_MAX_WARPS];
  const int block_rows = LANES == 0 ? 1 : (int)blockDim.x / (LANES == 0 ? 1 : LANES);
  const int group = LANES == 0 ? 0 : (int)threadIdx.x / (LANES == 0 ? 1 : LANES);
  const long long row = (long long)blockIdx.x * block_rows + group;
  /* All lanes take part in all sums. Those without a row have 0 columns. */
  const int own = row < rows ? (int)columns : 0;
  const long long at = row < rows ? row * columns : 0;
  rm_row_values<D, V, N, LANES> row_values;
  row_values.load(a + at, own);
  if (KIND == RM_SOFTMAX) {
    const W max_value = row_values.max(own, most);
    const double sum = row_values.sum(
        own, second, [max_value](W &x, W sum) { return sum + (x = rm_exp_as(D(), x - max_value)); });
#pragma unroll
    for (int i = 0; i < N * V; i++) row_values.x[i] = rm_divide_by_sum(D(), row_values.x[i], sum);
  } else if (KIND == RM_LOG_SOFTMAX) {
    const W max_value = row_values.max(own, most);
    const double sum = row_values.sum(
        own, second, [max_value](W &x, W sum) { return sum + rm_exp_as(D(), x = x - max_value); });
    const W log = rm_log_as(D(), sum);
#pragma unroll
    for (int i = 0; i < N * V; i++) row_values.x[i] -= log;
  } else {
    W reference;
    double sum, squares;
    const bool centered = KIND == RM_LAYER_NORM;
    /* Rounded correctly, so that the norm of equal elements is 0. */
    const double share = 1 / (double)columns;
    rm_sum_moments(row_values, centered, own, share, first, second, &reference, &sum, &squares);
    const rm_moments<W> m = rm_moments_of<D>(centered, (double)reference, sum * share,
                                             squares * share, epsilon);
    rm_normalize(row_values, centered, m, weight, bias, own);
  }
  row_values.store(out + at, own);
}

/* ---- longer rows ----------------------------------------------------------------------------- */

/* The sums of part p of a row. Softmax: the maximum in mean, and the sum of exponentials in
 * squares. Norms: the count, the mean and its rounding error, and the sum of squared differences
 * from the mean. */
struct rm_row_part {
  double count, mean, mean_error, squares;
};
static_assert(sizeof(rm_row_part) == RM_PART_BYTES, "the size of a part");

/* Block p of a row processes the columns from p * length on. */
template <int KIND, class D, int V, int N>
static inline void rm_softmax_norm_parts(rm_row_part *parts, const typename D::stored *a,
                                         long long columns, long long count, long long length) {
  typedef typename D::value W;
  __shared__ W most[RM_MAX_WARPS];
  __shared__ double first[RM_MAX_WARPS], second[2 * RM_MAX_WARPS];
  const long long row = (long long)blockIdx.x / count, part = (long long)blockIdx.x % count;
  const long long from = part * length;
  const long long end = rm_min(from + length, columns);
  const long long chunk = (long long)blockDim.x * N * V;
  const typename D::stored *x = a + row * columns;
  rm_row_part total = {0, 0, 0, 0};
  if (KIND == RM_SOFTMAX || KIND == RM_LOG_SOFTMAX) total.mean = -(double)INFINITY;
  for (long long at = from; at < end; at += chunk) {
    const int own = (int)rm_min(end - at, chunk);
    rm_row_values<D, V, N, 0> row_values;
    row_values.load(x + at, own);
    if (KIND == RM_SOFTMAX || KIND == RM_LOG_SOFTMAX) {
      const W before = (W)total.mean;
      W max_value = row_values.max(own, most);
      max_value = before > max_value ? before : max_value;
      /* Only a row of nothing but -Infinity is NaN. */
      const W by = max_value == (W)-INFINITY ? 0 : max_value;
      const double sum = row_values.sum(own, second, [by](W &x, W sum) { return sum + rm_exp_as(D(), x - by); });
      const double scale = before == max_value ? 1 : rm_exp_f64((double)before - (double)max_value);
      total.squares = total.squares * scale + sum;
      total.mean = (double)max_value;
    } else {
      W reference;
      double sum, squares;
      const double n = (double)own, share = 1 / n;
      rm_sum_moments(row_values, KIND == RM_LAYER_NORM, own, share, first, second, &reference,
                     &sum, &squares);
      const double offset = sum / n;
      if (KIND == RM_RMS_NORM) total.squares += squares;
      else if (at == from) total = {n, (double)reference, offset, squares - n * offset * offset};
      else {
        /* The difference between the two means. */
        const double all = total.count + n;
        const double difference = ((double)reference - total.mean) + (offset - total.mean_error);
        total.squares += squares - n * offset * offset +
                         difference * difference * total.count * n / all;
        total.mean_error += difference * n / all;
        total.count = all;
      }
    }
    /* The next chunk uses the arrays again. */
    __syncthreads();
  }
  if (threadIdx.x == 0) parts[row * count + part] = total;
}

/* The second pass, with as many blocks. Each of them first combines all parts of its row. */
template <int KIND, class D, int V, int N>
static inline void rm_softmax_norm_finish(typename D::stored *out, const typename D::stored *a,
                                          const typename D::value *weight,
                                          const typename D::value *bias, long long columns,
                                          double epsilon, const rm_row_part *parts, long long count,
                                          long long length) {
  typedef typename D::value W;
  typedef rm_lane_group<0> group;
  __shared__ double most[RM_MAX_WARPS], sums[2 * RM_MAX_WARPS];
  const long long row = (long long)blockIdx.x / count, part = (long long)blockIdx.x % count;
  const long long first = part * length;
  const long long end = rm_min(first + length, columns);
  const long long chunk = (long long)blockDim.x * N * V;
  const typename D::stored *x = a + row * columns;
  typename D::stored *y = out + row * columns;
  const rm_row_part *own = parts + row * count;
  const double share = 1 / (double)columns;
  const bool has = (long long)threadIdx.x < count;
  rm_row_part own_part = {0, 0, 0, 0};
  if (has) own_part = own[threadIdx.x];
  W max_value = 0, log = 0;
  double sum = 0;
  rm_moments<W> m = {0, 0, 0};
  if (KIND == RM_SOFTMAX || KIND == RM_LOG_SOFTMAX) {
    max_value = (W)group::max(has ? own_part.mean : -(double)INFINITY, most);
    sum = group::sum(has ? own_part.squares * rm_exp_f64(own_part.mean - (double)max_value) : 0.0,
                     sums);
    log = rm_log_as(D(), sum);
  } else if (KIND == RM_LAYER_NORM) {
    const double reference = own[0].mean;
    const double difference = has ? (own_part.mean - reference) + own_part.mean_error : 0;
    double offset, squares;
    group::sum(own_part.count * difference,
               own_part.squares + own_part.count * difference * difference, sums, &offset,
               &squares);
    m = rm_moments_of<D>(true, reference, offset * share, squares * share, epsilon);
  } else {
    const double squares = group::sum(own_part.squares, sums);
    m = rm_moments_of<D>(false, 0, 0, squares * share, epsilon);
  }
  for (long long at = first; at < end; at += chunk) {
    const int left = (int)rm_min(end - at, chunk);
    rm_row_values<D, V, N, 0> row_values;
    row_values.load(x + at, left);
    if (KIND == RM_SOFTMAX) {
#pragma unroll
      for (int i = 0; i < N * V; i++) {
        row_values.x[i] = rm_divide_by_sum(D(), rm_exp_as(D(), row_values.x[i] - max_value), sum);
      }
    } else if (KIND == RM_LOG_SOFTMAX) {
#pragma unroll
      for (int i = 0; i < N * V; i++) row_values.x[i] = row_values.x[i] - max_value - log;
    } else {
      rm_normalize(row_values, KIND == RM_LAYER_NORM, m, weight == nullptr ? weight : weight + at,
                   bias == nullptr ? bias : bias + at, left);
    }
    row_values.store(y + at, left);
  }
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* One row per group, in blocks of at most THREADS. */
#define RM_SOFTMAX_NORM(name, KIND, D, V, N, LANES, THREADS) \
  extern "C" __global__ void __launch_bounds__(THREADS) \
      name(D::stored *out, const D::stored *a, const D::value *weight, const D::value *bias, \
           long long rows, long long columns, double epsilon) { \
    rm_softmax_norm<KIND, D, V, N, LANES>(out, a, weight, bias, rows, columns, epsilon); \
  }

/* Blocks of a multiprocessor for which the compiler saves registers; 0 where it does so anyway. */
#define RM_PART_BLOCKS(KIND, V) (KIND == RM_LAYER_NORM ? 2 : KIND != RM_RMS_NORM && V == 1 ? 4 : 0)
#define RM_SOFTMAX_NORM_PARTS(name, KIND, D, V, N, THREADS) \
  extern "C" __global__ void __launch_bounds__(THREADS, RM_PART_BLOCKS(KIND, V)) \
      name(rm_row_part *parts, const D::stored *a, long long columns, long long count, \
           long long length) { \
    rm_softmax_norm_parts<KIND, D, V, N>(parts, a, columns, count, length); \
  }

#define RM_SOFTMAX_NORM_FINISH(name, KIND, D, V, N, THREADS) \
  extern "C" __global__ void __launch_bounds__(THREADS) \
      name(D::stored *out, const D::stored *a, const D::value *weight, const D::value *bias, \
           long long columns, double epsilon, const rm_row_part *parts, long long count, \
           long long length) { \
    rm_softmax_norm_finish<KIND, D, V, N>(out, a, weight, bias, columns, epsilon, parts, count, \
                                          length); \
  }

#endif
