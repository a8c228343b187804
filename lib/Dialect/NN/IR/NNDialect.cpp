//===- NNDialect.cpp - The nn dialect and its attributes ------------------===//

#include "pp/Dialect/NN/IR/MergedTensors.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Interfaces/Step.h"

#include "mlir/Dialect/MLProgram/IR/MLProgram.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

#include "pp/Dialect/NN/IR/NNDialect.cpp.inc"
#include "pp/Dialect/NN/IR/NNEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "pp/Dialect/NN/IR/NNAttrs.cpp.inc"

void NNDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "pp/Dialect/NN/IR/NNAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "pp/Dialect/NN/IR/NNOps.cpp.inc"
      >();
}

static const step::KnownAttribute operationAttributes[] = {
    {trainedAttrName, step::isA<UnitAttr>, "a unit attribute"},
    {trainingReasonAttrName, step::isA<StringAttr>, "a string"},
    {readersAttrName, step::isA<DenseI64ArrayAttr>, "pairs of numbers"},
    {tf32AttrName, step::isA<UnitAttr>, "a unit attribute"},
    {exactAttrName, step::isA<UnitAttr>, "a unit attribute"},
    {stopsAtBoundAttrName, step::isA<UnitAttr>, "a unit attribute"},
};

LogicalResult NNDialect::verifyOperationAttribute(Operation *op,
                                                  NamedAttribute attribute) {
  return step::verifyKnown(op, operationAttributes, attribute);
}

Operation *NNDialect::materializeConstant(OpBuilder &builder, Attribute value,
                                          Type type, Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, elements);
}

PackedAttr pp::nn::getPacked(Type tensor) {
  auto type = dyn_cast<RankedTensorType>(tensor);
  return type ? dyn_cast_or_null<PackedAttr>(type.getEncoding()) : PackedAttr();
}

LogicalResult PackedAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringAttr product, int64_t bytes) {
  StringRef kind = product.getValue().split(' ').first;
  if (!llvm::is_contained({"matmul", "conv_forward", "conv_backward_data"},
                          kind))
    return emitError() << "expects the descriptor of a product or a "
                          "convolution, got "
                       << product;
  if (bytes <= 0)
    return emitError() << "expects a positive number of bytes, got " << bytes;
  return success();
}

LogicalResult
PackedAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                           function_ref<InFlightDiagnostic()> emitError) const {
  auto dense = RankedTensorType::get(shape, elementType);
  if (static_cast<int64_t>(getTensorBytes(dense)) <= getBytes())
    return success();
  return emitError() << "has " << getBytes() << " bytes, too few for " << dense;
}

LogicalResult ExternalAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   StringAttr file, uint64_t offset,
                                   uint64_t bytes, bool transposed, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return emitError() << "expects a statically shaped tensor type, got "
                       << type;
  if (file.getValue().empty())
    return emitError() << "expects a file name";
  if (transposed && tensor.getRank() != 2)
    return emitError() << "expects a matrix where it is transposed, got "
                       << type;
  if (uint64_t expected = getTensorBytes(tensor); expected != bytes)
    return emitError() << "has " << bytes << " bytes, but " << type << " takes "
                       << expected;
  return success();
}
