//===- UnequalLinksTest.cpp - Against exhaustive search -------------------===//
#include "../../../benchmarks/planner/GeneratedGraphs.h"
#include "pp/Planner/Partition/HierarchicalPartitioner.h"
#include "gtest/gtest.h"
#include <bit>
#include <cmath>
#include <random>
#include <set>

using namespace pp::planner;

namespace {

struct Instance {
  Graph graph;
  Cluster cluster;
  PartitionProblem problem;

  Instance(unsigned seed, size_t kernels, size_t outer, size_t inner) {
    std::mt19937 random(seed);
    for (size_t k = 0; k < kernels; ++k) {
      Kernel kernel;
      kernel.name = "k" + std::to_string(k);
      kernel.forwardTime = double(random() % 1000) * 1e-5;
      kernel.parameterBytes = int64_t(random() % 100) * 1000;
      kernel.savedBytes = int64_t(random() % 100) * 1000;
      graph.addKernel(kernel);
    }
    for (size_t e = random() % (2 * kernels); e > 0 && kernels > 1; --e) {
      size_t reader = 1 + random() % (kernels - 1);
      graph.addEdge(random() % reader, reader, int64_t(random() % 20) * 1000,
                    random() % 2 ? "a" : "b", int64_t(random() % 20) * 1000);
    }
    cluster.defaultLink = {2e7, 1e-4};
    for (size_t node = 0; node < outer; ++node) {
      cluster.groups.push_back(
          {"n" + std::to_string(node), {1e8, 1e-5}, std::nullopt});
      for (size_t d = 0; d < inner; ++d) {
        cluster.devices.push_back(
            {"n" + std::to_string(node) + "/d" + std::to_string(d), "cpu",
             150000});
        cluster.groupOf.push_back(node);
      }
    }
    problem.graph = &graph;
    problem.cluster = &cluster;
    Objective objectives[] = {Objective::PipeDream, Objective::Time,
                              Objective::FlushLatency};
    problem.objective = objectives[seed % 3];
    problem.replicate = seed % 4 != 0;
    problem.microbatches = 4;
    problem.form = seed % 2 ? PipeDreamForm::Code : PipeDreamForm::Paper;
    problem.limitMemory = seed % 5 == 0;
    if (problem.objective != Objective::PipeDream && seed % 7 < 2)
      problem.communication = Communication::Overlapped;
  }
  Instance(const Instance &) = delete;
};

/// The least value of all partitions on all sets of devices, with the costs of
/// the header written down a second time for the links that are used.
class BruteForce {
public:
  explicit BruteForce(const PartitionProblem &problem)
      : problem(problem), graph(*problem.graph), cluster(*problem.cluster) {}

  double run() {
    place(0, 0);
    return best;
  }

  double value(const std::vector<unsigned> &kernels,
               const std::vector<unsigned> &devices) const {
    size_t count = kernels.size();
    double largest = 0, sum = 0;
    for (size_t s = 0; s < count; ++s) {
      double time = 0, parameters = 0, saved = 0, communication = 0;
      for (size_t k = 0; k < graph.kernels.size(); ++k)
        if (kernels[s] >> k & 1) {
          time += graph.kernels[k].time();
          parameters += double(graph.kernels[k].parameterBytes);
          saved += double(graph.kernels[k].savedBytes);
        }
      if (problem.limitMemory && parameters + saved > 150000)
        return INFINITY;
      double cutBefore = 0, cutAfter = 0;
      for (const Value &value : graph.values) {
        size_t first = stageOf(kernels, value.producer), last = first;
        double producer = 0;
        bool reads = false;
        for (size_t consumer : value.consumers) {
          size_t reader = stageOf(kernels, consumer);
          last = std::max(last, reader);
          reads |= reader == s && reader != first;
          if (reader != first)
            producer = std::max(
                producer, transfer(value, devices[first], devices[reader]));
        }
        if (first == s)
          communication += producer;
        if (reads)
          communication += transfer(value, devices[first], devices[s]);
        double bytes = double(value.bytes + value.gradientBytes);
        if (first < s && last >= s)
          cutBefore += bytes / link(devices[s - 1], devices[s]).bandwidth;
        if (first <= s && last > s)
          cutAfter += bytes / link(devices[s], devices[s + 1]).bandwidth;
      }
      double m = std::popcount(devices[s]);
      Link among = link(devices[s], devices[s]);
      double p = parameters / among.bandwidth, cost;
      if (problem.objective == Objective::PipeDream) {
        cost =
            problem.form == PipeDreamForm::Paper
                ? std::max({time / m, 2 * (m - 1) * p / m, cutBefore, cutAfter})
                : std::max({(time + 4 * (m - 1) / m * p) / m, cutBefore / m,
                            s ? cutAfter / m : 0});
      } else {
        double sync =
            m > 1 ? (2 * (m - 1) / m * p + 2 * (m - 1) * among.latency) /
                        problem.microbatches
                  : 0;
        cost = (problem.communication == Communication::Added
                    ? time + communication
                    : std::max(time, communication)) /
                   m +
               sync;
      }
      largest = std::max(largest, cost);
      sum += cost;
    }
    return problem.objective == Objective::FlushLatency
               ? sum + (problem.microbatches - 1) * largest
               : largest;
  }

private:
  static size_t stageOf(const std::vector<unsigned> &kernels, size_t kernel) {
    size_t s = 0;
    while (!(kernels[s] >> kernel & 1))
      ++s;
    return s;
  }

