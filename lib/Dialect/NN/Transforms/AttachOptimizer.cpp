//===- AttachOptimizer.cpp - Add the function that updates parameters -----===//

#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Dialect/PP/IR/PP.h"

namespace pp::nn {
#define GEN_PASS_DEF_ATTACHOPTIMIZER
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// Builds the body of the optimizer function out of short calls.
class OptimizerBuilder {
public:
  OptimizerBuilder(ModuleOp module, StringRef kind,
                   ArrayRef<StringRef> stateNames, ArrayAttr scalars)
      : builder(module.getBodyRegion()), loc(module.getLoc()),
        block(RankedTensorType::get({optimizerBlock}, builder.getF32Type())) {
    builder.setInsertionPointToEnd(module.getBody());
    SmallVector<Type> inputs(2 + stateNames.size(), block);
    inputs.append(scalars.size(), block.clone(ArrayRef<int64_t>()));
    SmallVector<Type> results(1 + stateNames.size(), block);
    function = func::FuncOp::create(builder, loc, optimizerFunctionName,
                                    builder.getFunctionType(inputs, results));
    function.setPrivate();
    function->setAttr(
        pipeline::optimizerAttrName,
        builder.getDictionaryAttr(
            {builder.getNamedAttr("kind", builder.getStringAttr(kind)),
             builder.getNamedAttr("states",
                                  builder.getStrArrayAttr(stateNames)),
             builder.getNamedAttr("scalars", scalars)}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    firstScalar = 2 + stateNames.size();
  }

  Value parameter() { return function.getArgument(0); }
  Value gradient() { return function.getArgument(1); }
  Value state(unsigned index) { return function.getArgument(2 + index); }
  Value scalar(unsigned index) {
    return BroadcastOp::create(builder, loc, block,
                               function.getArgument(firstScalar + index),
                               ArrayRef<int64_t>());
  }
  Value constant(double value) {
    return ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(block, builder.getF32FloatAttr(value)));
  }
  Value add(Value x, Value y) { return AddOp::create(builder, loc, x, y); }
  Value sub(Value x, Value y) { return SubOp::create(builder, loc, x, y); }
  Value mul(Value x, Value y) { return MulOp::create(builder, loc, x, y); }
  Value div(Value x, Value y) { return DivOp::create(builder, loc, x, y); }
  Value sqrt(Value x) { return SqrtOp::create(builder, loc, x); }
  void finish(ArrayRef<Value> results) {
    func::ReturnOp::create(builder, loc, results);
  }

private:
  OpBuilder builder;
  Location loc;
  RankedTensorType block;
  func::FuncOp function;
  unsigned firstScalar;
};

struct AttachOptimizer : nn::impl::AttachOptimizerBase<AttachOptimizer> {
  using AttachOptimizerBase::AttachOptimizerBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (module.lookupSymbol(optimizerFunctionName)) {
      module.emitError("has an optimizer already");
      return signalPassFailure();
    }
    if (optimizer == "sgd")
      return attachSgd(module);
    if (optimizer == "adamw")
      return attachAdamW(module);
    module.emitError() << "unknown optimizer '" << optimizer
                       << "'; known: sgd, adamw";
    signalPassFailure();
  }

  DictionaryAttr scalar(StringRef name, StringRef key, double value) {
    Builder builder(&getContext());
    return builder.getDictionaryAttr(
        {builder.getNamedAttr("name", builder.getStringAttr(name)),
         builder.getNamedAttr(key, builder.getF64FloatAttr(value))});
  }

  void attachSgd(ModuleOp module) {
    Builder attributes(&getContext());
    OptimizerBuilder b(module, "sgd", {"momentum"},
                       attributes.getArrayAttr(
                           {scalar("lr", "value", learningRate),
                            scalar("momentum", "value", momentum),
                            scalar("weight_decay", "value", weightDecay)}));
    Value lr = b.scalar(0), mu = b.scalar(1), decay = b.scalar(2);
    // In the first step the state is 0, so it becomes the gradient, as in
    // PyTorch.
    Value gradient = b.add(b.gradient(), b.mul(decay, b.parameter()));
    Value velocity = b.add(b.mul(mu, b.state(0)), gradient);
    b.finish({b.sub(b.parameter(), b.mul(lr, velocity)), velocity});
  }

  void attachAdamW(ModuleOp module) {
    Builder attributes(&getContext());
    OptimizerBuilder b(
        module, "adamw", {"exp_avg", "exp_avg_sq"},
        attributes.getArrayAttr(
            {scalar("lr", "value", learningRate),
             scalar("weight_decay", "value", weightDecay),
             scalar("bias_correction1", "one_minus_power_of", beta1),
             scalar("bias_correction2", "one_minus_power_of", beta2)}));
    Value lr = b.scalar(0), decay = b.scalar(1);
    Value correction1 = b.scalar(2), correction2 = b.scalar(3);
    Value g = b.gradient();
    Value mean = b.add(b.mul(b.constant(beta1), b.state(0)),
                       b.mul(b.constant(1 - beta1), g));
    Value square = b.add(b.mul(b.constant(beta2), b.state(1)),
                         b.mul(b.constant(1 - beta2), b.mul(g, g)));
    Value decayed =
        b.mul(b.parameter(), b.sub(b.constant(1), b.mul(lr, decay)));
    Value root =
        b.add(b.div(b.sqrt(square), b.sqrt(correction2)), b.constant(epsilon));
    Value step = b.mul(b.div(lr, correction1), b.div(mean, root));
    b.finish({b.sub(decayed, step), mean, square});
  }
};

} // namespace
