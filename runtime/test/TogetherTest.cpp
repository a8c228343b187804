//===- TogetherTest.cpp - W of several micro-batches ----------------------===//
#include "kernel/Kernel.h"
#include "kernel/Part.h"
#include "pprt/pprt.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

using namespace pp::runtime;

namespace {

/// Adds its first tensor to its second one, or writes it there, and notes that.
struct Adder : Kernel {
  Adder(std::string name, bool writes, std::vector<std::string> &log)
      : name(std::move(name)), writes(writes), log(log) {}
  bool execute(void *const *tensors, void *) noexcept override {
    auto *sum = static_cast<float *>(tensors[1]);
    *sum = *static_cast<float *>(tensors[0]) + (writes ? 0 : *sum);
    log.push_back(name);
    return true;
  }
  std::string name;
  bool writes;
  std::vector<std::string> &log;
};

/// A kernel that has a way to do it at once.
struct Summer : Adder {
  using Adder::Adder;
  bool executeTogether(std::span<void *const *const> tensors, Kernel *first,
                       void *scratchpad) noexcept override {
    log.push_back(std::to_string(tensors.size()) + (first ? " first" : ""));
    return Kernel::executeTogether(tensors, first, scratchpad);
  }
};

void findTensors(const pp_phase_arguments *arguments, void **tensors) {
  tensors[0] = arguments->inputs[0];
  tensors[1] = arguments->gradients;
}

class TogetherTest : public testing::Test {
protected:
  /// Three micro-batches, with values 1, 2 and 4.
  TogetherTest() {
    for (int i = 0; i < 3; ++i) {
      inputs[i] = reinterpret_cast<char *>(&values[i]);
      arguments[i].inputs = &inputs[i];
      arguments[i].gradients = reinterpret_cast<char *>(&sums[0]);
    }
    arguments[0].together = 3;
  }
  float values[3] = {1, 2, 4};
  float sums[2] = {100, 200};
  char *inputs[3];
  pp_phase_arguments arguments[3] = {};
  std::vector<std::string> log;
};

TEST_F(TogetherTest, RunsAPartForEach) {
  static std::vector<const pp_phase_arguments *> seen;
  seen.clear();
  pp_run_together(arguments,
                  [](const pp_phase_arguments *own) { seen.push_back(own); });
  EXPECT_EQ(seen, (std::vector<const pp_phase_arguments *>{
                      arguments, arguments + 1, arguments + 2}));
}

TEST_F(TogetherTest, AddsInOrder) {
  Adder adds("add", false, log), writes("write", true, log);
  pp_execute_together(arguments, &adds, nullptr, findTensors, 2, nullptr);
  EXPECT_EQ(sums[0], 107);
  EXPECT_EQ(log, (std::vector<std::string>{"add", "add", "add"}));
  log.clear();
  arguments[0].is_first = 1;
  pp_execute_together(arguments, &adds, &writes, findTensors, 2, nullptr);
  EXPECT_EQ(sums[0], 7);
  EXPECT_EQ(log, (std::vector<std::string>{"write", "add", "add"}));
  // What B has written, W adds to.
  pp_execute_together(arguments, &adds, nullptr, findTensors, 2, nullptr);
  EXPECT_EQ(sums[0], 14);
}

/// Micro-batches of two lanes have two sums, each of which begins anew.
TEST_F(TogetherTest, KeepsLanesApart) {
  Summer adds("add", false, log);
  Adder writes("write", true, log);
  arguments[2].gradients = reinterpret_cast<char *>(&sums[1]);
  arguments[0].is_first = arguments[2].is_first = 1;
  pp_execute_together(arguments, &adds, &writes, findTensors, 2, nullptr);
  EXPECT_EQ(sums[0], 3);
  EXPECT_EQ(sums[1], 4);
  EXPECT_EQ(log, (std::vector<std::string>{"2 first", "write", "add", "1 first",
                                           "write"}));
}

/// A lane may come again, after another one and without a meeting of threads:
/// then each thread has its own parts of all.
TEST_F(TogetherTest, KeepsPartsWithTheirThreadsWhereThereAreLanes) {
  struct : Kernel {
    bool execute(void *const *, void *) noexcept override { return true; }
    bool executeTogether(std::span<void *const *const>, Kernel *,
                         void *) noexcept override {
      areFixed.push_back(currentPart().isFixed);
      return true;
    }
    std::vector<bool> areFixed;
  } kernel;
  pp_execute_together(arguments, &kernel, nullptr, findTensors, 2, nullptr);
  EXPECT_EQ(kernel.areFixed, std::vector<bool>{false});
  arguments[1].gradients = reinterpret_cast<char *>(&sums[1]);
  kernel.areFixed.clear();
  pp_execute_together(arguments, &kernel, nullptr, findTensors, 2, nullptr);
  EXPECT_EQ(kernel.areFixed, (std::vector<bool>{true, true, true}));
  EXPECT_FALSE(currentPart().isFixed);
}

} // namespace
