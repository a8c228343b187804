//===- ConvGradientShifts.cpp ---------------------------------------------===//
#include "cpu/ConvGradientShifts.h"
#include "cpu/Processor.h"

#include <algorithm>
#include <iterator>

using namespace pp::runtime;

/// Measured on Emerald Rapids, which has 48 KiB of L1 and 2 MiB of L2.
static constexpr int64_t mostTerms = 2048, fewestTerms = 512;
static constexpr uint64_t mostBytes = 3 << 19;
static constexpr int64_t pairBytes = matrixTileBytes / (matrixTileTerms / 2);

static int64_t roundUp(int64_t number, int64_t to) {
  return (number + to - 1) / to * to;
}

bool ConvGradientShifts::isPossible(const Shape &shape) {
  return ConvGradientTiles::isPossible(shape) &&
         shape.outputs % matrixTileLanes == 0 &&
         shape.dy.hasTogether(matrixTileLanes);
}

/// How far apart images, or rows of them, may be along an axis: so far that
/// what a window sees behind the one, and before the next, is no pixel.
static int64_t findExtent(const WindowSizes &sizes, size_t axis) {
  const int64_t stride = sizes.strides[axis], result = sizes.result[axis];
  auto isEnough = [&](int64_t extent) {
    for (int64_t place = 0; place < sizes.window[axis]; ++place) {
      const int64_t from = place * sizes.dilations[axis];
      const int64_t shift = from / stride, last = result - 1 + shift;
      const int64_t begin = std::max(extent, shift); // what is behind it
      auto pixelAt = [&](int64_t index) {
        return index * stride + from % stride - sizes.padding[axis];
      };
      if (begin <= last &&
          (pixelAt(begin) < sizes.image[axis] || pixelAt(last - extent) >= 0))
        return false;
    }
    return true;
  };
  int64_t extent = result;
  while (!isEnough(extent))
    ++extent;
  return extent;
}

ConvGradientShifts::ConvGradientShifts(const Shape &shape,
                                       const MatrixTiles &tiles)
    : shape(shape), tiles(tiles) {
  for (size_t axis = 0; axis < extents.size(); ++axis)
    extents[axis] = findExtent(shape, axis);
  for (int64_t index = 0; index < countOf(shape.window); ++index) {
    const ImageAxes in = splitIndex(index, shape.window);
    ImageAxes first;
    int64_t shift = 0;
    for (size_t axis = 0; axis < in.size(); ++axis) {
      const int64_t from = in[axis] * shape.dilations[axis];
      first[axis] = from % shape.strides[axis] - shape.padding[axis];
      shift = shift * extents[axis] + from / shape.strides[axis];
    }
    auto found = std::ranges::find(images, first, &Image::first);
    if (found == images.end())
      found = images.insert(images.end(), Image{.first = first});
    found->mostShift = std::max(found->mostShift, shift);
    found->copies[shift % 2] = true;
    places.push_back({static_cast<size_t>(found - images.begin()), shift});
  }
  termsAtOnce = mostTerms;
  while (termsAtOnce > fewestTerms &&
         measureRows(termsAtOnce) + measureImages(termsAtOnce) + measureSums() >
             mostBytes)
    termsAtOnce /= 2;
  termsAtOnce = std::min(termsAtOnce, roundUp(terms(), matrixTileTerms));
  for (Image &image : images)
    for (size_t copy = 0; copy < image.copies.size(); ++copy)
      if (image.copies[copy]) {
        image.at[copy] = panelPixels;
        panelPixels += pixelsOf(image, termsAtOnce);
      }
}

int64_t ConvGradientShifts::pixelsOf(const Image &image, int64_t count) const {
  return roundUp(count + image.mostShift, matrixTileTerms);
}

int64_t ConvGradientShifts::packedPercent() const {
  return 100 * panelPixels / (termsAtOnce * std::ssize(places));
}

