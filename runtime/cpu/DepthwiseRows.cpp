//===- DepthwiseRows.cpp --------------------------------------------------===//
#include "cpu/DepthwiseRows.h"
#include "cpu/TransposeRows.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

using namespace pp::runtime;
using namespace pp::runtime::depthwise;

#define PP_AVX512 __attribute__((target("avx512f")))
#define PP_INLINE PP_AVX512 __attribute__((always_inline)) static inline

//===----------------------------------------------------------------------===//
// Between images and rows
//===----------------------------------------------------------------------===//

static __mmask16 firstLanes(int64_t count) {
  return static_cast<__mmask16>((1u << count) - 1);
}

PP_INLINE __m512 widen(__m256i bits) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

/// Rounds to the nearest, ties to even; what is not a number stays so.
PP_INLINE __m256i narrow(__m512 value) {
  __m512i bits = _mm512_castps_si512(value);
  __m512i odd =
      _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded =
      _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  __mmask16 isNumber = _mm512_cmp_ps_mask(value, value, _CMP_ORD_Q);
  rounded = _mm512_mask_blend_epi32(isNumber, quiet, rounded);
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}

PP_INLINE __m512 loadLanes(const float *from, int64_t count) {
  return count == lanes ? _mm512_loadu_ps(from)
                        : _mm512_maskz_loadu_ps(firstLanes(count), from);
}
PP_INLINE __m512 loadLanes(const uint16_t *from, int64_t count) {
  if (count == lanes)
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(from)));
  alignas(32) uint16_t some[lanes] = {};
  std::memcpy(some, from, count * sizeof(uint16_t));
  return widen(_mm256_load_si256(reinterpret_cast<const __m256i *>(some)));
}

PP_INLINE void storeLanes(float *to, __m512 value, int64_t count) {
  _mm512_mask_storeu_ps(to, firstLanes(count), value);
}
PP_INLINE void storeLanes(uint16_t *to, __m512 value, int64_t count) {
  __m256i bits = narrow(value);
  if (count == lanes) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), bits);
    return;
  }
  alignas(32) uint16_t some[lanes];
  _mm256_store_si256(reinterpret_cast<__m256i *>(some), bits);
  std::memcpy(to, some, count * sizeof(uint16_t));
}

static int64_t offsetOf(const RowPlace &row, int64_t channel) {
  return row.offset + row.places->offsetOfChannel(channel);
}

/// The channels of a block.
static int64_t countIn(const RowPlace &row, int64_t block) {
  return std::min(lanes, row.channels - block * lanes);
}

/// Whether each channel's pixels of a row lie together.
static bool isPlain(const RowPlace &row) {
  const ImagePlaces &places = *row.places;
  return places.blockChannels == 1 && !places.isChannelsLast() &&
         (places.axes[2] == 1 || row.width == 1);
}

template <typename Element>
PP_AVX512 static void readPlain(const Element *from, int64_t count,
                                const RowPlace &row, float *to) {
  for (int64_t pixel = 0; pixel < row.width; pixel += lanes) {
    const int64_t pixels = std::min(lanes, row.width - pixel);
    LaneRows numbers;
    for (int64_t lane = 0; lane < lanes; ++lane)
      numbers[lane] =
          lane < count ? _mm512_castps_si512(loadLanes(
                             from + lane * row.places->block + pixel, pixels))
                       : _mm512_setzero_si512();
    transposeRows(numbers);
    for (int64_t i = 0; i < pixels; ++i)
      _mm512_storeu_si512(to + (pixel + i) * lanes, numbers[i]);
  }
}

template <typename Element>
PP_AVX512 static void writePlain(const float *from, int64_t count,
                                 const RowPlace &row, Element *to) {
  for (int64_t pixel = 0; pixel < row.width; pixel += lanes) {
    const int64_t pixels = std::min(lanes, row.width - pixel);
    LaneRows numbers;
    for (int64_t i = 0; i < lanes; ++i)
      numbers[i] = i < pixels ? _mm512_loadu_si512(from + (pixel + i) * lanes)
                              : _mm512_setzero_si512();
    transposeRows(numbers);
    for (int64_t lane = 0; lane < count; ++lane)
      storeLanes(to + lane * row.places->block + pixel,
                 _mm512_castsi512_ps(numbers[lane]), pixels);
  }
}

/// Blocks whose channels lie together, one after the other.
template <typename Element>
PP_AVX512 static void readTogether(const Element *from, int64_t blocks,
                                   const RowPlace &row, float *to,
                                   int64_t pitch) {
  const int64_t step = row.places->axes[2];
  for (int64_t pixel = 0; pixel < row.width; ++pixel)
    for (int64_t block = 0; block < blocks; ++block) {
      const Element *at = from + pixel * step + block * lanes;
      // Of the next row: those of one are too few to wait for memory.
      _mm_prefetch(reinterpret_cast<const char *>(at + row.places->axes[1]),
                   _MM_HINT_T0);
      _mm512_storeu_ps(to + block * pitch + pixel * lanes,
                       loadLanes(at, lanes));
    }
}

