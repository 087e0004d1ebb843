/*
 * Buffers that come and go, as Bun has them, as Node-API has them, and from four threads at once.
 * Stands in for Node-API itself. For the thread sanitizer and for valgrind.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include "check.h"

typedef void (*lost)(void *data, void *context);

typedef struct {
  double owner;
  lost owner_lost, buffer_lost;
} opened;

static opened open_owner(void) {
  double numbers[3];
  CHECK(rm_buffers(RM_BUFFERS_OPEN, numbers) == RM_OK);
  return (opened){numbers[0], (lost)(uintptr_t)numbers[1], (lost)(uintptr_t)numbers[2]};
}

static void close_owner(opened o) { o.owner_lost((void *)(uintptr_t)o.owner, NULL); }

static char *take(opened o, double bytes, double zeroed) {
  double numbers[3] = {o.owner, bytes, zeroed};
  CHECK(rm_buffers(RM_BUFFERS_TAKE, numbers) == RM_OK);
  return (char *)(uintptr_t)numbers[0];
}

static double kept(void) {
  double number;
  CHECK(rm_buffers(RM_BUFFERS_KEPT, &number) == RM_OK);
  return number;
}

/* One that is kept, or null. */
static char *take_kept(opened o, double bytes, double zeroed) {
  double numbers[3] = {o.owner, bytes, zeroed};
  CHECK(rm_buffers(RM_BUFFERS_TAKE_KEPT, numbers) == RM_OK);
  return (char *)(uintptr_t)numbers[0];
}

static double in_use(opened o) { return *(double *)(uintptr_t)o.owner; }

