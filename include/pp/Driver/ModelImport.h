//===- ModelImport.h - A model that is imported once ------------*- C++ -*-===//
//
// A tool may try a model in many ways: as a training and as an inference
// program, in many numbers of micro-batches, after many plans. The file is read
// once, and translated once for each program and batch size; who asks again
// gets a clone.
//
//===----------------------------------------------------------------------===//

#ifndef PP_DRIVER_MODELIMPORT_H
#define PP_DRIVER_MODELIMPORT_H

#include "pp/Import/OnnxImporter.h"
#include "llvm/Support/raw_ostream.h"
#include <map>
#include <tuple>

namespace pp {

class ModelImport {
public:
  /// Reads an ONNX file. `hasTraining`: for a training program too, whose
  /// parameters the inference program shares. Warnings of the first program
  /// that is made go to `warnings`; null: nowhere.
  static llvm::Expected<ModelImport>
  read(mlir::MLIRContext *context, llvm::StringRef path,
       const ImportOptions &options, bool hasTraining,
       llvm::raw_ostream *warnings = &llvm::errs());

  llvm::StringRef getPath() const { return path; }
  bool hasTraining() const { return model.isForTraining; }

  /// The program for `batch` samples; see ImportOptions for the flag. Fails as
  /// importOnnx does.
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
  getProgram(bool training, int64_t batch, bool isBatchMissing);

private:
  ModelImport(mlir::MLIRContext *context, llvm::StringRef path,
              const ImportOptions &options, OnnxModel model,
              llvm::raw_ostream *warnings)
      : context(context), path(path), options(options), model(std::move(model)),
        warnings(warnings) {}

  mlir::MLIRContext *context;
  std::string path;
  ImportOptions options;
  OnnxModel model;
  llvm::raw_ostream *warnings;
  /// By training, batch and isBatchMissing.
  std::map<std::tuple<bool, int64_t, bool>, mlir::OwningOpRef<mlir::ModuleOp>>
      programs;
};

} // namespace pp

#endif // PP_DRIVER_MODELIMPORT_H
