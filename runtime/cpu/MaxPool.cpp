//===- MaxPool.cpp --------------------------------------------------------===//
#include "cpu/MaxPool.h"
#include "cpu/ChannelLanes.h"
#include "cpu/Processor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

using namespace pp::runtime;

using Shape = MaxPool::Shape;

/// Lambdas have no processor of their own.
#define PP_ALWAYS __attribute__((always_inline))

static constexpr int64_t mostPlaces = 64;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

/// Channels at a time; 0: there is no such number.
static int64_t lanesOf(const Shape &shape) {
  for (int64_t lanes : {16, 8}) {
    auto fits = [&](const ImagePlaces &places) {
      return places.isChannelsLast() || places.blockChannels == lanes;
    };
    if (shape.channels % lanes == 0 && fits(shape.x) && fits(shape.dy))
      return lanes;
  }
  return 0;
}

static int64_t reach(const Shape &shape, size_t axis) {
  return (shape.window[axis] - 1) * shape.dilations[axis] + 1;
}

bool MaxPool::isPossible(const Shape &shape) {
  return __builtin_cpu_supports("avx2") && lanesOf(shape) != 0 &&
         countOf(shape.window) <= mostPlaces &&
         (!shape.isShort || (shape.image[0] == 1 && shape.result[0] == 1));
}

namespace {
/// Channels of images, `lanes` of them at a time.
struct Channels {
  int64_t groups, x, y; // elements from one group to the next

  Channels(const Shape &shape, int64_t lanes)
      : groups(shape.channels / lanes), x(step(shape.x, lanes)),
        y(step(shape.dy, lanes)) {}

private:
  static int64_t step(const ImagePlaces &places, int64_t lanes) {
    return places.isChannelsLast() ? lanes : places.block;
  }
};

/// Where the sums for rows of dx are.
struct SumRows {
  int64_t depth, row, column, group; // elements from one to the next
  int64_t count;                     // rows that there are at a time

  int64_t offsetOf(int64_t depthIndex, int64_t rowIndex) const {
    return depthIndex * depth + rowIndex % count * row;
  }
};

/// A place of a window, as its pixel in column 0 has it.
struct Place {
  int64_t x, sums, column;
};

/// What windows see: the places of those of one row of y, then of one.
class Windows {
public:
  Windows(const Shape &shape, const SumRows &sums) : shape(shape), sums(sums) {}

  void setRow(int64_t depth, int64_t row) {
    count = 0;
    for (int64_t a = 0; a < shape.window[0]; ++a)
      for (int64_t b = 0; b < shape.window[1]; ++b) {
        const int64_t down = at(0, depth, a), across = at(1, row, b);
        if (down < 0 || down >= shape.image[0] || across < 0 ||
            across >= shape.image[1])
          continue;
        for (int64_t c = 0; c < shape.window[2]; ++c) {
          const int64_t column = at(2, 0, c);
          all[count++] = {down * shape.x.axes[0] + across * shape.x.axes[1] +
                              column * shape.x.axes[2],
                          sums.offsetOf(down, across) + column * sums.column,
                          column};
        }
      }
  }

  /// What the window of a column sees, and how many columns it is moved.
  struct Seen {
    const Place *places;
    int count;
    int64_t moved;
  };
  Seen atColumn(int64_t column) {
    const int64_t moved = column * shape.strides[2];
    const int64_t first = moved - shape.padding[2];
    if (first >= 0 && first + reach(shape, 2) <= shape.image[2])
      return {all.data(), count, moved};
    int seen = 0;
    for (int i = 0; i < count; ++i)
      if (const int64_t place = all[i].column + moved;
          place >= 0 && place < shape.image[2])
        some[seen++] = all[i];
    return {some.data(), seen, moved};
  }

  int64_t at(size_t axis, int64_t pixel, int64_t place) const {
    return pixel * shape.strides[axis] + place * shape.dilations[axis] -
           shape.padding[axis];
  }

private:
  const Shape &shape;
  const SumRows sums;
  std::array<Place, mostPlaces> all, some;
  int count = 0;
};
} // namespace

