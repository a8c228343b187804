//===- LibraryTest.cpp - The C interface, through its C++ wrapper ---------===//
//
// The toy as a shared object. Nothing here sees more of the runtime than a
// user's program does, but for the toy's reference.
//
//===----------------------------------------------------------------------===//
#include "pp_runtime.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

using pp::Mode;
using pp::Program;
using pp::Tensor;

namespace {

constexpr int64_t width = 4, batch = 8; // of the toy

struct Batch {
  explicit Batch(unsigned seed, int64_t samples = batch)
      : samples(samples), x(samples * width), target(samples * width) {
    std::mt19937 random(seed);
    for (std::vector<float> *values : {&x, &target})
      for (float &value : *values)
        value = static_cast<float>(random() % 2000) / 1000.0f - 1.0f;
  }
  Program::Tensors inputs() {
    return {{"x", x, {samples, width}}, {"target", target, {samples, width}}};
  }

  int64_t samples;
  std::vector<float> x, target;
};

class LibraryTest : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() /
             ("pp-library-" + std::to_string(getpid()) + "-" +
              testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder);
    pp_set_message_handler(
        [](const char *text, void *data) {
          *static_cast<std::string *>(data) += text;
        },
        &messages);
  }
  void TearDown() override {
    pp_set_message_handler(nullptr, nullptr);
    std::filesystem::remove_all(folder);
  }
  std::string path(const char *name) const { return folder / name; }

  std::filesystem::path folder;
  std::string messages;
};

