/*
 * The compiler: zig's clang as a compiler of C++ for the host. A source is preprocessed; kernels
 * and static shared memory are looked for in what comes out; then it is compiled and linked. What
 * was compiled once is kept in a folder that processes share.
 *
 * The tool, its flags and that folder are written in when the emulator is built (build.ts).
 */
#include "emulator.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "image.h"

extern char **environ;

enum {
  NVRTC_INVALID_INPUT = 3,
  NVRTC_INVALID_PROGRAM = 4,
  NVRTC_INVALID_OPTION = 5,
  NVRTC_COMPILATION = 6,
  NVRTC_BUILTIN_FAILURE = 7,
  NVRTC_INTERNAL = 11,
};

typedef struct {
  char *at;
  size_t length, room;
} text;

typedef struct {
  char *source, *name;
  int headers;
  char **bodies, **names;
  /* Flags of the preprocessor. */
  text flags;
  int capability;
  bool is_virtual;
  text log;
  /* The image. */
  text made;
} program;

/* ---- texts and files ------------------------------------------------------------------------- */

static void add(text *to, const char *bytes, size_t length) {
  if (to->length + length + 1 > to->room) {
    to->room = 2 * (to->length + length) + 64;
    to->at = realloc(to->at, to->room);
  }
  memcpy(to->at + to->length, bytes, length);
  to->length += length;
  to->at[to->length] = 0;
}

__attribute__((format(printf, 2, 3))) static void print(text *to, const char *format, ...) {
  char line[4096];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (length > 0) add(to, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

static bool read_file(const char *path, text *into) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) return false;
  char part[16384];
  for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) add(into, part, n);
  fclose(file);
  return true;
}

static bool write_file(const char *path, const char *bytes, size_t length) {
  FILE *file = fopen(path, "wb");
  if (file == NULL) return false;
  bool done = fwrite(bytes, 1, length, file) == length;
  return fclose(file) == 0 && done;
}

/* ---- options --------------------------------------------------------------------------------- */

/* Options that are known, and change nothing here; those with "=" take a value. */
static const char *const harmless[] = {
    "-default-device", "--device-as-default-execution-space", "-fmad=", "--fmad=", "-std=",
    "--std=", "-lineinfo", "--generate-line-info", "-G", "--device-debug", "-Xptxas=",
    "--ptxas-options=",
    "-maxrregcount=", "--maxrregcount=", "-ftz=", "--ftz=", "-prec-sqrt=", "--prec-sqrt=",
    "-prec-div=", "--prec-div=", "-restrict", "--restrict", "-w", "--disable-warnings",
    "-diag-suppress=", "--diag-suppress=", "-extra-device-vectorization",
    "--extra-device-vectorization", "-split-compile=", "--split-compile=", "-minimal", "--minimal",
    "-no-cache", "--no-cache", "-device-int128", "--device-int128", "-rdc=",
    "--relocatable-device-code=", "-dopt=", "--dopt=", "-no-source-include",
    "--no-source-include"};

static const char *after(const char *option, const char *start) {
  size_t length = strlen(start);
  return strncmp(option, start, length) == 0 ? option + length : NULL;
}

static int take_option(program *p, const char *option) {
  const char *value;
  if ((value = after(option, "--gpu-architecture=")) || (value = after(option, "-arch="))) {
    const char *number = after(value, "sm_");
    p->is_virtual = number == NULL;
    if (number == NULL) number = after(value, "compute_");
    p->capability = number == NULL ? 0 : atoi(number);
    return p->capability >= 75 && p->capability <= 121 ? SUCCESS : NVRTC_INVALID_OPTION;
  }
  if ((value = after(option, "--define-macro=")) || (value = after(option, "-D"))) {
    print(&p->flags, "-D%s%c", value, 1);
    return SUCCESS;
  }
  if ((value = after(option, "--include-path=")) || (value = after(option, "-I"))) {
    print(&p->flags, "-I%s%c", value, 1);
    return SUCCESS;
  }
  for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++) {
    value = after(option, harmless[i]);
    bool takes = harmless[i][strlen(harmless[i]) - 1] == '=';
    if (value != NULL && (takes || value[0] == 0)) return SUCCESS;
  }
  print(&p->log, "nvrtc: error: invalid option: %s\n", option);
  return NVRTC_INVALID_OPTION;
}

