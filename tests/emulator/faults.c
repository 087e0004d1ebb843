/*
 * The handler of faults. What none of the emulators takes goes to who was there before: runtimes
 * have handlers of their own, and set them at any time.
 */
#define _GNU_SOURCE
#include "faults.h"

#include <pthread.h>

static const int watched[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
enum { WATCHED = sizeof watched / sizeof watched[0], MAX_HANDLERS = 256 };
static struct sigaction previous[WATCHED];
static fault_handler handlers[MAX_HANDLERS];
static volatile int handler_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void on_fault(int signal, siginfo_t *info, void *context) {
  for (int i = 0; i < handler_count; i++) handlers[i](signal, info, context);
  /* As the instruction runs again, the one from before gets it. */
  for (int i = 0; i < WATCHED; i++) {
    if (watched[i] == signal) sigaction(signal, &previous[i], NULL);
  }
}

__attribute__((visibility("default"))) void emu_faults_watch(fault_handler handler) {
  pthread_mutex_lock(&lock);
  int at = 0;
  while (at < handler_count && handlers[at] != handler) at++;
  if (at == handler_count && at < MAX_HANDLERS) {
    handlers[at] = handler;
    handler_count++;
  }
  for (int i = 0; i < WATCHED; i++) {
    struct sigaction there, ours = {.sa_flags = SA_SIGINFO | SA_ONSTACK, .sa_sigaction = on_fault};
    sigaction(watched[i], NULL, &there);
    if ((there.sa_flags & SA_SIGINFO) && there.sa_sigaction == on_fault) continue;
    previous[i] = there;
    sigaction(watched[i], &ours, NULL);
  }
  pthread_mutex_unlock(&lock);
}
