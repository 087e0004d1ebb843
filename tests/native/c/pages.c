/*
 * The large pages that buffers lie in, with a clock that the test sets: whether they are asked for,
 * and given back.
 */
#include "internal.h"
#define rm_nanoseconds clock_of_test
static int64_t time_now, time_step;
static int64_t clock_of_test(void) { return time_now += time_step; }
#include <buffers.c>
#undef rm_nanoseconds
#include "check.h"

static const char LARGE_PAGES[] = "/sys/kernel/mm/transparent_hugepage";

/* How many pages of 4 KiB the process has mapped, whether it has touched them or not. */
static long pages(void) {
  long all = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%ld", &all) == 1);
  fclose(file);
  return all;
}

/* Whether large pages are wanted at an address: it has been said, one way or the other. */
static bool wants_large(const void *address) {
  char line[512];
  bool inside = false, wants = false, said = false;
  FILE *file = fopen("/proc/self/smaps", "r");
  CHECK(file != NULL);
  while (fgets(line, sizeof line, file) != NULL) {
    unsigned long from, to;
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
      inside = from <= (uintptr_t)address && (uintptr_t)address < to;
    }
    if (inside && strncmp(line, "VmFlags:", 8) == 0) {
      wants = strstr(line, " hg") != NULL;
      said = wants != (strstr(line, " nh") != NULL);
    }
  }
  fclose(file);
  CHECK(said || access(LARGE_PAGES, F_OK) != 0);
  return wants;
}

/* Takes a buffer, uses all of it, and gives back all that it was. */
static bool take_large(owner *of, size_t bytes, bool zeroed) {
  const long before = pages();
  double numbers[3] = {(double)(uintptr_t)of, (double)bytes, zeroed};
  CHECK(rm_buffers(RM_BUFFERS_TAKE, numbers) == RM_OK);
  char *x = (char *)(uintptr_t)numbers[0];
  CHECK((uintptr_t)x % LARGE_PAGE == 0);
  for (size_t i = 0; i < bytes; i++) CHECK(x[i] == 0);
  memset(x, 1, bytes);
  const bool large = wants_large(x);
  CHECK(large == wants_large(x + bytes - 1));
  CHECK(pages() - before >= (long)(bytes >> 12));
  CHECK(rm_buffers(RM_BUFFERS_GIVE, numbers) == RM_OK);
  CHECK(rm_buffers(RM_BUFFERS_RELEASE, NULL) == RM_OK && pages() - before <= 2);
  return large;
}

int main(void) {
  owner *of = new_owner();
  const bool some = access(LARGE_PAGES, F_OK) == 0;
  for (double mib = 2; mib <= 32; mib *= 1.5) {
    CHECK(take_large(of, (size_t)(mib * (1 << 20)) - 5, mib > 10) == some);
  }
  /* A slow one now and then changes nothing. */
  for (int i = 0; i < 30; i++) {
    time_step = i % 3 == 0 ? SLOW_PAGE + 1 : 0;
    CHECK(take_large(of, 2 << 20, false) == some);
  }
  /* Half of them do after a while, and for good. */
  for (int i = 0; i < 4 * MOST_SLOW - 3; i++) {
    time_step = i % 2 == 0 ? SLOW_PAGE + 1 : 0;
    CHECK(take_large(of, 2 << 20, false) == some);
  }
  time_step = 0;
  for (int i = 0; i < 3; i++) CHECK(!take_large(of, 2 << 20, true));
  printf("large pages: %s\n", some ? "yes" : "no");
  return 0;
}
