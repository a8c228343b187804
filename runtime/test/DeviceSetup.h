//===- DeviceSetup.h - The devices that tests run the toy on --------------===//
#ifndef PP_RUNTIME_TEST_DEVICESETUP_H
#define PP_RUNTIME_TEST_DEVICESETUP_H

#include "device/PluginDevice.h"
#include "mock/MockDevice.h"

#include <dlfcn.h>
#include <memory>
#include <ostream>
#include <stdexcept>

namespace pp::runtime {

/// How a test runs the toy.
struct DeviceSetup {
  const char *name;
  bool isMock = false;
  bool graphs = false;
  unsigned pause = 0;           // see MockOptions
  const char *plugin = nullptr; // the file of one
  // The files of a driver, and of a cuBLASLt, an NVRTC and an NCCL for it.
  const char *driver = nullptr, *blas = nullptr, *nvrtc = nullptr,
             *nccl = nullptr;
};

inline void PrintTo(const DeviceSetup &setup, std::ostream *out) {
  *out << setup.name;
}

/// The device of a setup, which lives as long as the object.
class TestedDevice {
public:
  explicit TestedDevice(const DeviceSetup &setup) {
    // The plugin asks for them by their sonames, and gets these.
    for (const char *library :
         {setup.driver, setup.blas, setup.nvrtc, setup.nccl})
      if (library && !dlopen(library, RTLD_NOW | RTLD_LOCAL))
        throw std::runtime_error(dlerror());
    if (setup.isMock)
      device = createMockDevice({setup.pause});
    if (!setup.plugin)
      return;
    table = loadPlugin(setup.plugin);
    // The toy computes in its phase functions, which suits any device whose
    // memory is the host's in truth.
    table.device_runs = [](pp_device *, const char *) -> int32_t { return 1; };
    device = openPluginDevice(table, 0, setup.name);
  }
  operator Device &() { return device ? *device : getCpuDevice(); }

private:
  pp_device_table table{};
  std::unique_ptr<Device> device;
};

inline const DeviceSetup deviceSetups[] = {
    {"Cpu"},
    {"Mock", true, false, 0},
    {"MockGraphs", true, true, 0},
    {"MockPauses", true, true, 300},
    {"Plugin", false, false, 0, PP_FAKE_PLUGIN},
#ifdef PP_CUDA_PLUGIN_FILE
    {"CudaPluginOnAFakeDriver", false, false, 0, PP_CUDA_PLUGIN_FILE,
     PP_FAKE_DRIVER, PP_FAKE_BLAS, PP_FAKE_NVRTC, PP_FAKE_NCCL},
#endif
};

} // namespace pp::runtime

#endif // PP_RUNTIME_TEST_DEVICESETUP_H
