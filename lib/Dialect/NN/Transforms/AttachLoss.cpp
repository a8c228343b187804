//===- AttachLoss.cpp - Replace the model's output by a loss --------------===//

#include "MainFunction.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/AddedLoss.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/Step.h"

#include <limits>

namespace pp::nn {
#define GEN_PASS_DEF_ATTACHLOSS
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// Short calls for the arithmetic of losses.
struct Expressions {
  OpBuilder &builder;
  Location loc;

  Value add(Value x, Value y) { return AddOp::create(builder, loc, x, y); }
  Value sub(Value x, Value y) { return SubOp::create(builder, loc, x, y); }
  Value mul(Value x, Value y) { return MulOp::create(builder, loc, x, y); }
  Value neg(Value x) { return NegOp::create(builder, loc, x); }
  Value abs(Value x) { return AbsOp::create(builder, loc, x); }
  /// A constant of the type of `like`.
  Value splat(Value like, double value) {
    auto type = cast<RankedTensorType>(like.getType());
    return ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(
            type, builder.getFloatAttr(type.getElementType(), value)));
  }
  Value sum(Value x, ArrayRef<int64_t> axes) {
    return ReduceOp::create(builder, loc, Reduction::sum, x, axes);
  }
  Value sumAll(Value x) {
    int64_t rank = cast<RankedTensorType>(x.getType()).getRank();
    return sum(x, llvm::to_vector(llvm::seq<int64_t>(0, rank)));
  }
};

struct AttachLoss : nn::impl::AttachLossBase<AttachLoss> {
  using AttachLossBase::AttachLossBase;

  void runOnOperation() override {
    if (failed(attach()))
      signalPassFailure();
  }

  LogicalResult attach() {
    FailureOr<func::FuncOp> main = findMain(getOperation());
    if (failed(main))
      return failure();
    func::FuncOp function = *main;
    if (microbatches < 1)
      return function.emitError() << "needs 1 or more micro-batches, got "
                                  << microbatches.getValue();
    if (failed(collectTerms(function)))
      return failure();
    FailureOr<FloatType> trained = findTrainedType(getOperation());
    if (failed(trained))
      return failure();
    for (const Term &each : terms)
      if (failed(checkOutput(function, each, *trained)))
        return failure();
    auto terminator =
        cast<func::ReturnOp>(function.getBody().front().getTerminator());
    OpBuilder builder(terminator);
    Location loc = NameLoc::get(builder.getStringAttr("loss"));
    Expressions e{builder, loc};
    Value total;
    for (const Term &each : terms) {
      term = &each;
      Value prediction = terminator.getOperand(each.index);
      auto type = cast<RankedTensorType>(prediction.getType());
      // The loss has the precision of the optimizer whatever activations have.
      if (type.getElementType() != *trained)
        prediction =
            CastOp::create(builder, loc, type.clone(*trained), prediction);
      FailureOr<Value> value = attachTo(builder, loc, function, prediction);
      if (failed(value) || hasFailed)
        return failure();
      if (each.weight != 1)
        value = e.mul(*value, e.splat(*value, each.weight));
      total = total ? e.add(total, *value) : *value;
    }

    terminator->setOperands(total);
    function.setType(FunctionType::get(&getContext(),
                                       function.getBody().getArgumentTypes(),
                                       {total.getType()}));
    function.setAllResultAttrs(
        ArrayRef<DictionaryAttr>(builder.getDictionaryAttr(builder.getNamedAttr(
            step::fetchAttrName, builder.getStringAttr("loss")))));
    return success();
  }

  /// One of the losses that are added up.
  struct Term {
    Loss loss;
    double weight;
    std::string target; ///< the name of its input
    unsigned index;     ///< of the output
    /// What micro-batches have of the output adds up.
    bool isSum;
  };
  SmallVector<Term> terms;
  const Term *term = nullptr; // the one that is attached
  bool hasFailed = false;     // with a message

