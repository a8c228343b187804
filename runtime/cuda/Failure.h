//===- Failure.h - The exception inside the plugin ------------------------===//
//
// Thrown anywhere in the plugin; Plugin.cpp turns it into a pp_device_error.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CUDA_FAILURE_H
#define PP_RUNTIME_CUDA_FAILURE_H

#include <stdexcept>
#include <string>

namespace pp::cuda {

class Failure : public std::runtime_error {
public:
  /// As the exit codes of the process, see docs/runtime.md.
  enum Kind { Input = 1, Usage = 2, System = 4, Internal = 70 };

  Failure(Kind kind, const std::string &text)
      : std::runtime_error(text), kind(kind) {}
  Kind getKind() const { return kind; }

private:
  Kind kind;
};

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_FAILURE_H
