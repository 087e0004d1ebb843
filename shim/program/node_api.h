/*
 * The part of Node-API that the shim uses, as Node's header of this name declares it. A process that
 * runs JavaScript has its functions; each file finds those that it needs.
 */
#ifndef ROWMAJOR_NODE_API_H
#define ROWMAJOR_NODE_API_H

#include <stdbool.h>
#include <stddef.h>
#include "mutex.h"
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

/* Calls JavaScript on its thread, for a threadsafe function. */
typedef void (*napi_call_js)(void *env, void *function, void *context, void *data);

/* Functions that files need which tell JavaScript what other threads have done. */
#define NODE_API_LISTENER_FUNCTIONS(F) \
  NODE_API_FUNCTIONS(F) \
  F(napi_create_string_utf8, (void *env, const char *text, size_t length, void **result)) \
  F(napi_create_int32, (void *env, int32_t value, void **result)) \
  F(napi_get_undefined, (void *env, void **result)) \
  F(napi_call_function, (void *env, void *self, void *function, size_t count, \
                         void *const *arguments, void **result)) \
  F(napi_open_handle_scope, (void *env, void **scope)) \
  F(napi_close_handle_scope, (void *env, void *scope)) \
  F(napi_add_env_cleanup_hook, (void *env, void (*hook)(void *data), void *data)) \
  F(napi_create_threadsafe_function, \
    (void *env, void *function, void *resource, void *name, size_t queue_size, size_t threads, \
     void *finalize_data, napi_finalizer finalize, void *context, napi_call_js call, void **result)) \
  F(napi_call_threadsafe_function, (void *function, void *data, int mode)) \
  F(napi_ref_threadsafe_function, (void *env, void *function)) \
  F(napi_unref_threadsafe_function, (void *env, void *function))

static inline void *rm_find_in_process(const char *name) {
#if defined(_WIN32)
  return (void *)(uintptr_t)GetProcAddress(GetModuleHandleA(NULL), name);
#else
  return dlsym(RTLD_DEFAULT, name);
#endif
}

/* Defines `api`, which has the functions of a list, and find_api, which finds them once under
 * `mutex`; false if there is no Node-API. */
#define RM_NODE_API_FIELD(name, parameters) int(*name) parameters;
#define RM_NODE_API_FIND(name, parameters) \
  *(void **)&api.name = rm_find_in_process(#name); \
  if (api.name == NULL) found = 0;
#define RM_NODE_API(functions) \
  static struct { functions(RM_NODE_API_FIELD) } api; \
  static bool find_api(rm_mutex *mutex) { \
    static int found = -1; \
    rm_mutex_lock(mutex); \
    if (found < 0) { \
      found = 1; \
      functions(RM_NODE_API_FIND) \
    } \
    const bool all = found == 1; \
    rm_mutex_unlock(mutex); \
    return all; \
  }

/* Sets properties of the exports of a module; nothing in a process without Node-API. */
void rm_export_buffers(void *env, void *exports);
void rm_export_queue(void *env, void *exports);
void rm_export_files(void *env, void *exports);
void rm_export_requests(void *env, void *exports);

#endif
