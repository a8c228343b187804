//===- OpenDevice.h - The device that a name stands for -------------------===//
#ifndef PP_RUNTIME_DEVICE_OPENDEVICE_H
#define PP_RUNTIME_DEVICE_OPENDEVICE_H

#include "device/Device.h"

#include <string_view>

namespace pp::runtime {

/// "cpu" or "mock". Throws Error(Usage) for other names.
std::shared_ptr<Device> openDevice(std::string_view name);

} // namespace pp::runtime

#endif // PP_RUNTIME_DEVICE_OPENDEVICE_H
