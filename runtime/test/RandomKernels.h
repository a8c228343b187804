//===- RandomKernels.h - Kernels of random shapes against plain loops -----===//
//
// Which code a kernel has depends on shapes, types, layouts and the processor.
// Whatever it is: results are right, nothing is written behind the tensors and
// the scratchpad, packed weights are those that a kernel reads, and threads and
// several micro-batches at once change no bit. PP_RANDOM_KERNELS=10000 tries
// more of them.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_TEST_RANDOMKERNELS_H
#define PP_RUNTIME_TEST_RANDOMKERNELS_H

#include "cpu/DivideKernel.h"
#include "cpu/KernelOperands.h"
#include "cpu/LibraryKernel.h"
#include "exec/Team.h"
#include "plan/ShortFloat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace pp::runtime::random_kernels {

using Dims = std::vector<int64_t>;

inline std::string join(const Dims &dims) {
  std::string text;
  for (int64_t dim : dims)
    text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text;
}

inline int64_t countOf(const Dims &dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  return count;
}

/// Calls `visit` with each index into a dense array.
inline void forEach(const Dims &dims,
                    const std::function<void(const Dims &)> &visit) {
  Dims index(dims.size(), 0);
  for (int64_t i = 0, count = countOf(dims); i < count; ++i) {
    visit(index);
    for (size_t axis = dims.size(); axis-- > 0;) {
      if (++index[axis] < dims[axis])
        break;
      index[axis] = 0;
    }
  }
}

class Choice {
public:
  explicit Choice(unsigned seed) : random(seed) {}
  int64_t upTo(int64_t most, int64_t least = 0) {
    return least + static_cast<int64_t>(random()) % (most - least + 1);
  }
  template <typename T> T of(std::initializer_list<T> choices) {
    return choices.begin()[upTo(static_cast<int64_t>(choices.size()) - 1)];
  }

private:
  std::mt19937 random;
};

inline const char *nameOfType(DataType type) {
  return type == DataType::BF16  ? "bf16"
         : type == DataType::F16 ? "f16"
                                 : "f32";
}

inline double readNumber(DataType type, const void *data, int64_t at) {
  return type == DataType::F32
             ? static_cast<const float *>(data)[at]
             : fromShortFloat(type, static_cast<const uint16_t *>(data)[at]);
}

/// What a number of a result is, and how large its terms are together.
struct Sum {
  double value = 0, size = 0;
  void add(double term) { add(term, std::fabs(term)); }
  /// A term that is itself a sum.
  void add(double term, double terms) {
    value += term;
    size += terms;
  }
};

/// A kernel, and what it should do.
struct Case {
  std::string keys;
  DataType resultType = DataType::F32;
  /// From operands as they were: each number of the result, by place.
  std::function<std::vector<std::pair<int64_t, Sum>>(void *const *)> compute;
  /// Makes operands of random numbers what a program has.
  std::function<void(void *const *)> prepare = [](void *const *) {};
  /// Which tensor the result is, and which one may be packed, by which kind.
  size_t result = 2, weights = 1;
  std::string pack;
  /// Beside that of types: of the largest sum.
  double error = 0x1p-18;
};

/// Runs a kernel with a scratchpad of its own.
inline bool runIn(unsigned threads, LibraryKernel &kernel,
                  const KernelOperands &operands) {
  GuardedMemory scratchpad(kernel.scratchpadBytes());
  std::fill_n(scratchpad.get(), kernel.scratchpadBytes(), '\xff');
  if (threads == 1) {
    kernel.execute(operands.getPointers(), scratchpad.get());
  } else {
    Team team(threads, "test");
    team.run([&](unsigned) {
      kernel.execute(operands.getPointers(), scratchpad.get());
    });
  }
  EXPECT_EQ(takeKernelError(), "");
  EXPECT_TRUE(operands.areIntact()) << "writes behind a tensor";
  EXPECT_TRUE(scratchpad.isIntact()) << "writes behind the scratchpad";
  return !::testing::Test::HasFailure();
}

inline void compare(const Case &each, const KernelOperands &before,
                    const KernelOperands &after) {
  const double digits = each.resultType == DataType::BF16  ? 0x1p-8
                        : each.resultType == DataType::F16 ? 0x1p-10
                                                           : 0x1p-22;
  const auto sums = each.compute(before.getPointers());
  double most = 0;
  for (const auto &[at, sum] : sums)
    most = std::max(most, sum.size);
  for (const auto &[at, sum] : sums)
    ASSERT_NEAR(
        readNumber(each.resultType, after.getPointers()[each.result], at),
        sum.value, std::fabs(sum.value) * digits + most * each.error)
        << "at " << at;
}

inline KernelOperands makeOperands(const Case &each,
                                   const LibraryKernel &kernel, unsigned seed) {
  KernelOperands operands(kernel.describeTensors(), seed);
  each.prepare(operands.getPointers());
  return operands;
}

