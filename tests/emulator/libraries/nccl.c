/*
 * NCCL: ranks are processes that exchange files in a folder, which the name of a communicator tells.
 *
 * A rank writes what it brings to a collective, and its device waits for the files of the others. A
 * rank that has all of them knows that all have read those of the collective before.
 */
#include "../emulator.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
  NCCL_SUCCESS = 0,
  UNHANDLED_CUDA_ERROR = 1,
  SYSTEM_ERROR = 2,
  INVALID_ARGUMENT = 4,
  INVALID_USAGE = 5,
  REMOTE_ERROR = 6,
};
enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16, TYPES };
enum { SUM, PROD, MAX, MIN, AVG, REDUCTIONS };
enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, MESSAGE };
enum { COMM_MAGIC = 0x6e63636c, MAX_RANKS = 64, MAX_MESSAGES = 256 };

static const size_t sizes[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

typedef struct {
  char bytes[128];
} unique_id;

typedef struct {
  int magic, rank, size, device;
  char folder[512];
  bool aborted;
  /* What ncclCommGetAsyncError says. */
  int error;
  long long calls, ended, sent[MAX_RANKS], received[MAX_RANKS];
} comm;

/* What ranks have to agree on. */
typedef struct {
  int kind, type, reduction, root;
  unsigned long long count;
} header;

/* ---- files ----------------------------------------------------------------------------------- */

static void path_of(const comm *c, char *path, const char *name, long long a, long long b, long long k) {
  snprintf(path, 640, "%s/%s.%lld.%lld.%lld", c->folder, name, a, b, k);
}

static bool exists(const comm *c, const char *name, long long a, long long b, long long k) {
  char path[640];
  path_of(c, path, name, a, b, k);
  return access(path, F_OK) == 0;
}

static void delete(const comm *c, const char *name, long long a, long long b, long long k) {
  char path[640];
  path_of(c, path, name, a, b, k);
  unlink(path);
}

/* Writes a file, which others see as a whole. */
static bool publish(const comm *c, const char *name, long long a, long long b, long long k,
                    const header *what, const void *data, size_t bytes) {
  char path[640], whole[660];
  path_of(c, path, name, a, b, k);
  snprintf(whole, sizeof whole, "%s.new", path);
  FILE *file = fopen(whole, "w");
  if (file == NULL) return false;
  bool good = fwrite(what, sizeof *what, 1, file) == 1;
  if (bytes > 0) good = good && fwrite(data, bytes, 1, file) == 1;
  good = fclose(file) == 0 && good;
  return good && rename(whole, path) == 0;
}

/* Reads a file; its data if `bytes` is not 0. */
static bool take(const comm *c, const char *name, long long a, long long b, long long k,
                 header *what, void *data, size_t from, size_t bytes) {
  char path[640];
  path_of(c, path, name, a, b, k);
  FILE *file = fopen(path, "r");
  if (file == NULL) return false;
  bool good = fread(what, sizeof *what, 1, file) == 1;
  if (bytes > 0) {
    good = good && fseek(file, (long)(sizeof *what + from), SEEK_SET) == 0 &&
           fread(data, bytes, 1, file) == 1;
  }
  fclose(file);
  return good;
}

/* ---- communicators --------------------------------------------------------------------------- */

EMU_API int ncclGetVersion(int *version) { return *version = 22703, NCCL_SUCCESS; }

EMU_API const char *ncclGetErrorString(int code) {
  static const char *const texts[] = {
      "no error", "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
      "unhandled system error (run with NCCL_DEBUG=INFO for details)",
      "internal error - please report this issue to the NCCL developers",
      "invalid argument (run with NCCL_DEBUG=WARN for details)",
      "invalid usage (run with NCCL_DEBUG=WARN for details)",
      "remote process exited or there was a network error", "NCCL operation in progress"};
  return code >= 0 && code < 8 ? texts[code] : "unknown result code";
}

static void folder_of(const unique_id *id, char *folder, size_t length) {
  const char *base = getenv("ROWMAJOR_EMULATOR_NCCL");
  snprintf(folder, length, "%s/rowmajor-%s", base == NULL || base[0] == 0 ? "/tmp" : base, id->bytes);
}

EMU_API int ncclGetUniqueId(unique_id *id) {
  if (id == NULL) return INVALID_ARGUMENT;
  unsigned long long number;
  memset(id, 0, sizeof *id);
  if (getrandom(&number, sizeof number, 0) != sizeof number) return SYSTEM_ERROR;
  snprintf(id->bytes, sizeof id->bytes, "nccl-%016llx", number);
  char folder[512];
  folder_of(id, folder, sizeof folder);
  return mkdir(folder, 0777) == 0 ? NCCL_SUCCESS : SYSTEM_ERROR;
}

static void nap(void) { nanosleep(&(struct timespec){0, 500000}, NULL); }

EMU_API int ncclCommInitRank(void **made, int size, unique_id id, int rank) {
  id.bytes[sizeof id.bytes - 1] = 0;
  if (made == NULL || size < 1 || size > MAX_RANKS || rank < 0 || rank >= size ||
      strncmp(id.bytes, "nccl-", 5) != 0) {
    return INVALID_ARGUMENT;
  }
  comm *c = calloc(1, sizeof *c);
  {
    EMU_LOCK;
    if (emu_fails(FAIL_NCCL)) return UNHANDLED_CUDA_ERROR;
    *c = (comm){.magic = COMM_MAGIC, .rank = rank, .size = size, .device = emu_current};
  }
  folder_of(&id, c->folder, sizeof c->folder);
  header own = {.count = (unsigned long long)c->device};
  /* Two ranks of one number, or a name that was used before. */
  if (exists(c, "rank", rank, 0, 0)) return INVALID_USAGE;
  if (!publish(c, "rank", rank, 0, 0, &own, NULL, 0)) return SYSTEM_ERROR;
  unsigned long long used = 0;
  bool twice = false;
  for (int other = 0; other < size; other++) {
    header its;
    while (!take(c, "rank", other, 0, 0, &its, NULL, 0, 0)) nap();
    if (used & 1ull << its.count) twice = true;
    used |= 1ull << its.count;
  }
  if (twice) {
    EMU_LOCK;
    emu_note("Duplicate GPU detected: two ranks have device %d, or another one", c->device);
    return INVALID_USAGE;
  }
  *made = c;
  return NCCL_SUCCESS;
}

static comm *comm_of(void *handle) {
  comm *c = handle;
  return c == NULL || c->magic != COMM_MAGIC || c->aborted ? NULL : c;
}

EMU_API int ncclCommGetAsyncError(void *handle, int *code) {
  EMU_LOCK;
  const comm *c = comm_of(handle);
  if (c == NULL || code == NULL) return INVALID_ARGUMENT;
  *code = c->error;
  return NCCL_SUCCESS;
}

/* The last rank that goes clears away. */
static int leave(comm *c) {
  /* How many collectives it has taken part in to their ends. */
  header told = {.count = (unsigned long long)c->ended};
  c->aborted = true;
  publish(c, "gone", c->rank, 0, 0, &told, NULL, 0);
  for (int rank = 0; rank < c->size; rank++) {
    if (!exists(c, "gone", rank, 0, 0)) return NCCL_SUCCESS;
  }
  DIR *folder = opendir(c->folder);
  if (folder == NULL) return NCCL_SUCCESS;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    unlinkat(dirfd(folder), entry->d_name, 0);
  }
  closedir(folder);
  rmdir(c->folder);
  return NCCL_SUCCESS;
}

