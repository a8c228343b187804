//===- MockProgram.cpp ----------------------------------------------------===//
#include "mock/MockProgram.h"
#include "cpu/LaunchDescriptor.h"
#include "mock/ThreadBlock.h"
#include "plan/Plan.h"

#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <utility>

using namespace pp::runtime;

namespace {

struct Launch {
  const pp_mock_kernel *kernel;
  int64_t grid, block;
};

/// The first fault of a block, or an empty text.
thread_local std::string reportedFault;

/// `launch`: see docs/plan-format.md.
class LaunchKernel : public Kernel {
public:
  std::vector<Launch> launches;
  size_t tensorCount = 0;
  std::vector<int64_t> numbers; // behind the scratchpad
  uint64_t scratchpadBytes = 0;
  /// Of the largest launch; starts at a multiple of 64.
  DeviceMemory shared;

  bool execute(void *const *tensors, void *scratchpad) noexcept override {
    // What a kernel reads before it writes is not 0 on a GPU either: all bits
    // set is a float that is not a number.
    if (scratchpadBytes)
      std::memset(scratchpad, 0xff, scratchpadBytes);
    arguments.assign(tensors, tensors + tensorCount);
    arguments.push_back(scratchpad);
    for (int64_t number : numbers)
      arguments.push_back(std::bit_cast<void *>(number));
    for (const Launch &launch : launches)
      // The order of blocks is not known on a GPU; this is not the one of the
      // loops that they were made of.
      for (int64_t block = launch.grid - 1; block >= 0; --block)
        if (!runBlock(launch, block))
          return false;
    return true;
  }

private:
  bool runBlock(const Launch &launch, int64_t block) {
    const pp_mock_kernel &kernel = *launch.kernel;
    if (kernel.shared_bytes)
      std::memset(shared.get(), 0xff, kernel.shared_bytes);
    std::string error;
    if (kernel.waits)
      error = ThreadBlock::ofThisThread().run(
          kernel, arguments.data(), shared.get(), block, launch.block);
    else
      for (int64_t thread = 0; thread < launch.block; ++thread)
        kernel.run(arguments.data(), shared.get(), block, thread);
    if (!reportedFault.empty())
      error = fmt::format("kernel '{}', {}", kernel.name,
                          std::exchange(reportedFault, {}));
    if (error.empty())
      return true;
    keepKernelError(std::move(error));
    return false;
  }

  std::vector<void *> arguments;
};

/// `copy`: tensors are from, to.
class CopyKernel : public Kernel {
public:
  explicit CopyKernel(uint64_t bytes) : bytes(bytes) {}
  bool execute(void *const *tensors, void *) noexcept override {
    std::memcpy(tensors[1], tensors[0], bytes);
    return true;
  }

private:
  uint64_t bytes;
};

constexpr int64_t maximum = std::numeric_limits<int32_t>::max();

} // namespace

MockProgram::MockProgram(const pp_pipeline &program) {
  for (uint64_t i = 0; i < program.mock_kernel_count; ++i)
    kernels[program.mock_kernels[i].name] = &program.mock_kernels[i];
}

static std::unique_ptr<Kernel> createLaunch(
    Descriptor &descriptor, uint64_t scratchpadBytes,
    const std::map<std::string_view, const pp_mock_kernel *> &kernels) {
  auto result = std::make_unique<LaunchKernel>();
  LaunchDescriptor shape = LaunchDescriptor::read(descriptor);
  descriptor.checkAllUsed();
  result->tensorCount = shape.tensors;
  result->numbers = shape.numbers;
  result->scratchpadBytes = scratchpadBytes;
  size_t others = 1 + shape.numbers.size();
  uint64_t sharedBytes = 0;
  for (const LaunchDescriptor::Launch &launch : shape.launches) {
    auto found = kernels.find(launch.function);
    if (found == kernels.end())
      throw DescriptorError(
          fmt::format("the binary has no '{}'", launch.function));
    const pp_mock_kernel *kernel = found->second;
    if (kernel->argument_count != shape.tensors + others)
      throw DescriptorError(
          fmt::format("'{}' takes {} arguments, expected {} tensors and {} "
                      "more",
                      kernel->name, kernel->argument_count, shape.tensors,
                      others == 1 ? "one" : "three"));
    result->launches.push_back({kernel, launch.grid, launch.block});
    sharedBytes = std::max(sharedBytes, kernel->shared_bytes);
  }
  if (sharedBytes)
    result->shared =
        allocateHostMemory((sharedBytes + 63) / 64 * 64, "shared memory");
  return result;
}

std::unique_ptr<Kernel> MockProgram::createKernel(const PlanKernel &kernel,
                                                  std::string &error) {
  try {
    Descriptor descriptor(kernel.descriptor);
    if (descriptor.getKind() == "launch")
      return createLaunch(descriptor, kernel.scratchpad, kernels);
    if (descriptor.getKind() == "copy") {
      auto result = std::make_unique<CopyKernel>(
          descriptor.getInteger("bytes", 0, maximum));
      descriptor.checkAllUsed();
      return result;
    }
  } catch (const DescriptorError &e) {
    error = fmt::format("kernel '{}': {}", kernel.descriptor, e.what());
    return nullptr;
  }
  return CpuProgram::createKernel(kernel, error);
}

void pp_mock_fault(int32_t fault, int64_t block, int64_t thread) {
  if (reportedFault.empty())
    reportedFault = fmt::format(
        "block {}, thread {}: {}", block, thread,
        fault == PP_FAULT_MISALIGNED
            ? "accesses a vector that does not start at a multiple of its size"
            : "accesses memory outside of its tensor");
}
