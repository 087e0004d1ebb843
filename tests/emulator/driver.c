/*
 * The test of the emulator: opens its libraries as a user would, by their names, and runs one
 * scenario. emulator_test.ts calls it in both runtimes, or as a program of its own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the libraries --------------------------------------------------------------------------- */

typedef struct {
  char bytes[128];
} unique_id;

#define FUNCTIONS(X) \
  X(cudart, int, cudaSetDevice, (int)) \
  X(cudart, int, cudaGetDeviceCount, (int *)) \
  X(cudart, int, cudaDeviceGetAttribute, (int *, int, int)) \
  X(cudart, int, cudaMalloc, (void **, size_t)) \
  X(cudart, int, cudaFree, (void *)) \
  X(cudart, int, cudaMallocHost, (void **, size_t)) \
  X(cudart, int, cudaFreeHost, (void *)) \
  X(cudart, int, cudaMemGetInfo, (size_t *, size_t *)) \
  X(cudart, int, cudaMemcpy, (void *, const void *, size_t, int)) \
  X(cudart, int, cudaMemcpyAsync, (void *, const void *, size_t, int, void *)) \
  X(cudart, int, cudaMemcpyPeerAsync, (void *, int, const void *, int, size_t, void *)) \
  X(cudart, int, cudaMemsetAsync, (void *, int, size_t, void *)) \
  X(cudart, int, cudaStreamCreateWithFlags, (void **, unsigned)) \
  X(cudart, int, cudaStreamDestroy, (void *)) \
  X(cudart, int, cudaStreamSynchronize, (void *)) \
  X(cudart, int, cudaStreamQuery, (void *)) \
  X(cudart, int, cudaStreamWaitEvent, (void *, void *, unsigned)) \
  X(cudart, int, cudaEventCreateWithFlags, (void **, unsigned)) \
  X(cudart, int, cudaEventRecord, (void *, void *)) \
  X(cudart, int, cudaEventQuery, (void *)) \
  X(cudart, int, cudaEventSynchronize, (void *)) \
  X(cudart, int, cudaEventElapsedTime, (float *, void *, void *)) \
  X(cudart, int, cudaDeviceSynchronize, (void)) \
  X(cudart, int, cudaGetLastError, (void)) \
  X(cudart, const char *, cudaGetErrorName, (int)) \
  X(cudart, int, cudaStreamBeginCapture, (void *, int)) \
  X(cudart, int, cudaStreamEndCapture, (void *, void **)) \
  X(cudart, int, cudaGraphInstantiate, (void **, void *, unsigned long long)) \
  X(cudart, int, cudaGraphLaunch, (void *, void *)) \
  X(cudart, int, cudaGraphExecDestroy, (void *)) \
  X(cudart, double, emu_get, (const char *)) \
  X(cudart, int, emu_set, (const char *, double)) \
  X(cudart, void, emu_reset, (void)) \
  X(cudart, int, emu_last_fault, (char *, int)) \
  X(cuda, int, cuInit, (unsigned)) \
  X(cuda, int, cuModuleLoadData, (void **, const void *)) \
  X(cuda, int, cuModuleUnload, (void *)) \
  X(cuda, int, cuModuleGetFunction, (void **, void *, const char *)) \
  X(cuda, int, cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, \
                                unsigned, unsigned, void *, void **, void **)) \
  X(nvrtc, int, nvrtcCreateProgram, (void **, const char *, const char *, int, \
                                     const char *const *, const char *const *)) \
  X(nvrtc, int, nvrtcCompileProgram, (void *, int, const char *const *)) \
  X(nvrtc, int, nvrtcGetProgramLogSize, (void *, size_t *)) \
  X(nvrtc, int, nvrtcGetProgramLog, (void *, char *)) \
  X(nvrtc, int, nvrtcGetCUBINSize, (void *, size_t *)) \
  X(nvrtc, int, nvrtcGetCUBIN, (void *, char *)) \
  X(nvrtc, int, nvrtcDestroyProgram, (void **)) \
  X(cublas, int, cublasCreate_v2, (void **)) \
  X(cublas, int, cublasDestroy_v2, (void *)) \
  X(cublas, int, cublasSetStream_v2, (void *, void *)) \
  X(cublas, int, cublasGemmStridedBatchedEx, (void *, int, int, int, int, int, const void *, \
      const void *, int, int, long long, const void *, int, int, long long, const void *, void *, \
      int, int, long long, int, int, int)) \
  X(cublasLt, int, cublasLtCreate, (void **)) \
  X(cublasLt, int, cublasLtMatmulDescCreate, (void **, int, int)) \
  X(cublasLt, int, cublasLtMatmulDescSetAttribute, (void *, int, const void *, size_t)) \
  X(cublasLt, int, cublasLtMatrixLayoutCreate, (void **, int, uint64_t, uint64_t, int64_t)) \
  X(cublasLt, int, cublasLtMatmulPreferenceCreate, (void **)) \
  X(cublasLt, int, cublasLtMatmulPreferenceSetAttribute, (void *, int, const void *, size_t)) \
  X(cublasLt, int, cublasLtMatmulAlgoGetHeuristic, (void *, void *, void *, void *, void *, \
                                                    void *, void *, int, void *, int *)) \
  X(cublasLt, int, cublasLtMatmul, (void *, void *, const void *, const void *, void *, \
      const void *, void *, const void *, const void *, void *, void *, void *, const void *, \
      void *, size_t, void *)) \
  X(nccl, int, ncclGetUniqueId, (unique_id *)) \
  X(nccl, int, ncclCommInitRank, (void **, int, unique_id, int)) \
  X(nccl, int, ncclCommGetAsyncError, (void *, int *)) \
  X(nccl, int, ncclCommAbort, (void *)) \
  X(nccl, int, ncclCommDestroy, (void *)) \
  X(nccl, int, ncclAllReduce, (const void *, void *, size_t, int, int, void *, void *)) \
  X(nccl, int, ncclBroadcast, (const void *, void *, size_t, int, int, void *, void *)) \
  X(nccl, int, ncclSend, (const void *, size_t, int, int, void *, void *)) \
  X(nccl, int, ncclRecv, (void *, size_t, int, int, void *, void *)) \
  X(nccl, int, ncclGroupStart, (void)) \
  X(nccl, int, ncclGroupEnd, (void))

