/*
 * Tests buffers as Bun uses them, as Node-API uses them, and from four threads at once. This
 * program is a stand-in for Node-API itself. It runs with the sanitizers of addresses, undefined
 * behavior and threads.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include "check.h"
#include "internal.h"
#include "node_api.h"

typedef void (*finalizer)(void *data, void *context);

typedef struct {
  double owner;
  finalizer finalize_owner, finalize_buffer;
} owner_handle;

static owner_handle open_owner(void) {
  double numbers[3];
  CHECK(rm_buffers(RM_BUFFERS_OPEN, numbers) == RM_OK);
  return (owner_handle){numbers[0], (finalizer)(uintptr_t)numbers[1],
                        (finalizer)(uintptr_t)numbers[2]};
}

static void close_owner(owner_handle o) { o.finalize_owner((void *)(uintptr_t)o.owner, NULL); }

static char *take(owner_handle o, double bytes, double zeroed) {
  double numbers[3] = {o.owner, bytes, zeroed};
  CHECK(rm_buffers(RM_BUFFERS_TAKE, numbers) == RM_OK);
  return (char *)(uintptr_t)numbers[0];
}

static double cached_bytes(void) {
  double numbers[3];
  CHECK(rm_buffers(RM_BUFFERS_KEPT, numbers) == RM_OK);
  return numbers[0];
}

/* Frees cached buffers until so many bytes are left. */
static void trim_cache(double bytes) { CHECK(rm_buffers(RM_BUFFERS_RELEASE, &bytes) == RM_OK); }

/* A cached buffer, or null. */
static char *allocate_cached(owner_handle o, double bytes, double zeroed) {
  double numbers[3] = {o.owner, bytes, zeroed};
  CHECK(rm_buffers(RM_BUFFERS_TAKE_KEPT, numbers) == RM_OK);
  return (char *)(uintptr_t)numbers[0];
}

static double in_use(owner_handle o) { return *(double *)(uintptr_t)o.owner; }

static void check_one_thread(void) {
  const owner_handle o = open_owner(), other = open_owner();
  CHECK(in_use(o) == 0 && cached_bytes() == 0);
  char *a = take(o, 1 << 20, 1);
  CHECK((uintptr_t)a % 64 == 0 && in_use(o) == 1 << 20 && in_use(other) == 0);
  for (int i = 0; i < 1 << 20; i++) CHECK(a[i] == 0);
  memset(a, 7, 1 << 20);
  o.finalize_buffer(a, NULL);
  CHECK(in_use(o) == 0 && cached_bytes() == 1 << 20);
  CHECK(allocate_cached(o, 1 << 21, 0) == NULL && in_use(o) == 0 && cached_bytes() == 1 << 20);
  CHECK(allocate_cached(o, 1 << 20, 0) == a && a[0] == 7 && in_use(o) == 1 << 20 &&
        cached_bytes() == 0);
  o.finalize_buffer(a, NULL);
  CHECK(allocate_cached(o, 1 << 20, 1) == a && a[0] == 0 && a[(1 << 20) - 1] == 0);
  CHECK(allocate_cached(o, 1 << 20, 0) == NULL);
  memset(a, 7, 1 << 20);
  o.finalize_buffer(a, NULL);

  /* The next buffer of about that size reuses the memory, for any owner. It is zeroed only on
   * request. */
  char *b = take(other, (1 << 20) - 1000, 0);
  CHECK(b == a && b[0] == 7 && in_use(other) == (1 << 20) - 1000 && cached_bytes() == 0);
  other.finalize_buffer(b, NULL);
  b = take(o, (1 << 20) - 1000, 1);
  CHECK(b == a);
  for (int i = 0; i < (1 << 20) - 1000; i++) CHECK(b[i] == 0);

  /* Buffers of other sizes do not. */
  char *c = take(o, (1 << 20) + 1, 0);
  CHECK(c != b && in_use(o) == (2 << 20) - 999);
  o.finalize_buffer(b, NULL);
  o.finalize_buffer(c, NULL);
  CHECK(cached_bytes() == (1 << 20) * 2.125);

  /* Buffers of equal size are reused last in, first out. */
  b = take(o, 1 << 20, 0);
  c = take(o, 1 << 20, 0);
  o.finalize_buffer(b, NULL);
  o.finalize_buffer(c, NULL);
  CHECK(take(o, 1 << 20, 0) == c && take(o, 1 << 20, 0) == b);

  /* Every size class has room for its sizes, and at most an eighth more. */
  for (double bytes = 1000; bytes < 1e8; bytes = bytes * 1.07 + 3) {
    trim_cache(0);
    char *x = take(o, (double)(size_t)bytes, 0);
    CHECK(in_use(o) == (double)((1 << 20) * 2 + (size_t)bytes));
    x[(size_t)bytes - 1] = 1;
    o.finalize_buffer(x, NULL);
    CHECK(cached_bytes() >= (size_t)bytes && cached_bytes() <= bytes * 1.125 + 8);
  }

  o.finalize_buffer(b, NULL);
  o.finalize_buffer(c, NULL);

  /* The cache keeps at most 256 MiB and evicts the oldest buffers first. */
  trim_cache(0);
  CHECK(cached_bytes() == 0);
  char *large[9];
  for (int i = 0; i < 9; i++) large[i] = take(o, 1 << 25, 0);
  b = take(o, 1 << 20, 0);
  o.finalize_buffer(b, NULL);
  for (int i = 0; i < 8; i++) o.finalize_buffer(large[i], NULL);
  CHECK(cached_bytes() == 1 << 28);
  CHECK(in_use(o) == 1 << 25);
  o.finalize_buffer(large[8], NULL);
  CHECK(cached_bytes() == 1 << 28 && in_use(o) == 0);
  for (int i = 8; i > 0; i--) CHECK(take(o, 1 << 25, 0) == large[i]);
  CHECK(cached_bytes() == 0);
  for (int i = 8; i > 0; i--) o.finalize_buffer(large[i], NULL);
  trim_cache(0);
  CHECK(cached_bytes() == 0);

  /* It keeps at most as much as is in use, if that is more. */
  char *more[20];
  for (int i = 0; i < 20; i++) more[i] = take(o, 1 << 25, 0);
  for (int i = 0; i < 10; i++) o.finalize_buffer(more[i], NULL);
  CHECK(cached_bytes() == 10 << 25);
  for (int i = 10; i < 20; i++) o.finalize_buffer(more[i], NULL);
  CHECK(cached_bytes() == 1 << 28 && in_use(o) == 0);
  trim_cache(0);

  /* Buffers without a collector can be freed explicitly. */
  a = take(o, 1 << 20, 0);
  double address = (double)(uintptr_t)a;
  CHECK(rm_buffers(RM_BUFFERS_GIVE, &address) == RM_OK && in_use(o) == 0);

  /* An owner may close before its buffers are freed. */
  a = take(o, 1 << 20, 0);
  close_owner(o);
  a[0] = 1;
  o.finalize_buffer(a, NULL);
  close_owner(other);

  double numbers[3] = {other.owner, 1e18, 0};
  CHECK(rm_buffers(9, numbers) == RM_BAD_ARGUMENT);
  const owner_handle third = open_owner();
  numbers[0] = third.owner;
  CHECK(rm_buffers(RM_BUFFERS_TAKE, numbers) == RM_OUT_OF_MEMORY && in_use(third) == 0);
  close_owner(third);
}

