//===- SignalConvolution.cpp ----------------------------------------------===//
#include "cpu/SignalConvolution.h"
#include "cpu/ConvTensors.h"
#include "plan/ShortFloat.h"

#include <algorithm>
#include <type_traits>

using namespace pp::runtime;

using Range = KernelBuilder::Range;
using Type = KernelBuilder::Type;

//===----------------------------------------------------------------------===//
// What windows see
//===----------------------------------------------------------------------===//

static float widen(float value) { return value; }
static float widen(uint16_t value) { return fromBF16(value); }
static void narrow(float value, float &to) { to = value; }
static void narrow(float value, uint16_t &to) { to = toBF16(value); }

/// Copies numbers as f32; returns their end.
template <typename Element>
static float *widenAll(const Element *from, int64_t count, float *to) {
  return std::transform(from, from + count, to,
                        [](Element value) { return widen(value); });
}

/// The same of a matrix, whose rows become columns `toColumn` apart.
template <typename Element>
static void widenTransposed(const Element *from, int64_t rowStride,
                            int64_t columnStride, int64_t rows, int64_t columns,
                            float *to, int64_t toColumn) {
  if constexpr (std::is_same_v<Element, float>)
    return TiledProduct::transpose({from, rowStride, columnStride}, rows,
                                   columns, to, toColumn);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      to[column * toColumn + row] =
          widen(from[row * rowStride + column * columnStride]);
}

bool SignalRows::isPreferred(const ConvShape &whole) {
  const Type type = whole.src.data_type();
  if (!TiledProduct::isPossible() || whole.strides.size() != 1 ||
      whole.packedBytes != 0 || whole.tileEdge != 0 ||
      whole.algorithm != dnnl::algorithm::convolution_direct ||
      (type != Type::f32 && type != Type::bf16) ||
      whole.dst.data_type() != type ||
      (whole.strides[0] != 1 && whole.dilations[0] != 0))
    return false;
  auto fillsBlocks = [&](const KernelBuilder::MemoryDesc &desc) {
    const int64_t block = KernelBuilder::imagePlaces(desc).blockChannels;
    return desc.dims()[1] / whole.groups % block == 0;
  };
  return fillsBlocks(whole.src) && fillsBlocks(whole.dst) &&
         !whole.isReliable(/*isWeightGradient=*/false);
}

SignalRows::SignalRows(const ConvShape &whole, ConvDirection direction)
    : samples(whole.src.dims()[0]),
      isShort(whole.src.data_type() == Type::bf16),
      window(whole.weights.dims().back()), groups(whole.groups) {
  auto signalOf = [&](const KernelBuilder::MemoryDesc &desc) {
    Signal signal{desc.dims()[2], desc.dims()[1] / groups,
                  KernelBuilder::imagePlaces(desc)};
    // Of one channel, all layouts are the same.
    if (desc.dims()[1] == 1)
      signal.places.block = signal.places.blockChannels = 1;
    return signal;
  };
  const int64_t stride = whole.strides[0], distance = whole.dilations[0] + 1;
  const int64_t padding = whole.padLow[0];
  const int64_t ofOutput = whole.src.dims()[1] / groups * window;
  const bool isForward = direction == ConvDirection::Forward;
  from = signalOf(isForward ? whole.src : whole.dst);
  to = signalOf(isForward ? whole.dst : whole.src);
  writtenStride = isForward ? ofOutput : window;
  readStride = isForward ? window : ofOutput;
  advance = isForward ? stride : 1;
  outStep = isForward ? distance : std::max(stride, distance);
  // Of dX, each `stride` places see other taps.
  const bool areDivided = !isForward && stride > 1;
  taps.resize(areDivided ? stride : 1);
  for (int64_t tap = 0; tap < window; ++tap)
    taps[tap % taps.size()].push_back(tap);
  // dX at p sees dY at (p + padding - distance * tap) / stride.
  if (!isForward)
    for (std::vector<int64_t> &each : taps)
      std::reverse(each.begin(), each.end());
  for (int64_t rest = 0; rest < outStep && rest < to.length; ++rest) {
    Work work{rest, (to.length - rest + outStep - 1) / outStep, rest - padding,
              distance, /*taps=*/0};
    if (!isForward) {
      work.taps = static_cast<size_t>(rest + padding) % taps.size();
      const std::vector<int64_t> &own = taps[work.taps];
      if (!own.empty())
        work.base = areDivided ? (rest + padding - own.front()) / stride
                               : rest + padding - distance * own.front();
    }
    works.push_back(work);
  }
}

