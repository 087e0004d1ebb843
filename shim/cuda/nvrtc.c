/*
 * Kernels: compiled by NVRTC for the very device, kept in memory and on disk, loaded.
 *
 * Compiles run side by side where several threads ask; the lock is held for look-ups only. Knows
 * nothing of what kernels do.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- what is loaded -------------------------------------------------------------------------- */

enum { MOST_KERNELS = 1 << 16, PLACES = 4096 };

/* A source that is loaded on a device. */
typedef struct loaded {
  struct loaded *next;
  rm_hash hash;
  int device;
  char *source;
  void *module;
  /* The places of its kernels that were asked for. */
  int *kernels;
  int count;
} loaded;

static rm_lock guard = RM_LOCK_INIT;
static loaded *table[PLACES];
/* A handle is a place here, plus 1. Read without the lock. */
static rm_kernel *_Atomic kernels[MOST_KERNELS];
static int kernel_count;

rm_kernel *rm_kernel_of(double handle) {
  if (!(handle >= 1 && handle <= MOST_KERNELS)) return NULL;
  return atomic_load_explicit(&kernels[(int)handle - 1], memory_order_acquire);
}

static loaded *find(int device, rm_hash hash, const char *source) {
  loaded *at = table[hash.a % PLACES];
  while (at != NULL && !(at->device == device && at->hash.a == hash.a && at->hash.b == hash.b &&
                         strcmp(at->source, source) == 0)) {
    at = at->next;
  }
  return at;
}

typedef struct {
  void **function;
  void *module;
  const char *name;
} wanted_kernel;

static int call_get(void *context) {
  const wanted_kernel *wanted = context;
  return rm_cu.cuModuleGetFunction(wanted->function, wanted->module, wanted->name);
}

/* A kernel of a source that is loaded, of a name of the given length; the lock is held. */
static int32_t give_kernel(rm_device *device, loaded *of, const char *name, size_t length,
                           double *handle) {
  for (int i = 0; i < of->count; i++) {
    const rm_kernel *known = kernels[of->kernels[i]];
    if (strncmp(known->name, name, length) == 0 && known->name[length] == 0) {
      *handle = of->kernels[i] + 1;
      return RM_OK;
    }
  }
  if (kernel_count == MOST_KERNELS) {
    return rm_fail(RM_OUT_OF_MEMORY, "more than %d kernels", MOST_KERNELS);
  }
  rm_kernel *made = calloc(1, sizeof *made);
  int *places = realloc(of->kernels, (size_t)(of->count + 1) * sizeof *places);
  if (places != NULL) of->kernels = places;
  if (made != NULL) made->name = malloc(length + 1);
  if (made == NULL || places == NULL || made->name == NULL) {
    free(made);
    return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a kernel");
  }
  memcpy(made->name, name, length);
  made->name[length] = 0;
  made->device = of->device;
  /* A module may have been loaded without its code: the driver gives that memory now. */
  wanted_kernel wanted = {&made->function, of->module, made->name};
  const int code = rm_memory_try(device, call_get, &wanted, RM_CUDA_NO_MEMORY);
  if (code != 0) {
    rm_cuda_error("cuModuleGetFunction", code);
    char reason[512];
    rm_last_error(reason, sizeof reason);
    rm_fail(RM_DEVICE_ERROR, "kernel %s: %s", made->name, reason);
    free(made->name);
    free(made);
    return RM_DEVICE_ERROR;
  }
  atomic_store_explicit(&kernels[kernel_count], made, memory_order_release);
  of->kernels[of->count++] = kernel_count++;
  *handle = kernel_count;
  return RM_OK;
}

/* Handles of all names; the lock is held. */
static int32_t give_kernels(rm_device *device, loaded *of, const char *names, double *handles) {
  for (int i = 0;; i++) {
    const size_t length = strcspn(names, "\n");
    RM_TRY(give_kernel(device, of, names, length, &handles[i]));
    if (names[length] == 0) return RM_OK;
    names += length + 1;
  }
}

/* ---- the compiler ---------------------------------------------------------------------------- */

