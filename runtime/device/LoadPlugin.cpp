//===- LoadPlugin.cpp - Finds libpp_cuda.so -------------------------------===//
#include "device/PluginDevice.h"
#include "support/Plugin.h"

using namespace pp::runtime;

const pp_device_table &pp::runtime::loadPlugin(const std::string &path) {
  static constexpr PluginKind kind = {
      "CUDA",
      "libpp_cuda.so",
      "PP_CUDA_PLUGIN",
      "scripts/build-cuda-plugin",
      PP_DEVICE_PLUGIN_SYMBOL,
      PP_DEVICE_ABI_VERSION,
  };
  return *static_cast<const pp_device_table *>(openPlugin(kind, path));
}
