/*
 * The files that CUDA kernels may include, as files.zig packed them when the library was built.
 */
#if !defined(__APPLE__)
#include "cuda.h"
#include <stdlib.h>
#include <string.h>
#include "cuda_files.inc"

static const unsigned char packed[] = {RM_FILES};

/* Adds to a count what follows a half of a token that is full. */
static size_t count_of(size_t half, const unsigned char **at) {
  size_t count = half;
  if (half < 15) return count;
  do count += **at;
  while (*(*at)++ == 255);
  return count;
}

void rm_unpack(const unsigned char *at, size_t packed_length, char *to) {
  const unsigned char *end = at + packed_length;
  while (at < end) {
    const unsigned char token = *at++;
    const size_t literals = count_of(token >> 4, &at);
    memcpy(to, at, literals);
    to += literals;
    at += literals;
    if (at == end) return;
    size_t back = at[0] | (size_t)(at[1] & 127) << 8;
    at += 2;
    if (at[-1] > 127) back |= (size_t)*at++ << 15;
    size_t length = count_of(token & 15, &at) + 4;
    /* A match may reach into itself. */
    for (; length > 0; length--, to++) *to = to[-(ptrdiff_t)back];
  }
}

const rm_files *rm_cuda_files(void) {
  static rm_lock guard = RM_LOCK_INIT;
  static rm_files files;
  static const char *names[RM_FILES_COUNT], *texts[RM_FILES_COUNT];
  rm_acquire(&guard);
  if (files.names == NULL) {
    char *text = malloc(RM_FILES_BYTES);
    if (text != NULL) {
      rm_unpack(packed, sizeof packed, text);
      files.hash = rm_hash_of((rm_hash){0, 0}, text, RM_FILES_BYTES);
      for (int i = 0; i < RM_FILES_COUNT; i++) {
        names[i] = text;
        texts[i] = names[i] + strlen(names[i]) + 1;
        text += (texts[i] - names[i]) + (ptrdiff_t)strlen(texts[i]) + 1;
      }
      files.texts = texts;
      files.count = RM_FILES_COUNT;
      files.stamp = RM_FILES_STAMP;
      files.names = names;
    }
  }
  rm_release(&guard);
  return files.names == NULL ? NULL : &files;
}
#endif
