//===- MakeLaunches.cpp - GPU kernels of generated kernels ----------------===//

#include "LaunchBuilder.h"
#include "plan/ParameterScalars.h"
#include "pp/Conversion/Passes.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/PP/IR/PP.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace pp {
#define GEN_PASS_DEF_MAKELAUNCHES
#include "pp/Conversion/Passes.h.inc"
} // namespace pp

using namespace mlir;
using namespace pp;

namespace {

/// `launch name=kernel_3 grids=12x1 blocks=256x32 tensors=4`: the kernels
/// kernel_3_0 and kernel_3_1, with four tensors and the scratchpad each.
/// `gridsKey`: what the grids of launches are called.
std::string describe(StringRef name, StringRef gridsKey,
                     ArrayRef<Launch> launches, unsigned tensors) {
  std::string grids, blocks;
  for (const Launch &launch : launches) {
    StringRef separator = grids.empty() ? "" : "x";
    grids += (separator + llvm::Twine(launch.grid)).str();
    blocks += (separator + llvm::Twine(launch.block)).str();
  }
  if (launches.empty())
    return ("launch name=" + name + " tensors=" + llvm::Twine(tensors)).str();
  return ("launch name=" + name + " " + gridsKey + "=" + grids +
          " blocks=" + blocks + " tensors=" + llvm::Twine(tensors))
      .str();
}

/// Of the functions that are not instructions of a GPU, only those of 32 bits
/// have polynomials.
LogicalResult checkFunctions(ModuleOp code) {
  bool ok = true;
  code.walk([&](Operation *op) {
    if (!isa_and_nonnull<math::MathDialect>(op->getDialect()) ||
        isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::FloorOp,
            math::FmaOp, math::RoundEvenOp, math::RsqrtOp, math::SqrtOp>(op) ||
        !op->getResult(0).getType().isF64())
      return;
    op->emitError("no kernel of a GPU can compute ")
        << op->getName().stripDialect() << " of f64; use f32";
    ok = false;
  });
  return success(ok);
}

struct MakeLaunches : pp::impl::MakeLaunchesBase<MakeLaunches> {
  void runOnOperation() override {
    ModuleOp program = getOperation();
    auto code = program.lookupSymbol<ModuleOp>(codeModuleName);
    if (!code) {
      program.emitError("has no module @code; run nn-lower-kernels first");
      return signalPassFailure();
    }
    if (program.lookupSymbol(deviceModuleName)) {
      program.emitError("has a module @device already");
      return signalPassFailure();
    }
    if (failed(checkFunctions(code)))
      return signalPassFailure();
    OpBuilder builder(code);
    auto device =
        gpu::GPUModuleOp::create(builder, code.getLoc(), deviceModuleName);
    llvm::StringMap<std::pair<StringAttr, int64_t>> descriptors;
    bool ok = true;
    for (auto function :
         llvm::make_early_inc_range(code.getOps<func::FuncOp>())) {
      LaunchBuilder launches(function, device);
      if (function.getName() == "optimizer_block") {
        ok &= succeeded(makeOptimizer(program, function, launches));
        continue;
      }
      ok &= succeeded(launches.run());
      std::string text =
          describe(function.getName(), "grids", launches.getLaunches(),
                   function.getNumArguments());
      descriptors[function.getName()] = {builder.getStringAttr(text),
                                         launches.getScratchBytes()};
    }
    if (!ok)
      return signalPassFailure();
    program.walk([&](Operation *op) {
      auto callee =
          op->getAttrOfType<FlatSymbolRefAttr>(pipeline::calleeAttrName);
      if (!callee)
        return;
      auto &[descriptor, scratch] = descriptors[callee.getValue()];
      op->removeAttr(pipeline::calleeAttrName);
      op->setAttr(pipeline::launchAttrName, descriptor);
      op->setAttr(pipeline::launchScratchpadAttrName,
                  builder.getI64IntegerAttr(scratch));
    });
    for (auto function :
         llvm::make_early_inc_range(code.getOps<func::FuncOp>()))
      function.erase();
  }

  LogicalResult makeOptimizer(ModuleOp program, func::FuncOp function,
                              LaunchBuilder &launches) {
    auto source = program.lookupSymbol<func::FuncOp>(nn::optimizerFunctionName);
    auto description = source ? source->getAttrOfType<step::OptimizerAttr>(
                                    step::optimizerAttrName)
                              : step::OptimizerAttr();
    if (!description)
      return program.emitError("has code of an optimizer, but no optimizer; "
                               "run nn-attach-optimizer first");
    if (description.findScalar(runtime::directionName))
      return source.emitError("no kernel of a GPU makes the directions of '")
             << description.getKind().getValue() << "'";
    function.setName("optimizer");
    if (failed(launches.runOptimizer(description)))
      return failure();
    // Parameters, gradients, states, scalars. The number of parameters, which
    // depends on the stage, follows.
    std::string text = describe("optimizer", "elements", launches.getLaunches(),
                                /*tensors=*/4);
    program->setAttr(pipeline::optimizerLaunchAttrName,
                     StringAttr::get(program.getContext(), text));
    return success();
  }
};

} // namespace
