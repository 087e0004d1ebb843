/*
 * The world of ranks of this process, its groups, and requests: what ranks do together, or one after
 * the other.
 */
#ifndef ROWMAJOR_WORLD_H
#define ROWMAJOR_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "internal.h"
#include "mpi.h"

/* Ranks of a group, with the communicator for what they do. */
typedef struct {
  rm_mpi_handle comm;
  /* The same on every rank of the group, and different for groups that share a rank. */
  int64_t id;
  int rank, size;
  /* The ranks in the world. */
  int *members;
  /* Collectives that have begun; messages to and from each rank. */
  int64_t started, *sent, *received;
} rm_group;

/* COMPARING: ranks find out whether they ask for the same. DIFFERING: they do not, and gather what each
 * asks for. */
typedef enum {
  RM_REQUEST_QUEUED,
  RM_REQUEST_COMPARING,
  RM_REQUEST_DIFFERING,
  RM_REQUEST_POSTED,
  RM_REQUEST_DONE
} rm_step;

/* The numbers that ranks compare: what a collective is, its elements, its root. */
enum { RM_COMPARED = 3 };

/* Bytes of a message that MPI sends. */
typedef struct rm_parcel rm_parcel;

typedef struct rm_request rm_request;
struct rm_request {
  /* One of RM_COLLECTIVE_..., and what it is about. */
  int kind, method, reduction, dtype, lanes, peer, tag, color, key;
  rm_group *group;
  const char *in;
  char *out;
  /* Elements: of the whole for reductions, broadcasts and messages, else of one rank. */
  int64_t count;
  /* The most elements of one call of MPI. */
  int64_t limit;
  /* Whether ranks only compare what they call, of which NCCL does the rest. */
  bool only_compares;
  /* When it was queued, and when it fails, by rm_nanoseconds. */
  int64_t since, deadline;
  double timeout;
  /* Which collective, or message, of the group it is; from 1 on. */
  int64_t number;
  rm_step step;
  /* Requests of MPI that have not ended; `inner` has room for most. */
  rm_mpi_handle inner[4], *handles;
  int64_t active, room;
  /* The numbers that ranks compare, and their complements; the largest of all ranks; the numbers of
   * all ranks where they differ, and for splits. */
  int64_t own[2 * RM_COMPARED], most[2 * RM_COMPARED], *all;
  /* What MPI receives before the elements of a message, and the number of that message. */
  char *packet;
  int64_t ticket;
  /* Once it is done: the status, why it failed, the rank that is at fault or -1, and results. */
  int32_t status;
  char error[600];
  int culprit;
  double results[4];
  /* What JavaScript calls it, 0 for calls that wait; who is told of its end, null for none. */
  int64_t name;
  void *listener;
  bool is_told;
  rm_request *next;
};

static inline bool rm_is_message(int kind) {
  return kind == RM_COLLECTIVE_SEND || kind == RM_COLLECTIVE_RECEIVE;
}

/* What the two files below share, guarded by `mutex`. */
typedef struct {
  rm_mpi mpi;
  rm_launcher launcher;
  bool is_open, is_closed, checks;
  /* Why nothing works any more; "" while it does. */
  char broken[600];
  int culprit;
  rm_mpi_handle control;
  int group_count;
  rm_group **groups;
  int64_t next_id;
  /* The last messages of ranks that have left, by rank. */
  int64_t **left;
  int left_count;
  /* What MPI still sends, and how much. The number of the next large message to each rank. */
  rm_parcel *parcels;
  int64_t parcel_bytes;
  int64_t *tickets;
} rm_world;

extern rm_world rm_this_world;
static rm_mpi *const mpi = &rm_this_world.mpi;

/* Where the groups begin in what a rank says that leaves, and the numbers of each. */
enum { RM_LEAVE_GROUPS = 3, RM_LEAVE_GROUP_NUMBERS = 4 };

/* Fails a request; the world is broken from then on unless `only_this`. */
void rm_request_fail(rm_request *request, bool only_this, int culprit, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static inline int rm_log2(ptrdiff_t size) {
  int log = 0;
  while ((ptrdiff_t)1 << log < size) log++;
  return log;
}

/* Begins to compare what ranks ask for. */
void rm_compare_begin(rm_request *request);

/* Whether all ranks have asked for the same: all of them get this answer. */
bool rm_compare_agrees(const rm_request *request);

/* Begins to gather the first numbers in `own` of all ranks. */
void rm_compare_gather(rm_request *request);

/* Fails by what ranks ask for, which differs. The world goes on. */
void rm_compare_fail(rm_request *request);

/* Whether there is such a number of RM_METHOD_.... */
bool rm_is_method(int method);

/* Writes a number of elements: "4 float32". */
void rm_describe_elements(int dtype, int lanes, int64_t count, char *to, size_t length);

/* Begins a message; goes on when the other rank has answered, or its packet is there. */
void rm_message_begin(rm_request *request);
void rm_message_continue(rm_request *request);

/* Frees what MPI has sent. */
void rm_send_parcels(void);

/* Advances a request as far as possible without waiting. `is_first`: no earlier one of its group has
 * still to be posted. */
void rm_request_advance(rm_request *request, bool is_first);

/* A rank that has left and will never do its part; -1 while there is none. */
int rm_request_leaver(const rm_request *request);

/* Count a collective that runs by NCCL, and tell of a rank that will never do its part, or -1. */
int64_t rm_world_count(int group);
int rm_world_leaver(int group, int64_t number, int64_t since);

/* Opens MPI, and makes the group of all ranks. May wait long. */
void rm_world_open(rm_request *request);

/* Tells the other ranks that this one leaves. */
void rm_world_leave(rm_request *request);

/* Ends MPI if all others have left too. */
void rm_world_close(rm_request *request);

/* Takes what ranks said that left. */
void rm_world_listen(void);

/* Makes the group of a split whose ranks have all answered. */
void rm_world_split(rm_request *request);

#endif
