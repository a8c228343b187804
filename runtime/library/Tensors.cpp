//===- Tensors.cpp --------------------------------------------------------===//
#include "library/Tensors.h"
#include "support/Error.h"

#include <fmt/ranges.h>

#include <algorithm>

using namespace pp::runtime;

// The two enumerations list the same types in the same order.
static_assert(static_cast<int>(DataType::F32) == PP_F32 &&
              static_cast<int>(DataType::F64) == PP_F64 &&
              static_cast<int>(DataType::I64) == PP_I64 &&
              static_cast<int>(DataType::I32) == PP_I32 &&
              static_cast<int>(DataType::I8) == PP_I8 &&
              static_cast<int>(DataType::U8) == PP_U8 &&
              static_cast<int>(DataType::I1) == PP_BOOL &&
              static_cast<int>(DataType::BF16) == PP_BF16 &&
              static_cast<int>(DataType::F16) == PP_F16 &&
              static_cast<int>(DataType::I16) == PP_I16 &&
              static_cast<int>(DataType::U16) == PP_U16 &&
              static_cast<int>(DataType::U32) == PP_U32 &&
              static_cast<int>(DataType::U64) == PP_U64);

pp_data_type pp::runtime::toPublic(DataType type) {
  return static_cast<pp_data_type>(type);
}

PortDescription::PortDescription(const PlanPort &port, unsigned batch)
    : name(port.name), type(port.type), shape(port.shape),
      isBatched(port.batched), isTarget(port.role == "target") {
  if (isBatched)
    shape[0] = batch;
}

pp_port PortDescription::describe() const {
  return {{name.c_str(), toPublic(type), static_cast<int32_t>(shape.size()),
           shape.data(), nullptr},
          isBatched,
          isTarget};
}

static std::string_view nameOf(const pp_tensor &tensor) {
  if (!tensor.name)
    failUsage("a tensor has no name");
  return tensor.name;
}

Shape pp::runtime::shapeOf(const pp_tensor &tensor) {
  constexpr int32_t mostDimensions = 64;
  if (tensor.rank < 0 || tensor.rank > mostDimensions ||
      (tensor.rank > 0 && !tensor.shape))
    failUsage("tensor '{}': a rank of {} without a shape, or that is too large",
              nameOf(tensor), tensor.rank);
  return {tensor.shape, tensor.shape + tensor.rank};
}

static DataType typeOf(const pp_tensor &tensor) {
  if (tensor.type < PP_F32 || tensor.type > PP_U64)
    failUsage("tensor '{}': there is no type {}", nameOf(tensor),
              static_cast<int>(tensor.type));
  return static_cast<DataType>(tensor.type);
}

static uint64_t bytesOf(const pp_tensor &tensor) {
  Shape shape = shapeOf(tensor);
  std::optional<uint64_t> count = elementCount(shape);
  if (!count)
    failUsage("tensor '{}': no array has the shape {}", nameOf(tensor),
              toString(shape));
  if (*count > 0 && !tensor.data)
    failUsage("tensor '{}': it has no data", nameOf(tensor));
  return *count * sizeOf(typeOf(tensor));
}

std::map<std::string, Array>
pp::runtime::borrowArrays(std::span<const pp_tensor> tensors) {
  std::map<std::string, Array> arrays;
  for (const pp_tensor &tensor : tensors) {
    std::string name(nameOf(tensor));
    uint64_t bytes = bytesOf(tensor);
    Array array{typeOf(tensor), shapeOf(tensor), {}};
    if (bytes)
      array.data = ArrayData::borrow(tensor.data, bytes);
    if (!arrays.emplace(name, std::move(array)).second)
      failUsage("there are two tensors '{}'", name);
  }
  return arrays;
}

static std::string textOf(const PortDescription &port) {
  std::string text;
  for (size_t i = 0; i < port.shape.size(); ++i)
    text += (i ? ", " : "") + (i == 0 && port.isBatched
                                   ? std::string("samples")
                                   : std::to_string(port.shape[i]));
  return fmt::format("'{}' ({} [{}])", port.name, nameOf(port.type), text);
}

void pp::runtime::requireArrays(const std::vector<PortDescription> &ports,
                                const std::map<std::string, Array> &arrays,
                                bool allowOthers) {
  std::vector<std::string> missing, unknown;
  for (const PortDescription &port : ports)
    if (!arrays.count(port.name))
      missing.push_back(textOf(port));
  for (const auto &[name, array] : arrays)
    if (!allowOthers && std::none_of(ports.begin(), ports.end(),
                                     [&](const PortDescription &port) {
                                       return port.name == name;
                                     }))
      unknown.push_back("'" + name + "'");
  std::string text;
  if (!missing.empty())
    text = fmt::format("the inputs lack {}", fmt::join(missing, ", "));
  if (!unknown.empty())
    text += fmt::format("{}the model has no input {}", text.empty() ? "" : "; ",
                        fmt::join(unknown, ", "));
  if (!text.empty())
    failUsage("{}", text);
}

void pp::runtime::requireShape(const pp_tensor &tensor, DataType type,
                               const Shape &shape) {
  (void)bytesOf(tensor);
  if (typeOf(tensor) != type || shapeOf(tensor) != shape)
    failUsage("tensor '{}' is {} {}, the program has {} {}", nameOf(tensor),
              nameOf(typeOf(tensor)), toString(shapeOf(tensor)), nameOf(type),
              toString(shape));
}
