//===- MaxPoolRows.cpp ----------------------------------------------------===//
#include "cpu/MaxPoolRows.h"
#include "cpu/Processor.h"
#include "plan/DataType.h"
#include "plan/ShortFloat.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

using namespace pp::runtime;

using Sizes = MaxPool::Shape;

#define PP_INLINE __attribute__((always_inline)) static inline

/// Of columns, with those of the padding around them.
static int64_t lineWidth(const Sizes &shape) {
  const int64_t last = (shape.result[2] - 1) * shape.strides[2] +
                       (shape.window[2] - 1) * shape.dilations[2] + 1;
  return std::max(shape.padding[2] + shape.image[2], last);
}

bool MaxPoolRows::isPossible(const Sizes &shape) {
  auto isPlain = [](const ImagePlaces &places) {
    return places.blockChannels == 1 && places.axes[2] == 1;
  };
  return __builtin_cpu_supports("avx2") && isPlain(shape.x) &&
         isPlain(shape.dy);
}

namespace {
/// The largest numbers that the windows of a row of y have seen, and where:
/// places of their windows.
struct Maxima {
  float *values;
  int32_t *places;
};
} // namespace

uint64_t MaxPoolRows::getScratchpadBytes() const {
  const int64_t forward = lineWidth(shape) + shape.result[2];
  const int64_t backward =
      2 * shape.result[2] + (shape.isShort ? countOf(shape.image) : 0);
  return alignUp(std::max(forward, backward) * sizeof(float));
}

