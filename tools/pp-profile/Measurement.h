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
  /// The same program runs so many times more at the same time, to keep other
  /// cores busy.
  unsigned copies = 0;
  /// Arguments that link with the runtime.
  std::string linkFile;
};

/// Makes a program that marks its kernels and runs it: a cost file
/// (docs/cost-format.md). `peakBytes` gets the most memory that it had.
llvm::Expected<llvm::json::Object> measure(const CompileOptions &options,
                                           ModelImport &import,
                                           const MeasureOptions &settings,
                                           mlir::MLIRContext &context,
                                           uint64_t *peakBytes = nullptr);

/// `wanted` copies of a program, or as many as fit, together with it, into half
/// of the memory. `bytes` are those of one.
unsigned countCopies(unsigned wanted, uint64_t bytes);

/// What the training step of a cost file took, or else the inference.
double stepOf(const llvm::json::Object &costs);

/// Says of all times of a cost file that the other cores were idle.
void markAlone(llvm::json::Object &costs);

/// The keys of all kernels that the program has, sorted.
llvm::Expected<std::vector<std::string>>
listKernels(const CompileOptions &options, ModelImport &import,
            mlir::MLIRContext &context);

/// Adds what only `more` has. What both have was measured twice.
void mergeCosts(llvm::json::Object &costs, llvm::json::Object more);

} // namespace pp

#endif // PP_TOOLS_PP_PROFILE_MEASUREMENT_H