  double transfer(const Value &value, unsigned from, unsigned to) const {
    double time = 0;
    for (int64_t bytes : {value.bytes, value.gradientBytes})
      time += bytes ? link(from, to).transferTime(bytes) : 0;
    return time;
  }

  /// Machines have the same number of devices each, one after the other.
  Link link(unsigned a, unsigned b) const {
    size_t each = cluster.devices.size() / cluster.groups.size();
    std::set<size_t> machines;
    for (size_t d = 0; d < cluster.devices.size(); ++d)
      if ((a | b) >> d & 1)
        machines.insert(d / each);
    return machines.size() > 1 ? cluster.defaultLink : cluster.groups[0].link;
  }

  void place(unsigned done, unsigned used) {
    unsigned all = (1u << graph.kernels.size()) - 1;
    if (done == all) {
      best = std::min(best, value(kernels, devices));
      return;
    }
    unsigned rest = all & ~done;
    unsigned free = ((1u << cluster.devices.size()) - 1) & ~used;
    for (unsigned stage = rest; stage; stage = (stage - 1) & rest) {
      if (!isClosed(done, stage))
        continue;
      for (unsigned on = free; on; on = (on - 1) & free) {
        if (!problem.replicate && std::popcount(on) != 1)
          continue;
        kernels.push_back(stage);
        devices.push_back(on);
        place(done | stage, used | on);
        kernels.pop_back();
        devices.pop_back();
      }
    }
  }

  bool isClosed(unsigned before, unsigned stage) const {
    for (const Value &value : graph.values)
      for (size_t reader : value.consumers)
        if ((stage >> reader & 1) && !((before | stage) >> value.producer & 1))
          return false;
    return true;
  }

  const PartitionProblem &problem;
  const Graph &graph;
  const Cluster &cluster;
  std::vector<unsigned> kernels, devices;
  double best = INFINITY;
};

TEST(UnequalLinks, boundsHoldForAllPartitionsAndDevices) {
  int solved = 0, exact = 0, optimal = 0;
  double worst = 1;
  for (unsigned seed = 0; seed < 300; ++seed) {
    Instance instance(seed, 1 + seed % 5, 2, 2);
    double best = BruteForce(instance.problem).run();
    Result<PartitionSolution> solution = partitionGraph(instance.problem);
    if (best == INFINITY) {
      EXPECT_FALSE(bool(solution)) << "seed " << seed;
      continue;
    }
    ASSERT_TRUE(bool(solution)) << solution.error() << ", seed " << seed;
    ++solved;
    EXPECT_EQ(verify(instance.problem, *solution), std::nullopt)
        << "seed " << seed;
    // The value is that of its stages on their devices.
    std::vector<unsigned> kernels, devices;
    for (const PlannedStage &stage : solution->stages) {
      kernels.push_back(0);
      devices.push_back(0);
      for (size_t kernel : stage.kernels)
        kernels.back() |= 1u << kernel;
      for (size_t device : stage.devices)
        devices.back() |= 1u << device;
    }
    EXPECT_NEAR(solution->value,
                BruteForce(instance.problem).value(kernels, devices),
                1e-9 * best)
        << "seed " << seed;
    EXPECT_GE(solution->value, best * (1 - 1e-9)) << "seed " << seed;
    EXPECT_LE(solution->lowerBound, best * (1 + 1e-9)) << "seed " << seed;
    if (solution->exact) {
      EXPECT_NEAR(solution->value, best, 1e-9 * best) << "seed " << seed;
      ++exact;
    }
    optimal += solution->value <= best * (1 + 1e-9);
    worst = std::max(worst, solution->value / best);
  }
  EXPECT_GT(solved, 280);
  EXPECT_GT(exact, 80);
  EXPECT_GT(optimal, 270);
  EXPECT_LT(worst, 1.2);
}

/// A cluster whose links are all alike is solved as ever, whatever its groups.
TEST(UnequalLinks, groupsAloneChangeNothing) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    Instance instance(seed, 1 + seed % 6, 2, 2);
    for (DeviceGroup &group : instance.cluster.groups)
      group.link = instance.cluster.defaultLink;
    Result<PartitionSolution> grouped = partitionGraph(instance.problem);
    instance.cluster.groups.clear();
    instance.cluster.groupOf.clear();
    Result<PartitionSolution> flat = partitionGraph(instance.problem);
    ASSERT_EQ(bool(grouped), bool(flat));
    if (flat)
      EXPECT_EQ(grouped->value, flat->value) << "seed " << seed;
  }
}

