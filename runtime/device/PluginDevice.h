//===- PluginDevice.h - A device that a shared object implements ----------===//
#ifndef PP_RUNTIME_DEVICE_PLUGINDEVICE_H
#define PP_RUNTIME_DEVICE_PLUGINDEVICE_H

#include "device/Device.h"
#include "pprt/device.h"

namespace pp::runtime {

/// Loads a plugin: from `path`, or, where that is empty, `libpp_cuda.so` from
/// beside the running program, else the file that the environment variable
/// PP_CUDA_PLUGIN names, else from the loader's path. It is never unloaded.
/// Throws Error(Usage) where there is none, or it is of another version.
const pp_device_table &loadPlugin(const std::string &path = "");

/// Opens device `number` of a plugin; `name` is what getName() returns. Throws
/// the plugin's error.
std::unique_ptr<Device> openPluginDevice(const pp_device_table &table,
                                         unsigned number,
                                         const std::string &name);

} // namespace pp::runtime

#endif // PP_RUNTIME_DEVICE_PLUGINDEVICE_H
