//===- JsonReader.h - Typed access to JSON that knows its path ------------===//
#ifndef PP_RUNTIME_SUPPORT_JSONREADER_H
#define PP_RUNTIME_SUPPORT_JSONREADER_H

#include "support/Error.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <string>

namespace pp::runtime {

/// Parses JSON text with a limit on nesting. Throws Error(InvalidInput) that
/// starts with `what`.
nlohmann::json parseJson(std::string_view text, const std::string &what);

/// A value and the path that leads to it, such as `stages[0].areas.scratch`.
/// Every access checks the type and throws Error(InvalidInput) `<path>: ...`.
/// Keeps a reference to the JSON.
class JsonReader {
public:
  JsonReader(const nlohmann::json &value, std::string path)
      : value(value), path(std::move(path)) {}

  const std::string &getPath() const { return path; }
  const nlohmann::json &getValue() const { return value; }

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format,
                         Args &&...args) const {
    failInput("{}: {}", path, fmt::format(format, std::forward<Args>(args)...));
  }

  bool has(const char *key) const {
    return value.is_object() && value.contains(key);
  }
  JsonReader at(const char *key) const {
    if (!value.is_object())
      fail("expected an object");
    auto it = value.find(key);
    if (it == value.end())
      fail("key '{}' is missing", key);
    return JsonReader(*it, path.empty() ? key : path + "." + key);
  }
  size_t size() const {
    if (!value.is_array())
      fail("expected an array");
    return value.size();
  }
  JsonReader at(size_t index) const {
    if (index >= size())
      fail("expected at least {} elements", index + 1);
    return JsonReader(value[index], fmt::format("{}[{}]", path, index));
  }

  std::string string() const {
    if (!value.is_string())
      fail("expected a string");
    return value.get<std::string>();
  }
  bool boolean() const {
    if (!value.is_boolean())
      fail("expected true or false");
    return value.get<bool>();
  }
  double number() const {
    if (!value.is_number())
      fail("expected a number");
    double result = value.get<double>();
    if (!std::isfinite(result))
      fail("expected a finite number");
    return result;
  }
  /// An integer of either sign.
  int64_t signedInteger() const {
    bool isLarge = value.is_number_unsigned() &&
                   value.get<uint64_t>() > uint64_t(INT64_MAX);
    if (!value.is_number_integer() || isLarge)
      fail("expected an integer");
    return value.get<int64_t>();
  }
  /// A non-negative integer of at most `maximum`.
  uint64_t integer(uint64_t maximum = uint64_t(1) << 48) const {
    if (!value.is_number_integer() ||
        (!value.is_number_unsigned() && value.get<int64_t>() < 0))
      fail("expected an integer of at least 0");
    uint64_t result = value.get<uint64_t>();
    if (result > maximum)
      fail("{} is above {}", result, maximum);
    return result;
  }
  /// An index below `bound`, into the section called `section`.
  unsigned index(size_t bound, const char *section) const {
    uint64_t result = integer();
    if (result >= bound)
      fail("{} is out of range: '{}' has {} entries", result, section, bound);
    return result;
  }
  /// A multiple of 64.
  uint64_t aligned() const {
    uint64_t result = integer();
    if (result % 64 != 0)
      fail("{} is not a multiple of 64", result);
    return result;
  }

private:
  const nlohmann::json &value;
  std::string path;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_JSONREADER_H
