//===- ConvGradientPixels.cpp ---------------------------------------------===//
#include "cpu/ConvGradientPixels.h"
#include "cpu/Processor.h"

#include <immintrin.h>

#include <algorithm>
#include <array>

using namespace pp::runtime;

#define PP_AVX2 __attribute__((target("avx2,fma")))

static constexpr int64_t lanes = 8, tileOutputs = 4, mostColumns = 3;
/// Of a band: what it sees of eight channels fits into the first cache.
static constexpr int64_t mostPixels = 784;

static int64_t divideUp(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}

bool ConvGradientPixels::isPossible(const Shape &shape) {
  return TiledProduct::isPossible() && !shape.isShort;
}

bool ConvGradientPixels::isPreferred(const Shape &shape) {
  constexpr int64_t fewestPixels = 128, fewestUses = 48, manyPatches = 784;
  // To pack a number of x takes as long as to use it some times.
  const int64_t places = countOf(shape.window), step = countOf(shape.strides);
  // In blocks, the library has better code for them.
  const bool arePatches = places == step && places > 1 &&
                          shape.x.isChannelsLast() &&
                          countOf(shape.result) >= manyPatches;
  return isPossible(shape) && !hasAvx512() && shape.channels >= lanes &&
         shape.outputs >= tileOutputs && shape.pixels() >= fewestPixels &&
         (places > step || arePatches) &&
         shape.outputs * places >= fewestUses * step;
}

bool ConvGradientPixels::seesLittle(const Shape &shape) {
  int64_t seen = 1, all = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    seen *=
        countSeen(-shape.padding[axis], shape.strides[axis], shape.result[axis],
                  shape.dilations[axis], shape.window[axis], shape.image[axis]);
    all *= shape.window[axis] * shape.result[axis];
  }
  return 3 * seen <= 2 * all;
}

int64_t ConvGradientPixels::blocks() const {
  return divideUp(shape.channels, lanes);
}

int64_t ConvGradientPixels::tiles() const {
  // A single column takes two tiles at a time.
  return divideUp(shape.outputs, 2 * tileOutputs) * 2;
}

ConvGradientPixels::ConvGradientPixels(const Shape &shape)
    : shape(shape), isByPlaces(seesLittle(shape)) {
  splitIntoBands();
  const Band &largest = bands.front();
  for (size_t axis = 0; axis < 3; ++axis)
    extents[axis] = (largest.count[axis] - 1) * shape.strides[axis] +
                    (shape.window[axis] - 1) * shape.dilations[axis] + 1;
  const int64_t phases = std::min(shape.strides[2], extents[2]);
  extents[2] = divideUp(extents[2], shape.strides[2]);
  phasePitch = extents[2] * lanes;
  pitches[2] = lanes;
  pitches[1] = phases * phasePitch;
  pitches[0] = extents[1] * pitches[1];
  samplePitch = extents[0] * pitches[0];
  blockNumbers = largest.samples * samplePitch;
  constexpr int64_t inL2 = (128 << 10) / sizeof(float);
  const int64_t fewest = isByPlaces ? mostColumns : 1;
  blocksAtOnce = std::min(std::max(inL2 / blockNumbers, fewest), blocks());
  for (int64_t place = 0; place < countOf(shape.window); ++place) {
    ImageAxes at = splitIndex(place, shape.window);
    for (size_t axis = 0; axis < 3; ++axis)
      at[axis] *= shape.dilations[axis];
    places.push_back(at[0] * pitches[0] + at[1] * pitches[1] +
                     at[2] % shape.strides[2] * phasePitch +
                     at[2] / shape.strides[2] * lanes);
  }
}

bool ConvGradientPixels::isSeen(size_t axis, int64_t at) const {
  for (int64_t place = 0; place < shape.window[axis]; ++place)
    if ((at - place * shape.dilations[axis]) % shape.strides[axis] == 0)
      return true;
  return false;
}

void ConvGradientPixels::splitIntoBands() {
  // The first axis, from the samples on, of which one step fits.
  const std::array<int64_t, 4> all = {shape.samples, shape.result[0],
                                      shape.result[1], shape.result[2]};
  std::array<int64_t, 4> step;
  int64_t pixels = 1;
  for (size_t axis = all.size(); axis-- > 0;) {
    const int64_t most = std::max<int64_t>(mostPixels / pixels, 1);
    step[axis] = std::min(most, all[axis]);
    // As long as each other.
    step[axis] = divideUp(all[axis], divideUp(all[axis], step[axis]));
    pixels *= step[axis] == all[axis] ? all[axis] : mostPixels;
  }
  std::array<int64_t, 4> at;
  for (at[0] = 0; at[0] < all[0]; at[0] += step[0])
    for (at[1] = 0; at[1] < all[1]; at[1] += step[1])
      for (at[2] = 0; at[2] < all[2]; at[2] += step[2])
        for (at[3] = 0; at[3] < all[3]; at[3] += step[3]) {
          auto count = [&](size_t axis) {
            return std::min(step[axis], all[axis] - at[axis]);
          };
          bands.push_back({at[0],
                           count(0),
                           {at[1], at[2], at[3]},
                           {count(1), count(2), count(3)}});
        }
}

