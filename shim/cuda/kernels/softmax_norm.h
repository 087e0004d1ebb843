/*
 * Softmax, its logarithm, layer norm and RMS norm along dense rows of floats: what shim/rows.c does,
 * with a row in the registers of some lanes of a warp, or of a block. Longer rows are cut into parts,
 * one for each block: one pass sums them up, a second one reads them again.
 *
 * A row of softmax is shifted by its largest element. Norms sum the differences from the mean of
 * what a thread group holds, and what that lost when it was rounded: a large mean costs the variance
 * no digits. Groups of lanes add in the dtype that is computed in, some 40 numbers at most one after
 * the other; all beyond is added in double.
 */
#ifndef ROWMAJOR_CUDA_ROWS_H
#define ROWMAJOR_CUDA_ROWS_H

#include "block.h"
#include "vecmath.h"

/* Defined by the source that includes this: see src/backend/cuda/constants.ts. */
#if !defined(RM_PART_BYTES)
#error "softmax_norm.h needs the constants of src/backend/cuda/constants.ts"
#endif

enum { RM_SOFTMAX, RM_LOG_SOFTMAX, RM_LAYER_NORM, RM_RMS_NORM };

/* e^x for x up to 0, to far more digits than 16-bit floats have. */
static inline float rm_exp_short(float x) {
#if defined(RM_EMULATED)
  return rm_exp_f32(x);
#else
  float power;
  asm("ex2.approx.f32 %0, %1;" : "=f"(power) : "f"(x * 0x1.715476p+0f));
  return power;
#endif
}

static inline float rm_power(rm_f16, float x) { return rm_exp_short(x); }
static inline float rm_power(rm_bf16, float x) { return rm_exp_short(x); }
static inline float rm_power(rm_f32, float x) { return rm_exp_f32(x); }
static inline double rm_power(rm_f64, double x) { return rm_exp_f64(x); }

/* The reciprocal is exact to half a unit, which only float64 cannot spare. */
static inline float rm_share(float x, double sum) { return x * (float)(1 / sum); }
static inline double rm_share(double x, double sum) { return x / sum; }

static inline float rm_fma(float a, float b, float c) { return rm_fma_f32(a, b, c); }
static inline double rm_fma(double a, double b, double c) { return rm_fma_f64(a, b, c); }

/* Who works on a row: LANES of a warp, or, where that is 0, the block. */
template <int LANES>
struct rm_team {
  static inline int size(void) { return LANES; }
  static inline int place(void) { return rm_lane() & (LANES - 1); }
  template <class W>
  static inline double sum(W x, double *) {
    return (double)rm_lanes_sum<LANES>(x);
  }
  template <class W>
  static inline W largest(W x, double *) {
    return rm_lanes_largest<LANES>(x);
  }
};
template <>
struct rm_team<0> {
  static inline int size(void) { return (int)blockDim.x; }
  static inline int place(void) { return (int)threadIdx.x; }
  template <class W>
  static inline double sum(W x, double *room) {
    const W warp = rm_lanes_sum<RM_WARP>(x);
    if (rm_lane() == 0) room[rm_warp()] = (double)warp;
    __syncthreads();
    double all = 0;
    for (int w = 0; w < rm_warps(); w++) all += room[w];
    __syncthreads();
    return all;
  }
  template <class W>
  static inline W largest(W x, double *room) {
    const W warp = rm_lanes_largest<RM_WARP>(x);
    if (rm_lane() == 0) room[rm_warp()] = (double)warp;
    __syncthreads();
    W most = (W)room[0];
    for (int w = 1; w < rm_warps(); w++) most = (W)room[w] > most ? (W)room[w] : most;
    __syncthreads();
    return most;
  }
};

/* What a thread holds of a row: N groups of V neighbours. */
template <class D, int V, int N, int LANES>
struct rm_held {
  typedef typename D::stored stored;
  typedef typename D::value value;
  typedef rm_team<LANES> team;
  value x[N * V];

  /* Where group n begins. */
  static inline int start(int n) { return (n * team::size() + team::place()) * V; }

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

