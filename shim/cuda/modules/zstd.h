/*
 * Zstandard, for the file of kernels that were compiled ahead of time.
 */
#ifndef ROWMAJOR_ZSTD_H
#define ROWMAJOR_ZSTD_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the `length` bytes of a Zstandard stream to `to`. False if the stream is malformed or has
 * another length, or without memory. */
bool rm_zstd_decompress(const void *compressed, size_t size, char *to, size_t length);

#endif
