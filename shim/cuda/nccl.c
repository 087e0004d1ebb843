/*
 * Collectives of several processes on CUDA devices, by NCCL.
 *
 * A link is a communicator of NCCL: ranks with a device each. Collectives are queued on the stream of
 * the device. A thread watches those that have not ended: at their deadline, or when NCCL reports an
 * error, it aborts the link, which ends what is queued.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#if defined(_WIN32)
int32_t rm_nccl(int32_t what, int32_t index, double *numbers, void *bytes) {
  (void)what, (void)index, (void)numbers, (void)bytes;
  return rm_fail(RM_UNSUPPORTED, "there is no NCCL for Windows");
}
#else
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "dtype.h"
#include "world.h"

/* From NVIDIA's headers: ncclDataType_t, by our dtypes, or -1; ncclRedOp_t, by our reductions. */
static const int8_t types[RM_DTYPE_COUNT] = {1, 0, -1, 2, 4, 1, -1, 3, 5, 6, 9, 7, 8};
static const int8_t reductions[] = {0, 2, 3};
enum { BYTES = 1, IN_PROGRESS = 7 };

typedef struct {
  void *comm;
  int device, rank, size;
  /* The group of the world, and the rank that is at fault, or -1. */
  int group, culprit;
  /* Why it is of no further use; "" while it works. */
  char broken[300];
  bool is_aborted;
} link;

/* A collective, or the opening of a link. */
typedef struct job job;
struct job {
  link *of;
  enum { PENDING, ENDED, FAILED } state;
  /* Recorded after a collective. */
  void *event;
  rm_nccl_id id;
  double timeout;
  int64_t since, deadline, name;
  /* Which collective of the group it is; 0 for none. */
  int64_t number;
  job *next;
};

enum { MAX_LINKS = 1024 };

static rm_mutex mutex = RM_MUTEX_INIT;
static rm_condition added = RM_CONDITION_INIT;
static link *links[MAX_LINKS];
static int link_count;
static job *first;
static int64_t last_name;
static bool started;

static void nap(int64_t nanoseconds) {
  const struct timespec time = {0, (long)nanoseconds};
  nanosleep(&time, NULL);
}

static void __attribute__((format(printf, 2, 3))) breaks(link *of, const char *format, ...) {
  va_list values;
  if (of->broken[0] != 0) return;
  va_start(values, format);
  vsnprintf(of->broken, sizeof of->broken, format, values);
  va_end(values);
}

/* Fails if a rank that has closed its world since then will never do its part. */
static void look_for_leavers(const job *j, int64_t since) {
  link *of = j->of;
  if (j->state != PENDING || of->broken[0] != 0) return;
  const int leaver = rm_world_leaver(of->group, j->number, since);
  if (leaver < 0) return;
  of->culprit = leaver;
  breaks(of, "rank %d has closed its world", leaver);
}

/* Finds out whether a job has ended. The mutex is locked. */
static void look(job *j) {
  link *of = j->of;
  if (j->state != PENDING) return;
  if (j->event != NULL) {
    rm_cu.cudaSetDevice(of->device);
    const int code = rm_cu.cudaEventQuery(j->event);
    if (code == 0) {
      /* What is queued ends, too, when a link is aborted. */
      j->state = of->broken[0] == 0 ? ENDED : FAILED;
      return;
    }
    rm_cu.cudaGetLastError();
    if (code != RM_CUDA_NOT_READY) breaks(of, "the device failed: %s", rm_cu.cudaGetErrorString(code));
  }
  int code = 0;
  if (of->comm != NULL && of->broken[0] == 0 && rm_cu.ncclCommGetAsyncError(of->comm, &code) == 0 &&
      code != 0 && code != IN_PROGRESS) {
    /* Others may have given up because of it. */
    look_for_leavers(j, 0);
    breaks(of, "NCCL says: %s", rm_cu.ncclGetErrorString(code));
  }
  if (rm_nanoseconds() >= j->deadline) {
    breaks(of, "the other ranks did not answer within %g s", j->timeout / 1e3);
  }
  if (of->broken[0] != 0) j->state = FAILED;
}

