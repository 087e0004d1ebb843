/*
 * What the files of the CUDA part share: devices, errors in words, handles.
 *
 * There is no CUDA on macOS, and nothing of this but its refusal.
 */
#ifndef ROWMAJOR_CUDA_INTERNAL_H
#define ROWMAJOR_CUDA_INTERNAL_H

#include <stdatomic.h>
#include <string.h>
#include "cuda_functions.h"
#include "internal.h"
#include "mutex.h"

/* ---- the libraries (libraries/) -------------------------------------------------------------- */

/* An address in the memory of a device. */
typedef unsigned long long rm_address;

/*
 * Opens a library unless it is open; of cuBLAS, both parts. The first failure stands: later calls
 * give its message at once.
 */
int32_t rm_cuda_library(rm_library which);

/*
 * Opens the driver and the runtime. folder is searched before all but ROWMAJOR_CUDA_LIB_DIR; null
 * names none. After a failure another folder is worth another search.
 */
int32_t rm_cuda_open_runtime(const char *folder);

/* The driver's version as 13000, or 0 while it is not open. */
int rm_cuda_driver_version(void);

/* Writes the path and the version of an open library, or why it is not open. */
void rm_cuda_describe(rm_library which, char *text, size_t length);

/* The path of the file that an open library was read from. */
const char *rm_cuda_path(rm_library which);

/* Writes the path of a file that lies beside this library, or of none. */
void rm_cuda_beside(const char *name, char *path, size_t length);

/* ---- errors (error.c) ------------------------------------------------------------------------ */

/* Whether nothing works after an error until the process ends. */
bool rm_cuda_is_final(int code);

/* Leaves the message of what the runtime or the driver answered; gives RM_DEVICE_ERROR. */
int32_t rm_cuda_error(const char *call, int code);

