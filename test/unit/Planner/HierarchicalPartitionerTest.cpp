//===- HierarchicalPartitionerTest.cpp - Against exhaustive search --------===//
#include "pp/Planner/Partition/HierarchicalPartitioner.h"
#include "../../../benchmarks/planner/GeneratedGraphs.h"
#include "gtest/gtest.h"
#include <cmath>
#include <limits>
#include <random>

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
      graph.addKernel(kernel);
    }
    for (size_t e = random() % (2 * kernels); e > 0 && kernels > 1; --e) {
      size_t reader = 1 + random() % (kernels - 1);
      int64_t bytes = int64_t(random() % 20) * 1000;
      graph.addEdge(random() % reader, reader, bytes, random() % 2 ? "a" : "b",
                    bytes);
    }
    cluster.defaultLink = {2e7, 0};
    for (size_t node = 0; node < outer; ++node) {
      cluster.groups.push_back(
          {"n" + std::to_string(node), {1e8, 0}, std::nullopt});
      for (size_t d = 0; d < inner; ++d) {
        cluster.devices.push_back(
            {"n" + std::to_string(node) + "/d" + std::to_string(d)});
        cluster.groupOf.push_back(node);
      }
    }
    if (outer == 0) { // One level.
      cluster = Cluster::cpuCores(inner);
      cluster.defaultLink = {2e7, 0};
    }
    problem.graph = &graph;
    problem.cluster = &cluster;
    problem.objective = Objective::PipeDream;
    problem.replicate = true;
    problem.form = seed % 2 ? PipeDreamForm::Code : PipeDreamForm::Paper;
    problem.useAllDevices = seed % 3 == 0;
  }
  Instance(const Instance &) = delete;
};

/// The header's recursion, written down for sets of kernels.
class BruteForce {
public:
  BruteForce(const Instance &instance, std::vector<int> units)
      : graph(instance.graph), problem(instance.problem),
        units(std::move(units)) {}

  /// The best value of `kernels`, with all of `before` already run, on one
  /// unit of level `level`.
  double unit(int level, unsigned before, unsigned kernels) {
    if (level == 0) {
      double time = 0;
      for (size_t k = 0; k < graph.kernels.size(); ++k)
        if (kernels >> k & 1)
          time += graph.kernels[k].time();
      return time;
    }
    return pipeline(level, before, before, kernels, units[level - 1]);
  }

private:
  double pipeline(int level, unsigned begin, unsigned before, unsigned kernels,
                  int left) {
    if (!kernels)
      return problem.useAllDevices && left ? INFINITY : 0;
    double best = INFINITY;
    for (unsigned stage = kernels; stage; stage = (stage - 1) & kernels) {
      if (!isClosed(before, stage))
        continue;
      double inner = -1;
      for (int m = 1; m <= left; ++m) {
        if (inner < 0)
          inner = unit(level - 1, before, stage);
        double rest =
            pipeline(level, begin, before | stage, kernels & ~stage, left - m);
        best = std::min(best, std::max(rest, cost(level, before, stage, m,
                                                  inner, before == begin)));
      }
    }
    return best;
  }

  double cost(int level, unsigned before, unsigned stage, int m, double inner,
              bool first) const {
    double bandwidth = level == int(units.size()) ? 2e7 : 1e8;
    double devices = level == 1 ? 1 : units[0];
    double parameters = 0;
    for (size_t k = 0; k < graph.kernels.size(); ++k)
      if (stage >> k & 1)
        parameters += double(graph.kernels[k].parameterBytes);
    double in = first ? 0 : crossing(before) / bandwidth;
    double out = first ? 0 : crossing(before | stage) / bandwidth;
    if (problem.form == PipeDreamForm::Paper)
      return std::max({inner / m,
                       2.0 * (m - 1) * parameters / bandwidth / devices / m,
                       in});
    return std::max(
        {(inner + 4.0 * (m - 1) / m * parameters / bandwidth / devices) / m,
         in / m, out / m});
  }

