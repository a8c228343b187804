//===- GraphPartitionerTest.cpp - Against exhaustive search ---------------===//
#include "pp/Planner/Partition/GraphPartitioner.h"
#include "gtest/gtest.h"
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>

using namespace pp::planner;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Tries every partition, device, replica count and variant. The header's
/// definitions written down a second time, for sets of at most 16 kernels.
class BruteForce {
public:
  explicit BruteForce(const PartitionProblem &problem)
      : problem(problem), graph(*problem.graph), cluster(*problem.cluster) {
    for (size_t d = 0; d < cluster.devices.size(); ++d) {
      size_t c = 0;
      while (c < first.size() && !isSame(first[c], cluster.devices[d]))
        ++c;
      if (c == first.size()) {
        first.push_back(cluster.devices[d]);
        left.push_back(0);
      }
      ++left[c];
    }
    bool single = !problem.replicate;
    for (const Kernel &kernel : graph.kernels)
      for (const KernelVariant &variant : kernel.variants)
        single &= variant.devices == 1;
    mostStages = cluster.devices.size();
    if (problem.maxStages)
      mostStages = std::min(mostStages, problem.maxStages);
    size_t linked =
        single && first.size() == 1 ? mostStages : cluster.devices.size();
    link = cluster.slowestLink(linked);
    findOrder();
  }

  double run() {
    place(0, 0);
    return best;
  }

private:
  struct Stage {
    unsigned kernels;
    size_t deviceClass;
    int degree, replicas;
    unsigned before; // All kernels of earlier stages.
  };

  static bool isSame(const Device &a, const Device &b) {
    return a.kind == b.kind && a.memoryBytes == b.memoryBytes &&
           a.speed == b.speed && a.communicates == b.communicates;
  }

  void findOrder() {
    size_t n = graph.kernels.size();
    needs.assign(n, 0);
    together.assign(n, 0);
    std::vector<bool> orphan(n);
    for (size_t k = 0; k < n; ++k) {
      bool hasForward = false;
      for (size_t j = 0; j < n; ++j)
        if (j == k || (graph.kernels[k].colocationClass >= 0 &&
                       graph.kernels[j].colocationClass ==
                           graph.kernels[k].colocationClass)) {
          together[k] |= 1u << j;
          hasForward |= !graph.kernels[j].backward;
        }
      orphan[k] = !hasForward;
    }
    for (const Value &value : graph.values)
      for (size_t reader : value.consumers) {
        bool a = graph.kernels[value.producer].backward,
             b = graph.kernels[reader].backward;
        if (!a && !b)
          needs[reader] |= 1u << value.producer;
        if (a && b && (orphan[reader] || orphan[value.producer]))
          needs[value.producer] |= 1u << reader;
      }
  }

  bool isGood(unsigned stage, unsigned before, size_t index) const {
    for (size_t k = 0; k < graph.kernels.size(); ++k)
      if (stage >> k & 1) {
        if (needs[k] & ~(stage | before))
          return false;
        if ((together[k] & stage) != together[k])
          return false;
        if (graph.kernels[k].stageHint &&
            *graph.kernels[k].stageHint != int(index))
          return false;
      }
    return true;
  }

  void place(unsigned done, size_t index) {
    unsigned all = (1u << graph.kernels.size()) - 1;
    if (done == all) {
      if (problem.exactStageCount && index != problem.maxStages)
        return;
      if (problem.useAllDevices)
        for (size_t count : left)
          if (count)
            return;
      best = std::min(best, value());
      return;
    }
    if (index == mostStages)
      return;
    unsigned rest = all & ~done;
    for (unsigned stage = rest; stage; stage = (stage - 1) & rest) {
      if (!isGood(stage, done, index))
        continue;
      for (size_t c = 0; c < first.size(); ++c)
        for (int degree = 1; degree <= 2; ++degree)
          for (int m = 1; m <= (problem.replicate ? 4 : 1); ++m) {
            if (left[c] < size_t(degree * m))
              continue;
            left[c] -= degree * m;
            stages.push_back({stage, c, degree, m, done});
            place(done | stage, index + 1);
            stages.pop_back();
            left[c] += degree * m;
          }
    }
  }

  double value() {
    double largest = 0, sum = 0;
    int after = 0;
    for (size_t s = stages.size(); s-- > 0;) {
      const Stage &stage = stages[s];
      after += stage.replicas;
      int inFlight = 1;
      const MemoryModel &memory = problem.memory;
      if (memory.rule == InFlightRule::Replicas)
        inFlight = int(std::ceil(double(after) / stage.replicas));
      else if (!memory.inFlight.empty())
        inFlight = memory.inFlight[std::min(
            memory.rule == InFlightRule::FromFirst ? s : stages.size() - 1 - s,
            memory.inFlight.size() - 1)];
      double cost = cheapest(stage, inFlight);
      largest = std::max(largest, cost);
      sum += cost;
    }
    return problem.objective == Objective::FlushLatency
               ? sum + (problem.microbatches - 1) * largest
               : largest;
  }

