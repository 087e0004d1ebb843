/*
 * What the files of the elementwise ops share: kernels, and the context of a call.
 */
#ifndef ROWMAJOR_MAP_CONTEXT_H
#define ROWMAJOR_MAP_CONTEXT_H

#include "internal.h"

typedef void (RM_KERNEL *kernel)(ptrdiff_t n, void *out, const void *a, const void *b,
                                 const void *c, const double *attributes);

/* The head of a kernel, for operands a, b and c; most leave some out. */
#define KERNEL_NAMED(name) \
  static RM_KERNEL void name(ptrdiff_t n, void *out, const void *a, \
                             __attribute__((unused)) const void *b, \
                             __attribute__((unused)) const void *c, \
                             __attribute__((unused)) const double *attributes)

/* Elements that kernels take at a time where they leave none over; elements of a block of those that
 * look at their operands first. */
enum { VECTOR = 16, KEYED = 128 };

/* The integer that all elements of a row are divided by, or its power that is taken. */
typedef struct {
  /* 1 / y and 1 / |2 y|. */
  double reciprocal, half;
  uint64_t number;
  /* Of a byte: x / y is the upper half of (t + (x - t) / 2) last, t being that of x magic. */
  uint16_t magic, last;
  /* All ones where elements may be negative. */
  uint64_t sign;
  ptrdiff_t bytes;
  /* Of the dtype. */
  kernel multiply, divide;
} by_integer;

typedef struct {
  rm_walk walk;
  /* Null for a copy, which casts at most. */
  kernel run;
  /* Kernels for one of two operands being one element; null where there are none. */
  const kernel *elements;
  const double *attributes;
  /* The attributes of kernels for one integer, or for two limits. */
  by_integer integer;
  double limits[2];
  /* Whether the kernel takes whole vectors only. */
  bool whole;
  /* The dtypes as stored and as the kernel sees them, the output's first. */
  int stored[RM_MAX_OPERANDS];
  int seen[RM_MAX_OPERANDS];
  /* The 16-bit dtype whose values float32 computes, to which results are rounded; or RM_NONE. */
  int half;
  /* Rows and columns are the last two axes; a plan of one axis has one row. */
  ptrdiff_t rows, columns, positions;
  ptrdiff_t down[RM_MAX_OPERANDS];
  int outer_axes;
  bool tiled;
  /* Whether few rows are copied to or from elements that take turns. */
  bool merges;
  /* Whether the output is so large that it should pass by the caches. */
  bool streams;
  /* How the work is cut: rows and columns for each task, and cuts of a row. */
  ptrdiff_t task_rows, task_columns, cuts;
} job;

/* The kernel of a row for a dtype as it is, or null. */
kernel RM_AT(map_kernel)(int opcode, int compute);

/* Those for either of two operands being one element, or null; they may be null themselves. */
const kernel *RM_AT(map_element_kernels)(int opcode, int compute);

typedef enum { NOT_SIMPLIFIED, CHEAP, STILL_HEAVY } simplified;

/* Replaces an op whose operands but for the first are one number each by a cheaper kernel, if there
 * is one, and says how much its elements cost then. */
simplified RM_AT(map_simplify)(job *it, int opcode, int work);

#endif
