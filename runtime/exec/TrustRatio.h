//===- TrustRatio.h - A scalar for each parameter ---------------*- C++ -*-===//
#ifndef PP_RUNTIME_EXEC_TRUSTRATIO_H
#define PP_RUNTIME_EXEC_TRUSTRATIO_H

#include "plan/Plan.h"

#include <optional>
#include <string_view>

namespace pp::runtime {

/// What lamb and lars multiply the step of a parameter by, which the runtime
/// sets for each of them. Negative: lamb gives its step, and changes its
/// states.
inline constexpr std::string_view trustRatioName = "trust_ratio";

/// The number of an optimizer's scalar.
inline std::optional<size_t> findScalar(const PlanOptimizer &optimizer,
                                        std::string_view name) {
  for (size_t i = 0; i < optimizer.scalars.size(); ++i)
    if (optimizer.scalars[i].name == name)
      return i;
  return std::nullopt;
}

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_TRUSTRATIO_H
