/*
 * The functions of NVIDIA's libraries.
 *
 * The declarations follow the public interfaces of CUDA 11 to 13, of which only what is the same in
 * all of them is used; no header of CUDA is needed. Pointers to streams, events, modules and the
 * like are void pointers.
 */
#ifndef ROWMAJOR_CUDA_FUNCTIONS_H
#define ROWMAJOR_CUDA_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

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

#endif
