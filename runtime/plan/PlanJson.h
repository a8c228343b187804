//===- PlanJson.h - A plan as JSON, and back ------------------------------===//
//
// The only writer and the only reader of the format of docs/plan-format.md. The
// compiler writes what programs read.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_PLAN_PLANJSON_H
#define PP_RUNTIME_PLAN_PLANJSON_H

#include "plan/Plan.h"

#include <string>
#include <string_view>

namespace pp::runtime {

/// The JSON of a plan of one replica; fromJson gives back an equal plan. Keys
/// stand in a fixed order: equal plans have equal bytes.
std::string toJson(const Plan &plan);

/// Reads and checks the plan of one replica. Throws Error(InvalidInput) that
/// names the JSON path.
Plan fromJson(std::string_view text);

/// What fromJson would throw; nothing for a plan that programs accept.
std::optional<std::string> findFault(const Plan &plan);

} // namespace pp::runtime

#endif // PP_RUNTIME_PLAN_PLANJSON_H