/// The message of what `work` throws, with the kind.
template <typename Work>
std::string errorOf(pp_error_kind kind, const Work &work) {
  try {
    work();
  } catch (const pp::Error &error) {
    EXPECT_EQ(error.getKind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

std::vector<double> lossesOf(Program &program, unsigned from, unsigned to) {
  std::vector<double> losses;
  for (unsigned i = from; i < to; ++i) {
    Batch data(i);
    losses.push_back(program.trainStep(data.inputs()).loss);
  }
  return losses;
}

TEST_F(LibraryTest, DescribesInputsAndOutputs) {
  Program program(PP_TOY, Mode::Train);
  EXPECT_STREQ(pp_version(), "0.1.0");
  EXPECT_EQ(program.batchSize(), 8u);
  std::vector<pp_port> inputs = program.inputs(Mode::Train);
  ASSERT_EQ(inputs.size(), 2u);
  EXPECT_STREQ(inputs[0].tensor.name, "x");
  EXPECT_FALSE(inputs[0].is_target);
  EXPECT_TRUE(inputs[1].is_target);
  EXPECT_EQ(inputs[1].tensor.type, PP_F32);
  ASSERT_EQ(inputs[1].tensor.rank, 2);
  EXPECT_EQ(inputs[1].tensor.shape[0], batch);
  EXPECT_EQ(inputs[1].tensor.shape[1], width);
  EXPECT_EQ(program.inputs(Mode::Infer).size(), 1u);
  ASSERT_EQ(program.outputs().size(), 1u);
  EXPECT_STREQ(program.outputs()[0].tensor.name, "y");
  pp_port port;
  pp_error *error = pp_get_output(program.get(), 7, &port);
  ASSERT_TRUE(error);
  EXPECT_TRUE(contains(pp_error_message(error), "port 7"));
  pp_error_free(error);
}

TEST_F(LibraryTest, OpensOnlyModels) {
  EXPECT_TRUE(contains(
      errorOf(PP_ERROR_IO, [] { Program("/nowhere/at-all.so", Mode::Infer); }),
      "/nowhere/at-all.so"));
  std::ofstream(path("text.so")) << "no shared object";
  EXPECT_TRUE(contains(errorOf(PP_ERROR_INVALID_INPUT,
                               [&] { Program(path("text.so"), Mode::Infer); }),
                       "--emit=library"));
  EXPECT_TRUE(contains(
      errorOf(PP_ERROR_USAGE,
              [] { Program(PP_TOY, Mode::Train, {"--no-such-flag"}); }),
      "--no-such-flag"));
  // A flag of a training is none of inference.
  errorOf(PP_ERROR_USAGE, [] { Program(PP_TOY, Mode::Infer, {"--lr=1"}); });
  errorOf(PP_ERROR_USAGE, [] { Program(PP_TOY, Mode::Train, {"--lr=much"}); });
  EXPECT_TRUE(contains(
      errorOf(PP_ERROR_USAGE,
              [] { Program(PP_TOY, Mode::Train, {"--lr-schedule=cosine"}); }),
      "--lr-steps"));
  pp_error *error = pp_program_open(PP_TOY, PP_INFER, nullptr, 0, nullptr);
  ASSERT_TRUE(error);
  EXPECT_EQ(pp_error_get_kind(error), PP_ERROR_USAGE);
  pp_error_free(error);
  pp_program_close(nullptr);
  pp_error_free(nullptr);
}

TEST_F(LibraryTest, TrainsAndCountsSteps) {
  Program program(PP_TOY, Mode::Train, {"--lr=0.05"});
  Batch data(1);
  pp_step_result first = program.trainStep(data.inputs()), last{};
  EXPECT_EQ(first.step, 1u);
  EXPECT_FLOAT_EQ(first.learning_rate, 0.05);
  EXPECT_TRUE(std::isnan(first.gradient_norm));
  EXPECT_FALSE(first.is_skipped);
  for (int i = 0; i < 30; ++i)
    last = program.trainStep(data.inputs());
  EXPECT_EQ(last.step, 31u);
  EXPECT_LT(last.loss, first.loss / 2);
}

TEST_F(LibraryTest, ChangesNothingAfterWrongInputs) {
  Program program(PP_TOY, Mode::Train), other(PP_TOY, Mode::Train);
  Batch data(1), large(1, batch + 1);
  std::vector<double> doubled(batch * width);
  std::vector<int64_t> whole(batch * width);
  std::string text = errorOf(PP_ERROR_USAGE, [&] {
    program.trainStep({{"X", data.x, {batch, width}}});
  });
  // All that is wrong with the names, at once.
  EXPECT_TRUE(contains(text, "'x'") && contains(text, "'target'") &&
              contains(text, "no input 'X'"))
      << text;
  EXPECT_TRUE(contains(
      errorOf(PP_ERROR_USAGE, [&] { program.trainStep(large.inputs()); }),
      "9 samples"));
  errorOf(PP_ERROR_INVALID_INPUT, [&] {
    program.trainStep({{"x", whole, {batch, width}},
                       {"target", data.target, {batch, width}}});
  });
  errorOf(PP_ERROR_USAGE, [&] {
    program.trainStep({{"x", PP_F32, nullptr, {batch, width}},
                       {"target", data.target, {batch, width}}});
  });
  errorOf(PP_ERROR_USAGE, [&] {
    program.trainStep({{"x", PP_F32, data.x.data(), {-1, width}},
                       {"target", data.target, {batch, width}}});
  });
  errorOf(PP_ERROR_USAGE, [&] {
    program.trainStep({{"x", static_cast<pp_data_type>(99), data.x.data(), {1}},
                       {"target", data.target, {batch, width}}});
  });
  errorOf(PP_ERROR_USAGE, [&] { program.wait(); });
  EXPECT_EQ(lossesOf(program, 0, 5), lossesOf(other, 0, 5));
  EXPECT_EQ(program.parameters(), other.parameters());
}

TEST_F(LibraryTest, TakesOtherTypesButNoFewerSamplesThanTheProgram) {
  Program program(PP_TOY, Mode::Train), other(PP_TOY, Mode::Train);
  Batch data(1), few(1, 3);
  std::vector<double> x(data.x.begin(), data.x.end());
  EXPECT_EQ(program.trainStep(data.inputs()).loss,
            other
                .trainStep({{"x", x, {batch, width}},
                            {"target", data.target, {batch, width}}})
                .loss);
  EXPECT_TRUE(contains(
      errorOf(PP_ERROR_USAGE, [&] { program.trainStep(few.inputs()); }),
      "whole batches of 8"));
}

TEST_F(LibraryTest, KeepsStepsInFlight) {
  Program program(PP_TOY, Mode::Train), other(PP_TOY, Mode::Train);
  std::vector<double> losses;
  for (unsigned i = 0; i < 7; ++i) {
    if (program.stepsInFlight() == program.mostStepsInFlight())
      losses.push_back(program.wait().loss);
    // What a step is given may change as soon as it is submitted.
    Batch data(i);
    program.submit(data.inputs());
    std::fill(data.x.begin(), data.x.end(), NAN);
  }
  Batch data(7);
  errorOf(PP_ERROR_USAGE, [&] {
    while (true)
      program.submit(data.inputs());
  });
  // Whoever asks for weights has those behind all steps.
  std::vector<char> weights = program.parameters();
  while (losses.size() < 7)
    losses.push_back(program.wait().loss);
  EXPECT_EQ(losses, lossesOf(other, 0, 7));
  while (program.stepsInFlight())
    program.wait();
  EXPECT_EQ(weights, program.parameters());
}

TEST_F(LibraryTest, ReadsAndWritesWeights) {
  Program program(PP_TOY, Mode::Train);
  std::vector<pp_weight> weights = program.weights();
  ASSERT_EQ(weights.size(), 4u);
  EXPECT_STREQ(weights[0].tensor.name, "running_mean");
  EXPECT_FALSE(weights[0].is_trained);
  std::vector<float> mean(width);
  program.getWeight({"running_mean", mean, {width}});
  errorOf(PP_ERROR_USAGE,
          [&] { program.getGradient({"running_mean", mean, {width}}); });
  weights.erase(weights.begin());
  std::string names;
  size_t at = 0;
  std::vector<char> all = program.parameters();
  for (const pp_weight &weight : weights) {
    EXPECT_TRUE(weight.is_trained);
    EXPECT_LT(names, weight.tensor.name);
    names = weight.tensor.name;
    std::vector<float> values(width * width);
    program.getWeight({names, values, {width, width}});
    EXPECT_EQ(std::memcmp(values.data(), &all[at], 64), 0);
    at += 64;
    values[3] = 2.5f;
    program.setWeight({names, values, {width, width}});
    std::vector<float> again(width * width);
    program.getWeight({names, again, {width, width}});
    EXPECT_EQ(values, again);
    errorOf(PP_ERROR_USAGE,
            [&] { program.getWeight({names, values, {width * width}}); });
  }
  EXPECT_EQ(at, all.size());
  EXPECT_NE(program.parameters(), all);
  program.setParameters(all);
  EXPECT_EQ(program.parameters(), all);
  all.pop_back();
  errorOf(PP_ERROR_USAGE, [&] { program.setParameters(all); });
  std::vector<float> values(width * width);
  errorOf(PP_ERROR_USAGE,
          [&] { program.getWeight({"none", values, {width, width}}); });
}

TEST_F(LibraryTest, GivesGradientsThatDifferencesHave) {
  Program program(PP_TOY, Mode::Train, {"--lr=0"});
  Batch data(3);
  program.trainStep(data.inputs());
  for (const pp_weight &weight : program.weights()) {
    if (!weight.is_trained)
      continue;
    std::string name = weight.tensor.name;
    std::vector<float> values(width * width), gradient(width * width);
    program.getWeight({name, values, {width, width}});
    program.getGradient({name, gradient, {width, width}});
    for (size_t i : {0, 5, 14}) {
      constexpr float by = 1e-2f;
      double losses[2];
      for (int side : {0, 1}) {
        std::vector<float> moved = values;
        moved[i] += side ? by : -by;
        program.setWeight({name, moved, {width, width}});
        losses[side] = program.trainStep(data.inputs()).loss;
      }
      program.setWeight({name, values, {width, width}});
      EXPECT_NEAR(gradient[i], (losses[1] - losses[0]) / (2 * by), 2e-3)
          << name << " " << i;
    }
    program.trainStep(data.inputs());
  }
}

TEST_F(LibraryTest, InfersWithTheWeightsOfTraining) {
  Program program(PP_TOY, Mode::Train);
  // More than a batch, and not a multiple of one.
  Batch data(4, 2 * batch + 3);
  std::vector<float> before(data.x.size()), after(data.x.size());
  auto infer = [&](Program &program, std::vector<float> &y) {
    program.infer({{"x", data.x, {data.samples, width}}},
                  {{"y", y, {data.samples, width}}});
  };
  auto meanSquare = [&](const std::vector<float> &y) {
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i)
      sum += std::pow(double(y[i]) - data.target[i], 2);
    return sum / y.size();
  };
  infer(program, before);
  EXPECT_NEAR(program.evaluate(data.inputs(), {"mse"})[0], meanSquare(before),
              1e-6);
  lossesOf(program, 0, 20);
  infer(program, after);
  EXPECT_NE(before, after);
  EXPECT_NEAR(program.evaluate(data.inputs(), {"mse", "mae"})[0],
              meanSquare(after), 1e-6);
  program.save(path("trained.safetensors"));
  Program inference(PP_TOY, Mode::Infer);
  std::vector<float> fresh(data.x.size()), loaded(data.x.size());
  infer(inference, fresh);
  EXPECT_EQ(fresh, before);
  inference.loadWeights(path("trained.safetensors"));
  infer(inference, loaded);
  EXPECT_EQ(loaded, after);
  errorOf(PP_ERROR_USAGE, [&] { inference.trainStep(data.inputs()); });
  errorOf(PP_ERROR_USAGE, [&] {
    program.infer({{"x", data.x, {data.samples, width}}},
                  {{"z", fresh, {data.samples, width}}});
  });
  std::vector<float> shorter(width);
  errorOf(PP_ERROR_USAGE, [&] {
    program.infer({{"x", data.x, {data.samples, width}}},
                  {{"y", shorter, {1, width}}});
  });
  errorOf(PP_ERROR_USAGE,
          [&] { program.evaluate(data.inputs(), {"no such metric"}); });
}

TEST_F(LibraryTest, GoesOnFromASnapshot) {
  std::vector<std::string> flags = {"--lr=0.02", "--lr-schedule=cosine",
                                    "--lr-steps=20", "--warmup-steps=3"};
  Program whole(PP_TOY, Mode::Train, flags);
  std::vector<double> losses = lossesOf(whole, 0, 12);
  std::string snapshot = path("half.safetensors");
  {
    Program half(PP_TOY, Mode::Train, flags);
    lossesOf(half, 0, 5);
    half.save(snapshot);
  }
  // The schedule is the snapshot's where no flag has another one.
  Program rest(PP_TOY, Mode::Train);
  lossesOf(rest, 40, 43);
  rest.load(snapshot);
  EXPECT_EQ(lossesOf(rest, 5, 12),
            std::vector<double>(losses.begin() + 5, losses.end()));
  EXPECT_EQ(rest.parameters(), whole.parameters());
  errorOf(PP_ERROR_IO, [&] { rest.load(path("none.safetensors")); });
  errorOf(PP_ERROR_IO, [&] { rest.save(path("no/such/folder.safetensors")); });
  EXPECT_EQ(lossesOf(rest, 12, 14), lossesOf(whole, 12, 14));
}

TEST_F(LibraryTest, ChangesTheLearningRate) {
  Program program(PP_TOY, Mode::Train, {"--lr=0.5"});
  EXPECT_EQ(program.learningRate(), 0.5);
  program.setLearningRate(0);
  std::vector<char> before = program.parameters();
  Batch data(1);
  EXPECT_EQ(program.trainStep(data.inputs()).learning_rate, 0);
  EXPECT_EQ(program.parameters(), before);
  program.setLearningRate(0.5);
  program.trainStep(data.inputs());
  EXPECT_NE(program.parameters(), before);
  errorOf(PP_ERROR_USAGE, [&] { program.setScalar("no_such_value", 1); });
  errorOf(PP_ERROR_USAGE, [&] { program.setLearningRate(NAN); });
}

TEST_F(LibraryTest, TrainsOnAllSamplesWithProgress) {
  Batch data(9, 4 * batch + 2); // four steps in an epoch, of whole batches
  auto losses = [&](Program &program, uint64_t epochs, bool shuffle) {
    std::vector<double> result;
    program.train(data.inputs(), epochs, shuffle,
                  [&](const pp_step_result &step) {
                    result.push_back(step.loss);
                    return true;
                  });
    return result;
  };
  Program whole(PP_TOY, Mode::Train, {"--seed=5"}),
      parts(PP_TOY, Mode::Train, {"--seed=5"}), ordered(PP_TOY, Mode::Train);
  std::vector<double> all = losses(whole, 3, true);
  EXPECT_EQ(all.size(), 12u);
  EXPECT_NE(losses(ordered, 3, false), all);
  // A training that is stopped goes on where it was, in another program.
  size_t count = 0;
  parts.train(data.inputs(), 9, true, [&](const pp_step_result &step) {
    EXPECT_EQ(step.loss, all[count]);
    // Functions of the program may be called, which lets steps end.
    EXPECT_EQ(parts.parameters().size(), 192u);
    return ++count < 6;
  });
  EXPECT_EQ(count, 6u); // in the second epoch
  parts.save(path("epoch.safetensors"));
  Program rest(PP_TOY, Mode::Train);
  rest.load(path("epoch.safetensors"));
  EXPECT_EQ(losses(rest, 2, true),
            std::vector<double>(all.begin() + 6, all.end()));
  EXPECT_EQ(rest.parameters(), whole.parameters());
  EXPECT_THROW(whole.train(data.inputs(), 1, true,
                           [](const pp_step_result &) -> bool {
                             throw std::logic_error("the caller's");
                           }),
               std::logic_error);
  whole.trainStep(Batch(1).inputs());
}

TEST_F(LibraryTest, StopsAtWhatIsNotFinite) {
  Program program(PP_TOY_SCALED, Mode::Train, {"--on-nan=stop"});
  Batch data(1);
  data.x[0] = NAN;
  std::vector<char> before = program.parameters();
  EXPECT_TRUE(contains(errorOf(PP_ERROR_INVALID_INPUT,
                               [&] { program.trainStep(data.inputs()); }),
                       "step 1"));
  EXPECT_EQ(program.parameters(), before);
  // Other data are as if nothing had been.
  EXPECT_EQ(
      program.trainStep(Batch(2).inputs()).loss,
      Program(PP_TOY_SCALED, Mode::Train).trainStep(Batch(2).inputs()).loss);
  EXPECT_NE(program.parameters(), before);
  Program skipping(PP_TOY_SCALED, Mode::Train,
                   {"--on-nan=skip", "--log-gradient-norm"});
  EXPECT_TRUE(skipping.trainStep(data.inputs()).is_skipped);
  pp_step_result result = skipping.trainStep(Batch(2).inputs());
  EXPECT_FALSE(result.is_skipped);
  EXPECT_GT(result.gradient_norm, 0);
}

TEST_F(LibraryTest, SendsMessagesToTheHandler) {
  Program program(PP_TOY, Mode::Train,
                  {"--lr-schedule=linear", "--lr-steps=10"});
  EXPECT_TRUE(contains(messages, "note: learning rate")) << messages;
}

TEST_F(LibraryTest, ThreadsShareProgramsOrHaveTheirOwn) {
  Program shared(PP_TOY, Mode::Infer);
  Batch data(6);
  std::vector<float> expected(batch * width);
  shared.infer({{"x", data.x, {batch, width}}},
               {{"y", expected, {batch, width}}});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      Program own(PP_TOY, Mode::Train);
      lossesOf(own, 0, 5);
      for (int i = 0; i < 20; ++i) {
        std::vector<float> y(batch * width);
        shared.infer({{"x", data.x, {batch, width}}},
                     {{"y", y, {batch, width}}});
        wrong += y != expected;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

} // namespace
