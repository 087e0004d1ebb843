/*
 * The public interface of the rowmajor shim: a flat C ABI with few symbols. One runs all kernels.
 *
 * A function that can fail returns a status and leaves a message for rm_last_error. RM_UNSUPPORTED
 * means that this build has no kernel for the call and has written nothing: use another backend.
 * RM_DEVICE_ERROR means that a device, or one of its libraries, reported an error.
 *
 * No function aborts, prints, or keeps a pointer that it is given, except rm_program_bind and
 * rm_distributed. The
 * caller has checked that every plan stays inside its buffers: sizes, offsets and strides are in
 * elements and are not checked again.
 *
 * Kernels are found by the names of their ops. Dtypes and the other constants are in abi.ts.
 */
#ifndef ROWMAJOR_H
#define ROWMAJOR_H

#include <stdint.h>
#include "abi_constants.h"

#if defined(_WIN32)
#define RM_API __declspec(dllexport)
#else
#define RM_API __attribute__((visibility("default")))
#endif

/* Returns RM_VERSION of the library. */
RM_API int32_t rm_version(void);

/* Returns RM_ABI_HASH of the library. The caller compares it with its own. */
RM_API int32_t rm_abi_hash(void);

/* Returns a hash of all ops of the op table that have kernels. */
RM_API int32_t rm_table_hash(void);

/* Copies the last message of this thread, terminated by 0 and truncated to length bytes; returns
 * its full length. */
RM_API int32_t rm_last_error(void *buffer, int32_t length);

/* Writes the address of memory of the caller as 8 bytes. */
RM_API int32_t rm_address_of(const void *memory, void *address);

/*
 * Sets one thing for the process and returns its new value. A negative value only asks.
 *
 * RM_CONFIGURE_THREADS: the number of threads; 0 means as many as the machine has.
 * RM_CONFIGURE_LEVEL: the instruction set: 2 to 4 for x86-64-v2 to -v4, 0 for the best one; 1 is
 *   returned on other machines. A value that the machine lacks changes nothing.
 * RM_CONFIGURE_SHARE_ALL: 1 to run short work on several threads too, as tests want; else 0.
 * RM_CONFIGURE_ENVIRONMENT: sets nothing; RM_BAD_ARGUMENT if an environment variable has a value
 *   that it does not take, else RM_OK.
 * RM_CONFIGURE_USED_THREADS: sets nothing; the most threads that took part in a call of this thread
 *   since the last time that this was asked.
 */
RM_API int32_t rm_configure(int32_t what, int32_t value);

/*
 * Returns the number of the kernel of that name, terminated by 0, or -1. An op of the op table is
 * found only if its definition has that hash; other kernels have hash 0.
 */
RM_API int32_t rm_find_kernel(const void *name, int32_t hash);

/*
 * Runs a kernel. dtypes packs the ids of the dtypes of out, a, b and c, eight bits each, the lowest
 * first; RM_NONE where there is no buffer. compute is the dtype of the arithmetic, where it is not
 * that of out. numbers are a plan, [rank, operands, kept axes, 8 attributes, offsets.., shape..,
 * strides of out.., of a.., ..], unless the kernel says otherwise.
 *
 * Elementwise ops: out = op(a, b, c) for every element, with the attributes of the op. An input may
 * be out itself if both have the same strides and offset.
 *
 * Reductions, index reductions (out is int32 and holds flat indices in the order of the plan) and
 * scans (out has a stride along every axis): reduce a (and b) into out. The first `kept` axes of the
 * plan are the outer axes, those of out. The attribute is the number of elements that are reduced.
 *
 * shim/core/kernels.def describes the other kernels.
 */
RM_API int32_t rm_run(int32_t kernel, int32_t dtypes, int32_t compute, double *numbers, void *out,
                      void *a, void *b, void *c);

/*
 * The same with up to five more buffers: more_dtypes packs the dtypes of d to g, last_dtype is that of
 * h.
 */
RM_API int32_t rm_run_many(int32_t kernel, int32_t dtypes, int32_t more_dtypes, int32_t last_dtype,
                           int32_t compute, double *numbers, void *out, void *a, void *b, void *c,
                           void *d, void *e, void *f, void *g, void *h);