uint64_t ConvGradientShifts::measureRows(int64_t count) const {
  return shape.outputs / matrixTileLanes * matrixPanelBytes(count, 1);
}

uint64_t ConvGradientShifts::measureImages(int64_t count) const {
  uint64_t pixels = 0;
  for (const Image &image : images)
    pixels += std::ranges::count(image.copies, true) * pixelsOf(image, count);
  return shape.channels / matrixTileLanes * pixels / 2 * pairBytes;
}

uint64_t ConvGradientShifts::measureSums() const {
  return roundUp(shape.outputs, matrixBlockLanes) *
         roundUp(shape.columns(), matrixBlockLanes) * sizeof(float);
}

uint64_t ConvGradientShifts::getScratchpadBytes() const {
  return measureRows(termsAtOnce) + measureImages(termsAtOnce) + measureSums();
}

bool ConvGradientShifts::isPreferred(const Shape &shape) {
  constexpr int64_t togetherPixels = 512; // up to, see MatrixTileSums
  constexpr uint64_t mostSums = 1 << 20;
  constexpr int64_t mostPercent = 50;
  if (!hasMatrixTiles() || !isPossible(shape) ||
      shape.pixels() <= togetherPixels)
    return false;
  const ConvGradientShifts shifts(shape, *shortTiles());
  return shifts.measureSums() <= mostSums &&
         8 * shifts.terms() <= 9 * shape.pixels() &&
         shifts.packedPercent() <= mostPercent;
}

/// Where the pixels of an axis begin that an image with its zeros has: index i
/// is pixel first + i * stride of `extent`.
struct ConvGradientShifts::Line {
  int64_t first, stride, extent;

  bool has(int64_t index) const {
    const int64_t pixel = first + index * stride;
    return pixel >= 0 && pixel < extent;
  }
};

void ConvGradientShifts::findOffsets(const ImagePlaces &places,
                                     const std::array<Line, 3> &lines,
                                     int64_t term,
                                     std::vector<int64_t> &offsets) const {
  const auto count = static_cast<int64_t>(offsets.size());
  int64_t sample = term / countOf(extents);
  ImageAxes at = splitIndex(term % countOf(extents), extents);
  for (int64_t i = 0; i < count;) {
    const int64_t run = std::min(extents[2] - at[2], count - i);
    bool isRow = sample < shape.samples;
    int64_t offset = sample * places.sample;
    for (size_t axis = 0; axis < 2; ++axis) {
      isRow &= lines[axis].has(at[axis]);
      offset += (lines[axis].first + at[axis] * lines[axis].stride) *
                places.axes[axis];
    }
    const Line &line = lines[2];
    const int64_t step = line.stride * places.axes[2];
    offset += line.first * places.axes[2];
    for (int64_t k = 0; k < run; ++k)
      offsets[i + k] =
          isRow && line.has(at[2] + k) ? offset + (at[2] + k) * step : -1;
    i += run;
    at[2] = 0;
    if (++at[1] < extents[1])
      continue;
    at[1] = 0;
    if (++at[0] < extents[0])
      continue;
    at[0] = 0;
    ++sample;
  }
}

void ConvGradientShifts::packRows(const uint16_t *dy, int64_t term,
                                  int64_t count, char *to) const {
  const int64_t tilesOfTerms = count / matrixTileTerms;
  const int64_t panelBytes = tilesOfTerms * matrixTileBytes;
  std::array<Line, 3> lines;
  for (size_t axis = 0; axis < lines.size(); ++axis)
    lines[axis] = {0, 1, shape.result[axis]};
  std::vector<int64_t> offsets(count);
  findOffsets(shape.dy, lines, term, offsets);
  for (int64_t tile = 0; tile < tilesOfTerms; ++tile)
    for (int64_t lane = 0; lane < shape.outputs; lane += matrixTileLanes)
      packTermsOfRows(
          dy + shape.dy.offsetOfChannel(lane), &offsets[tile * matrixTileTerms],
          matrixTileTerms * shape.dy.axes.back(),
          to + lane / matrixTileLanes * panelBytes + tile * matrixTileBytes);
}