template <typename Element>
PP_AVX512 static void writeTogether(const float *from, int64_t pitch,
                                    int64_t blocks, const RowPlace &row,
                                    Element *to) {
  const int64_t step = row.places->axes[2];
  for (int64_t pixel = 0; pixel < row.width; ++pixel)
    for (int64_t block = 0; block < blocks; ++block)
      storeLanes(to + pixel * step + block * lanes,
                 _mm512_loadu_ps(from + block * pitch + pixel * lanes), lanes);
}

/// A block, of which `together` channels lie together.
template <typename Element>
PP_AVX512 static void readGroups(const Element *image, int64_t block,
                                 int64_t together, const RowPlace &row,
                                 float *to) {
  const int64_t count = countIn(row, block), step = row.places->axes[2];
  if (count < lanes)
    std::fill_n(to, row.width * lanes, 0.0F);
  for (int64_t lane = 0; lane < count; lane += together) {
    const Element *from = image + offsetOf(row, block * lanes + lane);
    const int64_t size = std::min(together, count - lane);
    for (int64_t pixel = 0; pixel < row.width; ++pixel)
      storeLanes(to + pixel * lanes + lane,
                 loadLanes(from + pixel * step, size), size);
  }
}

template <typename Element>
PP_AVX512 static void writeGroups(const float *from, int64_t block,
                                  int64_t together, const RowPlace &row,
                                  Element *image) {
  const int64_t count = countIn(row, block), step = row.places->axes[2];
  for (int64_t lane = 0; lane < count; lane += together) {
    Element *to = image + offsetOf(row, block * lanes + lane);
    const int64_t size = std::min(together, count - lane);
    for (int64_t pixel = 0; pixel < row.width; ++pixel)
      storeLanes(to + pixel * step,
                 loadLanes(from + pixel * lanes + lane, size), size);
  }
}

namespace {
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
} // namespace

