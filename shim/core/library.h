/*
 * Libraries that are opened while the program runs. Knows nothing of what is in them.
 */
#ifndef ROWMAJOR_LIBRARY_H
#define ROWMAJOR_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * rm_open_library gives null where it cannot, and rm_open_error then says why. With `beside`, which
 * wants a whole path, Windows looks beside the library for what it needs. rm_path_of gives the file
 * that an open library, or a symbol of it, is in; "" where nobody knows.
 */
#if defined(_WIN32)
#include <windows.h>
static inline void *rm_open_library(const char *path, bool beside) {
  return (void *)LoadLibraryExA(path, NULL, beside ? LOAD_WITH_ALTERED_SEARCH_PATH : 0);
}
static inline void rm_close_library(void *library) { FreeLibrary((HMODULE)library); }
static inline void *rm_find_symbol(void *library, const char *name) {
  return (void *)(uintptr_t)GetProcAddress((HMODULE)library, name);
}
static inline void rm_open_error(char *to, size_t length) {
  snprintf(to, length, "LoadLibrary gives error %lu", GetLastError());
}
static inline void rm_path_of(void *library, void *symbol, char *path, size_t length) {
  (void)symbol;
  if (GetModuleFileNameA((HMODULE)library, path, (DWORD)length) == 0) path[0] = 0;
}
#else
/* _GNU_SOURCE comes before all headers of who includes this. */
#include <dlfcn.h>
static inline void *rm_open_library(const char *path, bool beside) {
  (void)beside;
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}
static inline void rm_close_library(void *library) { dlclose(library); }
static inline void *rm_find_symbol(void *library, const char *name) { return dlsym(library, name); }
static inline void rm_open_error(char *to, size_t length) {
  const char *message = dlerror();
  snprintf(to, length, "%s", message == NULL ? "dlopen cannot open it" : message);
}
static inline void rm_path_of(void *library, void *symbol, char *path, size_t length) {
  (void)library;
  Dl_info found;
  path[0] = 0;
  if (dladdr(symbol, &found) != 0 && found.dli_fname != NULL) {
    snprintf(path, length, "%s", found.dli_fname);
  }
}
#endif

#endif
