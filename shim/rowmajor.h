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

/*
 * out = row(a, b, c) for every element. dtypes holds five ids of four bits each, lowest first: that
 * of the arithmetic, then those of out, a, b and c, 15 where there is no operand. The plan is
 * [rank, operands, 4 attributes, offsets.., shape.., strides of out.., of a.., ..]. An input may be
 * out itself when both have the same strides and offset.
 */
RM_API int32_t rm_map(int32_t opcode, int32_t dtypes, const double *plan, void *out,
                      const void *a, const void *b, const void *c);

/* Folds a (and b) into out. The first kept axes of the plan are those of out; c's dtype is 15. */
RM_API int32_t rm_reduce(int32_t opcode, int32_t dtypes, int32_t kept, const double *plan,
                         void *out, const void *a, const void *b);

/*
 * c[i] = a[i] @ b[i] through the BLAS that rm_blas_open has found; c is never read. The plan is
 * [m, n, k, batch, row and column strides of c, a and b, offsets of c.., of a.., of b..].
 */
RM_API int32_t rm_matmul(int32_t dtype, const double *plan, void *c, const void *a,
                          const void *b);

/*
 * Opens OpenBLAS once per process: the file with the given name (ended by a 0), or, where that is
 * null, the one that ROWMAJOR_OPENBLAS names, or else the first of the usual names.
 */
RM_API int32_t rm_blas_open(const void *path);

/* Copies "configuration\npath" of the open BLAS like rm_last_error; gives 0 when none is open. */
RM_API int32_t rm_blas_info(void *buffer, int32_t length);

#endif