  LogicalResult collectTerms(func::FuncOp function) {
    auto add = [&](Loss kind, double weight, StringRef target,
                   StringRef name) -> LogicalResult {
      FailureOr<unsigned> index = findOutput(function, name);
      if (failed(index))
        return failure();
      bool isSum =
          function.getResultAttr(*index, step::addedAttrName) != nullptr;
      terms.push_back({kind, weight, target.str(), *index, isSum});
      return success();
    };
    if (failed(add(loss, 1, stringifyRole(step::Role::Target), output)))
      return failure();
    for (const std::string &text : addedLosses) {
      std::optional<AddedLoss> added = parseAddedLoss(text);
      if (!added)
        return function.emitError() << "cannot read the added loss '" << text
                                    << "': expected " << addedLossText;
      if (failed(add(added->loss, added->weight, added->target, added->output)))
        return failure();
    }
    return success();
  }

  /// All before the first is attached: they share what they say of the batch.
  LogicalResult checkOutput(func::FuncOp function, const Term &each,
                            FloatType trained) {
    if (!function.getResultAttr(each.index, step::batchedAttrName) &&
        !function->hasAttr(step::wholeBatchesAttrName))
      function->setAttr(
          step::wholeBatchesAttrName,
          StringAttr::get(&getContext(),
                          "the loss is of an output whose axis 0 is not "
                          "that of the samples"));
    auto type = cast<RankedTensorType>(function.getResultTypes()[each.index]);
    Type element = type.getElementType();
    if (!isa<FloatType>(element) || (element.isF64() && trained.isF32()))
      return function.emitError()
             << "output to attach a loss to has type " << type << ", expected "
             << trained << " elements, as of the parameters";
    if (type.getNumElements() == 0)
      return function.emitError()
             << "cannot attach a loss to an output without elements: " << type;
    return success();
  }

  FailureOr<Value> attachTo(OpBuilder &builder, Location loc,
                            func::FuncOp function, Value prediction) {
    switch (term->loss) {
    case Loss::CrossEntropy:
      return crossEntropy(builder, loc, function, prediction);
    case Loss::MeanSquaredError:
      return meanSquaredError(builder, loc, function, prediction);
    case Loss::SoftCrossEntropy:
    case Loss::KullbackLeibler:
    case Loss::Cosine:
      return rowLoss(builder, loc, function, prediction);
    case Loss::BinaryCrossEntropy:
    case Loss::MeanAbsoluteError:
    case Loss::Huber:
      return elementLoss(builder, loc, function, prediction);
    case Loss::ConnectionistTemporal:
      return sequenceLoss(builder, loc, function, prediction);
    case Loss::Output:
      return ownLoss(builder, loc, function, prediction);
    }
    return failure();
  }

  FailureOr<unsigned> findOutput(func::FuncOp function, StringRef output) {
    unsigned count = function.getNumResults();
    if (count == 0)
      return function.emitError("has no output to attach a loss to");
    if (output.empty())
      return 0u;
    SmallVector<StringRef> names;
    for (unsigned index = 0; index < count; ++index) {
      auto name =
          function.getResultAttrOfType<StringAttr>(index, step::fetchAttrName);
      if (name && name.getValue() == output)
        return index;
      names.push_back(name ? name.getValue() : "?");
    }
    return function.emitError() << "has no output '" << output
                                << "'; outputs: " << llvm::join(names, ", ");
  }

