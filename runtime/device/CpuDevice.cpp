//===- CpuDevice.cpp - Everything at once, in the calling thread ----------===//
#include "device/CpuKernel.h"
#include "device/Device.h"
#include "plan/Plan.h"
#include "support/Clock.h"
#include "support/Error.h"
#include "support/SharedMemory.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <sys/mman.h>

using namespace pp::runtime;

/// Of the x86-64 and the other 64-bit architectures with pages of 4 KiB.
static constexpr uint64_t hugePage = uint64_t(2) << 20;

namespace {

class CpuEvent : public Event {
public:
  void synchronize() override {}
  bool isReached() override { return true; }
};

class CpuStream : public Stream {
public:
  void copy(void *to, const void *from, uint64_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void clear(void *to, uint64_t bytes) override { std::memset(to, 0, bytes); }
  void execute(std::function<void()> work) override { work(); }
  void record(Event &) override {}
  void wait(Event &) override {}
  void timestamp(int64_t &to) override { to = steadyNanoseconds(); }
  void count(std::atomic<uint64_t> &counter) override {
    counter.fetch_add(1, std::memory_order_relaxed);
  }
};

class CpuDevice : public Device {
public:
  std::string getName() const override { return "cpu"; }
  std::string describe() const override {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
      if (size_t colon = line.find(": ");
          line.starts_with("model name") && colon != std::string::npos)
        return line.substr(colon + 2);
    return getName();
  }
  bool isHostMemory() const override { return true; }
  DeviceMemory allocate(uint64_t bytes, const std::string &what) override {
    return allocateHostMemory(bytes, what);
  }
  std::unique_ptr<Stream> createStream() override {
    return std::make_unique<CpuStream>();
  }
  std::unique_ptr<Event> createEvent() override {
    return std::make_unique<CpuEvent>();
  }
  DeviceMemory allocateShared(uint64_t bytes, const std::string &what,
                              SharedHandle &handle) override {
    return allocateSharedHostMemory(bytes, what, handle);
  }
  DeviceMemory openShared(const SharedHandle &handle) override {
    return openSharedHostMemory(handle);
  }
  // Whoever has learnt of a record is late enough.
  std::unique_ptr<Event> createSharedEvent(SharedHandle &) override {
    return createEvent();
  }
  std::unique_ptr<Event> openSharedEvent(const SharedHandle &) override {
    return createEvent();
  }
  bool runs(const std::string &target) const override {
    return target == "cpu";
  }
  std::unique_ptr<DeviceProgram> load(const pp_pipeline &) override {
    return std::make_unique<CpuProgram>();
  }
};

} // namespace

[[noreturn]] static void hasNoGraphs() {
  failInternal("a graph on a device that has none");
}

/// Where the work runs after what is before it in the stream, and can see its
/// memory.
void Stream::read(void *to, const void *from, uint64_t bytes) {
  std::memcpy(to, from, bytes);
}

void Stream::beginCapture() { hasNoGraphs(); }
std::unique_ptr<Graph> Stream::endCapture() { hasNoGraphs(); }
void Stream::launch(Graph &) { hasNoGraphs(); }

DeviceMemory Device::allocateHost(uint64_t bytes, const std::string &what) {
  return allocateHostMemory(bytes, what);
}

[[noreturn]] static void cannotShare(const Device &device) {
  throw Error(ErrorKind::IO,
              fmt::format("the device '{}' shares nothing between processes",
                          device.getName()));
}

DeviceMemory Device::allocateShared(uint64_t, const std::string &,
                                    SharedHandle &) {
  cannotShare(*this);
}
DeviceMemory Device::openShared(const SharedHandle &) { cannotShare(*this); }
std::unique_ptr<Event> Device::createSharedEvent(SharedHandle &) {
  cannotShare(*this);
}
std::unique_ptr<Event> Device::openSharedEvent(const SharedHandle &) {
  cannotShare(*this);
}

[[noreturn]] static void hasNoLinks(const Device &device) {
  throw Error(ErrorKind::IO,
              fmt::format("the device '{}' has no links", device.getName()));
}

std::string Device::createLinkName() { hasNoLinks(*this); }
std::unique_ptr<Link> Device::openLink(const std::string &, bool) {
  hasNoLinks(*this);
}

/// Owns `memory` through a pointer to its start.
static DeviceMemory own(SharedMemory memory) {
  char *data = memory.data();
  auto shared = std::make_shared<SharedMemory>(std::move(memory));
  return {data, [shared](char *) mutable { shared.reset(); }};
}

DeviceMemory pp::runtime::allocateSharedHostMemory(uint64_t bytes,
                                                   const std::string &what,
                                                   SharedHandle &handle) {
  try {
    SharedMemory memory(bytes);
    handle = memory.getHandle();
    return own(std::move(memory));
  } catch (const Error &error) {
    throw Error(ErrorKind::IO, fmt::format("{}: {}", what, error.what()));
  }
}

DeviceMemory pp::runtime::openSharedHostMemory(const SharedHandle &handle) {
  return own(SharedMemory(handle));
}

/// Lets the system take pages of 2 MiB for all that fills such ones: fewer
/// misses of address translation, and the processor fetches ahead beyond 4 KiB.
static void wantHugePages(char *memory, uint64_t bytes) {
#if defined(MADV_HUGEPAGE)
  // Without, the memory works as well.
  (void)madvise(memory, bytes / hugePage * hugePage, MADV_HUGEPAGE);
#endif
}

DeviceMemory pp::runtime::allocateHostMemory(uint64_t bytes,
                                             const std::string &what) {
  void *pointer = nullptr;
  if (posix_memalign(&pointer, bytes < hugePage ? 64 : hugePage, bytes) != 0)
    pointer = nullptr;
  DeviceMemory memory(static_cast<char *>(pointer),
                      [](char *memory) { std::free(memory); });
  if (!memory)
    throw Error(ErrorKind::IO,
                fmt::format("{}: cannot allocate {} bytes", what, bytes));
  if (bytes >= hugePage)
    wantHugePages(memory.get(), bytes);
  // Also touches every page, so that a step never pays for page faults.
  std::memset(memory.get(), 0, bytes);
  return memory;
}

std::unique_ptr<Kernel> CpuProgram::createKernel(const PlanKernel &kernel,
                                                 std::string &error) {
  setKernelThreads(1);
  auto created = LibraryKernel::create(kernel.descriptor, error);
  if (created && created->scratchpadBytes() != kernel.scratchpad) {
    error = fmt::format(
        "'{}' wants a scratchpad of {} bytes here, but {} where "
        "the model was compiled: compile on this machine",
        kernel.descriptor, created->scratchpadBytes(), kernel.scratchpad);
    return nullptr;
  }
  return created;
}

Device &pp::runtime::getCpuDevice() {
  static CpuDevice device;
  return device;
}
