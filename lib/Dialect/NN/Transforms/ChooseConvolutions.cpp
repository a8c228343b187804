//===- ChooseConvolutions.cpp - Which algorithm computes a convolution ----===//

#include "KernelTimes.h"
#include "MainFunction.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/IR/TensorTypes.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/Step.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <limits>

namespace pp::nn {
#define GEN_PASS_DEF_CHOOSECONVOLUTIONS
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// A convolution in numbers, from its forward direction.
struct Work {
  double samples, height, width; // of the output
  double inputs, outputs;        // channels
};

struct ChooseConvolutions
    : pp::nn::impl::ChooseConvolutionsBase<ChooseConvolutions> {
  using ChooseConvolutionsBase::ChooseConvolutionsBase;

  void runOnOperation() override {
    auto function = findMain(getOperation());
    if (failed(function))
      return signalPassFailure();
    if (uses < 0) {
      getOperation().emitError()
          << "uses is " << uses.getValue() << ", must be 0 or more";
      return signalPassFailure();
    }
    if (!(shortRate >= 1)) {
      getOperation().emitError()
          << "short-rate is " << shortRate.getValue() << ", must be 1 or more";
      return signalPassFailure();
    }
    for (auto &[name, value] :
         {std::pair("tile-moves", tileMoves.getValue()),
          {"library-gradients", libraryGradients.getValue()}})
      if (!(value > 0)) {
        getOperation().emitError()
            << name << " is " << value << ", must be more than 0";
        return signalPassFailure();
      }
    if (!(pairRate >= 0)) {
      getOperation().emitError()
          << "pair-rate is " << pairRate.getValue() << ", must be 0 or more";
      return signalPassFailure();
    }
    if (convolutions == ConvolutionChoice::Direct)
      return;
    auto measured = KernelTimes::read(getOperation(), tuningFile);
    if (failed(measured))
      return signalPassFailure();
    kernelTimes = std::move(*measured);
    for (Operation &op : function->getBody().front()) {
      if (auto conv = dyn_cast<ConvOp>(op))
        choose(conv, conv.getWeight(), conv.getOutput(), 0.95);
      if (auto conv = dyn_cast<ConvBackwardInputOp>(op))
        choose(conv, conv.getWeight(), conv.getOutputGradient(), 0.95);
      if (auto conv = dyn_cast<ConvBackwardWeightOp>(op))
        choose(conv, conv.getOutput(), conv.getOutputGradient(), 0.7);
    }
  }

private:
  /// `share` of the rate is what the library's direct algorithm reaches: for
  /// gradients of weights less, since it adds up over all samples and points.
  template <typename ConvolutionOp>
  void choose(ConvolutionOp op, Value weight, Value output, double share) {
    auto isAll = [](ArrayRef<int64_t> numbers, int64_t value) {
      return llvm::all_of(numbers, [&](int64_t n) { return n == value; });
    };
    auto isF32 = [](Type type) {
      return cast<RankedTensorType>(type).getElementType().isF32();
    };
    auto isBF16 = [](Type type) {
      return cast<RankedTensorType>(type).getElementType().isBF16();
    };
    auto isEvery = [&](auto is) {
      return llvm::all_of(op->getOperandTypes(), is) &&
             is(op.getOutput().getType());
    };
    ArrayRef<int64_t> w = shapeOf(weight), out = shapeOf(output);
    if (op->hasAttr(exactAttrName) || op.getGroups() != 1 || w.size() != 4 ||
        w[2] != 3 || w[3] != 3 || !isAll(op.getStrides(), 1) ||
        !isAll(op.getDilations(), 1) || w[0] % 16 != 0 || w[1] % 16 != 0)
      return;
    constexpr bool isGradient =
        std::is_same_v<ConvolutionOp, ConvBackwardWeightOp>;
    // What is added up over micro-batches is f32.
    bool isShort = isGradient ? llvm::all_of(op->getOperandTypes(), isBF16) &&
                                    isF32(op.getOutput().getType())
                              : isEvery(isBF16);
    // The library's algorithm, and tiles of our own.
    bool hasWinograd = libraryWinograd && isEvery([&](Type type) {
                         return isF32(type) || (shortRate <= 1 && isBF16(type));
                       });
    bool hasTiles = isShort || isEvery(isF32);
    using Algorithm = ConvolutionAlgorithm;
    auto force = [&](bool isPossible, Algorithm algorithm) {
      if (isPossible)
        op.setAlgorithm(algorithm);
    };
    switch (convolutions.getValue()) {
    case ConvolutionChoice::Winograd:
      return force(hasWinograd, Algorithm::winograd);
    case ConvolutionChoice::Winograd2:
      return force(hasTiles, Algorithm::winograd2);
    case ConvolutionChoice::Winograd4:
      return force(hasTiles, Algorithm::winograd4);
    case ConvolutionChoice::Winograd2BF16:
      return force(isShort, Algorithm::winograd2_bf16);
    case ConvolutionChoice::Auto:
    case ConvolutionChoice::Direct:
      break;
    }
    Work work{double(out[0]), double(out[2]), double(out[3]), double(w[1]),
              double(w[0])};
    double transforms = uses == 0 ? 0 : 1 / double(uses);
    double rate = isShort ? shortRate : 1.0;
    // In bf16 it adds up faster.
    if (isGradient && isShort)
      share = 0.9;
    SmallVector<Algorithm> algorithms{Algorithm::direct};
    SmallVector<double> times{0.9 * directTime(work) / (share * rate)};
    if (!isGradient)
      times[0] += weightsTime(work, transforms) * (isShort ? 0.5 : 1);
    if (hasWinograd) {
      algorithms.push_back(Algorithm::winograd);
      // The library packs no weights in another type than they have.
      bool isPacked = !isGradient && isF32(weight.getType());
      times.push_back((isGradient ? libraryGradients : 1.0) *
                      winogradTime(work, isPacked ? transforms : 1));
    }
    if (hasTiles)
      for (auto [algorithm, edge] :
           {std::pair(Algorithm::winograd2, 2), {Algorithm::winograd4, 4}}) {
        algorithms.push_back(algorithm);
        times.push_back(isGradient
                            ? gradientTilesTime(work, edge, isShort)
                            : tilesTime(work, transforms, edge, isShort));
      }
    // Noise in gradients averages out over a step, in values it goes through
    // the whole model (measured, docs/rationale.md).
    constexpr bool isValue = std::is_same_v<ConvolutionOp, ConvOp>;
    if (isShort && !isValue && pairRate > 0) {
      algorithms.push_back(Algorithm::winograd2_bf16);
      times.push_back(isGradient ? gradientPairsTime(work)
                                 : pairsTime(work, transforms));
    }
    // Those that are measured compete, if the first two are.
    SmallVector<double> measured;
    for (Algorithm algorithm : algorithms)
      measured.push_back(
          fastest(op, algorithm)
              .value_or(std::numeric_limits<double>::infinity()));
    if (measured.size() > 1 && std::isfinite(measured[0]) &&
        std::isfinite(measured[1]))
      times = measured;
    op.setAlgorithm(algorithms[llvm::min_element(times) - times.begin()]);
  }

  /// Over all layouts, which are not assigned yet.
  std::optional<double> fastest(Operation *op,
                                ConvolutionAlgorithm algorithm) const {
    std::optional<double> least;
    if (kernelTimes.isEmpty())
      return least;
    for (Layout layout : {Layout::plain, Layout::channels_last,
                          Layout::blocked8, Layout::blocked16})
      if (auto time = kernelTimes.findFastest(
              getDescriptorIn(op, layout, algorithm), uses))
        least = std::min(least.value_or(*time), *time);
    return least;
  }

  double directTime(const Work &work) const {
    return 2 * 9 * work.samples * work.height * work.width * work.inputs *
           work.outputs / (gflops * 1e9);
  }

  /// Reading weights of f32 in the library's own layout, and bringing them into
  /// it.
  double weightsTime(const Work &work, double transforms) const {
    double weights = windowBytes(work);
    return weights / (tileBytes * 1e9) +
           2 * weights * transforms / (weightBytes * 1e9);
  }
  static double windowBytes(const Work &work) {
    return 9 * work.inputs * work.outputs * 4;
  }

  /// What an algorithm of Winograd's does: a product for each point of a
  /// transformed tile.
  struct Tiles {
    double count;
    double products;                 // operations
    double tiles;                    // bytes written once and read once
    double weightsMade, weightsRead; // bytes

    /// With `edge` x `edge` numbers of the result in a tile.
    Tiles(const Work &work, uint64_t edge) {
      double points = double((edge + 2) * (edge + 2));
      count = work.samples * llvm::divideCeil(uint64_t(work.height), edge) *
              llvm::divideCeil(uint64_t(work.width), edge);
      double weights = work.inputs * work.outputs * 4;
      products = 2 * points * count * work.inputs * work.outputs;
      tiles = 2 * points * count * (work.inputs + work.outputs) * 4;
      weightsMade = (9 + points) * weights;
      weightsRead = points * weights;
    }
  };

  /// `transforms` is how often weights are transformed for each run.
  double winogradTime(const Work &work, double transforms) const {
    Tiles of(work, 4);
    return of.products / (gflops * 1e9) + of.tiles / (tileBytes * 1e9) +
           (of.weightsMade * transforms + of.weightsRead) / (weightBytes * 1e9);
  }

  /// The same in tiles of our own, whose products read weights in one go. They
  /// move their numbers through a larger cache than the library, but from
  /// tensors of bf16 half the bytes (measured on Zen 4).
  double tilesTime(const Work &work, double transforms, uint64_t edge,
                   bool isShort) const {
    Tiles of(work, edge);
    double tiles = of.tiles * (isShort ? 0.75 : tileMoves.getValue());
    return of.products / (gflops * 1e9) +
           (tiles + of.weightsRead) / (tileBytes * 1e9) +
           of.weightsMade * transforms / (weightBytes * 1e9);
  }

  /// The gradient of weights, which adds what 48 tiles give it at a time, in a
  /// cache, and writes windows number by number.
  double gradientTilesTime(const Work &work, uint64_t edge,
                           bool isShort) const {
    Tiles of(work, edge);
    double tiles = of.tiles * (isShort ? 0.75 : tileMoves.getValue());
    double rounds = std::ceil(of.count / 48);
    return of.products / (gflops * 1e9) +
           (tiles + rounds * of.weightsRead) / (tileBytes * 1e9) +
           windowBytes(work) / (weightBytes * 1e9);
  }

  /// Tiles whose numbers are rounded to bf16 and multiplied in pairs (measured
  /// on Zen 5).
  double pairsTime(const Work &work, double transforms) const {
    Tiles of(work, 2);
    return productTime(of) +
           0.37 * of.weightsMade * transforms / (weightBytes * 1e9);
  }
  double gradientPairsTime(const Work &work) const {
    Tiles of(work, 2);
    double rounds = std::ceil(of.count / 392);
    return productTime(of) + 0.5 * rounds * of.weightsRead / (tileBytes * 1e9) +
           windowBytes(work) / (weightBytes * 1e9);
  }
  double productTime(const Tiles &of) const {
    return of.products / (pairRate * gflops * 1e9) +
           0.3 * of.tiles / (tileBytes * 1e9);
  }

  KernelTimes kernelTimes;
};

} // namespace
