/*
 * Compensated sums.
 */
#ifndef ROWMAJOR_TWO_SUM_H
#define ROWMAJOR_TWO_SUM_H

/* Knuth's TwoSum. Adds the rounding error of sum + x to error. */
static inline void two_sum(double *sum, double *error, double x) {
  double s = *sum + x, w = s - *sum;
  *error += (*sum - (s - w)) + (x - w);
  *sum = s;
}

/* After an infinity the error is NaN, and the plain sum is right. So it is without an error: a
 * product of -0 keeps its sign. */
static inline double compensated_sum(double sum, double error) {
  return error != 0 && error - error == 0 ? sum + error : sum;
}

#endif
