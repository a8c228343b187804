//===- LaunchBuilder.h - From a kernel's loops to GPU launches --*- C++ -*-===//
//
// A generated kernel is a row of loop nests over memory (Kernels/). Each nest
// becomes a launch:
//
//   parallel linalg.generic, fill     a thread for 1 or 4 points
//   reduction to many outputs,
//     innermost loop parallel         a block for 32 outputs, 32 rows of
//     threads innermost loop reduced          a block (or, if short, a thread)
//     per output
//     few outputs of many terms       the same in parts, and a second launch
//   row loop (`pp.rows`)              a block per row
//   scatter-add (`pp.scatter_add`)    two launches of a block per index: one
//                                     sorts the indices, one adds
//   other nest with loops whose       a thread for each of their iterations
//     iterations are independent        takes the other loops in their order
//     (`pp.independent`)
//
// All sums have one order that depends on shapes alone, so results have the
// same bits in each run. A block never waits for another one.
//
//===----------------------------------------------------------------------===//

#ifndef PP_LIB_CONVERSION_GPU_LAUNCHBUILDER_H
#define PP_LIB_CONVERSION_GPU_LAUNCHBUILDER_H

#include "LoopBody.h"
#include "pp/Interfaces/Step.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <array>

namespace pp {

inline constexpr int64_t warpSize = 32;
/// Threads of a block where threads do not work together.
inline constexpr int64_t plainThreads = 256;

/// The threads of a block for so many points: a multiple of a warp, at most
/// `limit`.
int64_t blockFor(int64_t points, int64_t limit);

int64_t product(llvm::ArrayRef<int64_t> sizes);

struct Launch {
  std::string name;
  /// Of an optimizer, whose grid depends on the stage: for how many elements a
  /// block is; 0: one is for all.
  int64_t grid;
  int64_t block;
};

class LaunchBuilder {
public:
  /// Kernels go to the end of `module`, named after the function.
  LaunchBuilder(mlir::func::FuncOp function, mlir::gpu::GPUModuleOp module);

  /// Makes the launches, in order. Every kernel takes all arguments of the
  /// function and, last, a scratchpad of getScratchBytes() bytes.
  llvm::LogicalResult run();
  llvm::ArrayRef<Launch> getLaunches() const { return launches; }
  int64_t getScratchBytes() const { return scratchBytes; }

  /// The function is an optimizer's block function: makes kernels over a range
  /// of the arenas. Their arguments are parameters, gradients, states, the
  /// scalars, a scratchpad, how many elements the range has, and how many lie
  /// from one state to the next.
  llvm::LogicalResult runOptimizer(step::OptimizerAttr optimizer);

  static constexpr int64_t optimizerThreads = 256;

private:
  // Each makes the launch for a top-level operation.
  llvm::LogicalResult mapParallel(mlir::linalg::GenericOp op);
  llvm::LogicalResult mapFill(mlir::linalg::FillOp op);
  llvm::LogicalResult mapReduction(mlir::linalg::GenericOp op,
                                   mlir::linalg::FillOp fill);
  llvm::LogicalResult mapRows(mlir::scf::ForOp loop);
  llvm::LogicalResult mapScatterAdd(mlir::scf::ForOp loop);
  llvm::LogicalResult mapNest(mlir::scf::ForOp outermost);

  mlir::gpu::GPUFuncOp begin(llvm::ArrayRef<mlir::Type> types, int64_t grid,
                             int64_t block);
  void beginLaunch(mlir::Operation *op, int64_t grid, int64_t block);
  void finish();
  /// Whether each thread may compute the operation for itself.
  static bool canSink(mlir::Operation *op);
  /// Makes `value`, which is defined outside of loops, available in the
  /// kernel.
  llvm::LogicalResult sink(mlir::Value value);
  llvm::LogicalResult sinkOperandsOf(mlir::Operation *op);
  /// Room for `type` in the scratchpad; the offset in bytes.
  int64_t reserveScratch(mlir::MemRefType type);
  mlir::Value scratchView(mlir::MemRefType type, int64_t offset);

