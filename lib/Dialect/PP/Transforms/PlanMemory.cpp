//===- PlanMemory.cpp - Give every value a place --------------------------===//
//
//   one allocation of a stage
//   | parameters | gradients | optimizer | buffers | statistics |
//   | residuals: slot 0, slot 1, ... | scratch | channels: slots | discard |
//   | loss | exchange, between replicas |
//
// Values of a stage's phase go to
//   residuals  if a later phase of the stage reads them (a fixed offset in the
//              micro-batch's slot),
//   output k   if they leave the stage (a slot of a channel, a fetch, the
//   loss), scratch    otherwise, packed by lifetime: two values share bytes if
//   no
//              operation needs both.
//
//===----------------------------------------------------------------------===//

#include "IntervalPacker.h"
#include "LibraryScratchpad.h"
#include "ScheduleIO.h"
#include "StepGraph.h"
#include "pp/Dialect/PP/Transforms/Passes.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pp/Planner/Schedule/Slots.h"
#include "pprt/pprt.h"

#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

namespace pp::pipeline {
#define GEN_PASS_DEF_PLANMEMORY
#include "pp/Dialect/PP/Transforms/Passes.h.inc"
} // namespace pp::pipeline

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

static int64_t aligned(int64_t bytes) {
  return llvm::alignTo(bytes, PP_ALIGNMENT);
}

namespace {

/// Consecutive places in an area.
struct Layout {
  int64_t bytes = 0;

  int64_t take(int64_t size) {
    int64_t offset = bytes;
    bytes += aligned(size);
    return offset;
  }
};

/// What is known of one stage while its memory is planned.
struct StagePlan {
  int64_t number = 0;
  SmallVector<StageOp> phases;
  Layout parameters, buffers, statistics, residuals, channels, discard;
  int64_t scratch = 0;
  bool computesLoss = false;
  llvm::MapVector<StringAttr, int64_t> parameterOffsets, bufferOffsets,
      statisticsOffsets;
  DenseMap<Value, int64_t> residualOffsets;
  /// Library kernels by descriptor, with their scratchpads.
  llvm::MapVector<StringAttr, int64_t> library;
  SmallVector<int64_t> discardOffsets;
};

class MemoryPlanner {
public:
  MemoryPlanner(ModuleOp module, func::FuncOp step, ScheduleOp schedule)
      : module(module), symbols(module), step(step), scheduleOp(schedule),
        builder(module.getContext()) {}

  LogicalResult run() {
    crossings = findCrossings(step);
    auto schedule = readSchedule(scheduleOp, toChannels(crossings));
    if (failed(schedule))
      return failure();
    slots = planner::assignSlots(*schedule);
    setSlots(*schedule);

    stages.resize(countStages(step));
    for (auto [number, stage] : llvm::enumerate(stages))
      stage.number = number;
    step.walk([&](StageOp op) { stages[op.getStage()].phases.push_back(op); });
    for (auto function : module.getOps<func::FuncOp>())
      if (auto description =
              function->getAttrOfType<DictionaryAttr>(optimizerAttrName)) {
        optimizerStates = cast<ArrayAttr>(description.get("states")).size();
        optimizerScalars = cast<ArrayAttr>(description.get("scalars"));
      }
    for (unsigned index = 0; index < step.getNumArguments(); ++index)
      hasLossScale |= isLossScale(index);
    for (StagePlan &stage : stages)
      if (failed(planStage(stage)))
        return failure();
    return success();
  }

private:
  //===--------------------------------------------------------------------===//
  // Slots
  //===--------------------------------------------------------------------===//

