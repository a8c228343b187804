//===- AttachOptimizer.cpp - Add the function that updates parameters -----===//

#include "MainFunction.h"
#include "plan/OptimizerStates.h"
#include "plan/ParameterScalars.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/Step.h"

#include "llvm/ADT/StringExtras.h"
#include <limits>

namespace pp::nn {
#define GEN_PASS_DEF_ATTACHOPTIMIZER
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;
using step::OptimizerAttr;
using step::ScalarAttr;
using step::ScalarKind;

namespace {

constexpr llvm::StringLiteral emaDecayName = "ema_decay";

/// Builds the body of the optimizer function out of short calls.
class OptimizerBuilder {
public:
  OptimizerBuilder(ModuleOp module, FloatType type, StringRef kind,
                   ArrayRef<StringRef> ownStates, ArrayAttr scalars)
      : builder(module.getBodyRegion()), loc(module.getLoc()),
        block(RankedTensorType::get({optimizerBlockBytes * 8 / type.getWidth()},
                                    type)) {
    builder.setInsertionPointToEnd(module.getBody());
    // The others are the runtime's alone.
    auto whole = llvm::count_if(ownStates, [](StringRef name) {
      return runtime::formOf(name.str()) == runtime::StateForm::Whole;
    });
    SmallVector<StringRef> stateNames(ownStates);
    for (auto [index, each] : llvm::enumerate(scalars.getAsRange<ScalarAttr>()))
      if (each.getName() == emaDecayName)
        emaDecay = index;
    if (emaDecay) {
      stateNames.push_back(runtime::averageStateName);
      ++whole;
    }
    SmallVector<Type> inputs(2 + whole, block);
    inputs.append(scalars.size(), block.clone(ArrayRef<int64_t>()));
    SmallVector<Type> results(1 + whole, block);
    function = func::FuncOp::create(builder, loc, optimizerFunctionName,
                                    builder.getFunctionType(inputs, results));
    function.setPrivate();
    function->setAttr(
        step::optimizerAttrName,
        OptimizerAttr::get(builder.getContext(), builder.getStringAttr(kind),
                           builder.getStrArrayAttr(stateNames), scalars));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    firstScalar = 2 + whole;
  }

  Value parameter() { return function.getArgument(0); }
  Value gradient() {
    Value gradient = function.getArgument(1);
    auto scale = findScalar(ScalarKind::LossScale);
    return scale ? div(gradient, scalar(*scale)) : gradient;
  }
  /// What the runtime has made of the gradients of the parameter.
  Value direction() { return function.getArgument(1); }
  Value state(unsigned index) { return function.getArgument(2 + index); }
  Value scalar(unsigned index) {
    return BroadcastOp::create(builder, loc, block,
                               function.getArgument(firstScalar + index),
                               ArrayRef<int64_t>());
  }
  Value constant(double value) {
    return ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(
            block, builder.getFloatAttr(block.getElementType(), value)));
  }
  Value add(Value x, Value y) { return AddOp::create(builder, loc, x, y); }
  Value sub(Value x, Value y) { return SubOp::create(builder, loc, x, y); }
  Value mul(Value x, Value y) { return MulOp::create(builder, loc, x, y); }
  Value div(Value x, Value y) { return DivOp::create(builder, loc, x, y); }
  Value sqrt(Value x) { return SqrtOp::create(builder, loc, x); }
  Value sign(Value x) { return SignOp::create(builder, loc, x); }
  Value less(Value x, Value y) {
    return CompareOp::create(builder, loc, block.clone(builder.getI1Type()),
                             Comparison::lt, x, y);
  }
  Value select(Value condition, Value whenTrue, Value whenFalse) {
    return SelectOp::create(builder, loc, condition, whenTrue, whenFalse);
  }
  /// New parameters and states; in a step that is skipped, the old ones.
  /// `isUnfinished`: where the first result is no parameter yet.
  void finish(ArrayRef<Value> results, Value isUnfinished = {}) {
    SmallVector<Value> values(results);
    if (emaDecay) {
      Value old = state(values.size() - 1);
      Value part = sub(constant(1), scalar(*emaDecay));
      Value average = add(old, mul(part, sub(values.front(), old)));
      values.push_back(isUnfinished ? select(isUnfinished, old, average)
                                    : average);
    }
    if (auto skipped = findScalar(ScalarKind::IsSkipped)) {
      auto type = block.clone(builder.getI1Type());
      Value isSkipped = CompareOp::create(builder, loc, type, Comparison::ne,
                                          scalar(*skipped), constant(0));
      for (auto [index, value] : llvm::enumerate(values)) {
        Value old = index == 0 ? parameter() : state(index - 1);
        value = SelectOp::create(builder, loc, isSkipped, old, value);
      }
    }
    func::ReturnOp::create(builder, loc, values);
  }

private:
  std::optional<unsigned> findScalar(ScalarKind kind) {
    return function->getAttrOfType<OptimizerAttr>(step::optimizerAttrName)
        .findScalar(kind);
  }

