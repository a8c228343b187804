//===- RandomKernelTest.cpp - Kernels of random shapes against plain loops ===//
//
// Which code a kernel has depends on shapes, types, layouts and the processor.
// Whatever it is: results are right, nothing is written behind the tensors and
// the scratchpad, packed weights are those that a kernel reads, and threads and
// several micro-batches at once change no bit. PP_RANDOM_KERNELS=10000 tries
// more of them.
//
//===----------------------------------------------------------------------===//
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

using namespace pp::runtime;

namespace {

using Dims = std::vector<int64_t>;

std::string join(const Dims &dims) {
  std::string text;
  for (int64_t dim : dims)
    text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text;
}

int64_t countOf(const Dims &dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  return count;
}

/// Calls `visit` with each index into a dense array.
void forEach(const Dims &dims, const std::function<void(const Dims &)> &visit) {
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

const char *nameOfType(DataType type) {
  return type == DataType::BF16  ? "bf16"
         : type == DataType::F16 ? "f16"
                                 : "f32";
}

double readNumber(DataType type, const void *data, int64_t at) {
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
bool runIn(unsigned threads, LibraryKernel &kernel,
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

void compare(const Case &each, const KernelOperands &before,
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

KernelOperands makeOperands(const Case &each, const LibraryKernel &kernel,
                            unsigned seed) {
  KernelOperands operands(kernel.describeTensors(), seed);
  each.prepare(operands.getPointers());
  return operands;
}

/// Whether there is such a kernel.
bool check(const Case &each, unsigned seed) {
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
  if (runIn(1, *reading, found))
    compare(each, before, found);
  return true;
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

/// Where a number of a tensor N x C x spatial lies.
int64_t placeIn(const std::string &layout, int64_t channels, const Dims &sizes,
                int64_t sample, int64_t channel, const Dims &pixel) {
  int64_t at = 0;
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    at = at * sizes[axis] + pixel[axis];
  const int64_t block = layout == "channels_last" ? channels
                        : layout == "blocked8"    ? 8
                        : layout == "blocked16"   ? 16
                                                  : 1;
  const int64_t lanes = channels % block == 0 ? block : 1;
  return ((sample * channels / lanes + channel / lanes) * countOf(sizes) + at) *
             lanes +
         channel % lanes;
}

struct Convolution {
  int64_t samples = 1, channels = 1, outputs = 1, groups = 1;
  Dims image, window, strides, dilations, padLow, padHigh, result;
  std::string layout = "plain", algorithm;
  DataType type = DataType::F32;

  Convolution() = default;
  explicit Convolution(Choice &choice);

  Dims weightSizes() const {
    Dims sizes{outputs, channels / groups};
    sizes.insert(sizes.end(), window.begin(), window.end());
    return sizes;
  }
  std::string keys(const std::string &kind, const std::string &types) const {
    auto sizes = [](int64_t n, int64_t c, const Dims &rest) {
      return join({n, c}) + "x" + join(rest);
    };
    return kind + " src=" + sizes(samples, channels, image) +
           " weights=" + join(weightSizes()) +
           " dst=" + sizes(samples, outputs, result) +
           " strides=" + join(strides) + " dilations=" + join(dilations) +
           " pad_lo=" + join(padLow) + " pad_hi=" + join(padHigh) +
           " groups=" + std::to_string(groups) + " layout=" + layout +
           (algorithm.empty() ? "" : " algorithm=" + algorithm) +
           " types=" + types;
  }
  double error() const {
    return algorithm == "winograd2_bf16" ? 0x1p-6
           : algorithm.empty()           ? 0x1p-18
                                         : 0x1p-12;
  }

  /// Calls visit(place of x, of the weight, of y) for all that meet.
  void forEachTerm(
      const std::function<void(int64_t, int64_t, int64_t)> &visit) const;
};

Convolution::Convolution(Choice &choice) {
  const bool isWinograd = choice.upTo(4) == 0;
  const size_t axes =
      isWinograd ? 2 : static_cast<size_t>(choice.of({1, 2, 2, 2, 2, 3}));
  const int64_t most = axes == 1 ? 30 : axes == 2 ? 11 : 5;
  samples = choice.of({1, 1, 2, 3, 4});
  channels = choice.of({1, 3, 8, 16, 24, 32, 32, 48, 64, 64, 96, 128});
  outputs = choice.of({1, 5, 8, 16, 32, 32, 48, 64, 64, 80, 128});
  groups = choice.upTo(5) == 0 ? channels / choice.of({1, 1, 2, 4, 8}) : 1;
  if (groups < 1 || channels % groups != 0)
    groups = 1;
  if (groups > 1)
    outputs = channels;
  for (size_t axis = 0; axis < axes; ++axis) {
    window.push_back(isWinograd ? 3 : choice.of({1, 1, 2, 3, 3, 3, 5}));
    strides.push_back(isWinograd ? 1 : choice.of({1, 1, 1, 2, 2, 3}));
    dilations.push_back(isWinograd ? 1 : choice.of({1, 1, 1, 1, 2}));
    const int64_t reach = (window.back() - 1) * dilations.back() + 1;
    padLow.push_back(choice.upTo(reach / 2));
    image.push_back(std::max(choice.upTo(most, 1), reach - padLow.back()));
    // So that the last window ends where the padding does.
    const int64_t most = image.back() + padLow.back() + reach / 2;
    result.push_back((most - reach) / strides.back() + 1);
    padHigh.push_back((result.back() - 1) * strides.back() + reach -
                      image.back() - padLow.back());
    if (padHigh.back() < 0) {
      image.back() += padHigh.back();
      padHigh.back() = 0;
    }
  }
  layout = choice.of<const char *>(
      {"plain", "channels_last", "channels_last", "blocked8", "blocked16"});
  type = choice.of({DataType::F32, DataType::BF16, DataType::BF16});
  if (isWinograd)
    algorithm =
        type == DataType::BF16
            ? choice.of<const char *>({"winograd2", "winograd2_bf16"})
            : choice.of<const char *>({"winograd", "winograd2", "winograd4"});
  else if (layout == "plain" && choice.upTo(3) == 0)
    type = DataType::F16;
}

void Convolution::forEachTerm(
    const std::function<void(int64_t, int64_t, int64_t)> &visit) const {
  const int64_t inputs = channels / groups, each = outputs / groups;
  const int64_t places = countOf(window);
  for (int64_t sample = 0; sample < samples; ++sample)
    forEach(result, [&](const Dims &pixel) {
      int64_t place = -1;
      forEach(window, [&](const Dims &in) {
        ++place;
        Dims seen(pixel.size());
        for (size_t axis = 0; axis < pixel.size(); ++axis) {
          seen[axis] = pixel[axis] * strides[axis] +
                       in[axis] * dilations[axis] - padLow[axis];
          if (seen[axis] < 0 || seen[axis] >= image[axis])
            return;
        }
        for (int64_t output = 0; output < outputs; ++output) {
          const int64_t y =
              placeIn(layout, outputs, result, sample, output, pixel);
          for (int64_t i = 0; i < inputs; ++i)
            visit(placeIn(layout, channels, image, sample,
                          output / each * inputs + i, seen),
                  (output * inputs + i) * places + place, y);
        }
      });
    });
}

/// The sums of all places of a result that has `count`, which begin as
/// `start` has it.
std::vector<std::pair<int64_t, Sum>>
sumUp(int64_t count, const std::function<void(std::vector<Sum> &)> &add) {
  std::vector<Sum> sums(count);
  add(sums);
  std::vector<std::pair<int64_t, Sum>> all;
  for (int64_t at = 0; at < count; ++at)
    all.emplace_back(at, sums[at]);
  return all;
}

/// A convolution and its gradients.
std::vector<Case> makeCases(const Convolution &c, Choice &choice) {
  const std::string type = nameOfType(c.type),
                    three = type + "x" + type + "x" + type;
  const int64_t ofX = c.samples * c.channels * countOf(c.image),
                ofY = c.samples * c.outputs * countOf(c.result);
  auto read = [type = c.type](const void *data, int64_t at) {
    return readNumber(type, data, at);
  };

  Case forward;
  const bool hasBias = choice.upTo(2) == 0;
  const char *activation =
      choice.of<const char *>({"", "", " activation=relu"});
  forward.keys = c.keys("conv_forward", three) +
                 (hasBias ? " bias=1" : " bias=0") + activation;
  if (!hasBias && *activation == 0)
    forward.pack = "pack_" + forward.keys;
  forward.resultType = c.type;
  forward.result = hasBias ? 3 : 2;
  forward.error = c.error();
  forward.compute = [=, isRelu = *activation != 0](void *const *tensors) {
    auto sums = sumUp(ofY, [&](std::vector<Sum> &y) {
      c.forEachTerm([&](int64_t x, int64_t weight, int64_t at) {
        y[at].add(read(tensors[0], x) * read(tensors[1], weight));
      });
      if (hasBias)
        for (int64_t sample = 0; sample < c.samples; ++sample)
          for (int64_t output = 0; output < c.outputs; ++output)
            forEach(c.result, [&](const Dims &pixel) {
              y[placeIn(c.layout, c.outputs, c.result, sample, output, pixel)]
                  .add(static_cast<const float *>(tensors[2])[output]);
            });
    });
    for (auto &[at, sum] : sums)
      if (isRelu)
        sum.value = std::max(sum.value, 0.0);
    return sums;
  };

  Case backward;
  backward.keys = c.keys("conv_backward_data", three);
  backward.pack = "pack_" + backward.keys;
  backward.resultType = c.type;
  backward.error = c.error();
  backward.compute = [=](void *const *tensors) {
    return sumUp(ofX, [&](std::vector<Sum> &x) {
      c.forEachTerm([&](int64_t at, int64_t weight, int64_t y) {
        x[at].add(read(tensors[0], y) * read(tensors[1], weight));
      });
    });
  };

  Case gradient;
  const bool isAdded = choice.upTo(1) == 0;
  gradient.keys = c.keys("conv_backward_weights", type + "xf32x" + type) +
                  (isAdded ? " accumulate=1" : "") +
                  (isAdded && choice.upTo(1) == 0 ? " together=4" : "");
  gradient.error = c.error();
  gradient.compute = [=](void *const *tensors) {
    return sumUp(countOf(c.weightSizes()), [&](std::vector<Sum> &weights) {
      for (size_t at = 0; isAdded && at < weights.size(); ++at)
        weights[at].add(static_cast<const float *>(tensors[2])[at]);
      c.forEachTerm([&](int64_t x, int64_t weight, int64_t y) {
        weights[weight].add(read(tensors[0], x) * read(tensors[1], y));
      });
    });
  };
  return {forward, backward, gradient};
}

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

/// The windows of a convolution of single channels, as those of a pool.
class Pool {
public:
  Pool(Convolution sizes, bool isMean, bool includesPadding)
      : c(std::move(sizes)), isMean(isMean), includesPadding(includesPadding) {
    c.groups = c.outputs = c.channels;
    c.algorithm.clear();
    if (isMean || c.type == DataType::F16)
      c.type = DataType::F32;
    count = 1;
    for (int64_t size : c.window)
      count *= size;
    windows.resize(c.samples * c.outputs * countOf(c.result));
    c.forEachTerm(
        [&](int64_t x, int64_t, int64_t y) { windows[y].push_back(x); });
  }

  /// Whether each window has a number of x.
  bool isPossible() const {
    return std::none_of(windows.begin(), windows.end(),
                        [](const auto &window) { return window.empty(); });
  }

  std::vector<Case> makeCases() const;

private:
  std::string keys(const std::string &kind) const;
  double weightOf(const std::vector<int64_t> &window) const {
    return 1.0 / static_cast<double>(includesPadding
                                         ? count
                                         : static_cast<int64_t>(window.size()));
  }
  /// The first of the largest numbers.
  int64_t findMost(const void *x, const std::vector<int64_t> &window) const {
    return *std::max_element(
        window.begin(), window.end(), [&](int64_t one, int64_t other) {
          return readNumber(c.type, x, one) < readNumber(c.type, x, other);
        });
  }

  Convolution c;
  bool isMean, includesPadding;
  int64_t count;                             // of places
  std::vector<std::vector<int64_t>> windows; // of each y: places of x
};

std::string Pool::keys(const std::string &kind) const {
  auto sizes = [&](const Dims &rest) {
    return join({c.samples, c.channels}) + "x" + join(rest);
  };
  return (isMean ? "avg_pool_" : "max_pool_") + kind +
         " src=" + sizes(c.image) + " dst=" + sizes(c.result) +
         " kernel=" + join(c.window) + " strides=" + join(c.strides) +
         " dilations=" + join(c.dilations) + " pad_lo=" + join(c.padLow) +
         " pad_hi=" + join(c.padHigh) + " layout=" + c.layout +
         " types=" + nameOfType(c.type) +
         (isMean ? includesPadding ? " include_pad=1" : " include_pad=0" : "");
}

std::vector<Case> Pool::makeCases() const {
  const Pool own = *this;
  Case forward;
  forward.keys = keys("forward");
  forward.resultType = c.type;
  forward.result = 1;
  forward.compute = [own](void *const *tensors) {
    return sumUp(static_cast<int64_t>(own.windows.size()),
                 [&](std::vector<Sum> &y) {
                   for (size_t at = 0; at < y.size(); ++at) {
                     const auto &window = own.windows[at];
                     if (!own.isMean)
                       y[at].add(readNumber(own.c.type, tensors[0],
                                            own.findMost(tensors[0], window)));
                     else
                       for (int64_t x : window)
                         y[at].add(readNumber(own.c.type, tensors[0], x) *
                                   own.weightOf(window));
                   }
                 });
  };
  Case backward;
  backward.keys = keys("backward");
  backward.resultType = c.type;
  backward.result = isMean ? 1 : 2;
  backward.compute = [own](void *const *tensors) {
    const int64_t size = own.c.samples * own.c.channels * countOf(own.c.image);
    return sumUp(size, [&](std::vector<Sum> &dx) {
      for (size_t at = 0; at < own.windows.size(); ++at) {
        const auto &window = own.windows[at];
        const double dy = readNumber(own.c.type, tensors[own.isMean ? 0 : 1],
                                     static_cast<int64_t>(at));
        if (!own.isMean)
          dx[own.findMost(tensors[0], window)].add(dy);
        else
          for (int64_t x : window)
            dx[x].add(dy * own.weightOf(window));
      }
    });
  };
  return {forward, backward};
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Strides of a matrix or a batch of them, whose rows or columns lie together,
/// with or without something between them.
Dims chooseStrides(Choice &choice, const Dims &dims, bool isTransposed) {
  const size_t rows = dims.size() - 2, columns = dims.size() - 1;
  Dims strides(dims.size());
  const size_t inner = isTransposed ? rows : columns,
               outer = isTransposed ? columns : rows;
  strides[inner] = 1;
  strides[outer] = dims[inner] + (choice.upTo(5) == 0 ? choice.upTo(40) : 0);
  int64_t size = strides[outer] * dims[outer];
  for (size_t axis = rows; axis-- > 0; size *= dims[axis])
    strides[axis] = size;
  return strides;
}

Case makeProduct(Choice &choice) {
  const size_t batch = static_cast<size_t>(choice.of({0, 0, 0, 1, 2}));
  auto size = [&] {
    return choice.of<int64_t>(
        {1, 2, 5, 16, 17, 31, 32, 33, 48, 64, 64, 100, 128, 130, 192, 256});
  };
  const int64_t m = size(), k = size(), n = size();
  Dims a, b, c;
  for (size_t axis = 0; axis < batch; ++axis) {
    c.push_back(choice.upTo(3, 1));
    a.push_back(choice.upTo(4) == 0 ? 1 : c.back());
    b.push_back(a.back() != 1 && choice.upTo(4) == 0 ? 1 : c.back());
  }
  for (auto &[dims, rows, columns] :
       {std::tuple(&a, m, k), std::tuple(&b, k, n), std::tuple(&c, m, n)}) {
    dims->push_back(rows);
    dims->push_back(columns);
  }
  const Dims as = chooseStrides(choice, a, choice.upTo(2) == 0),
             bs = chooseStrides(choice, b, choice.upTo(2) == 0),
             cs = chooseStrides(choice, c, /*isTransposed=*/false);
  const DataType type = choice.of({DataType::F32, DataType::F32, DataType::BF16,
                                   DataType::BF16, DataType::F16});
  Case each;
  each.resultType = choice.upTo(1) == 0 ? DataType::F32 : type;
  const bool isAdded = each.resultType == DataType::F32 && choice.upTo(1) == 0;
  each.keys = "matmul a=" + join(a) + " b=" + join(b) + " c=" + join(c) +
              " as=" + join(as) + " bs=" + join(bs) + " cs=" + join(cs) +
              " types=" + nameOfType(type) + "x" + nameOfType(type) + "x" +
              nameOfType(each.resultType);
  if (isAdded)
    each.keys +=
        choice.upTo(1) == 0 ? " accumulate=1" : " accumulate=1 together=4";
  else
    each.pack = "pack_" + each.keys;
  each.compute = [=](void *const *tensors) {
    std::vector<std::pair<int64_t, Sum>> sums;
    forEach(c, [&](const Dims &index) {
      int64_t atA = 0, atB = 0, at = 0;
      for (size_t axis = 0; axis < index.size(); ++axis) {
        at += index[axis] * cs[axis];
        if (axis != batch + 1 && a[axis] > 1)
          atA += index[axis] * as[axis];
        if (axis != batch && b[axis] > 1)
          atB += index[axis] * bs[axis];
      }
      Sum sum;
      if (isAdded)
        sum.add(static_cast<const float *>(tensors[2])[at]);
      for (int64_t i = 0; i < k; ++i)
        sum.add(readNumber(type, tensors[0], atA + i * as.back()) *
                readNumber(type, tensors[1], atB + i * bs[batch]));
      sums.emplace_back(at, sum);
    });
    return sums;
  };
  return each;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

struct Attention {
  int64_t batch, heads, rows, columns, width, depth; // q: x width, v: x depth
  bool isCausal, areHeadsInside;
  double scale;
  DataType type;

  explicit Attention(Choice &choice)
      : batch(choice.upTo(2, 1)), heads(choice.upTo(3, 1)),
        rows(choice.of<int64_t>({1, 5, 16, 33, 64, 70, 100})),
        columns(choice.of<int64_t>({1, 7, 16, 32, 50, 64, 129})),
        width(choice.of<int64_t>({4, 8, 16, 24, 32, 40, 64, 80})),
        depth(choice.of<int64_t>({4, 8, 16, 24, 32, 40, 64, 80})),
        isCausal(choice.upTo(1) == 0), areHeadsInside(choice.upTo(1) == 0),
        scale(choice.of({0.125, 0.5, 1.0})),
        type(choice.of({DataType::F32, DataType::BF16, DataType::BF16})) {
    if (isCausal)
      columns = rows;
  }

  Dims strides(int64_t of, int64_t size) const {
    return areHeadsInside ? Dims{of * heads * size, size, heads * size, 1}
                          : Dims{heads * of * size, of * size, size, 1};
  }
  int64_t at(int64_t head, int64_t of, int64_t size, int64_t row,
             int64_t column) const {
    const Dims s = strides(of, size);
    return head / heads * s[0] + head % heads * s[1] + row * s[2] + column;
  }
  int64_t seen(int64_t row) const { return isCausal ? row + 1 : columns; }
  std::string keys(const std::string &kind) const {
    auto dims = [&](int64_t of, int64_t size) {
      return join({batch, heads, of, size});
    };
    const std::string q = join(strides(rows, width)),
                      k = join(strides(columns, width)),
                      v = join(strides(columns, depth)),
                      o = join(strides(rows, depth));
    std::string text =
        kind + " q=" + dims(rows, width) + " k=" + dims(columns, width) +
        " v=" + dims(columns, depth) + " scale=" + std::to_string(scale) +
        " causal=" + (isCausal ? "1" : "0") + " types=" + nameOfType(type) +
        " qs=" + q + " ks=" + k + " vs=" + v + " os=" + o;
    if (kind == "attention_backward")
      text += " dos=" + o + " dqs=" + q + " dks=" + k + " dvs=" + v;
    return text;
  }

  /// Of one head, from tensors in the order of the kernels.
  struct Head {
    std::vector<double> weights; // rows x columns
    std::vector<double> outputs; // rows x depth
    std::vector<double> logarithms;
  };
  Head compute(void *const *tensors, int64_t head) const;
  double read(const void *data, int64_t place) const {
    return readNumber(type, data, place);
  }
};

Attention::Head Attention::compute(void *const *tensors, int64_t head) const {
  Head result{std::vector<double>(rows * columns),
              std::vector<double>(rows * depth),
              {}};
  for (int64_t row = 0; row < rows; ++row) {
    double *weights = &result.weights[row * columns], sum = 0;
    for (int64_t column = 0; column < seen(row); ++column) {
      double score = 0;
      for (int64_t i = 0; i < width; ++i)
        score += read(tensors[0], at(head, rows, width, row, i)) *
                 read(tensors[1], at(head, columns, width, column, i));
      sum += weights[column] = std::exp(scale * score);
    }
    for (int64_t column = 0; column < seen(row); ++column) {
      weights[column] /= sum;
      for (int64_t i = 0; i < depth; ++i)
        result.outputs[row * depth + i] +=
            weights[column] *
            read(tensors[2], at(head, columns, depth, column, i));
    }
    result.logarithms.push_back(std::log(sum));
  }
  return result;
}

using Sums = std::vector<std::pair<int64_t, Sum>>;

std::vector<Case> makeCases(const Attention &a) {
  const int64_t all = a.batch * a.heads;
  Case forward;
  forward.keys = a.keys("attention_forward");
  forward.resultType = a.type;
  forward.result = 3;
  forward.error = a.type == DataType::F32 ? 0x1p-16 : 0x1p-6;
  forward.compute = [=](void *const *tensors) {
    Sums sums;
    for (int64_t head = 0; head < all; ++head) {
      const auto own = a.compute(tensors, head);
      for (int64_t row = 0; row < a.rows; ++row)
        for (int64_t i = 0; i < a.depth; ++i) {
          Sum sum;
          sum.add(own.outputs[row * a.depth + i]);
          sums.emplace_back(a.at(head, a.rows, a.depth, row, i), sum);
        }
    }
    return sums;
  };
  Case logarithms = forward;
  logarithms.resultType = DataType::F32;
  logarithms.result = 4;
  logarithms.compute = [=](void *const *tensors) {
    Sums sums;
    for (int64_t head = 0; head < all; ++head) {
      const auto own = a.compute(tensors, head);
      for (int64_t row = 0; row < a.rows; ++row) {
        Sum sum;
        sum.add(own.logarithms[row]);
        sum.add(1); // what is rounded are the scores
        sum.value -= 1;
        sums.emplace_back(head * a.rows + row, sum);
      }
    }
    return sums;
  };

  Case backward = forward;
  backward.keys = a.keys("attention_backward");
  backward.prepare = [=](void *const *tensors) {
    for (int64_t head = 0; head < all; ++head) {
      const auto own = a.compute(tensors, head);
      for (int64_t row = 0; row < a.rows; ++row) {
        static_cast<float *>(tensors[4])[head * a.rows + row] =
            static_cast<float>(own.logarithms[row]);
        for (int64_t i = 0; i < a.depth; ++i) {
          const int64_t at = a.at(head, a.rows, a.depth, row, i);
          const auto value = static_cast<float>(own.outputs[row * a.depth + i]);
          if (a.type == DataType::F32)
            static_cast<float *>(tensors[3])[at] = value;
          else
            static_cast<uint16_t *>(tensors[3])[at] =
                toShortFloat(a.type, value);
        }
      }
    }
  };
  // dS, and from it and P all gradients.
  auto gradient = [=](size_t which) {
    return [=](void *const *tensors) {
      const int64_t of = which == 0 ? a.rows : a.columns;
      const int64_t size = which == 2 ? a.depth : a.width;
      Sums result;
      for (int64_t head = 0; head < all; ++head) {
        const auto own = a.compute(tensors, head);
        std::vector<Sum> sums(of * size);
        for (int64_t row = 0; row < a.rows; ++row) {
          auto dy = [&](int64_t i) {
            return a.read(tensors[5], a.at(head, a.rows, a.depth, row, i));
          };
          Sum mean;
          for (int64_t i = 0; i < a.depth; ++i)
            mean.add(dy(i) * own.outputs[row * a.depth + i]);
          for (int64_t column = 0; column < a.seen(row); ++column) {
            const double weight = own.weights[row * a.columns + column];
            Sum dWeight;
            for (int64_t i = 0; i < a.depth; ++i)
              dWeight.add(dy(i) * a.read(tensors[2], a.at(head, a.columns,
                                                          a.depth, column, i)));
            const double share = a.scale * weight;
            auto addScore = [&](Sum &sum, double factor) {
              sum.add(share * (dWeight.value - mean.value) * factor,
                      share * (dWeight.size + mean.size) * std::fabs(factor));
            };
            for (int64_t i = 0; i < size; ++i)
              if (which == 0)
                addScore(sums[row * size + i],
                         a.read(tensors[1],
                                a.at(head, a.columns, a.width, column, i)));
              else if (which == 1)
                addScore(
                    sums[column * size + i],
                    a.read(tensors[0], a.at(head, a.rows, a.width, row, i)));
              else
                sums[column * size + i].add(weight * dy(i));
          }
        }
        for (int64_t row = 0; row < of; ++row)
          for (int64_t i = 0; i < size; ++i)
            result.emplace_back(a.at(head, of, size, row, i),
                                sums[row * size + i]);
      }
      return result;
    };
  };
  std::vector<Case> cases{forward, logarithms};
  for (size_t which : {0, 1, 2}) {
    backward.result = 6 + which;
    backward.compute = gradient(which);
    cases.push_back(backward);
  }
  return cases;
}

/// How many cases to try.
unsigned countCases(unsigned usually) {
  const char *asked = std::getenv("PP_RANDOM_KERNELS");
  return asked ? static_cast<unsigned>(std::strtoul(asked, nullptr, 10))
               : usually;
}

TEST(RandomKernels, ConvolveRightly) {
  constexpr int64_t mostTerms = 2'000'000;
  unsigned made = 0, tried = 0;
  for (unsigned seed = 1; tried < countCases(60); ++seed) {
    Choice choice(seed);
    const Convolution sizes(choice);
    if (sizes.samples * countOf(sizes.result) * countOf(sizes.weightSizes()) >
        mostTerms)
      continue;
    ++tried;
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const Case &each : makeCases(sizes, choice))
      made += check(each, seed);
    if (HasFailure())
      return;
  }
  // Some activations of bf16 are not made on some processors.
  EXPECT_GT(made, 2 * tried);
}

/// Where oneDNN 2.6 is wrong: Winograd's algorithm with other padding on one
/// side than on the other, and gradients of weights of bf16 from two steps of
/// depth with a stride and padding on both sides.
TEST(RandomKernels, LeaveNothingToTheLibraryThatItDoesWrong) {
  Convolution flat;
  flat.channels = 64;
  flat.outputs = 48;
  flat.image = {3, 4};
  flat.window = {3, 3};
  flat.strides = flat.dilations = flat.padHigh = {1, 1};
  flat.padLow = {0, 0};
  flat.result = {2, 3};
  flat.layout = "channels_last";
  flat.algorithm = "winograd";

  Convolution deep;
  deep.channels = 24;
  deep.outputs = 32;
  deep.image = {3, 3, 6};
  deep.window = {3, 3, 2};
  deep.strides = {2, 1, 1};
  deep.dilations = {1, 1, 1};
  deep.padLow = deep.padHigh = {1, 1, 0};
  deep.result = {2, 3, 5};
  deep.layout = "blocked8";
  deep.type = DataType::BF16;
  for (const Convolution &each : {flat, deep})
    for (unsigned seed = 1; seed < 4; ++seed) {
      Choice choice(seed);
      for (const Case &some : makeCases(each, choice))
        check(some, seed);
    }
}

TEST(RandomKernels, PoolRightly) {
  for (unsigned seed = 1, tried = 0; tried < countCases(100); ++seed) {
    Choice choice(seed);
    const Convolution sizes(choice);
    const bool isMean = choice.upTo(1) == 0;
    const Pool pool(sizes, isMean, /*includesPadding=*/choice.upTo(1) == 0);
    if (!pool.isPossible())
      continue;
    ++tried;
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const Case &each : pool.makeCases())
      EXPECT_TRUE(check(each, seed)) << each.keys;
    if (HasFailure())
      return;
  }
}

/// Two steps of depth see the one plane of an image.
TEST(RandomKernels, PoolOnePlaneInTwoSteps) {
  Convolution sizes;
  sizes.samples = 2;
  sizes.channels = 16;
  sizes.image = {1, 3, 4};
  sizes.window = {2, 1, 3};
  sizes.strides = {1, 2, 2};
  sizes.dilations = {1, 1, 1};
  sizes.padLow = sizes.padHigh = {1, 0, 1};
  sizes.result = {2, 2, 2};
  for (const char *layout : {"plain", "channels_last", "blocked8"})
    for (DataType type : {DataType::F32, DataType::BF16}) {
      sizes.layout = layout;
      sizes.type = type;
      const Pool pool(sizes, /*isMean=*/false, /*includesPadding=*/false);
      for (const Case &each : pool.makeCases())
        EXPECT_TRUE(check(each, /*seed=*/1)) << each.keys;
    }
}

TEST(RandomKernels, AttendRightly) {
  for (unsigned seed = 1; seed <= countCases(25); ++seed) {
    Choice choice(seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const Case &each : makeCases(Attention(choice)))
      EXPECT_TRUE(check(each, seed)) << each.keys;
    if (HasFailure())
      return;
  }
}

TEST(RandomKernels, MultiplyRightly) {
  for (unsigned seed = 1; seed <= countCases(150); ++seed) {
    Choice choice(seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Case each = makeProduct(choice);
    EXPECT_TRUE(check(each, seed)) << each.keys;
    if (HasFailure())
      return;
  }
}

} // namespace
