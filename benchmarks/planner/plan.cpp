//===- plan.cpp - Time of the whole search for a plan ---------------------===//
//
//   pp-bench-plan [name]
//
// Runs every case (or those whose name begins with `name`) in a process of its
// own: chains and graphs of four branches by size, on two cores, on eight
// devices, and on clusters of up to 1,024 devices. Each searches over all
// schedules, recompute policies and powers of two of micro-batches.
//
//===----------------------------------------------------------------------===//
#include "GeneratedGraphs.h"
#include "pp/Planner/PlanSearch.h"
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace pp::planner;
using namespace pp::planner::generated;

namespace {

struct Case {
  std::string name;
  size_t kernels;
  bool branches;
  /// A file of lib/Planner/clusters, or "" for so many processor cores.
  std::string cluster;
  size_t cores = 2;
  bool replicate = false;
};

double seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

/// A training step of `microbatches`: times and sizes are shares of the batch.
Graph makeGraph(const Case &entry, int microbatches) {
  Graph graph;
  if (entry.branches) {
    // Blocks of 4 branches with 12 kernels and a concatenation.
    size_t blocks = std::max<size_t>(1, (entry.kernels - 18) / 13);
    graph = inception(false, blocks, 1, {2, 4, 4, 2});
  } else {
    graph = chain(entry.kernels);
  }
  for (Kernel &kernel : graph.kernels) {
    kernel.forwardTime /= microbatches;
    kernel.backwardInputTime = kernel.forwardTime;
    kernel.backwardWeightTime = 0.9 * kernel.forwardTime;
    kernel.savedBytes /= microbatches;
    // The same model, in more and smaller kernels.
    kernel.parameterBytes =
        kernel.parameterBytes * 50 / static_cast<int64_t>(entry.kernels);
  }
  for (Value &value : graph.values) {
    value.bytes /= microbatches;
    value.gradientBytes = value.bytes;
  }
  return graph;
}

std::optional<Cluster> readCluster(const Case &entry) {
  if (entry.cluster.empty())
    return Cluster::cpuCores(entry.cores);
  std::ifstream file(PP_CLUSTERS "/" + entry.cluster);
  std::string text((std::istreambuf_iterator<char>(file)),
                   std::istreambuf_iterator<char>());
  Result<Cluster> cluster = Cluster::fromJson(text);
  if (!cluster) {
    std::printf("%s: %s\n", entry.cluster.c_str(), cluster.error().c_str());
    return std::nullopt;
  }
  return *cluster;
}

bool measure(const Case &entry) {
  std::optional<Cluster> cluster = readCluster(entry);
  if (!cluster)
    return false;
  PlanSpace space;
  space.batch = 64;
  space.cluster = &*cluster;
  space.replicate = entry.replicate;
  space.parameterCopies = 3;
  space.checkpoints = {CheckpointMode::Never, CheckpointMode::ExceptLast,
                       CheckpointMode::Always};
  for (int microbatches = 1; microbatches <= 64; microbatches *= 2)
    space.graphs.push_back({microbatches, makeGraph(entry, microbatches)});
  double start = seconds();
  Result<PlanSearchResult> result = searchPlans(space);
  double time = seconds() - start;
  if (!result) {
    std::printf("%-30s %s\n", entry.name.c_str(), result.error().c_str());
    return false;
  }
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const PlanCandidate &best = result->candidates.front();
  const PipelinePlan &plan = best.plan;
  std::string shape = std::to_string(plan.schedule.ranks.size()) + " x " +
                      std::to_string(plan.replicas) + ", " +
                      std::to_string(plan.schedule.stages) + ", " +
                      std::to_string(plan.microbatches());
  std::printf(
      "%-30s %7zu %7zu %9.2f %7.0f %7zu %7zu  %-16s %-26s %7.1f%%\n",
      entry.name.c_str(), space.graphs.front().graph.kernels.size(),
      cluster->devices.size(), time,
      static_cast<double>(usage.ru_maxrss) / 1024, result->candidates.size(),
      result->pruned, shape.c_str(), plan.scheduleName.c_str(),
      std::max(0.,
               100 * (plan.predicted.step / plan.predicted.lowerBound - 1)));
  return !best.overflow;
}

std::vector<Case> cases() {
  std::vector<Case> result;
  for (bool branches : {false, true}) {
    std::string kind = branches ? "branches " : "chain ";
    for (size_t kernels : {50, 200, 500, 1000, 2000})
      for (const char *cluster : {"two-cores.json", "8xh200.json"})
        result.push_back({kind + std::to_string(kernels) + " on " + cluster,
                          kernels, branches, cluster});
    for (const char *cluster :
         {"4xh200-4xa100.json", "4x8xh200.json", "1024xh200.json"})
      result.push_back({kind + "500 on " + cluster, 500, branches, cluster});
    for (const char *cluster :
         {"8xh200.json", "4x8xh200.json", "1024xh200.json"})
      result.push_back({kind + "500 replicated " + cluster, 500, branches,
                        cluster, 2, true});
  }
  return result;
}

} // namespace

int main(int argc, char **argv) {
  std::string prefix = argc > 1 ? argv[1] : "";
  std::printf("%-30s %7s %7s %9s %7s %7s %7s  %-16s %-26s %8s\n", "case",
              "kernels", "devices", "seconds", "MiB", "plans", "pruned",
              "ranks, stages, m", "schedule", "gap");
  bool good = true;
  for (const Case &entry : cases()) {
    if (entry.name.rfind(prefix, 0) != 0)
      continue;
    std::fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      bool done = measure(entry);
      std::fflush(stdout);
      _exit(done ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      std::printf("%-30s failed\n", entry.name.c_str());
      good = false;
    }
  }
  return good ? 0 : 1;
}
