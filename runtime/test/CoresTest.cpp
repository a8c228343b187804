//===- CoresTest.cpp - Which cores ranks run on ---------------------------===//
#include "support/Cores.h"
#include "TestFiles.h"
#include "ToyProgram.h"
#include "device/OpenDevice.h"
#include "exec/DataSet.h"
#include "exec/Executor.h"
#include "exec/OptimizerScalars.h"
#include "exec/Team.h"
#include "program/Program.h"
#include "program/RankCores.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace pp::runtime;

namespace {

/// Two nodes with two cores of two hardware threads each; a system numbers the
/// second threads behind all first ones.
///
///   node 0: cores 0 = {0, 4}, 1 = {1, 5}    node 1: cores 2 = {2, 6}, 3 = {3,
///   7}
class Topology {
public:
  Topology() {
    namespace fs = std::filesystem;
    auto write = [&](const std::string &name, const std::string &text) {
      fs::create_directories(fs::path(folder.file(name)).parent_path());
      writeText(folder.file(name), text + "\n");
    };
    write("node/online", "0-1");
    write("node/node0/cpulist", "0-1,4-5");
    write("node/node1/cpulist", "2-3,6,7");
    for (int core = 0; core < 8; ++core)
      write("cpu/cpu" + std::to_string(core) + "/topology/thread_siblings_list",
            std::to_string(core % 4) + "," + std::to_string(core % 4 + 4));
  }
  Cores order(const Cores &cores) const {
    return nearestFirst(cores, folder.path);
  }

private:
  TemporaryDirectory folder;
};

TEST(Cores, NeighboursAreNearAndSecondThreadsLast) {
  Topology topology;
  EXPECT_EQ(topology.order({0, 1, 2, 3, 4, 5, 6, 7}),
            (Cores{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(topology.order({7, 6, 5, 4, 3, 2}), (Cores{4, 5, 2, 3, 6, 7}));
  // Without a description, as they are counted.
  EXPECT_EQ(nearestFirst({3, 1, 2}, "/nowhere"), (Cores{1, 2, 3}));
}

TEST(Cores, ABindingEnds) {
  Cores before = usableCores();
  ASSERT_FALSE(before.empty());
  {
    ScopedBinding binding({before.back()});
    EXPECT_EQ(usableCores(), Cores{before.back()});
    ScopedBinding none({});
    EXPECT_EQ(usableCores(), Cores{before.back()});
  }
  EXPECT_EQ(usableCores(), before);
  EXPECT_EQ(errorOf([] {
              bindThread({(1 << 14) - 1});
            }).find("cannot bind a thread to core 16383: "),
            0U);
}

TEST(Cores, EachThreadOfATeamHasItsOwn) {
  Cores usable = usableCores(), cores{usable.front(), usable.back()};
  Team team(2, "test", cores);
  Cores second;
  team.run([&](unsigned part) {
    if (part == 1)
      second = usableCores();
  });
  EXPECT_EQ(second, Cores{usable.back()});
  // The caller's is its own business.
  EXPECT_EQ(usableCores(), usable);
}

/// A pipeline of three ranks.
Plan threeRanks() {
  toy::Binary binary(toy::Options{{0, 1, 2}});
  return Plan::parse(binary.trainingText);
}

using All = std::vector<Cores>;

TEST(RankCores, RanksOfOneProcessLieSideBySide) {
  Plan plan = threeRanks();
  plan.threads = 2;
  EXPECT_EQ(assignCores(plan, Placement(plan, 0, 1), {}, {0, 1, 2, 3, 4, 5}, 6),
            (All{{0, 1}, {2, 3}, {4, 5}}));
}

TEST(RankCores, ProcessesOfOneMachineDivideItsCores) {
  Plan plan = threeRanks();
  Launch launch;
  launch.processes = launch.localProcesses = 2;
  EXPECT_EQ(assignCores(plan, Placement(plan, 0, 2), launch, {0, 1, 2}, 3),
            (All{{0}, {1}, {}}));
  launch.process = launch.localProcess = 1;
  EXPECT_EQ(assignCores(plan, Placement(plan, 1, 2), launch, {0, 1, 2}, 3),
            (All{{}, {}, {2}}));
  // The launcher has divided them.
  EXPECT_EQ(assignCores(plan, Placement(plan, 1, 2), launch, {5}, 6),
            (All{{}, {}, {5}}));
  // The other process is on another machine.
  launch.localProcess = 0;
  launch.localProcesses = 1;
  EXPECT_EQ(assignCores(plan, Placement(plan, 1, 2), launch, {0, 1}, 2),
            (All{{}, {}, {0}}));
}

TEST(RankCores, TooFewAreAnError) {
  Plan plan = threeRanks();
  EXPECT_EQ(
      errorOf([&] { assignCores(plan, Placement(plan, 0, 1), {}, {0, 1}, 2); }),
      "--pin: 3 ranks of 1 threads need 3 cores, of which this process "
      "may use 2");
}

TEST(RankCores, APinnedProgramComputesTheSame) {
  auto train = [](bool isPinned) {
    toy::Binary binary(toy::Options{});
    auto device = openDevice("cpu", binary.training);
    Program program(binary.training, *device);
    if (isPinned)
      program.pin();
    EXPECT_EQ(program.coresOf(0).size(), isPinned ? 1U : 0U);
    program.allocate("");
    Executor executor(program, {});
    DataSet data(program.getPlan(), toy::data(toy::batch));
    std::vector<uint64_t> order(toy::batch);
    std::iota(order.begin(), order.end(), 0);
    std::vector<float> losses;
    for (unsigned i = 1; i <= 3; ++i) {
      Step step(program.getPlan());
      step.number = i;
      step.scalars = OptimizerScalars(program.getPlan().optimizer).evaluate(i);
      data.fill(step, order, 0);
      executor.run(step);
      losses.push_back(step.loss());
    }
    return losses;
  };
  EXPECT_EQ(train(true), train(false));
}

} // namespace
