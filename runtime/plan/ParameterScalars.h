//===- ParameterScalars.h - Scalars for each parameter ----------*- C++ -*-===//
#ifndef PP_RUNTIME_PLAN_PARAMETERSCALARS_H
#define PP_RUNTIME_PLAN_PARAMETERSCALARS_H

#include "plan/Plan.h"

#include <optional>
#include <string_view>

namespace pp::runtime {

/// What lamb and lars multiply the step of a parameter by, which the runtime
/// sets for each of them. Negative: instead of new parameters the function
/// gives what is measured for it, of lamb the step, whose states change, of
/// lars the gradient.
inline constexpr std::string_view trustRatioName = "trust_ratio";

/// What adafactor and muon multiply the direction of a parameter's step by,
/// which the runtime sets, and hands their function instead of the gradient.
/// Negative: the function gets the gradient.
inline constexpr std::string_view directionName = "direction";
/// Muon's: what has a matrix stepped along an orthogonal one, and by AdamW's
/// mean of squares, where it is 0.
inline constexpr std::string_view orthogonalizeName = "orthogonalize";

/// Whether a kernel sets the scalar in each step, for all parameters alike.
inline bool isSetByKernel(const PlanScalar &scalar) {
  return scalar.kind == PlanScalar::Kind::LossScale ||
         scalar.kind == PlanScalar::Kind::IsSkipped;
}

/// The number of an optimizer's scalar.
inline std::optional<size_t> findScalar(const PlanOptimizer &optimizer,
                                        std::string_view name) {
  for (size_t i = 0; i < optimizer.scalars.size(); ++i)
    if (optimizer.scalars[i].name == name)
      return i;
  return std::nullopt;
}

} // namespace pp::runtime

#endif // PP_RUNTIME_PLAN_PARAMETERSCALARS_H