  /// The input of that name, which the model has not, or another loss has
  /// added.
  Value addInput(OpBuilder &builder, func::FuncOp function, step::Role role,
                 RankedTensorType type, StringRef name,
                 ArrayRef<NamedAttribute> others = {}) {
    SmallVector<NamedAttribute> attributes(others);
    attributes.push_back(
        builder.getNamedAttr(step::feedAttrName, builder.getStringAttr(name)));
    attributes.push_back(builder.getNamedAttr(
        step::roleAttrName, step::RoleAttr::get(builder.getContext(), role)));
    // What belongs to an output without samples is one for all of them.
    std::optional<int64_t> batch = step::getBatchSize(function);
    if (type.getRank() > 0 && (!batch || *batch == type.getDimSize(0)))
      attributes.push_back(
          builder.getNamedAttr(step::batchedAttrName, builder.getUnitAttr()));
    unsigned index = function.getNumArguments();
    for (unsigned other = 0; other < index; ++other) {
      auto taken =
          function.getArgAttrOfType<StringAttr>(other, step::feedAttrName);
      if (!taken || taken.getValue() != name)
        continue;
      Value argument = function.getArgument(other);
      if (!inputs.contains(argument)) {
        function.emitError() << "has an input '" << name
                             << "', which is what the loss calls an input of "
                                "its own; rename that of the model";
        hasFailed = true;
      } else if (argument.getType() != type) {
        function.emitError()
            << "the targets '" << name << "' are " << argument.getType()
            << " to one loss and " << type << " to another";
        hasFailed = true;
      }
      return argument;
    }
    (void)function.insertArgument(
        index, type, builder.getDictionaryAttr(attributes), function.getLoc());
    Value argument = function.getArgument(index);
    inputs.insert(argument);
    return argument;
  }
  DenseSet<Value> inputs; // that were added

  Value addTarget(OpBuilder &builder, func::FuncOp function,
                  RankedTensorType type, ArrayRef<NamedAttribute> others = {}) {
    SmallVector<NamedAttribute> attributes(others);
    if (function.getNumResults() > 1)
      if (auto name = function.getResultAttrOfType<StringAttr>(
              term->index, step::fetchAttrName))
        attributes.push_back(
            builder.getNamedAttr(step::comparedAttrName, name));
    return addInput(builder, function, step::Role::Target, type, term->target,
                    attributes);
  }

  /// The reciprocal of what counts of the targets.
  Value addWeight(OpBuilder &builder, func::FuncOp function, Type element) {
    StringRef role = stringifyRole(step::Role::LossWeight);
    auto scalar = RankedTensorType::get({}, element);
    if (terms.size() == 1)
      return addInput(builder, function, step::Role::LossWeight, scalar, role);
    std::string name = role.str();
    if (term->target != terms.front().target)
      name += "." + term->target;
    return addInput(builder, function, step::Role::LossWeight, scalar, name,
                    builder.getNamedAttr(step::countedAttrName,
                                         builder.getStringAttr(term->target)));
  }

  Value addMask(OpBuilder &builder, func::FuncOp function,
                RankedTensorType type) {
    return addInput(builder, function, step::Role::SampleMask, type,
                    stringifyRole(step::Role::SampleMask));
  }

