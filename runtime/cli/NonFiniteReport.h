//===- NonFiniteReport.h - Why a step's loss is not a number --------------===//
#ifndef PP_RUNTIME_CLI_NONFINITEREPORT_H
#define PP_RUNTIME_CLI_NONFINITEREPORT_H

#include "exec/DataSet.h"
#include "exec/Executor.h"

namespace pp::runtime {

/// Says where the first infinity or NaN of a step came from: a sample of the
/// data, a parameter, or the kernel of a stage, by its ONNX node; or, where
/// nothing of that is found, the ranks whose gradients are not finite. Runs the
/// step once more, so no other one may be in flight; `step` has the feeds and
/// results that it had. All processes of a program call it together.
std::string describeNonFinite(const Plan &plan, const Program &program,
                              Executor &executor, Step &step);

/// Says which sample of the step's data holds an infinity or NaN; empty if none
/// does. All processes of a program call it together.
std::string describeNonFiniteData(const Plan &plan, const Program &program,
                                  const Step &step);

} // namespace pp::runtime

#endif // PP_RUNTIME_CLI_NONFINITEREPORT_H
