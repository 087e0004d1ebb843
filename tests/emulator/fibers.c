/*
 * Runs kernels. Blocks run one after another. The threads of a block run one after another on one
 * stack, as long as none has to wait; one that waits keeps its stack, and the next ones get
 * another. A waiting thread continues when all threads that it waits for have arrived. If no thread
 * can continue, the kernel has a barrier that some threads do not reach. Processor faults end it
 * too.
 */
#include "emulator.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include "faults.h"

enum { MAX_THREADS = 1024, STACK = 256 << 10 };
/* What lies below a stack cannot be touched, far enough for an array to begin there. */
enum { GUARD = 1 << 20 };

/* ---- switching stacks ------------------------------------------------------------------------ */

/* Saves this stack's place and goes on with another one. */
void emu_switch(void **save, void *load) __attribute__((visibility("hidden")));

#if defined(__x86_64__)
enum { SAVED = 6 };
__asm__(".text\n.hidden emu_switch\n.globl emu_switch\nemu_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
/* Registers, then where to return to; the stack pointer after that is as behind a call. */
static void *new_stack(char *top, void (*entry)(void)) {
  void **at = (void **)top - 2 - SAVED;
  memset(at, 0, (SAVED + 2) * sizeof *at);
  at[SAVED] = (void *)entry;
  return at;
}
#elif defined(__aarch64__)
enum { SAVED = 20 };
__asm__(".text\n.hidden emu_switch\n.globl emu_switch\nemu_switch:\n"
        "sub sp, sp, #160\n"
        "stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\n"
        "stp x25, x26, [sp, #48]\nstp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
        "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\n"
        "stp d14, d15, [sp, #144]\n"
        "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
        "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\n"
        "ldp x25, x26, [sp, #48]\nldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
        "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\n"
        "ldp d14, d15, [sp, #144]\nadd sp, sp, #160\nret\n");
static void *new_stack(char *top, void (*entry)(void)) {
  void **at = (void **)top - SAVED;
  memset(at, 0, SAVED * sizeof *at);
  at[11] = (void *)entry;
  return at;
}
#else
#error "The emulator knows x86-64 and aarch64 only."
#endif

/* ---- state of the block that runs ----------------------------------------------------------- */

/* Values of the setting "order"; 0 to 2 with EAGER are others. */
enum { BACKWARDS = 1, SHUFFLED = 2, EAGER = 3, ANY = 6 };

enum { UNSTARTED, READY, AT_BARRIER, AT_WARP, ENDED };

typedef struct {
  char *stack;
  void *place;
} fiber;

typedef struct {
  int kind, site, argument, width;
  unsigned int mask;
  unsigned long long value, result;
  fiber *fiber;
} lane;

static emu_place here;

static uint8_t state[MAX_THREADS];
static lane lanes[MAX_THREADS];
static emu_triple index_of[MAX_THREADS];
/* The order in which threads get their turns, the place of each in it, and whose turn is next. */
static int order[MAX_THREADS], place[MAX_THREADS];
static int threads, turn, ended, arrived, running;
/* Lanes of each warp that wait for others. */
static unsigned int waiting[MAX_THREADS / 32];

static fiber fibers[MAX_THREADS];
static int fiber_count;
static fiber *idle[MAX_THREADS];
static int idle_count;
/* The fiber that runs, and a thread that it shall begin with, or -1. */
static fiber *on;
static int given;
static void *outside;

static const grid *current;
static sigjmp_buf escape;
static volatile bool inside;
static pthread_t inside_thread;
static uint64_t random_state;
/* The order of this kernel. */
static int kind;

static uint32_t draw(uint32_t below) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(((random_state >> 32) * below) >> 32);
}

/* Ends the kernel; on any of its stacks. */
static _Noreturn void leave(int error) { siglongjmp(escape, error); }

/* The same, with words: what, thread and block. */
static _Noreturn void fail(int error, const char *what) {
  emu_triple t = here.thread, b = here.block;
  emu_note("kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s", current->kernel->name, b.x,
           b.y, b.z, t.x, t.y, t.z, what);
  leave(error);
}