#define DECLARE(library, result, name, parameters) static result (*name) parameters;
FUNCTIONS(DECLARE)

static void *cudart, *cuda, *nvrtc, *cublas, *cublasLt, *nccl;
static const char *kernels;

static char *message;
static int room;

/* A scenario ends at the first check that does not hold, which is told with its line. */
#define CHECK(condition) \
  do { \
    if (!(condition)) { \
      char fault[256]; \
      emu_last_fault(fault, sizeof fault); \
      snprintf(message, (size_t)room, "line %d: %s [%s]", __LINE__, #condition, fault); \
      return; \
    } \
  } while (0)
#define EXPECT(value, expected) \
  do { \
    double got_ = (double)(value), want_ = (double)(expected); \
    if (got_ != want_) { \
      char fault[256]; \
      emu_last_fault(fault, sizeof fault); \
      snprintf(message, (size_t)room, "line %d: %s is %g, not %g [%s]", __LINE__, #value, got_, \
               want_, fault); \
      return; \
    } \
  } while (0)
#define OK(call) EXPECT(call, 0)
/* Calls what may have ended at a check itself. */
#define DO(call) \
  do { \
    call; \
    if (message[0] != 0) return; \
  } while (0)

static void *open_one(const char *folder, const char *name) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) snprintf(message, (size_t)room, "%s", dlerror());
  return library;
}

