//===- DeviceSetup.h - The devices that tests run the toy on --------------===//
#ifndef PP_RUNTIME_TEST_DEVICESETUP_H
#define PP_RUNTIME_TEST_DEVICESETUP_H

#include "device/DeviceRegistry.h"
#include "device/PluginDevice.h"
#include "mock/MockDevice.h"

#include <cctype>
#include <dlfcn.h>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace pp::runtime {

/// How a test runs the toy.
struct DeviceSetup {
  std::string name;
  std::string_view device = "cpu"; // as `--device` names it
  bool graphs = false;
  unsigned pause = 0;           // see MockOptions
  const char *plugin = nullptr; // the file of one, instead of `device`
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
    if (setup.plugin) {
      table = loadPlugin(setup.plugin);
      // The toy computes in its phase functions, which suits any device whose
      // memory is the host's in truth.
      table.device_runs = [](pp_device *, const char *) -> int32_t {
        return 1;
      };
      device = openPluginDevice(table, 0, setup.name);
    } else if (setup.pause) {
      device = createMockDevice({setup.pause});
    } else {
      for (const DeviceKind &kind : deviceKinds())
        if (kind.name == setup.device)
          device = kind.open(kind.name, 0);
    }
  }
  operator Device &() { return *device; }

private:
  pp_device_table table{};
  std::shared_ptr<Device> device;
};

/// Every device that is linked in, with and without graphs, and more.
inline std::vector<DeviceSetup> deviceSetups() {
  std::vector<DeviceSetup> setups;
  for (const DeviceKind &kind : deviceKinds()) {
    if (kind.name == "cuda")
      continue; // below
    std::string name(kind.name);
    name[0] = static_cast<char>(std::toupper(name[0]));
    setups.push_back({name, kind.name});
    if (kind.open(kind.name, 0)->hasGraphs())
      setups.push_back({name + "Graphs", kind.name, true});
  }
  setups.push_back({"MockPauses", "mock", true, 300});
  setups.push_back({"Plugin", "", false, 0, PP_FAKE_PLUGIN});
#ifdef PP_CUDA_PLUGIN_FILE
  setups.push_back({"CudaPluginOnAFakeDriver", "", false, 0,
                    PP_CUDA_PLUGIN_FILE, PP_FAKE_DRIVER, PP_FAKE_BLAS,
                    PP_FAKE_NVRTC, PP_FAKE_NCCL});
#endif
  return setups;
}

} // namespace pp::runtime

#endif // PP_RUNTIME_TEST_DEVICESETUP_H
