/* CUDA: to be written. */
#include "internal.h"

int32_t rm_cuda_open(const void *folder, double *numbers) {
  (void)folder, (void)numbers;
  return rm_fail(RM_NOT_FOUND, "not written yet");
}
int32_t rm_cuda_info(int32_t device, void *buffer, int32_t length) {
  (void)device;
  return rm_copy_text("", buffer, length);
}
int32_t rm_cuda_memory(int32_t what, int32_t device, double *numbers, void *host) {
  (void)what, (void)device, (void)numbers, (void)host;
  return rm_fail(RM_NOT_FOUND, "not written yet");
}
int32_t rm_cuda_compile(int32_t device, const void *source, const void *names, double *handles) {
  (void)device, (void)source, (void)names, (void)handles;
  return rm_fail(RM_NOT_FOUND, "not written yet");
}
int32_t rm_cuda_launch(int32_t device, const double *call, const void *arguments) {
  (void)device, (void)call, (void)arguments;
  return rm_fail(RM_NOT_FOUND, "not written yet");
}
int32_t rm_cuda_matmul(int32_t device, int32_t dtype, const double *plan) {
  (void)device, (void)dtype, (void)plan;
  return rm_fail(RM_NOT_FOUND, "not written yet");
}
int32_t rm_cuda_control(int32_t what, int32_t device, double *numbers) {
  (void)what, (void)device, (void)numbers;
  return rm_fail(RM_NOT_FOUND, "not written yet");
}