static void shuffle(int *list, int count) {
  for (int i = count - 1; i > 0; i--) {
    int j = (int)draw((uint32_t)i + 1), t = list[i];
    list[i] = list[j];
    list[j] = t;
  }
}

static bool is_backwards(void) { return kind % EAGER == BACKWARDS; }

/* Whether the first thread in the order runs for as long as it can. */
static bool is_eager(void) { return kind >= EAGER; }

/* For a block, and again after each barrier. Eager warps stay together. */
static void set_order(void) {
  int warps[MAX_THREADS / 32], count = (threads + 31) / 32;
  if (kind == SHUFFLED) shuffle(order, threads);
  if (kind != EAGER + SHUFFLED) return;
  for (int w = 0; w < count; w++) warps[w] = w;
  shuffle(warps, count);
  for (int w = 0, at = 0; w < count; w++) {
    int first = 32 * warps[w], lanes_there = threads - first < 32 ? threads - first : 32;
    for (int i = 0; i < lanes_there; i++) order[at + i] = first + i;
    shuffle(order + at, lanes_there);
    for (int i = 0; i < lanes_there; i++) place[order[at + i]] = at + i;
    at += lanes_there;
  }
}

/* ---- whose turn it is ----------------------------------------------------------------------- */

/* Reports where threads wait that no other thread will wake. */
static _Noreturn void report_stuck(void) {
  int at_barrier = 0, at_warp = 0, one = -1, other = -1;
  for (int i = 0; i < threads; i++) {
    if (state[i] == AT_BARRIER) at_barrier++, one = i;
    if (state[i] == AT_WARP) at_warp++, other = i;
  }
  char text[256], *to = text;
  if (one >= 0) {
    to += sprintf(to, "%d of %d threads wait at the barrier of line %d, ", at_barrier, threads,
                  lanes[one].site % 65536);
  }
  if (other >= 0) {
    to += sprintf(to, "%d wait for lanes of their warp in line %d, ", at_warp,
                  lanes[other].site % 65536);
  }
  sprintf(to, "%d have ended: a barrier is not reached by all", ended);
  fail(LAUNCH_FAILED, text);
}

/* The next thread that can run; -1 when all have ended. */
static int next_thread(void) {
  for (int i = 0; i < threads; i++) {
    int t = order[turn];
    if (++turn == threads) turn = 0;
    if (state[t] == UNSTARTED || state[t] == READY) {
      running = t;
      here.thread = index_of[t];
      return t;
    }
  }
  if (ended < threads) report_stuck();
  return -1;
}

static void switch_to(fiber *other) {
  fiber *self = on;
  on = other;
  emu_switch(&self->place, other->place);
}

/* What a fiber does: threads from their beginning, one after another. */
static void run_threads(void) {
  for (;;) {
    int t = given >= 0 ? given : next_thread();
    given = -1;
    if (t >= 0 && state[t] == UNSTARTED) {
      current->kernel->call(current->arguments);
      state[running] = ENDED;
      ended++;
      continue;
    }
    idle[idle_count++] = on;
    if (t >= 0) {
      switch_to(lanes[t].fiber);
    } else {
      fiber *self = on;
      emu_switch(&self->place, outside);
    }
  }
}

static fiber *take_fiber(void) {
  if (idle_count > 0) return idle[--idle_count];
  fiber *made = &fibers[fiber_count];
  if (made->stack == NULL) {
    char *pages = mmap(NULL, STACK + GUARD, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) fail(LAUNCH_FAILED, "the emulator has no memory for a stack");
    mprotect(pages, GUARD, PROT_NONE);
    made->stack = pages + GUARD;
  }
  fiber_count++;
  made->place = new_stack(made->stack + STACK, run_threads);
  return made;
}

/* Lets others run until this thread can go on. */
static void wait_turn(int self) {
  lanes[self].fiber = on;
  int t = next_thread();
  if (t == self) return;
  if (state[t] == UNSTARTED) {
    given = t;
    switch_to(take_fiber());
  } else switch_to(lanes[t].fiber);
}

