/*
 * Node-API, as in node_api.h. A process that runs JavaScript has its functions; which ones a file
 * needs it finds by itself.
 */
#ifndef ROWMAJOR_NODE_API_H
#define ROWMAJOR_NODE_API_H

#include <stdbool.h>
#include <stddef.h>
#if defined(_WIN32)
#include <windows.h>
#else
/* The including file defines _GNU_SOURCE before its first header. */
#include <dlfcn.h>
#endif

typedef void *(*napi_callback)(void *env, void *info);
typedef void (*napi_finalizer)(void *env, void *data, void *hint);

/* Functions that several files need. */
#define NODE_API_FUNCTIONS(F) \
  F(napi_create_function, (void *env, const char *name, size_t length, napi_callback function, \
                           void *data, void **result)) \
  F(napi_set_named_property, (void *env, void *object, const char *name, void *value)) \
  F(napi_get_cb_info, (void *env, void *info, size_t *count, void **arguments, void **self, \
                       void **data)) \
  F(napi_get_value_double, (void *env, void *value, double *result))

static inline void *rm_find_in_process(const char *name) {
#if defined(_WIN32)
  return (void *)(uintptr_t)GetProcAddress(GetModuleHandleA(NULL), name);
#else
  return dlsym(RTLD_DEFAULT, name);
#endif
}

/* Sets properties of the exports of a module; nothing in a process without Node-API. */
void rm_export_buffers(void *env, void *exports);
void rm_export_queue(void *env, void *exports);

#endif
