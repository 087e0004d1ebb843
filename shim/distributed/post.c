/*
 * Posting the calls of MPI that a request consists of.
 */
#if !defined(_WIN32)
#include <stdlib.h>
#include <string.h>
#include "post.h"

void rm_request_fail_by_code(rm_request *request, int code) {
  char text[2048] = "";
  int length = 0;
  mpi->Error_string(code, text, &length);
  rm_request_fail(request, false, rm_is_message(request->kind) ? request->peer : -1, "MPI reports: %.300s",
                  text);
}

rm_mpi_handle *rm_request_handle(rm_request *request) {
  if (request->active == request->room) {
    const int64_t room = request->room * 2;
    rm_mpi_handle *made = malloc(sizeof *made * (size_t)room);
    if (made == NULL) {
      rm_request_fail(request, false, -1, "there is no memory for %lld requests", (long long)room);
      return NULL;
    }
    memcpy(made, request->handles, sizeof *made * (size_t)request->active);
    if (request->handles != request->inner) free(request->handles);
    request->handles = made;
    request->room = room;
  }
  rm_mpi_handle *handle = &request->handles[request->active];
  *handle = 0;
  return handle;
}

bool rm_request_posted(rm_request *request, int code) {
  if (code == 0) {
    request->active++;
    return true;
  }
  rm_request_fail_by_code(request, code);
  return false;
}
#endif
