/*
 * What is replaced while a kernel's source is preprocessed. Calls that wait carry their site, so
 * that threads which wait at different places are told apart. __global__, __shared__ and
 * __launch_bounds__ stay: nvrtc.c looks for them in the text that comes out.
 */
#define RM_EMULATED 1

#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __NVCC__ 1

#define EMU_SITE (__COUNTER__ * 65536 + __LINE__ % 65536)

#define __syncthreads() ((void)emu_use->barrier(EMU_SYNC, EMU_SITE, 0))
#define __syncthreads_or(x) ((int)emu_use->barrier(EMU_SYNC_OR, EMU_SITE, (x) != 0))
#define __syncthreads_and(x) ((int)emu_use->barrier(EMU_SYNC_AND, EMU_SITE, (x) != 0))
#define __syncthreads_count(x) ((int)emu_use->barrier(EMU_SYNC_COUNT, EMU_SITE, (x) != 0))

#define __syncwarp(...) emu_sync_warp(EMU_SITE, ##__VA_ARGS__)
#define __shfl_sync(...) emu_shuffle(EMU_SHUFFLE, EMU_SITE, __VA_ARGS__)
#define __shfl_up_sync(...) emu_shuffle(EMU_SHUFFLE_UP, EMU_SITE, __VA_ARGS__)
#define __shfl_down_sync(...) emu_shuffle(EMU_SHUFFLE_DOWN, EMU_SITE, __VA_ARGS__)
#define __shfl_xor_sync(...) emu_shuffle(EMU_SHUFFLE_XOR, EMU_SITE, __VA_ARGS__)
#define __ballot_sync(mask, x) emu_ballot(EMU_SITE, mask, x)
#define __any_sync(mask, x) ((int)(emu_ballot(EMU_SITE, mask, x) != 0))
#define __all_sync(mask, x) ((int)(emu_ballot(EMU_SITE, mask, !(x)) == 0))
#define __match_any_sync(mask, x) emu_match(EMU_SITE, mask, x)
#define __reduce_add_sync(mask, x) emu_reduce(EMU_REDUCE_ADD, EMU_SITE, mask, x)
#define __reduce_min_sync(mask, x) emu_reduce(EMU_REDUCE_MIN, EMU_SITE, mask, x)
#define __reduce_max_sync(mask, x) emu_reduce(EMU_REDUCE_MAX, EMU_SITE, mask, x)
#define __reduce_and_sync(mask, x) emu_reduce(EMU_REDUCE_AND, EMU_SITE, mask, x)
#define __reduce_or_sync(mask, x) emu_reduce(EMU_REDUCE_OR, EMU_SITE, mask, x)
#define __reduce_xor_sync(mask, x) emu_reduce(EMU_REDUCE_XOR, EMU_SITE, mask, x)
