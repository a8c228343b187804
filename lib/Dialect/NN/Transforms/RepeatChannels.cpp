//===- RepeatChannels.cpp - Windows of single channels with more outputs --===//

#include "MainFunction.h"
#include "StepMarks.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/IR/TensorTypes.h"
#include "pp/Dialect/NN/Transforms/Passes.h"

#include "llvm/ADT/STLExtras.h"

namespace pp::nn {
#define GEN_PASS_DEF_REPEATCHANNELS
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

class Repeater {
public:
  Repeater(func::FuncOp function, int64_t most)
      : marks(function), builder(function.getContext()), most(most) {}

  void repeat(ConvOp conv) {
    const int64_t times = countRepeats(conv);
    if (times == 0)
      return;
    builder.setInsertionPoint(conv);
    auto type = cast<RankedTensorType>(conv.getInput().getType());
    // N x C x spatial, N x C x times x spatial, N x C * times x spatial.
    SmallVector<int64_t> apart(type.getShape()), together(type.getShape());
    apart.insert(apart.begin() + 2, times);
    together[1] *= times;
    SmallVector<int64_t> axes{0, 1};
    for (int64_t axis = 3; axis < std::ssize(apart); ++axis)
      axes.push_back(axis);
    auto repeated = BroadcastOp::create(
        builder, conv.getLoc(), type.clone(apart), conv.getInput(), axes);
    auto channels = ReshapeOp::create(builder, conv.getLoc(),
                                      type.clone(together), repeated);
    marks.mark(repeated, conv);
    marks.mark(channels, conv);
    conv.getInputMutable().assign(channels);
    conv.setGroups(together[1]);
  }

private:
  /// How many outputs each channel has, if it is alone and they are a few; or
  /// 0.
  int64_t countRepeats(ConvOp conv) const {
    const int64_t channels = shapeOf(conv.getInput())[1],
                  outputs = shapeOf(conv.getWeight())[0];
    const auto groups = static_cast<int64_t>(conv.getGroups());
    const bool isAlone = groups == channels && groups > 1;
    if (!isAlone || conv.getLayout() != Layout::plain || outputs == channels ||
        outputs > most * channels)
      return 0;
    return outputs / channels;
  }

  StepMarks marks;
  OpBuilder builder;
  int64_t most;
};

struct RepeatChannels : nn::impl::RepeatChannelsBase<RepeatChannels> {
  using RepeatChannelsBase::RepeatChannelsBase;

  void runOnOperation() override {
    FailureOr<func::FuncOp> function = findMain(getOperation());
    if (failed(function))
      return signalPassFailure();
    Repeater repeater(*function, most);
    for (auto conv : function->getBody().front().getOps<ConvOp>())
      repeater.repeat(conv);
  }
};

} // namespace
