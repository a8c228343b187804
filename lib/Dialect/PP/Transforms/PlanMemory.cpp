//===- PlanMemory.cpp - Give every value a place --------------------------===//
//
//   one allocation of a stage
//   | parameters | gradients | optimizer | buffers | prepared | statistics |
//   | residuals: slot 0, slot 1, ... | scratch | channels: slots | discard |
//   | loss | exchange, between replicas and of tied gradients | versions:
//   parameters and prepared of slot 1, of slot 2, ... | shared, between virtual
//   workers |
//
// Values of a stage's phase go to
//   residuals  if a later phase of the stage reads them (a fixed offset in the
//              micro-batch's slot), or prepared, if the phase is prepare,
//   output k   if they leave the stage (a slot of a channel, a fetch, the
//   loss), scratch    otherwise, packed by lifetime: two values share bytes if
//   no
//              operation needs both.
//
//===----------------------------------------------------------------------===//

#include "AssignSlots.h"
#include "IntervalPacker.h"
#include "KernelTable.h"
#include "LibraryScratchpad.h"
#include "StepGraph.h"
#include "cpu/Orthogonalizer.h"
#include "plan/OptimizerStates.h"
#include "plan/ParameterScalars.h"
#include "plan/SharePlan.h"
#include "pp/Dialect/PP/Transforms/Passes.h"
#include "pp/Dialect/PP/Transforms/Ties.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pp/Planner/Schedule/Rolling.h"
#include "pprt/pprt.h"

#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"
#include <map>
#include <set>

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
  StagePlan(int64_t number, MLIRContext *context)
      : number(number), kernels(context) {}

  int64_t number;
  SmallVector<StageOp> phases;
  Layout parameters, buffers, prepared, statistics, residuals, channels,
      discard;
  int64_t scratch = 0;
  bool computesLoss = false;
  llvm::MapVector<StringAttr, int64_t> parameterOffsets, bufferOffsets,
      statisticsOffsets;
  /// Behind the gradients that lie as the parameters do: further parts of tied
  /// ones, by name and number.
  Layout parts;
  std::map<std::pair<StringRef, int64_t>, int64_t> partOffsets;
  /// Of parts of other stages, which are added up here.
  int64_t remoteParts = 0;
  /// In the areas prepared and residuals.
  DenseMap<Value, BufferAttr> kept;
  KernelTable kernels;
  SmallVector<int64_t> discardOffsets;
};

class MemoryPlanner {
public:
  MemoryPlanner(ModuleOp module, func::FuncOp step, ScheduleOp schedule)
      : module(module), symbols(module), step(step), scheduleOp(schedule),
        channels(module), builder(module.getContext()) {}

  LogicalResult run() {
    slots = assignSlots(scheduleOp, channels);
    if (failed(verifyRollingSlots()))
      return failure();
    for (int64_t number = 0; number < countStages(step); ++number)
      stages.emplace_back(number, module.getContext());
    step.walk([&](StageOp op) { stages[op.getStage()].phases.push_back(op); });
    for (auto function : module.getOps<func::FuncOp>())
      if (auto attribute = function->getAttrOfType<step::OptimizerAttr>(
              step::optimizerAttrName)) {
        optimizer = attribute;
        trainedBytes = step::getOptimizedType(function).getWidth() / 8;
      }
    for (unsigned index = 0; index < step.getNumArguments(); ++index)
      hasLossScale |= step::getRole(step, index) == step::Role::LossScale;
    if (hasLossScale && !optimizer)
      return step.emitError("is fed a loss scale, but has no optimizer; run "
                            "nn-attach-optimizer first");
    if (failed(placeParts()))
      return failure();
    for (StagePlan &stage : stages)
      if (failed(planStage(stage)))
        return failure();
    return success();
  }

private:
  //===--------------------------------------------------------------------===//
  // One stage
  //===--------------------------------------------------------------------===//

  /// Of a run without a flush, whose lists do not name slots.
  LogicalResult verifyRollingSlots() {
    std::vector<std::string> faults;
    if (!scheduleOp.getVersions())
      return success();
    for (const planner::Schedule &worker : toWorkers(scheduleOp, channels)) {
      planner::SlotAssignment own =
          spreadSlots(worker, channels.toPlanner(), slots);
      for (auto [channel, places] :
           llvm::zip_equal(worker.channels, own.channels))
        if (!worker.crossesRanks(channel)) {
          places.sendCount = 0;
          places.send.clear();
        }
      if (faults.empty())
        faults = planner::verifyRollingSlots(worker, own);
    }
    for (const std::string &fault : faults)
      scheduleOp.emitOpError() << "has wrong slots: " << fault;
    return success(faults.empty());
  }

