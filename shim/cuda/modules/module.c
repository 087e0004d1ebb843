/*
 * Compiles and loads sources, and returns handles of their kernels.
 *
 * Several threads may compile at the same time: the mutex is locked for lookups only. This file
 * does not know what kernels compute.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KERNELS = 1 << 16, BUCKETS = 4096 };

/* A source that is loaded on a device. */
typedef struct loaded_module {
  struct loaded_module *next;
  rm_hash hash;
  int device;
  char *source;
  void *module;
  /* The indices of its kernels that were requested. */
  int *kernels;
  int count;
} loaded_module;

static rm_mutex mutex = RM_MUTEX_INIT;
static loaded_module *table[BUCKETS];
/* A handle is an index of this array plus 1. Read without locking. */
static rm_kernel *_Atomic kernels[MAX_KERNELS];
static int kernel_count;

rm_kernel *rm_kernel_of(double handle) {
  if (!(handle >= 1 && handle <= MAX_KERNELS)) return NULL;
  return atomic_load_explicit(&kernels[(int)handle - 1], memory_order_acquire);
}

static loaded_module *find_module(int device, rm_hash hash, const char *source) {
  loaded_module *at = table[hash.a % BUCKETS];
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
} kernel_request;

static int call_get_function(void *context) {
  const kernel_request *request = context;
  return rm_cu.cuModuleGetFunction(request->function, request->module, request->name);
}

/* Returns the kernel of a loaded source with a name of the given length. The mutex is locked. */
static int32_t get_kernel(rm_device *device, loaded_module *entry, const char *name, size_t length,
                          double *handle) {
  for (int i = 0; i < entry->count; i++) {
    const rm_kernel *known = kernels[entry->kernels[i]];
    if (strncmp(known->name, name, length) == 0 && known->name[length] == 0) {
      *handle = entry->kernels[i] + 1;
      return RM_OK;
    }
  }
  if (kernel_count == MAX_KERNELS) {
    return rm_fail(RM_OUT_OF_MEMORY, "more than %d kernels", MAX_KERNELS);
  }
  rm_kernel *created = calloc(1, sizeof *created);
  int *indices = realloc(entry->kernels, (size_t)(entry->count + 1) * sizeof *indices);
  if (indices != NULL) entry->kernels = indices;
  if (created != NULL) created->name = malloc(length + 1);
  if (created == NULL || indices == NULL || created->name == NULL) {
    free(created);
    return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a kernel");
  }
  memcpy(created->name, name, length);
  created->name[length] = 0;
  created->device = entry->device;
  /* A module may have been loaded lazily: the driver allocates memory for its code now. */
  kernel_request request = {&created->function, entry->module, created->name};
  const int code = rm_retry_after_release(device, call_get_function, &request, RM_CUDA_NO_MEMORY);
  if (code != 0) {
    rm_cuda_error("cuModuleGetFunction", code);
    char reason[512];
    rm_last_error(reason, sizeof reason);
    rm_fail(RM_DEVICE_ERROR, "kernel %s: %s", created->name, reason);
    free(created->name);
    free(created);
    return RM_DEVICE_ERROR;
  }
  atomic_store_explicit(&kernels[kernel_count], created, memory_order_release);
  entry->kernels[entry->count++] = kernel_count++;
  *handle = kernel_count;
  return RM_OK;
}

/* Returns the handles of all names. The mutex is locked. */
static int32_t get_kernels(rm_device *device, loaded_module *entry, const char *names,
                           double *handles) {
  for (int i = 0;; i++) {
    const size_t length = strcspn(names, "\n");
    RM_TRY(get_kernel(device, entry, names, length, &handles[i]));
    if (names[length] == 0) return RM_OK;
    names += length + 1;
  }
}

typedef struct {
  void *module;
  const char *image;
} load_request;

static int call_load(void *context) {
  load_request *request = context;
  return rm_cu.cuModuleLoadData(&request->module, request->image);
}

static int load_image(rm_device *device, const char *image, void **module) {
  load_request request = {NULL, image};
  const int code = rm_retry_after_release(device, call_load, &request, RM_CUDA_NO_MEMORY);
  *module = request.module;
  return code;
}

