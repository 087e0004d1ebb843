/*
 * Caches compiled kernels on disk for later processes. The key is the text of everything that they
 * depend on.
 *
 * A file contains the whole key and a checksum. Files that are damaged or belong to another user
 * are ignored and overwritten. Files are written atomically, so concurrent writers are safe. No
 * failure here is an error. This file does not know CUDA.
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

enum { PATH_CAPACITY = 1024 };

static uint64_t mix(uint64_t x) {
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
    b = mix(b + word);
  }
  return (rm_hash){mix(a ^ b >> 7), mix(b ^ a << 9)};
}

/* The folder, which may not exist. Returns false if the environment defines none. */
static bool cache_folder(char *path) {
#if defined(_WIN32)
  static const char *const candidates[][2] = {{"ROWMAJOR_CACHE", ""},
                                              {"LOCALAPPDATA", "\\rowmajor"}};
#else
  static const char *const candidates[][2] = {
      {"ROWMAJOR_CACHE", ""}, {"XDG_CACHE_HOME", "/rowmajor"}, {"HOME", "/.cache/rowmajor"}};
#endif
  for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
    const char *base = getenv(candidates[i][0]);
    if (base == NULL || base[0] == 0) continue;
    return snprintf(path, PATH_CAPACITY, "%s%s", base, candidates[i][1]) < PATH_CAPACITY - 100;
  }
  return false;
}

void rm_cache_describe(char *text, size_t length) {
  char path[PATH_CAPACITY];
  snprintf(text, length, "%s", cache_folder(path) ? path : "no folder: set ROWMAJOR_CACHE");
}

/* The file of a key. */
static bool cache_file(const char *key, char *path) {
  if (!cache_folder(path)) return false;
  const rm_hash hash = rm_hash_of((rm_hash){0, 0}, key, strlen(key));
  const size_t length = strlen(path);
  snprintf(path + length, PATH_CAPACITY - length, "/%016llx%016llx.bin", (unsigned long long)hash.a,
           (unsigned long long)hash.b);
  return true;
}

/* The header of a file. The key and the bytes follow. */
typedef struct {
  char magic[8];
  uint64_t key_length, length;
  rm_hash checksum;
} file_header;

static const char magic[8] = {'r', 'o', 'w', 'm', 'a', 'j', 'r', '1'};

static rm_hash checksum_of(const char *key, const char *bytes, size_t length) {
  return rm_hash_of(rm_hash_of((rm_hash){1, 1}, key, strlen(key)), bytes, length);
}

/* Opens a file that only its owner, the current user, can have written. */
static FILE *open_private(const char *path) {
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
  char path[PATH_CAPACITY];
  const size_t key_length = strlen(key);
  FILE *file = cache_file(key, path) ? open_private(path) : NULL;
  if (file == NULL) return NULL;
  char *bytes = NULL;
  file_header found;
  if (fread(&found, sizeof found, 1, file) == 1 && memcmp(found.magic, magic, sizeof magic) == 0 &&
      found.key_length == key_length && found.length > 0 && found.length < 1ull << 30) {
    /* One byte more than expected, to detect a longer file. */
    const size_t expected = key_length + (size_t)found.length;
    char *rest = malloc(expected + 1);
    if (rest != NULL && fread(rest, 1, expected + 1, file) == expected &&
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

/* Creates a folder and its parents, for the current user only. */
static void make_folders(char *path) {
  for (char *at = path + 1;; at++) {
    const char saved = *at;
    if (saved != 0 && saved != '/' && saved != '\\') continue;
    *at = 0;
#if defined(_WIN32)
    _mkdir(path);
#else
    mkdir(path, 0700);
#endif
    *at = saved;
    if (saved == 0) return;
  }
}

/* Creates a file that must not exist, for the current user only. */
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
  char folder[PATH_CAPACITY], path[PATH_CAPACITY], temporary[PATH_CAPACITY + 64];
  if (!cache_folder(folder) || !cache_file(key, path)) return;
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
  /* A file with the same name can only be left over from a process that crashed. */
  if (file == NULL && remove(temporary) == 0) file = create(temporary);
  if (file == NULL) return;
  file_header first = {.key_length = strlen(key), .length = length};
  memcpy(first.magic, magic, sizeof magic);
  first.checksum = checksum_of(key, bytes, length);
  bool written = fwrite(&first, sizeof first, 1, file) == 1 &&
                 fwrite(key, 1, strlen(key), file) == strlen(key) &&
                 fwrite(bytes, 1, length, file) == length;
  written = fclose(file) == 0 && written;
  if (!written || !replace(temporary, path)) remove(temporary);
}
#endif
