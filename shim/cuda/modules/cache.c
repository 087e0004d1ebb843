/*
 * Bytes that are kept on disk by the text that they were made from, for later processes.
 *
 * A file holds the whole text and a checksum; what is damaged, or belongs to somebody else, counts
 * as not there and is written anew. Files are complete or not there, whoever writes at the same
 * time. Nothing here is an error. Knows nothing of CUDA.
 */
#if !defined(__APPLE__)
#define _GNU_SOURCE
#include "cuda_internal.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#if defined(_WIN32)
#include <direct.h>
#include <io.h>
#else
#include <unistd.h>
#endif

enum { PATH_ROOM = 1024 };

static uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
  return x ^ x >> 29;
}

rm_hash rm_hash_of(rm_hash before, const void *bytes, size_t length) {
  const unsigned char *at = bytes;
  uint64_t a = before.a ^ length, b = before.b + length;
  for (size_t i = 0; i < length; i += 8) {
    uint64_t word = 0;
    memcpy(&word, at + i, length - i < 8 ? length - i : 8);
    a = (a ^ word) * 0x9fb21c651e98df25ull;
    a ^= a >> 35;
    b = mixed(b + word);
  }
  return (rm_hash){mixed(a ^ b >> 7), mixed(b ^ a << 9)};
}

/* The folder, which need not be there; false where the system names none. */
static bool cache_folder(char *path) {
#if defined(_WIN32)
  static const char *const usual[][2] = {{"ROWMAJOR_CACHE", ""},
                                         {"LOCALAPPDATA", "\\rowmajor"}};
#else
  static const char *const usual[][2] = {{"ROWMAJOR_CACHE", ""},
                                         {"XDG_CACHE_HOME", "/rowmajor"},
                                         {"HOME", "/.cache/rowmajor"}};
#endif
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
    const char *base = getenv(usual[i][0]);
    if (base == NULL || base[0] == 0) continue;
    return snprintf(path, PATH_ROOM, "%s%s", base, usual[i][1]) < PATH_ROOM - 100;
  }
  return false;
}

void rm_cache_describe(char *text, size_t length) {
  char path[PATH_ROOM];
  snprintf(text, length, "%s", cache_folder(path) ? path : "no folder: set ROWMAJOR_CACHE");
}

/* The file of a key. */
static bool file_of(const char *key, char *path) {
  if (!cache_folder(path)) return false;
  const rm_hash hash = rm_hash_of((rm_hash){0, 0}, key, strlen(key));
  const size_t length = strlen(path);
  snprintf(path + length, PATH_ROOM - length, "/%016llx%016llx.bin", (unsigned long long)hash.a,
           (unsigned long long)hash.b);
  return true;
}

/* What a file begins with; the key and the bytes follow. */
typedef struct {
  char mark[8];
  uint64_t key_length, length;
  rm_hash checksum;
} head;

static const char mark[8] = {'r', 'o', 'w', 'm', 'a', 'j', 'r', '1'};

static rm_hash checksum_of(const char *key, const char *bytes, size_t length) {
  return rm_hash_of(rm_hash_of((rm_hash){1, 1}, key, strlen(key)), bytes, length);
}

/* Opens a file for reading that only its owner, who runs this, can have written. */
static FILE *open_own(const char *path) {
#if defined(_WIN32)
  return fopen(path, "rb");
#else
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return NULL;
  struct stat about;
  if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid() &&
      (about.st_mode & 022) == 0) {
    FILE *opened = fdopen(file, "rb");
    if (opened != NULL) return opened;
  }
  close(file);
  return NULL;
#endif
}

char *rm_cache_read(const char *key, size_t *length) {
  char path[PATH_ROOM];
  const size_t key_length = strlen(key);
  FILE *file = file_of(key, path) ? open_own(path) : NULL;
  if (file == NULL) return NULL;
  char *bytes = NULL;
  head found;
  if (fread(&found, sizeof found, 1, file) == 1 && memcmp(found.mark, mark, sizeof mark) == 0 &&
      found.key_length == key_length && found.length > 0 && found.length < 1ull << 30) {
    /* One byte more than there should be, so that a longer file is found out. */
    const size_t whole = key_length + (size_t)found.length;
    char *rest = malloc(whole + 1);
    if (rest != NULL && fread(rest, 1, whole + 1, file) == whole &&
        memcmp(rest, key, key_length) == 0) {
      const rm_hash sum = checksum_of(key, rest + key_length, (size_t)found.length);
      if (sum.a == found.checksum.a && sum.b == found.checksum.b) {
        bytes = malloc((size_t)found.length);
        if (bytes != NULL) memcpy(bytes, rest + key_length, (size_t)found.length);
        *length = (size_t)found.length;
      }
    }
    free(rest);
  }
  fclose(file);
  return bytes;
}

/* Makes a folder and those above it, for this user alone. */
static void make_folders(char *path) {
  for (char *at = path + 1;; at++) {
    const char kept = *at;
    if (kept != 0 && kept != '/' && kept != '\\') continue;
    *at = 0;
#if defined(_WIN32)
    _mkdir(path);
#else
    mkdir(path, 0700);
#endif
    *at = kept;
    if (kept == 0) return;
  }
}

/* Makes a file that was not there, for this user alone. */
static FILE *create(const char *path) {
#if defined(_WIN32)
  const int file = _open(path, _O_CREAT | _O_EXCL | _O_WRONLY | _O_BINARY, _S_IREAD | _S_IWRITE);
  return file < 0 ? NULL : _fdopen(file, "wb");
#else
  const int file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return NULL;
  FILE *opened = fdopen(file, "wb");
  if (opened == NULL) close(file);
  return opened;
#endif
}

static bool replace(const char *from, const char *to) {
#if defined(_WIN32)
  return MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING) != 0;
#else
  return rename(from, to) == 0;
#endif
}

void rm_cache_write(const char *key, const char *bytes, size_t length) {
  static _Atomic unsigned count;
  char folder[PATH_ROOM], path[PATH_ROOM], temporary[PATH_ROOM + 64];
  if (!cache_folder(folder) || !file_of(key, path)) return;
#if defined(_WIN32)
  const unsigned long process = GetCurrentProcessId();
#else
  const unsigned long process = (unsigned long)getpid();
#endif
  snprintf(temporary, sizeof temporary, "%s.%lx.%x", path, process, atomic_fetch_add(&count, 1));
  FILE *file = create(temporary);
  if (file == NULL) {
    make_folders(folder);
    file = create(temporary);
  }
  /* One of the same name can only be what a process left that came to a sudden end. */
  if (file == NULL && remove(temporary) == 0) file = create(temporary);
  if (file == NULL) return;
  head first = {.key_length = strlen(key), .length = length};
  memcpy(first.mark, mark, sizeof mark);
  first.checksum = checksum_of(key, bytes, length);
  bool written = fwrite(&first, sizeof first, 1, file) == 1 &&
                 fwrite(key, 1, strlen(key), file) == strlen(key) &&
                 fwrite(bytes, 1, length, file) == length;
  written = fclose(file) == 0 && written;
  if (!written || !replace(temporary, path)) remove(temporary);
}
#endif
