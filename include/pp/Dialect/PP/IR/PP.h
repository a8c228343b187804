//===- PP.h - The pp dialect ------------------------------------*- C++ -*-===//

#ifndef PP_DIALECT_PP_IR_PP_H
#define PP_DIALECT_PP_IR_PP_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "pp/Interfaces/Bindings.h"
#include "pp/Interfaces/Step.h"
#include "pp/Support/Target.h"

#include "pp/Dialect/PP/IR/PPDialect.h.inc"
#include "pp/Dialect/PP/IR/PPEnums.h.inc"

namespace pp::pipeline {
using pp::Area;
using pp::Phase;
using step::PhaseAttr;

/// What stashes put into portals and pops take out.
struct PortalResource : mlir::SideEffects::Resource::Base<PortalResource> {
  llvm::StringRef getName() final { return "Portal"; }
};
} // namespace pp::pipeline

#define GET_ATTRDEF_CLASSES
#include "pp/Dialect/PP/IR/PPAttrs.h.inc"

#define GET_OP_CLASSES
#include "pp/Dialect/PP/IR/PPOps.h.inc"

namespace pp::pipeline {

/// Names of the attributes that passes attach to operations of any dialect.
inline constexpr llvm::StringLiteral costAttrName = "pp.cost";
inline constexpr llvm::StringLiteral stageAttrName = "pp.stage";
inline constexpr llvm::StringLiteral buffersAttrName = "pp.buffers";
/// On operations in a stage: where the states that they change lie.
inline constexpr llvm::StringLiteral stateBuffersAttrName = "pp.state_buffers";
/// On library kernels and launches in a stage: their entry in the stage's
/// kernel table, and their scratchpad.
inline constexpr llvm::StringLiteral libraryAttrName = "pp.library";
inline constexpr llvm::StringLiteral scratchpadAttrName = "pp.scratchpad";
/// On library kernels that add to gradients: the entry that the first
/// micro-batch of a step runs instead.
inline constexpr llvm::StringLiteral firstLibraryAttrName = "pp.first_library";
/// On modules: the number of stages, how good the partition is, and what is
/// recomputed.
inline constexpr llvm::StringLiteral stagesAttrName = "pp.stages";
inline constexpr llvm::StringLiteral partitionAttrName = "pp.partition";
inline constexpr llvm::StringLiteral checkpointAttrName = "pp.checkpoint";
/// On kernels: the function in the code module that runs it.
inline constexpr llvm::StringLiteral calleeAttrName = "pp.callee";
/// On kernels of a stage: the number of the calls that mark it.
inline constexpr llvm::StringLiteral markAttrName = "pp.mark";
/// On a loop over rows: no iteration depends on another one.
inline constexpr llvm::StringLiteral rowsAttrName = "pp.rows";
/// On a loop of a nest that holds nothing but the next one: no iteration
/// depends on another one, though those of other loops of the nest have an
/// order.
inline constexpr llvm::StringLiteral independentAttrName = "pp.independent";
/// On the outermost loop of a scatter-add: its axis and the rank of its
/// indices. Inside are three loads, in this order: of the index, of the old
/// value, of the update.
inline constexpr llvm::StringLiteral scatterAddAttrName = "pp.scatter_add";
/// On functions of the code module that run a thread of a kernel on the mock
/// device.
inline constexpr llvm::StringLiteral mockKernelAttrName = "pp.mock_kernel";
/// On modules: what code is made for, "cpu" (the default),
/// "cuda:sm_90", or "mock".
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
/// Of how many elements of a parameter, whose norm an optimizer takes, a block
/// of a GPU adds up the squares, and the bytes of its sums in the scratchpad.
inline constexpr int64_t normElements = 4096;
inline constexpr int64_t normBytes = 16;
/// On kernels of a stage: the number under which the program tells the runtime
/// that the kernel has run.
inline constexpr llvm::StringLiteral probeAttrName = "pp.probe";
/// The stage an operation is placed on, or nothing.
std::optional<int64_t> getStage(mlir::Operation *op);

/// What a program is compiled for: the processor, where nothing is said.
Target getTarget(mlir::ModuleOp module);

/// Whether the update does in its place what a kernel with
/// step::preparedByUpdateAttrName does: where the stage has the parameter, and
/// the result is handed to other phases. Of kernels with a place in memory.
bool isPreparedByUpdate(mlir::Operation *op);

} // namespace pp::pipeline

#endif // PP_DIALECT_PP_IR_PP_H
