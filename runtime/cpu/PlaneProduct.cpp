//===- PlaneProduct.cpp ---------------------------------------------------===//
#include "cpu/PlaneProduct.h"
#include "cpu/ConvTensors.h"
#include "cpu/Processor.h"
#include "cpu/SharedAxis.h"
#include "cpu/TiledProduct.h"

#include <algorithm>

using namespace pp::runtime;
using Range = KernelBuilder::Range;

namespace {
/// y = weights x for some pixels of a sample.
struct Planes {
  Planes(const ConvShape &whole, ConvDirection direction)
      : isForward(direction == ConvDirection::Forward),
        samples(whole.src.dims()[0]),
        read((isForward ? whole.src : whole.dst).dims()[1]),
        written((isForward ? whole.dst : whole.src).dims()[1]),
        pixels(whole.countPixels() / samples) {}

  /// How many to multiply at a time, so that a cache has the result.
  int64_t pixelsAtOnce() const {
    constexpr int64_t group = 96, numbers = 64 << 10;
    return std::max(numbers / written / group, int64_t(1)) * group;
  }
  TiledProduct makeProduct(int64_t some) const {
    return {{},
            written,
            read,
            some,
            {DataType::F32, isForward ? read : 1, isForward ? 1 : written, {}},
            {DataType::F32, pixels, 1, {}},
            {DataType::F32, pixels, 1, {}},
            /*isAdded=*/false};
  }

  /// What follows the sums of some pixels, from `place` in y on.
  void finish(const ConvEpilogue &epilogue, const ConvSummands &summands,
              int64_t place, int64_t some, float *y) const {
    for (int64_t channel = 0; channel < written; ++channel, place += pixels) {
      if (summands.bias) {
        const float bias = summands.bias[channel];
        for (int64_t i = 0; i < some; ++i)
          y[place + i] += bias;
      }
      epilogue.finish(
          y + place,
          {nullptr, summands.residual ? summands.residual + place : nullptr},
          some);
    }
  }

  bool isForward;
  int64_t samples, read, written, pixels;
};
} // namespace

bool pp::runtime::isPlaneProduct(const ConvShape &whole,
                                 ConvDirection direction) {
  using Desc = KernelBuilder::MemoryDesc;
  constexpr int64_t fewestPixels = 64, fewestChannels = 24;
  auto isPlain = [](const Desc &desc) {
    return desc == KernelBuilder::dense(desc.dims(), KernelBuilder::Type::f32);
  };
  if (hasAvx512() || !TiledProduct::isPossible() || whole.groups != 1 ||
      whole.packedBytes != 0 || !isPlain(whole.src) || !isPlain(whole.dst) ||
      !isPlain(whole.weights))
    return false;
  KernelBuilder::Dims window = whole.weights.dims();
  window.erase(window.begin(), window.begin() + 2);
  const Planes planes(whole, direction);
  return isAll(window, 1) && isAll(whole.strides, 1) &&
         isAll(whole.padLow, 0) && isAll(whole.padHigh, 0) &&
         planes.pixels >= fewestPixels && planes.read >= fewestChannels &&
         planes.written >= fewestChannels;
}

void pp::runtime::buildPlaneProduct(const ConvShape &whole,
                                    ConvDirection direction,
                                    const ConvEpilogue &epilogue,
                                    KernelBuilder &builder) {
  const Planes planes(whole, direction);
  Range samples{0, planes.samples}, pixels{0, planes.pixels};
  if (!builder.isWhole()) {
    const SharedCounts counts{samples.count, /*channels=*/0,
                              pixels.count / panelColumns};
    if (findSharedAxis(counts, /*isChannelsLast=*/true, whole.countPixels(),
                       builder.countParts()) == SharedAxis::Samples)
      samples = builder.share(samples.count);
    else
      pixels = builder.share(pixels.count, panelColumns);
  }
  const int64_t atOnce = std::min(pixels.count, planes.pixelsAtOnce());
  const int64_t left = pixels.count % atOnce;
  const TiledProduct most = planes.makeProduct(atOnce);
  const TiledProduct last = planes.makeProduct(left == 0 ? atOnce : left);
  const int residual = epilogue.hasBias ? 3 : 2;
  const int result = epilogue.hasResidual ? residual + 1 : residual;
  builder.setFunction(
      describeTensors(whole, direction, epilogue),
      [=](void *const *tensors, void *scratchpad) {
        auto at = [&](int tensor) {
          return static_cast<float *>(tensors[tensor]);
        };
        const ConvSummands summands{epilogue.hasBias ? at(2) : nullptr,
                                    epilogue.hasResidual ? at(residual)
                                                         : nullptr};
        const int64_t end = pixels.begin + pixels.count;
        for (int64_t sample = samples.begin;
             sample < samples.begin + samples.count; ++sample)
          for (int64_t first = pixels.begin; first < end; first += atOnce) {
            const Range some{first, std::min(atOnce, end - first)};
            const int64_t place = sample * planes.read * planes.pixels + first;
            const int64_t to = sample * planes.written * planes.pixels + first;
            (some.count == atOnce ? most : last)
                .run(at(1), at(0) + place, at(result) + to, scratchpad);
            if (!epilogue.isEmpty())
              planes.finish(epilogue, summands, to, some.count, at(result));
          }
      },
      std::max(most.getScratchpadBytes(), last.getScratchpadBytes()));
}
