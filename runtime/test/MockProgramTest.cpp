//===- MockProgramTest.cpp - Blocks, barriers and shuffles ----------------===//
#include "mock/MockProgram.h"
#include "cpu/LibraryKernel.h"
#include "plan/Plan.h"

#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <thread>

using namespace pp::runtime;

namespace {

using Numbers = std::vector<int32_t>;

constexpr int64_t threadsOfBlock = 96;

int32_t *numbers(void *const *arguments, int at) {
  return static_cast<int32_t *>(arguments[at]);
}

// Kernels: to[i] from from[i], with blocks of 96 threads.

/// The sum over the warp.
void sumOfWarp(void *const *arguments, void *, int64_t block, int64_t thread) {
  int64_t at = block * threadsOfBlock + thread;
  int32_t value = numbers(arguments, 0)[at];
  for (int32_t mask = 16, place = 0; mask; mask /= 2, ++place)
    value += pp_mock_shuffle(value, mask, place);
  numbers(arguments, 1)[at] = value;
}

/// The sum over the block: shuffles, shared memory, barriers, in two rounds.
void sumOfBlock(void *const *arguments, void *shared, int64_t block,
                int64_t thread) {
  int64_t at = block * threadsOfBlock + thread;
  auto *sums = static_cast<int32_t *>(shared);
  int32_t value = numbers(arguments, 0)[at];
  for (int32_t mask = 16; mask; mask /= 2)
    value += pp_mock_shuffle(value, mask, 0);
  if (thread % 32 == 0)
    sums[thread / 32] = value;
  pp_mock_barrier(1);
  value = sums[0] + sums[1] + sums[2];
  pp_mock_barrier(2);
  // Another use of the same memory.
  if (thread == 95)
    sums[0] = value;
  pp_mock_barrier(3);
  numbers(arguments, 1)[at] = sums[0];
}

/// What the thread before wrote; `barrier` says whether to wait for it.
template <bool barrier>
void fromNeighbour(void *const *arguments, void *shared, int64_t block,
                   int64_t thread) {
  int64_t at = block * threadsOfBlock + thread;
  auto *values = static_cast<int32_t *>(shared);
  values[thread] = numbers(arguments, 0)[at];
  if (barrier)
    pp_mock_barrier(0);
  numbers(arguments, 1)[at] =
      values[(thread + threadsOfBlock - 1) % threadsOfBlock];
}

void barrierOfSome(void *const *, void *, int64_t block, int64_t thread) {
  if (block != 1 || thread < 40)
    pp_mock_barrier(0);
}

void otherBarriers(void *const *, void *, int64_t, int64_t thread) {
  pp_mock_barrier(thread < 50 ? 0 : 1);
}

void shuffleOfSome(void *const *, void *, int64_t, int64_t thread) {
  if (thread != 33)
    pp_mock_shuffle(0, 1, 0);
}

void otherShuffles(void *const *, void *, int64_t, int64_t thread) {
  pp_mock_shuffle(0, 1, thread % 2);
}

void shuffleAndBarrier(void *const *, void *, int64_t, int64_t thread) {
  if (thread % 2)
    pp_mock_barrier(0);
  else
    pp_mock_shuffle(0, 1, 1);
}

void farShuffle(void *const *, void *, int64_t, int64_t) {
  pp_mock_shuffle(0, 32, 0);
}

/// Reports faults of some threads.
void faults(void *const *, void *, int64_t block, int64_t thread) {
  if (block == 2 && thread > 0)
    pp_mock_fault(PP_FAULT_OUT_OF_BOUNDS, block, thread);
  if (block == 1 && thread == 7)
    pp_mock_fault(PP_FAULT_MISALIGNED, block, thread);
}

/// An optimizer: parameters, gradients, states, scalars, scratchpad, count,
/// stride. Leaves the second of its states in the scratchpad.
void step(void *const *arguments, void *, int64_t block, int64_t thread) {
  int64_t at = block * 32 + thread;
  auto count = reinterpret_cast<int64_t>(arguments[5]);
  auto stride = reinterpret_cast<int64_t>(arguments[6]);
  if (at >= count)
    return;
  numbers(arguments, 0)[at] -= numbers(arguments, 1)[at];
  numbers(arguments, 4)[at] = numbers(arguments, 2)[stride + at];
}
/// Once after it, whatever the count.
void countBlocks(void *const *arguments, void *, int64_t, int64_t thread) {
  if (thread == 0)
    ++numbers(arguments, 3)[0];
}

/// 2 * x goes to the scratchpad, + 1 to the output; the scratchpad's first
/// byte is read before it is written.
void doubled(void *const *arguments, void *, int64_t block, int64_t) {
  numbers(arguments, 2)[block] = 2 * numbers(arguments, 0)[block];
}
void plusOne(void *const *arguments, void *, int64_t block, int64_t) {
  numbers(arguments, 1)[block] = numbers(arguments, 2)[block] + 1;
}
void readsScratchpad(void *const *arguments, void *, int64_t block, int64_t) {
  numbers(arguments, 1)[block] = numbers(arguments, 2)[block];
}

constexpr uint64_t sharedBytes = threadsOfBlock * sizeof(int32_t);

const pp_mock_kernel kernels[] = {
    {"warp_0", sumOfWarp, 3, 0, 1},
    {"block_0", sumOfBlock, 3, 64, 1},
    {"neighbour_0", fromNeighbour<true>, 3, sharedBytes, 1},
    {"race_0", fromNeighbour<false>, 3, sharedBytes, 1},
    {"barrier_0", barrierOfSome, 3, 0, 1},
    {"barriers_0", otherBarriers, 3, 0, 1},
    {"shuffle_0", shuffleOfSome, 3, 0, 1},
    {"shuffles_0", otherShuffles, 3, 0, 1},
    {"both_0", shuffleAndBarrier, 3, 0, 1},
    {"far_0", farShuffle, 3, 0, 1},
    {"fault_0", faults, 3, 0, 0},
    {"optimizer_0", step, 7, 0, 0},
    {"optimizer_1", countBlocks, 7, 0, 0},
    {"two_0", doubled, 3, 0, 0},
    {"two_1", plusOne, 3, 0, 0},
    {"scratch_0", readsScratchpad, 3, 0, 0},
};

std::unique_ptr<DeviceProgram> makeProgram() {
  pp_pipeline program = {};
  program.mock_kernels = kernels;
  program.mock_kernel_count = std::size(kernels);
  return std::make_unique<MockProgram>(program);
}

/// Runs `descriptor` on `from` and `to`; returns the error.
std::string run(const std::string &descriptor, Numbers &from, Numbers &to,
                uint64_t scratchpadBytes = 0) {
  auto program = makeProgram();
  std::string error;
  auto kernel = program->createKernel({descriptor, scratchpadBytes}, error);
  if (!kernel)
    return error;
  Numbers scratchpad(scratchpadBytes / sizeof(int32_t));
  void *tensors[] = {from.data(), to.data()};
  pp_execute_kernel(kernel.get(), tensors, scratchpad.data());
  return takeKernelError();
}

Numbers counted(int64_t size) {
  Numbers result(size);
  std::iota(result.begin(), result.end(), 1);
  return result;
}

/// The sums over each `size` numbers, in the place of each.
Numbers sums(const Numbers &from, size_t size) {
  Numbers result(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    auto first = from.begin() + i / size * size;
    result[i] = std::accumulate(first, first + size, 0);
  }
  return result;
}

TEST(MockProgram, Shuffles) {
  Numbers from = counted(5 * threadsOfBlock), to(from.size());
  EXPECT_EQ(run("launch name=warp grids=5 blocks=96 tensors=2", from, to), "");
  EXPECT_EQ(to, sums(from, 32));
}

TEST(MockProgram, Barriers) {
  Numbers from = counted(4 * threadsOfBlock), to(from.size());
  EXPECT_EQ(run("launch name=block grids=4 blocks=96 tensors=2", from, to), "");
  EXPECT_EQ(to, sums(from, threadsOfBlock));
}

TEST(MockProgram, AMissingBarrierShows) {
  Numbers from = counted(2 * threadsOfBlock), to(from.size());
  EXPECT_EQ(run("launch name=neighbour grids=2 blocks=96 tensors=2", from, to),
            "");
  for (int64_t block = 0; block < 2; ++block)
    for (int64_t i = 0; i < threadsOfBlock; ++i)
      EXPECT_EQ(to[block * threadsOfBlock + i],
                from[block * threadsOfBlock +
                     (i + threadsOfBlock - 1) % threadsOfBlock]);
  // Without it, one of two blocks reads nearly everything too early.
  Numbers wrong(from.size());
  EXPECT_EQ(run("launch name=race grids=2 blocks=96 tensors=2", from, wrong),
            "");
  int64_t early = std::count(wrong.begin(), wrong.end(), -1);
  EXPECT_EQ(early, threadsOfBlock);
}

TEST(MockProgram, FaultsAreErrors) {
  Numbers from = counted(threadsOfBlock), to(from.size());
  const std::pair<const char *, const char *> faults[] = {
      {"barrier grids=2 blocks=96",
       "kernel 'barrier_0', block 1: 40 of 96 threads reach a barrier"},
      {"barriers grids=1 blocks=96", "its threads are at different barriers"},
      {"shuffle grids=1 blocks=96",
       "31 of the 32 threads from 32 on take part in a shuffle"},
      {"shuffle grids=1 blocks=40",
       "7 of the 32 threads from 32 on take part in a shuffle"},
      {"shuffles grids=1 blocks=32",
       "the threads from 0 on are at different shuffles"},
      {"both grids=1 blocks=32",
       "16 of the 32 threads from 0 on take part in a shuffle"},
      {"fault grids=3 blocks=32",
       "kernel 'fault_0', block 2, thread 1: accesses memory outside of its "
       "tensor"},
      {"fault grids=2 blocks=32",
       "block 1, thread 7: accesses a vector that does not start at a multiple "
       "of its size"},
      {"far grids=1 blocks=32", "thread 0 shuffles with the mask 32"},
  };
  for (auto [launch, expected] : faults) {
    std::string error =
        run(std::string("launch tensors=2 name=") + launch, from, to);
    EXPECT_NE(error.find(expected), std::string::npos) << launch << error;
    // The threads that were left waiting disturb nobody.
    EXPECT_EQ(run("launch name=block grids=1 blocks=96 tensors=2", from, to),
              "");
    EXPECT_EQ(to, sums(from, threadsOfBlock));
  }
}

TEST(MockProgram, ManyThreadsOfTheHost) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([i] {
      Numbers from = counted(threadsOfBlock * (i + 2)), to(from.size());
      std::string grid = std::to_string(i + 2);
      for (int repeat = 0; repeat < 5; ++repeat) {
        EXPECT_EQ(run("launch name=block blocks=96 tensors=2 grids=" + grid,
                      from, to),
                  "");
        EXPECT_EQ(to, sums(from, threadsOfBlock));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(MockProgram, LaunchesShareAScratchpad) {
  Numbers from = counted(7), to(from.size());
  EXPECT_EQ(run("launch name=two grids=7x7 blocks=1x1 tensors=2", from, to, 64),
            "");
  for (size_t i = 0; i < to.size(); ++i)
    EXPECT_EQ(to[i], 2 * from[i] + 1);
  // What is not written is not 0.
  EXPECT_EQ(run("launch name=scratch grids=7 blocks=1 tensors=2", from, to, 64),
            "");
  EXPECT_EQ(to, Numbers(7, -1));
}

TEST(MockProgram, Optimizer) {
  auto program = makeProgram();
  std::string error;
  for (int stride : {70, 200}) {
    std::string text =
        "launch name=optimizer elements=32x0 blocks=32x64 tensors=4 count=70";
    if (stride != 70)
      text += " stride=" + std::to_string(stride);
    auto kernel = program->createKernel({text, 0}, error);
    ASSERT_TRUE(kernel) << error;
    Numbers parameters(71, 100), gradients = counted(71);
    Numbers states = counted(300), scratchpad(71), blocks(1);
    void *tensors[] = {parameters.data(), gradients.data(), states.data(),
                       blocks.data()};
    EXPECT_TRUE(kernel->execute(tensors, scratchpad.data()));
    for (int i = 0; i < 71; ++i) {
      EXPECT_EQ(parameters[i], i < 70 ? 100 - gradients[i] : 100);
      EXPECT_EQ(scratchpad[i], i < 70 ? states[stride + i] : 0);
    }
    EXPECT_EQ(blocks, Numbers{1});
  }
}

TEST(MockProgram, Copy) {
  Numbers from = counted(6), to(6);
  EXPECT_EQ(run("copy bytes=20", from, to), "");
  EXPECT_EQ(to, Numbers({1, 2, 3, 4, 5, 0}));
}

TEST(MockProgram, NoLaunches) {
  Numbers from = counted(6), to(6);
  EXPECT_EQ(run("launch name=empty tensors=2", from, to), "");
}

TEST(MockProgram, BadDescriptors) {
  Numbers none;
  const std::pair<const char *, const char *> faults[] = {
      {"launch name=unknown grids=1 blocks=32 tensors=2",
       "the binary has no 'unknown_0'"},
      {"launch name=warp grids=1x1 blocks=32x32 tensors=2",
       "the binary has no 'warp_1'"},
      {"launch name=warp grids=1 blocks=32 tensors=3",
       "'warp_0' takes 3 arguments, expected 3 tensors and one more"},
      {"launch name=warp grids=1 blocks=1056 tensors=2",
       "'warp_0' has blocks of 1056 threads; a GPU has at most 1024"},
      {"launch name=warp grids=1x2 blocks=32 tensors=2",
       "blocks=32: expected 2 integers"},
      {"launch name=warp grids=0 blocks=32 tensors=2", "grids=0"},
      {"launch name=optimizer elements=32 tensors=4 count=5",
       "key 'blocks' is missing"},
      {"launch name=optimizer blocks=32 tensors=4 count=5",
       "key 'elements' is missing"},
      {"launch name=optimizer elements=32 blocks=32x32 tensors=4 count=5",
       "blocks=32x32: expected 1 integers"},
      {"launch name=optimizer elements=32 blocks=32 tensors=4 count=0",
       "count=0: expected 1 to 2^31 blocks"},
      {"launch name=optimizer elements=1 blocks=32 tensors=4 count=3000000000",
       "count=3000000000: expected 1 to 2^31 blocks"},
      {"launch name=optimizer elements=32 blocks=32 tensors=4 count=5 "
       "stride=-1",
       "stride=-1: expected an integer of at least 0"},
      {"launch name=optimizer elements=32 blocks=32 tensors=3 count=5",
       "'optimizer_0' takes 7 arguments, expected 3 tensors and three more"},
      {"launch name=warp grids=1 blocks=32 tensors=2 stride=3",
       "unknown key 'stride'"},
      {"launch grids=1 blocks=32 tensors=2", "key 'name' is missing"},
      {"launch name=warp grids=1 blocks=32 tensors=2 other=1",
       "unknown key 'other'"},
      {"copy", "key 'bytes' is missing"},
      {"nonsense", "unknown kind 'nonsense'"},
  };
  for (auto [descriptor, expected] : faults) {
    std::string error = run(descriptor, none, none);
    EXPECT_NE(error.find(expected), std::string::npos)
        << descriptor << ": " << error;
    EXPECT_NE(error.find(descriptor), std::string::npos) << error;
  }
}

} // namespace
