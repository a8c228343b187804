//===- Skeleton.cpp - A model's messages without its weights --------------===//
//
// Walks the wire format and copies it, but for the payloads of raw_data. The
// result is small and protobuf parses it.
//
//===----------------------------------------------------------------------===//
#include "Skeleton.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Endian.h"
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>
#include <limits>

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using llvm::Twine;

namespace pp::onnx {
namespace {

/// The messages that can hold a tensor; everything else is copied as bytes.
enum class Kind {
  Leaf,
  Model,
  Graph,
  Node,
  Attribute,
  Tensor,
  RawData,
  SparseTensor,
  Function,
  TrainingInfo
};

Kind childKind(Kind parent, uint32_t field) {
  switch (parent) {
  case Kind::Model:
    return field == 7    ? Kind::Graph
           : field == 20 ? Kind::TrainingInfo
           : field == 25 ? Kind::Function
                         : Kind::Leaf;
  case Kind::TrainingInfo:
    return field == 1 || field == 2 ? Kind::Graph : Kind::Leaf;
  case Kind::Graph:
    return field == 1    ? Kind::Node
           : field == 5  ? Kind::Tensor
           : field == 15 ? Kind::SparseTensor
                         : Kind::Leaf;
  case Kind::Function:
    return field == 7 ? Kind::Node : field == 11 ? Kind::Attribute : Kind::Leaf;
  case Kind::Node:
    return field == 5 ? Kind::Attribute : Kind::Leaf;
  case Kind::Attribute:
    return field == 5 || field == 10    ? Kind::Tensor
           : field == 6 || field == 11  ? Kind::Graph
           : field == 22 || field == 23 ? Kind::SparseTensor
                                        : Kind::Leaf;
  case Kind::SparseTensor:
    return field == 1 || field == 2 ? Kind::Tensor : Kind::Leaf;
  case Kind::Tensor:
    return field == 9 ? Kind::RawData : Kind::Leaf;
  case Kind::Leaf:
  case Kind::RawData:
    return Kind::Leaf;
  }
  return Kind::Leaf;
}

enum WireType : uint32_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

/// A file that starts with anything else is not an ONNX model.
bool isModelField(uint32_t field, uint32_t wireType) {
  switch (field) {
  case 1: // ir_version
  case 5: // model_version
    return wireType == Varint;
  case 2:
  case 3:
  case 4:
  case 6:
  case 7:
  case 8:
  case 14:
  case 20:
  case 25:
  case 26:
    return wireType == Bytes;
  default:
    return false;
  }
}

class Stripper {
public:
  explicit Stripper(llvm::ArrayRef<uint8_t> file)
      : file(file), in(file.data(), static_cast<int>(file.size())) {}

  llvm::Error strip(std::string &out) {
    return message(Kind::Model, static_cast<int>(file.size()), 0, out);
  }

private:
  // Protobuf's own limit.
  static constexpr unsigned maxDepth = 100;

  llvm::Error fail(const Twine &message) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
  }
  /// Whatever was being read at `start` does not end in the message.
  llvm::Error cut(int start, unsigned depth) {
    if (!sawModelField)
      return fail("not an ONNX file");
    if (depth == 0)
      return fail("the file is truncated: the field at byte " + Twine(start) +
                  " goes on past its end at byte " + Twine(file.size()));
    return fail("the file is damaged at byte " + Twine(start));
  }

  llvm::Error message(Kind kind, int end, unsigned depth, std::string &out) {
    if (depth > maxDepth)
      return fail("nesting of messages is deeper than " + Twine(maxDepth) +
                  " levels");
    while (in.CurrentPosition() < end) {
      int start = in.CurrentPosition();
      uint32_t tag = in.ReadTagNoLastTag();
      uint32_t field = tag >> 3, wireType = tag & 7;
      if (field == 0 || in.CurrentPosition() > end)
        return cut(start, depth);
      if (!sawModelField && !isModelField(field, wireType))
        return fail("not an ONNX file");
      int payload = in.CurrentPosition();
      uint64_t length = 0;
      switch (wireType) {
      case Varint:
        if (!in.ReadVarint64(&length))
          return cut(start, depth);
        length = 0;
        break;
      case Fixed64:
        length = 8;
        break;
      case Fixed32:
        length = 4;
        break;
      case Bytes:
        if (!in.ReadVarint64(&length))
          return cut(start, depth);
        payload = in.CurrentPosition();
        break;
      default:
        return fail("the file is damaged at byte " + Twine(start) +
                    ": wire type " + Twine(wireType));
      }
      int position = in.CurrentPosition();
      if (position > end || length > static_cast<uint64_t>(end - position))
        return cut(start, depth);
      sawModelField = true;
      int fieldEnd = position + static_cast<int>(length);
      Kind child = wireType == Bytes ? childKind(kind, field) : Kind::Leaf;
      if (child == Kind::Leaf) {
        in.Skip(static_cast<int>(length));
        out.append(reinterpret_cast<const char *>(file.data()) + start,
                   fieldEnd - start);
        continue;
      }
      std::string contents;
      if (child == Kind::RawData) {
        in.Skip(static_cast<int>(length));
        contents.resize(16);
        llvm::support::endian::write64le(contents.data(), payload);
        llvm::support::endian::write64le(contents.data() + 8, length);
      } else if (llvm::Error error =
                     message(child, fieldEnd, depth + 1, contents)) {
        return error;
      }
      uint8_t header[16];
      uint8_t *headerEnd = CodedOutputStream::WriteTagToArray(tag, header);
      headerEnd = CodedOutputStream::WriteVarint32ToArray(
          static_cast<uint32_t>(contents.size()), headerEnd);
      out.append(header, headerEnd);
      out += contents;
    }
    if (in.CurrentPosition() != end)
      return cut(end, depth);
    return llvm::Error::success();
  }

  llvm::ArrayRef<uint8_t> file;
  CodedInputStream in;
  bool sawModelField = false;
};

} // namespace

RawDataPosition rawDataPosition(const ppmlir_onnx::TensorProto &tensor) {
  const char *data = tensor.raw_data().data();
  return {llvm::support::endian::read64le(data),
          llvm::support::endian::read64le(data + 8)};
}

llvm::Expected<std::unique_ptr<ppmlir_onnx::ModelProto>>
parseSkeleton(llvm::ArrayRef<uint8_t> file) {
  if (file.size() > std::numeric_limits<int>::max())
    return llvm::createStringError(
        llvm::inconvertibleErrorCode(),
        "the file has more than 2 GiB, the most a protobuf file can have");
  std::string skeleton;
  if (llvm::Error error = Stripper(file).strip(skeleton))
    return std::move(error);
  auto model = std::make_unique<ppmlir_onnx::ModelProto>();
  // What is wrong with the text in it is told by checkText.
  google::protobuf::LogSilencer silencer;
  if (!model->ParseFromString(skeleton))
    return llvm::createStringError(
        llvm::inconvertibleErrorCode(),
        "the file is damaged: a message in it cannot be parsed");
  return model;
}

} // namespace pp::onnx