/* ---- kernels in a preprocessed text --------------------------------------------------------- */

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Behind a string, a character, or a line that names a file; or the same place. */
static const char *skip_inert(const char *at, const char *start) {
  if (*at == '#' && (at == start || at[-1] == '\n')) {
    while (*at != 0 && *at != '\n') at++;
  } else if (*at == '"' || (*at == '\'' && (at == start || !is_word(at[-1])))) {
    for (char quote = *at++; *at != 0 && *at != quote; at++) {
      if (*at == '\\' && at[1] != 0) at++;
    }
    if (*at != 0) at++;
  }
  return at;
}

/* Behind the bracket that closes the one at the start. */
static const char *skip_brackets(const char *at) {
  int depth = 0;
  for (; *at != 0; at++) {
    if (*at == '(') depth++;
    if (*at == ')' && --depth == 0) return at + 1;
  }
  return at;
}

/* The head of a kernel, from behind __global__: its name, and the first of its launch bounds. */
static const char *read_head(const char *at, text *name, text *bound) {
  while (*at != 0 && *at != '{' && *at != ';') {
    if (!is_word(*at)) {
      at++;
      continue;
    }
    const char *word = at;
    while (is_word(*at)) at++;
    size_t length = (size_t)(at - word);
    const char *next = at;
    while (isspace((unsigned char)*next)) next++;
    if (*next != '(') continue;
    const char *end = skip_brackets(next);
    at = end;
    if (length == 17 && memcmp(word, "__launch_bounds__", length) == 0) {
      int depth = 0;
      for (const char *c = next + 1; c < end - 1 && (*c != ',' || depth > 0); c++) {
        depth += (*c == '(') - (*c == ')');
        add(bound, c, 1);
      }
    } else if (!(length == 13 && memcmp(word, "__attribute__", length) == 0) &&
               !(length == 7 && memcmp(word, "alignas", length) == 0)) {
      add(name, word, length);
      return end;
    }
  }
  return at;
}

/*
 * Writes the text anew: static shared memory of a kernel goes to a section of that kernel, and
 * behind everything comes a record for each kernel.
 */
static void mark_kernels(const char *from, text *to) {
  text records = {0};
  int kernels = 0, depth = 0, kernel_depth = -1;
  bool head = false;
  for (const char *at = from; *at != 0;) {
    const char *next = skip_inert(at, from);
    if (next == at && is_word(*at)) {
      while (is_word(*next)) next++;
      size_t length = (size_t)(next - at);
      if (length == 10 && memcmp(at, "__global__", length) == 0) {
        text name = {0}, bound = {0};
        const char *end = read_head(next, &name, &bound);
        while (isspace((unsigned char)*end)) end++;
        if (*end == '{' && name.length > 0) {
          print(&records, "EMU_KERNEL(%d, %s, (%s))\n", ++kernels, name.at,
                bound.length > 0 ? bound.at : "0");
          kernel_depth = depth;
          head = true;
        }
        free(name.at);
        free(bound.at);
      } else if (length == 10 && memcmp(at, "__shared__", length) == 0) {
        /* Alignment has to come first in C++. */
        const char *aligns = next;
        while (isspace((unsigned char)*aligns)) aligns++;
        if (strncmp(aligns, "alignas", 7) == 0 && !is_word(aligns[7])) {
          next = skip_brackets(aligns);
          add(to, aligns, (size_t)(next - aligns));
          add(to, " ", 1);
        }
        if (kernel_depth >= 0) print(to, "EMU_SHARED_OF(%d)", kernels);
        else print(to, "EMU_SHARED");
        at = next;
        continue;
      }
    } else if (next == at) {
      if (*at == '{') depth++, head = false;
      if (*at == '}' && --depth == kernel_depth && !head) kernel_depth = -1;
      next++;
    }
    add(to, at, (size_t)(next - at));
    at = next;
  }
  print(to, "\nconst emu_services *emu_use;\n");
  if (records.length > 0) add(to, records.at, records.length);
  free(records.at);
}

/* ---- compiling ------------------------------------------------------------------------------- */

static const char *baked(const char *variable, const char *usual) {
  const char *value = getenv(variable);
  return value != NULL && value[0] != 0 ? value : usual;
}