static int open_all(const char *folder) {
  open_one(folder, "libnvrtc-builtins.so.13.0");
  cudart = open_one(folder, "libcudart.so.13");
  cuda = open_one(folder, "libcuda.so.1");
  nvrtc = open_one(folder, "libnvrtc.so.13");
  cublas = open_one(folder, "libcublas.so.13");
  cublasLt = open_one(folder, "libcublasLt.so.13");
  nccl = open_one(folder, "libnccl.so.2");
  if (message[0] != 0) return 0;
#define FIND(library, result, name, parameters) \
  *(void **)&name = dlsym(library, #name); \
  if (name == NULL) return snprintf(message, (size_t)room, "no symbol %s", #name), 0;
  FUNCTIONS(FIND)
  return 1;
}

/* ---- helpers --------------------------------------------------------------------------------- */

static void *module, *queue;

/* Compiles; gives NVRTC's error, and the log in the message when it is one. */
static int compile(const char *source, int count, const char *const *options, void **image) {
  void *program;
  size_t size;
  nvrtcCreateProgram(&program, source, "test.cu", 0, NULL, NULL);
  int error = nvrtcCompileProgram(program, count, options);
  if (error == 0) {
    nvrtcGetCUBINSize(program, &size);
    *image = malloc(size);
    nvrtcGetCUBIN(program, *image);
  } else {
    nvrtcGetProgramLogSize(program, &size);
    char *log = malloc(size);
    nvrtcGetProgramLog(program, log);
    snprintf(message, (size_t)room, "%s", log);
    free(log);
  }
  nvrtcDestroyProgram(&program);
  return error;
}

static void start(void) {
  static const char *const options[] = {"--gpu-architecture=sm_90", "--std=c++17",
                                        "-default-device", "-fmad=false"};
  void *image;
  emu_reset();
  emu_set("order", 0);
  OK(cudaSetDevice(0));
  OK(cuInit(0));
  if (module == NULL) {
    if (compile(kernels, 4, options, &image) != 0) return;
    OK(cuModuleLoadData(&module, image));
    free(image);
    OK(cudaStreamCreateWithFlags(&queue, 1));
  }
}

/* Launches one of the kernels with packed arguments, all of 8 bytes. */
static int launch(const char *name, int blocks, int threads, int count, const void *arguments) {
  void *function;
  size_t bytes = 8 * (size_t)count;
  int error = cuModuleGetFunction(&function, module, name);
  if (error != 0) return error;
  void *extra[] = {(void *)1, (void *)arguments, (void *)2, &bytes, (void *)0};
  return cuLaunchKernel(function, (unsigned)blocks, 1, 1, (unsigned)threads, 1, 1, 0, queue,
                        NULL, extra);
}

static void *on_device(size_t bytes) {
  void *address = NULL;
  cudaMalloc(&address, bytes);
  return address;
}

/* ---- kernels that are right ------------------------------------------------------------------ */

static void sound_kernels(void) {
  enum { N = 100000, BLOCKS = 7 };
  DO(start());
  float *a = malloc(N * sizeof *a), sums[BLOCKS], *d_a = on_device(N * 4), *d_out = on_device(4096);
  for (int i = 0; i < N; i++) a[i] = (float)(i % 10);
  OK(cudaMemcpyAsync(d_a, a, N * 4, 1, queue));
  for (int order = 0; order < 7; order++) {
    emu_set("order", order);
    struct { void *out, *a; long long n; } arguments = {d_out, d_a, N};
    OK(launch("sums", BLOCKS, 256, 3, &arguments));
    OK(cudaMemcpyAsync(sums, d_out, sizeof sums, 2, queue));
    double total = 0;
    for (int i = 0; i < BLOCKS; i++) total += sums[i];
    EXPECT(total, 450000);
  }
  free(a);

  int values[96], out[96];
  for (int i = 0; i < 96; i++) values[i] = i;
  OK(cudaMemcpyAsync(d_a, values, sizeof values, 1, queue));
  struct { void *out, *a; double scale; } back = {d_out, d_a, 3};
  OK(launch("backwards", 2, 48, 3, &back));
  OK(cudaMemcpyAsync(out, d_out, sizeof out, 2, queue));
  EXPECT(out[0], 141);
  EXPECT(out[48], 95 * 3);

  float square[64 * 64], *d_square = on_device(sizeof square);
  for (int i = 0; i < 64 * 64; i++) square[i] = (float)i;
  OK(cudaMemcpyAsync(d_a, square, sizeof square, 1, queue));
  void *function, *parameters[] = {&d_square, &d_a};
  OK(cuModuleGetFunction(&function, module, "transposed"));
  OK(cuLaunchKernel(function, 2, 2, 1, 32, 8, 1, 0, queue, parameters, NULL));
  OK(cudaMemcpyAsync(square, d_square, sizeof square, 2, queue));
  EXPECT(square[0], 0);
  EXPECT(square[64 * 3 + 50], 50 * 64 + 3);
  OK(cudaFree(d_a));
  OK(cudaFree(d_out));
  OK(cudaFree(d_square));
}

static void lanes_of_warps(void) {
  DO(start());
  unsigned out[64 * 16], *d_out = on_device(sizeof out);
  int counts[6] = {0}, *d_counts = on_device(sizeof counts);
  for (int order = 0; order < 6; order++) {
    emu_set("order", order);
    OK(cudaMemcpyAsync(d_counts, (int[6]){0}, sizeof counts, 1, queue));
    struct { void *out, *counts; } arguments = {d_out, d_counts};
    OK(launch("lanes", 1, 64, 2, &arguments));
    OK(cudaMemcpyAsync(out, d_out, sizeof out, 2, queue));
    OK(cudaMemcpyAsync(counts, d_counts, sizeof counts, 2, queue));
    const unsigned *x = out + 16 * (32 + 20);
    static const unsigned expected[] = {5, 17, 23, 28, 17, 0x49249249, 0, 1, 0x00ff0000, 0, 10, 42,
                                        32, 7, 10, 1};
    for (int i = 0; i < 16; i++) EXPECT(x[i], expected[i]);
    EXPECT(out[16 * 1 + 1], 1);
    EXPECT(out[16 * 31 + 2], 31);
    EXPECT(out[16 * 2 + 13], 0xaaaa);
    for (int i = 0; i < 4; i++) EXPECT(counts[i], 16);
    EXPECT(counts[4], 63);
    CHECK(counts[5] > 0);
    if (order == 0) EXPECT(counts[5], 1);
  }
  OK(cudaFree(d_out));
  OK(cudaFree(d_counts));
}

/* Each module has its own kernels, whatever others are called. */
static void many_modules(void) {
  static const char *const options[] = {"--gpu-architecture=sm_90"};
  void *modules[3], *images[3], *function;
  char source[128];
  float out, *d_out = on_device(4);
  DO(start());
  for (int i = 0; i < 3; i++) {
    sprintf(source, "extern \"C\" __global__ void own(float *out) { *out = %d; }", i);
    if (compile(source, 1, options, &images[i]) != 0) return;
    OK(cuModuleLoadData(&modules[i], images[i]));
  }
  for (int i = 0; i < 3; i++) {
    void *parameters[] = {&d_out};
    OK(cuModuleGetFunction(&function, modules[i], "own"));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, queue, parameters, NULL));
    OK(cudaMemcpyAsync(&out, d_out, 4, 2, queue));
    EXPECT(out, i);
    OK(cuModuleUnload(modules[i]));
    EXPECT(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, queue, parameters, NULL), 400);
  }
  /* A damaged image is none. */
  ((char *)images[0])[200] ^= 1;
  EXPECT(cuModuleLoadData(&modules[0], images[0]), 200);
  emu_set("capability", 86);
  EXPECT(cuModuleLoadData(&modules[0], images[1]), 209);
  emu_set("capability", 90);
  for (int i = 0; i < 3; i++) free(images[i]);
  OK(cudaFree(d_out));
}

