//===- Safetensors.cpp ----------------------------------------------------===//
#include "formats/Safetensors.h"
#include "support/AtomicFile.h"
#include "support/JsonReader.h"

#include <algorithm>
#include <cstring>

using namespace pp::runtime;

namespace {
struct SafetensorsType {
  const char *name;
  DataType type;
};
constexpr SafetensorsType safetensorsTypes[] = {
    {"F32", DataType::F32},  {"F64", DataType::F64}, {"I64", DataType::I64},
    {"I32", DataType::I32},  {"I8", DataType::I8},   {"U8", DataType::U8},
    {"BOOL", DataType::I1},  {"I16", DataType::I16}, {"U16", DataType::U16},
    {"U32", DataType::U32},  {"U64", DataType::U64}, {"F16", DataType::F16},
    {"BF16", DataType::BF16}};
} // namespace

SafetensorsFile::SafetensorsFile(const std::string &path)
    : path(path), file(path) {
  std::string what = "'" + path + "'";
  uint64_t length = 0;
  if (file.size() < 8)
    failInput("{}: not a safetensors file: {} bytes", what, file.size());
  std::memcpy(&length, file.data(), 8);
  if (length > 100'000'000 || length > file.size() - 8)
    failInput("{}: not a safetensors file: header of {} bytes", what, length);
  nlohmann::json value = parseJson(file.view().substr(8, length), what);
  JsonReader header(value, what + ": header");
  if (!value.is_object())
    header.fail("expected an object");
  const char *data = file.data() + 8 + length;
  uint64_t dataBytes = file.size() - 8 - length;
  std::vector<std::pair<std::pair<uint64_t, uint64_t>, std::string>> ranges;
  for (const auto &[name, entry] : value.items()) {
    if (name == "__metadata__") {
      JsonReader json(entry, what + ": __metadata__");
      if (!entry.is_object())
        json.fail("expected an object");
      for (const auto &[key, text] : entry.items())
        metadata[key] = json.at(key.c_str()).string();
      continue;
    }
    JsonReader json(entry, what + ": tensor '" + name + "'");
    TensorView tensor{};
    std::string typeName = json.at("dtype").string();
    auto it =
        std::find_if(std::begin(safetensorsTypes), std::end(safetensorsTypes),
                     [&](const SafetensorsType &candidate) {
                       return candidate.name == typeName;
                     });
    if (it == std::end(safetensorsTypes))
      json.at("dtype").fail("'{}' is not supported", typeName);
    tensor.type = it->type;
    JsonReader shape = json.at("shape"), offsets = json.at("data_offsets");
    if (shape.size() > 16)
      shape.fail("{} dimensions are too many", shape.size());
    for (size_t i = 0; i < shape.size(); ++i)
      tensor.shape.push_back(shape.at(i).integer());
    if (!elementCount(tensor.shape))
      shape.fail("too large");
    if (offsets.size() != 2)
      offsets.fail("expected two numbers");
    uint64_t begin = offsets.at(size_t(0)).integer();
    uint64_t end = offsets.at(size_t(1)).integer();
    if (begin > end || end > dataBytes)
      offsets.fail("[{}, {}) is outside the file's {} data bytes", begin, end,
                   dataBytes);
    if (end - begin != tensor.bytes())
      offsets.fail("{} bytes for {} {}", end - begin, nameOf(tensor.type),
                   toString(tensor.shape));
    tensor.data = data + begin;
    ranges.push_back({{begin, end}, name});
    tensors.emplace(name, tensor);
  }
  std::sort(ranges.begin(), ranges.end());
  uint64_t covered = 0;
  for (const auto &[range, name] : ranges) {
    if (range.first != covered)
      failInput("{}: tensor '{}': data_offsets: {} {}", what, name,
                range.first < covered ? "overlaps the tensor before it, at"
                                      : "leaves a gap before",
                range.first);
    covered = range.second;
  }
  if (covered != dataBytes)
    failInput("{}: {} bytes at the end belong to no tensor", what,
              dataBytes - covered);
}

const TensorView *SafetensorsFile::find(const std::string &name) const {
  auto it = tensors.find(name);
  return it == tensors.end() ? nullptr : &it->second;
}

static const std::string metadataHashKey = "hash";

static std::string hashKey(const std::string &tensor) {
  return "hash." + tensor;
}

static std::string
hashMetadata(const std::map<std::string, std::string> &metadata) {
  ContentHash hash;
  for (const auto &[key, value] : metadata)
    if (key != metadataHashKey) {
      hash.addText(key);
      hash.addText(value);
    }
  return toHex(hash.get());
}

void SafetensorsFile::verifyMetadata() const {
  auto it = metadata.find(metadataHashKey);
  if (it == metadata.end())
    return;
  std::string hash = hashMetadata(metadata);
  if (hash != it->second)
    failInput("'{}': __metadata__ has the hash {}, but {} was written: the "
              "file is damaged, or something else has changed it",
              path, hash, it->second);
}

void SafetensorsFile::verify(const std::string &name) const {
  auto it = metadata.find(hashKey(name));
  const TensorView *tensor = find(name);
  if (it == metadata.end() || !tensor)
    return;
  std::string hash = toHex(hashContent(tensor->data, tensor->bytes()));
  if (hash != it->second)
    failInput("'{}': tensor '{}' has the hash {}, but {} was written: the file "
              "is damaged, or something else has changed it",
              path, name, hash, it->second);
}

void TensorSink::write(const void *data, uint64_t bytes) {
  file.write(data, bytes);
  hash.add(data, bytes);
}

static std::string
formatHeader(const std::map<std::string, TensorView> &tensors,
             const std::map<std::string, std::string> &metadata) {
  nlohmann::ordered_json header;
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const auto &[name, tensor] : tensors) {
    const char *typeName = "";
    for (const SafetensorsType &entry : safetensorsTypes)
      if (entry.type == tensor.type)
        typeName = entry.name;
    header[name] = {{"dtype", typeName},
                    {"shape", tensor.shape},
                    {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text = header.is_null() ? "{}" : header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

void pp::runtime::writeSafetensors(
    const std::string &path, const std::map<std::string, TensorView> &tensors,
    const std::map<std::string, std::string> &metadata,
    const TensorWriter &writer, bool hashes) {
  std::map<std::string, std::string> complete = metadata;
  // Known when all is written; all hashes have as many digits.
  if (hashes) {
    complete[metadataHashKey] = toHex(0);
    for (const auto &[name, tensor] : tensors)
      complete[hashKey(name)] = toHex(0);
  }
  std::string text = formatHeader(tensors, complete);
  uint64_t length = text.size();
  AtomicFile file(path);
  file.write(&length, sizeof(length));
  file.write(text);
  for (const auto &[name, tensor] : tensors) {
    TensorSink sink(file);
    if (writer)
      writer(name, sink);
    else
      sink.write(tensor.data, tensor.bytes());
    if (hashes)
      complete[hashKey(name)] = toHex(sink.getHash());
  }
  if (hashes) {
    complete[metadataHashKey] = hashMetadata(complete);
    file.rewrite(sizeof(length), formatHeader(tensors, complete));
  }
  file.commit();
}