template <typename Element>
static void read(const Element *image, const RowPlace &row, float *to,
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
static void write(const float *from, int64_t pitch, const RowPlace &row,
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

void depthwise::readRow(const void *image, const RowPlace &row, float *to,
                        int64_t pitch) {
  if (row.isShort)
    read(static_cast<const uint16_t *>(image), row, to, pitch);
  else
    read(static_cast<const float *>(image), row, to, pitch);
}

void depthwise::writeRow(const float *from, int64_t pitch, const RowPlace &row,
                         void *image) {
  if (row.isShort)
    write(from, pitch, row, static_cast<uint16_t *>(image));
  else
    write(from, pitch, row, static_cast<float *>(image));
}

template <int channels>
PP_AVX512 static void spread(float *row, int64_t width, int64_t pitch) {
  __m512i lane =
      _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512i first = _mm512_and_si512(lane, _mm512_set1_epi32(-channels));
  __m512i from[channels];
#pragma unroll
  for (int i = 0; i < channels; ++i)
    from[i] = _mm512_add_epi32(first, _mm512_set1_epi32(i));
  for (int64_t pixel = 0; pixel < width; ++pixel, row += lanes) {
    __m512 numbers = _mm512_loadu_ps(row);
#pragma unroll
    for (int i = 0; i < channels; ++i)
      _mm512_storeu_ps(row + i * pitch,
                       _mm512_permutexvar_ps(from[i], numbers));
  }
}

void depthwise::spreadGroups(float *row, int64_t width, int64_t groupChannels,
                             int64_t pitch) {
  auto *function = groupChannels == 2   ? spread<2>
                   : groupChannels == 4 ? spread<4>
                                        : spread<8>;
  function(row, width, pitch);
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Outputs that have registers at a time.
static constexpr int64_t mostOutputs = 8;

/// Of `count` outputs; `step` is the stride, 0: that of `sums`.
template <int count, int length, int step>
PP_AVX512 static void writeSome(const Sums &sums, const float *in, float *out) {
  __m512 total[count];
#pragma unroll
  for (int i = 0; i < count; ++i)
    total[i] = _mm512_setzero_ps();
  const int64_t stride = (step == 0 ? sums.stride : step) * lanes;
  const float *weights = sums.weights;
  for (int64_t segment = 0; segment < sums.segments; ++segment) {
    const float *from = in + sums.offsets[segment];
    __m512 factors[length];
#pragma unroll
    for (int k = 0; k < length; ++k)
      factors[k] = _mm512_loadu_ps(weights + k * lanes);
    weights += length * lanes;
    if constexpr (step == 0) {
#pragma unroll
      for (int i = 0; i < count; ++i)
        total[i] = _mm512_fmadd_ps(_mm512_loadu_ps(from + i * stride),
                                   factors[0], total[i]);
    } else {
#pragma unroll
      for (int at = 0; at < (count - 1) * step + length; ++at) {
        __m512 pixel = _mm512_loadu_ps(from + at * lanes);
#pragma unroll
        for (int k = 0; k < length; ++k)
          if (at >= k && (at - k) % step == 0 && (at - k) / step < count)
            total[(at - k) / step] =
                _mm512_fmadd_ps(pixel, factors[k], total[(at - k) / step]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < count; ++i)
    _mm512_storeu_ps(out + i * sums.outStep, total[i]);
}

/// By outputs - 1.
using Writers =
    std::array<void (*)(const Sums &sums, const float *in, float *out),
               mostOutputs>;

template <int length, int step>
static constexpr Writers writersOf =
    []<int... count>(std::integer_sequence<int, count...>) {
      return Writers{writeSome<count + 1, length, step>...};
    }(std::make_integer_sequence<int, mostOutputs>());

/// By length - 1.
template <int step>
static constexpr auto denseWriters =
    []<int... length>(std::integer_sequence<int, length...>) {
      return std::array<Writers, longestSegment>{
          writersOf<length + 1, step>...};
    }(std::make_integer_sequence<int, longestSegment>());

static const Writers &findWriters(const Sums &sums) {
  return sums.stride == 1   ? denseWriters<1>[sums.length - 1]
         : sums.stride == 2 ? denseWriters<2>[sums.length - 1]
                            : writersOf<1, 0>;
}

void depthwise::writeSums(const Sums &sums) {
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

/// Segments that have registers at a time.
template <int length>
static constexpr int mostSegments = length == 1   ? 8
                                    : length == 2 ? 6
                                    : length == 3 ? 5
                                    : length <= 5 ? 4
                                                  : 3;

/// Pixels of dY that have registers at a time.
static constexpr int pixelsAtATime = 4;

/// Of `count` pixels of dY. Each sum has its terms in the order of pixels.
template <int count, int segments, int length, int step>
PP_INLINE void addPixels(const float *const *from, int64_t pixel,
                         int64_t stride, const float *dy,
                         __m512 (&total)[segments][length]) {
  __m512 factors[count];
#pragma unroll
  for (int i = 0; i < count; ++i)
    factors[i] = _mm512_loadu_ps(dy + (pixel + i) * lanes);
#pragma unroll
  for (int segment = 0; segment < segments; ++segment) {
    const float *x = from[segment] + pixel * stride;
    if constexpr (step == 0) {
#pragma unroll
      for (int i = 0; i < count; ++i)
        total[segment][0] = _mm512_fmadd_ps(_mm512_loadu_ps(x + i * stride),
                                            factors[i], total[segment][0]);
    } else {
#pragma unroll
      for (int at = 0; at < (count - 1) * step + length; ++at) {
        __m512 seen = _mm512_loadu_ps(x + at * lanes);
#pragma unroll
        for (int k = 0; k < length; ++k)
          if (at >= k && (at - k) % step == 0 && (at - k) / step < count)
            total[segment][k] = _mm512_fmadd_ps(seen, factors[(at - k) / step],
                                                total[segment][k]);
      }
    }
  }
}

template <int segments, int length, int step>
PP_AVX512 static void addSegments(const Products &products, int64_t first) {
  __m512 total[segments][length];
  const float *from[segments];
#pragma unroll
  for (int segment = 0; segment < segments; ++segment) {
    from[segment] = products.x + products.offsets[first + segment];
#pragma unroll
    for (int k = 0; k < length; ++k)
      total[segment][k] = _mm512_setzero_ps();
  }
  const int64_t stride = (step == 0 ? products.stride : step) * lanes;
  const float *dy = products.dy;
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
  float *to = products.sums + first * length * lanes;
#pragma unroll
  for (int segment = 0; segment < segments; ++segment)
#pragma unroll
    for (int k = 0; k < length; ++k, to += lanes)
      _mm512_storeu_ps(to,
                       _mm512_add_ps(_mm512_loadu_ps(to), total[segment][k]));
}

template <int length, int step> static void addAll(const Products &products) {
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

template <int step> static void addAll(const Products &products) {
  using Add = void(const Products &products);
  static constexpr auto adders =
      []<int... length>(std::integer_sequence<int, length...>) {
        return std::array<Add *, longestSegment>{addAll<length + 1, step>...};
      }(std::make_integer_sequence<int, longestSegment>());
  adders[products.length - 1](products);
}

void depthwise::addProducts(const Products &products) {
  if (products.stride == 1)
    addAll<1>(products);
  else if (products.stride == 2)
    addAll<2>(products);
  else
    addAll<1, 0>(products);
}