const char *emu_cache(void) {
  const char *folder = baked("ROWMAJOR_EMULATOR_CACHE", EMU_CACHE);
  mkdir(folder, 0700);
  return folder;
}

/* Runs zig with arguments apart by bytes 1, frees them, and adds what it says to the log. */
static bool run_zig(text arguments, const char *folder, text *log) {
  const char *zig = baked("ROWMAJOR_EMULATOR_ZIG", EMU_ZIG);
  char *list[256] = {(char *)zig}, path[512], *rest;
  int count = 1;
  for (char *at = strtok_r(arguments.at, "\1", &rest); at != NULL && count < 255;
       at = strtok_r(NULL, "\1", &rest)) {
    list[count++] = at;
  }
  list[count] = NULL;
  snprintf(path, sizeof path, "%s/log", folder);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  pid_t child;
  int status = -1, error = posix_spawn(&child, list[0], &files, NULL, list, environ);
  posix_spawn_file_actions_destroy(&files);
  free(arguments.at);
  if (error != 0) {
    print(log, "%s: %s\n", list[0], strerror(error));
    return false;
  }
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  read_file(path, log);
  return status == 0;
}

/* Writes the source and its headers into the folder. */
static bool write_sources(const program *p, const char *folder) {
  char path[512];
  snprintf(path, sizeof path, "%s/source.cu", folder);
  bool good = write_file(path, p->source, strlen(p->source));
  for (int i = 0; good && i < p->headers; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, p->names[i]);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
      *slash = 0;
      mkdir(path, 0700);
      *slash = '/';
    }
    good = write_file(path, p->bodies[i], strlen(p->bodies[i]));
  }
  return good;
}

/* Makes a shared library of the program. */
static bool compile_in(program *p, const char *folder, const char *result) {
  char path[512];
  text preprocess = {0}, compile = {0}, link = {0}, source = {0}, marked = {0};
  if (!write_sources(p, folder)) return false;
  print(&preprocess, "clang\1-E\1%s\1-include\1%s/macros.h\1-I%s\1-idirafter\1%s\1", EMU_FLAGS,
        EMU_HEADERS, folder, EMU_HEADERS);
  print(&preprocess, "-D__CUDA_ARCH__=%d\1", 10 * p->capability);
  if (p->flags.length > 0) add(&preprocess, p->flags.at, p->flags.length);
  print(&preprocess, "%s/source.cu\1-o\1%s/source.ii", folder, folder);
  snprintf(path, sizeof path, "%s/source.ii", folder);
  if (!run_zig(preprocess, folder, &p->log) || !read_file(path, &source)) return false;
  mark_kernels(source.at, &marked);
  snprintf(path, sizeof path, "%s/marked.cc", folder);
  bool good = write_file(path, marked.at, marked.length);
  free(source.at);
  free(marked.at);
  if (!good) return false;
  print(&compile, "clang\1-c\1%s\1-include-pch\1%s\1%s\1-o\1%s/source.o", EMU_FLAGS, EMU_PCH, path,
        folder);
  print(&link, "ld.lld\1-shared\1-o\1%s\1%s/source.o\1%s", result, folder, EMU_LIBM);
  return run_zig(compile, folder, &p->log) && run_zig(link, folder, &p->log);
}

static void remove_folder(const program *p, const char *folder) {
  static const char *const files[] = {"source.cu", "source.ii", "marked.cc", "source.o", "made.so",
                                      "log"};
  char path[512];
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, files[i]);
    unlink(path);
  }
  for (int i = 0; i < p->headers; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, p->names[i]);
    unlink(path);
    for (char *slash; (slash = strrchr(path, '/')) > path + strlen(folder);) {
      *slash = 0;
      rmdir(path);
    }
  }
  rmdir(folder);
}

/* The name of what the program compiles to: of all that it is made of. */
static void key_of(const program *p, char *key) {
  uint64_t parts[2] = {0xcbf29ce484222325u, 0x84222325cbf29ce4u};
  for (int i = 0; i < 2; i++) {
    uint64_t h = image_hash(parts[i], EMU_HASH, sizeof EMU_HASH);
    h = image_hash(h, p->source, strlen(p->source) + 1);
    for (int j = 0; j < p->headers; j++) {
      h = image_hash(h, p->names[j], strlen(p->names[j]) + 1);
      h = image_hash(h, p->bodies[j], strlen(p->bodies[j]) + 1);
    }
    if (p->flags.length > 0) h = image_hash(h, p->flags.at, p->flags.length);
    parts[i] = image_hash(h, &p->capability, sizeof p->capability);
  }
  sprintf(key, "%016llx%016llx", (unsigned long long)parts[0], (unsigned long long)parts[1]);
}

