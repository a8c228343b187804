//===- WeightFiles.cpp ----------------------------------------------------===//
#include "program/WeightFiles.h"
#include "plan/ShortFloat.h"
#include "support/ContentHash.h"
#include "support/Error.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

using namespace pp::runtime;

WeightFiles::WeightFiles(const Plan &plan, std::string directory, bool verify)
    : plan(plan), directory(std::move(directory)), verify(verify) {
  for (size_t i = 0; i < plan.weights.size(); ++i)
    files.emplace_back();
}

std::string WeightFiles::pathOf(unsigned index) const {
  std::filesystem::path path = plan.weights[index];
  if (!directory.empty())
    path = std::filesystem::path(directory) / path.filename();
  return path.string();
}

const MappedFile &WeightFiles::get(unsigned index) {
  if (files[index])
    return *files[index];
  std::filesystem::path path = pathOf(index);
  try {
    files[index].emplace(path.string());
  } catch (const Error &e) {
    throw Error(e.getKind(),
                fmt::format("weights: {} (--weights DIR looks for '{}' in "
                            "another directory)",
                            e.what(), path.filename().string()));
  }
  if (files[index]->size() != plan.weightsBytes[index])
    failInput("weights: '{}' has {} bytes, but had {} when the model was "
              "compiled",
              path.string(), files[index]->size(), plan.weightsBytes[index]);
  return *files[index];
}

template <typename T>
static void splat(char *target, uint64_t bytes, double value) {
  T typed = static_cast<T>(value);
  for (uint64_t i = 0; i < bytes; i += sizeof(T))
    std::memcpy(target + i, &typed, sizeof(T));
}

/// Blocks keep both sides in cache.
static void copyTransposed(const PlanTensor &tensor, DataType type,
                           const char *source, char *target) {
  uint64_t rows = tensor.shape[0], columns = tensor.shape[1];
  uint64_t size = sizeOf(type);
  constexpr uint64_t block = 16;
  for (uint64_t i = 0; i < rows; i += block)
    for (uint64_t j = 0; j < columns; j += block)
      for (uint64_t row = i; row < std::min(i + block, rows); ++row)
        for (uint64_t column = j; column < std::min(j + block, columns);
             ++column)
          std::memcpy(target + (row * columns + column) * size,
                      source + (column * rows + row) * size, size);
}

/// From the second half of `target` on, where the short numbers are.
static void widen(DataType type, char *target, uint64_t count) {
  const char *source = target + count * sizeof(uint16_t);
  for (uint64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, source + i * sizeof(bits), sizeof(bits));
    float value = fromShortFloat(type, bits);
    std::memcpy(target + i * sizeof(value), &value, sizeof(value));
  }
}

void WeightFiles::fill(const PlanTensor &tensor, char *target) {
  switch (tensor.source.kind) {
  case PlanSource::Kind::File: {
    if (!tensor.bytes)
      return;
    const char *data = get(tensor.source.file).data() + tensor.source.offset;
    DataType type = tensor.source.stored.value_or(tensor.type);
    uint64_t count = tensor.bytes / sizeOf(tensor.type);
    uint64_t bytes = count * sizeOf(type);
    if (verify && tensor.source.hash)
      if (uint64_t hash = hashContent(data, bytes); hash != *tensor.source.hash)
        failInput("weights: '{}': tensor '{}' has the hash {}, but had {} when "
                  "the model was compiled: compile the model again, or pass "
                  "--no-verify-weights to take the file as it is",
                  pathOf(tensor.source.file), tensor.name, toHex(hash),
                  toHex(*tensor.source.hash));
    char *place = target + (tensor.bytes - bytes);
    if (tensor.source.isTransposed)
      copyTransposed(tensor, type, data, place);
    else
      std::memcpy(place, data, bytes);
    if (tensor.source.stored)
      widen(type, target, count);
    return;
  }
  case PlanSource::Kind::Bytes:
    if (tensor.bytes)
      std::memcpy(target, tensor.source.bytes.data(), tensor.bytes);
    return;
  case PlanSource::Kind::Splat:
    switch (tensor.type) {
    case DataType::F32:
      return splat<float>(target, tensor.bytes, tensor.source.splat);
    case DataType::F64:
      return splat<double>(target, tensor.bytes, tensor.source.splat);
    case DataType::I64:
      return splat<int64_t>(target, tensor.bytes, tensor.source.splat);
    case DataType::I32:
      return splat<int32_t>(target, tensor.bytes, tensor.source.splat);
    case DataType::I16:
      return splat<int16_t>(target, tensor.bytes, tensor.source.splat);
    case DataType::I8:
      return splat<int8_t>(target, tensor.bytes, tensor.source.splat);
    case DataType::U64:
      return splat<uint64_t>(target, tensor.bytes, tensor.source.splat);
    case DataType::U32:
      return splat<uint32_t>(target, tensor.bytes, tensor.source.splat);
    case DataType::U16:
      return splat<uint16_t>(target, tensor.bytes, tensor.source.splat);
    case DataType::U8:
    case DataType::I1:
      return splat<uint8_t>(target, tensor.bytes, tensor.source.splat);
    case DataType::BF16:
    case DataType::F16:
      return splat<uint16_t>(
          target, tensor.bytes,
          toShortFloat(tensor.type, static_cast<float>(tensor.source.splat)));
    }
  }
}

void WeightFiles::load(const StageMemory &memory) {
  for (const PlanTensor &tensor : memory.getPlan().parameters)
    fill(tensor, memory.parameter(tensor));
  for (const PlanTensor &tensor : memory.getPlan().buffers)
    fill(tensor, memory.buffer(tensor));
}
