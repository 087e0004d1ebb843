/* The driver: contexts, modules, launches. */
#include "emulator.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "image.h"

#define MODULE_MAGIC 0x6d6f6475
#define FUNCTION_MAGIC 0x66756e63

typedef struct function function;

typedef struct {
  int magic, device, capability;
  void *library;
  function *functions;
} module;

struct function {
  int magic;
  module *of;
  const emu_kernel *kernel;
  function *next;
};

static bool initialized;

/* What every call needs: the lock, and cuInit. */
#define BEGIN \
  EMU_LOCK; \
  do { \
    if (!initialized && !emu_has_context) return NOT_INITIALIZED; \
  } while (0)

/* What most need besides: a context on this thread, in which nothing went wrong. */
#define BEGIN_IN_CONTEXT \
  BEGIN; \
  do { \
    if (!emu_has_context) return INVALID_CONTEXT; \
    if (emu_device(emu_current)->fault != SUCCESS) return emu_device(emu_current)->fault; \
  } while (0)

int cudaDeviceGetAttribute(int *value, int attribute, int n);

/* ---- devices and contexts -------------------------------------------------------------------- */

EMU_API int cuInit(unsigned flags) {
  EMU_LOCK;
  if (flags != 0) return INVALID_VALUE;
  if (emu_device_count() == 0) return NO_DEVICE;
  initialized = true;
  return SUCCESS;
}

EMU_API int cuDriverGetVersion(int *version) { return *version = 13000, SUCCESS; }

static bool is_device(int n) { return n >= 0 && n < emu_device_count(); }

EMU_API int cuDeviceGetCount(int *count) {
  BEGIN;
  return *count = emu_device_count(), SUCCESS;
}

EMU_API int cuDeviceGet(int *made, int n) {
  BEGIN;
  return is_device(n) ? (*made = n, SUCCESS) : INVALID_DEVICE;
}

EMU_API int cuDeviceGetName(char *name, int length, int n) {
  BEGIN;
  if (!is_device(n)) return INVALID_DEVICE;
  snprintf(name, (size_t)length, "Emulator on the CPU %d", n);
  return SUCCESS;
}

EMU_API int cuDeviceGetAttribute(int *value, int attribute, int n) {
  BEGIN;
  return cudaDeviceGetAttribute(value, attribute, n);
}

EMU_API int cuDeviceTotalMem_v2(size_t *bytes, int n) {
  BEGIN;
  if (!is_device(n)) return INVALID_DEVICE;
  return *bytes = (size_t)emu_numbers[MEMORY], SUCCESS;
}

EMU_API int cuDevicePrimaryCtxRetain(void **context, int n) {
  BEGIN;
  if (!is_device(n)) return INVALID_DEVICE;
  return *context = emu_device(n), SUCCESS;
}

EMU_API int cuDevicePrimaryCtxRelease_v2(int n) {
  BEGIN;
  return is_device(n) ? SUCCESS : INVALID_DEVICE;
}

EMU_API int cuCtxGetCurrent(void **context) {
  BEGIN;
  return *context = emu_has_context ? emu_device(emu_current) : NULL, SUCCESS;
}

EMU_API int cuCtxSetCurrent(void *context) {
  BEGIN;
  emu_has_context = context != NULL;
  if (context == NULL) return SUCCESS;
  for (int i = 0; i < emu_device_count(); i++) {
    if (emu_device(i) == context) return emu_current = i, SUCCESS;
  }
  return INVALID_CONTEXT;
}

EMU_API int cuCtxGetDevice(int *n) {
  BEGIN_IN_CONTEXT;
  return *n = emu_current, SUCCESS;
}

EMU_API int cuCtxSynchronize(void) {
  BEGIN_IN_CONTEXT;
  int error = emu_disturbs_capture(NULL);
  return error != SUCCESS ? error : emu_drain_device(emu_current, false);
}

/* ---- modules --------------------------------------------------------------------------------- */

EMU_API int cuModuleLoadData(void **made, const void *data) {
  BEGIN_IN_CONTEXT;
  const image *i = data;
  const char *bytes = (const char *)(i + 1);
  if (i->magic != IMAGE_MAGIC || image_hash(i->bytes, bytes, i->bytes) != i->hash) {
    return INVALID_IMAGE;
  }
  int capability = (int)emu_numbers[CAPABILITY];
  if (i->capability != 0 && ((int)i->capability / 10 != capability / 10 ||
                             (int)i->capability > capability)) {
    return NO_BINARY_FOR_GPU;
  }
  /* Of two files with one name, the second one would be taken for the first one. */
  char path[512];
  snprintf(path, sizeof path, "%s/module-XXXXXX", emu_cache());
  int file = mkstemp(path);
  if (file < 0) return OUT_OF_MEMORY;
  bool whole = write(file, bytes, i->bytes) == (ssize_t)i->bytes;
  close(file);
  void *library = whole ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  unlink(path);
  if (library == NULL) {
    emu_note("a module cannot be loaded: %s", dlerror());
    return INVALID_IMAGE;
  }
  const emu_services **use = dlsym(library, "emu_use");
  if (use != NULL) *use = &emu_offered;
  module *m = calloc(1, sizeof *m);
  *m = (module){MODULE_MAGIC, emu_current, (int)i->capability, library, NULL};
  *made = m;
  return SUCCESS;
}