  OpBuilder builder;
  Location loc;
  RankedTensorType block;
  func::FuncOp function;
  unsigned firstScalar;
  std::optional<unsigned> emaDecay; // its scalar
};

} // namespace

bool pp::nn::isLossScale(StringRef text) {
  double number;
  return llvm::to_float(text, number) &&
         number >= std::numeric_limits<float>::min() &&
         number <= std::numeric_limits<float>::max();
}

namespace {

struct AttachOptimizer : nn::impl::AttachOptimizerBase<AttachOptimizer> {
  using AttachOptimizerBase::AttachOptimizerBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (module.lookupSymbol(optimizerFunctionName)) {
      module.emitError("has an optimizer already");
      return signalPassFailure();
    }
    if (lossScale != "none" && lossScale != "dynamic" &&
        !isLossScale(lossScale)) {
      module.emitError() << "unknown loss scale '" << lossScale
                         << "'; known: none, dynamic, positive numbers";
      return signalPassFailure();
    }
    FailureOr<FloatType> type = findTrainedType(module);
    if (failed(type))
      return signalPassFailure();
    // PyTorch's, and those of the papers.
    if (epsilon < 0)
      epsilon = optimizer == Optimizer::Adagrad ? 1e-10
                : optimizer == Optimizer::LAMB  ? 1e-6
                                                : 1e-8;
    if (momentum < 0)
      momentum = optimizer == Optimizer::Muon ? 0.95 : 0;
    if (beta2 < 0)
      beta2 = optimizer == Optimizer::Lion || optimizer == Optimizer::RMSprop
                  ? 0.99
                  : 0.999;
    switch (optimizer.getValue()) {
    case Optimizer::SGD:
      return attachSgd(module, *type);
    case Optimizer::Adam:
    case Optimizer::AdamW:
      return attachAdam(module, *type);
    case Optimizer::RMSprop:
      return attachRmsprop(module, *type);
    case Optimizer::Adagrad:
      return attachAdagrad(module, *type);
    case Optimizer::Lion:
      return attachLion(module, *type);
    case Optimizer::LAMB:
      return attachLamb(module, *type);
    case Optimizer::LARS:
      return attachLars(module, *type);
    case Optimizer::Adafactor:
      return attachAdafactor(module, *type);
    case Optimizer::Muon:
      return attachMuon(module, *type);
    }
  }

  ScalarAttr scalar(StringRef name, ScalarKind kind, double value) {
    Builder builder(&getContext());
    return ScalarAttr::get(&getContext(), builder.getStringAttr(name), kind,
                           builder.getF64FloatAttr(value));
  }

