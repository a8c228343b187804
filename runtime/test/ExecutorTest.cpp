//===- ExecutorTest.cpp - The toy pipeline under every schedule -----------===//
#include "exec/Executor.h"
#include "DeviceSetup.h"
#include "ToyProgram.h"
#include "exec/DataSet.h"
#include "exec/OptimizerScalars.h"
#include "exec/Snapshot.h"
#include "support/Error.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <thread>

using namespace pp::runtime;

namespace toy {
/// Cuts and schedule, and how many micro-batches are recomputed.
static void PrintTo(const Options &options, std::ostream *out) {
  for (int cut : options.cuts)
    *out << cut << " ";
  *out << (options.oneForwardOneBackward ? "1f1b " : "gpipe ")
       << (options.split ? "split " : "whole ") << options.recompute;
}
} // namespace toy

namespace {

struct RunResult {
  std::vector<double> losses; // of all micro-batches of all steps
  std::vector<char> parameters, states, gradients, running;
  std::vector<ChannelTraffic> traffic;
  std::vector<LossScaleState> afterSteps, inStages; // with a loss scale
};

void append(std::vector<char> &target, const void *data, size_t bytes) {
  const char *begin = static_cast<const char *>(data);
  target.insert(target.end(), begin, begin + bytes);
}

RunResult train(const toy::Options &options, unsigned steps,
                const DeviceSetup &setup = {"cpu"}, bool overlap = false) {
  toy::Binary binary(options);
  TestedDevice device(setup);
  Program program(binary.training, device);
  program.allocate("");
  Executor::Options executorOptions;
  executorOptions.watchdogSeconds = 60;
  executorOptions.graphs = setup.graphs;
  Executor executor(program, executorOptions);
  const Plan &plan = program.getPlan();
  DataSet data(plan, toy::data(3 * toy::batch));
  OptimizerScalars scalars(plan.optimizer);
  std::vector<uint64_t> order(data.getSamples());
  std::iota(order.begin(), order.end(), 0);
  std::deque<Step> pool;
  pool.emplace_back(plan);
  pool.emplace_back(plan);
  RunResult result;
  auto finish = [&](unsigned i) {
    executor.wait(pool[i % 2]);
    auto losses = pool[i % 2].losses.values();
    result.losses.insert(result.losses.end(), losses.begin(), losses.end());
    if (plan.findLossScale())
      result.afterSteps.push_back(pool[i % 2].lossScale);
  };
  for (unsigned i = 0; i < steps; ++i) {
    if (overlap && i >= 2)
      finish(i - 2);
    Step &step = pool[i % 2];
    data.fill(step, order, i % 3 * toy::batch);
    step.scalars = scalars.evaluate(i + 1);
    step.number = i + 1;
    executor.submit(step);
    if (!overlap)
      finish(i);
  }
  for (unsigned i = overlap && steps >= 2 ? steps - 2 : steps; i < steps; ++i)
    finish(i);
  program.download();
  std::vector<RunResult> replicas(plan.replicas);
  for (const StageMemory &memory : program.getMemories()) {
    if (plan.findLossScale())
      result.inStages.push_back(*memory.lossScale());
    RunResult &own = replicas[memory.getPlan().replica];
    for (const PlanTensor &tensor : memory.getPlan().parameters) {
      append(own.parameters, memory.parameter(tensor), tensor.bytes);
      append(own.gradients, memory.gradient(tensor), tensor.bytes);
      append(own.states, memory.optimizerState(plan.optimizer, tensor, 0),
             tensor.bytes);
    }
    for (const PlanTensor &tensor : memory.getPlan().buffers)
      append(own.running, memory.buffer(tensor), tensor.bytes);
    EXPECT_EQ(memory.getBytes(), memory.getPlan().memoryBytes);
  }
  for (const RunResult &replica : replicas) {
    EXPECT_EQ(replica.parameters, replicas[0].parameters);
    EXPECT_EQ(replica.gradients, replicas[0].gradients);
    EXPECT_EQ(replica.states, replicas[0].states);
    EXPECT_EQ(replica.running, replicas[0].running);
  }
  result.parameters = replicas[0].parameters;
  result.gradients = replicas[0].gradients;
  result.states = replicas[0].states;
  result.running = replicas[0].running;
  result.traffic = executor.traffic();
  return result;
}

void expectSameBits(const RunResult &actual, const RunResult &expected) {
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_EQ(actual.parameters, expected.parameters);
  EXPECT_EQ(actual.gradients, expected.gradients);
  EXPECT_EQ(actual.states, expected.states);
  EXPECT_EQ(actual.running, expected.running);
}

std::vector<toy::Options> allOptions() {
  std::vector<toy::Options> all;
  for (auto cuts :
       std::vector<std::vector<int>>{{0}, {0, 1}, {0, 2}, {0, 1, 2}})
    for (bool oneForwardOneBackward : {false, true})
      for (bool split : {false, true})
        for (int recompute : {0, toy::microbatches - 1, toy::microbatches})
          all.push_back({cuts, oneForwardOneBackward, split, recompute});
  return all;
}

class ScheduleTest
    : public testing::TestWithParam<std::tuple<DeviceSetup, toy::Options>> {};

TEST_P(ScheduleTest, SameBitsAsOneStage) {
  RunResult expected = train(toy::Options{}, 5);
  auto [setup, options] = GetParam();
  for (bool overlap : {false, true}) {
    RunResult actual = train(options, 5, setup, overlap);
    expectSameBits(actual, expected);
    for (const ChannelTraffic &traffic : actual.traffic) {
      EXPECT_EQ(traffic.messages, 5u * toy::microbatches);
      EXPECT_EQ(traffic.sentBytes, 5u * toy::microbatches * 32);
      EXPECT_EQ(traffic.receivedBytes, traffic.sentBytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScheduleTest,
                         testing::Combine(testing::ValuesIn(deviceSetups()),
                                          testing::ValuesIn(allOptions())));

//===----------------------------------------------------------------------===//
// Replicas
//===----------------------------------------------------------------------===//

class ReplicasTest : public testing::TestWithParam<
                         std::tuple<DeviceSetup, std::vector<int>, bool>> {};

TEST_P(ReplicasTest, SameBitsAsSumsInTheirOrder) {
  auto [setup, cuts, split] = GetParam();
  // Four replicas add up what one stage adds up, in the same order; two add up
  // two sums.
  for (int replicas : {4, 2}) {
    toy::Options one;
    one.replicas = replicas == 4 ? 1 : replicas;
    RunResult expected = train(one, 5);
    toy::Options options{cuts, /*oneForwardOneBackward=*/split, split, 1};
    options.replicas = replicas;
    for (bool overlap : {false, true}) {
      RunResult actual = train(options, 5, setup, overlap);
      expectSameBits(actual, expected);
      for (const ChannelTraffic &traffic : actual.traffic)
        EXPECT_EQ(traffic.receivedBytes, traffic.sentBytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ReplicasTest,
    testing::Combine(testing::ValuesIn(deviceSetups()),
                     testing::Values(std::vector<int>{0},
                                     std::vector<int>{0, 2},
                                     std::vector<int>{0, 1, 2}),
                     testing::Bool()));

TEST(ReplicasLossScaleTest, AnOverflowInOneReplicaSkipsTheStepInAll) {
  RunResult expected, actual;
  for (RunResult *result : {&expected, &actual}) {
    toy::Options options{{0, 1, 2}, false, false, 0, 64, 2};
    options.replicas = 4;
    if (result == &expected)
      options = {{0}, false, false, 0, 64, 2};
    toy::setOverflow(1, 1);
    *result = train(options, 4);
    toy::setOverflow(-1, 0);
  }
  ASSERT_EQ(actual.afterSteps.size(), 4u);
  EXPECT_EQ(actual.afterSteps[3].skippedSteps, 1);
  EXPECT_EQ(actual.afterSteps, expected.afterSteps);
  EXPECT_EQ(actual.parameters, expected.parameters);
  EXPECT_EQ(actual.inStages.size(), 12u);
  for (const LossScaleState &state : actual.inStages)
    EXPECT_EQ(state, expected.afterSteps[3]);
}

//===----------------------------------------------------------------------===//
// Loss scale
//===----------------------------------------------------------------------===//

class LossScaleTest : public testing::TestWithParam<DeviceSetup> {
protected:
  void TearDown() override { toy::setOverflow(-1, 0); }
};

/// The plugin in C has no kernels for it.
std::vector<DeviceSetup> setupsWithLossScale() {
  std::vector<DeviceSetup> result;
  for (const DeviceSetup &setup : deviceSetups())
    if (!setup.plugin || setup.driver)
      result.push_back(setup);
  return result;
}

const std::vector<std::vector<int>> everyCut = {{0}, {0, 1}, {0, 2}, {0, 1, 2}};

TEST_P(LossScaleTest, APowerOfTwoChangesNoBit) {
  RunResult expected = train(toy::Options{}, 5);
  for (const auto &cuts : everyCut)
    for (float scale : {1.0f / 1024, 65536.0f})
      for (bool overlap : {false, true}) {
        RunResult actual =
            train({cuts, true, overlap, 0, scale}, 5, GetParam(), overlap);
        EXPECT_EQ(actual.losses, expected.losses);
        EXPECT_EQ(actual.parameters, expected.parameters);
        EXPECT_EQ(actual.states, expected.states);
        EXPECT_EQ(actual.running, expected.running);
        EXPECT_NE(actual.gradients, expected.gradients);
        for (const auto *states : {&actual.afterSteps, &actual.inStages})
          EXPECT_TRUE(
              (states->back() == LossScaleState{scale, 5, 0, 0, scale}));
      }
}

TEST_P(LossScaleTest, AnOverflowInAnyStageSkipsTheStepInAll) {
  for (int layer : {0, 1, 2}) {
    // What two steps leave, and nothing of the third.
    RunResult before = train(toy::Options{}, 2);
    std::optional<RunResult> after;
    for (const auto &cuts : everyCut)
      for (bool overlap : {false, true}) {
        toy::Options options{cuts, true, false, 0, 256, 2};
        toy::setOverflow(layer, 2);
        RunResult actual = train(options, 3, GetParam(), overlap);
        EXPECT_EQ(actual.parameters, before.parameters);
        EXPECT_EQ(actual.states, before.states);
        // It doubled after two good steps.
        LossScaleState expected{256, 0, 1, 1, 512};
        EXPECT_EQ(actual.afterSteps[1].scale, 512.0f);
        EXPECT_TRUE(actual.afterSteps[2] == expected);
        EXPECT_EQ(actual.inStages.size(), cuts.size());
        for (const LossScaleState &state : actual.inStages)
          EXPECT_TRUE(state == expected);
        // The training goes on, in the same setup for every cut.
        toy::setOverflow(layer, 2);
        actual = train(options, 7, GetParam(), overlap);
        EXPECT_NE(actual.parameters, before.parameters);
        EXPECT_TRUE(
            (actual.inStages.back() == LossScaleState{1024, 0, 1, 0, 512}));
        if (!after)
          after = actual;
        EXPECT_EQ(actual.losses, after->losses);
        EXPECT_EQ(actual.parameters, after->parameters);
        EXPECT_EQ(actual.states, after->states);
        EXPECT_EQ(actual.running, after->running);
      }
  }
}

TEST_P(LossScaleTest, ItHasAFloorAndACeiling) {
  toy::setOverflow(0, 0);
  RunResult low = train({{0, 1}, true, false, 0, 1.5e-38f, 9}, 1, GetParam());
  EXPECT_EQ(low.afterSteps[0].scale, std::numeric_limits<float>::min());
  // Gradients overflow long before the scale does; then it is halved.
  toy::setOverflow(-1, 0);
  RunResult high = train({{0, 1}, true, false, 0, 3e38f, 1}, 4, GetParam());
  EXPECT_EQ(high.afterSteps[0].skippedInARow, 1.0f);
  EXPECT_EQ(high.afterSteps[0].scale, 1.5e38f);
}

TEST_P(LossScaleTest, AnErrorWakesRanksThatWaitForTheOthers) {
  for (int layer : {0, 1, 2}) {
    TestedDevice device{GetParam()};
    toy::Binary binary(toy::Options{{0, 1, 2}, true, false, 0, 256});
    Program program(binary.training, device);
    program.allocate("");
    Executor executor(program, {});
    const Plan &plan = program.getPlan();
    std::deque<Step> steps;
    for (int i = 0; i < 2; ++i)
      steps.emplace_back(plan).scalars =
          OptimizerScalars(plan.optimizer).evaluate(i + 1);
    executor.submit(steps[0]);
    executor.wait(steps[0]);
    toy::setFault(layer, toy::ThrowFault);
    executor.submit(steps[0]);
    executor.submit(steps[1]);
    EXPECT_THROW(executor.wait(steps[1]), std::runtime_error);
    toy::setFault(-1, toy::NoFault);
  }
}

TEST_P(LossScaleTest, WaitingForTheOthersIsNoPartOfAnUpdate) {
  TestedDevice device{GetParam()};
  toy::Binary binary(toy::Options{{0, 1, 2}, true, false, 0, 256});
  Program program(binary.training, device);
  program.allocate("");
  Executor::Options options;
  options.trace = true;
  Executor executor(program, options);
  Step step(program.getPlan());
  step.scalars = OptimizerScalars(program.getPlan().optimizer).evaluate(1);
  step.number = 1;
  executor.run(step);
  double lastGradient = 0;
  std::vector<double> updates;
  auto json = nlohmann::json::parse(executor.trace());
  for (const auto &event : json["traceEvents"]) {
    if (event["ph"] != "X")
      continue;
    std::string name = event["name"];
    double begin = event["ts"], end = begin + event["dur"].get<double>();
    if (name.find('B') == 1)
      lastGradient = std::max(lastGradient, end);
    if (name.ends_with("U"))
      updates.push_back(begin);
  }
  ASSERT_EQ(updates.size(), 3u);
  // Microseconds; each stream of a GPU has compared its clock with the host's.
  for (double begin : updates)
    EXPECT_GE(begin, lastGradient - 0.5);
}

INSTANTIATE_TEST_SUITE_P(All, LossScaleTest,
                         testing::ValuesIn(setupsWithLossScale()),
                         [](const auto &info) { return info.param.name; });

std::vector<float> floats(const std::vector<char> &bytes, size_t first,
                          size_t count) {
  std::vector<float> values(count);
  std::memcpy(values.data(), &bytes[first * 4], count * 4);
  return values;
}

TEST(ToyTest, LossAndGradientsMatchADirectComputation) {
  RunResult actual = train(toy::Options{{0, 1, 2}, true, false, 0}, 1);
  std::vector<float> weights[3];
  for (int layer = 0; layer < 3; ++layer)
    for (int i = 0; i < 16; ++i)
      weights[layer].push_back(toy::initialWeight(layer, i));
  auto arrays = toy::data(3 * toy::batch);
  auto expected = toy::reference(
      weights, reinterpret_cast<float *>(arrays["x"].data.data()),
      reinterpret_cast<float *>(arrays["target"].data.data()));
  float loss = 0;
  for (double value : actual.losses)
    loss += value;
  EXPECT_NEAR(loss, expected.loss, 1e-5);
  for (int layer = 0; layer < 3; ++layer) {
    auto gradient = floats(actual.gradients, layer * 16, 16);
    auto parameter = floats(actual.parameters, layer * 16, 16);
    for (int i = 0; i < 16; ++i) {
      EXPECT_NEAR(gradient[i], expected.gradients[layer][i], 1e-5);
      // First step: momentum is the gradient; correction is 1 - 0.5^1.
      EXPECT_NEAR(parameter[i],
                  weights[layer][i] - 0.05 * 0.5 * expected.gradients[layer][i],
                  1e-6);
    }
  }
  // The running mean moved once, from 0.5 by a tenth.
  for (float value : floats(actual.running, 0, 4)) {
    EXPECT_GT(value, 0.3f);
    EXPECT_LT(value, 0.6f);
    EXPECT_NE(value, 0.5f);
  }
}

class ExecutorTest : public testing::TestWithParam<DeviceSetup> {
protected:
  TestedDevice device{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(All, ExecutorTest, testing::ValuesIn(deviceSetups()),
                         [](const auto &info) { return info.param.name; });

/// Runs steps until one fails and returns the message.
std::string failWith(Program &program, Executor &executor) {
  const Plan &plan = program.getPlan();
  Step step(plan);
  step.scalars = OptimizerScalars(plan.optimizer).evaluate(1);
  try {
    executor.run(step);
  } catch (const std::exception &e) {
    return e.what();
  }
  return "no error";
}

TEST_P(ExecutorTest, AnErrorInOneStageStopsAll) {
  for (int layer : {0, 1, 2}) {
    toy::Binary binary(toy::Options{{0, 1, 2}, true, false, 0});
    Program program(binary.training, device);
    program.allocate("");
    Executor executor(program, {});
    toy::setFault(layer, toy::ThrowFault);
    auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(failWith(program, executor), "toy fault");
    toy::setFault(-1, toy::NoFault);
    // Nothing runs afterwards.
    EXPECT_EQ(failWith(program, executor), "toy fault");
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::seconds(20));
  }
}

TEST_P(ExecutorTest, TheWatchdogSaysWhatEachRankWaitsFor) {
  toy::Binary binary(toy::Options{{0, 1, 2}, true, false, 0});
  Program program(binary.training, device);
  program.allocate("");
  Executor::Options options;
  options.watchdogSeconds = 0.5;
  std::string report;
  options.onHang = [&](const std::string &text) {
    report = text;
    toy::releaseHangs();
  };
  toy::setFault(1, toy::HangFault);
  Executor executor(program, options);
  std::string message = failWith(program, executor);
  toy::setFault(-1, toy::NoFault);
  EXPECT_EQ(message, report);
  EXPECT_NE(message.find("no action completed"), std::string::npos);
  EXPECT_NE(message.find("rank 1: runs 1F0"), std::string::npos) << message;
  EXPECT_NE(message.find("rank 2: waits for a value of channel"),
            std::string::npos)
      << message;
}

TEST_P(ExecutorTest, TheWatchdogBearsWithARankThatComputes) {
  toy::Binary binary(toy::Options{{0, 1, 2}, true, false, 0});
  Program program(binary.training, device);
  program.allocate("");
  Executor::Options options;
  options.watchdogSeconds = 0.2;
  std::atomic<bool> isSlow = false, isStuck = false;
  std::string note;
  auto stop = [&](std::atomic<bool> &flag) {
    flag = true;
    toy::releaseHangs();
  };
  options.onSlow = [&](const std::string &text) {
    note = text;
    stop(isSlow);
  };
  options.onHang = [&](const std::string &) { stop(isStuck); };
  toy::setFault(1, toy::ComputeFault);
  Executor executor(program, options);
  EXPECT_EQ(failWith(program, executor), "no error");
  toy::setFault(-1, toy::NoFault);
  EXPECT_TRUE(isSlow);
  EXPECT_FALSE(isStuck);
  EXPECT_NE(note.find("slow: no action completed for"), std::string::npos)
      << note;
  EXPECT_NE(note.find("rank 1: runs 1F0"), std::string::npos) << note;
}

std::atomic<int> preparations{0}, firstPreparations{0};

/// The first parameter, doubled.
void prepare(const pp_phase_arguments *a) {
  float weight = 0;
  std::memcpy(&weight, a->parameters, sizeof(weight));
  weight *= 2;
  std::memcpy(a->prepared, &weight, sizeof(weight));
  ++preparations;
  firstPreparations += a->is_first != 0;
}

TEST_P(ExecutorTest, PreparesOncePerStepOrOncePerWeights) {
  for (bool isTraining : {true, false}) {
    toy::Options options;
    options.cuts = {0, 1, 2};
    auto training = toy::trainingPlan(options);
    auto inference = toy::inferencePlan(options.cuts);
    toy::addPreparation(training);
    toy::addPreparation(inference);
    toy::Binary binary(options.cuts, training, inference);
    for (auto *stages : {&binary.trainingStages, &binary.inferenceStages})
      for (pp_stage_functions &stage : *stages)
        stage.prepare = prepare;
    Program program(isTraining ? binary.training : binary.inference, device);
    program.allocate("");
    // A graph does what the function enqueues, but does not call it.
    Executor::Options executorOptions;
    executorOptions.graphs = false;
    Executor executor(program, executorOptions);
    const Plan &plan = program.getPlan();
    auto arrays = toy::data(toy::batch);
    if (!isTraining)
      arrays.erase("target");
    DataSet data(plan, std::move(arrays));
    OptimizerScalars scalars(plan.optimizer);
    std::vector<uint64_t> order(toy::batch);
    std::iota(order.begin(), order.end(), 0);
    Step step(plan);
    data.fill(step, order, 0);
    auto run = [&](unsigned number) {
      step.number = number;
      if (isTraining)
        step.scalars = scalars.evaluate(number);
      preparations = firstPreparations = 0;
      executor.run(step);
      return preparations.load();
    };
    EXPECT_EQ(run(1), 3);
    EXPECT_EQ(firstPreparations, 3);
    EXPECT_EQ(run(2), isTraining ? 3 : 0);
    EXPECT_EQ(firstPreparations, 0);
    // Other weights.
    const StageMemory &memory = program.getMemories().back();
    char *weight = memory.parameter(memory.getPlan().parameters[0]);
    float five = 5;
    std::memcpy(weight, &five, sizeof(five));
    program.upload();
    EXPECT_EQ(run(3), 3);
    EXPECT_EQ(firstPreparations, 3);
    float prepared = 0;
    std::memcpy(&prepared, memory.at(memory.getPlan().areas.prepared),
                sizeof(prepared));
    EXPECT_EQ(prepared, 10);
  }
}

TEST(ExecutorErrorTest, NoFunctionRoundsWhatTheUpdatePrepares) {
  toy::Options options;
  options.cuts = {0};
  auto training = toy::trainingPlan(options);
  toy::addPreparation(training);
  training["stages"][0]["parameters"][0]["prepared"] = 0;
  toy::Binary binary(options.cuts, training, toy::inferencePlan(options.cuts));
  binary.trainingStages[0].prepare = prepare;
  try {
    Program program(binary.training);
    FAIL() << "no error";
  } catch (const std::exception &error) {
    EXPECT_NE(std::string(error.what()).find("lacks the function that rounds"),
              std::string::npos)
        << error.what();
  }
}

/// So do kernels of all ranks, in whatever threads they run.
TEST_P(ExecutorTest, DenormalNumbersAreZero) {
  for (auto cuts : {std::vector<int>{0}, {0, 1, 2}}) {
    toy::Binary binary(toy::Options{cuts, true, false, 0});
    Program program(binary.inference, device);
    program.allocate("");
    Executor executor(program, {});
    auto arrays = toy::data(toy::batch);
    float tiny = 1e-39F;
    auto &x = arrays.at("x");
    for (size_t i = 0; i < x.data.size(); i += sizeof(tiny))
      std::memcpy(x.data.data() + i, &tiny, sizeof(tiny));
    arrays.erase("target");
    DataSet data(program.getPlan(), std::move(arrays));
    Step step(program.getPlan());
    data.fill(step, {0, 1, 2, 3, 4, 5, 6, 7}, 0);
    executor.run(step);
    const float *y = reinterpret_cast<const float *>(step.fetches[0].at(0));
    for (int i = 0; i < toy::microbatchSize * toy::width; ++i)
      EXPECT_EQ(y[i], 0.0F) << i;
  }
}

TEST_P(ExecutorTest, OrthogonalStepsWithoutMemoryAreAnError) {
  auto json = toy::trainingPlan({});
  json["optimizer"]["scalars"].push_back(
      {{"name", "orthogonalize"}, {"value", 1}});
  json["optimizer"]["scalars"].push_back(
      {{"name", "direction"}, {"value", -1}});
  toy::Binary binary({0}, json, toy::inferencePlan({0}));
  Program program(binary.training, device);
  program.allocate("");
  try {
    Executor executor(program, {});
    FAIL();
  } catch (const Error &e) {
    EXPECT_EQ(e.getKind(), ErrorKind::InvalidInput);
    EXPECT_NE(std::string(e.what()).find("muon needs"), std::string::npos)
        << e.what();
    EXPECT_NE(std::string(e.what()).find("compile it again"), std::string::npos)
        << e.what();
  }
}

TEST_P(ExecutorTest, AKernelWithAnotherScratchpadIsAnError) {
  for (const char *descriptor : {"matmul a=2x3 b=3x4 c=2x4", "nonsense"}) {
    // To a GPU's library the scratchpad is a limit.
    if (GetParam().blas && descriptor[0] == 'm')
      continue;
    auto json = toy::trainingPlan({});
    json["stages"][0]["kernels"].push_back(
        {{"descriptor", descriptor}, {"scratchpad", 1 << 30}});
    toy::Binary binary({0}, json, toy::inferencePlan({0}));
    Program program(binary.training, device);
    program.allocate("");
    try {
      Executor executor(program, {});
      FAIL();
    } catch (const Error &e) {
      EXPECT_EQ(e.getKind(), ErrorKind::InvalidInput);
      EXPECT_NE(std::string(e.what()).find("stages[0].kernels[0]"),
                std::string::npos);
    }
  }
}

/// A phase of a slow kernel and more short ones than a stream is held for.
constexpr unsigned shortKernels = 300;
void runMarkedKernels(const pp_phase_arguments *) {
  pp_mark_kernel(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  for (unsigned i = 0; i < shortKernels; ++i)
    pp_mark_kernel(1);
  pp_mark_kernel(-1);
}

TEST_P(ExecutorTest, KernelsAreTimed) {
  toy::Binary binary(toy::Options{});
  binary.trainingStages[0].forward = runMarkedKernels;
  Program program(binary.training, device);
  program.allocate("");
  for (bool timeKernels : {false, true}) {
    Executor::Options options;
    options.timeKernels = timeKernels;
    Executor executor(program, options);
    constexpr unsigned steps = 3;
    for (unsigned i = 1; i <= steps; ++i) {
      Step step(program.getPlan());
      step.scalars = OptimizerScalars(program.getPlan().optimizer).evaluate(i);
      step.number = i;
      executor.run(step);
    }
    unsigned counts[2] = {};
    double seconds[2] = {};
    for (const KernelRun &run : executor.kernelRuns()) {
      ASSERT_LT(run.kernel, 2u);
      EXPECT_TRUE(run.step >= 1 && run.step <= steps);
      EXPECT_GE(run.seconds, run.kernel == 0 ? 1.9e-3 : 0);
      EXPECT_GE(run.gapSeconds, 0);
      ++counts[run.kernel];
      seconds[run.kernel] += run.seconds;
    }
    unsigned runs = timeKernels ? steps * toy::microbatches : 0;
    EXPECT_EQ(counts[0], runs);
    EXPECT_EQ(counts[1], runs * shortKernels);
    if (timeKernels)
      EXPECT_LT(seconds[1] / counts[1], seconds[0] / counts[0] / 2);
  }
}

TEST(ExecutorRanges, StepsAndActionsAreNamed) {
  DeviceSetup setup{"fake"};
  setup.plugin = PP_FAKE_PLUGIN;
  TestedDevice device(setup);
  toy::Binary binary(toy::Options{});
  Program program(binary.training, device);
  program.allocate("");
  auto take = reinterpret_cast<void (*)(char *, size_t)>(
      dlsym(dlopen(PP_FAKE_PLUGIN, RTLD_NOW | RTLD_LOCAL), "take_ranges"));
  ASSERT_TRUE(take);
  char text[4096];
  take(text, sizeof(text));
  Executor executor(program, {});
  Step step(program.getPlan());
  step.scalars = OptimizerScalars(program.getPlan().optimizer).evaluate(1);
  step.number = 7;
  executor.run(step);
  take(text, sizeof(text));
  std::string expected = "step 7(";
  for (const PlanAction &action : program.getPlan().ranks[0].actions)
    expected += toString(program.getPlan(), action) + "()";
  EXPECT_EQ(text, expected + ")");
  EXPECT_NE(expected.find("(0F0()"), std::string::npos) << expected;
}

TEST_P(ExecutorTest, TheTraceHasFlowsWithMatchingIds) {
  toy::Binary binary(toy::Options{{0, 1, 2}, true, false, 0});
  Program program(binary.training, device);
  program.allocate("");
  Executor::Options options;
  options.trace = true;
  Executor executor(program, options);
  Step step(program.getPlan());
  step.scalars = OptimizerScalars(program.getPlan().optimizer).evaluate(1);
  step.number = 1;
  executor.run(step);
  auto json = nlohmann::json::parse(executor.trace());
  std::map<uint64_t, int> starts, ends;
  size_t slices = 0, expected = 0;
  bool sawForward = false;
  for (const auto &event : json["traceEvents"]) {
    if (event["ph"] == "s")
      ++starts[event["id"].get<uint64_t>()];
    if (event["ph"] == "f")
      ++ends[event["id"].get<uint64_t>()];
    slices += event["ph"] == "X";
    sawForward |= event["name"] == "2F3";
  }
  for (const PlanRank &rank : program.getPlan().ranks)
    expected += rank.actions.size();
  EXPECT_EQ(slices, expected);
  EXPECT_TRUE(sawForward);
  EXPECT_EQ(starts, ends);
  EXPECT_EQ(starts.size(),
            program.getPlan().channels.size() * toy::microbatches);
  for (const auto &[id, count] : starts)
    EXPECT_EQ(count, 1);
}

} // namespace
