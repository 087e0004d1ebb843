/*
 * What the kernels of complex numbers share.
 */
#ifndef ROWMAJOR_COMPLEX_H
#define ROWMAJOR_COMPLEX_H

#include <stddef.h>

/* The most elements of a block, whose parts are stored apart. */
enum { RM_COMPLEX_BLOCK = 128 };

/* Op RM_COMPLEX_... of n numbers, at most RM_COMPLEX_BLOCK, one after the other: for any operands.
 * yr is null for ops of one operand. The outputs may be the inputs. */
void rm_complex_block_f32(int op, ptrdiff_t n, const float *xr, const float *xi, const float *yr,
                          const float *yi, float *re, float *im);
void rm_complex_block_f64(int op, ptrdiff_t n, const double *xr, const double *xi, const double *yr,
                          const double *yi, double *re, double *im);

#endif
