//===- AttachLoss.cpp - Replace the model's output by a loss --------------===//

#include "MainFunction.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/Step.h"

namespace pp::nn {
#define GEN_PASS_DEF_ATTACHLOSS
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

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
    auto terminator =
        cast<func::ReturnOp>(function.getBody().front().getTerminator());
    FailureOr<unsigned> index = findOutput(function);
    if (failed(index))
      return failure();
    Value prediction = terminator.getOperand(*index);
    if (!function.getResultAttr(*index, step::batchedAttrName) &&
        !function->hasAttr(step::wholeBatchesAttrName))
      function->setAttr(
          step::wholeBatchesAttrName,
          StringAttr::get(&getContext(),
                          "the loss is of an output whose axis 0 is not "
                          "that of the samples"));
    auto type = cast<RankedTensorType>(prediction.getType());
    Type element = type.getElementType();
    FailureOr<FloatType> trained = findTrainedType(getOperation());
    if (failed(trained))
      return failure();
    if (!isa<FloatType>(element) || (element.isF64() && trained->isF32()))
      return function.emitError()
             << "output to attach a loss to has type " << type << ", expected "
             << *trained << " elements, as of the parameters";
    if (type.getNumElements() == 0)
      return function.emitError()
             << "cannot attach a loss to an output without elements: " << type;
    OpBuilder builder(terminator);
    Location loc = NameLoc::get(builder.getStringAttr("loss"));
    // The loss has the precision of the optimizer whatever activations have.
    if (element != *trained)
      prediction =
          CastOp::create(builder, loc, type.clone(*trained), prediction);
    FailureOr<Value> value =
        loss == Loss::CrossEntropy
            ? crossEntropy(builder, loc, function, prediction)
            : meanSquaredError(builder, loc, function, prediction);
    if (failed(value) || isNameTaken)
      return failure();

    terminator->setOperands(*value);
    function.setType(FunctionType::get(&getContext(),
                                       function.getBody().getArgumentTypes(),
                                       {value->getType()}));
    function.setAllResultAttrs(
        ArrayRef<DictionaryAttr>(builder.getDictionaryAttr(builder.getNamedAttr(
            step::fetchAttrName, builder.getStringAttr("loss")))));
    return success();
  }

  bool isNameTaken = false;

  FailureOr<unsigned> findOutput(func::FuncOp function) {
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

  Value addInput(OpBuilder &builder, func::FuncOp function, step::Role role,
                 RankedTensorType type, ArrayRef<NamedAttribute> others = {}) {
    StringRef name = stringifyRole(role);
    unsigned index = function.getNumArguments();
    for (unsigned other = 0; other < index; ++other)
      if (auto taken =
              function.getArgAttrOfType<StringAttr>(other, step::feedAttrName);
          taken && taken.getValue() == name) {
        function.emitError() << "has an input '" << name
                             << "', which is what the loss calls an input of "
                                "its own; rename that of the model";
        isNameTaken = true;
      }
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
    (void)function.insertArgument(
        index, type, builder.getDictionaryAttr(attributes), function.getLoc());
    return function.getArgument(index);
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
    std::array<int64_t, 2> range = {0, classes - 1};
    Value labels = addInput(
        builder, function, step::Role::Target, rows,
        {builder.getNamedAttr(step::rangeAttrName,
                              builder.getDenseI64ArrayAttr(range)),
         builder.getNamedAttr(step::ignoreIndexAttrName,
                              builder.getI64IntegerAttr(ignoreIndex))});
    auto scalar = RankedTensorType::get({}, type.getElementType());
    Value weight = addInput(builder, function, step::Role::LossWeight, scalar);
    auto entropy = SoftmaxCrossEntropyOp::create(
        builder, loc, logits, labels, builder.getI64IntegerAttr(ignoreIndex));
    return Value(MulOp::create(builder, loc, entropy.getLoss(), weight));
  }

  FailureOr<Value> meanSquaredError(OpBuilder &builder, Location loc,
                                    func::FuncOp function, Value prediction) {
    auto type = cast<RankedTensorType>(prediction.getType());
    Value target = addInput(builder, function, step::Role::Target, type);
    Value difference = SubOp::create(builder, loc, prediction, target);
    auto axes = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    if (function->hasAttr(step::wholeBatchesAttrName)) {
      Value square = MulOp::create(builder, loc, difference, difference);
      Value sum = ReduceOp::create(builder, loc, Reduction::sum, square, axes);
      return divide(builder, loc, sum, type.getNumElements() * microbatches);
    }
    // Rows without a sample count nothing.
    Type element = type.getElementType();
    Value mask = addInput(builder, function, step::Role::SampleMask,
                          RankedTensorType::get({type.getDimSize(0)}, element));
    Value rows = BroadcastOp::create(builder, loc, type, mask, int64_t{0});
    Value counted = MulOp::create(builder, loc, difference, rows);
    Value square = MulOp::create(builder, loc, counted, difference);
    Value sum = ReduceOp::create(builder, loc, Reduction::sum, square, axes);
    Value weight = addInput(builder, function, step::Role::LossWeight,
                            RankedTensorType::get({}, element));
    return Value(MulOp::create(builder, loc, sum, weight));
  }
};

} // namespace
