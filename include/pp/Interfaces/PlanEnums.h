//===- PlanEnums.h - The plan's enumerations in IR --------------*- C++ -*-===//
//
// Phases and areas are enumerations of the plan (runtime/plan), which knows no
// MLIR. These are the functions that ODS expects of an enumeration.
//
//===----------------------------------------------------------------------===//

#ifndef PP_INTERFACES_PLANENUMS_H
#define PP_INTERFACES_PLANENUMS_H

#include "plan/Action.h"
#include "plan/Area.h"

#include "llvm/ADT/DenseMapInfo.h"
#include "llvm/ADT/StringRef.h"

namespace pp {

inline llvm::StringRef stringifyPhase(Phase phase) { return nameOf(phase); }
inline std::optional<Phase> symbolizePhase(llvm::StringRef name) {
  return parsePhase(name);
}

inline llvm::StringRef stringifyArea(Area area) { return nameOf(area); }
inline std::optional<Area> symbolizeArea(llvm::StringRef name) {
  return parseArea(name);
}

} // namespace pp

#endif // PP_INTERFACES_PLANENUMS_H
