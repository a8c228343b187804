//===- ToolRun.h - A tool as a process of its own ---------------*- C++ -*-===//
#ifndef PP_CAPI_TOOLRUN_H
#define PP_CAPI_TOOLRUN_H

#include <string>
#include <vector>

namespace pp::capi {

/// What a tool has printed, and how it ended.
struct ToolRun {
  int exitCode = 0;   // of a process that a signal has ended: 128 + its number
  std::string output; // standard output
  std::string errors; // standard error
};

/// Runs a tool such as pp-compile, with nothing on standard input, and waits
/// for its end. It is the one of this library's installation or build, else the
/// first on PATH. Throws std::system_error where it cannot be started.
ToolRun runTool(const std::string &name, std::vector<std::string> arguments);

} // namespace pp::capi

#endif // PP_CAPI_TOOLRUN_H
