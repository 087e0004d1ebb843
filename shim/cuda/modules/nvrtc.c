/*
 * Compiles kernels for a specific device with NVRTC.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int32_t compiler_error(const char *call, int code) {
  return rm_fail(RM_DEVICE_ERROR, "%s: %s", call, rm_cu.nvrtcGetErrorString(code));
}

/* Selects the architecture, and whether the result must be PTX. Of the architectures that NVRTC
 * knows, this is the device's own or else the newest older one. Machine code runs on newer devices
 * of the same family only. */
static int32_t choose_architecture(int capability, int *architecture, bool *is_ptx) {
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
  *is_ptx = *architecture / 10 != capability / 10;
  return RM_OK;
}

/* The compiler's log. The caller frees it. */
static char *compile_log(void *program) {
  size_t length = 0;
  if (rm_cu.nvrtcGetProgramLogSize(program, &length) != 0) length = 0;
  char *log = calloc(1, length + 1);
  if (log != NULL && length > 0) rm_cu.nvrtcGetProgramLog(program, log);
  return log;
}

/* The options for all kernels besides the architecture. */
static const char *const common_options[] = {"-default-device", "-fmad=false", "--std=c++17"};

enum {
  COMMON_OPTIONS = sizeof common_options / sizeof common_options[0],
  MAX_OPTIONS = COMMON_OPTIONS + 2
};

static int set_options(const char *target, const char **options) {
  options[0] = target;
  memcpy(options + 1, common_options, sizeof common_options);
  return COMMON_OPTIONS + 1;
}

/* Compiles. Returns a copy of the result and, if requested, of the log. */
static int32_t compile(const char *source, const char *const *options, int count, bool is_ptx,
                       char **image, size_t *length, char **log) {
  const rm_headers *headers = rm_cuda_headers();
  void *program = NULL;
  int code = rm_cu.nvrtcCreateProgram(&program, source, "kernel.cu", headers->count,
                                      headers->texts, headers->names);
  if (code != 0) return compiler_error("nvrtcCreateProgram", code);
  code = rm_cu.nvrtcCompileProgram(program, count, options);
  int32_t status = RM_OK;
  if (code != 0) {
    char *log_text = compile_log(program);
    status = rm_fail(RM_DEVICE_ERROR, "NVRTC cannot compile a kernel: %s\n%s",
                     rm_cu.nvrtcGetErrorString(code), log_text == NULL ? "" : log_text);
    free(log_text);
  } else {
    code = (is_ptx ? rm_cu.nvrtcGetPTXSize : rm_cu.nvrtcGetCUBINSize)(program, length);
    *image = code == 0 ? malloc(*length + 1) : NULL;
    if (*image != NULL) {
      code = (is_ptx ? rm_cu.nvrtcGetPTX : rm_cu.nvrtcGetCUBIN)(program, *image);
    }
    if (code != 0) status = compiler_error("nvrtcGetCUBIN", code);
    else if (*image == NULL) status = rm_fail(RM_OUT_OF_MEMORY, "no memory for a kernel");
    else if (log != NULL) *log = compile_log(program);
    if (status != RM_OK) {
      free(*image);
      *image = NULL;
    }
  }
  rm_cu.nvrtcDestroyProgram(&program);
  return status;
}

/* A text of everything that a compiled kernel depends on. The caller frees it. */
static char *cache_key(const char *source, const char *const *options, int count) {
  const rm_hash hash = rm_cuda_headers()->hash;
  /* Builds of the same version differ. Their file sizes and times distinguish them. */
  const char *path = rm_cuda_path(RM_NVRTC);
  struct stat about;
  if (stat(path, &about) != 0) memset(&about, 0, sizeof about);
  int major = 0, minor = 0;
  rm_cu.nvrtcVersion(&major, &minor);
  const size_t capacity = strlen(source) + strlen(path) + 1024;
  char *key = malloc(capacity);
  if (key == NULL) return NULL;
  int at = snprintf(key, capacity, "NVRTC %d.%d %s %lld %lld\nheaders %016llx%016llx\n", major,
                    minor, path, (long long)about.st_size, (long long)about.st_mtime,
                    (unsigned long long)hash.a, (unsigned long long)hash.b);
  for (int i = 0; i < count; i++) {
    at += snprintf(key + at, capacity - (size_t)at, "%s\n", options[i]);
  }
  strcpy(key + at, source);
  return key;
}

int32_t rm_nvrtc_prepare(int capability, const char *source, rm_compilation *compilation) {
  int architecture;
  RM_TRY(rm_cuda_library(RM_NVRTC));
  RM_TRY(choose_architecture(capability, &architecture, &compilation->is_ptx));
  snprintf(compilation->target, sizeof compilation->target, "--gpu-architecture=%s_%d",
           compilation->is_ptx ? "compute" : "sm", architecture);
  const char *options[MAX_OPTIONS];
  compilation->key = cache_key(source, options, set_options(compilation->target, options));
  return compilation->key != NULL ? RM_OK
                                  : rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a kernel");
}

int32_t rm_nvrtc_compile(const char *source, const rm_compilation *compilation, char **image,
                         size_t *length) {
  const char *options[MAX_OPTIONS];
  const int count = set_options(compilation->target, options);
  return compile(source, options, count, compilation->is_ptx, image, length, NULL);
}

/* The number directly before a part of a line, or 0 if there is no such part. */
static int number_before(const char *line, const char *part) {
  const char *at = strstr(line, part);
  if (at == NULL) return 0;
  while (at > line && at[-1] >= '0' && at[-1] <= '9') at--;
  return atoi(at);
}

/* Writes a line per kernel that ptxas reports: the name, registers, and bytes of stack, spill
 * stores, spill loads and shared memory, separated by tabs. The rest of the log follows. */
static void summarize_report(const char *log, char *to, size_t capacity) {
  char line[512], name[256] = "", *end = to + capacity;
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

int32_t rm_nvrtc_report(const char *source, double architecture) {
  RM_TRY(rm_cuda_library(RM_NVRTC));
  char target[64];
  snprintf(target, sizeof target, "--gpu-architecture=sm_%d", (int)architecture);
  const char *options[MAX_OPTIONS];
  int count = set_options(target, options);
  options[count++] = "--ptxas-options=-v";
  char *image = NULL, *log = NULL;
  size_t length = 0;
  RM_TRY(compile(source, options, count, false, &image, &length, &log));
  free(image);
  enum { CAPACITY = 32768 };
  char *report = malloc(CAPACITY);
  if (report != NULL && log != NULL) {
    summarize_report(log, report, CAPACITY);
    rm_fail(RM_OK, "%s", report);
  }
  free(report);
  free(log);
  return RM_OK;
}
#endif
