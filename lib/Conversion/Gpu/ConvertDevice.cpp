//===- ConvertDevice.cpp - Kernels of a GPU to the LLVM dialect -----------===//
//
// The upstream pass convert-gpu-to-nvvm turns functions such as floor and fma
// into calls of libdevice, which is a part of the CUDA toolkit. LLVM has
// instructions for all that are left after pp-approximate-math, so this pass
// takes the upstream patterns without those.
//
//===----------------------------------------------------------------------===//

#include "pp/Conversion/Passes.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Transforms/DialectConversion.h"

namespace pp {
#define GEN_PASS_DEF_CONVERTDEVICE
#include "pp/Conversion/Passes.h.inc"
} // namespace pp

using namespace mlir;

namespace {

struct ConvertDevice : pp::impl::ConvertDeviceBase<ConvertDevice> {
  void runOnOperation() override {
    gpu::GPUModuleOp module = getOperation();
    LowerToLLVMOptions options(&getContext());
    options.useBarePtrCallConv = true;
    LLVMTypeConverter converter(&getContext(), options);
    configureGpuToNVVMTypeConverter(converter);

    RewritePatternSet patterns(&getContext());
    arith::populateArithToLLVMConversionPatterns(converter, patterns);
    cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
    index::populateIndexToLLVMConversionPatterns(converter, patterns);
    populateFinalizeMemRefToLLVMConversionPatterns(converter, patterns);
    ub::populateUBToLLVMConversionPatterns(converter, patterns);
    populateVectorToLLVMConversionPatterns(
        converter, patterns, /*reassociateFPReductions=*/false,
        /*force32BitVectorIndices=*/false, /*useVectorAlignment=*/true);
    populateGpuToNVVMConversionPatterns(converter, patterns);
    populateMathToLLVMConversionPatterns(converter, patterns,
                                         /*approximateLog1p=*/true,
                                         /*benefit=*/10);

    LLVMConversionTarget target(getContext());
    target.addLegalDialect<NVVM::NVVMDialect>();
    target.addIllegalDialect<gpu::GPUDialect>();
    target.addLegalOp<gpu::GPUModuleOp>();
    if (failed(applyPartialConversion(module, target, std::move(patterns))))
      return signalPassFailure();
    alignSharedMemory(module);
  }

  /// Says how shared memory is aligned. LLVM's passes take for granted that an
  /// array of more than 16 bytes is aligned to 16, and join its loads; NVPTX's
  /// printer gives one that says nothing the alignment of its elements.
  static void alignSharedMemory(gpu::GPUModuleOp module) {
    for (auto global : module.getOps<LLVM::GlobalOp>())
      if (global.getAddrSpace() == NVVM::NVVMMemorySpace::Shared &&
          !global.getAlignment())
        global.setAlignment(16);
  }
};

} // namespace
