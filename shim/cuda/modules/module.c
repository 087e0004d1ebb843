/*
 * Kernels that are loaded, and how sources become such.
 *
 * Compiles run side by side where several threads ask; the lock is held for look-ups only. Knows
 * nothing of what kernels do.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static rm_mutex guard = RM_MUTEX_INIT;
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
  rm_compilation how;
  RM_TRY(rm_nvrtc_prepare(device->capability, source, &how));
  size_t length = 0;
  char *image = rm_cache_read(how.key, &length);
  int code = -1;
  if (image != NULL) code = load_image(device, image, module);
  int32_t status = RM_OK;
  if (code != 0) {
    /* What a driver does not take, whatever its checksum says, is made anew. */
    free(image);
    image = NULL;
    status = rm_nvrtc_compile(source, &how, &image, &length);
    if (status == RM_OK) {
      code = load_image(device, image, module);
      if (code == 0) rm_cache_write(how.key, image, length);
      else status = rm_cuda_error("cuModuleLoadData", code);
    }
  }
  free(image);
  free(how.key);
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
  rm_mutex_lock(&guard);
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
  rm_mutex_unlock(&guard);
  return status;
}

/* Handles of a source's kernels, which is loaded unless it is there. */
static int32_t find_or_load(rm_device *device, const char *source, const char *image,
                            const char *names, double *handles) {
  const rm_hash hash = rm_hash_of((rm_hash){0, 0}, source, strlen(source));
  rm_mutex_lock(&guard);
  loaded *there = find(device->index, hash, source);
  const int32_t status = there == NULL ? RM_OK : give_kernels(device, there, names, handles);
  rm_mutex_unlock(&guard);
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

int32_t rm_cuda_compile_within(int32_t index, const void *source, const void *names,
                               double *handles) {
  if (source == NULL || names == NULL || handles == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no source, or no names, or no room for handles");
  }
  if (index < 0) return rm_nvrtc_report(source, handles[0]);
  rm_device *device;
  RM_TRY(rm_cuda_use(index, &device));
  if (rm_cuda_library(RM_NVRTC) != RM_OK) return give_prebuilt(device, names, handles);
  return find_or_load(device, source, NULL, names, handles);
}
#endif