/* ---- kernels with a fault -------------------------------------------------------------------- */

static void missing_barrier(void) {
  DO(start());
  float out[64], *d_out = on_device(sizeof out);
  int wrong[2][3] = {{0}};
  for (int side = 0; side < 2; side++) {
    for (int order = 0; order < 3; order++) {
      emu_set("order", order);
      struct { void *out; long long side; } arguments = {d_out, side == 0 ? 1 : 63};
      OK(launch("no_barrier", 1, 64, 2, &arguments));
      OK(cudaMemcpyAsync(out, d_out, sizeof out, 2, queue));
      for (int i = 0; i < 64; i++) wrong[side][order] += isnan(out[i]) != 0;
    }
  }
  /* Reading ahead shows forwards, reading behind backwards, and both at random. */
  EXPECT(wrong[0][0], 63);
  EXPECT(wrong[0][1], 1);
  EXPECT(wrong[1][0], 1);
  EXPECT(wrong[1][1], 63);
  CHECK(wrong[0][2] > 5 && wrong[1][2] > 5);

  /* A warp that is ahead takes what the others have not read yet: only eager orders show it. */
  float sums[128], *d_sums = on_device(sizeof sums);
  for (int order = 0; order < 6; order++) {
    emu_set("order", order);
    OK(launch("used_again", 1, 64, 1, &d_sums));
    OK(cudaMemcpyAsync(sums, d_sums, sizeof sums, 2, queue));
    int others = 0;
    for (int i = 0; i < 128; i++) others += sums[i] != (i < 64 ? 64 : 128);
    EXPECT(others, order < 3 ? 0 : 32);
  }
  emu_set("order", 0);
  OK(cudaFree(d_out));
  OK(cudaFree(d_sums));
}

/* Runs what has to end with an error, whose message has a word in it, and stays. */
static void faulty(const char *name, int threads, int count, const void *arguments, int error,
                   const char *word) {
  char fault[512];
  size_t available, total;
  OK(launch(name, 1, threads, count, arguments));
  EXPECT(cudaStreamSynchronize(queue), error);
  emu_last_fault(fault, sizeof fault);
  CHECK(strstr(fault, name) != NULL && strstr(fault, word) != NULL);
  EXPECT(cudaMemGetInfo(&available, &total), error);
  EXPECT(launch(name, 1, threads, count, arguments), error);
  EXPECT(cudaGetLastError(), error);
  EXPECT(cudaGetLastError(), error);
  emu_reset();
  OK(cudaGetLastError());
}

static void divergent_barriers(void) {
  DO(start());
  void *d_out = on_device(4096);
  struct { void *out; long long n; } arguments = {d_out, 40};
  DO(faulty("divergent", 64, 1, &d_out, 719, "different barriers"));
  DO(faulty("early_return", 64, 2, &arguments, 719,
            "40 of 64 threads wait at the barrier of line 109, 24 have ended"));
  DO(faulty("early_lane", 64, 2, &arguments, 719, "8 wait for lanes of their warp"));
  OK(cudaFree(d_out));
}

