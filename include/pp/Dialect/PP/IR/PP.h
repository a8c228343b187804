//===- PP.h - The pp dialect ------------------------------------*- C++ -*-===//

#ifndef PP_DIALECT_PP_IR_PP_H
#define PP_DIALECT_PP_IR_PP_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "pp/Interfaces/PlanEnums.h"

#include "pp/Dialect/PP/IR/PPDialect.h.inc"

namespace pp::pipeline {
using pp::Area;
using pp::Phase;
} // namespace pp::pipeline

#define GET_ATTRDEF_CLASSES
#include "pp/Dialect/PP/IR/PPAttrs.h.inc"

#define GET_OP_CLASSES
#include "pp/Dialect/PP/IR/PPOps.h.inc"

namespace pp::pipeline {

/// Names of the attributes that passes attach to operations of any dialect.
inline constexpr llvm::StringLiteral phaseAttrName = "pp.phase";
inline constexpr llvm::StringLiteral originAttrName = "pp.origin";
inline constexpr llvm::StringLiteral costAttrName = "pp.cost";
inline constexpr llvm::StringLiteral stageAttrName = "pp.stage";
/// The stage that the model's author asked for.
inline constexpr llvm::StringLiteral stageHintAttrName = "pp.stage_hint";
inline constexpr llvm::StringLiteral buffersAttrName = "pp.buffers";
/// On modules: what code is made for, "cpu" (the default),
/// "cuda:sm_90", or "mock", which emulates a GPU.
inline constexpr llvm::StringLiteral targetAttrName = "pp.target";
/// On modules of training programs: which model it is, for snapshots.
inline constexpr llvm::StringLiteral modelHashAttrName = "pp.model_hash";
/// On kernels: the descriptor of their launches on a GPU, and the bytes of the
/// scratchpad between launches.
inline constexpr llvm::StringLiteral launchAttrName = "pp.launch";
inline constexpr llvm::StringLiteral launchScratchpadAttrName =
    "pp.launch_scratchpad";
/// On modules: the same for the optimizer, without the number of parameters.
inline constexpr llvm::StringLiteral optimizerLaunchAttrName =
    "pp.optimizer_launch";
/// On kernels of a stage: the number under which the program tells the runtime
/// that the kernel has run.
inline constexpr llvm::StringLiteral probeAttrName = "pp.probe";
/// On function arguments: the name under which the value is fed.
inline constexpr llvm::StringLiteral feedAttrName = "pp.feed";
/// On function arguments: "input" or "target", which the caller feeds, or
/// "loss_weight" or "loss_scale", which the runtime keeps.
inline constexpr llvm::StringLiteral roleAttrName = "pp.role";
inline constexpr llvm::StringLiteral lossScaleRole = "loss_scale";
/// The reciprocal of the number of labels in a mini-batch that count.
inline constexpr llvm::StringLiteral lossWeightRole = "loss_weight";
/// On function arguments: the smallest and the largest number that the caller
/// may feed, and the one beside them that is left out of the loss.
inline constexpr llvm::StringLiteral rangeAttrName = "pp.range";
inline constexpr llvm::StringLiteral ignoreIndexAttrName = "pp.ignore_index";
/// On function results: the name under which the value is fetched, or "loss".
inline constexpr llvm::StringLiteral fetchAttrName = "pp.fetch";

/// On the function that updates parameters: {kind, states, scalars}. Each
/// scalar is {name, <key> = value} with a key of docs/plan-format.md.
inline constexpr llvm::StringLiteral optimizerAttrName = "pp.optimizer";

/// The phase of an operation; forward where none is stated.
Phase getPhase(mlir::Operation *op);
void setPhase(mlir::Operation *op, Phase phase);

/// The stage an operation is placed on, or nothing.
std::optional<int64_t> getStage(mlir::Operation *op);

/// What a program is compiled for.
llvm::StringRef getTarget(mlir::ModuleOp module);
/// Whether it is a GPU, whose kernels are launched and not called; also an
/// emulated one.
bool isGpuTarget(mlir::ModuleOp module);
/// Whether it is a GPU that the processor emulates, with the processor's
/// library kernels.
bool isEmulatedTarget(mlir::ModuleOp module);

} // namespace pp::pipeline

#endif // PP_DIALECT_PP_IR_PP_H
