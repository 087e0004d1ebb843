/*
 * Elements as unsigned keys that sort as they do. Part of sort.c.
 */
#ifndef ROWMAJOR_SORT_KEYS_H
#define ROWMAJOR_SORT_KEYS_H

#include "sort_context.h"

#define ELEMENT uint8_t
#define KEY uint32_t
#include "sort_element_type.h"
#define ELEMENT uint16_t
#define KEY uint32_t
#include "sort_element_type.h"
#define ELEMENT uint32_t
#define KEY uint32_t
#include "sort_element_type.h"
#define ELEMENT uint64_t
#define KEY uint64_t
#include "sort_element_type.h"

/* The function for elements of so many bytes. */
#define BY_BYTES(bytes, name, ...)                    \
  ((bytes) == 1   ? name##_uint8_t(__VA_ARGS__)       \
   : (bytes) == 2 ? name##_uint16_t(__VA_ARGS__)      \
                  : name##_uint32_t(__VA_ARGS__))

/* Not inlined where they are called: their loops are long, and there are four of each. */
__attribute__((noinline)) static void load_keys(const job *j, const void *values, void *keys) {
  if (j->bytes == 8) load_uint64_t(j, values, j->size, keys);
  else BY_BYTES(j->bytes, load, j, values, j->size, keys);
}

__attribute__((noinline)) static void store_keys(const job *j, const void *keys, void *values) {
  if (j->bytes == 8) store_uint64_t(j, keys, j->size, values);
  else BY_BYTES(j->bytes, store, j, keys, j->size, values);
}

/* Whether some of n elements are floats that keys do not tell apart. */
__attribute__((noinline)) static bool is_special(const job *j, const void *values, ptrdiff_t n) {
  if (!j->floating) return false;
  return j->bytes == 8 ? is_special_uint64_t(j, values, n)
                       : BY_BYTES(j->bytes, is_special, j, values, n);
}

#endif
