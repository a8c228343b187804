//===- PlanEnums.h - The plan's enumerations in IR --------------*- C++ -*-===//
//
// These are enumerations of the plan (runtime/plan), which knows no MLIR. The
// functions are what ODS expects of an enumeration.
//
//===----------------------------------------------------------------------===//

#ifndef PP_INTERFACES_PLANENUMS_H
#define PP_INTERFACES_PLANENUMS_H

#include "plan/Action.h"
#include "plan/Area.h"
#include "plan/CheckpointMode.h"

#include "llvm/ADT/DenseMapInfo.h"
#include "llvm/ADT/StringRef.h"

namespace pp {

inline llvm::StringRef stringifyPhase(Phase phase) { return nameOf(phase); }
inline std::optional<Phase> symbolizePhase(llvm::StringRef name) {
  return parsePhase(name);
}

inline llvm::StringRef stringifyActionKind(ActionKind kind) {
  return nameOf(kind);
}
inline std::optional<ActionKind> symbolizeActionKind(llvm::StringRef name) {
  return parseActionKind(name);
}

inline llvm::StringRef stringifyCheckpointMode(CheckpointMode mode) {
  return nameOf(mode);
}
inline std::optional<CheckpointMode>
symbolizeCheckpointMode(llvm::StringRef name) {
  return parseCheckpointMode(name);
}

inline llvm::StringRef stringifyArea(Area area) { return nameOf(area); }
inline std::optional<Area> symbolizeArea(llvm::StringRef name) {
  return parseArea(name);
}

} // namespace pp

#endif // PP_INTERFACES_PLANENUMS_H
