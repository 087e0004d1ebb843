/*
 * Finds and opens NVIDIA's libraries: the driver, the runtime, NVRTC and cuBLAS.
 *
 * Each is opened when it is first needed, at most once per process, and never closed again. A
 * library is never of a newer major version of CUDA than the driver, and the two parts of cuBLAS
 * come from one folder: other pairs have given wrong results without a word. Knows nothing of what
 * the functions do, but for those that tell versions.
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

enum { TEXT_ROOM = 6144 };

/* Text that grows; what does not fit is left out. */
typedef struct {
  char at[TEXT_ROOM];
  size_t length;
} text;

static void __attribute__((format(printf, 2, 3))) add(text *to, const char *format, ...) {
  va_list values;
  va_start(values, format);
  const size_t room = sizeof to->at - to->length;
  const int length = vsnprintf(to->at + to->length, room, format, values);
  va_end(values);
  if (length > 0) to->length += (size_t)length < room ? (size_t)length : room - 1;
}

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

/* A file's name, and the major version of CUDA that it is of; 0 where the name does not tell. */
typedef struct {
  int major;
  const char *name;
  /* The other part of a pair, which has to lie beside it. */
  const char *part;
} candidate;

typedef struct {
  const char *name;
  size_t field;
} symbol;

#define RM_SYMBOL(name, ...) {#name, offsetof(rm_functions, name)},
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
#include "cuda_functions.def"
    {NULL, 0}};
static const symbol cublaslt_symbols[] = {
#define RM_CUBLASLT_FUNCTION RM_SYMBOL
#include "cuda_functions.def"
    {NULL, 0}};

#define MOST_CANDIDATES 4

/* What is known of a library, and how far it is opened. */
typedef struct {
  /* What it is to the reader of a message, and what would help. */
  const char *title, *advice;
  const symbol *symbols, *part_symbols;
  candidate candidates[MOST_CANDIDATES];
  enum { UNTRIED, OPEN, FAILED } state;
  int major, minor;
  char *message;
} library;

/* Where the open ones are. */
static char paths[RM_LIBRARIES][RM_PATH_ROOM];

static library libraries[RM_LIBRARIES] = {
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
};

/* Held while libraries are opened. */
static rm_mutex guard = RM_MUTEX_INIT;
static _Atomic bool is_open[RM_LIBRARIES];
/* As 13000. */
static _Atomic int driver_version;

int rm_cuda_driver_version(void) { return atomic_load(&driver_version); }

/* Fills the fields of rm_cu; gives the name of a function that is missing, or null. */
static const char *resolve(void *file, const symbol *symbols) {
  for (const symbol *each = symbols; each->name != NULL; each++) {
    void *found = rm_library_symbol(file, each->name);
    if (found == NULL) return each->name;
    memcpy((char *)&rm_cu + each->field, &found, sizeof found);
  }
  return NULL;
}

static void open_quietly(const char *path) { rm_library_open(path, true); }

/* NVRTC asks for its builtins by a bare name when it compiles: that finds what is open already. */
static void open_builtins(const char *path) {
  char pattern[RM_PATH_ROOM + 40];
  snprintf(pattern, sizeof pattern - 40, "%s", path);
  rm_to_folder(pattern);
#if defined(_WIN32)
  strcat(pattern, "/nvrtc-builtins64_*");
#else
  strcat(pattern, "/libnvrtc-builtins.so*");
#endif
  rm_each_path(pattern, open_quietly);
}

/* The version of a part of cuBLAS; false where it does not tell. */
static bool blas_version(void *file, const char *name, int *version) {
  int (*get)(int property, int *value);
  void *found = rm_library_symbol(file, name);
  if (found == NULL) return false;
  memcpy(&get, &found, sizeof get);
  return get(0, &version[0]) == 0 && get(1, &version[1]) == 0 && get(2, &version[2]) == 0;
}

