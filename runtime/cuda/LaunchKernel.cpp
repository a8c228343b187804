//===- LaunchKernel.cpp - `launch` and `copy` -----------------------------===//
#include "CudaKernel.h"
#include "Module.h"

#include <charconv>
#include <vector>

using namespace pp::cuda;
using pp::runtime::DescriptorError;

namespace {

struct Launch {
  CUfunction function;
  unsigned grid, block;
};

class LaunchKernel : public Kernel {
public:
  LaunchKernel(Context &context, std::vector<Launch> launches, size_t tensors)
      : context(context), launches(std::move(launches)), tensors(tensors) {}

  void execute(CUstream stream, void *const *pointers,
               void *scratchpad) override {
    const Driver &driver = context.enter();
    std::vector<void *> arguments;
    for (size_t i = 0; i < tensors; ++i)
      arguments.push_back(asParameter(pointers[i]));
    arguments.push_back(asParameter(scratchpad));
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
};

/// The optimizer's kernel, which takes the number of elements.
class CountedKernel : public Kernel {
public:
  CountedKernel(Context &context, Launch launch, int64_t count)
      : context(context), launch(launch), count(count) {}

  void execute(CUstream stream, void *const *pointers, void *) override {
    const Driver &driver = context.enter();
    void *arguments[] = {asParameter(pointers[0]), asParameter(pointers[1]),
                         asParameter(pointers[2]), asParameter(pointers[3]),
                         &count};
    driver.check(driver.cuLaunchKernel(launch.function, launch.grid, 1, 1,
                                       launch.block, 1, 1, 0, stream, arguments,
                                       nullptr),
                 "cuLaunchKernel");
  }

private:
  Context &context;
  Launch launch;
  int64_t count;
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

/// A number that may be larger than what Descriptor::getInteger takes.
static int64_t getCount(Descriptor &descriptor, const std::string &key) {
  const std::string &text = descriptor.getText(key);
  int64_t value = 0;
  const char *end = text.data() + text.size();
  auto [next, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || next != end || value < 0)
    throw DescriptorError(key + "=" + text +
                          ": expected an integer of at least 0");
  return value;
}

static std::unique_ptr<Kernel> createCounted(Descriptor &descriptor,
                                             const KernelInputs &inputs,
                                             const std::string &name) {
  if (descriptor.getInteger("tensors", 4, 4) != 4)
    return nullptr;
  int64_t count = getCount(descriptor, "count");
  int64_t block = descriptor.getInteger("blocks", 1, 1024);
  int64_t grid = (count + block - 1) / block;
  if (count == 0 || grid > INT32_MAX)
    throw DescriptorError("count=" + std::to_string(count) +
                          ": expected 1 to 2^31 blocks");
  Launch launch{inputs.code->getFunction(name + "_0"),
                static_cast<unsigned>(grid), static_cast<unsigned>(block)};
  return std::make_unique<CountedKernel>(inputs.context, launch, count);
}

std::unique_ptr<Kernel> pp::cuda::createLaunch(Descriptor &descriptor,
                                               const KernelInputs &inputs) {
  std::string name = descriptor.getText("name");
  if (!inputs.code)
    throw Failure(Failure::Internal, "the program has no device code");
  if (descriptor.has("count"))
    return createCounted(descriptor, inputs, name);
  int64_t tensors = descriptor.getInteger("tensors", 0, 1 << 20);
  std::vector<Launch> launches;
  // Kernels that do nothing have neither.
  if (descriptor.has("grids") || descriptor.has("blocks")) {
    auto grids = descriptor.getDims("grids");
    auto blocks = descriptor.getDims("blocks", grids.size(), 1);
    for (size_t i = 0; i < grids.size(); ++i)
      launches.push_back(
          {inputs.code->getFunction(name + "_" + std::to_string(i)),
           static_cast<unsigned>(grids[i]), static_cast<unsigned>(blocks[i])});
  }
  return std::make_unique<LaunchKernel>(inputs.context, std::move(launches),
                                        tensors);
}

std::unique_ptr<Kernel> pp::cuda::createCopy(Descriptor &descriptor,
                                             const KernelInputs &inputs) {
  return std::make_unique<CopyKernel>(
      inputs.context, static_cast<uint64_t>(getCount(descriptor, "bytes")));
}
