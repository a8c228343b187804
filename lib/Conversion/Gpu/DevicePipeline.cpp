//===- DevicePipeline.cpp - From loops in threads to NVVM -----------------===//

#include "pp/Conversion/Passes.h"

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void pp::buildDevicePipeline(OpPassManager &program) {
  OpPassManager &pm = program.nest<gpu::GPUModuleOp>();
  // As on the processor: the same polynomials, and no need of libdevice.
  math::MathExpandOpsPassOptions expand;
  expand.opMnemonics = {"sinh",  "cosh",  "tan",  "asinh",
                        "acosh", "atanh", "powf", "exp2"};
  pm.addPass(math::createMathExpandOpsPass(expand));
  pm.addPass(createApproximateMath());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createLoopInvariantCodeMotionPass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  pm.addPass(createConvertDevice());
  pm.addPass(createReconcileUnrealizedCastsPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}
