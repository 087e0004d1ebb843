/*
 * The entry of Node-API, by which JavaScript gets functions that FFI cannot provide.
 */
#if !defined(_WIN32)
#define _GNU_SOURCE
#endif
#include "internal.h"
#include "node_api.h"

/* What the next module of this thread is, or -1. */
static _Thread_local int32_t expected = -1;

int32_t rm_expect_module(int32_t what) {
  if (what < RM_MODULE_BUFFERS || what > RM_MODULE_REQUESTS) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no module %d", what);
  }
  expected = what;
  return RM_OK;
}

void *napi_register_module_v1(void *env, void *exports) {
  const int32_t what = expected;
  expected = -1;
  if (what == RM_MODULE_BUFFERS) rm_export_buffers(env, exports);
  if (what == RM_MODULE_QUEUE) rm_export_queue(env, exports);
  if (what == RM_MODULE_FILES) rm_export_files(env, exports);
  if (what == RM_MODULE_REQUESTS) rm_export_requests(env, exports);
  return exports;
}
