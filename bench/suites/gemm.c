/*
 * What a C program gets from OpenBLAS: PATH THREADS CALLS N...; prints the nanoseconds of the median
 * call of sgemm on row-major [N, N], and its processor time, as JSON.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Of all threads of the process. */
static double processor(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void measure(sgemm multiply, int n, int calls, double *times) {
  const size_t bytes = (size_t)n * (size_t)n * sizeof(float);
  float *a = aligned_alloc(64, bytes), *b = aligned_alloc(64, bytes), *c = aligned_alloc(64, bytes);
  for (int i = 0; i < n * n; i++) {
    a[i] = (float)(i % 7);
    b[i] = (float)(i % 5);
    c[i] = 0;
  }
  double before = 0;
  for (int i = -3; i < calls; i++) {
    if (i == 0) before = processor();
    const double begin = now();
    multiply(101, 111, 111, n, n, n, 1, a, n, b, n, 0, c, n);
    if (i >= 0) times[i] = now() - begin;
  }
  const double cpu = (processor() - before) / calls;
  qsort(times, (size_t)calls, sizeof(double), ascending);
  printf("\"%d\":{\"wall\":%.0f,\"cpu\":%.0f}", n, times[calls / 2], cpu);
  free(a);
  free(b);
  free(c);
}

int main(int count, char **words) {
  if (count < 5) return 2;
  void *library = dlopen(words[1], RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const int calls = atoi(words[3]);
  sgemm multiply = (sgemm)dlsym(library, "cblas_sgemm");
  void (*set_threads)(int) = (void (*)(int))dlsym(library, "openblas_set_num_threads");
  char *(*config)(void) = (char *(*)(void))dlsym(library, "openblas_get_config");
  if (multiply == NULL || set_threads == NULL || config == NULL) return 1;
  set_threads(atoi(words[2]));
  double *times = malloc(sizeof(double) * (size_t)calls);
  printf("{\"version\":\"%s\",\"figures\":{", config());
  for (int i = 4; i < count; i++) {
    if (i > 4) printf(",");
    measure(multiply, atoi(words[i]), calls, times);
  }
  printf("}}\n");
  return 0;
}
