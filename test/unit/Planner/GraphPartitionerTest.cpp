//===- GraphPartitionerTest.cpp - Against exhaustive search ---------------===//
#include "pp/Planner/Partition/GraphPartitioner.h"
#include "../../../benchmarks/planner/GeneratedGraphs.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <sstream>

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
            if (problem.replicasDivideMicrobatches && problem.microbatches % m)
              continue;
            if (left[c] < size_t(degree) * m)
              continue;
            left[c] -= size_t(degree) * m;
            stages.push_back({stage, c, degree, m, done});
            place(done | stage, index + 1);
            stages.pop_back();
            left[c] += size_t(degree) * m;
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
       backward = false, free = false, freeBytes = false;
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
          kernel.parameterBytes = int64_t(below(100)) * 100;
          kernel.savedBytes = int64_t(below(50)) * 100;
          kernel.workspaceBytes = int64_t(below(80)) * 100;
        }
      }
      if (features.freeBytes && kernel.time() == 0) {
        kernel.parameterBytes = int64_t(below(30)) * 100;
        kernel.savedBytes = int64_t(below(30)) * 100;
        kernel.workspaceBytes = int64_t(below(30)) * 100;
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
          variant.workspaceBytes = int64_t(below(80)) * 100;
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
      graph.addEdge(a, b, int64_t(below(20)) * 1000, below(2) ? "a" : "b",
                    below(2) ? int64_t(below(20)) * 1000 : 0);
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
        device.memoryBytes = device.kind == "b" ? 40000 : 20000;
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
    problem.replicasDivideMicrobatches = below(3) == 0;
    problem.useAllDevices = below(5) == 0;
    if (features.memory) {
      problem.limitMemory = below(4) != 0;
      problem.memory.parameterCopies = 1 + below(2);
      problem.memory.stashedCopies = below(2);
      switch (below(features.replicas ? 5 : 4)) {
      default:
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
        Case{"freeBytes", with({&F::free, &F::freeBytes}), 1000},
        Case{"freeBytesMemory", with({&F::free, &F::freeBytes, &F::memory}),
             2000},
        Case{"freeBytesReplicas",
             with({&F::free, &F::freeBytes, &F::memory, &F::replicas}), 800},
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

/// Every single change of a correct solution is found.
TEST(VerifyGraphSolution, rejectsMutations) {
  Features features = with(
      {&F::memory, &F::variants, &F::replicas, &F::colocation, &F::classes});
  int solutions = 0, mutations = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    Instance instance(seed, 3 + seed % 6, features);
    const PartitionProblem &problem = instance.problem;
    Result<PartitionSolution> good = partitionGraph(problem);
    if (!good || good->stages.size() < 2 || good->value == 0)
      continue;
    ++solutions;
    auto expectRejected = [&](const char *what, auto change) {
      PartitionSolution bad = *good;
      change(bad);
      ++mutations;
      EXPECT_NE(verify(problem, bad), std::nullopt)
          << what << ", seed " << seed;
    };
    using S = PartitionSolution;
    expectRejected("stage of a kernel",
                   [](S &s) { s.stageOf[0] = s.stageOf[0] == 0 ? 1 : 0; });
    expectRejected("stage out of range", [](S &s) { s.stageOf[0] = 99; });
    expectRejected("moved kernel with its list", [](S &s) {
      // The costs are those of before.
      size_t kernel = s.stages[0].kernels.back();
      s.stages[0].kernels.pop_back();
      s.stageOf[kernel] = 1;
      s.stages[1].kernels.insert(std::lower_bound(s.stages[1].kernels.begin(),
                                                  s.stages[1].kernels.end(),
                                                  kernel),
                                 kernel);
      if (s.stages[0].kernels.empty() || s.stages[1].cost == 0)
        s.value = -1;
      else
        s.stages[1].cost *= 0.5;
    });
    expectRejected("swapped stages", [](S &s) {
      std::swap(s.stages[0].kernels, s.stages[1].kernels);
    });
    expectRejected("variant", [](S &s) { s.variantOf[0] = 99; });
    expectRejected("negative variant", [](S &s) { s.variantOf[0] = -1; });
    expectRejected("device twice", [](S &s) {
      s.stages[1].devices[0] = s.stages[0].devices[0];
    });
    expectRejected("no such device",
                   [](S &s) { s.stages[1].devices[0] = 1000; });
    expectRejected("replicas", [](S &s) { ++s.stages[0].replicas; });
    expectRejected("degree", [](S &s) { ++s.stages[0].degree; });
    expectRejected("value", [](S &s) { s.value *= 0.999; });
    expectRejected("cost", [](S &s) { s.stages[0].cost += 1; });
    expectRejected("memory", [](S &s) { s.stages[0].memoryBytes += 1; });
    expectRejected("compute", [](S &s) { s.stages[0].computeTime += 1; });
    expectRejected("sync", [](S &s) { s.stages[0].syncTime += 1; });
    expectRejected("communication",
                   [](S &s) { s.stages[0].communicationTime += 1; });
    expectRejected("bound", [](S &s) { s.lowerBound = s.value * 1.01; });
    expectRejected("claim", [](S &s) { s.lowerBound = s.value * 0.99; });
    expectRejected("missing stage", [](S &s) { s.stages.pop_back(); });
    expectRejected("missing kernel", [](S &s) { s.stageOf.pop_back(); });
  }
  EXPECT_GT(solutions, 100);
  EXPECT_GT(mutations, 2000);
}

TEST(VerifyGraphSolution, rejectsWhatBreaksConstraints) {
  Graph graph;
  for (int k = 0; k < 4; ++k) {
    Kernel kernel;
    kernel.name = std::string(1, char('a' + k));
    kernel.forwardTime = 1;
    kernel.parameterBytes = 10;
    graph.addKernel(kernel);
  }
  graph.addEdge(0, 2, 0);
  Cluster cluster = Cluster::cpuCores(2);
  PartitionProblem problem;
  problem.graph = &graph;
  problem.cluster = &cluster;
  Result<PartitionSolution> solution = partitionGraph(problem);
  ASSERT_TRUE(bool(solution));
  ASSERT_EQ(verify(problem, *solution), std::nullopt);
  EXPECT_EQ(solution->stageOf, (std::vector<int>{0, 0, 1, 1}));
  auto fault = [&] { return verify(problem, *solution).value_or(""); };

  graph.kernels[0].stageHint = 1;
  EXPECT_EQ(fault(), "kernel 'a' is not in the stage it wants");
  graph.kernels[0].stageHint.reset();
  graph.kernels[1].colocationClass = graph.kernels[2].colocationClass = 0;
  EXPECT_EQ(fault(), "kernels 'b' and 'c' must be in one stage");
  graph.kernels[1].colocationClass = graph.kernels[2].colocationClass = -1;
  problem.limitMemory = true;
  cluster.devices[1].memoryBytes = 19;
  EXPECT_EQ(fault(), "stage 1 needs more memory than its devices have");
  problem.limitMemory = false;
  cluster.devices[1].memoryBytes = cluster.devices[0].memoryBytes;
  problem.maxStages = 1;
  EXPECT_EQ(fault(), "there are more than 1 stages");
  problem.maxStages = 0;
  graph.values[0] = {"", 2, 0, 0, {3}};
  solution->stageOf = {0, 0, 1, 0};
  solution->stages[0].kernels = {0, 1, 3};
  solution->stages[1].kernels = {2};
  EXPECT_EQ(fault(), "kernel 'c' is in a later stage than 'd', which comes "
                     "after it");
  solution = partitionGraph(problem);
  EXPECT_EQ(fault(), "");
  std::swap(solution->stages[0].devices, solution->stages[1].devices);
  EXPECT_EQ(fault(), "");
}

struct Shape {
  const char *name;
  Graph graph;
  size_t devices;
};

/// The heuristic stays within one percent of the optimum on graphs with the
/// shape of known models, and never claims to be exact.
TEST(LowerBound, knowsTransfersAndNeverExceedsTheOptimum) {
  int higher = 0, count = 0;
  for (int seed = 0; seed < 400; ++seed) {
    Instance instance(70000 + seed, 4 + seed % 7,
                      seed % 2 ? with({&F::chain}) : Features());
    PartitionProblem &problem = instance.problem;
    problem.objective = Objective::Time;
    problem.communication = Communication::Added;
    problem.limits.ideals = 0;
    double optimum = BruteForce(problem).run();
    Result<PartitionSolution> found = partitionGraph(problem);
    if (!found)
      continue;
    // What a bound without transfers knows.
    double work = 0, largest = 0;
    for (const Kernel &kernel : problem.graph->kernels) {
      work += kernel.time();
      largest = std::max(largest, kernel.time());
    }
    double simple =
        std::max(largest, work / static_cast<double>(problem.maxStages));
    EXPECT_GE(found->lowerBound, simple * (1 - 1e-9)) << seed;
    EXPECT_LE(found->lowerBound, optimum * (1 + 1e-9)) << seed;
    ++count;
    higher += found->lowerBound > simple * 1.01;
  }
  EXPECT_GT(count, 300);
  EXPECT_GT(higher, count / 3);
}

TEST(LowerBound, ofAnEvenChainIsTight) {
  // Inner stages take 10 kernels and a transfer on either side.
  Graph graph;
  for (int k = 0; k < 200; ++k) {
    Kernel kernel;
    kernel.name = "k" + std::to_string(k);
    kernel.forwardTime = 1e-3;
    graph.addKernel(kernel);
    if (k > 0)
      graph.addEdge(k - 1, k, 1000, "v", 0);
  }
  Cluster cluster = Cluster::cpuCores(20);
  cluster.defaultLink = {1e6, 0}; // A transfer takes as long as a kernel.
  PartitionProblem problem;
  problem.graph = &graph;
  problem.cluster = &cluster;
  double optimum = partitionGraph(problem)->value;
  problem.limits.ideals = 0;
  Result<PartitionSolution> found = partitionGraph(problem);
  ASSERT_TRUE(found) << found.error();
  EXPECT_NEAR(optimum, 12e-3, 1e-9);
  EXPECT_LE(found->lowerBound, optimum * (1 + 1e-9));
  EXPECT_GT(found->lowerBound, 0.95 * optimum);
}

TEST(Heuristic, isWithinOnePercent) {
  using namespace generated;
  std::vector<Shape> shapes;
  for (unsigned seed = 1; seed <= 3; ++seed) {
    shapes.push_back(
        {"inception", inception(seed % 2, 3, seed, {2, 4, 5, 3}), 4 + seed});
    shapes.push_back({"bert", bert(seed % 2, 6, seed), 2 + seed});
    shapes.push_back({"gnmt", gnmt(seed % 2, 4, 6, seed), 2 + seed});
    shapes.push_back({"nasnet", nasnet(seed % 2, 2, seed, 2), 3});
  }
  for (const Shape &shape : shapes)
    for (Objective objective :
         {Objective::Time, Objective::FlushLatency, Objective::PipeDream}) {
      Cluster cluster = Cluster::cpuCores(shape.devices);
      cluster.defaultLink = {1e9, 1e-5};
      PartitionProblem problem;
      problem.graph = &shape.graph;
      problem.cluster = &cluster;
      problem.objective = objective;
      problem.microbatches = 8;
      problem.replicate = objective == Objective::PipeDream;
      Result<PartitionSolution> exact = partitionGraph(problem);
      ASSERT_TRUE(bool(exact)) << exact.error();
      ASSERT_TRUE(exact->exact) << shape.name << " " << exact->ideals;
      problem.limits.ideals = 0;
      Result<PartitionSolution> found = partitionGraph(problem);
      ASSERT_TRUE(bool(found)) << found.error();
      EXPECT_FALSE(found->exact);
      EXPECT_EQ(verify(problem, *found), std::nullopt);
      EXPECT_LE(found->value, exact->value * 1.01)
          << shape.name << " on " << shape.devices << ", objective "
          << int(objective);
      EXPECT_GE(found->value, exact->value * (1 - 1e-9));
      EXPECT_LE(found->lowerBound, exact->value * (1 + 1e-9));
      // Deterministic.
      EXPECT_EQ(found->stageOf, partitionGraph(problem)->stageOf);
    }
}

/// The largest cost of `stages` runs of a chain, by the plain dynamic program
/// over all intervals.
double bestOfChain(const Graph &graph, const Link &link, size_t stages) {
  size_t n = graph.kernels.size();
  std::vector<double> before(n + 1, 0), crossing(n + 1, 0);
  for (size_t k = 0; k < n; ++k)
    before[k + 1] = before[k] + graph.kernels[k].time();
  for (const Value &value : graph.values) {
    EXPECT_EQ(value.consumers, std::vector<size_t>{value.producer + 1});
    for (int64_t bytes : {value.bytes, value.gradientBytes})
      if (bytes > 0)
        crossing[value.producer + 1] += link.transferTime(bytes);
  }
  std::vector<double> best(n + 1, std::numeric_limits<double>::infinity());
  best[0] = 0;
  for (size_t stage = 0; stage < stages; ++stage) {
    std::vector<double> next(n + 1, std::numeric_limits<double>::infinity());
    for (size_t end = 1; end <= n; ++end)
      for (size_t begin = 0; begin < end; ++begin)
        next[end] =
            std::min(next[end], std::max(best[begin],
                                         before[end] - before[begin] +
                                             crossing[begin] + crossing[end]));
    best = std::move(next);
  }
  return best[n];
}

TEST(GraphPartitioner, chainsOfHundreds) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Graph graph = generated::chain(200 + seed, seed);
    Cluster cluster = Cluster::cpuCores(7);
    cluster.defaultLink = {1e9, 1e-5};
    PartitionProblem problem;
    problem.graph = &graph;
    problem.cluster = &cluster;
    problem.maxStages = 7;
    problem.exactStageCount = true;
    Result<PartitionSolution> solution = partitionGraph(problem);
    ASSERT_TRUE(bool(solution));
    EXPECT_EQ(solution->method, "chain");
    EXPECT_TRUE(solution->exact);
    double best = bestOfChain(graph, cluster.defaultLink, 7);
    EXPECT_NEAR(solution->value, best, 1e-9 * best);
  }
}

