//===- ChainPartitionerTest.cpp - Against exhaustive search ---------------===//
#include "pp/Planner/Partition/ChainPartitioner.h"
#include "gtest/gtest.h"
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>

using namespace pp::planner;

namespace {

/// The header's definition of a stage's cost, written down a second time.
double largestCost(const ChainProblem &problem,
                   const std::vector<int> &stageOf) {
  const Graph &graph = *problem.graph;
  std::vector<double> time(problem.stages), communication(problem.stages),
      memory(problem.stages), workspace(problem.stages);
  for (size_t i = 0; i < graph.kernels.size(); ++i) {
    const Kernel &kernel = graph.kernels[i];
    int s = stageOf[i];
    time[s] += kernel.time() / problem.cluster->devices[s].speed;
    memory[s] += problem.memory.parameterCopies * kernel.parameterBytes +
                 double(problem.memory.inFlightOf(s)) * kernel.savedBytes;
    workspace[s] = std::max(workspace[s], double(kernel.workspaceBytes));
  }
  Link link = problem.cluster->slowestLink(problem.stages);
  for (const Value &value : graph.values) {
    std::set<int> stages = {stageOf[value.producer]};
    for (size_t consumer : value.consumers)
      stages.insert(stageOf[consumer]);
    if (stages.size() == 1)
      continue;
    for (int s : stages)
      for (int64_t bytes : {value.bytes, value.gradientBytes})
        communication[s] += bytes ? link.latency + bytes / link.bandwidth : 0;
  }
  double largest = 0;
  for (size_t s = 0; s < problem.stages; ++s) {
    memory[s] += workspace[s];
    if (problem.limitMemory &&
        memory[s] > problem.cluster->devices[s].memoryBytes)
      return std::numeric_limits<double>::infinity();
    double cost = problem.objective == Objective::Memory ? memory[s]
                  : problem.communication == Communication::Added
                      ? time[s] + communication[s]
                  : problem.communication == Communication::Overlapped
                      ? std::max(time[s], communication[s])
                      : time[s];
    largest = std::max(largest, cost);
  }
  return largest;
}

bool meetsConstraints(const Graph &graph, const std::vector<int> &stageOf) {
  for (size_t i = 0; i < graph.kernels.size(); ++i) {
    if (graph.kernels[i].stageHint && *graph.kernels[i].stageHint != stageOf[i])
      return false;
    for (size_t j = 0; j < i; ++j)
      if (graph.kernels[i].colocationClass >= 0 &&
          graph.kernels[i].colocationClass ==
              graph.kernels[j].colocationClass &&
          stageOf[i] != stageOf[j])
        return false;
  }
  return true;
}

double bruteForce(const ChainProblem &problem) {
  size_t n = problem.graph->kernels.size();
  double best = std::numeric_limits<double>::infinity();
  std::vector<int> stageOf(n);
  std::function<void(size_t, int)> place = [&](size_t i, int stage) {
    if (i == n) {
      if (stage + 1 == int(problem.stages) &&
          meetsConstraints(*problem.graph, stageOf))
        best = std::min(best, largestCost(problem, stageOf));
      return;
    }
    for (int s = i ? stage : 0; s <= (i ? stage + 1 : 0); ++s)
      if (s < int(problem.stages)) {
        stageOf[i] = s;
        place(i + 1, s);
      }
  };
  place(0, 0);
  return best;
}

class Random {
public:
  explicit Random(unsigned seed) : engine(seed) {}
  int below(int n) { return int(engine() % n); }
  double time() { return below(5) == 0 ? 0 : below(1000) * 1e-5; }

