/* A compiled source, as nvrtcGetCUBIN gives it: this, then a shared library. */
#include <stdint.h>

#define IMAGE_MAGIC 0x6e696275632d7565ull /* "eu-cubin" */

typedef struct {
  uint64_t magic, bytes, hash;
  /* 90 for sm_90; of PTX, 0: it serves all. */
  uint64_t capability;
} image;

/* FNV-1a. */
static inline uint64_t image_hash(uint64_t hash, const void *bytes, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
  }
  return hash;
}
