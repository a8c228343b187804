//===- RepeatedKeys.cpp - JSON that says something twice ------------------===//
#include "pp/Planner/RepeatedKeys.h"
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

using namespace pp::planner;

namespace {

/// Walks through a text and keeps the path to where it is.
class Walker : public nlohmann::json_sax<nlohmann::json> {
public:
  std::vector<std::string> repeated;

  bool null() override { return next(); }
  bool boolean(bool) override { return next(); }
  bool number_integer(number_integer_t) override { return next(); }
  bool number_unsigned(number_unsigned_t) override { return next(); }
  bool number_float(number_float_t, const string_t &) override {
    return next();
  }
  bool string(string_t &) override { return next(); }
  bool binary(binary_t &) override { return next(); }

  bool start_object(std::size_t) override { return open(/*isArray=*/false); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(/*isArray=*/true); }
  bool end_array() override { return close(); }

  bool key(string_t &name) override {
    Frame &frame = frames.back();
    frame.key = name;
    if (!frame.keys.insert(name).second)
      repeated.push_back(path());
    return true;
  }

  bool parse_error(std::size_t, const std::string &,
                   const nlohmann::detail::exception &) override {
    isJson = false;
    return false;
  }

  bool isJson = true;

private:
  struct Frame {
    bool isArray = false;
    size_t elements = 0; // Begun so far, of an array.
    std::string key;     // The last one of an object.
    std::set<std::string> keys;
  };

  bool next() {
    if (!frames.empty() && frames.back().isArray)
      ++frames.back().elements;
    return true;
  }

  bool open(bool isArray) {
    next();
    frames.emplace_back().isArray = isArray;
    return true;
  }

  bool close() {
    frames.pop_back();
    return true;
  }

  std::string path() const {
    std::string result = "$";
    for (const Frame &frame : frames)
      result += frame.isArray ? "[" + std::to_string(frame.elements - 1) + "]"
                              : "." + frame.key;
    return result;
  }

  std::vector<Frame> frames;
};

} // namespace

std::optional<std::string>
pp::planner::findRepeatedKeys(std::string_view text) {
  constexpr size_t mostNamed = 10;
  Walker walker;
  nlohmann::json::sax_parse(text.begin(), text.end(), &walker);
  size_t count = walker.repeated.size();
  if (!walker.isJson || count == 0)
    return std::nullopt;
  size_t named = std::min(count, mostNamed);
  std::string list;
  for (size_t i = 0; i < named; ++i)
    list += (i == 0                             ? ""
             : i + 1 == named && named == count ? " and "
                                                : ", ") +
            walker.repeated[i];
  if (named < count)
    list += " and " + std::to_string(count - named) + " more";
  return list + ": stated twice";
}
