/*
 * NVRTC, which compiles kernels for the very device.
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

/* The options for all kernels, beside the one that names the architecture. */
static const char *const common_options[] = {"-default-device", "-fmad=false", "--std=c++17"};

enum { COMMON = sizeof common_options / sizeof common_options[0], OPTIONS = COMMON + 2 };

static int set_options(const char *target, const char **options) {
  options[0] = target;
  memcpy(options + 1, common_options, sizeof common_options);
  return COMMON + 1;
}

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

int32_t rm_nvrtc_prepare(int capability, const char *source, rm_compilation *how) {
  int architecture;
  RM_TRY(rm_cuda_library(RM_NVRTC));
  RM_TRY(choose_architecture(capability, &architecture, &how->as_text));
  snprintf(how->target, sizeof how->target, "--gpu-architecture=%s_%d",
           how->as_text ? "compute" : "sm", architecture);
  const char *options[OPTIONS];
  how->key = key_of(source, options, set_options(how->target, options));
  return how->key != NULL ? RM_OK
                          : rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a kernel");
}

int32_t rm_nvrtc_compile(const char *source, const rm_compilation *how, char **image,
                         size_t *length) {
  const char *options[OPTIONS];
  const int count = set_options(how->target, options);
  return compile(source, options, count, how->as_text, image, length, NULL);
}

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


int32_t rm_nvrtc_report(const char *source, double architecture) {
  RM_TRY(rm_cuda_library(RM_NVRTC));
  char target[64];
  snprintf(target, sizeof target, "--gpu-architecture=sm_%d", (int)architecture);
  const char *options[OPTIONS];
  int count = set_options(target, options);
  options[count++] = "--ptxas-options=-v";
  char *image = NULL, *log = NULL;
  size_t length = 0;
  RM_TRY(compile(source, options, count, false, &image, &length, &log));
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
#endif
