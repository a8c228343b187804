//===- OpenDevice.cpp -----------------------------------------------------===//
#include "device/OpenDevice.h"
#include "device/DeviceRegistry.h"
#include "device/PluginDevice.h"
#include "plan/Plan.h"
#include "support/Error.h"

#include <algorithm>
#include <charconv>

using namespace pp::runtime;

static std::shared_ptr<Device> openCpu(std::string_view, unsigned) {
  return {std::shared_ptr<Device>(), &getCpuDevice()};
}

static std::shared_ptr<Device> openCuda(std::string_view name,
                                        unsigned localProcess) {
  const pp_device_table &table = loadPlugin();
  unsigned number = 0;
  if (name == "cuda") {
    // Opening a GPU says better than this why there is none.
    unsigned count = std::max(1U, table.device_count());
    number = localProcess % count;
  } else {
    std::string digits(name.substr(std::string_view("cuda:").size()));
    const char *end = digits.data() + digits.size();
    auto [next, code] = std::from_chars(digits.data(), end, number);
    if (code != std::errc() || next != end)
      failUsage("--device {}: expected cuda:N, the number of a GPU", name);
  }
  return openPluginDevice(table, number, fmt::format("cuda:{}", number));
}

static std::vector<DeviceKind> &mutableKinds() {
  static std::vector<DeviceKind> kinds = {
      {"cpu", "cpu", openCpu},
      {"cuda", "cuda or cuda:N", openCuda},
  };
  return kinds;
}

const std::vector<DeviceKind> &pp::runtime::deviceKinds() {
  return mutableKinds();
}

RegisterDevice::RegisterDevice(const DeviceKind &kind) {
  mutableKinds().push_back(kind);
}

static std::string_view firstWord(std::string_view name) {
  return name.substr(0, name.find(':'));
}

std::shared_ptr<Device> pp::runtime::openDevice(std::string_view name,
                                                const pp_pipeline &program,
                                                unsigned localProcess) {
  std::string target;
  if (name.empty()) {
    target = Plan::parse({program.plan, program.plan_size}).target;
    name = firstWord(target);
  }
  std::string known;
  for (const DeviceKind &kind : deviceKinds()) {
    if (kind.name == firstWord(name) &&
        (kind.name == name || kind.usage != kind.name))
      return kind.open(name, localProcess);
    known += (known.empty() ? "" : ", ") + std::string(kind.usage);
  }
  failUsage("--device {}: expected {} (pp-compile --link-device=NAME adds "
            "others)",
            name, known);
}