TEST(GraphPartitioner, wholeGraphOnReplicasCanWin) {
  // One kernel, no parameters: plain data parallelism.
  Graph graph = generated::chain(1);
  graph.kernels[0].parameterBytes = 0;
  Cluster cluster = Cluster::cpuCores(4);
  PartitionProblem problem;
  problem.graph = &graph;
  problem.cluster = &cluster;
  problem.replicate = true;
  problem.objective = Objective::PipeDream;
  Result<PartitionSolution> solution = partitionGraph(problem);
  ASSERT_TRUE(bool(solution));
  EXPECT_EQ(solution->stages.size(), 1u);
  EXPECT_EQ(solution->stages[0].replicas, 4);
  EXPECT_DOUBLE_EQ(solution->value, graph.kernels[0].time() / 4);
}

TEST(GraphPartitioner, manyDevices) {
  Graph graph = generated::chain(3000);
  std::ifstream file(PP_CLUSTERS "/1024xh200.json");
  std::stringstream text;
  text << file.rdbuf();
  Result<Cluster> cluster = Cluster::fromJson(text.str());
  ASSERT_TRUE(bool(cluster));
  PartitionProblem problem;
  problem.graph = &graph;
  problem.cluster = &*cluster;
  Result<PartitionSolution> solution = partitionGraph(problem);
  ASSERT_TRUE(bool(solution)) << solution.error();
  EXPECT_LT(solution->gap(), 0.03);
  EXPECT_FALSE(solution->exact); // Machines and racks meet over slow links.
  EXPECT_GT(solution->stages.size(), 900u);
  EXPECT_EQ(verify(problem, *solution), std::nullopt);
  // At the slowest link it is proven.
  cluster->groups.clear();
  cluster->groupOf.clear();
  Result<PartitionSolution> alike = partitionGraph(problem);
  ASSERT_TRUE(bool(alike)) << alike.error();
  EXPECT_TRUE(alike->exact);
  EXPECT_GT(alike->value, solution->value);
  EXPECT_EQ(verify(problem, *alike), std::nullopt);
}

