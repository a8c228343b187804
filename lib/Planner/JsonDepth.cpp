//===- JsonDepth.cpp - JSON that is nested too deep -----------------------===//
#include "pp/Planner/JsonDepth.h"

bool pp::planner::isNestedTooDeep(std::string_view text) {
  int depth = 0;
  bool isInString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (isInString && c == '\\')
      ++i;
    else if (c == '"')
      isInString = !isInString;
    else if (!isInString && (c == '[' || c == '{') && ++depth > maxJsonDepth)
      return true;
    else if (!isInString && (c == ']' || c == '}'))
      --depth;
  }
  return false;
}
