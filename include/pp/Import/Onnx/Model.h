//===- Model.h - An ONNX model as plain values ----------------------------===//
//
// What the reader hands to the importer: a checked graph without functions,
// whose tensors are places in files rather than bytes in memory.
//
//===----------------------------------------------------------------------===//
#ifndef PP_IMPORT_ONNX_MODEL_H
#define PP_IMPORT_ONNX_MODEL_H

#include "pp/Import/Onnx/DataType.h"
#include "pp/Import/Onnx/Diagnostic.h"
#include "pp/Import/Onnx/WeightFiles.h"
#include "llvm/ADT/ArrayRef.h"
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pp::onnx {

/// metadata_props, in the order of the file.
using Metadata = std::vector<std::pair<std::string, std::string>>;

struct Dimension {
  enum class Kind { Unknown, Static, Symbol };
  Kind kind = Kind::Unknown;
  int64_t size = 0;   // Static: at least 0.
  std::string symbol; // Symbol: equal names are equal sizes, model-wide.
};

enum class ValueKind {
  Unknown,
  Tensor,
  SparseTensor,
  Sequence,
  Map,
  Optional,
  Opaque
};

/// A name with the type that the file states. Only tensors have the fields
/// below `kind` filled.
struct ValueInfo {
  std::string name;
  ValueKind kind = ValueKind::Unknown;
  DataType type = DataType::Undefined;
  bool hasRank = false;
  std::vector<Dimension> dims;
  Metadata metadata;
};

/// A range of bytes of file `file` of Model::files; it lies inside the file.
struct Location {
  unsigned file = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
};

/// Bytes are little-endian, row-major, elements of less than a byte packed
/// from the low bits. They are at `location`, or, where the file spells them
/// out in typed fields, in `bytes`. Strings are in `strings`. Both sizes are
/// checked against the dimensions.
struct Tensor {
  std::string name;
  DataType type = DataType::Undefined;
  std::vector<int64_t> dims;
  uint64_t elements = 0;
  std::optional<Location> location;
  std::vector<uint8_t> bytes;
  std::vector<std::string> strings;
  /// The bytes are those of the matrix transposed: column by column.
  bool isTransposed = false;
  /// Of a tensor that the exporter merged with another one of the same values:
  /// the inputs, (index of the node, input), where it stands instead of that
  /// one.
  std::vector<std::pair<int64_t, int64_t>> readers;
};

struct Graph;

struct Attribute {
  enum class Kind {
    Float,
    Int,
    String,
    Tensor,
    Graph,
    Floats,
    Ints,
    Strings,
    Tensors,
    Graphs,
    /// Sparse tensors and types: nothing but the name is kept.
    Other
  };
  std::string name;
  Kind kind = Kind::Other;
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  std::vector<Tensor> tensors; // One for Kind::Tensor.
  std::vector<Graph> graphs;   // One for Kind::Graph.
  /// Only inside functions: the function's attribute that stands here.
  std::string reference;
};

struct Node {
  std::string name;
  std::string opType;
  /// "" is ai.onnx.
  std::string domain;
  std::string overload;
  /// The version of `domain` that the node's scope imports.
  int64_t version = 0;
  /// Optional inputs and outputs that are left out are "".
  std::vector<std::string> inputs, outputs;
  std::vector<Attribute> attributes;
  /// Position in the file's list of nodes; for an inlined node that of the
  /// call. Order in Graph::nodes may differ.
  int64_t index = 0;
  /// The node's hint to the partitioner, as in the file.
  std::optional<int32_t> pipelineStage;
  Metadata metadata;

  /// Null if there is no such attribute.
  const Attribute *attribute(llvm::StringRef attributeName) const;
};

struct Graph {
  std::string name;
  /// In topological order.
  std::vector<Node> nodes;
  /// Without those that are also initializers: in old files every parameter
  /// is an input as well.
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  /// Types of values inside the graph, as far as the file states them.
  std::vector<ValueInfo> values;
  std::vector<Tensor> initializers;
  Metadata metadata;
};

struct DeviceConfiguration {
  std::string name;
  int32_t deviceCount = 0;
  std::vector<std::string> devices;
};

struct Model {
  std::string path;
  int64_t irVersion = 0;
  std::string producerName, producerVersion;
  /// Domain ("" is ai.onnx) -> version.
  std::map<std::string, int64_t> opsets;
  Graph graph;
  Metadata metadata;
  std::vector<DeviceConfiguration> configurations;
  std::vector<Diagnostic> warnings;
  std::unique_ptr<WeightFiles> files;

  /// The bytes of a tensor, mapped if they are in a file; valid as long as the
  /// model and the tensor are. Meant for small constants.
  llvm::Expected<llvm::ArrayRef<uint8_t>> bytes(const Tensor &tensor) const;
};

} // namespace pp::onnx

#endif // PP_IMPORT_ONNX_MODEL_H
