/*
 * Programs: their calls, and the frames in which they run. A program is constant, so several frames
 * may run at the same time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"
#include "kernel.h"
#include "program.h"

enum {
  /* The longest message of a fault. */
  MESSAGE_BYTES = 512
};

typedef struct {
  int32_t kind;
  size_t offset, bytes;
  /* The operands that are this buffer: uses[first_use..]. */
  int32_t first_use, use_count;
} program_buffer;

typedef struct {
  int32_t kernel, compute, operands, first_operand;
  bool checks_index;
  size_t first_number, number_count;
  /* The loop that begins with this call; -1 for none. */
  int32_t loop;
} program_call;

/*
 * Calls that run once for each tile of rows. The body is for whole tiles; the calls after it are for
 * the last rows, if they are fewer.
 */
typedef struct {
  int32_t first, body, rest;
  ptrdiff_t tiles;
  /* The tiles that may run at the same time: each has memory of its own for what lies between the
   * calls. */
  int32_t slots;
  /* The estimated nanoseconds of all tiles. */
  double work;
} program_loop;

typedef struct {
  int32_t buffer_count, call_count, operand_count, loop_count;
  size_t number_count, arena_bytes, copied_bytes;
  program_buffer *buffers;
  program_call *calls;
  /* Of all operands of all calls. */
  int *dtypes;
  int32_t *places;
  /* The operands, sorted by buffer. */
  int32_t *uses;
  double *numbers;
  program_loop *loops;
  /* By operand: the bytes from one tile to the next, and from one slot to the next. */
  ptrdiff_t *tile_steps, *slot_steps;
} program;

/* A call that is ready to run. */
typedef struct {
  rm_call call;
  /* The first attribute, which kernels that check indices replace by their finding. */
  double first_attribute;
  bool checks_index;
  /* What the kernel has kept of an earlier run, or null. */
  rm_kept *kept;
} frame_call;

struct rm_frame {
  const program *program;
  frame_call *calls;
  /* The addresses of all operands of all calls. */
  void **operands;
  double *numbers;
  /* The memory of copied buffers, in its allocation, and that of the caller for intermediate
   * results. */
  char *copied, *arena;
  void *copied_memory;
  /* The settings for which kernels have kept calls. */
  const rm_kernels *kernels;
  rm_blas_state blas;
  /* Why the last run stopped: the call and, for RM_BAD_INDEX, the flat index of the bad index. */
  int32_t fault_call;
  double bad_index;
  char message[MESSAGE_BYTES];
};

/* ---- making programs ------------------------------------------------------------------------- */

/* Reads numbers of a specification, never beyond its end. */
typedef struct {
  const double *next, *end;
  bool failed;
} reader;

/* The next number, an integer in [low, high]. */
static double read_number(reader *from, double low, double high) {
  if (from->next == from->end) from->failed = true;
  if (from->failed) return low;
  const double value = *from->next++;
  /* Written so that NaN fails too. */
  if (value >= low && value <= high && value == (double)(int64_t)value) return value;
  from->failed = true;
  return low;
}

static void skip_numbers(reader *from, size_t count) {
  if ((size_t)(from->end - from->next) < count) from->failed = true;
  else from->next += count;
}

enum { MAX_LOOP_OPERANDS = 32 };

static const double MAX_COUNT = INT32_MAX, MAX_BYTES = 9007199254740991.0;

static void read_buffer(reader *from, const program *of, program_buffer *to) {
  to->kind = (int32_t)read_number(from, RM_PROGRAM_ARENA, RM_PROGRAM_COPIED);
  to->offset = (size_t)read_number(from, 0, MAX_BYTES);
  to->bytes = (size_t)read_number(from, 0, MAX_BYTES);
  const size_t bytes = to->kind == RM_PROGRAM_COPIED ? of->copied_bytes : of->arena_bytes;
  if (to->kind != RM_PROGRAM_BOUND && (to->offset > bytes || to->bytes > bytes - to->offset)) {
    from->failed = true;
  }
}

/* Reads the head of a call; its dtypes, places and numbers follow. */
static program_call read_call(reader *from) {
  program_call call = {.loop = -1};
  call.kernel = (int32_t)read_number(from, 0, RM_KERNEL_COUNT - 1);
  call.compute = (int32_t)read_number(from, 0, RM_NONE);
  call.checks_index = read_number(from, 0, 1) != 0;
  call.operands = (int32_t)read_number(from, RM_MAX_OPERANDS, MAX_COUNT);
  call.number_count = (size_t)read_number(from, call.checks_index ? RM_ATTRIBUTES + 1 : 0,
                                          MAX_BYTES);
  return call;
}

