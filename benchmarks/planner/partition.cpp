//===- partition.cpp - Time and memory of the partitioner by size ---------===//
//
//   pp-bench-partition [name]
//
// Runs every case (or those whose name begins with `name`) in a process of its
// own and prints a table. "to exact" is how far the heuristic alone is above
// the exact optimum.
//
//===----------------------------------------------------------------------===//
#include "GeneratedGraphs.h"
#include "pp/Planner/Partition/GraphPartitioner.h"
#include <chrono>
#include <cstdio>
#include <functional>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace pp::planner;
using namespace pp::planner::generated;

namespace {

struct Case {
  std::string name;
  std::function<Graph()> graph;
  size_t devices = 4;
  std::function<void(PartitionProblem &, Cluster &)> change = {};
  bool compare = true; // With the heuristic alone.
};

double seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

double peakMegabytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

bool measure(const Case &entry) {
  Graph graph = entry.graph();
  Cluster cluster = Cluster::cpuCores(entry.devices);
  cluster.defaultLink = {1e9, 1e-5};
  PartitionProblem problem;
  problem.graph = &graph;
  problem.cluster = &cluster;
  if (entry.change)
    entry.change(problem, cluster);
  double start = seconds();
  Result<PartitionSolution> solution = partitionGraph(problem);
  double time = seconds() - start, memory = peakMegabytes();
  if (!solution) {
    std::printf("%-30s %s\n", entry.name.c_str(), solution.error().c_str());
    return false;
  }
  if (std::optional<std::string> fault = verify(problem, *solution)) {
    std::printf("%-30s %s\n", entry.name.c_str(), fault->c_str());
    return false;
  }
  std::printf("%-30s %8zu %8zu %6zu  %-10s %9.3f %8.1f %9.4f %7.3f%%",
              entry.name.c_str(), graph.kernels.size(), solution->ideals,
              solution->stages.size(), solution->method.c_str(), time, memory,
              solution->value * 1e3, solution->gap() * 100);
  if (entry.compare && solution->exact) {
    problem.limits.ideals = 0;
    start = seconds();
    Result<PartitionSolution> heuristic = partitionGraph(problem);
    time = seconds() - start;
    if (heuristic)
      std::printf(" %9.3f %8.3f%% %7.2f%%", time,
                  (heuristic->value / solution->value - 1) * 100,
                  heuristic->gap() * 100);
    else
      std::printf(" %9.3f  %s", time, heuristic.error().c_str());
  }
  std::printf("\n");
  return true;
}

void inFlight(PartitionProblem &problem, Cluster &cluster) {
  problem.limitMemory = true;
  problem.memory.rule = InFlightRule::FromLast;
  for (int i = 1; i <= static_cast<int>(cluster.devices.size()); ++i)
    problem.memory.inFlight.push_back(i);
  double parameters = 0, saved = 0;
  for (const Kernel &kernel : problem.graph->kernels) {
    parameters += static_cast<double>(kernel.parameterBytes);
    saved += static_cast<double>(kernel.savedBytes);
  }
  double k = static_cast<double>(cluster.devices.size());
  for (Device &device : cluster.devices)
    device.memoryBytes =
        static_cast<int64_t>(1.15 * (parameters / k + saved * (k + 1) / 2 / k));
}

void flush(PartitionProblem &problem, Cluster &) {
  problem.objective = Objective::FlushLatency;
  problem.microbatches = 8;
}

void twoClasses(PartitionProblem &, Cluster &cluster) {
  for (size_t i = cluster.devices.size() / 2; i < cluster.devices.size(); ++i) {
    cluster.devices[i].kind = "slow";
    cluster.devices[i].speed = 0.4;
  }
}

void pipeDream(PartitionProblem &problem, Cluster &) {
  problem.objective = Objective::PipeDream;
  problem.replicate = true;
}

void replicate(PartitionProblem &problem, Cluster &) {
  problem.replicate = true;
  problem.microbatches = 64;
}

/// A chain of layers that can recompute and be split over up to 8 devices.
Graph layersWithChoices(size_t layers) {
  Graph graph = chain(layers);
  for (Kernel &kernel : graph.kernels)
    for (int degree : {1, 2, 4, 8})
      for (bool recompute : {false, true}) {
        if (degree == 1 && !recompute)
          continue; // The kernel itself.
        KernelVariant variant;
        variant.name = std::string(recompute ? "recompute" : "keep") +
                       std::to_string(degree);
        variant.devices = degree;
        variant.times.forward =
            kernel.forwardTime / degree * (recompute ? 1.33 : 1);
        variant.parameterBytes = kernel.parameterBytes / degree;
        variant.savedBytes = kernel.savedBytes / degree / (recompute ? 10 : 1);
        variant.syncSeconds = degree > 1 ? 1e-4 : 0;
        kernel.variants.push_back(variant);
      }
  return graph;
}

void piper(PartitionProblem &problem, Cluster &cluster) {
  problem.replicate = true;
  problem.microbatches = 256;
  problem.replicasDivideMicrobatches = true;
  problem.limitMemory = true;
  problem.memory.parameterCopies = 4;
  problem.memory.rule = InFlightRule::Replicas;
  for (Device &device : cluster.devices)
    device.memoryBytes = 60000000;
}

std::vector<Case> cases() {
  return {
      {"inception", [] { return inception(false); }, 6},
      {"inception training", [] { return inception(true); }, 6},
      {"inception training k=3", [] { return inception(true); }, 3},
      {"inception training k=12", [] { return inception(true); }, 12},
      {"inception 4 blocks", [] { return inception(true, 4); }, 6},
      {"inception 8 blocks", [] { return inception(true, 8); }, 6},
      {"inception memory", [] { return inception(false); }, 6, inFlight},
      {"inception two classes", [] { return inception(true); }, 6, twoClasses},
      {"inception flush", [] { return inception(false, 4); }, 4, flush},
      {"inception pipedream", [] { return inception(false); }, 8, pipeDream},
      {"bert", [] { return bert(false); }, 6},
      {"bert training", [] { return bert(true); }, 6},
      {"bert memory", [] { return bert(false); }, 8, inFlight},
      {"bert flush", [] { return bert(false); }, 6, flush},
      {"bert replicated", [] { return bert(false); }, 16, replicate},
      {"bert two classes", [] { return bert(true); }, 8, twoClasses},
      {"gnmt", [] { return gnmt(false); }, 4},
      {"gnmt 4x8", [] { return gnmt(false, 4, 8); }, 4},
      {"gnmt 4x8 training", [] { return gnmt(true, 4, 8); }, 6},
      {"gnmt 5x7 training", [] { return gnmt(true, 5, 7); }, 8},
      {"nasnet of 2 pairs", [] { return nasnet(true, 4, 4, 2); }, 4},
      {"gnmt training", [] { return gnmt(true); }, 6},
      {"gnmt 8x24", [] { return gnmt(true, 8, 24); }, 8},
      {"nasnet", [] { return nasnet(false); }, 6},
      {"chain 1,000 / 64", [] { return chain(1000); }, 64},
      {"chain 10,000 / 64", [] { return chain(10000); }, 64, {}, false},
      {"chain 100,000 / 64", [] { return chain(100000); }, 64, {}, false},
      {"chain 10,000 / 1,024", [] { return chain(10000); }, 1024, {}, false},
      {"chain 200 / 1,024 replicated", [] { return chain(200); }, 1024,
       replicate, false},
      {"bert / 1,024 replicated", [] { return bert(false); }, 1024, replicate,
       false},
      {"layers 34 / 64 choices", [] { return layersWithChoices(34); }, 64,
       piper},
      {"layers 34 / 1,024 choices", [] { return layersWithChoices(34); }, 1024,
       piper, false},
      {"chain 200 / 1,024 pipedream", [] { return chain(200); }, 1024,
       pipeDream, false},
  };
}

} // namespace

int main(int argc, char **argv) {
  std::string prefix = argc > 1 ? argv[1] : "";
  std::printf("%-30s %8s %8s %6s  %-10s %9s %8s %9s %8s %9s %9s %8s\n", "case",
              "kernels", "ideals", "stages", "method", "seconds", "MiB",
              "value/ms", "gap", "heuristic", "to exact", "its gap");
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