  void setSlots(const planner::Schedule &schedule) {
    auto channels = llvm::to_vector(module.getOps<ChannelOp>());
    static constexpr StringLiteral names[] = {"F", "R",    "I",    "W",
                                              "B", "SEND", "RECV", "U"};
    for (auto [op, assigned] : llvm::zip(channels, slots.channels)) {
      op.setSendSlots(
          SmallVector<int64_t>(assigned.send.begin(), assigned.send.end()));
      op.setReceiveSlots(SmallVector<int64_t>(assigned.receive.begin(),
                                              assigned.receive.end()));
      op.setRelease(names[static_cast<int>(assigned.release)]);
    }
    SmallVector<Attribute> ranks;
    for (const auto &rank : schedule.ranks) {
      SmallVector<Attribute> numbers;
      for (const planner::Action &action : rank) {
        int64_t slot = -1;
        if (action.microbatch >= 0 && !action.isTransfer()) {
          const planner::StageSlots &own = slots.stages[action.stage];
          bool isForward = action.kind == planner::ActionKind::Forward;
          const auto &list = isForward ? own.forward : own.backward;
          slot = own.count == 0 ? 0 : list[action.microbatch];
        }
        numbers.push_back(builder.getI64IntegerAttr(slot));
      }
      ranks.push_back(builder.getArrayAttr(numbers));
    }
    scheduleOp.setSlotsAttr(builder.getArrayAttr(ranks));
  }

  //===--------------------------------------------------------------------===//
  // One stage
  //===--------------------------------------------------------------------===//

  LogicalResult planStage(StagePlan &stage) {
    for (StageOp phase : stage.phases)
      if (failed(placeSymbols(stage, phase)))
        return failure();
    placeResiduals(stage);
    for (StageOp phase : stage.phases)
      if (failed(planPhase(stage, phase)))
        return failure();
    placeChannels(stage);
    writeMemory(stage);
    return success();
  }

  StringAttr symbolName(FlatSymbolRefAttr symbol) { return symbol.getAttr(); }

  /// A trained parameter whose gradient the stage adds up; everything else
  /// that the stage reads is a buffer.
  LogicalResult placeSymbols(StagePlan &stage, StageOp phase) {
    for (StageOp other : stage.phases)
      for (Operation &op : other.getBody().front().without_terminator())
        for (StateReference state : statesOf(&op))
          if (state.kind == StateKind::Gradient)
            trainedHere.insert({stage.number, symbolName(state.symbol)});
    for (Operation &op : phase.getBody().front().without_terminator()) {
      auto kernel = dyn_cast<KernelOpInterface>(op);
      if (!kernel)
        return op.emitOpError("is not known as part of a stage");
      if (FlatSymbolRefAttr symbol = kernel.getParameter())
        placeValue(stage, symbolName(symbol),
                   getTensorBytes(op.getResult(0).getType()));
      for (StateReference state : kernel.getUpdatedStates()) {
        StringAttr name = symbolName(state.symbol);
        auto global = symbols.lookup<ml_program::GlobalOp>(name);
        int64_t bytes = getTensorBytes(global.getType());
        if (state.kind == StateKind::Statistics) {
          if (scheduleOp.getReplicas() > 1 &&
              !cast<ShapedType>(global.getType()).getElementType().isF32())
            return op.emitOpError()
                   << "updates '" << name.getValue()
                   << "', but replicas add up statistics of f32 only";
          if (!stage.statisticsOffsets.count(name))
            stage.statisticsOffsets[name] = stage.statistics.take(bytes);
          continue;
        }
        placeValue(stage, name, bytes);
      }
      if (ElementsAttr constant = constantOf(&op))
        placeConstant(stage, &op, constant);
    }
    return success();
  }

  static SmallVector<StateReference> statesOf(Operation *op) {
    auto kernel = dyn_cast<KernelOpInterface>(op);
    return kernel ? kernel.getUpdatedStates() : SmallVector<StateReference>();
  }

  void placeValue(StagePlan &stage, StringAttr name, int64_t bytes) {
    bool trained = trainedHere.contains({stage.number, name});
    auto &offsets = trained ? stage.parameterOffsets : stage.bufferOffsets;
    if (!offsets.count(name))
      offsets[name] = (trained ? stage.parameters : stage.buffers).take(bytes);
  }