static void count(int which) {
  EMU_LOCK;
  emu_numbers[which]++;
}

static bool compile(program *p, const char *cache, const char *kept, text *library) {
  static atomic_int serial;
  char folder[400], made[512];
  snprintf(folder, sizeof folder, "%s/%d-%d", cache, (int)getpid(), atomic_fetch_add(&serial, 1));
  snprintf(made, sizeof made, "%s/made.so", folder);
  mkdir(folder, 0700);
  count(COMPILES);
  bool good = compile_in(p, folder, made) && read_file(made, library);
  if (good) rename(made, kept);
  remove_folder(p, folder);
  return good;
}

/* Gives the library of the program, as it lies in the folder or newly made: once, by one process. */
static bool find_or_compile(program *p, text *library) {
  const char *cache = emu_cache();
  char key[40], kept[512], path[512];
  key_of(p, key);
  snprintf(kept, sizeof kept, "%s/%s.so", cache, key);
  snprintf(path, sizeof path, "%s/%s.lock", cache, key);
  bool good = read_file(kept, library);
  if (good) {
    count(CACHED);
    return true;
  }
  int lock = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (lock >= 0) flock(lock, LOCK_EX);
  good = read_file(kept, library);
  if (good) count(CACHED);
  else good = compile(p, cache, kept, library);
  unlink(path);
  if (lock >= 0) close(lock);
  return good;
}

/* ---- NVRTC ----------------------------------------------------------------------------------- */

EMU_API int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0, SUCCESS; }

static const int capabilities[] = {75, 80, 86, 87, 89, 90, 100, 120};
enum { CAPABILITIES = sizeof capabilities / sizeof capabilities[0] };

EMU_API int nvrtcGetNumSupportedArchs(int *n) { return *n = CAPABILITIES, SUCCESS; }

EMU_API int nvrtcGetSupportedArchs(int *list) {
  memcpy(list, capabilities, sizeof capabilities);
  return SUCCESS;
}

EMU_API const char *nvrtcGetErrorString(int code) {
  static const char *const names[] = {
      "NVRTC_SUCCESS", "NVRTC_ERROR_OUT_OF_MEMORY", "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
      "NVRTC_ERROR_INVALID_INPUT", "NVRTC_ERROR_INVALID_PROGRAM", "NVRTC_ERROR_INVALID_OPTION",
      "NVRTC_ERROR_COMPILATION", "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"};
  if (code >= 0 && code < (int)(sizeof names / sizeof names[0])) return names[code];
  return code == NVRTC_INTERNAL ? "NVRTC_ERROR_INTERNAL_ERROR" : "NVRTC_ERROR unknown";
}

/*
 * A copy of a header; where ROWMAJOR_EMULATOR_PLANT names a file of its name, a byte 1 and another
 * text, as a test of the tests plants a fault, of that.
 */
static char *copy_header(const char *name, const char *body) {
  const char *path = getenv("ROWMAJOR_EMULATOR_PLANT");
  const size_t length = strlen(name);
  text plant = {0};
  if (path == NULL || path[0] == 0 || !read_file(path, &plant)) return strdup(body);
  const bool same = strncmp(plant.at, name, length) == 0 && plant.at[length] == 1;
  char *copy = strdup(same ? plant.at + length + 1 : body);
  free(plant.at);
  return copy;
}

EMU_API int nvrtcCreateProgram(program **made, const char *source, const char *name, int headers,
                               const char *const *bodies, const char *const *names) {
  if (made == NULL || source == NULL || headers < 0) return NVRTC_INVALID_INPUT;
  program *p = calloc(1, sizeof *p);
  p->source = strdup(source);
  p->name = strdup(name == NULL || name[0] == 0 ? "default_program" : name);
  p->headers = headers;
  p->bodies = calloc((size_t)headers + 1, sizeof *p->bodies);
  p->names = calloc((size_t)headers + 1, sizeof *p->names);
  for (int i = 0; i < headers; i++) {
    p->bodies[i] = copy_header(names[i], bodies[i]);
    p->names[i] = strdup(names[i]);
  }
  *made = p;
  return SUCCESS;
}