//===----------------------------------------------------------------------===//
// Maxima
//===----------------------------------------------------------------------===//

/// The largest of numbers at some places, and a mask of the lanes in which one
/// of them is none.
template <int lanes> struct Largest {
  LanesOf<lanes> value{};
  decltype(value != value) isNone{};
};

template <int lanes, typename Element>
PP_INLINE void findLargest(const Element *x, const Place *places, int count,
                           Largest<lanes> &to) {
  if (count == 0)
    return;
  to.value = loadLanes<lanes>(x + places[0].x);
  to.isNone = to.value != to.value;
  for (int i = 1; i < count; ++i) {
    LanesOf<lanes> value = loadLanes<lanes>(x + places[i].x);
    to.value = value > to.value ? value : to.value;
    to.isNone |= value != value;
  }
}

/// For a window of `fixed` places, or of `count` where that is 0.
template <int lanes, int fixed, typename Element>
PP_INLINE void findMaximum(const Place *places, int count, const Element *x,
                           const Channels &channels, Element *y) {
  const int all = fixed != 0 ? fixed : count;
  const LanesOf<lanes> none =
      LanesOf<lanes>{} + std::numeric_limits<float>::quiet_NaN();
  for (int64_t group = 0; group < channels.groups;
       ++group, x += channels.x, y += channels.y) {
    Largest<lanes> largest;
    largest.value += std::numeric_limits<float>::lowest();
    findLargest<lanes>(x, places, all, largest);
    const LanesOf<lanes> best = largest.isNone ? none : largest.value;
    storeLanes<lanes>(y, best);
  }
}

template <int lanes, typename Element>
PP_INLINE void findMaxima(const Shape &shape, const Element *x, Element *y) {
  const Channels channels(shape, lanes);
  Windows windows(shape, SumRows{0, 0, 0, 0, 1});
  for (int64_t depth = 0; depth < shape.result[0]; ++depth)
    for (int64_t row = 0; row < shape.result[1]; ++row) {
      windows.setRow(depth, row);
      Element *to = y + depth * shape.dy.axes[0] + row * shape.dy.axes[1];
      for (int64_t column = 0; column < shape.result[2];
           ++column, to += shape.dy.axes[2]) {
        const auto [places, count, moved] = windows.atColumn(column);
        const Element *from = x + moved * shape.x.axes[2];
        if (count == 9)
          findMaximum<lanes, 9>(places, count, from, channels, to);
        else if (count == 4)
          findMaximum<lanes, 4>(places, count, from, channels, to);
        else
          findMaximum<lanes, 0>(places, count, from, channels, to);
      }
    }
}

//===----------------------------------------------------------------------===//
// Their gradient
//===----------------------------------------------------------------------===//

/// Sums are in dx itself, or in a ring of rows.
template <typename Element>
static SumRows sumRowsOf(const Shape &shape, int64_t lanes) {
  const int64_t rowNumbers = shape.image[2] * shape.channels;
  if constexpr (sizeof(Element) == sizeof(uint16_t))
    return {0, rowNumbers, shape.channels, lanes, reach(shape, 1)};
  return {shape.x.axes[0], shape.x.axes[1], shape.x.axes[2],
          Channels(shape, lanes).x, std::numeric_limits<int64_t>::max()};
}

