//===- JsonDepth.h - JSON that is nested too deep ---------------*- C++ -*-===//
#ifndef PP_PLANNER_JSONDEPTH_H
#define PP_PLANNER_JSONDEPTH_H

#include <string_view>

namespace pp::planner {

/// How deep the arrays and objects of our files may be nested: parsers recurse.
inline constexpr int maxJsonDepth = 64;

/// Whether they are nested deeper in this text, which need not be JSON.
bool isNestedTooDeep(std::string_view text);

} // namespace pp::planner

#endif // PP_PLANNER_JSONDEPTH_H
