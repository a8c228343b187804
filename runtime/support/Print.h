//===- Print.h - Standard output and standard error -----------------------===//
//
// Output is a result: that it cannot be written is remembered, and in the end
// an error. Messages are for whoever reads them, who may have gone.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_SUPPORT_PRINT_H
#define PP_RUNTIME_SUPPORT_PRINT_H

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>

namespace pp::runtime {

/// At the start of a command: opens /dev/null in place of standard streams that
/// are closed, so that no file gets their number, and lets writes to a pipe
/// without reader, or beyond the limit of a file's size, fail with EPIPE and
/// EFBIG instead of ending the process. Forgets earlier failures.
void prepareStreams();

/// Writes to standard output at once. Any thread.
void writeOutput(std::string_view text) noexcept;
/// Writes to standard error, or not; or to the handler. Any thread.
void writeMessage(std::string_view text) noexcept;
/// Takes messages instead of standard error, one at a time; empty: back to it.
void setMessageHandler(std::function<void(std::string_view)> handler);

/// The errno of the first output that could not be written, or 0.
int outputFailure() noexcept;
/// Writes what is buffered. Throws Error(IO) if any output was not written.
void requireOutput();

template <typename... Args>
void printOutput(fmt::format_string<Args...> format, Args &&...args) {
  writeOutput(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void printMessage(fmt::format_string<Args...> format, Args &&...args) {
  writeMessage(fmt::format(format, std::forward<Args>(args)...));
}

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_PRINT_H