/*
 * Makes programs, lists of calls that rm_program_run runs, and frames, each of which holds what one
 * run changes: numbers, addresses and copied buffers. Frames of one program may run at the same time;
 * a frame must not be used during its run.
 *
 * RM_PROGRAM_MAKE: numbers are [their length, buffers, calls, bytes of the arena, bytes of copied
 *   buffers], then for each buffer [kind, offset, bytes], then for each call [kernel, compute, whether it
 *   checks indices, operands (4 or more), length of its numbers, dtypes.., buffers of the operands
 *   (-1 for none).., its numbers..], then the number of loops, then for each loop [its first call, the
 *   calls of a tile, the calls of the last, shorter tile, tiles, slots, nanoseconds], then for each
 *   operand of these calls [bytes to the next tile, bytes to the next slot]. They become [program,
 *   its bytes]. The kinds of buffers:
 *   RM_PROGRAM_ARENA, intermediate results, is in the arena, which the caller binds before a run;
 *   RM_PROGRAM_COPIED in memory of the frame, which is zero at first; RM_PROGRAM_BOUND in memory of the
 *   caller. The kernels and what they read of numbers are as in rm_run.
 * RM_PROGRAM_FREE: numbers are [program], which has no frames.
 * RM_PROGRAM_MAKE_FRAME: numbers are [program] and become [frame, its bytes].
 * RM_PROGRAM_FREE_FRAME: numbers are [frame].
 */
RM_API int32_t rm_program(int32_t what, double *numbers);

/*
 * Sets the addresses of up to four consecutive buffers of kind RM_PROGRAM_BOUND, from place on; null
 * ends the list. The memory stays valid until the next run ends, or has been bound anew by then.
 * The place RM_PROGRAM_ARENA_PLACE is the arena, a: RM_PROGRAM_ARENA_LINE bytes more than the program has.
 */
RM_API int32_t rm_program_bind(double frame, int32_t place, void *a, void *b, void *c, void *d);

/* Copies all bytes of a buffer of kind RM_PROGRAM_COPIED: RM_PROGRAM_WRITE from the array,
 * RM_PROGRAM_READ to it. */
RM_API int32_t rm_program_copy(double frame, int32_t what, int32_t place, void *array);

/* Sets one of the numbers of a call for all runs of the frame that follow. */
RM_API int32_t rm_program_set(double frame, int32_t call, int32_t index, double value);

/*
 * Runs the calls [from, to). If one fails, returns its status and runs no other; RM_BAD_INDEX for an
 * index out of range, RM_UNSUPPORTED if there is no kernel for the dtypes of the call.
 */
RM_API int32_t rm_program_run(double frame, int32_t from, int32_t to);

/*
 * Tells where the last run that failed has stopped: numbers become [call, flat index of the bad
 * index]; copies the name of its kernel, a newline and the message as rm_last_error does.
 */
RM_API int32_t rm_program_fault(double frame, double *numbers, void *text, int32_t length);

/*
 * Opens OpenBLAS once per process: the file that ROWMAJOR_OPENBLAS names, else the first of the
 * default names.
 */
RM_API int32_t rm_blas_open(void);

/*
 * Copies the configuration of the open BLAS, its path, and "LAPACK" if it has that, or nothing, on a
 * line each, as rm_last_error does. Returns 0 if none is open.
 */
RM_API int32_t rm_blas_info(void *buffer, int32_t length);

/*
 * Allocates memory for arrays that a garbage collector frees.
 *
 * RM_BUFFERS_OPEN: numbers become [owner, two functions (data, context)]. The collector has to call
 *   the first function for the 8 bytes at owner, and the second one for each buffer, once they are
 *   unreachable. The 8 bytes are a double: the bytes of the owner's buffers. The cache of freed
 *   buffers is limited to the bytes of all buffers in use, or 256 MiB if that is more, to a quarter
 *   of the memory of the process, and to what the buffers in use leave of three quarters of it.
 * RM_BUFFERS_TAKE: numbers are [owner, bytes, 1 for zeros] and become [address], aligned to a cache
 *   line.
 * RM_BUFFERS_TAKE_KEPT: the same, but only from the cache; [0] if nothing there fits.
 * RM_BUFFERS_KEPT: numbers become [bytes in the cache, bytes in use by all threads, memory of the
 *   process: the least of the limits of its control groups (on Windows, its job), its address space
 *   and the memory of the machine; infinite if unknown].
 * RM_BUFFERS_RELEASE: numbers are [bytes]; frees the oldest buffers until so many are in the cache.
 * RM_BUFFERS_GIVE: numbers are [address] of a buffer that no collector knows.
 */
RM_API int32_t rm_buffers(int32_t what, double *numbers);

