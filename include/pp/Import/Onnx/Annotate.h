//===- Annotate.h - Write pipeline stages into an ONNX file ---------------===//
#ifndef PP_IMPORT_ONNX_ANNOTATE_H
#define PP_IMPORT_ONNX_ANNOTATE_H

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace pp::onnx {

/// The device configuration that holds the stages.
inline constexpr llvm::StringLiteral annotationName = "pp-mlir";

/// Reads the model at `source` and writes it to `target` with the
/// `pipeline_stage` of each node that `stages` names (a node without a name
/// is "Type:output", as in messages); annotations that it had are dropped. All
/// else stays, unknown fields too; the IR version is raised to 11, the first
/// with annotations. External data stay where they are, so `target` must lie in
/// the folder of `source` if the model has any.
///
/// Returns the number of nodes annotated. The file is written whole or not at
/// all. Fails if `source` cannot be read or is no model, or `target` cannot be
/// written.
llvm::Expected<size_t> annotateStages(llvm::StringRef source,
                                      llvm::StringRef target,
                                      const llvm::StringMap<int> &stages,
                                      int devices);

} // namespace pp::onnx

#endif // PP_IMPORT_ONNX_ANNOTATE_H
