/*
 * Finds the folders that may contain NVIDIA's libraries.
 */
#if !defined(__APPLE__)
#define _GNU_SOURCE
#include "cuda_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "library.h"
#include "search.h"
#if !defined(_WIN32)
#include <dirent.h>
#include <limits.h>
#include <unistd.h>
#endif

#if defined(_WIN32)
#define LIST_SEPARATOR ';'
void rm_native_separators(char *path) {
  for (; *path != 0; path++) {
    if (*path == '/') *path = '\\';
  }
}
#else
#define LIST_SEPARATOR ':'
void rm_native_separators(char *path) { (void)path; }
#endif

/* The path of the file that contains this code. */
static void library_file(char *path, size_t length) {
#if defined(_WIN32)
  HMODULE own = NULL;
  const DWORD by_address =
      GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  path[0] = 0;
  if (GetModuleHandleExA(by_address, (const char *)(uintptr_t)library_file, &own)) {
    rm_library_path((void *)own, NULL, path, length);
  }
#else
  rm_library_path(NULL, (void *)(uintptr_t)library_file, path, length);
#endif
}

bool rm_file_exists(const char *path) {
  struct stat about;
  return stat(path, &about) == 0;
}

static bool is_folder(const char *path) {
  struct stat about;
  return stat(path, &about) == 0 && (about.st_mode & S_IFMT) == S_IFDIR;
}

void rm_parent_folder(char *path) {
  char *end = path;
  for (char *at = path; *at != 0; at++) {
    if (*at == '/' || *at == '\\') end = at;
  }
  *end = 0;
}

/* Orders names by the numbers in them, the greater one first. */
static int newer_first(const void *a, const void *b) {
  const char *x = a, *y = b;
  while (*x != 0 && *y != 0) {
    if (*x >= '0' && *x <= '9' && *y >= '0' && *y <= '9') {
      char *x_end, *y_end;
      const long m = strtol(x, &x_end, 10), n = strtol(y, &y_end, 10);
      if (m != n) return m < n ? 1 : -1;
      x = x_end;
      y = y_end;
    } else {
      if (*x != *y) return *x < *y ? 1 : -1;
      x++;
      y++;
    }
  }
  return *x == *y ? 0 : *x == 0 ? 1 : -1;
}

void rm_cuda_find_beside(const char *name, char *path, size_t length) {
  char folder[RM_PATH_CAPACITY];
  library_file(folder, sizeof folder);
  /* The libraries of several systems are in subfolders of the folder with the file. */
  for (int level = 0; level < 2; level++) {
    rm_parent_folder(folder);
    const int whole = snprintf(path, length, "%s/%s", folder, name);
    if (folder[0] != 0 && whole > 0 && (size_t)whole < length && rm_file_exists(path)) return;
  }
  path[0] = 0;
}

enum { MAX_NAMES = 64, NAME_CAPACITY = 128 };

/* Lists the names in a folder that start with a prefix, newer ones first. Returns their number. */
static int list_names(const char *folder, const char *prefix, char (*names)[NAME_CAPACITY]) {
  int count = 0;
#if defined(_WIN32)
  char pattern[RM_PATH_CAPACITY];
  WIN32_FIND_DATAA entry;
  snprintf(pattern, sizeof pattern, "%s\\%s*", folder, prefix);
  HANDLE search = FindFirstFileA(pattern, &entry);
  if (search == INVALID_HANDLE_VALUE) return 0;
  do {
    const char *name = entry.cFileName;
#else
  DIR *search = opendir(folder);
  if (search == NULL) return 0;
  for (struct dirent *entry; (entry = readdir(search)) != NULL;) {
    const char *name = entry->d_name;
    if (strncmp(name, prefix, strlen(prefix)) != 0) continue;
#endif
    if (name[0] == '.' || strlen(name) >= NAME_CAPACITY || count == MAX_NAMES) continue;
    strcpy(names[count++], name);
#if defined(_WIN32)
  } while (FindNextFileA(search, &entry));
  FindClose(search);
#else
  }
  closedir(search);
#endif
  qsort(names, (size_t)count, sizeof *names, newer_first);
  return count;
}

