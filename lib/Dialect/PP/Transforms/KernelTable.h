//===- KernelTable.h - The kernel table of a stage --------------*- C++ -*-===//

#ifndef PP_LIB_DIALECT_PP_TRANSFORMS_KERNELTABLE_H
#define PP_LIB_DIALECT_PP_TRANSFORMS_KERNELTABLE_H

#include "pp/Dialect/PP/IR/PP.h"
#include "llvm/ADT/MapVector.h"

namespace pp::pipeline {

/// Library kernels and launches that a stage's code names by number: one entry
/// for each descriptor, in the order in which they are added.
class KernelTable {
public:
  explicit KernelTable(mlir::MLIRContext *context) : builder(context) {}

  /// The number of the kernel, with a scratchpad of as many bytes.
  mlir::IntegerAttr add(const llvm::Twine &descriptor, int64_t scratchpad = 0);

  mlir::ArrayAttr toAttribute();

private:
  mlir::Builder builder;
  llvm::MapVector<mlir::StringAttr, int64_t> kernels;
};

/// The numbers of the kernels that run once per step; null for those that a
/// stage does not need.
struct StepKernels {
  mlir::IntegerAttr optimizer, finite, finiteLoss, lossScale;
  int64_t scratchpad = 0; // the largest of theirs
};

/// What a stage has to do at the end of a step.
struct StepWork {
  int64_t parameters = 0; // elements
  bool computesLoss = false;
  /// The optimizer holds a step back whose gradients are not finite.
  bool hasLossScale = false;
  /// Parameters, gradients and the loss are of f64, not f32.
  bool isDouble = false;
};

/// Adds the kernels of a step to the table: the optimizer's, where it is a
/// launch, and those that look for gradients that are not finite. `optimizer`
/// is null for inference.
StepKernels addStepKernels(KernelTable &table, const StepWork &work,
                           step::OptimizerAttr optimizer, ScheduleOp schedule);

} // namespace pp::pipeline

#endif // PP_LIB_DIALECT_PP_TRANSFORMS_KERNELTABLE_H