/* Asks an open library for its version, and whether it works; false with a reason where not. */
static bool examine(rm_library which, int major, void *file, void *other, char *reason,
                    size_t length) {
  library *of = &libraries[which];
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
  } else {
    const bool told = blas_version(file, "cublasGetProperty", whole) &&
                      blas_version(other, "cublasLtGetProperty", part);
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
  of->major = version / 1000;
  of->minor = version % 1000 / 10;
  const int driver = atomic_load(&driver_version);
  if (which == RM_DRIVER) {
    atomic_store(&driver_version, version);
  } else if (driver != 0 && of->major > driver / 1000) {
    snprintf(reason, length, "it is of CUDA %d, the driver of CUDA %d", of->major, driver / 1000);
    return false;
  }
  return true;
}

/*
 * Opens one file of a folder, or, where that is null, what the system finds; writes where it was.
 * Null where it is not there, or is not what it should be, which is noted.
 */
static void *open_at(const char *folder, const char *name, const symbol *symbols, char *path,
                     text *wrong) {
  const int length = folder == NULL ? snprintf(path, RM_PATH_ROOM, "%s", name)
                                    : snprintf(path, RM_PATH_ROOM, "%s/%s", folder, name);
  if (length >= RM_PATH_ROOM) return NULL;
  rm_own_separators(path);
  if (folder != NULL && !rm_file_exists(path)) return NULL;
  void *file = rm_library_open(path, folder != NULL);
  if (file == NULL) {
    char reason[RM_PATH_ROOM];
    rm_library_error(reason, sizeof reason);
    /* That the system does not know a name is no news. */
    const bool unknown = folder == NULL && strncmp(reason, name, strlen(name)) == 0;
    if (!unknown) add(wrong, "; %s: %s", path, reason);
    return NULL;
  }
  const char *missing = resolve(file, symbols);
  if (missing != NULL) {
    add(wrong, "; %s: it has no %s", path, missing);
    rm_library_close(file);
    return NULL;
  }
  char found[RM_PATH_ROOM];
  rm_library_path(file, rm_library_symbol(file, symbols[0].name), found, sizeof found);
  if (found[0] != 0) memcpy(path, found, sizeof found);
  return file;
}

/* Opens a library, with its other part where it has one; notes what is wrong with it. */
static bool open_one(rm_library which, const char *folder, const candidate *from, text *wrong) {
  library *of = &libraries[which];
  char path[RM_PATH_ROOM], other[RM_PATH_ROOM], reason[RM_PATH_ROOM + 64] = "";
  void *part = NULL;
  if (from->part != NULL) {
    part = open_at(folder, from->part, of->part_symbols, other, wrong);
    if (part == NULL) return false;
  }
  void *file = open_at(folder, from->name, of->symbols, path, wrong);
  if (file != NULL && part != NULL) {
    char mine[RM_PATH_ROOM];
    memcpy(mine, path, sizeof mine);
    rm_to_folder(mine);
    rm_to_folder(other);
    if (strcmp(mine, other) != 0) {
      snprintf(reason, sizeof reason, "%s comes from another folder, %s", from->part, other);
    }
  }
  if (file != NULL && reason[0] == 0 &&
      examine(which, from->major, file, part, reason, sizeof reason)) {
    memcpy(paths[which], path, sizeof path);
    if (which == RM_NVRTC) open_builtins(path);
    return true;
  }
  if (file != NULL) add(wrong, "; %s: %s", path, reason);
  /* A driver that was initialised stays. */
  if (file != NULL && which != RM_DRIVER) rm_library_close(file);
  if (part != NULL) rm_library_close(part);
  return false;
}

/* Tries all names of a library in one folder, or with null where the system looks. */
static bool open_in(rm_library which, const char *folder, text *wrong) {
  const int driver = atomic_load(&driver_version) / 1000;
  for (int i = 0; i < MOST_CANDIDATES; i++) {
    const candidate *from = &libraries[which].candidates[i];
    if (from->name == NULL) break;
    if (driver != 0 && from->major > driver) continue;
    if (open_one(which, folder, from, wrong)) return true;
  }
  return false;
}