  Graph graph(int n, int edges) {
    Graph graph;
    for (int i = 0; i < n; ++i) {
      Kernel kernel;
      kernel.name = "k" + std::to_string(i);
      kernel.forwardTime = time();
      kernel.backwardInputTime = time();
      kernel.backwardWeightTime = time();
      kernel.parameterBytes = below(100);
      kernel.savedBytes = below(50);
      kernel.workspaceBytes = below(80);
      graph.addKernel(kernel);
    }
    for (int e = 0; e < edges && n > 1; ++e) {
      int consumer = 1 + below(n - 1), producer = below(consumer);
      // Few names: some values get several readers.
      graph.addEdge(producer, consumer, below(20) * 1000, below(2) ? "a" : "b",
                    below(2) ? below(20) * 1000 : 0);
    }
    return graph;
  }

private:
  std::mt19937 engine;
};

Cluster cluster(size_t devices) {
  Cluster cluster = Cluster::cpuCores(devices);
  cluster.defaultLink = {5e6, 1e-4};
  return cluster;
}

void expectOptimal(const ChainProblem &problem, unsigned seed) {
  double best = bruteForce(problem);
  Result<ChainSolution> solution = partitionChain(problem);
  if (std::isinf(best)) {
    EXPECT_FALSE(bool(solution)) << "seed " << seed;
    return;
  }
  ASSERT_TRUE(bool(solution)) << solution.error() << ", seed " << seed;
  EXPECT_NEAR(solution->value, best, 1e-9 * best) << "seed " << seed;
  EXPECT_LE(solution->lowerBound, best * (1 + 1e-9));
  EXPECT_EQ(verify(problem, *solution), std::nullopt);
  EXPECT_NEAR(largestCost(problem, solution->stageOf), best, 1e-9 * best);
}

TEST(ChainPartitioner, optimalWithoutCommunication) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    Random random(seed);
    int n = 1 + random.below(11);
    Graph graph = random.graph(n, 0);
    Cluster devices = cluster(8);
    ChainProblem problem{&graph, &devices, size_t(1 + random.below(n))};
    if (problem.stages > 8)
      continue;
    expectOptimal(problem, seed);
  }
}

TEST(ChainPartitioner, optimalWithCommunication) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    Random random(seed + 1000);
    int n = 1 + random.below(10);
    Graph graph = random.graph(n, 2 * n);
    Cluster devices = cluster(10);
    if (random.below(2))
      for (Device &device : devices.devices)
        device.speed = 0.5 + random.below(4) * 0.5;
    ChainProblem problem{&graph, &devices, size_t(1 + random.below(n))};
    problem.communication = static_cast<Communication>(random.below(3));
    expectOptimal(problem, seed);
  }
}

TEST(ChainPartitioner, optimalWithConstraints) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    Random random(seed + 2000);
    int n = 3 + random.below(7);
    Graph graph = random.graph(n, n);
    Cluster devices = cluster(10);
    ChainProblem problem{&graph, &devices, size_t(2 + random.below(n - 2))};
    if (random.below(2)) {
      int first = random.below(n), second = random.below(n);
      graph.kernels[first].colocationClass = 7;
      graph.kernels[second].colocationClass = 7;
    }
    if (random.below(2))
      graph.kernels[random.below(n)].stageHint =
          random.below(int(problem.stages));
    if (check(problem)) // For instance too few groups.
      continue;
    expectOptimal(problem, seed);
  }
}

TEST(ChainPartitioner, optimalWithMemory) {
  int infeasible = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    Random random(seed + 3000);
    int n = 2 + random.below(8);
    Graph graph = random.graph(n, n);
    Cluster devices = cluster(10);
    ChainProblem problem{&graph, &devices, size_t(1 + random.below(n))};
    problem.memory.parameterCopies = 3;
    for (size_t s = 0; s < problem.stages; ++s)
      problem.memory.inFlight.push_back(int(problem.stages - s));
    if (random.below(2))
      problem.objective = Objective::Memory;
    problem.limitMemory = random.below(2);
    for (Device &device : devices.devices)
      device.memoryBytes = 300 + random.below(1500);
    infeasible += std::isinf(bruteForce(problem));
    expectOptimal(problem, seed);
  }
  EXPECT_GT(infeasible, 20);
}

struct ChainErrors : testing::Test {
  ChainErrors() {
    for (int i = 0; i < 4; ++i) {
      Kernel kernel;
      kernel.name = "k" + std::to_string(i);
      kernel.forwardTime = 1;
      kernel.parameterBytes = 100;
      graph.addKernel(kernel);
    }
    problem.graph = &graph;
    problem.cluster = &devices;
    problem.stages = 2;
  }
  void expectError(const std::string &fragment) {
    Result<ChainSolution> solution = partitionChain(problem);
    ASSERT_FALSE(bool(solution));
    EXPECT_NE(solution.error().find(fragment), std::string::npos)
        << solution.error();
  }
  Graph graph;
  Cluster devices = Cluster::cpuCores(5);
  ChainProblem problem;
};

