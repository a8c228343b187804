//===- LowerKernels.cpp - A function for each generated kernel ------------===//

#include "Kernels/KernelEmitter.h"
#include "pp/Conversion/Passes.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/PP/IR/PP.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace pp {
#define GEN_PASS_DEF_LOWERKERNELS
#include "pp/Conversion/Passes.h.inc"
} // namespace pp

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

class KernelLowering {
public:
  KernelLowering(ModuleOp module, unsigned lanes)
      : module(module), builder(module.getContext()), lanes(lanes) {
    builder.setInsertionPointToEnd(module.getBody());
    code = ModuleOp::create(builder, module.getLoc(), codeModuleName);
  }

  LogicalResult run() {
    bool ok = true;
    module.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (op == code)
        return WalkResult::skip();
      if (auto kernel = dyn_cast<KernelOp>(op)) {
        if (kernel.getKernelClass() == KernelClass::Generated)
          ok &= succeeded(lowerKernel(kernel));
        return WalkResult::skip();
      }
      if (auto accumulate = dyn_cast<AccumulateOp>(op))
        lowerAccumulate(accumulate);
      if (auto commit = dyn_cast<CommitStatisticsOp>(op))
        lowerCommit(commit);
      return WalkResult::advance();
    });
    if (auto optimizer =
            module.lookupSymbol<func::FuncOp>(optimizerFunctionName))
      ok &= succeeded(lowerOptimizer(optimizer));
    return success(ok);
  }

