//===- DeviceRegistry.h - The devices that a program can open -------------===//
//
// cpu and cuda are part of every program. Another device registers itself with
// one line in a source of its own:
//
//   static RegisterDevice registration({"mock", "mock", openMock});
//
// and is there in the programs that are linked with it (docs/add-a-device.md).
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_DEVICE_DEVICEREGISTRY_H
#define PP_RUNTIME_DEVICE_DEVICEREGISTRY_H

#include "device/Device.h"

#include <memory>
#include <string_view>
#include <vector>

namespace pp::runtime {

struct DeviceKind {
  /// What `--device`, and a plan's target, say before a colon: "cuda".
  std::string_view name;
  /// For messages: "cuda or cuda:N".
  std::string_view usage;
  /// Opens the device that the whole name stands for. `localProcess` is the
  /// number of this process among those of the machine. Throws Error.
  std::shared_ptr<Device> (*open)(std::string_view name, unsigned localProcess);
};

/// All kinds that are linked in. Complete when `main` begins.
const std::vector<DeviceKind> &deviceKinds();

/// A static object of it adds a device.
struct RegisterDevice {
  explicit RegisterDevice(const DeviceKind &kind);
};

} // namespace pp::runtime

#endif // PP_RUNTIME_DEVICE_DEVICEREGISTRY_H