  /* Ignores NaN, which the shift brings back. */
  inline value largest(int columns, double *room) const {
    value most = (value)-INFINITY;
#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
      for (int v = 0; v < V; v++) {
        const value one = x[n * V + v];
        most = one > most && start(n) < columns ? one : most;
      }
    }
    return team::largest(most, room);
  }

  /* The sum of what f makes of each element, which may change it. */
  template <class F>
  inline double sum(int columns, double *room, F f) {
    value sums[4] = {0, 0, 0, 0};
#pragma unroll
    for (int n = 0; n < N; n++) {
      if (start(n) >= columns) continue;
#pragma unroll
      for (int v = 0; v < V; v++) sums[(n * V + v) & 3] += f(x[n * V + v]);
    }
    return team::sum((sums[0] + sums[1]) + (sums[2] + sums[3]), room);
  }
};

/* The mean of a row in two parts, so that it has more digits than one number, and the reciprocal
 * of the root of the variance. */
template <class W>
struct rm_moments {
  W mean, rest, scale;
};

/* off and square are the means of the differences from near, and of their squares. */
template <class W>
static inline rm_moments<W> rm_moments_of(bool centred, double near, double off, double square,
                                          double epsilon) {
  rm_moments<W> m = {0, 0, 0};
  if (centred) {
    m.mean = (W)(near + off);
    m.rest = (W)(near - (double)m.mean + off);
    /* Rounding may have left less than nothing of it. */
    square = square < off * off ? 0 : square - off * off;
  }
  m.scale = (W)(1 / rm_sqrt_f64((double)((W)square + (W)epsilon)));
  return m;
}

/* The sums of the differences from near, and of their squares; near is the mean but for rounding,
 * or 0 where the norm has none. */
template <class H>
static inline void rm_sum_moments(H &held, bool centred, int columns, double *room,
                                  typename H::value *near, double *sum, double *squares) {
  typedef typename H::value W;
  *near = 0;
  *sum = 0;
  if (centred) {
    /* Scaled, so that the sums of lanes do not overflow where the mean would not. */
    const double scaled = held.sum(columns, room, [](W &x) { return x * (W)0x1p-11; });
    *near = (W)(scaled / (double)columns * 0x1p11);
    const W by = *near;
    *sum = held.sum(columns, room, [by](W &x) { return x - by; });
  }
  const W by = *near;
  *squares = held.sum(columns, room, [by](W &x) { return (x - by) * (x - by); });
}

/* What the text loads after this is not loaded before it, where it would take registers from what
 * threads hold. */
static inline void rm_load_later(void) {
#if !defined(RM_EMULATED)
  asm volatile("" ::: "memory");
#endif
}

/* Weight and bias are those of what held begins with. */
template <class D, int V, int N, int LANES>
static inline void rm_normalise(rm_held<D, V, N, LANES> &held, rm_moments<typename D::value> m,
                                const typename D::value *weight, const typename D::value *bias,
                                int columns) {
  typedef typename D::value W;
#pragma unroll
  for (int n = 0; n < N; n++) {
    const int start = held.start(n);
    if (n % 4 == 0) rm_load_later();
    if (start >= columns) continue;
    /* At most 16 bytes at a time. */
    const int PART = V * sizeof(W) > 16 ? 16 / sizeof(W) : V;
#pragma unroll
    for (int part = 0; part < V; part += PART) {
      typedef rm_pack<W, PART> pack;
      pack w, b;
      if (weight != nullptr) w = rm_load<PART>(weight + start + part);
      if (bias != nullptr) b = rm_load<PART>(bias + start + part);
#pragma unroll
      for (int v = 0; v < PART; v++) {
        W &x = held.x[n * V + part + v];
        const W y = (x - m.mean - m.rest) * m.scale;
        if (weight != nullptr && bias != nullptr) x = rm_fma(y, w.at[v], b.at[v]);
        else if (weight != nullptr) x = y * w.at[v];
        else if (bias != nullptr) x = y + b.at[v];
        else x = y;
      }
    }
  }
}

/* ---- rows that registers hold ------------------------------------------------------------------ */

