//===- LaunchKernel.cpp - `launch` and `copy` -----------------------------===//
#include "CudaKernel.h"
#include "Module.h"
#include "cpu/LaunchDescriptor.h"

#include <vector>

using namespace pp::cuda;
using pp::runtime::LaunchDescriptor;

namespace {

struct Launch {
  CUfunction function;
  unsigned grid, block;
};

class LaunchKernel : public Kernel {
public:
  LaunchKernel(Context &context, std::vector<Launch> launches, size_t tensors,
               std::vector<int64_t> numbers)
      : context(context), launches(std::move(launches)), tensors(tensors),
        numbers(std::move(numbers)) {}

  void execute(CUstream stream, void *const *pointers,
               void *scratchpad) override {
    const Driver &driver = context.enter();
    std::vector<void *> arguments;
    for (size_t i = 0; i < tensors; ++i)
      arguments.push_back(asParameter(pointers[i]));
    arguments.push_back(asParameter(scratchpad));
    for (int64_t &number : numbers)
      arguments.push_back(&number);
    for (const Launch &launch : launches)
      driver.check(driver.cuLaunchKernel(launch.function, launch.grid, 1, 1,
                                         launch.block, 1, 1, 0, stream,
                                         arguments.data(), nullptr),
                   "cuLaunchKernel");
  }

private:
  Context &context;
  std::vector<Launch> launches;
  size_t tensors;
  std::vector<int64_t> numbers; // behind the scratchpad
};

class CopyKernel : public Kernel {
public:
  CopyKernel(Context &context, uint64_t bytes)
      : context(context), bytes(bytes) {}

  void execute(CUstream stream, void *const *pointers, void *) override {
    const Driver &driver = context.enter();
    driver.check(driver.cuMemcpyAsync(
                     reinterpret_cast<CUdeviceptr>(pointers[1]),
                     reinterpret_cast<CUdeviceptr>(pointers[0]), bytes, stream),
                 "cuMemcpyAsync");
  }

private:
  Context &context;
  uint64_t bytes;
};

} // namespace

std::unique_ptr<Kernel> pp::cuda::createLaunch(Descriptor &descriptor,
                                               const KernelInputs &inputs) {
  LaunchDescriptor shape = LaunchDescriptor::read(descriptor);
  if (!inputs.code)
    throw Failure(Failure::Internal, "the program has no device code");
  std::vector<Launch> launches;
  for (const LaunchDescriptor::Launch &launch : shape.launches)
    launches.push_back({inputs.code->getFunction(launch.function),
                        static_cast<unsigned>(launch.grid),
                        static_cast<unsigned>(launch.block)});
  return std::make_unique<LaunchKernel>(inputs.context, std::move(launches),
                                        shape.tensors,
                                        std::move(shape.numbers));
}

std::unique_ptr<Kernel> pp::cuda::createCopy(Descriptor &descriptor,
                                             const KernelInputs &inputs) {
  return std::make_unique<CopyKernel>(
      inputs.context, static_cast<uint64_t>(getCount(descriptor, "bytes")));
}
