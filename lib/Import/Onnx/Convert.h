//===- Convert.h - From protobuf messages to plain values -----------------===//
#ifndef PP_LIB_IMPORT_ONNX_CONVERT_H
#define PP_LIB_IMPORT_ONNX_CONVERT_H

#include "DiagnosticSink.h"
#include "Versions.h"
#include "pp/Import/Onnx/Reader.h"
#include "ppmlir_onnx.pb.h"
#include "llvm/ADT/StringSet.h"

namespace pp::onnx {

/// A model-local function.
struct Function {
  std::string domain, name, overload;
  std::vector<std::string> inputs, outputs;
  /// Defaults of attributes; attributes without one are not listed.
  std::vector<Attribute> defaults;
  std::vector<Node> nodes;
};

/// What calls a function: "domain.name" and ":overload" if there is one.
std::string functionKey(llvm::StringRef domain, llvm::StringRef name,
                        llvm::StringRef overload);

/// Converts messages; faults go to the sink. Functions have to be announced
/// first, since calls to them need no opset.
class Converter {
public:
  Converter(WeightFiles &files, const ReaderOptions &options,
            DiagnosticSink &sink)
      : files(files), options(options), sink(sink) {}

  void announce(const ppmlir_onnx::FunctionProto &function);
  Function function(const ppmlir_onnx::FunctionProto &proto);
  Graph graph(const ppmlir_onnx::GraphProto &proto, const Opsets &opsets);

private:
  Node node(const ppmlir_onnx::NodeProto &proto, int64_t index,
            const Opsets &opsets);
  Attribute attribute(const ppmlir_onnx::AttributeProto &proto,
                      const Node &node, const Opsets &opsets);
  ValueInfo valueInfo(const ppmlir_onnx::ValueInfoProto &proto,
                      llvm::StringRef what);
  void readPipelineStage(const ppmlir_onnx::NodeProto &proto, Node &node);

  WeightFiles &files;
  const ReaderOptions &options;
  DiagnosticSink &sink;
  llvm::StringSet<> functions;
  bool insideFunction = false;
};

Metadata readMetadata(const google::protobuf::RepeatedPtrField<
                      ppmlir_onnx::StringStringEntryProto> &entries);

} // namespace pp::onnx

#endif // PP_LIB_IMPORT_ONNX_CONVERT_H
