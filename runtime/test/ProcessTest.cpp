//===- ProcessTest.cpp - Several processes, as threads of one -------------===//
//
// A group does not know whether its members share a process, so ThreadSanitizer
// sees all of them. test/e2e/processes.py starts real ones.
//
//===----------------------------------------------------------------------===//
#include "DeviceSetup.h"
#include "FakeMpi.h"
#include "TestFiles.h"
#include "ToyProgram.h"
#include "exec/DataSet.h"
#include "exec/Executor.h"
#include "exec/OptimizerScalars.h"
#include "exec/Snapshot.h"
#include "process/MpiEndpoint.h"
#include "process/ProcessGroup.h"
#include "transport/TransportRegistry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <map>
#include <numeric>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace pp::runtime;

namespace {

std::string uniqueJob() {
  static std::atomic<unsigned> number{0};
  return fmt::format("test-{}-{}", getpid(), ++number);
}

Launch member(const std::string &job, unsigned process, unsigned processes,
              const std::string &address = "") {
  Launch launch;
  launch.launcher = "test";
  launch.process = launch.localProcess = process;
  launch.processes = launch.localProcesses = processes;
  launch.address = address.empty() ? "unix:pp-" + job : address;
  launch.job = job;
  if (!address.empty())
    launch.secret = "a secret of the tests";
  return launch;
}

/// As an address: a job of MPI.
const std::string throughMpi = "MPI";

/// Runs `work` in each of `count` processes; returns what they threw, by
/// process; empty: nothing.
std::vector<std::string>
runProcesses(unsigned count, const std::function<void(ProcessGroup &)> &work,
             const std::string &address = "", std::string transport = "auto",
             const FakeMpi &mpi = {}) {
  std::string job = uniqueJob();
  std::vector<std::string> errors(count);
  std::vector<std::thread> threads;
  for (unsigned process = 0; process < count; ++process)
    threads.emplace_back([&, process] {
      try {
        bool isMpi = transport == "mpi" || address == throughMpi;
        Launch launch = member(job, process, count, isMpi ? "" : address);
        if (isMpi)
          launch.mpi = std::make_shared<MpiEndpoint>(fakeMpi(mpi), launch, 20);
        ProcessGroup group(launch, {}, 20, transport);
        try {
          work(group);
          group.finish();
        } catch (const RemoteFailure &) {
          throw;
        } catch (const Error &error) {
          group.fail(error);
          throw;
        }
      } catch (const std::exception &error) {
        errors[process] = error.what();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  return errors;
}

std::string tcpAddress() {
  return fmt::format("127.0.0.1:{}", Listener("127.0.0.1:0").getPort());
}

class ProcessGroupTest : public testing::TestWithParam<std::string> {
protected:
  std::string address = GetParam() == "Tcp"   ? tcpAddress()
                        : GetParam() == "Mpi" ? throughMpi
                                              : "";
};
INSTANTIATE_TEST_SUITE_P(All, ProcessGroupTest,
                         testing::Values("Unix", "Tcp", "Mpi"),
                         [](const auto &info) { return info.param; });

TEST_P(ProcessGroupTest, WhatAllDoTogether) {
  for (unsigned count : {2, 3, 5}) {
    auto errors = runProcesses(
        count,
        [&](ProcessGroup &group) {
          unsigned self = group.process();
          EXPECT_FALSE(group.any(false));
          EXPECT_TRUE(group.any(self == count - 1));
          std::vector<uint64_t> values{1, self};
          group.addUp(values);
          if (group.isFirst()) {
            EXPECT_EQ(values[0], count);
            EXPECT_EQ(values[1], count * (count - 1) / 2);
          }
          group.compare("nothing", 7);
          // Around the ring, past process 0.
          unsigned next = (self + 1) % count;
          unsigned previous = (self + count - 1) % count;
          std::vector<char> bytes(3'000'000, char('a' + self));
          if (self == 0)
            group.send(next, bytes.data(), bytes.size());
          std::vector<char> received(bytes.size());
          group.receive(previous, received.data(), received.size());
          EXPECT_EQ(received.back(), char('a' + previous));
          if (self != 0)
            group.send(next, bytes.data(), bytes.size());
          // One machine, one clock.
          EXPECT_LT(std::abs(group.clockOffset(count - 1)), 1'000'000'000);
        },
        address);
    for (const std::string &error : errors)
      EXPECT_EQ(error, "");
  }
}

TEST_P(ProcessGroupTest, AFailureEndsTheWaitingOfAll) {
  auto errors = runProcesses(
      4,
      [](ProcessGroup &group) {
        if (group.process() == 2)
          failInput("no such luck");
        group.barrier();
      },
      address);
  EXPECT_EQ(errors[2], "no such luck");
  for (unsigned other : {0, 1, 3})
    EXPECT_NE(errors[other].find("process 2 ("), std::string::npos)
        << errors[other];
  EXPECT_NE(errors[0].find("no such luck"), std::string::npos) << errors[0];
}

TEST(ProcessGroupErrors, WhoDoesNotComeIsNamed) {
  std::string job = uniqueJob();
  std::string late;
  std::thread one([&] {
    try {
      ProcessGroup group(member(job, 1, 4), {}, 5);
    } catch (const RemoteFailure &error) {
      EXPECT_TRUE(error.isTold());
      late = error.what();
    }
  });
  try {
    ProcessGroup group(member(job, 0, 4), {}, 0.5);
    FAIL();
  } catch (const Error &error) {
    EXPECT_STREQ(error.what(), "of 4 processes, 2, 3 did not come within 0.5 s "
                               "(--join-timeout)");
    EXPECT_EQ(error.getKind(), ErrorKind::Usage);
  }
  one.join();
  EXPECT_NE(late.find("2, 3 did not come"), std::string::npos) << late;
}

/// Between steps, and before the first, no watchdog of an executor looks.
TEST(ProcessGroupErrors, WhoIsStoppedIsMissed) {
  for (unsigned stopped : {0U, 1U}) {
    std::string job = uniqueJob();
    constexpr double silence = 1;
    auto meet = [&](unsigned process) {
      return std::make_unique<ProcessGroup>(member(job, process, 2),
                                            std::vector<Agreement>(), 20,
                                            "auto", true, silence);
    };
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto group = meet(stopped);
      raise(SIGSTOP);
      _exit(0);
    }
    auto group = meet(1 - stopped);
    try {
      group->barrier();
      ADD_FAILURE();
    } catch (const RemoteFailure &error) {
      EXPECT_NE(std::string(error.what())
                    .find(fmt::format("pid {}): gave no sign of life for 1 s",
                                      child)),
                std::string::npos)
          << error.what();
      EXPECT_FALSE(error.isTold());
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
}

TEST(ProcessGroup, WhoIsLongAboutItsWorkIsNotMissed) {
  std::string job = uniqueJob();
  auto work = [&](unsigned process) {
    ProcessGroup group(member(job, process, 2), {}, 20, "auto", true, 1);
    if (process == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    EXPECT_NO_THROW(group.barrier());
    group.finish();
  };
  std::thread other([&] { work(1); });
  work(0);
  other.join();
}

TEST(ProcessGroupErrors, WithoutAFirstProcess) {
  try {
    ProcessGroup group(member(uniqueJob(), 1, 2), {}, 0.3);
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.getKind(), ErrorKind::IO);
    EXPECT_NE(std::string(error.what()).find("cannot connect"),
              std::string::npos);
  }
}

TEST(ProcessGroupErrors, DisagreementsAreAllNamed) {
  std::string job = uniqueJob(), text;
  std::vector<std::thread> threads;
  for (unsigned process = 0; process < 3; ++process)
    threads.emplace_back([&, process] {
      try {
        ProcessGroup group(
            member(job, process, 3),
            {{"program", process == 1 ? 5U : 4U}, {"set of options", process}},
            10);
        ADD_FAILURE() << process;
      } catch (const Error &error) {
        if (process == 0)
          text = error.what();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const char *part :
       {"process 1 (", "has another program than process 0", "process 2 (",
        "has another set of options than process 0"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(ProcessGroupErrors, StrangersAreIgnored) {
  std::string address = tcpAddress();
  std::atomic<bool> stop{false};
  std::thread stranger([&] {
    while (!stop) {
      try {
        Socket socket = connectTo(address, std::chrono::steady_clock::now() +
                                               std::chrono::milliseconds(100));
        socket.send("GET / HTTP/1.1\r\n\r\n and more to fill a header", 45);
      } catch (const Error &) {
      }
    }
  });
  auto errors =
      runProcesses(3, [](ProcessGroup &group) { group.barrier(); }, address);
  stop = true;
  stranger.join();
  for (const std::string &error : errors)
    EXPECT_EQ(error, "");
}

TEST(ProcessGroupErrors, ValuesThatDiffer) {
  auto errors = runProcesses(3, [](ProcessGroup &group) {
    group.compare("the number of samples", group.process() == 2 ? 8 : 9);
  });
  EXPECT_NE(errors[0].find("the number of samples"), std::string::npos);
  EXPECT_NE(errors[0].find("process 2 ("), std::string::npos);
  EXPECT_NE(errors[1], "");
  EXPECT_NE(errors[2], "");
}

TEST(ProcessGroupErrors, ContentsThatDiffer) {
  auto errors = runProcesses(3, [](ProcessGroup &group) {
    unsigned self = group.process();
    std::string file = fmt::format("file{}", self);
    // Whoever has none may have what it wants.
    group.compareContents({{"weights", self == 1 ? "" : file, self == 1}});
    EXPECT_EQ(group.broadcast(self ? "" : "text"), "text");
    EXPECT_EQ(group.gather(std::string(self, 'x')),
              self ? std::vector<std::string>()
                   : (std::vector<std::string>{"", "x", "xx"}));
    group.compareContents(
        {{"weights", file, 7}, {"array 'x'", self ? file : "", self == 2}});
  });
  EXPECT_NE(errors[0].find("array 'x': process 2 ("), std::string::npos)
      << errors[0];
  EXPECT_NE(errors[0].find("another one in 'file2' than process 1 ("),
            std::string::npos);
  EXPECT_EQ(errors[0].find("weights"), std::string::npos);
  EXPECT_NE(errors[1], "");
  EXPECT_NE(errors[2], "");
}

/// What training gives: snapshots of parameters, states, buffers; gradients;
/// the losses that process 0 has.
struct Result {
  std::vector<double> losses;
  std::string snapshot, gradients, trace;
  std::vector<ChannelTraffic> traffic;
  uint64_t actions = 0;
};

/// Whether what `work` wants of a device works there.
bool works(const std::function<void()> &work) {
  try {
    work();
    return true;
  } catch (const Error &) {
    return false;
  }
}

/// What is expected of a transport.
struct TransportSetup {
  std::string name;
  /// Whether it reaches other processes of one machine with such a device.
  bool (*suits)(Device &device);
  /// Whether its sends may wait for their receives.
  bool isRendezvous = false;
  FakeMpi mpi = {};
};

void PrintTo(const TransportSetup &setup, std::ostream *out) {
  *out << setup.name;
}

const TransportSetup transportSetups[] = {
    {"peer",
     [](Device &device) {
       return works([&] {
         SharedHandle handle;
         device.createSharedEvent(handle);
         device.allocateShared(64, "shared memory", handle);
       });
     }},
    {"nccl",
     [](Device &device) { return works([&] { device.createLinkName(); }); },
     /*isRendezvous=*/true},
    {"mpi", [](Device &device) { return device.isHostMemory(); }},
    // The least that an MPI may do.
    {"mpi",
     [](Device &device) { return device.isHostMemory(); },
     /*isRendezvous=*/false,
     {.threads = false, .eagerBytes = 64, .mostBytes = 80}},
    {"host-staged", [](Device &) { return true; }},
};

TEST(TransportSetup, EveryTransportIsTested) {
  for (const TransportKind &kind : transportKinds())
    EXPECT_TRUE(std::any_of(
        std::begin(transportSetups), std::end(transportSetups),
        [&](const TransportSetup &setup) { return setup.name == kind.name; }))
        << kind.name;
}

TEST(TransportSetup, WhatOurDevicesCan) {
  TestedDevice cpu({"Cpu", "cpu"}), mock({"Mock", "mock"});
  for (const TransportSetup &setup : transportSetups)
    if (setup.name == "peer" || setup.name == "nccl") {
      EXPECT_EQ(setup.suits(cpu), setup.name == "peer");
      EXPECT_TRUE(setup.suits(mock)) << setup.name;
    }
}

/// Whether the transport can do that.
bool isPossible(const DeviceSetup &setup, const TransportSetup &transport,
                bool oneForwardOneBackward) {
  // The toy's 1F1B is written by hand, for sends that do not wait.
  if (transport.isRendezvous && oneForwardOneBackward)
    return false;
  TestedDevice device(setup);
  return transport.suits(device);
}

Result train(const toy::Binary &binary, const DeviceSetup &setup,
             ProcessGroup &group, const std::string &folder) {
  TestedDevice device(setup);
  Program program(binary.training, device, group);
  program.allocate("");
  Executor::Options executorOptions;
  executorOptions.watchdogSeconds = 60;
  executorOptions.trace = true;
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
  Result result;
  constexpr unsigned steps = 4;
  for (unsigned i = 0; i < steps + 1; ++i) {
    if (i < steps) {
      Step &step = pool[i % 2];
      data.fill(step, order, i % 3 * toy::batch);
      step.scalars = scalars.evaluate(i + 1);
      step.number = i + 1;
      executor.submit(step);
    }
    if (i == 0)
      continue;
    EXPECT_EQ(executor.wait(pool[(i - 1) % 2],
                            /*wantsToStop=*/i == 2 && group.process() == 1),
              i == 2 && group.size() > 1);
    auto losses = pool[(i - 1) % 2].losses.values();
    result.losses.insert(result.losses.end(), losses.begin(), losses.end());
  }
  saveSnapshot(folder + "/snapshot", program, {});
  saveGradients(folder + "/gradients", program);
  result.traffic = executor.traffic();
  for (const StageStatistics &stage : executor.statistics())
    result.actions += stage.actions;
  result.trace = executor.trace();
  if (group.isFirst()) {
    result.snapshot = readText(folder + "/snapshot");
    result.gradients = readText(folder + "/gradients");
    size_t expected = 0, found = 0;
    for (const PlanRank &rank : plan.ranks)
      expected += rank.actions.size() * steps;
    auto json = nlohmann::json::parse(result.trace);
    for (const auto &event : json.at("traceEvents"))
      found += event.at("ph") == "X";
    EXPECT_EQ(found, expected);
  }
  return result;
}

Result train(const toy::Options &options, const DeviceSetup &setup,
             ProcessGroup &group, const std::string &folder) {
  return train(toy::Binary(options), setup, group, folder);
}

/// Expects of several processes the bits of one, and returns both results.
std::pair<Result, Result> compareWithOneProcess(const toy::Options &options,
                                                const DeviceSetup &setup,
                                                const TransportSetup &transport,
                                                unsigned processes) {
  TemporaryDirectory directory;
  setenv("PP_FAKE_DRIVER_ORDERLY", "1", /*overwrite=*/1);
  Result expected =
      train(options, {"Cpu"}, getLoneProcess(), directory.file(""));
  Result actual;
  auto errors = runProcesses(
      processes,
      [&](ProcessGroup &group) {
        Result result = train(options, setup, group, directory.file(""));
        if (group.isFirst())
          actual = result;
      },
      "", transport.name, transport.mpi);
  for (const std::string &error : errors)
    EXPECT_EQ(error, "");
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_EQ(actual.snapshot, expected.snapshot);
  EXPECT_EQ(actual.gradients, expected.gradients);
  EXPECT_EQ(actual.actions, expected.actions);
  return {expected, actual};
}

class SeveralProcesses
    : public testing::TestWithParam<
          std::tuple<DeviceSetup, TransportSetup, unsigned, bool, bool>> {};

TEST_P(SeveralProcesses, SameBitsAsOne) {
  auto [setup, transport, processes, split, oneForwardOneBackward] = GetParam();
  if (!isPossible(setup, transport, oneForwardOneBackward)) {
    auto errors = runProcesses(
        processes,
        [&](ProcessGroup &group) {
          toy::Options options{{0, 1, 2}, oneForwardOneBackward};
          train(options, setup, group, "");
        },
        "", transport.name, transport.mpi);
    EXPECT_NE(errors[0].find(
                  fmt::format("--transport {}: cannot reach", transport.name)),
              std::string::npos)
        << errors[0];
    return;
  }
  toy::Options options{{0, 1, 2}, oneForwardOneBackward, split, 1};
  auto [expected, actual] =
      compareWithOneProcess(options, setup, transport, processes);
  ASSERT_EQ(actual.traffic.size(), expected.traffic.size());
  for (size_t c = 0; c < actual.traffic.size(); ++c) {
    EXPECT_EQ(actual.traffic[c].messages, expected.traffic[c].messages);
    EXPECT_EQ(actual.traffic[c].sentBytes, expected.traffic[c].sentBytes);
    EXPECT_EQ(actual.traffic[c].receivedBytes,
              expected.traffic[c].receivedBytes);
  }
}

TEST_P(SeveralProcesses, ReplicasHaveTheBitsOfOneProcess) {
  auto [setup, transport, processes, split, isUneven] = GetParam();
  if (!isPossible(setup, transport, /*oneForwardOneBackward=*/false))
    return; // as above
  toy::Options options{{0, 2}, false, split, 1};
  options.replicas = isUneven ? 4 : 2;
  compareWithOneProcess(options, setup, transport, processes);
}

INSTANTIATE_TEST_SUITE_P(All, SeveralProcesses,
                         testing::Combine(testing::ValuesIn(deviceSetups()),
                                          testing::ValuesIn(transportSetups),
                                          testing::Values(2U, 3U),
                                          testing::Bool(), testing::Bool()));

TEST(SeveralProcesses, WhatIsSentAtOnceIsSentBeforeOthersReceive) {
  toy::Options options{{0, 1, 2}, /*oneForwardOneBackward=*/true};
  // The last stage first receives the next value, and then sends the gradient
  // of the last one.
  nlohmann::ordered_json plan = toy::trainingPlan(options);
  auto &actions = plan.at("ranks").at(2).at("actions");
  for (size_t i = 0; i + 1 < actions.size(); ++i)
    if (actions[i][0] == "SEND" && actions[i + 1][0] == "RECV")
      std::swap(actions[i], actions[i + 1]);
  TemporaryDirectory directory;
  Result expected =
      train(options, {"Cpu"}, getLoneProcess(), directory.file(""));
  for (std::string transport : {"mpi", "host-staged"}) {
    Result actual;
    auto errors = runProcesses(
        3,
        [&](ProcessGroup &group) {
          toy::Binary binary(options.cuts, plan,
                             toy::inferencePlan(options.cuts));
          Result result = train(binary, {"Cpu"}, group, directory.file(""));
          if (group.isFirst())
            actual = result;
        },
        "", transport);
    for (const std::string &error : errors)
      EXPECT_EQ(error, "");
    EXPECT_EQ(actual.losses, expected.losses);
    EXPECT_EQ(actual.gradients, expected.gradients);
    auto json = nlohmann::json::parse(actual.trace);
    auto beginOf = [&](const std::string &name, const std::string &channel) {
      for (const auto &event : json.at("traceEvents"))
        if (event.at("ph") == "X" && event.at("name") == name &&
            event.at("args").at("channel") == channel)
          return event.at("ts").get<double>();
      ADD_FAILURE() << name;
      return 0.0;
    };
    EXPECT_EQ(beginOf("2SEND_B0", "dy") < beginOf("2RECV_F1", "h2"),
              transport == "mpi");
  }
}

TEST(SeveralProcesses, OneDecisionOfAllRanks) {
  unsetenv("PP_FAKE_DRIVER_ORDERLY");
  // The scale overflows for some steps, and is halved in each.
  toy::Options options{{0, 1, 2}, true, false, 0};
  options.lossScale = 3.4e38F;
  TemporaryDirectory directory;
  Result expected =
      train(options, {"Cpu"}, getLoneProcess(), directory.file(""));
  EXPECT_NE(expected.snapshot.find("loss_scale.skipped_steps"),
            std::string::npos);
  EXPECT_EQ(expected.snapshot.find("\"loss_scale.skipped_steps\":\"0x0p+0"),
            std::string::npos);
  for (const DeviceSetup &setup : deviceSetups())
    for (unsigned processes : {2, 3}) {
      // The plugin in C has no such kernels.
      if (setup.plugin && !setup.driver)
        continue;
      Result actual;
      auto errors = runProcesses(
          processes,
          [&](ProcessGroup &group) {
            Result result = train(options, setup, group, directory.file(""));
            if (group.isFirst())
              actual = result;
          },
          "", std::string("host-staged"));
      for (const std::string &error : errors)
        EXPECT_EQ(error, "");
      EXPECT_EQ(actual.snapshot, expected.snapshot) << setup.name;
      EXPECT_EQ(actual.losses, expected.losses) << setup.name;
    }
}

TEST(SeveralProcessesErrors, AKernelThatFailsStopsAll) {
  unsetenv("PP_FAKE_DRIVER_ORDERLY");
  for (int layer : {0, 1, 2})
    for (const DeviceSetup &setup : deviceSetups())
      for (const TransportSetup &transport : transportSetups) {
        if (!isPossible(setup, transport, false))
          continue;
        toy::setFault(layer, toy::ThrowFault);
        auto errors = runProcesses(
            3,
            [&](ProcessGroup &group) {
              toy::Binary binary(toy::Options{{0, 1, 2}});
              TestedDevice device(setup);
              Program program(binary.training, device, group);
              program.allocate("");
              Executor executor(program, {});
              Step step(program.getPlan());
              step.scalars =
                  OptimizerScalars(program.getPlan().optimizer).evaluate(1);
              executor.run(step);
              executor.run(step);
            },
            "", transport.name, transport.mpi);
        toy::setFault(0, toy::NoFault);
        std::string culprit = errors[layer];
        EXPECT_NE(culprit, "");
        for (int process : {0, 1, 2})
          if (process != layer)
            EXPECT_NE(errors[process].find(fmt::format("process {} (", layer)),
                      std::string::npos)
                << errors[process];
      }
}

TEST(SeveralProcessesErrors, WhoMpiLosesIsNamed) {
  FakeMpi mpi;
  mpi.brokenValues = 1;
  for (bool isKilled : {false, true}) {
    auto errors = runProcesses(
        2,
        [&](ProcessGroup &group) {
          toy::Binary binary(toy::Options{{0, 1, 2}});
          Program program(binary.training, getCpuDevice(), group);
          program.allocate("");
          Executor executor(program, {});
          // What MPI says comes before what the alarm does.
          if (isKilled && group.process() == 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            throw Error(ErrorKind::IO, "the real reason");
          }
          Step step(program.getPlan());
          step.scalars =
              OptimizerScalars(program.getPlan().optimizer).evaluate(1);
          executor.run(step);
        },
        "", "mpi", mpi);
    EXPECT_NE(errors[0].find("process 1 ("), std::string::npos) << errors[0];
    EXPECT_NE(errors[0].find(isKilled ? "the real reason"
                                      : "is lost: MPI: the wire is cut"),
              std::string::npos)
        << errors[0];
  }
}

/// Runs a step in two processes, the first of which has the watchdog's limit.
/// Returns its report, or "".
std::string reportOfProcess0(double limit, double otherLimit,
                             std::chrono::milliseconds phase, toy::Fault fault,
                             bool hasIdleExecutor = false) {
  std::string report;
  toy::setFault(2, fault);
  std::thread release([&] {
    std::this_thread::sleep_for(phase);
    toy::releaseHangs();
  });
  runProcesses(2, [&](ProcessGroup &group) {
    toy::Binary binary(toy::Options{{0, 1, 2}});
    Program program(binary.training, getCpuDevice(), group);
    program.allocate("");
    Executor::Options options;
    options.watchdogSeconds = group.isFirst() ? limit : otherLimit;
    if (group.isFirst())
      options.onHang = [&](const std::string &text) { report = text; };
    Program inference(binary.inference, getCpuDevice(), group);
    inference.allocate("");
    std::optional<Executor> idle;
    if (hasIdleExecutor)
      idle.emplace(inference, Executor::Options{.watchdogSeconds = 0.5});
    Executor executor(program, options);
    Step step(program.getPlan());
    step.scalars = OptimizerScalars(program.getPlan().optimizer).evaluate(1);
    executor.run(step);
  });
  release.join();
  toy::setFault(0, toy::NoFault);
  return report;
}

TEST(SeveralProcesses, TheWatchdogBearsWithAnotherProcessThatComputes) {
  using namespace std::chrono_literals;
  EXPECT_EQ(reportOfProcess0(0.5, 0.5, 2s, toy::ComputeFault), "");
  // Also if that process has no limit of its own.
  EXPECT_EQ(reportOfProcess0(2.5, 0, 4s, toy::ComputeFault), "");
  // One that does nothing, as that of an evaluation, says nothing.
  for (bool hasIdleExecutor : {false, true}) {
    std::string report =
        reportOfProcess0(0.5, 0, 2s, toy::HangFault, hasIdleExecutor);
    EXPECT_NE(report.find("no process computes"), std::string::npos) << report;
  }
}

/// Runs a step in two processes, `between` in the first, and another step.
/// Returns what the watchdog of the second reports, or "".
std::string
reportOfProcess1(const std::function<void(ProcessGroup &)> &between) {
  std::string report;
  runProcesses(2, [&](ProcessGroup &group) {
    toy::Binary binary(toy::Options{{0, 1, 2}});
    Program program(binary.training, getCpuDevice(), group);
    program.allocate("");
    Executor::Options options;
    options.watchdogSeconds = 0.5;
    if (!group.isFirst())
      options.onHang = [&](const std::string &text) { report = text; };
    Executor executor(program, options);
    Step step(program.getPlan());
    step.scalars = OptimizerScalars(program.getPlan().optimizer).evaluate(1);
    executor.run(step);
    if (group.isFirst())
      between(group);
    executor.run(step);
  });
  return report;
}

TEST(SeveralProcesses, TheWatchdogBearsWithAProcessThatIsBetweenTwoSteps) {
  using namespace std::chrono_literals;
  EXPECT_EQ(
      reportOfProcess1([](ProcessGroup &) { std::this_thread::sleep_for(2s); }),
      "");
  // One that waits for others does nothing of its own.
  std::string report =
      reportOfProcess1([](ProcessGroup &group) { group.barrier(); });
  EXPECT_NE(report.find("no process computes"), std::string::npos) << report;
}

TEST(SeveralProcessesErrors, MoreProcessesThanRanks) {
  auto errors = runProcesses(3, [&](ProcessGroup &group) {
    toy::Binary binary(toy::Options{{0, 2}});
    Program program(binary.training, getCpuDevice(), group);
  });
  EXPECT_NE(errors[0].find("3 processes for the 2 ranks"), std::string::npos)
      << errors[0];
}

TEST(CopyWeights, BetweenOtherPartitions) {
  // The parameter of layer 1 is in process 1 in training, in process 0 in
  // inference.
  auto errors = runProcesses(2, [&](ProcessGroup &group) {
    toy::Binary first(toy::Options{{0, 1}}), second(toy::Options{{0, 2}});
    Program training(first.training, getCpuDevice(), group);
    Program inference(second.inference, getCpuDevice(), group);
    training.allocate("");
    inference.allocate("");
    for (unsigned s = 0; s < 2; ++s)
      if (training.getMemories()[s].isHere())
        for (const PlanTensor &tensor : training.getPlan().stages[s].parameters)
          std::memset(training.getMemories()[s].parameter(tensor),
                      tensor.name[tensor.name.size() - 1], tensor.bytes);
    inference.copyWeightsFrom(training);
    unsigned seen = 0;
    for (unsigned s = 0; s < 2; ++s)
      if (inference.getMemories()[s].isHere())
        for (const PlanTensor &tensor :
             inference.getPlan().stages[s].parameters) {
          ++seen;
          const char *data = inference.getMemories()[s].parameter(tensor);
          for (uint64_t i = 0; i < tensor.bytes; ++i)
            ASSERT_EQ(data[i], tensor.name[tensor.name.size() - 1]);
        }
    EXPECT_EQ(seen, group.isFirst() ? 2U : 1U);
  });
  for (const std::string &error : errors)
    EXPECT_EQ(error, "");
}

} // namespace