EMU_API int ncclCommAbort(void *handle) {
  EMU_LOCK;
  comm *c = comm_of(handle);
  return c == NULL ? INVALID_ARGUMENT : leave(c);
}

EMU_API int ncclCommDestroy(void *handle) {
  EMU_LOCK;
  comm *c = comm_of(handle);
  if (c == NULL) return INVALID_ARGUMENT;
  emu_drain_device(c->device, false);
  return leave(c);
}

/* ---- reductions ------------------------------------------------------------------------------ */

static double load(int type, const void *from, size_t i) {
  if (type == FLOAT64) return ((const double *)from)[i];
  if (type == FLOAT32) return (double)((const float *)from)[i];
  if (type == FLOAT16) return (double)((const _Float16 *)from)[i];
  const unsigned bits = (unsigned)((const unsigned short *)from)[i] << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

static void store(int type, void *to, size_t i, double x) {
  if (type == FLOAT64) ((double *)to)[i] = x;
  else if (type == FLOAT32) ((float *)to)[i] = (float)x;
  else if (type == FLOAT16) ((_Float16 *)to)[i] = (_Float16)(float)x;
  else {
    const float value = (float)x;
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    const bool is_nan = value != value;
    if (!is_nan) bits += 0x7fff + (bits >> 16 & 1);
    ((unsigned short *)to)[i] = (unsigned short)(bits >> 16 | (is_nan ? 0x40 : 0));
  }
}

/* Adds `from` to what other ranks gave. Integers wrap. */
static void combine(int type, int reduction, void *to, const void *from, size_t count) {
#define WHOLE(name, c_type, wide) \
  case name: \
    for (size_t i = 0; i < count; i++) { \
      c_type *a = (c_type *)to + i, b = ((const c_type *)from)[i]; \
      if (reduction == SUM) *a = (c_type)((wide)*a + (wide)b); \
      else if (reduction == PROD) *a = (c_type)((wide)*a * (wide)b); \
      else if (reduction == MAX) *a = *a > b ? *a : b; \
      else *a = *a < b ? *a : b; \
    } \
    return;
  switch (type) {
    WHOLE(INT8, signed char, unsigned)
    WHOLE(UINT8, unsigned char, unsigned)
    WHOLE(INT32, int, unsigned)
    WHOLE(UINT32, unsigned, unsigned)
    WHOLE(INT64, long long, unsigned long long)
    WHOLE(UINT64, unsigned long long, unsigned long long)
    default:
      for (size_t i = 0; i < count; i++) {
        const double a = load(type, to, i), b = load(type, from, i);
        store(type, to, i,
              reduction == SUM    ? a + b
              : reduction == PROD ? a * b
              : reduction == MAX  ? fmax(a, b)
                                  : fmin(a, b));
      }
  }
}

/* ---- collectives ----------------------------------------------------------------------------- */

typedef struct {
  work head;
  comm *c;
  header what;
  const char *in;
  char *out;
  /* The bytes that this rank brings, and takes. */
  size_t brings, takes;
  long long number;
  bool published;
} collective;

static int fails(comm *c, int code, const char *why) {
  if (c->error == 0) emu_note("NCCL: %s", why);
  c->error = code;
  return WAITS;
}

/* Whether all files are there, and of one call. */
static bool has_come(collective *w) {
  comm *c = w->c;
  for (int rank = 0; rank < c->size; rank++) {
    header its;
    if (take(c, "gone", rank, 0, 0, &its, NULL, 0, 0) && (long long)its.count < w->number) {
      fails(c, REMOTE_ERROR, "a rank that is needed has gone");
      return false;
    }
  }
  for (int rank = 0; rank < c->size; rank++) {
    header its;
    if (!take(c, "call", w->number, rank, 0, &its, NULL, 0, 0)) return false;
    if (memcmp(&its, &w->what, sizeof its) != 0) {
      fails(c, INVALID_USAGE, "ranks call different things");
      return false;
    }
  }
  return true;
}

static bool finish(collective *w) {
  comm *c = w->c;
  header its;
  const size_t bytes = w->takes;
  if (w->what.kind == BROADCAST) {
    return take(c, "call", w->number, w->what.root, 0, &its, w->out, 0, bytes);
  }
  if (w->what.kind == ALL_GATHER) {
    bool good = true;
    for (int rank = 0; good && rank < c->size; rank++) {
      good = take(c, "call", w->number, rank, 0, &its, w->out + (size_t)rank * w->brings, 0, w->brings);
    }
    return good;
  }
  const size_t from = w->what.kind == REDUCE_SCATTER ? bytes * (size_t)c->rank : 0;
  const size_t count = bytes / sizes[w->what.type];
  char *part = malloc(bytes + 1);
  bool good = take(c, "call", w->number, 0, 0, &its, w->out, from, bytes);
  for (int rank = 1; good && rank < c->size; rank++) {
    good = take(c, "call", w->number, rank, 0, &its, part, from, bytes);
    if (good) combine(w->what.type, w->what.reduction, w->out, part, count);
  }
  free(part);
  return good;
}

static int run_collective(work *head) {
  collective *w = (collective *)head;
  comm *c = w->c;
  if (c->aborted) return SUCCESS;
  if (c->error != 0) return WAITS;
  const bool reads = w->what.kind != BROADCAST || w->what.root == c->rank;
  if ((reads && !emu_holds(w->in, w->brings)) || !emu_holds(w->out, w->takes)) {
    emu_note("a collective of %zu bytes uses other memory than that of the device", w->takes);
    return ILLEGAL_ADDRESS;
  }
  if (!w->published) {
    emu_open_memory(-1);
    const bool good = publish(c, "call", w->number, c->rank, 0, &w->what, w->in, reads ? w->brings : 0);
    emu_close_memory();
    if (!good) return fails(c, SYSTEM_ERROR, "a file cannot be written");
    w->published = true;
  }
  if (!has_come(w)) return WAITS;
  emu_open_memory(-1);
  const bool good = finish(w);
  emu_close_memory();
  if (!good) return fails(c, SYSTEM_ERROR, "a file cannot be read");
  delete(c, "call", w->number - 1, c->rank, 0);
  c->ended = w->number;
  emu_numbers[COLLECTIVES]++;
  return SUCCESS;
}

static _Thread_local int group_depth;

/* Whether memory is shared by an operand and a result that are not in place. */
static bool overlap(const char *in, size_t brings, const char *out, size_t takes, size_t place_in,
                    size_t place_out) {
  if (in + place_in == out + place_out) return false;
  return in < out + takes && out < in + brings;
}

static int queue(header what, const void *in, void *out, size_t brings, size_t takes,
                 size_t place_in, size_t place_out, void *handle, void *to) {
  EMU_LOCK;
  comm *c = comm_of(handle);
  stream *s = emu_stream(to);
  if (c == NULL || s == NULL) return INVALID_ARGUMENT;
  if (c->error != 0) return c->error;
  if (emu_fails(FAIL_NCCL)) return UNHANDLED_CUDA_ERROR;
  const bool reads = what.kind != BROADCAST || what.root == c->rank;
  if (s->device != c->device || s->capture != NULL || group_depth > 0 || out == NULL ||
      (reads && (in == NULL || overlap(in, brings, out, takes, place_in, place_out)))) {
    emu_note("a collective on another device, in a capture, in a group, or of overlapping memory");
    return INVALID_USAGE;
  }
  collective *w = calloc(1, sizeof *w);
  *w = (collective){.head = {.run = run_collective}, .c = c, .what = what, .in = in, .out = out,
                    .brings = brings, .takes = takes, .number = ++c->calls};
  emu_queue(s, &w->head);
  return NCCL_SUCCESS;
}

static int check(int type, int reduction, void *handle) {
  EMU_LOCK;
  const bool good = type >= 0 && type < TYPES && reduction >= 0 && reduction < AVG;
  return good && comm_of(handle) != NULL ? NCCL_SUCCESS : INVALID_ARGUMENT;
}

EMU_API int ncclAllReduce(const void *in, void *out, size_t count, int type, int reduction,
                          void *handle, void *to) {
  if (check(type, reduction, handle) != NCCL_SUCCESS) return INVALID_ARGUMENT;
  const size_t bytes = count * sizes[type];
  return queue((header){ALL_REDUCE, type, reduction, 0, count}, in, out, bytes, bytes, 0, 0, handle, to);
}

EMU_API int ncclReduceScatter(const void *in, void *out, size_t count, int type, int reduction,
                              void *handle, void *to) {
  if (check(type, reduction, handle) != NCCL_SUCCESS) return INVALID_ARGUMENT;
  const comm *c = handle;
  const size_t bytes = count * sizes[type];
  return queue((header){REDUCE_SCATTER, type, reduction, 0, count}, in, out, bytes * (size_t)c->size,
               bytes, bytes * (size_t)c->rank, 0, handle, to);
}

EMU_API int ncclAllGather(const void *in, void *out, size_t count, int type, void *handle, void *to) {
  if (check(type, SUM, handle) != NCCL_SUCCESS) return INVALID_ARGUMENT;
  const comm *c = handle;
  const size_t bytes = count * sizes[type];
  return queue((header){ALL_GATHER, type, 0, 0, count}, in, out, bytes, bytes * (size_t)c->size, 0,
               bytes * (size_t)c->rank, handle, to);
}

EMU_API int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, void *handle,
                          void *to) {
  if (check(type, SUM, handle) != NCCL_SUCCESS) return INVALID_ARGUMENT;
  if (root < 0 || root >= ((const comm *)handle)->size) return INVALID_ARGUMENT;
  const size_t bytes = count * sizes[type];
  return queue((header){BROADCAST, type, 0, root, count}, in, out, bytes, bytes, 0, 0, handle, to);
}

