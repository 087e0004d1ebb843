/*
 * Opens shared libraries at run time.
 */
#ifndef ROWMAJOR_LIBRARY_H
#define ROWMAJOR_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "internal.h"

/*
 * rm_library_open returns null if it fails; rm_library_error then writes why. With `beside`, which
 * needs an absolute path, Windows searches the folder of the library for its dependencies.
 * rm_library_path writes the path of the file that an open library, or a symbol of it, comes from;
 * "" if unknown.
 */
#if defined(_WIN32)
#include <windows.h>
static inline void *rm_library_open(const char *path, bool beside) {
  return (void *)LoadLibraryExA(path, NULL, beside ? LOAD_WITH_ALTERED_SEARCH_PATH : 0);
}
static inline void rm_library_close(void *library) { FreeLibrary((HMODULE)library); }
static inline void *rm_library_symbol(void *library, const char *name) {
  return (void *)(uintptr_t)GetProcAddress((HMODULE)library, name);
}
static inline void rm_library_error(char *to, size_t length) {
  snprintf(to, length, "LoadLibrary gives error %lu", GetLastError());
}
static inline void rm_library_path(void *library, void *symbol, char *path, size_t length) {
  (void)symbol;
  if (GetModuleFileNameA((HMODULE)library, path, (DWORD)length) == 0) path[0] = 0;
}
#else
/* The including file defines _GNU_SOURCE before its first header. */
#include <dlfcn.h>
static inline void *rm_library_open(const char *path, bool beside) {
  (void)beside;
  /* A name without a folder is looked up elsewhere. */
  if (strchr(path, '/') != NULL && !rm_may_open(path)) {
    dlerror();
    return NULL;
  }
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}
static inline void rm_library_close(void *library) { dlclose(library); }
static inline void *rm_library_symbol(void *library, const char *name) {
  return dlsym(library, name);
}
static inline void rm_library_error(char *to, size_t length) {
  const char *message = dlerror();
  snprintf(to, length, "%s", message == NULL ? "it is not a regular file" : message);
}
static inline void rm_library_path(void *library, void *symbol, char *path, size_t length) {
  (void)library;
  Dl_info found;
  path[0] = 0;
  if (dladdr(symbol, &found) != 0 && found.dli_fname != NULL) {
    snprintf(path, length, "%s", found.dli_fname);
  }
}
#endif

#endif