static void illegal_addresses(void) {
  DO(start());
  float *d_a = on_device(1024), *d_out = on_device(1024);
  struct { void *out, *a; long long i; } read = {d_out, d_a, 256};
  struct { void *out; long long i; } write = {d_out, 256}, tile = {d_out, 8};
  DO(faulty("read_at", 1, 3, &read, 700, "byte 1024 of an allocation of 1024"));
  DO(faulty("write_at", 1, 2, &write, 700, "byte 1024 of an allocation of 1024"));
  read.i = -1024;
  DO(faulty("read_at", 1, 3, &read, 700, "shortly before"));
  read.a = NULL;
  DO(faulty("read_at", 1, 3, &read, 700, "outside of device memory"));
  DO(faulty("beyond_tile", 1, 2, &tile, 700, "index beyond an array"));
  read.a = d_a;
  read.i = 1;
  DO(faulty("misaligned", 1, 3, &read, 716, "misaligned"));
  write.i = 2;
  DO(faulty("misaligned_store", 1, 2, &write, 716, "misaligned"));
  write.i = 0;
  DO(faulty("divided", 1, 2, &write, 719, "division"));
  DO(faulty("deep", 1, 2, &write, 700, "beyond the stack"));
  OK(cudaFree(d_a));
  read.i = 0;
  DO(faulty("read_at", 1, 3, &read, 700, "freed"));
  OK(cudaFree(d_out));
  EXPECT(cudaFree(d_out), 1);

  /* An odd number of bytes can be followed by the end of a page at once. */
  emu_set("exact", 1);
  d_out = on_device(16 * 4);
  emu_set("exact", 0);
  write.out = d_out;
  write.i = 16;
  DO(faulty("write_at", 1, 2, &write, 700, "byte 64 of an allocation of 64"));
  write.i = 15;
  OK(launch("write_at", 1, 1, 2, &write));
  OK(cudaStreamSynchronize(queue));
  OK(cudaFree(d_out));

  /* What does not end there is looked at when it is freed. */
  d_out = on_device(15 * 4);
  write.out = d_out;
  OK(launch("write_at", 1, 1, 2, &write));
  OK(cudaStreamSynchronize(queue));
  EXPECT(cudaFree(d_out), 0);
  EXPECT(cudaStreamSynchronize(queue), 700);
  char fault[512];
  emu_last_fault(fault, sizeof fault);
  CHECK(strstr(fault, "bytes behind an allocation of 60 were written to") != NULL);
  emu_reset();
  cudaGetLastError();
}

/* ---- failures that were asked for ----------------------------------------------------------- */

static void injected_failures(void) {
  void *address, *second, *image;
  size_t available, total, before;
  static const char *const good[] = {"-arch=sm_90"}, *const bad[] = {"--no-such-thing"};
  DO(start());
  emu_set("failMalloc", 2);
  OK(cudaMalloc(&address, 512));
  EXPECT(cudaMalloc(&second, 512), 2);
  EXPECT(cudaGetLastError(), 2);
  OK(cudaGetLastError());
  OK(cudaFree(address));

  OK(cudaMemGetInfo(&before, &total));
  EXPECT(cudaMalloc(&address, before + 1), 2);
  OK(cudaMalloc(&address, 1 << 20));
  OK(cudaMemGetInfo(&available, &total));
  EXPECT(before - available, 1 << 20);

  struct { void *out; long long i; } write = {address, 0};
  emu_set("failLaunch", 1);
  EXPECT(launch("write_at", 1, 1, 2, &write), 701);
  emu_set("failKernel", 1);
  DO(faulty("write_at", 1, 2, &write, 719, "asked for"));
  EXPECT(launch("write_at", 1, 1, 1, &write), 1);
  EXPECT(launch("write_at", 0, 1, 2, &write), 1);
  EXPECT(launch("write_at", 1, 1025, 2, &write), 1);
  EXPECT(launch("sums", 1, 512, 3, (void *[]){address, address, 0}), 701);
  EXPECT(launch("nobody", 1, 1, 0, NULL), 500);
  OK(cudaFree(address));

  EXPECT(compile("extern \"C\" __global__ void f(int *x) {\n  *x = y;\n}\n", 1, good, &image), 6);
  CHECK(strstr(message, "source.cu:2:8: error: use of undeclared identifier 'y'") != NULL);
  EXPECT(compile("", 1, bad, &image), 5);
  CHECK(strstr(message, "invalid option: --no-such-thing") != NULL);
  emu_set("failCompile", 1);
  EXPECT(compile("", 1, good, &image), 6);
  message[0] = 0;
}

/* ---- queues ---------------------------------------------------------------------------------- */