static void check_one_thread(void) {
  const opened o = open_owner(), other = open_owner();
  CHECK(in_use(o) == 0 && kept() == 0);
  char *a = take(o, 1 << 20, 1);
  CHECK((uintptr_t)a % 64 == 0 && in_use(o) == 1 << 20 && in_use(other) == 0);
  for (int i = 0; i < 1 << 20; i++) CHECK(a[i] == 0);
  memset(a, 7, 1 << 20);
  o.buffer_lost(a, NULL);
  CHECK(in_use(o) == 0 && kept() == 1 << 20);
  CHECK(take_kept(o, 1 << 21, 0) == NULL && in_use(o) == 0 && kept() == 1 << 20);
  CHECK(take_kept(o, 1 << 20, 0) == a && a[0] == 7 && in_use(o) == 1 << 20 && kept() == 0);
  o.buffer_lost(a, NULL);
  CHECK(take_kept(o, 1 << 20, 1) == a && a[0] == 0 && a[(1 << 20) - 1] == 0);
  CHECK(take_kept(o, 1 << 20, 0) == NULL);
  memset(a, 7, 1 << 20);
  o.buffer_lost(a, NULL);

  /* The next one of about that size is the same memory, whoever asks; zeroed only if asked for. */
  char *b = take(other, (1 << 20) - 1000, 0);
  CHECK(b == a && b[0] == 7 && in_use(other) == (1 << 20) - 1000 && kept() == 0);
  other.buffer_lost(b, NULL);
  b = take(o, (1 << 20) - 1000, 1);
  CHECK(b == a);
  for (int i = 0; i < (1 << 20) - 1000; i++) CHECK(b[i] == 0);

  /* Others are not. */
  char *c = take(o, (1 << 20) + 1, 0);
  CHECK(c != b && in_use(o) == (2 << 20) - 999);
  o.buffer_lost(b, NULL);
  o.buffer_lost(c, NULL);
  CHECK(kept() == (1 << 20) * 2.125);

  /* Among those of one size, the last one back is the first out. */
  b = take(o, 1 << 20, 0);
  c = take(o, 1 << 20, 0);
  o.buffer_lost(b, NULL);
  o.buffer_lost(c, NULL);
  CHECK(take(o, 1 << 20, 0) == c && take(o, 1 << 20, 0) == b);

  /* Every size has room for what it is asked for, and an eighth more at most. */
  for (double bytes = 1000; bytes < 1e8; bytes = bytes * 1.07 + 3) {
    CHECK(rm_buffers(RM_BUFFERS_RELEASE, NULL) == RM_OK);
    char *x = take(o, (double)(size_t)bytes, 0);
    CHECK(in_use(o) == (double)((1 << 20) * 2 + (size_t)bytes));
    x[(size_t)bytes - 1] = 1;
    o.buffer_lost(x, NULL);
    CHECK(kept() >= (size_t)bytes && kept() <= bytes * 1.125 + 8);
  }

  o.buffer_lost(b, NULL);
  o.buffer_lost(c, NULL);

  /* No more is kept than 256 MiB, and what has been there longest goes first. */
  CHECK(rm_buffers(RM_BUFFERS_RELEASE, NULL) == RM_OK && kept() == 0);
  char *large[9];
  for (int i = 0; i < 9; i++) large[i] = take(o, 1 << 25, 0);
  b = take(o, 1 << 20, 0);
  o.buffer_lost(b, NULL);
  for (int i = 0; i < 8; i++) o.buffer_lost(large[i], NULL);
  CHECK(kept() == 1 << 28);
  CHECK(in_use(o) == 1 << 25);
  o.buffer_lost(large[8], NULL);
  CHECK(kept() == 1 << 28 && in_use(o) == 0);
  for (int i = 8; i > 0; i--) CHECK(take(o, 1 << 25, 0) == large[i]);
  CHECK(kept() == 0);
  for (int i = 8; i > 0; i--) o.buffer_lost(large[i], NULL);
  CHECK(rm_buffers(RM_BUFFERS_RELEASE, NULL) == RM_OK && kept() == 0);

  /* Nor is more kept than is in use, where that is more. */
  char *more[20];
  for (int i = 0; i < 20; i++) more[i] = take(o, 1 << 25, 0);
  for (int i = 0; i < 10; i++) o.buffer_lost(more[i], NULL);
  CHECK(kept() == 10 << 25);
  for (int i = 10; i < 20; i++) o.buffer_lost(more[i], NULL);
  CHECK(kept() == 1 << 28 && in_use(o) == 0);

  /* What lies elsewhere is in use, too. */
  CHECK(rm_buffers(RM_BUFFERS_RELEASE, NULL) == RM_OK);
  ((double *)(uintptr_t)o.owner)[1] = 12 << 25;
  for (int i = 0; i < 20; i++) more[i] = take(o, 1 << 25, 0);
  for (int i = 0; i < 20; i++) o.buffer_lost(more[i], NULL);
  CHECK(kept() == 12 << 25 && in_use(o) == 0);
  ((double *)(uintptr_t)o.owner)[1] = 0;
  CHECK(rm_buffers(RM_BUFFERS_RELEASE, NULL) == RM_OK);

  /* What no collector has seen can be given back, too. */
  a = take(o, 1 << 20, 0);
  double address = (double)(uintptr_t)a;
  CHECK(rm_buffers(RM_BUFFERS_GIVE, &address) == RM_OK && in_use(o) == 0);

  /* An owner may end before its buffers do. */
  a = take(o, 1 << 20, 0);
  close_owner(o);
  a[0] = 1;
  o.buffer_lost(a, NULL);
  close_owner(other);

  double numbers[3] = {other.owner, 1e18, 0};
  CHECK(rm_buffers(9, numbers) == RM_BAD_ARGUMENT);
  const opened third = open_owner();
  numbers[0] = third.owner;
  CHECK(rm_buffers(RM_BUFFERS_TAKE, numbers) == RM_OUT_OF_MEMORY && in_use(third) == 0);
  close_owner(third);
}

/* Before memory is said to be out, what is kept goes. */
static void check_limits(void) {
  const opened o = open_owner();
  char *large[7];
  for (int i = 0; i < 7; i++) memset(large[i] = take(o, 1 << 25, 0), 1, 1 << 25);
  for (int i = 0; i < 7; i++) o.buffer_lost(large[i], NULL);
  CHECK(kept() == 7 << 25);
  setrlimit(RLIMIT_AS, &(struct rlimit){7u << 26, 7u << 26});
  char *one = take(o, 240e6, 0);
  CHECK(kept() == 0 && in_use(o) == 240e6);
  double numbers[3] = {o.owner, 250e6, 1};
  CHECK(rm_buffers(RM_BUFFERS_TAKE, numbers) == RM_OUT_OF_MEMORY);
  o.buffer_lost(one, NULL);
}

/* ---- Node-API: values are pointers to these ---------------------------------------------------- */

