//===- RandomConvolutionTest.cpp - Random convolutions and pools ----------===//
#include "RandomKernels.h"

using namespace pp::runtime;
using namespace pp::runtime::random_kernels;

namespace {

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
  /// Along one axis, with a long window or much padding.
  static Convolution ofSignal(Choice &choice);

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

Convolution Convolution::ofSignal(Choice &choice) {
  Convolution one;
  one.samples = choice.of({1, 1, 2, 3});
  one.channels = choice.of({1, 2, 5, 8, 16, 24, 32, 48});
  one.outputs = choice.of({1, 7, 8, 16, 20, 32, 33, 64});
  if (choice.upTo(3) == 0) {
    one.groups = choice.of({2, 3, 4});
    one.channels = one.groups * choice.of({3, 8, 12, 16});
    one.outputs = one.groups * choice.of({5, 8, 16, 24});
  }
  const int64_t window = choice.of({2, 3, 5, 13, 14, 17, 31, 40});
  const int64_t stride = choice.of({1, 1, 1, 2, 3, 7});
  const int64_t dilation = choice.of({1, 1, 2, 4});
  const int64_t reach = (window - 1) * dilation + 1;
  const int64_t low = choice.upTo(reach - 1), high = choice.upTo(reach - 1);
  const int64_t length = std::max(choice.upTo(150, 1), reach - low);
  const int64_t result = (length + low + high - reach) / stride + 1;
  // Where the last window ends inside, the signal is shorter.
  const int64_t behind = (result - 1) * stride + reach - length - low;
  one.window = {window};
  one.strides = {stride};
  one.dilations = {dilation};
  one.padLow = {low};
  one.padHigh = {std::max<int64_t>(behind, 0)};
  one.image = {length + std::min<int64_t>(behind, 0)};
  one.result = {result};
  one.layout = choice.of<const char *>(
      {"plain", "channels_last", "channels_last", "blocked8", "blocked16"});
  one.type =
      choice.of({DataType::F32, DataType::F32, DataType::F32, DataType::BF16});
  return one;
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
  const bool hasResidual = c.type == DataType::F32 && choice.upTo(2) == 0;
  forward.keys = c.keys("conv_forward", three) +
                 (hasBias ? " bias=1" : " bias=0") +
                 (hasResidual ? " residual=1" : "") + activation;
  if (!hasBias && !hasResidual && *activation == 0)
    forward.pack = "pack_" + forward.keys;
  forward.resultType = c.type;
  const int residual = hasBias ? 3 : 2;
  forward.result = hasResidual ? residual + 1 : residual;
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
      for (int64_t at = 0; hasResidual && at < ofY; ++at)
        y[at].add(static_cast<const float *>(tensors[residual])[at]);
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

/// `choose` makes the sizes of each.
template <typename Choose> static void checkConvolutions(const Choose &choose) {
  constexpr int64_t mostTerms = 2'000'000;
  unsigned made = 0, tried = 0;
  for (unsigned seed = 1; tried < countCases(60); ++seed) {
    Choice choice(seed);
    const Convolution sizes = choose(choice);
    if (sizes.samples * countOf(sizes.result) * countOf(sizes.weightSizes()) >
        mostTerms)
      continue;
    ++tried;
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const Case &each : makeCases(sizes, choice))
      made += check(each, seed);
    if (testing::Test::HasFailure())
      return;
  }
  // Some activations of bf16 are not made on some processors.
  EXPECT_GT(made, 2 * tried);
}

TEST(RandomKernels, ConvolveRightly) {
  checkConvolutions([](Choice &choice) { return Convolution(choice); });
}

TEST(RandomKernels, ConvolveSignalsRightly) {
  checkConvolutions(Convolution::ofSignal);
}

/// Weights of a megabyte for few pixels, with all kinds of epilogues, and the
/// gradients of the images.
TEST(RandomKernels, ConvolveFewPixels) {
  Convolution one;
  one.channels = 512;
  one.outputs = 528;
  one.image = one.result = {3, 2};
  one.window = one.strides = one.dilations = {1, 1};
  one.padLow = one.padHigh = {0, 0};
  one.layout = "channels_last";

  Convolution some = one;
  some.samples = 2;
  some.image = {4, 3};
  some.strides = {2, 2};
  some.result = {2, 2};

  Convolution windows;
  windows.channels = 160;
  windows.outputs = 192;
  windows.samples = 2;
  windows.image = {3, 2};
  windows.result = {3, 3};
  windows.window = {3, 3};
  windows.strides = {1, 1};
  windows.dilations = {1, 1};
  windows.padLow = {1, 2};
  windows.padHigh = {1, 1};
  windows.layout = "blocked16";

  Convolution apart = windows;
  apart.layout = "channels_last";
  apart.samples = 1;
  apart.image = {7, 6};
  apart.strides = {2, 1};
  apart.dilations = {1, 3};
  apart.padLow = {0, 3};
  apart.padHigh = {0, 2};
  apart.result = {3, 5};

  Convolution line;
  line.channels = 80;
  line.outputs = 176;
  line.image = line.result = {9};
  line.window = {20};
  line.strides = line.dilations = {1};
  line.padLow = {9};
  line.padHigh = {10};
  line.layout = "channels_last";

  Convolution blocks = one;
  blocks.layout = "blocked16";

  unsigned made = 0;
  for (unsigned seed = 1; seed < 5; ++seed)
    for (const Convolution &each : {one, some, windows, apart, line, blocks}) {
      Choice choice(seed);
      const std::vector<Case> cases = makeCases(each, choice);
      made += check(cases[0], seed);
      made += check(cases[1], seed);
    }
  EXPECT_EQ(made, 48u);
}

/// Convolutions and their gradients, of f32 and of bf16.
void checkInAllLayouts(const std::vector<Convolution> &all, unsigned seeds = 4,
                       const std::vector<const char *> &layouts = {
                           "plain", "channels_last", "blocked16"}) {
  unsigned made = 0;
  for (unsigned seed = 1; seed <= seeds; ++seed)
    for (Convolution each : all)
      for (const char *layout : layouts) {
        Choice choice(seed);
        each.layout = layout;
        each.type = seed % 2 == 0 ? DataType::F32 : DataType::BF16;
        for (const Case &one : makeCases(each, choice))
          made += check(one, seed);
      }
  // Some activations of bf16 are not made on some processors.
  EXPECT_GE(made, 2 * seeds * all.size() * layouts.size());
}

/// Large windows over one channel, for which the library has nothing but loops,
/// or over few, for which it has a product with as many rows.
TEST(RandomKernels, ConvolveFewChannels) {
  Convolution signal;
  signal.outputs = 3;
  signal.image = signal.result = {1000};
  signal.window = {97};
  signal.strides = signal.dilations = {1};
  signal.padLow = signal.padHigh = {48};

  Convolution picture;
  picture.image = picture.result = {20, 12};
  picture.window = {15, 14};
  picture.strides = picture.dilations = {1, 1};
  picture.padLow = {7, 6};
  picture.padHigh = {7, 7};

  Convolution three = picture;
  three.outputs = 3;

  Convolution holes = three;
  holes.image = {20, 23};
  holes.result = {20, 10};
  holes.dilations = {1, 2};

  Convolution four = signal;
  four.channels = four.outputs = 4;
  four.image = {120};
  four.window = {20};
  four.strides = {2};
  four.padLow = {20};
  four.padHigh = {0};
  four.result = {61};

  Convolution eight = picture;
  eight.channels = eight.outputs = 8;
  eight.image = eight.result = {13, 21};
  eight.window = {3, 17};
  eight.padLow = {1, 8};
  eight.padHigh = {1, 8};

  checkInAllLayouts({signal, picture, three, holes, four, eight});
}

/// Windows that move by more than a pixel over many channels.
TEST(RandomKernels, ConvolveManyChannelsWithStrides) {
  Convolution picture;
  picture.channels = 64;
  picture.outputs = 32;
  picture.samples = 2;
  picture.image = {9, 13};
  picture.window = {3, 3};
  picture.strides = {2, 2};
  picture.dilations = {1, 1};
  picture.padLow = picture.padHigh = {1, 1};
  picture.result = {5, 7};

  Convolution volume = picture;
  volume.samples = 1;
  volume.outputs = 16;
  volume.image = {4, 6, 7};
  volume.window = {2, 2, 2};
  volume.strides = {1, 2, 2};
  volume.dilations = {1, 1, 1};
  volume.padLow = {0, 0, 1};
  volume.padHigh = {1, 0, 0};
  volume.result = {4, 3, 4};

  checkInAllLayouts({picture, volume}, /*seeds=*/2,
                    {"channels_last", "blocked8", "blocked16"});
}

/// Images of one pixel, as behind a mean over all of them, and products of few
/// columns.
TEST(RandomKernels, ConvolveSinglePlaces) {
  Convolution one;
  one.channels = 72;
  one.outputs = 48;
  one.image = one.result = {1, 1};
  one.window = one.strides = one.dilations = {1, 1};
  one.padLow = one.padHigh = {0, 0};

  Convolution few = one;
  few.samples = 3;
  few.channels = 128;
  few.outputs = 160;

  Convolution many = one;
  many.samples = 70;
  many.strides = {2, 2};
  many.outputs = 36;

  // Few outputs, of more rows than are multiplied at once.
  Convolution narrow = one;
  narrow.samples = 2;
  narrow.channels = 96;
  narrow.outputs = 24;
  narrow.image = narrow.result = {19, 23};

  checkInAllLayouts({one, few, many, narrow}, /*seeds=*/4,
                    {"plain", "channels_last", "blocked8", "blocked16"});
}

/// Groups of a few vectors of channels, some rows of them at a time.
TEST(RandomKernels, ConvolveGroupsOfVectors) {
  Convolution eights;
  eights.groups = 3;
  eights.channels = eights.outputs = 24;
  eights.samples = 2;
  eights.image = eights.result = {29, 31};
  eights.window = {3, 3};
  eights.strides = eights.dilations = {1, 1};
  eights.padLow = eights.padHigh = {1, 1};

  Convolution wide = eights;
  wide.groups = 2;
  wide.channels = 32;
  wide.outputs = 48;
  wide.samples = 1;
  wide.image = {33, 29};
  wide.window = {3, 2};
  wide.strides = {2, 3};
  wide.dilations = {1, 2};
  wide.padLow = {1, 0};
  wide.padHigh = {0, 1};
  wide.result = {16, 10};

  // Most pixels of x are seen by none.
  Convolution single = eights;
  single.samples = 1;
  single.channels = 48;
  single.image = {8, 7};
  single.window = {1, 1};
  single.strides = {3, 2};
  single.padLow = {0, 0};
  single.padHigh = {0, 0};
  single.result = {3, 4};

  Convolution signal = eights;
  signal.channels = 72;
  signal.image = {40};
  signal.window = {5};
  signal.strides = {2};
  signal.dilations = {1};
  signal.padLow = {2};
  signal.padHigh = {1};
  signal.result = {20};

  // Less than a stride: no pixel of x is seen by the first and last rows.
  Convolution thin = eights;
  thin.image = {1, 9};
  thin.strides = {2, 2};
  thin.result = {1, 5};

  // A single group in a large image.
  Convolution alone = eights;
  alone.groups = alone.samples = 1;
  alone.channels = 32;
  alone.outputs = 40;
  alone.image = {57, 29};
  alone.strides = {2, 1};
  alone.result = {29, 29};

  Convolution patches = alone;
  patches.outputs = 32;
  patches.image = {56, 56};
  patches.result = {28, 28};
  patches.window = patches.strides = {2, 2};
  patches.padLow = patches.padHigh = {0, 0};

  unsigned made = 0, seed = 0;
  for (Convolution each : {eights, wide, single, signal, thin, alone, patches})
    for (const char *layout : {"channels_last", "blocked8"}) {
      Choice choice(++seed);
      each.layout = layout;
      for (const Case &one : makeCases(each, choice))
        made += check(one, seed);
    }
  EXPECT_EQ(made, 42u);
}

/// Windows that reach farther than the library's generated code.
TEST(RandomKernels, ConvolveFarWindows) {
  Convolution large;
  large.channels = 3;
  large.outputs = 16;
  large.image = {40, 37};
  large.window = {11, 10};
  large.strides = {4, 3};
  large.dilations = {1, 1};
  large.padLow = {2, 3};
  large.padHigh = {3, 2};
  large.result = {9, 11};

  Convolution apart;
  // Most pixels see nothing but padding at most places.
  apart.channels = 64;
  apart.outputs = 16;
  apart.image = apart.result = {9, 11};
  apart.window = {3, 3};
  apart.strides = {1, 1};
  apart.dilations = {8, 5};
  apart.padLow = apart.padHigh = {8, 5};

  Convolution few = apart;
  few.channels = 32;
  few.image = few.result = {4, 5};
  few.samples = 3;

  // The gradient of the weights, too, place by place.
  Convolution many = apart;
  many.channels = 32;
  many.image = many.result = {23, 24};
  many.dilations = {17, 15};
  many.padLow = many.padHigh = {17, 15};

  checkInAllLayouts({large, apart, few, many}, /*seeds=*/2,
                    {"channels_last", "blocked8", "blocked16"});
}

/// Of a single image, gradients are made in pieces of channels, which threads
/// share as they share groups and outputs.
TEST(RandomKernels, ConvolveOneImage) {
  Convolution pixels;
  pixels.channels = 136;
  pixels.outputs = 64;
  pixels.image = pixels.result = {12, 11};
  pixels.window = pixels.strides = pixels.dilations = {1, 1};
  pixels.padLow = pixels.padHigh = {0, 0};

  // The gradient is plain, what it is made from has blocks; and the reverse.
  Convolution mixed = pixels;
  mixed.channels = 36;
  mixed.outputs = 96;
  mixed.image = mixed.result = {24, 13};
  Convolution reverse = mixed;
  std::swap(reverse.channels, reverse.outputs);

  Convolution windows;
  windows.channels = 18;
  windows.outputs = 34;
  windows.image = {15, 24};
  windows.window = {3, 3};
  windows.strides = {2, 1};
  windows.dilations = {1, 1};
  windows.padLow = windows.padHigh = {1, 1};
  windows.result = {8, 24};

  Convolution depthwise = windows;
  depthwise.channels = depthwise.outputs = depthwise.groups = 48;
  Convolution grouped = windows;
  grouped.channels = grouped.outputs = 64;
  grouped.groups = 4;
  checkInAllLayouts({pixels, mixed, reverse, windows, depthwise, grouped},
                    /*seeds=*/2,
                    {"plain", "channels_last", "blocked8", "blocked16"});
}

/// Of single channels, which have rows of their own where those of all channels
/// of a pixel are long.
TEST(RandomKernels, ConvolveLongRowsOfChannels) {
  Convolution wide;
  wide.samples = 2;
  wide.groups = wide.channels = wide.outputs = 52;
  wide.image = {25, 31};
  wide.window = {5, 3};
  wide.strides = {1, 2};
  wide.dilations = {2, 1};
  wide.padLow = {4, 1};
  wide.padHigh = {4, 0};
  wide.result = {25, 15};

  Convolution large;
  large.groups = large.channels = large.outputs = 132;
  large.image = {70, 45};
  large.window = {2, 2};
  large.strides = large.dilations = {1, 1};
  large.padLow = {1, 0};
  large.padHigh = {0, 0};
  large.result = {70, 44};
  checkInAllLayouts({wide, large}, /*seeds=*/2, {"channels_last"});
}

/// Planes of pixels as they lie, more and fewer than are multiplied at a time.
TEST(RandomKernels, ConvolveSinglePlacesOfPlanes) {
  Convolution pixels;
  pixels.samples = 2;
  pixels.channels = 45;
  pixels.outputs = 37;
  pixels.image = pixels.result = {13, 7};
  pixels.window = pixels.strides = pixels.dilations = {1, 1};
  pixels.padLow = pixels.padHigh = {0, 0};

  Convolution many = pixels;
  many.samples = 1;
  many.channels = 28;
  many.outputs = 401;
  many.image = many.result = {31, 9};

  Convolution deep = pixels;
  deep.image = deep.result = {3, 5, 9};
  deep.window = deep.strides = deep.dilations = {1, 1, 1};
  deep.padLow = deep.padHigh = {0, 0, 0};
  checkInAllLayouts({pixels, many, deep}, /*seeds=*/4, {"plain", "blocked8"});
}

/// A single place along the last axis, or the last two.
TEST(RandomKernels, ConvolveColumns) {
  Convolution column;
  column.samples = 2;
  column.channels = 32;
  column.outputs = 48;
  column.image = {21, 1};
  column.window = {5, 1};
  column.strides = {2, 3};
  column.dilations = {2, 1};
  column.padLow = {4, 0};
  column.padHigh = {2, 0};
  column.result = {10, 1};

  Convolution deep = column;
  deep.image = {4, 1, 1};
  deep.window = {3, 1, 1};
  deep.strides = deep.dilations = {1, 1, 1};
  deep.padLow = deep.padHigh = {1, 0, 0};
  deep.result = {4, 1, 1};

  Convolution alone = column;
  alone.groups = alone.channels = alone.outputs = 32;

  checkInAllLayouts({column, deep, alone});
}

/// Gradients of a megabyte of weights, which are one product.
TEST(RandomKernels, DeriveManyWeightsFromFewPixels) {
  Convolution one;
  one.samples = 2;
  one.channels = one.outputs = 512;
  one.image = {3, 5};
  one.result = {2, 3};
  one.window = one.dilations = {1, 1};
  one.strides = {2, 2};
  one.padLow = one.padHigh = {0, 0};

  Convolution nine = one;
  nine.channels = 64;
  nine.outputs = 464;
  nine.image = nine.result;
  nine.window = {3, 3};
  nine.strides = nine.padLow = nine.padHigh = {1, 1};

  for (const char *layout : {"plain", "channels_last", "blocked16"})
    for (DataType type : {DataType::F32, DataType::BF16})
      for (Convolution sizes : {one, nine}) {
        sizes.layout = layout;
        sizes.type = type;
        Choice choice(1);
        const Case gradient = makeCases(sizes, choice)[2];
        EXPECT_TRUE(check(gradient, /*seed=*/1)) << gradient.keys;
      }
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

} // namespace