template <int KIND, class D, int V, int N, int LANES>
static inline void rm_rows_held(typename D::stored *out, const typename D::stored *a,
                                const typename D::value *weight, const typename D::value *bias,
                                long long rows, long long columns, double epsilon) {
  typedef typename D::value W;
  __shared__ double room[RM_MOST_WARPS];
  const int teams = LANES == 0 ? 1 : (int)blockDim.x / (LANES == 0 ? 1 : LANES);
  const int team = LANES == 0 ? 0 : (int)threadIdx.x / (LANES == 0 ? 1 : LANES);
  const long long row = (long long)blockIdx.x * teams + team;
  /* All lanes take part in all sums: those without a row have one of no columns. */
  const int own = row < rows ? (int)columns : 0;
  const long long at = row < rows ? row * columns : 0;
  rm_held<D, V, N, LANES> held;
  held.load(a + at, own);
  if (KIND == RM_SOFTMAX) {
    const W most = held.largest(own, room);
    const double sum = held.sum(own, room, [most](W &x) { return x = rm_power(D(), x - most); });
#pragma unroll
    for (int i = 0; i < N * V; i++) held.x[i] = rm_share(held.x[i], sum);
  } else if (KIND == RM_LOG_SOFTMAX) {
    const W most = held.largest(own, room);
    const double sum = held.sum(own, room, [most](W &x) { return rm_power(D(), x = x - most); });
    const W log = (W)rm_log_f64(sum);
#pragma unroll
    for (int i = 0; i < N * V; i++) held.x[i] -= log;
  } else {
    W near;
    double sum, squares;
    const bool centred = KIND == RM_LAYER_NORM;
    rm_sum_moments(held, centred, own, room, &near, &sum, &squares);
    const double n = (double)columns;
    const rm_moments<W> m = rm_moments_of<W>(centred, (double)near, sum / n, squares / n, epsilon);
    rm_normalise(held, m, weight, bias, own);
  }
  held.store(out + at, own);
}

/* ---- longer rows ------------------------------------------------------------------------------- */

/* Of part p of a row: the largest element and the sum of the powers, or the count, the mean and
 * what that lost, and the sum of squared differences from the mean in two parts. */
struct rm_part {
  double count, mean, rest, squares;
};
static_assert(sizeof(rm_part) == RM_PART_BYTES, "the size of a part");

/* Block p of a row sums up the columns from p * length on. */
template <int KIND, class D, int V, int N>
static inline void rm_rows_parts(rm_part *parts, const typename D::stored *a, long long columns,
                                 long long count, long long length) {
  typedef typename D::value W;
  __shared__ double room[RM_MOST_WARPS];
  const long long row = (long long)blockIdx.x / count, part = (long long)blockIdx.x % count;
  const long long first = part * length;
  const long long end = rm_min(first + length, columns);
  const long long chunk = (long long)blockDim.x * N * V;
  const typename D::stored *x = a + row * columns;
  rm_part total = {0, 0, 0, 0};
  if (KIND == RM_SOFTMAX || KIND == RM_LOG_SOFTMAX) total.mean = -(double)INFINITY;
  for (long long at = first; at < end; at += chunk) {
    const int own = (int)rm_min(end - at, chunk);
    rm_held<D, V, N, 0> held;
    held.load(x + at, own);
    if (KIND == RM_SOFTMAX || KIND == RM_LOG_SOFTMAX) {
      const W before = (W)total.mean;
      W most = held.largest(own, room);
      most = before > most ? before : most;
      /* Only a whole row of nothing but minus infinity is NaN. */
      const W by = most == (W)-INFINITY ? 0 : most;
      const double sum = held.sum(own, room, [by](W &x) { return rm_power(D(), x - by); });
      const double scale = before == most ? 1 : rm_exp_f64((double)before - (double)most);
      total.squares = total.squares * scale + sum;
      total.mean = (double)most;
    } else {
      W near;
      double sum, squares;
      rm_sum_moments(held, KIND == RM_LAYER_NORM, own, room, &near, &sum, &squares);
      const double n = (double)own, off = sum / n;
      if (KIND == RM_RMS_NORM) total.squares += squares;
      else if (at == first) total = {n, (double)near, off, squares - n * off * off};
      else {
        /* The two means differ by so much. */
        const double all = total.count + n;
        const double apart = ((double)near - total.mean) + (off - total.rest);
        total.squares += squares - n * off * off + apart * apart * total.count * n / all;
        total.rest += apart * n / all;
        total.count = all;
      }
    }
  }
  if (threadIdx.x == 0) parts[row * count + part] = total;
}

