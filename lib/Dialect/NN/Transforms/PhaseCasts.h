//===- PhaseCasts.h - Casts that know their phase ---------------*- C++ -*-===//

#ifndef PP_LIB_DIALECT_NN_TRANSFORMS_PHASECASTS_H
#define PP_LIB_DIALECT_NN_TRANSFORMS_PHASECASTS_H

#include "StepMarks.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Interfaces/Step.h"

namespace pp::nn {

/// Casts between f32 and a type of sixteen bits in the joint graph, and what
/// has to be known to place them.
class PhaseCasts {
public:
  /// `shortElement`: bf16 or f16.
  PhaseCasts(mlir::func::FuncOp function, mlir::Type shortElement);

  mlir::RankedTensorType getShortType(mlir::Value value) const;

  /// A cast from f32 to the short type, or null.
  CastOp getNarrowing(mlir::Operation *op) const;

  /// What `value` is the f32 form of, without rounding; else null.
  mlir::Value getExactShort(mlir::Value value) const;

  /// Whether a value is made of parameters and constants alone.
  bool isConstant(mlir::Value value) const;

  /// A cast in the phase and stage of `like`, placed behind the definition of
  /// `value`, or at the beginning of the block of `like`.
  mlir::Value narrowBehind(mlir::Value value, mlir::Operation *like);
  /// The same, placed before `like`.
  mlir::Value narrowBefore(mlir::Value value, mlir::Operation *like);

  /// Lets the uses of `value` in the chosen phases read `from`, its short form,
  /// through one cast for each phase, before its first use there. What leaves
  /// the function has the phase of `producer`. `value` may be `from`, whose
  /// readers expect `longType`.
  void widenForReaders(
      mlir::Value value, mlir::Value from, mlir::Operation *producer,
      mlir::Type longType,
      llvm::function_ref<bool(pp::Phase)> isChosen = [](pp::Phase) {
        return true;
      });

private:
  mlir::Value make(mlir::Type type, mlir::Value value, mlir::Operation *like);

  mlir::OpBuilder builder;
  mlir::Type shortElement;
  StepMarks marks;
  llvm::DenseSet<mlir::Operation *> constants;
};

} // namespace pp::nn

#endif // PP_LIB_DIALECT_NN_TRANSFORMS_PHASECASTS_H
