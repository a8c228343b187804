//===- Tensors.cpp - Find and check the bytes of tensors ------------------===//
#include "Tensors.h"
#include "Skeleton.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"
#include <cstring>

using llvm::StringRef;
using llvm::Twine;

static_assert(llvm::endianness::native == llvm::endianness::little,
              "tensors in ONNX files are little-endian and used in place");

namespace pp::onnx {
namespace {

constexpr int maxRank = 64;
/// Larger tensors spelled out as numbers are worth a remark.
constexpr uint64_t largeInline = uint64_t{64} * 1024;

/// The field of TensorProto that holds numbers of a type.
enum class Field { Float, Int32, Int64, Double, UInt64, String };

Field typedField(DataType type) {
  switch (type) {
  case DataType::Float:
  case DataType::Complex64:
    return Field::Float;
  case DataType::Double:
  case DataType::Complex128:
    return Field::Double;
  case DataType::Int64:
    return Field::Int64;
  case DataType::UInt32:
  case DataType::UInt64:
    return Field::UInt64;
  case DataType::String:
    return Field::String;
  default:
    return Field::Int32;
  }
}

struct FieldUse {
  Field field;
  StringRef name;
  int count;
};

template <typename To, typename From>
void append(const From &values, std::vector<uint8_t> &bytes) {
  size_t at = bytes.size();
  bytes.resize(at + values.size() * sizeof(To));
  for (auto value : values) {
    To converted = static_cast<To>(value);
    std::memcpy(bytes.data() + at, &converted, sizeof(To));
    at += sizeof(To);
  }
}

class TensorReader {
public:
  TensorReader(const ppmlir_onnx::TensorProto &proto, std::string what,
               const Node *node, WeightFiles &files,
               const ReaderOptions &options, DiagnosticSink &sink)
      : proto(proto), what(std::move(what)), node(node), files(files),
        options(options), sink(sink) {}

  Tensor read() {
    tensor.name = proto.name();
    if (!readType())
      return std::move(tensor);
    uint64_t expected = 0;
    if (tensor.type != DataType::String) {
      std::optional<uint64_t> size = byteSize(tensor.type, tensor.elements);
      if (!size) {
        error("the size of its shape " + shape() + " overflows");
        return std::move(tensor);
      }
      expected = *size;
    }
    llvm::SmallVector<FieldUse, 6> typed = typedFields();
    bool external = proto.data_location() == 1;
    if (proto.data_location() != 0 && !external) {
      error("data_location is " + Twine(proto.data_location()) +
            ", neither 0 nor 1");
      return std::move(tensor);
    }
    llvm::SmallVector<StringRef, 8> sources;
    if (external)
      sources.push_back("external_data");
    if (proto.has_raw_data())
      sources.push_back("raw_data");
    for (const FieldUse &use : typed)
      sources.push_back(use.name);
    if (sources.size() > 1) {
      error("its values are stated in " + llvm::join(sources, " and in ") +
            "; only one may");
      return std::move(tensor);
    }
    if (tensor.type == DataType::String && (external || proto.has_raw_data())) {
      error("a STRING tensor cannot have " + sources.front());
      return std::move(tensor);
    }
    if (external)
      readExternal(expected);
    else if (proto.has_raw_data())
      readRaw(expected);
    else
      readTyped(typed, expected);
    return std::move(tensor);
  }

private:
  void error(const Twine &message) { sink.error(what + ": " + message, node); }

  std::string shape() const {
    std::string out = "[";
    for (int64_t dim : tensor.dims)
      out += (out.size() > 1 ? ", " : "") + std::to_string(dim);
    return out + "] of " + dataTypeName(tensor.type).str();
  }

  bool readType() {
    if (!isDataType(proto.data_type())) {
      error("data type " + Twine(proto.data_type()) + " does not exist");
      return false;
    }
    tensor.type = static_cast<DataType>(proto.data_type());
    if (proto.has_segment()) {
      sink.unsupported(what + ": tensors in segments are not supported", node);
      return false;
    }
    if (proto.dims_size() > maxRank) {
      error("rank " + Twine(proto.dims_size()) + " is above the limit of " +
            Twine(maxRank));
      return false;
    }
    tensor.dims.assign(proto.dims().begin(), proto.dims().end());
    tensor.elements = 1;
    bool overflow = false, empty = false;
    for (int64_t dim : tensor.dims) {
      if (dim < 0) {
        error("dimension " + Twine(dim) + " is negative");
        return false;
      }
      empty |= dim == 0;
    }
    for (int64_t dim : tensor.dims) {
      bool one = false;
      tensor.elements = llvm::SaturatingMultiply<uint64_t>(
          tensor.elements, static_cast<uint64_t>(dim), &one);
      overflow |= one;
    }
    if (empty)
      tensor.elements = 0;
    else if (overflow || tensor.elements > INT64_MAX) {
      error("the size of its shape " + shape() + " overflows");
      return false;
    }
    return true;
  }

  llvm::SmallVector<FieldUse, 6> typedFields() {
    llvm::SmallVector<FieldUse, 6> result;
    auto use = [&](Field field, StringRef name, int count) {
      if (count)
        result.push_back({field, name, count});
    };
    use(Field::Float, "float_data", proto.float_data_size());
    use(Field::Int32, "int32_data", proto.int32_data_size());
    use(Field::String, "string_data", proto.string_data_size());
    use(Field::Int64, "int64_data", proto.int64_data_size());
    use(Field::Double, "double_data", proto.double_data_size());
    use(Field::UInt64, "uint64_data", proto.uint64_data_size());
    return result;
  }

