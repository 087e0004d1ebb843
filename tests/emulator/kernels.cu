/* Kernels for the test of the emulator: sound ones, and ones with a planted fault. */

#define KERNEL extern "C" __global__ void

__device__ float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

/* The sum of a block, through shared memory and shuffles. */
template <int N> __device__ float block_sum(float x) {
  __shared__ float parts[32];
  x = warp_sum(x);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = threadIdx.x < N / 32 ? parts[threadIdx.x] : 0;
  if (threadIdx.x < 32) x = warp_sum(x);
  __syncthreads();
  return x;
}

KERNEL __launch_bounds__(256) sums(float *out, const float *a, long long n) {
  float x = 0;
  for (long long i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * gridDim.x) x += a[i];
  x = block_sum<256>(x);
  if (threadIdx.x == 0) out[blockIdx.x] = x;
}

/* Backwards within a block of 48. */
KERNEL backwards(int *out, const int *a, double scale) {
  __shared__ int tile[48];
  int at = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  tile[threadIdx.x] = a[at];
  __syncthreads();
  out[at] = (int)(tile[blockDim.x - 1 - threadIdx.x] * scale);
}

/* Transposes 64 x 64. */
KERNEL transposed(float *out, const float *a) {
  __shared__ float tile[32][33];
  for (int y = (int)threadIdx.y; y < 32; y += (int)blockDim.y) {
    tile[y][threadIdx.x] = a[(blockIdx.y * 32 + (unsigned)y) * 64 + blockIdx.x * 32 + threadIdx.x];
  }
  __syncthreads();
  for (int y = (int)threadIdx.y; y < 32; y += (int)blockDim.y) {
    unsigned row = blockIdx.x * 32 + (unsigned)y;
    out[row * 64 + blockIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][y];
  }
}

/* Everything lanes do together, one number each. */
KERNEL lanes(unsigned *out, int *counts) {
  unsigned i = threadIdx.x % 32, *to = out + 16 * threadIdx.x;
  to[0] = __shfl_sync(0xffffffffu, i, 5);
  to[1] = __shfl_up_sync(0xffffffffu, i, 3);
  to[2] = __shfl_down_sync(0xffffffffu, i, 3);
  to[3] = __shfl_xor_sync(0xffffffffu, i, 8, 16);
  to[4] = __shfl_sync(0xffffffffu, i, 9, 8);
  to[5] = __ballot_sync(0xffffffffu, i % 3 == 0);
  to[6] = (unsigned)__any_sync(0xffffffffu, i == 40);
  to[7] = (unsigned)__all_sync(0xffffffffu, i < 32);
  to[8] = __match_any_sync(0xffffffffu, i / 8);
  to[9] = (unsigned)__reduce_max_sync(0xffffffffu, -(int)i);
  to[10] = (unsigned)__syncthreads_count(i < 5);
  to[11] = (unsigned)(__shfl_xor_sync(0xffffffffu, (double)i, 1) * 2);
  to[12] = (unsigned)__popc(__activemask());
  to[13] = i < 16 ? __ballot_sync(0xffffu, i % 2) : 7;
  __syncwarp();
  to[14] = __umulhi(1u << 31, i);
  to[15] = (unsigned)__syncthreads_or(i == 31);
  atomicAdd(&counts[i % 4], 1);
  atomicMax(&counts[4], (int)threadIdx.x);
  atomicCAS(&counts[5], 0, (int)threadIdx.x + 1);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* Neighbours read what may not be written yet; which order shows it depends on `side`. */
KERNEL no_barrier(float *out, long long side) {
  __shared__ alignas(16) float tile[64];
  tile[threadIdx.x] = (float)threadIdx.x;
  out[threadIdx.x] = tile[(threadIdx.x + (unsigned)side) % 64];
}

/* Two sums in the same place, without a barrier between. */
KERNEL used_again(float *out) {
  __shared__ float room[2];
  for (int i = 0; i < 2; i++) {
    float x = warp_sum((float)(i + 1));
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
    __syncthreads();
    out[64 * i + threadIdx.x] = room[0] + room[1];
  }
}

KERNEL divergent(float *out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = 1;
  if (threadIdx.x < 32) {
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
  } else {
    __syncthreads();
  }
}

KERNEL early_return(float *out, long long n) {
  if (threadIdx.x >= n) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

KERNEL early_lane(unsigned *out, long long n) {
  if (threadIdx.x >= n) return;
  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, threadIdx.x, 1);
}

KERNEL read_at(float *out, const float *a, long long i) { out[0] = a[i]; }
KERNEL write_at(float *out, long long i) { out[i] = 1; }

KERNEL beyond_tile(float *out, long long i) {
  __shared__ float tile[8];
  tile[i] = 1;
  out[0] = tile[i];
}

KERNEL misaligned(float *out, const float *a, long long i) {
  float4 x = __ldg((const float4 *)(a + i));
  out[0] = x.w;
}

struct alignas(16) pack {
  float at[4];
};

KERNEL misaligned_store(float *out, long long i) {
  pack four = {{1, 2, 3, (float)i}};
  *(pack *)__builtin_assume_aligned(out + i, sizeof four) = four;
}

KERNEL divided(int *out, long long by) { out[0] = 7 / (int)by; }
KERNEL deep(float *out, long long n) {
  volatile float many[100000];
  for (long long i = 0; i < n; i++) many[i * 7 % 100000] = (float)i;
  out[0] = many[n % 100000];
}