void ConvGradientShifts::packImages(const uint16_t *x, int64_t term,
                                    int64_t count, char *to) const {
  const int64_t panelBytes = panelPixels / 2 * pairBytes;
  const int64_t ahead =
      matrixTileTerms * shape.strides.back() * shape.x.axes.back();
  std::vector<int64_t> offsets;
  for (const Image &image : images) {
    const int64_t pixels = pixelsOf(image, count);
    std::array<Line, 3> lines;
    for (size_t axis = 0; axis < lines.size(); ++axis)
      lines[axis] = {image.first[axis], shape.strides[axis], shape.image[axis]};
    offsets.resize(pixels + 1);
    findOffsets(shape.x, lines, term, offsets);
    for (int64_t pixel = 0; pixel < pixels; pixel += matrixTileTerms)
      for (int64_t lane = 0; lane < shape.channels; lane += matrixTileLanes)
        for (int64_t copy = 0; copy < 2; ++copy)
          if (image.copies[copy])
            packColumnTile(x + shape.x.offsetOfChannel(lane),
                           &offsets[pixel + copy], ahead,
                           to + lane / matrixTileLanes * panelBytes +
                               (image.at[copy] + pixel) / 2 * pairBytes);
  }
}

void ConvGradientShifts::multiply(const char *rows, const char *images,
                                  int64_t count, bool isAdded,
                                  float *sums) const {
  constexpr int64_t blockSize = matrixBlockLanes * matrixBlockLanes;
  const int64_t rowPanels = shape.outputs / matrixTileLanes;
  const int64_t columnPanels = shape.columns() / matrixTileLanes;
  const int64_t rowBytes = count / matrixTileTerms * matrixTileBytes;
  const int64_t imageBytes = panelPixels / 2 * pairBytes;
  const auto size = static_cast<int64_t>(places.size());
  auto columnOf = [&](int64_t panel) {
    const Place &place = places[panel % size];
    const int64_t copy = place.shift % 2;
    return images + panel / size * imageBytes +
           (this->images[place.image].at[copy] + place.shift - copy) / 2 *
               pairBytes;
  };
  for (int64_t row = 0; row < rowPanels; row += 2)
    for (int64_t column = 0; column < columnPanels; column += 2) {
      const char *first = columnOf(column);
      const bool isPair = column + 1 < columnPanels;
      tiles.multiply(/*parts=*/1, std::min<int64_t>(2, rowPanels - row),
                     isPair ? 2 : 1, rows + row * rowBytes, rowBytes, first,
                     isPair ? columnOf(column + 1) - first : 0, count, sums,
                     isAdded);
      sums += blockSize;
    }
}

void ConvGradientShifts::run(const void *x, const void *dy, float *gradient,
                             void *scratchpad) const {
  auto *rows = static_cast<char *>(scratchpad);
  char *columns = rows + measureRows(termsAtOnce);
  auto *sums = reinterpret_cast<float *>(columns + measureImages(termsAtOnce));
  const int64_t all = roundUp(terms(), matrixTileTerms);
  for (int64_t term = 0; term < all; term += termsAtOnce) {
    const int64_t count = std::min(termsAtOnce, all - term);
    packRows(static_cast<const uint16_t *>(dy), term, count, rows);
    packImages(static_cast<const uint16_t *>(x), term, count, columns);
    tiles.begin();
    multiply(rows, columns, count, /*isAdded=*/term != 0, sums);
    tiles.end();
  }
  const int64_t rowOfBlocks = roundUp(shape.columns(), matrixBlockLanes);
  for (int64_t row = 0; row < shape.outputs; row += matrixBlockLanes)
    writeGradientSums(shape, row,
                      std::min(matrixBlockLanes, shape.outputs - row),
                      /*column=*/0, shape.columns(), sums + row * rowOfBlocks,
                      shape.isAdded, gradient);
}