void rm_glob(const char *pattern, void (*visit)(const char *path)) {
  const char *star = strchr(pattern, '*');
  if (star == NULL) {
    char path[RM_PATH_CAPACITY];
    snprintf(path, sizeof path, "%s", pattern);
    rm_native_separators(path);
    if (rm_file_exists(path)) visit(path);
    return;
  }
  char folder[RM_PATH_CAPACITY], next[RM_PATH_CAPACITY];
  snprintf(folder, sizeof folder, "%.*s", (int)(star - pattern), pattern);
  rm_parent_folder(folder);
  const size_t length = strlen(folder);
  char prefix[NAME_CAPACITY];
  snprintf(prefix, sizeof prefix, "%.*s", (int)((size_t)(star - pattern) - length - 1),
           pattern + length + 1);
  char (*names)[NAME_CAPACITY] = malloc(MAX_NAMES * sizeof *names);
  const int count = names == NULL ? 0 : list_names(folder, prefix, names);
  for (int i = 0; i < count; i++) {
    if (snprintf(next, sizeof next, "%s/%s%s", folder, names[i], star + 1) < RM_PATH_CAPACITY) {
      rm_glob(next, visit);
    }
  }
  free(names);
}

int rm_folder_count, rm_named_folders, rm_preferred_folders;
char *rm_folders[RM_MAX_FOLDERS];

static void add_folder(const char *path) {
  if (rm_folder_count == RM_MAX_FOLDERS || !is_folder(path)) return;
  for (int i = 0; i < rm_folder_count; i++) {
    if (strcmp(rm_folders[i], path) == 0) return;
  }
  char *copy = malloc(strlen(path) + 1);
  if (copy != NULL) rm_folders[rm_folder_count++] = strcpy(copy, path);
}

/* Adds the folders that match a pattern in a folder. */
static void add_matching(const char *folder, const char *pattern) {
  char path[RM_PATH_CAPACITY];
  if (folder == NULL || folder[0] == 0) return;
  if (snprintf(path, sizeof path, "%s/%s", folder, pattern) < RM_PATH_CAPACITY) {
    rm_glob(path, add_folder);
  }
}

/* Copies the next item of a list and advances. Returns false at the end. */
static bool next_item(const char **list, char *part, size_t capacity) {
  while (**list == LIST_SEPARATOR) ++*list;
  if (**list == 0) return false;
  const char *end = strchr(*list, LIST_SEPARATOR);
  const size_t length = end == NULL ? strlen(*list) : (size_t)(end - *list);
  snprintf(part, capacity, "%.*s", (int)(length < capacity ? length : capacity - 1), *list);
  *list += length;
  return true;
}

#if defined(_WIN32)
static const char *const wheels[] = {
    "nvidia/cu13/bin/x86_64", "nvidia/cu13/bin/x64", "nvidia/cu13/bin",
    "nvidia/cuda_runtime/bin", "nvidia/cuda_nvrtc/bin", "nvidia/cublas/bin",
    "nvidia/cufft/bin", "nvidia/cusolver/bin"};
static const char *const sites[] = {"Lib/site-packages"};
static const char *const toolkit[] = {"bin/x64", "bin"};
static const char *const conda[] = {"Library/bin/x64", "Library/bin"};
static const char *const default_folders[] = {
    "C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA/v*/bin/x64",
    "C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA/v*/bin"};
static const char *const python = "python.exe";
#else
static const char *const wheels[] = {"nvidia/cu13/lib", "nvidia/cuda_runtime/lib",
                                     "nvidia/cuda_nvrtc/lib", "nvidia/cublas/lib",
                                     "nvidia/cufft/lib", "nvidia/cusolver/lib", "nvidia/nccl/lib"};
static const char *const sites[] = {"lib/python3*/site-packages", "lib/python3*/dist-packages"};
static const char *const toolkit[] = {"lib64", "lib", "targets/*/lib"};
static const char *const conda[] = {"lib", "targets/*/lib"};
static const char *const default_folders[] = {"/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64",
                                              "/usr/local/cuda-*/targets/*/lib", "/opt/cuda/lib64"};
static const char *const python = "python3";
#endif

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