/// Whether there is such a kernel.
inline bool check(const Case &each, unsigned seed) {
  SCOPED_TRACE(each.keys);
  setKernelThreads(1);
  std::string error;
  auto kernel = LibraryKernel::create(each.keys, error);
  if (!kernel)
    return false;
  const KernelOperands before = makeOperands(each, *kernel, seed);
  const KernelOperands whole = makeOperands(each, *kernel, seed);
  if (!runIn(1, *kernel, whole))
    return true;
  compare(each, before, whole);

  for (unsigned threads : {2u, 3u}) {
    const std::string text = divideKernel(each.keys, threads);
    auto divided = LibraryKernel::create(text, error);
    EXPECT_TRUE(divided) << error;
    const KernelOperands found = makeOperands(each, *kernel, seed);
    if (text != each.keys && divided && runIn(threads, *divided, found))
      EXPECT_TRUE(found == whole) << "in " << threads << " threads";
  }

  if (kernel->mostTogether() > 1 &&
      each.keys.find("together=") != std::string::npos) {
    KernelOperands one(kernel->describeTensors(), seed);
    KernelOperands sum(kernel->describeTensors(), seed);
    KernelOperands oneMore(kernel->describeTensors(), seed + 1);
    KernelOperands sumMore(kernel->describeTensors(), seed + 1);
    oneMore.shareResult(one);
    sumMore.shareResult(sum);
    runIn(1, *kernel, one);
    runIn(1, *kernel, oneMore);
    GuardedMemory scratchpad(kernel->scratchpadBytes());
    void *const *const both[] = {sum.getPointers(), sumMore.getPointers()};
    kernel->executeTogether(both, nullptr, scratchpad.get());
    EXPECT_TRUE(sum.areIntact() && scratchpad.isIntact());
    EXPECT_TRUE(sum == one) << "two at once";
  }

  const uint64_t bytes = each.pack.empty() ? 0 : getPackedBytes(each.keys);
  if (bytes == 0)
    return true;
  const std::string packed = " packed=" + std::to_string(bytes);
  auto packing = LibraryKernel::create(each.pack + packed, error);
  EXPECT_TRUE(packing) << error;
  auto reading = LibraryKernel::create(each.keys + packed, error);
  EXPECT_TRUE(reading) << error;
  if (!packing || !reading)
    return true;
  KernelOperands prepared(packing->describeTensors(), seed);
  KernelOperands found(reading->describeTensors(), seed);
  std::copy_n(static_cast<char *>(before.getPointers()[each.weights]),
              kernel->describeTensors()[each.weights].bytes,
              static_cast<char *>(prepared.getPointers()[0]));
  KernelOperands shared(packing->describeTensors(), seed);
  std::copy_n(static_cast<char *>(before.getPointers()[each.weights]),
              kernel->describeTensors()[each.weights].bytes,
              static_cast<char *>(shared.getPointers()[0]));
  if (!runIn(1, *packing, prepared))
    return true;
  const std::string text = divideKernel(each.pack + packed, /*threads=*/2);
  if (auto divided = LibraryKernel::create(text, error);
      text != each.pack + packed && divided && runIn(2, *divided, shared))
    EXPECT_TRUE(shared == prepared) << text;
  std::copy_n(static_cast<char *>(prepared.getPointers()[1]), bytes,
              static_cast<char *>(found.getPointers()[each.weights]));
  SCOPED_TRACE(packed);
  if (!runIn(1, *reading, found))
    return true;
  compare(each, before, found);
  const std::string both = divideKernel(each.keys + packed, /*threads=*/2);
  auto divided = LibraryKernel::create(both, error);
  EXPECT_TRUE(divided) << error;
  KernelOperands again(reading->describeTensors(), seed);
  std::copy_n(static_cast<char *>(prepared.getPointers()[1]), bytes,
              static_cast<char *>(again.getPointers()[each.weights]));
  if (both != each.keys + packed && divided && runIn(2, *divided, again))
    EXPECT_TRUE(again == found) << both;
  return true;
}

/// The sums of all places of a result that has `count`, which begin as
/// `start` has it.
inline std::vector<std::pair<int64_t, Sum>>
sumUp(int64_t count, const std::function<void(std::vector<Sum> &)> &add) {
  std::vector<Sum> sums(count);
  add(sums);
  std::vector<std::pair<int64_t, Sum>> all;
  for (int64_t at = 0; at < count; ++at)
    all.emplace_back(at, sums[at]);
  return all;
}

/// How many cases to try.
inline unsigned countCases(unsigned usually) {
  const char *asked = std::getenv("PP_RANDOM_KERNELS");
  return asked ? static_cast<unsigned>(std::strtoul(asked, nullptr, 10))
               : usually;
}

} // namespace pp::runtime::random_kernels

#endif // PP_RUNTIME_TEST_RANDOMKERNELS_H