/* Reads a loop and the steps of its operands. */
static void read_loop(reader *from, program *to, int32_t index) {
  program_loop loop = {0};
  loop.first = (int32_t)read_number(from, 0, (double)to->call_count - 1);
  loop.body = (int32_t)read_number(from, 1, (double)(to->call_count - loop.first));
  loop.rest = (int32_t)read_number(from, 0, (double)(to->call_count - loop.first - loop.body));
  loop.tiles = (ptrdiff_t)read_number(from, 1, MAX_COUNT);
  loop.slots = (int32_t)read_number(from, 1, RM_PROGRAM_SLOTS);
  loop.work = read_number(from, 0, MAX_BYTES);
  for (int32_t i = loop.first; !from->failed && i < loop.first + loop.body + loop.rest; i++) {
    program_call *call = &to->calls[i];
    /* A call belongs to one loop at most. */
    if (call->loop >= 0 || call->checks_index || call->operands > MAX_LOOP_OPERANDS) {
      from->failed = true;
    }
    call->loop = index;
    for (int32_t k = 0; k < call->operands && !from->failed; k++) {
      to->tile_steps[call->first_operand + k] = (ptrdiff_t)read_number(from, -MAX_BYTES, MAX_BYTES);
      to->slot_steps[call->first_operand + k] = (ptrdiff_t)read_number(from, 0, MAX_BYTES);
    }
  }
  if (!from->failed) to->loops[index] = loop;
}

/* Reads all parts of a specification into `to`, or only counts them if `to` has no arrays yet. */
static bool read_program(reader from, program *to) {
  to->buffer_count = (int32_t)read_number(&from, 0, MAX_COUNT);
  to->call_count = (int32_t)read_number(&from, 0, MAX_COUNT);
  to->arena_bytes = (size_t)read_number(&from, 0, MAX_BYTES);
  to->copied_bytes = (size_t)read_number(&from, 0, MAX_BYTES);
  to->operand_count = 0;
  to->number_count = 0;
  for (int32_t i = 0; i < to->buffer_count && !from.failed; i++) {
    program_buffer buffer = {0};
    read_buffer(&from, to, &buffer);
    if (to->buffers != NULL) to->buffers[i] = buffer;
  }
  for (int32_t i = 0; i < to->call_count && !from.failed; i++) {
    program_call call = read_call(&from);
    call.first_operand = to->operand_count;
    call.first_number = to->number_count;
    if (call.operands > INT32_MAX - to->operand_count) return false;
    for (int32_t k = 0; k < call.operands && !from.failed; k++) {
      const int dtype = (int)read_number(&from, 0, RM_NONE);
      if (to->dtypes != NULL) to->dtypes[to->operand_count + k] = dtype;
    }
    for (int32_t k = 0; k < call.operands && !from.failed; k++) {
      const int32_t place = (int32_t)read_number(&from, -1, (double)to->buffer_count - 1);
      if (to->places != NULL) to->places[to->operand_count + k] = place;
    }
    const double *numbers = from.next;
    skip_numbers(&from, call.number_count);
    if (from.failed) return false;
    if (to->numbers != NULL) {
      memcpy(to->numbers + to->number_count, numbers, call.number_count * sizeof *numbers);
      to->calls[i] = call;
    }
    to->operand_count += call.operands;
    to->number_count += call.number_count;
  }
  to->loop_count = (int32_t)read_number(&from, 0, (double)to->call_count);
  /* The operands of loops are known once there are arrays. */
  if (to->calls == NULL) return !from.failed;
  for (int32_t i = 0; i < to->loop_count && !from.failed; i++) read_loop(&from, to, i);
  return !from.failed && from.next == from.end;
}

