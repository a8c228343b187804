//===- Error.h - The one error type of the runtime ------------------------===//
//
// Thrown anywhere in the runtime, caught in main (or in a rank thread, which
// hands it to main). The kind is the exit code of the process.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_SUPPORT_ERROR_H
#define PP_RUNTIME_SUPPORT_ERROR_H

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace pp::runtime {

/// What went wrong, as the exit code that the process ends with.
enum class ErrorKind : int {
  InvalidInput = 1, ///< a file, tensor, plan or value that cannot be used
  Usage = 2,        ///< a flag that is missing, unknown or contradicts another
  IO = 4,           ///< the operating system refused
  Internal = 70     ///< a fault of the compiler or of the runtime, or a hang
};

/// An error with a complete message for the user (no trailing period, no
/// "error:" prefix).
class Error : public std::runtime_error {
public:
  Error(ErrorKind kind, const std::string &message)
      : std::runtime_error(message), kind(kind) {}

  ErrorKind getKind() const { return kind; }
  int getExitCode() const { return static_cast<int>(kind); }

private:
  ErrorKind kind;
};

/// Formats and throws an error of kind InvalidInput.
template <typename... Args>
[[noreturn]] void failInput(fmt::format_string<Args...> format,
                            Args &&...args) {
  throw Error(ErrorKind::InvalidInput,
              fmt::format(format, std::forward<Args>(args)...));
}

/// Formats and throws an error of kind Usage.
template <typename... Args>
[[noreturn]] void failUsage(fmt::format_string<Args...> format,
                            Args &&...args) {
  throw Error(ErrorKind::Usage,
              fmt::format(format, std::forward<Args>(args)...));
}

/// Formats and throws an error of kind Internal.
template <typename... Args>
[[noreturn]] void failInternal(fmt::format_string<Args...> format,
                               Args &&...args) {
  throw Error(ErrorKind::Internal,
              fmt::format(format, std::forward<Args>(args)...));
}

/// Throws an error of kind IO: `<what>: <text of errno>`. Reads errno first.
[[noreturn]] void failIO(const std::string &what);

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_ERROR_H