static int32_t compiler_error(const char *call, int code) {
  return rm_fail(RM_DEVICE_ERROR, "%s: %s", call, rm_cu.nvrtcGetErrorString(code));
}

/* The architecture for which to compile, and whether that has to be PTX: of those that NVRTC knows,
 * the device's own, else the newest before it, whose machine code its family runs. */
static int32_t choose_architecture(int capability, int *architecture, bool *as_text) {
  int count = 0, code = rm_cu.nvrtcGetNumSupportedArchs(&count);
  int known[256];
  if (code == 0 && count <= 256) code = rm_cu.nvrtcGetSupportedArchs(known);
  if (code != 0) return compiler_error("nvrtcGetSupportedArchs", code);
  *architecture = 0;
  for (int i = 0; i < count && i < 256; i++) {
    if (known[i] <= capability && known[i] > *architecture) *architecture = known[i];
  }
  if (*architecture == 0) {
    return rm_fail(RM_UNSUPPORTED, "%s does not know compute capability %d.%d any more",
                   rm_cuda_path(RM_NVRTC), capability / 10, capability % 10);
  }
  *as_text = *architecture / 10 != capability / 10;
  return RM_OK;
}

/* What the compiler had to say; the caller frees it. */
static char *log_of(void *program) {
  size_t length = 0;
  if (rm_cu.nvrtcGetProgramLogSize(program, &length) != 0) length = 0;
  char *log = calloc(1, length + 1);
  if (log != NULL && length > 0) rm_cu.nvrtcGetProgramLog(program, log);
  return log;
}

enum { OPTIONS = 6 };

/* Compiles; of what comes out gives a copy, and of what was said, where it is wanted. */
static int32_t compile(const char *source, const char *const *options, int count, bool as_text,
                       char **image, size_t *length, char **log) {
  const rm_headers *headers = rm_cuda_headers();
  void *program = NULL;
  int code = rm_cu.nvrtcCreateProgram(&program, source, "kernel.cu", headers->count,
                                      headers->texts, headers->names);
  if (code != 0) return compiler_error("nvrtcCreateProgram", code);
  code = rm_cu.nvrtcCompileProgram(program, count, options);
  int32_t status = RM_OK;
  if (code != 0) {
    char *said = log_of(program);
    status = rm_fail(RM_DEVICE_ERROR, "NVRTC cannot compile a kernel: %s\n%s",
                     rm_cu.nvrtcGetErrorString(code), said == NULL ? "" : said);
    free(said);
  } else {
    code = (as_text ? rm_cu.nvrtcGetPTXSize : rm_cu.nvrtcGetCUBINSize)(program, length);
    *image = code == 0 ? malloc(*length + 1) : NULL;
    if (*image != NULL) {
      code = (as_text ? rm_cu.nvrtcGetPTX : rm_cu.nvrtcGetCUBIN)(program, *image);
    }
    if (code != 0) status = compiler_error("nvrtcGetCUBIN", code);
    else if (*image == NULL) status = rm_fail(RM_OUT_OF_MEMORY, "no memory for a kernel");
    else if (log != NULL) *log = log_of(program);
    if (status != RM_OK) {
      free(*image);
      *image = NULL;
    }
  }
  rm_cu.nvrtcDestroyProgram(&program);
  return status;
}

/* All that a compiled kernel depends on; the caller frees it. */
static char *key_of(const char *source, const char *const *options, int count) {
  const rm_hash hash = rm_cuda_headers()->hash;
  /* Builds of one version differ; what their files are tells them apart. */
  const char *path = rm_cuda_path(RM_NVRTC);
  struct stat about;
  if (stat(path, &about) != 0) memset(&about, 0, sizeof about);
  int major = 0, minor = 0;
  rm_cu.nvrtcVersion(&major, &minor);
  const size_t room = strlen(source) + strlen(path) + 1024;
  char *key = malloc(room);
  if (key == NULL) return NULL;
  int at = snprintf(key, room, "NVRTC %d.%d %s %lld %lld\nheaders %016llx%016llx\n", major, minor,
                    path, (long long)about.st_size, (long long)about.st_mtime,
                    (unsigned long long)hash.a, (unsigned long long)hash.b);
  for (int i = 0; i < count; i++) {
    at += snprintf(key + at, room - (size_t)at, "%s\n", options[i]);
  }
  strcpy(key + at, source);
  return key;
}

