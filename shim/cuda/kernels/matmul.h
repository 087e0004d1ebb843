/*
 * Products of matrices of any strides, for the dtypes that cuBLAS has not, and where it is missing.
 *
 * A block of 256 threads makes 64 by 64 elements of a product, in steps of 16 along the sum, which
 * pass through shared memory. Integers wrap; 16-bit floats are added up in float32.
 */
#ifndef ROWMAJOR_CUDA_MATMUL_H
#define ROWMAJOR_CUDA_MATMUL_H

#include "block.h"

/* Defined by the source that includes this: see src/backend/cuda/constants.ts. */
#if !defined(RM_MATMUL_TILE)
#error "matmul.h needs the constants of src/backend/cuda/constants.ts"
#endif

enum { RM_DEPTH = 16, RM_EACH = 4, RM_SIDE = RM_MATMUL_TILE / RM_EACH };
static_assert(RM_SIDE * RM_SIDE == RM_THREADS, "threads of a block that multiplies");

/* Integers of up to 32 bits are added up in 32, as the lower bits of a sum depend on no others. */
template <class T, class W>
struct rm_integer {
  typedef T stored;
  typedef W value;
  static inline W get(T x) { return (W)x; }
  static inline T put(W x) { return (T)x; }
};

/* Where matrix i of a batch begins: offsets[i], or, where there are none, i * step. */
struct rm_matrix {
  void *at;
  long long row, column, step;
  const long long *offsets;
  inline long long start(long long i) const { return offsets == nullptr ? i * step : offsets[i]; }
};

/* Reads TILE lines of DEPTH elements into lines[depth][line], 0 for those beyond `count` lines and
 * `deep` elements; neighbours are read by neighbours. */
template <class D>
static inline void rm_read_tile(typename D::value (*lines)[RM_MATMUL_TILE + 1],
                                const typename D::stored *x, long long line_step,
                                long long depth_step, long long count, long long deep) {
  const int t = (int)threadIdx.x, each = RM_SIDE * RM_SIDE;
  const bool along = depth_step == 1;
  const int l = along ? t / RM_DEPTH : t % RM_MATMUL_TILE, d = along ? t % RM_DEPTH : t / RM_MATMUL_TILE;
  const int next_l = along ? each / RM_DEPTH : 0, next_d = along ? 0 : each / RM_MATMUL_TILE;
  const typename D::stored *from = x + l * line_step + d * depth_step;
  const long long next = next_l * line_step + next_d * depth_step;
#pragma unroll
  for (int i = 0; i < RM_MATMUL_TILE * RM_DEPTH / each; i++, from += next) {
    const int line = l + i * next_l, depth = d + i * next_d;
    const bool inside = line < count && depth < deep;
    lines[depth][line] = inside ? D::get(*from) : (typename D::value)0;
  }
}

template <class W>
static inline W rm_multiply_add(W x, W y, W sum) {
  return sum + x * y;
}
static inline float rm_multiply_add(float x, float y, float sum) { return fmaf(x, y, sum); }
static inline double rm_multiply_add(double x, double y, double sum) { return fma(x, y, sum); }

template <class D>
static inline void rm_multiply(rm_matrix c, rm_matrix a, rm_matrix b, long long m, long long n,
                               long long k, long long batch) {
  typedef typename D::stored T;
  typedef typename D::value W;
  __shared__ W left[RM_DEPTH][RM_MATMUL_TILE + 1], right[RM_DEPTH][RM_MATMUL_TILE + 1];
  const int x = (int)threadIdx.x % RM_SIDE, y = (int)threadIdx.x / RM_SIDE;
  const long long across = (n + RM_MATMUL_TILE - 1) / RM_MATMUL_TILE;
  const long long top = (long long)blockIdx.x / across * RM_MATMUL_TILE;
  const long long side = (long long)blockIdx.x % across * RM_MATMUL_TILE;
  for (long long matrix = blockIdx.y; matrix < batch; matrix += gridDim.y) {
    const T *from_a = (const T *)a.at + a.start(matrix) + top * a.row;
    const T *from_b = (const T *)b.at + b.start(matrix) + side * b.column;
    T *to = (T *)c.at + c.start(matrix);
    W sums[RM_EACH][RM_EACH];
#pragma unroll
    for (int i = 0; i < RM_EACH; i++) {
#pragma unroll
      for (int j = 0; j < RM_EACH; j++) sums[i][j] = 0;
    }
    for (long long depth = 0; depth < k; depth += RM_DEPTH) {
      rm_read_tile<D>(left, from_a + depth * a.column, a.row, a.column, m - top, k - depth);
      rm_read_tile<D>(right, from_b + depth * b.row, b.column, b.row, n - side, k - depth);
      __syncthreads();
#pragma unroll
      for (int d = 0; d < RM_DEPTH; d++) {
        W l[RM_EACH], r[RM_EACH];
#pragma unroll
        for (int i = 0; i < RM_EACH; i++) l[i] = left[d][y + i * RM_SIDE];
#pragma unroll
        for (int j = 0; j < RM_EACH; j++) r[j] = right[d][x + j * RM_SIDE];
#pragma unroll
        for (int i = 0; i < RM_EACH; i++) {
#pragma unroll
          for (int j = 0; j < RM_EACH; j++) sums[i][j] = rm_multiply_add(l[i], r[j], sums[i][j]);
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < RM_EACH; i++) {
      const long long row = top + y + i * RM_SIDE;
#pragma unroll
      for (int j = 0; j < RM_EACH; j++) {
        const long long column = side + x + j * RM_SIDE;
        if (row < m && column < n) to[row * c.row + column * c.column] = D::put(sums[i][j]);
      }
    }
  }
}

#define RM_MULTIPLY(name, ...)                                                                     \
  extern "C" __global__ void __launch_bounds__(RM_SIDE *RM_SIDE, 2)                                 \
      name(rm_matrix c, rm_matrix a, rm_matrix b, long long m, long long n, long long k,           \
           long long batch) {                                                                      \
    rm_multiply<__VA_ARGS__>(c, a, b, m, n, k, batch);                                             \
  }

#endif
