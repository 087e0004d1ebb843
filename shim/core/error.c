/*
 * The last error message of each thread.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"

/* On the heap, since messages of compilers may be long. Not freed when its thread ends. */
static _Thread_local char *last_error;

int32_t rm_fail(int32_t status, const char *format, ...) {
  va_list values;
  va_start(values, format);
  const int length = vsnprintf(NULL, 0, format, values);
  va_end(values);
  char *message = length < 0 ? NULL : malloc((size_t)length + 1);
  if (message != NULL) {
    va_start(values, format);
    vsnprintf(message, (size_t)length + 1, format, values);
    va_end(values);
  }
  /* After formatting, since the old message may be part of the new one. */
  free(last_error);
  last_error = message;
  return status;
}

int32_t rm_copy_text(const char *text, void *buffer, int32_t length) {
  size_t full = strlen(text);
  if (buffer != NULL && length > 0) {
    size_t part = full < (size_t)length ? full : (size_t)length - 1;
    memcpy(buffer, text, part);
    ((char *)buffer)[part] = 0;
  }
  return (int32_t)full;
}

int32_t rm_last_error(void *buffer, int32_t length) {
  return rm_copy_text(last_error == NULL ? "" : last_error, buffer, length);
}