TEST_F(ChainErrors, stageCounts) {
  problem.stages = 5;
  expectError("5 stages need at least as many kernels; there are 4");
  problem.stages = 0;
  expectError("at least 1 stage");
  problem.stages = 3;
  devices = Cluster::cpuCores(2);
  expectError("the cluster has 2");
  graph.kernels.clear();
  expectError("no kernels");
}

TEST_F(ChainErrors, hints) {
  graph.kernels[1].stageHint = 2;
  expectError("'k1' wants stage 2, but there are 2 stages");
  graph.kernels[1].stageHint = 1;
  graph.kernels[3].stageHint = 0;
  expectError("'k3' wants stage 0, but comes after 'k1', which wants stage 1");
  graph.kernels[3].stageHint = std::nullopt;
  graph.kernels[0].stageHint = 1;
  expectError("meets the stages that kernels want");
}

TEST_F(ChainErrors, classes) {
  graph.kernels[0].colocationClass = 0;
  graph.kernels[3].colocationClass = 0;
  expectError("leave 1 group");
}

TEST_F(ChainErrors, cuts) {
  problem.cuts = {1, 2};
  expectError("2 cuts make 3 stages, not 2");
  problem.cuts = {4};
  expectError("lie between 1 and 3");
  problem.stages = 3;
  problem.cuts = {2, 2};
  expectError("must increase");
  problem.stages = 2;
  problem.cuts = {2};
  graph.kernels[1].colocationClass = graph.kernels[2].colocationClass = 3;
  expectError("separates kernels that must be in one stage");
  graph.kernels[1].colocationClass = -1;
  graph.kernels[1].stageHint = 1;
  expectError("contradicts a stage");
}

TEST_F(ChainErrors, memory) {
  problem.limitMemory = true;
  for (Device &device : devices.devices)
    device.memoryBytes = 150;
  expectError("needs 200 bytes and device 'core0' has 150");
  problem.cuts = {3};
  expectError("stage 0 needs 300 bytes; device 'core0' has 150");
}

TEST_F(ChainErrors, graphs) {
  graph.addEdge(2, 1, 4, "v");
  expectError("'k1' reads 'v' before kernel 'k2' makes it");
  graph.values.clear();
  graph.kernels[0].forwardTime = std::nan("");
  expectError("kernel 'k0' has the time");
}

TEST_F(ChainErrors, verifyFindsWrongSolutions) {
  ChainSolution good = *partitionChain(problem);
  EXPECT_EQ(verify(problem, good), std::nullopt);
  ChainSolution bad = good;
  bad.stageOf[0] = 1;
  EXPECT_NE(verify(problem, bad), std::nullopt);
  bad = good;
  bad.value /= 2;
  EXPECT_NE(verify(problem, bad), std::nullopt);
  bad = good;
  bad.stageOf = {0, 0, 0, 0};
  EXPECT_NE(verify(problem, bad), std::nullopt);
  bad = good;
  bad.stageOf = {0, 1, 0, 1};
  EXPECT_NE(verify(problem, bad), std::nullopt);
}

TEST_F(ChainErrors, userCutsAreTaken) {
  problem.cuts = {1};
  ChainSolution solution = *partitionChain(problem);
  EXPECT_EQ(solution.stageOf, (std::vector<int>{0, 1, 1, 1}));
  EXPECT_FALSE(solution.optimalForOrder);
  EXPECT_EQ(solution.value, 3);
  EXPECT_EQ(solution.lowerBound, 2);
  EXPECT_DOUBLE_EQ(solution.gap(), 0.5);
}

TEST(ChainPartitioner, largeChainsAreFast) {
  Random random(5);
  Graph graph = random.graph(100000, 0);
  Cluster devices = cluster(64);
  ChainProblem problem{&graph, &devices, 64};
  auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(bool(partitionChain(problem)));
  // With communication along the chain and some skips.
  Graph small = random.graph(4000, 0);
  for (size_t i = 0; i + 1 < 4000; ++i) {
    small.addEdge(i, i + 1, 2000, "v", 2000);
    if (i % 10 == 0 && i + 30 < 4000)
      small.addEdge(i, i + 30, 2000, "v", 2000);
  }
  problem.graph = &small;
  Result<ChainSolution> solution = partitionChain(problem);
  ASSERT_TRUE(bool(solution));
  EXPECT_LT(solution->gap(), 0.2);
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 20); // Far below in optimised builds.
  RecordProperty("seconds", std::to_string(took.count()));
}

} // namespace
