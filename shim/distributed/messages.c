/*
 * Messages between two ranks. Each begins with a packet that says what is sent, so that no receive is
 * posted for elements of another number: MPI would write beyond the memory of a shorter one.
 *
 * The packet of a small message has its elements, which are copied: its send ends at once. The sender of
 * a large message waits for an answer. If both ranks ask for the same, the receiver is ready for the
 * elements by then; otherwise none are sent, and both ranks fail.
 */
#if !defined(_WIN32)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "post.h"

enum {
  /* The most bytes of a small message. */
  SMALL = 1 << 16,
  /* While parcels have so many bytes, small messages wait as large ones do. */
  MOST_BYTES = 1 << 24,
  /* Answers and elements have tags by the number of the message, which begin again after so many. */
  FIRST_TAG = 2,
  MESSAGES = 16000
};

/* What a message is. `ticket`: its number among the large ones to its receiver, or SMALL_MESSAGE. */
typedef struct {
  int64_t dtype, lanes, count, limit, ticket;
} header;
enum { SMALL_MESSAGE = -1 };

/* Bytes that MPI sends. Freed when they have been sent. */
struct rm_parcel {
  rm_parcel *next;
  rm_mpi_handle handle;
  int64_t bytes;
  char data[];
};

static rm_parcel *make_parcel(rm_request *request, int64_t bytes) {
  rm_parcel *parcel = malloc(sizeof *parcel + (size_t)bytes);
  if (parcel == NULL) rm_request_fail(request, false, -1, "there is no memory for a message");
  else *parcel = (rm_parcel){.bytes = bytes};
  return parcel;
}

/* Sends a parcel; false, and the request has failed, if MPI does not take it. */
static bool send_parcel(rm_request *request, rm_parcel *parcel, int to, int tag, rm_mpi_handle comm) {
  const int code = mpi->Isend(parcel->data, (int)parcel->bytes, mpi->blocks[0], to, tag, comm,
                              &parcel->handle);
  if (code != 0) {
    free(parcel);
    rm_request_fail_by_code(request, code);
    return false;
  }
  parcel->next = rm_this_world.parcels;
  rm_this_world.parcels = parcel;
  rm_this_world.parcel_bytes += parcel->bytes;
  rm_send_parcels();
  return true;
}

void rm_send_parcels(void) {
  for (rm_parcel **at = &rm_this_world.parcels; *at != NULL;) {
    rm_parcel *parcel = *at;
    int done = 0;
    /* A failure shows in the requests, too. */
    if (mpi->Test(&parcel->handle, &done, mpi->ignored_status) == 0 && !done) {
      at = &parcel->next;
      continue;
    }
    *at = parcel->next;
    rm_this_world.parcel_bytes -= parcel->bytes;
    free(parcel);
  }
}

static header header_of(const rm_request *request) {
  return (header){request->dtype, request->lanes, request->count, request->limit, SMALL_MESSAGE};
}

static bool are_alike(const header *a, const header *b) {
  return a->dtype == b->dtype && a->lanes == b->lanes && a->count == b->count;
}

static int64_t bytes_of(const rm_request *request) {
  return request->count * rm_itemsize(request->dtype);
}

static int answer_tag(int64_t ticket) { return FIRST_TAG + 2 * (int)(ticket % MESSAGES); }
static int elements_tag(int64_t ticket) { return answer_tag(ticket) + 1; }

/* The rank in the world that a message goes to, or is from. */
static int other_of(const rm_request *request) { return request->group->members[request->peer]; }

/* Both ranks fail, in the same words; the world goes on. */
static void fail_different(rm_request *request, const header *sent, const header *wanted) {
  const bool is_sender = request->kind == RM_COLLECTIVE_SEND;
  const int own = request->group->rank, other = request->peer;
  char first[60], second[60];
  rm_describe_elements((int)sent->dtype, (int)sent->lanes, sent->count, first, sizeof first);
  rm_describe_elements((int)wanted->dtype, (int)wanted->lanes, wanted->count, second, sizeof second);
  rm_request_fail(request, true, other, "rank %d sends %s, but rank %d receives %s",
                  is_sender ? own : other, first, is_sender ? other : own, second);
}

