/*
 * Kernels that come compiled, for machines that have a driver but no NVRTC: PTX, which the driver
 * compiles for its device, in a file beside the library. scripts/generate/ptx.ts makes it.
 *
 * The file is a line, "rowmajor-ptx STAMP PACKED BYTES SUM", and then, packed as files.zig does it,
 * a line for each kernel, "NAME ENTRY OFFSET", a 0, and texts, each ended by a 0, to which the
 * offsets lead.
 * The stamp tells whether the file was made from what this library was; the sum is of the packed
 * bytes.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the file holds, with a line's end before the first line; once read, it stays. */
static char *names;
static const char *images;
static size_t images_length;

/* FNV-1a. */
static uint32_t sum_of(const unsigned char *bytes, size_t length) {
  uint32_t sum = 0x811c9dc5;
  for (size_t i = 0; i < length; i++) sum = (sum ^ bytes[i]) * 0x01000193;
  return sum;
}

/* Adds to a count what follows a half of a token that is full. */
static size_t count_of(size_t half, const unsigned char **at) {
  size_t count = half;
  if (half < 15) return count;
  do count += **at;
  while (*(*at)++ == 255);
  return count;
}

static void unpack(const unsigned char *at, size_t packed_length, char *to) {
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

/* Reads the rest of an open file, of which the path is for messages. */
static int32_t read_packed(FILE *file, const char *path) {
  uint32_t stamp, sum;
  unsigned length, bytes;
  enum { MOST = 1 << 28 };
  if (fscanf(file, "rowmajor-ptx %u %u %u %u", &stamp, &length, &bytes, &sum) != 4 ||
      fgetc(file) != '\n' || length > MOST || bytes > MOST) {
    return rm_fail(RM_NOT_FOUND, "%s does not hold kernels", path);
  }
  if (stamp != (rm_cuda_headers()->stamp ^ (uint32_t)rm_table_hash())) {
    return rm_fail(RM_NOT_FOUND, "%s is of another version than this library", path);
  }
  unsigned char *packed = malloc(length);
  char *all = malloc((size_t)bytes + 2);
  int32_t status = RM_OK;
  if (packed == NULL || all == NULL) {
    status = rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for %s", path);
  } else if (fread(packed, 1, length, file) != length || sum_of(packed, length) != sum) {
    status = rm_fail(RM_NOT_FOUND, "%s is damaged", path);
  } else {
    all[0] = '\n';
    unpack(packed, length, all + 1);
    all[bytes + 1] = 0;
    images = all + strlen(all) + 1;
    images_length = (size_t)(all + bytes + 1 - images);
    names = all;
  }
  if (status != RM_OK) free(all);
  free(packed);
  return status;
}

static int32_t read_file(void) {
  char path[1024];
  const char *named = getenv("ROWMAJOR_PTX");
  if (named != NULL && named[0] != 0) snprintf(path, sizeof path, "%s", named);
  else rm_cuda_beside("rowmajor-ptx.bin", path, sizeof path);
  FILE *file = path[0] == 0 ? NULL : fopen(path, "rb");
  if (file == NULL) {
    return path[0] != 0 ? rm_fail(RM_NOT_FOUND, "%s cannot be read", path)
                        : rm_fail(RM_NOT_FOUND, "there is no rowmajor-ptx.bin beside the library "
                                                "(zig build ptx makes it)");
  }
  const int32_t status = read_packed(file, path);
  fclose(file);
  return status;
}

int32_t rm_prebuilt_find(const char *name, size_t length, rm_prebuilt *found) {
  static rm_mutex guard = RM_MUTEX_INIT;
  rm_mutex_lock(&guard);
  const int32_t status = names == NULL ? read_file() : RM_OK;
  rm_mutex_unlock(&guard);
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
