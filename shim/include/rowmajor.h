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
#define RM_VERSION 4

/* What the functions return. */
enum {
  RM_OK = 0,
  /* This build has no kernel for the call, and nothing was written: use another backend. */
  RM_UNSUPPORTED = 1,
  RM_BAD_ARGUMENT = 2,
  RM_NOT_FOUND = 3,
  /* 4 is kept for what the caller finds before a call. */
  RM_OUT_OF_MEMORY = 5,
  /* The device, or one of its libraries, reported an error. */
  RM_DEVICE_ERROR = 6
};

/* RM_VERSION of the library. */
RM_API int32_t rm_version(void);

/* A hash of the op table, the dtypes and these declarations; the caller compares it with its own. */
RM_API int32_t rm_table_hash(void);

/* Copies this thread's last message, ended by a 0 and cut to length bytes; gives its full length. */
RM_API int32_t rm_last_error(void *buffer, int32_t length);

/* Writes the address of memory of the caller, 8 bytes. */
RM_API int32_t rm_address_of(const void *memory, void *address);

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
  RM_NONZERO = 3,
  /*
   * For each element of the indexes, operand 2, copies what lies index * stride further on than that
   * of source, operand 1, which the plan pairs it with, to target, operand 0. Numbers: [size,
   * stride]; numbers[0] becomes what it does above, but elements of target may have been written.
   */
  RM_TAKE_ALONG = 4,
  /* RM_SCATTER that adds to what target has, of all dtypes but bool, in the order of the indexes. */
  RM_ADD_AT = 5
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
 * Opens OpenBLAS once per process: the file that ROWMAJOR_OPENBLAS names, or else the first of the
 * usual names.
 */
RM_API int32_t rm_blas_open(void);

/* Copies "configuration\npath" of the open BLAS like rm_last_error; gives 0 when none is open. */
RM_API int32_t rm_blas_info(void *buffer, int32_t length);

/* What rm_buffers does. */
enum {
  /* Gives numbers [owner, and the addresses of the functions (data, context) that a collector has to
   * call for the 16 bytes at owner, and for each buffer, once nobody can reach them]. At owner stand
   * two doubles: how many bytes its buffers have, and how many its arrays have that lie elsewhere,
   * which is the caller's to write. No more buffers are kept than have as many bytes as all of these
   * that are in use, or 256 MiB. */
  RM_BUFFERS_OPEN = 0,
  /* Numbers: [owner, bytes, 1 for zeros]; gives [address], of a line of the caches. */
  RM_BUFFERS_TAKE = 1,
  /* Gives numbers [bytes that wait to be used again, by any owner]. */
  RM_BUFFERS_KEPT = 2,
  /* Lets go of those. */
  RM_BUFFERS_RELEASE = 3,
  /* Numbers: [address]: gives back what no collector has got to see. */
  RM_BUFFERS_GIVE = 4,
  /* Says that the next module of Node-API is this library, and not another file of its name. */
  RM_BUFFERS_EXPECT = 5,
  /* As RM_BUFFERS_TAKE, of those that wait to be used again; gives [0] where none does. */
  RM_BUFFERS_TAKE_KEPT = 6
};

/* Memory for arrays that a collector gives back. */
RM_API int32_t rm_buffers(int32_t what, double *numbers);

/* The same for Node-API: sets take(bytes, 1 for zeros), which gives an ArrayBuffer or, where there
 * is no memory, undefined; and bytes, an ArrayBuffer on the doubles at its owner, which has to be
 * held as long as take. Sets neither in a process without Node-API, nor where it is not expected. */
RM_API void *napi_register_module_v1(void *env, void *exports);

/* ---- CUDA ------------------------------------------------------------------------------------- */

/*
 * Devices count from 0. Addresses of device memory, sizes and handles are doubles, all below 2^53.
 * Work on a device is queued, in order, on one stream; what has to wait says so. Any thread may
 * call, but waits while another one captures a graph on the device.
 */

/*
 * Opens the CUDA runtime and driver once per process. folder, ended by a 0, is searched before all
 * but what ROWMAJOR_CUDA_LIB_DIR names; it may be null. Numbers: gives [devices, driver version,
 * runtime version]. The message of a failure says what was searched, and stands for all later calls
 * until one names another folder.
 */
RM_API int32_t rm_cuda_open(const void *folder, double *numbers);

/*
 * Copies lines of "key<tab>value" like rm_last_error: of a device (name, capability, memory), or, for
 * device -1, of the libraries (driver, cudart, nvrtc, cublas: each one's version and path, or why it
 * is not open) and of the cache of compiled kernels. Nothing where there is no such device.
 */
RM_API int32_t rm_cuda_info(int32_t device, void *buffer, int32_t length);

