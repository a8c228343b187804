//===- OpenDevice.h - The device that a name stands for -------------------===//
#ifndef PP_RUNTIME_DEVICE_OPENDEVICE_H
#define PP_RUNTIME_DEVICE_OPENDEVICE_H

#include "device/Device.h"

#include <string_view>

namespace pp::runtime {

/// A device of deviceKinds(), such as "cpu", "cuda" or "cuda:N". Of several
/// processes on a machine, the one with number `localProcess` takes the GPU
/// with that number by "cuda"; where there are fewer GPUs, they share them. An
/// empty name stands for the device that the program was compiled for. Throws
/// Error(Usage) for other names, and what opening throws.
std::shared_ptr<Device> openDevice(std::string_view name,
                                   const pp_pipeline &program,
                                   unsigned localProcess = 0);

} // namespace pp::runtime

#endif // PP_RUNTIME_DEVICE_OPENDEVICE_H