/* Aborts links that are broken. Unlocks the mutex meanwhile: an abort may wait for the device. */
static void abort_broken(void) {
  for (int i = 0; i < link_count; i++) {
    link *of = links[i];
    if (of->broken[0] == 0 || of->is_aborted || of->comm == NULL) continue;
    of->is_aborted = true;
    rm_mutex_unlock(&mutex);
    rm_cu.cudaSetDevice(of->device);
    rm_cu.ncclCommAbort(of->comm);
    rm_mutex_lock(&mutex);
  }
}

/* The main loop of the thread that watches. */
static void watch(void *unused) {
  (void)unused;
  enum { PAUSE = 2000 * 1000 };
  rm_mutex_lock(&mutex);
  for (;;) {
    bool waits = false;
    for (job *j = first; j != NULL; j = j->next) {
      look(j);
      look_for_leavers(j, j->since);
      if (j->state == PENDING) waits = true;
    }
    abort_broken();
    if (!waits) {
      rm_condition_wait(&added, &mutex);
      continue;
    }
    rm_mutex_unlock(&mutex);
    nap(PAUSE);
    rm_mutex_lock(&mutex);
  }
}

static void open_link(void *argument) {
  job *j = argument;
  link *of = j->of;
  void *comm = NULL;
  int code = rm_cu.cudaSetDevice(of->device);
  const bool is_set = code == 0;
  if (is_set) code = rm_cu.ncclCommInitRank(&comm, of->size, j->id, of->rank);
  rm_mutex_lock(&mutex);
  of->comm = comm;
  if (code != 0) {
    breaks(of, "NCCL says: %s", is_set ? rm_cu.ncclGetErrorString(code) : "the device failed");
    of->comm = NULL;
  }
  if (j->state == PENDING) j->state = code == 0 ? ENDED : FAILED;
  rm_mutex_unlock(&mutex);
}

/* Adds a job for a link. The mutex is locked. Null if there is no memory, or no thread. */
static job *add(link *of, double timeout) {
  if (!started) started = rm_start_thread(watch, NULL, 0);
  job *j = started ? calloc(1, sizeof *j) : NULL;
  if (j == NULL) {
    rm_fail(RM_OUT_OF_MEMORY, "there is no memory, or no thread, for a call of NCCL");
    return NULL;
  }
  j->of = of;
  j->timeout = timeout;
  j->since = rm_nanoseconds();
  j->deadline = timeout < 1e12 ? j->since + (int64_t)(timeout * 1e6) : INT64_MAX;
  j->name = ++last_name;
  j->next = first;
  first = j;
  rm_condition_signal(&added);
  return j;
}

static void drop(job *gone) {
  for (job **at = &first; *at != NULL; at = &(*at)->next) {
    if (*at != gone) continue;
    *at = gone->next;
    return;
  }
}

/* numbers are [rank, size, milliseconds, group], and become [link, job]. */
static int32_t start_open(int32_t index, double *numbers, const void *id) {
  rm_device *device;
  RM_TRY(rm_cuda_use(index, &device));
  link *of = calloc(1, sizeof *of);
  if (of == NULL || link_count == MAX_LINKS) {
    free(of);
    return rm_fail(RM_OUT_OF_MEMORY, "there are too many communicators");
  }
  of->device = index;
  of->rank = (int)numbers[0];
  of->size = (int)numbers[1];
  of->group = (int)numbers[3];
  of->culprit = -1;
  job *j = add(of, numbers[2]);
  if (j == NULL) return RM_OUT_OF_MEMORY;
  memcpy(&j->id, id, sizeof j->id);
  if (!rm_start_thread(open_link, j, 0)) {
    drop(j);
    free(j);
    return rm_fail(RM_UNSUPPORTED, "the system starts no more threads");
  }
  links[link_count] = of;
  numbers[0] = link_count++;
  numbers[1] = (double)j->name;
  return RM_OK;
}