EMU_API int cuModuleLoadDataEx(void **made, const void *data, unsigned count, int *options,
                               void **values) {
  (void)count, (void)options, (void)values;
  return cuModuleLoadData(made, data);
}

EMU_API int cuModuleUnload(void *which) {
  BEGIN_IN_CONTEXT;
  module *m = which;
  if (m == NULL || m->magic != MODULE_MAGIC) return INVALID_HANDLE;
  int error = emu_drain_device(m->device, false);
  m->magic = 0;
  for (function *f = m->functions; f != NULL; f = f->next) f->magic = 0;
  dlclose(m->library);
  return error;
}

EMU_API int cuModuleGetFunction(void **made, void *from, const char *name) {
  BEGIN_IN_CONTEXT;
  module *m = from;
  if (m == NULL || m->magic != MODULE_MAGIC) return INVALID_HANDLE;
  char symbol[1024];
  snprintf(symbol, sizeof symbol, "emu_kernel_%s", name);
  const emu_kernel *kernel = dlsym(m->library, symbol);
  if (kernel == NULL) return NOT_FOUND;
  if (emu_fails(FAIL_DRIVER)) return OUT_OF_MEMORY;
  /* That of the module once: no kernel runs yet. */
  const bool is_first = m->functions == NULL;
  if (!emu_map_shared(kernel->shared[0]) || (is_first && !emu_map_shared(kernel->shared[1]))) {
    return OUT_OF_MEMORY;
  }
  function *f = calloc(1, sizeof *f);
  *f = (function){FUNCTION_MAGIC, m, kernel, m->functions};
  *made = m->functions = f;
  return SUCCESS;
}

static function *as_function(void *handle) {
  function *f = handle;
  return f == NULL || f->magic != FUNCTION_MAGIC ? NULL : f;
}

static int most_threads(const function *f) {
  return f->kernel->max_threads > 0 ? f->kernel->max_threads : 1024;
}

/* ---- launches -------------------------------------------------------------------------------- */

typedef struct {
  work head;
  grid what;
  _Alignas(16) char arguments[];
} launch;

static int run_launch(work *w) {
  launch *l = (launch *)w;
  l->what.arguments = l->arguments;
  emu_open_memory(w->device);
  int error = emu_run_grid(&l->what);
  emu_close_memory();
  return error;
}

/* The arguments of `extra`, which lists keys and values; false when they have the wrong length. */
static bool packed_arguments(void **extra, const emu_kernel *kernel, const void **bytes) {
  enum { END, BUFFER, SIZE };
  size_t count = 0;
  *bytes = NULL;
  for (; extra[0] != (void *)END; extra += 2) {
    if (extra[0] == (void *)BUFFER) *bytes = extra[1];
    else if (extra[0] == (void *)SIZE) count = *(const size_t *)extra[1];
    else return false;
  }
  if (count == kernel->argument_bytes || count == (kernel->argument_bytes + 7) / 8 * 8) return true;
  emu_note("kernel %s takes %llu bytes of arguments, not %zu", kernel->name,
           kernel->argument_bytes, count);
  return false;
}

EMU_API int cuLaunchKernel(void *handle, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                           unsigned threads_x, unsigned threads_y, unsigned threads_z,
                           unsigned dynamic, void *to, void **parameters, void **extra) {
  BEGIN_IN_CONTEXT;
  const function *f = as_function(handle);
  stream *s = emu_stream(to);
  if (f == NULL || s == NULL || f->of->device != emu_current || s->device != emu_current) {
    return INVALID_HANDLE;
  }
  const emu_kernel *kernel = f->kernel;
  double count = (double)threads_x * threads_y * threads_z;
  if (blocks_x == 0 || blocks_y == 0 || blocks_z == 0 || blocks_x > 0x7fffffff ||
      blocks_y > 65535 || blocks_z > 65535 || count < 1 || count > 1024 || threads_z > 64 ||
      dynamic != 0) {
    emu_note("kernel %s cannot have %u x %u x %u blocks of %u x %u x %u threads, %u bytes shared",
             kernel->name, blocks_x, blocks_y, blocks_z, threads_x, threads_y, threads_z, dynamic);
    return INVALID_VALUE;
  }
  if (count > most_threads(f) || emu_fails(FAIL_LAUNCH)) {
    emu_note("kernel %s cannot have %.0f threads in a block", kernel->name, count);
    return LAUNCH_OUT_OF_RESOURCES;
  }
  if (emu_fails(FAIL_DRIVER)) return OUT_OF_MEMORY;
  const void *packed = NULL;
  if ((parameters != NULL) == (extra != NULL) && kernel->argument_bytes > 0) return INVALID_VALUE;
  if (extra != NULL && !packed_arguments(extra, kernel, &packed)) return INVALID_VALUE;
  launch *l = aligned_alloc(16, (sizeof *l + kernel->argument_bytes + 15) / 16 * 16);
  *l = (launch){.head = {.run = run_launch}, .what = {.kernel = kernel}};
  l->what.blocks = (emu_triple){blocks_x, blocks_y, blocks_z};
  l->what.threads = (emu_triple){threads_x, threads_y, threads_z};
  if (packed != NULL) memcpy(l->arguments, packed, kernel->argument_bytes);
  for (int i = 0; extra == NULL && i < kernel->parameters; i++) {
    memcpy(l->arguments + kernel->where[2 * i], parameters[i], kernel->where[2 * i + 1]);
  }
  emu_numbers[LAUNCHES]++;
  return emu_queue(s, &l->head);
}
