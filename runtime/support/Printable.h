//===- Printable.h - Names on a terminal ----------------------------------===//
#ifndef PP_RUNTIME_SUPPORT_PRINTABLE_H
#define PP_RUNTIME_SUPPORT_PRINTABLE_H

#include <string>
#include <string_view>

namespace pp::runtime {

/// A name that came from a file, with its control characters as \\XX: a
/// terminal obeys them. UTF-8 stays as it is.
inline std::string printable(std::string_view name) {
  static constexpr char digits[] = "0123456789ABCDEF";
  std::string text;
  for (char c : name) {
    auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      text += c;
      continue;
    }
    text += '\\';
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_PRINTABLE_H
