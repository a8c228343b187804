//===- NonFinite.h - The first number of a step that is not finite --------===//
#ifndef PP_RUNTIME_EXEC_NONFINITE_H
#define PP_RUNTIME_EXEC_NONFINITE_H

#include "plan/Plan.h"

#include <optional>
#include <string>

namespace pp::runtime {

/// An infinity or NaN that a kernel wrote.
struct NonFinite {
  unsigned stage = 0;
  unsigned microbatch = 0;
  Phase phase = Phase::Forward;
  unsigned kernel = 0; // in the phase's probes
  std::string node;    // of the ONNX model
  double value = 0;

  /// Whether the data reaches this kernel before that of `other`: backward
  /// passes come after all forward passes of a micro-batch, and from the last
  /// stage to the first.
  bool isBefore(const NonFinite &other) const;
};

/// One of a tensor's elements.
struct FoundElement {
  uint64_t index;
  double value;
};

/// The first of `count` elements that is not finite; none of a type that has no
/// such numbers.
std::optional<FoundElement> findNonFinite(DataType type, const char *data,
                                          uint64_t count);

/// The one of two that comes first, if there is one.
void keepFirst(std::optional<NonFinite> &first, std::optional<NonFinite> other);

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_NONFINITE_H