EMU_API int nvrtcCompileProgram(program *p, int options, const char *const *list) {
  if (p == NULL) return NVRTC_INVALID_PROGRAM;
  p->log.length = p->flags.length = p->made.length = 0;
  p->capability = 75;
  p->is_virtual = true;
  for (int i = 0; i < options; i++) {
    int error = take_option(p, list[i]);
    if (error != SUCCESS) return error;
  }
  emu_lock();
  bool fails = emu_fails(FAIL_COMPILE), builtins = emu_numbers[BUILTINS] != 0;
  emu_unlock(NULL);
  /* The real one looks for it beside itself only where the linker was told to. */
  if (builtins) {
    void *found = dlopen("libnvrtc-builtins.so.13.0", RTLD_LAZY | RTLD_NOLOAD);
    if (found == NULL) {
      print(&p->log, "nvrtc: error: failed to open libnvrtc-builtins.so.13.0.\n");
      return NVRTC_BUILTIN_FAILURE;
    }
    dlclose(found);
  }
  if (fails) {
    print(&p->log, "%s(1): error: failure that a test asked for\n", p->name);
    return NVRTC_COMPILATION;
  }
  text library = {0};
  bool good = find_or_compile(p, &library);
  if (good) {
    uint64_t hash = image_hash(library.length, library.at, library.length);
    image head = {IMAGE_MAGIC, library.length, hash, p->is_virtual ? 0 : (uint64_t)p->capability};
    add(&p->made, (const char *)&head, sizeof head);
    add(&p->made, library.at, library.length);
  }
  free(library.at);
  return good ? SUCCESS : NVRTC_COMPILATION;
}

EMU_API int nvrtcGetProgramLogSize(program *p, size_t *size) {
  return p == NULL ? NVRTC_INVALID_PROGRAM : (*size = p->log.length + 1, SUCCESS);
}

EMU_API int nvrtcGetProgramLog(program *p, char *log) {
  if (p == NULL) return NVRTC_INVALID_PROGRAM;
  memcpy(log, p->log.length > 0 ? p->log.at : "", p->log.length + 1);
  return SUCCESS;
}

/* What was compiled for sm_XX has no PTX, and the other way round no CUBIN. */
static int give_image(program *p, bool is_virtual, size_t *size, char *bytes) {
  if (p == NULL || p->made.length == 0) return NVRTC_INVALID_PROGRAM;
  size_t length = p->is_virtual == is_virtual ? p->made.length : 0;
  if (size != NULL) *size = length;
  if (bytes != NULL) memcpy(bytes, p->made.at, length);
  return SUCCESS;
}

EMU_API int nvrtcGetCUBINSize(program *p, size_t *size) { return give_image(p, false, size, NULL); }
EMU_API int nvrtcGetCUBIN(program *p, char *bytes) { return give_image(p, false, NULL, bytes); }
EMU_API int nvrtcGetPTXSize(program *p, size_t *size) { return give_image(p, true, size, NULL); }
EMU_API int nvrtcGetPTX(program *p, char *bytes) { return give_image(p, true, NULL, bytes); }

/* Kernels are extern "C": their names are what they are. */
EMU_API int nvrtcAddNameExpression(program *p, const char *name) {
  return p == NULL || name == NULL ? NVRTC_INVALID_PROGRAM : SUCCESS;
}

EMU_API int nvrtcGetLoweredName(program *p, const char *name, const char **lowered) {
  return p == NULL ? NVRTC_INVALID_PROGRAM : (*lowered = name, SUCCESS);
}

EMU_API int nvrtcDestroyProgram(program **which) {
  if (which == NULL || *which == NULL) return NVRTC_INVALID_PROGRAM;
  program *p = *which;
  for (int i = 0; i < p->headers; i++) free(p->bodies[i]), free(p->names[i]);
  free(p->bodies), free(p->names), free(p->source), free(p->name);
  free(p->flags.at), free(p->log.at), free(p->made.at), free(p);
  *which = NULL;
  return SUCCESS;
}