uint64_t ConvGradientPixels::measureRows() const {
  return alignUp(tiles() * tileOutputs * bands.front().pixels() *
                 sizeof(float));
}

uint64_t ConvGradientPixels::measureBlocks() const {
  return alignUp(blocksAtOnce * blockNumbers * sizeof(float));
}

uint64_t ConvGradientPixels::measureSums() const {
  return alignUp(tiles() * columns() * tileOutputs * lanes * sizeof(float));
}

uint64_t ConvGradientPixels::getScratchpadBytes() const {
  return measureRows() + measureBlocks() + measureSums();
}

/// Whether these channels of a pixel lie together.
static bool areTogether(const ImagePlaces &places, int64_t first,
                        int64_t count) {
  const int64_t block = places.blockChannels;
  return places.isChannelsLast() ||
         first / block == (first + count - 1) / block;
}

/// Four outputs of each pixel of the band together; those that there are not
/// are 0.
void ConvGradientPixels::packRows(const float *dy, const Band &band,
                                  int64_t firstOutput, float *to) const {
  const ImagePlaces &places = shape.dy;
  for (int64_t tile = 0; tile < tiles(); ++tile) {
    const int64_t before = tile * tileOutputs, first = firstOutput + before;
    const int64_t outputs =
        std::clamp<int64_t>(shape.outputs - before, 0, tileOutputs);
    const bool isInOnePiece =
        outputs == tileOutputs && areTogether(places, first, tileOutputs);
    for (int64_t sample = 0; sample < band.samples; ++sample)
      for (int64_t z = 0; z < band.count[0]; ++z)
        for (int64_t y = 0; y < band.count[1]; ++y) {
          const float *from = dy + (band.sample + sample) * places.sample +
                              (band.begin[0] + z) * places.axes[0] +
                              (band.begin[1] + y) * places.axes[1] +
                              band.begin[2] * places.axes[2];
          const int64_t width = band.count[2], step = places.axes[2];
          if (isInOnePiece) {
            from += places.offsetOfChannel(first);
            for (int64_t i = 0; i < width; ++i)
              _mm_storeu_ps(to + i * tileOutputs,
                            _mm_loadu_ps(from + i * step));
          } else {
            for (int64_t output = 0; output < tileOutputs; ++output) {
              const bool isThere = output < outputs;
              const float *own =
                  from + (isThere ? places.offsetOfChannel(first + output) : 0);
              for (int64_t i = 0; i < width; ++i)
                to[i * tileOutputs + output] = isThere ? own[i * step] : 0;
            }
          }
          to += width * tileOutputs;
        }
  }
}

/// All pixels of a row of x that a band sees, from pixel `first` on, which may
/// be before the row: eight channels of each, phase by phase.
PP_AVX2 void ConvGradientPixels::packLine(const float *from, int64_t channel,
                                          int64_t channels, int64_t first,
                                          float *to) const {
  const int64_t stride = shape.strides[2], width = shape.image[2];
  const int64_t step = shape.x.axes[2];
  const bool isInOnePiece =
      channels == lanes && areTogether(shape.x, channel, lanes);
  for (int64_t phase = 0; phase * phasePitch < pitches[1]; ++phase) {
    if (!isSeen(2, phase))
      continue;
    float *place = to + phase * phasePitch;
    const int64_t begin = first + phase;
    const int64_t before = std::clamp<int64_t>(
        divideUp(std::max<int64_t>(-begin, 0), stride), 0, extents[2]);
    const int64_t end =
        std::clamp<int64_t>(begin < width ? divideUp(width - begin, stride) : 0,
                            before, extents[2]);
    std::fill_n(place, before * lanes, 0.0F);
    std::fill_n(place + end * lanes, (extents[2] - end) * lanes, 0.0F);
    const float *source = from + begin * step;
    if (isInOnePiece) {
      source += shape.x.offsetOfChannel(channel);
      for (int64_t i = before; i < end; ++i)
        _mm256_storeu_ps(place + i * lanes,
                         _mm256_loadu_ps(source + i * stride * step));
      continue;
    }
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const bool isThere = lane < channels;
      const float *own =
          source + (isThere ? shape.x.offsetOfChannel(channel + lane) : 0);
      for (int64_t i = before; i < end; ++i)
        place[i * lanes + lane] = isThere ? own[i * stride * step] : 0;
    }
  }
}