/* The cache is emptied before an allocation fails. */
static void check_limits(void) {
  const owner_handle o = open_owner();
  char *large[7];
  for (int i = 0; i < 7; i++) large[i] = take(o, 1 << 25, 0);
  for (int i = 0; i < 7; i++) o.finalize_buffer(large[i], NULL);
  CHECK(cached_bytes() == 7 << 25);
  setrlimit(RLIMIT_AS, &(struct rlimit){7u << 26, 7u << 26});
  char *one = take(o, 240e6, 0);
  CHECK(cached_bytes() == 0 && in_use(o) == 240e6);
  double numbers[3] = {o.owner, 250e6, 1};
  CHECK(rm_buffers(RM_BUFFERS_TAKE, numbers) == RM_OUT_OF_MEMORY);
  o.finalize_buffer(one, NULL);
}

/* The cache keeps at most a quarter of the memory of the process, and leaves a quarter to others. */
static void check_memory(void) {
  setrlimit(RLIMIT_AS, &(struct rlimit){50u << 24, 50u << 24});
  const owner_handle o = open_owner();
  double numbers[3];
  CHECK(rm_buffers(RM_BUFFERS_KEPT, numbers) == RM_OK);
  CHECK(numbers[0] == 0 && numbers[1] == 0 && numbers[2] == 50u << 24);
  char *some[32];
  for (int i = 0; i < 32; i++) some[i] = take(o, 1 << 24, 0);
  CHECK(rm_buffers(RM_BUFFERS_KEPT, numbers) == RM_OK && numbers[1] == 32u << 24);
  for (int i = 0; i < 32; i++) {
    o.finalize_buffer(some[i], NULL);
    const double room = 37.5 - (31 - i);
    CHECK(cached_bytes() <= (room < 12.5 ? room : 12.5) * (1 << 24));
  }
  CHECK(cached_bytes() == 12 << 24);
  trim_cache(5 << 24);
  CHECK(cached_bytes() == 5 << 24);
  /* So do new buffers. */
  for (int i = 0; i < 36; i++) CHECK(take(o, 15 << 20, 0) != NULL);
  CHECK(cached_bytes() == 3 << 24);
}

