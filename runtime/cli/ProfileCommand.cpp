//===- ProfileCommand.cpp - `profile` -------------------------------------===//
#include "cli/CommandLine.h"
#include "device/OpenDevice.h"
#include "exec/Profile.h"
#include "support/AtomicFile.h"
#include "support/Error.h"
#include "support/Print.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <map>

using namespace pp::runtime;

/// The sum of the times of all kernels with one key, and their number.
using KernelSums = std::map<std::string, std::pair<double, unsigned>>;

int pp::runtime::runProfile(const pp_binary &binary,
                            const ProfileOptions &options) {
  KernelSums sums;
  nlohmann::ordered_json json;
  json["version"] = 1;
  for (const pp_pipeline *functions : {binary.training, binary.inference}) {
    if (!functions)
      continue;
    std::shared_ptr<Device> device = openDevice(options.device, *functions);
    Program program(*functions, *device);
    const Plan &plan = program.getPlan();
    if (plan.marks.empty())
      failUsage("the program does not mark its kernels; make it with "
                "pp-profile --emit-program");
    program.allocate(options.weights, !options.noVerifyWeights);
    Profile profile = profileProgram(program, options.repetitions);
    for (size_t i = 0; i < plan.marks.size(); ++i) {
      if (!profile.kernels[i])
        continue;
      auto &[sum, count] = sums[plan.marks[i].key];
      sum += *profile.kernels[i];
      ++count;
    }
    json["target"] = plan.target;
    json["device"] = device->describe();
    if (!device->isHostMemory() && !json.contains("gap_seconds"))
      json["gap_seconds"] = profile.gap;
    unsigned threads = plan.threads;
    if (profile.update > 0 && profile.parameterBytes > 0)
      (threads > 1 ? json["threads"][std::to_string(threads)]
                   : json)["update_seconds_per_byte"] =
          profile.update / profile.parameterBytes;
    if (profile.latency && !json.contains("transfer_latency_seconds"))
      json["transfer_latency_seconds"] = *profile.latency;
    const char *kind = plan.isTraining() ? "training" : "inference";
    json["step_seconds"][kind] = profile.step;
    printOutput("{}: {:.3f} ms per step\n", kind, 1e3 * profile.step);
  }
  json["kernels"] = nlohmann::ordered_json::object();
  for (const auto &[key, sum] : sums)
    json["kernels"][key] = sum.first / sum.second;
  writeFileAtomically(options.output, json.dump(1) + "\n");
  return 0;
}
