//===- CommandLineTest.cpp - The subcommands, end to end ------------------===//
#include "cli/CommandLine.h"
#include "TestFiles.h"
#include "ToyProgram.h"
#include "cli/Evaluation.h"
#include "formats/Npy.h"
#include "formats/Safetensors.h"
#include "support/ContentHash.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace pp::runtime;

namespace {

struct Output {
  int code;
  std::string out, error;
};

const toy::Options threeStages{{0, 1, 2}, true, false, 1};

class CommandLineTest : public testing::Test {
protected:
  CommandLineTest() {
    writeNpz(file("data.npz"), toy::data(20)); // two batches and a tail
  }
  std::string file(const std::string &name) { return directory.file(name); }

  Output run(std::vector<std::string> arguments,
             const toy::Options &options = threeStages) {
    toy::Binary binary(options);
    return run(binary, std::move(arguments));
  }
  Output run(const toy::Binary &binary, std::vector<std::string> arguments) {
    std::vector<const char *> argv{"toy"};
    for (const std::string &argument : arguments)
      argv.push_back(argument.c_str());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Output output;
    output.code = runCommandLine(argv.size(), argv.data(), binary.table);
    std::fflush(nullptr);
    output.out = testing::internal::GetCapturedStdout();
    output.error = testing::internal::GetCapturedStderr();
    return output;
  }
  std::vector<nlohmann::json> lines(const std::string &text) {
    std::vector<nlohmann::json> result;
    for (size_t begin = 0; begin < text.size();) {
      size_t end = text.find('\n', begin);
      result.push_back(nlohmann::json::parse(text.substr(begin, end - begin)));
      begin = end + 1;
    }
    return result;
  }

