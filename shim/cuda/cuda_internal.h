/*
 * What the files of the CUDA part share: the functions of NVIDIA's libraries, devices, errors in
 * words, handles.
 *
 * The declarations follow the public interfaces of CUDA 11 to 13, of which only what is the same in
 * all of them is used; no header of CUDA is needed. Pointers to streams, events, modules and the
 * like are void pointers. There is no CUDA on macOS, and nothing of this but its refusal.
 */
#ifndef ROWMAJOR_CUDA_H
#define ROWMAJOR_CUDA_H

#include <stdatomic.h>
#include "internal.h"
#include "mutex.h"

/* ---- the libraries (cuda_load.c) ------------------------------------------------------------- */

/* An address in the memory of a device. */
typedef unsigned long long rm_address;

/* F(name, parameters) for each function of a library; all give a status, 0 for success. */
#define RM_DRIVER_FUNCTIONS(F) \
  F(cuInit, (unsigned flags)) \
  F(cuDriverGetVersion, (int *version)) \
  F(cuGetErrorName, (int code, const char **name)) \
  F(cuGetErrorString, (int code, const char **text)) \
  F(cuDeviceGet, (int *device, int index)) \
  F(cuDeviceGetName, (char *name, int length, int device)) \
  F(cuDeviceTotalMem_v2, (size_t *bytes, int device)) \
  F(cuModuleLoadData, (void **module, const void *image)) \
  F(cuModuleUnload, (void *module)) \
  F(cuModuleGetFunction, (void **function, void *module, const char *name)) \
  F(cuLaunchKernel, (void *function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, \
                     unsigned threads_x, unsigned threads_y, unsigned threads_z, \
                     unsigned shared_bytes, void *stream, void **parameters, void **extra))

#define RM_RUNTIME_FUNCTIONS(F) \
  F(cudaRuntimeGetVersion, (int *version)) \
  F(cudaGetDeviceCount, (int *count)) \
  F(cudaSetDevice, (int device)) \
  F(cudaDeviceGetAttribute, (int *value, int attribute, int device)) \
  F(cudaDeviceCanAccessPeer, (int *can, int device, int peer)) \
  F(cudaDeviceEnablePeerAccess, (int peer, unsigned flags)) \
  F(cudaGetLastError, (void)) \
  F(cudaMalloc, (void **address, size_t bytes)) \
  F(cudaFree, (void *address)) \
  F(cudaMemGetInfo, (size_t *free, size_t *total)) \
  F(cudaHostAlloc, (void **memory, size_t bytes, unsigned flags)) \
  F(cudaFreeHost, (void *memory)) \
  F(cudaMemcpyAsync, (void *to, const void *from, size_t bytes, int kind, void *stream)) \
  F(cudaMemcpyPeerAsync, (void *to, int to_device, const void *from, int from_device, \
                          size_t bytes, void *stream)) \
  F(cudaMemsetAsync, (void *address, int value, size_t bytes, void *stream)) \
  F(cudaStreamCreateWithFlags, (void **stream, unsigned flags)) \
  F(cudaStreamQuery, (void *stream)) \
  F(cudaStreamSynchronize, (void *stream)) \
  F(cudaStreamWaitEvent, (void *stream, void *event, unsigned flags)) \
  F(cudaStreamBeginCapture, (void *stream, int mode)) \
  F(cudaStreamEndCapture, (void *stream, void **graph)) \
  F(cudaEventCreateWithFlags, (void **event, unsigned flags)) \
  F(cudaEventRecord, (void *event, void *stream)) \
  F(cudaEventQuery, (void *event)) \
  F(cudaEventSynchronize, (void *event)) \
  F(cudaEventElapsedTime, (float *milliseconds, void *event, void *later)) \
  F(cudaEventDestroy, (void *event)) \
  F(cudaGraphInstantiateWithFlags, (void **executable, void *graph, unsigned long long flags)) \
  F(cudaGraphLaunch, (void *executable, void *stream)) \
  F(cudaGraphExecDestroy, (void *executable)) \
  F(cudaGraphDestroy, (void *graph))

#define RM_NVRTC_FUNCTIONS(F) \
  F(nvrtcVersion, (int *major, int *minor)) \
  F(nvrtcGetNumSupportedArchs, (int *count)) \
  F(nvrtcGetSupportedArchs, (int *architectures)) \
  F(nvrtcCreateProgram, (void **program, const char *source, const char *name, int headers, \
                         const char *const *texts, const char *const *names)) \
  F(nvrtcCompileProgram, (void *program, int count, const char *const *options)) \
  F(nvrtcGetProgramLogSize, (void *program, size_t *bytes)) \
  F(nvrtcGetProgramLog, (void *program, char *log)) \
  F(nvrtcGetCUBINSize, (void *program, size_t *bytes)) \
  F(nvrtcGetCUBIN, (void *program, char *image)) \
  F(nvrtcGetPTXSize, (void *program, size_t *bytes)) \
  F(nvrtcGetPTX, (void *program, char *text)) \
  F(nvrtcDestroyProgram, (void **program))

#define RM_CUBLAS_FUNCTIONS(F) \
  F(cublasCreate_v2, (void **handle)) \
  F(cublasSetStream_v2, (void *handle, void *stream)) \
  F(cublasSetWorkspace_v2, (void *handle, void *workspace, size_t bytes)) \
  F(cublasSetMathMode, (void *handle, int mode)) \
  F(cublasGemmEx, (void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, \
                   const void *a, int a_type, int lda, const void *b, int b_type, int ldb, \
                   const void *beta, void *c, int c_type, int ldc, int compute, int algorithm)) \
  F(cublasGemmStridedBatchedEx, \
    (void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, \
     int a_type, int lda, long long a_step, const void *b, int b_type, int ldb, long long b_step, \
     const void *beta, void *c, int c_type, int ldc, long long c_step, int batch, int compute, \
     int algorithm)) \
  F(cublasGemmBatchedEx, \
    (void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, \
     const void *const *a, int a_type, int lda, const void *const *b, int b_type, int ldb, \
     const void *beta, void *const *c, int c_type, int ldc, int batch, int compute, int algorithm))

