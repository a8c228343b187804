//===- LoopBuilder.h - One loop nest of a kernel ----------------*- C++ -*-===//

#ifndef PP_LIB_CONVERSION_KERNELS_LOOPBUILDER_H
#define PP_LIB_CONVERSION_KERNELS_LOOPBUILDER_H

#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Interfaces/Step.h"

#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

namespace pp {

/// Merges axes that every operand walks through together, so that loops are
/// long: a tensor plus a per-channel number runs over N, C, and the rest.
class AxisMerger {
public:
  explicit AxisMerger(size_t rank) : separate(rank, false) {}

  /// Axis `axis` may not be merged with the one before it.
  void cut(int64_t axis);
  /// An operand that walks along `axes` only (increasing).
  void addOperand(llvm::ArrayRef<int64_t> axes);
  /// The groups of axes, in order.
  llvm::SmallVector<mlir::ReassociationIndices> groups() const;

private:
  llvm::SmallVector<bool> separate;
};

/// `sum` combined with `x`. Sums may be reordered: that is what lets them run
/// in vector lanes. The order is fixed when the kernel is compiled.
mlir::Value combineElements(mlir::OpBuilder &body, mlir::Location loc,
                            nn::Reduction reduction, bool isUnsigned,
                            mlir::Value sum, mlir::Value x);

/// A linalg operation that computes elementwise expressions of one shape, or
/// the reduction of one, from what lies in memory.
///
/// Where numbers are drawn at random, an axis that is made of samples and
/// others is walked along as several, and the loop nest computes four parts of
/// each sample at once, which are as far from each other as the words of one
/// block of the generator.
class LoopBuilder {
public:
  /// `areRoots` says that `values`, of the same shape, are themselves what the
  /// loop computes, not something that lies in memory.
  LoopBuilder(mlir::OpBuilder &builder, mlir::Location loc,
              const llvm::DenseMap<mlir::Value, mlir::Value> &memories,
              mlir::ValueRange values, bool areRoots);

  /// Finds what the values are computed from.
  llvm::LogicalResult collect();
  /// Whether numbers are drawn for them.
  bool hasDraws() const { return !draws.empty(); }

  /// Emits the loop nest: each value over all axes, reduced over `reduced` by
  /// `reduction`, into its destination, which holds the initial value of a
  /// reduction already. Several are neither reduced, nor are numbers drawn.
  llvm::LogicalResult emit(mlir::ValueRange destinations,
                           llvm::ArrayRef<int64_t> reduced,
                           std::optional<nn::Reduction> reduction);

private:
  /// How a value inside the kernel is reached from the axes of the loop nest:
  /// `axes[i]` is the one that its axis i follows.
  using Axes = llvm::SmallVector<int64_t>;

  /// What is read from memory.
  struct Leaf {
    mlir::Value value;
    Axes axes;
    /// Of the loop's operands, one for each part.
    size_t firstInput = 0;
    bool isDivided = false;
  };
  /// Numbers that are drawn.
  struct Draw {
    nn::UniformOp op;
    Axes axes;
  };

  bool isInMemory(mlir::Value value) const {
    return memories.count(value) &&
           !(areRoots && llvm::is_contained(roots, value));
  }
  /// Divides the axis of the samples, where all draws agree on it.
  void divideAxes();
  bool findSamples(mlir::Value value,
                   std::optional<llvm::ArrayRef<int64_t>> &samples,
                   bool followsAll) const;

  llvm::LogicalResult collect(mlir::Value value, const Axes &axes);
  /// The walked axes that stand for `axes`.
  Axes walked(llvm::ArrayRef<int64_t> axes) const;
  /// The walked axis of nothing but samples; none if there is none.
  std::optional<int64_t> sampleAxisOf(const Draw &draw) const;
  /// By how much the number of an element grows along each walked axis.
  llvm::SmallVector<int64_t> stepsOf(const Draw &draw) const;
  /// The loop that can be divided by four for all draws.
  std::optional<int64_t> findDividedLoop() const;
  int64_t extentOf(int64_t loop) const;

  mlir::Value wordOf(mlir::Value counter, int64_t word);
  /// In the body.
  mlir::ValueRange wordsOf(mlir::Value counter) const;
  mlir::Value presentRows(mlir::OpBuilder &body, nn::PresentRowsOp op);
  /// The memory of a value that follows `axes`, with an axis for each loop.
  mlir::Value loopMemory(mlir::Value memory, llvm::ArrayRef<int64_t> axes);
  /// A quarter of it.
  mlir::Value partOf(mlir::Value memory, mlir::AffineMap map, int64_t part);
  mlir::AffineMap mapFor(llvm::ArrayRef<int64_t> axes);
  void boundLoops(llvm::SmallVectorImpl<mlir::Value> &inputs,
                  llvm::SmallVectorImpl<mlir::AffineMap> &maps, size_t outputs);

  mlir::Value scalar(mlir::OpBuilder &body, mlir::Value value,
                     const Axes &axes);
  mlir::Value count(mlir::OpBuilder &body, nn::IotaOp iota, int64_t axis);
  mlir::Value draw(mlir::OpBuilder &body, const Draw &draw);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  const llvm::DenseMap<mlir::Value, mlir::Value> &memories;
  llvm::SmallVector<mlir::Value> roots;
  bool areRoots;
  llvm::ArrayRef<int64_t> shape;
  /// Of the walked axes, and those that make up each axis of `shape`.
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<Axes> parts;
  std::optional<AxisMerger> merger;
  llvm::SmallVector<Leaf> leaves;
  llvm::SmallVector<Draw> draws;
  /// What is drawn from, and where the loop's operands have its words.
  llvm::SetVector<mlir::Value> counters;
  size_t firstWord = 0;
  /// The loops, and the one of each walked axis.
  llvm::SmallVector<mlir::ReassociationIndices> groups;
  llvm::SmallVector<int64_t> groupOf;
  std::optional<int64_t> dividedLoop;
  int64_t part = 0;

  // Of the body.
  mlir::ValueRange arguments;
  llvm::SmallVector<std::pair<std::pair<mlir::Value, Axes>, mlir::Value>>
      scalars;
  /// Blocks that the parts share.
  llvm::DenseMap<mlir::Operation *, std::array<mlir::Value, 4>> blocks;
};

} // namespace pp

#endif // PP_LIB_CONVERSION_KERNELS_LOOPBUILDER_H
