//===- PixelRows.cpp ------------------------------------------------------===//
#include "cpu/PixelRows.h"
#include "cpu/PanelTerms.h"
#include "cpu/Processor.h"
#include "cpu/TransposeRows.h"

#include <cstring>

using namespace pp::runtime;

/// Channels that are packed at once.
static constexpr int64_t together = panelColumns;

bool PixelRows::seesLittle() const {
  // A product of fewer channels has too few terms.
  constexpr int64_t fewestChannels = 64;
  bool hasHoles = false;
  int64_t seen = 1, all = 1; // pixels, at all places
  for (size_t axis = 0; axis < steps.size(); ++axis) {
    hasHoles |= distances[axis] > 1 || distances[axis] < -1;
    seen *= countSeen(begin[axis], steps[axis], to.extents[axis],
                      distances[axis], window[axis], from.extents[axis]);
    all *= window[axis] * to.extents[axis];
  }
  return hasHoles && from.channels >= fewestChannels && 4 * seen <= 3 * all;
}

void PixelRows::copyPixel(const float *pixel, float *row) const {
  if (from.places.isChannelsLast()) {
    std::memcpy(row, pixel, from.channels * sizeof(float));
    return;
  }
  const int64_t block = from.places.blockChannels;
  for (int64_t channel = 0; channel < from.channels; channel += block)
    std::memcpy(row + channel, pixel + from.places.offsetOfChannel(channel),
                block * sizeof(float));
}

const float *PixelRows::readRows(const float *x, Range some,
                                 float *copy) const {
  if (isInPlace())
    return x + some.begin * terms();
  // Places of a row of the window lie side by side in x.
  const bool areTogether = from.places.isChannelsLast() && distances[2] == 1;
  const int64_t run = areTogether ? window[2] : 1;
  float *row = copy;
  for (int64_t index = some.begin; index < some.begin + some.count; ++index) {
    const int64_t sample = index / to.pixels();
    const ImageAxes at = splitIndex(index % to.pixels(), to.extents);
    for (int64_t first = 0; first < countOf(window);
         first += run, row += run * from.channels) {
      ImageAxes seen = seenAt(at, splitIndex(first, window));
      const bool isInside = seen[0] >= 0 && seen[0] < from.extents[0] &&
                            seen[1] >= 0 && seen[1] < from.extents[1];
      // Those of the run that are inside: [low, high).
      const int64_t low =
          isInside ? std::clamp<int64_t>(-seen[2], 0, run) : run;
      const int64_t high = std::clamp(from.extents[2] - seen[2], low, run);
      std::fill_n(row, low * from.channels, 0.0F);
      std::fill_n(row + high * from.channels, (run - high) * from.channels,
                  0.0F);
      if (low == high)
        continue;
      seen[2] += low;
      const float *pixel = x + from.placeOf(sample, seen);
      if (areTogether)
        std::memcpy(row + low * from.channels, pixel,
                    (high - low) * from.channels * sizeof(float));
      else
        copyPixel(pixel, row);
    }
  }
  return copy;
}

int64_t PixelRows::readPlace(const float *x, Range some, int64_t place,
                             float *copy, int64_t *seeing) const {
  const ImageAxes own = splitIndex(place, window);
  int64_t count = 0;
  for (int64_t i = 0; i < some.count; ++i) {
    const int64_t index = some.begin + i;
    const ImageAxes seen =
        seenAt(splitIndex(index % to.pixels(), to.extents), own);
    bool isInside = true;
    for (size_t axis = 0; axis < seen.size(); ++axis)
      isInside &= seen[axis] >= 0 && seen[axis] < from.extents[axis];
    if (!isInside)
      continue;
    copyPixel(x + from.placeOf(index / to.pixels(), seen),
              copy + count * from.channels);
    seeing[count++] = i;
  }
  return count;
}

