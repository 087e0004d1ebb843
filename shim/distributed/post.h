/*
 * Posting the calls of MPI that a request consists of.
 */
#ifndef ROWMAJOR_POST_H
#define ROWMAJOR_POST_H

#include "world.h"

/* Fails a request by what MPI reports. */
void rm_request_fail_by_code(rm_request *request, int code);

/* Room for one more request of MPI; null, and the request has failed, if there is no memory. */
rm_mpi_handle *rm_request_handle(rm_request *request);

/* Counts what was posted, or fails; false if it failed. */
bool rm_request_posted(rm_request *request, int code);

/* Posts a call for each part of `count` elements that MPI takes at once. */
#define RM_POST_PARTS(request, count, call)                                      \
  for (int64_t at = 0; at < (count); at += (request)->limit) {                   \
    const int64_t rest = (count) - at;                                           \
    const int part = (int)(rest < (request)->limit ? rest : (request)->limit);   \
    rm_mpi_handle *handle = rm_request_handle(request);                          \
    if (handle == NULL || !rm_request_posted(request, call)) return;             \
  }

#endif
