//===- SignalConvolution.h - Convolutions along one axis --------*- C++ -*-===//
//
// With the channels of a place side by side, what a window sees of a signal
// lies together, and what the next one sees overlaps it: the rows of a matrix
// that begin `stride * channels` numbers after each other. So a convolution
// along one axis is a product of matrices, of which nothing is copied but the
// signal, with zeros around it:
//
//       0 0 x0 x1 x2 x3 ...                                  outputs
//      └────────┘              what y0 sees                 ┌───────┐
//         └────────┘                y1        x      taps x │weights│
//            └────────┘             y2             channels └───────┘
//
// With holes in the window, places of the same remainder are such a signal; so
// are, for the gradient of a signal that was read with strides, those that the
// same taps have seen. oneDNN 2.6 has code for windows of up to 13 places; for
// longer ones it copies what each place sees.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_SIGNALCONVOLUTION_H
#define PP_RUNTIME_CPU_SIGNALCONVOLUTION_H

#include "cpu/ConvDirection.h"
#include "cpu/ConvEpilogue.h"
#include "cpu/ConvShape.h"
#include "cpu/TiledProduct.h"

#include <cstdint>
#include <vector>

namespace pp::runtime {

/// What is read and written, and how: x and y, or dY and dX. Gradients of
/// weights read as the convolution does.
class SignalRows {
public:
  /// Whether a convolution, and its gradients, are computed so: those of images
  /// of f32 or bf16 along one axis, for which the library has no code of its
  /// own. Groups of channels, which are one after the other, fill blocks.
  static bool isPreferred(const ConvShape &whole);

  SignalRows(const ConvShape &whole, ConvDirection direction);

  /// Places that are written, every `outStep` of them from `first` on, and what
  /// they see: from `base` on, numbers of a signal that lie `inStep` apart, of
  /// which the next one's begin `advance` later. These belong to places of the
  /// window, `taps`.
  struct Work {
    int64_t first, count;
    int64_t base, inStep;
    size_t taps; ///< of `taps`
  };
  struct Signal {
    int64_t length;
    int64_t channels; ///< of a group
    ImagePlaces places;
    /// Where a group begins.
    int64_t offsetOfGroup(int64_t group) const {
      return places.offsetOfChannel(group * channels);
    }
  };

  int64_t samples;
  Signal from, to;
  bool isShort; ///< both are bf16, else f32
  int64_t window, groups;
  /// Of the weights, from one that is written, or read, to the next.
  int64_t writtenStride, readStride;
  std::vector<std::vector<int64_t>> taps;
  int64_t outStep, advance; ///< of all works
  std::vector<Work> works;

  /// Numbers of the weights of a group.
  int64_t countWeights() const { return to.channels * from.channels * window; }
  int64_t countTaps(const Work &work) const {
    return static_cast<int64_t>(taps[work.taps].size());
  }
  /// Places of each work that are written at a time: what they see, and are,
  /// stays in a cache.
  int64_t rowsAtOnce() const;
  /// Numbers of what they see.
  int64_t countRead(const Work &work, int64_t rows) const {
    return ((rows - 1) * advance + countTaps(work)) * from.channels;
  }
  int64_t mostRead() const;
  /// Copies what some rows see of a sample, as f32.
  template <typename Element>
  void read(const Element *sample, const Work &work, int64_t firstRow,
            int64_t rows, float *copy) const;
};

/// A convolution, or the gradient of its signal. Each number is a sum over
/// blocks of 768 terms, as TiledProduct.h says, rounded once.
class SignalConvolution {
public:
  using Range = KernelBuilder::Range;

  /// With weights of the same type. Of few channels to write, vectors would be
  /// empty.
  static bool isPreferred(const ConvShape &whole, ConvDirection direction);

  /// Some of the samples, of the groups, or of the channels of a group that are
  /// written.
  struct Share {
    Range samples, groups, channels;
  };
  SignalConvolution(const ConvShape &whole, ConvDirection direction,
                    const Share &share);

  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;
  void run(const void *x, const void *weights, const ConvEpilogue &epilogue,
           const ConvSummands &summands, void *y, void *scratchpad) const;

private:
  using Work = SignalRows::Work;

  bool isWrittenInPlace() const {
    return !rows.isShort && rows.to.places.isChannelsLast();
  }
  int64_t pitch() const {
    return isWrittenInPlace() ? rows.to.places.axes[2] : channels.count;
  }
  /// Numbers of the packed weights of a list of taps.
  int64_t countPacked(const std::vector<int64_t> &taps) const;
  int64_t countPacked() const;
  TiledProduct makeProduct(const Work &work, int64_t count) const;
  /// `turned` has 16 numbers for each place of the window.
  template <typename Element>
  void packWeights(const Element *weights, float *turned, float *to) const;
  /// Some places of a sample, one after the other.
  template <typename Element>
  void writePlaces(int64_t first, int64_t count, const ConvEpilogue &epilogue,
                   const ConvSummands &summands, float *product,
                   Element *y) const;
  /// Of a group.
  template <typename Element>
  void runAs(const Element *x, const Element *weights,
             const ConvEpilogue &epilogue, const ConvSummands &summands,
             Element *y, void *scratchpad) const;

  SignalRows rows;
  Range samples, groups, channels;
};

/// The gradient of the weights of some groups, or of some outputs of a group,
/// as the sum over all samples, complete before it is added.
class SignalGradient {
public:
  using Range = KernelBuilder::Range;

  SignalGradient(const ConvShape &whole, Range groups, Range outputs);

  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;
  void run(const void *x, const void *dy, float *gradient,
           void *scratchpad) const;

private:
  using Work = SignalRows::Work;

  TiledProduct makeProduct(int64_t count, bool isFirst) const;
  template <typename Element>
  void readOutputs(const Element *dy, const Work &work, int64_t first,
                   int64_t count, float *copy) const;
  /// Of a group.
  template <typename Element>
  void runAs(const Element *x, const Element *dy, float *gradient,
             void *scratchpad) const;

  SignalRows rows;
  Range groups, outputs;
  bool isAdded;
};

void buildSignalConvolution(const ConvShape &whole, ConvDirection direction,
                            const ConvEpilogue &epilogue,
                            KernelBuilder &builder);
void buildSignalGradient(const ConvShape &whole, KernelBuilder &builder);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_SIGNALCONVOLUTION_H