PP_INLINE float widen(float value) { return value; }
PP_INLINE float widen(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
PP_INLINE void narrow(float value, float &to) { to = value; }
/// It has been one of bf16.
PP_INLINE void narrow(float value, uint16_t &to) {
  to = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
}

/// NaN stays, and takes the place of numbers.
PP_INLINE float larger(float largest, float value) {
  return value > largest || value != value ? value : largest;
}

/// Some columns of a line, `stride` apart.
template <int64_t stride>
PP_INLINE void takeColumns(const float *line, int64_t count, float *largest) {
  for (int64_t i = 0; i < count; ++i)
    largest[i] = larger(largest[i], line[i * stride]);
}

PP_INLINE void takeColumns(const float *line, int64_t stride, int64_t count,
                           float *largest) {
  switch (stride) {
  case 1:
    return takeColumns<1>(line, count, largest);
  case 2:
    return takeColumns<2>(line, count, largest);
  case 3:
    return takeColumns<3>(line, count, largest);
  case 4:
    return takeColumns<4>(line, count, largest);
  default:
    for (int64_t i = 0; i < count; ++i)
      largest[i] = larger(largest[i], line[i * stride]);
  }
}

template <typename Element>
PP_INLINE void findMaxima(const Sizes &shape,
                          std::span<const int64_t> emptyColumns,
                          const Element *x, Element *y, float *line) {
  float *const largest = line + lineWidth(shape);
  constexpr float least = -std::numeric_limits<float>::infinity();
  Element lowest;
  if constexpr (sizeof(Element) == sizeof(uint16_t))
    lowest = toBF16(std::numeric_limits<float>::lowest());
  else
    lowest = std::numeric_limits<float>::lowest();
  const int64_t width = lineWidth(shape), columns = shape.result[2];
  float *const inside = line + shape.padding[2];
  auto at = [&](size_t axis, int64_t pixel, int64_t place) {
    return pixel * shape.strides[axis] + place * shape.dilations[axis] -
           shape.padding[axis];
  };
  for (int64_t depth = 0; depth < shape.result[0]; ++depth)
    for (int64_t row = 0; row < shape.result[1]; ++row) {
      std::fill_n(line, width, least);
      bool isEmpty = true;
      for (int64_t a = 0; a < shape.window[0]; ++a)
        for (int64_t b = 0; b < shape.window[1]; ++b) {
          const int64_t down = at(0, depth, a), across = at(1, row, b);
          if (down < 0 || down >= shape.image[0] || across < 0 ||
              across >= shape.image[1])
            continue;
          isEmpty = false;
          const Element *from =
              x + down * shape.x.axes[0] + across * shape.x.axes[1];
          for (int64_t column = 0; column < shape.image[2]; ++column)
            inside[column] = larger(inside[column], widen(from[column]));
        }
      std::fill_n(largest, columns, least);
      for (int64_t c = 0; c < shape.window[2]; ++c)
        takeColumns(line + c * shape.dilations[2], shape.strides[2], columns,
                    largest);
      Element *to = y + depth * shape.dy.axes[0] + row * shape.dy.axes[1];
      for (int64_t column = 0; column < columns; ++column)
        narrow(largest[column], to[column]);
      if (isEmpty)
        std::fill_n(to, columns, lowest);
      for (int64_t column : emptyColumns)
        to[column] = lowest;
    }
}

/// Shows the windows from `first` on, `count` of them, a place each.
template <int64_t stride, typename Element>
PP_INLINE void showPlaces(const Element *from, int64_t count, int32_t place,
                          float *values, int32_t *places) {
  for (int64_t i = 0; i < count; ++i) {
    const float value = widen(from[i * stride]);
    const bool isTaken =
        (places[i] < 0) | (value > values[i]) | (value != value);
    values[i] = isTaken ? value : values[i];
    places[i] = isTaken ? place : places[i];
  }
}

template <typename Element>
PP_INLINE void showPlaces(const Element *from, int64_t stride, int64_t count,
                          int32_t place, float *values, int32_t *places) {
  switch (stride) {
  case 1:
    return showPlaces<1>(from, count, place, values, places);
  case 2:
    return showPlaces<2>(from, count, place, values, places);
  case 3:
    return showPlaces<3>(from, count, place, values, places);
  default:
    for (int64_t i = 0; i < count; ++i)
      showPlaces<0>(from + i * stride, 1, place, values + i, places + i);
  }
}

/// Adds what belongs to a plane of x to `sums`.
template <typename Element>
PP_INLINE void addToMaxima(const Sizes &shape, const Element *x,
                           const Element *dy, float *sums, Maxima maxima) {
  const auto &[depths, rows, columns] = shape.result;
  const ImageAxes &window = shape.window;
  auto at = [&](size_t axis, int64_t pixel, int64_t place) {
    return pixel * shape.strides[axis] + place * shape.dilations[axis] -
           shape.padding[axis];
  };
  // Where a place of the window of pixel 0 is in a plane of x.
  auto offsetOf = [&](int64_t depth, int64_t row, int64_t place) {
    const ImageAxes in = splitIndex(place, window);
    return (at(0, depth, in[0]) * shape.image[1] + at(1, row, in[1])) *
               shape.image[2] +
           at(2, 0, in[2]);
  };
  for (int64_t depth = 0; depth < depths; ++depth)
    for (int64_t row = 0; row < rows; ++row) {
      std::fill_n(maxima.places, columns, -1);
      for (int64_t place = 0; place < countOf(window); ++place) {
        const ImageAxes in = splitIndex(place, window);
        const int64_t down = at(0, depth, in[0]), across = at(1, row, in[1]);
        if (down < 0 || down >= shape.image[0] || across < 0 ||
            across >= shape.image[1])
          continue;
        // The columns of y whose place is inside of x.
        const int64_t step = shape.strides[2], before = -at(2, 0, in[2]);
        const int64_t first = before > 0 ? (before + step - 1) / step : 0;
        const int64_t end =
            std::min(columns, (shape.image[2] - 1 + before + step) / step);
        const Element *from = x + down * shape.x.axes[0] +
                              across * shape.x.axes[1] + first * step - before;
        if (first < end)
          showPlaces(from, step, end - first, static_cast<int32_t>(place),
                     maxima.values + first, maxima.places + first);
      }
      const Element *gradient =
          dy + depth * shape.dy.axes[0] + row * shape.dy.axes[1];
      for (int64_t column = 0; column < columns; ++column)
        if (const int32_t place = maxima.places[column]; place >= 0)
          sums[offsetOf(depth, row, place) + column * shape.strides[2]] +=
              widen(gradient[column]);
    }
}

#define PP_FOR_PROCESSOR(name, features)                                       \
  template <typename Element>                                                  \
  __attribute__((target(features))) static void findMaxima##name(              \
      const Sizes &shape, std::span<const int64_t> emptyColumns,               \
      const Element *x, Element *y, float *line) {                             \
    findMaxima(shape, emptyColumns, x, y, line);                               \
  }                                                                            \
  template <typename Element>                                                  \
  __attribute__((target(features))) static void addToMaxima##name(             \
      const Sizes &shape, const Element *x, const Element *dy, float *sums,    \
      Maxima maxima) {                                                         \
    addToMaxima(shape, x, dy, sums, maxima);                                   \
  }

