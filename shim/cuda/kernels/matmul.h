/*
 * Matrix products with any strides, for dtypes that cuBLAS lacks and for machines without cuBLAS.
 *
 * Each block of RM_THREADS threads computes a tile of RM_MATMUL_TILE x RM_MATMUL_TILE elements, in
 * steps of RM_DEPTH along the sum, which pass through shared memory. Integers wrap. 16-bit floats
 * are summed in float32.
 */
#ifndef ROWMAJOR_CUDA_MATMUL_H
#define ROWMAJOR_CUDA_MATMUL_H

#include "block.h"

/* Defined by the source that includes this header: see src/backend/cuda/source/constants.ts. */
#if !defined(RM_MATMUL_TILE)
#error "matmul.h needs the constants of src/backend/cuda/source/constants.ts"
#endif

enum { RM_DEPTH = 16, RM_THREAD_TILE = 4, RM_BLOCK_SIDE = RM_MATMUL_TILE / RM_THREAD_TILE };
static_assert(RM_BLOCK_SIDE * RM_BLOCK_SIDE == RM_THREADS, "threads of a block that multiplies");

/* Narrow integers are summed in 32 bits. The low bits of a sum do not depend on higher ones. */
template <class T, class W>
struct rm_integer {
  typedef T stored;
  typedef W value;
  static inline W get(T x) { return (W)x; }
  static inline T put(W x) { return (T)x; }
};

/* A batch of matrices. Matrix i starts at offsets[i] or, without offsets, at i * step. */
struct rm_matrix {
  void *at;
  long long row, column, step;
  const long long *offsets;
  inline long long start(long long i) const { return offsets == nullptr ? i * step : offsets[i]; }
};

/* Loads RM_MATMUL_TILE lines of RM_DEPTH elements into lines[depth][line]. Elements beyond `count`
 * lines and `deep` elements are 0. Adjacent threads load adjacent elements. */
template <class D>
static inline void rm_read_tile(typename D::value (*lines)[RM_MATMUL_TILE + 1],
                                const typename D::stored *x, long long line_step,
                                long long depth_step, long long count, long long deep) {
  const int t = (int)threadIdx.x, each = RM_BLOCK_SIDE * RM_BLOCK_SIDE;
  const bool along = depth_step == 1;
  const int l = along ? t / RM_DEPTH : t % RM_MATMUL_TILE,
            d = along ? t % RM_DEPTH : t / RM_MATMUL_TILE;
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
  const int x = (int)threadIdx.x % RM_BLOCK_SIDE, y = (int)threadIdx.x / RM_BLOCK_SIDE;
  const long long across = (n + RM_MATMUL_TILE - 1) / RM_MATMUL_TILE;
  const long long top = (long long)blockIdx.x / across * RM_MATMUL_TILE;
  const long long side = (long long)blockIdx.x % across * RM_MATMUL_TILE;
  for (long long matrix = blockIdx.y; matrix < batch; matrix += gridDim.y) {
    const T *from_a = (const T *)a.at + a.start(matrix) + top * a.row;
    const T *from_b = (const T *)b.at + b.start(matrix) + side * b.column;
    T *to = (T *)c.at + c.start(matrix);
    W sums[RM_THREAD_TILE][RM_THREAD_TILE];
#pragma unroll
    for (int i = 0; i < RM_THREAD_TILE; i++) {
#pragma unroll
      for (int j = 0; j < RM_THREAD_TILE; j++) sums[i][j] = 0;
    }
    for (long long depth = 0; depth < k; depth += RM_DEPTH) {
      rm_read_tile<D>(left, from_a + depth * a.column, a.row, a.column, m - top, k - depth);
      rm_read_tile<D>(right, from_b + depth * b.row, b.column, b.row, n - side, k - depth);
      __syncthreads();
#pragma unroll
      for (int d = 0; d < RM_DEPTH; d++) {
        W l[RM_THREAD_TILE], r[RM_THREAD_TILE];
#pragma unroll
        for (int i = 0; i < RM_THREAD_TILE; i++) l[i] = left[d][y + i * RM_BLOCK_SIDE];
#pragma unroll
        for (int j = 0; j < RM_THREAD_TILE; j++) r[j] = right[d][x + j * RM_BLOCK_SIDE];
#pragma unroll
        for (int i = 0; i < RM_THREAD_TILE; i++) {
#pragma unroll
          for (int j = 0; j < RM_THREAD_TILE; j++) {
            sums[i][j] = rm_multiply_add(l[i], r[j], sums[i][j]);
          }
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < RM_THREAD_TILE; i++) {
      const long long row = top + y + i * RM_BLOCK_SIDE;
#pragma unroll
      for (int j = 0; j < RM_THREAD_TILE; j++) {
        const long long column = side + x + j * RM_BLOCK_SIDE;
        if (row < m && column < n) to[row * c.row + column * c.column] = D::put(sums[i][j]);
      }
    }
  }
}

#define RM_MULTIPLY(name, ...) \
  extern "C" __global__ void __launch_bounds__(RM_BLOCK_SIDE *RM_BLOCK_SIDE, 2) \
      name(rm_matrix c, rm_matrix a, rm_matrix b, long long m, long long n, long long k, \
           long long batch) { \
    rm_multiply<__VA_ARGS__>(c, a, b, m, n, k, batch); \
  }

#endif
