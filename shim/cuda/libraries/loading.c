/*
 * Finds and opens NVIDIA's libraries: the driver, the runtime, NVRTC, cuBLAS, cuFFT, cuSOLVER
 * and NCCL.
 *
 * Each library is opened when it is first needed, at most once per process, and never closed. A
 * library never has a newer major version of CUDA than the driver, and both parts of cuBLAS come
 * from the same folder: other combinations have silently computed wrong results. This file calls
 * only the functions that return versions.
 */
#if !defined(__APPLE__)
#define _GNU_SOURCE
#include "cuda_internal.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "library.h"
#include "search.h"

rm_functions rm_cu;

enum { TEXT_CAPACITY = 6144 };

/* A text buffer. What does not fit is cut off. */
typedef struct {
  char at[TEXT_CAPACITY];
  size_t length;
} text_buffer;

static void __attribute__((format(printf, 2, 3))) append(text_buffer *to, const char *format, ...) {
  va_list values;
  va_start(values, format);
  const size_t capacity = sizeof to->at - to->length;
  const int length = vsnprintf(to->at + to->length, capacity, format, values);
  va_end(values);
  if (length > 0) to->length += (size_t)length < capacity ? (size_t)length : capacity - 1;
}

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

/* A file name and its major version of CUDA, or 0 if the name does not contain it. */
typedef struct {
  int major;
  const char *name;
  /* The other part of a pair, which must be in the same folder. */
  const char *part;
} candidate;

typedef struct {
  const char *name;
  size_t field;
} symbol;

