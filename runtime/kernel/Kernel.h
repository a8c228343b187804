//===- Kernel.h - What pp_execute_kernel calls ----------------------------===//
#ifndef PP_RUNTIME_KERNEL_KERNEL_H
#define PP_RUNTIME_KERNEL_KERNEL_H

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
};

} // namespace pp::runtime

#endif // PP_RUNTIME_KERNEL_KERNEL_H
