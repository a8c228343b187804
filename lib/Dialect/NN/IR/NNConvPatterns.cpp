//===- NNConvPatterns.cpp - Windows that reach beyond their image ---------===//
//
// A window with large holes has places that see nothing but padding in every
// result, where images are small. DeepLab's windows of 3 x 3 places 24 apart
// see one number of an image of 16 x 16, with eight places in the padding:
//
//   conv(x, w)  pad 24 x 24     ──▶    conv(x, slice(w))  pad 0 x 0
//   w: O x C x 3 x 3                   slice(w): O x C x 1 x 1
//
// What is left of the window is the shortest part with all the places that see
// something. The weights' gradient of the others is zero, as before.
//
//===----------------------------------------------------------------------===//

#include "pp/Dialect/NN/IR/NN.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// One axis of a convolution.
struct Axis {
  int64_t image, window, results, stride, dilation, padLow;

  bool sees(int64_t place) const {
    for (int64_t result = 0; result < results; ++result) {
      const int64_t at = result * stride + place * dilation - padLow;
      if (at >= 0 && at < image)
        return true;
    }
    return false;
  }
};

struct NarrowWindow : OpRewritePattern<ConvOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ConvOp conv,
                                PatternRewriter &rewriter) const override {
    auto image = cast<RankedTensorType>(conv.getInput().getType()),
         weights = cast<RankedTensorType>(conv.getWeight().getType()),
         result = cast<RankedTensorType>(conv.getOutput().getType());
    if (conv.getLayout() != Layout::plain || weights.getEncoding() ||
        !image.hasStaticShape() || !weights.hasStaticShape() ||
        !result.hasStaticShape())
      return failure();
    SmallVector<int64_t> starts(weights.getRank(), 0),
        limits(weights.getShape()), strides(weights.getRank(), 1),
        low(conv.getPadLow()), high(conv.getPadHigh()),
        dilations(conv.getDilations());
    for (size_t i = 0; i < low.size(); ++i) {
      const Axis axis{image.getDimSize(i + 2),
                      weights.getDimSize(i + 2),
                      result.getDimSize(i + 2),
                      conv.getStrides()[i],
                      dilations[i],
                      low[i]};
      int64_t begin = 0, end = axis.window;
      while (begin < end && !axis.sees(begin))
        ++begin;
      while (end > begin && !axis.sees(end - 1))
        --end;
      low[i] -= begin * axis.dilation;
      high[i] -= (axis.window - end) * axis.dilation;
      // A window that sees nothing, and strides that leave out places inside.
      if (begin == end || low[i] < 0 || high[i] < 0)
        return failure();
      starts[i + 2] = begin;
      limits[i + 2] = end;
      if (end - begin == 1 && axis.window > 1)
        dilations[i] = 1;
    }
    if (ArrayRef<int64_t>(limits) == weights.getShape() &&
        llvm::all_of(starts, [](int64_t start) { return start == 0; }))
      return failure();
    Value part = SliceOp::create(rewriter, conv.getLoc(), conv.getWeight(),
                                 starts, limits, strides);
    rewriter.modifyOpInPlace(conv, [&] {
      conv.getWeightMutable().assign(part);
      conv.setPadLow(low);
      conv.setPadHigh(high);
      conv.setDilations(dilations);
    });
    return success();
  }
};

} // namespace

void ConvOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                         MLIRContext *context) {
  patterns.add<NarrowWindow>(context);
}