#define RM_SYMBOL(name, ...) {#name, offsetof(rm_functions, name)},
#define RM_FOURTH(name, i) offsetof(rm_functions, name) + i * sizeof(int (*)(void))
#define RM_SYMBOLS(name, s, d, c, z, ...) \
  {#s, RM_FOURTH(name, 0)}, {#d, RM_FOURTH(name, 1)}, {#c, RM_FOURTH(name, 2)}, \
      {#z, RM_FOURTH(name, 3)},
static const symbol driver_symbols[] = {
#define RM_DRIVER_FUNCTION RM_SYMBOL
#include "cuda_functions.def"
    {NULL, 0}};
static const symbol runtime_symbols[] = {
#define RM_RUNTIME_FUNCTION RM_SYMBOL
#include "cuda_functions.def"
    RM_SYMBOL(cudaGetErrorName) RM_SYMBOL(cudaGetErrorString){NULL, 0}};
static const symbol nvrtc_symbols[] = {
#define RM_NVRTC_FUNCTION RM_SYMBOL
#include "cuda_functions.def"
    RM_SYMBOL(nvrtcGetErrorString){NULL, 0}};
static const symbol cublas_symbols[] = {
#define RM_CUBLAS_FUNCTION RM_SYMBOL
#define RM_CUBLAS_FUNCTIONS RM_SYMBOLS
#include "cuda_functions.def"
    {NULL, 0}};
static const symbol cublaslt_symbols[] = {
#define RM_CUBLASLT_FUNCTION RM_SYMBOL
#include "cuda_functions.def"
    {NULL, 0}};
static const symbol cufft_symbols[] = {
#define RM_CUFFT_FUNCTION RM_SYMBOL
#include "cuda_functions.def"
    {NULL, 0}};
static const symbol cusolver_symbols[] = {
#define RM_CUSOLVER_FUNCTION RM_SYMBOL
#define RM_CUSOLVER_FUNCTIONS RM_SYMBOLS
#include "cuda_functions.def"
    {NULL, 0}};

#define MAX_CANDIDATES 4

static const symbol nccl_symbols[] = {
#define RM_NCCL_FUNCTION RM_SYMBOL
#include "cuda_functions.def"
    RM_SYMBOL(ncclGetErrorString){NULL, 0}};

/* The static description of a library, and its state. */
typedef struct {
  /* The name for messages, and advice on how to install it. */
  const char *title, *advice;
  const symbol *symbols, *part_symbols;
  candidate candidates[MAX_CANDIDATES];
  enum { UNTRIED, OPEN, FAILED } state;
  int major, minor;
  char *message;
} library_state;

/* The paths of open libraries. */
static char paths[RM_LIBRARY_COUNT][RM_PATH_CAPACITY];

static library_state libraries[RM_LIBRARY_COUNT] = {
    [RM_DRIVER] = {.title = "NVIDIA driver",
                   .advice = "install the driver of the GPU, or let this container see it",
                   .symbols = driver_symbols,
#if defined(_WIN32)
                   .candidates = {{0, "nvcuda.dll", NULL}}},
    [RM_RUNTIME] = {.candidates = {{13, "cudart64_13.dll", NULL},
                                   {12, "cudart64_12.dll", NULL},
                                   {11, "cudart64_110.dll", NULL}},
#else
                   .candidates = {{0, "libcuda.so.1", NULL}}},
    [RM_RUNTIME] = {.candidates = {{13, "libcudart.so.13", NULL},
                                   {12, "libcudart.so.12", NULL},
                                   {11, "libcudart.so.11.0", NULL},
                                   {0, "libcudart.so", NULL}},
#endif
                    .title = "CUDA runtime",
                    .advice = "install the CUDA toolkit, or NVIDIA's Python packages (pip install "
                              "nvidia-cuda-runtime nvidia-cuda-nvrtc nvidia-cublas), or name "
                              "their folders in ROWMAJOR_CUDA_LIB_DIR",
                    .symbols = runtime_symbols},
    [RM_NVRTC] = {.title = "NVRTC (which compiles kernels)",
                  .advice = "install the CUDA toolkit, or NVIDIA's Python package (pip install "
                            "nvidia-cuda-nvrtc), or name its folder in ROWMAJOR_CUDA_LIB_DIR",
                  .symbols = nvrtc_symbols,
#if defined(_WIN32)
                  .candidates = {{13, "nvrtc64_130_0.dll", NULL},
                                 {12, "nvrtc64_120_0.dll", NULL},
                                 {11, "nvrtc64_112_0.dll", NULL}}},
    [RM_CUBLAS] = {.candidates = {{13, "cublas64_13.dll", "cublasLt64_13.dll"},
                                  {12, "cublas64_12.dll", "cublasLt64_12.dll"},
                                  {11, "cublas64_11.dll", "cublasLt64_11.dll"}},
#else
                  .candidates = {{13, "libnvrtc.so.13", NULL},
                                 {12, "libnvrtc.so.12", NULL},
                                 {11, "libnvrtc.so.11.2", NULL},
                                 {0, "libnvrtc.so", NULL}}},
    [RM_CUBLAS] = {.candidates = {{13, "libcublas.so.13", "libcublasLt.so.13"},
                                  {12, "libcublas.so.12", "libcublasLt.so.12"},
                                  {11, "libcublas.so.11", "libcublasLt.so.11"},
                                  {0, "libcublas.so", "libcublasLt.so"}},
#endif
                   .title = "cuBLAS",
                   .advice = "install the CUDA toolkit, or NVIDIA's Python package (pip install "
                             "nvidia-cublas), or name its folder in ROWMAJOR_CUDA_LIB_DIR",
                   .symbols = cublas_symbols,
                   .part_symbols = cublaslt_symbols},
    /* Its versions are one less than CUDA's. */
    [RM_CUFFT] = {.title = "cuFFT",
                  .advice = "install the CUDA toolkit, or NVIDIA's Python package (pip install "
                            "nvidia-cufft), or name its folder in ROWMAJOR_CUDA_LIB_DIR",
                  .symbols = cufft_symbols,
#if defined(_WIN32)
                  .candidates = {{13, "cufft64_12.dll", NULL},
                                 {12, "cufft64_11.dll", NULL},
                                 {11, "cufft64_10.dll", NULL}}},
#else
                  .candidates = {{13, "libcufft.so.12", NULL},
                                 {12, "libcufft.so.11", NULL},
                                 {11, "libcufft.so.10", NULL},
                                 {0, "libcufft.so", NULL}}},
#endif
    /* Version 11 is of CUDA 11 and of CUDA 12, version 12 of CUDA 13. */
    [RM_CUSOLVER] = {.title = "cuSOLVER",
                     .advice = "install the CUDA toolkit, or NVIDIA's Python package (pip install "
                               "nvidia-cusolver), or name its folder in ROWMAJOR_CUDA_LIB_DIR",
                     .symbols = cusolver_symbols,
#if defined(_WIN32)
                     .candidates = {{13, "cusolver64_12.dll", NULL},
                                    {11, "cusolver64_11.dll", NULL}}},
#else
                     .candidates = {{13, "libcusolver.so.12", NULL},
                                    {11, "libcusolver.so.11", NULL},
                                    {0, "libcusolver.so", NULL}}},
#endif
    /* Its versions are its own. */
    [RM_NCCL] = {.title = "NCCL",
                 .advice = "install it, or NVIDIA's Python package (pip install nvidia-nccl-cu13), "
                           "or name its folder in ROWMAJOR_CUDA_LIB_DIR",
                 .symbols = nccl_symbols,
                 .candidates = {{0, "libnccl.so.2", NULL}, {0, "libnccl.so", NULL}}},
};