  double cheapest(const Stage &stage, int inFlight) {
    auto key = std::tuple(stage.kernels, stage.before, stage.deviceClass,
                          stage.degree, stage.replicas, inFlight);
    auto [entry, isNew] = known.try_emplace(key, infinity);
    if (!isNew)
      return entry->second;
    double communication = 0, crossBefore = 0, crossAfter = 0;
    for (const Value &value : graph.values) {
      unsigned ends = 1u << value.producer;
      for (size_t reader : value.consumers)
        ends |= 1u << reader;
      if ((ends & stage.kernels) && (ends & ~stage.kernels))
        for (int64_t bytes : {value.bytes, value.gradientBytes})
          communication += bytes ? link.latency + bytes / link.bandwidth : 0;
      double crossing = (value.bytes + value.gradientBytes) / link.bandwidth;
      if ((ends & stage.before) && (ends & ~stage.before))
        crossBefore += crossing;
      unsigned until = stage.before | stage.kernels;
      if ((ends & until) && (ends & ~until))
        crossAfter += crossing;
    }
    double least = infinity;
    // time, parameters, saved, workspace
    std::function<void(size_t, double, double, double, double)> choose =
        [&](size_t k, double time, double parameters, double saved,
            double workspace) {
          if (k == graph.kernels.size()) {
            least = std::min(least, cost(stage, inFlight, time, parameters,
                                         saved, workspace, communication,
                                         crossBefore, crossAfter));
            return;
          }
          if (!(stage.kernels >> k & 1)) {
            choose(k + 1, time, parameters, saved, workspace);
            return;
          }
          const Kernel &kernel = graph.kernels[k];
          const Device &device = first[stage.deviceClass];
          auto with = [&](double base, const std::vector<MeasuredTimes> &list,
                          double sync, int64_t p, int64_t a, int64_t w) {
            double seconds = base / device.speed;
            for (const MeasuredTimes &entry : list)
              if (entry.kind == device.kind)
                seconds = entry.times.forward + entry.times.backwardInput +
                          entry.times.backwardWeight;
            choose(k + 1, time + seconds + sync, parameters + p, saved + a,
                   std::max(workspace, double(w)));
          };
          if (stage.degree == 1)
            with(kernel.time(), kernel.measured, 0, kernel.parameterBytes,
                 kernel.savedBytes, kernel.workspaceBytes);
          for (const KernelVariant &v : kernel.variants)
            if (v.devices == stage.degree)
              with(v.times.total(), v.measured, v.syncSeconds, v.parameterBytes,
                   v.savedBytes, v.workspaceBytes);
        };
    choose(0, 0, 0, 0, 0);
    return known[key] = least;
  }

  double cost(const Stage &stage, int inFlight, double time, double parameters,
              double saved, double workspace, double communication,
              double crossBefore, double crossAfter) const {
    const Device &device = first[stage.deviceClass];
    const MemoryModel &model = problem.memory;
    double memory =
        (model.parameterCopies +
         (inFlight > 1 ? model.stashedCopies * (inFlight - 1) : 0)) *
            parameters +
        inFlight * saved + workspace;
    if (problem.limitMemory && memory > device.memoryBytes)
      return infinity;
    if (problem.objective == Objective::Memory)
      return memory;
    double m = stage.replicas;
    if (!device.communicates)
      communication = crossBefore = crossAfter = 0;
    if (problem.objective == Objective::PipeDream) {
      double p = parameters / link.bandwidth;
      if (problem.form == PipeDreamForm::Paper)
        return std::max(
            {time / m, 2 * (m - 1) * p / m, crossBefore, crossAfter});
      return std::max({(time + 4 * (m - 1) / m * p) / m, crossBefore / m,
                       stage.before ? crossAfter / m : 0});
    }
    if (problem.communication == Communication::Ignored)
      return time / m;
    double sync = m > 1 ? (problem.allReduceFactor * (m - 1) / m * parameters /
                               link.bandwidth +
                           2 * (m - 1) * link.latency) /
                              problem.microbatches
                        : 0;
    if (problem.communication == Communication::Added)
      return time / m + communication / m + sync;
    return std::max(time, communication) / m + sync;
  }

  const PartitionProblem &problem;
  const Graph &graph;
  const Cluster &cluster;
  std::vector<Device> first; // Of each class.
  std::vector<size_t> left;
  size_t mostStages = 0;
  Link link;
  std::vector<unsigned> needs, together;
  std::vector<Stage> stages;
  std::map<std::tuple<unsigned, unsigned, size_t, int, int, int>, double> known;
  double best = infinity;
};

