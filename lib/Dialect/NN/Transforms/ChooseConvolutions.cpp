//===- ChooseConvolutions.cpp - Which algorithm computes a convolution ----===//

#include "KernelTimes.h"
#include "MainFunction.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/IR/TensorTypes.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/Step.h"

#include "llvm/Support/MathExtras.h"

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
    if (convolutions == ConvolutionChoice::Direct)
      return;
    auto measured = KernelTimes::read(getOperation(), tuningFile);
    if (failed(measured))
      return signalPassFailure();
    times = std::move(*measured);
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
    auto isComputedInF32 = [&](Type type) {
      return isF32(type) ||
             (widens && cast<RankedTensorType>(type).getElementType().isBF16());
    };
    // The library packs no weights in another type than they have.
    bool isWidened = !isF32(weight.getType());
    ArrayRef<int64_t> w = shapeOf(weight), out = shapeOf(output);
    if (op.getGroups() != 1 || w.size() != 4 || w[2] != 3 || w[3] != 3 ||
        !isAll(op.getStrides(), 1) || !isAll(op.getDilations(), 1) ||
        !llvm::all_of(op->getOperandTypes(), isComputedInF32) ||
        !isComputedInF32(op.getOutput().getType()) || w[0] % 16 != 0 ||
        w[1] % 16 != 0)
      return;
    if (convolutions == ConvolutionChoice::Winograd)
      return op.setAlgorithm(ConvolutionAlgorithm::winograd);
    auto direct = fastest(op, ConvolutionAlgorithm::direct);
    auto winograd = fastest(op, ConvolutionAlgorithm::winograd);
    if (direct && winograd) {
      if (*winograd < *direct)
        op.setAlgorithm(ConvolutionAlgorithm::winograd);
      return;
    }
    Work work{double(out[0]), double(out[2]), double(out[3]), double(w[1]),
              double(w[0])};
    bool isGradient = std::is_same_v<ConvolutionOp, ConvBackwardWeightOp>;
    double transforms = isGradient || isWidened ? 1
                        : uses == 0             ? 0
                                                : 1 / double(uses);
    if (winogradTime(work, transforms) < 0.9 * directTime(work) / share)
      op.setAlgorithm(ConvolutionAlgorithm::winograd);
  }

  /// Over all layouts, which are not assigned yet.
  std::optional<double> fastest(Operation *op,
                                ConvolutionAlgorithm algorithm) const {
    std::optional<double> least;
    if (times.isEmpty())
      return least;
    for (Layout layout : {Layout::plain, Layout::channels_last,
                          Layout::blocked8, Layout::blocked16})
      if (auto time =
              times.findFastest(getDescriptorIn(op, layout, algorithm), uses))
        least = std::min(least.value_or(*time), *time);
    return least;
  }

  double directTime(const Work &work) const {
    return 2 * 9 * work.samples * work.height * work.width * work.inputs *
           work.outputs / (gflops * 1e9);
  }

  /// A product for each of the 36 points of a transformed tile, and the
  /// transforms: tiles and weights are written once and read once. `transforms`
  /// is how often weights are transformed for each run.
  double winogradTime(const Work &work, double transforms) const {
    double tiles = work.samples * llvm::divideCeil(uint64_t(work.height), 4) *
                   llvm::divideCeil(uint64_t(work.width), 4);
    double products = 2 * 36 * tiles * work.inputs * work.outputs;
    double ofTiles = 2 * 36 * tiles * (work.inputs + work.outputs) * 4;
    double weights = work.inputs * work.outputs * 4;
    double ofWeights = ((9 + 36) * transforms + 36) * weights;
    return products / (gflops * 1e9) + ofTiles / (tileBytes * 1e9) +
           ofWeights / (weightBytes * 1e9);
  }

  KernelTimes times;
};

} // namespace
