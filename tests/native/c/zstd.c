/*
 * Decompresses a file with a Zstandard stream, whose length is an argument, and prints a checksum;
 * then as often as the third argument says damaged streams, of which any result will do. Buffers are
 * exactly as long as needed, for sanitizers.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "zstd.h"

static uint64_t state = 88172645463325252u;

static uint64_t any(void) {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

int main(int count, char **arguments) {
  if (count < 4) return 2;
  FILE *file = fopen(arguments[1], "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) return 2;
  const size_t size = (size_t)ftell(file), length = (size_t)atol(arguments[2]);
  rewind(file);
  unsigned char *from = malloc(size);
  char *to = malloc(length);
  if (from == NULL || to == NULL || fread(from, 1, size, file) != size) return 2;
  fclose(file);
  if (!rm_zstd_decompress(from, size, to, length)) return 3;
  uint32_t sum = 0x811c9dc5;
  for (size_t i = 0; i < length; i++) sum = (sum ^ (unsigned char)to[i]) * 0x01000193;
  int refused = 0;
  for (int i = 0; i < atoi(arguments[3]); i++) {
    const size_t kept = i % 4 == 0 ? any() % size : size;
    unsigned char *damaged = malloc(kept + 1);
    if (damaged == NULL) return 2;
    memcpy(damaged, from, kept);
    for (int k = 0; k < 1 + i % 3 && kept > 0; k++) damaged[any() % kept] ^= 1 << any() % 8;
    unsigned char *exact = realloc(damaged, kept > 0 ? kept : 1);
    refused += !rm_zstd_decompress(exact, kept, to, length);
    free(exact);
  }
  free(from);
  free(to);
  printf("%u, %d refused\n", sum, refused);
  return 0;
}
