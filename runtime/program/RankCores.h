//===- RankCores.h - Which cores each rank has ------------------*- C++ -*-===//
#ifndef PP_RUNTIME_PROGRAM_RANKCORES_H
#define PP_RUNTIME_PROGRAM_RANKCORES_H

#include "process/Launch.h"
#include "process/Placement.h"
#include "support/Cores.h"

namespace pp::runtime {

/// By rank of the plan: as many cores as it has threads, those of neighbours
/// side by side; none for ranks of other processes. `usable` are those of this
/// process, in the order of nearestFirst, `all` how many the machine has:
/// where a launcher has given each process its own, they are not divided again.
/// Throws Error(Usage) where there are too few.
std::vector<Cores> assignCores(const Plan &plan, const Placement &placement,
                               const Launch &launch, const Cores &usable,
                               size_t all);

} // namespace pp::runtime

#endif // PP_RUNTIME_PROGRAM_RANKCORES_H
