/*
 * What the kernels of sets and of searching share: elements of any number dtype, a block at a time.
 */
#ifndef ROWMAJOR_SETS_H
#define ROWMAJOR_SETS_H

#include "internal.h"

/* Elements that are read at once. */
enum { SET_BLOCK = 512 };

#define T uint8_t
#define NAME(function) u8_##function
#include "load_type.h"
#define T int8_t
#define NAME(function) i8_##function
#include "load_type.h"
#define T int16_t
#define NAME(function) i16_##function
#include "load_type.h"
#define T int32_t
#define NAME(function) i32_##function
#include "load_type.h"
#define T int64_t
#define NAME(function) i64_##function
#include "load_type.h"
#define T uint16_t
#define NAME(function) u16_##function
#include "load_type.h"
#define T uint32_t
#define NAME(function) u32_##function
#include "load_type.h"
#define T uint64_t
#define NAME(function) u64_##function
#include "load_type.h"
#define T float
#define NAME(function) f32_##function
#include "load_type.h"
#define T double
#define NAME(function) f64_##function
#include "load_type.h"

/* The function of a dtype but the 16-bit floats, which callers cast first. */
#define RM_BY_DTYPE(dtype, function, ...) \
  switch (dtype) { \
    case RM_BOOL: case RM_UINT8: u8_##function(__VA_ARGS__); break; \
    case RM_INT8: i8_##function(__VA_ARGS__); break; \
    case RM_INT16: i16_##function(__VA_ARGS__); break; \
    case RM_INT32: i32_##function(__VA_ARGS__); break; \
    case RM_INT64: i64_##function(__VA_ARGS__); break; \
    case RM_UINT16: u16_##function(__VA_ARGS__); break; \
    case RM_UINT32: u32_##function(__VA_ARGS__); break; \
    case RM_UINT64: u64_##function(__VA_ARGS__); break; \
    case RM_FLOAT32: f32_##function(__VA_ARGS__); break; \
    case RM_FLOAT64: f64_##function(__VA_ARGS__); break; \
    default: break; \
  }

static __attribute__((unused)) void rm_load_doubles(int dtype, const void *from, ptrdiff_t n, double *to) {
  RM_BY_DTYPE(dtype, doubles, from, n, to)
}

static __attribute__((unused)) void rm_load_integers(int dtype, const void *from, ptrdiff_t n, int64_t *to) {
  RM_BY_DTYPE(dtype, integers, from, n, to)
}

/* The element at `index` of a buffer. */
static inline const char *rm_element(const rm_call *call, int buffer, double index) {
  return (const char *)call->buffers[buffer] +
         (ptrdiff_t)index * rm_itemsize(call->dtypes[buffer]);
}

#endif