/* Calls a function of the runtime or the driver; returns from the caller where it fails. */
#define RM_CU(name, ...) \
  do { \
    const int rm_code_ = rm_cu.name(__VA_ARGS__); \
    if (rm_code_ != 0) return rm_cuda_error(#name, rm_code_); \
  } while (0)

/* Returns from the caller what is not RM_OK. */
#define RM_TRY(call) \
  do { \
    const int32_t rm_status_ = (call); \
    if (rm_status_ != RM_OK) return rm_status_; \
  } while (0)

/* Codes of the runtime and the driver. */
enum { RM_CUDA_NO_MEMORY = 2, RM_CUDA_NOT_READY = 600, RM_CUDA_PEER_IS_ENABLED = 704 };

/* ---- devices (device.c) ---------------------------------------------------------------------- */

enum { RM_MOST_DEVICES = 64 };

typedef struct rm_allocator rm_allocator;
typedef struct rm_staging rm_staging;
typedef struct rm_products rm_products;

/* A device that is in use. */
typedef struct {
  int index;
  /* 90 for compute capability 9.0. */
  int capability;
  void *stream;
  /* The graph into which work is being noted, or 0. */
  _Atomic int graph;
  rm_allocator *allocator;
  rm_staging *staging;
  rm_products *products;
} rm_device;

/* What rm_cuda_open does. */
int32_t rm_cuda_open_devices(const void *folder, double *numbers);

/* Fails where there is no such device. */
int32_t rm_cuda_check_index(int32_t index);

/* 90 for compute capability 9.0. */
int32_t rm_cuda_capability(int32_t index, int *capability);

/* Gives a device, which becomes this thread's; the first time it is prepared. */
int32_t rm_cuda_use(int32_t index, rm_device **device);

/* Fails with what cannot be done while a graph is being captured. */
int32_t rm_cuda_not_capturing(const rm_device *device, const char *what);

/* What rm_cuda_info does (info.c). */
int32_t rm_cuda_describe_device(int32_t index, void *buffer, int32_t length);

/* What the other exported functions do within a call on their device. */
int32_t rm_cuda_memory_within(int32_t what, int32_t index, double *numbers, void *host);
int32_t rm_cuda_compile_within(int32_t index, const void *source, const void *names,
                               double *handles);
int32_t rm_cuda_launch_within(int32_t index, const double *call, const void *arguments);
int32_t rm_cuda_matmul_within(int32_t index, int32_t dtype, const double *plan);
int32_t rm_cuda_control_within(int32_t what, int32_t index, double *numbers);

/* ---- calls, and the capture of graphs (capture.c) -------------------------------------------- */

/* Begins a call on one or two devices; while it waits for one of them it holds up neither. An index
 * that is none needs no waiting. */
int32_t rm_call_enter(int32_t index, int32_t other);
void rm_call_leave(int32_t index);

/* Makes this thread the one that captures, once no other does. */
int32_t rm_capture_enter(int32_t index);
void rm_capture_leave(int32_t index);

/* Waits until this call is the only one on its device; false where that takes too long. */
bool rm_capture_alone(int32_t index);

/* ---- handles (handles.c) --------------------------------------------------------------------- */

typedef enum { RM_NO_HANDLE, RM_TICKET, RM_GRAPH, RM_EVENT } rm_handle;

/* A number that stands for a thing of a kind on a device; 0 where there is no memory for it. */
double rm_handle_for(rm_handle kind, const rm_device *device, void *thing);

/* What a number stands for; with last, for the last time. Null where it is no such handle. */
void *rm_handle_of(double number, rm_handle kind, const rm_device *device, bool last);

/* ---- memory (memory/) ------------------------------------------------------------------------ */

/* Make the empty allocator and staging of a device. */
int32_t rm_allocator_begin(rm_device *device);
int32_t rm_staging_begin(rm_device *device);

/* Writes the bytes in use, those that are kept for reuse, and the most that were in use. */
void rm_allocator_usage(rm_device *device, double *numbers);

/* Gives what is kept for reuse back to the driver; the code of a failure. */
int rm_allocator_release(rm_device *device);

/*
 * Calls what may answer that there is no memory; once more where the first call does, after what is
 * kept for reuse has been given back to the driver. Gives the code of the last call.
 */
int rm_memory_try(rm_device *device, int (*call)(void *context), void *context, int no_memory);

/* cudaMalloc in this way. */
int32_t rm_memory_raw(rm_device *device, size_t bytes, void **address);

/* A block of at least so many bytes, and the way back. */
int32_t rm_memory_take(rm_device *device, double bytes, rm_address *address);
int32_t rm_memory_give(rm_device *device, rm_address address);

/* Copies from the host; the caller's bytes may change afterwards. */
int32_t rm_memory_upload(rm_device *device, rm_address to, const void *from, size_t bytes);

/* Copies to the host; waits. */
int32_t rm_memory_download(rm_device *device, rm_address from, char *to, size_t bytes);

/* RM_CUDA_COPY, RM_CUDA_BEGIN_READ and RM_CUDA_END_READ. */
int32_t rm_memory_copy(rm_device *device, const double *numbers);
int32_t rm_read_begin(rm_device *device, rm_address from, size_t bytes, double *number);
int32_t rm_read_end(rm_device *device, double *numbers, char *host);

/* The graph is no more: what it could write to is free for all. */
void rm_memory_end_graph(rm_device *device, int graph);

/* ---- products (blas_handles.c) --------------------------------------------------------------- */

/* Makes a place for what products of a device will need. */
int32_t rm_products_begin(rm_device *device);
/* Makes what they need now, where cuBLAS is there: not all of it may be made while a graph is recorded.
 * What fails is tried again, and told, by the first product. */
void rm_products_prepare(rm_device *device);

/* ---- kernels (modules/) ---------------------------------------------------------------------- */

/* A kernel that is loaded. */
typedef struct {
  void *function;
  int device;
  char *name;
} rm_kernel;

/* The kernel of a handle, or null. */
rm_kernel *rm_kernel_of(double handle);

/* 128 bits that stand for bytes, after those that stand for the bytes before them. */
typedef struct {
  uint64_t a, b;
} rm_hash;
rm_hash rm_hash_of(rm_hash before, const void *bytes, size_t length);

/* The embedded headers, which kernels may include by name. */
typedef struct {
  int count;
  const char *const *names, *const *texts;
  /* Of all names and texts. */
  rm_hash hash;
  /* A short hash of the texts, by which an AOT file is matched with the library. */
  uint32_t stamp;
} rm_headers;

const rm_headers *rm_cuda_headers(void);

/* How a source is compiled for a device. */
typedef struct {
  char target[64];
  /* Whether to PTX. */
  bool as_text;
  /* All that the result depends on; the caller frees it. */
  char *key;
} rm_compilation;

int32_t rm_nvrtc_prepare(int capability, const char *source, rm_compilation *how);

/* Compiles; the caller frees the image. */
int32_t rm_nvrtc_compile(const char *source, const rm_compilation *how, char **image,
                         size_t *length);

/* Compiles for an architecture, loads nothing, and leaves a report as the message. */
int32_t rm_nvrtc_report(const char *source, double architecture);

/* A kernel that comes compiled: its code, for the driver, and the name that it has there. */
typedef struct {
  const char *image;
  char entry[64];
} rm_prebuilt;

/* The kernel of a name of so many bytes; what it finds lasts. */
int32_t rm_prebuilt_find(const char *name, size_t length, rm_prebuilt *found);

/*
 * What was kept for a key, of this process or an earlier one; the caller frees it. Null where there
 * is nothing, or nothing sound.
 */
char *rm_cache_read(const char *key, size_t *length);

/* Keeps bytes for a key, where there is a folder that can be written to. */
void rm_cache_write(const char *key, const char *bytes, size_t length);

/* Writes which folder that is. */
void rm_cache_describe(char *text, size_t length);

#endif
