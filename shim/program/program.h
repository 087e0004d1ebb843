/*
 * Programs: lists of kernel calls that one call of this library runs.
 */
#ifndef ROWMAJOR_PROGRAM_H
#define ROWMAJOR_PROGRAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What one run of a program at a time changes: numbers, addresses and copied buffers. */
typedef struct rm_frame rm_frame;

/* Runs the calls [from, to) of a frame as rm_program_run does. Stops with RM_CANCELLED before a call
 * once `cancelled`, unless null, is true. */
int32_t rm_run_frame(rm_frame *frame, int32_t from, int32_t to, const _Atomic(bool) *cancelled);

/* The number of calls of a frame's program. */
int32_t rm_frame_calls(const rm_frame *frame);

#endif