static int exchange(const link *of, const char *in, char *out, size_t bytes, void *stream) {
  int code = rm_cu.ncclGroupStart();
  for (int rank = 0; code == 0 && rank < of->size; rank++) {
    const size_t at = (size_t)rank * bytes;
    code = rm_cu.ncclSend(in + at, bytes, BYTES, rank, of->comm, stream);
    if (code == 0) code = rm_cu.ncclRecv(out + at, bytes, BYTES, rank, of->comm, stream);
  }
  const int end = rm_cu.ncclGroupEnd();
  return code != 0 ? code : end;
}

static int call(const link *of, const double *numbers, int dtype, void *stream) {
  const char *in = (const char *)(uintptr_t)(rm_address)numbers[RM_COLLECTIVE_AT_IN];
  char *out = (char *)(uintptr_t)(rm_address)numbers[RM_COLLECTIVE_AT_OUT];
  const size_t count = (size_t)numbers[RM_COLLECTIVE_AT_COUNT];
  const size_t bytes = count * (size_t)rm_itemsize(dtype);
  const int reduction = reductions[(int)numbers[RM_COLLECTIVE_AT_REDUCTION]], type = types[dtype];
  switch ((int)numbers[RM_COLLECTIVE_AT_KIND]) {
    case RM_COLLECTIVE_ALL_REDUCE:
      return rm_cu.ncclAllReduce(in, out, count, type, reduction, of->comm, stream);
    case RM_COLLECTIVE_REDUCE_SCATTER:
      return rm_cu.ncclReduceScatter(in, out, count, type, reduction, of->comm, stream);
    case RM_COLLECTIVE_ALL_GATHER:
      return rm_cu.ncclAllGather(in, out, bytes, BYTES, of->comm, stream);
    case RM_COLLECTIVE_BROADCAST:
      return rm_cu.ncclBroadcast(in, out, bytes, BYTES, (int)numbers[RM_COLLECTIVE_AT_PEER],
                                 of->comm, stream);
    default: return exchange(of, in, out, bytes, stream);
  }
}

/* Queues a collective; numbers[0] becomes its job. */
static int32_t start_call(int32_t index, double *numbers) {
  rm_device *device;
  RM_TRY(rm_cuda_use(index, &device));
  RM_TRY(rm_cuda_not_capturing(device, "call other ranks"));
  const int number = (int)numbers[RM_COLLECTIVE_AT_GROUP];
  const int dtype = (int)numbers[RM_COLLECTIVE_AT_DTYPE];
  const int kind = (int)numbers[RM_COLLECTIVE_AT_KIND];
  const int reduction = (int)numbers[RM_COLLECTIVE_AT_REDUCTION];
  const bool reduces = kind == RM_COLLECTIVE_ALL_REDUCE || kind == RM_COLLECTIVE_REDUCE_SCATTER;
  if (number < 0 || number >= link_count || links[number]->device != index || dtype < 0 ||
      dtype >= RM_DTYPE_COUNT || kind < 0 || kind > RM_COLLECTIVE_ALL_TO_ALL || reduction < 0 ||
      reduction > RM_REDUCTION_MIN || (reduces && types[dtype] < 0)) {
    return rm_fail(RM_BAD_ARGUMENT, "NCCL has no such link, call or dtype");
  }
  link *of = links[number];
  rm_mutex_lock(&mutex);
  job *j = NULL;
  if (of->broken[0] != 0 || of->comm == NULL) {
    rm_fail(RM_DISTRIBUTED, "the world is broken since an earlier failure: %s", of->broken);
  } else {
    j = add(of, numbers[RM_COLLECTIVE_AT_TIMEOUT]);
    if (j != NULL) j->number = rm_world_count(of->group);
  }
  const bool is_broken = of->broken[0] != 0;
  rm_mutex_unlock(&mutex);
  if (j == NULL) return is_broken ? RM_DISTRIBUTED : RM_OUT_OF_MEMORY;
  /* Without the mutex: the first call connects ranks, and may wait for them. */
  const int code = call(of, numbers, dtype, device->stream);
  void *event = NULL;
  enum { NO_TIMING = 2 };
  int cuda = code != 0 ? 0 : rm_cu.cudaEventCreateWithFlags(&event, NO_TIMING);
  if (code == 0 && cuda == 0) cuda = rm_cu.cudaEventRecord(event, device->stream);
  rm_mutex_lock(&mutex);
  if (code != 0) breaks(of, "NCCL says: %s", rm_cu.ncclGetErrorString(code));
  if (cuda != 0) breaks(of, "the device failed: %s", rm_cu.cudaGetErrorString(cuda));
  j->event = event;
  rm_mutex_unlock(&mutex);
  numbers[0] = (double)j->name;
  return RM_OK;
}

