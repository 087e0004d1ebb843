/*
 * Converts elements to unsigned keys of the same order. Part of sort.c.
 */
#ifndef ROWMAJOR_SORT_KEYS_H
#define ROWMAJOR_SORT_KEYS_H

#include <string.h>
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

/* Calls the function for elements of the given size. */
#define BY_BYTES(bytes, name, ...)                    \
  ((bytes) == 1   ? name##_uint8_t(__VA_ARGS__)       \
   : (bytes) == 2 ? name##_uint16_t(__VA_ARGS__)      \
                  : name##_uint32_t(__VA_ARGS__))

/* Not inlined, because their loops are long and come in four types. */
__attribute__((noinline)) void load_keys(const sort_context *ctx, const void *values, ptrdiff_t n,
                                         void *keys) {
  if (ctx->bytes == 8) load_uint64_t(ctx, values, n, keys);
  else BY_BYTES(ctx->bytes, load, ctx, values, n, keys);
}

__attribute__((noinline)) void store_keys(const sort_context *ctx, const void *keys, ptrdiff_t n,
                                          void *values) {
  if (ctx->bytes == 8) store_uint64_t(ctx, keys, n, values);
  else BY_BYTES(ctx->bytes, store, ctx, keys, n, values);
}

/* Whether some of n elements are floats whose keys are not unique. */
__attribute__((noinline)) static bool has_ambiguous_keys(const sort_context *ctx,
                                                         const void *values, ptrdiff_t n) {
  if (!ctx->is_float) return false;
  return ctx->bytes == 8 ? has_ambiguous_keys_uint64_t(ctx, values, n)
                         : BY_BYTES(ctx->bytes, has_ambiguous_keys, ctx, values, n);
}

#endif