void ConvGradientPixels::packBlock(const float *x, const Band &band,
                                   int64_t channel, int64_t channels,
                                   float *to) const {
  auto begin = [&](size_t axis) {
    return band.begin[axis] * shape.strides[axis] - shape.padding[axis];
  };
  auto isInside = [&](size_t axis, int64_t at) {
    return at >= 0 && at < shape.image[axis];
  };
  for (int64_t sample = 0; sample < band.samples; ++sample)
    for (int64_t i = 0; i < extents[0]; ++i)
      for (int64_t j = 0; j < extents[1]; ++j) {
        if (!isSeen(0, i) || !isSeen(1, j))
          continue;
        const int64_t z = begin(0) + i, y = begin(1) + j;
        float *line =
            to + sample * samplePitch + i * pitches[0] + j * pitches[1];
        if (isInside(0, z) && isInside(1, y))
          packLine(x + (band.sample + sample) * shape.x.sample +
                       z * shape.x.axes[0] + y * shape.x.axes[1],
                   channel, channels, begin(2), line);
        else
          std::fill_n(line, pitches[1], 0.0F);
      }
}

/// Adds the products of tiles of four outputs with columns, or writes them.
/// `dyPitch`, `sumPitch`: from the numbers of dY, and from the sums, of one
/// tile to those of the next.
template <int columnCount, int tileCount>
PP_AVX2 static void
multiplyTile(const float *const *x, const float *dy, int64_t dyPitch,
             const ConvGradientPixels::Lines &lines, bool isFirst, float *sums,
             int64_t sumPitch, int64_t columnStep) {
  constexpr int outputs = tileCount * tileOutputs;
  __m256 all[outputs][columnCount];
  auto place = [&](int output, int column) {
    return sums + output / tileOutputs * sumPitch +
           (column * columnStep * tileOutputs + output % tileOutputs) * lanes;
  };
#pragma unroll
  for (int output = 0; output < outputs; ++output)
#pragma unroll
    for (int column = 0; column < columnCount; ++column)
      all[output][column] = _mm256_setzero_ps();
  // One loop: between two, the sums would be copied from register to register.
  const ConvGradientPixels::Line *next = lines.all.data();
  const float *factors = dy;
  int64_t offset = 0, left = 0;
#pragma clang loop unroll(disable)
  for (int64_t pixel = lines.pixels(); pixel > 0; --pixel) {
    if (left == 0) {
      offset = next->x;
      factors = dy + next->dy;
      ++next;
      left = lines.width;
    }
    __m256 right[columnCount];
#pragma unroll
    for (int column = 0; column < columnCount; ++column)
      right[column] = _mm256_loadu_ps(x[column] + offset);
#pragma unroll
    for (int output = 0; output < outputs; ++output) {
      const __m256 factor = _mm256_broadcast_ss(
          factors + output / tileOutputs * dyPitch + output % tileOutputs);
#pragma unroll
      for (int column = 0; column < columnCount; ++column)
        all[output][column] =
            _mm256_fmadd_ps(factor, right[column], all[output][column]);
    }
    offset += lanes;
    factors += tileOutputs;
    --left;
  }
#pragma unroll
  for (int output = 0; output < outputs; ++output)
#pragma unroll
    for (int column = 0; column < columnCount; ++column) {
      float *to = place(output, column);
      const __m256 sum = all[output][column];
      _mm256_storeu_ps(to,
                       isFirst ? sum : _mm256_add_ps(_mm256_loadu_ps(to), sum));
    }
}