/* ---- loading --------------------------------------------------------------------------------- */

typedef struct {
  void *module;
  const char *image;
} loading;

static int call_load(void *context) {
  loading *wanted = context;
  return rm_cu.cuModuleLoadData(&wanted->module, wanted->image);
}

static int load_image(rm_device *device, const char *image, void **module) {
  loading wanted = {NULL, image};
  const int code = rm_memory_try(device, call_load, &wanted, RM_CUDA_NO_MEMORY);
  *module = wanted.module;
  return code;
}

static int32_t load(rm_device *device, const char *source, void **module) {
  int architecture;
  bool as_text;
  RM_TRY(rm_cuda_library(RM_NVRTC));
  RM_TRY(choose_architecture(device->capability, &architecture, &as_text));
  char target[64];
  snprintf(target, sizeof target, "--gpu-architecture=%s_%d", as_text ? "compute" : "sm",
           architecture);
  const char *options[OPTIONS] = {target, "-default-device", "-fmad=false", "--std=c++17"};
  const int count = 4;
  char *key = key_of(source, options, count);
  if (key == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a kernel");
  size_t length = 0;
  char *image = rm_cache_read(key, &length);
  int code = -1;
  if (image != NULL) code = load_image(device, image, module);
  int32_t status = RM_OK;
  if (code != 0) {
    /* What a driver does not take, whatever its checksum says, is made anew. */
    free(image);
    image = NULL;
    status = compile(source, options, count, as_text, &image, &length, NULL);
    if (status == RM_OK) {
      code = load_image(device, image, module);
      if (code == 0) rm_cache_write(key, image, length);
      else status = rm_cuda_error("cuModuleLoadData", code);
    }
  }
  free(image);
  free(key);
  return status;
}

/* Loads a source, or an image that stands for it, unless another thread was faster. */
static int32_t load_and_give(rm_device *device, const char *source, const char *image,
                             rm_hash hash, const char *names, double *handles) {
  void *module = NULL;
  if (image == NULL) {
    RM_TRY(load(device, source, &module));
  } else {
    const int code = load_image(device, image, &module);
    if (code != 0) return rm_cuda_error("cuModuleLoadData", code);
  }
  loaded *made = calloc(1, sizeof *made);
  char *copy = malloc(strlen(source) + 1);
  if (made == NULL || copy == NULL) {
    free(made);
    free(copy);
    rm_cu.cuModuleUnload(module);
    return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a kernel");
  }
  *made = (loaded){.hash = hash, .device = device->index, .source = strcpy(copy, source),
                   .module = module};
  rm_acquire(&guard);
  loaded *there = find(device->index, hash, source);
  if (there != NULL) {
    rm_cu.cuModuleUnload(module);
    free(made);
    free(copy);
  } else {
    there = made;
    made->next = table[hash.a % PLACES];
    table[hash.a % PLACES] = made;
  }
  const int32_t status = give_kernels(device, there, names, handles);
  rm_release(&guard);
  return status;
}

/* Handles of a source's kernels, which is loaded unless it is there. */
static int32_t find_or_load(rm_device *device, const char *source, const char *image,
                            const char *names, double *handles) {
  const rm_hash hash = rm_hash_of((rm_hash){0, 0}, source, strlen(source));
  rm_acquire(&guard);
  loaded *there = find(device->index, hash, source);
  const int32_t status = there == NULL ? RM_OK : give_kernels(device, there, names, handles);
  rm_release(&guard);
  return there == NULL ? load_and_give(device, source, image, hash, names, handles) : status;
}

/* Without NVRTC: handles of kernels that come compiled. */
static int32_t give_prebuilt(rm_device *device, const char *names, double *handles) {
  char why[4096], kernel[256];
  rm_last_error(why, sizeof why);
  for (;; names++) {
    const size_t length = strcspn(names, "\n");
    rm_prebuilt found;
    const int32_t status = rm_prebuilt_find(names, length, &found);
    if (status != RM_OK) {
      rm_last_error(kernel, sizeof kernel);
      return rm_fail(status, "%s; %s", kernel, why);
    }
    /* Where it lies stands for the source. */
    snprintf(kernel, sizeof kernel, "compiled %p", (const void *)found.image);
    RM_TRY(find_or_load(device, kernel, found.image, found.entry, handles++));
    names += length;
    if (*names == 0) return RM_OK;
  }
}

/* ---- reports --------------------------------------------------------------------------------- */

/* The number that ends right before a part of a line; 0 where there is no such part. */
static int number_before(const char *line, const char *part) {
  const char *at = strstr(line, part);
  if (at == NULL) return 0;
  while (at > line && at[-1] >= '0' && at[-1] <= '9') at--;
  return atoi(at);
}

/*
 * Writes a line for each kernel that ptxas reports, of its name, registers, and bytes of stack, of
 * spill stores, of spill loads and of shared memory, with tabs between; then all that was said
 * besides.
 */
static void condense(const char *log, char *to, size_t room) {
  char line[512], name[256] = "", *end = to + room;
  int stack = 0, stores = 0, loads = 0;
  *to = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (const char *at = log; *at != 0 && end - to > 1;) {
      const size_t length = strcspn(at, "\n");
      snprintf(line, sizeof line, "%.*s", (int)length, at);
      at += length + (at[length] == '\n');
      const char *named = strstr(line, "Function properties for ");
      const bool frame = strstr(line, " bytes stack frame") != NULL;
      const bool used = strstr(line, ": Used ") != NULL;
      int more = 0;
      if (pass == 1) {
        if (!frame && line[0] != 0 && strncmp(line, "ptxas info", 10) != 0) {
          more = snprintf(to, (size_t)(end - to), "%s\n", line);
        }
      } else if (named != NULL) {
        snprintf(name, sizeof name, "%s", named + strlen("Function properties for "));
        stack = stores = loads = 0;
      } else if (frame) {
        stack = number_before(line, " bytes stack frame");
        stores = number_before(line, " bytes spill stores");
        loads = number_before(line, " bytes spill loads");
      } else if (used) {
        more = snprintf(to, (size_t)(end - to), "%s\t%d\t%d\t%d\t%d\t%d\n", name,
                        number_before(line, " registers"), stack, stores, loads,
                        number_before(line, " bytes smem"));
      }
      to += more < end - to ? more : end - to - 1;
    }
  }
}