/* ---- messages -------------------------------------------------------------------------------- */

typedef struct {
  comm *c;
  stream *on;
  bool sends;
  int peer;
  char *at;
  size_t bytes;
  header what;
  long long number;
} message;

typedef struct {
  work head;
  bool published;
  size_t count;
  message list[];
} messages;

static _Thread_local message waiting[MAX_MESSAGES];
static _Thread_local size_t waiting_count;
static _Thread_local int group_error;

static int run_messages(work *head) {
  messages *w = (messages *)head;
  for (size_t i = 0; i < w->count; i++) {
    const message *m = &w->list[i];
    if (m->c->aborted) return SUCCESS;
    if (m->c->error != 0) return WAITS;
    if (!emu_holds(m->at, m->bytes)) {
      emu_note("a message of %zu bytes uses other memory than that of the device", m->bytes);
      return ILLEGAL_ADDRESS;
    }
  }
  emu_open_memory(-1);
  int error = SUCCESS;
  for (size_t i = 0; i < w->count && !w->published; i++) {
    const message *m = &w->list[i];
    if (m->sends && !publish(m->c, "message", m->c->rank, m->peer, m->number, &m->what, m->at, m->bytes)) {
      error = fails(m->c, SYSTEM_ERROR, "a file cannot be written");
    }
  }
  w->published = true;
  for (size_t i = 0; i < w->count && error == SUCCESS; i++) {
    const message *m = &w->list[i];
    if (m->sends || exists(m->c, "message", m->peer, m->c->rank, m->number)) continue;
    error = exists(m->c, "gone", m->peer, 0, 0) && !exists(m->c, "message", m->peer, m->c->rank, m->number)
                ? fails(m->c, REMOTE_ERROR, "a rank that is needed has gone")
                : WAITS;
  }
  for (size_t i = 0; i < w->count && error == SUCCESS; i++) {
    const message *m = &w->list[i];
    header its;
    if (m->sends) continue;
    if (!take(m->c, "message", m->peer, m->c->rank, m->number, &its, NULL, 0, 0) ||
        memcmp(&its, &m->what, sizeof its) != 0 ||
        !take(m->c, "message", m->peer, m->c->rank, m->number, &its, m->at, 0, m->bytes)) {
      error = fails(m->c, INVALID_USAGE, "a message has another length, or type");
    } else {
      delete(m->c, "message", m->peer, m->c->rank, m->number);
    }
  }
  emu_close_memory();
  if (error == SUCCESS) emu_numbers[COLLECTIVES]++;
  return error;
}

