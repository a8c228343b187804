//===- ConvFewPixels.cpp --------------------------------------------------===//
#include "cpu/ConvFewPixels.h"
#include "cpu/ConvTensors.h"
#include "cpu/PackedWeights.h"
#include "cpu/Processor.h"
#include "cpu/TiledProduct.h"

#include <array>
#include <cstring>

using namespace pp::runtime;

using Dims = KernelBuilder::Dims;
using Type = KernelBuilder::Type;

bool pp::runtime::isOfFewPixels(Descriptor &descriptor,
                                KernelBuilder &builder) {
  // As many as a product reads ahead for, and weights that are not in the
  // second cache (measured on Cascade Lake, where the library is faster
  // otherwise).
  constexpr int64_t fewest = 6, most = 60;
  constexpr size_t largeWeights = 1 << 20;
  const ConvShape whole(descriptor, builder, Division::None);
  const Dims weights = whole.weights.dims();
  const int64_t pixels = whole.countPixels();
  return hasAvx512() && TiledProduct::isPreferred(DataType::F32) &&
         whole.groups == 1 && whole.weights.data_type() == Type::f32 &&
         isAll({weights.begin() + 2, weights.end()}, 1) &&
         isAll(whole.padLow, 0) && isAll(whole.padHigh, 0) &&
         weights[0] % panelColumns == 0 && pixels >= fewest && pixels <= most &&
         whole.weights.get_size() >= largeWeights &&
         whole.layout == "channels_last" &&
         whole.src.data_type() == Type::f32 &&
         whole.dst.data_type() == Type::f32;
}

/// The pixels times the outputs of `of`; rows of y have those of the whole.
static TiledProduct makeProduct(const ConvShape &of) {
  const int64_t channels = of.src.dims()[1];
  const ImagePlaces y = KernelBuilder::imagePlaces(of.dst);
  TiledProduct product({}, of.countPixels(), channels, of.outputChannels,
                       {DataType::F32, channels, 1, {}},
                       {DataType::F32, 1, channels, {}},
                       {DataType::F32, y.axes[2], 1, {}}, /*isAdded=*/false);
  if (of.packedBytes != 0)
    product.setPacked();
  return product;
}

uint64_t pp::runtime::measurePackedFewPixels(const ConvShape &of) {
  return makeProduct(of).getPackedBytes();
}

namespace {
/// The pixels that windows with strides see, one after the other.
class Pixels {
public:
  explicit Pixels(const ConvShape &of)
      : places(KernelBuilder::imagePlaces(of.src)), samples(of.src.dims()[0]),
        channels(of.src.dims()[1]),
        result(KernelBuilder::imageAxes(of.dst.dims(), 2, 1)),
        strides(KernelBuilder::imageAxes(of.strides, 0, 1)) {
    const ImageAxes image = KernelBuilder::imageAxes(of.src.dims(), 2, 1);
    areAll = image == result;
  }
  /// Whether all of them are seen, so that there is nothing to copy.
  bool areTogether() const { return areAll; }
  uint64_t bytes() const {
    return areAll ? 0
                  : alignUp(samples * result[0] * result[1] * result[2] *
                            channels * sizeof(float));
  }
  void copy(const float *x, float *to) const {
    for (int64_t sample = 0; sample < samples; ++sample)
      for (int64_t i = 0; i < result[0]; ++i)
        for (int64_t j = 0; j < result[1]; ++j)
          for (int64_t k = 0; k < result[2]; ++k, to += channels)
            std::memcpy(to,
                        x + sample * places.sample +
                            i * strides[0] * places.axes[0] +
                            j * strides[1] * places.axes[1] +
                            k * strides[2] * places.axes[2],
                        channels * sizeof(float));
  }

private:
  ImagePlaces places;
  int64_t samples, channels;
  ImageAxes result, strides;
  bool areAll;
};
} // namespace

void pp::runtime::buildFewPixels(const ConvShape &of,
                                 const ConvEpilogue &epilogue,
                                 KernelBuilder &builder) {
  const TiledProduct product = makeProduct(of);
  if (of.packedBytes != 0)
    demandPacked(product.getPackedBytes(), of.packedBytes);
  const Pixels pixels(of);
  const int64_t rows = of.countPixels(), outputs = of.outputChannels;
  const int64_t pitch = KernelBuilder::imagePlaces(of.dst).axes[2];
  const int bias = 2, residual = epilogue.hasBias ? 3 : 2;
  const int result = epilogue.hasResidual ? residual + 1 : residual;
  const std::array<uint64_t, 3> offsets = {of.weightsOffset, of.biasOffset,
                                           of.dstOffset};
  builder.setFunction(
      describeTensors(of, ConvDirection::Forward, epilogue),
      [=](void *const *tensors, void *scratchpad) {
        auto at = [&](int tensor, uint64_t offset) {
          return reinterpret_cast<float *>(
              static_cast<char *>(tensors[tensor]) + offset);
        };
        const float *x = at(0, 0);
        if (!pixels.areTogether()) {
          pixels.copy(x, static_cast<float *>(scratchpad));
          x = static_cast<float *>(scratchpad);
        }
        float *y = at(result, offsets[2]);
        product.run(x, at(1, offsets[0]), y,
                    static_cast<char *>(scratchpad) + pixels.bytes());
        if (epilogue.isEmpty())
          return;
        for (int64_t row = 0; row < rows; ++row) {
          const ConvSummands summands = {
              epilogue.hasBias ? at(bias, offsets[1]) : nullptr,
              epilogue.hasResidual ? at(residual, offsets[2]) + row * pitch
                                   : nullptr};
          epilogue.finish(y + row * pitch, summands, outputs);
        }
      },
      pixels.bytes() + product.getScratchpadBytes());
}

void pp::runtime::buildPackFewPixels(const ConvShape &of,
                                     KernelBuilder &builder) {
  if (of.packedBytes == 0)
    throw DescriptorError("key 'packed' is missing");
  const TiledProduct product = makeProduct(of);
  demandPacked(product.getPackedBytes(), of.packedBytes);
  builder.setFunction(
      describePacking(of, DataType::F32),
      [product, plain = of.plainWeightsOffset,
       packed = of.weightsOffset](void *const *tensors, void *) {
        product.packColumns(static_cast<const char *>(tensors[0]) + plain,
                            static_cast<char *>(tensors[1]) + packed);
      });
}
