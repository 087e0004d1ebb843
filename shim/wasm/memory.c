/*
 * The memory of a WebAssembly module: malloc, and the storages of tensors.
 *
 * The memory has a fixed size, since one that grows detaches its ArrayBuffer, and with it every typed
 * array of JavaScript on it. Blocks are multiples of cache lines, whose neighbors are joined when
 * they are freed. The lists of free blocks are by size: eight for each power of 2.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"

enum {
  LINE = 64,
  CLASSES_PER_POWER = 8,
  CLASSES = 32 * CLASSES_PER_POWER,
  /* The least block: a header and a line. */
  MIN_BLOCK = 2 * LINE,
  IS_FREE = 1
};

/* The header before each block's data, of one line. */
typedef struct block block;
struct block {
  /* The block before it in memory; null for the first. */
  block *before;
  /* Bytes with the header; the lowest bit is set for a free block. */
  size_t size;
  /* The list of free blocks of its class. */
  block *next, *previous;
};
_Static_assert(sizeof(block) <= LINE, "a block's header takes one line");

extern char __heap_base;

static block *lists[CLASSES];
/* A bit for each list that has blocks. */
static uint32_t filled[CLASSES / 32];
/* The last block in memory, and the end of what was ever in use: memory beyond it is zero. */
static block *last;
static uintptr_t fresh, end_of_memory;
/* Bytes of storages, with the headers of their blocks. */
static size_t taken_bytes;

static size_t size_of(const block *b) { return b->size & ~(size_t)IS_FREE; }
static block *after(const block *b) {
  return b == last ? NULL : (block *)((uintptr_t)b + size_of(b));
}

/* The list whose blocks have at least so many bytes and less than those of the next. */
static int class_of(size_t size) {
  const int high = 31 - __builtin_clz((uint32_t)size);
  return high * CLASSES_PER_POWER + (int)(size >> (high - 3)) - CLASSES_PER_POWER;
}

/* The first list whose blocks all have at least so many bytes. */
static int class_for(size_t size) {
  const size_t step = (size_t)1 << (31 - __builtin_clz((uint32_t)size)) >> 3;
  return size > UINT32_MAX - step ? CLASSES : class_of(size + step - 1);
}

static void link_free(block *b) {
  const int list = class_of(size_of(b));
  b->size |= IS_FREE;
  b->previous = NULL;
  b->next = lists[list];
  if (b->next != NULL) b->next->previous = b;
  lists[list] = b;
  filled[list / 32] |= 1u << list % 32;
}

static void unlink_free(block *b) {
  const int list = class_of(size_of(b));
  b->size &= ~(size_t)IS_FREE;
  if (b->next != NULL) b->next->previous = b->previous;
  if (b->previous != NULL) b->previous->next = b->next;
  else if ((lists[list] = b->next) == NULL) filled[list / 32] &= ~(1u << list % 32);
}

/* A free block from that list on, taken out of its list, or null. */
static block *take_free(int list) {
  if (list >= CLASSES) return NULL;
  uint32_t bits = filled[list / 32] & ~0u << list % 32;
  for (int word = list / 32;;) {
    if (bits != 0) {
      block *b = lists[word * 32 + __builtin_ctz(bits)];
      unlink_free(b);
      return b;
    }
    if (++word == CLASSES / 32) return NULL;
    bits = filled[word];
  }
}

/* Cuts a block in use to so many bytes; the rest becomes a free block. */
static void cut(block *b, size_t size) {
  if (size_of(b) < size + MIN_BLOCK) return;
  block *rest = (block *)((uintptr_t)b + size);
  rest->before = b;
  rest->size = size_of(b) - size;
  block *next = after(b);
  if (next == NULL) last = rest;
  else next->before = rest;
  b->size = size;
  link_free(rest);
}

/* A block at the end of what was in use, or null if the memory ends before it. */
static block *extend(size_t size) {
  if (end_of_memory == 0) {
    fresh = ((uintptr_t)&__heap_base + LINE - 1) / LINE * LINE;
    /* Less a line, so that no address overflows at 4 GiB. */
    end_of_memory = (uintptr_t)(((uint64_t)__builtin_wasm_memory_size(0) << 16) - LINE);
  }
  if (size > end_of_memory - fresh) return NULL;
  block *b = (block *)fresh;
  b->before = last;
  b->size = size;
  last = b;
  fresh += size;
  return b;
}

