//===- CpuKernel.h - What devices with host memory share ------------------===//
#ifndef PP_RUNTIME_DEVICE_CPUKERNEL_H
#define PP_RUNTIME_DEVICE_CPUKERNEL_H

#include "cpu/LibraryKernel.h"
#include "device/Device.h"

namespace pp::runtime {

/// Device::allocate from the heap.
DeviceMemory allocateHostMemory(uint64_t bytes, const std::string &what);

/// Device::createKernel with oneDNN, one thread.
std::unique_ptr<Kernel> createCpuKernel(const PlanKernel &kernel,
                                        std::string &error);

} // namespace pp::runtime

#endif // PP_RUNTIME_DEVICE_CPUKERNEL_H
