//===- OnnxFile.h - An ONNX file with other weights -------------*- C++ -*-===//
//
// Reads what it needs of protobuf's wire format
// (https://protobuf.dev/programming-guides/encoding) and of onnx.proto, and
// writes the same bytes again but for what changes. docs/rationale.md says why
// it is not protobuf that does so.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_FORMATS_ONNXFILE_H
#define PP_RUNTIME_FORMATS_ONNXFILE_H

#include "plan/DataType.h"
#include "support/MappedFile.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pp::runtime {

class AtomicFile;

/// A range of bytes in a file.
struct OnnxRange {
  uint64_t begin = 0, end = 0;
};

/// An initializer of a graph, or of a graph in a node; or what a Constant node
/// of the outer graph has, by the name of its output.
struct OnnxInitializer {
  /// Where its values are: in `raw_data`, in `float_data`, `double_data` or
  /// `int32_data`, in another file, or in none of them.
  enum class Form { Raw, Floats, Doubles, Integers, External, Nothing };

  std::string name;
  Shape shape;
  std::optional<DataType> type; // of those that a plan has
  Form form = Form::Nothing;
  /// Of the values of Raw in the file, of those of External in the other one,
  /// whose path from the model's folder is `location`.
  OnnxRange values;
  std::string location;

  uint64_t elements() const { return elementCount(shape).value_or(0); }
  uint64_t bytes() const { return type ? elements() * sizeOf(*type) : 0; }

private:
  friend class OnnxFile;
  friend class OnnxReader;
  unsigned message = 0;           // its own
  OnnxRange field;                // of the graph, with tag and length
  std::vector<OnnxRange> numbers; // its typed fields, with tags
  OnnxRange locationValue;        // the field of that entry
  unsigned locationMessage = 0;
};

/// A model that is to be written again for inference: batch norms use running
/// statistics, and dropouts drop nothing.
///
///   BatchNormalization 14   `training_mode` becomes 0, and the outputs behind
///                           the first go
///   BatchNormalization 7    the outputs behind the first go
///   Dropout 12              the input `training_mode` goes
///   both, 1 to 6            `is_test` becomes 1
///
/// Whatever else draws random numbers stays.
class OnnxFile {
public:
  /// Throws Error(InvalidInput) where the file is not a model or damaged, with
  /// the byte, and Error(IO).
  explicit OnnxFile(const std::string &path);

  const std::string &getPath() const { return path; }
  const MappedFile &getFile() const { return file; }
  const std::vector<OnnxInitializer> &getInitializers() const {
    return initializers;
  }
  /// What input `input` of node `node` of the graph is called; empty where
  /// there is none.
  std::string_view getInput(uint64_t node, uint64_t input) const;
  /// How many nodes are set for inference.
  unsigned getInferenceNodes() const { return inferenceNodes; }
  /// How many nodes draw random numbers, other than Dropout.
  unsigned getRandomNodes() const { return randomNodes; }

  // What is changed. Initializers by number.

  /// Lets write() ask for the values of an initializer that is not External.
  void replace(size_t initializer);
  void setLocation(size_t initializer, const std::string &location);
  /// Adds an initializer `name` behind another one, with its type and shape,
  /// and returns the number of the new one, whose values write() asks for; of
  /// an External one, they are in file `location` from `offset` on.
  size_t addCopy(size_t initializer, const std::string &name,
                 uint64_t offset = 0, const std::string &location = "");
  /// Lets input `input` of node `node` of the graph be another value. Throws
  /// Error(InvalidInput) where there is none that is called `before`.
  void setInput(uint64_t node, uint64_t input, const std::string &before,
                const std::string &after);

  /// The values of an initializer, in its type and form, until the next call.
  using Values = std::function<std::string_view(size_t initializer)>;
  /// Those that write() asks for, in the order in which it does.
  std::vector<size_t> order() const;
  void write(AtomicFile &into, const Values &values) const;

private:
  friend class OnnxReader;
  /// Something with a length in front, whose contents may change.
  struct Message {
    OnnxRange length; // the digits of the length
    uint64_t end;
    unsigned parent; // of the model: itself
  };
  /// `text`, and the values of an initializer behind it, for a range.
  struct Edit {
    OnnxRange range;
    unsigned message; // that it is in
    std::string text;
    std::optional<size_t> initializer = {};
    uint64_t bytes = 0; // of the values
  };
  struct NodeInput {
    OnnxRange whole;
    uint64_t payload;
  };
  struct NodeInputs {
    unsigned message;
    std::vector<NodeInput> fields;
  };

  std::string path;
  MappedFile file;
  std::vector<Message> messages; // parents first
  std::vector<Edit> edits;
  std::vector<OnnxInitializer> initializers;
  std::vector<NodeInputs> nodes; // of the outer graph
  std::vector<size_t> replaced;  // in the order of the calls
  unsigned inferenceNodes = 0, randomNodes = 0;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_FORMATS_ONNXFILE_H
