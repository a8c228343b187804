//===- Measurement.h - Times of the kernels of a program --------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PROFILE_MEASUREMENT_H
#define PP_TOOLS_PP_PROFILE_MEASUREMENT_H

#include "pp/Driver/Compiler.h"

#include "llvm/Support/JSON.h"
#include <string>
#include <vector>

namespace pp {

struct MeasureOptions {
  /// Steps of which the middle half counts.
  unsigned repetitions;
  /// Arguments that link with the runtime.
  std::string linkFile;
};

/// A program that marks its kernels, as `path`.
llvm::Error makeProgram(const CompileOptions &options, ModelImport &import,
                        llvm::StringRef path, llvm::StringRef linkFile,
                        mlir::MLIRContext &context);

/// Makes such a program and runs it: a cost file (docs/cost-format.md).
llvm::Expected<llvm::json::Object> measure(const CompileOptions &options,
                                           ModelImport &import,
                                           const MeasureOptions &settings,
                                           mlir::MLIRContext &context);

/// The keys of all kernels that such a program has, sorted.
llvm::Expected<std::vector<std::string>>
listKernels(const CompileOptions &options, ModelImport &import,
            mlir::MLIRContext &context);

/// Adds what only `more` has. What both have was measured twice.
void mergeCosts(llvm::json::Object &costs, llvm::json::Object more);

} // namespace pp

#endif // PP_TOOLS_PP_PROFILE_MEASUREMENT_H