#define RM_CUBLASLT_FUNCTIONS(F) \
  F(cublasLtCreate, (void **handle)) \
  F(cublasLtMatmulDescCreate, (void **description, int compute, int scale_type)) \
  F(cublasLtMatmulDescSetAttribute, \
    (void *description, int what, const void *value, size_t bytes)) \
  F(cublasLtMatmulDescDestroy, (void *description)) \
  F(cublasLtMatrixLayoutCreate, \
    (void **layout, int type, uint64_t rows, uint64_t columns, int64_t leading)) \
  F(cublasLtMatrixLayoutSetAttribute, (void *layout, int what, const void *value, size_t bytes)) \
  F(cublasLtMatrixLayoutDestroy, (void *layout)) \
  F(cublasLtMatmulPreferenceCreate, (void **preference)) \
  F(cublasLtMatmulPreferenceSetAttribute, \
    (void *preference, int what, const void *value, size_t bytes)) \
  F(cublasLtMatmulPreferenceDestroy, (void *preference)) \
  F(cublasLtMatmulAlgoGetHeuristic, \
    (void *handle, void *description, void *a, void *b, void *c, void *d, void *preference, \
     int wanted, void *results, int *found)) \
  F(cublasLtMatmul, (void *handle, void *description, const void *alpha, const void *a, \
                     void *a_layout, const void *b, void *b_layout, const void *beta, \
                     const void *c, void *c_layout, void *d, void *d_layout, \
                     const void *algorithm, void *workspace, size_t workspace_bytes, void *stream))

/* The libraries, and the functions of those that are open. */
typedef enum { RM_DRIVER, RM_RUNTIME, RM_NVRTC, RM_CUBLAS, RM_LIBRARIES } rm_library;

typedef struct {
#define RM_FIELD(name, parameters) int(*name) parameters;
  RM_DRIVER_FUNCTIONS(RM_FIELD)
  RM_RUNTIME_FUNCTIONS(RM_FIELD)
  RM_NVRTC_FUNCTIONS(RM_FIELD)
  RM_CUBLAS_FUNCTIONS(RM_FIELD)
  RM_CUBLASLT_FUNCTIONS(RM_FIELD)
#undef RM_FIELD
  const char *(*cudaGetErrorName)(int code);
  const char *(*cudaGetErrorString)(int code);
  const char *(*nvrtcGetErrorString)(int code);
} rm_functions;

extern rm_functions rm_cu;

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

/* ---- errors (cuda.c) ------------------------------------------------------------------------- */

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

/* ---- devices (cuda.c) ------------------------------------------------------------------------ */

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

/* Gives a device, which becomes this thread's; the first time it is prepared. */
int32_t rm_cuda_use(int32_t index, rm_device **device);

/* Fails with what cannot be done while a graph is being captured. */
int32_t rm_cuda_not_capturing(const rm_device *device, const char *what);

/* What rm_cuda_memory, rm_cuda_compile and rm_cuda_matmul do within a call on their device. */
int32_t rm_cuda_memory_within(int32_t what, int32_t index, double *numbers, void *host);
int32_t rm_cuda_compile_within(int32_t index, const void *source, const void *names,
                               double *handles);
int32_t rm_cuda_matmul_within(int32_t index, int32_t dtype, const double *plan);

/* ---- handles (cuda.c) ------------------------------------------------------------------------ */

typedef enum { RM_NO_HANDLE, RM_TICKET, RM_GRAPH, RM_EVENT } rm_handle;

/* A number that stands for a thing of a kind on a device; 0 where there is no memory for it. */
double rm_handle_for(rm_handle kind, const rm_device *device, void *thing);

/* What a number stands for; with last, for the last time. Null where it is no such handle. */
void *rm_handle_of(double number, rm_handle kind, const rm_device *device, bool last);

/* ---- memory (cuda_memory.c) ------------------------------------------------------------------ */

/* Makes the empty allocator and staging of a device. */
int32_t rm_memory_begin(rm_device *device);

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

/* The graph is no more: what it could write to is free for all. */
void rm_memory_end_graph(rm_device *device, int graph);

/* ---- products (cuda_blas.c) ------------------------------------------------------------------ */

/* Makes a place for what products of a device will need. */
int32_t rm_products_begin(rm_device *device);
/* Makes what they need now, where cuBLAS is there: not all of it may be made while a graph is recorded.
 * What fails is tried again, and told, by the first product. */
void rm_products_prepare(rm_device *device);

/* ---- compiled kernels (cuda_compile.c, cuda_files.c, cuda_cache.c) --------------------------- */

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

/* ---- compiled kernels (cuda_prebuilt.c) ------------------------------------------------------ */

/* A kernel that comes compiled: its code, for the driver, and the name that it has there. */
typedef struct {
  const char *image;
  char entry[64];
} rm_prebuilt;

/* The kernel of a name of so many bytes; what it finds lasts. */
int32_t rm_prebuilt_find(const char *name, size_t length, rm_prebuilt *found);

/* ---- what was compiled before (cuda_cache.c) ------------------------------------------------- */

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
