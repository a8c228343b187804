//===- Versions.cpp - IR version and operator sets ------------------------===//
#include "Versions.h"
#include "pp/Import/Onnx/Reader.h"

using namespace pp::onnx;
using llvm::Twine;

std::string pp::onnx::normalizeDomain(llvm::StringRef domain) {
  return domain == "ai.onnx" ? std::string() : domain.str();
}

void pp::onnx::checkIrVersion(const ppmlir_onnx::ModelProto &model,
                              DiagnosticSink &sink) {
  if (!model.has_ir_version() || model.ir_version() == 0) {
    sink.error("the model states no IR version");
    return;
  }
  int64_t version = model.ir_version();
  if (version >= oldestIrVersion && version <= newestIrVersion)
    return;
  std::string message =
      ("IR version " + Twine(version) + " is not supported; supported are " +
       Twine(oldestIrVersion) + " to " + Twine(newestIrVersion))
          .str();
  if (version == newestIrVersion + 1)
    sink.warning(message).help = "reading on: new features are not understood";
  else
    sink.unsupported(message);
}

Opsets pp::onnx::readOpsets(
    const google::protobuf::RepeatedPtrField<ppmlir_onnx::OperatorSetIdProto>
        &imports,
    const Twine &owner, DiagnosticSink &sink) {
  Opsets opsets;
  if (imports.empty())
    sink.error(owner + " imports no opset");
  for (const ppmlir_onnx::OperatorSetIdProto &import : imports) {
    std::string domain = normalizeDomain(import.domain());
    std::string shown = domain.empty() ? "ai.onnx" : quoted(domain);
    if (!opsets.emplace(domain, import.version()).second) {
      sink.error(owner + ": the opset of " + shown + " is imported twice");
      continue;
    }
    int64_t version = import.version();
    if (!domain.empty()) {
      if (version < 1)
        sink.error(owner + ": opset " + Twine(version) + " of " + shown +
                   " does not exist");
      continue;
    }
    if (version >= 1 && version <= newestOpset)
      continue;
    std::string message =
        (owner + ": opset " + Twine(version) + " of " + shown +
         " is not supported; supported are 1 to " + Twine(newestOpset))
            .str();
    if (version == newestOpset + 1)
      sink.warning(message).help = "reading on as opset " +
                                   std::to_string(newestOpset) +
                                   " where operators changed";
    else if (version < 1)
      sink.error(message);
    else
      sink.unsupported(message);
  }
  return opsets;
}