  /// The optimizer's own scalars, then those of averages and of the loss scale.
  ArrayAttr withLossScale(SmallVector<Attribute> scalars) {
    Builder builder(&getContext());
    if (emaDecay > 0)
      scalars.push_back(scalar(emaDecayName, ScalarKind::Value, emaDecay));
    if (lossScale == "none")
      return builder.getArrayAttr(scalars);
    double initial = 65536;
    if (lossScale == "dynamic")
      scalars.push_back(scalar("growth_interval", ScalarKind::Value, 2000));
    else
      (void)llvm::to_float(lossScale, initial);
    scalars.push_back(scalar("skip_limit", ScalarKind::Value, 50));
    scalars.push_back(scalar("loss_scale", ScalarKind::LossScale, initial));
    scalars.push_back(ScalarAttr::get(&getContext(),
                                      builder.getStringAttr("skipped"),
                                      ScalarKind::IsSkipped, Attribute()));
    return builder.getArrayAttr(scalars);
  }

  /// Rate, decay and the corrections of both means, then others.
  SmallVector<Attribute> adamScalars(ArrayRef<Attribute> others) {
    SmallVector<Attribute> scalars = {
        scalar("lr", ScalarKind::Value, learningRate),
        scalar("weight_decay", ScalarKind::Value, weightDecay),
        scalar("bias_correction1", ScalarKind::OneMinusPowerOf, beta1),
        scalar("bias_correction2", ScalarKind::OneMinusPowerOf, beta2)};
    llvm::append_range(scalars, others);
    return scalars;
  }

  void attachSgd(ModuleOp module, FloatType type) {
    OptimizerBuilder b(
        module, type, pp::getName(Optimizer::SGD), {"momentum"},
        withLossScale(
            {scalar("lr", ScalarKind::Value, learningRate),
             scalar("momentum", ScalarKind::Value, momentum),
             scalar("weight_decay", ScalarKind::Value, weightDecay)}));
    Value lr = b.scalar(0), mu = b.scalar(1), decay = b.scalar(2);
    // In the first step the state is 0, so it becomes the gradient, as in
    // PyTorch.
    Value gradient = b.add(b.gradient(), b.mul(decay, b.parameter()));
    Value velocity = b.add(b.mul(mu, b.state(0)), gradient);
    Value step = nesterov ? b.add(gradient, b.mul(mu, velocity)) : velocity;
    b.finish({b.sub(b.parameter(), b.mul(lr, step)), velocity});
  }

  /// g^2 in a mean of squares.
  Value meanSquare(OptimizerBuilder &b, Value state, Value g) {
    return b.add(b.mul(b.constant(beta2), state),
                 b.mul(b.constant(1 - beta2), b.mul(g, g)));
  }

  void attachRmsprop(ModuleOp module, FloatType type) {
    SmallVector<StringRef> states = {"square_avg"};
    bool hasMomentum = momentum > 0;
    if (hasMomentum)
      states.push_back("momentum");
    if (centered)
      states.push_back("grad_avg");
    SmallVector<Attribute> scalars = {
        scalar("lr", ScalarKind::Value, learningRate),
        scalar("weight_decay", ScalarKind::Value, weightDecay)};
    if (hasMomentum)
      scalars.push_back(scalar("momentum", ScalarKind::Value, momentum));
    OptimizerBuilder b(module, type, pp::getName(Optimizer::RMSprop), states,
                       withLossScale(scalars));
    Value lr = b.scalar(0), decay = b.scalar(1);
    Value g = b.add(b.gradient(), b.mul(decay, b.parameter()));
    SmallVector<Value> next = {meanSquare(b, b.state(0), g)};
    Value square = next[0], mean;
    if (centered) {
      Value old = b.state(hasMomentum ? 2 : 1);
      mean = b.add(old, b.mul(b.constant(1 - beta2), b.sub(g, old)));
      square = b.sub(square, b.mul(mean, mean));
    }
    Value step = b.div(g, b.add(b.sqrt(square), b.constant(epsilon)));
    if (hasMomentum) {
      step = b.add(b.mul(b.scalar(2), b.state(1)), step);
      next.push_back(step);
    }
    if (centered)
      next.push_back(mean);
    next.insert(next.begin(), b.sub(b.parameter(), b.mul(lr, step)));
    b.finish(next);
  }