/* The result of a job, which is freed; RM_NOT_FOUND if it has not ended and `waits` is false. The
 * second number becomes the rank that is at fault, or -1. */
static int32_t take(double *numbers, bool waits) {
  const int64_t since = rm_nanoseconds(), name = (int64_t)numbers[0];
  rm_mutex_lock(&mutex);
  job *j = first;
  while (j != NULL && j->name != name) j = j->next;
  while (j != NULL) {
    look(j);
    if (j->state != PENDING || !waits) break;
    rm_mutex_unlock(&mutex);
    const int64_t waited = rm_nanoseconds() - since;
    if (waited > 1000 * 1000) nap(waited < 10 * 1000 * 1000 ? 20 * 1000 : 200 * 1000);
    else if (waited > 20 * 1000) rm_yield();
    rm_mutex_lock(&mutex);
  }
  int32_t status = RM_OK;
  if (j == NULL || j->state == PENDING) {
    status = rm_fail(RM_NOT_FOUND, "there is no such call that has ended");
  } else {
    if (j->state == FAILED) {
      status = rm_fail(RM_DISTRIBUTED, "%s", j->of->broken);
      numbers[1] = j->of->culprit;
      rm_condition_signal(&added);
    }
    drop(j);
    if (j->event != NULL) rm_cu.cudaEventDestroy(j->event);
    /* A thread that opens a link may still use its job. */
    if (j->event != NULL || status == RM_OK) free(j);
  }
  rm_mutex_unlock(&mutex);
  return status;
}

int32_t rm_nccl(int32_t what, int32_t index, double *numbers, void *bytes) {
  RM_TRY(rm_cuda_library(RM_NCCL));
  switch (what) {
    case RM_CUDA_NCCL_LOAD: return RM_OK;
    case RM_CUDA_NCCL_ID: {
      const int code = rm_cu.ncclGetUniqueId(bytes);
      return code == 0 ? RM_OK
                       : rm_fail(RM_DISTRIBUTED, "NCCL says: %s", rm_cu.ncclGetErrorString(code));
    }
    case RM_CUDA_NCCL_OPEN: {
      rm_mutex_lock(&mutex);
      const int32_t status = start_open(index, numbers, bytes);
      rm_mutex_unlock(&mutex);
      return status;
    }
    case RM_CUDA_NCCL_CALL: return start_call(index, numbers);
    case RM_CUDA_NCCL_TAKE:
    case RM_CUDA_NCCL_WAIT: return take(numbers, what == RM_CUDA_NCCL_WAIT);
    case RM_CUDA_NCCL_CLOSE: {
      rm_mutex_lock(&mutex);
      for (int i = 0; i < link_count; i++) breaks(links[i], "the world is closed");
      abort_broken();
      rm_mutex_unlock(&mutex);
      return RM_OK;
    }
    default: return rm_fail(RM_BAD_ARGUMENT, "there is no operation %d", what);
  }
}
#endif
#endif
