//===- MaxPoolGradient.cpp ------------------------------------------------===//
#include "cpu/MaxPoolGradient.h"

#include <immintrin.h>

#include <algorithm>
#include <array>

using namespace pp::runtime;

#define PP_AVX2 __attribute__((target("avx2")))

static constexpr int64_t vector = 8, mostPlaces = 64;

bool MaxPoolGradient::isPossible(const Shape &shape) {
  return __builtin_cpu_supports("avx2") && shape.x.isChannelsLast() &&
         shape.dy.isChannelsLast() && shape.channels % vector == 0 &&
         countOf(shape.window) <= mostPlaces;
}

/// One number of dY for each of the lanes; `places` are those that its window
/// sees.
PP_AVX2 static void addToMaxima(const float *x, const float *dy, float *dx,
                                const int64_t *places, int count,
                                int64_t lanes) {
  for (int64_t lane = 0; lane < lanes; lane += vector) {
    __m256 best = _mm256_loadu_ps(x + places[0] + lane);
    __m256i which = _mm256_setzero_si256();
    for (int i = 1; i < count; ++i) {
      __m256 value = _mm256_loadu_ps(x + places[i] + lane);
      __m256 isBetter = _mm256_or_ps(_mm256_cmp_ps(value, best, _CMP_GT_OQ),
                                     _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
      best = _mm256_blendv_ps(best, value, isBetter);
      which = _mm256_blendv_epi8(which, _mm256_set1_epi32(i),
                                 _mm256_castps_si256(isBetter));
    }
    __m256 gradient = _mm256_loadu_ps(dy + lane);
    for (int i = 0; i < count; ++i) {
      __m256 part = _mm256_and_ps(
          gradient,
          _mm256_castsi256_ps(_mm256_cmpeq_epi32(which, _mm256_set1_epi32(i))));
      float *to = dx + places[i] + lane;
      _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), part));
    }
  }
}

void MaxPoolGradient::runImage(const float *x, const float *dy,
                               float *dx) const {
  const ImageAxes &image = shape.image;
  const int64_t count = shape.channels;
  auto clearRows = [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row)
      std::fill_n(dx + row / image[1] * shape.x.axes[0] +
                      row % image[1] * shape.x.axes[1],
                  image[2] * count, 0.0f);
  };
  auto at = [&](size_t axis, int64_t pixel, int64_t place) {
    return pixel * shape.strides[axis] + place * shape.dilations[axis] -
           shape.padding[axis];
  };
  // Rows are cleared just before a window first sees them, in a volume all at
  // once.
  const int64_t rows = image[0] * image[1];
  int64_t cleared = 0;
  auto clearUntil = [&](int64_t row) {
    row = image[0] > 1 ? rows : std::clamp(row, cleared, rows);
    clearRows(cleared, row);
    cleared = row;
  };
  // What a window sees at the borders, and from its first place everywhere
  // else.
  std::array<int64_t, mostPlaces> places, inside;
  auto find = [&](const ImageAxes &pixel, const auto &isSeen, int64_t *to) {
    const int64_t *begin = to;
    for (int64_t a = 0; a < shape.window[0]; ++a)
      for (int64_t b = 0; b < shape.window[1]; ++b)
        for (int64_t c = 0; c < shape.window[2]; ++c) {
          const ImageAxes seen{at(0, pixel[0], a), at(1, pixel[1], b),
                               at(2, pixel[2], c)};
          if (isSeen(seen))
            *to++ = seen[0] * shape.x.axes[0] + seen[1] * shape.x.axes[1] +
                    seen[2] * shape.x.axes[2];
        }
    return static_cast<int>(to - begin);
  };
  const int all =
      find({0, 0, 0}, [](const ImageAxes &) { return true; }, inside.data());
  for (int i = all; i-- > 0;)
    inside[i] -= inside[0];
  auto isInside = [&](const ImageAxes &seen) {
    for (size_t axis = 0; axis < 3; ++axis)
      if (seen[axis] < 0 || seen[axis] >= image[axis])
        return false;
    return true;
  };
  ImageAxes pixel;
  for (pixel[0] = 0; pixel[0] < shape.result[0]; ++pixel[0])
    for (pixel[1] = 0; pixel[1] < shape.result[1]; ++pixel[1]) {
      clearUntil(at(1, pixel[1], shape.window[1] - 1) + 1);
      for (pixel[2] = 0; pixel[2] < shape.result[2]; ++pixel[2]) {
        ImageAxes first, last;
        for (size_t axis = 0; axis < 3; ++axis) {
          first[axis] = at(axis, pixel[axis], 0);
          last[axis] = at(axis, pixel[axis], shape.window[axis] - 1);
        }
        const float *gradient = dy + pixel[0] * shape.dy.axes[0] +
                                pixel[1] * shape.dy.axes[1] +
                                pixel[2] * shape.dy.axes[2];
        if (isInside(first) && isInside(last)) {
          const int64_t from = first[0] * shape.x.axes[0] +
                               first[1] * shape.x.axes[1] +
                               first[2] * shape.x.axes[2];
          addToMaxima(x + from, gradient, dx + from, inside.data(), all, count);
        } else if (int seen = find(pixel, isInside, places.data())) {
          addToMaxima(x, gradient, dx, places.data(), seen, count);
        }
      }
    }
  clearUntil(rows);
}

void MaxPoolGradient::run(const float *x, const float *dy, float *dx) const {
  for (int64_t sample = 0; sample < shape.samples; ++sample)
    runImage(x + sample * shape.x.sample, dy + sample * shape.dy.sample,
             dx + sample * shape.x.sample);
}