/* Adds the folders of NVIDIA's Python packages for a Python prefix. */
static void add_python(const char *prefix) {
  char pattern[RM_PATH_CAPACITY];
  for (int i = 0; i < COUNT(sites); i++) {
    for (int j = 0; j < COUNT(wheels); j++) {
      snprintf(pattern, sizeof pattern, "%s/%s", sites[i], wheels[j]);
      add_matching(prefix, pattern);
    }
  }
}

#if !defined(_WIN32)
/* Adds the folders for the prefix of a program and, if it is a symbolic link, of each target: a
 * link may lead to a virtual environment, whose program is a link too. Finally adds those for its
 * real path, because folders may be links. */
static void add_python_at(const char *program) {
  enum { MAX_LINKS = 8 };
  char path[PATH_MAX], target[PATH_MAX], whole[2 * PATH_MAX];
  snprintf(path, sizeof path, "%s", program);
  for (int i = 0; i <= MAX_LINKS; i++) {
    const ssize_t length = readlink(path, target, sizeof target - 1);
    rm_parent_folder(path);
    snprintf(whole, sizeof whole, "%s", path);
    rm_parent_folder(whole);
    add_python(whole);
    if (length <= 0) break;
    target[length] = 0;
    snprintf(whole, sizeof whole, "%s/%s", path, target);
    char *next = target[0] == '/' ? target : whole, *name = strrchr(next, '/'), last[PATH_MAX];
    snprintf(last, sizeof last, "%s", name);
    *name = 0;
    if (realpath(next, path) == NULL || strlen(path) + strlen(last) >= sizeof path) break;
    strcat(path, last);
  }
  if (realpath(program, path) == NULL) return;
  rm_parent_folder(path);
  rm_parent_folder(path);
  add_python(path);
}
#endif

/* Adds the folders for the Python that is first in PATH. */
static void add_python_of_path(void) {
  const char *list = getenv("PATH");
  char folder[RM_PATH_CAPACITY], path[RM_PATH_CAPACITY];
  if (list == NULL) return;
  while (next_item(&list, folder, sizeof folder)) {
    if (snprintf(path, sizeof path, "%s/%s", folder, python) >= RM_PATH_CAPACITY ||
        !rm_file_exists(path)) {
      continue;
    }
#if defined(_WIN32)
    add_python(folder);
#else
    add_python_at(path);
    rm_parent_folder(path);
    rm_parent_folder(path);
    /* The folder `shims` of pyenv contains scripts that start one of its versions. */
    if (strlen(folder) > 6 && strcmp(folder + strlen(folder) - 6, "/shims") == 0) {
      for (int i = 0; i < COUNT(wheels); i++) {
        char pattern[RM_PATH_CAPACITY];
        snprintf(pattern, sizeof pattern, "versions/*/%s/%s", sites[0], wheels[i]);
        add_matching(path, pattern);
      }
    }
#endif
    return;
  }
}

void rm_list_folders(const char *folder) {
  char part[RM_PATH_CAPACITY];
  while (rm_folder_count > 0) free(rm_folders[--rm_folder_count]);
  const char *list = getenv("ROWMAJOR_CUDA_LIB_DIR");
  while (list != NULL && next_item(&list, part, sizeof part)) add_folder(part);
  if (folder != NULL && folder[0] != 0) add_folder(folder);
  rm_named_folders = rm_folder_count;
  const char *environment = getenv("CONDA_PREFIX");
  if (getenv("VIRTUAL_ENV") != NULL) add_python(getenv("VIRTUAL_ENV"));
  if (environment != NULL) add_python(environment);
  for (int i = 0; i < COUNT(conda); i++) add_matching(environment, conda[i]);
  add_python_of_path();
#if !defined(_WIN32)
  const char *home = getenv("HOME");
  if (home != NULL && snprintf(part, sizeof part, "%s/.local", home) < RM_PATH_CAPACITY) {
    add_python(part);
  }
  /* Debian's Python installs packages of root here. */
  add_python("/usr/local");
#endif
  for (int i = 0; i < COUNT(toolkit); i++) add_matching(getenv("CUDA_HOME"), toolkit[i]);
  for (int i = 0; i < COUNT(toolkit); i++) add_matching(getenv("CUDA_PATH"), toolkit[i]);
  rm_preferred_folders = rm_folder_count;
  for (int i = 0; i < COUNT(default_folders); i++) rm_glob(default_folders[i], add_folder);
}
#endif
