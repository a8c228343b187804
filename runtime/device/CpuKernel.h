//===- CpuKernel.h - What devices with host memory share ------------------===//
#ifndef PP_RUNTIME_DEVICE_CPUKERNEL_H
#define PP_RUNTIME_DEVICE_CPUKERNEL_H

#include "cpu/LibraryKernel.h"
#include "device/Device.h"

namespace pp::runtime {

/// Device::allocate from the heap.
DeviceMemory allocateHostMemory(uint64_t bytes, const std::string &what);

/// Device::allocateShared and openShared with shared memory.
DeviceMemory allocateSharedHostMemory(uint64_t bytes, const std::string &what,
                                      SharedHandle &handle);
DeviceMemory openSharedHostMemory(const SharedHandle &handle);

/// A program for the processor: its kernels are oneDNN's, on one thread.
class CpuProgram : public DeviceProgram {
public:
  std::unique_ptr<Kernel> createKernel(const PlanKernel &kernel,
                                       std::string &error) override;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_DEVICE_CPUKERNEL_H