static bool open_anywhere(rm_library which, text *wrong, text *searched) {
#if !defined(_WIN32)
  static const char *const driver_folders[] = {"/usr/lib/wsl/lib", "/usr/local/nvidia/lib64",
                                               "/run/opengl-driver/lib"};
#endif
  const int before = which == RM_DRIVER ? rm_named_folders : rm_last_folder;
  for (int i = 0; i < before; i++) {
    add(searched, "%s, ", rm_folders[i]);
    if (open_in(which, rm_folders[i], wrong)) return true;
  }
  add(searched, "the system's own path");
  if (open_in(which, NULL, wrong)) return true;
  if (which == RM_DRIVER) {
#if !defined(_WIN32)
    for (int i = 0; i < COUNT(driver_folders); i++) {
      add(searched, ", %s", driver_folders[i]);
      if (open_in(which, driver_folders[i], wrong)) return true;
    }
#endif
    return false;
  }
  for (int i = rm_last_folder; i < rm_folder_count; i++) {
    add(searched, ", %s", rm_folders[i]);
    if (open_in(which, rm_folders[i], wrong)) return true;
  }
  return false;
}

/* Opens a library that has not been tried; the guard is held. */
static int32_t open_library(rm_library which) {
  library *of = &libraries[which];
  if (of->state == OPEN) return RM_OK;
  if (of->state == FAILED) return rm_fail(RM_NOT_FOUND, "%s", of->message);
  text *wrong = calloc(3, sizeof *wrong);
  if (wrong == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a message");
  text *searched = wrong + 1, *message = wrong + 2;
  if (open_anywhere(which, wrong, searched)) {
    free(wrong);
    of->state = OPEN;
    atomic_store(&is_open[which], true);
    return RM_OK;
  }
  add(message, "no usable %s: looked for %s", of->title, of->candidates[0].name);
  for (int i = 1; i < MOST_CANDIDATES && of->candidates[i].name != NULL; i++) {
    add(message, ", %s", of->candidates[i].name);
  }
  add(message, " in %s%s; %s", searched->at, wrong->at, of->advice);
  of->message = realloc(of->message, message->length + 1);
  if (of->message != NULL) {
    strcpy(of->message, message->at);
    of->state = FAILED;
  }
  rm_fail(RM_NOT_FOUND, "%s", message->at);
  free(wrong);
  return RM_NOT_FOUND;
}

int32_t rm_cuda_library(rm_library which) {
  if (atomic_load_explicit(&is_open[which], memory_order_acquire)) return RM_OK;
  rm_mutex_lock(&guard);
  if (libraries[RM_DRIVER].state == UNTRIED) rm_list_folders(NULL);
  /* The driver says how new the others may be; some uses of them need none. */
  if (which != RM_DRIVER) open_library(RM_DRIVER);
  const int32_t status = open_library(which);
  rm_mutex_unlock(&guard);
  return status;
}

int32_t rm_cuda_open_runtime(const char *folder) {
  static char *tried;
  if (atomic_load_explicit(&is_open[RM_RUNTIME], memory_order_acquire)) return RM_OK;
  rm_mutex_lock(&guard);
  const bool other = folder != NULL && folder[0] != 0 &&
                     (tried == NULL || strcmp(tried, folder) != 0);
  if (libraries[RM_DRIVER].state == UNTRIED || other) {
    if (other) {
      tried = realloc(tried, strlen(folder) + 1);
      if (tried != NULL) strcpy(tried, folder);
    }
    rm_list_folders(folder);
    for (int i = 0; i < RM_LIBRARIES; i++) {
      if (libraries[i].state == FAILED) libraries[i].state = UNTRIED;
    }
  }
  int32_t status = open_library(RM_DRIVER);
  if (status == RM_OK) status = open_library(RM_RUNTIME);
  rm_mutex_unlock(&guard);
  return status;
}

void rm_cuda_describe(rm_library which, char *to, size_t length) {
  rm_mutex_lock(&guard);
  const library *of = &libraries[which];
  if (of->state == OPEN) {
    snprintf(to, length, "%d.%d, %s", of->major, of->minor, paths[which]);
  } else {
    snprintf(to, length, "%s", of->state == FAILED ? of->message : "not opened yet");
  }
  rm_mutex_unlock(&guard);
}

const char *rm_cuda_path(rm_library which) { return paths[which]; }
#endif
