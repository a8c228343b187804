//===- GroupConvolution.cpp -----------------------------------------------===//
#include "cpu/GroupConvolution.h"
#include "cpu/ConvTensors.h"
#include "cpu/PackedWeights.h"
#include "cpu/PanelTerms.h"
#include "cpu/Processor.h"
#include "cpu/SharedAxis.h"

#include <algorithm>

using namespace pp::runtime;

using Range = KernelBuilder::Range;

/// Whether all channels are as few as those of a group, so that the second
/// cache has their weights, of large images, whose windows see enough of them
/// (measured on Zen 3: up to 1.5 times as fast as the library).
static bool areChannelsFew(const ConvShape &whole, ConvDirection direction) {
  constexpr int64_t fewest = 32, most = 128, fewestPixels = 784;
  constexpr int64_t fewestPlaces = 4, manyPlaces = 9, mostPlaces = 25;
  constexpr size_t mostBytes = 5 << 18; // of weights
  const bool isForward = direction == ConvDirection::Forward;
  const int64_t read = isForward ? whole.src.dims()[1] : whole.outputChannels;
  const KernelBuilder::MemoryDesc &written = isForward ? whole.dst : whole.src;
  const int64_t places =
      countOf(KernelBuilder::imageAxes(whole.weights.dims(), 2, 1));
  // Those of smaller windows are products (ConvPixelProduct.h).
  constexpr int64_t many = 64;
  if (isForward && read >= many && places < manyPlaces)
    return false;
  const int64_t pixels =
      countOf(KernelBuilder::imageAxes(written.dims(), 2, 1));
  return whole.layout == "channels_last" && read >= fewest && read <= most &&
         places >= fewestPlaces && places <= mostPlaces &&
         pixels >= fewestPixels && whole.weights.get_size() <= mostBytes;
}

bool GroupConvolution::isPreferred(const ConvShape &whole,
                                   ConvDirection direction) {
  if (hasAvx512() || !GroupRows::arePossible(whole))
    return false;
  if (whole.groups == 1)
    return areChannelsFew(whole, direction);
  // In blocks of 8 channels, the library's code is as fast for more of them,
  // and for gradients (measured on Zen 3).
  constexpr int64_t fewChannels = 16;
  return whole.layout == "channels_last" ||
         (direction == ConvDirection::Forward &&
          whole.outputChannels / whole.groups <= fewChannels);
}

/// Of the copy, which lies in the first cache beside some weights.
static constexpr int64_t copiedBytes = 24 << 10;

GroupConvolution::GroupConvolution(const ConvShape &whole,
                                   ConvDirection direction)
    : isForward(direction == ConvDirection::Forward),
      rows(whole, direction, copiedBytes) {}

void GroupConvolution::writeRows(const float *copy, int64_t first,
                                 int64_t count, int64_t vectors,
                                 const GroupRow &row,
                                 const ConvEpilogue &epilogue) const {
  const ImageAxes &axes = rows.to.places.axes;
  GroupRow own = row;
  for (const GroupRows::Work &work : rows.works) {
    own.offsets = work.offsets.data();
    own.segments = static_cast<int64_t>(work.offsets.size());
    own.toStep = work.columns.step * axes[2];
    own.pixels = work.columns.count;
    const int64_t end = std::min(first + count, work.rows.count);
    for (int64_t index = first; index < end; ++index) {
      const int64_t place =
          (work.rows.first + index * work.rows.step) * axes[1] +
          work.columns.first * axes[2];
      own.from = copy + (index - first) * rows.pitch();
      own.to = row.to + place;
      own.residual = row.residual ? row.residual + place : nullptr;
      multiplyGroupRow(vectors, own, epilogue);
    }
    own.weights += own.segments * groupLanes * vectors * groupLanes;
  }
}

void GroupConvolution::run(const float *x, const float *weights,
                           const ConvEpilogue &epilogue,
                           const ConvSummands &summands, float *y,
                           const Share &share, void *scratchpad) const {
  auto *copy = static_cast<float *>(scratchpad);
  auto runGroup = [&](int64_t sample, int64_t group, Range some) {
    rows.copy(x + rows.from.placeOf(sample, group), some.begin, some.count,
              copy);
    for (int64_t vector = 0; vector < rows.to.vectors();) {
      const int64_t count = vectorsFrom(vector, rows.to.vectors());
      const int64_t channel = group * rows.to.channels + vector * groupLanes;
      const int64_t place =
          rows.to.placeOf(sample, group) + vector * rows.to.vectorPitch();
      GroupRow row{};
      row.weights = weights + channel * ofWritten();
      row.bias = summands.bias ? summands.bias + channel : nullptr;
      row.residual = summands.residual ? summands.residual + place : nullptr;
      row.to = y + place;
      row.toVector = rows.to.vectorPitch();
      writeRows(copy, some.begin, some.count, count, row, epilogue);
      vector += count;
    }
  };
  const int64_t end = share.rows.begin + share.rows.count;
  for (int64_t i = 0; i < share.samples.count; ++i)
    for (int64_t first = share.rows.begin; first < end; first += rows.atATime)
      for (int64_t group = 0; group < share.groups.count; ++group)
        runGroup(share.samples.begin + i, share.groups.begin + group,
                 {first, std::min(rows.atATime, end - first)});
}