  /// The value of a constant that is not part of the code.
  static ElementsAttr constantOf(Operation *op) {
    ElementsAttr value;
    if (op->hasTrait<OpTrait::ConstantLike>() && op->getNumOperands() == 0)
      (void)matchPattern(op->getResult(0), m_Constant(&value));
    return value;
  }

  /// Constants become buffers with a name of their own; equal ones share.
  void placeConstant(StagePlan &stage, Operation *op, ElementsAttr value) {
    StringAttr &name = constantNames[value];
    if (!name) {
      name = builder.getStringAttr("constant" +
                                   std::to_string(constantNames.size() - 1));
      OpBuilder globals(step);
      ml_program::GlobalOp::create(globals, op->getLoc(), name, value.getType(),
                                   false, value,
                                   builder.getStringAttr("private"));
    }
    placeValue(stage, name, getTensorBytes(value.getType()));
  }

  /// Values that a later phase of the same stage reads.
  void placeResiduals(StagePlan &stage) {
    for (StageOp phase : stage.phases)
      for (Value input : phase.getInputs()) {
        auto producer = input.getDefiningOp<StageOp>();
        if (producer && producer.getStage() == phase.getStage() &&
            !stage.residualOffsets.count(input))
          stage.residualOffsets[input] =
              stage.residuals.take(getTensorBytes(input.getType()));
      }
  }

  /// Where a value that leaves the phase goes, in the order of the plan's
  /// outputs.
  struct Output {
    Attribute description;
    int64_t bytes;
  };

  LogicalResult planPhase(StagePlan &stage, StageOp phase) {
    Block &body = phase.getBody().front();
    DenseMap<Value, BufferAttr> places;
    SmallVector<Attribute> inputs, argumentBuffers, outputs, copies;

    for (auto [argument, input] :
         llvm::zip(body.getArguments(), phase.getInputs())) {
      BufferAttr buffer = placeInput(stage, phase, input, inputs);
      places[argument] = buffer;
      argumentBuffers.push_back(buffer);
    }
    SmallVector<int64_t> outputBytes;
    for (auto [index, value] : llvm::enumerate(phase.getReturn().getValues()))
      placeOutputs(stage, phase, index, value, places, outputs, outputBytes,
                   copies);
    if (failed(placeLocals(stage, phase, places)))
      return failure();
    if (phase.getPhase() == Phase::Forward) {
      stage.discard = Layout();
      stage.discardOffsets.clear();
      for (int64_t bytes : outputBytes)
        stage.discardOffsets.push_back(stage.discard.take(bytes));
    }
    phase->setAttr("pp.argument_buffers",
                   builder.getArrayAttr(argumentBuffers));
    // A GPU copies with a kernel of the device.
    if (isGpuTarget(module))
      for (Attribute &copy : copies) {
        auto entries = llvm::to_vector(cast<ArrayAttr>(copy));
        unsigned index = cast<IntegerAttr>(entries[0]).getInt();
        int64_t bytes =
            getTensorBytes(phase.getReturn().getValues()[index].getType());
        entries.push_back(
            addKernel(stage, ("copy bytes=" + llvm::Twine(bytes)).str(), 0));
        copy = builder.getArrayAttr(entries);
      }
    phase->setAttr("pp.copies", builder.getArrayAttr(copies));
    phase->setAttr("pp.inputs", builder.getArrayAttr(inputs));
    phase->setAttr("pp.outputs", builder.getArrayAttr(outputs));
    return success();
  }

  Attribute entry(StringRef kind, int64_t number) {
    return builder.getDictionaryAttr(
        builder.getNamedAttr(kind, builder.getI64IntegerAttr(number)));
  }

  BufferAttr buffer(Area area, int64_t offset) {
    return BufferAttr::get(module.getContext(), area, offset);
  }

