/*
 * Files as memory, for arrays that a garbage collector frees.
 *
 * The pages of a mapping are private to the process. All processes share those that nobody has
 * written; a write, which can only be a mistake, neither faults nor reaches the file. A mapping
 * stays as long as an array on it: each array holds one reference, which its collector gives back,
 * on any thread.
 */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif
#include <stdlib.h>
#include <string.h>
#include "internal.h"
#include "mutex.h"
#include "node_api.h"

/* A mapped file. */
typedef struct {
  atomic_size_t reference_count;
  char *data;
  size_t bytes;
#if !defined(_WIN32)
  /* Without links, and from the root: the folder of the process may change. */
  char *path;
  dev_t device;
  ino_t file;
#endif
} mapping;

#if defined(_WIN32)
/* Windows refuses to shorten a mapped file. */
static size_t size_now(const mapping *m) { return m->bytes; }

static void unmap(mapping *m) { UnmapViewOfFile(m->data); }

static mapping *map(const void *path) {
  const DWORD all = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
  LARGE_INTEGER size = {0};
  void *data = NULL;
  HANDLE file = CreateFileW(path, GENERIC_READ, all, NULL, OPEN_EXISTING, 0, NULL);
  if (file == INVALID_HANDLE_VALUE) return NULL;
  if (GetFileSizeEx(file, &size) && size.QuadPart > 0) {
    HANDLE section = CreateFileMappingW(file, NULL, PAGE_WRITECOPY, 0, 0, NULL);
    if (section != NULL) {
      data = MapViewOfFile(section, FILE_MAP_COPY, 0, 0, (SIZE_T)size.QuadPart);
      CloseHandle(section);
    }
  }
  CloseHandle(file);
  if (data == NULL) return NULL;
  mapping *m = malloc(sizeof *m);
  if (m == NULL) UnmapViewOfFile(data);
  else *m = (mapping){.data = data, .bytes = (size_t)size.QuadPart};
  return m;
}

static int last_code(void) { return (int)GetLastError(); }
#else
/* The size of the file, unless another one has taken its place. Without a descriptor, as a process
 * may have few of them and collectors give mappings back late. */
static size_t size_now(const mapping *m) {
  struct stat now;
  const bool same = m->path != NULL && stat(m->path, &now) == 0 && now.st_dev == m->device &&
                    now.st_ino == m->file;
  return same ? (size_t)now.st_size : m->bytes;
}

static void unmap(mapping *m) {
  munmap(m->data, m->bytes);
  free(m->path);
}

static mapping *map_open(int file, const char *path) {
  struct stat about;
  if (fstat(file, &about) != 0) return NULL;
  errno = EINVAL;
  if (!S_ISREG(about.st_mode) || about.st_size == 0) return NULL;
  mapping *m = malloc(sizeof *m);
  if (m == NULL) return NULL;
  *m = (mapping){.bytes = (size_t)about.st_size, .device = about.st_dev, .file = about.st_ino};
  /* Memory for copies of all pages is not reserved: files may be larger than the memory. */
  m->data = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
  if (m->data == MAP_FAILED) {
    free(m);
    return NULL;
  }
  m->path = realpath(path, NULL);
  return m;
}

static mapping *map(const void *path) {
  /* To open a FIFO would wait for a writer. */
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return NULL;
  mapping *m = map_open(file, path);
  const int code = errno;
  close(file);
  errno = code;
  return m;
}

static int last_code(void) { return errno; }
#endif

static void hold(mapping *m) { atomic_fetch_add(&m->reference_count, 1); }

static void release(mapping *m) {
  if (atomic_fetch_sub(&m->reference_count, 1) > 1) return;
  unmap(m);
  free(m);
}

/* The finalizer of an array, for JavaScriptCore. */
static void finalize(void *data, void *m) {
  (void)data;
  release(m);
}

int32_t rm_files(int32_t what, const void *path, double *numbers) {
  mapping *m = what == RM_FILES_MAP ? NULL : (mapping *)(uintptr_t)numbers[0];
  switch (what) {
    case RM_FILES_MAP:
      m = map(path);
      if (m == NULL) return rm_fail(RM_NOT_FOUND, "the system gives error %d", last_code());
      rm_pin_library();
      hold(m);
      numbers[0] = (double)(uintptr_t)m;
      numbers[1] = (double)(uintptr_t)m->data;
      numbers[2] = (double)m->bytes;
      return RM_OK;
    case RM_FILES_HOLD:
      hold(m);
      numbers[0] = (double)(uintptr_t)finalize;
      return RM_OK;
    case RM_FILES_RELEASE: release(m); return RM_OK;
    case RM_FILES_SIZE: numbers[0] = (double)size_now(m); return RM_OK;
    default: return rm_fail(RM_BAD_ARGUMENT, "rm_files does not do %d", what);
  }
}

/* ---- Node-API -------------------------------------------------------------------------------- */

#define FUNCTIONS(F) \
  NODE_API_FUNCTIONS(F) \
  F(napi_create_external_arraybuffer, (void *env, void *data, size_t bytes, napi_finalizer lost, \
                                       void *hint, void **result))

RM_NODE_API(FUNCTIONS)

static void api_finalize(void *env, void *data, void *m) {
  (void)env;
  (void)data;
  release(m);
}

/* view(mapping, address, bytes): an ArrayBuffer, or undefined if the runtime refuses it. */
static void *api_view(void *env, void *info) {
  size_t count = 3;
  void *arguments[3], *result = NULL;
  double numbers[3];
  if (api.napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != 0 || count < 3) return NULL;
  for (int i = 0; i < 3; i++) {
    if (api.napi_get_value_double(env, arguments[i], &numbers[i]) != 0) return NULL;
  }
  mapping *m = (mapping *)(uintptr_t)numbers[0];
  hold(m);
  if (api.napi_create_external_arraybuffer(env, (void *)(uintptr_t)numbers[1], (size_t)numbers[2],
                                           api_finalize, m, &result) != 0) {
    release(m);
    return NULL;
  }
  return result;
}

void rm_export_files(void *env, void *exports) {
  static rm_mutex mutex = RM_MUTEX_INIT;
  void *view;
  if (!find_api(&mutex)) return;
  rm_pin_library();
  if (api.napi_create_function(env, "view", 4, api_view, NULL, &view) == 0) {
    api.napi_set_named_property(env, exports, "view", view);
  }
}