/* ---- what threads wait for ------------------------------------------------------------------ */

static void yield(void) {
  int self = running;
  state[self] = READY;
  wait_turn(self);
}

static unsigned long long barrier(int kind, int site, unsigned long long value) {
  int self = running;
  lanes[self].site = site;
  lanes[self].value = value;
  state[self] = AT_BARRIER;
  if (++arrived == threads) {
    unsigned long long count = 0;
    for (int i = 0; i < threads; i++) {
      if (lanes[i].site != site) {
        char text[128];
        sprintf(text, "threads of a block meet at different barriers, of lines %d and %d",
                lanes[i].site % 65536, site % 65536);
        fail(LAUNCH_FAILED, text);
      }
      count += lanes[i].value;
    }
    if (kind == EMU_SYNC_OR) count = count > 0;
    if (kind == EMU_SYNC_AND) count = count == (unsigned)threads;
    for (int i = 0; i < threads; i++) {
      lanes[i].result = count;
      state[i] = READY;
    }
    arrived = turn = 0;
    set_order();
  }
  wait_turn(self);
  return lanes[self].result;
}

/* The lane from which lane i of a shuffle reads. */
static int source_of(int kind, int i, int argument, int width) {
  int first = i & -width, last = first + width - 1, from = i;
  if (kind == EMU_SHUFFLE) from = first + (argument & (width - 1));
  if (kind == EMU_SHUFFLE_UP) from = i - argument < first ? i : i - argument;
  if (kind == EMU_SHUFFLE_DOWN) from = i + argument > last ? i : i + argument;
  if (kind == EMU_SHUFFLE_XOR) from = (i ^ argument) > last ? i : i ^ argument;
  return from;
}

static unsigned long long combine(int kind, unsigned long long x, unsigned long long y) {
  switch (kind) {
    case EMU_REDUCE_ADD: return x + y;
    case EMU_REDUCE_MIN: return (long long)y < (long long)x ? y : x;
    case EMU_REDUCE_MAX: return (long long)y > (long long)x ? y : x;
    case EMU_REDUCE_AND: return x & y;
    case EMU_REDUCE_OR: return x | y;
    default: return x ^ y;
  }
}

static void finish_warp(lane *warp, unsigned int mask, int kind) {
  unsigned int ballot = 0;
  unsigned long long whole = 0;
  bool first = true;
  for (int i = 0; i < 32; i++) {
    if (!(mask >> i & 1)) continue;
    if (warp[i].value) ballot |= 1u << i;
    whole = first ? warp[i].value : combine(kind, whole, warp[i].value);
    first = false;
  }
  for (int i = 0; i < 32; i++) {
    if (!(mask >> i & 1)) continue;
    lane *at = &warp[i];
    if (kind == EMU_BALLOT) at->result = ballot;
    if (kind >= EMU_REDUCE_ADD) at->result = whole;
    if (kind == EMU_MATCH) {
      at->result = 0;
      for (int j = 0; j < 32; j++) {
        if ((mask >> j & 1) && warp[j].value == at->value) at->result |= 1u << j;
      }
    }
    if (kind >= EMU_SHUFFLE && kind <= EMU_SHUFFLE_XOR) {
      int from = source_of(kind, i, at->argument, at->width);
      /* What a lane holds that takes no part is undefined. */
      at->result = mask >> from & 1 ? warp[from].value : ~0ull;
    }
  }
}

static unsigned int lanes_of_warp(int warp) {
  int count = threads - 32 * warp;
  return count >= 32 ? ~0u : (1u << count) - 1;
}

static unsigned int active(void) {
  unsigned int mask = 0;
  int warp = running / 32;
  for (int i = 32 * warp; i < threads && i < 32 * warp + 32; i++) {
    if (state[i] != ENDED) mask |= 1u << i % 32;
  }
  return mask;
}

