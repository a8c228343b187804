//===- WidenBooleans.cpp - Booleans in memory as bytes --------------------===//

#include "pp/Conversion/Passes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace pp {
#define GEN_PASS_DEF_WIDENBOOLEANS
#include "pp/Conversion/Passes.h.inc"
} // namespace pp

using namespace mlir;

namespace {

struct WidenBooleans : pp::impl::WidenBooleansBase<WidenBooleans> {
  void runOnOperation() override {
    getOperation()->walk([](Operation *op) {
      OpBuilder builder(op);
      Type byte = builder.getI8Type();
      if (auto load = dyn_cast<LLVM::LoadOp>(op)) {
        if (!load.getType().isInteger(1))
          return;
        load.getResult().setType(byte);
        builder.setInsertionPointAfter(load);
        Value zero = LLVM::ConstantOp::create(builder, load.getLoc(), byte, 0);
        auto isSet = LLVM::ICmpOp::create(builder, load.getLoc(),
                                          LLVM::ICmpPredicate::ne, load, zero);
        load.getResult().replaceAllUsesExcept(isSet, isSet);
      } else if (auto store = dyn_cast<LLVM::StoreOp>(op)) {
        if (!store.getValue().getType().isInteger(1))
          return;
        Value wide = LLVM::ZExtOp::create(builder, store.getLoc(), byte,
                                          store.getValue());
        store.getValueMutable().assign(wide);
      }
    });
  }
};

} // namespace
