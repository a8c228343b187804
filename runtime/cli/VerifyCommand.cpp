//===- VerifyCommand.cpp - `verify` ---------------------------------------===//
#include "cli/CommandLine.h"
#include "formats/Safetensors.h"
#include "support/Error.h"
#include "support/Print.h"

#include <cstring>

using namespace pp::runtime;

namespace {

/// Where two tensors of one type and shape differ.
struct Difference {
  uint64_t first = 0, count = 0; // elements
};

} // namespace

static Difference compare(const TensorView &a, const TensorView &b) {
  Difference result;
  uint64_t size = sizeOf(a.type);
  for (uint64_t i = 0, e = a.bytes() / size; i < e; ++i) {
    if (std::memcmp(a.data + i * size, b.data + i * size, size) == 0)
      continue;
    if (result.count++ == 0)
      result.first = i;
  }
  return result;
}

/// "[3, 0]": where element `i` of the shape is.
static std::string placeOf(const Shape &shape, uint64_t i) {
  Shape place(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    place[axis] = static_cast<int64_t>(i % shape[axis]);
    i /= shape[axis];
  }
  return toString(place);
}

/// Element `i`, for people.
static std::string valueOf(const TensorView &tensor, uint64_t i) {
  if (tensor.type == DataType::F32) {
    float value;
    std::memcpy(&value, tensor.data + i * sizeof(value), sizeof(value));
    return fmt::format("{:.9g} ({:a})", value, value);
  }
  std::string bytes;
  uint64_t size = sizeOf(tensor.type);
  for (uint64_t byte = size; byte-- > 0;)
    bytes += fmt::format(
        "{:02x}", static_cast<unsigned char>(tensor.data[i * size + byte]));
  return "0x" + bytes;
}

int pp::runtime::runVerify(const VerifyOptions &options) {
  SafetensorsFile a(options.first), b(options.second);
  for (const SafetensorsFile *file : {&a, &b})
    for (const auto &[name, tensor] : file->getTensors())
      file->verify(name);
  std::string firstDifference;
  uint64_t differing = 0;
  auto differ = [&](const std::string &text) {
    if (differing++ == 0)
      firstDifference = text;
  };
  ContentHash hash;
  for (const auto &[name, tensor] : a.getTensors()) {
    hash.addText(name);
    hash.addText(nameOf(tensor.type));
    hash.addText(toString(tensor.shape));
    hash.add(tensor.data, tensor.bytes());
    const TensorView *other = b.find(name);
    if (!other) {
      differ(fmt::format("'{}' is only in '{}'", name, a.getPath()));
      continue;
    }
    if (other->type != tensor.type || other->shape != tensor.shape) {
      differ(fmt::format("'{}' is {} {} and {} {}", name, nameOf(tensor.type),
                         toString(tensor.shape), nameOf(other->type),
                         toString(other->shape)));
      continue;
    }
    Difference difference = compare(tensor, *other);
    if (difference.count)
      differ(fmt::format("'{}' at {}: {} and {}; {} of its {} elements differ",
                         name, placeOf(tensor.shape, difference.first),
                         valueOf(tensor, difference.first),
                         valueOf(*other, difference.first), difference.count,
                         tensor.bytes() / sizeOf(tensor.type)));
  }
  for (const auto &[name, tensor] : b.getTensors())
    if (!a.find(name))
      differ(fmt::format("'{}' is only in '{}'", name, b.getPath()));
  if (differing) {
    printOutput("{} tensors differ, the first one is {}\n", differing,
                firstDifference);
    return static_cast<int>(ErrorKind::InvalidInput);
  }
  printOutput("{} tensors are equal, bit for bit: {:016x}\n",
              a.getTensors().size(), hash.get());
  return 0;
}
