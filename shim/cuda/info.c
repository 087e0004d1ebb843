/*
 * What there is to say of devices and libraries.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Adds a line of "key<tab>value". */
static void __attribute__((format(printf, 4, 5))) add_line(char **at, size_t *room,
                                                           const char *key, const char *format,
                                                           ...) {
  int length = snprintf(*at, *room, "%s\t", key);
  for (int i = 0; i < 2; i++) {
    const size_t moved = (size_t)length < *room ? (size_t)length : *room - 1;
    *at += moved;
    *room -= moved;
    if (i == 1) break;
    va_list values;
    va_start(values, format);
    length = vsnprintf(*at, *room, format, values);
    va_end(values);
  }
  if (*room > 1) {
    *(*at)++ = '\n';
    **at = 0;
    --*room;
  }
}

static void describe_libraries(char *at, size_t room) {
  static const char *const keys[RM_LIBRARIES] = {"driver", "cudart", "nvrtc", "cublas"};
  char text[6144];
  for (int i = 0; i < RM_LIBRARIES; i++) {
    rm_cuda_describe(i, text, sizeof text);
    add_line(&at, &room, keys[i], "%s", text);
  }
  rm_cache_describe(text, sizeof text);
  add_line(&at, &room, "cache", "%s", text);
}

static int32_t describe_device(int32_t index, char *at, size_t room) {
  RM_TRY(rm_cuda_check_index(index));
  char name[256] = "";
  int device, capability;
  size_t bytes = 0;
  RM_CU(cuDeviceGet, &device, index);
  RM_CU(cuDeviceGetName, name, sizeof name, device);
  RM_CU(cuDeviceTotalMem_v2, &bytes, device);
  RM_TRY(rm_cuda_capability(index, &capability));
  add_line(&at, &room, "name", "%s", name);
  add_line(&at, &room, "capability", "%d.%d", capability / 10, capability % 10);
  add_line(&at, &room, "memory", "%llu", (unsigned long long)bytes);
  return RM_OK;
}

int32_t rm_cuda_describe_device(int32_t device, void *buffer, int32_t length) {
  enum { ROOM = 32768 };
  char *text = calloc(1, ROOM);
  if (text == NULL) return 0;
  if (device < 0) describe_libraries(text, ROOM);
  else if (describe_device(device, text, ROOM) != RM_OK) text[0] = 0;
  const int32_t full = rm_copy_text(text, buffer, length);
  free(text);
  return full;
}
#endif
