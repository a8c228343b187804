//===- MainFunction.cpp - The function that passes work on ----------------===//

#include "MainFunction.h"
#include "pp/Dialect/NN/IR/NN.h"

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
