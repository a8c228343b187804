//===- Descriptor.cpp -----------------------------------------------------===//
#include "cpu/Descriptor.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

using namespace pp::runtime;

Descriptor::Descriptor(std::string_view text) {
  size_t position = 0;
  auto nextWord = [&]() -> std::string {
    while (position < text.size() && text[position] == ' ')
      ++position;
    size_t begin = position;
    while (position < text.size() && text[position] != ' ')
      ++position;
    return std::string(text.substr(begin, position - begin));
  };
  kind = nextWord();
  if (kind.empty())
    throw DescriptorError("empty descriptor");
  for (std::string word = nextWord(); !word.empty(); word = nextWord()) {
    size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == word.size())
      throw DescriptorError("expected key=value, found '" + word + "'");
    std::string key = word.substr(0, equals);
    if (!values.emplace(key, word.substr(equals + 1)).second)
      throw DescriptorError("key '" + key + "' is given twice");
  }
}

const std::string &Descriptor::get(const std::string &key) {
  auto it = values.find(key);
  if (it == values.end())
    throw DescriptorError("key '" + key + "' is missing");
  used.insert(key);
  return it->second;
}

Descriptor::Dims Descriptor::getDims(const std::string &key, int64_t minimum) {
  const std::string &text = get(key);
  Dims dims;
  const char *it = text.data(), *end = it + text.size();
  while (true) {
    int64_t value = 0;
    auto [next, code] = std::from_chars(it, end, value);
    if (code != std::errc() || value < minimum || value >= (int64_t(1) << 31))
      throw DescriptorError(key + "=" + text +
                            ": expected integers of at least " +
                            std::to_string(minimum) + ", joined by 'x'");
    dims.push_back(value);
    if (next == end)
      break;
    if (*next != 'x' || dims.size() == 4096)
      throw DescriptorError(key + "=" + text +
                            ": expected up to 4096 integers joined by 'x'");
    it = next + 1;
  }
  return dims;
}

Descriptor::Dims Descriptor::getDims(const std::string &key, size_t count,
                                     int64_t minimum) {
  Dims dims = getDims(key, minimum);
  if (dims.size() != count)
    throw DescriptorError(key + "=" + get(key) + ": expected " +
                          std::to_string(count) + " integers");
  return dims;
}

int64_t Descriptor::getInteger(const std::string &key, int64_t minimum,
                               int64_t maximum) {
  int64_t value = getDims(key, size_t(1), minimum)[0];
  if (value > maximum)
    throw DescriptorError(key + "=" + get(key) + ": expected at most " +
                          std::to_string(maximum));
  return value;
}

float Descriptor::getFloat(const std::string &key) {
  const std::string &text = get(key);
  char *end = nullptr;
  float value = std::strtof(text.c_str(), &end);
  if (end != text.c_str() + text.size() || !std::isfinite(value))
    throw DescriptorError(key + "=" + text + ": expected a finite number");
  return value;
}

void Descriptor::checkAllUsed() const {
  for (const auto &[key, value] : values)
    if (!used.count(key))
      throw DescriptorError("unknown key '" + key + "' for kind '" + kind +
                            "'");
}