typedef struct {
  double number;
  void *data;
  void (*lost)(void *env, void *data, void *hint);
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

EXPORT int napi_get_value_double(void *env, void *of, double *result) {
  (void)env;
  *result = ((value *)of)->number;
  return 0;
}

/* V8's collection: what waits is lost, which takes a while. */
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
    v->lost(env, v->data, NULL);
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
  if (bytes == 2 * sizeof(double)) {
    node.owner = data;
    node.arrays[63] = (value){0, data, of_lost};
    *result = &node.arrays[63];
  } else {
    node.arrays[node.count] = (value){(double)bytes, data, of_lost};
    *result = &node.arrays[node.count++];
  }
  return 0;
}

static value *node_take(double bytes, double zeroed) {
  value arguments[2] = {{.number = bytes}, {.number = zeroed}};
  return node.take(NULL, arguments);
}

static void check_node(void) {
  CHECK(rm_buffers(RM_BUFFERS_RELEASE, NULL) == RM_OK);
  /* Another file of the library's name is not what JavaScript has opened. */
  CHECK(napi_register_module_v1(NULL, &node) == &node && node.take == NULL);
  CHECK(rm_buffers(RM_BUFFERS_EXPECT, NULL) == RM_OK);
  CHECK(napi_register_module_v1(NULL, &node) == &node);
  CHECK(node.take != NULL && node.owner != NULL && *(double *)node.owner == 0);
  /* New memory comes after a look for lost one, and moves the marking on from time to time. */
  for (int i = 0; i < 20; i++) {
    value *v = node_take(1 << 20, 1);
    CHECK(v != NULL && v->number == 1 << 20 && ((char *)v->data)[12345] == 0);
    memset(v->data, 1, 1 << 20);
  }
  CHECK(node.collections == 20 && node.markings == 5 && *(double *)node.owner == 20 << 20);
  /* What a collection finds is used again. */
  node.waiting = 3;
  char *first = node.arrays[0].data;
  value *v = node_take(1 << 20, 1);
  CHECK(v->data == first && first[77] == 0);
  CHECK(node.collections == 21 && *(double *)node.owner == 18 << 20 && kept() == 2 << 20);
  node_take(1 << 20, 0);
  node_take(1 << 20, 0);
  CHECK(node.collections == 21 && kept() == 0);
  /* What the runtime does not take is not lost, nor what there is no memory for taken. */
  node.refuses = true;
  CHECK(node_take(1 << 20, 0) == NULL);
  CHECK(kept() == 1 << 20 && *(double *)node.owner == 20 << 20);
  node.refuses = false;
  CHECK(node_take(1e18, 0) == NULL && *(double *)node.owner == 20 << 20);
  for (int i = 3; i < node.count; i++) node.arrays[i].lost(NULL, node.arrays[i].data, NULL);
  CHECK(*(double *)node.owner == 0);
  node.arrays[63].lost(NULL, node.arrays[63].data, NULL);
}

/* ---- threads ----------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 20000, HELD = 16 };

static char *_Atomic(passed);

/* Every thread is an owner; what one takes, another may find lost. */
static void *churn(void *seed) {
  uint32_t random = *(uint32_t *)seed;
  const opened o = open_owner();
  char *held[HELD] = {0};
  for (int i = 0; i < ROUNDS; i++) {
    random = random * 1664525 + 1013904223;
    char **at = &held[(random >> 16) % HELD];
    if (*at != NULL) {
      CHECK(**at == (char)(at - held));
      char *lost_by_other = atomic_exchange(&passed, *at);
      if (lost_by_other != NULL) o.buffer_lost(lost_by_other, NULL);
    }
    *at = take(o, 4096 + (random >> 8) % 8192, random & 1);
    **at = (char)(at - held);
    if (i % 1000 == 0) CHECK(rm_buffers(RM_BUFFERS_RELEASE, NULL) == RM_OK);
  }
  for (int i = 0; i < HELD; i++) {
    if (held[i] != NULL) o.buffer_lost(held[i], NULL);
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
  check_one_thread();
  check_node();
  pthread_t threads[THREADS];
  uint32_t seeds[THREADS] = {1, 20, 300, 4000};
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, churn, &seeds[i]);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  if (passed != NULL) {
    const opened o = open_owner();
    o.buffer_lost(passed, NULL);
    close_owner(o);
  }
  CHECK(rm_buffers(RM_BUFFERS_RELEASE, NULL) == RM_OK && kept() == 0);
  printf("%d rounds\n", THREADS * ROUNDS);
  return 0;
}