/*
 * Maps files, for arrays on their bytes that a garbage collector frees. Writes to the memory stay in
 * this process. A mapping stays as long as there are references to it.
 *
 * RM_FILES_MAP: path is that of a regular file that is not empty, terminated by 0: UTF-8, on Windows
 *   UTF-16. Numbers become [mapping, address, bytes], with one reference.
 * RM_FILES_HOLD: numbers are [mapping] and become [a function (data, context)]. Adds a reference,
 *   for an array: its collector has to call the function with the mapping as context.
 * RM_FILES_RELEASE: numbers are [mapping]; removes a reference.
 * RM_FILES_SIZE: numbers are [mapping] and become [bytes that the file has now]: memory beyond them
 *   must not be touched. They are those of RM_FILES_MAP if the path names another file by now.
 */
RM_API int32_t rm_files(int32_t what, const void *path, double *numbers);

/*
 * The next module of Node-API that this thread opens is this library, not another file of its name,
 * for one of three purposes:
 *
 * RM_MODULE_BUFFERS: the same as rm_buffers. Sets exports.take(bytes, 1 for zeros), which returns an
 *   ArrayBuffer, or undefined if memory is exhausted, and exports.bytes, an ArrayBuffer on the
 *   double at the owner, which must live as long as take.
 * RM_MODULE_QUEUE: sets exports.listen(ended), to be called once, which returns submit(frame, from,
 *   to). That queues a run of a frame on a thread of low priority and returns RM_OK, or why it has
 *   not; `ended` gets the status of the run later. There is one run per environment at a time, and
 *   the frame must not be used during it. The environment stays alive during the run. If it is
 *   ended nevertheless, the run stops before its next call.
 * RM_MODULE_FILES: sets exports.view(mapping, address, bytes), which returns an ArrayBuffer that
 *   holds a reference to the mapping, or undefined if the runtime makes none.
 */
RM_API int32_t rm_expect_module(int32_t what);

/* The entry of Node-API. Sets nothing in a process without Node-API, or if it is not expected. */
RM_API void *napi_register_module_v1(void *env, void *exports);

/* ---- CUDA ------------------------------------------------------------------------------------ */

/*
 * Devices count from 0. Addresses of device memory, sizes and handles are doubles, all below 2^53.
 * Work on a device is queued in order on one stream; functions that wait for it say so. Any thread
 * may call, but blocks while another thread captures a graph on the device.
 */

/*
 * Several processes, by MPI, which is opened at run time. A process is a rank of a world, and of the
 * groups that splits make. Collectives of tensors are kernels of rm_run too, which wait.
 *
 * RM_REQUEST_START: begins what numbers (RM_COLLECTIVE_AT_...) say, on another thread; they become
 *   [its number]. The memory of out and in stays valid until it has ended; for good if it fails.
 * RM_REQUEST_TAKE: numbers are [number] of a request that has ended, else RM_NOT_FOUND. Returns
 *   its status. RM_DISTRIBUTED is a failure of several processes; the number at
 *   RM_COLLECTIVE_AT_PEER becomes the rank that is at fault, or -1. numbers of RM_COLLECTIVE_OPEN
 *   and RM_COLLECTIVE_SPLIT become [group (-1 for none), rank, size].
 * RM_REQUEST_WAIT: begins and waits; the same results.
 * RM_REQUEST_ABORT: numbers are [exit code]. Ends all processes of the world, if there is one.
 * RM_REQUEST_FAIL: later requests fail for the reason in, terminated by 0.
 * RM_REQUEST_LAUNCHER: numbers become [whether a launcher started this process, how many processes
 *   it says that there are, or 0].
 */
RM_API int32_t rm_distributed(int32_t what, double *numbers, void *out, const void *in);

/* Copies the name, version and ABI of the open MPI, its path and the name of the launcher, on a line
 * each, as rm_last_error does. */
RM_API int32_t rm_distributed_info(void *buffer, int32_t length);

/*
 * Opens the CUDA runtime and driver once per process. folder, terminated by 0 or null, is searched
 * after the folders of ROWMAJOR_CUDA_LIB_DIR and before all others. Numbers become [devices, driver
 * version, runtime version]. The message of a failure lists what was searched and stands for all
 * later calls until one names another folder.
 */
RM_API int32_t rm_cuda_open(const void *folder, double *numbers);