/// Two machines of two devices: replicas share the slow link, or there are none
/// beyond one machine.
TEST(UnequalLinks, replicasInOneMachine) {
  Graph graph;
  for (auto [name, time, bytes] :
       {std::tuple("a", 1., 10), std::tuple("b", 2., 10),
        std::tuple("c", 1., 0)}) {
    graph.kernels.emplace_back().name = name;
    graph.kernels.back().forwardTime = time;
    graph.kernels.back().parameterBytes = bytes;
  }
  graph.addEdge(0, 1, 4);
  graph.addEdge(1, 2, 4);
  Cluster cluster;
  cluster.defaultLink = {1, 0};
  for (size_t d = 0; d < 4; ++d) {
    cluster.devices.push_back({"d" + std::to_string(d), "cpu", 100});
    cluster.groupOf.push_back(d / 2);
  }
  cluster.groups = {{"m0", {100, 0}, std::nullopt},
                    {"m1", {100, 0}, std::nullopt}};
  PartitionProblem problem;
  problem.graph = &graph;
  problem.cluster = &cluster;
  problem.objective = Objective::PipeDream;
  problem.replicate = true;
  Result<PartitionSolution> solution = partitionGraph(problem);
  ASSERT_TRUE(bool(solution));
  EXPECT_NEAR(solution->value, 2, 1e-9);
  ASSERT_EQ(solution->stages.size(), 2u);
  EXPECT_EQ(solution->stages[1].devices, (std::vector<size_t>{2, 3}));
  EXPECT_FALSE(solution->exact);
  EXPECT_EQ(verify(problem, *solution), std::nullopt);
  Result<HierarchicalSolution> levels = partitionHierarchically(problem);
  ASSERT_TRUE(bool(levels));
  EXPECT_LE(solution->value, levels->value * (1 + 1e-9));
}

/// A chain on four machines of eight devices, whose replicas are worth little
/// over the slow link.
TEST(UnequalLinks, stagesLieInMachines) {
  Graph graph = generated::chain(100);
  Cluster cluster;
  cluster.defaultLink = {1.25e8, 2e-5};
  for (size_t d = 0; d < 32; ++d) {
    cluster.devices.push_back({"d" + std::to_string(d), "gpu", 1 << 30});
    cluster.groupOf.push_back(d / 8);
  }
  for (size_t m = 0; m < 4; ++m)
    cluster.groups.push_back(
        {"m" + std::to_string(m), {1.5e11, 3e-6}, std::nullopt});
  PartitionProblem problem;
  problem.graph = &graph;
  problem.cluster = &cluster;
  problem.objective = Objective::PipeDream;
  problem.replicate = true;
  Result<PartitionSolution> solution = partitionGraph(problem);
  ASSERT_TRUE(bool(solution)) << solution.error();
  EXPECT_EQ(verify(problem, *solution), std::nullopt);
  EXPECT_LT(solution->gap(), 0.02);
  // At the slowest link everywhere it is more than twice as long.
  cluster.groups.clear();
  cluster.groupOf.clear();
  Result<PartitionSolution> alike = partitionGraph(problem);
  ASSERT_TRUE(bool(alike)) << alike.error();
  EXPECT_GT(alike->value, 2 * solution->value);
}

} // namespace