  // Parts of an optimizer.
  /// What its kernels take.
  struct OptimizerArguments {
    mlir::Value parameters, gradients, states, scalars, scratchpad;
    mlir::Value count, stride;
  };
  /// `elements` as Launch::grid.
  OptimizerArguments beginOptimizer(step::OptimizerAttr optimizer,
                                    int64_t elements);
  /// The element's new parameter and states. `isMeasured`: with what a trust
  /// ratio is made of instead of the parameter.
  llvm::FailureOr<llvm::SmallVector<mlir::Value>>
  emitOptimizer(step::OptimizerAttr optimizer,
                const OptimizerArguments &arguments, mlir::Value position,
                bool isMeasured);
  void storeStates(const OptimizerArguments &arguments,
                   llvm::ArrayRef<mlir::Value> states, mlir::Value position);
  /// Where a state of an element lies.
  mlir::Value stateIndex(const OptimizerArguments &arguments, unsigned state,
                         mlir::Value position);

  llvm::LogicalResult mapUpdate(step::OptimizerAttr optimizer);
  // Of one with trust ratios (MapTrustRatio.cpp).
  using Pair = std::array<mlir::Value, 2>;
  llvm::LogicalResult mapNorms(step::OptimizerAttr optimizer);
  void mapTrustRatio(step::OptimizerAttr optimizer);
  /// The sums, over all threads of the block, of `termsAt` [0, end).
  Pair sumPairs(mlir::Value end, llvm::function_ref<Pair(mlir::Value)> termsAt);
  /// Where a block leaves its sums in the scratchpad.
  Pair placesOfSums(mlir::Value block);
  mlir::Value toDouble(mlir::Value value);

  // Parts of rows.
  llvm::LogicalResult emitRowOperation(mlir::Operation *op);
  void shareWrittenMemory();

  // Helpers.
  mlir::Value index(int64_t value);
  mlir::Value threadIndex();
  mlir::Value blockIndex();
  mlir::Value isLess(mlir::Value x, mlir::Value y);
  mlir::Value isZero(mlir::Value x);
  /// A loop over [from, end), which carries a value or none (null).
  mlir::Value
  stepLoop(mlir::Value from, int64_t end, int64_t step, mlir::Value initial,
           llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> body);
  /// The same for `stride` threads that each start from another number of
  /// [0, stride): `turns` of a thread at a time as long as there are so many,
  /// so that their loads do not wait for each other.
  mlir::Value
  stridedLoop(mlir::Value from, int64_t end, int64_t stride, int64_t turns,
              mlir::Value initial,
              llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> body);
  void ifThen(mlir::Value condition, llvm::function_ref<void()> body);
  /// The `lanes` elements of a vector from `first` on.
  llvm::SmallVector<mlir::Value> loadLanes(mlir::Value memory,
                                           mlir::Value first, int64_t lanes);
  void barrier();
  mlir::Value sharedMemory(int64_t elements, mlir::Type type);
  /// The value of the thread of the warp whose number is this one's xor `mask`;
  /// of 64 bits at most.
  mlir::Value shuffled(mlir::Value value, int64_t mask);
  /// Combines a value of each thread; all threads get the result.
  mlir::Value blockReduce(
      mlir::Value value,
      llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> combine);

  mlir::func::FuncOp function;
  mlir::gpu::GPUModuleOp module;
  mlir::OpBuilder builder;
  mlir::Location loc;
  llvm::SmallVector<Launch> launches;
  llvm::DenseMap<mlir::Value, int64_t> scratchOffsets;
  int64_t scratchBytes = 0;

  // Of the kernel that is being made:
  mlir::gpu::GPUFuncOp kernel;
  int64_t threads = 0;
  mlir::IRMapping mapping;
  /// Numbers that a row keeps: every thread has its own copy.
  llvm::DenseMap<mlir::Value, mlir::Value> cells;
};

} // namespace pp

#endif // PP_LIB_CONVERSION_GPU_LAUNCHBUILDER_H