  void attachAdagrad(ModuleOp module, FloatType type) {
    OptimizerBuilder b(
        module, type, pp::getName(Optimizer::Adagrad), {"sum"},
        withLossScale(
            {scalar("lr", ScalarKind::Value, learningRate),
             scalar("weight_decay", ScalarKind::Value, weightDecay)}));
    Value lr = b.scalar(0), decay = b.scalar(1);
    Value g = b.add(b.gradient(), b.mul(decay, b.parameter()));
    Value sum = b.add(b.state(0), b.mul(g, g));
    Value step = b.div(g, b.add(b.sqrt(sum), b.constant(epsilon)));
    b.finish({b.sub(b.parameter(), b.mul(lr, step)), sum});
  }

  void attachLion(ModuleOp module, FloatType type) {
    OptimizerBuilder b(
        module, type, pp::getName(Optimizer::Lion), {"exp_avg"},
        withLossScale(
            {scalar("lr", ScalarKind::Value, learningRate),
             scalar("weight_decay", ScalarKind::Value, weightDecay)}));
    Value lr = b.scalar(0), decay = b.scalar(1);
    Value g = b.gradient();
    auto mean = [&](double beta) {
      return b.add(b.mul(b.constant(beta), b.state(0)),
                   b.mul(b.constant(1 - beta), g));
    };
    Value decayed =
        b.mul(b.parameter(), b.sub(b.constant(1), b.mul(lr, decay)));
    b.finish({b.sub(decayed, b.mul(lr, b.sign(mean(beta1)))), mean(beta2)});
  }

  void attachLamb(ModuleOp module, FloatType type) {
    OptimizerBuilder b(module, type, pp::getName(Optimizer::LAMB),
                       {"exp_avg", "exp_avg_sq"},
                       withLossScale(adamScalars(
                           {scalar("trust_ratio", ScalarKind::Value, 1)})));
    Value lr = b.scalar(0), decay = b.scalar(1);
    Value correction1 = b.scalar(2), correction2 = b.scalar(3);
    Value ratio = b.scalar(4);
    Value isMeasured = b.less(ratio, b.constant(0));
    Value g = b.gradient();
    Value mean = b.add(b.mul(b.constant(beta1), b.state(0)),
                       b.mul(b.constant(1 - beta1), g));
    // After it was measured, the states have this gradient.
    mean = b.select(isMeasured, mean, b.state(0));
    Value square =
        b.select(isMeasured, meanSquare(b, b.state(1), g), b.state(1));
    Value root = b.add(b.sqrt(b.div(square, correction2)), b.constant(epsilon));
    Value step = b.add(b.div(b.div(mean, correction1), root),
                       b.mul(decay, b.parameter()));
    Value next = b.sub(b.parameter(), b.mul(b.mul(lr, ratio), step));
    b.finish({b.select(isMeasured, step, next), mean, square}, isMeasured);
  }

  void attachLars(ModuleOp module, FloatType type) {
    OptimizerBuilder b(
        module, type, pp::getName(Optimizer::LARS), {"momentum"},
        withLossScale(
            {scalar("lr", ScalarKind::Value, learningRate),
             scalar("momentum", ScalarKind::Value, momentum),
             scalar("weight_decay", ScalarKind::Value, weightDecay),
             scalar("trust_coefficient", ScalarKind::Value, trustCoefficient),
             scalar("trust_ratio", ScalarKind::Value, 1)}));
    Value lr = b.scalar(0), mu = b.scalar(1), decay = b.scalar(2);
    Value ratio = b.scalar(4), g = b.gradient();
    Value isMeasured = b.less(ratio, b.constant(0));
    Value step = b.mul(ratio, b.add(g, b.mul(decay, b.parameter())));
    Value velocity = b.add(b.mul(mu, b.state(0)), step);
    Value next = b.sub(b.parameter(), b.mul(lr, velocity));
    b.finish({b.select(isMeasured, g, next),
              b.select(isMeasured, b.state(0), velocity)},
             isMeasured);
  }

