/*
 * What the files of the CUDA part share: devices, error messages, handles.
 *
 * macOS has no CUDA. There, only the stubs of api.c exist.
 */
#ifndef ROWMAJOR_CUDA_INTERNAL_H
#define ROWMAJOR_CUDA_INTERNAL_H

#include <stdatomic.h>
#include <string.h>
#include "cuda_functions.h"
#include "internal.h"
#include "mutex.h"

/* ---- libraries (libraries/) ------------------------------------------------------------------ */

/* An address in device memory. */
typedef unsigned long long rm_address;

/* Opens a library unless it is open; for cuBLAS, both parts. A failure is permanent: later calls
 * return its message at once. */
int32_t rm_cuda_library(rm_library which);

/* Opens the driver and the runtime. `folder`, which may be null, is searched after those of
 * ROWMAJOR_CUDA_LIB_DIR and before all others. After a failure another folder causes another
 * search. */
int32_t rm_cuda_open_runtime(const char *folder);

/* The driver's version as 13000, or 0 if it is not open. */
int rm_cuda_driver_version(void);

/* Writes the path and the version of an open library, or why it is not open. */
void rm_cuda_describe(rm_library which, char *text, size_t length);

/* The path of the file of an open library. */
const char *rm_cuda_path(rm_library which);

/* Writes the path of a file next to this library, or an empty string. */
void rm_cuda_find_beside(const char *name, char *path, size_t length);

/* ---- errors (error.c) ------------------------------------------------------------------------ */

/* Whether the process cannot use CUDA any more after this error. */
bool rm_cuda_is_fatal(int code);

/* Sets the message of an error of the runtime or the driver and returns RM_DEVICE_ERROR. */
int32_t rm_cuda_error(const char *call, int code);