  void readRaw(uint64_t expected) {
    RawDataPosition position = rawDataPosition(proto);
    if (position.length != expected) {
      error("its data has " + Twine(position.length) + " bytes, its shape " +
            shape() + " needs " + Twine(expected));
      return;
    }
    tensor.location = Location{0, position.offset, position.length};
  }

  void readTyped(llvm::ArrayRef<FieldUse> typed, uint64_t expected) {
    if (typed.empty()) {
      if (tensor.elements)
        error("it has no data; its shape is " + shape());
      return;
    }
    const FieldUse &use = typed.front();
    if (use.field != typedField(tensor.type)) {
      error("values of type " + dataTypeName(tensor.type) + " cannot be in " +
            use.name);
      return;
    }
    uint64_t count = tensor.elements;
    unsigned bits = bitWidth(tensor.type);
    if (tensor.type == DataType::Complex64 ||
        tensor.type == DataType::Complex128)
      count *= 2;
    else if (bits && bits < 8)
      count = expected; // One int32 holds one packed byte.
    if (static_cast<uint64_t>(use.count) != count) {
      error(use.name + " has " + Twine(use.count) + " values, the shape " +
            shape() + " needs " + Twine(count));
      return;
    }
    switch (use.field) {
    case Field::Float:
      append<float>(proto.float_data(), tensor.bytes);
      break;
    case Field::Double:
      append<double>(proto.double_data(), tensor.bytes);
      break;
    case Field::Int64:
      append<int64_t>(proto.int64_data(), tensor.bytes);
      break;
    case Field::UInt64:
      if (bits == 32)
        append<uint32_t>(proto.uint64_data(), tensor.bytes);
      else
        append<uint64_t>(proto.uint64_data(), tensor.bytes);
      break;
    case Field::Int32:
      if (bits == 32)
        append<int32_t>(proto.int32_data(), tensor.bytes);
      else if (bits == 16)
        append<uint16_t>(proto.int32_data(), tensor.bytes);
      else
        append<uint8_t>(proto.int32_data(), tensor.bytes);
      break;
    case Field::String:
      tensor.strings.assign(proto.string_data().begin(),
                            proto.string_data().end());
      return;
    }
    if (expected > largeInline)
      sink.warning(what + ": its " + Twine(expected) +
                       " bytes are spelled out in " + use.name +
                       " and had to be copied",
                   node)
          .help = "raw_data is used in place";
  }

  /// Parses a key's value; false after an error.
  bool parseSize(StringRef key, StringRef text, uint64_t &value) {
    // getAsInteger takes digits only: no sign, no space.
    if (!text.getAsInteger(10, value))
      return true;
    error("external data: " + key + " " + quoted(text) +
          " is not an unsigned 64-bit number");
    return false;
  }

  void readExternal(uint64_t expected) {
    std::map<std::string, std::string> entries;
    bool failed = false;
    for (const auto &entry : proto.external_data()) {
      StringRef key = entry.key();
      if (key != "location" && key != "offset" && key != "length" &&
          key != "checksum") {
        sink.warning(what + ": external data: unknown key " + quoted(key) +
                         " is ignored",
                     node);
      } else if (!entries.emplace(entry.key(), entry.value()).second) {
        error("external data: " + key + " is stated twice");
        failed = true;
      }
    }
    if (failed)
      return;
    if (!entries.count("location")) {
      error("external data: no location is stated");
      return;
    }
    StringRef location = entries["location"];
    uint64_t offset = 0, length = expected;
    if (entries.count("offset"))
      failed |= !parseSize("offset", entries["offset"], offset);
    if (entries.count("length"))
      failed |= !parseSize("length", entries["length"], length);
    if (failed)
      return;
    if (length != expected) {
      error("external data: length says " + Twine(length) +
            " bytes, its shape " + shape() + " needs " + Twine(expected));
      return;
    }
    llvm::Expected<unsigned> file =
        files.addExternal(location, options.allowHardlinks);
    if (!file) {
      std::string reason = llvm::toString(file.takeError());
      Diagnostic &diagnostic = sink.error(
          what + ": external data " + quoted(location) + ": " + reason, node);
      if (StringRef(reason).contains("hard link"))
        diagnostic.help = "copy the file, or pass --allow-hardlinks if you "
                          "trust the model";
      else if (StringRef(reason).contains("symbolic link"))
        diagnostic.help = "put the file itself into the model's folder";
      else if (StringRef(reason).contains("No such file"))
        diagnostic.help = "the file belongs next to the model: was it moved "
                          "without its data?";
      return;
    }
    uint64_t size = files.fileSize(*file);
    if (offset > size || length > size - offset) {
      error("external data " + quoted(location) + ": bytes " + Twine(offset) +
            " to " + Twine(offset) + " + " + Twine(length) +
            " are past the end of the file, which has " + Twine(size));
      return;
    }
    tensor.location = Location{*file, offset, length};
  }

  const ppmlir_onnx::TensorProto &proto;
  std::string what;
  const Node *node;
  WeightFiles &files;
  const ReaderOptions &options;
  DiagnosticSink &sink;
  Tensor tensor;
};

} // namespace

Tensor readTensor(const ppmlir_onnx::TensorProto &proto, const Twine &what,
                  const Node *node, WeightFiles &files,
                  const ReaderOptions &options, DiagnosticSink &sink) {
  return TensorReader(proto, what.str(), node, files, options, sink).read();
}

} // namespace pp::onnx
