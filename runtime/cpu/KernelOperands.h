//===- KernelOperands.h - Tensors to try a kernel out ---------------------===//
#ifndef PP_RUNTIME_CPU_KERNELOPERANDS_H
#define PP_RUNTIME_CPU_KERNELOPERANDS_H

#include "cpu/KernelTensor.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace pp::runtime {

/// Memory that starts at a multiple of 64, and a page behind it, where nobody
/// should write. Throws std::bad_alloc.
class GuardedMemory {
public:
  explicit GuardedMemory(uint64_t bytes);

  char *get() const { return memory.get(); }
  /// Whether the page behind is as it was.
  bool isIntact() const;

private:
  uint64_t bytes;
  std::shared_ptr<char> memory;
};

/// A caller's tensors for a kernel that is tried out: numbers between -1 and 1,
/// or integers below the limit of a tensor, the same ones for a seed.
class KernelOperands {
public:
  /// Throws DescriptorError for types that no kernel has.
  explicit KernelOperands(std::vector<KernelTensor> tensors, unsigned seed = 1);
  void fill(unsigned seed = 1);
  /// Makes all numbers of the last tensor 0.
  void clearResult();

  void *const *getPointers() const { return pointers.data(); }
  /// Whether nothing was written behind a tensor.
  bool areIntact() const;
  /// Lets a kernel that adds do so where it adds for `other`.
  void shareResult(const KernelOperands &other);

  bool isSame(const KernelOperands &other, size_t tensor) const;
  bool operator==(const KernelOperands &other) const;

  /// Whether each byte has changed so far; nothing for tensors that are read.
  using Changes = std::vector<std::vector<char>>;
  /// Makes this `initial` again. False where a byte had changed that is not as
  /// `expected`, or that has changed before.
  bool takeBack(const KernelOperands &initial, const KernelOperands &expected,
                Changes &changes);
  /// Whether all bytes have changed that are not as `initial`.
  bool haveChanged(const KernelOperands &initial, const Changes &changes) const;

private:
  std::vector<KernelTensor> tensors;
  std::vector<GuardedMemory> memory;
  std::vector<void *> pointers;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_KERNELOPERANDS_H
