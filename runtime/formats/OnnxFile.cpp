//===- OnnxFile.cpp -------------------------------------------------------===//
#include "formats/OnnxFile.h"
#include "support/AtomicFile.h"
#include "support/Error.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <map>

using namespace pp::runtime;

namespace {

enum Wire : unsigned { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

/// A field as it is in the file.
struct Field {
  uint32_t number = 0;
  unsigned wire = 0;
  OnnxRange whole;      // with its tag
  OnnxRange length;     // Bytes: the digits of the length
  uint64_t payload = 0; // to whole.end
  uint64_t value = 0;   // Varint
};

/// Protobuf's own limits.
constexpr unsigned maxDepth = 100;
constexpr uint64_t maxBytes = std::numeric_limits<int32_t>::max();

// The numbers of fields in onnx.proto.
namespace model {
constexpr uint32_t irVersion = 1, graph = 7, opset = 8, function = 25;
}
namespace opset {
constexpr uint32_t domain = 1, version = 2;
}
namespace graph {
constexpr uint32_t node = 1, initializer = 5;
}
namespace node {
constexpr uint32_t input = 1, output = 2, opType = 4, attribute = 5, domain = 7;
}
namespace attribute {
constexpr uint32_t name = 1, integer = 3, tensor = 5, graph = 6, graphs = 11,
                   type = 20, reference = 21;
}
namespace function {
constexpr uint32_t node = 7, opset = 9;
}
namespace tensor {
constexpr uint32_t dims = 1, dataType = 2, floatData = 4, int32Data = 5,
                   name = 8, rawData = 9, doubleData = 10, externalData = 13,
                   dataLocation = 14;
}
namespace entry {
constexpr uint32_t key = 1, value = 2;
}

} // namespace

static void addVarint(std::string &text, uint64_t value) {
  while (value >= 0x80) {
    text += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  text += static_cast<char>(value);
}

static std::string tagOf(uint32_t number, unsigned wire) {
  std::string text;
  addVarint(text, uint64_t(number) << 3 | wire);
  return text;
}

static std::string lengthOf(uint64_t bytes) {
  std::string text;
  addVarint(text, bytes);
  return text;
}

static std::string bytesField(uint32_t number, std::string_view payload) {
  std::string text = tagOf(number, Bytes) + lengthOf(payload.size());
  return text.append(payload);
}

static std::string varintField(uint32_t number, uint64_t value) {
  std::string text = tagOf(number, Varint);
  addVarint(text, value);
  return text;
}

static std::optional<DataType> dataTypeOf(uint64_t onnx) {
  switch (onnx) {
  case 1:
    return DataType::F32;
  case 2:
    return DataType::U8;
  case 3:
    return DataType::I8;
  case 4:
    return DataType::U16;
  case 5:
    return DataType::I16;
  case 6:
    return DataType::I32;
  case 7:
    return DataType::I64;
  case 9:
    return DataType::I1;
  case 10:
    return DataType::F16;
  case 11:
    return DataType::F64;
  case 12:
    return DataType::U32;
  case 13:
    return DataType::U64;
  case 16:
    return DataType::BF16;
  default:
    return std::nullopt;
  }
}

static uint64_t onnxTypeOf(DataType type) {
  for (uint64_t onnx = 1; onnx <= 16; ++onnx)
    if (dataTypeOf(onnx) == type)
      return onnx;
  return 0;
}

namespace pp::runtime {

/// Finds what may change in a file.
class OnnxReader {
public:
  explicit OnnxReader(OnnxFile &file)
      : file(file), data(file.file.data()), size(file.file.size()) {}
  void readModel();

private:
  using Versions = std::map<std::string, uint64_t>; // of operators, by domain
  using OnnxMessage = OnnxFile::Message;

  [[noreturn]] void fail(uint64_t at, const char *what) const {
    failInput("'{}': not an ONNX file, or damaged: byte {}: {}", file.path, at,
              what);
  }
  uint64_t varint(uint64_t &at, uint64_t end) const;
  Field next(uint64_t &at, uint64_t end) const;
  template <typename Work> void forFields(OnnxRange range, Work work) const {
    for (uint64_t at = range.begin; at < range.end;)
      work(next(at, range.end));
  }
  std::string_view text(const Field &field) const {
    if (field.wire != Bytes)
      fail(field.whole.begin, "text is expected");
    return {data + field.payload, field.whole.end - field.payload};
  }
  OnnxRange inside(const Field &field) const {
    if (field.wire != Bytes)
      fail(field.whole.begin, "a message is expected");
    return {field.payload, field.whole.end};
  }
  unsigned open(const Field &field, unsigned parent);
  void readOpset(OnnxRange range, Versions &versions) const;
  void readGraph(const Field &field, unsigned parent, const Versions &versions,
                 unsigned depth);
  void readFunction(const Field &field, Versions versions);
  void readNode(const Field &field, unsigned parent, const Versions &versions,
                unsigned depth);
  /// With a name, that of a node whose constant it is.
  void readInitializer(const Field &field, unsigned parent,
                       std::string_view name = {});
  void readConstant(const std::vector<Field> &attributes, unsigned parent,
                    std::string_view name);
  void readExternal(const Field &field, OnnxInitializer &initializer,
                    std::map<std::string, std::string> &entries);
  void setAttribute(const std::vector<Field> &attributes, unsigned parent,
                    uint64_t nodeEnd, std::string_view name, uint64_t value,
                    bool isAdded);
  void edit(OnnxRange range, unsigned message, std::string text) {
    file.edits.push_back({range, message, std::move(text)});
  }

  OnnxFile &file;
  const char *data;
  uint64_t size;
};

} // namespace pp::runtime

uint64_t OnnxReader::varint(uint64_t &at, uint64_t end) const {
  uint64_t value = 0, begin = at;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at >= end)
      fail(begin, "a number goes on past its end");
    auto byte = static_cast<unsigned char>(data[at++]);
    value |= uint64_t(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return value;
  }
  fail(begin, "a number of more than 64 bits");
}

Field OnnxReader::next(uint64_t &at, uint64_t end) const {
  Field field;
  field.whole.begin = at;
  uint64_t tag = varint(at, end);
  field.number = static_cast<uint32_t>(tag >> 3);
  field.wire = tag & 7;
  if (field.number == 0 || tag >> 32)
    fail(field.whole.begin, "no field has this number");
  uint64_t length = 0;
  switch (field.wire) {
  case Varint:
    field.payload = at;
    field.value = varint(at, end);
    break;
  case Fixed64:
    length = 8;
    break;
  case Fixed32:
    length = 4;
    break;
  case Bytes:
    field.length.begin = at;
    length = varint(at, end);
    field.length.end = at;
    break;
  default:
    fail(field.whole.begin, "no field has this wire type");
  }
  if (field.wire != Varint)
    field.payload = at;
  if (length > end - at)
    fail(field.whole.begin, "a field goes on past the end of its message");
  at += length;
  field.whole.end = at;
  return field;
}

unsigned OnnxReader::open(const Field &field, unsigned parent) {
  (void)inside(field);
  file.messages.push_back({field.length, field.whole.end, parent});
  return static_cast<unsigned>(file.messages.size() - 1);
}

void OnnxReader::readOpset(OnnxRange range, Versions &versions) const {
  std::string domain;
  uint64_t version = 0;
  forFields(range, [&](const Field &field) {
    if (field.number == opset::domain)
      domain = text(field);
    else if (field.number == opset::version)
      version = field.value;
  });
  versions[domain == "ai.onnx" ? "" : domain] = version;
}

void OnnxReader::readModel() {
  if (size > maxBytes)
    failInput("'{}' has more than 2 GiB, the most an ONNX file can have",
              file.path);
  OnnxRange all{0, size};
  Versions versions;
  bool hasVersion = false;
  unsigned graphs = 0;
  forFields(all, [&](const Field &field) {
    hasVersion |= field.number == model::irVersion && field.wire == Varint;
    if (field.number == model::opset)
      readOpset(inside(field), versions);
    graphs += field.number == model::graph;
  });
  if (!hasVersion || graphs != 1)
    fail(0, "no ONNX model begins like this");
  file.messages.push_back({{}, size, 0});
  forFields(all, [&](const Field &field) {
    if (field.number == model::graph)
      readGraph(field, 0, versions, 1);
    else if (field.number == model::function)
      readFunction(field, versions);
  });
}

void OnnxReader::readGraph(const Field &field, unsigned parent,
                           const Versions &versions, unsigned depth) {
  if (depth > maxDepth)
    fail(field.whole.begin, "graphs are nested too deep");
  unsigned message = open(field, parent);
  forFields(inside(field), [&](const Field &part) {
    if (part.number == graph::node)
      readNode(part, message, versions, depth);
    else if (part.number == graph::initializer)
      readInitializer(part, message);
  });
}

void OnnxReader::readFunction(const Field &field, Versions versions) {
  unsigned message = open(field, 0);
  // They may stand behind the nodes.
  forFields(inside(field), [&](const Field &part) {
    if (part.number == function::opset)
      readOpset(inside(part), versions);
  });
  forFields(inside(field), [&](const Field &part) {
    if (part.number == function::node)
      readNode(part, message, versions, /*depth=*/2);
  });
}

/// Sets an integer attribute; where the node has none, adds it if `isAdded`.
void OnnxReader::setAttribute(const std::vector<Field> &attributes,
                              unsigned parent, uint64_t nodeEnd,
                              std::string_view name, uint64_t value,
                              bool isAdded) {
  for (const Field &found : attributes) {
    bool isNamed = false, isReference = false;
    std::vector<Field> numbers;
    forFields(inside(found), [&](const Field &part) {
      isNamed |= part.number == attribute::name && text(part) == name;
      isReference |= part.number == attribute::reference;
      if (part.number == attribute::integer && part.wire == Varint)
        numbers.push_back(part);
    });
    if (!isNamed)
      continue;
    unsigned message = open(found, parent);
    if (isReference || numbers.empty())
      // It is an attribute of the function's; of the node's from now on.
      edit(inside(found), message,
           bytesField(attribute::name, name) +
               varintField(attribute::integer, value) +
               varintField(attribute::type, 2));
    else if (numbers.back().value != value)
      edit({numbers.back().payload, numbers.back().whole.end}, message,
           lengthOf(value));
    return;
  }
  if (isAdded)
    edit(
        {nodeEnd, nodeEnd}, parent,
        bytesField(node::attribute, bytesField(attribute::name, name) +
                                        varintField(attribute::integer, value) +
                                        varintField(attribute::type, 2)));
}

void OnnxReader::readNode(const Field &field, unsigned parent,
                          const Versions &versions, unsigned depth) {
  unsigned message = open(field, parent);
  std::string_view type, domain;
  std::vector<Field> inputs, outputs, attributes;
  forFields(inside(field), [&](const Field &part) {
    switch (part.number) {
    case node::input:
      inputs.push_back(part);
      break;
    case node::output:
      outputs.push_back(part);
      break;
    case node::opType:
      type = text(part);
      break;
    case node::domain:
      domain = text(part);
      break;
    case node::attribute:
      attributes.push_back(part);
      break;
    default:
      break;
    }
  });
  if (depth == 1) {
    OnnxFile::NodeInputs &known = file.nodes.emplace_back();
    known.message = message;
    for (const Field &input : inputs)
      known.fields.push_back({input.whole, inside(input).begin});
  }
  for (const Field &part : attributes) {
    std::optional<unsigned> opened;
    forFields(inside(part), [&](const Field &inner) {
      if (inner.number != attribute::graph && inner.number != attribute::graphs)
        return;
      if (!opened)
        opened = open(part, message);
      readGraph(inner, *opened, versions, depth + 1);
    });
  }
  if (!domain.empty() && domain != "ai.onnx")
    return;
  auto found = versions.find("");
  uint64_t version = found == versions.end() ? 1 : found->second;
  size_t edits = file.edits.size();
  if (type == "BatchNormalization") {
    if (version >= 14)
      setAttribute(attributes, message, field.whole.end, "training_mode", 0,
                   /*isAdded=*/false);
    else if (version < 7)
      setAttribute(attributes, message, field.whole.end, "is_test", 1,
                   /*isAdded=*/true);
    for (size_t i = 1; i < outputs.size(); ++i)
      edit(outputs[i].whole, message, "");
  } else if (type == "Dropout") {
    if (version >= 12 && inputs.size() > 2)
      edit(inputs[2].whole, message, "");
    else if (version < 7)
      setAttribute(attributes, message, field.whole.end, "is_test", 1,
                   /*isAdded=*/true);
  }
  if (type == "Constant" && depth == 1 && !outputs.empty())
    readConstant(attributes, message, text(outputs.front()));
  file.inferenceNodes += file.edits.size() > edits;
  file.randomNodes += type == "Bernoulli" || type.starts_with("Random");
}

void OnnxReader::readExternal(const Field &field, OnnxInitializer &initializer,
                              std::map<std::string, std::string> &entries) {
  std::string key, value;
  OnnxRange place{field.whole.end, field.whole.end};
  forFields(inside(field), [&](const Field &part) {
    if (part.number == entry::key)
      key = text(part);
    if (part.number == entry::value) {
      value = text(part);
      place = part.whole;
    }
  });
  entries[key] = value;
  if (key != "location")
    return;
  initializer.locationValue = place;
  initializer.locationMessage = open(field, initializer.message);
}

void OnnxReader::readConstant(const std::vector<Field> &attributes,
                              unsigned parent, std::string_view name) {
  for (const Field &part : attributes) {
    bool isValue = false;
    forFields(inside(part), [&](const Field &inner) {
      isValue |= inner.number == attribute::name && text(inner) == "value";
    });
    if (!isValue)
      continue;
    unsigned message = open(part, parent);
    forFields(inside(part), [&](const Field &inner) {
      if (inner.number == attribute::tensor)
        readInitializer(inner, message, name);
    });
  }
}

void OnnxReader::readInitializer(const Field &field, unsigned parent,
                                 std::string_view name) {
  OnnxInitializer initializer;
  initializer.field = field.whole;
  initializer.message = open(field, parent);
  std::map<std::string, std::string> entries;
  bool isExternal = false;
  std::vector<OnnxRange> floats, doubles, integers;
  std::optional<OnnxRange> raw;
  forFields(inside(field), [&](const Field &part) {
    switch (part.number) {
    case tensor::dims:
      if (part.wire == Varint)
        initializer.shape.push_back(static_cast<int64_t>(part.value));
      else // packed
        for (uint64_t at = part.payload; at < part.whole.end;)
          initializer.shape.push_back(
              static_cast<int64_t>(varint(at, part.whole.end)));
      break;
    case tensor::dataType:
      initializer.type = dataTypeOf(part.value);
      break;
    case tensor::name:
      initializer.name = text(part);
      break;
    case tensor::rawData:
      raw = inside(part);
      break;
    case tensor::floatData:
      floats.push_back(part.whole);
      break;
    case tensor::doubleData:
      doubles.push_back(part.whole);
      break;
    case tensor::int32Data:
      integers.push_back(part.whole);
      break;
    case tensor::dataLocation:
      isExternal = part.value == 1;
      break;
    case tensor::externalData:
      readExternal(part, initializer, entries);
      break;
    default:
      break;
    }
  });
  auto number = [&](const char *key, uint64_t otherwise) {
    auto found = entries.find(key);
    if (found == entries.end())
      return otherwise;
    uint64_t value = 0;
    const std::string &digits = found->second;
    const char *end = digits.data() + digits.size();
    auto [last, code] = std::from_chars(digits.data(), end, value);
    if (code != std::errc() || last != end)
      failInput("'{}': initializer '{}': external data: {} '{}' is not a "
                "number",
                file.path, initializer.name, key, digits);
    return value;
  };
  using Form = OnnxInitializer::Form;
  if (isExternal) {
    initializer.form = Form::External;
    initializer.location = entries["location"];
    uint64_t offset = number("offset", 0);
    uint64_t bytes = number("length", initializer.bytes());
    if (__builtin_add_overflow(offset, bytes, &initializer.values.end))
      failInput("'{}': initializer '{}': its external data end behind any file",
                file.path, initializer.name);
    initializer.values.begin = offset;
  } else if (raw) {
    initializer.form = Form::Raw;
    initializer.values = *raw;
  } else if (!floats.empty()) {
    initializer.form = Form::Floats;
    initializer.numbers = floats;
  } else if (!doubles.empty()) {
    initializer.form = Form::Doubles;
    initializer.numbers = doubles;
  } else if (!integers.empty()) {
    initializer.form = Form::Integers;
    initializer.numbers = integers;
  }
  if (!name.empty())
    initializer.name = name;
  file.initializers.push_back(std::move(initializer));
}

OnnxFile::OnnxFile(const std::string &path) : path(path), file(path) {
  OnnxReader(*this).readModel();
}

void OnnxFile::replace(size_t number) {
  OnnxInitializer &initializer = initializers[number];
  uint64_t bytes = initializer.bytes();
  auto isOf = [&](std::initializer_list<DataType> types) {
    return std::find(types.begin(), types.end(), *initializer.type) !=
           types.end();
  };
  auto setNumbers = [&](uint32_t field) {
    edits.push_back({initializer.numbers.front(), initializer.message,
                     tagOf(field, Bytes) + lengthOf(bytes), number, bytes});
    for (size_t i = 1; i < initializer.numbers.size(); ++i)
      edits.push_back({initializer.numbers[i], initializer.message, ""});
  };
  replaced.push_back(number);
  bool isGood = initializer.type.has_value();
  switch (initializer.form) {
  case OnnxInitializer::Form::Raw:
    isGood &= initializer.values.end - initializer.values.begin == bytes;
    if (isGood)
      edits.push_back(
          {initializer.values, initializer.message, "", number, bytes});
    break;
  case OnnxInitializer::Form::Floats:
    isGood = isGood && isOf({DataType::F32});
    if (isGood)
      setNumbers(tensor::floatData);
    break;
  case OnnxInitializer::Form::Doubles:
    isGood = isGood && isOf({DataType::F64});
    if (isGood)
      setNumbers(tensor::doubleData);
    break;
  case OnnxInitializer::Form::Integers:
    // The length of the numbers is known when they are.
    isGood = isGood && isOf({DataType::F16, DataType::BF16});
    break;
  case OnnxInitializer::Form::External:
  case OnnxInitializer::Form::Nothing:
    isGood &= bytes == 0;
    break;
  }
  if (!isGood)
    failInput("'{}': initializer '{}' of shape {} has no floating-point "
              "values that fit",
              path, initializer.name, toString(initializer.shape));
}

void OnnxFile::setLocation(size_t number, const std::string &location) {
  OnnxInitializer &initializer = initializers[number];
  edits.push_back({initializer.locationValue, initializer.locationMessage,
                   bytesField(entry::value, location)});
}

size_t OnnxFile::addCopy(size_t number, const std::string &name,
                         uint64_t offset, const std::string &location) {
  OnnxInitializer copy = initializers[number];
  copy.name = name;
  size_t result = initializers.size();
  std::string contents;
  for (int64_t size : copy.shape)
    contents += varintField(tensor::dims, static_cast<uint64_t>(size));
  contents += varintField(tensor::dataType, onnxTypeOf(*copy.type));
  contents += bytesField(tensor::name, name);
  Edit added{{copy.field.end, copy.field.end},
             messages[copy.message].parent,
             "",
             {},
             0};
  if (copy.form == OnnxInitializer::Form::External) {
    auto addEntry = [&](std::string_view key, const std::string &value) {
      contents +=
          bytesField(tensor::externalData, bytesField(entry::key, key) +
                                               bytesField(entry::value, value));
    };
    addEntry("location", location);
    addEntry("offset", std::to_string(offset));
    addEntry("length", std::to_string(copy.bytes()));
    contents += varintField(tensor::dataLocation, 1);
    copy.values = {offset, offset + copy.bytes()};
  } else {
    contents += tagOf(tensor::rawData, Bytes) + lengthOf(copy.bytes());
    added.initializer = result;
    added.bytes = copy.bytes();
    copy.form = OnnxInitializer::Form::Raw;
    replaced.push_back(result);
  }
  added.text = tagOf(graph::initializer, Bytes) +
               lengthOf(contents.size() + added.bytes) + contents;
  edits.push_back(std::move(added));
  initializers.push_back(std::move(copy));
  return result;
}

void OnnxFile::setInput(uint64_t number, uint64_t input,
                        const std::string &before, const std::string &after) {
  if (getInput(number, input) != before)
    failInput("'{}': node {} does not read '{}' as input {}", path, number,
              before, input);
  edits.push_back({nodes[number].fields[input].whole, nodes[number].message,
                   bytesField(node::input, after)});
}

std::string_view OnnxFile::getInput(uint64_t number, uint64_t input) const {
  if (number >= nodes.size() || input >= nodes[number].fields.size())
    return {};
  const NodeInput &found = nodes[number].fields[input];
  return {file.data() + found.payload, found.whole.end - found.payload};
}

std::vector<size_t> OnnxFile::order() const {
  auto isLate = [&](size_t number) {
    return initializers[number].form != OnnxInitializer::Form::Integers;
  };
  std::vector<size_t> result;
  for (size_t number : replaced)
    if (!isLate(number))
      result.push_back(number);
  std::vector<const Edit *> sorted;
  for (const Edit &edit : edits)
    if (edit.initializer)
      sorted.push_back(&edit);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Edit *a, const Edit *b) {
                     return a->range.begin < b->range.begin;
                   });
  for (const Edit *edit : sorted)
    result.push_back(*edit->initializer);
  return result;
}

