/*
 * Descriptions of devices and libraries.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Appends a line of "key<tab>value". */
static void __attribute__((format(printf, 4, 5))) append_line(char **at, size_t *capacity,
                                                              const char *key, const char *format,
                                                              ...) {
  int length = snprintf(*at, *capacity, "%s\t", key);
  for (int i = 0; i < 2; i++) {
    const size_t moved = (size_t)length < *capacity ? (size_t)length : *capacity - 1;
    *at += moved;
    *capacity -= moved;
    if (i == 1) break;
    va_list values;
    va_start(values, format);
    length = vsnprintf(*at, *capacity, format, values);
    va_end(values);
  }
  if (*capacity > 1) {
    *(*at)++ = '\n';
    **at = 0;
    --*capacity;
  }
}

static void describe_libraries(char *at, size_t capacity) {
  static const char *const keys[RM_LIBRARY_COUNT] = {"driver", "cudart", "nvrtc", "cublas",
                                                      "cufft", "cusolver", "nccl"};
  char text[6144];
  for (int i = 0; i < RM_LIBRARY_COUNT; i++) {
    rm_cuda_describe(i, text, sizeof text);
    append_line(&at, &capacity, keys[i], "%s", text);
  }
  rm_cache_describe(text, sizeof text);
  append_line(&at, &capacity, "cache", "%s", text);
}

static int32_t describe_device(int32_t index, char *at, size_t capacity) {
  RM_TRY(rm_cuda_check_index(index));
  char name[256] = "";
  int device, capability;
  size_t bytes = 0;
  RM_CU(cuDeviceGet, &device, index);
  RM_CU(cuDeviceGetName, name, sizeof name, device);
  RM_CU(cuDeviceTotalMem_v2, &bytes, device);
  RM_TRY(rm_cuda_capability(index, &capability));
  append_line(&at, &capacity, "name", "%s", name);
  append_line(&at, &capacity, "capability", "%d.%d", capability / 10, capability % 10);
  append_line(&at, &capacity, "memory", "%llu", (unsigned long long)bytes);
  return RM_OK;
}

int32_t rm_cuda_describe_device(int32_t device, void *buffer, int32_t length) {
  enum { CAPACITY = 32768 };
  char *text = calloc(1, CAPACITY);
  if (text == NULL) return 0;
  if (device < 0) describe_libraries(text, CAPACITY);
  else if (describe_device(device, text, CAPACITY) != RM_OK) text[0] = 0;
  const int32_t full = rm_copy_text(text, buffer, length);
  free(text);
  return full;
}
#endif
