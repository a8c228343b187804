//===- Tuning.h - Times of all kernels that passes choose among -*- C++ -*-===//
//
// Each candidate is a whole program: a kernel is measured in its step, with the
// caches as its predecessors leave them.
//
//===----------------------------------------------------------------------===//

#ifndef PP_TOOLS_PP_PROFILE_TUNING_H
#define PP_TOOLS_PP_PROFILE_TUNING_H

#include "Measurement.h"

namespace pp {

/// Measures the candidates that the options leave open, and the program that
/// is chosen by their times. Is it slower than the one that the rules choose,
/// the result has only the kernels of the latter, and those of other models
/// that `path` had, as long as with these it changes nothing.
///
/// Unless the number of repetitions `isFixed`, each program runs for about two
/// seconds, but three steps at least.
///
/// Kernels that the file `path`, if it is there, has of this processor are not
/// measured again, as far as a program has no others.
llvm::Expected<llvm::json::Object>
tune(const CompileOptions &options, ModelImport &import, llvm::StringRef path,
     const MeasureOptions &settings, bool isFixed, mlir::MLIRContext &context);

} // namespace pp

#endif // PP_TOOLS_PP_PROFILE_TUNING_H