/// The field int32_data with 16-bit numbers.
static std::string integersField(std::string_view values) {
  std::string digits;
  for (size_t at = 0; at + 1 < values.size(); at += 2) {
    uint16_t bits;
    std::memcpy(&bits, &values[at], sizeof(bits));
    addVarint(digits, bits);
  }
  return bytesField(tensor::int32Data, digits);
}

void OnnxFile::write(AtomicFile &into, const Values &values) const {
  std::vector<Edit> all = edits;
  for (size_t number : replaced) {
    const OnnxInitializer &initializer = initializers[number];
    if (initializer.form != OnnxInitializer::Form::Integers)
      continue;
    all.push_back({initializer.numbers.front(), initializer.message,
                   integersField(values(number))});
    for (size_t i = 1; i < initializer.numbers.size(); ++i)
      all.push_back({initializer.numbers[i], initializer.message, ""});
  }
  // How much longer each message becomes, from the inside out.
  std::vector<int64_t> growth(messages.size());
  for (const Edit &edit : all)
    growth[edit.message] +=
        static_cast<int64_t>(edit.text.size() + edit.bytes) -
        static_cast<int64_t>(edit.range.end - edit.range.begin);
  for (size_t m = messages.size(); m-- > 1;) {
    const Message &message = messages[m];
    if (growth[m] == 0)
      continue;
    std::string length = lengthOf(message.end - message.length.end + growth[m]);
    growth[message.parent] +=
        growth[m] + static_cast<int64_t>(length.size()) -
        static_cast<int64_t>(message.length.end - message.length.begin);
    all.push_back({message.length, message.parent, std::move(length)});
  }
  if (file.size() + growth[0] > maxBytes)
    failInput("'{}' would have more than 2 GiB, the most an ONNX file can have",
              path);
  std::stable_sort(all.begin(), all.end(), [](const Edit &a, const Edit &b) {
    return a.range.begin < b.range.begin;
  });
  uint64_t at = 0;
  for (const Edit &edit : all) {
    into.write(file.data() + at, edit.range.begin - at);
    into.write(edit.text);
    if (edit.initializer) {
      std::string_view text = values(*edit.initializer);
      if (text.size() != edit.bytes)
        failInternal("'{}': initializer '{}': {} bytes instead of {}", path,
                     initializers[*edit.initializer].name, text.size(),
                     edit.bytes);
      into.write(text);
    }
    at = edit.range.end;
  }
  into.write(file.data() + at, file.size() - at);
}
