//===- DepthwiseLoops.h - The loops of DepthwiseRows.h ----------*- C++ -*-===//
//
// Included by DepthwiseRowsAvx2.cpp and DepthwiseRowsAvx512.cpp, once in each,
// behind what a register of the processor is:
//
//   Vector, width          `width` numbers: the 16 of a pixel, or half of them
//   zero(), add(), multiplyAdd(a, b, c)
//   load(from), load(from, count), store(to, value), store(to, value, count)
//                          of f32, or of bf16 as its bits; the numbers behind
//                          `count`, which may be 0, are 0 and left alone
//   turn(rows)             `width` registers become columns
//   placesOf(channels, i), pick(places, value)
//                          in each lane the number i of its group of channels
//   mostSegments<length>   for which sums have registers
//
//===----------------------------------------------------------------------===//
#include "cpu/DepthwiseRows.h"

#include <algorithm>
#include <array>
#include <utility>

namespace {

using namespace pp::runtime;
using namespace pp::runtime::depthwise;

//===----------------------------------------------------------------------===//
// Between images and rows
//===----------------------------------------------------------------------===//

int64_t offsetOf(const RowPlace &row, int64_t channel) {
  return row.offset + row.places->offsetOfChannel(channel);
}

/// The channels of a block.
int64_t countIn(const RowPlace &row, int64_t block) {
  return std::min(lanes, row.channels - block * lanes);
}

/// Whether each channel's pixels of a row lie together.
bool isPlain(const RowPlace &row) {
  const ImagePlaces &places = *row.places;
  return places.blockChannels == 1 && !places.isChannelsLast() &&
         (places.axes[2] == 1 || row.width == 1);
}

/// Those of `size` numbers that are in a register from number `part` on.
int64_t countFrom(int64_t size, int64_t part) {
  return std::clamp<int64_t>(size - part, 0, width);
}

template <typename Element>
void readPlain(const Element *from, int64_t count, const RowPlace &row,
               float *to) {
  for (int64_t part = 0; part < lanes; part += width)
    for (int64_t pixel = 0; pixel < row.width; pixel += width) {
      const int64_t pixels = countFrom(row.width, pixel);
      Vector numbers[width];
      for (int64_t lane = 0; lane < width; ++lane)
        numbers[lane] =
            part + lane < count
                ? load(from + (part + lane) * row.places->block + pixel, pixels)
                : zero();
      turn(numbers);
      for (int64_t i = 0; i < pixels; ++i)
        store(to + (pixel + i) * lanes + part, numbers[i]);
    }
}

template <typename Element>
void writePlain(const float *from, int64_t count, const RowPlace &row,
                Element *to) {
  for (int64_t part = 0; part < count; part += width)
    for (int64_t pixel = 0; pixel < row.width; pixel += width) {
      const int64_t pixels = countFrom(row.width, pixel);
      Vector numbers[width];
      for (int64_t i = 0; i < width; ++i)
        numbers[i] =
            i < pixels ? load(from + (pixel + i) * lanes + part) : zero();
      turn(numbers);
      for (int64_t lane = 0; lane < countFrom(count, part); ++lane)
        store(to + (part + lane) * row.places->block + pixel, numbers[lane],
              pixels);
    }
}

/// Blocks whose channels lie together, one after the other.
template <typename Element>
void readTogether(const Element *from, int64_t blocks, const RowPlace &row,
                  float *to, int64_t pitch) {
  const int64_t step = row.places->axes[2];
  for (int64_t pixel = 0; pixel < row.width; ++pixel)
    for (int64_t block = 0; block < blocks; ++block) {
      const Element *at = from + pixel * step + block * lanes;
      // Of the next row: those of one are too few to wait for memory.
      __builtin_prefetch(at + row.places->axes[1]);
      for (int64_t part = 0; part < lanes; part += width)
        store(to + block * pitch + pixel * lanes + part, load(at + part));
    }
}

template <typename Element>
void writeTogether(const float *from, int64_t pitch, int64_t blocks,
                   const RowPlace &row, Element *to) {
  const int64_t step = row.places->axes[2];
  for (int64_t pixel = 0; pixel < row.width; ++pixel)
    for (int64_t block = 0; block < blocks; ++block)
      for (int64_t part = 0; part < lanes; part += width)
        store(to + pixel * step + block * lanes + part,
              load(from + block * pitch + pixel * lanes + part));
}

/// Up to 16 numbers.
template <typename From, typename To>
void copySome(const From *from, int64_t size, To *to) {
  for (int64_t part = 0; part < size; part += width) {
    const int64_t count = countFrom(size, part);
    store(to + part, load(from + part, count), count);
  }
}

/// A block, of which `together` channels lie together.
template <typename Element>
void readGroups(const Element *image, int64_t block, int64_t together,
                const RowPlace &row, float *to) {
  const int64_t count = countIn(row, block), step = row.places->axes[2];
  if (count < lanes)
    std::fill_n(to, row.width * lanes, 0.0F);
  for (int64_t lane = 0; lane < count; lane += together) {
    const Element *from = image + offsetOf(row, block * lanes + lane);
    const int64_t size = std::min(together, count - lane);
    for (int64_t pixel = 0; pixel < row.width; ++pixel)
      copySome(from + pixel * step, size, to + pixel * lanes + lane);
  }
}

template <typename Element>
void writeGroups(const float *from, int64_t block, int64_t together,
                 const RowPlace &row, Element *image) {
  const int64_t count = countIn(row, block), step = row.places->axes[2];
  for (int64_t lane = 0; lane < count; lane += together) {
    Element *to = image + offsetOf(row, block * lanes + lane);
    const int64_t size = std::min(together, count - lane);
    for (int64_t pixel = 0; pixel < row.width; ++pixel)
      copySome(from + pixel * lanes + lane, size, to + pixel * step);
  }
}

/// How to move the blocks of a row.
struct Moves {
  bool isPlain;
  int64_t together; ///< channels
  /// Blocks from the first on that are moved pixel by pixel, so that what lies
  /// together is moved together.
  int64_t firstBlocks = 0;