  double crossing(unsigned inside) const {
    double bytes = 0;
    for (const Value &value : graph.values) {
      unsigned readers = 0;
      for (size_t reader : value.consumers)
        readers |= 1u << reader;
      if ((inside >> value.producer & 1) && (readers & ~inside))
        bytes += double(value.bytes + value.gradientBytes);
    }
    return bytes;
  }

  bool isClosed(unsigned before, unsigned stage) const {
    for (const Value &value : graph.values)
      for (size_t reader : value.consumers)
        if ((stage >> reader & 1) && !((before | stage) >> value.producer & 1))
          return false;
    return true;
  }

  const Graph &graph;
  const PartitionProblem &problem;
  std::vector<int> units;
};

TEST(HierarchicalPartitioner, equalsBruteForce) {
  int solved = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    Instance instance(seed, 1 + seed % 6, 2, 2 + seed % 2);
    double best = BruteForce(instance, {int(2 + seed % 2), 2})
                      .unit(2, 0, (1u << instance.graph.kernels.size()) - 1);
    Result<HierarchicalSolution> solution =
        partitionHierarchically(instance.problem);
    ASSERT_TRUE(bool(solution)) << solution.error() << ", seed " << seed;
    EXPECT_NEAR(solution->value, best, 1e-9 * best) << "seed " << seed;
    EXPECT_TRUE(solution->exact);
    EXPECT_EQ(verify(instance.problem, *solution), std::nullopt)
        << "seed " << seed;
    ++solved;
    solution->stages[0].cost *= 1.01;
    if (solution->stages[0].cost > 0)
      EXPECT_EQ(verify(instance.problem, *solution),
                "the cost of a stage is wrong");
  }
  EXPECT_EQ(solved, 300);
}

TEST(HierarchicalPartitioner, oneLevelIsTheFlatProblem) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Instance instance(seed, 1 + seed % 8, 0, 1 + seed % 5);
    Result<HierarchicalSolution> levels =
        partitionHierarchically(instance.problem);
    Result<PartitionSolution> flat = partitionGraph(instance.problem);
    ASSERT_TRUE(bool(levels) && bool(flat) && levels->exact);
    EXPECT_NEAR(levels->value, flat->value, 1e-9 * flat->value)
        << "seed " << seed;
  }
}

TEST(HierarchicalPartitioner, wideGraphs) {
  Instance instance(1, 1, 4, 4);
  instance.graph = generated::inception(false, 2, 1, {2, 2, 3, 2});
  Result<HierarchicalSolution> solution =
      partitionHierarchically(instance.problem);
  ASSERT_TRUE(bool(solution)) << solution.error();
  EXPECT_EQ(verify(instance.problem, *solution), std::nullopt);
  instance.graph = generated::inception(false);
  solution = partitionHierarchically(instance.problem);
  ASSERT_TRUE(bool(solution)) << solution.error();
  EXPECT_FALSE(solution->exact);
  EXPECT_EQ(solution->ideals, 0u);
  EXPECT_EQ(verify(instance.problem, *solution), std::nullopt);
}

TEST(HierarchicalPartitioner, errors) {
  Instance instance(1, 3, 2, 2);
  PartitionProblem problem = instance.problem;
  auto error = [&] {
    Result<HierarchicalSolution> solution = partitionHierarchically(problem);
    return solution ? "" : solution.error();
  };
  problem.replicate = false;
  EXPECT_EQ(error(),
            "levels are planned for the objective pipedream with replication");
  problem.replicate = true;
  problem.limitMemory = true;
  EXPECT_EQ(error(), "limits of memory or stages and cuts are not supported "
                     "with levels");
  problem.limitMemory = false;
  instance.cluster.devices[0].speed = 2;
  EXPECT_EQ(error(), "levels need equal devices");
  instance.cluster.links[{0, 1}] = {1, 1};
  EXPECT_EQ(error(), "the cluster is not a regular tree of groups");
}

} // namespace
