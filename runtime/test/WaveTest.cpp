//===- WaveTest.cpp - Virtual workers of the toy --------------------------===//
#include "ToyProgram.h"
#include "exec/DataSet.h"
#include "exec/Executor.h"
#include "exec/OptimizerScalars.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <numeric>

using namespace pp::runtime;

namespace {

struct Trained {
  std::vector<double> losses;
  std::vector<float> parameters, states, running; // of one worker
};

void append(std::vector<float> &to, const char *data, uint64_t bytes) {
  size_t before = to.size();
  to.resize(before + bytes / sizeof(float));
  std::memcpy(to.data() + before, data, bytes);
}

/// Steps before those of `idleAfter` are in flight with the next ones.
Trained train(const nlohmann::ordered_json &trainingPlan,
              const std::vector<int> &cuts, unsigned steps,
              const std::vector<unsigned> &idleAfter = {}) {
  toy::Binary binary(cuts, trainingPlan, toy::inferencePlan(cuts));
  Program program(binary.training);
  program.allocate("");
  Executor::Options options;
  options.watchdogSeconds = 60;
  Executor executor(program, options);
  const Plan &plan = program.getPlan();
  DataSet data(plan, toy::data(3 * toy::batch));
  OptimizerScalars scalars(plan.optimizer);
  std::vector<uint64_t> order(data.getSamples());
  std::iota(order.begin(), order.end(), 0);
  std::deque<Step> all;
  for (unsigned i = 0; i < steps; ++i) {
    Step &step = all.emplace_back(plan);
    data.fill(step, order, i % 3 * toy::batch);
    scalars.setIn(step, plan, i + 1);
    step.number = i + 1;
    executor.submit(step);
    if (std::count(idleAfter.begin(), idleAfter.end(), i))
      executor.flush();
  }
  executor.flush();
  Trained result;
  for (Step &step : all) {
    executor.wait(step);
    std::vector<double> losses = step.losses.values();
    result.losses.insert(result.losses.end(), losses.begin(), losses.end());
  }
  std::vector<Trained> workers(plan.replicas);
  for (const StageMemory &memory : program.getMemories()) {
    EXPECT_EQ(memory.getBytes(), memory.getPlan().memoryBytes);
    const PlanStage &stage = memory.getPlan();
    if (plan.dealsUpdates() && stage.replica > 0) {
      const StageMemory &first = (&memory)[-static_cast<int>(stage.replica)];
      for (const PlanTensor &tensor : stage.parameters)
        EXPECT_EQ(std::memcmp(memory.parameter(tensor), first.parameter(tensor),
                              tensor.bytes),
                  0)
            << tensor.name;
      continue;
    }
    Trained &own = workers[plan.dealsUpdates() ? 0 : stage.replica];
    for (const PlanTensor &tensor : memory.getPlan().parameters) {
      append(own.parameters, memory.parameter(tensor), tensor.bytes);
      append(own.states, memory.optimizerState(plan.optimizer, tensor, 0),
             tensor.bytes);
    }
    for (const PlanTensor &tensor : memory.getPlan().buffers)
      append(own.running, memory.buffer(tensor), tensor.bytes);
  }
  // Nothing is in flight, so all have the same.
  for (const Trained &worker : workers) {
    EXPECT_EQ(worker.parameters, workers[0].parameters);
    EXPECT_EQ(worker.states, workers[0].states);
    EXPECT_EQ(worker.running, workers[0].running);
  }
  result.parameters = workers[0].parameters;
  result.states = workers[0].states;
  result.running = workers[0].running;
  return result;
}

Trained trainWaves(const std::vector<int> &cuts, int workers, int distance,
                   unsigned steps, const std::vector<unsigned> &idle = {},
                   const std::vector<std::vector<int>> &stagesOfRanks = {}) {
  return train(toy::wavePlan(cuts, workers, distance, stagesOfRanks), cuts,
               steps, idle);
}

const std::vector<std::vector<int>> cutsOfPipelines = {{0, 2}, {0, 1, 2}};

} // namespace

