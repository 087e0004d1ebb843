/*
 * The exported functions of CUDA.
 */
#include "cuda_internal.h"
#if defined(__APPLE__)

static int32_t none(void) { return rm_fail(RM_NOT_FOUND, "CUDA does not exist on macOS"); }

int32_t rm_cuda_open(const void *folder, double *numbers) {
  (void)folder, (void)numbers;
  return none();
}
int32_t rm_cuda_info(int32_t device, void *buffer, int32_t length) {
  (void)device;
  none();
  return rm_copy_text("", buffer, length);
}
int32_t rm_cuda_memory(int32_t what, int32_t device, double *numbers, void *host) {
  (void)what, (void)device, (void)numbers, (void)host;
  return none();
}
int32_t rm_cuda_compile(int32_t device, const void *source, const void *names, double *handles) {
  (void)device, (void)source, (void)names, (void)handles;
  return none();
}
int32_t rm_cuda_launch(int32_t device, const double *call, const void *arguments) {
  (void)device, (void)call, (void)arguments;
  return none();
}
int32_t rm_cuda_matmul(int32_t device, int32_t dtype, const double *plan) {
  (void)device, (void)dtype, (void)plan;
  return none();
}
int32_t rm_cuda_fft(int32_t device, const double *call) {
  (void)device, (void)call;
  return none();
}
int32_t rm_cuda_linalg(int32_t device, double *call) {
  (void)device, (void)call;
  return none();
}
int32_t rm_cuda_nccl(int32_t what, int32_t device, double *numbers, void *bytes) {
  (void)what, (void)device, (void)numbers, (void)bytes;
  return none();
}
int32_t rm_cuda_control(int32_t what, int32_t device, double *numbers) {
  (void)what, (void)device, (void)numbers;
  return none();
}

#else

int32_t rm_cuda_open(const void *folder, double *numbers) {
  return rm_cuda_open_devices(folder, numbers);
}

int32_t rm_cuda_info(int32_t device, void *buffer, int32_t length) {
  return rm_cuda_describe_device(device, buffer, length);
}

/* Executes `call` as a counted call on one device and possibly another one. */
#define RM_LOCKED_CALL(index, other, call) \
  do { \
    const int32_t other_ = (other); \
    RM_TRY(rm_call_enter(index, other_)); \
    const int32_t status_ = (call); \
    rm_call_leave(index); \
    rm_call_leave(other_); \
    return status_; \
  } while (0)

enum { NO_OTHER = -1 };

int32_t rm_cuda_memory(int32_t what, int32_t index, double *numbers, void *host) {
  const bool copies = what == RM_CUDA_COPY && numbers != NULL;
  RM_LOCKED_CALL(index, copies ? (int32_t)numbers[3] : NO_OTHER,
                 rm_cuda_memory_locked(what, index, numbers, host));
}

int32_t rm_cuda_compile(int32_t index, const void *source, const void *names, double *handles) {
  RM_LOCKED_CALL(index, NO_OTHER, rm_cuda_compile_locked(index, source, names, handles));
}

int32_t rm_cuda_launch(int32_t index, const double *call, const void *arguments) {
  RM_LOCKED_CALL(index, NO_OTHER, rm_cuda_launch_locked(index, call, arguments));
}

int32_t rm_cuda_matmul(int32_t index, int32_t dtype, const double *plan) {
  RM_LOCKED_CALL(index, NO_OTHER, rm_cuda_matmul_locked(index, dtype, plan));
}

int32_t rm_cuda_fft(int32_t index, const double *call) {
  RM_LOCKED_CALL(index, NO_OTHER, rm_cuda_fft_locked(index, call));
}

int32_t rm_cuda_linalg(int32_t index, double *call) {
  RM_LOCKED_CALL(index, NO_OTHER, rm_cuda_linalg_locked(index, call));
}

int32_t rm_cuda_nccl(int32_t what, int32_t index, double *numbers, void *bytes) {
  /* The others use no stream, and may wait long. */
  if (what != RM_CUDA_NCCL_CALL) return rm_nccl(what, index, numbers, bytes);
  RM_LOCKED_CALL(index, NO_OTHER, rm_nccl(what, index, numbers, bytes));
}

static int32_t control(int32_t what, int32_t index, double *numbers) {
  RM_LOCKED_CALL(index, NO_OTHER, rm_cuda_control_locked(what, index, numbers));
}

int32_t rm_cuda_control(int32_t what, int32_t index, double *numbers) {
  if (what != RM_CUDA_CAPTURE_BEGIN) return control(what, index, numbers);
  RM_TRY(rm_cuda_check_index(index));
  /* Before the call is counted: a thread that waits for its turn must not block the one that has
   * it. */
  RM_TRY(rm_capture_enter(index));
  const int32_t status = control(what, index, numbers);
  if (status != RM_OK) rm_capture_leave(index);
  return status;
}
#endif
