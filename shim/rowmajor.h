/*
 * The public interface of the rowmajor shim: a flat C ABI of few, opcode-style symbols.
 *
 * Every function that can fail gives a status and leaves a message for rm_last_error; none aborts
 * or prints. Nothing here keeps a pointer that it was given. The caller has checked that every plan
 * stays inside its buffers: sizes, offsets and strides are in elements and are not checked again.
 * Opcodes and dtypes are the ids of the op table (ops.def) and of the dtypes in TypeScript.
 */
#ifndef ROWMAJOR_H
#define ROWMAJOR_H

#include <stdint.h>

#if defined(_WIN32)
#define RM_API __declspec(dllexport)
#else
#define RM_API __attribute__((visibility("default")))
#endif

/* Changes with the meaning of any function below. */
#define RM_VERSION 1

/* What the functions return. */
enum {
  RM_OK = 0,
  /* This build has no kernel for the call, and nothing was written: use another backend. */
  RM_UNSUPPORTED = 1,
  RM_BAD_ARGUMENT = 2,
  RM_NOT_FOUND = 3
};

/* RM_VERSION of the library. */
RM_API int32_t rm_version(void);

/* A hash of the op table, the dtypes and these declarations; the caller compares it with its own. */
RM_API int32_t rm_table_hash(void);

/* Copies this thread's last message, ended by a 0 and cut to length bytes; gives its full length. */
RM_API int32_t rm_last_error(void *buffer, int32_t length);

/* What rm_configure sets. */
enum {
  /* Threads, 0 for as many as the machine has; gives how many there are now. */
  RM_THREADS = 0,
  /* The instruction set: 0 for the best, 2 to 4 for x86-64-v2 to -v4; gives the one in use, 1 for
   * machines that are no x86-64. One that the machine lacks changes nothing. */
  RM_LEVEL_SET = 1,
  /* 1 when threads share all that can be cut, however short, as tests want it; else 0. */
  RM_SHARE_ALL = 2
};

/* Sets one thing for the process; a negative value only asks. */
RM_API int32_t rm_configure(int32_t what, int32_t value);

/*
 * out = row(a, b, c) for every element. dtypes holds five ids of four bits each, lowest first: that
 * of the arithmetic, then those of out, a, b and c, 15 where there is no operand. The plan is
 * [rank, operands, 4 attributes, offsets.., shape.., strides of out.., of a.., ..]. An input may be
 * out itself when both have the same strides and offset.
 */
RM_API int32_t rm_map(int32_t opcode, int32_t dtypes, const double *plan, void *out,
                      const void *a, const void *b, const void *c);

/*
 * Folds a (and b) into out; c's dtype is 15. The opcode says whether it is a reduction, an index
 * reduction (out is int32, a position in the plan's order) or a scan (out has a stride along every
 * axis). The first kept axes of the plan are those of out.
 */
RM_API int32_t rm_fold(int32_t opcode, int32_t dtypes, int32_t kept, const double *plan,
                       void *out, const void *a, const void *b);

/*
 * Works along dense rows of a, of a float dtype, into dense rows of out, which may be those of a.
 * Kinds: 0 softmax, 1 its logarithm, 2 layer norm, 3 RMS norm. The norms multiply by weight and add
 * bias, [columns] each and of float32 where a has 16 bits, else of a's dtype; null where there is
 * none. The plan is [rows, columns, offset of a, epsilon].
 */
RM_API int32_t rm_rows(int32_t kind, int32_t dtype, const double *plan, void *out, const void *a,
                       const void *weight, const void *bias);

/*
 * c[i] = a[i] @ b[i]; c is never read. Through BLAS where that is open and can, else by own kernels.
 * The plan is [m, n, k, batch, row and column strides of c, a and b, offsets of c.., of a.., of
 * b..].
 */
RM_API int32_t rm_matmul(int32_t dtype, const double *plan, void *c, const void *a,
                          const void *b);

/*
 * Sorts dense runs in place, or, where indices is not null, writes their sorting order there and
 * leaves them. Stable; NaN goes last. Flags: 1 for descending order. The plan is [offset, runs,
 * size].
 */
RM_API int32_t rm_sort(int32_t dtype, int32_t flags, const double *plan, void *values,
                       void *indices);

/* What rm_move does. */
enum {
  /*
   * For each of count dense indexes, from offset on, copies the block that a plan of 2 operands
   * walks: from source, operand 1, at index * stride further on, to target, operand 0, step further
   * on each time. Indexes are from -size to size - 1, negative ones counting from size. Numbers:
   * [offset, count, size, stride, step]; the place of the first index that is out of range, or -1,
   * is written to numbers[0], and nothing to target if there is one.
   */
  RM_GATHER = 0,
  /* The reverse: target at index * stride gets source. Later ones win. */
  RM_SCATTER = 1,
  /*
   * Adds index * stride to each of the int32 or int64 elements of target, operand 0; the indexes
   * are operand 1. Numbers: [size, stride]; numbers[0] becomes what it does above.
   */
  RM_POSITION = 2,
  /*
   * Writes the places of the elements of source that are not zero, among the length from offset on,
   * to dense int32 target, which has room for so many. Numbers: [offset, length, room]; the plan is
   * not read.
   */
  RM_NONZERO = 3
};

/*
 * Moves elements by indexes. dtypes holds two ids of four bits each: that of the elements (the
 * target's for RM_POSITION), then that of the indexes, an integer one; 15 where there are none.
 * Buffers that a kind has no use for are null.
 */
RM_API int32_t rm_move(int32_t what, int32_t dtypes, const double *plan, double *numbers,
                       void *target, const void *source, const void *indexes);

/*
 * Fills length dense elements with the numbers that a Philox key names. Kinds: 0 bits, 1 uniform, 2
 * normal, 3 integers from low on. Words: [key.., low.., range..], the lower word first; a range of 0
 * stands for 2^64.
 */
RM_API int32_t rm_random(int32_t dtype, int32_t kind, const int32_t *words, double length,
                         void *out);

/*
 * Opens OpenBLAS once per process: the file with the given name (ended by a 0), or, where that is
 * null, the one that ROWMAJOR_OPENBLAS names, or else the first of the usual names.
 */
RM_API int32_t rm_blas_open(const void *path);

/* Copies "configuration\npath" of the open BLAS like rm_last_error; gives 0 when none is open. */
RM_API int32_t rm_blas_info(void *buffer, int32_t length);

#endif