/* Locked while libraries are opened. */
static rm_mutex mutex = RM_MUTEX_INIT;
static _Atomic bool is_open[RM_LIBRARY_COUNT];
/* As 13000. */
static _Atomic int driver_version;

int rm_cuda_driver_version(void) { return atomic_load(&driver_version); }

/* Sets the fields of rm_cu. Returns the name of a missing function, or null. */
static const char *resolve(void *file, const symbol *symbols) {
  for (const symbol *each = symbols; each->name != NULL; each++) {
    void *found = rm_library_symbol(file, each->name);
    if (found == NULL) return each->name;
    memcpy((char *)&rm_cu + each->field, &found, sizeof found);
  }
  return NULL;
}

static void open_quietly(const char *path) { rm_library_open(path, true); }

/* NVRTC opens its builtins by file name when it compiles. It finds them if they are already
 * open. */
static void open_builtins(const char *path) {
  char pattern[RM_PATH_CAPACITY + 40];
  snprintf(pattern, sizeof pattern - 40, "%s", path);
  rm_parent_folder(pattern);
#if defined(_WIN32)
  strcat(pattern, "/nvrtc-builtins64_*");
#else
  strcat(pattern, "/libnvrtc-builtins.so*");
#endif
  rm_glob(pattern, open_quietly);
}

/* Opens what cuSOLVER needs, if it lies beside it: the system looks for it elsewhere. */
static void open_needed(const char *path) {
  static const char *const needed[] = {"libnvJitLink.so*", "libcusparse.so*"};
  char pattern[RM_PATH_CAPACITY + 40];
  for (int i = 0; i < COUNT(needed); i++) {
    snprintf(pattern, sizeof pattern - 40, "%s", path);
    rm_parent_folder(pattern);
    strcat(pattern, "/");
    strcat(pattern, needed[i]);
    rm_glob(pattern, open_quietly);
  }
}

/* The version of a library, or of a part of one. Returns false if it is unknown. */
static bool read_version(void *file, const char *name, int *version) {
  int (*get)(int property, int *value);
  void *found = rm_library_symbol(file, name);
  if (found == NULL) return false;
  memcpy(&get, &found, sizeof get);
  return get(0, &version[0]) == 0 && get(1, &version[1]) == 0 && get(2, &version[2]) == 0;
}

/* Queries the version of an open library and whether it works. Returns false with a reason if
 * not. */
static bool check_version(rm_library which, int major, void *file, void *other, char *reason,
                          size_t length) {
  library_state *library = &libraries[which];
  int version = 0, part[3] = {0}, whole[3] = {0}, code = 0;
  if (which == RM_DRIVER) {
    code = rm_cu.cuInit(0);
    if (code != 0) {
      const char *name = "unknown error", *words = "";
      rm_cu.cuGetErrorName(code, &name);
      rm_cu.cuGetErrorString(code, &words);
      snprintf(reason, length, "cuInit: %s (%d): %s", name, code, words);
      return false;
    }
    code = rm_cu.cuDriverGetVersion(&version);
  } else if (which == RM_RUNTIME) {
    code = rm_cu.cudaRuntimeGetVersion(&version);
  } else if (which == RM_NVRTC) {
    code = rm_cu.nvrtcVersion(&whole[0], &whole[1]);
    version = whole[0] * 1000 + whole[1] * 10;
  } else if (which == RM_NCCL) {
    code = rm_cu.ncclGetVersion(&version);
    /* 2.8.4 is 2804, later versions are like 22703. */
    library->major = version < 10000 ? version / 1000 : version / 10000;
    library->minor = version < 10000 ? version / 100 % 10 : version / 100 % 100;
    if (code == 0) return true;
  } else if (which == RM_CUFFT || which == RM_CUSOLVER) {
    if (!read_version(file, which == RM_CUFFT ? "cufftGetProperty" : "cusolverGetProperty", whole)) {
      code = -1;
    }
    version = whole[0] * 1000 + whole[1] * 10;
  } else {
    const bool told = read_version(file, "cublasGetProperty", whole) &&
                      read_version(other, "cublasLtGetProperty", part);
    version = (told ? whole[0] : major) * 1000 + whole[1] * 10;
    if (told && memcmp(whole, part, sizeof whole) != 0) {
      snprintf(reason, length, "it is version %d.%d.%d, but cublasLt is %d.%d.%d", whole[0],
               whole[1], whole[2], part[0], part[1], part[2]);
      return false;
    }
  }
  if (code != 0) {
    snprintf(reason, length, "it does not tell its version (%d)", code);
    return false;
  }
  library->major = version / 1000;
  library->minor = version % 1000 / 10;
  const int driver = atomic_load(&driver_version);
  const int cuda = library->major + (which == RM_CUFFT ||
                                     (which == RM_CUSOLVER && library->major > 11));
  if (which == RM_DRIVER) {
    atomic_store(&driver_version, version);
  } else if (driver != 0 && cuda > driver / 1000) {
    snprintf(reason, length, "it is of CUDA %d, the driver of CUDA %d", cuda, driver / 1000);
    return false;
  }
  return true;
}