static float widen(float value) { return value; }
static float widen(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

/// The same as below, lane by lane, where something is no number. A window of
/// no places has nothing to add to.
template <typename Element>
static void addToNone(const Place *places, int count, const Element *x,
                      const Element *dy, float *sums, int64_t lanes) {
  for (int64_t lane = 0; lane < lanes; ++lane) {
    int best = 0;
    for (int i = 1; i < count; ++i) {
      const float value = widen(x[places[i].x + lane]);
      if (std::isnan(value) || value > widen(x[places[best].x + lane]))
        best = i;
    }
    sums[places[best].sums + lane] += widen(dy[lane]);
  }
}

/// `fixed` as forward.
template <int lanes, int fixed, typename Element>
PP_INLINE void addToMaximum(const Place *places, int count, const Element *x,
                            const Element *dy, const Channels &channels,
                            float *sums, int64_t sumGroup) {
  const int all = fixed != 0 ? fixed : count;
  for (int64_t group = 0; group < channels.groups;
       ++group, x += channels.x, dy += channels.y, sums += sumGroup) {
    Largest<lanes> largest;
    findLargest<lanes>(x, places, all, largest);
    if (__builtin_reduce_or(largest.isNone) != 0) [[unlikely]] {
      addToNone(places, all, x, dy, sums, lanes);
      continue;
    }
    LanesOf<lanes> gradient = loadLanes<lanes>(dy);
    for (int i = 0; i < all; ++i) {
      auto isIt = loadLanes<lanes>(x + places[i].x) == largest.value;
      LanesOf<lanes> part = isIt ? gradient : LanesOf<lanes>{};
      // The first one takes it.
      gradient = isIt ? LanesOf<lanes>{} : gradient;
      float *sum = sums + places[i].sums;
      storeLanes<lanes>(sum, loadLanes<lanes>(sum) + part);
    }
  }
}

template <int lanes, typename Element>
PP_INLINE void addToMaxima(const Shape &shape, const Element *x,
                           const Element *dy, Element *dx, float *ring) {
  constexpr bool isShort = sizeof(Element) == sizeof(uint16_t);
  const Channels channels(shape, lanes);
  const SumRows rows = sumRowsOf<Element>(shape, lanes);
  float *sums = ring;
  if constexpr (!isShort)
    sums = dx;
  Windows windows(shape, rows);
  auto clear = [&](int64_t depth, int64_t row) PP_ALWAYS {
    float *to = sums + rows.offsetOf(depth, row);
    for (int64_t group = 0; group < channels.groups; ++group)
      for (int64_t column = 0; column < shape.image[2]; ++column)
        storeLanes<lanes>(to + group * rows.group + column * rows.column,
                          LanesOf<lanes>{});
  };
  auto finish = [&](int64_t row) PP_ALWAYS {
    if constexpr (isShort) {
      const float *from = sums + rows.offsetOf(0, row);
      Element *to = dx + row * shape.x.axes[1];
      for (int64_t column = 0; column < shape.image[2]; ++column)
        for (int64_t group = 0; group < channels.groups; ++group)
          storeLanes<lanes>(to + column * shape.x.axes[2] + group * channels.x,
                            loadLanes<lanes>(from + column * rows.column +
                                             group * rows.group));
    }
  };
  const bool isVolume = shape.image[0] > 1;
  if (isVolume)
    for (int64_t depth = 0; depth < shape.image[0]; ++depth)
      for (int64_t row = 0; row < shape.image[1]; ++row)
        clear(depth, row);
  // Rows are cleared just before a window first sees them, and finished when
  // none will see them again.
  int64_t cleared = 0, finished = 0;
  auto advance = [&](int64_t firstSeen, int64_t lastSeen) PP_ALWAYS {
    if (isVolume)
      return;
    const int64_t most = shape.image[1];
    while (finished < std::min(firstSeen, most)) {
      if (finished == cleared)
        clear(0, cleared++);
      finish(finished++);
    }
    while (cleared <= std::min(lastSeen, most - 1))
      clear(0, cleared++);
  };
  for (int64_t depth = 0; depth < shape.result[0]; ++depth)
    for (int64_t row = 0; row < shape.result[1]; ++row) {
      advance(windows.at(1, row, 0), windows.at(1, row, shape.window[1] - 1));
      windows.setRow(depth, row);
      const Element *from =
          dy + depth * shape.dy.axes[0] + row * shape.dy.axes[1];
      for (int64_t column = 0; column < shape.result[2];
           ++column, from += shape.dy.axes[2]) {
        const auto [places, count, moved] = windows.atColumn(column);
        const Element *seen = x + moved * shape.x.axes[2];
        float *into = sums + moved * rows.column;
        if (count == 9)
          addToMaximum<lanes, 9>(places, count, seen, from, channels, into,
                                 rows.group);
        else if (count == 4)
          addToMaximum<lanes, 4>(places, count, seen, from, channels, into,
                                 rows.group);
        else
          addToMaximum<lanes, 0>(places, count, seen, from, channels, into,
                                 rows.group);
      }
    }
  advance(shape.image[1], 0);
}

//===----------------------------------------------------------------------===//
// For each processor
//===----------------------------------------------------------------------===//

namespace {
struct Functions {
  void (*find)(const Shape &shape, const void *x, void *y);
  void (*add)(const Shape &shape, const void *x, const void *dy, void *dx,
              float *ring);
};
} // namespace

#define PP_FOR_PROCESSOR(name, features)                                       \
  template <int lanes, typename Element>                                       \
  __attribute__((target(features))) static void findMaxima##name(              \
      const Shape &shape, const void *x, void *y) {                            \
    findMaxima<lanes>(shape, static_cast<const Element *>(x),                  \
                      static_cast<Element *>(y));                              \
  }                                                                            \
  template <int lanes, typename Element>                                       \
  __attribute__((target(features))) static void addToMaxima##name(             \
      const Shape &shape, const void *x, const void *dy, void *dx,             \
      float *ring) {                                                           \
    addToMaxima<lanes>(shape, static_cast<const Element *>(x),                 \
                       static_cast<const Element *>(dy),                       \
                       static_cast<Element *>(dx), ring);                      \
  }                                                                            \
  template <int lanes, typename Element>                                       \
  static constexpr Functions functions##name = {                               \
      findMaxima##name<lanes, Element>, addToMaxima##name<lanes, Element>};