int64_t SignalRows::rowsAtOnce() const {
  constexpr int64_t numbers = 48 << 10, fewest = 96;
  const int64_t longest = (window + outStep - 1) / outStep;
  const int64_t ofRead = numbers / from.channels / advance - longest;
  const int64_t ofWritten = numbers / to.channels / outStep;
  return std::min(works.front().count,
                  std::max(std::min(ofRead, ofWritten), fewest));
}

int64_t SignalRows::mostRead() const {
  int64_t most = 0;
  for (const Work &work : works)
    most = std::max(most, countRead(work, std::min(rowsAtOnce(), work.count)));
  return most;
}

template <typename Element>
void SignalRows::read(const Element *sample, const Work &work, int64_t firstRow,
                      int64_t rows, float *copy) const {
  const int64_t begin = work.base + firstRow * advance * work.inStep;
  const int64_t count = countRead(work, rows) / from.channels;
  // Those inside of the signal: [low, high).
  const int64_t step = work.inStep;
  const int64_t low =
      std::clamp<int64_t>(begin < 0 ? (step - 1 - begin) / step : 0, 0, count);
  const int64_t high = std::clamp<int64_t>(
      begin < from.length ? (from.length - 1 - begin) / step + 1 : 0, low,
      count);
  const ImagePlaces &places = from.places;
  const int64_t pixel = places.axes[2] * step;
  const Element *first = sample + (begin + low * step) * places.axes[2];
  float *to = copy + low * from.channels;
  std::fill(copy, to, 0.0F);
  std::fill(copy + high * from.channels, copy + count * from.channels, 0.0F);
  const int64_t block =
      places.isChannelsLast() ? from.channels : places.blockChannels;
  if (block == 1)
    return widenTransposed(first, places.block, pixel, from.channels,
                           high - low, to, from.channels);
  for (int64_t i = low; i < high; ++i, first += pixel)
    for (int64_t channel = 0; channel < from.channels; channel += block)
      to = widenAll(first + from.places.offsetOfChannel(channel), block, to);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

bool SignalConvolution::isPreferred(const ConvShape &whole,
                                    ConvDirection direction) {
  constexpr int64_t fewest = 8;
  const bool isForward = direction == ConvDirection::Forward;
  return SignalRows::isPreferred(whole) &&
         whole.weights.data_type() == whole.src.data_type() &&
         (isForward ? whole.dst : whole.src).dims()[1] / whole.groups >= fewest;
}

SignalConvolution::SignalConvolution(const ConvShape &whole,
                                     ConvDirection direction,
                                     const Share &share)
    : rows(whole, direction), samples(share.samples), groups(share.groups),
      channels(share.channels) {}

int64_t SignalConvolution::countPacked(const std::vector<int64_t> &taps) const {
  const int64_t panels = (channels.count + panelColumns - 1) / panelColumns;
  return panels * panelColumns * static_cast<int64_t>(taps.size()) *
         rows.from.channels;
}

int64_t SignalConvolution::countPacked() const {
  int64_t count = 0;
  for (const std::vector<int64_t> &taps : rows.taps)
    count += countPacked(taps);
  return count;
}

TiledProduct SignalConvolution::makeProduct(const Work &work,
                                            int64_t count) const {
  const int64_t terms = rows.countTaps(work) * rows.from.channels;
  TiledProduct product(
      {}, count, terms, channels.count,
      {DataType::F32, rows.advance * rows.from.channels, 1, {}},
      {DataType::F32, panelColumns, 1, {}},
      {DataType::F32, rows.outStep * pitch(), 1, {}},
      /*isAdded=*/false);
  product.setPacked();
  return product;
}

template <typename Element>
void SignalConvolution::packWeights(const Element *weights, float *turned,
                                    float *to) const {
  const int64_t read = rows.from.channels;
  std::fill_n(turned, rows.window * panelColumns, 0.0F);
  for (int64_t first = 0; first < channels.count; first += panelColumns) {
    const int64_t count = std::min(panelColumns, channels.count - first);
    // What the panel before had in its last lanes.
    if (count < panelColumns)
      std::fill_n(turned, rows.window * panelColumns, 0.0F);
    for (int64_t channel = 0; channel < read; ++channel) {
      widenTransposed(weights + (channels.begin + first) * rows.writtenStride +
                          channel * rows.readStride,
                      rows.writtenStride, /*columnStride=*/1, count,
                      rows.window, turned, panelColumns);
      float *begin = to;
      for (const std::vector<int64_t> &taps : rows.taps) {
        const auto size = static_cast<int64_t>(taps.size());
        float *panel = begin + first * size * read + channel * panelColumns;
        for (int64_t tap : taps) {
          std::copy_n(turned + tap * panelColumns, panelColumns, panel);
          panel += read * panelColumns;
        }
        begin += countPacked(taps);
      }
    }
  }
}

template <typename Element>
void SignalConvolution::writePlaces(int64_t first, int64_t count,
                                    const ConvEpilogue &epilogue,
                                    const ConvSummands &summands,
                                    float *product, Element *y) const {
  const ImagePlaces &places = rows.to.places;
  const bool isPlain = places.blockChannels == 1 && !places.isChannelsLast();
  const int64_t all = channels.count;
  const int64_t atOnce = places.isChannelsLast() ? all : places.blockChannels;
  Element *own = y + first * places.axes[2];
  // Of all channels at a time, but for what lies as the result does.
  const bool isLate = summands.residual != nullptr;
  if (!epilogue.isEmpty() && !isWrittenInPlace() && !isLate)
    for (int64_t place = 0; place < count; ++place)
      epilogue.finish(
          product + place * all,
          {summands.bias ? summands.bias + channels.begin : nullptr}, all);
  if (isPlain && std::is_same_v<Element, float>)
    TiledProduct::transpose({product, all, 1}, count, all,
                            reinterpret_cast<float *>(own) +
                                channels.begin * places.block,
                            places.block);
  else if (!isWrittenInPlace())
    for (int64_t place = 0; place < count; ++place)
      for (int64_t channel = 0; channel < all; channel += atOnce) {
        Element *to = own + place * places.axes[2] +
                      places.offsetOfChannel(channels.begin + channel);
        for (int64_t i = 0; i < atOnce; ++i)
          narrow(product[place * all + channel + i], to[i]);
      }
  if constexpr (std::is_same_v<Element, float>) {
    if (epilogue.isEmpty() || !(isWrittenInPlace() || isLate))
      return;
    for (int64_t place = 0; place < count; ++place)
      for (int64_t channel = channels.begin; channel < channels.begin + all;
           channel += atOnce) {
        float *numbers =
            own + place * places.axes[2] + places.offsetOfChannel(channel);
        epilogue.finish(numbers,
                        {summands.bias ? summands.bias + channel : nullptr,
                         isLate ? summands.residual + (numbers - y) : nullptr},
                        atOnce);
      }
  }
}

namespace {
/// Of the scratchpad, in numbers.
struct Places {
  uint64_t copy = 0, weights = 0, result = 0, product = 0;

  uint64_t bytes() const {
    uint64_t sum = 0;
    for (uint64_t numbers : {copy, weights, result})
      sum += alignUp(numbers * sizeof(float));
    return sum + product;
  }
};
} // namespace

static float *behind(float *begin, int64_t numbers) {
  return reinterpret_cast<float *>(reinterpret_cast<char *>(begin) +
                                   alignUp(numbers * sizeof(float)));
}

uint64_t SignalConvolution::getScratchpadBytes() const {
  const int64_t atOnce = rows.rowsAtOnce();
  Places places;
  places.copy = rows.mostRead() + rows.window * panelColumns;
  places.weights = countPacked();
  if (!isWrittenInPlace())
    places.result = atOnce * rows.outStep * channels.count;
  for (const Work &work : rows.works)
    for (int64_t count : {std::min(atOnce, work.count), work.count % atOnce})
      if (count > 0 && rows.countTaps(work) > 0)
        places.product = std::max(
            places.product, makeProduct(work, count).getScratchpadBytes());
  return places.bytes();
}

void SignalConvolution::run(const void *x, const void *weights,
                            const ConvEpilogue &epilogue,
                            const ConvSummands &summands, void *y,
                            void *scratchpad) const {
  auto runFor = [&]<typename Element>(const Element *from) {
    for (int64_t group = groups.begin; group < groups.begin + groups.count;
         ++group) {
      const int64_t ofY = rows.to.offsetOfGroup(group);
      ConvSummands own = summands;
      if (own.bias)
        own.bias += group * rows.to.channels;
      if (own.residual)
        own.residual += ofY;
      runAs(from + rows.from.offsetOfGroup(group),
            static_cast<const Element *>(weights) + group * rows.countWeights(),
            epilogue, own, static_cast<Element *>(y) + ofY, scratchpad);
    }
  };
  if (rows.isShort)
    return runFor(static_cast<const uint16_t *>(x));
  runFor(static_cast<const float *>(x));
}

template <typename Element>
void SignalConvolution::runAs(const Element *x, const Element *weights,
                              const ConvEpilogue &epilogue,
                              const ConvSummands &summands, Element *y,
                              void *scratchpad) const {
  const int64_t atOnce = rows.rowsAtOnce();
  auto *copy = static_cast<float *>(scratchpad);
  float *const packed =
      behind(copy, rows.mostRead() + rows.window * panelColumns);
  float *const result = behind(packed, countPacked());
  float *const own =
      isWrittenInPlace()
          ? result
          : behind(result, atOnce * rows.outStep * channels.count);
  packWeights(weights, copy, packed);
  std::vector<const float *> weightsOf;
  const float *next = packed;
  for (const std::vector<int64_t> &taps : rows.taps) {
    weightsOf.push_back(next);
    next += countPacked(taps);
  }
  for (int64_t sample = samples.begin; sample < samples.begin + samples.count;
       ++sample) {
    const Element *from = x + sample * rows.from.places.sample;
    Element *to = y + sample * rows.to.places.sample;
    ConvSummands some = summands;
    if (some.residual)
      some.residual += to - y;
    for (int64_t first = 0; first < rows.works.front().count; first += atOnce) {
      const int64_t place = first * rows.outStep;
      float *target = result;
      if constexpr (std::is_same_v<Element, float>)
        if (isWrittenInPlace())
          target = to + place * pitch() + channels.begin;
      for (const Work &work : rows.works) {
        const int64_t count = std::min(atOnce, work.count - first);
        float *into = target + work.first * pitch();
        if (count <= 0)
          continue;
        if (rows.countTaps(work) == 0) {
          for (int64_t row = 0; row < count; ++row)
            std::fill_n(into + row * rows.outStep * pitch(), channels.count,
                        0.0F);
          continue;
        }
        rows.read(from, work, first, count, copy);
        makeProduct(work, count).run(copy, weightsOf[work.taps], into, own);
      }
      const int64_t count =
          std::min(atOnce * rows.outStep, rows.to.length - place);
      writePlaces(place, count, epilogue, some, result, to);
    }
  }
}

//===----------------------------------------------------------------------===//
// Gradients of weights
//===----------------------------------------------------------------------===//

SignalGradient::SignalGradient(const ConvShape &whole, Range groups,
                               Range outputs)
    : rows(whole, ConvDirection::Forward), groups(groups), outputs(outputs),
      isAdded(whole.isAdded) {}

TiledProduct SignalGradient::makeProduct(int64_t count, bool isFirst) const {
  const int64_t columns = rows.window * rows.from.channels;
  return TiledProduct({}, outputs.count, count, columns,
                      {DataType::F32, 1, outputs.count, {}},
                      {DataType::F32, rows.advance * rows.from.channels, 1, {}},
                      {DataType::F32, columns, 1, {}}, !isFirst);
}

template <typename Element>
void SignalGradient::readOutputs(const Element *dy, const Work &work,
                                 int64_t first, int64_t count,
                                 float *copy) const {
  const ImagePlaces &places = rows.to.places;
  const int64_t pixel = rows.outStep * places.axes[2];
  const Element *from =
      dy + (work.first + first * rows.outStep) * places.axes[2];
  const int64_t block =
      places.isChannelsLast() ? outputs.count : places.blockChannels;
  if (block == 1)
    return widenTransposed(from + outputs.begin * places.block, places.block,
                           pixel, outputs.count, count, copy, outputs.count);
  for (int64_t row = 0; row < count; ++row, from += pixel)
    for (int64_t channel = 0; channel < outputs.count; channel += block)
      copy = widenAll(from + places.offsetOfChannel(outputs.begin + channel),
                      block, copy);
}

uint64_t SignalGradient::getScratchpadBytes() const {
  const int64_t atOnce = rows.rowsAtOnce();
  Places places;
  places.copy = rows.mostRead();
  places.weights = outputs.count * rows.window * rows.from.channels;
  places.result = atOnce * outputs.count;
  for (const Work &work : rows.works)
    for (int64_t count : {std::min(atOnce, work.count), work.count % atOnce})
      if (count > 0)
        places.product = std::max(
            places.product,
            makeProduct(count, /*isFirst=*/false).getScratchpadBytes());
  return places.bytes();
}

void SignalGradient::run(const void *x, const void *dy, float *gradient,
                         void *scratchpad) const {
  auto runFor = [&]<typename Element>(const Element *from) {
    for (int64_t group = groups.begin; group < groups.begin + groups.count;
         ++group)
      runAs(from + rows.from.offsetOfGroup(group),
            static_cast<const Element *>(dy) + rows.to.offsetOfGroup(group),
            gradient + group * rows.countWeights(), scratchpad);
  };
  if (rows.isShort)
    return runFor(static_cast<const uint16_t *>(x));
  runFor(static_cast<const float *>(x));
}

template <typename Element>
void SignalGradient::runAs(const Element *x, const Element *dy, float *gradient,
                           void *scratchpad) const {
  const int64_t channels = rows.from.channels;
  const int64_t ofOutput = rows.window * channels;
  const int64_t atOnce = rows.rowsAtOnce();
  auto *copy = static_cast<float *>(scratchpad);
  float *const sums = behind(copy, rows.mostRead());
  float *const outs = behind(sums, outputs.count * ofOutput);
  float *const own = behind(outs, atOnce * outputs.count);
  bool isFirst = true;
  for (int64_t sample = 0; sample < rows.samples; ++sample)
    for (const Work &work : rows.works)
      for (int64_t first = 0; first < work.count; first += atOnce) {
        const int64_t count = std::min(atOnce, work.count - first);
        rows.read(x + sample * rows.from.places.sample, work, first, count,
                  copy);
        readOutputs(dy + sample * rows.to.places.sample, work, first, count,
                    outs);
        makeProduct(count, isFirst).run(outs, copy, sums, own);
        isFirst = false;
      }
  // Places of the window are behind the channels.
  for (int64_t output = 0; output < outputs.count; ++output) {
    float *to = gradient + (outputs.begin + output) * ofOutput;
    const float *from = sums + output * ofOutput;
    for (int64_t channel = 0; channel < channels; ++channel)
      for (int64_t tap = 0; tap < rows.window; ++tap, ++to) {
        const float sum = from[tap * channels + channel];
        *to = isAdded ? *to + sum : sum;
      }
  }
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Leaves a part of the groups, or of the channels of a single one: whole
/// vectors.
static void shareChannels(Range &groups, Range &channels,
                          KernelBuilder &builder) {
  if (groups.count > 1)
    groups = builder.share(groups.count);
  else
    channels = builder.share(channels.count, panelColumns);
}

void pp::runtime::buildSignalConvolution(const ConvShape &whole,
                                         ConvDirection direction,
                                         const ConvEpilogue &epilogue,
                                         KernelBuilder &builder) {
  const bool isForward = direction == ConvDirection::Forward;
  const int64_t channels = (isForward ? whole.dst : whole.src).dims()[1];
  SignalConvolution::Share share{{0, whole.src.dims()[0]},
                                 {0, whole.groups},
                                 {0, channels / whole.groups}};
  if (!builder.isWhole() && share.samples.count >= builder.countParts())
    share.samples = builder.share(share.samples.count);
  else if (!builder.isWhole())
    shareChannels(share.groups, share.channels, builder);
  const SignalConvolution convolution(whole, direction, share);
  const int residual = epilogue.hasBias ? 3 : 2;
  const int result = epilogue.hasResidual ? residual + 1 : residual;
  builder.setFunction(
      describeTensors(whole, direction, epilogue),
      [=](void *const *tensors, void *scratchpad) {
        auto summand = [&](bool isThere, int tensor) {
          return isThere ? static_cast<const float *>(tensors[tensor])
                         : nullptr;
        };
        convolution.run(tensors[0], tensors[1], epilogue,
                        {summand(epilogue.hasBias, 2),
                         summand(epilogue.hasResidual, residual)},
                        tensors[result], scratchpad);
      },
      convolution.getScratchpadBytes());
}

void pp::runtime::buildSignalGradient(const ConvShape &whole,
                                      KernelBuilder &builder) {
  Range groups{0, whole.groups};
  Range outputs{0, whole.outputChannels / whole.groups};
  if (!builder.isWhole())
    shareChannels(groups, outputs, builder);
  const SignalGradient gradient(whole, groups, outputs);
  builder.setFunction(
      describeGradientTensors(whole),
      [gradient](void *const *tensors, void *scratchpad) {
        gradient.run(tensors[0], tensors[1], static_cast<float *>(tensors[2]),
                     scratchpad);
      },
      gradient.getScratchpadBytes());
}
