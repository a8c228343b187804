//===- VerifyMemory.cpp - What lowering and the plan rely on --------------===//

#include "ScheduleIO.h"
#include "StepGraph.h"
#include "pp/Dialect/PP/Transforms/Passes.h"
#include "pp/Interfaces/CostOpInterface.h"

namespace pp::pipeline {
#define GEN_PASS_DEF_VERIFYMEMORY
#include "pp/Dialect/PP/Transforms/Passes.h.inc"
} // namespace pp::pipeline

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

namespace {

/// Checks the places of one phase of a stage.
class PlaceVerifier {
public:
  PlaceVerifier(StageOp stage, MemoryOp memory) : stage(stage), memory(memory) {
    for (auto source : stage.getSourcesAttr().getAsRange<EndAttr>())
      inputs += source.isHanded();
    for (unsigned result = 0; result < stage.getNumResults(); ++result)
      outputs += static_cast<int64_t>(stage.getTargetsOf(result).size());
  }

  LogicalResult run() {
    for (auto [argument, buffer] : llvm::zip_equal(
             stage.getBody().getArguments(),
             stage.getArgumentBuffersAttr().getAsRange<BufferAttr>()))
      if (failed(check(stage, buffer, getTensorBytes(argument.getType()))))
        return failure();
    for (auto copy : stage.getCopiesAttr().getAsRange<CopyAttr>()) {
      Value value = stage.getReturn().getValues()[copy.getResult()];
      if (failed(check(stage, copy.getTo(), getTensorBytes(value.getType()))) ||
          failed(checkKernel(stage, copy.getKernel())))
        return failure();
    }
    for (Operation &op : stage.getBody().front().without_terminator())
      if (failed(checkOperation(&op)))
        return failure();
    return success();
  }

private:
  LogicalResult checkOperation(Operation *op) {
    auto buffers = op->getAttrOfType<ArrayAttr>(buffersAttrName);
    if (!buffers || buffers.size() != op->getNumResults())
      return op->emitOpError("has no buffers; run pp-plan-memory first");
    for (auto [result, buffer] :
         llvm::zip(op->getResults(), buffers.getAsRange<BufferAttr>()))
      if (failed(check(op, buffer, getTensorBytes(result.getType()))))
        return failure();
    if (failed(checkGradients(op)))
      return failure();
    if (auto states = op->getAttrOfType<ArrayAttr>(stateBuffersAttrName))
      for (auto state : states.getAsRange<BufferAttr>())
        if (failed(check(op, state, 0)))
          return failure();
    if (auto scratchpad = op->getAttrOfType<BufferAttr>(scratchpadAttrName))
      if (failed(check(op, scratchpad, 0)))
        return failure();
    for (StringRef name : {libraryAttrName, firstLibraryAttrName})
      if (auto number = op->getAttrOfType<IntegerAttr>(name);
          number && failed(checkKernel(op, number.getInt())))
        return failure();
    return success();
  }

  /// Where nobody clears gradients, only B and W may add to them.
  LogicalResult checkGradients(Operation *op) {
    auto kernel = dyn_cast<KernelOpInterface>(op);
    auto stage = op->getParentOfType<StageOp>();
    if (!kernel || !memory.getWritesGradients() || isBackward(stage.getPhase()))
      return success();
    for (const StateReference &state : kernel.getUpdatedStates())
      if (state.kind == StateKind::Gradient)
        return op->emitOpError() << "adds to the gradient of " << state.symbol
                                 << " outside of B and W, in a stage whose "
                                    "memory says that these "
                                    "write gradients";
    return success();
  }

  LogicalResult checkKernel(Operation *op, std::optional<int64_t> number) {
    auto count = static_cast<int64_t>(memory.getKernels().size());
    if (!number || (*number >= 0 && *number < count))
      return success();
    return op->emitOpError() << "names kernel " << *number
                             << " of its stage, which has " << count;
  }

