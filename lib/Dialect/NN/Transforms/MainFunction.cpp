//===- MainFunction.cpp - The function that passes work on ----------------===//

#include "MainFunction.h"
#include "pp/Dialect/NN/IR/NN.h"

#include "mlir/Dialect/MLProgram/IR/MLProgram.h"

using namespace mlir;

static LogicalResult checkTypes(func::FuncOp function, StringRef what,
                                TypeRange types) {
  for (auto [index, type] : llvm::enumerate(types)) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return function.emitError()
             << what << " #" << index << " has type " << type
             << ", expected a statically shaped tensor";
  }
  return success();
}

FailureOr<func::FuncOp> pp::nn::findMain(ModuleOp module) {
  auto function = module.lookupSymbol<func::FuncOp>(mainFunctionName);
  if (!function)
    return module.emitError("has no function @main");
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitError("needs a body of one block");
  if (failed(checkTypes(function, "input", function.getArgumentTypes())) ||
      failed(checkTypes(function, "result", function.getResultTypes())))
    return failure();
  return function;
}

FailureOr<FloatType> pp::nn::findTrainedType(ModuleOp module) {
  ml_program::GlobalOp single, twice;
  for (auto global : module.getOps<ml_program::GlobalOp>()) {
    if (!global->hasAttr(trainedAttrName))
      continue;
    bool isDouble = getElementTypeOrSelf(global.getType()).isF64();
    (isDouble ? twice : single) = global;
  }
  if (single && twice)
    return twice.emitError()
           << "'" << twice.getSymName() << "' of f64 and '"
           << single.getSymName()
           << "' of f32 are both trained, but the parameters that are trained "
              "have to be of one type; convert the model, or leave out those "
              "of one type with --freeze";
  OpBuilder builder(module.getContext());
  return twice ? FloatType(builder.getF64Type())
               : FloatType(builder.getF32Type());
}
