//===- FunctionBodies.cpp - Operators that are functions of others --------===//
#include "FunctionBodies.h"
#include "Functions.h"
#include "llvm/ADT/ArrayRef.h"

using llvm::Twine;

namespace pp::onnx {
namespace {

/// A FunctionProto and what calls it. Letter i of `inputs` is 'x' where a node
/// has input i, and '-' where it has not.
struct FunctionBody {
  llvm::StringLiteral domain, name, inputs;
  llvm::ArrayRef<unsigned char> bytes;
};

#include "FunctionBodies.inc"

bool isFor(const FunctionBody &body, const Node &node) {
  return body.domain == node.domain && body.name == node.opType;
}

bool takesInputs(const FunctionBody &body, const Node &node) {
  for (size_t i = 0; i < std::max(body.inputs.size(), node.inputs.size());
       ++i) {
    bool isWanted = i < body.inputs.size() && body.inputs[i] == 'x';
    bool isThere = i < node.inputs.size() && !node.inputs[i].empty();
    if (isWanted != isThere)
      return false;
  }
  return true;
}

class BodyFinder {
public:
  BodyFinder(std::vector<Function> &functions, Converter &converter,
             DiagnosticSink &sink)
      : functions(functions), converter(converter), sink(sink) {
    for (const Function &function : functions)
      known.insert(
          functionKey(function.domain, function.name, function.overload));
  }

  void visit(Node &node) {
    if (!node.overload.empty() ||
        known.contains(functionKey(node.domain, node.opType, "")))
      return;
    bool hasBodies = false;
    for (const FunctionBody &body : functionBodies) {
      if (!isFor(body, node))
        continue;
      hasBodies = true;
      if (takesInputs(body, node))
        return bind(node, body);
    }
    if (hasBodies)
      sink.unsupported("operator " + quoted(node.domain + "." + node.opType) +
                           " is not supported with these inputs",
                       &node);
  }

private:
  void bind(Node &node, const FunctionBody &body) {
    ppmlir_onnx::FunctionProto proto;
    if (!proto.ParseFromArray(body.bytes.data(),
                              static_cast<int>(body.bytes.size()))) {
      sink.error("the body of its operator cannot be read", &node);
      return;
    }
    llvm::StringSet<> attributes;
    for (const std::string &name : proto.attribute())
      attributes.insert(name);
    for (const auto &attribute : proto.attribute_proto())
      attributes.insert(attribute.name());
    for (const Attribute &attribute : node.attributes)
      if (!attributes.contains(attribute.name))
        sink.unsupported(
            "attribute " + quoted(attribute.name) + " is not supported", &node);
    node.overload = proto.overload();
    if (!known.insert(functionKey(node.domain, node.opType, node.overload))
             .second)
      return;
    converter.announce(proto);
    functions.push_back(converter.function(proto));
  }

  std::vector<Function> &functions;
  Converter &converter;
  DiagnosticSink &sink;
  llvm::StringSet<> known;
};

} // namespace

void addFunctionBodies(std::vector<Function> &functions, Graph &graph,
                       Converter &converter, DiagnosticSink &sink) {
  BodyFinder finder(functions, converter, sink);
  auto visit = [&](Node &node) { finder.visit(node); };
  forEachNode(graph.nodes, visit);
  // Bodies call no other bodies.
  for (size_t i = 0, end = functions.size(); i < end; ++i) {
    std::vector<Node> nodes = std::move(functions[i].nodes);
    forEachNode(nodes, visit);
    functions[i].nodes = std::move(nodes);
  }
}

} // namespace pp::onnx