/// Memory that is tight on two kinds of devices: minutes and more to the end.
struct TightProblem {
  Graph graph = generated::inception(true);
  Cluster cluster;
  PartitionProblem problem;

  TightProblem() {
    double memory = 0;
    for (const Kernel &kernel : graph.kernels)
      memory += double(kernel.parameterBytes + kernel.savedBytes);
    for (int d = 0; d < 8; ++d)
      cluster.devices.push_back({"d" + std::to_string(d), d < 4 ? "a" : "b",
                                 int64_t(memory / 8 * (d < 4 ? 1.6 : 1.1)),
                                 d < 4 ? 2. : 1.});
    cluster.defaultLink = {12e9, 1e-5};
    problem.graph = &graph;
    problem.cluster = &cluster;
    problem.limitMemory = true;
  }
};

TEST(GraphPartitioner, stepsAreLimited) {
  TightProblem tight;
  tight.problem.limits.steps = 100000;
  Result<PartitionSolution> first = partitionGraph(tight.problem);
  ASSERT_TRUE(bool(first)) << first.error();
  EXPECT_EQ(first->stopped, SearchStop::Steps);
  EXPECT_FALSE(first->exact);
  EXPECT_GT(first->lowerBound, 0);
  EXPECT_EQ(verify(tight.problem, *first), std::nullopt);
  // No clock, no chance.
  Result<PartitionSolution> again = partitionGraph(tight.problem);
  EXPECT_EQ(first->stageOf, again->stageOf);
  EXPECT_EQ(first->value, again->value);

  // What ends by itself is not said to have been stopped.
  Graph chain = generated::chain(50);
  tight.problem.graph = &chain;
  tight.problem.limitMemory = false;
  tight.problem.limits.steps = 10'000'000;
  Result<PartitionSolution> whole = partitionGraph(tight.problem);
  ASSERT_TRUE(bool(whole));
  EXPECT_EQ(whole->stopped, SearchStop::None);
  EXPECT_TRUE(whole->exact);
}