static void lazy_queues(void) {
  DO(start());
  float *a = on_device(1024), *pinned, value = 5, time;
  void *other, *done, *later;
  OK(cudaMallocHost((void **)&pinned, 1024));
  OK(cudaStreamCreateWithFlags(&other, 1));
  OK(cudaEventCreateWithFlags(&done, 0));
  OK(cudaEventCreateWithFlags(&later, 0));

  /* Memory of the program is read at once, pinned memory when its turn comes. */
  OK(cudaMemcpyAsync(a, &value, 4, 1, queue));
  value = 6;
  pinned[0] = 7;
  OK(cudaMemcpyAsync(a + 1, pinned, 4, 1, queue));
  pinned[0] = 8;
  OK(cudaMemcpyAsync(pinned + 10, a, 8, 2, queue));
  OK(cudaEventRecord(done, queue));
  EXPECT(pinned[10], 0);
  EXPECT(cudaEventQuery(done), 600);
  EXPECT(pinned[10], 0);
  OK(cudaEventQuery(done));
  EXPECT(pinned[10], 5);
  EXPECT(pinned[11], 8);

  /* Nothing orders two streams but an event. */
  OK(cudaMemsetAsync(a, 0, 4, queue));
  OK(cudaEventRecord(done, queue));
  OK(cudaMemcpyAsync(pinned, a, 4, 2, other));
  OK(cudaStreamSynchronize(other));
  EXPECT(pinned[0], 5);
  OK(cudaStreamWaitEvent(other, done, 0));
  OK(cudaMemcpyAsync(pinned, a, 4, 2, other));
  OK(cudaEventRecord(later, other));
  EXPECT(cudaEventElapsedTime(&time, done, later), 600);
  OK(cudaStreamSynchronize(other));
  EXPECT(pinned[0], 0);
  OK(cudaEventElapsedTime(&time, done, later));
  CHECK(time >= 0);

  /* Fresh memory is NaN. */
  OK(cudaMemcpyAsync(pinned, a + 9, 4, 2, queue));
  EXPECT(cudaStreamQuery(queue), 600);
  OK(cudaStreamQuery(queue));
  CHECK(isnan(pinned[0]));

  /* What is freed, cannot be copied. */
  EXPECT(cudaMemcpyAsync(a + 256, &value, 4, 1, queue), 1);
  EXPECT(cudaMemcpyAsync(pinned, a, 4, 1, queue), 1);
  OK(cudaFree(a));
  EXPECT(cudaMemcpyAsync(a, &value, 4, 1, queue), 1);
  OK(cudaFreeHost(pinned));
  OK(cudaStreamDestroy(other));
  EXPECT(cudaStreamSynchronize(other), 400);
}

static void graphs(void) {
  DO(start());
  float out[2] = {0}, *a = on_device(1024);
  void *graph, *ready, *refused;
  struct { void *out; long long i; } arguments = {a, 1};
  OK(cudaStreamBeginCapture(queue, 0));
  OK(cudaMemsetAsync(a, 0, 8, queue));
  OK(launch("write_at", 1, 1, 2, &arguments));
  OK(cudaStreamEndCapture(queue, &graph));
  OK(cudaGraphInstantiate(&ready, graph, 0));
  OK(cudaMemcpyAsync(out, a, 8, 2, queue));
  CHECK(isnan(out[0]));
  for (int i = 0; i < 2; i++) {
    OK(cudaMemsetAsync(a, 255, 8, queue));
    OK(cudaGraphLaunch(ready, queue));
    OK(cudaMemcpyAsync(out, a, 8, 2, queue));
    EXPECT(out[0], 0);
    EXPECT(out[1], 1);
  }
  OK(cudaGraphExecDestroy(ready));
  OK(cudaStreamBeginCapture(queue, 0));
  EXPECT(cudaMalloc(&refused, 512), 900);
  EXPECT(cudaStreamEndCapture(queue, &graph), 901);
  cudaGetLastError();
  OK(cudaFree(a));
}

