//===- ModelHash.cpp - Which model a program trains -----------------------===//

#include "ModelHash.h"
#include "pp/Dialect/NN/IR/MergedTensors.h"
#include "pp/Dialect/PP/IR/PP.h"
#include "pp/Driver/Compiler.h"
#include "support/ContentHash.h"

#include "mlir/Dialect/MLProgram/IR/MLProgram.h"

using namespace mlir;
using namespace pp;

std::string pp::hashModel(ModuleOp imported, const CompileOptions &options) {
  OwningOpRef<ModuleOp> module = imported.clone();
  (*module)->removeAttr(pipeline::targetAttrName);
  module->walk([](Operation *op) {
    op->removeAttr(step::stageHintAttrName);
    if (auto global = dyn_cast<ml_program::GlobalOp>(op))
      global.removeValueAttr(); // training changes it
    op->removeAttr(nn::readersAttrName);
  });
  std::string text;
  llvm::raw_string_ostream os(text);
  // Locations have the names of files and nodes.
  module->print(os,
                OpPrintingFlags().enableDebugInfo(false).printGenericOpForm());
  runtime::ContentHash hash;
  hash.addText(text);
  hash.addText(getName(options.loss.loss));
  hash.addText(options.loss.output);
  for (const std::string &added : options.loss.addedLosses)
    hash.addText(added);
  hash.addText(std::to_string(options.loss.classAxis));
  hash.addText(getName(options.optimizer.optimizer));
  return runtime::toHex(hash.get());
}