/*
 * Copies lines of "key<tab>value" as rm_last_error does: of a device (name, capability, memory), or
 * for device -1 of the libraries (driver, cudart, nvrtc, cublas and others: version and path, or why it is not
 * open) and of the cache of compiled kernels. Copies nothing if there is no such device.
 */
RM_API int32_t rm_cuda_info(int32_t device, void *buffer, int32_t length);

/*
 * Manages the memory of a device.
 *
 * RM_CUDA_ALLOCATE: numbers are [bytes] and become [address], aligned to 512 bytes or more. If
 *   memory is exhausted they become [bytes, free bytes, bytes of the device], with
 *   RM_OUT_OF_MEMORY.
 * RM_CUDA_FREE: numbers are [address]. Queued work may still use it: the next owner's work comes
 *   later.
 * RM_CUDA_UPLOAD: numbers are [address, bytes, offset in host in bytes]. host may change once the
 *   call returns. Not allowed while a graph is captured, nor are the reads below.
 * RM_CUDA_DOWNLOAD: the same from device to host; waits.
 * RM_CUDA_COPY: numbers are [to, from, bytes, the device of from]; queued on the device of `to`.
 * RM_CUDA_ZERO: numbers are [address, bytes]; queued.
 * RM_CUDA_USAGE: numbers become [bytes in use, bytes cached, peak bytes in use, free bytes of the
 *   device, bytes of the device].
 * RM_CUDA_RELEASE: returns cached memory to the driver; waits.
 * RM_CUDA_BEGIN_READ: numbers are [address, bytes]; queues a copy to pinned memory; they become
 *   [ticket].
 * RM_CUDA_END_READ: numbers are [ticket, offset in host in bytes, bytes]; copies at most one
 *   finished chunk to host. They become [RM_CUDA_READ_WAITS] if no chunk is ready,
 *   [RM_CUDA_READ_MOVES] if more chunks follow, or [RM_CUDA_READ_ENDED]. A null host cancels the
 *   ticket.
 */
RM_API int32_t rm_cuda_memory(int32_t what, int32_t device, double *numbers, void *host);

/*
 * Compiles CUDA C for a device and loads it, unless an earlier call or process has compiled it.
 * names are those of its kernels, separated by newlines and terminated by 0; writes one handle for
 * each. The source may include the embedded headers (cuda/modules/embed.zig) by their names.
 *
 * Without NVRTC the source is ignored and names must be those of AOT kernels: RM_NOT_FOUND says
 * which is not one, and why NVRTC is missing.
 *
 * With device -1 nothing is loaded and no driver is needed: handles[0] is the architecture, as 90.
 * rm_last_error then has a line for each kernel: name, registers, bytes of stack, of spill stores,
 * of spill loads and of shared memory, separated by tabs; after them the warnings of the compiler.
 */
RM_API int32_t rm_cuda_compile(int32_t device, const void *source, const void *names,
                               double *handles);

/*
 * Queues a kernel. call is [handle, blocks along x, y, z, threads along x, y, z, bytes of
 * arguments]. The arguments are laid out as the kernel's parameters are.
 */
RM_API int32_t rm_cuda_launch(int32_t device, const double *call, const void *arguments);

/*
 * Queues c[i] = a[i] @ b[i] for float dtypes, as matmul of rm_run, and for int8, whose c is int32.
 * RM_UNSUPPORTED for other dtypes, for matrices that cuBLAS cannot read where they are, and where
 * it has no kernel. The plan is [m, n, k, batch, row and column strides of c, a and b, addresses of
 * c, a and b, flags, address of bias, offsets of c.., of a.., of b..].
 *
 * Flags, applied in this order: RM_CUDA_MATMUL_TF32 if c is float32, RM_CUDA_MATMUL_ADD_BIAS to add
 * bias, [n] of the dtype of c aligned to 16 bytes, RM_CUDA_MATMUL_RELU, RM_CUDA_MATMUL_GELU by
 * tanh.
 */
RM_API int32_t rm_cuda_matmul(int32_t device, int32_t dtype, const double *plan);

/*
 * Queues Fourier transforms of rows by cuFFT, without a factor. call is [kind, whether numbers are
 * float64 or pairs of them, whether exponents are positive, length, rows, elements from row to row of
 * the operand, and of the result, addresses of the operand and of the result]. Kinds: 0 complex, 1 of
 * real numbers, 2 to real numbers, for which the exponents are positive, and which overwrites its
 * operand. Without rows only the library is opened. RM_UNSUPPORTED if cuFFT has no plan.
 */