/* Opens a file of a folder or, if that is null, the one that the system finds. Writes its path.
 * Returns null if it does not exist or is invalid, which is added to `problems`. */
static void *open_file(const char *folder, const char *name, const symbol *symbols, char *path,
                       text_buffer *problems) {
  const int length = folder == NULL ? snprintf(path, RM_PATH_CAPACITY, "%s", name)
                                    : snprintf(path, RM_PATH_CAPACITY, "%s/%s", folder, name);
  if (length >= RM_PATH_CAPACITY) return NULL;
  rm_native_separators(path);
  if (folder != NULL && !rm_file_exists(path)) return NULL;
  if (folder != NULL && symbols == cusolver_symbols) open_needed(path);
  void *file = rm_library_open(path, folder != NULL);
  if (file == NULL) {
    char reason[RM_PATH_CAPACITY];
    rm_library_error(reason, sizeof reason);
    /* It is no problem that the system does not find a name. */
    const bool unknown = folder == NULL && strncmp(reason, name, strlen(name)) == 0;
    if (!unknown) append(problems, "; %s: %s", path, reason);
    return NULL;
  }
  const char *missing = resolve(file, symbols);
  if (missing != NULL) {
    append(problems, "; %s: it has no %s", path, missing);
    rm_library_close(file);
    return NULL;
  }
  char found[RM_PATH_CAPACITY];
  rm_library_path(file, rm_library_symbol(file, symbols[0].name), found, sizeof found);
  if (found[0] != 0) memcpy(path, found, sizeof found);
  return file;
}

/* Opens a library, with its other part if it has one. Adds what is wrong with it to `problems`. */
static bool open_candidate(rm_library which, const char *folder, const candidate *from,
                           text_buffer *problems) {
  library_state *library = &libraries[which];
  char path[RM_PATH_CAPACITY], other[RM_PATH_CAPACITY], reason[RM_PATH_CAPACITY + 64] = "";
  void *part = NULL;
  if (from->part != NULL) {
    part = open_file(folder, from->part, library->part_symbols, other, problems);
    if (part == NULL) return false;
  }
  void *file = open_file(folder, from->name, library->symbols, path, problems);
  if (file != NULL && part != NULL) {
    char own_folder[RM_PATH_CAPACITY];
    memcpy(own_folder, path, sizeof own_folder);
    rm_parent_folder(own_folder);
    rm_parent_folder(other);
    if (strcmp(own_folder, other) != 0) {
      snprintf(reason, sizeof reason, "%s comes from another folder, %s", from->part, other);
    }
  }
  if (file != NULL && reason[0] == 0 &&
      check_version(which, from->major, file, part, reason, sizeof reason)) {
    memcpy(paths[which], path, sizeof path);
    if (which == RM_NVRTC) open_builtins(path);
    return true;
  }
  if (file != NULL) append(problems, "; %s: %s", path, reason);
  /* A driver that is initialized stays open. */
  if (file != NULL && which != RM_DRIVER) rm_library_close(file);
  if (part != NULL) rm_library_close(part);
  return false;
}

/* Tries all names of a library in one folder, or in the system's own path if it is null. */
static bool open_in_folder(rm_library which, const char *folder, text_buffer *problems) {
  const int driver = atomic_load(&driver_version) / 1000;
  for (int i = 0; i < MAX_CANDIDATES; i++) {
    const candidate *from = &libraries[which].candidates[i];
    if (from->name == NULL) break;
    if (driver != 0 && from->major > driver) continue;
    if (open_candidate(which, folder, from, problems)) return true;
  }
  return false;
}