  bool isLossScale(unsigned argument) {
    auto role = step.getArgAttrOfType<StringAttr>(argument, roleAttrName);
    return role && role.getValue() == lossScaleRole;
  }

  BufferAttr placeInput(StagePlan &stage, StageOp phase, Value input,
                        SmallVectorImpl<Attribute> &inputs) {
    auto residual = stage.residualOffsets.find(input);
    if (residual != stage.residualOffsets.end())
      return buffer(Area::Residuals, residual->second);
    Value source = throughPortals(input);
    if (auto feed = dyn_cast<BlockArgument>(source)) {
      inputs.push_back(isLossScale(feed.getArgNumber())
                           ? builder.getDictionaryAttr(builder.getNamedAttr(
                                 "loss_scale", builder.getBoolAttr(true)))
                           : entry("feed", feed.getArgNumber()));
    } else {
      for (auto [index, crossing] : llvm::enumerate(crossings))
        if (crossing.value() == source &&
            crossing.to == static_cast<int64_t>(phase.getStage()))
          inputs.push_back(entry("channel", index));
    }
    return buffer(Area::Input, inputs.size() - 1);
  }

  void placeOutputs(StagePlan &stage, StageOp phase, size_t index, Value value,
                    DenseMap<Value, BufferAttr> &places,
                    SmallVectorImpl<Attribute> &outputs,
                    SmallVectorImpl<int64_t> &outputBytes,
                    SmallVectorImpl<Attribute> &copies) {
    Value result = phase.getOutputs()[index];
    int64_t bytes = getTensorBytes(value.getType());
    SmallVector<BufferAttr> destinations;
    auto residual = stage.residualOffsets.find(result);
    if (residual != stage.residualOffsets.end())
      destinations.push_back(buffer(Area::Residuals, residual->second));
    auto leave = [&](Attribute description) {
      destinations.push_back(buffer(Area::Output, outputs.size()));
      outputs.push_back(description);
      outputBytes.push_back(bytes);
    };
    for (auto [number, crossing] : llvm::enumerate(crossings))
      if (crossing.value() == result)
        leave(entry("channel", number));
    Operation *terminator = step.getBody().front().getTerminator();
    for (auto [number, returned] : llvm::enumerate(terminator->getOperands())) {
      if (lookThroughViews(returned) != result)
        continue;
      auto name = step.getResultAttrOfType<StringAttr>(number, fetchAttrName);
      if (name && name.getValue() == "loss" && isTraining(step)) {
        leave(builder.getDictionaryAttr(
            builder.getNamedAttr("loss", builder.getBoolAttr(true))));
        stage.computesLoss = true;
      } else {
        leave(entry("fetch", number));
      }
    }
    // A value is computed in its first place, if nothing else decided that
    // before, and copied to the others.
    Value root = lookThroughViews(value);
    Operation *maker = root.getDefiningOp();
    bool isMade = maker && isKernel(maker) && !places.count(root);
    for (auto [number, destination] : llvm::enumerate(destinations)) {
      if (number == 0 && isMade)
        places[root] = destination;
      else
        copies.push_back(builder.getArrayAttr(
            {builder.getI64IntegerAttr(index), destination}));
    }
  }