/* The other pass: as many blocks, each of which puts all parts of its row together first. */
template <int KIND, class D, int V, int N>
static inline void rm_rows_whole(typename D::stored *out, const typename D::stored *a,
                                 const typename D::value *weight, const typename D::value *bias,
                                 long long columns, double epsilon, const rm_part *parts,
                                 long long count, long long length) {
  typedef typename D::value W;
  typedef rm_team<0> team;
  __shared__ double room[RM_MOST_WARPS];
  const long long row = (long long)blockIdx.x / count, part = (long long)blockIdx.x % count;
  const long long first = part * length;
  const long long end = rm_min(first + length, columns);
  const long long chunk = (long long)blockDim.x * N * V;
  const typename D::stored *x = a + row * columns;
  typename D::stored *y = out + row * columns;
  const rm_part *own = parts + row * count;
  const bool has = (long long)threadIdx.x < count;
  rm_part mine = {0, 0, 0, 0};
  if (has) mine = own[threadIdx.x];
  W most = 0, log = 0;
  double sum = 0;
  rm_moments<W> m = {0, 0, 0};
  if (KIND == RM_SOFTMAX || KIND == RM_LOG_SOFTMAX) {
    most = (W)team::largest(has ? mine.mean : -(double)INFINITY, room);
    sum = team::sum(has ? mine.squares * rm_exp_f64(mine.mean - (double)most) : 0.0, room);
    log = (W)rm_log_f64(sum);
  } else if (KIND == RM_LAYER_NORM) {
    const double near = own[0].mean, n = (double)columns;
    const double apart = has ? (mine.mean - near) + mine.rest : 0;
    const double off = team::sum(mine.count * apart, room) / n;
    const double squares = team::sum(mine.squares + mine.count * apart * apart, room) / n;
    m = rm_moments_of<W>(true, near, off, squares, epsilon);
  } else {
    const double squares = team::sum(mine.squares, room) / (double)columns;
    m = rm_moments_of<W>(false, 0, 0, squares, epsilon);
  }
  for (long long at = first; at < end; at += chunk) {
    const int left = (int)rm_min(end - at, chunk);
    rm_held<D, V, N, 0> held;
    held.load(x + at, left);
    if (KIND == RM_SOFTMAX) {
#pragma unroll
      for (int i = 0; i < N * V; i++) {
        held.x[i] = rm_share(rm_power(D(), held.x[i] - most), sum);
      }
    } else if (KIND == RM_LOG_SOFTMAX) {
#pragma unroll
      for (int i = 0; i < N * V; i++) held.x[i] = held.x[i] - most - log;
    } else {
      rm_normalise(held, m, weight == nullptr ? weight : weight + at,
                   bias == nullptr ? bias : bias + at, left);
    }
    held.store(y + at, left);
  }
}

/* ---- kernels ----------------------------------------------------------------------------------- */

/* Rows of a team each, in blocks of at most THREADS. */
#define RM_ROWS_HELD(name, KIND, D, V, N, LANES, THREADS)                                          \
  extern "C" __global__ void __launch_bounds__(THREADS) name(                                      \
      D::stored *out, const D::stored *a, const D::value *weight, const D::value *bias,              \
      long long rows, long long columns, double epsilon) {                                         \
    rm_rows_held<KIND, D, V, N, LANES>(out, a, weight, bias, rows, columns, epsilon);              \
  }

#define RM_ROWS_PARTS(name, KIND, D, V, N, THREADS)                                                \
  extern "C" __global__ void __launch_bounds__(THREADS)                                            \
      name(rm_part *parts, const D::stored *a, long long columns, long long count,                 \
           long long length) {                                                                     \
    rm_rows_parts<KIND, D, V, N>(parts, a, columns, count, length);                                \
  }

#define RM_ROWS_WHOLE(name, KIND, D, V, N, THREADS)                                                \
  extern "C" __global__ void __launch_bounds__(THREADS)                                            \
      name(D::stored *out, const D::stored *a, const D::value *weight, const D::value *bias,         \
           long long columns, double epsilon, const rm_part *parts, long long count,               \
           long long length) {                                                                     \
    rm_rows_whole<KIND, D, V, N>(out, a, weight, bias, columns, epsilon, parts, count, length);    \
  }

#endif
