//===- OpenDevice.cpp -----------------------------------------------------===//
#include "device/OpenDevice.h"
#include "device/PluginDevice.h"
#include "mock/MockDevice.h"
#include "plan/Plan.h"
#include "support/Error.h"

#include <algorithm>
#include <charconv>

using namespace pp::runtime;

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

static std::string_view nameFor(std::string_view target) {
  if (target.starts_with("cuda"))
    return "cuda";
  return target == "mock" ? "mock" : "cpu";
}

std::shared_ptr<Device> pp::runtime::openDevice(std::string_view name,
                                                const pp_program &program,
                                                unsigned localProcess) {
  if (name.empty())
    name = nameFor(Plan::parse({program.plan, program.plan_size}).target);
  if (name == "cpu")
    return {std::shared_ptr<Device>(), &getCpuDevice()};
  if (name == "mock")
    return createMockDevice();
  if (name == "cuda" || name.starts_with("cuda:"))
    return openCuda(name, localProcess);
  failUsage("--device {}: expected cpu, mock, cuda or cuda:N", name);
}
