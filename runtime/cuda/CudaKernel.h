//===- CudaKernel.h - One entry of a kernel table -------------------------===//
#ifndef PP_RUNTIME_CUDA_CUDAKERNEL_H
#define PP_RUNTIME_CUDA_CUDAKERNEL_H

#include "Context.h"
#include "cpu/Descriptor.h"

#include <cstdint>
#include <memory>

namespace pp::cuda {

class Libraries;
class Module;
using runtime::Descriptor;

/// Gives its work to a stream. The tensors are those of the descriptor's kind
/// in docs/plan-format.md, on the device.
class Kernel {
public:
  virtual ~Kernel() = default;
  virtual void execute(CUstream stream, void *const *tensors,
                       void *scratchpad) = 0;
};

/// A pointer as cuLaunchKernel takes it: where it is.
inline void *asParameter(void *const &pointer) {
  return static_cast<void *>(const_cast<void **>(&pointer));
}

/// What a kernel is made from.
struct KernelInputs {
  Context &context;
  Libraries &libraries;
  Module *code; // of the program; null where it has none
  uint64_t scratchpad;
};

// One function for each group of kinds. They throw Failure, or DescriptorError
// for a descriptor that is wrong in itself.
std::unique_ptr<Kernel> createLaunch(Descriptor &descriptor,
                                     const KernelInputs &inputs);
std::unique_ptr<Kernel> createCopy(Descriptor &descriptor,
                                   const KernelInputs &inputs);
std::unique_ptr<Kernel> createMatmul(Descriptor &descriptor,
                                     const KernelInputs &inputs);
std::unique_ptr<Kernel> createConv(Descriptor &descriptor,
                                   const KernelInputs &inputs);
std::unique_ptr<Kernel> createAttention(Descriptor &descriptor,
                                        const KernelInputs &inputs);
std::unique_ptr<Kernel> createPool(Descriptor &descriptor,
                                   const KernelInputs &inputs);
std::unique_ptr<Kernel> createBatchNorm(Descriptor &descriptor,
                                        const KernelInputs &inputs);
std::unique_ptr<Kernel> createCheckFinite(Descriptor &descriptor,
                                          const KernelInputs &inputs);
std::unique_ptr<Kernel> createLossScale(Descriptor &descriptor,
                                        const KernelInputs &inputs);
std::unique_ptr<Kernel> createAdd(Descriptor &descriptor,
                                  const KernelInputs &inputs);

/// Makes the kernel of a descriptor's text. Throws Failure.
std::unique_ptr<Kernel> createKernel(const char *text,
                                     const KernelInputs &inputs);

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_CUDAKERNEL_H