/* What rm_cuda_memory does. */
enum {
  /* Numbers: [bytes]; gives [address], of at least 512-byte alignment. Where memory is out, gives
   * [bytes, free bytes, bytes of the device] and RM_OUT_OF_MEMORY. */
  RM_CUDA_ALLOCATE = 0,
  /* Numbers: [address]. What is queued may still use it: the next owner's work comes after that. */
  RM_CUDA_FREE = 1,
  /* Numbers: [address, bytes, where in host, in bytes]. host may change once the call returns. Not
   * while a graph is captured, nor are the reads below. */
  RM_CUDA_UPLOAD = 2,
  /* The same from device to host; waits. */
  RM_CUDA_DOWNLOAD = 3,
  /* Numbers: [to, from, bytes, the device of from]; queued on the device of `to`. */
  RM_CUDA_COPY = 4,
  /* Numbers: [address, bytes]: writes zeros; queued. */
  RM_CUDA_ZERO = 5,
  /* Gives numbers [bytes in use, bytes kept for reuse, most bytes in use, free on the device, bytes
   * of the device]. */
  RM_CUDA_USAGE = 6,
  /* Gives back to the driver what is kept for reuse; waits. */
  RM_CUDA_RELEASE = 7,
  /* Numbers: [address, bytes]: queues a copy to pinned memory; gives [ticket]. */
  RM_CUDA_BEGIN_READ = 8,
  /* Numbers: [ticket, where in host, in bytes]; copies what has come to host, at most a part, and
   * gives [what came of it]. Null host gives the ticket up. */
  RM_CUDA_END_READ = 9
};

/* What comes of RM_CUDA_END_READ. */
enum {
  /* No part has come. */
  RM_CUDA_READ_WAITS = 0,
  /* All bytes are in host, or the ticket was given up: it is used up. */
  RM_CUDA_READ_ENDED = 1,
  /* A part was copied, and there are more. */
  RM_CUDA_READ_MOVES = 2
};

/* Memory of a device. */
RM_API int32_t rm_cuda_memory(int32_t what, int32_t device, double *numbers, void *host);

/*
 * Compiles CUDA C for a device, or takes what an earlier call or an earlier process compiled, and
 * loads it. Names are those of its kernels, each followed by a newline, the last one by a 0; gives
 * one handle for each. The source may include the files of shim/files.zig by name. Without NVRTC
 * the source is of no use, and names have to be those of kernels that come compiled: RM_NOT_FOUND
 * tells which one is not, and why NVRTC is missing. With device -1 nothing is loaded, nor is a
 * driver needed: handles[0] is the architecture, as 90. Then rm_last_error has a line for each
 * kernel: its name, registers, bytes of stack, of spill stores, of spill loads and of shared memory,
 * with tabs between; after them what the compiler warned of.
 */
RM_API int32_t rm_cuda_compile(int32_t device, const void *source, const void *names,
                               double *handles);

/*
 * Queues a kernel. Call: [handle, blocks along x, y, z, threads along x, y, z, bytes of arguments].
 * The arguments are laid out as the kernel's parameters are.
 */
RM_API int32_t rm_cuda_launch(int32_t device, const double *call, const void *arguments);

/*
 * Queues c[i] = a[i] @ b[i] for float dtypes, as rm_matmul, and for int8, whose c is int32;
 * RM_UNSUPPORTED for the others, for what cuBLAS cannot read where it lies, and for what it has no
 * kernel for. The plan is [m, n, k,
 * batch, row and column strides of c, a and b, addresses of c, a and b, flags, address of bias,
 * offsets of c.., of a.., of b..]. Flags: 1 for TF32 where c is float32, 2 to add bias, [n] of c's
 * dtype at a multiple of 16 bytes, 4 for relu, 8 for gelu by tanh, in this order.
 */
RM_API int32_t rm_cuda_matmul(int32_t device, int32_t dtype, const double *plan);

/* What rm_cuda_control does. */
enum {
  /* Waits until all that is queued has ended; reports what went wrong in it. */
  RM_CUDA_SYNCHRONIZE = 0,
  /* Queued work is noted, not run, until RM_CUDA_CAPTURE_END gives numbers [graph]. Memory that is
   * taken or given back meanwhile stays the graph's until it is freed; what the graph uses besides
   * must not be freed before it. */
  RM_CUDA_CAPTURE_BEGIN = 1,
  RM_CUDA_CAPTURE_END = 2,
  /* Numbers: [graph]. */
  RM_CUDA_GRAPH_LAUNCH = 3,
  RM_CUDA_GRAPH_FREE = 4,
  /* Queues a time stamp: gives numbers [event]. */
  RM_CUDA_EVENT_RECORD = 5,
  /* Numbers: [event, later event]: waits for both, gives [milliseconds between], frees them. */
  RM_CUDA_EVENT_ELAPSED = 6
};

/* Order, graphs and time on a device. */
RM_API int32_t rm_cuda_control(int32_t what, int32_t device, double *numbers);

#endif