  /// The bytes that a phase may use of an area; of inputs and outputs their
  /// number.
  int64_t sizeOf(Area area) {
    switch (area) {
    case Area::Parameters:
      return memory.getArea(MemoryArea::Parameters).getBytes();
    case Area::Buffers:
      return memory.getArea(MemoryArea::Buffers).getBytes();
    case Area::Gradients:
      return memory.getArea(MemoryArea::Gradients).getBytes();
    case Area::Statistics:
      return memory.getArea(MemoryArea::Statistics).getBytes();
    case Area::Residuals:
      return static_cast<int64_t>(memory.getSlotBytes());
    case Area::Scratch:
      return memory.getArea(MemoryArea::Scratch).getBytes();
    case Area::Prepared:
      return memory.getArea(MemoryArea::Prepared).getBytes();
    case Area::Input:
      return inputs;
    case Area::Output:
      return outputs;
    }
    llvm_unreachable("unknown area");
  }

  LogicalResult check(Operation *op, BufferAttr buffer, int64_t bytes) {
    Area area = buffer.getArea();
    bool isNumber = area == Area::Input || area == Area::Output;
    int64_t size = sizeOf(area), offset = buffer.getOffset();
    if (offset >= 0 && offset <= size &&
        (isNumber ? 1 : bytes) <= size - offset)
      return success();
    return op->emitOpError() << "has a value at " << buffer
                             << ", which ends outside of an area of " << size;
  }

  StageOp stage;
  MemoryOp memory;
  int64_t inputs = 0, outputs = 0;
};

struct VerifyMemory : pipeline::impl::VerifyMemoryBase<VerifyMemory> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    func::FuncOp function = findStep(getOperation());
    ScheduleOp schedule =
        function ? findSchedule(getOperation()) : ScheduleOp();
    if (!schedule || failed(verifyMemories(function)) ||
        failed(verifySlots(schedule)))
      return signalPassFailure();
    auto places = function.walk([&](StageOp stage) -> WalkResult {
      if (!stage.getSources() || !stage.getArgumentBuffers() ||
          !stage.getCopies())
        return stage.emitOpError(
            "has no memory plan; run pp-plan-memory first");
      return PlaceVerifier(stage, memories[stage.getStage()]).run();
    });
    if (places.wasInterrupted())
      signalPassFailure();
  }

  /// One for each stage.
  LogicalResult verifyMemories(func::FuncOp function) {
    int64_t stages = countStages(function);
    memories.assign(stages, nullptr);
    for (auto memory : getOperation().getOps<MemoryOp>()) {
      auto stage = static_cast<int64_t>(memory.getStage());
      if (stage >= stages || memories[stage])
        return memory.emitOpError()
               << "is for stage " << stage
               << (stage < stages ? " a second time"
                                  : ", which the step does not have");
      memories[stage] = memory;
    }
    for (auto [stage, memory] : llvm::enumerate(memories))
      if (!memory)
        return function.emitError() << "has no pp.memory for stage " << stage
                                    << "; run pp-plan-memory first";
    return success();
  }

  LogicalResult verifySlots(ScheduleOp schedule) {
    for (auto channel : getOperation().getOps<ChannelOp>())
      if (!channel.isPlaced())
        return channel.emitOpError() << "'" << channel.getSymName()
                                     << "' has no slots; run pp-plan-memory "
                                        "first";
    for (auto rank : schedule.getRanks().getAsRange<ArrayAttr>())
      for (auto action : rank.getAsRange<ActionAttr>()) {
        if (action.getStage() >= static_cast<int>(memories.size()))
          return schedule.emitOpError()
                 << "has the action '" << toString(action.getText())
                 << "', but only " << memories.size() << " stages";
        bool needsSlot = !schedule.getVersions() &&
                         action.getMicrobatch() >= 0 &&
                         !isTransfer(action.getKind());
        auto slots =
            std::max<int64_t>(1, memories[action.getStage()].getSlots());
        if (needsSlot && (!action.getSlot() || *action.getSlot() >= slots))
          return schedule.emitOpError()
                 << "has the action '" << toString(action.getText())
                 << "' without one of the " << slots << " slots of its stage";
      }
    return success();
  }

  SmallVector<MemoryOp> memories;
};

} // namespace