void PixelRows::writeRows(Range some, Range channels,
                          const ConvEpilogue &epilogue, const float *bias,
                          const float *residual, float *product,
                          float *y) const {
  if (isWrittenInPlace() && epilogue.isEmpty())
    return;
  const int64_t atOnce =
      isWrittenInPlace() ? channels.count : to.places.blockChannels;
  const int64_t pitch = resultPitch(channels);
  for (int64_t row = 0; row < some.count; ++row) {
    const int64_t index = some.begin + row;
    const int64_t pixel = to.placeOf(
        index / to.pixels(), splitIndex(index % to.pixels(), to.extents));
    for (int64_t first = 0; first < channels.count; first += atOnce) {
      const int64_t channel = channels.begin + first;
      const int64_t place = pixel + to.places.offsetOfChannel(channel);
      float *numbers = product + row * pitch + first;
      if (!epilogue.isEmpty())
        epilogue.finish(numbers,
                        {bias ? bias + channel : nullptr,
                         residual ? residual + place : nullptr},
                        atOnce);
      if (!isWrittenInPlace())
        std::memcpy(y + place, numbers, atOnce * sizeof(float));
    }
  }
}

/// Reads up to 16 numbers of each of 16 rows and turns them.
__attribute__((target("avx512f"))) static LaneRows
readColumns(const float *from, int64_t rowStride, int64_t count) {
  LaneRows rows;
  const auto mask = static_cast<__mmask16>((1U << count) - 1);
  for (int64_t lane = 0; lane < together; ++lane)
    rows[lane] = _mm512_maskz_loadu_epi32(mask, from + lane * rowStride);
  transposeRows(rows);
  return rows;
}

/// Outputs x channels x window: 16 outputs, which are whole rows.
__attribute__((target("avx512f"))) void
PixelRows::packOutputs(int64_t first, const float *weights,
                       float *panel) const {
  const int64_t places = countOf(window);
  for (int64_t term = 0; term < terms(); term += together) {
    const LaneRows columns =
        readColumns(weights + first * terms() + term, terms(), together);
    for (int64_t i = 0; i < together; ++i) {
      const int64_t channel = (term + i) / places, place = (term + i) % places;
      _mm512_storeu_si512(
          panel + (place * from.channels + channel) * panelColumns, columns[i]);
    }
  }
}

/// The same of 16 channels, each of whose windows is a row.
__attribute__((target("avx512f"))) void
PixelRows::packChannels(int64_t first, const float *weights,
                        float *panel) const {
  const int64_t places = countOf(window);
  for (int64_t output = 0; output < from.channels; ++output)
    for (int64_t place = 0; place < places; place += together) {
      const int64_t count = std::min(together, places - place);
      const LaneRows columns =
          readColumns(weights + (output * to.channels + first) * places + place,
                      places, count);
      for (int64_t i = 0; i < count; ++i)
        _mm512_storeu_si512(panel + ((place + i) * from.channels + output) *
                                        panelColumns,
                            columns[i]);
    }
}

void PixelRows::packPanel(int64_t first, const float *weights,
                          float *panel) const {
  const int64_t count = places();
  const int64_t ofPlace =
      isByPlaces() ? weightsOfPlace() / panelColumns : from.channels;
  if (isForward())
    return packTerms(
        weights + first * terms(), terms(), terms(), panelColumns, panel,
        [&](int64_t term) { return term % count * ofPlace + term / count; });
  for (int64_t output = 0; output < from.channels; ++output)
    packTerms(weights + (output * to.channels + first) * count, count, count,
              panelColumns, panel,
              [&](int64_t place) { return place * ofPlace + output; });
}

void PixelRows::packWeights(Range channels, const float *weights,
                            float *packed) const {
  packed += channels.begin * termsAtOnce();
  if (isOfSinglePlaces())
    return makeProduct(channels, rows())
        .packColumns(weights + channels.begin * (isForward() ? terms() : 1),
                     packed);
  for (int64_t first = 0; first < channels.count; first += panelColumns) {
    float *panel = packed + first * termsAtOnce();
    const int64_t channel = channels.begin + first;
    if (!hasAvx512() || from.channels % together != 0 || isByPlaces())
      packPanel(channel, weights, panel);
    else if (isForward())
      packOutputs(channel, weights, panel);
    else
      packChannels(channel, weights, panel);
  }
}
