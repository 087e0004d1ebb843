/*
 * Plans of Fourier transforms: how a length is computed, and its twiddle factors.
 *
 * A transform of W lanes computes W transforms side by side, by Stockham's algorithm: each element is
 * a vector of real parts and one of imaginary parts, so that no pass moves numbers between lanes. One
 * transform of a composite length is two steps of such transforms, of its columns and of its rows. A
 * length with a large prime factor is a convolution with a chirp (Bluestein).
 */
#ifndef ROWMAJOR_FFT_PLAN_H
#define ROWMAJOR_FFT_PLAN_H

#include "internal.h"

enum {
  FFT_MAX_STAGES = 40,
  /* The largest prime factor that a pass takes. */
  FFT_MAX_RADIX = 31,
  /* From this length on, the factors between the steps are products of two. */
  FFT_FACTORED = 65536,
  /* Real numbers of such lengths are transformed in steps of their own. Longer ones are slower: their
   * columns miss the caches. */
  FFT_REAL_LEAST = 256,
  FFT_REAL_MOST = 65536,
  /* The longest transforms that are computed side by side. */
  FFT_LONGEST_ACROSS = 4096
};

/* The passes of transforms of one length, side by side. */
typedef struct {
  ptrdiff_t length;
  int stages;
  int radix[FFT_MAX_STAGES];
  /* For each pass: for radices above 5 other than 8, the cosines and sines of its roots of unity;
   * then, for each group but in the last pass, radix - 1 factors, as pairs. */
  void *factors;
} fft_lanes;

typedef enum { FFT_COMPLEX, FFT_FROM_REAL, FFT_TO_REAL } fft_kind;

typedef enum {
  /* One transform in one lane. */
  FFT_ONE,
  /* n = columns.length * rows.length: transforms of columns, then of rows. */
  FFT_STEPS,
  /* By a convolution of the length of `inner`. */
  FFT_CHIRP,
  /* A real transform by a complex one of half the length, `inner`. */
  FFT_HALF
} fft_form;

typedef struct fft_plan fft_plan;
struct fft_plan {
  ptrdiff_t n;
  /* The bytes of a number, and numbers in a vector. */
  int bytes, width;
  /* FFT_COMPLEX for transforms of odd length, whatever they are for. */
  fft_kind kind;
  fft_form form;
  fft_lanes columns, rows;
  /* Of the whole length, for many transforms side by side; none for FFT_LONGEST_ACROSS and more. */
  fft_lanes whole;
  /* Between the steps: [blocks of columns][length of columns][vector of re, vector of im]. For long
   * transforms only the first block, and `steps`, [blocks][length of columns], pairs. Columns of real
   * numbers are in blocks of two vectors, have elements 0 to half of their length, and half of the
   * factors. For a chirp, its n pairs; for half the length,
   * n / 4 + 1 pairs. */
  void *twiddles;
  void *steps;
  /* The transform of the chirp, divided by its length, as pairs. */
  void *spectrum;
  fft_plan *inner;
  size_t size;
  int users;
  bool is_cached;
  uint64_t used;
};

/* The plan of a length, made or from the cache; null if there is no memory. Give it back. */
const fft_plan *rm_fft_plan(ptrdiff_t n, int bytes, int width, fft_kind kind);
void rm_fft_give_plan(const fft_plan *plan);

/* How to transform side by side. */
static inline const fft_lanes *rm_fft_side_by_side(const fft_plan *plan) {
  return plan->form == FFT_ONE ? &plan->columns : &plan->whole;
}

/* Memory aligned to 64 bytes that is kept for the next call; null if there is none. */
void *rm_fft_workspace(size_t bytes);
void rm_fft_give_workspace(void *workspace);

#endif