TEST(GraphPartitioner, timeIsLimited) {
  TightProblem tight;
  size_t reports = 0;
  tight.problem.limits.deadline = std::chrono::steady_clock::now();
  tight.problem.limits.report = [&](const PartitionProgress &progress) {
    ++reports;
    EXPECT_GT(progress.lowerBound, 0);
  };
  Result<PartitionSolution> solution = partitionGraph(tight.problem);
  ASSERT_TRUE(bool(solution)) << solution.error();
  EXPECT_EQ(solution->stopped, SearchStop::Time);
  EXPECT_FALSE(solution->exact);
  EXPECT_GT(reports, 0u);
  EXPECT_EQ(verify(tight.problem, *solution), std::nullopt);
  // There is none with this memory, and no time to prove it.
  for (Device &device : tight.cluster.devices)
    device.memoryBytes /= 2;
  solution = partitionGraph(tight.problem);
  ASSERT_FALSE(bool(solution));
  EXPECT_EQ(solution.error(),
            "the limit of time ended the search before it found a partition "
            "that fits the memory of the devices; raise it");
}

/// Cells of an LSTM whose states are kept: what takes no time does not make the
/// search larger, whether its bytes count or not.
TEST(GraphPartitioner, keptStatesTakeNoTime) {
  Graph graph;
  double memory = 0;
  for (size_t cell = 0; cell < 17; ++cell) {
    Kernel step;
    step.name = "cell" + std::to_string(cell);
    step.forwardTime = 1e-3 * double(1 + cell * 7 % 5);
    step.savedBytes = 1000000;
    size_t index = graph.addKernel(step);
    if (cell > 0)
      graph.addEdge(index - 2, index, 4000, "h");
    Kernel state;
    state.name = "state" + std::to_string(cell);
    state.savedBytes = 50000;
    graph.addEdge(index, graph.addKernel(state), 8000, "c");
    memory += double(step.savedBytes + state.savedBytes);
  }
  for (bool limited : {false, true}) {
    Cluster cluster = Cluster::cpuCores(4);
    for (Device &device : cluster.devices)
      device.memoryBytes = limited ? int64_t(memory / 4 * 1.4) : 1 << 30;
    PartitionProblem problem;
    problem.graph = &graph;
    problem.cluster = &cluster;
    problem.limitMemory = limited;
    Result<PartitionSolution> solution = partitionGraph(problem);
    ASSERT_TRUE(bool(solution)) << solution.error();
    EXPECT_TRUE(solution->exact);
    EXPECT_GT(solution->ideals, 0u);
    EXPECT_LE(solution->ideals, 100u);
    EXPECT_EQ(verify(problem, *solution), std::nullopt);
  }
}

TEST(GraphPartitioner, cuts) {
  Graph graph = generated::chain(6);
  Cluster cluster = Cluster::cpuCores(3);
  PartitionProblem problem;
  problem.graph = &graph;
  problem.cluster = &cluster;
  problem.cuts = {1, 4};
  Result<PartitionSolution> solution = partitionGraph(problem);
  ASSERT_TRUE(bool(solution)) << solution.error();
  EXPECT_EQ(solution->stageOf, (std::vector<int>{0, 1, 1, 1, 2, 2}));
  EXPECT_FALSE(solution->exact);
  EXPECT_GT(solution->gap(), 0);
  EXPECT_EQ(verify(problem, *solution), std::nullopt);
}

} // namespace
