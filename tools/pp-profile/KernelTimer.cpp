//===- KernelTimer.cpp - Times a function on cold buffers -----------------===//

#include "KernelTimer.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <chrono>
#include <memory>

using namespace pp;

namespace {

/// One set of buffers of a kernel, filled with numbers.
class Buffers {
public:
  Buffers(const TensorSizes &sizes, uint64_t scratchpad) {
    uint64_t total = 0;
    auto take = [&](uint64_t bytes) {
      uint64_t offset = total;
      total += llvm::alignTo(std::max<uint64_t>(bytes, 64), 64);
      return offset;
    };
    std::vector<uint64_t> offsets;
    for (uint64_t size : sizes)
      offsets.push_back(take(size));
    uint64_t scratch = take(scratchpad);
    storage.resize((total + 64) / sizeof(float));
    // The same numbers in every run: only their kind matters to the time.
    for (size_t i = 0; i < storage.size(); ++i)
      storage[i] = static_cast<float>(i % 251) / 125.0F - 1.0F;
    void *base = storage.data();
    size_t space = storage.size() * sizeof(float);
    base = std::align(64, total, base, space);
    for (uint64_t offset : offsets)
      tensors.push_back(static_cast<char *>(base) + offset);
    scratchpadAddress = static_cast<char *>(base) + scratch;
  }

  std::vector<void *> tensors;
  void *scratchpadAddress;

private:
  std::vector<float> storage;
};

} // namespace

double pp::timeKernel(const TensorSizes &sizes, uint64_t scratchpadBytes,
                      unsigned repetitions,
                      llvm::function_ref<void(void **, void *)> run) {
  uint64_t bytes = scratchpadBytes;
  for (uint64_t size : sizes)
    bytes += size;
  // More than the last-level cache in all, but not without end.
  constexpr uint64_t coldBytes = 64 << 20;
  size_t sets =
      std::clamp<uint64_t>(coldBytes / std::max<uint64_t>(bytes, 1), 2, 64);
  std::vector<Buffers> buffers;
  for (size_t i = 0; i < sets; ++i)
    buffers.emplace_back(sizes, scratchpadBytes);
  run(buffers[0].tensors.data(), buffers[0].scratchpadAddress);
  std::vector<double> seconds;
  for (unsigned repetition = 0; repetition < std::max(1u, repetitions);
       ++repetition) {
    Buffers &set = buffers[(repetition + 1) % sets];
    auto start = std::chrono::steady_clock::now();
    run(set.tensors.data(), set.scratchpadAddress);
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2,
                   seconds.end());
  return seconds[seconds.size() / 2];
}
