//===- Format.cpp - Numbers for people ------------------------------------===//

#include "pp/Report/Format.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

std::string pp::formatBytes(int64_t bytes) {
  const char *units[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1000 && unit < 4; ++unit)
    value /= 1000;
  std::string text;
  llvm::raw_string_ostream os(text);
  os << llvm::format(unit == 0 ? "%.0f" : "%.2f", value) << " " << units[unit];
  return text;
}

std::string pp::formatTime(double seconds) {
  const char *units[] = {"s", "ms", "us", "ns"};
  int unit = 0;
  for (; seconds > 0 && seconds < 1 && unit < 3; ++unit)
    seconds *= 1000;
  int digits = seconds < 10 ? 2 : seconds < 100 ? 1 : 0;
  std::string text;
  llvm::raw_string_ostream os(text);
  os << llvm::format("%.*f", digits, seconds) << " " << units[unit];
  return text;
}