static int32_t compile_and_load(rm_device *device, const char *source, void **module) {
  rm_compilation compilation;
  RM_TRY(rm_nvrtc_prepare(device->capability, source, &compilation));
  size_t length = 0;
  char *image = rm_cache_read(compilation.key, &length);
  int code = -1;
  if (image != NULL) code = load_image(device, image, module);
  int32_t status = RM_OK;
  if (code != 0) {
    /* Compiles again if the driver rejects an image, even if its checksum is right. */
    free(image);
    image = NULL;
    status = rm_nvrtc_compile(source, &compilation, &image, &length);
    if (status == RM_OK) {
      code = load_image(device, image, module);
      if (code == 0) rm_cache_write(compilation.key, image, length);
      else status = rm_cuda_error("cuModuleLoadData", code);
    }
  }
  free(image);
  free(compilation.key);
  return status;
}

/* Loads a source, or an image that stands for it, unless another thread was faster. */
static int32_t load_and_get(rm_device *device, const char *source, const char *image, rm_hash hash,
                            const char *names, double *handles) {
  void *module = NULL;
  if (image == NULL) {
    RM_TRY(compile_and_load(device, source, &module));
  } else {
    const int code = load_image(device, image, &module);
    if (code != 0) return rm_cuda_error("cuModuleLoadData", code);
  }
  loaded_module *created = calloc(1, sizeof *created);
  char *copy = malloc(strlen(source) + 1);
  if (created == NULL || copy == NULL) {
    free(created);
    free(copy);
    rm_cu.cuModuleUnload(module);
    return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a kernel");
  }
  *created = (loaded_module){
      .hash = hash, .device = device->index, .source = strcpy(copy, source), .module = module};
  rm_mutex_lock(&mutex);
  loaded_module *existing = find_module(device->index, hash, source);
  if (existing != NULL) {
    rm_cu.cuModuleUnload(module);
    free(created);
    free(copy);
  } else {
    existing = created;
    created->next = table[hash.a % BUCKETS];
    table[hash.a % BUCKETS] = created;
  }
  const int32_t status = get_kernels(device, existing, names, handles);
  rm_mutex_unlock(&mutex);
  return status;
}

/* Returns the handles of a source's kernels. Loads the source if necessary. */
static int32_t find_or_load(rm_device *device, const char *source, const char *image,
                            const char *names, double *handles) {
  const rm_hash hash = rm_hash_of((rm_hash){0, 0}, source, strlen(source));
  rm_mutex_lock(&mutex);
  loaded_module *existing = find_module(device->index, hash, source);
  const int32_t status = existing == NULL ? RM_OK : get_kernels(device, existing, names, handles);
  rm_mutex_unlock(&mutex);
  return existing == NULL ? load_and_get(device, source, image, hash, names, handles) : status;
}

/* Returns handles of kernels that were compiled ahead of time, without NVRTC. */
static int32_t get_aot_kernels(rm_device *device, const char *names, double *handles) {
  char why[4096], kernel[256];
  rm_last_error(why, sizeof why);
  for (;; names++) {
    const size_t length = strcspn(names, "\n");
    rm_aot_kernel found;
    const int32_t status = rm_aot_find(names, length, &found);
    if (status != RM_OK) {
      rm_last_error(kernel, sizeof kernel);
      return rm_fail(status, "%s; %s", kernel, why);
    }
    /* The address of the image stands for the source. */
    snprintf(kernel, sizeof kernel, "compiled %p", (const void *)found.image);
    RM_TRY(find_or_load(device, kernel, found.image, found.entry, handles++));
    names += length;
    if (*names == 0) return RM_OK;
  }
}

int32_t rm_cuda_compile_locked(int32_t index, const void *source, const void *names,
                               double *handles) {
  if (source == NULL || names == NULL || handles == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no source, or no names, or no room for handles");
  }
  if (index < 0) return rm_nvrtc_report(source, handles[0]);
  rm_device *device;
  RM_TRY(rm_cuda_use(index, &device));
  if (rm_cuda_library(RM_NVRTC) != RM_OK) return get_aot_kernels(device, names, handles);
  return find_or_load(device, source, NULL, names, handles);
}
#endif
