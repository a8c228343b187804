//===- Convert.cpp - From protobuf messages to plain values ---------------===//
#include "Convert.h"
#include "Tensors.h"

using llvm::Twine;
using namespace ppmlir_onnx;

namespace pp::onnx {

std::string functionKey(llvm::StringRef domain, llvm::StringRef name,
                        llvm::StringRef overload) {
  std::string key = (domain + "." + name).str();
  if (!overload.empty())
    key += (":" + overload).str();
  return key;
}

Metadata readMetadata(
    const google::protobuf::RepeatedPtrField<StringStringEntryProto> &entries) {
  Metadata metadata;
  for (const StringStringEntryProto &entry : entries)
    metadata.emplace_back(entry.key(), entry.value());
  return metadata;
}

void Converter::announce(const FunctionProto &proto) {
  functions.insert(functionKey(normalizeDomain(proto.domain()), proto.name(),
                               proto.overload()));
}

Function Converter::function(const FunctionProto &proto) {
  Function function;
  function.domain = normalizeDomain(proto.domain());
  function.name = proto.name();
  function.overload = proto.overload();
  std::string key =
      functionKey(function.domain, function.name, function.overload);
  Opsets opsets =
      readOpsets(proto.opset_import(), "function " + quoted(key), sink);
  function.inputs.assign(proto.input().begin(), proto.input().end());
  function.outputs.assign(proto.output().begin(), proto.output().end());
  insideFunction = true;
  Node owner;
  owner.name = key;
  owner.opType = "function";
  for (const AttributeProto &attributeProto : proto.attribute_proto())
    function.defaults.push_back(attribute(attributeProto, owner, opsets));
  for (int i = 0; i < proto.node_size(); ++i)
    function.nodes.push_back(node(proto.node(i), i, opsets));
  insideFunction = false;
  return function;
}

Graph Converter::graph(const GraphProto &proto, const Opsets &opsets) {
  Graph graph;
  graph.name = proto.name();
  graph.metadata = readMetadata(proto.metadata_props());
  llvm::StringSet<> initializers;
  graph.initializers.reserve(proto.initializer_size());
  for (const TensorProto &tensor : proto.initializer()) {
    if (tensor.name().empty())
      sink.error("an initializer has no name");
    initializers.insert(tensor.name());
    graph.initializers.push_back(
        readTensor(tensor, "initializer " + quoted(tensor.name()), nullptr,
                   files, options, sink));
  }
  for (const SparseTensorProto &tensor : proto.sparse_initializer())
    sink.unsupported("sparse initializer " + quoted(tensor.values().name()) +
                     " is not supported");
  for (const ValueInfoProto &input : proto.input())
    if (!initializers.contains(input.name()))
      graph.inputs.push_back(valueInfo(input, "graph input"));
  for (const ValueInfoProto &output : proto.output())
    graph.outputs.push_back(valueInfo(output, "graph output"));
  for (const ValueInfoProto &value : proto.value_info())
    graph.values.push_back(valueInfo(value, "value"));
  graph.nodes.reserve(proto.node_size());
  for (int i = 0; i < proto.node_size(); ++i)
    graph.nodes.push_back(node(proto.node(i), i, opsets));
  return graph;
}

Node Converter::node(const NodeProto &proto, int64_t index,
                     const Opsets &opsets) {
  Node node;
  node.name = proto.name();
  node.opType = proto.op_type();
  node.domain = normalizeDomain(proto.domain());
  node.overload = proto.overload();
  node.index = index;
  node.inputs.assign(proto.input().begin(), proto.input().end());
  node.outputs.assign(proto.output().begin(), proto.output().end());
  node.metadata = readMetadata(proto.metadata_props());
  if (node.opType.empty())
    sink.error("the node has no operator", &node);
  auto opset = opsets.find(node.domain);
  if (opset != opsets.end())
    node.version = opset->second;
  else if (!functions.contains(
               functionKey(node.domain, node.opType, node.overload)))
    sink.error("there is no opset for domain " +
                   (node.domain.empty() ? "ai.onnx" : quoted(node.domain)) +
                   ": it is not imported",
               &node);
  llvm::StringSet<> names;
  for (const AttributeProto &attributeProto : proto.attribute()) {
    if (!names.insert(attributeProto.name()).second)
      sink.error("attribute " + quoted(attributeProto.name()) +
                     " is stated twice",
                 &node);
    node.attributes.push_back(attribute(attributeProto, node, opsets));
  }
  readPipelineStage(proto, node);
  return node;
}

void Converter::readPipelineStage(const NodeProto &proto, Node &node) {
  for (const NodeDeviceConfigurationProto &configuration :
       proto.device_configurations()) {
    if (!configuration.has_pipeline_stage())
      continue;
    int32_t stage = configuration.pipeline_stage();
    if (stage < 0)
      sink.warning(
          "pipeline_stage " + Twine(stage) + " is negative and ignored", &node);
    else if (!node.pipelineStage)
      node.pipelineStage = stage;
    else if (*node.pipelineStage != stage)
      sink.warning("device configuration " +
                       quoted(configuration.configuration_id()) +
                       " states another pipeline_stage; the first one is used",
                   &node);
  }
}

/// Old files leave the type out.
static int32_t guessType(const AttributeProto &proto) {
  if (proto.has_f())
    return 1;
  if (proto.has_i())
    return 2;
  if (proto.has_s())
    return 3;
  if (proto.has_t())
    return 4;
  if (proto.has_g())
    return 5;
  if (proto.floats_size())
    return 6;
  if (proto.ints_size())
    return 7;
  if (proto.strings_size())
    return 8;
  if (proto.tensors_size())
    return 9;
  if (proto.graphs_size())
    return 10;
  return 0;
}

Attribute Converter::attribute(const AttributeProto &proto, const Node &node,
                               const Opsets &opsets) {
  using Kind = Attribute::Kind;
  Attribute result;
  result.name = proto.name();
  result.reference = proto.ref_attr_name();
  std::string what = "attribute " + quoted(result.name);
  if (!result.reference.empty()) {
    if (!insideFunction)
      sink.error(what + " refers to an attribute of a function, but the node "
                        "is not in one",
                 &node);
    return result;
  }
  auto wrong = [&](llvm::StringRef type) {
    sink.error(what + " has no value of its type " + type, &node);
  };
  int32_t type = proto.type() ? proto.type() : guessType(proto);
  switch (type) {
  case 1:
    result.kind = Kind::Float;
    result.f = proto.f();
    if (!proto.has_f() && proto.has_i())
      wrong("FLOAT");
    break;
  case 2:
    result.kind = Kind::Int;
    result.i = proto.i();
    if (!proto.has_i() && proto.has_f())
      wrong("INT");
    break;
  case 3:
    result.kind = Kind::String;
    result.s = proto.s();
    break;
  case 4:
    result.kind = Kind::Tensor;
    if (!proto.has_t())
      wrong("TENSOR");
    else
      result.tensors.push_back(
          readTensor(proto.t(), what, &node, files, options, sink));
    break;
  case 5:
    result.kind = Kind::Graph;
    if (!proto.has_g())
      wrong("GRAPH");
    else
      result.graphs.push_back(graph(proto.g(), opsets));
    break;
  case 6:
    result.kind = Kind::Floats;
    result.floats.assign(proto.floats().begin(), proto.floats().end());
    break;
  case 7:
    result.kind = Kind::Ints;
    result.ints.assign(proto.ints().begin(), proto.ints().end());
    break;
  case 8:
    result.kind = Kind::Strings;
    result.strings.assign(proto.strings().begin(), proto.strings().end());
    break;
  case 9:
    result.kind = Kind::Tensors;
    for (const TensorProto &tensor : proto.tensors())
      result.tensors.push_back(
          readTensor(tensor, what, &node, files, options, sink));
    break;
  case 10:
    result.kind = Kind::Graphs;
    for (const GraphProto &subgraph : proto.graphs())
      result.graphs.push_back(graph(subgraph, opsets));
    break;
  case 11:
  case 12:
  case 13:
  case 14:
    result.kind = Kind::Other;
    break;
  default:
    sink.error(what + " has the unknown type " + Twine(type), &node);
  }
  return result;
}

/// Paddle and others call every size that they do not know the same.
static bool isNameOfSize(llvm::StringRef name) {
  return !llvm::is_contained({"", "?", "*", "-1", "None"}, name);
}

ValueInfo Converter::valueInfo(const ValueInfoProto &proto,
                               llvm::StringRef what) {
  ValueInfo value;
  value.name = proto.name();
  value.metadata = readMetadata(proto.metadata_props());
  const TypeProto &type = proto.type();
  switch (type.value_case()) {
  case TypeProto::kTensorType:
    value.kind = ValueKind::Tensor;
    break;
  case TypeProto::kSparseTensorType:
    value.kind = ValueKind::SparseTensor;
    return value;
  case TypeProto::kSequenceType:
    value.kind = ValueKind::Sequence;
    return value;
  case TypeProto::kMapType:
    value.kind = ValueKind::Map;
    return value;
  case TypeProto::kOptionalType:
    value.kind = ValueKind::Optional;
    return value;
  case TypeProto::kOpaqueType:
    value.kind = ValueKind::Opaque;
    return value;
  case TypeProto::VALUE_NOT_SET:
    return value;
  }
  const TypeProto::Tensor &tensor = type.tensor_type();
  if (tensor.elem_type() != 0 && !isDataType(tensor.elem_type()))
    sink.error(what + " " + quoted(value.name) + ": data type " +
               Twine(tensor.elem_type()) + " does not exist");
  else
    value.type = static_cast<DataType>(tensor.elem_type());
  value.hasRank = tensor.has_shape();
  for (const auto &dim : tensor.shape().dim()) {
    Dimension dimension;
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      dimension.kind = Dimension::Kind::Static;
      dimension.size = dim.dim_value();
    } else if (dim.has_dim_value()) {
      // Some exporters write -1 for "unknown".
      sink.warning(what + " " + quoted(value.name) + ": dimension " +
                   Twine(dim.dim_value()) + " is taken as unknown");
    } else if (isNameOfSize(dim.dim_param())) {
      dimension.kind = Dimension::Kind::Symbol;
      dimension.symbol = dim.dim_param();
    }
    value.dims.push_back(std::move(dimension));
  }
  if (value.dims.size() > 64)
    sink.error(what + " " + quoted(value.name) + ": rank " +
               Twine(value.dims.size()) + " is above the limit of 64");
  return value;
}

} // namespace pp::onnx
