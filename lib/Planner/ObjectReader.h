//===- ObjectReader.h - Read JSON and say where it is wrong ---------------===//
#ifndef PP_LIB_PLANNER_OBJECTREADER_H
#define PP_LIB_PLANNER_OBJECTREADER_H

#include "pp/Planner/JsonDepth.h"
#include "pp/Planner/RepeatedKeys.h"
#include "pp/Planner/Result.h"
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace pp::planner {

using Json = nlohmann::ordered_json;

/// The parser and the readers recurse, so nesting is limited. A key that is
/// stated twice is an error.
inline Result<Json> parseJson(std::string_view text) {
  if (isNestedTooDeep(text))
    return Failure{"$: nested too deep"};
  Json json = Json::parse(text.begin(), text.end(), /*cb=*/nullptr,
                          /*allow_exceptions=*/false);
  if (json.is_discarded())
    return Failure{"$: this is not JSON"};
  if (std::optional<std::string> fault = findRepeatedKeys(text))
    return Failure{*fault};
  return json;
}

/// Fixed order of keys, two spaces, a final newline.
inline std::string printJson(const Json &json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Reads members of one JSON object; the first fault stays in `error`.
class ObjectReader {
public:
  ObjectReader(const Json &object, std::string path, std::string &error)
      : object(object), path(std::move(path)), error(error) {
    if (!object.is_object())
      fail("", "expected an object");
  }

  const Json *member(const char *key, bool required = true) {
    known.insert(key);
    if (!object.is_object())
      return nullptr;
    auto found = object.find(key);
    if (found != object.end())
      return &*found;
    if (required)
      fail("", std::string("'") + key + "' is missing");
    return nullptr;
  }

  void number(const char *key, double &value, double least, bool above,
              bool required = true) {
    const Json *json = member(key, required);
    if (!json)
      return;
    bool good = json->is_number();
    double number = good ? json->get<double>() : 0;
    good = good && std::isfinite(number) &&
           (above ? number > least : number >= least);
    if (good)
      value = number;
    else
      fail(key, std::string("expected a number ") +
                    (above ? "above 0" : "of 0 or more"));
  }

  void text(const char *key, std::string &value, bool required = true) {
    const Json *json = member(key, required);
    if (json && json->is_string())
      value = json->get<std::string>();
    else if (json)
      fail(key, "expected a string");
  }

  void bytes(const char *key, int64_t &value, bool required = true) {
    const Json *json = member(key, required);
    if (!json)
      return;
    if (json->is_number_unsigned() && json->get<uint64_t>() <= INT64_MAX)
      value = json->get<int64_t>();
    else
      fail(key, "expected a number of bytes");
  }

  void flag(const char *key, bool &value) {
    const Json *json = member(key, /*required=*/false);
    if (json && json->is_boolean())
      value = json->get<bool>();
    else if (json)
      fail(key, "expected true or false");
  }

  /// A whole number in [least, most]. Nothing if it is not there or wrong.
  std::optional<int64_t> integer(const char *key, int64_t least, int64_t most,
                                 bool required = true) {
    const Json *json = member(key, required);
    if (!json)
      return std::nullopt;
    bool good = json->is_number_integer() &&
                (!json->is_number_unsigned() ||
                 json->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
    int64_t number = good ? json->get<int64_t>() : 0;
    if (good && number >= least && number <= most)
      return number;
    fail(key, "expected a whole number from " + std::to_string(least) + " to " +
                  std::to_string(most));
    return std::nullopt;
  }

  /// Calls `read(element, path)` for each element of an array.
  template <typename Function>
  void array(const char *key, bool required, Function read) {
    const Json *json = member(key, required);
    if (!json)
      return;
    if (!json->is_array()) {
      fail(key, "expected an array");
      return;
    }
    for (size_t i = 0; i < json->size() && error.empty(); ++i)
      read((*json)[i], path + "." + key + "[" + std::to_string(i) + "]");
  }

  void finish() {
    if (object.is_object())
      for (auto &[key, value] : object.items())
        if (!known.count(key))
          fail(key, "unknown key");
  }

  void fail(const std::string &key, const std::string &message) {
    if (error.empty())
      error = path + (key.empty() ? "" : "." + key) + ": " + message;
  }

private:
  const Json &object;
  std::string path;
  std::string &error;
  std::set<std::string> known;
};

} // namespace pp::planner

#endif // PP_LIB_PLANNER_OBJECTREADER_H