  LogicalResult placeParts() {
    auto ties = findTiedParameters(module, step);
    if (failed(ties))
      return failure();
    for (const TiedParameter &tie : *ties)
      for (auto [part, number] : llvm::enumerate(tie.stages)) {
        if (tie.isRemote(part))
          stages[tie.home()].remoteParts += aligned(tie.bytes);
        if (tie.firstOfStage(part) != part)
          stages[number].partOffsets[{tie.symbol.getValue(), part}] =
              stages[number].parts.take(tie.bytes);
      }
    return success();
  }

  LogicalResult planStage(StagePlan &stage) {
    for (StageOp phase : stage.phases)
      if (failed(placeSymbols(stage, phase)))
        return failure();
    placeKept(stage);
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
          if (!scheduleOp.getVersions() &&
              (scheduleOp.getReplicasOf(stage.number) > 1 ||
               scheduleOp.getLanes() > 1) &&
              bytes != cast<ShapedType>(global.getType()).getNumElements() *
                           trainedBytes)
            return op.emitOpError() << "updates '" << name.getValue() << "' of "
                                    << global.getType()
                                    << ", but replicas and lanes add up "
                                       "statistics of the type of "
                                       "the parameters only";
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
  void placeKept(StagePlan &stage) {
    for (StageOp phase : stage.phases)
      for (Value input : phase.getInputs()) {
        auto producer = input.getDefiningOp<StageOp>();
        if (!producer || producer.getStage() != phase.getStage() ||
            stage.kept.count(input))
          continue;
        bool isPrepared = producer.getPhase() == Phase::Prepare;
        Layout &layout = isPrepared ? stage.prepared : stage.residuals;
        stage.kept[input] =
            buffer(isPrepared ? Area::Prepared : Area::Residuals,
                   layout.take(getTensorBytes(input.getType())));
      }
  }

  LogicalResult planPhase(StagePlan &stage, StageOp phase) {
    Block &body = phase.getBody().front();
    DenseMap<Value, BufferAttr> places;
    SmallVector<Attribute> argumentBuffers, copies;
    int64_t inputs = 0;
    for (auto [argument, input] :
         llvm::zip(body.getArguments(), phase.getInputs())) {
      BufferAttr place = stage.kept.lookup(input);
      if (!place)
        place = buffer(Area::Input, inputs++);
      places[argument] = place;
      argumentBuffers.push_back(place);
    }
    SmallVector<int64_t> outputBytes;
    for (auto [index, value] : llvm::enumerate(phase.getReturn().getValues()))
      placeOutputs(stage, phase, index, value, places, outputBytes, copies);
    if (failed(placeLocals(stage, phase, places)))
      return failure();
    if (phase.getPhase() == Phase::Forward) {
      stage.discard = Layout();
      stage.discardOffsets.clear();
      for (int64_t bytes : outputBytes)
        stage.discardOffsets.push_back(stage.discard.take(bytes));
    }
    if (getTarget(module).isGpu())
      for (Attribute &copy : copies)
        copy = onDevice(stage, phase, cast<CopyAttr>(copy));
    phase.setArgumentBuffersAttr(builder.getArrayAttr(argumentBuffers));
    phase.setCopiesAttr(builder.getArrayAttr(copies));
    return success();
  }

  BufferAttr buffer(Area area, int64_t offset) {
    return BufferAttr::get(module.getContext(), area, offset);
  }

  void placeOutputs(StagePlan &stage, StageOp phase, size_t index, Value value,
                    DenseMap<Value, BufferAttr> &places,
                    SmallVectorImpl<int64_t> &outputBytes,
                    SmallVectorImpl<Attribute> &copies) {
    int64_t bytes = getTensorBytes(value.getType());
    SmallVector<BufferAttr> destinations;
    if (BufferAttr place = stage.kept.lookup(phase.getOutputs()[index]))
      destinations.push_back(place);
    for (Attribute target : phase.getTargetsOf(index)) {
      stage.computesLoss |= cast<EndAttr>(target).getKind() == EndKind::Loss;
      destinations.push_back(buffer(Area::Output, outputBytes.size()));
      outputBytes.push_back(bytes);
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
        copies.push_back(CopyAttr::get(module.getContext(), index, destination,
                                       std::optional<int64_t>()));
    }
  }

  /// A GPU copies with a kernel of the device.
  CopyAttr onDevice(StagePlan &stage, StageOp phase, CopyAttr copy) {
    Value value = phase.getReturn().getValues()[copy.getResult()];
    std::optional<int64_t> kernel =
        stage.kernels
            .add("copy bytes=" + llvm::Twine(getTensorBytes(value.getType())))
            .getInt();
    return CopyAttr::get(module.getContext(), copy.getResult(), copy.getTo(),
                         kernel);
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
      std::string descriptor = launch
                                   ? launch.str()
                                   : divideKernel(kernel.getLibraryDescriptor(),
                                                  scheduleOp.getThreads());
      if (!launch && phase.getPhase() == Phase::BackwardWeight)
        descriptor = addTogether(descriptor, weightsTogether(stage.number));
      FailureOr<int64_t> bytes = scratchpadOf(&op, descriptor);
      if (failed(bytes))
        return failure();
      op.setAttr(libraryAttrName, stage.kernels.add(descriptor, *bytes));
      if (std::string first = kernel.getFirstDescriptor();
          !first.empty() && writesGradients(stage.number)) {
        first = divideKernel(first, scheduleOp.getThreads());
        FailureOr<int64_t> other = scratchpadOf(&op, first);
        if (failed(other))
          return failure();
        op.setAttr(firstLibraryAttrName, stage.kernels.add(first, *other));
        bytes = std::max(*bytes, *other);
      }
      scratchpads.push_back(
          {&op, packer.add(std::max<int64_t>(*bytes, PP_ALIGNMENT), order[&op],
                           order[&op])});
    }
    stage.scratch = std::max(stage.scratch, packer.pack());
    for (auto [value, block] : locals)
      places[value] = buffer(Area::Scratch, packer.offsetOf(block));
    for (auto [op, block] : scratchpads)
      op->setAttr(scratchpadAttrName,
                  buffer(Area::Scratch, packer.offsetOf(block)));

    for (Operation &op : body.without_terminator())
      setBuffers(stage, &op, places);
    return success();
  }

