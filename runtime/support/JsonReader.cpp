//===- JsonReader.cpp -----------------------------------------------------===//
#include "support/JsonReader.h"

using namespace pp::runtime;
using nlohmann::json;

json pp::runtime::parseJson(std::string_view text, const std::string &what) {
  constexpr int maxDepth = 64;
  bool tooDeep = false;
  auto limit = [&](int depth, json::parse_event_t, json &) {
    tooDeep |= depth > maxDepth;
    return !tooDeep;
  };
  // The parser recurses neither here nor in the callback; destroying a value
  // and copying it do, which is why depth is limited.
  try {
    json value = json::parse(text.begin(), text.end(), limit);
    if (tooDeep)
      failInput("{}: JSON is nested more than {} levels deep", what, maxDepth);
    return value;
  } catch (const json::exception &e) {
    failInput("{}: {}", what, e.what());
  }
}