/* Lists the operands of each buffer. */
static void find_uses(program *p) {
  for (int32_t i = 0; i < p->operand_count; i++) {
    if (p->places[i] >= 0) p->buffers[p->places[i]].use_count++;
  }
  int32_t first = 0;
  for (int32_t i = 0; i < p->buffer_count; i++) {
    p->buffers[i].first_use = first;
    first += p->buffers[i].use_count;
    p->buffers[i].use_count = 0;
  }
  for (int32_t i = 0; i < p->operand_count; i++) {
    if (p->places[i] < 0) continue;
    program_buffer *buffer = &p->buffers[p->places[i]];
    p->uses[buffer->first_use + buffer->use_count++] = i;
  }
}

static void free_program(program *p) {
  free(p->buffers);
  free(p->calls);
  free(p->dtypes);
  free(p->places);
  free(p->uses);
  free(p->numbers);
  free(p->loops);
  free(p->tile_steps);
  free(p->slot_steps);
  free(p);
}

/* The memory of an array; not null for an empty one. */
static void *new_array(size_t count, size_t bytes) { return calloc(count == 0 ? 1 : count, bytes); }

static int32_t no_memory(void) { return rm_fail(RM_OUT_OF_MEMORY, "no memory for a program"); }

static int32_t make_program(double *numbers) {
  if (!(numbers[0] >= 1 && numbers[0] <= MAX_COUNT)) {
    return rm_fail(RM_BAD_ARGUMENT, "the program has no length");
  }
  const reader all = {numbers + 1, numbers + (size_t)numbers[0], false};
  program *p = calloc(1, sizeof *p);
  if (p == NULL) return no_memory();
  if (!read_program(all, p)) {
    free_program(p);
    return rm_fail(RM_BAD_ARGUMENT, "the program is malformed");
  }
  const size_t operands = (size_t)p->operand_count;
  p->buffers = new_array((size_t)p->buffer_count, sizeof *p->buffers);
  p->calls = new_array((size_t)p->call_count, sizeof *p->calls);
  p->dtypes = new_array(operands, sizeof *p->dtypes);
  p->places = new_array(operands, sizeof *p->places);
  p->uses = new_array(operands, sizeof *p->uses);
  p->numbers = new_array(p->number_count, sizeof *p->numbers);
  p->loops = new_array((size_t)p->loop_count, sizeof *p->loops);
  p->tile_steps = new_array(operands, sizeof *p->tile_steps);
  p->slot_steps = new_array(operands, sizeof *p->slot_steps);
  if (p->buffers == NULL || p->calls == NULL || p->dtypes == NULL || p->places == NULL ||
      p->uses == NULL || p->numbers == NULL || p->loops == NULL || p->tile_steps == NULL ||
      p->slot_steps == NULL) {
    free_program(p);
    return no_memory();
  }
  if (!read_program(all, p)) {
    free_program(p);
    return rm_fail(RM_BAD_ARGUMENT, "the program is malformed");
  }
  find_uses(p);
  numbers[0] = (double)(uintptr_t)p;
  numbers[1] = (double)(sizeof *p + (size_t)p->buffer_count * sizeof *p->buffers +
                        (size_t)p->call_count * sizeof *p->calls +
                        operands * (sizeof *p->dtypes + 2 * sizeof *p->places +
                                    2 * sizeof *p->tile_steps) +
                        (size_t)p->loop_count * sizeof *p->loops +
                        p->number_count * sizeof *p->numbers);
  return RM_OK;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static void drop_kept(frame_call *call) {
  free(call->kept);
  call->kept = NULL;
}

static void free_frame(rm_frame *frame) {
  if (frame->calls != NULL) {
    for (int32_t i = 0; i < frame->program->call_count; i++) drop_kept(&frame->calls[i]);
  }
  free(frame->calls);
  free(frame->operands);
  free(frame->numbers);
  free(frame->copied_memory);
  free(frame);
}

/* The first cache line in a memory. */
static char *first_line(void *memory) {
  const uintptr_t line = RM_PROGRAM_ARENA_LINE;
  return (char *)(((uintptr_t)memory + line - 1) / line * line);
}

/* Sets the addresses of the operands that are no bound buffers. */
static __attribute__((noinline)) void place_operands(rm_frame *frame, char *arena) {
  const program *p = frame->program;
  frame->arena = arena;
  for (int32_t i = 0; i < p->operand_count; i++) {
    if (p->places[i] < 0) continue;
    const program_buffer *buffer = &p->buffers[p->places[i]];
    if (buffer->kind == RM_PROGRAM_BOUND) continue;
    char *memory = buffer->kind == RM_PROGRAM_COPIED ? frame->copied : arena;
    frame->operands[i] = memory + buffer->offset;
  }
}

static int32_t make_frame(double *numbers) {
  const program *p = (const program *)(uintptr_t)numbers[0];
  rm_frame *frame = calloc(1, sizeof *frame);
  if (frame == NULL) return no_memory();
  frame->program = p;
  frame->calls = new_array((size_t)p->call_count, sizeof *frame->calls);
  frame->operands = new_array((size_t)p->operand_count, sizeof *frame->operands);
  frame->numbers = new_array(p->number_count, sizeof *frame->numbers);
  /* Zero, so that programs cannot expose memory of others. */
  frame->copied_memory = calloc(1, p->copied_bytes + RM_PROGRAM_ARENA_LINE);
  if (frame->calls == NULL || frame->operands == NULL || frame->numbers == NULL ||
      frame->copied_memory == NULL) {
    free_frame(frame);
    return no_memory();
  }
  frame->copied = first_line(frame->copied_memory);
  memcpy(frame->numbers, p->numbers, p->number_count * sizeof *p->numbers);
  for (int32_t i = 0; i < p->call_count; i++) {
    const program_call *from = &p->calls[i];
    double *own = frame->numbers + from->first_number;
    frame->calls[i] = (frame_call){
        .call = {.op = from->kernel,
                 .compute = from->compute,
                 .operands = from->operands,
                 .dtypes = p->dtypes + from->first_operand,
                 .numbers = own,
                 .buffers = frame->operands + from->first_operand,
                 .kept = &frame->calls[i].kept},
        .first_attribute = from->checks_index ? own[RM_ATTRIBUTES] : 0,
        .checks_index = from->checks_index,
    };
  }
  /* Buffers without bytes have an address too. */
  if (p->arena_bytes == 0) place_operands(frame, frame->copied);
  numbers[0] = (double)(uintptr_t)frame;
  numbers[1] = (double)(sizeof *frame + (size_t)p->call_count * sizeof *frame->calls +
                        (size_t)p->operand_count * sizeof *frame->operands +
                        p->number_count * sizeof *frame->numbers + p->copied_bytes);
  return RM_OK;
}

int32_t rm_program(int32_t what, double *numbers) {
  void *address = what == RM_PROGRAM_MAKE ? NULL : (void *)(uintptr_t)numbers[0];
  if (what != RM_PROGRAM_MAKE && address == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no program or frame at 0");
  }
  switch (what) {
    case RM_PROGRAM_MAKE: return make_program(numbers);
    case RM_PROGRAM_FREE: free_program(address); return RM_OK;
    case RM_PROGRAM_MAKE_FRAME: return make_frame(numbers);
    case RM_PROGRAM_FREE_FRAME: free_frame(address); return RM_OK;
    default: return rm_fail(RM_BAD_ARGUMENT, "rm_program does not do %d", what);
  }
}

/* The frame at an address, of which JavaScript has a double. */
static rm_frame *frame_at(double address) { return (rm_frame *)(uintptr_t)address; }

static int32_t no_frame(void) { return rm_fail(RM_BAD_ARGUMENT, "the frame has been freed"); }

static void bind_buffer(rm_frame *frame, int32_t place, void *address) {
  const program_buffer *buffer = &frame->program->buffers[place];
  const int32_t *uses = frame->program->uses + buffer->first_use;
  for (int32_t i = 0; i < buffer->use_count; i++) frame->operands[uses[i]] = address;
}

int32_t rm_program_bind(double frame, int32_t place, void *a, void *b, void *c, void *d) {
  rm_frame *to = frame_at(frame);
  if (to == NULL) return no_frame();
  if (place == RM_PROGRAM_ARENA_PLACE) {
    if (a == NULL) return rm_fail(RM_BAD_ARGUMENT, "the arena is detached");
    place_operands(to, first_line(a));
    return RM_OK;
  }
  void *const addresses[] = {a, b, c, d};
  for (int32_t i = 0; i < 4 && addresses[i] != NULL; i++) {
    if (place + i < 0 || place + i >= to->program->buffer_count ||
        to->program->buffers[place + i].kind != RM_PROGRAM_BOUND) {
      return rm_fail(RM_BAD_ARGUMENT, "buffer %d is not bound", place + i);
    }
    bind_buffer(to, place + i, addresses[i]);
  }
  return RM_OK;
}

int32_t rm_program_copy(double frame, int32_t what, int32_t place, void *array) {
  rm_frame *of = frame_at(frame);
  if (of == NULL) return no_frame();
  const program *p = of->program;
  if (place < 0 || place >= p->buffer_count || p->buffers[place].kind != RM_PROGRAM_COPIED) {
    return rm_fail(RM_BAD_ARGUMENT, "buffer %d is not copied", place);
  }
  const program_buffer *buffer = &p->buffers[place];
  if (buffer->bytes == 0) return RM_OK;
  if (array == NULL) return rm_fail(RM_BAD_ARGUMENT, "the array of buffer %d is detached", place);
  switch (what) {
    case RM_PROGRAM_WRITE: memcpy(of->copied + buffer->offset, array, buffer->bytes); return RM_OK;
    case RM_PROGRAM_READ: memcpy(array, of->copied + buffer->offset, buffer->bytes); return RM_OK;
    default: return rm_fail(RM_BAD_ARGUMENT, "rm_program_copy does not do %d", what);
  }
}

int32_t rm_program_set(double frame, int32_t call, int32_t index, double value) {
  rm_frame *of = frame_at(frame);
  if (of == NULL) return no_frame();
  const program *p = of->program;
  if (call < 0 || call >= p->call_count || index < 0 ||
      (size_t)index >= p->calls[call].number_count) {
    return rm_fail(RM_BAD_ARGUMENT, "call %d has no number %d", call, index);
  }
  drop_kept(&of->calls[call]);
  of->calls[call].call.numbers[index] = value;
  if (index == RM_ATTRIBUTES) of->calls[call].first_attribute = value;
  return RM_OK;
}

/* Notes why a run has stopped. The message of a kernel belongs to the thread that ran it. */
static int32_t note_fault(rm_frame *frame, int32_t call, int32_t status, double bad_index) {
  frame->fault_call = call;
  frame->bad_index = bad_index;
  frame->message[0] = 0;
  const bool has_message = status != RM_UNSUPPORTED && status != RM_BAD_INDEX &&
                           status != RM_CANCELLED;
  if (has_message) rm_last_error(frame->message, MESSAGE_BYTES);
  return status;
}

/* A loop that runs. */
typedef struct {
  const rm_frame *frame;
  const program_loop *loop;
  _Atomic(uint32_t) free_slots;
  _Atomic(int32_t) status;
  /* The call of that status, and its message. */
  int32_t fault_call;
  char message[MESSAGE_BYTES];
} loop_context;

static int take_slot(loop_context *ctx) {
  uint32_t free_slots = atomic_load_explicit(&ctx->free_slots, memory_order_relaxed);
  for (;;) {
    if (free_slots == 0) {
      rm_yield();
      free_slots = atomic_load_explicit(&ctx->free_slots, memory_order_relaxed);
    } else if (atomic_compare_exchange_weak_explicit(&ctx->free_slots, &free_slots,
                                                     free_slots & (free_slots - 1),
                                                     memory_order_acquire, memory_order_relaxed)) {
      return __builtin_ctz(free_slots);
    }
  }
}

static void run_tile(void *context, ptrdiff_t tile) {
  loop_context *ctx = context;
  const program_loop *loop = ctx->loop;
  const program *p = ctx->frame->program;
  if (atomic_load_explicit(&ctx->status, memory_order_relaxed) != RM_OK) return;
  const bool is_rest = tile == loop->tiles;
  const int32_t first = is_rest ? loop->first + loop->body : loop->first;
  const int32_t end = first + (is_rest ? loop->rest : loop->body);
  const int slot = take_slot(ctx);
  for (int32_t i = first; i < end; i++) {
    const program_call *about = &p->calls[i];
    rm_call call = ctx->frame->calls[i].call;
    void *buffers[MAX_LOOP_OPERANDS];
    for (int32_t k = 0; k < call.operands; k++) {
      const int32_t at = about->first_operand + k;
      char *base = call.buffers[k];
      buffers[k] = base == NULL ? NULL : base + tile * p->tile_steps[at] + slot * p->slot_steps[at];
    }
    call.buffers = buffers;
    /* Other threads may run the same call. */
    call.kept = NULL;
    const int32_t status = rm_run_call(&call);
    if (status == RM_OK) continue;
    int32_t none = RM_OK;
    if (atomic_compare_exchange_strong(&ctx->status, &none, status)) {
      ctx->fault_call = i;
      rm_last_error(ctx->message, MESSAGE_BYTES);
    }
    break;
  }
  atomic_fetch_or_explicit(&ctx->free_slots, 1u << slot, memory_order_release);
}

static int32_t run_loop(rm_frame *frame, const program_loop *loop) {
  loop_context ctx = {
      .frame = frame,
      .loop = loop,
      .free_slots = loop->slots == RM_PROGRAM_SLOTS ? UINT32_MAX : (1u << loop->slots) - 1,
  };
  rm_parallel(loop->tiles + (loop->rest > 0), loop->work, run_tile, &ctx);
  if (ctx.status == RM_OK) return RM_OK;
  note_fault(frame, ctx.fault_call, ctx.status, -1);
  if (frame->message[0] != 0) memcpy(frame->message, ctx.message, MESSAGE_BYTES);
  return ctx.status;
}

static const char PART_OF_LOOP[] = "a part of a loop does not run by itself";

/* Drops what kernels have kept if settings have changed that they depend on. */
static void check_settings(rm_frame *frame) {
  const rm_kernels *kernels = rm_isa_kernels();
  const rm_blas_state blas = rm_blas_status();
  if (frame->kernels == kernels && frame->blas == blas) return;
  for (int32_t i = 0; i < frame->program->call_count; i++) drop_kept(&frame->calls[i]);
  frame->kernels = kernels;
  frame->blas = blas;
}

int32_t rm_run_frame(rm_frame *frame, int32_t from, int32_t to, const _Atomic(bool) *cancelled) {
  if (frame->arena == NULL && frame->program->arena_bytes > 0) {
    return note_fault(frame, from, rm_fail(RM_BAD_ARGUMENT, "the frame has no arena"), -1);
  }
  check_settings(frame);
  for (int32_t i = from; i < to; i++) {
    if (cancelled != NULL && atomic_load_explicit(cancelled, memory_order_relaxed)) {
      return note_fault(frame, i, RM_CANCELLED, -1);
    }
    const rm_kept *kept = frame->calls[i].kept;
    if (kept != NULL) {
      kept->run(kept, frame->calls[i].call.buffers);
      continue;
    }
    const int32_t loop = frame->program->calls[i].loop;
    if (loop >= 0) {
      const program_loop *of = &frame->program->loops[loop];
      const int32_t end = of->first + of->body + of->rest;
      const int32_t status = i == of->first && end <= to
                                 ? run_loop(frame, of)
                                 : note_fault(frame, i, rm_fail(RM_BAD_ARGUMENT, PART_OF_LOOP), -1);
      if (status != RM_OK) return status;
      i = end - 1;
      continue;
    }
    frame_call *call = &frame->calls[i];
    const int32_t status = rm_run_call(&call->call);
    if (status != RM_OK) return note_fault(frame, i, status, -1);
    if (!call->checks_index) continue;
    double *attributes = rm_attributes(&call->call);
    const double bad_index = attributes[0];
    attributes[0] = call->first_attribute;
    if (bad_index >= 0) return note_fault(frame, i, RM_BAD_INDEX, bad_index);
  }
  return RM_OK;
}

int32_t rm_frame_calls(const rm_frame *frame) { return frame->program->call_count; }

int32_t rm_program_run(double frame, int32_t from, int32_t to) {
  rm_frame *of = frame_at(frame);
  if (of == NULL) return no_frame();
  if (from < 0 || to < from || to > of->program->call_count) {
    return rm_fail(RM_BAD_ARGUMENT, "the program has no calls %d to %d", from, to);
  }
  return rm_run_frame(of, from, to, NULL);
}

int32_t rm_program_fault(double frame, double *numbers, void *text, int32_t length) {
  const rm_frame *of = frame_at(frame);
  if (of == NULL || of->program->call_count == 0) return rm_copy_text("", text, length);
  numbers[0] = of->fault_call;
  numbers[1] = of->bad_index;
  const char *name = rm_kernel_name(of->program->calls[of->fault_call].kernel);
  char all[MESSAGE_BYTES + 64];
  snprintf(all, sizeof all, "%s\n%s", name, of->message);
  return rm_copy_text(all, text, length);
}
