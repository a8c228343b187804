//===- Versions.h - IR version and operator sets --------------------------===//
#ifndef PP_LIB_IMPORT_ONNX_VERSIONS_H
#define PP_LIB_IMPORT_ONNX_VERSIONS_H

#include "DiagnosticSink.h"
#include "ppmlir_onnx.pb.h"

namespace pp::onnx {

using Opsets = std::map<std::string, int64_t>;

/// "ai.onnx" and "" are the same domain; the latter is used inside.
std::string normalizeDomain(llvm::StringRef domain);

void checkIrVersion(const ppmlir_onnx::ModelProto &model, DiagnosticSink &sink);

/// Reads the imports of a model or function; `owner` names it in messages.
Opsets readOpsets(
    const google::protobuf::RepeatedPtrField<ppmlir_onnx::OperatorSetIdProto>
        &imports,
    const llvm::Twine &owner, DiagnosticSink &sink);

} // namespace pp::onnx

#endif // PP_LIB_IMPORT_ONNX_VERSIONS_H