RM_API int32_t rm_cuda_fft(int32_t device, const double *call);

/*
 * One step of linear algebra by cuSOLVER or cuBLAS on a batch of column-major matrices without gaps.
 * call is [step, type, m, n, k, batch, flags, a, elements from matrix to matrix of a, b, c, d, result].
 * a to d are addresses; types are 0 to 3: float32, float64, complex64, complex128. The result is the
 * number of the first matrix without a result, or -1. Steps, which cannot be captured, and of which
 * those that factor a overwrite it and wait for the device:
 *
 *   RM_CUDA_LINALG_OPEN: only opens the libraries.
 *   RM_CUDA_LINALG_LU: a [m, n] by its factors, pivots to b: int64; int32 in a batch, for m = n.
 *   RM_CUDA_LINALG_SOLVE: c [n, k] by the solution of a x = c, or with RM_CUDA_LINALG_TRANSPOSED of
 *   aᵀ x = c, for factors a and pivots b.
 *   RM_CUDA_LINALG_CHOLESKY: a [n, n] by the factor in its lower, or with RM_CUDA_LINALG_UPPER its
 *   upper triangle.
 *   RM_CUDA_LINALG_QR: a [m, n] by R and reflectors, whose factors go to b.
 *   RM_CUDA_LINALG_MAKE_Q: the k reflectors in a by n columns of Q [m, n].
 *   RM_CUDA_LINALG_EIGH: eigenvalues of a [n, n] to b, with RM_CUDA_LINALG_VECTORS eigenvectors to a.
 *   RM_CUDA_LINALG_SVD: singular values of a [m, n], m >= n, to b; with RM_CUDA_LINALG_VECTORS U to
 *   c, [m, n] or with RM_CUDA_LINALG_FULL [m, m], and Vᴴ to d [n, n].
 *   RM_CUDA_LINALG_TRIANGULAR: c [k, n] by the solution of x a = c for a triangle of a, whose
 *   diagonal is 1 with RM_CUDA_LINALG_UNIT.
 *
 * With RM_CUDA_LINALG_BATCHED systems, triangles and Cholesky factors are one call for all matrices.
 */
RM_API int32_t rm_cuda_linalg(int32_t device, double *call);

/*
 * Collectives of several processes on their CUDA devices by NCCL. A link is a group of ranks with a
 * device each. RM_DISTRIBUTED is a failure of several processes, after which its link is aborted.
 *
 * RM_CUDA_NCCL_LOAD: only opens the library.
 * RM_CUDA_NCCL_ID: writes the 128 bytes that name a new link.
 * RM_CUDA_NCCL_OPEN: numbers are [rank, size, milliseconds until it fails, group of the world], bytes the
 *   name of the link; begins to open it on another thread; they become [link, job].
 * RM_CUDA_NCCL_CALL: numbers are those of a collective (RM_COLLECTIVE_AT_...), with a link as the
 *   group, and addresses as in and out; queues it; they become [job]. Cannot be captured.
 * RM_CUDA_NCCL_TAKE: numbers are [job]; its status, or RM_NOT_FOUND while it has not ended. The
 *   second number becomes the rank that is at fault for RM_DISTRIBUTED, or -1.
 * RM_CUDA_NCCL_WAIT: the same, but waits.
 * RM_CUDA_NCCL_CLOSE: ends all links.
 */
RM_API int32_t rm_cuda_nccl(int32_t what, int32_t device, double *numbers, void *bytes);

/*
 * Controls the order of work, graphs and time on a device.
 *
 * RM_CUDA_SYNCHRONIZE: waits for all queued work; reports errors in it.
 * RM_CUDA_CAPTURE_BEGIN: queued work is recorded, not run, until RM_CUDA_CAPTURE_END. Memory that
 *   is allocated or freed meanwhile belongs to the graph until that is freed. Other memory that the
 *   graph uses must not be freed before it.
 * RM_CUDA_CAPTURE_END: numbers become [graph].
 * RM_CUDA_GRAPH_LAUNCH, RM_CUDA_GRAPH_FREE: numbers are [graph].
 * RM_CUDA_EVENT_RECORD: queues a time stamp; numbers become [event].
 * RM_CUDA_EVENT_ELAPSED: numbers are [event, later event]; waits for both and frees them; numbers
 *   become [milliseconds between them].
 */
RM_API int32_t rm_cuda_control(int32_t what, int32_t device, double *numbers);

#endif