void GroupConvolution::packWeights(Range some, const float *weights,
                                   float *packed) const {
  const int64_t places = countOf(rows.sizes.window);
  const GroupRows::Image &from = rows.from, &to = rows.to;
  // Where a place of the window is among those of all works. Images that are
  // smaller than a stride do not see all of them: these come last.
  std::vector<int64_t> order(places, -1);
  int64_t next = 0;
  for (const GroupRows::Work &work : rows.works)
    for (const int64_t place : work.places)
      order[place] = next++;
  for (int64_t &place : order)
    if (place < 0)
      place = next++;
  packed += some.begin * weightsOfGroup();
  weights += some.begin * weightsOfGroup();
  for (int64_t group = 0; group < some.count;
       ++group, weights += weightsOfGroup())
    for (int64_t vector = 0; vector < to.vectors();) {
      const int64_t count = vectorsFrom(vector, to.vectors());
      const int64_t channel = vector * groupLanes, columns = count * groupLanes;
      if (isForward)
        packTerms(weights + channel * ofWritten(), ofWritten(), ofWritten(),
                  columns, packed, [&](int64_t term) {
                    return order[term % places] * from.channels + term / places;
                  });
      else
        for (int64_t output = 0; output < from.channels; ++output)
          packTerms(weights + (output * to.channels + channel) * places, places,
                    places, columns, packed, [&](int64_t place) {
                      return order[place] * from.channels + output;
                    });
      packed += ofWritten() * columns;
      vector += count;
    }
}

static GroupConvolution::Share shareOf(const ConvShape &whole,
                                       const GroupConvolution &convolution,
                                       KernelBuilder &builder) {
  GroupConvolution::Share all = convolution.all();
  if (builder.isWhole())
    return all;
  const SharedAxis axis =
      findSharedAxis({all.samples.count, all.groups.count, all.rows.count},
                     whole.layout == "channels_last", whole.countPixels(),
                     builder.countParts());
  Range &shared = axis == SharedAxis::Samples    ? all.samples
                  : axis == SharedAxis::Channels ? all.groups
                                                 : all.rows;
  shared = builder.share(shared.count);
  return all;
}

void pp::runtime::buildGroupConvolution(const ConvShape &whole,
                                        ConvDirection direction,
                                        const ConvEpilogue &epilogue,
                                        KernelBuilder &builder) {
  const GroupConvolution convolution(whole, direction);
  const bool arePacked = whole.packedBytes != 0;
  if (arePacked)
    demandPacked(convolution.getPackedBytes(), whole.packedBytes);
  const GroupConvolution::Share share = shareOf(whole, convolution, builder);
  const uint64_t ownBytes =
      arePacked ? 0 : alignUp(convolution.getPackedBytes());
  const int residual = epilogue.hasBias ? 3 : 2;
  const int result = epilogue.hasResidual ? residual + 1 : residual;
  builder.setFunction(
      describeTensors(whole, direction, epilogue),
      [=](void *const *tensors, void *scratchpad) {
        auto at = [&](int tensor) {
          return static_cast<float *>(tensors[tensor]);
        };
        auto *packed = static_cast<float *>(scratchpad);
        if (!arePacked)
          convolution.packWeights(share.groups, at(1), packed);
        convolution.run(at(0), arePacked ? at(1) : packed, epilogue,
                        {epilogue.hasBias ? at(2) : nullptr,
                         epilogue.hasResidual ? at(residual) : nullptr},
                        at(result), share,
                        static_cast<char *>(scratchpad) + ownBytes);
      },
      ownBytes + convolution.getScratchpadBytes());
}

void pp::runtime::buildPackGroups(const ConvShape &whole,
                                  ConvDirection direction,
                                  KernelBuilder &builder) {
  if (whole.packedBytes == 0)
    throw DescriptorError("key 'packed' is missing");
  const GroupConvolution convolution(whole, direction);
  demandPacked(convolution.getPackedBytes(), whole.packedBytes);
  const Range groups = builder.share(whole.groups);
  builder.setFunction(describePacking(whole, DataType::F32),
                      [convolution, groups](void *const *tensors, void *) {
                        convolution.packWeights(
                            groups, static_cast<const float *>(tensors[0]),
                            static_cast<float *>(tensors[1]));
                      });
}