  /// Views, parameters and everything that lives only in this phase.
  LogicalResult placeLocals(StagePlan &stage, StageOp phase,
                            DenseMap<Value, BufferAttr> &places) {
    Block &body = phase.getBody().front();
    DenseMap<Operation *, size_t> order;
    for (Operation &op : body)
      order[&op] = order.size();
    // The last operation that reads a value, also through views.
    auto lastUse = [&](auto &self, Value value) -> size_t {
      size_t last = value.getDefiningOp() ? order[value.getDefiningOp()] : 0;
      for (Operation *user : value.getUsers())
        last = std::max(last, isView(user) ? self(self, user->getResult(0))
                                           : order[user]);
      return last;
    };

    IntervalPacker packer;
    SmallVector<std::pair<Value, size_t>> locals;
    SmallVector<std::pair<Operation *, size_t>> scratchpads;
    for (Operation &op : body.without_terminator()) {
      auto kernel = cast<KernelOpInterface>(op);
      if (isView(&op))
        continue;
      for (Value result : op.getResults())
        if (!places.count(result))
          locals.push_back(
              {result, packer.add(aligned(getTensorBytes(result.getType())),
                                  order[&op], lastUse(lastUse, result))});
      auto launch = op.getAttrOfType<StringAttr>(launchAttrName);
      if (!launch && kernel.getKernelClass() != KernelClass::Library)
        continue;
      FailureOr<int64_t> bytes;
      if (launch)
        bytes =
            op.getAttrOfType<IntegerAttr>(launchScratchpadAttrName).getInt();
      else
        bytes = getScratchpadBytes(&op, kernel.getLibraryDescriptor());
      if (failed(bytes))
        return failure();
      op.setAttr("pp.library", addKernel(stage,
                                         launch ? launch.str()
                                                : kernel.getLibraryDescriptor(),
                                         *bytes));
      scratchpads.push_back(
          {&op, packer.add(std::max<int64_t>(*bytes, PP_ALIGNMENT), order[&op],
                           order[&op])});
    }
    stage.scratch = std::max(stage.scratch, packer.pack());
    for (auto [value, block] : locals)
      places[value] = buffer(Area::Scratch, packer.offsetOf(block));
    for (auto [op, block] : scratchpads)
      op->setAttr("pp.scratchpad",
                  buffer(Area::Scratch, packer.offsetOf(block)));

    for (Operation &op : body.without_terminator())
      setBuffers(stage, &op, places);
    return success();
  }

  /// The number of a kernel in the stage's table.
  IntegerAttr addKernel(StagePlan &stage, const std::string &descriptor,
                        int64_t scratchpad) {
    StringAttr key = builder.getStringAttr(descriptor);
    stage.library.insert({key, scratchpad});
    return builder.getI64IntegerAttr(
        std::distance(stage.library.begin(), stage.library.find(key)));
  }

  void setBuffers(StagePlan &stage, Operation *op,
                  DenseMap<Value, BufferAttr> &places) {
    auto kernel = cast<KernelOpInterface>(op);
    if (FlatSymbolRefAttr symbol = kernel.getParameter())
      places[op->getResult(0)] = placeOf(stage, symbolName(symbol));
    else if (ElementsAttr constant = constantOf(op))
      places[op->getResult(0)] = placeOf(stage, constantNames[constant]);
    else if (isView(op))
      places[op->getResult(0)] = places.lookup(op->getOperand(0));
    SmallVector<Attribute> buffers, states;
    for (Value result : op->getResults())
      buffers.push_back(places.lookup(result));
    op->setAttr(buffersAttrName, builder.getArrayAttr(buffers));
    for (StateReference state : kernel.getUpdatedStates()) {
      StringAttr name = symbolName(state.symbol);
      switch (state.kind) {
      case StateKind::Value:
        states.push_back(placeOf(stage, name));
        break;
      case StateKind::Gradient:
        states.push_back(
            buffer(Area::Gradients, stage.parameterOffsets.lookup(name)));
        break;
      case StateKind::Statistics:
        states.push_back(
            buffer(Area::Statistics, stage.statisticsOffsets.lookup(name)));
        break;
      }
    }
    if (!states.empty())
      op->setAttr("pp.state_buffers", builder.getArrayAttr(states));
  }

  BufferAttr placeOf(StagePlan &stage, StringAttr name) {
    auto trained = stage.parameterOffsets.find(name);
    if (trained != stage.parameterOffsets.end())
      return buffer(Area::Parameters, trained->second);
    return buffer(Area::Buffers, stage.bufferOffsets.lookup(name));
  }