private:
  /// A function on memrefs that nothing outside calls and that do not overlap.
  func::FuncOp makeFunction(StringRef name, Location loc,
                            ArrayRef<Type> types) {
    builder.setInsertionPointToEnd(code.getBody());
    auto function = func::FuncOp::create(builder, loc, name,
                                         builder.getFunctionType(types, {}));
    for (unsigned index = 0; index < types.size(); ++index) {
      function.setArgAttr(index, LLVM::LLVMDialect::getNoAliasAttrName(),
                          builder.getUnitAttr());
      function.setArgAttr(index, LLVM::LLVMDialect::getNonNullAttrName(),
                          builder.getUnitAttr());
      function.setArgAttr(index, LLVM::LLVMDialect::getAlignAttrName(),
                          builder.getI64IntegerAttr(64));
    }
    builder.setInsertionPointToStart(function.addEntryBlock());
    return function;
  }

  void setCallee(Operation *op, StringRef name) {
    op->setAttr(pipeline::calleeAttrName,
                FlatSymbolRefAttr::get(builder.getContext(), name));
  }

  /// The function for `key`, and whether it must be filled.
  std::string nameFor(StringRef prefix, const std::string &key, bool &isNew) {
    auto [entry, inserted] = names.try_emplace(key);
    isNew = inserted;
    if (inserted)
      entry->second = (prefix + "_" + llvm::Twine(names.size() - 1)).str();
    return entry->second;
  }

  LogicalResult lowerKernel(KernelOp kernel) {
    Block &body = kernel.getBody().front();
    bool isNew;
    std::string name = nameFor("kernel", kernel.getFingerprint(), isNew);
    setCallee(kernel, name);
    if (!isNew)
      return success();
    SmallVector<Value> summands;
    for (auto accumulate : body.getOps<AccumulateOp>())
      summands.push_back(accumulate.getValue());
    return emitBody(kernel, name, body, kernel.getYield().getValues(),
                    summands);
  }

  /// `summands` are added to states.
  LogicalResult emitBody(Operation *op, StringRef name, Block &body,
                         ValueRange results, ValueRange summands = {}) {
    SmallVector<Type> types;
    for (Value summand : summands)
      types.push_back(getMemRefType(summand.getType()));
    for (Value argument : body.getArguments())
      types.push_back(getMemRefType(argument.getType()));
    for (Value result : results)
      types.push_back(getMemRefType(result.getType()));
    func::FuncOp function = makeFunction(name, op->getLoc(), types);
    KernelEmitter emitter(builder, op->getLoc(), lanes);
    unsigned next = 0;
    for (Value summand : summands)
      emitter.bindSum(summand, function.getArgument(next++));
    for (Value argument : body.getArguments())
      emitter.bind(argument, function.getArgument(next++));
    for (Value result : results)
      emitter.bind(result, function.getArgument(next++));
    SmallVector<Value> written(results);
    llvm::append_range(written, summands);
    if (failed(emitter.emit(written)))
      return op->emitError("no code can be generated for this kernel");
    func::ReturnOp::create(builder, op->getLoc());
    return success();
  }

  /// state[i] += value[i].
  void lowerAccumulate(AccumulateOp op) {
    auto tensor = op.getValue().getType();
    auto type =
        MemRefType::get({tensor.getNumElements()}, tensor.getElementType());
    std::string key;
    llvm::raw_string_ostream(key) << "accumulate " << type;
    bool isNew;
    std::string name = nameFor("accumulate", key, isNew);
    setCallee(op, name);
    if (!isNew)
      return;
    func::FuncOp function = makeFunction(name, op.getLoc(), {type, type});
    SmallVector<AffineMap> maps(2, builder.getMultiDimIdentityMap(1));
    linalg::GenericOp::create(
        builder, op.getLoc(), TypeRange(), function.getArgument(1),
        function.getArgument(0), maps, utils::IteratorType::parallel,
        [&](OpBuilder &inner, Location loc, ValueRange x) {
          linalg::YieldOp::create(
              inner, loc, Value(arith::AddFOp::create(inner, loc, x[1], x[0])));
        });
    func::ReturnOp::create(builder, op.getLoc());
  }

  /// What running statistics and sums are multiplied with.
  struct CommitFactors {
    Value kept;     // (1 - momentum)^M, where it is `each`
    Value share;    // 1 / M, or 1 / N
    Value unbiased; // elements / (elements - 1)
  };

  /// At the builder. `samples` is where their number is; null: it is that of
  /// whole micro-batches.
  CommitFactors emitFactors(CommitStatisticsOp op, Type element,
                            Value samples) {
    ImplicitLocOpBuilder b(op.getLoc(), builder);
    auto number = [&](double value) -> Value {
      return arith::ConstantOp::create(b, b.getFloatAttr(element, value));
    };
    // By all uses of a micro-batch.
    double kept = std::pow(1 - op.getMomentum().convertToDouble(),
                           static_cast<double>(op.getUses()));
    double ofMicrobatch = static_cast<double>(op.getElements());
    if (!samples) {
      double count = static_cast<double>(op.getMicrobatches());
      double elements = count * ofMicrobatch;
      return {number(std::pow(kept, count)), number(1 / count),
              number(elements > 1 ? elements / (elements - 1) : 1)};
    }
    auto whole = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
    };
    auto real = [&](Value count) -> Value {
      return arith::SIToFPOp::create(b, element, count);
    };
    auto batch = static_cast<int64_t>(*op.getSamples());
    Value n = memref::LoadOp::create(b, samples, ValueRange());
    Value power;
    if (op.getEach()) {
      Value last = arith::DivSIOp::create(
          b, arith::SubIOp::create(b, n, whole(1)), whole(batch));
      Value count = arith::AddFOp::create(b, real(last), number(1));
      power =
          kept > 0 ? emitPower(b, b.getLoc(), number(kept), count) : number(0);
    }
    Value elements = arith::MulFOp::create(
        b, real(n), number(ofMicrobatch / static_cast<double>(batch)));
    Value less = arith::MaximumFOp::create(
        b, arith::SubFOp::create(b, elements, number(1)), number(1));
    return {power, arith::DivFOp::create(b, number(1), real(n)),
            arith::DivFOp::create(b, elements, less)};
  }

  /// mean, variance, mean_sum, square_sum, per channel, and how many samples
  /// there are where that may change; see the op.
  void lowerCommit(CommitStatisticsOp op) {
    auto global = module.lookupSymbol<ml_program::GlobalOp>(op.getMean());
    auto tensor = cast<RankedTensorType>(global.getType());
    auto type = getMemRefType(tensor);
    std::string key;
    llvm::raw_string_ostream(key)
        << "commit " << type << " " << op.getMomentumAttr() << " "
        << op.getMicrobatches() << " " << op.getElements() << " "
        << op.getSamples().value_or(0) << " " << op.getEach() << " "
        << op.getUses();
    bool isNew;
    std::string name = nameFor("commit", key, isNew);
    setCallee(op, name);
    if (!isNew)
      return;
    SmallVector<Type> types(4, type);
    if (op.getSamples())
      types.push_back(MemRefType::get({}, builder.getI32Type()));
    func::FuncOp function = makeFunction(name, op.getLoc(), types);
    double momentum = op.getMomentum().convertToDouble();
    CommitFactors factors =
        emitFactors(op, tensor.getElementType(),
                    op.getSamples() ? Value(function.getArgument(4)) : Value());
    SmallVector<AffineMap> maps(4, builder.getMultiDimIdentityMap(1));
    linalg::GenericOp::create(
        builder, op.getLoc(), TypeRange(),
        ValueRange{function.getArgument(2), function.getArgument(3)},
        ValueRange{function.getArgument(0), function.getArgument(1)}, maps,
        utils::IteratorType::parallel,
        [&](OpBuilder &b, Location loc, ValueRange x) {
          Type element = tensor.getElementType();
          auto constant = [&](double value) -> Value {
            return arith::ConstantOp::create(b, loc,
                                             b.getFloatAttr(element, value));
          };
          auto mul = [&](Value l, Value r) -> Value {
            return arith::MulFOp::create(b, loc, l, r);
          };
          auto sub = [&](Value l, Value r) -> Value {
            return arith::SubFOp::create(b, loc, l, r);
          };
          if (op.getEach()) {
            auto next = [&](Value old, Value sum) -> Value {
              return arith::AddFOp::create(b, loc, mul(old, factors.kept), sum);
            };
            linalg::YieldOp::create(
                b, loc, ValueRange{next(x[2], x[0]), next(x[3], x[1])});
            return;
          }
          Value mean = mul(x[0], factors.share);
          Value variance = sub(mul(x[1], factors.share), mul(mean, mean));
          auto move = [&](Value old, Value next) -> Value {
            return arith::AddFOp::create(
                b, loc, old, mul(constant(momentum), sub(next, old)));
          };
          linalg::YieldOp::create(
              b, loc,
              ValueRange{move(x[2], mean),
                         move(x[3], mul(variance, factors.unbiased))});
        });
    func::ReturnOp::create(builder, op.getLoc());
  }

  LogicalResult lowerOptimizer(func::FuncOp optimizer) {
    Block &body = optimizer.getBody().front();
    return emitBody(optimizer, optimizerBlockFunctionName, body,
                    body.getTerminator()->getOperands());
  }

  ModuleOp module;
  ModuleOp code;
  OpBuilder builder;
  unsigned lanes;
  std::map<std::string, std::string> names;
};

struct LowerKernels : pp::impl::LowerKernelsBase<LowerKernels> {
  using LowerKernelsBase::LowerKernelsBase;

  void runOnOperation() override {
    if (getOperation().lookupSymbol(codeModuleName)) {
      getOperation().emitError("has a module @code already");
      return signalPassFailure();
    }
    if (failed(KernelLowering(getOperation(), lanes).run()))
      signalPassFailure();
  }
};

} // namespace