  TemporaryDirectory directory;
};

TEST_F(CommandLineTest, TrainingLearnsAndReports) {
  Output output =
      run({"train", "--data", file("data.npz"), "--epochs", "30", "--log-bits",
           "--trace", file("t.json"), "--report", file("r.json")});
  ASSERT_EQ(output.code, 0) << output.error;
  EXPECT_NE(output.error.find("left out of each epoch"), std::string::npos);
  EXPECT_NE(output.error.find("the toy's loss counts every row"),
            std::string::npos);
  auto steps = lines(output.out);
  ASSERT_EQ(steps.size(), 60u);
  EXPECT_EQ(steps[59]["step"], 60);
  EXPECT_EQ(steps[59]["epoch"], 30);
  EXPECT_LT(steps[59]["loss"].get<double>(),
            0.5 * steps[0]["loss"].get<double>());
  EXPECT_EQ(steps[0]["loss_bits"].get<std::string>().size(), 16u);
  EXPECT_NE(steps[0]["loss_bits"], steps[1]["loss_bits"]);
  auto report = nlohmann::json::parse(readText(file("r.json")));
  EXPECT_EQ(report["steps"], 60);
  EXPECT_EQ(report["samples"], 480);
  ASSERT_EQ(report["stages"].size(), 3u);
  EXPECT_EQ(report["stages"][0]["planned_bytes"],
            report["stages"][0]["memory_bytes"]);
  EXPECT_GT(report["stages"][1]["busy_seconds"], 0.0);
  for (const auto &channel : report["channels"])
    EXPECT_EQ(channel["sent_bytes"], 60 * 4 * 32);
  EXPECT_GT(
      nlohmann::json::parse(readText(file("t.json")))["traceEvents"].size(),
      60u * 3 * 4);
  EXPECT_NE(output.error.find("stage2"), std::string::npos);
}

TEST_F(CommandLineTest, NumbersThatAreNoneAreRefused) {
  for (const char *flag : {"--watchdog", "--lr", "--join-timeout", "--steps",
                           "--epochs", "--seed", "--save-every", "--processes"})
    for (const char *value : {"nan", "inf", "-1", "-inf", "1e400", "abc", "",
                              "9999999999999999999999999999999999999999"}) {
      Output output = run({"train", "--data", file("data.npz"), flag, value});
      EXPECT_EQ(output.code, 2) << flag << ' ' << value << output.out;
      EXPECT_NE(output.error.find(flag), std::string::npos) << output.error;
    }
  for (const char *value : {"nan", "inf", "1e300", ""})
    EXPECT_EQ(run({"train", "--data", file("data.npz"), "--set",
                   std::string("lr=") + value})
                  .code,
              2);
}

TEST_F(CommandLineTest, ResumeHasTheBitsOfAnUninterruptedRun) {
  auto arguments = [&](std::vector<std::string> more) {
    std::vector<std::string> all{"train", "--data", file("data.npz"),
                                 "--log-bits"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  Output whole = run(arguments({"--steps", "9", "--seed", "3", "--lr", "0.013",
                                "--save", file("whole.st")}));
  ASSERT_EQ(whole.code, 0) << whole.error;
  // Interrupted in the middle of an epoch, resumed with other stages.
  for (auto cuts : std::vector<std::vector<int>>{{0}, {0, 2}, {0, 1, 2}}) {
    Output first = run(arguments({"--steps", "5", "--seed", "3", "--lr",
                                  "0.013", "--save", file("part.st")}));
    ASSERT_EQ(first.code, 0) << first.error;
    Output second = run(arguments({"--steps", "9", "--resume", file("part.st"),
                                   "--save", file("done.st")}),
                        {cuts, false, true, 0});
    ASSERT_EQ(second.code, 0) << second.error;
    EXPECT_EQ(readText(file("done.st")), readText(file("whole.st")));
    auto expected = lines(whole.out), a = lines(first.out),
         b = lines(second.out);
    ASSERT_EQ(a.size(), 5u);
    ASSERT_EQ(b.size(), 4u);
    for (size_t i = 0; i < 9; ++i)
      EXPECT_EQ((i < 5 ? a[i] : b[i - 5])["loss_bits"],
                expected[i]["loss_bits"]);
  }
  Output other = run(arguments({"--steps", "9", "--seed", "4", "--lr", "0.013",
                                "--save", file("other.st")}));
  EXPECT_NE(readText(file("other.st")), readText(file("whole.st")));
  SafetensorsFile snapshot(file("whole.st"));
  EXPECT_EQ(snapshot.getMetadata().at("step"), "9");
  EXPECT_EQ(snapshot.getMetadata().at("epoch"), "4");
  for (const char *name : {"w0", "w2#momentum", "running_mean"})
    EXPECT_TRUE(snapshot.find(name)) << name;
  // Whatever does not fit is refused.
  auto code = [&](std::vector<std::string> more) {
    return run(arguments(more)).code;
  };
  EXPECT_EQ(code({"--resume", file("whole.st"), "--seed", "9"}), 2);
  EXPECT_EQ(code({"--resume", file("whole.st"), "--no-shuffle"}), 2);
  EXPECT_EQ(code({"--resume", file("none.st")}), 4);
  EXPECT_EQ(code({"--resume", file("data.npz")}), 1);
}

TEST_F(CommandLineTest, SaveEveryWritesAndTheLastStateWins) {
  Output output = run({"train", "--data", file("data.npz"), "--steps", "7",
                       "--save", file("s.st"), "--save-every", "3"});
  ASSERT_EQ(output.code, 0) << output.error;
  for (const char *note : {"step 3 saved", "step 6 saved", "step 7 saved"})
    EXPECT_NE(output.error.find(note), std::string::npos) << output.error;
  EXPECT_EQ(SafetensorsFile(file("s.st")).getMetadata().at("step"), "7");
}

TEST_F(CommandLineTest, DumpedGradientsMatchADirectComputation) {
  Output output = run({"train", "--data", file("data.npz"), "--steps", "1",
                       "--no-shuffle", "--dump-gradients", file("g.st")});
  ASSERT_EQ(output.code, 0) << output.error;
  SafetensorsFile gradients(file("g.st"));
  std::vector<float> weights[3];
  for (int layer = 0; layer < 3; ++layer)
    for (int i = 0; i < 16; ++i)
      weights[layer].push_back(toy::initialWeight(layer, i));
  auto arrays = toy::data(20);
  auto expected = toy::reference(
      weights, reinterpret_cast<float *>(arrays["x"].data.data()),
      reinterpret_cast<float *>(arrays["target"].data.data()));
  EXPECT_NEAR(lines(output.out)[0]["loss"].get<double>(), expected.loss, 1e-5);
  for (int layer = 0; layer < 3; ++layer) {
    const TensorView *view = gradients.find("w" + std::to_string(layer));
    ASSERT_TRUE(view);
    for (int i = 0; i < 16; ++i) {
      float value;
      std::memcpy(&value, view->data + i * 4, 4);
      EXPECT_NEAR(value, expected.gradients[layer][i], 1e-5);
    }
  }
}

TEST_F(CommandLineTest, InferencePadsTheTailAndLoadsSnapshots) {
  // 20 samples, batches of 8: each row as in the direct computation.
  std::vector<float> weights[3];
  for (int layer = 0; layer < 3; ++layer)
    for (int i = 0; i < 16; ++i)
      weights[layer].push_back(toy::initialWeight(layer, i));
  auto arrays = toy::data(24);
  std::vector<double> expected;
  for (int b = 0; b < 3; ++b) {
    const float *x =
        reinterpret_cast<float *>(arrays["x"].data.data()) + b * 32;
    auto part = toy::reference(weights, x, x).outputs;
    expected.insert(expected.end(), part.begin(), part.end());
  }
  Output output =
      run({"infer", "--data", file("data.npz"), "--output", file("y.npz")});
  ASSERT_EQ(output.code, 0) << output.error;
  Array y = readNpz(file("y.npz"))["y"];
  ASSERT_EQ(y.shape, (Shape{20, 4}));
  for (int i = 0; i < 80; ++i) {
    float value;
    std::memcpy(&value, &y.data[i * 4], 4);
    EXPECT_NEAR(value, expected[i], 1e-5);
  }
  // The same from a file of its own.
  Array x = toy::data(20)["x"];
  writeText(file("x.npy"), formatNpyHeader(x.type, x.shape) +
                               std::string(x.data.begin(), x.data.end()));
  ASSERT_EQ(run({"infer", "--input", "x=" + file("x.npy"), "--output",
                 file("y2.npz")})
                .code,
            0);
  EXPECT_EQ(readNpz(file("y2.npz"))["y"].data, y.data);
  // Trained weights give something else, whatever the stages.
  ASSERT_EQ(run({"train", "--data", file("data.npz"), "--steps", "4", "--save",
                 file("s.st")})
                .code,
            0);
  std::vector<char> trained;
  for (auto cuts : std::vector<std::vector<int>>{{0}, {0, 1}, {0, 1, 2}}) {
    Output loaded = run({"infer", "--data", file("data.npz"), "--load",
                         file("s.st"), "--output", file("y.npz")},
                        {cuts, false, false, 0});
    ASSERT_EQ(loaded.code, 0) << loaded.error;
    Array other = readNpz(file("y.npz"))["y"];
    EXPECT_NE(other.data, y.data);
    if (!trained.empty())
      EXPECT_EQ(other.data, trained);
    trained.assign(other.data.begin(), other.data.end());
  }
}

TEST_F(CommandLineTest, EvaluationAfterEachEpochOrAtTheEnd) {
  for (auto [every, count] : {std::pair{"1", 4u}, {"2", 2u}, {"0", 1u}}) {
    Output output = run({"train", "--data", file("data.npz"), "--epochs", "4",
                         "--eval-data", file("data.npz"), "--eval-every", every,
                         "--save", file("s.st")});
    ASSERT_EQ(output.code, 0) << output.error;
    std::vector<double> values;
    for (const auto &line : lines(output.out))
      if (line.contains("mse"))
        values.push_back(line["mse"]);
    ASSERT_EQ(values.size(), count) << output.out;
    if (count > 1)
      EXPECT_NE(values.back(), values.front());
    // The last value is that of the snapshot's weights.
    ASSERT_EQ(run({"infer", "--data", file("data.npz"), "--load", file("s.st"),
                   "--output", file("y.npz")})
                  .code,
              0);
    EXPECT_NEAR(
        values.back(),
        evaluate(readNpz(file("y.npz"))["y"], toy::data(20)["target"]).value,
        1e-5);
  }
}

/// Other processes, each with arguments of its own. Returns their exit codes
/// and messages.
std::vector<std::pair<int, std::string>>
runProcesses(const TemporaryDirectory &directory,
             const std::vector<std::vector<std::string>> &arguments) {
  std::vector<pid_t> children;
  auto messages = [&](size_t process) {
    return directory.file(fmt::format("process-{}.txt", process));
  };
  for (size_t process = 0; process < arguments.size(); ++process) {
    pid_t child = fork();
    if (child == 0) {
      setenv("PP_PROCESS", fmt::format("{}", process).c_str(), 1);
      setenv("PP_PROCESSES", fmt::format("{}", arguments.size()).c_str(), 1);
      setenv("PP_JOB", directory.path.c_str(), 1);
      if (!std::freopen("/dev/null", "w", stdout) ||
          !std::freopen(messages(process).c_str(), "w", stderr))
        _exit(126);
      std::vector<const char *> argv{"toy"};
      for (const std::string &argument : arguments[process])
        argv.push_back(argument.c_str());
      toy::Binary binary(threeStages);
      int code = runCommandLine(argv.size(), argv.data(), binary.table);
      std::fflush(nullptr);
      _exit(code);
    }
    children.push_back(child);
  }
  std::vector<std::pair<int, std::string>> results;
  for (size_t process = 0; process < children.size(); ++process) {
    int status = 0;
    waitpid(children[process], &status, 0);
    results.emplace_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                         readText(messages(process)));
  }
  return results;
}

TEST_F(CommandLineTest, ProcessesEvaluateOnTheSameTargets) {
  auto arrays = toy::data(20);
  arrays["target"].data[5] ^= 1;
  writeNpz(file("other.npz"), arrays);
  auto arguments = [&](const char *evaluation) {
    return std::vector<std::string>{"train",         "--data", file("data.npz"),
                                    "--steps",       "1",      "--eval-data",
                                    file(evaluation)};
  };
  auto results =
      runProcesses(directory, {arguments("data.npz"), arguments("other.npz")});
  EXPECT_EQ(results[0].first, 2) << results[0].second;
  EXPECT_EQ(results[1].first, 2) << results[1].second;
  EXPECT_NE(results[0].second.find("array 'target' of --eval-data: process 1"),
            std::string::npos)
      << results[0].second;
  EXPECT_NE(results[0].second.find(file("other.npz")), std::string::npos)
      << results[0].second;
}

TEST_F(CommandLineTest, DataThatAreNotFiniteAreNamedBySample) {
  auto arrays = toy::data(20);
  const float nan = std::nanf("");
  std::memcpy(&arrays["x"].data[(13 * toy::width + 2) * sizeof(float)], &nan,
              sizeof(nan));
  writeNpz(file("bad.npz"), arrays);
  toy::Options options = threeStages;
  options.lossScale = 1;
  for (const char *order : {"--no-shuffle", "--seed=3"}) {
    Output output = run({"train", "--data", file("bad.npz"), "--epochs", "3",
                         "--on-nan", "stop", order},
                        options);
    EXPECT_EQ(output.code, 1);
    EXPECT_NE(output.error.find("array 'x' has nan in sample 13, "),
              std::string::npos)
        << output.error;
  }
}

TEST(EvaluationTest, AccuracyOverTheLastAxis) {
  auto logits = [](Shape shape, std::vector<float> values) {
    Array array{DataType::F32, shape, {}};
    array.data.resize(values.size() * 4);
    std::memcpy(array.data.data(), values.data(), array.data.size());
    return array;
  };
  auto ids = [](Shape shape, std::vector<int64_t> values) {
    Array array{DataType::I64, shape, {}};
    array.data.resize(values.size() * 8);
    std::memcpy(array.data.data(), values.data(), array.data.size());
    return array;
  };
  Array output = logits({2, 3}, {1, 3, 2, 5, 4, 3});
  EXPECT_EQ(evaluate(output, ids({2}, {1, 0})).value, 1.0);
  EXPECT_EQ(evaluate(output, ids({2}, {1, 2})).value, 0.5);
  EXPECT_EQ(evaluate(output, ids({2}, {-100, 2}), -100).value, 0.0);
  Array tokens = logits({1, 2, 2}, {0, 1, 1, 0});
  EXPECT_EQ(evaluate(tokens, ids({1, 2}, {1, 1})).value, 0.5);
  EXPECT_EQ(evaluate(output, logits({2, 3}, {1, 3, 2, 5, 4, 6})).value, 1.5);
  EXPECT_NE(errorOf([&] { evaluate(output, ids({3}, {0, 0, 0})); }),
            "no error");
}

TEST_F(CommandLineTest, BenchAndInfo) {
  for (const char *mode : {"train", "infer"}) {
    Output bench = run(
        {"bench", "--mode", mode, "--steps", "5", "--warmup", "2", "--json"});
    ASSERT_EQ(bench.code, 0) << bench.error;
    auto json = nlohmann::json::parse(bench.out);
    EXPECT_EQ(json["mode"], mode);
    EXPECT_EQ(json["steps"], 5);
    EXPECT_GT(json["median_step_seconds"], 0.0);
    // Statistics cover the measured steps alone: F, or F and B and U and an R.
    EXPECT_EQ(json["stages"][0]["actions"],
              5 * (std::string(mode) == "train" ? 4 + 4 + 1 + 1 : 4));
  }
  EXPECT_NE(
      run({"bench", "--steps", "2", "--warmup", "0"}).out.find("samples/s"),
      std::string::npos);
  Output info = run({"info"});
  EXPECT_EQ(info.code, 0);
  for (const char *text :
       {"toy (train)", "toy (infer)", "target", "stage2", "momentum = 0.9"})
    EXPECT_NE(info.out.find(text), std::string::npos) << text;
  auto json = nlohmann::json::parse(run({"info", "--json"}).out);
  EXPECT_EQ(json[0]["feeds"][0]["shape"], (std::vector<int>{8, 4}));
  EXPECT_EQ(json[0]["stages"][0]["parameters"], 16);
  EXPECT_EQ(nlohmann::json::parse(run({"info", "--plan"}).out),
            nlohmann::json(toy::trainingPlan(threeStages)));
  Output help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("target               f32 [8, 4]"), std::string::npos)
      << help.out;
}

TEST_F(CommandLineTest, ErrorsNameTheFlagOrFile) {
  struct Case {
    std::vector<std::string> arguments;
    int code;
    std::string text;
  };
  writeText(file("bad.npz"), "nothing");
  const Case cases[] = {
      {{}, 2, "A subcommand is required"},
      {{"trian"}, 2, "subcommand"},
      {{"train"}, 2, "--data"},
      {{"train", "--data", file("none.npz")}, 4, "none.npz"},
      {{"train", "--data", file("bad.npz")}, 1, "bad.npz"},
      {{"train", "--data", file("data.npz"), "--stepz", "1"}, 2, "--stepz"},
      {{"train", "--data", file("data.npz"), "--steps", "-1"}, 2, "--steps"},
      {{"train", "--data", file("data.npz"), "--set", "beta=1"}, 2, "beta"},
      {{"train", "--data", file("data.npz"), "--set", "lr=x"}, 2, "--set lr=x"},
      {{"train", "--data", file("data.npz"), "--set", "lr"}, 2, "NAME=VALUE"},
      {{"train", "--data", file("data.npz"), "--save-every", "2"}, 2, "--save"},
      {{"train", "--data", file("data.npz"), "--save", file("no/such.st")},
       4,
       "such.st"},
      {{"infer"}, 2, "--data"},
      {{"infer", "--input", "x"}, 2, "NAME=FILE.npy"},
      {{"infer", "--data", file("data.npz"), "--load", file("bad.npz")},
       1,
       "bad.npz"},
      {{"bench", "--steps", "0"}, 2, "--steps"},
      {{"bench", "--mode", "both"}, 2, "--mode"},
  };
  for (const Case &test : cases) {
    Output output = run(test.arguments);
    EXPECT_EQ(output.code, test.code) << test.text << ": " << output.error;
    EXPECT_EQ(output.error.rfind("error: ", 0), 0u) << output.error;
    EXPECT_NE(output.error.find(test.text), std::string::npos) << output.error;
  }
  toy::Binary binary(threeStages);
  binary.table.training = nullptr;
  EXPECT_EQ(run(binary, {"train", "--data", file("data.npz")}).code, 2);
  binary.table.abi_version = 99;
  EXPECT_EQ(run(binary, {"info"}).code, 70);
}

TEST_F(CommandLineTest, WeightFilesAreCheckedAndFoundElsewhere) {
  auto plan = toy::inferencePlan({0});
  plan["weights"] = {"/nowhere/w.bin"};
  plan["weights_bytes"] = {128};
  plan["stages"][0]["parameters"][0]["source"] = {
      {"file", 0}, {"offset", 64}, {"bytes", 64}};
  toy::Binary binary({0}, toy::trainingPlan({}), plan);
  std::vector<std::string> arguments{"infer", "--data", file("data.npz"),
                                     "--output", file("y.npz")};
  Output missing = run(binary, arguments);
  EXPECT_EQ(missing.code, 4);
  EXPECT_NE(missing.error.find("/nowhere/w.bin"), std::string::npos);
  arguments.insert(arguments.end(), {"--weights", directory.path});
  writeText(file("w.bin"), std::string(127, '\0'));
  Output small = run(binary, arguments);
  EXPECT_EQ(small.code, 1);
  EXPECT_NE(small.error.find("127 bytes"), std::string::npos);
  std::string bytes(64, '\xff');
  for (int i = 0; i < 16; ++i) {
    float value = toy::initialWeight(0, i);
    bytes.append(reinterpret_cast<char *>(&value), 4);
  }
  writeText(file("w.bin"), bytes);
  ASSERT_EQ(run(binary, arguments).code, 0);
  auto fromFile = readNpz(file("y.npz"))["y"].data;
  ASSERT_EQ(
      run({"infer", "--data", file("data.npz"), "--output", file("y.npz")}, {})
          .code,
      0);
  EXPECT_EQ(readNpz(file("y.npz"))["y"].data, fromFile);
}

class SnapshotTest : public CommandLineTest {
protected:
  SnapshotTest() {
    Output output = run({"train", "--data", file("data.npz"), "--steps", "5",
                         "--save", file("good.st")});
    EXPECT_EQ(output.code, 0) << output.error;
  }
  Output resume(const std::string &name, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{
        "train",  "--data",    file("data.npz"), "--steps", "6",
        "--save", file("new"), "--resume",       file(name)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  void expectRefused(const Output &output, const std::string &text) {
    EXPECT_EQ(output.code, 1) << text;
    EXPECT_NE(output.error.find(text), std::string::npos) << output.error;
    EXPECT_EQ(output.error.find("saved"), std::string::npos) << output.error;
  }
  /// As a tool without hashes would write it.
  std::map<std::string, std::string> plainMetadata() {
    auto metadata = SafetensorsFile(file("good.st")).getMetadata();
    std::erase_if(metadata, [](const auto &entry) {
      return entry.first.starts_with("hash");
    });
    return metadata;
  }
};

TEST_F(SnapshotTest, AFlippedBitIsFoundInEachTensor) {
  SafetensorsFile good(file("good.st"));
  std::string text = readText(file("good.st"));
  ASSERT_EQ(resume("good.st").code, 0);
  uint64_t header = 0;
  std::memcpy(&header, text.data(), sizeof(header));
  uint64_t at = sizeof(header) + header; // tensors are in order
  for (const auto &[name, tensor] : good.getTensors()) {
    std::string bad = text;
    bad[at + tensor.bytes() / 2] ^= 1;
    at += tensor.bytes();
    writeText(file("bad.st"), bad);
    std::string expected = "tensor '" + name + "' has the hash";
    expectRefused(resume("bad.st"), expected);
    if (name.find('#') == std::string::npos)
      expectRefused(
          run({"infer", "--data", file("data.npz"), "--load", file("bad.st")}),
          expected);
  }
  // The metadata has a hash as well.
  size_t seed = text.find("\"seed\":\"0\"");
  ASSERT_NE(seed, std::string::npos);
  text[seed + 8] = '1';
  writeText(file("bad.st"), text);
  expectRefused(resume("bad.st"), "__metadata__ has the hash");
}

TEST_F(SnapshotTest, PositionsThatNoTrainingReachesAreRefused) {
  // 20 samples, batches of 8: two steps per epoch, and step 5 is in the third.
  SafetensorsFile good(file("good.st"));
  const std::string most = "18446744073709551615";
  const std::vector<std::pair<const char *, std::string>> cases[] = {
      {{"epoch", most}},
      {{"epoch", "3"}},
      {{"step", most}},
      {{"step", "4"}},
      {{"step_in_epoch", most}},
      {{"step_in_epoch", "99999999"}},
      {{"step_in_epoch", "3"}, {"epoch", "1"}},
      {{"samples", "0"}},
      {{"samples", "7"}},
      {{"samples", "8"},
       {"epoch", most},
       {"step", most},
       {"step_in_epoch", "0"}},
  };
  for (const auto &changes : cases) {
    auto metadata = plainMetadata();
    for (const auto &[key, value] : changes)
      metadata[key] = value;
    writeSafetensors(file("bad.st"), good.getTensors(), metadata);
    expectRefused(resume("bad.st"), "no training of ");
  }
  // Without hashes, but right.
  writeSafetensors(file("plain.st"), good.getTensors(), plainMetadata());
  EXPECT_EQ(resume("plain.st").code, 0);
  // As other tools write weights.
  auto tensors = good.getTensors();
  std::erase_if(tensors, [](const auto &entry) {
    return entry.first.find('#') != std::string::npos;
  });
  writeSafetensors(file("weights.st"), tensors, {{"format", "pt"}});
  EXPECT_EQ(
      run({"infer", "--data", file("data.npz"), "--load", file("weights.st")})
          .code,
      0);
}

TEST_F(SnapshotTest, ValuesThatAreNotFiniteAreRefused) {
  SafetensorsFile good(file("good.st"));
  for (float value : {NAN, INFINITY, -INFINITY}) {
    auto tensors = good.getTensors();
    TensorView &tensor = tensors.at("w1#momentum");
    std::string data(tensor.data, tensor.bytes());
    std::memcpy(data.data() + 3 * sizeof(value), &value, sizeof(value));
    tensor.data = data.data();
    writeSafetensors(file("nan.st"), tensors, plainMetadata(), {},
                     /*hashes=*/true);
    expectRefused(resume("nan.st"), "tensor 'w1#momentum': value 3 is NaN");
    EXPECT_EQ(resume("nan.st", {"--allow-not-finite"}).code, 0);
  }
}

TEST_F(SnapshotTest, ASnapshotOfAnotherModelIsRefused) {
  auto train = [&](const char *model, std::vector<int> cuts,
                   std::vector<std::string> more) {
    toy::Options options{std::move(cuts), true, false, 0};
    auto plan = toy::trainingPlan(options);
    if (*model)
      plan["model_hash"] = model;
    toy::Binary binary(options.cuts, plan, toy::inferencePlan(options.cuts));
    std::vector<std::string> arguments{"train", "--data", file("data.npz")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(binary, arguments);
  };
  ASSERT_EQ(train("one", {0}, {"--steps", "2", "--save", file("one.st")}).code,
            0);
  std::vector<std::string> resume{"--steps", "3", "--resume", file("one.st")};
  EXPECT_EQ(train("one", {0, 1, 2}, resume).code, 0);
  EXPECT_EQ(train("", {0}, resume).code, 0); // of an older compiler
  expectRefused(train("two", {0}, resume), "a snapshot of another model");
  resume.emplace_back("--allow-other-model");
  EXPECT_EQ(train("two", {0}, resume).code, 0);
}

TEST_F(CommandLineTest, WeightsThatHaveChangedAreRefused) {
  std::string bytes;
  for (int i = 0; i < 16; ++i) {
    float value = toy::initialWeight(0, i);
    bytes.append(reinterpret_cast<char *>(&value), 4);
  }
  auto plan = toy::inferencePlan({0});
  plan["weights"] = {file("w.bin")};
  plan["weights_bytes"] = {80};
  plan["stages"][0]["parameters"][0]["source"] = {
      {"file", 0},
      {"offset", 8},
      {"bytes", 64},
      {"hash", toHex(hashContent(bytes.data(), bytes.size()))}};
  toy::Binary binary({0}, toy::trainingPlan({}), plan);
  std::vector<std::string> arguments{"infer", "--data", file("data.npz")};
  // What is not loaded may be anything.
  for (const char *others : {"01234567", "........"}) {
    writeText(file("w.bin"), others + bytes + others);
    Output good = run(binary, arguments);
    EXPECT_EQ(good.code, 0) << good.error;
  }
  bytes[17] ^= 1;
  writeText(file("w.bin"), "01234567" + bytes + "01234567");
  Output changed = run(binary, arguments);
  EXPECT_EQ(changed.code, 1);
  EXPECT_NE(changed.error.find("w.bin': tensor 'w0' has the hash"),
            std::string::npos)
      << changed.error;
  arguments.emplace_back("--no-verify-weights");
  EXPECT_EQ(run(binary, arguments).code, 0);
}

TEST_F(CommandLineTest, ASignalEndsTrainingAfterAStepWithASnapshot) {
  std::atomic<bool> done{false};
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    if (!done)
      ::kill(::getpid(), SIGTERM);
  });
  // Ignored until the training installs its own handler.
  std::signal(SIGTERM, SIG_IGN);
  Output output = run({"train", "--data", file("data.npz"), "--steps",
                       "1000000000", "--save", file("s.st")});
  done = true;
  killer.join();
  std::signal(SIGTERM, SIG_DFL);
  EXPECT_EQ(output.code, 0);
  EXPECT_NE(output.error.find("stopped by signal 15"), std::string::npos);
  uint64_t steps = lines(output.out).size();
  EXPECT_GT(steps, 0u);
  EXPECT_EQ(SafetensorsFile(file("s.st")).getMetadata().at("step"),
            std::to_string(steps));
}

} // namespace