PP_FOR_PROCESSOR(Avx2, "avx2")
PP_FOR_PROCESSOR(Avx512, "avx512f,avx512vl,avx512bw,avx512dq")

MaxPoolRows::MaxPoolRows(const Shape &shape) : shape(shape) {
  for (int64_t column = 0; column < shape.result[2]; ++column) {
    bool isEmpty = true;
    for (int64_t place = 0; place < shape.window[2]; ++place) {
      const int64_t at = column * shape.strides[2] +
                         place * shape.dilations[2] - shape.padding[2];
      isEmpty &= at < 0 || at >= shape.image[2];
    }
    if (isEmpty)
      emptyColumns.push_back(column);
  }
}

static bool isWide() {
  static const bool hasAll =
      hasAvx512() && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  return hasAll;
}

template <typename Element>
static void runRows(const Sizes &shape, std::span<const int64_t> emptyColumns,
                    const Element *x, Element *y, float *line) {
  auto *find = isWide() ? findMaximaAvx512<Element> : findMaximaAvx2<Element>;
  for (int64_t sample = 0; sample < shape.samples; ++sample)
    for (int64_t channel = 0; channel < shape.channels; ++channel)
      find(shape, emptyColumns,
           x + sample * shape.x.sample + channel * shape.x.block,
           y + sample * shape.dy.sample + channel * shape.dy.block, line);
}

void MaxPoolRows::run(const void *x, void *y, void *scratchpad) const {
  auto *line = static_cast<float *>(scratchpad);
  if (shape.isShort)
    runRows(shape, emptyColumns, static_cast<const uint16_t *>(x),
            static_cast<uint16_t *>(y), line);
  else
    runRows(shape, emptyColumns, static_cast<const float *>(x),
            static_cast<float *>(y), line);
}

template <typename Element>
static void runGradientRows(const Sizes &shape, const Element *x,
                            const Element *dy, Element *dx, float *scratchpad) {
  constexpr bool isShort = sizeof(Element) == sizeof(uint16_t);
  auto *add = isWide() ? addToMaximaAvx512<Element> : addToMaximaAvx2<Element>;
  const int64_t count = countOf(shape.image), columns = shape.result[2];
  const Maxima maxima{scratchpad,
                      reinterpret_cast<int32_t *>(scratchpad + columns)};
  for (int64_t sample = 0; sample < shape.samples; ++sample)
    for (int64_t channel = 0; channel < shape.channels; ++channel) {
      const int64_t from = sample * shape.x.sample + channel * shape.x.block;
      float *sums = scratchpad + 2 * columns;
      if constexpr (!isShort)
        sums = dx + from;
      std::fill_n(sums, count, 0.0f);
      add(shape, x + from,
          dy + sample * shape.dy.sample + channel * shape.dy.block, sums,
          maxima);
      if constexpr (isShort)
        for (int64_t i = 0; i < count; ++i)
          dx[from + i] = toBF16(sums[i]);
    }
}

void MaxPoolRows::runGradient(const void *x, const void *dy, void *dx,
                              void *scratchpad) const {
  auto *own = static_cast<float *>(scratchpad);
  if (shape.isShort)
    runGradientRows(shape, static_cast<const uint16_t *>(x),
                    static_cast<const uint16_t *>(dy),
                    static_cast<uint16_t *>(dx), own);
  else
    runGradientRows(shape, static_cast<const float *>(x),
                    static_cast<const float *>(dy), static_cast<float *>(dx),
                    own);
}