  /// PyTorch's numbers.
  void attachAdafactor(ModuleOp module, FloatType type) {
    constexpr double smallestScale = 1e-3, clippingThreshold = 1;
    constexpr double beta2Decay = -0.8, rateDecay = -0.5;
    double unit = type.isF64() ? std::numeric_limits<double>::epsilon()
                               : std::numeric_limits<float>::epsilon();
    OptimizerBuilder b(
        module, type, pp::getName(Optimizer::Adafactor),
        {runtime::factoredRowsName, runtime::factoredColumnsName,
         runtime::unfactoredName},
        withLossScale(
            {scalar("lr", ScalarKind::Value, learningRate),
             scalar("weight_decay", ScalarKind::Value, weightDecay),
             scalar(runtime::directionName, ScalarKind::Value, -1),
             scalar("beta2_decay", ScalarKind::PowerOfStep, beta2Decay),
             scalar("rate_decay", ScalarKind::PowerOfStep, rateDecay),
             scalar("clipping_threshold", ScalarKind::Value, clippingThreshold),
             scalar("eps1", ScalarKind::Value, unit),
             scalar("eps2", ScalarKind::Value, smallestScale)}));
    Value lr = b.scalar(0), decay = b.scalar(1), length = b.scalar(2);
    Value decayed =
        b.mul(b.parameter(), b.sub(b.constant(1), b.mul(lr, decay)));
    b.finish({b.sub(decayed, b.mul(length, b.direction()))});
  }

  void attachMuon(ModuleOp module, FloatType type) {
    OptimizerBuilder b(
        module, type, pp::getName(Optimizer::Muon), {"exp_avg", "exp_avg_sq"},
        withLossScale(adamScalars(
            {scalar(runtime::directionName, ScalarKind::Value, -1),
             scalar("momentum", ScalarKind::Value, momentum),
             scalar(runtime::orthogonalizeName, ScalarKind::Value, 1),
             scalar("match_rms", ScalarKind::Value, 0)})));
    Value lr = b.scalar(0), decay = b.scalar(1), length = b.scalar(4);
    Value isAdam = b.less(length, b.constant(0));
    auto [own, mean, square] = adamStep(b, b.gradient());
    Value step = b.select(isAdam, own, b.mul(length, b.direction()));
    Value decayed =
        b.mul(b.parameter(), b.sub(b.constant(1), b.mul(lr, decay)));
    b.finish({b.sub(decayed, step), b.select(isAdam, mean, b.state(0)),
              b.select(isAdam, square, b.state(1))});
  }

  /// The step of Adam, and its new states; scalars 0, 2 and 3 are the rate and
  /// the corrections of the means.
  std::tuple<Value, Value, Value> adamStep(OptimizerBuilder &b, Value g) {
    Value lr = b.scalar(0);
    Value correction1 = b.scalar(2), correction2 = b.scalar(3);
    Value mean = b.add(b.mul(b.constant(beta1), b.state(0)),
                       b.mul(b.constant(1 - beta1), g));
    Value square = meanSquare(b, b.state(1), g);
    Value root =
        b.add(b.div(b.sqrt(square), b.sqrt(correction2)), b.constant(epsilon));
    return {b.mul(b.div(lr, correction1), b.div(mean, root)), mean, square};
  }

  void attachAdam(ModuleOp module, FloatType type) {
    bool isDecoupled = optimizer == Optimizer::AdamW;
    OptimizerBuilder b(module, type, pp::getName(optimizer.getValue()),
                       {"exp_avg", "exp_avg_sq"},
                       withLossScale(adamScalars({})));
    Value lr = b.scalar(0), decay = b.scalar(1);
    Value g = b.gradient();
    if (!isDecoupled)
      g = b.add(g, b.mul(decay, b.parameter()));
    auto [step, mean, square] = adamStep(b, g);
    Value decayed = b.parameter();
    if (isDecoupled)
      decayed = b.mul(decayed, b.sub(b.constant(1), b.mul(lr, decay)));
    b.finish({b.sub(decayed, step), mean, square});
  }
};

} // namespace
