/*
 * Kernels that were compiled ahead of time, for machines with a driver but without NVRTC: PTX,
 * which the driver compiles for its device, in a file next to the library. scripts/generate/ptx.ts
 * writes it.
 *
 * The file is a line, "rowmajor-ptx STAMP COMPRESSED BYTES SUM", followed by compressed bytes, a
 * Zstandard stream. They contain a line per kernel, "NAME ENTRY OFFSET", a 0, and texts, each
 * terminated by a 0, which the offsets refer to.
 *
 * The stamp must match the library. The sum is a checksum of the compressed bytes.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The content of the file, with a newline before the first line. It is never freed. */
static char *names;
static const char *images;
static size_t images_length;

/* FNV-1a. */
static uint32_t checksum(const unsigned char *bytes, size_t length) {
  uint32_t sum = 0x811c9dc5;
  for (size_t i = 0; i < length; i++) sum = (sum ^ bytes[i]) * 0x01000193;
  return sum;
}

/*
 * Writes the `length` bytes of a Zstandard stream to `to`, which has room for that and SLACK. False if
 * the stream is malformed or has another length. See decompress.zig.
 */
extern bool rm_zstd_decompress(const void *from, size_t compressed, char *to, size_t length);
enum { SLACK = 1 << 17 };

/* Reads the rest of an open file. The path is for messages. */
static int32_t read_compressed(FILE *file, const char *path) {
  uint32_t stamp, sum;
  unsigned length, bytes;
  enum { MAX_BYTES = 1 << 28 };
  if (fscanf(file, "rowmajor-ptx %u %u %u %u", &stamp, &length, &bytes, &sum) != 4 ||
      fgetc(file) != '\n' || length > MAX_BYTES || bytes > MAX_BYTES) {
    return rm_fail(RM_NOT_FOUND, "%s does not hold kernels", path);
  }
  if (stamp != (rm_cuda_headers()->stamp ^ (uint32_t)rm_table_hash())) {
    return rm_fail(RM_NOT_FOUND, "%s is of another version than this library", path);
  }
  unsigned char *compressed = malloc(length);
  char *all = malloc((size_t)bytes + 2 + SLACK);
  int32_t status = RM_OK;
  if (compressed == NULL || all == NULL) {
    status = rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for %s", path);
  } else if (fread(compressed, 1, length, file) != length || checksum(compressed, length) != sum ||
             !rm_zstd_decompress(compressed, length, all + 1, bytes)) {
    status = rm_fail(RM_NOT_FOUND, "%s is damaged", path);
  } else {
    all[0] = '\n';
    all[bytes + 1] = 0;
    images = all + strlen(all) + 1;
    images_length = (size_t)(all + bytes + 1 - images);
    names = all;
  }
  if (status != RM_OK) free(all);
  free(compressed);
  return status;
}

static int32_t read_file(void) {
  char path[1024];
  const char *override = getenv("ROWMAJOR_PTX");
  if (override != NULL && override[0] != 0) snprintf(path, sizeof path, "%s", override);
  else rm_cuda_find_beside("rowmajor-ptx.bin", path, sizeof path);
  FILE *file = path[0] == 0 || !rm_may_open(path) ? NULL : fopen(path, "rb");
  if (file == NULL) {
    return path[0] != 0 ? rm_fail(RM_NOT_FOUND, "%s cannot be read", path)
                        : rm_fail(RM_NOT_FOUND, "there is no rowmajor-ptx.bin beside the library "
                                                "(zig build ptx makes it)");
  }
  const int32_t status = read_compressed(file, path);
  fclose(file);
  return status;
}

int32_t rm_aot_find(const char *name, size_t length, rm_aot_kernel *found) {
  static rm_mutex mutex = RM_MUTEX_INIT;
  rm_mutex_lock(&mutex);
  const int32_t status = names == NULL ? read_file() : RM_OK;
  rm_mutex_unlock(&mutex);
  RM_TRY(status);
  for (const char *at = names; (at = strchr(at, '\n')) != NULL;) {
    at++;
    if (strncmp(at, name, length) != 0 || at[length] != ' ') continue;
    unsigned offset;
    if (sscanf(at + length, " %63s %u", found->entry, &offset) != 2 || offset >= images_length) {
      break;
    }
    found->image = images + offset;
    return RM_OK;
  }
  return rm_fail(RM_NOT_FOUND, "kernel %.*s does not come compiled", (int)length, name);
}
#endif
