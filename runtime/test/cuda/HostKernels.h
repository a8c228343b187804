//===- HostKernels.h - DeviceKernels.inc on the processor -----------------===//
//
// The same source, with a block's threads as threads. For one block at a time.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_TEST_CUDA_HOSTKERNELS_H
#define PP_RUNTIME_TEST_CUDA_HOSTKERNELS_H

#include <barrier>
#include <bit>
#include <cmath>
#include <thread>
#include <vector>

namespace hostkernels {

struct Index {
  unsigned x;
};
inline thread_local Index threadIdx, blockIdx, blockDim, gridDim;
inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline unsigned __float_as_uint(float value) {
  return std::bit_cast<unsigned>(value);
}
inline std::barrier<> *blockBarrier = nullptr;
inline void __syncthreads() { blockBarrier->arrive_and_wait(); }

#define __device__
#define __global__
#define __shared__ static
#define PP_DEVICE_CODE(...) __VA_ARGS__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include "cuda/DeviceKernels.inc"
#pragma GCC diagnostic pop
#undef PP_DEVICE_CODE
#undef __shared__
#undef __global__
#undef __device__

/// Runs a kernel whose threads do not wait for each other.
template <typename Kernel, typename... Args>
void launch(Kernel kernel, unsigned grid, unsigned block, Args... args) {
  blockDim.x = block;
  gridDim.x = grid;
  for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < block; ++threadIdx.x)
      kernel(args...);
}

/// Runs a kernel whose threads do.
template <typename Kernel, typename... Args>
void launchTogether(Kernel kernel, unsigned grid, unsigned block,
                    Args... args) {
  std::barrier<> barrier(block);
  blockBarrier = &barrier;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < block; ++t)
    threads.emplace_back([&, t] {
      blockDim.x = block;
      threadIdx.x = t;
      for (unsigned b = 0; b < grid; ++b) {
        blockIdx.x = b;
        kernel(args...);
        // The next block has other shared memory.
        __syncthreads();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace hostkernels

#endif // PP_RUNTIME_TEST_CUDA_HOSTKERNELS_H