static void two_devices(void) {
  DO(start());
  int count;
  float out, *first = on_device(512), *second;
  void *other;
  OK(cudaGetDeviceCount(&count));
  EXPECT(count, 2);
  OK(cudaMemcpyAsync(first, &(float){3}, 4, 1, queue));
  OK(cudaStreamSynchronize(queue));
  OK(cudaSetDevice(1));
  second = on_device(512);
  OK(cudaStreamCreateWithFlags(&other, 1));
  OK(cudaMemcpyPeerAsync(second, 1, first, 0, 4, other));
  OK(cudaMemcpyAsync(&out, second, 4, 2, other));
  EXPECT(out, 3);
  /* A kernel belongs to the device on which it was loaded. */
  EXPECT(launch("write_at", 1, 1, 2, (void *[]){first, 0}), 400);
  OK(cudaFree(second));
  OK(cudaSetDevice(0));
  OK(cudaFree(first));
  EXPECT(cudaSetDevice(2), 101);
  cudaGetLastError();
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void one_rank(void) {
  enum { FLOAT32 = 7, SUM = 0, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };
  DO(start());
  float in[4] = {1, 2, 3, 4}, out[4], *a = on_device(16), *b = on_device(16);
  unique_id id, none = {""};
  void *comm, *another;
  int error;
  OK(ncclGetUniqueId(&id));
  EXPECT(ncclCommInitRank(&comm, 1, none, 0), INVALID_ARGUMENT);
  EXPECT(ncclCommInitRank(&comm, 1, id, 1), INVALID_ARGUMENT);
  OK(ncclCommInitRank(&comm, 1, id, 0));
  /* A name is for one communicator. */
  EXPECT(ncclCommInitRank(&another, 1, id, 0), INVALID_USAGE);
  OK(cudaMemcpyAsync(a, in, 16, 1, queue));
  OK(ncclAllReduce(a, b, 4, FLOAT32, SUM, comm, queue));
  OK(ncclAllReduce(b, b, 4, FLOAT32, SUM, comm, queue));
  OK(cudaMemcpyAsync(out, b, 16, 2, queue));
  OK(cudaStreamSynchronize(queue));
  for (int i = 0; i < 4; i++) EXPECT(out[i], in[i]);
  EXPECT(ncclAllReduce(a, b, 4, 20, SUM, comm, queue), INVALID_ARGUMENT);
  EXPECT(ncclAllReduce(a, b, 4, FLOAT32, 9, comm, queue), INVALID_ARGUMENT);
  EXPECT(ncclBroadcast(a, b, 4, FLOAT32, 1, comm, queue), INVALID_ARGUMENT);
  EXPECT(ncclAllReduce(a, a + 1, 2, FLOAT32, SUM, comm, queue), INVALID_USAGE);
  /* To itself, a rank sends and receives in a group. */
  EXPECT(ncclSend(a, 4, FLOAT32, 0, comm, queue), INVALID_USAGE);
  EXPECT(ncclGroupEnd(), INVALID_USAGE);
  OK(cudaMemsetAsync(b, 0, 16, queue));
  OK(ncclGroupStart());
  OK(ncclSend(a, 4, FLOAT32, 0, comm, queue));
  OK(ncclRecv(b, 4, FLOAT32, 0, comm, queue));
  OK(ncclGroupEnd());
  OK(cudaMemcpyAsync(out, b, 16, 2, queue));
  OK(cudaStreamSynchronize(queue));
  for (int i = 0; i < 4; i++) EXPECT(out[i], in[i]);
  OK(ncclGroupStart());
  EXPECT(ncclSend(a, 4, FLOAT32, 1, comm, queue), INVALID_ARGUMENT);
  EXPECT(ncclGroupEnd(), INVALID_ARGUMENT);
  /* A message that never comes: the stream goes on after the abort. */
  OK(ncclGroupStart());
  OK(ncclRecv(b, 4, FLOAT32, 0, comm, queue));
  OK(ncclGroupEnd());
  EXPECT(cudaStreamQuery(queue), 600);
  EXPECT(cudaStreamQuery(queue), 600);
  OK(ncclCommGetAsyncError(comm, &error));
  EXPECT(error, 0);
  OK(ncclCommAbort(comm));
  OK(cudaStreamSynchronize(queue));
  EXPECT(ncclAllReduce(a, b, 4, FLOAT32, SUM, comm, queue), INVALID_ARGUMENT);
  EXPECT(ncclCommAbort(comm), INVALID_ARGUMENT);
  EXPECT(ncclCommDestroy(NULL), INVALID_ARGUMENT);
  /* Memory of another size. */
  OK(ncclGetUniqueId(&id));
  OK(ncclCommInitRank(&comm, 1, id, 0));
  OK(ncclAllReduce(b, b, 4096, FLOAT32, SUM, comm, queue));
  EXPECT(cudaStreamSynchronize(queue), 700);
  OK(ncclCommAbort(comm));
  emu_reset();
}

/* ---- products -------------------------------------------------------------------------------- */

static void products(void) {
  enum { R_32F = 0, R_16BF = 14, COMPUTE_32F = 68, COMPUTE_TF32 = 77 };
  DO(start());
  /* By columns: a is 2 x 3, b is 3 x 2. */
  float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 2, 0, 1, 0}, c[4], one = 1, zero = 0;
  float *d_a = on_device(24), *d_b = on_device(24), *d_c = on_device(16);
  void *handle;
  OK(cublasCreate_v2(&handle));
  OK(cublasSetStream_v2(handle, queue));
  OK(cudaMemcpyAsync(d_a, a, 24, 1, queue));
  OK(cudaMemcpyAsync(d_b, b, 24, 1, queue));
  OK(cublasGemmStridedBatchedEx(handle, 0, 0, 2, 2, 3, &one, d_a, R_32F, 2, 0, d_b, R_32F, 3, 0,
                                &zero, d_c, R_32F, 2, 0, 1, COMPUTE_32F, -1));
  OK(cudaMemcpyAsync(c, d_c, 16, 2, queue));
  for (int i = 0; i < 4; i++) EXPECT(c[i], ((float[]){11, 14, 3, 4})[i]);
  /* c is NaN to begin with, and would stay so if it were read. */
  OK(cublasGemmStridedBatchedEx(handle, 1, 1, 2, 2, 3, &one, d_a, R_32F, 3, 0, d_b, R_32F, 2, 0,
                                &one, d_c, R_32F, 2, 0, 1, COMPUTE_32F, -1));
  OK(cudaMemcpyAsync(c, d_c, 16, 2, queue));
  for (int i = 0; i < 4; i++) EXPECT(c[i], ((float[]){11 + 8, 14 + 20, 3 + 0, 4 + 0})[i]);
  EXPECT(cublasGemmStridedBatchedEx(handle, 0, 0, 2, 2, 3, &one, d_a, R_32F, 1, 0, d_b, R_32F, 3,
                                    0, &zero, d_c, R_32F, 2, 0, 1, COMPUTE_32F, -1), 7);
  OK(cublasDestroy_v2(handle));

  /* cuBLASLt: bias for each row, and relu. */
  void *lt, *desc, *of_a, *of_b, *of_c, *preference;
  uint64_t found[12];
  int count, epilogue = 6;
  float bias[] = {-12, 1}, *d_bias = on_device(8);
  OK(cudaMemcpyAsync(d_bias, bias, 8, 1, queue));
  OK(cublasLtCreate(&lt));
  OK(cublasLtMatmulDescCreate(&desc, COMPUTE_32F, R_32F));
  OK(cublasLtMatmulDescSetAttribute(desc, 7, &epilogue, sizeof epilogue));
  OK(cublasLtMatmulDescSetAttribute(desc, 8, &d_bias, sizeof d_bias));
  OK(cublasLtMatrixLayoutCreate(&of_a, R_32F, 2, 3, 2));
  OK(cublasLtMatrixLayoutCreate(&of_b, R_32F, 3, 2, 3));
  OK(cublasLtMatrixLayoutCreate(&of_c, R_32F, 2, 2, 2));
  OK(cublasLtMatmulPreferenceCreate(&preference));
  OK(cublasLtMatmulAlgoGetHeuristic(lt, desc, of_a, of_b, of_c, of_c, preference, 1, found,
                                    &count));
  EXPECT(count, 1);
  OK(cublasLtMatmul(lt, desc, &one, d_a, of_a, d_b, of_b, &zero, d_c, of_c, d_c, of_c, found, NULL,
                    0, queue));
  OK(cudaMemcpyAsync(c, d_c, 16, 2, queue));
  for (int i = 0; i < 4; i++) EXPECT(c[i], ((float[]){0, 15, 0, 5})[i]);
  EXPECT(cublasLtMatmul(lt, desc, &one, d_a, of_a, d_b + 1, of_b, &zero, d_c, of_c, d_c, of_c,
                        found, NULL, 0, queue), 15);
  EXPECT(cublasLtMatmulAlgoGetHeuristic(lt, desc, of_b, of_b, of_c, of_c, preference, 1, found,
                                        &count), 7);
  OK(cudaFree(d_a));
  OK(cudaFree(d_b));
  OK(cudaFree(d_c));
  OK(cudaFree(d_bias));
}