struct Features {
  bool chain = false, classes = false, replicas = false, memory = false,
       variants = false, degrees = false, hints = false, colocation = false,
       backward = false, free = false;
};

/// A problem with its graph and cluster.
struct Instance {
  Graph graph;
  Cluster cluster;
  PartitionProblem problem;

  Instance(unsigned seed, size_t kernels, const Features &features)
      : engine(seed) {
    makeGraph(kernels, features);
    makeCluster(features);
    makeProblem(features);
  }
  Instance(const Instance &) = delete;

private:
  int below(int n) { return int(engine() % n); }
  double time() { return below(1000) * 1e-5; }

  void makeGraph(size_t n, const Features &features) {
    size_t forward = features.backward ? (n + 1) / 2 : n;
    for (size_t k = 0; k < n; ++k) {
      Kernel kernel;
      kernel.name = "k" + std::to_string(k);
      if (!features.free || below(3)) {
        kernel.forwardTime = time();
        kernel.backwardInputTime = below(2) ? time() : 0;
        if (features.memory || features.replicas) {
          kernel.parameterBytes = below(100) * 100;
          kernel.savedBytes = below(50) * 100;
          kernel.workspaceBytes = below(80) * 100;
        }
      }
      if (features.classes && below(2))
        kernel.measured.push_back({"b", {time(), 0, time()}});
      if (features.variants)
        for (int v = below(3); v > 0; --v) {
          KernelVariant variant;
          variant.name = "v" + std::to_string(v);
          variant.times = {kernel.forwardTime, time(), time()};
          variant.parameterBytes = kernel.parameterBytes;
          variant.savedBytes = kernel.savedBytes * below(3) / 2;
          variant.workspaceBytes = below(80) * 100;
          if (below(2))
            variant.measured.push_back({"b", {time(), 0, 0}});
          kernel.variants.push_back(variant);
        }
      if (features.degrees && below(4)) {
        KernelVariant variant;
        variant.name = "split";
        variant.devices = 2;
        variant.times = {kernel.forwardTime * 0.6, 0, 0};
        variant.parameterBytes = kernel.parameterBytes / 2;
        variant.savedBytes = kernel.savedBytes / 2;
        variant.syncSeconds = below(10) * 1e-5;
        kernel.variants.push_back(variant);
      }
      if (features.colocation && below(4) == 0)
        kernel.colocationClass = below(2);
      if (k >= forward) {
        kernel.backward = true;
        // The mirror image of the forward pass; some have no mate.
        if (below(4)) {
          size_t mate = 2 * forward - 1 - k < forward ? 2 * forward - 1 - k : 0;
          graph.kernels[mate].colocationClass = int(10 + mate);
          kernel.colocationClass = int(10 + mate);
        }
      }
      graph.addKernel(kernel);
    }
    auto edge = [&](size_t a, size_t b) {
      // Few names: some values get several readers.
      graph.addEdge(a, b, below(20) * 1000, below(2) ? "a" : "b",
                    below(2) ? below(20) * 1000 : 0);
    };
    if (features.chain)
      for (size_t k = 1; k < n; ++k)
        edge(k - 1, k);
    for (int e = below(2 * int(n)); e > 0 && n > 1; --e) {
      int consumer = 1 + below(int(n) - 1);
      edge(below(consumer), consumer);
    }
  }

  void makeCluster(const Features &features) {
    cluster = Cluster::cpuCores(1 + below(4));
    cluster.defaultLink = {5e6, below(2) * 1e-4};
    if (features.classes)
      for (Device &device : cluster.devices)
        if (below(2)) {
          device.kind = "b";
          device.speed = 0.5;
          device.communicates = below(3) != 0;
        }
    if (features.memory)
      for (Device &device : cluster.devices)
        device.memoryBytes = 20000 + (device.kind == "b" ? 20000 : 0);
  }

