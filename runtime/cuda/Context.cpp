//===- Context.cpp --------------------------------------------------------===//
#include "Context.h"

#include <algorithm>
#include <bit>

using namespace pp::cuda;

static CUdevice getDevice(const Driver &driver, unsigned number) {
  int count = 0;
  driver.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (count == 0)
    throw Failure(Failure::Usage,
                  "this machine has no GPU that the NVIDIA driver can use; "
                  "check nvidia-smi and CUDA_VISIBLE_DEVICES");
  if (number >= static_cast<unsigned>(count))
    throw Failure(Failure::Usage,
                  "there is no GPU number " + std::to_string(number) +
                      ": this machine has " + std::to_string(count) +
                      ", counted from 0");
  CUdevice device = 0;
  driver.check(driver.cuDeviceGet(&device, static_cast<int>(number)),
               "cuDeviceGet");
  return device;
}

Context::Context(unsigned number)
    : driver(getDriver()), device(getDevice(driver, number)) {
  char text[256] = "";
  driver.check(driver.cuDeviceGetName(text, sizeof(text), device),
               "cuDeviceGetName");
  name = text;
  auto get = [&](CUdevice_attribute attribute) {
    int value = 0;
    driver.check(driver.cuDeviceGetAttribute(&value, attribute, device),
                 "cuDeviceGetAttribute");
    return value;
  };
  architecture = 10 * get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                 get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  streamWrites = get(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) != 0;
  driver.check(driver.cuDevicePrimaryCtxRetain(&context, device),
               "cuDevicePrimaryCtxRetain");
}

Context::~Context() {
  if (tryEnter())
    for (const auto &[memory, bytes] : pinnedSizes)
      driver.cuMemFreeHost(memory);
  driver.cuDevicePrimaryCtxRelease(device);
}

const Driver &Context::enter() const {
  driver.check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
  return driver;
}

const Driver *Context::tryEnter() const noexcept {
  return driver.cuCtxSetCurrent(context) == CUDA_SUCCESS ? &driver : nullptr;
}

void *Context::allocate(uint64_t bytes) {
  enter();
  bytes = std::max<uint64_t>(bytes, 64);
  CUdeviceptr memory = 0;
  CUresult result = driver.cuMemAlloc(&memory, bytes);
  if (result != CUDA_SUCCESS) {
    size_t available = 0, total = 0;
    driver.cuMemGetInfo(&available, &total);
    throw Failure(Failure::System, "cannot allocate " + std::to_string(bytes) +
                                       " bytes on " + name + ", " +
                                       std::to_string(available) + " of " +
                                       std::to_string(total) +
                                       " are free: " + driver.describe(result));
  }
  // Not on the default stream, which the others do not wait for.
  CUstream stream = nullptr;
  try {
    driver.check(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING),
                 "cuStreamCreate");
    driver.check(driver.cuMemsetD8Async(memory, 0, bytes, stream),
                 "cuMemsetD8Async");
    driver.check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
  } catch (...) {
    if (stream)
      driver.cuStreamDestroy(stream);
    driver.cuMemFree(memory);
    throw;
  }
  driver.cuStreamDestroy(stream);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver's addresses
  return reinterpret_cast<void *>(memory);
}

void Context::free(void *memory) noexcept {
  if (memory && tryEnter())
    driver.cuMemFree(reinterpret_cast<CUdeviceptr>(memory));
}

void *Context::allocateShared(uint64_t bytes, CUipcMemHandle &handle) {
  // The handle of a smaller block would be that of its whole page.
  constexpr uint64_t page = uint64_t(2) << 20;
  void *memory = allocate((bytes + page - 1) / page * page);
  CUresult result =
      driver.cuIpcGetMemHandle(&handle, reinterpret_cast<CUdeviceptr>(memory));
  if (result != CUDA_SUCCESS) {
    free(memory);
    throw Failure(Failure::System,
                  "cuIpcGetMemHandle: " + std::string(driver.describe(result)));
  }
  return memory;
}

void *Context::openShared(const CUipcMemHandle &handle) {
  enter();
  CUdeviceptr memory = 0;
  CUresult result = driver.cuIpcOpenMemHandle(
      &memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  if (result != CUDA_SUCCESS)
    throw Failure(Failure::System, "cuIpcOpenMemHandle: " +
                                       std::string(driver.describe(result)));
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver's addresses
  return reinterpret_cast<void *>(memory);
}

void Context::closeShared(void *memory) noexcept {
  if (memory && tryEnter())
    driver.cuIpcCloseMemHandle(reinterpret_cast<CUdeviceptr>(memory));
}

void *Context::takePinned(uint64_t bytes) {
  uint64_t size = std::bit_ceil(std::max<uint64_t>(bytes, 256));
  std::lock_guard<std::mutex> lock(mutex);
  if (auto it = pinnedBlocks.find(size); it != pinnedBlocks.end()) {
    void *memory = it->second;
    pinnedBlocks.erase(it);
    return memory;
  }
  enter();
  void *memory = nullptr;
  driver.check(driver.cuMemHostAlloc(&memory, size,
                                     CU_MEMHOSTALLOC_PORTABLE |
                                         CU_MEMHOSTALLOC_DEVICEMAP),
               "cuMemHostAlloc");
  pinnedSizes[memory] = size;
  return memory;
}

void Context::givePinned(void *memory) noexcept {
  if (!memory)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  pinnedBlocks.emplace(pinnedSizes.at(memory), memory);
}