static bool search_library(rm_library which, text_buffer *problems, text_buffer *searched) {
#if !defined(_WIN32)
  static const char *const driver_folders[] = {"/usr/lib/wsl/lib", "/usr/local/nvidia/lib64",
                                               "/run/opengl-driver/lib"};
#endif
  const int before = which == RM_DRIVER ? rm_named_folders : rm_preferred_folders;
  for (int i = 0; i < before; i++) {
    append(searched, "%s, ", rm_folders[i]);
    if (open_in_folder(which, rm_folders[i], problems)) return true;
  }
  append(searched, "the system's own path");
  if (open_in_folder(which, NULL, problems)) return true;
  if (which == RM_DRIVER) {
#if !defined(_WIN32)
    for (int i = 0; i < COUNT(driver_folders); i++) {
      append(searched, ", %s", driver_folders[i]);
      if (open_in_folder(which, driver_folders[i], problems)) return true;
    }
#endif
    return false;
  }
  for (int i = rm_preferred_folders; i < rm_folder_count; i++) {
    append(searched, ", %s", rm_folders[i]);
    if (open_in_folder(which, rm_folders[i], problems)) return true;
  }
  return false;
}

/* Opens a library that has not been tried. The mutex is locked. */
static int32_t open_library(rm_library which) {
  library_state *library = &libraries[which];
  if (library->state == OPEN) return RM_OK;
  if (library->state == FAILED) return rm_fail(RM_NOT_FOUND, "%s", library->message);
  text_buffer *problems = calloc(3, sizeof *problems);
  if (problems == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a message");
  text_buffer *searched = problems + 1, *message = problems + 2;
  if (search_library(which, problems, searched)) {
    free(problems);
    library->state = OPEN;
    atomic_store(&is_open[which], true);
    return RM_OK;
  }
  append(message, "no usable %s: looked for %s", library->title, library->candidates[0].name);
  for (int i = 1; i < MAX_CANDIDATES && library->candidates[i].name != NULL; i++) {
    append(message, ", %s", library->candidates[i].name);
  }
  append(message, " in %s%s; %s", searched->at, problems->at, library->advice);
  library->message = realloc(library->message, message->length + 1);
  if (library->message != NULL) {
    strcpy(library->message, message->at);
    library->state = FAILED;
  }
  rm_fail(RM_NOT_FOUND, "%s", message->at);
  free(problems);
  return RM_NOT_FOUND;
}

int32_t rm_cuda_library(rm_library which) {
  if (atomic_load_explicit(&is_open[which], memory_order_acquire)) return RM_OK;
  rm_mutex_lock(&mutex);
  if (libraries[RM_DRIVER].state == UNTRIED) rm_list_folders(NULL);
  /* The driver limits the version of the others, although some of their functions work without
   * it. */
  if (which != RM_DRIVER) open_library(RM_DRIVER);
  /* cuSOLVER uses cuBLAS: the one that products use. */
  if (which == RM_CUSOLVER) open_library(RM_CUBLAS);
  const int32_t status = open_library(which);
  rm_mutex_unlock(&mutex);
  return status;
}

int32_t rm_cuda_open_runtime(const char *folder) {
  static char *tried;
  if (atomic_load_explicit(&is_open[RM_RUNTIME], memory_order_acquire)) return RM_OK;
  rm_mutex_lock(&mutex);
  const bool other = folder != NULL && folder[0] != 0 &&
                     (tried == NULL || strcmp(tried, folder) != 0);
  if (libraries[RM_DRIVER].state == UNTRIED || other) {
    if (other) {
      tried = realloc(tried, strlen(folder) + 1);
      if (tried != NULL) strcpy(tried, folder);
    }
    rm_list_folders(folder);
    for (int i = 0; i < RM_LIBRARY_COUNT; i++) {
      if (libraries[i].state == FAILED) libraries[i].state = UNTRIED;
    }
  }
  int32_t status = open_library(RM_DRIVER);
  if (status == RM_OK) status = open_library(RM_RUNTIME);
  rm_mutex_unlock(&mutex);
  return status;
}

void rm_cuda_describe(rm_library which, char *to, size_t length) {
  rm_mutex_lock(&mutex);
  const library_state *library = &libraries[which];
  if (library->state == OPEN) {
    snprintf(to, length, "%d.%d, %s", library->major, library->minor, paths[which]);
  } else {
    snprintf(to, length, "%s", library->state == FAILED ? library->message : "not opened yet");
  }
  rm_mutex_unlock(&mutex);
}

const char *rm_cuda_path(rm_library which) { return paths[which]; }
#endif
