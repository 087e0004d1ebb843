/*
 * The headers that CUDA kernels include, embedded at build time (embed.zig).
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <string.h>

static const struct {
  const char *name, *text;
} embedded[] = {
#include "embedded_headers.inc"
};

enum { COUNT = sizeof embedded / sizeof embedded[0] };

/* FNV-1a, as in scripts/generate/ptx.ts. */
static uint32_t add_to_stamp(uint32_t stamp, const char *text) {
  for (; *text != 0; text++) stamp = (stamp ^ (unsigned char)*text) * 0x01000193;
  return stamp;
}

const rm_headers *rm_cuda_headers(void) {
  static rm_mutex mutex = RM_MUTEX_INIT;
  static const char *names[COUNT], *texts[COUNT];
  static rm_headers headers = {COUNT, names, texts, {0, 0}, 0x811c9dc5};
  rm_mutex_lock(&mutex);
  for (int i = 0; i < COUNT && names[COUNT - 1] == NULL; i++) {
    texts[i] = embedded[i].text;
    headers.hash = rm_hash_of(headers.hash, embedded[i].name, strlen(embedded[i].name));
    headers.hash = rm_hash_of(headers.hash, texts[i], strlen(texts[i]));
    headers.stamp = add_to_stamp(headers.stamp, texts[i]);
    names[i] = embedded[i].name;
  }
  rm_mutex_unlock(&mutex);
  return &headers;
}
#endif
