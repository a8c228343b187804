//===- PlanSpace.h - A model as a planning problem --------------*- C++ -*-===//

#ifndef PP_DRIVER_PLANSPACE_H
#define PP_DRIVER_PLANSPACE_H

#include "pp/Driver/Compiler.h"
#include "pp/Planner/PlanSearch.h"

namespace pp {

/// Compiles a model up to its costs, once for each number of
/// micro-batches, and fills in the direction, the batch, the graphs and the
/// copies of the parameters that the optimizer needs. `wholeNodes` keeps the
/// kernels of an ONNX node in one stage. Empty `microbatches`: the powers of
/// two up to 64 that divide the batch. A number that the model
/// does not allow is left out with a note on `notes`; fails if none is left.
/// With a cost file, so is a number of whose kernels the file knows less than
/// of the best known one's: their times would be estimates. What else is
/// estimated is noted.
llvm::Expected<planner::PlanSpace>
buildPlanSpace(mlir::MLIRContext *context, ModelImport &import,
               const CompileOptions &options, std::vector<int64_t> microbatches,
               bool wholeNodes, llvm::raw_ostream &notes);

} // namespace pp

#endif // PP_DRIVER_PLANSPACE_H