static void begin_send(rm_request *request) {
  header what = header_of(request);
  const int64_t bytes = bytes_of(request);
  const bool is_small = bytes <= SMALL && rm_this_world.parcel_bytes < MOST_BYTES;
  rm_parcel *parcel = make_parcel(request, (int64_t)sizeof what + (is_small ? bytes : 0));
  if (parcel == NULL) return;
  if (is_small) {
    if (bytes > 0) memcpy(parcel->data + sizeof what, request->in, (size_t)bytes);
  } else {
    what.ticket = request->ticket = rm_this_world.tickets[other_of(request)]++;
    rm_mpi_handle *handle = rm_request_handle(request);
    request->packet = malloc(sizeof what);
    if (handle == NULL || request->packet == NULL) {
      free(parcel);
      rm_request_fail(request, false, -1, "there is no memory for a message");
      return;
    }
    const int code = mpi->Irecv(request->packet, sizeof what, mpi->blocks[0], other_of(request),
                                answer_tag(what.ticket), rm_this_world.control, handle);
    if (!rm_request_posted(request, code)) {
      free(parcel);
      return;
    }
  }
  memcpy(parcel->data, &what, sizeof what);
  if (!send_parcel(request, parcel, request->peer, request->tag, request->group->comm)) return;
  if (is_small) request->step = RM_REQUEST_DONE;
}

static void begin_receive(rm_request *request) {
  const int most = (int)sizeof(header) + SMALL;
  rm_mpi_handle *handle = rm_request_handle(request);
  request->packet = malloc((size_t)most);
  if (handle == NULL || request->packet == NULL) {
    rm_request_fail(request, false, -1, "there is no memory for a message");
    return;
  }
  rm_request_posted(request, mpi->Irecv(request->packet, most, mpi->blocks[0], request->peer,
                                        request->tag, request->group->comm, handle));
}

void rm_message_begin(rm_request *request) {
  request->step = RM_REQUEST_COMPARING;
  if (request->kind == RM_COLLECTIVE_SEND) begin_send(request);
  else begin_receive(request);
}

/* Posts the elements of a large message, in parts of `limit`. */
static void post_elements(rm_request *request, int64_t limit) {
  const ptrdiff_t size = rm_itemsize(request->dtype);
  const rm_mpi_handle type = mpi->blocks[rm_log2(size)];
  const int other = other_of(request), tag = elements_tag(request->ticket);
  const rm_mpi_handle comm = rm_this_world.control;
  request->step = RM_REQUEST_POSTED;
  request->limit = limit;
  if (request->kind == RM_COLLECTIVE_SEND) {
    RM_POST_PARTS(request, request->count,
                  mpi->Isend(request->in + at * size, part, type, other, tag, comm, handle))
  } else {
    RM_POST_PARTS(request, request->count,
                  mpi->Irecv(request->out + at * size, part, type, other, tag, comm, handle))
  }
}

/* Takes the packet of a message. */
static void take_packet(rm_request *request) {
  header sent;
  const header wanted = header_of(request);
  memcpy(&sent, request->packet, sizeof sent);
  const bool fits = are_alike(&sent, &wanted);
  if (sent.ticket == SMALL_MESSAGE) {
    const int64_t bytes = bytes_of(request);
    if (!fits) fail_different(request, &sent, &wanted);
    else {
      if (bytes > 0) memcpy(request->out, request->packet + sizeof sent, (size_t)bytes);
      request->step = RM_REQUEST_DONE;
    }
    return;
  }
  rm_parcel *answer = make_parcel(request, sizeof wanted);
  if (answer == NULL) return;
  memcpy(answer->data, &wanted, sizeof wanted);
  request->ticket = sent.ticket;
  if (fits) post_elements(request, sent.limit);
  if (request->step == RM_REQUEST_DONE) {
    free(answer);
    return;
  }
  if (!send_parcel(request, answer, other_of(request), answer_tag(sent.ticket), rm_this_world.control)) {
    return;
  }
  if (!fits) fail_different(request, &sent, &wanted);
}

void rm_message_continue(rm_request *request) {
  if (request->kind == RM_COLLECTIVE_RECEIVE) {
    take_packet(request);
    return;
  }
  header wanted;
  const header sent = header_of(request);
  memcpy(&wanted, request->packet, sizeof wanted);
  if (are_alike(&sent, &wanted)) post_elements(request, request->limit);
  else fail_different(request, &sent, &wanted);
}
#endif
