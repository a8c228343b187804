//===- GroupGradient.cpp --------------------------------------------------===//
#include "cpu/GroupGradient.h"
#include "cpu/ConvTensors.h"
#include "cpu/PanelTerms.h"
#include "cpu/Processor.h"

#include <algorithm>

using namespace pp::runtime;

/// With more outputs, products of all that windows see are faster, or the
/// library (measured on Zen 3).
bool GroupGradient::isPreferred(const ConvShape &whole) {
  return !hasAvx512() && whole.groups > 1 && GroupRows::arePossible(whole) &&
         whole.outputChannels / whole.groups == groupLanes;
}

/// Of the copy, beside which dY lies in the first cache.
static constexpr int64_t copiedBytes = 14 << 10;

GroupGradient::GroupGradient(const ConvShape &whole)
    : rows(whole, ConvDirection::Forward, copiedBytes), isAdded(whole.isAdded) {
}

int64_t GroupGradient::groupsAtOnce() const {
  constexpr int64_t cached = (128 << 10) / sizeof(float); // in the second level
  return std::clamp<int64_t>(cached / weightsOfGroup(), 1, rows.groups);
}

void GroupGradient::copyOutputs(const float *dy, int64_t first, int64_t count,
                                float *copy) const {
  const ImageAxes &axes = rows.to.places.axes;
  const int64_t pixels = rows.width.longestCount;
  for (int64_t row = 0; row < count; ++row)
    copyGroupPixels(dy + (first + row) * axes[1], axes[2], pixels,
                    copy + row * pixels * groupLanes);
}

void GroupGradient::addRows(const float *x, const float *dy, int64_t count,
                            float *sums) const {
  const GroupRows::Work &work = rows.works.front();
  const auto places = static_cast<int64_t>(work.places.size());
  const int64_t channels = rows.from.channels, vectors = rows.from.vectors();
  GroupProducts products{};
  products.pitch = rows.pitch();
  products.rows = count;
  products.pixels = work.columns.count;
  products.dy = dy;
  products.ofPlace = channels * groupLanes;
  for (int64_t first = 0; first < places; first += mostGroupPlaces) {
    const int64_t own = std::min(mostGroupPlaces, places - first);
    const int64_t atOnce = groupChannelsAtOnce(own);
    for (int64_t channel = 0; channel < channels; channel += atOnce) {
      for (int64_t i = 0; i < own; ++i)
        products.x[i] =
            x + work.offsets[(first + i) * vectors + channel / groupLanes] +
            channel % groupLanes;
      products.sums = sums + (first * channels + channel) * groupLanes;
      addGroupProducts(own, products);
    }
  }
}

void GroupGradient::run(const float *x, const float *dy, float *gradient,
                        Range groups, void *scratchpad) const {
  auto *copy = static_cast<float *>(scratchpad);
  float *outputs = copy + rows.countCopied();
  float *allSums = outputs + countCopiedOutputs();
  auto runRows = [&](int64_t sample, int64_t group, int64_t first,
                     float *sums) {
    const int64_t count = std::min(rows.atATime, rows.countRows() - first);
    rows.copy(x + rows.from.placeOf(sample, group), first, count, copy);
    copyOutputs(dy + rows.to.placeOf(sample, group), first, count, outputs);
    addRows(copy, outputs, count, sums);
  };
  const int64_t places = countOf(rows.sizes.window);
  const int64_t end = groups.begin + groups.count;
  for (int64_t begin = groups.begin; begin < end; begin += groupsAtOnce()) {
    const int64_t count = std::min(groupsAtOnce(), end - begin);
    std::fill_n(allSums, count * weightsOfGroup(), 0.0F);
    for (int64_t sample = 0; sample < rows.sizes.samples; ++sample)
      for (int64_t first = 0; first < rows.countRows(); first += rows.atATime)
        for (int64_t group = 0; group < count; ++group)
          runRows(sample, begin + group, first,
                  allSums + group * weightsOfGroup());
    // Forward, places of the window are in its order.
    for (int64_t group = 0; group < count; ++group)
      unpackTerms(allSums + group * weightsOfGroup(), groupLanes,
                  rows.weightsOfOutput(), isAdded,
                  gradient + (begin + group) * weightsOfGroup(),
                  [&](int64_t term) {
                    return term % places * rows.from.channels + term / places;
                  });
  }
}

void pp::runtime::buildGroupGradient(const ConvShape &whole,
                                     KernelBuilder &builder) {
  const GroupGradient gradient(whole);
  builder.setFunction(
      describeGradientTensors(whole),
      [gradient, groups = builder.share(whole.groups)](void *const *tensors,
                                                       void *scratchpad) {
        gradient.run(static_cast<const float *>(tensors[0]),
                     static_cast<const float *>(tensors[1]),
                     static_cast<float *>(tensors[2]), groups, scratchpad);
      },
      gradient.getScratchpadBytes());
}
