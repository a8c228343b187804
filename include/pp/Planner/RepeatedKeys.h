//===- RepeatedKeys.h - JSON that says something twice --------------------===//
#ifndef PP_PLANNER_REPEATEDKEYS_H
#define PP_PLANNER_REPEATEDKEYS_H

#include <optional>
#include <string>
#include <string_view>

namespace pp::planner {

/// The keys that an object of this JSON text has twice, each with its path, as
/// one sentence: "$.a.b and $.c[1].d: stated twice". Parsers keep one of them
/// without a word. Nothing if there are none, or if the text is not JSON, which
/// its parser will say. Ten are named, the others counted. O(text * log keys).
std::optional<std::string> findRepeatedKeys(std::string_view text);

} // namespace pp::planner

#endif // PP_PLANNER_REPEATEDKEYS_H