/* ---- only as a program: it ends by a signal -------------------------------------------------- */

static void touch_from_host(void) {
  DO(start());
  volatile float *address = on_device(4);
  CHECK(address != NULL);
  snprintf(message, (size_t)room, "the host read %g", (double)*address);
}

static const struct {
  const char *name;
  void (*run)(void);
} scenarios[] = {
    {"sound_kernels", sound_kernels},         {"lanes_of_warps", lanes_of_warps},
    {"many_modules", many_modules},
    {"missing_barrier", missing_barrier},     {"divergent_barriers", divergent_barriers},
    {"illegal_addresses", illegal_addresses}, {"injected_failures", injected_failures},
    {"lazy_queues", lazy_queues},             {"graphs", graphs},
    {"two_devices", two_devices},             {"products", products},
    {"touch_from_host", touch_from_host},
    {"one_rank", one_rank},
};

/* Runs a scenario; gives 0, or 1 with a message. The text of the kernels is needed once. */
__attribute__((visibility("default"))) int run_scenario(const char *folder, const char *source,
                                                        const char *name, char *text, int length) {
  message = text;
  room = length;
  text[0] = 0;
  kernels = source;
  if (cudart == NULL && !open_all(folder)) return 1;
  for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
    if (strcmp(scenarios[i].name, name) != 0) continue;
    scenarios[i].run();
    return message[0] != 0;
  }
  snprintf(text, (size_t)length, "no scenario %s", name);
  return 1;
}

#if defined(DRIVER_MAIN)
int main(int count, char **arguments) {
  static char source[1 << 16], text[4096];
  FILE *file = count < 4 ? NULL : fopen(arguments[2], "rb");
  if (file == NULL || fread(source, 1, sizeof source - 1, file) == 0) return 2;
  fclose(file);
  int failed = run_scenario(arguments[1], source, arguments[3], text, sizeof text);
  puts(text);
  return failed;
}
#endif