/* Compiles for an architecture and loads nothing. */
static int32_t only_compile(const char *source, double architecture) {
  RM_TRY(rm_cuda_library(RM_NVRTC));
  char target[64];
  snprintf(target, sizeof target, "--gpu-architecture=sm_%d", (int)architecture);
  const char *options[OPTIONS] = {target, "-default-device", "-fmad=false", "--std=c++17",
                                  "--ptxas-options=-v"};
  char *image = NULL, *log = NULL;
  size_t length = 0;
  RM_TRY(compile(source, options, 5, false, &image, &length, &log));
  free(image);
  enum { ROOM = 32768 };
  char *report = malloc(ROOM);
  if (report != NULL && log != NULL) {
    condense(log, report, ROOM);
    rm_fail(RM_OK, "%s", report);
  }
  free(report);
  free(log);
  return RM_OK;
}

int32_t rm_cuda_compile_within(int32_t index, const void *source, const void *names,
                               double *handles) {
  if (source == NULL || names == NULL || handles == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no source, or no names, or no room for handles");
  }
  if (index < 0) return only_compile(source, handles[0]);
  rm_device *device;
  RM_TRY(rm_cuda_use(index, &device));
  if (rm_cuda_library(RM_NVRTC) != RM_OK) return give_prebuilt(device, names, handles);
  return find_or_load(device, source, NULL, names, handles);
}
#endif