static unsigned long long meet(int kind, int site, unsigned int mask, unsigned long long value,
                               int argument, int width) {
  int self = running, number = self / 32;
  lane *warp = &lanes[32 * number];
  if (!(mask >> self % 32 & 1)) fail(LAUNCH_FAILED, "a lane is not in its own mask");
  /* Lanes that the block does not have count as ended. */
  mask &= lanes_of_warp(number);
  lanes[self] = (lane){kind, site, argument, width, mask, value, 0, NULL};
  state[self] = AT_WARP;
  waiting[number] |= 1u << self % 32;
  if ((waiting[number] & mask) == mask) {
    for (int i = 0; i < 32; i++) {
      if (!(mask >> i & 1) || (warp[i].site == site && warp[i].mask == mask)) continue;
      char text[160];
      sprintf(text, "lanes of a warp meet in different lines or with different masks: %d and %d",
              warp[i].site % 65536, site % 65536);
      fail(LAUNCH_FAILED, text);
    }
    finish_warp(warp, mask, kind);
    waiting[number] &= ~mask;
    for (int i = 0; i < 32; i++) {
      int t = 32 * number + i;
      if (!(mask >> i & 1)) continue;
      state[t] = READY;
      if (is_eager() && place[t] < turn) turn = place[t];
    }
  }
  wait_turn(self);
  return lanes[self].result;
}

static void trap(const char *message) { fail(LAUNCH_FAILED, message); }

const emu_services emu_offered = {&here, barrier, meet, active, yield, trap};

/* ---- faults of the processor ---------------------------------------------------------------- */