  void makeProblem(const Features &features) {
    problem.graph = &graph;
    problem.cluster = &cluster;
    int devices = int(cluster.devices.size());
    problem.maxStages = 1 + below(devices);
    problem.exactStageCount = below(3) == 0;
    problem.objective =
        std::vector<Objective>{Objective::Time, Objective::FlushLatency,
                               Objective::PipeDream, Objective::Memory}[below(
            features.memory && !features.replicas && !features.variants &&
                    !features.degrees
                ? 4
                : 3)];
    if (problem.objective != Objective::PipeDream)
      problem.communication = std::vector<Communication>{
          Communication::Added, Communication::Overlapped,
          Communication::Ignored}[below(3)];
    problem.form = below(2) ? PipeDreamForm::Code : PipeDreamForm::Paper;
    problem.microbatches = 1 + below(6);
    problem.replicate = features.replicas;
    problem.useAllDevices = below(5) == 0;
    if (features.memory) {
      problem.limitMemory = below(4) != 0;
      problem.memory.parameterCopies = 1 + below(2);
      problem.memory.stashedCopies = below(2);
      switch (below(features.replicas ? 5 : 4)) {
      case 0:
        break;
      case 1:
        problem.memory.inFlight = {3, 2, 1};
        break;
      case 2:
        problem.memory.rule = InFlightRule::FromLast;
        problem.memory.inFlight = {1, 2, 3};
        break;
      case 3:
        problem.memory.rule = InFlightRule::FromLast;
        problem.memory.inFlight = {2, 0, 1};
        break;
      case 4:
        problem.memory.rule = InFlightRule::Replicas;
        break;
      }
    }
    if (features.hints)
      for (Kernel &kernel : graph.kernels)
        if (below(5) == 0)
          kernel.stageHint = below(int(problem.maxStages));
  }

  std::mt19937 engine;
};

struct Tally {
  int solved = 0, infeasible = 0;
};

void expectOptimal(const Instance &instance, const std::string &where,
                   Tally &tally) {
  const PartitionProblem &problem = instance.problem;
  double best = BruteForce(problem).run();
  Result<PartitionSolution> solution = partitionGraph(problem);
  if (!solution &&
      solution.error().find("this needs an exact number") != std::string::npos)
    return; // Not counted.
  if (std::isinf(best)) {
    ++tally.infeasible;
    EXPECT_FALSE(bool(solution)) << where;
    return;
  }
  ++tally.solved;
  ASSERT_TRUE(bool(solution)) << solution.error() << ", " << where;
  EXPECT_NEAR(solution->value, best, 1e-9 * best) << where;
  EXPECT_TRUE(solution->exact) << where;
  EXPECT_EQ(verify(problem, *solution), std::nullopt) << where;

  // Without ideals: never better than the optimum, never a false claim.
  PartitionProblem wide = problem;
  wide.limits.ideals = 0;
  Result<PartitionSolution> found = partitionGraph(wide);
  if (!found)
    return;
  EXPECT_EQ(verify(wide, *found), std::nullopt) << where;
  EXPECT_GE(found->value, best * (1 - 1e-9)) << where;
  EXPECT_LE(found->lowerBound, best * (1 + 1e-9)) << where;
  EXPECT_FALSE(found->exact);
}

struct Case {
  const char *name;
  Features features;
  int seeds;
};

class AgainstBruteForce : public testing::TestWithParam<Case> {};

TEST_P(AgainstBruteForce, isOptimal) {
  Tally tally;
  for (int seed = 0; seed < GetParam().seeds && !HasFailure(); ++seed) {
    size_t kernels = seed % 100 == 99 ? 11 : 1 + seed % 8;
    Instance instance(seed, kernels, GetParam().features);
    expectOptimal(instance,
                  std::string(GetParam().name) + " " + std::to_string(seed),
                  tally);
  }
  EXPECT_GT(tally.solved, GetParam().seeds / 4);
}

Features with(std::initializer_list<bool Features::*> flags) {
  Features features;
  for (bool Features::*flag : flags)
    features.*flag = true;
  return features;
}

using F = Features;
INSTANTIATE_TEST_SUITE_P(
    Random, AgainstBruteForce,
    testing::Values(
        Case{"chain", with({&F::chain}), 1000}, Case{"graph", with({}), 2000},
        Case{"free", with({&F::free}), 2000},
        Case{"freeMemory", with({&F::free, &F::memory}), 1000},
        Case{"classes", with({&F::classes}), 1000},
        Case{"memory", with({&F::memory}), 1500},
        Case{"hints", with({&F::hints, &F::colocation}), 1000},
        Case{"hintsMemory", with({&F::hints, &F::memory}), 500},
        Case{"backward", with({&F::backward, &F::free}), 1500},
        Case{"replicas", with({&F::replicas}), 1000},
        Case{"replicasFree", with({&F::replicas, &F::free, &F::memory}), 800},
        Case{"replicasClasses", with({&F::replicas, &F::classes, &F::memory}),
             800},
        Case{"variants", with({&F::variants, &F::memory, &F::classes}), 800},
        Case{"variantsReplicas", with({&F::variants, &F::memory, &F::replicas}),
             500},
        Case{"degrees", with({&F::degrees, &F::memory}), 800},
        Case{"everything",
             with({&F::degrees, &F::variants, &F::memory, &F::replicas,
                   &F::classes, &F::free, &F::colocation}),
             500}),
    [](const auto &info) { return info.param.name; });

} // namespace
