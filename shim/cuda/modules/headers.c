/*
 * The headers that CUDA kernels include, embedded at build time (embed.zig).
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdbool.h>
#include <string.h>

#include "embedded_headers.inc"

/* See decompress.zig. */
extern bool rm_flate_decompress(const void *from, size_t compressed, char *to, size_t length);

/* FNV-1a, as in scripts/generate/ptx.ts. */
static uint32_t add_to_stamp(uint32_t stamp, const char *text) {
  for (; *text != 0; text++) stamp = (stamp ^ (unsigned char)*text) * 0x01000193;
  return stamp;
}

const rm_headers *rm_cuda_headers(void) {
  static rm_mutex mutex = RM_MUTEX_INIT;
  static char all[LENGTH];
  static const char *names[COUNT], *texts[COUNT];
  static rm_headers headers = {COUNT, names, texts, {0, 0}, 0x811c9dc5};
  rm_mutex_lock(&mutex);
  if (names[COUNT - 1] == NULL) {
    /* Fails for no stream of the build. */
    rm_flate_decompress(compressed, sizeof compressed, all, LENGTH);
    const char *at = all;
    for (int i = 0; i < COUNT; i++) {
      names[i] = at;
      texts[i] = at + strlen(at) + 1;
      at = texts[i] + strlen(texts[i]) + 1;
      headers.hash = rm_hash_of(headers.hash, names[i], strlen(names[i]));
      headers.hash = rm_hash_of(headers.hash, texts[i], strlen(texts[i]));
      headers.stamp = add_to_stamp(headers.stamp, texts[i]);
    }
  }
  rm_mutex_unlock(&mutex);
  return &headers;
}
#endif