/* Which check of the compiler failed, as it is written in the instruction that traps; or -1. */
static int failed_check(void *context) {
#if defined(__x86_64__)
  const uint8_t *at = (const uint8_t *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
  static const uint8_t ud1[] = {0x67, 0x0f, 0xb9, 0x40};
  return memcmp(at, ud1, sizeof ud1) == 0 ? at[4] : -1;
#else
  const uint32_t *at = (const uint32_t *)((ucontext_t *)context)->uc_mcontext.pc;
  return *at >> 21 == 0x6a1 && (*at >> 13 & 0xff) == 0x55 ? (int)(*at >> 5 & 0xff) : -1;
#endif
}

static _Noreturn void fail_at(int signal, const siginfo_t *info, void *context) {
  char text[256], where[160];
  if (signal == SIGFPE) fail(LAUNCH_FAILED, "division of integers by zero, or overflow of it");
  if (signal == SIGILL || signal == SIGTRAP) {
    /* Numbers of clang's checks. */
    enum { OUT_OF_BOUNDS = 18, TYPE_MISMATCH = 22, ALIGNMENT = 23 };
    int check = failed_check(context);
    if (check == OUT_OF_BOUNDS) fail(ILLEGAL_ADDRESS, "index beyond an array");
    if (check == TYPE_MISMATCH || check == ALIGNMENT) {
      fail(MISALIGNED_ADDRESS, "misaligned address");
    }
    sprintf(text, "illegal instruction (%d)", check);
    fail(LAUNCH_FAILED, text);
  }
  const char *at = info->si_addr;
  if (at >= on->stack - GUARD && at < on->stack) {
    sprintf(where, "beyond the stack, which holds %d bytes", STACK);
  } else emu_describe(at, where, sizeof where);
  sprintf(text, "illegal address %p, %s", (const void *)at, where);
  fail(ILLEGAL_ADDRESS, text);
}

/* Ends the kernel if this thread runs one. */
static void on_fault(int signal, siginfo_t *info, void *context) {
  if (inside && pthread_equal(inside_thread, pthread_self())) fail_at(signal, info, context);
  if (signal != SIGSEGV || emu_owner(info->si_addr) < 0) return;
  char text[128];
  int length = sprintf(text, "emulator: the host touches device memory at %p\n", info->si_addr);
  if (write(2, text, (size_t)length) < 0) return;
}

void emu_watch_faults(void) { emu_faults_watch(on_fault); }

/* ---- grids ---------------------------------------------------------------------------------- */

/* All bits set: NaN, or -1. Not by memset: zig brings its own, which goes byte by byte. */
static void poison(char *at, const char *end) {
  typedef long long pack __attribute__((vector_size(32), aligned(1)));
  for (; end - at >= (long)sizeof(pack); at += sizeof(pack)) {
    *(pack *)at = (pack){-1, -1, -1, -1};
    /* Else the compiler makes memset of it. */
    __asm__ volatile("" ::: "memory");
  }
  while (at < end) *(volatile char *)at++ = (char)0xff;
}

/* Of its whole pages, those that were written to are given back: what comes instead is poisoned. */
static void fill_shared(const grid *what) {
  for (int i = 0; i < 2; i++) {
    char *const *part = what->kernel->shared[i], *pages[2] = {part[0], part[0]};
    if (emu_shared_pages(part, pages)) {
      madvise(pages[0], (size_t)(pages[1] - pages[0]), MADV_DONTNEED);
    }
    poison(part[0], pages[0]);
    poison(pages[1], part[1]);
  }
}

static void run_block(const grid *what, uint64_t number) {
  here.block.x = (unsigned)(number % what->blocks.x);
  here.block.y = (unsigned)(number / what->blocks.x % what->blocks.y);
  here.block.z = (unsigned)(number / what->blocks.x / what->blocks.y);
  memset(state, UNSTARTED, (size_t)threads);
  memset(waiting, 0, sizeof waiting);
  turn = ended = arrived = 0;
  given = -1;
  fill_shared(what);
  set_order();
  on = take_fiber();
  emu_switch(&outside, on->place);
}

/* Of ANY, each kernel has another one than those before, all over. */
static void choose_order(void) {
  static uint64_t number;
  kind = (int)emu_numbers[ORDER];
  random_state = (uint64_t)emu_numbers[SEED] * 2654435761u + 1;
  if (kind < ANY) return;
  random_state += ++number * 0x9e3779b97f4a7c15u;
  kind = (int)draw(ANY);
}

static void prepare(const grid *what) {
  current = what;
  choose_order();
  here.threads = what->threads;
  here.blocks = what->blocks;
  threads = (int)(what->threads.x * what->threads.y * what->threads.z);
  for (int i = 0; i < threads; i++) {
    unsigned u = (unsigned)i, x = what->threads.x, y = what->threads.y;
    index_of[i] = (emu_triple){u % x, u / x % y, u / x / y};
    order[i] = is_backwards() ? threads - 1 - i : i;
    place[order[i]] = i;
  }
  idle_count = fiber_count = 0;
}

/* The number of the i-th block to run: in order, backwards, or all over. */
static uint64_t block_at(uint64_t i, uint64_t count, uint64_t step) {
  if (is_backwards()) return count - 1 - i;
  return step == 0 ? i : (uint64_t)((unsigned __int128)i * step % count);
}

static uint64_t gcd(uint64_t a, uint64_t b) { return b == 0 ? a : gcd(b, a % b); }

int emu_run_grid(const grid *what) {
  /* A fault may be that a stack is full. */
  static char alternate[64 << 10];
  stack_t ours = {.ss_sp = alternate, .ss_size = sizeof alternate}, theirs;
  const uint64_t count = (uint64_t)what->blocks.x * what->blocks.y * what->blocks.z;
  emu_watch_faults();
  bool swapped = sigaltstack(&ours, &theirs) == 0;
  prepare(what);
  volatile int error = sigsetjmp(escape, 1);
  if (error == 0) {
    inside_thread = pthread_self();
    inside = true;
    uint64_t step = 0;
    if (kind % EAGER == SHUFFLED && count > 2) {
      step = 1 + draw((uint32_t)(count > 1u << 30 ? 1u << 30 : count));
      while (gcd(step, count) != 1) step++;
    }
    if (emu_fails(FAIL_KERNEL)) fail(LAUNCH_FAILED, "failure that a test asked for");
    for (uint64_t i = 0; i < count; i++) run_block(what, block_at(i, count, step));
  }
  inside = false;
  if (swapped) sigaltstack(&theirs, NULL);
  emu_numbers[KERNELS]++;
  return error;
}