ConvGradientPixels::Lines ConvGradientPixels::findLines(const Band &band,
                                                        int64_t firstPlace,
                                                        int64_t count) const {
  // Between the first and the last of each axis that a place sees.
  ImageAxes begin = band.count, end = {0, 0, 0};
  const int64_t placeCount = countOf(shape.window);
  for (int64_t i = 0; i < count; ++i) {
    const ImageAxes place =
        splitIndex((firstPlace + i) % placeCount, shape.window);
    for (size_t axis = 0; axis < 3; ++axis) {
      // A pixel that is `before` or more sees the first of the image, or
      // others.
      const int64_t before =
          shape.padding[axis] - place[axis] * shape.dilations[axis];
      auto atBand = [&](int64_t pixel) {
        const int64_t first =
            divideUp(std::max<int64_t>(pixel, 0), shape.strides[axis]);
        return std::clamp<int64_t>(first - band.begin[axis], 0,
                                   band.count[axis]);
      };
      const int64_t low = atBand(before);
      const int64_t high = atBand(shape.image[axis] + before);
      if (low < high) {
        begin[axis] = std::min(begin[axis], low);
        end[axis] = std::max(end[axis], high);
      }
    }
  }
  Lines lines;
  lines.width = std::max<int64_t>(end[2] - begin[2], 0);
  if (lines.width == 0)
    return lines;
  lines.all.reserve(band.samples * band.count[0] * band.count[1]);
  for (int64_t sample = 0; sample < band.samples; ++sample)
    for (int64_t z = begin[0]; z < end[0]; ++z)
      for (int64_t y = begin[1]; y < end[1]; ++y)
        lines.all.push_back(
            {sample * samplePitch + z * shape.strides[0] * pitches[0] +
                 y * shape.strides[1] * pitches[1] + begin[2] * lanes,
             (((sample * band.count[0] + z) * band.count[1] + y) *
                  band.count[2] +
              begin[2]) *
                 tileOutputs});
  return lines;
}

void ConvGradientPixels::multiply(const float *rows, const float *packed,
                                  const Band &band, int64_t firstBlock,
                                  int64_t count, float *sums) const {
  const int64_t placeCount = countOf(shape.window), all = count * placeCount;
  const int64_t tilePitch = columns() * tileOutputs * lanes;
  const int64_t rowPitch = band.pixels() * tileOutputs;
  const bool isFirst = &band == &bands.front();
  sums += firstBlock * placeCount * tileOutputs * lanes;
  // Columns of a tile are places of a block, or blocks at one place.
  const int64_t step = isByPlaces ? placeCount : 1;
  auto add = [&](int64_t column, int64_t width) {
    const Lines lines =
        findLines(band, column % placeCount, isByPlaces ? 1 : width);
    std::array<const float *, mostColumns> x{};
    for (int64_t i = 0; i < width; ++i)
      x[i] = packed + (column + i * step) / placeCount * blockNumbers +
             places[(column + i * step) % placeCount];
    auto *multiply = width == 3   ? multiplyTile<3, 1>
                     : width == 2 ? multiplyTile<2, 1>
                                  : multiplyTile<1, 2>;
    const int64_t together = width == 1 ? 2 : 1;
    for (int64_t tile = 0; tile < tiles(); tile += together)
      multiply(x.data(), rows + tile * rowPitch, rowPitch, lines, isFirst,
               sums + tile * tilePitch + column * tileOutputs * lanes,
               tilePitch, step);
  };
  const int64_t ofStep = isByPlaces ? count : all;
  for (int64_t first = 0; first < step; ++first)
    for (int64_t width, i = 0; i < ofStep; i += width) {
      // Two and two, rather than three and one.
      const int64_t left = ofStep - i;
      width = left == mostColumns + 1 ? 2 : std::min(left, mostColumns);
      add(first + i * step, width);
    }
}

void ConvGradientPixels::writeSums(const float *sums, float *gradient) const {
  const int64_t placeCount = countOf(shape.window);
  for (int64_t output = 0; output < shape.outputs; ++output)
    for (int64_t channel = 0; channel < shape.channels; ++channel) {
      const float *own =
          sums +
          ((output / tileOutputs * columns() + channel / lanes * placeCount) *
               tileOutputs +
           output % tileOutputs) *
              lanes +
          channel % lanes;
      for (int64_t place = 0; place < placeCount; ++place, ++gradient) {
        const float sum = own[place * tileOutputs * lanes];
        *gradient = shape.isAdded ? *gradient + sum : sum;
      }
    }
}

void ConvGradientPixels::runGroup(const void *x, const void *dy, int64_t group,
                                  float *gradient, void *scratchpad) const {
  auto *bytes = static_cast<char *>(scratchpad);
  auto *rows = reinterpret_cast<float *>(bytes);
  auto *packed = reinterpret_cast<float *>(bytes + measureRows());
  auto *sums =
      reinterpret_cast<float *>(bytes + measureRows() + measureBlocks());
  for (const Band &band : bands) {
    packRows(static_cast<const float *>(dy), band, group * shape.outputs, rows);
    for (int64_t block = 0; block < blocks(); block += blocksAtOnce) {
      const int64_t count = std::min(blocksAtOnce, blocks() - block);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t channel = (block + i) * lanes;
        packBlock(static_cast<const float *>(x), band,
                  group * shape.channels + channel,
                  std::min(lanes, shape.channels - channel),
                  packed + i * blockNumbers);
      }
      multiply(rows, packed, band, block, count, sums);
    }
  }
  writeSums(sums, gradient + group * shape.outputs * shape.channels *
                                 countOf(shape.window));
}