// All stages read the version that is as old as the wave is large, whatever
// their number: cuts change no bit.
TEST(WaveTest, SameBitsAsOneStage) {
  for (int workers : {1, 2, 4})
    for (int distance : {0, 1, 4}) {
      Trained expected = trainWaves({0}, workers, distance, 7);
      for (const std::vector<int> &cuts : cutsOfPipelines) {
        Trained actual = trainWaves(cuts, workers, distance, 7);
        EXPECT_EQ(actual.losses, expected.losses) << workers << distance;
        EXPECT_EQ(actual.parameters, expected.parameters);
        EXPECT_EQ(actual.states, expected.states);
      }
    }
}

// Nor does it change a bit which of them are on one rank of a worker.
TEST(WaveTest, WorkersMayDiffer) {
  const std::vector<std::vector<std::vector<int>>> all = {
      {{1, 1, 1}, {3}}, {{2, 1}, {1, 2}}, {{3}, {1, 2}}, {{2, 1}, {2, 1}}};
  for (int distance : {0, 2}) {
    Trained expected = trainWaves({0}, 2, distance, 7, {3});
    for (const auto &stagesOfRanks : all) {
      Trained actual =
          trainWaves({0, 1, 2}, 2, distance, 7, {3}, stagesOfRanks);
      EXPECT_EQ(actual.losses, expected.losses);
      EXPECT_EQ(actual.parameters, expected.parameters);
      EXPECT_EQ(actual.states, expected.states);
    }
  }
}

// The distance changes what a wave reads, and where the pipeline runs empty
// does.
TEST(WaveTest, TheDistanceIsPartOfTheTraining) {
  Trained zero = trainWaves({0, 2}, 2, 0, 7), one = trainWaves({0, 2}, 2, 1, 7);
  EXPECT_NE(zero.parameters, one.parameters);
  Trained idle = trainWaves({0, 2}, 2, 1, 7, {2, 4});
  EXPECT_NE(idle.parameters, one.parameters);
  for (const std::vector<int> &cuts : cutsOfPipelines)
    EXPECT_EQ(trainWaves(cuts, 2, 1, 7, {2, 4}).parameters, idle.parameters);
  // Before the first update, all are the same.
  EXPECT_TRUE(std::equal(zero.losses.begin(),
                         zero.losses.begin() + toy::microbatches,
                         one.losses.begin()));
}

// With one micro-batch in flight and no distance, all workers wait for each
// other: their updates add up to the synchronous one, momentum included.
TEST(WaveTest, WithoutDistanceAndPipelineItIsSynchronous) {
  Trained expected = train(toy::trainingPlan({}), {0}, 7);
  Trained actual = trainWaves({0}, 4, 0, 7);
  ASSERT_EQ(actual.parameters.size(), expected.parameters.size());
  for (size_t i = 0; i < expected.parameters.size(); ++i)
    EXPECT_NEAR(actual.parameters[i], expected.parameters[i], 1e-5);
  for (size_t i = 0; i < expected.losses.size(); ++i)
    EXPECT_NEAR(actual.losses[i], expected.losses[i], 1e-4);
}

// PipeDream's replicas of a stage end with the same weights, each time the
// same, and other ones than where they run empty after each step.
TEST(DealtUpdatesTest, ReplicasStayTogether) {
  Trained first = train(toy::dealtPlan(), {0, 2}, 7);
  for (int i = 0; i < 3; ++i) {
    Trained again = train(toy::dealtPlan(), {0, 2}, 7);
    EXPECT_EQ(again.losses, first.losses);
    EXPECT_EQ(again.parameters, first.parameters);
    EXPECT_EQ(again.states, first.states);
  }
  Trained idle = train(toy::dealtPlan(), {0, 2}, 7, {0, 1, 2, 3, 4, 5});
  EXPECT_NE(idle.parameters, first.parameters);
}
