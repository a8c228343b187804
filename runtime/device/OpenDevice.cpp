//===- OpenDevice.cpp -----------------------------------------------------===//
#include "device/OpenDevice.h"
#include "device/MockDevice.h"
#include "support/Error.h"

using namespace pp::runtime;

std::shared_ptr<Device> pp::runtime::openDevice(std::string_view name) {
  if (name == "cpu")
    return {std::shared_ptr<Device>(), &getCpuDevice()};
  if (name == "mock")
    return createMockDevice();
  failUsage("--device {}: expected cpu or mock", name);
}