  explicit Moves(const RowPlace &row)
      : isPlain(::isPlain(row)),
        together(row.places->isChannelsLast() ? lanes
                                              : row.places->blockChannels) {
    const int64_t whole =
        row.blocks - (countIn(row, row.block + row.blocks - 1) < lanes);
    if (row.places->isChannelsLast())
      firstBlocks = whole;
    else if (together % lanes == 0)
      firstBlocks = std::min<int64_t>(whole, 1);
  }
};

template <typename Element>
void readBlocks(const Element *image, const RowPlace &row, float *to,
                int64_t pitch) {
  const Moves moves(row);
  const int64_t end = row.block + row.blocks;
  for (int64_t block = row.block; block < end; to += pitch, ++block) {
    const Element *from = image + offsetOf(row, block * lanes);
    if (moves.isPlain) {
      readPlain(from, countIn(row, block), row, to);
    } else if (int64_t count = std::min(moves.firstBlocks, end - block);
               count > 0 && countIn(row, block) == lanes) {
      readTogether(from, count, row, to, pitch);
      block += count - 1;
      to += (count - 1) * pitch;
    } else {
      readGroups(image, block, std::min(lanes, moves.together), row, to);
    }
  }
}

template <typename Element>
void writeBlocks(const float *from, int64_t pitch, const RowPlace &row,
                 Element *image) {
  const Moves moves(row);
  const int64_t end = row.block + row.blocks;
  for (int64_t block = row.block; block < end; from += pitch, ++block) {
    Element *to = image + offsetOf(row, block * lanes);
    if (moves.isPlain) {
      writePlain(from, countIn(row, block), row, to);
    } else if (int64_t count = std::min(moves.firstBlocks, end - block);
               count > 0 && countIn(row, block) == lanes) {
      writeTogether(from, pitch, count, row, to);
      block += count - 1;
      from += (count - 1) * pitch;
    } else {
      writeGroups(from, block, std::min(lanes, moves.together), row, image);
    }
  }
}

void readRow(const void *image, const RowPlace &row, float *to, int64_t pitch) {
  if (row.isShort)
    readBlocks(static_cast<const uint16_t *>(image), row, to, pitch);
  else
    readBlocks(static_cast<const float *>(image), row, to, pitch);
}

void writeRow(const float *from, int64_t pitch, const RowPlace &row,
              void *image) {
  if (row.isShort)
    writeBlocks(from, pitch, row, static_cast<uint16_t *>(image));
  else
    writeBlocks(from, pitch, row, static_cast<float *>(image));
}

template <int channels> void spread(float *row, int64_t pixels, int64_t pitch) {
  for (int64_t pixel = 0; pixel < pixels; ++pixel, row += lanes)
    for (int64_t part = 0; part < lanes; part += width) {
      const Vector numbers = load(row + part);
#pragma unroll
      for (int i = 0; i < channels; ++i)
        store(row + i * pitch + part, pick(placesOf(channels, i), numbers));
    }
}

void spreadGroups(float *row, int64_t pixels, int64_t groupChannels,
                  int64_t pitch) {
  auto *function = groupChannels == 2   ? spread<2>
                   : groupChannels == 4 ? spread<4>
                                        : spread<8>;
  function(row, pixels, pitch);
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Outputs that have registers at a time.
constexpr int64_t mostOutputs = 8;

/// Of `count` outputs; `step` is the stride, 0: that of `sums`.
template <int count, int length, int step>
void writePart(const Sums &sums, const float *in, const float *weights,
               float *out) {
  Vector total[count];
#pragma unroll
  for (int i = 0; i < count; ++i)
    total[i] = zero();
  const int64_t stride = (step == 0 ? sums.stride : step) * lanes;
  for (int64_t segment = 0; segment < sums.segments; ++segment) {
    const float *from = in + sums.offsets[segment];
    Vector factors[length];
#pragma unroll
    for (int k = 0; k < length; ++k)
      factors[k] = load(weights + k * lanes);
    weights += length * lanes;
    if constexpr (step == 0) {
#pragma unroll
      for (int i = 0; i < count; ++i)
        total[i] = multiplyAdd(load(from + i * stride), factors[0], total[i]);
    } else {
#pragma unroll
      for (int at = 0; at < (count - 1) * step + length; ++at) {
        const Vector pixel = load(from + at * lanes);
#pragma unroll
        for (int k = 0; k < length; ++k)
          if (at >= k && (at - k) % step == 0 && (at - k) / step < count)
            total[(at - k) / step] =
                multiplyAdd(pixel, factors[k], total[(at - k) / step]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < count; ++i)
    store(out + i * sums.outStep, total[i]);
}

template <int count, int length, int step>
void writeSome(const Sums &sums, const float *in, float *out) {
  for (int64_t part = 0; part < lanes; part += width)
    writePart<count, length, step>(sums, in + part, sums.weights + part,
                                   out + part);
}

/// By outputs - 1.
using Writers =
    std::array<void (*)(const Sums &sums, const float *in, float *out),
               mostOutputs>;

template <int length, int step>
constexpr Writers writersOf =
    []<int... count>(std::integer_sequence<int, count...>) {
      return Writers{writeSome<count + 1, length, step>...};
    }(std::make_integer_sequence<int, mostOutputs>());

/// By length - 1.
template <int step>
constexpr auto denseWriters = []<int... length>(
                                  std::integer_sequence<int, length...>) {
  return std::array<Writers, longestSegment>{writersOf<length + 1, step>...};
}(std::make_integer_sequence<int, longestSegment>());

const Writers &findWriters(const Sums &sums) {
  return sums.stride == 1   ? denseWriters<1>[sums.length - 1]
         : sums.stride == 2 ? denseWriters<2>[sums.length - 1]
                            : writersOf<1, 0>;
}

void writeSums(const Sums &sums) {
  const Writers &writers = findWriters(sums);
  // As even as can be: one output alone waits for each of its sums.
  const int64_t rounds = (sums.outputs + mostOutputs - 1) / mostOutputs;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t begin = sums.outputs * round / rounds;
    const int64_t count = sums.outputs * (round + 1) / rounds - begin;
    writers[count - 1](sums, sums.in + begin * sums.stride * lanes,
                       sums.out + begin * sums.outStep);
  }
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Pixels of dY that have registers at a time.
constexpr int pixelsAtATime = 4;

/// Of `count` pixels of dY. Each sum has its terms in the order of pixels.
template <int count, int segments, int length, int step>
__attribute__((always_inline)) void
addPixels(const float *const *from, int64_t pixel, int64_t stride,
          const float *dy, Vector (&total)[segments][length]) {
  Vector factors[count];
#pragma unroll
  for (int i = 0; i < count; ++i)
    factors[i] = load(dy + (pixel + i) * lanes);
#pragma unroll
  for (int segment = 0; segment < segments; ++segment) {
    const float *x = from[segment] + pixel * stride;
    if constexpr (step == 0) {
#pragma unroll
      for (int i = 0; i < count; ++i)
        total[segment][0] =
            multiplyAdd(load(x + i * stride), factors[i], total[segment][0]);
    } else {
#pragma unroll
      for (int at = 0; at < (count - 1) * step + length; ++at) {
        const Vector seen = load(x + at * lanes);
#pragma unroll
        for (int k = 0; k < length; ++k)
          if (at >= k && (at - k) % step == 0 && (at - k) / step < count)
            total[segment][k] =
                multiplyAdd(seen, factors[(at - k) / step], total[segment][k]);
      }
    }
  }
}

template <int segments, int length, int step>
void addPart(const Products &products, int64_t first, int64_t part) {
  Vector total[segments][length];
  const float *from[segments];
#pragma unroll
  for (int segment = 0; segment < segments; ++segment) {
    from[segment] = products.x + products.offsets[first + segment] + part;
#pragma unroll
    for (int k = 0; k < length; ++k)
      total[segment][k] = zero();
  }
  const int64_t stride = (step == 0 ? products.stride : step) * lanes;
  const float *dy = products.dy + part;
  for (int64_t row = 0; row < products.rows; ++row) {
    int64_t pixel = 0;
    for (; pixel + pixelsAtATime <= products.width; pixel += pixelsAtATime)
      addPixels<pixelsAtATime, segments, length, step>(from, pixel, stride, dy,
                                                       total);
    for (; pixel < products.width; ++pixel)
      addPixels<1, segments, length, step>(from, pixel, stride, dy, total);
#pragma unroll
    for (int segment = 0; segment < segments; ++segment)
      from[segment] += products.xPitch;
    dy += products.gradPitch;
  }
  float *to = products.sums + first * length * lanes + part;
#pragma unroll
  for (int segment = 0; segment < segments; ++segment)
#pragma unroll
    for (int k = 0; k < length; ++k, to += lanes)
      store(to, add(load(to), total[segment][k]));
}

template <int segments, int length, int step>
void addSegments(const Products &products, int64_t first) {
  for (int64_t part = 0; part < lanes; part += width)
    addPart<segments, length, step>(products, first, part);
}

template <int length, int step> void addAll(const Products &products) {
  constexpr int most = mostSegments<length>;
  using Add = void(const Products &products, int64_t first);
  static constexpr auto adders = []<int... segments>(
                                     std::integer_sequence<int, segments...>) {
    return std::array<Add *, most>{addSegments<segments + 1, length, step>...};
  }(std::make_integer_sequence<int, most>());
  const int64_t rounds = (products.segments + most - 1) / most;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t begin = products.segments * round / rounds;
    const int64_t end = products.segments * (round + 1) / rounds;
    adders[end - begin - 1](products, begin);
  }
}

template <int step> void addAll(const Products &products) {
  using Add = void(const Products &products);
  static constexpr auto adders =
      []<int... length>(std::integer_sequence<int, length...>) {
        return std::array<Add *, longestSegment>{addAll<length + 1, step>...};
      }(std::make_integer_sequence<int, longestSegment>());
  adders[products.length - 1](products);
}

void addProducts(const Products &products) {
  if (products.stride == 1)
    addAll<1>(products);
  else if (products.stride == 2)
    addAll<2>(products);
  else
    addAll<1, 0>(products);
}

constexpr RowLoops loops = {readRow, writeRow, spreadGroups, writeSums,
                            addProducts};

} // namespace