  //===--------------------------------------------------------------------===//
  // Areas
  //===--------------------------------------------------------------------===//

  void placeChannels(StagePlan &stage) {
    auto channels = llvm::to_vector(module.getOps<ChannelOp>());
    for (auto [op, assigned] : llvm::zip(channels, slots.channels)) {
      int64_t bytes = aligned(getTensorBytes(op.getType()));
      auto place = [&](StringRef name, int64_t count) {
        op->setAttr(name, builder.getI64IntegerAttr(
                              stage.channels.take(bytes * count)));
      };
      if (static_cast<int64_t>(op.getFrom()) == stage.number)
        place("send_offset", assigned.sendCount);
      if (static_cast<int64_t>(op.getTo()) == stage.number)
        place("receive_offset", assigned.receiveCount);
    }
  }

  /// The kernel that decides whether a step is skipped, with the numbers of the
  /// optimizer's scalars that it reads and sets.
  std::string describeLossScale() {
    std::string text =
        "loss_scale ranks=" +
        std::to_string(scheduleOp.getRanks().size() * scheduleOp.getReplicas());
    for (auto [index, scalar] :
         llvm::enumerate(optimizerScalars.getAsRange<DictionaryAttr>())) {
      std::string number = std::to_string(index);
      if (scalar.get("initial_scale"))
        text += " scale=" + number;
      else if (scalar.get("is_skipped"))
        text += " skipped=" + number;
      else if (cast<StringAttr>(scalar.get("name")) == "growth_interval")
        text += " interval=" + number;
    }
    return text;
  }

  /// Of values that all replicas add up, each adds up a part, and has places
  /// for this part of the others.
  int64_t exchangeBytes(int64_t bytes) {
    auto replicas = static_cast<int64_t>(scheduleOp.getReplicas());
    return (replicas - 1) * aligned(llvm::divideCeil(bytes, replicas));
  }

