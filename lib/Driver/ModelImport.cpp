//===- ModelImport.cpp - A model that is imported once --------------------===//

#include "pp/Driver/ModelImport.h"

using namespace mlir;
using namespace pp;

llvm::Expected<ModelImport> ModelImport::read(MLIRContext *context,
                                              llvm::StringRef path,
                                              const ImportOptions &options,
                                              bool hasTraining,
                                              llvm::raw_ostream *warnings) {
  auto model = readOnnx(path, options, hasTraining);
  if (!model)
    return model.takeError();
  return ModelImport(context, path, options, std::move(*model), warnings);
}

llvm::Expected<OwningOpRef<ModuleOp>>
ModelImport::getProgram(bool training, int64_t batch, bool isBatchMissing) {
  OwningOpRef<ModuleOp> &program = programs[{training, batch, isBatchMissing}];
  if (!program) {
    ImportOptions own = options;
    own.training = training;
    own.batch = batch;
    own.isBatchMissing = isBatchMissing;
    auto made = importOnnx(context, model, own, warnings);
    if (!made)
      return made.takeError();
    program = std::move(*made);
    warnings = nullptr;
  }
  return OwningOpRef<ModuleOp>(program->clone());
}