/* Calls a function of the runtime or the driver. Returns from the caller if it fails. */
#define RM_CU(name, ...) \
  do { \
    const int rm_code_ = rm_cu.name(__VA_ARGS__); \
    if (rm_code_ != 0) return rm_cuda_error(#name, rm_code_); \
  } while (0)

/* Returns from the caller if the status is not RM_OK. */
#define RM_TRY(call) \
  do { \
    const int32_t rm_status_ = (call); \
    if (rm_status_ != RM_OK) return rm_status_; \
  } while (0)

/* Error codes of the runtime and the driver. */
enum { RM_CUDA_NO_MEMORY = 2, RM_CUDA_NOT_READY = 600, RM_CUDA_PEER_IS_ENABLED = 704 };

/* ---- devices (device.c) ---------------------------------------------------------------------- */

enum { RM_MAX_DEVICES = 64 };

typedef struct rm_allocator rm_allocator;
typedef struct rm_staging rm_staging;
typedef struct rm_blas_context rm_blas_context;
typedef struct rm_fft_context rm_fft_context;

/* A device in use. */
typedef struct {
  int index;
  /* 90 for compute capability 9.0. */
  int capability;
  void *stream;
  /* The number of the graph that is being captured, or 0. */
  _Atomic int graph;
  rm_allocator *allocator;
  rm_staging *staging;
  rm_blas_context *blas;
  rm_fft_context *fft;
} rm_device;

/* Implements rm_cuda_open. */
int32_t rm_cuda_open_devices(const void *folder, double *numbers);

/* Fails if there is no such device. */
int32_t rm_cuda_check_index(int32_t index);

/* 90 for compute capability 9.0. */
int32_t rm_cuda_capability(int32_t index, int *capability);

/* Makes a device current for this thread. The first use initializes it. */
int32_t rm_cuda_use(int32_t index, rm_device **device);

/* Fails if a graph is being captured. `what` says what cannot be done. */
int32_t rm_cuda_not_capturing(const rm_device *device, const char *what);

/* Implements rm_cuda_info (info.c). */
int32_t rm_cuda_describe_device(int32_t index, void *buffer, int32_t length);

/* Implement the other exported functions, within a counted call on the device. */
int32_t rm_cuda_memory_locked(int32_t what, int32_t index, double *numbers, void *host);
int32_t rm_cuda_compile_locked(int32_t index, const void *source, const void *names,
                               double *handles);
int32_t rm_cuda_launch_locked(int32_t index, const double *call, const void *arguments);
int32_t rm_cuda_matmul_locked(int32_t index, int32_t dtype, const double *plan);
int32_t rm_cuda_fft_locked(int32_t index, const double *call);
int32_t rm_cuda_linalg_locked(int32_t index, double *call);
int32_t rm_cuda_control_locked(int32_t what, int32_t index, double *numbers);

/* Implements rm_cuda_nccl (nccl.c). */
int32_t rm_nccl(int32_t what, int32_t index, double *numbers, void *bytes);

/* ---- calls and captures (capture.c) ---------------------------------------------------------- */

/* Starts a call on one or two devices. While it waits for one, it does not block the other. An
 * index that is no device needs no waiting. */
int32_t rm_call_enter(int32_t index, int32_t other);
void rm_call_leave(int32_t index);

/* Makes this thread the only one that captures. */
int32_t rm_capture_enter(int32_t index);
void rm_capture_leave(int32_t index);

/* Waits until this call is the only one on its device. Returns false on a timeout. */
bool rm_capture_wait_alone(int32_t index);

/* ---- handles (handles.c) --------------------------------------------------------------------- */

typedef enum { RM_NO_HANDLE, RM_TICKET, RM_GRAPH, RM_EVENT } rm_handle;

/* Creates a handle for an object of a device. Returns 0 if memory is exhausted. */
double rm_handle_create(rm_handle kind, const rm_device *device, void *object);

/* Returns the object of a handle, and removes the handle if requested. Returns null if the handle
 * is invalid. */
void *rm_handle_lookup(double number, rm_handle kind, const rm_device *device, bool remove);

/* ---- memory (memory/) ------------------------------------------------------------------------ */

/* Create the empty allocator and pinned buffers of a device. */
int32_t rm_allocator_create(rm_device *device);
int32_t rm_staging_create(rm_device *device);

/* Writes the bytes in use, the cached bytes, and the peak of bytes in use. */
void rm_allocator_usage(rm_device *device, double *numbers);

/* Frees the cached memory. Returns the code of a failure. */
int rm_allocator_release(rm_device *device);

/* Calls a function that may run out of device memory. If it does, frees the cached memory and calls
 * it again. Returns the code of the last call. */
int rm_retry_after_release(rm_device *device, int (*call)(void *context), void *context,
                           int no_memory);

/* cudaMalloc with this retry. */
int32_t rm_device_alloc_uncached(rm_device *device, size_t bytes, void **address);

/* Allocate and free device memory. */
int32_t rm_device_alloc(rm_device *device, double bytes, rm_address *address);
int32_t rm_device_free(rm_device *device, rm_address address);

/* Copies from the host. The source may change after the call. */
int32_t rm_memory_upload(rm_device *device, rm_address to, const void *from, size_t bytes);

/* Copies to the host and waits for it. */
int32_t rm_memory_download(rm_device *device, rm_address from, char *to, size_t bytes);

/* Implement RM_CUDA_COPY, RM_CUDA_BEGIN_READ and RM_CUDA_END_READ. */
int32_t rm_memory_copy(rm_device *device, const double *numbers);
int32_t rm_read_begin(rm_device *device, rm_address from, size_t bytes, double *number);
int32_t rm_read_end(rm_device *device, double *numbers, char *host);

/* Makes the memory that a graph could write to available again, after the graph has been freed. */
void rm_release_graph_memory(rm_device *device, int graph);

/* ---- matrix products (blas_handles.c) -------------------------------------------------------- */

/* Allocates the resources of a device, without initializing them. */
int32_t rm_blas_create(rm_device *device);
/* Initializes them if cuBLAS is available, because not all of that is possible during a capture.
 * The first product retries after a failure and reports it. */
void rm_blas_prepare(rm_device *device);

/* ---- Fourier transforms (fft_plans.c) -------------------------------------------------------- */

enum { RM_COMPLEX_TO_COMPLEX, RM_REAL_TO_COMPLEX, RM_COMPLEX_TO_REAL };

/* Everything that determines a plan. Compared byte by byte. */
typedef struct {
  long long length, rows, step_from, step_to, kind, is_wide;
} rm_fft_problem;

typedef struct {
  rm_fft_problem of;
  int plan;
  size_t workspace;
  /* The number of the call that used it last; 0 if there is no plan. */
  uint64_t used;
  /* Whether a graph contains its work, which needs the plan's tables. */
  bool is_captured;
} rm_fft_plan;

enum { RM_FFT_PLANS = 32 };

/* The mutex must be locked for every use. */
struct rm_fft_context {
  rm_mutex mutex;
  uint64_t calls;
  rm_fft_plan plans[RM_FFT_PLANS];
};

/* Allocates the memory for the plans of a device. */
int32_t rm_fft_create(rm_device *device);
/* The plan of a problem: a kept one, or a new one in place of the one that was used least
 * recently. */
int32_t rm_fft_find(rm_device *device, const rm_fft_problem *of, rm_fft_plan **found);
/* Reports the code of a failed call of cuFFT. */
int32_t rm_fft_error(const char *call, int code);

/* ---- kernels (modules/) ---------------------------------------------------------------------- */

/* A loaded kernel. */
typedef struct {
  void *function;
  int device;
  char *name;
} rm_kernel;

/* The kernel of a handle, or null. */
rm_kernel *rm_kernel_of(double handle);

/* A 128-bit hash of bytes. `before` is the hash of the preceding bytes. */
typedef struct {
  uint64_t a, b;
} rm_hash;
rm_hash rm_hash_of(rm_hash before, const void *bytes, size_t length);

/* The embedded headers, which kernels include by name. */
typedef struct {
  int count;
  const char *const *names, *const *texts;
  /* The hash of all names and texts. */
  rm_hash hash;
  /* A short hash of the texts, which must match that of the AOT file. */
  uint32_t stamp;
} rm_headers;

const rm_headers *rm_cuda_headers(void);

/* How a source is compiled for a device. */
typedef struct {
  char target[64];
  /* Whether the result is PTX. */
  bool is_ptx;
  /* A text of everything that determines the result. The caller frees it. */
  char *key;
} rm_compilation;

int32_t rm_nvrtc_prepare(int capability, const char *source, rm_compilation *compilation);

/* Compiles. The caller frees the image. */
int32_t rm_nvrtc_compile(const char *source, const rm_compilation *compilation, char **image,
                         size_t *length);

/* Compiles for an architecture without loading, and sets a report as the message. */
int32_t rm_nvrtc_report(const char *source, double architecture);

/* A kernel that was compiled ahead of time: its code for the driver, and its name there. */
typedef struct {
  const char *image;
  char entry[64];
} rm_aot_kernel;

/* Finds the kernel with a name of the given length. The result stays valid. */
int32_t rm_aot_find(const char *name, size_t length, rm_aot_kernel *found);

/* Returns the cached bytes of a key, which this or an earlier process wrote. The caller frees them.
 * Returns null if there are none or if they are damaged. */
char *rm_cache_read(const char *key, size_t *length);

/* Caches bytes for a key, if there is a writable folder. */
void rm_cache_write(const char *key, const char *bytes, size_t length);

/* Writes the path of that folder. */
void rm_cache_describe(char *text, size_t length);

#endif
