/*
 * LAPACK of the open BLAS.
 */
#ifndef ROWMAJOR_LAPACK_H
#define ROWMAJOR_LAPACK_H

#include "linalg.h"

/* Of complex matrices, ORGQR is ungqr and SYEVD heevd. */
enum {
  RM_POTRF,
  RM_GESV,
  RM_GEQRF,
  RM_ORGQR,
  RM_SYEVD,
  RM_GESDD,
  RM_GEEV,
  RM_LAPACK_ROUTINES
};

/* A routine for an element type, or null (cpu/blas.c). */
void *rm_lapack_routine(int routine, int type);

/* Calls a function while no other thread uses the library. With `is_alone`, the function may call it
 * from several threads, each of which runs alone. False if the process exits. */
bool rm_lapack_call(void (*body)(void *data), void *data, bool is_alone);

/* Whether the matrices of a call go to LAPACK: it is there, and faster than own code. */
bool rm_lapack_takes(const rm_linalg *ctx);

/* Computes a matrix of a call that rm_lapack_takes, and writes its results. False if there are none,
 * for which own code gives the reason, or if own code is better for its numbers. */
bool rm_lapack_run(const rm_linalg *ctx, ptrdiff_t index);

#endif
