//===- Kernel.h - What pp_execute_kernel calls ----------------------------===//
#ifndef PP_RUNTIME_KERNEL_KERNEL_H
#define PP_RUNTIME_KERNEL_KERNEL_H

#include <span>

namespace pp::runtime {

/// One entry of a stage's kernel table. Generated code holds it as a `void *`
/// that was made from a `Kernel *`.
class Kernel {
public:
  virtual ~Kernel() = default;

  /// Runs the kernel, or, on a device with streams, enqueues it on the stream
  /// whose work the calling thread executes (Stream::execute). `tensors` are
  /// in the order that the descriptor's kind documents; `scratchpad` has the
  /// bytes that the plan states. Returns false where it failed; the reason is
  /// kept for takeKernelError().
  virtual bool execute(void *const *tensors, void *scratchpad) noexcept = 0;

  /// Runs a kernel that adds to its last tensor several times: `tensors` has
  /// those of each run, the last one of which is the same. Instead of the first
  /// run, `first` writes, unless it is null. The bits are those of one run
  /// after the other, which is what this does.
  virtual bool executeTogether(std::span<void *const *const> tensors,
                               Kernel *first, void *scratchpad) noexcept {
    bool isDone = true;
    for (void *const *own : tensors) {
      isDone &= (first ? first : this)->execute(own, scratchpad);
      first = nullptr;
    }
    return isDone;
  }
};

} // namespace pp::runtime

#endif // PP_RUNTIME_KERNEL_KERNEL_H