  static FailureOr<int64_t> scratchpadOf(Operation *op,
                                         const std::string &descriptor) {
    if (!op->hasAttr(launchAttrName))
      return getScratchpadBytes(op, descriptor);
    auto bytes = op->getAttrOfType<IntegerAttr>(launchScratchpadAttrName);
    if (!bytes)
      return op->emitOpError() << "has '" << launchAttrName << "', but no '"
                               << launchScratchpadAttrName << "'";
    return bytes.getInt();
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
      case StateKind::Gradient: {
        auto part = stage.partOffsets.find({name.getValue(), state.part});
        states.push_back(buffer(Area::Gradients,
                                part == stage.partOffsets.end()
                                    ? stage.parameterOffsets.lookup(name)
                                    : stage.parameters.bytes + part->second));
        break;
      }
      case StateKind::Statistics:
        states.push_back(
            buffer(Area::Statistics, stage.statisticsOffsets.lookup(name)));
        break;
      }
    }
    if (!states.empty())
      op->setAttr(stateBuffersAttrName, builder.getArrayAttr(states));
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
    size_t number = 0;
    for (ChannelOp op : channels.all()) {
      const planner::ChannelSlots &assigned = slots.channels[number++];
      int64_t bytes = aligned(getTensorBytes(op.getType()));
      if (static_cast<int64_t>(op.getFrom()) == stage.number)
        op.setSendOffset(stage.channels.take(bytes * assigned.sendCount));
      if (static_cast<int64_t>(op.getTo()) == stage.number)
        op.setReceiveOffset(stage.channels.take(bytes * assigned.receiveCount));
    }
  }

  /// Of values that all replicas add up, each adds up a part, and has places
  /// for this part of the others.
  static int64_t exchangeBytes(int64_t bytes, int64_t replicas) {
    return (replicas - 1) * aligned(llvm::divideCeil(bytes, replicas));
  }

  /// The shapes of what the stage trains, in the order of its parameters.
  std::vector<runtime::Shape> trainedShapes(const StagePlan &stage) {
    std::vector<runtime::Shape> shapes;
    for (auto [name, offset] : stage.parameterOffsets) {
      auto global = symbols.lookup<ml_program::GlobalOp>(name);
      ArrayRef<int64_t> shape =
          cast<RankedTensorType>(global.getType()).getShape();
      shapes.emplace_back(shape.begin(), shape.end());
    }
    return shapes;
  }

  int64_t stateBytes(const StagePlan &stage, int64_t parameters) {
    if (!optimizer)
      return 0;
    runtime::DataType type = trainedBytes == sizeof(double)
                                 ? runtime::DataType::F64
                                 : runtime::DataType::F32;
    return static_cast<int64_t>(runtime::stateBytes(
        optimizer.getStateNames(), type, trainedShapes(stage), parameters));
  }

  /// What each thread takes for the step of the largest matrix, if matrices are
  /// orthogonalized.
  int64_t directionBytes(const StagePlan &stage) {
    if (!optimizer || !optimizer.findScalar(runtime::orthogonalizeName))
      return 0;
    std::vector<runtime::Shape> shapes = trainedShapes(stage);
    std::set<runtime::Shape> distinct(shapes.begin(), shapes.end());
    runtime::setKernelThreads(1);
    uint64_t most = 0;
    for (const runtime::Shape &shape : distinct)
      if (shape.size() == 2 && shape[0] * shape[1] != 0)
        most = std::max(
            most, runtime::Orthogonalizer(shape[0], shape[1]).scratchBytes());
    return static_cast<int64_t>(most * scheduleOp.getThreads());
  }

  void writeMemory(StagePlan &stage) {
    bool recomputes = scheduleOp.getCheckpoint() != CheckpointMode::Never;
    bool training = isTraining(step);
    int64_t slotCount = slots.stages[stage.number].count;
    int64_t parameters = training ? stage.parameters.bytes : 0;
    int64_t gradients = parameters + stage.parts.bytes;
    int64_t loss =
        stage.computesLoss
            ? aligned(scheduleOp.getMicrobatchesOf(stage.number) * trainedBytes)
            : 0;
    StepWork work{stage.parameters.bytes / trainedBytes, stage.computesLoss,
                  hasLossScale, trainedBytes == sizeof(double)};
    StepKernels kernels =
        addStepKernels(stage.kernels, work, optimizer, scheduleOp);
    stage.scratch = std::max(
        {stage.scratch, directionBytes(stage), aligned(kernels.scratchpad)});
    int64_t total = 0;
    SmallVector<Attribute> areas;
    auto area = [&](MemoryArea area, int64_t bytes) {
      areas.push_back(
          AreaRangeAttr::get(module.getContext(), area, total, bytes));
      total += bytes;
    };
    area(MemoryArea::Parameters, stage.parameters.bytes);
    area(MemoryArea::Gradients, gradients);
    area(MemoryArea::Optimizer, stateBytes(stage, parameters));
    area(MemoryArea::Buffers, stage.buffers.bytes);
    if (stage.prepared.bytes)
      area(MemoryArea::Prepared, stage.prepared.bytes);
    area(MemoryArea::Statistics, stage.statistics.bytes);
    area(MemoryArea::Residuals, slotCount * stage.residuals.bytes);
    area(MemoryArea::Scratch, stage.scratch);
    area(MemoryArea::Channels, stage.channels.bytes);
    area(MemoryArea::Discard,
         recomputes ? stage.discard.bytes + stage.statistics.bytes : 0);
    area(MemoryArea::Loss, loss);
    if (hasLossScale)
      area(MemoryArea::LossScale, PP_ALIGNMENT);
    int64_t replicas = scheduleOp.getReplicasOf(stage.number);
    auto distance = scheduleOp.getClockDistance();
    if (training && !distance && (replicas > 1 || stage.remoteParts))
      area(MemoryArea::Exchange,
           exchangeBytes(gradients, replicas) +
               exchangeBytes(stage.statistics.bytes, replicas) +
               stage.remoteParts);
    if (auto versions = scheduleOp.getVersions())
      area(MemoryArea::Versions,
           ((*versions)[stage.number] - 1) *
               (stage.parameters.bytes + stage.prepared.bytes));

    if (auto lanes = static_cast<int64_t>(scheduleOp.getLanes());
        training && lanes > replicas)
      area(MemoryArea::Lanes,
           (lanes / replicas - 1) * (gradients + stage.statistics.bytes));

    bool isLate = planner::gradientDelay(toPlanner(scheduleOp, channels),
                                         planner::WeightRule::Latest,
                                         static_cast<int>(stage.number)) > 0;
    if (scheduleOp.getCorrection() && isLate)
      area(MemoryArea::Corrected,
           2 * stage.parameters.bytes + stage.prepared.bytes);
    if (distance)
      area(MemoryArea::Shared,
           static_cast<int64_t>(
               runtime::SharedLayout(stage.parameters.bytes,
                                     static_cast<unsigned>(replicas),
                                     static_cast<unsigned>(*distance))
                   .bytes()));

    auto places = [&](auto &offsets) {
      SmallVector<Attribute> entries;
      for (auto &[name, offset] : offsets)
        entries.push_back(PlaceAttr::get(module.getContext(),
                                         FlatSymbolRefAttr::get(name), offset));
      return builder.getArrayAttr(entries);
    };
    OpBuilder at(scheduleOp);
    auto count = [&](int64_t value) { return at.getI64IntegerAttr(value); };
    MemoryOp::create(
        at, step.getLoc(), count(stage.number), count(total),
        builder.getArrayAttr(areas), count(slotCount),
        count(stage.residuals.bytes), places(stage.parameterOffsets),
        places(stage.bufferOffsets), places(stage.statisticsOffsets),
        stage.kernels.toAttribute(),
        builder.getDenseI64ArrayAttr(stage.discardOffsets),
        count(stage.discard.bytes), kernels.optimizer, kernels.finite,
        kernels.finiteLoss, kernels.lossScale,
        writesGradients(stage.number) ? builder.getUnitAttr() : UnitAttr(),
        weightsTogether(stage.number) > 1 ? count(weightsTogether(stage.number))
                                          : IntegerAttr());
  }

  /// Whether a stage adds up gradients, and its code can tell the first
  /// micro-batch: kernels on a GPU are launched in graphs that all
  /// micro-batches share.
  bool writesGradients(int64_t number) {
    auto [known, isNew] = writers.try_emplace(number, false);
    if (isNew)
      known->second = findWriters(number);
    return known->second;
  }

  bool findWriters(int64_t number) {
    if (getTarget(module).isGpu())
      return false;
    bool writes = false;
    for (auto stage : step.getOps<StageOp>()) {
      if (static_cast<int64_t>(stage.getStage()) != number)
        continue;
      for (auto kernel : stage.getBody().getOps<KernelOpInterface>())
        for (const StateReference &state : kernel.getUpdatedStates()) {
          if (state.kind != StateKind::Gradient)
            continue;
          if (!isBackward(stage.getPhase()))
            return false;
          writes = true;
        }
    }
    return writes;
  }

  /// How many W of a stage stand side by side in the lists of its ranks, at
  /// most; 1 where they cannot run together: in graphs of a GPU, where steps
  /// overlap, or if W returns values.
  int64_t weightsTogether(int64_t number) {
    auto [known, isNew] = together.try_emplace(number, 1);
    if (!isNew || getTarget(module).isGpu() || scheduleOp.getVersions())
      return known->second;
    for (StageOp phase : stages[number].phases)
      if (phase.getPhase() == Phase::BackwardWeight &&
          !phase.getOutputs().empty())
        return known->second;
    for (auto rank : scheduleOp.getRanks().getAsRange<ArrayAttr>()) {
      int64_t run = 0;
      for (auto action : rank.getAsRange<ActionAttr>()) {
        bool isOne = action.getKind() == ActionKind::BackwardWeight &&
                     action.getStage() == number;
        run = isOne ? run + 1 : 0;
        known->second =
            std::max(known->second, std::min<int64_t>(run, PP_MOST_TOGETHER));
      }
    }
    return known->second;
  }

  ModuleOp module;
  SymbolTable symbols;
  func::FuncOp step;
  ScheduleOp scheduleOp;
  ChannelTable channels;
  Builder builder;
  planner::SlotAssignment slots;
  SmallVector<StagePlan, 0> stages;
  step::OptimizerAttr optimizer;
  int64_t trainedBytes = sizeof(float); // of a parameter, and of the loss
  bool hasLossScale = false;
  DenseSet<std::pair<int64_t, StringAttr>> trainedHere;
  DenseMap<int64_t, bool> writers;     // by stage, see writesGradients
  DenseMap<int64_t, int64_t> together; // by stage, see weightsTogether
  llvm::MapVector<Attribute, StringAttr> constantNames;
};

struct PlanMemory : pipeline::impl::PlanMemoryBase<PlanMemory> {
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<PPDialect, ml_program::MLProgramDialect>();
  }
  void runOnOperation() override {
    func::FuncOp step = findStep(getOperation());
    ScheduleOp schedule = step ? findSchedule(getOperation()) : ScheduleOp();
    if (!schedule || failed(verifySchedule(schedule, step)) ||
        failed(MemoryPlanner(getOperation(), step, schedule).run()))
      signalPassFailure();
  }
};

} // namespace
