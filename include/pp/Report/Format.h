//===- Format.h - Numbers for people ----------------------------*- C++ -*-===//

#ifndef PP_REPORT_FORMAT_H
#define PP_REPORT_FORMAT_H

#include <cstdint>
#include <string>

namespace pp {

/// 1234567 as "1.23 MB".
std::string formatBytes(int64_t bytes);

/// Seconds as "12.3 ms", with three digits.
std::string formatTime(double seconds);

} // namespace pp

#endif // PP_REPORT_FORMAT_H
