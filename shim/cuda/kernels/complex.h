/*
 * Elementwise ops on complex numbers, as in shim/cpu/complex: floats in pairs.
 *
 * Operands are at most RM_MAX_AXES axes of pairs; strides count floats. Functions are computed in
 * double.
 */
#ifndef ROWMAJOR_CUDA_COMPLEX_H
#define ROWMAJOR_CUDA_COMPLEX_H

#include "device.h"
#include "complex_ops.h"

/* Defined by the source that includes this header: see src/backend/cuda/source/constants.ts. */
#if !defined(RM_COMPLEX_MUL)
#error "complex.h needs the constants of src/backend/cuda/source/constants.ts"
#endif

/* An axis: its size, and the strides of the output and the operands. */
struct rm_complex_axis {
  long long size, out, x, y;
};

/* At most R axes, outermost first. */
template <int R>
struct rm_complex_axes {
  long long rank;
  rm_complex_axis at[R];
};

static inline void rm_complex_store(float *out, rm_complex z, bool pair) {
  out[0] = (float)z.re;
  if (pair) out[1] = (float)z.im;
}
static inline void rm_complex_store(double *out, rm_complex z, bool pair) {
  out[0] = z.re;
  if (pair) out[1] = z.im;
}
static inline void rm_complex_store(uint8_t *out, rm_complex z, bool) { out[0] = z.re != 0; }

template <int OP, int R, typename T, typename O>
static inline void rm_complex_map(O *out, const T *x, const T *y, long long count,
                                  const rm_complex_axes<R> &axes) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = rm_global_index(); i < count; i += step) {
    long long rest = i, to = 0, from = 0, beside = 0;
    for (int j = (int)axes.rank - 1; j > 0; j--) {
      const rm_complex_axis &axis = axes.at[j];
      const long long next = rest / axis.size, along = rest - next * axis.size;
      rest = next;
      to += along * axis.out;
      from += along * axis.x;
      beside += along * axis.y;
    }
    to += rest * axes.at[0].out;
    from += rest * axes.at[0].x;
    beside += rest * axes.at[0].y;
    const rm_complex a = rm_c((double)x[from], (double)x[from + 1]);
    const rm_complex b =
        y == 0 ? rm_c(0, 0) : rm_c((double)y[beside], (double)y[beside + 1]);
    rm_complex_store(out + to, rm_complex_value(OP, a, b, sizeof(T) == 8), OP < RM_COMPLEX_ABS);
  }
}

#define RM_COMPLEX_KERNEL(name, OP, R, T, O) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) \
      name(O *out, const T *x, const T *y, long long count, rm_complex_axes<R> axes) { \
    rm_complex_map<OP, R>(out, x, y, count, axes); \
  }

#endif