  /// sum * 1 / weight; `weight` counts the elements of the whole mini-batch.
  Value divide(OpBuilder &builder, Location loc, Value sum, int64_t weight) {
    auto type = cast<RankedTensorType>(sum.getType());
    Value factor = ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(
            type, builder.getFloatAttr(type.getElementType(),
                                       1.0 / static_cast<double>(weight))));
    return MulOp::create(builder, loc, sum, factor);
  }

  FailureOr<Value> crossEntropy(OpBuilder &builder, Location loc,
                                func::FuncOp function, Value logits) {
    auto type = cast<RankedTensorType>(logits.getType());
    int64_t rank = type.getRank();
    if (rank < 2)
      return function.emitError()
             << "cross entropy needs an output of rank 2 or more, got " << type;
    int64_t axis = classAxis >= 0 ? classAxis : (rank >= 4 ? 1 : rank - 1);
    if (axis == 0 || axis >= rank)
      return function.emitError()
             << "class axis " << axis << " is outside [1, " << rank << ")";
    if (axis != rank - 1) {
      SmallVector<int64_t> permutation;
      for (int64_t i = 0; i < rank; ++i)
        if (i != axis)
          permutation.push_back(i);
      permutation.push_back(axis);
      logits = TransposeOp::create(builder, loc, logits, permutation);
      type = cast<RankedTensorType>(logits.getType());
    }
    auto rows = RankedTensorType::get(type.getShape().drop_back(),
                                      builder.getI64Type());
    int64_t classes = type.getShape().back();
    if (classes < 2)
      return function.emitError()
             << "cross entropy needs two classes or more, but axis " << axis
             << " of the output has size " << classes
             << ": its loss is 0 whatever the model does. One number for each "
                "sample is what 'mse' compares; for two classes let the model "
                "return two numbers, or say with --class-axis where they are";
    if (!classWeights.empty() &&
        static_cast<int64_t>(classWeights.size()) != classes)
      return function.emitError()
             << "there are " << classWeights.size()
             << " class weights, but axis " << axis << " of the output has "
             << classes << " classes";
    std::array<int64_t, 2> range = {0, classes - 1};
    SmallVector<NamedAttribute> ofLabels{
        builder.getNamedAttr(step::rangeAttrName,
                             builder.getDenseI64ArrayAttr(range)),
        builder.getNamedAttr(step::ignoreIndexAttrName,
                             builder.getI64IntegerAttr(ignoreIndex))};
    if (!classWeights.empty())
      ofLabels.push_back(builder.getNamedAttr(
          step::classWeightsAttrName,
          builder.getDenseF64ArrayAttr(ArrayRef<double>(classWeights))));
    Value labels = addTarget(builder, function, rows, ofLabels);
    Value weight = addWeight(builder, function, type.getElementType());
    Expressions e{builder, loc};
    Value logarithms, entropy;
    if (classWeights.empty()) {
      entropy =
          SoftmaxCrossEntropyOp::create(builder, loc, logits, labels,
                                        builder.getI64IntegerAttr(ignoreIndex))
              .getLoss();
    } else {
      logarithms = weighClasses(builder, loc,
                                LogSoftmaxOp::create(builder, loc, logits));
      entropy = e.neg(e.sumAll(ofLabel(builder, loc, logarithms, labels)));
    }
    if (labelSmoothing == 0)
      return e.mul(entropy, weight);
    // Of rows whose label counts: minus the logarithms of all classes.
    auto labelType = cast<RankedTensorType>(labels.getType());
    Value ignored = ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(labelType,
                               builder.getI64IntegerAttr(ignoreIndex)));
    Value counts =
        CompareOp::create(builder, loc, labelType.clone(builder.getI1Type()),
                          Comparison::ne, labels, ignored);
    counts =
        CastOp::create(builder, loc, rows.clone(type.getElementType()), counts);
    if (!logarithms)
      logarithms = LogSoftmaxOp::create(builder, loc, logits);
    Value ofRows = e.sum(logarithms, {type.getRank() - 1});
    Value all = e.sumAll(e.mul(ofRows, counts));
    Value smooth = e.mul(all, e.splat(all, -labelSmoothing / classes));
    Value sharp = e.mul(entropy, e.splat(all, 1 - labelSmoothing));
    return e.mul(e.add(sharp, smooth), weight);
  }

  /// `values`, whose last axis has the classes, times what each class counts.
  Value weighClasses(OpBuilder &builder, Location loc, Value values) {
    auto type = cast<RankedTensorType>(values.getType());
    SmallVector<Attribute> numbers;
    for (double number : classWeights)
      numbers.push_back(builder.getFloatAttr(type.getElementType(), number));
    auto ofClasses =
        RankedTensorType::get({type.getShape().back()}, type.getElementType());
    Value weights = ConstantOp::create(
        builder, loc, DenseElementsAttr::get(ofClasses, numbers));
    return MulOp::create(
        builder, loc, values,
        BroadcastOp::create(builder, loc, type, weights, type.getRank() - 1));
  }

  /// `values` at the class of each label that is not ignored, 0 elsewhere: 0
  /// times minus infinity would not be 0.
  Value ofLabel(OpBuilder &builder, Location loc, Value values, Value labels) {
    auto type = cast<RankedTensorType>(values.getType());
    auto indices = type.clone(builder.getI64Type());
    auto numbers =
        llvm::to_vector(llvm::seq<int64_t>(0, type.getShape().back()));
    // What is ignored may be a class; no label is -1 then.
    if (ignoreIndex >= 0 && ignoreIndex < type.getShape().back())
      numbers[ignoreIndex] = -1;
    Value classes =
        ConstantOp::create(builder, loc,
                           DenseIntElementsAttr::get(
                               RankedTensorType::get({type.getShape().back()},
                                                     builder.getI64Type()),
                               numbers));
    auto axes = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank() - 1));
    Value isLabel = CompareOp::create(
        builder, loc, type.clone(builder.getI1Type()), Comparison::eq,
        BroadcastOp::create(builder, loc, indices, labels, axes),
        BroadcastOp::create(builder, loc, indices, classes,
                            type.getRank() - 1));
    Expressions e{builder, loc};
    return SelectOp::create(builder, loc, isLabel, values, e.splat(values, 0));
  }

  /// The sum of `terms`, whose axis 0 is that of the samples, over those that
  /// there are, times `factor`, and divided by the elements of the targets.
  Value weigh(OpBuilder &builder, Location loc, func::FuncOp function,
              Value terms, int64_t targets, double factor) {
    Expressions e{builder, loc};
    auto type = cast<RankedTensorType>(terms.getType());
    Type element = type.getElementType();
    if (function->hasAttr(step::wholeBatchesAttrName)) {
      Value sum = e.sumAll(terms);
      return e.mul(sum, e.splat(sum, factor / (static_cast<double>(targets) *
                                               microbatches)));
    }
    Value mask = addMask(builder, function,
                         RankedTensorType::get({type.getDimSize(0)}, element));
    Value rows = BroadcastOp::create(builder, loc, type, mask, int64_t{0});
    Value sum = e.sumAll(e.mul(terms, rows));
    Value weight = addWeight(builder, function, element);
    return e.mul(e.mul(sum, e.splat(sum, factor)), weight);
  }

  /// Means over all elements.
  FailureOr<Value> elementLoss(OpBuilder &builder, Location loc,
                               func::FuncOp function, Value prediction) {
    Expressions e{builder, loc};
    auto type = cast<RankedTensorType>(prediction.getType());
    Value target = addTarget(builder, function, type);
    Value terms;
    if (term->loss == Loss::BinaryCrossEntropy) {
      // max(x, 0) - x t + log(1 + exp(-|x|)) overflows nowhere.
      Value x = prediction;
      Value tail = Log1pOp::create(
          builder, loc, ExpOp::create(builder, loc, e.neg(e.abs(x))));
      terms =
          e.add(e.sub(ReluOp::create(builder, loc, x), e.mul(x, target)), tail);
    } else {
      Value difference = e.sub(prediction, target);
      Value distance = e.abs(difference);
      terms = distance;
      if (term->loss == Loss::Huber) {
        Value square =
            e.mul(e.mul(difference, difference), e.splat(difference, 0.5));
        Value linear = e.mul(e.sub(distance, e.splat(distance, delta / 2)),
                             e.splat(distance, delta));
        Value isNear = CompareOp::create(
            builder, loc, type.clone(builder.getI1Type()), Comparison::lt,
            distance, e.splat(distance, delta));
        terms = SelectOp::create(builder, loc, isNear, square, linear);
      }
    }
    return weigh(builder, loc, function, terms, type.getNumElements(), 1);
  }

  /// Means over rows: along the axis of the classes for soft targets, else
  /// along the last one. `kl` is divided by the samples.
  FailureOr<Value> rowLoss(OpBuilder &builder, Location loc,
                           func::FuncOp function, Value prediction) {
    Expressions e{builder, loc};
    auto type = cast<RankedTensorType>(prediction.getType());
    int64_t rank = type.getRank();
    if (rank < 2)
      return function.emitError()
             << "this loss needs an output of rank 2 or more, got " << type;
    int64_t axis = rank - 1;
    if (term->loss == Loss::SoftCrossEntropy)
      axis = classAxis >= 0 ? classAxis.getValue() : (rank >= 4 ? 1 : rank - 1);
    if (axis == 0 || axis >= rank)
      return function.emitError()
             << "class axis " << axis << " is outside [1, " << rank << ")";
    Value target = addTarget(builder, function, type);
    SmallVector<int64_t> permutation;
    for (int64_t i = 0; i < rank; ++i)
      if (i != axis)
        permutation.push_back(i);
    permutation.push_back(axis);
    auto classesLast = [&](Value value) -> Value {
      if (axis == rank - 1)
        return value;
      return TransposeOp::create(builder, loc, value, permutation);
    };
    double classes = static_cast<double>(type.getDimSize(axis));
    if (term->loss == Loss::SoftCrossEntropy) {
      Value t = classesLast(target);
      if (labelSmoothing != 0)
        t = e.add(e.mul(t, e.splat(t, 1 - labelSmoothing)),
                  e.splat(t, labelSmoothing / classes));
      Value logarithms =
          LogSoftmaxOp::create(builder, loc, classesLast(prediction));
      return weigh(builder, loc, function, e.neg(e.mul(t, logarithms)),
                   type.getNumElements(), classes);
    }
    if (term->loss == Loss::KullbackLeibler) {
      // t (log t - x), and 0 where t is 0.
      Value isZero =
          CompareOp::create(builder, loc, type.clone(builder.getI1Type()),
                            Comparison::le, target, e.splat(target, 0));
      Value some =
          SelectOp::create(builder, loc, isZero, e.splat(target, 1), target);
      Value entropy = e.mul(target, LogOp::create(builder, loc, some));
      Value terms = e.sub(entropy, e.mul(target, prediction));
      return weigh(builder, loc, function, terms, type.getNumElements(),
                   static_cast<double>(type.getNumElements()) /
                       static_cast<double>(type.getDimSize(0)));
    }
    auto product = [&](Value x, Value y) { return e.sum(e.mul(x, y), {axis}); };
    auto square = [&](Value x) {
      Value sum = product(x, x);
      return e.add(sum, e.splat(sum, 1e-12)); // as PyTorch
    };
    Value norms =
        SqrtOp::create(builder, loc, e.mul(square(prediction), square(target)));
    Value cosine =
        DivOp::create(builder, loc, product(prediction, target), norms);
    return weigh(builder, loc, function, e.sub(e.splat(cosine, 1), cosine),
                 type.getNumElements(), classes);
  }

  /// Of sequences without an alignment to the frames of the output.
  FailureOr<Value> sequenceLoss(OpBuilder &builder, Location loc,
                                func::FuncOp function, Value prediction) {
    auto type = cast<RankedTensorType>(prediction.getType());
    if (type.getRank() != 3)
      return function.emitError()
             << "ctc needs an output of samples x frames x classes, got "
             << type << "; --batch-axis says where an output has its samples";
    int64_t samples = type.getDimSize(0), frames = type.getDimSize(1);
    int64_t classes = type.getDimSize(2);
    if (ctcBlank < 0 || ctcBlank >= classes)
      return function.emitError()
             << "the output has " << classes << " classes, so the blank one is "
             << "none of 0 to " << classes - 1 << ": " << ctcBlank.getValue();
    int64_t length = ctcTargetLength > 0 ? ctcTargetLength : (frames + 1) / 2;
    std::array<int64_t, 2> range = {std::numeric_limits<int32_t>::min(),
                                    classes - 1};
    auto indices = [&](ArrayRef<int64_t> shape) {
      return RankedTensorType::get(shape, builder.getI64Type());
    };
    Value labels =
        addTarget(builder, function, indices({samples, length}),
                  builder.getNamedAttr(step::rangeAttrName,
                                       builder.getDenseI64ArrayAttr(range)));
    Value counts;
    if (ctcFrames) {
      std::array<int64_t, 2> possible = {0, frames};
      counts = addInput(
          builder, function, step::Role::Input, indices(samples), "frames",
          builder.getNamedAttr(step::rangeAttrName,
                               builder.getDenseI64ArrayAttr(possible)));
    }
    Expressions e{builder, loc};
    Value logarithms = LogSoftmaxOp::create(builder, loc, prediction);
    auto losses = type.clone(ArrayRef<int64_t>(samples));
    Value loss =
        CtcLossOp::create(builder, loc, losses,
                          type.clone({samples, frames, 2 * length + 1}),
                          logarithms, labels, counts, ctcBlank)
            .getLosses();
    Value isLabel = CompareOp::create(
        builder, loc,
        RankedTensorType::get({samples, length}, builder.getI1Type()),
        Comparison::ge, labels,
        ConstantOp::create(
            builder, loc,
            DenseElementsAttr::get(indices({samples, length}),
                                   builder.getI64IntegerAttr(0))));
    Value number = e.sum(
        CastOp::create(builder, loc, type.clone({samples, length}), isLabel),
        {1});
    number = MaximumOp::create(builder, loc, number, e.splat(number, 1));
    return weigh(builder, loc, function,
                 DivOp::create(builder, loc, loss, number), samples * length,
                 static_cast<double>(length));
  }

  /// What the model says that its loss is, or else its mean over micro-batches.
  FailureOr<Value> ownLoss(OpBuilder &builder, Location loc,
                           func::FuncOp function, Value prediction) {
    Expressions e{builder, loc};
    auto type = cast<RankedTensorType>(prediction.getType());
    if (!function->hasAttr(step::wholeBatchesAttrName))
      function->setAttr(step::wholeBatchesAttrName,
                        builder.getStringAttr(
                            "the model computes the loss, and does not know "
                            "that a sample is missing"));
    if (term->isSum) {
      Value sum = e.sumAll(prediction);
      return e.mul(
          sum, e.splat(sum, 1.0 / static_cast<double>(type.getNumElements())));
    }
    if (type.getRank() == 0)
      return e.mul(prediction, e.splat(prediction, 1.0 / static_cast<double>(
                                                             microbatches)));
    return weigh(builder, loc, function, prediction, type.getNumElements(), 1);
  }

  FailureOr<Value> meanSquaredError(OpBuilder &builder, Location loc,
                                    func::FuncOp function, Value prediction) {
    auto type = cast<RankedTensorType>(prediction.getType());
    Value target = addTarget(builder, function, type);
    Value difference = SubOp::create(builder, loc, prediction, target);
    auto axes = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    if (function->hasAttr(step::wholeBatchesAttrName)) {
      Value square = MulOp::create(builder, loc, difference, difference);
      Value sum = ReduceOp::create(builder, loc, Reduction::sum, square, axes);
      return divide(builder, loc, sum, type.getNumElements() * microbatches);
    }
    // Rows without a sample count nothing.
    Type element = type.getElementType();
    Value mask = addMask(builder, function,
                         RankedTensorType::get({type.getDimSize(0)}, element));
    Value rows = BroadcastOp::create(builder, loc, type, mask, int64_t{0});
    Value counted = MulOp::create(builder, loc, difference, rows);
    Value square = MulOp::create(builder, loc, counted, difference);
    Value sum = ReduceOp::create(builder, loc, Reduction::sum, square, axes);
    Value weight = addWeight(builder, function, element);
    return Value(MulOp::create(builder, loc, sum, weight));
  }
};

} // namespace
