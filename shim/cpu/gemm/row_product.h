/*
 * The numbers of calls of products of rows with a weight, and operands that are options.
 */
#ifndef ROWMAJOR_ROW_PRODUCT_H
#define ROWMAJOR_ROW_PRODUCT_H

#include "internal.h"

enum {
  ROWS,
  COLUMNS,
  DEPTH,
  ACTIVATION,
  OUT_OFFSET,
  OUT_STRIDE,
  X_OFFSET,
  X_STRIDE,
  BIAS_BUFFER,
  BIAS_OFFSET,
  ADD_BUFFER,
  ADD_OFFSET,
  ADD_STRIDE,
  ROW_NUMBERS
};

#endif