  void writeMemory(StagePlan &stage) {
    bool recomputes = scheduleOp.getCheckpoint() != "never";
    bool training = isTraining(step);
    int64_t slotCount = slots.stages[stage.number].count;
    int64_t gradients = training ? stage.parameters.bytes : 0;
    int64_t loss = stage.computesLoss
                       ? aligned(scheduleOp.getMicrobatches() * sizeof(float))
                       : 0;
    int64_t statisticsInDiscard = stage.discard.bytes;
    int64_t discard =
        recomputes ? stage.discard.bytes + stage.statistics.bytes : 0;
    int64_t total = 0;
    SmallVector<NamedAttribute> areas;
    auto area = [&](StringRef name, int64_t bytes,
                    ArrayRef<std::pair<StringRef, int64_t>> more = {}) {
      SmallVector<NamedAttribute> entries = {
          builder.getNamedAttr("offset", builder.getI64IntegerAttr(total)),
          builder.getNamedAttr("bytes", builder.getI64IntegerAttr(bytes))};
      for (auto [key, value] : more)
        entries.push_back(
            builder.getNamedAttr(key, builder.getI64IntegerAttr(value)));
      areas.push_back(
          builder.getNamedAttr(name, builder.getDictionaryAttr(entries)));
      total += bytes;
    };
    area("parameters", stage.parameters.bytes);
    area("gradients", gradients);
    area("optimizer", optimizerStates * gradients);
    area("buffers", stage.buffers.bytes);
    area("statistics", stage.statistics.bytes);
    area("residuals", slotCount * stage.residuals.bytes,
         {{"slots", slotCount}, {"slot_bytes", stage.residuals.bytes}});
    area("scratch", stage.scratch);
    area("channels", stage.channels.bytes);
    area("discard", discard);
    area("loss", loss);
    if (hasLossScale)
      area("loss_scale", PP_ALIGNMENT);
    if (training && scheduleOp.getReplicas() > 1)
      area("exchange",
           exchangeBytes(gradients) + exchangeBytes(stage.statistics.bytes));

    auto offsets = [&](auto &map) {
      SmallVector<NamedAttribute> entries;
      for (auto &[name, offset] : map)
        entries.push_back(
            builder.getNamedAttr(name, builder.getI64IntegerAttr(offset)));
      return builder.getDictionaryAttr(entries);
    };
    IntegerAttr optimizerKernel;
    int64_t parameterCount = stage.parameters.bytes / sizeof(float);
    if (auto launch =
            module->getAttrOfType<StringAttr>(optimizerLaunchAttrName);
        launch && parameterCount)
      optimizerKernel = addKernel(
          stage,
          (launch.getValue() + " count=" + llvm::Twine(parameterCount)).str(),
          /*scratchpad=*/0);
    IntegerAttr finiteKernel, finiteLossKernel, lossScaleKernel;
    if (hasLossScale) {
      if (stage.computesLoss)
        finiteLossKernel = addKernel(
            stage,
            ("check_finite count=" + llvm::Twine(scheduleOp.getMicrobatches()))
                .str(),
            0);
      if (parameterCount)
        finiteKernel = addKernel(
            stage, ("check_finite count=" + llvm::Twine(parameterCount)).str(),
            0);
      lossScaleKernel = addKernel(stage, describeLossScale(), 0);
    }
    SmallVector<Attribute> library, discards;
    for (auto &[descriptor, bytes] : stage.library)
      library.push_back(builder.getDictionaryAttr(
          {builder.getNamedAttr("descriptor", descriptor),
           builder.getNamedAttr("scratchpad",
                                builder.getI64IntegerAttr(bytes))}));
    for (int64_t offset : stage.discardOffsets)
      discards.push_back(builder.getI64IntegerAttr(offset));
    OpBuilder at(scheduleOp);
    auto memory = MemoryOp::create(
        at, step.getLoc(), stage.number, total,
        builder.getDictionaryAttr(areas),
        builder.getDictionaryAttr(
            {builder.getNamedAttr("parameters",
                                  offsets(stage.parameterOffsets)),
             builder.getNamedAttr("buffers", offsets(stage.bufferOffsets)),
             builder.getNamedAttr("statistics",
                                  offsets(stage.statisticsOffsets))}));
    memory->setAttr("library", builder.getArrayAttr(library));
    memory->setAttr("discards", builder.getArrayAttr(discards));
    if (optimizerKernel)
      memory->setAttr("optimizer_kernel", optimizerKernel);
    if (finiteKernel)
      memory->setAttr("finite_kernel", finiteKernel);
    if (finiteLossKernel)
      memory->setAttr("finite_loss_kernel", finiteLossKernel);
    if (lossScaleKernel)
      memory->setAttr("loss_scale_kernel", lossScaleKernel);
    memory->setAttr("discard_statistics",
                    builder.getI64IntegerAttr(statisticsInDiscard));
  }

  ModuleOp module;
  SymbolTable symbols;
  func::FuncOp step;
  ScheduleOp scheduleOp;
  Builder builder;
  SmallVector<Crossing> crossings;
  planner::SlotAssignment slots;
  SmallVector<StagePlan, 0> stages;
  int64_t optimizerStates = 0;
  ArrayAttr optimizerScalars;
  bool hasLossScale = false;
  DenseSet<std::pair<int64_t, StringAttr>> trainedHere;
  llvm::MapVector<Attribute, StringAttr> constantNames;
};

struct PlanMemory : pipeline::impl::PlanMemoryBase<PlanMemory> {
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<PPDialect, ml_program::MLProgramDialect>();
  }
  void runOnOperation() override {
    func::FuncOp step = findStep(getOperation());
    ScheduleOp schedule = step ? findSchedule(getOperation()) : ScheduleOp();
    if (!schedule ||
        failed(MemoryPlanner(getOperation(), step, schedule).run()))
      signalPassFailure();
  }
};

} // namespace