static void write_text(const char *folder, const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  for (char *end = path + strlen(folder) + 1; (end = strchr(end, '/')) != NULL; *end++ = '/') {
    *end = 0;
    mkdir(path, 0700);
  }
  FILE *file = fopen(path, "w");
  CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* The limits of control groups of both versions, and in containers. */
static void check_groups(const char *folder) {
  char groups[512];
  snprintf(groups, sizeof groups, "%s/groups", folder);
  CHECK(rm_group_limit(groups, folder) == INFINITY);
  write_text(folder, "groups", "0::/a.slice/b.scope\n");
  CHECK(rm_group_limit(groups, folder) == INFINITY);
  write_text(folder, "a.slice/b.scope/memory.max", "max\n");
  CHECK(rm_group_limit(groups, folder) == INFINITY);
  write_text(folder, "a.slice/memory.max", "3000000000\n");
  CHECK(rm_group_limit(groups, folder) == 3e9);
  write_text(folder, "a.slice/b.scope/memory.max", "2000000000\n");
  CHECK(rm_group_limit(groups, folder) == 2e9);
  /* Another name space: the folder is that of the group. */
  write_text(folder, "groups", "0::/../elsewhere/c\n");
  CHECK(rm_group_limit(groups, folder) == INFINITY);
  write_text(folder, "memory.max", "1000000000\n");
  CHECK(rm_group_limit(groups, folder) == 1e9);
  /* Version 1, beside version 2 without controllers. */
  write_text(folder, "memory/docker/0123/memory.limit_in_bytes", "9223372036854771712\n");
  write_text(folder, "memory/memory.limit_in_bytes", "500000000\n");
  write_text(folder, "groups", "5:cpu,cpuacct:/x\nno colon\n4:memory:/docker/0123\n1:name=systemd:/\n");
  CHECK(rm_group_limit(groups, folder) == 5e8);
  write_text(folder, "memory/docker/0123/memory.limit_in_bytes", "400000000\n");
  CHECK(rm_group_limit(groups, folder) == 4e8);
}

/* ---- a stand-in for Node-API, whose values are pointers to these ----------------------------- */

typedef struct {
  double number;
  void *data;
  void (*finalizer)(void *env, void *data, void *hint);
} value;

typedef void *(*callback)(void *env, void *info);

static struct {
  value arrays[64];
  int count, collections, markings, waiting;
  callback take;
  void *take_data, *owner;
  bool refuses;
} node;

#define EXPORT __attribute__((visibility("default"), used))

EXPORT int napi_create_function(void *env, const char *name, size_t length, callback function,
                                void *data, void **result) {
  (void)env;
  CHECK(strncmp(name, "take", length) == 0);
  node.take = function;
  node.take_data = data;
  *result = &node;
  return 0;
}

EXPORT int napi_set_named_property(void *env, void *object, const char *name, void *set) {
  (void)env;
  CHECK(object == &node && set != NULL && (!strcmp(name, "take") || !strcmp(name, "bytes")));
  return 0;
}

EXPORT int napi_get_cb_info(void *env, void *info, size_t *count, void **arguments, void **self,
                            void **data) {
  (void)env;
  CHECK(self == NULL && *count == 2);
  for (int i = 0; i < 2; i++) arguments[i] = (value *)info + i;
  *data = node.take_data;
  return 0;
}

EXPORT int napi_get_value_double(void *env, void *owner_of, double *result) {
  (void)env;
  *result = ((value *)owner_of)->number;
  return 0;
}

/* Simulates a garbage collection by V8: pending buffers are finalized, which takes a while. */
EXPORT int napi_create_arraybuffer(void *env, size_t bytes, void **data, void **result) {
  static char some[1024];
  CHECK(bytes <= sizeof some);
  *data = some;
  *result = some;
  node.collections++;
  for (int64_t end = rm_nanoseconds() + 100000; node.waiting > 0 && rm_nanoseconds() < end;) {
    rm_yield();
  }
  while (node.waiting > 0) {
    value *v = &node.arrays[--node.waiting];
    v->finalizer(env, v->data, NULL);
  }
  return 0;
}

EXPORT int napi_create_array_with_length(void *env, size_t length, void **result) {
  (void)env;
  (void)length;
  *result = &node;
  node.markings++;
  return 0;
}

EXPORT int napi_create_external_arraybuffer(void *env, void *data, size_t bytes,
                                            void (*of_lost)(void *, void *, void *), void *hint,
                                            void **result) {
  (void)env;
  (void)hint;
  if (node.refuses) return 1;
  if (bytes == sizeof(double)) {
    node.owner = data;
    node.arrays[63] = (value){0, data, of_lost};
    *result = &node.arrays[63];
  } else {
    node.arrays[node.count] = (value){(double)bytes, data, of_lost};
    *result = &node.arrays[node.count++];
  }
  return 0;
}

void rm_export_queue(void *env, void *exports) { CHECK(env == exports && false); }
void rm_export_files(void *env, void *exports) { CHECK(env == exports && false); }
void rm_export_requests(void *env, void *exports) { CHECK(env == exports && false); }

static value *node_take(double bytes, double zeroed) {
  value arguments[2] = {{.number = bytes}, {.number = zeroed}};
  return node.take(NULL, arguments);
}

static void check_node(void) {
  trim_cache(0);
  /* Another file with the library's name is not the one that JavaScript opened. */
  CHECK(napi_register_module_v1(NULL, &node) == &node && node.take == NULL);
  CHECK(rm_expect_module(RM_MODULE_BUFFERS) == RM_OK);
  CHECK(napi_register_module_v1(NULL, &node) == &node);
  CHECK(node.take != NULL && node.owner != NULL && *(double *)node.owner == 0);
  /* New memory is allocated after pending finalizers ran, and advances the marking now and then. */
  for (int i = 0; i < 20; i++) {
    value *v = node_take(1 << 20, 1);
    CHECK(v != NULL && v->number == 1 << 20 && ((char *)v->data)[12345] == 0);
    memset(v->data, 1, 1 << 20);
  }
  CHECK(node.collections == 20 && node.markings == 5 && *(double *)node.owner == 20 << 20);
  /* Buffers that a collection frees are reused. */
  node.waiting = 3;
  char *first = node.arrays[0].data;
  value *v = node_take(1 << 20, 1);
  CHECK(v->data == first && first[77] == 0);
  CHECK(node.collections == 21 && *(double *)node.owner == 18 << 20 && cached_bytes() == 2 << 20);
  node_take(1 << 20, 0);
  node_take(1 << 20, 0);
  CHECK(node.collections == 21 && cached_bytes() == 0);
  /* A buffer that the runtime refuses does not leak, and failed allocations do not count as in
   * use. */
  node.refuses = true;
  CHECK(node_take(1 << 20, 0) == NULL);
  CHECK(cached_bytes() == 1 << 20 && *(double *)node.owner == 20 << 20);
  node.refuses = false;
  CHECK(node_take(1e18, 0) == NULL && *(double *)node.owner == 20 << 20);
  for (int i = 3; i < node.count; i++) node.arrays[i].finalizer(NULL, node.arrays[i].data, NULL);
  CHECK(*(double *)node.owner == 0);
  node.arrays[63].finalizer(NULL, node.arrays[63].data, NULL);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 20000, HELD = 16 };

static char *_Atomic(passed);

/* Every thread is an owner. Another thread may finalize its buffers. */
static void *churn(void *seed) {
  uint32_t random = *(uint32_t *)seed;
  const owner_handle o = open_owner();
  char *held[HELD] = {0};
  for (int i = 0; i < ROUNDS; i++) {
    random = random * 1664525 + 1013904223;
    char **at = &held[(random >> 16) % HELD];
    if (*at != NULL) {
      CHECK(**at == (char)(at - held));
      char *lost_by_other = atomic_exchange(&passed, *at);
      if (lost_by_other != NULL) o.finalize_buffer(lost_by_other, NULL);
    }
    *at = take(o, 4096 + (random >> 8) % 8192, random & 1);
    **at = (char)(at - held);
    if (i % 1000 == 0) trim_cache(0);
  }
  for (int i = 0; i < HELD; i++) {
    if (held[i] != NULL) o.finalize_buffer(held[i], NULL);
  }
  close_owner(o);
  return NULL;
}

int main(int count, char **words) {
  if (count > 1 && strcmp(words[1], "limits") == 0) {
    check_limits();
    puts("limits");
    return 0;
  }
  if (count > 1 && strcmp(words[1], "memory") == 0) {
    check_memory();
    puts("memory");
    return 0;
  }
  if (count > 2 && strcmp(words[1], "groups") == 0) {
    check_groups(words[2]);
    puts("groups");
    return 0;
  }
  check_one_thread();
  check_node();
  pthread_t threads[THREADS];
  uint32_t seeds[THREADS] = {1, 20, 300, 4000};
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, churn, &seeds[i]);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  if (passed != NULL) {
    const owner_handle o = open_owner();
    o.finalize_buffer(passed, NULL);
    close_owner(o);
  }
  trim_cache(0);
  CHECK(cached_bytes() == 0);
  printf("%d rounds\n", THREADS * ROUNDS);
  return 0;
}