PP_FOR_PROCESSOR(Avx2, "avx2")
PP_FOR_PROCESSOR(Avx512, "avx512f,avx512vl,avx512bw")

template <int lanes, typename Element>
static const Functions &functionsOfProcessor() {
  static const bool isWide = hasAvx512() &&
                             __builtin_cpu_supports("avx512vl") &&
                             __builtin_cpu_supports("avx512bw");
  return isWide ? functionsAvx512<lanes, Element>
                : functionsAvx2<lanes, Element>;
}

static const Functions &functionsFor(const Shape &shape) {
  if (lanesOf(shape) == 16)
    return shape.isShort ? functionsOfProcessor<16, uint16_t>()
                         : functionsOfProcessor<16, float>();
  return shape.isShort ? functionsOfProcessor<8, uint16_t>()
                       : functionsOfProcessor<8, float>();
}

/// Calls `visit` with images whose channels lie together, and where they are in
/// x and y, in bytes: samples, or blocks of their channels.
template <typename Visit>
static void forEachImage(const Shape &shape, const Visit &visit) {
  const bool isLast = shape.x.isChannelsLast();
  const int64_t size = shape.isShort ? sizeof(uint16_t) : sizeof(float);
  Shape image = shape;
  if (!isLast)
    image.channels = lanesOf(shape);
  for (int64_t sample = 0; sample < shape.samples; ++sample)
    for (int64_t channel = 0; channel < shape.channels;
         channel += image.channels)
      visit(image,
            (sample * shape.x.sample + shape.x.offsetOfChannel(channel)) * size,
            (sample * shape.dy.sample + shape.dy.offsetOfChannel(channel)) *
                size);
}

void MaxPool::run(const void *x, void *y) const {
  const Functions &functions = functionsFor(shape);
  forEachImage(shape, [&](const Shape &image, int64_t ofX, int64_t ofY) {
    functions.find(image, static_cast<const char *>(x) + ofX,
                   static_cast<char *>(y) + ofY);
  });
}

uint64_t MaxPool::getScratchpadBytes() const {
  if (!shape.isShort)
    return 0;
  const uint64_t bytes =
      reach(shape, 1) * shape.image[2] * shape.channels * sizeof(float);
  return (bytes + 63) / 64 * 64;
}

void MaxPool::runGradient(const void *x, const void *dy, void *dx,
                          void *scratchpad) const {
  const Functions &functions = functionsFor(shape);
  forEachImage(shape, [&](const Shape &image, int64_t ofX, int64_t ofY) {
    functions.add(image, static_cast<const char *>(x) + ofX,
                  static_cast<const char *>(dy) + ofY,
                  static_cast<char *>(dx) + ofX,
                  static_cast<float *>(scratchpad));
  });
}
