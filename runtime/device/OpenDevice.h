//===- OpenDevice.h - The device that a name stands for -------------------===//
#ifndef PP_RUNTIME_DEVICE_OPENDEVICE_H
#define PP_RUNTIME_DEVICE_OPENDEVICE_H

#include "device/Device.h"

#include <string_view>

namespace pp::runtime {

/// "cpu", "mock", "cuda" (the first GPU) or "cuda:N". An empty name stands for
/// the device that the program was compiled for. Throws Error(Usage) for other
/// names, and what loadPlugin and the plugin throw.
std::shared_ptr<Device> openDevice(std::string_view name,
                                   const pp_program &program);

} // namespace pp::runtime

#endif // PP_RUNTIME_DEVICE_OPENDEVICE_H