static int queue_messages(void) {
  const size_t count = waiting_count;
  waiting_count = 0;
  if (count == 0) return NCCL_SUCCESS;
  messages *w = calloc(1, sizeof *w + count * sizeof *w->list);
  w->head.run = run_messages;
  w->count = count;
  memcpy(w->list, waiting, count * sizeof *w->list);
  emu_queue(waiting[0].on, &w->head);
  return NCCL_SUCCESS;
}

static int add_message(bool sends, const void *at, size_t count, int type, int peer, void *handle,
                       void *to) {
  EMU_LOCK;
  comm *c = comm_of(handle);
  stream *s = emu_stream(to);
  int error = NCCL_SUCCESS;
  if (c == NULL || s == NULL || type < 0 || type >= TYPES || peer < 0 || peer >= c->size ||
      at == NULL || waiting_count == MAX_MESSAGES) {
    error = INVALID_ARGUMENT;
  } else if (c->error != 0) error = c->error;
  else if (emu_fails(FAIL_NCCL)) error = UNHANDLED_CUDA_ERROR;
  else if (s->device != c->device || s->capture != NULL || (group_depth == 0 && peer == c->rank) ||
           (waiting_count > 0 && waiting[0].on != s)) {
    /* A message to itself waits for ever unless both parts are in a group. */
    error = INVALID_USAGE;
  }
  if (error != NCCL_SUCCESS) {
    if (group_depth > 0 && group_error == NCCL_SUCCESS) group_error = error;
    return error;
  }
  const long long number = sends ? ++c->sent[peer] : ++c->received[peer];
  waiting[waiting_count++] = (message){.c = c, .on = s, .sends = sends, .peer = peer, .at = (char *)(uintptr_t)at,
                                       .bytes = count * sizes[type],
                                       .what = {MESSAGE, type, 0, 0, count}, .number = number};
  return group_depth > 0 ? NCCL_SUCCESS : queue_messages();
}

EMU_API int ncclSend(const void *in, size_t count, int type, int peer, void *handle, void *to) {
  return add_message(true, in, count, type, peer, handle, to);
}

EMU_API int ncclRecv(void *out, size_t count, int type, int peer, void *handle, void *to) {
  return add_message(false, out, count, type, peer, handle, to);
}

EMU_API int ncclGroupStart(void) {
  if (group_depth++ == 0) group_error = NCCL_SUCCESS;
  return NCCL_SUCCESS;
}

EMU_API int ncclGroupEnd(void) {
  EMU_LOCK;
  if (group_depth == 0) return INVALID_USAGE;
  if (--group_depth > 0) return NCCL_SUCCESS;
  if (group_error != NCCL_SUCCESS) {
    waiting_count = 0;
    return group_error;
  }
  return queue_messages();
}
