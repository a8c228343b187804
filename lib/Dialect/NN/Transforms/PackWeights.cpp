//===- PackWeights.cpp - Read weights as the library likes best -----------===//
//
//   %y = nn.dot_general %x, %w   ──▶   %p = nn.pack %w {step.phase = prepare}
//                                      %y = nn.dot_general %x, %p
//
//===----------------------------------------------------------------------===//

#include "CheapOperations.h"
#include "KernelTimes.h"
#include "MainFunction.h"
#include "cpu/LibraryKernel.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pp/Interfaces/Step.h"

#include "llvm/ADT/SetVector.h"

#include <algorithm>
#include <limits>

namespace pp::nn {
#define GEN_PASS_DEF_PACKWEIGHTS
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// What a first-level cache holds: smaller weights stay there.
constexpr uint64_t leastBytes = 32 << 10;

/// Readers in the forward pass, the steps of a recurrence or layers with one
/// weight, that pay for packing it in each micro-batch.
constexpr int64_t manyReaders = 4;

class Packer {
public:
  Packer(func::FuncOp function, PackWeightsMode mode, int64_t uses,
         const KernelTimes &times)
      : block(function.getBody().front()), builder(function.getContext()),
        mode(mode), uses(uses), times(times) {}

  void run() {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      OpOperand *factor = getPackableFactor(&op);
      if (!factor || step::getPhase(&op) == Phase::Prepare)
        continue;
      if (int64_t readers = countReaders(factor->get()))
        pack(*factor, readers);
    }
  }

private:
  static bool isView(Operation *op) {
    auto kernel = dyn_cast<KernelOpInterface>(op);
    return kernel && kernel.getKernelClass() == KernelClass::View;
  }

  //===--------------------------------------------------------------------===//
  // Which values are weights
  //===--------------------------------------------------------------------===//

  /// How many operations of the forward pass read a weight: a parameter, a view
  /// of one, or what was prepared of one. 0 for other values, and for those
  /// whose parameters have several readers but not many: a stage that borrows a
  /// parameter has to pack it for each micro-batch, and which stage does is not
  /// known here. Beside a single reader nothing but its derivatives can be
  /// elsewhere.
  int64_t countReaders(Value value) {
    llvm::SetVector<Value> parameters;
    if (!collectParameters(value, parameters) || parameters.empty())
      return 0;
    int64_t fewest = std::numeric_limits<int64_t>::max();
    for (Value parameter : parameters) {
      llvm::SetVector<Operation *> readers;
      collectReaders(parameter, readers);
      fewest = std::min<int64_t>(
          fewest, llvm::count_if(readers, [](Operation *reader) {
            return step::getPhase(reader) == Phase::Forward;
          }));
    }
    return fewest == 1 || fewest >= manyReaders ? fewest : 0;
  }

  /// False if there is more behind the value than parameters and constants.
  static bool collectParameters(Value value,
                                llvm::SetVector<Value> &parameters) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return false;
    if (isa<ParameterOp>(op)) {
      parameters.insert(value);
      return true;
    }
    bool isPrepared = step::getPhase(op) == Phase::Prepare;
    return (isView(op) || isCheap(op) || isPrepared) &&
           llvm::all_of(op->getOperands(), [&](Value operand) {
             return collectParameters(operand, parameters);
           });
  }

  static void collectReaders(Value value, llvm::SetVector<Operation *> &into) {
    for (Operation *user : value.getUsers()) {
      if (!isView(user) && step::getPhase(user) != Phase::Prepare)
        into.insert(user);
      else
        for (Value result : user->getResults())
          collectReaders(result, into);
    }
  }

  //===--------------------------------------------------------------------===//
  // Packing
  //===--------------------------------------------------------------------===//

  void pack(OpOperand &factor, int64_t readers) {
    Operation *reader = factor.getOwner();
    auto type = cast<RankedTensorType>(factor.get().getType());
    auto product = dyn_cast<DotGeneralOp>(reader);
    if (type.getElementType().isF16() || (product && !product.isOneProduct()))
      return;
    std::string descriptor = getUnpackedDescriptor(reader);
    if (descriptor.empty() || !isWorthIt(type, descriptor, readers))
      return;
    Value &packed = known[{factor.get(), builder.getStringAttr(descriptor)}];
    if (!packed) {
      runtime::setKernelThreads(1);
      uint64_t bytes = runtime::getPackedBytes(descriptor);
      if (bytes == 0)
        return;
      auto layout =
          PackedAttr::get(type.getContext(), builder.getStringAttr(descriptor),
                          static_cast<int64_t>(bytes));
      builder.setInsertionPoint(reader);
      auto op = PackOp::create(
          builder, reader->getLoc(),
          RankedTensorType::get(type.getShape(), type.getElementType(), layout),
          factor.get());
      step::setPhase(op, Phase::Prepare);
      packed = op.getOutput();
    }
    factor.set(packed);
  }

  bool isWorthIt(Type weight, const std::string &descriptor,
                 int64_t readers) const {
    if (mode == PackWeightsMode::Always)
      return true;
    const int64_t runs = uses * readers;
    auto plain = times.findPlain(descriptor);
    auto packed = times.findPacked(descriptor, runs);
    return plain && packed ? *packed < *plain
                           : getTensorBytes(weight) > leastBytes && runs != 1;
  }

  Block &block;
  OpBuilder builder;
  PackWeightsMode mode;
  int64_t uses;
  const KernelTimes &times;
  DenseMap<std::pair<Value, StringAttr>, Value> known;
};

struct PackWeights : nn::impl::PackWeightsBase<PackWeights> {
  using PackWeightsBase::PackWeightsBase;

  void runOnOperation() override {
    auto function = findMain(getOperation());
    if (failed(function))
      return signalPassFailure();
    if (uses < 0) {
      getOperation().emitError()
          << "uses is " << uses.getValue() << ", must be 0 or more";
      return signalPassFailure();
    }
    if (mode.getValue() == PackWeightsMode::Never)
      return;
    auto times = KernelTimes::read(getOperation(), tuningFile);
    if (failed(times))
      return signalPassFailure();
    Packer(*function, mode, uses, *times).run();
  }
};

} // namespace