/* A block of so many bytes with the header, or null. Sets *is_zero if its data is zero. */
static block *take_block(size_t size, bool *is_zero) {
  *is_zero = false;
  block *b = take_free(class_for(size));
  if (b == NULL) {
    b = extend(size);
    if (b != NULL) *is_zero = true;
  }
  if (b == NULL && last != NULL && (last->size & IS_FREE)) {
    /* The last block with the memory after it. */
    block *end = last;
    if (size - size_of(end) <= end_of_memory - fresh) {
      unlink_free(end);
      fresh += size - size_of(end);
      end->size = size;
      b = end;
    }
  }
  if (b == NULL) {
    /* A block of the list that has smaller ones too. */
    for (b = lists[class_of(size)]; b != NULL && size_of(b) < size; b = b->next) {}
    if (b == NULL) return NULL;
    unlink_free(b);
  }
  cut(b, size);
  return b;
}

/* Null if the memory is full. */
static void *allocate(size_t bytes, bool zeroed) {
  if (bytes > UINT32_MAX - 4 * LINE) return NULL;
  const size_t size = (bytes + 2 * LINE - 1) / LINE * LINE;
  bool is_zero;
  block *b = take_block(size < MIN_BLOCK ? MIN_BLOCK : size, &is_zero);
  if (b == NULL) return NULL;
  void *data = (char *)b + LINE;
  if (zeroed && !is_zero) memset(data, 0, bytes);
  return data;
}

void *malloc(size_t bytes) { return allocate(bytes, false); }

void free(void *data) {
  if (data == NULL) return;
  block *b = (block *)((char *)data - LINE);
  block *next = after(b), *before = b->before;
  if (next != NULL && (next->size & IS_FREE)) {
    unlink_free(next);
    if (next == last) last = b;
    b->size += size_of(next);
    if ((next = after(b)) != NULL) next->before = b;
  }
  if (before != NULL && (before->size & IS_FREE)) {
    unlink_free(before);
    if (b == last) last = before;
    before->size += size_of(b);
    b = before;
    if ((next = after(b)) != NULL) next->before = b;
  }
  link_free(b);
}

void *calloc(size_t count, size_t bytes) {
  size_t all;
  if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
  return allocate(all, true);
}

void *realloc(void *data, size_t bytes) {
  if (data == NULL) return malloc(bytes);
  const size_t has = size_of((block *)((char *)data - LINE)) - LINE;
  if (bytes <= has) return data;
  void *larger = malloc(bytes);
  if (larger != NULL) {
    memcpy(larger, data, has);
    free(data);
  }
  return larger;
}

void *aligned_alloc(size_t alignment, size_t bytes) {
  if (alignment <= LINE) return malloc(bytes);
  /* Room for a free block before it. */
  char *data = malloc(bytes + alignment + MIN_BLOCK);
  if (data == NULL || (uintptr_t)data % alignment == 0) return data;
  const uintptr_t at = ((uintptr_t)data + MIN_BLOCK + alignment - 1) / alignment * alignment;
  block *b = (block *)(data - LINE), *aligned = (block *)(at - LINE);
  const size_t size = size_of(b), skipped = (size_t)((char *)aligned - (char *)b);
  aligned->before = b;
  aligned->size = size - skipped;
  block *next = after(b);
  if (next == NULL) last = aligned;
  else next->before = aligned;
  b->size = skipped;
  free(data);
  return (void *)at;
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
  return (*memory = aligned_alloc(alignment, bytes)) == NULL ? ENOMEM : 0;
}

/* ---- for JavaScript -------------------------------------------------------------------------- */

static block *block_of(void *data) { return (block *)((char *)data - LINE); }

/* Of the memory, for programs and the workspaces of kernels: a storage can be elsewhere. */
enum { RESERVED_SHARE = 16, MOST_RESERVED = 64 << 20 };

static bool leaves_reserve(uint32_t bytes) {
  const uint64_t all = (uint64_t)__builtin_wasm_memory_size(0) << 16;
  const uint64_t share = all / RESERVED_SHARE;
  return bytes + (uint64_t)taken_bytes <= all - (share < MOST_RESERVED ? share : MOST_RESERVED);
}

/* Memory for a storage; 0 if the memory is full. */
RM_API int32_t rm_wasm_take(uint32_t bytes, int32_t zeroed) {
  if (!leaves_reserve(bytes)) return 0;
  void *data = allocate(bytes, zeroed != 0);
  if (data != NULL) taken_bytes += size_of(block_of(data));
  return (int32_t)(uintptr_t)data;
}

RM_API int32_t rm_wasm_give(int32_t address) {
  void *data = (void *)(uintptr_t)(uint32_t)address;
  taken_bytes -= size_of(block_of(data));
  free(data);
  return RM_OK;
}

/* The bytes of storages: programs and workspaces are not counted, as in the native library. */
RM_API int32_t rm_wasm_used(void) { return (int32_t)taken_bytes; }
