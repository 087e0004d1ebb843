/*
 * Sorts signed keys and selects among them, by quicksort with vectors.
 */
#ifndef ROWMAJOR_QUICKSORT_H
#define ROWMAJOR_QUICKSORT_H

#include "internal.h"

/* Sorts n keys in place: a network sorts up to 16 vectors in registers, partitions around medians of
 * samples make longer runs short. Never quadratic: heap sort takes over where partitions stay
 * lopsided. */
#define quicksort_32 RM_FOR_ISA(quicksort_32)
#define quicksort_64 RM_FOR_ISA(quicksort_64)
void quicksort_32(int32_t *keys, ptrdiff_t n);
void quicksort_64(int64_t *keys, ptrdiff_t n);

/* The same with the threads of rm_parallel, for long runs. */
#define quicksort_parallel_32 RM_FOR_ISA(quicksort_parallel_32)
#define quicksort_parallel_64 RM_FOR_ISA(quicksort_parallel_64)
void quicksort_parallel_32(int32_t *keys, ptrdiff_t n);
void quicksort_parallel_64(int64_t *keys, ptrdiff_t n);

/* Puts key `rank` of the sorted order there, with no greater keys before it and no smaller ones
 * after it. */
#define quickselect_32 RM_FOR_ISA(quickselect_32)
#define quickselect_64 RM_FOR_ISA(quickselect_64)
void quickselect_32(int32_t *keys, ptrdiff_t n, ptrdiff_t rank);
void quickselect_64(int64_t *keys, ptrdiff_t n, ptrdiff_t rank);

#endif
